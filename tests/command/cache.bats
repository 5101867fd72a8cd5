# SPDX-License-Identifier: Apache-2.0
# Tests `cellgrad cache`, the command about the cache of compiled kernels: its folder, the list of its entries, and their removal.
# The test writes the entries itself, in the form that runtime/cache/entry.c reads.

load files

cache() {
	command -v sha256sum >/dev/null || skip "there is no sha256sum"
	if "$CELLGRAD" cache path 2>&1 | grep -q "this build has no SHA-256"; then
		[[ ,$CELLGRAD_TEST_REQUIRE, != *,libmd,* ]]
		skip "this build has no libmd"
	fi
	export CELLGRAD_CACHE_DIR=$PWD/kernels
}

# entry KEY PAYLOAD: writes an entry of the cache; $entry is its path
entry() {
	local LC_ALL=C version

	version=$("$CELLGRAD" --version)
	mkdir -p kernels
	{ printf '%b' "$(le64 ${#version})"; printf '%s' "$version"; printf '%b' "$(le64 ${#1})"; printf '%s' "$1"; } > record
	{
		printf 'cellgrad%b%b%b' "$(le64 1)" "$(le64 "$(wc -c < record)")" "$(le64 ${#2})"
		cat record
		printf '%s' "$2"
	} > file
	printf '%b' "$(sha256sum < file | cut -c -64 | sed 's/../\\x&/g')" >> file
	entry=kernels/$(sha256sum < record | cut -c -64).kernel
	mv file "$entry"
	chmod 600 "$entry"
}

@test "cache path prints the folder, whether it exists or not" {
	cache
	works cache path
	[ "$output" = "$PWD/kernels" ]
	[ ! -e kernels ]
	mkdir -m 700 kernels
	works cache path
	[ "$output" = "$PWD/kernels" ]
	works cache path --json
	[ "$output" = '{"reads":true,"writes":true,"why":"","most":268435456,"path":"'"$PWD"'/kernels"}' ]
	unset CELLGRAD_CACHE_DIR
	XDG_CACHE_HOME=/x works cache path
	[ "$output" = /x/cellgrad ]
	XDG_CACHE_HOME=x HOME=/h works cache path
	[ "$output" = /h/.cache/cellgrad ]
	CELLGRAD_CACHE=ro CELLGRAD_CACHE_MAXSIZE=5 works cache path --json
	[[ $output == *'"reads":true,"writes":false,"why":"","most":5,'* ]]
}

@test "cache path says why no kernels are kept" {
	cache
	CELLGRAD_CACHE=off refuses "kept|CELLGRAD_CACHE=off" cache path
	CELLGRAD_CACHE=yes refuses "CELLGRAD_CACHE|off|ro|rw|yes" cache path
	CELLGRAD_CACHE_DIR=kernels refuses "absolute|path|kernels" cache path
	CELLGRAD_CACHE_MAXSIZE=1G refuses "CELLGRAD_CACHE_MAXSIZE|number|bytes|1G" cache path
	mkdir kernels
	chmod 775 kernels
	refuses "kernels|mode|775" cache path
	refuses "$PWD/kernels|775" cache list
	refuses "$PWD/kernels|775" cache clear
	works info
	[[ $output == *"Compiled kernels on disk:"*"none: $PWD/kernels: other users may write to it"* ]]
	CELLGRAD_CACHE=off works cache path --json
	[[ $output == '{"reads":false,"writes":false,"why":"CELLGRAD_CACHE=off",'* ]]
	(unset HOME XDG_CACHE_HOME CELLGRAD_CACHE_DIR; refuses "CELLGRAD_CACHE_DIR|XDG_CACHE_HOME|HOME" cache path)
}

@test "cellgrad info shows the folder of the cache, or why no kernels are kept" {
	cache
	works info
	[[ $output == *"Compiled kernels on disk:"$'\n'"  $PWD/kernels"$'\n'* ]]
	CELLGRAD_CACHE=off works info --json
	[[ $output == *'"cache":{"path":"'"$PWD"'/kernels","why":"CELLGRAD_CACHE=off"}'* ]]
}

@test "cache list prints the entries" {
	cache
	works cache list
	[ "$output" = "0 kernels, 0 of 268435456 bytes, in $PWD/kernels" ]
	works cache list --json
	[ -z "$output" ]
	entry $'cuda sm_90 lstm_block f32 grad\nthe rest of the key' "a kernel"
	touch -d '3 hours ago' "$entry"
	entry "another" "$(printf '%5000s' x)"
	touch -d '5 days ago' "$entry"
	entry $'with \e[31mcolour' "small"
	touch -d '100 seconds ago' "$entry"
	entry "damaged" "x"
	truncate -s -1 "$entry"
	touch kernels/notes
	works cache list
	[ "${#lines[@]}" -eq 6 ]
	[[ ${lines[0]} =~ ^kernel\ +bytes\ +last\ used$ ]]
	grep -Eq '^cuda sm_90 lstm_block f32 grad +[0-9]+ +3 h ago$' <<< "$output"
	grep -Eq '^another +5[0-9]{3} +5 days ago$' <<< "$output"
	grep -Eq '^with \?\[31mcolour +[0-9]+ +1?[0-9]+ s ago$' <<< "$output"
	grep -Eq '^damaged +[0-9]+ +[0-9]+ s ago$' <<< "$output"
	[ "${lines[5]}" = "4 kernels, $(cat kernels/*.kernel | wc -c) of 268435456 bytes, in $PWD/kernels" ]
	works cache list --json
	[ "${#lines[@]}" -eq 4 ]
	[[ $output == *'{"file":"'"${entry#*/}"'","whole":false,"kernel":"","bytes":'* ]]
	[[ $output == *'"whole":true,"kernel":"cuda sm_90 lstm_block f32 grad","bytes":'* ]]
	# cache list removes no entry.
	[ "$(find kernels -name '*.kernel' | wc -l)" -eq 4 ]
}

@test "cache clear removes entries, also unfinished ones, and no other files" {
	cache
	works cache clear
	[ "$output" = "removed 0 files, 0 bytes, from $PWD/kernels" ]
	entry one first
	entry two second
	touch kernels/notes kernels/12-0123456789abcdef.kernel-unfinished
	bytes=$(cat kernels/*.kernel | wc -c)
	CELLGRAD_CACHE=off works cache clear
	[ "$output" = "removed 3 files, $bytes bytes, from $PWD/kernels" ]
	[ "$(ls kernels)" = notes ]
	entry one first
	works cache clear --json
	[ "$output" = '{"removed":1,"bytes":'"$((bytes / 2))"',"path":"'"$PWD"'/kernels"}' ]
}

@test "cache clear reports entries that it could not remove" {
	cache
	entry one first
	rm "$entry"
	mkdir "$entry"
	fails "$entry" cache clear
}

@test "cache path prints a folder whose name is not UTF-8, and fails with --json" {
	cache
	CELLGRAD_CACHE_DIR=$PWD/$'k\xff' fails "UTF-8" cache path --json
	CELLGRAD_CACHE_DIR=$PWD/$'k\xff' works cache path
	[ "$output" = "$PWD/"$'k\xff' ]
}

@test "wrong arguments of cellgrad cache are refused" {
	refuses "path|list|clear" cache
	refuses 'pth|path' cache pth
	refuses "clear|path|list" cache list clear
	refuses "option|--force" cache clear --force
}
