#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""A worker for the test of peers.sh: it computes the forward pass of rnn_tanh, one number at a time, by Python's standard library alone.

The first argument of this script is "right", or the way in which the worker fails; the other arguments are those of every worker.
"""
import array
import json
import math
import os
import signal
import sys
import time


def read_problem(words):
    values = dict(zip(words[::2], words[1::2]))
    T, B, I, H = (int(values["--" + name]) for name in "TBIH")
    return T, B, I, H, values["--input"], values["--output"]


def take(numbers, *sizes):
    """Returns the next numbers of an iterator, as nested lists of `sizes`."""
    if len(sizes) == 1:
        return [next(numbers) for _ in range(sizes[0])]
    return [take(numbers, *sizes[1:]) for _ in range(sizes[0])]


def dot(a, b):
    return sum(x * y for x, y in zip(a, b))


def compute(T, B, I, H, path):
    """Computes y and h_n, in their order in the file of answers."""
    with open(path, "rb") as file:
        numbers = array.array("f", file.read())
    if sys.byteorder == "big":
        numbers.byteswap()
    rest = iter(numbers)
    x, h, W, R, bW, bR = take(rest, T, B, I), take(rest, B, H), take(rest, H, I), take(rest, H, H), take(rest, H), take(rest, H)
    y = []
    for step in x:
        h = [[math.tanh(dot(W[k], step[b]) + dot(R[k], h[b]) + bW[k] + bR[k]) for k in range(H)] for b in range(B)]
        y += [value for row in h for value in row]
    return y + [value for row in h for value in row]


def write_answers(answers, how, path):
    if how == "wrong":
        answers[3] += 0.01
    if how == "infinite":
        answers[-1] = math.nan
    if how == "short":
        del answers[-1]
    if how != "absent":
        numbers = array.array("f", answers)
        if sys.byteorder == "big":
            numbers.byteswap()
        with open(path, "wb") as file:
            numbers.tofile(file)


def fail_at_start(how):
    if how == "status":
        sys.exit("the last words")
    if how == "signal":
        os.kill(os.getpid(), signal.SIGKILL)
    if how == "hangs":
        time.sleep(600)
    if how == "garbage":
        print("no JSON", flush=True)
    if how == "declines":
        print("declines for a reason", flush=True)
        sys.exit(0)


def print_turn(how):
    if how == "falls":
        sys.exit("the last words of a turn")
    if how == "stops":
        time.sleep(600)
    print({"noise": "soon", "fast": "1e-12 1e-12"}.get(how, "0.5 0.5"), flush=True)


def main():
    how = sys.argv[1]
    T, B, I, H, numbers, output = read_problem([word for word in sys.argv[2:] if word != "--no-grad"])
    fail_at_start(how)
    write_answers(compute(T, B, I, H, numbers), how, output)
    if how != "nameless":
        print(json.dumps({"name": how, "version": "1", "settings": {}}))
    print("ready", flush=True)
    for line in sys.stdin:
        if line != "go\n":
            break
        print_turn(how)


if __name__ == "__main__":
    main()
