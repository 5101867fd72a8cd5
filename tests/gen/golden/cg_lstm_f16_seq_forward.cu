/* cg_lstm_f16_seq_forward: cellgrad emit lstm --pass seq_forward --dtype f16 --lang cuda */

typedef unsigned short real;		/* the type in memory: a half's bits */
typedef float acc;			/* the type of arithmetic */
typedef unsigned int word;		/* an unsigned integer with the bits of an acc */

static __device__ __forceinline__ word bits_of(acc x)
{
	return __float_as_uint(x);
}

static __device__ __forceinline__ acc from_bits(word bits)
{
	return __uint_as_float(bits);
}

/* Rounds to nearest, ties to even. A carry of the rounding goes into the exponent, and can lead to infinity. */
static __device__ __forceinline__ real to_real(acc x)
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

static __device__ __forceinline__ acc muladd(acc a, acc b, acc c)
{
	return __fmaf_rn(a, b, c);
}

static __device__ __forceinline__ acc mulsum(acc a, acc b, acc c)
{
	return muladd(a, b, c);
}

/* tanh(s) to one part in 2^27, for |s| <= 3/8 ln(2). By tanh(s), e^2s is (1 + tanh(s)) / (1 - tanh(s)). */
static __device__ __forceinline__ acc acc_tanh_near(acc s)
{
	acc w = s * s;
	acc v = w - 1.30052653f;

	return mulsum(s * w * -0.0512202159f, mulsum(v, v, 4.81645477f), s);
}

/* 1/d to one part in 30800, for d in [1, 2^125]. ACC_CHORDS minus the bits of d gives chords of 1/d, placed so that d
   times the chord is near 1. The chord is then multiplied by a parabola, with leading coefficient 1, that is close to
   the inverse of that product. */
static __device__ __forceinline__ acc acc_inverse_seed(acc d)
{
	acc chord = from_bits(ACC_CHORDS - bits_of(d));
	acc t = muladd(d, chord, -ACC_PARABOLA_T);

	return chord * mulsum(t, t, ACC_PARABOLA_C);
}

/* 1/d to within 2^-14. */
static __device__ __forceinline__ acc acc_rough_inverse(acc d)
{
	return acc_inverse_seed(d);
}

/* tanh|x| = (e^2|x| - 1) / (e^2|x| + 1), where e^2|x| is 2^n (1 + u) / (1 - u). 2|x|/ln(2) + 1/4 is rounded to
   64ths, and then down to n; with 1/4 and not 1/2, the two terms of the variable e cancel little where n is 1. The low
   bits of k are n plus the exponent of 1, then 6 bits of 64ths, which are cleared. n ln(2)/2 is not exact, but b
   nearly cancels it, so that muladd rounds once. The last step corrects the quotient q by its remainder, f - q d. */
static __device__ __forceinline__ acc acc_tanh(acc x)
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
static __device__ __forceinline__ acc acc_power(acc k)
{
	return from_bits(bits_of(k) << ACC_FRACTION);
}

/* ACC_ROUND + n, where n is the integer nearest to x/ln(2): e^x = 2^n e^r. */
static __device__ __forceinline__ acc acc_octaves(acc x)
{
	return mulsum(x, ACC_PER_LN2, ACC_ROUND);
}

/* r = x - n ln(2), where k is ACC_ROUND + n. The products of n with both parts of ln(2) are exact, and so is the
   difference of x and n ACC_LN2, since x and n ACC_LN2 are so close. */
static __device__ __forceinline__ acc acc_rest(acc x, acc k)
{
	acc n = k - ACC_ROUND;

	return muladd(-n, ACC_LN2_REST, muladd(-n, ACC_LN2, x));
}

/* e^r - 1 = r + r^2 A B C to one part in 2^26, for |r| <= ln(2)/2: A and B are parabolas in r without real zeros, C is
   a constant. */
static __device__ __forceinline__ acc acc_growth(acc r)
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
static __device__ __forceinline__ acc acc_sigmoid(acc x)
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

/* Consecutive units of a row for one thread: 16 bytes of reals, or fewer, or one unit. */
template <class element, int n>
struct __align__(n * sizeof(element) < 16 ? n * sizeof(element) : 16) run {
	element of[n];
};

/* Is the run whole, and aligned for accesses of 16 bytes, or of the run's size if that is smaller?  A run of one
   unit is always whole and aligned. */
template <class element, int n>
static __device__ __forceinline__ bool whole_run(const element *at, int count)
{
	const unsigned long long bytes = n * sizeof(element) < 16 ? n * sizeof(element) : 16;

	return n == 1 || (count == n && (unsigned long long)at % bytes == 0);
}

/* Loads the first `count` units of an input, which may be absent; the others are zeros. */
template <int n, class element>
static __device__ __forceinline__ run<element, n> load_run(const element *at, long long first, int count)
{
	run<element, n> loaded = {};

	if (at && whole_run<element, n>(at + first, count))
		return *(const run<element, n> *)(at + first);
	for (int unit = 0; at && unit < n; unit++)
		if (unit < count)
			loaded.of[unit] = at[first + unit];
	return loaded;
}

template <int n, class element>
static __device__ __forceinline__ void store_run(element *at, long long first, int count, const run<element, n> &from)
{
	if (at && whole_run<element, n>(at + first, count))
		*(run<element, n> *)(at + first) = from;
	else
		for (int unit = 0; at && unit < n; unit++)
			if (unit < count)
				at[first + unit] = from.of[unit];
}

/* Computes runs of RUN units, in a loop where the grid has fewer threads than there are runs.  Always inline, so
 * that the qualifiers of the kernel's arguments hold in this function. */
template <int RUN>
static __device__ __forceinline__ void cg_lstm_f16_seq_forward_walk(
	long long rows, long long units,
	const acc *a_i_at, long long a_i_stride,
	const acc *a_f_at, long long a_f_stride,
	const acc *a_g_at, long long a_g_stride,
	const acc *a_o_at, long long a_o_stride,
	const acc *c_prev_at, long long c_prev_stride,
	real *i_at, long long i_stride,
	real *f_at, long long f_stride,
	real *g_at, long long g_stride,
	real *o_at, long long o_stride,
	acc *c_at, long long c_stride,
	real *h_at, long long h_stride)
{
	const long long unit_at = (blockIdx.x * (long long)blockDim.x + threadIdx.x) * RUN;
	const long long unit_stride = gridDim.x * (long long)blockDim.x * RUN;
	const long long row_stride = gridDim.y * (long long)blockDim.y;

	for (long long row = blockIdx.y * (long long)blockDim.y + threadIdx.y; row < rows; row += row_stride) {
		for (long long first = unit_at; first < units; first += unit_stride) {
			const int count = units - first < RUN ? (int)(units - first) : RUN;
			const run<acc, RUN> a_i_run = load_run<RUN>(a_i_at, row * a_i_stride + first, count);
			const run<acc, RUN> a_f_run = load_run<RUN>(a_f_at, row * a_f_stride + first, count);
			const run<acc, RUN> a_g_run = load_run<RUN>(a_g_at, row * a_g_stride + first, count);
			const run<acc, RUN> a_o_run = load_run<RUN>(a_o_at, row * a_o_stride + first, count);
			const run<acc, RUN> c_prev_run = load_run<RUN>(c_prev_at, row * c_prev_stride + first, count);
			run<real, RUN> i_run;
			run<real, RUN> f_run;
			run<real, RUN> g_run;
			run<real, RUN> o_run;
			run<acc, RUN> c_run;
			run<real, RUN> h_run;

			#pragma unroll
			for (int unit = 0; unit < RUN; unit++) {
				const acc a_i = a_i_run.of[unit];
				const acc a_f = a_f_run.of[unit];
				const acc a_g = a_g_run.of[unit];
				const acc a_o = a_o_run.of[unit];
				const acc c_prev = c_prev_run.of[unit];

				/* i = sigmoid(a_i + p_i * c_prev) */
				const acc i = acc_sigmoid(a_i);

				/* f = sigmoid(a_f + p_f * c_prev) */
				const acc f = acc_sigmoid(a_f);

				/* g = tanh(a_g) */
				const acc g = acc_tanh(a_g);

				/* c = f * c_prev + i * g */
				const acc c = f * c_prev + i * g;

				/* o = sigmoid(a_o + p_o * c) */
				const acc o = acc_sigmoid(a_o);

				/* m = tanh(c) */
				const acc m = acc_tanh(c);

				/* h = o * m */
				const acc h = o * m;

				i_run.of[unit] = to_real(i);
				f_run.of[unit] = to_real(f);
				g_run.of[unit] = to_real(g);
				o_run.of[unit] = to_real(o);
				c_run.of[unit] = c;
				h_run.of[unit] = to_real(h);
			}

			store_run(i_at, row * i_stride + first, count, i_run);
			store_run(f_at, row * f_stride + first, count, f_run);
			store_run(g_at, row * g_stride + first, count, g_run);
			store_run(o_at, row * o_stride + first, count, o_run);
			store_run(c_at, row * c_stride + first, count, c_run);
			store_run(h_at, row * h_stride + first, count, h_run);
		}
	}
}

/*
 * cg_lstm_f16_seq_forward: the forward step of cell lstm in a sequence.
 * A null input reads as zeros; a null output is not written.  Strides are in elements.
 *
 *	a_i          in  acc     [rows, units]   pre-activation: x W + h R + b
 *	a_f          in  acc     [rows, units]   pre-activation: x W + h R + b
 *	a_g          in  acc     [rows, units]   pre-activation: x W + h R + b
 *	a_o          in  acc     [rows, units]   pre-activation: x W + h R + b
 *	c_prev       in  acc     [rows, units]   state before the step
 *	i            out real    [rows, units]   value that forward saves
 *	f            out real    [rows, units]   value that forward saves
 *	g            out real    [rows, units]   value that forward saves
 *	o            out real    [rows, units]   value that forward saves
 *	c            out acc     [rows, units]   state after the step, which forward saves
 *	h            out real    [rows, units]   output after the step, which forward saves
 */
extern "C" __global__ void cg_lstm_f16_seq_forward(
	long long rows, long long units,
	const acc *__restrict__ a_i_at, long long a_i_stride,
	const acc *__restrict__ a_f_at, long long a_f_stride,
	const acc *__restrict__ a_g_at, long long a_g_stride,
	const acc *__restrict__ a_o_at, long long a_o_stride,
	const acc *__restrict__ c_prev_at, long long c_prev_stride,
	real *__restrict__ i_at, long long i_stride,
	real *__restrict__ f_at, long long f_stride,
	real *__restrict__ g_at, long long g_stride,
	real *__restrict__ o_at, long long o_stride,
	acc *__restrict__ c_at, long long c_stride,
	real *__restrict__ h_at, long long h_stride)
{
	cg_lstm_f16_seq_forward_walk<8>(
		rows, units,
		a_i_at, a_i_stride,
		a_f_at, a_f_stride,
		a_g_at, a_g_stride,
		a_o_at, a_o_stride,
		c_prev_at, c_prev_stride,
		i_at, i_stride,
		f_at, f_stride,
		g_at, g_stride,
		o_at, o_stride,
		c_at, c_stride,
		h_at, h_stride);
}

/*
 * cg_lstm_f16_seq_forward_one: the same kernel, one unit a thread, with the same arguments and bits,
 * where rows * ceil(units / 8) < 256 * multiprocessors.
 */
extern "C" __global__ void cg_lstm_f16_seq_forward_one(
	long long rows, long long units,
	const acc *__restrict__ a_i_at, long long a_i_stride,
	const acc *__restrict__ a_f_at, long long a_f_stride,
	const acc *__restrict__ a_g_at, long long a_g_stride,
	const acc *__restrict__ a_o_at, long long a_o_stride,
	const acc *__restrict__ c_prev_at, long long c_prev_stride,
	real *__restrict__ i_at, long long i_stride,
	real *__restrict__ f_at, long long f_stride,
	real *__restrict__ g_at, long long g_stride,
	real *__restrict__ o_at, long long o_stride,
	acc *__restrict__ c_at, long long c_stride,
	real *__restrict__ h_at, long long h_stride)
{
	cg_lstm_f16_seq_forward_walk<1>(
		rows, units,
		a_i_at, a_i_stride,
		a_f_at, a_f_stride,
		a_g_at, a_g_stride,
		a_o_at, a_o_stride,
		c_prev_at, c_prev_stride,
		i_at, i_stride,
		f_at, f_stride,
		g_at, g_stride,
		o_at, o_stride,
		c_at, c_stride,
		h_at, h_stride);
}
