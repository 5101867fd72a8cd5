# SPDX-License-Identifier: Apache-2.0
"""`python -m cellgrad.tensorflow.bench`: times training steps by TensorFlow's own kernels, by the plugin and by `cellgrad bench`, and
prints a table in Markdown.

A step is a forward and a backward pass with the gradients of weights and input, without an optimizer.  Each step in TensorFlow is a
tf.function.  Keras's layers are timed with `enable_keras` and without; TensorFlow has no kernel of its own for CudnnRNNV3 on the processor;
BlockLSTM is timed by TensorFlow's kernel, and by the plugin's in a process with CELLGRAD_TF_BLOCK=1.  The command `cellgrad bench` times
the library alone, without Python and TensorFlow.  The steps run in turns, a while each, and the least time of each is printed.
"""
import argparse
import os
import subprocess
import sys
from typing import Any, Callable, Dict, List, Optional, Tuple

import numpy as np
import tensorflow as tf

from .._bench import Way, alone, in_turn, of_command
from . import disable_keras, enable_keras

# A size is the four numbers T, B, I, U.
Size = Tuple[int, int, int, int]
SIZES: Tuple[Size, ...] = ((100, 32, 64, 128), (100, 32, 512, 512))
Step = Callable[[], Any]


def size_of(text: str) -> Size:
    """Parses four numbers with commas between them.  Raises ValueError for a text that is not four numbers with commas between them."""
    T, B, I, U = map(int, text.split(","))
    return T, B, I, U


def numbers(*shape: int) -> Any:
    """Returns a variable with small numbers."""
    return tf.Variable(np.random.default_rng(1).uniform(-0.1, 0.1, shape).astype(np.float32))


def step_of(forward: Callable[[], Any], variables: List[Any], upstream: Any) -> Step:
    """Returns a compiled function: a forward pass, and the gradients of the variables from an upstream gradient of the output."""
    @tf.function
    def step() -> Any:
        with tf.GradientTape() as tape:
            output = forward()
        return output, tape.gradient(output, variables, output_gradients=upstream)

    step()
    made: Step = step
    return made


def keras_step(kind: str, size: Size) -> Step:
    """Returns a training step of a layer of Keras that returns the outputs of the whole sequence."""
    import keras
    T, B, I, U = size
    layer, x = getattr(keras.layers, kind)(U, return_sequences=True), numbers(B, T, I)
    layer.build(x.shape)
    return step_of(lambda: layer(x, training=True), [x, *(weight.value for weight in layer.trainable_variables)], numbers(B, T, U))


def network_step(mode: str, size: Size) -> Step:
    """Returns a training step by the op CudnnRNNV3."""
    T, B, I, U = size
    count = tf.raw_ops.CudnnRNNParamsSize(num_layers=1, num_units=U, input_size=I, T=tf.float32, S=tf.int32, rnn_mode=mode)
    x, params, state = numbers(T, B, I), numbers(int(count[0])), tf.zeros([1, B, U])
    given = {"input_h": state, "input_c": state if mode == "lstm" else tf.zeros([]), "sequence_lengths": tf.fill([B], T), "rnn_mode": mode}
    return step_of(lambda: tf.raw_ops.CudnnRNNV3(input=x, params=params, **given).output, [x, params], numbers(T, B, U))


def block_step(size: Size) -> Step:
    """Returns a training step by the op BlockLSTM, whose kernels are those that this process has."""
    T, B, I, U = size
    x, w, b, state, peephole = numbers(T, B, I), numbers(I + U, 4 * U), numbers(4 * U), tf.zeros([B, U]), tf.zeros([U])
    given = {"seq_len_max": tf.constant(T, tf.int64), "cs_prev": state, "h_prev": state, "wci": peephole, "wcf": peephole, "wco": peephole}
    return step_of(lambda: tf.raw_ops.BlockLSTM(x=x, w=w, b=b, **given).h, [x, w, b], numbers(T, B, U))


def in_process(size: Size, is_ours: bool) -> Way:
    """Returns a function that times training steps by BlockLSTM in a new process at each call, by the plugin's kernel if is_ours, else by
    TensorFlow's."""
    environment = {**os.environ, "CELLGRAD_TF_BLOCK": "1" if is_ours else "0", "TF_CPP_MIN_LOG_LEVEL": "3"}
    words = [sys.executable, "-m", "cellgrad.tensorflow.bench", "--block", ",".join(map(str, size)), "--seconds"]

    def way(seconds: float) -> float:
        return float(subprocess.run([*words, str(seconds)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True,
                                    text=True).stdout)

    return way


def ways_of(size: Size) -> Dict[str, Tuple[Optional[Way], Way, str]]:
    """Returns, by the name of each row of the table, TensorFlow's own step, or None; the plugin's step; and the op of `cellgrad bench`."""
    lstm, gru = "rnn rnn_mode=lstm", "rnn rnn_mode=gru"
    theirs = {kind: alone(keras_step(kind, size)) for kind in ("LSTM", "GRU")}
    enable_keras()
    ours = {kind: alone(keras_step(kind, size)) for kind in ("LSTM", "GRU")}
    disable_keras()
    return {
        "keras.layers.LSTM": (theirs["LSTM"], ours["LSTM"], lstm), "keras.layers.GRU": (theirs["GRU"], ours["GRU"], gru),
        "CudnnRNNV3, lstm": (None, alone(network_step("lstm", size)), lstm),
        "CudnnRNNV3, gru": (None, alone(network_step("gru", size)), gru),
        "BlockLSTM": (in_process(size, False), in_process(size, True), "BlockLSTM")}


def main(arguments: Optional[List[str]] = None) -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="python -m cellgrad.tensorflow.bench", description="the plugin beside TensorFlow's own kernels")
    parser.add_argument("--seconds", type=float, default=3.0, help="for each time of a row")
    parser.add_argument("--size", metavar="T,B,I,U", type=size_of, action="append", help="rather than the two of this file")
    parser.add_argument("--block", metavar="T,B,I,U", type=size_of, help="print the least time of BlockLSTM by this process's kernels, in seconds")
    given = parser.parse_args(arguments)
    os.environ["CELLGRAD_BACKEND"] = os.environ.get("CELLGRAD_BACKEND") or "cpu"
    if given.block:
        print(alone(block_step(given.block))(given.seconds))
        return 0
    print(f"TensorFlow {tf.__version__}, {os.cpu_count()} processors\n")
    print("| T, B, I, U | step | TensorFlow ms | cellgrad ms | ratio | cellgrad bench ms | over it, us |\n|---|---|---|---|---|---|---|")
    for size in given.size or SIZES:
        ways = ways_of(size)
        timed: Dict[str, Way] = {op: of_command(op, size) for _, _, op in ways.values()}
        timed.update({name + " ours": way[1] for name, way in ways.items()})
        timed.update({name + " theirs": way[0] for name, way in ways.items() if way[0]})
        best = in_turn(timed, given.seconds)
        for name, (_, _, op) in ways.items():
            first, taken, beside = best.get(name + " theirs", float("nan")), best[name + " ours"], best[op]
            beginning = f"none | {1e3 * taken:.3f} |" if first != first else f"{1e3 * first:.3f} | {1e3 * taken:.3f} | {taken / first:.2f}"
            print(f"| {', '.join(map(str, size))} | {name} | {beginning} | {1e3 * beside:.3f} | {1e6 * (taken - beside):.0f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
