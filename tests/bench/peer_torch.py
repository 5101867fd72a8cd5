#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures PyTorch's time for peers.sh: nn.LSTM, nn.GRU and nn.RNN on the CPU, forward and backward by autograd."""
import sys

from peer_worker import decline, read_numbers, read_problem, serve

try:
    import torch
except ImportError as why:
    decline(f"not installed: {why}")

KINDS = {"f32": torch.float32, "f64": torch.float64, "f16": torch.float16, "bf16": torch.bfloat16}
CELLS = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "rnn_tanh": torch.nn.RNN}


class Network:
    """A module of one layer, with the problem's weights and inputs in the problem's dtype."""

    def __init__(self, problem):
        self.problem, kind = problem, KINDS[problem.dtype]
        arrays = {name: torch.from_numpy(numbers).to(kind) for name, numbers in read_numbers(problem).items()}
        self.net = CELLS[problem.cell](problem.I, problem.H).to(kind)
        with torch.no_grad():
            self.net.weight_ih_l0.copy_(arrays["W"].reshape(-1, problem.I))
            self.net.weight_hh_l0.copy_(arrays["R"].reshape(-1, problem.H))
            self.net.bias_ih_l0.copy_(arrays["bW"].reshape(-1))
            self.net.bias_hh_l0.copy_(arrays["bR"].reshape(-1))
        self.x, self.states = arrays["x"], [arrays[name][None] for name in ("h0", "c0") if name in arrays]
        self.upstream = ([] if problem.last else [arrays["dy"]]) + [arrays[name][None] for name in ("dh_n", "dc_n") if name in arrays]
        self.inputs = [self.x, *self.states]
        if problem.grad:
            for tensor in self.inputs:
                tensor.requires_grad_(True)
        self.wanted = self.inputs + [self.net.weight_ih_l0, self.net.weight_hh_l0, self.net.bias_ih_l0, self.net.bias_hh_l0]

    def forward(self):
        y, last = self.net(self.x, tuple(self.states) if self.problem.has_c else self.states[0])
        return [y, *last] if self.problem.has_c else [y, last]

    def run(self):
        if not self.problem.grad:
            with torch.inference_mode():
                self.outputs = self.forward()
            return
        self.outputs = self.forward()
        self.gradients = torch.autograd.grad(self.outputs[self.problem.last:], self.wanted, self.upstream)

    def answers(self):
        outputs = dict(zip(("y", "h_n", "c_n"), self.outputs))
        if self.problem.grad:
            names = ["dx", "dh0"] + ["dc0"] * self.problem.has_c + ["dW", "dR", "db", "dbR"]
            outputs.update(zip(names, self.gradients))
        return {name: tensor.detach().to(torch.float32).numpy() for name, tensor in outputs.items()}


def main():
    problem = read_problem()
    if problem.cell not in CELLS:
        decline(f"has no {problem.cell}")
    torch.set_num_threads(problem.threads)
    flushes = torch.set_flush_denormal(True)
    try:
        network = Network(problem)
        network.run()
    except (RuntimeError, NotImplementedError) as why:
        decline(f"{problem.dtype}: {str(why).splitlines()[0]}")
    settings = {"threads": torch.get_num_threads(), "flush_denormal": flushes, "module": type(network.net).__name__}
    if hasattr(torch.backends, "mkldnn"):
        settings["mkldnn"] = torch.backends.mkldnn.is_available()
    serve(problem, "pytorch", torch.__version__, settings, network.run, network.answers)
    return 0


if __name__ == "__main__":
    sys.exit(main())
