/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Naive arithmetic in a dtype's precision, independent of the references whose bounds it tests: sums in several orders, optional
 * roundings.
 */
#ifndef NAIVE_H
#define NAIVE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <float.h>
#include <math.h>
#include <cmocka.h>

/* How the naive code computes. single: results are rounded to float; order: the order of sums; flush: subnormal floats become 0;
   stores: intermediate results are rounded to the dtype. */
static struct { int dtype, single, order, flush, stores; } how;

/* The result of one operation, rounded to float if how.single is set; with how.flush a subnormal float becomes 0. For +, -, * and / of two
   floats the rounded double result is that of float arithmetic. */
static inline double A(double x)
{
	if (how.single)
		x = (float)x;
	return how.flush && fabs(x) < FLT_MIN ? 0 * x : x;
}

static double left[512], right[512];
static int terms;

static inline void term(double a, double b)
{
	assert_true(terms < 512);
	left[terms] = a;
	right[terms++] = b;
}

static inline double halves(int from, int n)
{
	if (n == 1)
		return A(left[from] * right[from]);
	return A(halves(from, n / 2) + halves(from + n / 2, n - n / 2));
}

/* Removes the terms left[j] * right[j] from j = `from` on, and returns the sum of the removed terms. */
static inline double sum_from(int from)
{
	double s = 0;
	int n = terms - from, j;

	terms = from;
	if (how.order == 2 && n)
		return halves(from, n);
	for (int l = 0; l < n; l++) {
		j = from + (how.order == 1 ? n - 1 - l : l);
		s = how.order == 3 ? A(fma(left[j], right[j], s)) : A(s + A(left[j] * right[j]));
	}
	return s;
}

static inline double sum(void)
{
	return sum_from(0);
}

static inline double sigmoid(double x)
{
	return A(1 / A(1 + A(exp(-x))));
}

/* through_s is a (1 - a) b c, through_t is (1 - a a) b c: the upstream gradient b c, passed through a sigmoid or a tanh whose result is
 * a. */
static inline double through_s(double a, double b, double c)
{
	return A(A(A(a * A(1 - a)) * b) * c);
}

static inline double through_t(double a, double b, double c)
{
	return A(A(A(1 - A(a * a)) * b) * c);
}

#endif
