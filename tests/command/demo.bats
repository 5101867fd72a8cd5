# `cellgrad demo`: a kernel and TensorFlow's answers.

load files

@test "all agree with TensorFlow" {
	works demo --data "$DATA"
	[[ $output == *"LSTMBlockCellGrad"*"GRUBlockCellGrad"* ]]
	[[ $output == *"peephole"*"dicfo"*"ok"* ]]
	[[ $output != *MISMATCH* ]]
	[[ $output != *$'\033'* ]]
	[[ ${lines[-1]} == "All "*" agree with TensorFlow's"* ]]
}

@test "the case directory that nobody names" {
	works demo
}

@test "--json" {
	works demo --data "$DATA" --json
	[[ ${lines[0]} == '{"kernel":"'*'"source":"'* ]]
	[[ ${lines[1]} == '{"op":"LSTMBlockCellGrad","case":"'*'"ok":true}' ]]
	[[ ${lines[-1]} == '{"tensors":'*'"mismatches":0,'* ]]
}

@test "a mismatch is exit 1" {
	cp "$DATA"/GRUBlockCellGrad-*.safetensors "$DATA"/LSTMBlockCellGrad-*.safetensors .
	cp GRUBlockCellGrad-plain.expect.safetensors GRUBlockCellGrad-saturated.expect.safetensors
	run -1 --separate-stderr "$CELLGRAD" demo --data .
	[ -z "$stderr" ]
	[[ $output == *MISMATCH* ]]
	[[ ${lines[-1]} == *"differ from TensorFlow's"* ]]
}

@test "cases that are not there" {
	refuses "nowhere" demo --data nowhere
	refuses "LSTMBlockCellGrad-CASE" demo --data .
	cp "$DATA"/GRUBlockCellGrad-*.safetensors "$DATA"/LSTMBlockCellGrad-*.safetensors .
	rm GRUBlockCellGrad-plain.expect.safetensors
	refuses "GRUBlockCellGrad-plain.expect.safetensors" demo --data .
	refuses "--data" demo words
}
