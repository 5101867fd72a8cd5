/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arithmetic in long double in which each value carries a bound, to first order, of the error that a correct implementation may have.  The
 * references are written in this arithmetic.  The references decide what is computed; bound.c compares an answer with a reference's result.
 *
 * The error model.  The reference of a new op must follow the eleven rules below, and a change of a rule may change any verdict.
 *
 *  1. Two precisions.  real is the dtype in memory; acc is the precision of arithmetic: f32 for f32, f16 and bf16, f64 for f64.  u,
 *     the unit of rounding of acc, is 2^-24 or 2^-53; u_real, that of real, is 2^-24, 2^-53, 2^-11 (f16) or 2^-8 (bf16).  The roundings
 *     of this file itself are added to u, so that the bounds also hold where long double is hardly better than double.
 *  2. + and - of two operands: the operands' errors plus u * |result|, not u * (|a| + |b|).  1 - o must be exact to its last bits,
 *     because the gradients of saturated gates depend on it; for that reason s * (1 - s) must not be computed as s - s * s.
 *  3. A product of n factors: each factor's error times the other factors, plus (n - 1) * u * |result|, in any order.
 *  4. A sum of three or more terms, and a matrix product over k terms: the terms' errors plus gamma_k * sum |a| |b|, where
 *     gamma_k = k * u / (1 - k * u).  The rule holds for every order, every tree and every use of fma.  k also counts bias, forget bias,
 *     peephole and the old value that accumulate adds to, since a product may start from any of them.
 *  5. sigmoid and tanh: the argument's error times the largest |derivative| within that error, plus 4 * u * |result|: two for an exp
 *     with an error of one unit in the last place, one for 1 + e, one for the reciprocal.
 *     A vendor's functions (ref_vendor_kinds) may have larger errors: sigmoid in f32, computed as 1 / (1 + 2^(-x log2 e)), an argument
 *     that is off by 2 * u * |x|, which for x < 0 comes to (4 + 2 |x|) * u of the result; tanh by an instruction, 2^-11 of the result.
 *  6. clip has derivative 1 and adds no error.  The gradient passes straight through a clip, so that an element at the edge may be
 *     clipped or not.
 *  7. Memory.  Where an implementation may store a value in real before it computes with the value, reading it back costs u_real * |value|.
 *     In an LSTM block dgates are read back before x_grad, h_prev_grad, w_grad, b_grad and the sums of the peepholes are computed from
 *     them, but not before cs_prev_grad, which the same kernel computes.  In a GRU block r and u are read back before anything is computed
 *     from them, h_prev * r before its product and before d_w_c, and d_c_bar and d_r_bar_u_bar before products and sums.  Results of matrix
 *     products (pre-activations, d_hr) stay in acc.  In f32 and f64 storing costs one u.
 *  8. Small numbers.  Where acc is f32, its subnormal numbers may be flushed when read and when written: an operation may lose 2^-126, a
 *     subnormal input may lose its whole value.  In f64 an operation loses 2^-1074, but sigmoid and tanh may lose everything below
 *     2^-1022, where 1 / (1 + exp(x)) ends.  A loss to underflow inside a product is multiplied by the later factors, at most by all
 *     factors above 1.  Storing in real loses half of the smallest subnormal number of real (in f64 all of it), or 2^-126 if it is flushed.
 *  9. Large numbers.  Where acc or real may overflow, here or in another order of evaluation, the bound is infinite: infinity and NaN
 *     are then right answers, and so is everything computed from them.
 * 10. Infinities and NaN among the inputs are exact and stay so.  A value that is not finite has bound 0, and an implementation must
 *     give the same; but the bound is infinite where a factor of an infinity may be 0 or of either sign.
 * 11. Terms of second order are left out; the factor 2 in ref_tolerance covers them.  Products include terms of second order where values
 *     are stored in real (rule f of reference_rnn.c): there a factor of a saturated gate may be nearly all error, and the first-order
 *     error of a product of two such factors is 0.
 */
#ifndef BOUND_H
#define BOUND_H

#include <math.h>

#include "verify/reference.h"

/* The constants of one dtype. */
struct kind {
	int p, emin;                    /* of real: p: significant bits; emin: exponent of the smallest normal number */
	long double u, lost, lost_fn;   /* of acc: unit of rounding, rule 1; what an operation, a function may lose, rule 8 */
	long double max;
	long double u_real, lost_real, max_real;
	long double u_argument, u_tanh; /* rule 5: extra relative error of sigmoid's argument; of tanh's result */
	int keeps;                      /* 1: sums, and values passed from step to step, are stored in real: rule f of reference_rnn.c */
};

extern const struct kind ref_kinds[];           /* by enum ref_dtype */
extern const struct kind ref_vendor_kinds[];    /* the constants for networks that cuDNN computes */

struct val {
	long double v, e;
};

/* An unfinished sum: v is the value, e the sum of the terms' errors, a the sum of the terms' magnitudes, n their count. */
struct sum {
	long double v, e, a;
	int64_t n;
};

/* An error times a factor. An error of 0 stays 0 even where the factor is infinite; an infinite error stays infinite where the
 * factor is 0. */
static inline long double part(long double e, long double d)
{
	long double r;

	if (e == 0)
		return 0;
	r = e * fabsl(d);
	return isnan(r) ? INFINITY : r;
}

/* Is it certain, in spite of a value's error, which sign the value has and whether it is 0 (rule 10)?  For a NaN: is the NaN certain? */
static inline int sure(struct val a)
{
	return a.e == 0 || a.e < fabsl(a.v);
}

static inline struct val capped(const struct kind *k, long double v, long double e)
{
	if (!isfinite(v))
		e = isfinite(e) ? 0 : INFINITY;
	else if (!(fabsl(v) + e <= k->max))
		e = INFINITY;
	return (struct val){ v, e };
}

static inline struct val get(const struct kind *k, const struct ref_in *a, int64_t n)
{
	struct val r = { 0, 0 };

	if (a->d) {
		r.v = a->d[n];
		/* A device may flush a number below `lost` to 0 as it reads it; only f32 and bf16 have such numbers. */
		if (fabsl(r.v) < k->lost)
			r.e = fabsl(r.v);
	} else if (a->v) {
		r.v = a->v[n];
		if (a->e)
			r.e = a->e[n];
	}
	return r;
}

static inline void put(const struct ref_out *a, int64_t n, struct val x)
{
	if (a->v)
		a->v[n] = x.v;
	if (a->e)
		a->e[n] = x.e;
}

static inline struct val add(const struct kind *k, struct val a, struct val b)
{
	long double v = a.v + b.v;

	return capped(k, v, a.e + b.e + (isfinite(v) ? k->u * fabsl(v) + k->lost : 0));
}

static inline struct val sub(const struct kind *k, struct val a, struct val b)
{
	b.v = -b.v;
	return add(k, a, b);
}

static inline struct val one_minus(const struct kind *k, struct val a)
{
	return sub(k, (struct val){ 1, 0 }, a);
}

static inline struct val product(const struct kind *k, int n, const struct val *a)
{
	long double v = 1, e = 0, large = 1, most = 1, others;
	int certain = 1, zero = 0;

	for (int j = 0; j < n; j++) {
		v *= a[j].v;
		large *= fmaxl(1, fabsl(a[j].v));
		most *= fabsl(a[j].v) + a[j].e;
		certain &= sure(a[j]);
		zero |= a[j].v == 0 && a[j].e == 0;
	}
	if (!isfinite(v))
		return (struct val){ v, certain ? 0 : INFINITY };
	for (int j = 0; j < n; j++) {
		others = 1;
		for (int l = 0; l < n; l++)
			others *= l == j ? 1 : a[l].v;
		e += part(a[j].e, others);
	}
	if (k->keeps && isfinite(most))
		e = fmaxl(e, most - fabsl(v));
	if (!zero)
		e += (n - 1) * (k->u * fabsl(v) + k->lost * large);
	if (!zero && large > k->max)
		e = INFINITY;
	return capped(k, v, e);
}

#define mul(k, ...) \
	product(k, sizeof((struct val[]){ __VA_ARGS__ }) / sizeof(struct val), (struct val[]){ __VA_ARGS__ })

static inline void plus(struct sum *s, struct val a)
{
	s->v += a.v;
	s->n++;
	if (isfinite(a.v)) {
		s->e += a.e;
		s->a += fabsl(a.v);
	} else if (!isfinite(a.e)) {
		s->e = INFINITY;
	}
}

/* Adds a product to a sum, without a rounding of the product. */
static inline void plus_mul(struct sum *s, struct val a, struct val b)
{
	long double v = a.v * b.v;

	s->v += v;
	s->n++;
	if (isfinite(v)) {
		s->a += fabsl(v);
		if (a.e != 0 || b.e != 0)
			s->e += part(a.e, b.v) + part(b.e, a.v);
	} else if (!sure(a) || !sure(b)) {
		s->e = INFINITY;
	}
}

/*
 * Adds n products to a sum, like n calls of plus_mul().  The factors are read from arrays a and b in steps of a_step and b_step elements.
 * The references spend most of their time here: where all numbers are exact, finite and not small, a term costs one product and two
 * additions, and the result is the same.
 */
static inline void plus_products(const struct kind *k, struct sum *s, int64_t n, const struct ref_in *a, int64_t a_at, int64_t a_step,
	const struct ref_in *b, int64_t b_at, int64_t b_step)
{
	const double lost = (double)k->lost;
	struct sum t = *s;

	for (int64_t j = 0; a->d && b->d && j < n; j++) {
		double x = a->d[a_at + j * a_step], y = b->d[b_at + j * b_step];
		long double v = (long double)x * y;

		if (fabs(x) < lost || fabs(y) < lost) {
			plus_mul(&t, get(k, a, a_at + j * a_step), get(k, b, b_at + j * b_step));
			continue;
		}
		t.v += v;
		t.a += fabsl(v);
		t.n++;
	}
	if (a->d && b->d && isfinite(t.v) && isfinite(t.e)) {
		*s = t;
		return;
	}
	for (int64_t j = 0; j < n; j++)
		plus_mul(s, get(k, a, a_at + j * a_step), get(k, b, b_at + j * b_step));
}

/* Adds n products to a sum, like plus_products(), where the first factors are computed values with errors. */
static inline void plus_val_products(const struct kind *k, struct sum *s, int64_t n, const struct val *a, int64_t a_step,
	const struct ref_in *b, int64_t b_at, int64_t b_step)
{
	const double lost = (double)k->lost;
	struct sum t = *s;

	for (int64_t j = 0; b->d && j < n; j++) {
		const struct val *x = &a[j * a_step];
		double y = b->d[b_at + j * b_step];
		long double v = x->v * y;

		if (fabs(y) < lost) {
			plus_mul(&t, *x, get(k, b, b_at + j * b_step));
			continue;
		}
		t.v += v;
		t.a += fabsl(v);
		t.e += x->e * fabsl(y);
		t.n++;
	}
	if (b->d && isfinite(t.v) && isfinite(t.e)) {
		*s = t;
		return;
	}
	for (int64_t j = 0; j < n; j++)
		plus_mul(s, a[j * a_step], get(k, b, b_at + j * b_step));
}

static inline struct val total(const struct kind *k, const struct sum *s)
{
	long double nu = s->n * k->u, e = s->e;

	if (s->a > k->max || nu >= 1)
		e = INFINITY;
	else if (s->a > 0)
		e += nu / (1 - nu) * s->a + 2 * s->n * k->lost;
	return capped(k, s->v, e);
}

static inline long double logistic(long double z)
{
	return z < 0 ? expl(z) / (1 + expl(z)) : 1 / (1 + expl(-z));
}

static inline struct val function(const struct kind *k, struct val a, long double v, long double slope)
{
	return capped(k, v, part(a.e, slope) + (isnan(v) ? 0 : 4 * k->u * fabsl(v) + k->lost_fn));
}

static inline struct val sigmoid(const struct kind *k, struct val a)
{
	long double z;

	if (isfinite(a.v))
		a.e += k->u_argument * fabsl(a.v);
	z = fmaxl(0, fabsl(a.v) - a.e);
	return function(k, a, logistic(a.v), logistic(z) * logistic(-z));
}

static inline struct val hyperbolic(const struct kind *k, struct val a)
{
	long double z = coshl(fmaxl(0, fabsl(a.v) - a.e));
	struct val r = function(k, a, tanhl(a.v), 1 / z / z);

	if (isfinite(r.v))
		r.e += k->u_tanh * fabsl(r.v);
	return r;
}

static inline struct val clip(struct val a, long double limit)
{
	if (limit > 0 && fabsl(a.v) > limit)
		a.v = copysignl(limit, a.v);
	return a;
}

/* A bound of the error of rounding v to real: u_real * |v|, by rule 7, but at least lost_real, by rule 8. */
static inline long double rounding(const struct kind *k, long double v)
{
	return fmaxl(k->u_real * fabsl(v), k->lost_real);
}

static inline struct val read_back(const struct kind *k, struct val a)
{
	if (a.v == 0 && a.e == 0)
		return a;
	if (isfinite(a.v))
		a.e += rounding(k, a.v);
	if (isfinite(a.v) && !(fabsl(a.v) + a.e <= k->max_real))
		a.e = INFINITY;
	return a;
}

/* Adds to a value the error of storing it in real, if the kind stores values between steps in real: rule f of reference_rnn.c. */
static inline struct val handed(const struct kind *k, struct val a)
{
	return k->keeps ? read_back(k, a) : a;
}

#endif
