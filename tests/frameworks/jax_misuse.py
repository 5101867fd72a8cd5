#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wrong arguments of cellgrad.jax raise an exception of cellgrad when a network is made or a call is traced, or, if only values of arrays
are wrong, JAX's exception with the library's message when the call runs.  Prints TAP."""
import os
import shutil
import tempfile

import jax_tap
from jax_tap import LEAKY, py_tap, python
import jax
import jax.numpy as jnp
import numpy as np

import cellgrad
import cellgrad.jax as ours
from cellgrad.jax import _call, _module

T, B, I, U = 5, 2, 3, 4
LSTM, GRU = ours.Network("lstm", input=I, units=U), ours.Network("gru", input=I, units=U)
PARAMS, X = jnp.zeros((LSTM.params_size,)), jnp.zeros((T, B, I))


class Misuse(py_tap.Refusals):
    def fails(self, words, call, *arguments, **keywords):
        """Checks that a call, with and without jax.jit, raises a RuntimeError or ValueError whose message has `words`."""
        for each in (call, jax.jit(call)):
            with self.assertRaises((RuntimeError, ValueError), msg=words) as caught:
                jax.block_until_ready(each(*arguments, **keywords))
            self.assertIn(words, str(caught.exception))

    def test_networks(self):
        """Wrong cells, sizes, options and modes of networks are rejected"""
        for kind, words, cell, keywords in (
                (ValueError, "there is no cell 'lstn'", "lstn", {}), (FileNotFoundError, "no such file", "./none.cell", {}),
                (RuntimeError, "cell:", "cell x\noutput h\nh = b\n", {}), (TypeError, "cell: expected", 3, {}),
                (ValueError, "units: expected 1", "lstm", {"units": 0}), (TypeError, "units: expected an integer", "lstm", {"units": 2.5}),
                (ValueError, "layers: expected", "lstm", {"layers": 2**31}), (ValueError, "peephol", "lstm", {"options": "peephol"}),
                (ValueError, "input_mode: expected one of", "lstm", {"input_mode": "wide"}), (ValueError, "dropout", "lstm", {"dropout": 1.5}),
                (ValueError, "dropout: expected a number, got NaN", "lstm", {"dropout": float("nan")}),
                (ValueError, "leek", LEAKY, {"values": {"leek": 1.0}}),
                (ValueError, "proj", "gru", {"proj": 2}), (TypeError, "values: expected a mapping", LEAKY, {"values": [1.0]})):
            self.refuse(kind, words, ours.Network, cell, **{"input": I, "units": U, **keywords})

    def test_arrays(self):
        """Wrong shapes and dtypes are rejected, with and without jit, and under grad"""
        h, c = jnp.zeros((1, B, U)), jnp.zeros((1, B, U))
        first = ours.Network("lstm", input=I, units=U, time_major=False)
        for kind, words, network, arguments in (
                (ValueError, "params: expected shape (144,) [params_size], got (143,)", LSTM, (PARAMS[1:], X)),
                (ValueError, "params: expected shape (144,)", LSTM, (PARAMS.reshape(12, 12), X)),
                (TypeError, "params: expected float32", LSTM, (PARAMS.astype(int), X)),
                (ValueError, "x: expected shape [T, B, input=3], got (5, 2, 4)", LSTM, (PARAMS, jnp.zeros((T, B, 4)))),
                (ValueError, "x: expected shape [T, B, input=3], got (5, 3)", LSTM, (PARAMS, X[:, 0])),
                (ValueError, "x: expected shape [B, T, input=3]", first, (PARAMS, X[0])),
                (TypeError, "x: expected float64, got float32", LSTM, (PARAMS, X.astype(jnp.float32))),
                (TypeError, "x: expected float32, float64, float16 or bfloat16, got int64", LSTM, (PARAMS, X.astype(int))),
                (TypeError, "got complex128", LSTM, (PARAMS, X + 1j)),
                (ValueError, "h0: expected shape (1, 2, 4) [L*D, B, H], got (1, 4)", LSTM, (PARAMS, X, h[:, 0])),
                (ValueError, "h0: expected shape (1, 2, 4)", first, (PARAMS, jnp.zeros((B, T, I)), jnp.zeros((B, 1, U)))),
                (TypeError, "h0: expected float64, got float16", LSTM, (PARAMS, X, h.astype(jnp.float16))),
                (ValueError, "c0: expected shape (1, 2, 4)", LSTM, (PARAMS, X, h, c[:, :1])),
                (ValueError, "c0: expected None, since the cell gru has no cell state", GRU, (jnp.zeros((GRU.params_size,)), X, h, c)),
                (TypeError, "lengths: expected integers, got float64", LSTM, (PARAMS, X, None, None, jnp.ones((B,)))),
                (TypeError, "lengths: expected integers, got bool", LSTM, (PARAMS, X, None, None, jnp.ones((B,), bool))),
                (ValueError, "lengths: expected shape (2,) [B], got (3,)", LSTM, (PARAMS, X, None, None, jnp.ones((3,), int)))):
            self.refuse(kind, words, network, *arguments)
            self.refuse(kind, words, jax.jit(network), *arguments)
            self.refuse(kind, words, jax.grad(lambda *a, network=network: network(*a)[0].sum(), allow_int=True), *arguments)

    def test_parameters(self):
        """Wrong arguments of weights, params, init and numpy, and a wrong key of a call, are rejected"""
        weights = LSTM.weights(PARAMS)
        self.refuse(ValueError, "params: expected shape (144,)", LSTM.weights, PARAMS[:-1])
        self.refuse(ValueError, "missing layer0.input.a_i; unknown none", LSTM.params,
                    {name: weight for name, weight in weights.items() if name != "layer0.input.a_i"})
        self.refuse(ValueError, "missing none; unknown more", LSTM.params, {**weights, "more": PARAMS})
        self.refuse(ValueError, "layer0.input.a_f: expected shape (4, 3), got (3, 4)", LSTM.params,
                    {**weights, "layer0.input.a_f": jnp.zeros((I, U))})
        self.refuse(TypeError, "expected float64, got float32", LSTM.params,
                    {**weights, "layer0.input_bias.a_f": jnp.zeros((U,), jnp.float32)})
        self.refuse(TypeError, "weights: expected a mapping", LSTM.params, PARAMS)
        self.refuse(TypeError, "dtype: expected float32", LSTM.init, jax.random.key(0), dtype=jnp.int32)
        self.refuse(TypeError, "dtype: expected float32", LSTM.numpy, "complex64")
        self.fails("there is no rule 'uniforn'", lambda: LSTM.init(jax.random.key(0), "uniforn uniform uniform"))
        self.fails("zero byte", lambda: LSTM.init(jax.random.key(0), "uniform\0"))
        dropping = ours.Network("lstm", input=I, units=U, layers=2, dropout=0.5)
        for key in (3, jnp.zeros((3,)), jax.random.split(jax.random.key(0))):
            self.refuse(TypeError, "key: expected a key of jax.random: ", dropping.init, key)
            self.refuse(TypeError, "key: expected a key of jax.random", dropping, dropping.init(jax.random.key(0)), X.astype("f4"), key=key)

    def test_lengths(self):
        """Lengths above the number of steps, and below zero, raise JAX's error when the call runs"""
        call = lambda lengths: LSTM(PARAMS, X, lengths=lengths)[0]
        for words, lengths in (("[0]: expected 0 to T=5, got 6", [6, 1]), ("[1]: expected 0 to T=5, got -1", [1, -1])):
            self.fails(words, call, jnp.array(lengths))
            self.fails(words, jax.grad(lambda p, lengths: LSTM(p, X, lengths=lengths)[0].sum()), PARAMS, jnp.array(lengths))
            self.fails(words, jax.vmap(call), jnp.array([[1, 1], lengths]))
        jax.block_until_ready(call(jnp.array([5, 0])))

    def test_reserve(self):
        """Backward rejects the reserve space of another counter, network or number of steps, one of zeros, and a truncated one"""
        network = ours.Network("lstm", input=I, units=U, layers=2, dropout=0.5)
        params, counter = jnp.ones((network.params_size,)), jnp.array([1, 0], jnp.uint32)
        inputs = X, None, None, params, None, counter
        (output, _, _), reserve = _call._forward(network, True, inputs)

        def backward(reserve, counter, network=network, x=X):
            return _call._gradients(network, (True,) + (False,) * 3, (x, None, None, params, None, counter), reserve, (output, None, None))

        jax.block_until_ready(backward(reserve, counter))
        other = ours.Network("lstm", input=I, units=U, layers=2, dropout=0.25)
        for call, arguments in ((backward, (reserve, counter + jnp.uint32(1))), (backward, (jnp.zeros_like(reserve), counter)),
                                (backward, (reserve[:100], counter)), (lambda *a: backward(*a, network=other), (reserve, counter)),
                                (lambda *a: backward(*a, x=X.at[0].set(0)[:-1]), (reserve, counter))):
            self.fails("rnn_backward: rnn", call, *arguments)

    def test_second(self):
        """A gradient of a gradient, by grad, hessian, jvp or jacrev, raises a cellgrad.Error; jvp of a network raises JAX's TypeError"""
        loss = lambda params: jnp.sum(LSTM(params, X)[0] ** 2)
        gradient = jax.grad(loss)
        for call in (jax.grad(lambda p: gradient(p).sum()), jax.jit(jax.grad(lambda p: gradient(p).sum())), jax.hessian(loss),
                     lambda p: jax.jvp(gradient, (p,), (p,)), jax.jacrev(gradient)):
            self.refuse(NotImplementedError, "no gradient of a gradient", call, PARAMS)
        with self.assertRaisesRegex(TypeError, "forward-mode"):
            jax.jvp(loss, (PARAMS,), (PARAMS,))

    def test_module(self):
        """If cellgrad_jax.so is not there or is no library, the import raises LibraryError; a subfolder cellgrad may hold it, too"""
        with tempfile.TemporaryDirectory() as folder:
            library = shutil.copy(os.path.realpath(os.environ["CELLGRAD_LIBRARY"]), os.path.join(folder, "libcellgrad.so.0"))
            status, output = python("-c", "import cellgrad.jax", CELLGRAD_LIBRARY=library)
            self.assertNotEqual(status, 0)
            self.assertRegex(output, rf"LibraryError: cellgrad.jax has no module: no such file: {os.path.realpath(folder)}/cellgrad_jax.so")
            with open(os.path.join(folder, _module.NAME), "w", encoding="utf-8") as file:
                file.write("no library")
            status, output = python("-c", "import cellgrad.jax", CELLGRAD_LIBRARY=library)
            self.assertRegex(output, r"LibraryError: cellgrad.jax: .*cellgrad_jax.so: ")
            os.makedirs(os.path.join(folder, "cellgrad"))
            os.remove(os.path.join(folder, _module.NAME))
            shutil.copy(os.path.join(_module.library_folder(), _module.NAME), os.path.join(folder, "cellgrad"))
            self.assertEqual(python("-c", "import cellgrad.jax", CELLGRAD_LIBRARY=library), (0, ""))

    def test_versions(self):
        """An older JAX and a missing one raise an error that says what is needed; so does a package of another version than the module"""
        status, output = python("-c", "import jax; jax.__version__ = '0.4.38'\nimport cellgrad.jax")
        self.assertNotEqual(status, 0)
        self.assertIn("cellgrad.jax needs JAX 0.5 or later, and this is JAX 0.4.38", output)
        status, output = python("-c", "import sys; sys.modules['jax'] = None\nimport cellgrad.jax")
        self.assertIn("ImportError: cellgrad.jax needs JAX: pip install 'cellgrad[jax]'", output)
        status, output = python("-c", "import cellgrad._lib; cellgrad._lib.VERSION = '9.9.9'; import cellgrad._load as l\n"
                                "l.VERSION = '0.2.0'; l.lib.load()\nimport cellgrad.jax")
        self.assertRegex(output, r"LibraryError: the package cellgrad is 9\.9\.9, and .*cellgrad_jax.so is ")

    def test_values(self):
        """A NaN in the input is accepted, and gives NaN in the outputs of that sequence of the batch alone"""
        output, _ = LSTM(PARAMS + 1, X.at[0, 0, 0].set(np.nan))
        self.assertTrue(bool(jnp.isnan(output[:, 0]).all()))
        self.assertFalse(bool(jnp.isnan(output[:, 1]).any()))


if __name__ == "__main__":
    jax_tap.main()
