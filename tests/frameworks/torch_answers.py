#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The modules of cellgrad.torch have the outputs, states and all gradients of PyTorch's modules in float64, for batches in both
layouts, single sequences and packed sequences.  Prints TAP."""
import copy
import io
import itertools
import pathlib
import pickle
import re
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import torch_tap
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pack_sequence, pad_packed_sequence

import cellgrad
import cellgrad.torch as ours

T, B, I, U = 6, 3, 4, 5
F64 = torch.float64
LEAKY = "cell leaky\ngates  a\noutput h\nparam  leak = 0.1\n\nh = tanh(a) + leak * h_prev\nsave h\n"
APART = ("cell apart\ninput  x_z\ninput  x_n no bias\nsplit  h_n\noutput h\n\n"
         "z = sigmoid(x_z)\nh = (1 - z) * h_prev + z * tanh(x_n + h_n)\nsave z h\n")
# The name of a cell of the shelf with three cell states: c, the normaliser n and the stabiliser m.
SLSTM = "slstm"
LEARNT = ("cell learnt\ngates  a\noutput h\nweight u v\nscalar tau = 2, rate = -0.5\n\n"
          "h = tanh(a * tau + u * h_prev) * v + rate * h_prev\nsave h\n")


def tensors(result):
    """Returns a list of the tensors in a result; for a PackedSequence, the tensor of its data."""
    if isinstance(result, torch.Tensor):
        return [result]
    if isinstance(result, nn.utils.rnn.PackedSequence):
        return [result.data]
    return [tensor for part in result for tensor in tensors(part)]


def run(module, x, hx):
    """Returns the results of a module, and the gradients of x, hx and the weights for a weighted sum of the results."""
    module.zero_grad()
    leaves = [leaf.requires_grad_() for leaf in tensors([x] if hx is None else [x, hx])]
    for leaf in leaves:
        leaf.grad = None
    found = tensors(module(x, hx))
    sum((k + 1) * (tensor * torch.linspace(-1, 2, tensor.numel(), dtype=tensor.dtype).reshape(tensor.shape)).sum()
        for k, tensor in enumerate(found)).backward()
    return [*found, *(leaf.grad for leaf in leaves), *(weight.grad for weight in module.parameters())]


def saving(call, *arguments):
    """Returns the result of a call, and the address of the one reserve space that autograd saved meanwhile."""
    places = []
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: places.append((tensor.dtype, tensor.data_ptr())) or tensor,
                                                  lambda tensor: tensor):
        result = call(*arguments)
    place, = [place for dtype, place in places if dtype == torch.uint8]
    return result, place


class Answers(unittest.TestCase):
    def same(self, theirs, mine, what, tolerance=1e-12):
        self.assertEqual(len(theirs), len(mine), what)
        for k, (a, b) in enumerate(zip(theirs, mine)):
            self.assertEqual(a.shape, b.shape, f"{what}: {k}")
            self.assertLessEqual(float((a - b).detach().abs().max()) if a.numel() else 0.0, tolerance, f"{what}: {k}")

    def pairs(self):
        """Yields modules of PyTorch, each with a module of cellgrad.torch that has the same weights."""
        for kind, layers, both, first, bias in itertools.product(("LSTM", "GRU", "RNN", "relu", "proj"), (1, 2), *[(False, True)] * 3):
            more = {"relu": {"nonlinearity": "relu"}, "proj": {"proj_size": 2}}.get(kind, {})
            name = {"relu": "RNN", "proj": "LSTM"}.get(kind, kind)
            keywords = dict(num_layers=layers, bidirectional=both, batch_first=first, bias=bias, dtype=F64, **more)
            theirs = getattr(nn, name)(I, U, **keywords)
            mine = getattr(ours, name)(I, U, **keywords)
            self.assertEqual(str(mine.load_state_dict(theirs.state_dict())), "<All keys matched successfully>")
            yield f"{kind} {keywords}", theirs, mine

    def states(self, module, batch=(B,)):
        count = module.num_layers * (2 if module.bidirectional else 1)
        h = torch.randn(count, *batch, module.proj_size or U, dtype=F64)
        return (h, torch.randn(count, *batch, U, dtype=F64)) if module.mode == "LSTM" else h

    def test_modules(self):
        """80 modules have PyTorch's answers to 1e-12, with states and without, on a batch, one sequence, and packed sequences"""
        torch.manual_seed(1)
        count = 0
        for what, theirs, mine in self.pairs():
            batch = torch.randn((B, T, I) if mine.batch_first else (T, B, I), dtype=F64)
            row = torch.randn(T, I, dtype=F64)
            for x, states in ((batch, (B,)), (row, ())):
                for hx in (None, self.states(mine, states)):
                    self.same(run(theirs, x.detach().clone(), hx), run(mine, x.detach().clone(), copy.deepcopy(hx)), what)
                    count += 1
            for lengths in ([6, 4, 1], [2, 6, 3]):
                packed = pack_padded_sequence(batch, torch.tensor(lengths), mine.batch_first, enforce_sorted=lengths[0] == 6)
                for hx in (None, self.states(mine)):
                    self.same(run(theirs, copy.deepcopy(packed), hx), run(mine, copy.deepcopy(packed), copy.deepcopy(hx)), what)
                    count += 1
        self.assertEqual(count, 640)

    def test_packed_fields(self):
        """A PackedSequence is not padded, and the output has its batch sizes and indices"""
        packed = pack_sequence([torch.randn(n, I) for n in (2, 5, 3)], enforce_sorted=False)
        with unittest.mock.patch("cellgrad.torch._recurrent.pad_packed_sequence", side_effect=AssertionError("it was padded")):
            output, _ = ours.LSTM(I, U)(packed)
        for name in ("batch_sizes", "sorted_indices", "unsorted_indices"):
            self.assertTrue(torch.equal(getattr(output, name), getattr(packed, name)), name)

    def test_lengths(self):
        """With lengths= a sequence with steps has the results of a call with that sequence alone, and outputs beyond a length are zero"""
        module = ours.GRU(I, U, bidirectional=True, dtype=F64)
        x, lengths = torch.randn(T, B, I, dtype=F64), [2, 6, 0]
        output, h = module(x, lengths=lengths)
        for b, length in enumerate(lengths):
            self.assertEqual(float(output[length:, b].detach().abs().sum()), 0.0)
            if length:
                alone, last = module(x[:length, b])
                self.same([alone, last], [output[:length, b], h[:, b]], b)

    def test_dtypes(self):
        """An LSTM in float32, float16 and bfloat16 has the output of nn.LSTM in float64 to 1e-6, 4e-3 and 3e-2"""
        for dtype, tolerance in ((torch.float32, 1e-6), (torch.float16, 4e-3), (torch.bfloat16, 3e-2)):
            theirs = nn.LSTM(I, U, dtype=F64)
            mine = ours.LSTM(I, U, dtype=dtype)
            mine.load_state_dict(theirs.state_dict())
            x = torch.randn(T, B, I, dtype=F64)
            output, _ = mine(x.to(dtype))
            self.assertEqual(output.dtype, dtype)
            self.same([theirs(x)[0]], [output.to(F64)], dtype, tolerance)

    def test_mixed_needs(self):
        """Backward gives gradients only to tensors that require gradients"""
        module = ours.LSTM(I, U, dtype=F64)
        theirs = nn.LSTM(I, U, dtype=F64)
        theirs.load_state_dict(module.state_dict())
        for needs in itertools.product((False, True), repeat=4):
            found = []
            for net in (theirs, module):
                net.zero_grad()
                torch.manual_seed(3)
                x, h, c = (torch.randn(shape, dtype=F64).requires_grad_(need) for shape, need in
                           zip(((T, B, I), (1, B, U), (1, B, U)), needs))
                for weight in net.parameters():
                    weight.requires_grad_(False)
                net.weight_hh_l0.requires_grad_(needs[3])
                output, _ = net(x, (h, c))
                self.assertEqual(output.requires_grad, any(needs))
                if any(needs):
                    output.sin().sum().backward()
                found.append([leaf.grad for leaf in (x, h, c, *net.parameters())])
            for a, b in zip(*found):
                self.assertEqual(a is None, b is None)
                if a is not None:
                    self.same([a], [b], needs)

    def test_cells(self):
        """Cells by text, by file and with peepholes pass gradcheck, and the cell gru has the output of nn.GRU"""
        with tempfile.NamedTemporaryFile("w", suffix=".cell") as file:
            file.write(LEAKY)
            file.flush()
            for module in (ours.Cell(file.name, I, U, values={"leak": 0.3}, dtype=F64),
                           ours.Cell(LEAKY, I, U, 2, bidirectional=True, dtype=F64),
                           ours.Cell("lstm", I, U, options="peephole", dtype=F64), ours.LSTM(I, U, peephole=True, dtype=F64),
                           ours.Cell(APART, I, U, 2, bidirectional=True, dtype=F64), ours.Cell(APART, I, U, bias=False, dtype=F64),
                           ours.Cell(LEAKY, I, U, bias=False, dtype=F64), ours.LSTM(I, U, 2, bidirectional=True, peephole=True, dtype=F64)):
                x = torch.randn(3, 2, I, dtype=F64, requires_grad=True)
                weights = list(module.parameters())

                def call(x, *weights, module=module):
                    names = [name for name, _ in module.named_parameters()]
                    return torch.func.functional_call(module, dict(zip(names, weights)), (x,))[0]

                self.assertTrue(torch.autograd.gradcheck(call, (x, *weights)))
        again = pickle.loads(pickle.dumps(module))
        self.same([module(x)[0]], [again(x)[0]], "pickle", 0.0)
        gru, cell = nn.GRU(I, U, 2, dtype=F64), ours.Cell("gru", I, U, 2, dtype=F64)
        cell.load_state_dict(gru.state_dict())
        self.same([gru(x)[0]], [cell(x)[0]], "gru")
        self.assertEqual({name: tuple(weight.shape) for name, weight in ours.Cell(APART, I, U).named_parameters()},
                         {"weight_ih_l0": (2 * U, I), "weight_hh_l0": (U, U), "bias_ih_l0": (U,), "bias_hh_l0": (U,)})
        self.assertEqual(dict(ours.LSTM(I, U, peephole=True).named_parameters())["weight_p_l0"].shape, (3, U))

    def test_params(self):
        """A cellgrad.Network with params() of a module has the module's output, to the bit"""
        x = torch.randn(4, 3, I, dtype=F64)
        for module, cell, keywords in (
                (ours.LSTM(I, U, 2, bidirectional=True, peephole=True, dtype=F64), "lstm", {"options": "peephole", "layers": 2, "bidirectional": True}),
                (ours.GRU(I, U, bias=False, dtype=F64), "gru", {}), (ours.LSTM(I, U, proj_size=2, dtype=F64), "lstm", {"proj": 2}),
                (ours.Cell(LEARNT, I, U, 2, dtype=F64), cellgrad.Cell(LEARNT), {"layers": 2}), (ours.Cell(APART, I, U, dtype=F64), cellgrad.Cell(APART), {})):
            network = cellgrad.Network(cell, input=I, units=U, dtype="float64", **keywords)
            params = module.params()
            self.assertEqual((params.shape, params.requires_grad), ((network.params_size,), False))
            self.same([module(x)[0]], [torch.from_numpy(network.forward(params.numpy(), x).output)], type(module).__name__, 0.0)

    def test_learnt(self):
        """Weights per unit and learnt scalars are parameters, start as the cell says, and have the gradients of PyTorch's own equations"""
        module = ours.Cell(LEARNT, I, U, 2, bidirectional=True, dtype=F64)
        weights = dict(module.named_parameters())
        self.assertEqual(weights["weight_p_l1_reverse"].shape, (2, U))
        self.assertEqual(weights["scalar_l0"].tolist(), [2.0, -0.5])
        for weight in weights.values():
            nn.init.normal_(weight, std=0.5)

        def step(x, h, end):
            u, v = weights["weight_p_" + end]
            tau, rate = weights["scalar_" + end]
            a = x @ weights["weight_ih_" + end].T + weights["bias_ih_" + end] + h @ weights["weight_hh_" + end].T + weights["bias_hh_" + end]
            return torch.tanh(a * tau + u * h) * v + rate * h

        def network(x):
            for layer in range(2):
                sides = []
                for end, order in ((f"l{layer}", range(T)), (f"l{layer}_reverse", reversed(range(T)))):
                    h, steps = torch.zeros(B, U, dtype=F64), {}
                    for t in order:
                        h = steps[t] = step(x[t], h, end)
                    sides.append(torch.stack([steps[t] for t in range(T)]))
                x = torch.cat(sides, 2)
            return x

        x, weight = torch.randn(T, B, I, dtype=F64, requires_grad=True), torch.randn(T, B, 2 * U, dtype=F64)
        leaves = [x, *weights.values()]
        theirs, mine = network(x), module(x)[0]
        self.same([theirs, *torch.autograd.grad((theirs * weight).sum(), leaves)],
                  [mine, *torch.autograd.grad((mine * weight).sum(), leaves)], "learnt")
        module.reset_parameters()
        self.assertEqual(weights["scalar_l1"].tolist(), [2.0, -0.5])

    def slstm(self, module, x, states):
        """Computes, by PyTorch's operations, the output and the last states of a module of the cell slstm."""
        weight_ih, weight_hh, bias_ih, bias_hh = module.parameters()
        h, c, n, m = (state[0] for state in states)
        steps = []
        for step in x:
            z, i, f, o = (step @ weight_ih.T + bias_ih + h @ weight_hh.T + bias_hh).chunk(4, 1)
            most = torch.maximum(f + m, i)
            i, f, m = torch.exp(i - most), torch.exp(f + m - most), most
            c, n = f * c + i * torch.tanh(z), f * n + i
            h = torch.sigmoid(o) * c / n
            steps.append(h)
        return torch.stack(steps), (h[None], c[None], n[None], m[None])

    def weighted(self, results, leaves):
        """Returns the tensors in results, and the gradients of a weighted sum of them."""
        found = tensors(results)
        total = sum((k + 1) * (one * torch.linspace(-1, 2, one.numel(), dtype=F64).reshape(one.shape)).sum() for k, one in enumerate(found))
        return [*found, *torch.autograd.grad(total, leaves)]

    def test_states(self):
        """A cell with three cell states has the answers of PyTorch's own equations, also for one sequence, packed ones, and compiled"""
        torch.manual_seed(4)
        module = ours.Cell(SLSTM, I, U, dtype=F64)
        x = torch.randn(T, B, I, dtype=F64, requires_grad=True)
        given = [torch.randn(1, B, U, dtype=F64, requires_grad=True) for _ in range(4)]
        with torch.no_grad():
            given[2].abs_().add_(1)
        zeros = [torch.zeros(1, B, U, dtype=F64)] * 4
        weights = list(module.parameters())
        for hx, begin, leaves in ((None, zeros, weights), (tuple(given), given, [*weights, *given])):
            theirs = self.weighted(self.slstm(module, x, begin), [x, *leaves])
            self.same(theirs, self.weighted(module(x, hx), [x, *leaves]), "slstm")
            with unittest.mock.patch.object(ours._operators, "_is_plain", lambda tensors: False):
                self.same(theirs, self.weighted(module(x, hx), [x, *leaves]), "the operator")
            compiled = torch.compile(module, backend="aot_eager", fullgraph=True)
            self.same(theirs, self.weighted(compiled(x, hx), [x, *leaves]), "torch.compile")
        # If a call gets two of the four initial states, the other two are zeros.
        some = (given[0], None, given[2], None)
        self.same(self.weighted(self.slstm(module, x, [given[0], zeros[1], given[2], zeros[3]]), [x, *weights, given[0], given[2]]),
                  self.weighted(module(x, some), [x, *weights, given[0], given[2]]), "two states")
        for wrong, error in ((given[2].float(), cellgrad.torch.TensorTypeError), (given[2][:, :2], cellgrad.torch.TensorError),
                             (given[2].to("meta"), cellgrad.torch.TensorError)):
            with self.assertRaisesRegex(error, "hx: expected cell states of one"):
                module(x, (given[0], given[1], wrong, given[3]))
        with self.assertRaisesRegex(cellgrad.torch.TensorTypeError, "hx: expected h_0 and 3 cell states, got tuple of 2"):
            module(x, tuple(given[:2]))
        row, states = x[:, 1], tuple(state[:, 1] for state in given)
        self.same([one.squeeze(1) for one in tensors(self.slstm(module, x[:, 1:2], [state[:, 1:2] for state in given]))],
                  tensors(module(row, states)), "one sequence")
        output, last = module(pack_sequence([x[:n, b] for b, n in enumerate((2, 6, 3))], enforce_sorted=False), tuple(given))
        padded, _ = pad_packed_sequence(output)
        for b, n in enumerate((2, 6, 3)):
            theirs, states = self.slstm(module, x[:n, b:b + 1], [state[:, b:b + 1] for state in given])
            self.same([theirs[:, 0], *(state[:, 0] for state in states)], [padded[:n, b], *(state[:, b] for state in last)], b)

    def layer_norm(self, module, x):
        """Computes, by PyTorch's operations, the output and last states of a module of the cell ln_lstm, from initial states of zeros."""
        weight_ih, weight_hh, weight_p = module.parameters()
        gain_x, gain_h, bias = weight_p[:4].flatten(), weight_p[4:8].flatten(), weight_p[8:12].flatten()
        norm = torch.nn.functional.layer_norm
        h, c, steps = torch.zeros(B, U, dtype=F64), torch.zeros(B, U, dtype=F64), []
        for step in x:
            gates = norm(step @ weight_ih.T, (4 * U,), gain_x) + norm(h @ weight_hh.T, (4 * U,), gain_h) + bias
            i, f, g, o = gates.chunk(4, 1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(norm(c, (U,), weight_p[12], weight_p[13]))
            steps.append(h)
        return torch.stack(steps), (h[None], c[None])

    def test_layer_norm(self):
        """A layer-norm LSTM has the answers of PyTorch's own equations; its gains start from 1, other per-unit weights from random numbers"""
        torch.manual_seed(5)
        module = ours.Cell("ln_lstm", I, U, dtype=F64)
        ones = (module.weight_p_l0 == 1).all(1)
        self.assertEqual(ones.tolist(), [True] * 8 + [False] * 4 + [True, False])
        with torch.no_grad():
            module.weight_p_l0.normal_()
        x = torch.randn(T, B, I, dtype=F64, requires_grad=True)
        leaves = [x, *module.parameters()]
        self.same(self.weighted(self.layer_norm(module, x), leaves), self.weighted(module(x), leaves), "layer norm")
        module.reset_parameters()
        self.assertEqual((module.weight_p_l0 == 1).all(1).tolist(), ones.tolist())

    def test_bench(self):
        """tests/bench/cells.py, which times minGRU and the layer-norm LSTM, finds the answers of their equations in PyTorch at tiny sizes"""
        script = pathlib.Path(__file__).resolve().parents[1] / "bench" / "cells.py"
        done = subprocess.run([sys.executable, "-B", script, "--quick", "--turns", "1"], capture_output=True, text=True, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(len(re.findall(r"^\| .* \| [0-9.]+ \| [0-9.]+ \|$", done.stdout, re.M)), 6, done.stdout)

    def test_copies(self):
        """nn.LSTM with the state_dict has the output to 1e-6; pickle, deepcopy and torch.save give equal outputs and new weights"""
        module, x = ours.LSTM(I, U, 2, bias=False), torch.randn(T, B, I)
        expected = module(x)[0]
        theirs = nn.LSTM(I, U, 2, bias=False)
        theirs.load_state_dict(module.state_dict())
        self.same([theirs(x)[0]], [expected], "state_dict", 1e-6)
        buffer = io.BytesIO()
        torch.save(module, buffer)
        buffer.seek(0)
        for again in (pickle.loads(pickle.dumps(module)), copy.deepcopy(module), torch.load(buffer, weights_only=False)):
            self.same([again(x)[0]], [expected], "copy", 0.0)
            with torch.no_grad():
                again.weight_hh_l0.zero_()
            self.assertFalse(torch.equal(again(x)[0], expected))
        self.same([module(x)[0]], [expected], "the original", 0.0)

    def test_reserve(self):
        """A large reserve space begins at a cache line; its memory serves a later call once no graph refers to it, not before, and belongs
        to no copy and no pickle of the module"""
        module, x = ours.LSTM(I, 64), torch.randn(60, 32, I)

        def gradients(output):
            return torch.autograd.grad(output.square().sum(), list(module.parameters()))

        expected = gradients(module(x)[0])
        (first, place), (second, other) = [saving(lambda: module(x)[0]) for _ in range(2)]
        self.assertNotEqual(place, other)
        self.assertEqual((place % 64, other % 64), (0, 0))
        self.same(expected, gradients(first), "the first graph", 0.0)
        again, found = saving(lambda: module(x)[0])
        if sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)():
            self.assertEqual(found, place)
        self.assertNotEqual(found, other)
        self.same(expected, gradients(second), "the second graph", 0.0)
        self.same(expected, gradients(again), "the third graph", 0.0)
        self.assertLess(len(pickle.dumps(module)), 1 << 20)
        self.assertNotIn(saving(lambda: copy.deepcopy(module)(x)[0])[1], (place, other))
        packed = pack_sequence([x[:, 0]] * 32)
        self.assertIn(saving(lambda: module(packed)[0].data)[1], (place, other))

    def test_dropout(self):
        """The same manual_seed gives the same masks of dropout, another seed gives others, and eval() has no dropout"""
        module, x = ours.LSTM(I, U, 3, dropout=0.5), torch.randn(T, B, I)

        def call(seed):
            torch.manual_seed(seed)
            return module(x)[0]

        self.assertTrue(torch.equal(call(1), call(1)))
        self.assertFalse(torch.equal(call(1), call(2)))
        module.eval()
        self.assertTrue(torch.equal(call(1), call(2)))
        theirs = nn.LSTM(I, U, 3)
        theirs.load_state_dict(module.state_dict())
        self.same([theirs(x)[0]], [call(1)], "eval", 1e-6)

    def test_replace(self):
        """A model trained for 50 steps has the same losses to 1e-6 with nn.LSTM and after replace(model)"""
        losses = []
        for is_ours in (False, True):
            torch.manual_seed(0)

            class Model(nn.Module):
                def __init__(self):
                    super().__init__()
                    self.rnn, self.out = nn.LSTM(I, 16, 2, batch_first=True), nn.Linear(16, 1)

                def forward(self, x):
                    return self.out(self.rnn(x)[0][:, -1])

            model = Model()
            optimizer = torch.optim.Adam(model.parameters(), 1e-2)
            if is_ours:
                self.assertIs(ours.replace(model), model)
                self.assertIs(type(model.rnn), ours.LSTM)
            x, y = torch.randn(32, 10, I), torch.randn(32, 1)
            for _ in range(50):
                optimizer.zero_grad()
                loss = (model(x) - y).square().mean()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
        self.assertLess(losses[49], 0.8 * losses[0])
        self.assertLess(max(abs(a - b) for a, b in zip(losses[:50], losses[50:])), 1e-6)

    def test_replace_leaves(self):
        """replace keeps parameters, hooks and mode, and leaves derived classes alone"""
        class Derived(nn.LSTM):
            pass

        model = nn.Sequential(nn.GRU(I, U).eval(), Derived(I, U))
        weight, calls = model[0].weight_ih_l0, []
        model[0].register_forward_hook(lambda *_: calls.append(1))
        ours.replace(model)
        self.assertIs(model[0].weight_ih_l0, weight)
        self.assertIs(type(model[1]), Derived)
        self.assertFalse(model[0].training)
        model[0](torch.randn(T, B, I))
        self.assertEqual(calls, [1])
        with self.assertRaises(TypeError):
            ours.replace(3)

    def test_empty(self):
        """A batch of 0 sequences gives an empty output and empty states; a TensorError is a cellgrad.Error"""
        module = ours.LSTM(I, U)
        output, (h, c) = module(torch.zeros(T, 0, I))
        self.assertEqual((output.shape, h.shape, c.shape), ((T, 0, U), (1, 0, U), (1, 0, U)))
        self.assertIsInstance(cellgrad.torch.TensorError("x"), cellgrad.Error)


if __name__ == "__main__":
    torch_tap.main()
