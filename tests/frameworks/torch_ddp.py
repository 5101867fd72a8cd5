#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests examples/python/ddp.py on 2 and 3 processes, FSDP2 on one process, and each process's share of the processors.  Prints TAP."""
import os
import subprocess
import sys
import unittest

import torch_tap
import torch
import torch.distributed as dist
from py_tap import SOURCE

import cellgrad.torch as ours
from cellgrad.torch import _device


class Processes(unittest.TestCase):
    def test_example(self):
        """ddp.py has equal weights on all ranks, to the bit, and the gradient of the whole batch within 1e-5"""
        program = os.path.join(SOURCE, "examples", "python", "ddp.py")
        for ranks in (2, 3):
            done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}", program],
                                  capture_output=True, text=True, check=False, timeout=300)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertIn(f"{ranks} ranks: weights equal to the bit: yes", done.stdout)
            print("# " + done.stdout.strip())

    def test_fully_shard(self):
        """A training with fully_shard, before or after replace(), has the outputs of a training without fully_shard"""
        try:
            from torch.distributed.fsdp import fully_shard
        except ImportError as why:
            self.skipTest(f"this PyTorch has no torch.distributed.fsdp.fully_shard: {why}")
        os.environ.setdefault("GLOO_SOCKET_IFNAME", "lo")
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        self.addCleanup(dist.destroy_process_group)
        mesh = dist.device_mesh.init_device_mesh("cpu", (1,))

        def shard(*modules):
            for module in modules:
                fully_shard(module, mesh=mesh)

        ways = (lambda model: ours.replace(model), lambda model: shard(ours.replace(model)),
                lambda model: shard(ours.replace(model)[0], model), lambda model: shard(model) or ours.replace(model))
        found = []
        for way in ways:
            torch.manual_seed(1)
            model = torch.nn.Sequential(torch.nn.LSTM(3, 4, 2))
            way(model)
            self.assertIsInstance(model[0], ours.LSTM)
            optimizer, outputs = torch.optim.SGD(model.parameters(), 0.5), []
            for _ in range(3):
                optimizer.zero_grad()
                output = model(torch.randn(5, 2, 3))[0]
                outputs.append(output.detach().clone())
                output.square().mean().backward()
                optimizer.step()
            found.append(torch.stack(outputs))
        for other in found[1:]:
            self.assertLess((found[0] - other).abs().max().item(), 1e-6)

    def test_threads(self):
        """LOCAL_WORLD_SIZE divides the processors, unless CELLGRAD_CPU_THREADS is set or CELLGRAD_BACKEND names opencl"""
        count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        for expected, variables in ((f"cpu:threads={max(1, count // 2)}", {"LOCAL_WORLD_SIZE": "2"}), ("cpu", {"LOCAL_WORLD_SIZE": "1"}),
                                    ("cpu:threads=1", {"LOCAL_WORLD_SIZE": "100000"}), ("cpu", {"LOCAL_WORLD_SIZE": "two"}),
                                    ("cpu", {"LOCAL_WORLD_SIZE": "2", "CELLGRAD_CPU_THREADS": "3"}),
                                    (f"cpu:threads={max(1, count // 2)}", {"LOCAL_WORLD_SIZE": "2", "CELLGRAD_CPU_THREADS": ""}),
                                    ("opencl", {"LOCAL_WORLD_SIZE": "2", "CELLGRAD_BACKEND": "opencl"})):
            names = ("LOCAL_WORLD_SIZE", "CELLGRAD_CPU_THREADS", "CELLGRAD_BACKEND")
            before = {name: os.environ.pop(name, None) for name in names}
            try:
                os.environ.update(variables)
                self.assertEqual(_device.cpu_name(), expected)
            finally:
                for name in names:
                    os.environ.pop(name, None)
                os.environ.update({name: value for name, value in before.items() if value is not None})


if __name__ == "__main__":
    torch_tap.main()
