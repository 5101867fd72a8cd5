#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# times.sh FILE COMMAND...: runs a test by its TAP driver, and adds a line to FILE: the seconds of processor time that the test took, of the
# user and of the system, and the test's name, which follows --test-name. make check TIMES=FILE runs every test by this script.
file=$1
shift
"$@"
status=$?
while [ $# -gt 1 ] && [ "$1" != --test-name ]; do shift; done
# The output of `times` is not piped, since in a pipe the shell would print the times of a subshell.
times >"$file.$$"
awk -v name="$2" 'function seconds(text, part) { split(text, part, /[ms]/); return 60 * part[1] + part[2] }
	NR == 2 { printf "%.3f %.3f %s\n", seconds($1), seconds($2), name }' "$file.$$" >>"$file"
rm -f "$file.$$"
exit $status
