# SPDX-License-Identifier: Apache-2.0
# Tests converted weights of PyTorch, Keras, TensorFlow and ONNX: cellgrad's answers equal those of the program that owns the format, with
# the same weights. tests/data/README.md describes the cases in tests/data/owners.

load files

alike=$(dirname "$CELLGRAD")/tests/command/alike
# The cases that run on opencl and cuda: at least one of each format but block_v2, and not all, since a process with OpenCL is slow.
some='pytorch-lstm-proj keras-lstm-deep keras-gru_before-deep block-lstm-peephole block-gru-deep checkpoint-gru-deep onnx-lstm-peephole'

# case_of RUN: sets, from the path of a case's file, $case, the name of the case; $format; $file, the beginning of the names of the case's
# files; and $prefix, the beginning of the names of the weights
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

# ours [WORD...]: converts the weights of the case to format cellgrad, in params.safetensors
ours() {
	works convert --from "$format" --to cellgrad ${prefix:+--from-prefix "$prefix"} "$file.weights.safetensors" params.safetensors "$@"
}

# sizes: prints the sizes of the network in params.safetensors as arguments, since a file that `cellgrad run` writes has sizes of 0, which
# stand for the sizes of the tensors
sizes() {
	metadata params.safetensors | grep -E '^(num_layers|num_units|input_size):' | tr : =
}

alike() {
	"$alike" "$@" 20
}

# gradients: checks the gradients of the inputs, and those of the weights under the names of the format
gradients() {
	local words

	works run rnn_backprop "$run" params.safetensors fwd.safetensors -o bwd.safetensors --expect "$run"
	[[ $output == *input_backprop*ok*input_h_backprop*ok* && $output != *MISMATCH* ]]
	mapfile -t words < <(sizes)
	works convert --gradients --from cellgrad --to "$format" ${prefix:+--to-prefix "$prefix"} --ignore-extra \
		bwd.safetensors back.safetensors "${words[@]}"
	if [[ $case == *-nobias ]]; then
		# A network of cellgrad always has biases, here of 0, so its gradients have tensors of biases that the case lacks.
		run -1 alike back.safetensors "$file.gradients.safetensors"
		run -1 grep -v 'bias.*: not expected$' <<< "$output"
	elif [[ $case == *-part ]]; then
		# The model of the case pytorch-lstm-part has another module, `head`, whose tensors are not converted.
		run -1 alike back.safetensors "$file.gradients.safetensors"
		run -1 grep -v '^head\..*: missing$' <<< "$output"
	else
		alike back.safetensors "$file.gradients.safetensors"
	fi
}

# answers PATTERN...: checks that the cases with these names give the stored answers and, except those of onnx, the stored gradients
answers() {
	for pattern; do
		for run in "$DATA"/owners/$pattern.run.safetensors; do
			case_of "$run"
			ours
			works run rnn "$run" params.safetensors -o fwd.safetensors --expect "$run"
			[[ $output == *output*ok* && $output != *MISMATCH* ]]
			# The cases of ONNX have no stored gradients.
			[ "$format" = onnx ] || gradients
		done
	done
}

@test "PyTorch's weights give PyTorch's answers and gradients" {
	on cpu
	answers 'pytorch-*'
}

@test "Keras's weights give Keras's answers and gradients" {
	on cpu
	answers 'keras-*'
}

@test "weights of TensorFlow's block ops give TensorFlow's answers and gradients" {
	on cpu
	answers 'block-*' 'block_v2-*'
}

@test "weights of TensorFlow's cuDNN-compatible checkpoints give TensorFlow's answers and gradients" {
	on cpu
	answers 'checkpoint-*'
}

@test "ONNX's weights give ONNX Runtime's answers" {
	on cpu
	answers 'onnx-*'
}

@test "every stored case has a format that this file tests" {
	formats=$(cd "$DATA"/owners && printf '%s\n' *.run.safetensors | sed 's/-.*//' | sort -u | tr '\n' ' ')
	[ "$formats" = "block block_v2 checkpoint keras onnx pytorch " ]
}

@test "some cases of each format but block_v2 give the stored answers and, except of onnx, gradients on opencl" {
	on opencl
	answers $some
}

@test "some cases of each format but block_v2 give the stored answers and, except of onnx, gradients on cuda" {
	on cuda
	answers $some
}

# ---- wrong weights are noticed ----

# differs [WORD...]: checks that params.safetensors is refused, and that with --ignore-metadata the answers are not the stored ones
differs() {
	refuses "cell: " run rnn "$run" params.safetensors
	run -1 "$CELLGRAD" run rnn "$run" params.safetensors --ignore-metadata "$@" --expect "$run"
	[[ $output == *MISMATCH* ]]
}

@test "weights that are read in a wrong format, or as those of another GRU, give a mismatch" {
	# The weights of BlockLSTMV2 have the names and shapes of those of BlockLSTM, but the order of the gates is i f c o, not i c f o.
	run=$DATA/owners/block_v2-lstm-plain.run.safetensors
	case_of "$run"
	format=block ours forget_bias=0 cell_clip=0
	differs cell=lstm_block values=forget_bias=0,cell_clip=0
	run=$DATA/owners/onnx-gru_before-plain.run.safetensors
	case_of "$run"
	ours linear_before_reset=1 --ignore-metadata
	differs cell=gru
}

@test "the program alike, which compares gradients, reports wrong ones by name" {
	file=$DATA/owners/keras-lstm-plain
	alike "$file.gradients.safetensors" "$file.gradients.safetensors"
	run -1 alike "$file.weights.safetensors" "$file.gradients.safetensors"
	[[ $output == *sequential/lstm/lstm_cell/bias:\ element*expected* ]]
	run -1 alike "$file.gradients.safetensors" "${file/plain/deep}.gradients.safetensors"
	[[ $output == *sequential/bidirectional/forward_lstm/lstm_cell/bias:\ missing*sequential/lstm/lstm_cell/bias:\ not\ expected* ]]
	run -1 alike "$DATA"/owners/keras-gru-plain.gradients.safetensors "$DATA"/owners/keras-gru_before-plain.gradients.safetensors
	[[ $output == *"sequential/gru/gru_cell/bias: another dtype or shape"* ]]
}
