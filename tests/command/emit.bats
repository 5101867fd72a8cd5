# SPDX-License-Identifier: Apache-2.0
# Tests `cellgrad emit`: which kernel it prints, and to which files.

load files

@test "f16 kernels of every built-in cell are printed in every pass and language, and one kernel in every dtype" {
	works emit --list
	[[ ${lines[0]} == cell*stages*options ]]
	[[ $output == *lstm_block*peephole* ]]
	[[ $output == *gru_block* ]]
	for cell in $("$CELLGRAD" emit --list | sed 1d | cut -d ' ' -f 1); do
		for pass in forward grad gradgrad seq_forward seq_grad; do
			for lang in c opencl cuda; do
				works emit "$cell" --pass $pass --lang $lang --dtype f16
				[ -n "$output" ]
			done
		done
	done
	for dtype in f16 bf16 f32 f64; do
		works emit lstm_block --dtype $dtype
	done
}

@test "--list --json prints the cells with their options and stages" {
	works emit --list --json
	[[ $output == *'{"cell":"lstm_block","options":["peephole"],"stages":1}'* ]]
}

@test "the defaults are pass forward, dtype f32 and language c" {
	works emit lstm_block
	plain=$output
	works emit lstm_block --pass forward --dtype f32 --lang c --stage 0
	[ "$output" = "$plain" ]
	works emit --pass=forward lstm_block --lang c
	[ "$output" = "$plain" ]
}

@test "the files of the source and the manifest are both written, or neither" {
	works emit lstm_block --options peephole --pass grad -o grad.c --manifest grad.json
	[ -z "$output" ]
	works emit lstm_block --options peephole --pass grad
	[ "$output" = "$(cat grad.c)" ]
	works emit lstm_block --options peephole --pass grad --manifest -
	[ "$output" = "$(cat grad.json)" ]
	[[ $output == {* ]]
	works emit lstm_block -o other.c --manifest -
	[[ $output == {* ]]
	[ -s other.c ]
	echo old > kept.c
	refuses "No such file" emit lstm_block -o kept.c --manifest nowhere/x.json
	[ "$(cat kept.c)" = old ]
	refuses "x" emit lstm_block -o x --manifest x
	[ ! -e x ]
}

@test "--json prints source and manifest in one object" {
	works emit lstm_block --json
	[ "${#lines[@]}" -eq 1 ]
	[[ $output == '{"lang":"c","source":"'*'"manifest":{'* ]]
	refuses "--json" emit lstm_block --json -o x
}

@test "wrong words are refused, and the message has the nearest right word or all right words" {
	refuses "--pass|forwrd|forward" emit lstm_block --pass forwrd
	refuses "--pass|sideways|forward|grad|gradgrad|seq_forward|seq_grad" emit lstm_block --pass sideways
	refuses "--pass|seq_gard|seq_grad" emit lstm_block --pass seq_gard
	refuses "--lang|opncl|opencl" emit lstm_block --lang opncl
	refuses "--dtype|f61|f64" emit lstm_block --dtype f61
	refuses "lstm_blok|lstm_block" emit lstm_blok
	refuses "cell|--list" emit
	refuses "gru_block" emit lstm_block gru_block
	refuses "options|peepole|peephole" emit lstm_block --options peepole
	[[ $stderr != *cg_* ]]
}

@test "--stage selects a stage of the cell" {
	works emit gru_block --stage 1
	one=$output
	works emit gru_block --stage 2
	[ "$output" != "$one" ]
	# The message about a wrong --stage has the least and the largest number that --stage takes for the cell.
	for stage in 3 9 -1 x 1x 99999999999999999999; do
		refuses "--stage|gru_block|0|2|$stage" emit gru_block --stage=$stage
		refuses "--stage|lstm|0|1" emit lstm --stage=$stage
	done
}

# indrnn FILE: writes a cell whose equations read h_prev only times a per-unit weight that an option switches on
indrnn() {
	cat > "$1" <<-'END'
		cell indrnn
		gates  a
		output h
		option bias v
		option ind u
		h = relu(a + v + u * h_prev)
		save h
	END
}

@test "a kernel without recurrence, because an option is off, gives one warning" {
	indrnn indrnn.cell
	for pass in forward grad gradgrad seq_grad; do
		run -0 --separate-stderr "$CELLGRAD" emit indrnn.cell --pass $pass --options bias
		[[ $output != *" *h_prev,"* ]]
		[ "${#stderr_lines[@]}" -eq 1 ]
		[[ $stderr == "cellgrad emit: "*indrnn*h_prev*" ind"*"--options bias,ind" ]]
	done
	run -0 --separate-stderr "$CELLGRAD" emit indrnn.cell --json
	[ "${#stderr_lines[@]}" -eq 1 ]
	[[ $stderr == '{"warning":"'*h_prev*'--options ind","command":"emit"}' ]]
	works emit indrnn.cell --options ind
	[[ $output == *" *h_prev,"* ]]
	works emit indrnn.cell --options bias,ind --pass grad
	for cell in $("$CELLGRAD" emit --list | sed 1d | cut -d ' ' -f 1); do
		works emit "$cell"
	done
}

@test "--header prints prototypes, which work with the source in programs of C and of C++" {
	works emit lstm --pass grad --dtype bf16 --header
	[[ $output == *"#ifndef CG_LSTM_BF16_GRAD_H"*'extern "C" {'*"void cg_lstm_bf16_grad("*"const uint16_t *c_prev, int64_t c_prev_stride"* ]]
	plain=$output
	works emit lstm --pass grad --dtype bf16 --header -o grad.h -m grad.json
	[ "$(cat grad.h)" = "$plain" ]
	works emit lstm --pass grad --dtype bf16 --manifest -
	[ "$output" = "$(cat grad.json)" ]
	works emit gru_block --stage 2 --pass grad --header
	[[ $output != *_s1_* && $output == *_s2_f32_grad_sum_part* ]]
	for lang in opencl cuda; do
		refuses "--header" emit lstm --header --lang $lang
		[[ $stderr == *$lang* ]]
	done
	refuses "--json" emit lstm --header --json
	works emit lstm --json
	[[ $output == *'"header":"/* cg_lstm_f32_forward: '* ]]
	works emit lstm --json --lang cuda
	[[ $output != *'"header"'* ]]

	works emit lstm_block --header -o step.h
	works emit lstm_block -o step.c
	cat > main.c <<-'END'
		#include "step.h"
		#include <stdio.h>
		int main(void)
		{
			const float zero[2] = { 0, 0 };
			float h[2] = { 7, 7 };

			cg_lstm_block_f32_forward(1, 2, zero, 2, zero, 2, zero, 2, zero, 2, zero, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, h, 2, 1, 3);
			printf("%g %g\n", (double)h[0], (double)h[1]);
			return 0;
		}
	END
	cp main.c main.cc
	for pair in "${CC:-cc} -std=c11:${CXX:-c++} -std=c++11" "${CXX:-c++} -x c++ -std=c++11:${CC:-cc} -std=c11"; do
		rm -f ./*.o
		${pair%%:*} -Wall -Wextra -Werror -ffp-contract=off -c step.c
		case $pair in *-x*) main=main.c ;; *) main=main.cc ;; esac
		${pair#*:} -Wall -Wextra -Werror $main step.o -o step
		run -0 ./step
		[ "$output" = "0 0" ]
	done
}

@test "--source prints the equations of a built-in cell or of one of the shelf, from which the same gradient kernel is made" {
	for file in "$BATS_TEST_DIRNAME"/../../templates/{,cells/}*.cell; do
		cell=$(basename "$file" .cell)
		works emit "$cell" --source -o "$cell.cell"
		cmp "$cell.cell" "$file"
		works emit "$cell" --pass grad
		plain=$output
		works emit "./$cell.cell" --pass grad
		[ "$output" = "$plain" ]
	done
	printf '# a remark\r\ncell mine\ngates a\noutput h\nh = tanh(a)' > mine.cell
	"$CELLGRAD" emit ./mine.cell --source | cmp - mine.cell
	works emit lstm --source --json
	[[ $output == '{"cell":"lstm","source":"'*'h = o * m\nsave'* ]]
	for option in "--pass grad" "--dtype f32" "--lang c" "--options peephole" "--stage 1" "--manifest -" --header; do
		refuses "--source" emit lstm --source $option
		[[ $stderr == *"${option%% *}" ]]
	done
	refuses "--json" emit lstm --source --json -o x
	refuses "No such file" emit ./nowhere.cell --source
	refuses "cell|--list" emit --source
}

@test "in passes seq_forward and seq_grad the state that is carried from step to step has the C type acc, and dh_out is added to dh" {
	works emit lstm --pass seq_forward --dtype f16
	[[ $output == "/* cg_lstm_f16_seq_forward: cellgrad emit lstm --pass seq_forward --dtype f16 --lang c */"* ]]
	[[ $output == *"acc *c, int64_t c_stride"*"real *h, int64_t h_stride"* ]]
	works emit lstm --options peephole --pass seq_grad --dtype bf16 --lang opencl
	[[ $output == *"void cg_lstm_peephole_bf16_seq_grad_sum("* ]]
	[[ $output == *"const acc dh_all = dh + dh_out;"* ]]
	works emit gru --pass seq_grad --dtype f16 --manifest -
	[[ $output == *'"pass": "seq_grad"'* ]]
	[[ $output == *'{"name": "dh", "role": "state", "index": 0, "order": "d", "kind": "tensor", "type": "f32"'* ]]
	[[ $output == *'{"name": "dh_out", "role": "output", "index": 0, "order": "d", "kind": "tensor", "type": "f16"'* ]]
	works emit lstm --pass grad --manifest -
	[[ $output != *'"dh_out"'* ]]
}

@test "--shape scan prints C of the passes seq_forward and seq_grad for every built-in cell, and refuses other passes and languages" {
	for cell in $(basename -s .cell "$BATS_TEST_DIRNAME"/../../templates/*.cell); do
		for pass in seq_forward seq_grad; do
			works emit "$cell" --shape scan --pass $pass --dtype bf16
			[[ $output == "/* cg_${cell}_bf16_${pass}_scan: cellgrad emit $cell --shape scan --pass $pass --dtype bf16 --lang c */"* ]]
		done
	done
	works emit lstm --pass seq_forward
	plain=$output
	works emit lstm --pass seq_forward --shape point
	[ "$output" = "$plain" ]
	works emit lstm --shape scan --pass seq_forward --options peephole -o scan.c -m scan.json
	[ -z "$output" ]
	[[ $(cat scan.json) == *'"struct": "cg_lstm_peephole_f32_seq_forward_scan"'*'"name": "c_first"'*'"name": "p_o"'* ]]
	works emit lstm --shape scan --pass seq_forward --options peephole --header -o scan.h
	printf '#include "scan.h"\n#include "scan.c"\n#include "scan.h"\n' > both.c
	${CC:-cc} -std=c11 -Wall -Wextra -Werror -ffp-contract=off -O1 -c both.c
	works emit lstm --shape scan --pass seq_grad --json
	[[ $output == '{"lang":"c","source":"'*'"header":"'*'"manifest":{'* ]]
	for pass in forward grad gradgrad; do
		refuses "--shape|scan|--pass|seq_forward|seq_grad|$pass" emit lstm --shape scan --pass $pass
	done
	for lang in opencl cuda; do
		refuses "--shape|scan|--lang|$lang|host" emit lstm --shape scan --pass seq_grad --lang $lang
	done
	refuses "--stage" emit gru_block --shape scan --pass seq_grad --stage 1
	refuses "--shape|scn|scan" emit lstm --shape scn --pass seq_grad
	[[ $stderr != *cg_* ]]
	refuses "--source|--shape" emit lstm --source --shape scan
	printf 'cell mine\ngates a shares\noutput work\nwork = tanh(a + shares)\nsave work\n' > mine.cell
	works emit ./mine.cell --pass seq_forward
	refuses "mine|work" emit ./mine.cell --shape scan --pass seq_forward
	printf 'cell mine\ngates a\nstate c\noutput h\nc_first = tanh(a)\nc = c_first + c_prev\nh = c\nsave c_first c h\n' > mine.cell
	works emit ./mine.cell --pass seq_forward
	refuses "mine|c_first" emit ./mine.cell --shape scan --pass seq_forward
	works emit ln_gru --pass seq_grad
	refuses "ln_gru|means over units" emit ln_gru --shape scan --pass seq_grad
}

# The source that --shape scan prints contains what `cellgen tiles` prints, from the comment on the bytes of a vector to before the table of
# tiles.
@test "--shape scan prints the code of the products that the library is compiled from" {
	for dtype in f32 f64 bf16; do
		works emit gru --shape scan --pass seq_grad --dtype $dtype
		tiles=$("$CELLGEN" tiles $dtype | sed -n '/^\/\* VECTOR_BYTES: bytes of a vector/,/^extern const struct cg_tiles/p' | sed '$d')
		[ "$(wc -l <<<"$tiles")" -gt 200 ]
		[[ $output == *"$tiles"* ]]
	done
}

@test "a cell is read from a file whose name ends in .cell or has a slash" {
	cat > mine.cell <<-'END'
		cell mine
		gates  a
		output h

		h = tanh(a)
		save h
	END
	works emit mine.cell --pass grad
	[[ $output == *mine* ]]
	works emit ./mine.cell --pass gradgrad --lang cuda
	cp mine.cell mine
	works emit ./mine
	refuses "mine|./mine" emit mine
	mv mine ours.cell
	refuses "ours|./ours.cell" emit ours
	refuses "theirs|/|.cell" emit theirs
	refuses "ours|./ours.cell" bench --op rnn cell=ours
	refuses "lstmm|lstm|/|.cell" emit lstmm
}

@test "a cell file that is missing, too long or wrong is refused" {
	refuses "No such file" emit nowhere.cell
	mkdir dir.cell
	refuses "dir.cell" emit dir.cell
	printf 'cell x\0' > zero.cell
	refuses "zero|byte" emit zero.cell
	head -c 2000000 /dev/zero | tr '\0' ' ' > large.cell
	refuses "large.cell|1048576" emit large.cell
	echo 'this is no cell' > bad.cell
	run -2 --separate-stderr "$CELLGRAD" emit bad.cell
	[ -z "$output" ]
	has bad.cell:1
}

# hostile FACTS FILE [OPTION...]: checks that the command rejects a .cell file within ten seconds, reports one mistake with the facts in a
# short message, and writes no file
hostile() {
	local facts file=$2

	IFS='|' read -r -a facts <<< "$1"
	shift 2
	run -2 --separate-stderr timeout 10 "$CELLGRAD" emit "./$file" -o out.c --manifest out.json "$@"
	echo "standard error: ${stderr:0:400}"
	[ -z "$output" ]
	[[ $stderr == "cellgrad emit: "* ]]
	has "${facts[@]}"
	[ "${#stderr_lines[@]}" -le 3 ]
	[ "${#stderr}" -lt 800 ]
	[ ! -e out.c ]
	[ ! -e out.json ]
}

@test "a cell beyond a limit is rejected, and the message names the limit; for some limits also the place in the file" {
	local head=$'cell x\ngates a b\noutput h\n' many

	many=$(printf '+a%.0s' {1..20000})
	echo "${head}h = b$many" > evil.cell
	hostile "./evil.cell:4:16390|equations|16384|operations" evil.cell
	many=$(printf '(%.0s' {1..100000})
	echo "${head}h = $many" > evil.cell
	hostile "./evil.cell:4:70|parentheses|nested|64|deep" evil.cell
	{ echo "$head"; seq -f 'v%.0f = a' 50000; } > evil.cell
	hostile "evil.cell:261:7|cell|256|equations" evil.cell
	{ echo "${head}h = b"; seq -f '#%.0f' 1000000; } > evil.cell
	hostile "./evil.cell|longer|1048576|bytes" evil.cell
	hostile "Is a directory" ../
	hostile "longer|1048576|bytes" /../../../../../../../../dev/zero
	for pass in forward grad; do
		{ printf '%s' "${head}h = b"; seq -f ' + tanh(a * 1.%05.0f)' 3200 | tr -d '\n'; echo; } > evil.cell
		works emit ./evil.cell --pass $pass
	done
	for lang in c opencl cuda; do
		hostile "cell|x|gradgrad|65536|operations" evil.cell --pass gradgrad --lang $lang
	done
	echo "${head}h = a * (3 * 9.9e37) + a * (2.9 * 9.9e37) + b" > evil.cell
	hostile "constant|range|f32" evil.cell --pass grad
	[[ $stderr != *cg_* ]]
	works emit ./evil.cell --pass grad --dtype f64
}

@test "cell files with other bytes than text, or without a cell, are rejected, and lines may end in CR LF" {
	printf '\xef\xbb\xbfcell x\n' > evil.cell
	hostile "evil.cell:1:1|declaration|equation|byte|order|mark" evil.cell
	printf 'c\0e\0l\0l\0' > evil.cell
	hostile "zero|byte" evil.cell
	: > evil.cell
	hostile "evil.cell:1:1|cell NAME|text" evil.cell
	printf '# only a comment' > evil.cell
	hostile "evil.cell:1:17|cell NAME|text" evil.cell
	head -c 4096 "$CELLGRAD" | tr -d '\0' > evil.cell
	hostile "evil.cell:1:1|declaration|equation|byte" evil.cell
	printf 'cell x\r\ngates a\r\noutput h\r\nh = tanh(a)' > good.cell
	works emit ./good.cell
	[[ $output != *$'\r'* ]]
}

@test "names in a cell that C, OpenCL, CUDA or the kernels use are rejected, and names whose adjoint would be such a name" {
	for name in kernel global half float4x __shared__ register auto int fma threadIdx real acc unit rows get_global_id; do
		printf 'cell x\ngates a\nparam %s\noutput h\nh = a * %s\n' $name $name > evil.cell
		case $name in
		float4x) works emit ./evil.cell --lang cuda ;;
		__*)     hostile "evil.cell:3:7|param|_" evil.cell ;;
		*)       hostile "evil.cell:3:7|$name|reserved" evil.cell ;;
		esac
	done
	for name in NULL INFINITY M_PI cl_khr_fp64 x_at x_stride t1; do
		printf 'cell x\ngates %s\n' $name > evil.cell
		hostile "evil.cell:2:7|$name|kernels" evil.cell
	done
	printf 'cell x\ngates a\noutput o\no = a\n' > evil.cell
	hostile "evil.cell:3:8|o|adjoint|do|reserved" evil.cell
}

@test "cellgen emit prints what the command prints for five kernels, and cellgen bundle has the functions of one kernel" {
	for kernel in "lstm_block grad f32 c peephole" "gru_block forward f16 opencl" "gru gradgrad bf16 cuda" "rnn_relu grad f64 c" \
	              "lstm seq_grad f16 c peephole"; do
		set -- $kernel
		works emit "$1" --pass "$2" --dtype "$3" --lang "$4" ${5:+--options "$5"}
		[ "$output" = "$("$CELLGEN" emit "$@")" ]
		[ -n "$output" ]
	done
	# `cellgen bundle` prints the text that the command emits, from its first function to its last, except that all functions of the
	# bundle are static.
	works emit lstm_block --pass grad --dtype f32 --lang c --options peephole
	"$CELLGEN" bundle lstm_block f32 | sed 's/^static void/void/' >bundle.c
	sed -n '/^static APART void cg_/,/^#ifdef __cplusplus/p' <<<"$output" | sed '$d; s/^static void/void/' >functions.c
	[ "$(wc -l <functions.c)" -gt 100 ]
	bundle=$(cat bundle.c)
	[[ $bundle == *"$(cat functions.c)"* ]]
}
