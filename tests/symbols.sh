#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# The shared library exports all functions that cellgrad.h declares and nothing else; every global name of the static library begins with
# cg_.  The environment has LIBRARY: the shared library; ARCHIVE: the static library; srcdir: the source. If one of the libraries is
# missing, its test is skipped. Symbols that the address sanitizer adds for each variable are ignored.
set -u
header=${srcdir:-.}/runtime/cellgrad.h
scratch=$(mktemp -d) || exit 99
trap 'rm -rf "$scratch"' EXIT
echo 1..2

sed -n 's/^CG_API .*[ *]\(cg_[a-z0-9_]*\)(.*/\1/p' "$header" | sort >"$scratch/declared"
if [ -r "${LIBRARY:-}" ]; then
	nm -D --defined-only "$LIBRARY" | awk '$2 != "A" { print $3 }' | sed 's/@.*//' | sort >"$scratch/exported"
	if diff "$scratch/declared" "$scratch/exported" >"$scratch/difference"; then
		echo "ok 1 - the shared library exports the $(wc -l <"$scratch/declared" | tr -d ' ') calls of its header"
	else
		sed 's/^/# /' "$scratch/difference"
		echo "not ok 1 - the shared library exports the calls of its header"
	fi
else
	echo "ok 1 - the shared library exports the calls of its header # SKIP no shared library"
fi

if [ -r "${ARCHIVE:-}" ]; then
	if nm -g --defined-only "$ARCHIVE" 2>/dev/null | awk 'NF == 3 && $3 !~ /^(__odr_asan\.)?_?cg_/ { print "# " $3; n++ } END { exit n > 0 }'; then
		echo "ok 2 - every name of the static library begins with cg_"
	else
		echo "not ok 2 - every name of the static library begins with cg_"
	fi
else
	echo "ok 2 - every name of the static library begins with cg_ # SKIP no static library"
fi
