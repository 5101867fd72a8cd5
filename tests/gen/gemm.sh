#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Matrix products run right on the OpenCL device that is there.  Where there is none that is a skip, unless CELLGRAD_TEST_REQUIRE
# (a list with commas) names opencl.
#
#	gemm.sh [CASES]     CASES: products of each kernel, 100 if not given
#
# Runs in the build's top folder, and needs there tests/gen/gemm_run.

work=$(mktemp -d "${TMPDIR:-/tmp}/gemm.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
trap 'exit 99' HUP INT TERM
POCL_CACHE_DIR=$work
unset POCL_EXTRA_BUILD_FLAGS           # optimised
# Memory that drivers keep until the process ends.
ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0
export POCL_CACHE_DIR ASAN_OPTIONS

echo 1..1
what="products on the OpenCL device"
tests/gen/gemm_run "$@" >"$work/out" 2>"$work/err"
case $? in
0)  cat "$work/out"; echo "ok 1 - $what" ;;
77) why=$(sed -n 's/^# //p' "$work/out" | tail -n 1)
    case ",$CELLGRAD_TEST_REQUIRE," in
    *,opencl,*) echo "not ok 1 - $what: required, but $why" ;;
    *)          echo "ok 1 - $what # SKIP $why" ;;
    esac ;;
*)  cat "$work/out"; sed 's/^/# /' "$work/err"; echo "not ok 1 - $what" ;;
esac
