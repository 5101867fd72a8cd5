/*
 * Products by tiles of units, compiled once for each instruction set (CG_ISA): the recurrent products of a sequence, whose matrix is
 * packed once.  A tile is some vectors of columns, the rows of all of them beside each other in memory; the vectors of a tile may be
 * the gates of the same units.  A block of rows by those vectors stays in registers while k runs, so that the sum of each element
 * is one chain in the order of k, whatever stands beside it.
 */
#include <string.h>

#include "backends/cpu/isa.h"

#define PASTE_(a, b) a##_##b
#define PASTE(a, b) PASTE_(a, b)

/* SUMS: registers for sums. */
#if defined __AVX512F__
enum { VECTOR_BYTES = 64, SUMS = 24 };
#elif defined __AVX2__
enum { VECTOR_BYTES = 32, SUMS = 12 };
#elif defined __aarch64__
enum { VECTOR_BYTES = 16, SUMS = 24 };
#else
enum { VECTOR_BYTES = 16, SUMS = 12 };
#endif
/* AHEAD: rows of a matrix that is packed, from the one that is read to one that will be. */
enum { ROWS = 6, VECTORS = CG_TILE_VECTORS, AHEAD = 16 };

#include "backends/cpu/items.h"

#define DEFINE_TILES(t, element, item, number, mask) \
DEFINE_ITEMS(t, element, item, number, mask) \
\
/* The columns of a tile's vector. */ \
static inline int64_t width_##t(const struct cg_tile *tile, int v) \
{ \
	int64_t width = tile->width - v * tile->step; \
\
	return width < 0 ? 0 : width < LANES_##t ? width : LANES_##t; \
} \
\
/* From rows of memory that hold columns of the tile: vector by vector, else item by item, so that lines of memory are read whole. */ \
static void pack_##t(const struct cg_tile *tile, int transpose_b, int64_t k, const void *b, int64_t ldb) \
{ \
	const int64_t row = (int64_t)tile->stored * LANES_##t; \
	const element *from = b; \
	item *to = tile->data; \
\
	for (int v = 0; v < tile->stored && transpose_b; v++) \
		pack_rows_##t(LANES_##t, k, width_##t(tile, v), from + v * tile->apart * ldb, ldb, to + v * LANES_##t, row); \
	for (int64_t p = 0; p < k && !transpose_b; p += STEPS_##t, to += row) \
		for (int v = 0; v < tile->stored; v++) { \
			const element *of_row = from + p * ldb + v * tile->apart; \
			const int64_t width = width_##t(tile, v), steps = k - p < STEPS_##t ? k - p : STEPS_##t; \
\
			__builtin_prefetch(of_row + AHEAD * ldb); \
			if (STEPS_##t == 1 && width == LANES_##t) \
				memcpy(to + v * LANES_##t, of_row, sizeof(vector_##t)); \
			else \
				pack_item_##t(LANES_##t, steps, width, of_row, ldb, to + v * LANES_##t); \
		} \
} \
\
/* Item p of a row of a. */ \
__attribute__((always_inline)) static inline item load_##t(const element *row, int64_t p) \
{ \
	return *(const loose_item_##t *)(row + p * STEPS_##t); \
} \
\
/* c += a b, for so many items and as many rows and vectors as registers hold; vectors of c are `apart` elements from each other. */ \
__attribute__((always_inline)) static inline void block_##t(const int m, const int vectors, int64_t items, const element *a, int64_t lda, \
                                                            const item *restrict b, int64_t ldb, number *restrict c, int64_t ldc, \
                                                            int64_t apart) \
{ \
	sums_##t sum[ROWS][VECTORS]; \
\
	for (int i = 0; i < m; i++) \
		for (int j = 0; j < vectors; j++) \
			sum[i][j] = *(const loose_sums_##t *)(c + i * ldc + j * apart); \
	for (int64_t p = 0; p < items; p++) { \
		vector_##t v[VECTORS]; \
\
		/* Of rows and vectors the fewer are kept for the step, the others come one by one: else the sums have too few registers. */ \
		for (int j = 0; j < vectors && vectors < m; j++) \
			v[j] = *(const loose_##t *)(b + p * ldb + j * LANES_##t); \
		for (int i = 0; i < m && vectors < m; i++) \
			for (int j = 0; j < vectors; j++) \
				ADD_##t(sum[i][j], load_##t(a + i * lda, p), v[j]); \
		for (int j = 0; j < vectors && vectors >= m; j++) { \
			v[j] = *(const loose_##t *)(b + p * ldb + j * LANES_##t); \
			for (int i = 0; i < m; i++) \
				ADD_##t(sum[i][j], load_##t(a + i * lda, p), v[j]); \
		} \
	} \
	for (int i = 0; i < m; i++) \
		for (int j = 0; j < vectors; j++) \
			*(loose_sums_##t *)(c + i * ldc + j * apart) = sum[i][j]; \
} \
\
/* In blocks of about as many rows each: b comes from a second-level cache for every block, and a low one would wait for it. */ \
__attribute__((always_inline)) static inline void rows_##t(int64_t m, const int vectors, int64_t items, const element *a, int64_t lda, \
                                                           const item *b, int64_t ldb, number *c, int64_t ldc, int64_t apart) \
{ \
	const int most = SUMS / vectors < ROWS ? SUMS / vectors : ROWS; \
	int64_t rows; \
\
	for (int64_t blocks = (m + most - 1) / most; m; m -= rows, a += rows * lda, c += rows * ldc, blocks--) { \
		rows = (m + blocks - 1) / blocks; \
		switch (rows) { \
		case 1: block_##t(1, vectors, items, a, lda, b, ldb, c, ldc, apart); break; \
		case 2: block_##t(2, vectors, items, a, lda, b, ldb, c, ldc, apart); break; \
		case 3: block_##t(3, vectors, items, a, lda, b, ldb, c, ldc, apart); break; \
		case 4: if (most >= 4) block_##t(4, vectors, items, a, lda, b, ldb, c, ldc, apart); break; \
		case 5: if (most >= 5) block_##t(5, vectors, items, a, lda, b, ldb, c, ldc, apart); break; \
		case 6: if (most >= 6) block_##t(6, vectors, items, a, lda, b, ldb, c, ldc, apart); break; \
		} \
	} \
} \
\
static void vectors_##t(int64_t m, int vectors, int64_t items, const element *a, int64_t lda, const item *b, int64_t ldb, number *c, \
                        int64_t ldc, int64_t apart) \
{ \
	switch (vectors) { \
	case 1:  rows_##t(m, 1, items, a, lda, b, ldb, c, ldc, apart); break; \
	case 2:  rows_##t(m, 2, items, a, lda, b, ldb, c, ldc, apart); break; \
	case 3:  rows_##t(m, 3, items, a, lda, b, ldb, c, ldc, apart); break; \
	default: rows_##t(m, VECTORS, items, a, lda, b, ldb, c, ldc, apart); break; \
	} \
} \
\
/* Where a vector is not whole: through a copy of some rows of c. */ \
static void edge_##t(const struct cg_tile *tile, int first, int vectors, int64_t m, int64_t items, const element *a, int64_t lda, \
                     number *c, int64_t ldc) \
{ \
	const item *b = (const item *)tile->data + first * LANES_##t; \
	number copy[ROWS * VECTORS * LANES_##t]; \
	int64_t width[VECTORS]; \
\
	for (int v = 0; v < vectors; v++) \
		width[v] = width_##t(tile, first + v); \
	for (int64_t i = 0; i < m; i += ROWS) { \
		int64_t rows = m - i < ROWS ? m - i : ROWS; \
\
		for (int64_t r = 0; r < rows * vectors; r++) \
			for (int64_t j = 0; j < LANES_##t; j++) \
				copy[r * LANES_##t + j] = j < width[r % vectors] ? c[(i + r / vectors) * ldc + r % vectors * tile->apart + j] : 0; \
		vectors_##t(rows, vectors, items, a + i * lda, lda, b, (int64_t)tile->stored * LANES_##t, copy, vectors * LANES_##t, LANES_##t); \
		for (int64_t r = 0; r < rows * vectors; r++) \
			for (int64_t j = 0; j < width[r % vectors]; j++) \
				c[(i + r / vectors) * ldc + r % vectors * tile->apart + j] = copy[r * LANES_##t + j]; \
	} \
} \
\
static void multiply_##t(const struct cg_tile *tile, int64_t m, int64_t k, const void *a, int64_t lda, void *c, int64_t ldc) \
{ \
	int whole = tile->width - (tile->vectors - 1) * tile->step >= LANES_##t; \
\
	for (int v = 0; v < tile->vectors; v += VECTORS) { \
		int vectors = tile->vectors - v < VECTORS ? tile->vectors - v : VECTORS; \
		number *at = (number *)c + v * tile->apart; \
\
		if (whole) \
			vectors_##t(m, vectors, items_##t(k), a, lda, (const item *)tile->data + v * LANES_##t, (int64_t)tile->stored * LANES_##t, at, \
			            ldc, tile->apart); \
		else \
			edge_##t(tile, v, vectors, m, items_##t(k), a, lda, at, ldc); \
	} \
} \
\
const struct cg_tiles PASTE(cg_tiles_##t, CG_ISA) = { \
	.lanes = LANES_##t, .steps = STEPS_##t, .bytes = sizeof(element), .pack = pack_##t, .multiply = multiply_##t, \
};

DEFINE_EACH(DEFINE_TILES)
