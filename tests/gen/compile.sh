#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Each text of emit_all compiles alone, without a warning: C by the build's compiler, as C++, and by the front end of the other one of gcc
# and clang; OpenCL C by clang's front end and by the driver of an OpenCL device; CUDA C by NVRTC.  The texts' headers are right in C and
# C++, and C and C++ link with each other's functions.  If a tool is missing, its tests are skipped; they fail if it is an OpenCL device or
# NVRTC, and CELLGRAD_TEST_REQUIRE (a list with commas) has opencl or nvrtc.
#
# The registers and the memory of each CUDA kernel that is compiled to machine code are written to a table, $table in the build's top
# folder.  With CELLGRAD_TEST_ARCHS, such as 75,80,90, all CUDA texts are compiled for those of these GPU architectures that NVRTC knows,
# and no other language is tested.
# Without CELLGRAD_TEST_ARCHS, the CUDA texts of the built-in cells, of products and of rows are compiled for the oldest architecture of
# CUDA 13, and those of bf16 for a new one, too.  In CUDA C and OpenCL C, the front ends of NVRTC and clang alone read the texts of f64,
# whose equations are those of f32.  They alone also read the texts of cells that are not built in, such as those that test names and
# forms; as C++, too, these texts are only read.  An OpenCL device's driver builds texts of f32 and bf16 alone.
#
#	compile.sh [opencl]     opencl: tests no language but OpenCL C; the driver of the OpenCL device builds the texts of all dtypes
#
# Runs in the build's top folder, and needs tests/gen/emit_all, tests/gen/compile_opencl and tests/gen/compile_nvrtc there.  srcdir: the
# source, for the cells of tests/gen; CC: the build's compiler.

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

# skip WORD NAME REASON: prints that a test is skipped, or that it failed if CELLGRAD_TEST_REQUIRE has WORD.
skip() {
	case ",$CELLGRAD_TEST_REQUIRE," in
	*",$1,"*) fail "$2: required, but $3" ;;
	*)        ok "$2 # SKIP $3" ;;
	esac
}

# each N COMMAND...: reads names of files, and runs COMMAND with N of them at a time, in several processes at once.
each() { n=$1; shift; xargs -n "$n" -P "$jobs" "$@" >log 2>&1; }

# read_texts COMPILER FLAG...: checks the C texts whose names are on standard input by the front end of a compiler.
read_texts() { each 8 "$@" -ffp-contract=off -Wall -Wextra -Werror -fsyntax-only; }

# read_by COMPILER: checks all C texts by the front end of a compiler.
read_by() {
	if ! $1 --version >/dev/null 2>&1; then
		ok "C with $1 # SKIP there is no $1"
		return
	fi
	ls -- *.c | read_texts "$1" -std=c11
	verdict "C with $1"
}

# calls NAME LANGUAGE COMPILER...: writes a program in LANGUAGE, c or c++, that includes the headers of texts with object files and takes
# the address of every function that these headers declare, at least 100; links the program with the object files, and runs it.
calls() {
	name=$1 language=$2
	shift 2
	for object in *.o; do
		header=${object%o}h
		[ ! -f "$header" ] || echo "$header"
	done >headers
	{
		sed 's/.*/#include "&"/' headers
		echo 'typedef void any(void);'
		echo 'any *const all[] = {'
		xargs sed -n 's/^void \(cg_[a-z0-9_]*\)($/	(any *)\1,/p' <headers
		echo '};'
		echo 'int main(void) { return sizeof all < 100 * sizeof *all; }'
	} >program
	if "$@" -I. -x "$language" program -x none ./*.o -o calls -lm >log 2>&1 && ./calls; then
		ok "$name"
	else
		sed 's/^/# /' log | head -40
		fail "$name"
	fi
}

# objects LANGUAGE COMPILER FLAG...: compiles the C texts whose names are on standard input, each by a file that includes the text and then
# the text's header; texts of rows have no header.
objects() {
	language=$1
	shift
	with="$* -ffp-contract=off -Wall -Wextra -Werror -x $language"
	export with
	# shellcheck disable=SC2016 # the inner shell expands these
	each 8 sh -c 'for text; do
		header=${text%.c}.h; [ -f "$header" ] || header=/dev/null
		printf "#include \"%s\"\n" "$text" "$header" | $with -I. -c -o "${text%.c}.o" - || { echo "$text"; exit 1; }
	done' sh
}

# cpp: tests the C texts as C++.  C++ links with the functions of the object files that C made before; then the texts of the built-in cells
# and of rows are compiled as C++, and C links with their functions.  Of the other texts the front end reads the C++.
cpp() {
	if [ -z "${CXX:-}" ] || ! $CXX --version >/dev/null 2>&1; then
		for what in "C's functions linked into C++" "C texts as C++" "C++'s functions linked into C"; do
			ok "$what # SKIP there is no C++ compiler"
		done
		rm -f -- *.o
		return
	fi
	calls "C's functions linked into C++" c++ $CXX -std=c++11
	rm -f -- *.o
	built_in c | objects c++ "$CXX" -std=c++11 -pedantic -O0 && of_tests c | read_texts "$CXX" -x c++ -std=c++11 -pedantic
	verdict "C texts as C++ by $CXX"
	calls "C++'s functions linked into C" c $CC -std=c11
	rm -f -- *.o
}

# of_tests ENDING, built_in ENDING: print the texts with an ending: those of the cells that are not built in, and all others.
of_tests() { sed "s/\$/.$1/" of-tests; }
built_in() { ls -- *."$1" | sort | comm -23 - "of-tests-$1"; }

# there WORD NAME PROGRAM: can a helper program of tests/gen run on this machine?  If the program cannot run, prints a skip or a failure.
there() {
	"$here/tests/gen/$3" >log 2>&1
	[ $? -ne 77 ] || { skip "$1" "$2" "$(sed -n 's/^# //p;q' log)"; return 1; }
}

# verdict NAME: prints a line of TAP about the last command by its exit status, and the command's output, which is in ./log.
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

# opencl PATTERN: tests the OpenCL C texts; the driver builds those whose names match the pattern.  If the OpenCL device is a processor, the
# driver builds the form for strips of each text that has one, and only clang reads the form for GPUs.
opencl() {
	if clang --version >/dev/null 2>&1; then
		ls -- *.cl | each 40 clang -x cl -cl-std=CL1.2 -Xclang -finclude-default-header -Wall -Werror -fsyntax-only
		verdict "OpenCL C with clang"
	else
		ok "OpenCL C with clang # SKIP there is no clang"
	fi
	there opencl "OpenCL C" compile_opencl || return
	built_in cl | grep -E "$1" | each 12 "$here/tests/gen/compile_opencl"
	verdict "OpenCL C"
}

# compile ARCHS...: compiles the CUDA texts whose names are on standard input.
compile() { each 8 "$here/tests/gen/compile_nvrtc" "$@"; code=$?; cat log >>all; return $code; }

# resources: writes the table of resources, and prints, for each architecture, the most registers and which kernels spill.  Kernels of
# products may spill registers; kernels over elements, sums and moves of rows may not.
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
		fail "CUDA C: no kernel spills registers, except products"
	fi
}

column_up() { awk '{ printf "%-60s %5s %10s %14s %13s\n", $1, $2, $3, $4, $5 }'; }

# wide KEY: has the PTX of a kernel a load of 16 bytes and a store of 16 bytes?  If either is missing, prints a failure.
wide() {
	"$here/tests/gen/compile_nvrtc" ptx "$1.cu" >ptx
	for access in ld st; do
		grep -Eq "^[[:space:]]*$access\.global(\.[a-zA-Z0-9:_]+)*\.(v4\.[bfu]32|v2\.[bfu]64|v8\.[bfu]16|b128)[[:space:]]" ptx ||
			{ fail "CUDA C: six kernels have loads and stores of 16 bytes: no $access in $1"; return 1; }
	done
}

cuda() {
	if ! there nvrtc "CUDA C" compile_nvrtc; then
		for what in "CUDA C: no kernel spills registers, except products" "CUDA C: six kernels have loads and stores of 16 bytes" "CUDA C: the kernels that gpu.sh measures"; do
			skip nvrtc "$what" "there is no NVRTC"
		done
		return
	fi
	: >all
	if [ -n "$CELLGRAD_TEST_ARCHS" ]; then
		ls -- *.cu | compile "$CELLGRAD_TEST_ARCHS"
	else
		built_in cu | grep _bf16 | compile 75,120 && built_in cu | grep -v -e _bf16 -e _f64 | compile 75 &&
			{ built_in cu | grep _f64; of_tests cu; } | compile read
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
	ok "CUDA C: six kernels have loads and stores of 16 bytes"
	# gpu_micro.cu is compiled for architectures 90 and 120, since its kernels with clusters need 90 or later.
	"$here/tests/gen/compile_nvrtc" 90,120 "$srcdir/tests/gpu_micro.cu" >all 2>&1
	code=$?
	grep "^#" all >log
	(exit $code)
	verdict "CUDA C: the kernels that gpu.sh measures"
}

if [ "$1" = opencl ]; then echo 1..2; elif [ -n "$CELLGRAD_TEST_ARCHS" ]; then echo 1..4; else echo 1..12; fi
"$here/tests/gen/emit_all" "$work" || { echo "Bail out! the texts were not written"; exit 99; }
cd "$work" || exit 99
for ending in c cl cu; do of_tests $ending | sort >"of-tests-$ending"; done
POCL_CACHE_DIR=$work
# The leak sanitizer is off, since OpenCL drivers keep memory until the process ends.
ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0
export POCL_CACHE_DIR ASAN_OPTIONS

if [ "$1" = opencl ]; then opencl .; exit; fi
if [ -n "$CELLGRAD_TEST_ARCHS" ]; then cuda; exit; fi
# The count leaves out texts that not every language has: products are not in C, and in OpenCL C also have a form for CPUs; several moves in
# one launch are in CUDA C alone; scans, which compute all steps of a sequence, are in C alone.
ls -- *.c *.cl *.cu | grep -v -e '^cg_gemm_' -e '^cg_rows_moves_' -e '_scan\.c$' |
	awk -F. '{ n[$2]++ } END { exit n["c"] < 100 || n["c"] != n["cl"] || n["c"] != n["cu"] }' &&
	ok "the dialects have equal numbers of texts of passes and of single moves of rows, at least 100" ||
	fail "the dialects have equal numbers of texts of passes and of single moves of rows, at least 100"
CC=${CC:-cc}
case $($CC --version 2>/dev/null) in
*clang*) other=gcc ;;
*)       other=clang ;;
esac
ls -- *.c | objects c "$CC" -std=c11 -O1
verdict "C with $CC"
cpp
read_by $other
opencl '_(f32|bf16)'
cuda
