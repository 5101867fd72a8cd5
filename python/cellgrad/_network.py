# SPDX-License-Identifier: Apache-2.0
"""Networks: layers of a cell over whole sequences, and the layout of their params."""
import ctypes
from typing import Any, Dict, Mapping, NamedTuple, Optional, Sequence, Tuple, Union

import numpy as np

from . import _forward, _weights
from ._arguments import (INT64_MAX, INT_MAX, UINT64_MAX, dtype_code, dtype_of, in_place, integer, memory, one_of, real, struct_of,
                         text, values_of, words, writable)
from ._cell import Cell, cell_of
from ._context import Context, Handle, default_context, opening
from ._errors import ArgumentTypeError
from ._forward import Gradients, Run
from ._lib import C
from ._load import check, lib
from ._spare import Spare

INPUT_MODES = ("linear", "skip", "auto")


class Region(NamedTuple):
    """A part of params: its offset in elements, and its shape."""

    offset: int
    shape: Tuple[int, ...]


def default_rules(cell: Cell) -> str:
    """Returns the default rules for the initial values of params, which are those of Keras."""
    return "xavier_uniform orthogonal zeros" + (" unit_forget" if "a_f" in cell.gates else "")


class Network:
    """Layers of a cell over whole sequences: forward and backward, on NumPy arrays.

    cell: a `Cell`, or the name, the path or the text of one.
    input, units: the width of a step's input and of the cell.
    layers, bidirectional: layer k > 0 reads the outputs of all directions of layer k - 1, one or two.
    dtype: "float32", "float64", "float16" or "bfloat16", which is ml_dtypes.bfloat16; params, sequences and states have it.
    options: the cell's options that are on, such as "peephole"; values: those of the cell's params, such as {"forget_bias": 1.0}.
    proj: the width of a projection of the output, 0 for none.
    input_mode: "linear", "skip" (the first layer has no input matrices; needs input = units) or "auto" (skip if input = units).
    time_major: sequences are [T, B, .], else [B, T, .].  states_major: states are [L*D, B, .] in either case.
    dropout: the probability of dropout between layers, in training; seed: the seed of dropout's masks, which also depend on the argument
    `counter` of forward().
    training: False makes no reserve space and has no dropout; there is no backward pass.
    reverse: one direction, from each sequence's last valid step to its first.
    route: "composed", "scan" or "cudnn", None for the best; allow_tf32, allow_vendor_dropout, strict_rounding: see
    cellgrad(3), a manual page that pip does not install: `man ./man/cellgrad.3` shows it in the source.
    context: the device; None is `default_context()`.

    L is the number of layers, D the number of directions, H the width of a direction's output: proj, or units if proj is 0.

    Threads may share a network.  A network can be used in a forked child, and be pickled.
    A network keeps the memory of its last large results, at most eight; later results take it once nothing refers to it.

    Raises ArgumentError for a wrong value, ArgumentTypeError for a wrong type, UnsupportedError if the device cannot compute the network.

    >>> import cellgrad, numpy as np
    >>> network = cellgrad.Network("lstm", input=3, units=4)
    >>> params = network.init_params(seed=1)
    >>> run = network.forward(params, np.ones((5, 2, 3), np.float32))
    >>> run.output.shape, run.h.shape, run.c.shape
    ((5, 2, 4), (1, 2, 4), (1, 2, 4))
    >>> gradient = network.backward(run, d_output=np.ones((5, 2, 4), np.float32))
    >>> gradient.params.shape == params.shape
    True
    """

    def __init__(self, cell: Union[Cell, str] = "lstm", *, input: int, units: int, layers: int = 1, bidirectional: bool = False,
                 dtype: Any = "float32", options: Union[str, Sequence[str]] = "", values: Optional[Mapping[str, float]] = None,
                 proj: int = 0, input_mode: str = "linear", time_major: bool = True, states_major: bool = False, dropout: float = 0.0,
                 seed: int = 0, training: bool = True, reverse: bool = False, route: Optional[str] = None, allow_tf32: bool = False,
                 allow_vendor_dropout: bool = False, strict_rounding: bool = False, context: Optional[Context] = None):
        self._keywords = {name: value for name, value in locals().items() if name not in ("self", "cell", "__class__")}
        self.cell, self.dtype = cell_of(cell), dtype_of(dtype)
        if context is not None and not isinstance(context, Context):
            raise ArgumentTypeError(f"context: expected a cellgrad.Context, got {type(context).__name__}")
        self._context = context
        config = self.config = struct_of("cg_rnn_config", lib.cg_rnn_config_init)
        # The struct cg_rnn_config points to the options, the route and the values, so the network keeps references to them.
        self._options, self._route = words("options", options), None if route is None else text("route", route)
        numbers = [C.cg_value(name=name.encode(), value=value) for name, value in values_of(values)]
        self._values = (C.cg_value * max(1, len(numbers)))(*numbers)
        config.cell, config.options, config.route = self.cell.pointer, self._options, self._route
        config.values, config.n_values = self._values, len(numbers)
        config.dtype, config.input_mode = dtype_code(dtype), one_of("input_mode", input_mode, INPUT_MODES)
        for name, number, low, high in (("input", input, 1, INT64_MAX), ("units", units, 1, INT64_MAX), ("layers", layers, 1, INT_MAX),
                                        ("proj", proj, 0, INT64_MAX), ("seed", seed, 0, UINT64_MAX)):
            setattr(config, name, integer(name, number, low, high))
        for name, flag in (("bidirectional", bidirectional), ("time_major", time_major), ("states_major", states_major),
                           ("training", training), ("reverse", reverse), ("allow_tf32", allow_tf32),
                           ("allow_vendor_dropout", allow_vendor_dropout), ("strict_rounding", strict_rounding)):
            setattr(config, name, integer(name, flag, 0, 1))
        config.dropout = real("dropout", dropout)
        self._regions: Optional[Dict[str, Region]] = None
        self._plan: Optional[Handle] = None
        self._spare = Spare()
        size = ctypes.c_size_t()
        check(lib.cg_rnn_params(ctypes.byref(config), ctypes.byref(size)))
        #: The number of elements of params.
        self.params_size: int = size.value // self.dtype.itemsize
        self.plan()

    # ---- properties ----

    @property
    def context(self) -> Context:
        """The `Context` of the network: the constructor's argument `context`, or, if that is None, `default_context()`."""
        return self._context or default_context()

    @property
    def route(self) -> str:
        """The route of calls on the device, with the reason against a faster one: "scan", "composed (projection: not scan)"."""
        return str(lib.cg_rnn_route(self.plan().pointer).decode())

    @property
    def directions(self) -> int:
        """The number of directions: 1, or 2 if the network is bidirectional."""
        return 2 if self.config.bidirectional else 1

    @property
    def output_width(self) -> int:
        """The width of the network's output: D*H."""
        return int(self.directions * (self.config.proj or self.config.units))

    def plan(self) -> Handle:
        """Returns the handle of the library's plan in this process, which is opened if it is not yet open."""
        plan = self._plan
        if plan is None or not plan.is_of_this_process():
            context = self.context.handle()
            with opening:
                plan = self._plan
                if plan is None or not plan.is_of_this_process():
                    pointer = ctypes.c_void_p()
                    check(lib.cg_rnn_get(context.pointer, ctypes.byref(self.config), ctypes.byref(pointer)))
                    plan = self._plan = Handle(pointer, lib.cg_rnn_close)
        return plan

    def replace(self, **changes: Any) -> "Network":
        """Returns a new network with the arguments in `changes` changed.  `network.replace(training=False)` takes the same params as
        `network`.

        >>> import cellgrad
        >>> network = cellgrad.Network("gru", input=3, units=4, dropout=0.5, layers=2)
        >>> network.replace(training=False).params_size == network.params_size
        True
        """
        return Network(**{"cell": self.cell, **self._keywords, **changes})

    def __repr__(self) -> str:
        c = self.config
        return (f"<cellgrad.Network {self.cell.name} {self.dtype} input={c.input} units={c.units} layers={c.layers}"
                f"{' bidirectional' if c.bidirectional else ''}{' options=' + c.options.decode() if c.options else ''}>")

    def __reduce__(self) -> Any:
        return _remade, (self.cell, self._keywords)

    # ---- parameters ----

    def init_params(self, rules: Optional[str] = None, seed: int = 0,
                    out: Optional["np.ndarray[Any, Any]"] = None) -> "np.ndarray[Any, Any]":
        """Returns initial params, [params_size]; the same on every machine for the same network, rules and seed.

        rules: three words, one for the input matrices, one for the recurrent matrices and the projection, one for biases and per-unit
        weights; scalars, and per-unit weights to which the cell gives a number, start from the cell's numbers.  A rule is zeros, ones or
        uniform, or, for matrices, xavier_uniform, kaiming_uniform or orthogonal; a fourth word, "unit_forget", gives gate a_f a bias of 1.
        If `rules` is None, the rules are "xavier_uniform orthogonal zeros", as in Keras, with unit_forget if there is a gate a_f.
        out: an array for the params.

        Raises ArgumentError for an unknown rule.

        >>> import cellgrad
        >>> network = cellgrad.Network("lstm", input=3, units=4)
        >>> network.init_params("uniform uniform uniform", seed=3).shape
        (144,)
        """
        if rules is None:
            rules = default_rules(self.cell)
        params = np.empty(self.params_size, self.dtype) if out is None else writable("params", out, self.dtype, (self.params_size,))
        check(lib.cg_rnn_init_params(self.plan().pointer, text("rules", rules), integer("seed", seed, 0, UINT64_MAX), memory(params)))
        return params

    @property
    def regions(self) -> Dict[str, Region]:
        """The region of each matrix, bias, per-unit weight and scalar in params, by name.

        The names of layer 0 are "layer0.input.a_i", "layer0.recurrent.a_i", "layer0.projection", "layer0.input_bias.a_i",
        "layer0.recurrent_bias.a_i", "layer0.vector.p_i" and "layer0.scalar.tau", with the cell's names, as far as params has them;
        those of its second direction begin with "layer0.reverse.".
        """
        if self._regions is None:
            self._regions = {}
            parts = [(part, name, kind) for part, kind in (("input", C.CG_RNN_INPUT), ("recurrent", C.CG_RNN_RECURRENT))
                     for name in self.cell.gates]
            parts += [("projection", "", C.CG_RNN_PROJECTION)]
            parts += [(part, name, kind) for part, kind in (("input_bias", C.CG_RNN_BIAS_W), ("recurrent_bias", C.CG_RNN_BIAS_R))
                      for name in self.cell.gates]
            parts += [("vector", name, C.CG_RNN_VECTOR) for name in self.cell.vectors_with(self._options.decode())]
            parts += [("scalar", name, C.CG_RNN_SCALAR) for name in self.cell.scalars]
            for k in range(self.config.layers * self.directions):
                prefix = f"layer{k // self.directions}." + ("reverse." if k % self.directions else "")
                for part, name, kind in parts:
                    region = C.cg_rnn_region()
                    check(lib.cg_rnn_config_region(ctypes.byref(self.config), k, kind, name.encode(), ctypes.byref(region)))
                    if region.rows:
                        is_matrix = kind in (C.CG_RNN_INPUT, C.CG_RNN_RECURRENT, C.CG_RNN_PROJECTION)
                        shape = (region.rows, region.columns) if is_matrix else (region.rows * region.columns,)
                        self._regions[prefix + part + ("." + name if name else "")] = Region(region.offset, shape)
        return self._regions

    def params_view(self, params: "np.ndarray[Any, Any]") -> Dict[str, "np.ndarray[Any, Any]"]:
        """Returns the parts of params, or of their gradients, by the names of `regions`, as views: writing to a view changes params.

        params: [params_size]; it must be contiguous, since it is not copied.

        >>> import cellgrad
        >>> network = cellgrad.Network("lstm", input=3, units=4)
        >>> params = network.init_params()
        >>> views = network.params_view(params)
        >>> views["layer0.input.a_i"].shape, views["layer0.input_bias.a_f"]
        ((4, 3), array([1., 1., 1., 1.], dtype=float32))
        >>> views["layer0.input.a_i"][:] = 0
        """
        array = in_place("params", params, self.dtype, (self.params_size,))
        return {name: array[at:at + int(np.prod(shape))].reshape(shape) for name, (at, shape) in self.regions.items()}

    # ---- calls, in _forward.py ----

    def forward(self, params: Any, x: Any, h0: Any = None, c0: Any = None, *, lengths: Any = None, batch_sizes: Any = None,
                counter: int = 0, first_step: int = 0, drop: bool = True, out: Any = None) -> Run:
        """Runs the forward pass.  `network.forward(params, x).output` is the output for whole sequences and zero initial states.

        params: [params_size].  x: [T, B, input], or [B, T, input] unless time_major.
        h0: [L*D, B, H], c0: [L*D, B, units], the initial states, with B before L*D unless time_major or states_major; None is zeros.  For a
        cell with S > 1 cell states c0 is [S, L*D, B, units].
        lengths: [B] integers, the number of valid steps of each row; the outputs of further steps are zero.
        batch_sizes: [T] integers, none larger than the one before: x and the output are then packed sequences, [N, .], as in PyTorch.
        counter: the number of the call, such as that of the training step: dropout drops the same units in all calls with the same counter.
        first_step: the number of the first step, if x is a piece of a longer sequence.
        drop: False switches dropout off, as in evaluation, and still allows a backward pass.
        out: an array for the output, or a mapping of "output", "h", "c", "reserve" to arrays, or a `Run` whose arrays are overwritten.

        Returns a `Run`, which refers to the arrays that need no copy, so that these must be unchanged when `backward` is called.

        Raises ArgumentError for a wrong shape or value, ArgumentTypeError for a wrong dtype, OutOfMemoryError if there is not enough
        memory.

        >>> import cellgrad, numpy as np
        >>> network = cellgrad.Network("gru", input=2, units=3, bidirectional=True, dtype="float64")
        >>> run = network.forward(network.init_params(), np.ones((4, 2, 2)), lengths=[4, 2])
        >>> run.output.shape, float(abs(run.output[2:, 1]).max())
        ((4, 2, 6), 0.0)
        """
        return _forward.forward(self, params, x, h0, c0, lengths, batch_sizes, counter, first_step, drop, out)

    def backward(self, run: Run, d_output: Any = None, d_h: Any = None, d_c: Any = None, *,
                 want: Sequence[str] = ("input", "h", "c", "params"), out: Optional[Mapping[str, Any]] = None, accumulate: bool = False,
                 spend_reserve: bool = False) -> Gradients:
        """Runs the backward pass: computes the gradients of a run from the upstream gradients of its output, h and c.

        d_output, d_h, d_c: the upstream gradients, with the shapes of run.output, run.h, run.c; None is zero.
        want: the names of the gradients to compute; those in `out` are computed, too.
        out: arrays for the gradients, by the same names.  accumulate: adds to out["params"] instead of overwriting it.
        spend_reserve: the backward pass may overwrite the reserve space, which avoids a copy on route cudnn; the run then has only this one
        backward pass.

        Returns `Gradients`: of input, h and c (that is x, h0 and c0) and params; None for those that are neither in `want` nor in `out`, or
        do not exist.

        >>> import cellgrad, numpy as np
        >>> network = cellgrad.Network("rnn_tanh", input=2, units=3, dtype="float64")
        >>> run = network.forward(network.init_params(), np.ones((4, 2, 2)))
        >>> gradient = network.backward(run, d_output=np.ones((4, 2, 3)), want=["params"])
        >>> gradient.input is None, gradient.params.shape
        (True, (21,))
        """
        return _forward.backward(self, run, d_output, d_h, d_c, want, out, accumulate, spend_reserve)

    # ---- weights in the formats of other programs, in _weights.py ----

    def weight_shapes(self, format: str) -> Dict[str, Tuple[int, ...]]:
        """Returns the shapes of the tensors that a format has for this network, by name.  `formats()` lists the formats.

        Raises UnsupportedError if the format cannot hold the network.

        >>> import cellgrad
        >>> cellgrad.Network("lstm", input=3, units=4).weight_shapes("keras")
        {'lstm/lstm_cell/kernel': (3, 16), 'lstm/lstm_cell/recurrent_kernel': (4, 16), 'lstm/lstm_cell/bias': (16,)}
        """
        return _weights.shapes(self, format)

    def load_weights(self, tensors: Mapping[str, Any], format: str, *, prefix: str = "", strict: bool = True, gradients: bool = False,
                     lossy: bool = False) -> "np.ndarray[Any, Any]":
        """Makes params, [params_size], from the tensors of another program.

        tensors: arrays by the format's names, each with `prefix` before it.  strict: all tensors must be present, and no other name may
        begin with the prefix; without strict, missing tensors are zeros.  gradients: the tensors are gradients of weights.  lossy has
        no effect here: it concerns `save_weights` alone.  Peepholes that the format does not hold are zeros.

        Raises ArgumentError for a wrong name or shape, ArgumentTypeError for a wrong dtype, UnsupportedError if the format cannot
        hold the network.

        >>> import cellgrad, numpy as np
        >>> network = cellgrad.Network("lstm", input=3, units=4)
        >>> state_dict = network.save_weights(network.init_params(), "pytorch")
        >>> np.array_equal(network.load_weights(state_dict, "pytorch"), network.init_params())
        True
        """
        return _weights.load(self, tensors, format, prefix, strict, gradients, lossy)

    def save_weights(self, params: Any, format: str, *, prefix: str = "", gradients: bool = False,
                     lossy: bool = False) -> Dict[str, "np.ndarray[Any, Any]"]:
        """Converts params, [params_size], or their gradients, to the tensors of another program, by the format's names with `prefix` before
        each.  lossy: two biases may become one, and peepholes that the format does not hold are left out.

        Raises UnsupportedError if the format cannot hold the network or, unless lossy, cannot hold the params without loss; peepholes that
        are all 0 are no loss.

        >>> import cellgrad
        >>> network = cellgrad.Network("lstm", input=3, units=4, options="peephole")
        >>> list(network.save_weights(network.init_params("uniform uniform uniform"), "pytorch", lossy=True))
        ['weight_ih_l0', 'weight_hh_l0', 'bias_ih_l0', 'bias_hh_l0']
        """
        return _weights.save(self, params, format, prefix, gradients, lossy)


def _remade(cell: Cell, keywords: Dict[str, Any]) -> Network:
    return Network(cell, **keywords)
