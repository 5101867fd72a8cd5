# SPDX-License-Identifier: Apache-2.0
# Tests the libraries of the cuda backend: they may be missing, too old, of another version, or broken. The stand-ins of tests/fake replace
# CUDA's libraries.

load files

# with [VARIABLE=VALUE...]: sets variables, and makes the command run on the cuda backend with the stand-ins for CUDA's libraries
with() {
	fake_lib=$(dirname "$CELLGRAD")/tests/fake/lib
	stand_ins CELLGRAD_BACKEND=cuda "$@"
}

# why WORDS: checks that the cuda backend does not open, and that the message has these words
why() {
	local facts

	works info --why cuda
	[[ $output == "cuda: "* && $output != *"opens:"* ]]
	IFS='|' read -r -a facts <<< "$1"
	stderr=$output has "${facts[@]}"
	refuses "$1" run GRUBlockCellGrad "$DATA/GRUBlockCellGrad-plain.safetensors"
}

# computes: checks that the command gives TensorFlow's answers in two stored cases
computes() {
	works run GRUBlockCellGrad "$DATA/GRUBlockCellGrad-plain.safetensors" \
		--expect "$DATA/GRUBlockCellGrad-plain.expect.safetensors"
	works run LSTMBlockCell "$DATA/LSTMBlockCell-half-plain.safetensors" \
		--expect "$DATA/LSTMBlockCell-half-plain.expect32.safetensors"
}

@test "the stand-ins for CUDA 11.2, 12.4 and 13.0 give the answers of TensorFlow in two stored cases" {
	with
	for version in 11.2 12.4 13.0; do
		export CELLGRAD_FAKE_CUDA=$version
		works info --why cuda
		[[ $output == "cuda: opens: cuda 0: "*"driver for CUDA $version by "*/libcuda.so.1* ]]
		computes
	done
}

@test "without cuBLAS, generated kernels compute the products" {
	with CELLGRAD_CUBLAS_LIB=none CELLGRAD_CUDNN_LIB=none
	computes
	works bench --op lstm_block_cell --B 2 --I 8 --H 8 --reps 3
}

@test "every block op gives the answers of TensorFlow in every stored case" {
	with CELLGRAD_CACHE_DIR="$PWD/kernels"
	has_answers LSTM GRU Block
}

@test "kernels of three cells give the bits of the kernels of cpu and, if it opens, of OpenCL, over 20000 rows" {
	with
	for reference in cpu opencl; do
		"$CELLGRAD" info --why $reference | grep -q ": opens" || continue
		works check lstm_block gru_block rnn_relu rows=20000 units=3 memory=device --ref $reference --max-time 5
		[[ $output =~ [1-9][0-9]*\ cases,\ 0\ failures ]]
	done
}

@test "bench prints the rate of a copy by the device itself" {
	with
	bench="bench --op LSTMBlockCellGrad --B 8 --I 3 --H 16 --time 0.001"
	works $bench
	[[ $output == *"roof of the device: its own copy "*" GB/s in 64 KiB, "* ]]
	works $bench --json
	[[ ${lines[1]} == *'"copy_gbytes":'[0-9]*'"bound":"copy"'* ]]
}

@test "info lists the libraries of a device" {
	with
	works info --why cuda
	[[ $output == *"  cuda:0  "*"; kernels: "*/libnvrtc.so.13"; products: "*/libcublas.so.13* ]]
	works info --why cuda --json
	[[ $output == *'"devices":[{"name":"cuda:0","about":'*"; products: "*/libcublas.so.13* ]]
	CELLGRAD_CUBLAS_LIB=/nowhere/libcublas.so works info
	[[ $output == *$'\n'"  cuda:0 "*"no cuBLAS: CELLGRAD_CUBLAS_LIB: tried /nowhere/libcublas.so"* ]]
}

@test "if a named driver does not exist, the message has the variable and the name" {
	with CELLGRAD_CUDA_LIB=/nowhere/libcuda.so.1
	why "CUDA|driver|CELLGRAD_CUDA_LIB|/nowhere/libcuda.so.1"
}

@test "a named driver must have an absolute path" {
	with CELLGRAD_CUDA_LIB=libcuda.so.1
	why "CELLGRAD_CUDA_LIB"
	[[ $stderr == *"'libcuda.so.1'"* ]]
}

@test "a library that is no driver is refused" {
	echo 'int nothing;' | ${CC:-cc} -shared -fPIC -x c -o nothing.so -
	with CELLGRAD_CUDA_LIB="$PWD/nothing.so"
	why "nothing.so|cuInit"
}

@test "a driver without a device gives a message" {
	with CELLGRAD_FAKE_DEVICES=0
	why "cuInit|CUDA_ERROR_NO_DEVICE|100"
}

@test "a driver that is too old gives a message with both versions" {
	with CELLGRAD_FAKE_DRIVER=10020
	why "CUDA|10.2|11.0"
}

@test "CUDA libraries that are already in the process are used first, then those in the same folder" {
	[[ $SANITIZE != *address* ]] || skip "the address sanitizer is to be loaded before any other library"
	with
	# The cuBLAS in the process is that of another CUDA than the one that the loader finds.
	sed -i "s,^exec \([^ ]*\) ,exec \1 env LD_PRELOAD=$fake_lib/cuda-12/libcublas.so.12 ," cellgrad
	works info --why cuda
	[[ $output == *"; kernels: $fake_lib/cuda-12/libnvrtc.so.12; products: $fake_lib/cuda-12/libcublas.so.12;"* ]]
	computes
	# CELLGRAD_CUBLAS_LIB overrides the cuBLAS in the process.
	export CELLGRAD_CUBLAS_LIB=$fake_lib/cuda-13/libcublas.so.13
	works info --why cuda
	[[ $output == *"; products: $fake_lib/cuda-13/libcublas.so.13;"* ]]
}

@test "libraries that are in the process are not used if they are of a later CUDA than the driver" {
	[[ $SANITIZE != *address* ]] || skip "the address sanitizer is to be loaded before any other library"
	with CELLGRAD_FAKE_CUDA=12.4
	sed -i "s,^exec \([^ ]*\) ,exec \1 env LD_PRELOAD=$fake_lib/cuda-13/libcublas.so.13 ," cellgrad
	works info --why cuda
	[[ $output == *"; kernels: $fake_lib/cuda-12/libnvrtc.so.12; products: $fake_lib/cuda-12/libcublas.so.12;"* ]]
}

@test "a named library of a wrong version, or for another processor, is refused" {
	with CELLGRAD_FAKE_CUDA=13.0 CELLGRAD_FAKE_DRIVER=12040
	ln -s "$fake_lib/cuda-13/libcublas.so.13" libcublas.so.12
	CELLGRAD_CUBLAS_LIB=$PWD/libcublas.so.12 why "CELLGRAD_CUBLAS_LIB|$PWD/libcublas.so.12|CUDA 13|driver supports CUDA 12.4|CUDA 12 or earlier"
	ln -s "$fake_lib/cuda-13/libnvrtc.so.13" libnvrtc.so.12
	CELLGRAD_NVRTC_LIB=$PWD/libnvrtc.so.12 why "CELLGRAD_NVRTC_LIB|$PWD/libnvrtc.so.12|CUDA 13|driver supports CUDA 12.4|CUDA 12 or earlier"
	unset CELLGRAD_FAKE_DRIVER
	cp "$fake_lib/cuda-13/libcublas.so.13" other.so
	printf '\267' | dd of=other.so bs=1 seek=18 conv=notrunc status=none
	CELLGRAD_CUBLAS_LIB=$PWD/other.so why "CELLGRAD_CUBLAS_LIB|$PWD/other.so|another processor|aarch64"
	echo nothing > other.so
	CELLGRAD_CUBLAS_LIB=$PWD/other.so why "CELLGRAD_CUBLAS_LIB|$PWD/other.so"
}

@test "a driver newer than all known ones works" {
	with CELLGRAD_FAKE_DRIVER=15020
	works info --why cuda
	[[ $output == *"driver for CUDA 15.2 by "* ]]
	computes
}

@test "info and messages name the device, the part of a device, and its compute mode" {
	with
	works info --why cuda
	[[ $output == *"stand-in 0; GPU-00112233-4455-6677-8899-aabbccddeeff; kernels: "* ]]
	CELLGRAD_FAKE_MIG=1 works info --why cuda
	[[ $output == *"stand-in 0 MIG 1g.10gb; MIG-01122334-4556-6778-899a-abbccddeef00; kernels: "* ]]
	CELLGRAD_FAKE_MODE=3 works info --why cuda
	[[ $output == *"; its compute mode allows one process at a time; kernels: "* ]]
	export CELLGRAD_FAKE_MODE=3 CELLGRAD_FAKE_BUSY=1
	why "cuDevicePrimaryCtxRetain|CUDA_ERROR_DEVICE_UNAVAILABLE|46|another process"
	export CELLGRAD_FAKE_MODE=2
	why "cuDevicePrimaryCtxRetain|CUDA_ERROR_DEVICE_UNAVAILABLE|46|mode"
	unset CELLGRAD_FAKE_MODE CELLGRAD_FAKE_BUSY
	export CUDA_VISIBLE_DEVICES=
	why "CUDA_ERROR_NO_DEVICE|100|CUDA_VISIBLE_DEVICES"
	CUDA_VISIBLE_DEVICES=-1 works info
	[[ $output == *"CUDA_VISIBLE_DEVICES=-1"* ]]
}

@test "if the driver says that a kernel did not end in time, there is a message" {
	with CELLGRAD_FAKE_FAIL=cuStreamSynchronize:1:702
	run -1 --separate-stderr "$CELLGRAD" run GRUBlockCellGrad "$DATA/GRUBlockCellGrad-plain.safetensors"
	[[ ${stderr_lines[0]} == *"cuda: cuStreamSynchronize: CUDA_ERROR_LAUNCH_TIMEOUT (702): "*"does not end"* ]]
}

@test "a device that does not exist gives a message" {
	with
	works info --why cuda:7
	[[ $output == *"there is no device 7: expected 0 to 0"* ]]
	CUDA_VISIBLE_DEVICES=0 works info --why cuda:7
	[[ $output == *"there is no device 7: expected 0 to 0; CUDA_VISIBLE_DEVICES is '0'" ]]
	# A device's number beyond the range of int is refused, and does not wrap around to another number.
	for number in 4294967296 -1 0x ''; do
		CELLGRAD_BACKEND=cuda:$number refuses "number|device" run GRUBlockCell "$DATA/GRUBlockCell-one.safetensors"
	done
}

@test "a named NVRTC that cannot be loaded is refused" {
	with CELLGRAD_NVRTC_LIB=/nowhere/libnvrtc.so
	why "NVRTC|CELLGRAD_NVRTC_LIB|/nowhere/libnvrtc.so"
	echo 'int nothing;' | ${CC:-cc} -shared -fPIC -x c -o nothing.so -
	export CELLGRAD_NVRTC_LIB=$PWD/nothing.so
	why "CELLGRAD_NVRTC_LIB|$PWD/nothing.so"
	# Also if no backend is named, a named NVRTC that cannot be loaded is an error, and no other backend is used.
	unset CELLGRAD_BACKEND
	refuses "CELLGRAD_NVRTC_LIB|$PWD/nothing.so" run GRUBlockCellGrad "$DATA/GRUBlockCellGrad-plain.safetensors"
}

@test "an NVRTC of a later CUDA than the driver is not used" {
	with CELLGRAD_FAKE_CUDA=13.0 CELLGRAD_FAKE_DRIVER=12040
	fails "libnvrtc.so.13|CUDA|13|driver|12.4" \
		run GRUBlockCellGrad "$DATA/GRUBlockCellGrad-plain.safetensors"
	unset CELLGRAD_BACKEND
	computes
	works info
	[[ $output != *"Used when no backend is named:"*"  cuda 0"* ]]
}

@test "a named cuBLAS that cannot be loaded is refused; CELLGRAD_CUBLAS_LIB=none runs without cuBLAS" {
	with CELLGRAD_CUBLAS_LIB=/nowhere/libcublas.so
	why "cuBLAS|CELLGRAD_CUBLAS_LIB|/nowhere/libcublas.so"
	export CELLGRAD_CUBLAS_LIB=none
	computes
}

@test "a failing launch of a kernel is reported with the call and the message of the driver" {
	with CELLGRAD_FAKE_FAIL=cuLaunchKernel:1:700
	run -1 --separate-stderr "$CELLGRAD" run GRUBlockCellGrad "$DATA/GRUBlockCellGrad-plain.safetensors"
	[[ ${stderr_lines[0]} == *"cuda: cuLaunchKernel: CUDA_ERROR_ILLEGAL_ADDRESS (700): an illegal memory access"* ]]
}

@test "too little memory on the device gives a message with the name and number of the error" {
	with CELLGRAD_FAKE_MEMORY=64
	fails "CUDA_ERROR_OUT_OF_MEMORY|2" run GRUBlockCellGrad "$DATA/GRUBlockCellGrad-plain.safetensors"
}

@test "kernels are cached: the next start needs no compiler, unless the compiler has changed" {
	with
	mkdir -p lib/cache
	cp -r "$fake_lib"/kernel* "$fake_lib"/cuda-13 lib
	# The NVRTC in lib/cuda-13 is found before the one in the stand-ins' folder, which is found after the former is removed.
	sed -i "s,^exec \([^ ]*\) ,exec \1 env LD_LIBRARY_PATH=$PWD/lib/cuda-13:$fake_lib/cuda-13:$fake_lib/cudnn-9 ," cellgrad
	export CELLGRAD_CACHE_DIR=$PWD/kernels
	computes
	export CELLGRAD_FAKE_FAIL=nvrtcCreateProgram:1
	computes
	rm lib/cuda-13/libnvrtc.so.13
	computes
	cp "$fake_lib/cuda-13/libnvrtc.so.13" lib/cuda-13
	fails "cuda|nvrtcCreateProgram" run GRUBlockCellGrad "$DATA/GRUBlockCellGrad-plain.safetensors"
	# If a named NVRTC was removed, the command is refused, although all kernels are cached.
	unset CELLGRAD_FAKE_FAIL
	export CELLGRAD_NVRTC_LIB=$PWD/lib/cuda-13/libnvrtc.so.13
	computes
	rm "$CELLGRAD_NVRTC_LIB"
	refuses "CELLGRAD_NVRTC_LIB|$CELLGRAD_NVRTC_LIB" run GRUBlockCellGrad "$DATA/GRUBlockCellGrad-plain.safetensors"
}
