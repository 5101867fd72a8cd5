#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The manual pages describe all functions of the library, environment variables, commands, options, and words and limits of the cell
# language, and no others.  They also describe the attributes of networks that TensorFlow's ops lack.  The program in cellgrad(3) is
# examples/own_cell.c, and the command prints what cellgrad-cell(7) shows of an example's gradient and of an error.
# srcdir: the source; CELLGRAD: the command.
set -u
srcdir=$(cd "${srcdir:-.}" && pwd) || exit 99
man=$srcdir/man
scratch=$(mktemp -d) || exit 99
trap 'rm -rf "$scratch"' EXIT
why=$scratch/why n=0
: >"$why"

report()
{
	n=$((n + 1))
	if [ "$1" -eq 0 ]; then echo "ok $n - $2"; else sed 's/^/# /' "$why"; echo "not ok $n - $2"; fi
}
skip() { n=$((n + 1)); echo "ok $n - $1 # SKIP $2"; }

# same NAME: prints a line of TAP for the test NAME: the files $scratch/there, which must not be empty, and $scratch/written have the same
# lines, in any order.
same()
{
	for list in there written; do
		sort -u "$scratch/$list" >"$scratch/$list.sorted"
	done
	if [ ! -s "$scratch/there" ]; then
		echo 'nothing was found to compare with' >"$why"
	else
		diff "$scratch/there.sorted" "$scratch/written.sorted" | sed -n 's/^</not written:/p; s/^>/not there:/p' >"$why"
	fi
	[ ! -s "$why" ]
	report $? "$1"
}

# display PAGE LABEL: prints the text of the display (.Bd) below the comment LABEL in a page.
display()
{
	awk -v label=".\\\\\" $2" '
		/^\.Ed/ { inside = 0 }
		inside { sub(/^\\&/, ""); gsub(/\\e/, "\\"); print }
		/^\.Bd/ && last == label { inside = 1 }
		{ last = $0 }' "$man/$1"
}

# options_of_help, options_of_page: print the options in a --help text, or in the section OPTIONS of an mdoc page, as "-o --output".
options_of_help()
{
	awk 'match($0, /^  (-[A-Za-z], |    )--[A-Za-z][A-Za-z0-9-]*/) { $0 = substr($0, 1, RLENGTH); gsub(/,/, ""); $1 = $1; print }'
}
options_of_page()
{
	awk '
		/^\.Sh / { now = $2 }
		/^\.It Fl / && now == "OPTIONS" {
			line = ""
			for (k = 3; k <= NF && $k != "Ns"; k++)
				if ($k ~ /^-?[A-Za-z][A-Za-z0-9-]*$/ && $k != "Fl")
					line = line (line == "" ? "" : " ") "-" $k
			print line
		}' "$man/$1"
}

# ---- the pages themselves ----

for page in $(cd "$man" && echo *.[137]); do
	if command -v mandoc >/dev/null; then
		# Reports of mandoc that this machine lacks a referenced page, or has an old index of pages, do not count.
		mandoc -Tlint -Wstyle "$man/$page" 2>&1 | grep -v -e 'STYLE: referenced manual not found' -e 'outdated mandoc.db' >"$why"
		[ ! -s "$why" ]
		report $? "mandoc reports nothing about $page"
	else
		skip "mandoc on $page" 'there is no mandoc'
	fi
	# Some systems have groff without the macros for mdoc.
	if echo '.Dd today' | groff -mdoc -Tutf8 >/dev/null 2>&1; then
		groff -mdoc -Tutf8 -wall "$man/$page" 2>"$why" >/dev/null
		[ ! -s "$why" ]
		report $? "groff reports nothing about $page"
	else
		skip "groff on $page" 'there is no groff with mdoc'
	fi
done

# ---- the library ----

awk '/^CG_API/ { text = "" } { text = text " " $0 } /;/ && text ~ /^ CG_API/ { print text; text = "" }' "$srcdir/runtime/cellgrad.h" |
	sed 's/.*[ *]\(cg_[a-z0-9_]*\)(\(.*\));.*/\1,\2/' |
	awk -F, '{ line = $1; for (k = 2; k <= NF; k++) { sub(/.*[ *]/, "", $k); if ($k != "void") line = line " " $k } print line }' \
	>"$scratch/there"
sed -n 's/^\.It Fn \(cg_\)/\1/p' "$man/cellgrad.3" | sed 's/ void$//' >"$scratch/written"
same 'every call of the header is in cellgrad(3), with its arguments'
sed 's/ .*//' "$scratch/there" >"$scratch/calls"
cp "$scratch/calls" "$scratch/there"
sed -n '/^calls = /,/[^\\]$/p' "$man/local.mk" | tr -s ' \t\\' '\n' | grep '^cg_' >"$scratch/written"
same 'every call of the header is in the list of man/local.mk, by which it has a page that is an alias of cellgrad(3)'

sed -n 's/^	\(CG_[A-Z_]*\)  *=  *-[0-9].*/\1/p' "$srcdir/runtime/cellgrad.h" >"$scratch/there"
sed -n 's/^\.It Dv \(CG_[A-Z_]*\)$/\1/p' "$man/cellgrad.3" >"$scratch/written"
same 'every code of a failure in the header is in cellgrad(3)'

display cellgrad.3 own_cell.c >"$scratch/shown.c"
grep -v SPDX-License-Identifier "$srcdir/examples/own_cell.c" | diff - "$scratch/shown.c" >"$why"
report $? 'the program in cellgrad(3) is examples/own_cell.c'

# ---- variables ----

# The program tests/core/variables prints a line for each environment variable: its reader, its name, the words that it may have, and its
# default.  Variables that only tests read are left out; README.md files describe them.
tests/core/variables | grep -v '^tests	' >"$scratch/variables"
grep -v '^command	' "$scratch/variables" | cut -f 2 >"$scratch/there"
sed -n 's/^\.It Ev //p' "$man/cellgrad.3" >"$scratch/written"
same 'every variable that the library reads is in cellgrad(3)'
cut -f 2 "$scratch/variables" >"$scratch/there"
sed -n 's/^\.It Ev //p' "$man/cellgrad.1" >"$scratch/written"
same 'every variable that is read is in cellgrad(1)'

# item NAME: prints the text of cellgrad(1) about an environment variable, without macros.
item()
{
	awk -v name="$1" '
		/^\.It / { now = now && !words || $3 == name; if (!now) words = 0 }
		/^\.El/  { now = 0 }
		!/^\.It / && now { words = 1; print }' "$man/cellgrad.1" |
		sed 's/^\.[A-Z][a-z] //; s/ \(Cm\|Ev\|Pa\) / /g; s/ Ns / /g; s/ \([,.:;]\)/\1/g' | tr '\n' ' '
}
while IFS='	' read -r reader name words default; do
	text=$(item "$name")
	for word in ${words#-}; do
		case " $text " in
		*[\ ,]"$word"[\ ,.:\;]*) ;;
		*) echo "$name: '$word' is allowed" ;;
		esac
	done
	case $text in
	*"$default"*) ;;
	*) echo "$name: without it $default" ;;
	esac
done <"$scratch/variables" >"$why"
[ -s "$scratch/variables" ] && [ ! -s "$why" ]
report $? 'cellgrad(1) has the allowed values and the default of every variable'

# The library reads the environment only by the list of variables in runtime/core/environment.c.
find "$srcdir/gen" "$srcdir/backends" "$srcdir/runtime" -name '*.[ch]' ! -name environment.c -exec grep -n 'getenv\|environ\>' {} + >"$why"
[ ! -s "$why" ]
report $? 'no file of the library but runtime/core/environment.c reads the environment'

# ---- the command ----

if [ -x "$CELLGRAD" ]; then
	"$CELLGRAD" --help | awk 'NF == 0 { blocks++ } NF && blocks == 1 { print $1 }' >"$scratch/there"
	cp "$scratch/there" "$scratch/commands"
	awk '/^\.Sh / { now = $2 } /^\.It Xr cellgrad-/ && now == "COMMANDS" { print substr($3, 10) }' "$man/cellgrad.1" >"$scratch/written"
	same 'every command is in cellgrad(1)'
	for page in "$man"/cellgrad-*.1; do
		awk '/^\.Sh / { now = $2 } /^\.Nm cellgrad / && now == "SYNOPSIS" { print $3 }' "$page"
	done >"$scratch/written"
	same 'every command has a page with its synopsis'
	"$CELLGRAD" --help | tr -s ' ' '\n' | grep '^--' >"$scratch/there"
	options_of_page cellgrad.1 | tr ' ' '\n' | grep '^--' >"$scratch/written"
	same 'every option without a command is in cellgrad(1)'
	while read -r command; do
		"$CELLGRAD" "$command" --help | options_of_help >"$scratch/there"
		options_of_page "cellgrad-$command.1" >"$scratch/written"
		same "every option of $command is in cellgrad-$command(1)"
	done <"$scratch/commands"
	"$CELLGRAD" convert --help | sed -n '/^IN and OUT/,/^cellgrad/s/^  \([a-z][a-z0-9_]*\)  .*/\1/p' >"$scratch/there"
	awk '/^\.Sh / { now = $2 } /^\.It Cm / && now == "FORMATS" { print $3 }' "$man/cellgrad-weights.7" >"$scratch/written"
	same 'every format of weights is in cellgrad-weights(7)'
	"$CELLGRAD" info rnn | awk '/^Attributes of cellgrad/ { ours = 1 } ours && /^  [a-z]/ && $1 != "attribute" { print $1 }' >"$scratch/ours"
	while read -r name; do
		"$CELLGRAD" run --help | grep -q "[ =]$name=" || echo "cellgrad run --help lacks $name"
		sed "1,/^Under cellgrad's names the network ops/d" "$man/cellgrad-run.1" | grep -Eq "^\.(It )?Va (.*[ ,])?$name( |$)" ||
			echo "cellgrad-run(1) lacks $name"
	done <"$scratch/ours" >"$why"
	[ -s "$scratch/ours" ] && [ ! -s "$why" ]
	report $? 'every attribute that rnn has and CudnnRNNV3 lacks is in cellgrad run --help and cellgrad-run(1)'
else
	skip 'the commands in cellgrad(1) and the pages of each' 'configured with --disable-command'
fi

# ---- the language ----

sed -n '/ declarations\[\] = {$/,/^};$/p' "$srcdir/gen/parse.c" | grep -o '{ "[a-z]*"' | tr -d '{ "' >"$scratch/there"
sed -n 's/^\.It Ic \([a-z]*\) .*/\1/p' "$man/cellgrad-cell.7" >"$scratch/written"
same 'every keyword is in cellgrad-cell(7)'

sed -n 's/^CG_OPERATOR([A-Z0-9]*, *"\([a-z0-9]*\)", *\([12]\),.*/\1 \2/p' "$srcdir/gen/ops.h" >"$scratch/there"
sed -n '/ forms\[\] = {$/,/^};$/s/^	{ "\([a-z0-9_]*\)", *\([12]\),.*/\1 \2/p' "$srcdir/gen/forms.c" >>"$scratch/there"
sed 's/ .*//' "$scratch/there" >"$scratch/functions"
awk '/^\.It Fn / { print $3, NF - 3 }' "$man/cellgrad-cell.7" >"$scratch/written"
same 'every function of the language is in cellgrad-cell(7), with the number of its arguments'

# Most limits of the cell language are written in the source beside the parser's messages.
{
	grep -o 'CG_[A-Z]*_MAX, "[a-z -]*"' "$srcdir/gen/parse.c" | tr -d '",'
	echo 'CG_NAME_MAX characters in a name'
	echo 'CG_TERMS_MAX operations and operands'
	echo 'CG_MEANS_MAX levels of means'
	echo 'CG_TEXT_MAX bytes'
} | while read -r limit words; do
	value=$(sed -n "s/^	$limit *= *\([0-9 <]*\),.*/\1/p" "$srcdir/gen/cell.h")
	# shellcheck disable=SC2004 # the value is an expression
	echo "$(($value)) $words"
done >"$scratch/there"
awk '/^\.S[sh] / { now = $2 } now == "Limits" && /^[0-9]/ { sub(/,.*/, ""); print }' "$man/cellgrad-cell.7" >"$scratch/written"
same 'every limit is in cellgrad-cell(7)'

sed -n 's/^\.Fn \([a-z0-9_]*\).*/\1/p' "$man"/*.[137] | grep -v '^_work$' | sort -u >"$scratch/said"
sort "$scratch/calls" "$scratch/functions" | comm -13 - "$scratch/said" | sed 's/^/there is no /' >"$why"
[ -s "$scratch/said" ] && [ ! -s "$why" ]
report $? 'every function that the pages mention exists'

if [ -x "$CELLGRAD" ]; then
	cd "$scratch" || exit 99
	display cellgrad-cell.7 leaky.cell >leaky.cell
	display cellgrad-cell.7 leaky.c >leaky.c
	"$CELLGRAD" emit ./leaky.cell --pass grad 2>"$why" | sed 's/^		//' >emitted.c
	case $(cat emitted.c) in
	*"$(cat leaky.c)"*) [ -s leaky.c ] ;;
	*) diff leaky.c emitted.c | grep '^<' >"$why"; false ;;
	esac
	report $? 'the gradient in cellgrad-cell(7) is what the command prints'

	display cellgrad-cell.7 mistake | sed '1s/^/cellgrad emit: /' >expected
	sed '/^h = /s/h_prev/h_perv/' leaky.cell >wrong.cell
	mv wrong.cell leaky.cell
	"$CELLGRAD" emit leaky.cell 2>&1 | diff expected - >"$why"
	report $? 'the error in cellgrad-cell(7) is what the command prints'
else
	skip 'the example of cellgrad-cell(7)' 'configured with --disable-command'
fi
echo "1..$n"
