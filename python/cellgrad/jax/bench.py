# SPDX-License-Identifier: Apache-2.0
"""`python -m cellgrad.jax.bench`: times a training step of an LSTM by this package, jax.lax.scan and `cellgrad bench`, as a Markdown table.

A step is a forward and a backward pass with the gradients of params and input, without an optimizer.  jax.jit compiles the steps by this
package and by jax.lax.scan.  The network by jax.lax.scan multiplies the inputs of all steps by the weights at once, and the states in the
scan.  `cellgrad bench` runs no Python and no XLA between calls.  This package, jax.lax.scan and `cellgrad bench` run in turns, a while
each, and the least time of a step by each is printed.  The table has the minor page faults of a step by this package, which show memory
that is allocated anew.
"""
import argparse
import os
import resource
import sys
from typing import Any, Callable, List, Optional, Tuple

import jax
import jax.numpy as jnp

from .._bench import alone, in_turn, of_command
from . import Network

# The sizes T, B, I, U of each LSTM that is timed.
SIZES = ((100, 32, 64, 128), (100, 32, 512, 512), (1, 1, 4, 4))
Step = Callable[..., Any]


def scanned(weights: Tuple[Any, Any, Any], x: Any) -> Any:
    """Returns the outputs of an LSTM by jax.lax.scan.  weights: [4U, I], [4U, U], [4U], in the library's order of gates."""
    w, r, b = weights

    def step(state: Any, a: Any) -> Any:
        h, c = state
        i, f, g, o = jnp.split(a + h @ r.T, 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        h = jax.nn.sigmoid(o) * jnp.tanh(c)
        return (h, c), h

    zeros = jnp.zeros((x.shape[1], r.shape[1]), x.dtype)
    return jax.lax.scan(step, (zeros, zeros), x @ w.T + b)[1]


def weights_of(network: Network, params: Any) -> Tuple[Any, Any, Any]:
    """Converts params to the weights that the function `scanned` takes."""
    parts = network.weights(params)
    gates = network.cell.gates
    return (jnp.concatenate([parts[f"layer0.input.{gate}"] for gate in gates]),
            jnp.concatenate([parts[f"layer0.recurrent.{gate}"] for gate in gates]),
            jnp.concatenate([parts[f"layer0.input_bias.{gate}"] + parts[f"layer0.recurrent_bias.{gate}"] for gate in gates]))


def step_of(forward: Step) -> Step:
    """Returns a compiled training step, which returns the outputs, and the gradients of both arguments of `forward`."""
    def step(params: Any, x: Any, upstream: Any) -> Any:
        output, pull = jax.vjp(forward, params, x)
        return output, pull(upstream)

    made: Step = jax.jit(step)
    return made


def faults_of(call: Callable[[], Any], count: int = 10) -> float:
    """Returns the minor page faults of the process during a call, on average."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(count):
        jax.block_until_ready(call())
    return (resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before) / count


def main(arguments: Optional[List[str]] = None) -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="python -m cellgrad.jax.bench", description="cellgrad.jax.Network beside jax.lax.scan")
    parser.add_argument("--seconds", type=float, default=6.0, help="seconds for each time in a row")
    given = parser.parse_args(arguments)
    os.environ["CELLGRAD_BACKEND"] = os.environ.get("CELLGRAD_BACKEND") or "cpu"
    print(f"JAX {jax.__version__}, {os.cpu_count()} processors\n")
    print("| T, B, I, U | lax.scan ms | cellgrad.jax ms | ratio | cellgrad bench ms | over it, us | page faults |\n"
          "|---|---|---|---|---|---|---|")
    for size in SIZES:
        T, B, I, U = size
        network = Network("lstm", input=I, units=U)
        params = network.init(jax.random.key(0))
        x, upstream = (jax.random.normal(jax.random.key(k), (T, B, width)) for k, width in ((1, I), (2, U)))
        ours, theirs = step_of(lambda params, x: network(params, x)[0]), step_of(scanned)
        weights = weights_of(network, params)
        calls = {"scan": lambda: theirs(weights, x, upstream), "ours": lambda: ours(params, x, upstream)}
        best = in_turn({**{name: alone(call, jax.block_until_ready) for name, call in calls.items()},
                        "bench": of_command("rnn rnn_mode=lstm", size)}, given.seconds)
        first, taken, beside = best.values()
        faults = faults_of(calls["ours"])
        print(f"| {T}, {B}, {I}, {U} | {1e3 * first:.3f} | {1e3 * taken:.3f} | {taken / first:.2f} | {1e3 * beside:.3f} | "
              f"{1e6 * (taken - beside):.0f} | {faults:.0f} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
