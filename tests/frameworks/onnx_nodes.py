#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""cellgrad.onnx has the answers of ONNX's own node tests, of ONNX's equations in NumPy for every attribute, and of ONNX Runtime, if it is
installed; its gradients equal difference quotients; and its examples run.  Prints TAP."""
import doctest
import importlib
import inspect
import os
import re
import subprocess
import sys
import tempfile
import unittest
import warnings

import framework_tap

framework_tap.need("onnx", "ONNX")

import numpy as np  # noqa: E402
import onnx  # noqa: E402
import onnx.numpy_helper  # noqa: E402
from onnx import helper  # noqa: E402
from onnx.backend.test.case.node import collect_testcases  # noqa: E402

import cellgrad  # noqa: E402
import cellgrad.onnx  # noqa: E402
import onnx_cases  # noqa: E402
from py_tap import PACKAGE, SOURCE  # noqa: E402

VERSION = tuple(int(part) for part in onnx.__version__.split(".")[:2])
# The number of ONNX's node tests of recurrent operators; ONNX 1.23 added tests of the directions reverse and bidirectional.
SUITE = 18 if VERSION >= (1, 23) else 12
FOLDER = os.path.join(PACKAGE, "cellgrad", "onnx")


def off(got, right):
    """Returns the largest absolute difference, divided by the largest magnitude of the right numbers, or by 1 if 1 is larger."""
    return float(np.abs(np.asarray(got, np.float64) - right).max(initial=0)) / max(1.0, float(np.abs(right).max(initial=0)))


class Suite(unittest.TestCase):
    def test_node_tests(self):
        """ONNX's node tests of LSTM, GRU and RNN pass, and cellgrad runs their nodes"""
        with warnings.catch_warnings():
            # Warnings are ignored, since ONNX computes all its tests here, and some of other operators overflow on purpose.
            warnings.simplefilter("ignore")
            tests = [test for test in collect_testcases(None)
                     if {node.op_type for node in test.model.graph.node} & set(onnx_cases.GATES)]
        self.assertEqual(len(tests), SUITE)
        ran, forward = [], cellgrad.onnx.Layer.forward
        cellgrad.onnx.Layer.forward = lambda self, *args: ran.append(self) or forward(self, *args)
        try:
            for test in tests:
                for inputs, outputs in test.data_sets:
                    found = cellgrad.onnx.Backend.run_model(test.model, inputs)
                    self.assertEqual(len(found), len(outputs), test.name)
                    for got, right in zip(found, outputs):
                        self.assertEqual((got.shape, got.dtype), (right.shape, right.dtype), test.name)
                        self.assertLess(off(got, right), 1e-6, test.name)
        finally:
            cellgrad.onnx.Layer.forward = forward
        self.assertEqual(len(ran), SUITE)
        print(f"# {len(ran)} nodes of ONNX's suite")


class Attributes(unittest.TestCase):
    def test_equations(self):
        """Every attribute, activation, direction and layout has the answers of ONNX's equations, in float64"""
        count, worst = 0, 0.0
        for operator, feeds, attributes in onnx_cases.cases(np.float64):
            with self.subTest(operator=operator, **attributes):
                found = cellgrad.onnx.evaluator(onnx_cases.node_of(operator, feeds, attributes)).run(None, feeds)
                for got, right in zip(found, onnx_cases.expected(operator, feeds, attributes), strict=True):
                    self.assertEqual(got.shape, right.shape)
                    self.assertLess(off(got, right), 1e-13)
                    worst = max(worst, off(got, right))
                count += 1
        print(f"# {count} nodes, worst {worst:.1e}")
        self.assertGreater(count, 190)

    def test_defaults(self):
        """Elu, HardSigmoid, LeakyRelu and ThresholdedRelu without alpha and beta have ONNX's defaults"""
        rng = np.random.default_rng(5)
        for name in onnx_cases.ALPHA:
            attributes = {"activations": [name]}
            feeds = onnx_cases.feeds_of(rng, "RNN", attributes, np.float64)
            found = cellgrad.onnx.evaluator(onnx_cases.node_of("RNN", feeds, attributes)).run(None, feeds)
            self.assertLess(off(found[0], onnx_cases.expected("RNN", feeds, attributes)[0]), 1e-13, name)

    def test_onnxruntime(self):
        """Nodes of layout 0 with every other attribute have the answers of ONNX Runtime to 2e-5, in float32"""
        try:
            import onnxruntime
        except ImportError:
            self.skipTest("no ONNX Runtime")
        count, worst = 0, 0.0
        # ONNX Runtime supports layout 0 alone.
        for operator, feeds, attributes in onnx_cases.cases(np.float32, layouts=(0,)):
            node = onnx_cases.node_of(operator, feeds, attributes)
            model = onnx_cases.model_of([node], feeds, node.output)
            theirs = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]).run(None, feeds)
            for got, right in zip(cellgrad.onnx.Backend.run_model(model, feeds), theirs, strict=True):
                worst = max(worst, off(got, right))
                self.assertLess(worst, 2e-5, (operator, attributes))
            count += 1
        print(f"# {count} nodes, worst {worst:.1e}")
        self.assertGreater(count, 95)

    def test_dtypes(self):
        """Layers in float32, float16 and, with ml_dtypes, bfloat16 are right to 1e-6, 2e-3 and 2e-2; an empty input gives an empty Y"""
        dtypes = [(np.float32, 1e-6), (np.float16, 2e-3)]
        try:
            import ml_dtypes
            dtypes.append((ml_dtypes.bfloat16, 2e-2))
        except ImportError:
            print("# no ml_dtypes: bfloat16 is left out")
        rng = np.random.default_rng(6)
        for dtype, within in dtypes:
            for operator in onnx_cases.GATES:
                attributes = {"direction": "bidirectional", "clip": 2.0}
                feeds = onnx_cases.feeds_of(rng, operator, attributes, dtype)
                layer = cellgrad.onnx.Layer(operator, feeds["W"], feeds["R"], feeds["B"], training=False, **attributes)
                run = layer.forward(feeds["X"], None, feeds["initial_h"], feeds.get("initial_c"))
                for got, right in zip(run, onnx_cases.expected(operator, feeds, attributes)):
                    self.assertEqual(got.dtype, np.dtype(dtype))
                    self.assertLess(off(got, right), within, (dtype, operator))
        for T, B in ((0, 2), (3, 0), (0, 0)):
            feeds = onnx_cases.feeds_of(rng, "LSTM", {}, np.float32, T=T, B=B)
            Y, Y_h, _ = cellgrad.onnx.evaluator(onnx_cases.node_of("LSTM", feeds, {})).run(None, feeds)
            self.assertEqual(Y.shape, (T, 1, B, 2))
            self.assertEqual(off(Y_h, feeds["initial_h"]) if not T else 0, 0)

    def test_row_of_length_0(self):
        """A sequence of length 0 has outputs of zeros, and its final states are its initial states"""
        feeds = onnx_cases.feeds_of(np.random.default_rng(7), "LSTM", {}, np.float32, lengths=[4, 0, 2])
        Y, Y_h, Y_c = cellgrad.onnx.evaluator(onnx_cases.node_of("LSTM", feeds, {})).run(None, feeds)
        self.assertFalse(Y[:, :, 1].any())
        self.assertTrue((Y_h[:, 1] == feeds["initial_h"][:, 1]).all() and (Y_c[:, 1] == feeds["initial_c"][:, 1]).all())


class Models(unittest.TestCase):
    def test_nodes_around(self):
        """A model that has other nodes, too, runs by the backend and by the evaluator, also with some outputs left out"""
        rng = np.random.default_rng(8)
        feeds = onnx_cases.feeds_of(rng, "GRU", {}, np.float32)
        right = np.tanh(onnx_cases.expected("GRU", {**feeds, "X": 2 * feeds["X"]}, {})[1])
        model = onnx_cases.model_of([helper.make_node("Add", ["X", "X"], ["twice"]),
                                     helper.make_node("GRU", ["twice", "W", "R", "B", "", "initial_h"], ["", "last"], hidden_size=2),
                                     helper.make_node("Tanh", ["last"], ["out"])], feeds, ["out"])
        for found in (cellgrad.onnx.Backend.prepare(model).run(list(feeds.values())), cellgrad.onnx.Backend.run_model(model, feeds),
                      cellgrad.onnx.evaluator(model).run(None, feeds)):
            self.assertEqual(len(found), 1)
            self.assertLess(off(found[0], right), 1e-6)

    def test_run_node(self):
        """A single node runs with a list of its inputs"""
        feeds = onnx_cases.feeds_of(np.random.default_rng(9), "LSTM", {}, np.float32, peephole=True)
        node = onnx_cases.node_of("LSTM", feeds, {})
        found = cellgrad.onnx.Backend.run_node(node, [feeds[name] for name in node.input if name])
        for got, right in zip(found, onnx_cases.expected("LSTM", feeds, {})):
            self.assertLess(off(got, right), 1e-6)

    def test_weights(self):
        """A layer gives its weights back to the bit"""
        for operator, feeds, attributes in onnx_cases.cases(np.float32):
            layer = cellgrad.onnx.Layer(operator, feeds["W"], feeds["R"], feeds.get("B"), feeds.get("P"), **attributes)
            for name, saved in layer.weights().items():
                right = feeds[name] if name in feeds else np.zeros_like(saved)
                self.assertTrue(saved.shape == right.shape and (saved == right).all(), (operator, attributes, name))


class Training(unittest.TestCase):
    def test_read_and_write(self):
        """Layers are read from a model and written back, by name; a node that has no bias gets one only if the bias is not zero"""
        rng = np.random.default_rng(12)
        first = onnx_cases.feeds_of(rng, "GRU", {}, np.float32, peephole=False)
        second = onnx_cases.feeds_of(rng, "LSTM", {"direction": "bidirectional", "clip": 2.0}, np.float32, width=2, optional=False,
                                      peephole=True)
        tensors = [onnx.numpy_helper.from_array(value, prefix + name)
                   for prefix, feeds in (("a", first), ("b", second)) for name, value in feeds.items() if name in ("W", "R", "B", "P")]
        nodes = [helper.make_node("GRU", ["X", "aW", "aR", "aB"], ["y"], name="one", hidden_size=2),
                 helper.make_node("Squeeze", ["y", "axis"], ["z"]),
                 helper.make_node("LSTM", ["z", "bW", "bR", "", "", "", "", "bP"], ["Y"], name="two", hidden_size=2,
                                  direction="bidirectional", clip=2.0)]
        tensors.append(onnx.numpy_helper.from_array(np.array([1]), "axis"))
        model = onnx_cases.model_of(nodes, {"X": first["X"]}, ["Y"])
        model.graph.initializer.extend(tensors)
        before = model.SerializeToString()
        layers = {name: cellgrad.onnx.read_layer(model, name) for name in ("one", "two")}
        for name, layer in layers.items():
            cellgrad.onnx.write_layer(model, layer, name)
        self.assertEqual(model.SerializeToString(), before)
        layers["two"].params[1] += 0.25
        cellgrad.onnx.write_layer(model, layers["two"], "two")
        self.assertEqual(list(model.graph.node[2].input), ["z", "bW", "bR", "two_B", "", "", "", "bP"])
        onnx.checker.check_model(model)
        right = layers["two"].forward(np.squeeze(layers["one"].forward(first["X"]).Y, 1)).Y
        self.assertEqual(off(cellgrad.onnx.Backend.run_model(model, first)[0], right), 0)

    def test_example(self):
        """examples/python/onnx_train.py: the loss falls, and the model that it writes has the loss that it prints"""
        rng = np.random.default_rng(13)
        feeds = onnx_cases.feeds_of(rng, "LSTM", {}, np.float32, T=12, B=8, U=6, optional=False)
        node = onnx_cases.node_of("LSTM", feeds, {"clip": 3.0}, ["Y"])
        model = onnx_cases.model_of([node], {"X": feeds["X"]}, ["Y"])
        model.graph.initializer.extend(onnx.numpy_helper.from_array(feeds[name], name) for name in ("W", "R"))
        target = 0.5 * np.tanh(np.cumsum(feeds["X"], 0) @ rng.standard_normal((3, 6)).astype(np.float32))[:, None]
        program = os.path.join(SOURCE, "examples", "python", "onnx_train.py")
        with tempfile.TemporaryDirectory() as folder:
            paths = [os.path.join(folder, name) for name in ("model.onnx", "data.npz", "out.onnx")]
            onnx.save(model, paths[0])
            np.savez(paths[1], X=feeds["X"], target=target)
            printed = subprocess.run([sys.executable, program, *paths, "200"], stdout=subprocess.PIPE, check=True, text=True).stdout
            losses = [float(line.split()[3]) for line in printed.splitlines()]
            trained = onnx.load(paths[2])
        onnx.checker.check_model(trained)
        Y, = cellgrad.onnx.Backend.run_model(trained, {"X": feeds["X"]})
        self.assertEqual(len(losses), 21)
        self.assertLess(losses[-1], 0.3 * losses[0])
        self.assertLess(abs(0.5 * np.mean(np.square(Y - target)) - losses[-1]), 2e-6)
        print(f"# loss {losses[0]:.4f} -> {losses[-1]:.4f}")


class Gradients(unittest.TestCase):
    def test_differences(self):
        """Gradients of layers with every attribute equal, in drawn elements, differences of the loss, in float64"""
        count, worst = 0, 0.0
        rng = np.random.default_rng(10)
        for operator, feeds, attributes in onnx_cases.cases(np.float64):
            layer = cellgrad.onnx.Layer(operator, feeds["W"], feeds["R"], feeds.get("B"), feeds.get("P"), **attributes)
            states = {name: feeds[name] for name in ("X", "initial_h", "initial_c") if name in feeds}
            lengths = feeds.get("sequence_lens")
            run = layer.forward(sequence_lens=lengths, **states)
            by = [rng.standard_normal(each.shape) for each in run[:3] if each is not None]

            def loss(**changed):
                each = layer.forward(sequence_lens=lengths, **{**states, **changed})
                return sum(float((a * b).sum()) for a, b in zip(each[:3], by))

            gradients = layer.backward(run, *by)
            # `lost` bounds the error that the rounding of the losses causes in a difference quotient.
            lost = 1e-15 * sum(float(np.abs(a * b).sum()) for a, b in zip(run[:3], by)) / 1e-6
            for name, d, at in [(name, None, rng.integers(value.size)) for name, value in states.items()] + [
                    ("params", d, rng.integers(params.size)) for d, params in enumerate(layer.params) for _ in range(6)]:
                losses, found = [], getattr(gradients, name) if d is None else gradients.params[d]
                for change in (-1e-6, 0, 1e-6):
                    changed = np.array(states[name]) if d is None else layer.params[d]
                    before = changed.flat[at]
                    changed.flat[at] = before + change
                    losses.append(loss(**({name: changed} if d is None else {})))
                    changed.flat[at] = before
                # The gradient must equal the difference quotient of both sides or of one, since Relu may have a kink on the other side.
                sides = np.diff(losses) / 1e-6
                error = min(abs(slope - found.flat[at]) / (1e-6 * max(1.0, abs(slope)) + lost) for slope in (sides.mean(), *sides))
                worst = max(worst, error)
                self.assertLess(worst, 1, (operator, attributes, name, d, at))
            count += 1
        print(f"# {count} nodes, worst {worst:.1e} of what is allowed")
        self.assertGreater(count, 190)


class Documents(unittest.TestCase):
    def test_examples(self):
        """The examples of the docstrings and of README.md run, and every public name has a docstring"""
        attempted = 0
        for name in ("cellgrad.onnx", "cellgrad.onnx._layer", "cellgrad.onnx._evaluator", "cellgrad.onnx._model", "cellgrad.onnx._cells"):
            result = doctest.testmod(importlib.import_module(name))
            self.assertEqual(result.failed, 0, name)
            attempted += result.attempted
        self.assertGreater(attempted, 15)
        for name in cellgrad.onnx.__all__:
            thing = getattr(cellgrad.onnx, name)
            self.assertTrue(thing.__doc__, name)
            for method, of in inspect.getmembers(thing, inspect.isfunction):
                self.assertTrue(method.startswith("_") or of.__doc__, f"{name}.{method}")
        with open(os.path.join(FOLDER, "README.md"), encoding="utf-8") as file:
            blocks = re.findall(r"^```python\n(.*?)^```$", file.read(), re.M | re.S)
        self.assertGreaterEqual(len(blocks), 1)
        names = {}
        for k, block in enumerate(blocks):
            exec(compile(block, f"README.md, block {k + 1}", "exec"), names)  # pylint: disable=exec-used


if __name__ == "__main__":
    framework_tap.main()
