# SPDX-License-Identifier: Apache-2.0
# Tests the metadata of files: whether the command line, a file or a default determines an attribute, and which contradictions are refused.
# orders_test tries all orders of files with all ops.

load files

# block FILE METADATA [SPEC...]: writes weights of TensorFlow's block LSTM with I = 3, U = 4, which differ from gate to gate
block() {
	tensors "$1" "$2" w:F32:7,16 b:F32:16 "${@:3}"
	for k in 0 20 40 60 80 100; do
		poke "$1" w $k '\x00\x00\x80\xbf'
	done
}

# input: writes input.safetensors, the input of an LSTM with T = 2, B = 2, and its initial states
input() {
	tensors input.safetensors "" input:F32:2,2,3 input_h:F32:1,2,4 input_c:F32:1,2,4
}

# says FACT...: checks that the message has all of the facts
says() {
	local fact

	for fact; do
		[[ $stderr == *"$fact"* ]]
	done
}

# either COMMAND WORD... -- FILE FILE: runs a command with the two files in both orders
either() {
	local words=()

	while [ "$1" != -- ]; do
		words+=("$1")
		shift
	done
	"${words[@]}" "$2" "$3"
	"${words[@]}" "$3" "$2"
}

@test "weights of another cell are refused, with the two files in both orders" {
	export CELLGRAD_BACKEND=cpu
	block blk.safetensors ""
	input
	works convert --from block --to cellgrad blk.safetensors params.safetensors
	works run rnn params.safetensors input.safetensors -o right.safetensors
	works run rnn input.safetensors params.safetensors --expect right.safetensors --rtol 0
	# CudnnRNN computes the cell lstm, whose weights have the same sizes as those of lstm_block, and refuses a file of lstm_block.
	for op in CudnnRNN CudnnRNNV2; do
		either refuses cell run $op -- input.safetensors params.safetensors
		says "params.safetensors says lstm_block" "lstm or gru" --ignore-metadata
	done
	either refuses cell run rnn cell=lstm -- input.safetensors params.safetensors
	says "the command line says lstm" "params.safetensors says lstm_block"
	either refuses cell run rnn rnn_mode=lstm -- input.safetensors params.safetensors
	# With --ignore-metadata the op's own cell, or the cell of an argument, is taken.
	either works run CudnnRNNV2 --ignore-metadata -- input.safetensors params.safetensors
	run -1 "$CELLGRAD" run rnn --ignore-metadata input.safetensors params.safetensors --expect right.safetensors
	works run rnn --ignore-metadata cell=lstm_block input.safetensors params.safetensors --expect right.safetensors --rtol 0
	tensors gru.safetensors '{"cell":"gru_block"}' input:F32:2,2,3 input_h:F32:1,2,4 params:F32:108
	refuses "gru_block" run CudnnRNNV2 gru.safetensors
	refuses "gru_block" run CudnnRNNV2 gru.safetensors rnn_mode=gru
	# If the cell in the file's metadata is a value of the op's rnn_mode, the op takes it as rnn_mode.
	tensors gru.safetensors '{"cell":"gru"}' input:F32:2,2,3 input_h:F32:1,2,4 params:F32:108
	works run CudnnRNNV2 gru.safetensors -o out.safetensors
	metadata out.safetensors | grep -qx rnn_mode:gru
}

@test "a backward op takes the OUT of its forward op, with the two files in both orders, for a GRU and for a cell file" {
	export CELLGRAD_BACKEND=cpu
	tensors net.safetensors "" input:F32:2,2,3 input_h:F32:1,2,4 params:F32:108 output_backprop:F32:2,2,4 output_h_backprop:F32:1,2,4
	for V in "" V2; do
		works run CudnnRNN$V rnn_mode=gru net.safetensors -o forward.safetensors
		either works run CudnnRNNBackprop$V -- net.safetensors forward.safetensors
	done
	printf 'cell cifg\ngates a_f a_g a_o\nstate c\noutput h\nf = sigmoid(a_f)\nc = f * c_prev + (1 - f) * tanh(a_g)\nh = sigmoid(a_o) * tanh(c)\nsave f c h\n' > cifg.cell
	tensors net.safetensors "" input:F32:2,2,3 params:F32:108 output_backprop:F32:2,2,4
	works run rnn cell=./cifg.cell num_units=4 num_layers=1 net.safetensors -o forward.safetensors
	metadata forward.safetensors > said
	grep -qx cell:./cifg.cell said
	grep -Eqx 'cell_digest:[0-9a-f]{16}' said
	run -1 grep rnn_mode said
	either works run rnn_backprop -- net.safetensors forward.safetensors
	either refuses cell run CudnnRNNBackpropV3 -- net.safetensors forward.safetensors
	says "forward.safetensors says ./cifg.cell"
}

@test "a user's cell is identified by its equations, and not by comments or by the path of its file" {
	export CELLGRAD_BACKEND=cpu
	mine() { printf 'cell mine\ngates a_x a_y # gates\noutput h\nparam k = 1\nh = tanh(a_x) * k %s sigmoid(a_y)\nsave h\n' "$1"; }
	mine + > mine.cell
	tensors net.safetensors "" input:F32:2,2,3 params:F32:72 output_backprop:F32:2,2,4
	works run rnn cell=mine.cell num_units=4 net.safetensors -o forward.safetensors
	works run rnn_backprop net.safetensors forward.safetensors -o right.safetensors
	mine + | sed 's/ #.*//; s/  */ /g; 1i # new' > mine.cell
	works run rnn_backprop net.safetensors forward.safetensors --expect right.safetensors --rtol 0
	mkdir -p far
	cd far
	either refuses mine.cell run rnn_backprop -- ../net.safetensors ../forward.safetensors
	says ../forward.safetensors "No such file" cell=PATH --ignore-metadata
	mine + > yours.cell
	works run rnn_backprop cell=yours.cell ../net.safetensors ../forward.safetensors --expect ../right.safetensors --rtol 0
	mine - > yours.cell
	refuses "yours.cell" run rnn_backprop cell=yours.cell ../net.safetensors ../forward.safetensors
	says "../forward.safetensors says mine.cell" --ignore-metadata
	mine - > mine.cell
	refuses "mine.cell" run rnn_backprop ../net.safetensors ../forward.safetensors
	says "not the one" ../forward.safetensors "$(metadata ../forward.safetensors | sed -n 's/cell_digest://p')" cell=PATH --ignore-metadata
	refuses "two cells|mine.cell" run rnn_backprop cell=mine.cell ../net.safetensors ../forward.safetensors
	cd ..
	# forward.safetensors and say.safetensors name two cell files with the same equations.
	mine + > far/mine.cell
	works run rnn cell=far/mine.cell num_units=4 net.safetensors -o other.safetensors
	without other.safetensors output output_h reserve_space > say.safetensors
	either works run rnn_backprop net.safetensors -- forward.safetensors say.safetensors
	rm mine.cell
	either works run rnn_backprop net.safetensors -- forward.safetensors say.safetensors
	# A file that names a built-in cell is refused if its cell_digest is not the digest of that cell.
	tensors gru.safetensors '{"rnn_mode":"gru","cell_digest":"0123456789abcdef"}' input:F32:2,2,3 input_h:F32:1,2,4 params:F32:108
	refuses "0123456789abcdef" run rnn gru.safetensors
	tensors gru.safetensors '{"rnn_mode":"gru","cell_digest":"0123456789ABCDEF"}' input:F32:2,2,3 input_h:F32:1,2,4 params:F32:108
	refuses "gru.safetensors|__metadata__|cell_digest" run rnn gru.safetensors
}

@test "files of version 0.1.0 have no digest of the cell, and the cell file at their path is taken" {
	export CELLGRAD_BACKEND=cpu
	printf 'cell mine\ngates a_x a_y\noutput h\nh = tanh(a_x) + sigmoid(a_y)\nsave h\n' > mine.cell
	# Files of version 0.1.0 also have rnn_mode, beside cell.
	said='{"op":"rnn","rnn_mode":"lstm","cell":"./mine.cell","num_layers":"0","num_units":"4","input_size":"0","num_proj":"0"}'
	tensors old.safetensors "$said" params:F32:72
	tensors x.safetensors '{"rnn_mode":"lstm"}' input:F32:2,2,3
	either refuses cell run rnn -- x.safetensors old.safetensors
	says "old.safetensors says ./mine.cell" "x.safetensors says lstm"
	tensors x.safetensors "" input:F32:2,2,3
	either works run rnn -- x.safetensors old.safetensors
	works run rnn cell=mine.cell x.safetensors old.safetensors
	refuses "mine.cell" run rnn cell=lstm x.safetensors old.safetensors
	mv mine.cell moved.cell
	either refuses ./mine.cell run rnn -- x.safetensors old.safetensors
	says old.safetensors cell=PATH --ignore-metadata
	works run rnn cell=moved.cell x.safetensors old.safetensors
	either refuses ./mine.cell run CudnnRNNV3 -- x.safetensors old.safetensors
}

@test "options are compared as sets, values as numbers; absent options are off, absent values have the default" {
	export CELLGRAD_BACKEND=cpu
	cat > mine.cell <<-'EOF'
		cell mine
		gates  a_x a_y
		output h
		option left l
		option right r
		param  k = 1, m = 0.1
		h = tanh(a_x + l * h_prev) * k + sigmoid(a_y + r * h_prev) * m
		save h
	EOF
	tensors net.safetensors "" input:F32:2,2,3 params:F32:80
	words="cell=mine.cell num_units=4"
	works run rnn $words options=left,right values=k=2,m=0.1 net.safetensors -o said.safetensors
	for same in "options=right,left" "values=k=2" "values=m=0.10000000149,k=2e0" "options=left,right values=m=.1,k=2.0"; do
		works run rnn net.safetensors said.safetensors $same
	done
	for other in options=left values=k=1 values=m=0.1 values=k=2,m=0.2; do
		refuses "${other%%=*}" run rnn net.safetensors said.safetensors "$other"
		says "the command line" said.safetensors --ignore-metadata
	done
	# The value 0.1 rounded to f32, as convert writes it, is not equal to 0.1 in f64.
	tensors wide.safetensors '{"values":"k=2,m=0.10000000149011612"}' input:F64:2,2,3 params:F64:80
	refuses values run rnn $words options=left,right values=k=2,m=0.1 wide.safetensors
	tensors net.safetensors "" input:F32:2,2,3 params:F32:72
	run -0 --separate-stderr "$CELLGRAD" run rnn $words net.safetensors -o said.safetensors
	has h_prev options=left
	refuses "options" run rnn net.safetensors said.safetensors options=left
	refuses "values" run rnn net.safetensors said.safetensors values=k=2
	run -0 "$CELLGRAD" run rnn net.safetensors said.safetensors values=k=1 options=
	# A file whose metadata has neither cell_digest nor values does not determine the cell's values.
	LC_ALL=C sed 's/"cell_digest"/"cell_digets"/' said.safetensors > some.safetensors
	run -0 "$CELLGRAD" run rnn net.safetensors some.safetensors values=k=2
	tensors wrong.safetensors '{"cell":"mine.cell","values":"n=1"}' x:F32:1
	either refuses "n" run rnn num_units=4 -- net.safetensors wrong.safetensors
	says wrong.safetensors mine
}

@test "metadata of weights in block formats has peepholes, forget_bias, cell_clip and the order of gates" {
	export CELLGRAD_BACKEND=cpu
	block w.safetensors "" wci:F32:4 wcf:F32:4 wco:F32:4
	tensors x.safetensors "" x:F32:2,3 cs_prev:F32:2,4 h_prev:F32:2,4
	tensors xs.safetensors "" x:F32:2,2,3 cs_prev:F32:2,4 h_prev:F32:2,4
	works run LSTMBlockCell w.safetensors x.safetensors use_peephole=true forget_bias=0.5 cell_clip=-1 -o right.safetensors
	works convert --from block --to block w.safetensors said.safetensors forget_bias=0.5 cell_clip=-1
	metadata said.safetensors | grep -qx use_peephole:true
	either works run LSTMBlockCell --expect right.safetensors --rtol 0 -- said.safetensors x.safetensors
	# The metadata of files of version 0.1.0 has no use_peephole.
	LC_ALL=C sed 's/"use_peephole":"true"/"use_peepholes":"tru"/' said.safetensors > old.safetensors
	either works run LSTMBlockCell --expect right.safetensors --rtol 0 -- old.safetensors x.safetensors
	run -1 "$CELLGRAD" run LSTMBlockCell old.safetensors x.safetensors use_peephole=false --expect right.safetensors
	either refuses weights_format run BlockLSTMV2 seq_len_max=2 -- said.safetensors xs.safetensors
	says "said.safetensors says block" block_v2
	works run BlockLSTM seq_len_max=2 said.safetensors xs.safetensors
	works convert --from block_v2 --to block_v2 w.safetensors v2.safetensors
	for op in LSTMBlockCell lstm_block_cell; do
		either refuses weights_format run $op -- v2.safetensors x.safetensors
		says "v2.safetensors says block_v2"
	done
	either works run BlockLSTMV2 seq_len_max=2 -- v2.safetensors xs.safetensors
	either works run LSTMBlockCell --ignore-metadata -- v2.safetensors x.safetensors
	# BlockLSTMV2 has no forget_bias, and refuses a forget_bias of 1 in metadata.
	tensors bias.safetensors '{"forget_bias":"1"}' x:F32:2,2,3 cs_prev:F32:2,4 h_prev:F32:2,4
	either refuses forget_bias run BlockLSTMV2 seq_len_max=2 -- v2.safetensors bias.safetensors
	tensors layers.safetensors '{"num_layers":"2"}' x:F32:2,3 cs_prev:F32:2,4 h_prev:F32:2,4
	refuses num_layers run LSTMBlockCell said.safetensors layers.safetensors
	tensors sizes.safetensors '{"num_units":"5"}' x:F32:2,3 cs_prev:F32:2,4 h_prev:F32:2,4
	refuses num_units run LSTMBlockCell said.safetensors sizes.safetensors
	says "sizes.safetensors says 5" 4
	# CudnnRNNCanonicalToParams refuses metadata that says format cellgrad: the op takes lists, and format cellgrad is one buffer.
	works convert --from block --to cellgrad said.safetensors params.safetensors
	tensors small.safetensors '{"weights_format":"cellgrad","rnn_mode":"rnn_tanh"}' weights_0:F32:2,1 weights_1:F32:2,2 biases_0:F32:2 biases_1:F32:2
	refuses weights_format run CudnnRNNCanonicalToParams small.safetensors num_layers=1 num_units=2 input_size=1 num_params=2
}

@test "NAME=VALUE overrides metadata about attributes that a call may choose, and no others" {
	export CELLGRAD_BACKEND=cpu
	tensors one.safetensors '{"dropout":"0.5","seed":"1","direction":"unidirectional","is_training":"true","time_major":"True"}' params:F32:144
	tensors two.safetensors '{"dropout":"0.5","seed":"1.0"}' input:F32:2,2,3 input_h:F32:1,2,4 input_c:F32:1,2,4
	refuses "two.safetensors|__metadata__|seed" run CudnnRNNV2 one.safetensors two.safetensors
	tensors two.safetensors '{"dropout":"5e-1","seed":"01","is_training":"1","time_major":"1"}' input:F32:2,2,3 input_h:F32:1,2,4 input_c:F32:1,2,4
	either works run CudnnRNNV2 -- one.safetensors two.safetensors
	tensors two.safetensors '{"dropout":"0.25"}' input:F32:2,2,3 input_h:F32:1,2,4 input_c:F32:1,2,4
	either refuses dropout run CudnnRNNV2 -- one.safetensors two.safetensors
	says "one.safetensors says 0.5" "two.safetensors says 0.25" dropout=VALUE --ignore-metadata
	either works run CudnnRNNV2 dropout=0 -- one.safetensors two.safetensors
	either works run CudnnRNNV2 --ignore-metadata -- one.safetensors two.safetensors
	either refuses direction run CudnnRNNV2 dropout=0 direction=bidirectional -- one.safetensors two.safetensors
	says "the command line says bidirectional" "one.safetensors says unidirectional" --ignore-metadata
	# CudnnRNNV2 has no attributes time_major, num_proj and num_layers, and refuses values in metadata that contradict the op or the
	# tensors.
	tensors two.safetensors '{"time_major":"false"}' input:F32:2,2,3 input_h:F32:1,2,4 input_c:F32:1,2,4
	either refuses time_major run CudnnRNNV2 -- one.safetensors two.safetensors
	tensors two.safetensors '{"num_proj":"3"}' input:F32:2,2,3 input_h:F32:1,2,4 input_c:F32:1,2,4
	either refuses num_proj run CudnnRNNV2 -- one.safetensors two.safetensors
	tensors two.safetensors '{"num_layers":"2","num_units":"4"}' input:F32:2,2,3 input_h:F32:1,2,4 input_c:F32:1,2,4
	either refuses num_layers run CudnnRNNV2 -- one.safetensors two.safetensors
	either refuses num_layers run rnn -- one.safetensors two.safetensors
	says "two.safetensors says 2" "tensors have 1"
}

@test "hostile options, values, cells and sizes in metadata are refused, and a message does not have a long value whole" {
	export CELLGRAD_BACKEND=cpu
	long=$(printf 'peephole,%.0s' {1..20000})
	tensors in.safetensors '{"rnn_mode":"lstm","options":"'"$long"'"}' input:F32:2,2,3 params:F32:144
	refuses "options" run rnn num_units=4 in.safetensors
	[ "${#stderr}" -lt 1000 ]
	tensors in.safetensors '{"rnn_mode":"lstm","values":"'"${long//peephole/k=1}"'"}' input:F32:2,2,3 params:F32:144
	refuses "values" run rnn num_units=4 in.safetensors
	[ "${#stderr}" -lt 1000 ]
	for cell in /dev/zero /etc .cell ./ // ../../../../etc/passwd "$PWD"; do
		tensors in.safetensors '{"cell":"'"$cell"'"}' input:F32:2,2,3 params:F32:144
		run -2 --separate-stderr "$CELLGRAD" run rnn num_units=4 in.safetensors
		says in.safetensors
	done
	tensors in.safetensors '{"cell":"\u001b[31m","cell_digest":"0000000000000000"}' input:F32:2,2,3 params:F32:144
	refuses '\x1b[31m' run rnn num_units=4 in.safetensors
	refuses '\x1b[31m' run rnn num_units=4 rnn_mode=lstm in.safetensors
	tensors in.safetensors '{"direction":"\u001b[31m","cell":"","rnn_mode":"lstm"}' input:F32:2,2,3 params:F32:144
	refuses '\x1b[31m' run rnn num_units=4 in.safetensors
	works run rnn num_units=4 in.safetensors --ignore-metadata
	tensors in.safetensors '{"dropout":"'"$(printf '%05000d' 0)"'"}' input:F32:2,2,3 params:F32:144
	works run rnn num_units=4 in.safetensors
	tensors in.safetensors '{"num_units":"99999999999999999999"}' input:F32:2,2,3 params:F32:144
	refuses num_units run rnn in.safetensors
	block w.safetensors '{"cell":"lstm_block","values":"forget_bias='"$(printf '%0100d' 0)"',cell_clip=1"}'
	tensors x.safetensors "" x:F32:2,3 cs_prev:F32:2,4 h_prev:F32:2,4
	refuses "w.safetensors|__metadata__|forget_bias" run LSTMBlockCell w.safetensors x.safetensors
}

@test "convert refuses arguments that contradict metadata about the network; forget_bias may differ; --ignore-metadata drops the metadata" {
	block w.safetensors ""
	works convert --from block --to cellgrad w.safetensors params.safetensors
	for other in cell=lstm rnn_mode=lstm options=peephole values=forget_bias=0 num_layers=2 num_units=5 input_size=4 num_proj=2 \
		direction=bidirectional input_mode=skip_input; do
		name=${other%%=*}
		refuses "${name/rnn_mode/cell}" convert --from cellgrad --to canonical params.safetensors out.safetensors $other
		says "the command line says" "params.safetensors says" --ignore-metadata
	done
	for same in cell=lstm_block options= values=forget_bias=1,cell_clip=3.0 num_layers=1 num_units=4 input_size=3 num_proj=0; do
		works convert --from cellgrad --to canonical params.safetensors out.safetensors $same
	done
	works convert --from cellgrad --to canonical params.safetensors out.safetensors --ignore-metadata rnn_mode=lstm num_units=4 input_size=3
	metadata out.safetensors | grep -qx rnn_mode:lstm
	refuses "network|metadata" convert --from cellgrad --to canonical params.safetensors out.safetensors --ignore-metadata
	# forget_bias is an attribute that a call may choose, linear_before_reset is not.
	works convert --from block --to block w.safetensors said.safetensors
	works convert --from block --to block said.safetensors out.safetensors forget_bias=0.5
	metadata out.safetensors | grep -qx forget_bias:0.5
	tensors gru.safetensors '{"cell":"gru","linear_before_reset":"1"}' W:F32:1,15,3 R:F32:1,15,5 B:F32:1,30
	refuses linear_before_reset convert --from onnx --to cellgrad gru.safetensors out.safetensors linear_before_reset=0
	tensors gru.safetensors '{"rnn_mode":"gru"}' W:F32:1,15,3 R:F32:1,15,5 B:F32:1,30
	refuses linear_before_reset convert --from onnx --to cellgrad gru.safetensors out.safetensors linear_before_reset=0
}
