# SPDX-License-Identifier: Apache-2.0
# Tests which backend opens if none is named: without a sign of a GPU no OpenCL driver is called, so that none can end the process.
# `cellgrad info` works even with OpenCL drivers that end their process.

load files

case=$BATS_TEST_DIRNAME/../data/GRUBlockCell-one.safetensors

# passes_over: skips the test if there is a sign of a GPU, since cellgrad then does not pass over OpenCL
passes_over() {
	unset CELLGRAD_BACKEND
	"$CELLGRAD" info --why opencl | grep -q 'passed over' || skip "a GPU with a driver for OpenCL is likely here"
}

# without_sanitizers: skips the test in builds with sanitizers, which change memory and the order of loading
without_sanitizers() {
	[ -z "$SANITIZE" ] || skip "a build with a sanitizer"
}

# driver: builds an OpenCL loader that fails as the variable DRIVER says
driver() {
	${CC:-cc} -w -shared -fPIC -I"$BATS_TEST_DIRNAME/../.." -o driver.so "$BATS_TEST_DIRNAME/driver.c" -ldl
	export CELLGRAD_OPENCL_LIB=$PWD/driver.so
	unset CELLGRAD_BACKEND
}

@test "if OpenCL is passed over, info and CELLGRAD_VERBOSE=1 report it" {
	passes_over
	works info --why opencl
	[[ $output =~ ^opencl:.*"passed over".*(/dev/dri/renderD|/etc/OpenCL/vendors|processors) ]]
	works info --why opencl --json
	[[ $output == *'"passed_over":"'?* ]]
	works info --why cpu --json
	[[ $output == *'"passed_over":null'* ]]
	works info
	[[ $output == *"Used when no backend is named:"*"opencl is passed over: "* ]]
	works info --json
	[[ $output == *'"default":{"opens":true,'*'"passed_over":{"opencl":"'* ]]
	CELLGRAD_BACKEND=cpu works info
	[[ $output != *"passed over"* ]]
	CELLGRAD_VERBOSE=1 run -0 --separate-stderr "$CELLGRAD" run GRUBlockCell "$case"
	[[ ${stderr_lines[0]} == "# cg_open: "*opencl*"passed over: "* ]]
	[[ ${stderr_lines[1]} == "cellgrad bench "* ]]
	CELLGRAD_BACKEND=cpu CELLGRAD_VERBOSE=1 run -0 --separate-stderr "$CELLGRAD" run GRUBlockCell "$case"
	[ "${#stderr_lines[@]}" -eq 1 ]
}

@test "if OpenCL is passed over, its loader is not called, unless the backend is named" {
	passes_over
	driver
	for call in clGetPlatformIDs clGetDeviceIDs; do
		DRIVER=$call:abort works run GRUBlockCell "$case"
		DRIVER=$call:abort works demo --only compare
		DRIVER=$call:abort works check gru_block_cell --max-time 1
	done
	CELLGRAD_BACKEND=opencl DRIVER=clGetPlatformIDs:abort run "$CELLGRAD" run GRUBlockCell "$case"
	[ "$status" -eq 134 ]
}

@test "the command works in a process that exports symbols of LLVM, to which OpenCL drivers may bind" {
	passes_over
	without_sanitizers
	${CC:-cc} -w -shared -fPIC -o llvm.so "$BATS_TEST_DIRNAME/llvm.c"
	LD_PRELOAD=$PWD/llvm.so CELLGRAD_BACKEND=opencl run "$CELLGRAD" run GRUBlockCell "$case"
	# With CELLGRAD_BACKEND=opencl a driver that binds to the symbols of llvm.so aborts the command (status 134); another status is
	# printed and is no failure, since this machine may have no such driver.
	[ "$status" -eq 134 ] || echo "# exit status of opencl by its name: $status" >&3
	LD_PRELOAD=$PWD/llvm.so works run GRUBlockCell "$case"
	LD_PRELOAD=$PWD/llvm.so works check gru_block_cell --max-time 1
	LD_PRELOAD=$PWD/llvm.so run -0 "$CELLGRAD" info
	[[ $output == *"Used when no backend is named:"*"cpu: "* ]]
}

@test "with too little memory the command ends with a status of at most 2, and info works" {
	passes_over
	without_sanitizers
	for limit in 40000 150000 250000 300000 400000 600000 1000000; do
		for op in GRUBlockCell-one GRUBlockCellGrad-wide; do
			# `timeout` makes a command that hangs fail the test, as one that aborts does.
			run bash -c 'ulimit -v "$1" || exit 0; exec timeout 100 "$0" run "${2%-*}" "$3"' "$CELLGRAD" "$limit" "$op" \
				"$DATA/$op.safetensors"
			echo "$limit: $status: $output"
			[ "$status" -le 2 ]
		done
		run bash -c 'ulimit -v "$1" || exit 0; exec timeout 100 "$0" info' "$CELLGRAD" "$limit"
		[ "$status" -eq 0 ]
	done
}

@test "cellgrad run without a named backend takes at most 1.3 times as long as with CELLGRAD_BACKEND=cpu" {
	passes_over
	"$CELLGRAD" info --why cuda | grep -q 'libcuda.so.1: cannot open' || skip "a driver of CUDA is loaded here"
	${CC:-cc} -w -D_GNU_SOURCE -o starts "$BATS_TEST_DIRNAME/starts.c"
	# Without a named backend the command may take at most 1.3 times the elapsed time that it takes with cpu, or at most 1.3 times the
	# processor time, which other processes affect less.
	for rounds in 20 20 40; do
		read -r unnamed named unnamed_at_work named_at_work < <(./starts $rounds "$CELLGRAD" run GRUBlockCell "$case")
		echo "$unnamed us, cpu by its name $named us; on a processor $unnamed_at_work us and $named_at_work us"
		((unnamed * 10 > named * 13 && unnamed_at_work * 10 > named_at_work * 13)) || return 0
	done
	return 1
}

@test "info works with a driver that ends its process when its platforms are listed" {
	driver
	for way in abort:"signal 6" crash:"signal 11" exit:"exit status 7"; do
		export DRIVER=clGetPlatformIDs:${way%%:*}
		case $way$SANITIZE in crash:*-fsanitize*) continue ;; esac
		run -0 --separate-stderr "$CELLGRAD" info
		echo "$output"
		[[ $output == *$'\n'"  opencl "*"the driver ended the process that asked it: ${way#*:}"* ]]
		[[ $output == *$'\n'"  cpu "*"cpu: kernels "* ]]
		[[ $output == *$'\n'"  lstm_block_cell "*"f16 bf16 f32 f64"* ]]
		run -0 --separate-stderr "$CELLGRAD" info --json
		[[ $output == *'{"name":"opencl","opens":false,"about":"the driver ended the process that asked it: '"${way#*:}"* ]]
		[[ $output == *'{"name":"cpu","opens":true,'* ]]
		run -0 --separate-stderr "$CELLGRAD" info --why opencl
		[[ $output == "opencl: the driver ended the process that asked it: ${way#*:}"* ]]
		run -0 --separate-stderr "$CELLGRAD" info --why opencl:0.0 --json
		[[ $output == '{"backend":"opencl:0.0","opens":false,"about":"the driver ended the process that asked it: '"${way#*:}"*'"devices":[]'* ]]
	done
	[ -z "$(find . -name 'core*')" ]
}

@test "info works with a driver that ends its process when a device is opened" {
	needs_opencl
	driver
	devices=$("$CELLGRAD" info --json | grep -o '"name":"opencl:[^"]*","opens":true' | wc -l)
	[ "$devices" -ge 1 ]
	for call in clCreateContext clBuildProgram; do
		DRIVER=$call:abort run -0 --separate-stderr "$CELLGRAD" info
		[[ $output == *$'\n'"  opencl:0.0 "*"the driver ended the process that asked it: signal 6"* ]]
		[[ $output == *$'\n'"  cpu "*"cpu: kernels "* ]]
		[[ $output != *"on opencl:0.0"* ]]
		DRIVER=$call:abort run -0 --separate-stderr "$CELLGRAD" info --why opencl
		[[ $output == "opencl: the driver ended the process that asked it: signal 6"* ]]
	done
}

@test "text that a driver prints is not on the standard output of info" {
	needs_opencl
	works info --json
	plain=$output
	driver
	DRIVER=clGetPlatformIDs:print run -0 --separate-stderr "$CELLGRAD" info --json
	[ "${#lines[@]}" -eq 1 ]
	[[ $output != *"driver: hello"* && $stderr == *"driver: hello"* ]]
	[[ $output == '{"version":"'*'"name":"opencl:0.0","opens":true'* && $plain == *'"name":"opencl:0.0","opens":true'* ]]
}
