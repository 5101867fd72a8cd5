# SPDX-License-Identifier: Apache-2.0
# Tests mistakes of users. Each row of a table has an exit status, facts, and a command: the command's one message or, with status 0,
# its output must have these facts in any wording. No command of a table changes a file. Other tests of this file are about streams,
# limits, permissions and full disks.
#
# outputs.bats tests signals, killed processes and pairs of runs; safetensors.bats tests damaged files; tests/library/misuse_test.c
# tests mistakes in C. No test of this file has a locale with a decimal comma, since the command sets no locale (main.c).

load files

setup_file() {
	mkdir "$BATS_FILE_TMPDIR/bin"
	printf '#!/bin/sh\nexec "%s" "$@"\n' "$CELLGRAD" > "$BATS_FILE_TMPDIR/bin/cellgrad"
	chmod +x "$BATS_FILE_TMPDIR/bin/cellgrad"
	export PATH=$BATS_FILE_TMPDIR/bin:$PATH CELLGRAD_BACKEND=cpu
}

# files: writes files that rows of several tables name. The LSTM step in in.st has B = 4, I = 5, U = 7.
files() {
	local name

	tensors in.st "" x:F32:4,5 cs_prev:F32:4,7 h_prev:F32:4,7 w:F32:12,28 wci:F32:7 wcf:F32:7 wco:F32:7 b:F32:28
	"$CELLGRAD" run LSTMBlockCell in.st -o out.st
	tensors other.st "" other:F32:2
	tensors rnn.st "" input:F32:3,2,5 input_h:F32:1,2,7 input_c:F32:1,2,7 params:F32:392
	tensors torch.st "" rnn.weight_ih_l0:F32:28,5 rnn.weight_hh_l0:F32:28,7 rnn.bias_ih_l0:F32:28 rnn.bias_hh_l0:F32:28
	tensors tanh.st "" weight_ih_l0:F32:7,5 weight_hh_l0:F32:7,7 bias_ih_l0:F32:7 bias_hh_l0:F32:7
	printf 'cell mine\ngates a\noutput h\nh = tanh(a)\nsave h\n' > my.cell
	mkdir -p folder
	: > empty.st
}

# zeros FILE NAME:SHAPE...: writes f32 tensors of zeros as a sparse file, which takes little space on the disk
zeros() {
	local file=$1 header="" at=0 spec bytes

	shift
	for spec; do
		bytes=${spec#*:}
		bytes=$((4 * ${bytes//,/*}))
		header+="${header:+,}\"${spec%%:*}\":{\"dtype\":\"F32\",\"shape\":[${spec#*:}],\"data_offsets\":[$at,$((at + bytes))]}"
		at=$((at + bytes))
	done
	raw "$file" "{$header}" 0
	truncate -s $((10 + ${#header} + at)) "$file"
}

state() {
	find . -type f ! -name '*stderr*' -exec cksum {} + | sort
	find . ! -name '*stderr*' | sort
}

# table: reads rows STATUS :: FACTS :: COMMAND from standard input, and checks each command. If a row's STATUS is 0, standard
# output must have each of the row's FACTS, and standard error must be empty.
table() {
	local row status_wanted facts command before=$(state)

	while IFS= read -r row; do
		[[ -n $row && $row != '#'* ]] || continue
		status_wanted=${row%% :: *} row=${row#* :: } facts=${row%% :: *} command=${row#* :: }
		echo "$status_wanted: $command"
		run --separate-stderr timeout 60 bash -c "$command"
		[ "$status" -eq "$status_wanted" ] || { echo "status $status: $stderr"; return 1; }
		if [ "$status" -eq 0 ]; then
			[ -z "$stderr" ]
			stderr=$output
			IFS='|' read -r -a facts <<< "$facts"
			has "${facts[@]}"
		else
			message_has "$facts"
		fi
		[ "$(state)" = "$before" ]
	done
}

@test "wrong subcommands, options and ops are refused" {
	files
	table <<-'END'
		2 :: --help :: cellgrad
		2 :: rnu|run :: cellgrad rnu
		2 :: --verison :: cellgrad --verison
		2 :: --help :: cellgrad run
		2 :: LSTMBlockCel|LSTMBlockCell :: cellgrad run LSTMBlockCel in.st
		2 :: lstmblockcell|LSTMBlockCell :: cellgrad run lstmblockcell in.st
		2 :: lstm|rnn|cell=lstm :: cellgrad run lstm in.st
		2 :: LSTM|rnn|cell=lstm :: cellgrad run LSTM in.st
		2 :: CudnnLSTM|rnn|cell=lstm :: cellgrad run CudnnLSTM in.st
	END
}

@test "files that do not exist, or are of another kind, are refused" {
	files
	head -c 4000 "$CELLGRAD" | tr '\0' '\377' | tail -c 2000 > random.st
	printf 'PK\3\4%200s' x > model.pt
	cp model.pt arrays.npz
	head -c 300 in.st > cut.st
	raw json.st "{'x':1}" 0
	{ printf '\xff\xff\xff\xff\xff\xff\xff\x7f'; printf '{}'; } > large.st
	mkfifo pipe.st
	size=$(wc -c < cut.st) length=$(od -A n -t u8 -N 8 cut.st | tr -d ' ')
	table <<-END
		2 :: nowhere.st|No such file :: cellgrad run LSTMBlockCell nowhere.st
		2 :: empty.st|empty :: cellgrad run LSTMBlockCell empty.st
		2 :: folder|directory :: cellgrad run LSTMBlockCell folder
		2 :: random.st|100000000 :: cellgrad run LSTMBlockCell random.st
		2 :: model.pt|zip|PyTorch|safetensors.torch.save_file :: cellgrad run LSTMBlockCell model.pt
		2 :: arrays.npz|zip|NumPy|safetensors.numpy.save_file :: cellgrad run LSTMBlockCell arrays.npz
		2 :: cut.st|$size|$length :: cellgrad run LSTMBlockCell cut.st
		2 :: json.st|JSON :: cellgrad run LSTMBlockCell json.st
		2 :: large.st|9223372036854775807|100000000 :: cellgrad run LSTMBlockCell large.st
		2 :: /dev/null|regular :: cellgrad run LSTMBlockCell /dev/null
		2 :: /dev/zero|regular :: cellgrad run LSTMBlockCell /dev/zero
		2 :: pipe.st|regular :: cellgrad run LSTMBlockCell pipe.st
		2 :: -|input|./- :: cellgrad run LSTMBlockCell - < in.st
		2 :: -|input|./- :: cellgrad emit -
	END
	if [ "$length" -le 292 ]; then
		false                            # cut.st has its whole header, but the row of cut.st needs a file that is cut within the header
	fi
}

@test "safetensors files with wrong headers are refused" {
	tensor() {
		printf '"%s":{"dtype":"%s","shape":[%s],"data_offsets":[%s]}' "$@"
	}
	raw twice.st "{$(tensor x F32 1 0,4),$(tensor x F32 1 4,8)}" 8
	raw past.st "{$(tensor x F32 2 0,8)}" 4
	raw differ.st "{$(tensor x F32 2 0,4)}" 4
	raw minus.st "{$(tensor x F32 -1 0,4)}" 4
	raw flow.st "{$(tensor x F32 4294967296,4294967296,2 0,8)}" 8
	tensors f8.st "" x:F8_E4M3:4,5 cs_prev:F32:4,7 h_prev:F32:4,7 w:F32:12,28 b:F32:28
	raw back.st "{$(tensor x F32 2 8,0)}" 8
	raw number.st '{"__metadata__":{"cell_clip":3}}' 0
	table <<-'END'
		2 :: twice.st|"x" :: cellgrad run LSTMBlockCell twice.st
		2 :: past.st|x|8|4 :: cellgrad run LSTMBlockCell past.st
		2 :: differ.st|x|F32|[2]|8|4 :: cellgrad run LSTMBlockCell differ.st
		2 :: minus.st|x|"shape" :: cellgrad run LSTMBlockCell minus.st
		2 :: flow.st|x|[4294967296, 4294967296, 2] :: cellgrad run LSTMBlockCell flow.st
		2 :: f8.st|x|F8_E4M3|F32 :: cellgrad run LSTMBlockCell f8.st
		2 :: back.st|x|"data_offsets" :: cellgrad run LSTMBlockCell back.st
		2 :: number.st|__metadata__|cell_clip|string :: cellgrad run LSTMBlockCell number.st
	END
}

@test "wrong attributes are refused" {
	files
	table <<-'END'
		2 :: use_peephol|use_peephole|LSTMBlockCell :: cellgrad run LSTMBlockCell use_peephol=true in.st
		2 :: use_peephole|yes|true|false :: cellgrad run LSTMBlockCell use_peephole=yes in.st
		2 :: use_peephole|twice :: cellgrad run LSTMBlockCell use_peephole=true use_peephole=true in.st
		2 :: cell_clip|number|nan :: cellgrad run LSTMBlockCell cell_clip=nan in.st
		2 :: cell_clip|number|1,5 :: cellgrad run LSTMBlockCell cell_clip=1,5 in.st
		2 :: cell_clip|number|"" :: cellgrad run LSTMBlockCell cell_clip= in.st
		2 :: cell_clip|number|1e999 :: cellgrad run LSTMBlockCell cell_clip=1e999 in.st
		0 :: i|cs|[4, 7] :: cellgrad run LSTMBlockCell cell_clip=inf in.st
		2 :: other.st|other|LSTMBlockCell|--strict :: cellgrad run LSTMBlockCell in.st other.st --strict
		2 :: rnn_mode|ltsm|lstm :: cellgrad run CudnnRNNV2 rnn_mode=ltsm rnn.st
		2 :: num_units|1|-1 :: cellgrad run CudnnRNNParamsSize num_units=-1 num_layers=1 input_size=1
		2 :: params|bytes :: cellgrad run CudnnRNNParamsSize num_units=1000000 num_layers=2000000000 input_size=1
		2 :: direction|both|unidirectional|bidirectional :: cellgrad run CudnnRNNV2 direction=both rnn.st
	END
}

@test "tensors that do not fit are refused" {
	files
	for wrong in one:x:F32:5 turned:x:F32:5,4 short:wci:F32:3 wide:w:F64:12,28 whole:w:I32:12,28; do
		tensors "${wrong%%:*}.st" "" "${wrong#*:}"
	done
	tensors none.st "" x:F32:4,5 cs_prev:F32:4,7 h_prev:F32:4,7 w:F32:12,28
	tensors large.st "" X:F32:4,5 cs_prev:F32:4,7 h_prev:F32:4,7 w:F32:12,28 b:F32:28
	tensors rest.st "" cs_prev:F32:4,7 h_prev:F32:4,7 w:F32:12,28 wcf:F32:7 wco:F32:7 b:F32:28
	tensors rest2.st "" x:F32:4,5 cs_prev:F32:4,7 h_prev:F32:4,7 b:F32:28
	table <<-'END'
		2 :: one.st|x|B=4|I=5|[5] :: cellgrad run LSTMBlockCell rest.st one.st
		2 :: turned.st|x|B=4|I=5|[5, 4]|cs_prev|[4, 7]|rest.st :: cellgrad run LSTMBlockCell rest.st turned.st
		2 :: turned.st|x|B=4|I=5|[5, 4]|cs_prev|[4, 7]|rest.st :: cellgrad run LSTMBlockCell turned.st rest.st
		2 :: short.st|wci|U=7|[3] :: cellgrad run LSTMBlockCell rest.st rest2.st short.st use_peephole=true
		2 :: f64|w|wide.st|f32|rest2.st :: cellgrad run LSTMBlockCell wide.st rest2.st
		2 :: whole.st|w|F32|I32 :: cellgrad run LSTMBlockCell whole.st rest2.st
		2 :: b|[28]|none.st :: cellgrad run LSTMBlockCell none.st
		2 :: x|[4, 5]|X|large.st :: cellgrad run LSTMBlockCell large.st
	END
	# A batch without rows, and a NaN among the inputs, are accepted.
	tensors empty.st "" x:F32:0,5 cs_prev:F32:0,7 h_prev:F32:0,7 w:F32:12,28 b:F32:28
	poke in.st x 0 '\x00\x00\xc0\x7f'
	table <<-'END'
		0 :: [0, 7]|- :: cellgrad run LSTMBlockCell empty.st
		0 :: [4, 7]|nan :: cellgrad run LSTMBlockCell in.st
	END
}

@test "outputs that cannot be written, or that are inputs, are refused, and OUT is written through a symbolic link" {
	files
	table <<-'END'
		2 :: folder|directory :: cellgrad run LSTMBlockCell in.st -o folder
		2 :: nowhere/out|No such file :: cellgrad run LSTMBlockCell in.st -o nowhere/out
		2 :: /dev/full|regular :: cellgrad run LSTMBlockCell in.st -o /dev/full
		2 :: --output|value :: cellgrad run LSTMBlockCell in.st -o ""
		2 :: --output|twice :: cellgrad run LSTMBlockCell in.st -o a -o b
		2 :: in.st :: cellgrad run LSTMBlockCell in.st -o in.st
		2 :: my.cell :: cellgrad emit ./my.cell -o my.cell
		2 :: my.cell :: cellgrad emit ./my.cell -m my.cell
		2 :: torch.st :: cellgrad convert --from pytorch --to cellgrad --from-prefix rnn. torch.st torch.st
		2 :: q :: cellgrad emit lstm -o q -m q
	END
	# OUT is written through a symbolic link, with the old file's mode; a hard link to the old file keeps the old contents.
	echo old > there
	ln there other
	ln -s there link
	chmod 600 there
	works run LSTMBlockCell in.st -o link
	[ -L link ]
	[ "$(stat -c %a there)" = 600 ]
	cmp there out.st
	[ "$(cat other)" = old ]
}

@test "wrong uses of --expect are refused" {
	files
	table <<-'END'
		2 :: other.st|i|[4, 7] :: cellgrad run LSTMBlockCell in.st -e other.st
		2 :: --rtol|0|-1 :: cellgrad run LSTMBlockCell in.st -e out.st --rtol=-1
		2 :: --rtol|--expect :: cellgrad run LSTMBlockCell in.st --rtol=1
		0 :: ok :: cellgrad run LSTMBlockCell in.st -e out.st
	END
	poke out.st i 3 '\x00\x00\x80\x7f'
	run -1 --separate-stderr "$CELLGRAD" run LSTMBlockCell in.st -e out.st
	[ -z "$stderr" ]
	stderr=$output
	has MISMATCH 1 28 "[0, 3]" inf
}

@test "wrong values of environment variables are refused, and an unknown name gives a warning" {
	files
	n=$(nproc)
	table <<-END
		2 :: opencll|opencl :: CELLGRAD_BACKEND=opencll cellgrad run LSTMBlockCell in.st
		2 :: CPU|cpu :: CELLGRAD_BACKEND=CPU cellgrad run LSTMBlockCell in.st
		2 :: ' cpu'|cpu :: CELLGRAD_BACKEND=' cpu' cellgrad run LSTMBlockCell in.st
		2 :: CELLGRAD_BACKEND|cpu|opencl|cuda :: CELLGRAD_BACKEND=help cellgrad run LSTMBlockCell in.st
		2 :: cpu:1 :: CELLGRAD_BACKEND=cpu:1 cellgrad run LSTMBlockCell in.st
		2 :: CELLGRAD_CUDA_LIB|/nowhere :: CELLGRAD_CUDA_LIB=/nowhere CELLGRAD_BACKEND=cuda,cpu cellgrad run LSTMBlockCell in.st
		0 :: i :: CELLGRAD_BACKEND=cuda,cpu cellgrad run LSTMBlockCell in.st
		2 :: CELLGRAD_CACHE|off|ro|rw|yes :: CELLGRAD_CACHE=yes cellgrad run LSTMBlockCell in.st
		2 :: CELLGRAD_CUDNN_LIB|libfoo.so :: CELLGRAD_CUDNN_LIB=libfoo.so cellgrad run LSTMBlockCell in.st
		2 :: CELLGRAD_CPU_THREADS|1|0 :: CELLGRAD_CPU_THREADS=0 cellgrad run LSTMBlockCell in.st
		2 :: CELLGRAD_CPU_THREADS|1|$n|1000000 :: CELLGRAD_CPU_THREADS=1000000 cellgrad run LSTMBlockCell in.st
		2 :: CELLGRAD_CPU_THREADS|two :: CELLGRAD_CPU_THREADS=two cellgrad run LSTMBlockCell in.st
		2 :: CELLGRAD_CPU_ISA|avx9|baseline :: CELLGRAD_CPU_ISA=avx9 cellgrad run LSTMBlockCell in.st
		2 :: CELLGRAD_VERBOSE|calls|none|2 :: CELLGRAD_VERBOSE=2 cellgrad run LSTMBlockCell in.st
		2 :: CELLGRAD_VERBOSE|calls|none|true :: CELLGRAD_VERBOSE=true cellgrad run LSTMBlockCell in.st
	END
	CELLGRAD_BACKEDN=cuda run -0 --separate-stderr "$CELLGRAD" run LSTMBlockCell in.st
	has CELLGRAD_BACKEDN CELLGRAD_BACKEND
	if ! "$CELLGRAD" info --why cuda | grep -q '^cuda: opens' && "$CELLGRAD" info --why cuda | grep -q libcuda.so.1; then
		table <<-'END'
			2 :: CUDA|libcuda.so.1 :: CELLGRAD_BACKEND=cuda cellgrad run LSTMBlockCell in.st
		END
	fi
	if "$CELLGRAD" info --why opencl | grep -q '^opencl: opens'; then
		table <<-'END'
			2 :: 99.9 :: CELLGRAD_BACKEND=opencl:99.9 cellgrad run LSTMBlockCell in.st
		END
	fi
}

@test "mistakes with cellgrad emit are refused" {
	files
	table <<-'END'
		2 :: lstmm|lstm :: cellgrad emit lstmm
		2 :: --pass|backward|forward|grad|gradgrad|seq_forward|seq_grad :: cellgrad emit lstm --pass backward
		2 :: --lang|metal|c|opencl|cuda :: cellgrad emit lstm --lang metal
		2 :: --dtype|float32|f32 :: cellgrad emit lstm --dtype float32
		2 :: options|peepholes|peephole :: cellgrad emit lstm --options peepholes
		2 :: gru :: cellgrad emit lstm gru
	END
}

@test "mistakes with cellgrad bench are refused" {
	files
	table <<-'END'
		2 :: --H|1|0 :: cellgrad bench --H 0
		2 :: --H|1|-5 :: cellgrad bench --H=-5
		2 :: --H|1|64x :: cellgrad bench --H 64x
		2 :: --H|1|64, :: cellgrad bench --H 64,
		2 :: --H|1|1e20 :: cellgrad bench --H 1e20
		2 :: bytes :: cellgrad bench --op LSTMBlockCell --H 4000000000
		2 :: --B 2000000|--H 2000000|GB :: cellgrad bench --op GRUBlockCell --B 2000000 --H 2000000
		2 :: --T|LSTMBlockCell|step|1|5 :: cellgrad bench --op LSTMBlockCell --T 5
		2 :: --plot|.svg|h.pdf :: cellgrad bench --plot h.pdf
		2 :: --time|0|3600|-1 :: cellgrad bench --time=-1
		2 :: --threads|1|1000000 :: cellgrad bench --threads 1000000
	END
}

@test "mistakes with cellgrad demo, check and cache are refused" {
	files
	mkdir -m 777 open
	mkdir -m 700 kernels
	: > kernels/file
	table <<-END
		2 :: --steps|1|1000000|0 :: cellgrad demo --steps 0
		2 :: --seed|0|9223372036854775807|-1 :: cellgrad demo --seed=-1
		2 :: --only|compare|train|x :: cellgrad demo --only x
		2 :: --time|0|86400 :: cellgrad demo --time 0
		2 :: gpu :: cellgrad demo --only train --no-svg --switch gpu
		2 :: nowhere|No such file :: cellgrad demo --data nowhere
		2 :: folder|LSTMBlockCellGrad-CASE.safetensors :: cellgrad demo --data folder
		2 :: LSTM|lstm :: cellgrad check LSTM
		2 :: --dtype|f8|f16|bf16|f32|f64 :: cellgrad check --dtype f8
		2 :: --max-time|0 :: cellgrad check --max-time 0
		2 :: lst|list :: cellgrad cache lst
	END
	if ! CELLGRAD_CACHE_DIR=$PWD/kernels cellgrad cache path 2>&1 | grep -q SHA-256; then
		table <<-END
			2 :: absolute|kernels :: CELLGRAD_CACHE_DIR=kernels cellgrad cache path
			2 :: $PWD/kernels/file :: CELLGRAD_CACHE_DIR=$PWD/kernels/file cellgrad cache path
			2 :: $PWD/open|777 :: CELLGRAD_CACHE_DIR=$PWD/open cellgrad cache path
			2 :: HOME|XDG_CACHE_HOME|CELLGRAD_CACHE_DIR :: env -u HOME -u XDG_CACHE_HOME -u CELLGRAD_CACHE_DIR cellgrad cache path
		END
	fi
}

@test "mistakes with cellgrad convert are refused" {
	files
	one="weight_ih_l0:F32:28,5 weight_hh_l0:F32:28,7"
	tensors apart.st "" $one bias_ih_l0:F32:28 bias_hh_l0:F32:28
	poke apart.st bias_ih_l0 0 '\x11\x11\x11\x3f'
	poke apart.st bias_hh_l0 0 '\x00\x00\x00\x33'
	poke apart.st weight_ih_l0 0 '\x11\x11\x11\x3f'
	tensors grads.st "" $one bias_ih_l0:F32:28 bias_hh_l0:F32:28 head.weight:F32:2,7
	table <<-'END'
		2 :: --from|torch|pytorch :: cellgrad convert --from torch --to cellgrad torch.st out
		2 :: torch.st|rnn.weight_ih_l0|--from-prefix :: cellgrad convert --from pytorch --to cellgrad torch.st out
		2 :: torch.st|rmn.weight_ih_l0|rnn.bias_hh_l0 :: cellgrad convert --from pytorch --to cellgrad --from-prefix rmn. torch.st out rnn_mode=lstm
		2 :: --dtype|f8|f16 :: cellgrad convert --from pytorch --to cellgrad --from-prefix rnn. --dtype f8 torch.st out
		2 :: torch.st|rnn.weight_ih_l1|[28, 7] :: cellgrad convert --from pytorch --to cellgrad --from-prefix rnn. torch.st out num_layers=3
		2 :: torch.st|rnn.weight_ih_l0|[52, 5]|[28, 5] :: cellgrad convert --from pytorch --to cellgrad --from-prefix rnn. torch.st out num_units=13
		2 :: --to :: cellgrad convert --from pytorch torch.st out
		2 :: tanh.st|rnn_tanh|rnn_relu|NAME=VALUE :: cellgrad convert --from pytorch --to cellgrad tanh.st out
		2 :: apart.st|f16|--force :: cellgrad convert --from pytorch --to pytorch apart.st out --dtype f16
		2 :: apart.st|keras|1|28|--force :: cellgrad convert --from pytorch --to keras apart.st out
		2 :: grads.st|head.weight|--ignore-extra :: cellgrad convert --from pytorch --to cellgrad --gradients grads.st out
	END
}

@test "names of files may have letters beyond ASCII and control characters, which messages escape" {
	files
	cp in.st 'größe 網.st'
	cp in.st $'red\e[31m.st'
	raw $'bad\e[31m.st' '{"\u001b[31mred":3}' 0
	table <<-'END'
		0 :: i :: cellgrad run LSTMBlockCell 'größe 網.st'
		0 :: i :: cellgrad run LSTMBlockCell $'red\e[31m.st'
		2 :: größe :: cellgrad run größe in.st
		2 :: \x1b[31m.st|\x1b[31mred :: cellgrad run LSTMBlockCell $'bad\e[31m.st'
		2 :: \x1b[31mnone :: cellgrad run LSTMBlockCell $'\e[31mnone'
	END
	[[ $stderr != *$'\e'* ]]
}

@test "a full or closed standard output is an error, a closed standard error hides a message, and neither changes a file" {
	files
	before=$(state)
	for words in "run LSTMBlockCell in.st" "emit lstm" info; do
		if [ -e /dev/full ]; then
			run -1 --separate-stderr bash -c "cellgrad $words > /dev/full"
			[ "${#stderr_lines[@]}" -eq 1 ]
			has cellgrad "standard output"
		fi
		run -1 --separate-stderr bash -c "cellgrad $words >&-"
		has cellgrad "standard output"
		run -2 --separate-stderr bash -c "cellgrad run nothing_like_it 2>&-"
		[ -z "$output$stderr" ]
		run -0 --separate-stderr bash -c "cellgrad $words | head -n 1"
	done
	[ "$(state)" = "$before" ]
}

@test "a limit on memory gives a message with the bytes of the output that did not fit" {
	[ -z "$SANITIZE" ] || skip "a sanitizer takes more memory than that"
	files
	# Each output of BlockLSTM on large.st takes 131072000 bytes.
	zeros large.st x:1000,32,1 cs_prev:32,1024 h_prev:32,1024 w:1025,4096 b:4096
	before=$(state)
	run --separate-stderr bash -c 'ulimit -v 600000 && exec timeout 60 cellgrad run BlockLSTM seq_len_max=1000 large.st'
	echo "$status: $stderr"
	[ "$status" -eq 1 ]
	message_has "memory|131072000"
	[ "$(state)" = "$before" ]
}

@test "the command works with small limits on stack and open files, and reports a removed folder" {
	files
	before=$(state)
	run -0 --separate-stderr bash -c 'exec 3>&- 4>&-; ulimit -n 4; exec "$0" run LSTMBlockCell in.st' "$CELLGRAD"
	[ -z "$stderr" ]
	run -0 --separate-stderr bash -c 'exec 3>&- 4>&-; ulimit -n 4; exec "$0" run LSTMBlockCell in.st -o four.st' "$CELLGRAD"
	cmp four.st out.st
	rm four.st
	# With a sanitizer a function's stack frame is several times as large.
	[ -n "$SANITIZE" ] && stack=1024 || stack=128
	run -0 --separate-stderr bash -c "ulimit -s $stack; exec cellgrad run LSTMBlockCell in.st"
	[ -z "$stderr" ]
	mkdir gone
	run --separate-stderr bash -c 'cd gone && rmdir ../gone && exec "$0" emit lstm -o x.c' "$CELLGRAD"
	[ "$status" -eq 1 ] || [ "$status" -eq 2 ]
	message_has "x.c|No such file"
	run -0 --separate-stderr bash -c "cd / && exec env -u HOME cellgrad run LSTMBlockCell '$PWD/in.st'"
	[ -z "$stderr" ]
	[ "$(state)" = "$before" ]
}

@test "files and folders without permission are refused" {
	files
	modest=()
	# The user root may read and write everywhere, so the test gives up the capabilities dac_override and dac_read_search.
	if [ "$(id -u)" -eq 0 ]; then
		modest=(setpriv --bounding-set=-dac_override,-dac_read_search)
		"${modest[@]}" true || needs root "root may open any file, and cannot give it up here (setpriv)"
	fi
	cp in.st secret.st
	echo old > fixed.st
	mkdir closed
	before=$(state)
	chmod 000 secret.st
	chmod 444 fixed.st
	chmod 555 closed
	for row in "secret.st|Permission denied::run LSTMBlockCell secret.st" "secret.st|Permission denied::run LSTMBlockCell in.st -e secret.st" \
		"fixed.st|Permission denied::run LSTMBlockCell in.st -o fixed.st" "closed/out.st|Permission denied::run LSTMBlockCell in.st -o closed/out.st" \
		"closed/out.c|Permission denied::emit lstm -o closed/out.c" "closed/out|Permission denied::convert --from pytorch --to cellgrad --from-prefix rnn. torch.st closed/out"; do
		run -2 --separate-stderr "${modest[@]}" "$CELLGRAD" ${row#*::}
		message_has "${row%%::*}"
	done
	chmod 600 secret.st
	[ "$(state)" = "$before" ]
}

@test "on a full disk the old file stays complete, and no other file is left" {
	[ "$(id -u)" -eq 0 ] || needs mount "needs root, to mount a small disk"
	# If the root folder is not a mount, as after chroot, unshare cannot set how mounts propagate.
	own=(unshare -m)
	"${own[@]}" true 2> /dev/null || own+=(--propagation unchanged)
	files
	zeros big.st weight_ih_l0:400,50 weight_hh_l0:400,100 bias_ih_l0:400 bias_hh_l0:400
	zeros step.st x:64,1 h_prev:64,128 w_ru:129,256 w_c:129,128 b_ru:256 b_c:128
	mkdir disk
	cat > filled <<-'END'
		mount -t tmpfs -o size=64k none disk || exit 99
		echo old > disk/out
		echo '<svg>old' > disk/out.svg
		head -c 65536 /dev/zero > disk/zeros 2> /dev/null
		[ -z "$CUT" ] || truncate -s $CUT disk/zeros
		"$@"
		code=$?
		rm disk/zeros
		[ "$(cat disk/out)" = old ] && [ "$(cat disk/out.svg)" = "<svg>old" ] && [ "$(ls -A disk | tr '\n' ' ')" = "out out.svg " ] || code=98
		umount disk
		exit $code
	END
	"${own[@]}" sh -c 'mount -t tmpfs -o size=64k none disk && umount disk' || needs mount "root may not mount here"
	# The small disk has no free space, or 4096 bytes of free space.
	for cut in "" 53248; do
		for words in "run GRUBlockCell step.st -o disk/out" "emit lstm_block --pass gradgrad -o disk/out" "emit lstm_block --pass gradgrad -m disk/out" \
			"convert --from pytorch --to cellgrad big.st disk/out" "demo --only train --time 0.001 --svg disk/out.svg"; do
			[[ -z $cut || $words != demo* ]] || continue             # demo's picture of the losses takes fewer than 4096 bytes
			echo "$cut: $words"
			CUT=$cut run --separate-stderr "${own[@]}" sh filled "$CELLGRAD" $words
			echo "$status: $stderr"
			[ "$status" -eq 1 ]
			has disk/out "No space left on device"
		done
	done
}
