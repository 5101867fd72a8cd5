#!/bin/sh
# on.sh FOLDER/NAME.on: the suite of the folder, which is a program of its name, on backend NAME, or, with NAME-fake, on it with the
# stand-ins of tests/fake; a skip where it has no device, unless CELLGRAD_TEST_REQUIRE has the name.
folder=${1%/*} program=$folder/${folder##*/}
name=${1##*/} name=${name%.on}
case $name in
*-fake) with=tests/fake/run ;;
*)      with= ;;
esac
CELLGRAD_BACKEND=${name%-fake}
export CELLGRAD_BACKEND
why=$($with "$program" --opens) || {
	why=${why#\# }
	case ,$CELLGRAD_TEST_REQUIRE, in
	*,$name,*) printf '1..1\nnot ok 1 - %s opens\n# %s\n' "$name" "$why" ;;
	*)         printf '1..0 # SKIP %s\n' "$why" ;;
	esac
	exit 0
}
exec $with "$program"
