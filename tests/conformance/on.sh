#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# on.sh FOLDER/NAME.on: the suite of the folder, which is a program of its name, on backend NAME, or, with NAME-fake, on it with the
# stand-ins of tests/fake; a skip where it has no device, unless CELLGRAD_TEST_REQUIRE has the name.  NAME-composed-fake is without
# that for cuDNN, NAME-permuted-fake with one whose weights lie otherwise than ours; cpu-composed has networks take route composed.
folder=${1%/*} program=$folder/${folder##*/}
name=${1##*/} name=${name%.on}
case $name in
*-fake) with=tests/fake/run ;;
*)      with= ;;
esac
CELLGRAD_BACKEND=${name%%-*}
# The route that networks must take, but for those that it is not for.
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
# Only networks have routes.
case $program/$name in
*/conformance/*-composed*) exec $with "$program" 'rnn*' ;;
*)                             exec $with "$program" ;;
esac
