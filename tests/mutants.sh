#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every seeded defect of tests/mutants still changes its file, and a defect that changes nothing is reported.  The patch that toy.sh applies
# in make bigcheck still applies.
set -u
scratch=$(mktemp) || exit 99
trap 'rm -f "$scratch"' EXIT
echo 1..3
if sh "$srcdir/tests/mutate.sh" --applies | sed -n '/^#/p; /^not ok/w '"$scratch" && ! [ -s "$scratch" ]; then
	echo 'ok 1 - every seeded defect applies'
else
	echo 'not ok 1 - every seeded defect applies'
fi
# mutate.sh must report each of two defects: one replaces a text that its file lacks, the other names a test that does not exist.
missed=
for mistake in 's/text that the file does not have$/&/ tests/mutants.sh' 's/^set -u$/set -e/ tests/nothing.sh'; do
	cat >"$scratch" <<-END
		id     stale
		file   tests/mutants.sh
		sed    ${mistake% *}
		tests  ${mistake##* }
		why    it is stale
	END
	! sh "$srcdir/tests/mutate.sh" --applies "$scratch" >/dev/null || missed=yes
done
if [ -n "$missed" ]; then
	echo 'not ok 2 - a defect that changes nothing, and one whose test does not exist, are found'
else
	echo 'ok 2 - a defect that changes nothing, and one whose test does not exist, are found'
fi
if ! command -v patch >/dev/null; then
	echo 'ok 3 - toy.patch applies # SKIP there is no patch'
elif patch -p1 --dry-run --fuzz=0 -d "$srcdir" <"$srcdir/tests/toy.patch" >"$scratch" 2>&1; then
	echo 'ok 3 - toy.patch applies'
else
	sed 's/^/# /' "$scratch"
	echo 'not ok 3 - toy.patch applies'
fi
