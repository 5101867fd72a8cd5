# SPDX-License-Identifier: Apache-2.0
"""A recurrent node as networks, one for each direction: its attributes, shapes and weights, and its forward and backward calls."""
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Tuple

import numpy as np

from .._arguments import INT64_MAX, dtype_of, given, integer, one_of, real, row_lengths, shown
from .._context import Context
from .._errors import ArgumentError, ArgumentTypeError
from .._forward import Run
from .._network import Network
from ._cells import Functions, built_in, cell_of, read_activations

Array = Any
GATES: Dict[str, int] = {"LSTM": 4, "GRU": 3, "RNN": 1}
DIRECTIONS = ("forward", "reverse", "bidirectional")
_COMMON = ("activation_alpha", "activation_beta", "activations", "clip", "direction", "hidden_size", "layout")
ATTRIBUTES: Dict[str, Tuple[str, ...]] = {
    "LSTM": (*_COMMON, "input_forget"), "GRU": (*_COMMON, "linear_before_reset"), "RNN": _COMMON}


class LayerRun(NamedTuple):
    """The results of a layer's forward pass, and everything that its backward pass reads.

    Y: [T, D, B, U], with layout 1 [B, T, D, U].  Y_h, Y_c: [D, B, U], with layout 1 [B, D, U]; Y_c is None except for an LSTM.
    runs: the `Run` of the network of each direction.
    """

    Y: Array
    Y_h: Array
    Y_c: Optional[Array]
    runs: List[Run]


class LayerGradients(NamedTuple):
    """The gradients of X, initial_h and initial_c, each of the same shape as that input, and of the params of each direction.

    initial_c is None except for an LSTM.
    """

    X: Array
    initial_h: Array
    initial_c: Optional[Array]
    params: List[Array]


def _words(name: str, value: Any) -> Optional[List[str]]:
    """Returns a list of str; protobuf stores a str as bytes."""
    if value is None:
        return None
    if isinstance(value, (str, bytes)) or not isinstance(value, Sequence) or not all(isinstance(word, (str, bytes)) for word in value):
        raise ArgumentTypeError(f"{name}: expected a list of str, got {type(value).__name__} {value!r:.60}")
    return [word if isinstance(word, str) else word.decode("utf-8", "replace") for word in value]


def _numbers(name: str, value: Any) -> List[float]:
    if isinstance(value, (str, bytes)) or not isinstance(value, (Sequence, np.ndarray)):
        raise ArgumentTypeError(f"{name}: expected a list of numbers, got {type(value).__name__} {value!r:.60}")
    return [real(name, number) for number in value]


def _dtype(W: Any) -> "np.dtype[Any]":
    """Returns the dtype of the layer, which is that of W."""
    try:
        return dtype_of(getattr(W, "dtype", None))
    except ArgumentTypeError:
        raise ArgumentTypeError("W: expected an array of float32, float64, float16 or bfloat16, got "
                                f"{getattr(W, 'dtype', type(W).__name__)!s:.60}") from None


def _clip(value: Any) -> Optional[float]:
    if value is None:
        return None
    limit = real("clip", value)
    if not 0 < limit < float("inf"):
        raise ArgumentError(f"clip: expected a finite number above 0, got {limit}")
    return limit


class Layer:
    """An LSTM, GRU or RNN node of ONNX with its weights, to run and to train: a network and params for each direction.

    operator: "LSTM", "GRU" or "RNN".
    W: [D, G*U, input], R: [D, G*U, U], B: [D, 2*G*U], P: [D, 3*U], for an LSTM alone; G is the number of gates, 4, 3 or 1; D is 2 if
    bidirectional, else 1.
    attributes: those of the node: activation_alpha, activation_beta, activations, clip, direction, hidden_size, input_forget (LSTM alone),
    layout, linear_before_reset (GRU alone).
    training: False makes no reserve space; there is no backward pass.  context: the device; None is `cellgrad.default_context()`.

    `networks` and `params` are lists with a `cellgrad.Network` and an array for each direction; forward reads the arrays at each call.

    Raises ArgumentError for a wrong value, ArgumentTypeError for a wrong type.

    >>> import cellgrad.onnx, numpy as np
    >>> layer = cellgrad.onnx.Layer("GRU", np.zeros((1, 12, 3), np.float32), np.zeros((1, 12, 4), np.float32), clip=5.0)
    >>> run = layer.forward(np.ones((7, 2, 3), np.float32))
    >>> run.Y.shape, run.Y_h.shape
    ((7, 1, 2, 4), (1, 2, 4))
    >>> layer.backward(run, d_Y=np.ones_like(run.Y)).params[0].shape == layer.params[0].shape
    True
    """

    def __init__(self, operator: str, W: Any, R: Any, B: Any = None, P: Any = None, *, training: bool = True,
                 context: Optional[Context] = None, **attributes: Any):
        one_of("operator", operator, list(GATES))
        for name in attributes:
            if name not in ATTRIBUTES[operator]:
                raise ArgumentError(f"{operator} has no attribute '{name:.40}'; it has {', '.join(ATTRIBUTES[operator])}")
        attributes = {name: value for name, value in attributes.items() if value is not None}
        direction = DIRECTIONS[one_of("direction", attributes.get("direction", "forward"), DIRECTIONS)]
        self.operator, self.directions = operator, 2 if direction == "bidirectional" else 1
        self.layout = integer("layout", attributes.get("layout", 0), 0, 1)
        self.dtype = _dtype(W)
        self._shape(W, R, attributes)
        reset_after = bool(integer("linear_before_reset", attributes.get("linear_before_reset", 0), 0, 1))
        activations = read_activations(
            operator, self.directions, _words("activations", attributes.get("activations")),
            *(_numbers(name, attributes.get(name, ())) for name in ("activation_alpha", "activation_beta")))
        self._keywords: Dict[str, Any] = {
            "input": self.input, "units": self.units, "dtype": self.dtype, "options": "" if P is None else "peephole",
            "time_major": not self.layout, "training": training, "context": context}
        if P is not None and operator != "LSTM":
            raise ArgumentError(f"P: expected None, since {operator} has no peepholes")
        self._plain = Network(built_in(operator, reset_after), **self._keywords)
        self.networks: List[Network] = []
        for d, (names, equations) in enumerate(activations):
            functions = Functions(operator, names, equations, _clip(attributes.get("clip")),
                                  bool(integer("input_forget", attributes.get("input_forget", 0), 0, 1)), reset_after)
            self.networks.append(Network(cell_of(functions), reverse=direction == "reverse" or d == 1, **self._keywords))
        self.params: List[Array] = self._load(W, R, B, P)

    def _shape(self, W: Any, R: Any, attributes: Mapping[str, Any]) -> None:
        """Sets input and units by the shapes of W and R, which are fully checked when the weights are loaded."""
        last = []
        for name, value in (("W", W), ("R", R)):
            shape = shown(name, value, self.dtype).shape
            if len(shape) != 3:
                raise ArgumentError(f"{name}: expected 3 dimensions, got shape {shape}")
            last.append(shape[2])
        self.input, self.units = integer("W: input", last[0], 1, INT64_MAX), integer("R: units", last[1], 1, INT64_MAX)
        if integer("hidden_size", attributes.get("hidden_size", self.units), 1, INT64_MAX) != self.units:
            raise ArgumentError(f"hidden_size: expected {self.units}, the last dimension of R, got {attributes['hidden_size']}")

    def _weight_shapes(self) -> Dict[str, Tuple[Tuple[int, ...], str]]:
        D, U, G = self.directions, self.units, GATES[self.operator]
        return {"W": ((D, G * U, self.input), f"D, {G}*U, input"), "R": ((D, G * U, U), f"D, {G}*U, U"),
                "B": ((D, 2 * G * U), f"D, {2 * G}*U"), "P": ((D, 3 * U), "D, 3*U")}

    def _load(self, W: Any, R: Any, B: Any, P: Any) -> List[Array]:
        shapes = self._weight_shapes()
        B = np.zeros(shapes["B"][0], self.dtype) if B is None else B
        tensors = {name: given(name, array, self.dtype, *shapes[name])
                   for name, array in (("W", W), ("R", R), ("B", B), ("P", P)) if array is not None}
        return [self._plain.load_weights({name: array[d:d + 1] for name, array in tensors.items()}, "onnx")
                for d in range(self.directions)]

    def weights(self, params: Optional[Sequence[Any]] = None, *, gradients: bool = False) -> Dict[str, Array]:
        """Returns the params as the node's inputs W, R, B and, if the layer was made with P, P.

        params: the params of each direction, [params_size]; None is the layer's own params.  gradients: the arrays are gradients of params,
        which backward returns.

        Raises ArgumentError for a wrong number or shape, ArgumentTypeError for a wrong dtype.

        >>> import cellgrad.onnx, numpy as np
        >>> W, R = np.ones((2, 8, 3), np.float32), np.ones((2, 8, 2), np.float32)
        >>> layer = cellgrad.onnx.Layer("LSTM", W, R, direction="bidirectional")
        >>> weights = layer.weights()
        >>> list(weights), bool((weights["W"] == W).all())
        (['W', 'R', 'B'], True)
        """
        given_params = self.params if params is None else list(params)
        if len(given_params) != self.directions:
            raise ArgumentError(f"params: expected an array for each of {self.directions} directions, got {len(given_params)}")
        saved = [self._plain.save_weights(each, "onnx", gradients=gradients) for each in given_params]
        return {name: np.concatenate([each[name] for each in saved]) for name in saved[0]}

    def _part(self, state: Optional[Array], d: int) -> Optional[Array]:
        """Returns the part of a state for one direction."""
        return None if state is None else state[:, d:d + 1] if self.layout else state[d:d + 1]

    def _join(self, states: Sequence[Optional[Array]]) -> Optional[Array]:
        parts = [state for state in states if state is not None]
        return np.concatenate(parts, axis=1 if self.layout else 0) if parts else None

    def _axes(self, T: int, B: int) -> Dict[str, Tuple[Tuple[int, ...], str]]:
        D, U = self.directions, self.units
        if self.layout:
            return {"X": ((B, T, self.input), "B, T, input"), "Y": ((B, T, D, U), "B, T, D, U"), "state": ((B, D, U), "B, D, U")}
        return {"X": ((T, B, self.input), "T, B, input"), "Y": ((T, D, B, U), "T, D, B, U"), "state": ((D, B, U), "D, B, U")}

    def _state(self, name: str, value: Any, T: int, B: int) -> Optional[Array]:
        if value is None:
            return None
        if name.endswith("_c") and self.operator != "LSTM":
            raise ArgumentError(f"{name}: expected None, since {self.operator} has no cell state")
        return given(name, value, self.dtype, *self._axes(T, B)["state"])

    def forward(self, X: Any, sequence_lens: Any = None, initial_h: Any = None, initial_c: Any = None) -> LayerRun:
        """Runs the forward pass.

        X: [T, B, input], with layout 1 [B, T, input].  sequence_lens: [B], the number of valid steps of each row, 0 to T; None is T for
        all; Y is zero in further steps.  initial_h, initial_c: [D, B, U], with layout 1 [B, D, U]; None is zeros.

        Raises ArgumentError for a wrong shape or length, ArgumentTypeError for a wrong dtype.
        """
        X = shown("X", X, self.dtype)
        if X.ndim != 3:
            raise ArgumentError(f"X: expected 3 dimensions, got shape {X.shape}")
        T, B = (X.shape[1], X.shape[0]) if self.layout else X.shape[:2]
        shown("X", X, self.dtype, *self._axes(T, B)["X"])
        lengths = None if sequence_lens is None else row_lengths("sequence_lens", sequence_lens, B, T)
        h, c = self._state("initial_h", initial_h, T, B), self._state("initial_c", initial_c, T, B)
        runs = [network.forward(params, X, h0=self._part(h, d), c0=self._part(c, d), lengths=lengths)
                for d, (network, params) in enumerate(zip(self.networks, self.params))]
        return LayerRun(np.stack([run.output for run in runs], axis=2 if self.layout else 1), self._join([run.h for run in runs]),
                        self._join([run.c for run in runs]), runs)

    def backward(self, run: LayerRun, d_Y: Any = None, d_Y_h: Any = None, d_Y_c: Any = None) -> LayerGradients:
        """Runs the backward pass, from the upstream gradients of Y, Y_h and Y_c; None is zero.

        Raises ArgumentError for a wrong shape, or if the layer has training=False, ArgumentTypeError for a wrong dtype.
        """
        if not isinstance(run, LayerRun) or len(run.runs) != self.directions:
            raise ArgumentTypeError(f"run: expected the LayerRun that this layer's forward returned, got {type(run).__name__}")
        T, B = (run.Y.shape[1], run.Y.shape[0]) if self.layout else (run.Y.shape[0], run.Y.shape[2])
        d_h, d_c = self._state("d_Y_h", d_Y_h, T, B), self._state("d_Y_c", d_Y_c, T, B)
        d_Y = None if d_Y is None else shown("d_Y", d_Y, self.dtype, *self._axes(T, B)["Y"])
        found = [network.backward(each, None if d_Y is None else np.take(d_Y, d, axis=2 if self.layout else 1), self._part(d_h, d),
                                  self._part(d_c, d)) for d, (network, each) in enumerate(zip(self.networks, run.runs))]
        return LayerGradients(sum(each.input for each in found), self._join([each.h for each in found]),
                              self._join([each.c for each in found]), [each.params for each in found])
