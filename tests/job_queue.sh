#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# cpu.sh and cross.sh source job_queue.sh, which runs a row's tests, some at a time, and prints a line of TAP for each of them.
#
# A script that sources job_queue.sh sets `name`, the row's name in the lines of TAP, and `run`, the words in front of a test's program,
# which a shell parses again; and ends with the exit status of `finish`.

here=$(pwd)
srcdir=$(cd "${srcdir:-.}" && pwd) || exit 99
export srcdir
tests=$srcdir/tests
jobs=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
limit=$(command -v timeout >/dev/null && echo 'timeout 1200')
number=0 ran=0 left=0 right=0 wrong=0 skipped=0 queued=0 running=
work=$(mktemp -d "${TMPDIR:-/tmp}/jobs.XXXXXX") && mkdir "$work/jobs" || exit 99
trap 'rm -rf "$work"' EXIT
trap 'stop; exit 99' HUP INT TERM

# Ends the tests that still run.
stop() {
	[ -z "$running" ] || kill "$running" 2>/dev/null
	for job in "$work"/jobs/*.pid; do
		[ ! -f "$job" ] || kill "$(cat "$job")" 2>/dev/null
	done
}

say()  { echo "# $*"; }
ok()   { number=$((number + 1)); echo "ok $number - $name: $*"; }
fail() { number=$((number + 1)); wrong=$((wrong + 1)); echo "not ok $number - $name: $*"; }

# leave WHY: prints that the row is skipped, and why the row cannot run here.
leave() { number=$((number + 1)); left=$((left + 1)); echo "ok $number - $name # SKIP $*"; }

# queue WHAT COMMAND...: adds a command to the queue of run_queue, which runs the command in a new shell.
queue() {
	queued=$((queued + 1))
	job=$work/jobs/$(printf %03d "$queued")
	echo "$1" >"$job.what"
	shift
	echo "$*" >"$job.job"
}

# run_queue [N]: runs the jobs, N at a time, else as many at a time as there are processors, and reports each.
# shellcheck disable=SC2016
run_queue() {
	find "$work/jobs" -name '*.job' | sort | LIMIT=$limit xargs -n 1 -P "${1:-$jobs}" sh -c '
		job=${0%.job} began=$(date +%s)
		$LIMIT sh "$0" >"$job.log" 2>&1 </dev/null &
		echo $! >"$job.pid"
		wait $!
		echo "$? $(($(date +%s) - began))" >"$job.end"
		rm "$job.pid"' &
	running=$!
	wait $running
	running=
	for job in "$work"/jobs/*.job; do
		report "${job%.job}"
	done
	rm -f "$work"/jobs/*
}

# report JOB: judges the TAP and the exit status of a job: some test must pass or be skipped, none may fail, and the status must be 0.
report() {
	read -r code seconds <"$1.end" || code=99 seconds=0
	what=$(cat "$1.what")
	bad=$(grep -c '^not ok' "$1.log") skips=$(grep -c '^ok.*# SKIP' "$1.log") good=$(grep '^ok' "$1.log" | grep -vc '# SKIP')
	right=$((right + good)) skipped=$((skipped + skips))
	if [ "$code" -ne 0 ] || [ "$bad" -gt 0 ] || [ $((good + skips)) -eq 0 ]; then
		grep -v '^qemu.*warning' "$1.log" | tail -n 20 | sed 's/^/# /'
		fail "$what: $good right, $bad wrong, exit status $code, $seconds s"
	else
		ok "$what: $good right, $skips skipped, $seconds s"
		grep '^ok.*# SKIP' "$1.log" | sed 's/^ok [0-9]* *-* *\(# SKIP \)\{0,1\}/#   skipped: /'
	fi
}

# suite FOLDER PATTERN...: queues a job for each PATTERN: the tests of the suite tests/FOLDER/FOLDER whose names match PATTERN.
suite() {
	program=$1; shift
	for pattern; do
		queue "$program '$pattern'" "exec sh $tests/unit.sh $run tests/$program/$program '$pattern'"
	done
}

# unit PROGRAM...: queues a job for each unit test.
unit() {
	for test; do
		queue "$test" "exec sh $tests/unit.sh $run $test"
	done
}

# suites_emulated: queues the part of the suites that runs under qemu, which takes minutes where the whole takes an hour: every subset
# of the arguments that may be absent, networks of all kinds, one op in all sizes, and sequences except the largest.
suites_emulated() {
	suite conformance '*f32: every*' '*f64: every*' '*f16: every*' '*bf16: every*' 'rnn*' 'gru_block_cell f32: sizes*' \
		'gru_block_cell f64: sizes*' 'gru_block_cell f16: sizes*' 'gru_block_cell bf16: sizes*'
	suite sequence test_random test_step_by_step test_chunks 'test_batch*' test_padding test_absent test_in_a_row 'test_golden*' \
		test_vectors test_sizes test_block_lstm test_modes test_cells test_dtypes
}

# finish: prints the TAP plan, 1..N, and the totals, and ends the script with exit status 0 if all rows that could run passed, 1 if a test
# failed, or 77 if no row could run.
finish() {
	echo "1..$number"
	say "$ran rows ran, $left were left out; $right tests right, $skipped skipped, $wrong lines not ok"
	[ $wrong = 0 ] || exit 1
	[ $ran -gt 0 ] || exit 77
	exit 0
}
