#!/usr/bin/env python3
"""Makes the test data of the cells of templates/cells: networks of each cell, as safetensors files in the folder shelf beside this script.

Writes each cell's equations in PyTorch, as its paper has them, and differentiates networks of two layers by PyTorch, in float64 on the CPU.
The files have the tensors' names of cellgrad's ops rnn and rnn_backprop, with the parameters in one buffer.  With --check the script only
checks existing files, and needs no PyTorch.
"""
import argparse
import pathlib
import sys

import numpy as np

sys.dont_write_bytecode = True          # no __pycache__ is written, since this folder goes whole into the tarball
from tensor_files import read_file, require, write_file

SEED = 20240229
T, B, I, U, L = 4, 3, 5, 4, 2
LENGTHS = [4, 2, 3]
ARRAYS = {"h": "input_h output_h", "c": "input_c output_c", "s2": "input_s2 output_s2", "s3": "input_s3 output_s3"}


class Gate:
    """A gate: which of W, R and biases it has, and, in a step, its parts x W + bW and h R + bR."""

    def __init__(self, name, of_x=True, of_h=True, bias=True):
        self.name, self.of_x, self.of_h, self.bias = name, of_x, of_h, bias


def both(*names):
    return [Gate(name) for name in names]


def of_x(*names, bias=True):
    return [Gate(name, of_h=False, bias=bias) for name in names]


# Each function computes a step.  x and r: for a gate, x W + bW, and r(name, h): h R + bR; v: the per-unit weights; state: h, then the
# cell states.  The result is the same list after the step.

def cifg(torch, x, r, v, state):
    h, c = state
    i, g, o = torch.sigmoid(x("i") + r("i", h)), torch.tanh(x("g") + r("g", h)), torch.sigmoid(x("o") + r("o", h))
    f = 1 - i
    c = f * c + i * g
    return [o * torch.tanh(c), c]


def mgu(torch, x, r, v, state):
    h, = state
    f = torch.sigmoid(x("f") + r("f", h))
    candidate = torch.tanh(x("n") + r("n", f * h))
    return [(1 - f) * h + f * candidate]


def janet(torch, x, r, v, state):
    h, = state
    s = x("f") + r("f", h)
    return [torch.sigmoid(s) * h + (1 - torch.sigmoid(s - 1.0)) * torch.tanh(x("n") + r("n", h))]


def indrnn(torch, x, r, v, state):
    return [torch.relu(x("a") + v["u"] * state[0])]


def sru(torch, x, r, v, state):
    _, c = state
    f, reset = torch.sigmoid(x("f") + v["v_f"] * c), torch.sigmoid(x("r") + v["v_r"] * c)
    c = f * c + (1 - f) * x("n")
    return [reset * c + (1 - reset) * x("s"), c]


def mingru(torch, x, r, v, state):
    z = torch.sigmoid(x("z"))
    return [(1 - z) * state[0] + z * x("n")]


def minlstm(torch, x, r, v, state):
    f, i = torch.sigmoid(x("f")), torch.sigmoid(x("i"))
    return [f / (f + i) * state[0] + i / (f + i) * x("n")]


def slstm(torch, x, r, v, state):
    h, c, n, m = state
    log_i, log_f = x("i") + r("i", h), x("f") + r("f", h)
    stabiliser = torch.maximum(log_f + m, log_i)
    i, f = torch.exp(log_i - stabiliser), torch.exp(log_f + m - stabiliser)
    c, n = f * c + i * torch.tanh(x("z") + r("z", h)), f * n + i
    return [torch.sigmoid(x("o") + r("o", h)) * c / n, c, n, stabiliser]


def leaky_integrator(torch, x, r, v, state):
    h, = state
    k = torch.sigmoid(v["t"])
    return [(1 - k) * h + k * torch.tanh(x("a") + r("a", h))]


def normalised(torch, v, side, gates):
    """Normalises the given products of all gates together, and scales each gate's part by its gain."""
    joint = torch.nn.functional.layer_norm(torch.cat([product for _, product in gates], -1), (len(gates) * U,))
    return {name: part * v[f"g_{side}{name}"] for (name, _), part in zip(gates, joint.chunk(len(gates), -1))}


def ln_lstm(torch, x, r, v, state):
    h, c = state
    of_x = normalised(torch, v, "x", [(name, x(f"x_{name}")) for name in "ifgo"])
    of_h = normalised(torch, v, "h", [(name, r(f"q_{name}", h)) for name in "ifgo"])
    i, f, g, o = (of_x[name] + of_h[name] + v[f"b_{name}"] for name in "ifgo")
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return [torch.sigmoid(o) * torch.tanh(torch.nn.functional.layer_norm(c, (U,), v["g_c"], v["b_c"])), c]


def ln_gru(torch, x, r, v, state):
    h, = state
    of_x = normalised(torch, v, "x", [(name, x(f"x_{name}")) for name in "zrn"])
    of_h = normalised(torch, v, "h", [(name, r(f"q_{name}", h)) for name in "zrn"])
    z, reset = (torch.sigmoid(of_x[name] + of_h[name] + v[f"b_{name}"]) for name in "zr")
    n = torch.tanh(of_x["n"] + v["b_xn"] + reset * (of_h["n"] + v["b_hn"]))
    return [z * h + (1 - z) * n]


def ligru(torch, x, r, v, state):
    h, = state
    of_x = normalised(torch, v, "", [(name, x(f"x_{name}")) for name in "zn"])
    z = torch.sigmoid(of_x["z"] + v["b_z"] + r("q_z", h))
    return [z * h + (1 - z) * torch.relu(of_x["n"] + v["b_n"] + r("q_n", h))]


def sides(names):
    """Gates that have only x W, then those that have only h R, all without a bias."""
    return [Gate(f"x_{name}", of_h=False, bias=False) for name in names] + [Gate(f"q_{name}", of_x=False, bias=False) for name in names]


# The gates in the order of the cell's text, the per-unit weights, and the names of the states.
CELLS = {
    "cifg": (cifg, both("i", "g", "o"), [], "h c"),
    "indrnn": (indrnn, of_x("a"), ["u"], "h"),
    "janet": (janet, both("f", "n"), [], "h"),
    "leaky_integrator": (leaky_integrator, both("a"), ["t"], "h"),
    "ligru": (ligru, sides("zn"), ["g_z", "g_n", "b_z", "b_n"], "h"),
    "ln_gru": (ln_gru, sides("zrn"), ["g_xz", "g_xr", "g_xn", "g_hz", "g_hr", "g_hn", "b_z", "b_r", "b_xn", "b_hn"], "h"),
    "ln_lstm": (ln_lstm, sides("ifgo"), [*(f"g_{side}{name}" for side in "xh" for name in "ifgo"), "b_i", "b_f", "b_g", "b_o", "g_c",
                                         "b_c"], "h c"),
    "mgu": (mgu, both("f", "n"), [], "h"),
    "mingru": (mingru, of_x("z", "n"), [], "h"),
    "minlstm": (minlstm, of_x("f", "i", "n"), [], "h"),
    "slstm": (slstm, both("z", "i", "f", "o"), [], "h c s2 s3"),
    "sru": (sru, of_x("f", "r") + of_x("n", "s", bias=False), ["v_f", "v_r"], "h c"),
}


def pieces_of(gates, vectors):
    """Returns the shapes of the parts of params, in their order, by (part, layer, name)."""
    pieces = {}
    for layer in range(L):
        pieces.update((("W", layer, gate.name), (U, U if layer else I)) for gate in gates if gate.of_x)
        pieces.update((("R", layer, gate.name), (U, U)) for gate in gates if gate.of_h)
    for layer in range(L):
        pieces.update((("bW", layer, gate.name), (U,)) for gate in gates if gate.of_x and gate.bias)
        pieces.update((("bR", layer, gate.name), (U,)) for gate in gates if gate.of_h and gate.bias)
    for layer in range(L):
        pieces.update((("v", layer, name), (U,)) for name in vectors)
    return pieces


def inputs_of(cell):
    """Makes the inputs of a cell's network: standard normal numbers, for params half as large; the normaliser n of slstm is above 1."""
    _, gates, vectors, states = CELLS[cell]
    shapes = {"input": (T, B, I), "output_backprop": (T, B, U),
              "params": (sum(int(np.prod(shape)) for shape in pieces_of(gates, vectors).values()),)}
    for state in states.split():
        before, after = ARRAYS[state].split()
        shapes[before] = shapes[f"{after}_backprop"] = (L, B, U)
    # The numbers are those of RandomState, because numpy promises that its stream never changes.
    draw = np.random.RandomState([SEED, *cell.encode()])
    given = {name: draw.standard_normal(shape) for name, shape in sorted(shapes.items())}
    given["params"] *= 0.5
    if cell == "slstm":
        given["input_s2"] = 1 + np.abs(given["input_s2"])
    return given


def make(folder):
    import torch
    torch.set_num_threads(1)
    for cell, (step, gates, vectors, states) in CELLS.items():
        given = inputs_of(cell)
        pieces = pieces_of(gates, vectors)
        held = {name: torch.tensor(value, requires_grad=True) for name, value in given.items() if not name.endswith("_backprop")}
        ends = np.cumsum([int(np.prod(shape)) for shape in pieces.values()])
        parts = {key: part.reshape(shape) for (key, shape), part in
                 zip(pieces.items(), held["params"].split(np.diff([0, *ends]).tolist()))}
        before = [held[ARRAYS[state].split()[0]] for state in states.split()]
        sequence, last = held["input"], [[] for _ in before]
        for layer in range(L):
            state, outputs, finals = [one[layer] for one in before], [], [None] * B
            for t in range(T):
                def x(name):
                    product = sequence[t] @ parts["W", layer, name].T
                    return product + parts["bW", layer, name] if ("bW", layer, name) in parts else product

                def r(name, h):
                    product = h @ parts["R", layer, name].T
                    return product + parts["bR", layer, name] if ("bR", layer, name) in parts else product

                state = step(torch, x, r, {name: parts["v", layer, name] for name in vectors}, state)
                is_valid = torch.tensor([t < length for length in LENGTHS])[:, None]
                outputs.append(torch.where(is_valid, state[0], 0.0))
                for b in range(B):
                    if t == LENGTHS[b] - 1:
                        finals[b] = [one[b] for one in state]
            sequence = torch.stack(outputs)
            for k in range(len(before)):
                last[k].append(torch.stack([final[k] for final in finals]))
        results = {"output": sequence}
        results.update((ARRAYS[state].split()[1], torch.stack(last[k])) for k, state in enumerate(states.split()))
        torch.autograd.backward(list(results.values()), [torch.from_numpy(given[f"{name}_backprop"]) for name in results])
        tensors = dict(given, sequence_lengths=np.array(LENGTHS, "int32"))
        tensors.update((name, tensor.detach().numpy()) for name, tensor in results.items())
        # A state that no equation reads has the gradient 0.
        tensors.update((f"{name}_backprop", np.zeros(tensor.shape) if tensor.grad is None else tensor.grad.numpy())
                       for name, tensor in held.items())
        write_file(folder / f"{cell}.safetensors", tensors, {
            "op": "rnn", "made_by": f"torch {torch.__version__.split('+')[0]}", "cell": cell, "num_layers": str(L)})


def check(folder):
    """Checks that the files hold the drawn inputs, and finite results that are zero beyond each length."""
    require({path.name for path in folder.glob("*.safetensors")} == {f"{cell}.safetensors" for cell in CELLS},
            f"{folder}: expected one file for each cell")
    for cell in CELLS:
        tensors, _ = read_file(folder / f"{cell}.safetensors")
        for name, value in inputs_of(cell).items():
            require(np.array_equal(tensors[name], value), f"{cell}: {name} is not the drawn input")
        for name, value in tensors.items():
            require(np.isfinite(value).all(), f"{cell}: {name} is not finite")
        padded = np.arange(T)[:, None] >= np.array(LENGTHS)
        for name in ("output", "input_backprop"):
            require((tensors[name][padded] == 0).all(), f"{cell}: {name} is not zero beyond a length")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="only check the files")
    options = parser.parse_args()
    where = pathlib.Path(__file__).parent / "shelf"
    if not options.check:
        make(where)
    check(where)
    print(f"{len(CELLS)} cells, seed {SEED}")
