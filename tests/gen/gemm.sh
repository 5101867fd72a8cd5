#!/bin/sh
# Matrix products run right on the OpenCL device that is there; and Oclgrind, which watches every access, has nothing to say of
# races, of what was never written, or of what is not theirs.  A tool that is missing is a skip, unless CELLGRAD_TEST_REQUIRE
# (a list with commas) names it: opencl, oclgrind.
#
# Runs in the build's top folder, and needs there tests/gen/gemm_run.

work=$(mktemp -d "${TMPDIR:-/tmp}/gemm.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
trap 'exit 99' HUP INT TERM
POCL_CACHE_DIR=$work
# What drivers keep to the end of the process is theirs.
ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0
export POCL_CACHE_DIR ASAN_OPTIONS

# skip NUMBER WORD WHAT WHY: a skip, or a failure where WORD is required.
skip() {
	case ",$CELLGRAD_TEST_REQUIRE," in
	*",$2,"*) echo "not ok $1 - $3: required, but $4" ;;
	*)        echo "ok $1 - $3 # SKIP $4" ;;
	esac
}

# watched NUMBER WHAT OPTION... PROGRAM ARGUMENT...: Oclgrind runs it, it ends well, and nothing is logged.
watched() {
	number=$1 what=$2
	shift 2
	if ! command -v oclgrind >/dev/null; then
		skip "$number" oclgrind "$what" "there is no oclgrind"
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
what="products on the OpenCL device"
tests/gen/gemm_run >"$work/out" 2>"$work/err"
case $? in
0)  cat "$work/out"; echo "ok 1 - $what" ;;
77) skip 1 opencl "$what" "$(sed -n 's/^# //p' "$work/out" | tail -n 1)" ;;
*)  cat "$work/out"; sed 's/^/# /' "$work/err"; echo "not ok 1 - $what" ;;
esac
watched 2 "products under Oclgrind" --data-races --check-api tests/gen/gemm_run 1
# It takes what a shuffle of vectors of 8 and 16 gives for uninitialised, whatever went in.
watched 3 "products of narrow vectors under Oclgrind, which looks for what was never written" \
	--data-races --check-api --uninitialized tests/gen/gemm_run 1 narrow
