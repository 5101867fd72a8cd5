#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the wheels that are made of an installed prefix, in a new venv without a package index; and the sdist, made from a git checkout
and from an unpacked sdist.  Runs in the build tree.  Prints TAP.  The environment has srcdir: the source; LIBRARY: the shared
library; MAKE: make; INCLUDEDIR: the folder for installed headers."""
import csv
import glob
import io
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import unittest
import zipfile
from unittest import mock

import py_tap

py_tap.need_numpy()
if not (py_tap.has(sys.executable, "ensurepip") and py_tap.has(sys.executable, "venv")):
    py_tap.skip_all("there is no venv with pip (Debian: python3-venv)", "numpy")
sys.path.insert(0, os.path.join(py_tap.PACKAGE, "build"))
import cellgrad_project  # noqa: E402
import cellgrad_wheel  # noqa: E402

LIBRARY = os.environ["CELLGRAD_LIBRARY"]
for name in [name for name in os.environ if name.startswith(("CELLGRAD_", "MAKE", "MFLAGS", "PYTHONPATH", "BUG_REPORT", "URL"))]:
    del os.environ[name]
ROOM = tempfile.TemporaryDirectory()
unittest.addModuleCleanup(ROOM.cleanup)


def run(*arguments, status=0, **keywords):
    """Runs a program and returns its output.  The program must succeed if `status` is 0, and fail otherwise."""
    done = subprocess.run(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False, **keywords)
    assert (done.returncode == 0) == (status == 0), f"{' '.join(arguments)}: {done.returncode}\n{done.stdout[-3000:]}"
    return done.stdout


def hook(call, folder="python/build", backend="cellgrad_build", **environment):
    """Returns the command and the environment that call a hook of a build backend in a Python process of its own, as pip does."""
    return [sys.executable, "-c", f"import sys; sys.path.insert(0, {folder!r}); import {backend}; print({backend}.{call})"], {
        "env": {**os.environ, **environment}}


def check_record(test, archive, info):
    """Checks that a wheel's RECORD has every file of the wheel, with its size, and that the wheel's tag is that of a platform."""
    names = set(archive.namelist())
    record = {row[0]: row[2] for row in csv.reader(io.StringIO(archive.read(info + "RECORD").decode()))}
    test.assertEqual(set(record), names)
    test.assertTrue(all(record[name] == str(archive.getinfo(name).file_size) for name in names - {info + "RECORD"}))
    test.assertRegex(archive.read(info + "WHEEL").decode(), r"\nTag: py3-none-(linux|macosx)_\w+\n")


def installed():
    """Installs this build in a temporary folder; returns the installed prefix."""
    root = os.path.join(ROOM.name, "root")
    run(os.environ.get("MAKE", "make"), "-s", "install", f"DESTDIR={root}", stdin=subprocess.DEVNULL)
    prefix = root + os.path.dirname(os.environ.get("INCLUDEDIR", "/usr/local/include"))
    assert glob.glob(os.path.join(prefix, "lib*", "**", "libcellgrad.so.0"), recursive=True), prefix
    return prefix


class Wheel(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.prefix = installed()
        cls.folder = os.path.join(ROOM.name, "wheels")
        os.mkdir(cls.folder)
        cls.venv = os.path.join(ROOM.name, "venv")
        # The venv uses the NumPy of this Python.
        run(sys.executable, "-m", "venv", "--system-site-packages", cls.venv)
        cls.python = os.path.join(cls.venv, "bin", "python")
        packages, = glob.glob(os.path.join(cls.venv, "lib", "python*", "site-packages"))
        with open(os.path.join(packages, "numpy.pth"), "w", encoding="utf-8") as file:
            import numpy
            file.write(os.path.dirname(os.path.dirname(numpy.__file__)) + "\n")
        run(cls.python, "-m", "pip", "wheel", "-q", "--no-index", "--no-deps", "--no-cache-dir", "-w", cls.folder, py_tap.SOURCE,
            os.path.join(py_tap.SOURCE, "python", "plugin"),
            env={**os.environ, "CELLGRAD_PREFIX": cls.prefix, "PIP_DISABLE_PIP_VERSION_CHECK": "1"})
        cls.wheel, = glob.glob(os.path.join(cls.folder, "cellgrad-*.whl"))
        cls.plugin, = glob.glob(os.path.join(cls.folder, "cellgrad_tensorflow-*.whl"))
        run(cls.python, "-m", "pip", "install", "-q", "--no-index", "--no-cache-dir", cls.wheel)

    def test_a_use(self):
        """pip installs the wheel in a new venv, in which a network runs forward and backward by the wheel's library"""
        program = ("import cellgrad, numpy as np\nn = cellgrad.Network('lstm', input=2, units=3)\np = n.init_params()\n"
                   "r = n.forward(p, np.ones((4, 2, 2), np.float32))\nprint(n.backward(r, r.output).params.size, cellgrad._load.lib.path)")
        output = run(self.python, "-c", program, cwd=ROOM.name, env={**os.environ, "CELLGRAD_BACKEND": "cpu"})
        self.assertRegex(output, rf"^84 {self.venv}/lib/.*/cellgrad/libcellgrad.so.0\n$")

    def test_b_command(self):
        """python -m cellgrad and the script of pip run the command in the wheel, whose demo finds the wheel's stored answers"""
        if not os.path.exists(os.path.join(self.prefix, "bin", "cellgrad")):
            self.skipTest("configured with --disable-command")
        version = cellgrad_project.version()
        self.assertEqual(run(self.python, "-m", "cellgrad", "--version", cwd=ROOM.name).strip(), f"cellgrad {version}")
        self.assertIn("agree", run(self.python, "-m", "cellgrad", "demo", "--only", "compare", cwd=ROOM.name,
                                   env={**os.environ, "CELLGRAD_BACKEND": "cpu"}))
        script = os.path.join(self.venv, "bin", "cellgrad")
        self.assertEqual(run(script, "--version", cwd=ROOM.name).strip(), f"cellgrad {version}")
        # Without the command in the wheel, the script is the only `cellgrad` on this PATH, and must not run itself.
        command, = glob.glob(os.path.join(self.venv, "lib", "*", "site-packages", "cellgrad", "bin", "cellgrad"))
        os.rename(command, command + ".away")
        self.addCleanup(os.rename, command + ".away", command)
        self.assertIn("there is no command", run(script, "--version", status=1, cwd=ROOM.name, env={**os.environ, "PATH": os.path.dirname(script)}))

    def test_c_contents(self):
        """The wheel has the package's modules, a right RECORD, a platform's tag and the dependencies; a second wheel has equal bytes"""
        with zipfile.ZipFile(self.wheel) as archive:
            names = set(archive.namelist())
            sources = {f"cellgrad/{os.path.basename(path)}" for path in glob.glob(os.path.join(py_tap.PACKAGE, "cellgrad", "*.*"))}
            self.assertGreater(len(sources), 12)
            self.assertEqual(sources - names, set())
            # The wheel has the source of the extension that cellgrad.torch.build compiles, but not the extension, which is for one machine.
            self.assertIn("cellgrad/torch/stable.cc", names)
            self.assertEqual({name for name in names if ".so" in name},
                             {"cellgrad/libcellgrad.so.0", "cellgrad/cellgrad_jax.so", "cellgrad/cellgrad_tensorflow.so"})
            parts = {os.path.relpath(path, py_tap.PACKAGE) for path in glob.glob(os.path.join(py_tap.PACKAGE, "cellgrad", "*", "*.py"))}
            self.assertGreater(len(parts), 20)
            self.assertEqual(parts - names, set())
            self.assertEqual({name.split("/")[0] for name in names}, {"cellgrad", f"cellgrad-{cellgrad_project.version()}.dist-info"})
            info = f"cellgrad-{cellgrad_project.version()}.dist-info/"
            check_record(self, archive, info)
            metadata = archive.read(info + "METADATA").decode()
        for line in ("Requires-Dist: numpy", 'Requires-Dist: scipy-openblas32; extra == "openblas"'):
            self.assertIn("\n" + line, metadata)
        self.assertNotIn("\nProject-URL:", metadata)
        with mock.patch.dict(os.environ, {"URL": "https://example.org/", "BUG_REPORT": "bugs@example.org"}):
            metadata = cellgrad_project.metadata()
        self.assertIn("\nProject-URL: Homepage, https://example.org/\nProject-URL: Bug reports, mailto:bugs@example.org\n", metadata)
        again = os.path.join(ROOM.name, "again")
        os.mkdir(again)
        command, keywords = hook(f"build_wheel({again!r})", CELLGRAD_PREFIX=self.prefix)
        run(*command, cwd=py_tap.SOURCE, **keywords)
        with open(self.wheel, "rb") as one, open(os.path.join(again, os.path.basename(self.wheel)), "rb") as two:
            self.assertEqual(one.read(), two.read(), "two wheels of one prefix differ")

    def test_c_module(self):
        """The module for JAX in the wheel loads beside the package, and has its version"""
        program = ("import cellgrad, ctypes, os\nfolder = os.path.dirname(cellgrad.__file__)\n"
                   "module = ctypes.CDLL(os.path.join(folder, 'cellgrad_jax.so'))\nmodule.cellgrad_jax_version.restype = ctypes.c_char_p\n"
                   "print(module.cellgrad_jax_version().decode() == cellgrad.version)")
        self.assertEqual(run(self.python, "-c", program, cwd=ROOM.name), "True\n")

    def test_d_prefix(self):
        """A prefix without a library, or with one of another version, is rejected with a message"""
        command, keywords = hook(f"build_wheel({ROOM.name!r})", CELLGRAD_PREFIX=ROOM.name)
        self.assertIn("there is no lib/libcellgrad", run(*command, status=1, cwd=py_tap.SOURCE, **keywords))
        other = os.path.join(ROOM.name, "other")
        os.makedirs(os.path.join(other, "lib"))
        os.mkdir(os.path.join(other, "include"))
        shutil.copy(LIBRARY, os.path.join(other, "lib", "libcellgrad.so.0"))
        with open(os.path.join(other, "include", "cellgrad.h"), "w", encoding="utf-8") as file:
            file.write("#define CG_VERSION_MAJOR 9\n#define CG_VERSION_MINOR 0\n#define CG_VERSION_PATCH 1\n")
        command, keywords = hook(f"build_wheel({ROOM.name!r})", CELLGRAD_PREFIX=other)
        self.assertRegex(run(*command, status=1, cwd=py_tap.SOURCE, **keywords), r"has cellgrad 9\.0\.1, and this source is cellgrad ")

    def test_d_plugin(self):
        """cellgrad-tensorflow has only the loader and requires cellgrad of its own version; the loader loads the package's plugin"""
        version = cellgrad_project.version()
        with zipfile.ZipFile(self.plugin) as archive:
            info = f"cellgrad_tensorflow-{version}.dist-info/"
            self.assertEqual(set(archive.namelist()), {"tensorflow-plugins/cellgrad_tensorflow_loader.so",
                                                       *(info + name for name in ("METADATA", "WHEEL", "LICENSE", "RECORD"))})
            check_record(self, archive, info)
            metadata = archive.read(info + "METADATA").decode()
        self.assertEqual(metadata.count("\nRequires-Dist:"), 1)
        self.assertIn(f"\nRequires-Dist: cellgrad=={version}\n", metadata)
        run(self.python, "-m", "pip", "install", "-q", "--no-index", "--no-cache-dir", "--find-links", self.folder, "cellgrad-tensorflow")
        program = """
import ctypes, sysconfig
loader = ctypes.CDLL(sysconfig.get_path("platlib") + "/tensorflow-plugins/cellgrad_tensorflow_loader.so")
loader.TF_InitKernel()
text = ctypes.c_char_p()
print(loader.cellgrad_tensorflow_loader_state(ctypes.byref(text)), text.value.decode())"""
        environment = {**os.environ, "CELLGRAD_VERBOSE": "1"}
        output = run(self.python, "-c", program, cwd=ROOM.name, env=environment)
        self.assertIn("cellgrad: TensorFlow: there is no TensorFlow in this process", output)
        self.assertRegex(output, r"\n1 loaded /.*/tensorflow-plugins/../cellgrad/cellgrad_tensorflow.so\n$")
        run(self.python, "-m", "pip", "uninstall", "-q", "-y", "cellgrad")
        self.assertRegex(run(self.python, "-c", program, cwd=ROOM.name, env=environment),
                         r"^cellgrad: TensorFlow: (there is no cellgrad_tensorflow.so .*)\n0 \1\n$")
        run(self.python, "-m", "pip", "install", "-q", "--no-index", "--no-cache-dir", self.wheel)
        command, keywords = hook("build_sdist('.')", "python/plugin", "cellgrad_plugin_build")
        self.assertIn("its source is python/plugin in that of cellgrad", run(*command, status=1, cwd=py_tap.SOURCE, **keywords))

    def test_e_loader_of_a_build(self):
        """loader_of, which wheels without CELLGRAD_PREFIX use, makes the loader in this build by a goal of the Makefile"""
        self.assertTrue(os.path.exists(cellgrad_wheel.loader_of(os.getcwd())))

    def test_f_project(self):
        """The backend reads the tables project and build-system of each pyproject.toml as tomllib does"""
        try:
            import tomllib
        except ImportError:
            self.skipTest("this Python has no tomllib")
        for folder in ("", cellgrad_project.PLUGIN):
            with open(os.path.join(py_tap.SOURCE, folder, "pyproject.toml"), "rb") as file:
                whole = tomllib.load(file)
            ours = cellgrad_project.project(folder)
            for table in ("optional-dependencies", "scripts"):
                self.assertEqual(ours.get("project." + table), whole["project"].pop(table, None))
            self.assertEqual(ours["project"], whole["project"])
            self.assertEqual(ours["build-system"], whole["build-system"])


class Sdist(unittest.TestCase):
    @unittest.skipUnless(os.path.exists(os.path.join(py_tap.SOURCE, ".git")) and shutil.which("git"), "the source is not a checkout of git")
    @unittest.skipUnless(all(map(shutil.which, ("autoconf", "automake", "libtoolize", "pkg-config"))), "there are no autotools")
    def test_sdist(self):
        """The sdist of a checkout has the files that git tracks, and an unpacked sdist makes the same sdist"""
        places = [os.path.join(ROOM.name, name) for name in ("first", "second")]
        for place in places:
            os.mkdir(place)
        command, keywords = hook(f"build_sdist({places[0]!r})", SOURCE_DATE_EPOCH="1000000000")
        run(*command, cwd=py_tap.SOURCE, **keywords)
        first, = glob.glob(os.path.join(places[0], "*.tar.gz"))
        base = f"cellgrad-{cellgrad_project.version()}"
        self.assertEqual(os.path.basename(first), base + ".tar.gz")
        with tarfile.open(first) as archive:
            names = {name[len(base) + 1:] for name in archive.getnames()}
            archive.extractall(ROOM.name)
        tracked = set(filter(None, run("git", "-C", py_tap.SOURCE, "ls-files").split("\n")))
        missing = {name for name in tracked - names if os.path.exists(os.path.join(py_tap.SOURCE, name))}
        self.assertEqual((missing, {"configure", "PKG-INFO"} - names), (set(), set()))
        command, keywords = hook(f"build_sdist({places[1]!r})", SOURCE_DATE_EPOCH="1000000000")
        run(*command, cwd=os.path.join(ROOM.name, base), **keywords)
        second, = glob.glob(os.path.join(places[1], "*.tar.gz"))
        with open(first, "rb") as one, open(second, "rb") as two:
            self.assertEqual(one.read(), two.read())

    def test_words(self):
        """A checkout without autotools, and a folder that is neither checkout nor tarball, give an error that says what is needed"""
        copy = os.path.join(ROOM.name, "bare")
        for path in ("pyproject.toml", "runtime/cellgrad.h", "python/README.md", *(f"python/build/{name}" for name in os.listdir(
                os.path.join(py_tap.PACKAGE, "build")) if name.endswith(".py"))):
            os.makedirs(os.path.join(copy, os.path.dirname(path)), exist_ok=True)
            shutil.copy(os.path.join(py_tap.SOURCE, path), os.path.join(copy, path))
        command, keywords = hook(f"build_sdist({copy!r})")
        self.assertIn("take the release's tarball", run(*command, status=1, cwd=copy, **keywords))
        if shutil.which("git"):
            run("git", "init", "-q", copy)
            tools = os.path.join(ROOM.name, "tools")
            os.mkdir(tools)
            os.symlink(shutil.which("git"), os.path.join(tools, "git"))
            command, keywords = hook(f"build_sdist({copy!r})", PATH=tools)
            self.assertIn("needs autoconf, automake, libtool, pkg-config to make configure", run(*command, status=1, cwd=copy, **keywords))


if __name__ == "__main__":
    py_tap.main()
