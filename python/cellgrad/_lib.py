# SPDX-License-Identifier: Apache-2.0
"""The declarations of cellgrad.h as ctypes types.

The header cellgrad.h is the copy in this package, or runtime/cellgrad.h when the package is used from the source tree.
"""
import os
import re

from ._declare import declare

_FOLDER = os.path.dirname(os.path.abspath(__file__))
_HEADERS = (os.path.join(_FOLDER, "include", "cellgrad.h"), os.path.join(_FOLDER, "..", "..", "runtime", "cellgrad.h"))


def header_folder() -> str:
    """Returns the folder of cellgrad.h.

    Raises ImportError if cellgrad.h is missing.
    """
    for path in _HEADERS:
        if os.path.exists(path):
            return os.path.dirname(path)
    raise ImportError(f"the package cellgrad is incomplete: it has no {_HEADERS[0]}")


def _read_header() -> str:
    with open(os.path.join(header_folder(), "cellgrad.h"), encoding="utf-8") as file:
        return file.read()


def _strip(header: str) -> str:
    """Returns the header's text without comments, and without preprocessor lines except the definitions of CG_VERSION_*."""
    text = re.sub(r"/\*.*?\*/", "", header, flags=re.S).replace("CG_API ", "").replace('extern "C" {', "")
    text = re.sub(r"^#(?!define CG_VERSION_).*$", "", text, flags=re.M)
    return re.sub(r"[ \t]+$", "", text, flags=re.M)


DECLARATIONS = _strip(_read_header())
C = declare(DECLARATIONS)
VERSION = f"{C.CG_VERSION_MAJOR}.{C.CG_VERSION_MINOR}.{C.CG_VERSION_PATCH}"
