#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Programs of earlier versions keep running: for each header of tests/old a program compiled against it runs on this library and says
# what it says compiled against today's; every struct, constant and call that the header declares is where it was.  Structs that begin
# with their size may have grown at their end, no other has.
#
# LIBRARY: the shared library; srcdir: the source; CC: a C compiler.  `old.sh later` tries the library after this one instead, whose
# structs have grown: a copy of the source is built in a temporary folder, which takes minutes.
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

# text HEADER: without comments and directives.
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

# fields HEADER: "struct field" of each field, and "struct" of each struct that does not begin with its size.
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

# numbers HEADER: makes a program that prints all offsets and values.
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

# run HEADER SOURCE: the output of the program that is compiled against the header, on the present library.
run()
{
	rm -rf "$scratch/include" && mkdir "$scratch/include" && cp "$1" "$scratch/include/cellgrad.h" &&
		$CC ${SANITIZE:-} -I"$scratch/include" -o "$scratch/program" "$2" "$library" >"$scratch/why" 2>&1 &&
		LD_LIBRARY_PATH=$(dirname "$library"):${LD_LIBRARY_PATH:-} "$scratch/program" 2>>"$scratch/why"
}

# same HEADER SOURCE: is the output that of the program compiled against the library's header?
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
		report $? "structs and constants of $version are unchanged in $1"
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
	# Each struct that begins with its size has one more field at its end.
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
