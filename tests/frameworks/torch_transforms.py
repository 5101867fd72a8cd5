#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests cellgrad.torch with PyTorch's opcheck, compile, export, autocast, checkpointing, functional calls, and in threads and a fork.
Prints TAP."""
import copy
import itertools
import multiprocessing
import os
import re
import sys
import threading
import unittest
import warnings

import torch_tap
import torch
import torch._dynamo.testing
from torch import nn
from torch.utils.checkpoint import checkpoint

import cellgrad.torch as ours
from cellgrad.torch import _operators, _run

T, B, I, U = 5, 3, 4, 6
F64 = torch.float64
HUGE_PAGES = os.path.exists("/sys/kernel/mm/transparent_hugepage/enabled")


def in_child(module, x, queue):
    """Runs in a forked process: puts the output and a gradient of the module into a queue."""
    output = module(x)[0]
    output.sum().backward()
    queue.put((output.detach().numpy(), module.weight_hh_l0.grad.numpy()))


class Transforms(unittest.TestCase):
    def setUp(self):
        torch.manual_seed(0)
        torch._dynamo.reset()

    def arguments(self, **more):
        """Yields arguments of the operator for 32 networks: LSTM or GRU, one layer or two, one direction or both, either layout, and
    lengths with initial states or neither; two layers have dropout."""
        for kind, layers, both, first, ragged in itertools.product(("lstm", "gru"), (1, 2), (False, True), (False, True), (False, True)):
            text = ours.spec_text(kind, input=I, units=U, layers=layers, bidirectional=both, batch_first=first,
                                  dropout=0.5 if layers > 1 else 0.0, **more)
            spec = _operators.spec_of(text)
            x = torch.randn((B, T, I) if first else (T, B, I), requires_grad=True)
            weights = [torch.randn(rows, columns).mul(0.3).requires_grad_() for rows, columns in spec.parts]
            count = layers * (1 + both)
            h = torch.randn(count, B, U, requires_grad=True) if ragged else None
            c = torch.randn(count, B, U, requires_grad=True) if ragged and kind == "lstm" else None
            lengths = torch.tensor([2, 5, 0], dtype=torch.int32) if ragged else None
            yield x, weights, h, c, lengths, torch.tensor([7]) if layers > 1 else None, text

    def test_opcheck(self):
        """opcheck passes for 32 calls of the operator, with its tests of schema, autograd, fake tensors and AOT with dynamic shapes"""
        passed = 0
        for arguments in self.arguments():
            found = torch.library.opcheck(torch.ops.cellgrad.rnn.default, arguments)
            self.assertEqual(set(found.values()), {"SUCCESS"}, f"{arguments[-1]}: {found}")
            passed += 1
        self.assertEqual(passed, 32)

    def test_opcheck_backward(self):
        """opcheck passes for the operator of the backward pass, with its tests of schema and fake tensors"""
        for arguments in self.arguments():
            x, weights, h, c, lengths, counter, text = arguments
            with torch.no_grad():
                output, last, _, reserve = torch.ops.cellgrad.rnn(*arguments)
                found = torch.library.opcheck(
                    torch.ops.cellgrad.rnn_backward.default,
                    (torch.ones_like(output), torch.ones_like(last), None, x, weights, h, c, lengths, counter, reserve, text,
                     [True, h is not None, False, True]), test_utils=("test_schema", "test_faketensor"))
            self.assertEqual(set(found.values()), {"SUCCESS"}, text)

    def test_both_ways(self):
        """A call by the operator and a call without PyTorch's dispatcher have the same bits"""
        module, x = ours.LSTM(I, U, 2, bidirectional=True), torch.randn(T, B, I)
        found = []
        for plain in (True, False):
            was, _operators._is_plain = _operators._is_plain, (_operators._is_plain if plain else lambda tensors: False)
            try:
                module.zero_grad()
                output, (h, c) = module(x)
                (output.sum() + 2 * h.sum() + c.square().sum()).backward()
                found.append([output, h, c, *(weight.grad for weight in module.parameters())])
            finally:
                _operators._is_plain = was
        for a, b in zip(*found):
            self.assertTrue(torch.equal(a, b))

    def test_second_gradient(self):
        """A gradient of a gradient raises an exception, also with the operator"""
        module, x = ours.LSTM(I, U), torch.randn(T, B, I, requires_grad=True)
        for plain in (True, False):
            was, _operators._is_plain = _operators._is_plain, (_operators._is_plain if plain else lambda tensors: False)
            try:
                gradient, = torch.autograd.grad(module(x)[0].sin().sum(), x, create_graph=True)
                self.assertTrue(gradient.requires_grad)
                with self.assertRaises(NotImplementedError) as caught:
                    gradient.sum().backward()
                self.assertIsInstance(caught.exception, ours.SecondGradientError)
            finally:
                _operators._is_plain = was

    def test_forward_mode(self):
        """Forward-mode differentiation raises an exception instead of giving a tangent of zero"""
        module, x = ours.LSTM(I, U), torch.randn(T, B, I)
        with torch.autograd.forward_ad.dual_level(), self.assertRaises(NotImplementedError):
            module(torch.autograd.forward_ad.make_dual(x, torch.ones_like(x)))

    def test_upstream(self):
        """Upstream gradients may be transposed, expanded and sliced"""
        module, x = ours.LSTM(I, U, dtype=F64), torch.randn(T, B, I, dtype=F64)
        theirs = nn.LSTM(I, U, dtype=F64)
        theirs.load_state_dict(module.state_dict())
        for use in (lambda y: y.transpose(0, 1).flatten().sin().sum(), lambda y: y.sum(), lambda y: y[::2, :, 1:].square().sum(),
                    lambda y: (y.permute(2, 0, 1) @ torch.ones(B, 2, dtype=F64)).square().sum()):
            found = []
            for net in (theirs, module):
                leaf = x.clone().requires_grad_()
                use(net(leaf)[0]).backward()
                found.append(leaf.grad)
            self.assertLess((found[0] - found[1]).abs().max().item(), 1e-12)

    def test_inputs(self):
        """Inputs that are transposed, sliced, expanded or at an offset have the outputs and gradients of dense copies"""
        module = ours.LSTM(I, U, dtype=F64)
        whole = torch.randn(B, 2 * T, I + 3, dtype=F64)
        for view in (lambda w: w[:, :T, :I].transpose(0, 1), lambda w: w[:, 1:T + 1, 2:I + 2].permute(1, 0, 2),
                     lambda w: w[:, ::2, :I].transpose(0, 1),
                     lambda w: w[:1, :T, :I].expand(B, T, I).transpose(0, 1), lambda w: w.flip(2)[:, :T, :I].transpose(0, 1),
                     lambda w: w[:, :T, ::2][:, :, :I - 1].repeat(1, 1, 2)[:, :, :I].transpose(0, 1)):
            found = []
            for is_dense in (False, True):
                leaf = whole.clone().requires_grad_()
                x = view(leaf)
                output = module(x.contiguous() if is_dense else x)[0]
                output.sin().sum().backward()
                found.append((output, leaf.grad))
            for a, b in zip(*found):
                self.assertTrue(torch.equal(a, b))

    def test_uncopied(self):
        """Transposed, sliced and packed inputs are not copied; inputs whose rows overlap or are not dense are copied once"""
        module = ours.LSTM(I, U)
        whole = torch.randn(B, 2 * T, I + 3)
        packed = nn.utils.rnn.pack_sequence([torch.randn(n, I) for n in (2, 5, 3)], enforce_sorted=False)
        for copied, x in ((0, whole[:, :T, :I].transpose(0, 1)), (0, whole[:, ::2, 1:I + 1].transpose(0, 1)), (0, packed),
                          (1, whole[:1, :T, :I].expand(B, T, I).transpose(0, 1)), (1, whole.transpose(1, 2)[:, :T, :I])):
            start = _run.copies
            module(x)
            self.assertEqual(_run.copies - start, copied)

    @unittest.skipUnless(HUGE_PAGES, "Linux gives no huge pages")
    def test_pages(self):
        """An output of 32 MiB is in memory for which Linux was asked for huge pages"""
        module, x = ours.LSTM(4, 512), torch.randn(128, 128, 4)
        for _ in range(2):
            # The output has 32 MiB; from this size on the GNU C library maps new memory for each allocation.
            output = module(x)[0]
        with open("/proc/self/smaps", encoding="utf-8") as maps:
            areas = re.findall(r"^([0-9a-f]+)-([0-9a-f]+) .*?^VmFlags: (.*?)$", maps.read(), re.M | re.S)
        middle = output.data_ptr() + output.nbytes // 2
        flags, = [flags for first, end, flags in areas if int(first, 16) <= middle < int(end, 16)]
        self.assertIn("hg", flags.split())

    def test_changed(self):
        """A tensor changed in place between forward and backward is rejected"""
        for change in (lambda m, x: x.add_(1), lambda m, x: m.weight_hh_l0.add_(1)):
            module, x = ours.LSTM(I, U), torch.randn(T, B, I)
            loss = module(x)[0].sum()
            with torch.no_grad():
                change(module, x)
            with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                loss.backward()

    def test_compile(self):
        """torch.compile of whole graphs with dynamic shapes compiles once and has the answers and gradients of eager mode"""
        for kind in ("LSTM", "GRU"):
            module = getattr(ours, kind)(I, U, 2, bidirectional=True)
            frames = torch._dynamo.testing.CompileCounter()
            compiled = torch.compile(module, fullgraph=True, dynamic=True, backend=frames)
            inductor = torch.compile(module, fullgraph=True, dynamic=True)
            for time, batch in ((5, 3), (7, 2), (9, 4)):
                x = torch.randn(time, batch, I)
                found = []
                for call in (module, compiled, inductor):
                    module.zero_grad()
                    leaf = x.clone().requires_grad_()
                    output = call(leaf)[0]
                    output.sin().sum().backward()
                    found.append([output, leaf.grad, *(weight.grad.clone() for weight in module.parameters())])
                for other in found[1:]:
                    for a, b in zip(found[0], other):
                        self.assertLess((a - b).abs().max().item(), 1e-6)
            self.assertEqual(frames.frame_count, 1)

    def test_compile_step(self):
        """A compiled model with dropout has the same losses over four steps of training with the same seed"""
        losses = []
        for _ in range(2):
            torch.manual_seed(4)
            torch._dynamo.reset()
            model = nn.ModuleDict({"rnn": ours.LSTM(I, U, 2, dropout=0.3), "out": nn.Linear(U, 1)})
            optimizer = torch.optim.SGD(model.parameters(), 0.1)
            step = torch.compile(lambda x, model=model: model["out"](model["rnn"](x)[0]).square().mean())
            for k in range(4):
                optimizer.zero_grad()
                loss = step(torch.randn(T, B, I))
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
        self.assertEqual(losses[:4], losses[4:])

    def test_export(self):
        """A program by torch.export with a dynamic batch has the operator, and has the module's output at another batch size"""
        class Model(nn.Module):
            def __init__(self):
                super().__init__()
                self.rnn = ours.GRU(I, U)

            def forward(self, x):
                return self.rnn(x)[0]

        model = Model().eval()
        program = torch.export.export(model, (torch.randn(T, B, I),), dynamic_shapes=({1: torch.export.Dim("batch", min=2, max=64)},))
        self.assertIn("cellgrad.rnn.default", str(program.graph))
        x = torch.randn(T, 9, I)
        self.assertLess((program.module()(x) - model(x)).abs().max().item(), 1e-6)

    def test_autocast(self):
        """autocast computes in bfloat16 or float16, gradients are in float32; float64 stays float64"""
        for dtype, tolerance in ((torch.bfloat16, 0.05), (torch.float16, 0.01)):
            module, x = ours.LSTM(I, U), torch.randn(T, B, I)
            expected = module(x)[0]
            with torch.autocast("cpu", dtype):
                output, (h, c) = module(x)
            self.assertEqual({output.dtype, h.dtype, c.dtype}, {dtype})
            self.assertLess((output.float() - expected).abs().max().item(), tolerance)
            output.float().sum().backward()
            mine = module.weight_hh_l0.grad.clone()
            self.assertEqual(mine.dtype, torch.float32)
            module.zero_grad()
            expected.sum().backward()
            self.assertLess((module.weight_hh_l0.grad - mine).abs().max().item(), 10 * tolerance)
        with torch.autocast("cpu", torch.bfloat16):
            self.assertEqual(ours.LSTM(I, U, dtype=F64)(torch.randn(T, B, I, dtype=F64))[0].dtype, F64)

    def test_scaler(self):
        """A training with GradScaler and autocast in float16 ends near a training without both"""
        ends = []
        for is_scaled in (False, True):
            torch.manual_seed(5)
            module = ours.LSTM(I, U)
            optimizer = torch.optim.SGD(module.parameters(), 0.5)
            scaler = torch.amp.GradScaler("cpu", enabled=is_scaled)
            for _ in range(5):
                optimizer.zero_grad()
                x = torch.randn(T, B, I)
                with torch.autocast("cpu", torch.float16, enabled=is_scaled):
                    loss = module(x)[0].float().square().mean()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            ends.append(module.weight_hh_l0.detach().clone())
        self.assertLess((ends[0] - ends[1]).abs().max().item(), 2e-3)
        self.assertGreater((ends[0] - ends[1]).abs().max().item(), 0.0)

    def test_checkpoint(self):
        """Gradient checkpointing, of both kinds, gives the same gradients of a network with dropout"""
        module, x = ours.LSTM(I, U, 3, dropout=0.5), torch.randn(T, B, I, requires_grad=True)
        found = []
        for call in (lambda x: module(x)[0], lambda x: checkpoint(lambda x: module(x)[0], x, use_reentrant=False),
                     lambda x: checkpoint(lambda x: module(x)[0], x, use_reentrant=True)):
            torch.manual_seed(6)
            module.zero_grad()
            x.grad = None
            call(x).sin().sum().backward()
            found.append([x.grad, *(weight.grad.clone() for weight in module.parameters())])
        for other in found[1:]:
            for a, b in zip(found[0], other):
                self.assertTrue(torch.equal(a, b))

    def test_buffer(self):
        """After a change of the weights, the first call makes them views of one buffer again, and later calls copy no tensor"""
        x = torch.randn(T, B, I)
        changes = {
            "as made": lambda m: m, "double": lambda m: m.double().float(), "to": lambda m: m.to(torch.float64).to(torch.float32),
            "load": lambda m: m.load_state_dict(copy.deepcopy(m.state_dict())),
            "assign": lambda m: m.load_state_dict({k: v.clone() for k, v in m.state_dict().items()}, assign=True),
            "data": lambda m: setattr(m.weight_hh_l0, "data", torch.randn(4 * U, U)),
            "parameter": lambda m: setattr(m, "weight_hh_l0", nn.Parameter(torch.randn(4 * U, U))),
            "transposed": lambda m: setattr(m.weight_hh_l0, "data", torch.randn(U, 4 * U).t())}
        for bias in (True, False):
            for what, change in changes.items():
                module, theirs = ours.LSTM(I, U, bias=bias), nn.LSTM(I, U, bias=bias)
                change(module)
                theirs.load_state_dict(module.state_dict())
                module(x)
                start = _run.copies
                output = module(x)[0]
                output.sin().sum().backward()
                torch.optim.SGD(module.parameters(), 0.1).step()
                module(x)
                self.assertEqual(_run.copies, start, what)
                self.assertLess((output - theirs(x)[0]).abs().max().item(), 1e-6, what)
                other = copy.deepcopy(module)
                other(x)
                self.assertEqual(_run.copies, start, what)
                self.assertNotEqual(other.weight_ih_l0.data_ptr(), module.weight_ih_l0.data_ptr())

    def test_functional(self):
        """functional_call copies its weights once, has nn.LSTM's output and leaves the module unchanged; weight_norm keeps the output"""
        module, x = ours.LSTM(I, U), torch.randn(T, B, I)
        expected, start = module(x)[0], _run.copies
        doubled = {name: 2 * weight for name, weight in module.named_parameters()}
        output = torch.func.functional_call(module, doubled, (x,))[0]
        self.assertEqual(_run.copies, start + 1)
        theirs = nn.LSTM(I, U)
        theirs.load_state_dict({name: weight.detach() for name, weight in doubled.items()})
        self.assertLess((output - theirs(x)[0]).abs().max().item(), 1e-6)
        self.assertTrue(torch.equal(module(x)[0], expected))
        nn.utils.parametrizations.weight_norm(module, "weight_hh_l0")
        self.assertLess((module(x)[0] - expected).abs().max().item(), 1e-6)
        module(x)[0].sum().backward()

    def test_threads(self):
        """8 threads that share a module get the same bits"""
        module, x = ours.LSTM(I, U, 2), torch.randn(T, B, I)
        expected, found = module(x)[0], []

        def work():
            for _ in range(20):
                found.append(module(x)[0])

        threads = [threading.Thread(target=work) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(len(found), 160)
        self.assertTrue(all(torch.equal(expected, output) for output in found))

    def test_fork(self):
        """A forked process computes the same output and gradients as its parent"""
        module, x = ours.GRU(I, U), torch.randn(T, B, I)
        output = module(x)[0]
        output.sum().backward()
        fork = multiprocessing.get_context("fork")
        queue = fork.Queue()
        gradient = module.weight_hh_l0.grad.clone()
        module.zero_grad()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            child = fork.Process(target=in_child, args=(module, x, queue))
            child.start()
        theirs = queue.get(timeout=60)
        child.join(60)
        self.assertEqual(child.exitcode, 0)
        self.assertTrue((theirs[0] == output.detach().numpy()).all() and (theirs[1] == gradient.numpy()).all())


if __name__ == "__main__":
    sys.setrecursionlimit(10000)
    torch_tap.main()
