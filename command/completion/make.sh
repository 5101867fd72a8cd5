#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# make.sh bash|zsh COMMAND: prints the completion file of a shell.  COMMAND is the command cellgrad, whose output lists its subcommands,
# their options, ops, cells and formats.  The files cellgrad.bash and _cellgrad are the output of this script, which
# tests/completion.sh compares with them.
set -eu
shell=$1 cellgrad=$2

# Each of these variables, and the output of options(), is a list of words that the completion offers, one on a line.
commands=$("$cellgrad" --help | awk 'NF == 0 { blocks++ } NF && blocks == 1 { print $1 }')
options() { "$cellgrad" "$1" --help | sed -n 's/^  \(-[a-zA-Z], \|    \)\(--[a-zA-Z][a-zA-Z-]*=\{0,1\}\).*/\2/p'; }
own=$(CELLGRAD_BACKEND=cpu "$cellgrad" info --json | sed 's/.*"ops":{//; s/}.*//' | grep -o '"[a-z_0-9]*":' | tr -d '":')
ops=$(for op in $own; do echo "$op"; "$cellgrad" info "$op" --json | sed -n 's/.*"tensorflow":"\([A-Za-z0-9]*\)".*/\1/p'; done)
cells=$("$cellgrad" emit --list | awk 'NR > 1 { print $1 }')
formats=$("$cellgrad" convert --help | sed -n '/^IN and OUT/,/^cellgrad/s/^  \([a-z][a-z0-9_]*\)  .*/\1/p')

# line WORDS: prints the words on one line.
line() { echo "$@" | tr '\n' ' ' | sed 's/ $//'; }

# with_value COMMAND: prints the options of a subcommand that take a value, long and short, each as "subcommand:option".
with_value()
{
	"$cellgrad" "$1" --help | sed -n "s/^  -\([a-zA-Z]\), --\([a-zA-Z][a-zA-Z-]*\)=.*/$1:--\2 $1:-\1/p; s/^      --\([a-zA-Z][a-zA-Z-]*\)=.*/$1:--\1/p"
}

# The tables: patterns of "subcommand:word", two bars, and the words that the completion offers.  The word @files stands for
# files, @folders for folders, @cells for files of cells, and @options for the options of the cell on the command line.
# listed: prints the table of the options whose values the completion knows.
listed()
{
	cat <<END
run:--output | run:-o | run:--expect | run:-e || @files
emit:--output | emit:-o | emit:--manifest | emit:-m || @files
bench:--plot | bench:-p | demo:--svg | cell:--svg || @files
demo:--data | demo:-d || @folders
emit:--options | cell:--options || @options
*:--dtype | check:-d | emit:-d | bench:-d | cell:-d || f16 bf16 f32 f64
*:--backend | check:-b | *:--ref | check:-r | *:--switch | *:--why | info:-w || cpu cuda opencl
convert:--from | convert:--to || $(line "$formats")
emit:--pass | emit:-p || forward grad gradgrad seq_forward seq_grad
emit:--lang | emit:-l || c opencl cuda
emit:--shape | emit:-s || point scan
bench:--op | bench:-o || $(line "$ops")
bench:--what | bench:-w || fwd bwd fwd+bwd
bench:--mode | bench:-m || lstm gru rnn_tanh rnn_relu
check:--suite | check:-s || quick full
demo:--cell || $(line "$cells") @cells
demo:--only || compare train
help:* || $(line "$commands")
END
}
# Prints the table of listed(), and a row of the options whose values the completion does not know.
values()
{
	listed
	for command in $commands; do with_value "$command"; done | tr ' ' '\n' |
		awk 'NR == FNR { sub(/ \|\|.*/, ""); n = split($0, word, / \| /); while (n) seen[word[n--]]; next }
			!($0 in seen) && !("*" substr($0, index($0, ":")) in seen) { all = all (all == "" ? "" : " | ") $0 }
			END { print all " ||" }' "$table" -
}
# Prints the table of words that are no values of options.  Argument: what follows the name of an option that takes a value, = or nothing.
places()
{
	for command in $commands; do echo "$command:-* || $(line "$(options "$command" | sed "s/=\$/$1/")")"; done
	cat <<END
run:* || $(line "$ops") @files
check:* || $(line "$ops") $(line "$cells") @cells
info:* || $(line "$ops")
emit:* | cell:* || $(line "$cells") @cells
convert:* || @files
cache:* || path list clear
END
}
# Prints the options of each cell of `cellgrad emit --list` that has some.
cell_options() { "$cellgrad" emit --list | awk 'NR > 1 && $3 != "-" { print $1 "|" $3 }' | tr , ' '; }

# The options of a cell in a file are the words after `option` in its text.
read_options="sed -n 's/^[[:space:]]*option[[:space:]]\{1,\}\([A-Za-z_0-9]*\).*/\1/p'"

table=$(mktemp) || exit 1
trap 'rm -f "$table"' EXIT
listed >"$table"
[ "$shell" != zsh ] || echo '#compdef cellgrad'
echo "# SPDX-License-Identifier: Apache-2.0"
echo "# Printed by command/completion/make.sh $shell: change that file."
case $shell in
bash)
	cat <<END
# Prints the options of those cells that the words of the command line name.
_cellgrad_options()
{
	local word
	for word; do
		case \$word in
$(cell_options | sed "s/\(.*\)|\(.*\)/		\1) echo '\2' ;;/")
		*/* | *.cell) [[ ! -f \$word ]] || $read_options "\$word" ;;
		esac
	done
}
END
	cat <<'END'
_cellgrad()
{
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} words list=
	COMPREPLY=()
	# Bash cuts --option=value at the equals sign.
	if [[ $cur == = ]]; then cur=; elif [[ $prev == = ]]; then prev=${COMP_WORDS[COMP_CWORD - 2]}; fi
	if ((COMP_CWORD == 1)); then
END
	echo "		words='$(line "$commands") help --help --version'"
	cat <<'END'
		COMPREPLY=($(compgen -W "$words" -- "$cur"))
		return
	fi
	case $command:$prev in
END
	values | sed "s/^\(.*\) ||\$/	\1) words= ;;/; s/^\(.*\) || \(.*\)/	\1) words='\2' ;;/"
	cat <<'END'
	*)
		case $command:$cur in
END
	places '=' | sed "s/^\(.*\) || *\(.*\)/		\1) words='\2' ;;/"
	cat <<'END'
		*) words= ;;
		esac ;;
	esac
	case $words in
	*@options)
		# In a list of options with commas, the completion completes the last option.
		[[ $cur != *,* ]] || list=${cur%,*},
		words=$(_cellgrad_options "${COMP_WORDS[@]:2}") ;;
	*@files) COMPREPLY=($(compgen -f -- "$cur")) ;;
	*@folders) COMPREPLY=($(compgen -d -- "$cur")) ;;
	*@cells) COMPREPLY=($(compgen -d -- "$cur") $(compgen -f -X '!*.cell' -- "$cur")) ;;
	esac
	COMPREPLY+=($(compgen -P "$list" -W "${words%@*}" -- "${cur#"$list"}"))
	[[ ${COMPREPLY[0]-} != --*= ]] || compopt -o nospace 2>/dev/null
}
complete -o filenames -F _cellgrad cellgrad
END
	;;
zsh)
	# offer: turns a table into the branches of a case.
	offer()
	{
		sed 's/^\(.*\) ||$/	\1) ;;/; s/^\(.*\) || \(.*\) @\([a-z]*\)$/	\1) compadd -- \2; _cellgrad_\3 ;;/
			s/^\(.*\) || @\([a-z]*\)$/	\1) _cellgrad_\2 ;;/; s/^\(.*\) || \(.*\)$/	\1) compadd -- \2 ;;/'
	}
	cat <<END
_cellgrad_files() { _files }
_cellgrad_folders() { _files -/ }
_cellgrad_cells() { _files -g '*.cell' }
# Offers the options of those cells that the words of the command line name.
_cellgrad_options()
{
	local word list=()
	for word in \${words[3,-1]}; do
		case \$word in
$(cell_options | sed "s/\(.*\)|\(.*\)/		\1) _values -s , option \2 ;;/")
		*/* | *.cell)
			[[ ! -f \$word ]] || list=(\$($read_options "\$word"))
			((\$#list == 0)) || _values -s , option \$list ;;
		esac
	done
}
END
	cat <<'END'
_cellgrad()
{
	local command=${words[2]} previous=${words[CURRENT - 1]}
	if ((CURRENT == 2)); then
END
	echo "		compadd -- $(line "$commands") help --help --version"
	cat <<'END'
		return
	fi
	# The word is --option=value: the completion completes the value.
	if [[ $PREFIX == --*=* ]]; then
		previous=${PREFIX%%=*}
		compset -P '*='
	fi
	case $command:$previous in
END
	values | offer
	cat <<'END'
	*)
		case $command:$PREFIX in
END
	places "" | offer | sed 's/^/	/'
	cat <<'END'
		esac ;;
	esac
}
_cellgrad "$@"
END
	;;
*) echo "usage: make.sh bash|zsh COMMAND" >&2; exit 2 ;;
esac
