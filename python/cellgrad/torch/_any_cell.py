# SPDX-License-Identifier: Apache-2.0
"""A module for any cell."""
import itertools
import math
import os
from typing import Any, Mapping, Optional, Sequence, Union

import torch
from torch import nn

from .. import _cell
from .._arguments import INT64_MAX, INT_MAX, integer, path_of, real, values_of, words
from ._device import place_of
from ._recurrent import Recurrent
from ._spec import spec_of, spec_text


class Cell(Recurrent):
    """Layers of any cell.  cell: the name of a built-in cell or of a cell of the shelf, the path of a .cell file,
    the text of a cell, or a cellgrad.Cell.

    The other arguments are those of nn.LSTM.  options: the cell's options that are on, such as "peephole"; values: those of the cell's
    params, such as {"leak": 0.3}.
    The weights are weight_ih_l0 [G*hidden_size, input_size], weight_hh_l0, bias_ih_l0 and bias_hh_l0, each for those G gates that have such
    a matrix or bias, in the cell's order, and with proj_size weight_hr_l0.  For the n per-unit weights that the cell has with the argument
    `options` there is weight_p_l0 [n, hidden_size], and for the cell's n learnt scalars scalar_l0 [n].  The module keeps the text of a
    cell's file, so that a pickled module does not need the file.

    A call returns output and h, or output and (h, c) if the cell has a cell state; with more cell states these follow c, in the cell's
    order, and so they do in hx.

    Raises cellgrad.BuildError for a wrong text, cellgrad.MissingFileError for a file that does not exist, cellgrad.ArgumentError, which is
    a ValueError, for a wrong value, cellgrad.ArgumentTypeError, which is a TypeError, for a wrong type.

    >>> import cellgrad.torch, torch
    >>> leaky = '''
    ... cell leaky
    ... gates  a
    ... output h
    ... param  leak = 0.1
    ...
    ... h = tanh(a) + leak * h_prev
    ... save h
    ... '''
    >>> output, h = cellgrad.torch.Cell(leaky, 3, 4, values={"leak": 0.3})(torch.randn(5, 2, 3))
    >>> output.shape, h.shape
    (torch.Size([5, 2, 4]), torch.Size([1, 2, 4]))
    """

    def __init__(self, cell: Union[str, "os.PathLike[str]", _cell.Cell], input_size: int, hidden_size: int, num_layers: int = 1, bias: bool = True,
                 batch_first: bool = False, dropout: float = 0.0, bidirectional: bool = False, proj_size: int = 0, *,
                 options: Union[str, Sequence[str]] = "", values: Optional[Mapping[str, float]] = None, device: Any = None,
                 dtype: Any = None):
        super().__init__()
        if isinstance(cell, _cell.Cell):
            cell = cell.source
        parsed = _cell.Cell(cell)
        path = path_of(cell)
        if path is not None:
            with open(path, encoding="utf-8") as file:
                cell = file.read()
        self.input_size, self.hidden_size, self.num_layers, self.proj_size = (
            integer(name, value, low, high) for name, value, low, high in (
                ("input_size", input_size, 1, INT64_MAX), ("hidden_size", hidden_size, 1, INT64_MAX),
                ("num_layers", num_layers, 1, INT_MAX), ("proj_size", proj_size, 0, INT64_MAX)))
        self.bias, self.batch_first, self.bidirectional = bool(bias), bool(batch_first), bool(bidirectional)
        self.dropout = real("dropout", dropout)
        names, numbers = words("options", options).decode(), tuple(values_of(values))
        text = spec_text(str(cell), input=self.input_size, units=self.hidden_size, layers=self.num_layers, bidirectional=self.bidirectional,
                         proj=self.proj_size, options=names, values=numbers, dropout=self.dropout)
        spec = spec_of(text)
        if self.proj_size:
            # Only a network that is opened on a device shows whether its cell can have a projection.
            spec.plan(torch.float32, place_of(torch.device("cpu")))
        self.name, self._starts = parsed.name, tuple(parsed.scalars.values())
        self._vector_starts = [parsed.vector_starts.get(name) for name in parsed.vectors_with(names)]
        for name, (rows, columns) in zip(itertools.chain(*spec.names()), spec.parts):
            shape = (rows,) if name.startswith(("bias_", "scalar_")) else (rows, columns)
            if bias or not name.startswith("bias_"):
                self.register_parameter(name, nn.Parameter(torch.empty(shape, device=device, dtype=dtype)))
        self.reset_parameters()
        self._ready(str(cell), names, numbers)
        self.flatten_parameters()

    def reset_parameters(self) -> None:
        """Sets initial weights as PyTorch does: uniform from -1 / sqrt(hidden_size) to 1 / sqrt(hidden_size).  Scalars, and per-unit weights
        that the cell declares with a number, get the numbers of the cell."""
        bound = 1 / math.sqrt(self.hidden_size)
        for name, weight in self.named_parameters():
            if name.startswith("scalar_"):
                with torch.no_grad():
                    weight.copy_(torch.tensor(self._starts, dtype=weight.dtype))
            else:
                nn.init.uniform_(weight, -bound, bound)
            if name.startswith("weight_p_"):
                with torch.no_grad():
                    for row, start in zip(weight, self._vector_starts):
                        if start is not None:
                            row.fill_(start)

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        result = super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        self.flatten_parameters()
        return result

    def extra_repr(self) -> str:
        """Returns the text about the module that print shows: the cell's name, and arguments of the constructor."""
        options = f", options={self._cell_options!r}" if self._cell_options else ""
        flags = "".join(f", {name}=True" for name in ("batch_first", "bidirectional") if getattr(self, name))
        return f"{self.name}, {self.input_size}, {self.hidden_size}, num_layers={self.num_layers}{flags}{options}"

    def forward(self, input: Any, hx: Any = None, lengths: Any = None) -> Any:
        """Returns output and the last states; the arguments are those of `LSTM.forward`."""
        return self._forward(input, hx, lengths)
