# SPDX-License-Identifier: Apache-2.0
# Converted weights of PyTorch, Keras, TensorFlow and ONNX: the library's answers equal those of the owner on the same weights.
# tests/data/README.md describes the cases in tests/data/owners.

load files

alike=$(dirname "$CELLGRAD")/tests/command/alike
# Some of each format on other devices, since each process with OpenCL takes its time.
some='pytorch-lstm-proj keras-lstm-deep keras-gru_before-deep block-lstm-peephole block-gru-deep checkpoint-gru-deep onnx-lstm-peephole'

# case_of RUN: sets the case's name, its format, the beginning of its file names, and the prefix of its weights' names
case_of() {
	case=${1##*/}
	case=${case%.run.safetensors}
	format=${case%%-*}
	file=$DATA/owners/$case
	case $case in
	pytorch-lstm-part) prefix=encoder.rnn. ;;
	keras-*)           prefix=sequential/ ;;
	checkpoint-lstm-*) prefix=cudnn_lstm/ ;;
	checkpoint-gru-*)  prefix=cudnn_gru/ ;;
	checkpoint-tanh-*) prefix=cudnn_rnn_tanh/ ;;
	*)                 prefix= ;;
	esac
}

# ours [WORD...]: converts the case's weights
ours() {
	works convert --from "$format" --to cellgrad ${prefix:+--from-prefix "$prefix"} "$file.weights.safetensors" params.safetensors "$@"
}

# The sizes of the network in params.safetensors as arguments: in a run's metadata they are 0, which means: as in the tensors.
sizes() {
	metadata params.safetensors | grep -E '^(num_layers|num_units|input_size):' | tr : =
}

alike() {
	"$alike" "$@" 20
}

# gradients: of the inputs, and of the weights under their owner's names
gradients() {
	local words

	works run rnn_backprop "$run" params.safetensors fwd.safetensors -o bwd.safetensors --expect "$run"
	[[ $output == *input_backprop*ok*input_h_backprop*ok* && $output != *MISMATCH* ]]
	mapfile -t words < <(sizes)
	works convert --gradients --from cellgrad --to "$format" ${prefix:+--to-prefix "$prefix"} --ignore-extra \
		bwd.safetensors back.safetensors "${words[@]}"
	if [[ $case == *-nobias ]]; then
		# The library's network has biases, perhaps of 0, and therefore gradients of biases.
		run -1 alike back.safetensors "$file.gradients.safetensors"
		run -1 grep -v 'bias.*: not expected$' <<< "$output"
	elif [[ $case == *-part ]]; then
		# The model has other tensors that are not the network's.
		run -1 alike back.safetensors "$file.gradients.safetensors"
		run -1 grep -v '^head\..*: missing$' <<< "$output"
	else
		alike back.safetensors "$file.gradients.safetensors"
	fi
}

# answers PATTERN...: the cases with these names give their owner's answers
answers() {
	for pattern; do
		for run in "$DATA"/owners/$pattern.run.safetensors; do
			case_of "$run"
			ours
			works run rnn "$run" params.safetensors -o fwd.safetensors --expect "$run"
			[[ $output == *output*ok* && $output != *MISMATCH* ]]
			# ONNX has no gradients.
			[ "$format" = onnx ] || gradients
		done
	done
}

@test "PyTorch's weights: answers and gradients" {
	on cpu
	answers 'pytorch-*'
}

@test "Keras's weights: answers and gradients" {
	on cpu
	answers 'keras-*'
}

@test "weights of TensorFlow's block ops: answers and gradients" {
	on cpu
	answers 'block-*' 'block_v2-*'
}

@test "weights of TensorFlow's cuDNN-compatible checkpoints: answers and gradients" {
	on cpu
	answers 'checkpoint-*'
}

@test "ONNX's weights: answers" {
	on cpu
	answers 'onnx-*'
}

@test "every case is of a format that is tested here" {
	formats=$(cd "$DATA"/owners && printf '%s\n' *.run.safetensors | sed 's/-.*//' | sort -u | tr '\n' ' ')
	[ "$formats" = "block block_v2 checkpoint keras onnx pytorch " ]
}

@test "answers and gradients of some of each format: opencl" {
	on opencl
	answers $some
}

@test "answers and gradients of some of each format: cuda" {
	on cuda
	answers $some
}

# ---- wrong weights are noticed ----

# differs [WORD...]: the answers with params.safetensors are not the owner's
differs() {
	refuses "cell: " run rnn "$run" params.safetensors
	run -1 "$CELLGRAD" run rnn "$run" params.safetensors --ignore-metadata "$@" --expect "$run"
	[[ $output == *MISMATCH* ]]
}

@test "weights read as another format's, or another GRU's, are a mismatch" {
	# Weights of BlockLSTMV2 have the names and shapes of BlockLSTM's; only the order of the gates differs: i f c o, not i c f o.
	run=$DATA/owners/block_v2-lstm-plain.run.safetensors
	case_of "$run"
	format=block ours forget_bias=0 cell_clip=0
	differs cell=lstm_block values=forget_bias=0,cell_clip=0
	run=$DATA/owners/onnx-gru_before-plain.run.safetensors
	case_of "$run"
	ours linear_before_reset=1 --ignore-metadata
	differs cell=gru
}

@test "wrong gradients are noticed, and named" {
	file=$DATA/owners/keras-lstm-plain
	alike "$file.gradients.safetensors" "$file.gradients.safetensors"
	run -1 alike "$file.weights.safetensors" "$file.gradients.safetensors"
	[[ $output == *sequential/lstm/lstm_cell/bias:\ element*expected* ]]
	run -1 alike "$file.gradients.safetensors" "${file/plain/deep}.gradients.safetensors"
	[[ $output == *sequential/bidirectional/forward_lstm/lstm_cell/bias:\ missing*sequential/lstm/lstm_cell/bias:\ not\ expected* ]]
	run -1 alike "$DATA"/owners/keras-gru-plain.gradients.safetensors "$DATA"/owners/keras-gru_before-plain.gradients.safetensors
	[[ $output == *"sequential/gru/gru_cell/bias: another dtype or shape"* ]]
}
