#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The kernels of matrix products give right answers on an OpenCL device.  If there is no device, the test is skipped, unless
# CELLGRAD_TEST_REQUIRE (a list with commas) names opencl.
#
#	gemm.sh [CASES [f32]]    CASES: the number of products by each kernel; f32: the driver optimises kernels of f32 alone, since an
#	                         optimised kernel takes three times as long to make.  Without arguments: 100 f32
#
# Runs in the build's top folder, and needs tests/gen/gemm_run there.

work=$(mktemp -d "${TMPDIR:-/tmp}/gemm.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
trap 'exit 99' HUP INT TERM
POCL_CACHE_DIR=$work
unset POCL_EXTRA_BUILD_FLAGS           # PoCL then optimises kernels
# The leak sanitizer is off, since OpenCL drivers keep memory until the process ends.
ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0
export POCL_CACHE_DIR ASAN_OPTIONS

echo 1..1
what="products on the OpenCL device are right"
[ $# -gt 0 ] || set -- 100 f32
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
