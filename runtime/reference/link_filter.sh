#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# link_filter.sh FILE.md: prints a Markdown page in which the links that Doxygen does not follow are replaced by their text.  Doxygen does
# not follow links to headings of the same page, and to files other than README.md and docs/*.md.  Blocks of code are not changed.
top=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
case $1 in */docs/*) here=docs/ ;; *) here= ;; esac
awk -v top="$top" -v here="$here" '
	# The path of the page to which a link leads, or "" if the link leads neither to README.md nor to a file docs/*.md that exists.
	function page(target, path) {
		sub(/#.*/, "", target)
		if (target !~ /\.md$/) return ""
		path = here target
		while (sub(/[^\/]+\/\.\.\//, "", path)) ;
		sub(/^\.\//, "", path)
		return path == "README.md" || path ~ /^docs\/[^\/]*\.md$/ && (getline line < (top "/" path)) >= 0 ? top "/" path : ""
	}
	/^```/ { code = !code }
	code { print; next }
	{
		out = ""
		while (match($0, /\[[^][]*\]\([^()]*\)/)) {
			link = substr($0, RSTART, RLENGTH)
			out = out substr($0, 1, RSTART - 1)
			$0 = substr($0, RSTART + RLENGTH)
			text = link; sub(/^\[/, "", text); sub(/\]\(.*/, "", text)
			target = link; sub(/.*\]\(/, "", target); sub(/\)$/, "", target)
			if (target ~ /^https?:/) out = out link
			else out = out ((target = page(target)) == "" ? text : "[" text "](" target ")")
		}
		print out $0
	}' "$1"
