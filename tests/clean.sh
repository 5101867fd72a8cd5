#!/bin/sh
# clean.sh [WHAT...]: ./bootstrap WHAT, by default demo and then check, of what is committed here, on a machine that has nothing
# yet: a minimal Debian that debootstrap makes in a temporary folder, from the mirror that this machine's apt uses.  The last
# lines and what was skipped are printed, and all lines when it fails.
#
# Needs root that may mount and unshare, debootstrap, git, network as far as that mirror, and some 3 GB where TMPDIR is.
# CELLGRAD_TEST_REQUIRE is handed on, with root and mount in it; with nvrtc in it pip fetches from where this machine's pip does.
# Mounts are made in a namespace of their own, and go with it whatever ends the script.
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
	root=$(mktemp -d) || exit 1
	trap 'rm -rf --one-file-system "$root" || { sleep 1; rm -rf --one-file-system "$root"; }' EXIT
	# Behind, so that a signal is heard at once; with unshare all that runs there goes.
	unshare -m -p -f --kill-child sh "$0" inside "$root" "$@" &
	trap 'kill -9 $!; exit 1' HUP INT TERM
	wait $!
	exit
fi
root=$2
shift 2
[ $# -gt 0 ] || set -- demo check

# "URI KEYRING" of each of apt's sources that has the suite, the main one first; no keyring is "-".
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
	# As this machine reaches the world, so does that one.
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
	# PoCL reads /sys, loaders /proc.
	mount -t proc proc "$root/proc" && mount -t sysfs -o ro sysfs "$root/sys" && mount --rbind /dev "$root/dev" ||
		die 'could not mount proc, sys and dev'
}

# there COMMAND...: in the clone on the new machine, with nothing of this one's environment but what is named.
there()
{
	chroot "$root" /usr/bin/env -i HOME=/root PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LC_ALL=C.UTF-8 \
		CELLGRAD_TEST_REQUIRE="${CELLGRAD_TEST_REQUIRE:+$CELLGRAD_TEST_REQUIRE,}root,mount" ${certificates:+PIP_CERT="$certificates"} \
		${http_proxy+http_proxy="$http_proxy"} ${https_proxy+https_proxy="$https_proxy"} \
		sh -c 'cd /root/cellgrad && exec "$@"' sh "$@" </dev/null
}

umask 022
chmod 755 "$root"
make_root
git clone -q --no-hardlinks "$top" "$root/root/cellgrad" || die 'git clone failed'
echo "clean: $(there git log -1 --format='%h %s') on $suite with $(there dpkg-query -W | wc -l) packages"
red=0
for what; do
	echo "clean: ./bootstrap $what"
	there ./bootstrap "$what" >"$root/root/$what.log" 2>&1
	code=$?
	if [ $code -eq 0 ]; then
		grep '^SKIP:' "$root/root/$what.log"
		tail -n 3 "$root/root/$what.log"
	else
		red=1
		cat "$root/root/$what.log"
		echo "clean: ./bootstrap $what: exit status $code"
	fi
done
exit $red
