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

[ "$shell" != zsh ] || echo '#compdef cellgrad'
echo "# SPDX-License-Identifier: Apache-2.0"
echo "# Printed by command/completion/make.sh $shell: change that file."
case $shell in
bash)
	cat <<'END'
_cellgrad()
{
	local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} words
	COMPREPLY=()
	# Bash cuts --option=value at the sign.
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
	echo "	*:--dtype | *:-d) words='f16 bf16 f32 f64' ;;"
	echo "	*:--backend | *:--ref | *:--switch | *:--why) words='cpu cuda opencl' ;;"
	echo "	convert:--from | convert:--to) words='$(line "$formats")' ;;"
	echo "	emit:--pass | emit:-p) words='forward grad gradgrad seq_forward seq_grad' ;;"
	echo "	emit:--lang | emit:-l) words='c opencl cuda' ;;"
	echo "	emit:--shape | emit:-s) words='point scan' ;;"
	echo "	bench:--op | bench:-o) words='$(line "$ops")' ;;"
	echo "	bench:--what | bench:-w) words='fwd bwd fwd+bwd' ;;"
	echo "	bench:--mode | bench:-m) words='lstm gru rnn_tanh rnn_relu' ;;"
	echo "	check:--suite | check:-s) words='quick full' ;;"
	echo "	demo:--only) words='compare train' ;;"
	echo "	help:*) words='$(line "$commands")' ;;"
	cat <<'END'
	*)
		case $command:$cur in
END
	for command in $commands; do echo "		$command:-*) words='$(line "$(options "$command")")' ;;"; done
	echo "		run:* | check:* | info:*) words='$(line "$ops")' ;;"
	echo "		emit:*) words='$(line "$cells")' ;;"
	echo "		cache:*) words='path list clear' ;;"
	cat <<'END'
		*) words= ;;
		esac ;;
	esac
	COMPREPLY=($(compgen -W "$words" -- "$cur") $(compgen -f -- "$cur"))
	[[ ${COMPREPLY[0]-} != --*= ]] || compopt -o nospace 2>/dev/null
}
complete -o filenames -F _cellgrad cellgrad
END
	;;
zsh)
	cat <<'END'
_cellgrad()
{
	local command=${words[2]} previous=${words[CURRENT - 1]} list
	if ((CURRENT == 2)); then
END
	echo "		compadd $(line "$commands") help --help --version"
	cat <<'END'
		return
	fi
	case $command:$previous in
END
	echo "	*:--dtype | *:-d) compadd f16 bf16 f32 f64; return ;;"
	echo "	*:--backend | *:--ref | *:--switch | *:--why) compadd cpu cuda opencl; return ;;"
	echo "	convert:--from | convert:--to) compadd $(line "$formats"); return ;;"
	echo "	emit:--pass | emit:-p) compadd forward grad gradgrad seq_forward seq_grad; return ;;"
	echo "	emit:--lang | emit:-l) compadd c opencl cuda; return ;;"
	echo "	emit:--shape | emit:-s) compadd point scan; return ;;"
	echo "	bench:--op | bench:-o) compadd $(line "$ops"); return ;;"
	echo "	bench:--what | bench:-w) compadd fwd bwd fwd+bwd; return ;;"
	echo "	bench:--mode | bench:-m) compadd lstm gru rnn_tanh rnn_relu; return ;;"
	echo "	check:--suite | check:-s) compadd quick full; return ;;"
	echo "	demo:--only) compadd compare train; return ;;"
	echo "	help:*) compadd $(line "$commands"); return ;;"
	cat <<'END'
	esac
	case $command:$PREFIX in
END
	for command in $commands; do echo "	$command:-*) compadd -- $(line "$(options "$command" | tr -d =)") ;;"; done
	echo "	run:* | check:* | info:*) compadd $(line "$ops"); _files ;;"
	echo "	emit:*) compadd $(line "$cells"); _files ;;"
	echo "	cache:*) compadd path list clear ;;"
	cat <<'END'
	*) _files ;;
	esac
}
_cellgrad "$@"
END
	;;
*) echo "usage: make.sh bash|zsh COMMAND" >&2; exit 2 ;;
esac
