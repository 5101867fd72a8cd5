# SPDX-License-Identifier: Apache-2.0
# Tests `cellgrad convert`: it recognises the network in a file, reports numbers that OUT would lose, and refuses wrong arguments and
# files. formats.py tests that each number of IN is at its right place in OUT.

load files

# torch FILE METADATA [PREFIX [DTYPE]]: writes PyTorch's tensors of an LSTM of 2 layers and 2 directions, with I = 3 and U = 5
torch() {
	local p=${3-} d=${4-F32}

	tensors "$1" "$2" "$p"weight_ih_l0:"$d":20,3 "$p"weight_hh_l0:"$d":20,5 "$p"bias_ih_l0:"$d":20 "$p"bias_hh_l0:"$d":20 \
		"$p"weight_ih_l0_reverse:"$d":20,3 "$p"weight_hh_l0_reverse:"$d":20,5 "$p"bias_ih_l0_reverse:"$d":20 "$p"bias_hh_l0_reverse:"$d":20 \
		"$p"weight_ih_l1:"$d":20,10 "$p"weight_hh_l1:"$d":20,5 "$p"bias_ih_l1:"$d":20 "$p"bias_hh_l1:"$d":20 \
		"$p"weight_ih_l1_reverse:"$d":20,10 "$p"weight_hh_l1_reverse:"$d":20,5 "$p"bias_ih_l1_reverse:"$d":20 "$p"bias_hh_l1_reverse:"$d":20
}

# one FILE NAME:SHAPE...: writes PyTorch's tensors of an LSTM of one layer; the named tensors have this SHAPE, and SHAPE none leaves a
# tensor out
one() {
	local file=$1 specs="" spec

	shift
	for spec in weight_ih_l0:20,3 weight_hh_l0:20,5 bias_ih_l0:20 bias_hh_l0:20; do
		for other; do
			[[ ${other%%:*} != "${spec%%:*}" ]] || spec=$other
		done
		[[ $spec == *:none ]] || specs+=" ${spec/:/:F32:}"
	done
	# shellcheck disable=SC2086 # a list
	tensors "$file" "" $specs
}

# pytorch WORDS: converts the file "in", of format pytorch, to the file "out", of format cellgrad, with WORDS as further arguments
pytorch() {
	works convert --from pytorch --to cellgrad in out "$@"
}

@test "a network in format pytorch is recognised by its tensors and, if it is a simple RNN, by rnn_mode" {
	torch in ""
	pytorch
	[ "$output" = "lstm, num_layers=2, bidirectional, input_size=3, num_units=5, f32: 16 tensors of format pytorch converted to 1 of format cellgrad" ]
	one in
	pytorch
	[[ $output == "lstm, num_layers=1, unidirectional, input_size=3, num_units=5, f32: 4 "* ]]
	tensors in "" weight_ih_l0:F64:15,3 weight_hh_l0:F64:15,5 bias_ih_l0:F64:15 bias_hh_l0:F64:15
	pytorch
	[[ $output == "gru, num_layers=1, unidirectional, input_size=3, num_units=5, f64: 4 "* ]]
	tensors in "" weight_ih_l0:BF16:20,3 weight_hh_l0:BF16:20,2 weight_hr_l0:BF16:2,5 bias_ih_l0:BF16:20 bias_hh_l0:BF16:20
	pytorch
	[[ $output == "lstm, num_layers=1, unidirectional, input_size=3, num_units=5, num_proj=2, bf16: 5 "* ]]
	tensors in "" weight_ih_l0:F32:5,3 weight_hh_l0:F32:5,5 bias_ih_l0:F32:5 bias_hh_l0:F32:5
	pytorch rnn_mode=rnn_relu
	[[ $output == "rnn_relu, num_layers=1, "* ]]
	metadata out | grep -qx rnn_mode:rnn_relu
	metadata out | grep -qx weights_format:cellgrad
}

@test "a network in six other formats is recognised by its tensors and, for a GRU in format onnx, by linear_before_reset" {
	tensors in "" gru/gru_cell/kernel:F32:3,15 gru/gru_cell/recurrent_kernel:F32:5,15 gru/gru_cell/bias:F32:2,15
	works convert --from keras --to cellgrad in out
	[[ $output == "gru, num_layers=1, "* ]]
	tensors in "" gru/gru_cell/kernel:F32:3,15 gru/gru_cell/recurrent_kernel:F32:5,15 gru/gru_cell/bias:F32:15
	works convert --from keras --to cellgrad in out
	[[ $output == "gru_block, num_layers=1, "* ]]
	tensors in "" w:F32:8,20 b:F32:20 wci:F32:5 wcf:F32:5 wco:F32:5
	works convert --from block --to cellgrad in out
	[[ $output == "lstm_block peephole, num_layers=1, unidirectional, input_size=3, num_units=5, "* ]]
	metadata out | grep -qx cell:lstm_block
	metadata out | grep -qx options:peephole
	works convert --from block_v2 --to onnx in out
	[[ $output == "lstm peephole, "*" to 4 of format onnx" ]]
	tensors in "" fw/w_ru:F32:8,10 fw/b_ru:F32:10 fw/w_c:F32:8,5 fw/b_c:F32:5 bw/w_ru:F32:8,10 bw/b_ru:F32:10 bw/w_c:F32:8,5 bw/b_c:F32:5
	works convert --from block --to onnx in out
	[[ $output == "gru_block, num_layers=1, bidirectional, input_size=3, num_units=5, f32: 8 tensors of format block converted to 3 of format onnx" ]]
	tensors in "" layer_0/W:F32:2,20,3 layer_0/R:F32:2,20,5 layer_0/B:F32:2,40 layer_1/W:F32:2,20,10 layer_1/R:F32:2,20,5 layer_1/B:F32:2,40
	works convert --from onnx --to cellgrad in out
	[[ $output == "lstm, num_layers=2, bidirectional, input_size=3, num_units=5, "* ]]
	tensors in "" W:F32:1,15,3 R:F32:1,15,5 B:F32:1,30
	works convert --from onnx --to pytorch in out linear_before_reset=1
	[[ $output == "gru, "* ]]
	works convert --from onnx --to block --force in out linear_before_reset=0
	[[ $output == "gru_block, "* ]]
	tensors in "" weights_{0,1,2}:F32:5,3 weights_{3,4,5}:F32:5,5 biases_{0..5}:F32:5
	works convert --from canonical --to cellgrad in out
	[[ $output == "gru, num_layers=1, unidirectional, input_size=3, num_units=5, "* ]]
	c=cnn/rnn/multi_rnn_cell/cell_0/cudnn_compatible_gru_cell
	tensors in "" $c/gates/kernel:F32:8,10 $c/gates/bias:F32:10 $c/candidate/{input,hidden}_projection/bias:F32:5 \
		$c/candidate/input_projection/kernel:F32:3,5 $c/candidate/hidden_projection/kernel:F32:5,5
	works convert --from checkpoint --from-prefix cnn/ --to pytorch in out
	[[ $output == "gru, num_layers=1, unidirectional, input_size=3, num_units=5, "* ]]
}

@test "tensors that fit several networks are refused, and the message names two of them" {
	tensors in "" weight_ih_l0:F32:5,3 weight_hh_l0:F32:5,5 bias_ih_l0:F32:5 bias_hh_l0:F32:5
	refuses "networks|rnn_tanh|num_layers=1|unidirectional|input_size=3|num_units=5|rnn_relu" \
		convert --from pytorch --to cellgrad in out
	# Tensors that fit several networks are refused also if --ignore-extra leaves out other tensors.
	tensors in "" weight_ih_l0:F32:5,3 weight_hh_l0:F32:5,5 bias_ih_l0:F32:5 bias_hh_l0:F32:5 linear.weight:F32:2,5
	refuses "in:|linear.weight|--ignore-extra" convert --from pytorch --to cellgrad in out
	refuses "networks|rnn_tanh|num_layers=1|unidirectional|input_size=3|num_units=5|rnn_relu" \
		convert --from pytorch --to cellgrad --ignore-extra in out
	[ ! -e out ]
	works convert --from pytorch --to cellgrad --ignore-extra in out rnn_mode=rnn_relu
	[[ $output == "rnn_relu, "* ]]
	rm out
	tensors in "" W:F32:1,15,3 R:F32:1,15,5 B:F32:1,30
	refuses "gru|num_layers=1|unidirectional|input_size=3|num_units=5|gru_block" convert --from onnx --to cellgrad in out
	tensors in "" weights_{0..15}:F32:5,5 biases_{0..15}:F32:5
	refuses "networks|rnn_relu|num_layers=8" convert --from canonical --to cellgrad in out
	refuses "lstm|num_layers=2|unidirectional|input_size=5|num_units=5|num_layers=1|bidirectional" \
		convert --from canonical --to cellgrad in out rnn_mode=lstm
	works convert --from canonical --to cellgrad in out rnn_mode=lstm direction=bidirectional
	[[ $output == "lstm, num_layers=1, bidirectional"* ]]
	[ -e out ]
}

@test "a tensor that is missing, has a wrong shape or dtype, or is one too many is refused and named" {
	one in bias_hh_l0:none
	refuses "in:|bias_hh_l0|missing|[20]" convert --from pytorch --to cellgrad in out
	one in weight_hh_l0:5,20
	refuses "in:|weight_hh_l0|[20, 5]|[5, 20]" convert --from pytorch --to cellgrad in out
	one in weight_ih_l0:24,3
	refuses "in:|weight_ih_l0|[20, 3]|[24, 3]" convert --from pytorch --to cellgrad in out
	one in bias_ih_l0:20,1
	refuses "in:|bias_ih_l0|[20]|[20, 1]" convert --from pytorch --to cellgrad in out
	one in
	refuses "in:|weight_ih_l0|[24, 3]|[20, 3]" convert --from pytorch --to cellgrad in out num_units=6
	refuses "in:|weight_ih_l0|[20, 4]|[20, 3]" convert --from pytorch --to cellgrad in out input_size=4
	refuses "in:|weight_ih_l0|[15, 3]|[20, 3]" convert --from pytorch --to cellgrad in out rnn_mode=gru
	refuses "in:|weight_ih_l1|missing|[20, 5]" convert --from pytorch --to cellgrad in out num_layers=2
	refuses "in:|weight_ih_l0_reverse|missing|[20, 3]" convert --from pytorch --to cellgrad in out direction=bidirectional
	refuses "in:|weight_hh_l0|[20, 2]|[20, 5]" convert --from pytorch --to cellgrad in out num_proj=2
	tensors in "" weight_ih_l0:F32:20,3 weight_hh_l0:F32:20,2 bias_ih_l0:F32:20 bias_hh_l0:F32:20
	refuses "in:|weight_hr_l0|missing|[2, 5]" convert --from pytorch --to cellgrad in out num_proj=2
	one in
	torch in ""
	refuses "in:|weight_ih_l1|lstm|num_layers=1|bidirectional|input_size=3|num_units=5|format|pytorch" \
		convert --from pytorch --to cellgrad in out num_layers=1 direction=bidirectional
	works convert --from pytorch --to cellgrad in out num_layers=1 direction=bidirectional --ignore-extra
	tensors in "" weight_ih_l0:F32:20,3 weight_hh_l0:F32:20,5 bias_ih_l0:F32:20 bias_hh_l0:F32:20 linear.weight:F32:2,5
	refuses "in:|linear.weight|lstm" convert --from pytorch --to cellgrad in out
	works convert --from pytorch --to cellgrad in out --ignore-extra
	tensors in "" weight_ih_l0:F32:20,3 weight_hh_l0:F32:20,5 bias_ih_l0:F64:20 bias_hh_l0:F32:20
	refuses "in:|dtype|f32|weight_ih_l0|f64|bias_ih_l0" convert --from pytorch --to cellgrad in out
	tensors in "" weight_ih_l0:F32:20,3 weight_hh_l0:I64:20,5 bias_ih_l0:F32:20 bias_hh_l0:F32:20
	refuses "in:|weight_hh_l0|F16|BF16|F32|F64|I64" convert --from pytorch --to cellgrad in out
	tensors in "" layer_0/w:F32:8,20 layer_0/b:F32:20 layer_1/w:F32:10,20 layer_2/w:F32:10,20 layer_2/b:F32:20
	refuses "in:|layer_1/b|missing|[20]" convert --from block --to cellgrad in out
	tensors in "" W:F32:3,20,3 R:F32:3,20,5
	refuses "in:|W|[1, 20, 3]|[3, 20, 3]" convert --from onnx --to cellgrad in out rnn_mode=lstm
	[ ! -e out.new ] && [ -z "$(ls -A | grep '^\.cellgrad')" ]
}

@test "--from-prefix and --to-prefix are the prefixes of the names of tensors in IN and OUT" {
	torch in "" model.rnn.
	refuses "in:|weight_ih_l0|missing|model.rnn.weight_ih_l0|--from-prefix|model.rnn" convert --from pytorch --to cellgrad in out
	pytorch --from-prefix model.rnn.
	[[ $output == "lstm, num_layers=2, bidirectional"* ]]
	works convert --from cellgrad --to pytorch out back --to-prefix model.rnn.
	works convert --from pytorch --to cellgrad back again --from-prefix model.rnn.
	cmp out again
	refuses "tensors|format|keras|lstm/lstm_cell/kernel|model.rnn.bias_hh_l0|model.rnn.bias_hh_l0_reverse|model.rnn.bias_hh_l1" \
		convert --from keras --to cellgrad in out rnn_mode=lstm
	refuses "--from-prefix|512|bytes" convert --from pytorch --to cellgrad in out --from-prefix "$(printf '%600s' x)"
	refuses "--to-prefix|512|bytes" convert --from pytorch --to cellgrad in out --to-prefix "$(printf '%600s' x)"
	tensors in "" enc/kernel:F32:3,20 enc/recurrent_kernel:F32:5,20 enc/bias:F32:20 dec/kernel:F32:5,20 dec/recurrent_kernel:F32:5,20 dec/bias:F32:20
	works convert --from keras --to cellgrad in out names=enc/,dec/
	[[ $output == "lstm, num_layers=2, unidirectional, input_size=3, num_units=5, "* ]]
	refuses "names|1|2" convert --from keras --to cellgrad in out names=enc/,dec/ num_layers=1 direction=unidirectional
	refuses "in:|no/kernel|missing|[3, 20]" convert --from keras --to cellgrad in out names=no/,dec/ rnn_mode=lstm input_size=3
}

@test "names=NAME,... gives the prefixes of layers of Keras, which differ if the model was not the first in its session" {
	local kernels=kernel:F32:3,20 more=kernel:F32:5,20 rest="recurrent_kernel:F32:5,20 bias:F32:20"

	# layer NAME KERNEL: prints the tensors of a layer of Keras
	layer() {
		printf "$1%s " "$2" $rest
	}
	tensors in "" $(layer lstm_1/lstm_cell/ $kernels)
	refuses "in:|lstm/lstm_cell/kernel|names=lstm_1/lstm_cell/" convert --from keras --to cellgrad in out
	works convert --from keras --to cellgrad in out names=lstm_1/lstm_cell/
	for first in 1 4; do
		one=lstm_$first/lstm_cell/ two=lstm_$((first + 1))/lstm_cell/
		tensors in "" $(layer $one $kernels) $(layer $two $more)
		refuses "in:|lstm/lstm_cell/kernel|names=|$one|$two" convert --from keras --to cellgrad in out
		works convert --from keras --to cellgrad in out names=$one,$two
	done
	tensors in "" $(layer model.lstm_1/lstm_cell/ $kernels) other:F32:1
	refuses "names=lstm_1/lstm_cell/" convert --from keras --to cellgrad in out --from-prefix model.
	# If the layer has the usual name but lacks a tensor, the message does not propose names=.
	tensors in "" lstm/lstm_cell/kernel:F32:3,20 lstm/lstm_cell/bias:F32:20 other/kernel:F32:1
	refuses "lstm/lstm_cell/recurrent_kernel" convert --from keras --to cellgrad in out
	[[ $stderr != *names=* ]]
}

@test "wrong arguments are refused" {
	torch in ""
	refuses "--from|missing" convert --to pytorch in out
	refuses "--to|missing" convert --from pytorch in out
	refuses '--from|format|pytroch|pytorch' convert --from pytroch --to cellgrad in out
	refuses '--to|format|xyzzyxyzzy|cellgrad|canonical|pytorch|keras|block|block_v2|checkpoint|onnx' \
		convert --from pytorch --to xyzzyxyzzy in out
	refuses "IN|OUT" convert --from pytorch --to cellgrad
	refuses "IN|OUT|one" convert --from pytorch --to cellgrad in
	refuses "IN|OUT|more" convert --from pytorch --to cellgrad in out more
	refuses "in" convert --from pytorch --to cellgrad in in
	refuses "num_layer|num_layers" convert --from pytorch --to cellgrad in out num_layer=2
	refuses "num_layers|twice" convert --from pytorch --to cellgrad in out num_layers=2 num_layers=2
	refuses "num_layers|0|2147483647|-1" convert --from pytorch --to cellgrad in out num_layers=-1
	refuses "pytorch|layers|65536|tensors" convert --from pytorch --to cellgrad in out num_layers=1000000000
	refuses "rnn_mode|lsmt|lstm" convert --from pytorch --to cellgrad in out rnn_mode=lsmt
	refuses 'bias|halfs|halves' convert --from pytorch --to cellgrad in out bias=halfs
	refuses "network|linear_before_reset|-1|0|1|2" convert --from pytorch --to cellgrad in out linear_before_reset=2
	refuses "linear_before_reset|cell|gru|1|0" convert --from onnx --to cellgrad in out cell=gru linear_before_reset=0
	refuses "linear_before_reset|cell|gru_block|0|1" convert --from onnx --to cellgrad in out cell=gru_block linear_before_reset=1
	refuses "use_peephole|false|options|peephole" convert --from onnx --to cellgrad in out use_peephole=false options=peephole
	refuses 'options' convert --from onnx --to cellgrad in out cell=lstm options=peepole
	refuses "rnn_mode|cell" convert --from pytorch --to cellgrad in out rnn_mode=lstm cell=lstm
	refuses "--dtype|f16|bf16|f32|f64|f61" convert --from pytorch --to cellgrad in out --dtype f61
	refuses "T=double|tensors|f32" convert --from pytorch --to cellgrad in out T=double
	refuses "No such file" convert --from pytorch --to cellgrad nowhere out
	refuses "nowhere" convert --from pytorch --to cellgrad in nowhere/out
	refuses ".|directory" convert --from pytorch --to cellgrad in .
	refuses "--forec|--force" convert --from pytorch --to cellgrad in out --forec
	[ ! -e out ]
}

@test "metadata of IN gives attributes, and arguments must agree with it" {
	torch in '{"rnn_mode":"gru"}'
	refuses "in:|weight_ih_l0|[15, 3]|[20, 3]" convert --from pytorch --to cellgrad in out
	refuses "cell" convert --from pytorch --to cellgrad in out rnn_mode=lstm
	[[ $stderr == *"the command line says lstm"*"in says gru"*--ignore-metadata* ]]
	pytorch rnn_mode=lstm --ignore-metadata
	pytorch --ignore-metadata
	torch in '{"direction":"sideways"}'
	refuses 'in:|__metadata__|direction|unidirectional|bidirectional|sideways' convert --from pytorch --to cellgrad in out
	torch in '{"weights_format":"onnx"}'
	refuses "weights_format|in|onnx|--from|pytorch" convert --from pytorch --to cellgrad in out
	pytorch --ignore-metadata
	torch in '{"format":"pt","num_layers":"2"}'
	pytorch
	tensors w "" w:F32:8,20 b:F32:20
	works convert --from block_v2 --to block w out
	refuses "weights_format|out|block|--from|block_v2" convert --from block_v2 --to pytorch out other
}

@test "format cellgrad, one buffer, needs metadata or arguments that describe the network" {
	tensors in "" params:F32:200
	refuses "in:|network|metadata|rnn_mode=MODE|cell=CELL" convert --from cellgrad --to pytorch in out
	refuses "in:|num_units=N|neither|params|metadata" convert --from cellgrad --to pytorch in out rnn_mode=lstm
	refuses "input_size=N" convert --from cellgrad --to pytorch in out rnn_mode=lstm num_units=5
	works convert --from cellgrad --to pytorch in out rnn_mode=lstm num_units=5 input_size=3
	refuses "in:|params|[220]|[200]" convert --from cellgrad --to pytorch in out rnn_mode=lstm num_units=5 input_size=4
	tensors none "" x:F32:200
	refuses "none|tensors|format|cellgrad|params|x" convert --from cellgrad --to pytorch none out rnn_mode=lstm num_units=5 input_size=3
	refuses "rnn:|params|U=4611686018427387904|bytes" convert --from cellgrad --to pytorch in out rnn_mode=lstm num_units=4611686018427387904 input_size=3
}

@test "without --force, a format with one bias refuses two biases, unless converting back gives the same two" {
	one in
	# the biases 0.5 and 0.5 are halves of 1, so nothing is lost, and the metadata has bias:halves
	works convert --from pytorch --to keras in out
	[ "$(number out lstm/lstm_cell/bias 0)" = 1 ]
	metadata out | grep -qx bias:halves
	works convert --from keras --to pytorch out back
	[ "$(number back bias_ih_l0 19) $(number back bias_hh_l0 19)" = "0.5 0.5" ]
	# the two biases of one unit differ: 0.5 and 0.25
	poke in bias_hh_l0 7 '\x00\x00\x80\x3e'
	echo old > out
	refuses "in:|lost|bW|bR|bias|keras|1|20|--force" \
		convert --from pytorch --to keras in out
	[ "$(cat out)" = old ]
	run -0 --separate-stderr "$CELLGRAD" convert --from pytorch --to keras in out --force
	[ "$stderr" = "cellgrad convert: lost: bW + bR is one bias in format keras: 1 of 20 elements could not be taken apart again" ]
	[ "$(number out lstm/lstm_cell/bias 7)" = 0.75 ]
	# all biases of one side, input or recurrent, are zero, so nothing is lost
	for half in bias_ih_l0:recurrent bias_hh_l0:input; do
		one in
		for k in {0..19}; do
			poke in ${half%:*} $k '\0\0\0\0'
		done
		for to in keras block checkpoint; do
			works convert --from pytorch --to $to in out
			works convert --from $to --to pytorch out back
			works convert --from pytorch --to pytorch in same
			cmp same back
		done
		metadata out | grep -qx bias:${half#*:}
	done
}

@test "a network without biases is converted from pytorch through keras, onnx, cellgrad and block, and back" {
	tensors in "" weight_ih_l0:F32:20,3 weight_hh_l0:F32:20,5
	works convert --from pytorch --to keras in out
	[[ $output == *" to 2 of format keras" ]]
	works convert --from keras --to onnx out next
	works convert --from onnx --to cellgrad next last
	metadata last | grep -qx bias:none
	works convert --from cellgrad --to block last w
	[ "$(number w b 0)" = 0 ]
	works convert --from block --to pytorch w back
	[[ $output == *" to 2 of format pytorch" ]]
	cmp <(tail -c 640 in) <(tail -c 640 back)
	# The argument bias=none is ignored if IN has biases that are not zero: OUT has them, and they are converted back.
	one in
	works convert --from pytorch --to cellgrad in out bias=none
	works convert --from cellgrad --to pytorch out back
	[[ $output == *" to 4 of format pytorch" ]]
	tensors in "" w:F32:8,20
	refuses "in:|b|missing|[20]" convert --from block --to cellgrad in out bias=none
}

@test "without --force, format keras, which has no peepholes, refuses peephole weights, unless they are all 0" {
	tensors in "" w:F32:8,20 b:F32:20 wci:F32:5 wcf:F32:5 wco:F32:5
	refuses "peepholes|out|15|weights|0|--force" convert --from block_v2 --to keras in out
	[ ! -e out ]
	run -0 --separate-stderr "$CELLGRAD" convert --from block_v2 --to keras in out --force
	[ "$stderr" = "cellgrad convert: lost: peepholes are left out: 15 of their weights are not 0" ]
	[[ $output == "lstm, "*" 5 tensors of format block_v2 converted to 3 of format keras" ]]
	raw zero '{"w":{"dtype":"F32","shape":[8,20],"data_offsets":[0,640]},"b":{"dtype":"F32","shape":[20],"data_offsets":[640,720]},"wci":{"dtype":"F32","shape":[5],"data_offsets":[720,740]},"wcf":{"dtype":"F32","shape":[5],"data_offsets":[740,760]},"wco":{"dtype":"F32","shape":[5],"data_offsets":[760,780]}}' 780
	works convert --from block_v2 --to keras zero out
	refuses "in:|wci|lstm|num_layers=1" convert --from block_v2 --to keras in out use_peephole=false
	works convert --from block_v2 --to keras in out use_peephole=false --ignore-extra
}

@test "a single peephole weight or bias that OUT would lose is reported, in each of two layers and directions" {
	header="" at=0
	for group in layer_{0,1}/{fw,bw}/; do
		input=3
		[[ $group == layer_0/* ]] || input=10
		for spec in w:$((input + 5)),20 b:20 wci:5 wcf:5 wco:5; do
			end=${spec#*:}
			end=$((at + 4 * ${end/,/*}))
			header+="${header:+,}\"$group${spec%%:*}\":{\"dtype\":\"F32\",\"shape\":[${spec#*:}],\"data_offsets\":[$at,$end]}"
			at=$end
		done
	done
	raw zero "{$header}" $at
	works convert --from block_v2 --to keras zero out
	torch half ""
	works convert --from pytorch --to keras half out
	rm out
	for place in layer_{0,1}/{fw,bw}/wc{i,f,o}; do
		cp zero in
		poke in $place 2 '\x00\x00\x80\x3e'
		refuses peepholes convert --from block_v2 --to pytorch in out
		[[ $stderr == *" 1 "* ]]
	done
	for place in bias_{ih,hh}_l{0,1}{,_reverse}; do
		cp half in
		poke in $place 7 '\x00\x00\x80\x3e'
		refuses bias convert --from pytorch --to checkpoint in out
		[[ $stderr == *" 1 of 80 "* ]]
	done
	[ ! -e out ]
}

@test "forget_bias and cell_clip of format block are kept, added to a bias, or reported as lost" {
	tensors in "" w:F32:8,20 b:F32:20
	works convert --from block --to cellgrad in out
	metadata out | grep -qx cell:lstm_block
	[ "$(metadata out | grep -c values)" -eq 0 ]
	works convert --from block --to cellgrad in out forget_bias=0.25 cell_clip=-1
	metadata out | grep -q values:forget_bias=0.25
	works convert --from cellgrad --to block out back
	metadata back | grep -qx forget_bias:0.25
	metadata back | grep -qx cell_clip:-1
	refuses "forget_bias=1|bias|gate|f|pytorch|cell_clip=3" \
		convert --from block --to pytorch in out
	run -0 --separate-stderr "$CELLGRAD" convert --from block --to pytorch in out --force
	[ "${#stderr_lines[@]}" -eq 2 ]
	# in format pytorch, with gates i f g o of 5 units, gate f has elements 5 to 9 of each bias
	[ "$(number out bias_hh_l0 4) $(number out bias_hh_l0 5) $(number out bias_hh_l0 9) $(number out bias_hh_l0 10)" = "0.5 1.5 1.5 0.5" ]
	[ "$(number out bias_ih_l0 5)" = 0 ]
	run -0 --separate-stderr "$CELLGRAD" convert --from block --to keras in out --force
	# in format keras, with gates i f c o of 5 units, gate f has elements 5 to 9 of the bias, as in format pytorch
	[ "$(number out lstm/lstm_cell/bias 4) $(number out lstm/lstm_cell/bias 5) $(number out lstm/lstm_cell/bias 10)" = "0.5 1.5 0.5" ]
	works convert --from block --to pytorch in out forget_bias=0 cell_clip=0
	works convert --from block --to pytorch --gradients in out
	works convert --from pytorch --to block out back
	refuses "block|cell|lstm|neither|forget_bias|0|cell_clip|1|3" convert --from block --to pytorch in out rnn_mode=lstm
	refuses "forget_bias|block_v2|no|0|1" convert --from block_v2 --to pytorch in out forget_bias=1
	works convert --from block_v2 --to cellgrad in out cell_clip=2
	metadata out | grep -qx cell:lstm_block
	refuses "values|block|forget_bias|cell_clip" convert --from block --to pytorch in out values=forget_bias=0
	one torch
	refuses "forget_bias|pytorch" convert --from pytorch --to cellgrad torch out forget_bias=1
	refuses "cell_clip|pytorch" convert --from pytorch --to cellgrad torch out cell_clip=1
}

@test "conversions to a format that cannot hold the network are refused even with --force" {
	tensors in "" weight_ih_l0:F32:20,3 weight_hh_l0:F32:20,2 weight_hr_l0:F32:2,5 bias_ih_l0:F32:20 bias_hh_l0:F32:20
	for to in keras block block_v2 checkpoint onnx; do
		refuses "$to|proj|projection|0|2" convert --from pytorch --to $to in out --force
	done
	tensors in "" weight_ih_l0:F32:15,3 weight_hh_l0:F32:15,5 bias_ih_l0:F32:15 bias_hh_l0:F32:15
	refuses "block|cell|lstm_block|gru_block|gru" convert --from pytorch --to block in out --force
	tensors in "" w_ru:F32:8,10 b_ru:F32:10 w_c:F32:8,5 b_c:F32:5
	refuses "checkpoint|cell|lstm|gru|rnn_tanh|rnn_relu|gru_block" convert --from block --to checkpoint in out --force
	tensors in '{"rnn_mode":"gru","input_mode":"skip_input","num_units":"2","input_size":"2"}' params:F32:24
	works convert --from cellgrad --to canonical in out
	works convert --from canonical --to cellgrad out back
	cmp <(tail -c 96 in) <(tail -c 96 back)
	refuses "pytorch|input_mode|linear_input|skip_input" convert --from cellgrad --to pytorch in out --force
	[ "$(ls | grep -c '^out$')" -eq 1 ]
}

@test "--dtype converts to another dtype; numbers that are rounded are refused or, with --force, reported" {
	one in
	for dtype in f64 bf16 f16; do
		works convert --from pytorch --to pytorch in out --dtype $dtype
		[[ $output == *", $dtype: 4 tensors of format pytorch converted to 4 of format pytorch" ]]
		works convert --from pytorch --to pytorch out back --dtype f32
		works convert --from pytorch --to pytorch in same
		cmp same back
	done
	tensors t "" weight_ih_l0:F32:1,1 weight_hh_l0:F32:1,1 bias_ih_l0:F32:1 bias_hh_l0:F32:1
	printf '\253\252\252\076' | dd of=t bs=1 seek=$(($(stat -c %s t) - 4)) conv=notrunc status=none
	refuses "1|f16" convert --from pytorch --to pytorch t out --dtype f16 rnn_mode=rnn_tanh
	run -0 --separate-stderr "$CELLGRAD" convert --from pytorch --to pytorch t out --dtype f16 rnn_mode=rnn_tanh --force
	[ "$stderr" = "cellgrad convert: lost: 1 number is rounded to f16" ]
}

@test "--gradients converts gradients of weights" {
	tensors in "" lstm/lstm_cell/kernel:F32:3,20 lstm/lstm_cell/recurrent_kernel:F32:5,20 lstm/lstm_cell/bias:F32:20
	works convert --from keras --to pytorch --gradients in out
	[ "$(number out bias_ih_l0 3) $(number out bias_hh_l0 3)" = "0.5 0.5" ]
	works convert --from pytorch --to keras --gradients out back
	[ "$(number back lstm/lstm_cell/bias 3)" = 0.5 ]
	works convert --from pytorch --to cellgrad --gradients out ours
	grep -aq '"params_backprop"' ours
	works convert --from cellgrad --to checkpoint --gradients ours out
	[ "$(number out rnn/multi_rnn_cell/cell_0/cudnn_compatible_lstm_cell/bias 0)" = 0.5 ]
	refuses "params|params_backprop" convert --from cellgrad --to pytorch ours out
	# the gradients of the two biases differ in one bit of one number
	works convert --from keras --to pytorch --gradients in two
	poke two bias_ih_l0 7 '\x01\x00\x00\x3f'
	refuses "gradients|bW|bR|1|20|--force" convert --from pytorch --to keras --gradients two out
	run -0 --separate-stderr "$CELLGRAD" convert --from pytorch --to keras --gradients two out --force
	[ "$(od -A n -t x4 -j "$(place out lstm/lstm_cell/bias 7)" -N 4 out)" = " 3f000001" ]
}

@test "after a failure OUT has its old contents, and no temporary file is left" {
	torch in ""
	echo old > out
	(ulimit -f 1; fails "out|File too large" convert --from pytorch --to cellgrad in out)
	[ "$(cat out)" = old ]
	mkdir locked
	if chmod 500 locked && ! touch locked/x 2>/dev/null; then
		refuses "Permission denied" convert --from pytorch --to cellgrad in locked/out
	fi
	: > empty
	refuses "empty" convert --from pytorch --to cellgrad empty out
	head -c 100 in > short
	refuses "short|header" convert --from pytorch --to cellgrad short out
	[ "$(cat out)" = old ]
	[ -z "$(find . -name '.cellgrad*')" ]
}

@test "weights of a user's cell are converted from format cellgrad to canonical and back" {
	printf 'cell mine\ngates a_x a_y\noutput h\nparam k\n\nh = tanh(a_x) * k + sigmoid(a_y)\nsave h\n' > mine.cell
	tensors in '{"cell":"./mine.cell","values":"k=0.5","num_units":"2","input_size":"3"}' params:F32:28
	works convert --from cellgrad --to canonical in out
	[[ $output == "./mine.cell, num_layers=1, "*" 1 tensor of format cellgrad converted to 8 of format canonical" ]]
	metadata out | grep -qx values:k=0.5
	works convert --from canonical --to cellgrad out back
	works convert --from cellgrad --to cellgrad in same
	cmp same back
	refuses "onnx|cell|lstm|gru|gru_block|rnn_tanh|rnn_relu|mine" convert --from cellgrad --to onnx in out
	refuses "mine.cel" convert --from cellgrad --to canonical in out cell=./mine.cel
	# If a file name in metadata is that of a pipe, the command refuses it, and does not wait for the pipe.
	mkfifo pipe.cell
	tensors in '{"cell":"./pipe.cell","num_units":"2","input_size":"3"}' params:F32:28
	refuses "./pipe.cell|regular" convert --from cellgrad --to canonical in out
	tensors step '{"cell":"./pipe.cell"}' input:F32:1,1,3 params:F32:28
	refuses "./pipe.cell|regular" run rnn step num_units=2
	works convert --from cellgrad --to canonical in out cell=<(cat mine.cell) values=k=0.5
}

@test "convert reads files that run writes, and run reads files that convert writes" {
	torch in ""
	pytorch
	works run rnn_params_to_canonical out num_params_weights=32 num_params_biases=32 -o lists
	works convert --from cellgrad --to canonical out ours
	works convert --from canonical --to cellgrad lists again
	cmp out again
	works convert --from canonical --to cellgrad ours again
	cmp out again
	tensors x "" input:F32:4,2,3
	works run rnn out x -o forward
	tensors up "" output_backprop:F32:4,2,10
	works run rnn_backprop out x up -o gradient
	refuses "gradient" convert --from cellgrad --to pytorch --gradients gradient back input_size=3 num_units=5 num_layers=2
	works convert --from cellgrad --to pytorch --gradients --ignore-extra gradient back input_size=3 num_units=5 num_layers=2
	[ "$(number back bias_ih_l1 3)" = "$(number back bias_hh_l1 3)" ]
	works convert --from pytorch --to checkpoint --gradients back out
}

@test "--json prints an object about the conversion, and --help lists the formats" {
	torch in ""
	works convert --from pytorch --to cellgrad in out --json
	[ "$output" = '{"network":"lstm, num_layers=2, bidirectional, input_size=3, num_units=5","dtype":"f32","from":"pytorch","to":"cellgrad","read":16,"written":1,"lost":[]}' ]
	poke in bias_hh_l0 7 '\x00\x00\x80\x3e'
	works convert --from pytorch --to onnx in out --json
	works convert --from pytorch --to checkpoint in out --json --force
	[[ $output == *'"lost":["bW + bR is one bias in format checkpoint: 1 of 80 elements could not be taken apart again"]}' ]]
	works convert --help
	for format in cellgrad canonical pytorch keras block block_v2 checkpoint onnx; do
		[[ $output == *"  $format "* ]]
		grep -q "^| \`$format\` |" "$BATS_TEST_DIRNAME/../../docs/weights.md"
	done
	[[ $(tr -s '\n ' '  ' <<< "$output") == *"gives the same bits of the network's tensors, but may leave out peepholes that are 0."* ]]
}

@test "the example program step, from the weights of PyTorch before a training step, gives those of PyTorch after it" {
	for file in "$DATA"/step-*.safetensors; do
		rate=$(metadata "$file" | sed -n 's/^lr://p')
		CELLGRAD_BACKEND=cpu "$(dirname "$CELLGRAD")"/examples/step "$file" before. "$rate" stepped
		! cmp -s "$file" stepped
		works convert --from pytorch --to cellgrad --from-prefix before. stepped ours
		works convert --from pytorch --to canonical --from-prefix after. "$file" theirs
		weights=$(grep -ao '"weights_[0-9]*"' theirs | wc -l)
		biases=$(grep -ao '"biases_[0-9]*"' theirs | wc -l)
		works run rnn_params_to_canonical ours num_params_weights="$weights" num_params_biases="$biases" --expect theirs
		[[ $output == *biases_0*ok* && $output != *MISMATCH* ]]
		# the weights before the training step are not equal to the weights after the training step
		works convert --from pytorch --to cellgrad --from-prefix before. "$file" ours
		run -1 "$CELLGRAD" run rnn_params_to_canonical ours num_params_weights="$weights" num_params_biases="$biases" --expect theirs
	done
}
