#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# frameworks.sh [PYTHON...]: runs the tests of cellgrad's parts for frameworks with the oldest and the newest version of each framework, or
# under the given Pythons, which have some of the frameworks.  If a Python has mypy, as the environment of the newest version does, mypy
# checks the package's part for the framework.
# Runs in the build's top folder, where it makes the virtual environments frameworks/LIST.
#   srcdir: the source; LIBRARY: the shared library; PYTHON: the Python that makes the environments
#   FRAMEWORKS: the modules of the frameworks that are tested; unset or empty: all
# exit 0: at least one framework was tried, no test failed, and mypy, where it ran, found no mistake.
set -u
here=$srcdir/tests/frameworks
# CC and CXX are unset, since torch.compile of PyTorch 2.5 takes a CXX of two words for the name of one program.
unset CC CXX

# A row of the table: the framework's module, and others that the tests need | the lists of packages to install | the tests | the files of
# the package's part for the framework, if any.
of_torch='torch_answers torch_transforms torch_misuse torch_stable torch_build torch_ddp torch_docs torch_cuda'
of_tensorflow='tensorflow_answers tensorflow_block tensorflow_misuse tensorflow_keras tensorflow_wheel tensorflow_api tensorflow_docs'
table="torch | oldest newest | $of_torch | *.py torch
jax | jax-oldest jax-newest | jax_header jax_answers jax_transforms jax_misuse jax_docs | jax
onnx | onnx-oldest onnx-newest | onnx_nodes onnx_misuse | onnx
torch,onnx | newest | onnx_torch |
tensorflow | tensorflow-oldest tensorflow-newest | $of_tensorflow | tensorflow"

# install LIST MODULE: makes the virtual environment of a list of packages, if there is none or if the list has changed.
install()
{
	folder=frameworks/$1
	cmp -s "$here/$1.txt" "$folder/installed.txt" && return
	echo "# $folder: installs $(grep -E "^$2([-_]cpu)?==" "$here/$1.txt")"
	# --no-deps installs only packages of the list; `pip check` fails if the list lacks a package that these need.
	rm -rf "$folder" && mkdir -p frameworks && ${PYTHON:-python3} -m venv "$folder" &&
		"$folder/bin/python3" -m pip install -q --no-deps -r "$here/$1.txt" &&
		"$folder/bin/python3" -m pip check && cp "$here/$1.txt" "$folder/installed.txt"
}

# run_test PYTHON TEST: runs a test under a Python, and adds its results to $passed, $failed and $skipped; $passed counts skipped ones, too.
run_test()
{
	"$1" "$here/$2.py" >$log 2>&1
	status=$?
	plan=$(sed -n 's/^1\.\.//p' $log)
	right=$(grep -c '^ok .*' $log) wrong=$(grep -c '^not ok' $log)
	passed=$((passed + right)) failed=$((failed + wrong)) skipped=$((skipped + $(grep -c '^ok .* # SKIP' $log)))
	# A test that prints no TAP plan, or another number of results, has crashed.
	if [ $status -ne 0 ] || [ "${plan:-none}" != $((right + wrong)) ] || [ "$wrong" -ne 0 ]; then
		red=1
		cat $log
		echo "not ok - $2.py: exit status $status, $wrong failed"
	else
		echo "ok - $2.py: $right"
	fi
}

# run_mypy PYTHON PATTERNS: runs mypy over the files of python/cellgrad that match, if that Python has mypy.
run_mypy()
{
	[ -n "$2" ] && "$1" -c 'import mypy' 2>/dev/null || return
	# shellcheck disable=SC2086 # patterns
	files=$(cd "$srcdir/python/cellgrad" && ls -d $2 | sed "s,^,$srcdir/python/cellgrad/,")
	# shellcheck disable=SC2086 # a list
	if "$1" -m mypy --config-file "$srcdir/pyproject.toml" --cache-dir /dev/null $files >$log 2>&1; then
		echo "ok - mypy: $(tail -n 1 $log)"
	else
		red=1
		cat $log
		echo 'not ok - mypy'
	fi
}

# run_all PYTHON MODULE TESTS PARTS: runs the tests of a framework, and mypy over the files PARTS, under a Python.
run_all()
{
	"$1" -c "import sys, $2; print('# $2', $2.__version__, 'Python', sys.version.split()[0])" || { red=1; return; }
	passed=0 failed=0 skipped=0
	for test in $3; do
		run_test "$1" "$test"
	done
	run_mypy "$1" "$4"
	echo "# $passed passed, $failed failed, $skipped skipped"
}

red=0 log=frameworks.log rows=0
while IFS='|' read -r modules lists tests parts; do
	modules=${modules% } module=${modules%%[, ]*} parts=${parts# }
	case " ${FRAMEWORKS:-$module} " in *" $module "*) ;; *) continue ;; esac
	if [ $# -eq 0 ]; then
		for list in $lists; do
			install "$list" "$module" </dev/null || exit 1
			run_all "frameworks/$list/bin/python3" "$module" "$tests" "$parts" </dev/null
			rows=$((rows + 1))
		done
	fi
	for python in "$@"; do
		"$python" -c "import $modules" 2>/dev/null </dev/null || continue
		run_all "$python" "$module" "$tests" "$parts" </dev/null
		rows=$((rows + 1))
	done
done <<END
$table
END
[ $rows -gt 0 ] || { red=1; echo "not ok - no framework was tried${1:+ under $*}"; }
rm -f $log
exit $red
