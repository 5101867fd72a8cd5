# SPDX-License-Identifier: Apache-2.0
"""The declarations of cellgrad.h, and what ctypes makes of them.

The header is the one in this package; in the source, where nothing is installed, it is runtime/cellgrad.h.
"""
import os
import re

from ._declare import declare

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_HEADERS = (os.path.join(_FOLDER, "include", "cellgrad.h"), os.path.join(_FOLDER, "..", "..", "runtime", "cellgrad.h"))


def header_folder() -> str:
    """Where cellgrad.h is.

    Raises ImportError if it is missing.
    """
    for path in _HEADERS:
        if os.path.exists(path):
            return os.path.dirname(path)
    raise ImportError(f"the package cellgrad is not whole: it has no {_HEADERS[0]}")


def _read_header() -> str:
    with open(os.path.join(header_folder(), "cellgrad.h"), encoding="utf-8") as file:
        return file.read()


def _strip(header: str) -> str:
    """The declarations and the version, without comments and the rest of the preprocessor's lines."""
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.S).replace("CG_API ", "").replace('extern "C" {', "")
    text = re.sub(r"^#(?!define CG_VERSION_).*$", "", text, flags=re.M)
    return re.sub(r"[ \t]+$", "", text, flags=re.M)


DECLARATIONS = _strip(_read_header())
C = declare(DECLARATIONS)
VERSION = f"{C.CG_VERSION_MAJOR}.{C.CG_VERSION_MINOR}.{C.CG_VERSION_PATCH}"
