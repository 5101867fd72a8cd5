# SPDX-License-Identifier: Apache-2.0
# Tests the files that a command writes: an output does not replace an input or another output of the command, or a compiled kernel; a
# temporary file in use is kept; and temporary files of ended processes are removed.

load files

# inputs: writes the inputs of an LSTM step to the file in, and a cell to my.cell
inputs() {
	cp "$DATA/LSTMBlockCell-plain.safetensors" in
	printf 'cell mine\ngates a\noutput h\nh = tanh(a)\nsave h\n' > my.cell
}

# keeps FACTS COMMAND...: checks that the command is refused with a message that has these facts, and that the command changes no file
keeps() {
	local before=$(find . -type f ! -name '*stderr*' -exec cksum {} + | sort) names=$(find . ! -name '*stderr*' | sort)

	refuses "$@"
	[ "$(find . -type f ! -name '*stderr*' -exec cksum {} + | sort)" = "$before" ]
	[ "$(find . ! -name '*stderr*' | sort)" = "$names" ]
}

@test "an output that is an input is refused, also by another path or a link" {
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

@test "an output that is a second input file, the expected answers, or the file of a cell, is refused" {
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

@test "two outputs that are one file, existing or not, are refused" {
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

@test "an output that is a compiled kernel is refused" {
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
	# An output may have a name that is no entry's in the folder of the cache, and the name of an entry in another folder.
	echo old > "$entry"
	works emit ./my.cell -o kernels/notes
	works emit ./my.cell -o "$entry"
}

@test "a picture replaces only a picture, an empty file or nothing" {
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
		[[ $(head -c 4 x.svg) == "<svg" ]]
		printf '%s' "$mine" > x.svg
		CELLGRAD_BACKEND=cpu works demo --only train --time 0.001 --svg x.svg
		[[ $(head -c 4 x.svg) == "<svg" ]]
	done
	# The table x.svg.tsv, which bench writes beside the picture, replaces only a table of bench, an empty file or nothing.
	for other in notes 'op' "cell	what"; do
		echo "$other" > x.svg.tsv
		keeps "x.svg.tsv" "${bench[@]}" x.svg
	done
	: > x.svg.tsv
	CELLGRAD_BACKEND=cpu works "${bench[@]}" x.svg
	CELLGRAD_BACKEND=cpu works "${bench[@]}" x.svg
	ln -f x.svg x.svg.tsv
	keeps "x.svg.tsv|x.svg" "${bench[@]}" x.svg
	# If cellgrad-demo.svg, the default file of the demo's curve, is no picture, the demo keeps the file, and the last line of output names
	# the file.
	echo notes > cellgrad-demo.svg
	CELLGRAD_BACKEND=cpu works demo --only train --time 0.001
	[[ ${lines[-1]} == *cellgrad-demo.svg* ]]
	[ "$(cat cellgrad-demo.svg)" = notes ]
}

@test "an output with the name of a temporary file is refused, and so is - as the name of an input or of OUT" {
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

# ---- temporaries ----

# begins COMMAND...: starts a command, and waits for its temporary file, whose name is $temporary; the command's process is $process
begins() {
	"$CELLGRAD" "$@" 3>&- &
	process=$!
	for ((k = 0; k < 600; k++)); do
		temporary=$(ls -A | grep "^\.cellgrad-$process-") && return
		sleep 0.05
	done
	false
}

# begins_slow [WORD...]: starts a conversion of 1.6 GB to the file out, and stops its process while it writes; WORDs replace the command
# cellgrad
begins_slow() {
	local header='{"weight_ih_l0":{"dtype":"F32","shape":[40000,500],"data_offsets":[0,80000000]},"weight_hh_l0":{"dtype":"F32","shape":[40000,10000],"data_offsets":[80000000,1680000000]}}'

	raw large "$header" 0
	truncate -s $((1680000000 + 8 + ${#header})) large || skip "no sparse files here"
	CELLGRAD=${1:-$CELLGRAD} begins "${@:2}" convert --from pytorch --to pytorch large out rnn_mode=lstm > said
	kill -STOP $process
}

@test "the temporary file of a killed process is removed by the next command, and one in use is not" {
	inputs
	echo old > out
	begins_slow
	# The stopped process still has its temporary file open.
	works emit ./my.cell -o one.c
	[ -e "$temporary" ]
	kill -KILL $process
	wait $process || [ $? -eq 137 ]
	[ "$(cat out)" = old ]
	works emit ./my.cell -o one.c
	[ ! -e "$temporary" ]
	[ "$(cat out)" = old ]
}

@test "after TERM, INT and HUP the old file is unchanged, and no temporary file is left" {
	echo old > out
	for signal in TERM INT HUP; do
		begins_slow env --default-signal=$signal "$CELLGRAD"
		kill -$signal $process
		kill -CONT $process
		code=0
		wait $process || code=$?
		[ $code -eq $((128 + $(kill -l $signal))) ]
		[ "$(cat out)" = old ]
		[ -z "$(ls -A | grep '^\.cellgrad-')" ]
	done
}

@test "after KILL the old file is unchanged, and the next command removes the temporary file" {
	header='{"weight_ih_l0":{"dtype":"F32","shape":[40000,500],"data_offsets":[0,80000000]},"weight_hh_l0":{"dtype":"F32","shape":[40000,10000],"data_offsets":[80000000,1680000000]}}'
	raw in "$header" 0
	truncate -s $((1680000000 + 8 + ${#header})) in || skip "no sparse files here"
	mkdir place
	echo old > place/out
	"$CELLGRAD" convert --from pytorch --to pytorch in place/out rnn_mode=lstm 3>&- &
	process=$!
	for ((k = 0; k < 600; k++)); do
		temporary=$(ls -A place | grep '^\.cellgrad-') && break
		sleep 0.02
	done
	kill -KILL $process
	code=0
	wait $process || code=$?
	[ $code -eq 137 ]
	[ "$(cat place/out)" = old ]
	[ "$(ls -A place | sort)" = "$(printf '%s\nout' "$temporary")" ]
	works emit lstm_block -o place/out
	[ "$(ls -A place)" = out ]
}

@test "only files with the exact names of temporary files, that are regular and not in use, are removed" {
	inputs
	mine=(.cellgrad-1-0 .cellgrad-99999999-99)
	mkdir .cellgrad-2-0
	echo notes > notes
	ln -s notes .cellgrad-3-0
	mkfifo .cellgrad-4-0
	others=(.cellgrad .cellgrad- .cellgrad-1 .cellgrad-1- .cellgrad--1 .cellgrad-1-x .cellgrad-1-0.c .cellgrad-01-0 .cellgrad-1-00 \
	        x.cellgrad-1-0 .cellgrad-1-0-0 '.cellgrad- 1-0' .cellgrad-+1-0 .Cellgrad-1-0)
	touch "${mine[@]}" "${others[@]}"
	cp in .cellgrad-5-0
	exec 8>> .cellgrad-6-0
	flock 8
	works run LSTMBlockCell .cellgrad-5-0 -o out        # an input is not removed, even if it has the name of a temporary file
	for name in "${mine[@]}"; do
		[ ! -e "$name" ]
	done
	for name in "${others[@]}" .cellgrad-2-0 .cellgrad-3-0 .cellgrad-4-0 .cellgrad-5-0 .cellgrad-6-0 notes; do
		[ -e "$name" ] || [ -L "$name" ]
	done
	exec 8>&-
	works emit ./my.cell -o sub.c
	[ ! -e .cellgrad-5-0 ]
	[ ! -e .cellgrad-6-0 ]
	# A command that writes no file removes no temporary files.
	touch .cellgrad-7-0
	works run LSTMBlockCell in
	refuses "" emit nothing_like_it -o x
	[ -e .cellgrad-7-0 ]
}

@test "temporary files of other users are not removed" {
	[ "$(id -u)" -eq 0 ] || needs root "needs root, to make a file of another user's"
	inputs
	touch .cellgrad-1-0
	chown 65534 .cellgrad-1-0
	works emit ./my.cell -o out.c
	[ -e .cellgrad-1-0 ]
}

@test "two commands that write one file at the same time leave one complete output, and no temporary file" {
	inputs
	mkdir place
	works emit lstm_block --pass gradgrad -o a
	works emit gru_block --pass gradgrad -o b
	for ((k = 0; k < 20; k++)); do
		touch place/.cellgrad-$((k + 1))-0
		"$CELLGRAD" emit lstm_block --pass gradgrad -o place/out 3>&- &
		one=$!
		"$CELLGRAD" emit gru_block --pass gradgrad -o place/out 3>&- &
		wait $one
		wait $!
		cmp -s place/out a || cmp place/out b
		[ "$(ls -A place)" = out ]
	done
}
