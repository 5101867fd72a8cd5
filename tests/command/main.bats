# SPDX-License-Identifier: Apache-2.0
# Tests the command as a whole: subcommands, help, exit status, and standard streams that are closed or full.

load files

@test "--version prints cellgrad and a version of three numbers" {
	works --version
	[[ $output =~ ^cellgrad\ [0-9]+\.[0-9]+\.[0-9]+$ ]]
}

@test "--help lists the subcommands" {
	works --help
	for name in run convert emit info demo bench check cache; do
		[[ $output == *"  $name "* ]]
	done
}

@test "every subcommand has --help with examples" {
	for name in run convert emit info demo bench check cache; do
		works $name --help
		[[ $output == "Usage: cellgrad $name"* ]]
		[[ $output == *Examples:*cellgrad\ $name* ]]
		[[ $output == *--json* ]]
	done
}

@test "three forms of the command print the help of a subcommand" {
	for name in run convert emit info demo bench check cache; do
		works $name --help
		plain=$output
		works help $name
		[ "$output" = "$plain" ]
		works --help $name
		[ "$output" = "$plain" ]
	done
	refuses "emti|emit" help emti
	works help help
	[[ $output == "Usage: cellgrad COMMAND"* ]]
}

@test "the command without a subcommand is refused" {
	refuses "--help"
}

@test "an unknown subcommand is refused, with the nearest one" {
	refuses 'emti|emit' emti
	refuses '"frobnicate"' frobnicate
}

@test "an unknown option without a subcommand is refused, with the nearest one" {
	refuses "--verison|--version" --verison
	refuses "--hlep|--help" --hlep
	refuses "--frobnicate" --frobnicate
}

# object TEXT KEY: prints the value of a key of a JSON object, decoded
object() {
	python3 -c 'import json, sys; print(json.loads(sys.argv[1])[sys.argv[2]])' "$1" "$2"
}

@test "with --json a failure is an object on standard error" {
	command -v python3 || skip "no python3"
	printf 'cell x\ngates a\n' > x.cell
	printf 'cell x\ngates "\xff\xc3\xa9\xc2\x9b\\\n' > bytes.cell
	for words in "run LSTMBlockCel x" "convert --from pytorhc --to keras a b" "emit lstmm" "emit ./x.cell" "emit ./bytes.cell" \
	             "check LSTN" "info --why cppu" "demo --only x" "bench --H x" "cache lst" "run --frobnicate"; do
		for json in "$words --json" "${words%% *} --json ${words#* }"; do
			run -2 --separate-stderr "$CELLGRAD" $json
			echo "standard error: $stderr"
			[ -z "$output" ]
			[ "${#stderr_lines[@]}" -eq 1 ]
			[ "$(object "$stderr" command)" = "${words%% *}" ]
			error=$(object "$stderr" error)
			# The object's message is that of the command without --json, except that each byte that is not UTF-8 is
			# U+FFFD, and control characters are kept.
			run -2 --separate-stderr "$CELLGRAD" $words
			[[ $words == *bytes* || $stderr == "cellgrad ${words%% *}: $error" ]]
			[[ $words != *bytes* || $error == *$'\xef\xbf\xbd\xc3\xa9\xc2\x9b'* ]]
		done
	done
	run -2 --separate-stderr "$CELLGRAD" rnu --json
	[ "$(object "$stderr" command)" = "" ]
	[[ $(object "$stderr" error) == *'"run"'* ]]
	# After -- the word --json is the name of a file.
	refuses "No such file" run GRUBlockCell -- --json
}

@test "an unknown option of a subcommand is refused, with the nearest one" {
	refuses "--expct|--expect" run --expct x
	refuses "--manifst|--manifest" emit lstm_block --manifst=x
	refuses "option|-Z" info -Z
}

@test "an option without its value, given twice, or with a value that it does not take, is refused" {
	refuses "-o" run GRUBlockCell -o
	refuses "--output|value" run GRUBlockCell --output=
	refuses "--output|twice" run GRUBlockCell -o a --output b
	refuses "--strict=1" run GRUBlockCell --strict=1
}

@test "a full standard output is an error" {
	[ -e /dev/full ] || skip "no /dev/full"
	cp "$DATA/GRUBlockCell-plain.safetensors" in.safetensors
	# Some of the outputs are shorter than the buffer of standard output, and some longer than several buffers.
	for words in --help --version info "info --json" "run GRUBlockCell in.safetensors" "emit lstm_block" "emit lstm --pass gradgrad" \
	             "emit lstm --manifest -" "emit lstm --json" "emit --list" "bench --reps 1 --B 1 --I 1 --H 1 --op GRUBlockCell"; do
		run -1 --separate-stderr bash -c '"$0" $1 > /dev/full' "$CELLGRAD" "$words"
		has "standard output" "No space left on device"
	done
}

@test "a closed standard output is an error" {
	run -1 --separate-stderr bash -c '"$0" info >&-' "$CELLGRAD"
	has "standard output"
}

@test "if standard output is closed, no file that the command opens takes its place" {
	run -1 bash -c '"$0" run GRUBlockCell "$1" --json >&- 2> message' \
		"$CELLGRAD" "$DATA/GRUBlockCell-plain.safetensors"
	run -0 bash -c '"$0" run GRUBlockCell "$1" -o out.safetensors >&- <&-' \
		"$CELLGRAD" "$DATA/GRUBlockCell-plain.safetensors"
	works run GRUBlockCell "$DATA/GRUBlockCell-plain.safetensors" -o again.safetensors
	cmp out.safetensors again.safetensors
}

@test "a pipe that its reader has closed is an error" {
	exec 9> >(exec true)
	wait $!
	code=0
	"$CELLGRAD" --help >&9 2> message || code=$?
	exec 9>&-
	[ "$code" -eq 1 ]
	grep -q "standard output" message
}
