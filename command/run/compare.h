/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares answers with expected ones: the error of each element, and the error that is allowed for it.
 */
#ifndef COMPARE_H
#define COMPARE_H

#include <stddef.h>
#include <stdint.h>

/* The value of element k of a tensor of the dtype; the tensor's data may have any alignment. */
double compare_element(int dtype, const void *data, size_t k);

/* What the allowed error depends on. */
struct allowance {
	int     dtype;                   /* the dtype in which the op computed */
	int     expected;                /* the dtype of the expected values */
	int     rounded;                 /* 1: products and sums of the op read values that the op rounded to its dtype */
	int64_t depth;                   /* the most terms that a sum of the op may have */
	double  largest;                 /* largest magnitude in the expected tensor; compare() sets it */
	int     given;                   /* 1: rtol and atol are the user's, and replace the rule below */
	double  rtol, atol;
};
/*
 * The error that is allowed for an element, if both it and `want` are correct results:
 *     2 u |want| + (16 + 4 sqrt(depth)) a largest + s
 * u: half the spacing of numbers near 1 in the coarser of the two dtypes. a: the same in the dtype of arithmetic (f32 for f16, bf16 and
 * f32, f64 for f64), or in the op's dtype where intermediate results were rounded to that. largest: the largest magnitude in the expected
 * tensor. s: the smallest normal number, since smaller ones may be flushed; in f16 and f64, whose subnormal numbers are not flushed, the
 * smallest positive number. `run --expect` and `demo` have this tolerance; where the user gives rtol or atol, it is rtol |want| + atol.
 */
double cg_allowance(const struct allowance *, double want);

struct comparison {
	size_t at;                       /* index of the element whose error is the largest part of its allowance */
	double got, want, error, allowance;
	double most;                     /* the largest error of all elements */
	double largest;                  /* the largest magnitude in the expected tensor */
	size_t wrong;                    /* elements beyond their allowance */
	size_t n;                        /* elements that were compared */
};
/* Compares n elements of two tensors. A NaN equals a NaN, and an infinity equals itself. */
void compare(struct allowance, const void *got, const void *want, size_t n, struct comparison *);

#endif
