# SPDX-License-Identifier: Apache-2.0
# Tests `cellgrad info`: it lists the devices, ops and cells that are available, and says why a backend is not available.

load files

@test "info prints the version, devices, variables, ops and cells" {
	CELLGRAD_BACKEND=cpu works info
	[[ ${lines[0]} =~ ^cellgrad\ [0-9] ]]
	[[ $output == *Devices:*cpu* ]]
	[[ $output == *CELLGRAD_BACKEND=cpu* ]]
	[[ $output == *lstm_block_cell_grad*LSTMBlockCellGrad*"f16 bf16 f32 f64"* ]]
	[[ $output == *Cells:*lstm_block* ]]
}

@test "info works if CELLGRAD_BACKEND names no backend" {
	CELLGRAD_BACKEND=cpuu works info
	[[ $output == *"No backend can be used:"*"'cpuu'"*cpu* ]]
}

@test "--json prints one object" {
	CELLGRAD_BACKEND=cpu works info --json
	[ "${#lines[@]}" -eq 1 ]
	[[ $output == '{"version":"'*'"devices":[{'*'"default":{"opens":true,'* ]]
	[[ $output == *'"environment":{'*'"CELLGRAD_BACKEND":"cpu"'* ]]
	[[ $output == *'"LSTMBlockCellGrad"'*'"lstm_block"'* ]]
}

@test "--why says that a backend opens, or the reason why it does not" {
	works info --why cpu:7
	[[ $output == "cpu:7: expected "* ]]
	works info --why cpu
	[[ $output == "cpu: opens: "* ]]
	works info --why cpu --json
	[[ $output == '{"backend":"cpu","opens":true,"about":"'* ]]
	refuses "--why|cppu|cpu" info --why cppu
	# No output or message about a backend that is wrong or does not open has the name of a function of the library.
	for words in "info --why cppu" "info --why cpu:7" "info --why cpu:7,cpu:8" "check -b cppu" "check -b cpu:1,cpu:2" \
	             "check -r cppu -b cpu" "demo --switch cppu --only train"; do
		run --separate-stderr "$CELLGRAD" $words
		[[ -n $output$stderr && $output$stderr != *cg_* ]]
	done
}

@test "the message about a word that is no op has the nearest op, the op for networks of a cell, or --why for a backend" {
	refuses "--why cuda" info cuda
	refuses "LSTMBlockCell" info LSTMBlockCel
	refuses "cellgrad info" info Conv2D
	for words in "info lstm" "info LSTM" "run lstm x" "run LSTM" "run CudnnLSTM x" "run CudnnLSTM --help" "bench --op BasicLSTMCell"; do
		refuses "op" $words
		[[ $stderr == *" rnn "*"cell=lstm"*"CudnnRNNV3"*"rnn_mode=lstm"* ]]
	done
	refuses "cell=gru_block" run gru_block
	[[ $stderr != *rnn_mode* ]]
	refuses "op" info $'\x1b[2Jgru'
	refuses "block_lstm" info lstm_block_cell block_lstm
	refuses "--why" info lstm_block_cell --why cpu
}

@test "info OP prints inputs, outputs and attributes, as run OP --help does" {
	# describe.py checks the text and the JSON of every op.
	works info LSTMBlockCellGrad
	text=$output
	[[ $text == *LSTMBlockCell*"[I+U, 4*U]"*"if use_peephole=true"*cs_grad*dicfo*"[B, 4*U]"*use_peephole*required* ]]
	[[ $text != *x_grad* ]]
	for words in "run LSTMBlockCellGrad --help" "run --help LSTMBlockCellGrad nowhere.safetensors" "help run LSTMBlockCellGrad"; do
		works $words
		[ "$output" = "$text" ]
	done
	works info lstm_block_cell_grad
	[[ $output == *x_grad*"ours alone"* ]]
	works info rnn
	[[ $output == *"time_major=false the shape [T, B, I] is [B, T, I]:"*first_step* ]]
	works info CudnnRNNV3
	[[ $output == *"input_c"*"if rnn_mode=lstm"*sequence_lengths*I32* ]]
	[[ $output != *first_step* ]]
	CELLGRAD_BACKEND=nothing works info GRUBlockCell
	works run GRUBlockCell --help --json
	[ "${#lines[@]}" -eq 1 ]
	[[ $output == '{"name":"GRUBlockCell","op":"gru_block_cell",'*'"inputs":[{"name":"x","shape":["B","I"],'* ]]
}

@test "--why opencl names the library that was tried, and what is wrong with it" {
	CELLGRAD_OPENCL_LIB=/nowhere/libOpenCL.so works info --why opencl
	[[ $output == "opencl: "*"no OpenCL loader: CELLGRAD_OPENCL_LIB: tried /nowhere/libOpenCL.so: "* ]]
	CELLGRAD_OPENCL_LIB=lib/libOpenCL.so works info --why opencl
	[[ $output == "opencl: CELLGRAD_OPENCL_LIB: "*absolute*"'lib/libOpenCL.so'"* ]]
	if [ -e "$LIBRARY" ]; then
		CELLGRAD_OPENCL_LIB=$LIBRARY works info --why opencl
		[[ $output == *"has no clGetPlatformIDs: the library is not an OpenCL 1.2 loader"* ]]
	fi
	# If CELLGRAD_OPENCL_LIB names a loader that cannot be loaded, no other loader is used, and cpu is not used either.
	CELLGRAD_OPENCL_LIB=/none CELLGRAD_BACKEND=opencl refuses "OpenCL|loader" demo --only compare
	CELLGRAD_OPENCL_LIB=/none works info
	[[ $output == *"No backend can be used:"*"CELLGRAD_OPENCL_LIB: "*/none* || $output == *$'\n'"  cuda:0 "* ]]
}

@test "OpenCL without a driver, or with a driver that cannot be loaded, or a device that does not exist, gives a message" {
	needs_opencl
	mkdir none bad
	OCL_ICD_VENDORS=$PWD/none works info --why opencl
	[[ $output == *"no OpenCL driver: clGetPlatformIDs of "*": CL_PLATFORM_NOT_FOUND_KHR; drivers are listed in "* ]]
	echo /nowhere/libdriver.so >bad/bad.icd
	OCL_ICD_VENDORS=$PWD/bad works info --why opencl
	[[ $output == *"no OpenCL driver: "* ]]
	works info --why opencl:9.0
	[[ $output == *"no device 9.0: the number of devices found is "* ]]
	# A number of a platform beyond the range of int is refused, and does not wrap around to another number.
	CELLGRAD_BACKEND=opencl:4294967296.0 refuses "PLATFORM.DEVICE" run GRUBlockCell "$DATA/GRUBlockCell-one.safetensors"
}
