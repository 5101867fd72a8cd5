#!/usr/bin/env python3
"""The examples of cellgrad.tensorflow run: those of every docstring, and of its README.md.  Every public function has one.  Prints TAP."""
import doctest
import glob
import importlib
import os
import re
import unittest

import tensorflow_tap
from py_tap import PACKAGE

import cellgrad.tensorflow as ours

FOLDER = os.path.join(PACKAGE, "cellgrad", "tensorflow")
MODULES = sorted(os.path.basename(path)[:-3] for path in glob.glob(os.path.join(FOLDER, "[_a-z]*.py")))


class Documents(unittest.TestCase):
    def tearDown(self):
        ours.disable_keras()

    def test_examples(self):
        """The examples of the docstrings run"""
        attempted = 0
        for module in MODULES:
            failures, runner = [], doctest.DocTestRunner(optionflags=doctest.REPORT_NDIFF)
            name = "cellgrad.tensorflow" if module == "__init__" else f"cellgrad.tensorflow.{module}"
            for test in doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(name)):
                runner.run(test, out=failures.append)
            self.assertFalse(failures, "".join(failures))
            attempted += runner.tries
        print(f"# {attempted} lines of examples")
        self.assertGreater(attempted, 15)

    def test_docstrings(self):
        """Every public function has an example"""
        for name in ours.__all__:
            self.assertIn(">>> ", getattr(ours, name).__doc__ or "", name)

    def test_readme(self):
        """The Python of README.md runs"""
        with open(os.path.join(FOLDER, "README.md"), encoding="utf-8") as file:
            blocks = re.findall(r"^```python\n(.*?)^```$", file.read(), re.M | re.S)
        self.assertEqual(len(blocks), 2)
        names = {}
        for k, block in enumerate(blocks):
            exec(compile(block, f"README.md, block {k + 1}", "exec"), names)  # pylint: disable=exec-used

    def test_versions(self):
        """README.md, pyproject.toml and the plugin say the same range of versions"""
        top = os.path.join(PACKAGE, "..")

        def read(*path):
            with open(os.path.join(top, *path), encoding="utf-8") as file:
                return file.read()

        oldest, newest = re.search(r"CG_TF_OLDEST = (\d+), CG_TF_NEWEST = (\d+)", read("bindings", "tensorflow", "tf_api.h")).groups()
        words = " to ".join(f"{int(number) // 1000}.{int(number) % 1000}" for number in (oldest, newest))
        self.assertIn(f"TensorFlow {words}\n", read("python", "cellgrad", "tensorflow", "README.md"))
        self.assertIn(f"not one from {words};", read("bindings", "tensorflow", "README.md"))
        self.assertIn(f'"tensorflow>={words.split()[0]},<2.{int(newest) % 1000 + 1}"', read("pyproject.toml"))


if __name__ == "__main__":
    tensorflow_tap.main()
