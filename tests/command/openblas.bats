# SPDX-License-Identifier: Apache-2.0
# Tests an OpenBLAS that is missing, too old or broken: the library then computes products by its own code, and `cellgrad info` says why.

load files

setup_file() {
	# On x86-64 cellgrad uses OpenBLAS only with the instruction set `baseline`; with others its own products are faster.
	export CELLGRAD_CPU_ISA=baseline
	cd "$BATS_FILE_TMPDIR" || return 1
	build right
	build openmp -DWITH_OPENMP
	# The file `without` says why OpenBLAS is not looked for, if this build or the C library cannot load it.
	LD_LIBRARY_PATH=$BATS_FILE_TMPDIR/right "$CELLGRAD" info > info
	grep -q "products OpenBLAS" info || grep -o 'built without OpenBLAS\|no dlmopen' info > without || :
}

# build FOLDER [FLAG...]: builds a stand-in for OpenBLAS in a new folder
build() {
	local folder=$1

	shift
	mkdir "$folder"
	${CC:-cc} -shared -fPIC -w -o "$folder/libopenblas.so.0" "$BATS_TEST_DIRNAME/openblas_stand_in.c" "$@"
}

looks_for_one() {
	[ ! -s "$BATS_FILE_TMPDIR/without" ] || skip "OpenBLAS: $(cat "$BATS_FILE_TMPDIR/without")"
	cd "$BATS_FILE_TMPDIR" || return 1
}

# with FOLDER: makes all further commands find the folder's libraries before the system's
with() { export LD_LIBRARY_PATH=$BATS_FILE_TMPDIR/$1; }

# computes: checks that the command gives TensorFlow's answers in two stored cases, without a message on standard error
computes() {
	works run GRUBlockCellGrad "$DATA/GRUBlockCellGrad-plain.safetensors" \
		--expect "$DATA/GRUBlockCellGrad-plain.expect.safetensors"
	works run LSTMBlockCell "$DATA/LSTMBlockCell-half-plain.safetensors" \
		--expect "$DATA/LSTMBlockCell-half-plain.expect32.safetensors"
}

# used [PATH]: checks that an OpenBLAS is used whose path contains PATH, and that answers are right
used() {
	works info --why cpu
	echo "$output"
	[[ $output == "cpu: opens: cpu: kernels "*"; products OpenBLAS (OpenBLAS "*" at "*"$1"* ]]
	computes
}

# declined WORDS...: checks that cellgrad's own products are used, that the reason against OpenBLAS has each of the words, and that
# answers are right
declined() {
	works info --why cpu
	echo "$output"
	[[ $output == "cpu: opens: cpu: kernels "*"; products our own ("*"); "*" thread"* ]]
	[ "${#lines[@]}" -eq 1 ]
	for words; do
		[[ $output == *"$words"* ]]
	done
	computes
}

@test "a right OpenBLAS is used, whether it is built with pthreads, OpenMP or locks" {
	looks_for_one
	with right
	used "$BATS_FILE_TMPDIR/right/libopenblas.so.0)"
	STAND_IN=oldest used right/libopenblas.so.0
	STAND_IN=newer used right/libopenblas.so.0
	STAND_IN="serial with locks" used right/libopenblas.so.0
	with openmp
	STAND_IN=OpenMP used openmp/libopenblas.so.0
}

@test "an OpenBLAS that CELLGRAD_OPENBLAS_LIB names is used, or is an error" {
	looks_for_one
	build scipy -DPREFIX=scipy_
	mv scipy/libopenblas.so.0 scipy/libscipy_openblas.so
	export CELLGRAD_OPENBLAS_LIB=$BATS_FILE_TMPDIR/scipy/libscipy_openblas.so
	used "$CELLGRAD_OPENBLAS_LIB)"
	with right
	used "$CELLGRAD_OPENBLAS_LIB)"
	CELLGRAD_CPU_ISA=$(sed -n 's/^cpu.* kernels \([a-z0-9]*\);.*/\1/p' <(CELLGRAD_CPU_ISA= "$CELLGRAD" info --why cpu)) computes
	CELLGRAD_OPENBLAS_LIB=none declined "(CELLGRAD_OPENBLAS_LIB=none)"
	export CELLGRAD_OPENBLAS_LIB=/nowhere/libopenblas.so.0
	works info --why cpu
	[[ $output == *"CELLGRAD_OPENBLAS_LIB: /nowhere/libopenblas.so.0: "* && $output != *"; products "* ]]
	CELLGRAD_BACKEND=cpu refuses "CELLGRAD_OPENBLAS_LIB|/nowhere/libopenblas.so.0" run GRUBlockCell "$DATA/GRUBlockCell-plain.safetensors"
	CELLGRAD_OPENBLAS_LIB=libopenblas.so.0 refuses "CELLGRAD_OPENBLAS_LIB|absolute|path" run GRUBlockCell "$DATA/GRUBlockCell-plain.safetensors"
	export CELLGRAD_OPENBLAS_LIB=$BATS_FILE_TMPDIR/right/libopenblas.so.0
	CELLGRAD_BACKEND=cpu STAND_IN=stubborn refuses "CELLGRAD_OPENBLAS_LIB|was set to one thread but has 8" \
		run GRUBlockCell "$DATA/GRUBlockCell-plain.safetensors"
}

@test "an OpenBLAS that lacks a symbol is not used" {
	looks_for_one
	build empty -DWITHOUT_{CONFIG,PARALLEL,SET,GET,SGEMM,DGEMM}
	with empty
	declined "$BATS_FILE_TMPDIR/empty/libopenblas.so.0: has no openblas_get_config"
	for symbol in CONFIG:openblas_get_config PARALLEL:openblas_get_parallel SET:openblas_set_num_threads \
		GET:openblas_get_num_threads SGEMM:cblas_sgemm DGEMM:cblas_dgemm; do
		build "no_$symbol" "-DWITHOUT_${symbol%:*}"
		mv "no_$symbol" no_symbol
		with no_symbol
		declined "no_symbol/libopenblas.so.0: has no ${symbol#*:}"
		rm -r no_symbol
	done
	with right
	STAND_IN=OpenMP declined "right/libopenblas.so.0: is built on OpenMP, but omp_set_num_threads is missing"
}

@test "an OpenBLAS that reports another configuration, or is too old, is not used" {
	looks_for_one
	with right
	for way in "no words" empty another "older than its name" escapes; do
		STAND_IN=$way declined "right/libopenblas.so.0: expected a library that says it is OpenBLAS 0.3.10 or later, got '"
		[[ $output != *$'\033'* ]]
	done
	STAND_IN=another declined "'MKL 2024.0'"
	STAND_IN=older declined "right/libopenblas.so.0: is OpenBLAS 0.3.9, older than the oldest that can be used, 0.3.10"
	STAND_IN="64 bits" declined "right/libopenblas.so.0: takes integers of 64 bits: expected a library that takes integers of 32 bits"
	STAND_IN=serial declined "right/libopenblas.so.0: is built without threads and without locks, so that threads may not call the library at the same time"
	STAND_IN=stubborn declined "right/libopenblas.so.0: was set to one thread but has 8"
}

@test "an OpenBLAS whose products are wrong is not used" {
	looks_for_one
	with right
	for gemm in sgemm dgemm; do
		for way in "" " transposed a" " transposed b" " beyond"; do
			STAND_IN=$gemm$way declined "right/libopenblas.so.0: the library's product of two small matrices is wrong"
		done
	done
}

@test "a file that is no library, or does not load, is not used" {
	looks_for_one
	mkdir text nothing folder folder/libopenblas.so.0
	echo "INPUT(nothing)" > text/libopenblas.so.0
	with text
	declined "$BATS_FILE_TMPDIR/text/libopenblas.so.0: "
	: > nothing/libopenblas.so.0
	with nothing
	declined "$BATS_FILE_TMPDIR/nothing/libopenblas.so.0: "
	with folder
	declined "libopenblas.so.0: "
	echo "void gone(void) {}" > gone.c
	${CC:-cc} -shared -fPIC -w -o libgone.so gone.c
	build dependent -Wl,--no-as-needed -L. -lgone
	rm libgone.so
	with dependent
	declined "libopenblas.so.0: libgone.so: "
	build undefined -DWITH_UNDEFINED
	with undefined
	declined "$BATS_FILE_TMPDIR/undefined/libopenblas.so.0: undefined symbol: nowhere_to_be_found"
}

@test "instead of an OpenBLAS for another processor the next one, or none, is used" {
	looks_for_one
	mkdir bits machine
	cp right/libopenblas.so.0 bits
	printf '\001' | dd of=bits/libopenblas.so.0 bs=1 seek=4 conv=notrunc 2>dd
	cp right/libopenblas.so.0 machine
	printf '\363\000' | dd of=machine/libopenblas.so.0 bs=1 seek=18 conv=notrunc 2>dd
	for kind in bits machine; do
		with $kind:$BATS_FILE_TMPDIR/right
		works info --why cpu
		[[ $output == *right/libopenblas.so.0* || $output == *"products our own ("* ]]
		computes
	done
}

@test "if memory is limited OpenBLAS is not loaded, since it would wait for its buffers forever" {
	looks_for_one
	[ -z "$SANITIZE" ] || skip "a build with a sanitizer takes more memory than that"
	with right
	run -0 bash -c 'ulimit -v 250000 && exec "$0" info --why cpu' "$CELLGRAD"
	[[ $output == "cpu: opens: "*"products our own ("*"ulimit -v"* ]]
	run -0 bash -c 'ulimit -v 250000 && exec timeout 60 "$0" run GRUBlockCellGrad "$1/GRUBlockCellGrad-plain.safetensors" \
		--expect "$1/GRUBlockCellGrad-plain.expect.safetensors"' "$CELLGRAD" "$DATA"
	used right/libopenblas.so.0
}

@test "variables for the threads of OpenBLAS do not change the bits of an answer, and OPENBLAS_CORETYPE leaves answers right" {
	looks_for_one
	computes
	works run GRUBlockCellGrad "$DATA/GRUBlockCellGrad-wide.safetensors" -o plain.safetensors
	for n in 0 1 7 -1 999999999999 nonsense ""; do
		export OPENBLAS_NUM_THREADS=$n GOTO_NUM_THREADS=$n OMP_NUM_THREADS=$n OPENBLAS_THREAD_TIMEOUT=4
		works run GRUBlockCellGrad "$DATA/GRUBlockCellGrad-wide.safetensors" -o other.safetensors
		cmp plain.safetensors other.safetensors
	done
	for core in nonsense "" 9; do
		export OPENBLAS_CORETYPE=$core
		computes
	done
}
