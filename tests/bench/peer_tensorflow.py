#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures TensorFlow's time for peers.sh, in tf.function: its ops BlockLSTM and BlockLSTMGrad, and Keras's LSTM, GRU and SimpleRNN with a
GradientTape; the cell lstm is computed by the faster of BlockLSTM and Keras in f32 and f16, else by Keras.  Keras's layers are
batch-major; x, dy, y and dx are transposed outside of the timed calls."""
import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy
from peer_worker import add_last, decline, read_numbers, read_problem, serve, time_calls

try:
    import tensorflow as tf
except ImportError as why:
    decline(f"not installed: {why}")

KINDS = {"f32": "float32", "f64": "float64", "f16": "float16", "bf16": "bfloat16"}
# The indices by which the library's gates i f g o are put in the order i ci f o of BlockLSTM.
BLOCK = [0, 2, 1, 3]
# By number of gates, the indices by which the library's gates are put in Keras's order: i f g o stay, r z n and r u c become z r h.
KERAS = {1: [0], 3: [1, 0, 2], 4: [0, 1, 2, 3]}
# The dtypes that TensorFlow's BlockLSTM supports.
BLOCK_DTYPES = ("f32", "f16")
SAVED = ("i", "cs", "f", "o", "ci", "co", "h")
# The seconds for which each of BlockLSTM and Keras is timed to find the faster one.
TRIAL = 0.3


class Block:
    """A network by TensorFlow's op BlockLSTM, with peepholes or without."""

    def __init__(self, problem):
        self.problem, n = problem, read_numbers(problem)
        w = numpy.concatenate([n["W"][BLOCK].reshape(-1, problem.I).T, n["R"][BLOCK].reshape(-1, problem.H).T])
        peephole = n.get("peephole", numpy.zeros((3, problem.H), numpy.float32))
        give = {"seq_len_max": numpy.int64(problem.T), "x": n["x"], "cs_prev": n["c0"], "h_prev": n["h0"], "w": w, "wci": peephole[0],
                "wcf": peephole[1], "wco": peephole[2], "b": (n["bW"] + n["bR"])[BLOCK].reshape(-1)}
        self.given = {name: tf.constant(value if name == "seq_len_max" else value.astype(KINDS[problem.dtype])) for name, value in give.items()}
        steps = numpy.zeros_like(n["dy"])
        self.upstream = {"cs_grad": tf.constant(add_last(steps, n["dc_n"], True), dtype=KINDS[problem.dtype]),
                         "h_grad": tf.constant(add_last(n["dy"], n["dh_n"], problem.last), dtype=KINDS[problem.dtype])}
        self.call = tf.function(self.compute)
        self.about = "BlockLSTM"

    def compute(self, given, upstream):
        saved = dict(zip(SAVED, tf.raw_ops.BlockLSTM(forget_bias=0.0, cell_clip=0.0, use_peephole=self.problem.peephole, **given)))
        if not self.problem.grad:
            return saved["h"], saved["cs"][-1], ()
        return saved["h"], saved["cs"][-1], tf.raw_ops.BlockLSTMGrad(use_peephole=self.problem.peephole, **given, **saved, **upstream)

    def run(self):
        self.out = self.call(self.given, self.upstream)
        wait(self.out)

    def answers(self):
        y, c_n, gradients = self.out
        answers = {"y": read(y), "h_n": read(y)[-1], "c_n": read(c_n)}
        if not self.problem.grad:
            return answers
        dx, dc0, dh0, dw, dwci, dwcf, dwco, db = (read(gradient) for gradient in gradients)
        I, H = self.problem.I, self.problem.H
        answers.update({"dx": dx, "dc0": dc0, "dh0": dh0, "dW": dw[:I].T.reshape(4, H, I)[BLOCK], "dR": dw[I:].T.reshape(4, H, H)[BLOCK],
                        "db": db.reshape(4, H)[BLOCK], "dpeep": numpy.stack([dwci, dwcf, dwco])})
        return answers


class Keras:
    """A network by keras.layers.LSTM, SimpleRNN, or GRU, whose reset gate acts after the product or before it."""

    def __init__(self, problem):
        self.problem, n, kind = problem, read_numbers(problem), KINDS[problem.dtype]
        self.order = KERAS[problem.G]
        common = {"return_sequences": True, "return_state": True, "dtype": kind, "recurrent_initializer": "zeros"}
        if problem.G == 4:
            self.layer = tf.keras.layers.LSTM(problem.H, **common)
        elif problem.G == 3:
            self.layer = tf.keras.layers.GRU(problem.H, reset_after=problem.cell == "gru", **common)
        else:
            self.layer = tf.keras.layers.SimpleRNN(problem.H, **common)
        self.x = tf.Variable(n["x"].transpose(1, 0, 2), dtype=kind)
        self.states = [tf.Variable(n[name], dtype=kind) for name in ("h0", "c0") if name in n]
        self.layer(self.x, initial_state=self.states)
        both = [n["bW"][self.order].reshape(-1), n["bR"][self.order].reshape(-1)]
        bias = numpy.stack(both) if problem.cell == "gru" else both[0] + both[1]
        self.layer.set_weights([n["W"][self.order].reshape(-1, problem.I).T, n["R"][self.order].reshape(-1, problem.H).T, bias])
        self.dy = tf.constant(n["dy"].transpose(1, 0, 2), dtype=kind)
        self.d_last = [tf.constant(n[name], dtype=kind) for name in ("dh_n", "dc_n") if name in n]
        self.call = tf.function(self.compute)
        self.about = type(self.layer).__name__

    def compute(self):
        if not self.problem.grad:
            return (*self.layer(self.x, initial_state=self.states), ())
        with tf.GradientTape() as tape:
            y, *last = self.layer(self.x, initial_state=self.states, training=True)
        wanted = [self.x, *self.states, *(weight.value for weight in self.layer.trainable_weights)]
        targets, upstream = (last, self.d_last) if self.problem.last else ([y, *last], [self.dy, *self.d_last])
        return y, *last, tape.gradient(targets, wanted, output_gradients=upstream)

    def run(self):
        self.out = self.call()
        wait(self.out)

    def answers(self):
        y, *last, gradients = self.out
        answers = {"y": read(y).transpose(1, 0, 2), **{name: read(state) for name, state in zip(("h_n", "c_n"), last)}}
        if not self.problem.grad:
            return answers
        dx, *states, dw, dr, db = (read(gradient) for gradient in gradients)
        I, H, G = self.problem.I, self.problem.H, self.problem.G
        db = db.reshape(-1, G, H)[:, self.order]
        answers.update({"dx": dx.transpose(1, 0, 2), **dict(zip(("dh0", "dc0"), states)), "dW": dw.T.reshape(G, H, I)[self.order],
                        "dR": dr.T.reshape(G, H, H)[self.order], "db": db[0], "dbR": db[-1]})
        return answers


def read(tensor):
    return tf.cast(tf.convert_to_tensor(tensor), tf.float32).numpy()


def wait(out):
    """Waits until the results of a call are computed: reads some elements of each tensor, since a call may return a tensor before its
    elements are computed."""
    *outputs, gradients = out
    for tensor in (*outputs, *gradients):
        tf.convert_to_tensor(tensor)[..., :1].numpy()


def make_networks(problem):
    """Returns the networks that can compute the problem."""
    networks = []
    if problem.has_c and problem.dtype in BLOCK_DTYPES:
        networks.append(Block(problem))
    if not problem.peephole and problem.cell != "block_lstm":
        networks.append(Keras(problem))
    return networks


def measure(network):
    network.run()
    return min(time_calls(network.run, TRIAL))


def main():
    problem = read_problem()
    tf.config.set_visible_devices([], "GPU")
    tf.config.threading.set_intra_op_parallelism_threads(problem.threads)
    tf.config.threading.set_inter_op_parallelism_threads(problem.threads)
    networks = make_networks(problem)
    if not networks:
        decline(f"has no {problem.cell} in {problem.dtype}")
    network = min(networks, key=measure)
    settings = {"threads": tf.config.threading.get_intra_op_parallelism_threads(), "op": network.about, "function": "tf.function"}
    serve(problem, "tensorflow", tf.__version__, settings, network.run, network.answers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
