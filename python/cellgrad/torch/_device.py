# SPDX-License-Identifier: Apache-2.0
"""Finds the library's context and stream for the device of a tensor.

Tensors on the cpu have the context "cpu" or the one that CELLGRAD_BACKEND names; tensors on a CUDA device have PyTorch's own context and
current stream.  If several processes share the machine, which torchrun shows by LOCAL_WORLD_SIZE, the context "cpu" of each has as many
threads as its share of the processors, unless CELLGRAD_CPU_THREADS is set.
"""
import ctypes
import os
from typing import Any, Dict, List, Optional

import torch

from .._context import Context, Handle, opening
from .._errors import DriverError, UnsupportedError
from .._lib import C
from .._load import lib
from ._errors import check


def cpu_name() -> str:
    """Returns the name with which the context for tensors on the cpu is opened."""
    where = os.environ.get("CELLGRAD_BACKEND") or "cpu"
    ranks = os.environ.get("LOCAL_WORLD_SIZE", "")
    if where != "cpu" or os.environ.get("CELLGRAD_CPU_THREADS") or not ranks.isdigit() or int(ranks) < 2:
        return where
    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return f"cpu:threads={max(1, count // int(ranks))}"


class Cpu:
    """The context and the streams for tensors in host memory."""

    place = C.CG_HOST

    def __init__(self) -> None:
        self._context: Optional[Context] = None

    def context(self) -> Handle:
        """Returns the handle of the library's context in this process."""
        if self._context is None:
            self._context = Context(cpu_name())
        return self._context.handle()

    def take(self, context: Handle) -> Any:
        """Returns a stream for one call."""
        stream = ctypes.c_void_p()
        check(lib.cg_stream_take(context.pointer, ctypes.byref(stream)))
        return stream

    def give(self, stream: Any) -> None:
        """Gives a stream back."""
        check(lib.cg_stream_give(stream))


def native_context(index: int) -> int:
    """Returns the CUcontext that PyTorch uses on a device, which is the primary one."""
    driver = ctypes.CDLL("libcuda.so.1")
    device, context = ctypes.c_int(), ctypes.c_void_p()
    for name, arguments in (("cuInit", (0,)), ("cuDeviceGet", (ctypes.byref(device), index)),
                            ("cuDevicePrimaryCtxRetain", (ctypes.byref(context), device))):
        code = getattr(driver, name)(*arguments)
        if code:
            raise DriverError(f"cuda: {name} of device {index} failed with {code}")
    return int(context.value or 0)


def native_stream(index: int) -> int:
    """Returns PyTorch's current CUstream of a device; 0 is the default one."""
    return int(torch.cuda.current_stream(index).cuda_stream)


class Cuda:
    """The context and the streams for tensors in the memory of a CUDA device."""

    place = C.CG_DEVICE

    def __init__(self, index: int):
        self.index = index
        self._handle: Optional[Handle] = None
        # The library's streams that no call uses, by their CUstream; a thread pops one for a call.
        self._idle: Dict[int, List[Any]] = {}

    def context(self) -> Handle:
        """Returns the handle of the library's context, which adopts PyTorch's."""
        if self._handle is None or not self._handle.is_of_this_process():
            native = native_context(self.index)
            with opening:
                pointer = ctypes.c_void_p()
                check(lib.cg_adopt(b"cuda", native, None, ctypes.byref(pointer)))
                self._handle, self._idle = Handle(pointer, lib.cg_close), {}
        return self._handle

    def take(self, context: Handle) -> Any:
        """Returns a stream of the library over PyTorch's current CUstream.  CUDA's default stream, for which PyTorch has the number 0, has
        the number 1 in the library."""
        native = native_stream(self.index) or 1
        idle = self._idle.setdefault(native, [])
        try:
            return idle.pop()
        except IndexError:
            pointer = ctypes.c_void_p()
            check(lib.cg_stream_open(context.pointer, native, ctypes.byref(pointer)))
            return _Stream(Handle(pointer, lib.cg_stream_close), native)

    def give(self, stream: Any) -> None:
        """Keeps a stream for the next call, without waiting for the work on it."""
        self._idle.setdefault(stream.native, []).append(stream)


class _Stream:
    """A stream of the library, with its CUstream."""

    def __init__(self, handle: Handle, native: int):
        self._handle, self.native = handle, native
        self._as_parameter_ = handle.pointer


_cpu = Cpu()
_cuda: Dict[int, Cuda] = {}


def place_of(device: Any) -> Any:
    """Returns the `Cpu` or `Cuda` object of a device.

    Raises UnsupportedError for a device other than cpu and cuda.
    """
    kind = device.type
    if kind == "cpu":
        return _cpu
    if kind == "cuda":
        index = device.index if device.index is not None else torch.cuda.current_device()
        found = _cuda.get(index)
        if found is None:
            found = _cuda.setdefault(index, Cuda(index))
        return found
    raise UnsupportedError(f"cellgrad.torch: expected tensors on cpu or cuda, got one on {kind}; "
                           "model.cpu() and input.cpu() bring them where they can be computed with")
