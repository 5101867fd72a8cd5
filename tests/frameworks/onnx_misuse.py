#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wrong uses of cellgrad.onnx raise exceptions of cellgrad, whose messages have the words that these tests list; a message of the evaluator
about a node names the node.  Prints TAP."""
import unittest

import framework_tap

framework_tap.need("onnx", "ONNX")

import numpy as np  # noqa: E402
import onnx.numpy_helper  # noqa: E402

import cellgrad  # noqa: E402
import cellgrad.onnx  # noqa: E402
import onnx_cases  # noqa: E402

ARGUMENT, TYPE, UNSUPPORTED = cellgrad.ArgumentError, cellgrad.ArgumentTypeError, cellgrad.UnsupportedError


def f32(*shape):
    return np.zeros(shape, np.float32)


# Each row: the operator, attributes, inputs that replace right ones, the exception that a layer raises, and words of its message.
CALLS = [
    ("LSTM", {}, {"X": f32(4, 3, 5)}, ARGUMENT, "X: expected shape (4, 3, 3) [T, B, input], got (4, 3, 5)"),
    ("LSTM", {}, {"X": f32(4, 3)}, ARGUMENT, "X: expected 3 dimensions, got shape (4, 3)"),
    ("LSTM", {}, {"X": np.zeros((4, 3, 3))}, TYPE, "X: expected float32, got float64"),
    ("LSTM", {}, {"X": np.zeros((4, 3, 3), np.int64)}, TYPE, "X: expected float32, got int64"),
    ("LSTM", {"layout": 1}, {"X": f32(3, 4, 5)}, ARGUMENT, "X: expected shape (3, 4, 3) [B, T, input], got (3, 4, 5)"),
    ("LSTM", {"layout": 1}, {"initial_h": f32(1, 3, 2)}, ARGUMENT, "initial_h: expected shape (3, 1, 2) [B, D, U], got (1, 3, 2)"),
    ("LSTM", {"layout": 2}, {}, ARGUMENT, "layout: expected 0 to 1, got 2"),
    ("LSTM", {}, {"W": f32(1, 6, 3)}, ARGUMENT, "W: expected shape (1, 8, 3) [D, 4*U, input], got (1, 6, 3)"),
    ("LSTM", {}, {"W": f32(8, 3)}, ARGUMENT, "W: expected 3 dimensions"),
    ("LSTM", {}, {"W": np.zeros((1, 8, 3), np.int32)}, TYPE,
     "W: expected an array of float32, float64, float16 or bfloat16, got int32"),
    ("GRU", {}, {"R": f32(1, 8, 2)}, ARGUMENT, "R: expected shape (1, 6, 2) [D, 3*U, U]"),
    ("RNN", {"direction": "bidirectional"}, {"W": f32(1, 2, 3)}, ARGUMENT, "W: expected shape (2, 2, 3) [D, 1*U, input]"),
    ("LSTM", {}, {"R": np.zeros((1, 8, 2))}, TYPE, "R: expected float32, got float64"),
    ("LSTM", {}, {"R": f32(1, 0, 0)}, ARGUMENT, "units: expected 1 to"),
    ("LSTM", {}, {"B": f32(1, 8)}, ARGUMENT, "B: expected shape (1, 16) [D, 8*U], got (1, 8)"),
    ("LSTM", {}, {"P": f32(1, 2)}, ARGUMENT, "P: expected shape (1, 6) [D, 3*U], got (1, 2)"),
    ("LSTM", {}, {"initial_h": f32(1, 1, 2)}, ARGUMENT, "initial_h: expected shape (1, 3, 2) [D, B, U]"),
    ("LSTM", {}, {"initial_c": np.zeros((1, 3, 2))}, TYPE, "initial_c: expected float32"),
    ("LSTM", {}, {"sequence_lens": np.array([4, 5, 1], np.int32)}, ARGUMENT, "sequence_lens: expected 0 to 4, got 5 for row 1"),
    ("LSTM", {}, {"sequence_lens": np.array([4, -1, 1], np.int32)}, ARGUMENT, "sequence_lens: expected 0 to 4, got -1 for row 1"),
    ("LSTM", {}, {"sequence_lens": np.array([4], np.int32)}, ARGUMENT, "sequence_lens: expected shape (3,)"),
    ("LSTM", {}, {"sequence_lens": np.array([1.0, 2.0, 3.0])}, TYPE, "sequence_lens: expected integers, got float64"),
    ("LSTM", {"hidden_size": 3}, {}, ARGUMENT, "hidden_size: expected 2, the last dimension of R, got 3"),
    ("LSTM", {"direction": "backward"}, {}, ARGUMENT, "direction: expected one of forward, reverse, bidirectional; got 'backward'"),
    ("LSTM", {"clip": 0.0}, {}, ARGUMENT, "clip: expected a finite number above 0, got 0.0"),
    ("GRU", {"clip": -1.0}, {}, ARGUMENT, "clip: expected a finite number above 0, got -1.0"),
    ("GRU", {"clip": float("nan")}, {}, ARGUMENT, "clip: expected a number, got NaN"),
    ("RNN", {"clip": float("inf")}, {}, ARGUMENT, "clip: expected a finite number above 0, got inf"),
    ("LSTM", {"input_forget": 2}, {}, ARGUMENT, "input_forget: expected 0 to 1, got 2"),
    ("GRU", {"linear_before_reset": -1}, {}, ARGUMENT, "linear_before_reset: expected 0 to 1, got -1"),
    ("GRU", {"input_forget": 1}, {}, ARGUMENT, "GRU has no attribute 'input_forget'; it has activation_alpha"),
    ("RNN", {"wrong": 1}, {}, ARGUMENT, "RNN has no attribute 'wrong'"),
    ("LSTM", {"activations": ["Sigmoid", "Tanh"]}, {}, ARGUMENT, "activations: expected 3 names for each of 1 directions, got 2 in all"),
    ("GRU", {"activations": ["Sigmoid", "Swish"]}, {}, ARGUMENT, "activations: there is no 'Swish'; there are Affine"),
    ("RNN", {"activations": ["Affine"]}, {}, ARGUMENT, "activation_alpha: expected a value for Affine"),
    ("RNN", {"activations": ["ScaledTanh"], "activation_alpha": [1.0]}, {}, ARGUMENT, "activation_beta: expected a value for ScaledTanh"),
    ("RNN", {"activation_alpha": [1.0]}, {}, ARGUMENT, "activation_alpha: expected one value for each activation that takes one, got 1"),
    ("RNN", {"activations": ["Elu"], "activation_alpha": [float("inf")]}, {}, ARGUMENT,
     "activation_alpha: expected finite numbers, got inf"),
]
# Rows for layers alone: the operator, keyword arguments of a layer, the exception, and words of its message.
LAYERS = [
    ("Lstm", {}, ARGUMENT, "operator: expected one of LSTM, GRU, RNN; got 'Lstm'"),
    (3, {}, TYPE, "operator: expected str, got int"),
    ("LSTM", {"activations": "Tanh"}, TYPE, "activations: expected a list of str"),
    ("LSTM", {"activations": [1, 2, 3]}, TYPE, "activations: expected a list of str"),
    ("LSTM", {"activations": 3}, TYPE, "activations: expected a list of str, got int 3"),
    ("LSTM", {"activation_alpha": 0.5}, TYPE, "activation_alpha: expected a list of numbers, got float 0.5"),
    ("LSTM", {"activation_beta": ["a"]}, TYPE, "activation_beta: expected a number, got str 'a'"),
    ("LSTM", {"direction": b"forward"}, TYPE, "direction: expected str, got bytes"),
    ("LSTM", {"clip": "3"}, TYPE, "clip: expected a number, got str"),
    ("LSTM", {"layout": 0.5}, TYPE, "layout: expected an integer, got float"),
    ("LSTM", {"context": "cpu"}, TYPE, "context: expected a cellgrad.Context, got str"),
    ("GRU", {"P": f32(1, 6)}, ARGUMENT, "P: expected None, since GRU has no peepholes"),
]


def feeds_of(operator, attributes, changed):
    feeds = onnx_cases.feeds_of(np.random.default_rng(1), operator, attributes, np.float32, lengths=[4, 1, 2])
    feeds.update(changed)
    return feeds


class Misuse(unittest.TestCase):
    def test_layers(self):
        """Layers refuse wrong attributes, weights and arguments"""
        for operator, attributes, changed, kind, words in CALLS:
            with self.subTest(words=words):
                feeds = feeds_of(operator, attributes, changed)
                with self.assertRaises(kind) as caught:
                    layer = cellgrad.onnx.Layer(operator, feeds["W"], feeds["R"], feeds["B"], feeds.get("P"), **attributes)
                    layer.forward(feeds["X"], feeds["sequence_lens"], feeds["initial_h"], feeds.get("initial_c"))
                self.assertIn(words, str(caught.exception))
        for operator, attributes, kind, words in LAYERS:
            with self.subTest(words=words):
                feeds = feeds_of(operator if operator in onnx_cases.GATES else "LSTM", {}, {})
                with self.assertRaises(kind) as caught:
                    cellgrad.onnx.Layer(operator, feeds["W"], feeds["R"], **attributes)
                self.assertIn(words, str(caught.exception))
        for W, R, words in (([[[1.0]]], f32(1, 1, 1), "W: expected an array of float32, float64, float16 or bfloat16, got list"),
                            (f32(1, 1, 1), None, "R: expected an array of float32, got NoneType")):
            with self.assertRaises(TYPE) as caught:
                cellgrad.onnx.Layer("RNN", W, R)
            self.assertIn(words, str(caught.exception))

    def test_nodes(self):
        """A message of the evaluator begins with the operator and the node's name, also about wrong types"""
        for operator, attributes, changed, kind, words in CALLS:
            with self.subTest(words=words):
                feeds = feeds_of(operator, attributes, changed)
                said = {name: value for name, value in attributes.items() if name != "hidden_size"}
                node = onnx_cases.node_of(operator, {**feeds, "R": f32(1, 1, attributes.get("hidden_size", feeds["R"].shape[-1]))}, said)
                with self.assertRaises(cellgrad.Error) as caught:
                    cellgrad.onnx.evaluator(node).run(None, feeds)
                self.assertIsInstance(caught.exception, ARGUMENT if kind is TYPE else kind)
                self.assertTrue(str(caught.exception).startswith(f"{operator} node 'cell': "), caught.exception)
                self.assertIn(words, str(caught.exception))

    def test_opsets(self):
        """An LSTM of opset 1 or 6 is rejected, and one of opset 7, 13, 14 or 17 runs"""
        feeds = feeds_of("LSTM", {}, {})
        node = onnx_cases.node_of("LSTM", feeds, {})
        for opset, version in ((1, 1), (6, 1), (7, 7), (13, 7), (14, 14), (17, 14)):
            model = onnx_cases.model_of([node], feeds, ["Y"], opset)
            if version < 7:
                with self.assertRaises(UNSUPPORTED) as caught:
                    cellgrad.onnx.evaluator(model)
                self.assertIn(f"LSTM node 'cell': opset {opset} has version {version} of the operator; expected one of 7, 14, 22",
                              str(caught.exception))
                model.graph.initializer.extend(onnx.numpy_helper.from_array(feeds[name], name) for name in ("W", "R", "B"))
                with self.assertRaises(UNSUPPORTED) as caught:
                    cellgrad.onnx.read_layer(model)
                self.assertIn(f"LSTM node 'cell': opset {opset} has version {version}", str(caught.exception))
            else:
                cellgrad.onnx.evaluator(model).run(None, feeds)

    def test_backend(self):
        """The backend rejects the device CUDA and a list of too few arrays, and the evaluator nodes with too few or too many inputs"""
        feeds = feeds_of("GRU", {}, {})
        node = onnx_cases.node_of("GRU", feeds, {})
        with self.assertRaises(UNSUPPORTED) as caught:
            cellgrad.onnx.Backend.prepare(onnx_cases.model_of([node], feeds, ["Y"]), "CUDA")
        self.assertIn("device: expected CPU, got 'CUDA'", str(caught.exception))
        prepared = cellgrad.onnx.Backend.prepare(onnx_cases.model_of([node], feeds, ["Y"]))
        for call in (lambda: prepared.run([feeds["X"]]), lambda: cellgrad.onnx.Backend.run_node(node, [feeds["X"]])):
            with self.assertRaises(ARGUMENT) as caught:
                call()
            self.assertRegex(str(caught.exception), "^inputs: expected 6 arrays, for X, W, R, B.* or a dict of them; got 1$")
        for inputs in (["X", "", "R"], ["X", "W"], ["X", "W", "R", "", "", "", "initial_h"]):
            del node.input[:]
            node.input.extend(inputs)
            with self.assertRaises(ARGUMENT) as caught:
                cellgrad.onnx.evaluator(node).run(None, {name: feeds[name] for name in inputs if name})
            self.assertIn("GRU node 'cell': expected the inputs X, W, R, B, sequence_lens, initial_h, of which X, W and R must be there",
                          str(caught.exception))

    def test_models(self):
        """A missing node, weights without an initializer and a wrong type are rejected; if a model has two nodes, the call must name one"""
        feeds = feeds_of("GRU", {}, {})
        nodes = [onnx_cases.node_of("GRU", feeds, {}, ["Y"], name) for name in ("one", "two")]
        model = onnx_cases.model_of(nodes, feeds, ["Y"])
        several = "expected the name of one of the graph's LSTM, GRU and RNN nodes, which are 'one', 'two'; got "
        layer = cellgrad.onnx.Layer("GRU", feeds["W"], feeds["R"])
        for call, words in ((lambda: cellgrad.onnx.read_layer(model), several + "None"),
                            (lambda: cellgrad.onnx.read_layer(model, "three"), several + "'three'"),
                            (lambda: cellgrad.onnx.write_layer(model, layer, ""), several + "''"),
                            (lambda: cellgrad.onnx.read_layer(model, "one"),
                             "GRU node 'one': W: expected an initializer of the graph, and 'W' is none"),
                            (lambda: cellgrad.onnx.write_layer(model, layer, "two"),
                             "GRU node 'two': W: expected an initializer of shape (1, 6, 3) and float32, as the layer has it")):
            with self.assertRaises(ARGUMENT) as caught:
                call()
            self.assertIn(words, str(caught.exception))
        for call, words in ((lambda: cellgrad.onnx.read_layer(b""), "model: expected onnx.ModelProto, got bytes"),
                            (lambda: cellgrad.onnx.write_layer(model, None, "one"), "layer: expected cellgrad.onnx.Layer, got NoneType")):
            with self.assertRaises(TYPE) as caught:
                call()
            self.assertIn(words, str(caught.exception))

    def test_backward(self):
        """Backward rejects an object that is no run, wrong gradients, and a layer without training; weights rejects wrong params"""
        feeds = feeds_of("GRU", {}, {})
        layer = cellgrad.onnx.Layer("GRU", feeds["W"], feeds["R"])
        run = layer.forward(feeds["X"])
        evaluation = cellgrad.onnx.Layer("GRU", feeds["W"], feeds["R"], training=False)
        for call, kind, words in (
                (lambda: layer.backward(None), TYPE, "run: expected the LayerRun that this layer's forward returned, got NoneType"),
                (lambda: layer.backward(run, run.Y[:, 0]), ARGUMENT, "d_Y: expected shape (4, 1, 3, 2) [T, D, B, U], got (4, 3, 2)"),
                (lambda: layer.backward(run, d_Y_h=run.Y), ARGUMENT, "d_Y_h: expected shape (1, 3, 2) [D, B, U]"),
                (lambda: layer.backward(run, d_Y_c=run.Y_h), ARGUMENT, "d_Y_c: expected None, since GRU has no cell state"),
                (lambda: layer.forward(feeds["X"], initial_c=run.Y_h), ARGUMENT, "initial_c: expected None, since GRU has no cell state"),
                (lambda: layer.backward(run, run.Y.astype(np.float64)), TYPE, "d_Y: expected float32, got float64"),
                (lambda: layer.weights([layer.params[0]] * 2), ARGUMENT, "params: expected an array for each of 1 directions, got 2"),
                (lambda: layer.weights([layer.params[0][1:]]), ARGUMENT, "params: expected shape (42,)"),
                (lambda: evaluation.backward(evaluation.forward(feeds["X"]), run.Y), ARGUMENT, "run: expected a run with a reserve space")):
            with self.assertRaises(kind) as caught:
                call()
            self.assertIn(words, str(caught.exception))


if __name__ == "__main__":
    framework_tap.main()
