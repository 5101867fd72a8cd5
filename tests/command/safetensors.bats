# SPDX-License-Identifier: Apache-2.0
# Tests that files which are damaged, or not safetensors, are refused with the file's name and, in most tests, the reason. The tests run op
# GRUBlockCell by `cellgrad run`, though the op does not matter; one test also runs `cellgrad convert`.

load files

# damaged WORDS: checks that bad.safetensors is refused with its name and these words
damaged() {
	refuses "$1" run GRUBlockCell bad.safetensors
	has bad.safetensors
}

tensor() {
	printf '"%s":{"dtype":"%s","shape":[%s],"data_offsets":[%s]}' "$@"
}

@test "a right file is accepted" {
	gru good.safetensors "" F32
	works run GRUBlockCell good.safetensors
}

@test "a missing file is refused" {
	refuses "No such file" run GRUBlockCell nowhere.safetensors
}

@test "the message about a file of another kind names the kind and, for weights, two functions that write safetensors" {
	zeros=$(printf '\\0%.0s' {1..100})
	for case in 'PK\x03\x04:zip|PyTorch|NumPy' '\x80\x02:pickle|PyTorch' '\x80\x05:pickle' '\x93NUMPY\x01:NumPy' \
		'\x89HDF\r\n\x1a\n:HDF5|Keras' '\x08\x07\x12\x07pytorch:ONNX|TensorFlow' 'GGUF:GGUF'; do
		printf '%b' "${case%%:*}$zeros" > bad.safetensors
		damaged "${case#*:}|safetensors.torch.save_file|safetensors.numpy.save_file"
		for words in "run GRUBlockCell in -e bad.safetensors" "convert --from pytorch --to cellgrad bad.safetensors out"; do
			gru in "" F32
			refuses "bad.safetensors|safetensors.torch.save_file" $words
		done
	done
	printf '%b' "\x1f\x8b\x08$zeros" > bad.safetensors
	damaged "gzip"
	printf 'version https://git-lfs.github.com/spec/v1\noid sha256:12\nsize 5\n' > bad.safetensors
	damaged "Git LFS"
	printf '<!DOCTYPE html>\n<html></html>' > bad.safetensors
	damaged "web"
	printf 'PK\3\4' > bad.safetensors
	damaged "zip"
	# If the first bytes are those of no known kind of file, they count as the length of a header.
	printf '%b' "\x07\x06\x05\x04\x03\x02\x01\x09$zeros" > bad.safetensors
	damaged "648802033293657607"
}

@test "a file is accepted whose header has a length that looks like the beginning of a zip archive" {
	command -v python3 > /dev/null || skip "no python3 to write it"
	gru good.safetensors "" F32
	python3 - <<-'END'
		old = open("good.safetensors", "rb").read()
		n = int.from_bytes(old[:8], "little")
		length = int.from_bytes(b"PK\3\4", "little")
		open("odd.safetensors", "wb").write(length.to_bytes(8, "little") + old[8:8 + n].ljust(length) + old[8 + n:])
	END
	works run GRUBlockCell odd.safetensors
}

@test "an empty file is refused" {
	: > bad.safetensors
	damaged "empty"
}

@test "a file of fewer than 8 bytes is refused" {
	printf 'abc' > bad.safetensors
	damaged "3|bytes"
}

@test "a directory, a pipe and a device are refused" {
	mkdir bad.safetensors
	damaged "directory"
	rmdir bad.safetensors
	mkfifo bad.safetensors
	damaged "regular"
	refuses "/dev/null|regular" run GRUBlockCell /dev/null
}

@test "a file that is cut off in its first 8 bytes, in its header or in its data is refused" {
	gru good.safetensors "" F32
	size=$(stat -c %s good.safetensors)
	for length in 1 7 8 9 20 200 $((size - 200)) $((size - 4)) $((size - 1)); do
		head -c "$length" good.safetensors > bad.safetensors
		damaged ""
	done
}

@test "the message about a file cut off in the data names the tensor" {
	gru good.safetensors "" F32
	head -c -1 good.safetensors > bad.safetensors
	damaged "b_c|byte"
}

@test "bytes after the last tensor are refused" {
	gru bad.safetensors "" F32
	printf 'x' >> bad.safetensors
	damaged "1|byte"
}

@test "a wrong length of the header is refused" {
	{ printf '%b' "$(le64 1000)"; printf '{}'; } > bad.safetensors
	damaged "header|1000|bytes|10"
}

@test "a huge length of the header is refused" {
	{ printf '\xff\xff\xff\xff\xff\xff\xff\xff'; printf '{}'; } > bad.safetensors
	damaged "header|18446744073709551615|bytes"
	{ printf '%b' "$(le64 100000001)"; printf '{}'; } > bad.safetensors
	truncate -s 100000100 bad.safetensors
	damaged "100000000"
}

@test "tensors that overlap are refused" {
	raw bad.safetensors "{$(tensor x F32 2 0,8),$(tensor h F32 2 4,12)}" 12
	damaged "h|byte|4|data|x"
}

@test "a gap between tensors is refused" {
	raw bad.safetensors "{$(tensor x F32 2 0,8),$(tensor h F32 1 12,16)}" 16
	damaged "h|byte|12|data|8|tensor"
}

@test "a gap before the first tensor is refused" {
	raw bad.safetensors "{$(tensor x F32 1 4,8)}" 8
	damaged "x|byte|4"
}

@test "offsets beyond the data are refused" {
	raw bad.safetensors "{$(tensor x F32 2 0,8)}" 4
	damaged "x|byte|8|data|4"
	raw bad.safetensors "{$(tensor x F32 2 9223372036854775800,9223372036854775807)}" 8
	damaged "x|byte|9223372036854775807"
}

@test "offsets that are reversed, too few, too many, negative, or no numbers, are refused" {
	for offsets in 8,0 8 0,4,8 -8,0 '"0","8"' 0,8.0 0,99999999999999999999; do
		raw bad.safetensors "{$(tensor x F32 2 "$offsets")}" 8
		damaged ""
	done
	raw bad.safetensors '{"x":{"dtype":"F32","shape":[2]}}' 8
	damaged 'x|data_offsets|missing'
}

@test "offsets that do not fit the shape are refused" {
	raw bad.safetensors "{$(tensor x F32 3 0,8)}" 8
	damaged "x|F32|[3]|12|bytes|data_offsets|8"
	raw bad.safetensors "{$(tensor x F64 "" 0,4)}" 4
	damaged "x|F64|[]|8|bytes"
}

@test "shapes whose number of elements overflows are refused" {
	raw bad.safetensors "{$(tensor x F32 4294967296,4294967296,2 0,8)}" 8
	damaged "x|F32|[4294967296, 4294967296, 2]"
	raw bad.safetensors "{$(tensor x F32 4611686018427387904,4 0,0)}" 0
	damaged "x|F32|[4611686018427387904, 4]"
	raw bad.safetensors "{$(tensor x F32 4294967296,4294967296,0 0,0)}" 0
	damaged "x|F32|[4294967296, 4294967296, 0]"
}

@test "shapes of rank 9, with a negative dimension, or with a fraction, are refused" {
	raw bad.safetensors "{$(tensor x F32 1,1,1,1,1,1,1,1,1 0,4)}" 4
	damaged "x|shape|9|8"
	raw bad.safetensors "{$(tensor x F32 -1 0,4)}" 4
	damaged 'x|shape|0'
	raw bad.safetensors "{$(tensor x F32 1.5 0,4)}" 4
	damaged 'x|shape|0'
}

@test "a name that occurs twice is refused" {
	raw bad.safetensors "{$(tensor x F32 1 0,4),$(tensor x F32 1 4,8)}" 8
	damaged "duplicate"
	has '"x"'
}

@test "a header that is no JSON object is refused, and an empty one" {
	for header in '{' '{]' '{"x"}' '{"x":}' 'hello' '[]' '"x"' '{} {}' '{"x":nul}' "{'x':1}" '{"x":1,}' \
		'{"\ud800":1}'; do
		raw bad.safetensors "$header" 0
		damaged "header"
	done
	{ printf '%b' "$(le64 0)"; } > bad.safetensors
	damaged "header"
}

@test "a header that is not UTF-8 is refused" {
	header=$'{"\xff\xfe":1}'
	raw bad.safetensors "$header" 0
	damaged "0xff"
}

@test "a zero byte in the header is refused" {
	{ printf '%b' "$(le64 3)"; printf '{\0}'; } > bad.safetensors
	damaged "header"
}

@test "deeply nested JSON is refused" {
	header="{\"x\":$(printf '[%.0s' {1..100000})$(printf ']%.0s' {1..100000})}"
	raw bad.safetensors "$header" 0
	damaged "depth"
}

@test "a tensor that is no JSON object, or lacks its dtype or shape, is refused" {
	raw bad.safetensors '{"x":3}' 0
	damaged "x|dtype|shape|data_offsets"
	raw bad.safetensors '{"x":{"shape":[1],"data_offsets":[0,4]}}' 4
	damaged 'x|dtype|missing'
	raw bad.safetensors '{"x":{"dtype":7,"shape":[1],"data_offsets":[0,4]}}' 4
	damaged 'x|dtype|missing|string'
	raw bad.safetensors '{"x":{"dtype":"F32","data_offsets":[0,4]}}' 4
	damaged 'x|shape|missing'
}

@test "metadata that is no object of strings is refused" {
	raw bad.safetensors '{"__metadata__":3}' 0
	damaged "__metadata__"
	raw bad.safetensors '{"__metadata__":{"use_peephole":true}}' 0
	damaged "__metadata__|use_peephole|string"
}

@test "control characters in names are escaped in messages" {
	raw bad.safetensors '{"\u001b[31mred\nnext":3}' 0
	damaged '\x1b[31mred\x0anext'
}

@test "an unknown dtype is an error only if the tensor is used" {
	tensors good.safetensors "" other:F99:3 x:F32:2,1 h_prev:F32:2,3 \
		w_ru:F32:4,6 w_c:F32:4,3 b_ru:F32:6 b_c:F32:3
	works run GRUBlockCell good.safetensors
	tensors bad.safetensors "" x:F99:2,1 h_prev:F32:2,3 w_ru:F32:4,6 w_c:F32:4,3 b_ru:F32:6 b_c:F32:3
	damaged "x|F16|BF16|F32|F64|F99"
}

@test "tensors may be in any order in the header, and unaligned in the file" {
	gru plain.safetensors "" F32
	works run GRUBlockCell plain.safetensors
	expected=$output
	tensors odd.safetensors "" one:U8:1 x:F32:2,1 h_prev:F32:2,3 \
		w_ru:F32:4,6 w_c:F32:4,3 b_ru:F32:6 b_c:F32:3 two:U8:3
	works run GRUBlockCell odd.safetensors
	[ "$output" = "$expected" ]
	raw order.safetensors "{$(tensor h F32 1 4,8),$(tensor x F32 1,1 0,4),$(tensor none F32 0,7 4,4)}" 8
	refuses "h_prev|missing" run GRUBlockCell order.safetensors
}

@test "a header that is padded with blanks is accepted" {
	raw blank.safetensors "{$(tensor x F32 1,1 0,4)}      " 4
	refuses "h_prev|missing" run GRUBlockCell blank.safetensors
}

@test "of a file of many gigabytes only the tensors that are used are read" {
	gru good.safetensors "" F32
	raw huge.safetensors "{$(tensor other F32 5000000000 0,20000000000)}" 0
	truncate -s $((20000000000 + 8 + $(printf '%s' "{$(tensor other F32 5000000000 0,20000000000)}" | wc -c))) \
		huge.safetensors || skip "no sparse files here"
	run -0 --separate-stderr timeout 20 "$CELLGRAD" run GRUBlockCell huge.safetensors good.safetensors
}
