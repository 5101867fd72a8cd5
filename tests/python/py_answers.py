#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The Python package gives the answers of PyTorch and TensorFlow that are stored in tests/data: CudnnRNNV3-*, in four dtypes, and the
block ops, in the dtype of the file, forward and gradients.  Prints TAP.  The environment has srcdir: the source; LIBRARY: the shared
library."""
import glob
import json
import os
import struct
import unittest

import py_tap

py_tap.need_numpy()
import numpy as np  # noqa: E402

import cellgrad  # noqa: E402

try:
    import ml_dtypes
except ImportError:
    ml_dtypes = None

DTYPES = {"F16": "<f2", "F32": "<f4", "F64": "<f8", "I32": "<i4", "I64": "<i8"}
# How far an answer may be from the stored answer, relative to the largest element of the stored answer.
TOLERANCE = {"float64": 1e-13, "float32": 2e-5, "float16": 2e-2, "bfloat16": 1.2e-1}


def read(path):
    """Reads a safetensors file; returns its tensors and its metadata."""
    with open(path, "rb") as file:
        raw = file.read()
    length, = struct.unpack("<Q", raw[:8])
    header, data = json.loads(raw[8:8 + length]), raw[8 + length:]
    about = header.pop("__metadata__", {})
    return {name: np.frombuffer(data[slice(*entry["data_offsets"])], DTYPES[entry["dtype"]]).reshape(entry["shape"])
            for name, entry in header.items()}, about


class Answers(unittest.TestCase):
    def close(self, got, want, dtype, what):
        self.assertEqual(got.shape, want.shape, what)
        got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
        scale = np.abs(want).max(initial=0) or 1.0
        self.assertTrue(np.isfinite(got).all(), what)
        self.assertLessEqual(np.abs(got - want).max(initial=0), TOLERANCE[dtype] * scale, what)

    def network(self, path, dtype):
        tensors, about = read(path)
        convert = np.dtype(dtype if dtype != "bfloat16" else ml_dtypes.bfloat16)
        t = {name: tensor if tensor.dtype.kind == "i" else tensor.astype(convert) for name, tensor in tensors.items()}
        is_major = about.get("time_major", "true") == "true"
        # `count` is L*D, the first dimension of the states [L*D, B, .], or the second one of [B, L*D, .].
        count = t["input_h"].shape[0 if is_major else 1]
        both = about.get("direction") == "bidirectional"
        proj = int(about.get("num_proj", 0))
        units = t["input_c"].shape[2] if proj else t["input_h"].shape[2]
        network = cellgrad.Network(
            about["rnn_mode"], input=t["input"].shape[2], units=units, layers=count // (2 if both else 1), bidirectional=both, dtype=dtype,
            proj=proj, input_mode={"skip_input": "skip"}.get(about.get("input_mode"), "linear"), time_major=is_major)
        run = network.forward(t["params"], t["input"], t["input_h"], t.get("input_c"), lengths=t["sequence_lengths"])
        gradient = network.backward(run, t["output_backprop"], t["output_h_backprop"], t.get("output_c_backprop"))
        n = 0
        for name, got in (("output", run.output), ("output_h", run.h), ("output_c", run.c), ("input_backprop", gradient.input),
                          ("input_h_backprop", gradient.h), ("input_c_backprop", gradient.c), ("params_backprop", gradient.params)):
            self.assertEqual(got is None, name not in t, f"{path}: {name}")
            if got is not None:
                self.close(got, tensors[name], dtype, f"{os.path.basename(path)}: {name}")
                n += 1
        return n

    def networks(self, dtype, least):
        paths = sorted(glob.glob(os.path.join(py_tap.DATA, "CudnnRNNV3-*.safetensors")))
        self.assertGreaterEqual(sum(self.network(path, dtype) for path in paths), least)

    def test_float64(self):
        """Networks in float64 have PyTorch's answers"""
        self.networks("float64", 190)

    def test_float32(self):
        """Networks in float32 have PyTorch's answers"""
        self.networks("float32", 190)

    def test_float16(self):
        """Networks in float16 have PyTorch's answers"""
        self.networks("float16", 190)

    @unittest.skipUnless(ml_dtypes, "there is no ml_dtypes")
    def test_bfloat16(self):
        """Networks in bfloat16 have PyTorch's answers"""
        self.networks("bfloat16", 190)

    def block(self, path):
        tensors, about = read(path)
        want, _ = read(path.replace(".safetensors", ".expect.safetensors"))
        op = about["op"]
        dtype = tensors["x"].dtype.name
        if dtype == "float16":
            # TensorFlow's kernels in float16 round after each operation, so the answers to which results are compared are those of
            # float32.
            want, _ = read(path.replace(".safetensors", ".expect32.safetensors"))
        if op.startswith(("GRU", "gru")):
            got = self.gru(op, tensors)
        else:
            got = self.lstm(op, tensors, about)
        n = 0
        for name, answer in want.items():
            self.close(got[name], answer, dtype, f"{os.path.basename(path)}: {name}")
            n += 1
        return n

    def lstm(self, op, t, about):
        is_v2, is_gradient = "V2" in op, op.lower().replace("v2", "").endswith("grad")
        def truth(name):
            return about.get(name, "false") == "true"
        names = {"cs_prev": "cs_prev", "h_prev": "h_prev", "w": "w", "b": "b", "x": "x"}
        arguments = {name: t[key] for name, key in names.items()}
        if truth("use_peephole"):
            arguments.update({name: t[name] for name in ("wci", "wcf", "wco")})
        options = {"forget_bias": 0.0 if is_v2 else float(about.get("forget_bias", 1.0)),
                   "cell_clip": float(about.get("cell_clip", 0.0 if is_v2 else 3.0)), "gates": "ifco" if is_v2 else "icfo"}
        if t["x"].ndim == 3:
            options["seq_len_max"] = int(t["seq_len_max"])
        if not is_gradient:
            run = (cellgrad.lstm_block if t["x"].ndim == 3 else cellgrad.lstm_block_cell)(**arguments, **options)
            return {name: getattr(run, name) for name in ("i", "cs", "f", "o", "ci", "co", "h")}
        saved = {name: t[name] for name in ("i", "cs", "f", "o", "ci", "co", "h") if name in t}
        got = cellgrad.LSTMBlock(**arguments, **saved, **options).grad(t.get("cs_grad"), t.get("h_grad"))
        # If peepholes are off, TensorFlow's op gives zeros for their gradients, and cellgrad gives none: zeros stand in for them.
        for name in ("wci", "wcf", "wco"):
            got.setdefault(f"{name}_grad", np.zeros_like(t.get(name, t["b"][:t["h_prev"].shape[1]])))
        return {**got, "dicfo": got["dgates"]}

    def gru(self, op, t):
        weights = [t[name] for name in ("x", "h_prev", "w_ru", "w_c", "b_ru", "b_c")]
        if not op.lower().endswith("grad"):
            run = cellgrad.gru_block_cell(*weights)
            return {name: getattr(run, name) for name in "ruch"}
        names = ("x", "h_prev", "w_ru", "w_c", "b_ru", "b_c", "r", "u", "c")
        return cellgrad.GRUBlock(**{name: t[name] for name in names}, h=t.get("h")).grad(t["d_h"])

    def test_blocks(self):
        """Block ops have TensorFlow's outputs, and the gradients of its gradient ops and automatic differentiation"""
        n = 0
        for path in sorted(glob.glob(os.path.join(py_tap.DATA, "*lock*.safetensors"))):
            if ".expect" not in path:
                n += self.block(path)
        self.assertGreaterEqual(n, 290)


if __name__ == "__main__":
    py_tap.main()
