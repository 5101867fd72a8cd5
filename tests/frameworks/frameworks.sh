#!/bin/sh
# frameworks.sh [PYTHON...]: the tests of cellgrad.torch with the oldest and the newest PyTorch, or under Pythons that have PyTorch; and
# mypy over the package, where it is: in the newest's environment.
# Runs in the build's top folder, where it makes the virtual environments frameworks/oldest and frameworks/newest.
#   srcdir: the source; LIBRARY: the shared library; PYTHON: what makes the environments; CXX: a C++ compiler
# exit 0: all tests passed.
set -u
here=$srcdir/tests/frameworks
# torch.compile of PyTorch 2.5 takes a CXX of two words for the name of one program.
unset CC CXX

if [ $# -eq 0 ]; then
	for name in oldest newest; do
		folder=frameworks/$name
		# Made again when its list changes.
		if ! cmp -s "$here/$name.txt" "$folder/installed.txt"; then
			echo "# $folder: installs $(grep '^torch' "$here/$name.txt")"
			# Nothing that is not in the list, and all that is needed.
			rm -rf "$folder" && mkdir -p frameworks && ${PYTHON:-python3} -m venv "$folder" &&
				"$folder/bin/python3" -m pip install -q --no-deps -r "$here/$name.txt" &&
				"$folder/bin/python3" -m pip check && cp "$here/$name.txt" "$folder/installed.txt" || exit 1
		fi
		set -- "$@" "$folder/bin/python3"
	done
fi

red=0
for python in "$@"; do
	echo "# $("$python" -c 'import sys, torch; print("PyTorch", torch.__version__, "Python", sys.version.split()[0])')" || exit 1
	passed=0 failed=0 skipped=0
	for test in "$here"/torch_answers.py "$here"/torch_transforms.py "$here"/torch_misuse.py "$here"/torch_stable.py \
		"$here"/torch_build.py "$here"/torch_ddp.py "$here"/torch_docs.py "$here"/torch_cuda.py; do
		log=frameworks.log
		"$python" "$test" >$log 2>&1
		status=$?
		plan=$(sed -n 's/^1\.\.//p' $log)
		right=$(grep -c '^ok .*' $log) wrong=$(grep -c '^not ok' $log)
		passed=$((passed + right)) failed=$((failed + wrong)) skipped=$((skipped + $(grep -c '^ok .* # SKIP' $log)))
		# A test that ends without its plan has crashed.
		if [ $status -ne 0 ] || [ "${plan:-none}" != $((right + wrong)) ] || [ "$wrong" -ne 0 ]; then
			red=1
			cat $log
			echo "not ok - ${test##*/}: exit status $status, $wrong failed"
		else
			echo "ok - ${test##*/}: $right"
		fi
	done
	if "$python" -c 'import mypy' 2>/dev/null; then
		if "$python" -m mypy --config-file "$srcdir/pyproject.toml" --cache-dir /dev/null "$srcdir/python/cellgrad" >$log 2>&1; then
			echo "ok - mypy: $(tail -n 1 $log)"
		else
			red=1
			cat $log
			echo 'not ok - mypy'
		fi
	fi
	echo "# $passed passed, $failed failed, $skipped skipped"
done
rm -f frameworks.log
exit $red
