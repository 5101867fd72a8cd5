#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# A new built-in cell needs only a file of equations and one name.  toy.patch adds such a cell to a copy of the source, which is built; then
# tests of the generator and of kernels include the cell, and its networks are right on each backend that opens, forward and backward.
# Runs in a configured build tree, in its folder toy/, which is not removed. srcdir: the source; MAKE: make.
set -u
srcdir=$(cd "${srcdir:-.}" && pwd) || exit 99
make=${MAKE:-make}
jobs=-j$(nproc 2>/dev/null || echo 2)
unset MAKEFLAGS MFLAGS MAKELEVEL
# CC, CXX, CELLGEN and the other variables here name compilers and files of this build, not those of the build of the copy.
unset CC CXX CELLGEN CELLGRAD EXAMPLE LIBRARY ARCHIVE
n=0 failed=0

# report STATUS NAME: prints a line of TAP, and the last lines of output if the test failed; status 77 is a skip.
report()
{
	n=$((n + 1))
	case $1 in
	0)  echo "ok $n - $2" ;;
	77) echo "ok $n - $2 # SKIP $(tail -n 1 out | sed 's/^# *//')" ;;
	*)  failed=1; tail -n 30 out | sed 's/^/# /'; echo "not ok $n - $2" ;;
	esac
}

# on BACKEND COMMAND...: runs a command on a backend; on cuda, with the stand-ins for CUDA's libraries.
on()
{
	backend=$1
	shift
	case $backend in
	cuda) CELLGRAD_BACKEND=cuda tests/fake/run "$@" ;;
	*)    CELLGRAD_BACKEND=$backend "$@" ;;
	esac
}

if ! command -v patch >/dev/null || ! command -v automake >/dev/null; then
	echo '1..0 # SKIP it takes patch and automake'
	exit 0
fi
[ -f config.status ] || { echo 'Bail out! not a configured build tree'; exit 99; }
chmod -R u+w toy 2>/dev/null
rm -rf toy && mkdir toy || exit 99
$make -s distdir distdir=toy/source >toy/out 2>&1 || { sed 's/^/# /' toy/out; echo 'Bail out! make distdir'; exit 99; }
chmod -R u+w toy/source
mkdir toy/build
cd toy/build || exit 99

echo 1..9
(cd ../source && patch -p1) <"$srcdir/tests/toy.patch" >out 2>&1
report $? 'the patch applies'
[ "$(sed -n '/^+++ .*toy.cell/q; /^[+-][^+-]/p' "$srcdir/tests/toy.patch")" = "$(printf '+\t%%D%%/toy.cell \\')" ]
report $? 'the patch adds a cell file and one name'
{ eval "../source/configure -q $(../../config.status --config)" && $make $jobs && $make $jobs check TESTS=; } >out 2>&1
report $? 'the source builds with the cell'
tests=$(cd ../source && ls tests/gen/*_test.c | sed 's/\.c$//; /floats_test/d' | tr '\n' ' ')
$make $jobs check TESTS="$tests tests/gen/golden.sh tests/gen/compile.sh tests/gen/oclgrind.sh tests/op/kernel_run_test tests/conformance/bits_test" >out 2>&1
report $? 'the tests of the generator, but for floats_test, and of kernels pass'

# The gradients of the cell's networks are compared with differences, and networks in other dtypes with those in f64; kernels in OpenCL and
# CUDA must have the bits of the cpu's kernels.
for backend in cpu opencl cuda; do
	if on $backend tests/sequence/sequence --opens >out 2>&1; then
		CELLGRAD_TEST_CELL=toy on $backend tests/sequence/sequence test_cells >out 2>&1 &&
			grep -q '^ok 1 - test_cells$' out &&
			CELLGRAD_TEST_CELL=toy on $backend tests/sequence/sequence test_dtypes >out 2>&1
		report $? "networks of the cell are right on $backend"
	else
		report 77 "networks of the cell are right on $backend"
	fi
done
for backend in opencl cuda; do
	if [ -x cellgrad ] && on $backend tests/sequence/sequence --opens >out 2>&1; then
		on $backend ./cellgrad check toy --backend $backend --ref cpu >out 2>&1
		report $? "kernels of the cell on $backend have the bits of those on the cpu"
	else
		echo 'there is no device, or no command' >>out
		report 77 "kernels of the cell on $backend have the bits of those on the cpu"
	fi
done
[ $failed -eq 0 ]
