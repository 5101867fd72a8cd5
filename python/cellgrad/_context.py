# SPDX-License-Identifier: Apache-2.0
"""Contexts.  A `Context` opens its device once in a process, and once more in a forked child that uses it."""
import ctypes
import os
import threading
from typing import Any, Callable, List, NamedTuple, Optional

from ._arguments import dtype_code, text
from ._errors import UnsupportedError
from ._load import check, lib

# The lock `opening` is held while a context or a plan of the library is opened, and while the process forks, so that a forked child finds
# no half-opened one, and the lock free.
opening = threading.Lock()
_forks = 0


def _count_fork() -> None:
    global _forks
    _forks += 1
    opening.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=opening.acquire, after_in_parent=opening.release, after_in_child=_count_fork)


class Handle:
    """A context, plan or stream of the library, which is closed when the last reference to the handle is gone, except in a child that was
    forked after the handle was made."""

    __slots__ = ("pointer", "_close", "_forks")

    def __init__(self, pointer: ctypes.c_void_p, close: Callable[[ctypes.c_void_p], None]):
        self.pointer, self._close, self._forks = pointer, close, _forks

    def is_of_this_process(self) -> bool:
        return self._forks == _forks

    def __del__(self) -> None:
        # If __init__ raised an exception, the handle has no pointer.
        if getattr(self, "pointer", None) and self._forks == _forks:
            self._close(self.pointer)


class Device(NamedTuple):
    """A device: its name, as `Context` accepts it, and a line that describes it or says why it cannot be opened."""

    name: str
    about: str


def devices() -> List[Device]:
    """Returns all devices of all backends.  The call loads the drivers of all backends, which takes a while.

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

    where: "cpu", "cpu:threads=4", "opencl:0.1", "cuda:1", or several separated by commas, in order of preference.  None stands for the
    environment variable CELLGRAD_BACKEND, and if that is unset, for the first backend that opens and is not passed over.  If no backend is
    named, on Linux OpenCL drivers are loaded only if there are signs of a GPU.

    Threads may share a context.  After a fork, the child opens the device anew when it first uses the context.
    A context can be pickled; the copy opens the device that `where` then stands for.

    Raises ArgumentError if there is no such backend, DeviceError if no device can be opened.

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
        """Returns the handle of the library's context in this process, which is opened if it is not yet open."""
        handle = self._open
        if handle is None or not handle.is_of_this_process():
            with opening:
                handle = self._handle_locked()
        return handle

    def _handle_locked(self) -> Handle:
        """handle(), for callers that hold the lock `opening`."""
        handle = self._open
        if handle is None or not handle.is_of_this_process():
            pointer = ctypes.c_void_p()
            check(lib.cg_open(self._where, ctypes.byref(pointer)))
            handle = self._open = Handle(pointer, lib.cg_close)
        return handle

    def call(self, function: Callable[..., int], *arguments: Any) -> None:
        """Takes a stream, calls a function of the library on it, and waits for the result."""
        handle = self.handle()
        stream = ctypes.c_void_p()
        check(lib.cg_stream_take(handle.pointer, ctypes.byref(stream)))
        try:
            check(function(stream, *arguments))
        except BaseException:
            # The exception reports the failure of the call, even if giving the stream back fails, too.
            lib.cg_stream_give(stream)
            raise
        check(lib.cg_stream_give(stream))

    @property
    def about(self) -> str:
        """One line by the library that describes the device, with the instruction set, the libraries or the driver that the backend
        uses."""
        return str(lib.cg_describe(self.handle().pointer).decode(errors="replace"))

    def supports(self, op: str, dtype: Any = "float32") -> bool:
        """Returns whether the device can compute an op in a dtype; op: TensorFlow's name or the library's.

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
    """Returns the context of networks and calls that get no `context` argument: `Context()`, opened once.

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
