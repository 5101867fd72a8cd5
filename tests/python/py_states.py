#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests cells with several cell states in the Python package.  Prints TAP.  The environment has srcdir: the source;
LIBRARY: the shared library."""
import unittest

import py_tap

py_tap.need_numpy()
import numpy as np  # noqa: E402

import cellgrad  # noqa: E402

T, B, I, U = 7, 3, 4, 5
# A cell of the shelf, templates/cells, with three cell states: c, the normaliser n and the stabiliser m.
SLSTM = "slstm"


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


class States(unittest.TestCase):
    def setUp(self):
        draw = np.random.RandomState(5).standard_normal
        self.draw = draw
        self.network = cellgrad.Network(SLSTM, input=I, units=U, dtype="float64")
        self.params = self.network.init_params("uniform uniform uniform", seed=2)
        self.x, self.h0, self.c0 = draw((T, B, I)), draw((1, B, U)), draw((3, 1, B, U))
        self.c0[1] = 1 + abs(self.c0[1])

    def test_equations(self):
        """A cell with three cell states has the output and the last states of its equations, from given states and from zeros"""
        view = self.network.params_view(self.params)
        self.assertEqual(self.network.cell.n_states, 3)
        for h0, c0 in ((self.h0, self.c0), (None, None)):
            run = self.network.forward(self.params, self.x, h0, c0)
            h = np.zeros((B, U)) if h0 is None else h0[0]
            c, n, m = np.zeros((3, B, U)) if c0 is None else c0[:, 0]
            for t in range(T):
                z, i, f, o = (self.x[t] @ view[f"layer0.input.a_{k}"].T + view[f"layer0.input_bias.a_{k}"]
                              + h @ view[f"layer0.recurrent.a_{k}"].T + view[f"layer0.recurrent_bias.a_{k}"] for k in "zifo")
                most = np.maximum(f + m, i)
                i, f, m = np.exp(i - most), np.exp(f + m - most), most
                c, n = f * c + i * np.tanh(z), f * n + i
                h = sigmoid(o) * c / n
                np.testing.assert_allclose(run.output[t], h, rtol=0, atol=1e-12)
            self.assertEqual((run.h.shape, run.c.shape), ((1, B, U), (3, 1, B, U)))
            np.testing.assert_allclose(run.c[:, 0], (c, n, m), rtol=0, atol=1e-12)

    def test_pieces(self):
        """A sequence in two pieces, between which all states pass, has the outputs and the gradients of the whole, in both layouts"""
        for major in (True, False):
            network = self.network.replace(time_major=major)
            x, h0, c0 = (self.x, self.h0, self.c0) if major else (
                self.x.swapaxes(0, 1), self.h0.swapaxes(0, 1), self.c0.swapaxes(1, 2))
            cut = (lambda a, part: a[part]) if major else (lambda a, part: a[:, part])
            whole = network.forward(self.params, x, h0, c0)
            d_output = self.draw(whole.output.shape)
            d_h, d_c = self.draw(whole.h.shape), self.draw(whole.c.shape)
            first = network.forward(self.params, cut(x, slice(0, 3)), h0, c0)
            second = network.forward(self.params, cut(x, slice(3, T)), first.h, first.c)
            np.testing.assert_array_equal(np.concatenate([first.output, second.output], 0 if major else 1), whole.output)
            np.testing.assert_array_equal(second.c, whole.c)
            all_at_once = whole.backward(d_output, d_h, d_c)
            late = second.backward(cut(d_output, slice(3, T)), d_h, d_c)
            early = first.backward(cut(d_output, slice(0, 3)), late.h, late.c)
            for got, want in ((early.h, all_at_once.h), (early.c, all_at_once.c), (early.params + late.params, all_at_once.params)):
                np.testing.assert_allclose(got, want, rtol=0, atol=1e-11 * abs(want).max())

    def test_memory(self):
        """An array c of out gets all cell states of two layers, and those of the first layer are the states of that layer alone"""
        network = self.network.replace(layers=2)
        params = network.init_params("uniform uniform uniform", seed=4)
        out = {"c": np.full((3, 2, B, U), np.nan)}
        run = network.forward(params, self.x, out=out)
        self.assertIs(run.c, out["c"])
        below = self.network.forward(self.lowest(network, params), self.x)
        np.testing.assert_array_equal(run.c[:, :1], below.c)
        self.assertEqual(network.backward(run, d_c=np.ones_like(run.c)).c.shape, (3, 2, B, U))

    def lowest(self, network, params):
        """Returns the params of the first layer alone."""
        alone, view = np.empty(self.network.params_size), network.params_view(params)
        for name, part in self.network.params_view(alone).items():
            part[:] = view[name]
        return alone

    def test_misuse(self):
        """Wrong shapes of cell states raise ArgumentError with the axes"""
        for wrong in (self.c0[0], self.c0[:2], self.c0[:, :, :2]):
            with self.assertRaisesRegex(cellgrad.ArgumentError, r"c0: expected shape .*\[S, L\*D, B, units\]"):
                self.network.forward(self.params, self.x, None, wrong)


if __name__ == "__main__":
    py_tap.main()
