# SPDX-License-Identifier: Apache-2.0
"""What the benches of the frameworks share: measuring the least time of a call, comparing calls in turns, and running `cellgrad bench`.

Several ways to run one step are compared in turns: in each turn every way runs alone for a while, since the threads of a framework keep
spinning after a call.  The least time of each way counts.
"""
import json
import os
import subprocess
import sys
import time
from typing import Any, Callable, Dict, Optional, Sequence

TURNS = 9
# A way runs a step again and again for some seconds, and returns the least time of one step in seconds.
Way = Callable[[float], float]


def alone(call: Callable[[], Any], wait: Callable[[Any], Any] = lambda result: None) -> Way:
    """Returns the way that repeats a call; `wait` returns when the call's result is there."""
    def way(seconds: float) -> float:
        best, rounds, end = float("inf"), 0, time.perf_counter() + seconds
        while time.perf_counter() < end or rounds < 3:
            rounds += 1
            start = time.perf_counter()
            wait(call())
            best = min(best, time.perf_counter() - start)
        return best

    return way


def of_command(op: str, sizes: Sequence[int], options: Sequence[str] = (), environment: Optional[Dict[str, str]] = None) -> Way:
    """Returns the way that runs a forward and a backward pass by `cellgrad bench`, which runs no Python between calls.  The way's time is
    NaN if the command prints no time, as where there is no command.  sizes: T, B, I, U; options: more options of the command; environment:
    variables that are added to those of this process."""
    words = [word for name, size in zip(("--T", "--B", "--I", "--H"), sizes) for word in (name, str(size))]

    def way(seconds: float) -> float:
        ended = subprocess.run([sys.executable, "-m", "cellgrad", "bench", "--op", *op.split(), "--what", "fwd+bwd", *words, *options,
                                "--time", str(seconds), "--json"], env={**os.environ, **(environment or {})}, stdout=subprocess.PIPE,
                               check=False, text=True)
        rows = [json.loads(line) for line in ended.stdout.splitlines()]
        return min((row["min_ms"] for row in rows if row["kind"] == "problem"), default=float("nan")) / 1e3

    return way


def in_turn(ways: Dict[str, Way], seconds: float) -> Dict[str, float]:
    """Returns the least time of each way; each way runs for about `seconds` in all its turns together."""
    best = dict.fromkeys(ways, float("inf"))
    for _ in range(TURNS):
        best = {name: min(way(seconds / TURNS), best[name]) for name, way in ways.items()}
    return best
