#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The completion files of bash and zsh are the output of command/completion/make.sh for the present command; every value of an option that
# bash's file offers, except ops and cells, is in the command's help; and bash, with its file, offers the words that are right at some
# places of a command line.  srcdir: the source; CELLGRAD: the command.
set -u
srcdir=$(cd "${srcdir:-.}" && pwd) || exit 99
folder=$srcdir/command/completion
scratch=$(mktemp -d) || exit 99
trap 'rm -rf "$scratch"' EXIT
why=$scratch/why n=0

report()
{
	n=$((n + 1))
	if [ "$1" -eq 0 ]; then echo "ok $n - $2"; else sed 's/^/# /' "$why"; echo "not ok $n - $2"; fi
}
skip() { n=$((n + 1)); echo "ok $n - $1 # SKIP $2"; }

# offers WORD...: prints the completions that bash offers for the last of the words.
offers()
{
	bash -c '. "$0"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _cellgrad; printf "%s\n" "${COMPREPLY[@]}"' "$folder/cellgrad.bash" "$@"
}

if [ ! -x "$CELLGRAD" ]; then
	echo '1..0 # SKIP configured with --disable-command'
	exit 0
fi
for pair in bash:cellgrad.bash zsh:_cellgrad; do
	sh "$folder/make.sh" "${pair%%:*}" "$CELLGRAD" 2>"$why" | diff "$folder/${pair#*:}" - >>"$why"
	[ ! -s "$why" ]
	report $? "${pair#*:} is what make.sh prints: sh command/completion/make.sh ${pair%%:*} ./cellgrad"
done
sed -n "s/^	\([a-z]*\):--\([a-z]*\)[^)]*) words='\(.*\)' ;;/\1 \2 \3/p" "$folder/cellgrad.bash" | while read -r command option values; do
	case $option:$values in op:* | cell:* | *:@*) continue ;; esac
	"$CELLGRAD" "$command" --help >"$scratch/help"
	for value in $values; do grep -q -w -e "$value" "$scratch/help" || echo "$command --$option: no $value"; done
done >"$why"
[ ! -s "$why" ]
report $? 'every value of an option that the completion of bash offers, except ops and cells, is in the help of its command'
if command -v bash >/dev/null; then
	cd "$scratch" || exit 99
	: >"$why"
	[ "$(offers cellgrad em 2>>"$why")" = emit ] && [ "$(offers cellgrad bench --lay 2>>"$why")" = --layers= ] &&
		[ "$(offers cellgrad run LSTMBlockCellG 2>>"$why")" = LSTMBlockCellGrad ] &&
		[ "$(offers cellgrad convert --from '=' py 2>>"$why")" = pytorch ] && [ "$(offers cellgrad cache cl 2>>"$why")" = clear ] && [ ! -s "$why" ]
	report $? 'bash completes a command, an option, an op, a format and an action of cache'
	mkdir files files/folder && cd files || exit 99
	printf 'cell mine\n\toption near w\noption far v\n' >mine.cell
	: >other
	# expect WORDS WORD...: prints a complaint unless bash offers the sorted WORDS, in any order, for the last WORD.
	expect()
	{
		want=$1
		shift
		got=$(offers "$@" 2>&1 | sort | tr '\n' ' ')
		[ "$got" = "$want" ] || [ "$got" = "$want " ] || echo "$*: offers $got, not $want"
	}
	{
		expect 'far near' cellgrad emit ./mine.cell --options ''
		expect 'near,far near,near' cellgrad emit mine.cell --options '=' near,
		expect 'peephole' cellgrad emit lstm --options ''
		expect '' cellgrad emit gru --options ''
		expect 'mine.cell' cellgrad emit mine
		expect 'folder' cellgrad emit fold
		expect '' cellgrad emit oth
		expect 'other' cellgrad convert oth
		expect 'other' cellgrad emit lstm -o oth
		expect 'folder' cellgrad demo --data ''
		expect '' cellgrad demo ''
		expect '' cellgrad cache oth
		expect '' cellgrad check --seed ''
		expect 'bf16 f16 f32 f64' cellgrad bench -d ''
	} >"$why"
	[ ! -s "$why" ]
	report $? 'bash offers files, folders, files of cells and options of a cell where they may stand, and nowhere else'
else
	skip 'bash completes a command, an option, an op, a format and an action of cache' 'there is no bash'
	skip 'bash offers files, folders, files of cells and options of a cell where they may stand, and nowhere else' 'there is no bash'
fi
if command -v zsh >/dev/null; then
	zsh -n "$folder/_cellgrad" 2>"$why"
	report $? 'zsh parses its completion'
else
	skip 'zsh parses its completion' 'there is no zsh'
fi
echo "1..$n"
