#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Oclgrind watches every memory access of the built-in cells' kernels over elements and sums over rows, and of products of every dtype.
# Oclgrind must report no race, no access out of bounds, and, except in products of wide vectors, no read of unwritten memory.  If Oclgrind
# is missing, the tests are skipped, unless CELLGRAD_TEST_REQUIRE (a list with commas) names oclgrind.
#
# Runs in the build's top folder, and needs tests/gen/kernels_run and tests/gen/gemm_run there.

work=$(mktemp -d "${TMPDIR:-/tmp}/oclgrind.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
trap 'exit 99' HUP INT TERM
# Oclgrind is loaded before the library of the address sanitizer; leaks are not reported, since Oclgrind has some.
ASAN_OPTIONS=$ASAN_OPTIONS:verify_asan_link_order=0:detect_leaks=0
export ASAN_OPTIONS
unset CELLGRAD_OPENCL_LIB

# watched NUMBER WHAT OPTION... PROGRAM ARGUMENT...: runs a program by Oclgrind.  The program must succeed, and Oclgrind may log nothing.
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
watched 1 "Oclgrind reports no error in kernels and sums" --data-races --uniform-writes --check-api --uninitialized tests/gen/kernels_run
watched 2 "Oclgrind reports no error in products" --data-races --uniform-writes --check-api tests/gen/gemm_run 1
# Of the products, only those of narrow vectors run with --uninitialized: Oclgrind takes the result of every shuffle of vectors of 8 or 16
# elements for uninitialised.
watched 3 "Oclgrind reports no error in products of narrow vectors, nor a read of memory that was never written" \
	--data-races --uniform-writes --check-api --uninitialized tests/gen/gemm_run 1 narrow
