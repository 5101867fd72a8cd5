#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Keras's recurrent layers, run by the TensorFlow plugin, have the answers and gradients of Keras's own code, with masks and in training.
Prints TAP."""
import importlib
import os
import tempfile
import unittest
import unittest.mock

import tensorflow_tap

import keras
import numpy as np
import tensorflow as tf

import cellgrad
import cellgrad.tensorflow
from cellgrad.tensorflow import bench

T, B, I, U = 7, 4, 3, 5
calls = []


def counted(original):
    def call(*arguments, **keywords):
        calls.append(1)
        return original(*arguments, **keywords)
    return call


def results(make, mask, x):
    """Returns the outputs of a layer, and the gradients of the input and the weights."""
    keras.utils.set_random_seed(1)
    layer = make()
    layer(x)
    variables = [variable.value for variable in layer.trainable_variables]
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = layer(x, mask=mask)
        # The test sets the outputs of masked steps to 0, as CudnnRNN does; Keras's own code repeats the last output at these steps.
        y = y if mask is None or len(y.shape) == 2 else y * tf.cast(mask, y.dtype)[:, :, None]
        loss = tf.reduce_sum(tf.sin(y))
    return [y, *tape.gradient(loss, [x, *variables])]


class Layers(unittest.TestCase):
    def tearDown(self):
        cellgrad.tensorflow.disable_keras()

    def replaced(self):
        """Returns the functions of Keras's module that enable_keras replaces."""
        rnn = importlib.import_module("keras.src.backend.tensorflow.rnn")
        return [getattr(rnn, name) for name in ("_is_gpu_available", "_cudnn_lstm", "_cudnn_gru")]

    def test_layers(self):
        """LSTM and GRU, forwards, backwards and Bidirectional, all steps or the last, with a mask or none, equal Keras's own to 2e-6"""
        layers = keras.layers
        x = tf.constant(np.random.default_rng(1).normal(size=(B, T, I)), tf.float32)
        mask = tf.sequence_mask([3, 7, 1, 5], T)
        worst = 0.0
        for kind in (layers.LSTM, layers.GRU):
            for all_steps in (False, True):
                for make in (lambda k=kind, a=all_steps: k(U, return_sequences=a),
                             lambda k=kind, a=all_steps: k(U, return_sequences=a, go_backwards=True),
                             lambda k=kind, a=all_steps: layers.Bidirectional(k(U, return_sequences=a))):
                    for masked in (None, mask):
                        theirs = results(make, masked, x)
                        cellgrad.tensorflow.enable_keras()
                        calls.clear()
                        with unittest.mock.patch.object(tf.raw_ops, "CudnnRNNV3", counted(tf.raw_ops.CudnnRNNV3)):
                            mine = results(make, masked, x)
                        self.assertTrue(calls)
                        cellgrad.tensorflow.disable_keras()
                        for a, b in zip(theirs, mine):
                            self.assertEqual(a.shape, b.shape)
                            worst = max(worst, float(tf.reduce_max(tf.abs(a - b)) / tf.maximum(1.0, tf.reduce_max(tf.abs(a)))))
        print(f"# at worst {worst:.1e}")
        self.assertLess(worst, 2e-6)

    def test_fit(self):
        """The losses of a model's fit equal those by Keras's own code to 1e-4"""
        rng = np.random.default_rng(2)
        x, y = rng.normal(size=(32, T, I)).astype(np.float32), rng.normal(size=(32, 1)).astype(np.float32)

        def losses():
            keras.utils.set_random_seed(3)
            model = keras.Sequential([keras.layers.Input((T, I)), keras.layers.Bidirectional(keras.layers.LSTM(U, return_sequences=True)),
                                      keras.layers.GRU(U), keras.layers.Dense(1)])
            model.compile("adam", "mse")
            return model.fit(x, y, epochs=3, batch_size=8, shuffle=False, verbose=0).history["loss"]

        theirs = losses()
        cellgrad.tensorflow.enable_keras()
        np.testing.assert_allclose(losses(), theirs, rtol=1e-4)

    def test_mixed_precision(self):
        """Layers with the mixed-precision policies and in float64 train, and the model in float64 predicts the same bits when it is loaded"""
        rng = np.random.default_rng(4)
        x, y = rng.normal(size=(8, T, I)), np.ones((8, 1))
        cellgrad.tensorflow.enable_keras()
        for policy in ("mixed_float16", "mixed_bfloat16", "float64"):
            layers = [keras.layers.Input((T, I)), keras.layers.LSTM(U, dtype=policy), keras.layers.Dense(1, dtype=policy)]
            model = keras.Sequential(layers)
            model.compile("adam", "mse")
            losses = model.fit(x, y, epochs=8, verbose=0).history["loss"]
            self.assertLess(losses[-1], losses[0], policy)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "model.keras")
            model.save(path)
            np.testing.assert_array_equal(keras.models.load_model(path).predict(x, verbose=0), model.predict(x, verbose=0))

    def test_left_padded(self):
        """With a mask that is not right-padded, fit raises Keras's error, and a direct call has the answer of Keras's own code"""
        x = np.random.default_rng(5).normal(size=(B, T, I)).astype(np.float32)
        x[:, :2] = 0
        layer = keras.layers.LSTM(U)
        theirs = layer(x, mask=(x != 0).any(-1))
        cellgrad.tensorflow.enable_keras()
        np.testing.assert_allclose(layer(x, mask=(x != 0).any(-1)), theirs, atol=1e-6)
        model = keras.Sequential([keras.layers.Input((T, I)), keras.layers.Masking(), keras.layers.LSTM(U)])
        model.compile("adam", "mse")
        with self.assertRaisesRegex(tf.errors.InvalidArgumentError, "does not correspond to right-padded sequences"):
            model.fit(x, np.zeros((B, U)), verbose=0)

    def test_restored(self):
        """disable_keras restores Keras, and enable_keras and disable_keras may be called twice"""
        before = self.replaced()
        cellgrad.tensorflow.enable_keras()
        cellgrad.tensorflow.enable_keras()
        for mine, theirs in zip(self.replaced(), before):
            self.assertIsNot(mine, theirs)
        cellgrad.tensorflow.disable_keras()
        cellgrad.tensorflow.disable_keras()
        self.assertEqual(self.replaced(), before)

    def test_self_check(self):
        """If the order of a GRU's gates is wrong, enable_keras raises an error and leaves Keras unchanged"""
        before = self.replaced()
        with unittest.mock.patch("cellgrad.tensorflow._keras.GRU_GATES", (0, 1, 2)):
            with self.assertRaisesRegex(cellgrad.UnsupportedError, "enable_keras: GRU of Keras .* differs by"):
                cellgrad.tensorflow.enable_keras()
        self.assertEqual(self.replaced(), before)

    def test_versions(self):
        """enable_keras refuses a version of Keras that was not tried, unless CELLGRAD_TF_FORCE=1"""
        with unittest.mock.patch.object(keras, "__version__", "9.1.0"):
            with self.assertRaisesRegex(cellgrad.UnsupportedError, "this is Keras 9.1.0: CELLGRAD_TF_FORCE=1 tries it"):
                cellgrad.tensorflow.enable_keras()
            with unittest.mock.patch.dict("os.environ", CELLGRAD_TF_FORCE="1"):
                cellgrad.tensorflow.enable_keras()

    def test_bench(self):
        """The Keras steps that bench times have the same answers by Keras's own code and by CudnnRNNV3"""
        for kind, mode, gates in (("LSTM", "lstm", 4), ("GRU", "gru", 3)):
            def results(kind=kind):
                keras.utils.set_random_seed(1)
                output, gradients = bench.keras_step(kind, (T, B, I, U))()
                return [output, *gradients]

            theirs = results()
            cellgrad.tensorflow.enable_keras()
            mine = results()
            cellgrad.tensorflow.disable_keras()
            self.assertEqual(len(mine), 5)
            for a, b in zip(mine, theirs):
                np.testing.assert_allclose(a, b, atol=2e-6)
            output, (by_x, by_params) = bench.network_step(mode, (T, B, I, U))()
            self.assertEqual([output.shape, by_x.shape, by_params.shape], [[T, B, U], [T, B, I], [gates * U * (I + U + 2)]])

    def test_absent(self):
        """enable_keras raises an error if there is no Keras"""
        with unittest.mock.patch.dict("sys.modules", keras=None):
            with self.assertRaisesRegex(cellgrad.UnsupportedError, "enable_keras: there is no Keras: "):
                cellgrad.tensorflow.enable_keras()


if __name__ == "__main__":
    tensorflow_tap.main()
