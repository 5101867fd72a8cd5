#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Wrong arguments of calls of cellgrad.torch raise exceptions of cellgrad that are also of a built-in type, such as RuntimeError, and whose
messages have the words that these tests list; constructors raise what PyTorch's constructors raise.  Prints TAP."""
import os
import subprocess
import sys
import types

import torch_tap
from torch_tap import py_tap
import numpy as np
import torch
from torch import nn
from torch.nn.utils.rnn import pack_sequence

import cellgrad
import cellgrad.torch as ours
from cellgrad.torch import _device

T, B, I, U = 5, 2, 3, 4


class Misuse(py_tap.Refusals):
    def test_tensors(self):
        """Wrong shapes and dtypes of input and states are rejected"""
        lstm, gru, x = ours.LSTM(I, U), ours.GRU(I, U), torch.zeros(T, B, I)
        h = torch.zeros(1, B, U)
        for words, module, arguments in (
                ("input: expected [T, B, 3], got [5, 2, 4]", lstm, (torch.zeros(T, B, 4),)),
                ("input: expected [T, B, 3]", lstm, (torch.zeros(T, 4),)), ("2D or 3D, got 4D", lstm, (torch.zeros(1, T, B, I),)),
                ("input dtype (torch.float64) does not match weight dtype (torch.float32) of weight_ih_l0: input.to(torch.float32)", lstm,
                 (x.double(),)), ("input.to(torch.float32) converts the input", lstm, (x.long(),)),
                ("h0: expected [1, 2, 4]", gru, (x, torch.zeros(2, B, U))), ("h0: expected [1, 2, 4]", gru, (x, torch.zeros(1, 9, U))),
                ("h0: expected torch.float32", gru, (x, h.double())), ("c0: expected [1, 2, 4]", lstm, (x, (h, torch.zeros(1, B, 1)))),
                ("should also be 3-D but got 2-D", gru, (x, h[0])), ("should also be 2-D but got 3-D", gru, (x[:, 0], h)),
                ("hx: expected (h_0, c_0)", lstm, (x, h)), ("hx: expected tensors", gru, (x, (h, h))),
                ("input: expected a tensor", gru, (x.tolist(),)), ("input: expected a tensor", gru, (None,))):
            self.refuse(RuntimeError, words, module, *arguments)

    def test_lengths(self):
        """Lengths are rejected that are no integers, out of range, of a wrong shape, on another device, or given with a packed sequence"""
        module, x = ours.GRU(I, U), torch.zeros(T, B, I)
        for kind, words, lengths in (
                (TypeError, "lengths: expected integers", [float("nan"), 1.0]), (TypeError, "lengths: expected integers", torch.ones(B)),
                (TypeError, "lengths: expected integers", torch.ones(B, dtype=torch.bool)),
                (ValueError, "lengths: expected 0 to 5", [6, 1]),
                (ValueError, "lengths: expected 0 to 5", [-1, 1]), (RuntimeError, "lengths: expected 2 numbers, one for each", [1, 1, 1]),
                (RuntimeError, "lengths: expected 0 to 5", torch.tensor([2**40, 1])),
                (RuntimeError, "lengths: expected a tensor [B]", [[1, 1]]),
                (RuntimeError, "on the cpu", torch.ones(B, dtype=torch.int64, device="meta"))):
            self.refuse(kind, words, module, x, lengths=lengths)
        self.refuse(RuntimeError, "has its own", module, pack_sequence([torch.zeros(T, I)]), lengths=[1])
        text = ours.spec_text("gru", input=I, units=U)
        weights = list(module.parameters())
        for lengths in (torch.tensor([9, 1], dtype=torch.int32), torch.tensor([-1, 1], dtype=torch.int32)):
            self.refuse(RuntimeError, "lengths", torch.ops.cellgrad.rnn, x, weights, None, None, lengths, None, text)
        self.refuse(RuntimeError, "of int32 on the cpu", torch.ops.cellgrad.rnn, x, weights, None, None, torch.ones(B), None, text)

    def test_weights(self):
        """A parameter replaced by one of another shape, dtype or device is rejected"""
        x = torch.zeros(T, B, I)
        for words, change in (
                ("weight_hh_l0: expected [16, 4], got [16, 5]", lambda m: setattr(m, "weight_hh_l0", nn.Parameter(torch.zeros(16, 5)))),
                ("weight_hh_l0: expected [16, 4], got [4, 16]", lambda m: setattr(m.weight_hh_l0, "data", m.weight_hh_l0.data.t())),
                ("of weight_hh_l0: another weight has torch.float32; to() of the module converts all weights",
                 lambda m: setattr(m, "weight_hh_l0", nn.Parameter(torch.zeros(16, 4, dtype=torch.float64)))),
                ("weight_hh_l0: expected a tensor on cpu, as the input, got one on meta; to() of",
                 lambda m: setattr(m, "weight_hh_l0", nn.Parameter(torch.zeros(16, 4, device="meta"))))):
            module = ours.LSTM(I, U)
            change(module)
            self.refuse(RuntimeError, words, module, x)

    def test_operator(self):
        """The operators reject wrong networks, weights, counters and cell states, reserves cut or of zeros, and a cut d_output"""
        x, weights = torch.zeros(T, B, I), list(ours.GRU(I, U).parameters())
        text = ours.spec_text("gru", input=I, units=U)
        call = torch.ops.cellgrad.rnn
        self.refuse(ValueError, "network: expected", call, x, weights, None, None, None, None, "gru")
        self.refuse(ValueError, "there is no cell", call, x, weights, None, None, None, None, text[:-3] + "grv")
        self.refuse(RuntimeError, "weights: expected 4 tensors, got 3", call, x, weights[:3], None, None, None, None, text)
        self.refuse(RuntimeError, "counter: expected one int64", call, x, weights, None, None, None, torch.zeros(2), text)
        self.refuse(RuntimeError, "no cell state", call, x, weights, None, torch.zeros(1, B, U), None, None, text)
        with torch.no_grad():
            output, _, _, reserve = call(x, weights, None, None, None, None, text)
            back = torch.ops.cellgrad.rnn_backward
            wanted = [True] * 4
            self.refuse(RuntimeError, "reserve", back, output, None, None, x, weights, None, None, None, None, reserve[:64], text, wanted)
            self.refuse(RuntimeError, "reserve", back, output, None, None, x, weights, None, None, None, None,
                        torch.zeros_like(reserve), text, wanted)
            self.refuse(RuntimeError, "d_output: expected", back, output[1:], None, None, x, weights, None, None, None, None, reserve,
                        text, wanted)

    def test_devices(self):
        """Tensors of one call on several devices, and tensors on an unsupported device, are rejected with a message"""
        x, h = torch.zeros(T, B, I, device="meta"), torch.zeros(1, B, U)
        self.refuse(RuntimeError, "weight_ih_l0: expected a tensor on meta, as the input, got one on cpu; to() of", ours.GRU(I, U), x)
        self.refuse(RuntimeError, "h0: expected a tensor on meta, as the input, got one on cpu", ours.GRU(I, U, device="meta"), x, h)
        self.assertEqual(ours.GRU(I, U, device="meta")(x)[0].shape, (T, B, U))
        for kind in ("mps", "xpu", "hpu"):
            self.refuse(NotImplementedError, f"got one on {kind}", _device.place_of, types.SimpleNamespace(type=kind, index=0))

    def test_constructors(self):
        """Constructors raise exceptions of the types that PyTorch's constructors raise; wrong cells raise exceptions, too"""
        for name in ("LSTM", "GRU", "RNN"):
            for arguments, keywords in (((0, 4), {}), ((3, -1), {}), ((3, 4), {"num_layers": 0}), ((3, 4), {"dropout": 2}),
                                        ((3, 4), {"bias": 1}), ((3.0, 4), {}), ((3, 4), {"proj_size": 9}), ((3, 4), {"nonlinearity": "x"})):
                kinds = []
                for module in (getattr(nn, name), getattr(ours, name)):
                    try:
                        module(*arguments, **keywords)
                        kinds.append(None)
                    except (TypeError, ValueError) as error:
                        kinds.append(type(error))
                # An older PyTorch accepts some arguments that a newer one rejects; cellgrad may reject those.
                if kinds[0]:
                    self.assertEqual(*kinds, f"{name} {arguments} {keywords}")
        self.refuse(RuntimeError, "cell:2:", ours.Cell, "cell leaky\ngates\n", 3, 4)
        self.refuse(FileNotFoundError, "no such file", ours.Cell, "not/there.cell", 3, 4)
        self.refuse(ValueError, "option", ours.Cell, "lstm", 3, 4, options="peephol")
        for kind, words, keywords in (
                (TypeError, "hidden_size: expected an integer, got float 4.0", {"hidden_size": 4.0}),
                (ValueError, "input_size: expected 1 to", {"input_size": 0}),
                (TypeError, "num_layers: expected an integer", {"num_layers": "2"}),
                (ValueError, "proj_size: expected 0 to", {"proj_size": -1}),
                (ValueError, "proj: expected at most units=4", {"proj_size": 9}),
                (ValueError, "a projection needs a cell with", {"cell": "rnn_tanh", "proj_size": 2}),
                (ValueError, "dropout: expected 0 to 1, got 2", {"dropout": 2}),
                (TypeError, "dropout: expected a number", {"dropout": "x"}),
                (ValueError, "dropout: expected a number, got NaN", {"dropout": float("nan")})):
            self.refuse(kind, words, ours.Cell, **{"cell": "lstm", "input_size": I, "hidden_size": U, **keywords})

    def test_values(self):
        """The values of a cell's params are numbers of any library, the same as those of cellgrad.Network"""
        leaky = "cell leaky\ngates  a\noutput h\nparam  leak = 0.1\n\nh = tanh(a) + leak * h_prev\nsave h\n"
        x = torch.ones(T, B, I)
        for value in (np.float32(0.25), np.float64(0.25), np.array(0.25), torch.tensor(0.25), np.int64(1), 1, True):
            module = ours.Cell(leaky, I, U, values={"leak": value})
            network = cellgrad.Network(leaky, input=I, units=U, values={"leak": value})
            np.testing.assert_array_equal(module(x)[0].detach(), network.forward(module.params().numpy(), x).output)
        for kind, words, values in (
                (TypeError, "values: leak: expected a number, got str '0.1'", {"leak": "0.1"}),
                (TypeError, "values: leak: expected a number, got NoneType", {"leak": None}),
                (ValueError, "values: leak: expected a number, got NaN", {"leak": float("nan")}),
                (TypeError, "values: expected a mapping of names to numbers, got list", [1]), (ValueError, "no param 'leek'", {"leek": 1})):
            self.refuse(kind, words, ours.Cell, leaky, I, U, values=values)

    def alone(self, code, **environment):
        """Runs code by this Python in a process of its own; returns its exit status, and the last line of its output."""
        done = subprocess.run([sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, check=False)
        return done.returncode, (done.stdout + done.stderr).strip().splitlines()[-1]

    def test_library(self):
        """A missing library or backend raises an exception with a message, and does not crash"""
        code = "import torch, cellgrad.torch as c\nc.LSTM(3, 4)(torch.zeros(5, 2, 3))\n"
        status, line = self.alone(code, CELLGRAD_LIBRARY="/not/there.so")
        self.assertEqual(status, 1)
        self.assertIn("LibraryError", line)
        for backend, words in (("opencl:77.0", "DeviceError"), ("metal", "metal")):
            status, line = self.alone(code, CELLGRAD_BACKEND=backend)
            self.assertEqual(status, 1, line)
            self.assertIn(words, line)


if __name__ == "__main__":
    torch_tap.main()
