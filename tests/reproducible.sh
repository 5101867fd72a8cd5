#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# No path of the source or of the build is in a binary, so that two builds in two folders have the same bytes.
#   reproducible.sh          the binaries of this build, and the compiler's options that map paths: a part of make check
#   reproducible.sh whole    two builds, in folders of other names and lengths: a part of make bigcheck
# Runs in the build tree.  srcdir: the source; MAKE: make; CC, BUILD_CFLAGS: how the library was compiled.
set -u
srcdir=$(cd "${srcdir:-.}" && pwd) || exit 99
scratch=$(mktemp -d) || exit 99
trap 'rm -rf "$scratch"' EXIT
unset MAKEFLAGS MFLAGS MAKELEVEL
why=$scratch/why n=0 red=0
relative=$(sed -n 's/^relative = //p' Makefile)

report()
{
	n=$((n + 1))
	if [ "$1" -eq 0 ]; then echo "ok $n - $2"; else red=1; sed 's/^/# /' "$why"; echo "not ok $n - $2"; fi
}

# binaries FOLDER: prints which of these binaries the build FOLDER has: cellgen, the command, both libraries, the modules for JAX and
# TensorFlow, and the loader of the latter.
binaries()
{
	(cd "$1" && for file in cellgen cellgrad .libs/libcellgrad.so .libs/libcellgrad.a .libs/cellgrad_jax.so .libs/cellgrad_tensorflow.so \
		.libs/cellgrad_tensorflow_loader.so; do
		[ ! -f "$file" ] || echo "$file"
	done)
}

# copy NAME: copies the source to $scratch/NAME.  build NAME: builds that copy.
copy()
{
	mkdir -p "$scratch/$1" && (cd "$srcdir" && tar cf - --exclude=./build --exclude=./.git --exclude='*.o' .) | (cd "$scratch/$1" && tar xf -)
}
build()
{
	(cd "$scratch/$1" && { [ -f configure ] || ./bootstrap; } && mkdir made && cd made && ../configure -q && ${MAKE:-make} -s -j2) \
		>"$why" 2>&1 </dev/null
}

# object ROOM SOURCE BUILD: compiles a file of the folder ROOM/SOURCE in the folder ROOM/BUILD, by its absolute path and with the options
# that map paths, and writes ROOM.o, all in $scratch.
object()
{
	room=$scratch/$1 source=$scratch/$1/$2 build=$scratch/$1/$3
	mkdir -p "$source" "$build" && echo 'const char *file(void) { return __FILE__; }' >"$source/file.c" || return
	maps=$(echo "$relative" | sed "s,\$(abs_top_srcdir),$source,g; s,\$(abs_top_builddir),$build,g")
	# shellcheck disable=SC2086 # lists of words
	(cd "$build" && ${CC:-cc} -g $maps -c "$source/file.c" -o "$room.o")
}

case "$relative:${BUILD_CFLAGS:-}" in
:*)           n=1; echo 'ok 1 - no path of the build # SKIP the compiler has no -ffile-prefix-map' ;;
*--coverage*) n=1; echo 'ok 1 - no path of the build # SKIP coverage writes beside the objects' ;;
*)
	if [ "${1:-}" = whole ]; then
		copy one && copy another/and/longer && build one && build another/and/longer && for file in $(binaries "$scratch/one/made"); do
			cmp "$scratch/one/made/$file" "$scratch/another/and/longer/made/$file" 2>&1
		done >"$why" && [ "$(binaries "$scratch/one/made" | wc -l)" -gt 2 ] && [ ! -s "$why" ]
		report $? 'two builds in two folders have the same bytes'
	else
		prefix=$(sed -n 's/^prefix = //p' Makefile)
		for file in $(binaries .); do
			for path in "$(pwd)" "$srcdir"; do
				# The command has the prefix of the installation, which is below the source in make distcheck.
				case $prefix in "$path"/*) LC_ALL=C sed "s,$prefix,,g" "$file" ;; *) cat "$file" ;; esac >"$scratch/binary"
				! grep -q -a -F "$path" "$scratch/binary" || echo "$file has $path"
			done
		done >"$why"
		[ -n "$(binaries .)" ] && [ ! -s "$why" ]
		report $? 'no path of the source or of the build is in a binary'
		{ object plain source build && object prefix source source-build && cmp "$scratch/plain.o" "$scratch/prefix.o"; } >"$why" 2>&1
		report $? 'a build whose name begins with that of the source gives the same object'
	fi ;;
esac
echo "1..$n"
[ "${1:-}" != whole ] || exit $red
