# SPDX-License-Identifier: Apache-2.0
"""Makes new tensors; large ones on the cpu are in huge pages where Linux grants them, as the library's own memory is.

A large tensor is often new memory in each call; in pages of the usual size, its page faults slow a training step down.
"""
from typing import Any, Optional, Tuple

import torch

from .._load import lib

HUGE = 2 << 20


def empty(like: Any, shape: Tuple[int, ...], dtype: Optional[torch.dtype] = None) -> Any:
    """Returns a new tensor on the device of the tensor `like`, with the dtype of `like` unless another dtype is given."""
    tensor = like.new_empty(shape, dtype=dtype)
    if tensor.device.type == "cpu":
        size = tensor.numel() * tensor.element_size()
        if size >= HUGE:
            lib.cg_prefer_huge_pages(tensor.data_ptr(), size)
    return tensor
