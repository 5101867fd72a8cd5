/*
 * What the loops of products multiply, for DEFINE_ITEMS(t, element, item, number, mask) after VECTOR_BYTES: vectors of items.  An item is
 * an element of a, and of b in f32 and f64; or, of bf16, two elements, of two steps of k.  Sums are numbers: ADD_t(sum, a, v) adds to a
 * vector of them an item times a vector of items.
 */
#ifndef CG_ITEMS_H
#define CG_ITEMS_H

#include <stddef.h>
#include <stdint.h>

#include "backends/cpu/transpose.h"

#define DEFINE_ITEMS(t, element, item, number, mask) \
enum { LANES_##t = VECTOR_BYTES / sizeof(item), STEPS_##t = sizeof(item) / sizeof(element) }; \
typedef item vector_##t __attribute__((vector_size(VECTOR_BYTES))); \
typedef item loose_##t __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(element)), may_alias)); \
typedef number sums_##t __attribute__((vector_size(VECTOR_BYTES))); \
typedef number loose_sums_##t __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(number)), may_alias)); \
typedef item loose_item_##t __attribute__((aligned(sizeof(element)), may_alias)); \
typedef element element_##t __attribute__((may_alias)); \
DEFINE_TRANSPOSE(item, t, mask) \
\
/* Items of so many steps. */ \
static inline int64_t items_##t(int64_t k) \
{ \
	return (k + STEPS_##t - 1) / STEPS_##t; \
} \
\
/* Rows of memory that have the steps of one column each, to columns of [items step]: `stored` of them, zeros from `width` on. */ \
__attribute__((always_inline)) static inline void pack_rows_##t(const int stored, int64_t k, int64_t width, const element *from, int64_t ld, \
                                                                item *to, int64_t step) \
{ \
	const int64_t whole = k / STEPS_##t; \
\
	turn_##t(stored, whole, width, from, ld * (int64_t)sizeof(element), to, step); \
	for (int j = 0; j < stored && k % STEPS_##t; j++) { \
		to[whole * step + j] = 0; \
		if (j < width) \
			memcpy(to + whole * step + j, from + j * ld + k - 1, sizeof(element)); \
	} \
} \
\
/* The rows of memory of the steps of an item, to `stored` items: element j of each to item j, zeros from `width` on. */ \
__attribute__((always_inline)) static inline void pack_item_##t(const int stored, int64_t steps, int64_t width, const element *from, \
                                                                int64_t ld, item *to) \
{ \
	element_##t *elements = (element_##t *)to; \
\
	if (width >= stored && steps == STEPS_##t) { \
		for (int j = 0; j < stored; j++) \
			for (int s = 0; s < STEPS_##t; s++) \
				elements[j * STEPS_##t + s] = from[s * ld + j]; \
		return; \
	} \
	for (int j = 0; j < stored; j++) \
		for (int s = 0; s < STEPS_##t; s++) \
			elements[j * STEPS_##t + s] = j < width && s < steps ? from[s * ld + j] : 0; \
}

#define ADD_f32(sum, a, v) ((sum) += (a) * (v))
#define ADD_f64(sum, a, v) ((sum) += (a) * (v))

#ifdef CG_PAIRS                                  /* bf16 by the instructions that it has */
#include <immintrin.h>
#define ADD_bf16(sum, a, v) \
	((sum) = (sums_bf16)_mm512_dpbf16_ps((__m512)(sum), (__m512bh)_mm512_set1_epi32(a), (__m512bh)(v)))
#define DEFINE_EACH(define) define(bf16, uint16_t, int32_t, float, int32_t)
#else
#define DEFINE_EACH(define) define(f32, float, float, float, int32_t) define(f64, double, double, double, int64_t)
#endif

#endif
