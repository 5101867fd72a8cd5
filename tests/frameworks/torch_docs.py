#!/usr/bin/env python3
"""The examples of cellgrad.torch run: those of every docstring, and of its README.md.  Every public class and function has an example,
every public method a docstring.  Prints TAP."""
import doctest
import glob
import importlib
import inspect
import os
import re
import unittest

import torch_tap
from py_tap import PACKAGE

import cellgrad.torch as ours

FOLDER = os.path.join(PACKAGE, "cellgrad", "torch")
MODULES = sorted(os.path.basename(path)[:-3] for path in glob.glob(os.path.join(FOLDER, "[_a-z]*.py")))


class Documents(unittest.TestCase):
    def test_examples(self):
        """The examples of the docstrings run"""
        attempted = 0
        for module in MODULES:
            failures, runner = [], doctest.DocTestRunner(optionflags=doctest.REPORT_NDIFF)
            name = "cellgrad.torch" if module == "__init__" else f"cellgrad.torch.{module}"
            for test in doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(name)):
                runner.run(test, out=failures.append)
            self.assertFalse(failures, "".join(failures))
            attempted += runner.tries
        print(f"# {attempted} lines of examples")
        self.assertGreater(attempted, 30)

    def test_docstrings(self):
        """Every public class and function has an example, every public method a docstring"""
        for name in ours.__all__:
            thing = getattr(ours, name)
            self.assertIn(">>> ", thing.__doc__ or "", name)
            for method, of in inspect.getmembers(thing, inspect.isfunction):
                if not method.startswith("_") and of.__module__.startswith("cellgrad."):
                    self.assertTrue(of.__doc__, f"{name}.{method}")

    def test_readme(self):
        """The Python of README.md runs"""
        with open(os.path.join(FOLDER, "README.md"), encoding="utf-8") as file:
            blocks = re.findall(r"^```python\n(.*?)^```$", file.read(), re.M | re.S)
        self.assertGreaterEqual(len(blocks), 1)
        names = {}
        for k, block in enumerate(blocks):
            exec(compile(block, f"README.md, block {k + 1}", "exec"), names)  # pylint: disable=exec-used


if __name__ == "__main__":
    torch_tap.main()
