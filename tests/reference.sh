#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tests the API reference: Doxygen finds no public name of the header without documentation.  The header has at most 110 columns, and each
# of its groups documents errors and threads.  The Python package has a page for each of its parts, and `make docs` reports that Doxygen is
# missing.
#   reference.sh          the header alone, quickly: a part of make check
#   reference.sh whole    make docs, with README.md and docs/*.md: a part of make bigcheck
# Runs in the build tree.  srcdir: the source; MAKE: make; DOXYGEN: doxygen.
set -u
srcdir=$(cd "${srcdir:-.}" && pwd) || exit 99
header=$srcdir/runtime/cellgrad.h
scratch=$(mktemp -d) || exit 99
trap 'rm -rf "$scratch"' EXIT
unset MAKEFLAGS MFLAGS MAKELEVEL
doxygen=${DOXYGEN:-doxygen} why=$scratch/why n=0 red=0
python=$(command -v python3)

report()
{
	n=$((n + 1))
	if [ "$1" -eq 0 ]; then echo "ok $n - $2"; else red=1; sed 's/^/# /' "$why"; echo "not ok $n - $2"; fi
}
skip() { n=$((n + 1)); echo "ok $n - $1 # SKIP $2"; }

# reference HEADER: runs Doxygen on a header alone; the file $why lists names without documentation.  Older versions of Doxygen do not
# report the values of enums, so undocumented values are looked for in Doxygen's XML.
reference()
{
	{ grep -v '^USE_MDFILE\|^FILTER_P' runtime/reference/Doxyfile; echo "GENERATE_HTML = NO"; echo "GENERATE_XML = YES"
	  echo "OUTPUT_DIRECTORY = $scratch/xml"; echo "INPUT = $1"; } | "$doxygen" - >"$why" 2>&1 || return
	awk '/<enumvalue / { getline; value = $0; gsub(/<[^>]*>| /, "", value); said = 0; next }
		/<para>/ { said = 1 }
		/<\/enumvalue>/ { values++; if (!said) print value " is not documented" }
		END { if (values < 20) print values " values of enums" }' "$scratch"/xml/xml/*.xml >"$why"
	[ ! -s "$why" ]
}

if [ "${1:-}" = whole ]; then
	if command -v "$doxygen" >/dev/null; then
		"${MAKE:-make}" -s docs >"$why" 2>&1 </dev/null && [ -s docs/html/index.html ] && [ -s docs/html/python/cellgrad.html ]
		report $? 'make docs makes the pages of the header and of the Python package'
	else
		skip 'make docs makes the pages of the header and of the Python package' "there is no $doxygen"
	fi
	echo "1..$n"
	exit $red
fi

if command -v "$doxygen" >/dev/null; then
	reference "$header"
	report $? 'every public name of the header is documented'
	# A public name whose comment is removed is reported, which shows that the test of documented names works.
	for what in 'CG_NO_MEMORY,< Host or device memory is exhausted[.]' 'cg_cell_name, Returns the i-th built-in.*last[.]' \
		'place,< An enum cg_place[.]'; do
		sed "s,/[*][*]${what#*,} [*]/,," "$header" >"$scratch/cellgrad.h"
		reference "$scratch/cellgrad.h"
		grep -q "${what%%,*}.* is not documented" "$why" || echo "${what%%,*} is not missed"
	done >"$scratch/unseen"
	mv "$scratch/unseen" "$why"
	[ ! -s "$why" ]
	report $? 'a public name without documentation is reported'
else
	skip 'every public name of the header is documented' "there is no $doxygen (Debian: doxygen)"
	skip 'a public name without documentation is reported' "there is no $doxygen (Debian: doxygen)"
fi

expand "$header" | awk 'length > 110 { print FNR ": " length " columns" }' >"$why"
[ ! -s "$why" ]
report $? 'the header has at most 110 columns'

awk '/@defgroup/ { name = $3; groups++; errors = threads = 0 } /Errors: / { errors = 1 } /Threads: / { threads = 1 }
	/@\{/ { if (!errors) print name ": no paragraph on errors"; if (!threads) print name ": no paragraph on threads" }
	END { if (groups < 7) print groups " groups" }' "$header" >"$why"
[ ! -s "$why" ]
report $? 'every group of the header documents errors and threads'

if [ -n "$python" ]; then
	"$python" "$srcdir/runtime/reference/python_pages.py" "$srcdir/python" "$scratch/python" >"$why" 2>&1 &&
		for part in "$srcdir"/python/cellgrad/ "$srcdir"/python/cellgrad/*/; do
			[ -f "$part/__init__.py" ] || continue
			page=cellgrad.${part#"$srcdir"/python/cellgrad/} page=${page%[./]}
			grep -q '<h2 id=' "$scratch/python/$page.html" || echo "$page has no names"
		done >"$why" && [ ! -s "$why" ] && grep -q 'id="cellgrad.Network.forward"' "$scratch/python/cellgrad.html"
	report $? 'every part of the Python package has a page, and every public name has a docstring'
else
	skip 'the pages of the Python package' 'there is no python3'
fi

! "${MAKE:-make}" -s docs DOXYGEN=no-such-doxygen >"$why" 2>&1 </dev/null && grep -q 'there is no no-such-doxygen' "$why"
report $? 'make docs says that there is no Doxygen'
echo "1..$n"
