#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A Keras model with LSTM layers, trained twice from the same weights: by Keras's own layers and by cellgrad's kernels.

	pip install 'cellgrad[tensorflow]'
	python3 keras_lstm.py

After `enable_keras`, Keras's LSTM layers call CudnnRNNV3, as they do on a GPU.  The losses of both trainings differ by rounding alone; this
program checks that they differ by less than 1e-5 of their size, and that the loss falls.
"""
import sys

import keras
import numpy as np
import tensorflow as tf

import cellgrad.tensorflow

T, ROWS, WIDTH, UNITS, EPOCHS = 20, 64, 3, 16, 5


def losses():
    """Returns the losses of all epochs of a new model."""
    keras.utils.set_random_seed(1)
    layers = [keras.layers.Input((T, WIDTH)), keras.layers.LSTM(UNITS, return_sequences=True), keras.layers.LSTM(UNITS), keras.layers.Dense(1)]
    model = keras.Sequential(layers)
    model.compile("adam", "mse")
    x = np.random.default_rng(2).normal(size=(ROWS, T, WIDTH)).astype(np.float32)
    return np.array(model.fit(x, x.sum((1, 2))[:, None] / T, epochs=EPOCHS, batch_size=16, shuffle=False, verbose=0).history["loss"])


def main():
    """Trains by Keras's own layers and by cellgrad's kernels, and compares the losses."""
    theirs = losses()
    cellgrad.tensorflow.enable_keras()
    mine = losses()
    cellgrad.tensorflow.disable_keras()
    worst = float((abs(mine - theirs) / theirs).max())
    print(f"TensorFlow {tf.__version__}, Keras {keras.__version__}: loss {mine[0]:.4f} to {mine[-1]:.4f}, within {worst:.1e} of Keras's own")
    return 0 if worst < 1e-5 and mine[-1] < mine[0] else 1


if __name__ == "__main__":
    sys.exit(main())
