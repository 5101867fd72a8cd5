#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Measures this library's times for forward and backward of a recurrent sequence, beside the times of those of PyTorch, TensorFlow, JAX,
# oneDNN and libxsmm that are installed.
#	sh tests/bench/peers.sh [--rows PROBLEMS] [--busy] [--json FILE] [--plot FILE.svg] [--quick]    --help has all options
#
# Runs in the top folder of a build.  The workers in C are built in a temporary folder; peers.py runs all workers, and describes the method.
# Exit status: 0 measured; 1 a fault, or the run is discarded since the machine was not quiet; 2 a wrong argument, or no
# roof; 77 python3 or the shared library is missing.
#   srcdir: the top folder of the source; CC: a C compiler; SANITIZE: its sanitizers; LIBRARY: the shared library; CELLGRAD: the command;
#   PYTHON: runs the workers of PyTorch, TensorFlow and JAX; CPPFLAGS, LDFLAGS: where oneDNN and libxsmm are
set -u
here=$(cd "$(dirname "$0")" && pwd) || exit 99
tests=$here
[ -f "$tests/peers.py" ] || tests=$(cd "${srcdir:-.}/tests/bench" && pwd) || exit 99
source=$(cd "$tests/../.." && pwd) || exit 99
CC=${CC:-cc}
LIBRARY=${LIBRARY:-$(pwd)/.libs/libcellgrad.so}
CELLGRAD=${CELLGRAD:-$(pwd)/cellgrad}
PYTHON=${PYTHON:-python3}
export PYTHONDONTWRITEBYTECODE=1
[ -x "$CELLGRAD" ] || CELLGRAD=
command -v python3 >/dev/null || { echo "peers.sh: no python3" >&2; exit 77; }
[ -r "$LIBRARY" ] || { echo "peers.sh: $LIBRARY: no such library; run this in a build's top folder" >&2; exit 77; }
builds=$(mktemp -d "${TMPDIR:-/tmp}/peers.XXXXXX") || exit 99
trap 'rm -rf "$builds"' EXIT
trap 'exit 99' HUP INT TERM

# build NAME FLAG...: builds the worker NAME, or, if it cannot be built, writes the reason to NAME.why.
build() {
	name=$1
	shift
	# shellcheck disable=SC2086  # words of flags
	$CC -std=gnu11 -O2 ${SANITIZE:-} ${CPPFLAGS:-} -I"$source/runtime" "$tests/$name.c" "$tests/peer.c" -o "$builds/$name" ${LDFLAGS:-} "$@" -lm \
		>"$builds/$name.log" 2>&1 || grep -m 1 -E 'error|cannot find' "$builds/$name.log" | sed "s|$tests/||g" >"$builds/$name.why"
}

build peer_cellgrad "$LIBRARY" -Wl,-rpath,"$(dirname "$LIBRARY")"
[ -x "$builds/peer_cellgrad" ] || { cat "$builds/peer_cellgrad.log" >&2; exit 1; }
[ ! -f "$tests/peer_onednn.c" ] || build peer_onednn -ldnnl
[ ! -f "$tests/peer_libxsmm.c" ] || build peer_libxsmm -lxsmm -lxsmmext -lxsmmnoblas -fopenmp
python3 "$tests/peers.py" --builds "$builds" --cellgrad "$CELLGRAD" --python "$PYTHON" "$@"
