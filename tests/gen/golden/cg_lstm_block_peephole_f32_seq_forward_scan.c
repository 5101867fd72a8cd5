/* cg_lstm_block_peephole_f32_seq_forward_scan: cellgrad emit lstm_block --options peephole --shape scan --pass seq_forward --dtype f32 --lang c */
#ifndef CG_LSTM_BLOCK_PEEPHOLE_F32_SEQ_FORWARD_SCAN_H
#define CG_LSTM_BLOCK_PEEPHOLE_F32_SEQ_FORWARD_SCAN_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * cg_lstm_block_peephole_f32_seq_forward_scan:
 * all steps of a sequence of one direction of one layer, the forward step of cell lstm_block in each.
 *
 * All memory is the caller's, and no arrays overlap.  [steps, rows, units] are matrices, one of each step: from row to
 * row are NAME_stride elements, from step to step NAME_step; for a direction that begins at the last step NAME points
 * to that step, and NAME_step is negative.  An input that may be NULL, and is, reads as zeros; an output that may be
 * NULL, and is, is not written.
 *
 * The units are cut into shares, one for each thread.  Each share is computed by a call with the share's number, from 0
 * on, and the same struct; these calls run at the same time, in as many threads as there are shares.  Between phases
 * the call of each share runs meet(with), a barrier, which returns when the calls of all shares have run it.  With one
 * share meet may be NULL.
 * _bytes: how many bytes `work` must have for the sizes in the struct, whose pointers need not be set yet.
 * _pack: copies a share's part of R to `work`, in the order in which the loops read it; to be called before the first
 * call of the function, and again when R has changed.
 * The sum of an element is one chain in the order of k, so that the number of shares changes no bit.
 */
struct cg_lstm_block_peephole_f32_seq_forward_scan {
	int64_t steps;                                  /* number of steps of the sequence */
	int64_t rows;                                   /* number of rows of the batch */
	int64_t units;                                  /* number of units of the layer */
	int64_t shares;                                 /* number of shares of the units, one for each thread, at least 1 */
	const float *R; int64_t R_stride;               /* in     [4 units, units]  weights of a_i a_ci a_f a_o */
	int64_t by_input;                               /* 1: R is transposed, as in TensorFlow; 0: as in PyTorch */
	void *work;                                     /* scratch memory of as many bytes as ..._bytes() returns, aligned as by malloc */
	float *gates; int64_t gates_stride, gates_step; /* in out [steps, rows, 4 units]  x W + b, to which each step adds its recurrent products: a_i a_ci a_f a_o */
	const float *cs_first; int64_t cs_first_stride; /* in     [rows, units]  value before the first step; may be NULL */
	const float *wci;                               /* in     [units]  a weight per unit; may be NULL */
	const float *wcf;                               /* in     [units]  a weight per unit; may be NULL */
	const float *wco;                               /* in     [units]  a weight per unit; may be NULL */
	float *i; int64_t i_stride, i_step;             /* out    [steps, rows, units]  value that forward saves; may be NULL */
	float *ci; int64_t ci_stride, ci_step;          /* out    [steps, rows, units]  value that forward saves; may be NULL */
	float *f; int64_t f_stride, f_step;             /* out    [steps, rows, units]  value that forward saves; may be NULL */
	float *o; int64_t o_stride, o_step;             /* out    [steps, rows, units]  value that forward saves; may be NULL */
	float *cs; int64_t cs_stride, cs_step;          /* out    [steps, rows, units]  value after each step */
	float *co; int64_t co_stride, co_step;          /* out    [steps, rows, units]  value that forward saves; may be NULL */
	float *h; int64_t h_stride, h_step;             /* out    [steps, rows, units]  value after each step */
	float forget_bias;                              /* param, which the caller rounds to f32 */
	float cell_clip;                                /* param, which the caller rounds to f32 */
	const float *h_first; int64_t h_first_stride;   /* in     [rows, units]  value before the first step; may be NULL */
};

size_t cg_lstm_block_peephole_f32_seq_forward_scan_bytes(const struct cg_lstm_block_peephole_f32_seq_forward_scan *a);
void cg_lstm_block_peephole_f32_seq_forward_scan_pack(const struct cg_lstm_block_peephole_f32_seq_forward_scan *a, int64_t share);
void cg_lstm_block_peephole_f32_seq_forward_scan(const struct cg_lstm_block_peephole_f32_seq_forward_scan *a, int64_t share,
	void (*meet)(void *), void *with);

#ifdef __cplusplus
}
#endif

#endif

/* ---- one step: each element from the same element of its inputs ---- */

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

typedef float real;		/* the type in memory */
typedef float acc;		/* the type of arithmetic */
typedef uint32_t word;		/* an unsigned integer with the bits of an acc */

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

static INLINE word bits_of(acc x)
{
	union { acc x; word bits; } u;

	u.x = x;
	return u.bits;
}

static INLINE acc from_bits(word bits)
{
	union { word bits; acc x; } u;

	u.bits = bits;
	return u.x;
}

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

/* x, but at least -limit and at most limit; a limit that is not positive has no effect. */
static INLINE acc acc_clip(acc x, acc limit)
{
	acc y = x < -limit ? -limit : x;

	y = y > limit ? limit : y;
	return limit > 0 ? y + 0 : x;
}

static APART void cg_lstm_block_peephole_f32_seq_forward_run(int count,
	const acc *restrict a_i_at,
	const acc *restrict a_ci_at,
	const acc *restrict a_f_at,
	const acc *restrict a_o_at,
	const acc *restrict cs_prev_at,
	const real *restrict wci_at,
	const real *restrict wcf_at,
	const real *restrict wco_at,
	real *restrict i_at,
	real *restrict ci_at,
	real *restrict f_at,
	real *restrict o_at,
	acc *restrict cs_at,
	real *restrict co_at,
	real *restrict h_at,
	acc forget_bias,
	acc cell_clip)
{
	for (int unit = 0; unit < count; unit++) {
		const acc a_i = a_i_at[unit];
		const acc a_ci = a_ci_at[unit];
		const acc a_f = a_f_at[unit];
		const acc a_o = a_o_at[unit];
		const acc cs_prev = cs_prev_at[unit];
		const acc wci = wci_at[unit];
		const acc wcf = wcf_at[unit];
		const acc wco = wco_at[unit];

		/* i = sigmoid(a_i + wci * cs_prev) */
		const acc i = acc_sigmoid(a_i + wci * cs_prev);

		/* f = sigmoid(a_f + forget_bias + wcf * cs_prev) */
		const acc f = acc_sigmoid(a_f + forget_bias + wcf * cs_prev);

		/* ci = tanh(a_ci) */
		const acc ci = acc_tanh(a_ci);

		/* cs = clip(f * cs_prev + i * ci, cell_clip) */
		const acc cs = acc_clip(f * cs_prev + i * ci, cell_clip);

		/* co = tanh(cs) */
		const acc co = acc_tanh(cs);

		/* o = sigmoid(a_o + wco * cs) */
		const acc o = acc_sigmoid(a_o + wco * cs);

		/* h = o * co */
		const acc h = o * co;

		i_at[unit] = i;
		ci_at[unit] = ci;
		f_at[unit] = f;
		o_at[unit] = o;
		cs_at[unit] = cs;
		co_at[unit] = co;
		h_at[unit] = h;
	}
}

/*
 * cg_lstm_block_peephole_f32_seq_forward: the forward step of cell lstm_block in a sequence.
 * A null input reads as zeros; a null output is not written.  Strides are in elements.
 *
 *	a_i          in  acc     [rows, units]   pre-activation: x W + h R + b
 *	a_ci         in  acc     [rows, units]   pre-activation: x W + h R + b
 *	a_f          in  acc     [rows, units]   pre-activation: x W + h R + b
 *	a_o          in  acc     [rows, units]   pre-activation: x W + h R + b
 *	cs_prev      in  acc     [rows, units]   state before the step
 *	wci          in  real    [units]         a weight per unit
 *	wcf          in  real    [units]         a weight per unit
 *	wco          in  real    [units]         a weight per unit
 *	i            out real    [rows, units]   value that forward saves
 *	ci           out real    [rows, units]   value that forward saves
 *	f            out real    [rows, units]   value that forward saves
 *	o            out real    [rows, units]   value that forward saves
 *	cs           out acc     [rows, units]   state after the step, which forward saves
 *	co           out real    [rows, units]   value that forward saves
 *	h            out real    [rows, units]   output after the step, which forward saves
 *	forget_bias  in  acc                     param, which the caller rounds to real
 *	cell_clip    in  acc                     param, which the caller rounds to real
 */
static void cg_lstm_block_peephole_f32_seq_forward(
	int64_t rows, int64_t units,
	const acc *a_i, int64_t a_i_stride,
	const acc *a_ci, int64_t a_ci_stride,
	const acc *a_f, int64_t a_f_stride,
	const acc *a_o, int64_t a_o_stride,
	const acc *cs_prev, int64_t cs_prev_stride,
	const real *wci,
	const real *wcf,
	const real *wco,
	real *i, int64_t i_stride,
	real *ci, int64_t ci_stride,
	real *f, int64_t f_stride,
	real *o, int64_t o_stride,
	acc *cs, int64_t cs_stride,
	real *co, int64_t co_stride,
	real *h, int64_t h_stride,
	acc forget_bias,
	acc cell_clip)
{
	enum { STRIP = 256 };
	static const real absent[STRIP] = {0};
	real no_i[STRIP];
	real no_ci[STRIP];
	real no_f[STRIP];
	real no_o[STRIP];
	acc no_cs[STRIP];
	real no_co[STRIP];
	real no_h[STRIP];

	for (int64_t row = 0; row < rows; row++) {
		for (int64_t first = 0; first < units; first += STRIP) {
			const int count = units - first < STRIP ? (int)(units - first) : STRIP;

			cg_lstm_block_peephole_f32_seq_forward_run(count,
				a_i ? a_i + row * a_i_stride + first : absent,
				a_ci ? a_ci + row * a_ci_stride + first : absent,
				a_f ? a_f + row * a_f_stride + first : absent,
				a_o ? a_o + row * a_o_stride + first : absent,
				cs_prev ? cs_prev + row * cs_prev_stride + first : absent,
				wci ? wci + first : absent,
				wcf ? wcf + first : absent,
				wco ? wco + first : absent,
				i ? i + row * i_stride + first : no_i,
				ci ? ci + row * ci_stride + first : no_ci,
				f ? f + row * f_stride + first : no_f,
				o ? o + row * o_stride + first : no_o,
				cs ? cs + row * cs_stride + first : no_cs,
				co ? co + row * co_stride + first : no_co,
				h ? h + row * h_stride + first : no_h,
				forget_bias,
				cell_clip);
		}
	}
}

/* ---- products, by tiles of units ---- */

#include <string.h>

#ifdef __has_builtin
#if __has_builtin(__builtin_shuffle)
#define SHUFFLES
#endif
#endif

/*
 * A tile: some vectors of columns of a product's matrix b [k columns], packed.  The tile stores `stored` vectors, [k stored lanes], with
 * zeros beyond the last column and the last step of k.  Vector v has the columns from v * apart on,
 * counted from the tile's first column.
 */
#ifndef CG_TILE_H
#define CG_TILE_H

#include <stdint.h>

enum { CG_TILE_VECTORS = 4 };                            /* the most vectors that registers hold at once */

struct cg_tile {
	int vectors, stored;                             /* vectors to multiply; vectors that the tile stores */
	int64_t apart;                                   /* columns from the first of a vector to the first of the next */
	int64_t width, step;                             /* vector v has min(lanes, width - v * step) columns */
	void *data;
};

#endif

/* Multiplications and additions of the recurrent products may be fused, so a sum is right within a bound, but its bits
 * depend on the processor. */
#ifdef __clang__
#pragma STDC FP_CONTRACT ON
#elif defined __GNUC__
#pragma GCC push_options
#pragma GCC optimize ("fp-contract=fast")
#endif

/* VECTOR_BYTES: bytes of a vector; SUMS: the most vectors of sums that a block may have. */
#if defined __AVX512F__
enum { VECTOR_BYTES = 64, SUMS = 24 };
#elif defined __AVX2__
enum { VECTOR_BYTES = 32, SUMS = 12 };
#elif defined __aarch64__
enum { VECTOR_BYTES = 16, SUMS = 24 };
#else
enum { VECTOR_BYTES = 16, SUMS = 12 };
#endif
/* ROWS: the most rows of a block; VECTORS: the most vectors of a tile that a block multiplies; AHEAD: by how many
 * rows of the matrix the row that is prefetched is ahead of the row that is packed. */
enum { ROWS = 6, VECTORS = CG_TILE_VECTORS, AHEAD = 16 };

/* element: the type in memory of a and b; item: what is multiplied; number: what is summed; whole: an integer as
 * wide as an item. */
typedef float element;
typedef float item;
typedef float number;
typedef int32_t whole;
enum { AT_ONCE = 1 };

enum { LANES = VECTOR_BYTES / (int)sizeof(item), STEPS = (int)(sizeof(item) / sizeof(element)) };
typedef item item_vector __attribute__((vector_size(VECTOR_BYTES)));
typedef number sums __attribute__((vector_size(VECTOR_BYTES)));
typedef whole wholes __attribute__((vector_size(VECTOR_BYTES)));
/* The same types for the address of any element in memory, aligned or not for a vector. */
typedef item loose_item __attribute__((aligned(sizeof(element)), may_alias));
typedef element loose_element __attribute__((may_alias));
typedef item loose __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(element)), may_alias));
typedef number loose_sums __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(number)), may_alias));

/* The number of items for k steps, and for the zeros after them up to a multiple of AT_ONCE items. */
static INLINE int64_t count_items(int64_t k)
{
	const int64_t steps = STEPS * AT_ONCE;

	return (k + steps - 1) / steps * AT_ONCE;
}

/* Lane j of the result is a[j + further] if j & s is 0, else b[j + further - s]. */
static INLINE item_vector exchange(item_vector a, item_vector b, const int s, const int further)
{
#ifdef SHUFFLES
	static const whole numbers[16] = { 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15 };
	wholes lanes;

	memcpy(&lanes, numbers, sizeof lanes);
	return __builtin_shuffle(a, b, lanes + further + (((lanes & s) != 0) & (LANES - s)));
#else
	item_vector r;

	for (int j = 0; j < LANES; j++) {
		const int from = j + further + (j & s ? LANES - s : 0);

		r[j] = from < LANES ? a[from] : b[from - LANES];
	}
	return r;
#endif
}

/* r[i][j] becomes r[j][i]: pairs of vectors exchange half of their items, in groups of 1 item, then 2, 4 and so on. */
static INLINE void transpose(item_vector *r)
{
#pragma GCC unroll 4
	for (int s = 1; s < LANES; s *= 2)
#pragma GCC unroll 16
		for (int i = 0; i < LANES; i++)
			if (!(i & s)) {
				item_vector a = r[i], b = r[i + s];

				r[i] = exchange(a, b, s, 0);
				r[i + s] = exchange(a, b, s, s);
			}
}

/* to[p * step + j] = item p of row j, for as many items as a vector has lanes and j < stored; 0 from j = width on. */
static INLINE void turn_block(const int stored, const int64_t width, const char *rows, int64_t ld, item *to, int64_t step)
{
	const item_vector zeros = { 0 };
	item_vector r[LANES];

#pragma GCC unroll 16
	for (int j = 0; j < LANES; j++) {
		r[j] = zeros;
		if (j < stored && j < width)
			r[j] = *(const loose *)(const void *)(rows + j * ld);
	}
	transpose(r);
	for (int i = 0; i < LANES; i++)
		memcpy(to + i * step, &r[i], (size_t)stored * sizeof(item));
}

/* turn_block() for k items.  Rows are ld bytes apart; stored is at most the lanes of a vector. */
static INLINE void turn(const int stored, int64_t k, int64_t width, const void *from, int64_t ld,
	item *to, int64_t step)
{
	const char *rows = (const char *)from;
	int64_t p = 0;

	for (; p + LANES <= k; p += LANES)
		if (width < stored)
			turn_block(stored, width, rows + p * (int64_t)sizeof(item), ld, to + p * step, step);
		else
			turn_block(stored, stored, rows + p * (int64_t)sizeof(item), ld, to + p * step, step);
	for (; p < k; p++)
		for (int j = 0; j < stored; j++) {
			to[p * step + j] = 0;
			if (j < width)
				memcpy(to + p * step + j, rows + j * ld + p * (int64_t)sizeof(item), sizeof(item));
		}
}

/* The item of a column, made of the column's steps, which are ld elements apart in memory. */
static INLINE item merge(const element *column, int64_t ld)
{
	(void)ld;
	return *column;
}

/* Packs rows of memory, each with the steps of one column, as columns of [items step]: `stored` columns, zeros
 * from column `width` on. */
static INLINE void pack_rows(const int stored, int64_t k, int64_t width, const element *from, int64_t ld,
	item *to, int64_t step)
{
	const int64_t whole = k / STEPS;

	turn(stored, whole, width, from, ld * (int64_t)sizeof(element), to, step);
	for (int j = 0; j < stored && k % STEPS; j++) {
		to[whole * step + j] = 0;
		if (j < width)
			memcpy(to + whole * step + j, from + j * ld + k - 1, sizeof(element));
	}
}

/* Packs the rows of memory of an item's steps as `stored` items: element j of each row goes to item j; zeros from
 * item `width` on. */
static INLINE void pack_item(const int stored, int64_t steps, int64_t width, const element *from, int64_t ld,
	item *to)
{
	loose_element *elements = (loose_element *)to;

	if (width >= stored && steps == STEPS) {
		for (int j = 0; j < stored; j++)
			to[j] = merge(from + j, ld);
		return;
	}
	for (int j = 0; j < stored; j++)
		for (int s = 0; s < STEPS; s++)
			elements[j * STEPS + s] = j < width && s < steps ? from[s * ld + j] : 0;
}

/* The sums plus a times each item of v. */
static INLINE sums add(sums sum, item a, item_vector v)
{
	return sum + a * v;
}

static inline int64_t least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

/* The number of columns that the tile's vector v has. */
static inline int64_t width_of(const struct cg_tile *tile, int v)
{
	const int64_t width = tile->width - v * tile->step;

	return width < 0 ? 0 : least(width, LANES);
}

/*
 * Fills a tile from op(b) [k ...], b beginning at the tile's first column, in the order that reads whole cache lines:
 * vector by vector where rows of memory are columns of the tile, else item by item.
 */
static void pack_tile(const struct cg_tile *tile, int transpose_b, int64_t k, const void *b, int64_t ldb)
{
	const int64_t row = (int64_t)tile->stored * LANES, filled = (k + STEPS - 1) / STEPS, items = count_items(k);
	const element *from = (const element *)b;
	item *to = (item *)tile->data;

	if (items > filled)
		memset(to + filled * row, 0, (size_t)((items - filled) * row) * sizeof(item));
	for (int v = 0; v < tile->stored && transpose_b; v++)
		pack_rows(LANES, k, width_of(tile, v), from + v * tile->apart * ldb, ldb, to + v * LANES, row);
	for (int64_t p = 0; p < k && !transpose_b; p += STEPS, to += row)
		for (int v = 0; v < tile->stored; v++) {
			const element *of_row = from + p * ldb + v * tile->apart;
			const int64_t width = width_of(tile, v), steps = least(k - p, STEPS);

			__builtin_prefetch(of_row + AHEAD * ldb);
			if (STEPS == 1 && width == LANES)
				memcpy(to + v * LANES, of_row, sizeof(item_vector));
			else
				pack_item(LANES, steps, width, of_row, ldb, to + v * LANES);
		}
}

/* The most rows of c that multiply_edge() copies at a time. */
enum { COPIED = ROWS };

/* Item p of a row of a. */
static INLINE item load(const element *row, int64_t p)
{
	return *(const loose_item *)(row + p * STEPS);
}

/* c += a b for m rows and some vectors, which registers hold; the vectors of c are `apart` elements from each other. */
static INLINE void block(const int m, const int vectors, int64_t items, const element *a, int64_t lda,
	const item *restrict b, int64_t ldb, number *restrict c, int64_t ldc, int64_t apart)
{
	sums sum[ROWS][VECTORS];

	for (int i = 0; i < m; i++)
		for (int j = 0; j < vectors; j++)
			sum[i][j] = *(const loose_sums *)(c + i * ldc + j * apart);
	for (int64_t p = 0; p < items; p++) {
		item_vector v[VECTORS];

		/* Keeps for the step the fewer of rows and vectors, and loads the others one by one: else there
		 * would be too few registers for the sums. */
		for (int j = 0; j < vectors && vectors < m; j++)
			v[j] = *(const loose *)(b + p * ldb + j * LANES);
		for (int i = 0; i < m && vectors < m; i++)
			for (int j = 0; j < vectors; j++)
				sum[i][j] = add(sum[i][j], load(a + i * lda, p), v[j]);
		for (int j = 0; j < vectors && vectors >= m; j++) {
			v[j] = *(const loose *)(b + p * ldb + j * LANES);
			for (int i = 0; i < m; i++)
				sum[i][j] = add(sum[i][j], load(a + i * lda, p), v[j]);
		}
	}
	for (int i = 0; i < m; i++)
		for (int j = 0; j < vectors; j++)
			*(loose_sums *)(c + i * ldc + j * apart) = sum[i][j];
}

/* Multiplies m rows in blocks of nearly equal height: every block reads b from the second-level cache, and a
 * block of few rows would wait for b. */
static INLINE void multiply_rows(int64_t m, const int vectors, int64_t items, const element *a, int64_t lda,
	const item *b, int64_t ldb, number *c, int64_t ldc, int64_t apart)
{
	const int most = (int)least(SUMS / vectors, ROWS);
	int64_t rows;

	for (int64_t blocks = (m + most - 1) / most; m; m -= rows, a += rows * lda, c += rows * ldc, blocks--) {
		rows = (m + blocks - 1) / blocks;
		switch (rows) {
		case 1: block(1, vectors, items, a, lda, b, ldb, c, ldc, apart); break;
		case 2: block(2, vectors, items, a, lda, b, ldb, c, ldc, apart); break;
		case 3: block(3, vectors, items, a, lda, b, ldb, c, ldc, apart); break;
		case 4: if (most >= 4) block(4, vectors, items, a, lda, b, ldb, c, ldc, apart); break;
		case 5: if (most >= 5) block(5, vectors, items, a, lda, b, ldb, c, ldc, apart); break;
		case 6: if (most >= 6) block(6, vectors, items, a, lda, b, ldb, c, ldc, apart); break;
		}
	}
}

static void multiply_vectors(int64_t m, int vectors, int64_t items, const element *a, int64_t lda,
	const item *b, int64_t ldb, number *c, int64_t ldc, int64_t apart)
{
	switch (vectors) {
	case 1:  multiply_rows(m, 1, items, a, lda, b, ldb, c, ldc, apart); break;
	case 2:  multiply_rows(m, 2, items, a, lda, b, ldb, c, ldc, apart); break;
	case 3:  multiply_rows(m, 3, items, a, lda, b, ldb, c, ldc, apart); break;
	default: multiply_rows(m, VECTORS, items, a, lda, b, ldb, c, ldc, apart); break;
	}
}

/* Multiplies vectors of which one is not whole, by a copy of some rows of c. */
static void multiply_edge(const struct cg_tile *tile, int first, int vectors, int64_t m, int64_t items,
	const element *a, int64_t lda, number *c, int64_t ldc)
{
	const item *b = (const item *)tile->data + first * LANES;
	number copy[COPIED * VECTORS * LANES];
	int64_t width[VECTORS];

	for (int v = 0; v < vectors; v++)
		width[v] = width_of(tile, first + v);
	for (int64_t i = 0; i < m; i += COPIED) {
		int64_t rows = least(m - i, COPIED);

		for (int64_t r = 0; r < rows * vectors; r++)
			for (int64_t j = 0; j < LANES; j++)
				copy[r * LANES + j] = j < width[r % vectors]
					? c[(i + r / vectors) * ldc + r % vectors * tile->apart + j] : 0;
		multiply_vectors(rows, vectors, items, a + i * lda, lda, b, (int64_t)tile->stored * LANES,
			copy, vectors * LANES, LANES);
		for (int64_t r = 0; r < rows * vectors; r++)
			for (int64_t j = 0; j < width[r % vectors]; j++)
				c[(i + r / vectors) * ldc + r % vectors * tile->apart + j] = copy[r * LANES + j];
	}
}

/*
 * c [m ...] += a [m k] tile, where c begins at the tile's first column.  Rows of a have zeros up to a multiple of AT_ONCE
 * items.  A block of rows by some vectors stays in registers while k runs, so the sum of each element is one chain in
 * the order of k, whatever its neighbours are.
 */
static void multiply_tile(const struct cg_tile *tile, int64_t m, int64_t k, const void *a, int64_t lda,
	void *c, int64_t ldc)
{
	int whole = tile->width - (tile->vectors - 1) * tile->step >= LANES;

	for (int v = 0; v < tile->vectors; v += VECTORS) {
		int vectors = (int)least(tile->vectors - v, VECTORS);
		number *at = (number *)c + v * tile->apart;

		if (whole)
			multiply_vectors(m, vectors, count_items(k), (const element *)a, lda,
				(const item *)tile->data + v * LANES, (int64_t)tile->stored * LANES, at, ldc, tile->apart);
		else
			multiply_edge(tile, v, vectors, m, count_items(k), (const element *)a, lda, at, ldc);
	}
}

#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#elif defined __GNUC__
#pragma GCC pop_options
#endif

/* ---- products by units ---- */

enum { STAGES = 1, PLACES = 0, LINE = 64 };        /* LINE: bytes of a cache line */

/* The address n elements on; an absent (NULL) array stays absent. */
#define AT(p, n) ((p) ? (p) + (n) : (p))

/* For each stage: its first gate among all gates that products add to, and how many of these gates the stage has. */
static const struct { int first, count; } stage_gates[STAGES] = { { 0, 4 } };

/* The product of a stage: the output of the step before, or the value of the stage before, times the matrix. */
struct product {
	int gates;                       /* columns of the result for each unit, `units` apart */
	int64_t k;                       /* terms of a sum */
	int transposed;                  /* the matrix is stored as [columns, k] */
	const real *R;
	int64_t stride;
};

static struct product product_of(const struct cg_lstm_block_peephole_f32_seq_forward_scan *a, int stage)
{
	const real *const R[STAGES] = { a->R };
	const int64_t stride[STAGES] = { a->R_stride };
	const struct product p = { stage_gates[stage].count, a->units, !a->by_input, R[stage], stride[stage] };

	return p;
}

/* The vectors of a tile: where a unit has several columns, one for each column; else several vectors of units,
 * fewer where a share would have no tile. */
static int count_vectors(const struct cg_lstm_block_peephole_f32_seq_forward_scan *a, const struct product *p)
{
	int vectors = p->gates;

	if (p->gates == 1)
		for (vectors = VECTORS; vectors > 1 && a->units < (int64_t)vectors * LANES * a->shares; )
			vectors /= 2;
	return vectors;
}

static int64_t count_tile_units(const struct cg_lstm_block_peephole_f32_seq_forward_scan *a, const struct product *p)
{
	return (p->gates == 1 ? (int64_t)count_vectors(a, p) : 1) * LANES;
}

static size_t count_tile_bytes(const struct cg_lstm_block_peephole_f32_seq_forward_scan *a, const struct product *p)
{
	return (size_t)(count_items(p->k) * count_vectors(a, p) * LANES) * sizeof(item);
}

/* The units of a share. */
struct range { int64_t first, end; };

static struct range share_units(const struct cg_lstm_block_peephole_f32_seq_forward_scan *a, int64_t share)
{
	int64_t whole = 1, each;
	struct range u;

	for (int stage = 0; stage < STAGES; stage++) {
		const struct product p = product_of(a, stage);

		whole = count_tile_units(a, &p) > whole ? count_tile_units(a, &p) : whole;
	}
	each = ((a->units + a->shares - 1) / a->shares + whole - 1) / whole * whole;
	u.first = least(share * each, a->units);
	u.end = least(u.first + each, a->units);
	return u;
}

/* ---- the workspace: packed matrices, then the shares' copies, then matrices [rows, units] of acc ---- */

static size_t round_to_lines(size_t bytes)
{
	return (bytes + LINE - 1) / LINE * LINE;
}

static size_t count_matrix_bytes(const struct cg_lstm_block_peephole_f32_seq_forward_scan *a, int stages)
{
	size_t bytes = 0;

	for (int stage = 0; stage < stages; stage++) {
		const struct product p = product_of(a, stage);
		const int64_t units = count_tile_units(a, &p);

		bytes += round_to_lines((size_t)((a->units + units - 1) / units) * count_tile_bytes(a, &p));
	}
	return bytes;
}

static size_t count_copy_bytes(const struct cg_lstm_block_peephole_f32_seq_forward_scan *a)
{
	(void)a;
	return 0;
}

/* The tile whose first unit is `unit`, with the units before `end`. */
static struct cg_tile tile_at(const struct cg_lstm_block_peephole_f32_seq_forward_scan *a, int stage, const struct product *p,
	int64_t unit, int64_t end)
{
	const int64_t beside = (end - unit + LANES - 1) / LANES;
	struct cg_tile tile;

	tile.stored = tile.vectors = count_vectors(a, p);
	tile.apart = a->units;
	tile.step = 0;
	if (p->gates == 1) {
		tile.vectors = beside < tile.stored ? (int)beside : tile.stored;
		tile.apart = tile.step = LANES;
	}
	tile.width = end - unit;
	tile.data = (char *)a->work + count_matrix_bytes(a, stage)
		+ (size_t)(unit / count_tile_units(a, p)) * count_tile_bytes(a, p);
	return tile;
}

/* c [rows ...] += operand [rows k] R for a share's units, tile by tile.  Every other step takes the tiles
 * backwards, since the tiles that the step before read last are still in the cache. */
static void multiply_some(const struct cg_lstm_block_peephole_f32_seq_forward_scan *a, int stage, const struct product *p,
	const struct range *u, int64_t s, int64_t rows, const void *operand, int64_t stride, acc *c, int64_t c_stride)
{
	const int64_t units = count_tile_units(a, p), tiles = (u->end - u->first + units - 1) / units;

	for (int64_t t = 0; t < tiles; t++) {
		const int64_t unit = u->first + (s % 2 ? tiles - 1 - t : t) * units;
		const struct cg_tile tile = tile_at(a, stage, p, unit, u->end);

		multiply_tile(&tile, rows, p->k, operand, stride, c + unit, c_stride);
	}
}

static void pack_one(const struct product *p, const struct cg_tile *tile, int64_t unit)
{
	pack_tile(tile, p->transposed, p->k, p->R + (p->transposed ? unit * p->stride : unit), p->stride);
}

/* c [rows ...] += operand [rows k] R for a share's units and all rows. */
static void multiply(const struct cg_lstm_block_peephole_f32_seq_forward_scan *a, int stage, int64_t share, const struct range *u, int64_t s,
	const real *operand, int64_t stride, acc *c, int64_t c_stride)
{
	const struct product p = product_of(a, stage);

	(void)share;
	multiply_some(a, stage, &p, u, s, a->rows, operand, stride, c, c_stride);
}

#ifdef __cplusplus
extern "C" {
#endif

/* ---- functions for the caller ---- */

size_t cg_lstm_block_peephole_f32_seq_forward_scan_bytes(const struct cg_lstm_block_peephole_f32_seq_forward_scan *a)
{
	return count_matrix_bytes(a, STAGES) + (size_t)a->shares * count_copy_bytes(a);
}

void cg_lstm_block_peephole_f32_seq_forward_scan_pack(const struct cg_lstm_block_peephole_f32_seq_forward_scan *a, int64_t share)
{
	const struct range u = share_units(a, share);

	for (int stage = 0; stage < STAGES; stage++) {
		const struct product p = product_of(a, stage);

		for (int64_t unit = u.first; unit < u.end; unit += count_tile_units(a, &p)) {
			const struct cg_tile tile = tile_at(a, stage, &p, unit, u.end);

			pack_one(&p, &tile, unit);
		}
	}
}

void cg_lstm_block_peephole_f32_seq_forward_scan(const struct cg_lstm_block_peephole_f32_seq_forward_scan *a, int64_t share,
	void (*meet)(void *), void *with)
{
	const struct range u = share_units(a, share);
	const int64_t units = a->units, count = u.end - u.first;

	for (int64_t s = 0; s < a->steps; s++) {
		acc *const gates = a->gates + s * a->gates_step;

		if (s || a->h_first)
			multiply(a, 0, share, &u, s, s ? a->h + (s - 1) * a->h_step : a->h_first,
				s ? a->h_stride : a->h_first_stride, gates, a->gates_stride);
		cg_lstm_block_peephole_f32_seq_forward(a->rows, count,
			gates + 0 * units + u.first, a->gates_stride,
			gates + 1 * units + u.first, a->gates_stride,
			gates + 2 * units + u.first, a->gates_stride,
			gates + 3 * units + u.first, a->gates_stride,
			s ? AT(a->cs, (s - 1) * a->cs_step + u.first) : AT(a->cs_first, u.first),
				s ? a->cs_stride : a->cs_first_stride,
			AT(a->wci, u.first),
			AT(a->wcf, u.first),
			AT(a->wco, u.first),
			AT(a->i, s * a->i_step + u.first), a->i_stride,
			AT(a->ci, s * a->ci_step + u.first), a->ci_stride,
			AT(a->f, s * a->f_step + u.first), a->f_stride,
			AT(a->o, s * a->o_step + u.first), a->o_stride,
			AT(a->cs, s * a->cs_step + u.first), a->cs_stride,
			AT(a->co, s * a->co_step + u.first), a->co_stride,
			AT(a->h, s * a->h_step + u.first), a->h_stride,
			a->forget_bias,
			a->cell_clip);
		if (meet && s + 1 < a->steps)
			meet(with);
	}
}

#ifdef __cplusplus
}
#endif
