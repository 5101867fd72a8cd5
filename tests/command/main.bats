# The command itself: its subcommands, help, exit codes, and standard streams that are not what they should be.

load files

@test "--version is the library's" {
	works --version
	[[ $output =~ ^cellgrad\ [0-9]+\.[0-9]+\.[0-9]+$ ]]
}

@test "--help lists the subcommands" {
	works --help
	for name in run emit info demo bench check cache; do
		[[ $output == *"  $name "* ]]
	done
}

@test "every subcommand has --help with examples" {
	for name in run emit info demo bench check cache; do
		works $name --help
		[[ $output == "Usage: cellgrad $name"* ]]
		[[ $output == *Examples:*cellgrad\ $name* ]]
		[[ $output == *--json* ]]
	done
}

@test "no subcommand" {
	refuses "--help"
}

@test "an unknown subcommand, with the nearest" {
	refuses 'emti|emit' emti
	refuses '"frobnicate"' frobnicate
}

@test "an unknown option, with the nearest" {
	refuses "--expct|--expect" run --expct x
	refuses "--manifst|--manifest" emit lstm_block --manifst=x
	refuses "option|-Z" info -Z
}

@test "an option without its value, twice, or with one too many" {
	refuses "-o" run GRUBlockCell -o
	refuses "--output|value" run GRUBlockCell --output=
	refuses "--output|twice" run GRUBlockCell -o a --output b
	refuses "--strict=1" run GRUBlockCell --strict=1
}

@test "standard output that is full" {
	[ -e /dev/full ] || skip "no /dev/full"
	cp "$DATA/GRUBlockCell-plain.safetensors" in.safetensors
	for words in --help --version info "run GRUBlockCell in.safetensors" "emit lstm_block"; do
		run -1 --separate-stderr bash -c '"$0" $1 > /dev/full' "$CELLGRAD" "$words"
		has "standard output"
	done
}

@test "standard output that is closed" {
	run -1 --separate-stderr bash -c '"$0" info >&-' "$CELLGRAD"
	has "standard output"
}

@test "standard output that is closed is not taken for a file of ours" {
	run -1 bash -c '"$0" run GRUBlockCell "$1" --json >&- 2> message' \
		"$CELLGRAD" "$DATA/GRUBlockCell-plain.safetensors"
	run -0 bash -c '"$0" run GRUBlockCell "$1" -o out.safetensors >&- <&-' \
		"$CELLGRAD" "$DATA/GRUBlockCell-plain.safetensors"
	works run GRUBlockCell "$DATA/GRUBlockCell-plain.safetensors" -o again.safetensors
	cmp out.safetensors again.safetensors
}

@test "a reader that has gone" {
	{ sleep 0.3; code=0; "$CELLGRAD" --help 2> message || code=$?; echo "$code" > code; } | true
	[ "$(cat code)" -eq 1 ]
	grep -q "standard output" message
}
