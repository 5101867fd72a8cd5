# SPDX-License-Identifier: Apache-2.0
"""The cells of ONNX's LSTM, GRU and RNN: built-in cells, or cells that this file writes with a clip, a coupled forget gate or other
activations.

A cell that this file writes has the gates of its operator's built-in cell, in the same order, so that the params of both have the same
layout.
"""
import functools
import math
from typing import Dict, List, NamedTuple, Optional, Sequence, Tuple

from .._cell import Cell
from .._errors import ArgumentError


class Activation(NamedTuple):
    """An activation of ONNX as an expression of {x} in the cell language; which of alpha and beta the activation takes; their defaults."""

    equation: str
    takes: str = ""
    alpha: Optional[float] = None
    beta: Optional[float] = None


ACTIVATIONS: Dict[str, Activation] = {
    "Affine": Activation("{alpha} * {x} + {beta}", "alpha beta"),
    "Elu": Activation("relu({x}) + {alpha} * expm1(-relu(-{x}))", "alpha", alpha=1.0),
    "HardSigmoid": Activation("min(max({alpha} * {x} + {beta}, 0), 1)", "alpha beta", alpha=0.2, beta=0.5),
    "LeakyRelu": Activation("relu({x}) - {alpha} * relu(-{x})", "alpha", alpha=0.01),
    "Relu": Activation("relu({x})"),
    "ScaledTanh": Activation("{alpha} * tanh({beta} * {x})", "alpha beta"),
    "Sigmoid": Activation("sigmoid({x})"),
    "Softplus": Activation("softplus({x})"),
    "Softsign": Activation("softsign({x})"),
    "Tanh": Activation("tanh({x})"),
    "ThresholdedRelu": Activation("{x} * step({x} - {alpha})", "alpha", alpha=1.0),
}
DEFAULTS: Dict[str, Tuple[str, ...]] = {"LSTM": ("Sigmoid", "Tanh", "Tanh"), "GRU": ("Sigmoid", "Tanh"), "RNN": ("Tanh",)}

# {f}, {g} and {h} stand for the activations, in ONNX's order; the argument of each follows in brackets.  If the node has the attribute
# clip, the cell clips the arguments of the gates' activations.  The cell state is not clipped: ONNX's specification leaves that open, and
# ONNX Runtime does not clip it either.
_LSTM = """cell onnx_lstm
gates  a_i a_f a_g a_o
state  c
output h
option peephole p_i p_f p_o

i = {f}[a_i + p_i * c_prev]
f = {forget}
g = {g}[a_g]
c = f * c_prev + i * g
o = {f}[a_o + p_o * c]
m = {h}[c]
h = o * m
save i f g o c h
"""
_GRU = """cell onnx_gru
gates  a_r a_z a_n
split  q_n
output h

r = {f}[a_r]
z = {f}[a_z]
q = q_n
n = {g}[a_n + r * q]
h = (1 - z) * n + z * h_prev
save r z n q h
"""
_GRU_RESET_BEFORE = """cell onnx_gru_reset_before
gates  a_r a_u
output h

r  = {f}[a_r]
u  = {f}[a_u]
hr = h_prev * r

stage hr
gates  a_c

c  = {g}[a_c]
h  = u * (h_prev - c) + c
save r u c h
"""
_RNN = """cell onnx_rnn
gates  a
output h

h = {f}[a]
save h
"""
# The function `clip` of the cell language has a derivative of 1 by x everywhere; the derivative of _CLIP is 0 beyond the limit.
_CLIP = "clip({x}, {limit}) * (1 - step({x} - {limit}) - step(-{x} - {limit})) + {limit} * (step({x} - {limit}) - step(-{x} - {limit}))"


class Functions(NamedTuple):
    """What determines a node's cell: the operator, its activations as names and as expressions of {x}, and the node's attributes clip,
    input_forget and linear_before_reset (field reset_after)."""

    operator: str
    names: Tuple[str, ...]
    equations: Tuple[str, ...]
    clip: Optional[float] = None
    input_forget: bool = False
    reset_after: bool = False


def built_in(operator: str, reset_after: bool) -> str:
    """Returns the name of the built-in cell whose params have the same layout as those of the operator's cells."""
    return {"LSTM": "lstm", "GRU": "gru" if reset_after else "gru_block", "RNN": "rnn_tanh"}[operator]


@functools.lru_cache(maxsize=64)
def cell_of(functions: Functions) -> Cell:
    """Returns the built-in cell that computes the argument `functions`, or else a new cell with the text that _text() returns."""
    if functions.clip is None and not functions.input_forget:
        if functions.names == DEFAULTS[functions.operator]:
            return Cell(built_in(functions.operator, functions.reset_after))
        if functions.names == ("Relu",):
            return Cell("rnn_relu")
    return Cell(_text(functions))


def _text(functions: Functions) -> str:
    template = {"LSTM": _LSTM, "GRU": _GRU if functions.reset_after else _GRU_RESET_BEFORE, "RNN": _RNN}[functions.operator]
    template = template.replace("{forget}", "1 - i + 0 * (a_f + p_f * c_prev)" if functions.input_forget else "{f}[a_f + p_f * c_prev]")
    equations = dict(zip(("{f}", "{g}", "{h}"), functions.equations))
    lines: List[str] = []
    saved: List[str] = []
    for line in template.splitlines():
        name, _, right = line.partition(" = ")
        function, bracket, argument = right.strip().partition("[")
        if line.startswith("save"):
            line = " ".join([line, *saved])
        elif bracket:
            # The activation's argument gets a name, since it may occur more than once in the activation's expression.
            saved.append("in_" + name.strip())
            lines.append(f"{saved[-1]} = {argument[:-1]}")
            if functions.clip is not None and function != "{h}":
                saved.append("clipped_" + name.strip())
                lines.append(f"{saved[-1]} = {_CLIP.format(x=saved[-2], limit=repr(functions.clip))}")
            line = f"{name} = {equations[function].replace('{x}', saved[-1])}"
        lines.append(line)
    return "\n".join(lines) + "\n"


def _number(name: str, value: float) -> str:
    if not math.isfinite(value):
        raise ArgumentError(f"{name}: expected finite numbers, got {value}")
    return repr(float(value)) if value >= 0 else f"(-{-float(value)!r})"


def read_activations(operator: str, directions: int, names: Optional[Sequence[str]], alphas: Sequence[float],
                     betas: Sequence[float]) -> List[Tuple[Tuple[str, ...], Tuple[str, ...]]]:
    """Returns, for each direction, the names of its activations and their expressions of {x}.

    alphas and betas are those of the activations that take one, in order; if there are too few, the last activations get ONNX's defaults.

    Raises ArgumentError for an unknown name, a wrong number of names, or a missing or spare alpha or beta.
    """
    known = {name.lower(): name for name in ACTIVATIONS}
    count = len(DEFAULTS[operator])
    names = list(names or DEFAULTS[operator] * directions)
    if len(names) != count * directions:
        raise ArgumentError(f"activations: expected {count} names for each of {directions} directions, got {len(names)} in all")
    left = {"alpha": list(alphas), "beta": list(betas)}
    found: List[str] = []
    equations: List[str] = []
    for name in names:
        if name.lower() not in known:
            raise ArgumentError(f"activations: there is no '{name:.40}'; there are {', '.join(ACTIVATIONS)}")
        activation = ACTIVATIONS[known[name.lower()]]
        equation = activation.equation
        for kind in activation.takes.split():
            default = activation.alpha if kind == "alpha" else activation.beta
            if not left[kind] and default is None:
                raise ArgumentError(f"activation_{kind}: expected a value for {known[name.lower()]}, which has no default")
            value = left[kind].pop(0) if left[kind] else default
            assert value is not None
            equation = equation.replace("{" + kind + "}", _number(f"activation_{kind}", value))
        found.append(known[name.lower()])
        equations.append(equation)
    for kind, spare in left.items():
        if spare:
            raise ArgumentError(f"activation_{kind}: expected one value for each activation that takes one, got {len(spare)} more")
    return [(tuple(found[d * count:(d + 1) * count]), tuple(equations[d * count:(d + 1) * count])) for d in range(directions)]
