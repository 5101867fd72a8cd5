#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The library's table says how each route rounds each dtype.  docs/numerics.md, the header, cellgrad(3), cellgrad-info(1) and `cellgrad
# info` have every row of this table, in the same words and the same order, and no other row. srcdir: the source; CELLGRAD: the command.
set -u
srcdir=$(cd "${srcdir:-.}" && pwd) || exit 99
scratch=$(mktemp -d) || exit 99
trap 'rm -rf "$scratch"' EXIT
# says N NAME: prints line N of TAP: the standard input is equal to the library's table of roundings.
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
# Each route that this build has, composed, scan and, with the cuda backend, cudnn, has one row of the table for each of four dtypes.
if grep -q '^DEFS = .*-DCG_CUDA=1' Makefile; then routes='composed scan cudnn'; else routes='composed scan'; fi
for route in $routes; do printf "$route|%s\n" bf16 f16 f32 f64; done | sort >"$scratch/want"
if cut -d '|' -f 1,2 "$scratch/table" | sort | cmp -s "$scratch/want" - && ! grep -v '|.*|..' "$scratch/table"; then
	echo 'ok 1 - the table of roundings has every route, each with four dtypes'
else
	echo 'not ok 1 - the table of roundings has every route, each with four dtypes'
fi
row="\\($(echo "$routes" | sed 's/ /\\|/g')\\)"
sed -n "s/^| \`$row\` | \`\(b*f[0-9]*\)\` | \(.*\) |\$/\1|\2|\3/p" "$srcdir/docs/numerics.md" | says 2 'docs/numerics.md has all roundings'
# In the header the columns stand two or more blanks apart, a row may be of several routes and dtypes, and it continues on lines that begin
# in the column of its words.
awk -v routes="$routes" '
	function end_row(  r, d, n, m, route, dtype) {
		n = split(of[1], route, ", ")
		m = split(of[2], dtype, ", ")
		for (r = 1; r <= n && words != ""; r++)
			for (d = 1; d <= m; d++)
				rows[route[r]] = rows[route[r]] route[r] "|" dtype[d] "|" words "\n"
		words = ""
	}
	/^ \*   [a-z]+(, [a-z]+)*  +b?f[0-9]+(, b?f[0-9]+)*  / { end_row(); split(substr($0, 6), of, /  +/); words = of[3]; next }
	/^ \*                              [^ ]/ && words != "" { sub(/^ \* +/, ""); words = words " " $0; next }
	{ end_row() }
	END { n = split(routes, of, " "); for (r = 1; r <= n; r++) printf "%s", rows[of[r]] }
' "$srcdir/runtime/cellgrad.h" | says 3 'the header has all roundings'
n=3
for page in cellgrad-info.1 cellgrad.3; do
	n=$((n + 1))
	# The words that state one rounding may go on in the next line of the page's source, so these lines are joined.
	awk "/^\.It ($(echo "$routes" | tr ' ' '|')) b?f[0-9]+\$/ "'{ if (row != "") print row; row = $2 "|" $3; between = "|"; next }
		/^[.]/ && row != "" { print row; row = "" }
		row != "" { row = row between $0; between = " " }' "$srcdir/man/$page" | says $n "$page has all roundings"
done
if [ -x "$CELLGRAD" ]; then
	CELLGRAD_BACKEND=cpu "$CELLGRAD" info | sed -n "s/^  $row  *\(b*f[0-9]*\)  *\(.*\)/\1|\2|\3/p" | says 6 'info has all roundings'
else
	echo 'ok 6 - info has all roundings # SKIP configured with --disable-command'
fi
