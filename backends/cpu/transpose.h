/*
 * Rows of a matrix to columns of a panel, by vectors: DEFINE_TRANSPOSE(item, t, mask) after VECTOR_BYTES, LANES_t, vector_t and loose_t;
 * mask: a whole number as wide as the item.
 */
#ifndef CG_TRANSPOSE_H
#define CG_TRANSPOSE_H

#include <string.h>

#if defined __has_builtin
#if __has_builtin(__builtin_shuffle)
#define CG_SHUFFLE(r, a, b, from, lanes) r = __builtin_shuffle(a, b, from)
#endif
#endif
#ifndef CG_SHUFFLE
#define CG_SHUFFLE(r, a, b, from, lanes) for (int j = 0; j < lanes; j++) r[j] = from[j] < lanes ? a[from[j]] : b[from[j] - lanes]
#endif

/* transpose: r[i][j] becomes r[j][i]: halves of growing size are exchanged between pairs of vectors.
 * turn: to[p * step + j] is item p of row j for p < k and j < stored, and 0 from j = width on; rows are ld bytes apart; stored is at most
 * the lanes of a vector. */
#define DEFINE_TRANSPOSE(item, t, mask) \
typedef mask mask_##t __attribute__((vector_size(VECTOR_BYTES))); \
\
__attribute__((always_inline)) static inline void transpose_##t(vector_##t *r) \
{ \
	_Pragma("GCC unroll 4") \
	for (int s = 1; s < LANES_##t; s *= 2) { \
		mask_##t low, high; \
\
		for (int j = 0; j < LANES_##t; j++) { \
			low[j] = j & s ? LANES_##t + j - s : j; \
			high[j] = j & s ? LANES_##t + j : j + s; \
		} \
		_Pragma("GCC unroll 16") \
		for (int i = 0; i < LANES_##t; i++) \
			if (!(i & s)) { \
				vector_##t a = r[i], b = r[i + s]; \
\
				CG_SHUFFLE(r[i], a, b, low, LANES_##t); \
				CG_SHUFFLE(r[i + s], a, b, high, LANES_##t); \
			} \
	} \
} \
\
__attribute__((always_inline)) static inline void turn_##t(const int stored, int64_t k, int64_t width, const void *from, int64_t ld, \
                                                           item *to, int64_t step) \
{ \
	const char *rows = from; \
	int64_t p = 0; \
\
	for (; p + LANES_##t <= k; p += LANES_##t) { \
		vector_##t r[LANES_##t]; \
\
		for (int j = 0; j < LANES_##t; j++) { \
			r[j] = (vector_##t){ 0 }; \
			if (j < stored && j < width) \
				r[j] = *(const loose_##t *)(const void *)(rows + j * ld + p * (int64_t)sizeof(item)); \
		} \
		transpose_##t(r); \
		for (int i = 0; i < LANES_##t; i++) \
			memcpy(to + (p + i) * step, &r[i], (size_t)stored * sizeof(item)); \
	} \
	for (; p < k; p++) \
		for (int j = 0; j < stored; j++) { \
			to[p * step + j] = 0; \
			if (j < width) \
				memcpy(to + p * step + j, rows + j * ld + p * (int64_t)sizeof(item), sizeof(item)); \
		} \
}

#endif
