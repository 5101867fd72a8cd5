"""What the tests of cellgrad.torch share, beside framework_tap.py: a Python that has PyTorch, and one of its own for what a test starts."""
import os
import subprocess
import sys

import framework_tap

framework_tap.need("torch", "PyTorch")
main = framework_tap.main


def python(*arguments, **environment):
    """The status of a Python of its own, and what it prints, both streams in one."""
    done = subprocess.run([sys.executable, *arguments], env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    return done.returncode, done.stdout
