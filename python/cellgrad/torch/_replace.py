# SPDX-License-Identifier: Apache-2.0
"""Replaces each nn.LSTM, nn.GRU and nn.RNN in a model by a module of this package."""
from typing import Any, List

from torch import nn

from ._modules import GRU, LSTM, RNN

_OURS = {nn.LSTM: LSTM, nn.GRU: GRU, nn.RNN: RNN}


def replace(model: nn.Module) -> nn.Module:
    """Converts each nn.LSTM, nn.GRU and nn.RNN of a model to a module of this package, in place.  The parameters of a converted module,
    which an optimizer may refer to, its hooks, its mode and its place in the model stay the same.  Modules of other classes, also derived
    ones, are unchanged.

    Returns the same model; if it is itself an nn.LSTM, nn.GRU or nn.RNN, it is converted in place, too.  Raises TypeError if the model is
    not an nn.Module.

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
