# SPDX-License-Identifier: Apache-2.0
"""Finds and loads the shared library: the one that CELLGRAD_LIBRARY names, else the one in this package, else the system's.

`lib` has the library's functions as attributes.  Importing this module tries to load the library and ignores a failure, so that `import
cellgrad` works without a library; the first access to a function tries again, and raises LibraryError if that fails.
"""
import ctypes
import importlib.util
import os
import sys
import sysconfig
from typing import Any, List, Optional, Tuple

from ._errors import LibraryError, error_of
from ._lib import C, VERSION

FOLDER = os.path.dirname(os.path.abspath(__file__))
NAME = "libcellgrad.0.dylib" if sys.platform == "darwin" else "libcellgrad.so.0"


def _advice() -> str:
    """Returns the advice for a user for whom no shared library of cellgrad was found or could be loaded."""
    if sys.platform == "darwin":
        return ("There are no wheels for macOS: build the library from its source with ./configure && make && make install, "
                "and set CELLGRAD_LIBRARY to the path of libcellgrad.0.dylib.")
    if not sys.platform.startswith("linux"):
        return f"cellgrad has not been tried on {sys.platform}."
    if "musl" in (sysconfig.get_config_var("HOST_GNU_TYPE") or ""):
        return ("This Python runs on musl, where a wheel made for glibc does not load: install from source, with "
                "pip install --no-binary cellgrad cellgrad, or set CELLGRAD_LIBRARY to the path of a library built here.")
    return "Install a wheel that has the library, or the library itself, or set CELLGRAD_LIBRARY to its path."


def _use_scipy_openblas() -> None:
    """Sets CELLGRAD_OPENBLAS_LIB to the path of the OpenBLAS of the extra `openblas`, if that is installed and the variable is unset or
    empty; imports no module of the extra."""
    if os.environ.get("CELLGRAD_OPENBLAS_LIB"):
        return
    try:
        spec = importlib.util.find_spec("scipy_openblas32")
    except (ImportError, ValueError):
        return
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        for name in ("libscipy_openblas.so", "libscipy_openblas.dylib"):
            path = os.path.join(folder, "lib", name)
            if os.path.exists(path):
                os.environ["CELLGRAD_OPENBLAS_LIB"] = path
                return


class Library:
    """The shared library, loaded by load() or at the first access to one of its functions."""

    path: Optional[str] = None

    def __getattr__(self, name: str) -> Any:
        if name not in C.functions:
            raise AttributeError(name)
        self.load()
        return self.__dict__[name]

    def load(self) -> None:
        """Loads the library.  Raises LibraryError if none loads, with the paths that were tried, or if the library has another version than
        this package or lacks a function."""
        if self.path is not None:
            return
        path = os.environ.get("CELLGRAD_LIBRARY")
        beside = os.path.join(FOLDER, NAME)
        tried: List[str] = []
        if path:
            # A library that the user names is never replaced by another.
            library = self._open(path, "CELLGRAD_LIBRARY", tried)
        elif os.path.exists(beside):
            path = beside
            library = self._open(path, "the library of this package", tried)
        else:
            path = NAME
            tried.append(f"{beside}: no such file")
            library = self._open(path, "the system's library", tried)
        if library is None:
            raise LibraryError(f"cellgrad {VERSION} has no library: " + "; ".join(tried) + ".  " + _advice())
        self._bind(library, path)

    @staticmethod
    def _open(path: str, what: str, tried: List[str]) -> Optional[ctypes.CDLL]:
        try:
            return ctypes.CDLL(path)
        except OSError as error:
            tried.append(f"{what}, {path}: {error}")
            return None

    def _bind(self, library: ctypes.CDLL, path: str) -> None:
        """Declares all functions of the library.  The library must have the package's version: a library of another version may have other
        functions and structs."""
        try:
            version = library.cg_version
        except AttributeError:
            raise LibraryError(f"{path} is not the library of cellgrad: it has no function cg_version") from None
        version.restype = ctypes.c_char_p
        found = version().decode()
        if found != VERSION:
            raise LibraryError(f"the package cellgrad is {VERSION}, and the library {path} is {found}: install the same version of both, "
                               "or set CELLGRAD_LIBRARY to the path of another library")
        functions = {}
        for name, (result, arguments) in C.functions.items():
            function = getattr(library, name, None)
            if function is None:
                raise LibraryError(f"the library {path} lacks {name}: it was built from an earlier source than the package; build both again")
            function.restype, function.argtypes = result, arguments
            functions[name] = function
        _use_scipy_openblas()
        self.__dict__.update(functions)
        self.path = path


lib = Library()
try:
    lib.load()
except LibraryError:
    pass


def names_of(function: Any) -> Tuple[str, ...]:
    """Returns the names that a function of the library returns for 0, 1, 2 and so on, until it returns NULL."""
    names: List[str] = []
    while (name := function(len(names))) is not None:
        names.append(name.decode())
    return tuple(names)


def check(status: int) -> None:
    """Raises the exception for a status other than CG_OK, with the library's message; must follow the library's call directly."""
    if status:
        raise error_of(status, lib.cg_message().decode(errors="replace"))
