#!/bin/sh
# mutate.sh [ID...]: plants each defect of tests/mutants, or the named ones, in a copy of the source and demands that its
# tests turn red.  Run it in a configured build tree; it works in the folder mutate/ there, with one build in which only
# what a defect touches is made again.  A defect that hangs is red.
set -u
top=$(cd "$(dirname "$0")/.." && pwd) || exit 1
make=${MAKE:-make}
jobs=-j$(nproc 2>/dev/null || echo 2)
limit=$(command -v timeout >/dev/null && echo "timeout ${MUTANT_SECONDS:-600}")
unset MAKEFLAGS MFLAGS MAKELEVEL

die() { echo "Bail out! $*"; exit 1; }

# run TESTS: the build, then the tests.  Red tests end up in $red, "build" among them when it came to no test.
run()
{
	red=
	find . -name '*.trs' -exec rm -f {} +
	if ! $limit $make $jobs check TESTS= >build.out 2>&1 </dev/null; then
		red=build
		return
	fi
	case $1 in
	check) $limit $make $jobs check >check.out 2>&1 </dev/null ;;
	*)     $limit $make $jobs check TESTS="$1" >check.out 2>&1 </dev/null ;;
	esac && return
	red=$(find . -name '*.trs' -exec grep -lE '^:global-test-result: (FAIL|ERROR|XPASS)' {} + |
		sed 's,^\./,,; s,\.trs$,,' | tr '\n' ' ')
	# A test that was killed has left no result.
	for test in $1; do
		case $test in check|build) ;; *) [ -f "${test%.*}.trs" ] || red="$red ${test%.*}" ;; esac
	done
	red=${red:-check}
}

[ -f config.status ] || die "not a configured build tree"
rm -rf mutate && mkdir mutate || exit 1
$make -s distdir distdir=mutate/source >mutate/distdir.out 2>&1 || die "make distdir: $(tail -n 3 mutate/distdir.out)"
chmod -R u+w mutate/source
mkdir mutate/build mutate/rows
awk -v rows=mutate/rows '
	/^#/ { next }
	/^$/ { id = ""; next }
	$1 == "id" { id = $2; print id > (rows "/ids"); next }
	{ key = $1; sub(/^[a-z]+[ \t]+/, ""); print > (rows "/" id "." key) }
' "$top/tests/mutants"
rows=$(cd mutate/rows && pwd)
[ $# -gt 0 ] || set -- $(cat "$rows/ids")
cd mutate/build || exit 1

echo "1..$#"
eval "../source/configure -q $(../../config.status --config)" >configure.out 2>&1 || die "configure: $(tail -n 3 configure.out)"
# Red means something only where the source as it is, is green.
tests=
for id; do
	[ -f "$rows/$id.sed" ] && [ -f "$rows/$id.file" ] && [ -f "$rows/$id.tests" ] || die "no such mutant, or not all of it: $id"
	tests="$tests $(cat "$rows/$id.tests")"
done
case " $tests " in
*' check '*) run check ;;
*) run "$(echo "$tests" | tr ' ' '\n' | grep -v '^build$' | sort -u | tr '\n' ' ')" ;;
esac
[ -z "$red" ] || die "red without any defect: $red (mutate/build)"

n=0 caught=0
for id; do
	n=$((n + 1))
	file=../source/$(cat "$rows/$id.file") tests=$(cat "$rows/$id.tests") why=$(cat "$rows/$id.why" 2>/dev/null)
	cp "$file" saved || die "$id: no such file"
	sed -f "$rows/$id.sed" saved >mutant || die "$id: the sed expression is wrong"
	if cmp -s saved mutant; then
		echo "not ok $n - $id: the sed expression changes nothing in ${file#../source/}"
		continue
	fi
	# Written, not moved, here and below: make must see a new date both times.
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
echo "# $# mutants: $caught caught, $(($# - caught)) survived"
[ "$caught" -eq $# ]
