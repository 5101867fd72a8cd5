/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plain arithmetic of a dtype's precision, written once more and naively, for the tests of the references' bounds: sums in
 * several orders, roundings to taste.
 */
#ifndef NAIVE_H
#define NAIVE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <float.h>
#include <math.h>
#include <cmocka.h>

/* How the naive writing computes: acc, the order of its sums, whether it flushes, whether it stores what it may. */
static struct { int dtype, single, order, flush, stores; } how;

/* One operation's result. Rounding the double result of two floats to float is what float arithmetic does. */
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

/* Of the terms from one on, which are terms no longer. */
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

/* a (1 - a) b c, and (1 - a a) b c */
static inline double through_s(double a, double b, double c)
{
	return A(A(A(a * A(1 - a)) * b) * c);
}

static inline double through_t(double a, double b, double c)
{
	return A(A(A(1 - A(a * a)) * b) * c);
}

#endif
