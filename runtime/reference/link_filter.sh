#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# link_filter.sh FILE.md: prints a Markdown page for Doxygen, which knows neither anchors of headings nor files that are not among its
# pages: such a link becomes its text.  The pages are README.md and docs/*.md.  Blocks of code stay as they are.
top=$(cd "$(dirname "$0")/../.." && pwd) || exit 1
case $1 in */docs/*) here=docs/ ;; *) here= ;; esac
awk -v top="$top" -v here="$here" '
	# The page that a link of this page means, or "" if it is none.
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
