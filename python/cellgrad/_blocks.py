# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's block ops: LSTMBlockCell, BlockLSTM, BlockLSTMV2, GRUBlockCell and their gradients.

The classes LSTMBlock and GRUBlock have tables of the shapes of their ops' arguments by name, in the letters T, B, I, U of cellgrad.h.
"""
import ctypes
import re
from typing import Any, ClassVar, Dict, Optional, Sequence, Tuple

import numpy as np

from ._arguments import INT64_MAX, dtype_code, dtype_of, given, integer, memory, one_of, real, shown, struct_of
from ._context import Context, default_context
from ._errors import ArgumentError
from ._load import lib

GATES = ("icfo", "ifco")


def _axes(shape: str, sizes: Dict[str, int]) -> Tuple[int, ...]:
    """Returns the numbers of a shape that is written with letters, such as "I+U 4U"."""
    dims = []
    for term in shape.split():
        dims.append(sum(int(number or 1) * sizes[letter] for number, letter in re.findall(r"(\d*)([TBIU])", term)))
    return tuple(dims)


class _Block:
    """The arguments and outputs of an op, as attributes with the names in cellgrad.h; grad() computes the op's gradients."""

    _struct: ClassVar[str]
    _inputs: ClassVar[Dict[str, str]]
    _outputs: ClassVar[Dict[str, str]]
    _upstream: ClassVar[Dict[str, str]]
    _gradients: ClassVar[Dict[str, str]]

    def __init__(self, context: Optional[Context] = None, **arrays: Any):
        """The shapes of x and h_prev determine the sizes.  The caller may pass the op's outputs, too, to compute gradients from another
        program's results."""
        self._context = context
        self.dtype = dtype_of(getattr(arrays["x"], "dtype", np.float32))
        x = shown("x", arrays["x"], self.dtype)
        if x.ndim not in self._ranks():
            raise ArgumentError(f"x: expected shape [{self._inputs['x']}], got {x.shape}")
        self.is_sequence = x.ndim == 3
        state = shown("h_prev", arrays["h_prev"], self.dtype)
        if state.ndim != 2:
            raise ArgumentError(f"h_prev: expected shape [B U], got {state.shape}")
        self.sizes = {"T": x.shape[0] if self.is_sequence else 1, "B": x.shape[-2], "I": x.shape[-1], "U": state.shape[1]}
        for name in (*self._inputs, *self._outputs):
            value = arrays.get(name)
            setattr(self, name, None if value is None else self._given(name, value))

    @classmethod
    def _ranks(cls) -> Tuple[int, ...]:
        return (2, 3) if "T" in cls._inputs["x"] else (2,)

    def _shape(self, name: str) -> Tuple[Tuple[int, ...], str]:
        axes = {**self._inputs, **self._outputs, **self._upstream, **self._gradients}[name]
        if not self.is_sequence:
            axes = axes.replace("T ", "")
        return _axes(axes, self.sizes), axes.replace(" ", ", ")

    def _given(self, name: str, value: Any) -> "np.ndarray[Any, Any]":
        return given(name, value, self.dtype, *self._shape(name))

    def _op(self, arrays: Dict[str, Any]) -> Any:
        op = struct_of(self._struct, getattr(lib, self._struct + "_init"))
        op.dtype = dtype_code(self.dtype)
        for letter, size in self.sizes.items():
            if hasattr(op, letter):
                setattr(op, letter, size)
        self._attributes(op)
        for name, array in arrays.items():
            setattr(op, name, memory(array))
        return op

    def _attributes(self, op: Any) -> None:
        pass

    def _present(self) -> Dict[str, Any]:
        return {name: getattr(self, name) for name in (*self._inputs, *self._outputs) if getattr(self, name) is not None}

    def _call(self, suffix: str, arrays: Dict[str, Any]) -> None:
        function = getattr(lib, self._struct + suffix)
        (self._context or default_context()).call(function, ctypes.byref(self._op(arrays)))

    def _forward(self) -> None:
        for name in self._outputs:
            setattr(self, name, np.empty(self._shape(name)[0], self.dtype))
        self._call("_forward", self._present())

    def _grad(self, upstream: Dict[str, Any], want: Optional[Sequence[str]], names: Sequence[str]) -> Dict[str, "np.ndarray[Any, Any]"]:
        wanted = list(names if want is None else want)
        for name in wanted:
            if name not in names:
                raise ArgumentError(f"want: expected names among {', '.join(names)}; got '{name}'")
        found = {name: np.empty(self._shape(name)[0], self.dtype) for name in wanted}
        above = {name: self._given(name, value) for name, value in upstream.items() if value is not None}
        self._call("_grad", {**self._present(), **above, **found})
        return found


class LSTMBlock(_Block):
    """The result of `lstm_block_cell` or `lstm_block`: a step or a sequence of an LSTM.

    The object has as attributes the arguments x, cs_prev, h_prev, w, b, wci, wcf, wco, and the outputs: the gates i, f, o and ci after
    activation, the cell state cs, co = tanh(cs) and the hidden state h, each [B, U], or [T, B, U] for a sequence.
    """

    _struct = "cg_lstm_block"
    _inputs = {"x": "T B I", "cs_prev": "B U", "h_prev": "B U", "w": "I+U 4U", "b": "4U", "wci": "U", "wcf": "U", "wco": "U"}
    _outputs = dict.fromkeys(("i", "cs", "f", "o", "ci", "co", "h"), "T B U")
    _upstream = {"cs_grad": "T B U", "h_grad": "T B U"}
    _gradients = {"x_grad": "T B I", "cs_prev_grad": "B U", "h_prev_grad": "B U", "dgates": "T B 4U", "w_grad": "I+U 4U",
                  "wci_grad": "U", "wcf_grad": "U", "wco_grad": "U", "b_grad": "4U"}

    def __init__(self, *, forget_bias: float = 1.0, cell_clip: float = 3.0, gates: str = "icfo", seq_len_max: int = -1,
                 context: Optional[Context] = None, **arrays: Any):
        super().__init__(context, **arrays)
        self.forget_bias, self.cell_clip = real("forget_bias", forget_bias), real("cell_clip", cell_clip)
        self.gates, self._order = gates, one_of("gates", gates, GATES)
        self.seq_len_max = integer("seq_len_max", seq_len_max, -1, INT64_MAX)
        peepholes = [name for name in ("wci", "wcf", "wco") if arrays.get(name) is not None]
        if len(peepholes) not in (0, 3):
            raise ArgumentError(f"wci, wcf, wco: expected all three or none, got {' and '.join(peepholes)}")
        self.use_peephole = bool(peepholes)

    def _attributes(self, op: Any) -> None:
        op.gates, op.use_peephole, op.seq_len_max = self._order, int(self.use_peephole), self.seq_len_max
        op.forget_bias, op.cell_clip = self.forget_bias, self.cell_clip

    def grad(self, cs_grad: Any = None, h_grad: Any = None, want: Optional[Sequence[str]] = None) -> Dict[str, "np.ndarray[Any, Any]"]:
        """Computes the gradients from the upstream gradients of cs and h, which have the shapes of cs and h; None is zero.

        Returns x_grad, cs_prev_grad, h_prev_grad, dgates, w_grad, b_grad and, with peepholes, wci_grad, wcf_grad, wco_grad, or those in
        `want`.
        """
        names = [name for name in self._gradients if self.use_peephole or not name.startswith("wc")]
        return self._grad({"cs_grad": cs_grad, "h_grad": h_grad}, want, names)


class GRUBlock(_Block):
    """The result of `gru_block_cell`, a step of a GRU: its arguments, and the outputs r, u, c and h, each [B, U]."""

    _struct = "cg_gru_block"
    _inputs = {"x": "B I", "h_prev": "B U", "w_ru": "I+U 2U", "w_c": "I+U U", "b_ru": "2U", "b_c": "U"}
    _outputs = dict.fromkeys(("r", "u", "c", "h"), "B U")
    _upstream = {"d_h": "B U"}
    _gradients = {"d_x": "B I", "d_h_prev": "B U", "d_c_bar": "B U", "d_r_bar_u_bar": "B 2U", "d_w_ru": "I+U 2U", "d_w_c": "I+U U",
                  "d_b_ru": "2U", "d_b_c": "U"}

    def grad(self, d_h: Any = None, want: Optional[Sequence[str]] = None) -> Dict[str, "np.ndarray[Any, Any]"]:
        """Computes the gradients from the upstream gradient of h, [B, U]; None is zero.

        Returns d_x, d_h_prev, d_c_bar, d_r_bar_u_bar, d_w_ru, d_w_c, d_b_ru and d_b_c, or those in `want`.
        """
        return self._grad({"d_h": d_h}, want, list(self._gradients))


def lstm_block_cell(x: Any, cs_prev: Any, h_prev: Any, w: Any, b: Any, wci: Any = None, wcf: Any = None, wco: Any = None, *,
                    forget_bias: float = 1.0, cell_clip: float = 3.0, gates: str = "icfo", context: Optional[Context] = None) -> LSTMBlock:
    """Computes a step of an LSTM, TensorFlow's LSTMBlockCell.  Method grad() of the result computes LSTMBlockCellGrad, and more gradients.

    x: [B, I].  cs_prev, h_prev: [B, U].  w: [I+U, 4U].  b: [4U].  wci, wcf, wco: [U], peepholes, all or none.
    gates: the order of the gates in w, b and dgates, "icfo" or "ifco".  cell_clip: 0 or less means no clipping.  The dtype is that of x, or
    float32 if x is a list.

    Raises ArgumentError for a wrong shape or value, ArgumentTypeError for a wrong dtype or type.

    >>> import cellgrad, numpy as np
    >>> x, state, w, b = np.ones((2, 3)), np.zeros((2, 4)), np.full((7, 16), 0.1), np.zeros(16)
    >>> step = cellgrad.lstm_block_cell(x, state, state, w, b)
    >>> step.h.shape, step.grad(h_grad=np.ones((2, 4)))["w_grad"].shape
    ((2, 4), (7, 16))
    """
    if np.ndim(x) != 2:
        raise ArgumentError(f"x: expected shape [B, I], got {np.shape(x)}")
    block = LSTMBlock(x=x, cs_prev=cs_prev, h_prev=h_prev, w=w, b=b, wci=wci, wcf=wcf, wco=wco, forget_bias=forget_bias,
                      cell_clip=cell_clip, gates=gates, context=context)
    block._forward()
    return block


def lstm_block(x: Any, cs_prev: Any, h_prev: Any, w: Any, b: Any, wci: Any = None, wcf: Any = None, wco: Any = None, *,
               forget_bias: float = 1.0, cell_clip: float = 3.0, gates: str = "icfo", seq_len_max: int = -1,
               context: Optional[Context] = None) -> LSTMBlock:
    """Computes an LSTM over a sequence, TensorFlow's BlockLSTM; with gates "ifco", forget_bias 0 and cell_clip 0 BlockLSTMV2.

    x: [T, B, I]; the other arguments are those of `lstm_block_cell`.  seq_len_max: the number of steps that are computed, 0 to T, or -1 for
    T; the outputs of further steps are zero.

    >>> import cellgrad, numpy as np
    >>> x, state, w, b = np.ones((5, 2, 3)), np.zeros((2, 4)), np.full((7, 16), 0.1), np.zeros(16)
    >>> sequence = cellgrad.lstm_block(x, state, state, w, b, seq_len_max=3)
    >>> sequence.h.shape, float(abs(sequence.h[3:]).max())
    ((5, 2, 4), 0.0)
    """
    if np.ndim(x) != 3:
        raise ArgumentError(f"x: expected shape [T, B, I], got {np.shape(x)}")
    block = LSTMBlock(x=x, cs_prev=cs_prev, h_prev=h_prev, w=w, b=b, wci=wci, wcf=wcf, wco=wco, forget_bias=forget_bias,
                      cell_clip=cell_clip, gates=gates, seq_len_max=seq_len_max, context=context)
    block._forward()
    return block


def gru_block_cell(x: Any, h_prev: Any, w_ru: Any, w_c: Any, b_ru: Any, b_c: Any, *, context: Optional[Context] = None) -> GRUBlock:
    """Computes a step of a GRU, TensorFlow's GRUBlockCell, in any dtype.  Method grad() of the result computes
    GRUBlockCellGrad, and more gradients.

    x: [B, I].  h_prev: [B, U].  w_ru: [I+U, 2U], r before u.  w_c: [I+U, U].  b_ru: [2U].  b_c: [U].

    >>> import cellgrad, numpy as np
    >>> x, h = np.ones((2, 3)), np.zeros((2, 4))
    >>> step = cellgrad.gru_block_cell(x, h, np.full((7, 8), 0.1), np.full((7, 4), 0.1), np.zeros(8), np.zeros(4))
    >>> step.h.shape, sorted(step.grad(np.ones((2, 4)), want=["d_x", "d_w_c"]))
    ((2, 4), ['d_w_c', 'd_x'])
    """
    block = GRUBlock(x=x, h_prev=h_prev, w_ru=w_ru, w_c=w_c, b_ru=b_ru, b_c=b_c, context=context)
    block._forward()
    return block
