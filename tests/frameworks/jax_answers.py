#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Networks of cellgrad.jax have the answers of PyTorch that are stored in tests/data/CudnnRNNV3-*, within TOLERANCE, those of the same
network by jax.lax.scan, to 1e-13, and, to the bit, those of cellgrad.Network.  Prints TAP."""
import glob
import os
import pickle
import tempfile
import unittest

import jax_tap
from jax_tap import LEAKY, SLSTM, py_tap
import jax
import jax.numpy as jnp
import numpy as np
from jax.test_util import check_grads

import cellgrad
import cellgrad.jax as ours
from cellgrad.jax import bench
from py_answers import TOLERANCE, read

T, B, I, U = 6, 3, 4, 5
F64 = jnp.float64


def normal(seed, *shape, dtype=F64):
    return jax.random.normal(jax.random.key(seed), shape, dtype)


def numbers_of(path, dtype):
    """Returns a stored network, the tensors of its file with floats in `dtype`, and these tensors unconverted. States are [L*D, B, .]."""
    expected, about = read(path)
    is_major = about.get("time_major", "true") == "true"
    if not is_major:
        expected = {name: tensor.transpose(1, 0, 2) if name.startswith(("input_h", "input_c", "output_h", "output_c")) else tensor
                    for name, tensor in expected.items()}
    t = {name: jnp.asarray(tensor, dtype if tensor.dtype.kind == "f" else None) for name, tensor in expected.items()}
    both, proj = about.get("direction") == "bidirectional", int(about.get("num_proj", 0))
    network = ours.Network(
        about["rnn_mode"], input=t["input"].shape[2], units=t["input_c" if proj else "input_h"].shape[2],
        layers=t["input_h"].shape[0] // (2 if both else 1), bidirectional=both, proj=proj, time_major=is_major,
        input_mode={"skip_input": "skip"}.get(about.get("input_mode"), "linear"))
    return network, t, expected


class Answers(unittest.TestCase):
    def close(self, got, want, tolerance, what):
        got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
        self.assertEqual(got.shape, want.shape, what)
        self.assertTrue(np.isfinite(got).all(), what)
        self.assertLessEqual(np.abs(got - want).max(initial=0), tolerance * (np.abs(want).max(initial=0) or 1.0), what)

    def same(self, got, want, what=""):
        """Checks that two pytrees have equally many arrays, with equal numbers."""
        leaves, others = jax.tree.leaves(got), jax.tree.leaves(want)
        self.assertEqual(len(leaves), len(others), what)
        for a, b in zip(leaves, others):
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b), what)

    def case(self, path, dtype):
        network, t, expected = numbers_of(path, dtype)

        def forward(params, x, h0, c0):
            output, (h, c) = network(params, x, h0, c0, lengths=t["sequence_lengths"])
            return output, h, c

        def step(arguments, upstream):
            results, pull = jax.vjp(forward, *arguments)
            return results, pull(upstream)

        arguments = t["params"], t["input"], t["input_h"], t.get("input_c")
        upstream = t["output_backprop"], t["output_h_backprop"], t.get("output_c_backprop")
        results, gradients = jax.jit(step)(arguments, upstream)
        count = 0
        for name, got in (*zip(("output", "output_h", "output_c"), results),
                          *zip(("params_backprop", "input_backprop", "input_h_backprop", "input_c_backprop"), gradients)):
            self.assertEqual(got is None, name not in expected, f"{path}: {name}")
            if got is not None:
                self.assertEqual(got.dtype, dtype)
                self.close(got, expected[name], TOLERANCE[dtype], f"{os.path.basename(path)}: {name}")
                count += 1
        return count

    def cases(self, dtype):
        paths = sorted(glob.glob(os.path.join(py_tap.DATA, "CudnnRNNV3-*.safetensors")))
        self.assertEqual(sum(self.case(path, dtype) for path in paths), 199)

    def test_data_float64(self):
        """Compiled networks in float64 have the 199 outputs and gradients of tests/data/CudnnRNNV3-* to 1e-13"""
        self.cases("float64")

    def test_data_float32(self):
        """Compiled networks in float32 have the 199 outputs and gradients of tests/data/CudnnRNNV3-* to 2e-5"""
        self.cases("float32")

    def test_data_float16(self):
        """Compiled networks in float16 have the 199 outputs and gradients of tests/data/CudnnRNNV3-* to 2e-2"""
        self.cases("float16")

    def test_data_bfloat16(self):
        """Compiled networks in bfloat16 have the 199 outputs and gradients of tests/data/CudnnRNNV3-* to 1.2e-1"""
        self.cases("bfloat16")

    def test_scan(self):
        """An LSTM, and a GRU, have the loss and the gradients of the same network by jax.lax.scan to 1e-13"""
        lstm = ours.Network("lstm", input=I, units=U)
        params, x = normal(1, lstm.params_size), normal(2, T, B, I)
        got = jax.value_and_grad(lambda p, x: jnp.sum(jnp.sin(lstm(p, x)[0])), (0, 1))(params, x)
        want = jax.value_and_grad(lambda p, x: jnp.sum(jnp.sin(bench.scanned(bench.weights_of(lstm, p), x))), (0, 1))(params, x)
        for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want)):
            self.close(a, b, 1e-13, "lstm")
        gru = ours.Network("gru", input=I, units=U)
        params = normal(3, gru.params_size)

        def scanned(params, x):
            w = gru.weights(params)

            def step(h, x):
                gate = {name: (x @ w[f"layer0.input.{name}"].T + w[f"layer0.input_bias.{name}"],
                               h @ w[f"layer0.recurrent.{name}"].T + w[f"layer0.recurrent_bias.{name}"]) for name in gru.cell.gates}
                reset, update, new = gru.cell.gates
                r, z = jax.nn.sigmoid(sum(gate[reset])), jax.nn.sigmoid(sum(gate[update]))
                h = (1 - z) * jnp.tanh(gate[new][0] + r * gate[new][1]) + z * h
                return h, h

            return jax.lax.scan(step, jnp.zeros((B, U)), x)[1]

        got = jax.value_and_grad(lambda p, x: jnp.sum(jnp.sin(gru(p, x)[0])), (0, 1))(params, x)
        want = jax.value_and_grad(lambda p, x: jnp.sum(jnp.sin(scanned(p, x))), (0, 1))(params, x)
        for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want)):
            self.close(a, b, 1e-13, "gru")

    def test_check_grads(self):
        """check_grads, in reverse mode, passes for six LSTMs, with options, layouts, lengths and dropout, and for a user's cell"""
        key = jax.random.key(5)
        for keywords, call in (({}, {}), ({"options": "peephole"}, {}), ({"bidirectional": True, "layers": 2}, {"lengths": [6, 2, 0]}),
                               ({"layers": 3, "dropout": 0.4}, {"key": key}), ({"time_major": False, "proj": 3}, {"lengths": [1, 3, 2]}),
                               ({"reverse": True}, {"lengths": [6, 4, 1]})):
            network = ours.Network("lstm", input=I, units=U, **keywords)
            params = 0.3 * normal(1, network.params_size)
            x = normal(2, T, B, I) if network.time_major else normal(2, B, T, I)
            _, h, c = network.shapes(x.shape)
            check_grads(lambda *a: network(*a, **call), (params, x, normal(3, *h), normal(4, *c)), order=1, modes=["rev"])
        leaky = ours.Network(LEAKY, input=I, units=U, values={"leak": 0.3})
        check_grads(lambda *a: leaky(*a)[0], (normal(1, leaky.params_size), normal(2, T, B, I)), order=1, modes=["rev"])

    def test_numpy(self):
        """Outputs, final states, and gradients of params and input are those of cellgrad.Network, to the bit, in float64"""
        for keywords in ({}, {"bidirectional": True}, {"time_major": False, "layers": 2}, {"cell": "gru", "reverse": True},
                         {"cell": "rnn_relu", "input_mode": "skip", "input": U}):
            network = ours.Network(**{"cell": "lstm", "input": I, "units": U, **keywords})
            numpy = network.numpy("float64")
            params = normal(1, network.params_size)
            x = normal(2, *((T, B) if network.time_major else (B, T)), keywords.get("input", I))
            lengths = [6, 2, 4]
            run = numpy.forward(params, x, lengths=lengths)
            (output, (h, c)), pull = jax.vjp(lambda p, x: network(p, x, lengths=jnp.array(lengths)), params, x)
            states = [state if network.time_major or state is None else state.transpose(1, 0, 2) for state in (run.h, run.c)]
            self.same((output, h, c), (run.output, *states))
            zeros = jax.tree.map(jnp.zeros_like, (h, c))
            gradient = numpy.backward(run, d_output=run.output)
            self.same(pull((output, zeros)), (gradient.params, gradient.input), keywords)

    def test_states(self):
        """A cell with three cell states has the states and gradients of cellgrad.Network, to the bit, under vmap, too, and check_grads"""
        network = ours.Network(SLSTM, input=I, units=U, layers=2)
        numpy = network.numpy("float64")
        params, x, h0 = normal(1, network.params_size), normal(2, T, B, I), normal(3, 2, B, U)
        c0 = normal(4, 3, 2, B, U).at[1].set(1.5)
        run = numpy.forward(params, x, h0, c0)
        results, pull = jax.vjp(jax.jit(network), params, x, h0, c0)
        self.same(results, (run.output, (run.h, run.c)))
        gradient = numpy.backward(run, run.output, run.h, run.c)
        self.same(pull(results), (gradient.params, gradient.input, gradient.h, gradient.c))
        self.same(network(params, x)[1][1], numpy.forward(params, x).c)
        both = jax.vmap(lambda c: network(params, x, h0, c))(jnp.stack([c0, 2 * c0]))
        self.same([leaf[1] for leaf in jax.tree.leaves(both)], network(params, x, h0, 2 * c0))
        check_grads(network, (0.3 * params, x, h0, c0), order=1, modes=["rev"])
        with self.assertRaisesRegex(cellgrad.ArgumentError, r"c0: expected shape .*\[S, L\*D, B, units\]"):
            network(params, x, h0, c0[0])

    def test_cells(self):
        """A user's cell with a param, given by its text, its file or a Cell, and pickled, has the output of cellgrad.Network"""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "leaky.cell")
            with open(path, "w", encoding="utf-8") as file:
                file.write(LEAKY)
            networks = [ours.Network(cell, input=I, units=U, values={"leak": 0.3}) for cell in (LEAKY, path, ours.Cell(path), ours.Cell(LEAKY))]
        params, x = normal(1, networks[0].params_size), normal(2, T, B, I)
        want = cellgrad.Network(LEAKY, input=I, units=U, values={"leak": 0.3}, dtype="float64").forward(params, x).output
        other = ours.Network(LEAKY, input=I, units=U)
        # The networks work although the cell's file no longer exists.
        for network in (*networks, pickle.loads(pickle.dumps(networks[1]))):
            self.assertEqual(network, networks[0])
            self.assertEqual(hash(network), hash(networks[0]))
            output, (h, c) = network(params, x)
            self.same(output, want)
            self.same(h[0], want[-1])
            self.assertIsNone(c)
        self.assertNotEqual(other, networks[0])
        self.assertFalse(np.array_equal(other(params, x)[0], want))

    def test_dropout(self):
        """The key gives the counter of dropout's masks; without a key, or with a probability of 0, there is no dropout"""
        network = ours.Network("lstm", input=I, units=U, layers=2, dropout=0.3)
        params, x, key = normal(1, network.params_size), normal(2, T, B, I), jax.random.key(7)
        low, high = map(int, jax.random.bits(key, (2,), jnp.uint32))
        numpy = network.numpy("float64")
        dropped = network(params, x, key=key)[0]
        self.same(dropped, numpy.forward(params, x, counter=low | high << 32).output)
        self.same(network(params, x)[0], numpy.forward(params, x, drop=False).output)
        self.assertFalse(np.array_equal(dropped, network(params, x, key=jax.random.key(8))[0]))
        self.same(network(params, x, key=jax.random.PRNGKey(7))[0], dropped)
        plain = ours.Network("lstm", input=I, units=U, layers=2)
        self.same(plain(params, x, key=key)[0], network(params, x)[0])

    def test_parameters(self):
        """init gives the library's initial params for a seed drawn by the key; params undoes weights, and weights is differentiable"""
        network = ours.Network("lstm", input=I, units=U, layers=2, bidirectional=True, proj=3, options="peephole")
        key = jax.random.key(3)
        low, high = map(int, jax.random.bits(key, (2,), jnp.uint32))
        for dtype in ("float32", "float64", "bfloat16"):
            params = network.init(key, dtype=dtype)
            self.assertEqual(str(params.dtype), dtype)
            self.same(params.astype(F64), np.asarray(network.numpy(dtype).init_params(seed=low | high << 32), np.float64))
        weights = network.weights(params)
        self.assertEqual(set(weights), set(network.numpy().regions))
        self.same(network.params(weights), params)
        gradient = jax.grad(lambda params: jnp.sum(network.weights(params)["layer1.reverse.recurrent.a_i"]))(network.init(key))
        self.assertEqual(int(gradient.sum()), U * 3)

    def test_empty(self):
        """Batches of 0 sequences and sequences of 0 steps give empty outputs, and gradients of params that are zero"""
        network = ours.Network("lstm", input=I, units=U)
        params = normal(1, network.params_size)
        for t, b in ((T, 0), (0, B), (0, 0)):
            x = jnp.zeros((t, b, I))
            output, (h, c) = network(params, x, lengths=jnp.zeros((b,), int))
            self.assertEqual((output.shape, h.shape, c.shape), ((t, b, U), (1, b, U), (1, b, U)))
            gradient = jax.jit(jax.grad(lambda p, x: jnp.sum(network(p, x)[0])))(params, x)
            self.assertEqual(float(jnp.abs(gradient).sum()), 0.0)


if __name__ == "__main__":
    jax_tap.main()
