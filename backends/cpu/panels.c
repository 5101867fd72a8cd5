/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes panels of big products; compiled once for each instruction set (CG_ISA) that has code of its own for them, except amxbf16.  Both
 * operands are packed in panels, of some rows of the operand a or some columns of the operand b, in which the elements of a step of k are
 * side by side.  The sums of a panel of a and a panel of b stay in registers while k runs, so each sum is one chain in the order of k,
 * wherever its element stands.
 */
#include <string.h>

#include "backends/cpu/isa.h"

#define PASTE_(a, b) a##_##b
#define PASTE(a, b) PASTE_(a, b)

/* Registers hold ROWS * VECTORS vectors of sums, VECTORS vectors of the operand b, and one element of the operand a.  A block of a has
 * HEIGHT rows of DEPTH_BYTES bytes: servers' processors with AVX-512 have a second-level cache of 1 MB or more. */
#if defined __AVX512F__
enum { VECTOR_BYTES = 64, ROWS = 12, VECTORS = 2, DEPTH_BYTES = 4096, HEIGHT = 240 };
#elif defined __AVX2__
enum { VECTOR_BYTES = 32, ROWS = 6, VECTORS = 2, DEPTH_BYTES = 2048, HEIGHT = 120 };
#elif defined __aarch64__
enum { VECTOR_BYTES = 16, ROWS = 6, VECTORS = 4, DEPTH_BYTES = 2048, HEIGHT = 120 };
#else
enum { VECTOR_BYTES = 16, ROWS = 6, VECTORS = 2, DEPTH_BYTES = 2048, HEIGHT = 120 };
#endif

#ifdef CG_PAIRS                                  /* products of bf16 by the processor's instructions for bf16 */
#include "backends/cpu/items_bf16.h"
#define DEFINE_EACH(define) define(bf16)
#else
#include "backends/cpu/items_f32.h"
#include "backends/cpu/items_f64.h"
#define DEFINE_EACH(define) define(f32) define(f64)
#endif

#define DEFINE_PANELS(t) \
enum { COLUMNS_##t = VECTORS * VECTOR_BYTES / sizeof(item_##t) }; \
\
/* Fills panel [items across]: item (p, j) is 0 from j = width on. */ \
__attribute__((always_inline)) static inline void pack_##t(const int across, int by_rows, int64_t k, int64_t width, \
                                                           const element_##t *from, int64_t ld, item_##t *panel) \
{ \
	for (int64_t p = 0; p < k && !by_rows; p += STEPS_##t, panel += across) { \
		if (STEPS_##t == 1 && width == across) \
			memcpy(panel, from + p * ld, (size_t)across * sizeof(item_##t)); \
		else \
			pack_item_##t(across, k - p < STEPS_##t ? k - p : STEPS_##t, width, from + p * ld, ld, panel); \
	} \
	_Pragma("GCC unroll 8") \
	for (int j = 0; j < across && by_rows; j += LANES_##t) { \
		const int stored = across - j < LANES_##t ? across - j : LANES_##t; \
\
		pack_rows_##t(stored, k, width - j, from + j * ld, ld, panel + j, across); \
	} \
} \
\
static void pack_a_##t(int by_rows, int64_t k, int64_t width, const void *from, int64_t ld, void *panel) \
{ \
	pack_##t(ROWS, by_rows, k, width, from, ld, panel); \
} \
\
static void pack_b_##t(int by_rows, int64_t k, int64_t width, const void *from, int64_t ld, void *panel) \
{ \
	pack_##t(COLUMNS_##t, by_rows, k, width, from, ld, panel); \
} \
\
/* Computes c = start + a b for whole panels of `items` items, in the first `vectors` vectors of columns.  next: sums to prefetch. */ \
__attribute__((always_inline)) static inline void vectors_##t(const int vectors, int64_t items, const item_##t *restrict a, \
                                                              const item_##t *restrict b, const number_##t *start, int64_t start_stride, \
                                                              number_##t *c, int64_t ldc, const number_##t *next) \
{ \
	const sums_##t zeros = { 0 }; \
	sums_##t sum[ROWS][VECTORS]; \
\
	for (int i = 0; i < ROWS; i++) \
		for (int j = 0; j < vectors; j++) { \
			sum[i][j] = zeros; \
			if (start) \
				sum[i][j] = *(const loose_sums_##t *)(start + i * start_stride + j * LANES_##t); \
			__builtin_prefetch(next + i * ldc + j * LANES_##t, 1, 3); \
		} \
	for (int64_t p = 0; p < items; p++) { \
		item_vector_##t v[VECTORS]; \
\
		for (int j = 0; j < vectors; j++) \
			v[j] = *(const loose_##t *)(b + p * COLUMNS_##t + j * LANES_##t); \
		for (int i = 0; i < ROWS; i++) \
			for (int j = 0; j < vectors; j++) \
				sum[i][j] = add_##t(sum[i][j], a[p * ROWS + i], v[j]); \
	} \
	for (int i = 0; i < ROWS; i++) \
		for (int j = 0; j < vectors; j++) \
			*(loose_sums_##t *)(c + i * ldc + j * LANES_##t) = sum[i][j]; \
} \
\
static void block_##t(int64_t items, const item_##t *a, const item_##t *b, const number_##t *start, int64_t start_stride, \
                      number_##t *c, int64_t ldc) \
{ \
	vectors_##t(VECTORS, items, a, b, start, start_stride, c, ldc, c + ROWS * ldc); \
} \
\
/* Copies n elements, up to COLUMNS: whole vectors, then the rest. */ \
static inline void copy_##t(int64_t n, const number_##t *from, number_##t *to) \
{ \
	for (; n >= LANES_##t; n -= LANES_##t, from += LANES_##t, to += LANES_##t) \
		*(loose_sums_##t *)to = *(const loose_sums_##t *)from; \
	if (n) \
		memcpy(to, from, (size_t)n * sizeof(number_##t)); \
} \
\
/* Computes c = start + a b at an edge of c, in a buffer of ROWS rows and COLUMNS columns. */ \
static void edge_##t(int64_t m, int64_t n, int64_t items, const item_##t *a, const item_##t *b, const number_##t *start, \
                     int64_t start_stride, number_##t *c, int64_t ldc) \
{ \
	number_##t copy[ROWS * COLUMNS_##t]; \
	number_##t *sums = start ? copy : NULL; \
\
	if (start) { \
		memset(copy, 0, sizeof copy); \
		for (int64_t i = 0; i < m; i++) \
			copy_##t(n, start + i * start_stride, copy + i * COLUMNS_##t); \
	} \
	if (n > LANES_##t) \
		block_##t(items, a, b, sums, COLUMNS_##t, copy, COLUMNS_##t); \
	else \
		vectors_##t(1, items, a, b, sums, COLUMNS_##t, copy, COLUMNS_##t, copy); \
	for (int64_t i = 0; i < m; i++) \
		copy_##t(n, copy + i * COLUMNS_##t, c + i * ldc); \
} \
\
static void multiply_##t(int64_t m, int64_t n, int64_t k, const void *a_panels, const void *b_panels, int64_t b_apart, \
                         const void *start, int64_t start_stride, void *c, int64_t ldc) \
{ \
	const int64_t items = count_items_##t(k); \
	const item_##t *b = b_panels; \
\
	for (int64_t j = 0; j < n; j += COLUMNS_##t, b += b_apart / STEPS_##t) { \
		const item_##t *a = a_panels; \
\
		for (int64_t i = 0; i < m; i += ROWS, a += ROWS * items) { \
			const number_##t *from = start ? (const number_##t *)start + i * start_stride + j : NULL; \
			number_##t *to = (number_##t *)c + i * ldc + j; \
\
			if (m - i >= ROWS && n - j >= COLUMNS_##t) \
				block_##t(items, a, b, from, start_stride, to, ldc); \
			else \
				edge_##t(m - i < ROWS ? m - i : ROWS, n - j < COLUMNS_##t ? n - j : COLUMNS_##t, items, a, b, from, start_stride, \
				         to, ldc); \
		} \
	} \
} \
\
const struct cg_panels PASTE(cg_panels_##t, CG_ISA) = { \
	.rows = ROWS, .columns = COLUMNS_##t, .steps = STEPS_##t, .depth = DEPTH_BYTES / sizeof(element_##t), .height = HEIGHT, \
	.bytes = sizeof(element_##t), .pack_a = pack_a_##t, .pack_b = pack_b_##t, \
	.multiply = multiply_##t, \
};

DEFINE_EACH(DEFINE_PANELS)
