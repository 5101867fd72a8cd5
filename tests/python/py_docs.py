#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The examples in the docstrings of cellgrad, without its parts for frameworks, run, and so does the Python code in README.md,
python/README.md and docs/ that is not marked `not run`.  Every class, function and method of `__all__` has a docstring, and classes and
functions that users call have an example.  Prints TAP.  The environment has srcdir: the source; LIBRARY: the
shared library."""
import doctest
import glob
import importlib
import inspect
import os
import re
import tempfile
import unittest

import py_tap

py_tap.need_numpy()

import numpy as np  # noqa: E402

import cellgrad  # noqa: E402

MODULES = sorted(os.path.basename(path)[:-3] for path in glob.glob(os.path.join(py_tap.PACKAGE, "cellgrad", "_[a-z]*.py")))
# Classes whose objects users do not make: calls return them, and the docstrings of these calls have the examples.
GIVEN = {"Device", "Gradients", "Region", "Run", "LSTMBlock", "GRUBlock"}


PAGES = sorted(glob.glob(os.path.join(py_tap.SOURCE, "docs", "*.md")))
DOCUMENTS = ["README.md", "python/README.md", *(os.path.relpath(path, py_tap.SOURCE) for path in PAGES)]


def blocks(path):
    """Returns a document's blocks of Python code, without those with the marker `not run`, which tests/docs.py counts."""
    with open(path, encoding="utf-8") as file:
        return [block for marker, block in re.findall(r"^(<!-- not run: [^\n]*\n)?```python\n(.*?)^```$", file.read(), re.M | re.S) if not marker]


class Documents(unittest.TestCase):
    def test_examples(self):
        """The examples of the docstrings run and print what they show"""
        attempted = 0
        for name in ["cellgrad", *(f"cellgrad.{module}" for module in MODULES)]:
            failures = []
            runner = doctest.DocTestRunner(optionflags=doctest.REPORT_NDIFF)
            for test in doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(name)):
                runner.run(test, out=failures.append)
            self.assertFalse(failures, "".join(failures))
            attempted += runner.tries
        self.assertGreater(attempted, 70)

    def test_docstrings(self):
        """Classes and functions of __all__, and public methods, have docstrings; those that users call have an example"""
        for name in cellgrad.__all__:
            thing = getattr(cellgrad, name)
            if isinstance(thing, str):
                continue
            self.assertTrue(thing.__doc__, name)
            if not (name in GIVEN or inspect.isclass(thing) and issubclass(thing, cellgrad.Error) and thing is not cellgrad.Error):
                self.assertIn(">>> ", thing.__doc__, name)
            for method, of in inspect.getmembers(thing, inspect.isfunction):
                if not method.startswith("_"):
                    self.assertTrue(of.__doc__, f"{name}.{method}")

    def check_gradient(self, names):
        """Checks the gradient of README.md's first example: a small step against it reduces half the squared error by as much as it says."""
        def loss(params):
            return float(np.square(names["network"].forward(params, names["x"]).output.astype(np.float64) - names["target"]).sum() / 2)
        params, gradient = names["params"], names["gradient"]
        length = 1e-3
        step = length / np.linalg.norm(gradient)
        self.assertLess(abs((loss(params) - loss(params - step * gradient)) / (length * np.linalg.norm(gradient)) - 1), 0.05)

    def test_documents(self):
        """The Python code in the documents that is not marked `not run` runs, and README.md's first example has the gradient"""
        counts, folder = {}, os.getcwd()
        for document in DOCUMENTS:
            found = blocks(os.path.join(py_tap.SOURCE, document))
            counts[document] = len(found)
            names = {}
            with tempfile.TemporaryDirectory() as scratch:
                os.chdir(scratch)
                try:
                    for k, block in enumerate(found):
                        exec(compile(block, f"{document}, block {k + 1}", "exec"), names)  # pylint: disable=exec-used
                        if document == "README.md" and not k:
                            self.check_gradient(names)
                finally:
                    os.chdir(folder)
        self.assertGreaterEqual(counts["README.md"], 1)
        self.assertGreaterEqual(counts["python/README.md"], 5)
        self.assertGreaterEqual(sum(counts.values()), 14)


if __name__ == "__main__":
    py_tap.main()
