#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# clean.sh [WHAT...]: runs ./bootstrap WHAT, by default demo and then check, on the committed files, on a system that has only git
# installed: a minimal Debian that debootstrap makes in a temporary folder, from the mirror that this machine's apt uses.  The last
# lines of output and the skipped tests are printed, and all lines if bootstrap fails.
#
# By default the last WHAT is gpu: all stages of tests/gpu.sh, whole, by a kit of the programs that check has built, on the stand-ins
# for CUDA's libraries and on OpenCL.  The stages run in a second minimal Debian without network, autotools and the libraries that the kit
# has.  The second Debian has g++, with which the stand-ins compile kernels, and PoCL.  KIT=DIR: takes that kit, which must have the
# stand-ins, so that check need not run before.
#
# Needs a user root that may mount and unshare, debootstrap, git, access to Debian's mirror, and some 3 GB in the folder TMPDIR.
# The tests get CELLGRAD_TEST_REQUIRE with `root` and `mount` added; if CELLGRAD_TEST_REQUIRE has nvrtc, pip fetches NVRTC with the settings
# of this machine's pip.
# Mounts are made in a separate namespace, and are removed with it, whatever ends the script.
set -u
top=$(cd "$(dirname "$0")/.." && pwd) || exit 1

die() { echo "clean: $*" >&2; exit 1; }

if [ "${1:-}" != inside ]; then
	[ "$(id -u)" -eq 0 ] || die 'needs root: it mounts and enters another root'
	for tool in debootstrap git unshare chroot mount; do
		command -v $tool >/dev/null || die "needs $tool"
	done
	git -C "$top" rev-parse -q --verify HEAD >/dev/null 2>&1 || die "needs a checkout of git with a commit, and $top is none"
	unshare -m -p -f true 2>/dev/null || die 'needs rights to unshare mounts and processes'
	all=$(mktemp -d) || exit 1
	root=$all/root
	mkdir "$root" || exit 1
	trap 'rm -rf --one-file-system "$all" || { sleep 1; rm -rf --one-file-system "$all"; }' EXIT
	# unshare runs in the background, so that the script handles a signal at once; unshare then ends all processes in its namespace.
	unshare -m -p -f --kill-child sh "$0" inside "$root" "$@" &
	trap 'kill -9 $!; exit 1' HUP INT TERM
	wait $!
	exit
fi
root=$2
shift 2
[ $# -gt 0 ] || set -- demo check gpu
bare=${root%/root}/bare

# Prints "URI KEYRING" for each of apt's package sources that has the suite, those of *.list files first; KEYRING is - if a *.sources file
# names none, and for *.list files.
sources()
{
	cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null | awk -v suite="$1" '
		$1 == "deb" { at = $2 ~ /^\[/ ? 3 : 2; while (at > 2 && at < NF && $(at - 1) !~ /\]$/) at++; if ($(at + 1) == suite) print $at, "-" }'
	for file in /etc/apt/sources.list.d/*.sources; do
		[ -r "$file" ] && awk -v suite="$1" '
			function give() { if (here) print uri, key; here = 0; key = "-" }
			BEGIN { key = "-" }
			/^$/ { give() }
			/^URIs:/ { uri = $2 }
			/^Signed-By:/ && $2 ~ /^\// { key = $2 }
			/^Suites:/ { for (k = 2; k <= NF; k++) here += $k == suite }
			END { give() }' "$file"
	done
}

make_root()
{
	suite=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
	mirror=$(sources "$suite" | head -n 1)
	[ -n "$mirror" ] || die "apt has no source for ${suite:-a suite that /etc/os-release names}"
	keyring=${mirror#* } mirror=${mirror% *}
	[ "$keyring" = - ] && keyring= || keyring=--keyring=$keyring
	debootstrap --variant=minbase --include=git ${keyring:+"$keyring"} "$suite" "$root" "$mirror" >"$root/made.log" 2>&1 || {
		tail -n 5 "$root/made.log" >&2
		die 'debootstrap failed'
	}
	# The new Debian gets the settings of this machine for the network and for package sources.
	rm -f "$root/etc/apt/sources.list"
	for file in /etc/apt/sources.list /etc/apt/sources.list.d /etc/resolv.conf /etc/hosts /etc/pip.conf; do
		[ ! -e $file ] || cp -RL $file "$root${file%/*}/" || exit 1
	done
	for file in $(sources "$suite" | sed 's/.* //' | grep '^/'); do
		mkdir -p "$root${file%/*}" && cp "$file" "$root$file" || exit 1
	done
	apt-config dump | grep -E '^Acquire::(http|https|Languages)' >"$root/etc/apt/apt.conf.d/90acquire"
	certificates=
	if [ -r "${PIP_CERT:-}" ]; then
		certificates=/root/certificates.pem
		cp "$PIP_CERT" "$root$certificates" || exit 1
	fi
	case " $* " in *' gpu '*) cp -a "$root" "$bare" || exit 1 ;; esac
	mount_in "$root"
}

# mount_in ROOT: mounts /proc, which programs' loaders read, /sys, which PoCL reads, and /dev.
mount_in()
{
	mount -t proc proc "$1/proc" && mount -t sysfs -o ro sysfs "$1/sys" && mount --rbind /dev "$1/dev" ||
		die 'could not mount proc, sys and dev'
}

# in_root ROOT COMMAND...: runs a command in a root, with an environment of HOME, PATH, LC_ALL and this machine's proxy settings.
in_root()
{
	there=$1
	shift
	chroot "$there" /usr/bin/env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
		${http_proxy+http_proxy="$http_proxy"} ${https_proxy+https_proxy="$https_proxy"} "$@" </dev/null
}

# Runs the stages of gpu.sh in a root that has the kit and neither the source nor a build.
rehearse()
{
	if [ -n "${KIT:-}" ]; then
		cp -R "$KIT" "$bare/root/kit" || return
	else
		there env STAND_INS=yes sh tests/gpu.sh kit /root/kit || return
		# The kit gets the kernels that the stand-ins compiled in check, so that they are not compiled again.
		cp -Rn "$root/root/cellgrad/build/tests/fake/lib/cache/." "$root/root/kit/fake/lib/cache/"
		cp -R "$root/root/kit" "$bare/root/kit" || return
	fi
	mount_in "$bare"
	{
		in_root "$bare" apt-get -q update &&
			in_root "$bare" env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends g++ ocl-icd-libopencl1 pocl-opencl-icd
	} >"$bare/root/apt.log" 2>&1 || { tail -n 5 "$bare/root/apt.log"; return 1; }
	for absent in autoconf automake python3 nvidia-smi; do
		! in_root "$bare" sh -c "command -v $absent" >/dev/null || { echo "$absent is there: this root is not bare"; return 1; }
	done
	cp "$top/tests/gpu_rehearsal.sh" "$bare/root/" || return
	# `unshare -n` runs the stages without a network.
	unshare -n chroot "$bare" /usr/bin/env -i HOME=/root PATH=/usr/bin:/bin LC_ALL=C.UTF-8 REPORTS=/root/reports ${CHECK_TIME:+CHECK_TIME="$CHECK_TIME"} \
		sh /root/gpu_rehearsal.sh whole /root/kit ${STAGES:+"$STAGES"} </dev/null
	code=$?
	[ -z "${REPORTS:-}" ] || cp -R "$bare/root/reports/." "$REPORTS/"
	return $code
}

# there COMMAND...: runs a command in the clone of the source that is in the new root.
there()
{
	in_root "$root" CELLGRAD_TEST_REQUIRE="${CELLGRAD_TEST_REQUIRE:+$CELLGRAD_TEST_REQUIRE,}root,mount" ${certificates:+PIP_CERT="$certificates"} \
		sh -c 'cd /root/cellgrad && exec "$@"' sh "$@"
}

umask 022
chmod 755 "$root"
make_root "$@"
git clone -q --no-hardlinks "$top" "$root/root/cellgrad" || die 'git clone failed'
echo "clean: $(there git log -1 --format='%h %s') on $suite with $(there dpkg-query -W | wc -l) packages"
red=0
for what; do
	if [ "$what" = gpu ]; then
		echo 'clean: tests/gpu.sh by a kit, on the stand-ins and on OpenCL'
		rehearse >"$root/root/gpu.log" 2>&1
		code=$?
		grep -E '^# (facts|right|fast|clean) on ' "$root/root/gpu.log"
	else
		echo "clean: ./bootstrap $what"
		there ./bootstrap "$what" >"$root/root/$what.log" 2>&1
		code=$?
	fi
	if [ $code -eq 0 ]; then
		grep '^SKIP:' "$root/root/$what.log"
		tail -n 3 "$root/root/$what.log"
	else
		red=1
		cat "$root/root/$what.log"
		echo "clean: $what: exit status $code"
	fi
done
exit $red
