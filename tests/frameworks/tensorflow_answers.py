#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""TensorFlow's CudnnRNN ops, run by the plugin, have the answers of tests/data, with gradients by TensorFlow's own tape: CudnnRNNV3 in four
dtypes, and in tf.function in float64 and float32; the other versions in float64.  A model with these ops can be saved and loaded, and they
run in sessions, in threads and on empty tensors.  Prints TAP."""
import glob
import os
import tempfile
import threading
import unittest

import tensorflow_tap
from py_tap import DATA

import numpy as np
import tensorflow as tf

import cellgrad.tensorflow
from py_answers import read

ops = tf.raw_ops
# The largest difference that is allowed from an answer of tests/data, which is in float64, divided by the answer's largest magnitude, or
# by 1 if that is larger.
TOLERANCE = {"float64": 1e-14, "float32": 2e-6, "float16": 6e-3, "bfloat16": 5e-2}
NUMBERS = ("dropout", "num_proj", "seed", "seed2")


def cases():
    """Yields the name, the tensors and the attributes of each network in tests/data/CudnnRNNV3-*."""
    for path in sorted(glob.glob(os.path.join(DATA, "CudnnRNNV3-*.safetensors"))):
        tensors, metadata = read(path)
        attributes = {name: float(metadata[name]) if name == "dropout" else int(metadata[name]) for name in NUMBERS if name in metadata}
        attributes.update({name: metadata[name] for name in ("rnn_mode", "input_mode", "direction") if name in metadata})
        if "time_major" in metadata:
            attributes["time_major"] = metadata["time_major"] not in ("false", "0")
        yield os.path.basename(path)[11:-12], tensors, attributes


def forward(version, tensors, attributes):
    """Runs CudnnRNN, CudnnRNNV2 or CudnnRNNV3; returns output, output_h and, for an LSTM, output_c."""
    more = {} if "input_c" in tensors else {"input_c": tf.zeros([], tensors["input"].dtype)}
    keys = ("input", "input_h", "input_c", "params") + (("sequence_lengths",) if version == "V3" else ())
    run = getattr(ops, "CudnnRNN" + ("" if version == "V1" else version))
    done = run(**{key: {**tensors, **more}[key] for key in keys}, **attributes)
    return [done.output, done.output_h] + ([done.output_c] if "input_c" in tensors else [])


def differentiate(version, tensors, attributes):
    """Returns a network's outputs, and the tape's gradients of input, input_h, input_c and params, for the stored upstream gradients."""
    by = [key for key in ("input", "input_h", "input_c", "params") if key in tensors]
    with tf.GradientTape() as tape:
        for key in by:
            tape.watch(tensors[key])
        outputs = forward(version, tensors, attributes)
    above = [tensors[key] for key in ("output_backprop", "output_h_backprop", "output_c_backprop") if key in tensors]
    return outputs, tape.gradient(outputs, [tensors[key] for key in by], output_gradients=above)


def names_of(tensors):
    return [key for key in ("output", "output_h", "output_c", "input_backprop", "input_h_backprop", "input_c_backprop", "params_backprop")
            if key in tensors]


def worst(found, wanted):
    """Returns the largest absolute difference, divided by the largest magnitude of the wanted numbers, or by 1 if 1 is larger."""
    found, wanted = np.asarray(tf.cast(found, tf.float64)), np.asarray(wanted)
    return float(np.abs(found - wanted).max() / max(1.0, np.abs(wanted).max())) if wanted.size else 0.0


def as_tensors(arrays, dtype):
    return {key: tf.constant(array, tf.int32) if key == "sequence_lengths" else tf.cast(tf.constant(array), dtype)
            for key, array in arrays.items()}


def small(T=4, B=3, I=2, U=5, L=2, D=1, dtype=tf.float32, mode="lstm"):
    """Makes the input tensors of a small network, of random numbers."""
    rng = np.random.default_rng(7)
    size = int(ops.CudnnRNNParamsSize(num_layers=L, num_units=U, input_size=I, T=dtype, S=tf.int32, rnn_mode=mode,
                                      direction="bidirectional" if D == 2 else "unidirectional")[0])
    shapes = {"input": (T, B, I), "input_h": (L * D, B, U), "input_c": (L * D, B, U), "params": (size,)}
    return {key: tf.constant(rng.uniform(-0.5, 0.5, shape), dtype) for key, shape in shapes.items()}


class Answers(unittest.TestCase):
    def check(self, version, dtype, in_function):
        count, at_worst = 0, 0.0
        for name, arrays, attributes in cases():
            whole = "sequence_lengths" not in arrays or (arrays["sequence_lengths"] == arrays["input"].shape[0]).all()
            if version != "V3" and not (whole and not attributes.get("num_proj") and attributes.get("time_major", True)):
                continue
            given = dict(attributes)
            if version != "V3":
                given = {name: value for name, value in attributes.items() if name not in ("time_major", "num_proj")}
            elif "sequence_lengths" not in arrays:
                T, B = arrays["input"].shape[:2] if attributes.get("time_major", True) else arrays["input"].shape[1::-1]
                arrays["sequence_lengths"] = np.full(B, T, np.int32)
            run = (lambda t, g=given: differentiate(version, t, g))
            outputs, gradients = (tf.function(run) if in_function else run)(as_tensors(arrays, dtype))
            for key, tensor in zip(names_of(arrays), [*outputs, *gradients]):
                error = worst(tensor, arrays[key])
                self.assertEqual(tuple(tensor.shape), arrays[key].shape, f"{name}: {key}")
                self.assertLessEqual(error, TOLERANCE[dtype.name], f"{name}: {key}")
                count, at_worst = count + 1, max(at_worst, error)
        print(f"# {version} {dtype.name}{' in tf.function' if in_function else ''}: {count} tensors, at worst {at_worst:.2e}")
        return count

    def test_data(self):
        """CudnnRNNV3 has the outputs, and the tape the gradients, of all networks of tests/data/CudnnRNNV3-*, in four dtypes"""
        for dtype in (tf.float64, tf.float32, tf.float16, tf.bfloat16):
            self.assertGreaterEqual(self.check("V3", dtype, False), 190)

    def test_data_in_function(self):
        """CudnnRNNV3 and the tape in tf.function have the answers of tests/data/CudnnRNNV3-*, in float64 and float32"""
        self.assertGreaterEqual(self.check("V3", tf.float64, True), 190)
        self.assertGreaterEqual(self.check("V3", tf.float32, True), 190)

    def test_versions(self):
        """CudnnRNN and CudnnRNNV2 have the stored answers of time-major networks with whole sequences and no projection"""
        for version in ("V1", "V2"):
            self.assertGreaterEqual(self.check(version, tf.float64, False), 40)

    def test_dropout(self):
        """The masks of dropout differ from call to call, and the input's gradient is, along one direction, the slope for the masks of its
        call"""
        tensors = small(L=2, dtype=tf.float64)
        attributes = {"dropout": 0.5, "seed": 3, "seed2": 5}
        x = tensors["input"]
        with tf.GradientTape() as tape:
            tape.watch(x)
            first = forward("V2", tensors, attributes)[0]
        by_x = tape.gradient(first, x)
        self.assertGreater(float(tf.reduce_max(tf.abs(first - forward("V2", tensors, attributes)[0]))), 1e-3)
        # Each loss of the difference quotient is computed in a new session: the first calls of all new kernels have the same dropout masks.
        step = tf.constant(np.random.default_rng(1).normal(size=x.shape))

        def first_call(way):
            with tf.Graph().as_default(), tf.compat.v1.Session() as session:
                constants = {key: tf.constant(np.asarray(tensor)) for key, tensor in tensors.items()}
                constants["input"] += way * 1e-6 * np.asarray(step)
                return session.run(tf.reduce_sum(forward("V2", constants, attributes)[0]))

        slope = (first_call(1) - first_call(-1)) / 2e-6
        self.assertAlmostEqual(slope, float(tf.reduce_sum(by_x * step)), places=6)

    def test_not_training(self):
        """With is_training=False outputs are those without dropout, and reserve_space is a scalar"""
        tensors = small()
        run = ops.CudnnRNNV2(**tensors, is_training=False, dropout=0.5)
        self.assertEqual(run.reserve_space.shape, [])
        np.testing.assert_array_equal(run.output, forward("V2", tensors, {})[0])

    def test_canonical(self):
        """Parameters converted to canonical weights and back are the same, in V1, and in V2 with a projection; both make the same lists"""
        for mode, gates in (("lstm", 4), ("gru", 3), ("rnn_tanh", 1)):
            sizes = {"num_layers": 2, "num_units": 5, "input_size": 3}
            more = {"rnn_mode": mode, "direction": "bidirectional"}
            size = ops.CudnnRNNParamsSize(**sizes, T=tf.float32, S=tf.int64, **more)
            params = tf.range(int(size[0]), dtype=tf.float32)
            self.assertEqual((size.dtype, size.shape), (tf.int64, [1]))
            n = 2 * 2 * gates * 2
            lists = ops.CudnnRNNParamsToCanonical(**sizes, params=params, num_params=n, **more)
            again = ops.CudnnRNNCanonicalToParams(**sizes, weights=lists.weights, biases=lists.biases, **more)
            np.testing.assert_array_equal(params, again)
            self.assertEqual(lists.weights[0].shape, [5, 3])
            second = ops.CudnnRNNParamsToCanonicalV2(**sizes, params=params, num_params_weights=n, num_params_biases=n, **more)
            for a, b in zip([*lists.weights, *lists.biases], [*second.weights, *second.biases]):
                np.testing.assert_array_equal(a, b)
        size = ops.CudnnRNNParamsSize(**sizes, T=tf.float16, S=tf.int32, num_proj=2)
        params = tf.cast(tf.range(int(size[0])), tf.float16)
        lists = ops.CudnnRNNParamsToCanonicalV2(**sizes, params=params, num_params_weights=18, num_params_biases=16, num_proj=2)
        self.assertEqual(lists.weights[8].shape, [2, 5])
        again = ops.CudnnRNNCanonicalToParamsV2(**sizes, weights=lists.weights, biases=lists.biases, num_proj=2)
        np.testing.assert_array_equal(params, again)

    def test_empty(self):
        """With 0 steps or a batch of 0 sequences, final states are the initial states, and the gradient of params is zeros"""
        for T, B in ((0, 3), (4, 0), (0, 0)):
            for mode in ("lstm", "gru"):
                tensors = small(T=T, B=B, mode=mode)
                if mode == "gru":
                    del tensors["input_c"]
                tensors["sequence_lengths"] = tf.fill([B], T)
                tensors["output_backprop"] = tf.ones([T, B, 5])
                tensors["output_h_backprop"] = tf.ones([2, B, 5])
                if mode == "lstm":
                    tensors["output_c_backprop"] = tf.ones([2, B, 5])
                outputs, gradients = differentiate("V3", tensors, {"rnn_mode": mode})
                self.assertEqual(outputs[0].shape, [T, B, 5])
                np.testing.assert_array_equal(outputs[1], tensors["input_h"])
                if mode == "lstm":
                    np.testing.assert_array_equal(outputs[2], tensors["input_c"])
                self.assertEqual(float(tf.reduce_sum(tf.abs(gradients[-1]))), 0.0)
                np.testing.assert_array_equal(gradients[1], tf.ones([2, B, 5]))

    def test_saved_model(self):
        """A SavedModel that is loaded in another process gives the same bits"""
        tensors = small()

        class Model(tf.Module):
            def __init__(self):
                super().__init__()
                self.params = tf.Variable(tensors["params"])

            @tf.function(input_signature=[tf.TensorSpec([None, 3, 2])])
            def __call__(self, x):
                return forward("V2", {**tensors, "input": x, "params": self.params}, {})[0]

        model = Model()
        with tempfile.TemporaryDirectory() as folder:
            tf.saved_model.save(model, folder)
            np.save(os.path.join(folder, "wanted.npy"), model(tensors["input"]))
            np.save(os.path.join(folder, "input.npy"), tensors["input"])
            status, words = tensorflow_tap.python("-c", f"""
import numpy as np, tensorflow as tf, cellgrad.tensorflow
folder = {folder!r}
found = tf.saved_model.load(folder)(np.load(folder + "/input.npy"))
print("equal:", bool((np.asarray(found) == np.load(folder + "/wanted.npy")).all()))
""")
        self.assertEqual(status, 0, words)
        self.assertIn("equal: True", words)

    def test_session(self):
        """A training of 20 steps in a TensorFlow 1 session halves the loss, and no step raises it"""
        v1 = tf.compat.v1
        arrays = {key: np.asarray(tensor) for key, tensor in small().items()}
        with tf.Graph().as_default(), v1.Session() as session:
            tensors = {key: tf.constant(array) for key, array in arrays.items()}
            params = v1.get_variable("params", initializer=tensors["params"])
            loss = tf.reduce_mean(tf.square(forward("V1", {**tensors, "params": params}, {})[0] - 0.3))
            step = v1.train.GradientDescentOptimizer(1.0).minimize(loss)
            session.run(v1.global_variables_initializer())
            losses = [session.run([loss, step])[0] for _ in range(20)]
        self.assertLess(losses[-1], losses[0] / 2)
        self.assertEqual(losses, sorted(losses, reverse=True))

    def test_mixed_precision(self):
        """A network in float16 with variables in float32 has gradients in float32, near those of a network in float32"""
        tensors = small()
        params = tf.Variable(tensors["params"])

        def gradient(dtype):
            with tf.GradientTape() as tape:
                cast = {key: tf.cast(params if key == "params" else tensor, dtype) for key, tensor in tensors.items()}
                loss = tf.reduce_sum(tf.cast(forward("V2", cast, {})[0], tf.float32))
            return tape.gradient(loss, params)

        whole, half = gradient(tf.float32), gradient(tf.float16)
        self.assertEqual(half.dtype, tf.float32)
        self.assertLess(worst(half, np.asarray(whole, np.float64)), 1e-2)

    def test_threads(self):
        """Six threads, each with 20 forward passes and gradients of changing sizes, get the bits of one thread"""
        def results(k):
            tensors = small(T=3 + k % 3, B=1 + k % 4, dtype=tf.float32)
            with tf.GradientTape() as tape:
                tape.watch(tensors["params"])
                y = forward("V2", tensors, {})[0]
            return np.concatenate([np.ravel(y), np.ravel(tape.gradient(y, tensors["params"]))])

        wanted = [results(k) for k in range(12)]
        wrong, ended = [], []

        def work(first):
            wrong.extend(k for k in range(first, first + 20) if not np.array_equal(results(k % 12), wanted[k % 12]))
            ended.append(first)

        threads = [threading.Thread(target=work, args=(first,)) for first in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((wrong, len(ended)), ([], 6))

    def test_loaded(self):
        """The plugin says what it registered, and CudnnRNNV2 still runs after the plugin is loaded again"""
        self.assertEqual(cellgrad.tensorflow.load(), 11)
        self.assertIn("kernels of 11 ops are registered with TensorFlow " + tf.__version__, cellgrad.tensorflow.state())
        tf.load_library(cellgrad.tensorflow.plugin_path())
        self.assertEqual(len(forward("V2", small(), {})), 3)


if __name__ == "__main__":
    tensorflow_tap.main()
