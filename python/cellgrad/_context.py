# SPDX-License-Identifier: Apache-2.0
"""Contexts: a device, opened once for each process.  After a fork the child opens its own."""
import ctypes
import os
import threading
from typing import Any, Callable, List, NamedTuple, Optional

from ._arguments import dtype_code, text
from ._errors import UnsupportedError
from ._load import check, lib

# Held while anything is opened, and while the process forks: a child finds nothing half opened, and the lock free.
opening = threading.Lock()
_forks = 0


def _count_fork() -> None:
    global _forks
    _forks += 1
    opening.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=opening.acquire, after_in_parent=opening.release, after_in_child=_count_fork)


class Handle:
    """An object of the library's, closed when nobody has the handle any more.  In a forked child it is left alone."""

    __slots__ = ("pointer", "_close", "_forks")

    def __init__(self, pointer: ctypes.c_void_p, close: Callable[[ctypes.c_void_p], None]):
        self.pointer, self._close, self._forks = pointer, close, _forks

    def is_of_this_process(self) -> bool:
        return self._forks == _forks

    def __del__(self) -> None:
        # An exception that __init__ met leaves no pointer.
        if getattr(self, "pointer", None) and self._forks == _forks:
            self._close(self.pointer)


class Device(NamedTuple):
    """A device: its name for `Context`, and a line about it, or why it cannot be opened."""

    name: str
    about: str


def devices() -> List[Device]:
    """All devices of all backends.  Every driver of the system is loaded, which takes a while.

    >>> import cellgrad
    >>> [device.name for device in cellgrad.devices() if device.name == "cpu"]
    ['cpu']
    """
    found: List[Device] = []
    about = ctypes.c_char_p()
    while True:
        name = lib.cg_device(len(found), ctypes.byref(about))
        if name is None:
            return found
        found.append(Device(name.decode(), (about.value or b"").decode(errors="replace")))


class Context:
    """One device of one backend.

    where: "cpu", "cpu:threads=4", "opencl:0.1", "cuda:1", or several with commas, in order of preference.  None is what the
    environment's CELLGRAD_BACKEND says, and unset the first backend that opens.

    Threads may share a context.  A process that is forked opens the device anew in the child, when it is first used there.
    A context can be pickled: the copy opens the same device.

    Raises ArgumentError if there is no such backend, DeviceError if it does not open.

    >>> import cellgrad
    >>> context = cellgrad.Context("cpu:threads=2")
    >>> context.where, context.supports("LSTMBlockCell", "float64")
    ('cpu:threads=2', True)
    """

    def __init__(self, where: Optional[str] = None):
        self.where = where
        self._where = None if where is None else text("where", where)
        self._open: Optional[Handle] = None
        self.handle()

    def handle(self) -> Handle:
        """The library's context, of this process."""
        handle = self._open
        if handle is None or not handle.is_of_this_process():
            with opening:
                handle = self._handle_locked()
        return handle

    def _handle_locked(self) -> Handle:
        """handle() for who holds `opening`."""
        handle = self._open
        if handle is None or not handle.is_of_this_process():
            pointer = ctypes.c_void_p()
            check(lib.cg_open(self._where, ctypes.byref(pointer)))
            handle = self._open = Handle(pointer, lib.cg_close)
        return handle

    def call(self, function: Callable[..., int], *arguments: Any) -> None:
        """Calls a function of the library on a stream that is borrowed for it, and waits."""
        handle = self.handle()
        stream = ctypes.c_void_p()
        check(lib.cg_stream_take(handle.pointer, ctypes.byref(stream)))
        try:
            check(function(stream, *arguments))
        except BaseException:
            # The first failure is the one to report.
            lib.cg_stream_give(stream)
            raise
        check(lib.cg_stream_give(stream))

    @property
    def about(self) -> str:
        """Device, instruction set and libraries, in one line."""
        return str(lib.cg_describe(self.handle().pointer).decode(errors="replace"))

    def supports(self, op: str, dtype: Any = "float32") -> bool:
        """Whether the device computes an op, by TensorFlow's name or ours, in a dtype.

        Raises ArgumentError if there is no such op.
        """
        try:
            check(lib.cg_supports(self.handle().pointer, text("op", op), dtype_code(dtype)))
        except UnsupportedError:
            return False
        return True

    def __repr__(self) -> str:
        return f"cellgrad.Context({self.where!r})"

    def __reduce__(self) -> Any:
        return Context, (self.where,)


_default: Optional[Context] = None


def default_context() -> Context:
    """The context of networks and calls that are given none: `Context()`, opened once.

    >>> import cellgrad
    >>> cellgrad.default_context() is cellgrad.default_context()
    True
    """
    global _default
    if _default is None:
        context = Context()
        with opening:
            if _default is None:
                _default = context
    return _default
