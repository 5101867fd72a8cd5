#!/bin/sh
# Every text compiles alone, without a warning: C by the build's compiler and by the other of gcc and clang, OpenCL C by the
# device that is there, CUDA C by NVRTC.  A tool that is missing is a skip, unless CELLGRAD_TEST_REQUIRE (a list with commas)
# names it: opencl, nvrtc.
#
# Runs in the build's top folder, and needs there tests/gen/emit_all, tests/gen/compile_opencl, tests/gen/compile_nvrtc; and
# srcdir in the environment, for the cells of tests/gen.  CC: the build's compiler.

here=$(pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/compile.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
trap 'exit 99' HUP INT TERM
jobs=$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
case ${srcdir:-.} in /*) ;; *) srcdir=$here/${srcdir:-.} ;; esac
export srcdir
number=0

ok()   { number=$((number + 1)); echo "ok $number - $*"; }
fail() { number=$((number + 1)); echo "not ok $number - $*"; }

# require WORD WHAT: a skip, or a failure where WORD is required.
skip() {
	case ",$CELLGRAD_TEST_REQUIRE," in
	*",$1,"*) fail "$2: required, but $3" ;;
	*)        ok "$2 # SKIP $3" ;;
	esac
}

# each N COMMAND...: runs COMMAND with N of the files that come in, several at a time.
each() { n=$1; shift; xargs -n "$n" -P "$jobs" "$@" >log 2>&1; }

# c COMPILER FLAG...: the C texts.
c() {
	with=$1
	if ! "$@" --version >/dev/null 2>&1; then
		ok "C with $with # SKIP there is no $with"
	elif ls -- *.c | each 8 "$@" -std=c11 -ffp-contract=off -Wall -Wextra -Werror; then
		ok "C with $with"
	else
		sed 's/^/# /' log | head -40
		fail "C with $with"
	fi
	rm -f -- *.o
}

# gpu WORD NAME PROGRAM FILES: a helper's verdict on all files.
gpu() {
	"$here/tests/gen/$3" >log 2>&1
	if [ $? -eq 77 ]; then
		skip "$1" "$2" "$(sed -n 's/^# //p;q' log)"
	elif ls -- *."$4" | each 12 "$here/tests/gen/$3"; then
		sed 's/: [0-9]* built.*//' log | sort -u
		ok "$2"
	else
		sed 's/^#* */# /' log | sort -u | head -40
		fail "$2"
	fi
}

echo 1..5
"$here/tests/gen/emit_all" "$work" || { echo "Bail out! the texts were not written"; exit 99; }
cd "$work" || exit 99
POCL_CACHE_DIR=$work
# What drivers keep to the end of the process is theirs.
ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0
export POCL_CACHE_DIR ASAN_OPTIONS

# Products are for GPUs' languages alone, and have a form for CPUs in OpenCL C.
ls -- *.c *.cl *.cu | grep -v '^cg_gemm_' | awk -F. '{ n[$2]++ } END { exit n["c"] < 100 || n["c"] != n["cl"] || n["c"] != n["cu"] }' &&
	ok "as many texts in each dialect" || fail "as many texts in each dialect"
CC=${CC:-cc}
case $($CC --version 2>/dev/null) in
*clang*) other=gcc ;;
*)       other=clang ;;
esac
c $CC -O1 -c
c $other -fsyntax-only
gpu opencl "OpenCL C" compile_opencl cl
gpu nvrtc  "CUDA C"   compile_nvrtc cu
