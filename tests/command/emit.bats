# `cellgrad emit`: which kernel, and where it goes.

load files

@test "every built-in cell, pass, dtype and dialect" {
	works emit --list
	[[ ${lines[0]} == cell*stages*options ]]
	[[ $output == *lstm_block*peephole* ]]
	[[ $output == *gru_block* ]]
	for cell in $("$CELLGRAD" emit --list | sed 1d | cut -d ' ' -f 1); do
		for pass in forward grad gradgrad; do
			for lang in c opencl cuda; do
				works emit "$cell" --pass $pass --lang $lang --dtype f16
				[ -n "$output" ]
			done
		done
	done
	for dtype in f16 bf16 f32 f64; do
		works emit lstm_block --dtype $dtype
	done
}

@test "--list --json" {
	works emit --list --json
	[[ $output == *'{"cell":"lstm_block","options":["peephole"],"stages":1}'* ]]
}

@test "defaults: forward, f32, c" {
	works emit lstm_block
	plain=$output
	works emit lstm_block --pass forward --dtype f32 --lang c --stage 0
	[ "$output" = "$plain" ]
	works emit --pass=forward lstm_block --lang c
	[ "$output" = "$plain" ]
}

@test "files: the source and the manifest, whole or not at all" {
	works emit lstm_block --options peephole --pass grad -o grad.c --manifest grad.json
	[ -z "$output" ]
	works emit lstm_block --options peephole --pass grad
	[ "$output" = "$(cat grad.c)" ]
	works emit lstm_block --options peephole --pass grad --manifest -
	[ "$output" = "$(cat grad.json)" ]
	[[ $output == {* ]]
	works emit lstm_block -o other.c --manifest -
	[[ $output == {* ]]
	[ -s other.c ]
	echo old > kept.c
	refuses "No such file" emit lstm_block -o kept.c --manifest nowhere/x.json
	[ "$(cat kept.c)" = old ]
	refuses "same file" emit lstm_block -o x --manifest x
	[ ! -e x ]
}

@test "--json: both in one object" {
	works emit lstm_block --json
	[ "${#lines[@]}" -eq 1 ]
	[[ $output == '{"lang":"c","source":"'*'"manifest":{'* ]]
	refuses "--json" emit lstm_block --json -o x
}

@test "wrong words, with the nearest" {
	refuses "forward" emit lstm_block --pass forwrd
	refuses "forward, grad, gradgrad" emit lstm_block --pass sideways
	refuses "opencl" emit lstm_block --lang opncl
	refuses "did you mean f" emit lstm_block --dtype f61
	refuses "lstm_block" emit lstm_blok
	refuses "which cell" emit
	refuses "one cell at a time" emit lstm_block gru_block
	refuses "" emit lstm_block --options peepole
}

@test "--stage" {
	works emit gru_block --stage 1
	works emit gru_block --stage 2
	refuses "--stage" emit gru_block --stage 3
	refuses "--stage" emit gru_block --stage=-1
	refuses "--stage" emit gru_block --stage x
	refuses "--stage" emit gru_block --stage 99999999999999999999
}

@test "a cell from a file" {
	cat > mine.cell <<-'END'
		cell mine
		gates  a
		output h

		h = tanh(a)
		save h
	END
	works emit mine.cell --pass grad
	[[ $output == *mine* ]]
	works emit ./mine.cell --pass gradgrad --lang cuda
	cp mine.cell mine
	works emit ./mine
	refuses "mine" emit mine
}

@test "a cell from a file that is no cell" {
	refuses "No such file" emit nowhere.cell
	mkdir dir.cell
	refuses "dir.cell" emit dir.cell
	printf 'cell x\0' > zero.cell
	refuses "zero byte" emit zero.cell
	head -c 2000000 /dev/zero | tr '\0' ' ' > large.cell
	refuses "longer than" emit large.cell
	echo 'this is no cell' > bad.cell
	run -2 --separate-stderr "$CELLGRAD" emit bad.cell
	[ -z "$output" ]
	[[ $stderr == *bad.cell:1:* ]]
}

@test "cellgen prints what the command prints, and compiles the same functions into the library" {
	for kernel in "lstm_block grad f32 c peephole" "gru_block forward f16 opencl" "gru gradgrad bf16 cuda" "rnn_relu grad f64 c"; do
		set -- $kernel
		works emit "$1" --pass "$2" --dtype "$3" --lang "$4" ${5:+--options "$5"}
		[ "$output" = "$("$CELLGEN" emit "$@")" ]
		[ -n "$output" ]
	done
	# From the first function on, the text stands in the bundle, but that its functions are static there.
	works emit lstm_block --pass grad --dtype f32 --lang c --options peephole
	"$CELLGEN" bundle lstm_block f32 | sed 's/^static void/void/' >bundle.c
	sed -n '/^static void cg_/,$p' <<<"$output" | sed 's/^static void/void/' >functions.c
	[ "$(wc -l <functions.c)" -gt 100 ]
	bundle=$(cat bundle.c)
	[[ $bundle == *"$(cat functions.c)"* ]]
}
