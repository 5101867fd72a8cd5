#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Other processors and another C library: a build for each, its tests, and the same bits as here.
#   cross.sh [NAME...]      of the rows below; without names all
# Each row is built in cross/NAME and needs its compiler; a processor that is not this one also qemu-user.  What the tests and
# the command link with is looked for beside the compiler's libraries, else fetched with apt-get download and unpacked in
# cross/NAME; nothing is installed.  Without it the row has neither unit tests nor command.  Under qemu the conformance suite
# takes half an hour.
#
# Runs in the build's top folder, and needs there cellgen and tests/conformance/checksum; and in the environment srcdir, MAKE,
# and UNIT, the unit tests.  CROSS_CC_aarch64 and so on, in the environment, is another compiler for a row.
# Exit status: 0 all that could be tried is well; 1 something is not; 77 nothing could be tried.

# name, host, Debian's name for its packages (- for none), compiler, what runs its programs
rows='
i686    i686-linux-gnu    i386  gcc_-m32
musl    x86_64-linux-musl -     musl-gcc
aarch64 aarch64-linux-gnu arm64 aarch64-linux-gnu-gcc qemu-aarch64 -L /usr/aarch64-linux-gnu
'
packages='libcmocka-dev libcmocka0 libjansson-dev libjansson4 libmd-dev libmd0 libpopt-dev libpopt0'
here=$(pwd)
srcdir=$(cd "${srcdir:-.}" && pwd) || exit 99
export srcdir
number=0 tried=0 bad=0

say()  { echo "# $*"; }
ok()   { number=$((number + 1)); echo "ok $number - $name: $*"; }
fail() { number=$((number + 1)); bad=1; echo "not ok $number - $name: $*"; }
skip() { number=$((number + 1)); echo "ok $number - $name # SKIP $*"; }

# try WORDS COMMAND...: shows the last lines of the command's output where it fails.
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

# Debian's packages for another processor, from the sources of this machine, into root/.
fetch() {
	command -v apt-get >/dev/null && command -v dpkg >/dev/null || return
	mkdir -p apt/state/lists/partial apt/cache/archives/partial root && : >apt/status || return
	apt="apt-get -q -o Dir::State=$PWD/apt/state -o Dir::State::status=$PWD/apt/status -o Dir::Cache=$PWD/apt/cache
		-o APT::Architecture=$1 -o APT::Architectures=$1 -o APT::Sandbox::User="
	# Some source may have nothing for this processor; the packages that arrive count.
	$apt update
	# shellcheck disable=SC2086
	(cd apt && $apt download $packages && for deb in *.deb; do dpkg -x "$deb" ../root || exit; done)
}

# Sets options and foreign (the folder of libraries) where the row's libraries are there or can be had.
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

# Additions and multiplications in x87's registers would round twice; passing values through them does not.
no_x87() {
	for object in templates/.libs/*_la-*.o; do
		objdump -d --no-show-raw-insn "$object" | awk '
			$2 ~ /^f(i?add|i?sub|i?mul|i?div|sqrt|scale|rndint|chs|abs)/ { print FILENAME ": " $0; bad = 1 }
			END { exit bad }' || return
	done
}

# Kernels of f32 and f64 multiply and add in vectors.
fused_vectors() {
	for dtype in 4s 2d; do
		"$host-objdump" -d templates/.libs/*_la-lstm_block_f*.o |
			grep -q "fml[as][[:space:]]*v[0-9]*\.$dtype" || return
	done
}

takes_neon() { CELLGRAD_CPU_ISA=neon $run ./cellgrad info | tee info && grep -q 'kernels neon' info; }

unit() {
	CC="$cc $flags" CXX="$(echo "$cc" | sed 's/gcc/g++/') $flags" CELLGEN="$PWD/cellgen" CELLGRAD="$PWD/cellgrad" CMOCKA_MESSAGE_OUTPUT=TAP \
		sh "$srcdir/tests/unit.sh" $run "$1" >"$2" 2>&1 && ! grep -q '^not ok' "$2" && return
	cat "$2"
	return 1
}

check() {
	try 'the same bits as here' sh -c "$run tests/conformance/checksum >bits && diff bits '$here/cross/bits'"
	try 'the example' ./libtool --silent --mode=execute $run examples/peephole_lstm
	case $name in
	aarch64) try 'kernels of fused vectors' fused_vectors ;;
	i686)    try 'kernels without x87 arithmetic' no_x87 ;;
	esac
	[ -n "$foreign" ] || return
	[ "$name" != aarch64 ] || try 'the instruction set has its name' takes_neon
	try "the command's demo" $run ./cellgrad demo
	for test in $UNIT; do
		try "$test" unit "$test" "$(basename "$test").log"
	done
}

row() {
	name=$1 host=$2 debian=$3 cc=$(echo "$4" | tr _ ' '); shift 4
	run=$*
	cc=$(eval "echo \${CROSS_CC_$name:-\$cc}") flags=
	mkdir -p "cross/$name" && cd "cross/$name" || exit 99
	echo 'int main(void) { return 0; }' >can.c
	if ! $cc -o can can.c >log 2>&1; then
		skip "$cc does not make programs here: $(tail -1 log)"
	elif ! $run ./can >log 2>&1; then
		skip "programs for it do not run here: ${run:+needs $run; }$(tail -1 log)"
	else
		tried=1
		libraries
		# A processor that runs here without an emulator is no cross build: it makes its kernels by its own cellgen.
		[ -n "$run" ] && build="CELLGEN=$here/cellgen" || build=--build=$host
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
echo "$rows" >cross/rows
while read -r name rest; do
	# shellcheck disable=SC2086
	case " ${*:-$name} " in *" $name "*) [ -z "$name" ] || row "$name" $rest </dev/null ;; esac
done <cross/rows
echo "1..$number"
[ $tried = 1 ] || exit 77
exit $bad
