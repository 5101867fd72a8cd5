# SPDX-License-Identifier: Apache-2.0
"""Networks as functions of params and sequences."""
import ctypes
import math
import os
from typing import Any, Dict, Hashable, Mapping, Optional, Sequence, Tuple, Union

import jax
import jax.numpy as jnp
import numpy as np

from .. import _network
from .._arguments import path_of, values_of
from .._cell import Cell, cell_of
from .._errors import ArgumentError, ArgumentTypeError
from .._load import check, lib
from . import _call, _module
from ._manual_axes import axes_of, varying

Array = Any
DTYPES = ("float32", "float64", "float16", "bfloat16")


def _text_of(cell: Cell) -> str:
    """Returns the name of a built-in cell or of one of the shelf, or the text of a cell.  The text is read from the cell's file, if the
    cell has one, so that a compiled program does not need the file."""
    path = path_of(cell.source)
    if path is None:
        return str(cell.source)
    with open(path, encoding="utf-8") as file:
        return file.read()


class Network:
    """Layers of a cell over whole sequences: a function of params and arrays that works under jit, grad, vmap and shard_map.

    cell: a `Cell`, or the name, the path or the text of one.
    input, units: the width of a step's input and of the cell.
    layers, bidirectional: layer k > 0 reads the outputs of all directions of layer k - 1, one or two.
    options: the cell's options that are on, such as "peephole"; values: those of the cell's params, such as {"forget_bias": 1.0}.
    proj: the width of a projection of the output, 0 for none.
    input_mode: "linear", "skip" (the first layer has no input matrices; needs input = units) or "auto" (skip if input = units).
    time_major: sequences are [T, B, .], else [B, T, .].
    dropout: the probability of dropout between layers, in calls that have a key.
    reverse: one direction, from each sequence's last valid step to its first.

    L is the number of layers, D the number of directions, H the width of a direction's output: proj, or units if proj is 0.
    `params_size` is the number of elements of params.
    Networks with equal arguments are equal, so that a network may be a static argument of jax.jit.  A network holds no arrays, and can be
    pickled.

    Raises ArgumentError for a wrong value, ArgumentTypeError for a wrong type, BuildError for a wrong text of a cell.

    >>> import cellgrad.jax, jax, jax.numpy as jnp
    >>> network = cellgrad.jax.Network("gru", input=3, units=4, layers=2, bidirectional=True)
    >>> params = network.init(jax.random.key(1))
    >>> output, (h, c) = network(params, jnp.ones((5, 2, 3)), lengths=jnp.array([5, 3]))
    >>> output.shape, h.shape, c
    ((5, 2, 8), (4, 2, 4), None)
    """

    def __init__(self, cell: Union[Cell, str, "os.PathLike[str]"] = "lstm", *, input: int, units: int, layers: int = 1,
                 bidirectional: bool = False, options: Union[str, Sequence[str]] = "", values: Optional[Mapping[str, float]] = None,
                 proj: int = 0, input_mode: str = "linear", time_major: bool = True, dropout: float = 0.0, reverse: bool = False):
        self.cell = Cell(_text_of(cell_of(cell)))
        self._keywords: Dict[str, Any] = dict(
            input=input, units=units, layers=layers, bidirectional=bidirectional, options=options, values=values or {}, proj=proj,
            input_mode=input_mode, time_major=time_major, dropout=dropout, reverse=reverse)
        self._of_dtype: Dict[str, _network.Network] = {}
        self._bounds: Dict[str, Tuple[int, int]] = {}
        config = self.numpy().config
        self.params_size = self.numpy().params_size
        self.time_major = bool(config.time_major)
        self._attributes: Dict[str, Any] = {name: np.int64(getattr(config, name)) for name in (
            "layers", "bidirectional", "input_mode", "time_major", "reverse", "units", "proj")}
        numbers = dict(values_of(self._keywords["values"]))
        # The network keeps a copy of the values, since the caller may change the mapping later.
        self._keywords["values"] = numbers
        self._attributes.update(cell=self.cell.source, options=config.options.decode(), dropout=np.float64(config.dropout),
                                value_names=",".join(numbers), states=np.int64(max(1, self.cell.n_states)))
        self._attributes.update((f"value_{name}", np.float64(number)) for name, number in numbers.items())
        self._key: Hashable = (config.input, tuple(sorted(self._attributes.items())))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Network) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __repr__(self) -> str:
        c = self.numpy().config
        return (f"<cellgrad.jax.Network {self.cell.name} input={c.input} units={c.units} layers={c.layers}"
                f"{' bidirectional' if c.bidirectional else ''}>")

    def __reduce__(self) -> Any:
        return _remade, (self.cell.source, self._keywords)

    # ---- facts from the library ----

    def numpy(self, dtype: Any = "float32") -> _network.Network:
        """Returns the same network for NumPy, a `cellgrad.Network` of a dtype.

        The NumPy network takes the same params as this JAX network, and its load_weights makes params from the weights of other programs.
        The states of the NumPy network are [B, L*D, .] unless time_major.

        Raises ArgumentTypeError for a dtype that networks do not support.

        >>> import cellgrad.jax
        >>> network = cellgrad.jax.Network("lstm", input=3, units=4)
        >>> list(network.numpy().weight_shapes("pytorch"))
        ['weight_ih_l0', 'weight_hh_l0', 'bias_ih_l0', 'bias_hh_l0']
        """
        name = str(np.dtype(dtype))
        if name not in self._of_dtype:
            self._of_dtype[name] = _network.Network(self.cell, dtype=name, context=_module.context(), **self._keywords)
        return self._of_dtype[name]

    def attributes(self, has_reserve: bool, drops: bool, input_width: bool = False) -> Dict[str, Any]:
        """Returns the attributes with which a handler is called."""
        more: Dict[str, Any] = {"input": np.int64(self._keywords["input"])} if input_width else {"drop": np.int64(drops)}
        return {**self._attributes, "training": np.int64(has_reserve), **more}

    def shapes(self, x: Sequence[Any]) -> Tuple[Tuple[Any, ...], Tuple[Any, ...], Optional[Tuple[Any, ...]]]:
        """Returns the shapes of output, h and c for the shape of an input; that of c is None if the cell has no cell state, and that of S > 1
        cell states is [S, L*D, B, units]."""
        numpy = self.numpy()
        config, B = numpy.config, x[1] if self.time_major else x[0]
        count = config.layers * numpy.directions
        states, each = self.cell.n_states, (count, B, config.units)
        return ((*x[:2], numpy.output_width), (count, B, config.proj or config.units),
                each if states == 1 else (states, *each) if states else None)

    def reserve_size(self, dtype: Any, x: Sequence[Any]) -> Any:
        """Returns a number of bytes that suffices for the reserve space, for the shape of an input, whatever the lengths are."""
        name = str(np.dtype(dtype))
        if name not in self._bounds:
            fixed, step = ctypes.c_size_t(), ctypes.c_size_t()
            check(lib.cg_rnn_reserve_bound(self.numpy(dtype).plan().pointer, ctypes.byref(fixed), ctypes.byref(step)))
            self._bounds[name] = fixed.value, step.value
        first, each = self._bounds[name]
        return first + each * x[0] * x[1]

    # ---- parameters ----

    def init(self, key: Array, rules: Optional[str] = None, dtype: Any = jnp.float32) -> Array:
        """Returns initial params, [params_size]; the same on every machine for the same network, rules, dtype and key.

        key: a key of jax.random.  rules: those of `cellgrad.Network.init_params`; None makes input matrices uniform by Glorot's rule,
        recurrent matrices and projections orthogonal, and biases and per-unit weights 0, except a bias of 1 for a gate a_f and per-unit
        weights to which the cell gives a number.

        Raises ArgumentTypeError for a wrong dtype; for an unknown rule the call of the handler raises jax.errors.JaxRuntimeError or
        ValueError.

        >>> import cellgrad.jax, jax
        >>> network = cellgrad.jax.Network("lstm", input=3, units=4)
        >>> network.init(jax.random.key(0), "uniform uniform uniform").shape
        (144,)
        """
        self.numpy(dtype)
        return _call.init_params(self, key, _network.default_rules(self.cell) if rules is None else rules, np.dtype(dtype))

    def weights(self, params: Array) -> Dict[str, Array]:
        """Returns the matrices, biases, per-unit weights and scalars of params, or of their gradients, by name.

        params: [params_size].  The names are those of `cellgrad.Network.regions`.

        >>> import cellgrad.jax, jax
        >>> network = cellgrad.jax.Network("lstm", input=3, units=4)
        >>> weights = network.weights(network.init(jax.random.key(0)))
        >>> weights["layer0.input.a_i"].shape, weights["layer0.input_bias.a_f"].tolist()
        ((4, 3), [1.0, 1.0, 1.0, 1.0])
        """
        params = self._checked("params", params, None, (self.params_size,), "params_size")
        return {name: params[at:at + math.prod(shape)].reshape(shape) for name, (at, shape) in self.numpy().regions.items()}

    def params(self, weights: Mapping[str, Array]) -> Array:
        """Joins weights, a mapping of names to arrays, into params, [params_size]: the inverse of `weights`.

        Raises ArgumentError for a wrong name or shape, ArgumentTypeError for a wrong dtype.

        >>> import cellgrad.jax, jax
        >>> network = cellgrad.jax.Network("lstm", input=3, units=4)
        >>> params = network.init(jax.random.key(0))
        >>> bool((network.params(network.weights(params)) == params).all())
        True
        """
        regions = self.numpy().regions
        if not isinstance(weights, Mapping):
            raise ArgumentTypeError(f"weights: expected a mapping of names to arrays, got {type(weights).__name__}")
        missing, unknown = [name for name in regions if name not in weights], [name for name in weights if name not in regions]
        if missing or unknown:
            raise ArgumentError(f"weights: missing {', '.join(missing) or 'none'}; unknown {', '.join(map(str, unknown)) or 'none'}")
        parts, dtype = [], None
        for name, (_, shape) in sorted(regions.items(), key=lambda item: item[1].offset):
            part = self._checked(name, weights[name], dtype, shape, "")
            parts.append(part.reshape(-1))
            dtype = part.dtype
        return jnp.concatenate(parts)

    # ---- calls ----

    @staticmethod
    def _checked(name: str, value: Any, dtype: Any, shape: Tuple[Any, ...], axes: str) -> Array:
        """Checks that an array has the shape `shape`, a dtype that networks support and, unless `dtype` is None, the dtype `dtype`."""
        array = jnp.asarray(value)
        if str(array.dtype) not in DTYPES:
            raise ArgumentTypeError(f"{name}: expected {', '.join(DTYPES[:-1])} or {DTYPES[-1]}, got {array.dtype}")
        if dtype is not None and array.dtype != dtype:
            raise ArgumentTypeError(f"{name}: expected {dtype}, got {array.dtype}")
        if array.shape != shape:
            raise ArgumentError(f"{name}: expected shape {shape}{f' [{axes}]' if axes else ''}, got {array.shape}")
        return array

    def _checked_input(self, x: Any, dtype: Any) -> Array:
        width = self._keywords["input"]
        array = jnp.asarray(x)
        if array.ndim != 3 or array.shape[2] != width:
            raise ArgumentError(f"x: expected shape [{'T, B' if self.time_major else 'B, T'}, input={width}], got {array.shape}")
        return self._checked("x", array, dtype, array.shape, "")

    def _checked_lengths(self, lengths: Any, B: Any) -> Optional[Array]:
        if lengths is None:
            return None
        array = jnp.asarray(lengths)
        if not jnp.issubdtype(array.dtype, jnp.integer):
            raise ArgumentTypeError(f"lengths: expected integers, got {array.dtype}")
        if array.shape != (B,):
            raise ArgumentError(f"lengths: expected shape ({B},) [B], got {array.shape}")
        return array.astype(jnp.int32)

    def __call__(self, params: Array, x: Array, h0: Optional[Array] = None, c0: Optional[Array] = None,
                 lengths: Optional[Array] = None, key: Optional[Array] = None) -> Tuple[Array, Tuple[Array, Optional[Array]]]:
        """Runs the network in the dtype of params, which x, h0 and c0 must have.

        params: [params_size].  x: [T, B, input], or [B, T, input] unless time_major.
        h0: [L*D, B, H], c0: [L*D, B, units], the initial states, whatever time_major is; None is zeros.  For a cell with S > 1 cell states
        c0 is [S, L*D, B, units].
        lengths: [B] integers, the number of valid steps of each row; the outputs of further steps are zero.
        key: a key of jax.random, on which the masks of dropout depend; None switches dropout off, as in evaluation.

        Returns output [T, B, D*H], or [B, T, D*H], and (h, c), with the shapes of h0 and c0; c is None for a cell without a cell state.

        Raises ArgumentError for a wrong shape and ArgumentTypeError for a wrong dtype when the call is traced.  If a
        value is wrong, such as a length beyond T, the call of the handler raises jax.errors.JaxRuntimeError or ValueError.

        >>> import cellgrad.jax, jax, jax.numpy as jnp
        >>> network = cellgrad.jax.Network("lstm", input=3, units=4, layers=2, dropout=0.5)
        >>> params = network.init(jax.random.key(0))
        >>> output, (h, c) = network(params, jnp.ones((5, 2, 3)), key=jax.random.key(1))
        >>> output.shape, h.shape, c.shape
        ((5, 2, 4), (2, 2, 4), (2, 2, 4))
        """
        params = self._checked("params", params, None, (self.params_size,), "params_size")
        x = self._checked_input(x, params.dtype)
        if c0 is not None and not self.cell.has_state:
            raise ArgumentError(f"c0: expected None, since the cell {self.cell.name} has no cell state")
        _, h_shape, c_shape = self.shapes(x.shape)
        h0 = None if h0 is None else self._checked("h0", h0, x.dtype, h_shape, "L*D, B, H")
        c0 = None if c0 is None or c_shape is None else self._checked("c0", c0, x.dtype, c_shape, "S, L*D, B, units"[0 if self.cell.n_states > 1 else 3:])
        lengths = self._checked_lengths(lengths, h_shape[1])
        drops = key is not None and self._attributes["dropout"] > 0
        counter = _call.halves_of(key) if drops else None
        arrays = (x, h0, c0, params, lengths, counter)
        axes = axes_of(jax.tree.leaves(arrays))
        output, h, c = _call.compiled(self, *jax.tree.map(lambda array: varying(array, axes), arrays))
        return output, (h, c)


def _remade(cell: str, keywords: Dict[str, Any]) -> Network:
    return Network(cell, **keywords)
