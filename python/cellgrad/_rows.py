# SPDX-License-Identifier: Apache-2.0
"""The strides of a sequence in an array, and whether the library can read the array without a copy."""
from typing import Any, Optional, Tuple

import numpy as np

from ._arguments import dense, shown, span

Array = Any
Strides = Tuple[int, int]

DENSE: Strides = (0, 0)


def strides_of(array: Array, time_major: bool) -> Optional[Strides]:
    """Returns the number of elements from one step to the next, and from one row of the batch to the next, 0 where there is no next one;
    (0, 0) for a dense array; None if the library needs a copy."""
    if array.ndim == 2 or array.flags.c_contiguous:
        return DENSE if array.flags.c_contiguous and array.flags.aligned else None
    each = array.itemsize
    steps, rows = (0, 1) if time_major else (1, 0)
    if not array.flags.aligned or (array.shape[2] > 1 and array.strides[2] != each):
        return None
    if any(array.shape[axis] > 1 and (array.strides[axis] <= 0 or array.strides[axis] % each) for axis in (0, 1)):
        return None
    # The stride of an axis with one element does not matter.
    t, b = (array.strides[axis] // each if array.shape[axis] > 1 else 0 for axis in (steps, rows))
    # Rows overlap if a row, or the rows along the axis with the smaller stride, are longer than the next stride.
    length = array.shape[2]
    for stride, count in sorted((stride, array.shape[axis]) for stride, axis in ((t, steps), (b, rows)) if array.shape[axis] > 1):
        if stride < length:
            return None
        length += stride * (count - 1)
    return t, b


def sequence(name: str, value: Any, dtype: "np.dtype[Any]", shape: Any, axes: str, time_major: bool, most: Optional[int] = None) -> Array:
    """Returns an input, as it is or copied.  The input is copied if a row is not contiguous, if a stride is 0 or negative, as after
    np.broadcast_to or x[::-1], if rows overlap, or if elements are not aligned.  The input is also copied if it spans more than `most`
    times the memory of a dense array; packed data, of two dimensions, is copied unless it is dense."""
    array = shown(name, value, dtype, shape, axes)
    if strides_of(array, time_major) is None or (most and not array.flags.c_contiguous and span(array) > most * array.nbytes):
        return dense(array)
    return array


def like(array: Array) -> Array:
    """Returns a new array with the shape and the strides of the argument `array`."""
    if array.flags.c_contiguous:
        return np.empty(array.shape, array.dtype)
    memory = np.empty(span(array) // array.itemsize, array.dtype)
    return np.lib.stride_tricks.as_strided(memory, array.shape, array.strides)
