#!/usr/bin/env python3
"""Makes the test data of TensorFlow's weights: networks of its block ops and of its cuDNN-compatible cells, with their answers.

Runs BlockLSTM, BlockLSTMV2 and GRUBlockCell with the gradient op of each, in float32 on the CPU.  The cuDNN-compatible LSTM cell
is the block op without forget bias and clip.  TensorFlow 2 has neither the cuDNN-compatible GRU cell nor the plain cell, so their
equations are composed of plain ops, in float64, which TensorFlow differentiates.  Then compares every file with the equations,
which are written again in NumPy.  With --check the script only compares existing files, and needs no TensorFlow.  README.md says
what each file and case is for.
"""
import os
import sys

import numpy as np

sys.dont_write_bytecode = True          # no __pycache__ is written, since this folder goes whole into the tarball
from network_files import (check_folder, check_given, check_run, check_tensors, drawn, load, main, path_of, run_shapes, save,
                           sigmoid)
from tensor_files import require

PARTS = ("weights", "gradients", "run")
# mode: the scope of a cuDNN layer in a checkpoint, and the name of its cell
CHECKPOINT = {
    "lstm": ("cudnn_lstm",     "cudnn_compatible_lstm_cell"),
    "gru":  ("cudnn_gru",      "cudnn_compatible_gru_cell"),
    "tanh": ("cudnn_rnn_tanh", "basic_rnn_cell"),
}
PEEPHOLES = ("wci", "wcf", "wco")

CASES = [
    # format        mode    name        dtype      T  B  I  U  L  D  attributes of the op
    ("block",       "lstm", "plain",    "float32", 4, 3, 2, 5, 1, 1, dict(forget_bias=1.0, cell_clip=3.0, use_peephole=False)),
    ("block",       "lstm", "clip",     "float32", 4, 3, 2, 5, 1, 1, dict(forget_bias=1.0, cell_clip=0.5, use_peephole=True)),
    ("block",       "lstm", "peephole", "float32", 4, 3, 3, 4, 2, 2, dict(forget_bias=0.5, cell_clip=-1.0, use_peephole=True)),
    ("block",       "gru",  "plain",    "float32", 4, 3, 2, 5, 1, 1, {}),
    ("block",       "gru",  "deep",     "float32", 3, 2, 3, 4, 2, 2, {}),
    ("block_v2",    "lstm", "plain",    "float32", 4, 3, 2, 5, 1, 1, dict(cell_clip=0.0, use_peephole=False)),
    ("block_v2",    "lstm", "peephole", "float32", 4, 3, 3, 4, 2, 2, dict(cell_clip=0.0, use_peephole=True)),
    ("checkpoint",  "lstm", "plain",    "float32", 4, 3, 2, 5, 2, 1, {}),
    ("checkpoint",  "lstm", "deep",     "float32", 3, 2, 3, 4, 2, 2, {}),
    ("checkpoint",  "gru",  "plain",    "float64", 4, 3, 2, 5, 2, 1, {}),
    ("checkpoint",  "gru",  "deep",     "float64", 3, 2, 3, 4, 2, 2, {}),
    ("checkpoint",  "tanh", "deep",     "float64", 3, 2, 3, 4, 2, 2, {}),
]


def groups_of(form, mode, L, D):
    """Returns the prefixes of the tensors' names, one for each layer and direction."""
    scope, cell = CHECKPOINT[mode]
    if form == "checkpoint" and D == 2:
        return [f"{scope}/stack_bidirectional_rnn/cell_{layer}/bidirectional_rnn/{way}/{cell}/"
                for layer in range(L) for way in ("fw", "bw")]
    if form == "checkpoint":
        return [f"{scope}/rnn/multi_rnn_cell/cell_{layer}/{cell}/" for layer in range(L)]
    return [(f"layer_{layer}/" if L > 1 else "") + (way if D == 2 else "") for layer in range(L) for way in ("fw/", "bw/")[:D]]


def cell_shapes(form, mode, width, U, attributes):
    """Returns the names and shapes of the tensors of one layer and direction."""
    if mode == "lstm":
        w, b = ("kernel", "bias") if form == "checkpoint" else ("w", "b")
        peepholes = PEEPHOLES if attributes.get("use_peephole") else ()
        return {w: (width + U, 4 * U), b: (4 * U,)} | {name: (U,) for name in peepholes}
    if mode == "tanh":
        return dict(kernel=(width + U, U), bias=(U,))
    if form == "block":
        return dict(w_ru=(width + U, 2 * U), b_ru=(2 * U,), w_c=(width + U, U), b_c=(U,))
    return {"gates/kernel": (width + U, 2 * U), "gates/bias": (2 * U,),
            "candidate/input_projection/kernel": (width, U), "candidate/input_projection/bias": (U,),
            "candidate/hidden_projection/kernel": (U, U), "candidate/hidden_projection/bias": (U,)}


def weight_shapes(form, mode, I, U, L, D, attributes):
    return {f"{group}{name}": shape for k, group in enumerate(groups_of(form, mode, L, D))
            for name, shape in cell_shapes(form, mode, D * U if k >= D else I, U, attributes).items()}


def within(weights, group):
    return {name.removeprefix(group): tensor for name, tensor in weights.items() if name.startswith(group)}


def said_of(mode, attributes):
    """Returns the metadata of the weights: what their names and shapes do not show."""
    said = {name: str(value).lower() for name, value in attributes.items()}
    return said | dict(rnn_mode="rnn_tanh") if mode == "tanh" else said


def run_metadata(form, mode, D, attributes):
    metadata = dict(direction="bidirectional" if D == 2 else "unidirectional")
    if form == "block":
        metadata["cell"] = f"{mode}_block"
    else:
        metadata["cell"] = "rnn_tanh" if mode == "tanh" else mode
    if attributes.get("use_peephole"):
        metadata["options"] = "peephole"
    if "forget_bias" in attributes:
        metadata["values"] = f"forget_bias={attributes['forget_bias']},cell_clip={attributes['cell_clip']}"
    return metadata


# ---- TensorFlow's answers ----

def block_lstm(tf, version, w, attributes):
    """BlockLSTM or BlockLSTMV2 over whole sequences, differentiated by its own gradient op."""
    forward, backward = (getattr(tf.raw_ops, f"BlockLSTM{grad}{version}") for grad in ("", "Grad"))
    peephole = attributes["use_peephole"]
    names = ["w", *PEEPHOLES, "b"]
    zero = tf.zeros(w["b"].shape[0] // 4)
    weights = [w.get(name, zero) for name in names]

    @tf.custom_gradient
    def run(x, h_prev, cs_prev, *weights):
        given = dict(x=x, h_prev=h_prev, cs_prev=cs_prev, **dict(zip(names, weights)), seq_len_max=tf.constant(len(x), tf.int64))
        saved = forward(**given, **attributes)._asdict()

        def grad(h_grad, cs_grad):
            found = backward(**given, **saved, h_grad=h_grad, cs_grad=cs_grad, use_peephole=peephole)._asdict()
            return tuple(found[f"{name}_grad"] for name in ("x", "h_prev", "cs_prev", *names))

        return (saved["h"], saved["cs"]), grad

    def whole(x, h, c):
        h, c = run(x, h, c, *weights)
        return h, h[-1], c[-1]

    return whole


def step_by_step(tf, cell):
    def whole(x, h, c):
        outputs = []
        for t in range(len(x)):
            h = cell(x[t], h)
            outputs.append(h)
        return tf.stack(outputs), h, c

    return whole


def gru_block_cell(tf, w):
    """GRUBlockCell, differentiated by its own gradient op, and by products of that op's outputs for the gradients of the weights."""
    @tf.custom_gradient
    def run(x, h_prev, w_ru, b_ru, w_c, b_c):
        given = dict(x=x, h_prev=h_prev, w_ru=w_ru, b_ru=b_ru, w_c=w_c, b_c=b_c)
        r, u, c, h = tf.raw_ops.GRUBlockCell(**given)

        def grad(d_h):
            d_x, d_h_prev, d_c, d_ru = tf.raw_ops.GRUBlockCellGrad(**given, r=r, u=u, c=c, d_h=d_h)
            rows = tf.concat([x, h_prev], 1), tf.concat([x, r * h_prev], 1)
            return (d_x, d_h_prev, tf.matmul(rows[0], d_ru, transpose_a=True), tf.reduce_sum(d_ru, 0),
                    tf.matmul(rows[1], d_c, transpose_a=True), tf.reduce_sum(d_c, 0))

        return h, grad

    return lambda x, h: run(x, h, w["w_ru"], w["b_ru"], w["w_c"], w["b_c"])


def compatible_gru_cell(tf, w):
    def cell(x, h):
        r, u = tf.split(tf.sigmoid(tf.concat([x, h], 1) @ w["gates/kernel"] + w["gates/bias"]), 2, axis=1)
        new = h @ w["candidate/hidden_projection/kernel"] + w["candidate/hidden_projection/bias"]
        x = x @ w["candidate/input_projection/kernel"] + w["candidate/input_projection/bias"]
        return (1 - u) * tf.tanh(x + r * new) + u * h

    return cell


def column_of(tf, form, mode, w, attributes):
    """Returns a function for one layer in one direction, which takes x, h and c and returns the outputs and the last h and c."""
    if mode == "lstm" and form == "checkpoint":
        plain = dict(forget_bias=0.0, cell_clip=-1.0, use_peephole=False)
        return block_lstm(tf, "", dict(w=w["kernel"], b=w["bias"]), plain)
    if mode == "lstm":
        return block_lstm(tf, "V2" if form == "block_v2" else "", w, attributes)
    if mode == "tanh":
        return step_by_step(tf, lambda x, h: tf.tanh(tf.concat([x, h], 1) @ w["kernel"] + w["bias"]))
    return step_by_step(tf, (gru_block_cell if form == "block" else compatible_gru_cell)(tf, w))


def run_network(tf, columns, D, x, h, c):
    last_h, last_c = [], []
    for layer in range(len(columns) // D):
        outputs = []
        for d in range(D):
            k = layer * D + d
            y, h_last, c_last = columns[k](tf.reverse(x, [0]) if d else x, h[k], c[k] if c is not None else None)
            outputs.append(tf.reverse(y, [0]) if d else y)
            last_h.append(h_last)
            last_c.append(c_last)
        x = tf.concat(outputs, 2)
    answers = dict(output=x, output_h=tf.stack(last_h))
    return answers | dict(output_c=tf.stack(last_c)) if c is not None else answers


def make_case(tf, folder, form, mode, case, dtype, T, B, I, U, L, D, attributes):
    name, made_by = f"{form}-{mode}-{case}", f"tensorflow {tf.__version__}"
    weights = drawn(f"{name}-weights", weight_shapes(form, mode, I, U, L, D, attributes), 0.5, dtype)
    given = drawn(name, run_shapes(T, B, I, U, U, L, D, mode == "lstm"), 1, dtype)
    # `held` refers to every input until the end: without that, kernels may write gradients over the peepholes.
    held = {key: tf.constant(tensor) for key, tensor in (weights | given).items()}
    with tf.GradientTape() as tape:
        tape.watch(held)
        columns = [column_of(tf, form, mode, within({key: held[key] for key in weights}, group), attributes)
                   for group in groups_of(form, mode, L, D)]
        results = run_network(tf, columns, D, held["input"], held["input_h"], held.get("input_c"))
    gradients = tape.gradient(list(results.values()), held, [held[f"{result}_backprop"] for result in results])
    unchanged = all(np.array_equal(held[key], tensor) for key, tensor in (weights | given).items())
    require(unchanged, f"{name}: an op changed an input")
    run = dict(given, sequence_lengths=np.full(B, T, "int32"))
    run.update((result, tensor.numpy()) for result, tensor in results.items())
    run.update((f"{key}_backprop", gradients[key].numpy()) for key in ("input", "input_h", "input_c") if key in given)
    save(folder, name, dict(weights=weights, gradients={key: gradients[key].numpy() for key in weights}, run=run),
         said_of(mode, attributes) | dict(made_by=made_by), run_metadata(form, mode, D, attributes) | dict(made_by=made_by))


def make(folder):
    # TensorFlow runs one thread and its plain kernels, so that a second run gives the same bits.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    import tensorflow as tf
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    for row in CASES:
        make_case(tf, folder, *row)


# ---- the cells' equations in NumPy ----

def cell_of(form, mode, w, attributes):
    """Makes a function for a step of a layer and direction.  The gates of an LSTM are in the order i c f o, for BlockLSTMV2 i f c o;
    those of a GRU in the order r u, with the reset gate before the product of the candidate or after it."""
    forget_bias, cell_clip = attributes.get("forget_bias", 0), attributes.get("cell_clip", 0)
    wci, wcf, wco = (w.get(name, 0) for name in PEEPHOLES)

    def lstm(x, h, c):
        kernel, bias = (w["kernel"], w["bias"]) if form == "checkpoint" else (w["w"], w["b"])
        i, g, f, o = np.split(np.hstack([x, h]) @ kernel + bias, 4, axis=1)
        if form == "block_v2":
            f, g = g, f
        c_new = sigmoid(f + forget_bias + wcf * c) * c + sigmoid(i + wci * c) * np.tanh(g)
        if cell_clip > 0:
            c_new = np.clip(c_new, -cell_clip, cell_clip)
        return sigmoid(o + wco * c_new) * np.tanh(c_new), c_new

    def gru_block(x, h, _):
        r, u = np.split(sigmoid(np.hstack([x, h]) @ w["w_ru"] + w["b_ru"]), 2, axis=1)
        return u * h + (1 - u) * np.tanh(np.hstack([x, r * h]) @ w["w_c"] + w["b_c"]), None

    def gru(x, h, _):
        r, u = np.split(sigmoid(np.hstack([x, h]) @ w["gates/kernel"] + w["gates/bias"]), 2, axis=1)
        a, q = (rows @ w[f"candidate/{which}_projection/kernel"] + w[f"candidate/{which}_projection/bias"]
                for rows, which in ((x, "input"), (h, "hidden")))
        return u * h + (1 - u) * np.tanh(a + r * q), None

    def rnn(x, h, _):
        return np.tanh(np.hstack([x, h]) @ w["kernel"] + w["bias"]), None

    return dict(lstm=lstm, gru=gru_block if form == "block" else gru, tanh=rnn)[mode]


def check_case(folder, form, mode, case, dtype, T, B, I, U, L, D, attributes):
    name = f"{form}-{mode}-{case}"
    weights, gradients, run = load(folder, name, PARTS, run_metadata(form, mode, D, attributes))
    require({key: tensor.shape for key, tensor in weights.items()} == weight_shapes(form, mode, I, U, L, D, attributes),
            f"{name}: weights of another case")
    require(run["input"].shape == (T, B, I) and run["input"].dtype == dtype, f"{name}: a run of another case")
    groups = groups_of(form, mode, L, D)
    # TensorFlow's gradient ignores the clip, so that in a case with a clipped unit it is not the slope by differences.
    clipped = attributes.get("cell_clip", 0) > 0 and (np.abs(run["output_c"]) == attributes["cell_clip"]).any()
    require(clipped == (case == "clip"), f"{name}: {'some' if clipped else 'no'} unit is clipped")
    check_run(name, lambda w: [cell_of(form, mode, within(w, group), attributes) for group in groups], D, weights,
              None if clipped else gradients, run)
    check_tensors(name, gradients, dtype, [])
    check_given(name, weights, run)
    return [path_of(folder, name, part) for part in PARTS]


def check(folder):
    paths = [path for row in CASES for path in check_case(folder, *row)]
    check_folder(folder, ["block*.safetensors", "checkpoint-*.safetensors"], paths)


if __name__ == "__main__":
    main("TensorFlow", make, check)
