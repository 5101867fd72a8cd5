#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Programs of earlier versions still run.  For each header in tests/old, tests/old/program.c that is compiled with it runs on the present
# library, and prints the same as when it is compiled with the present header.  Every field of the old header has the same offset and size,
# every constant the same value, and the library has the functions.  Only structs that begin with their size may have new fields.
#
# LIBRARY: the shared library; srcdir: the source; CC: a C compiler.  `old.sh later` tests a later library instead, whose structs have more
# fields: a changed copy of the source, which is built in a temporary folder, for minutes.
set -u
srcdir=$(cd "${srcdir:-.}" && pwd) || exit 99
scratch=$(mktemp -d "${TMPDIR:-/tmp}/old.XXXXXX") || exit 99
trap 'rm -rf "$scratch"' EXIT
CC=${CC:-cc}
n=0

report()
{
	n=$((n + 1))
	if [ "$1" -eq 0 ]; then echo "ok $n - $2"; else sed 's/^/# /' "$scratch/why" | head -40; echo "not ok $n - $2"; fi
}

# text HEADER: prints a header without comments and preprocessor directives.
text()
{
	awk '{
		line = $0; text = ""
		while (line != "") {
			if (inside) {
				end = index(line, "*/"); inside = !end; line = end ? substr(line, end + 2) : ""
			} else {
				begin = index(line, "/*"); inside = begin > 0
				text = text (begin ? substr(line, 1, begin - 1) " " : line); line = begin ? substr(line, begin + 2) : ""
			}
		}
		if (text !~ /^[ \t]*#/) print text
	}' "$1"
}

# fields HEADER: prints "struct field" for each field, and "struct" for each struct that does not begin with its size.
fields()
{
	text "$1" | tr '\n' ' ' | grep -o 'struct cg_[a-z_]* *{[^}]*}' | awk '{
		name = $2; sub(/{.*/, "", name)
		body = $0; sub(/^[^{]*{/, "", body); sub(/}.*/, "", body)
		count = split(body, lines, ";")
		for (k = 1; k <= count; k++) {
			line = lines[k]
			if (match(line, /\( *\*[a-z_]+ *\)/)) {         # a pointer to a function
				field = substr(line, RSTART, RLENGTH); gsub(/[^a-z_]/, "", field); print name, field; continue
			}
			parts = split(line, names, ",")
			for (p = 1; p <= parts; p++) {
				field = names[p]; sub(/\[.*/, "", field); sub(/ *$/, "", field)
				if (!match(field, /[A-Za-z_][A-Za-z_0-9]*$/)) continue
				field = substr(field, RSTART)
				if (field == "size" && !sized[name] && !seen[name]) sized[name] = 1
				seen[name] = 1
				print name, field
			}
		}
		if (!sized[name]) print name
	}'
}

constants() { text "$1" | tr '\n' ' ' | grep -o 'enum [a-z_]* *{[^}]*}' | grep -o 'CG_[A-Z0-9_]*'; }

# numbers HEADER: prints a C program that prints the offsets and sizes of all fields, and the values of all constants, of a header.
numbers()
{
	echo '#include <cellgrad.h>'
	echo '#include <stdio.h>'
	echo 'int main(void) {'
	fields "$1" | awk 'NF == 2 { printf "printf(\"%s.%s %%zu %%zu\\n\", offsetof(struct %s, %s), sizeof(((struct %s *)0)->%s));\n", $1, $2, $1, $2, $1, $2 }
		NF == 1 { printf "printf(\"%s %%zu\\n\", sizeof(struct %s));\n", $1, $1 }'
	constants "$1" | awk '{ printf "printf(\"%s %%d\\n\", (int)%s);\n", $1, $1 }'
	echo 'return 0; }'
}

# run HEADER SOURCE: compiles a program with the header, runs it on the library that is tested, and prints its output.
run()
{
	rm -rf "$scratch/include" && mkdir "$scratch/include" && cp "$1" "$scratch/include/cellgrad.h" &&
		$CC ${SANITIZE:-} -I"$scratch/include" -o "$scratch/program" "$2" "$library" >"$scratch/why" 2>&1 &&
		LD_LIBRARY_PATH=$(dirname "$library"):${LD_LIBRARY_PATH:-} "$scratch/program" 2>>"$scratch/why"
}

# same HEADER SOURCE: does a program print the same whether it is compiled with HEADER or with the header of the library that is tested?
same()
{
	run "$1" "$2" >"$scratch/old" && run "$header" "$2" >"$scratch/new" && [ -s "$scratch/old" ] &&
		diff "$scratch/old" "$scratch/new" >"$scratch/why"
}

try()
{
	for old in "$srcdir"/tests/old/cellgrad-*.h; do
		version=$(basename "$old" .h) version=${version#cellgrad-}
		same "$old" "$srcdir/tests/old/program.c"
		report $? "a program of $version runs on $1"
		numbers "$old" >"$scratch/numbers.c"
		[ "$(grep -c printf "$scratch/numbers.c")" -gt 150 ] && same "$old" "$scratch/numbers.c"
		report $? "fields and constants of $version are unchanged in $1"
		sed -n 's/^CG_API .*[ *]\(cg_[a-z0-9_]*\)(.*/\1/p' "$old" | sort >"$scratch/declared"
		nm -D --defined-only "$library" | awk '{ print $3 }' | sed 's/@.*//' | sort >"$scratch/exported"
		[ -s "$scratch/declared" ] && ! comm -23 "$scratch/declared" "$scratch/exported" | grep . >"$scratch/why"
		report $? "$1 has the calls of $version"
	done
}

set -- "${1:-}" "$srcdir"/tests/old/cellgrad-*.h
echo 1..$((3 * ($# - 1)))
header=$srcdir/runtime/cellgrad.h
if [ "$1" = later ]; then
	# In the later library's header each struct that begins with its size has one more field at its end.
	tree=$scratch/later
	mkdir "$tree" && (cd "$srcdir" && tar cf - --exclude=./build --exclude=./.git .) | (cd "$tree" && tar xf -) &&
		awk '/^struct cg_[a-z_]* {/ { sized = 0 } /^\tsize_t  size;/ { sized = 1 } /^};/ && sized { print "\tdouble later_field[3];"; sized = 0 }
			{ print }' "$header" >"$tree/runtime/cellgrad.h" && ! cmp -s "$header" "$tree/runtime/cellgrad.h" &&
		(cd "$tree" && { [ -f configure ] || ./bootstrap; } && mkdir later && cd later && ../configure -q --disable-command &&
		 ${MAKE:-make} -s libcellgrad.la) >"$scratch/why" 2>&1 || { sed 's/^/# /' "$scratch/why" | tail -20; echo 'Bail out! no later library'; exit 99; }
	header=$tree/runtime/cellgrad.h library=$tree/later/.libs/libcellgrad.so
	try "the library after this one"
elif [ -r "${LIBRARY:-}" ]; then
	library=$LIBRARY
	try "this library"
else
	while [ $n -lt $((3 * ($# - 1))) ]; do n=$((n + 1)); echo "ok $n - earlier versions # SKIP no shared library"; done
fi
