/*
 * Big products, compiled once for each instruction set (CG_ISA).  Both operands are packed in panels: of so many rows of a, or so many
 * columns of b, those of a step of k beside each other.  The sums of a panel of each stay in registers while k runs, so that each sum is
 * one chain in the order of k, wherever its element stands.
 */
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "backends/cpu/isa.h"
#include "backends/cpu/transpose.h"

#define PASTE_(a, b) a##_##b
#define PASTE(a, b) PASTE_(a, b)

/* Registers: ROWS * VECTORS sums, VECTORS of b and one of a. */
#if defined __AVX512F__
enum { VECTOR_BYTES = 64, ROWS = 12, VECTORS = 2 };
#elif defined __AVX2__
enum { VECTOR_BYTES = 32, ROWS = 6, VECTORS = 2 };
#elif defined __aarch64__
enum { VECTOR_BYTES = 16, ROWS = 6, VECTORS = 4 };
#else
enum { VECTOR_BYTES = 16, ROWS = 6, VECTORS = 2 };
#endif

#define DEFINE_PANELS(type, t, mask) \
enum { LANES_##t = VECTOR_BYTES / sizeof(type), COLUMNS_##t = VECTORS * LANES_##t }; \
typedef type vector_##t __attribute__((vector_size(VECTOR_BYTES))); \
typedef type loose_##t __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(type)), may_alias)); \
DEFINE_TRANSPOSE(type, t, mask) \
\
/* panel [k across]: element (p, j), 0 from j = width on. */ \
__attribute__((always_inline)) static inline void pack_##t(const int across, int by_rows, int64_t k, int64_t width, const type *from, \
                                                           int64_t ld, type *panel) \
{ \
	for (int64_t p = 0; p < k && !by_rows; p++) { \
		if (width == across) { \
			memcpy(panel + p * across, from + p * ld, (size_t)across * sizeof(type)); \
			continue; \
		} \
		for (int64_t j = 0; j < across; j++) \
			panel[p * across + j] = j < width ? from[p * ld + j] : 0; \
	} \
	_Pragma("GCC unroll 8") \
	for (int j = 0; j < across && by_rows; j += LANES_##t) { \
		const int stored = across - j < LANES_##t ? across - j : LANES_##t; \
\
		turn_##t(stored, k, width - j, from + j * ld, ld, panel + j, across); \
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
/* c = start + a b, of whole panels; next: where the next c is. */ \
static void block_##t(int64_t k, const type *restrict a, const type *restrict b, const type *start, int64_t start_stride, type *c, \
                      int64_t ldc, const type *next) \
{ \
	vector_##t sum[ROWS][VECTORS]; \
\
	for (int i = 0; i < ROWS; i++) \
		for (int j = 0; j < VECTORS; j++) { \
			sum[i][j] = (vector_##t){ 0 }; \
			if (start) \
				sum[i][j] = *(const loose_##t *)(start + i * start_stride + j * LANES_##t); \
			__builtin_prefetch(next + i * ldc + j * LANES_##t, 1, 3); \
		} \
	for (int64_t p = 0; p < k; p++) { \
		vector_##t v[VECTORS]; \
\
		for (int j = 0; j < VECTORS; j++) \
			v[j] = *(const loose_##t *)(b + p * COLUMNS_##t + j * LANES_##t); \
		for (int i = 0; i < ROWS; i++) \
			for (int j = 0; j < VECTORS; j++) \
				sum[i][j] += a[p * ROWS + i] * v[j]; \
	} \
	for (int i = 0; i < ROWS; i++) \
		for (int j = 0; j < VECTORS; j++) \
			*(loose_##t *)(c + i * ldc + j * LANES_##t) = sum[i][j]; \
} \
\
/* The same at an edge of c: through a copy. */ \
static void edge_##t(int64_t m, int64_t n, int64_t k, const type *a, const type *b, const type *start, int64_t start_stride, type *c, \
                     int64_t ldc) \
{ \
	type copy[ROWS * COLUMNS_##t]; \
\
	for (int64_t i = 0; i < ROWS; i++) \
		for (int64_t j = 0; j < COLUMNS_##t; j++) \
			copy[i * COLUMNS_##t + j] = start && i < m && j < n ? start[i * start_stride + j] : 0; \
	block_##t(k, a, b, copy, COLUMNS_##t, copy, COLUMNS_##t, copy); \
	for (int64_t i = 0; i < m; i++) \
		memcpy(c + i * ldc, copy + i * COLUMNS_##t, (size_t)n * sizeof(type)); \
} \
\
static void multiply_##t(int64_t m, int64_t n, int64_t k, const void *a_panels, const void *b_panels, int64_t b_apart, \
                         const void *start, int64_t start_stride, void *c, int64_t ldc) \
{ \
	const type *b = b_panels; \
\
	for (int64_t j = 0; j < n; j += COLUMNS_##t, b += b_apart) { \
		const type *a = a_panels; \
\
		for (int64_t i = 0; i < m; i += ROWS, a += ROWS * k) { \
			const type *from = start ? (const type *)start + i * start_stride + j : NULL; \
			type *to = (type *)c + i * ldc + j; \
\
			if (m - i >= ROWS && n - j >= COLUMNS_##t) \
				block_##t(k, a, b, from, start_stride, to, ldc, to + ROWS * ldc); \
			else \
				edge_##t(m - i < ROWS ? m - i : ROWS, n - j < COLUMNS_##t ? n - j : COLUMNS_##t, k, a, b, from, start_stride, \
				         to, ldc); \
		} \
	} \
} \
\
const struct cg_panels PASTE(cg_panels_##t, CG_ISA) = { \
	.rows = ROWS, .columns = COLUMNS_##t, .pack_a = pack_a_##t, .pack_b = pack_b_##t, .multiply = multiply_##t, \
};

DEFINE_PANELS(float, f32, int32_t)
DEFINE_PANELS(double, f64, int64_t)
