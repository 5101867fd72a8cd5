#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Builds cellgrad for other processors and for another C library, compares the bits of each build's kernels with this build's, and runs the
# unit tests of the builds for other processors.
#   cross.sh [NAME...]      names of rows of the list `rows`; without names all
# Each row of the list is built in cross/NAME and needs its compiler; row aarch64 also needs qemu-user.  The libraries that the tests and
# the command link are looked for beside the compiler's libraries, else fetched with apt-get download and unpacked in cross/NAME; nothing is
# installed.  Without cmocka, jansson and popt the row has neither unit tests nor the command.  Under qemu only a part of the suites runs;
# change_test and limit_test, which depend on no processor, do not.
#
# Runs in the build's top folder, and needs cellgen and tests/conformance/checksum there.  Environment variables: srcdir; MAKE; UNIT, the
# unit tests; TIMED, those that measure time and run one after the other; CROSS_CC_NAME, such as CROSS_CC_aarch64, is another compiler
# for row NAME.
# Exit status: 0 if all that could run passed; 1 if a test failed; 77 if nothing could run.

# The columns are the name of a row, its host, Debian's name for the architecture (- for none), the compiler, and the emulator, if any, that
# runs the row's programs.
rows='
i686    i686-linux-gnu    i386  gcc_-m32
musl    x86_64-linux-musl -     musl-gcc
aarch64 aarch64-linux-gnu arm64 aarch64-linux-gnu-gcc qemu-aarch64 -L /usr/aarch64-linux-gnu
'
packages='libcmocka-dev libcmocka0 libjansson-dev libjansson4 libmd-dev libmd0 libpopt-dev libpopt0'
. "$(dirname "$0")/job_queue.sh"

# try WORDS COMMAND...: prints a line of TAP about a command, and the last lines of the command's output if it fails.
try() {
	what=$1; shift
	if "$@" >log 2>&1; then
		ok "$what"
	else
		tail -20 log | sed 's/^/# /'
		fail "$what"
		return 1
	fi
}

# fetch ARCHITECTURE: unpacks Debian's packages for another processor into root/, from the package sources of this machine.
fetch() {
	command -v apt-get >/dev/null && command -v dpkg >/dev/null || return
	mkdir -p apt/state/lists/partial apt/cache/archives/partial root && : >apt/status || return
	apt="apt-get -q -o Dir::State=$PWD/apt/state -o Dir::State::status=$PWD/apt/status -o Dir::Cache=$PWD/apt/cache
		-o APT::Architecture=$1 -o APT::Architectures=$1 -o APT::Sandbox::User="
	# A failure of update is ignored, since a package source may have nothing for this processor; `download` fails if a package is missing.
	$apt update
	# shellcheck disable=SC2086
	(cd apt && $apt download $packages && for deb in *.deb; do dpkg -x "$deb" ../root || exit; done)
}

# Sets `foreign` to the folder of the row's libraries, and `options` to options of configure: if the libraries are neither installed nor
# fetched, `foreign` is empty and the command is left out.
libraries() {
	options=--disable-command foreign=
	[ "$debian" != - ] || return
	triplet=$host
	[ "$host" = i686-linux-gnu ] && triplet=i386-linux-gnu
	root=
	if [ ! -f "/usr/lib/$triplet/pkgconfig/cmocka.pc" ]; then
		root=$PWD/root
		[ -f "$root/usr/lib/$triplet/pkgconfig/cmocka.pc" ] || fetch "$debian" >fetch.log 2>&1 || {
			say "$name: no cmocka, jansson and popt, and they were not fetched: $(tail -1 fetch.log)"
			return
		}
	fi
	foreign=$root/usr/lib/$triplet options=LDFLAGS=-Wl,-rpath,$foreign
}

# Fails if kernels compute in x87's registers: additions and multiplications there would round twice; loads and stores do not.
no_x87() {
	for object in templates/.libs/*_la-*.o; do
		objdump -d --no-show-raw-insn "$object" | awk '
			$2 ~ /^f(i?add|i?sub|i?mul|i?div|sqrt|scale|rndint|chs|abs)/ { print FILENAME ": " $0; bad = 1 }
			END { exit bad }' || return
	done
}

# Checks that kernels of lstm_block have fused multiply-adds of vectors of four f32 and of two f64.
fused_vectors() {
	for dtype in 4s 2d; do
		"$host-objdump" -d templates/.libs/*_la-lstm_block_f*.o |
			grep -q "fml[as][[:space:]]*v[0-9]*\.$dtype" || return
	done
}

takes_neon() { CELLGRAD_CPU_ISA=neon $emulator ./cellgrad info | tee info && grep -q 'kernels neon' info; }

# Prints the words that precede a test's program on the command line: env, libtool and the emulator, if any.  A program that links the
# shared library is a script of libtool, which no emulator runs.  libtool has variables CC and CXX of its own, so those of a test are set
# behind it, by env.  EMULATED is set for tests if an emulator runs them.
launcher() {
	echo "env ${emulator:+EMULATED=1} CELLGEN=$PWD/cellgen CELLGRAD=$PWD/cellgrad CMOCKA_MESSAGE_OUTPUT=TAP" \
		"./libtool --silent --mode=execute env CC='$cc $flags' CXX='$(echo "$cc" | sed 's/gcc/g++/') $flags' $emulator"
}

unit_tests() {
	run=$(launcher) alone=
	for test in $UNIT; do
		case $emulator,$test in
		?*/gen/change_test|?*/gen/limit_test) continue ;;
		esac
		case " $TIMED " in
		*" $test "*) alone="$alone $test" ;;
		*)           unit "$test" ;;
		esac
	done
	if [ -n "$emulator" ]; then suites_emulated; else suite conformance '*'; suite sequence '*'; fi
	run_queue
	[ -n "$alone" ] || return 0
	# shellcheck disable=SC2086
	unit $alone
	run_queue 1
}

check() {
	try 'kernels give the bits of this build' sh -c "$emulator tests/conformance/checksum >bits && diff bits '$here/cross/bits'"
	try 'the example peephole_lstm runs' ./libtool --silent --mode=execute $emulator examples/peephole_lstm
	case $name in
	aarch64) try 'kernels have fused multiply-adds of vectors' fused_vectors ;;
	i686)    try 'kernels have no x87 arithmetic' no_x87 ;;
	esac
	[ -n "$foreign" ] || return
	[ "$name" != aarch64 ] || try 'CELLGRAD_CPU_ISA=neon is accepted' takes_neon
	try 'cellgrad demo runs' $emulator ./cellgrad demo
	unit_tests
}

row() {
	name=$1 host=$2 debian=$3 cc=$(echo "$4" | tr _ ' '); shift 4
	emulator=$*
	cc=$(eval "echo \${CROSS_CC_$name:-\$cc}") flags=
	mkdir -p "cross/$name" && cd "cross/$name" || exit 99
	echo 'int main(void) { return 0; }' >can.c
	if ! $cc -o can can.c >log 2>&1; then
		leave "$cc does not make programs here: $(tail -1 log)"
	elif ! $emulator ./can >log 2>&1; then
		leave "programs for it do not run here: ${emulator:+needs $emulator; }$(tail -1 log)"
	else
		ran=$((ran + 1))
		libraries
		# A row whose programs run here without an emulator is no cross build: it generates its kernels by its own cellgen.
		[ -n "$emulator" ] && build="CELLGEN=$here/cellgen" || build=--build=$host
		[ "$name" != i686 ] || flags='-msse2 -mfpmath=sse'
		[ "$name" != musl ] || options="$options --disable-shared"
		# shellcheck disable=SC2086
		try 'configures' "$srcdir/configure" -q --host="$host" $build CC="$cc" --enable-werror $options \
			PKG_CONFIG_LIBDIR="${foreign:-$PWD}/pkgconfig" PKG_CONFIG_SYSROOT_DIR="$root" &&
			try 'builds without a warning' "$MAKE" -s check TESTS= check_DATA= && check
	fi
	cd "$here" || exit 99
}

MAKE=${MAKE:-make}
mkdir -p cross && tests/conformance/checksum >cross/bits || { echo 'Bail out! there are no bits to compare with'; exit 99; }
echo "$rows" >"$work/rows"
while read -r name rest; do
	# shellcheck disable=SC2086
	case " ${*:-$name} " in *" $name "*) [ -z "$name" ] || row "$name" $rest </dev/null ;; esac
done <"$work/rows"
finish
