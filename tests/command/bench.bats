# SPDX-License-Identifier: Apache-2.0
# Tests `cellgrad bench`: problems from arguments, measurements, output and pictures; and the lines that CELLGRAD_VERBOSE=1
# prints, each of which is a command of `cellgrad bench`.

load files

# bench_works WORDS...: runs `cellgrad bench` for a short time; it must succeed without a message on standard error
bench_works() {
	works bench --time 0.001 "$@"
}

# json WORDS...: runs `cellgrad bench --json`; ${lines[@]} are the objects of the problems, without the object of the roofs
json() {
	bench_works --json "$@"
	[[ ${lines[0]} == '{"kind":"roofs",'* ]]
	lines=("${lines[@]:1}")
}

# field NAME OBJECT: prints the number in a field of a JSON object
field() {
	[[ $2 =~ \"$1\":([0-9.e+-]+) ]] && echo "${BASH_REMATCH[1]}"
}

@test "the output has the version, the kernels and the roofs, and a table with one row for one problem" {
	unset "${!OPENBLAS_@}"
	bench_works --op LSTMBlockCell --B 2 --I 3 --H 4
	[[ ${lines[0]} == "cellgrad "[0-9]* ]]
	[[ ${lines[1]} == "cpu: kernels "* ]]
	[[ ${lines[2]} =~ ^"roofs of "[0-9]+" thread".*"GFLOP/s in f32, "[0-9]+" in f64, "[0-9]+" in bf16".*"GB/s in 64 KiB, ".*" MiB"$ ]]
	[[ ${lines[3]} =~ ^op\ +mode\ +what\ +dtype\ +T\ +L\ +B\ +I\ +H\ +min\ ms\ +median\ +spread\ +GFLOP/s\ +GB/s\ +of\ roof ]]
	[[ ${lines[4]} =~ ^LSTMBlockCell\ +lstm\ +fwd\ +f32\ +1\ +1\ +2\ +3\ +4\ +0\.[0-9]+\ .*%\ +(copy|products)$ ]]
	[ "${#lines[@]}" -eq 5 ]
}

@test "the line of the roofs names the best instruction set for x86-64 that CELLGRAD_CPU_ISA can choose on this processor, or baseline" {
	local best=baseline isa

	for isa in avx2 avx512 avx512bf16 amxbf16; do
		CELLGRAD_CPU_ISA=$isa $CELLGRAD bench --time 0.001 --op LSTMBlockCell --B 1 --I 1 --H 1 && best=$isa
	done
	bench_works --op LSTMBlockCell --B 1 --I 1 --H 1
	[[ ${lines[2]} == *"in bf16 ($best); copy "* ]]
}

@test "--json prints an object with the roofs, then an object for the problem" {
	bench_works --op LSTMBlockCellGrad --B 2 --I 3 --H 4 --json use_peephole=true
	[ "${#lines[@]}" -eq 2 ]
	for name in threads f32_gflops f64_gflops bf16_gflops bytes gbytes; do
		awk "BEGIN { exit !($(field $name "${lines[0]}") > 0) }"
	done
	[[ ${lines[0]} == *'"version":"'[0-9]*'"device":"cpu: kernels '*'"attributes":["use_peephole=true"]'*'"environment":{'* ]]
	[[ ${lines[1]} == '{"kind":"problem","op":"LSTMBlockCellGrad","mode":"lstm","dtype":"f32","T":1,"B":2,"I":3,"H":4,"layers":1,"valid":1.0,"threads":'[0-9]*',"backend":"cpu","what":"bwd","reps":'[0-9]*',"min_ms":'*',"median_ms":'*',"gflops":'* ]]
	[[ ${lines[1]} == *'"problem":"--op LSTMBlockCellGrad --B 2 --I 3 --H 4 --dtype f32 use_peephole=true"}' ]]
}

@test "numbers of operations and bytes equal those counted by hand" {
	# The weights are [7 16] for the LSTM, [7 8] and [7 4] for the GRU. A product takes two operations for each weight and row. A forward
	# call has one product with each matrix. The library's own gradient ops have two products with each matrix, GRUBlockCellGrad has one,
	# LSTMBlockCellGrad none.
	for case in LSTMBlockCell:448:824 LSTMBlockCellGrad:0:464 lstm_block_cell_grad:896:1536 GRUBlockCell:336:568 \
		GRUBlockCellGrad:336:648 gru_block_cell_grad:672:1056; do
		IFS=: read -r op flops bytes <<< "$case"
		json --op "$op" --B 2 --I 3 --H 4
		echo "$op: ${lines[0]}"
		[ "$(field flops "${lines[0]}")" = "$flops" ]
		[ "$(field bytes "${lines[0]}")" = "$bytes" ]
	done
	# LSTMBlockCell with peepholes reads three vectors more; f16 has half the bytes of f32.
	json --op LSTMBlockCell --B 2 --I 3 --H 4 --dtype f16 use_peephole=true
	[ "$(field bytes "${lines[0]}")" -eq 436 ]
	# If the batch has no rows, only the gradients of the weights, bias and peepholes are written.
	json --op lstm_block_cell_grad --B 0 --I 3 --H 4
	[ "$(field flops "${lines[0]}")" -eq 0 ]
	[ "$(field bytes "${lines[0]}")" -eq 560 ]
	json --op lstm_block_cell --B 2 --I 3 --H 4 --what fwd+bwd
	[ "$(field flops "${lines[0]}")" -eq 1344 ]
	[ "$(field bytes "${lines[0]}")" -eq 2360 ]
}

@test "the rates follow from the median time, the spread is less than the median, and the share of the roof is positive" {
	works bench --op gru_block_cell_grad --B 8 --I 32 --H 32 --time 0.02 --json
	lines=("${lines[1]}")
	awk -v least="$(field min_ms "${lines[0]}")" -v median="$(field median_ms "${lines[0]}")" -v spread="$(field spread_ms "${lines[0]}")" \
		-v flops="$(field flops "${lines[0]}")" -v bytes="$(field bytes "${lines[0]}")" \
		-v gflops="$(field gflops "${lines[0]}")" -v gbytes="$(field gbytes "${lines[0]}")" -v share="$(field share "${lines[0]}")" '
		function near(x, y) { return x > 0.999 * y && x < 1.001 * y }
		BEGIN { exit !(least > 0 && least <= median && spread >= 0 && spread < median && share > 0 &&
		               near(gflops * median * 1e6, flops) && near(gbytes * median * 1e6, bytes)) }'
}

@test "on an OpenCL device the table shows the rate of a copy by the device itself, which is the roof of an op without products" {
	needs_opencl
	export CELLGRAD_BACKEND=opencl
	unset "${!OPENBLAS_@}"
	bench_works --op LSTMBlockCellGrad --B 2,0 --I 3 --H 4
	[[ ${lines[2]} =~ ^"roof of the device: its own copy "[0-9.]+" GB/s in 64 KiB, ".*" MiB"$ ]]
	[[ ${lines[3]} =~ GFLOP/s\ +GB/s\ +copy\ +of\ roof ]]
	[[ ${lines[4]} =~ ^LSTMBlockCellGrad\ +lstm\ +bwd\ .*%\ +copy$ ]]
	[ "${#lines[@]}" -eq 6 ]
	works bench --op LSTMBlockCellGrad --B 64 --I 3 --H 256 --time 0.02 --json
	[[ ${lines[0]} == *'"isa":null,"f32_gflops":null,"f64_gflops":null,"bf16_gflops":null,"copy":[{"bytes":65536,"gbytes":'* ]]
	[[ ${lines[1]} == *'"bound":"copy"'* ]]
	awk -v rate="$(field gbytes "${lines[1]}")" -v copy="$(field copy_gbytes "${lines[1]}")" -v share="$(field share "${lines[1]}")" \
		'BEGIN { exit !(rate > 0 && copy > 0 && share > 0.999 * rate / copy && share < 1.001 * rate / copy) }'
	# On an OpenCL device `bound` is null for an op with products, since the roof that bounds a product is not known.
	bench_works --json --op GRUBlockCell --B 2 --I 3 --H 4
	[[ ${lines[1]} == *'"copy_gbytes":'[0-9]*'"bound":null,"share":null'* ]]
	CELLGRAD_BACKEND=cpu bench_works --json --op GRUBlockCell --B 2 --I 3 --H 4
	[[ ${lines[1]} == *'"copy_gbytes":null,"bound":"'* ]]
}

@test "a batch of 64 rows takes more than twice as long as a batch of one row" {
	works bench --json --op LSTMBlockCell --B 1,64 --I 64 --H 128 --time 0.05
	lines=("${lines[@]:1}")
	awk "BEGIN { exit !(2 * $(field min_ms "${lines[0]}") < $(field min_ms "${lines[1]}")) }"
}

@test "lists of sizes give every combination, in order" {
	json --op GRUBlockCell --B 2,1 --I 3 --H 4,5
	[ "${#lines[@]}" -eq 4 ]
	local k=0
	for sizes in '"B":2,"I":3,"H":4' '"B":2,"I":3,"H":5' '"B":1,"I":3,"H":4' '"B":1,"I":3,"H":5'; do
		[[ ${lines[k++]} == *"$sizes"* ]]
	done
}

@test "without --op TensorFlow's block ops and CudnnRNNV3 in each mode, and their gradients, are measured; --mode and --what choose some" {
	json --B 2 --I 3 --H 4
	[ "${#lines[@]}" -eq 16 ]
	[[ ${lines[0]} == *'"LSTMBlockCell","mode":"lstm"'*'"T":1,"B":2'* ]]
	[[ ${lines[7]} == *'"BlockLSTMGradV2","mode":"lstm"'*'"T":16,"B":2'* ]]
	[[ ${lines[8]} == *'"CudnnRNNV3","mode":"lstm"'* && ${lines[15]} == *'"CudnnRNNBackpropV3","mode":"rnn_relu"'* ]]
	json --B 2 --I 3 --H 4 --T 2,0
	[ "${#lines[@]}" -eq 24 ]
	[[ ${lines[0]} == *'"BlockLSTM"'*'"T":2,'* && ${lines[1]} == *'"BlockLSTM"'*'"T":0,'* ]]
	json --B 2 --I 3 --H 4 --T 1
	[ "${#lines[@]}" -eq 16 ]
	json --B 2 --I 3 --H 4 --mode gru
	[ "${#lines[@]}" -eq 4 ]
	[[ ${lines[0]} == *'"GRUBlockCell"'*'"what":"fwd"'* ]]
	[[ ${lines[1]} == *'"GRUBlockCellGrad"'*'"what":"bwd"'* ]]
	[[ ${lines[2]} == *'"CudnnRNNV3","mode":"gru"'* ]]
	json --B 2 --I 3 --H 4 --layers 2 --mode rnn_tanh
	[[ ${#lines[@]} -eq 2 && ${lines[1]} == *'"layers":2,'* ]]
	json --B 2 --I 3 --H 4 --what bwd
	[[ ${#lines[@]} -eq 8 && ${lines[0]} == *'"LSTMBlockCellGrad"'* && ${lines[2]} == *'"BlockLSTMGrad"'* ]]
	json --B 2 --I 3 --H 4 --what fwd+bwd --dtype bf16
	[[ ${#lines[@]} -eq 8 && ${lines[1]} == *'"GRUBlockCell"'*'"bf16"'*'"fwd+bwd"'* ]]
}

@test "sizes that are not given have defaults" {
	json --op GRUBlockCell
	[[ ${lines[0]} == *'"B":32,"I":256,"H":512'* ]]
}

@test "--what selects the pass, whether --op names the forward op or its gradient op" {
	json --op lstm_block_cell --what bwd --B 2 --I 3 --H 4
	[ "$(field flops "${lines[0]}")" -eq 896 ]
	[[ ${lines[0]} == *'--dtype f32 --what bwd"}' ]]
	json --op LSTMBlockCellGrad --what fwd --B 2 --I 3 --H 4
	[ "$(field flops "${lines[0]}")" -eq 448 ]
}

@test "lstm_block_cell and gru_block_cell are measured in every dtype, with a batch of three rows and an empty one" {
	for dtype in f16 bf16 f32 f64; do
		for op in lstm_block_cell gru_block_cell; do
			json --op $op --what fwd+bwd --B 0,3 --I 5 --H 7 --dtype $dtype
			[ "${#lines[@]}" -eq 2 ]
			[[ ${lines[1]} == *"\"dtype\":\"$dtype\""* ]]
		done
	done
}

@test "the attribute T selects the dtype, as --dtype does, and may not contradict it" {
	json --op GRUBlockCell --B 2 --I 3 --H 4 T=double
	[[ ${lines[0]} == *'"dtype":"f64"'* ]]
	refuses "T=half|--dtype|f32" bench --op GRUBlockCell T=half --dtype f32
}

@test "--reps sets the number of measurements" {
	works bench --op GRUBlockCell --B 2 --I 3 --H 4 --reps 7 --json
	[[ ${lines[1]} == *'"reps":7,'* ]]
}

@test "--threads sets the number of threads" {
	json --op GRUBlockCell --B 2 --I 3 --H 4 --threads 1 --T 1 --layers 1
	[[ ${lines[0]} == *'"threads":1,'* ]]
}

@test "OPENBLAS_CORETYPE is shown with a warning if OpenBLAS computes products" {
	bench=(bench --time 0.001 --op GRUBlockCell --B 1 --I 1 --H 1)
	unset "${!OPENBLAS_@}"
	export CELLGRAD_CPU_ISA=baseline
	"$CELLGRAD" info --why cpu | grep -q "products OpenBLAS" || skip "no OpenBLAS"
	works "${bench[@]}"
	[[ $output != *warning* ]]
	works "${bench[@]}" --json
	[[ $output == *'"warning":null,"environment":{}'* ]]
	# OPENBLAS_CORETYPE=Prescott works on every x86-64 processor.
	OPENBLAS_CORETYPE=Prescott works "${bench[@]}"
	[[ $output == *$'\nOPENBLAS_CORETYPE=Prescott\nwarning: '*OPENBLAS_CORETYPE* ]]
	OPENBLAS_CORETYPE=Prescott works "${bench[@]}" --json
	[[ $output == *'"warning":"'*'"environment":{"OPENBLAS_CORETYPE":"Prescott"}'* ]]
	# With avx2 there is no warning, since cellgrad then uses its own products instead of OpenBLAS.
	if CELLGRAD_CPU_ISA=avx2 "$CELLGRAD" info --why cpu | grep -q opens; then
		OPENBLAS_CORETYPE=Prescott CELLGRAD_CPU_ISA=avx2 works "${bench[@]}"
		[[ $output != *warning* ]]
	fi
}

# An example of --help without --time runs with a short time.
@test "the examples of --help succeed without a message" {
	works bench --help
	examples=$(sed -n '/^Examples:/,/^$/s/^  cellgrad/cellgrad/p' <<< "$output")
	[ "$(wc -l <<< "$examples")" -ge 4 ]
	while read -r line; do
		echo "$line"
		PATH=$(dirname "$CELLGRAD"):$PATH
		[[ $line == *--time* ]] || line="cellgrad bench --time 0.001 ${line#cellgrad bench}"
		run -0 --separate-stderr bash -c "$line"
		[ -z "$stderr" ]
	done <<< "$examples"
	[ "$(wc -l < gru.json)" -eq 5 ]
}

# ---- refusals ----

@test "a misspelt op, dtype, pass or mode is refused" {
	refuses "--op|LSTMBlokCell|LSTMBlockCell" bench --op LSTMBlokCell
	refuses "--op|nothing_like_it|op" bench --op nothing_like_it
	refuses '--dtype|f23|f32' bench --dtype f23
	refuses '--dtype|int8|f32|f64|f16|bf16' bench --dtype int8
	refuses '--what|fwd+bw|fwd+bwd' bench --what fwd+bw
	refuses '--what|both|fwd|bwd|fwd+bwd' bench --what both
	refuses '--mode|ltsm|lstm' bench --mode ltsm
	refuses "--mode|gru|LSTMBlockCell|lstm" bench --op LSTMBlockCell --mode gru
	refuses "--dtyp|--dtype" bench --dtyp f32
}

@test "words that are no sizes, and lists that are too long, are refused" {
	for word in x -1 1.5 "" "1," ",1" "1,,2" "1 2" 0x10 99999999999999999999; do
		[ -z "$word" ] || refuses "--B|0|$word" bench --B="$word"
		[ -z "$word" ] || refuses "--H|1|$word" bench --H="$word"
	done
	refuses "--I|1|0" bench --I 0
	refuses "--B|value" bench --B=
	refuses "--H|64" bench --H "$(seq -s, 65)"
	many=$(seq -s, 60)
	refuses "4096|problems" bench --op GRUBlockCell --B "$many" --I "$many" --H "$many"
}

@test "sizes whose tensors do not fit in memory are refused" {
	refuses "GRUBlockCell|--B 9999999999999|--H 512|GB" bench --op GRUBlockCell --B 9999999999999
	refuses "lstm_block_cell|w|[I+U=1000000000256, 4*U=4000000000000]|f32" bench --op LSTMBlockCell --H 1000000000000
	refuses "x|B=9223372036854775807|bytes" bench --op LSTMBlockCell --B 9223372036854775807 --I 9223372036854775807 --H 9223372036854775807
	refuses "free|problem|--B 99999999999" bench --op GRUBlockCell --B 1,99999999999
}

@test "the operations of BlockLSTM, BlockLSTMV2 and their gradients are counted by steps, rows and seq_len_max" {
	# A step multiplies 3 rows by weights [7 16]; the gradient has twice as many products.
	for case in BlockLSTM:4032 BlockLSTMGrad:8064 block_lstm_grad:8064 BlockLSTMV2:4032 block_lstm_grad_v2:8064; do
		json --op "${case%:*}" --T 6 --B 3 --I 3 --H 4
		[ "$(field flops "${lines[0]}")" = "${case#*:}" ]
		json --op "${case%:*}" --T 6 --B 3 --I 3 --H 4 seq_len_max=3
		[ "$(field flops "${lines[0]}")" = $((${case#*:} / 2)) ]
		[[ ${lines[0]} == *"--T 6 --B 3 --I 3 --H 4 --dtype f32 seq_len_max=3"* ]]
	done
	json --op BlockLSTM --T 1,3 --B 2 --I 3 --H 4,5 --what fwd+bwd
	[ "${#lines[@]}" -eq 4 ]
	[[ ${lines[1]} == *'"T":1,"B":2,"I":3,"H":5'* && ${lines[2]} == *'"T":3,"B":2,"I":3,"H":4'* ]]
	json --op BlockLSTM
	[[ ${lines[0]} == *'"T":16,"B":32,"I":256,"H":512'* ]]
	refuses "block_lstm|seq_len_max|-1|0|T=3|4" bench --op BlockLSTM --T 4,3 seq_len_max=4
	refuses "--T|LSTMBlockCellGrad|step|1|2" bench --op LSTMBlockCellGrad --T 1,2
	refuses '--T|0|-1' bench --T=-1
	refuses "--layers|BlockLSTM|layer|1|2" bench --op BlockLSTM --layers 2
	refuses '--layers|1|x' bench --layers x
}

@test "the operations of a network are counted by its mode, layers, directions, projection, input mode and lengths" {
	# The matrices of an LSTM are [16 3] and [16 4]; a second layer has two matrices [16 4]. In each step a weight takes two operations for
	# each row.
	for case in "CudnnRNNV3:4032" "CudnnRNN:4032" "CudnnRNNBackpropV3:8064" "rnn_backprop:8064" "rnn --what fwd+bwd:12096" \
		"rnn --layers 2:8640" "rnn --mode gru:3024" "rnn rnn_mode=rnn_relu:1008" "rnn num_proj=2:3168" \
		"rnn input_mode=skip_input --I 4:2304" "CudnnRNNV3 direction=bidirectional:8064" "CudnnRNNV3 --valid 0.5:2016"; do
		json --op ${case%:*} --T 6 --B 3 --H 4 $([[ $case == *--I* ]] || echo --I 3)
		echo "$case: ${lines[0]}"
		[ "$(field flops "${lines[0]}")" = "${case#*:}" ]
	done
	json --op rnn --mode gru --T 5 --B 3 --I 3 --H 4 --layers 1,2 --valid 0.5 --what fwd+bwd time_major=false
	[ "${#lines[@]}" -eq 2 ]
	[[ ${lines[1]} == *'"op":"rnn","mode":"gru"'*'"layers":2,"valid":0.5,'* ]]
	[[ ${lines[1]} == *'"--op rnn --T 5 --B 3 --I 3 --H 4 --layers 2 --dtype f32 rnn_mode=gru time_major=false --valid 0.5 --what fwd+bwd"}' ]]
	for dtype in f16 bf16 f64; do
		json --op CudnnRNNBackpropV2 --mode rnn_tanh --T 3,0 --B 2,0 --I 3 --H 4 --dtype $dtype
		[ "${#lines[@]}" -eq 4 ]
	done
	# The printed problem of a network of a cell that no rnn_mode names has the argument cell=.
	json --op rnn_backprop --T 2 --B 2 --I 3 --H 4 cell=gru_block
	[[ ${lines[0]} == *'"mode":"gru_block"'*'cell=gru_block"}' ]]
	printf 'cell ours\ngates a\noutput h\nh = tanh(a)\nsave h\n' > mine.cell
	for case in cell=./mine.cell:ours cell=gru:gru cell=rnn_relu:rnn_relu rnn_mode=rnn_tanh:rnn_tanh use:lstm; do
		bench_works --op rnn --T 2 --B 2 --I 3 --H 4 $([ "${case%:*}" = use ] || echo "${case%:*}")
		[[ ${lines[-1]} =~ ^rnn\ +"${case##*:}"\ +fwd\  ]]
	done
	refuses "rnn_params_size|gradient" bench --op CudnnRNNParamsSize
	refuses '--valid|number|0|1|2' bench --op rnn --valid 2
	refuses "--valid|CudnnRNN|sequence_lengths|1|0.5" bench --op CudnnRNN --valid 0.5
	refuses "--mode|gru|LSTMBlockCell|lstm" bench --op LSTMBlockCell --mode gru
	refuses "dropout|0|1|2" bench --op rnn dropout=2
	refuses "skip_input|I|U|equal" bench --op rnn input_mode=skip_input
}

@test "times, numbers of measurements and of threads out of range are refused" {
	for word in 0 -1 x nan inf 1e9 1s; do
		refuses "--time|seconds|0|3600|$word" bench --time="$word"
	done
	for word in 0 x -3 1,2 1000001; do
		refuses "--reps|number|1|1000000|$word" bench --reps="$word"
		[ "$word" = 1000001 ] || refuses "--threads|number|1" bench --threads="$word"
	done
	refuses "--threads|number|1" bench --threads 1000000
	refuses "--time|--reps" bench --time 1 --reps 1
}

@test "attributes that are unknown, wrong, given twice or without --op, and other words, are refused" {
	refuses "LSTMBlockCell|attribute|use_peepole|use_peephole" bench --op LSTMBlockCell use_peepole=1
	refuses "GRUBlockCell|attribute|cell_clip|T" bench --op GRUBlockCell cell_clip=1
	[[ $stderr != *"a file"* ]]
	refuses 'use_peephole|true|false|maybe' bench --op LSTMBlockCell use_peephole=maybe
	refuses 'cell_clip|number|x' bench --op LSTMBlockCell cell_clip=x
	refuses "cell_clip|twice" bench --op LSTMBlockCell cell_clip=1 cell_clip=2
	refuses "word|NAME=VALUE|attribute|LSTMBlockCell" bench --op LSTMBlockCell word
	refuses "use_peephole=true|attribute|--op" bench use_peephole=true
}

@test "a misspelt CELLGRAD_BACKEND and a wrong CELLGRAD_VERBOSE are refused" {
	CELLGRAD_BACKEND=cpuu refuses "'cpu'" bench --reps 1
	CELLGRAD_VERBOSE=loud refuses "CELLGRAD_VERBOSE|0|none|1|calls|loud" bench --reps 1
}

@test "a full standard output is an error" {
	[ -e /dev/full ] || skip "no /dev/full"
	run -1 --separate-stderr bash -c '"$0" bench --time 0.001 --op GRUBlockCell --json > /dev/full' "$CELLGRAD"
	has "standard output"
}

# ---- pictures ----

# is_picture FILE: checks that FILE is SVG with a title, without the words nan and inf, and, if there is a python3, well-formed XML
is_picture() {
	[[ $(head -n 1 "$1") == '<svg xmlns="http://www.w3.org/2000/svg"'* ]]
	[ "$(tail -n 1 "$1")" = "</svg>" ]
	grep -q '<title>cellgrad bench: ' "$1"
	[ -z "$(grep -iw -e nan -e inf "$1")" ]
	! command -v python3 > path || python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' "$1"
	rm -f path
}

@test "--plot draws the times over the size that varies, and writes the numbers to a table" {
	bench_works --op LSTMBlockCell --B 4,1,2 --I 3 --H 4 --plot times.svg
	is_picture times.svg
	grep -q ">median time of a call, ms<" times.svg
	grep -q ">B, rows of the batch<" times.svg
	grep -q ">LSTMBlockCell fwd f32 I=3 H=4<" times.svg
	[ "$(grep -c '<circle' times.svg)" -eq 3 ]
	# The points in the SVG are in the order of their sizes.
	sed -n 's/.*<circle cx="\([0-9.]*\)".*/\1/p' times.svg | sort -c -n
	# The roof is a dashed line through three points, and the legend names it.
	grep -q 'dasharray="7 5" d="M[^"L]*L[^"L]*L[^"L]*"' times.svg
	grep -q ">roof: the least time that the machine allows<" times.svg
	[ "$(wc -l < times.svg.tsv)" -eq 4 ]
	[ "$(head -1 times.svg.tsv)" = "$(printf 'op\twhat\tdtype\tT\tB\tI\tH\treps\tmin_ms\tmedian_ms\tspread_ms\tgflops\tgbytes\tshare')" ]
	[[ $(sed -n 2p times.svg.tsv) == "LSTMBlockCell	fwd	f32	1	4	3	4	"* ]]
	[ "$(ls -A | grep -v stderr)" = "$(printf 'times.svg\ntimes.svg.tsv')" ]
}

@test "--plot draws two lines in two colours, and leaves out a size of 0 on its logarithmic axis" {
	bench_works --op GRUBlockCell --B 0,2,64 --I 1,3 --H 4 --plot two.svg
	is_picture two.svg
	[ "$(grep -c '<circle' two.svg)" -eq 4 ]
	grep -q ">GRUBlockCell fwd f32 I=1 H=4<" two.svg
	grep -q ">GRUBlockCell fwd f32 I=3 H=4<" two.svg
	[ "$(grep -o '<g fill="[^"]*"' two.svg | sort -u | wc -l)" -eq 2 ]
	bench_works --op GRUBlockCell --B 0 --I 1 --H 4,5 --plot none.svg
	is_picture none.svg
}

@test "--plot draws a line for each number of layers of a network" {
	bench_works --op rnn rnn_mode=gru --what fwd --T 1,2 --B 1 --I 1 --H 1 --layers 1,2 --plot layers.svg
	grep -q '>rnn gru fwd f32 B=1 I=1 H=1<' layers.svg
	grep -q '>rnn gru fwd f32 L=2 B=1 I=1 H=1<' layers.svg
}

@test "--plot draws shares of the roof as bars, if no size varies" {
	bench_works --B 2 --I 3 --H 4 --plot shares.svg
	is_picture shares.svg
	grep -q ">the least time that the machine allows" shares.svg
	grep -q ">GRUBlockCellGrad bwd f32 B=2 I=3 H=4<" shares.svg
	grep -q ">roof<" shares.svg
	[ "$(grep -c '<rect x=' shares.svg)" -eq "$(($(wc -l < shares.svg.tsv) - 1))" ]
}

@test "--plot accepts a file name with characters that a shell interprets" {
	name="'\"; system('touch evil'); \$(touch evil) .svg"
	bench_works --op GRUBlockCell --B 1 --I 1 --H 1 --plot "$name"
	grep -q "<svg" "$name"
	[ -e "$name.tsv" ]
	[ ! -e evil ]
}

@test "--plot refuses a name that does not end in .svg and files that it cannot write, and leaves no file" {
	refuses '--plot|.svg|times.pdf' bench --plot times.pdf
	refuses '--plot|.svg|times.png' bench --plot times.png
	refuses '--plot|.svg' bench --plot .svg
	refuses "No such file" bench --plot nowhere/times.svg
	mkdir there.svg data.svg.tsv
	refuses "there.svg|directory" bench --plot there.svg
	refuses "data.svg.tsv|directory" bench --plot data.svg
	[ "$(ls -A | grep -v stderr)" = "$(printf 'data.svg.tsv\nthere.svg')" ]
}

@test "--plot leaves the old picture if its table cannot be written" {
	echo "<svg>old" > times.svg
	run -1 bash -c 'set -o pipefail
		(ulimit -f 0; trap "" XFSZ; exec "$0" bench --time 0.001 --op GRUBlockCell --B 1,2 --I 1 --H 1 --plot times.svg) 2>&1 > /dev/null | cat' "$CELLGRAD"
	[[ $output == *times.svg.tsv* ]]
	[ "$(cat times.svg)" = "<svg>old" ]
	[ "$(ls -A | grep -v stderr)" = times.svg ]
}

# ---- progress ----

@test "progress is shown only on a terminal" {
	command -v script > /dev/null || skip "no script, which makes a terminal (Debian: bsdutils)"
	bench_works --op GRUBlockCell --B 1,2 --I 1 --H 1
	[[ $output != *$'\r'* ]]
	run -0 script -qec "'$CELLGRAD' bench --time 0.001 --op GRUBlockCell --B 1,2 --I 1 --H 1" /dev/null
	[[ $output =~ "1 of 2 problems, "[0-9.]+" a second, "[0-9]+" s left" ]]
	[[ $output == *"2 problems"* ]]
	run -0 script -qec "'$CELLGRAD' bench --time 0.001 --op GRUBlockCell --B 1 --I 1 --H 1" /dev/null
	[[ $output == *"1 problem"* && $output != *"1 problems"* ]]
}

# ---- CELLGRAD_VERBOSE ----

@test "the line that CELLGRAD_VERBOSE=1 prints about a call of a cell op is a command that works" {
	export CELLGRAD_BACKEND=cpu
	PATH=$(dirname "$CELLGRAD"):$PATH
	for case in LSTMBlockCell-clip LSTMBlockCellGrad-peephole GRUBlockCellGrad-plain lstm_block_cell_grad-plain; do
		for verbose in 1 calls; do
			CELLGRAD_VERBOSE=$verbose run -0 --separate-stderr "$CELLGRAD" run "${case%%-*}" "$DATA/$case.safetensors"
			[ "${#stderr_lines[@]}" -eq 1 ]
			[[ $stderr == "cellgrad bench --op ${case%%-*} --B "*" # cpu; "*" ms; kernels "* ]]
		done
		line=$stderr
		problem=${line#cellgrad bench }
		run -0 --separate-stderr bash -c "cellgrad bench --time 0.001 $problem"
		echo "$line"
		echo "$stderr"
		[ -z "$stderr" ]
		[[ ${lines[-1]} =~ ^${case%%-*}\ +(lstm|gru)\ +(fwd|bwd)\ +f(32|64)\ +[1-9] ]]
		run -0 --separate-stderr bash -c "cellgrad bench --json --reps 1 $problem"
		[[ ${lines[1]} == *"\"problem\":\"${problem%% #*}\"}" ]]
	done
}

@test "with CELLGRAD_VERBOSE empty, 0 or none there is no line, 2 is refused, and bench prints no line about its own calls" {
	for verbose in "" 0 none; do
		CELLGRAD_VERBOSE=$verbose works run GRUBlockCell "$DATA/GRUBlockCell-plain.safetensors"
	done
	CELLGRAD_BACKEND=cpu CELLGRAD_VERBOSE=1 bench_works --op GRUBlockCell --B 1 --I 1 --H 1
	CELLGRAD_VERBOSE=2 refuses "CELLGRAD_VERBOSE|0|none|1|calls|2" run GRUBlockCell \
		"$DATA/GRUBlockCell-plain.safetensors"
}
