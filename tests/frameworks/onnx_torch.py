#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares layers of cellgrad.onnx with PyTorch in float64: outputs, states and all gradients with those of PyTorch's modules, and Y and
all gradients of an LSTM with peepholes with those of ONNX's equations under PyTorch's autograd.  Prints TAP."""
import itertools
import unittest

import framework_tap

framework_tap.need("onnx", "ONNX")
framework_tap.need("torch", "PyTorch")

import numpy as np  # noqa: E402
import torch  # noqa: E402

import cellgrad.onnx  # noqa: E402
import onnx_cases  # noqa: E402

# The gates in ONNX's order, each as the index of the gate in PyTorch's order.
ORDER = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2), "RNN": (0,)}
T, B, WIDTH, U = 6, 4, 3, 5
LENGTHS = [6, 2, 5, 1]


def as_onnx(operator, tensor):
    """Returns a copy of a tensor of PyTorch, with the gates in ONNX's order."""
    blocks = tensor.detach().numpy().reshape(len(ORDER[operator]), U, -1)
    return np.concatenate([blocks[k] for k in ORDER[operator]]).reshape(tensor.shape)


def weights_of(operator, module, of=lambda weight: weight):
    """Returns W, R and B made of a module's weights, or of the tensors that the function `of` returns for them, such as their gradients."""
    suffixes = ["_l0", "_l0_reverse"][:1 + module.bidirectional]
    W, R, bw, br = (np.stack([as_onnx(operator, of(getattr(module, name + suffix))) for suffix in suffixes])
                    for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    return {"W": W, "R": R, "B": np.concatenate([bw, br], axis=1)}


def off(got, right):
    return float(np.abs(np.asarray(got) - (right if isinstance(right, np.ndarray) else right.detach().numpy())).max())


class Beside(unittest.TestCase):
    def test_modules(self):
        """Layers equal nn.LSTM, nn.GRU and nn.RNN, in one direction and in both, with sequences of different lengths in a batch"""
        torch.manual_seed(0)
        worst = 0.0
        for operator, both, ragged, relu in itertools.product(ORDER, (False, True), (False, True), (False, True)):
            if relu and operator != "RNN":
                continue
            keywords = {"nonlinearity": "relu"} if relu else {}
            module = getattr(torch.nn, operator)(WIDTH, U, bidirectional=both, dtype=torch.float64, **keywords)
            D, states = 1 + both, 2 if operator == "LSTM" else 1
            X = torch.randn(T, B, WIDTH, dtype=torch.float64, requires_grad=True)
            initial = [torch.randn(D, B, U, dtype=torch.float64, requires_grad=True) for _ in range(states)]
            packed = torch.nn.utils.rnn.pack_padded_sequence(X, torch.tensor(LENGTHS), enforce_sorted=False) if ragged else X
            output, last = module(packed, tuple(initial) if states == 2 else initial[0])
            output = torch.nn.utils.rnn.pad_packed_sequence(output, total_length=T)[0] if ragged else output
            last = last if states == 2 else (last,)
            by = [torch.randn_like(each) for each in (output, *last)]
            sum((a * b).sum() for a, b in zip((output, *last), by)).backward()

            attributes = {"direction": "bidirectional" if both else "forward"}
            if operator == "GRU":
                attributes["linear_before_reset"] = 1
            if relu:
                attributes["activations"] = ["Relu"] * D
            layer = cellgrad.onnx.Layer(operator, **weights_of(operator, module), **attributes)
            run = layer.forward(X.detach().numpy(), LENGTHS if ragged else None, *(state.detach().numpy() for state in initial))
            turned = [by[0].reshape(T, B, D, U).transpose(1, 2).numpy(), *(each.numpy() for each in by[1:])]
            gradients = layer.backward(run, *turned)
            errors = [off(run.Y, output.reshape(T, B, D, U).transpose(1, 2)), off(gradients.X, X.grad)]
            errors += [off(got, right) for got, right in zip((run.Y_h, run.Y_c), last)]
            errors += [off(got, state.grad) for got, state in zip((gradients.initial_h, gradients.initial_c), initial)]
            right = weights_of(operator, module, lambda weight: weight.grad)
            errors += [off(got, right[name]) for name, got in layer.weights(gradients.params, gradients=True).items()]
            self.assertEqual(len(errors), 2 + 2 * states + 3)
            self.assertLess(max(errors), 1e-12, (operator, both, ragged, relu, errors))
            worst = max(worst, *errors)
        print(f"# worst {worst:.1e}")

    def test_equations(self):
        """An LSTM with peepholes, with and without clip and input_forget, has the gradients of ONNX's equations under autograd"""
        rng = np.random.default_rng(3)
        for clip, input_forget in itertools.product((None, 0.4), (0, 1)):
            attributes = {"input_forget": input_forget, **({} if clip is None else {"clip": clip})}
            feeds = onnx_cases.feeds_of(rng, "LSTM", attributes, np.float64, peephole=True)
            tensors = {name: torch.tensor(value, requires_grad=True) for name, value in feeds.items()}
            h, c = tensors["initial_h"][0], tensors["initial_c"][0]
            bound = (lambda x: x) if clip is None else (lambda x, limit=clip: x.clamp(-limit, limit))
            outputs, units = [], h.shape[1]
            W, R, bias, P = (tensors[name][0] for name in ("W", "R", "B", "P"))
            p_i, p_o, p_f = P.split(units)
            for x in tensors["X"]:
                i, o, f, g = (x @ W.T + h @ R.T + bias[:4 * units] + bias[4 * units:]).split(units, dim=1)
                i = torch.sigmoid(bound(i + p_i * c))
                f = 1 - i if input_forget else torch.sigmoid(bound(f + p_f * c))
                c = f * c + i * torch.tanh(bound(g))
                h = torch.sigmoid(bound(o + p_o * c)) * torch.tanh(c)
                outputs.append(h)
            Y, by = torch.stack(outputs), [torch.tensor(rng.standard_normal(shape)) for shape in ((4, 3, 2), (3, 2), (3, 2))]
            sum((a * b).sum() for a, b in zip((Y, h, c), by)).backward()

            layer = cellgrad.onnx.Layer("LSTM", feeds["W"], feeds["R"], feeds["B"], feeds["P"], **attributes)
            run = layer.forward(feeds["X"], None, feeds["initial_h"], feeds["initial_c"])
            gradients = layer.backward(run, by[0].numpy()[:, None], *(each.numpy()[None] for each in by[1:]))
            found = {"X": gradients.X, "initial_h": gradients.initial_h, "initial_c": gradients.initial_c,
                     **layer.weights(gradients.params, gradients=True)}
            self.assertEqual(set(found), set(tensors))
            self.assertLess(off(run.Y[:, 0], Y), 1e-13)
            for name, got in found.items():
                self.assertLess(off(got, tensors[name].grad), 1e-12, (name, attributes))


if __name__ == "__main__":
    framework_tap.main()
