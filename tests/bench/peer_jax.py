#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures JAX's time for peers.sh: the cell's equations in lax.scan, with their gradients by vjp, in one jitted function on the CPU.

XLA has one thread for each processor on which the process may run, so this script confines the process to at most --threads processors.
"""
import os
import sys

from peer_worker import decline, read_numbers, read_problem, serve

try:
    problem = read_problem()
    if problem.threads < len(os.sched_getaffinity(0)):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:problem.threads])
    os.environ["JAX_PLATFORMS"] = "cpu"
    os.environ["JAX_ENABLE_X64"] = str(int(problem.dtype == "f64"))
    import jax
    from jax import lax, numpy
except ImportError as why:
    decline(f"not installed: {why}")


def split(a, n):
    return numpy.split(a, n, axis=-1)


def lstm(state, xw, weights):
    h, c = state
    i, f, g, o = split(xw + h @ weights["R"], 4)
    wi, wf, wo = weights.get("peephole", (0.0, 0.0, 0.0))
    i, f = jax.nn.sigmoid(i + wi * c), jax.nn.sigmoid(f + wf * c)
    c = f * c + i * numpy.tanh(g)
    h = jax.nn.sigmoid(o + wo * c) * numpy.tanh(c)
    return (h, c), h


def gru(state, xw, weights):
    h, = state
    xr, xz, xn = split(xw, 3)
    hr, hz, hn = split(h @ weights["R"] + weights["bR"], 3)
    r, z = jax.nn.sigmoid(xr + hr), jax.nn.sigmoid(xz + hz)
    n = numpy.tanh(xn + r * hn)
    h = (1 - z) * n + z * h
    return (h,), h


def gru_block(state, xw, weights):
    h, = state
    H = h.shape[-1]
    ru, xc = xw[:, :2 * H], xw[:, 2 * H:]
    r, u = split(jax.nn.sigmoid(ru + h @ weights["R"][:, :2 * H]), 2)
    c = numpy.tanh(xc + (r * h) @ weights["R"][:, 2 * H:])
    h = u * h + (1 - u) * c
    return (h,), h


def rnn_tanh(state, xw, weights):
    h = numpy.tanh(xw + state[0] @ weights["R"])
    return (h,), h


KINDS = {"f32": numpy.float32, "f64": numpy.float64, "f16": numpy.float16, "bf16": numpy.bfloat16}
CELLS = {"lstm": lstm, "lstm_peephole": lstm, "gru": gru, "gru_block": gru_block, "rnn_tanh": rnn_tanh}


def forward(cell, x, states, weights):
    """Computes a forward pass: x W of all steps is one product, and the recurrence is a jax.lax.scan."""
    xw = x @ weights["W"] + weights["bW"]
    last, y = lax.scan(lambda state, step: cell(state, step, weights), states, xw)
    return y, last


def make_call(cell):
    if not problem.grad:
        return jax.jit(lambda x, states, weights, upstream: (forward(cell, x, states, weights), None))

    def both(x, states, weights, upstream):
        outputs, back = jax.vjp(lambda *given: forward(cell, *given), x, states, weights)
        return outputs, back(upstream)
    return jax.jit(both)


class Network:
    def __init__(self):
        n, kind = read_numbers(problem), KINDS[problem.dtype]

        def give(array):
            return numpy.asarray(array, kind)
        self.x, self.states = give(n["x"]), tuple(give(n[name]) for name in ("h0", "c0") if name in n)
        apart = problem.cell == "gru"
        self.weights = {"W": give(n["W"].reshape(-1, problem.I).T), "R": give(n["R"].reshape(-1, problem.H).T),
                        "bW": give((n["bW"] if apart else n["bW"] + n["bR"]).reshape(-1))}
        if apart:
            self.weights["bR"] = give(n["bR"].reshape(-1))
        if problem.peephole:
            self.weights["peephole"] = give(n["peephole"])
        dy = give(numpy.zeros_like(n["dy"]) if problem.last else n["dy"])
        self.upstream = (dy, tuple(give(n[name]) for name in ("dh_n", "dc_n") if name in n))
        self.call = make_call(CELLS[problem.cell])

    def run(self):
        self.out = jax.block_until_ready(self.call(self.x, self.states, self.weights, self.upstream))

    def answers(self):
        (y, last), gradients = self.out
        answers = {"y": y, **dict(zip(("h_n", "c_n"), last))}
        if not problem.grad:
            return answers
        dx, states, weights = gradients
        G, H, I = problem.G, problem.H, problem.I
        answers.update({"dx": dx, **dict(zip(("dh0", "dc0"), states)), "dW": weights["W"].T.reshape(G, H, I), "dR": weights["R"].T.reshape(G, H, H),
                        "db": weights["bW"].reshape(G, H), "dbR": weights.get("bR"), "dpeep": weights.get("peephole")})
        return answers


def main():
    if problem.cell not in CELLS:
        decline(f"has no {problem.cell}")
    network = Network()
    settings = {"threads": len(os.sched_getaffinity(0)), "function": "jit of lax.scan and vjp", "devices": str(jax.devices()[0].platform)}
    serve(problem, "jax", jax.__version__, settings, network.run, network.answers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
