#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tests that the includes of each file, and the calls of each object file, keep to the lists `arrows` and `headers` in this script.  No
# files may call each other in a circle, and no two files may share a name unless their folders mirror each other.  Each README.md must name
# the files of its folder, and no struct may have the name of a function of its folder.  This script runs in the build's top folder.
#   srcdir: the top folder of the source
set -u
scratch=$(mktemp -d) || exit 99
trap 'rm -rf "$scratch"' EXIT
n=0

# Each line of the list `arrows` names a folder, then the folders whose files the files of the first folder may include and call.
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
bindings
END
# Each line of the list `headers` names a folder, then the only headers of runtime/, or folders of headers, that its files may include.
# Outside backends/, only runtime/device/open.c may include headers of backends/ and use symbols of backends/.
cat >"$scratch/headers" <<'END'
backends    runtime/device/backend.h runtime/device/net.h runtime/core/ runtime/cache/
verify      runtime/cellgrad.h runtime/op/op.h runtime/core/core.h runtime/device/mem.h
command     runtime/cellgrad.h runtime/device/inspect.h
bindings    runtime/cellgrad.h
END

# The list `mirrors`: two patterns of folders whose files may share a name, since these files have the same task in both folders.  Files
# of two backends may share a name, since each backend implements the same parts of the device; so may files of tests/fake, which replaces
# the libraries of NVIDIA that backends/cuda calls, and of the Python package's packages, one for each framework.
cat >"$scratch/mirrors" <<'END'
backends/[a-z]*           backends/[a-z]*
backends/[a-z]*           runtime/device
backends/cuda(/cudnn)?    tests/fake
backends                  tests/fake
python/cellgrad           python/cellgrad/[a-z]*
python/cellgrad/[a-z]*    python/cellgrad/[a-z]*
END

# files: prints every file of the source, but hidden ones, in the folders that this test looks at.
files()
{
	srcdir=$srcdir sh "$srcdir/tests/source_files.sh" |
		grep -E '^(gen|runtime|backends|bindings|verify|command|templates|examples|python|docs|tests)/' | grep -v '/\.[^/]*$'
}

# Prints "FILE INCLUDED" for every #include with a name in quotes.  Only in gen/ may an include name a file of gen/ without its folder.
includes()
{
	files | grep -E '^(gen|runtime|backends|bindings|verify|command)/.*\.[ch]$' | (cd "$srcdir" && xargs awk '
		/^#include "/ { split($0, part, "\""); print FILENAME, (FILENAME ~ /^gen\// && part[2] !~ /\// ? "gen/" : "") part[2] }')
}

# Prints "OBJECT OTHER SYMBOL" for every symbol that one object file uses and another one defines.
calls()
{
	find gen runtime backends bindings verify command -name '*.o' ! -name '*tests_*' | xargs nm -A | awk '
		BEGIN { FS = ":" }
		{
			object = $1
			n = split($2, w, " ")
			shared = sub(/\/\.libs\//, "/", object)
			sub(/\.o$/, "", object)
			sub(/\/[a-z_]*_la-/, "/", object)
			# An object file that is built twice, for static and for shared libraries, is read once.
			if (object in from && from[object] != $1) next
			from[object] = $1
			if (w[n - 1] ~ /^[TDBRVWC]$/) home[w[n]] = object
			if (w[n - 1] == "U") used[++k] = object " " w[n]
		}
		END { for (i = 1; i <= k; i++) { split(used[i], u, " "); if (u[2] in home && home[u[2]] != u[1]) print u[1], home[u[2]], u[2] } }' | sort -u
}

# Prints those lines "FROM TO ..." of the input that the list `arrows` or the list `headers` does not allow, or that concern a folder that
# the list `arrows` lacks.  Files of verify, command and bindings may call what cellgrad.h declares.
against()
{
	awk -v table="$scratch/arrows" -v list="$scratch/headers" -v header="$srcdir/runtime/cellgrad.h" '
		function folder(path) {
			sub(/^\.\//, "", path)
			if (path ~ /^(gen|backends|bindings|verify|command)\//) { split(path, part, "/"); return part[1] }
			# inspect.h, by which the command reads inner parts of the library, does not count as a part of device.
			if (path == "runtime/device/inspect.h") return "inspect"
			if (path == "runtime/cellgrad.h") return "header"
			if (path ~ /^runtime\/[a-z]+\//) { split(path, part, "/"); return part[2] in known ? part[2] : "" }
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
			if (from == "" || to == "") { print "# " $0; next }
			if (from == to || from == "inspect") next
			if ($1 ~ /^runtime\/device\/open/ && to == "backends") next
			if (($2 ~ /^runtime\/.*\.h$/ || (from == "command" && $2 ~ /^gen\/.*\.h$/)) && n[from]) { if (!is_listed(from, $2)) print "# " $0; next }
			if (to == "header" || (to == "inspect" && $1 == "runtime/device/inspect.c")) next
			if ((from == "verify" || from == "command" || from == "bindings") && $3 in public) next
			if (!(from in known) || !((from, to) in may)) print "# " $0
		}'
}

# Prints those lines "A B SYMBOL" of the input that are part of a circle of two or more files, or of a path between circles.  A call is not
# part of a circle if no file calls the calling file, or if the called file calls no file.  The function removes
# calls from a file that no file calls, and calls to a file that calls no file, again and again, until only circles and the paths between
# them are left.
circles()
{
	awk '
		{ symbol[$1, $2] = $3 }
		END {
			do {
				split("", calls)
				split("", called)
				for (call in symbol) { split(call, file, SUBSEP); calls[file[1]] = called[file[2]] = 1 }
				gone = 0
				for (call in symbol) {
					split(call, file, SUBSEP)
					if (!(file[1] in called) || !(file[2] in calls)) { delete symbol[call]; gone = 1 }
				}
			} while (gone)
			for (call in symbol) { split(call, file, SUBSEP); print "# " file[1], file[2], symbol[call] }
		}' | sort
}

# Prints pairs of files that share a name, in folders that do not mirror each other.
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

# Prints the struct tags that are also the name of a function in the same folder; the input lists files below the folder $1.
# A function counts if its definition or declaration begins at the left margin.  cg_rnn_sizes and cg_rnn_region may be a struct and a
# function.  A folder of tests has many programs, so a .c file of tests and the header of the same name count as a folder of their own; but
# tests/sequence is one program, and counts as one folder.
twins()
{
	(cd "$1" && xargs awk '
		function folder(path) { sub(path ~ /^tests\// && path !~ /^tests\/sequence\// ? "[.][ch]$" : "/[^/]*$", "", path); return path }
		{ from = folder(FILENAME) }
		match($0, /struct [a-z][a-z0-9_]* \{/) { split(substr($0, RSTART, RLENGTH), w, " "); tag[from, w[2]] = FILENAME }
		/^[A-Za-z]/ && match($0, /[a-z][a-z0-9_]*\(/) { of[from, substr($0, RSTART, RLENGTH - 1)] = FILENAME }
		END {
			for (twin in tag) {
				split(twin, w, SUBSEP)
				if (twin in of && w[2] !~ /^cg_rnn_(sizes|region)$/) print "# struct " w[2] " of " tag[twin] ", " w[2] "() of " of[twin]
			}
		}') | sort
}

# Prints a line about each file that its README.md does not name, about each name in a README.md that has no file, is there twice or belongs
# to another README.md, and about each README.md to which none above links.  The input lists the files of the folder $1.  A README.md names
# the files of its folder, and of the folders below it that have no README.md, in the first column of tables whose header begins with
# "file" or "script".  A table is about a folder below, if the table's header or the heading above the table names that folder.  A name may
# have a *, and a name with a / at its end stands for all files below that folder.  A README.md may leave out README.md, local.mk,
# configure.m4 and files without an ending.
unnamed()
{
	awk -v top="$1" '
		function above(path) { sub(/\/?[^\/]*$/, "", path); return path }
		# Returns the folder of the README.md that must name the file `path`.
		function home(path) { do path = above(path); while (path && !(path in readme)); return path }
		function take(folder, name, pattern) {
			if (name ~ /\/$/ || name ~ /\*/) {
				pattern = folder "/" name
				gsub(/\./, "[.]", pattern)
				gsub(/\*/, "[^/]*", pattern)
				patterns[folder] = patterns[folder] "|^" pattern (name ~ /\/$/ ? "" : "$")
			} else if (!(folder "/" name in file))
				print "# " folder "/README.md: there is no " name
			else if (home(folder "/" name) != folder)
				print "# " folder "/README.md: " name " is a file of " home(folder "/" name) "/README.md"
			else if (named[folder "/" name]++)
				print "# " folder "/README.md: " name " is there twice"
		}
		function read(folder, line, last, below, heading, listed, cell) {
			while ((getline line < (top "/" folder "/README.md")) > 0) {
				if (line ~ /^## /) { heading = substr(line, 4) "/"; below = folder "/" heading in folders ? heading : "" }
				if (line ~ /^\|/ && last !~ /^\|/) {
					split(line, cell, /\|/)
					listed = cell[2] ~ /^ (file|script)( of `[a-z\/]*`)? $/
					heading = match(cell[2], /`.*`/) ? substr(cell[2], RSTART + 1, RLENGTH - 2) : below
				} else if (line ~ /^\|/ && listed) {
					split(line, cell, /\|/)
					while (match(cell[2], /`[^`]*`/)) {
						take(folder, heading substr(cell[2], RSTART + 1, RLENGTH - 2))
						cell[2] = substr(cell[2], RSTART + RLENGTH)
					}
				}
				last = line
				while (match(line, /\([a-z\/]+\/README\.md[)#]/)) {
					linked[folder "/" substr(line, RSTART + 1, RLENGTH - 2)] = 1
					line = substr(line, RSTART + RLENGTH)
				}
			}
		}
		{
			file[$0] = 1
			for (path = above($0); path; path = above(path)) folders[path "/"] = 1
			if (/\/README\.md$/) readme[above($0)] = 1
		}
		END {
			for (path in readme) read(path)
			for (path in readme)
				if (home(path) && !(path "/README.md" in linked)) print "# " home(path) "/README.md: it has no link to " path "/README.md"
			for (path in file) {
				if (path in named || path ~ /\/(README\.md|local\.mk|configure\.m4|[^.\/]*)$/ || !(from = home(path))) continue
				if (!patterns[from] || path !~ substr(patterns[from], 2)) print "# " from "/README.md: it does not name " path
			}
		}' | sort
}

# report FILE NAME: prints FILE and a line of TAP.  The test NAME passes if FILE is empty; if `seeded` is 1, it passes if FILE is not empty.
report()
{
	n=$((n + 1))
	if [ -s "$1" ]; then cat "$1"; found=1; else found=0; fi
	if [ "$found" -eq "${seeded:-0}" ]; then echo "ok $n - $2"; else echo "not ok $n - $2"; fi
}

includes >"$scratch/includes"
calls >"$scratch/calls"
files >"$scratch/all"
grep -E '\.(c|h|cc|sh|py|bats|bash)$' "$scratch/all" >"$scratch/files"
echo 1..25
[ "$(wc -l <"$scratch/includes")" -gt 100 ] && [ "$(wc -l <"$scratch/calls")" -gt 300 ] && [ "$(wc -l <"$scratch/files")" -gt 300 ]
code=$?
n=1
if [ $code -eq 0 ]; then is=ok; else is='not ok'; fi
echo "$is 1 - there are files, includes and calls to look at"
against <"$scratch/includes" >"$scratch/wrong"
report "$scratch/wrong" 'each include between folders is allowed by the lists `arrows` and `headers`'
against <"$scratch/calls" >"$scratch/wrong"
report "$scratch/wrong" 'each call between folders is allowed by the list `arrows`, or is to a function of cellgrad.h'
circles <"$scratch/calls" >"$scratch/wrong"
report "$scratch/wrong" 'no files call each other in a circle'
namesakes <"$scratch/files" >"$scratch/wrong"
report "$scratch/wrong" 'no two files share a name unless their folders mirror each other'
unnamed "$srcdir" <"$scratch/all" >"$scratch/wrong"
report "$scratch/wrong" 'each README.md names the files of its folder that it may not leave out, no absent file, and none twice'
grep -E '^(gen|runtime|backends|bindings|verify|command|tests)/.*\.[ch]$' "$scratch/all" | grep -vE '^tests/(old|gen/golden)/' | twins "$srcdir" >"$scratch/wrong"
report "$scratch/wrong" 'no struct has the name of a function of its folder, or of its file in tests'

# The checks after seeded=1 have input with a planted breach, which must be reported; those after seeded=0 have input without a breach.
seeded=1
echo 'runtime/core/dtype.c runtime/op/op.h' | against >"$scratch/wrong"
report "$scratch/wrong" 'a planted include in the wrong direction is reported'
echo 'verify/bound.c bound.h' | against >"$scratch/wrong"
report "$scratch/wrong" 'a planted include of a path without its folder is reported'
echo 'runtime/op/check.c runtime/new/check.h' | against >"$scratch/wrong"
report "$scratch/wrong" 'a planted include of a folder that the list `arrows` lacks is reported'
echo 'backends/cpu/cpu runtime/rnn/layers cg_layers_forward' | against >"$scratch/wrong"
report "$scratch/wrong" 'a planted call in the wrong direction is reported'
printf '%s\n' 'runtime/op/check runtime/op/run cg_op_run' 'runtime/op/run runtime/op/check cg_op_check' | circles >"$scratch/wrong"
report "$scratch/wrong" 'a planted circle of two files is reported'
printf '%s\n' 'gen/a gen/b b' 'gen/b gen/c c' 'gen/c gen/a a' 'gen/main gen/a a' 'gen/c gen/d d' | circles >"$scratch/wrong"
[ "$(wc -l <"$scratch/wrong")" -eq 3 ] || : >"$scratch/wrong"
report "$scratch/wrong" 'a planted circle of three files is reported, and no call into it or out of it'
printf '%s\n' command/cache.c runtime/cache/cache.c | namesakes >"$scratch/wrong"
report "$scratch/wrong" 'a planted file with the name of another is reported'
printf '%s\n' tests/old.sh tests/old/old.sh | namesakes >"$scratch/wrong"
report "$scratch/wrong" 'a planted script with the name of another is reported'
# plant ROW...: writes tests/README.md with a table of these rows, and tests/x/README.md with a row for a.c, in the folder $scratch/top
plant()
{
	mkdir -p "$scratch/top/tests/x"
	printf '%s\n' '| file | tests |' '|---|---|' "$@" >"$scratch/top/tests/README.md"
	printf '%s\n' '| file | tests |' '|---|---|' '| `a.c` | a |' >"$scratch/top/tests/x/README.md"
}
paths='tests/README.md tests/x.sh tests/x/README.md tests/x/a.c'
plant '| `x.sh` | [x](x/README.md) |'
seeded=0
printf '%s\n' $paths | unnamed "$scratch/top" >"$scratch/wrong"
report "$scratch/wrong" 'nothing is reported if each README.md names its files'
seeded=1
printf '%s\n' $paths tests/x/b.c | unnamed "$scratch/top" >"$scratch/wrong"
report "$scratch/wrong" 'a planted file that no README.md names is reported'
printf '%s\n' $paths | grep -v x.sh | unnamed "$scratch/top" >"$scratch/wrong"
report "$scratch/wrong" 'a planted README.md that names a file that does not exist is reported'
plant '| `x.sh` | [x](x/README.md) |' '| `x.sh` | again |'
printf '%s\n' $paths | unnamed "$scratch/top" >"$scratch/wrong"
report "$scratch/wrong" 'a planted README.md that names a file twice is reported'
plant '| `x.sh` `x/a.c` | [x](x/README.md) |'
printf '%s\n' $paths | unnamed "$scratch/top" >"$scratch/wrong"
report "$scratch/wrong" 'a planted README.md that names the file of another README.md is reported'
plant '| `x.sh` | no link |'
printf '%s\n' $paths | unnamed "$scratch/top" >"$scratch/wrong"
report "$scratch/wrong" 'a planted README.md to which no other links is reported'
mkdir -p "$scratch/top/gen" "$scratch/top/runtime" "$scratch/top/tests/sequence"
echo 'struct walk { int step; };' >"$scratch/top/gen/a.h"
echo 'static struct cut *walk(int step)' >"$scratch/top/gen/a.c"
echo 'static int walk(int step)' >"$scratch/top/runtime/a.c"
cp "$scratch/top/gen/a.h" "$scratch/top/tests/a.h"
cp "$scratch/top/gen/a.c" "$scratch/top/tests/a.c"
cp "$scratch/top/gen/a.c" "$scratch/top/tests/b.c"
cp "$scratch/top/gen/a.h" "$scratch/top/tests/sequence/a.h"
cp "$scratch/top/gen/a.c" "$scratch/top/tests/sequence/b.c"
seeded=0
printf '%s\n' gen/a.h runtime/a.c tests/a.h tests/b.c | twins "$scratch/top" >"$scratch/wrong"
report "$scratch/wrong" 'a function of another folder, or of another file of tests, may have the name of a struct'
seeded=1
printf '%s\n' gen/a.h gen/a.c tests/a.h tests/a.c tests/sequence/a.h tests/sequence/b.c | twins "$scratch/top" >"$scratch/wrong"
[ "$(wc -l <"$scratch/wrong")" -eq 3 ] || : >"$scratch/wrong"
report "$scratch/wrong" 'a planted struct with the name of a function is reported'
printf '%s\n' 'command/info_command.c runtime/device/backend.h' 'command/main.c gen/cell.h' | against >"$scratch/wrong"
[ "$(wc -l <"$scratch/wrong")" -eq 2 ] || : >"$scratch/wrong"
report "$scratch/wrong" 'a planted include of an internal header by the command is reported'
echo 'command/info backends/cpu/cpu cg_cpu_gemm' | against >"$scratch/wrong"
report "$scratch/wrong" 'a planted call of the command into a backend is reported'
