# SPDX-License-Identifier: Apache-2.0
"""`python -m cellgrad.torch.bench`: compares this package with nn.LSTM, as a table in Markdown.

The modules run in turn, and the least time of each is printed.  Each call is timed by every route: PyTorch's stable ABI, if the extension
was built, and ctypes.  A forward call computes no gradients.  A training step is a forward and a backward pass, with the gradients of the
weights and the input, without an optimizer; its last column is the time of the same passes by `cellgrad bench`, without Python.  The last
rows are sequences of one step.
--threads N: the number of threads of this package and of PyTorch; --device cuda: runs on a GPU.
"""
import argparse
import functools
import json
import os
import subprocess
import sys
import time
from typing import Any, Callable, List, Optional

import torch

from . import LSTM, _stable, route

SIZES = ((100, 32, 256), (50, 32, 128), (100, 8, 256), (400, 4, 64))


def least(calls: List[Callable[[], Any]], seconds: float, device: str) -> List[float]:
    """Returns the least time of each call; the calls run in turn."""
    best = [float("inf")] * len(calls)
    end, rounds = time.perf_counter() + seconds, 0
    while time.perf_counter() < end or rounds < 5:
        rounds += 1
        for k, call in enumerate(calls):
            start = time.perf_counter()
            call()
            if device == "cuda":
                torch.cuda.synchronize()
            best[k] = min(best[k], time.perf_counter() - start)
    return best


def step(module: Any, x: Any, gradient: Any) -> None:
    """Runs a forward and a backward pass."""
    module.zero_grad(set_to_none=True)
    x.grad = None
    module(x)[0].backward(gradient)


def of_command(T: int, B: int, H: int, seconds: float, device: str) -> float:
    """Returns the least time of a forward and a backward pass by `cellgrad bench`; NaN without the command."""
    environment = {**os.environ, "CELLGRAD_BACKEND": "cuda"} if device == "cuda" else dict(os.environ)
    words = ["--op", "rnn", "rnn_mode=lstm", "--what", "fwd+bwd", "--T", str(T), "--B", str(B), "--I", str(H), "--H", str(H)]
    if device == "cpu":
        words += ["--threads", str(torch.get_num_threads())]
    ended = subprocess.run([sys.executable, "-m", "cellgrad", "bench", *words, "--time", str(seconds), "--json"], env=environment,
                           stdout=subprocess.PIPE, check=False, text=True)
    rows = [json.loads(line) for line in ended.stdout.splitlines()]
    return min((row["min_ms"] for row in rows if row["kind"] == "problem"), default=float("nan")) / 1e3


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
    parser.add_argument("--seconds", type=float, default=4.0, help="seconds for each row")
    parser.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    given = parser.parse_args(arguments)
    if given.threads:
        torch.set_num_threads(given.threads)
        os.environ["CELLGRAD_CPU_THREADS"] = str(given.threads)
    print(f"PyTorch {torch.__version__}, {given.device}, {torch.get_num_threads()} threads of PyTorch, {route()}\n")
    ways = ("ctypes",) if given.device != "cpu" or _stable.extension() is None else ("stable ABI", "ctypes")
    print("| T, B, H | pass | nn.LSTM ms | cellgrad.torch.LSTM ms | ratio | cellgrad bench ms |\n|---|---|---|---|---|---|")
    for T, B, H in (*SIZES, (1, 1, 4)):
        theirs, ours = torch.nn.LSTM(H, H).to(given.device), LSTM(H, H).to(given.device)
        x = torch.randn(T, B, H, device=given.device, requires_grad=True)
        gradient = torch.randn(T, B, H, device=given.device)
        with torch.no_grad():
            first, *times = least([lambda: theirs(x), *(functools.partial(by, way, lambda: ours(x)) for way in ways)], given.seconds,
                                  given.device)
        rows = [(f"forward, {way}", first, taken, "") for way, taken in zip(ways, times)]
        beside = of_command(T, B, H, given.seconds / 2, given.device)
        first, *times = least([lambda: step(theirs, x, gradient),
                               *(functools.partial(by, way, lambda: step(ours, x, gradient)) for way in ways)], given.seconds, given.device)
        beside = min(beside, of_command(T, B, H, given.seconds / 2, given.device))
        rows += [(f"training step, {way}", first, taken, f"{1e3 * beside:.3f}") for way, taken in zip(ways, times)]
        for name, a, b, c in rows:
            print(f"| {T}, {B}, {H} | {name} | {1e3 * a:.3f} | {1e3 * b:.3f} | {b / a:.2f} | {c} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
