# SPDX-License-Identifier: Apache-2.0
"""New tensors, in huge pages where Linux has them, as the library's own memory is.

A large tensor is new memory in each call; in pages of the usual size, its page faults take several percent of a training step.
"""
import ctypes
import sys
from typing import Any, Optional, Tuple

import torch

HUGE = 2 << 20
_MADV_HUGEPAGE = 14
_madvise = ctypes.CDLL(None).madvise if sys.platform == "linux" else None
if _madvise is not None:
    _madvise.argtypes = ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int


def empty(like: Any, shape: Tuple[int, ...], dtype: Optional[torch.dtype] = None) -> Any:
    """Returns a new tensor on the device of the tensor `like`, with its dtype unless another dtype is given."""
    tensor = like.new_empty(shape, dtype=dtype)
    if _madvise is not None and tensor.device.type == "cpu":
        size = tensor.numel() * tensor.element_size()
        if size >= HUGE:
            first, end = -(-tensor.data_ptr() // HUGE) * HUGE, (tensor.data_ptr() + size) // HUGE * HUGE
            if first < end:
                # If Linux refuses huge pages, only the time of the call changes.
                _madvise(first, end - first, _MADV_HUGEPAGE)
    return tensor
