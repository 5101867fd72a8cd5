#!/bin/sh
# What the README shows is so: its C programs are examples/peephole_lstm.c and bidirectional.c and run, its kernel is what the command emits.
# srcdir: the source; CELLGRAD: the command; EXAMPLE: the built example.
set -u
srcdir=${srcdir:-.}
scratch=$(mktemp -d) || exit 99
trap 'rm -rf "$scratch"' EXIT

# The n-th block of a language in the README.
block()
{
	awk -v lang="$1" -v n="$2" '
		/^```/ { if (inside) { inside = 0 } else if ($0 == "```" lang && ++seen == n) { inside = 1 } else if ($0 != "```" lang) { other = !other } next }
		inside { print }' "$srcdir/README.md"
}

report()
{
	if [ "$1" -eq 0 ]; then echo "ok $2 - $3"; else sed 's/^/# /' "$scratch/why"; echo "not ok $2 - $3"; fi
}

echo 1..5
block c 2 >"$scratch/program.c"
diff "$scratch/program.c" "$srcdir/examples/peephole_lstm.c" >"$scratch/why"
report $? 1 "the README's program is examples/peephole_lstm.c"

"$EXAMPLE" >"$scratch/out" 2>"$scratch/why" && grep -q '^x_grad  *[-0-9]' "$scratch/out"
report $? 2 "the program runs and prints a gradient"

block c 1 >"$scratch/kernel.c"
"$CELLGRAD" emit lstm_block --options peephole --pass grad --dtype f32 --lang c >"$scratch/emitted.c" 2>"$scratch/why"
awk 'NR == FNR { want[++n] = $0; next } { have[++m] = $0 }
	END { for (k = 0; k + n <= m && !found; k++) { found = n > 0; for (j = 1; j <= n; j++) if (have[k + j] != want[j]) { found = 0; break } }
	      if (!found) print "the kernel in the README is not what the command emits"; exit !found }' \
	"$scratch/kernel.c" "$scratch/emitted.c" >"$scratch/why"
report $? 3 "the README's kernel is part of what the command emits"

block c 3 >"$scratch/bidirectional.c"
diff "$scratch/bidirectional.c" "$srcdir/examples/bidirectional.c" >"$scratch/why"
report $? 4 "the README's network is examples/bidirectional.c"

"${EXAMPLE%/*}/bidirectional" >"$scratch/out" 2>"$scratch/why" && grep -q '^bias_grad  *[-0-9]' "$scratch/out"
report $? 5 "the network runs and prints a gradient"
