/* cg_gru_block_f16_forward: cellgrad emit gru_block --pass forward --dtype f16 --lang opencl */

/* Every operation must round once, to its own type. */
#pragma OPENCL FP_CONTRACT OFF

typedef ushort real;		/* the type in memory: a half's bits */
typedef float acc;		/* the type of arithmetic */
typedef uint word;		/* an unsigned integer with the bits of an acc */

/* For a compiler that vectorises loops, such as that of a CPU: -DSTRIP=1024, the number of units that a work-item takes
   of each row or sum, while the grid's height decides how many rows a work-item takes; and -DLANES=16, the number of
   elements of a vector. -DWHOLE: no argument is absent, and no loop tests whether one is. */
#ifdef STRIP
#define ROWS ((long)((rows + get_global_size(1) - 1) / get_global_size(1)))
#else
#define STRIP 1
#define ROWS 1
#endif
#ifdef WHOLE
#define GIVEN(at) 1
#else
#define GIVEN(at) (at)
#endif

static inline word bits_of(acc x)
{
	return as_uint(x);
}

static inline acc from_bits(word bits)
{
	return as_float(bits);
}

#if defined __clang__ && defined __F16C__
/* Processors with F16C have an instruction for this conversion, which is exact and flushes no subnormal half. */
static inline acc to_acc(real h)
{
	return __builtin_load_halff((const half *)&h);
}
#else
/* A half has a sign, 5 bits of exponent and 10 of fraction. Subnormal halves are multiples of 2^-24, as are floats
   in [1/2, 1): to_acc() converts a subnormal half by an exact subtraction from such a float, and to_real() by an
   addition that rounds; so neither needs a subnormal float, which a device might flush. */
static inline acc to_acc(real h)
{
	word sign = ((word)h & 0x8000u) << 16;
	word a = (word)h & 0x7fffu;
	word wide = (a << 13) + (a < 0x7c00u ? 0x38000000u : 0x70000000u);
	word tiny = bits_of(from_bits(a + 0x3f000000u) - 0.5f);

	return from_bits((a < 0x400u ? tiny : wide) | sign);
}
#endif

#if defined __clang__ && defined __F16C__
/* Rounds to nearest, ties to even; a NaN stays a NaN, and no subnormal half is flushed. */
static inline real to_real(acc x)
{
	real h;

	__builtin_store_halff(x, (half *)&h);
	return h;
}
#else
/* Rounds to nearest, ties to even. A carry of the rounding goes into the exponent, and can lead to infinity. */
static inline real to_real(acc x)
{
	word sign = bits_of(x) & 0x80000000u;
	word a = bits_of(x) ^ sign;
	word normal = (a - 0x38000000u + 0xfffu + (a >> 13 & 1u)) >> 13;
	word tiny = bits_of(from_bits(a) + 0.5f) - 0x3f000000u;
	word h = a < 0x38800000u ? tiny : normal;

	h = a < 0x47800000u ? h : 0x7c00u;
	h = a > 0x7f800000u ? 0x7e00u : h;
	return (real)(h | sign >> 16);
}
#endif
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

static inline acc muladd(acc a, acc b, acc c)
{
	return fma(a, b, c);
}

static inline acc mulsum(acc a, acc b, acc c)
{
	return muladd(a, b, c);
}

/* tanh(s) to one part in 2^27, for |s| <= 3/8 ln(2). By tanh(s), e^2s is (1 + tanh(s)) / (1 - tanh(s)). */
static inline acc acc_tanh_near(acc s)
{
	acc w = s * s;
	acc v = w - 1.30052653f;

	return mulsum(s * w * -0.0512202159f, mulsum(v, v, 4.81645477f), s);
}

/* 1/d to one part in 30800, for d in [1, 2^125]. ACC_CHORDS minus the bits of d gives chords of 1/d, placed so that d
   times the chord is near 1. The chord is then multiplied by a parabola, with leading coefficient 1, that is close to
   the inverse of that product. */
static inline acc acc_inverse_seed(acc d)
{
	acc chord = from_bits(ACC_CHORDS - bits_of(d));
	acc t = muladd(d, chord, -ACC_PARABOLA_T);

	return chord * mulsum(t, t, ACC_PARABOLA_C);
}

/* 1/d to within 2^-14. */
static inline acc acc_rough_inverse(acc d)
{
	return acc_inverse_seed(d);
}

/* tanh|x| = (e^2|x| - 1) / (e^2|x| + 1), where e^2|x| is 2^n (1 + u) / (1 - u). 2|x|/ln(2) + 1/4 is rounded to
   64ths, and then down to n; with 1/4 and not 1/2, the two terms of the variable e cancel little where n is 1. The low
   bits of k are n plus the exponent of 1, then 6 bits of 64ths, which are cleared. n ln(2)/2 is not exact, but b
   nearly cancels it, so that muladd rounds once. The last step corrects the quotient q by its remainder, f - q d. */
static inline acc acc_tanh(acc x)
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
static inline acc acc_power(acc k)
{
	return from_bits(bits_of(k) << ACC_FRACTION);
}

/* ACC_ROUND + n, where n is the integer nearest to x/ln(2): e^x = 2^n e^r. */
static inline acc acc_octaves(acc x)
{
	return mulsum(x, ACC_PER_LN2, ACC_ROUND);
}

/* r = x - n ln(2), where k is ACC_ROUND + n. The products of n with both parts of ln(2) are exact, and so is the
   difference of x and n ACC_LN2, since x and n ACC_LN2 are so close. */
static inline acc acc_rest(acc x, acc k)
{
	acc n = k - ACC_ROUND;

	return muladd(-n, ACC_LN2_REST, muladd(-n, ACC_LN2, x));
}

/* e^r - 1 = r + r^2 A B C to one part in 2^26, for |r| <= ln(2)/2: A and B are parabolas in r without real zeros, C is
   a constant. */
static inline acc acc_growth(acc r)
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
static inline acc acc_sigmoid(acc x)
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

/* Computes one element.  Always inline: no compiler vectorises a loop with a call. */
static inline __attribute__((always_inline)) void cg_gru_block_s1_f16_forward_element(
	long row, long unit,
	long rows, long units,
	__global const acc *a_r_at, ulong a_r_offset, long a_r_stride,
	__global const acc *a_u_at, ulong a_u_offset, long a_u_stride,
	__global const real *h_prev_at, ulong h_prev_offset, long h_prev_stride,
	__global real *r_at, ulong r_offset, long r_stride,
	__global real *u_at, ulong u_offset, long u_stride,
	__global real *hr_at, ulong hr_offset, long hr_stride)
{
	const acc a_r = GIVEN(a_r_at) ? a_r_at[a_r_offset + row * a_r_stride + unit] : 0;
	const acc a_u = GIVEN(a_u_at) ? a_u_at[a_u_offset + row * a_u_stride + unit] : 0;
	const acc h_prev = GIVEN(h_prev_at) ? to_acc(h_prev_at[h_prev_offset + row * h_prev_stride + unit]) : 0;

	/* r = sigmoid(a_r) */
	const acc r = acc_sigmoid(a_r);

	/* u = sigmoid(a_u) */
	const acc u = acc_sigmoid(a_u);

	/* hr = h_prev * r */
	const acc hr = h_prev * r;

	if (GIVEN(r_at))
		r_at[r_offset + row * r_stride + unit] = to_real(r);
	if (GIVEN(u_at))
		u_at[u_offset + row * u_stride + unit] = to_real(u);
	if (GIVEN(hr_at))
		hr_at[hr_offset + row * hr_stride + unit] = to_real(hr);
}

/*
 * cg_gru_block_s1_f16_forward: the forward step of cell gru_block, stage 1.
 * A null input reads as zeros; a null output is not written.  Strides are in elements.
 *
 *	a_r          in  acc     [rows, units]   pre-activation: x W + h R + b
 *	a_u          in  acc     [rows, units]   pre-activation: x W + h R + b
 *	h_prev       in  real    [rows, units]   output before the step
 *	r            out real    [rows, units]   value that forward saves
 *	u            out real    [rows, units]   value that forward saves
 *	hr           out real    [rows, units]   operand of the next stage's product
 */
__kernel void cg_gru_block_s1_f16_forward(
	long rows, long units,
	__global const acc *restrict a_r_at, ulong a_r_offset, long a_r_stride,
	__global const acc *restrict a_u_at, ulong a_u_offset, long a_u_stride,
	__global const real *restrict h_prev_at, ulong h_prev_offset, long h_prev_stride,
	__global real *restrict r_at, ulong r_offset, long r_stride,
	__global real *restrict u_at, ulong u_offset, long u_stride,
	__global real *restrict hr_at, ulong hr_offset, long hr_stride)
{
	const long first = get_global_id(0) * STRIP;
	const long last = units - first < STRIP ? units : first + STRIP;
	const long block = get_global_id(1) * ROWS;
	const long count = rows - block < ROWS ? rows - block : ROWS;

	for (long row = block; row < block + count; row++) {
		long unit = first;

#ifdef LANES
#pragma clang loop vectorize_width(LANES) interleave_count(8)
		for (; unit < last - (last - first) % (8 * LANES); unit++)
			cg_gru_block_s1_f16_forward_element(row, unit,
				rows, units,
				a_r_at, a_r_offset, a_r_stride,
				a_u_at, a_u_offset, a_u_stride,
				h_prev_at, h_prev_offset, h_prev_stride,
				r_at, r_offset, r_stride,
				u_at, u_offset, u_stride,
				hr_at, hr_offset, hr_stride);
#pragma clang loop vectorize_width(LANES) vectorize_predicate(enable)
#endif
		for (; unit < last; unit++)
			cg_gru_block_s1_f16_forward_element(row, unit,
				rows, units,
				a_r_at, a_r_offset, a_r_stride,
				a_u_at, a_u_offset, a_u_stride,
				h_prev_at, h_prev_offset, h_prev_stride,
				r_at, r_offset, r_stride,
				u_at, u_offset, u_stride,
				hr_at, hr_offset, hr_stride);
	}
}

/* Computes one element.  Always inline: no compiler vectorises a loop with a call. */
static inline __attribute__((always_inline)) void cg_gru_block_s2_f16_forward_element(
	long row, long unit,
	long rows, long units,
	__global const acc *a_c_at, ulong a_c_offset, long a_c_stride,
	__global const real *h_prev_at, ulong h_prev_offset, long h_prev_stride,
	__global const real *u_at, ulong u_offset, long u_stride,
	__global real *c_at, ulong c_offset, long c_stride,
	__global real *h_at, ulong h_offset, long h_stride)
{
	const acc a_c = GIVEN(a_c_at) ? a_c_at[a_c_offset + row * a_c_stride + unit] : 0;
	const acc h_prev = GIVEN(h_prev_at) ? to_acc(h_prev_at[h_prev_offset + row * h_prev_stride + unit]) : 0;
	const acc u = GIVEN(u_at) ? to_acc(u_at[u_offset + row * u_stride + unit]) : 0;

	/* c = tanh(a_c) */
	const acc c = acc_tanh(a_c);

	/* h = u * (h_prev - c) + c */
	const acc h = u * (h_prev - c) + c;

	if (GIVEN(c_at))
		c_at[c_offset + row * c_stride + unit] = to_real(c);
	if (GIVEN(h_at))
		h_at[h_offset + row * h_stride + unit] = to_real(h);
}

/*
 * cg_gru_block_s2_f16_forward: the forward step of cell gru_block, stage 2.
 * A null input reads as zeros; a null output is not written.  Strides are in elements.
 *
 *	a_c          in  acc     [rows, units]   pre-activation: x W + hr R + b
 *	h_prev       in  real    [rows, units]   output before the step
 *	u            in  real    [rows, units]   value that forward saves
 *	c            out real    [rows, units]   value that forward saves
 *	h            out real    [rows, units]   output after the step, which forward saves
 */
__kernel void cg_gru_block_s2_f16_forward(
	long rows, long units,
	__global const acc *restrict a_c_at, ulong a_c_offset, long a_c_stride,
	__global const real *restrict h_prev_at, ulong h_prev_offset, long h_prev_stride,
	__global const real *restrict u_at, ulong u_offset, long u_stride,
	__global real *restrict c_at, ulong c_offset, long c_stride,
	__global real *restrict h_at, ulong h_offset, long h_stride)
{
	const long first = get_global_id(0) * STRIP;
	const long last = units - first < STRIP ? units : first + STRIP;
	const long block = get_global_id(1) * ROWS;
	const long count = rows - block < ROWS ? rows - block : ROWS;

	for (long row = block; row < block + count; row++) {
		long unit = first;

#ifdef LANES
#pragma clang loop vectorize_width(LANES) interleave_count(8)
		for (; unit < last - (last - first) % (8 * LANES); unit++)
			cg_gru_block_s2_f16_forward_element(row, unit,
				rows, units,
				a_c_at, a_c_offset, a_c_stride,
				h_prev_at, h_prev_offset, h_prev_stride,
				u_at, u_offset, u_stride,
				c_at, c_offset, c_stride,
				h_at, h_offset, h_stride);
#pragma clang loop vectorize_width(LANES) vectorize_predicate(enable)
#endif
		for (; unit < last; unit++)
			cg_gru_block_s2_f16_forward_element(row, unit,
				rows, units,
				a_c_at, a_c_offset, a_c_stride,
				h_prev_at, h_prev_offset, h_prev_stride,
				u_at, u_offset, u_stride,
				c_at, c_offset, c_stride,
				h_at, h_offset, h_stride);
	}
}
