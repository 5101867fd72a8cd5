#!/usr/bin/env python3
"""Makes the test data of the block ops: TensorFlow's own answers, as safetensors files beside this script.

Runs LSTMBlockCell, GRUBlockCell, BlockLSTM, BlockLSTMV2 and the gradient op of each, and TensorFlow's own differentiation
of cells composed of plain ops, on the CPU; then compares every file with the equations, which are written again in NumPy, in
float64.  With --check the script only compares existing files, and needs no TensorFlow.  README.md says what each file and case
is for; other frameworks' data have scripts of their own.
"""
import argparse
import os
import pathlib
import sys

import numpy as np

sys.dont_write_bytecode = True          # no __pycache__ is written, since this folder goes whole into the tarball
from tensor_files import compare, read_file, require, write_file

SEED = 20240229

# ---- cases ----

# factor: for each argument, the number by which its standard normal numbers are multiplied; 1 for an argument without one.
LSTM_CASES = [
    # name            B   I   U  dtype      forget_bias  cell_clip  use_peephole  factor
    ("vector-a",      2,  2,  2, "float32", 1.0,  3.0, False, {}),
    ("vector-b",      2,  2,  2, "float32", 1.0,  3.0, True,  {}),
    ("vector-c",      2,  2,  2, "float32", 1.0,  0.1, True,  {}),
    ("plain",         3,  5,  7, "float32", 1.0,  3.0, False, {"w": 0.5}),
    ("peephole",      3,  5,  7, "float32", 1.0,  3.0, True,  {}),
    ("clip",          3,  5,  7, "float32", 1.0,  0.5, True,  {"w": 0.5}),
    ("noclip",        3,  5,  7, "float32", 0.0, -1.0, False, {"w": 0.5, "cs_prev": 6.0}),
    ("one",           1,  1,  1, "float32", 1.0,  3.0, True,  {}),
    ("wide",         17,  9, 33, "float32", 1.0,  3.0, True,  {"w": 0.25}),
    ("saturated",     4,  5,  6, "float32", 1.0, -1.0, True,  {"x": 12.0, "cs_prev": 4.0}),
    ("half-plain",    3,  5,  7, "float16", 1.0,  3.0, False, {"w": 0.5}),
    ("half-peephole", 3,  5,  7, "float16", 1.0,  3.0, True,  {"w": 0.5}),
]
GRU_CASES = [
    # name            B   I   U  factor
    ("vector",        2,  2,  2, {}),
    ("plain",         4,  6,  5, {"w_ru": 0.5, "w_c": 0.5}),
    ("one",           1,  1,  1, {}),
    ("wide",         17,  9, 33, {"w_ru": 0.25, "w_c": 0.25}),
    ("saturated",     4,  6,  5, {"x": 12.0}),
]
# Cases of whole sequences; seq_len_max is how many of the T steps are computed.  BlockLSTMV2 has no forget_bias, for which 0 is written.
BLOCK_LSTM_CASES = [
    # version name     T  B  I  U  seq_len_max  dtype  forget_bias  cell_clip  use_peephole  factor
    ("",   "plain",    4, 3, 5, 4, 4, "float32", 1.0,  3.0, False, {"w": 0.5}),
    ("",   "peephole", 4, 3, 5, 4, 4, "float32", 1.0,  3.0, True,  {"w": 0.5}),
    ("",   "clip",     4, 3, 5, 4, 4, "float32", 0.5,  0.5, True,  {"w": 0.5}),
    ("",   "short",    5, 2, 3, 6, 3, "float32", 0.0, -1.0, True,  {"w": 0.5}),
    ("",   "none",     3, 2, 3, 4, 0, "float32", 1.0,  3.0, True,  {}),
    ("",   "one",      1, 1, 1, 1, 1, "float32", 1.0,  3.0, True,  {}),
    ("",   "half",     4, 3, 5, 4, 4, "float16", 1.0,  3.0, True,  {"w": 0.5}),
    ("V2", "plain",    4, 3, 5, 4, 4, "float32", 0.0,  0.0, False, {"w": 0.5}),
    ("V2", "clip",     4, 3, 5, 4, 4, "float32", 0.0,  0.5, True,  {"w": 0.5}),
    ("V2", "short",    5, 2, 3, 6, 3, "float32", 0.0,  0.0, True,  {"w": 0.5}),
]
# The cases that TensorFlow also differentiates automatically, in float64 and without clipping; they have the shapes and factors of the
# cases of the same names in LSTM_CASES and GRU_CASES.
LSTM_TAPE_CASES = ["plain", "peephole"]
GRU_TAPE_CASES = ["plain"]

# The arguments that each op reads, in TensorFlow's order.
LSTM_READS = "x cs_prev h_prev w wci wcf wco b".split()
LSTM_SAVED = "i cs f o ci co".split()
LSTM_UPSTREAM = "cs_grad h_grad".split()
BLOCK_LSTM_READS = ["seq_len_max", *LSTM_READS]
BLOCK_LSTM_SAVED = [*LSTM_SAVED, "h"]
GRU_READS = "x h_prev w_ru w_c b_ru b_c".split()
GRU_SAVED = "r u c".split()
GRU_UPSTREAM = ["d_h"]

# The tag of each argument: the fill rule computes an element of an argument from the element's index and this tag.
LSTM_TAGS = dict(x=1, cs_prev=2, h_prev=3, w=4, wci=5, wcf=6, wco=7, b=8, cs_grad=9, h_grad=10)
GRU_TAGS = dict(x=1, h_prev=3, w_ru=4, w_c=5, b_ru=6, b_c=7, d_h=8)


def lstm_shapes(B, I, U):
    return dict(x=(B, I), cs_prev=(B, U), h_prev=(B, U), w=(I + U, 4 * U), wci=(U,), wcf=(U,), wco=(U,), b=(4 * U,),
                cs_grad=(B, U), h_grad=(B, U))


def block_lstm_shapes(T, B, I, U):
    return lstm_shapes(B, I, U) | dict(x=(T, B, I), cs_grad=(T, B, U), h_grad=(T, B, U))


def gru_shapes(B, I, U):
    return dict(x=(B, I), h_prev=(B, U), w_ru=(I + U, 2 * U), w_c=(I + U, U), b_ru=(2 * U,), b_c=(U,), d_h=(B, U))


def filled(shapes, tags):
    """Makes inputs by the fill rule of the check vectors: a formula of an element's row-major index k and of its tensor's tag."""
    return {name: ((7 * np.arange(np.prod(shape)) + tags[name]) % 13 - 6).reshape(shape) / 10
            for name, shape in shapes.items()}


def drawn(family, case, shapes, factor):
    """Makes inputs of standard normal numbers, by RandomState, because numpy promises that its stream never changes."""
    state = np.random.RandomState([SEED, *f"{family}-{case}".encode()])
    return {name: state.standard_normal(shape) * factor.get(name, 1.0) for name, shape in shapes.items()}


def lstm_inputs(case, B, I, U, factor):
    shapes = lstm_shapes(B, I, U)
    return filled(shapes, LSTM_TAGS) if case.startswith("vector") else drawn("lstm", case, shapes, factor)


def block_lstm_inputs(version, case, T, B, I, U, seq_len_max, factor):
    given = drawn(f"block_lstm{version.lower()}", case, block_lstm_shapes(T, B, I, U), factor)
    return given | dict(seq_len_max=np.array(seq_len_max, "int64"))


def gru_inputs(case, B, I, U, factor):
    shapes = gru_shapes(B, I, U)
    return filled(shapes, GRU_TAGS) if case.startswith("vector") else drawn("gru", case, shapes, factor)


def only(tensors, *names):
    return {name: tensors[name] for group in names for name in group}


def cast(tensors, dtype):
    """Converts tensors to a dtype, except int64 tensors, such as seq_len_max."""
    return {name: tensor if tensor.dtype == np.int64 else tensor.astype(dtype) for name, tensor in tensors.items()}


# ---- TensorFlow's answers ----

def make(folder):
    # TensorFlow runs one thread and its plain kernels, so that a second run gives the same bits.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ["TF_ENABLE_ONEDNN_OPTS"] = "0"
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    import tensorflow as tf
    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    made_by = f"tensorflow {tf.__version__}"

    def run(op, arguments, attributes):
        """Runs an op eagerly, while `held` refers to every input: without that, kernels may write gradients over the peepholes."""
        held = {name: tf.constant(tensor) for name, tensor in arguments.items()}
        answer = getattr(tf.raw_ops, op)(**held, **attributes)._asdict()
        require(all(np.array_equal(held[name], arguments[name]) for name in held), f"{op} changed an input")
        answer = {name: np.array(tensor) for name, tensor in answer.items()}
        if op in ("BlockLSTM", "BlockLSTMV2"):
            # Beyond seq_len_max TensorFlow sets cs and h to zero, and leaves unset memory in the other outputs, which become zeros here.
            for tensor in answer.values():
                tensor[arguments["seq_len_max"]:] = 0
        return answer

    def save(op, case, arguments, attributes, answer, answer32=None):
        metadata = {"op": op, "made_by": made_by}
        metadata.update((name, str(value).lower()) for name, value in attributes.items())
        write_file(folder / f"{op}-{case}.safetensors", arguments, metadata)
        write_file(folder / f"{op}-{case}.expect.safetensors", answer, metadata)
        if answer32 is not None:
            write_file(folder / f"{op}-{case}.expect32.safetensors", answer32, metadata)

    def run_and_save(op, case, arguments, attributes):
        answer = run(op, arguments, attributes)
        half = arguments["x"].dtype == np.float16
        save(op, case, arguments, attributes, answer, run(op, cast(arguments, "float32"), attributes) if half else None)
        return answer

    for case, B, I, U, dtype, forget_bias, cell_clip, use_peephole, factor in LSTM_CASES:
        given = cast(lstm_inputs(case, B, I, U, factor), dtype)
        saved = run_and_save("LSTMBlockCell", case, only(given, LSTM_READS),
                             dict(forget_bias=forget_bias, cell_clip=cell_clip, use_peephole=use_peephole))
        run_and_save("LSTMBlockCellGrad", case, only(given | saved, LSTM_READS, LSTM_SAVED, LSTM_UPSTREAM),
                     dict(use_peephole=use_peephole))

    for version, case, T, B, I, U, seq_len_max, dtype, forget_bias, cell_clip, use_peephole, factor in BLOCK_LSTM_CASES:
        given = cast(block_lstm_inputs(version, case, T, B, I, U, seq_len_max, factor), dtype)
        attributes = dict(cell_clip=cell_clip, use_peephole=use_peephole)
        if not version:
            attributes["forget_bias"] = forget_bias
        saved = run_and_save(f"BlockLSTM{version}", case, only(given, BLOCK_LSTM_READS), attributes)
        run_and_save(f"BlockLSTMGrad{version}", case,
                     only(given | saved, BLOCK_LSTM_READS, BLOCK_LSTM_SAVED, LSTM_UPSTREAM), dict(use_peephole=use_peephole))

    for case, B, I, U, factor in GRU_CASES:
        given = cast(gru_inputs(case, B, I, U, factor), "float32")
        saved = run_and_save("GRUBlockCell", case, only(given, GRU_READS), {})
        run_and_save("GRUBlockCellGrad", case, only(given | saved, GRU_READS, GRU_SAVED, GRU_UPSTREAM), {})

    def differentiate(cell, given, reads, upstream):
        """Differentiates a cell; returns its saved values and TensorFlow's gradients.  upstream: the names of the outputs' gradients."""
        held = {name: tf.constant(given[name]) for name in reads}
        with tf.GradientTape() as tape:
            tape.watch(held)
            saved = cell(**held)
        gradients = tape.gradient([saved[output] for output in upstream], held,
                                  [tf.constant(given[name]) for name in upstream.values()],
                                  unconnected_gradients=tf.UnconnectedGradients.ZERO)
        return ({name: tensor.numpy() for name, tensor in saved.items()},
                {name: tensor.numpy() for name, tensor in gradients.items()})

    def same_cell(op, case, given, reads, attributes, saved):
        """Checks that a cell composed of plain ops computes the same as the block op; otherwise its gradients would prove nothing."""
        for name, tensor in run(op, cast(only(given, reads), "float32"), attributes).items():
            compare(f"composed {op}-{case}: {name}", tensor, saved[name], TOLERANCE["float32"])

    for case, B, I, U, _, forget_bias, _, use_peephole, factor in LSTM_CASES:
        if case not in LSTM_TAPE_CASES:
            continue

        def lstm(x, cs_prev, h_prev, w, wci, wcf, wco, b):
            a_i, a_ci, a_f, a_o = tf.split(tf.concat([x, h_prev], 1) @ w + b, 4, axis=1)
            i = tf.sigmoid(a_i + cs_prev * wci if use_peephole else a_i)
            f = tf.sigmoid((a_f + cs_prev * wcf if use_peephole else a_f) + forget_bias)
            ci = tf.tanh(a_ci)
            cs = i * ci + f * cs_prev
            co = tf.tanh(cs)
            o = tf.sigmoid(a_o + cs * wco if use_peephole else a_o)
            return dict(i=i, cs=cs, f=f, o=o, ci=ci, co=co, h=o * co)

        given = lstm_inputs(case, B, I, U, factor)
        saved, gradients = differentiate(lstm, given, LSTM_READS, dict(cs="cs_grad", h="h_grad"))
        same_cell("LSTMBlockCell", case, given, LSTM_READS,
                  dict(forget_bias=forget_bias, cell_clip=-1.0, use_peephole=use_peephole), saved)
        save("lstm_block_cell_grad", case, only(given | saved, LSTM_READS, LSTM_SAVED, LSTM_UPSTREAM),
             dict(use_peephole=use_peephole), {f"{name}_grad": tensor for name, tensor in gradients.items()})

    for case, B, I, U, factor in GRU_CASES:
        if case not in GRU_TAPE_CASES:
            continue

        def gru(x, h_prev, w_ru, w_c, b_ru, b_c):
            r, u = tf.split(tf.sigmoid(tf.concat([x, h_prev], 1) @ w_ru + b_ru), 2, axis=1)
            c = tf.tanh(tf.concat([x, r * h_prev], 1) @ w_c + b_c)
            return dict(r=r, u=u, c=c, h=u * h_prev + (1 - u) * c)

        given = gru_inputs(case, B, I, U, factor)
        saved, gradients = differentiate(gru, given, GRU_READS, dict(h="d_h"))
        same_cell("GRUBlockCell", case, given, GRU_READS, {}, saved)
        save("gru_block_cell_grad", case, only(given | saved, GRU_READS, GRU_SAVED, GRU_UPSTREAM), {},
             {f"d_{name}": tensor for name, tensor in gradients.items()})


# ---- the ops' equations in NumPy, in float64 ----

def sigmoid(z):
    return 0.5 + 0.5 * np.tanh(0.5 * z)


def lstm_forward(a, forget_bias, cell_clip, use_peephole):
    a_i, a_ci, a_f, a_o = np.split(np.hstack([a["x"], a["h_prev"]]) @ a["w"] + a["b"], 4, axis=1)
    wci, wcf, wco = (a[name] * use_peephole for name in ("wci", "wcf", "wco"))
    i = sigmoid(a_i + a["cs_prev"] * wci)
    f = sigmoid(a_f + forget_bias + a["cs_prev"] * wcf)
    ci = np.tanh(a_ci)
    cs = i * ci + f * a["cs_prev"]
    if cell_clip > 0:
        cs = np.clip(cs, -cell_clip, cell_clip)
    co = np.tanh(cs)
    o = sigmoid(a_o + cs * wco)
    return dict(i=i, cs=cs, f=f, o=o, ci=ci, co=co, h=o * co)


def lstm_grad(a, use_peephole):
    i, cs, f, o, ci, co = (a[name] for name in LSTM_SAVED)
    wci, wcf, wco = (a[name] * use_peephole for name in ("wci", "wcf", "wco"))
    do = o * (1 - o) * a["h_grad"] * co
    dcs = (1 - co * co) * a["h_grad"] * o + a["cs_grad"] + do * wco
    dci = (1 - ci * ci) * dcs * i
    df = f * (1 - f) * dcs * a["cs_prev"]
    di = i * (1 - i) * dcs * ci
    dicfo = np.hstack([di, dci, df, do])
    xh = np.hstack([a["x"], a["h_prev"]])
    x_grad, h_prev_grad = np.split(dicfo @ a["w"].T, [a["x"].shape[1]], axis=1)
    return dict(cs_prev_grad=dcs * f + di * wci + df * wcf, dicfo=dicfo,
                wci_grad=(di * a["cs_prev"]).sum(0) * use_peephole,
                wcf_grad=(df * a["cs_prev"]).sum(0) * use_peephole,
                wco_grad=(do * cs).sum(0) * use_peephole,
                x_grad=x_grad, h_prev_grad=h_prev_grad, w_grad=xh.T @ dicfo, b_grad=dicfo.sum(0))


def gates_exchanged(a, names):
    """Exchanges gates: from the order i ci f o of the other ops to BlockLSTMV2's i f ci o, or back."""
    for name in names:
        i, c, f, o = np.split(a[name], 4, axis=-1)
        a = a | {name: np.concatenate([i, f, c, o], axis=-1)}
    return a


def block_lstm_forward(a, cell_clip, use_peephole, forget_bias=0.0):
    outputs = {name: np.zeros(a["x"].shape[:2] + a["cs_prev"].shape[1:]) for name in BLOCK_LSTM_SAVED}
    state = {}
    for t in range(int(a["seq_len_max"])):
        step = lstm_forward(a | state | dict(x=a["x"][t]), forget_bias, cell_clip, use_peephole)
        state = dict(cs_prev=step["cs"], h_prev=step["h"])
        for name, tensor in step.items():
            outputs[name][t] = tensor
    return outputs


def block_lstm_grad(a, use_peephole):
    sums = {f"{name}_grad": np.zeros(a[name].shape) for name in "w wci wcf wco b".split()}
    carry = dict(cs_prev_grad=np.zeros(a["cs_prev"].shape), h_prev_grad=np.zeros(a["h_prev"].shape))
    x_grad = np.zeros(a["x"].shape)
    for t in reversed(range(int(a["seq_len_max"]))):
        step = a | {name: a[name][t] for name in ["x", *LSTM_SAVED]}
        step |= dict(cs_grad=a["cs_grad"][t] + carry["cs_prev_grad"], h_grad=a["h_grad"][t] + carry["h_prev_grad"])
        if t > 0:
            step |= dict(cs_prev=a["cs"][t - 1], h_prev=a["h"][t - 1])
        answer = lstm_grad(step, use_peephole)
        carry = only(answer, carry)
        x_grad[t] = answer["x_grad"]
        sums = {name: tensor + answer[name] for name, tensor in sums.items()}
    return dict(x_grad=x_grad, **carry, **sums)


def block_lstm_forward_v2(a, cell_clip, use_peephole):
    return block_lstm_forward(gates_exchanged(a, "wb"), cell_clip, use_peephole)


def block_lstm_grad_v2(a, use_peephole):
    return gates_exchanged(block_lstm_grad(gates_exchanged(a, "wb"), use_peephole), ["w_grad", "b_grad"])


def gru_forward(a):
    r, u = np.split(sigmoid(np.hstack([a["x"], a["h_prev"]]) @ a["w_ru"] + a["b_ru"]), 2, axis=1)
    c = np.tanh(np.hstack([a["x"], a["h_prev"] * r]) @ a["w_c"] + a["b_c"])
    return dict(r=r, u=u, c=c, h=u * a["h_prev"] + (1 - u) * c)


def gru_grad(a):
    r, u, c, d_h, width = a["r"], a["u"], a["c"], a["d_h"], a["x"].shape[1]
    d_c_bar = d_h * (1 - u) * (1 - c * c)
    d_u_bar = d_h * (a["h_prev"] - c) * u * (1 - u)
    dx2, d_hr = np.split(d_c_bar @ a["w_c"].T, [width], axis=1)
    d_r_bar_u_bar = np.hstack([d_hr * a["h_prev"] * r * (1 - r), d_u_bar])
    dx1, dh1 = np.split(d_r_bar_u_bar @ a["w_ru"].T, [width], axis=1)
    return dict(d_x=dx1 + dx2, d_h_prev=dh1 + d_hr * r + d_h * u, d_c_bar=d_c_bar, d_r_bar_u_bar=d_r_bar_u_bar,
                d_w_ru=np.hstack([a["x"], a["h_prev"]]).T @ d_r_bar_u_bar, d_b_ru=d_r_bar_u_bar.sum(0),
                d_w_c=np.hstack([a["x"], a["h_prev"] * r]).T @ d_c_bar, d_b_c=d_c_bar.sum(0))


# For each op: the NumPy function that computes the right answers, and the names of the tensors that the op must return.
OPS = {
    "LSTMBlockCell":        (lstm_forward, "i cs f o ci co h"),
    "LSTMBlockCellGrad":    (lstm_grad, "cs_prev_grad dicfo wci_grad wcf_grad wco_grad"),
    "BlockLSTM":            (block_lstm_forward, "i cs f o ci co h"),
    "BlockLSTMV2":          (block_lstm_forward_v2, "i cs f o ci co h"),
    "BlockLSTMGrad":        (block_lstm_grad, "x_grad cs_prev_grad h_prev_grad w_grad wci_grad wcf_grad wco_grad b_grad"),
    "BlockLSTMGradV2":      (block_lstm_grad_v2, "x_grad cs_prev_grad h_prev_grad w_grad wci_grad wcf_grad wco_grad b_grad"),
    "GRUBlockCell":         (gru_forward, "r u c h"),
    "GRUBlockCellGrad":     (gru_grad, "d_x d_h_prev d_c_bar d_r_bar_u_bar"),
    "lstm_block_cell_grad": (lstm_grad, "x_grad cs_prev_grad h_prev_grad w_grad wci_grad wcf_grad wco_grad b_grad"),
    "gru_block_cell_grad":  (gru_grad, "d_x d_h_prev d_w_ru d_w_c d_b_ru d_b_c"),
}
FILES = ([(op, row[0]) for op in ("LSTMBlockCell", "LSTMBlockCellGrad") for row in LSTM_CASES]
         + [(op + row[0], row[1]) for op in ("BlockLSTM", "BlockLSTMGrad") for row in BLOCK_LSTM_CASES]
         + [(op, row[0]) for op in ("GRUBlockCell", "GRUBlockCellGrad") for row in GRU_CASES]
         + [("lstm_block_cell_grad", case) for case in LSTM_TAPE_CASES]
         + [("gru_block_cell_grad", case) for case in GRU_TAPE_CASES])

# The tolerances, relative to each tensor's largest element.  In float16 TensorFlow rounds after every operation.
TOLERANCE = {"float16": 4e-2, "float32": 5e-6, "float64": 1e-13}

# Answers to inputs by the fill rule, row-major, from an independent double-precision program; they are right within 1e-6.
VECTORS = {
    "LSTMBlockCell-vector-a": """
        i   0.509998667  0.361236825  0.517492858  0.372852234
        cs -0.092575016  0.068589502 -0.030005361  0.168560786
        f   0.830616103  0.775564014  0.827783608  0.775564014
        o   0.661503159  0.450166003  0.665966927  0.428003867
        ci  0.469945199 -0.454216433  0.421899005 -0.379948962
        co -0.092311460  0.068482144 -0.029996359  0.166982299
        h  -0.061064322  0.030828333 -0.019976583  0.071469070""",
    "LSTMBlockCell-vector-b": """
        i   0.519989340  0.403717301  0.524979187  0.430453776
        cs -0.087879947  0.039432131 -0.026846886  0.128872966
        f   0.830616103  0.742690545  0.827783608  0.731058579
        o   0.659532596  0.445290898  0.665369439  0.412307001
        ci  0.469945199 -0.454216433  0.421899005 -0.379948962
        co -0.087654415  0.039411707 -0.026840437  0.128164223
        h  -0.057810944  0.017549674 -0.017858807  0.052843006""",
    "LSTMBlockCell-vector-c": """
        i   0.519989340  0.403717301  0.524979187  0.430453776
        cs -0.087879947  0.039432131 -0.026846886  0.1
        f   0.830616103  0.742690545  0.827783608  0.731058579
        o   0.659532596  0.445290898  0.665369439  0.415809477
        ci  0.469945199 -0.454216433  0.421899005 -0.379948962
        co -0.087654415  0.039411707 -0.026840437  0.099667995
        h  -0.057810944  0.017549674 -0.017858807  0.041442897""",
    "LSTMBlockCellGrad-vector-a": """
        dicfo 0.066041588 0.040834374 0.223457505 -0.111705019 -0.031647284 -0.020345228 -0.008268032 -0.003390093
              0.077185057 0.021465518 0.311668884 -0.077079109 -0.031334963 -0.016822077 -0.003336420 -0.004088003
        cs_prev_grad 0.467094049 -0.302168242 0.606503682 -0.187381679
        wci_grad 0 0
        wcf_grad 0 0
        wco_grad 0 0""",
    "LSTMBlockCellGrad-vector-b": """
        dicfo 0.065804327 0.042419357 0.227288923 -0.124307844 -0.031571439 -0.022241115 -0.007873097 -0.001946993
              0.077030207 0.022262805 0.315945659 -0.088027040 -0.031311971 -0.018796153 -0.002988051 -0.003105546
        cs_prev_grad 0.459394184 -0.249327803 0.598355640 -0.150088114
        wci_grad -0.049430793 0.021630929
        wcf_grad 0.022022167 -0.014190796
        wco_grad 0.000772107 -0.000476995""",
    "LSTMBlockCellGrad-vector-c": """
        dicfo 0.065804327 0.042419357 0.227288923 -0.124307844 -0.031571439 -0.022241115 -0.007873097 -0.001946993
              0.077030207 0.022351921 0.315945659 -0.088379405 -0.031311971 -0.018871393 -0.002988051 -0.002421055
        cs_prev_grad 0.459394184 -0.249327803 0.598355640 -0.150688904
        wci_grad -0.049430793 0.021666575
        wcf_grad 0.022022167 -0.014220892
        wco_grad 0.000772107 -0.000318880""",
    "GRUBlockCell-vector": """
        r  0.549833997  0.282924715  0.559713649  0.268941421
        u  0.569546224  0.299432858  0.589040434  0.293177779
        c  0.154882353 -0.707815703  0.154453769 -0.724863021
        h -0.104194173 -0.376099282 -0.054333833 -0.365760401""",
    "GRUBlockCellGrad-vector": """
        d_x -0.141730556 0.124605247 -0.111751299 0.092084264
        d_h_prev 0.174642844 -0.104556993 0.223588334 -0.078404183
        d_c_bar 0.084025563 -0.139832341 0.120346718 -0.100631750
        d_r_bar_u_bar -0.005815555 0.005902789 -0.022304094 -0.092955850
                      -0.003073062 0.006323241 -0.025740979 -0.076146513""",
}


def vector(text):
    """Parses a text of names, each followed by its numbers: {name: numbers}."""
    tensors = {}
    for word in text.split():
        if word[0].isalpha():
            numbers = tensors[word] = []
        else:
            numbers.append(float(word))
    return tensors


def check_case_purpose(op, case, arguments, answer):
    """Checks that a case does what its name says, such as clip; otherwise the case would pass and prove nothing."""
    where = f"{op}-{case}"
    if not case.startswith("vector"):
        drawn_names = set(arguments) - {"seq_len_max", *BLOCK_LSTM_SAVED, *GRU_SAVED}
        require(all(np.all(arguments[name]) for name in drawn_names), f"{where}: an input holds a zero")
    for name, tensor in (arguments | answer).items():
        if tensor.dtype == np.int64:
            continue
        smallest = np.finfo(tensor.dtype).tiny
        subnormal = (tensor != 0) & (np.abs(tensor) < smallest) & (tensor.dtype != np.float16)
        require(not subnormal.any(), f"{where}: {name} holds a subnormal number, which some devices flush")
    if op == "LSTMBlockCell":
        size = np.abs(answer["cs"])
        clipped = (size == {"vector-c": np.float32(0.1), "clip": 0.5}.get(case, 3)).sum()
        expected = {"vector-c": range(1, 2), "clip": range(4, size.size - 3)}.get(case, range(0, 1))
        require(clipped in expected, f"{where}: {clipped} of {size.size} units clip")
        require(case != "noclip" or (size > 3).sum() > 3, f"{where}: the default clip would not show")
    if op.startswith("BlockLSTM") and "Grad" not in op and case == "clip":
        clipped = (np.abs(answer["cs"]) == 0.5).sum()
        require(4 < clipped < answer["cs"].size - 4, f"{where}: {clipped} units clip")
    if case == "saturated" and op in ("LSTMBlockCell", "GRUBlockCell"):
        gates = np.concatenate([answer[name].ravel() for name in "iforu" if name in answer])
        require((gates == 1).sum() > 3 and (gates < 1e-7).sum() > 3, f"{where}: the gates do not saturate")


def check(folder):
    from safetensors.numpy import load_file
    worst, total, paths = dict.fromkeys(TOLERANCE, 0.0), 0, []
    for op, case in FILES:
        formula, outputs = OPS[op]
        given = folder / f"{op}-{case}.safetensors"
        arguments, attributes = read_file(given)
        options = {name: value == "true" if value in ("true", "false") else float(value)
                   for name, value in attributes.items() if name not in ("op", "made_by")}
        should = formula(cast(arguments, "float64"), **options)
        expected = [folder / f"{op}-{case}.expect.safetensors"]
        if case.startswith("half"):
            expected.append(folder / f"{op}-{case}.expect32.safetensors")
        for path in expected:
            answer, of = read_file(path)
            require(of == attributes and of["op"] == op, f"{path.name}: metadata of another run")
            require(set(answer) == set(outputs.split()), f"{path.name}: holds {' '.join(answer)}")
            for name, tensor in answer.items():
                dtype = tensor.dtype.name
                require(dtype == ("float32" if "expect32" in path.name else arguments["x"].dtype.name),
                        f"{path.name}: {name} is {dtype}")
                share = compare(f"{path.name}: {name}", tensor, should[name], TOLERANCE[dtype])
                worst[dtype] = max(worst[dtype], share)
            check_case_purpose(op, case, arguments, answer)
        for name, numbers in vector(VECTORS.get(f"{op}-{case}", "")).items():
            error = np.abs(answer[name].ravel() - numbers).max()
            require(error < 1e-6, f"{op}-{case}: {name} is {error:.3g} from the check vector")
        for path in [given, *expected]:
            theirs, ours = load_file(path), read_file(path)[0]
            same = set(theirs) == set(ours) and all(np.array_equal(theirs[name], ours[name]) for name in ours)
            require(same, f"{path.name}: the safetensors package reads it differently")
        paths += [given, *expected]
        total += sum(path.stat().st_size for path in [given, *expected])
    owned = {path for op in OPS for path in folder.glob(f"{op}-*.safetensors")}
    require(owned == set(paths), f"files of no case: {sorted(path.name for path in owned - set(paths))}")
    errors = ", ".join(f"{dtype} {share:.2g}" for dtype, share in worst.items())
    print(f"{len(paths)} files, {total} bytes; largest error over its tensor's largest element: {errors}")


def main():
    parser = argparse.ArgumentParser(description="Make and check the block-cell test data.")
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
