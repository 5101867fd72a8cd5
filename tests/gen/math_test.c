/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mathematics that all kernels share, compiled by the host's compiler: errors over sweeps of all magnitudes, compared with the C
 * library in long double; some exact values; in f32 the same bits with and without a flush of subnormals; fused multiply-adds; and every
 * value of f16 and bf16 converted both ways. The text is what `cellgen math` prints (math_text.c).
 */
#include <float.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#if defined __SSE2__
#include <xmmintrin.h>
#endif

#include <cmocka.h>

#include "tests/gen/every.h"
#include "tests/gen/math_text.h"

/* STRIDE: one float in so many is tested; floats_test.c tests more of them. SWEEP64 * N doubles are tested, and SWEEP64_ALL * N, 10^8, with
   CELLGRAD_TEST_FLOATS=all. */
enum { N = 4096, STRIDE = 2039, SWEEP64 = 500, SWEEP64_ALL = 24415 };

typedef long double wide(long double);

static long double recip(long double x)   { return 1 / x; }
static long double softplus(long double x) { return fmaxl(x, 0) + log1pl(expl(-fabsl(x))); }
static long double sigmoid(long double x) { return x < 0 ? expl(x) / (1 + expl(x)) : 1 / (1 + expl(-x)); }

/* The functions; most: the bound of the error, in units in the last place; first: the function does not decrease from this argument on,
   where its result is `lowest`; keeps: 1 if the result of a subnormal argument is the argument, 0 if it is the result of 0. */
static const struct { const char *name; wide *want; size_t at; double most, first, lowest, highest; int keeps; } functions[] = {
	{ "recip",   recip,   offsetof(struct math_text, recip),   0.75, NAN,       NAN,       NAN,      0 },
	{ "exp",     expl,    offsetof(struct math_text, exp),     1.25, -INFINITY, 0,         INFINITY, 0 },
	{ "tanh",    tanhl,   offsetof(struct math_text, tanh),    2,    -INFINITY, -1,        1,        1 },
	{ "sigmoid", sigmoid, offsetof(struct math_text, sigmoid), 2,    -INFINITY, 0,         1,        0 },
	{ "log",     logl,    offsetof(struct math_text, log),     2,    0,         -INFINITY, INFINITY, 0 },
	{ "log1p",   log1pl,  offsetof(struct math_text, log1p),   2,    -1,        -INFINITY, INFINITY, 1 },
	{ "expm1",   expm1l,  offsetof(struct math_text, expm1),   2,    -INFINITY, -1,        INFINITY, 1 },
	{ "sqrt",    sqrtl,   offsetof(struct math_text, sqrt),    0.75, 0,         0,         INFINITY, 0 },
	{ "erf",     erfl,    offsetof(struct math_text, erf),     2,    -INFINITY, -1,        1,        0 },
	{ "softplus", softplus, offsetof(struct math_text, softplus), 2, -INFINITY, 0,         INFINITY, 0 },
};
enum { FUNCTIONS = sizeof functions / sizeof *functions };

static math_over *function(const struct math_text *m, int k)
{
	return *(math_over *const *)((const char *)m + functions[k].at);
}

static void flush(int on)
{
#if defined __SSE2__
	_mm_setcsr(on ? _mm_getcsr() | 0x8040 : _mm_getcsr() & ~0x8040u);
#else
	(void)on;
#endif
}

static float float_of(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof x);
	return x;
}

static uint32_t bits_of(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof bits);
	return bits;
}

/* ---- errors ---- */

/* The error of a result in units in the last place of the right one; infinite where it is wrong altogether. */
static double error(int k, long double x, long double got, int digits, int lowest, long double largest)
{
	long double smallest = ldexpl(1, lowest), want;
	int exponent;

	/* A subnormal argument counts as 0, but some functions return it. */
	if (fabsl(x) < smallest && !functions[k].keeps)
		x = copysignl(0, x);
	want = functions[k].want(x);
	if (isnan(want) || isnan(got))
		return isnan(want) && isnan(got) ? 0 : INFINITY;
	if (fabsl(x) < smallest && functions[k].keeps)
		return got == x && signbit(got) == signbit(x) ? 0 : INFINITY;
	if (fabsl(want) < smallest)
		/* A subnormal right result may be computed as 0, or, if it nearly equals the smallest normal number, as that number. */
		return (got == 0 || (fabsl(want) > smallest * 0.9999999L && fabsl(got) == smallest)) &&
		       !signbit(got) == !signbit(want) ? 0 : INFINITY;
	if (fabsl(want) > largest * (1 + ldexpl(0.5L, -digits)))
		return got == copysignl(INFINITY, want) ? 0 : INFINITY;
	if (isinf(got) && fabsl(want) < largest * (1 - ldexpl(1, 2 - digits)))
		return INFINITY;
	if (got == 0 && fabsl(want) < smallest * 1.0000002L)
		return 0;
	if (isinf(got))
		got = ldexpl(1, digits == 24 ? 128 : 1024);
	exponent = ilogbl(want);
	return (double)(fabsl(got - want) / ldexpl(1, exponent - digits + 1));
}

static void test_errors_f32(void **state)
{
	static float x[N], y[N];

	(void)state;
	for (int k = 0; k < FUNCTIONS; k++) {
		double worst = 0;
		uint32_t start = 0;

		for (uint64_t bits = 0; bits < (UINT64_C(1) << 32); ) {
			int n = 0;

			for (; n < N && bits < (UINT64_C(1) << 32); n++, bits += STRIDE)
				x[n] = float_of((uint32_t)bits);
			function(&math_f32, k)(x, y, n);
			for (int j = 0; j < n; j++) {
				double e = error(k, x[j], y[j], FLT_MANT_DIG, FLT_MIN_EXP - 1, FLT_MAX);

				if (e > functions[k].most)
					fail_msg("%s(%a): %a, off by %g ulp", functions[k].name, (double)x[j], (double)y[j], e);
				worst = e > worst ? e : worst;
			}
		}
		/* Tests all floats near places where the method may change: 4096 about 2^k, for whole k from -79 to 79, and 4096 about k ln 2, for
		   whole k from -80 to 79. */
		for (int j = -160; j < 160; j++) {
			start = bits_of(j & 1 ? ldexpf(1, j / 2) : (float)(j * 0.34657359027997264));
			for (int i = 0; i < N; i++)
				x[i] = float_of(start + (uint32_t)i - N / 2);
			function(&math_f32, k)(x, y, N);
			for (int i = 0; i < N; i++) {
				double e = error(k, x[i], y[i], FLT_MANT_DIG, FLT_MIN_EXP - 1, FLT_MAX);

				if (e > functions[k].most)
					fail_msg("%s(%a): %a, off by %g ulp", functions[k].name, (double)x[i], (double)y[i], e);
				worst = e > worst ? e : worst;
			}
		}
		printf("# f32 %-8s %.3f ulp\n", functions[k].name, worst);
	}
}

static double any_double(int k)
{
	uint64_t bits = random_bits();
	double x;

	if (k % 6 == 0)
		memcpy(&x, &bits, sizeof x);                             /* random bits: numbers of all magnitudes */
	else if (k % 6 == 1)
		x = (random_unit() - 0.5) * 1500;                        /* where exp is finite */
	else if (k % 6 == 2)
		x = (random_unit() - 0.5) * 80;                          /* where tanh is not yet 1 */
	else if (k % 6 == 3)
		x = 1 + (random_unit() - 0.5) * exp2(-20 * random_unit()); /* where log is near 0 */
	else if (k % 6 == 4)
		x = (random_unit() - 0.5) * 8;                           /* where erf and expm1 change their method */
	else
		x = (random_bits() & 1 ? 1 : -1) * exp2(-60 * random_unit());
	return x;
}

static void test_errors_f64(void **state)
{
	static double x[N], y[N];
	const char *asked = getenv("CELLGRAD_TEST_FLOATS");
	int sweeps = asked && !strcmp(asked, "all") ? SWEEP64_ALL : SWEEP64;

	(void)state;
#if LDBL_MANT_DIG < 64
	skip();                                                          /* this machine has no type wider than double to compare with */
#endif
	for (int k = 0; k < FUNCTIONS; k++) {
		double worst = 0;

		for (int sweep = 0; sweep < sweeps; sweep++) {
			for (int j = 0; j < N; j++)
				x[j] = any_double(j);
			function(&math_f64, k)(x, y, N);
			for (int j = 0; j < N; j++) {
				double e = error(k, x[j], y[j], DBL_MANT_DIG, DBL_MIN_EXP - 1, DBL_MAX);

				if (e > functions[k].most)
					fail_msg("%s(%a): %a, off by %g ulp", functions[k].name, x[j], y[j], e);
				worst = e > worst ? e : worst;
			}
		}
		printf("# f64 %-8s %.3f ulp\n", functions[k].name, worst);
	}
}

/* ---- exact values, signs, order ---- */

static const struct { int function; double x, f32, f64; } exact[] = {
	{ 0, 0.0, INFINITY, INFINITY }, { 0, -0.0, -INFINITY, -INFINITY }, { 0, INFINITY, 0.0, 0.0 }, { 0, -INFINITY, -0.0, -0.0 },
	{ 0, 1, 1, 1 }, { 0, -2, -0.5, -0.5 }, { 0, 0.25, 4, 4 },
	{ 1, 0.0, 1, 1 }, { 1, -0.0, 1, 1 }, { 1, INFINITY, INFINITY, INFINITY }, { 1, -INFINITY, 0.0, 0.0 },
	{ 1, 1e9, INFINITY, INFINITY }, { 1, -1e9, 0.0, 0.0 }, { 1, 710, INFINITY, INFINITY }, { 1, -709, 0.0, 0.0 },
	{ 2, 0.0, 0.0, 0.0 }, { 2, -0.0, -0.0, -0.0 }, { 2, INFINITY, 1, 1 }, { 2, -INFINITY, -1, -1 }, { 2, 20, 1, 1 },
	{ 2, -20, -1, -1 }, { 2, 1e30, 1, 1 }, { 2, 0x1p-60, 0x1p-60, 0x1p-60 }, { 2, -0x1p-126, -0x1p-126, -0x1p-126 },
	{ 3, 0.0, 0.5, 0.5 }, { 3, -0.0, 0.5, 0.5 }, { 3, INFINITY, 1, 1 }, { 3, -INFINITY, 0.0, 0.0 }, { 3, 40, 1, 1 },
	{ 3, -1e9, 0.0, 0.0 }, { 3, 1e30, 1, 1 },
	{ 4, 1, 0.0, 0.0 }, { 4, 0.0, -INFINITY, -INFINITY }, { 4, -0.0, -INFINITY, -INFINITY }, { 4, INFINITY, INFINITY, INFINITY },
	{ 4, -1, NAN, NAN }, { 4, -0x1p-126, NAN, NAN }, { 4, -INFINITY, NAN, NAN },
	{ 5, 0.0, 0.0, 0.0 }, { 5, -0.0, -0.0, -0.0 }, { 5, INFINITY, INFINITY, INFINITY }, { 5, -1, -INFINITY, -INFINITY },
	{ 5, -1.5, NAN, NAN }, { 5, -INFINITY, NAN, NAN }, { 5, 0x1p-60, 0x1p-60, 0x1p-60 }, { 5, -0x1p-126, -0x1p-126, -0x1p-126 },
	{ 6, 0.0, 0.0, 0.0 }, { 6, -0.0, -0.0, -0.0 }, { 6, INFINITY, INFINITY, INFINITY }, { 6, -INFINITY, -1, -1 }, { 6, -40, -1, -1 },
	{ 6, -1e30, -1, -1 }, { 6, 710, INFINITY, INFINITY }, { 6, -0x1p-60, -0x1p-60, -0x1p-60 }, { 6, 0x1p-126, 0x1p-126, 0x1p-126 },
	{ 7, 0.0, 0.0, 0.0 }, { 7, -0.0, -0.0, -0.0 }, { 7, INFINITY, INFINITY, INFINITY }, { 7, 1, 1, 1 }, { 7, 9, 3, 3 },
	{ 7, 0x1p-126, 0x1p-63, 0x1p-63 }, { 7, 0x1p100, 0x1p50, 0x1p50 }, { 7, -1, NAN, NAN }, { 7, -0x1p-126, NAN, NAN },
	{ 7, -INFINITY, NAN, NAN },
	{ 8, 0.0, 0.0, 0.0 }, { 8, -0.0, -0.0, -0.0 }, { 8, INFINITY, 1, 1 }, { 8, -INFINITY, -1, -1 }, { 8, 6, 1, 1 }, { 8, -1e30, -1, -1 },
};

static void one_f32(math_over *f, double x, double want)
{
	float in = (float)x, out;

	f(&in, &out, 1);
	if (!(isnan(want) ? isnan(out) : out == want && !signbit(out) == !signbit(want)))
		fail_msg("f32 at %a: %a, not %a", x, (double)out, want);
}

static void one_f64(math_over *f, double x, double want)
{
	double out;

	f(&x, &out, 1);
	if (!(isnan(want) ? isnan(out) : out == want && !signbit(out) == !signbit(want)))
		fail_msg("f64 at %a: %a, not %a", x, out, want);
}

static void test_exact(void **state)
{
	static const double x[] = { -INFINITY, -2, -0.0, 0, 3, INFINITY };

	(void)state;
	for (int on = 0; on < 2; on++) {
		flush(on);
		for (size_t k = 0; k < sizeof exact / sizeof *exact; k++) {
			one_f32(function(&math_f32, exact[k].function), exact[k].x, exact[k].f32);
			one_f64(function(&math_f64, exact[k].function), exact[k].x, exact[k].f64);
		}
		for (int k = 0; k < FUNCTIONS; k++)
			for (int minus = 0; minus < 2; minus++) {
				one_f32(function(&math_f32, k), minus ? -NAN : NAN, NAN);
				one_f64(function(&math_f64, k), minus ? -NAN : NAN, NAN);
			}
		for (int k = 0; k < 6; k++) {
			one_f64(math_f64.step, x[k], x[k] > 0);
			one_f32(math_f32.step, x[k], x[k] > 0);
			if (x[k] != 0) {
				one_f64(math_f64.relu, x[k], x[k] > 0 ? x[k] : 0);
				one_f32(math_f32.relu, x[k], x[k] > 0 ? x[k] : 0);
			}
		}
		one_f32(math_f32.relu, NAN, NAN), one_f32(math_f32.step, NAN, NAN);
		one_f64(math_f64.relu, NAN, NAN), one_f64(math_f64.step, NAN, NAN);
	}
	flush(0);
}

static void test_clip(void **state)
{
	static const double cases[][3] = {
		{ 5, 3, 3 }, { -5, 3, -3 }, { 2, 3, 2 }, { 5, 0, 5 }, { 5, -1, 5 }, { INFINITY, 3, 3 }, { -INFINITY, 3, -3 }, { NAN, 3, NAN },
		{ 5, INFINITY, 5 }, { 5, NAN, 5 }, { -3, 3, -3 },
	};

	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
		float in[2] = { (float)cases[k][0], (float)cases[k][1] }, out;
		double out64;

		math_f32.clip(in, &out, 1);
		math_f64.clip(cases[k], &out64, 1);
		assert_true(isnan(cases[k][2]) ? isnan(out) && isnan(out64) : out == cases[k][2] && out64 == cases[k][2]);
	}
}

/* Tests max and min of two arguments, abs of one, and above of two: above is 1 if the first argument is the larger, 1/2 if both are
   equal, 0 if the first is the smaller. A NaN among a function's arguments gives NaN. */
static void test_max(void **state)
{
	static const double x[] = {
		-INFINITY, -0x1p100, -2, -1, -0x1p-126, -0x1p-140, -0.0, 0, 0x1p-140, 0x1p-126, 1, 1 + (double)FLT_EPSILON, 3,
		INFINITY, NAN, -NAN,
	};

	(void)state;
	for (size_t i = 0; i < sizeof x / sizeof *x; i++)
		for (size_t j = 0; j < sizeof x / sizeof *x; j++) {
			const double a = x[i], b = x[j], pair64[] = { a, b };
			const float pair[] = { (float)a, (float)b };
			const double want[] = { a > b ? a : b, a < b ? a : b, fabs(a), a > b ? 1 : a < b ? 0 : 0.5 };
			math_over *const f32[] = { math_f32.max, math_f32.min, math_f32.abs, math_f32.above };
			math_over *const f64[] = { math_f64.max, math_f64.min, math_f64.abs, math_f64.above };

			for (int k = 0; k < 4; k++) {
				int nan = isnan(a) || (k != 2 && isnan(b));
				float y;
				double y64;

				f32[k](pair, &y, 1);
				f64[k](pair64, &y64, 1);
				if (nan ? !isnan(y) || !isnan(y64) : y != want[k] || y64 != want[k])
					fail_msg("function %d of %g and %g: %g in f32, %g in f64", k, a, b, (double)y, y64);
			}
		}
}

/* abs, max and min of subnormals are 0 where these are flushed, whatever instruction selects; above still compares them by their values. */
static void test_flushed_selection(void **state)
{
	static float x[2 * N], max[N], min[N], abs[N], above[N];

	(void)state;
	for (int k = 0; k < N; k++) {
		x[2 * k] = (float)ldexp(k % 3 - 1, -140);
		x[2 * k + 1] = (float)ldexp(k / 3 % 3 - 1, -141);
	}
	flush(1);
	math_f32.max(x, max, N), math_f32.min(x, min, N), math_f32.abs(x, abs, N), math_f32.above(x, above, N);
	flush(0);
	for (int k = 0; k < N; k++) {
		int a = k % 3 - 1, b = k / 3 % 3 - 1;
#if defined __SSE2__
		assert_true(bits_of(max[k]) == 0 && bits_of(min[k]) == 0 && bits_of(abs[k]) == 0);
#endif
		assert_true(above[k] == (2 * a > b ? 1 : 2 * a < b ? 0 : 0.5f));
	}
}

static int up(double y, double last, double epsilon)
{
	return isinf(last) ? y >= last : y >= last - 4 * epsilon * fabs(last);
}

/* Tests all functions but recip: none decreases from argument to argument by more than 4 epsilon of a result, and none exceeds its upper
   limit. */
static void test_monotonic(void **state)
{
	(void)state;
	for (int k = 1; k < FUNCTIONS; k++) {
		float last = (float)functions[k].lowest, x, y;
		double last64 = functions[k].lowest, x64, y64, highest = functions[k].highest;

		for (int sign = -1; sign < 2; sign += 2)
			for (int step = 0; step < 40 * 4096; step++) {
				x64 = sign * exp2((sign < 0 ? 40 * 4096 - step : step) / 4096.0 - 30);
				x = (float)x64;
				if (x < functions[k].first)
					continue;
				function(&math_f32, k)(&x, &y, 1);
				function(&math_f64, k)(&x64, &y64, 1);
				if (!(up(y, last, FLT_EPSILON) && up(y64, last64, DBL_EPSILON) && y <= highest && y64 <= highest))
					fail_msg("%s(%a): %a after %a", functions[k].name, x64, y64, last64);
				last = y;
				last64 = y64;
			}
	}
}

/* Results in f32 have the same bits with and without the flush, for one float in 4093, unless the argument is subnormal; NaNs are equal. */
static void test_flush(void **state)
{
	static float x[N], y[N], z[N];

	(void)state;
	for (int k = 0; k < FUNCTIONS; k++)
		for (uint32_t first = 0; first < 1u << 20; first++) {
			int n = 0;

			for (; n < N; n++)
				x[n] = float_of((first + (uint32_t)n) * 4093u);
			function(&math_f32, k)(x, y, N);
			flush(1);
			function(&math_f32, k)(x, z, N);
			flush(0);
			for (int j = 0; j < N; j++)
				if (bits_of(y[j]) != bits_of(z[j]) && !(isnan(y[j]) && isnan(z[j])) && fpclassify(x[j]) != FP_SUBNORMAL)
					fail_msg("%s(%a): %a, flushed %a", functions[k].name, (double)x[j], (double)y[j], (double)z[j]);
			first += N - 1;
		}
}

/* ---- the fused multiplication ---- */

/* Tests muladd(a, b, c) where c nearly cancels the product a b, or where the product is exact; no more is promised. */
static void test_muladd(void **state)
{
	static float x[3 * N], y[N];
	static double x64[3 * N], y64[N];

	(void)state;
	for (int sweep = 0; sweep < 50; sweep++) {
		for (int j = 0; j < 3 * N; j++) {
			/* Factors with short fractions are common among the arguments. */
			double a = (random_below(512) - 256) * exp2(random_below(30) - 20);

			x64[j] = sweep % 2 ? a : a + random_unit() * exp2(random_below(20) - 20);
			x[j] = (float)x64[j];
		}
		for (int j = 0; j < N; j++) {
			if (sweep % 4 == 0) {
				/* The first factor is a power of two, so that the product is exact. */
				x64[3 * j] = exp2(random_below(60) - 30);
				x[3 * j] = (float)x64[3 * j];
				continue;
			}
			/* c differs from the negative product by a few units in its last place, or by up to half of the product. */
			double some = (random_unit() - 0.5) * exp2(-random_below(30)), few = random_below(5) - 2;

			x64[3 * j + 2] = -x64[3 * j] * x64[3 * j + 1] * (1 + (sweep % 4 > 1 ? few * DBL_EPSILON : some));
			x[3 * j + 2] = -x[3 * j] * x[3 * j + 1] * (1 + (float)(sweep % 4 > 1 ? few * (double)FLT_EPSILON : some));
		}
		math_f32.muladd(x, y, N);
		math_f64.muladd(x64, y64, N);
		for (int j = 0; j < N; j++) {
			float want = fmaf(x[3 * j], x[3 * j + 1], x[3 * j + 2]);
			double want64 = fma(x64[3 * j], x64[3 * j + 1], x64[3 * j + 2]);

			if (y[j] != want || y64[j] != want64)
				fail_msg("muladd(%a, %a, %a): %a or %a", x64[3 * j], x64[3 * j + 1], x64[3 * j + 2], (double)y[j], y64[j]);
		}
	}
}

/* ---- halves ---- */

struct half { const char *name; const struct math_text *math; int fraction, lowest, exponents; };

static const struct half halves[] = { { "f16", &math_f16, 10, -14, 31 }, { "bf16", &math_bf16, 7, -126, 255 } };

static double half_value(const struct half *h, int bits)
{
	int fraction = bits & ((1 << h->fraction) - 1), exponent = bits >> h->fraction & h->exponents;
	double sign = bits & 0x8000 ? -1 : 1;

	if (exponent == h->exponents)
		return fraction ? NAN : sign * INFINITY;
	return sign * (exponent ? ldexp(fraction + (1 << h->fraction), h->lowest + exponent - 1 - h->fraction)
	                        : ldexp(fraction, h->lowest - h->fraction));
}

/* Rounds a number to a half to nearest, ties to even, by functions of the C library. */
static double rounded(const struct half *h, double x)
{
	int exponent = x == 0 || ilogb(x) < h->lowest ? h->lowest : ilogb(x);
	double largest = half_value(h, h->exponents << h->fraction) > 0 ? half_value(h, (h->exponents << h->fraction) - 1) : 0;
	double y;

	if (isnan(x) || isinf(x))
		return x;
	y = ldexp(nearbyint(ldexp(x, h->fraction - exponent)), exponent - h->fraction);
	return fabs(y) > largest ? copysign(INFINITY, x) : y;
}

static void halve(const struct half *h, const float *x, int n)
{
	static uint16_t y[N];

	h->math->to_real(x, y, n);
	for (int k = 0; k < n; k++) {
		double got = half_value(h, y[k]), want = rounded(h, x[k]);

		if (!(isnan(want) ? isnan(got) : got == want) || (!isnan(want) && (y[k] >> 15) != (signbit(x[k]) != 0)))
			fail_msg("%s of %a (%08x): %04x, not %a", h->name, (double)x[k], (unsigned)bits_of(x[k]), y[k], want);
	}
}

static void test_halves(void **state)
{
	static float x[N], all[1 << 16];
	static uint16_t bits[1 << 16], back[1 << 16];

	(void)state;
	for (int k = 0; k < 1 << 16; k++)
		bits[k] = (uint16_t)k;
	for (int which = 0; which < 4; which++) {
		const struct half *h = &halves[which / 2];

		flush(which % 2);
		h->math->to_acc(bits, all, 1 << 16);
		h->math->to_real(all, back, 1 << 16);
		flush(0);
		for (int k = 0; k < 1 << 16; k++) {
			double want = half_value(h, k);

			if (!(isnan(want) ? isnan(all[k]) : all[k] == want && !signbit(all[k]) == !signbit(want)))
				fail_msg("%s %04x: %a, not %a", h->name, k, (double)all[k], want);
			if (isnan(want) ? !isnan(half_value(h, back[k])) : back[k] != k)
				fail_msg("%s %04x came back as %04x", h->name, k, back[k]);
		}
		/* Tests the floats half way between a half and the next, and their neighbours. */
		for (int k = 0; k < 1 << 16; k++) {
			uint32_t at = bits_of((float)((half_value(h, k) + half_value(h, k ^ 0x8000 ? (k + 1) & 0xffff : k)) / 2));

			for (int j = 0; j < 3; j++)
				x[j] = float_of(at + (uint32_t)j - 1);
			halve(h, x, 3);
		}
		for (uint64_t at = 0; at < UINT64_C(1) << 32; ) {
			int n = 0;

			for (; n < N && at < UINT64_C(1) << 32; n++, at += 4099)
				x[n] = float_of((uint32_t)at);
			halve(h, x, n);
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_errors_f32),
		cmocka_unit_test(test_errors_f64),
		cmocka_unit_test(test_exact),
		cmocka_unit_test(test_clip),
		cmocka_unit_test(test_max),
		cmocka_unit_test(test_flushed_selection),
		cmocka_unit_test(test_monotonic),
		cmocka_unit_test(test_flush),
		cmocka_unit_test(test_muladd),
		cmocka_unit_test(test_halves),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	random_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
