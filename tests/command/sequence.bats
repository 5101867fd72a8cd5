# SPDX-License-Identifier: Apache-2.0
# Tests `cellgrad run` of ops over whole sequences: BlockLSTM, BlockLSTMV2 and their gradient ops.

load files

# sequence FILE SPEC...: writes the inputs of BlockLSTM with T = 3, B = 2, I = 1, U = 2, seq_len_max 1; a SPEC replaces the tensor of its
# name
sequence() {
	local file=$1 all=() spec other

	shift
	for spec in seq_len_max:I64: x:F32:3,2,1 cs_prev:F32:2,2 h_prev:F32:2,2 w:F32:3,8 wci:F32:2 wcf:F32:2 wco:F32:2 b:F32:8; do
		for other; do
			[ "${other%%:*}" != "${spec%%:*}" ] || spec=$other
		done
		all+=("$spec")
	done
	tensors "$file" "" "${all[@]}"
}

# gradient FILE SPEC...: writes the inputs of BlockLSTMGrad to FILE, and those of BlockLSTM, with the SPECs, to forward.tmp
gradient() {
	local file=$1 all=() name

	shift
	for name in i cs f o ci co h cs_grad h_grad; do
		all+=("$name:F32:3,2,2")
	done
	sequence forward.tmp "$@"
	tensors "$file" '{"use_peephole":"true"}' seq_len_max:I64: x:F32:3,2,1 cs_prev:F32:2,2 h_prev:F32:2,2 w:F32:3,8 wci:F32:2 \
		wcf:F32:2 wco:F32:2 b:F32:8 "${all[@]}"
}

@test "the ops give TensorFlow's answers on an OpenCL device" {
	needs_opencl
	export CELLGRAD_BACKEND=opencl
	has_answers Block
}

@test "a gradient op takes the OUT of its forward op" {
	for op in BlockLSTM: BlockLSTMV2:V2; do
		in=$DATA/BlockLSTMGrad${op#*:}-short
		works run "${op%:*}" "$DATA/${op%:*}-short.safetensors" -o forward.safetensors
		without "$in.safetensors" i cs f o ci co h > in.safetensors
		works run "BlockLSTMGrad${op#*:}" forward.safetensors in.safetensors --expect "$in.expect.safetensors"
		[[ $output != *MISMATCH* ]]
	done
}

@test "BlockLSTMGrad has 8 outputs, and block_lstm_grad has dgates, too" {
	in=$DATA/BlockLSTMGrad-plain.safetensors
	works run BlockLSTMGrad "$in" --json
	[ "${#lines[@]}" -eq 8 ]
	works run block_lstm_grad "$in" --json
	[ "${#lines[@]}" -eq 9 ]
	[[ ${lines[8]} == '{"name":"dgates","dtype":"f32","shape":[4,3,16],'* ]]
}

@test "seq_len_max is an argument, a tensor of int64 or int32, or in metadata" {
	sequence in.safetensors
	sequence narrow.safetensors seq_len_max:I32:
	works run BlockLSTM in.safetensors -o one.safetensors
	works run BlockLSTM narrow.safetensors --expect one.safetensors --rtol 0
	works run BlockLSTM in.safetensors seq_len_max=3 -o three.safetensors
	run -1 "$CELLGRAD" run BlockLSTM in.safetensors --expect three.safetensors
	[[ $output == *MISMATCH* ]]
	# three.safetensors, OUT of a forward op, has the seq_len_max 3 of its call, which contradicts the 1 of in.safetensors.
	for files in "three.safetensors in.safetensors" "in.safetensors three.safetensors"; do
		# shellcheck disable=SC2086 # $files has two names
		refuses "seq_len_max" run BlockLSTM $files
		[[ $stderr == *"three.safetensors says 3"* && $stderr == *"in.safetensors says 1"* && $stderr == *seq_len_max=VALUE* ]]
		# shellcheck disable=SC2086
		works run BlockLSTM $files seq_len_max=3 --expect three.safetensors --rtol 0
	done
	works run BlockLSTM in.safetensors narrow.safetensors --expect one.safetensors --rtol 0
	works run BlockLSTM seq_len_max=0 in.safetensors --json
	for line in "${lines[@]}"; do
		[[ $line == *'"min":0.0,"max":0.0,"mean":0.0}' ]]
	done
	[ "${#lines[@]}" -eq 7 ]
	works run BlockLSTM --strict in.safetensors
}

@test "with T=3 and seq_len_max=1 the least number of output i is 0, and the largest is that of a sequence of one step" {
	sequence in.safetensors
	sequence short.safetensors x:F32:1,2,1
	works run BlockLSTM in.safetensors --json
	max=${lines[0]}
	works run BlockLSTM short.safetensors --json
	[[ ${lines[0]} =~ \"max\":([0-9.]+) ]]
	[[ $max == *"\"min\":0.0,\"max\":${BASH_REMATCH[1]}"* ]]
}

@test "BlockLSTMV2 has no forget_bias, and equals BlockLSTM without forget_bias and clip" {
	sequence in.safetensors
	refuses "BlockLSTMV2|attribute|forget_bias|seq_len_max|cell_clip|use_peephole|T" run BlockLSTMV2 forget_bias=0 in.safetensors
	refuses "block_lstm_v2|attribute|forget_bias" run block_lstm_v2 forget_bias=0 in.safetensors
	refuses "BlockLSTMGrad|attribute|cell_clip" run BlockLSTMGrad cell_clip=1 in.safetensors
	# All weights are equal, so that the order of the gates, in which the two ops differ, has no effect.
	works run BlockLSTM forget_bias=0 cell_clip=0 in.safetensors -o one.safetensors
	works run BlockLSTMV2 in.safetensors --expect one.safetensors --rtol 0
}

@test "BlockLSTM runs without steps and without rows" {
	sequence none.safetensors seq_len_max:I64:0 x:F32:0,2,1
	works run BlockLSTM seq_len_max=0 none.safetensors --json
	[[ ${lines[6]} == '{"name":"h","dtype":"f32","shape":[0,2,2],"min":null'* ]]
	sequence empty.safetensors x:F32:3,0,1 cs_prev:F32:0,2 h_prev:F32:0,2
	works run BlockLSTM empty.safetensors --json
	[[ ${lines[6]} == '{"name":"h","dtype":"f32","shape":[3,0,2],"min":null'* ]]
}

@test "--expect does not compare elements that TensorFlow leaves unset beyond seq_len_max, and reports their number" {
	sequence in.safetensors
	works run BlockLSTM in.safetensors -o want.safetensors
	works run BlockLSTM in.safetensors --expect want.safetensors --rtol 0
	[[ ${lines[-1]} =~ [^0-9]2\ of\ 3\  ]]
	[ "$(grep -c '8 left out$' <<< "$output")" -eq 5 ]
	cp want.safetensors unset.safetensors
	for name in i f o ci co; do
		poke unset.safetensors $name 4 '\x00\x00\xc0\x7f'        # NaN
		poke unset.safetensors $name 11 '\x00\x00\x80\xff'
		poke unset.safetensors $name 7 '\x76\x7d\xfa\xde'       # -8.8e18
	done
	for op in BlockLSTM block_lstm; do
		works run $op in.safetensors --expect unset.safetensors
		[[ $output != *MISMATCH* ]]
	done
	works run BlockLSTM in.safetensors --expect unset.safetensors --json
	for line in "${lines[@]}"; do
		case $line in
		'{"name":"cs"'*|'{"name":"h"'*) [[ $line == *'"left_out":0,"ok":true}' ]] ;;
		*)                              [[ $line == *'"left_out":8,"ok":true}' ]] ;;
		esac
	done
	# Before seq_len_max all outputs are compared; cs and h, which TensorFlow sets to zero beyond it, are compared everywhere.
	for case in i:3 f:0 o:1 ci:2 co:3 cs:0 cs:4 cs:11 h:3 h:5; do
		cp want.safetensors wrong.safetensors
		poke wrong.safetensors ${case%:*} ${case#*:} '\x00\x00\xc0\x7f'
		run -1 --separate-stderr "$CELLGRAD" run BlockLSTM in.safetensors --expect wrong.safetensors
		[ "$(grep -c "MISMATCH in 1 of" <<< "$output")" -eq 1 ]
		[[ $output =~ (^|$'\n')${case%:*}\ [^$'\n']*MISMATCH\ in\ 1\ of\ (4\;\ 8\ left\ out|12) ]]
	done
	# With seq_len_max=0 no element of i, f, o, ci and co is compared, with seq_len_max=T every element is.
	works run BlockLSTM seq_len_max=0 in.safetensors --expect want.safetensors --atol 9
	[ "$(grep -c '12 left out$' <<< "$output")" -eq 5 ]
	run -1 "$CELLGRAD" run BlockLSTM seq_len_max=3 in.safetensors --expect unset.safetensors
	[[ $output != *"left out"* ]]
	# All seven outputs are mismatches: i, f, o, ci and co are expected to have a NaN, and cs and h to be 0 beyond the first step.
	[ "$(grep -c MISMATCH <<< "$output")" -eq 7 ]
}

@test "wrong ranks and sizes of inputs of BlockLSTM are refused" {
	for wrong in x:F32:2,1 cs_prev:F32:2 h_prev:F32:1,2,2 w:F32:24 wci:F32:2,1 wcf:F32: wco:F32:1,2 b:F32:2,4; do
		sequence in.safetensors "$wrong"
		refuses "in.safetensors|block_lstm|${wrong%%:*}" run BlockLSTM in.safetensors
		[[ $wrong == *,* ]] || has "[${wrong##*:}]"
	done
	sequence in.safetensors x:F32:3,1,1
	refuses "in.safetensors|x|B=2|I=1|[3, 1, 1]|cs_prev|[2, 2]" run BlockLSTM in.safetensors
	sequence in.safetensors h_prev:F32:2,3
	refuses "in.safetensors|block_lstm|h_prev|[B=2, U=2]|[2, 3]" run BlockLSTM in.safetensors
	sequence in.safetensors w:F32:4,8
	refuses "in.safetensors|block_lstm|w|[I+U=3, 4*U=8]|[4, 8]" run BlockLSTM in.safetensors
	sequence in.safetensors w:F32:3,4
	refuses "in.safetensors|block_lstm|w|[I+U=3, 4*U=8]|[3, 4]" run BlockLSTM in.safetensors
	for name in wci wcf wco; do
		sequence in.safetensors $name:F32:3             # peepholes are off, but the shape is checked
		refuses "in.safetensors|block_lstm|$name|[U=2]|[3]" run BlockLSTM in.safetensors
	done
	sequence in.safetensors b:F32:4
	refuses "in.safetensors|block_lstm|b|[4*U=8]|[4]" run BlockLSTM in.safetensors
	sequence in.safetensors x:F64:3,2,1
	refuses "BlockLSTM|dtype|f64|x|in.safetensors|f32|cs_prev" run BlockLSTM in.safetensors
}

@test "wrong ranks and sizes of inputs of BlockLSTMGrad are refused" {
	gradient in.safetensors
	works run BlockLSTMGrad in.safetensors
	for name in i cs f o ci co h cs_grad h_grad; do
		for shape in 2,2 3,2,3 2,2,2 3,1,2; do
			tensors wrong.safetensors "" $name:F32:$shape
			without in.safetensors $name > rest.safetensors
			refuses "wrong.safetensors|block_lstm_grad|$name" run BlockLSTMGrad use_peephole=true wrong.safetensors rest.safetensors
			has "[${shape//,/, }]"
		done
	done
	refuses "BlockLSTMGrad|use_peephole|default" run BlockLSTMGrad forward.tmp
	refuses "BlockLSTMGrad|i|missing|f32|[3, 2, 2]|forward.tmp" run BlockLSTMGrad use_peephole=true forward.tmp
	refuses "BlockLSTMGradV2|i|missing" run BlockLSTMGradV2 use_peephole=true forward.tmp
}

@test "a wrong seq_len_max is refused" {
	for op in BlockLSTM BlockLSTMV2 BlockLSTMGrad BlockLSTMGradV2; do
		gradient in.safetensors
		for length in 4 -1 9223372036854775807 -9223372036854775808; do
			refuses "seq_len_max|0|T=3|$length" run $op seq_len_max=$length in.safetensors
		done
		refuses 'seq_len_max|integer|two' run $op seq_len_max=two in.safetensors
		refuses 'seq_len_max|integer|9223372036854775808' run $op seq_len_max=9223372036854775808 in.safetensors
		refuses "seq_len_max|twice" run $op seq_len_max=1 seq_len_max=1 in.safetensors
	done
	sequence in.safetensors seq_len_max:I64:1
	refuses "in.safetensors|seq_len_max|scalar|[]|[1]" run BlockLSTM in.safetensors
	sequence in.safetensors seq_len_max:F32:
	refuses "in.safetensors|seq_len_max|I64|I32|F32" run BlockLSTM in.safetensors
	sequence in.safetensors seq_len_max:I16:
	refuses "in.safetensors|seq_len_max" run BlockLSTM in.safetensors
	tensors in.safetensors "" x:F32:3,2,1 cs_prev:F32:2,2 h_prev:F32:2,2 w:F32:3,8 wci:F32:2 wcf:F32:2 wco:F32:2 b:F32:8
	refuses "BlockLSTM|seq_len_max|default|seq_len_max=VALUE|integer|tensor" \
		run BlockLSTM in.safetensors
}

@test "the line that CELLGRAD_VERBOSE=1 prints about a sequence has its sizes and seq_len_max" {
	sequence in.safetensors
	for op in BlockLSTM BlockLSTMV2; do
		CELLGRAD_BACKEND=cpu CELLGRAD_VERBOSE=1 run -0 --separate-stderr "$CELLGRAD" run $op seq_len_max=2 in.safetensors
		[[ $stderr == "cellgrad bench --op $op --T 3 --B 2 --I 1 --H 2 --dtype f32 seq_len_max=2 # cpu; "* ]]
	done
}
