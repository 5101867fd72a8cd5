#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Tests gpu.sh on the stand-ins of tests/fake for CUDA's libraries: gpu.sh makes a kit of the present build, runs stages by the kit, and
# writes a report, also if a stage is refused, fails or is ended by a signal.  Short scripts replace the tools of a machine with an NVIDIA
# GPU: nvidia-smi, compute-sanitizer, ncu.
#   gpu_rehearsal.sh             short, a part of make check; runs in the build tree
#   gpu_rehearsal.sh whole KIT   runs every stage by a kit, on the stand-ins and on backend opencl: a part of make cleancheck
# srcdir: the source.
set -u
scratch=$(mktemp -d) || exit 99
trap 'rm -rf "$scratch"' EXIT
n=0 red=0

# report STATUS NAME: prints a line of TAP, and the output of gpu.sh if the test failed.
report()
{
	n=$((n + 1))
	if [ "$1" -eq 0 ]; then
		echo "ok $n - $2"
	else
		red=1
		sed 's/^/# /' "$scratch/said" "$scratch/reports/"*.md 2>/dev/null | tail -n 150
		echo "not ok $n - $2"
	fi
}

# gpu EXIT STAGE...: runs gpu.sh on the stand-ins with an empty folder of reports; succeeds if gpu.sh ends with exit status EXIT and leaves
# at most 8 files of reports and no temporary file.
gpu()
{
	expected=$1
	shift
	rm -rf "$scratch/reports"
	REPORTS=$scratch/reports TMPDIR=$scratch/tmp timeout -k 5 300 $with sh "$kit/gpu.sh" "$@" >"$scratch/said" 2>&1
	code=$?
	[ $code -eq "$expected" ] || { echo "# exit status $code, expected $expected"; return 1; }
	[ "$(find "$scratch/reports" -type f | wc -l)" -le 8 ] && [ -z "$(ls "$scratch/tmp")" ]
}

# verdict PATTERN: does the first line of the report match?  says PATTERN: does any line match?  silent PATTERN: does no line match?
# logged PATTERN: does the archive of logs have a file of such a name?
verdict() { head -qn 1 "$scratch/reports/"*.md | grep -qE "$1"; }
says()    { cat "$scratch/reports/"*.md | grep -qE "$1"; }
silent()  { ! says "$1"; }
logged()  { tar -tzf "$scratch/reports/logs.tar.gz" | grep -q "$1"; }

mkdir "$scratch/tmp" "$scratch/bin"

# ---- whole ----

if [ "${1:-}" = whole ]; then
	kit=$2
	stages=${3:-facts right fast clean}
	mkdir -p "${REPORTS:-$scratch/reports}"
	for with in "$kit/fake/run" ''; do
		if [ -n "$with" ]; then backend=cuda; else backend=opencl; fi
		for stage in $stages; do
			began=$(date +%s)
			BACKEND=$backend REPORTS=${REPORTS:-$scratch/reports} $with sh "$kit/gpu.sh" "$stage" >"$scratch/said" 2>&1
			code=$?
			took=$(($(date +%s) - began))
			echo "# $stage on $backend: $took s; $(head -qn 1 "${REPORTS:-$scratch/reports}"/*-"$backend"-*-"$stage".md)"
			[ $code -eq 0 ] && [ $took -lt 540 ]
			report $? "$stage on $backend passes in less than nine minutes"
		done
	done
	echo "1..$n"
	exit $red
fi

# ---- short ----

with=tests/fake/run kit=$scratch/kit
why=$($with true) || {
	case ,${CELLGRAD_TEST_REQUIRE:-}, in
	*,cuda-fake,*) printf '1..1\nnot ok 1 - the stand-ins are there\n%s\n' "$why" ;;
	*)             printf '1..0 # SKIP %s\n' "${why#\# }" ;;
	esac
	exit 0
}
for file in cellgrad tests/net_time tests/conformance/conformance; do
	[ -x "$file" ] || { echo "1..0 # SKIP there is no $file: this build is without the command, CUDA or tests"; exit 0; }
done
[ -z "${SANITIZE:-}" ] || { echo '1..0 # SKIP programs of a kit have no sanitizers'; exit 0; }
export CHECK_TIME=1 BENCH_TIME=0.001 SANITIZE_TIME=1 NET_TIME=0.01

BUILD=$PWD STAND_INS=yes sh "$srcdir/tests/gpu.sh" kit "$kit" >"$scratch/said" 2>&1
report $? 'a kit is made of the present build'
[ -f "$kit/kit.txt" ] || { echo "1..$n"; exit 1; }

gpu 0 facts && verdict '^# PASSED: facts on stand-in 0:.* 0 failed' && says 'CUDNN: .*9\.13\.0.*libcudnn\.so\.9' && says 'NVRTC: .*13\.0' &&
	says 'clocks: ' && says 'It counts for nothing' && logged facts/.*info.log
report $? 'facts: the report has versions and paths, and says that it is a rehearsal'

LEAVE_OUT='sequences-composed conformance-f32 conformance-f16 conformance-bf16 conformance-f64 cuda-rnn cuda cuda-moves cuda-gemm cuda-forms
	sequences-cudnn conformance-cudnn cuda-net cuda-net-call cuda-range persistent shelf' \
	gpu 0 right && verdict '^# PASSED: right on stand-in 0: 3 steps passed, 0 failed, 17 not run' &&
	says '^\| cuda-rows \|.*passed: [0-9]+ tests, 0 failed' && says '^\| check \| .*passed' && says '^\| drawn \| .*passed' && says '^\| cuda-net \| .*LEAVE_OUT' && logged right/.*check.log
report $? 'right: the report lists the steps that were left out'

# logs.tar.gz keeps the logs of other stages whose reports are in the same folder.
rm -rf "$scratch/reports"
for stage in facts 'only info'; do
	# shellcheck disable=SC2086
	REPORTS=$scratch/reports $with sh "$kit/gpu.sh" $stage >"$scratch/said" 2>&1 || break
done
logged facts/.*info.log && logged only/.*info.log
report $? 'one archive has the logs of two stages'

gpu 1 only info no-such-step && verdict '^# FAILED' && says 'no-such-step'
report $? 'an unknown step is a failure'

# ---- what goes wrong ----

kits() { rm -rf "$scratch/other"; cp -R "$kit" "$scratch/other"; sed "$1" "$kit/kit.txt" >"$scratch/other/kit.txt"; KIT=$scratch/other; export KIT; }
kits 's/^machine .*/machine pdp11/'
gpu 2 right && verdict '^# REFUSED: .*pdp11.*'"$(uname -m)"
report $? 'a kit of another architecture is refused in the report'
kits 's/^libc .*/libc 2.999/'
gpu 2 right && verdict '^# REFUSED: .*2\.999.*'"$(getconf GNU_LIBC_VERSION | sed 's/.* //')"
report $? 'a kit for a newer C library is refused in the report'
kits ''
printf 'no archive' >"$scratch/other/bin.tar.gz"
gpu 2 right && verdict '^# REFUSED: '
report $? 'a kit whose programs do not unpack is refused in the report'
unset KIT

CELLGRAD_FAKE_DEVICES=0 gpu 2 right && verdict '^# REFUSED: .*cuda.*does not open'
report $? 'a machine without a device is refused in the report'
CELLGRAD_FAKE_FAIL=cuDevicePrimaryCtxRetain:1:46 gpu 2 right && verdict '^# REFUSED: .*DEVICE_UNAVAILABLE'
report $? 'a device that another process occupies is refused in the report'
CELLGRAD_CUDNN_LIB=$kit/gpu.sh gpu 2 right && verdict '^# REFUSED: .*CELLGRAD_CUDNN_LIB'
report $? 'a CELLGRAD_CUDNN_LIB that is no library is refused in the report'
CELLGRAD_CUDNN_LIB=$kit/fake/lib/cudnn-9/libcudnn.so.9 CELLGRAD_FAKE_CUDART=12 gpu 2 right &&
	verdict '^# REFUSED: .*CELLGRAD_CUDNN_LIB.*for CUDA 12, but cuBLAS is for CUDA 13'
report $? 'a cuDNN for another CUDA than that of cuBLAS is refused in the report'
CELLGRAD_FAKE_FAIL=nvrtcCompileProgram:1:6 gpu 2 right && verdict '^# REFUSED: .*a kernel does not go: .*NVRTC_ERROR_COMPILATION'
report $? 'a device for which no kernel can be built is refused in the report'

# Short scripts in $scratch/bin replace nvidia-smi, compute-sanitizer and ncu.
cat >"$scratch/bin/nvidia-smi" <<'END'
#!/bin/sh
case $* in
*compute_mode*) echo "${PLAYED_MODE:-Default}" ;;
*compute-apps*) echo "${PLAYED_APPS:-}" ;;
*clocks.sm,*)   echo '1980 MHz, 2619 MHz, 40, 100.00 W, 0 %, 0x0000000000000000' ;;
-L)             echo 'GPU 0: a GPU that is played (UUID: GPU-0)' ;;
esac
END
cat >"$scratch/bin/compute-sanitizer" <<'END'
#!/bin/sh
echo "========= COMPUTE-SANITIZER $*, cuBLAS ${CELLGRAD_CUBLAS_LIB:-found}, cuDNN ${CELLGRAD_CUDNN_LIB:-found}"
[ -z "${PLAYED_HANG:-}" ] || sleep 60
case " $* $CELLGRAD_CUBLAS_LIB" in *"${PLAYED_ERROR:-no error}"*) exit 9 ;; esac
while [ $# -gt 0 ]; do
	case $1 in
	--tool | --report-api-errors | --target-processes | --error-exitcode) shift 2 ;;
	*) break ;;
	esac
done
exec "$@"
END
cat >"$scratch/bin/ncu" <<'END'
#!/bin/sh
cat <<'CSV'
==PROF== Connected to process 1
"ID","Process ID","Kernel Name","sm__throughput.avg.pct_of_peak_sustained_elapsed","launch__registers_per_thread"
"","","","%","register/thread"
"0","1","cg_played","12.5","40"
CSV
END
chmod +x "$scratch/bin/"*
PATH=$scratch/bin:$PATH
export PATH

PLAYED_MODE=Prohibited gpu 2 right && verdict '^# REFUSED: .*Prohibited'
report $? 'a GPU that accepts no process is refused in the report'
PLAYED_MODE=Exclusive_Process PLAYED_APPS='7, a game, 100 MiB' gpu 0 only info && says 'one process at a time' && says 'a game' && says 'clocks: 1980 MHz'
report $? 'the report says that a GPU is exclusive, or in use by others'

gpu 0 clean && verdict '^# PASSED: clean' && says '^\| memcheck \| .*--tool memcheck --report-api-errors no.*passed' &&
	says '^\| racecheck \| .*CELLGRAD_CUBLAS_LIB=none CELLGRAD_CUDNN_LIB=none.*passed' && says '^\| memcheck-vendors \| .*passed' &&
	says 'sm__throughput.* 12.5$' && [ "$(cat "$scratch/reports/"*.md | grep -c '^| ncu-.*passed')" -eq 6 ]
report $? 'clean: the report has four tools on our kernels, one on those of the vendors too, and six kernels in ncu'
PLAYED_ERROR='--tool memcheck --report-api-errors no --target-processes all --error-exitcode 9' CELLGRAD_CUBLAS_LIB='' gpu 1 only memcheck memcheck-vendors &&
	verdict '^# FAILED: .* 1 failed.*: memcheck$' && says '### memcheck-vendors: .*does not count'
report $? 'a finding in kernels of the vendors is recorded, one in our kernels is a failure'
PLAYED_HANG=yes STEP_TIME=4 gpu 1 only memcheck && says '^\| memcheck \| .*did not end within 4 s'
report $? 'a step that does not end is killed'
STAGE_TIME=0 gpu 1 only cuda-rows && verdict '^# FAILED: .*were over before cuda-rows' && says 'not run: the 0 s'
report $? 'a stage that runs out of time does not pass'

# If a step loses the CUDA context, no other step runs, and memcheck repeats the first `cellgrad check` in the
# step's log, or else the step's command.
CELLGRAD_FAKE_FAIL=cuLaunchKernel:1600:719 JOBS=1 gpu 1 only cuda-rnn check && verdict '^# FAILED: .*context was lost in cuda-rnn' &&
	says '^\| check \| .*not run: the context was lost in cuda-rnn' && says 'its line again, by .*--tool memcheck' && says 'LAUNCH_FAILED'
report $? 'a lost context ends the stage, and memcheck runs the command that lost it'
CHECK_TIME=60 CELLGRAD_FAKE_FAIL=cuLaunchKernel:300:700 gpu 1 only check && says '^  *.*cellgrad check .*seed=' && says 'its line again, by .*memcheck.* cellgrad check .*seed='
report $? 'after a lost context in a check, memcheck runs the failing case'

# gpu.sh gets SIGTERM during a step that does not end.
rm -rf "$scratch/reports"
PLAYED_HANG=yes REPORTS=$scratch/reports sh -c 'echo $$ >"$0"; exec "$@"' "$scratch/pid" \
	$with sh -c 'echo $$ >"$0"; exec "$@"' "$scratch/pid" sh "$kit/gpu.sh" only cuda-rows memcheck >"$scratch/said" 2>&1 &
waited=0
until grep -q 'gpu: memcheck: ' "$scratch/said" 2>/dev/null || [ $waited -ge 120 ]; do
	sleep 1
	waited=$((waited + 1))
done
verdict '^# RUNNING: ' && says '^\| cuda-rows \| .*passed'
report $? 'the report exists while the stage runs'
kill -TERM "$(cat "$scratch/pid")"
wait $!
code=$?
[ $code -eq 1 ] && verdict '^# STOPPED: .* 1 steps passed' && says '^\| cuda-rows \| .*passed' && says '^\| memcheck \| .*stopped' &&
	logged memcheck.log
report $? 'a stage that a signal ends leaves a report of the steps that had ended'

# Steps of stage fast write their measurements to tables in the report; those that run `cellgrad bench` and some others also to a JSON file.
gpu 0 only bench-f32 parity census nvrtc overhead-LSTMBlockCell && says '^\| lstm \| f32 \| .*favourable' && says 'with other bits' && says 'texts compiled' &&
	says '^\| LSTMBlockCell \| .* f32 ' && says 'Clocks .*before: 1980 MHz' && grep -q '"kind":"problem"' "$scratch/reports/numbers-only.json"
report $? 'fast: the report has tables, clocks and numbers'

# On the stand-in a network of cellgrad takes many times as long as the calls of cuDNN alone, so the network's time exceeds the limits of
# 5 percent and 15 microseconds, but not a limit of 1e9.
export NET_SMALL=1
$with tests/net_time --most 5 --least 15 f32 >"$scratch/said" 2>&1
[ $? -eq 1 ] && $with tests/net_time --most 5 --least 1e9 f32 >"$scratch/said" 2>&1 && $with tests/net_time --most 1e9 --least 15 f32 >"$scratch/said" 2>&1
report $? 'parity fails if both its limits are exceeded, a share and a time, and passes if one is'

sh "$kit/gpu.sh" >"$scratch/said" 2>&1
[ $? -eq 2 ] && sh "$kit/gpu.sh" kit "$scratch" >"$scratch/said" 2>&1
[ $? -eq 2 ] && KIT=$scratch sh "$kit/gpu.sh" facts >"$scratch/said" 2>&1
[ $? -eq 2 ]
report $? 'gpu.sh ends with exit status 2 without a stage, for a folder that is in use and is no kit, and if the kit is missing'
echo "1..$n"
exit 0
