#!/bin/sh
# on.sh FOLDER/NAME.on: the conformance suite on backend NAME; a skip where it has no device, unless it is required.
name=${1##*/} name=${name%.on}
why=$(CELLGRAD_BACKEND=$name "${1%/*}"/conformance --opens) || {
	case ,$CELLGRAD_TEST_REQUIRE, in
	*,$name,*) printf '1..1\nnot ok 1 - %s opens\n# %s\n' "$name" "$why" ;;
	*)         printf '1..0 # SKIP %s\n' "$why" ;;
	esac
	exit 0
}
export CELLGRAD_BACKEND="$name"
exec "${1%/*}"/conformance
