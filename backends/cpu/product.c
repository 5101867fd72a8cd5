/*
 * The portable product, and the conversions of f16 and bf16 panels; compiled once for each instruction set (CG_ISA).  It is what
 * runs where OpenBLAS is not; plain loops that compilers vectorise, the sums of each element in the order of k.
 */
#include <stddef.h>
#include <stdint.h>

#include "backends/cpu/isa.h"

#define PASTE_(a, b) a##_##b
#define PASTE(a, b) PASTE_(a, b)

enum { ROWS = 4, COLUMNS = 64, DEPTH = 128 };

/* c [m n] += a [m k] b [k n] for m <= ROWS, n <= COLUMNS; element (i, p) of a is a[i * row + p * step]. */
#define DEFINE_PRODUCT(type, name, block, panel) \
static void block(int m, int n, int64_t k, const type *a, int64_t row, int64_t step, const type *restrict b, int64_t ldb, \
                  type *restrict c, int64_t ldc) \
{ \
	type sum[ROWS][COLUMNS]; \
\
	for (int i = 0; i < m; i++) \
		for (int j = 0; j < n; j++) \
			sum[i][j] = c[i * ldc + j]; \
	if (m == ROWS && n == COLUMNS) { \
		for (int64_t p = 0; p < k; p++) { \
			const type a0 = a[p * step], a1 = a[row + p * step], a2 = a[2 * row + p * step], a3 = a[3 * row + p * step]; \
			const type *restrict bp = b + p * ldb; \
\
			for (int j = 0; j < COLUMNS; j++) { \
				sum[0][j] += a0 * bp[j]; \
				sum[1][j] += a1 * bp[j]; \
				sum[2][j] += a2 * bp[j]; \
				sum[3][j] += a3 * bp[j]; \
			} \
		} \
	} else { \
		for (int64_t p = 0; p < k; p++) \
			for (int i = 0; i < m; i++) { \
				const type ai = a[i * row + p * step]; \
				const type *restrict bp = b + p * ldb; \
\
				for (int j = 0; j < n; j++) \
					sum[i][j] += ai * bp[j]; \
			} \
	} \
	for (int i = 0; i < m; i++) \
		for (int j = 0; j < n; j++) \
			c[i * ldc + j] = sum[i][j]; \
} \
\
cg_##name PASTE(cg_##name, CG_ISA); \
\
void PASTE(cg_##name, CG_ISA)(int transpose_a, int transpose_b, int64_t m, int64_t n, int64_t k, const type *a, int64_t lda, \
                              const type *b, int64_t ldb, type *c, int64_t ldc) \
{ \
	int64_t row = transpose_a ? 1 : lda, step = transpose_a ? lda : 1; \
	type panel[DEPTH * COLUMNS]; \
\
	for (int64_t j = 0; j < n; j += COLUMNS) \
		for (int64_t p = 0; p < k; p += DEPTH) { \
			int width = n - j < COLUMNS ? (int)(n - j) : COLUMNS, deep = k - p < DEPTH ? (int)(k - p) : DEPTH; \
			const type *from = transpose_b ? panel : b + p * ldb + j; \
\
			for (int q = 0; transpose_b && q < deep; q++) \
				for (int jj = 0; jj < width; jj++) \
					panel[q * COLUMNS + jj] = b[(j + jj) * ldb + p + q]; \
			for (int64_t i = 0; i < m; i += ROWS) \
				block(m - i < ROWS ? (int)(m - i) : ROWS, width, deep, a + i * row + p * step, row, step, from, \
				      transpose_b ? COLUMNS : ldb, c + i * ldc + j, ldc); \
		} \
}

DEFINE_PRODUCT(float, product_f32, block_f32, panel_f32)
DEFINE_PRODUCT(double, product_f64, block_f64, panel_f64)
