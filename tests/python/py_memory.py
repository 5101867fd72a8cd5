#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests which arrays calls of the Python package copy and which they do not, which arrays besides dense ones they accept, and which memory
results share with arguments.  Prints TAP.  The environment has srcdir: the source; LIBRARY: the shared library."""
import sys
import unittest

import py_tap

py_tap.need_numpy()
import numpy as np  # noqa: E402

import cellgrad  # noqa: E402

T, B, I, U = 6, 3, 4, 5


class Shown:
    """Acts as an array of another program in host memory: has the methods of DLPack alone, which give the memory of a NumPy array."""

    def __init__(self, array):
        self.array = array

    def __dlpack__(self, **keywords):
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


class Named(Shown):
    """Acts as an array whose dtype, such as bfloat16, __dlpack__ cannot pass, but __array__ can."""

    def __dlpack__(self, **keywords):
        raise BufferError("Unsupported dtype in DLTensor.")

    def __array__(self, dtype=None, copy=None):
        return self.array


class Memory(unittest.TestCase):
    def setUp(self):
        self.network = cellgrad.Network("lstm", input=I, units=U, layers=2, bidirectional=True)
        self.params = self.network.init_params(seed=2)
        state = np.random.RandomState(1)
        self.x = state.standard_normal((T, B, I)).astype(np.float32)
        self.h0 = state.standard_normal((4, B, U)).astype(np.float32)
        self.run = self.network.forward(self.params, self.x, self.h0)

    def same(self, run, other=None):
        other = other or self.run
        for name in ("output", "h", "c"):
            np.testing.assert_array_equal(getattr(run, name), getattr(other, name), name)

    def test_dense(self):
        """Dense arrays are passed without a copy, and the run keeps references to them"""
        self.assertIs(self.run.x, self.x)
        self.assertIs(self.run.params, self.params)
        self.assertIs(self.run.h0, self.h0)
        self.assertIsNone(self.run.c0)

    def test_views(self):
        """Inputs that are not dense or not aligned, and lists, give the same bits; a strided input is not changed"""
        wide = np.zeros((B, T, 2 * I), np.float32)
        view = wide.transpose(1, 0, 2)[..., ::2]
        view[...] = self.x
        before = wide.copy()
        self.same(self.network.forward(self.params, view, self.h0))
        np.testing.assert_array_equal(wide, before)
        raw = np.zeros(self.params.nbytes + 1, np.uint8)
        crooked = raw[1:].view(np.float32)
        crooked[...] = self.params
        self.assertFalse(crooked.flags.aligned)
        self.same(self.network.forward(crooked, np.asfortranarray(self.x), self.h0[::1]))
        self.same(self.network.forward(self.params, self.x[:, :, :].tolist(), self.h0.tolist()))

    def test_read_only(self):
        """Input arrays may be read-only"""
        for array in (self.params, self.x, self.h0):
            array.flags.writeable = False
        self.same(self.network.forward(self.params, self.x, self.h0))
        self.assertFalse(self.network.params_view(self.params)["layer0.input.a_i"].flags.writeable)

    def test_dlpack(self):
        """Another program's array is used without a copy, by __dlpack__, or by __array__ if that fails"""
        run = self.network.forward(Shown(self.params), Shown(self.x), Shown(self.h0))
        self.same(run)
        self.assertEqual(run.x.ctypes.data, self.x.ctypes.data)
        run = self.network.forward(self.params, Named(self.x), self.h0)
        self.same(run)
        self.assertEqual(run.x.ctypes.data, self.x.ctypes.data)

    def test_out(self):
        """Outputs are written to the arrays of `out`, a run's memory can be reused for another run, and accumulate=True adds to `out`"""
        output = np.full_like(self.run.output, 7)
        run = self.network.forward(self.params, self.x, self.h0, out=output)
        self.assertIs(run.output, output)
        self.same(run)
        again = self.network.forward(self.params, self.x, self.h0, out=run)
        for name in ("output", "h", "c", "reserve"):
            self.assertIs(getattr(again, name), getattr(run, name))
        self.same(again)
        params = np.ones_like(self.params)
        plain = self.network.backward(self.run, self.run.output)
        added = self.network.backward(self.run, self.run.output, want=[], out={"params": params}, accumulate=True)
        self.assertIs(added.params, params)
        self.assertIsNone(added.input)
        np.testing.assert_allclose(params, plain.params + 1, rtol=1e-5, atol=1e-5)

    def test_reserve(self):
        """The memory of a large reserve space begins at a cache line, and the next run takes it once nothing refers to it, not before"""
        network = cellgrad.Network("lstm", input=I, units=64)
        params, x = network.init_params(seed=1), np.ones((60, 32, I), np.float32)

        def forward():
            run = network.forward(params, x)
            self.assertEqual(run.reserve.ctypes.data % 64, 0)
            return run

        run, other = forward(), forward()
        first, second = (one.reserve.ctypes.data for one in (run, other))
        self.assertNotEqual(first, second)
        gradient = network.backward(other, other.output)
        del run
        run = forward()
        if sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)():
            self.assertEqual(run.reserve.ctypes.data, first)
        np.testing.assert_array_equal(network.backward(run, run.output).params, gradient.params)
        part = other.reserve[8:16]
        bytes_ = part.copy()
        del other
        run = [forward() for _ in range(3)]
        self.assertNotIn(second, [one.reserve.ctypes.data for one in run])
        np.testing.assert_array_equal(part, bytes_)
        shorter = network.forward(params, x[:1])
        self.assertLess(shorter.reserve.size, run[0].reserve.size // 20)

    def test_large_results(self):
        """Large outputs and gradients begin at a cache line; later calls take their memory once nothing refers to it, not before, and a
        network keeps the memory of at most eight results"""
        network = cellgrad.Network("lstm", input=64, units=64)
        params, x = network.init_params(seed=1), np.ones((200, 32, 64), np.float32)
        run = network.forward(params, x)
        gradient = network.backward(run, run.output)
        for array in (run.output, gradient.input):
            self.assertEqual((array.ctypes.data % 64, array.dtype, array.shape), (0, np.float32, x.shape))
        part, first, bytes_ = gradient.input[3:], run.output.ctypes.data, gradient.input.copy()
        places = set()
        del gradient, run
        for scale in range(5):
            run = network.forward(params, scale * x)
            gradient = network.backward(run, run.output)
            places |= {run.output.ctypes.data, gradient.input.ctypes.data}
        np.testing.assert_array_equal(part, bytes_[3:])
        if sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)():
            self.assertIn(first, places)
            self.assertLess(len(places), 6)
        several = [network.forward(params, x) for _ in range(12)]
        self.assertEqual(len({one.output.ctypes.data for one in several}), 12)
        self.assertLessEqual(len(network._spare._kept), 8)

    def test_want(self):
        """Backward gives only the requested gradients, and each has the bits that it has among all gradients"""
        whole = self.network.backward(self.run, self.run.output)
        for name in whole._fields:
            one = self.network.backward(self.run, self.run.output, want=name)
            self.assertEqual([k for k in one._fields if getattr(one, k) is not None], [name])
            np.testing.assert_array_equal(getattr(one, name), getattr(whole, name))
        np.testing.assert_array_equal(self.run.backward(self.run.output).params, whole.params)

    def test_empty(self):
        """Sequences of 0 steps and batches of 0 sequences are accepted"""
        for shape in ((0, B, I), (T, 0, I)):
            run = self.network.forward(self.params, np.zeros(shape, np.float32), lengths=[0] * shape[1])
            gradient = self.network.backward(run, run.output, run.h, run.c)
            self.assertEqual((gradient.input.shape, gradient.h.shape), (shape, (4, shape[1], U)))
            self.assertEqual(abs(gradient.params).max(), 0)

    def test_regions(self):
        """The regions of params cover every element once, under the names that the cell gives"""
        for keywords in ({"cell": "lstm", "layers": 2, "bidirectional": True, "options": ["peephole"], "proj": 0},
                         {"cell": "gru", "layers": 3}, {"cell": "lstm", "proj": 3}, {"cell": "rnn_relu", "input_mode": "skip", "input": U}):
            network = cellgrad.Network(**{"input": I, "units": U, **keywords})
            params = np.zeros(network.params_size, np.float32)
            views = network.params_view(params)
            for view in views.values():
                view += 1
            self.assertTrue((params == 1).all(), keywords)
            prefixes = {name.split(".")[0] + (".reverse" if ".reverse." in name else "") for name in views}
            self.assertEqual(len(prefixes), network.config.layers * network.directions)
        views = self.network.params_view(self.params)
        self.assertEqual(views["layer0.input.a_i"].shape, (U, I))
        self.assertEqual(views["layer1.reverse.input.a_f"].shape, (U, 2 * U))
        self.assertEqual(views["layer1.recurrent.a_o"].shape, (U, U))
        saved = self.network.save_weights(self.params, "pytorch")
        np.testing.assert_array_equal(saved["weight_ih_l1_reverse"][U:2 * U], views["layer1.reverse.input.a_f"])

    def test_layouts(self):
        """Batch-major sequences, with states in either layout, give the transposed output and h of time-major ones"""
        turned = self.x.transpose(1, 0, 2).copy()
        for states_major in (False, True):
            network = self.network.replace(time_major=False, states_major=states_major)
            run = network.forward(self.params, turned, self.h0 if states_major else self.h0.transpose(1, 0, 2))
            np.testing.assert_array_equal(run.output.transpose(1, 0, 2), self.run.output)
            np.testing.assert_array_equal(run.h if states_major else run.h.transpose(1, 0, 2), self.run.h)

    def test_dropout(self):
        """Equal counters give equal dropout, another counter gives another; drop=False and training=False switch dropout off"""
        network = self.network.replace(dropout=0.5, seed=9)
        first, same, other = (network.forward(self.params, self.x, self.h0, counter=counter).output for counter in (1, 1, 2**64 - 1))
        np.testing.assert_array_equal(first, same)
        self.assertFalse(np.array_equal(first, other))
        kept = network.forward(self.params, self.x, self.h0, drop=False)
        self.same(kept)
        self.assertTrue(np.isfinite(network.backward(kept, kept.output).params).all())
        self.same(network.replace(training=False).forward(self.params, self.x, self.h0))

    def test_pieces(self):
        """A sequence in two pieces, the second from the final states of the first, gives the outputs of the whole sequence to 1e-14"""
        network = cellgrad.Network("gru", input=I, units=U, dtype="float64")
        params, x = network.init_params(), self.x.astype(np.float64)
        whole = network.forward(params, x)
        first = network.forward(params, x[:2])
        second = network.forward(params, x[2:], first.h, first_step=2)
        np.testing.assert_allclose(np.concatenate([first.output, second.output]), whole.output, rtol=1e-14)

    def test_slopes(self):
        """The gradients of a user's cell with a param and an option equal central differences of the loss, along one direction"""
        cell = cellgrad.Cell("cell own\ngates  a b\nstate  s\noutput h\noption side v\nparam  leak = 0.25\n\n"
                             "s = sigmoid(a) * s_prev + leak * tanh(b + v * s_prev)\nh = tanh(s)\nsave s\n")
        network = cellgrad.Network(cell, input=I, units=U, options="side", values={"leak": 0.7}, dtype="float64")
        state = np.random.RandomState(4)
        params, x = state.standard_normal(network.params_size), self.x.astype(np.float64)

        def loss(p, at):
            return float((network.forward(p, at, lengths=[6, 2, 0]).output ** 2).sum())

        run = network.forward(params, x, lengths=[6, 2, 0])
        gradient = network.backward(run, 2 * run.output)
        for name, got, value in (("params", gradient.params, params), ("x", gradient.input, x)):
            way = state.standard_normal(value.shape)
            ends = [loss(*((params + e * way, x) if name == "params" else (params, x + e * way))) for e in (1e-6, -1e-6)]
            self.assertAlmostEqual((ends[0] - ends[1]) / 2e-6, float((got * way).sum()), delta=1e-6 * np.abs(got).sum())

    def test_kernels(self):
        """A kernel gives the same bits if its inputs' rows have gaps, and NumPy's h to 1e-5; a kernel of sums adds all rows"""
        rng = np.random.RandomState(5)
        gates = rng.standard_normal((7, 4 * U)).astype(np.float32)
        kernel = cellgrad.Kernel("lstm")
        inputs = {name: gates[:, k * U:(k + 1) * U] for k, name in enumerate(("a_i", "a_f", "a_g", "a_o"))}
        c_prev = rng.standard_normal((7, U)).astype(np.float32)
        apart = kernel.run({**inputs, "c_prev": c_prev})
        dense = kernel.run({name: array.copy() for name, array in {**inputs, "c_prev": c_prev}.items()})
        for name, array in apart.items():
            np.testing.assert_array_equal(array, dense[name], name)
        i, f, g, o = (1 / (1 + np.exp(-v)) if k != 2 else np.tanh(v) for k, v in enumerate(inputs.values()))
        np.testing.assert_allclose(apart["h"], o * np.tanh(f * c_prev + i * g), rtol=1e-5, atol=1e-6)
        one = kernel.run({**inputs, "c_prev": c_prev}, want=["h"])
        self.assertEqual(list(one), ["h"])
        # The inputs of a kernel include the arguments whose means over units are in the kernel's equations.
        means = cellgrad.Kernel("cell x\ngates a b\nweight w\noutput h\nh = mean(a) * b * w\n")
        self.assertEqual(means.inputs(), {"a": "tensor", "b": "tensor", "w": "per_unit"})
        a, b, w = (np.float32(np.arange(12).reshape(3, 4) + k) for k in range(3))
        self.assertTrue(np.allclose(means.run({"a": a, "b": b, "w": w[0]})["h"], a.mean(1, keepdims=True) * b * w[0]))
        means = cellgrad.Kernel("cell x\ngates a b\nweight w\noutput h\nh = mean(a) * b * w\n", "grad", shape="sum")
        self.assertEqual(list(means.inputs()), ["a", "b", "da", "db", "dh"])
        sums = cellgrad.Kernel("rnn_tanh", "grad", dtype="float16", shape="sum")
        da = np.ones((130, 3), np.float16)
        got = sums.run({name: da for name in sums.inputs()})
        for name, kind in sums.outputs().items():
            self.assertEqual((kind, got[name].dtype, got[name].tolist()), ("per_unit", np.dtype(np.float16), [130] * 3))

    def test_weights(self):
        """The weights of an LSTM of two layers that are converted to a format and back have the same bits, in every format"""
        network = cellgrad.Network("lstm", input=I, units=U, layers=2)
        params = network.init_params("uniform uniform zeros", seed=6)
        for format in cellgrad.formats():
            saved = network.save_weights(params, format, prefix="m.")
            self.assertEqual({name: array.shape for name, array in saved.items()},
                             {f"m.{name}": shape for name, shape in network.weight_shapes(format).items()})
            np.testing.assert_array_equal(network.load_weights(saved, format, prefix="m."), params, format)
        part = {name: array for name, array in network.save_weights(params, "pytorch").items() if not name.startswith("bias")}
        np.testing.assert_array_equal(network.load_weights(part, "pytorch", strict=False), params)

    def test_peepholes(self):
        """Formats without peepholes leave them out if they are 0 or with lossy, as from the network without them, and load them as 0"""
        for cell, values in (("lstm", {}), ("lstm_block", {"forget_bias": 0, "cell_clip": 0})):
            network = cellgrad.Network(cell, input=I, units=U, layers=2, bidirectional=True, options="peephole", values=values)
            plain = network.replace(options="")
            params = network.init_params("uniform uniform uniform", seed=6)
            zeroed = params.copy()
            zeroed[plain.params_size:] = 0
            for format in ("pytorch", "keras", "checkpoint"):
                for given, lossy in ((params, True), (zeroed, True)) + (((zeroed, False),) if format == "pytorch" else ()):
                    saved = network.save_weights(given, format, lossy=lossy)
                    expected = plain.save_weights(params[:plain.params_size], format, lossy=True)
                    self.assertEqual(list(saved), list(expected))
                    for name, array in expected.items():
                        np.testing.assert_array_equal(saved[name], array, name)
                self.assertEqual(network.weight_shapes(format), plain.weight_shapes(format))
                np.testing.assert_array_equal(network.load_weights(saved, format)[plain.params_size:], 0)
            np.testing.assert_array_equal(network.load_weights(network.save_weights(zeroed, "pytorch"), "pytorch"), zeroed)

    def test_kept(self):
        """A call holds no reference to an array once its run is deleted"""
        x = np.array(self.x)
        before = sys.getrefcount(x)
        self.network.backward(self.network.forward(self.params, x), self.run.output)
        self.assertEqual(sys.getrefcount(x), before)


if __name__ == "__main__":
    py_tap.main()
