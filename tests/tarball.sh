#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Two runs of make dist give a tarball of the same bytes, which has every file that git tracks or that aclocal.m4 includes.
# MAKE: make; srcdir: the source.  Runs in the build tree; writes its files to a temporary folder.
set -u
srcdir=${srcdir:-.}
scratch=$(mktemp -d) || exit 99
trap 'rm -rf "$scratch"' EXIT
unset MAKEFLAGS MFLAGS MAKELEVEL

# tarball NAME: makes the tarball $scratch/NAME.tar.gz.  The folder that make dist packs has the same name each time, since this name is in
# the tarball.
tarball()
{
	"${MAKE:-make}" -s dist-gzip distdir="$scratch/cellgrad" >"$scratch/why" 2>&1 </dev/null &&
		mv "$scratch/cellgrad.tar.gz" "$scratch/$1.tar.gz"
}

# list_differences: prints how the two tarballs differ: in names, modes, dates and sizes of files, then in their contents.
list_differences()
{
	for name in first second; do
		mkdir "$scratch/$name"
		gzip -dc "$scratch/$name.tar.gz" | tar xpf - -C "$scratch/$name"
		gzip -dc "$scratch/$name.tar.gz" | tar tvf - >"$scratch/$name.list"
	done
	diff "$scratch/first.list" "$scratch/second.list" | head -n 20
	diff -r "$scratch/first" "$scratch/second" | head -n 20
}

report()
{
	if [ "$1" -eq 0 ]; then echo "ok $2 - $3"; else sed 's/^/# /' "$scratch/why"; echo "not ok $2 - $3"; fi
}

echo 1..2
if ! grep -q '^am__tar = .*--sort=name' Makefile; then
	echo 'ok 1 - two runs of make dist give the same bytes # SKIP tar is not GNU tar, and puts the time into the tarball'
elif tarball first && (umask 077; sleep 1; SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH-} tarball second); then
	cmp "$scratch/first.tar.gz" "$scratch/second.tar.gz" >"$scratch/why" 2>&1 || ! list_differences >>"$scratch/why" 2>&1
	report $? 1 'two runs of make dist give the same bytes'
else
	report 1 1 'two runs of make dist give the same bytes'
fi

if [ ! -e "$srcdir/.git" ] || ! git -C "$srcdir" ls-files >"$scratch/tracked" 2>/dev/null; then
	echo 'ok 2 - every file that git tracks is in the tarball # SKIP the source is not a checkout of git'
else
	[ -f "$scratch/first.tar.gz" ] || tarball first
	gzip -dc "$scratch/first.tar.gz" | tar tf - | sed "s,^/*${scratch#/}/cellgrad/,,; s,^cellgrad/,," | sort >"$scratch/packed"
	sed -n 's/^m4_include(\[\(.*\)\])$/\1/p' "$srcdir/aclocal.m4" >>"$scratch/tracked"
	sort "$scratch/tracked" | comm -23 - "$scratch/packed" >"$scratch/why"
	[ -s "$scratch/packed" ] && [ ! -s "$scratch/why" ]
	report $? 2 'every file that git tracks or that aclocal.m4 includes is in the tarball'
fi
