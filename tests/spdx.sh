#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every file of the source has a line with its licence among its first three lines, except for the files of list_exceptions.
#   spdx.sh        the test
#   spdx.sh add    writes the line into the files that lack it
# srcdir: the source.
set -u
cd "${srcdir:-.}" || exit 99
line='SPDX-License-Identifier: Apache-2.0'
scratch=$(mktemp -d) || exit 99
trap 'rm -rf "$scratch"' EXIT

# list_exceptions: prints the files that need no line with a licence, as patterns of the shell, each with the reason.
list_exceptions()
{
	cat <<'END'
*.md                      documents: LICENSE is for them
*.svg                     pictures of documents
LICENSE                   is the licence
AUTHORS                   a document
NEWS                      a document
.gitignore                a list of names
*/py.typed                is empty, as Python's rules have it
templates/*.cell          printed verbatim by cellgrad emit --source, and installed to start from
templates/*.in            printed verbatim into emitted kernels
gen/tile.h                printed verbatim into emitted kernels
tests/gen/*.cell          their texts are in golden texts
tests/gen/golden/*        emitted texts
tests/data/*              answers of other programs, and what made them
tests/old/*               headers and a program of earlier versions, as they were
tests/reports/*           what was seen on a GPU
tests/frameworks/*.txt    lists of packages, as pip prints them
tests/toy.patch           a patch
command/demo/alice.txt    a book, out of copyright
packaging/debian/*        lists whose form Debian's policy has; packaging/debian/copyright says the licence
END
}

list_exceptions >"$scratch/exceptions"
srcdir=. sh tests/source_files.sh >"$scratch/files"
# Converts the patterns of the shell to regular expressions of awk.
sed 's/ .*//; s/[.]/[.]/g; s/\*/.*/g; s/.*/^&$/' "$scratch/exceptions" >"$scratch/patterns"
awk -v patterns="$scratch/patterns" -v unused="$scratch/unused" -v line="$line" '
	BEGIN { while ((getline pattern < patterns) > 0) all[++n] = pattern }
	{
		excepted = found = 0
		for (k = 1; k <= n; k++)
			if ($0 ~ all[k]) excepted = used[k] = 1
		for (k = 1; k <= 3 && (getline text < $0) > 0; k++)
			found = found || index(text, line)
		close($0)
		if (!found && !excepted) print
	}
	END { for (k = 1; k <= n; k++) if (!used[k]) print "# no file is " all[k] >unused }' "$scratch/files" >"$scratch/missing"
touch "$scratch/unused"
if [ "${1:-}" = add ]; then
	while read -r file; do add "$file"; done <"$scratch/missing"
	exit 0
fi

echo 1..2
if [ "$(wc -l <"$scratch/files")" -gt 500 ] && [ ! -s "$scratch/missing" ]; then
	echo 'ok 1 - every file has a line with its licence'
else
	sed 's/^/# /' "$scratch/missing"
	echo 'not ok 1 - every file has a line with its licence'
fi
# A pattern in the list of exceptions that matches no file is a failure.
cat "$scratch/unused"
[ ! -s "$scratch/unused" ] && echo 'ok 2 - every exception has a file' || echo 'not ok 2 - every exception has a file'
