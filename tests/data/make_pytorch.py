#!/usr/bin/env python3
"""Makes the test data of whole sequences: PyTorch's own answers, as safetensors files beside this script.

Runs torch.nn.LSTM, GRU and RNN and PyTorch's own differentiation of them, in float64 on the CPU, and writes inputs
and answers under the argument names of TensorFlow's CudnnRNNV3, with the parameters in one buffer.  Then it checks
that each file has the numbers that its case is for.  With --check the script only checks existing files, and needs no
PyTorch.  README.md says what each case is for.
"""
import argparse
import pathlib
import sys

import numpy as np

sys.dont_write_bytecode = True          # no __pycache__ is written, since this folder goes whole into the tarball
from tensor_files import read_file, require, write_file

SEED = 20240229
OP = "CudnnRNNV3"
GATES = {"lstm": 4, "gru": 3, "rnn_tanh": 1, "rnn_relu": 1}

CASES = [
    # name          T  B  I  U  P  L  D  lengths                what else
    ("vector",      2, 2, 2, 2, 0, 1, 1, [2, 1],                "fill"),
    ("plain",       4, 3, 2, 5, 0, 1, 1, None,                  ""),
    ("one",         1, 1, 1, 1, 0, 1, 1, None,                  ""),
    ("deep",        5, 3, 3, 4, 0, 2, 1, None,                  ""),
    ("ragged",      5, 4, 2, 3, 0, 2, 2, [3, 5, 1, 4],          ""),
    ("short",       5, 3, 2, 3, 0, 1, 2, [2, 3, 1],             ""),
    ("skip",        4, 3, 3, 3, 0, 2, 2, [2, 4, 3],             "skip"),
]
GATED_CASES = [
    ("batch-major", 4, 3, 2, 3, 0, 2, 2, [4, 1, 3],             "batch_major"),
    ("wide",        3, 7, 5, 9, 0, 1, 1, None,                  ""),
]
LSTM_CASES = [
    ("proj",        4, 3, 2, 5, 3, 1, 1, None,                  ""),
    ("proj-one",    3, 2, 3, 3, 1, 1, 1, [2, 3],                ""),
    ("proj-ragged", 5, 4, 3, 4, 2, 2, 2, [3, 5, 1, 4],          ""),
]
FILES = ([(mode, row) for mode in GATES for row in CASES] + [(mode, row) for mode in ("lstm", "gru") for row in GATED_CASES]
         + [("lstm", row) for row in LSTM_CASES])
# The tag of each argument: the fill rule computes an element of an argument from the element's index and this tag.
TAGS = dict(input=1, input_h=3, input_c=2, params=4, output_backprop=8, output_h_backprop=9, output_c_backprop=10)

STATES = "input_h input_c output_h output_c".split()
SEQUENCES = "input output".split()


def path_of(folder, mode, case):
    return folder / f"{OP}-{mode}-{case}.safetensors"


def shapes_of(mode, T, B, I, U, P, L, D, skip):
    """Returns the inputs' shapes, and the shapes of the parts of the parameters, by PyTorch's names, in the order of the one buffer."""
    G, H = GATES[mode], P or U
    shapes = dict(input=(T, B, I), input_h=(L * D, B, H), output_backprop=(T, B, D * H), output_h_backprop=(L * D, B, H))
    if mode == "lstm":
        shapes.update(input_c=(L * D, B, U), output_c_backprop=(L * D, B, U))
    pieces = {}
    layers = [(f"_l{layer}{'_reverse' * d}", D * H if layer else I) for layer in range(L) for d in range(D)]
    for name, width in layers:
        if not skip or "_l0" not in name:
            pieces["weight_ih" + name] = (G * U, width)
        pieces["weight_hh" + name] = (G * U, H)
        if P:
            pieces["weight_hr" + name] = (P, U)
    for name, width in layers:
        pieces["bias_ih" + name] = pieces["bias_hh" + name] = (G * U,)
    shapes["params"] = (sum(int(np.prod(shape)) for shape in pieces.values()),)
    return shapes, pieces


def inputs_of(mode, case, shapes, fill):
    """Makes a case's inputs: standard normal numbers, for parameters half as large; or numbers by the fill rule of the check vectors."""
    if fill:
        return {name: ((7 * np.arange(np.prod(shape)) + TAGS[name]) % 13 - 6).reshape(shape) / 10
                for name, shape in shapes.items()}
    # The numbers are those of RandomState, because numpy promises that its stream never changes.
    state = np.random.RandomState([SEED, *f"{mode}-{case}".encode()])
    given = {name: state.standard_normal(shape) for name, shape in sorted(shapes.items())}
    given["params"] *= 0.5
    return given


def cut(params, pieces):
    """Cuts the buffer of parameters into its parts, by name."""
    ends = np.cumsum([np.prod(shape) for shape in pieces.values()])
    return {name: part.reshape(shape)
            for (name, shape), part in zip(pieces.items(), np.split(params, ends[:-1]))}


# ---- PyTorch's answers ----

def make(folder):
    import torch
    torch.set_num_threads(1)
    torch.backends.mkldnn.enabled = False
    made_by = f"torch {torch.__version__.split('+')[0]}"

    def model_of(mode, I, U, P, L, D):
        options = dict(num_layers=L, bidirectional=D == 2, dtype=torch.float64)
        if mode == "lstm":
            return torch.nn.LSTM(I, U, proj_size=P, **options)
        if mode == "gru":
            return torch.nn.GRU(I, U, **options)
        return torch.nn.RNN(I, U, nonlinearity=mode.removeprefix("rnn_"), **options)

    for mode, (case, T, B, I, U, P, L, D, lengths, what) in FILES:
        skip = what == "skip"
        shapes, pieces = shapes_of(mode, T, B, I, U, P, L, D, skip)
        given = inputs_of(mode, case, shapes, what == "fill")
        model = model_of(mode, I, U, P, L, D)
        parameters = dict(model.named_parameters())
        values = cut(given["params"], pieces)
        require(skip or set(values) == set(parameters), f"{mode}-{case}: PyTorch has {' '.join(parameters)}")
        with torch.no_grad():
            for name, parameter in parameters.items():
                unit = np.vstack([np.eye(U)] * GATES[mode]) if name not in values else None
                parameter.copy_(torch.from_numpy(values.get(name, unit)))

        held = {name: torch.tensor(given[name], requires_grad=True)
                for name in ("input", "input_h", "input_c") if name in given}
        states = (held["input_h"], held["input_c"]) if mode == "lstm" else held["input_h"]
        if lengths is None:
            output, states = model(held["input"], states)
        else:
            packed = torch.nn.utils.rnn.pack_padded_sequence(held["input"], lengths, enforce_sorted=False)
            output, states = model(packed, states)
            output, _ = torch.nn.utils.rnn.pad_packed_sequence(output, total_length=T)
        results = dict(output=output, output_h=states[0] if mode == "lstm" else states)
        if mode == "lstm":
            results["output_c"] = states[1]
        torch.autograd.backward(list(results.values()),
                                [torch.from_numpy(given[f"{name}_backprop"]) for name in results])

        tensors = dict(given, sequence_lengths=np.array(lengths or [T] * B, "int32"))
        tensors.update((name, tensor.detach().numpy()) for name, tensor in results.items())
        tensors.update((f"{name}_backprop", tensor.grad.numpy()) for name, tensor in held.items())
        tensors["params_backprop"] = np.concatenate([parameters[name].grad.numpy().ravel() for name in pieces])
        if what == "batch_major":
            for name in SEQUENCES + STATES:
                for full in (name, f"{name}_backprop"):
                    if full in tensors:
                        tensors[full] = tensors[full].swapaxes(0, 1)
        attributes = dict(rnn_mode=mode, input_mode="skip_input" if skip else "linear_input",
                          direction="bidirectional" if D == 2 else "unidirectional", num_proj=P,
                          time_major=what != "batch_major")
        write_file(path_of(folder, mode, case), tensors,
                   {"op": OP, "made_by": made_by, **{name: str(value).lower() for name, value in attributes.items()}})


# ---- checks that a file is what its case says ----

# Answers to inputs by the fill rule, from an independent double-precision program; they are right within 1e-6.  `sum` is the
# sum of params_backprop, `wsum` the sum with weights 1, 2, 3 and so on.
VECTORS = {
    "lstm":     dict(sum=0.577220839, wsum=23.841895668),
    "gru":      dict(sum=0.630109666, wsum=17.159960315),
    "rnn_tanh": dict(sum=0.043674362, wsum=-1.496748119),
    "rnn_relu": dict(sum=3.692, wsum=35.66),
}


def check_file(folder, mode, row):
    case, T, B, I, U, P, L, D, lengths, what = row
    path = path_of(folder, mode, case)
    tensors, attributes = read_file(path)
    shapes, _ = shapes_of(mode, T, B, I, U, P, L, D, what == "skip")
    for name in list(shapes):
        other = name.removesuffix("_backprop") if name.endswith("_backprop") else f"{name}_backprop"
        shapes[other] = shapes[name]
    shapes["sequence_lengths"] = (B,)
    require(set(tensors) == set(shapes), f"{path.name}: holds {' '.join(tensors)}")
    require(attributes["op"] == OP and attributes["rnn_mode"] == mode, f"{path.name}: metadata of another case")
    require(list(tensors["sequence_lengths"]) == (lengths or [T] * B), f"{path.name}: lengths of another case")
    for name, shape in shapes.items():
        tensor = tensors[name]
        if what == "batch_major" and len(shape) == 3:
            tensor = tensor.swapaxes(0, 1)
        require(tensor.shape == shape, f"{path.name}: {name}: shape {tensor.shape}, expected {shape}")
        require(np.isfinite(tensor).all(), f"{path.name}: {name} is not finite")
        if name == "sequence_lengths":
            continue
        require(tensor.dtype == np.float64, f"{path.name}: {name} is {tensor.dtype}")
        subnormal = (tensor != 0) & (np.abs(tensor) < np.finfo(np.float64).tiny)
        require(not subnormal.any(), f"{path.name}: {name} holds a subnormal number, which some devices flush")
        padded = np.arange(T)[:, None] >= tensors["sequence_lengths"]
        if name in ("output", "input_backprop"):
            require((tensor[padded] == 0).all(), f"{path.name}: {name} is not zero in the padding")
        elif name in TAGS and what != "fill":
            require(np.all(tensor), f"{path.name}: {name} holds a zero")
    if what == "fill":
        gradient = tensors["params_backprop"]
        sums = dict(sum=gradient.sum(), wsum=(gradient * np.arange(1, gradient.size + 1)).sum())
        for name, number in VECTORS[mode].items():
            require(abs(sums[name] - number) < 1e-6, f"{path.name}: {name} is {sums[name]:.9g}, expected {number}")
    if mode == "rnn_relu" and case != "one":
        share = (tensors["output"] > 0).mean()
        require(0.05 < share < 0.95, f"{path.name}: {share:.2f} of the outputs are above zero")
    return path


def check(folder):
    from safetensors.numpy import load_file
    paths = []
    for mode, row in FILES:
        path = check_file(folder, mode, row)
        theirs, ours = load_file(path), read_file(path)[0]
        same = set(theirs) == set(ours) and all(np.array_equal(theirs[name], ours[name]) for name in ours)
        require(same, f"{path.name}: the safetensors package reads it differently")
        paths.append(path)
    owned = set(folder.glob(f"{OP}-*.safetensors"))
    require(owned == set(paths), f"files of no case: {sorted(path.name for path in owned - set(paths))}")
    print(f"{len(paths)} files, {sum(path.stat().st_size for path in paths)} bytes")


def main():
    parser = argparse.ArgumentParser(description="Make and check the test data of whole sequences.")
    parser.add_argument("--check", action="store_true", help="only check the files that are there")
    parser.add_argument("--dir", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent,
                        help="where the files are (default: beside this script)")
    arguments = parser.parse_args()
    if not arguments.check:
        print(f"seed {SEED}")
        make(arguments.dir)
    check(arguments.dir)


if __name__ == "__main__":
    main()
