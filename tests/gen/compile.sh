#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every text compiles alone, without a warning: C by the build's compiler and by the other of gcc and clang, and as C++; OpenCL C
# by clang's front end and as the device that is there is given it, CUDA C by NVRTC.  Headers are right in C and C++, and names link across.  A tool that is missing
# is a skip, unless CELLGRAD_TEST_REQUIRE (a list with commas) names it: opencl, nvrtc.
#
# What NVRTC's kernels take of a GPU goes into a table, $table in the build's top folder.  CELLGRAD_TEST_ARCHS, as 75,80,90, says
# for which GPUs all texts are compiled, and then nothing but CUDA C is; else it is those of the built-in cells, of products and of rows
# for the oldest of CUDA 13, and those of bf16, which older GPUs have not, for the newest too.  Texts of the tests' cells, which are
# there for their names and forms, are then read by the front ends of NVRTC and clang alone.
#
#	compile.sh [opencl]     opencl: OpenCL C alone
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
table=tests/gen/cuda-resources.txt
number=0

ok()   { number=$((number + 1)); echo "ok $number - $*"; }
fail() { number=$((number + 1)); echo "not ok $number - $*"; }

# require WORD WHAT: a skip, or a failure where CELLGRAD_TEST_REQUIRE has WORD.
skip() {
	case ",$CELLGRAD_TEST_REQUIRE," in
	*",$1,"*) fail "$2: required, but $3" ;;
	*)        ok "$2 # SKIP $3" ;;
	esac
}

# each N COMMAND...: runs COMMAND with N of the files on its standard input at a time, several at once.
each() { n=$1; shift; xargs -n "$n" -P "$jobs" "$@" >log 2>&1; }

# read_by COMPILER: the C texts, by its front end.
read_by() {
	if ! $1 --version >/dev/null 2>&1; then
		ok "C with $1 # SKIP there is no $1"
		return
	fi
	ls -- *.c | each 8 "$1" -std=c11 -ffp-contract=off -Wall -Wextra -Werror -fsyntax-only
	verdict "C with $1"
}

# calls NAME LANGUAGE COMPILER...: a program in a language, c or cc, that includes every header and takes every function's address
# links with the objects that are here.
calls() {
	name=$1 program=../calls.$2
	shift 2
	{
		ls -- *.h | sed 's/.*/#include "&"/'
		echo 'typedef void any(void);'
		echo 'any *const all[] = {'
		sed -n 's/^void \(cg_[a-z0-9_]*\)($/	(any *)\1,/p' -- *.h
		echo '};'
		echo 'int main(void) { return sizeof all < 100 * sizeof *all; }'
	} >"$program"
	if "$@" -I. "$program" ./*.o -o ../calls -lm >log 2>&1 && ../calls; then
		ok "$name"
	else
		sed 's/^/# /' log | head -40
		fail "$name"
	fi
}

# objects LANGUAGE COMPILER FLAG...: compiles each C text with nothing before it and its header after it; texts of rows have no header.
objects() {
	language=$1
	shift
	with="$* -ffp-contract=off -Wall -Wextra -Werror -x $language"
	export with
	# shellcheck disable=SC2016 # the inner shell's
	ls -- *.c | each 8 sh -c 'for text; do
		header=${text%.c}.h; [ -f "$header" ] || header=/dev/null
		printf "#include \"%s\"\n" "$text" "$header" | $with -I. -c -o "${text%.c}.o" - || { echo "$text"; exit 1; }
	done' sh
}

# cpp: the C texts, whose objects exist already, are compiled as C++, too, and each language calls the other's objects.
cpp() {
	if [ -z "${CXX:-}" ] || ! $CXX --version >/dev/null 2>&1; then
		for what in "C's functions called from C++" "C texts as C++" "C++'s functions called from C"; do
			ok "$what # SKIP there is no C++ compiler"
		done
		rm -f -- *.o
		return
	fi
	calls "C's functions called from C++" cc $CXX -std=c++11
	rm -f -- *.o
	objects c++ "$CXX" -std=c++11 -pedantic -O0
	verdict "C texts as C++ by $CXX"
	calls "C++'s functions called from C" c $CC -std=c11
	rm -f -- *.o
}

# Texts by ending: those of the tests' cells, and the others.
of_tests() { sed "s/\$/.$1/" of-tests; }
built_in() { ls -- *."$1" | sort | comm -23 - "of-tests-$1"; }

# there WORD NAME PROGRAM: does the helper run here?  If not, prints a skip or a failure.
there() {
	"$here/tests/gen/$3" >log 2>&1
	[ $? -ne 77 ] || { skip "$1" "$2" "$(sed -n 's/^# //p;q' log)"; return 1; }
}

# verdict NAME: judges a helper by its exit status, and prints its output, in ./log.
verdict() {
	# shellcheck disable=SC2181 # several commands end here
	if [ $? -eq 0 ]; then
		sed 's/: [0-9]* built.*//' log | sort -u
		ok "$1"
	else
		sed 's/^#* */# /' log | sort -u | head -40
		fail "$1"
	fi
}

# Without a GPU, the text that a GPU is given is read by clang alone.
opencl() {
	if clang --version >/dev/null 2>&1; then
		ls -- *.cl | each 40 clang -x cl -cl-std=CL1.2 -Xclang -finclude-default-header -Wall -Werror -fsyntax-only
		verdict "OpenCL C with clang"
	else
		ok "OpenCL C with clang # SKIP there is no clang"
	fi
	there opencl "OpenCL C" compile_opencl || return
	built_in cl | each 12 "$here/tests/gen/compile_opencl"
	verdict "OpenCL C"
}

# compile ARCHS...: compiles the CUDA texts whose names are on standard input.
compile() { each 8 "$here/tests/gen/compile_nvrtc" "$@"; code=$?; cat log >>all; return $code; }

# Makes the table, and prints its largest numbers.  A product's kernel may spill registers; one over elements, or a sum, may not.
resources() {
	{
		echo "kernel arch registers spilled-bytes shared-bytes"
		sort -u table
	} | column_up >"$here/$table"
	awk '{ n[$2]++; product = $1 ~ /^cg_gemm_/; if ($4) spills[$2]++
			if ($3 > most[product, $2]) { most[product, $2] = $3; name[product, $2] = $1 } }
		END { for (a in n) printf "# sm_%d: %d kernels; at most %d registers (%s), products %d (%s); %d spill\n",
			a, n[a], most[0, a], name[0, a], most[1, a], name[1, a], spills[a] }' table | sort
	awk '$4 { print "# " $1 " spills " $4 " bytes on sm_" $2 }' table | sort
	echo "# the table: $table"
	if awk '$1 !~ /^cg_gemm_/ { seen++; spilled += $4 } END { exit !seen || spilled }' table; then
		ok "CUDA C: no kernel spills registers, except products"
	else
		fail "CUDA C: no kernel but a product spills"
	fi
}

column_up() { awk '{ printf "%-60s %5s %10s %14s %13s\n", $1, $2, $3, $4, $5 }'; }

# wide KEY: are runs moved by accesses of 16 bytes?
wide() {
	"$here/tests/gen/compile_nvrtc" ptx "$1.cu" >ptx
	for access in ld st; do
		grep -Eq "^[[:space:]]*$access\.global(\.[a-zA-Z0-9:_]+)*\.(v4\.[bfu]32|v2\.[bfu]64|v8\.[bfu]16|b128)[[:space:]]" ptx ||
			{ fail "CUDA C: runs are moved 16 bytes at once: not by $access in $1"; return 1; }
	done
}

cuda() {
	if ! there nvrtc "CUDA C" compile_nvrtc; then
		for what in "CUDA C: no kernel but a product spills" "CUDA C: runs are moved 16 bytes at once" "CUDA C: what gpu.sh measures"; do
			skip nvrtc "$what" "there is no NVRTC"
		done
		return
	fi
	: >all
	if [ -n "$CELLGRAD_TEST_ARCHS" ]; then
		ls -- *.cu | compile "$CELLGRAD_TEST_ARCHS"
	else
		built_in cu | grep _bf16 | compile 75,120 && built_in cu | grep -v _bf16 | compile 75 && of_tests cu | compile read
	fi
	code=$?
	grep '^cg_' all >table
	grep -v '^cg_' all >log
	(exit $code)
	verdict "CUDA C"
	resources
	for key in cg_lstm_block_f32_grad cg_lstm_block_f16_grad cg_lstm_block_bf16_forward cg_lstm_block_f64_forward \
		cg_rows_f32_drop cg_rows_f64; do
		wide $key || return
	done
	ok "CUDA C: runs are loaded and stored 16 bytes at a time"
	# Those with clusters need architecture 90 or later.
	"$here/tests/gen/compile_nvrtc" 90,120 "$srcdir/tests/gpu_micro.cu" >all 2>&1
	code=$?
	grep "^#" all >log
	(exit $code)
	verdict "CUDA C: what gpu.sh measures"
}

if [ "$1" = opencl ]; then echo 1..2; elif [ -n "$CELLGRAD_TEST_ARCHS" ]; then echo 1..4; else echo 1..12; fi
"$here/tests/gen/emit_all" "$work" || { echo "Bail out! the texts were not written"; exit 99; }
cd "$work" || exit 99
for ending in cl cu; do of_tests $ending | sort >"of-tests-$ending"; done
POCL_CACHE_DIR=$work
# Memory that drivers keep until the process ends.
ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0
export POCL_CACHE_DIR ASAN_OPTIONS

if [ "$1" = opencl ]; then opencl; exit; fi
if [ -n "$CELLGRAD_TEST_ARCHS" ]; then cuda; exit; fi
# Products are in the languages of GPUs alone, and in OpenCL C have a form for CPUs; several moves in one launch are in CUDA C alone, all
# steps in C.
ls -- *.c *.cl *.cu | grep -v -e '^cg_gemm_' -e '^cg_rows_moves_' -e '_scan\.c$' |
	awk -F. '{ n[$2]++ } END { exit n["c"] < 100 || n["c"] != n["cl"] || n["c"] != n["cu"] }' &&
	ok "every dialect has the same number of texts" || fail "every dialect has the same number of texts"
CC=${CC:-cc}
case $($CC --version 2>/dev/null) in
*clang*) other=gcc ;;
*)       other=clang ;;
esac
objects c "$CC" -std=c11 -O1
verdict "C with $CC"
cpp
read_by $other
opencl
cuda
