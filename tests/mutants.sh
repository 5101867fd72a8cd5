#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every seeded defect of tests/mutants still changes its file, and a defect that changes nothing is reported.
set -u
scratch=$(mktemp) || exit 99
trap 'rm -f "$scratch"' EXIT
echo 1..2
if sh "$srcdir/tests/mutate.sh" --applies | sed -n '/^#/p; /^not ok/w '"$scratch" && ! [ -s "$scratch" ]; then
	echo 'ok 1 - every seeded defect applies'
else
	echo 'not ok 1 - every seeded defect applies'
fi
cat >"$scratch" <<'END'
id     stale
file   tests/mutants.sh
sed    s/text that the file does not have$/&/
tests  tests/nothing.sh
why    it is stale
END
if sh "$srcdir/tests/mutate.sh" --applies "$scratch" >/dev/null; then
	echo 'not ok 2 - a defect that no longer applies is found'
else
	echo 'ok 2 - a defect that no longer applies is found'
fi
