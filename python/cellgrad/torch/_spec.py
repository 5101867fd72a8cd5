# SPDX-License-Identifier: Apache-2.0
"""The description of a network as a text: an operator's argument that can be printed, hashed and exported.

`spec_text` makes the text, in Python code that torch.compile can trace; `spec_of` parses it; a `Spec` has the shapes and the library's
plans.
"""
import ctypes
import functools
from typing import Any, Dict, List, Optional, Sequence, Tuple

import torch

from .._arguments import struct_of
from .._cell import Cell
from .._context import Handle, opening
from .._lib import C
from .._load import lib
from . import _stable
from ._errors import TensorError, TensorTypeError, check

CODES: Dict[torch.dtype, int] = {torch.float32: C.CG_F32, torch.float64: C.CG_F64, torch.float16: C.CG_F16, torch.bfloat16: C.CG_BF16}
# A Plan keeps a struct cg_rnn_call for each of at most KEPT_CALLS pairs of T and B.
KEPT_CALLS = 256


def spec_text(cell: str, *, input: int, units: int, layers: int = 1, bidirectional: bool = False, batch_first: bool = False, proj: int = 0,
              options: str = "", values: Sequence[Tuple[str, float]] = (), dropout: float = 0.0, reserve: bool = True) -> str:
    """Returns the text of a network, which the operators cellgrad::rnn and cellgrad::rnn_backward take.

    cell: the name or the text of a cell.  options: names with commas between them.  values: pairs of a param's name and its value.
    batch_first: sequences are [B, T, .].  reserve: a call makes a reserve space, which a backward pass needs.
    The other arguments are those of `cellgrad.Network`.

    >>> import cellgrad.torch, torch
    >>> network = cellgrad.torch.spec_text("gru", input=3, units=4)
    >>> weights = [torch.randn(shape) for shape in ((12, 3), (12, 4), (12,), (12,))]
    >>> output, h, c, reserve = torch.ops.cellgrad.rnn(torch.randn(5, 2, 3), weights, None, None, None, None, network)
    >>> output.shape, h.shape
    (torch.Size([5, 2, 4]), torch.Size([1, 2, 4]))
    """
    numbers = ",".join(f"{name}={float(value)!r}" for name, value in values)
    flags = f"{int(bidirectional)}|{int(batch_first)}|{int(reserve)}"
    return f"{options}|{numbers}|{layers}|{flags}|{input}|{units}|{proj}|{dropout!r}|{cell}"


class Spec:
    """The parsed text of a network.  Shapes are those of PyTorch: sequences [T, B, .] or [B, T, .], states [L*D, B, .]."""

    def __init__(self, text: str):
        fields = text.split("|", 10)
        if len(fields) != 11:
            raise TensorError(f"network: expected a text by cellgrad.torch.spec_text, got {text!r:.60}")
        self.options = fields[0].encode()
        self.values = [(name, float(number)) for name, number in (item.split("=") for item in fields[1].split(",") if item)]
        self.layers, bidirectional, self.batch_first, self.reserve, self.input, self.units, self.proj = map(int, fields[2:9])
        self.dropout, source = float(fields[9]), fields[10]
        self.cell = Cell(source)
        self.directions = 1 + bidirectional
        self.width = self.proj or self.units
        self.parts = self._parts()
        self.numels = [rows * columns for rows, columns in self.parts]
        self.params = sum(self.numels)
        self._plans: Dict[Any, "Plan"] = {}
        self._stable: Dict[torch.dtype, "Plan"] = {}
        self.config(torch.float32)

    def _parts(self) -> List[Tuple[int, int]]:
        """Returns the shapes of the weights in the order of the library's params: rows and columns; biases and scalars have one column."""
        rows = [self.cell.gates_with(weight) * self.units
                for weight in (C.CG_HAS_INPUT, C.CG_HAS_RECURRENT, C.CG_HAS_BIAS_W, C.CG_HAS_BIAS_R)]
        parts = []
        for layer in range(self.layers):
            below = self.input if layer == 0 else self.width * self.directions
            each = [(rows[0], below), (rows[1], self.width), (self.proj, self.units)]
            parts += [part for part in each if part[0]] * self.directions
        parts += [(count, 1) for count in rows[2:] if count] * (self.layers * self.directions)
        vectors = self.vectors()
        parts += [(vectors, self.units)] * (self.layers * self.directions) if vectors else []
        parts += [(len(self.cell.scalars), 1)] * (self.layers * self.directions) if self.cell.scalars else []
        return parts

    def config(self, dtype: torch.dtype) -> Tuple[Any, Any]:
        """Returns a struct cg_rnn_config, which the library has checked, and the values that the struct points to.

        Raises TensorError, or another exception of the package, if the library does not accept the network.
        """
        numbers = [C.cg_value(name=name.encode(), value=value) for name, value in self.values]
        values = (C.cg_value * max(1, len(numbers)))(*numbers)
        config = struct_of("cg_rnn_config", lib.cg_rnn_config_init)
        config.cell, config.options, config.values, config.n_values = self.cell.pointer, self.options, values, len(numbers)
        config.dtype, config.layers, config.bidirectional = CODES[dtype], self.layers, self.directions - 1
        config.time_major, config.states_major, config.training = 1 - self.batch_first, 1, self.reserve
        config.input, config.units, config.proj, config.dropout = self.input, self.units, self.proj, self.dropout
        size = ctypes.c_size_t()
        check(lib.cg_rnn_params(ctypes.byref(config), ctypes.byref(size)))
        if size.value != self.params * dtype.itemsize:
            raise TensorError(f"network: the library counts {size.value // dtype.itemsize} elements in all weights, cellgrad.torch counts "
                              f"{self.params}")
        return config, values

    def names(self) -> Tuple[List[str], List[str], List[str]]:
        """Returns the names of the matrices, as "weight_ih_l0" in nn.LSTM, of the biases, and of the per-unit weights and scalars: together
        a name for each of `parts`."""
        has = self.cell.gates_with
        ends = [f"l{layer}{'_reverse' if direction else ''}" for layer in range(self.layers) for direction in range(self.directions)]
        matrices = ("weight_ih", *(("weight_hh",) if has(C.CG_HAS_RECURRENT) else ()), *(("weight_hr",) if self.proj else ()))
        biases = [name for name, weight in (("bias_ih", C.CG_HAS_BIAS_W), ("bias_hh", C.CG_HAS_BIAS_R)) if has(weight)]
        others = [*(("weight_p",) if self.vectors() else ()), *(("scalar",) if self.cell.scalars else ())]
        return ([f"{name}_{end}" for end in ends for name in matrices], [f"{name}_{end}" for end in ends for name in biases],
                [f"{name}_{end}" for name in others for end in ends])

    def name(self, k: int) -> str:
        """Returns the name of the k-th weight, for messages."""
        return [name for names in self.names() for name in names][k]

    def vectors(self) -> int:
        """Returns how many vectors of per-unit weights, such as peepholes, each layer and direction has."""
        return len(self.cell.vectors_with(self.options.decode()))

    def sizes(self, x: Any) -> Tuple[Any, Any]:
        """Returns the number of steps T and the number of rows B of an input; under torch.compile both may be symbols."""
        return (x.shape[1], x.shape[0]) if self.batch_first else (x.shape[0], x.shape[1])

    def shapes(self, x: Any, B: Any) -> Tuple[Tuple[Any, ...], Tuple[Any, ...], Tuple[Any, ...]]:
        """Returns the shapes of output, h and c, for an input with B rows; c is empty for a cell without a cell state, and [S, L*D, B, U]
        for a cell with S > 1 cell states."""
        count, states = self.layers * self.directions, self.cell.n_states
        each = (count, B, self.units)
        return ((*x.shape[:-1], self.directions * self.width), (count, B, self.width),
                each if states == 1 else (states, *each) if states else (0,))

    def plan(self, dtype: torch.dtype, place: Any) -> "Plan":
        """Returns the library's plan on a device, opened in this process."""
        key = dtype, place
        plan = self._plans.get(key)
        if plan is None or not plan.handle.is_of_this_process():
            plan = self._plans[key] = Plan(self, dtype, place)
            if plan.stable is not None:
                self._stable[dtype] = plan
        return plan

    def stable(self, dtype: torch.dtype) -> Optional["Plan"]:
        """Returns the plan for tensors on the cpu, if the extension supports it and this process has made it already; else None."""
        plan = self._stable.get(dtype)
        return plan if plan is not None and plan.handle.is_of_this_process() else None


@functools.lru_cache(maxsize=4096)
def spec_of(text: str) -> Spec:
    """Parses the text of a network; equal texts share a Spec."""
    return Spec(text)


class Plan:
    """A network that is opened on a device."""

    def __init__(self, spec: Spec, dtype: torch.dtype, place: Any):
        if dtype not in CODES:
            raise TensorTypeError(f"input: expected float32, float64, float16 or bfloat16, got {dtype}")
        self.spec, self.dtype, self.code, self.place, self.itemsize = spec, dtype, CODES[dtype], place, dtype.itemsize
        config, self._keep = spec.config(dtype)
        context = place.context()
        with opening:
            pointer = ctypes.c_void_p()
            check(lib.cg_rnn_get(context.pointer, ctypes.byref(config), ctypes.byref(pointer)))
            self.handle = Handle(pointer, lib.cg_rnn_close)
        self.pointer = pointer
        self.stable = _stable.plan_of(self)
        self._bound: Optional[Tuple[int, int]] = None
        self._calls: Dict[Tuple[int, int], Tuple[Any, int, int]] = {}

    def bound(self) -> Optional[Tuple[int, int]]:
        """Returns a bound on the bytes of a reserve space: a fixed number, and a number for each step of each row; None without a bound."""
        if self._bound is None:
            fixed, step = ctypes.c_size_t(), ctypes.c_size_t()
            if lib.cg_rnn_reserve_bound(self.pointer, ctypes.byref(fixed), ctypes.byref(step)):
                return None
            self._bound = fixed.value, step.value
        return self._bound

    def call(self, T: int, B: int) -> Tuple[Any, int, int]:
        """Returns a struct cg_rnn_call for T steps and B rows, which callers copy; and how many bytes the reserve space and the workspace of
        a call of T steps and B rows have without lengths."""
        found = self._calls.get((T, B))
        if found is None:
            if len(self._calls) >= KEPT_CALLS:
                self._calls.clear()
            call = struct_of("cg_rnn_call", lib.cg_rnn_call_init)
            call.T, call.B = T, B
            sizes = C.cg_rnn_sizes()
            check(lib.cg_rnn_sizes(self.pointer, T, B, None, ctypes.byref(sizes)))
            found = self._calls[T, B] = call, sizes.reserve, sizes.work
        return found
