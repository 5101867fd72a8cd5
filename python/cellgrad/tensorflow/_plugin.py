# SPDX-License-Identifier: Apache-2.0
"""Finds and loads the plugin: the file that CELLGRAD_TF_PLUGIN names, else the one in the package's folder, else the one in the folder
cellgrad beside the library."""
import ctypes
import os
from typing import List, Optional

from .._errors import LibraryError
from .._load import FOLDER, lib

NAME = "cellgrad_tensorflow.so"

_plugin: Optional[ctypes.CDLL] = None
_path = ""


class _Symbol(ctypes.Structure):
    """Dl_info of dlfcn.h."""

    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("name", ctypes.c_char_p), ("address", ctypes.c_void_p)]


def _library_folder() -> Optional[str]:
    """Returns the folder of the loaded library; None if the system does not report the folder."""
    symbol = _Symbol()
    address = ctypes.cast(lib.cg_version, ctypes.c_void_p)
    try:
        is_found = ctypes.CDLL(None).dladdr(address, ctypes.byref(symbol))
    except AttributeError:
        return None
    return os.path.dirname(os.path.realpath(os.fsdecode(symbol.file))) if is_found and symbol.file else None


def _candidates() -> List[str]:
    """Returns the paths at which the plugin is searched for, in the order of the search; if CELLGRAD_TF_PLUGIN names a file, only that
    file's path."""
    named = os.environ.get("CELLGRAD_TF_PLUGIN")
    if named:
        return [named]
    folder = _library_folder()
    return [os.path.join(FOLDER, NAME)] + ([os.path.join(folder, "cellgrad", NAME)] if folder else [])


def load() -> int:
    """Registers the kernels, unless importing `cellgrad.tensorflow` has done so, and returns the number of ops for which the plugin
    registered a kernel.

    Returns 0 if another copy of the plugin, such as one in TensorFlow's folder tensorflow-plugins, registered the kernels before.

    Raises LibraryError, with the paths that were tried, if there is no library or no plugin; with the plugin's reason, if it registered
    nothing.

    >>> import cellgrad.tensorflow
    >>> cellgrad.tensorflow.load()
    11
    """
    global _plugin, _path  # pylint: disable=global-statement
    if _plugin is None:
        # The plugin is linked with the library, and uses the copy of the library that is loaded before the plugin.
        lib.load()
        tried = _candidates()
        path = next((path for path in tried if os.path.exists(path)), None)
        if path is None:
            raise LibraryError(f"cellgrad has no plugin for TensorFlow: no file {', no file '.join(tried)}.  "
                               "Install a wheel that has it, or set CELLGRAD_TF_PLUGIN to its path.")
        try:
            _plugin = ctypes.CDLL(path)
            _plugin.cellgrad_tensorflow_state.argtypes = [ctypes.POINTER(ctypes.c_char_p)]
        except (OSError, AttributeError) as error:
            _plugin = None
            raise LibraryError(f"cellgrad's plugin for TensorFlow does not load: {error}") from error
        _path = path
    words = ctypes.c_char_p()
    count = int(_plugin.cellgrad_tensorflow_state(ctypes.byref(words)))
    if not count:
        raise LibraryError(f"{_path}: {(words.value or b'').decode(errors='replace')}")
    return max(count, 0)


def state() -> str:
    """Returns a sentence that says what the plugin registered.

    >>> import cellgrad.tensorflow
    >>> cellgrad.tensorflow.state().split(" with ")[0]
    'kernels of 11 ops are registered'
    """
    words = ctypes.c_char_p()
    load()
    assert _plugin is not None
    _plugin.cellgrad_tensorflow_state(ctypes.byref(words))
    return (words.value or b"").decode(errors="replace")


def plugin_path() -> str:
    """Returns the path of the plugin that is loaded.

    >>> import cellgrad.tensorflow
    >>> cellgrad.tensorflow.plugin_path().endswith("cellgrad_tensorflow.so")
    True
    """
    load()
    return _path
