/* cg_rnn_relu_f64_grad: cellgrad emit rnn_relu --pass grad --dtype f64 --lang c */

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

typedef double real;		/* the type in memory */
typedef double acc;		/* the type of arithmetic */
typedef uint64_t word;		/* an unsigned integer with the bits of an acc */

#define ACC_ONE 0x3ff0000000000000u		/* the bits of 1 */
#define ACC_SIGN 0x8000000000000000u		/* the bits of -0 */
#define ACC_INFINITY 0x7ff0000000000000u	/* the bits of infinity */
#define ACC_INVERSE 0x7fe0000000000000u		/* twice the bits of 1; less those of 2^n: the bits of 2^-n */
#define ACC_FRACTION 52
#define ACC_SMALLEST 2.2250738585072014e-308	/* 2^-1022, the smallest normal number */
#define ACC_LARGEST_POWER 4.4942328371557898e307	/* 2^1022, whose inverse is normal */

#define ACC_ROUND 6755399441056767.0	/* 1.5 * 2^52 + 1023: a sum with it has an integer + 1023 in its low bits */
#define ACC_ROUND_64THS 105553116267519.0	/* 1.5 * 2^46 + 1023: the low bits are in 64ths */
#define ACC_PER_LN2 1.4426950408889634
#define ACC_LN2 0.69314718036912382	/* the upper 32 bits of ln(2): products with small integers are exact */
#define ACC_LN2_REST 1.908214929270822e-10	/* the next 42 bits of ln(2), rounded */
#define ACC_PER_HALF_LN2 2.8853900817779268
#define ACC_HALF_LN2 0.34657359027997264
#define ACC_EXP_LOWEST -708.39641853226408	/* for x below this, e^x is not a normal number */
#define ACC_EXP_HIGHEST 710.0		/* for x from this on, e^x is infinite */
#define ACC_SIGMOID_HIGHEST 39.0	/* for x from this on, sigmoid(x) is 1 */
#define ACC_TANH_HIGHEST 19.5		/* for x from this on, tanh(x) is 1 */
#define ACC_LINEAR 3.7252902984619141e-9	/* 2^-28: for |x| below this, tanh(x) is x */

#define ACC_CHORDS 0x7fde668164000000u	/* this minus the bits of d are the bits of 1/d to one part in 19 */
/* (t - T)^2 + C is 1/t to one part in 30800 for t in [0.95, 1.0513]: no parabola is nearer. */
#define ACC_PARABOLA_T 1.5009611940163858
#define ACC_PARABOLA_C 0.7490391136853053

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

/* The derivative of relu. step uses masks, not a selection: a compiler that splits the loop by the selection leaves
   out the product with 1, and with it the flush of a subnormal factor. step compares bits, not numbers: so a
   subnormal is above 0 even where it is flushed, and no compiler turns the comparison of a widened half into one
   of halves, which few processors have. */
static INLINE acc acc_step(acc x)
{
	word above = (word)0 - (word)(bits_of(x) - 1 < ACC_SIGN - 1);
	word nan = (word)0 - (word)((bits_of(x) & ~(word)ACC_SIGN) > ACC_INFINITY);

	return from_bits((above & ACC_ONE) | (nan & bits_of(x)));
}

#ifdef __cplusplus
extern "C" {
#endif

static APART void cg_rnn_relu_f64_grad_run(int count,
	const real *restrict dh_at,
	const real *restrict h_at,
	real *restrict da_at)
{
	for (int unit = 0; unit < count; unit++) {
		const acc dh = dh_at[unit];
		const acc h = h_at[unit];

		/* h = relu(a) */
		const acc da = dh * acc_step(h);

		da_at[unit] = da;
	}
}

/*
 * cg_rnn_relu_f64_grad: the gradient of cell rnn_relu.
 * A null input reads as zeros; a null output is not written.  Strides are in elements.
 *
 *	dh           in  real    [rows, units]   adjoint of h
 *	h            in  real    [rows, units]   output after the step, which forward saves
 *	da           out real    [rows, units]   adjoint of a
 */
void cg_rnn_relu_f64_grad(
	int64_t rows, int64_t units,
	const real *dh, int64_t dh_stride,
	const real *h, int64_t h_stride,
	real *da, int64_t da_stride)
{
	enum { STRIP = 256 };
	static const real absent[STRIP] = {0};
	real no_da[STRIP];

	for (int64_t row = 0; row < rows; row++) {
		for (int64_t first = 0; first < units; first += STRIP) {
			const int count = units - first < STRIP ? (int)(units - first) : STRIP;

			cg_rnn_relu_f64_grad_run(count,
				dh ? dh + row * dh_stride + first : absent,
				h ? h + row * h_stride + first : absent,
				da ? da + row * da_stride + first : no_da);
		}
	}
}

static APART void cg_rnn_relu_f64_grad_sum_part_run(int count,
	const real *restrict da_at,
	acc *restrict sum_db_a)
{
	for (int unit = 0; unit < count; unit++) {
		const acc da = da_at[unit];

		sum_db_a[unit] += da;
	}
}

/*
 * cg_rnn_relu_f64_grad_sum_part: partial sums over blocks of 64 rows, for later functions.
 * A null input reads as zeros; a null output is not written.  Strides are in elements.
 *
 *	da           in  real    [rows, units]   adjoint of a
 *	partial      out acc     [blocks, values, units] partial sums of blocks of rows
 */
void cg_rnn_relu_f64_grad_sum_part(
	int64_t rows, int64_t units,
	const real *da, int64_t da_stride,
	acc *partial)
{
	enum { STRIP = 256, BLOCK = 64, VALUES = 1 };
	static const real absent[STRIP] = {0};

	for (int64_t block = 0; block * BLOCK < rows; block++) {
		const int64_t last = rows - block * BLOCK < BLOCK ? rows : (block + 1) * BLOCK;
		acc *const sums = partial + block * VALUES * units;

		for (int64_t k = 0; k < VALUES * units; k++)
			sums[k] = 0;
		for (int64_t row = block * BLOCK; row < last; row++) {
			for (int64_t first = 0; first < units; first += STRIP) {
				const int count = units - first < STRIP ? (int)(units - first) : STRIP;

				cg_rnn_relu_f64_grad_sum_part_run(count,
					da ? da + row * da_stride + first : absent,
					sums + 0 * units + first);
			}
		}
	}
}

static void cg_rnn_relu_f64_grad_sum_total(int64_t blocks, int64_t stride, int64_t units,
	const acc *partial, int64_t first, real *total, int64_t accumulate)
{
	if (!total)
		return;
	for (int64_t unit = 0; unit < units; unit++) {
		acc sum = 0;

		for (int64_t block = 0; block < blocks; block++)
			sum += partial[block * stride + first + unit];
		total[unit] = accumulate ? total[unit] + sum : sum;
	}
}

/*
 * cg_rnn_relu_f64_grad_sum: the sums of partial sums over all blocks of rows.
 * A null input reads as zeros; a null output is not written.  Strides are in elements.
 *
 *	partial      in  acc     [blocks, values, units] partial sums of blocks of rows
 *	db_a         out real    [units]         adjoint of b_a
 *	accumulate   in  int64_t                 1: add to the sums in memory; 0: overwrite them
 */
void cg_rnn_relu_f64_grad_sum(
	int64_t rows, int64_t units,
	const acc *partial,
	real *db_a,
	int64_t accumulate)
{
	enum { BLOCK = 64, VALUES = 1 };
	const int64_t blocks = (rows + BLOCK - 1) / BLOCK;

	cg_rnn_relu_f64_grad_sum_total(blocks, VALUES * units, units,
		partial, 0 * units, db_a, accumulate);
}

#ifdef __cplusplus
}
#endif
