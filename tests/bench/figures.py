#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures times of the cpu backend, most of them beside another time or rate: threads, the length of a sequence, ragged batches,
saturated gates, the rate at which weights are read, kernels over elements beside a copy loop, and a tiny call.

    python3 tests/bench/figures.py [--threads N] [--quick] [--profile]

Each time is the least of three processes, or of one with --quick; a process repeats the call for about half a second, a tiny call a
million times, or a thousand with --quick.  Runs in the top folder of a build.  CC, SANITIZE: a C compiler and its sanitizers; LIBRARY:
the shared library; CELLGRAD: the
command.  Exit status: 0 measured, 1 failed, 77 LIBRARY, CELLGRAD or, with --profile, perf is missing.
"""
import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
SOURCE = HERE.parents[1]
LIBRARY = pathlib.Path(os.environ.get("LIBRARY", ".libs/libcellgrad.so")).absolute()
CELLGRAD = os.environ.get("CELLGRAD", "./cellgrad")
PROFILED = [("lstm", "f32"), ("gru", "f32"), ("rnn_tanh", "f32"), ("lstm", "bf16")]
# shapes, longer, ragged, saturated: T, B, H of the networks in each table; units: the units of networks for the rate of reading the
# recurrent matrix; elements: rows and units of a kernel over elements; calls: the number of tiny calls, of which the fastest is printed;
# processes: the number of processes, of which each time is the least
SIZES = {"shapes": ((100, 32, 512), (25, 128, 1024), (100, 8, 256), (200, 64, 128), (400, 4, 64), (50, 1, 512)),
         "longer": ((100, 8, 256), (200, 64, 128)), "ragged": ((100, 32, 512), (200, 64, 128)), "saturated": ((100, 8, 256), (200, 64, 128)),
         "units": (128, 256, 512, 1024), "elements": (2048, 1024), "calls": 1000000, "processes": 3}
QUICK = {"shapes": ((8, 2, 16),), "longer": ((8, 2, 16),), "ragged": ((8, 2, 16),), "saturated": ((8, 2, 16),), "units": (16,), "elements": (64, 64), "calls": 1000,
         "processes": 1}


class Machine:
    """Runs the compiled figures.c; has its path, the number of threads, and the sizes of the measured problems."""

    def __init__(self, program, threads, sizes):
        self.program, self.threads, self.sizes = program, threads, sizes

    def run(self, *words, threads=None):
        """Runs the program in several processes; returns the numbers that the program prints, each the least of all processes."""
        environment = {**os.environ, "CELLGRAD_CPU_THREADS": str(threads or self.threads)}
        found = []
        for _ in range(self.sizes["processes"]):
            done = subprocess.run([self.program, *map(str, words)], capture_output=True, text=True, check=False, env=environment)
            if done.returncode:
                sys.exit(f"figures.py: {' '.join(map(str, words))}: {done.stderr}")
            found.append([float(word) for word in done.stdout.split()])
        return [min(numbers) for numbers in zip(*found)]

    def time_network(self, shape, threads=None, valid=1.0, scale=1.0, way="linear", which="both"):
        """Returns the milliseconds of an LSTM's fastest call in f32: forward and backward, or forward alone if `which` is "inference"."""
        return self.run("network", "lstm", "f32", *shape, valid, scale, way, which, threads=threads)[0]


def build(folder):
    """Compiles figures.c, with its loops for this processor; returns the program's path."""
    program = os.path.join(folder, "figures")
    command = [*os.environ.get("CC", "cc").split(), "-std=gnu11", "-O3", "-march=native", *os.environ.get("SANITIZE", "").split(),
               f"-I{SOURCE}/runtime", f"{HERE}/figures.c", f"{HERE}/peer.c", str(LIBRARY), f"-Wl,-rpath,{LIBRARY.parent}", "-lm", "-lpthread", "-o", program]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"figures.py: {done.stderr}")
    return program


def measure_roofs(threads):
    """Runs `cellgrad bench`; returns the roof, in 10^9 multiplications and additions per second in f32, and the device's description."""
    words = f"bench --json --threads {threads} --op LSTMBlockCell --B 1 --I 1 --H 1 --reps 1".split()
    done = subprocess.run([CELLGRAD, *words], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"figures.py: {done.stderr}")
    roofs = json.loads(done.stdout.splitlines()[0])
    return roofs["f32_gflops"], roofs["device"]


def name(shape):
    return ",".join(map(str, shape))


def print_head(*cells):
    print("\n| " + " | ".join(cells) + " |\n" + "|---" * len(cells) + "|")


def print_row(*cells):
    print("| " + " | ".join(cells) + " |", flush=True)


def compare_threads(machine):
    """Prints how much faster networks are with all threads than with one, and that gain divided by the gain of the roof."""
    roof = measure_roofs(machine.threads)[0] / measure_roofs(1)[0]
    print_head("lstm f32 T,B,H", "1 thread, ms", f"{machine.threads} threads, ms", "gain", "over the roof's gain")
    for shape in machine.sizes["shapes"]:
        alone, together = machine.time_network(shape, threads=1), machine.time_network(shape)
        print_row(name(shape), f"{alone:.4g}", f"{together:.4g}", f"{alone / together:.2f}", f"{alone / together / roof:.2f}")


def compare_lengths(machine):
    """Prints the times of networks on sequences four times as long, on rows of different lengths, and with saturated gates, each beside the
    time of the unchanged network."""
    print_head("lstm f32, forward and backward", "T,B,H", "ms", "beside", "ms", "ratio")
    for T, B, H in machine.sizes["longer"]:
        short, long = machine.time_network((T, B, H)), machine.time_network((4 * T, B, H))
        print_row("a sequence four times as long, a quarter of its time", name((4 * T, B, H)), f"{long:.4g}", name((T, B, H)), f"{short:.4g}",
                  f"{long / 4 / short:.2f}")
    for shape in machine.sizes["ragged"]:
        whole, ragged = machine.time_network(shape), machine.time_network(shape, valid=0.5)
        print_row("half of the steps valid, twice its time", name(shape), f"{ragged:.4g}", "all steps", f"{whole:.4g}", f"{2 * ragged / whole:.2f}")
    for shape in machine.sizes["saturated"]:
        usual, saturated = machine.time_network(shape), machine.time_network(shape, scale=100.0)
        print_row("weights times 100, which saturate the gates", name(shape), f"{saturated:.4g}", "weights of about 0.1", f"{usual:.4g}",
                  f"{saturated / usual:.2f}")


def compare_reading(machine):
    """Prints the rate at which the recurrent matrix is read, once in each step; it is computed from the time of 100 more steps, without
    products of inputs."""
    print_head("lstm f32, inference, skip_input, B = 1", "bytes of R", "R in a step, GB/s", "threads that only read, GB/s", "ratio")
    for units in machine.sizes["units"]:
        few, many = (machine.time_network((T, 1, units), way="skip", which="inference") for T in (100, 200))
        size = 4 * units * units * 4
        rate, most = size * 100 / (many - few) / 1e6, size / machine.run("read", size, machine.threads)[0] / 1e6
        print_row(f"{units} units", str(size), f"{rate:.0f}", f"{most:.0f}", f"{rate / most:.2f}")


def compare_kernels(machine):
    """Prints the times of kernels over elements, beside those of a copy loop over as many arrays."""
    rows, units = machine.sizes["elements"]
    print_head(f"kernel over {rows} by {units} elements, f32", "ms", "copy loop over as many arrays, ms", "its time over the kernel's")
    for cell, which in (("lstm", "forward"), ("lstm_block", "forward"), ("lstm_block", "grad")):
        kernel, loop = machine.run("point", cell, which, rows, units)
        print_row(f"{cell} {which}", f"{kernel:.3f}", f"{loop:.3f}", f"{loop / kernel:.2f}")


def time_tiny(machine):
    """Prints the time of a call that has hardly any arithmetic."""
    print_head("LSTMBlockCell f32, 1 row, 16 inputs, 16 units, its workspace given", "ns")
    print_row(f"the least of {machine.sizes['calls']} calls", f"{machine.run('tiny', machine.sizes['calls'])[0]:.0f}")


def profile(machine, cell, dtype, shape):
    """Prints the functions, of this library and of others, that have more than 1 % of perf's samples outside figures' own code, while a
    network runs, and their shares."""
    with tempfile.TemporaryDirectory() as folder:
        data = os.path.join(folder, "data")
        words = [machine.program, "network", cell, dtype, *map(str, shape), "1", "1", "linear", "both"]
        record = ["perf", "record", "-q", "-e", "cpu-clock", "-F", "5000", "-o", data, "--", *words]
        environment = {**os.environ, "CELLGRAD_CPU_THREADS": str(machine.threads)}
        done = subprocess.run(record, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False, env=environment)
        if done.returncode:
            sys.exit(f"figures.py: perf record: {done.stderr}")
        report = subprocess.run(["perf", "report", "-i", data, "--stdio", "--sort", "dso,symbol"], capture_output=True, text=True, check=True).stdout
    found = [line.replace("%", "").split(maxsplit=3) for line in report.splitlines() if "%" in line and not line.startswith("#")]
    # Samples in figures' own code are left out: nearly all are taken while figures makes the numbers, before the first call.
    shares = [(float(share), symbol.split()[0]) for share, library, _, symbol in found if library != "figures"]
    whole = sum(share for share, _ in shares)
    print_row(f"{cell} {dtype} {name(shape)}", ", ".join(f"{symbol} {100 * share / whole:.0f} %" for share, symbol in shares if share > 0.01 * whole))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--quick", action="store_true", help="tiny sizes, to try the script")
    parser.add_argument("--profile", action="store_true", help="instead: where the time of networks goes, by perf")
    given = parser.parse_args()
    if not LIBRARY.exists() or not os.access(CELLGRAD, os.X_OK):
        print(f"figures.py: {LIBRARY} or {CELLGRAD} is missing; run this in a build's top folder", file=sys.stderr)
        return 77
    if given.profile and not shutil.which("perf"):
        print("figures.py: --profile needs perf", file=sys.stderr)
        return 77
    with tempfile.TemporaryDirectory() as folder:
        machine = Machine(build(folder), given.threads, QUICK if given.quick else SIZES)
        print(measure_roofs(given.threads)[1])
        if given.profile:
            print_head("network T,B,H", "functions of 1 % of the time and more")
            for cell, dtype in PROFILED:
                for shape in machine.sizes["shapes"]:
                    profile(machine, cell, dtype, shape)
            return 0
        if given.threads > 1:
            compare_threads(machine)
        for measure in (compare_lengths, compare_reading, compare_kernels, time_tiny):
            measure(machine)
    return 0


if __name__ == "__main__":
    sys.exit(main())
