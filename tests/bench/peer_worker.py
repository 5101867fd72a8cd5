"""What the Python workers of peers.sh share: the problem, its numbers, the protocol on stdin and stdout.

A worker reads the problem, prepares, and calls serve() with a function that computes once and one that gives the answers; peer.h says
what the files hold and what is said.
"""
import argparse
import json
import math
import sys
import time

try:
    import numpy
except ImportError:
    print("declines not installed: no module named numpy", flush=True)
    sys.exit(0)

GATES = {"lstm": 4, "lstm_peephole": 4, "block_lstm": 4, "gru": 3, "gru_block": 3, "rnn_tanh": 1}


def decline(words):
    print("declines", " ".join(str(words).split()), flush=True)
    sys.exit(0)


def read_problem():
    """Sizes as they are named on the command line, and a dictionary of arrays."""
    parser = argparse.ArgumentParser()
    for name in ("cell", "dtype", "input", "output"):
        parser.add_argument("--" + name, required=True)
    for name in ("T", "B", "I", "H", "threads"):
        parser.add_argument("--" + name, type=int, required=True)
    parser.add_argument("--no-grad", dest="grad", action="store_false")
    parser.add_argument("--last", action="store_true")
    problem = parser.parse_args()
    if problem.cell not in GATES:
        decline(f"no cell {problem.cell}")
    problem.G, problem.has_c = GATES[problem.cell], problem.cell in ("lstm", "lstm_peephole", "block_lstm")
    problem.peephole = problem.cell == "lstm_peephole"
    return problem


def read_numbers(problem):
    T, B, I, H, G = problem.T, problem.B, problem.I, problem.H, problem.G
    shapes = {"x": (T, B, I), "h0": (B, H), "c0": (B, H), "W": (G, H, I), "R": (G, H, H), "bW": (G, H), "bR": (G, H), "dy": (T, B, H),
              "dh_n": (B, H), "dc_n": (B, H), "peephole": (3, H)}
    for name in ([] if problem.has_c else ["c0", "dc_n"]) + ([] if problem.peephole else ["peephole"]):
        del shapes[name]
    numbers = numpy.fromfile(problem.input, "<f4").astype(numpy.float32)
    at, arrays = 0, {}
    for name, shape in shapes.items():
        n = math.prod(shape)
        arrays[name] = numbers[at:at + n].reshape(shape).copy()
        at += n
    return arrays


def list_answers(problem):
    """Names, in the order of the file."""
    names = ([] if problem.last else ["y"]) + ["h_n"] + ["c_n"] * problem.has_c
    if problem.grad:
        names += ["dx", "dh0"] + ["dc0"] * problem.has_c + ["dW", "dR", "db"] + ["dbR"] * (problem.cell == "gru") + ["dpeep"] * problem.peephole
    return names


def add_last(steps, last, is_last):
    """The gradient of all steps with that of the last state in the last one; steps count for nothing where is_last is set."""
    both = numpy.zeros_like(steps) if is_last else steps.copy()
    both[-1] += last
    return both


def serve(problem, name, version, settings, run, answers):
    """run() computes and waits until it is done; answers() gives {name: array} of what the last run left."""
    run()
    given = answers()
    with open(problem.output, "wb") as file:
        for key in list_answers(problem):
            numpy.ascontiguousarray(given[key], dtype="<f4").tofile(file)
    least = math.inf
    for _ in range(4):
        began = time.perf_counter()
        run()
        least = min(least, (time.perf_counter() - began) * 1000)
    calls = max(1, math.ceil(20 / max(least, 1e-3)))
    print(json.dumps({"name": name, "version": version, "settings": {"calls_a_turn": calls, **settings}}) + "\nready", flush=True)
    for line in sys.stdin:
        if line != "go\n":
            break
        began = time.perf_counter()
        for _ in range(calls):
            run()
        print(f"{(time.perf_counter() - began) * 1000 / calls:.6f}", flush=True)
