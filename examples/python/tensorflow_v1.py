#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A TensorFlow 1 graph with CudnnRNN ops, as CudnnLSTM of tf.contrib made them: trained on the processor, saved and loaded again.

	pip install tensorflow-cpu cellgrad-tensorflow
	python3 tensorflow_v1.py

The code below does not name cellgrad, whose kernels are registered when TensorFlow is imported.  Without the wheel cellgrad-tensorflow, an
`import cellgrad.tensorflow` at the beginning registers the kernels; without the wheel and the import, the graph needs a GPU.
The graph is trained in a session and saved as a SavedModel.  This program checks that the SavedModel, loaded into another graph, gives the
same answers; that its training continues with the same losses; and that its parameters, split into matrices and biases and joined again,
are unchanged.
"""
import os
import sys
import tempfile

import numpy as np
import tensorflow.compat.v1 as tf

LAYERS, UNITS, WIDTH, T, ROWS, STEPS = 2, 16, 3, 20, 8, 40
SIZES = {"num_layers": LAYERS, "num_units": UNITS, "input_size": WIDTH, "rnn_mode": "lstm"}
# Each layer has four matrices for its input, four for its hidden state, and eight biases.
TENSORS = 8 * LAYERS


def build():
    """Adds the model to the default graph.  The model learns to repeat its input three steps later."""
    x = tf.placeholder(tf.float32, [None, None, WIDTH], "x")
    target = tf.placeholder(tf.float32, [None, None, WIDTH], "target")
    size = tf.raw_ops.CudnnRNNParamsSize(T=tf.float32, S=tf.int32, **SIZES)
    opaque = tf.get_variable("opaque_kernel", initializer=tf.random_uniform(size, -0.2, 0.2, seed=1), validate_shape=False)
    state = tf.zeros(tf.stack([LAYERS, tf.shape(x)[1], UNITS]))
    run = tf.raw_ops.CudnnRNN(input=x, input_h=state, input_c=state, params=opaque, rnn_mode="lstm")
    last = tf.get_variable("last", initializer=tf.random_uniform([UNITS, WIDTH], -0.2, 0.2, seed=2))
    answer = tf.identity(tf.einsum("tbu,ui->tbi", run.output, last), "answer")
    loss = tf.reduce_mean(tf.square(answer - target), name="loss")
    tf.train.AdamOptimizer(0.01).minimize(loss, name="train")
    lists = tf.raw_ops.CudnnRNNParamsToCanonical(params=opaque, num_params=TENSORS, **SIZES)
    again = tf.raw_ops.CudnnRNNCanonicalToParams(weights=lists.weights, biases=lists.biases, **SIZES)
    tf.reduce_all(tf.equal(opaque, again), name="is_equal")


def train(session, feed, steps):
    """Trains for some steps, and returns their losses."""
    return [session.run(["loss:0", "train"], feed)[0] for _ in range(steps)]


def save(session, folder):
    """Writes a SavedModel that has the whole graph, as programs for TensorFlow 1 do."""
    graph = session.graph
    inputs, outputs = {"x": graph.get_tensor_by_name("x:0")}, {"answer": graph.get_tensor_by_name("answer:0")}
    builder = tf.saved_model.Builder(folder)
    signature = tf.saved_model.predict_signature_def(inputs, outputs)
    builder.add_meta_graph_and_variables(session, [tf.saved_model.tag_constants.SERVING], {"serving_default": signature})
    builder.save()


def main():
    """Trains, saves, loads and compares."""
    tf.disable_eager_execution()
    x = np.random.default_rng(0).uniform(-1, 1, (T, ROWS, WIDTH)).astype(np.float32)
    feed = {"x:0": x, "target:0": np.concatenate([np.zeros_like(x[:3]), x[:-3]])}
    with tempfile.TemporaryDirectory() as room, tf.Graph().as_default(), tf.Session() as session:
        build()
        session.run(tf.global_variables_initializer())
        losses = train(session, feed, STEPS)
        answer, is_equal = session.run(["answer:0", "is_equal:0"], feed)
        folder = os.path.join(room, "model")
        save(session, folder)
        on = train(session, feed, 3)
        with tf.Graph().as_default(), tf.Session() as loaded:
            tf.saved_model.load(loaded, [tf.saved_model.tag_constants.SERVING], folder)
            is_same = np.array_equal(answer, loaded.run("answer:0", feed))
            goes_on = np.array_equal(on, train(loaded, feed, 3))
    print(f"loss {losses[0]:.4f} to {losses[-1]:.4f}; the loaded model has {'' if is_same else 'NOT '}the same answers and trains on "
          f"{'' if goes_on else 'NOT '}alike; its {2 * TENSORS} matrices and biases are {'' if is_equal else 'NOT '}its parameters")
    return 0 if losses[-1] < 0.9 * losses[0] and is_same and goes_on and is_equal else 1


if __name__ == "__main__":
    sys.exit(main())
