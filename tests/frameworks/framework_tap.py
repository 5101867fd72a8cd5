# SPDX-License-Identifier: Apache-2.0
"""The code that the tests of the frameworks share: it finds a Python that has the framework, makes the Python package of this source
importable there, and prints results of unittest as TAP.

LIBRARY: cellgrad's shared library; srcdir: the source.  frameworks.sh makes virtual environments that have the frameworks.  Under a Python
without the framework a test starts again under the Python that CELLGRAD_TEST_PYTHON names.  If both Pythons lack the framework, the test is
skipped, or fails if CELLGRAD_TEST_REQUIRE has the framework's module.
"""
import importlib.util
import os
import subprocess
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))

import py_tap  # noqa: E402

main = py_tap.main


def need(module, name):
    """Continues the test in a Python that has a framework's module, with the package of this source and the library of this build; if there
    is no such Python, the test is skipped or, if it is required, fails.  name: the framework's name for the message."""
    if importlib.util.find_spec(module) is None:
        python = os.environ.get("CELLGRAD_TEST_PYTHON")
        if python and python != sys.executable and py_tap.has(python, module):
            os.execv(python, [python, *sys.argv])
        py_tap.skip_all(f"no python3 has {name}", module)
    os.environ["CELLGRAD_LIBRARY"] = os.environ.get("LIBRARY", os.path.abspath(".libs/libcellgrad.so"))
    os.environ.setdefault("CELLGRAD_BACKEND", "cpu")
    os.environ["PYTHONPATH"] = py_tap.PACKAGE
    sys.path.insert(0, py_tap.PACKAGE)


def python(*arguments, **environment):
    """Runs this Python in a new process; returns the process's exit status, and its standard output and standard error as one text."""
    done = subprocess.run([sys.executable, *arguments], env={**os.environ, **environment}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, check=False)
    return done.returncode, done.stdout
