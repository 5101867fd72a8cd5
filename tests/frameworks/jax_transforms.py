#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests networks of cellgrad.jax under JAX's transformations: jit, vmap, checkpoint, scan, shard_map, export; with gradients of some
arguments alone; and in threads.  Prints TAP."""
import os
import re
import threading
import unittest

import jax_tap
from jax_tap import LEAKY, py_tap, python
import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec as P

import cellgrad.jax as ours

T, B, I, U = 6, 4, 3, 5
NETWORK = ours.Network("lstm", input=I, units=U, layers=2, dropout=0.4)
KEY = jax.random.key(11)
PARAMS = jax.random.normal(jax.random.key(1), (NETWORK.params_size,))
X = jax.random.normal(jax.random.key(2), (T, B, I))
EXPORTED = """
import jax.export, sys, numpy as np
import cellgrad.jax
jax.config.update("jax_enable_x64", True)
with open(sys.argv[1], "rb") as file:
    call = jax.export.deserialize(bytearray(file.read())).call
arrays = np.load(sys.argv[2])
print(np.array_equal(call(arrays["params"], arrays["x"]), arrays["want"]))
"""


def shard_map(function, check, **keywords):
    """Calls jax.shard_map, or its predecessor in older versions of JAX."""
    if hasattr(jax, "shard_map"):
        return jax.shard_map(function, check_vma=check, **keywords)
    from jax.experimental.shard_map import shard_map as older
    return older(function, check_rep=check, **keywords)


def loss(params, x=X, **keywords):
    output, (h, c) = NETWORK(params, x, **keywords)
    return jnp.sum(jnp.sin(output)) + jnp.sum(h * c)


class Transforms(unittest.TestCase):
    def same(self, got, want, what=""):
        for a, b in zip(jax.tree.leaves(got), jax.tree.leaves(want), strict=True):
            np.testing.assert_array_equal(np.asarray(a), np.asarray(b), what)

    def test_jit(self):
        """A call under jit has the bits of a call without it; a network may be a static argument, and equal networks share a program"""
        self.same(jax.jit(lambda p: NETWORK(p, X, key=KEY))(PARAMS), NETWORK(PARAMS, X, key=KEY))
        pull = lambda p: jax.vjp(lambda p: NETWORK(p, X)[0], p)[1](X[:, :, :1] + jnp.ones((U,)))
        self.same(jax.jit(pull)(PARAMS), pull(PARAMS))
        traces = []

        def call(network, params):
            traces.append(1)
            return network(params, X)[0]

        static = jax.jit(call, static_argnums=0)
        equal = ours.Network("lstm", input=I, units=U, layers=2, dropout=0.4)
        self.same(static(equal, PARAMS), static(NETWORK, PARAMS))
        self.assertEqual(len(traces), 1)

    def test_vmap(self):
        """vmap of forward, gradients and init, over params, inputs, lengths and keys, gives the bits of single calls"""
        params, xs = jnp.stack([PARAMS, -PARAMS, 2 * PARAMS]), jnp.stack([X, X + 1, X * 2])
        lengths, keys = jnp.array([[6, 1, 2, 0], [3, 3, 3, 3], [0, 6, 6, 1]]), jax.random.split(KEY, 3)
        one_by_one = lambda function, *arrays: jax.tree.map(lambda *each: jnp.stack(each), *[function(*each) for each in zip(*arrays)])
        for function, arrays in ((lambda p: NETWORK(p, X)[0], (params,)), (lambda x: NETWORK(PARAMS, x)[0], (xs,)),
                                 (lambda x, n: NETWORK(PARAMS, x, lengths=n)[0], (xs, lengths)),
                                 (lambda k: NETWORK(PARAMS, X, key=k)[1], (keys,)), (jax.grad(loss), (params,)),
                                 (jax.grad(loss, (0, 1)), (params, xs)), (NETWORK.init, (keys,))):
            self.same(jax.vmap(function)(*arrays), one_by_one(function, *arrays))
        total = jax.grad(lambda p: jnp.sum(jax.vmap(lambda x: loss(p, x))(xs)))(PARAMS)
        np.testing.assert_allclose(total, sum(jax.grad(loss)(PARAMS, x) for x in xs), rtol=1e-12, atol=1e-12)

    def test_checkpoint(self):
        """jax.checkpoint computes the same masks again, and the same gradient"""
        want = jax.grad(lambda p: loss(p, key=KEY))(PARAMS)
        self.same(jax.grad(jax.checkpoint(lambda p: loss(p, key=KEY)))(PARAMS), want)
        self.assertFalse(np.array_equal(jax.grad(loss)(PARAMS), want))

    def test_scan(self):
        """A network in the body of jax.lax.scan, which carries its states, gives the gradient of the whole sequence"""
        def step(state, x):
            output, state = NETWORK(PARAMS_OF[0], x, *state)
            return state, output

        def chunked(params):
            PARAMS_OF[0] = params
            zeros = jnp.zeros((2, B, U))
            return jnp.sum(jnp.sin(jax.lax.scan(step, (zeros, zeros), X.reshape(3, 2, B, I))[1]))

        PARAMS_OF = [None]
        whole = jax.value_and_grad(lambda p: jnp.sum(jnp.sin(NETWORK(p, X)[0])))(PARAMS)
        for a, b in zip(jax.value_and_grad(chunked)(PARAMS), whole):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12)

    def test_shard_map(self):
        """Under shard_map over four devices each share has the bits of a single call, and the gradient is that of the whole batch"""
        mesh, want = Mesh(np.array(jax.devices()), ("rows",)), jax.value_and_grad(loss)(PARAMS)
        self.assertEqual(mesh.size, 4)
        is_tracked = hasattr(jax, "typeof") and hasattr(jax, "shard_map")
        for check in (False, True) if is_tracked else (False,):
            def step(params, x, lengths, check=check):
                value, gradient = jax.value_and_grad(lambda p: loss(p, x, lengths=lengths))(params)
                return jax.lax.psum(value, "rows"), gradient if check else jax.lax.psum(gradient, "rows")

            both = jax.jit(shard_map(step, check, mesh=mesh, in_specs=(P(), P(None, "rows"), P("rows")), out_specs=(P(), P())))
            for a, b in zip(both(PARAMS, X, jnp.full((B,), T)), want):
                np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12, err_msg=f"check: {check}")
            outputs = shard_map(lambda p, x: NETWORK(p, x)[0], check, mesh=mesh, in_specs=(P(), P(None, "rows")), out_specs=P(None, "rows"))
            for jitted in (outputs, jax.jit(outputs)):
                got = jitted(PARAMS, X)
                for row in range(B):
                    self.same(got[:, row:row + 1], NETWORK(PARAMS, X[:, row:row + 1])[0])
        if not is_tracked:
            print("# this JAX does not track what an array varies over")

    def test_example(self):
        """examples/python/jax_sharded.py ends with status 0, and says that the weights are equal on all four devices"""
        status, output = python(os.path.join(py_tap.SOURCE, "examples", "python", "jax_sharded.py"))
        self.assertEqual(status, 0, output)
        self.assertRegex(output, r"(?m)^4 devices: .*equal on all devices")

    def test_wanted(self):
        """The backward pass returns empty arrays for the gradients of input, initial states and params that are not requested"""
        h, c = jnp.ones((2, B, U)), jnp.ones((2, B, U))
        whole = jax.grad(lambda p, x, h, c: jnp.sum(jnp.sin(NETWORK(p, x, h, c)[0])), (0, 1, 2, 3))(PARAMS, X, h, c)
        for which in ((0,), (1,), (2,), (3,), (0, 2), (1, 3)):
            gradient = jax.grad(lambda p, x, h, c: jnp.sum(jnp.sin(NETWORK(p, x, h, c)[0])), which)
            self.same(gradient(PARAMS, X, h, c), tuple(whole[k] for k in which), which)
            text = str(jax.make_jaxpr(gradient)(PARAMS, X, h, c))
            results = re.search(r"\n *([^\n=]*) = ffi_call\[(?:(?!ffi_call).)*cellgrad_jax_backward", text, re.S)
            self.assertEqual(results.group(1).count("[0]"), 4 - len(which), text)

    def test_mixed(self):
        """The gradient of an integer argument has dtype float0, and upstream gradients may be zero or absent"""
        def value(params, lengths):
            return jnp.sum(NETWORK(params, X, lengths=lengths)[0])

        lengths = jnp.array([6, 2, 0, 1])
        by_params, by_lengths = jax.grad(value, (0, 1), allow_int=True)(PARAMS, lengths)
        self.assertEqual((by_lengths.dtype, by_lengths.shape), (jax.dtypes.float0, (B,)))
        self.same(by_params, jax.grad(value)(PARAMS, lengths))
        for integers in (np.array([6, 2, 0, 1], np.uint8), [6, 2, 0, 1], jnp.array([6, 2, 0, 1], jnp.int16)):
            self.same(value(PARAMS, integers), value(PARAMS, lengths))
        # Upstream gradients of zero give the same gradients as absent ones.
        _, pull = jax.vjp(lambda p: NETWORK(p, X), PARAMS)
        zeros = jnp.zeros((2, B, U))
        self.same(pull((jnp.ones((T, B, U)), (zeros, zeros))), jax.vjp(lambda p: NETWORK(p, X)[0], PARAMS)[1](jnp.ones((T, B, U))))
        # Params may be a NumPy array in a tree of arguments; the other leaf of the tree, a number, gets its gradient.
        tree = {"rnn": np.asarray(PARAMS), "scale": jnp.float64(2)}
        gradient = jax.grad(lambda tree: tree["scale"] * loss(tree["rnn"]))(tree)
        self.same(gradient["scale"], loss(PARAMS))

    def test_export(self):
        """An exported gradient has the same numbers in another process, with T and B that were unknown at its export"""
        import tempfile
        checks = [jax.export.DisabledSafetyCheck.custom_call(name) for name in ("cellgrad_jax_forward", "cellgrad_jax_backward")]
        network = ours.Network(LEAKY, input=I, units=U, values={"leak": 0.3})
        params = PARAMS[:network.params_size]
        gradient = jax.jit(jax.grad(lambda params, x: jnp.sum(jnp.sin(network(params, x)[0]))))
        t, b = jax.export.symbolic_shape("t, b")
        exported = jax.export.export(gradient, disabled_checks=checks)(params, jax.ShapeDtypeStruct((t, b, I), jnp.float64))
        with tempfile.TemporaryDirectory() as folder:
            program, arrays = os.path.join(folder, "program"), os.path.join(folder, "arrays.npz")
            with open(program, "wb") as file:
                file.write(exported.serialize())
            np.savez(arrays, params=params, x=X, want=gradient(params, X))
            self.assertEqual(python("-c", EXPORTED, program, arrays), (0, "True\n"))

    def test_threads(self):
        """Eight threads that call one compiled step get the bits of one thread"""
        step, wrong, ended = jax.jit(jax.value_and_grad(loss)), [], []
        want = step(PARAMS)

        def work():
            for _ in range(30):
                value, gradient = step(PARAMS)
                if value != want[0] or not np.array_equal(gradient, want[1]):
                    wrong.append(1)
            ended.append(1)

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual((wrong, len(ended)), ([], 8))


if __name__ == "__main__":
    jax_tap.main()
