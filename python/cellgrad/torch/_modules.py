# SPDX-License-Identifier: Apache-2.0
"""nn.LSTM, nn.GRU and nn.RNN, computed by the library."""
import math
from typing import Any

import torch
from torch import nn

from ._recurrent import Recurrent

_CELLS = {"LSTM": "lstm", "GRU": "gru", "RNN_TANH": "rnn_tanh", "RNN_RELU": "rnn_relu"}


class _OfTorch(Recurrent, nn.RNNBase):
    """The base class of LSTM, GRU and RNN: a module with the constructor, the names and the state_dict of PyTorch's module."""

    def _init_flat_weights(self) -> None:
        self._flat_weights = [getattr(self, name, None) for name in self._flat_weights_names]
        if "_flat_weight_refs" in self.__dict__:
            import weakref
            self._flat_weight_refs = [None if w is None else weakref.ref(w) for w in self._flat_weights]
        self.flatten_parameters()

    def _adopt(self, peephole: bool = False) -> None:
        """Completes a module that was just constructed, or a module of PyTorch to which `replace` has assigned a class of this file."""
        options = ""
        if peephole:
            options = "peephole"
            like, bound = self.get_parameter("weight_hh_l0"), 1 / math.sqrt(self.hidden_size)
            for layer in range(self.num_layers):
                for end in ("", "_reverse")[:2 if self.bidirectional else 1]:
                    name = f"weight_p_l{layer}{end}"
                    self._flat_weights_names.append(name)
                    self._all_weights[layer * (2 if self.bidirectional else 1) + (end != "")].append(name)
                    weight = torch.empty(3, self.hidden_size, dtype=like.dtype, device=like.device).uniform_(-bound, bound)
                    self._flat_weights.append(None)
                    setattr(self, name, nn.Parameter(weight))
        self._ready(_CELLS[self.mode], options)
        self._init_flat_weights()

    def forward(self, input: Any, hx: Any = None, lengths: Any = None) -> Any:
        """Returns output and the last states, as PyTorch's module does.

        input: [T, B, input_size], [B, T, input_size] with batch_first, [T, input_size], or a PackedSequence.
        hx: the initial states h_0 [L*D, B, H], for an LSTM (h_0, c_0) with c_0 [L*D, B, hidden_size]; without B if the input has none;
        None is zeros.
        lengths: [B] integers on the cpu, or a list, the number of valid steps of each row; the outputs of further steps are zero.  None for
        a PackedSequence.

        Raises TensorError for a wrong shape, TensorTypeError for a wrong dtype.
        """
        return self._forward(input, hx, lengths)


class LSTM(_OfTorch):
    """Has the arguments, parameters, names and results of torch.nn.LSTM.  `peephole=True` adds weights weight_p_l0 [3, hidden_size], and
    those of the other layers and directions, from the cell state to the gates i, f and o.

    This class derives from nn.RNNBase and not from nn.LSTM, so that torch.compile can trace it.  The constructor raises the exceptions
    of nn.LSTM.

    >>> import cellgrad.torch, torch
    >>> theirs = torch.nn.LSTM(3, 4, num_layers=2, bidirectional=True)
    >>> ours = cellgrad.torch.LSTM(3, 4, num_layers=2, bidirectional=True)
    >>> ours.load_state_dict(theirs.state_dict())
    <All keys matched successfully>
    >>> x = torch.randn(5, 2, 3)
    >>> torch.allclose(ours(x)[0], theirs(x)[0], atol=1e-6)
    True
    """

    def __init__(self, *args: Any, peephole: bool = False, **kwargs: Any):
        super().__init__("LSTM", *args, **kwargs)
        self._adopt(peephole)


class GRU(_OfTorch):
    """Has the arguments, parameters, names and results of torch.nn.GRU.

    >>> import cellgrad.torch, torch
    >>> output, h = cellgrad.torch.GRU(3, 4, batch_first=True)(torch.randn(2, 5, 3), lengths=[5, 2])
    >>> output.shape, h.shape, output[1, 2:].abs().max().item()
    (torch.Size([2, 5, 4]), torch.Size([1, 2, 4]), 0.0)
    """

    def __init__(self, *args: Any, **kwargs: Any):
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        super().__init__("GRU", *args, **kwargs)
        self._adopt()


class RNN(_OfTorch):
    """Has the arguments, parameters, names and results of torch.nn.RNN.

    >>> import cellgrad.torch, torch
    >>> cellgrad.torch.RNN(3, 4, nonlinearity="relu")(torch.randn(5, 3))[1].shape
    torch.Size([1, 4])
    """

    def __init__(self, *args: Any, **kwargs: Any):
        if "proj_size" in kwargs:
            raise ValueError("proj_size argument is only supported for LSTM, not RNN or GRU")
        if len(args) > 3:
            self.nonlinearity = args[3]
            args = args[:3] + args[4:]
        else:
            self.nonlinearity = kwargs.pop("nonlinearity", "tanh")
        if self.nonlinearity not in ("tanh", "relu"):
            raise ValueError(f"Unknown nonlinearity '{self.nonlinearity}'. Select from 'tanh' or 'relu'.")
        nonlinearity = self.nonlinearity
        super().__init__("RNN_TANH" if nonlinearity == "tanh" else "RNN_RELU", *args, **kwargs)
        self.nonlinearity = nonlinearity
        self._adopt()
