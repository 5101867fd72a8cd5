#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains on several processes by PyTorch's DistributedDataParallel, with gloo on processors, or nccl if each process has a GPU.

	torchrun --nproc_per_node=2 ddp.py

Each process takes its share of every batch.  The gradients are averaged, so that all processes have the same weights, to the bit, after
each step.  The averaged gradients differ from those of one process with the whole batch by rounding alone, since sums are in another
order.  This program checks the weights after the last step, and the gradients of the first step.  torchrun sets LOCAL_WORLD_SIZE, by which
cellgrad.torch gives each process its share of the processors; CELLGRAD_CPU_THREADS sets another number of threads.
"""
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import cellgrad.torch

STEPS, T, ROWS, WIDTH, UNITS = 5, 20, 12, 8, 16


class Model(torch.nn.Module):
    """Two layers of an LSTM, and a linear layer on the last output."""

    def __init__(self):
        super().__init__()
        self.rnn = cellgrad.torch.LSTM(WIDTH, UNITS, num_layers=2, batch_first=True)
        self.out = torch.nn.Linear(UNITS, 1)

    def forward(self, x):
        return self.out(self.rnn(x)[0][:, -1])


def train(model, x, y):
    """Trains for STEPS steps on a batch; returns the gradient of the first step."""
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    first = None
    for _ in range(STEPS):
        optimizer.zero_grad()
        (model(x) - y).square().mean().backward()
        first = first or [weight.grad.clone() for weight in model.parameters()]
        optimizer.step()
    return first


def main():
    is_gpu = torch.cuda.is_available() and torch.cuda.device_count() >= int(os.environ["LOCAL_WORLD_SIZE"])
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if is_gpu else torch.device("cpu")
    if is_gpu:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if is_gpu else "gloo")
    rank, ranks = dist.get_rank(), dist.get_world_size()

    torch.manual_seed(0)
    alone = Model().to(device)
    model = Model().to(device)
    model.load_state_dict(alone.state_dict())
    x, y = torch.randn(ROWS * ranks, T, WIDTH, device=device), torch.randn(ROWS * ranks, 1, device=device)
    mine = slice(rank * ROWS, (rank + 1) * ROWS)
    gradients = train(DistributedDataParallel(model), x[mine], y[mine])

    expected = train(alone, x, y)
    worst = max(float((a - b).abs().max() / b.abs().max()) for a, b in zip(gradients, expected))
    flat = torch.cat([weight.detach().reshape(-1) for weight in model.parameters()])
    all_flat = [torch.empty_like(flat) for _ in range(ranks)]
    dist.all_gather(all_flat, flat)
    is_equal = all(torch.equal(flat, other) for other in all_flat)
    if rank == 0:
        print(f"{ranks} ranks: weights equal to the bit: {'yes' if is_equal else 'no'}; "
              f"the gradient differs from that of the whole batch by {worst:.1e} of a tensor's largest element")
    # A process must not exit while another one still communicates.
    dist.barrier()
    dist.destroy_process_group()
    return 0 if is_equal and worst < 1e-5 else 1


if __name__ == "__main__":
    sys.exit(main())
