#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs the conformance suite, the suite of sequences and, except in native rows, tests of the generator as on x86-64 processors that are
# older than this one, or as old.
#	cpu.sh [NAME...]      names of rows of the list `rows`; without names all
# A row is a processor that qemu-user emulates, an instruction set of the cpu backend on this processor, or PoCL as on a processor without
# some of this one's instructions (older.c).  A row that cannot run here is a skip with its reason.  Each row prints what ran, how many
# tests passed and how many seconds they took; the last line has totals.
#
# Under qemu only a part of the suites runs, that of suites_emulated in job_queue.sh.  change_test and limit_test are left out,
# since they depend on no processor.  The OpenCL backend computes one op under qemu, since PoCL's compiler takes half a minute
# for each op there; the rows pocl-* have more tests of the OpenCL backend.
#
# Runs in the build's top folder after "make check TESTS=".  make cpucheck sets the environment variables: srcdir; UNIT, the unit tests;
# CC, CFLAGS, SANITIZE, with which the build was configured; CELLGRAD, the command.
# Exit status: 0 if all that could run passed; 1 if a test failed; 77 if nothing could run.

# The columns are the name of a row, its kind, its processor, and the instruction set of the kernels that must run, or for PoCL the bytes
# of its vectors.
rows='
qemu-nehalem  emulated Nehalem        baseline
qemu-haswell  emulated Haswell        avx2
qemu-skylake  emulated Skylake-Server avx512
baseline      native   Prescott       baseline
avx2          native   Haswell        avx2
avx512        native   SkylakeX       avx512
avx512bf16    native   Cooperlake     avx512bf16
amxbf16       native   SapphireRapids amxbf16
pocl-nehalem  pocl     nehalem        16
pocl-haswell  pocl     haswell        32
'
. "$(dirname "$0")/job_queue.sh"

generator() {
	for test in $UNIT; do
		case $test in
		*/gen/change_test|*/gen/limit_test) ;;
		*/gen/*) unit "$test" ;;
		esac
	done
}

# ---- rows ----

# opens: does the cpu backend open, with kernels for the row's instruction set?  The suite's line about the backend is in $about.
opens() {
	about=$($run tests/conformance/conformance --opens 2>"$work/err") || {
		fail "the cpu backend opens: $about $(grep -v warning "$work/err" | tail -n 1)"
		return 1
	}
	case $about in
	*"kernels $wanted;"*) say "$name: $about" ;;
	*)                    return 2 ;;
	esac
}

emulated() {
	qemu=$(command -v qemu-x86_64 || command -v qemu-x86_64-static) || { leave 'there is no qemu-x86_64 (Debian: qemu-user)'; return; }
	case " $CFLAGS $CC $SANITIZE " in
	*' -march='*|*' -mcpu='*|*' -m'[asf]*) leave "this build is for some processors alone: $CC $CFLAGS"; return ;;
	*' -fsanitize='*) leave 'sanitizers do not run under qemu'; return ;;
	esac
	run="./libtool --silent --mode=execute $qemu -cpu $1"
	CELLGRAD_BACKEND=cpu opens
	case $? in
	1) return ;;
	2) leave "$("$qemu" --version | sed 's/ (.*//; q') does not play a processor with $wanted: ${about%%;*}"; return ;;
	esac
	ran=$((ran + 1))
	export CELLGRAD_BACKEND=cpu CELLGRAD_OPENCL_LIB=/none
	generator
	unit tests/conformance/bits_test tests/verify/data_test tests/backends/cpu/product_test tests/backends/gather_scatter_test
	suites_emulated
	opencl_emulated
	run_queue
	unset CELLGRAD_BACKEND CELLGRAD_OPENCL_LIB
}

# Queues a job that computes one op by OpenCL under qemu; the job is a skip if `cellgrad info` prints that OpenCL does not open there.
opencl_emulated() {
	case $CELLGRAD in ?*) [ -x "$CELLGRAD" ] ;; *) false ;; esac || return
	data=$srcdir/tests/data/GRUBlockCell-plain
	queue 'GRUBlockCell by OpenCL' "
		unset CELLGRAD_OPENCL_LIB
		export CELLGRAD_BACKEND=opencl POCL_CACHE_DIR=$work
		$run $CELLGRAD info --why opencl | grep -q '^opencl: opens' || { echo 'ok 1 - the backend opens # SKIP there is no device'; exit; }
		$run $CELLGRAD run GRUBlockCell $data.safetensors --expect $data.expect.safetensors && echo ok"
}

# Runs the suites conformance and sequence with the kernels of the row's instruction set, and with OpenBLAS's products for a processor that
# has that instruction set.
native() {
	grep -qw "^$wanted" "$work/has" || { leave "this processor, or this build, has no $wanted"; return; }
	run=
	export CELLGRAD_BACKEND=cpu CELLGRAD_CPU_ISA="$wanted" OPENBLAS_CORETYPE="$1"
	if opens; then
		ran=$((ran + 1))
		suite conformance '*'
		suite sequence '*'
		run_queue
		export CELLGRAD_TEST_ROUTE=composed
		suite conformance 'rnn*'
		suite sequence '*'
		run_queue
		unset CELLGRAD_TEST_ROUTE
	fi
	unset CELLGRAD_BACKEND CELLGRAD_CPU_ISA OPENBLAS_CORETYPE
}

pocl() {
	case $SANITIZE in *address*|*thread*) leave 'a sanitizer must come first in a program'; return ;; esac
	${CC:-cc} -std=c11 -O1 -shared -fPIC -o "$work/older.so" "$tests/older.c" -ldl >"$work/err" 2>&1 || {
		leave "older.c is not compiled here: $(tail -n 1 "$work/err")"
		return
	}
	run="env LD_PRELOAD=$work/older.so OLDER_PROCESSOR=$1"
	export CELLGRAD_BACKEND=opencl POCL_CACHE_DIR="$work/pocl-$1"
	[ ! -f /etc/OpenCL/vendors/pocl.icd ] || export OCL_ICD_VENDORS=/etc/OpenCL/vendors/pocl.icd
	mkdir -p "$POCL_CACHE_DIR"
	unset POCL_EXTRA_BUILD_FLAGS           # PoCL then optimises kernels
	about=$($run tests/gen/compile_opencl | sed 's/^# //; s/: 0 built.*//; q')
	case $about in
	'Portable Computing Language,'*"vectors of $wanted bytes")
		say "$name: $about"
		ran=$((ran + 1))
		queue 'gen/compile.sh opencl' "exec $run sh $tests/gen/compile.sh opencl"
		queue 'gen/gemm.sh' "exec $run sh $tests/gen/gemm.sh 30"
		unit tests/gen/halves_test tests/backends/gather_scatter_test tests/backends/opencl/opencl_device_test
		suite conformance '*f32: every*' '*f64: every*' '*f16: every*' '*bf16: every*' 'rnn*'
		suite sequence test_step_by_step test_chunks test_modes test_block_lstm test_golden_sums
		run_queue ;;
	'Portable Computing Language,'*)
		leave "PoCL has an LLVM that older.c does not change, or this processor is older still: $about" ;;
	*)  leave "no PoCL: $about" ;;
	esac
	unset CELLGRAD_BACKEND POCL_CACHE_DIR OCL_ICD_VENDORS
}

row() {
	name=$1 kind=$2 with=$3 wanted=$4
	$kind "$with"
	cd "$here" || exit 99
}

case $(uname -m) in
x86_64|amd64) ;;
*) echo "1..0 # SKIP these are rows of x86-64, and this is $(uname -m)"; exit 77 ;;
esac
unset CELLGRAD_BACKEND CELLGRAD_CPU_ISA CELLGRAD_CPU_THREADS CELLGRAD_OPENCL_LIB
for isa in baseline avx2 avx512 avx512bf16 amxbf16; do
	CELLGRAD_BACKEND=cpu CELLGRAD_CPU_ISA=$isa tests/conformance/conformance --opens >/dev/null && echo "$isa"
done >"$work/has" 2>/dev/null
echo "$rows" >"$work/rows"
while read -r row rest; do
	# shellcheck disable=SC2086
	case " ${*:-$row} " in *" $row "*) [ -z "$row" ] || row "$row" $rest </dev/null ;; esac
done <"$work/rows"
finish
