# SPDX-License-Identifier: Apache-2.0
"""Calls by PyTorch's stable ABI: finds and loads the extension that `python -m cellgrad.torch.build` compiles from stable.cc.

The extension is the file that CELLGRAD_TORCH_EXTENSION names, else the one in the folder of cellgrad.torch, else the one in the user's
cache folder; an empty CELLGRAD_TORCH_EXTENSION switches it off.  Without an extension, and for calls that it does not support, ctypes is
used.
"""
import ctypes
import importlib.machinery
import importlib.util
import os
import sysconfig
from typing import Any, List, Optional, Sequence, Tuple

import torch

from .._errors import LibraryError
from .._lib import C, VERSION
from .._load import lib
from .._spare import LEAST, Spare
from . import _memory

VARIABLE = "CELLGRAD_TORCH_EXTENSION"
# The first PyTorch whose stable ABI converts Python objects to tensors, and tensors to objects.
OLDEST = (2, 14)
FOLDER = os.path.dirname(os.path.abspath(__file__))
NAME = "_extension.abi3.so"

is_off = False                                   # True: all calls use ctypes, for tests and the benchmark
_found: Optional[Tuple[Any, str]] = None


def torch_version() -> Tuple[int, ...]:
    """Returns the major and the minor version of PyTorch."""
    return tuple(int(number) for number in torch.__version__.split(".")[:2])


def cache_folder() -> Optional[str]:
    """Returns the folder, in the library's cache folder, for the extension if the package's folder is not writable."""
    for folder, below in ((os.environ.get("CELLGRAD_CACHE_DIR"), ""), (os.environ.get("XDG_CACHE_HOME"), "cellgrad"),
                          (os.environ.get("HOME"), ".cache/cellgrad")):
        if folder and os.path.isabs(folder):
            return os.path.join(folder, below, f"torch-{VERSION}-{sysconfig.get_platform()}")
    return None


def _is_own(path: str) -> bool:
    """Do the file and its folder belong to the user, and may no other user write to them?"""
    return all(about.st_uid == os.geteuid() and not about.st_mode & 0o022 for about in (os.stat(path), os.stat(os.path.dirname(path))))


def _open(path: str) -> Any:
    """Loads the extension in a file.

    Raises ImportError if the extension does not load, or was built for another version of cellgrad.
    """
    loader = importlib.machinery.ExtensionFileLoader("_extension", path)
    spec = importlib.util.spec_from_file_location("_extension", path, loader=loader)
    module = importlib.util.module_from_spec(spec)  # type: ignore[arg-type]
    if getattr(module, "VERSION", None) != VERSION:
        raise ImportError(f"the extension was built for cellgrad {getattr(module, 'VERSION', 'of no version')}, "
                          f"and this is cellgrad {VERSION}")
    module.start(*(ctypes.cast(function, ctypes.c_void_p).value for function in (
        lib.cg_stream_take, lib.cg_stream_give, lib.cg_rnn_call_init, lib.cg_rnn_sizes, lib.cg_rnn_forward, lib.cg_rnn_backward,
        lib.cg_prefer_huge_pages)), torch.Tensor, torch.nn.Parameter)
    return module


def _find() -> Tuple[Any, str]:
    """Returns the extension or None, and the text that `route` puts in parentheses: the extension's path, or why there is none."""
    named = os.environ.get(VARIABLE)
    if named == "":
        return None, f"{VARIABLE} is empty"
    if torch_version() < OLDEST:
        return None, f"PyTorch {torch.__version__} is older than {OLDEST[0]}.{OLDEST[1]}"
    beside, folder = os.path.join(FOLDER, NAME), cache_folder()
    cached = os.path.join(folder, NAME) if folder else None
    for path in [named] if named else [beside, cached]:
        if path is None or (not named and not os.path.exists(path)):
            continue
        try:
            if path is cached and not _is_own(path):
                raise ImportError("other users may have written this file")
            return _open(path), path
        except (LibraryError, ImportError, OSError, TypeError) as error:
            return None, f"{path}: {error}"
    return None, "no extension: python -m cellgrad.torch.build makes one"


def extension() -> Any:
    """Returns the extension, or None; the extension is searched for once in a process."""
    global _found
    if _found is None:
        _found = _find()
    return _found[0]


def route() -> str:
    """Returns the route by which calls on the cpu reach the library: "stable ABI (FILE)" by the extension, else "ctypes (REASON)".

    >>> import cellgrad.torch
    >>> cellgrad.torch.route().split(" (")[0] in ("stable ABI", "ctypes")
    True
    """
    way = "ctypes" if extension() is None else "stable ABI"
    return f"{way} ({_found[1] if _found else ''})"


def plan_of(plan: Any) -> Any:
    """Returns the extension's object for a `_spec.Plan`; None without an extension, or for device memory or a cell of several cell states,
    which the extension does not support."""
    module, spec = extension(), plan.spec
    if module is None or plan.place.place != C.CG_HOST or spec.cell.n_states > 1:
        return None
    parts: List[int] = [number for part in spec.parts for number in part]
    return module.plan(plan.place.context().pointer.value, plan.pointer.value, plan.code, spec.reserve, spec.batch_first,
                       spec.cell.has_state, spec.directions, spec.layers * spec.directions, spec.input, spec.units, spec.width, tuple(parts))


def forward(spec: Any, x: Any, weights: Sequence[Any], h0: Any, c0: Any, counter: int = 0,
            spare: Optional[Spare] = None) -> Optional[Tuple[Any, ...]]:
    """Computes output, h and c, and the reserve space if the network has one, by the extension.  spare: has the memory of a large reserve
    space.

    Returns None if there is no extension, if `is_off` switches it off, if the extension does not support the call, if the call fails, or if
    no earlier call opened the network's plan.
    """
    plan = spec.stable(x.dtype)
    if plan is None or is_off:
        return None
    reserve = None
    if spec.reserve and spare is not None and x.dim() == 3:
        size = plan.call(*spec.sizes(x))[1]
        if size >= LEAST:
            reserve = _memory.reserve(x, size, spare)
    made: Optional[Tuple[Any, ...]] = _found[0].forward(plan.stable, x, weights, h0, c0, counter, reserve)  # type: ignore[index]
    return made


def backward(spec: Any, gradients: Sequence[Any], x: Any, weights: Sequence[Any], h0: Any, c0: Any, reserve: Any, counter: int,
             needs: Tuple[bool, ...]) -> Optional[Tuple[Any, ...]]:
    """Computes the gradients of input, h0, c0 and each weight by the extension; None for those whose `needs` is False.

    Returns None in the cases in which the function `forward` of this file returns None.
    """
    plan = spec.stable(x.dtype)
    if plan is None or is_off:
        return None
    made: Optional[Tuple[Any, ...]] = _found[0].backward(plan.stable, *gradients, x, weights, h0, c0, reserve, counter,  # type: ignore[index]
                                                         needs)
    return made
