# SPDX-License-Identifier: Apache-2.0
"""Finds the module of handlers, cellgrad_jax.so, and registers its handlers with XLA.

The file cellgrad_jax.so is in the folder of the shared library, or in the folder cellgrad there: `make install` puts it into lib/cellgrad.
"""
import ctypes
import functools
import os
from typing import Any, Mapping, Sequence, Tuple

import jax

from .._context import Context
from .._errors import LibraryError
from .._lib import VERSION
from .._load import lib
from ._manual_axes import axes_of, result, varying

NAME = "cellgrad_jax.so"
# The names of the handlers in compiled programs.
FORWARD, BACKWARD, INIT_PARAMS = TARGETS = ("cellgrad_jax_forward", "cellgrad_jax_backward", "cellgrad_jax_init_params")


class _Found(ctypes.Structure):
    """struct Dl_info of dladdr(3)."""

    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("name", ctypes.c_char_p), ("address", ctypes.c_void_p)]


def library_folder() -> str:
    """Returns the folder of the library that is loaded."""
    lib.load()
    found = _Found()
    dladdr = ctypes.CDLL(None).dladdr
    dladdr.argtypes = [ctypes.c_void_p, ctypes.POINTER(_Found)]
    if not dladdr(ctypes.cast(lib.cg_version, ctypes.c_void_p), ctypes.byref(found)) or not found.file:
        raise LibraryError("cellgrad.jax: dladdr does not find the path of the cellgrad library")
    return os.path.dirname(os.path.realpath(os.fsdecode(found.file)))


def load(folder: str) -> ctypes.CDLL:
    """Loads cellgrad_jax.so from a folder, or from the folder cellgrad in that folder.

    Raises LibraryError if there is no cellgrad_jax.so, if it cannot be loaded, or if it has another version than this package.
    """
    paths = [os.path.join(folder, NAME), os.path.join(folder, "cellgrad", NAME)]
    path = next(filter(os.path.exists, paths), None)
    if path is None:
        raise LibraryError(f"cellgrad.jax has no module: no such file: {' or '.join(paths)}; a shared library that was built with "
                           "./configure && make && make install has it")
    try:
        module = ctypes.CDLL(path)
        version = module.cellgrad_jax_version
    except (OSError, AttributeError) as error:
        raise LibraryError(f"cellgrad.jax: {path}: {error}") from None
    version.restype = ctypes.c_char_p
    if version().decode() != VERSION:
        raise LibraryError(f"the package cellgrad is {VERSION}, and {path} is {version().decode()}: install the same version of both")
    return module


def register() -> None:
    """Registers the handlers with XLA, for the platform cpu."""
    module = load(library_folder())
    for name in TARGETS:
        jax.ffi.register_ffi_target(name, jax.ffi.pycapsule(getattr(module, name)), platform="cpu")


@functools.lru_cache(maxsize=None)
def _context_of(where: str) -> Context:
    return Context(where)


def context() -> Context:
    """Returns a context on the device on which the handlers compute: the one that CELLGRAD_BACKEND names, else the cpu.

    `Network.numpy` and `Network.reserve_size` use the context that context() returns; the handlers use a context of their own.
    """
    return _context_of(os.environ.get("CELLGRAD_BACKEND") or "cpu")


def call(name: str, results: Sequence[Tuple[Sequence[Any], Any]], arguments: Sequence[Any], attributes: Mapping[str, Any]) -> Sequence[Any]:
    """Calls a handler whose results have the shapes and dtypes in `results`.  Under vmap, the handler is called once for each element of
    the mapped axis."""
    axes = axes_of(arguments)
    types = [result(shape, dtype, axes) for shape, dtype in results]
    made: Sequence[Any] = jax.ffi.ffi_call(name, types, vmap_method="sequential")(
        *(varying(argument, axes) for argument in arguments), **attributes)
    return made


register()
