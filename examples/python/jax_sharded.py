#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Trains on several devices by jax.shard_map: each device has its share of every batch.

	python3 jax_sharded.py

On a machine without a GPU the devices of this example are four parts of the host; a cluster has one or more devices in each process, after
jax.distributed.initialize().  The gradients of the shares are added up, so that all devices have the same weights, to the bit, after each
step.  The weights differ from those of one device with the whole batch by rounding alone, since sums are taken in another order.  This
program checks the weights after the last step, and that the loss has fallen.
"""
import os
import sys

if "xla_force_host_platform_device_count" not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = os.environ.get("XLA_FLAGS", "") + " --xla_force_host_platform_device_count=4"

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P

import cellgrad.jax

STEPS, T, ROWS, WIDTH, UNITS = 5, 20, 12, 8, 16
# The rows of the batch are divided along the mesh's one axis; each device has all params.
WHOLE, SHARED = P(), P(None, "rows")
network = cellgrad.jax.Network("lstm", input=WIDTH, units=UNITS, layers=2)


def shard_map(function, **keywords):
    """jax.shard_map, or its predecessor in older versions of JAX.  With check_vma=False, or check_rep=False
    in older versions, JAX does not sum the gradients; the function `share_of_step` does."""
    if hasattr(jax, "shard_map"):
        return jax.shard_map(function, check_vma=False, **keywords)
    from jax.experimental.shard_map import shard_map as older
    return older(function, check_rep=False, **keywords)


def loss(params, x, y):
    """Computes the loss: the sum, over the sequences of the batch, of squared differences."""
    output, _ = network(params["rnn"], x)
    return jnp.sum((output[-1] @ params["out"] - y[0]) ** 2)


def share_of_step(params, x, y):
    """Computes a training step on a device's share of the batch."""
    value, gradient = jax.lax.psum(jax.value_and_grad(loss)(params, x, y), "rows")
    return value / ROWS, jax.tree.map(lambda weight, by: weight - 0.1 / ROWS * by, params, gradient)


def train(devices, params, x, y):
    """Trains for STEPS steps; returns the losses and the final params."""
    mesh = Mesh(np.array(devices), ("rows",))
    step = jax.jit(shard_map(share_of_step, mesh=mesh, in_specs=(WHOLE, SHARED, SHARED), out_specs=(WHOLE, WHOLE)))
    x, y = (jax.device_put(array, NamedSharding(mesh, SHARED)) for array in (x, y))
    params = jax.device_put(params, NamedSharding(mesh, WHOLE))
    losses = []
    for _ in range(STEPS):
        value, params = step(params, x, y)
        losses.append(float(value))
    return losses, params


def main():
    """Trains on all devices and on one device, and compares the results."""
    key = jax.random.key(0)
    params = {"rnn": network.init(key), "out": jnp.full((UNITS, 1), 0.1)}
    x, y = jax.random.normal(key, (T, ROWS, WIDTH)), jax.random.normal(key, (1, ROWS, 1))
    losses, shared = train(jax.devices(), params, x, y)
    _, alone = train(jax.devices()[:1], params, x, y)
    copies = [[np.asarray(shard.data) for shard in leaf.addressable_shards] for leaf in jax.tree.leaves(shared)]
    is_equal = all(np.array_equal(leaf[0], copy) for leaf in copies for copy in leaf)
    worst = max(float(jnp.abs(np.asarray(a) - np.asarray(b)).max()) for a, b in zip(jax.tree.leaves(shared), jax.tree.leaves(alone)))
    print(f"{len(jax.devices())} devices: loss {losses[0]:.4f} to {losses[-1]:.4f}, weights {'' if is_equal else 'NOT '}equal on all devices, "
          f"within {worst:.1e} of the weights from one device")
    return 0 if is_equal and worst < 1e-5 and losses[-1] < losses[0] else 1


if __name__ == "__main__":
    sys.exit(main())
