# SPDX-License-Identifier: Apache-2.0
"""For the tests of cellgrad.onnx: ONNX's equations, written plainly in NumPy, and ONNX nodes with random inputs; among the nodes every
attribute occurs."""
import itertools

import numpy as np
from onnx import TensorProto, helper

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}
ACTIVATIONS = {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "GRU": ["Sigmoid", "Tanh"], "RNN": ["Tanh"]}
FUNCTIONS = {
    "Affine": lambda x, a, b: a * x + b,
    "Elu": lambda x, a, b: np.where(x >= 0, x, a * np.expm1(np.minimum(x, 0))),
    "HardSigmoid": lambda x, a, b: np.clip(a * x + b, 0, 1),
    "LeakyRelu": lambda x, a, b: np.where(x >= 0, x, a * x),
    "Relu": lambda x, a, b: np.maximum(x, 0),
    "ScaledTanh": lambda x, a, b: a * np.tanh(b * x),
    "Sigmoid": lambda x, a, b: 1 / (1 + np.exp(-x)),
    "Softplus": lambda x, a, b: np.logaddexp(x, 0),
    "Softsign": lambda x, a, b: x / (1 + np.abs(x)),
    "Tanh": lambda x, a, b: np.tanh(x),
    "ThresholdedRelu": lambda x, a, b: np.where(x >= a, x, 0),
}
TAKES_ALPHA = ("Affine", "Elu", "HardSigmoid", "LeakyRelu", "ScaledTanh", "ThresholdedRelu")
TAKES_BETA = ("Affine", "HardSigmoid", "ScaledTanh")
ALPHA = {"Elu": 1, "HardSigmoid": 0.2, "LeakyRelu": 0.01, "ThresholdedRelu": 1}


def functions(operator, directions, attributes):
    """Returns, for each direction, a list that begins with the direction's activations, as functions of one argument."""
    alphas, betas = list(attributes.get("activation_alpha", [])), list(attributes.get("activation_beta", []))
    found = []
    for name in attributes.get("activations", ACTIVATIONS[operator] * directions):
        alpha = (alphas.pop(0) if alphas else ALPHA.get(name)) if name in TAKES_ALPHA else None
        beta = (betas.pop(0) if betas else 0.5) if name in TAKES_BETA else None
        found.append(lambda x, f=FUNCTIONS[name], alpha=alpha, beta=beta: f(x, alpha, beta))
    return [found[d * len(ACTIVATIONS[operator]):] for d in range(directions)]


def step(operator, attributes, act, feeds, d, x, h, c):
    """Returns h and c after a step of one sequence, by the equations of ONNX's documents; c is None except for an LSTM."""
    U = len(h)
    W, R = feeds["W"][d], feeds["R"][d]
    bias = feeds["B"][d] if "B" in feeds else np.zeros(2 * len(W))
    wb, rb, p = bias[:len(W)], bias[len(W):], feeds["P"][d] if "P" in feeds else np.zeros(3 * U)
    limit = attributes.get("clip", np.inf)

    def part(k, of=h):
        own = slice(k * U, (k + 1) * U)
        return W[own] @ x + wb[own], R[own] @ of + rb[own]

    def bounded(*terms):
        return np.clip(sum(terms), -limit, limit)

    if operator == "RNN":
        return act[0](bounded(*part(0))), None
    if operator == "GRU":
        z, r = act[0](bounded(*part(0))), act[0](bounded(*part(1)))
        if attributes.get("linear_before_reset"):
            of_x, of_h = part(2)
            n = act[1](bounded(of_x, r * of_h))
        else:
            n = act[1](bounded(*part(2, r * h)))
        return (1 - z) * n + z * h, None
    i = act[0](bounded(*part(0), p[:U] * c))
    f = 1 - i if attributes.get("input_forget") else act[0](bounded(*part(2), p[2 * U:] * c))
    c = f * c + i * act[1](bounded(*part(3)))
    return act[0](bounded(*part(1), p[U:2 * U] * c)) * act[2](c), c


def expected(operator, feeds, attributes):
    """Computes the right outputs of a node in float64: Y, Y_h and, for an LSTM, Y_c."""
    layout, direction = attributes.get("layout", 0), attributes.get("direction", "forward")
    feeds = {name: value if name == "sequence_lens" else np.asarray(value, np.float64) for name, value in feeds.items()}
    X = feeds["X"].swapaxes(0, 1) if layout else feeds["X"]
    (T, B, _), (D, _, U) = X.shape, feeds["R"].shape
    states = [feeds.get(name, np.zeros((B, D, U) if layout else (D, B, U))) for name in ("initial_h", "initial_c")]
    h, c = [(state.swapaxes(0, 1) if layout else state).copy() for state in states]
    Y = np.zeros((T, D, B, U))
    for d, act in enumerate(functions(operator, D, attributes)):
        for b in range(B):
            n = int(feeds["sequence_lens"][b]) if "sequence_lens" in feeds else T
            for t in range(n)[::-1 if direction == "reverse" or d else 1]:
                h[d, b], cell = step(operator, attributes, act, feeds, d, X[t, b], h[d, b], c[d, b])
                c[d, b] = 0 if cell is None else cell
                Y[t, d, b] = h[d, b]
    outputs = [Y, h, c][:3 if operator == "LSTM" else 2]
    if layout:
        outputs = [Y.transpose(2, 0, 1, 3), *(state.swapaxes(0, 1) for state in outputs[1:])]
    return outputs


def feeds_of(rng, operator, attributes, dtype, T=4, B=3, width=3, U=2, optional=True, peephole=False, lengths=None):
    """Returns random inputs of a node, by name; sequence_lens has the given `lengths`."""
    G, D = GATES[operator], 2 if attributes.get("direction") == "bidirectional" else 1
    shapes = {"X": (T, B, width), "W": (D, G * U, width), "R": (D, G * U, U)}
    if optional:
        shapes.update(B=(D, 2 * G * U), initial_h=(D, B, U))
        if operator == "LSTM":
            shapes.update(initial_c=(D, B, U))
    if peephole:
        shapes.update(P=(D, 3 * U))
    if attributes.get("layout"):
        for name in ("X", "initial_h", "initial_c"):
            if name in shapes:
                shapes[name] = (shapes[name][1], shapes[name][0], shapes[name][2])
    feeds = {name: (0.7 * rng.standard_normal(shape)).astype(dtype) for name, shape in shapes.items()}
    if lengths is not None:
        feeds["sequence_lens"] = np.array(lengths, np.int32)
    return feeds


def node_of(operator, feeds, attributes, outputs=None, name="cell"):
    """Makes a node with the inputs that `feeds` has; the name of an absent input is empty, or left out at the end."""
    order = ["X", "W", "R", "B", "sequence_lens", "initial_h", "initial_c", "P"][:8 if operator == "LSTM" else 6]
    inputs = [name if name in feeds else "" for name in order]
    while not inputs[-1]:
        inputs.pop()
    outputs = outputs or ["Y", "Y_h", "Y_c"][:3 if operator == "LSTM" else 2]
    return helper.make_node(operator, inputs, outputs, name=name, hidden_size=feeds["R"].shape[-1], **attributes)


def model_of(nodes, feeds, outputs, opset=14):
    """Makes an ONNX model of nodes. The model's inputs are the feeds; its outputs are float32, Y of 4 dimensions, the others of 3."""
    values = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
              for name, value in feeds.items()]
    graph = helper.make_graph(nodes, "graph", values, [
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [None] * (4 if name == "Y" else 3)) for name in outputs])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)])
    # Models have IR version 8, that of ONNX 1.10, since an ONNX Runtime older than the installed ONNX rejects the newest IR version.
    model.ir_version = 8
    return model


def cases(dtype, layouts=(0, 1)):
    """Yields (operator, inputs, attributes) of nodes: each operator with each activation, direction and layout; some nodes have clip,
    linear_before_reset, input_forget or optional inputs."""
    rng = np.random.default_rng(11)
    names = sorted(FUNCTIONS)
    drawn = [None, *names]
    every = itertools.product(GATES, drawn, ("forward", "reverse", "bidirectional"), layouts)
    for k, (operator, first, direction, layout) in enumerate(every):
        attributes = {"direction": direction, "layout": layout} if layout else {"direction": direction}
        D, count = 2 if direction == "bidirectional" else 1, len(ACTIVATIONS[operator])
        if first:
            # In each node at most one activation is an unbounded function, so that the states do not grow without bound.
            rest = [("Sigmoid", "HardSigmoid", "Softsign", "Tanh")[rng.integers(4)] for _ in range(D * count - 1)]
            attributes["activations"] = rest[:k % (D * count)] + [first] + rest[k % (D * count):]
            for kind, takes, low, high in (("alpha", TAKES_ALPHA, 0.1, 0.6), ("beta", TAKES_BETA, 0.2, 0.7)):
                values = [float(np.float32(rng.uniform(low, high))) for name in attributes["activations"] if name in takes]
                if values:
                    attributes["activation_" + kind] = values
        if k % 3 == 1:
            attributes["clip"] = 0.5
        if operator == "GRU" and k % 2:
            attributes["linear_before_reset"] = 1
        if operator == "LSTM" and k % 4 == 2:
            attributes["input_forget"] = 1
        feeds = feeds_of(rng, operator, attributes, dtype, optional=k % 5 != 0, peephole=operator == "LSTM" and k % 2 == 0,
                         lengths=[4, 1, 3] if k % 7 < 5 else None)
        yield operator, feeds, attributes
