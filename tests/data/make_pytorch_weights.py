#!/usr/bin/env python3
"""Makes the test data of PyTorch's weights: weights of networks under the names of a state_dict, with PyTorch's own answers.

Runs torch.nn.LSTM, GRU and RNN and PyTorch's own differentiation of them, in float64 on the CPU; and steps of
torch.optim.SGD, in float64 and float32.  Then compares every file with PyTorch's documented equations, which are written again
in NumPy.  With --check the script only compares existing files, and needs no PyTorch.  README.md says what each file and case
is for.
"""
import sys

import numpy as np

sys.dont_write_bytecode = True          # no __pycache__ is written, since this folder goes whole into the tarball
from network_files import (STATES, check_folder, check_given, check_run, check_tensors, drawn, load, main, path_of, run_shapes,
                           save, sigmoid, walk, wide)
from tensor_files import read_file, require, write_file

GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}
PARTS = ("weights", "gradients", "run")
RATE = 0.125

CASES = [
    # mode       name      T  B  I  U  P  L  D  lengths         what else
    ("lstm",     "plain",  4, 3, 2, 5, 0, 1, 1, None,           ""),
    ("lstm",     "deep",   5, 4, 3, 4, 0, 2, 2, [3, 5, 1, 4],   ""),
    ("lstm",     "part",   3, 2, 4, 3, 0, 2, 1, None,           "encoder.rnn."),
    ("lstm",     "nobias", 4, 2, 3, 2, 0, 1, 2, None,           "nobias"),
    ("lstm",     "proj",   4, 3, 2, 5, 3, 2, 2, [4, 1, 3],      ""),
    ("gru",      "plain",  4, 3, 2, 5, 0, 1, 1, None,           ""),
    ("gru",      "deep",   5, 4, 3, 4, 0, 2, 2, [3, 5, 1, 4],   ""),
    ("rnn_tanh", "deep",   4, 3, 2, 5, 0, 2, 2, [2, 4, 3],      ""),
    ("rnn_relu", "plain",  4, 3, 3, 5, 0, 2, 1, None,           ""),
]
# Each of these cases is one training step.
STEPS = [
    # mode   name                  dtype      T  B  I  U  P  L  D
    ("lstm", "lstm",               "float64", 4, 3, 2, 5, 0, 1, 1),
    ("gru",  "gru",                "float64", 4, 2, 3, 4, 0, 2, 1),
    ("lstm", "lstm-bidirectional", "float32", 5, 3, 3, 4, 0, 2, 2),
    ("lstm", "lstm-proj",          "float64", 3, 2, 2, 5, 3, 2, 1),
]


def prefix_of(what):
    return what if what.endswith(".") else ""


def weight_shapes(mode, I, U, P, L, D, what):
    """The shapes of the weights by the names of a state_dict; for a module that is part of a model, those of the model's other module,
    too."""
    G, H, prefix = GATES[mode], P or U, prefix_of(what)
    shapes = {}
    for layer in range(L):
        for d in range(D):
            end = f"_l{layer}{'_reverse' * d}"
            shapes[f"{prefix}weight_ih{end}"] = (G * U, D * H if layer else I)
            shapes[f"{prefix}weight_hh{end}"] = (G * U, H)
            if P:
                shapes[f"{prefix}weight_hr{end}"] = (P, U)
            if what != "nobias":
                shapes[f"{prefix}bias_ih{end}"] = shapes[f"{prefix}bias_hh{end}"] = (G * U,)
    if prefix:
        shapes.update({"head.weight": (2, U), "head.bias": (2,)})
    return shapes


def step_path(folder, case):
    return folder / f"step-{case}.safetensors"


def run_metadata(mode, P, D):
    return dict(rnn_mode=mode, direction="bidirectional" if D == 2 else "unidirectional", num_proj=str(P))


# ---- PyTorch's answers ----

def model_of(torch, mode, I, U, P, L, D, what, dtype):
    options = dict(num_layers=L, bidirectional=D == 2, bias=what != "nobias", dtype=dtype)
    if mode == "lstm":
        return torch.nn.LSTM(I, U, proj_size=P, **options)
    if mode == "gru":
        return torch.nn.GRU(I, U, **options)
    return torch.nn.RNN(I, U, nonlinearity=mode.removeprefix("rnn_"), **options)


def whole_of(torch, rnn, what):
    """Returns the recurrent module itself, or a model of two modules, of which it is one."""
    if not prefix_of(what):
        return rnn
    outer, encoder = torch.nn.Module(), torch.nn.Module()
    encoder.rnn = rnn
    outer.encoder, outer.head = encoder, torch.nn.Linear(rnn.hidden_size, 2, dtype=torch.float64)
    return outer


def fill(torch, model, weights):
    require({name: tuple(p.shape) for name, p in model.state_dict().items()} ==
            {name: tensor.shape for name, tensor in weights.items()}, f"PyTorch has {' '.join(model.state_dict())}")
    model.load_state_dict({name: torch.from_numpy(tensor) for name, tensor in weights.items()})


def run_model(torch, rnn, mode, given, lengths):
    """Runs a module; returns the answers by name, and the input tensors, which hold the gradients after the backward pass."""
    held = {name: torch.tensor(given[name], requires_grad=True) for name in ("input", *STATES) if name in given}
    states = (held["input_h"], held["input_c"]) if mode == "lstm" else held["input_h"]
    if lengths is None:
        output, states = rnn(held["input"], states)
    else:
        packed = torch.nn.utils.rnn.pack_padded_sequence(held["input"], lengths, enforce_sorted=False)
        output, states = rnn(packed, states)
        output, _ = torch.nn.utils.rnn.pad_packed_sequence(output, total_length=len(given["input"]))
    results = dict(output=output, output_h=states[0] if mode == "lstm" else states)
    if mode == "lstm":
        results["output_c"] = states[1]
    return results, held


def make_case(torch, folder, mode, case, T, B, I, U, P, L, D, lengths, what, made_by):
    name = f"pytorch-{mode}-{case}"
    weights = drawn(f"{name}-weights", weight_shapes(mode, I, U, P, L, D, what), 0.5)
    given = drawn(name, run_shapes(T, B, I, P or U, U, L, D, mode == "lstm"), 1)
    rnn = model_of(torch, mode, I, U, P, L, D, what, torch.float64)
    model = whole_of(torch, rnn, what)
    fill(torch, model, weights)
    results, held = run_model(torch, rnn, mode, given, lengths)
    torch.autograd.backward(list(results.values()), [torch.from_numpy(given[f"{result}_backprop"]) for result in results])
    run = dict(given, sequence_lengths=np.array(lengths or [T] * B, "int32"))
    run.update((result, tensor.detach().numpy()) for result, tensor in results.items())
    run.update((f"{argument}_backprop", tensor.grad.numpy()) for argument, tensor in held.items())
    gradients = {key: p.grad.numpy() if p.grad is not None else np.zeros(p.shape) for key, p in model.named_parameters()}
    # The names and shapes of the weights of nn.RNN do not show its activation, so the metadata has it.
    said = dict(rnn_mode=mode, made_by=made_by) if mode.startswith("rnn_") else dict(made_by=made_by)
    save(folder, name, dict(weights=weights, gradients=gradients, run=run), said,
         run_metadata(mode, P, D) | dict(made_by=made_by))


def make_step(torch, folder, mode, case, dtype, T, B, I, U, P, L, D, made_by):
    """Makes one step of gradient descent, for the loss whose gradient of the output is output_backprop; the initial states are zeros."""
    weights = drawn(f"step-{case}-weights", weight_shapes(mode, I, U, P, L, D, ""), 0.5, dtype)
    given = drawn(f"step-{case}", {name: shape for name, shape in run_shapes(T, B, I, P or U, U, L, D, True).items()
                                   if name in ("input", "output_backprop")}, 1, dtype)
    rnn = model_of(torch, mode, I, U, P, L, D, "", getattr(torch, dtype))
    fill(torch, rnn, weights)
    descent = torch.optim.SGD(rnn.parameters(), lr=RATE)
    output, _ = rnn(torch.from_numpy(given["input"]))
    (output * torch.from_numpy(given["output_backprop"])).sum().backward()
    descent.step()
    tensors = given | {f"before.{name}": tensor for name, tensor in weights.items()}
    tensors |= {f"after.{name}": tensor.numpy() for name, tensor in rnn.state_dict().items()}
    write_file(step_path(folder, case), tensors, dict(rnn_mode=mode, lr=str(RATE), made_by=made_by))


def make(folder):
    import torch
    torch.set_num_threads(1)
    torch.backends.mkldnn.enabled = False
    made_by = f"torch {torch.__version__.split('+')[0]}"
    for row in CASES:
        make_case(torch, folder, *row, made_by)
    for row in STEPS:
        make_step(torch, folder.parent, *row, made_by)


# ---- PyTorch's equations in NumPy ----

def cell_of(mode, w, prefix, end):
    """Returns a function that computes one step of a layer and direction, as the documentation of torch.nn.LSTM, GRU and RNN defines it."""
    zero = np.zeros(len(w[f"{prefix}weight_ih{end}"]))
    bias_i, bias_h = (w.get(f"{prefix}bias_{which}{end}", zero) for which in ("ih", "hh"))

    def products(x, h, gates):
        return (np.split(x @ w[f"{prefix}weight_ih{end}"].T + bias_i, gates, axis=1),
                np.split(h @ w[f"{prefix}weight_hh{end}"].T + bias_h, gates, axis=1))

    def lstm(x, h, c):
        i, f, g, o = (a + q for a, q in zip(*products(x, h, 4)))
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        h = sigmoid(o) * np.tanh(c)
        projection = w.get(f"{prefix}weight_hr{end}")
        return h if projection is None else h @ projection.T, c

    def gru(x, h, _):
        (a_r, a_z, a_n), (q_r, q_z, q_n) = products(x, h, 3)
        z = sigmoid(a_z + q_z)
        return (1 - z) * np.tanh(a_n + sigmoid(a_r + q_r) * q_n) + z * h, None

    def rnn(x, h, _):
        (a,), (q,) = products(x, h, 1)
        return (np.tanh if mode == "rnn_tanh" else lambda sum: np.maximum(sum, 0))(a + q), None

    return dict(lstm=lstm, gru=gru).get(mode, rnn)


def check_case(folder, mode, case, T, B, I, U, P, L, D, lengths, what):
    name = f"pytorch-{mode}-{case}"
    weights, gradients, run = load(folder, name, PARTS, run_metadata(mode, P, D))
    shapes = weight_shapes(mode, I, U, P, L, D, what)
    require({key: tensor.shape for key, tensor in weights.items()} == shapes, f"{name}: weights of another case")
    require(run["input"].shape == (T, B, I) and list(run["sequence_lengths"]) == (lengths or [T] * B),
            f"{name}: a run of another case")

    def steps_of(w):
        return [cell_of(mode, w, prefix_of(what), f"_l{layer}{'_reverse' * d}") for layer in range(L) for d in range(D)]

    check_run(name, steps_of, D, weights, gradients, run)
    check_given(name, weights, run)
    if mode == "rnn_relu":
        share = (run["output"] > 0).mean()
        require(0.05 < share < 0.95, f"{name}: {share:.2f} of the outputs are above zero")
    return [path_of(folder, name, part) for part in PARTS]


def check_step(folder, mode, case, dtype, T, B, I, U, P, L, D):
    """Checks that a training step was down the slope of the loss, which is computed by differences."""
    path = step_path(folder, case)
    tensors, attributes = read_file(path)
    shapes = {f"{when}.{name}": shape for when in ("before", "after")
              for name, shape in weight_shapes(mode, I, U, P, L, D, "").items()}
    shapes.update(input=(T, B, I), output_backprop=(T, B, D * (P or U)))
    require({name: tensor.shape for name, tensor in tensors.items()} == shapes, f"{path.name}: tensors of another case")
    require(attributes["rnn_mode"] == mode and float(attributes["lr"]) == RATE, f"{path.name}: metadata of another case")
    check_tensors(path.name, tensors, dtype, tensors)
    tensors = wide(tensors)
    before, after = ({name: tensors[f"{when}.{name}"] for name in weight_shapes(mode, I, U, P, L, D, "")}
                     for when in ("before", "after"))

    def loss(weights):
        steps = [cell_of(mode, weights, "", f"_l{layer}{'_reverse' * d}") for layer in range(L) for d in range(D)]
        h, c = (np.zeros((L * D, B, width)) for width in (P or U, U))
        return (walk(steps, D, tensors["input"], h, c, np.full(B, T))["output"] * tensors["output_backprop"]).sum()

    for name, tensor in before.items():
        step = after[name] - tensor
        fall = (loss(before | {name: tensor - 1e-4 * step}) - loss(before | {name: tensor + 1e-4 * step})) / 2e-4
        require(abs(fall - (step * step).sum() / RATE) < 1e-5 * fall, f"{path.name}: the step of {name} is not down the slope")
    return path


def check(folder):
    paths = [path for row in CASES for path in check_case(folder, *row)]
    check_folder(folder, ["pytorch-*.safetensors"], paths)
    check_folder(folder.parent, ["step-*.safetensors"], [check_step(folder.parent, *row) for row in STEPS])


if __name__ == "__main__":
    main("PyTorch", make, check)
