#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Messages of configure: where pkg-config is missing they name it beside the library, which may be installed.
# Runs in the build tree, by the arguments with which that was configured.  srcdir: the source.
set -u
srcdir=$(cd "${srcdir:-.}" && pwd) || exit 99
scratch=$(mktemp -d) || exit 99
trap 'rm -rf "$scratch"' EXIT
arguments=$(./config.status --config) || exit 99
# configure stops before it reads other files of the source; a source that is configured refuses another folder, a copy does not.
mkdir "$scratch/runtime" && cp -R "$srcdir/configure" "$srcdir/build-aux" "$scratch" || exit 99
cp "$srcdir/runtime/cellgrad.h" "$scratch/runtime" && chmod -R u+w "$scratch" && cd "$scratch" || exit 99
variables='PKG_CONFIG=false LIBMD_CFLAGS= LIBMD_LIBS= JANSSON_CFLAGS= JANSSON_LIBS='
n=0

# refuses MESSAGE ARGUMENT...: configure with these arguments, and a PKG_CONFIG that fails, ends with the message.
refuses()
{
	n=$((n + 1)) message="configure: error: $1"
	shift
	if eval "./configure -q -C $arguments --srcdir=. $variables \"\$@\"" >printed 2>&1 </dev/null; then
		echo "# configure $*: succeeds"
	elif grep -qxF "$message" printed; then
		echo "ok $n - without pkg-config configure $* names it"
		return
	fi
	sed 's/^/# /' printed
	echo "not ok $n - without pkg-config configure $* names it"
}

echo 1..2
unfound='which is not found without pkg-config'
refuses "no libmd, $unfound (Debian: pkg-config libmd-dev)" --with-libmd
refuses "the command needs jansson, $unfound (Debian: pkg-config libjansson-dev); leave it out with --disable-command" \
	--without-libmd --enable-command
