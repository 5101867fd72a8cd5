# SPDX-License-Identifier: Apache-2.0
"""Recurrent networks for PyTorch: modules that replace nn.LSTM, nn.GRU and nn.RNN, and a module for any cell.

>>> import cellgrad.torch, torch
>>> model = torch.nn.LSTM(3, 8)
>>> cellgrad.torch.replace(model) is model
True
>>> output, (h, c) = model(torch.randn(20, 4, 3))
>>> output.square().mean().backward()
>>> model.weight_hh_l0.grad.shape
torch.Size([32, 8])

`LSTM`, `GRU` and `RNN` have the arguments of PyTorch's modules; `Cell` is a module for any cell; `replace` puts
these modules into a model in place of nn.LSTM, nn.GRU and nn.RNN.  python/cellgrad/torch/README.md in the source tree documents the
package.
"""
try:
    import torch as _torch
except ImportError as _error:
    raise ImportError("cellgrad.torch needs PyTorch: pip install 'cellgrad[torch]'") from _error

OLDEST = (2, 5)
if tuple(int(number) for number in _torch.__version__.split(".")[:2]) < OLDEST:
    raise ImportError(f"cellgrad.torch needs PyTorch {OLDEST[0]}.{OLDEST[1]} or later, and this is PyTorch {_torch.__version__}")

from ._any_cell import Cell  # noqa: E402
from ._errors import SecondGradientError, TensorError, TensorTypeError  # noqa: E402
from ._modules import GRU, LSTM, RNN  # noqa: E402
from ._replace import replace  # noqa: E402
from ._spec import spec_text  # noqa: E402
from ._stable import route  # noqa: E402

__all__ = ["Cell", "GRU", "LSTM", "RNN", "SecondGradientError", "TensorError", "TensorTypeError", "replace", "route",
           "spec_text"]
