#!/bin/sh
# Folders call each other one way: what a file includes, and which object each object takes a symbol from, against the table below.
# No two files of the library call each other, and no two files have one name outside of folders that mirror each other.
# Runs in the build's top folder.
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
command     gen core cache device op rnn weights tensorflow verify
END
# FOLDER: the only headers of the library that its files may include.  device/open.c alone lists the backends.
cat >"$scratch/headers" <<'END'
backends    runtime/device/backend.h runtime/device/net.h runtime/core/ runtime/cache/
verify      runtime/cellgrad.h runtime/op/op.h runtime/core/core.h runtime/device/mem.h
command     runtime/cellgrad.h runtime/device/inspect.h
END

# FOLDER FOLDER, as patterns: files of one name in these do one thing in two places.  Each backend implements the same parts of the
# device, and tests/fake stands in for the vendor's libraries that backends/cuda calls.
cat >"$scratch/mirrors" <<'END'
backends/[a-z]*           backends/[a-z]*
backends/[a-z]*           runtime/device
backends/cuda(/cudnn)?    tests/fake
backends                  tests/fake
END

# "FILE INCLUDED" of every include of ours.
includes()
{
	(cd "$srcdir" && find gen runtime backends verify command -name '*.[ch]' | sort |
		xargs awk '/^#include "/ { split($0, part, "\""); print FILENAME, part[2] }')
}

# "OBJECT OTHER SYMBOL" of every symbol that one object takes from another.
calls()
{
	find gen runtime backends verify command -name '*.o' ! -name '*tests_*' | xargs nm -A | awk '
		BEGIN { FS = ":" }
		{
			object = $1
			n = split($2, w, " ")
			shared = sub(/\/\.libs\//, "/", object)
			sub(/\.o$/, "", object)
			sub(/\/[a-z_]*_la-/, "/", object)
			# Of an object that is built twice, for archives and shared libraries, the first.
			if (object in from && from[object] != $1) next
			from[object] = $1
			if (w[n - 1] ~ /^[TDBRVWC]$/) home[w[n]] = object
			if (w[n - 1] == "U") used[++k] = object " " w[n]
		}
		END { for (i = 1; i <= k; i++) { split(used[i], u, " "); if (u[2] in home && home[u[2]] != u[1]) print u[1], home[u[2]], u[2] } }' | sort -u
}

# Lines of "FROM TO ..." that go against the arrows, or beside the headers.  Whoever is above the library may call what cellgrad.h has.
against()
{
	awk -v table="$scratch/arrows" -v list="$scratch/headers" -v header="$srcdir/runtime/cellgrad.h" '
		function folder(path) {
			sub(/^\.\//, "", path)
			if (path ~ /^gen\// || path !~ /\//) return "gen"
			if (path ~ /^(backends|verify|command)\//) { split(path, part, "/"); return part[1] }
			# The window of the command is no part of device.
			if (path == "runtime/device/inspect.h") return "inspect"
			if (path == "runtime/cellgrad.h") return "header"
			if (path ~ /^runtime\/[a-z]+\//) { split(path, part, "/"); return part[2] }
			return ""
		}
		function is_listed(from, path, k) {
			for (k = 1; k <= n[from]; k++)
				if (index(path, only[from, k]) == 1) return 1
			return 0
		}
		BEGIN {
			while ((getline line < header) > 0) if (match(line, /cg_[a-z0-9_]+\(/)) public[substr(line, RSTART, RLENGTH - 1)] = 1
			while ((getline line < table) > 0) { m = split(line, w, " "); known[w[1]] = 1; for (i = 1; i <= m; i++) may[w[1], w[i]] = 1 }
			while ((getline line < list) > 0) { m = split(line, w, " "); n[w[1]] = m - 1; for (i = 2; i <= m; i++) only[w[1], i - 1] = w[i] }
		}
		{
			from = folder($1); to = folder($2)
			if (from == "" || to == "" || from == to || from == "inspect") next
			if ($1 ~ /^runtime\/device\/open/ && to == "backends") next
			if ($2 ~ /^runtime\/.*\.h$/ && n[from]) { if (!is_listed(from, $2)) print "# " $0; next }
			if (to == "header" || (to == "inspect" && $1 == "runtime/device/inspect.c")) next
			if ((from == "verify" || from == "command") && $3 in public) next
			if (!(from in known) || !((from, to) in may)) print "# " $0
		}'
}

# Pairs of "A B SYMBOL" that call each other.
circles() { awk '{ if (($2, $1) in seen) print "# " $2, $1, seen[$2, $1], "and back", $3; seen[$1, $2] = $3 }'; }

# Pairs of files that have one name, in folders that do not mirror each other.
namesakes()
{
	awk -v table="$scratch/mirrors" '
		function is_mirror(a, b, k) {
			for (k = 1; k <= n; k++)
				if ((a ~ left[k] && b ~ right[k]) || (b ~ left[k] && a ~ right[k])) return 1
			return 0
		}
		BEGIN { while ((getline line < table) > 0) { split(line, w, " "); left[++n] = "^" w[1] "$"; right[n] = "^" w[2] "$" } }
		{
			match($0, /.*\//)
			folder = substr($0, 1, RLENGTH - 1)
			name = substr($0, RLENGTH + 1)
			for (i = 1; i <= count[name]; i++)
				if (!is_mirror(folders[name, i], folder)) print "# " folders[name, i] "/" name, $0
			folders[name, ++count[name]] = folder
		}'
}

# report FILE NAME: empty is right; with arrows.sh seeded the contrary.
report()
{
	n=$((n + 1))
	if [ -s "$1" ]; then cat "$1"; found=1; else found=0; fi
	if [ "$found" -eq "${seeded:-0}" ]; then echo "ok $n - $2"; else echo "not ok $n - $2"; fi
}

includes >"$scratch/includes"
calls >"$scratch/calls"
(cd "$srcdir" && find gen runtime backends verify command examples tests -name '*.[ch]' ! -path 'tests/fake/lib/*' | sort) >"$scratch/files"
echo 1..11
[ "$(wc -l <"$scratch/includes")" -gt 100 ] && [ "$(wc -l <"$scratch/calls")" -gt 300 ] && [ "$(wc -l <"$scratch/files")" -gt 300 ]
code=$?
n=1
if [ $code -eq 0 ]; then is=ok; else is='not ok'; fi
echo "$is 1 - there are files, includes and calls to look at"
against <"$scratch/includes" >"$scratch/wrong"
report "$scratch/wrong" 'includes go one way'
against <"$scratch/calls" >"$scratch/wrong"
report "$scratch/wrong" 'calls go one way'
circles <"$scratch/calls" >"$scratch/wrong"
report "$scratch/wrong" 'no two files call each other'
namesakes <"$scratch/files" >"$scratch/wrong"
report "$scratch/wrong" 'no two files have one name outside of folders that mirror each other'

# What is seeded is seen.
seeded=1
echo 'runtime/core/dtype.c runtime/op/op.h' | against >"$scratch/wrong"
report "$scratch/wrong" 'a seeded include against the arrows is found'
echo 'backends/cpu/cpu runtime/rnn/layers cg_layers_forward' | against >"$scratch/wrong"
report "$scratch/wrong" 'a seeded call against the arrows is found'
printf '%s\n' 'runtime/op/check runtime/op/run cg_op_run' 'runtime/op/run runtime/op/check cg_op_check' | circles >"$scratch/wrong"
report "$scratch/wrong" 'a seeded circle of two files is found'
printf '%s\n' command/cache.c runtime/cache/cache.c | namesakes >"$scratch/wrong"
report "$scratch/wrong" 'a seeded second file of one name is found'
echo 'command/info_command.c runtime/device/backend.h' | against >"$scratch/wrong"
report "$scratch/wrong" 'a seeded include of the command beside its window is found'
echo 'command/info backends/cpu/cpu cg_cpu_gemm' | against >"$scratch/wrong"
report "$scratch/wrong" 'a seeded call of the command into a backend is found'
