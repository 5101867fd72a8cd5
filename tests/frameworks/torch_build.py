#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests `python -m cellgrad.torch.build`: the extension that it builds, the places where the extension is found, files that are not loaded,
and its message if something is missing.  With a PyTorch that is too old for the extension, only these are tested: the message that says
so, that calls use ctypes, and the choice of the cache folder.  Prints TAP.  CXX: a C++ compiler."""
import contextlib
import os
import re
import shutil
import subprocess
import tempfile
import types
import unittest
import unittest.mock

import torch_tap
from py_tap import PACKAGE
from torch_tap import python
import torch

import cellgrad
import cellgrad.torch as ours
from cellgrad.torch import _stable, build

ROOM = tempfile.TemporaryDirectory()
PATH = os.path.join(ROOM.name, _stable.NAME)
BUILT = python("-m", "cellgrad.torch.build", "--into", ROOM.name)
os.environ["CELLGRAD_TORCH_EXTENSION"] = PATH
is_old = _stable.torch_version() < _stable.OLDEST
needs_it = unittest.skipIf(is_old, "PyTorch is older than the stable ABI that the extension needs")


class Building(unittest.TestCase):
    """Tests of the build, and of which extension is loaded."""

    def refuse(self, words, **patches):
        """Checks that the build fails, with `words` in the message, and leaves no file."""
        with tempfile.TemporaryDirectory() as room, contextlib.ExitStack() as stack:
            for name, value in patches.items():
                stack.enter_context(unittest.mock.patch.object(build, name, value))
            with self.assertRaises(cellgrad.BuildError, msg=words) as caught:
                build.build(room)
            self.assertIn(words, str(caught.exception))
            self.assertEqual(os.listdir(room), [])

    def test_old(self):
        """With a PyTorch that is too old, the build fails with a message, and calls use ctypes"""
        self.refuse("PyTorch 2.14 or later is needed", torch_version=lambda: (2, 13))
        with unittest.mock.patch.object(_stable, "torch_version", lambda: (2, 13)):
            self.assertIn("older than 2.14", _stable._find()[1])
        if is_old:
            self.assertEqual(BUILT[0], 1, BUILT)
            self.assertIn("2.14 or later", BUILT[1])
            self.assertTrue(ours.route().startswith("ctypes ("))

    @needs_it
    def test_built(self):
        """The extension is built and loaded; an empty CELLGRAD_TORCH_EXTENSION switches it off"""
        self.assertEqual(BUILT, (0, PATH + "\n"))
        self.assertEqual(ours.route(), f"stable ABI ({PATH})")
        with unittest.mock.patch.dict(os.environ, CELLGRAD_TORCH_EXTENSION=""):
            self.assertEqual(_stable._find(), (None, "CELLGRAD_TORCH_EXTENSION is empty"))

    @needs_it
    def test_missing(self):
        """Without a compiler or headers, or with a compiler that fails, the build raises BuildError; the program ends with status 1"""
        status, words = python("-m", "cellgrad.torch.build", "--into", ROOM.name, CXX="not-a-compiler -x")
        self.assertEqual(status, 1)
        self.assertRegex(words, "^cellgrad.torch.build: no C\\+\\+ compiler: there is no not-a-compiler; install one .*\n$")
        with unittest.mock.patch("sysconfig.get_paths", return_value={"include": "/not/there"}):
            self.refuse("no Python.h in /not/there: install")
        self.refuse("shim.h in", torch=types.SimpleNamespace(__file__="/not/there/__init__.py"))
        with unittest.mock.patch.dict(os.environ, CXXFLAGS="--not-an-option"):
            self.refuse("the compiler failed, with status 1:")

    @needs_it
    def test_other_version(self):
        """An extension of another version of cellgrad, a file that is no extension, and a missing file are not loaded"""
        with tempfile.TemporaryDirectory() as room:
            with open(os.path.join(build.header_folder(), "cellgrad.h"), encoding="utf-8") as file:
                header = re.sub(r"(#define CG_VERSION_MINOR +)\d+", r"\g<1>77", file.read())
            with open(os.path.join(room, "cellgrad.h"), "w", encoding="utf-8") as file:
                file.write(header)
            self.refuse("the extension was built for cellgrad 0.77.", header_folder=lambda: room)
            other, none = os.path.join(room, "other.so"), os.path.join(room, "none.so")
            with unittest.mock.patch.object(build, "header_folder", lambda: room):
                subprocess.run(build.command(other), check=True)
            with open(none, "w", encoding="utf-8") as file:
                file.write("no extension")
            for path, words in ((other, "the extension was built for cellgrad 0.77."), (none, none),
                                (os.path.join(room, "missing.so"), "missing.so")):
                status, line = python("-c", "import torch, cellgrad.torch as c; m = c.LSTM(3, 4).requires_grad_(False)\n"
                                      "m(torch.ones(1, 1, 3)); print(c.route())", CELLGRAD_TORCH_EXTENSION=path)
                self.assertEqual(status, 0, line)
                self.assertTrue(line.startswith("ctypes ("), line)
                self.assertIn(words, line)

    @needs_it
    def test_places(self):
        """The extension is put in the package, else in the cache folder, and is not loaded from there if others can write to it or its
        folder"""
        unwritable = ("import os, sys\naccess = os.access\n"
                      "os.access = lambda path, mode: os.path.basename(path) != 'torch' and access(path, mode)\n"
                      "from cellgrad.torch import build\nsys.exit(build.main([]))")
        with tempfile.TemporaryDirectory() as room:
            package, cache = os.path.join(room, "cellgrad"), os.path.join(room, "cache")
            shutil.copytree(os.path.join(PACKAGE, "cellgrad"), package,
                            ignore=shutil.ignore_patterns("*.so", "__pycache__"))
            os.makedirs(os.path.join(package, "include"), exist_ok=True)
            shutil.copy(os.path.join(build.header_folder(), "cellgrad.h"), os.path.join(package, "include"))
            # CELLGRAD_TORCH_EXTENSION is removed, since an empty variable switches the extension off; without the variable the extension is
            # searched for.
            there = {"PYTHONPATH": room, "CELLGRAD_CACHE_DIR": cache}
            with unittest.mock.patch.dict(os.environ):
                del os.environ["CELLGRAD_TORCH_EXTENSION"]

                def route():
                    return python("-c", "import cellgrad.torch; print(cellgrad.torch.route())", **there)[1]

                self.assertIn("python -m cellgrad.torch.build makes one", route())
                status, line = python("-c", unwritable, **there)
                found = line.rstrip()
                self.assertEqual(status, 0, line)
                self.assertTrue(found.startswith(os.path.join(cache, f"torch-{cellgrad.__version__}-")), found)
                self.assertEqual(route(), f"stable ABI ({found})\n")
                for path in (found, os.path.dirname(found)):
                    os.chmod(path, 0o777)
                    self.assertEqual(route(), f"ctypes ({found}: other users may have written this file)\n")
                    os.chmod(path, 0o700)
                beside = os.path.join(package, "torch", "_extension.abi3.so")
                self.assertEqual(python("-m", "cellgrad.torch.build", **there), (0, beside + "\n"))
                self.assertEqual(route(), f"stable ABI ({beside})\n")

    def test_cache_folder(self):
        """As to the library, an empty or relative HOME is none; without a cache folder no extension is looked for in the current folder"""
        with unittest.mock.patch.dict(os.environ, HOME="/home/user"):
            for name in ("CELLGRAD_CACHE_DIR", "XDG_CACHE_HOME", "CELLGRAD_TORCH_EXTENSION"):
                os.environ.pop(name, None)
            self.assertEqual(os.path.dirname(_stable.cache_folder()), "/home/user/.cache/cellgrad")
            for home in ("", "here", None):
                if home is None:
                    del os.environ["HOME"]
                else:
                    os.environ["HOME"] = home
                self.assertIsNone(_stable.cache_folder(), home)
            self.addCleanup(os.chdir, os.getcwd())
            os.chdir(ROOM.name)
            with unittest.mock.patch.object(_stable, "FOLDER", "/not/there"):
                self.assertIn("older" if is_old else "no extension", _stable._find()[1])

    @needs_it
    def test_one_library(self):
        """The process has loaded one libcellgrad, the file CELLGRAD_LIBRARY, also with the extension"""
        with open("/proc/self/maps", encoding="utf-8") as file:
            paths = {line.split()[-1] for line in file if "libcellgrad" in line}
        self.assertEqual(paths, {os.path.realpath(os.environ["CELLGRAD_LIBRARY"])})


if __name__ == "__main__":
    torch_tap.main()
