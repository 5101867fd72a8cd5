/* cg_lstm_f16_seq_grad: cellgrad emit lstm --pass seq_grad --dtype f16 --lang opencl */

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

/* Computes one element.  Always inline: no compiler vectorises a loop with a call. */
static inline __attribute__((always_inline)) void cg_lstm_f16_seq_grad_element(
	long row, long unit,
	long rows, long units,
	__global const acc *c_prev_at, ulong c_prev_offset, long c_prev_stride,
	__global const acc *dc_at, ulong dc_offset, long dc_stride,
	__global const acc *dh_at, ulong dh_offset, long dh_stride,
	__global const real *dh_out_at, ulong dh_out_offset, long dh_out_stride,
	__global const real *i_at, ulong i_offset, long i_stride,
	__global const real *f_at, ulong f_offset, long f_stride,
	__global const real *g_at, ulong g_offset, long g_stride,
	__global const real *o_at, ulong o_offset, long o_stride,
	__global const acc *c_at, ulong c_offset, long c_stride,
	__global real *da_i_at, ulong da_i_offset, long da_i_stride,
	__global real *da_f_at, ulong da_f_offset, long da_f_stride,
	__global real *da_g_at, ulong da_g_offset, long da_g_stride,
	__global real *da_o_at, ulong da_o_offset, long da_o_stride,
	__global acc *dc_prev_at, ulong dc_prev_offset, long dc_prev_stride)
{
	const acc c_prev = GIVEN(c_prev_at) ? c_prev_at[c_prev_offset + row * c_prev_stride + unit] : 0;
	const acc dc = GIVEN(dc_at) ? dc_at[dc_offset + row * dc_stride + unit] : 0;
	const acc dh = GIVEN(dh_at) ? dh_at[dh_offset + row * dh_stride + unit] : 0;
	const acc dh_out = GIVEN(dh_out_at) ? to_acc(dh_out_at[dh_out_offset + row * dh_out_stride + unit]) : 0;
	const acc i = GIVEN(i_at) ? to_acc(i_at[i_offset + row * i_stride + unit]) : 0;
	const acc f = GIVEN(f_at) ? to_acc(f_at[f_offset + row * f_stride + unit]) : 0;
	const acc g = GIVEN(g_at) ? to_acc(g_at[g_offset + row * g_stride + unit]) : 0;
	const acc o = GIVEN(o_at) ? to_acc(o_at[o_offset + row * o_stride + unit]) : 0;
	const acc c = GIVEN(c_at) ? c_at[c_offset + row * c_stride + unit] : 0;

	/* m = tanh(c) */
	const acc m = acc_tanh(c);

	/* h = o * m */
	const acc dh_all = dh + dh_out;
	const acc do_ = dh_all * m;
	const acc dm = dh_all * o;

	/* m = tanh(c) */
	const acc dc_all = dc + dm * (1 - m * m);

	/* o = sigmoid(a_o + p_o * c) */
	const acc da_o = do_ * (o * (1 - o));

	/* c = f * c_prev + i * g */
	const acc di = dc_all * g;
	const acc dg = dc_all * i;
	const acc df = dc_all * c_prev;
	const acc dc_prev = dc_all * f;

	/* g = tanh(a_g) */
	const acc da_g = dg * (1 - g * g);

	/* f = sigmoid(a_f + p_f * c_prev) */
	const acc da_f = df * (f * (1 - f));

	/* i = sigmoid(a_i + p_i * c_prev) */
	const acc da_i = di * (i * (1 - i));

	if (GIVEN(da_i_at))
		da_i_at[da_i_offset + row * da_i_stride + unit] = to_real(da_i);
	if (GIVEN(da_f_at))
		da_f_at[da_f_offset + row * da_f_stride + unit] = to_real(da_f);
	if (GIVEN(da_g_at))
		da_g_at[da_g_offset + row * da_g_stride + unit] = to_real(da_g);
	if (GIVEN(da_o_at))
		da_o_at[da_o_offset + row * da_o_stride + unit] = to_real(da_o);
	if (GIVEN(dc_prev_at))
		dc_prev_at[dc_prev_offset + row * dc_prev_stride + unit] = dc_prev;
}

/*
 * cg_lstm_f16_seq_grad: the gradient of cell lstm in a sequence.
 * A null input reads as zeros; a null output is not written.  Strides are in elements.
 *
 *	c_prev       in  acc     [rows, units]   state before the step
 *	dc           in  acc     [rows, units]   adjoint of c
 *	dh           in  acc     [rows, units]   adjoint of h
 *	dh_out       in  real    [rows, units]   second adjoint of h, from the layer above: both are added
 *	i            in  real    [rows, units]   value that forward saves
 *	f            in  real    [rows, units]   value that forward saves
 *	g            in  real    [rows, units]   value that forward saves
 *	o            in  real    [rows, units]   value that forward saves
 *	c            in  acc     [rows, units]   state after the step, which forward saves
 *	da_i         out real    [rows, units]   adjoint of a_i
 *	da_f         out real    [rows, units]   adjoint of a_f
 *	da_g         out real    [rows, units]   adjoint of a_g
 *	da_o         out real    [rows, units]   adjoint of a_o
 *	dc_prev      out acc     [rows, units]   adjoint of c_prev
 */
__kernel void cg_lstm_f16_seq_grad(
	long rows, long units,
	__global const acc *restrict c_prev_at, ulong c_prev_offset, long c_prev_stride,
	__global const acc *restrict dc_at, ulong dc_offset, long dc_stride,
	__global const acc *restrict dh_at, ulong dh_offset, long dh_stride,
	__global const real *restrict dh_out_at, ulong dh_out_offset, long dh_out_stride,
	__global const real *restrict i_at, ulong i_offset, long i_stride,
	__global const real *restrict f_at, ulong f_offset, long f_stride,
	__global const real *restrict g_at, ulong g_offset, long g_stride,
	__global const real *restrict o_at, ulong o_offset, long o_stride,
	__global const acc *restrict c_at, ulong c_offset, long c_stride,
	__global real *restrict da_i_at, ulong da_i_offset, long da_i_stride,
	__global real *restrict da_f_at, ulong da_f_offset, long da_f_stride,
	__global real *restrict da_g_at, ulong da_g_offset, long da_g_stride,
	__global real *restrict da_o_at, ulong da_o_offset, long da_o_stride,
	__global acc *restrict dc_prev_at, ulong dc_prev_offset, long dc_prev_stride)
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
			cg_lstm_f16_seq_grad_element(row, unit,
				rows, units,
				c_prev_at, c_prev_offset, c_prev_stride,
				dc_at, dc_offset, dc_stride,
				dh_at, dh_offset, dh_stride,
				dh_out_at, dh_out_offset, dh_out_stride,
				i_at, i_offset, i_stride,
				f_at, f_offset, f_stride,
				g_at, g_offset, g_stride,
				o_at, o_offset, o_stride,
				c_at, c_offset, c_stride,
				da_i_at, da_i_offset, da_i_stride,
				da_f_at, da_f_offset, da_f_stride,
				da_g_at, da_g_offset, da_g_stride,
				da_o_at, da_o_offset, da_o_stride,
				dc_prev_at, dc_prev_offset, dc_prev_stride);
#pragma clang loop vectorize_width(LANES) vectorize_predicate(enable)
#endif
		for (; unit < last; unit++)
			cg_lstm_f16_seq_grad_element(row, unit,
				rows, units,
				c_prev_at, c_prev_offset, c_prev_stride,
				dc_at, dc_offset, dc_stride,
				dh_at, dh_offset, dh_stride,
				dh_out_at, dh_out_offset, dh_out_stride,
				i_at, i_offset, i_stride,
				f_at, f_offset, f_stride,
				g_at, g_offset, g_stride,
				o_at, o_offset, o_stride,
				c_at, c_offset, c_stride,
				da_i_at, da_i_offset, da_i_stride,
				da_f_at, da_f_offset, da_f_stride,
				da_g_at, da_g_offset, da_g_stride,
				da_o_at, da_o_offset, da_o_stride,
				dc_prev_at, dc_prev_offset, dc_prev_stride);
	}
}

/* Adds each term of one element to the term's sum.  Always inline: no compiler vectorises a loop with a call. */
static inline __attribute__((always_inline)) void cg_lstm_f16_seq_grad_sum_part_element(
	long row, long unit,
	long rows, long units,
	__global const real *da_i_at, ulong da_i_offset, long da_i_stride,
	__global const real *da_f_at, ulong da_f_offset, long da_f_stride,
	__global const real *da_g_at, ulong da_g_offset, long da_g_stride,
	__global const real *da_o_at, ulong da_o_offset, long da_o_stride,
	__global acc *partial_at, ulong partial_offset,
	acc *sums)
{
	const acc da_i = GIVEN(da_i_at) ? to_acc(da_i_at[da_i_offset + row * da_i_stride + unit]) : 0;
	const acc da_f = GIVEN(da_f_at) ? to_acc(da_f_at[da_f_offset + row * da_f_stride + unit]) : 0;
	const acc da_g = GIVEN(da_g_at) ? to_acc(da_g_at[da_g_offset + row * da_g_stride + unit]) : 0;
	const acc da_o = GIVEN(da_o_at) ? to_acc(da_o_at[da_o_offset + row * da_o_stride + unit]) : 0;

	sums[0 * STRIP] += da_i;
	sums[1 * STRIP] += da_f;
	sums[2 * STRIP] += da_g;
	sums[3 * STRIP] += da_o;
}

/*
 * cg_lstm_f16_seq_grad_sum_part: partial sums over blocks of 64 rows, for later functions.
 * A null input reads as zeros; a null output is not written.  Strides are in elements.
 *
 *	da_i         in  real    [rows, units]   adjoint of a_i
 *	da_f         in  real    [rows, units]   adjoint of a_f
 *	da_g         in  real    [rows, units]   adjoint of a_g
 *	da_o         in  real    [rows, units]   adjoint of a_o
 *	partial      out acc     [blocks, values, units] partial sums of blocks of rows
 */
__kernel void cg_lstm_f16_seq_grad_sum_part(
	long rows, long units,
	__global const real *restrict da_i_at, ulong da_i_offset, long da_i_stride,
	__global const real *restrict da_f_at, ulong da_f_offset, long da_f_stride,
	__global const real *restrict da_g_at, ulong da_g_offset, long da_g_stride,
	__global const real *restrict da_o_at, ulong da_o_offset, long da_o_stride,
	__global acc *restrict partial_at, ulong partial_offset)
{
	enum { BLOCK = 64, VALUES = 4 };
	const long first = get_global_id(0) * STRIP;
	const long count = units - first < STRIP ? units - first : STRIP;
	const long step = get_global_size(1);

	for (long block = get_global_id(1); block * BLOCK < rows; block += step) {
		const long last = rows - block * BLOCK < BLOCK ? rows : (block + 1) * BLOCK;
		acc sums[VALUES * STRIP];

		for (int k = 0; k < VALUES * STRIP; k++)
			sums[k] = 0;
		for (long row = block * BLOCK; row < last; row++) {
#ifdef LANES
#pragma clang loop vectorize_width(LANES) vectorize_predicate(enable)
#endif
			for (long unit = 0; unit < count; unit++)
				cg_lstm_f16_seq_grad_sum_part_element(row, first + unit,
					rows, units,
					da_i_at, da_i_offset, da_i_stride,
					da_f_at, da_f_offset, da_f_stride,
					da_g_at, da_g_offset, da_g_stride,
					da_o_at, da_o_offset, da_o_stride,
					partial_at, partial_offset,
					sums + unit);
		}
		for (int value = 0; value < VALUES; value++) {
			__global acc *const partial = partial_at + partial_offset + (block * VALUES + value) * units + first;

			for (long unit = 0; unit < count; unit++)
				partial[unit] = sums[value * STRIP + unit];
		}
	}
}

/*
 * cg_lstm_f16_seq_grad_sum: the sums of partial sums over all blocks of rows.
 * A null input reads as zeros; a null output is not written.  Strides are in elements.
 *
 *	partial      in  acc     [blocks, values, units] partial sums of blocks of rows
 *	db_i         out real    [units]         adjoint of b_i
 *	db_f         out real    [units]         adjoint of b_f
 *	db_g         out real    [units]         adjoint of b_g
 *	db_o         out real    [units]         adjoint of b_o
 *	accumulate   in  int64_t                 1: add to the sums in memory; 0: overwrite them
 */
__kernel void cg_lstm_f16_seq_grad_sum(
	long rows, long units,
	__global const acc *restrict partial_at, ulong partial_offset,
	__global real *restrict db_i_at, ulong db_i_offset,
	__global real *restrict db_f_at, ulong db_f_offset,
	__global real *restrict db_g_at, ulong db_g_offset,
	__global real *restrict db_o_at, ulong db_o_offset,
	long accumulate)
{
	enum { BLOCK = 64, VALUES = 4 };
	const long blocks = (rows + BLOCK - 1) / BLOCK;
	const long first = get_global_id(0) * STRIP;
	const long count = units - first < STRIP ? units - first : STRIP;

	if (db_i_at) {
		__global real *const total = db_i_at + db_i_offset + first;
		acc sums[STRIP];

		for (int k = 0; k < STRIP; k++)
			sums[k] = 0;
		for (long block = 0; block < blocks; block++) {
			__global const acc *const partial = partial_at + partial_offset + (block * VALUES + 0) * units + first;

			for (long unit = 0; unit < count; unit++)
				sums[unit] += partial[unit];
		}
		for (long unit = 0; unit < count; unit++)
			total[unit] = to_real(accumulate ? to_acc(total[unit]) + sums[unit] : sums[unit]);
	}
	if (db_f_at) {
		__global real *const total = db_f_at + db_f_offset + first;
		acc sums[STRIP];

		for (int k = 0; k < STRIP; k++)
			sums[k] = 0;
		for (long block = 0; block < blocks; block++) {
			__global const acc *const partial = partial_at + partial_offset + (block * VALUES + 1) * units + first;

			for (long unit = 0; unit < count; unit++)
				sums[unit] += partial[unit];
		}
		for (long unit = 0; unit < count; unit++)
			total[unit] = to_real(accumulate ? to_acc(total[unit]) + sums[unit] : sums[unit]);
	}
	if (db_g_at) {
		__global real *const total = db_g_at + db_g_offset + first;
		acc sums[STRIP];

		for (int k = 0; k < STRIP; k++)
			sums[k] = 0;
		for (long block = 0; block < blocks; block++) {
			__global const acc *const partial = partial_at + partial_offset + (block * VALUES + 2) * units + first;

			for (long unit = 0; unit < count; unit++)
				sums[unit] += partial[unit];
		}
		for (long unit = 0; unit < count; unit++)
			total[unit] = to_real(accumulate ? to_acc(total[unit]) + sums[unit] : sums[unit]);
	}
	if (db_o_at) {
		__global real *const total = db_o_at + db_o_offset + first;
		acc sums[STRIP];

		for (int k = 0; k < STRIP; k++)
			sums[k] = 0;
		for (long block = 0; block < blocks; block++) {
			__global const acc *const partial = partial_at + partial_offset + (block * VALUES + 3) * units + first;

			for (long unit = 0; unit < count; unit++)
				sums[unit] += partial[unit];
		}
		for (long unit = 0; unit < count; unit++)
			total[unit] = to_real(accumulate ? to_acc(total[unit]) + sums[unit] : sums[unit]);
	}
}
