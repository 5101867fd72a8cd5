#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Oclgrind watches every access of every kernel over elements, every sum over rows and products of every dtype: it reports no race, no
# read of unwritten memory, and no access out of bounds.  Where it is missing the test is skipped, unless
# CELLGRAD_TEST_REQUIRE (a list with commas) names oclgrind.
#
# Runs in the build's top folder, and needs there tests/gen/kernels_run and tests/gen/gemm_run.

work=$(mktemp -d "${TMPDIR:-/tmp}/oclgrind.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
trap 'exit 99' HUP INT TERM
# Oclgrind is loaded before the sanitizer's library, and its own leaks are ignored.
ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0:detect_leaks=0
export ASAN_OPTIONS
unset CELLGRAD_OPENCL_LIB

# watched NUMBER WHAT OPTION... PROGRAM ARGUMENT...: runs the program by Oclgrind; it must end well, and nothing may be logged.
watched() {
	number=$1 what=$2
	shift 2
	if ! command -v oclgrind >/dev/null; then
		case ",$CELLGRAD_TEST_REQUIRE," in
		*,oclgrind,*) echo "not ok $number - $what: required, but there is no oclgrind" ;;
		*)            echo "ok $number - $what # SKIP there is no oclgrind" ;;
		esac
	elif oclgrind --log "$work/log" "$@" >"$work/out" 2>"$work/err" && ! [ -s "$work/log" ]; then
		cat "$work/out"
		echo "ok $number - $what"
	else
		cat "$work/out" "$work/err" "$work/log" 2>/dev/null | sed 's/^#* */# /' | head -60
		echo "not ok $number - $what"
	fi
	rm -f "$work/log"
}

echo 1..3
watched 1 "kernels and sums under Oclgrind" --data-races --uniform-writes --check-api --uninitialized tests/gen/kernels_run
watched 2 "products under Oclgrind" --data-races --uniform-writes --check-api tests/gen/gemm_run 1
# Oclgrind takes the result of a shuffle of vectors of 8 and 16 elements for uninitialised, whatever its operands.
watched 3 "products of narrow vectors under Oclgrind, which looks for what was never written" \
	--data-races --uniform-writes --check-api --uninitialized tests/gen/gemm_run 1 narrow
