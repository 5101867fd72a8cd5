#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# times.sh FILE COMMAND...: runs a test's driver and adds a line to FILE: the seconds of processor time that it took, of the user and of
# the system, and the name that follows --test-name. make check TIMES=FILE runs every test so.
file=$1
shift
"$@"
status=$?
while [ $# -gt 1 ] && [ "$1" != --test-name ]; do shift; done
# Not through a pipe: the shell would count the times of the other end.
times >"$file.$$"
awk -v name="$2" 'function seconds(text, part) { split(text, part, /[ms]/); return 60 * part[1] + part[2] }
	NR == 2 { printf "%.3f %.3f %s\n", seconds($1), seconds($2), name }' "$file.$$" >>"$file"
rm -f "$file.$$"
exit $status
