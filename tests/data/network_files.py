"""Networks for the scripts in this folder: random numbers, the files of a case, and a check of the files by equations in NumPy.

A case has files for the weights under the framework's own names, for their gradients under the same names, which ONNX lacks, and for a
run, under the argument names of TensorFlow's CudnnRNNV3.
"""
import argparse
import pathlib

import numpy as np

from tensor_files import compare, read_file, require, write_file

SEED = 20240229
FOLDER = pathlib.Path(__file__).resolve().parent / "owners"
STATES = ("input_h", "input_c")
ANSWERS = ("output", "output_h", "output_c")
# TOLERANCE: how far an answer by the equations in NumPy may be from the stored answer, relative to the largest element.
# SLOPE_TOLERANCE: how far a slope by differences may be from the stored gradient.
TOLERANCE = {"float32": 3e-6, "float64": 1e-13}
SLOPE_TOLERANCE = {"float32": 1e-4, "float64": 1e-6}


def drawn(case, shapes, factor, dtype="float64"):
    """Returns standard normal numbers times `factor`, by RandomState, because numpy promises that its stream never changes."""
    state = np.random.RandomState([SEED, *case.encode()])
    return {name: (state.standard_normal(shape) * factor).astype(dtype) for name, shape in sorted(shapes.items())}


def run_shapes(T, B, I, H, U, L, D, cell):
    """Returns the shapes of the inputs of a run.  `cell` says whether the network has a cell state."""
    shapes = dict(input=(T, B, I), input_h=(L * D, B, H), output_backprop=(T, B, D * H), output_h_backprop=(L * D, B, H))
    if cell:
        shapes.update(input_c=(L * D, B, U), output_c_backprop=(L * D, B, U))
    return shapes


def path_of(folder, case, part):
    return folder / f"{case}.{part}.safetensors"


def save(folder, case, parts, said, run_said):
    """Writes the files of a case.  said: the metadata of the weights, which their names and shapes do not show; run_said: the metadata of
    the run."""
    for part, tensors in parts.items():
        write_file(path_of(folder, case, part), tensors, run_said if part == "run" else said)


def load(folder, case, parts, metadata):
    """Reads the tensors of a case's files; the run's metadata must have the values in `metadata`."""
    found = {part: read_file(path_of(folder, case, part)) for part in parts}
    for name, value in metadata.items():
        require(found["run"][1].get(name) == value, f"{case}: metadata of another case: {name} is not {value}")
    return [found[part][0] for part in parts]


# ---- the check by equations in NumPy ----

def sigmoid(z):
    return 0.5 + 0.5 * np.tanh(0.5 * z)


def walk(steps, D, x, h, c, lengths):
    """Computes a network: steps[l * D + d](x, h, c) returns h and c of all rows after one step.  Returns the answers under the names of
    CudnnRNNV3."""
    T, B = x.shape[:2]
    last_h, last_c = [], []
    for layer in range(len(steps) // D):
        columns = []
        for d in range(D):
            k = layer * D + d
            h_now, c_now = h[k], c[k] if c is not None else None
            column = np.zeros((T, B, h_now.shape[1]))
            for t in reversed(range(T)) if d else range(T):
                runs = (t < lengths)[:, None]
                h_new, c_new = steps[k](x[t], h_now, c_now)
                h_now = np.where(runs, h_new, h_now)
                if c is not None:
                    c_now = np.where(runs, c_new, c_now)
                column[t] = np.where(runs, h_new, 0)
            columns.append(column)
            last_h.append(h_now)
            last_c.append(c_now)
        x = np.concatenate(columns, axis=2)
    answers = dict(output=x, output_h=np.array(last_h))
    if c is not None:
        answers["output_c"] = np.array(last_c)
    return answers


def answers_of(steps_of, D, weights, run):
    return walk(steps_of(weights), D, run["input"], run["input_h"], run.get("input_c"), run["sequence_lengths"])


def loss_of(steps_of, D, weights, run):
    return sum((answer * run[f"{name}_backprop"]).sum() for name, answer in answers_of(steps_of, D, weights, run).items())


def check_slopes(case, steps_of, D, weights, gradients, run, tolerance):
    """Compares each gradient, along one random direction, with central differences of the loss by the equations in NumPy."""
    state = np.random.RandomState([SEED, *case.encode(), 1])
    known = dict(gradients, **{name: run[f"{name}_backprop"] for name in ("input", *STATES) if name in run})
    for name, gradient in known.items():
        way = state.standard_normal(gradient.shape)

        def loss(at):
            moved = {name: (weights if name in gradients else run)[name] + at * way}
            return loss_of(steps_of, D, *((dict(weights, **moved), run) if name in gradients else (weights, dict(run, **moved))))

        slope, size = (loss(1e-5) - loss(-1e-5)) / 2e-5, np.linalg.norm(gradient) * np.linalg.norm(way)
        require(abs(slope - (gradient * way).sum()) <= tolerance * size,
                f"{case}: gradient of {name}: {(gradient * way).sum():.9g} along a direction, by differences {slope:.9g}")


def wide(tensors):
    """Converts floating-point tensors to float64; lengths are not changed."""
    return {name: tensor.astype("float64") if tensor.dtype.kind == "f" else tensor for name, tensor in tensors.items()}


def check_tensors(case, tensors, dtype, given):
    """Checks that all numbers have the dtype, are finite and not subnormal, and that no tensor named in `given` has a zero."""
    for name, tensor in tensors.items():
        if name == "sequence_lengths":
            continue
        require(tensor.dtype == dtype, f"{case}: {name} is {tensor.dtype}")
        require(np.isfinite(tensor).all(), f"{case}: {name} is not finite")
        subnormal = (tensor != 0) & (np.abs(tensor) < np.finfo(dtype).tiny)
        require(not subnormal.any(), f"{case}: {name} holds a subnormal number, which some devices flush")
        require(name not in given or np.all(tensor), f"{case}: {name} holds a zero")


def check_run(case, steps_of, D, weights, gradients, run):
    """Checks that a run has the answers of the equations in NumPy, and that the gradients are their slopes, unless gradients is None."""
    dtype = run["input"].dtype
    check_tensors(case, weights, dtype, [])
    check_tensors(case, run, dtype, [])
    padded = np.arange(len(run["input"]))[:, None] >= run["sequence_lengths"]
    for name in {"output", "input_backprop"} & set(run):
        require((run[name][padded] == 0).all(), f"{case}: {name} is not zero in the padding")
    for name, answer in answers_of(steps_of, D, wide(weights), wide(run)).items():
        if name in run:
            compare(f"{case}: {name}", run[name], answer, TOLERANCE[dtype.name])
    if gradients is not None:
        require({name: tensor.shape for name, tensor in gradients.items()} ==
                {name: tensor.shape for name, tensor in weights.items()}, f"{case}: gradients of other weights")
        check_tensors(case, gradients, dtype, [])
        check_slopes(case, steps_of, D, wide(weights), wide(gradients), wide(run), SLOPE_TOLERANCE[dtype.name])


def check_given(case, weights, run):
    """Checks that no weight and no input of a run is zero."""
    went_in = dict(weights, **{name: tensor for name, tensor in run.items()
                               if name in ("input", *STATES) or name.startswith("output_") and name.endswith("_backprop")})
    check_tensors(case, went_in, run["input"].dtype, went_in)


def check_folder(folder, patterns, paths):
    """Checks that every file belongs to a case, and that the safetensors package reads it equally; prints the number of files and bytes."""
    from safetensors.numpy import load_file
    for path in paths:
        theirs, ours = load_file(path), read_file(path)[0]
        same = set(theirs) == set(ours) and all(np.array_equal(theirs[name], ours[name]) for name in ours)
        require(same, f"{path.name}: the safetensors package reads it differently")
    owned = {path for pattern in patterns for path in folder.glob(pattern)}
    require(owned == set(paths), f"files of no case: {sorted(path.name for path in owned ^ set(paths))}")
    print(f"{len(paths)} files, {sum(path.stat().st_size for path in paths)} bytes")


def main(what, make, check):
    parser = argparse.ArgumentParser(description=f"Make and check the test data of {what}'s weights.")
    parser.add_argument("--check", action="store_true", help="only check the files that are there")
    parser.add_argument("--dir", type=pathlib.Path, default=FOLDER,
                        help="where the files are (default: the folder owners beside this script)")
    arguments = parser.parse_args()
    if not arguments.check:
        make(arguments.dir)
    check(arguments.dir)
