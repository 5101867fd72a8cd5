#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# docs/numerics.md, the header, the manual pages and `cellgrad info` say how each route rounds each dtype in the words of the library's
# table: every row, in its order, and no other. srcdir: the source; CELLGRAD: the command.
set -u
srcdir=$(cd "${srcdir:-.}" && pwd) || exit 99
scratch=$(mktemp -d) || exit 99
trap 'rm -rf "$scratch"' EXIT
# says N NAME: is the standard input the table?
says()
{
	cat >"$scratch/said"
	if diff "$scratch/table" "$scratch/said" >"$scratch/why"; then
		echo "ok $1 - $2"
	else
		sed -n 's/^</# not said:/p; s/^>/# not so:/p' "$scratch/why"
		echo "not ok $1 - $2"
	fi
}

echo 1..6
tests/rnn/roundings | tr '\t' '|' >"$scratch/table"
# Each route, ours and those of the backends of this build, has one row for each of four dtypes.
if grep -q '^DEFS = .*-DCG_CUDA=1' Makefile; then routes='composed scan cudnn'; else routes='composed scan'; fi
for route in $routes; do printf "$route|%s\n" bf16 f16 f32 f64; done | sort >"$scratch/want"
if cut -d '|' -f 1,2 "$scratch/table" | sort | cmp -s "$scratch/want" - && ! grep -v '|.*|..' "$scratch/table"; then
	echo 'ok 1 - the table has every route and four dtypes'
else
	echo 'not ok 1 - the table has every route and four dtypes'
fi
row="\\($(echo "$routes" | sed 's/ /\\|/g')\\)"
sed -n "s/^| \`$row\` | \`\(b*f[0-9]*\)\` | \(.*\) |\$/\1|\2|\3/p" "$srcdir/docs/numerics.md" | says 2 'docs/numerics.md has the table'
# A row of the header goes on in lines that begin where its words do.
awk -v routes="^ \\*   ($(echo "$routes" | tr ' ' '|')) +b?f[0-9]+ " '
	$0 ~ routes { if (row != "") print row; row = $2 "|" $3 "|"; sub(routes " *", ""); row = row $0; next }
	/^ \*                   [^ ]/ && row != "" { sub(/^ \* +/, ""); row = row " " $0; next }
	{ if (row != "") print row; row = "" }' "$srcdir/runtime/cellgrad.h" | says 3 'the header has the table'
n=3
for page in cellgrad-info.1 cellgrad.3; do
	n=$((n + 1))
	awk "/^\.It ($(echo "$routes" | tr ' ' '|')) b?f[0-9]+\$/ "'{ line = $2 "|" $3; getline; print line "|" $0 }' "$srcdir/man/$page" | says $n "$page has the table"
done
if [ -x "$CELLGRAD" ]; then
	CELLGRAD_BACKEND=cpu "$CELLGRAD" info | sed -n "s/^  $row  *\(b*f[0-9]*\)  *\(.*\)/\1|\2|\3/p" | says 6 'info has the table'
else
	echo 'ok 6 - info has the table # SKIP configured with --disable-command'
fi
