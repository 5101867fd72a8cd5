#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tests tests/bench/peers.sh, with this library alone and beside workers that are right or fail in one of many ways; and
# tests/bench/figures.py.  Only the form of what peers.sh and figures.py print is tested, not the times of this library.
# Runs in the build's top folder.
#   srcdir: the source; CC SANITIZE LIBRARY CELLGRAD: see tests/bench/peers.sh
set -u
bench=$(cd "${srcdir:-.}/tests/bench" && pwd) || exit 99
scratch=$(mktemp -d) || exit 99
trap 'rm -rf "$scratch"' EXIT
why=$scratch/why n=0
ways='right wrong infinite short absent status falls signal garbage nameless noise declines hangs stops fast'

report()
{
	n=$((n + 1))
	if [ "$1" -eq 0 ]; then echo "ok $n - $2"; else sed 's/^/# /' "$why"; echo "not ok $n - $2"; fi
}

# measure FILE OPTION...: runs peers.sh at tiny sizes, and writes its output to FILE
measure()
{
	to=$1
	shift
	sh "$bench/peers.sh" --quick --threads 2 "$@" >"$to" 2>&1 </dev/null
}

# beside FILE 'HOW...' OPTION...: runs peers.sh as `measure` does, with a worker for each way HOW of fake_worker.py
beside()
{
	to=$1 ways=$2
	shift 2
	for how in $ways; do
		set -- "$@" --peer "$how=python3 $bench/fake_worker.py $how"
	done
	measure "$to" --peers '' --rows rnn_tanh:f32:2,2,3,4:no-grad "$@"
}

# says 'TEXT' NAME: prints a line of TAP: $scratch/ways, the output of peers.sh beside the fake workers, has a line that matches the
# extended regular expression TEXT
says()
{
	cp "$scratch/ways" "$why"
	grep -qE "$1" "$why"
	report $? "$2"
}

command -v python3 >/dev/null || { echo '1..0 # SKIP no python3'; exit 0; }
beside "$scratch/ways" "$ways" --limit 2.5 --busy --json "$scratch/ways.json" &
beside=$!
measure "$scratch/alone" --peers '' --json "$scratch/alone.json" --plot "$scratch/svg"
status=$?
if [ $status -eq 77 ]; then
	wait
	echo "1..0 # SKIP $(tail -n 1 "$scratch/alone")"
	exit 0
fi

echo 1..21
cp "$scratch/alone" "$why"
[ $status -eq 0 ] && [ "$(grep -c '^| .* | 3,2,16,16 | [0-9]' "$why")" -eq 11 ] && ! grep -q FAULT "$why"
report $? 'this library computes every cell, and every dtype of the LSTM, without other libraries'

python3 - "$scratch/alone.json" "$scratch/svg" >"$why" 2>&1 <<'END'
import json
import sys
import xml.dom.minidom
with open(sys.argv[1]) as file:
    report = json.load(file)
bars = xml.dom.minidom.parse(sys.argv[2]).getElementsByTagName("rect")
problems = report["problems"]
print(len(problems), len(bars))
assert all(problem["peers"][0]["ms"] > 0 for problem in problems) and len(bars) > len(problems)
END
report $? 'the JSON file has a time for each problem, and the picture a bar'

wait $beside
status=$?
python3 - "$scratch/ways.json" >"$why" 2>&1 <<'END'
import json
import sys
with open(sys.argv[1]) as file:
    peers = {peer["peer"]: peer for peer in json.load(file)["problems"][0]["peers"]}
right = peers["right"]
print(right)
assert right["lost"] is None and right["ms"] == 0.5 and right["busy_ms"] == 0.5 and 0 < right["difference"] < 1e-6
assert all(peer["lost"] for name, peer in peers.items() if name not in ("right", "fast", "cellgrad"))
END
report $? 'a worker that is right has times, and each that fails has a reason'
while read -r how text; do
	says "^\[[0-9]+\] $how: $text" "for a worker of the way \"$how\" there is a line with the reason"
done <<'END'
wrong wrong: y differs by 0.01[0-9]* of its largest element$
infinite wrong: h_n differs by inf
short wrote 92 bytes of answers, expected 96$
absent wrote no bytes of answers, expected 96$
status ended with status 1: the last words$
falls ended with status 1: the last words of a turn$
signal ended by signal 9$
garbage printed garbage: 'no JSON'$
nameless did not say its name and version$
noise printed garbage: 'soon'$
declines declines for a reason$
hangs hangs: no answer within the limit$
stops hangs: no answer within the limit$
END

if [ -x "${CELLGRAD:-./cellgrad}" ]; then
	cp "$scratch/ways" "$why"
	[ $status -eq 1 ] && [ "$(grep FAULT "$why" | sed 's/ in .*//')" = '**FAULT: above the roof: fast' ]
	report $? 'a rate above the roof is the only fault, and the exit status is 1'
else
	n=$((n + 1))
	echo "ok $n - a rate above the roof is the only fault, and the exit status is 1 # SKIP without the command there is no roof"
fi

python3 -B - "$bench" >"$why" 2>&1 <<'END'
import sys
sys.path.insert(0, sys.argv[1])
from peers import judge_run
calm = {"f32_gflops": 100.0, "f64_gflops": 50.0}
fast = {"f32_gflops": 100.0, "f64_gflops": 55.6}
print(judge_run([calm, fast], []), judge_run([calm, calm], [{"others": 0.06}]))
assert judge_run([calm, calm], [{"others": 0.04}, {"others": None}]) == [] == judge_run([{}, {}], [])
assert len(judge_run([calm, fast], [])) == 1 and len(judge_run([calm, calm], [{"others": 0.0}, {"others": 0.06}])) == 1
END
report $? 'judge_run() of peers.py has a reason against a run if the roof changed, or if other processes took processor time'

python3 -B - "$bench" >"$why" 2>&1 <<'END'
import sys
sys.path.insert(0, sys.argv[1])
from peers import find_slow
def result(*busy):
    return {"text": "lstm", "peers": [{"peer": "cellgrad", "ms": 2.0, **({"busy_ms": busy[0]} if busy else {})}, {"peer": "other", "ms": 1.0, "busy_ms": 9.0}]}
assert find_slow([result(), result(4.9)]) == []
assert len(find_slow([result(5.1), result(4.9)])) == 1
END
report $? 'find_slow() of peers.py finds a problem for which this library is too slow with one processor busy'

python3 -B - "$bench" "$scratch" >"$why" 2>&1 <<'END'
import sys
sys.path.insert(0, sys.argv[1])
import peers
turns = iter([{"peers": []}])
def measure(problem, given, folder):
    for result in turns:
        return result
    raise KeyboardInterrupt
peers.measure_roof, peers.measure_problem = lambda given: {}, measure
given = type("Given", (), {"rows": "lstm:f32:3,2,16 gru:f32:3,2,16", "quick": True, "seed": 1})
roofs, measured = peers.measure_all(given, sys.argv[2])
assert [text for text, _, _ in measured] == ["lstm:f32:3,2,16"], measured
END
report $? 'measure_all() of peers.py keeps the measurements before an interrupt'

if [ -x "${CELLGRAD:-./cellgrad}" ]; then
	CELLGRAD=${CELLGRAD:-./cellgrad} python3 -B "$bench/figures.py" --quick --threads 2 >"$why" 2>&1 && [ "$(grep -c '^| .* | -\{0,1\}[0-9.]* |$' "$why")" -eq 9 ]
	report $? 'figures.py prints each of its figures'
else
	n=$((n + 1))
	echo "ok $n - figures.py prints each of its figures # SKIP it measures roofs by the command"
fi
