# SPDX-License-Identifier: Apache-2.0
"""The code that the tests of the Python package share: it prints results of unittest as TAP, finds a Python that has NumPy, and makes the
package of this source importable.

A test file that needs NumPy calls `need_numpy()`, and each file calls `main()`.  If the Python that runs a test file has no NumPy, the file
runs again under CELLGRAD_TEST_PYTHON or /usr/bin/python3.  If none of these Pythons has NumPy, the tests are skipped, or fail if
CELLGRAD_TEST_REQUIRE has numpy.
"""
import os
import subprocess
import sys
import traceback
import unittest

SOURCE = os.path.abspath(os.environ.get("srcdir") or os.path.join(os.path.dirname(__file__), "..", ".."))
PACKAGE = os.path.join(SOURCE, "python")
DATA = os.path.join(SOURCE, "tests", "data")
# Python must write no __pycache__ into the source.
sys.dont_write_bytecode = True
os.environ["PYTHONDONTWRITEBYTECODE"] = "1"


def has(python, module):
    """Can a Python import a module?"""
    try:
        return subprocess.run([python, "-c", f"import {module}"], stderr=subprocess.DEVNULL, check=False).returncode == 0
    except OSError:
        return False


def is_required(what):
    return what in os.environ.get("CELLGRAD_TEST_REQUIRE", "").split(",")


def skip_all(reason, what):
    """Prints that all tests are skipped or, if CELLGRAD_TEST_REQUIRE has `what`, that a test failed, and ends the program."""
    if is_required(what):
        print(f"1..1\nnot ok 1 - {reason}, and CELLGRAD_TEST_REQUIRE has {what}")
    else:
        print(f"1..0 # SKIP {reason}")
    sys.exit(0)


def need_numpy():
    """Continues the test in this Python or, if it lacks NumPy, in another, with this source's package and this build's library.  Without
    NumPy or a shared library, or with a sanitizer, the test is skipped or, if CELLGRAD_TEST_REQUIRE demands, fails."""
    library = os.environ.get("LIBRARY", os.path.abspath(".libs/libcellgrad.so"))
    if not os.path.exists(library):
        skip_all("there is no shared library", "shared")
    if os.environ.get("SANITIZE"):
        skip_all("a sanitizer's library does not load into a Python without it", "shared")
    os.environ["CELLGRAD_LIBRARY"] = library
    os.environ.setdefault("CELLGRAD_BACKEND", "cpu")
    os.environ["PYTHONPATH"] = PACKAGE
    try:
        import numpy  # noqa: F401
    except ImportError:
        for python in (os.environ.get("CELLGRAD_TEST_PYTHON"), "/usr/bin/python3"):
            if python and python != sys.executable and has(python, "numpy"):
                sys.stdout.flush()
                os.execv(python, [python, *sys.argv])
        skip_all("no python3 has NumPy (Debian: python3-numpy)", "numpy")
    sys.path.insert(0, PACKAGE)


class Refusals(unittest.TestCase):
    """The base class of TestCases that pass wrong arguments."""

    def refuse(self, kind, words, call, *arguments, **keywords):
        """Checks that a call raises a cellgrad.Error that is also of the built-in type `kind`, and has `words` in its message."""
        import cellgrad
        with self.assertRaises(cellgrad.Error, msg=words) as caught:
            call(*arguments, **keywords)
        self.assertIsInstance(caught.exception, kind, f"{words}: {caught.exception}")
        self.assertIn(words, str(caught.exception))


class Result(unittest.TestResult):
    """Prints a line of TAP for each test."""

    count = 0

    def say(self, is_right, test, skip=None, words=""):
        self.count += 1
        for line in words.splitlines():
            print("# " + line)
        name = test.shortDescription() or str(test)
        print(f"{'ok' if is_right else 'not ok'} {self.count} - {name.rstrip('.')}" + (f" # SKIP {skip}" if skip else ""), flush=True)

    def addSuccess(self, test):
        self.say(True, test)

    def addSkip(self, test, reason):
        self.say(True, test, reason)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.say(False, test, words="".join(traceback.format_exception(*err)))

    addError = addFailure

    def addSubTest(self, test, subtest, err):
        # A subtest has a line of TAP only if it fails; the test itself then has no line.
        if err is not None:
            super().addSubTest(test, subtest, err)
            self.say(False, subtest, words="".join(traceback.format_exception(*err)))


def main(module="__main__"):
    """Runs the TestCases of a module in the order of their names."""
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules[module])
    result = Result()
    suite.run(result)
    print(f"1..{result.count}")
    sys.exit(not result.wasSuccessful())
