#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sequences with gaps between rows, and packed sequences, give the bits of dense and padded sequences; sequences with small gaps are not
copied.  Prints TAP.  The environment has srcdir: the source; LIBRARY: the shared library."""
import unittest

import py_tap

py_tap.need_numpy()
import numpy as np  # noqa: E402

import cellgrad  # noqa: E402

T, B, I, U = 6, 3, 4, 5
NAMES = ("input", "h", "c", "params")


def turned(array):
    """Returns the same array, but batch-major in memory."""
    return np.ascontiguousarray(array.transpose(1, 0, 2)).transpose(1, 0, 2)


def spaced(array, gap):
    """Returns an array of the same numbers, with a gap of `gap` elements after each row."""
    wide = np.full(array.shape[:2] + (array.shape[2] + gap,), np.nan, array.dtype)
    wide[..., :array.shape[2]] = array
    return wide[..., :array.shape[2]]


class Rows(unittest.TestCase):
    def setUp(self):
        self.network = cellgrad.Network("lstm", input=I, units=U, layers=2, bidirectional=True)
        self.params = self.network.init_params(seed=2)
        state = np.random.RandomState(1)
        self.x = state.standard_normal((T, B, I)).astype(np.float32)
        self.d_output = state.standard_normal((T, B, 2 * U)).astype(np.float32)

    def pair(self, x, d_output=None, out=None, **keywords):
        run = self.network.forward(self.params, x, out=out, **keywords)
        return run, run.backward(self.d_output if d_output is None else d_output)

    def same(self, one, other):
        for name in ("output", "h", "c"):
            np.testing.assert_array_equal(getattr(one[0], name), getattr(other[0], name), name)
        for name in NAMES:
            np.testing.assert_array_equal(getattr(one[1], name), getattr(other[1], name), name)

    def test_views(self):
        """Views by strides are used in place, forward and backward, and have the bits of dense arrays"""
        dense = self.pair(self.x)
        for x in (turned(self.x), spaced(self.x, 3), turned(np.concatenate([self.x, self.x]))[:T]):
            pair = self.pair(x, turned(self.d_output))
            self.assertIs(pair[0].x, x)
            self.assertEqual(pair[1].input.strides, x.strides)
            self.same(pair, dense)
            self.same(self.pair(x, spaced(self.d_output, 1)), dense)

    def test_batch_major(self):
        """A time-major array that is passed as a batch-major view, with lengths, is used in place, with the bits of a dense array"""
        network = cellgrad.Network("gru", input=I, units=U, time_major=False)
        params, x = network.init_params(seed=3), self.x.transpose(1, 0, 2)
        one, other = (network.forward(params, a, lengths=[6, 0, 2]) for a in (x, np.ascontiguousarray(x)))
        self.assertIs(one.x, x)
        np.testing.assert_array_equal(one.output, other.output)
        np.testing.assert_array_equal(one.backward(one.output).input, other.backward(other.output).input)

    def test_copies(self):
        """An array is copied if its elements are not adjacent, if its rows overlap or run backwards, or if gaps between rows are large"""
        dense = self.pair(self.x)
        wide = np.zeros((T, B, 2 * I), np.float32)
        wide[..., ::2] = self.x
        for x in (wide[..., ::2], np.ascontiguousarray(self.x[::-1])[::-1], spaced(self.x, 2 * I)):
            run, gradient = self.pair(x)
            self.assertIsNot(run.x, x)
            self.assertTrue(run.x.flags.c_contiguous)
            self.same((run, gradient), dense)
        repeated = np.broadcast_to(self.x[:1], self.x.shape)
        windows = np.lib.stride_tricks.sliding_window_view(np.arange((T + 1) * B, dtype=np.float32), I)[:T * B].reshape(T, B, I)
        for x in (windows, np.lib.stride_tricks.as_strided(windows, (T, B, I), (4 * B, 4 * (I + 1), 4))):
            self.assertIs(self.pair(x)[0].x.flags.c_contiguous, True)
            self.same(self.pair(x), self.pair(np.array(x)))
        pair = self.pair(repeated)
        self.assertTrue(pair[0].x.flags.c_contiguous)
        self.same(pair, self.pair(np.array(repeated)))

    def test_outputs(self):
        """The output and the gradient of the input may be views, and nothing is written to the gaps in a view of the output"""
        dense = self.pair(self.x)
        whole = np.full((T, B, 2 * U + 3), np.nan, np.float32)
        pair = self.pair(self.x, out=whole[..., 1:2 * U + 1])
        self.same(pair, dense)
        self.assertTrue(np.isnan(whole[..., 0]).all() and np.isnan(whole[..., 2 * U + 1:]).all())
        for x in (self.x, turned(self.x)):
            for like in (np.empty_like(self.x), turned(self.x), spaced(self.x, 5)):
                run = self.network.forward(self.params, x)
                gradient = run.backward(self.d_output, out={"input": like})
                self.assertIs(gradient.input, like)
                np.testing.assert_array_equal(like, dense[1].input)
        with self.assertRaisesRegex(cellgrad.ArgumentError, "out: output: .*used in place"):
            self.network.forward(self.params, self.x, out=np.zeros((T, B, 4 * U), np.float32)[..., ::2])
        with self.assertRaisesRegex(cellgrad.ArgumentError, "out: input: .*used in place"):
            dense[0].backward(self.d_output, out={"input": np.empty((T, B, 2 * I), np.float32)[..., ::2]})

    def test_packed(self):
        """A packed sequence gives the bits of the padded sequence, and its output has no padding"""
        sizes = [3, 2, 2, 1, 1, 0]
        there = np.arange(B) < np.array(sizes)[:, None]
        padded = self.pair(self.x, lengths=[5, 3, 1])
        run, gradient = self.pair(self.x[there], self.d_output[there], batch_sizes=sizes)
        self.assertEqual(run.output.shape, (9, 2 * U))
        np.testing.assert_array_equal(run.output, padded[0].output[there])
        np.testing.assert_array_equal(gradient.input, padded[1].input[there])
        for name in ("h", "c"):
            np.testing.assert_array_equal(getattr(run, name), getattr(padded[0], name))
        np.testing.assert_array_equal(gradient.params, padded[1].params)
        empty = self.network.forward(self.params, np.zeros((0, I), np.float32), batch_sizes=[])
        self.assertEqual((empty.output.shape, empty.h.shape), ((0, 2 * U), (4, 0, U)))

    def test_misuse(self):
        """Batch sizes are rejected if they grow, are no integers, are given with lengths, or do not fit x"""
        x = self.x.reshape(-1, I)
        for error, words, sizes, more in (
                (cellgrad.ArgumentError, "each at most the one before", [3, 5, 10], {}),
                (cellgrad.ArgumentError, "expected 0 to .*got -1", [9, 9, -1], {}),
                (cellgrad.ArgumentTypeError, "expected integers", [9.0, 9.0], {}),
                (cellgrad.ArgumentError, "expected None where lengths are given", [9, 9], {"lengths": [1] * 9}),
                (cellgrad.ArgumentError, r"x: expected shape \(17, 4\) \[N, input\]", [9, 8], {})):
            with self.assertRaisesRegex(error, words):
                self.network.forward(self.params, x, batch_sizes=sizes, **more)
        with self.assertRaisesRegex(cellgrad.ArgumentError, r"x: expected shape \[N, input=4\]"):
            self.network.forward(self.params, self.x, batch_sizes=[9, 9])


if __name__ == "__main__":
    py_tap.main()
