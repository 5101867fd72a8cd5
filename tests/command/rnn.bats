# SPDX-License-Identifier: Apache-2.0
# Tests `cellgrad run` of networks: TensorFlow's versions of CudnnRNN, reserve spaces, canonical parameters, users' cells, and wrong input.

load files

# one FILE NAME DTYPE SHAPE BYTES: writes a file with one tensor, whose bytes are in the form for printf %b
one() {
	local LC_ALL=C header="{\"$2\":{\"dtype\":\"$3\",\"shape\":[$4],\"data_offsets\":[0,$((${#5} / 4))]}}"

	{ printf '%b' "$(le64 ${#header})"; printf '%s' "$header"; printf '%b' "$5"; } > "$1"
}

# lengths FILE N...: writes the tensor sequence_lengths, whose numbers are -1 to 127
lengths() {
	local file=$1 bytes="" n

	shift
	for n; do
		[ "$n" -ge 0 ] && bytes+=$(printf '\\x%02x\\x00\\x00\\x00' "$n") || bytes+='\xff\xff\xff\xff'
	done
	one "$file" sequence_lengths I32 $# "$bytes"
}

# small FILE METADATA: writes the tensors of an LSTM with T = 3, B = 2, I = 1, U = H = 2, which has 40 parameters
small() {
	tensors "$1" "$2" input:F32:3,2,1 input_h:F32:1,2,2 input_c:F32:1,2,2 params:F32:40 \
		output_backprop:F32:3,2,2 output_h_backprop:F32:1,2,2 output_c_backprop:F32:1,2,2
}

# keeps FACTS COMMAND...: checks that the command is refused with a message that has these facts, and that the command's OUT is unchanged
keeps() {
	echo old > out.safetensors
	refuses "$@" -o out.safetensors
	[ "$(cat out.safetensors)" = old ]
}

# both PATTERN: checks the answers of the forward and the backward op in the cases with these names
both() {
	for case in "$DATA"/CudnnRNNV3-$1.safetensors; do
		works run CudnnRNNV3 "$case" -o fwd.safetensors --expect "$case"
		[[ $output == *output*ok*output_h*ok* && $output != *MISMATCH* ]]
		works run CudnnRNNBackpropV3 "$case" fwd.safetensors -o bwd.safetensors --expect "$case"
		[[ $output == *input_backprop*ok*params_backprop*ok* && $output != *MISMATCH* ]]
	done
}

# ---- answers ----

@test "forward and backward give the answers of PyTorch in every stored case, on cpu" {
	on cpu
	both '*'
}

@test "forward and backward give the answers of each paper's equations in PyTorch for every cell of the shelf, on cpu and opencl" {
	local n=0

	for backend in cpu opencl; do
		on $backend
		for case in "$DATA"/shelf/*.safetensors; do
			works run rnn_backprop "$case" --expect "$case"
			[[ $output == *input_backprop*ok*params_backprop*ok* && $output != *MISMATCH* ]]
			[ $backend = opencl ] || works run rnn "$case" --expect "$case"
			[[ $output != *MISMATCH* ]]
			n=$((n + 1))
		done
	done
	[ $n -eq $((2 * $("$CELLGRAD" emit --list | sed '1,7d' | wc -l))) ]
}

# Since a process with OpenCL is slow, most cases run only the backward op, which also runs the forward pass.
@test "on opencl, backward gives the answers of PyTorch in every stored case, and forward in some" {
	on opencl
	both '*ragged'
	both '*major'
	for case in "$DATA"/CudnnRNNV3-*.safetensors; do
		[[ $case != *ragged.* && $case != *major.* ]] || continue
		works run CudnnRNNBackpropV3 "$case" --expect "$case"
		[[ $output == *input_backprop*ok*params_backprop*ok* && $output != *MISMATCH* ]]
	done
}

@test "forward and backward give the answers of PyTorch in every stored case, on cuda" {
	on cuda
	both '*'
}

@test "a backward op on opencl takes the OUT of a forward op on cpu" {
	case=$DATA/CudnnRNNV3-lstm-ragged.safetensors
	CELLGRAD_BACKEND=cpu works run CudnnRNNV3 "$case" -o fwd.safetensors
	on opencl
	works run CudnnRNNBackpropV3 "$case" fwd.safetensors --expect "$case"
}

@test "--expect reports a wrong answer as a mismatch" {
	case=$DATA/CudnnRNNV3-gru-plain.safetensors
	one wrong.safetensors output_h_backprop F64 1,3,5 "$(printf '\\x00%.0s' {1..120})"
	without "$case" output_h_backprop > rest.safetensors
	run -1 "$CELLGRAD" run rnn_backprop wrong.safetensors rest.safetensors rnn_mode=gru --expect "$case"
	[[ $output == *MISMATCH* ]]
}

@test "CudnnRNN and CudnnRNNV2 equal CudnnRNNV3 with whole sequences, and refuse attributes that only V3 or op rnn has" {
	case=$DATA/CudnnRNNV3-lstm-deep.safetensors
	works run CudnnRNNV3 "$case" -o v3.safetensors
	works run CudnnRNN "$case" -o v1.safetensors
	works run CudnnRNNV2 "$case" -o v2.safetensors
	for v in v1 v2; do
		works run CudnnRNNV3 "$case" --expect $v.safetensors --rtol 0
		run -1 grep -a num_proj $v.safetensors
		run -1 grep -a time_major $v.safetensors
	done
	run -1 grep -a host_reserved v1.safetensors
	grep -aq '"host_reserved":{"dtype":"I8","shape":\[\]' v2.safetensors
	grep -aq '"host_reserved":{"dtype":"I8","shape":\[\]' v3.safetensors
	works run CudnnRNNBackprop v1.safetensors "$case" -o b1.safetensors
	works run CudnnRNNBackpropV2 v2.safetensors "$case" -o b2.safetensors
	works run CudnnRNNBackpropV3 v3.safetensors "$case" -o b3.safetensors
	works run CudnnRNNBackprop "$case" --expect b3.safetensors --rtol 0
	works run CudnnRNNBackpropV2 "$case" --expect b1.safetensors --rtol 0
	run -1 grep -a is_training b1.safetensors
	for refused in num_proj=1 time_major=true cell=lstm counter=1; do
		refuses "CudnnRNN|attribute|${refused%=*}" run CudnnRNN "$case" $refused
		refuses "CudnnRNNBackpropV2|attribute|${refused%=*}" run CudnnRNNBackpropV2 "$case" $refused
	done
	refuses "CudnnRNNBackpropV3|attribute|is_training" run CudnnRNNBackpropV3 "$case" is_training=true
	refuses "CudnnRNNV3|attribute|cell|rnn" run CudnnRNNV3 "$case" cell=lstm
	# CudnnRNN, version 1, does not read sequence_lengths.
	works run CudnnRNN "$DATA/CudnnRNNV3-gru-vector.safetensors" -o v1.safetensors
	run -1 "$CELLGRAD" run rnn "$DATA/CudnnRNNV3-gru-vector.safetensors" --expect v1.safetensors
}

@test "outputs that a cell or a call does not have are empty, and inputs that the cell does not have are ignored" {
	case=$DATA/CudnnRNNV3-gru-plain.safetensors
	tensors keras.safetensors "" input_c:F32: host_reserved:F32:7
	works run CudnnRNNV3 keras.safetensors "$case" rnn_mode=gru --json
	[[ $output == *'"name":"output_c","dtype":"f64","shape":[1,3,0],"min":null'* ]]
	[[ $output == *'"name":"host_reserved","dtype":"int8","shape":[],"min":null'* ]]
	works run CudnnRNNBackpropV3 keras.safetensors "$case" rnn_mode=gru --json
	[[ $output == *'"name":"input_c_backprop","dtype":"f64","shape":[1,3,0],"min":null'* ]]
	works run CudnnRNNV3 "$case" is_training=false --json
	[[ $output == *'"name":"reserve_space","dtype":"f64","shape":[0]'* ]]
}

@test "a GRU of one unit with skip_input and parameters of 0 has the right output" {
	one x.safetensors input F64 1,1,1 '\x00\x00\x00\x00\x00\x00\xf0\x3f'
	one h.safetensors input_h F64 1,1,1 "$(printf '\\x00%.0s' {1..8})"
	one p.safetensors params F64 9 "$(printf '\\x00%.0s' {1..72})"
	works run rnn rnn_mode=gru input_mode=skip_input x.safetensors h.safetensors p.safetensors --json
	[[ $output == *'"name":"output","dtype":"f64","shape":[1,1,1],"min":0.204824214809825'* ]]
}

@test "networks run with T = 0 and with B = 0" {
	for shape in 0,2 3,0 0,0; do
		T=${shape%,*} B=${shape#*,}
		tensors in.safetensors "" input:F32:$T,$B,1 input_h:F32:1,$B,2 input_c:F32:1,$B,2 params:F32:40 \
			output_backprop:F32:$T,$B,2 output_h_backprop:F32:1,$B,2 output_c_backprop:F32:1,$B,2
		lengths l.safetensors $([ "$B" -eq 0 ] || echo 0 0)
		files=(l.safetensors in.safetensors)
		works run CudnnRNNV3 "${files[@]}" -o fwd.safetensors
		works run CudnnRNNV3 "${files[@]}" --json
		[[ $output == *"\"name\":\"output\",\"dtype\":\"f32\",\"shape\":[$T,$B,2]"* ]]
		[ "$B" -eq 0 ] || [[ $output == *'"name":"output_h","dtype":"f32","shape":[1,2,2],"min":0.5,"max":0.5'* ]]
		works run CudnnRNNBackpropV3 "${files[@]}" fwd.safetensors --json
		[[ $output == *'"name":"params_backprop","dtype":"f32","shape":[40],"min":0.0,"max":0.0'* ]]
		[ "$B" -eq 0 ] || [[ $output == *'"name":"input_c_backprop","dtype":"f32","shape":[1,2,2],"min":0.5,"max":0.5'* ]]
	done
}

@test "if all rows have length 0, the final states are the initial states" {
	small in.safetensors ""
	lengths l.safetensors 0 0
	works run CudnnRNNV3 l.safetensors in.safetensors --json
	[[ $output == *'"name":"output","dtype":"f32","shape":[3,2,2],"min":0.0,"max":0.0'* ]]
	[[ $output == *'"name":"output_c","dtype":"f32","shape":[1,2,2],"min":0.5,"max":0.5'* ]]
	works run CudnnRNNBackpropV3 l.safetensors in.safetensors --json
	[[ $output == *'"name":"input_h_backprop","dtype":"f32","shape":[1,2,2],"min":0.5,"max":0.5'* ]]
}

# ---- reserve spaces ----

@test "a backward op takes attributes, route and reserve space from the OUT of its forward op" {
	case=$DATA/CudnnRNNV3-lstm-ragged.safetensors
	works run CudnnRNNV3 "$case" dropout=0.5 seed=3 seed2=-1 -o fwd.safetensors
	[ -z "$output" ]
	grep -aq '"dropout":"0.5","seed":"3","seed2":"-1"' fwd.safetensors
	grep -aq '"route":"composed"' fwd.safetensors
	works run CudnnRNNBackpropV3 fwd.safetensors "$case" -o a.safetensors
	works run CudnnRNNBackpropV3 "$case" fwd.safetensors dropout=0.5 seed=3 seed2=-1 -o b.safetensors
	cmp a.safetensors b.safetensors
	# A second backward op with the same reserve space gives the same gradients; without a reserve space, the backward op runs the
	# forward pass again, with the same masks.
	works run CudnnRNNBackpropV3 fwd.safetensors "$case" --expect a.safetensors --rtol 0
	works run CudnnRNNBackpropV3 "$case" dropout=0.5 seed=3 seed2=-1 --expect a.safetensors --rtol 0
	run -1 "$CELLGRAD" run CudnnRNNBackpropV3 "$case" dropout=0.5 seed=4 seed2=-1 --expect a.safetensors
	run -1 "$CELLGRAD" run CudnnRNNBackpropV3 "$case" dropout=0.5 seed=3 seed2=1 --expect a.safetensors
}

@test "the OUT of a backward op has metadata that describes its network" {
	works run rnn_backprop "$DATA/CudnnRNNV3-lstm-proj.safetensors" -o bwd.safetensors
	works convert --gradients --from cellgrad --to pytorch bwd.safetensors gradients.safetensors --ignore-extra
	[[ $output == "lstm, num_layers=1, unidirectional, input_size=2, num_units=5, num_proj=3, "* ]]
}

@test "a reserve space is refused if dropout, seed, counter or is_training differs, which the message names, or lengths, network or route" {
	case=$DATA/CudnnRNNV3-lstm-ragged.safetensors
	works run CudnnRNNV3 "$case" dropout=0.5 -o fwd.safetensors
	# made WANT GOT OP WORD...: checks that OP with the WORDs, which mean WANT, refuses fwd.safetensors: its reserve space was made with GOT
	made() {
		keeps "fwd.safetensors|reserve_space" run "$3" "$case" fwd.safetensors "${@:4}"
		[[ $stderr == *"with $1, got"*"with $2" && $stderr != *rnn:* ]]
	}
	made dropout=0 dropout=0.5 CudnnRNNBackpropV3 dropout=0
	made "dropout=0.25 and seed=7" "dropout=0.5 and seed=0" rnn_backprop dropout=0.25 seed=7
	# If dropout is not an argument, the value in the file's metadata is taken.
	works run CudnnRNNBackpropV3 "$case" fwd.safetensors
	works run rnn "$case" counter=1 -o fwd.safetensors
	made counter=0 counter=1 rnn_backprop counter=0
	works run rnn "$case" counter=18446744073709551615 -o fwd.safetensors
	made counter=18446744073709551614 counter=18446744073709551615 rnn_backprop counter=18446744073709551614
	works run rnn_backprop "$case" fwd.safetensors
	works run rnn "$case" counter=1 -o fwd.safetensors
	works run rnn_backprop "$case" fwd.safetensors
	# TensorFlow's op has no attribute counter, so it refuses a file with another counter than 0.
	keeps "counter|fwd.safetensors|1|op|0" run CudnnRNNBackpropV3 "$case" fwd.safetensors
	keeps "reserve_space|counter" run CudnnRNNBackpropV3 "$case" fwd.safetensors --ignore-metadata direction=bidirectional
	works run rnn "$case" is_training=false -o fwd.safetensors
	keeps "fwd.safetensors|reserve_space|forward|is_training=false" run rnn_backprop "$case" fwd.safetensors
	works run rnn "$case" -o fwd.safetensors
	keeps "reserve_space|reserve=" run rnn_backprop rnn_mode=gru "$DATA/CudnnRNNV3-gru-ragged.safetensors" fwd.safetensors \
		--ignore-metadata direction=bidirectional
	# The file other.safetensors has the lengths of the forward op, but in other rows.
	lengths other.safetensors 5 3 1 4
	without "$case" sequence_lengths > rest.safetensors
	keeps "reserve_space|lengths" run rnn_backprop other.safetensors rest.safetensors fwd.safetensors
	sed 's/"route":"composed"/"route":"conposed"/' fwd.safetensors > other.safetensors
	keeps "other.safetensors|reserve_space|route=composed|route=conposed" \
		run rnn_backprop "$case" other.safetensors route=composed
	keeps "conposed" run rnn_backprop "$case" other.safetensors
	sed 's/cellgrad/cellgrat/g' fwd.safetensors > other.safetensors
	keeps "forward|plan" run rnn_backprop "$case" other.safetensors
}

@test "the reserve space of time-major sequences is refused for batch-major ones" {
	tensors square.safetensors "" input:F32:2,2,1 input_h:F32:2,2,2 input_c:F32:2,2,2 params:F32:80 \
		output_backprop:F32:2,2,4 output_h_backprop:F32:2,2,2 output_c_backprop:F32:2,2,2
	works run rnn square.safetensors direction=bidirectional -o fwd.safetensors
	works run rnn_backprop fwd.safetensors square.safetensors
	keeps "reserve_space|time_major=false|time_major=true" \
		run rnn_backprop fwd.safetensors square.safetensors time_major=false
}

# ---- parameters ----

@test "CudnnRNNParamsSize computes the size of params, and refuses wrong sizes" {
	size() {
		works run CudnnRNNParamsSize "${@:2}" --json
		[[ $output == *"\"shape\":[1],\"min\":$1.0,"* ]]
	}
	size 86184 rnn_mode=gru num_layers=1 num_units=76 input_size=300
	size 16 num_layers=1 num_units=1 input_size=1
	size 512 num_layers=2 num_units=4 input_size=3 direction=bidirectional num_proj=2
	size 61200 rnn_mode=gru num_layers=1 num_units=100 input_size=100 direction=bidirectional input_mode=skip_input
	size 61200 rnn_mode=gru num_layers=1 num_units=100 input_size=100 direction=bidirectional input_mode=auto_select
	size 86184 rnn_mode=gru num_layers=1 num_units=76 input_size=300 input_mode=auto_select
	tensors sizes.safetensors "" num_layers:I32: num_units:I32: input_size:I64:
	size 16 sizes.safetensors
	works run CudnnRNNParamsSize sizes.safetensors S=int64 -o size.safetensors
	grep -aq '"params_size":{"dtype":"I64","shape":\[1\]' size.safetensors
	refuses "S|34359214080|parameters|int32" run CudnnRNNParamsSize num_layers=1 num_units=65536 input_size=65532
	refuses "params|bytes" run CudnnRNNParamsSize num_layers=2000000000 num_units=2000000000 input_size=1
	refuses "num_units|1|0" run CudnnRNNParamsSize num_layers=1 num_units=0 input_size=1
	refuses "input_size|default" run CudnnRNNParamsSize num_layers=1 num_units=1
	refuses "num_proj|num_units=4|5" run CudnnRNNParamsSize num_layers=1 num_units=4 input_size=3 num_proj=5
	refuses "num_proj|cell|gru|state" run CudnnRNNParamsSize num_layers=1 num_units=4 input_size=3 num_proj=2 rnn_mode=gru
	refuses "skip_input|input_size|num_units|equal|3|4" \
		run CudnnRNNParamsSize num_layers=1 num_units=4 input_size=3 input_mode=skip_input
	tensors wrong.safetensors "" num_layers:I32:1 num_units:I32: input_size:I32:
	refuses "num_layers|scalar" run CudnnRNNParamsSize wrong.safetensors
}

# round_trip CASE SIZES...: checks that params converted to canonical lists and back are the same numbers
round_trip() {
	works run "CudnnRNNParamsToCanonical$V" "$DATA/CudnnRNNV3-$1.safetensors" "${@:2}" -o list.safetensors
	works run "CudnnRNNCanonicalToParams$V" list.safetensors -o params.safetensors
	works run "CudnnRNNCanonicalToParams$V" list.safetensors --expect "$DATA/CudnnRNNV3-$1.safetensors" --rtol 0
	[[ $output == *params*ok* ]]
}

@test "params are converted to canonical lists of weights and biases, and back" {
	V=
	round_trip lstm-plain num_layers=1 num_units=5 input_size=2 num_params=8
	grep -aq '"weights_3":{"dtype":"F64","shape":\[5,2\]' list.safetensors
	grep -aq '"weights_4":{"dtype":"F64","shape":\[5,5\]' list.safetensors
	grep -aq '"biases_7":{"dtype":"F64","shape":\[5\]' list.safetensors
	run -1 grep -a '"weights_8"' list.safetensors
	round_trip gru-ragged num_layers=2 num_units=3 input_size=2 num_params=24
	grep -aq '"weights_12":{"dtype":"F64","shape":\[3,6\]' list.safetensors
	round_trip rnn_tanh-deep num_layers=2 num_units=4 input_size=3 num_params=4
	V=V2
	round_trip lstm-proj-ragged num_layers=2 num_units=4 input_size=3 num_params_weights=36 num_params_biases=32
	grep -aq '"weights_8":{"dtype":"F64","shape":\[2,4\]' list.safetensors
	grep -aq '"weights_22":{"dtype":"F64","shape":\[4,2\]' list.safetensors
	round_trip lstm-plain num_layers=1 num_units=5 input_size=2 num_params_weights=8 num_params_biases=8
	# With skip_input the first layer's input matrices in the list have no columns.
	round_trip lstm-skip num_layers=2 num_units=3 input_size=3 num_params_weights=32 num_params_biases=32
	grep -aq '"weights_0":{"dtype":"F64","shape":\[3,0\]' list.safetensors
	grep -aq '"weights_16":{"dtype":"F64","shape":\[3,6\]' list.safetensors
}

@test "canonical lists that do not fit are refused" {
	sizes="num_layers=1 num_units=5 input_size=2"
	case=$DATA/CudnnRNNV3-lstm-plain.safetensors
	keeps "num_params|8|cell|lstm|L=1|D=1|6" run CudnnRNNParamsToCanonical "$case" $sizes num_params=6
	keeps "num_params|default" run CudnnRNNParamsToCanonical "$case" $sizes
	keeps "num_params|1|0" run CudnnRNNParamsToCanonical "$case" $sizes num_params=0
	keeps "num_params_weights|8" run CudnnRNNParamsToCanonicalV2 "$case" $sizes num_params_weights=9 num_params_biases=8
	keeps "num_params_biases|8" run CudnnRNNParamsToCanonicalV2 "$case" $sizes num_params_weights=8 num_params_biases=9
	keeps "params|[params=200]|[180]" run CudnnRNNParamsToCanonical "$case" num_layers=1 num_units=5 input_size=3 num_params=8
	keeps "65536|weights|biases" \
		run CudnnRNNParamsToCanonical "$case" num_layers=5000 num_units=1 input_size=1 num_params=40000
	small="num_layers=1 num_units=2 input_size=1 rnn_mode=rnn_tanh num_params=2"
	tensors list.safetensors "" weights_0:F32:2,1 weights_1:F32:2,2 biases_0:F32:2 biases_1:F32:2
	works run CudnnRNNCanonicalToParams list.safetensors $small
	tensors list.safetensors "" weights_0:F32:2,1 biases_0:F32:2 biases_1:F32:2
	keeps "weights_1|missing|f32|[2, 2]" run CudnnRNNCanonicalToParams list.safetensors $small
	tensors list.safetensors "" weights_0:F32:2,1 weights_1:F32:4 biases_0:F32:2 biases_1:F32:2
	keeps "weights_1|[U=2, H=2]|[4]" run CudnnRNNCanonicalToParams list.safetensors $small
	tensors list.safetensors "" weights_0:F32:2,1 weights_1:F32:2,2 biases_0:F32:2 biases_1:F32:3
	keeps "biases_1|[U=2]|[3]" run CudnnRNNCanonicalToParams list.safetensors $small
}

# ---- any cell ----

@test "a user's cell with the LSTM's equations gives PyTorch's answers" {
	cat > mine.cell <<-'EOF'
		cell mine
		gates  a_take a_forget a_new a_give
		state  memory
		output h
		param  temper, shift = 1
		memory = sigmoid(a_forget + shift) * memory_prev + temper * sigmoid(a_take) * tanh(a_new)
		h = sigmoid(a_give) * tanh(memory)
	EOF
	for backend in cpu opencl; do
		on $backend
		for case in ragged proj-ragged; do
			case=$DATA/CudnnRNNV3-lstm-$case.safetensors
			refuses "cell" run rnn cell=mine.cell values=shift=0,temper=1 "$case"
			[[ $stderr == *"the command line says mine.cell"*"safetensors says lstm"* ]]
			# The metadata of mine.safetensors has all attributes of the case except the cell.
			LC_ALL=C sed 's/"rnn_mode":"/"rnn_mood":"/' "$case" > mine.safetensors
			works run rnn cell=mine.cell values=shift=0,temper=1 mine.safetensors -o fwd.safetensors
			works run rnn cell=mine.cell values=shift=0,temper=1 mine.safetensors --expect "$case"
			[[ $output == *output_c*ok* ]]
			works run rnn_backprop fwd.safetensors mine.safetensors --expect "$case"
			[[ $output == *params_backprop*ok* ]]
			run -1 "$CELLGRAD" run rnn_backprop cell=mine.cell values=shift=0,temper=0.9 mine.safetensors --expect "$case"
		done
	done
}

@test "a user's cell with values and options runs forward and backward in two layers and directions" {
	cat > leaky.cell <<-'EOF'
		cell leaky
		gates  a_n a_f
		state  c
		output h
		option peephole p_f
		param  leak, bias = 1
		f = sigmoid(a_f + bias + p_f * c_prev)
		c = f * c_prev + leak * tanh(a_n)
		h = tanh(c)
		save f c h
	EOF
	tensors in.safetensors "" input:F64:3,2,2 input_h:F64:4,2,3 input_c:F64:4,2,3 \
		output_backprop:F64:3,2,6 output_h_backprop:F64:4,2,3 output_c_backprop:F64:4,2,3
	network="cell=./leaky.cell options=peephole values=leak=0.5,bias=0.25 direction=bidirectional"
	works run rnn_params_size cell=leaky.cell options=peephole values=leak=0.5 direction=bidirectional \
		num_layers=2 num_units=3 input_size=2 --json
	[[ $output == *'"min":228.0'* ]]
	tensors params.safetensors "" params:F64:228
	for backend in cpu opencl; do
		on $backend
		works run rnn in.safetensors params.safetensors $network -o $backend.safetensors
		works run rnn_backprop $backend.safetensors in.safetensors params.safetensors -o $backend-grad.safetensors
		works run rnn_backprop in.safetensors params.safetensors $network --expect $backend-grad.safetensors
	done
	CELLGRAD_BACKEND=cpu
	works run rnn in.safetensors params.safetensors $network --expect opencl.safetensors
	works run rnn_backprop in.safetensors params.safetensors $network --expect opencl-grad.safetensors
	sed -i 's/leak \* tanh/leak * sigmoid/' leaky.cell
	keeps "leaky.cell" run rnn_backprop cpu.safetensors in.safetensors params.safetensors
	[[ $stderr == *cpu.safetensors*"not the one"*"cell=PATH"*--ignore-metadata* ]]
	keeps "reserve_space|network" run rnn_backprop cpu.safetensors in.safetensors params.safetensors $network --ignore-metadata
	keeps "param|leak|default|value" run rnn in.safetensors params.safetensors cell=leaky.cell direction=bidirectional
	keeps "param|leek" run rnn in.safetensors params.safetensors cell=leaky.cell values=leek=1
	keeps 'values|NAME=NUMBER|leak' run rnn in.safetensors params.safetensors cell=leaky.cell values=leak
	keeps "options|peepholes" run rnn in.safetensors params.safetensors cell=leaky.cell values=leak=1 options=peepholes
	keeps "cell|no-such.cell" run rnn in.safetensors params.safetensors cell=no-such.cell
	keeps "cell|lstn|lstm" run rnn in.safetensors params.safetensors cell=lstn
	keeps "rnn_mode|cell" run rnn in.safetensors params.safetensors cell=lstm rnn_mode=gru
}

@test "the library's own ops need no states, lengths and gradients" {
	tensors in.safetensors "" input:F32:3,2,1 params:F32:40
	works run rnn in.safetensors num_units=2 -o fwd.safetensors
	works run rnn_backprop fwd.safetensors in.safetensors --json
	[[ $output == *'"name":"params_backprop","dtype":"f32","shape":[40],"min":0.0,"max":0.0'* ]]
	refuses "num_units|input_h|1|0" run rnn in.safetensors
	refuses "CudnnRNNV3|attribute|num_units" run CudnnRNNV3 in.safetensors num_units=2
	refuses "input_h|missing" run CudnnRNNV3 in.safetensors
	small in.safetensors ""
	refuses "sequence_lengths|missing|int32|[2]" run CudnnRNNV3 in.safetensors
	works run CudnnRNN in.safetensors
	refuses "num_units|U=2|states|3" run rnn in.safetensors num_units=3
	refuses "num_layers|L=1|input_h|2" run rnn in.safetensors num_layers=2
}

@test "the masks of dropout depend on first_step, the number of the first step of a part of a sequence" {
	case=$DATA/CudnnRNNV3-lstm-deep.safetensors
	works run rnn "$case" dropout=0.5 seed=1 -o whole.safetensors
	works run rnn "$case" dropout=0.5 seed=1 first_step=0 --expect whole.safetensors --rtol 0
	run -1 "$CELLGRAD" run rnn "$case" dropout=0.5 seed=1 first_step=5 --expect whole.safetensors
	refuses "first_step|bidirectional|network|sequences" \
		run rnn "$DATA/CudnnRNNV3-lstm-ragged.safetensors" first_step=5
	refuses "first_step|0|-1" run rnn "$case" first_step=-1
	refuses "first_step|0|2^32-1-T" run rnn "$case" first_step=4294967295
}

# ---- TensorFlow's rules ----

@test "wrong ranks, shapes and dtypes of inputs of CudnnRNN are refused" {
	wrong() {
		small all.safetensors ""
		tensors first.safetensors "" "$1"
		without all.safetensors "${1%%:*}" > in.safetensors
		keeps "$2" run CudnnRNN first.safetensors in.safetensors
	}
	wrong input:F32:3,2 "rnn_v1|input|[T, B=2, I]|[3, 2]"
	wrong input_h:F32:2,2 "rnn_v1|input_h|[L*D=1, B=2, H]|[2, 2]"
	wrong input_h:F32:1,3,2 "rnn_v1|input_h|[L*D=1, B=2, H]|[1, 3, 2]"
	wrong input_c:F32:2,2,2 "rnn_v1|input_c|[L*D=1, B=2, U]|[2, 2, 2]"
	wrong input_c:F32:1,2,3 "rnn_v1|input_c|input_h|H=2|projection|U=3"
	wrong params:F32:5,8 "rnn_v1|params|[params]|[5, 8]"
	wrong params:F32:39 "rnn_v1|params|[params=40]|[39]"
	wrong input:F32:3,2,0 "rnn_v1|I|1|0"
	wrong input_h:F32:0,2,2 "input_c|[L*D=0, B=2, U]|[1, 2, 2]"
	wrong input_h:I32:1,2,2 "input_h|F16|BF16|F32|F64|I32"
	wrong params:F64:40 "dtype|params|f64|f32"
	tensors gru.safetensors "" input:F32:1,1,300 input_h:F32:1,1,76 params:F32:100
	keeps "rnn|params|[params=86184]|[100]" run rnn gru.safetensors rnn_mode=gru
	tensors none.safetensors "" input:F32:3,2,1 input_h:F32:0,2,2 params:F32:40
	keeps "rnn|input_h|L*D|1|0" run rnn none.safetensors
}

@test "wrong shapes of inputs of CudnnRNNBackprop are refused" {
	wrong() {
		small all.safetensors ""
		tensors first.safetensors "" "$1"
		without all.safetensors "${1%%:*}" > in.safetensors
		keeps "$2" run CudnnRNNBackprop first.safetensors in.safetensors
	}
	for name in output output_backprop; do
		wrong $name:F32:3,2,3 "rnn_backprop_v1|$name|[T=3, B=2, D*H=2]|[3, 2, 3]"
		wrong $name:F32:2,2,2 "rnn_backprop_v1|$name|[T=3, B=2, D*H]|[2, 2, 2]"
	done
	for name in output_h output_h_backprop; do
		wrong $name:F32:2,2,2 "rnn_backprop_v1|$name|[L*D=1, B=2, H=2]|[2, 2, 2]"
	done
	for name in output_c output_c_backprop; do
		wrong $name:F32:1,2,3 "rnn_backprop_v1|$name|[L*D=1, B=2, U=2]|[1, 2, 3]"
	done
	wrong reserve_space:F32:7 "rnn_backprop_v1|reserve_space|reserve="
	tensors some.safetensors "" input:F32:3,2,1 input_h:F32:1,2,2 input_c:F32:1,2,2 params:F32:40
	refuses "output_backprop|missing" run CudnnRNNBackprop some.safetensors
}

@test "wrong projections, modes and values of attributes are refused" {
	small in.safetensors ""
	keeps "rnn|num_proj|2|dimension|input_h|1" run rnn in.safetensors num_proj=1
	tensors wide.safetensors "" input:F32:3,2,1 input_h:F32:1,2,3 input_c:F32:1,2,2 params:F32:40
	keeps "rnn|num_proj|U=2|dimension|input_c|3" run rnn wide.safetensors num_proj=3
	keeps "rnn|num_proj|cell|gru|state|0|2" run rnn in.safetensors num_proj=2 rnn_mode=gru
	keeps "num_proj|0|-1" run rnn in.safetensors num_proj=-1
	keeps "rnn|input_h|multiple|2|L*D|bidirectional|network|1" run rnn in.safetensors direction=bidirectional
	keeps "rnn|input_mode|skip_input|I|U|equal|I=1|U=2" run rnn in.safetensors input_mode=skip_input
	for dropout in -0.1 1.1 inf; do
		keeps "rnn|dropout|0|1|$dropout" run rnn in.safetensors dropout=$dropout
	done
	keeps 'dropout|number|nan' run rnn in.safetensors dropout=nan
	keeps "seed2|-2147483648|2147483647|2147483648" run rnn in.safetensors seed2=2147483648
	keeps 'rnn_mode|lstn|lstm' run rnn in.safetensors rnn_mode=lstn
	keeps 'input_mode|skip_inputs|skip_input' run rnn in.safetensors input_mode=skip_inputs
	keeps 'direction|unidirectional|bidirectional|both' run rnn in.safetensors direction=both
	keeps "is_training|true|false" run rnn in.safetensors is_training=maybe
}

@test "wrong sequence_lengths are refused" {
	small in.safetensors ""
	for bad in "4 1" "1 4" "-1 1" "1 -1"; do
		lengths l.safetensors $bad
		value=$(echo "$bad" | tr ' ' '\n' | grep -v '^1$')
		keeps "0|T=3|$value" run CudnnRNNV3 l.safetensors in.safetensors
		keeps "0|T=3|$value" run CudnnRNNBackpropV3 l.safetensors in.safetensors
	done
	lengths l.safetensors 1 2 3
	keeps "l.safetensors|rnn|sequence_lengths|[B=2]|[3]" run CudnnRNNV3 l.safetensors in.safetensors
	tensors l.safetensors "" sequence_lengths:I64:2
	keeps "sequence_lengths|I32|I64" run CudnnRNNV3 l.safetensors in.safetensors
	tensors l.safetensors "" sequence_lengths:F32:2
	keeps "sequence_lengths|I32|F32" run CudnnRNNV3 l.safetensors in.safetensors
}

@test "batch-major shapes have their first two dimensions exchanged" {
	case=$DATA/CudnnRNNV3-lstm-batch-major.safetensors
	works run CudnnRNNV3 "$case"
	keeps "rnn|sequence_lengths|[B=4]|[3]" run CudnnRNNV3 "$case" time_major=true
	tensors h.safetensors "" input_h:F64:4,3,3
	without "$case" input_h > rest.safetensors
	keeps "rnn|input_h|[B=3, L*D=4, H]|[4, 3, 3]|input|[3, 4, 2]" run CudnnRNNV3 h.safetensors rest.safetensors
	tensors in.safetensors "" input:F32:2,3,1
	refuses "input_h|missing|f32|[B, L*D, H]" run CudnnRNNV3 in.safetensors time_major=false
}

@test "sizes beyond any memory are refused" {
	tensors in.safetensors "" input:F32:0,0,4611686018427387904 input_h:F32:1,0,4611686018427387904 \
		input_c:F32:1,0,4611686018427387904 params:F32:0
	keeps "params|bytes" run CudnnRNN in.safetensors
	tensors in.safetensors "" input:F32:0,0,1 input_h:F32:1099511627776,0,1 input_c:F32:1099511627776,0,1 params:F32:0
	keeps "input_h|1073741823|layers|1099511627776" run CudnnRNN in.safetensors
}

@test "networks run in f16, bf16 and f64" {
	for dtype in F16 BF16 F64; do
		tensors in.safetensors "" input:$dtype:3,2,1 input_h:$dtype:1,2,2 input_c:$dtype:1,2,2 params:$dtype:40 \
			output_backprop:$dtype:3,2,2 output_h_backprop:$dtype:1,2,2 output_c_backprop:$dtype:1,2,2
		works run CudnnRNN in.safetensors -o fwd.safetensors
		works run CudnnRNNBackprop fwd.safetensors in.safetensors -o grad.safetensors
		small single.safetensors ""
		works run CudnnRNNBackprop single.safetensors --expect grad.safetensors --rtol 0.05 --atol 0.05
		works run CudnnRNNBackprop in.safetensors T=${dtype/F/f}
	done
}

@test "a cell without recurrence, because an option is off, gives a warning, and a message about params names the option" {
	export CELLGRAD_BACKEND=cpu
	cat > indrnn.cell <<-'END'
		cell indrnn
		gates  a
		output h
		option ind u
		h = relu(a + u * h_prev)
		save h
	END
	for n in 55 60 61; do
		tensors $n.safetensors "" input:F32:6,2,4 params:F32:$n
	done
	run -0 --separate-stderr "$CELLGRAD" run rnn cell=./indrnn.cell num_units=5 55.safetensors -o out.safetensors
	[ "${#stderr_lines[@]}" -eq 1 ]
	[[ $stderr == "cellgrad run: "*indrnn*h_prev*"options=ind" ]]
	works run rnn cell=./indrnn.cell num_units=5 options=ind 60.safetensors -o out.safetensors
	refuses "params|55|60|options=ind" run rnn cell=./indrnn.cell num_units=5 60.safetensors
	refuses "params|60|55|options" run rnn cell=./indrnn.cell num_units=5 options=ind 55.safetensors
	refuses "params|55|61" run rnn cell=./indrnn.cell num_units=5 61.safetensors
	[[ $stderr != *options=* ]]
	run -0 --separate-stderr "$CELLGRAD" bench --op rnn cell=./indrnn.cell --T 2 --B 1,2 --I 4 --H 5 --reps 1
	[ "${#stderr_lines[@]}" -eq 1 ]
	[[ $stderr == "cellgrad bench: "*indrnn*h_prev*"options=ind" ]]
	works bench --op rnn cell=./indrnn.cell options=ind --T 2 --B 1 --I 4 --H 5 --reps 1
}
