# SPDX-License-Identifier: Apache-2.0
"""Makes new tensors; large ones on the cpu are in huge pages where Linux grants them, as the library's own memory is.

A large tensor is often new memory in each call; in pages of the usual size, its page faults slow a training step down.
A module keeps the memory of large reserve spaces, as a `cellgrad.Network` does.
"""
from typing import Any, Optional, Tuple

import torch

from .._load import lib
from .._spare import LEAST, Spare

HUGE = 2 << 20


def empty(like: Any, shape: Tuple[int, ...], dtype: Optional[torch.dtype] = None) -> Any:
    """Returns a new tensor on the device of the tensor `like`, with the dtype of `like` unless another dtype is given."""
    tensor = like.new_empty(shape, dtype=dtype)
    if tensor.device.type == "cpu":
        size = tensor.numel() * tensor.element_size()
        if size >= HUGE:
            lib.cg_prefer_huge_pages(tensor.data_ptr(), size)
    return tensor


def reserve(like: Any, size: int, spare: Optional[Spare]) -> Any:
    """Returns a tensor of `size` bytes on the device of the tensor `like`.  A large one on the cpu lies in the memory that `spare` keeps, if
    there is a Spare."""
    if spare is None or size < LEAST or like.device.type != "cpu":
        return empty(like, (size,), torch.uint8)
    return torch.from_numpy(spare.take(size))
