# SPDX-License-Identifier: Apache-2.0
"""Keeps the memory of large results.  The owner of a `Spare`, a network or a module, keeps the memory of its last large results, and later
ones take it once nothing refers to it: memory that is new in each step of a training costs page faults."""
import sys
from typing import Any, List, Tuple

import numpy as np

from ._load import lib

LEAST = 1 << 20                 # The bytes of a result whose memory is kept.
MOST = 8                        # The number of results whose memory is kept: those of two training steps.
LINE = 64                       # The bytes of a cache line, at whose start the memory begins: the kernels' loads then cross none.
COUNTS = hasattr(sys, "getrefcount") and getattr(sys, "_is_gil_enabled", lambda: True)()


def _count(memory: Any) -> int:
    return sys.getrefcount(memory) if COUNTS else -1


def _count_alone() -> int:
    """Returns what _count() says of an array that one local variable alone refers to; the number depends on Python's version."""
    memory = np.empty(0, np.uint8)
    return _count(memory)


ALONE = _count_alone()


class Spare:
    """The memory of the last large results, each of which may still be in use: a loop that assigns its results to variables holds those of
    one step while the next step begins.  A copy and a pickle of a Spare are empty."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: List[Any] = []

    def __reduce__(self) -> Tuple[Any, ...]:
        return Spare, ()

    def _pop(self, size: int) -> Any:
        """Removes the smallest memory that nothing else refers to, and that has at least `size` and at most twice `size` bytes; returns it,
        or None.  Threads may call _pop() at once: each removes memory from the list before it looks at it."""
        kept, fitting = self._kept, []
        for _ in range(len(kept)):
            try:
                memory = kept.pop(0)
            except IndexError:                  # another thread removed it
                break
            (fitting if _count(memory) == ALONE and size <= memory.size <= 2 * size else kept).append(memory)
        found = min(fitting, key=len, default=None)
        kept.extend(memory for memory in fitting if memory is not found)
        return found

    def take(self, size: int) -> Any:
        """Returns an array of `size` bytes that begins at a cache line.  A large one lies in memory that is kept, if nothing refers to that
        memory and its size fits; otherwise the memory is new."""
        is_kept = COUNTS and size >= LEAST
        memory = self._pop(size + LINE) if is_kept else None
        if memory is None:
            memory = np.empty(size + LINE, np.uint8)
            lib.cg_prefer_huge_pages(memory.ctypes.data, memory.size)
        if is_kept:
            self._kept.append(memory)
            del self._kept[:-MOST]
        first = -memory.ctypes.data % LINE
        return memory[first:first + size]

    def empty(self, shape: Tuple[int, ...], dtype: Any) -> Any:
        """Returns an array like np.empty()."""
        size = dtype.itemsize
        for n in shape:
            size *= n
        return np.empty(shape, dtype) if size < LEAST else self.take(size).view(dtype).reshape(shape)
