#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# embed.sh ARRAY FILE...: prints a C array that contains the files, each line as a string, under the files' own names.
set -e
array=$1
shift
echo '/* Made by templates/embed.sh. */'
echo '#include "cell.h"'
echo
echo "const struct cg_embedded $array[] = {"
for file; do
	printf '{ "%s",\n' "${file##*/}"
	# The line with the licence of a C file is left out, since the rest is printed into emitted kernels.  A question mark is escaped, since
	# it may begin a trigraph.
	sed '/^\/\* SPDX-License-Identifier: .*\*\/$/d; s/[\\"?]/\\&/g; s/.*/"&\\n"/' "$file"
	printf '"" },\n'
done
printf '{ NULL, NULL }\n};\n'
