#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Continues the training of the recurrent node of an ONNX model: reads its weights from a model's file, and writes another file.

	onnx_train.py MODEL.onnx DATA.npz OUT.onnx [STEPS]

MODEL has one LSTM, GRU or RNN node, whose attributes cellgrad.onnx supports and whose weights are initializers.  DATA has X, with the shape
of the node's input, and target, with the shape of its output Y.  The loss is half the mean square of Y - target.  Other nodes of the model
are not changed; OUT runs wherever MODEL does.
"""
import sys

import numpy as np
import onnx

import cellgrad.onnx

RATE, DECAY, TINY = 0.01, (0.9, 0.999), 1e-8


class Adam:
    """Adam (Kingma and Ba 2015), which updates one array in place."""

    def __init__(self, params):
        self.params, self.step = params, 0
        self.mean, self.square = np.zeros_like(params), np.zeros_like(params)

    def descend(self, gradient):
        self.step += 1
        for moment, decay, new in zip((self.mean, self.square), DECAY, (gradient, gradient * gradient)):
            moment *= decay
            moment += (1 - decay) * new
        mean, square = (moment / (1 - decay**self.step) for moment, decay in zip((self.mean, self.square), DECAY))
        self.params -= RATE * mean / (np.sqrt(square) + TINY)


def main(path, data, out, steps="100"):
    model = onnx.load(path)
    with np.load(data) as arrays:
        X, target = arrays["X"], arrays["target"]
    layer = cellgrad.onnx.read_layer(model)
    optimizers = [Adam(params) for params in layer.params]          # one optimizer for each direction
    for step in range(int(steps) + 1):
        run = layer.forward(X)
        missing = run.Y - target
        if step % 10 == 0:
            print(f"step {step} loss {0.5 * np.mean(np.square(missing, dtype=np.float64)):.6f}")
        if step < int(steps):
            gradients = layer.backward(run, d_Y=missing / missing.dtype.type(missing.size))
            for optimizer, gradient in zip(optimizers, gradients.params):
                optimizer.descend(gradient)
    cellgrad.onnx.write_layer(model, layer)
    onnx.save(model, out)


if __name__ == "__main__":
    if len(sys.argv) not in (4, 5):
        sys.exit(__doc__)
    main(*sys.argv[1:])
