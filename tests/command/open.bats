# Drivers that end the process: `cellgrad info` outlives them.

load files

# driver: a loader of OpenCL that does what DRIVER says
driver() {
	${CC:-cc} -w -shared -fPIC -I"$BATS_TEST_DIRNAME/../.." -o driver.so "$BATS_TEST_DIRNAME/driver.c" -ldl
	export CELLGRAD_OPENCL_LIB=$PWD/driver.so
	unset CELLGRAD_BACKEND
}

needs_opencl() {
	if ! "$CELLGRAD" info --why opencl | grep -q '^opencl: opens'; then
		[[ ,$CELLGRAD_TEST_REQUIRE, != *,opencl,* ]]
		skip "there is no OpenCL device"
	fi
}

@test "info outlives a driver that ends its process while it is loaded" {
	driver
	for way in abort:"signal 6" crash:"signal 11" exit:"exit status 7"; do
		export DRIVER=clGetPlatformIDs:${way%%:*}
		case $way$SANITIZE in crash:*-fsanitize*) continue ;; esac
		run -0 --separate-stderr "$CELLGRAD" info
		echo "$output"
		[[ $output == *$'\n'"  opencl "*"its driver ended the process: ${way#*:}"* ]]
		[[ $output == *$'\n'"  cpu "*"cpu: kernels "* ]]
		[[ $output == *$'\n'"  lstm_block_cell "*"f16 bf16 f32 f64"* ]]
		run -0 --separate-stderr "$CELLGRAD" info --json
		[[ $output == *'{"name":"opencl","opens":false,"about":"its driver ended the process: '"${way#*:}"* ]]
		[[ $output == *'{"name":"cpu","opens":true,'* ]]
		run -0 --separate-stderr "$CELLGRAD" info --why opencl
		[[ $output == "opencl: its driver ended the process: ${way#*:}"* ]]
		run -0 --separate-stderr "$CELLGRAD" info --why opencl:0.0 --json
		[[ $output == '{"backend":"opencl:0.0","opens":false,"about":"its driver ended the process: '"${way#*:}"*'"devices":[]'* ]]
	done
	[ -z "$(find . -name 'core*')" ]
}

@test "info outlives a driver that ends its process when a device is opened" {
	needs_opencl
	driver
	devices=$("$CELLGRAD" info --json | grep -o '"name":"opencl:[^"]*","opens":true' | wc -l)
	[ "$devices" -ge 1 ]
	for call in clCreateContext clBuildProgram; do
		DRIVER=$call:abort run -0 --separate-stderr "$CELLGRAD" info
		[[ $output == *$'\n'"  opencl:0.0 "*"its driver ended the process: signal 6"* ]]
		[[ $output == *$'\n'"  cpu "*"cpu: kernels "* ]]
		[[ $output != *"on opencl:0.0"* ]]
		DRIVER=$call:abort run -0 --separate-stderr "$CELLGRAD" info --why opencl
		[[ $output == "opencl: its driver ended the process: signal 6"* ]]
	done
}

@test "what a driver prints is no part of what info prints" {
	needs_opencl
	works info --json
	plain=$output
	driver
	DRIVER=clGetPlatformIDs:print run -0 --separate-stderr "$CELLGRAD" info --json
	[ "${#lines[@]}" -eq 1 ]
	[[ $output != *"driver: hello"* && $stderr == *"driver: hello"* ]]
	[[ $output == '{"version":"'*'"name":"opencl:0.0","opens":true'* && $plain == *'"name":"opencl:0.0","opens":true'* ]]
}
