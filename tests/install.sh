#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tests the files that make install leaves: programs in C11 and C++11 find the shared and the static library by pkg-config alone; the
# command's demo works in a root that has only the command, its data and its libraries.  make uninstall leaves no file.
#   install.sh              installs into a temporary folder by DESTDIR, a part of make check
#   install.sh installed    tests the files that are installed, under $DESTDIR if that is set: make installcheck
#   install.sh links        tests the links of installed documents alone; exit status 1 if one leads nowhere
# Runs in the build tree.  srcdir: the source; BINDIR LIBDIR INCLUDEDIR MANDIR DATADIR DOCDIR: the folders of installed files; CC CXX
# SANITIZE MAKE PKG_CONFIG: tools.
set -u
srcdir=$(cd "${srcdir:-.}" && pwd) || exit 99
scratch=$(mktemp -d) || exit 99
trap 'rm -rf "$scratch"' EXIT
unset MAKEFLAGS MFLAGS MAKELEVEL
pkg_config=${PKG_CONFIG:-pkg-config} make=${MAKE:-make} why=$scratch/why
warnings='-Wall -Wextra -pedantic -Werror'
n=0 red=0

# report STATUS NAME: prints a line of TAP, and the file $why if the test failed.
report()
{
	n=$((n + 1))
	if [ "$1" -eq 0 ]; then
		echo "ok $n - $2"
	else
		red=1
		sed 's/^/# /' "$why"
		echo "not ok $n - $2"
	fi
}
skip() { n=$((n + 1)); echo "ok $n - $1 # SKIP $2"; }

# has_shared, has_static, has_command: each succeeds if this build has a shared library, a static library or the command.
has_shared() { grep -q "^library_names='[^']" libcellgrad.la; }
has_static() { grep -q "^old_library='[^']" libcellgrad.la; }
has_command() { grep -q '^S\["COMMAND_TRUE"\]=""' config.status; }

# find_by ROOT OPTION...: runs pkg-config on the files that are installed under ROOT alone.
find_by()
{
	where=$1
	shift
	env PKG_CONFIG_PATH= PKG_CONFIG_LIBDIR="$where$LIBDIR/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$where" \
		PKG_CONFIG_ALLOW_SYSTEM_CFLAGS=1 PKG_CONFIG_ALLOW_SYSTEM_LIBS=1 "$pkg_config" "$@" cellgrad
}

# program ROOT COMPILER SOURCE OPTION...: compiles an installed example with the flags of pkg-config, runs it, and compares its output
# with the one in the comment of examples/own_cell.c.
program()
{
	under=$1 compiler=$2 source=$3
	shift 3
	flags=$(find_by "$under" --cflags --libs "$@" 2>"$why") || return
	# shellcheck disable=SC2086 # lists of words
	(cd "$scratch" && $compiler $warnings ${SANITIZE:-} "$root$DOCDIR/examples/$source" -o program $flags) >"$why" 2>&1 || return
	(cd "$scratch" && LD_LIBRARY_PATH=$under$LIBDIR DYLD_LIBRARY_PATH=$under$LIBDIR ./program) >"$scratch/printed" 2>"$why" || return
	sed -n 's/^ \*	\([a-z]\)/\1/p' "$srcdir/examples/own_cell.c" | diff - "$scratch/printed" >"$why"
}

programs()
{
	for source in own_cell.c own_cell.cc; do
		case $source in
		*.c)  compiler="${CC:-cc} -std=c11" name=C11 ;;
		*.cc) compiler="${CXX:-} -std=c++11" name=C++11 ;;
		esac
		if [ -z "${compiler%% *}" ]; then
			skip "a $name program, $2" 'there is no C++ compiler'
		elif [ "$2" = static ]; then
			program "$1" "$compiler" $source --static
			report $? "a $name program links the static library by pkg-config"
		else
			program "$1" "$compiler" $source
			report $? "a $name program links the shared library by pkg-config"
		fi
	done
}

expected()
{
	printf '%s\n' "$INCLUDEDIR/cellgrad.h" "$LIBDIR/pkgconfig/cellgrad.pc" "$MANDIR/man3/cellgrad.3" "$MANDIR/man7/cellgrad-cell.7" \
		"$MANDIR/man7/cellgrad-weights.7"
	sed -n 's/^CG_API .*[ *]\(cg_[a-z0-9_]*\)(.*/\1/p' "$srcdir/runtime/cellgrad.h" | sed "s,.*,$MANDIR/man3/&.3,"
	printf "$LIBDIR/cmake/cellgrad/%s\n" cellgrad-config.cmake cellgrad-config-version.cmake
	has_static && echo "$LIBDIR/libcellgrad.a"
	has_shared && echo "$LIBDIR/cellgrad/cellgrad_jax.so"
	has_command && printf '%s\n' "${DATADIR%/cellgrad}/bash-completion/completions/cellgrad" "${DATADIR%/cellgrad}/zsh/site-functions/_cellgrad"
	has_command && printf '%s\n' "$BINDIR/cellgrad" "$MANDIR/man1/cellgrad.1" &&
		(cd "$srcdir/man" && printf "$MANDIR/man1/%s\n" cellgrad-*.1)
	(cd "$srcdir/templates" && printf "$DATADIR/cells/%s\n" *.cell)
	(cd "$srcdir" && printf "$DOCDIR/%s\n" README.md NEWS LICENSE docs/*.md docs/*.svg)
	(cd "$srcdir/examples" && printf "$DOCDIR/examples/%s\n" README.md *.c *.cc python/*.py)
}

# links: each link of an installed document to a file leads to one that is installed; the documents of docs/ link each other as in the
# source.
links()
{
	: >"$why"
	for page in "$srcdir"/docs/*.md; do
		for link in $(grep -o '](\([a-z-]*\.md\))' "$page" | sort -u); do
			grep -qF "$link" "$root$DOCDIR/docs/${page##*/}" || echo "docs/${page##*/} has no link $link" >>"$why"
		done
	done
	find "$root$DOCDIR" -name '*.md' >"$scratch/pages"
	while read -r page; do
		for link in $(grep -o ']([^)]*)' "$page" | sed 's/^](//; s/)$//; s/#.*//' | grep -v ://); do
			[ -e "${page%/*}/$link" ] || echo "$page: $link is not there" >>"$why"
		done
	done <"$scratch/pages"
	[ -s "$scratch/pages" ] && [ ! -s "$why" ]
}

in_place()
{
	: >"$why"
	for file in $(expected); do
		[ -s "$root$file" ] || echo "$file is not there" >>"$why"
	done
	for file in "$srcdir"/templates/*.cell; do
		cmp "$file" "$root$DATADIR/cells/${file##*/}" >>"$why" 2>&1
	done
	if has_shared && [ -z "$(find "$root$LIBDIR" -name 'libcellgrad.*.*' -o -name 'libcellgrad.so')" ]; then
		echo "$LIBDIR has no shared libcellgrad" >>"$why"
	fi
	for module in cellgrad_tensorflow.so cellgrad_tensorflow_loader.so; do
		if has_shared && [ ! -s "$root$LIBDIR/cellgrad/$module" ]; then
			echo "$LIBDIR/cellgrad has no $module" >>"$why"
		fi
	done
	[ ! -s "$why" ]
}

# enter FOLDER COMMAND...: runs a command with FOLDER as the root of all files.
enter()
{
	if [ "$(id -u)" -eq 0 ]; then chroot "$@"; else unshare -r chroot "$@"; fi
}

# make_jail ROOT: makes a root that holds the command, its data and the libraries that it is linked with, but no source and no build.
make_jail()
{
	mkdir -p "$1$BINDIR" "$1$DATADIR" && cp "$root$BINDIR/cellgrad" "$1$BINDIR" && cp -R "$root$DATADIR/." "$1$DATADIR" || return
	for library in $(ldd "$root$BINDIR/cellgrad" 2>/dev/null | grep -o '/[^ ]*'); do
		mkdir -p "$1${library%/*}" && cp -L "$library" "$1$library" || return
	done
	enter "$1" "$BINDIR/cellgrad" --version
}

# examples: compiles each installed example in C that needs no MPI, with the libraries that the README.md of examples/ names, and runs
# peephole_lstm.
examples()
{
	flags=$(find_by "$root" --cflags --libs 2>"$why") || return
	for source in "$root$DOCDIR"/examples/*.c; do
		# tests/parallel.sh compiles parallel.c, if there is MPI.
		case $source in */parallel.c) continue ;; esac
		# shellcheck disable=SC2086 # lists of words
		(cd "$scratch" && ${CC:-cc} -O1 ${SANITIZE:-} "$source" -o example $flags -lm -ldl) >"$why" 2>&1 || return
	done
	(cd "$scratch" && ${CC:-cc} ${SANITIZE:-} "$root$DOCDIR/examples/peephole_lstm.c" -o peephole_lstm $flags &&
		LD_LIBRARY_PATH=$root$LIBDIR DYLD_LIBRARY_PATH=$root$LIBDIR CELLGRAD_BACKEND=cpu ./peephole_lstm) >"$scratch/printed" 2>"$why" &&
		grep -q '^x_grad' "$scratch/printed"
}

# cells: each installed .cell file is what the command prints as the source of the cell of that name, built in or of the shelf, and the
# command prints the same gradient by the file and by the name.
cells()
{
	for file in "$root$DATADIR"/cells/*.cell; do
		name=${file##*/} name=${name%.cell}
		"$root$BINDIR/cellgrad" emit "$name" --source 2>"$why" | cmp - "$file" >>"$why" 2>&1 || return
		"$root$BINDIR/cellgrad" emit "$file" --pass grad -o "$scratch/by_file" >"$why" 2>&1 &&
			"$root$BINDIR/cellgrad" emit "$name" --pass grad 2>"$why" | cmp - "$scratch/by_file" >>"$why" 2>&1 || return
	done
}

# by_cmake ROOT [VERSION]: builds a project that finds the library under ROOT by CMake alone, and runs its program.
by_cmake()
{
	rm -rf "$scratch/project" && mkdir "$scratch/project" && cp "$srcdir/examples/own_cell.c" "$scratch/project" || return
	printf '%s\n' 'cmake_minimum_required(VERSION 3.10)' 'project(own_cell C)' "find_package(cellgrad ${2:-} REQUIRED CONFIG)" \
		'add_executable(own_cell own_cell.c)' 'target_link_libraries(own_cell cellgrad::cellgrad)' >"$scratch/project/CMakeLists.txt"
	(cd "$scratch/project" && cmake -DCMAKE_PREFIX_PATH="$1${INCLUDEDIR%/*}" -DCMAKE_C_FLAGS="${SANITIZE:-}" . && cmake --build .) >"$why" 2>&1 || return
	"$scratch/project/own_cell" >"$scratch/printed" 2>"$why" &&
		sed -n 's/^ \*	\([a-z]\)/\1/p' "$srcdir/examples/own_cell.c" | diff - "$scratch/printed" >"$why"
}

cmake_programs()
{
	version=$(sed -n 's/^PACKAGE_VERSION = //p' Makefile)
	by_cmake "$1" "$version"
	report $? "CMake builds a program with the installed $2 library"
	# CMake compares versions: a project that asks for a later major version than the installed one does not find the library.
	! by_cmake "$1" $((${version%%.*} + 1)) && grep -q "$version" "$why"
	report $? "CMake finds no later major version, $2"
}

# other_prefix: tests files that are installed with another prefix than the configured one: they find each other under that prefix.
other_prefix()
{
	other=$scratch/other
	"$make" -s install prefix="$other" docdir="$other/share/doc/libcellgrad" BUG_REPORT=bugs@example.org URL=https://example.org/ \
		>"$why" 2>&1 </dev/null || return
	# A manual page in the source has no address for reports of bugs, unless ./configure was given one.
	for page in $(cd "$other/share/man" && ls man[17]/* man3/cellgrad.3); do
		grep -q bugs@example.org "$other/share/man/$page" && grep -q https://example.org/ "$other/share/man/$page" ||
			echo "$page has no address"
		! grep -q share/doc/cellgrad "$other/share/man/$page" || echo "$page has another folder of documents"
		{ ! command -v mandoc >/dev/null || mandoc -Tlint -Wwarning "$other/share/man/$page"; } 2>&1
		[ -n "$(sed -n 's/^BUG_REPORT = //p; s/^URL = //p' Makefile)" ] || ! grep -q '^\.Sh BUGS' "$srcdir/man/${page#*/}" ||
			echo "$page has an address"
	done >"$why"
	! grep share/doc/cellgrad "$other/share/doc/libcellgrad/examples/README.md" >>"$why" || return
	[ ! -s "$why" ] || return
	[ "$(PKG_CONFIG_PATH=$other/lib/pkgconfig "$pkg_config" --variable=prefix cellgrad)" = "$other" ] &&
		grep -qx 'URL: https://example.org/' "$other/lib/pkgconfig/cellgrad.pc" || { echo 'cellgrad.pc' >"$why"; return 1; }
	for file in "$other"/lib/*.la "$other"/lib/cellgrad/*.la; do
		[ ! -f "$file" ] || grep -q -x -F "libdir='${file%/*}'" "$file" || echo "${file##*/} has another libdir"
	done >"$why"
	[ -s "$other/lib/libcellgrad.la" ] && [ ! -s "$why" ] || return
	if has_shared; then
		# The loop leaves out the loader for TensorFlow, which is linked with the C library alone and not with libcellgrad.
		for module in $(ls "$other"/lib/cellgrad/*.so | grep -v _loader); do
			ldd "$module" | grep -q "libcellgrad.* => $other/lib/" || echo "${module##*/} does not find the library beside it"
		done >"$why"
		[ -s "$other/lib/cellgrad/cellgrad_jax.so" ] && [ ! -s "$why" ] || return
	fi
	! has_command || (cd "$scratch" && "$other/bin/cellgrad" demo --only compare) >"$scratch/printed" 2>"$why" || return
	"$make" -s uninstall prefix="$other" docdir="$other/share/doc/libcellgrad" >"$why" 2>&1 </dev/null &&
		find "$other" '(' ! -type d -o -name cellgrad ')' >"$why" && [ ! -s "$why" ]
}

commands()
{
	cells
	report $? 'the installed .cell files are the sources of the cells of their names'
	(cd "$scratch" && "$root$BINDIR/cellgrad" info) >"$scratch/printed" 2>"$why" && grep -q '^  cpu ' "$scratch/printed"
	report $? 'the installed command finds the cpu backend'
	(cd "$scratch" && "$root$BINDIR/cellgrad" demo --only compare --data "$root$DATADIR/data") >"$scratch/printed" 2>"$why" &&
		grep -q '^All .* agree' "$scratch/printed"
	report $? 'cellgrad demo agrees with the installed answers of TensorFlow'
	if [ -n "${SANITIZE:-}" ]; then
		skip 'cellgrad demo finds the installed answers without the source and the build' 'a sanitizer needs /proc'
	elif case $DATADIR in "$(sed -n 's/^prefix = //p' Makefile)"/*) false ;; esac; then
		skip 'cellgrad demo finds the installed answers without the source and the build' 'another prefix is found by /proc'
	elif ! make_jail "$scratch/jail" >"$why" 2>&1; then
		skip 'cellgrad demo finds the installed answers without the source and the build' "chroot or ldd: $(tail -n 1 "$why")"
	else
		enter "$scratch/jail" "$BINDIR/cellgrad" demo --only compare >"$scratch/printed" 2>"$why" && grep -q '^All .* agree' "$scratch/printed"
		report $? 'cellgrad demo finds the installed answers without the source and the build'
	fi
}

root=${DESTDIR:-}
if [ "${1:-}" = links ]; then
	links || { cat "$why"; exit 1; }
	exit 0
fi
if [ "${1:-}" != installed ]; then
	root=$scratch/root
	"$make" -s install DESTDIR="$root" >"$why" 2>&1 </dev/null
	report $? 'make install DESTDIR=... succeeds'
fi
in_place
report $? 'the files that make install should leave are in their places'
links
report $? 'links of the installed documents lead to installed files'
[ "$(find_by "$root" --modversion 2>"$why")" = "$(sed -n 's/^PACKAGE_VERSION = //p' Makefile)" ]
report $? 'pkg-config prints the version'

if has_shared; then
	programs "$root" shared
	examples
	report $? 'the installed examples compile where they are'
else
	skip 'programs with the shared library' 'configured with --disable-shared'
fi
if has_static; then
	# If both libraries are installed, the linker takes the shared library.
	for file in "$LIBDIR/libcellgrad.a" "$LIBDIR/pkgconfig/cellgrad.pc" "$LIBDIR/cmake/cellgrad/cellgrad-config.cmake" \
		"$LIBDIR/cmake/cellgrad/cellgrad-config-version.cmake" "$INCLUDEDIR/cellgrad.h"; do
		mkdir -p "$scratch/static${file%/*}" && cp "$root$file" "$scratch/static$file"
	done
	programs "$scratch/static" static
else
	skip 'programs with the static library' 'configured with --disable-static'
fi
if ! command -v cmake >/dev/null; then
	skip 'CMake builds a program' 'there is no cmake'
else
	! has_shared || cmake_programs "$root" shared
	! has_static || cmake_programs "$scratch/static" static
fi
if has_command; then commands; else skip 'the command' 'configured with --disable-command'; fi

if [ "${1:-}" != installed ]; then
	"$make" -s uninstall DESTDIR="$root" >"$why" 2>&1 </dev/null &&
		find "$root" '(' ! -type d -o -name cellgrad -o -name examples -o -name docs ')' >"$why" && [ ! -s "$why" ]
	report $? 'make uninstall leaves no file, and no folder of cellgrad'
	other_prefix
	report $? 'files that are installed with another prefix find each other, and make uninstall removes them'
fi
echo "1..$n"
[ "${1:-}" != installed ] || exit $red
