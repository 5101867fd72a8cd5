#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests how the Python package finds the library, and its message if there is no library, or one of another version.  Prints TAP.
The environment has srcdir: the source; LIBRARY: the shared library; CELLGRAD: the command; CC: a C compiler."""
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

import py_tap

py_tap.need_numpy()

LIBRARY = os.environ["CELLGRAD_LIBRARY"]
COMMAND = os.environ.get("CELLGRAD", "")
USE = "import cellgrad; print(cellgrad.version); print(cellgrad.Context('cpu').where, cellgrad._load.lib.path)"


def python(program, folder, *words, cwd=None, **environment):
    """Runs the Python code `program` or, if there are `words`, this Python with these arguments, in a new process.  The process has the
    package in `folder` and no variables CELLGRAD_* but those in `environment`.  Returns the exit status, output and errors."""
    names = {name: value for name, value in os.environ.items() if not name.startswith("CELLGRAD_")}
    arguments = [sys.executable, *words] if words else [sys.executable, "-c", program]
    done = subprocess.run(arguments, env={**names, "PYTHONPATH": folder, **environment}, capture_output=True, text=True, check=False,
                          cwd=cwd or folder)
    return done.returncode, done.stdout, done.stderr


class Load(unittest.TestCase):
    def setUp(self):
        room = tempfile.TemporaryDirectory()
        self.addCleanup(room.cleanup)
        self.folder = room.name
        self.package = os.path.join(room.name, "cellgrad")
        shutil.copytree(os.path.join(py_tap.PACKAGE, "cellgrad"), self.package, ignore=shutil.ignore_patterns("__pycache__"))
        os.mkdir(os.path.join(self.package, "include"))
        shutil.copy(os.path.join(py_tap.SOURCE, "runtime", "cellgrad.h"), os.path.join(self.package, "include"))

    def library(self, path, text):
        """Compiles a shared library from a few lines of C."""
        with open(path + ".c", "w", encoding="utf-8") as file:
            file.write(text)
        subprocess.run([*os.environ.get("CC", "cc").split(), "-shared", "-fPIC", "-o", path, path + ".c"], check=True)
        return path

    def last(self, errors):
        return errors.strip().splitlines()[-1]

    def test_header(self):
        """If the package lacks its header, the import fails with a message that says so"""
        os.remove(os.path.join(self.package, "include", "cellgrad.h"))
        status, _, errors = python("import cellgrad", self.folder)
        self.assertEqual(status, 1)
        self.assertRegex(self.last(errors), r"^ImportError: the package cellgrad is incomplete: it has no .*include/cellgrad\.h$")

    def test_none(self):
        """Without a library the package can be imported, and the message at the first use names the path that was tried"""
        # CELLGRAD_LIBRARY names a file that does not exist; without it the package would load the system's library, which may exist.
        missing = os.path.join(self.folder, "nothing.so")
        status, _, errors = python("import cellgrad; print(cellgrad.version, cellgrad.Network.__doc__[:6])", self.folder,
                                   CELLGRAD_LIBRARY=missing)
        self.assertEqual((status, errors), (0, ""))
        for use in ("cellgrad.Network('lstm', input=2, units=3)", "cellgrad.devices()", "cellgrad.Cell('lstm')", "cellgrad.formats()"):
            program = f"import cellgrad\ntry:\n    {use}\nexcept ImportError as error:\n    print(type(error).__name__, error)"
            status, output, errors = python(program, self.folder, CELLGRAD_LIBRARY=missing)
            self.assertEqual((status, errors), (0, ""))
            self.assertRegex(output, r"^LibraryError cellgrad [0-9.]+ has no library: CELLGRAD_LIBRARY, .*nothing\.so.*"
                             r"set CELLGRAD_LIBRARY to its path")

    def test_platforms(self):
        """Where Python says that it runs on musl, macOS or Windows, the advice about a missing library has words about that"""
        for change, words in (("sys.platform = 'darwin'", "no wheels for macOS"), ("sys.platform = 'win32'", "has not been tried on win32"),
                              ("sysconfig.get_config_var = lambda name: 'x86_64-pc-linux-musl'", "runs on musl")):
            program = f"import sys, sysconfig\n{change}\nimport cellgrad\nfrom cellgrad._load import _advice\nprint(_advice())"
            status, output, errors = python(program, self.folder, CELLGRAD_LIBRARY=LIBRARY)
            self.assertEqual(status, 0, errors)
            self.assertIn(words, output)

    def test_order(self):
        """CELLGRAD_LIBRARY comes first, then the library beside the package, then the system's"""
        beside = os.path.join(self.package, "libcellgrad.so.0")
        shutil.copy(LIBRARY, beside)
        status, output, errors = python(USE, self.folder)
        self.assertEqual(status, 0, errors)
        self.assertIn(beside, output)
        self.assertIn(LIBRARY, python(USE, self.folder, CELLGRAD_LIBRARY=LIBRARY)[1])
        os.remove(beside)
        system = os.path.join(self.folder, "system")
        os.mkdir(system)
        shutil.copy(LIBRARY, os.path.join(system, "libcellgrad.so.0"))
        status, output, errors = python(USE, self.folder, LD_LIBRARY_PATH=system)
        self.assertEqual((status, output.split()[-1]), (0, "libcellgrad.so.0"), errors)

    def test_broken(self):
        """If a library that is named, or beside the package, does not load, no other is used instead"""
        with open(os.path.join(self.package, "libcellgrad.so.0"), "w", encoding="utf-8") as file:
            file.write("no library")
        status, _, errors = python(USE, self.folder, LD_LIBRARY_PATH=os.path.dirname(LIBRARY))
        self.assertEqual(status, 1)
        self.assertRegex(self.last(errors), "LibraryError: .*the library of this package, .*libcellgrad.so.0")
        self.assertEqual(python(USE, self.folder, CELLGRAD_LIBRARY=os.path.join(self.folder, "no.so"))[0], 1)

    def test_version(self):
        """A cellgrad library of another version, and a library that is not cellgrad, are rejected"""
        other = self.library(os.path.join(self.folder, "other.so"), 'const char *cg_version(void) { return "0.1.9"; }\n')
        status, output, errors = python(USE, self.folder, CELLGRAD_LIBRARY=other)
        self.assertEqual(status, 1)
        version = output.split()[0]
        self.assertEqual(self.last(errors), f"cellgrad._errors.LibraryError: the package cellgrad is {version}, "
                         f"and the library {other} is 0.1.9: "
                         "install the same version of both, or set CELLGRAD_LIBRARY to the path of another library")
        nothing = self.library(os.path.join(self.folder, "nothing.so"), "int nothing;\n")
        self.assertIn("is not the library of cellgrad", self.last(python(USE, self.folder, CELLGRAD_LIBRARY=nothing)[2]))

    def test_openblas(self):
        """The package names the OpenBLAS of its extra to the library, unless the user names one or the extra is not installed"""
        program = "import os, cellgrad; print(os.environ.get('CELLGRAD_OPENBLAS_LIB'), 'scipy_openblas32' in __import__('sys').modules)"
        self.assertEqual(python(program, self.folder, CELLGRAD_LIBRARY=LIBRARY)[1], "None False\n")
        path = os.path.join(self.folder, "scipy_openblas32", "lib", "libscipy_openblas.so")
        os.makedirs(os.path.dirname(path))
        for name in (path, os.path.join(self.folder, "scipy_openblas32", "__init__.py")):
            with open(name, "w", encoding="utf-8"):
                pass
        self.assertEqual(python(program, self.folder, CELLGRAD_LIBRARY=LIBRARY)[1], f"{path} False\n")
        self.assertEqual(python(program, self.folder, CELLGRAD_LIBRARY=LIBRARY, CELLGRAD_OPENBLAS_LIB="")[1], f"{path} False\n")
        self.assertEqual(python(program, self.folder, CELLGRAD_LIBRARY=LIBRARY, CELLGRAD_OPENBLAS_LIB="none")[1], "none False\n")

    def test_bfloat16(self):
        """Without ml_dtypes bfloat16 is rejected with a message that says what to install"""
        program = "import sys; sys.modules['ml_dtypes'] = None; import cellgrad; "
        program += "cellgrad.Network('lstm', input=2, units=3, dtype='bfloat16')"
        status, _, errors = python(program, self.folder, CELLGRAD_LIBRARY=LIBRARY)
        self.assertEqual(status, 1)
        self.assertIn("ArgumentTypeError: dtype bfloat16 needs the package ml_dtypes", self.last(errors))

    @unittest.skipUnless(os.access(COMMAND, os.X_OK), "there is no command")
    def test_command(self):
        """python -m cellgrad runs the command in the package; without a command it prints a message"""
        binary = os.path.join(self.package, "bin")
        nowhere = {"PATH": self.folder, "CELLGRAD_LIBRARY": ""}
        status, _, errors = python("", self.folder, "-m", "cellgrad", "--version", **nowhere)
        self.assertEqual(status, 1)
        self.assertIn("there is no command", errors)
        # An empty entry of PATH means the working folder, which is not searched for the command.
        with tempfile.TemporaryDirectory() as here:
            os.symlink(COMMAND, os.path.join(here, "cellgrad"))
            self.assertEqual(python("", self.folder, "-m", "cellgrad", "--version", cwd=here, **{**nowhere, "PATH": f":{self.folder}:"})[0], 1)
        os.mkdir(binary)
        os.symlink(COMMAND, os.path.join(binary, "cellgrad"))
        status, output, errors = python("", self.folder, "-m", "cellgrad", "--version", **nowhere)
        self.assertEqual((status, output.split()[0]), (0, "cellgrad"), errors)
        self.assertEqual(python("", self.folder, "-m", "cellgrad", "no-such-command", **nowhere)[0], 2)


if __name__ == "__main__":
    py_tap.main()
