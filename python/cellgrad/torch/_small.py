# SPDX-License-Identifier: Apache-2.0
"""A module's call with as little Python code as possible: on dense tensors, without dropout, by the extension of _stable.py."""
from typing import Any, Optional, Sequence

import torch
from torch import Tensor

from . import _stable
from ._operators import FLAT_TYPES, is_watched, node
from ._spec import spec_of

_STATE_TYPES = FLAT_TYPES | {type(None)}


def _need_gradients(tensors: Sequence[Optional[Tensor]]) -> bool:
    """Does one of the tensors require a gradient?"""
    for tensor in tensors:
        if tensor is not None and tensor.requires_grad:
            return True
    return False


def small_call(module: Any, input: Any, hx: Any) -> Any:
    """Returns output and the last states, or None if the rest of `Recurrent._forward` must run the call, or raise the error for a wrong
    argument.

    Nothing about the weights is cached: the extension checks all of them in each call.
    """
    if _stable.is_off or _stable.extension() is None or type(input) is not Tensor:
        return None
    if is_watched("cpu") or module._dropout() > 0:
        return None
    has_state = module._has_state
    if module._n_states > 1:
        return None
    h0 = c0 = None
    if hx is not None:
        if not has_state:
            h0 = hx
        elif type(hx) is tuple and len(hx) == 2:
            h0, c0 = hx
        else:
            return None
    weights = module._own_weights()
    if weights is None or type(h0) not in _STATE_TYPES or type(c0) not in _STATE_TYPES:
        return None
    needs = torch.is_grad_enabled() and _need_gradients((input, h0, c0, *weights))
    network = module._networks(0.0)[1 if needs else 0]
    made = _stable.forward(spec_of(network), input, weights, h0, c0, spare=module._spare)
    if made is None:
        return None
    output, h, c = node(network, made, input, h0, c0, weights) if needs else made
    return output, ((h, c) if has_state else h)
