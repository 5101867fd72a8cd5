# SPDX-License-Identifier: Apache-2.0
"""The code that the Python workers of peers.sh share: functions that read the problem and its numbers, and the workers' protocol.

A worker reads the problem, prepares, and calls serve() with a function that computes once and a function that returns the answers; peer.h
describes the files and the protocol.
"""
import argparse
import json
import math
import sys
import time

from peer_problem import CELLS, Problem

try:
    import numpy
except ImportError:
    print("declines not installed: no module named numpy", flush=True)
    sys.exit(0)

# WARM: the seconds of each turn in which calls are not timed.  TURN: the seconds in which calls are timed.
WARM, TURN = 0.06, 0.1


def decline(words):
    print("declines", " ".join(str(words).split()), flush=True)
    sys.exit(0)


def read_problem():
    """Reads the problem from the command line, with its files and the number of threads."""
    parser = argparse.ArgumentParser()
    for name in ("cell", "dtype", "input", "output"):
        parser.add_argument("--" + name, required=True)
    for name in ("T", "B", "I", "H", "threads"):
        parser.add_argument("--" + name, type=int, required=True)
    parser.add_argument("--no-grad", dest="grad", action="store_false")
    parser.add_argument("--last", action="store_true")
    given = parser.parse_args()
    if given.cell not in CELLS:
        decline(f"has no {given.cell}")
    problem = Problem(given.cell, given.dtype, (given.T, given.B, given.I, given.H), given.grad, given.last)
    problem.threads, problem.input, problem.output = given.threads, given.input, given.output
    return problem


def read_numbers(problem):
    """Reads the inputs of a problem: {name: array}."""
    numbers = numpy.fromfile(problem.input, "<f4").astype(numpy.float32)
    at, arrays = 0, {}
    for name, shape, _ in problem.list_numbers():
        arrays[name] = numbers[at:at + math.prod(shape)].reshape(shape).copy()
        at += arrays[name].size
    return arrays


def add_last(steps, last, is_last):
    """Adds the upstream gradient of the last state to that of the last step's output; with is_last the upstream gradients of the outputs
    count as zero."""
    both = numpy.zeros_like(steps) if is_last else steps.copy()
    both[-1] += last
    return both


def write_answers(problem, answers):
    with open(problem.output, "wb") as file:
        for name, _ in problem.list_answers():
            numpy.ascontiguousarray(answers[name], dtype="<f4").tofile(file)


def time_calls(run, seconds):
    """Calls run() for `seconds` seconds, at least once; returns the milliseconds of each call."""
    times, until = [], time.perf_counter() + seconds
    while True:
        before = time.perf_counter()
        run()
        now = time.perf_counter()
        times.append((now - before) * 1000)
        if now >= until:
            return times


def serve(problem, name, version, settings, run, answers):
    """Runs the protocol of a worker.  run() computes and waits for the result; answers() returns {name: array} of the last run."""
    run()
    write_answers(problem, answers())
    print(json.dumps({"name": name, "version": version, "settings": settings}) + "\nready", flush=True)
    for line in sys.stdin:
        if line != "go\n":
            break
        time_calls(run, WARM)
        times = time_calls(run, TURN)
        print(f"{min(times):.6f} {sum(times) / len(times):.6f}", flush=True)
