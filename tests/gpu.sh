#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# gpu.sh: tests and measurements of the cuda backend on a machine with an NVIDIA GPU, in less than an hour of its time.
#
#	sh tests/gpu.sh kit DIR                builds, on this machine, all that runs on the other: programs, their libraries, their data
#	KIT=DIR sh DIR/gpu.sh STAGE            runs one stage, there, by the kit; from a kit's own folder KIT may be left out
#	KIT=DIR sh DIR/gpu.sh only NAME...     runs some steps of any stage, by name
#
# Stages, each of less than nine minutes:
#	facts     the machine: versions and paths of libraries, clocks, ECC, MIG, compute mode, other processes
#	right     are the answers right?  the backend's tests, the suites of conformance and of sequences on the routes composed and cudnn (on
#	          cudnn the networks alone), `cellgrad check`
#	fast      ceilings of the machine, networks beside bare cuDNN and beside PyTorch, ops by `cellgrad bench`, NVRTC, what a scan could use
#	clean     compute-sanitizer's four tools on our kernels, one of them with the vendors' as well, ncu on six kernels
#
# The machine with the GPU needs a driver and NVRTC, and for some steps cuDNN, Python with PyTorch, compute-sanitizer or ncu; no compiler,
# no network.
# The report is REPORTS/DATE-BACKEND-DEVICE-STAGE.md, written anew after every step, with the verdict in its first line.
# exit 0: no step failed, except recorded ones, and there was time for all; 1: a step failed, the time was over, or a signal ended the
# stage; 2: refused.
#
# REPORTS   folder of the report, of logs.tar.gz and of numbers.json (of only: numbers-only.json), 8 files at most for one day and device:
#           tests/reports, or reports in the kit
# JOBS      steps of `facts` and `right` that run at a time: 4, and 1 where the GPU takes one process
# BACKEND   another backend (opencl, cpu), to try the script on
# LEAVE_OUT names of steps not to run;  STAGE_TIME seconds for the stage, 520;  STEP_TIME seconds at most for one step
# CHECK_TIME SANITIZE_TIME BENCH_TIME   seconds for `cellgrad check`, for it under each sanitizer tool, for each number of a bench
# BUILD     for kit: a build folder at hand, instead of build-gpu;  STAND_INS=yes: the kit is to rehearse, and has tests/fake
set -u
here=$(cd "$(dirname "$0")" && pwd) || exit 1
stages='facts right fast clean'
most_mb=50

say() { echo "gpu: $*" >&2; }

# ---- kit: the programs for the machine with a GPU, built on this machine ----

# The programs of the kit, which its archive bin.tar.gz has in bin/, without the folders of the build.
programs='cellgrad tests/conformance/conformance tests/sequence/sequence tests/parts tests/net_time tests/gpu_probe
	tests/backends/cuda/cuda_test tests/backends/cuda/cuda_moves_test tests/backends/cuda/cuda_gemm_test tests/backends/cuda/cuda_rows_test
	tests/backends/cuda/cuda_forms_test tests/backends/cuda/cuda_rnn_test tests/backends/cuda/cudnn/cuda_net_test tests/backends/cuda/cudnn/cuda_net_call_test
	tests/backends/cuda/cudnn/cuda_range_test'
stand_in_programs='tests/backends/opencl/opencl_test'
data='tests/gen/coupled.cell tests/gen/stages.cell tests/data/shelf/*.safetensors tests/drawn.sh tests/gpu_micro.cu tests/gpu_torch.py tests/gpu_modules.py
	tests/gpu_modules_checks.py python/cellgrad/*.py python/cellgrad/torch/*.py runtime/cellgrad.h'

die() { say "$*"; exit 1; }

# needed_by PROGRAM...: prints the shared libraries that the programs load, without those of the C library, which the other machine has.
needed_by()
{
	ldd "$@" 2>/dev/null | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | sort -u |
		grep -Ev '/(ld-linux[^/]*|libc|libm|libdl|libpthread|librt|libresolv)\.so[^/]*$'
}

make_kit()
{
	top=$(cd "$here/.." && pwd) || exit 1
	[ $# -eq 1 ] || { say 'expected kit DIR'; exit 2; }
	case $1 in /*) kit=$1 ;; *) kit=$PWD/$1 ;; esac
	if [ -e "$kit" ] && [ ! -f "$kit/kit.txt" ] && [ -n "$(ls -A "$kit" 2>/dev/null)" ]; then
		say "$kit is there, and no kit: it is left as it is"
		exit 2
	fi
	if [ -n "${BUILD:-}" ]; then
		build=$(cd "$BUILD" && pwd) || exit 2
	else
		build=$top/build-gpu
		[ -f "$top/configure" ] || (cd "$top" && ./bootstrap) || die 'bootstrap failed'
		mkdir -p "$build" && cd "$build" || exit 1
		# The programs of the kit search libraries in ../lib of their own folder; the dollar signs are escaped for make.
		[ -f Makefile ] || "$top/configure" -q CFLAGS=-O2 LDFLAGS="-Wl,-rpath,'\$\$ORIGIN/../lib'" || die 'configure failed'
		jobs=-j$(nproc 2>/dev/null || echo 2)
		make -s "$jobs" && make -s "$jobs" check TESTS= || die 'the build failed'
	fi
	cd "$build" || exit 1
	[ -z "${STAND_INS:-}" ] || programs="$programs $stand_in_programs"
	# shellcheck disable=SC2086 # a list
	for file in $programs; do [ -f "$file" ] || die "there is no $file in $build: 'make' and 'make check TESTS=' build it"; done
	# The old kit is removed, but not its folder of reports.
	(cd "$kit" 2>/dev/null && rm -rf bin bin.tar.gz lib tests python runtime fake gpu.sh kit.txt)
	mkdir -p "$kit/bin" "$kit/lib" || exit 1
	# shellcheck disable=SC2086
	for file in $programs; do strip -o "$kit/bin/${file##*/}" "$file" || exit 1; done
	libc=$(newest_libc "$kit")
	# Each program contains the whole library, so that compression reduces the programs to a third.
	tar -C "$kit" -czf "$kit/bin.tar.gz" bin || exit 1
	rm -r "${kit:?}/bin"
	strip -o "$kit/lib/libcellgrad.so.0" .libs/libcellgrad.so.0 || exit 1
	# shellcheck disable=SC2086
	for file in $(needed_by $programs); do cp -L "$file" "$kit/lib/" || exit 1; done
	# shellcheck disable=SC2086 # patterns
	for file in $(cd "$top" && echo $data); do
		mkdir -p "$kit/${file%/*}" && cp "$top/$file" "$kit/$file" || exit 1
	done
	cp "$top/tests/gpu.sh" "$kit/gpu.sh" || exit 1
	if [ -n "${STAND_INS:-}" ]; then
		mkdir "$kit/fake" && cp -R tests/fake/lib "$kit/fake/lib" &&
			cp tests/fake/run "$kit/fake/run" || exit 1
	fi
	{
		echo "commit $(commit_of "$top")"
		echo "version $(./cellgrad --version 2>/dev/null | sed 's/^cellgrad *//')"
		echo "machine $(uname -m)"
		echo "libc $libc"
		echo "compiler $(${CC:-cc} --version 2>/dev/null | head -n 1)"
		echo "flags $(sed -n 's/^CFLAGS = //p' Makefile)"
		echo "stand-ins ${STAND_INS:-no}"
	} >"$kit/kit.txt"
	mb=$(du -sm "$kit" | cut -f1)
	# A kit of an existing build may be larger than most_mb, since that build may have sanitizers or debug information.
	[ "$mb" -le $most_mb ] || [ -n "${BUILD:-}" ] || die "the kit has $mb MB: expected at most $most_mb"
	say "the kit: $kit, $mb MB; there: KIT=$kit sh $kit/gpu.sh STAGE"
}

commit_of()
{
	if commit=$(git -C "$1" rev-parse --short HEAD 2>/dev/null); then
		git -C "$1" diff --quiet HEAD || commit="$commit, with changes"
		echo "$commit"
	else
		echo 'none: a tarball'
	fi
}

# newest_libc KIT: prints the newest version of the GNU C library of which a program of the kit uses a symbol.
newest_libc()
{
	for file in "$1"/bin/*; do
		LC_ALL=C grep -ao 'GLIBC_2\.[0-9.]*' "$file"
	done | sort -u | sed 's/GLIBC_//' | sort -t. -k1,1n -k2,2n | tail -n 1
}

# ---- the report ----

what=${1:-}
case $what in
kit) shift; make_kit "$@"; exit ;;
facts | right | fast | clean) [ $# -eq 1 ] || { say "$what: expected nothing behind it"; exit 2; } ;;
only) [ $# -gt 1 ] || { say 'expected only NAME...'; exit 2; } ;;
*) sed -n '2,/^set -u/{/^set -u/d;s/^# \{0,1\}//;p;}' "$0" >&2; exit 2 ;;
esac
stage=$what
shift
wanted=" $* "
# shellcheck disable=SC2086,SC2116 # LEAVE_OUT may have any white space between its names
leave_out=$(echo ${LEAVE_OUT:-})

kit=${KIT:-$here}
[ -f "$kit/kit.txt" ] || { say "KIT: there is no kit in $kit: 'sh tests/gpu.sh kit DIR' makes one"; exit 2; }
kit=$(cd "$kit" && pwd) || exit 2
if [ "$kit" = "$here" ]; then own=$kit/reports; else own=$here/reports; fi
reports=${REPORTS:-$own}
backend=${BACKEND:-cuda}
jobs=${JOBS:-4} stage_time=${STAGE_TIME:-520} step_time=${STEP_TIME:-${STAGE_TIME:-520}}
check_time=${CHECK_TIME:-120} sanitize_time=${SANITIZE_TIME:-40} bench_time=${BENCH_TIME:-0.2}
mkdir -p "$reports" && [ -w "$reports" ] || { say "REPORTS: cannot write to $reports"; exit 2; }
reports=$(cd "$reports" && pwd) || exit 2
work=$(mktemp -d "${TMPDIR:-/tmp}/cellgrad-gpu.XXXXXX") || exit 2
logs=$work/logs/$stage
mkdir -p "$logs" "$work/rows" "$work/text" "$work/failures" || exit 2
began_all=$(date +%s) deadline=$((began_all + stage_time))
number=0 pending='' green=0 red='' missed=0 late='' lost='' file='' device=''
verdict=RUNNING words='this report was written while the stage ran, and nothing wrote it again: the stage was killed'

fact() { sed -n "s/^$1 //p" "$kit/kit.txt"; }

# plain: removes the name of this run's temporary folder from its input, and puts KIT in place of the kit's folder.
plain() { sed "s,$work/bin/,,g; s,$work/,,g; s,$kit,KIT,g"; }

# Sets $file, the path of the report, in which the device's name has only characters that suit the name of a file.
place_report()
{
	slug=$(printf '%s' "${device:-unknown}" | sed 's/[;,].*//; s/^[a-z]* [0-9.]*: //' | tr -cs 'A-Za-z0-9' - | cut -c1-40 | sed 's/^-*//; s/-*$//')
	new=$reports/$(date -u +%Y-%m-%d)-$backend-$slug-$stage.md
	[ -z "$file" ] || [ "$file" = "$new" ] || rm -f "$file"
	file=$new
}

rehearsal() { [ "$backend" != cuda ] || [ -n "${CELLGRAD_FAKE_CUDA:-}" ]; }

# shellcheck disable=SC2016 # backticks are Markdown's
report()
{
	n_red=$(echo "$red" | wc -w)
	{
		echo "# $verdict: $stage on ${device:-an unknown device}: $green steps passed, $((n_red)) failed, $missed not run: $words"
		rehearsal && printf '\n**A rehearsal: on %s, not on an NVIDIA GPU.  It counts for nothing.**\n' "${device:-$backend}"
		printf '\nMade by `gpu.sh %s` on %s, of commit %s, in %d s.\n' "$stage$([ "$wanted" = '  ' ] || echo "$wanted")" \
			"$(date -u '+%Y-%m-%d %H:%M UTC')" "$(fact commit)" $(($(date +%s) - began_all))
		if [ -n "$red" ]; then
			printf '\n## What failed\n'
			cat "$work/failures/"* 2>/dev/null
		fi
		printf '\n## What was run\n\n| step | command | outcome | time |\n|---|---|---|---|\n'
		cat "$work/rows/"* "$work/text/"* 2>/dev/null
	} >"$file.new"
	mv "$file.new" "$file"
	# logs.tar.gz has the logs of this stage, and the logs of other stages, which `begin` unpacked from the archive before.
	(cd "$work" && tar -czf "$reports/logs.tar.gz.new" logs 2>/dev/null) && mv "$reports/logs.tar.gz.new" "$reports/logs.tar.gz"
}

# finish VERDICT EXIT WORDS...: writes the report and ends the script; each stage ends by this function.
finish()
{
	verdict=$1 code=$2
	shift 2
	words=$*
	report
	say "$verdict: $words"
	say "the report: $file"
	cd / && rm -rf "$work"
	exit "$code"
}

refuse() { finish REFUSED 2 "$*"; }

interrupted()
{
	trap '' HUP INT TERM
	for n in $pending; do
		kill -TERM "$(cat "$work/$n.pid" 2>/dev/null)" 2>/dev/null
		row "$n" "$(cat "$work/$n.id")" "$(cat "$work/$n.command")" '**stopped**' "$(($(date +%s) - $(cat "$work/$n.began"))) s"
	done
	finish STOPPED 1 "ended by a signal; what had ended by then is here, what ran then is marked"
}

# row NUMBER STEP COMMAND OUTCOME TIME: writes a row of the report's table of steps.
# shellcheck disable=SC2016
row() { printf '| %s | %s | %s | %s |\n' "$2" "${3:+\`$3\`}" "$4" "${5:-}" >"$work/rows/$1"; }

# section NUMBER TITLE: appends its input to the report, under a title.  words NUMBER TITLE LINES: appends the last lines of its input in a
# fenced block.
section() { { printf '\n## %s\n\n' "$2"; plain; } >>"$work/text/$1"; }
words()   { { echo '```'; tail -n "$3"; echo '```'; } | section "$1" "$2"; }

# ---- steps ----

# `repeating`: the pattern of the lines in a log that have a command which repeats a failure.
repeating='cellgrad (check|run|bench) |CELLGRAD_TEST_SEED='
fatal='made the context unusable|CUDA_ERROR_(ECC_UNCORRECTABLE|NVLINK_UNCORRECTABLE|CONTAINED|ILLEGAL_ADDRESS|LAUNCH_TIMEOUT|CONTEXT_IS_DESTROYED|ASSERT|HARDWARE_STACK_ERROR|ILLEGAL_INSTRUCTION|MISALIGNED_ADDRESS|INVALID_ADDRESS_SPACE|INVALID_PC|LAUNCH_FAILED)'

# next: sets $n to the number of the next row of the report's table.
next() { number=$((number + 1)); n=$(printf "%02d" "$number"); }

# is_wanted NAME: does this step run?  If the step does not run, the report has a row about it, except of a step that `only` does not name.
is_wanted()
{
	[ "$stage" = only ] && case $wanted in *" $1 "*) ;; *) return 1 ;; esac
	case " $leave_out " in *" $1 "*) not_run "$1" 'LEAVE_OUT names it'; return 1 ;; esac
	[ -z "$lost" ] || { not_run "$1" "the context was lost in $lost"; return 1; }
}

not_run()
{
	if [ "$stage" = only ]; then case $wanted in *" $1 "*) ;; *) return ;; esac; fi
	missed=$((missed + 1))
	next
	row "$n" "$1" '' "not run: $2"
	say "$1: not run: $2"
}

# start NAME SECONDS FORM COMMAND...: starts a step; at most JOBS steps run at a time.  FORM: the part of the output that the report keeps:
# none, words (40 lines), all (200 lines), table (Markdown), or `recorded`: none, and the verdict does not count a failure of the step.
# The time limit of the step is the least of SECONDS, STEP_TIME and the time that the stage has left.
start()
{
	name=$1 limit=$2 keep=$3 ran=''
	shift 3
	is_wanted "$name" || return 0
	while [ "$(echo "$pending" | wc -w)" -ge "$jobs" ]; do collect; done
	[ -z "$lost" ] || { not_run "$name" "the context was lost in $lost"; return 0; }
	remains=$((deadline - $(date +%s)))
	[ "$limit" -le "$step_time" ] || limit=$step_time
	[ "$limit" -le "$remains" ] || limit=$remains
	if [ "$limit" -lt 3 ]; then
		late="$late $name"
		not_run "$name" "the $stage_time s of the stage were over"
		return 0
	fi
	next
	ran=$n out=$logs/$n-$name.log
	printf '%s' "$name" >"$work/$n.id"
	printf '%s' "$keep" >"$work/$n.form"
	printf '%s' "$limit" >"$work/$n.limit"
	printf '%s' "$out" >"$work/$n.log"
	printf '%s' "$*" | tr '\n\t' '  ' | sed 's,|,\\|,g' | plain >"$work/$n.command"
	date +%s >"$work/$n.began"
	say "$name: $(cat "$work/$n.command")"
	(
		trap - HUP INT TERM
		# The stand-ins for CUDA's libraries write their reports about this step to a file of its own.
		[ -z "${CELLGRAD_FAKE_REPORT:-}" ] || CELLGRAD_FAKE_REPORT=$work/$n.fake
		timeout -k 5 "$limit" "$@" >"$out" 2>&1 </dev/null &
		echo $! >"$work/$n.pid"
		wait $!
		echo $? >"$work/$n.rc.new"
		mv "$work/$n.rc.new" "$work/$n.rc"
	) &
	pending="$pending $n"
}

# collect: finishes the steps whose processes have ended; waits a little if there is no such step.
collect()
{
	others_run='' any=
	for one in $pending; do
		if [ -f "$work/$one.rc" ]; then any=yes; ended "$one"; else others_run="$others_run $one"; fi
	done
	pending=$others_run
	if [ -n "$any" ]; then report; else sleep 0.2; fi
}

# wait_all: waits until all steps have ended.  step: does the same as start, while no other step runs, and returns the step's exit
# status, 0 if the step was not run.
wait_all() { while [ -n "$pending" ]; do collect; done; }
step()
{
	wait_all
	last=0
	start "$@"
	wait_all
	return "$last"
}

# counted LOG: prints the numbers of tests in a log that has TAP.
counted() { awk '/^ok / { n++ } /# SKIP/ { s++ } /^not ok / && !/# SKIP/ { n++; f++ } END { if (n) printf ": %d tests, %d failed, %d skipped", n, f, s }' "$1"; }

# shellcheck disable=SC2016
ended()
{
	id=$(cat "$work/$1.id") log=$(cat "$work/$1.log") form=$(cat "$work/$1.form") last=$(cat "$work/$1.rc")
	took=$(($(date +%s) - $(cat "$work/$1.began")))
	if [ -s "$work/$1.fake" ]; then
		sort "$work/$1.fake" | uniq -c | sed 's/^ */# stand-in: /' | head -n 40 >>"$log"
		[ "$last" -ne 0 ] || last=90
	fi
	case $last in
	0) outcome=passed green=$((green + 1)) ;;
	77) outcome="not run: $(tail -n 1 "$log")" missed=$((missed + 1)) last=0 form=none ;;
	124 | 137) outcome="**failed**: it did not end within $(cat "$work/$1.limit") s" ;;
	126 | 127) outcome="**failed**, exit $last: the program does not run on this machine" ;;
	*) outcome="**failed**, exit $last" ;;
	esac
	row "$1" "$id" "$(cat "$work/$1.command")" "$outcome$(counted "$log")" "$took s"
	case $form in
	words) words "$1" "$id" 40 <"$log" ;;
	all)   words "$1" "$id" 200 <"$log" ;;
	table) section "$1" "$id" <"$log" ;;
	esac
	[ "$last" -eq 0 ] || failed "$1"
}

failed()
{
	case $form in recorded) red_words=' (recorded: the verdict does not count it)' ;; *) red="$red $id" red_words='' ;; esac
	say "$id FAILED$red_words: $outcome; the end of what it said:"
	tail -n 20 "$log" >&2
	{
		printf '\n### %s: %s%s\n\n```\n%s\n' "$id" "$outcome" "$red_words" "$(cat "$work/$1.command")"
		echo '--- what repeats it:'
		grep -E "$repeating" "$log" | sort -u | head -n 40
		echo '--- the end of what it said:'
		tail -n 60 "$log"
		echo '```'
	} | plain >"$work/failures/$1"
	if [ "$form" != recorded ] && grep -qE "$fatal" "$log"; then
		lost=$id
		watch_failure "$1"
	fi
}

# watch_failure NUMBER: after a lost context, runs the first command `cellgrad check` in the step's log again, or else the step's command,
# by memcheck if that is installed, else with CUDA_LAUNCH_BLOCKING=1.
watch_failure()
{
	line=$(grep -oE 'cellgrad check [^#]*' "$log" | head -n 1)
	set -- "$1" memcheck-of-"$id"
	[ -n "$line" ] || line=$(sed "s,KIT,$kit,g" "$work/$1.command")
	again=$logs/$1-memcheck.log
	if [ -n "$sanitizer" ]; then
		with="$sanitizer --tool memcheck --report-api-errors no"
	else
		with='env CUDA_LAUNCH_BLOCKING=1'
	fi
	say "the context was lost: $with $line"
	remains=$((deadline + 15 - $(date +%s)))
	[ $remains -lt 90 ] || remains=90
	[ $remains -gt 5 ] || remains=5
	# shellcheck disable=SC2086 # a command line
	PATH=$work/bin:$PATH CELLGRAD_CACHE=off timeout -k 5 $remains $with $line >"$again" 2>&1 </dev/null
	{
		printf '\n### %s: the context was lost; its line again, by `%s`: exit %d\n\n```\n' "$id" "$with $line" $?
		tail -n 60 "$again"
		echo '```'
	} | plain >>"$work/failures/$1"
}

# ---- what this machine has ----

smi()
{
	command -v nvidia-smi >/dev/null || { echo 'there is no nvidia-smi'; return 1; }
	timeout -k 2 15 nvidia-smi "$@" 2>&1
}

# clocks: prints the GPU's clocks, temperature, power and use in one line; the report has this line from before and after measurements.
clocks()
{
	for reasons in clocks_event_reasons.active clocks_throttle_reasons.active; do
		line=$(smi --query-gpu=clocks.sm,clocks.mem,temperature.gpu,power.draw,utilization.gpu,$reasons --format=csv,noheader) && break
	done
	case $line in *[0-9]' MHz'*) echo "$line" | paste -sd ';' - ;; *) echo 'not known here' ;; esac
}

say_clocks() { printf '\nClocks (SM, memory, temperature, power, use, limits) before: %s; after: %s.\n' "$before" "$(clocks)" >>"$work/text/$ran"; }

# timed NAME SECONDS FORM COMMAND...: runs a step by `step`; if the report keeps output of it, the report has the clocks before and after.
timed()
{
	before=$(clocks)
	step "$@"
	code=$?
	[ -z "$ran" ] || [ ! -f "$work/text/$ran" ] || say_clocks
	return $code
}

# find_tool NAME: prints the path of a tool of the CUDA toolkit, which may be in a folder that is not on PATH.
find_tool()
{
	command -v "$1" 2>/dev/null && return
	for place in /usr/local/cuda*/bin/"$1" /usr/local/cuda*/compute-sanitizer/"$1" /opt/nvidia/nsight-compute/*/"$1"; do
		[ -x "$place" ] && { echo "$place"; return; }
	done
}

# find_libraries finds NVRTC, cuBLAS and cuDNN by environment variables, else by the loader, else beside the torch of python3.  If the cuDNN
# then does not load, as when it is for another CUDA than the cuBLAS, all three libraries are taken from beside torch, if it has a cuBLAS
# and the environment names neither cuDNN nor cuBLAS.
# packaged LIBRARY: prints the files of a library that are beside the torch of python3, the newest first.
packaged()
{
	python=$(command -v python3) || return 1
	[ -n "${site:-}" ] || site=$(timeout -k 2 30 "$python" -c '
import importlib.util, os
spec = importlib.util.find_spec("torch")
print(os.path.dirname(list(spec.submodule_search_locations)[0]) if spec else "")' 2>/dev/null)
	[ -n "$site" ] || return 1
	case $1 in NVRTC) file=libnvrtc ;; CUBLAS) file=libcublas ;; CUDNN) file=libcudnn ;; esac
	[ -n "${driver:-}" ] || driver=$(timeout -k 5 60 "$bin/gpu_probe" facts 2>/dev/null | sed -n 's/^driver: for CUDA \([0-9]*\)\..*/\1/p')
	for found in "$site"/nvidia/*/lib/$file.so.[0-9]* "$site"/torch/lib/$file.so.[0-9]*; do
		[ -f "$found" ] || continue
		suffix=${found##*.so.}
		# A library for a later CUDA than the driver's is left out; a cuDNN is not, since its version is not that of a CUDA.
		[ "$1" = CUDNN ] || [ "${suffix%%.*}" -le "${driver:-99}" ] || continue
		echo "$suffix $found"
	done | sort -rn | sed 's/^[^ ]* //'
}

loads() { timeout -k 5 60 "$bin/gpu_probe" library "$1" >"$work/library" 2>&1; }

find_libraries()
{
	[ "$backend" = cuda ] || return 0
	for library in NVRTC CUBLAS CUDNN; do
		eval "named=\${CELLGRAD_${library}_LIB:-}"
		if [ -n "$named" ]; then
			taken="$taken$library: named by the environment, $named
"
		elif loads $library; then
			taken="$taken$library: as the loader has it, $(cat "$work/library")
"
		else
			take_packaged $library "$(head -n 1 "$work/library")"
		fi
	done
	if [ -z "${CELLGRAD_CUDNN_LIB:-}" ] && ! loads CUDNN && [ -z "${CELLGRAD_CUBLAS_LIB:-}" ] && [ -n "$(packaged CUBLAS)" ]; then
		for library in NVRTC CUBLAS CUDNN; do take_packaged $library 'cuDNN does not go with the cuBLAS of the loader'; done
	fi
}

# take_packaged LIBRARY WHY: takes the newest library beside torch that loads.  WHY: the reason why the library of the loader was not taken.
take_packaged()
{
	tried=''
	for path in $(packaged "$1"); do
		eval "CELLGRAD_${1}_LIB=\$path"
		export "CELLGRAD_${1}_LIB"
		if loads "$1"; then
			taken="$taken$1: beside torch, $(cat "$work/library")
"
			return
		fi
		tried="$tried; $path does not load: $(head -n 1 "$work/library")"
		unset "CELLGRAD_${1}_LIB"
	done
	taken="$taken$1: none: $2$tried; beside a torch of python3 ($(command -v python3 || echo 'there is no python3')) is none that this driver takes
"
}

# ---- before a stage ----

# A kit that cannot run on this machine is refused with a message; most reasons are found before any program of the kit is started.
check_kit()
{
	[ "$(uname -m)" = "$(fact machine)" ] || refuse "the kit is for $(fact machine), and this machine is a $(uname -m)"
	libc=$(getconf GNU_LIBC_VERSION 2>/dev/null | sed 's/^glibc //')
	[ -n "$libc" ] || refuse "the kit needs the GNU C library $(fact libc) or later, and this machine has another C library"
	[ "$(printf '%s\n%s\n' "$libc" "$(fact libc)" | sort -t. -k1,1n -k2,2n | head -n 1)" = "$(fact libc)" ] ||
		refuse "the kit needs the GNU C library $(fact libc) or later, and this machine has $libc"
	tar -C "$work" -xzf "$kit/bin.tar.gz" 2>"$work/why" || refuse "the kit's programs do not unpack: $(head -n 1 "$work/why")"
	ln -s "$kit/lib" "$work/lib"
	# If the kit was made of an existing build, its programs do not search the kit's lib/, and find its libraries by LD_LIBRARY_PATH.
	if ! timeout -k 2 20 "$bin/cellgrad" --version >/dev/null 2>&1; then
		LD_LIBRARY_PATH=$kit/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
		export LD_LIBRARY_PATH
	fi
	timeout -k 2 20 "$bin/cellgrad" --version >"$work/why" 2>&1 || refuse "the kit's programs do not run here: $(head -n 1 "$work/why")"
}

check_device()
{
	[ "$backend" = cuda ] && modes=$(smi --query-gpu=compute_mode --format=csv,noheader) && case $modes in
	*Prohibited*) refuse 'the GPU takes no process: its compute mode is Prohibited (nvidia-smi -c DEFAULT)' ;;
	*Exclusive*)  [ "$jobs" = 1 ] || { jobs=1 notes="${notes}
The GPU takes one process at a time (compute mode $modes): steps run one by one.
"; } ;;
	esac
	why=$(CELLGRAD_BACKEND=$backend timeout -k 5 60 "$bin/conformance" --opens 2>&1)
	code=$?
	case $code in
	0) ;;
	124 | 137) refuse "backend $backend did not open within 60 s; nvidia-smi: $(smi -L | head -n 1)" ;;
	*) refuse "backend $backend does not open: $(echo "$why" | head -n 1); nvidia-smi: $(smi -L | head -n 1)" ;;
	esac
	device=$(echo "$why" | head -n 1 | sed 's/^[a-z]* [0-9.]*: //; s/^[a-z]*: //; s/[;,].*//')
	place_report
	others=$(smi --query-compute-apps=pid,process_name,used_memory --format=csv,noheader) || others='not known here'
	case $others in
	*[0-9],*) notes="${notes}
Other processes use the GPU, so times count for little: $(echo "$others" | tr '\n' ';')
" ;;
	esac
	case $(smi --query-gpu=mig.mode.current --format=csv,noheader) in
	*Enabled*) notes="${notes}
MIG is on: the device may be a part of a GPU, and its ceilings those of that part.
" ;;
	esac
}

# Without CUBLAS_WORKSPACE_CONFIG the bits of cuDNN's sums may differ from run to run.
cublas_repeats='env CUBLAS_WORKSPACE_CONFIG=:4096:2'

# smoke: runs one kernel, one product, one network, and one network by cuDNN if that is there, which takes seconds; if one of these fails,
# the stage is refused.
smoke()
{
	for try in "kernel:check lstm_block pass=forward rows=3 units=5 seed=1" \
		"product:check lstm_block_cell B=32 I=16 U=16 dtype=f32 memory=device seed=1" \
		"network:check rnn T=3 B=2 I=4 U=8 rnn_mode=lstm dtype=f32 memory=device seed=1"; do
		# shellcheck disable=SC2086 # a command line
		$cublas_repeats CELLGRAD_BACKEND="$backend" timeout -k 5 60 "$bin/cellgrad" ${try#*:} >"$logs/00-smoke-${try%%:*}.log" 2>&1
		code=$?
		[ $code -eq 0 ] || {
			log=$logs/00-smoke-${try%%:*}.log
			row 00 "smoke: ${try%%:*}" "cellgrad ${try#*:}" "**failed**, exit $code"
			id=smoke form=words outcome="a ${try%%:*} does not go, exit $code"
			printf '%s' "cellgrad ${try#*:}" >"$work/00.command"
			failed 00
			refuse "a ${try%%:*} does not go: exit $code: $({ grep -E '^FAILED|(CUDA|NVRTC|CUBLAS|CUDNN)_|crashed' "$log"; grep -v '^ *$' "$log" | tail -n 1; } | head -n 1)"
		}
	done
	if has_cudnn; then
		CELLGRAD_BACKEND=$backend timeout -k 5 60 "$bin/cellgrad" bench --op rnn route=cudnn rnn_mode=lstm --T 3 --B 2 --I 8 --H 8 --reps 1 >"$logs/00-smoke-cudnn.log" 2>&1 ||
			refuse "a network by cuDNN does not go: $(tail -n 1 "$logs/00-smoke-cudnn.log")"
	fi
	row 00 smoke 'cellgrad check, cellgrad bench' "passed: a kernel, a product, a network$(has_cudnn && echo ', one by cuDNN')" ''
}

has_cudnn() { [ "${cudnn:-}" = yes ]; }

begin()
{
	place_report
	if [ -f "$reports/logs.tar.gz" ]; then
		tar -C "$work" -xzf "$reports/logs.tar.gz" 2>/dev/null
		rm -rf "$logs"
		mkdir -p "$logs"
	fi
	trap interrupted HUP INT TERM
	report
	check_kit
	find_libraries
	check_device
	# Kernels that a step compiles are cached for other steps; they are removed at the end, unless CELLGRAD_CACHE_DIR names the folder.
	export CELLGRAD_BACKEND="$backend" srcdir="$kit" CELLGRAD_CACHE_DIR="${CELLGRAD_CACHE_DIR:-$work/kernels}"
	sanitizer=$(find_tool compute-sanitizer) ncu=$(find_tool ncu)
	cudnn=
	if [ "$backend" = cuda ] && loads CUDNN; then cudnn=yes; fi
	{
		echo "$notes" | grep .
		printf '```\nkit: commit %s, version %s, %s, C library %s or later, %s, flags %s\n' "$(fact commit)" "$(fact version)" \
			"$(fact machine)" "$(fact libc)" "$(fact compiler)" "$(fact flags)"
		printf 'machine: %s, %s processors, C library %s\n' "$(uname -srm)" "$(nproc)" "$libc"
		printf 'device: %s\n%s' "$why" "$taken"
		printf 'GPUs: %s\n' "$(smi -L)"
		smi -L >/dev/null && smi --query-gpu=name,driver_version,memory.total,ecc.mode.current,mig.mode.current,compute_mode,persistence_mode,power.limit,clocks.max.sm,clocks.max.mem --format=csv
		printf 'clocks: %s\nother processes: %s\n' "$(clocks)" "${others:-none}"
		env | grep -E '^(CUDA|CUBLAS|NVIDIA|CELLGRAD)_' | sort
		echo '```'
	} | section 00 'The machine'
	smoke
	report
}

# ---- stages ----

stage_facts()
{
	start info 60 all "$bin/cellgrad" info
	if [ "$backend" = cuda ]; then
		start probe 60 all "$bin/gpu_probe" facts
		if command -v nvidia-smi >/dev/null; then
			start nvidia-smi 30 all nvidia-smi -q -d CLOCK,PERFORMANCE,ECC,COMPUTE,MEMORY,POWER,PIDS
		else
			not_run nvidia-smi 'there is no nvidia-smi'
		fi
	fi
	wait_all
}

# suite NAME COMMAND...: starts a test program, which may take most of the stage's time.
# shellcheck disable=SC2086 # $cublas_repeats is a command line
suite()
{
	suite=$1
	shift
	start "$suite" 420 words $cublas_repeats "$@"
}

# `persistent`: a shell script that checks networks in f16 whose sizes suit cuDNN's persistent algorithms, which the suites' small networks
# seldom do; $0 is the command cellgrad.
# shellcheck disable=SC2016
persistent='for mode in lstm gru rnn_tanh; do
	while read -r layers direction U I B; do
		"$0" check rnn_backprop T=4 lengths=whole dtype=f16 num_proj=0 seed=1 rnn_mode=$mode layers=$layers direction=$direction \
			U=$U I=$I B=$B || exit 1
	done <<-END
		1 unidirectional 32 20 8
		1 unidirectional 96 77 8
		1 unidirectional 128 128 1
		1 unidirectional 160 160 4
		1 unidirectional 160 160 24
		2 unidirectional 64 64 16
		1 bidirectional 64 64 8
		2 bidirectional 32 32 8
	END
done'

# `shelf`: a shell script that compares, for each cell of the shelf, its kernels with those of another device ($1), and a network of it with
# the answers of its paper's equations in PyTorch; $0 is the command cellgrad.
# shellcheck disable=SC2016
shelf='for case in "$srcdir"/tests/data/shelf/*.safetensors; do
	cell=${case##*/}
	"$0" check "${cell%.safetensors}" --ref "$1" --max-time 5 && "$0" run rnn "$case" --expect "$case" &&
		"$0" run rnn_backprop "$case" --expect "$case" || exit 1
done'

# In stage right steps of our own kernels come before those of cuDNN, and in both groups the suites sequences and conformance come first.  A
# rehearsal only tests this script, so it runs a part of the suites sequences and conformance, which `make check` runs whole.
stage_right()
{
	composed='CELLGRAD_TEST_ROUTE=composed' of='*' rnn='rnn*' sequences='*' cells=2000
	[ "$backend" != cuda ] || composed="$composed CELLGRAD_CUDNN_LIB=none"
	if rehearsal; then
		of=': sizes*' rnn='rnn* f32: sizes*' sequences='*random' cells=4
	fi
	# shellcheck disable=SC2086 # $composed is a command line
	{
		suite sequences-composed $composed "$bin/sequence" "$sequences"
		for dtype in f32 f16 bf16 f64; do suite conformance-$dtype $composed "$bin/conformance" "* $dtype$of"; done
	}
	if [ "$backend" = cuda ]; then
		for test in cuda_rnn cuda_test cuda_moves cuda_gemm cuda_rows cuda_forms; do
			suite "$(echo "${test%_test}" | tr _ -)" "$bin/${test%_test}_test"
		done
	elif [ -x "$bin/${backend}_test" ]; then
		suite "$backend" "$bin/${backend}_test"
	fi
	if has_cudnn; then
		suite sequences-cudnn CELLGRAD_TEST_ROUTE=cudnn "$bin/sequence" "$sequences"
		suite conformance-cudnn CELLGRAD_TEST_ROUTE=cudnn "$bin/conformance" "$rnn"
		suite cuda-net "$bin/cuda_net_test"
		suite cuda-net-call "$bin/cuda_net_call_test"
		suite cuda-range "$bin/cuda_range_test"
		suite persistent sh -c "$persistent" "$bin/cellgrad"
	elif [ "$backend" = cuda ]; then
		for id in sequences-cudnn conformance-cudnn cuda-net cuda-net-call cuda-range persistent; do not_run $id "there is no cuDNN: $(head -n 1 "$work/library")"; done
	fi
	other=cpu
	[ "$backend" = cpu ] && other=reference
	suite shelf sh -c "$shelf" "$bin/cellgrad" $other
	# shellcheck disable=SC2086
	start check $((check_time + 60)) words $cublas_repeats "$bin/cellgrad" check --ref $other --suite full --max-time "$check_time"
	# The script runs a process on each processor.
	step drawn $((check_time + 60)) words env CELLGRAD="$bin/cellgrad" SEQUENCE="$bin/sequence" sh "$kit/tests/drawn.sh" $cells "$check_time"
}

# bench_table LOG: prints the output of `cellgrad bench --json` as a table.  The last two columns are rates divided by the rates that step
# ceilings measured, if it has run.
bench_table()
{
	cat "$logs"/*-ceilings.log 2>/dev/null >"$work/ceilings"
	awk -v ceilings="$work/ceilings" '
		BEGIN { while ((getline line < ceilings) > 0) { split(line, c, / *\| */); rate = c[6] + 0
			if (c[2] == "copy") copied = rate; if (c[2] == "product") multiplied[c[3]] = 1000 * rate } }
		function over(name, most) { return value(name) == "" || !most ? "" : sprintf("%.4f", value(name) / most) }
		function value(name, at) { at = "\"" name "\":"; if (!index($0, at)) return ""; at = substr($0, index($0, at) + length(at))
			if (at ~ /^"/) { at = substr(at, 2); return substr(at, 1, index(at, "\"") - 1) } sub(/[,}].*/, "", at); return at == "null" ? "" : at }
		function number(name, form) { return value(name) == "" ? "" : sprintf(form, value(name)) }
		/"kind":"problem"/ {
			if (!n++) print "| op | cell | what | dtype | T | layers | B | I | H | min ms | median ms | GFLOP/s | GB/s | copy GB/s | share of roof | of the copy | of products |\n|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|"
			printf "| %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", value("op"), value("mode"), value("what"), value("dtype"), value("T"),
				value("layers"), value("B"), value("I"), value("H"), number("min_ms", "%.5f"), number("median_ms", "%.5f"), number("gflops", "%.1f"),
				number("gbytes", "%.1f"), number("copy_gbytes", "%.1f"), number("share", "%.3f"),
				over("gbytes", copied), over("gflops", multiplied[value("dtype")]) }' "$1"
}

# bench NAME SECONDS ARGUMENT...: runs a step of `cellgrad bench`, whose rows go to the report and to the numbers.
bench()
{
	bench=$1 limit=$2
	shift 2
	timed "$bench" "$limit" none "$bin/cellgrad" bench --json --time "$bench_time" "$@"
	[ -n "$ran" ] || return 0
	grep '^{' "$logs/$ran-$bench.log" >>"$work/numbers.json"
	bench_table "$logs/$ran-$bench.log" | section "$ran" "$bench"
	say_clocks
	keep_numbers
	report
}

# keep_numbers: copies the measured numbers to the reports; those of `only` go to a file of their own, and do not replace a whole stage's.
keep_numbers()
{
	if [ "$stage" = only ]; then to=$reports/numbers-only.json; else to=$reports/numbers.json; fi
	[ ! -s "$work/numbers.json" ] || { cp "$work/numbers.json" "$to.new" && mv "$to.new" "$to"; }
}

stage_fast()
{
	unset CUBLAS_WORKSPACE_CONFIG
	: >"$work/numbers.json"
	# In a rehearsal the problems are small, since the stand-ins for CUDA's libraries are slow.
	limits='--most 5 --least 15' sizes='' long='--T 1000 --B 8 --I 256 --H 256' repeats=200
	if rehearsal; then
		limits='' repeats=5 sizes='--B 2 --I 4 --H 8' long='--T 5 --B 2 --I 4 --H 8'
		export NET_SMALL=1
	fi
	export NET_TIME="${NET_TIME:-0.5}" PARTS_TIME="$bench_time"
	if [ "$backend" = cuda ]; then
		timed ceilings 60 table "$bin/gpu_probe" ceilings
		if has_cudnn; then
			# shellcheck disable=SC2086
			timed parity 150 table "$bin/net_time" $limits f32 f16 bf16 f64
		else
			not_run parity 'there is no cuDNN'
		fi
	fi
	if ! python=$(command -v python3); then
		for id in modules torch torch-graph; do not_run $id 'there is no python3'; done
	elif ! timeout -k 5 60 "$python" -c 'import torch' 2>"$work/why"; then
		for id in modules torch torch-graph; do not_run $id "this python3 has no torch: $(tail -n 1 "$work/why")"; done
	else
		small='' where=''
		rehearsal && small='--small --turns 9'
		[ "$backend" = cuda ] || where='--device cpu'
		# shellcheck disable=SC2086
		timed modules 150 all "$python" "$kit/tests/gpu_modules.py" --library "$kit/lib/libcellgrad.so.0" $where ${small:+--small} --json "$work/modules.json"
		[ ! -s "$work/modules.json" ] || cat "$work/modules.json" >>"$work/numbers.json"
		# shellcheck disable=SC2086
		timed torch "${TORCH_TIME:-210}" table "$python" "$kit/tests/gpu_torch.py" --library "$kit/lib/libcellgrad.so.0" --backend "$backend" $small \
			--seconds "$((${TORCH_TIME:-210} - 30))" --json "$work/torch.json"
		[ ! -s "$work/torch.json" ] || cat "$work/torch.json" >>"$work/numbers.json"
		timed torch-graph 60 table env CUBLAS_WORKSPACE_CONFIG=:4096:2 "$python" "$kit/tests/gpu_torch.py" --library "$kit/lib/libcellgrad.so.0" --backend "$backend" --graph
	fi
	! has_cudnn || timed algorithms 90 table env NET_TIME=0.02 "$bin/net_time" --algorithms f16
	[ "$backend" != cuda ] || timed steps 40 table env NET_TIME=0.2 "$bin/net_time" --composed f16 f32
	# shellcheck disable=SC2086 # $sizes and $long are command lines
	{
		for dtype in f16 f32 bf16 f64; do bench bench-$dtype 60 --dtype $dtype $sizes; done
		# Cells without a recurrent product, whose sequence takes one launch, beside a GRU of the same sizes.
		for cell in cell=mingru cell=minlstm cell=indrnn cell=sru rnn_mode=gru; do
			bench long-${cell#*=} 20 --op rnn $cell --what fwd+bwd $long
		done
	}
	if has_cudnn; then
		timed census 40 table "$bin/net_time" --census $repeats f32 f16 bf16 f64
		timed census-workspace 40 table env CUBLAS_WORKSPACE_CONFIG=:4096:2 "$bin/net_time" --census $repeats f32 f16 bf16 f64
	fi
	if [ "$backend" = cuda ]; then
		timed nvrtc 60 table env CELLGRAD_CACHE_DIR="$work/fresh" "$bin/gpu_probe" compile
		timed nvrtc-cached 30 table env CELLGRAD_CACHE_DIR="$work/fresh" "$bin/gpu_probe" compile
		timed micro 60 table "$bin/gpu_probe" micro "$kit/tests/gpu_micro.cu"
	fi
	# Step parts also runs ops without their products.  An op without its products reads memory that no product has written, which a
	# stand-in reports as a mistake.
	if [ -n "${CELLGRAD_FAKE_CUDA:-}" ]; then
		not_run parts 'a stand-in does not let an op run without its products'
	else
		timed parts 90 table "$bin/parts" f32 f16 bf16 f64
	fi
	for op in LSTMBlockCell LSTMBlockCellGrad GRUBlockCell GRUBlockCellGrad; do bench "overhead-$op" 20 --op $op --B 1 --I 1 --H 1; done
	keep_numbers
}

# profile STEP KERNEL CUBLAS OP DTYPE T B SIZE: measures by ncu the fourth launch of a kernel whose name has KERNEL, in a `cellgrad bench`.
profile()
{
	ncu_metrics=sm__throughput.avg.pct_of_peak_sustained_elapsed,dram__throughput.avg.pct_of_peak_sustained_elapsed,sm__warps_active.avg.pct_of_peak_sustained_active,launch__registers_per_thread,gpu__time_duration.sum,smsp__average_warps_issue_stalled_long_scoreboard_per_issue_active.ratio,smsp__average_warps_issue_stalled_short_scoreboard_per_issue_active.ratio,smsp__average_warps_issue_stalled_wait_per_issue_active.ratio,smsp__average_warps_issue_stalled_math_pipe_throttle_per_issue_active.ratio,smsp__average_warps_issue_stalled_barrier_per_issue_active.ratio,smsp__average_warps_issue_stalled_lg_throttle_per_issue_active.ratio,smsp__average_warps_issue_stalled_no_instruction_per_issue_active.ratio
	step "$1" 60 recorded ${3:+env CELLGRAD_CUBLAS_LIB="$3"} "$ncu" --csv --page raw --metrics "$ncu_metrics" --clock-control none \
		--launch-skip 3 --launch-count 1 --kernel-name "regex:$2" "$bin/cellgrad" bench --reps 5 --op "$4" --dtype "$5" ${6:+--T "$6"} --B "$7" --I "$8" --H "$8"
	[ -n "$ran" ] || return 0
	# Prints one metric on each line: its name from the header of the CSV output of ncu, and its value from the last row.
	awk -F'","' -v name="$1" '/^"ID"/ { for (k = 1; k <= NF; k++) head[k] = $k; next } /^"[0-9]+"/ { for (k = 1; k <= NF; k++) last[k] = $k; rows++ }
		END { if (!rows) { print "ncu printed no kernel"; exit }
			for (k = 1; k <= NF; k++) if (head[k] ~ /Kernel Name|__/) { gsub(/"/, "", last[k]); gsub(/"/, "", head[k]); printf "%-80s %s\n", head[k], last[k] } }' \
		"$logs/$ran-$1.log" | words "$ran" "$1" 30
	report
}

stage_clean()
{
	jobs=1
	export CUBLAS_WORKSPACE_CONFIG=:4096:2
	for tool in memcheck racecheck initcheck synccheck; do
		if [ "$backend" != cuda ]; then
			not_run $tool 'it watches CUDA alone'
		elif [ -z "$sanitizer" ]; then
			not_run $tool 'there is no compute-sanitizer'
		else
			quiet=
			[ $tool != memcheck ] || quiet='--report-api-errors no'
			# The steps of the four tools run only our own kernels, without cuBLAS and cuDNN, compiled anew, without the cache.
			# shellcheck disable=SC2086
			step $tool 90 words env CELLGRAD_CACHE=off CELLGRAD_CUBLAS_LIB=none CELLGRAD_CUDNN_LIB=none "$sanitizer" --tool $tool $quiet \
				--target-processes all --error-exitcode 9 "$bin/cellgrad" check --suite quick --max-time "$sanitize_time"
		fi
	done
	if [ -n "$sanitizer" ] && [ "$backend" = cuda ]; then
		step memcheck-vendors 90 recorded env CELLGRAD_CACHE=off "$sanitizer" --tool memcheck --report-api-errors no \
			--target-processes all --error-exitcode 9 "$bin/cellgrad" check --suite quick --max-time "$sanitize_time"
	else
		not_run memcheck-vendors 'as memcheck'
	fi
	if [ "$backend" = cuda ] && [ -n "$ncu" ]; then
		profile ncu-lstm-grad-f16 lstm_block '' LSTMBlockCellGrad f16 '' 256 512
		profile ncu-lstm-grad-f32 lstm_block '' LSTMBlockCellGrad f32 '' 256 512
		profile ncu-lstm-small lstm_block '' LSTMBlockCell f16 '' 16 768
		profile ncu-scan-forward lstm '' rnn f16 8 16 768
		profile ncu-sum _sum '' lstm_block_cell_grad f32 '' 4096 512
		profile ncu-gemm gemm none LSTMBlockCell f32 '' 256 512
	else
		for id in ncu-lstm-grad-f16 ncu-lstm-grad-f32 ncu-lstm-small ncu-scan-forward ncu-sum ncu-gemm; do not_run $id 'there is no ncu'; done
	fi
}

bin=$work/bin notes='' taken='' n='' ran='' id='' libc='' why='' others='' sanitizer='' ncu=''
begin
case $stage in
only) for one in $stages; do "stage_$one"; wait_all; done ;;
*)    "stage_$stage" ;;
esac
wait_all
if [ "$stage" = only ]; then
	for one in $wanted; do
		grep -qs "^| $one |" "$work/rows/"* || { red="$red $one"; say "only: there is no step $one"; echo "- there is no step $one" >"$work/failures/zz-$one"; }
	done
fi
if [ -n "$lost" ]; then
	finish FAILED 1 "the context was lost in $lost, and nothing was run after it; failed:$red"
elif [ -n "$red" ]; then
	finish FAILED 1 "failed:$red"
elif [ -n "$late" ]; then
	finish FAILED 1 "all that ran passed, but the $stage_time s of the stage were over before$late"
else
	finish PASSED 0 'all that was run is green'
fi
