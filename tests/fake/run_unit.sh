#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# run_unit.sh FOLDER/NAME.fake: runs the test program FOLDER/NAME with the stand-ins for CUDA's libraries.  If the stand-ins do not run
# here, the test is skipped, or fails if CELLGRAD_TEST_REQUIRE names cuda-fake.
program=${1%.fake}
why=$(tests/fake/run true) || {
	case ,$CELLGRAD_TEST_REQUIRE, in
	*,cuda-fake,*) printf '1..1\nnot ok 1 - %s\n%s\n' "$program" "$why" ;;
	*)             printf '1..0 # SKIP %s\n' "${why#\# }" ;;
	esac
	exit 0
}
exec tests/fake/run "$SHELL" "${0%/*}/../unit.sh" "$program"
