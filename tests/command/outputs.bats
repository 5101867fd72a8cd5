# What a command writes: it takes the place of no input, of no other output and of no compiled kernel.

load files

# An LSTM's step, and a cell.
inputs() {
	cp "$DATA/LSTMBlockCell-plain.safetensors" in
	printf 'cell mine\ngates a\noutput h\nh = tanh(a)\nsave h\n' > my.cell
}

# keeps FACTS COMMAND...: refused, and every file is what it was
keeps() {
	local before=$(find . -type f ! -name '*stderr*' -exec cksum {} + | sort) names=$(find . ! -name '*stderr*' | sort)

	refuses "$@"
	[ "$(find . -type f ! -name '*stderr*' -exec cksum {} + | sort)" = "$before" ]
	[ "$(find . ! -name '*stderr*' | sort)" = "$names" ]
}

@test "an output that is an input, whatever it is called" {
	inputs
	mkdir sub
	ln in hard
	ln -s in soft
	ln -s ../in sub/soft
	ln -s . here
	for out in in ./in sub/../in "$PWD/in" hard soft sub/soft here/in here/soft; do
		keeps "$out" run LSTMBlockCell in -o "$out"
		keeps "$out" run LSTMBlockCell soft -o "$out"
		keeps "$out" convert --from block --to pytorch in "$out" --ignore-extra
	done
	ln my.cell hard.cell
	ln -s my.cell soft.cell
	for out in my.cell ./my.cell here/my.cell hard.cell soft.cell; do
		keeps "$out" emit ./my.cell -o "$out"
		keeps "$out" emit ./my.cell -m "$out"
		keeps "$out" emit soft.cell -o other.c -m "$out"
		keeps "$out" emit ./my.cell -o "$out" -m -
	done
	keeps "my.cell" emit /dev/stdin -o my.cell < my.cell
}

@test "an output that is another input than the first: a second file, what is expected, a cell that a word or a file names" {
	inputs
	cp "$DATA/LSTMBlockCell-plain.expect.safetensors" want
	tensors more '{"forget_bias":"1"}' other:F32:1
	keeps "more" run LSTMBlockCell in more -o more
	keeps "want" run LSTMBlockCell in -e want -o want
	tensors step "" input:F32:2,2,3 params:F32:14
	keeps "my.cell" run rnn step cell=./my.cell num_units=2 num_layers=1 -o my.cell
	tensors named '{"cell":"./my.cell"}' input:F32:2,2,3 params:F32:14
	keeps "my.cell" run rnn named num_units=2 num_layers=1 -o my.cell
	tensors params '{"cell":"./my.cell","num_units":"2","num_layers":"1","input_size":"3","weights_format":"cellgrad"}' params:F32:14
	keeps "my.cell" convert --from cellgrad --to canonical params my.cell
	works run rnn named num_units=2 num_layers=1 -o fine
	works convert --from cellgrad --to canonical params fine
}

@test "two outputs that are one file, there already or not" {
	inputs
	mkdir sub
	ln -s . here
	keeps "x|./x" emit ./my.cell -o x -m ./x
	keeps "x|sub/../x" emit ./my.cell -o x -m sub/../x
	keeps "here/x|$PWD/x" emit ./my.cell -o here/x -m "$PWD/x"
	echo old > x
	ln x hard
	ln -s x soft
	keeps "x|hard" emit ./my.cell -o x -m hard
	keeps "soft|x" emit ./my.cell -o soft -m x
	works emit ./my.cell -o x -m sub/x
}

@test "an output that is a compiled kernel" {
	command -v sha256sum > /dev/null || skip "no sha256sum"
	if "$CELLGRAD" cache path 2>&1 | grep -q SHA-256; then
		skip "this build keeps no kernels"
	fi
	inputs
	mkdir -m 700 kernels
	export CELLGRAD_CACHE_DIR=$PWD/kernels
	entry=$(echo one | sha256sum | cut -c -64).kernel
	echo kernel > "kernels/$entry"
	echo kernel > "kernels/12-0123456789abcdef.kernel-unfinished"
	ln "kernels/$entry" hard
	ln -s "kernels/$entry" soft
	for out in "kernels/$entry" "./kernels/../kernels/$entry" kernels/12-0123456789abcdef.kernel-unfinished hard soft; do
		keeps "$out" run LSTMBlockCell in -o "$out"
		keeps "$out" emit ./my.cell -o "$out"
		keeps "$out" emit ./my.cell -m "$out"
		keeps "$out" convert --from block --to pytorch in "$out" --ignore-extra
		CELLGRAD_CACHE=off keeps "$out" emit ./my.cell -o "$out"
	done
	# Another name there, and such a name elsewhere.
	echo old > "$entry"
	works emit ./my.cell -o kernels/notes
	works emit ./my.cell -o "$entry"
}

@test "a picture takes the place of a picture or of nothing" {
	mkdir bin
	printf '#!/bin/sh\n[ "$2" = --version ] || echo "<svg>new</svg>"\n' > bin/gnuplot
	chmod +x bin/gnuplot
	PATH=$PWD/bin:$PATH
	bench=(bench --time 0.001 --op GRUBlockCell --B 1 --I 1 --H 1 --plot)
	for other in notes '<html><svg></svg></html>' 'svg' ' ' '<?xml version="1.0"?><data/>'; do
		printf '%s' "$other" > x.svg
		keeps "x.svg" "${bench[@]}" x.svg
		keeps "x.svg" demo --only train --time 0.001 --svg x.svg
	done
	for mine in '' '<svg xmlns="x"></svg>' $'\xef\xbb\xbf<?xml version="1.0"?>\n<!DOCTYPE svg>\n<svg/>' $'\x89PNG\r\n\x1a\nrest'; do
		printf '%s' "$mine" > x.svg
		rm -f x.svg.tsv
		CELLGRAD_BACKEND=cpu works "${bench[@]}" x.svg
		[ "$(cat x.svg)" = "<svg>new</svg>" ]
		printf '%s' "$mine" > x.svg
		CELLGRAD_BACKEND=cpu works demo --only train --time 0.001 --svg x.svg
		[[ $(head -c 4 x.svg) == "<svg" ]]
	done
	# The data beside it, which nobody named.
	for other in notes 'op' "cell	what"; do
		echo "$other" > x.svg.tsv
		keeps "x.svg.tsv" "${bench[@]}" x.svg
	done
	: > x.svg.tsv
	CELLGRAD_BACKEND=cpu works "${bench[@]}" x.svg
	CELLGRAD_BACKEND=cpu works "${bench[@]}" x.svg
	ln -f x.svg x.svg.tsv
	keeps "x.svg.tsv|x.svg" "${bench[@]}" x.svg
	# The curve that nobody asked for by name is not drawn then, and that is said.
	echo notes > cellgrad-demo.svg
	CELLGRAD_BACKEND=cpu works demo --only train --time 0.001
	[[ ${lines[-1]} == *cellgrad-demo.svg* ]]
	[ "$(cat cellgrad-demo.svg)" = notes ]
}

@test "a name of the form of temporaries, and -" {
	inputs
	for out in .cellgrad-1-0 ./.cellgrad-123456-99; do
		keeps "$out" run LSTMBlockCell in -o "$out"
		keeps "$out" emit ./my.cell -m "$out"
	done
	works emit ./my.cell -o .cellgrad-1
	works emit ./my.cell -o .cellgrad-1-0.c
	for words in "run LSTMBlockCell in -o -" "emit ./my.cell -o -" "convert --from block --to pytorch in -"; do
		keeps "-|./-" $words
	done
	for words in "run LSTMBlockCell -" "run LSTMBlockCell in -e -" "convert --from block --to pytorch - out"; do
		keeps "-|input|./-" $words
	done
	works emit ./my.cell -o ./-
	[ -s ./- ]
}
