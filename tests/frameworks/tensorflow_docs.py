#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The examples in every docstring of cellgrad.tensorflow and in its README.md run, and so does the Python code for Keras and TensorFlow in
docs/weights.md.  Every public function has an example.  Prints TAP."""
import os
import re

import tensorflow_tap
from tensorflow_tap import py_tap
import keras
import numpy as np
import tensorflow as tf
from framework_docs import documents, enter_folder, saved

import cellgrad
import cellgrad.tensorflow as ours


class Documents(documents(ours, 15)):
    def tearDown(self):
        ours.disable_keras()

    def test_versions(self):
        """The plugin, its README.md, the package's and pyproject.toml have the same range of versions of TensorFlow"""
        top = os.path.join(py_tap.PACKAGE, "..")

        def read(*path):
            with open(os.path.join(top, *path), encoding="utf-8") as file:
                return file.read()

        oldest, newest = re.search(r"CG_TF_OLDEST = (\d+), CG_TF_NEWEST = (\d+)", read("bindings", "tensorflow", "tf_api.h")).groups()
        words = " to ".join(f"{int(number) // 1000}.{int(number) % 1000}" for number in (oldest, newest))
        self.assertIn(f"TensorFlow {words}\n", read("python", "cellgrad", "tensorflow", "README.md"))
        self.assertIn(f"not one from {words};", read("bindings", "tensorflow", "README.md"))
        self.assertIn(f'"tensorflow>={words.split()[0]},<2.{int(newest) % 1000 + 1}"', read("pyproject.toml"))

    def test_keras_weights(self):
        """A network with the weights that the code in docs/weights.md saves has the output of the Keras model"""
        enter_folder(self)
        keras.utils.clear_session()  # so that the names of layers end in no number
        keras.utils.set_random_seed(1)
        layers = [keras.layers.LSTM(4, return_sequences=True, bias_initializer="uniform") for _ in range(2)]
        model = keras.Sequential([keras.layers.Bidirectional(layer) for layer in layers])
        x = np.random.default_rng(1).standard_normal((2, 5, 3), dtype=np.float32)
        output = model(x).numpy()
        tensors, params = saved(self, "Keras", {"model": model}, "--from", "keras", "--from-prefix", model.name + "/")
        self.assertEqual(len(tensors), 12)
        network = cellgrad.Network("lstm", input=3, units=4, layers=2, bidirectional=True, time_major=False)
        np.testing.assert_allclose(network.forward(params, x).output, output, atol=2e-6)

    def test_checkpoint(self):
        """The code in docs/weights.md saves the tensors of the cuDNN layers in a checkpoint of TensorFlow, and they can be converted"""
        enter_folder(self)
        network = cellgrad.Network("lstm", input=3, units=4, layers=2, bidirectional=True)
        draw = np.random.default_rng(1)
        given = {"cudnn_lstm/" + name: draw.standard_normal(shape, dtype=np.float32)
                 for name, shape in network.weight_shapes("checkpoint").items()}
        with tf.Graph().as_default(), tf.compat.v1.Session() as session:
            variables = [tf.compat.v1.get_variable(name, initializer=value) for name, value in {**given, "dense/bias": np.ones(3)}.items()]
            session.run(tf.compat.v1.global_variables_initializer())
            tf.compat.v1.train.Saver(variables).save(session, os.path.abspath("model.ckpt"))
        tensors, params = saved(self, "A checkpoint of TensorFlow", {}, "--from", "checkpoint", "--from-prefix", "cudnn_lstm/")
        self.assertEqual(set(tensors), set(given))
        np.testing.assert_array_equal(params, network.load_weights(given, "checkpoint", prefix="cudnn_lstm/"))


if __name__ == "__main__":
    tensorflow_tap.main()
