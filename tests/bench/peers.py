#!/usr/bin/env python3
"""Times of forward and backward of a recurrent sequence, of this library and of others, taken in turn on one machine.

peers.sh builds the C programs and starts this one.  For each problem a worker of each library is started, one after the other; each
reads the same numbers, computes, writes its answers, and says "ready".  The answers are compared with this library's.  Then
each worker in turn gets a line "go", runs for at least 20 ms, and prints the milliseconds of a call; the next one is not asked
before the processor time of the last has stopped growing.  The least time of all rounds counts.

exit 0: measured; 1: this library failed or was wrong, a time is above the roof, or the run is thrown away since the machine was not
quiet; 2: an argument is wrong.  Another library that fails is a line of the table with its reason.  Needs no module beyond Python's own.
"""
import argparse
import array
import json
import math
import operator
import os
import random
import select
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
OURS = "cellgrad"
# Of each worker its file; a program of C lies in the folder of --builds.
PEERS = {OURS: "peer_cellgrad", "pytorch": "peer_torch.py", "tensorflow": "peer_tensorflow.py", "jax": "peer_jax.py",
         "onednn": "peer_onednn", "libxsmm": "peer_libxsmm"}
GATES = {"lstm": 4, "lstm_peephole": 4, "block_lstm": 4, "gru": 3, "gru_block": 3, "rnn_tanh": 1}
WITH_C = ("lstm", "lstm_peephole", "block_lstm")
# Of the largest number of a tensor; beyond it a peer computes something else.
WRONG = {"f32": 1e-3, "f64": 1e-3, "f16": 0.1, "bf16": 0.1}
ROOF_MOVES, OTHERS_TAKE = 0.10, 0.05
# Settings of a shell that would make one library slower or faster than others will see it.
UNSET = ("OPENBLAS_", "OMP_", "GOMP_", "KMP_", "MKL_", "TF_", "XLA_", "DNNL_", "ONEDNN_", "LIBXSMM_", "CELLGRAD_CPU_", "CELLGRAD_VERBOSE",
         "CELLGRAD_CHECK", "CELLGRAD_BACKEND")

LONG = "100,32,512 25,128,1024 100,8,256 200,64,128 400,4,64 50,1,512"
HALF = "100,32,512 100,8,256 200,64,128"
DEFAULT = ([("lstm", "f32", LONG, ""), ("lstm_peephole", "f32", LONG, "")]
           + [(cell, "f32", "100,32,512 50,1,512 400,4,64", "") for cell in ("gru", "gru_block")]
           + [(cell, dtype, HALF, "") for cell in ("lstm", "gru") for dtype in ("bf16", "f16")]
           + [("rnn_tanh", "f32", "100,32,512 50,1,512", ""), ("lstm", "f64", "100,32,512", ""), ("lstm", "f32", "100,8,256 50,1,512", ":no-grad"),
              ("lstm", "f32", "200,64,128", ":last"), ("block_lstm", "f32", "100,32,512 100,8,256", "")])
TINY = ([(cell, "f32", "3,2,16", "") for cell in GATES] + [("lstm", dtype, "3,2,16", "") for dtype in ("bf16", "f16", "f64")]
        + [("lstm", "f32", "3,2,16", ":no-grad"), ("lstm", "f32", "3,2,16", ":last"), ("lstm", "f32", "1,1,32,16", "")])


class Refusal(Exception):
    """An argument that is wrong."""


class Lost(Exception):
    """Why a worker gives no time."""


# ---- problems ----

class Problem:
    """One row of the table, "lstm:f32:100,32,512" with ":no-grad" or ":last" behind it; T,B,H, or T,B,I,H."""

    def __init__(self, text):
        self.text, parts = text, text.split(":")
        try:
            self.cell, self.dtype = parts[0], parts[1]
            sizes = [int(n) for n in parts[2].split(",")]
            self.T, self.B, self.I, self.H = sizes if len(sizes) == 4 else (sizes[0], sizes[1], sizes[2], sizes[2])
        except (IndexError, ValueError):
            raise Refusal(f"--rows: expected CELL:DTYPE:T,B,H, got {text!r}") from None
        self.grad, self.last = "no-grad" not in parts[3:], "last" in parts[3:]
        if self.cell not in GATES or self.dtype not in WRONG or min(sizes) < 1 or set(parts[3:]) - {"no-grad", "last"}:
            raise Refusal(f"--rows: expected one of {', '.join(GATES)}, one of {', '.join(WRONG)}, sizes, and no-grad or last, got {text!r}")
        self.G, self.has_c = GATES[self.cell], self.cell in WITH_C

    def flops(self):
        """Of the products; those of backward are twice as many as those of forward."""
        return 2 * self.G * self.H * (self.I + self.H) * self.T * self.B * (3 if self.grad else 1)

    def arguments(self):
        sizes = [f"--{name}={getattr(self, name)}" for name in "TBIH"]
        words = ["--cell", self.cell, "--dtype", self.dtype] + [word for size in sizes for word in size.split("=")]
        return words + ["--no-grad"] * (not self.grad) + ["--last"] * self.last

    def write_numbers(self, path, seed):
        """One file of f32 for all workers; what a problem does not have is left out."""
        draw = random.Random(f"{seed} {self.text}").random
        state, gates = self.B * self.H, self.G * self.H
        c = state if self.has_c else 0
        weight = self.H ** -0.5
        sizes = [(self.T * self.B * self.I, 1), (state, 1), (c, 1), (gates * self.I, weight), (gates * self.H, weight), (gates, 0.1), (gates, 0.1),
                 (self.T * state, 1), (state, 1), (c, 1), (3 * self.H if self.cell == "lstm_peephole" else 0, weight)]
        with open(path, "wb") as file:
            for n, bound in sizes:
                write_floats(file, array.array("f", (bound * (2 * draw() - 1) for _ in range(n))))

    def answers(self):
        """Names and numbers of elements, in the order of a worker's file."""
        state, gates = self.B * self.H, self.G * self.H
        c = state if self.has_c else 0
        names = [("y", 0 if self.last else self.T * state), ("h_n", state), ("c_n", c)]
        if self.grad:
            names += [("dx", self.T * self.B * self.I), ("dh0", state), ("dc0", c), ("dW", gates * self.I), ("dR", gates * self.H), ("db", gates),
                      ("dbR", gates if self.cell == "gru" else 0), ("dpeep", 3 * self.H if self.cell == "lstm_peephole" else 0)]
        return [(name, n) for name, n in names if n]


def write_floats(file, numbers):
    if sys.byteorder == "big":
        numbers.byteswap()
    numbers.tofile(file)


def read_answers(problem, path):
    """{name: array}; a worker whose file is too short or too long is lost."""
    answers = {}
    expected = 4 * sum(n for _, n in problem.answers())
    if not os.path.exists(path) or os.path.getsize(path) != expected:
        raise Lost(f"wrote {os.path.getsize(path) if os.path.exists(path) else 'no'} bytes of answers, expected {expected}")
    with open(path, "rb") as file:
        for name, n in problem.answers():
            answers[name] = array.array("f")
            answers[name].fromfile(file, n)
            if sys.byteorder == "big":
                answers[name].byteswap()
    return answers


def compare_answers(ours, theirs):
    """{name: largest difference over our largest element}; infinite where one is no number."""
    differences = {}
    for name, right in ours.items():
        largest = max(map(abs, right)) or 1.0
        apart = list(map(abs, map(operator.sub, right, theirs[name])))
        differences[name] = max(apart) / largest if math.isfinite(sum(apart)) else math.inf
    return differences


# ---- processor time ----

TICK = os.sysconf("SC_CLK_TCK")


def get_ticks(pid):
    """Of all threads of a process, those that ended too; None once it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rsplit(")", 1)[1].split()
        return int(fields[11]) + int(fields[12])
    except (OSError, IndexError, ValueError):
        return None


def get_machine_ticks():
    """Busy and all, of all processors; what the host of a virtual machine took counts as busy.  None where that is not known."""
    try:
        with open("/proc/stat") as file:
            user, nice, system, idle, iowait, irq, softirq, steal = (int(n) for n in file.readline().split()[1:9])
    except (OSError, ValueError):
        return None
    busy = user + nice + system + irq + softirq + steal
    return (busy, busy + idle + iowait) if busy + idle + iowait else None


class Load:
    """What share of the processors other processes took since it was made."""

    def __init__(self, pids):
        self.pids, self.before = pids, get_machine_ticks()
        self.ours = self.count()

    def count(self):
        return {pid: get_ticks(pid) or 0 for pid in self.pids + [os.getpid()]}

    def others(self):
        """None where it is not known, or too little time has passed to tell."""
        after, now = get_machine_ticks(), self.count()
        if not after or not self.before or after[1] - self.before[1] < TICK / 2:
            return None
        ours = sum(max(now[pid] - self.ours[pid], 0) for pid in now)
        return max(0.0, after[0] - self.before[0] - ours) / (after[1] - self.before[1])


def wait_idle(pid, most=2.0):
    """Until the process has taken no processor time for 50 ms; False where it goes on spinning."""
    until, before = time.monotonic() + most, get_ticks(pid)
    while time.monotonic() < until:
        time.sleep(0.05)
        now = get_ticks(pid)
        if now == before:
            return True
        before = now
    return False


# ---- workers ----

class Worker:
    """A process that computes one problem with one library; .lost is why it gives no times."""

    def __init__(self, name, command, environment, folder):
        self.name, self.command, self.lost, self.about, self.times, self.busy = name, command, None, {}, [], []
        self.differences, self.spins, self.buffer = {}, False, b""
        self.words = os.path.join(folder, name + ".stderr")
        try:
            with open(self.words, "wb") as words:
                self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=words, env=environment)
        except OSError as why:
            self.process, self.lost = None, f"does not start: {why.strerror}"

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

    def say_end(self):
        """How the process ended, with its last words."""
        try:
            status = self.process.wait(5)
        except subprocess.TimeoutExpired:
            return "closed its output"
        with open(self.words, errors="replace") as file:
            words = [line.strip() for line in file if line.strip()]
        how = f"ended by signal {-status}" if status < 0 else f"ended with status {status}"
        return how + (f": {words[-1][:300]}" if words else "")

    def prepare(self, limit):
        """Reads what it says of itself, until it is ready; other lines are garbage."""
        until = time.monotonic() + limit
        while True:
            line = self.read_line(until)
            if line.startswith("declines "):
                raise Lost(line)
            if line == "ready":
                break
            try:
                about = json.loads(line)
            except ValueError:
                about = None
            if not isinstance(about, dict):
                raise Lost(f"printed garbage: {line[:80]!r}")
            self.about = about
        if not {"name", "version"} <= set(self.about):
            raise Lost("did not say its name and version")

    def take_turn(self, limit):
        try:
            self.process.stdin.write(b"go\n")
            self.process.stdin.flush()
        except OSError:
            raise Lost(self.say_end()) from None
        line = self.read_line(time.monotonic() + limit)
        try:
            ms = float(line)
        except ValueError:
            ms = math.nan
        if not 0 < ms < math.inf:
            raise Lost(f"printed garbage: {line[:80]!r}")
        return ms

    def end(self):
        """Asks it to end, then makes it."""
        if self.process is None or self.process.stdin.closed:
            return
        for close in (lambda: self.process.stdin.write(b"end\n"), self.process.stdin.close):
            try:
                close()
            except OSError:
                pass
        try:
            self.process.wait(0 if self.lost else 5)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()

    def least(self):
        return min(self.times) if self.times and not self.lost else None

    def least_busy(self):
        return min(self.busy) if self.busy and not self.lost else None

    def report(self, problem, roof):
        """As one object of the JSON file."""
        ms, share = self.least(), None
        if ms and roof:
            share = problem.flops() / ms / 1e6 / roof
        return {"peer": self.name, "about": self.about, "command": self.command, "lost": self.lost, "ms": ms, "times": self.times,
                "busy_ms": self.least_busy(), "busy_times": self.busy, "share": share, "spins": self.spins, "differences": self.differences,
                "difference": max(self.differences.values()) if self.differences else None}


class Hog:
    """A process that keeps one processor busy."""

    def __enter__(self):
        self.process = subprocess.Popen([sys.executable, "-c", "while True: pass"])
        return self.process.pid

    def __exit__(self, *why):
        self.process.kill()
        self.process.wait()


# ---- a problem's turns ----

def make_environment(threads):
    environment = {name: value for name, value in os.environ.items() if not name.startswith(UNSET)}
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "CELLGRAD_CPU_THREADS"):
        environment[name] = str(threads)
    del environment["OPENBLAS_NUM_THREADS"]
    return environment


def find_command(name, given):
    """The words that start a worker; raises Lost where it could not be built."""
    if name in given.extra:
        return given.extra[name]
    file = PEERS[name]
    if file.endswith(".py"):
        return [given.python, os.path.join(HERE, file)]
    path = os.path.join(given.builds, file)
    if not os.access(path, os.X_OK):
        why = path + ".why"
        words = open(why, errors="replace").read().strip().splitlines() if os.path.exists(why) else []
        raise Lost("not installed: " + (words[0][:200] if words else "it was not built"))
    return [path]


def start_worker(name, problem, given, folder, numbers):
    output = os.path.join(folder, name + ".out")
    try:
        command = find_command(name, given) + problem.arguments() + ["--threads", str(given.threads), "--input", numbers, "--output", output]
    except Lost as why:
        worker = Worker(name, ["false"], {}, folder)
        worker.lost = str(why)
        return worker, output
    if name == OURS and given.route:
        command += ["--route", given.route]
    worker = Worker(name, command, make_environment(given.threads), folder)
    if not worker.lost:
        try:
            worker.prepare(given.limit)
        except Lost as why:
            worker.lost = str(why)
    return worker, output


def check_worker(worker, problem, output, right):
    """Compares a worker's answers with ours; ours are returned."""
    answers = read_answers(problem, output)
    if worker.name == OURS:
        if not all(math.isfinite(sum(map(abs, numbers))) for numbers in answers.values()):
            raise Lost("wrong: an answer is not finite")
        return answers
    worker.differences = compare_answers(right, answers)
    name = max(worker.differences, key=worker.differences.get)
    if worker.differences[name] > WRONG[problem.dtype]:
        raise Lost(f"wrong: {name} differs by {worker.differences[name]:.2g} of its largest element")
    return right


def prepare_all(problem, given, folder):
    numbers, workers, right = os.path.join(folder, "numbers"), [], None
    problem.write_numbers(numbers, given.seed)
    for name in given.peers:
        worker, output = start_worker(name, problem, given, folder, numbers)
        workers.append(worker)
        if not worker.lost:
            try:
                right = check_worker(worker, problem, output, right)
            except Lost as why:
                worker.lost = str(why)
        if os.path.exists(output):
            os.remove(output)
        if worker.lost:
            worker.end()
            if name == OURS:
                break
    return workers


def take_rounds(workers, given, times_of):
    """Every worker once a round, in an order that begins one further each time."""
    for turn in range(given.rounds):
        first = turn % len(workers) if workers else 0
        for worker in workers[first:] + workers[:first]:
            if worker.lost:
                continue
            try:
                times_of(worker).append(worker.take_turn(given.limit))
            except Lost as why:
                worker.lost = str(why)
                worker.end()
                continue
            worker.spins |= not wait_idle(worker.process.pid)


def measure_problem(problem, given, folder):
    """{problem, workers, others}; others: the share of the processors that strangers took while the turns were taken."""
    workers = prepare_all(problem, given, folder)
    try:
        alive = [worker for worker in workers if not worker.lost]
        for worker in alive:
            worker.spins |= not wait_idle(worker.process.pid)
        load = Load([worker.process.pid for worker in alive])
        take_rounds(alive, given, lambda worker: worker.times)
        others = load.others()
        if given.busy:
            with Hog():
                take_rounds(alive, given, lambda worker: worker.busy)
    finally:
        for worker in workers:
            worker.end()
    return {"problem": problem, "workers": workers, "others": others}


# ---- the roof ----

def measure_roof(given):
    """What `cellgrad bench` says of the machine: the object of its first line."""
    if not given.cellgrad:
        return {}
    command = [given.cellgrad, "bench", "--json", "--op", "LSTMBlockCell", "--B", "1", "--I", "1", "--H", "1", "--reps", "1", "--threads",
               str(given.threads)]
    environment = make_environment(given.threads)
    environment["CELLGRAD_BACKEND"] = "cpu"
    try:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300, text=True)
        roof = json.loads(done.stdout.splitlines()[0]) if done.stdout else {}
    except (OSError, ValueError, subprocess.TimeoutExpired) as why:
        raise Refusal(f"cellgrad bench gives no roofs: {why}") from None
    if roof.get("kind") != "roofs":
        raise Refusal(f"cellgrad bench gives no roofs: {done.stderr.strip()[:200]}")
    return roof


def get_roof(roofs, dtype):
    """GFLOP/s: the larger of before and after.  16-bit products are shown against the roof of f32, which a processor may exceed."""
    values = [roof.get("f64_gflops" if dtype == "f64" else "f32_gflops") for roof in roofs]
    return max((value for value in values if value), default=None)


def judge_run(roofs, results):
    """Why the run is thrown away; empty where it counts."""
    reasons = []
    for name in ("f32_gflops", "f64_gflops"):
        before, after = (roof.get(name) for roof in roofs)
        if before and after and abs(after / before - 1) > ROOF_MOVES:
            reasons.append(f"the roof moved from {before:.1f} to {after:.1f} GFLOP/s in {name[:3]}")
    known = [result["others"] for result in results if result["others"] is not None]
    loud = [share for share in known if share > OTHERS_TAKE]
    if loud:
        reasons.append(f"other processes took up to {100 * max(loud):.0f} % of the processor time, in {len(loud)} of {len(results)} problems")
    return reasons


# ---- what is printed ----

def number(value, form):
    return "" if value is None else format(value, form)


class Notes:
    """Reasons, each once, with a number to stand for it in a table."""

    def __init__(self):
        self.list = []

    def add(self, text):
        if text not in self.list:
            self.list.append(text)
        return f"[{self.list.index(text) + 1}]"


def is_absent(name, results):
    """The library is on this machine for no problem."""
    return all(worker.lost and "not installed" in worker.lost for result in results for worker in result["workers"] if worker.name == name)


def describe_ratio(result):
    """Our time over the fastest other one's."""
    ours = next(worker for worker in result["workers"] if worker.name == OURS).least()
    others = [worker.least() for worker in result["workers"] if worker.name != OURS and worker.least()]
    return ours / min(others) if ours and others else None


def print_times(results, names, roofs):
    notes = Notes()
    head = ["problem", "dtype", "T,B,I,H"] + [f"{name} ms" for name in names] + ["ours / fastest peer", "largest difference"]
    print("\n| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    for result in results:
        problem, workers = result["problem"], {worker.name: worker for worker in result["workers"]}
        what = problem.cell + ("" if problem.grad else ", forward") + (", last" if problem.last else "")
        cells = [what, problem.dtype, f"{problem.T},{problem.B},{problem.I},{problem.H}"]
        for name in names:
            worker = workers.get(name)
            row = worker.report(problem, get_roof(roofs, problem.dtype)) if worker else {"ms": None}
            if row["ms"]:
                cells.append(f"{row['ms']:.4g}" + (f" ({100 * row['share']:.0f} %)" if row["share"] else "")
                             + (" " + notes.add(f"{name} goes on spinning between its turns") if worker.spins else ""))
            else:
                cells.append(notes.add(f"{name}: {worker.lost}") if worker else "")
        different = [max(worker.differences.values()) for worker in workers.values() if worker.differences]
        cells += [number(describe_ratio(result), ".3f"), number(max(different) if different else None, ".2g")]
        print("| " + " | ".join(cells) + " |", flush=True)
    print("\nMilliseconds of the fastest turn, with the share of the roof; bf16 and f16 against the roof of f32.")
    for k, text in enumerate(notes.list):
        print(f"[{k + 1}] {text}")


def print_busy(results, names):
    print("\nWith one processor kept busy: each library's time over its own without.\n")
    print("| problem | " + " | ".join(names) + " |\n" + "|---" * (len(names) + 1) + "|")
    for result in results:
        workers = {worker.name: worker for worker in result["workers"]}
        ratios = []
        for name in names:
            worker = workers.get(name)
            busy, calm = (worker.least_busy(), worker.least()) if worker else (None, None)
            ratios.append(f"{busy / calm:.2f}" if busy and calm else "")
        print(f"| {result['problem'].text} | " + " | ".join(ratios) + " |")


def print_versions(results, given):
    print()
    for name in given.peers:
        workers = [worker for result in results for worker in result["workers"] if worker.name == name and worker.about]
        if workers:
            settings = ", ".join(f"{key} {value}" for key, value in workers[0].about.get("settings", {}).items() if key != "calls_a_turn")
            print(f"- {name} {workers[0].about['version']}: {settings}; `{' '.join(workers[0].command)}`")
        elif results:
            reasons = [worker.lost for result in results for worker in result["workers"] if worker.name == name]
            print(f"- {name}: {reasons[0] if reasons else 'not started'}")


def print_roofs(roofs):
    for when, roof in zip(("before", "after"), roofs):
        if roof:
            print(f"roofs {when}: {roof['f32_gflops']:.1f} GFLOP/s in f32, {roof['f64_gflops']:.1f} in f64, {roof['threads']} threads; {roof['device']}")


def find_faults(results, roofs):
    """What makes the run fail: this library, or a time that cannot be."""
    faults = []
    for result in results:
        problem = result["problem"]
        for worker in result["workers"]:
            row = worker.report(problem, get_roof(roofs, problem.dtype))
            if row["share"] and row["share"] > 1 and problem.dtype in ("f32", "f64"):
                faults.append(f"FAULT: above the roof: {worker.name} in {problem.text}, {row['share']:.2f} of it")
            if worker.name == OURS and worker.lost:
                faults.append(f"FAULT: {OURS} in {problem.text}: {worker.lost}")
    return faults


# ---- the picture ----

COLOURS = ("#1b6ca8", "#e4572e", "#f2a541", "#4c9f70", "#8a5fbf", "#7a7a7a", "#c2185b", "#00838f")
BAR, GAP, LEFT, WIDTH, MOST = 14, 14, 230, 560, 6.0


def draw_group(result, names, top):
    """The bars of a problem; one that is longer than the picture is cut and says its length."""
    lines = [f'<text x="{LEFT - 8}" y="{top + 11}" text-anchor="end">{result["problem"].text.replace(":", " ")}</text>']
    workers = {worker.name: worker for worker in result["workers"]}
    ours = workers[OURS].least() if OURS in workers else None
    y = top
    for k, name in enumerate(names):
        ms = workers[name].least() if name in workers else None
        if not ms or not ours:
            continue
        width = min(ms / ours, MOST) / MOST * WIDTH
        lines.append(f'<rect x="{LEFT}" y="{y}" width="{width:.1f}" height="{BAR - 2}" fill="{COLOURS[k % len(COLOURS)]}"/>')
        lines.append(f'<text x="{LEFT + width + 4:.1f}" y="{y + 10}" class="small">{ms / ours:.2f}  ({ms:.3g} ms)</text>')
        y += BAR
    return lines, max(y, top + BAR)


def draw_picture(results, names, path):
    """Bars of each library's time over ours, a group for each problem."""
    body, y = [], 64
    for result in results:
        lines, y = draw_group(result, names, y)
        body += lines
        y += GAP
    head = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + WIDTH + 150}" height="{y + 10}" font-family="sans-serif" font-size="12">',
            "<style>.small { font-size: 10px; fill: #444 }</style>", '<rect width="100%" height="100%" fill="white"/>',
            f'<text x="{LEFT}" y="18" font-size="14">time over that of {OURS}; shorter is faster</text>']
    x = LEFT
    for k, name in enumerate(names):
        head.append(f'<rect x="{x}" y="30" width="10" height="10" fill="{COLOURS[k % len(COLOURS)]}"/><text x="{x + 14}" y="39">{name}</text>')
        x += 30 + 8 * len(name)
    for k in range(int(MOST) + 1):
        at = LEFT + k / MOST * WIDTH
        head.append(f'<line x1="{at:.1f}" x2="{at:.1f}" y1="56" y2="{y}" stroke="{"#333" if k == 1 else "#ddd"}"/>')
        head.append(f'<text x="{at:.1f}" y="54" class="small" text-anchor="middle">{k}</text>')
    with open(path, "w") as file:
        file.write("\n".join(head + body + ["</svg>"]) + "\n")


# ---- the whole ----

def list_problems(given):
    if given.rows:
        return [Problem(text) for text in given.rows.split()]
    return [Problem(f"{cell}:{dtype}:{size}{behind}") for cell, dtype, sizes, behind in (TINY if given.quick else DEFAULT) for size in sizes.split()]


def write_json(path, given, roofs, results, faults, thrown):
    report = {"threads": given.threads, "rounds": given.rounds, "roofs": roofs, "faults": faults, "thrown_away": thrown, "problems": [
        {"problem": result["problem"].text, "flops": result["problem"].flops(), "others": result["others"], "ratio": describe_ratio(result),
         "peers": [worker.report(result["problem"], get_roof(roofs, result["problem"].dtype)) for worker in result["workers"]]}
        for result in results]}
    with open(path, "w") as file:
        json.dump(report, file, indent=1)
        file.write("\n")


def compare_all(given, problems, folder):
    roofs, results = [measure_roof(given)], []
    for problem in problems:
        if sys.stderr.isatty():
            print(f"\r\033[K{len(results) + 1} of {len(problems)}: {problem.text}", end="", file=sys.stderr)
        results.append(measure_problem(problem, given, folder))
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    roofs.append(roofs[0] if given.quick else measure_roof(given))
    names = [name for name in given.peers if name == OURS or not is_absent(name, results)]
    print_roofs(roofs)
    print_versions(results, given)
    print_times(results, names, roofs)
    if given.busy:
        print_busy(results, names)
    faults, thrown = find_faults(results, roofs), [] if given.quick else judge_run(roofs, results)
    if given.quick:
        print("\n--quick: no time here means anything.")
    if given.json:
        write_json(given.json, given, roofs, results, faults, thrown)
    if given.plot:
        draw_picture(results, names, given.plot)
    for line in faults + ([f"thrown away: {'; '.join(thrown)}"] if thrown else []):
        print(f"\n**{line}**")
    return int(bool(faults or thrown))


def read_arguments():
    parser = argparse.ArgumentParser(prog="peers.sh", description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--rows", help="problems, as 'lstm:f32:100,32,512 gru:bf16:50,1,512:no-grad'; T,B,H or T,B,I,H")
    parser.add_argument("--peers", help=f"names with commas, {','.join(PEERS)}; {OURS} is always one")
    parser.add_argument("--peer", action="append", default=[], metavar="NAME=COMMAND", help="a worker of your own")
    parser.add_argument("--rounds", type=int, help="turns of each library (9)")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--route", help="of this library's network: composed")
    parser.add_argument("--busy", action="store_true", help="also with one processor kept busy")
    parser.add_argument("--quick", action="store_true", help="tiny sizes, one round, to try the script")
    parser.add_argument("--limit", type=float, default=300, help="seconds that a worker has to be ready, and for a turn (300)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", metavar="FILE")
    parser.add_argument("--plot", metavar="FILE.svg")
    parser.add_argument("--builds", default=".", help=argparse.SUPPRESS)
    parser.add_argument("--cellgrad", default="", help=argparse.SUPPRESS)
    parser.add_argument("--python", default=sys.executable, help=argparse.SUPPRESS)
    given = parser.parse_args()
    given.rounds = given.rounds or (1 if given.quick else 9)
    given.extra = {name: command.split() for name, _, command in (peer.partition("=") for peer in given.peer)}
    names = [name for name in (given.peers.split(",") if given.peers is not None else PEERS) if name and name != OURS]
    for name in names:
        if name not in PEERS:
            parser.error(f"--peers: expected names of {', '.join(PEERS)}, got {name!r}")
    given.peers = [OURS] + names + [name for name in given.extra if name not in PEERS]
    return given


def main():
    given = read_arguments()
    folder = tempfile.mkdtemp(prefix="peers.")
    try:
        return compare_all(given, list_problems(given), folder)
    except Refusal as why:
        print(f"peers.sh: {why}", file=sys.stderr)
        return 2
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
