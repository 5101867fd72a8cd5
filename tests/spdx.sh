#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Every file of the source has a line with its licence among its first three lines, except for the files of list_exceptions.
# packaging/debian/copyright names each file of Autoconf, Automake and Libtool that a tarball has.
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

# add FILE: adds the line with the licence at the top of a file, below a #! line, in a comment of the file's language.
add()
{
	case $1 in
	*.c|*.h|*.cc|*.cu|*.fn|*.map) comment="/* $line */" ;;
	*.[1-9])                      comment=".\\\\\" $line" ;;
	*)                            comment="# $line" ;;
	esac
	awk -v comment="$comment" 'NR == 1 && /^#!/ { print; print comment; next } NR == 1 { print comment } { print }' "$1" >"$scratch/file" &&
		cat "$scratch/file" >"$1"
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

# list_owners: prints the patterns of packaging/debian/copyright, which are also patterns of the shell, without that of all files.
list_owners()
{
	awk '/^[A-Z]/ { files = sub(/^Files:/, "") } files { for (k = 1; k <= NF; k++) if ($k != "*") print $k }' packaging/debian/copyright
}

echo 1..4
if [ "$(wc -l <"$scratch/files")" -gt 500 ] && [ ! -s "$scratch/missing" ]; then
	echo 'ok 1 - every file has a line with its licence'
else
	sed 's/^/# /' "$scratch/missing"
	echo 'not ok 1 - every file has a line with its licence'
fi
# A pattern in the list of exceptions that matches no file is a failure.
cat "$scratch/unused"
[ ! -s "$scratch/unused" ] && echo 'ok 2 - every exception has a file' || echo 'not ok 2 - every exception has a file'
printf '#!/bin/sh\ntrue\n' >"$scratch/script.sh"
add "$scratch/script.sh"
printf '#!/bin/sh\n# %s\ntrue\n' "$line" | cmp -s - "$scratch/script.sh" && echo 'ok 3 - add writes the line below #!' ||
	echo 'not ok 3 - add writes the line below #!'
# The tools make these files, which a clone does not have before ./bootstrap.
for file in aclocal.m4 configure Makefile.in build-aux/* build-aux/m4/*; do
	[ -f "$file" ] || continue
	echo "$file" >>"$scratch/made"
	list_owners | while read -r pattern; do
		# shellcheck disable=SC2254 # a pattern
		case $file in $pattern) echo "$file"; break ;; esac
	done >>"$scratch/owned"
done
if [ ! -f "$scratch/made" ]; then
	echo 'ok 4 - packaging/debian/copyright names the files of Autoconf, Automake and Libtool # SKIP there are none'
elif diff "$scratch/made" "$scratch/owned" >"$scratch/why"; then
	echo 'ok 4 - packaging/debian/copyright names the files of Autoconf, Automake and Libtool'
else
	sed 's/^/# /' "$scratch/why"
	echo 'not ok 4 - packaging/debian/copyright names the files of Autoconf, Automake and Libtool'
fi
