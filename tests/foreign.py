#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests an emitted kernel, which Python calls with no more than the kernel's manifest.

Emits the gradient of an LSTM with peepholes as C, compiles it without any header or library of cellgrad, reads from the manifest the
names of the functions and the order of their arguments, and calls the functions by ctypes.  The results are compared with the
formulas of the gradient in double precision.  Prints TAP.  CELLGRAD: the command cellgrad; CC: a C compiler.
"""
import ctypes
import json
import math
import os
import random
import subprocess
import sys
import tempfile

COMMAND = os.environ.get("CELLGRAD", "cellgrad")
CC = os.environ.get("CC", "cc").split()
ROWS, UNITS, STRIDE = 70, 5, 9          # ROWS: more than a block of a sum over rows has; STRIDE > UNITS leaves gaps between rows

TYPES = {"f32": ctypes.c_float, "i64": ctypes.c_int64, "u64": ctypes.c_uint64}


def build(folder):
    source, manifest, library = (os.path.join(folder, name) for name in ("kernel.c", "kernel.json", "kernel.so"))
    subprocess.run([COMMAND, "emit", "lstm_block", "--options", "peephole", "--pass", "grad", "--dtype", "f32", "--lang", "c",
                    "-o", source, "--manifest", manifest], check=True)
    with open(manifest, encoding="utf-8") as file:
        about = json.load(file)
    subprocess.run(CC + about["flags"] + ["-std=c11", "-shared", "-fPIC", "-o", library, source], check=True, cwd=folder)
    return about, ctypes.CDLL(library)


def elements(argument):
    return ROWS * STRIDE if argument["kind"] == "tensor" else UNITS


def call(library, function, memory):
    """Calls a function of the kernel with the arrays of `memory`, by the arguments' names; adds outputs and scratch to it."""
    values = []
    for a in function["arguments"]:
        kind, name = a["kind"], a["name"]
        if kind == "stride":
            values.append(ctypes.c_int64(STRIDE))
        elif kind == "count":
            values.append(ctypes.c_int64({"rows": ROWS, "units": UNITS, "accumulate": 0}[a["role"]]))
        elif kind == "scratch":
            scratch = function["scratch"]
            blocks = -(-ROWS // scratch["block_rows"])
            memory.setdefault(name, (TYPES[a["type"]] * (blocks * scratch["values"] * UNITS))())
            values.append(memory[name])
        else:
            if a["flow"] == "out":
                memory[name] = (TYPES[a["type"]] * elements(a))()
            values.append(memory[name])
    getattr(library, function["function"])(*values)


def main():
    random.seed(7)
    with tempfile.TemporaryDirectory() as folder:
        about, library = build(folder)
        memory = {}
        for function in about["functions"]:
            for a in function["arguments"]:
                if a["kind"] in ("tensor", "per_unit") and a["flow"] == "in" and a["order"] == "value" or a["name"] in ("dh", "dcs"):
                    memory.setdefault(a["name"], (TYPES[a["type"]] * elements(a))(
                        *(random.uniform(0.1, 0.9) for _ in range(elements(a)))))
        for function in about["functions"]:
            call(library, function, memory)

    sums = {name: [0.0] * UNITS for name in ("dwci", "dwcf", "dwco", "db_i", "db_ci", "db_f", "db_o")}
    worst = 0.0

    def compare(name, at, want):
        nonlocal worst
        worst = max(worst, abs(memory[name][at] - want) / max(1.0, abs(want)))

    for row in range(ROWS):
        for unit in range(UNITS):
            at = row * STRIDE + unit
            v = {name: memory[name][at] for name in ("i", "ci", "f", "o", "cs", "co", "cs_prev", "dh", "dcs")}
            w = {name: memory[name][unit] for name in ("wci", "wcf", "wco")}
            da_o = v["o"] * (1 - v["o"]) * v["dh"] * v["co"]
            dcs = (1 - v["co"] ** 2) * v["dh"] * v["o"] + v["dcs"] + da_o * w["wco"]
            da_ci = (1 - v["ci"] ** 2) * dcs * v["i"]
            da_f = v["f"] * (1 - v["f"]) * dcs * v["cs_prev"]
            da_i = v["i"] * (1 - v["i"]) * dcs * v["ci"]
            for name, want in (("da_i", da_i), ("da_ci", da_ci), ("da_f", da_f), ("da_o", da_o),
                               ("dcs_prev", dcs * v["f"] + da_i * w["wci"] + da_f * w["wcf"])):
                compare(name, at, want)
            for name, term in (("db_i", da_i), ("db_ci", da_ci), ("db_f", da_f), ("db_o", da_o), ("dwci", da_i * v["cs_prev"]),
                               ("dwcf", da_f * v["cs_prev"]), ("dwco", da_o * v["cs"])):
                sums[name][unit] += term
    for name, totals in sums.items():
        for unit, want in enumerate(totals):
            compare(name, unit, want)

    print("1..1")
    right = math.isfinite(worst) and worst < 1e-5
    print(f"{'ok' if right else 'not ok'} 1 - an emitted kernel called by its manifest: largest relative error {worst:.2e}")
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
