#!/bin/sh
# gpu.sh: all that a machine with an NVIDIA GPU can say and no other: builds in a fresh folder, runs the conformance suite, the
# backend's own tests and the bits of kernels on the GPU, the same under compute-sanitizer's four tools where that is found, and
# measures every op beside its products alone (cuBLAS's), networks beside cuDNN alone, and the copy rate.  A dated report goes to tests/reports.
#
#	sh tests/gpu.sh          exit 0: all went well; 1: something failed, the report says what; 2: refused, there is no GPU
#
# For trying this script where there is no GPU: BACKEND, another backend (opencl, cpu), on which all steps but the sanitizer's run;
# REPORTS, another folder; CHECK_TIME, SANITIZE_TIME and BENCH_TIME, seconds for `cellgrad check`, the same under each tool, and
# each number of a bench.  CC, CFLAGS, CELLGRAD_TEST_SEED and the like are handed on.
set -u
top=$(cd "$(dirname "$0")/.." && pwd) || exit 1
backend=${BACKEND:-cuda}
reports=${REPORTS:-$top/tests/reports}
check_time=${CHECK_TIME:-300} sanitize_time=${SANITIZE_TIME:-60} bench_time=${BENCH_TIME:-0.25}
if commit=$(git -C "$top" rev-parse --short HEAD 2>/dev/null); then
	git -C "$top" diff --quiet HEAD || commit="$commit, with changes"
else
	commit='none: a tarball'
fi
jobs=$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
failed=0

say()    { echo "gpu: $*" >&2; }
refuse() { say "$*"; exit 2; }

# ---- is there anything to do it on? ----

case $backend in
cuda)
	gpus=$(nvidia-smi -L 2>&1) || {
		for node in /dev/nvidia[0-9]* /dev/dxg; do [ -e "$node" ] && break; done
		[ -e "$node" ] || refuse "there is no NVIDIA GPU here: no /dev/nvidia0, and nvidia-smi -L says: $(echo "$gpus" | head -n 1)"
		gpus="nvidia-smi does not run: $(echo "$gpus" | head -n 1)"
	} ;;
opencl | cpu) gpus="none: this is a trial of the script on $backend" ;;
*) refuse "BACKEND: expected cuda, or opencl or cpu for a trial, got $backend" ;;
esac
[ -f "$top/configure" ] || (cd "$top" && ./bootstrap) || exit 1

work=$(mktemp -d "${TMPDIR:-/tmp}/cellgrad-gpu.XXXXXX") || exit 1
trap 'say "interrupted; what was done is in $work"; exit 1' HUP INT TERM
mkdir "$work/build" || exit 1
cd "$work/build" || exit 1

# ---- steps ----

rows=$work/rows text=$work/text
: >"$rows"
: >"$text"
number=0

# step NAME COMMAND...: runs, and keeps what was said, how long it took and how it ended.  The command's own exit status.
step() {
	number=$((number + 1))
	name=$1 log=$work/$number.log
	shift
	say "$name: $*"
	began=$(date +%s)
	"$@" >"$log" 2>&1
	code=$?
	took=$(($(date +%s) - began))
	if [ $code -eq 0 ]; then
		outcome=passed
	else
		outcome="**failed**, exit $code" failed=1
		say "$name FAILED, exit $code; the end of what it said:"
		tail -n 20 "$log" >&2
	fi
	echo "| $name | \`$(shown "$*")\` | $outcome$(counted "$log") | $took s |" >>"$rows"
	return $code
}

# A command without this machine's folders, and with what a table's row needs to be hidden.
shown() { echo "$1" | sed "s,$top,.,g; s,$work/build/,,g; s,|,\\\\|,g"; }

# Of a test that speaks TAP, how many tests there were.
counted() { awk '/^ok / { n++; if (/# SKIP/) s++ } /^not ok / { n++; f++ } END { if (n) printf ": %d tests, %d failed, %d skipped", n, f, s }' "$1"; }

# keep TITLE [LINES]: the last step's words, or their end, into the report.
keep() {
	{
		printf '\n## %s\n\n```\n' "$1"
		sed "s,$top,.,g; s,$work/build/,,g" "$log" | tail -n "${2:-200}"
		echo '```'
	} >>"$text"
}

# The same for what is Markdown already.
keep_table() { printf '\n## %s\n\n' "$1" >>"$text"; cat "$log" >>"$text"; }

not_run() { echo "| $1 | | not run: $2 | |" >>"$rows"; say "$1: not run: $2"; }

# shellcheck disable=SC2016 # backticks are Markdown's
report() {
	mkdir -p "$reports" || exit 1
	device=$(sed -n "s/^ *${backend}[^ ]*  *//p" "$work/info" 2>/dev/null | head -n 1)
	file=$reports/$(date -u +%Y-%m-%d)-$backend-$(echo "${device:-unknown}" | sed 's/[;,].*//; s/^[a-z]* [0-9.]*: //' |
		tr -cs 'A-Za-z0-9\n' - | cut -c1-40 | sed 's/^-*//; s/-*$//').md
	{
		echo "# ${device:-$backend on an unknown device}"
		printf '\nMade by `sh tests/gpu.sh` on %s, of commit %s.\n' "$(date -u '+%Y-%m-%d %H:%M UTC')" "$commit"
		[ $failed -eq 0 ] && printf '\nAll that ran passed.\n' || printf '\n**Something failed.**\n'
		printf '\n## The machine\n\n```\n%s\n%s\n%s\n%s\n```\n' "$gpus" "$(uname -srm)" \
			"$(nvidia-smi --query-gpu=name,driver_version,memory.total,clocks.max.sm,power.limit --format=csv 2>/dev/null)" \
			"$(${CC:-cc} --version 2>/dev/null | head -n 1)"
		printf '\n## What was run\n\n| step | command | outcome | time |\n|---|---|---|---|\n'
		cat "$rows" "$text"
	} >"$file"
	say "the report: $file"
}

finish() {
	report
	if [ $failed -eq 0 ]; then
		rm -rf "$work"
	else
		say "what was built and said is kept in $work"
	fi
	exit $failed
}

# ---- build ----

step 'configure' "$top/configure" -q || finish
step 'build' make -s -j"$jobs" || finish
step 'build of the tests' make -s -j"$jobs" check TESTS= || finish

export CELLGRAD_BACKEND="$backend"
why=$(tests/conformance/conformance --opens) || {
	rm -rf "$work"
	refuse "backend $backend does not open: $why"
}
step 'what there is' ./cellgrad info
cp "$log" "$work/info"
keep 'What there is'

# ---- right? ----

step 'conformance' tests/conformance/conformance
keep 'Conformance'
step 'sequences' env srcdir="$top" CELLGRAD_CUDNN_LIB=none CELLGRAD_TEST_ROUTE=composed tests/sequence/sequence
keep 'Sequences'
if ./cellgrad info --why "$backend" 2>/dev/null | grep -q 'networks: cuDNN'; then
	cudnn=yes
	step 'sequences by cuDNN' env srcdir="$top" CELLGRAD_TEST_ROUTE=cudnn tests/sequence/sequence
	keep 'Sequences by cuDNN'
	for test in cuda_moves_test cuda_rnn_test cuda_net_test cuda_net_call_test; do
		step "networks: $test" env srcdir="$top" tests/runtime/$test
		keep "Networks: $test"
	done
else
	cudnn=
	not_run 'sequences by cuDNN' "$(./cellgrad info --why "$backend" 2>/dev/null | sed -n 's/.*networks: //p' | head -n 1 | grep . || echo "there is none on $backend")"
fi
own=tests/runtime/${backend}_test
if [ -x "$own" ]; then
	step "the backend's own tests" env srcdir="$top" "$own"
	keep "The backend's own tests"
else
	not_run "the backend's own tests" "there is no $own"
fi
other=cpu
[ "$backend" = cpu ] && other=reference
step 'ops and the bits of kernels' ./cellgrad check --ref $other --suite full --max-time "$check_time"
keep 'Ops, and the bits of kernels against the cpu' 60

# ---- clean? ----

sanitizer=$(command -v compute-sanitizer 2>/dev/null)
for place in /usr/local/cuda*/bin/compute-sanitizer /usr/local/cuda*/compute-sanitizer/compute-sanitizer; do
	[ -n "$sanitizer" ] || [ ! -x "$place" ] || sanitizer=$place
done
for tool in memcheck racecheck initcheck synccheck; do
	if [ "$backend" != cuda ]; then
		not_run "compute-sanitizer $tool" "it watches CUDA alone"
	elif [ -z "$sanitizer" ]; then
		not_run "compute-sanitizer $tool" "there is no compute-sanitizer"
	else
		# Kernels are made anew, so that what runs is what this tree prints.
		step "compute-sanitizer $tool" env CELLGRAD_CACHE=off "$sanitizer" --tool $tool --target-processes all --error-exitcode 9 \
			./cellgrad check --suite quick --max-time "$sanitize_time"
		keep "compute-sanitizer $tool" 40
	fi
done

# ---- fast? ----

for dtype in f32 f16 bf16 f64; do
	step "bench $dtype" ./cellgrad bench --dtype $dtype --time "$bench_time"
	keep "Every op in $dtype, and the copy rate"
done
export PARTS_TIME="$bench_time"
step 'ops and products alone' tests/parts f32 f16 bf16 f64
keep_table "Ops beside their products alone, which are the backend's BLAS where it has one: median ms"
if [ -n "$cudnn" ]; then
	export NET_TIME="$bench_time"
	step 'networks beside cuDNN alone' tests/net_time --most 2 f32 f16 bf16 f64
	keep_table "A training step of a network beside cuDNN's three calls alone, in turn: median ms, at most 2 % more"
fi
for op in LSTMBlockCell LSTMBlockCellGrad GRUBlockCell GRUBlockCellGrad; do
	step "overhead of $op" ./cellgrad bench --op $op --B 1 --I 1 --H 1 --time "$bench_time"
	keep "Overhead: $op at its smallest" 2
done
finish
