/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Comparing answers with expected ones: how far off each element is, and how far off it may be.
 */
#ifndef COMPARE_H
#define COMPARE_H

#include <stddef.h>
#include <stdint.h>

/* Element k of a tensor of an enum cg_dtype, wherever it lies. */
double compare_element(int dtype, const void *data, size_t k);

/* What an allowance follows from. */
struct allowance {
	int     dtype;                   /* that the op computed in */
	int     expected;                /* that the expected values are written in */
	int     rounded;                 /* products and sums read what the op itself rounded to its dtype */
	int64_t depth;                   /* of the longest sum behind the tensor */
	double  largest;                 /* magnitude of the expected tensor; set by compare() */
	int     given;                   /* the next two are the rule: the user gave them */
	double  rtol, atol;
};
/*
 * How far an element may be from want, when both it and want were computed as they should be:
 *     2 u |want| + (16 + 4 sqrt(depth)) a largest + s
 * u: half the spacing of numbers near 1 in the coarser of both dtypes; a: the same for what is computed in (f32
 * for f16, bf16 and f32, f64 for f64), and u where results were rounded to the dtype on the way; s: the
 * smallest normal number, since smaller ones may be flushed (in f16 and f64 they are not: the smallest of all).
 * The only tolerance of the command; or rtol |want| + atol where given.
 */
double cg_allowance(const struct allowance *, double want);

struct comparison {
	size_t at;                       /* of the element that is nearest to its allowance, or most beyond it */
	double got, want, error, allowance;
	double most;                     /* the largest error of all */
	double largest;                  /* magnitude in the expected tensor */
	size_t wrong;                    /* elements beyond their allowance */
	size_t n;                        /* elements that were compared */
};
/* n elements.  NaN equals NaN, an infinity equals itself. */
void compare(struct allowance, const void *got, const void *want, size_t n, struct comparison *);

#endif
