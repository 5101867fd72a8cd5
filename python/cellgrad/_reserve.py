# SPDX-License-Identifier: Apache-2.0
"""The memory of reserve spaces.  A network keeps the memory of a large reserve space that nothing refers to any more, and its next forward
pass takes it: memory that is new in each step of a training costs page faults."""
import sys
from typing import Any, List, Tuple

import numpy as np

LEAST = 1 << 20                 # The bytes of a reserve space whose memory is kept.
LINE = 64                       # The bytes of a cache line, at whose start a reserve space begins: the kernels' loads then cross none.
COUNTS = hasattr(sys, "getrefcount") and getattr(sys, "_is_gil_enabled", lambda: True)()


def _count(memory: Any) -> int:
    return sys.getrefcount(memory) if COUNTS else -1


def _count_alone() -> int:
    """Returns what _count() says of an array that one local variable alone refers to; the number depends on Python's version."""
    memory = np.empty(0, np.uint8)
    return _count(memory)


ALONE = _count_alone()


def take(spare: List[Any], size: int) -> Tuple[Any, Any]:
    """Returns an array of `size` bytes for a reserve space, and the array whose memory it is: that in the list `spare`, if it is large
    enough and at most twice as large as needed, or a new one."""
    try:
        memory = spare.pop()
    except IndexError:
        memory = None
    if memory is None or not size + LINE <= memory.size <= 2 * (size + LINE):
        memory = np.empty(size + LINE, np.uint8)
    first = -memory.ctypes.data % LINE
    return memory[first:first + size], memory


def give(spare: List[Any], run: Any) -> None:
    """Takes the reserve space from a run that nothing refers to any more.  Its memory goes into the list `spare`, if that is empty and
    nothing else refers to the memory."""
    memory, run._memory, run.reserve = run._memory, None, None
    if memory.size >= LEAST and COUNTS and not spare and _count(memory) == ALONE:
        spare.append(memory)
