#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Calls of cellgrad.torch by PyTorch's stable ABI, with an extension that this test builds, give the bits and the errors of calls by
ctypes.  The tests are skipped with a PyTorch that is too old.  Prints TAP.  CXX: a C++ compiler."""
import concurrent.futures
import contextlib
import os
import sys
import tempfile
import types
import unittest
import unittest.mock

import torch_tap
from torch_tap import python
import torch
from torch import nn

import torch_answers
import cellgrad.torch as ours
from cellgrad.torch import _small, _stable

T, B, I, U = 5, 2, 3, 4
HERE = os.path.dirname(os.path.abspath(__file__))
ROOM = tempfile.TemporaryDirectory()
PATH = os.path.join(ROOM.name, _stable.NAME)
is_old = _stable.torch_version() < _stable.OLDEST
if not is_old:
    STATUS, WORDS = python("-m", "cellgrad.torch.build", "--into", ROOM.name)
    assert STATUS == 0, WORDS
    os.environ["CELLGRAD_TORCH_EXTENSION"] = PATH


@contextlib.contextmanager
def counted():
    """Records the calls of the extension: for each forward call, whether the extension served it or declined; in `backward` of that list,
    the same for each backward call."""
    class Served(list):
        backward = []

    served, module = Served(), _stable.extension()
    served.backward = []

    def forward(*arguments):
        made = module.forward(*arguments)
        served.append(made is not None)
        return made

    def backward(*arguments):
        made = module.backward(*arguments)
        served.backward.append(made is not None)
        return made

    passes = types.SimpleNamespace(plan=module.plan, forward=forward, backward=backward)
    with unittest.mock.patch.object(_stable, "_found", (passes, "counted")):
        yield served


@contextlib.contextmanager
def off():
    """Makes all calls use ctypes."""
    with unittest.mock.patch.object(_stable, "is_off", True):
        yield


def outcome(call, *arguments):
    """Returns the tensors of a call, or the class and the message of its exception."""
    try:
        return [tensor.clone() for tensor in torch_answers.tensors(call(*arguments))]
    except Exception as error:
        return type(error), str(error)


@unittest.skipIf(is_old, "PyTorch is older than the stable ABI that the extension needs")
class Calls(unittest.TestCase):
    """Compares calls by the extension with calls by ctypes."""

    def same(self, call, *arguments, serves=True):
        """Checks that a call by ctypes and one by the extension give the same bits, or the same exception.  With the extension
        the call is made twice; serves: whether the extension must compute the second one or must not; None: either."""
        with off():
            expected = outcome(call, *arguments)
        outcome(call, *arguments)
        with counted() as served:
            found = outcome(call, *arguments)
        if serves is not None:
            self.assertEqual(any(served), serves, served)
        if isinstance(expected, tuple) or isinstance(found, tuple):
            self.assertEqual(expected, found)
        else:
            self.assertEqual([(a.shape, a.dtype, a.stride()) for a in expected], [(a.shape, a.dtype, a.stride()) for a in found])
            self.assertTrue(all(a.is_meta or torch.equal(a, b) for a, b in zip(expected, found)))
        return found

    def test_bits(self):
        """Calls of 80 modules in four dtypes, with states and without, have the same bits by the extension as by ctypes"""
        torch.manual_seed(1)
        answers = torch_answers.Answers()
        with torch.no_grad():
            for _, _, mine in answers.pairs():
                for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
                    module = mine.to(dtype)
                    x = torch.randn(6, 3, torch_answers.I, dtype=dtype)
                    # The input is [6, 3, I]: with batch_first it has 6 sequences, else 3.
                    states = answers.states(module, (6 if module.batch_first else 3,))
                    states = tuple(h.to(dtype) for h in states) if isinstance(states, tuple) else states.to(dtype)
                    for hx in (None, states):
                        self.same(module, x, hx)
            self.same(ours.LSTM(I, U, 2, bidirectional=True, peephole=True), torch.randn(T, B, I))
            self.same(ours.Cell(torch_answers.LEAKY, I, U), torch.randn(T, B, I))
            self.same(ours.GRU(I, U), torch.randn(T, I))

    def test_theirs(self):
        """torch_answers.py, torch_misuse.py and torch_transforms.py pass with the extension"""
        for name in ("torch_answers.py", "torch_misuse.py", "torch_transforms.py"):
            with self.subTest(name):
                status, words = python(os.path.join(HERE, name), CELLGRAD_TORCH_EXTENSION=PATH)
                self.assertEqual(status, 0, words)

    def test_weights(self):
        """The next call uses weights that were changed or replaced; wrong or deleted weights raise the same as by ctypes"""
        x = torch.randn(T, B, I)
        changes = (
            ("in place", lambda m: m.weight_hh_l0.mul_(2), True),
            ("by .data of the same memory", lambda m: m.weight_ih_l0.data.zero_(), True),
            (".data =", lambda m: setattr(m.weight_hh_l0, "data", torch.randn(4 * U, U)), None),
            (".data = of another layout", lambda m: setattr(m.weight_hh_l0, "data", torch.randn(U, 4 * U).t()), None),
            ("a parameter", lambda m: setattr(m, "bias_hh_l0", nn.Parameter(torch.randn(4 * U))), None),
            ("a state_dict", lambda m: m.load_state_dict(ours.LSTM(I, U).state_dict()), True),
            ("a state_dict's own tensors", lambda m: m.load_state_dict(ours.LSTM(I, U).state_dict(), assign=True), None),
            ("a copy", lambda m: m.to(torch.float64).to(torch.float32), None),
            ("another shape", lambda m: setattr(m.weight_hh_l0, "data", torch.randn(4 * U, U + 1)), False),
            ("as many numbers", lambda m: setattr(m.weight_hh_l0, "data", m.weight_hh_l0.data.view(U, 4 * U)), False),
            ("another dtype", lambda m: m.double(), False), ("no memory", lambda m: m.to("meta"), False),
            ("a deleted one", lambda m: delattr(m, "weight_hh_l0"), False))
        with torch.no_grad():
            for what, change, serves in changes:
                with self.subTest(what):
                    module = ours.LSTM(I, U)
                    before = self.same(module, x)
                    change(module)
                    # In the first call after the weights have changed, the extension may compute the call or decline it; the result is that
                    # of the next call.
                    first = outcome(module, x)
                    after = self.same(module, x, serves=serves if serves is not None else True)
                    self.assertEqual(first if isinstance(first, tuple) else [a.tolist() for a in first],
                                     after if isinstance(after, tuple) else [a.tolist() for a in after])
                    if serves is not False and what != "a copy":
                        self.assertFalse(torch.equal(before[0], after[0]))
                        theirs = nn.LSTM(I, U)
                        theirs.load_state_dict(module.state_dict())
                        self.assertLess(float((theirs(x)[0] - after[0]).abs().max()), 1e-6)

    def test_settings(self):
        """The next call uses a changed batch_first, and the first call with dropout, after train(), does not use the extension"""
        module, x = ours.LSTM(I, U, 2, dropout=0.5).eval(), torch.randn(T, T, I)
        with torch.no_grad():
            before = self.same(module, x)
            module.batch_first = True
            after = self.same(module, x)
            theirs = nn.LSTM(I, U, 2, batch_first=True)
            theirs.load_state_dict(module.state_dict())
            self.assertLess(float((theirs(x)[0] - after[0]).abs().max()), 1e-6)
            self.assertFalse(torch.equal(before[0], after[0]))
            with counted() as served:
                module.train()(x)
            self.assertEqual(served, [])

    def test_declines(self):
        """Inputs that are strided, empty or wrong are left to ctypes; a list of states, or one state without the other, is not"""
        module = ours.LSTM(I, U)
        x = torch.randn(T, B, I)
        h = torch.randn(1, B, U)
        with torch.no_grad():
            self.same(module, x)
            for what, arguments in (
                    ("strides", (torch.randn(B, T, I).transpose(0, 1),)), ("apart", (torch.randn(T, B, 2 * I)[..., ::2],)),
                    ("no rows", (torch.zeros(T, 0, I),)), ("no steps", (torch.zeros(0, B, I),)),
                    ("states apart", (x, (torch.randn(1, U, B).transpose(1, 2), h))), ("a list", (x, [h, h])),
                    ("one state", (x, (h, None))), ("a width", (torch.zeros(T, B, I + 1),)), ("four", (torch.zeros(1, T, B, I),)),
                    ("a dtype", (x.double(),)), ("integers", (x.long(),)), ("a state", (x, (torch.randn(1, B, U + 1), h))),
                    ("a state's dtype", (x, (h.double(), h))), ("a state's rows", (x, (h[:, :1], h))), ("not two", (x, (h,))),
                    ("a tensor", (x, h)), ("no tensors", (x, (1, 2))), ("a device", (x.to("meta"),)), ("numbers", (x.tolist(),)),
                    ("sparse", (x.to_sparse(),)), ("none", (None,))):
                with self.subTest(what):
                    self.same(module, *arguments, serves=True if what in ("one state", "a list") else False)
            self.same(ours.GRU(I, U), x, (h, h), serves=False)

    def test_watched(self):
        """Under a mode, functorch or with a subclass of Tensor the module does not call the extension directly; autocast gives bfloat16"""
        module, x = ours.LSTM(I, U), torch.randn(T, B, I)

        class Mode(torch.overrides.TorchFunctionMode):
            def __torch_function__(self, function, kinds, arguments=(), keywords=None):
                return function(*arguments, **(keywords or {}))

        class Derived(torch.Tensor):
            pass

        with torch.no_grad():
            module(x)
        with counted() as served:
            with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
                self.assertEqual(module(x)[0].dtype, torch.bfloat16)
            served.clear()
            with torch.no_grad():
                with Mode():
                    _small.small_call(module, x, None)
                torch.func.functionalize(lambda: _small.small_call(module, x, None))()
                _small.small_call(module, x.as_subclass(Derived), None)
                self.assertEqual(served, [])
                # Under a TorchFunctionMode the module calls the operator, and the operator's kernel computes after the mode.
                with Mode():
                    self.assertEqual(module(x)[0].shape, (T, B, U))

    def test_operator(self):
        """The operator's kernel uses the extension, with the schema and bits of ctypes and the shapes of the operator's fake kernel"""
        schema = ("import torch, cellgrad.torch\nprint(torch.ops.cellgrad.rnn.default._schema, "
                  "torch.ops.cellgrad.rnn_backward.default._schema)")
        self.assertEqual(*(python("-c", schema, CELLGRAD_TORCH_EXTENSION=path) for path in (PATH, "")))
        module, x = ours.GRU(I, U), torch.randn(T, B, I)
        arguments = (x, list(module.parameters()), torch.randn(1, B, U), None, None, None,
                     ours.spec_text("gru", input=I, units=U, reserve=False))
        with torch.no_grad():
            self.same(torch.ops.cellgrad.rnn, *arguments)
            self.same(torch.ops.cellgrad.rnn, x, arguments[1][:3], *arguments[2:], serves=False)
            found = torch.ops.cellgrad.rnn(*arguments)
            with torch._subclasses.FakeTensorMode(allow_non_fake_inputs=True):
                fake = torch.ops.cellgrad.rnn(*arguments)
        self.assertEqual(*([(a.shape, a.dtype, a.stride(), a.device) for a in some] for some in (found, fake)))

    def test_inference(self):
        """Results are inference tensors in inference mode, and plain tensors that require no gradients under no_grad"""
        module, x = ours.LSTM(I, U), torch.randn(T, B, I)
        with torch.inference_mode():
            self.same(module, x)
            self.assertTrue(module(x)[0].is_inference())
        with torch.no_grad():
            output = module(x)[0]
        self.assertFalse(output.is_inference() or output.requires_grad)
        self.assertIs(type(output), torch.Tensor)

    def test_memory(self):
        """The outputs of two calls have different memory, and a thousand calls leak fewer than 100 references"""
        module, x = ours.LSTM(I, U), torch.randn(T, B, I)
        with torch.no_grad():
            module(x)
            first, again = module(x), module(x)
            self.assertNotEqual(first[0].data_ptr(), again[0].data_ptr())
            counts = [sys.getrefcount(thing) for thing in (x, module.weight_hh_l0, None)]
            for _ in range(1000):
                module(x)
            for before, thing in zip(counts, (x, module.weight_hh_l0, None)):
                self.assertLess(abs(sys.getrefcount(thing) - before), 100)

    def test_threads(self):
        """Eight threads and a forked child get the same bits"""
        module, x = ours.LSTM(I, U, 2), torch.randn(T, B, I)
        with torch.no_grad():
            module(x)
            expected = module(x)[0]

            def right(_):
                with torch.no_grad():
                    return all(torch.equal(module(x)[0], expected) for _ in range(100))

            with concurrent.futures.ThreadPoolExecutor(8) as pool:
                self.assertTrue(all(pool.map(right, range(8))))
            child = os.fork()
            if not child:
                with counted() as served:
                    is_right = [torch.equal(module(x)[0], expected) for _ in range(2)] == [True, True]
                # The first call in the forked child uses ctypes, and opens a context in the child; the extension serves the second.
                os._exit(0 if is_right and served == [True] else 1)
            self.assertEqual(os.waitpid(child, 0)[1], 0)


def gradients(module, x, hx=None, upstream=(0, 1, 2), needs=None, dense=True, twice=False):
    """Returns the outputs of a module, and the gradients of the input, the initial states and the weights from those of the outputs.

    upstream: the indices of the outputs that have upstream gradients; needs: the names of the tensors that get gradients, None for all;
    dense: whether upstream gradients are random and dense, or 1 everywhere and expanded; twice: the dense gradients are added twice.
    """
    named = {"x": x, **({} if hx is None else {f"h{k}": state for k, state in enumerate(hx if isinstance(hx, tuple) else (hx,))}),
             **dict(module.named_parameters())}
    for name, tensor in named.items():
        tensor.grad = None
        tensor.requires_grad_(needs is None or name in needs)
    outputs = torch_answers.tensors(module(x, hx))
    generator = torch.Generator().manual_seed(5)
    pairs = [(output, torch.randn(output.shape, generator=generator).to(output.dtype)) for k, output in enumerate(outputs) if k in upstream]
    if dense:
        for turn in range(2 if twice else 1):
            torch.autograd.backward(*zip(*pairs), retain_graph=twice and turn == 0)
    else:
        sum(output.sum() for output, _ in pairs).backward()
    return [*outputs, *(tensor.grad for tensor in named.values() if tensor.grad is not None)]


@unittest.skipIf(is_old, "PyTorch is older than the stable ABI that the extension needs")
class Training(unittest.TestCase):
    """Compares forward and backward passes by the extension with those by ctypes."""

    def same(self, *arguments, serves=True, **words):
        """Checks that outputs and gradients have the same bits by ctypes and by the extension.  serves: whether the extension must serve
        both passes, or a pair: whether it must serve forward, and backward."""
        with off():
            expected = gradients(*arguments, **words)
        gradients(*arguments, **words)
        with counted() as served:
            found = gradients(*arguments, **words)
        self.assertEqual((bool(served) and all(served), bool(served.backward) and all(served.backward)),
                         serves if isinstance(serves, tuple) else (serves, serves))
        self.assertEqual([(a.shape, a.dtype, a.stride()) for a in expected], [(a.shape, a.dtype, a.stride()) for a in found])
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(expected, found)))
        return found

    def test_bits(self):
        """Trainings of 80 modules in four dtypes, with states and without, have the same bits by the extension as by ctypes"""
        torch.manual_seed(2)
        answers = torch_answers.Answers()
        for _, _, mine in answers.pairs():
            for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
                module = mine.to(dtype)
                x = torch.randn(6, 3, torch_answers.I, dtype=dtype)
                states = answers.states(module, (6 if module.batch_first else 3,))
                states = tuple(h.to(dtype) for h in states) if isinstance(states, tuple) else states.to(dtype)
                for hx in (None, states):
                    self.same(module, x, hx)
        self.same(ours.LSTM(I, U, 2, bidirectional=True, peephole=True), torch.randn(T, B, I))
        self.same(ours.Cell(torch_answers.LEAKY, I, U), torch.randn(T, B, I), upstream=(0, 1))
        # With one input feature and one unit, matrices have one column, like biases, but are still matrices.
        self.same(ours.LSTM(1, 1, 2), torch.randn(T, B, 1))

    def test_parts(self):
        """Five subsets of the upstream gradients and six of the requested gradients give equal bits; all gradients are PyTorch's to 1e-5"""
        module, x = ours.LSTM(I, U, 2), torch.randn(T, B, I)
        states = torch.randn(2, B, U), torch.randn(2, B, U)
        for upstream in ((0,), (1,), (2,), (0, 2), (1, 2)):
            self.same(module, x, states, upstream=upstream)
        for needs in (("x",), ("h0",), ("h1",), ("weight_ih_l1",), ("x", "bias_hh_l0"), ("h0", "weight_hh_l0", "bias_ih_l1")):
            with self.subTest(needs):
                found = self.same(module, x, states, needs=needs)
                self.assertEqual(len(found), 3 + len(needs))
        theirs = nn.LSTM(I, U, 2)
        theirs.load_state_dict(module.state_dict())
        for a, b in zip(gradients(module, x, states), gradients(theirs, x, states)):
            self.assertLess(float((a - b).detach().abs().max()), 1e-5)

    def test_declines(self):
        """Passes with upstream gradients that are not dense, with dropout or with strided inputs have the answers of ctypes"""
        module, x = ours.GRU(I, U, 2), torch.randn(T, B, I)
        self.same(module, x, dense=False, serves=(True, False))
        self.same(module, torch.randn(B, T, I).transpose(0, 1), serves=False)
        dropping = ours.GRU(I, U, 2, dropout=0.5)

        def of_seed():
            torch.manual_seed(3)
            return gradients(dropping, x)

        with off():
            expected = of_seed()
        of_seed()
        with counted() as served:
            found = of_seed()
        self.assertEqual((list(served), served.backward), ([True], [True]))
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(expected, found)))

    def test_graph(self):
        """A retained graph adds its gradients twice; changed weights, freed graphs, second gradients are errors; hooks alter nothing"""
        module, x = ours.LSTM(I, U), torch.randn(T, B, I)
        self.same(module, x, twice=True)
        once, twice = gradients(module, x), gradients(module, x, twice=True)
        self.assertTrue(torch.equal(2 * once[-1], twice[-1]))
        x.requires_grad_()
        with counted() as served:
            output = module(x)[0]
            with torch.no_grad():
                module.weight_hh_l0.mul_(2)
            with self.assertRaisesRegex(RuntimeError, "modified by an inplace operation"):
                output.sum().backward()
            output = module(x)[0]
            output.sum().backward()
            with self.assertRaisesRegex(RuntimeError, "second time"):
                output.sum().backward()
            gradient, = torch.autograd.grad(module(x)[0].square().sum(), x, create_graph=True)
            with self.assertRaises(ours.SecondGradientError):
                gradient.sum().backward()
            self.assertEqual(list(served), [True] * 3)
        saved = []
        with torch.autograd.graph.saved_tensors_hooks(lambda tensor: saved.append(tensor) or tensor.clone(), lambda tensor: tensor):
            kept = gradients(module, x)
        self.assertIn(torch.uint8, [tensor.dtype for tensor in saved])
        self.assertTrue(all(torch.equal(a, b) for a, b in zip(kept, gradients(module, x))))

    def test_memory(self):
        """A thousand steps leak fewer than 100 references, and the gradient of weight_hh_l0 has other memory than weight_hh_l0"""
        module, x = ours.LSTM(I, U), torch.randn(T, B, I)
        gradients(module, x)
        counts = [sys.getrefcount(thing) for thing in (x, module.weight_hh_l0, None, True)]
        for _ in range(1000):
            gradients(module, x)
        for before, thing in zip(counts, (x, module.weight_hh_l0, None, True)):
            self.assertLess(abs(sys.getrefcount(thing) - before), 100)
        self.assertNotEqual(module.weight_hh_l0.grad.data_ptr(), module.weight_hh_l0.data_ptr())

    def test_reserve(self):
        """A large reserve space has the memory of an earlier one, to which no graph refers any more; calls by the extension and by ctypes
        share it"""
        module, x = ours.LSTM(I, 64), torch.randn(60, 32, I)
        places = []
        for way in (off, counted, counted, off):
            with way() as served:
                (output, _), place = torch_answers.saving(module, x)
                output.backward(torch.ones_like(output))
            del output
            places.append(place)
            if served is not None:
                self.assertEqual((served, served.backward), ([True], [True]))
        if sys.implementation.name == "cpython" and getattr(sys, "_is_gil_enabled", lambda: True)():
            self.assertEqual(len(set(places)), 1)

    def test_threads(self):
        """Eight threads with modules of their own get the same gradients"""
        module, x = ours.LSTM(I, U), torch.randn(T, B, I)
        expected = gradients(module, x)

        def right(_):
            mine = ours.LSTM(I, U)
            mine.load_state_dict(module.state_dict())
            own = x.detach().clone()
            return all(torch.equal(a, b) for _ in range(50) for a, b in zip(gradients(mine, own), expected))

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            self.assertTrue(all(pool.map(right, range(8))))

    def test_wrong(self):
        """The extension's functions return None for wrong arguments or raise an exception"""
        module, x = ours.LSTM(I, U), torch.randn(T, B, I)
        gradients(module, x)
        spec = ours._spec.spec_of(module._networks(0.0)[1])
        passes, plan, weights = _stable.extension(), spec.stable(x.dtype).stable, list(module.parameters())
        x = x.detach()
        made = passes.forward(plan, x, weights, None, None, 0, None)
        d_output, reserve, needs = torch.randn(T, B, U), made[3], (True,) * 7
        right = [plan, d_output, None, None, x, weights, None, None, reserve, 0, needs]
        self.assertEqual(len(passes.backward(*right)), 7)
        for k, wrong in ((1, d_output[:1]), (1, d_output.double()), (1, 3), (2, d_output), (3, d_output), (4, x[:2]), (5, weights[:3]),
                         (8, reserve[:64]), (8, x), (8, None), (8, torch.zeros_like(reserve)), (10, needs[:6]), (10, list(needs))):
            with self.subTest((k, str(wrong)[:20])):
                self.assertIsNone(passes.backward(*right[:k], wrong, *right[k + 1:]))
        for wrong in (right[:10], right[:9] + ["one", needs], right[:9] + [-1, needs]):
            self.assertRaises((TypeError, OverflowError), passes.backward, *wrong)
        self.assertRaises((TypeError, ValueError), passes.backward, None, *right[1:])
        self.assertRaises((TypeError, OverflowError), passes.forward, plan, x, weights, None, None, "one", None)
        self.assertEqual(passes.forward(plan, x, weights, None, None, 0, reserve)[3].data_ptr(), reserve.data_ptr())
        for wrong in (reserve[:64], reserve.view(1, -1), x, 3):
            self.assertIsNone(passes.forward(plan, x, weights, None, None, 0, wrong))


if __name__ == "__main__":
    torch_tap.main()
