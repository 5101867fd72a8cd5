# SPDX-License-Identifier: Apache-2.0
# Environment variables: unknown names, values that are not allowed, and what `cellgrad info` says of them.

load files

case=$BATS_TEST_DIRNAME/../data/GRUBlockCell-one.safetensors

# warns COMMAND...: exit status 0, and one warning about CELLGRAD_BACKEDN on standard error
warns() {
	CELLGRAD_BACKEDN=cuda run -0 --separate-stderr "$CELLGRAD" "$@"
	echo "standard error: $stderr"
	[ "$(grep -c CELLGRAD_BACKEDN <<<"$stderr")" -eq 1 ]
	[[ $stderr == *CELLGRAD_BACKEDN*CELLGRAD_BACKEND* ]]
}

@test "an unknown variable: a warning with the nearest name, and the work is done" {
	export CELLGRAD_BACKEND=cpu
	for words in --version "emit lstm --list" "info --why cpu" "run GRUBlockCell $case"; do
		warns $words
		[ "${#stderr_lines[@]}" -eq 1 ]
		[ -n "$output" ]
	done
	# The library warns, too, where it may; the command does not repeat it.
	CELLGRAD_VERBOSE=1 warns run GRUBlockCell "$case"
	CELLGRAD_QWERTYUIOP=1 CELLGRAD_THREADS=2 CELLGRAD_= run -0 --separate-stderr "$CELLGRAD" --version
	[ "${#stderr_lines[@]}" -eq 3 ]
	[[ $stderr == *CELLGRAD_THREADS*CELLGRAD_CPU_THREADS* ]]
	[[ $stderr == *CELLGRAD_QWERTYUIOP* ]]
	CELLGRAD_BACKEDN=cuda run -0 --separate-stderr "$CELLGRAD" info --why cpu --json
	[[ $stderr == '{"warning":"'*CELLGRAD_BACKEDN*'","command":""}' ]]
	# A refused command is still refused.
	CELLGRAD_BACKEDN=cuda run -2 --separate-stderr "$CELLGRAD" emti
	[[ ${stderr_lines[0]} == *CELLGRAD_BACKEDN* && ${stderr_lines[1]} == *emit* ]]
}

@test "variables of the tests, and other names that only begin alike, give no warning" {
	CELLGRAD_TEST_SEED=1 CELLGRAD_FAKE_CUDA=12.4 CELLGRADX=x XCELLGRAD_BACKEDN=x cellgrad_backend=x works --version
}

@test "control characters in a name are escaped" {
	run -0 --separate-stderr env $'CELLGRAD_\033[31mX=1' "$CELLGRAD" --version
	[[ $stderr == *CELLGRAD_* && $stderr != *$'\033'* ]]
}

# The variable, a wrong value, and further words of the message; on any backend that opens.
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

@test "a value that is not allowed: the message has the name, the value and what is allowed, before any work" {
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

@test "a value that depends on the machine is refused by the backend that reads it, and only by that" {
	for set in CPU_THREADS=1000000 CPU_ISA=$([[ $(uname -m) == aarch64 ]] && echo avx2 || echo neon); do
		export "CELLGRAD_$set"
		CELLGRAD_BACKEND=cpu refuses "CELLGRAD_${set%=*}: " run GRUBlockCell "$case"
		CELLGRAD_BACKEND=cpu:1,cpu refuses "'${set#*=}'" run GRUBlockCell "$case"
		[[ $stderr != *cpu:1* ]]
		if [[ $("$CELLGRAD" info 2>&1) == *"None can be used:"* ]]; then
			refuses "CELLGRAD_${set%=*}: " run GRUBlockCell "$case"
			[[ $stderr != *cuda* && $stderr != *opencl* ]]
		fi
		unset "CELLGRAD_${set%=*}"
	done
	# A backend that does not read it opens.
	CELLGRAD_BACKEND=cpu CELLGRAD_CUDNN_LIB=/nowhere/libcudnn.so CELLGRAD_OPENCL_LIB=/nowhere works run GRUBlockCell "$case"
}

@test "a named library that cannot be loaded is refused, and no other is taken" {
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

@test "names of backends" {
	for name in opencll CPU ' cpu' cpu,opencll cuda:0,CPU; do
		CELLGRAD_BACKEND=$name refuses "did you mean '" run GRUBlockCell "$case"
		message_has "cuda, opencl, cpu" || [[ $("$CELLGRAD" info) != *cuda* ]]
	done
	CELLGRAD_BACKEND=help refuses "opencl, cpu" run GRUBlockCell "$case"
	for list in , cpu, ,cpu cpu,,cpu; do
		CELLGRAD_BACKEND=$list refuses "'$list'" run GRUBlockCell "$case"
	done
}

@test "info lists the variables that are set, their effect, and what is wrong" {
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
	# Bytes that are not UTF-8 do not end it.
	CELLGRAD_BACKEND=$'cp\xff' run -0 --separate-stderr "$CELLGRAD" info --json
	[[ $output == *'"CELLGRAD_BACKEND":"cp?"'* ]]
}

@test "info works in any environment" {
	while read -r name value facts; do
		run -0 --separate-stderr env CELLGRAD_BACKEND=cpu "CELLGRAD_$name=$value" "$CELLGRAD" info
		[[ $output == *"None can be used:"*"CELLGRAD_$name: "*"'$value'"* ]]
		run -0 --separate-stderr env "CELLGRAD_$name=$value" "$CELLGRAD" info --why cpu
		[[ $output == *"CELLGRAD_$name: "*"'$value'"* ]]
	done < <(wrong)
}
