#!/usr/bin/env python3
"""examples/python/ddp.py on 2 and 3 processes; the share of the processors that each takes.  Prints TAP."""
import os
import subprocess
import sys
import unittest

import torch_tap
from py_tap import SOURCE

from cellgrad.torch import _device


class Processes(unittest.TestCase):
    def test_example(self):
        """ddp.py: weights equal to the bit on all ranks, the gradient of the whole batch within 1e-5"""
        program = os.path.join(SOURCE, "examples", "python", "ddp.py")
        for ranks in (2, 3):
            done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}", program],
                                  capture_output=True, text=True, check=False, timeout=300)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn(f"{ranks} ranks: weights equal to the bit: yes", done.stdout)
            print("# " + done.stdout.strip())

    def test_threads(self):
        """LOCAL_WORLD_SIZE divides the processors, unless CELLGRAD_CPU_THREADS or a backend is named"""
        count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        for expected, variables in ((f"cpu:threads={max(1, count // 2)}", {"LOCAL_WORLD_SIZE": "2"}), ("cpu", {"LOCAL_WORLD_SIZE": "1"}),
                                    ("cpu:threads=1", {"LOCAL_WORLD_SIZE": "100000"}), ("cpu", {"LOCAL_WORLD_SIZE": "two"}),
                                    ("cpu", {"LOCAL_WORLD_SIZE": "2", "CELLGRAD_CPU_THREADS": "3"}),
                                    ("opencl", {"LOCAL_WORLD_SIZE": "2", "CELLGRAD_BACKEND": "opencl"})):
            names = ("LOCAL_WORLD_SIZE", "CELLGRAD_CPU_THREADS", "CELLGRAD_BACKEND")
            before = {name: os.environ.pop(name, None) for name in names}
            try:
                os.environ.update(variables)
                self.assertEqual(_device.cpu_name(), expected)
            finally:
                for name in names:
                    os.environ.pop(name, None)
                os.environ.update({name: value for name, value in before.items() if value is not None})


if __name__ == "__main__":
    torch_tap.main()
