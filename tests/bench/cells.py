#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Times networks of two cells of the shelf, in f32 on the cpu, beside what bounds them and beside PyTorch.

    python3 tests/bench/cells.py [--threads N] [--turns N] [--quick]

minGRU, whose steps have no recurrent product, is timed beside its products alone and beside nn.GRU; the layer-normalised LSTM beside the
LSTM on the same route, and beside its equations in PyTorch, whose step torch.compile compiles.  A time is that of a forward and a backward
pass with the gradients of input and weights, the least of --turns; the ways take turns.  Before anything is timed, outputs and gradients
of the input are compared, of ten steps: over a hundred a rounding grows to a part in a thousand.  --quick: tiny sizes.  Needs PyTorch and
the package cellgrad.
exit 0: measured; 1: an answer is wrong; 77: Python has no PyTorch.
"""
import argparse
import functools
import sys
import time

import numpy as np

import cellgrad

try:
    import torch

    import cellgrad.torch
except ImportError as why:
    print(why)
    sys.exit(77)

WRONG = 1e-4            # the largest difference of two answers, relative to the largest element, that rounding explains
F = torch.nn.functional


class Ours:
    """A network of this library with its parameters, its input and the gradient of its output."""

    def __init__(self, cell, sizes, context):
        self.T, self.B, self.I, self.U = sizes
        torch.manual_seed(20260101)
        self.weights = cellgrad.torch.Cell(cell, self.I, self.U)
        self.net = cellgrad.Network(cell, input=self.I, units=self.U, context=context)
        self.params = self.weights.params().detach().numpy().copy()
        self.x, self.dy = torch.randn(self.T, self.B, self.I).numpy(), torch.randn(self.T, self.B, self.U).numpy()

    def step(self):
        self.run = self.net.forward(self.params, self.x)
        self.gradient = self.net.backward(self.run, d_output=self.dy)

    def answers(self):
        return self.run.output, self.gradient.input


class Theirs:
    """A function of PyTorch's from a sequence to its outputs, with the input and the gradient of the output of a network of ours."""

    def __init__(self, ours, weights, function):
        self.weights, self.function = list(weights), function
        self.x, self.dy = torch.from_numpy(ours.x.copy()).requires_grad_(True), torch.from_numpy(ours.dy)

    def step(self):
        for one in (self.x, *self.weights):
            one.grad = None
        self.y = self.function(self.x)
        self.y.backward(self.dy)

    def answers(self):
        return self.y.detach().numpy(), self.x.grad.numpy()


class Products:
    """The products of a network whose gates are sums of x W and a bias, by PyTorch: those of the gates, of dx and of dW."""

    def __init__(self, ours):
        gates = ours.weights.weight_ih_l0.shape[0]
        self.x, self.w = torch.from_numpy(ours.x).flatten(0, 1), ours.weights.weight_ih_l0.detach()
        self.da = torch.randn(ours.T * ours.B, gates)

    def step(self):
        self.a, self.dx, self.dw = self.x @ self.w.T, self.da @ self.w, self.da.T @ self.x


def min_gru(ours, x):
    """minGRU's equations: h = (1 - z) h_prev + z n, with the gates z and n of x alone."""
    weight, bias = ours.weights.weight_ih_l0, ours.weights.bias_ih_l0
    h, steps = torch.zeros(ours.B, ours.U), []
    for z, n in zip(*(x @ weight.T + bias).chunk(2, 2)):
        z = torch.sigmoid(z)
        h = h - z * h + z * n
        steps.append(h)
    return torch.stack(steps)


def layer_norm_step(x, h, c, weight_ih, weight_hh, weight_p):
    U = h.shape[1]
    gates = (F.layer_norm(x @ weight_ih.T, (4 * U,), weight_p[:4].flatten()) +
             F.layer_norm(h @ weight_hh.T, (4 * U,), weight_p[4:8].flatten()) + weight_p[8:12].flatten())
    i, f, g, o = gates.chunk(4, 1)
    c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
    return torch.sigmoid(o) * torch.tanh(F.layer_norm(c, (U,), weight_p[12], weight_p[13])), c


def layer_norm_lstm(step, ours, x):
    h = c = torch.zeros(ours.B, ours.U)
    steps = []
    for one in x:
        h, c = step(one, h, c, *ours.weights.parameters())
        steps.append(h)
    return torch.stack(steps)


def compare(cell, sizes, context, function):
    """Stops the program if ten steps of a cell have other answers here than by a function of PyTorch's."""
    one = Ours(cell, (min(sizes[0], 10), *sizes[1:]), context)
    other = Theirs(one, one.weights.parameters(), lambda x: function(one, x))
    one.step()
    other.step()
    for name, a, b in zip(("output", "gradient of the input"), one.answers(), other.answers()):
        error = abs(a - b).max() / abs(b).max()
        if not error < WRONG:
            sys.exit(f"cells.py: {name}: the largest difference is {error:.2g} of the largest element")


def least(ways, turns):
    """Runs the ways in turn; returns the least time of each, in milliseconds."""
    times = {name: [] for name in ways}
    for turn in range(-1, turns):
        for name, way in ways.items():
            began = time.perf_counter()
            way.step()
            if turn >= 0:
                times[name].append((time.perf_counter() - began) * 1000)
    return {name: min(all_) for name, all_ in times.items()}


def report(title, of, ms):
    print(f"\n{title}\n\n| way | ms | {of} over it |\n|---|---|---|")
    for name, one in ms.items():
        print(f"| {name} | {one:.3f} | {ms[of] / one:.3f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--quick", action="store_true")
    given = parser.parse_args()
    torch.set_num_threads(given.threads)
    context = cellgrad.Context(f"cpu:threads={given.threads}")
    print(f"cellgrad {cellgrad.__version__}: {context}; PyTorch {torch.__version__}; {given.threads} threads")

    sizes = (5, 2, 8, 8) if given.quick else (1000, 8, 256, 256)
    compare("mingru", sizes, context, min_gru)
    ours = Ours("mingru", sizes, context)
    gru = torch.nn.GRU(ours.I, ours.U)
    ways = {"mingru": ours, "its products": Products(ours), "nn.GRU": Theirs(ours, gru.parameters(), lambda x: gru(x)[0])}
    report("minGRU at T, B, I, U " + ", ".join(map(str, sizes)), "mingru", least(ways, given.turns))

    sizes = (5, 2, 8, 8) if given.quick else (100, 32, 512, 512)
    compare("ln_lstm", sizes, context, functools.partial(layer_norm_lstm, layer_norm_step))
    ours, lstm = Ours("ln_lstm", sizes, context), Ours("lstm", sizes, context)
    step = layer_norm_step if given.quick else torch.compile(layer_norm_step)
    theirs = Theirs(ours, ours.weights.parameters(), lambda x: layer_norm_lstm(step, ours, x))
    ways = {"ln_lstm": ours, "lstm": lstm, "PyTorch, its step compiled": theirs}
    print(f"\nroutes: ln_lstm {ours.net.route}, lstm {lstm.net.route}")
    report("the layer-normalised LSTM at T, B, I, U " + ", ".join(map(str, sizes)), "ln_lstm", least(ways, given.turns))


if __name__ == "__main__":
    main()
