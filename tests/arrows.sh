#!/bin/sh
# Folders call each other one way: what a file includes, and which object each object takes a symbol from, against the table below.
# And no two files of the library call each other.  Runs in the build's top folder.
#   srcdir: the source
set -u
scratch=$(mktemp -d) || exit 99
trap 'rm -rf "$scratch"' EXIT
n=0

# FOLDER: those that its files may include and call, beside its own.
cat >"$scratch/arrows" <<'END'
gen
core        gen
cache       gen core
device      gen core
op          gen core device
rnn         gen core device op
weights     gen core device op rnn
block       gen core device op rnn
tensorflow  gen core device op rnn block
backends    gen core cache device
verify      gen core device op tensorflow
END
# Headers that anybody may include; device/open.c alone lists the backends; of device, backends see two headers and what these include.
cat >"$scratch/headers" <<'END'
backends    runtime/device/backend.h runtime/device/net.h
END

# "FILE INCLUDED" of every include of ours.
includes()
{
	(cd "$srcdir" && find gen runtime backends verify -name '*.[ch]' | sort |
		xargs awk '/^#include "/ { split($0, part, "\""); print FILENAME, part[2] }')
}

# "OBJECT OTHER SYMBOL" of every symbol that one object of the library takes from another.
calls()
{
	case $(find runtime -path '*/.libs/*.o' | head -n 1) in '') where='*/[!.]*.o' ;; *) where='*/.libs/*.o' ;; esac
	find gen runtime backends verify -path "$where" ! -path '*tests_*' | sort | while read -r object; do
		nm "$object" | awk -v o="$(echo "$object" | sed 's,/\.libs/,/,; s/\.o$//; s/^\(.*\/\)[a-z]*_la-/\1/')" 'NF > 1 { print $(NF - 1), $NF, o }'
	done | awk '$1 ~ /^[TDBRVWC]$/ { home[$2] = $3 } $1 == "U" { used[++k] = $3 " " $2 }
		END { for (i = 1; i <= k; i++) { split(used[i], u, " "); if (u[2] in home && home[u[2]] != u[1]) print u[1], home[u[2]], u[2] } }' | sort -u
}

# Lines of "FROM TO ..." that go against the arrows, or beside the headers.  Whoever is above the library may call what cellgrad.h has.
against()
{
	awk -v table="$scratch/arrows" -v list="$scratch/headers" -v header="$srcdir/runtime/cellgrad.h" '
		function folder(path) {
			sub(/^\.\//, "", path)
			if (path ~ /^gen\// || path !~ /\//) return "gen"
			if (path ~ /^(backends|verify)\//) { split(path, part, "/"); return part[1] }
			if (path == "runtime/cellgrad.h") return ""
			if (path ~ /^runtime\/[a-z]+\//) { split(path, part, "/"); return part[2] }
			return ""
		}
		BEGIN {
			while ((getline line < header) > 0) if (match(line, /cg_[a-z0-9_]+\(/)) public[substr(line, RSTART, RLENGTH - 1)] = 1
			while ((getline line < table) > 0) { m = split(line, w, " "); known[w[1]] = 1; for (i = 1; i <= m; i++) may[w[1], w[i]] = 1 }
			while ((getline line < list) > 0) { m = split(line, w, " "); for (i = 2; i <= m; i++) only[w[1], w[i]] = 1 }
		}
		{
			from = folder($1); to = folder($2)
			if (from == "" || to == "" || from == to) next
			if ($1 ~ /^runtime\/device\/open/ && to == "backends") next
			if (from == "verify" && $3 in public) next
			if (!(from in known) || !((from, to) in may) || (from == "backends" && to == "device" && $2 ~ /\.h$/ && !((from, $2) in only)))
				print "# " $0
		}'
}

# Pairs of "A B SYMBOL" that call each other.
circles() { awk '{ if (($2, $1) in seen) print "# " $2, $1, seen[$2, $1], "and back", $3; seen[$1, $2] = $3 }'; }

# report FILE NAME: empty is right; with arrows.sh seeded the contrary.
report()
{
	n=$((n + 1))
	if [ -s "$1" ]; then cat "$1"; found=1; else found=0; fi
	if [ "$found" -eq "${seeded:-0}" ]; then echo "ok $n - $2"; else echo "not ok $n - $2"; fi
}

includes >"$scratch/includes"
calls >"$scratch/calls"
echo 1..7
[ "$(wc -l <"$scratch/includes")" -gt 100 ] && [ "$(wc -l <"$scratch/calls")" -gt 300 ]
code=$?
n=1
if [ $code -eq 0 ]; then echo 'ok 1 - there are includes and calls to look at'; else echo 'not ok 1 - there are includes and calls to look at'; fi
against <"$scratch/includes" >"$scratch/wrong"
report "$scratch/wrong" 'includes go one way'
against <"$scratch/calls" >"$scratch/wrong"
report "$scratch/wrong" 'calls go one way'
circles <"$scratch/calls" >"$scratch/wrong"
report "$scratch/wrong" 'no two files call each other'

# What is seeded is seen.
seeded=1
echo 'runtime/core/dtype.c runtime/op/op.h' | against >"$scratch/wrong"
report "$scratch/wrong" 'a seeded include against the arrows is found'
echo 'backends/cpu/cpu runtime/rnn/layers cg_seq_forward' | against >"$scratch/wrong"
report "$scratch/wrong" 'a seeded call against the arrows is found'
printf '%s\n' 'runtime/op/check runtime/op/run cg_op_run' 'runtime/op/run runtime/op/check cg_op_check' | circles >"$scratch/wrong"
report "$scratch/wrong" 'a seeded circle of two files is found'
