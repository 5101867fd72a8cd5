# SPDX-License-Identifier: Apache-2.0
# Tests `cellgrad run`: its arguments, attributes, tensors, outputs and expected answers.

load files

@test "every block op gives the answers of TensorFlow in every stored case" {
	has_answers LSTM GRU Block
}

@test "lstm_block_cell_grad and gru_block_cell_grad give the answers of automatic differentiation by TensorFlow in three cases" {
	for case in lstm_block_cell_grad-plain lstm_block_cell_grad-peephole gru_block_cell_grad-plain; do
		works run "${case%%-*}" "$DATA/$case.safetensors" --expect "$DATA/$case.expect.safetensors"
		[[ $output == *ok* ]]
		[[ $output != *MISMATCH* ]]
	done
}

@test "lstm_block_cell_grad has four outputs that LSTMBlockCellGrad does not have" {
	works run LSTMBlockCellGrad "$DATA/LSTMBlockCellGrad-plain.safetensors" --json
	[ "${#lines[@]}" -eq 5 ]
	[[ $output != *x_grad* ]]
	works run lstm_block_cell_grad "$DATA/LSTMBlockCellGrad-plain.safetensors" --json
	[ "${#lines[@]}" -eq 9 ]
	for name in x_grad h_prev_grad w_grad b_grad; do
		[[ $output == *"\"name\":\"$name\""* ]]
	done
}

@test "the outputs are printed as a table, or as JSON" {
	works run GRUBlockCell "$DATA/GRUBlockCell-plain.safetensors"
	[[ ${lines[0]} == output*dtype*shape*min*max*mean ]]
	[[ ${lines[1]} =~ ^r\ +f32\ +\[4,\ 5\]\ +0\. ]]
	[ "${#lines[@]}" -eq 5 ]
	works run GRUBlockCell "$DATA/GRUBlockCell-plain.safetensors" --json
	[[ ${lines[0]} == '{"name":"r","dtype":"f32","shape":[4,5],"min":0.'* ]]
	[ "${#lines[@]}" -eq 4 ]
}

@test "gru_block_cell runs in every dtype" {
	for dtype in F16 BF16 F32 F64; do
		gru in.safetensors "" $dtype
		works run gru_block_cell in.safetensors
		[[ ${lines[1]} == *"${dtype,,}"* ]]
	done
}

@test "an unknown op is refused, with the nearest op" {
	refuses "LSTMBlockCellGrad" run LSTMBlokCellGrad x
	refuses "gru_block_cell" run gru_blck_cell x
	refuses "cellgrad info" run nothing_like_it x
	refuses "cellgrad info|--help" run
}

@test "GRUBlockCell without files is refused" {
	refuses "GRUBlockCell|safetensors" run GRUBlockCell
}

@test "options may be at any place among the arguments" {
	works run --json GRUBlockCell "$DATA/GRUBlockCell-plain.safetensors"
	works run GRUBlockCell --json "$DATA/GRUBlockCell-plain.safetensors" \
		--expect "$DATA/GRUBlockCell-plain.expect.safetensors"
	works run GRUBlockCell -- "$DATA/GRUBlockCell-plain.safetensors"
}

# ---- attributes ----

@test "an attribute is taken from the command line, else from the metadata of the files, which may not contradict each other" {
	in=$DATA/LSTMBlockCell-noclip.safetensors    # metadata: forget_bias 0, cell_clip -1
	works run LSTMBlockCell "$in" --expect "$DATA/LSTMBlockCell-noclip.expect.safetensors"
	run -1 "$CELLGRAD" run LSTMBlockCell "$in" cell_clip=3 \
		--expect "$DATA/LSTMBlockCell-noclip.expect.safetensors"
	tensors first.safetensors '{"cell_clip":"3"}' unused:F32:1
	for files in "first.safetensors $in" "$in first.safetensors"; do
		# shellcheck disable=SC2086 # $files has two names
		refuses "cell_clip" run LSTMBlockCell $files
		for fact in "first.safetensors says 3" "noclip.safetensors says -1" "cell_clip=VALUE" --ignore-metadata; do
			[[ $stderr == *"$fact"* ]]
		done
	done
	works run LSTMBlockCell first.safetensors "$in" cell_clip=-1 forget_bias=0 \
		--expect "$DATA/LSTMBlockCell-noclip.expect.safetensors"
	works run LSTMBlockCell forget_bias=0.0 "$in" cell_clip=-1e0 first.safetensors \
		--expect "$DATA/LSTMBlockCell-noclip.expect.safetensors"
}

@test "an unknown attribute on the command line is refused, with the nearest" {
	in=$DATA/LSTMBlockCell-plain.safetensors
	refuses "cel_clip|cell_clip" run LSTMBlockCell cel_clip=3 "$in"
	refuses "LSTMBlockCellGrad|attribute|forget_bias" run LSTMBlockCellGrad forget_bias=1 "$in"
	refuses "GRUBlockCell|attribute|cell_clip" run GRUBlockCell cell_clip=1 "$in"
}

@test "an unknown attribute in metadata is ignored" {
	gru in.safetensors '{"no_such_thing":"7","cell_clip":"nonsense","op":"SomethingElse"}' F32
	works run GRUBlockCell in.safetensors
}

@test "malformed values of attributes are refused" {
	in=$DATA/LSTMBlockCell-plain.safetensors
	for value in "" " 1" "1 " 1x nan NaN 1,5 1e999 0x; do
		refuses "cell_clip|number" run LSTMBlockCell "cell_clip=$value" "$in"
	done
	for value in "" yes 2 TRUE -1 "true "; do
		refuses "use_peephole|true|false" run LSTMBlockCell "use_peephole=$value" "$in"
	done
	refuses "cell_clip|twice" run LSTMBlockCell cell_clip=1 cell_clip=2 "$in"
	tensors meta.safetensors '{"cell_clip":"three"}' unused:F32:1
	refuses "meta.safetensors|__metadata__|cell_clip|number|three" \
		run LSTMBlockCell meta.safetensors "$in"
	tensors meta.safetensors '{"use_peephole":"maybe"}' unused:F32:1
	refuses "use_peephole|true|false|maybe" run LSTMBlockCell meta.safetensors "$in"
}

@test "true, True, 1, false, False and 0 are values of a boolean attribute" {
	in=$DATA/LSTMBlockCell-peephole.safetensors
	for value in true True 1; do
		works run LSTMBlockCell use_peephole=$value "$in" \
			--expect "$DATA/LSTMBlockCell-peephole.expect.safetensors"
	done
	for value in false False 0; do
		run -1 "$CELLGRAD" run LSTMBlockCell use_peephole=$value "$in" \
			--expect "$DATA/LSTMBlockCell-peephole.expect.safetensors"
	done
}

@test "the message about a missing attribute says how to give it" {
	tensors empty.safetensors "" unused:F32:1
	in=$DATA/LSTMBlockCellGrad-plain.safetensors
	refuses "use_peephole=VALUE" run LSTMBlockCellGrad empty.safetensors
	works run LSTMBlockCellGrad empty.safetensors "$in"
	works run LSTMBlockCellGrad empty.safetensors "$in" use_peephole=false
}

@test "the attribute T must be the dtype of the tensors" {
	for word in float DT_FLOAT f32 F32 float32; do
		works run GRUBlockCell T=$word "$DATA/GRUBlockCell-plain.safetensors"
	done
	refuses "T=half|tensors|f32" \
		run GRUBlockCell T=half "$DATA/GRUBlockCell-plain.safetensors"
	refuses "T|int32|half|double" run GRUBlockCell T=int32 "$DATA/GRUBlockCell-plain.safetensors"
	gru in.safetensors '{"T":"DT_DOUBLE"}' F32
	refuses "in.safetensors|DT_DOUBLE" run GRUBlockCell in.safetensors
	[[ $stderr == *" f32"*--ignore-metadata* ]]
	works run GRUBlockCell in.safetensors --ignore-metadata
	refuses "command line|float" run GRUBlockCell T=float in.safetensors
	gru in.safetensors '{"T":"DT_DOUBLE"}' F64
	works run GRUBlockCell in.safetensors
}

@test "a file with = in its name is given with ./, unless = is the first character" {
	gru "a=b" "" F32
	refuses "GRUBlockCell|attribute|a" run GRUBlockCell a=b
	works run GRUBlockCell ./a=b
	gru "=b" "" F32
	works run GRUBlockCell =b
}

# ---- tensors ----

@test "the message about a missing tensor has its dtype and shape, the files that were read, and the nearest name" {
	tensors in.safetensors "" x:F32:2,1 h_prev:F32:2,3 w_ru:F32:4,6 w_cc:F32:4,3 b_ru:F32:6 b_c:F32:3
	tensors other.safetensors "" y:F32:1
	refuses "w_c|missing|f32|[4, 3]|in.safetensors|other.safetensors" \
		run GRUBlockCell in.safetensors other.safetensors
	has w_cc
	tensors in.safetensors "" x:F32:2,1
	refuses "h_prev|missing|f32|[B, U]" run GRUBlockCell in.safetensors
}

@test "inputs that TensorFlow requires are required, even if no output depends on them" {
	in=$DATA/LSTMBlockCellGrad-plain.safetensors
	s="F32:2,3"
	common="x:F32:2,1 cs_prev:$s h_prev:$s i:$s cs:$s f:$s o:$s ci:$s co:$s cs_grad:$s h_grad:$s w:F32:4,12"
	peepholes="wci:F32:3 wcf:F32:3 wco:F32:3"
	tensors all.safetensors '{"use_peephole":"true"}' $common $peepholes b:F32:12
	works run LSTMBlockCellGrad all.safetensors
	tensors some.safetensors '{"use_peephole":"false"}' $common $peepholes
	refuses "b|missing|f32|[12]" run LSTMBlockCellGrad some.safetensors
	tensors some.safetensors '{"use_peephole":"false"}' ${common/h_grad:$s/} $peepholes b:F32:12
	refuses "h_grad|missing" run LSTMBlockCellGrad some.safetensors
}

@test "peephole vectors may be absent when peepholes are off" {
	s="F32:2,3"
	common="x:F32:2,1 cs_prev:$s h_prev:$s w:F32:4,12 b:F32:12"
	tensors in.safetensors "" $common
	works run LSTMBlockCell in.safetensors
	refuses "wci|missing|f32|[3]" run LSTMBlockCell in.safetensors use_peephole=true
	tensors in.safetensors "" $common wcf:F32:4
	refuses "wcf" run LSTMBlockCell in.safetensors
}

@test "tensors of wrong shapes are refused" {
	tensors in.safetensors "" x:F32:2,1 h_prev:F32:2,3 w_ru:F32:4,5 w_c:F32:4,3 b_ru:F32:6 b_c:F32:3
	refuses "in.safetensors|gru_block_cell|w_ru|[I+U=4, 2*U=6]|[4, 5]" \
		run GRUBlockCell in.safetensors
	tensors in.safetensors "" x:F32:2,1 h_prev:F32:3,3 w_ru:F32:4,6 w_c:F32:4,3 b_ru:F32:6 b_c:F32:3
	refuses "h_prev" run GRUBlockCell in.safetensors
	tensors in.safetensors "" x:F32:2 h_prev:F32:2,3 w_ru:F32:4,6 w_c:F32:4,3 b_ru:F32:6 b_c:F32:3
	refuses "x" run GRUBlockCell in.safetensors
	tensors in.safetensors "" x:F32:2,1,1 h_prev:F32:2,3 w_ru:F32:4,6 w_c:F32:4,3 b_ru:F32:6 b_c:F32:3
	refuses "x|[2, 1, 1]" run GRUBlockCell in.safetensors
	tensors in.safetensors "" x:F32:2,0 h_prev:F32:2,3 w_ru:F32:3,6 w_c:F32:3,3 b_ru:F32:6 b_c:F32:3
	refuses "I" run GRUBlockCell in.safetensors
}

# step NAME=SHAPE...: writes the inputs of an LSTM step with B = 4, I = 5, U = 7 to two files; the named inputs have other shapes
step() {
	local x=4,5 cs_prev=4,7 h_prev=4,7 w=12,28 b=28 word

	for word; do
		local "${word%%=*}=${word#*=}"
	done
	tensors some.safetensors "" x:F32:$x cs_prev:F32:$cs_prev w:F32:$w
	tensors others.safetensors "" h_prev:F32:$h_prev b:F32:$b
}

@test "the message begins with the file and the tensor of the wrong shape, in both orders of the files" {
	step
	works run LSTMBlockCell some.safetensors others.safetensors
	for case in "x=5,4:B=4|I=5|cs_prev|[4, 7]" "x=3,5:B=4|I=5|cs_prev|[4, 7]" "x=4:B=4|I=5" "x=4,5,1:B=4|I=5" \
		"cs_prev=4,3:B=4|U=7|h_prev|others.safetensors|[4, 7]" "cs_prev=7,4:B=4|U=7|x|[4, 5]" "cs_prev=3,7:B=4|U=7|x|[4, 5]" \
		"h_prev=4,3:B=4|U=7|cs_prev|some.safetensors|[4, 7]" "w=11,28:I+U=12|4*U=28" "w=28,12:I+U=12|4*U=28" "w=12,24:I+U=12|4*U=28" \
		"b=24:4*U=28|cs_prev|[4, 7]"; do
		name=${case%%=*} shape=${case%%:*}
		shape=${shape#*=}
		step "$name=$shape"
		file=some.safetensors
		[[ $name != [hb]* ]] || file=others.safetensors
		for files in "some.safetensors others.safetensors" "others.safetensors some.safetensors"; do
			refuses "$file|[${shape//,/, }]|${case#*:}" run LSTMBlockCell $files
			[[ $stderr == "cellgrad run: $file: lstm_block_cell: $name: "* ]]
		done
	done
	# If two tensors contradict each other, and no third tensor agrees with one of the two, either may be wrong, and the message names both.
	tensors in.safetensors "" x:F32:2,1 h_prev:F32:3,3 w_ru:F32:4,6 w_c:F32:4,3 b_ru:F32:6 b_c:F32:3
	refuses "in.safetensors|h_prev|[3, 3]|x|[2, 1]" run GRUBlockCell in.safetensors
	# Two tensors have wrong shapes.
	step cs_prev=4,3 h_prev=4,3
	refuses "w|[12, 28]|cs_prev|[4, 3]" run LSTMBlockCell some.safetensors others.safetensors
	step x=5,4 w=28,12
	refuses "cs_prev|[4, 7]|x|[5, 4]" run LSTMBlockCell some.safetensors others.safetensors
}

@test "integers for a tensor of floats, and mixed dtypes, are refused" {
	tensors in.safetensors "" x:I32:2,1 h_prev:F32:2,3 w_ru:F32:4,6 w_c:F32:4,3 b_ru:F32:6 b_c:F32:3
	refuses "x|F16|BF16|F32|F64|I32" run GRUBlockCell in.safetensors
	tensors in.safetensors "" x:F32:2,1 h_prev:F32:2,3 w_ru:F16:4,6 w_c:F32:4,3 b_ru:F32:6 b_c:F32:3
	refuses "f32|x|in.safetensors|f16|w_ru" run GRUBlockCell in.safetensors
}

# If the command took a tensor from the first of two files, the outputs would depend on the order of the files.
@test "a tensor that two files have must be the same in both, if an output depends on it" {
	gru one.safetensors "" F32
	gru two.safetensors "" F32
	works run GRUBlockCell one.safetensors two.safetensors
	poke two.safetensors w_c 3 '\x00\x00\x40\x3f'
	for files in "one.safetensors two.safetensors" "two.safetensors one.safetensors"; do
		# shellcheck disable=SC2086
		refuses "w_c" run GRUBlockCell $files
		[[ $stderr == *"numbers"* && $stderr == *one.safetensors* && $stderr == *two.safetensors* ]]
	done
	# A tensor with -0 is not the same as one with 0, although these numbers are equal.
	gru two.safetensors "" F32
	poke one.safetensors b_c 0 '\x00\x00\x00\x00'
	poke two.safetensors b_c 0 '\x00\x00\x00\x80'
	refuses "b_c" run GRUBlockCell one.safetensors two.safetensors
	# The second file has x in another shape, or in another dtype.
	refuses "[2, 1]|one.safetensors|f32|[4, 6]|$DATA" run GRUBlockCell one.safetensors "$DATA/GRUBlockCell-plain.safetensors"
	tensors two.safetensors "" x:F64:2,1
	refuses "f32|[2, 1]|one.safetensors|f64|two.safetensors" run GRUBlockCell one.safetensors two.safetensors
}

@test "a tensor that no output depends on may differ in two files, but not in shape" {
	in=$DATA/LSTMBlockCellGrad-plain.safetensors
	# No output of LSTMBlockCellGrad depends on b or x; only the library's own op has w_grad, which depends on x.
	tensors b.safetensors "" b:F32:28
	works run LSTMBlockCellGrad "$in" b.safetensors
	works run LSTMBlockCellGrad b.safetensors "$in"
	tensors b.safetensors "" b:F32:29
	refuses "b" run LSTMBlockCellGrad "$in" b.safetensors
	tensors x.safetensors "" x:F32:3,5
	works run LSTMBlockCellGrad "$in" x.safetensors
	refuses "x" run lstm_block_cell_grad "$in" x.safetensors
	# If peepholes are off, the peephole weights are not read.
	tensors wci.safetensors "" wci:F32:7
	works run LSTMBlockCellGrad "$in" wci.safetensors
	refuses "wci" run LSTMBlockCellGrad "$in" wci.safetensors use_peephole=true
}

@test "the ops of the LSTM block cell run on an empty batch" {
	s="F32:0,3"
	tensors in.safetensors '{"use_peephole":"true"}' x:F32:0,2 cs_prev:$s h_prev:$s w:F32:5,12 b:F32:12 \
		wci:F32:3 wcf:F32:3 wco:F32:3 i:$s cs:$s f:$s o:$s ci:$s co:$s cs_grad:$s h_grad:$s
	works run lstm_block_cell_grad in.safetensors --json
	[[ ${lines[0]} == *'"shape":[0,3],"min":null,"max":null,"mean":null'* ]]
	[[ $output == *'"name":"w_grad","dtype":"f32","shape":[5,12],"min":0.0,"max":0.0,"mean":0.0'* ]]
	works run LSTMBlockCell in.safetensors -o out.safetensors
	works run LSTMBlockCellGrad out.safetensors in.safetensors
}

@test "--strict refuses tensors that the op does not take" {
	gru in.safetensors "" F32
	works run GRUBlockCell in.safetensors --strict
	tensors more.safetensors "" more:F32:1
	works run GRUBlockCell in.safetensors more.safetensors
	refuses "more.safetensors|more|input|GRUBlockCell" \
		run GRUBlockCell in.safetensors more.safetensors --strict
}

@test "a state of no rows whose width is beyond any memory is refused, with the shape that the weights would have" {
	tensors in.safetensors "" x:F32:0,1 h_prev:F32:0,4611686018427387903 \
		w_ru:F32:0 w_c:F32:0 b_ru:F32:0 b_c:F32:0
	refuses "w_ru|[I+U=4611686018427387904, 2*U=9223372036854775806]|[0]" run GRUBlockCell in.safetensors
}

# ---- the backend ----

@test "a backend that does not exist is refused, with the nearest" {
	CELLGRAD_BACKEND=cpuu refuses "CELLGRAD_BACKEND|cpuu|cpu" run GRUBlockCell "$DATA/GRUBlockCell-plain.safetensors"
}

# ---- OUT ----

@test "a backward op takes the OUT of its forward op" {
	for case in plain peephole clip; do
		works run LSTMBlockCell "$DATA/LSTMBlockCell-$case.safetensors" -o out.safetensors
		[ -z "$output" ]
		without "$DATA/LSTMBlockCellGrad-$case.safetensors" i cs f o ci co > in.safetensors
		works run LSTMBlockCellGrad out.safetensors in.safetensors \
			--expect "$DATA/LSTMBlockCellGrad-$case.expect.safetensors"
	done
	works run GRUBlockCell "$DATA/GRUBlockCell-wide.safetensors" -o out.safetensors
	without "$DATA/GRUBlockCellGrad-wide.safetensors" r u c > in.safetensors
	works run GRUBlockCellGrad out.safetensors in.safetensors \
		--expect "$DATA/GRUBlockCellGrad-wide.expect.safetensors"
}

@test "OUT has an aligned header with the attributes, and a second run gives the same bytes" {
	works run LSTMBlockCell "$DATA/LSTMBlockCell-clip.safetensors" forget_bias=0.1 -o a.safetensors
	works run LSTMBlockCell "$DATA/LSTMBlockCell-clip.safetensors" forget_bias=0.1 -o b.safetensors
	cmp a.safetensors b.safetensors
	[ $(($(od -An -tu8 -N8 a.safetensors) % 8)) -eq 0 ]
	grep -aq '"op":"LSTMBlockCell","forget_bias":"0.1","cell_clip":"0.5","use_peephole":"true"' a.safetensors
}

@test "OUT replaces the old file and keeps its mode, and a symbolic link stays a link" {
	echo old > out.safetensors
	chmod 640 out.safetensors
	ln -s out.safetensors link
	works run GRUBlockCell "$DATA/GRUBlockCell-plain.safetensors" -o link
	[ -L link ]
	[ "$(stat -c %a out.safetensors)" = 640 ]
	without "$DATA/GRUBlockCellGrad-plain.safetensors" r u c > in.safetensors
	works run GRUBlockCellGrad out.safetensors in.safetensors
}

@test "an OUT that is a directory, a device or in no directory, or that is a dangling link, is refused" {
	in=$DATA/GRUBlockCell-plain.safetensors
	refuses "No such file" run GRUBlockCell "$in" -o nowhere/out.safetensors
	mkdir there
	refuses "there|directory" run GRUBlockCell "$in" -o there
	refuses "there/|directory" run GRUBlockCell "$in" -o there/
	refuses "/dev/null|regular" run GRUBlockCell "$in" -o /dev/null
	touch file
	refuses "file" run GRUBlockCell "$in" -o file/out.safetensors
	ln -s nowhere/else dangling
	refuses "dangling" run GRUBlockCell "$in" -o dangling
}

@test "an OUT in a directory that is not writable is refused" {
	mkdir closed
	chmod 555 closed
	# The user root may write everywhere, so the test gives up the capability dac_override.
	if [ "$(id -u)" -eq 0 ]; then
		modest=(setpriv --bounding-set=-dac_override)
		"${modest[@]}" true 2>/dev/null || skip "root may write anywhere, and cannot give it up here"
	fi
	run -2 --separate-stderr "${modest[@]}" "$CELLGRAD" run GRUBlockCell "$DATA/GRUBlockCell-plain.safetensors" \
		-o closed/out.safetensors
	message_has "closed/out.safetensors|Permission denied"
}

@test "a failure while OUT is written leaves the old file, and no temporary file" {
	mkdir place
	echo old > place/out.safetensors
	run -1 --separate-stderr bash -c 'ulimit -f 2; "$0" run LSTMBlockCell "$1" -o place/out.safetensors' \
		"$CELLGRAD" "$DATA/LSTMBlockCell-wide.safetensors"
	has place/out.safetensors "File too large"
	[ "$(cat place/out.safetensors)" = old ]
	[ "$(ls -A place)" = out.safetensors ]
}

@test "a refused command leaves the old OUT unchanged" {
	echo old > out.safetensors
	refuses "GRUBlockCell|attribute|bogus" run GRUBlockCell bogus=1 "$DATA/GRUBlockCell-plain.safetensors" -o out.safetensors
	refuses "w_ru|missing" run GRUBlockCell "$DATA/LSTMBlockCell-plain.safetensors" -o out.safetensors
	[ "$(cat out.safetensors)" = old ]
}

# ---- --expect ----

@test "--expect prints a mismatch, and gives exit status 1" {
	run -1 --separate-stderr "$CELLGRAD" run GRUBlockCell "$DATA/GRUBlockCell-plain.safetensors" \
		--expect "$DATA/GRUBlockCell-saturated.expect.safetensors"
	[ -z "$stderr" ]
	[[ $output == *MISMATCH* ]]
	run -1 --separate-stderr "$CELLGRAD" run GRUBlockCell "$DATA/GRUBlockCell-plain.safetensors" --json \
		--expect "$DATA/GRUBlockCell-saturated.expect.safetensors"
	[[ ${lines[0]} == '{"name":"r","shape":[4,5],"error":'*'"ok":false}' ]]
}

@test "with --expect OUT is written even if there is a mismatch" {
	run -1 "$CELLGRAD" run GRUBlockCell "$DATA/GRUBlockCell-plain.safetensors" -o out.safetensors \
		--expect "$DATA/GRUBlockCell-saturated.expect.safetensors"
	works run GRUBlockCell "$DATA/GRUBlockCell-plain.safetensors" --expect out.safetensors --rtol 0
}

@test "--rtol and --atol set the tolerance of --expect" {
	in=$DATA/GRUBlockCell-plain.safetensors
	want=$DATA/GRUBlockCell-saturated.expect.safetensors
	works run GRUBlockCell "$in" --expect "$want" --atol 10
	run -1 "$CELLGRAD" run GRUBlockCell "$in" --expect "$want" --atol=0.001 --rtol=0.001
	refuses "--rtol|0|-1" run GRUBlockCell "$in" --expect "$want" --rtol -1
	refuses "--atol" run GRUBlockCell "$in" --expect "$want" --atol=x
	refuses "--atol" run GRUBlockCell "$in" --expect "$want" --atol=nan
	refuses "--atol|--expect" run GRUBlockCell "$in" --atol=1
}

@test "for TensorFlow's op --expect refuses a file in which an output is missing, has another shape or is no float" {
	gru in.safetensors "" F32
	tensors want.safetensors "" r:F32:2,3 u:F32:2,3 c:F32:2,3
	refuses "want.safetensors|h|missing|[2, 3]" run GRUBlockCell in.safetensors \
		--expect want.safetensors
	tensors want.safetensors "" r:F32:2,3 u:F32:2,3 c:F32:2,3 h:F32:6
	refuses "h|[2, 3]|[6]" run GRUBlockCell in.safetensors --expect want.safetensors
	tensors want.safetensors "" r:F32:2,3 u:I32:2,3 c:F32:2,3 h:F32:2,3
	refuses "u|F16|BF16|F32|F64|I32" run GRUBlockCell in.safetensors \
		--expect want.safetensors
	refuses "No such file" run GRUBlockCell in.safetensors --expect nowhere.safetensors
}

@test "answers in f16 equal those of the f16 kernels of TensorFlow, which round after each operation, within 4e-2" {
	for case in LSTMBlockCell-half-plain LSTMBlockCell-half-peephole LSTMBlockCellGrad-half-plain \
		LSTMBlockCellGrad-half-peephole BlockLSTM-half BlockLSTMGrad-half; do
		works run "${case%%-*}" "$DATA/$case.safetensors" --expect "$DATA/$case.expect.safetensors" --atol 4e-2 --rtol 4e-2
	done
}

@test "for the library's own op the file of --expect may lack some outputs, but not all" {
	tensors want.safetensors "" other:F32:2,3
	refuses "want.safetensors|gru_block_cell" run gru_block_cell "$DATA/GRUBlockCell-plain.safetensors" \
		--expect want.safetensors
	works run lstm_block_cell_grad "$DATA/LSTMBlockCellGrad-plain.safetensors" \
		--expect "$DATA/LSTMBlockCellGrad-plain.expect.safetensors"
}

@test "--expect compares with answers in another dtype" {
	gru in.safetensors "" F64
	works run GRUBlockCell in.safetensors -o wide.safetensors
	gru in.safetensors "" F32
	works run GRUBlockCell in.safetensors --expect wide.safetensors
	gru in.safetensors "" BF16
	works run GRUBlockCell in.safetensors --expect wide.safetensors
}
