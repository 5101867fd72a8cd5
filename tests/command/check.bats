# SPDX-License-Identifier: Apache-2.0
# Tests `cellgrad check`: the cases that it runs, the arguments that it refuses, and that a command line with a seed runs one case.

load files

# has_rows: checks that $output has, for some ops and cells, a row for each dtype, with cases and without failures.
has_rows() {
	local name dtype

	for name in lstm_block_cell lstm_block_cell_grad gru_block_cell gru_block_cell_grad lstm gru rnn_relu; do
		for dtype in f32 f64 f16 bf16; do
			[[ $output =~ $name\ +$dtype\ +[1-9][0-9]*\ +0\  ]] || return 1
		done
	done
}

@test "a short run passes and lists the ops and cells that it checked" {
	# Two seconds are enough for a case of each of has_rows' ops and cells in each dtype, except on a slow machine.
	for seconds in 2 20 200; do
		works check --max-time "$seconds"
		has_rows && break
	done
	has_rows
	[[ $output == *"compared with the independent reference"* ]]
	[[ $output == *"skipped "*" cases of interpreted kernels: "* ]]
	[[ ${lines[-1]} =~ ^.{0,8}[1-9][0-9]*\ cases,\ 0\ failures ]]
	[[ ${lines[-1]} =~ "stopped after "([0-9]+)\.[0-9].*"seed 20260101"$ ]]
	[ "${BASH_REMATCH[1]}" -ge "$seconds" ]
}

@test "there is no progress line if standard error is no terminal" {
	run -0 --separate-stderr "$CELLGRAD" check gru_block_cell dtype=f32 --max-time 0.5
	[ -z "$stderr" ]
	[[ $output != *$'\r'* ]]
	[[ $output != *$'\033'* ]]
}

@test "the same seed gives the same row of the table, and another seed another row" {
	works check gru_block_cell_grad U=3 dtype=f32
	first=$(grep gru_ <<< "$output")
	works check gru_block_cell_grad U=3 dtype=f32
	[ "$first" == "$(grep gru_ <<< "$output")" ]
	works check gru_block_cell_grad U=3 dtype=f32 --seed 3
	[ "$first" != "$(grep gru_ <<< "$output")" ]
	[[ ${lines[-1]} == *"seed 3" ]]
}

@test "an op under TensorFlow's name, and a dtype, select the cases" {
	works check LSTMBlockCell --dtype half --max-time 1
	[[ $output == *"lstm_block_cell  f16"* ]]
	[[ $output != *f32* ]]
	[[ $output != *gru* ]]
	[[ $output != *$'\n'"kernels of "* ]]
}

@test "NAME=VALUE leaves out ops and cells without such a field" {
	works check use_peephole=true B=1 dtype=f32 --max-time 1
	[[ $output == *lstm_block_cell_grad* ]]
	[[ $output != *gru* ]]
	works check pass=grad shape=sum dtype=f64 --max-time 1
	[[ $output == *rnn_tanh* ]]
	[[ $output != *"largest error"* ]]
}

@test "with a seed in the arguments exactly one case runs" {
	works check lstm_block_cell_grad B=1 I=2 U=2 dtype=f32 use_peephole=true accumulate=false absent=w_grad,b_grad seed=5
	[[ ${lines[-1]} == *"1 case, 0 failures, 0 skipped; "* ]]
	works check gru_block pass=grad shape=sum stage=2 rows=65 units=3 gap=1 dtype=bf16 memory=mixed accumulate=true seed=9
	[[ ${lines[-1]} == *"1 case, 0 failures, 0 skipped; "* ]]
	works check lstm_block_cell B=0 seed=0
}

@test "--ref compares with a second device instead of the reference" {
	works check --backend cpu --ref cpu gru_block_cell dtype=f32 --max-time 1
	[[ $output == *"largest difference / allowed"* ]]
	works check --ref reference gru_block_cell dtype=f32 --max-time 1
	[[ $output != *"largest difference"* ]]
}

@test "the exit status is 77 if nothing could be checked" {
	run -77 --separate-stderr "$CELLGRAD" check lstm pass=gradgrad
	[ -z "$stderr" ]
	[[ ${lines[-1]} == *"0 cases, 0 failures, "*" skipped; "* ]]
	run -77 --separate-stderr "$CELLGRAD" check lstm pass=gradgrad dtype=f32 seed=1
}

@test "the kernels of a cell's file are compared with those of another device, and on one device there is nothing to compare" {
	cp "$BATS_TEST_DIRNAME/../gen/learnt.cell" "$BATS_TEST_TMPDIR/my own.cell"
	works check --backend opencl --ref cpu "$BATS_TEST_TMPDIR/my own.cell" dtype=f32 pass=grad rows=3 units=5 seed=1
	[[ ${lines[-1]} == "1 case, 0 failures, "* ]]
	run -77 --separate-stderr "$CELLGRAD" check --backend cpu "$BATS_TEST_TMPDIR/my own.cell" --max-time 1
	[[ $output == *"skipped "*" cases of interpreted kernels"* && $output != *"kernels are compared with"* ]]
	run -77 --separate-stderr "$CELLGRAD" check --backend cpu slstm --max-time 1
	CELLGRAD_BACKEND=cpu refuses "nothing.cell" check ./nothing.cell
	refuses "my own.cell|twice" check "$BATS_TEST_TMPDIR/my own.cell" "$BATS_TEST_TMPDIR/my own.cell"
	echo "cell x" >"$BATS_TEST_TMPDIR/x.cell"
	run -2 --separate-stderr "$CELLGRAD" check "$BATS_TEST_TMPDIR/x.cell"
	[[ $stderr == "cellgrad check: "*"x.cell:1:6: cell 'x' has no gates"* ]]
}

@test "--json prints one object on each line" {
	works check gru_block_cell dtype=f32 --json --max-time 1
	[[ ${lines[0]} == '{"version":"'*'"device":"'* ]]
	[[ $output == *'{"op":"gru_block_cell","dtype":"f32","cases":'*'"failures":0,'*'"worst_share":'* ]]
	[[ ${lines[-1]} == '{"cases":'*'"failures":0,"skipped":0,"seed":20260101,"seconds":'* ]]
	for line in "${lines[@]}"; do
		[[ $line == '{'*'}' ]]
	done
}

@test "wrong arguments are refused" {
	refuses "lstm_block_cell_gard|lstm_block_cell_grad" check lstm_block_cell_gard
	refuses "gru_blok|gru_block" check gru_blok
	refuses "op|cell|frobnicate" check frobnicate
	refuses "janett|did you mean janet" check janett
	refuses "gru|twice" check gru gru
	refuses "use_peephol|use_peephole" check use_peephol=true
	refuses "gru_block_cell|forget_bias" check gru_block_cell forget_bias=1
	refuses "B|integer|0|65536|-1" check B=-1
	refuses "lstm_block_cell|sizes" check lstm_block_cell B=65536 I=65536 U=65536
	refuses "B|twice" check B=1 B=2
	refuses "dtype|twice" check dtype=f32 --dtype f32
	refuses "h_gard|h_grad" check lstm_block_cell_grad absent=h_gard
	refuses "kernel" check lstm pass=forward shape=sum
	refuses "stage|integer|1" check lstm stage=2
	refuses "op|cell|0" check seed=3
	refuses "op|cell|2" check lstm gru seed=3
}

@test "wrong options are refused" {
	refuses "--backend|cpo|cpu" check --backend cpo
	refuses "--ref|nowhere" check --ref nowhere
	refuses "--suite|quick|full|slow" check --suite slow
	refuses "--seed|integer" check --seed x
	refuses "--max-time|seconds" check --max-time 0
	refuses "--max-time|seconds" check --max-time=-1
	refuses "--dtype|f16|bf16|f32|f64|f8" check --dtype f8
	refuses "--max-tim|--max-time" check --max-tim 3
	CELLGRAD_BACKEND=nowhere refuses "CELLGRAD_BACKEND" check
}

# The signal is SIGTERM and not SIGINT, which programs in the background of a shell ignore.
@test "if SIGTERM ends the run, standard error has the command line of the current case" {
	# Within two seconds a case begins, except on a slow machine.
	for seconds in 2 20 200; do
		CELLGRAD_BACKEND=cpu run -124 --separate-stderr timeout -s TERM "$seconds" "$CELLGRAD" check --suite full
		[[ $stderr == *"cellgrad check "*" seed="* ]] && break
	done
	echo "standard error: $stderr"
	has ended
	[[ $stderr == *"cellgrad check "*" seed="* ]]
	# The command is printed once, although timeout sends the signal to the process and then to its group.
	[ "$(grep -o ended <<< "$stderr" | wc -l)" -eq 1 ]
}

@test "the command line of a case of a cell's file has the file's path" {
	cp "$BATS_TEST_DIRNAME/../gen/learnt.cell" "my own.cell"
	for seconds in 2 20 200; do
		run -124 --separate-stderr timeout -s TERM "$seconds" "$CELLGRAD" check --backend opencl --ref cpu "my own.cell" --suite full
		[[ $stderr == *"cellgrad check "*" seed="* ]] && break
	done
	[[ $stderr == *"cellgrad check 'my own.cell' pass="*" --backend opencl --ref cpu"* ]]
}

@test "a SIGTERM that is ignored when the run begins stays ignored" {
	(trap '' TERM; CELLGRAD_BACKEND=cpu exec "$CELLGRAD" check --suite full > out 2> err) &
	sleep 1
	kill -TERM $!
	sleep 1
	kill -KILL $!
	code=0; wait $! || code=$?
	[ "$code" -eq 137 ]
	[ ! -s err ]
}

@test "kernels of six cells give the same bits on OpenCL as on cpu, over 30000 rows" {
	needs_opencl
	unset POCL_EXTRA_BUILD_FLAGS           # PoCL then optimises kernels
	# The run is repeated with more time, if the first one was too short for a case.
	for seconds in 6 120; do
		works check lstm_block gru_block lstm gru rnn_tanh rnn_relu rows=30000 units=3 memory=device --backend opencl --max-time $seconds
		[[ $output =~ [1-9][0-9]*\ cases,\ 0\ failures ]] && break
	done
	[[ $output =~ [1-9][0-9]*\ cases,\ 0\ failures ]]
}

@test "kernels with means over units give the same bits on OpenCL as on cpu, forward and backward" {
	needs_opencl
	for pass in forward seq_grad; do
		works check ligru dtype=f32 pass=$pass --ref opencl
		[[ ${lines[-1]} =~ ^.{0,8}[1-9][0-9]*\ cases,\ 0\ failures ]]
	done
}

# The second OpenCL device may be Mesa's driver for processors, which must be enabled by a variable. The description of a device says
# whether its bits are those of the cpu; if they are not, `cellgrad check` leaves out kernels.
@test "check passes on every OpenCL device beyond the first" {
	[[ $SANITIZE != *thread* ]] || skip "the thread sanitizer cannot see how threads of Mesa wait for each other"
	export RUSTICL_ENABLE=llvmpipe
	devices=$("$CELLGRAD" info --json | grep -o '"name":"opencl:[0-9.]*"' | sed '1d; s/.*"\(opencl:.*\)"/\1/')
	if [ -z "$devices" ]; then
		[[ ,$CELLGRAD_TEST_REQUIRE, != *,opencl2,* ]]
		skip "there is none"
	fi
	for device in $devices; do
		# The run is repeated with more time, if the first one was too short for a case in f32 of each of the four ops.
		for seconds in 6 20 120; do
			run -0 --separate-stderr "$CELLGRAD" check --backend "$device" --max-time "$seconds"
			# Warnings of Mesa's compiler on standard error are ignored.
			[ -z "$(grep -v '^MESA: warning: ' <<< "$stderr")" ]
			[[ $output =~ [1-9][0-9]*\ cases?,\ 0\ failures ]]
			for op in lstm_block_cell lstm_block_cell_grad gru_block_cell gru_block_cell_grad; do
				[[ $output =~ $op\ +f32\ +[1-9][0-9]*\ +0\  ]] || continue 2
			done
			break
		done
		[[ $output =~ gru_block_cell_grad\ +f32\ +[1-9][0-9]*\ +0\  ]]
		case ${lines[0]} in
		*"not the same bits"*)     [[ $output == *"the device says that its bits are not the same"* ]] ;;
		*"arithmetic as promised") [[ $output =~ gru_block\ +f32\ +[1-9][0-9]*\ +0\  ]] ;;
		*)                         false ;;
		esac
	done
}
