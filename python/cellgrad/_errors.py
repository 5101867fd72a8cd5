# SPDX-License-Identifier: Apache-2.0
"""The exceptions: one class for each kind of failure, derived from Error and from the built-in exception for such a failure."""
from typing import Dict, Optional, Type

from ._lib import C


class Error(Exception):
    """The base class of this package's exceptions.  `code` is the library's enum cg_status, or None if the failure has none.

    >>> import cellgrad
    >>> try:
    ...     cellgrad.Cell("lstn")
    ... except cellgrad.Error as error:
    ...     print(type(error).__name__, isinstance(error, ValueError))
    ArgumentError True
    """

    code: Optional[int] = None


class ArgumentError(Error, ValueError):
    """An argument is wrong or missing, or an environment variable is wrong."""

    code = C.CG_BAD_ARGUMENT


class ArgumentTypeError(Error, TypeError):
    """An argument has the wrong dtype or type."""


class OutOfMemoryError(Error, MemoryError):
    """There is not enough memory, on the host or on the device."""

    code = C.CG_NO_MEMORY


class DeviceError(Error, RuntimeError):
    """No device could be opened; the message says why."""

    code = C.CG_NO_DEVICE


class UnsupportedError(Error, NotImplementedError):
    """The backend, the network or the format does not support what the call requests.  The message says why the
    request is not supported, or what is supported."""

    code = C.CG_UNSUPPORTED


class BuildError(Error, RuntimeError):
    """A kernel or a cell could not be compiled.  The message has the line and column of the mistake in a cell's text, the compiler's log,
    or what is missing."""

    code = C.CG_BUILD


class DriverError(Error, RuntimeError):
    """A call of a driver or of a vendor's library failed."""

    code = C.CG_DRIVER


class FileError(Error, OSError):
    """A file could not be read or written."""

    code = C.CG_FILE


class MissingFileError(FileError, FileNotFoundError):
    """A file does not exist."""


class LibraryError(Error, ImportError):
    """The shared library of cellgrad was not found, could not be loaded, or does not match this package, by its version or
    by its functions."""


_OF_STATUS: Dict[int, Type[Error]] = {
    kind.code: kind
    for kind in (ArgumentError, OutOfMemoryError, DeviceError, UnsupportedError, BuildError, DriverError, FileError)
    if kind.code is not None
}


def error_of(status: int, message: str) -> Error:
    """Returns an exception with the message, of the class for an enum cg_status; of class Error if no class is for it."""
    return _OF_STATUS.get(status, Error)(message)
