# SPDX-License-Identifier: Apache-2.0
"""Where the rows of a sequence lie in an array, and what of that the library takes as it is."""
from typing import Any, Optional, Tuple

import numpy as np

from ._arguments import dense, shown, span

Array = Any
Strides = Tuple[int, int]

DENSE: Strides = (0, 0)


def strides_of(array: Array, time_major: bool) -> Optional[Strides]:
    """Elements from step to step and from batch row to batch row, (0, 0) of a dense array; None if the library has to have a copy."""
    if array.ndim == 2 or array.flags.c_contiguous:
        return DENSE if array.flags.c_contiguous and array.flags.aligned else None
    each = array.itemsize
    steps, rows = (0, 1) if time_major else (1, 0)
    if not array.flags.aligned or (array.shape[2] > 1 and array.strides[2] != each):
        return None
    if any(array.shape[axis] > 1 and (array.strides[axis] <= 0 or array.strides[axis] % each) for axis in (0, 1)):
        return None
    # The stride of an axis of one element reaches nothing.
    t, b = (array.strides[axis] // each if array.shape[axis] > 1 else 0 for axis in (steps, rows))
    return t, b


def sequence(name: str, value: Any, dtype: "np.dtype[Any]", shape: Any, axes: str, time_major: bool, most: Optional[int] = None) -> Array:
    """An input as it lies, or copied once: where its rows are not dense, overlap like those of broadcast_to, or, with `most`, lie in more than
    so many times the memory of a dense one."""
    array = shown(name, value, dtype, shape, axes)
    if strides_of(array, time_major) is None or (most and not array.flags.c_contiguous and span(array) > most * array.nbytes):
        return dense(array)
    return array


def like(array: Array) -> Array:
    """A new array that lies as this one does."""
    if array.flags.c_contiguous:
        return np.empty(array.shape, array.dtype)
    memory = np.empty(span(array) // array.itemsize, array.dtype)
    return np.lib.stride_tricks.as_strided(memory, array.shape, array.strides)
