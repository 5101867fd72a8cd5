/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the mathematics of f32 on an eighth of the floats of both signs from 2^-30 to 2^7, where results can differ, and on one float in
 * 509 elsewhere. CELLGRAD_TEST_SEED chooses the eighth; with CELLGRAD_TEST_FLOATS=all every float of that range is tried. Without
 * the processor's instruction a fused multiply-add is computed in double, and is rounded twice where a double does not hold the exact sum;
 * nevertheless the text without fused instructions (plain) and with them (fused), each with and without a flush of subnormals, must give
 * the same bits, and errors must stay within their bounds. The text is what `cellgen math f32` prints (math_text.c).
 */
#include <float.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#if defined __SSE2__
#include <xmmintrin.h>
#endif

#include <cmocka.h>

#include "tests/gen/every.h"
#include "tests/gen/math_text.h"

/* LOWEST, HIGHEST: biased exponents. */
enum { N = 512, SHARE = 8, ELSEWHERE = 509, THREADS = 64, LOWEST = 127 - 30, HIGHEST = 127 + 7 };

extern const struct math_text math_f32_plain, math_f32_fused;

/* The functions, and the bounds of their errors in units in the last place. */
enum { RECIP, EXP, TANH, SIGMOID, LOG, LOG1P, EXPM1, SQRT, ERF, SOFTPLUS, FUNCTIONS };
static const struct { const char *name; size_t at; double most; } functions[FUNCTIONS] = {
	[RECIP]   = { "recip",   offsetof(struct math_text, recip),   0.75 },
	[EXP]     = { "exp",     offsetof(struct math_text, exp),     1.25 },
	[TANH]    = { "tanh",    offsetof(struct math_text, tanh),    2 },
	[SIGMOID] = { "sigmoid", offsetof(struct math_text, sigmoid), 2 },
	[LOG]     = { "log",     offsetof(struct math_text, log),     2 },
	[LOG1P]   = { "log1p",   offsetof(struct math_text, log1p),   2 },
	[EXPM1]   = { "expm1",   offsetof(struct math_text, expm1),   2 },
	[SQRT]    = { "sqrt",    offsetof(struct math_text, sqrt),    0.75 },
	[ERF]     = { "erf",     offsetof(struct math_text, erf),     2 },
	[SOFTPLUS] = { "softplus", offsetof(struct math_text, softplus), 2 },
};

/* The right results for x, which is not below 0, and for -x; those of exp, tanh and sigmoid from one exponential and one hyperbolic
   tangent. */
static void compute_right(double x, double of_x[FUNCTIONS], double of_minus_x[FUNCTIONS])
{
	double e = exp(-x), sum = 1 + e;

	of_x[RECIP] = 1 / x;
	of_x[EXP] = 1 / e;
	of_x[TANH] = tanh(x);
	of_x[SIGMOID] = 1 / sum;
	of_x[LOG] = log(x);
	of_x[LOG1P] = log1p(x);
	of_x[EXPM1] = expm1(x);
	of_x[SQRT] = sqrt(x);
	of_x[ERF] = erf(x);
	of_x[SOFTPLUS] = x + log1p(e);
	of_minus_x[RECIP] = -of_x[RECIP];
	of_minus_x[EXP] = e;
	of_minus_x[TANH] = -of_x[TANH];
	of_minus_x[SIGMOID] = e / sum;
	of_minus_x[LOG] = NAN;
	of_minus_x[LOG1P] = log1p(-x);
	of_minus_x[EXPM1] = expm1(-x);
	of_minus_x[SQRT] = NAN;
	of_minus_x[ERF] = -of_x[ERF];
	of_minus_x[SOFTPLUS] = log1p(e);
}

static const struct build { const char *name; const struct math_text *text; int flush; } builds[] = {
	{ "plain",                        &math_f32_plain, 0 },
	{ "plain, subnormals flushed",    &math_f32_plain, 1 },
	{ "fused",                        &math_f32_fused, 0 },
	{ "fused, subnormals flushed",    &math_f32_fused, 1 },
};

/* A thread's part of the floats, and its results for each function. From LOWEST to HIGHEST every `share`-th block of N floats is tried,
   beginning with block `eighth`; the threads take these blocks in turn. */
struct part {
	uint32_t thread, threads, share, eighth;
	int builds;
	double worst[FUNCTIONS];
	float at[FUNCTIONS];
	const char *differs[FUNCTIONS];
};

/* Can this processor run the fused text? Where CG_ISA_AVX2 is defined, the text is compiled for AVX2 with fused multiply-adds. */
static int can_fuse(void)
{
#ifdef CG_ISA_AVX2
	return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
	return 1;
#endif
}

static void flush(int on)
{
#if defined __SSE2__
	_mm_setcsr(on ? _mm_getcsr() | 0x8040 : _mm_getcsr() & ~0x8040u);
#else
	(void)on;
#endif
}

/* The error in units in the last place of the right result, where that and the argument are normal numbers; elsewhere 0, since math_test
   covers other numbers. */
static double error(double x, double want, float got)
{
	uint64_t bits;
	double lowest;                   /* the power of two at or below the right result, from its bits: frexp takes longer */

	if (!(fabs(x) >= FLT_MIN && fabs(want) > FLT_MIN && fabs(want) < FLT_MAX * (1 - FLT_EPSILON)))
		return 0;
	memcpy(&bits, &want, sizeof bits);
	bits &= (uint64_t)0x7ff << 52;
	memcpy(&lowest, &bits, sizeof lowest);
	return fabs(got - want) / lowest * (1 << (FLT_MANT_DIG - 1));
}

/* The index of the first of n results that differ in their bits, where NaNs count as equal; n: none differs. */
static int first_difference(const float *a, const float *b, int n)
{
	int k = 0;

	if (!memcmp(a, b, (size_t)n * sizeof *a))
		return n;
	while (k < n && (!memcmp(&a[k], &b[k], sizeof *a) || (isnan(a[k]) && isnan(b[k]))))
		k++;
	return k;
}

/* Computes a function for n arguments by the builds that this processor runs, compares the bits, and measures the first build's errors. */
static void compare(struct part *p, int function, const float *x, const double right[][FUNCTIONS], int n)
{
	float y[sizeof builds / sizeof *builds][N];
	int at;

	for (int w = 0; w < p->builds; w++) {
		flush(builds[w].flush);
		(*(math_over *const *)((const char *)builds[w].text + functions[function].at))(x, y[w], n);
		flush(0);
		at = first_difference(y[w], y[0], n);
		if (at < n) {
			p->differs[function] = builds[w].name;
			p->at[function] = x[at];
		}
	}
	for (int k = 0; k < n; k++) {
		double e = error(x[k], right[k][function], y[0][k]);

		if (e > p->worst[function]) {
			p->worst[function] = e;
			if (!p->differs[function])
				p->at[function] = x[k];
		}
	}
}

/* Compares the thread's blocks of the floats of one exponent, of both signs. */
static void compare_exponent(struct part *p, uint32_t exponent)
{
	int in_range = exponent >= LOWEST && exponent < HIGHEST;
	uint32_t step = in_range ? 1 : ELSEWHERE, share = in_range ? p->share : 1, first = in_range ? p->eighth : 0;
	float x[2][N];                           /* arguments of the tested functions: x[0]: positive floats; x[1]: the same floats, negated */
	double right[2][N][FUNCTIONS];

	for (uint32_t low = (first + p->thread * share) * N * step; low < 0x800000; low += p->threads * share * N * step) {
		int n = 0;

		for (; n < N && low + (uint32_t)n * step < 0x800000; n++) {
			uint32_t bits = exponent << 23 | (low + (uint32_t)n * step);

			memcpy(&x[0][n], &bits, sizeof bits);
			x[1][n] = -x[0][n];
			compute_right(x[0][n], right[0][n], right[1][n]);
		}
		for (int f = 0; f < FUNCTIONS; f++)
			for (int sign = 0; sign < 2; sign++)
				compare(p, f, x[sign], (const double (*)[FUNCTIONS])right[sign], n);
	}
}

static void *run(void *part)
{
	for (uint32_t exponent = 0; exponent < 0x100; exponent++)
		compare_exponent(part, exponent);
	return NULL;
}

static void test_floats(void **state)
{
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	int threads = processors < 1 ? 1 : processors > THREADS ? THREADS : (int)processors;
	const char *asked = getenv("CELLGRAD_TEST_FLOATS");
	uint32_t share = asked && !strcmp(asked, "all") ? 1 : SHARE;
	struct part part[THREADS];
	pthread_t thread[THREADS];

	(void)state;
	random_start();
	if (!can_fuse())
		printf("# without fused steps: this processor has none\n");
	for (int k = 0; k < threads; k++) {
		part[k] = (struct part){ (uint32_t)k, (uint32_t)threads, share, (uint32_t)(random_state % share), .builds = can_fuse() ? 4 : 2 };
		assert_int_equal(pthread_create(&thread[k], NULL, run, &part[k]), 0);
	}
	for (int k = 0; k < threads; k++)
		assert_int_equal(pthread_join(thread[k], NULL), 0);
	for (int f = 0; f < FUNCTIONS; f++) {
		double worst = 0;

		for (int k = 0; k < threads; k++) {
			if (part[k].differs[f])
				fail_msg("%s(%a): %s has other bits than plain", functions[f].name, (double)part[k].at[f], part[k].differs[f]);
			if (part[k].worst[f] > functions[f].most)
				fail_msg("%s(%a): off by %g ulp", functions[f].name, (double)part[k].at[f], part[k].worst[f]);
			worst = fmax(worst, part[k].worst[f]);
		}
		printf("# f32 %-8s %.3f ulp\n", functions[f].name, worst);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_floats),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
