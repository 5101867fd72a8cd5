# SPDX-License-Identifier: Apache-2.0
# Tests networks by cuDNN through the command: versions of cuDNN, reasons why a network is not for cuDNN, failures, reserve
# spaces. The stand-ins of tests/fake replace cuDNN and CUDA's libraries.

load files

# with [VARIABLE=VALUE...]: sets variables, and makes the command run on the cuda backend with the stand-ins for CUDA's libraries
with() { stand_ins CELLGRAD_BACKEND=cuda CELLGRAD_CACHE_DIR="$BATS_FILE_TMPDIR" "$@"; }

# says ROUTE ARGUMENT...: runs the command, and checks that the line that CELLGRAD_VERBOSE=1 prints has the route
says() {
	local route=$1

	shift
	CELLGRAD_VERBOSE=1 run -0 --separate-stderr "$CELLGRAD" "$@"
	echo "$stderr"
	[[ $stderr == *"; $route"* ]]
}

# The function `without WORDS` checks that, where no cuDNN can be loaded, a network takes route composed, route=cudnn is refused, and info
# says that there is no cuDNN.  The refusal and info --why cuda give WORDS as the reason.
without() {
	case=$DATA/CudnnRNNV3-lstm-ragged.safetensors
	says "composed (no cuDNN: not cudnn)" run CudnnRNNV3 "$case" --expect "$case"
	refuses "rnn|route|cudnn|cuDNN" run rnn "$case" route=cudnn
	refuses "$1" run rnn "$case" route=cudnn
	works info --why cuda
	[[ $output == *"; networks: no cuDNN"*"$1"* ]]
	works info
	[[ $output == *$'\n'"  lstm "*"f16 bf16 f32 f64: composed (no cuDNN: not cudnn)"* ]]
}

@test "the stand-ins for cuDNN 8.1.0, 8.9.7, 9.1.0 and 9.13.0 give the answers of PyTorch in stored cases of five kinds" {
	for version in 8.1.0 8.9.7 9.1.0 9.13.0; do
		with CELLGRAD_FAKE_CUDNN=$version
		works info --why cuda
		[[ $output == *"; networks: cuDNN $version, "*/libcudnn.so.${version%%.*}* ]]
		for case in "$DATA"/CudnnRNNV3-*{ragged,major,skip,deep,proj}.safetensors; do
			says cudnn run CudnnRNNV3 "$case" --expect "$case"
			says cudnn run CudnnRNNBackpropV3 "$case" --expect "$case"
		done
		CELLGRAD=$(sed -n 's/^exec [^ ]* \([^ ]*\) .*/\1/p' cellgrad)
	done
}

@test "info shows the route of networks of each cell in each dtype" {
	with CELLGRAD_FAKE_CUDNN=9.12.0
	works info
	[[ $output == *"cell "*"options "*"on cuda:0"* ]]
	[[ $output == *$'\n'"  lstm  "*"f16 f32 f64: cudnn; bf16: composed (bf16 in cuDNN 9.12.0: not cudnn)"* ]]
	[[ $output == *$'\n'"  lstm  "*"peephole  f16 bf16 f32 f64: composed (peephole: not cudnn)"* ]]
	[[ $output == *$'\n'"  gru_block  "*"composed (cell gru_block: not cudnn)"* ]]
	[[ $output == *$'\n'"  cuda:0: "*"; networks: cuDNN 9.12.0, /"* ]]
	works info --json
	[[ $output == *'"lstm":{"f16":"cudnn","bf16":"composed (bf16 in cuDNN 9.12.0: not cudnn)","f32":"cudnn","f64":"cudnn"}'* ]]
}

@test "without cuDNN the message has the names libcudnn.so.9 and libcudnn.so.8, which were tried" {
	# The stand-ins are for CUDA 12, since a cuDNN that is installed on this machine may be for another CUDA.
	with CELLGRAD_FAKE_CUDA=12.4 CELLGRAD_FAKE_CUDNN=none CELLGRAD_CUDNN_LIB=
	without "libcudnn.so.9"
	without "libcudnn.so.8"
}

@test "CELLGRAD_CUDNN_LIB=none looks for no cuDNN" {
	with CELLGRAD_CUDNN_LIB=none
	case=$DATA/CudnnRNNV3-gru-plain.safetensors
	says "composed (no cuDNN: not cudnn)" run CudnnRNNV3 "$case"
	refuses "rnn|route|cudnn|CELLGRAD_CUDNN_LIB=none" run rnn "$case" route=cudnn
}

@test "a named cuDNN that cannot be loaded is refused, whatever the route" {
	with CELLGRAD_CUDNN_LIB=/nowhere/libcudnn.so.9
	case=$DATA/CudnnRNNV3-gru-plain.safetensors
	for way in CudnnRNNV3 "rnn route=composed" "rnn route=cudnn"; do
		refuses "cuDNN|CELLGRAD_CUDNN_LIB|/nowhere/libcudnn.so.9" run $way "$case"
	done
	refuses "/nowhere/libcudnn.so.9" run GRUBlockCell "$DATA/GRUBlockCell-one.safetensors"
	export CELLGRAD_CUDNN_LIB=libcudnn.so.9
	refuses "CELLGRAD_CUDNN_LIB|absolute|path|'libcudnn.so.9'" run CudnnRNNV3 "$case"
}

@test "a named cuDNN before 8.1 is refused" {
	with CELLGRAD_FAKE_CUDNN=8.0.5
	refuses "cuDNN|8.0.5|8.1" run rnn "$DATA/CudnnRNNV3-gru-plain.safetensors"
}

@test "a named cuDNN for another CUDA than that of cuBLAS, or for a later one than that of the driver, is refused" {
	with CELLGRAD_FAKE_CUDART=12 CELLGRAD_FAKE_CUDA=13.0
	export CELLGRAD_CUDNN_LIB
	CELLGRAD_CUDNN_LIB=$(dirname "$(sed -n 's/^exec \([^ ]*\) .*/\1/p' cellgrad)")/lib/cudnn-9/libcudnn.so.9
	refuses "/libcudnn.so.9|CUDA|12|cuBLAS|13" run rnn "$DATA/CudnnRNNV3-gru-plain.safetensors"
	export CELLGRAD_CUBLAS_LIB=none CELLGRAD_FAKE_CUDART=13 CELLGRAD_FAKE_CUDA=12.4
	refuses "/libcudnn.so.9|CUDA|13|driver|12.4" run rnn "$DATA/CudnnRNNV3-gru-plain.safetensors"
}

@test "a failed call of cuDNN is reported with its status, and no other route is taken" {
	with
	case=$DATA/CudnnRNNV3-lstm-ragged.safetensors
	export CELLGRAD_FAKE_FAIL=cudnnCreate:1:1001
	fails "cuda|cudnnCreate|CUDNN_STATUS_NOT_INITIALIZED|1001" run rnn "$case"
	fails "cuDNN|CELLGRAD_CUDNN_LIB=none|/" run rnn "$case"
	export CELLGRAD_FAKE_FAIL=cudnnRNNForward:1:5000
	run -1 --separate-stderr "$CELLGRAD" run rnn "$case"
	[[ ${stderr_lines[0]} == *"cuda: cudnnRNNForward: CUDNN_STATUS_EXECUTION_FAILED (5000): "* ]]
	export CELLGRAD_FAKE_FAIL=cudnnRNNBackwardWeights_v8:1:4003
	run -1 --separate-stderr "$CELLGRAD" run rnn_backprop "$case"
	[[ ${stderr_lines[0]} == *"cuda: cudnnRNNBackwardWeights_v8: CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED (4003)"* ]]
}

@test "a reserve space belongs to one route and one version of cuDNN" {
	with
	case=$DATA/CudnnRNNV3-lstm-ragged.safetensors
	works run CudnnRNNV3 "$case" -o fwd.safetensors
	grep -aq '"route":"cudnn"' fwd.safetensors
	says cudnn run CudnnRNNBackpropV3 "$case" fwd.safetensors -o a.safetensors
	works run CudnnRNNBackpropV3 "$case" --expect a.safetensors
	refuses "fwd.safetensors|reserve_space|route=composed|route=cudnn" \
		run rnn_backprop "$case" fwd.safetensors route=composed
	CELLGRAD_CUDNN_LIB=none refuses "route=composed|route=cudnn" \
		run CudnnRNNBackpropV3 "$case" fwd.safetensors
	CELLGRAD_FAKE_CUDNN=9.1.0 refuses "reserve_space|network" \
		run CudnnRNNBackpropV3 "$case" fwd.safetensors
	works run rnn "$case" route=composed -o fwd.safetensors
	refuses "fwd.safetensors|reserve_space|route=cudnn|route=composed" \
		run rnn_backprop "$case" fwd.safetensors route=cudnn
	# If no route is given, the route in the file's metadata is taken.
	says composed run rnn_backprop fwd.safetensors "$case"
}

@test "with strict_rounding f16 and bf16 take route composed, f32 and f64 are not affected" {
	with
	for dtype in F16 BF16 F32; do
		tensors $dtype.safetensors "" input:$dtype:2,2,3 input_h:$dtype:1,2,4 input_c:$dtype:1,2,4 params:$dtype:144
		says cudnn run rnn $dtype.safetensors
	done
	for dtype in F16 BF16; do
		says "composed (strict_rounding in ${dtype,,}: not cudnn)" run rnn $dtype.safetensors strict_rounding=true -o out.safetensors
		[[ $stderr == *"cellgrad bench --op rnn "*" strict_rounding=true "* ]]
		grep -aq '"strict_rounding":"true"' out.safetensors
		refuses "rnn|route|cudnn|strict_rounding|${dtype,,}" run rnn $dtype.safetensors strict_rounding=true route=cudnn
		says composed run rnn $dtype.safetensors strict_rounding=true route=composed
	done
	says cudnn run rnn F32.safetensors strict_rounding=true
	case=$DATA/CudnnRNNV3-lstm-ragged.safetensors
	says cudnn run rnn "$case" strict_rounding=true --expect "$case"
	works bench --op rnn --T 3 --B 2 --I 4 --H 4 --time 0.001 --dtype f16 strict_rounding=true
	[[ $output == *"strict_rounding=true"* ]]
	works check rnn dtype=f16 strict_rounding=true seed=3
	# Only the library's own ops have the attribute strict_rounding.
	refuses "CudnnRNNV3|strict_rounding" run CudnnRNNV3 "$case" strict_rounding=true
}

@test "bench prints the route that is given, and refuses a misspelt one" {
	with
	for route in cudnn composed; do
		works bench --op rnn --T 3 --B 2 --I 4 --H 4 --time 0.001 route=$route
		[[ $output == *"route=$route"* ]]
	done
	refuses "rnn|route|composed|cudnn|NULL|cudn" bench --op rnn --T 3 --B 2 --I 4 --H 4 route=cudn
}

# With a stand-in for cuDNN the measured times have no meaning, so only the form of the table is tested.
@test "net_time prints a table of the times of networks beside the times of cuDNN alone" {
	program=$(dirname "$CELLGRAD")/tests/net_time fake=$(dirname "$CELLGRAD")/tests/fake/run
	with
	export NET_SMALL=1 NET_TIME=0.01
	run -0 "$fake" "$program" f32 f16 f64
	for setting in favourable default; do
		[ "$(grep -c "^| [a-z_]* | f[0-9]* |.*| $setting |.*[0-9]-[0-9]" <<<"$output")" -eq 24 ]
	done
	run -1 "$fake" "$program" --most 0 f32
	[[ $output == "| network | dtype |"* ]]
	CELLGRAD_CUDNN_LIB=none run -2 "$fake" "$program"
	[ "$output" = "net_time: CELLGRAD_CUDNN_LIB=none" ]
}
