#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# mutate.sh [ID...]: plants each defect of tests/mutants, or the named ones, in a copy of the source; the tests of a defect must fail.
# Runs in a configured build tree, in the folder mutate/ of that, with one build in which only the files that a defect changes are
# compiled again.  A test that hangs counts as failed.  A defect is left out if all its tests are skipped on this machine.  The tests in
# tests/frameworks need a Python with PyTorch, ONNX, JAX or TensorFlow, which CELLGRAD_TEST_PYTHON names; with torch, onnx, jax or
# tensorflow in CELLGRAD_TEST_REQUIRE it is a failure if no Python has that framework.
# mutate.sh --since COMMIT: plants the defects of the files that differ from that commit.
# mutate.sh --applies [FILE]: only checks that each defect of tests/mutants, or of FILE, changes its file and names tests that exist.
set -u
top=$(cd "$(dirname "$0")/.." && pwd) || exit 1
list=$top/tests/mutants
make=${MAKE:-make}
jobs=-j$(nproc 2>/dev/null || echo 2)
limit=$(command -v timeout >/dev/null && echo "timeout 7200")
unset MAKEFLAGS MFLAGS MAKELEVEL

die() { echo "Bail out! $*"; exit 1; }

# programs TESTS: prints what make must build for the tests; exit status 1 if that is everything.
programs()
{
	for test in $1; do
		case $test in
		*.fake) echo "${test%.fake}" ;;
		*.on)   echo "${test%/*}/$(basename "${test%/*}")" ;;
		check | build | */gpu_rehearsal.sh) return 1 ;;
		*.*)    echo script-programs ;;
		*)      echo "$test" ;;
		esac
	done
	[ ! -f tests/fake/lib/built ] || echo tests/fake/lib/built
}

# run TESTS: builds no more than the tests need, then runs them.  $red lists the tests that failed, and has "build" if the build failed.
run()
{
	red=
	find . -name '*.trs' -exec rm -f {} +
	if needed=$(programs "$1"); then
		goals="$needed" only='check_PROGRAMS= check_LTLIBRARIES= check_DATA='
	else
		goals='check TESTS=' only=
	fi
	# shellcheck disable=SC2086 # lists
	if ! $limit $make $jobs $goals >build.out 2>&1 </dev/null; then
		red=build
		return
	fi
	# shellcheck disable=SC2086
	case $1 in
	check) $limit $make $jobs check >check.out 2>&1 </dev/null ;;
	*)     $limit $make $jobs check-TESTS $only TESTS="$1" >check.out 2>&1 </dev/null ;;
	esac && return
	red=$(find . -name '*.trs' -exec grep -lE '^:global-test-result: (FAIL|ERROR|XPASS)' {} + |
		sed 's,^\./,,; s,\.trs$,,' | tr '\n' ' ')
	# A test that was killed has left no .trs file with its result, and counts as failed.
	for test in $1; do
		case $test in check|build) ;; *) [ -f "${test%.*}.trs" ] || red="$red ${test%.*}" ;; esac
	done
	red=${red:-check}
}

# split FOLDER: writes the lines of each defect to files FOLDER/ID.KEY, and the names of all defects to FOLDER/ids.
split()
{
	awk -v rows="$1" '
		/^#/ { next }
		/^$/ { id = ""; next }
		$1 == "id" { id = $2; print id > (rows "/ids"); next }
		{ key = $1; sub(/^[a-z]+[ \t]+/, ""); print > (rows "/" id "." key) }
	' "$list"
}

# listed: prints the names in tests/local.mk and tests/fake/local.mk and the files of tests/frameworks, one on a line, without folders and
# endings.
listed()
{
	{ grep -hv '^#' "$top/tests/local.mk" "$top/tests/fake/local.mk"; ls "$top/tests/frameworks"; } | tr ' \t' '\n\n' | sed -n 's,^%D%/,,; s,^.*/,,; s,\.[a-z]*$,,p; p' | sort -u
}

applies()
{
	rows=$(mktemp -d) || exit 1
	trap 'rm -rf "$rows"' EXIT
	split "$rows"
	echo 1..1
	n=0 wrong=0
	known=" check build $(listed | tr '\n' ' ')"
	while read -r id; do
		n=$((n + 1))
		[ -f "$rows/$id.sed" ] && [ -f "$rows/$id.file" ] && [ -f "$rows/$id.tests" ] && [ -f "$rows/$id.why" ] ||
			{ echo "# $id: a line is missing"; wrong=$((wrong + 1)); continue; }
		file=$top/$(cat "$rows/$id.file")
		if ! [ -f "$file" ]; then
			echo "# $id: no file $(cat "$rows/$id.file")"; wrong=$((wrong + 1))
		elif sed -f "$rows/$id.sed" "$file" 2>/dev/null | cmp -s - "$file"; then
			echo "# $id: the sed expression changes nothing in $(cat "$rows/$id.file")"; wrong=$((wrong + 1))
		fi
		for test in $(cat "$rows/$id.tests"); do
			name=${test##*/}
			case $known in *" ${name%.*} "*) ;; *) echo "# $id: no test $test"; wrong=$((wrong + 1)) ;; esac
		done
	done <"$rows/ids"
	if [ "$n" -gt 0 ] && [ "$wrong" -eq 0 ]; then echo "ok 1 - $n defects apply"; return; fi
	echo "not ok 1 - of $n defects $wrong do not apply"
	return 1
}

case ${1:-} in
--applies)
	list=${2:-$list}
	applies
	exit ;;
--since)
	[ $# -eq 2 ] || die "--since COMMIT"
	files=$(git -C "$top" diff --name-only "$2") || die "git diff: $2"
	set --
	rows=$(mktemp -d) && split "$rows" || exit 1
	while read -r id; do
		echo "$files" | grep -qxF "$(cat "$rows/$id.file")" && set -- "$@" "$id"
	done <"$rows/ids"
	rm -rf "$rows"
	[ $# -gt 0 ] || { echo 1..0; exit 0; } ;;
esac

[ -f config.status ] || die "not a configured build tree"
rm -rf mutate && mkdir mutate || exit 1
$make -s distdir distdir=mutate/source >mutate/distdir.out 2>&1 || die "make distdir: $(tail -n 3 mutate/distdir.out)"
chmod -R u+w mutate/source
mkdir mutate/build mutate/rows
split mutate/rows
rows=$(cd mutate/rows && pwd)
[ $# -gt 0 ] || set -- $(cat "$rows/ids")
cd mutate/build || exit 1

echo "1..$#"
eval "../source/configure -q $(../../config.status --config)" >configure.out 2>&1 || die "configure: $(tail -n 3 configure.out)"
# All tests of the chosen defects first run without a defect, and must pass: only then does a failed test show that it finds a defect.
tests=
for id; do
	[ -f "$rows/$id.sed" ] && [ -f "$rows/$id.file" ] && [ -f "$rows/$id.tests" ] || die "no such mutant, or not all of it: $id"
	tests="$tests $(cat "$rows/$id.tests")"
done
$make $jobs check TESTS= >build.out 2>&1 </dev/null || die "make check TESTS=: $(tail -n 3 build.out)"
case " $tests " in
*' check '*) run check ;;
*) run "$(echo "$tests" | tr ' ' '\n' | grep -v '^build$' | sort -u | tr '\n' ' ')" ;;
esac
[ -z "$red" ] || die "red without any defect: $red (mutate/build)"
limit=${limit:+timeout ${MUTANT_SECONDS:-600}}
skipped=" $(find . -name '*.trs' -exec grep -l '^:global-test-result: SKIP' {} + | sed 's,^\./,,; s,\.trs$,,' | tr '\n' ' ')"

# cannot_run TESTS: is each of the tests skipped on this machine, such as a test that needs PyTorch, if no Python has it?
cannot_run()
{
	for test in $1; do
		case $skipped in *" ${test%.*} "*) ;; *) return 1 ;; esac
	done
}

n=0 caught=0 left=0
for id; do
	n=$((n + 1))
	file=../source/$(cat "$rows/$id.file") tests=$(cat "$rows/$id.tests") why=$(cat "$rows/$id.why" 2>/dev/null)
	cp "$file" saved || die "$id: no such file"
	sed -f "$rows/$id.sed" saved >mutant || die "$id: the sed expression is wrong"
	if cmp -s saved mutant; then
		echo "not ok $n - $id: the sed expression changes nothing in ${file#../source/}"
		continue
	fi
	if cannot_run "$tests"; then
		left=$((left + 1))
		echo "ok $n - $id # SKIP its tests are skipped on this machine: $tests"
		continue
	fi
	# In the copy of the source the defect's file is overwritten with the changed text, and later with its old text; both times the file
	# gets a new date, so that make compiles the file again.
	cat mutant >"$file"
	run "$tests"
	cat saved >"$file"
	missed=
	for test in $tests; do
		case " $red " in
		*" ${test%.*} "*) ;;
		*' build '*) missed="$missed $test (did not build)" ;;
		*) [ "$test" = check ] && [ -n "$red" ] || missed="$missed $test" ;;
		esac
	done
	if [ -z "$missed" ]; then
		caught=$((caught + 1))
		echo "ok $n - $id: $why"
	else
		echo "not ok $n - $id: $why; green:$missed"
	fi
done
echo "# $# mutants: $caught caught, $(($# - caught - left)) survived, $left not tried"
[ $((caught + left)) -eq $# ]
