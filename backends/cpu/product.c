/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The library's product for few rows, compiled once for each instruction set (CG_ISA) that has kernels of its own.  The sums of a block of
 * rows and columns stay in registers while k runs, so that each element is summed in the order of k, wherever it stands.  The operand b is
 * read in place, or from panels of a block's columns, which are made during the product or, for several products with the same b,
 * beforehand.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "backends/cpu/isa.h"

#define PASTE_(a, b) a##_##b
#define PASTE(a, b) PASTE_(a, b)

/* Registers hold ROWS * VECTORS vectors of sums, VECTORS vectors of the operand b, and one element of the operand a. */
#if defined __AVX512F__
enum { VECTOR_BYTES = 64, VECTORS = 4 };
#elif defined __AVX2__
enum { VECTOR_BYTES = 32, VECTORS = 2 };
#elif defined __aarch64__
enum { VECTOR_BYTES = 16, VECTORS = 4 };
#else
enum { VECTOR_BYTES = 16, VECTORS = 2 };
#endif
#include "backends/cpu/items_f32.h"
#include "backends/cpu/items_f64.h"

enum { ROWS = 6, PANEL_BYTES = VECTORS * VECTOR_BYTES };
/* The most steps of k in a block: a product goes through k block by block.  DEPTH: if b is read in place; PANEL_DEPTH: in panels that are
 * made during the product. */
enum { DEPTH = 512, PANEL_DEPTH = 128 };

#define DEFINE_PRODUCT(type, t) \
enum { PANEL_##t = PANEL_BYTES / sizeof(type) }; \
\
/* c [m PANEL] += a [m k] b [k PANEL]; element (i, p) of a is a[i * row + p * step]. */ \
__attribute__((always_inline)) static inline void rows_##t(const int m, int64_t k, const type *a, int64_t row, int64_t step, \
                                                           const type *restrict b, int64_t ldb, type *restrict c, int64_t ldc) \
{ \
	item_vector_##t sum[ROWS][VECTORS], v[VECTORS]; \
\
	for (int i = 0; i < m; i++) \
		for (int j = 0; j < VECTORS; j++) \
			sum[i][j] = *(const loose_##t *)(c + i * ldc + j * LANES_##t); \
	for (int64_t p = 0; p < k; p++) { \
		for (int j = 0; j < VECTORS; j++) \
			v[j] = *(const loose_##t *)(b + p * ldb + j * LANES_##t); \
		for (int i = 0; i < m; i++) { \
			const type ai = a[i * row + p * step]; \
\
			for (int j = 0; j < VECTORS; j++) \
				sum[i][j] += ai * v[j]; \
		} \
	} \
	for (int i = 0; i < m; i++) \
		for (int j = 0; j < VECTORS; j++) \
			*(loose_##t *)(c + i * ldc + j * LANES_##t) = sum[i][j]; \
} \
\
static void block_##t(int64_t m, int64_t k, const type *a, int64_t row, int64_t step, const type *b, int64_t ldb, type *c, \
                      int64_t ldc) \
{ \
	switch (m) { \
	case 1:  rows_##t(1, k, a, row, step, b, ldb, c, ldc); break; \
	case 2:  rows_##t(2, k, a, row, step, b, ldb, c, ldc); break; \
	case 3:  rows_##t(3, k, a, row, step, b, ldb, c, ldc); break; \
	case 4:  rows_##t(4, k, a, row, step, b, ldb, c, ldc); break; \
	case 5:  rows_##t(5, k, a, row, step, b, ldb, c, ldc); break; \
	default: rows_##t(ROWS, k, a, row, step, b, ldb, c, ldc); break; \
	} \
} \
\
/* c [m width] += a [m k] b [k width]; width is at most a panel's columns. */ \
static void column_##t(int64_t m, int64_t width, int64_t k, const type *a, int64_t row, int64_t step, const type *b, int64_t ldb, \
                       type *c, int64_t ldc) \
{ \
	type edge[ROWS * PANEL_##t]; \
\
	for (int64_t i = 0; i < m; i += ROWS) { \
		int64_t high = m - i < ROWS ? m - i : ROWS; \
\
		if (width == PANEL_##t) { \
			block_##t(high, k, a + i * row, row, step, b, ldb, c + i * ldc, ldc); \
			continue; \
		} \
		for (int64_t r = 0; r < high; r++) \
			for (int64_t j = 0; j < PANEL_##t; j++) \
				edge[r * PANEL_##t + j] = j < width ? c[(i + r) * ldc + j] : 0; \
		block_##t(high, k, a + i * row, row, step, b, ldb, edge, PANEL_##t); \
		for (int64_t r = 0; r < high; r++) \
			for (int64_t j = 0; j < width; j++) \
				c[(i + r) * ldc + j] = edge[r * PANEL_##t + j]; \
	} \
} \
\
/* Makes a panel [k PANEL] of `width` columns and zeros, from b [k width] or its transpose. */ \
static void pack_##t(int transpose_b, int64_t k, int64_t width, const type *b, int64_t ldb, type *panel) \
{ \
	for (int64_t p = 0; p < k && !transpose_b; p++) { \
		memcpy(panel + p * PANEL_##t, b + p * ldb, (size_t)width * sizeof(type)); \
		memset(panel + p * PANEL_##t + width, 0, (size_t)(PANEL_##t - width) * sizeof(type)); \
	} \
	for (int64_t j = 0; j < PANEL_##t && transpose_b; j += LANES_##t) \
		turn_##t(LANES_##t, k, width - j, b + j * ldb, ldb * (int64_t)sizeof(type), panel + j, PANEL_##t); \
} \
\
static void multiply_packed_##t(int64_t m, int64_t n, int64_t k, const type *a, int64_t lda, const type *panels, int64_t stride, \
                                type *c, int64_t ldc) \
{ \
	for (int64_t j = 0; j < n; j += PANEL_##t, panels += stride) \
		column_##t(m, n - j < PANEL_##t ? n - j : PANEL_##t, k, a, lda, 1, panels, PANEL_##t, c + j, ldc); \
} \
\
static void multiply_##t(int transpose_a, int transpose_b, int64_t m, int64_t n, int64_t k, const type *a, int64_t lda, \
                         const type *b, int64_t ldb, type *c, int64_t ldc) \
{ \
	int64_t row = transpose_a ? 1 : lda, step = transpose_a ? lda : 1; \
	type panel[PANEL_DEPTH * PANEL_##t]; \
\
	for (int64_t j = 0; j < n; j += PANEL_##t) { \
		int64_t width = n - j < PANEL_##t ? n - j : PANEL_##t; \
		int made = transpose_b || width < PANEL_##t, deepest = made ? PANEL_DEPTH : DEPTH; \
\
		for (int64_t p = 0; p < k; p += deepest) { \
			int64_t deep = k - p < deepest ? k - p : deepest; \
			const type *from = transpose_b ? b + j * ldb + p : b + p * ldb + j; \
\
			if (made) \
				pack_##t(transpose_b, deep, width, from, ldb, panel); \
			column_##t(m, width, deep, a + p * step, row, step, made ? panel : from, made ? PANEL_##t : ldb, c + j, ldc); \
		} \
	} \
} \
\
const struct cg_product_##t PASTE(cg_product_##t, CG_ISA) = { \
	.columns = PANEL_##t, .multiply = multiply_##t, .pack = pack_##t, .multiply_packed = multiply_packed_##t, \
};

DEFINE_PRODUCT(float, f32)
DEFINE_PRODUCT(double, f64)
