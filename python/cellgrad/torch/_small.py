"""A module's call with as little Python as may be: without gradients, on tensors that nothing looks on, by the extension of _stable.py."""
from typing import Any

import torch
from torch import Tensor

from . import _stable
from ._operators import is_watched
from ._spec import spec_of


def small_call(module: Any, input: Any, hx: Any) -> Any:
    """output and the last states, or None: the call is to take the long way, which also says what is wrong with it.

    Nothing of the weights is kept: the extension looks at all of them, in each call.
    """
    if _stable.is_off or _stable.extension() is None or type(input) is not Tensor or torch.is_grad_enabled():
        return None
    if is_watched("cpu") or module._dropout() > 0:
        return None
    has_state = module._has_state
    h0 = c0 = None
    if hx is not None:
        if not has_state:
            h0 = hx
        elif type(hx) is tuple and len(hx) == 2:
            h0, c0 = hx
        else:
            return None
    weights = module._own_weights()
    if weights is None:
        return None
    made = _stable.forward(spec_of(module._networks(0.0)[0]), input, weights, h0, c0)
    if made is None:
        return None
    output, h, c = made
    return output, ((h, c) if has_state else h)
