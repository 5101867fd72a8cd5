#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Compares some texts of the generator with texts in tests/gen/golden, which were read and approved, so that a change of any letter
# is a failure.  `golden.sh --update` writes these files again; the change is then read with `git diff`.
#
# Runs in the build's top folder, and needs tests/gen/emit_all there.  srcdir: the source.

texts="cg_lstm_block_peephole_f32_grad.c cg_lstm_block_peephole_f32_grad.json cg_lstm_block_f32_forward.h cg_gru_block_f16_grad.h cg_gru_block_f16_forward.cl
	cg_gru_f32_gradgrad.cu cg_lstm_f16_seq_forward.cu cg_rnn_relu_f64_grad.c cg_lstm_peephole_bf16_forward.c cg_lstm_f16_seq_grad.cl
	cg_gemm_f32_nn_128x192.cl cg_gemm_f16_nt_32x48.cl
	cg_gemm_f32_nn_local_128x128.cl cg_gemm_f16_nt_c_acc_local_64x64.cu
	cg_lstm_block_peephole_f32_seq_forward_scan.c cg_gru_block_bf16_seq_grad_scan.h
	cg_rows_f16_dst_acc_drop.c cg_rows_f32_drop.cl cg_rows_bf16_src_acc.cu cg_rows_moves_f16.cu"

srcdir=${srcdir:-.}
export srcdir
golden=$srcdir/tests/gen/golden
work=$(mktemp -d "${TMPDIR:-/tmp}/golden.XXXXXX") || exit 99
trap 'rm -rf "$work"' EXIT
tests/gen/emit_all "$work" || { echo "Bail out! the texts were not written"; exit 99; }

if [ "$1" = --update ]; then
	for text in $texts; do
		cp "$work/$text" "$golden/$text" || exit 1
	done
	exit 0
fi
number=0
# shellcheck disable=SC2086
set -- $texts
echo 1..$#
for text; do
	number=$((number + 1))
	if diff -u "$golden/$text" "$work/$text" >"$work/diff" 2>&1; then
		echo "ok $number - $text"
	else
		sed 's/^/# /' "$work/diff" | head -60
		echo "not ok $number - $text"
	fi
done
