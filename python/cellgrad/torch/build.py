# SPDX-License-Identifier: Apache-2.0
"""`python -m cellgrad.torch.build`: compiles the extension, with which calls use PyTorch's stable ABI instead of ctypes.

The extension goes into the package's folder, or, if that is not writable, into the user's cache folder; --into FOLDER chooses another one.
CXX and CXXFLAGS are the compiler and further options for it.  The extension works with PyTorch 2.14 and later, with CPython 3.10 and later
that has the interpreter's lock, and with the version of cellgrad that it was built for.
"""
import argparse
import os
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from typing import List, Optional

import torch

from .._errors import BuildError
from .._lib import header_folder
from ._stable import FOLDER, NAME, OLDEST, VARIABLE, cache_folder, torch_version

SOURCE = os.path.join(FOLDER, "stable.cc")
# Makes two equal calls in a separate process, the first by ctypes, the second by the extension, and compares their outputs.
TRIAL = """import sys, torch, cellgrad.torch as ours
module, x = ours.LSTM(2, 3), torch.ones(1, 1, 2)
with torch.no_grad():
    same = torch.equal(module(x)[0], module(x)[0])
way = ours.route()
sys.exit(None if way.startswith("stable ABI") and same else way)"""


def command(output: str) -> List[str]:
    """Returns the command that compiles the extension.

    Raises BuildError, which names what is missing, if something is missing.
    """
    if torch_version() < OLDEST:
        raise BuildError(f"PyTorch {OLDEST[0]}.{OLDEST[1]} or later is needed, and this is PyTorch {torch.__version__}")
    if sys.version_info < (3, 10) or sysconfig.get_config_var("Py_GIL_DISABLED"):
        raise BuildError("CPython 3.10 or later with the interpreter's lock is needed: other interpreters lack the stable ABI that the "
                         "extension uses")
    compiler = shlex.split(os.environ.get("CXX", "")) or ["c++"]
    if shutil.which(compiler[0]) is None:
        raise BuildError(f"no C++ compiler: there is no {compiler[0]}; install one (Debian: apt-get install g++), or name one with CXX=")
    python, theirs = sysconfig.get_paths()["include"], os.path.join(os.path.dirname(str(torch.__file__)), "include")
    for folder, header, advice in ((python, "Python.h", "install Python's headers (Debian: apt-get install python3-dev)"),
                                   (theirs, "torch/csrc/stable/c/shim.h", "install a PyTorch that has its headers")):
        if not os.path.exists(os.path.join(folder, header)):
            raise BuildError(f"no {header} in {folder}: {advice}")
    target = f"-DTORCH_TARGET_VERSION=0x{OLDEST[0]:02x}{OLDEST[1]:02x}000000000000"
    return [*compiler, "-std=c++17", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", target, "-I", python, "-isystem", theirs,
            "-I", header_folder(), *shlex.split(os.environ.get("CXXFLAGS", "")), SOURCE, "-o", output,
            "-L", os.path.join(os.path.dirname(theirs), "lib"), "-ltorch_cpu"]


def place() -> str:
    """Returns the folder for the extension; BuildError if there is none."""
    if os.access(FOLDER, os.W_OK):
        return FOLDER
    folder = cache_folder()
    if folder is None:
        raise BuildError(f"{FOLDER} cannot be written to, and there is no cache folder: set HOME or CELLGRAD_CACHE_DIR")
    return folder


def build(into: Optional[str] = None) -> str:
    """Compiles the extension, tries it, and returns its path; an older extension is replaced only after the new one has worked.

    Raises BuildError, with what is missing or the output of the compiler or the trial; OSError if the system refuses a file.
    """
    folder = os.path.abspath(into) if into is not None else place()
    os.makedirs(folder, mode=0o700, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".build-") as room:
        made = os.path.join(room, NAME)
        done = subprocess.run(command(made), capture_output=True, text=True, check=False)
        if done.returncode:
            raise BuildError(f"the compiler failed, with status {done.returncode}:\n{done.stderr}{done.stdout}".rstrip())
        trial = subprocess.run([sys.executable, "-c", TRIAL], capture_output=True, text=True, check=False, env={
            **os.environ, VARIABLE: made, "PYTHONPATH": os.pathsep.join(
                filter(None, (os.path.dirname(os.path.dirname(FOLDER)), os.environ.get("PYTHONPATH"))))})
        if trial.returncode:
            raise BuildError(f"the extension was built, but does not work: {trial.stderr}".rstrip())
        path = os.path.join(folder, NAME)
        os.replace(made, path)
    return path


def main(arguments: Optional[List[str]] = None) -> int:
    """Prints the extension's path, or the reason why it could not be built."""
    parser = argparse.ArgumentParser(prog="python -m cellgrad.torch.build", description="the extension for PyTorch's stable ABI")
    parser.add_argument("--into", metavar="FOLDER", help=f"the folder to put it into; {VARIABLE} must then name the file")
    try:
        print(build(parser.parse_args(arguments).into))
    except (BuildError, OSError) as error:
        print(f"cellgrad.torch.build: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
