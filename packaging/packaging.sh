#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# packaging.sh [FOLDER]: builds the binary Debian packages of the source, as it is, in a temporary copy, checks the packages by lintian, and
# copies them to FOLDER, which must exist, if that is given.  Exit status 77: a tool is missing.
set -u
top=$(cd "$(dirname "$0")/.." && pwd) || exit 1
to=
if [ -n "${1:-}" ]; then to=$(cd "$1" && pwd) || exit 1; fi
for tool in dpkg-buildpackage dh lintian; do
	command -v $tool >/dev/null || { echo "packaging: there is no $tool" >&2; exit 77; }
done
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/cellgrad" && (cd "$top" && tar cf - --exclude=./build --exclude=./.git --exclude=./docs/html .) | (cd "$scratch/cellgrad" && tar xf -) || exit 1
cd "$scratch/cellgrad" && mv packaging/debian debian || exit 1
[ ! -f Makefile ] || make -s distclean >"$scratch/log" 2>&1 || { tail -n 30 "$scratch/log" >&2; exit 1; }
dpkg-buildpackage -us -uc -b >"$scratch/log" 2>&1 || { tail -n 30 "$scratch/log" >&2; exit 1; }
lintian --fail-on error,warning ../*.changes || exit 1
for package in ../*.deb; do echo "$(basename "$package")"; done
[ -z "$to" ] || cp ../*.deb ../*.changes "$to"
