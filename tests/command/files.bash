# SPDX-License-Identifier: Apache-2.0
# Functions that the tests of the command share: they write safetensors files, check messages, and select backends.
# CELLGRAD has the path of the built command, DATA that of the folder of stored inputs and answers, by default tests/data.

bats_require_minimum_version 1.5.0

setup() {
	: "${CELLGRAD:?is to name the built command}"
	: "${DATA:=$BATS_TEST_DIRNAME/../data}"
	cd "$BATS_TEST_TMPDIR" || return 1
}

# le64 N: prints N as 8 bytes, in the form for printf %b
le64() {
	local n=$1

	for _ in 1 2 3 4 5 6 7 8; do
		printf '\\x%02x' $((n & 255))
		n=$((n >> 8))
	done
}

# raw FILE HEADER BYTES: writes a safetensors file with this header and BYTES zero bytes of data
raw() {
	local LC_ALL=C

	{ printf '%b' "$(le64 ${#2})"; printf '%s' "$2"; head -c "$3" /dev/zero; } > "$1"
}

# element DTYPE: prints the bytes of one element, in the form for printf %b: 0.5 for floats, 1 for I64 and I32, and one byte of 1 for
# any other dtype
element() {
	case $1 in
	F64)  printf '\\x00\\x00\\x00\\x00\\x00\\x00\\xe0\\x3f' ;;
	F32)  printf '\\x00\\x00\\x00\\x3f' ;;
	F16)  printf '\\x00\\x38' ;;
	BF16) printf '\\x00\\x3f' ;;
	I64)  printf '\\x01\\x00\\x00\\x00\\x00\\x00\\x00\\x00' ;;
	I32)  printf '\\x01\\x00\\x00\\x00' ;;
	*)    printf '\\x01' ;;
	esac
}

# tensors FILE METADATA NAME:DTYPE:SHAPE...: writes a safetensors file; METADATA is JSON or "", SHAPE such as 2,3; the elements are
# those that element() prints
tensors() {
	local LC_ALL=C file=$1 header="" data="" at=0 spec name dtype shape count d one end

	[ -z "$2" ] || header="\"__metadata__\":$2"
	shift 2
	for spec; do
		IFS=: read -r name dtype shape <<< "$spec"
		count=1
		for d in ${shape//,/ }; do
			count=$((count * d))
		done
		one=$(element "$dtype")
		end=$((at + count * ${#one} / 4))
		header+="${header:+,}\"$name\":{\"dtype\":\"$dtype\",\"shape\":[$shape],\"data_offsets\":[$at,$end]}"
		for ((d = 0; d < count; d++)); do
			data+=$one
		done
		at=$end
	done
	header="{$header}"
	{ printf '%b' "$(le64 ${#header})"; printf '%s' "$header"; printf '%b' "$data"; } > "$file"
}

# without FILE NAME...: prints the bytes of the file, with the names of these tensors in capitals, so that no op finds the tensors
without() {
	local file=$1 name script=""

	shift
	for name; do
		script+="s/\"$name\":{/\"${name^^}\":{/;"
	done
	LC_ALL=C sed "$script" "$file"
}

# gru FILE METADATA DTYPE: writes the inputs of a step of a GRU with B = 2, I = 1, U = 3
gru() {
	tensors "$1" "$2" x:"$3":2,1 h_prev:"$3":2,3 w_ru:"$3":4,6 w_c:"$3":4,3 b_ru:"$3":6 b_c:"$3":3
}

# refuses FACTS COMMAND...: checks for exit status 2, nothing on standard output, and one message with the facts
refuses() {
	local facts=$1

	shift
	run -2 --separate-stderr "$CELLGRAD" "$@"
	message_has "$facts"
}

# fails FACTS COMMAND...: checks for exit status 1, nothing on standard output, and one message with the facts
fails() {
	local facts=$1

	shift
	run -1 --separate-stderr "$CELLGRAD" "$@"
	message_has "$facts"
}

# message_has FACTS: checks the message on standard error. FACTS are names, numbers and shapes, separated by |, in any order; each must
# be in the message as a whole word, and the wording does not matter.
message_has() {
	local facts

	echo "standard error: $stderr"
	[ -z "$output" ]
	[ "${#stderr_lines[@]}" -eq 1 ]
	[[ $stderr == cellgrad* || $stderr == '{"error":"'*'","command":"'*'"}' ]]
	IFS='|' read -r -a facts <<< "$1"
	has "${facts[@]}"
}

# has FACT...: checks that the message has each of the facts
has() {
	local fact before after

	for fact; do
		before='' after=''
		[[ $fact != [[:alnum:]_]* ]] || before='(^|[^[:alnum:]_])'
		[[ $fact != *[[:alnum:]_] ]] || after='([^[:alnum:]_]|$)'
		[[ $stderr =~ $before"$fact"$after ]] || { echo "not in the message: $fact"; return 1; }
	done
}

# works COMMAND...: checks for exit status 0 and nothing on standard error; $output is the standard output
works() {
	run -0 --separate-stderr "$CELLGRAD" "$@"
	echo "standard error: $stderr"
	[ -z "$stderr" ]
}

# has_answers NAME...: checks that `cellgrad run` gives TensorFlow's answers in every stored case of the ops whose names begin with NAME
has_answers() {
	local start expect case op

	for start; do
		for expect in "$DATA/$start"*.expect.safetensors; do
			case=${expect%.expect.safetensors}
			op=${case##*/}
			[ -e "$case.expect32.safetensors" ] && expect=$case.expect32.safetensors
			works run "${op%%-*}" "$case.safetensors" --expect "$expect"
			[[ $output == *ok* ]]
			[[ $output != *MISMATCH* ]]
		done
	done
}

# needs NAME WHY: skips the test, or fails if CELLGRAD_TEST_REQUIRE has the name, as in `make cleancheck`
needs() {
	[[ ,$CELLGRAD_TEST_REQUIRE, != *,$1,* ]] || { echo "$1 is required: $2"; return 1; }
	skip "$2"
}

# needs_opencl: without an OpenCL device skips the test, or fails if opencl is required, as needs() does
needs_opencl() {
	"$CELLGRAD" info --why opencl | grep -q '^opencl: opens' || needs opencl "there is no OpenCL device"
}

# stand_ins [VARIABLE=VALUE...]: sets variables, and makes all further commands find the stand-ins for CUDA before the system's libraries;
# without stand-ins skips the test, or fails if cuda-fake is required, as needs() does
stand_ins() {
	local fake

	fake=$(dirname "$CELLGRAD")/tests/fake/run
	"$fake" true || needs cuda-fake "there are no stand-ins for CUDA"
	for set; do
		export "${set?}"
	done
	printf '#!/bin/sh\nexec %s %s "$@"\n' "$fake" "$CELLGRAD" > cellgrad
	chmod +x cellgrad
	CELLGRAD=$PWD/cellgrad
}

# on BACKEND: selects the backend cpu, opencl, or cuda with the stand-ins; calls needs() if opencl or the stand-ins are not available
on() {
	export CELLGRAD_BACKEND=$1
	case $1 in
	opencl) needs_opencl ;;
	cuda)   stand_ins CELLGRAD_CACHE_DIR="$BATS_FILE_TMPDIR" ;;
	esac
}

# place FILE NAME K: prints the offset, in the file, of element K of an f32 tensor
place() {
	local length at

	length=$(od -A n -t u8 -N 8 "$1" | tr -d ' ')
	at=$(head -c $((8 + length)) "$1" | tr -d '\0' | grep -ao "\"$2\":{[^}]*}" | sed 's/.*data_offsets":\[\([0-9]*\).*/\1/')
	echo $((8 + length + at + 4 * $3))
}

# number FILE NAME K: prints element K of an f32 tensor
number() {
	od -A n -t f4 -j "$(place "$@")" -N 4 "$1" | tr -d ' '
}

# poke FILE NAME K BYTES: overwrites element K of an f32 tensor with bytes, in the form for printf %b
poke() {
	printf '%b' "$4" | dd of="$1" bs=1 seek="$(place "$1" "$2" "$3")" conv=notrunc status=none
}

# metadata FILE: prints the metadata of a file as NAME:VALUE, one on each line
metadata() {
	local length

	length=$(od -A n -t u8 -N 8 "$1" | tr -d ' ')
	head -c $((8 + length)) "$1" | tr -d '\0' | grep -ao '"__metadata__":{[^}]*}' | sed 's/^[^{]*{//' | tr ',' '\n' | tr -d '"}'
}
