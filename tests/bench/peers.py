#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures times of forward and backward of a recurrent sequence, of this library and of others, in turn on one machine.

peers.sh builds the C programs and starts this script.  For each problem, a worker of each library is started, one after the other; each
worker reads the same numbers, computes, writes its answers, and prints "ready".  The answers are compared with this library's.  Then each
worker in turn gets a line "go", calls its library for a tenth of a second after some calls that are not timed, and prints the
milliseconds of its fastest call and of the mean of its calls.  The next worker gets its turn when the processor time of the last worker has
stopped growing, or after two seconds.  The result is the least time of all rounds.

exit 0: measured; 1: this library failed, had an answer that is not finite or, with --busy, was too slow, a rate is above the roof (but not
in f16), or the run is discarded since the machine was not quiet; 2: an argument is wrong, or there is no roof.  If another library fails,
the table has its reason.  This script needs no module beyond Python's own.
"""
import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile

from peer_problem import CELLS, WRONG, Problem
from peers_report import draw_picture, find_peer, list_present, print_busy, print_memory, print_others, print_roofs, print_times, print_versions
from peers_turns import OURS, PEERS, make_environment, measure_problem, write_numbers

ROOF_MOVES, OTHERS_TAKE, BUSY_TAKES = 0.10, 0.05, 2.5

LONG = "100,32,512 25,128,1024 100,8,256 200,64,128 400,4,64 50,1,512"
HALF = "100,32,512 100,8,256 200,64,128"
DEFAULT = ([("lstm", "f32", LONG, ""), ("lstm_peephole", "f32", LONG, "")]
           + [(cell, "f32", "100,32,512 50,1,512 400,4,64", "") for cell in ("gru", "gru_block")]
           + [(cell, dtype, HALF, "") for cell in ("lstm", "gru") for dtype in ("bf16", "f16")]
           + [("rnn_tanh", "f32", "100,32,512 50,1,512", ""), ("lstm", "f64", "100,32,512", ""), ("lstm", "f32", "100,8,256 50,1,512", ":no-grad"),
              ("lstm", "f32", "200,64,128", ":last"), ("block_lstm", "f32", "100,32,512 100,8,256", "")])
TINY = ([(cell, "f32", "3,2,16", "") for cell in CELLS] + [("lstm", dtype, "3,2,16", "") for dtype in ("bf16", "f16", "f64")]
        + [("lstm", "f32", "3,2,16", ":no-grad"), ("lstm", "f32", "3,2,16", ":last"), ("lstm", "f32", "1,1,32,16", "")])


class Refusal(Exception):
    """The reason why peers.py cannot run: a wrong argument, or no roof of the machine."""


# ---- problems ----

def read_problem(text):
    """Parses a problem, such as "lstm:f32:100,32,512": a cell, a dtype, and T,B,H or T,B,I,H, with ":no-grad" or ":last" behind them."""
    expected = f"--rows: expected CELL:DTYPE:T,B,H with :no-grad or :last behind it, CELL of {', '.join(CELLS)}, DTYPE of {', '.join(WRONG)}"
    cell, dtype, sizes, *words = (text + "::").split(":")
    words = [word for word in words if word]
    try:
        sizes = [int(n) for n in sizes.split(",")]
    except ValueError:
        sizes = []
    if cell not in CELLS or dtype not in WRONG or len(sizes) not in (3, 4) or min(sizes) < 1 or set(words) - {"no-grad", "last"}:
        raise Refusal(f"{expected}; got {text!r}")
    return Problem(cell, dtype, sizes if len(sizes) == 4 else [*sizes, sizes[-1]], "no-grad" not in words, "last" in words)


def list_texts(given):
    if given.rows is not None:
        return given.rows.split()
    return [f"{cell}:{dtype}:{size}{behind}" for cell, dtype, sizes, behind in (TINY if given.quick else DEFAULT) for size in sizes.split()]


# ---- the roof ----

def measure_roof(given):
    """Returns the roofs of the machine, which `cellgrad bench --json` prints as an object in its first line; {} without --cellgrad."""
    if not given.cellgrad:
        return {}
    command = [given.cellgrad, "bench", "--json", "--op", "LSTMBlockCell", "--B", "1", "--I", "1", "--H", "1", "--reps", "1", "--threads",
               str(given.threads)]
    environment = {**make_environment(given.threads), "CELLGRAD_BACKEND": "cpu"}
    try:
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300, text=True)
        roof = json.loads(done.stdout.splitlines()[0]) if done.stdout else {}
    except (OSError, ValueError, subprocess.TimeoutExpired) as why:
        raise Refusal(f"cellgrad bench gives no roofs: {why}") from None
    if roof.get("kind") != "roofs":
        raise Refusal(f"cellgrad bench gives no roofs: {done.stderr.strip()[:200]}")
    return roof


def get_roof(roofs, dtype):
    """Returns the roof of a dtype in GFLOP/s: the larger of the values before and after the run.  For f16 the roof is that of f32, which
    products of f16 may exceed on some processors."""
    values = [roof.get(f"{dtype}_gflops", roof.get("f32_gflops")) for roof in roofs]
    return max((value for value in values if value), default=None)


def judge_run(roofs, results):
    """Returns the reasons why the run is discarded; an empty list if the run counts."""
    reasons = []
    for name in ("f32_gflops", "f64_gflops", "bf16_gflops"):
        before, after = (roof.get(name) for roof in roofs)
        if before and after and abs(after / before - 1) > ROOF_MOVES:
            reasons.append(f"the roof moved from {before:.1f} to {after:.1f} GFLOP/s in {name.split('_')[0]}")
    known = [result["others"] for result in results if result["others"] is not None]
    loud = [share for share in known if share > OTHERS_TAKE]
    if loud:
        reasons.append(f"other processes took up to {100 * max(loud):.0f} % of the processor time, in {len(loud)} of {len(results)} problems")
    return reasons


# ---- results ----

def describe_results(measured, roofs):
    """Describes the results: adds the share of the roof to each worker, and to each problem the ratio of this library's time to that of the
    fastest other library."""
    results = []
    for text, problem, result in measured:
        roof, operations = get_roof(roofs, problem.dtype), problem.count_operations()
        for peer in result["peers"]:
            peer["share"] = operations / peer["ms"] / 1e6 / roof if peer["ms"] and roof else None
        ours = find_peer(result, OURS)["ms"]
        others = [peer["ms"] for peer in result["peers"] if peer["peer"] != OURS and peer["ms"]]
        results.append({"text": text, "problem": problem, "operations": operations, "ratio": ours / min(others) if ours and others else None,
                        **result})
    return results


def find_faults(results):
    """Returns the reasons why the run fails: this library failed or had an answer that is not finite, or a rate, except in f16, is above
    the roof."""
    faults = []
    for result in results:
        for peer in result["peers"]:
            if peer["share"] and peer["share"] > 1 and result["problem"].dtype != "f16":
                faults.append(f"FAULT: above the roof: {peer['peer']} in {result['text']}, {peer['share']:.2f} of it")
            if peer["peer"] == OURS and peer["lost"]:
                faults.append(f"FAULT: {OURS} in {result['text']}: {peer['lost']}")
    return faults


def find_slow(results):
    """Lists the problems in which this library, with one processor busy, takes too long compared with its time on a quiet machine."""
    ours = [(result["text"], find_peer(result, OURS)) for result in results]
    ratios = [(text, peer["busy_ms"] / peer["ms"]) for text, peer in ours if peer.get("busy_ms") and peer["ms"]]
    return [f"FAULT: {OURS} in {text}: with one processor busy {ratio:.2f} of its own time, at most {BUSY_TAKES}"
            for text, ratio in ratios if ratio > BUSY_TAKES]


def write_json(path, given, roofs, results, faults, thrown):
    problems = [{**result, "problem": result["text"]} for result in results]
    report = {"threads": given.threads, "rounds": given.rounds, "roofs": roofs, "faults": faults, "thrown_away": thrown, "problems": problems}
    with open(path, "w") as file:
        json.dump(report, file, indent=1)
        file.write("\n")


# ---- the whole ----

def measure_all(given, folder):
    """Returns the roofs before and after the run, with --quick those before it twice, and a list of (text, problem, result) of each
    problem; after an interrupt the list has the problems that were measured until then."""
    problems = [(text, read_problem(text)) for text in list_texts(given)]
    roofs, measured = [measure_roof(given)], []
    try:
        for text, problem in problems:
            if sys.stderr.isatty():
                print(f"\r\033[K{len(measured) + 1} of {len(problems)}: {text}", end="", file=sys.stderr)
            write_numbers(problem, os.path.join(folder, "numbers"), random.Random(f"{given.seed} {text}").random)
            measured.append((text, problem, measure_problem(problem, given, folder)))
    except KeyboardInterrupt:
        if not measured:
            raise
        print(f"interrupted: {len(measured)} of {len(problems)} problems were measured")
    if sys.stderr.isatty():
        print("\r\033[K", end="", file=sys.stderr)
    roofs.append(roofs[0] if given.quick else measure_roof(given))
    return roofs, measured


def compare_all(given, folder):
    roofs, measured = measure_all(given, folder)
    results = describe_results(measured, roofs)
    names = list_present(results, given.peers)
    print_roofs(roofs)
    print_versions(results, given.peers)
    print_times(results, names)
    if given.busy:
        print_busy(results, names)
    print_memory(results)
    print_others(results)
    faults, thrown = find_faults(results), []
    if not given.quick:
        faults, thrown = faults + find_slow(results), judge_run(roofs, results)
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
    given.commands = {name: command.split() for name, _, command in (peer.partition("=") for peer in given.peer)}
    names = [name for name in (given.peers.split(",") if given.peers is not None else PEERS) if name and name != OURS]
    for name in names:
        if name not in PEERS:
            parser.error(f"--peers: expected names of {', '.join(PEERS)}, got {name!r}")
    given.peers = [OURS] + names + [name for name in given.commands if name not in PEERS]
    return given


def main():
    given = read_arguments()
    folder = tempfile.mkdtemp(prefix="peers.")
    try:
        return compare_all(given, folder)
    except Refusal as why:
        print(f"peers.sh: {why}", file=sys.stderr)
        return 2
    finally:
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
