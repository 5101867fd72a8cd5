# SPDX-License-Identifier: Apache-2.0
"""The base class of all modules: it keeps the weights in one buffer, and runs calls."""
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from .._spare import Spare
from ._errors import TensorError, TensorTypeError
from ._operators import rnn, takes_packed
from ._run import are_flat
from ._small import small_call
from ._spec import spec_of, spec_text
# A module keeps the texts that describe its network for at most KEPT_TEXTS settings: a user may change settings between calls.
KEPT_TEXTS = 16


def row_lengths(lengths: Any, B: int, T: int) -> Tensor:
    """Converts lengths to int32 for the library.

    Raises TensorTypeError unless lengths are integers, TensorError unless there is one length for each row, on the cpu, from 0 to T.
    Under torch.compile row_lengths() does not check the number and the values of lengths.
    """
    tensor = lengths if isinstance(lengths, Tensor) else torch.as_tensor(lengths)
    if tensor.dtype.is_floating_point or tensor.dtype.is_complex or tensor.dtype == torch.bool:
        raise TensorTypeError(f"lengths: expected integers, got {tensor.dtype}")
    if tensor.device.type != "cpu" or tensor.dim() != 1:
        raise TensorError(f"lengths: expected a tensor [B] on the cpu, got {list(tensor.shape)} on {tensor.device}")
    if not torch.compiler.is_compiling():
        if tensor.shape[0] != B:
            raise TensorError(f"lengths: expected {B} numbers, one for each row of the batch, got {tensor.shape[0]}")
        if B and not 0 <= int(tensor.min()) <= int(tensor.max()) <= T:
            raise TensorError(f"lengths: expected 0 to {T}, got {tensor.tolist()}")
    return tensor.to(torch.int32).contiguous()


class Recurrent(nn.Module):
    """The base class of all modules.  The weights of the network are views of one buffer, in the order of the library's params; a call
    copies weights that `flatten_parameters` cannot make such views."""

    input_size: int
    hidden_size: int
    num_layers: int
    bidirectional: bool
    batch_first: bool
    bias: bool
    proj_size: int
    dropout: float
    _no_bias: Tensor
    _spare: Optional[Spare] = None               # None in a module that an earlier version of this package has pickled

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if isinstance(value, nn.Parameter) and type(value) is not nn.Parameter:
            # PyTorch's fully_shard makes the parameters DTensors, and for a call gathers plain tensors from them: the module must not move
            # these plain tensors to its own buffer.
            self.__dict__["_are_lent"] = True

    def _ready(self, cell: str, options: str = "", values: Sequence[Tuple[str, float]] = ()) -> None:
        """Stores the cell, its options and values, and the names of the weights in the order of the library's params."""
        self._cell_source, self._cell_options, self._cell_values = cell, options, tuple(values)
        self._spare = Spare()
        self._texts: Dict[Any, Tuple[str, str]] = {}
        spec = spec_of(self._networks(0.0)[1])
        self._matrix_names, self._bias_names, self._cell_names = spec.names()
        self._names = self._matrix_names + self._bias_names + self._cell_names
        first = len(self._matrix_names)
        self._bias_sizes = [rows for rows, _ in spec.parts[first:first + len(self._bias_names)]]
        self._has_state, self._n_states = spec.cell.has_state, spec.cell.n_states
        self._are_lent = any(type(weight) is not nn.Parameter for weight in self.parameters())
        if not self.bias and "_no_bias" not in self._buffers:
            # The library's params have biases for a module without biases, too: these are zeros, which are not trained.
            like = self.get_parameter(self._matrix_names[0])
            zeros = torch.zeros(sum(self._bias_sizes), dtype=like.dtype, device=like.device)
            self.register_buffer("_no_bias", zeros, persistent=False)

    def _networks(self, dropout: float) -> Tuple[str, str]:
        """Returns two texts that describe the network: for calls without a reserve space and for calls with one."""
        if torch.compiler.is_compiling():
            return self._networks_of(dropout)
        # A key of _texts has all settings that are in the network's text and that a user may change after the module was made.
        key = (dropout, self.batch_first, self.input_size, self.hidden_size, self.num_layers, self.bidirectional, self.proj_size)
        found = self._texts.get(key)
        if found is None:
            if len(self._texts) >= KEPT_TEXTS:
                self._texts.clear()
            found = self._texts[key] = self._networks_of(dropout)
        return found

    def _networks_of(self, dropout: float) -> Tuple[str, str]:
        without, with_reserve = (spec_text(
            self._cell_source, input=self.input_size, units=self.hidden_size, layers=self.num_layers, bidirectional=self.bidirectional,
            batch_first=self.batch_first, proj=self.proj_size, options=self._cell_options, values=self._cell_values, dropout=dropout,
            reserve=reserve) for reserve in (False, True))
        return without, with_reserve

    def _weights(self) -> List[Tensor]:
        """Returns the weights in the order of the library's params."""
        own = None if torch.compiler.is_compiling() else self._own_weights()
        if own is not None:
            return own
        if self.bias:
            return [getattr(self, name) for name in self._names]
        return [*(getattr(self, name) for name in self._matrix_names), *self._no_bias.split(self._bias_sizes),
                *(getattr(self, name) for name in self._cell_names)]

    def _own_weights(self) -> Optional[List[Tensor]]:
        """Returns the weights, found without nn.Module's search for attributes, which is slow beside a small call.  A module without biases
        has zeros in place of biases.  Returns None unless all other weights are parameters of the module itself, and not, for example,
        parametrizations."""
        parameters = self._parameters
        try:
            if self.bias:
                return [parameters[name] for name in self._names]  # type: ignore[misc]
            return [*(parameters[name] for name in self._matrix_names), *self._no_bias.split(self._bias_sizes),
                    *(parameters[name] for name in self._cell_names)]
        except KeyError:
            return None

    def _owned(self) -> List[Tensor]:
        """Returns the weights; in a module without biases, the list has one tensor of zeros in place of all biases."""
        if self.bias:
            return self._weights()
        return [*(getattr(self, name) for name in self._matrix_names), self._no_bias,
                *(getattr(self, name) for name in self._cell_names)]

    def params(self) -> Tensor:
        """Returns a copy of the weights in the order of the library's params, [params_size], on the weights' device and without gradient:
        what a cellgrad.Network of the same cell and sizes takes.  For a module without biases the copy has zeros in place of
        biases.

        >>> import cellgrad.torch, torch
        >>> lstm = cellgrad.torch.LSTM(3, 8, peephole=True)
        >>> network = cellgrad.Network("lstm", input=3, units=8, options="peephole")
        >>> x = torch.randn(5, 2, 3)
        >>> bool((network.forward(lstm.params().numpy(), x).output == lstm(x)[0].detach().numpy()).all())
        True
        """
        return torch.cat([weight.detach().reshape(-1) for weight in self._owned()])

    def flatten_parameters(self) -> None:
        """Makes the weights views of one buffer, as the library reads them, unless they are already.  flatten_parameters() leaves all
        weights alone if two of them are the same tensor or differ in dtype or device.  flatten_parameters() also leaves all weights alone
        if one of them is no leaf or of a class other than Parameter and Tensor, or if the weights are on neither cpu nor cuda.

        A call of the module also calls flatten_parameters() if the module's own weights are no longer views of one buffer: after `.to()`,
        `load_state_dict(assign=True)` or `weight.data = ...`.
        """
        if "_matrix_names" not in self.__dict__:
            return
        weights = self._owned()
        first = weights[0]
        if first.device.type not in ("cpu", "cuda") or any(
                type(w) not in (nn.Parameter, Tensor) or w.dtype != first.dtype or w.device != first.device or not w.is_leaf
                for w in weights) or len({id(w) for w in weights}) != len(weights):
            return
        if are_flat(weights, [w.numel() for w in weights], first.element_size()):
            return
        with torch.no_grad():
            whole = torch.cat([w.detach().reshape(-1) for w in weights])
            for w, part in zip(weights, whole.split([w.numel() for w in weights])):
                w.data = part.view(w.shape)

    def _forward(self, input: Any, hx: Any, lengths: Any) -> Any:
        if lengths is None and not torch.compiler.is_compiling():
            result = small_call(self, input, hx)
            if result is not None:
                return result
        weights = self._weights()
        if not torch.compiler.is_compiling():
            first = weights[0]
            # Only the module's own parameters are moved to one buffer, not those that functional_call, DataParallel or a parametrization
            # sets.
            if type(first) is nn.Parameter and self._parameters and not self._are_lent and not are_flat(
                    weights, [w.numel() for w in weights], first.element_size()):
                self.flatten_parameters()
                weights = self._weights()
        packed, x, is_batched = isinstance(input, PackedSequence), input, True
        if packed:
            if lengths is not None:
                raise TensorError("lengths: expected None for a PackedSequence, which has its own")
            if takes_packed(input.data, weights):
                return self._forward_packed(input, hx, weights)
            x, lengths = pad_packed_sequence(input, batch_first=self.batch_first)
        elif not isinstance(input, Tensor):
            raise TensorTypeError(f"input: expected a tensor or a PackedSequence, got {type(input).__name__}")
        elif x.dim() not in (2, 3):
            raise TensorError(f"{type(self).__name__}: Expected input to be 2D or 3D, got {x.dim()}D instead")
        elif x.dim() == 2:
            is_batched, x = False, x.unsqueeze(0 if self.batch_first else 1)
        states = self._states(hx, is_batched)
        if lengths is not None:
            time, batch = (1, 0) if self.batch_first else (0, 1)
            lengths = row_lengths(lengths, x.shape[batch], x.shape[time])
        dropout = self._dropout()
        output: Any
        spare = None if torch.compiler.is_compiling() else self._spare
        output, h, c = rnn(x, weights, *self._joined(states), lengths, dropout > 0, self._networks(dropout), None, spare)
        last = self._parted(h, c)
        if packed:
            order = input.sorted_indices
            if order is not None:
                output, lengths = output.index_select(0 if self.batch_first else 1, order), lengths[order.cpu()]
            data = pack_padded_sequence(output, lengths.to(torch.int64), self.batch_first).data
            output = PackedSequence(data, input.batch_sizes, order, input.unsorted_indices)
        elif not is_batched:
            output, last = output.squeeze(0 if self.batch_first else 1), [state.squeeze(1) for state in last]
        return output, (tuple(last) if self._has_state else last[0])

    def _forward_packed(self, input: PackedSequence, hx: Any, weights: List[Tensor]) -> Any:
        """Runs a PackedSequence without padding it.  Rows of a PackedSequence are sorted by length; states are in the caller's order."""
        states = self._states(hx, True)
        if input.sorted_indices is not None:
            states = [None if state is None else state.index_select(1, input.sorted_indices) for state in states]
        dropout = self._dropout()
        data, h, c = rnn(input.data, weights, *self._joined(states), None, dropout > 0, self._networks(dropout),
                         input.batch_sizes.to(torch.int32), self._spare)
        last = self._parted(h, c)
        if input.unsorted_indices is not None:
            last = [state.index_select(1, input.unsorted_indices) for state in last]
        output = PackedSequence(data, input.batch_sizes, input.sorted_indices, input.unsorted_indices)
        return output, (tuple(last) if self._has_state else last[0])

    def _dropout(self) -> float:
        return self.dropout if self.training and self.num_layers > 1 else 0.0

    def _states(self, hx: Any, is_batched: bool) -> List[Optional[Tensor]]:
        """Returns the initial hidden state and cell states, each [L*D, B, .] or None."""
        if hx is None:
            return [None] * (1 + self._n_states)
        if self._has_state:
            if not isinstance(hx, (tuple, list)) or len(hx) != 1 + self._n_states:
                expected = "(h_0, c_0)" if self._n_states == 1 else f"h_0 and {self._n_states} cell states"
                raise TensorTypeError(f"hx: expected {expected}, got {type(hx).__name__}"
                                      f"{f' of {len(hx)}' if isinstance(hx, (tuple, list)) else ''}")
            states = list(hx)
        else:
            states = [hx]
        for k, state in enumerate(states):
            if state is None:
                continue
            if not isinstance(state, Tensor):
                raise TensorTypeError(f"hx: expected tensors, got {type(state).__name__}")
            if state.dim() != (3 if is_batched else 2):
                raise TensorError(f"For {'batched 3-D' if is_batched else 'unbatched 2-D'} input, hx should also be "
                                  f"{'3-D' if is_batched else '2-D'} but got {state.dim()}-D tensor")
            if not is_batched:
                states[k] = state.unsqueeze(1)
        return states

    @staticmethod
    def _joined(states: List[Optional[Tensor]]) -> Tuple[Optional[Tensor], Optional[Tensor]]:
        """Returns h and c as the operator cellgrad::rnn takes them: several cell states are one tensor, [S, L*D, B, units]."""
        h, *cells = states
        if len(cells) < 2:
            return h, cells[0] if cells else None
        given = [cell for cell in cells if cell is not None]
        if not given:
            return h, None
        first = given[0]
        for cell in given:
            if cell.shape != first.shape or cell.device != first.device:
                raise TensorError(f"hx: expected cell states of one shape on one device, got {list(first.shape)} on {first.device} and "
                                  f"{list(cell.shape)} on {cell.device}")
            if cell.dtype != first.dtype:
                raise TensorTypeError(f"hx: expected cell states of one dtype, got {first.dtype} and {cell.dtype}")
        return h, torch.stack([torch.zeros_like(first) if cell is None else cell for cell in cells])

    def _parted(self, h: Tensor, c: Tensor) -> List[Tensor]:
        """Returns the hidden state and the cell states, each [L*D, B, .]."""
        return [h, *(c.unbind(0) if self._n_states > 1 else (c,) if self._has_state else ())]
