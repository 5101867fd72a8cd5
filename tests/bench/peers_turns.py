# SPDX-License-Identifier: Apache-2.0
"""Starts the workers of peers.sh, gives each its turns, and measures the processor time that workers and other processes take."""
import array
import json
import math
import operator
import os
import select
import subprocess
import sys
import time

from peer_problem import WRONG

HERE = os.path.dirname(os.path.abspath(__file__))
OURS = "cellgrad"
# The file of each worker; a C program is in the folder that --builds names.
PEERS = {OURS: "peer_cellgrad", "pytorch": "peer_torch.py", "tensorflow": "peer_tensorflow.py", "jax": "peer_jax.py",
         "onednn": "peer_onednn", "libxsmm": "peer_libxsmm"}
# The beginnings of the names of environment variables that workers do not get, since they could make one library slower or faster.
UNSET = ("OPENBLAS_", "OMP_", "GOMP_", "KMP_", "MKL_", "TF_", "XLA_", "DNNL_", "ONEDNN_", "LIBXSMM_", "CELLGRAD_CPU_", "CELLGRAD_VERBOSE",
         "CELLGRAD_CHECK", "CELLGRAD_BACKEND")
SET = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "CELLGRAD_CPU_THREADS")
TICK = os.sysconf("SC_CLK_TCK")
LEAST, MEAN = 0, 1


class Lost(Exception):
    """An exception whose text is the reason why a worker has no time."""


# ---- processor time ----

def read_ticks(pid):
    """Returns the processor times, in clock ticks, of a process with all its threads, and of the children that it waited for; (0, 0) if
    the process is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = [int(n) for n in file.read().rsplit(")", 1)[1].split()[11:15]]
        return fields[0] + fields[1], fields[2] + fields[3]
    except (OSError, ValueError):
        return 0, 0


def read_machine_ticks():
    """Returns the busy time and the whole time of all processors; time that the host of a virtual machine took counts as busy.  Returns
    None if the times are unknown."""
    try:
        with open("/proc/stat") as file:
            user, nice, system, idle, iowait, irq, softirq, steal = (int(n) for n in file.readline().split()[1:9])
    except (OSError, ValueError):
        return None
    busy = user + nice + system + irq + softirq + steal
    return busy, busy + idle + iowait


class Load:
    """Measures the share of the processors that other processes have taken since this object was made."""

    def __init__(self, workers):
        self.pids, self.before = [worker.process.pid for worker in workers], read_machine_ticks()
        self.ours = self.count_ours()

    def count_ours(self):
        """Returns the processor time of this process and of all workers; a worker that has ended is counted as a child of this process."""
        return sum(read_ticks(os.getpid())) + sum(read_ticks(pid)[0] for pid in self.pids)

    def measure_others(self):
        """Returns the share of the processors that other processes took; None if the share is unknown, or if too little time has passed."""
        after, ours = read_machine_ticks(), self.count_ours() - self.ours
        if not after or not self.before or after[1] - self.before[1] < TICK / 2:
            return None
        return max(0.0, after[0] - self.before[0] - ours) / (after[1] - self.before[1])


class Hog:
    """A process that keeps one processor busy."""

    def __enter__(self):
        self.process = subprocess.Popen([sys.executable, "-c", "while True: pass"])

    def __exit__(self, *why):
        self.process.kill()
        self.process.wait()


# ---- numbers ----

def write_floats(file, numbers):
    if sys.byteorder == "big":
        numbers.byteswap()
    numbers.tofile(file)


def write_numbers(problem, path, draw):
    """Writes the file of inputs that all workers read; draw: a function that returns random numbers in [0, 1)."""
    with open(path, "wb") as file:
        for _, shape, bound in problem.list_numbers():
            write_floats(file, array.array("f", (bound * (2 * draw() - 1) for _ in range(math.prod(shape)))))


def read_answers(problem, path):
    """Reads a worker's file of answers: {name: array}."""
    expected = 4 * sum(n for _, n in problem.list_answers())
    there = os.path.getsize(path) if os.path.exists(path) else "no"
    if there != expected:
        raise Lost(f"wrote {there} bytes of answers, expected {expected}")
    answers = {}
    with open(path, "rb") as file:
        for name, n in problem.list_answers():
            answers[name] = array.array("f")
            answers[name].fromfile(file, n)
            if sys.byteorder == "big":
                answers[name].byteswap()
    return answers


def compare(right, other):
    """Returns the largest difference, divided by the largest magnitude in `right`, if that magnitude is not 0; infinite if a difference is
    infinite or NaN."""
    apart = list(map(abs, map(operator.sub, right, other)))
    return max(apart) / (max(map(abs, right)) or 1.0) if math.isfinite(sum(apart)) else math.inf


# ---- workers ----

def make_environment(threads):
    """Returns the environment of this process without the variables whose names begin with an entry of UNSET; each variable of SET has the
    number of threads."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(UNSET)}
    return {**kept, **dict.fromkeys(SET, str(threads))}


class Worker:
    """A process that computes one problem with one library; `lost` is None, or the reason why the worker has no times."""

    def __init__(self, name, given):
        self.name, self.given, self.lost, self.process, self.buffer = name, given, None, None, b""
        self.about, self.command, self.times, self.busy, self.differences, self.spins = {}, [], [], [], {}, False

    def attempt(self, act, *arguments):
        """Calls a method and returns its result; if the method raises Lost, ends the worker, which is then lost, and returns None."""
        try:
            return act(*arguments)
        except Lost as why:
            self.lost = str(why)
            self.end()
            return None

    # -- the start of a worker --

    def find_program(self):
        """Returns the command that starts the worker."""
        if self.name in self.given.commands:
            return self.given.commands[self.name]
        file = PEERS[self.name]
        if file.endswith(".py"):
            return [self.given.python, os.path.join(HERE, file)]
        program = os.path.join(self.given.builds, file)
        if os.access(program, os.X_OK):
            return [program]
        try:
            with open(program + ".why", errors="replace") as words:
                raise Lost("not installed: " + words.read().strip()[:200])
        except OSError:
            raise Lost("not installed") from None

    def start(self, problem, folder):
        """Starts the worker, which computes once and prints "ready"; returns its answers."""
        output = os.path.join(folder, self.name + ".out")
        sizes = [word for size in "TBIH" for word in ("--" + size, str(getattr(problem, size)))]
        self.command = (self.find_program() + ["--cell", problem.cell, "--dtype", problem.dtype, *sizes] + ["--no-grad"] * (not problem.grad)
                        + ["--last"] * problem.last + ["--threads", str(self.given.threads)]
                        + ["--input", os.path.join(folder, "numbers"), "--output", output])
        self.words = os.path.join(folder, self.name + ".stderr")
        try:
            with open(self.words, "wb") as words:
                self.process = subprocess.Popen(self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=words,
                                                env=make_environment(self.given.threads))
        except OSError as why:
            raise Lost(f"does not start: {why.strerror}") from None
        self.wait_ready()
        answers = read_answers(problem, output)
        os.remove(output)
        self.wait_idle()
        return answers

    def wait_ready(self):
        until = time.monotonic() + self.given.limit
        line = self.read_line(until)
        while line != "ready":
            if line.startswith("declines "):
                raise Lost(line)
            try:
                self.about = json.loads(line)
            except ValueError:
                self.about = None
            if not isinstance(self.about, dict):
                raise Lost(f"printed garbage: {line[:80]!r}")
            line = self.read_line(until)
        if not {"name", "version"} <= set(self.about):
            raise Lost("did not say its name and version")

    def check(self, problem, answers, right):
        """Compares the worker's answers with the right answers."""
        self.differences = {name: compare(right[name], answers[name]) for name in right}
        name = max(self.differences, key=self.differences.get)
        if self.differences[name] > WRONG[problem.dtype]:
            raise Lost(f"wrong: {name} differs by {self.differences[name]:.2g} of its largest element")

    # -- the turns of a worker --

    def take_turn(self, times, which):
        """Gives the worker a turn; adds the milliseconds of the turn's fastest call, or the mean of its calls, to `times`."""
        try:
            self.process.stdin.write(b"go\n")
            self.process.stdin.flush()
        except OSError:
            raise Lost(self.say_end()) from None
        line = self.read_line(time.monotonic() + self.given.limit)
        try:
            turn = [float(word) for word in line.split()]
        except ValueError:
            turn = []
        if len(turn) != 2 or not all(0 < ms < math.inf for ms in turn):
            raise Lost(f"printed garbage: {line[:80]!r}")
        times.append(turn[which])
        self.wait_idle()

    def wait_idle(self, most=2.0):
        """Waits, two seconds at most, until the worker has taken no processor time for 50 ms; threads of some libraries keep spinning."""
        until, before, now = time.monotonic() + most, None, read_ticks(self.process.pid)
        while now != before and time.monotonic() < until:
            time.sleep(0.05)
            before, now = now, read_ticks(self.process.pid)
        self.spins |= now != before

    def read_line(self, until):
        descriptor = self.process.stdout.fileno()
        while b"\n" not in self.buffer:
            left = until - time.monotonic()
            if left <= 0 or not select.select([descriptor], [], [], left)[0]:
                raise Lost("hangs: no answer within the limit")
            piece = os.read(descriptor, 65536)
            if not piece:
                raise Lost(self.say_end())
            self.buffer += piece
            if len(self.buffer) > 1 << 20:
                raise Lost("printed a line without end")
        line, self.buffer = self.buffer.split(b"\n", 1)
        return line.decode(errors="replace").strip()

    # -- the end of a worker --

    def say_end(self):
        """Returns a text that says how the worker ended, with the last line of its standard error, or that it closed its output and goes
        on."""
        try:
            status = self.process.wait(5)
        except subprocess.TimeoutExpired:
            return "closed its output"
        with open(self.words, errors="replace") as file:
            words = [line.strip() for line in file if line.strip()]
        how = f"ended by signal {-status}" if status < 0 else f"ended with status {status}"
        return how + (f": {words[-1][:300]}" if words else "")

    def end(self):
        """Closes the worker's standard input, which ends the worker; kills the worker after five seconds, or at once if the worker is lost."""
        if not self.process or self.process.stdin.closed:
            return
        try:
            self.process.stdin.close()
        except OSError:
            pass
        try:
            self.process.wait(0 if self.lost else 5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    def describe(self):
        """Describes the worker as an object of the JSON file."""
        return {"peer": self.name, "about": self.about, "command": self.command, "lost": self.lost, "spins": self.spins,
                "ms": min(self.times) if self.times and not self.lost else None, "times": self.times,
                "busy_ms": sum(self.busy) / len(self.busy) if self.busy and not self.lost else None, "busy_times": self.busy,
                "difference": max(self.differences.values()) if self.differences else None, "differences": self.differences}


# ---- a problem ----

def start_all(workers, problem, folder):
    """Starts the workers one after the other.  The answers of the first worker, this library's, are the right ones; if the first worker
    fails, no other worker is started."""
    right = None
    for worker in workers:
        answers = worker.attempt(worker.start, problem, folder)
        if answers and right:
            worker.attempt(worker.check, problem, answers, right)
        elif answers:
            right = answers
            if not all(math.isfinite(sum(map(abs, numbers))) for numbers in right.values()):
                worker.lost = "wrong: an answer is not finite"
        if workers[0].lost:
            break


def take_rounds(workers, rounds, list_times, which):
    """Gives every worker that is not lost one turn in each round; each round begins with the next worker of the list."""
    for turn in range(rounds):
        first = turn % len(workers)
        for worker in workers[first:] + workers[:first]:
            if not worker.lost:
                worker.attempt(worker.take_turn, list_times(worker), which)


def measure_problem(problem, given, folder):
    """Measures a problem; returns the workers' descriptions, and the share of the processors that other processes took during the turns."""
    workers, others = [Worker(name, given) for name in given.peers], None
    try:
        start_all(workers, problem, folder)
        alive = [worker for worker in workers if worker.process and not worker.lost]
        if not workers[0].lost:
            load = Load(alive)
            take_rounds(alive, given.rounds, lambda worker: worker.times, LEAST)
            others = load.measure_others()
        if given.busy and not workers[0].lost:
            with Hog():
                take_rounds(alive, given.rounds, lambda worker: worker.busy, MEAN)
    finally:
        for worker in workers:
            worker.end()
    return {"peers": [worker.describe() for worker in workers], "others": others}
