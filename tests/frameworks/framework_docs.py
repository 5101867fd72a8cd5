# SPDX-License-Identifier: Apache-2.0
"""Tests the examples of a package for a framework, such as cellgrad.torch: those in its docstrings and in its README.md, and the framework's
Python code in docs/weights.md."""
import doctest
import glob
import importlib.util
import inspect
import os
import re
import subprocess
import tempfile
import unittest

from framework_tap import py_tap

COMMAND = os.environ.get("CELLGRAD", os.path.abspath("cellgrad"))
# The Python code in docs/weights.md, by the line before its marker, such as `Keras:`.
SAVING = re.compile(r"^([^\n]*):\n\n<!-- not run: [^\n]*; tests/frameworks/\w*\.py runs it -->\n```python\n(.*?)^```$", re.M | re.S)


def modules(folder):
    """Returns the names of the Python modules in a folder."""
    return sorted(os.path.basename(path)[:-3] for path in glob.glob(os.path.join(folder, "[_a-z]*.py")))


def saved(case, line, names, *words):
    """Runs the Python code that docs/weights.md has after a line, with the given names, in the folder of the TestCase `case`, and converts the
    file that the code writes by `cellgrad convert` with the given words.  Returns the tensors of that file, and the params."""
    if not importlib.util.find_spec("safetensors"):
        case.skipTest("this Python has no safetensors")
    from safetensors.numpy import load_file
    with open(os.path.join(py_tap.SOURCE, "docs", "weights.md"), encoding="utf-8") as file:
        exec(compile(dict(SAVING.findall(file.read()))[line], f"weights.md, {line}", "exec"), names)  # pylint: disable=exec-used
    done = subprocess.run([COMMAND, "convert", "--to", "cellgrad", *words, "model.safetensors", "params.safetensors"],
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    case.assertEqual(done.returncode, 0, done.stdout)
    return load_file("model.safetensors"), load_file("params.safetensors")["params"]


def enter_folder(case):
    """Makes a temporary folder the current one until the TestCase's cleanup."""
    folder = tempfile.TemporaryDirectory()  # pylint: disable=consider-using-with
    case.addCleanup(folder.cleanup)
    case.addCleanup(os.chdir, os.getcwd())
    os.chdir(folder.name)


def documents(ours, least):
    """Makes a TestCase for the docstrings and README.md of a package; the docstrings must have more than `least` statements with >>>."""
    folder = os.path.join(py_tap.PACKAGE, *ours.__name__.split("."))

    class Documents(unittest.TestCase):
        def test_examples(self):
            """The examples of the docstrings run and print what they show"""
            attempted = 0
            for module in modules(folder):
                failures, runner = [], doctest.DocTestRunner(optionflags=doctest.REPORT_NDIFF)
                name = ours.__name__ if module == "__init__" else f"{ours.__name__}.{module}"
                for test in doctest.DocTestFinder(exclude_empty=True).find(importlib.import_module(name)):
                    runner.run(test, out=failures.append)
                self.assertFalse(failures, "".join(failures))
                attempted += runner.tries
            print(f"# {attempted} lines of examples")
            self.assertGreater(attempted, least)

        def test_docstrings(self):
            """Every class and function of __all__ has an example, and the public methods of these classes have docstrings"""
            for name in ours.__all__:
                thing = getattr(ours, name)
                self.assertIn(">>> ", thing.__doc__ or "", name)
                for method, of in inspect.getmembers(thing, inspect.isfunction):
                    if not method.startswith("_") and of.__module__.startswith("cellgrad."):
                        self.assertTrue(of.__doc__, f"{name}.{method}")

        def test_readme(self):
            """The Python code in README.md runs"""
            with open(os.path.join(folder, "README.md"), encoding="utf-8") as file:
                blocks = re.findall(r"^```python\n(.*?)^```$", file.read(), re.M | re.S)
            self.assertGreaterEqual(len(blocks), 1)
            names = {}
            for k, block in enumerate(blocks):
                exec(compile(block, f"README.md, block {k + 1}", "exec"), names)  # pylint: disable=exec-used

    return Documents
