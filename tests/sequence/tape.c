/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers on a tape, with error bounds. Rules: a rounding has an error of at most `unit` times the result, and `lost` where the result
 * underflows; +, - and * are rounded once; a reciprocal or a function has the error of 4 roundings, silu, softsign and gelu of 6,
 * softplus of 10; negation, relu, clip, max, min and abs have none; a sum of n products has the error of n + 2 roundings of the sum of
 * the magnitudes.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "runtime/cellgrad.h"
#include "tests/sequence/tape.h"

struct number {
	int op, a, b;
	int first, n;                            /* first, n: the index in `pairs` and the number of a TAPE_DOT's pairs */
	int forward, adjoint;                    /* of a TAPE_STORE: roundings of the value, and of the derivative */
	long double value, bound;
	/* The derivative is a sum of terms. sum: its value; size: the sum of the terms' magnitudes; error: the sum of the terms' errors;
	 * terms: the number of terms. */
	long double sum, size, error;
	long terms;
};

struct tape {
	long double unit, lost;                  /* of arithmetic: unit: half the spacing of numbers from 1 to 2; lost: the largest underflow */
	long double real_unit, real_lost;        /* unit and lost of memory; real_unit 0: memory stores results of arithmetic unchanged */
	struct number *numbers;
	int n, capacity;
	int *pairs;                              /* a[0] b[0] a[1] b[1] ... of every TAPE_DOT */
	int n_pairs, pair_capacity;
};

struct tape *tape_open(int dtype)
{
	struct tape *t = calloc(1, sizeof *t);

	assert_non_null(t);
	t->unit = dtype == CG_F64 ? 0x1p-53L : 0x1p-24L;
	t->lost = dtype == CG_F64 ? 0x1p-1022L : 0x1p-126L;
	t->real_unit = dtype == CG_F16 ? 0x1p-11L : dtype == CG_BF16 ? 0x1p-8L : 0;
	t->real_lost = dtype == CG_F16 ? 0x1p-24L : t->lost;
	return t;
}

void tape_close(struct tape *t)
{
	free(t->numbers);
	free(t->pairs);
	free(t);
}

static void *grow(void *p, int n, int *capacity, size_t each)
{
	if (n < *capacity)
		return p;
	*capacity = 2 * *capacity + 1024;
	p = realloc(p, (size_t)*capacity * each);
	assert_non_null(p);
	return p;
}

static int add(struct tape *t, struct number x)
{
	t->numbers = grow(t->numbers, t->n, &t->capacity, sizeof *t->numbers);
	t->numbers[t->n] = x;
	return t->n++;
}

int tape_leaf(struct tape *t, long double value)
{
	return add(t, (struct number){ .op = TAPE_LEAF, .value = value });
}

/* The largest error of a sum by n roundings, divided by the sum of the terms' magnitudes. */
static long double roundings(const struct tape *t, long n)
{
	return (long double)n * t->unit / (1 - (long double)n * t->unit);
}

/* The error bound of 1 / b, where b has an error e. */
static long double reciprocal_bound(const struct tape *t, long double b, long double e)
{
	return fabsl(b) > e ? e / (fabsl(b) * (fabsl(b) - e)) + 4 * t->unit / fabsl(b) : INFINITY;
}

static long double sigmoid(long double x)
{
	return 1 / (1 + expl(-x));
}

/* The probability that a normal deviate is less than x. */
static long double normal(long double x)
{
	return erfcl(-x / sqrtl(2)) / 2;
}

/* The error bound of log x, where x has an error e. */
static long double logarithm_bound(long double x, long double e)
{
	return x > e ? -log1pl(-e / x) : INFINITY;
}

int tape_is_binary(int op)
{
	return (op > TAPE_LEAF && op <= TAPE_DIV) || op == TAPE_CLIP || op == TAPE_MAX || op == TAPE_MIN;
}

int tape_apply(struct tape *t, int op, int a, int b)
{
	const struct number *x = &t->numbers[a], *y = &t->numbers[b];
	long double p = x->value, q = y->value, e = x->bound, f = y->bound, v = 0, bound = 0, own = 1;

	switch (op) {
	case TAPE_ADD: v = p + q; bound = e + f; break;
	case TAPE_SUB: v = p - q; bound = e + f; break;
	case TAPE_MUL: v = p * q; bound = fabsl(p) * f + fabsl(q) * e + e * f; break;
	case TAPE_DIV:
		v = p / q;
		f = reciprocal_bound(t, q, f);
		bound = fabsl(p) * f + e / fabsl(q) + e * f;
		break;
	case TAPE_NEG: v = -p; bound = e; own = 0; break;
	case TAPE_EXP: v = expl(p); bound = v * expm1l(e); own = 4; break;
	/* The slope of tanh is at most 1, that of sigmoid at most 1/4. */
	case TAPE_TANH: v = tanhl(p); bound = fminl(e, 2); own = 4; break;
	case TAPE_SIGMOID: v = sigmoid(p); bound = fminl(e / 4, 1); own = 4; break;
	case TAPE_RELU: v = p > 0 ? p : 0; bound = e; own = 0; break;
	case TAPE_CLIP: v = q > 0 ? fmaxl(-q, fminl(p, q)) : p; bound = e + f; own = 0; break;
	case TAPE_MAX: v = fmaxl(p, q); bound = fmaxl(e, f); own = 0; break;
	case TAPE_MIN: v = fminl(p, q); bound = fmaxl(e, f); own = 0; break;
	case TAPE_ABS: v = fabsl(p); bound = e; own = 0; break;
	/* The slope of silu is at most 1.1. */
	case TAPE_SILU: v = p * sigmoid(p); bound = 1.1L * e; own = 6; break;
	case TAPE_SOFTSIGN: v = p / (1 + fabsl(p)); bound = fminl(e, 2); own = 6; break;
	/* hard_sigmoid(x) rounds x + 3, a number of up to 6, and 1/6, so that its error is not relative to its result. */
	case TAPE_HARD_SIGMOID: v = fminl(fmaxl(p / 6 + 0.5L, 0), 1); bound = fminl(e / 6, 1) + t->unit; own = 4; break;
	case TAPE_LOG: v = logl(p); bound = logarithm_bound(p, e); own = 4; break;
	case TAPE_LOG1P: v = log1pl(p); bound = logarithm_bound(1 + p, e); own = 4; break;
	case TAPE_EXPM1: v = expm1l(p); bound = expl(p) * expm1l(e); own = 4; break;
	case TAPE_SQRT: v = sqrtl(p); bound = p > e ? v - sqrtl(p - e) : INFINITY; own = 4; break;
	/* The slope of erf is at most 1.13, that of softplus at most 1, and that of gelu at most 1.13. */
	case TAPE_ERF: v = erfl(p); bound = fminl(1.13L * e, 2); own = 4; break;
	case TAPE_SOFTPLUS: v = fmaxl(p, 0) + log1pl(expl(-fabsl(p))); bound = e; own = 10; break;
	/* gelu(x) rounds 1 + erf(x / sqrt(2)), so that its error has a rounding of a number near 1. */
	case TAPE_GELU: v = p * normal(p); bound = 1.13L * e + 4 * t->unit * fabsl(p); own = 6; break;
	}
	bound += own * t->unit * fabsl(v) + (own > 0 ? t->lost : 0);
	return add(t, (struct number){ .op = op, .a = a, .b = b, .value = v, .bound = bound });
}

int tape_dot(struct tape *t, int start, int n, const int *a, const int *b)
{
	struct number x = { .op = TAPE_DOT, .a = start, .first = t->n_pairs, .n = n };
	long double size = 0;

	if (start >= 0) {
		x.value = t->numbers[start].value;
		x.bound = t->numbers[start].bound;
		size = fabsl(x.value);
	}
	for (int k = 0; k < n; k++) {
		const struct number *p = &t->numbers[a[k]], *q = &t->numbers[b[k]];

		x.value += p->value * q->value;
		x.bound += fabsl(p->value) * q->bound + fabsl(q->value) * p->bound + p->bound * q->bound;
		size += fabsl(p->value * q->value);
		t->pairs = grow(t->pairs, t->n_pairs + 1, &t->pair_capacity, sizeof *t->pairs);
		t->pairs[t->n_pairs++] = a[k];
		t->pairs[t->n_pairs++] = b[k];
	}
	x.bound += roundings(t, n + 2) * size + (n + 2) * t->lost;
	return add(t, x);
}

int tape_store(struct tape *t, int a, int forward, int adjoint)
{
	const struct number *x = &t->numbers[a];
	long double bound = x->bound + forward * (t->real_unit * (fabsl(x->value) + x->bound) + t->real_lost);

	return add(t, (struct number){ .op = TAPE_STORE, .a = a, .b = a, .forward = forward, .adjoint = adjoint, .value = x->value,
	                               .bound = bound });
}

long double tape_value(const struct tape *t, int k)
{
	return t->numbers[k].value;
}

long double tape_bound(const struct tape *t, int k)
{
	return t->numbers[k].bound;
}

/* ---- backwards ---- */

static void hand(struct tape *t, int to, long double term, long double error)
{
	struct number *x = &t->numbers[to];

	x->sum += term;
	x->size += fabsl(term);
	x->error += error;
	x->terms++;
}

void tape_seed(struct tape *t, int k, long double seed)
{
	hand(t, k, seed, 0);
}

long double tape_slope(const struct tape *t, int k)
{
	return t->numbers[k].sum;
}

long double tape_slope_bound(const struct tape *t, int k)
{
	const struct number *x = &t->numbers[k];
	long double bound = x->error + roundings(t, x->terms + 2) * x->size;

	return bound + x->adjoint * (t->real_unit * (fabsl(x->sum) + bound) + t->real_lost);
}

/* Adds to the derivative of `to`, an operand of number `from`, the derivative of `from` times its slope by the operand; off: the slope's
 * error. */
static void pass(struct tape *t, int from, int to, long double slope, long double off)
{
	long double d = tape_slope(t, from), e = tape_slope_bound(t, from), term = d * slope;

	if (slope != 0 || off > 0)
		hand(t, to, term, fabsl(d) * off + (fabsl(slope) + off) * e + 3 * t->unit * fabsl(term) + t->lost);
}

static void pass_dot(struct tape *t, int k)
{
	const struct number x = t->numbers[k];

	if (x.a >= 0)
		pass(t, k, x.a, 1, 0);
	for (int j = 0; j < x.n; j++) {
		int a = t->pairs[x.first + 2 * j], b = t->pairs[x.first + 2 * j + 1];

		pass(t, k, a, t->numbers[b].value, t->numbers[b].bound);
		pass(t, k, b, t->numbers[a].value, t->numbers[a].bound);
	}
}

static void pass_quotient(struct tape *t, int k)
{
	const struct number x = t->numbers[k];
	long double p = t->numbers[x.a].value, q = t->numbers[x.b].value, e = t->numbers[x.a].bound;
	long double r = 1 / q, f = reciprocal_bound(t, q, t->numbers[x.b].bound);

	f += t->real_unit * (fabsl(r) + f);
	pass(t, k, x.a, r, f);
	pass(t, k, x.b, -p * r * r, fabsl(p) * (2 * fabsl(r) * f + f * f) + e * (fabsl(r) + f) * (fabsl(r) + f) + 4 * t->unit * fabsl(p * r * r));
}

/* Passes the derivative of number k, a max or with sign -1 a min, to operand a: the slope is 1/2 if both operands are equal. Where the
   errors leave open which operand is greater, any slope from 0 to 1 is right. */
static void pass_greater(struct tape *t, int k, int a, int b, int sign)
{
	const struct number *x = &t->numbers[a], *y = &t->numbers[b];
	long double above = sign * (x->value - y->value), bound = x->bound + y->bound;

	pass(t, k, a, above > 0 ? 1 : above < 0 ? 0 : 0.5L, fabsl(above) <= bound && bound > 0);
}

/* The slope of erf at x / sqrt(2). */
static long double bell(long double x)
{
	return 2 / sqrtl(acosl(-1)) * expl(-x * x / 2);
}

/* Passes a derivative through erf, at an operand p with an error of e. */
static void pass_erf(struct tape *t, int k, int to, long double p, long double e)
{
	long double slope = bell(sqrtl(2) * p), power = (2 * fabsl(p) + e) * e + 2 * t->unit * p * p;

	pass(t, k, to, slope, slope * expm1l(power) + (8 * t->unit + t->real_unit) * slope + 2 * t->lost);
}

/* Passes the derivative of number k to its operand `to` by the slope `times` / q, where q has an error of e. */
static void pass_reciprocal(struct tape *t, int k, int to, long double times, long double q, long double e)
{
	long double r = 1 / q, f = reciprocal_bound(t, q, e);

	pass(t, k, to, times * r, times * (f + t->real_unit * (fabsl(r) + f)));
}

/* Passes a derivative through a named form such as silu, at an operand p with an error of e. The error of the slope, except that of
   hard_sigmoid, allows that memory has rounded a function inside the form, such as the sigmoid inside silu. */
static void pass_form(struct tape *t, int k, int op, int to, long double p, long double e)
{
	long double s = sigmoid(p), r = 1 / (1 + fabsl(p)), rounded = (8 * t->unit + t->real_unit) * (1 + fabsl(p));

	if (op == TAPE_SILU)
		pass(t, k, to, s * (1 + p * (1 - s)), e / 2 + rounded);
	else if (op == TAPE_SOFTSIGN)
		pass(t, k, to, r * r, 2 * e + rounded);
	else if (op == TAPE_SOFTPLUS)
		pass(t, k, to, s, e / 4 + 2 * rounded);
	else if (op == TAPE_GELU)
		pass(t, k, to, normal(p) + p * bell(p) / sqrtl(8), e + rounded);
	else
		pass(t, k, to, fabsl(p) < 3 ? 1 / 6.0L : 0, e > 0 && fabsl(fabsl(p) - 3) <= e ? 1 / 6.0L : fabsl(p) < 3 ? t->unit : 0);
}

/* The slopes of exp, tanh, sigmoid, sqrt and expm1 are computed from the results, which memory may have rounded. */
static void back(struct tape *t, int k)
{
	const struct number x = t->numbers[k];
	const struct number *a = &t->numbers[x.a > 0 ? x.a : 0], *b = &t->numbers[x.b];
	long double y = x.value, e = x.bound + t->real_unit * (fabsl(y) + x.bound) + t->real_lost, u = t->unit;

	switch (x.op) {
	case TAPE_ADD: pass(t, k, x.a, 1, 0); pass(t, k, x.b, 1, 0); break;
	case TAPE_SUB: pass(t, k, x.a, 1, 0); pass(t, k, x.b, -1, 0); break;
	case TAPE_MUL: pass(t, k, x.a, b->value, b->bound); pass(t, k, x.b, a->value, a->bound); break;
	case TAPE_DIV: pass_quotient(t, k); break;
	case TAPE_NEG: pass(t, k, x.a, -1, 0); break;
	case TAPE_EXP: pass(t, k, x.a, y, e); break;
	case TAPE_TANH: pass(t, k, x.a, 1 - y * y, 2 * fabsl(y) * e + e * e + 4 * u); break;
	case TAPE_SIGMOID: pass(t, k, x.a, y * (1 - y), fabsl(1 - 2 * y) * e + e * e + 4 * u); break;
	/* Near the kink of relu the slopes 0 and 1 are both right. */
	case TAPE_RELU: pass(t, k, x.a, a->value > 0, fabsl(a->value) <= a->bound && a->bound > 0); break;
	case TAPE_CLIP: pass(t, k, x.a, 1, 0); break;
	case TAPE_MAX: pass_greater(t, k, x.a, x.b, 1); pass_greater(t, k, x.b, x.a, 1); break;
	case TAPE_MIN: pass_greater(t, k, x.a, x.b, -1); pass_greater(t, k, x.b, x.a, -1); break;
	case TAPE_ABS: pass(t, k, x.a, (a->value > 0) - (a->value < 0), fabsl(a->value) <= a->bound && a->bound > 0 ? 2 : 0); break;
	case TAPE_LOG: pass_reciprocal(t, k, x.a, 1, a->value, a->bound); break;
	case TAPE_LOG1P: pass_reciprocal(t, k, x.a, 1, 1 + a->value, a->bound + 2 * u * fabsl(1 + a->value)); break;
	case TAPE_SQRT: pass_reciprocal(t, k, x.a, 0.5L, y, e); break;
	case TAPE_EXPM1: pass(t, k, x.a, y + 1, e + 2 * u * (y + 1)); break;
	case TAPE_ERF: pass_erf(t, k, x.a, a->value, a->bound); break;
	case TAPE_SOFTPLUS: case TAPE_GELU:
	case TAPE_SILU: case TAPE_SOFTSIGN: case TAPE_HARD_SIGMOID: pass_form(t, k, x.op, x.a, a->value, a->bound); break;
	case TAPE_DOT: pass_dot(t, k); break;
	case TAPE_STORE: pass(t, k, x.a, 1, 0); break;
	}
}

void tape_back(struct tape *t)
{
	for (int k = t->n - 1; k >= 0; k--)
		if (t->numbers[k].terms)
			back(t, k);
}
