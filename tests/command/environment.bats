# SPDX-License-Identifier: Apache-2.0
# Tests environment variables: unknown names, values that are not allowed, and the lines of `cellgrad info` about variables.

load files

case=$BATS_TEST_DIRNAME/../data/GRUBlockCell-one.safetensors

# warns COMMAND...: checks that a command with the variable CELLGRAD_BACKEDN succeeds, with one warning about it on standard error
warns() {
	CELLGRAD_BACKEDN=cuda run -0 --separate-stderr "$CELLGRAD" "$@"
	echo "standard error: $stderr"
	[ "$(grep -c CELLGRAD_BACKEDN <<<"$stderr")" -eq 1 ]
	[[ $stderr == *CELLGRAD_BACKEDN*CELLGRAD_BACKEND* ]]
}

@test "an unknown variable gives a warning, with the nearest name if there is one, and the command works" {
	export CELLGRAD_BACKEND=cpu
	for words in --version "emit lstm --list" "info --why cpu" "run GRUBlockCell $case"; do
		warns $words
		[ "${#stderr_lines[@]}" -eq 1 ]
		[ -n "$output" ]
	done
	# With CELLGRAD_VERBOSE=1 the library could warn of the unknown variable, too, but there is one warning only.
	CELLGRAD_VERBOSE=1 warns run GRUBlockCell "$case"
	CELLGRAD_QWERTYUIOP=1 CELLGRAD_THREADS=2 CELLGRAD_= run -0 --separate-stderr "$CELLGRAD" --version
	[ "${#stderr_lines[@]}" -eq 3 ]
	[[ $stderr == *CELLGRAD_THREADS*CELLGRAD_CPU_THREADS* ]]
	[[ $stderr == *CELLGRAD_QWERTYUIOP* ]]
	CELLGRAD_BACKEDN=cuda run -0 --separate-stderr "$CELLGRAD" info --why cpu --json
	[[ $stderr == '{"warning":"'*CELLGRAD_BACKEDN*'","command":""}' ]]
	# With an unknown variable a wrong subcommand is still refused.
	CELLGRAD_BACKEDN=cuda run -2 --separate-stderr "$CELLGRAD" emti
	[[ ${stderr_lines[0]} == *CELLGRAD_BACKEDN* && ${stderr_lines[1]} == *emit* ]]
}

@test "variables of the tests, and names that only resemble CELLGRAD_, give no warning" {
	CELLGRAD_TEST_SEED=1 CELLGRAD_FAKE_CUDA=12.4 CELLGRADX=x XCELLGRAD_BACKEDN=x cellgrad_backend=x works --version
}

@test "control characters in the name of a variable are escaped in the warning" {
	run -0 --separate-stderr env $'CELLGRAD_\033[31mX=1' "$CELLGRAD" --version
	[[ $stderr == *CELLGRAD_* && $stderr != *$'\033'* ]]
}

# wrong: prints lines of a variable's name without CELLGRAD_, a wrong value, and words that the message must have
wrong() {
	cat <<-END
		CACHE yes off ro rw
		CACHE of off ro rw off?
		CACHE_DIR kernels path
		CACHE_MAXSIZE 1G bytes
		CHECK maybe 0 1
		CPU_ISA avx9 baseline avx2 avx512 avx512bf16 amxbf16 neon
		CPU_THREADS 0 1
		CPU_THREADS two 1
		CUBLAS_LIB libcublas.so path none
		CUDA_LIB none path
		CUDNN_LIB libfoo.so path none
		NVRTC_LIB ./libnvrtc.so path
		OPENCL_LIB lib/libOpenCL.so path
		VERBOSE 2 0 none 1 calls
		VERBOSE true 0 none 1 calls
	END
}

@test "a value that is not allowed is refused, OUT is unchanged, and the message says what is allowed" {
	echo old >out.safetensors
	while read -r name value facts; do
		for backend in cpu ""; do
			run -2 --separate-stderr env CELLGRAD_BACKEND=$backend "CELLGRAD_$name=$value" "$CELLGRAD" run GRUBlockCell "$case" \
				-o out.safetensors
			message_has "CELLGRAD_$name: "
			message_has "'$value'"
			for fact in $facts; do
				message_has "$fact"
			done
		done
		[ "$(cat out.safetensors)" = old ]
	done < <(wrong)
}

@test "a number of threads or instruction set that this machine lacks is refused by cpu, which loads no library of other backends" {
	for set in CPU_THREADS=1000000 CPU_ISA=$([[ $(uname -m) == aarch64 ]] && echo avx2 || echo neon); do
		export "CELLGRAD_$set"
		CELLGRAD_BACKEND=cpu refuses "CELLGRAD_${set%=*}: " run GRUBlockCell "$case"
		CELLGRAD_BACKEND=cpu:1,cpu refuses "'${set#*=}'" run GRUBlockCell "$case"
		[[ $stderr != *cpu:1* ]]
		if [[ $("$CELLGRAD" info 2>&1) == *"No backend can be used:"* ]]; then
			refuses "CELLGRAD_${set%=*}: " run GRUBlockCell "$case"
			[[ $stderr != *cuda* && $stderr != *opencl* ]]
		fi
		unset "CELLGRAD_${set%=*}"
	done
	# The cpu backend opens although variables of other backends name libraries that do not exist.
	CELLGRAD_BACKEND=cpu CELLGRAD_CUDNN_LIB=/nowhere/libcudnn.so CELLGRAD_OPENCL_LIB=/nowhere works run GRUBlockCell "$case"
}

@test "a CUDA driver or OpenCL loader that a variable names but that cannot be loaded is an error" {
	for name in CUDA OPENCL; do
		for backend in ${name,,} ""; do
			[ "$name$backend" != CUDA ] || "$CELLGRAD" info --why cuda | grep -q 'no CUDA driver' || continue
			[ "$name$backend" != OPENCL ] || "$CELLGRAD" info --why cuda | grep -q 'no CUDA driver' || continue
			run -2 --separate-stderr env CELLGRAD_BACKEND=$backend CELLGRAD_${name}_LIB=/nowhere/lib.so "$CELLGRAD" \
				run GRUBlockCell "$case"
			message_has "CELLGRAD_${name}_LIB: "
			message_has /nowhere/lib.so
		done
	done
}

@test "a wrong name in CELLGRAD_BACKEND is refused, with the nearest name" {
	for name in opencll CPU ' cpu' cpu,opencll cuda:0,CPU; do
		CELLGRAD_BACKEND=$name refuses "did you mean '" run GRUBlockCell "$case"
		message_has "cuda, opencl, cpu" || [[ $("$CELLGRAD" info) != *cuda* ]]
	done
	CELLGRAD_BACKEND=help refuses "opencl, cpu" run GRUBlockCell "$case"
	for list in , cpu, ,cpu cpu,,cpu; do
		CELLGRAD_BACKEND=$list refuses "'$list'" run GRUBlockCell "$case"
	done
}

@test "info lists the variables that are set, with their effects, and reports wrong values" {
	export CELLGRAD_BACKEDN=cuda CELLGRAD_CACHE=yes CELLGRAD_CPU_THREADS=1 RUSTICL_ENABLE=nothing CELLGRAD_CACHE_DIR=
	run -0 --separate-stderr "$CELLGRAD" info
	[[ $output == *"  CELLGRAD_BACKEDN=cuda"$'\n'*CELLGRAD_BACKEND* ]]
	[[ $output == *"  CELLGRAD_CACHE=yes"$'\n'*kernels*"off, ro or rw"*"'yes'"* ]]
	[[ $output == *"  CELLGRAD_CPU_THREADS=1"$'\n'*threads* ]]
	[[ $output == *"  CELLGRAD_CACHE_DIR="$'\n'*folder* ]]
	[[ $output == *"  RUSTICL_ENABLE=nothing"$'\n'*rusticl* ]]
	run -0 --separate-stderr "$CELLGRAD" info --json
	[[ $output == *'"environment":{'*'"CELLGRAD_BACKEDN":"cuda"'* ]]
	[[ $output == *'{"name":"CELLGRAD_BACKEDN","value":"cuda","known":false,"what":"'*CELLGRAD_BACKEND* ]]
	[[ $output == *'{"name":"CELLGRAD_CPU_THREADS","value":"1","known":true,"what":"'*'"reader":"cpu","allowed":"'*'"refused":null}'* ]]
	[[ $output == *'{"name":"CELLGRAD_CACHE","value":"yes","known":true,'*'"allowed":"off, ro or rw","default":"rw","refused":"'*"'yes'"* ]]
	# `cellgrad info` works with a variable whose value is not UTF-8.
	CELLGRAD_BACKEND=$'cp\xff' run -0 --separate-stderr "$CELLGRAD" info --json
	[[ $output == *'"CELLGRAD_BACKEND":"cp?"'* ]]
}

@test "info works with each of the wrong values, and its text has the variable and the value" {
	while read -r name value facts; do
		run -0 --separate-stderr env CELLGRAD_BACKEND=cpu "CELLGRAD_$name=$value" "$CELLGRAD" info
		[[ $output == *"No backend can be used:"*"CELLGRAD_$name: "*"'$value'"* ]]
		run -0 --separate-stderr env "CELLGRAD_$name=$value" "$CELLGRAD" info --why cpu
		[[ $output == *"CELLGRAD_$name: "*"'$value'"* ]]
	done < <(wrong)
}
