#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# packaging.sh [FOLDER]: builds the binary Debian packages of the source, as it is, in a temporary copy, checks the packages by lintian, one
# dependency and the links of the documents itself, and copies the packages to FOLDER, which must exist, if that is given.
# Exit status 77: a tool is missing.
set -u
top=$(cd "$(dirname "$0")/.." && pwd) || exit 1
to=
if [ -n "${1:-}" ]; then to=$(cd "$1" && pwd) || exit 1; fi
for tool in dpkg-buildpackage dh lintian; do
	command -v $tool >/dev/null || { echo "packaging: there is no $tool" >&2; exit 77; }
done
scratch=$(mktemp -d) || exit 1
trap 'rm -rf "$scratch"' EXIT

# bounds: prints the bounds of the library's version in the dependencies of the Python package, such as >= 0.2.0, one on a line.
bounds() { dpkg-deb -f ../python3-cellgrad_*.deb Depends | tr ',' '\n' | sed -n 's/^ *libcellgrad0 (\([<>=]*\) \([^)]*\))$/\1 \2/p'; }

# allows VERSION: do these bounds allow this version of the library?
allows() { bounds | while read -r how bound; do dpkg --compare-versions "$1" "$how" "$bound" || exit 1; done; }

mkdir "$scratch/cellgrad" && (cd "$top" && tar cf - --exclude=./build --exclude=./.git --exclude=./docs/html .) | (cd "$scratch/cellgrad" && tar xf -) || exit 1
cd "$scratch/cellgrad" && mv packaging/debian debian || exit 1
[ ! -f Makefile ] || make -s distclean >"$scratch/log" 2>&1 || { tail -n 30 "$scratch/log" >&2; exit 1; }
version=$(dpkg-parsechangelog -S Version) || exit 1
dpkg-buildpackage -us -uc -b >"$scratch/log" 2>&1 || { tail -n 30 "$scratch/log" >&2; exit 1; }
lintian --fail-on error,warning ../*.changes || exit 1
# The Python package refuses a library of another version, so that it must depend on its own version, in any revision.
next=${version%-*} next=${next%.*}.$((${next##*.} + 1))-1
allows "$version" && allows "${version%-*}-99" && ! allows "$next" && ! allows 0.0.1-1 ||
	{ echo "packaging: python3-cellgrad $version depends on libcellgrad0 $(bounds | tr '\n' ' ')" >&2; exit 1; }
dpkg-deb -x ../libcellgrad-dev_*.deb "$scratch/installed" &&
	srcdir=. DESTDIR="$scratch/installed" DOCDIR=/usr/share/doc/libcellgrad-dev sh tests/install.sh links >&2 || exit 1
for package in ../*.deb; do echo "$(basename "$package")"; done
[ -z "$to" ] || cp ../*.deb ../*.changes "$to"
