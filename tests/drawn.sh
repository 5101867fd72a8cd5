#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# drawn.sh [CELLS [SECONDS [NAME=VALUE]...]]: tests random cells of the generator in sequence/draw_cell.h.
# The gradient of each cell is compared with differences.
# The bits of its kernels on the device of CELLGRAD_BACKEND are compared with those on the cpu, as many kernels as the time allows.
#
# CELLS: 2000 by default.
# SECONDS: of each process that compares bits, 60 by default.  A process has 125 cells; there are as many as processors at a time.
# NAME=VALUE leaves out kernels, as for `cellgrad check`.
# CELLGRAD, SEQUENCE: the command and the program of the suite sequence, by default those of the build in the present folder.
# CELLGRAD_TEST_SEED: the seed, which is printed.
set -u
cells=${1:-2000} seconds=${2:-60}
shift $(($# < 2 ? $# : 2))
cellgrad=${CELLGRAD:-./cellgrad} sequence=${SEQUENCE:-tests/sequence/sequence}
device=$("$sequence" --opens) || { echo "# SKIP $device"; exit 77; }
work=$(mktemp -d "${TMPDIR:-/tmp}/cellgrad-drawn.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
trap 'exit 99' HUP INT TERM

mkdir "$work/texts"
CELLGRAD_BACKEND=cpu CELLGRAD_TEST_CELLS=$cells CELLGRAD_TEST_TEXTS=$work/texts "$sequence" '*drawn' >"$work/said" || { cat "$work/said"; exit 1; }
echo "$cells cells of $(grep -o 'CELLGRAD_TEST_SEED=[0-9]*' "$work/said")"

# The paths are relative and short, and the files are in the order of their numbers.
cd "$work" || exit 99
case $cellgrad in /*) ;; *) cellgrad=$OLDPWD/$cellgrad ;; esac
find texts -name '*.cell' | sort -V >files
red=0 agree=0 pointless=0
while read -r file; do
	if ! "$cellgrad" cell "$file" >said 2>&1; then
		cat said "$file"
		red=1
	elif grep -q '^the gradient at' said; then
		agree=$((agree + 1))
	else
		pointless=$((pointless + 1))
	fi
done <files
echo "gradients beside differences: $agree agree; $pointless cells have no point without a clip that cuts"

echo "bits on $device, and on the cpu:"
xargs -n 125 -P "$(nproc)" sh -c '
	seconds=$0 cellgrad=$1
	shift
	said=$(mktemp said.XXXXXX)
	"$cellgrad" check --ref cpu --max-time "$seconds" "$@" >"$said" 2>&1
	code=$?
	echo "$(tail -n 1 "$said")"
	[ $code -eq 0 ] || { grep -v " 0  *[0-9]*$" "$said"; exit 1; }' "$seconds" "$cellgrad" --dtype f32 "$@" <files || red=1
exit $red
