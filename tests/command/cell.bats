# SPDX-License-Identifier: Apache-2.0
# Tests `cellgrad cell`: what it prints of cells, the comparison of gradients with differences, its warnings, its picture, and wrong input.

load files

# warns TEXT WORDS...: checks that the command with these WORDS has the warning TEXT or, if TEXT begins with !, that its messages lack the
# rest of TEXT
warns() {
	local text=$1

	shift
	run -0 --separate-stderr "$CELLGRAD" "$@"
	case $text in
	!*) [[ $stderr != *"${text#!}"* ]] ;;
	*)  [[ $stderr == *"cellgrad cell: warning: $text"* ]] ;;
	esac
}

@test "the parts of a cell, and what each pass loads, stores and computes again, are printed" {
	works cell lstm --options peephole --dtype f16
	[[ $output == 'cell lstm
  gates       a_i: x W + h R + biases'* ]]
	[[ $output == *'
  states      c
  output      h
  weights     p_i (option peephole, on), p_f (option peephole, on), p_o (option peephole, on)
  saves       i, f, g, o, c, h

forward in f16: '* ]]
	# Pre-activations are f32; c_prev, i, f, g, o, c and h are f16.
	[[ $output == *'forward in f16: 30 bytes and '*'
  loads       a_i, a_f, a_g, a_o, c_prev, p_i, p_f, p_o
  stores      i, f, g, o, c, h
'* ]]
	[[ $output == *'
  recomputes  m
  sums        db_i, db_f, db_g, db_o, dp_i, dp_f, dp_o
  sums load   da_i, da_f, da_g, da_o, c_prev, c
'* ]]
	[ -z "$stderr" ]
	works cell mgu
	[[ $output == *'
  gates       a_f: x W + h R + biases, stage 1
              a_n: x W + h R + biases, stage 2, where h stands for fh
'* ]]
	works cell sru
	[[ $output == *'a_f: x W + bias
'*'x_n: x W
'* ]]
	printf 'cell mine\ngates a\noutput h\nscalar tau = 2\nparam leak = 0.5\nparam k\nh = tanh(a * tau) * leak + k\nsave h\n' > mine.cell
	works cell ./mine.cell
	[[ $output == *'
  scalars     tau = 2
  params      leak = 0.5, k
'* ]]
}

@test "the gradient of every built-in cell and of every cell of the shelf agrees with differences, with all options, at other points, too" {
	local n=0

	while read -r name _ options; do
		[ "$options" != - ] || options=
		for seed in 1 2; do
			works cell "$name" ${options:+--options "$options"} --seed $seed --json
			[[ $output == *'{"gradient":{"points":12,"worst":'*'"agrees":true}}'* ]]
			n=$((n + 1))
		done
	done < <("$CELLGRAD" emit --list | sed 1d)
	[ $n -ge 30 ]
	# The cell mine has kinks, poles and a clip; the gradient is that of the cell without the clip.
	printf 'cell mine\ngates a b\nstate c\noutput h\nc = clip(a * b, 0.5)\nr = relu(a) + abs(b) + max(a, c_prev)\nh = r / (b + c_prev)\nsave r c h\n' > mine.cell
	for seed in {1..40}; do
		works cell ./mine.cell --seed $seed --json
		[[ $output == *'"points":12,'*'"agrees":true}}'* ]]
	done
	# The gradients of a cell agree also if one result is very large, and if a large number loses digits by rounding.
	printf 'cell mine\ngates a b\nstate c\noutput h\nc = a * 1e30\nh = tanh(b) + 1e12\nsave c h\n' > mine.cell
	works cell ./mine.cell --json
	[[ $output == *'"agrees":true}}'* ]]
	printf 'cell mine\ngates a\noutput h\nh = log(-1 - a * a)\nsave h\n' > mine.cell
	works cell ./mine.cell
	[[ $output == *'the gradient was not compared' ]]
	works cell ./mine.cell --json
	[[ $output == *'"agrees":null}}' ]]
}

@test "a gradient that differs is printed, with the rest, and the exit status is 1" {
	# The derived gradient of sqrt(relu(a)) is 0 times infinity for a negative a.
	printf 'cell mine\ngates b a\noutput h\nh = sqrt(relu(a)) + b\nsave h\n' > mine.cell
	for seed in {1..9}; do
		run -1 --separate-stderr "$CELLGRAD" cell ./mine.cell --seed $seed --svg mine.svg
		[[ $output == *'the gradient at 12 points: at most '*'nan from differences, in da' ]]
		[[ $stderr == "cellgrad cell: the derived gradient da is "*"nan, but differences "*" give "*"; --seed $seed repeats "* ]]
		[ -s mine.svg ]
	done
}

@test "what is legal but odd gives a warning" {
	warns "the cell has weight 'p_i' only with option 'peephole', which is off" cell lstm
	warns "!p_i" cell lstm --options peephole
	printf 'cell mine\ngates a_new a_old\nsplit q_nev\noutput h\nu = tanh(a_old)\nt = exp(a_new)\nw = q_nev + 1\nh = t + u + w\nsave t u w h\n' > mine.cell
	warns "no gradient loads 'w', which forward saves" cell ./mine.cell
	warns "!loads 't'" cell ./mine.cell
	warns "'t' has an exp, and its equation shows no bound below 65504, the largest f16" cell ./mine.cell
	warns "split gate 'q_nev' is a gate of its own; the recurrent part of 'a_new' would have a name that ends in '_new'" cell ./mine.cell
	sed 's/q_nev/q_new/g' mine.cell > its.cell
	warns "!split" cell ./its.cell
	printf 'cell mine\ngates a\noutput h\nparam k = 2\nt = exp(tanh(a) * 5)\nu = exp(-abs(a)) + exp(k) + exp(min(a, 11)) + exp(-(a * a)) + exp(clip(a, 5))\nv = exp(1 / (1 + abs(a))) + exp(log(sigmoid(a))) + softplus(a) + exp(softsign(a) + hard_sigmoid(a)) + silu(a) + gelu(a)\nh = t * u + v\nsave t u v h\n' > mine.cell
	warns "!exp" cell ./mine.cell
	# An exp in a value that the cell does not save, also that of an expm1, is reported for the saved value that reads it.
	printf 'cell mine\ngates a\noutput h\nt = expm1(a)\nh = t + 1\nsave h\n' > mine.cell
	warns "'h' has an exp" cell ./mine.cell
	# In slstm no exp exceeds 1, since the stabiliser, which is subtracted from exponents, is at least as large as each of them.
	warns "!exp" cell slstm
	run -0 --separate-stderr "$CELLGRAD" cell lstm --json
	[[ $output == *'"sum_loads":["da_i","da_f","da_g","da_o"]'* ]]
	[[ $stderr == *'{"warning":"'* ]]
}

@test "--svg draws the equations, each with the lines to what it reads" {
	works cell gru --svg gru.svg
	[[ $(head -c 4 gru.svg) == '<svg' && $(tail -n 1 gru.svg) == '</svg>' ]]
	[[ $(cat gru.svg) == *'<title>cell gru</title>'*'<title>n = tanh(a_n + r * q)</title>'* ]]
	# The picture has nine lines, each from a value to one that it reads: from r to a_r, from z to a_z, from q to q_n, from n to a_n, r
	# and q, and from h to z, n and h_prev.
	[ "$(grep -c '<path' gru.svg)" = 9 ]
	[ "$(grep -c '<rect' gru.svg)" = 11 ]
	printf 'cell mine\ngates a\noutput h\n%s\nh = v39\nsave h\n' "$(echo 'v0 = a + 1'; for k in {1..39}; do echo "v$k = v$((k - 1)) * v$((k - 1))"; done)" > mine.cell
	works cell ./mine.cell --svg mine.svg
	# Pass gradgrad of the cell mine has too many operations.
	{ printf 'cell mine\ngates a b\noutput h\nh = b'; printf ' * a%.0s' {1..8000}; printf '\nsave h\n'; } > mine.cell
	works cell ./mine.cell
	[[ $output == *'gradgrad in f32: none: '*'the gradient at '* ]]
	sed 's/^h =/u = a + b\nh = u +/; s/^save/save u/' mine.cell > its.cell
	warns "no gradient loads 'u', which forward saves" cell ./its.cell
	works cell ./mine.cell --json
	[[ $output == *'{"pass":"gradgrad","dtype":"f32","why":"'* ]]
	echo mine > text
	refuses "text" cell gru --svg text
	[ "$(cat text)" = mine ]
}

@test "wrong arguments are refused" {
	refuses "which cell?|emit --list" cell
	refuses "which cell?|--svg takes|lstm" cell --svg lstm
	refuses "gru|one cell" cell lstm gru
	refuses "lstn|lstm" cell lstn
	refuses "nowhere.cell|No such file" cell ./nowhere.cell
	refuses "--options|peephol" cell lstm --options peephol
	refuses "--dtype|f8" cell lstm --dtype f8
	refuses "--seed|whole number|x" cell lstm --seed x
	refuses "--seed|whole number|18446744073709551616" cell lstm --seed 18446744073709551616
	printf 'cell mine\ngates a\noutput h\nh = b\n' > mine.cell
	run -2 --separate-stderr "$CELLGRAD" cell ./mine.cell
	[[ -z $output && ${stderr_lines[0]} == "cellgrad cell: ./mine.cell:4:5: 'b' is not known here"* ]]
}
