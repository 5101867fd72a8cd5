/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares answers with expected ones: the error of each element, and the error that is allowed.
 */
#ifndef COMPARE_H
#define COMPARE_H

#include <stddef.h>
#include <stdint.h>

/* Element k of a tensor of a dtype, at any alignment. */
double compare_element(int dtype, const void *data, size_t k);

/* What the allowed error depends on. */
struct allowance {
	int     dtype;                   /* in which the op computed */
	int     expected;                /* of the expected values */
	int     rounded;                 /* products and sums read values that the op itself rounded to its dtype */
	int64_t depth;                   /* terms of the longest sum behind the tensor */
	double  largest;                 /* largest magnitude in the expected tensor; compare() sets it */
	int     given;                   /* rtol and atol are the user's, and replace the rule */
	double  rtol, atol;
};
/*
 * The error that is allowed for an element, if both it and `want` are correct results:
 *     2 u |want| + (16 + 4 sqrt(depth)) a largest + s
 * u: half the spacing of numbers near 1 in the coarser of the two dtypes. a: the same of the dtype of arithmetic (f32 for f16, bf16
 * and f32, f64 for f64), or u where intermediate results were rounded to the dtype. s: the smallest normal number, since smaller
 * ones may be flushed; in f16 and f64, which are not flushed, the smallest of all.
 * This is the command's only tolerance; with rtol and atol given it is rtol |want| + atol.
 */
double cg_allowance(const struct allowance *, double want);

struct comparison {
	size_t at;                       /* the element nearest to its allowance, or furthest beyond it */
	double got, want, error, allowance;
	double most;                     /* the largest error of all elements */
	double largest;                  /* the largest magnitude in the expected tensor */
	size_t wrong;                    /* elements beyond their allowance */
	size_t n;                        /* elements that were compared */
};
/* Compares n elements. NaN equals NaN, and an infinity equals itself. */
void compare(struct allowance, const void *got, const void *want, size_t n, struct comparison *);

#endif
