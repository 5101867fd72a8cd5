/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of cases of the conformance suite and of `cellgrad check`: sizes and other fields of a call. The suite runs the cases of an
 * op in every dtype, so a new row here adds tests.
 */
#ifndef CASES_H
#define CASES_H

#include <stdint.h>

struct size { int64_t B, I, U; };

/* Batches of 0 rows and of 1; widths of 1; odd sizes; sizes around the widths of vectors, strips (256 units) and blocks of rows (64). */
static const struct size sizes[] = {
	{ 1, 1, 1 }, { 2, 2, 2 }, { 3, 5, 7 }, { 0, 3, 4 }, { 0, 1, 1 }, { 8, 16, 16 }, { 17, 9, 33 }, { 7, 31, 15 }, { 1, 8, 64 },
	{ 9, 1, 17 }, { 63, 3, 2 }, { 64, 2, 3 }, { 65, 3, 2 }, { 130, 4, 5 }, { 2, 3, 255 }, { 3, 2, 256 }, { 2, 3, 257 },
	{ 33, 64, 64 }, { 300, 3, 9 }, { 5, 600, 3 }, { 5, 3, 130 },
};
/* Sizes larger than one tile of a matrix product in each direction; such a case runs once for each dtype of an op of one step. */
static const struct size large[] = { { 260, 3, 130 } };
/* A small size, for cases with every subset of the optional arguments absent. */
static const struct size small = { 2, 3, 4 };

/* Lengths of a sequence: T steps, of which seq_len_max are computed; -1: all. Small cases have the lengths of the first row. */
static const struct { int64_t T, seq_len_max; } lengths[] = { { 3, -1 }, { 2, -1 }, { 4, 2 }, { 1, -1 }, { 3, 0 }, { 0, -1 }, { 9, 8 } };

/* Values of an op's scalar attributes forget_bias and cell_clip; the first row has the defaults of TensorFlow's BlockLSTM. */
static const struct { double forget_bias, cell_clip; } scalars[] = { { 1, 3 }, { 0, -1 }, { 0.3, 0.5 } };

/* Magnitudes of the inputs: ordinary, tiny, and large enough to saturate the gates. */
static const double scales[] = { 1, 1e-3, 12 };

/* Sizes of the cases of kernels. */
static const struct { int64_t rows, units; } areas[] = {
	{ 0, 3 }, { 1, 1 }, { 2, 7 }, { 3, 16 }, { 63, 2 }, { 64, 5 }, { 65, 33 }, { 130, 17 }, { 3, 255 }, { 2, 256 }, { 5, 257 },
	{ 1, 1000 }
};

#endif
