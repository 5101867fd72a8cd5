# SPDX-License-Identifier: Apache-2.0
"""The code that the tests of cellgrad.torch share, beside framework_tap.py: it finds a Python that has PyTorch."""
import framework_tap
from framework_tap import main, py_tap, python

__all__ = ["main", "py_tap", "python"]
framework_tap.need("torch", "PyTorch")
