#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tests language_model, device_memory, own_runtime and graph of examples/.  Other tests run other examples: tests/docs.py runs peephole_lstm
# and bidirectional, install.sh runs own_cell.c and own_cell.cc, parallel.sh runs parallel.c.
# Runs in the build tree.  srcdir: the source; CC: a C compiler, for own_runtime.
set -u
srcdir=${srcdir:-.}
scratch=$(mktemp -d) || exit 99
trap 'rm -rf "$scratch"' EXIT
text=$srcdir/command/demo/alice.txt why=$scratch/why n=0
limit=$(command -v timeout >/dev/null && echo 'timeout 300')

report()
{
	n=$((n + 1))
	if [ "$1" -eq 0 ]; then echo "ok $n - $2"; else sed 's/^/# /' "$why"; echo "not ok $n - $2"; fi
}
skip() { n=$((n + 1)); echo "ok $n - $1 # SKIP $2"; }

# train FILE OPTION...: runs language_model, and writes the losses of its training to FILE
train()
{
	to=$1
	shift
	CELLGRAD_BACKEND=${CELLGRAD_BACKEND:-cpu} $limit examples/language_model "$@" >"$to" 2>"$why"
}

# falls FILE LEAST: is the last loss in FILE below the first by more than LEAST?
falls()
{
	awk -v least="$2" 'NF == 2 && !n++ { first = $2 } { last = $NF } END { if (!(n && last < first - least)) { print first, last; exit 1 } }' \
		"$1" >"$why"
}

echo 1..6
train "$scratch/whole" -n 40 "$text" && [ "$(wc -l <"$scratch/whole")" -eq 40 ] && falls "$scratch/whole" 2
report $? 'language_model: the loss falls by more than two bits in 40 steps'

train "$scratch/begun" -n 20 -c "$scratch/state" "$text" && train "$scratch/ended" -n 20 -c "$scratch/state" "$text" &&
	cat "$scratch/begun" "$scratch/ended" | cmp - "$scratch/whole" >"$why" 2>&1
report $? 'language_model: 20 steps, a checkpoint and 20 more steps print the losses of 40 steps'

# A checkpoint has the size of a text, a position in the text, and the floats that one training step passes to the next, such as weights.
# The test has a checkpoint of another text, a truncated one, and one with bytes behind its end.
head -c 20000 "$text" >"$scratch/other"
head -c 1000 "$scratch/state" >"$scratch/short"
{ cat "$scratch/state"; echo; } >"$scratch/long"
cat "$scratch/state" "$scratch/short" "$scratch/long" >"$scratch/before"
! train "$scratch/none" -n 1 -c "$scratch/state" "$scratch/other" && grep -q 'expected a checkpoint of this text' "$why" &&
	! train "$scratch/none" -n 1 -c "$scratch/short" "$text" && ! train "$scratch/none" -n 1 -c "$scratch/long" "$text" &&
	cat "$scratch/state" "$scratch/short" "$scratch/long" | cmp - "$scratch/before" >"$why" 2>&1 && [ ! -s "$scratch/none" ]
report $? 'language_model: a file that is no checkpoint of the text is refused and stays unchanged'

$limit examples/device_memory >"$scratch/device" 2>"$why"
status=$?
if [ $status -eq 77 ] && case ,${CELLGRAD_TEST_REQUIRE-}, in *,opencl,*) false ;; esac; then
	skip 'device_memory: no call waits, and the loss falls' "$(cat "$why")"
else
	[ $status -eq 0 ] && grep -q '^3 steps are in the queue, and none has begun' "$scratch/device" &&
		sed -n 's/^step *\([0-9]*\) *loss/\1/p' "$scratch/device" >"$scratch/losses" && falls "$scratch/losses" 0.1
	report $? 'device_memory: no call waits, and the loss falls'
fi

CELLGRAD_BACKEND=${CELLGRAD_BACKEND:-cpu} $limit examples/own_runtime >"$scratch/emit" 2>"$why" &&
	grep -q "with the library's bits" "$scratch/emit"
report $? 'own_runtime: kernels from text and manifest have the bits of the library'

# The example graph runs on a GPU, or else on the stand-ins of tests/fake for CUDA's libraries.
$limit examples/graph >"$scratch/graph" 2>"$why"
status=$?
if [ $status -eq 77 ]; then
	$limit tests/fake/run examples/graph >"$scratch/graph" 2>>"$why"
	status=$?
	cat "$scratch/graph" >>"$why"
fi
if [ $status -eq 77 ] && case ,${CELLGRAD_TEST_REQUIRE-}, in *,cuda,* | *,cuda-fake,*) false ;; esac; then
	skip 'graph: a captured step has the bits of a step without capture' "$(tr '\n' ' ' <"$why")"
else
	[ $status -eq 0 ] && grep -q ': 3 of 3 steps from the graph' "$scratch/graph"
	report $? 'graph: a captured step has the bits of a step without capture'
fi
