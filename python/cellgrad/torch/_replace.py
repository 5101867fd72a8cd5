# SPDX-License-Identifier: Apache-2.0
"""The modules of PyTorch in a model, exchanged for those of this package."""
from typing import Any, List

from torch import nn

from ._modules import GRU, LSTM, RNN

_OURS = {nn.LSTM: LSTM, nn.GRU: GRU, nn.RNN: RNN}


def replace(model: nn.Module) -> nn.Module:
    """Makes each nn.LSTM, nn.GRU and nn.RNN of a model one of this package, in place: its parameters, which an optimizer may have, its
    hooks, its mode and its place in the model stay as they are.  Modules of other classes, derived ones too, are left alone.

    Returns the model; the model itself may be such a module.  Raises TypeError if it is no nn.Module.

    >>> import cellgrad.torch, torch
    >>> model = torch.nn.Sequential(torch.nn.LSTM(3, 4))
    >>> type(cellgrad.torch.replace(model)[0]) is cellgrad.torch.LSTM
    True
    """
    if not isinstance(model, nn.Module):
        raise TypeError(f"model: expected an nn.Module, got {type(model).__name__}")
    found: List[Any] = [module for module in model.modules() if type(module) in _OURS]
    for module in found:
        module.__class__ = _OURS[type(module)]
        module._adopt()
    return model
