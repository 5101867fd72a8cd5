#!/usr/bin/env python3
"""Makes the test data of Keras's weights: weights of networks under the paths that Keras gives them, with Keras's own answers.

Runs the layers LSTM, GRU, SimpleRNN and Bidirectional over TensorFlow, in float64 on the CPU, and TensorFlow's differentiation
of the layers.  Then compares every file with Keras's equations, which are written again in NumPy.  With --check the script only
compares existing files, and needs no Keras.  README.md says what each file and case is for.
"""
import os
import sys

import numpy as np

sys.dont_write_bytecode = True          # no __pycache__ is written, since this folder goes whole into the tarball
from network_files import STATES, check_folder, check_given, check_run, drawn, load, main, path_of, run_shapes, save, sigmoid
from tensor_files import require

# mode: layer, number of gates, arguments of the layer, the library's cell
MODES = {
    "lstm":       ("LSTM",      4, {},                        "lstm"),
    "gru":        ("GRU",       3, {},                        "gru"),
    "gru_before": ("GRU",       3, dict(reset_after=False),   "gru_block"),
    "tanh":       ("SimpleRNN", 1, {},                        "rnn_tanh"),
    "relu":       ("SimpleRNN", 1, dict(activation="relu"),   "rnn_relu"),
}
SNAKE = {"LSTM": "lstm", "GRU": "gru", "SimpleRNN": "simple_rnn"}
PARTS = ("weights", "gradients", "run")

CASES = [
    # mode         name      T  B  I  U  L  D  lengths         use_bias
    ("lstm",       "plain",  4, 3, 2, 5, 1, 1, None,           True),
    ("lstm",       "deep",   5, 4, 3, 4, 2, 2, [3, 5, 0, 4],   True),
    ("lstm",       "nobias", 3, 2, 3, 2, 1, 2, None,           False),
    ("gru",        "plain",  4, 3, 2, 5, 1, 1, None,           True),
    ("gru",        "deep",   5, 4, 3, 4, 2, 2, [3, 5, 0, 4],   True),
    ("gru_before", "plain",  4, 3, 2, 5, 1, 1, None,           True),
    ("gru_before", "deep",   5, 4, 3, 4, 2, 2, [3, 5, 1, 4],   True),
    ("tanh",       "deep",   4, 3, 2, 5, 2, 2, [2, 4, 3],      True),
    ("relu",       "plain",  4, 3, 3, 5, 2, 1, None,           True),
]


def cells_of(mode, L, D):
    """Returns the paths of the cells, one for each layer and direction, as Keras names the layers of the first model in a process."""
    snake, paths = SNAKE[MODES[mode][0]], []
    for layer in range(L):
        number = f"_{layer}" if layer else ""
        for d in range(D):
            where = f"bidirectional{number}/{('forward', 'backward')[d]}_{snake}{number}" if D == 2 else f"{snake}{number}"
            paths.append(f"sequential/{where}/{snake}_cell")
    return paths


def weight_shapes(mode, I, U, L, D, use_bias):
    G, shapes = MODES[mode][1], {}
    for k, cell in enumerate(cells_of(mode, L, D)):
        shapes[f"{cell}/kernel"] = (D * U if k >= D else I, G * U)
        shapes[f"{cell}/recurrent_kernel"] = (U, G * U)
        if use_bias:
            shapes[f"{cell}/bias"] = (2, G * U) if mode == "gru" else (G * U,)
    return shapes


def run_metadata(mode, D):
    return dict(cell=MODES[mode][3], direction="bidirectional" if D == 2 else "unidirectional")


# ---- Keras's answers ----

def make_case(tf, keras, folder, mode, case, T, B, I, U, L, D, lengths, use_bias, made_by):
    name, (layer_name, _, options, cell) = f"keras-{mode}-{case}", MODES[mode]
    weights = drawn(f"{name}-weights", weight_shapes(mode, I, U, L, D, use_bias), 0.5)
    given = drawn(name, run_shapes(T, B, I, U, U, L, D, mode == "lstm"), 1)
    keras.utils.clear_session()
    network = [getattr(keras.layers, layer_name)(U, return_sequences=True, return_state=True, zero_output_for_mask=True,
                                            use_bias=use_bias, dtype="float64", **options) for _ in range(L)]
    if D == 2:
        network = [keras.layers.Bidirectional(one, dtype="float64") for one in network]
    for one, width in zip(network, [I] + [D * U] * (L - 1)):
        one.build((B, T, width))
    # "sequential/" is the prefix that the first model in a process puts before the paths of its layers.
    variables = {f"sequential/{variable.path}": variable for one in network for variable in one.trainable_variables}
    require({path: tuple(v.shape) for path, v in variables.items()} == {path: w.shape for path, w in weights.items()},
            f"{name}: Keras has {' '.join(variables)}")
    for path, variable in variables.items():
        variable.assign(weights[path])

    held = {argument: tf.constant(given[argument]) for argument in ("input", *STATES) if argument in given}
    mask = None if lengths is None else tf.sequence_mask(lengths, T)
    per = 2 if mode == "lstm" else 1
    with tf.GradientTape() as tape:
        tape.watch(held)
        x, last = tf.transpose(held["input"], [1, 0, 2]), []
        for layer, one in enumerate(network):
            start = [held[state][layer * D + d] for d in range(D) for state in STATES[:per]]
            x, *states = one(x, initial_state=start if per * D > 1 else start[0], mask=mask)
            last += states
        results = dict(output=tf.transpose(x, [1, 0, 2]), output_h=tf.stack(last[::per]))
        if per == 2:
            results["output_c"] = tf.stack(last[1::2])
    gradients = tape.gradient(list(results.values()), held | {path: v.value for path, v in variables.items()},
                              [tf.constant(given[f"{result}_backprop"]) for result in results])
    run = dict(given, sequence_lengths=np.array(lengths or [T] * B, "int32"))
    run.update((result, tensor.numpy()) for result, tensor in results.items())
    run.update((f"{argument}_backprop", gradients[argument].numpy()) for argument in held)
    # The names and shapes of a SimpleRNN's weights do not show its activation, so the metadata has it; no GRU here is without a bias.
    said = dict(rnn_mode=cell, made_by=made_by) if layer_name == "SimpleRNN" else dict(made_by=made_by)
    save(folder, name, dict(weights=weights, gradients={path: gradients[path].numpy() for path in weights}, run=run), said,
         run_metadata(mode, D) | dict(made_by=made_by))


def make(folder):
    # TensorFlow runs one thread and its plain kernels, so that a second run gives the same bits.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    os.environ["KERAS_BACKEND"] = "tensorflow"
    import tensorflow as tf
    import keras
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    for row in CASES:
        make_case(tf, keras, folder, *row, f"keras {keras.__version__} over tensorflow {tf.__version__}")


# ---- Keras's equations in NumPy ----

def cell_of(mode, w, path):
    """Makes a function for a step of a layer and direction.  The gates of an LSTM are in the order i f c o, those of a GRU in the
    order z r h, with the reset gate after the product or before it."""
    kernel, recurrent = w[f"{path}/kernel"], w[f"{path}/recurrent_kernel"]
    bias = w.get(f"{path}/bias", np.zeros(kernel.shape[1]))

    def lstm(x, h, c):
        i, f, g, o = np.split(x @ kernel + h @ recurrent + bias, 4, axis=1)
        c = sigmoid(f) * c + sigmoid(i) * np.tanh(g)
        return sigmoid(o) * np.tanh(c), c

    def gru(x, h, _):
        a_z, a_r, a_h = np.split(x @ kernel + bias[0], 3, axis=1)
        q_z, q_r, q_h = np.split(h @ recurrent + bias[1], 3, axis=1)
        z = sigmoid(a_z + q_z)
        return z * h + (1 - z) * np.tanh(a_h + sigmoid(a_r + q_r) * q_h), None

    def gru_before(x, h, _):
        a_z, a_r, a_h = np.split(x @ kernel + bias, 3, axis=1)
        r_z, r_r, r_h = np.split(recurrent, 3, axis=1)
        z, r = sigmoid(a_z + h @ r_z), sigmoid(a_r + h @ r_r)
        return z * h + (1 - z) * np.tanh(a_h + (r * h) @ r_h), None

    def rnn(x, h, _):
        a = x @ kernel + h @ recurrent + bias
        return np.tanh(a) if mode == "tanh" else np.maximum(a, 0), None

    return dict(lstm=lstm, gru=gru, gru_before=gru_before).get(mode, rnn)


def check_case(folder, mode, case, T, B, I, U, L, D, lengths, use_bias):
    name = f"keras-{mode}-{case}"
    weights, gradients, run = load(folder, name, PARTS, run_metadata(mode, D))
    require({path: tensor.shape for path, tensor in weights.items()} == weight_shapes(mode, I, U, L, D, use_bias),
            f"{name}: weights of another case")
    require(run["input"].shape == (T, B, I) and list(run["sequence_lengths"]) == (lengths or [T] * B),
            f"{name}: a run of another case")
    check_run(name, lambda w: [cell_of(mode, w, path) for path in cells_of(mode, L, D)], D, weights, gradients, run)
    check_given(name, weights, run)
    if mode == "relu":
        share = (run["output"] > 0).mean()
        require(0.05 < share < 0.95, f"{name}: {share:.2f} of the outputs are above zero")
    return [path_of(folder, name, part) for part in PARTS]


def check(folder):
    paths = [path for row in CASES for path in check_case(folder, *row)]
    check_folder(folder, ["keras-*.safetensors"], paths)


if __name__ == "__main__":
    main("Keras", make, check)
