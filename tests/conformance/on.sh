#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# on.sh FOLDER/NAME.on: runs the suite of FOLDER, a program of the same name, on backend NAME.  NAME-fake uses the stand-ins of
# tests/fake for CUDA's libraries; NAME-composed-fake leaves out the stand-in for cuDNN; with NAME-permuted-fake that stand-in has another
# weight layout than the library.  cpu-composed runs networks on route composed.  If the backend does not open, the suite is skipped,
# unless CELLGRAD_TEST_REQUIRE has NAME.
folder=${1%/*} program=$folder/${folder##*/}
name=${1##*/} name=${name%.on}
case $name in
*-fake) with=tests/fake/run ;;
*)      with= ;;
esac
CELLGRAD_BACKEND=${name%%-*}
# CELLGRAD_TEST_ROUTE names the route that networks of the suite of sequences must take if the route can compute them.  The conformance
# suite requests the route of CELLGRAD_TEST_ROUTE only if the route is composed.
case $name in
*-composed-fake) CELLGRAD_CUDNN_LIB=none CELLGRAD_TEST_ROUTE=composed ;;
cpu-composed)    CELLGRAD_TEST_ROUTE=composed ;;
*-permuted-fake) CELLGRAD_TEST_ROUTE=cudnn CELLGRAD_FAKE_CUDNN_LAYOUT=1 CELLGRAD_FAKE_CUDNN_NAN=1 CELLGRAD_FAKE_CUDNN_DESTROY=1 ;;
cuda-fake)       CELLGRAD_TEST_ROUTE=cudnn CELLGRAD_FAKE_CUDNN_LAYOUT=0 ;;
esac
for set in CELLGRAD_BACKEND CELLGRAD_TEST_ROUTE CELLGRAD_CUDNN_LIB CELLGRAD_FAKE_CUDNN_LAYOUT CELLGRAD_FAKE_CUDNN_NAN CELLGRAD_FAKE_CUDNN_DESTROY; do
	eval "[ -z \"\${$set:-}\" ] || export $set"
done
why=$($with "$program" --opens) || {
	why=${why#\# }
	case ,$CELLGRAD_TEST_REQUIRE, in
	*,$name,*) printf '1..1\nnot ok 1 - %s opens\n# %s\n' "$name" "$why" ;;
	*)         printf '1..0 # SKIP %s\n' "$why" ;;
	esac
	exit 0
}
# On route composed the conformance suite runs only its tests of networks, since block ops have no routes.
case $program/$name in
*/conformance/*-composed*) exec $with "$program" 'rnn*' ;;
*)                             exec $with "$program" ;;
esac
