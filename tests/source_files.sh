#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints the files of the source, relative to srcdir, without the files that a build in the source's own folder makes: the files that git
# tracks or does not ignore or, without git, as in a release's tarball, the files that do not have the name of a built file.
# srcdir: the source.
cd "${srcdir:-.}" || exit 99
if [ -e .git ] && git ls-files -co --exclude-standard >/dev/null 2>&1; then
	# git also lists tracked files that were deleted, and these are left out.
	git ls-files -co --exclude-standard | while read -r file; do [ ! -f "$file" ] || echo "$file"; done
else
	find . -type f ! -path './build*' ! -path './_build*' ! -path './_inst*' | sed 's,^\./,,' | grep -vE \
		-e '(^|/)(\.deps|\.libs|\.dirstamp|__pycache__|Makefile\.in|autom4te\.cache)(/|$)' \
		-e '\.(o|a|lo|la|log|trs|on|fake|gcno|gcda|gcov|stamp|so|pyc)$' \
		-e '^(aclocal\.m4$|build-aux/|Makefile$|config\.|configure$|libtool$|cellgen$|cellgrad$|tests/fake/lib/)' \
		-e '^(templates/[a-z0-9_]*\.c|backends/cpu/((rows|strip|convert|tiles)_.*\.c|(math|items)_.*\.h|cells\.h)|command/demo/texts\.c)$' \
		-e '^(runtime/cellgrad\.pc|runtime/cellgrad-config.*\.cmake|runtime/reference/Doxyfile|tests/gen/cuda-resources\.txt)$' \
		-e '^(examples|tests)/([^/]*/)*[^./]*$' -e '^docs/html/'
	[ ! -f tests/mutants ] || echo tests/mutants
fi | sort -u
