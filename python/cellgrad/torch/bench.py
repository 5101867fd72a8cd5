# SPDX-License-Identifier: Apache-2.0
"""`python -m cellgrad.torch.bench`: compares cellgrad.torch.LSTM with nn.LSTM, as a table in Markdown.

The modules run in turns, a while each, and the least time of each is printed.  On the cpu each call is timed by PyTorch's stable ABI, if
the extension was built, and by ctypes; on a GPU by ctypes.  A forward call keeps nothing for gradients.  A training step is a forward and a
backward pass, with the gradients of the weights and the input, without an optimizer.  The last columns of the row of a training step are
the time of the same passes by `cellgrad bench`, which runs no Python between calls, and the time of the step less that time.  The last rows
of the table are for sequences of one step.  --threads N: the number of threads of this package and of PyTorch; --device cuda: runs on a
GPU.
"""
import argparse
import functools
import os
import sys
from typing import Any, Callable, List, Optional

import torch

from .._bench import alone, in_turn, of_command
from . import LSTM, _stable, route

SIZES = ((100, 32, 256), (50, 32, 128), (100, 8, 256), (400, 4, 64))


def forward(module: Any, x: Any, gradient: Any) -> None:  # pylint: disable=unused-argument
    """Runs a forward pass."""
    module(x)


def synchronize(result: Any) -> None:  # pylint: disable=unused-argument
    """Waits for the GPU."""
    torch.cuda.synchronize()


def step(module: Any, x: Any, gradient: Any) -> None:
    """Runs a forward and a backward pass."""
    module.zero_grad(set_to_none=True)
    x.grad = None
    module(x)[0].backward(gradient)


def by(way: str, call: Callable[[], Any]) -> Any:
    """Runs a call by one of the routes: the stable ABI or ctypes."""
    _stable.is_off = way == "ctypes"
    result = call()
    _stable.is_off = False
    return result


def main(arguments: Optional[List[str]] = None) -> int:
    """Prints the table."""
    parser = argparse.ArgumentParser(prog="python -m cellgrad.torch.bench", description="cellgrad.torch.LSTM beside torch.nn.LSTM")
    parser.add_argument("--threads", type=int, default=0, help="threads of both; 0: the defaults")
    parser.add_argument("--seconds", type=float, default=2.0, help="seconds for each time in a row")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    given = parser.parse_args(arguments)
    if given.threads:
        torch.set_num_threads(given.threads)
        os.environ["CELLGRAD_CPU_THREADS"] = str(given.threads)
    print(f"PyTorch {torch.__version__}, {given.device}, {torch.get_num_threads()} threads of PyTorch, {route()}\n")
    ways = ("ctypes",) if given.device != "cpu" or _stable.extension() is None else ("stable ABI", "ctypes")
    wait, options, environment = (((synchronize,), (), {"CELLGRAD_BACKEND": "cuda"}) if given.device == "cuda" else
                                  ((), ("--threads", str(torch.get_num_threads())), {}))
    print("| T, B, H | pass | nn.LSTM ms | cellgrad.torch.LSTM ms | ratio | cellgrad bench ms | over it, us |\n|---|---|---|---|---|---|---|")
    for T, B, H in (*SIZES, (1, 1, 4)):
        theirs, ours = torch.nn.LSTM(H, H).to(given.device), LSTM(H, H).to(given.device)
        x = torch.randn(T, B, H, device=given.device, requires_grad=True)
        gradient = torch.randn(T, B, H, device=given.device)
        for name, run in (("forward", forward), ("training step", step)):
            calls = {"": functools.partial(run, theirs, x, gradient),
                     **{way: functools.partial(by, way, functools.partial(run, ours, x, gradient)) for way in ways}}
            timed = {way: alone(call, *wait) for way, call in calls.items()}
            if run is step:
                timed["bench"] = of_command("rnn rnn_mode=lstm", (T, B, H, H), options, environment)
            with torch.set_grad_enabled(run is step):
                best = in_turn(timed, given.seconds)
            beside = best.get("bench")
            for way in ways:
                end = f"{1e3 * beside:.3f} | {1e6 * (best[way] - beside):.0f}" if beside else " | "
                print(f"| {T}, {B}, {H} | {name}, {way} | {1e3 * best['']:.3f} | {1e3 * best[way]:.3f} | {best[way] / best['']:.2f} | {end} |",
                      flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
