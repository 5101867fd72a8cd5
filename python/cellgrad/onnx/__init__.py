# SPDX-License-Identifier: Apache-2.0
"""ONNX's recurrent operators, computed by cellgrad: an evaluator of models, and layers to train.

>>> import cellgrad.onnx, numpy as np
>>> layer = cellgrad.onnx.Layer("LSTM", np.zeros((1, 16, 3), np.float32), np.zeros((1, 16, 4), np.float32))
>>> layer.forward(np.ones((5, 2, 3), np.float32)).Y.shape
(5, 1, 2, 4)

`evaluator` is ONNX's reference evaluator with the LSTM, GRU and RNN of this package; `Backend` implements ONNX's backend interface; `Layer`
is one LSTM, GRU or RNN node, forward and backward; `read_layer` reads a layer from a model, and `write_layer` writes the layer's weights
back.
"""
from ._evaluator import GRU, LSTM, RNN, Backend, Prepared, evaluator
from ._layer import Layer, LayerGradients, LayerRun
from ._model import read_layer, write_layer

__all__ = ["Backend", "GRU", "LSTM", "Layer", "LayerGradients", "LayerRun", "Prepared", "RNN", "evaluator", "read_layer", "write_layer"]
