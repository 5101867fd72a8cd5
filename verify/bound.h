/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arithmetic in long double that carries, beside each value, a running first-order bound of what a correct
 * implementation may be off by.
 * The references are written in it; what they compute is theirs, and the verdict on an answer is in bound.c.
 *
 * The error model. Whoever adds an op keeps these rules, and a rule changed here changes every verdict.
 *
 *  1. Two precisions. real is the dtype in memory, acc is arithmetic: f32 for f32, f16 and bf16, f64 for f64.
 *     u is 2^-24 or 2^-53, u_real 2^-24, 2^-53, 2^-11 (f16) or 2^-8 (bf16). The roundings of this file are
 *     added to u, so that the verdict holds also where long double is little better than double.
 *  2. + and - of two operands: their errors, plus u * |result|. Not u * (|a| + |b|): 1 - o must stay exact to
 *     its last bits, gradients of saturated gates hang on it. So s * (1 - s) written as s - s * s is wrong.
 *  3. A product of n factors: each error times the other factors, plus (n - 1) * u * |result|, in any order.
 *  4. A sum of three terms or more, a matrix product of k terms: the terms' errors plus gamma_k * sum |a| |b|,
 *     gamma_k = k * u / (1 - k * u), for every order, tree and use of fma. k counts bias, forget bias,
 *     peephole and what accumulate adds to as well: a product may start from any of them.
 *  5. sigmoid, tanh: the argument's error times |derivative|, the largest within that error, plus 4 * u *
 *     |result|: two for an exp good to one unit in the last place, one for 1 + e, one for the reciprocal.
 *     A kind of the vendor's (ref_vendor_kinds) may pay more: sigmoid in f32 as 1 / (1 + 2^(-x log2 e)) an argument
 *     that is off by 2 * u * |x| (below 0 that comes to (4 + 2 |x|) * u of the result), tanh by an instruction 2^-11
 *     of the result.
 *  6. clip has derivative 1 and adds nothing (straight-through; an element at the edge may go either
 *     way).
 *  7. Memory. Where an implementation may have stored a value in real before it computes on, reading it back
 *     costs u_real * |value|: dgates before x_grad, h_prev_grad, w_grad, b_grad and the peephole sums (not
 *     before cs_prev_grad, which is made beside them); of the GRU, r and u before anything is made of them,
 *     h_prev * r before its product and before d_w_c, d_c_bar and d_r_bar_u_bar before products and sums. What
 *     comes out of a product (pre-activations, d_hr) stays in acc. f32 and f64 pay one u for the same.
 *  8. Small numbers. With acc = f32 subnormals are flushed, on reading and on writing: an operation may lose
 *     2^-126, a subnormal input itself. In f64 an operation loses 2^-1074; but sigmoid and tanh may lose what
 *     is below 2^-1022, for 1 / (1 + exp(x)) ends there. What is lost inside a product is multiplied by the
 *     factors still to come: by all those above 1 at most. Reading back loses half of real's smallest
 *     subnormal, 2^-126 where flushed.
 *  9. Large numbers. Where acc or real may overflow, here or in another order of evaluation, the bound is
 *     infinite: infinity and NaN are right answers then, and so is anything made of them.
 * 10. Infinities and NaN that come in are exact and stay so: the bound of a value that is not finite is 0, and
 *     an implementation must answer the same; it is infinite where a factor of an infinity might be 0 or of
 *     either sign.
 * 11. Terms of second order are left out. The factor 2 in ref_tolerance is for them. But a product has them where
 *     values are kept in real (rule f of reference_rnn.c): of a saturated gate there is then little but error, and of
 *     two such factors nothing of first order.
 */
#ifndef BOUND_H
#define BOUND_H

#include <math.h>

#include "verify/reference.h"

/* A dtype. */
struct kind {
	int p, emin;                    /* of real: bits, exponent of the smallest normal */
	long double u, lost, lost_fn;   /* of acc: rule 1, rule 8 */
	long double max;
	long double u_real, lost_real, max_real;
	long double u_argument, u_tanh; /* rule 5: of sigmoid's argument and of tanh, what they are off by beside the rest */
	int keeps;                      /* sums and carried values go through memory, in real: rule f of reference_rnn.c */
};

extern const struct kind ref_kinds[];           /* by enum ref_dtype */
extern const struct kind ref_vendor_kinds[];    /* the same of networks by cuDNN */

struct val {
	long double v, e;
};

/* A sum under way: v, e of the terms, a = sum of their magnitudes, n of them. */
struct sum {
	long double v, e, a;
	int64_t n;
};

/* An error times what multiplies it: exact stays exact beside infinity, unbounded unbounded beside zero. */
static inline long double part(long double e, long double d)
{
	long double r;

	if (e == 0)
		return 0;
	r = e * fabsl(d);
	return isnan(r) ? INFINITY : r;
}

/* Whether zero and sign are beyond doubt (rule 10); of NaN, whether it is one. */
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
		if (fabsl(r.v) < k->lost)       /* f32 only; no double is below f64's */
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

/* As plus() of the product, which has no rounding of its own. */
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
 * n times plus_mul(), of a and b in steps.  The references spend most of their time in such sums.  Where all numbers are exact, finite
 * and not small, which most are, a term is a product and two additions, with the same result.
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

/* The same of values under way. */
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

/* Half a unit of real at v, rule 7. */
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

/* Where values go through memory they are read back, rule f of reference_rnn.c. */
static inline struct val handed(const struct kind *k, struct val a)
{
	return k->keeps ? read_back(k, a) : a;
}

#endif
