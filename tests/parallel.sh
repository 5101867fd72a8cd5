#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Runs examples/parallel.c on two and more ranks: the loss falls, the weights are equal to the bit on all ranks, and the gradient is that of
# the whole batch, within the reference's bound. The tests are skipped if there is no MPI, unless CELLGRAD_TEST_REQUIRE has mpi.
# Runs in the build tree. srcdir: the source; CC, SANITIZE, BUILD_CFLAGS: how the library was compiled.
set -u
srcdir=${srcdir:-.}
scratch=$(mktemp -d) || exit 99
trap 'rm -rf "$scratch"' EXIT
why=$scratch/why n=0
limit=$(command -v timeout >/dev/null && echo 'timeout 120')

report()
{
	n=$((n + 1))
	if [ "$1" -eq 0 ]; then echo "ok $n - $2"; else sed 's/^/# /' "$why"; echo "not ok $n - $2"; fi
}

# skip_unless WHAT REASON: skips all tests of this script, unless CELLGRAD_TEST_REQUIRE has WHAT.
skip_unless()
{
	case ,${CELLGRAD_TEST_REQUIRE-}, in *,"$1",*) return ;; esac
	echo "1..0 # SKIP $2"
	exit 0
}

for tool in mpicc mpirun; do
	command -v $tool >/dev/null || skip_unless mpi "there is no $tool"
done
case ${SANITIZE-} in *thread*) skip_unless shared 'MPI is not built for the thread sanitizer' ;; esac
[ -e .libs/libcellgrad.so ] || skip_unless shared 'there is no shared library'

# Open MPI refuses to run as root or with more ranks than processors: these variables of its old and new versions allow both.  TMPDIR
# makes Open MPI write its temporary files to $scratch.
# MPI leaks memory at exit, so the address sanitizer does not look for leaks.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
export OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe
export TMPDIR="$scratch" ASAN_OPTIONS="${ASAN_OPTIONS:+$ASAN_OPTIONS:}detect_leaks=0"
# Each rank has one thread, because the ranks share the processors: with more threads, a rank would wait for threads of other ranks.
export CELLGRAD_CPU_THREADS=1 LD_LIBRARY_PATH="$PWD/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"

# run RANKS OPTION...: runs the example, with $placed as mpirun's options; its output is in the file `printed`.
placed=
run()
{
	ranks=$1
	shift
	# shellcheck disable=SC2086 # lists of words
	CELLGRAD_BACKEND=cpu $limit mpirun -n "$ranks" $placed "$scratch/parallel" "$@" >"$scratch/printed" 2>"$why"
}

equal() { grep -q "^$1 ranks: weights equal to the bit: yes\$" "$scratch/printed" || { cat "$scratch/printed" >>"$why"; false; }; }

# checked T B I U L: compares the example's gradient with the reference's; prints the largest share of the bound.
checked() { tests/parallel_check "$scratch/first" "$@" >"$why" 2>&1 && sed 's/^/# /' "$why"; }

falls()
{
	awk '/^step/ { if (!n++) first = $4; last = $4 } END { exit !(n == 10 && last < 0.9 * first) }' "$scratch/printed" ||
		{ cat "$scratch/printed" >>"$why"; false; }
}

echo 1..6
# shellcheck disable=SC2086 # lists of words
OMPI_CC="${CC:-cc}" MPICH_CC="${CC:-cc}" mpicc -O2 -Wall -Wextra -Werror ${SANITIZE:-} -I"$srcdir/runtime" "$srcdir/examples/parallel.c" \
	-o "$scratch/parallel" -L.libs -lcellgrad >"$why" 2>&1
report $? 'the example is compiled by mpicc'

# The sequences are short, since the reference's bound, which assumes the largest error of each rounding, grows with the steps.
for ranks in 2 3; do
	run $ranks && equal $ranks && falls && run $ranks -T 5 -B 7 -U 6 -L 2 -n 2 -o "$scratch/first" && equal $ranks && checked 5 7 8 6 2
	report $? "$ranks ranks: the loss falls, weights are equal, the gradient is that of the whole batch"
done

# The batch has two rows for four ranks, so that two ranks have no row.
run 4 -B 2 -T 3 -U 5 -L 1 -n 2 -o "$scratch/first" && equal 4 && checked 3 2 8 5 1
report $? 'a rank without rows of the batch adds nothing to the gradient'

if mpirun --version 2>&1 | grep -q 'Open MPI'; then
	placed='--map-by slot:PE=1 --bind-to core'
	run 2 && equal 2 && falls
	report $? 'ranks are bound to processors by the options of Open MPI in docs/scaling.md'
	placed=
else
	n=$((n + 1))
	echo "ok $n - ranks are bound to processors # SKIP mpirun is not Open MPI's"
fi

! run 2 -B nothing && grep -q 'expected -B' "$why" && ! run 2 -U 1048576 -n 1 && grep -q 'parallel: ' "$why" &&
	! run 2 -n 1 -o "$scratch/none/first" && grep -q 'cannot be written' "$why"
report $? 'a failure ends all ranks and prints the reason'
