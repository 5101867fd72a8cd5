# SPDX-License-Identifier: Apache-2.0
# The variables of the environment: names that are none, values that are not allowed, and what `cellgrad info` says of them.

load files

case=$BATS_TEST_DIRNAME/../data/GRUBlockCell-one.safetensors

# warns COMMAND...: exit 0, and of CELLGRAD_BACKEDN once on standard error, and of nothing else
warns() {
	CELLGRAD_BACKEDN=cuda run -0 --separate-stderr "$CELLGRAD" "$@"
	echo "standard error: $stderr"
	[ "$(grep -c CELLGRAD_BACKEDN <<<"$stderr")" -eq 1 ]
	[[ $stderr == *CELLGRAD_BACKEDN*CELLGRAD_BACKEND* ]]
}

@test "a name that is no variable: a warning with the nearest, and the work is done" {
	export CELLGRAD_BACKEND=cpu
	for words in --version "emit lstm --list" "info --why cpu" "run GRUBlockCell $case"; do
		warns $words
		[ "${#stderr_lines[@]}" -eq 1 ]
		[ -n "$output" ]
	done
	# The library says it, too, where it may; once is enough.
	CELLGRAD_VERBOSE=1 warns run GRUBlockCell "$case"
	CELLGRAD_QWERTYUIOP=1 CELLGRAD_THREADS=2 CELLGRAD_= run -0 --separate-stderr "$CELLGRAD" --version
	[ "${#stderr_lines[@]}" -eq 3 ]
	[[ $stderr == *CELLGRAD_THREADS*CELLGRAD_CPU_THREADS* ]]
	[[ $stderr == *CELLGRAD_QWERTYUIOP* ]]
	CELLGRAD_BACKEDN=cuda run -0 --separate-stderr "$CELLGRAD" info --why cpu --json
	[[ $stderr == '{"warning":"'*CELLGRAD_BACKEDN*'","command":""}' ]]
	# A refusal stays one.
	CELLGRAD_BACKEDN=cuda run -2 --separate-stderr "$CELLGRAD" emti
	[[ ${stderr_lines[0]} == *CELLGRAD_BACKEDN* && ${stderr_lines[1]} == *emit* ]]
}

@test "names of the tests, and those that only look like ours, are nobody's mistake" {
	CELLGRAD_TEST_SEED=1 CELLGRAD_FAKE_CUDA=12.4 CELLGRADX=x XCELLGRAD_BACKEDN=x cellgrad_backend=x works --version
}

@test "a name is printed without what a terminal would obey" {
	run -0 --separate-stderr env $'CELLGRAD_\033[31mX=1' "$CELLGRAD" --version
	[[ $stderr == *CELLGRAD_* && $stderr != *$'\033'* ]]
}

# The variable, a wrong value, and what the message names beside both; on whatever backend opens.
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

@test "a value that is not allowed: the name, what is allowed and the value, before any work" {
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

@test "what only the machine can say is refused by who reads it, and alone" {
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

@test "a library that is named and cannot be loaded is refused, and no other is taken" {
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

@test "the backend's names, as ever" {
	for name in opencll CPU ' cpu' cpu,opencll cuda:0,CPU; do
		CELLGRAD_BACKEND=$name refuses "did you mean '" run GRUBlockCell "$case"
		message_has "cuda, opencl, cpu" || [[ $("$CELLGRAD" info) != *cuda* ]]
	done
	CELLGRAD_BACKEND=help refuses "opencl, cpu" run GRUBlockCell "$case"
	for list in , cpu, ,cpu cpu,,cpu; do
		CELLGRAD_BACKEND=$list refuses "'$list'" run GRUBlockCell "$case"
	done
}

@test "info lists what is set, what it does, and what is wrong with it" {
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
	# Bytes that are no UTF-8 are no end of it.
	CELLGRAD_BACKEND=$'cp\xff' run -0 --separate-stderr "$CELLGRAD" info --json
	[[ $output == *'"CELLGRAD_BACKEND":"cp?"'* ]]
}

@test "info tells whatever the environment says" {
	while read -r name value facts; do
		run -0 --separate-stderr env CELLGRAD_BACKEND=cpu "CELLGRAD_$name=$value" "$CELLGRAD" info
		[[ $output == *"None can be used:"*"CELLGRAD_$name: "*"'$value'"* ]]
		run -0 --separate-stderr env "CELLGRAD_$name=$value" "$CELLGRAD" info --why cpu
		[[ $output == *"CELLGRAD_$name: "*"'$value'"* ]]
	done < <(wrong)
}
