#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wrong arguments of the Python package raise exceptions of cellgrad that are also of a built-in type, such as ValueError, and whose
messages have the words that these tests list.  Prints TAP.  The environment has srcdir: the source; LIBRARY: the shared library."""
import os
import tempfile
from typing import NamedTuple

import py_tap

py_tap.need_numpy()
import numpy as np  # noqa: E402

import cellgrad  # noqa: E402

T, B, I, U = 4, 2, 3, 5


class Foreign:
    """Acts as an array of another program that NumPy cannot read."""

    def __dlpack__(self, **_):
        raise BufferError("it is on a GPU")

    def __dlpack_device__(self):
        return (2, 0)


class Deviceless:
    """Acts as an array that has the method __dlpack__, but not __dlpack_device__."""

    def __dlpack__(self, **_):
        return None


class Packed(NamedTuple):
    """Acts as PyTorch's PackedSequence."""

    data: object
    batch_sizes: object


class Misuse(py_tap.Refusals):
    def setUp(self):
        self.network = cellgrad.Network("lstm", input=I, units=U)
        self.params = self.network.init_params()
        self.x = np.ones((T, B, I), np.float32)

    def forward(self, **changes):
        arguments = {"params": self.params, "x": self.x, **changes}
        return self.network.forward(arguments.pop("params"), arguments.pop("x"), **arguments)

    def test_network(self):
        """Wrong arguments of Network are rejected"""
        def make(cell="lstm", **changes):
            return cellgrad.Network(cell, **{"input": I, "units": U, **changes})
        for kind, words, changes in (
                (ValueError, "input: expected 1 to", {"input": 0}), (ValueError, "units: expected 1 to", {"units": -1}),
                (TypeError, "units: expected an integer", {"units": 5.0}), (TypeError, "input: expected an integer", {"input": None}),
                (ValueError, "layers: expected 1 to", {"layers": 0}), (ValueError, "layers: expected 1 to", {"layers": 2**40}),
                (ValueError, "input: expected 1 to", {"input": 2**70}), (TypeError, "layers: expected an integer", {"layers": "2"}),
                (ValueError, "bidirectional: expected 0 to 1", {"bidirectional": 2}),
                (TypeError, "dtype: expected float32", {"dtype": "int32"}), (TypeError, "dtype: expected float32", {"dtype": None}),
                (TypeError, "dtype: expected float32", {"dtype": "no such"}), (TypeError, "dtype: expected float32", {"dtype": ">f4"}),
                (ValueError, "no option 'peephol'", {"options": "peephol"}), (TypeError, "options: expected str", {"options": 3}),
                (TypeError, "options: expected str", {"options": [3]}), (TypeError, "values: expected a mapping", {"values": [("a", 1)]}),
                (ValueError, "forget_bia", {"cell": "lstm_block", "values": {"forget_bia": 1.0}}),
                (TypeError, "values: forget_bias: expected a number", {"cell": "lstm_block", "values": {"forget_bias": "1"}}),
                (ValueError, "values: forget_bias: expected a number, got NaN",
                 {"cell": "lstm_block", "values": {"forget_bias": float("nan")}}), (ValueError, "dropout", {"dropout": 1.5}),
                (ValueError, "dropout: expected a number, got NaN", {"dropout": float("nan")}),
                (TypeError, "dropout: expected a number", {"dropout": "half"}), (ValueError, "seed: expected 0 to", {"seed": -1}),
                (ValueError, "seed: expected 0 to", {"seed": 2**64}), (ValueError, "input_mode: expected one of", {"input_mode": "linea"}),
                (TypeError, "input_mode: expected str", {"input_mode": 0}), (ValueError, "route", {"route": "fast"}),
                (NotImplementedError, "cudnn", {"route": "cudnn"}), (TypeError, "route: expected str", {"route": 1}),
                (ValueError, "proj", {"cell": "gru", "proj": 2}), (ValueError, "proj: expected 0 to", {"proj": -1}),
                (ValueError, "input", {"input_mode": "skip"}), (ValueError, "reverse", {"reverse": True, "bidirectional": True}),
                (TypeError, "context: expected a cellgrad.Context", {"context": "cpu"}), (ValueError, "NUL", {"route": "sc\0an"}),
                (ValueError, "route: expected text that UTF-8 can encode", {"route": "\ud800"}),
                (ValueError, "there is no cell 'lstn'", {"cell": "lstn"}), (TypeError, "cell: expected the name", {"cell": 3})):
            self.refuse(kind, words, make, **changes)
        with self.assertRaises(TypeError):
            cellgrad.Network("lstm", units=U)

    def test_cell(self):
        """Missing and wrong cells are rejected"""
        self.refuse(RuntimeError, "cell:2:", cellgrad.Cell, "cell leaky\ngates\n")
        self.refuse(FileNotFoundError, "no such file", cellgrad.Cell, "not/there.cell")
        self.refuse(ValueError, "NUL", cellgrad.Cell, "lst\0m")
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "a.cell"))
            self.refuse(OSError, "a.cell", cellgrad.Cell, os.path.join(folder, "a.cell"))
            with open(os.path.join(folder, "b.cell"), "w", encoding="utf-8") as file:
                file.write("cell b\nno\n")
            self.refuse(RuntimeError, "b.cell:2:", cellgrad.Cell, os.path.join(folder, "b.cell"))

    def test_context(self):
        """Unknown contexts, dtypes and ops are rejected"""
        self.refuse(ValueError, "cpu", cellgrad.Context, "cpv")
        self.refuse(TypeError, "where: expected str", cellgrad.Context, 3)
        self.refuse(ValueError, "threads", cellgrad.Context, "cpu:threads=none")
        self.refuse(RuntimeError, "cpu", cellgrad.Context, "cpu:7")
        self.refuse(TypeError, "dtype", cellgrad.default_context().supports, "LSTMBlockCell", "int8")
        self.refuse(ValueError, "LSTMBlockCel", cellgrad.default_context().supports, "LSTMBlockCel")

    def test_params(self):
        """Wrong parameters are rejected"""
        n = self.network.params_size
        self.refuse(ValueError, "params: expected shape", self.forward, params=np.zeros(n + 1, np.float32))
        self.refuse(ValueError, "params: expected shape", self.forward, params=np.zeros((1, n), np.float32))
        self.refuse(TypeError, "params: expected float32, got float64", self.forward, params=np.zeros(n))
        self.refuse(TypeError, "params: expected an array", self.forward, params=None)
        self.refuse(TypeError, "params: expected an array", self.forward, params="zeros")
        self.refuse(TypeError, "params: NumPy cannot convert this Deviceless", self.forward, params=Deviceless())
        self.refuse(ValueError, "xavier_unifor", self.network.init_params, "xavier_unifor zeros zeros")
        self.refuse(TypeError, "rules: expected str", self.network.init_params, 3)
        self.refuse(ValueError, "seed", self.network.init_params, None, -1)
        self.refuse(ValueError, "out: params: expected shape", self.network.init_params, out=np.zeros(n - 1, np.float32))
        self.refuse(TypeError, "params: expected", self.network.params_view, self.params.astype(np.float64))
        self.refuse(TypeError, "params: expected a NumPy array", self.network.params_view, self.params.tolist())
        self.refuse(ValueError, "params: expected shape", self.network.params_view, self.params[1:])
        self.refuse(ValueError, "expected a contiguous and aligned array", self.network.params_view, np.zeros(2 * n, np.float32)[::2])
        unaligned = np.frombuffer(bytearray(4 * n + 1), np.float32, offset=1)
        self.refuse(ValueError, "expected a contiguous and aligned array", self.network.params_view, unaligned)
        self.network.params_view(unaligned.copy())

    def test_input(self):
        """Wrong sequences, states and numbers are rejected by a forward pass"""
        for kind, words, changes in (
                (ValueError, "x: expected shape [T, B, input=3], got (4, 3)", {"x": self.x[:, 0]}),
                (ValueError, "x: expected shape", {"x": self.x[..., :2]}), (TypeError, "got float64", {"x": self.x.astype(np.float64)}),
                (TypeError, "got complex64", {"x": self.x.astype(np.complex64)}), (TypeError, "got int32", {"x": self.x.astype(np.int32)}),
                (TypeError, "got >f4", {"x": self.x.astype(">f4")}), (TypeError, "masked", {"x": np.ma.masked_array(self.x)}),
                (TypeError, "got object", {"x": self.x.astype(object)}), (TypeError, "it is on a GPU", {"x": Foreign()}),
                (TypeError, "x: expected numbers", {"x": [[[1, 2, 3], [1]]]}), (TypeError, "x: expected an array", {"x": None}),
                (ValueError, "h0: expected shape (1, 2, 5) [L*D, B, H], got (1, 3, 5)", {"h0": np.zeros((1, 3, U), np.float32)}),
                (ValueError, "h0: expected shape", {"h0": np.zeros((B, U), np.float32)}),
                (TypeError, "c0: expected float32", {"c0": np.zeros((1, B, U))}),
                (ValueError, "c0: expected shape", {"c0": np.zeros((1, B, U + 1), np.float32)}),
                (TypeError, "lengths: expected integers, got float64", {"lengths": [4.0, 2.0]}),
                (TypeError, "lengths: expected integers, got float64", {"lengths": np.array([np.nan, 1])}),
                (TypeError, "lengths: expected integers, got bool", {"lengths": np.array([True, False])}),
                (ValueError, "lengths: expected 0 to 4, got 5 for row 1", {"lengths": [4, 5]}),
                (ValueError, "lengths: expected 0 to 4, got -1 for row 0", {"lengths": [-1, 4]}),
                (ValueError, "lengths: expected 0 to 4", {"lengths": np.array([2**32, 1])}),
                (ValueError, "lengths: expected shape (2,)", {"lengths": [4]}),
                (ValueError, "lengths: expected shape (2,)", {"lengths": [[4, 2]]}), (TypeError, "lengths", {"lengths": 4.5}),
                (ValueError, "counter: expected 0 to", {"counter": -1}), (ValueError, "counter: expected 0 to", {"counter": 2**64}),
                (TypeError, "counter: expected an integer", {"counter": 1.0}),
                (ValueError, "first_step: expected 0 to", {"first_step": -1}),
                (ValueError, "drop: expected 0 to 1", {"drop": 7}),
                (TypeError, "x: expected an array, got Packed; its parts are two arguments, x.data and batch_sizes=x.batch_sizes",
                 {"x": Packed(self.x[0], [B])})):
            self.refuse(kind, words, self.forward, **changes)
        gru = cellgrad.Network("gru", input=I, units=U)
        self.refuse(ValueError, "c0: expected None, since the cell gru has no cell state", gru.forward, gru.init_params(), self.x,
                    c0=np.zeros((1, B, U), np.float32))

    def test_out(self):
        """Wrong arguments for `out` are rejected"""
        good = np.zeros((T, B, U), np.float32)
        read_only = good.copy()
        read_only.flags.writeable = False
        for kind, words, out in (
                (ValueError, "out: output: expected shape", good[1:]),
                (TypeError, "out: output: expected float32", good.astype(np.float64)),
                (ValueError, "out: output: the array is read-only", read_only),
                (ValueError, "out: expected names among", {"outputs": good}), (TypeError, "out: expected an array", [good]),
                (TypeError, "out: output: expected a NumPy array", {"output": good.tolist()}),
                (ValueError, "out: h: expected a contiguous and aligned array", {"h": np.zeros((1, B, 2 * U), np.float32)[..., ::2]}),
                (ValueError, "out: reserve: expected at least", {"reserve": np.zeros(8, np.uint8)}),
                (TypeError, "out: reserve: expected uint8", {"reserve": np.zeros(100000, np.int8)})):
            self.refuse(kind, words, self.forward, out=out)
        both = np.zeros(T * B * U + 100, np.float32)
        self.refuse(ValueError, "overlap", self.forward, x=both[:T * B * I].reshape(T, B, I), out=both[1:T * B * U + 1].reshape(T, B, U))

    def test_backward(self):
        """Wrong arguments of backward are rejected"""
        run = self.forward()
        d = np.ones_like(run.output)
        for kind, words, changes in (
                (ValueError, "d_output: expected shape", {"d_output": d[1:]}),
                (TypeError, "d_output: expected float32", {"d_output": d.astype(float)}),
                (ValueError, "d_h: expected shape", {"d_h": d}), (ValueError, "d_c: expected shape", {"d_c": d}),
                (ValueError, "want: expected names among", {"want": ["x"]}), (ValueError, "out: expected names among", {"out": {"x": d}}),
                (ValueError, "accumulate: expected out to have params", {"accumulate": True}),
                (ValueError, "out: params: expected shape", {"out": {"params": self.params[1:]}}),
                (ValueError, "spend_reserve: expected 0 to 1", {"spend_reserve": 2})):
            self.refuse(kind, words, self.network.backward, run, **changes)
        self.refuse(TypeError, "run: expected the result of forward", self.network.backward, d)
        evaluated = self.network.replace(training=False)
        self.refuse(ValueError, "training=False", evaluated.backward, evaluated.forward(self.params, self.x), d)
        self.refuse(ValueError, "run: expected a run of this network, got one of another network",
                    cellgrad.Network("lstm", input=I, units=U + 1).backward, run)
        other = cellgrad.Network("lstm", input=I, units=U, layers=1, seed=5, dropout=0.5)
        self.refuse(ValueError, "reserve", other.backward, run, d)
        run.reserve = run.reserve[:-64]
        self.refuse(ValueError, "reserve", self.network.backward, run, d)

    def test_blocks(self):
        """Wrong arguments of the block ops are rejected"""
        x, state, w, b = np.ones((B, I)), np.zeros((B, U)), np.ones((I + U, 4 * U)), np.zeros(4 * U)
        step = cellgrad.lstm_block_cell
        self.refuse(ValueError, "x: expected shape [B, I]", step, x[0], state, state, w, b)
        self.refuse(ValueError, "cs_prev: expected shape (2, 5) [B, U], got (2, 4)", step, x, state[:, 1:], state, w, b)
        self.refuse(ValueError, "w: expected shape (8, 20)", step, x, state, state, w[1:], b)
        self.refuse(TypeError, "w: expected float64, got float32", step, x, state, state, w.astype(np.float32), b)
        self.refuse(ValueError, "expected all three or none, got wci", step, x, state, state, w, b, b[:U])
        self.refuse(ValueError, "gates: expected one of icfo, ifco", step, x, state, state, w, b, gates="ifgo")
        self.refuse(ValueError, "forget_bias: expected a number, got NaN", step, x, state, state, w, b, forget_bias=float("nan"))
        self.refuse(TypeError, "dtype: expected float32", step, x.astype(int), state, state, w, b)
        self.refuse(ValueError, "seq_len_max", cellgrad.lstm_block, x[None], state, state, w, b, seq_len_max=2)
        self.refuse(ValueError, "want: expected names among", step(x, state, state, w, b).grad, want=["wci_grad"])
        self.refuse(ValueError, "h_grad: expected shape", step(x, state, state, w, b).grad, h_grad=x)
        self.refuse(ValueError, "w_c: expected shape (8, 5)", cellgrad.gru_block_cell, x, state, w[:, :2 * U], w, b[:2 * U], b[:U])

    def test_kernels(self):
        """Wrong arguments of kernels are rejected"""
        kernel = cellgrad.Kernel("rnn_tanh", "grad")
        h = np.ones((B, U), np.float32)
        for kind, words, arguments in (
                (ValueError, "the kernel has no such input; it has dh, h", {"h": h, "dx": h}),
                (ValueError, "expected [rows, units]", {"h": h[0]}),
                (ValueError, "dh: expected shape (2, 5)", {"h": h, "dh": h[1:]}),
                (TypeError, "h: expected float32", {"h": h.astype(float)}),
                (ValueError, "which gives the numbers of rows and units", {}), (ValueError, "dh: missing", {"h": h})):
            self.refuse(kind, words, kernel.run, arguments)
        self.refuse(ValueError, "the kernel has no output 'dx'", kernel.run, {"h": h, "dh": h}, want=["dx"])
        self.refuse(ValueError, "pass_: expected one of", cellgrad.Kernel, "lstm", "backward")
        self.refuse(ValueError, "lang: expected one of", kernel.emit, "hip")
        self.refuse(ValueError, "no option", cellgrad.Kernel("lstm", options="p").emit)
        self.refuse(ValueError, "stage", cellgrad.Kernel("lstm", stage=4).emit)
        self.refuse(NotImplementedError, "expected CG_POINT, whose text includes the sums", cellgrad.Kernel("lstm", "grad", shape="sum").emit)

    def test_weights(self):
        """Wrong weights of other programs are rejected"""
        saved = self.network.save_weights(self.params, "pytorch")
        load = self.network.load_weights
        self.refuse(ValueError, "pytorch", load, saved, "pytorhc")
        self.refuse(ValueError, "missing weight_ih_l0", load, {k: v for k, v in saved.items() if k != "weight_ih_l0"}, "pytorch")
        self.refuse(ValueError, "unknown weight_hh_l1", load, {**saved, "weight_hh_l1": saved["weight_hh_l0"]}, "pytorch")
        self.refuse(ValueError, "missing rnn.weight_ih_l0", load, saved, "pytorch", prefix="rnn.")
        whole = {**{"rnn." + name: array for name, array in saved.items()}, "fc.weight": self.x}
        self.refuse(ValueError, 'fc.weight; prefix="rnn." takes the tensors whose names begin with it', load, whole, "pytorch")
        whole.update({"back." + name: array for name, array in saved.items()})
        self.refuse(ValueError, 'unknown none; prefix="rnn." or prefix="back." takes', load, whole, "pytorch", prefix="lstm.")
        with self.assertRaises(ValueError) as caught:
            load({**saved, "rnn.weight_ih_l0": saved["weight_ih_l0"]}, "pytorch")
        self.assertTrue(str(caught.exception).endswith("unknown rnn.weight_ih_l0"), caught.exception)
        self.refuse(ValueError, "weight_ih_l0: expected shape", load, {**saved, "weight_ih_l0": saved["weight_hh_l0"]}, "pytorch")
        self.refuse(TypeError, "expected float32", load, {k: v.astype(float) for k, v in saved.items()}, "pytorch")
        self.refuse(TypeError, "tensors: expected a mapping", load, list(saved.values()), "pytorch")
        self.refuse(NotImplementedError, "keras", cellgrad.Network("lstm", input=I, units=U, proj=2).weight_shapes, "keras")
        self.refuse(ValueError, "params: expected shape", self.network.save_weights, self.params[1:], "pytorch")
        network = self.network.replace(options="peephole")
        params = network.init_params("uniform uniform uniform", seed=1)
        for format in ("pytorch", "keras", "checkpoint"):
            self.refuse(NotImplementedError, "such as peepholes, and 15 of 15 are not 0; lossy=True leaves them out", network.save_weights,
                        params, format)
        self.refuse(NotImplementedError, "holds no per-unit weights", network.load_weights, saved, "pytorch", gradients=True)
        self.refuse(NotImplementedError, "format pytorch: forget_bias: expected 0",
                    cellgrad.Network("lstm_block", input=I, units=U, options="peephole").weight_shapes, "pytorch")

    def test_every_type(self):
        """Ten exception classes of cellgrad are a cellgrad.Error and a built-in exception each; too many params raise a MemoryError"""
        for kind, built_in in ((cellgrad.ArgumentError, ValueError), (cellgrad.ArgumentTypeError, TypeError),
                               (cellgrad.OutOfMemoryError, MemoryError),
                               (cellgrad.DeviceError, RuntimeError), (cellgrad.UnsupportedError, NotImplementedError),
                               (cellgrad.BuildError, RuntimeError), (cellgrad.DriverError, RuntimeError), (cellgrad.FileError, OSError),
                               (cellgrad.MissingFileError, FileNotFoundError), (cellgrad.LibraryError, ImportError)):
            self.assertTrue(issubclass(kind, built_in) and issubclass(kind, cellgrad.Error))
        huge = cellgrad.Network("lstm", input=1, units=2**20, training=False)
        self.assertRaises(MemoryError, huge.init_params)


if __name__ == "__main__":
    py_tap.main()
