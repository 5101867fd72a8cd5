#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""With CELLGRAD_TF_BLOCK=1 the plugin's kernels of TensorFlow's block ops have priority over TensorFlow's own kernels, and have the answers
of tests/data.  Prints TAP."""
import glob
import os
import unittest

import tensorflow_tap
from py_tap import DATA

os.environ["CELLGRAD_TF_BLOCK"] = "1"
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from tensorflow.python.framework import kernels, op_def_registry  # noqa: E402

import cellgrad.tensorflow  # noqa: E402
from py_answers import read  # noqa: E402

OPS = ("LSTMBlockCell", "LSTMBlockCellGrad", "BlockLSTM", "BlockLSTMGrad", "BlockLSTMV2", "BlockLSTMGradV2", "GRUBlockCell",
       "GRUBlockCellGrad")
KINDS = {"cell_clip": float, "forget_bias": float, "use_peephole": lambda word: word in ("true", "1"), "seq_len_max": int}


def run(op, tensors, metadata):
    """Runs a block op; returns its outputs by name.  seq_len_max is among the tensors, or else in the metadata of the file."""
    definition = op_def_registry.get(op)
    names = [attr.name for attr in definition.attr if attr.name in metadata and attr.name in KINDS]
    attributes = {name: KINDS[name](metadata[name]) for name in names}
    inputs = {}
    for port in definition.input_arg:
        if port.name in tensors:
            inputs[port.name] = tf.constant(tensors[port.name])
        elif port.name == "seq_len_max":
            inputs[port.name] = tf.constant(int(metadata["seq_len_max"]), tf.int64)
        else:
            # This input is a peephole weight, which the file lacks since peepholes are off.
            inputs[port.name] = tf.zeros([tensors["cs_prev"].shape[1]], tensors["x"].dtype)
    done = getattr(tf.raw_ops, op)(**inputs, **attributes)
    return done._asdict()


class Blocks(unittest.TestCase):
    def test_first(self):
        """19 ops have kernels of the plugin, and those of block ops have priority over TensorFlow's own"""
        self.assertEqual(cellgrad.tensorflow.load(), 19)
        for op in OPS:
            priorities = [kernel.priority for kernel in kernels.get_registered_kernels_for_op(op).kernel if kernel.device_type == "CPU"]
            self.assertEqual(max(priorities), 1, op)

    def test_data(self):
        """cellgrad's kernels of TensorFlow's block ops give the answers of tests/data, in float32 to 2e-6, and in float16 to 4e-3"""
        count = {op: 0 for op in OPS}
        at_worst = {np.float32: 0.0, np.float16: 0.0}
        for op in OPS:
            for path in sorted(glob.glob(os.path.join(DATA, f"{op}-*.safetensors"))):
                if ".expect" in path:
                    continue
                tensors, metadata = read(path)
                kind = tensors["x"].dtype.type
                if kind == np.float64:
                    continue
                expected = [path.replace(".safetensors", f".{suffix}.safetensors") for suffix in ("expect32", "expect")]
                wanted, _ = read(next(name for name in expected if os.path.exists(name)))
                for name, tensor in run(op, tensors, metadata).items():
                    found = np.asarray(tensor, np.float64)
                    self.assertEqual(found.shape, wanted[name].shape, f"{path}: {name}")
                    error = np.abs(found - wanted[name]).max() / max(1.0, np.abs(wanted[name]).max())
                    self.assertLess(error, 2e-6 if kind == np.float32 else 4e-3, f"{path}: {name}")
                    at_worst[kind] = max(at_worst[kind], error)
                    count[op] += 1
        print(f"# {sum(count.values())} tensors, at worst {at_worst[np.float32]:.1e} in float, {at_worst[np.float16]:.1e} in half")
        self.assertGreater(min(count.values()), 10, count)

    def test_tape(self):
        """The tape's gradient of BlockLSTM, along one direction, equals the central difference of the loss to 1e-2"""
        tensors, metadata = read(os.path.join(DATA, "BlockLSTM-plain.safetensors"))
        x = tf.constant(tensors["x"])
        with tf.GradientTape() as tape:
            tape.watch(x)
            h = run("BlockLSTM", {**tensors, "x": x}, metadata)["h"]
        step = np.random.default_rng(1).normal(size=x.shape)
        ends = [run("BlockLSTM", {**tensors, "x": tensors["x"] + (way * 1e-2 * step).astype(np.float32)}, metadata)["h"] for way in (1, -1)]
        slope = float(tf.reduce_sum(ends[0] - ends[1])) / 2e-2
        self.assertAlmostEqual(slope, float(tf.reduce_sum(tape.gradient(h, x) * step.astype(np.float32))), delta=1e-2 * max(1, abs(slope)))

    def test_steps(self):
        """A seq_len_max out of range raises an InvalidArgumentError with the plugin's message"""
        tensors, metadata = read(os.path.join(DATA, "BlockLSTM-plain.safetensors"))
        for steps in (-1, 5):
            with self.assertRaisesRegex(tf.errors.InvalidArgumentError, f"cellgrad: BlockLSTM: seq_len_max: expected 0 to 4, got {steps}"):
                run("BlockLSTM", {**tensors, "seq_len_max": np.int64(steps)}, metadata)


if __name__ == "__main__":
    tensorflow_tap.main()
