/* cg_lstm_peephole_bf16_forward: cellgrad emit lstm --options peephole --pass forward --dtype bf16 --lang c */

#include <stddef.h>
#include <stdint.h>

/* Every operation must round once, to its own type. */
#if defined __FAST_MATH__ || __FLT_EVAL_METHOD__ == 1 || __FLT_EVAL_METHOD__ == 2
#error "compile without -ffast-math, and for 32-bit x86 with -msse2 -mfpmath=sse"
#endif
#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#endif

#ifdef __cplusplus
#define restrict __restrict
#endif

/* INLINE forces inlining, since a call in a loop keeps the loop from being vectorised. APART prevents inlining of
   the functions over a strip: in their caller, the compiler would no longer know that their pointers do not
   overlap. */
#ifdef __GNUC__
#define INLINE inline __attribute__((always_inline))
#define APART __attribute__((noinline))
#else
#define INLINE inline
#define APART
#endif

typedef uint16_t real;		/* the type in memory: a float's upper half */
typedef float acc;		/* the type of arithmetic */
typedef uint32_t word;		/* an unsigned integer with the bits of an acc */

static INLINE acc from_bits(word bits)
{
	union { word bits; acc x; } u;

	u.bits = bits;
	return u.x;
}

/* A bf16 is the upper half of a float; the lower half becomes 0. */
static INLINE acc to_acc(real h)
{
	return from_bits((word)h << 16);
}

static INLINE word bits_of(acc x)
{
	union { acc x; word bits; } u;

	u.x = x;
	return u.bits;
}

/* Rounds to nearest, ties to even. A NaN is cut off and made quiet: rounding could turn a NaN into infinity or 0. */
static INLINE real to_real(acc x)
{
	word u = bits_of(x);
	word near = ((u | (u >> 16 & 1u)) + 0x7fffu) >> 16;

	return (real)(x != x ? u >> 16 | 0x40u : near);
}

#define ACC_ONE 0x3f800000u		/* the bits of 1 */
#define ACC_SIGN 0x80000000u		/* the bits of -0 */
#define ACC_INFINITY 0x7f800000u	/* the bits of infinity */
#define ACC_INVERSE 0x7f000000u		/* twice the bits of 1; less those of 2^n: the bits of 2^-n */
#define ACC_FRACTION 23
#define ACC_SMALLEST 1.17549435e-38f	/* 2^-126, the smallest normal number */
#define ACC_LARGEST_POWER 8.50705917e37f	/* 2^126, whose inverse is still normal */

#define ACC_ROUND 12583039.0f		/* 1.5 * 2^23 + 127: a sum with it has an integer + 127 in its low bits */
#define ACC_ROUND_64THS 196735.0f	/* 1.5 * 2^17 + 127: the low bits are in 64ths */
#define ACC_PER_LN2 1.44269502f
#define ACC_LN2 0.693145752f		/* the upper 16 bits of ln(2): products with small integers are exact */
#define ACC_LN2_REST 1.42859062e-6f	/* the next 18 bits of ln(2), of which the first 3 are 0 */
#define ACC_PER_HALF_LN2 2.88539004f
#define ACC_HALF_LN2 0.346573591f
#define ACC_EXP_LOWEST -87.3365402f	/* for x below this, e^x is not a normal number */
#define ACC_EXP_HIGHEST 89.0f		/* for x from this on, e^x is infinite */
#define ACC_SIGMOID_HIGHEST 19.0f	/* for x from this on, sigmoid(x) is 1 */
#define ACC_TANH_HIGHEST 9.5f		/* for x from this on, tanh(x) is 1 */
#define ACC_LINEAR 1.22070312e-4f	/* 2^-13: for |x| below this, tanh(x) is x */

#define ACC_CHORDS 0x7ef3340bu		/* this minus the bits of d are the bits of 1/d to one part in 19 */
/* (t - T)^2 + C is 1/t to one part in 30800 for t in [0.95, 1.0513]: no parabola is nearer. */
#define ACC_PARABOLA_T 1.50096123f
#define ACC_PARABOLA_C 0.749039088f

#if defined __FMA__ || defined __aarch64__ || defined __ARM_FEATURE_FMA || defined __FP_FAST_FMAF
static INLINE acc muladd(acc a, acc b, acc c)
{
	return __builtin_fmaf(a, b, c);
}
#else
/* The result has one rounding wherever this text uses muladd. a*b is exact in double. Where c nearly cancels a*b, the
   sum is exact, too; where a*b is a float, a sum of two floats may be rounded to double first without a difference. */
static INLINE acc muladd(acc a, acc b, acc c)
{
	return (acc)((double)a * b + c);
}
#endif

static INLINE acc mulsum(acc a, acc b, acc c)
{
	return muladd(a, b, c);
}

/* tanh(s) to one part in 2^27, for |s| <= 3/8 ln(2). By tanh(s), e^2s is (1 + tanh(s)) / (1 - tanh(s)). */
static INLINE acc acc_tanh_near(acc s)
{
	acc w = s * s;
	acc v = w - 1.30052653f;

	return mulsum(s * w * -0.0512202159f, mulsum(v, v, 4.81645477f), s);
}

/* 1/d to one part in 30800, for d in [1, 2^125]. ACC_CHORDS minus the bits of d gives chords of 1/d, placed so that d
   times the chord is near 1. The chord is then multiplied by a parabola, with leading coefficient 1, that is close to
   the inverse of that product. */
static INLINE acc acc_inverse_seed(acc d)
{
	acc chord = from_bits(ACC_CHORDS - bits_of(d));
	acc t = muladd(d, chord, -ACC_PARABOLA_T);

	return chord * mulsum(t, t, ACC_PARABOLA_C);
}

/* 1/d to within 2^-14. */
static INLINE acc acc_rough_inverse(acc d)
{
	return acc_inverse_seed(d);
}

/* tanh|x| = (e^2|x| - 1) / (e^2|x| + 1), where e^2|x| is 2^n (1 + u) / (1 - u). 2|x|/ln(2) + 1/4 is rounded to
   64ths, and then down to n; with 1/4 and not 1/2, the two terms of the variable e cancel little where n is 1. The low
   bits of k are n plus the exponent of 1, then 6 bits of 64ths, which are cleared. n ln(2)/2 is not exact, but b
   nearly cancels it, so that muladd rounds once. The last step corrects the quotient q by its remainder, f - q d. */
static INLINE acc acc_tanh(acc x)
{
	word sign = bits_of(x) & ACC_SIGN;
	acc a = from_bits(bits_of(x) ^ sign);
	acc b = a > ACC_TANH_HIGHEST ? ACC_TANH_HIGHEST : a;
	acc k = from_bits(bits_of(mulsum(b, ACC_PER_HALF_LN2, ACC_ROUND_64THS + 0.25f)) & ~(word)63);
	acc power = from_bits(bits_of(k) << (ACC_FRACTION - 6));
	acc u = acc_tanh_near(muladd(ACC_ROUND_64THS - k, ACC_HALF_LN2, b));
	acc e = mulsum(power + 1, u, power - 1);
	acc d = muladd(-2, u, 2) + e;
	acc y = acc_rough_inverse(d);
	acc f = from_bits(bits_of(e) | sign);
	acc q = f * y;
	acc t = mulsum(y, muladd(-q, d, f), q);

	return a < ACC_LINEAR ? x : t;
}

/* 2^n, for n within the exponents of normal numbers. The argument k is ACC_ROUND + n: the low bits of k are n plus the
   exponent bits of 1. No number is converted to an integer: a conversion would fail for NaN and infinity. */
static INLINE acc acc_power(acc k)
{
	return from_bits(bits_of(k) << ACC_FRACTION);
}

/* ACC_ROUND + n, where n is the integer nearest to x/ln(2): e^x = 2^n e^r. */
static INLINE acc acc_octaves(acc x)
{
	return mulsum(x, ACC_PER_LN2, ACC_ROUND);
}

/* r = x - n ln(2), where k is ACC_ROUND + n. The products of n with both parts of ln(2) are exact, and so is the
   difference of x and n ACC_LN2, since x and n ACC_LN2 are so close. */
static INLINE acc acc_rest(acc x, acc k)
{
	acc n = k - ACC_ROUND;

	return muladd(-n, ACC_LN2_REST, muladd(-n, ACC_LN2, x));
}

/* e^r - 1 = r + r^2 A B C to one part in 2^26, for |r| <= ln(2)/2: A and B are parabolas in r without real zeros, C is
   a constant. */
static INLINE acc acc_growth(acc r)
{
	acc a = r - 0.557694197f;
	acc b = r + 3.57103181f;
	acc q = mulsum(a, a, 19.3581104f) * mulsum(b, b, 5.55891085f);

	return mulsum(r * r * 0.00138825248f, q, r);
}

/* e^x / (e^x + 1), where e^x is 2^n (1 + p). The quotient q is corrected by its remainder (1 - q d) + p, which has no
   rounding of 1 + p. The factor 2^n comes last, so that no step leaves the normal numbers, and the result is
   relatively accurate for negative x, too, down to the smallest normal result. For large x, d may have been rounded
   down to less than e^x; a result above 1 becomes 1. */
static INLINE acc acc_sigmoid(acc x)
{
	acc b = x > ACC_SIGMOID_HIGHEST ? ACC_SIGMOID_HIGHEST : x;
	acc k = acc_octaves(b);
	acc power = acc_power(k);
	acc r = acc_rest(b, k);
	acc p = acc_growth(r);
	acc d = muladd(power, p, power + 1);
	acc y = acc_rough_inverse(d);
	acc q = (p + 1) * y;
	acc s = mulsum(y, muladd(-q, d, 1) + p, q) * power;

	s = s > 1 ? 1 : s;
	return x < ACC_EXP_LOWEST ? 0 : s;
}

#ifdef __cplusplus
extern "C" {
#endif

static APART void cg_lstm_peephole_bf16_forward_run(int count,
	const acc *restrict a_i_at,
	const acc *restrict a_f_at,
	const acc *restrict a_g_at,
	const acc *restrict a_o_at,
	const real *restrict c_prev_at,
	const real *restrict p_i_at,
	const real *restrict p_f_at,
	const real *restrict p_o_at,
	real *restrict i_at,
	real *restrict f_at,
	real *restrict g_at,
	real *restrict o_at,
	real *restrict c_at,
	real *restrict h_at)
{
	for (int unit = 0; unit < count; unit++) {
		const acc a_i = a_i_at[unit];
		const acc a_f = a_f_at[unit];
		const acc a_g = a_g_at[unit];
		const acc a_o = a_o_at[unit];
		const acc c_prev = to_acc(c_prev_at[unit]);
		const acc p_i = to_acc(p_i_at[unit]);
		const acc p_f = to_acc(p_f_at[unit]);
		const acc p_o = to_acc(p_o_at[unit]);

		/* i = sigmoid(a_i + p_i * c_prev) */
		const acc i = acc_sigmoid(a_i + p_i * c_prev);

		/* f = sigmoid(a_f + p_f * c_prev) */
		const acc f = acc_sigmoid(a_f + p_f * c_prev);

		/* g = tanh(a_g) */
		const acc g = acc_tanh(a_g);

		/* c = f * c_prev + i * g */
		const acc c = f * c_prev + i * g;

		/* o = sigmoid(a_o + p_o * c) */
		const acc o = acc_sigmoid(a_o + p_o * c);

		/* m = tanh(c) */
		const acc m = acc_tanh(c);

		/* h = o * m */
		const acc h = o * m;

		i_at[unit] = to_real(i);
		f_at[unit] = to_real(f);
		g_at[unit] = to_real(g);
		o_at[unit] = to_real(o);
		c_at[unit] = to_real(c);
		h_at[unit] = to_real(h);
	}
}

/*
 * cg_lstm_peephole_bf16_forward: the forward step of cell lstm.
 * A null input reads as zeros; a null output is not written.  Strides are in elements.
 *
 *	a_i          in  acc     [rows, units]   pre-activation: x W + h R + b
 *	a_f          in  acc     [rows, units]   pre-activation: x W + h R + b
 *	a_g          in  acc     [rows, units]   pre-activation: x W + h R + b
 *	a_o          in  acc     [rows, units]   pre-activation: x W + h R + b
 *	c_prev       in  real    [rows, units]   state before the step
 *	p_i          in  real    [units]         a weight per unit
 *	p_f          in  real    [units]         a weight per unit
 *	p_o          in  real    [units]         a weight per unit
 *	i            out real    [rows, units]   value that forward saves
 *	f            out real    [rows, units]   value that forward saves
 *	g            out real    [rows, units]   value that forward saves
 *	o            out real    [rows, units]   value that forward saves
 *	c            out real    [rows, units]   state after the step, which forward saves
 *	h            out real    [rows, units]   output after the step, which forward saves
 */
void cg_lstm_peephole_bf16_forward(
	int64_t rows, int64_t units,
	const acc *a_i, int64_t a_i_stride,
	const acc *a_f, int64_t a_f_stride,
	const acc *a_g, int64_t a_g_stride,
	const acc *a_o, int64_t a_o_stride,
	const real *c_prev, int64_t c_prev_stride,
	const real *p_i,
	const real *p_f,
	const real *p_o,
	real *i, int64_t i_stride,
	real *f, int64_t f_stride,
	real *g, int64_t g_stride,
	real *o, int64_t o_stride,
	real *c, int64_t c_stride,
	real *h, int64_t h_stride)
{
	enum { STRIP = 256 };
	static const real absent[STRIP] = {0};
	static const acc absent_acc[STRIP] = {0};
	real no_i[STRIP];
	real no_f[STRIP];
	real no_g[STRIP];
	real no_o[STRIP];
	real no_c[STRIP];
	real no_h[STRIP];

	for (int64_t row = 0; row < rows; row++) {
		for (int64_t first = 0; first < units; first += STRIP) {
			const int count = units - first < STRIP ? (int)(units - first) : STRIP;

			cg_lstm_peephole_bf16_forward_run(count,
				a_i ? a_i + row * a_i_stride + first : absent_acc,
				a_f ? a_f + row * a_f_stride + first : absent_acc,
				a_g ? a_g + row * a_g_stride + first : absent_acc,
				a_o ? a_o + row * a_o_stride + first : absent_acc,
				c_prev ? c_prev + row * c_prev_stride + first : absent,
				p_i ? p_i + first : absent,
				p_f ? p_f + first : absent,
				p_o ? p_o + first : absent,
				i ? i + row * i_stride + first : no_i,
				f ? f + row * f_stride + first : no_f,
				g ? g + row * g_stride + first : no_g,
				o ? o + row * o_stride + first : no_o,
				c ? c + row * c_stride + first : no_c,
				h ? h + row * h_stride + first : no_h);
		}
	}
}

#ifdef __cplusplus
}
#endif
