# SPDX-License-Identifier: Apache-2.0
# Tests `cellgrad demo`: it prints a kernel, compares with TensorFlow's stored answers, and trains a model, here for too few steps to learn
# much.

load files

@test "all stored answers of LSTMBlockCellGrad and GRUBlockCellGrad agree" {
	works demo --only compare --data "$DATA"
	[[ $output == *"/* h = o * co */"*"da_o_at[unit] = da_o;"*"emit lstm_block --options peephole --pass grad prints all."* ]]
	[ "$(grep -n '^These are' <<< "$output" | cut -d: -f1)" -lt 40 ]
	[ "$(grep -c '^  [LG][A-Za-z]*BlockCellGrad  .* ok$' <<< "$output")" -eq 3 ]
	[[ $output != *MISMATCH* ]]
	[[ $output != *$'\033'* ]]
	[[ ${lines[-1]} == "All "*" agree with TensorFlow's"* ]]
}

@test "the largest difference is printed, and an output with a wrong answer is the first of three rows of the table" {
	works demo --only compare --data "$DATA" --json
	worst=$(grep -o '"worst_share":[0-9.e-]*' <<< "$output" | cut -d: -f2)
	works demo --only compare --data "$DATA"
	percent=$(sed -n "s/.*difference is \([0-9.e+-]*\)% of what.*/\1/p" <<< "$output")
	awk -v percent="$percent" -v worst="$worst" 'BEGIN { exit !(percent > 94 * worst && percent < 106 * worst) }'
	# An output with a wrong answer is the first row of the table.
	cp "$DATA"/GRUBlockCellGrad-*.safetensors "$DATA"/LSTMBlockCellGrad-*.safetensors .
	cp GRUBlockCellGrad-plain.expect.safetensors GRUBlockCellGrad-saturated.expect.safetensors
	run -1 --separate-stderr "$CELLGRAD" demo --only compare --data .
	[ "$(grep -c '^  .* \(ok\|MISMATCH\)$' <<< "$output")" -eq 3 ]
	[[ $(grep -A 1 '^  op  ' <<< "$output" | tail -n 1) == *" saturated "*MISMATCH ]]
}

@test "the stored answers are found without --data" {
	works demo --only compare
}

@test "--only compare --json prints objects about the kernel and each output" {
	works demo --only compare --data "$DATA" --json
	[[ ${lines[0]} == '{"kernel":"'*'"source":"'* ]]
	[[ ${lines[1]} == '{"op":"LSTMBlockCellGrad","case":"'*'"ok":true}' ]]
	[[ ${lines[-1]} == '{"tensors":'*'"mismatches":0,'* ]]
}

@test "a mismatch gives exit status 1" {
	cp "$DATA"/GRUBlockCellGrad-*.safetensors "$DATA"/LSTMBlockCellGrad-*.safetensors .
	cp GRUBlockCellGrad-plain.expect.safetensors GRUBlockCellGrad-saturated.expect.safetensors
	run -1 --separate-stderr "$CELLGRAD" demo --only compare --data .
	[ -z "$stderr" ]
	[[ $output == *MISMATCH* ]]
	[[ ${lines[-1]} == *"differ from TensorFlow's"* ]]
}

@test "a folder without stored answers, or with some missing, is refused" {
	refuses "nowhere" demo --data nowhere
	refuses "LSTMBlockCellGrad-CASE" demo --data .
	cp "$DATA"/GRUBlockCellGrad-*.safetensors "$DATA"/LSTMBlockCellGrad-*.safetensors .
	rm GRUBlockCellGrad-plain.expect.safetensors
	refuses "GRUBlockCellGrad-plain.expect.safetensors" demo --data .
	refuses "--data" demo words
}

# learns OPTION...: trains with --json; $steps has the objects of the steps, $end the last line
learns() {
	"$CELLGRAD" demo --only train --time 1000 --json "$@" > lines || [ $? -eq 1 ]
	steps=$(grep '^{"kind":"step",' lines)
	end=$(tail -n 1 lines)
	[[ $end == '{"kind":"training",'* ]]
}

@test "a training of a few steps prints losses, a text, and the target that it did not reach" {
	LC_ALL=C run -1 --separate-stderr "$CELLGRAD" demo --only train --steps 4
	[ -z "$stderr" ]
	[[ $output == *"step"*"loss"*"held out"* ]]
	[[ $output == *"-- target 3."* ]]
	[ -z "$(LC_ALL=C tr -d '\n -~' <<< "$output")" ]
	[[ $output == *"What it has learnt to write"* ]]
	[[ $output == *"4 steps in "*"steps/s, seed 1."* ]]
	[[ $output == *"not below the target"* ]]
	[[ $output == *"The curve is in cellgrad-demo.svg."* ]]
	[[ $output != *$'\033'* ]]
	[[ $output != *MISMATCH* ]]
	[[ $output != *LSTMBlockCellGrad* ]]
}

@test "the loss falls, on the training text and on the text that is held out" {
	learns --steps 9 --no-svg
	[ "$(grep -c . <<< "$steps")" -eq 10 ]
	grep -o '"held_out":[0-9.]*' lines | cut -d: -f2 > held
	grep -o '"loss":[0-9.]*' lines | cut -d: -f2 > loss
	awk 'NR == 1 { begun = $1 } { last = $1 } END { exit !(last < begun - 0.1) }' held
	awk 'NR == 1 { begun = $1 } { last = $1 } END { exit !(last < begun - 0.1) }' loss
	[[ $end == *'"steps":9,"of":9,"seed":1,'*'"unit":"bits per character","held_out":'*'"bigram":3.'*'"below":false,'* ]]
	[[ $end == *'"seconds":'*'"steps_per_second":'* ]]
	[[ $end == *'"svg":false}' ]]
	[ -z "$(find . -name '*.svg')" ]
}

@test "the same seed gives the same losses, in the first step also with a time limit, and another seed gives others" {
	learns --steps 2 --seed 5 --no-svg
	once=$(grep -v '"kind":"training"' lines)
	learns --steps 2 --seed 5 --no-svg
	[ "$(grep -v '"kind":"training"' lines)" = "$once" ]
	first=$(grep -o '"step":1,"loss":[0-9.]*' <<< "$once")
	works demo --only train --steps 2 --seed 5 --time 0.001 --no-svg --json
	[[ $output == *"$first,"* ]]
	[[ ${lines[-1]} == *'"steps":1,"of":2,"seed":5,'* ]]
	works demo --only train --seed 6 --time 0.001 --json
	[[ $output != *"$first,"* ]]
	[[ ${lines[-1]} == *'"steps":1,"of":800,"seed":6,'*'"svg":true}' ]]
}

@test "--cell trains another cell, with no, one or three cell states, and refuses a wrong cell" {
	for cell in mingru cifg slstm; do
		learns --cell $cell --steps 40 --no-svg
		grep -o '"held_out":[0-9.]*' lines | cut -d: -f2 | awk 'NR == 1 { begun = $1 } { last = $1 } END { exit !(last < begun - 0.5) }'
	done
	run -1 --separate-stderr "$CELLGRAD" demo --only train --cell mgu --steps 1 --no-svg
	[[ $output == *"2 layers of 96 units of cell mgu read"* ]]
	refuses "mguu|mgu" demo --cell mguu
	refuses "nowhere.cell|No such file" demo --cell ./nowhere.cell
	printf 'cell mine\ngates a\noutput h\nparam k\nh = tanh(a) * k\nsave h\n' > mine.cell
	refuses "--cell|k|mine|no default" demo --cell ./mine.cell
}

@test "--svg writes the curve of the losses" {
	LC_ALL=C.UTF-8 works demo --only train --time 0.001 --svg curve.svg
	[[ $output == *"Stopped by the time limit of 0.001 s, at step 1 of 800."*"seed 1."* ]]
	[[ $output == *"●"*"╌╌ target"* ]]
	[[ ${lines[-1]} == *"curve.svg." ]]
	[ "$(find . -name '*.svg' -o -name '.cellgrad*')" = ./curve.svg ]
	[[ $(head -n 1 curve.svg) == '<svg xmlns="http://www.w3.org/2000/svg"'* ]]
	[ "$(tail -n 1 curve.svg)" = "</svg>" ]
	grep -q 'stroke-dasharray="7 5"' curve.svg
	[ "$(grep -c '<circle' curve.svg)" -eq 2 ]
	grep -q '>bits a character<' curve.svg
	[ -z "$(grep -e nan -e inf curve.svg)" ]
	python3=$(command -v python3) || skip "no python3 to parse it"
	"$python3" -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' curve.svg
}

@test "the demo compares, then trains; an SVG that cannot be written is reported" {
	refuses "nowhere" demo --only train --svg nowhere/curve.svg
	refuses "directory" demo --svg .
	refuses "--svg|--no-svg" demo --svg a.svg --no-svg
	mkdir cellgrad-demo.svg
	works demo --data "$DATA" --time 0.001
	[[ $output == *"agree with TensorFlow's"*"A model that learns to write"*"Held out: "* ]]
	[[ ${lines[-1]} == "The curve was not written: cellgrad-demo.svg: is a directory" ]]
}

@test "--help prints the defaults" {
	works demo --help
	[[ $output == *"N steps (800)"*"SECONDS (60)"*"from (1)"* ]]
}

@test "options with values out of range are refused" {
	for steps in 0 -1 x 1e3 1000001 99999999999999999999 " 1" 3x; do
		refuses "--steps|number|1|1000000|$steps" demo --steps="$steps"
	done
	for seed in -1 x 1.5 9223372036854775808; do
		refuses "--seed|number|0|9223372036854775807" demo --seed="$seed"
	done
	for seconds in 0 -1 x nan inf 86401 1s; do
		refuses "--time|seconds|0|86400|$seconds" demo --time="$seconds"
	done
	refuses '--only|compare|train|both' demo --only both
	refuses "--steps|twice" demo --steps 1 --steps 2
}

@test "on a terminal the training shows its progress" {
	command -v script > path || skip "no script to make a terminal"
	script -qec "'$CELLGRAD' demo --only train --steps 4 --no-svg" /dev/null < /dev/null > typescript || true
	grep -q 'step 1 of 4   loss .* steps/s .* s left' typescript
}

# losses FILE BACKEND STEPS OPTION...: trains, and writes the loss of each step to FILE; the exit status must be 1, since the steps are too
# few to learn
losses() {
	local file=$1 backend=$2 steps=$3

	shift 3
	CELLGRAD_BACKEND=$backend run -1 "$CELLGRAD" demo --only train --steps "$steps" --time 1000 --no-svg --json "$@"
	echo "$output" > lines
	sed -n 's/^{"kind":"step".*"loss":\([0-9.]*\).*/\1/p' lines > "$file"
	[ "$(wc -l < "$file")" -eq "$steps" ]
}

# near A B [FROM]: checks that the losses in two files differ by at most 1e-4, relatively, and that the first FROM losses are equal
near() {
	paste "$1" "$2" | awk -v same="${3:-0}" '
		{ d = ($1 - $2) / $1 }
		d < -1e-4 || d > 1e-4 || (NR <= same && $1 != $2) { print "# step " NR ": " $0; exit 1 }'
}

@test "the losses on OpenCL equal those on cpu within 1e-4, and so do those of a training that changes between them halfway" {
	needs_opencl
	unset POCL_EXTRA_BUILD_FLAGS           # PoCL then optimises kernels
	losses cpu cpu 20
	losses opencl opencl 20
	near cpu opencl
	losses to-opencl cpu 20 --switch opencl
	grep -q '^{"kind":"switch","step":10,"backend":"opencl ' lines
	near cpu to-opencl 10
	! cmp -s cpu to-opencl
	losses to-cpu opencl 20 --switch cpu
	grep -q '^{"kind":"switch","step":10,"backend":"cpu: ' lines
	near opencl to-cpu 10
	near cpu to-cpu
	losses cpu-again cpu 20 --switch cpu
	cmp cpu cpu-again
}

# The training has only 2 steps, since one step on the stand-in for CUDA takes seconds.
@test "the losses on the stand-in for CUDA equal those on cpu within 1e-4, and so do those of a training that changes between them halfway" {
	losses cpu cpu 2
	stand_ins
	losses cuda cuda 2
	near cpu cuda
	losses to-cuda cpu 2 --switch cuda
	grep -q '^{"kind":"switch","step":1,"backend":"cuda ' lines
	near cpu to-cuda 1
	! cmp -s cpu to-cuda
	losses to-cpu cuda 2 --switch cpu
	near cuda to-cpu 1
	near cpu to-cpu
}

@test "--switch prints a line about the second backend, and refuses a backend that cannot be opened" {
	LC_ALL=C run -1 --separate-stderr "$CELLGRAD" demo --only train --steps 2 --no-svg --switch cpu
	[[ $output == *$'\n'"      1  goes on on cpu: "* ]]
	refuses "backend|gpu" demo --only train --switch gpu
	refuses "opencl:99" demo --only train --switch opencl:99
	refuses "--switch|twice" demo --switch cpu --switch cpu
}
