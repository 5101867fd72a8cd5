/* cg_lstm_block_peephole_f32_grad: cellgrad emit lstm_block --options peephole --pass grad --dtype f32 --lang c */

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

#ifdef __cplusplus
extern "C" {
#endif

static APART void cg_lstm_block_peephole_f32_grad_run(int count,
	const real *restrict cs_prev_at,
	const real *restrict dcs_at,
	const real *restrict dh_at,
	const real *restrict i_at,
	const real *restrict ci_at,
	const real *restrict f_at,
	const real *restrict o_at,
	const real *restrict co_at,
	const real *restrict wci_at,
	const real *restrict wcf_at,
	const real *restrict wco_at,
	real *restrict da_i_at,
	real *restrict da_ci_at,
	real *restrict da_f_at,
	real *restrict da_o_at,
	real *restrict dcs_prev_at)
{
	for (int unit = 0; unit < count; unit++) {
		const acc cs_prev = cs_prev_at[unit];
		const acc dcs = dcs_at[unit];
		const acc dh = dh_at[unit];
		const acc i = i_at[unit];
		const acc ci = ci_at[unit];
		const acc f = f_at[unit];
		const acc o = o_at[unit];
		const acc co = co_at[unit];
		const acc wci = wci_at[unit];
		const acc wcf = wcf_at[unit];
		const acc wco = wco_at[unit];

		/* h = o * co */
		const acc do_ = dh * co;
		const acc dco = dh * o;

		/* o = sigmoid(a_o + wco * cs) */
		const acc da_o = do_ * (o * (1 - o));

		/* co = tanh(cs) */
		const acc dcs_all = dcs + da_o * wco + dco * (1 - co * co);

		/* cs = clip(f * cs_prev + i * ci, cell_clip) */
		const acc di = dcs_all * ci;
		const acc dci = dcs_all * i;
		const acc df = dcs_all * cs_prev;

		/* ci = tanh(a_ci) */
		const acc da_ci = dci * (1 - ci * ci);

		/* f = sigmoid(a_f + forget_bias + wcf * cs_prev) */
		const acc da_f = df * (f * (1 - f));

		/* i = sigmoid(a_i + wci * cs_prev) */
		const acc da_i = di * (i * (1 - i));
		const acc dcs_prev = dcs_all * f + da_f * wcf + da_i * wci;

		da_i_at[unit] = da_i;
		da_ci_at[unit] = da_ci;
		da_f_at[unit] = da_f;
		da_o_at[unit] = da_o;
		dcs_prev_at[unit] = dcs_prev;
	}
}

/*
 * cg_lstm_block_peephole_f32_grad: the gradient of cell lstm_block.
 * A null input reads as zeros; a null output is not written.  Strides are in elements.
 *
 *	cs_prev      in  real    [rows, units]   state before the step
 *	dcs          in  real    [rows, units]   adjoint of cs
 *	dh           in  real    [rows, units]   adjoint of h
 *	i            in  real    [rows, units]   value that forward saves
 *	ci           in  real    [rows, units]   value that forward saves
 *	f            in  real    [rows, units]   value that forward saves
 *	o            in  real    [rows, units]   value that forward saves
 *	co           in  real    [rows, units]   value that forward saves
 *	wci          in  real    [units]         a weight per unit
 *	wcf          in  real    [units]         a weight per unit
 *	wco          in  real    [units]         a weight per unit
 *	da_i         out real    [rows, units]   adjoint of a_i
 *	da_ci        out real    [rows, units]   adjoint of a_ci
 *	da_f         out real    [rows, units]   adjoint of a_f
 *	da_o         out real    [rows, units]   adjoint of a_o
 *	dcs_prev     out real    [rows, units]   adjoint of cs_prev
 */
void cg_lstm_block_peephole_f32_grad(
	int64_t rows, int64_t units,
	const real *cs_prev, int64_t cs_prev_stride,
	const real *dcs, int64_t dcs_stride,
	const real *dh, int64_t dh_stride,
	const real *i, int64_t i_stride,
	const real *ci, int64_t ci_stride,
	const real *f, int64_t f_stride,
	const real *o, int64_t o_stride,
	const real *co, int64_t co_stride,
	const real *wci,
	const real *wcf,
	const real *wco,
	real *da_i, int64_t da_i_stride,
	real *da_ci, int64_t da_ci_stride,
	real *da_f, int64_t da_f_stride,
	real *da_o, int64_t da_o_stride,
	real *dcs_prev, int64_t dcs_prev_stride)
{
	enum { STRIP = 256 };
	static const real absent[STRIP] = {0};
	real no_da_i[STRIP];
	real no_da_ci[STRIP];
	real no_da_f[STRIP];
	real no_da_o[STRIP];
	real no_dcs_prev[STRIP];

	for (int64_t row = 0; row < rows; row++) {
		for (int64_t first = 0; first < units; first += STRIP) {
			const int count = units - first < STRIP ? (int)(units - first) : STRIP;

			cg_lstm_block_peephole_f32_grad_run(count,
				cs_prev ? cs_prev + row * cs_prev_stride + first : absent,
				dcs ? dcs + row * dcs_stride + first : absent,
				dh ? dh + row * dh_stride + first : absent,
				i ? i + row * i_stride + first : absent,
				ci ? ci + row * ci_stride + first : absent,
				f ? f + row * f_stride + first : absent,
				o ? o + row * o_stride + first : absent,
				co ? co + row * co_stride + first : absent,
				wci ? wci + first : absent,
				wcf ? wcf + first : absent,
				wco ? wco + first : absent,
				da_i ? da_i + row * da_i_stride + first : no_da_i,
				da_ci ? da_ci + row * da_ci_stride + first : no_da_ci,
				da_f ? da_f + row * da_f_stride + first : no_da_f,
				da_o ? da_o + row * da_o_stride + first : no_da_o,
				dcs_prev ? dcs_prev + row * dcs_prev_stride + first : no_dcs_prev);
		}
	}
}

static APART void cg_lstm_block_peephole_f32_grad_sum_part_run(int count,
	const real *restrict da_i_at,
	const real *restrict da_ci_at,
	const real *restrict da_f_at,
	const real *restrict da_o_at,
	const real *restrict cs_prev_at,
	const real *restrict cs_at,
	acc *restrict sum_db_i,
	acc *restrict sum_db_ci,
	acc *restrict sum_db_f,
	acc *restrict sum_db_o,
	acc *restrict sum_dwci,
	acc *restrict sum_dwcf,
	acc *restrict sum_dwco)
{
	for (int unit = 0; unit < count; unit++) {
		const acc da_i = da_i_at[unit];
		const acc da_ci = da_ci_at[unit];
		const acc da_f = da_f_at[unit];
		const acc da_o = da_o_at[unit];
		const acc cs_prev = cs_prev_at[unit];
		const acc cs = cs_at[unit];

		/* o = sigmoid(a_o + wco * cs) */
		const acc dwco = da_o * cs;

		/* f = sigmoid(a_f + forget_bias + wcf * cs_prev) */
		const acc dwcf = da_f * cs_prev;

		/* i = sigmoid(a_i + wci * cs_prev) */
		const acc dwci = da_i * cs_prev;

		sum_db_i[unit] += da_i;
		sum_db_ci[unit] += da_ci;
		sum_db_f[unit] += da_f;
		sum_db_o[unit] += da_o;
		sum_dwci[unit] += dwci;
		sum_dwcf[unit] += dwcf;
		sum_dwco[unit] += dwco;
	}
}

/*
 * cg_lstm_block_peephole_f32_grad_sum_part: partial sums over blocks of 64 rows, for later functions.
 * A null input reads as zeros; a null output is not written.  Strides are in elements.
 *
 *	da_i         in  real    [rows, units]   adjoint of a_i
 *	da_ci        in  real    [rows, units]   adjoint of a_ci
 *	da_f         in  real    [rows, units]   adjoint of a_f
 *	da_o         in  real    [rows, units]   adjoint of a_o
 *	cs_prev      in  real    [rows, units]   state before the step
 *	cs           in  real    [rows, units]   state after the step, which forward saves
 *	partial      out acc     [blocks, values, units] partial sums of blocks of rows
 */
void cg_lstm_block_peephole_f32_grad_sum_part(
	int64_t rows, int64_t units,
	const real *da_i, int64_t da_i_stride,
	const real *da_ci, int64_t da_ci_stride,
	const real *da_f, int64_t da_f_stride,
	const real *da_o, int64_t da_o_stride,
	const real *cs_prev, int64_t cs_prev_stride,
	const real *cs, int64_t cs_stride,
	acc *partial)
{
	enum { STRIP = 256, BLOCK = 64, VALUES = 7 };
	static const real absent[STRIP] = {0};

	for (int64_t block = 0; block * BLOCK < rows; block++) {
		const int64_t last = rows - block * BLOCK < BLOCK ? rows : (block + 1) * BLOCK;
		acc *const sums = partial + block * VALUES * units;

		for (int64_t k = 0; k < VALUES * units; k++)
			sums[k] = 0;
		for (int64_t row = block * BLOCK; row < last; row++) {
			for (int64_t first = 0; first < units; first += STRIP) {
				const int count = units - first < STRIP ? (int)(units - first) : STRIP;

				cg_lstm_block_peephole_f32_grad_sum_part_run(count,
					da_i ? da_i + row * da_i_stride + first : absent,
					da_ci ? da_ci + row * da_ci_stride + first : absent,
					da_f ? da_f + row * da_f_stride + first : absent,
					da_o ? da_o + row * da_o_stride + first : absent,
					cs_prev ? cs_prev + row * cs_prev_stride + first : absent,
					cs ? cs + row * cs_stride + first : absent,
					sums + 0 * units + first,
					sums + 1 * units + first,
					sums + 2 * units + first,
					sums + 3 * units + first,
					sums + 4 * units + first,
					sums + 5 * units + first,
					sums + 6 * units + first);
			}
		}
	}
}

static void cg_lstm_block_peephole_f32_grad_sum_total(int64_t blocks, int64_t stride, int64_t units,
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
 * cg_lstm_block_peephole_f32_grad_sum: the sums of partial sums over all blocks of rows.
 * A null input reads as zeros; a null output is not written.  Strides are in elements.
 *
 *	partial      in  acc     [blocks, values, units] partial sums of blocks of rows
 *	db_i         out real    [units]         adjoint of b_i
 *	db_ci        out real    [units]         adjoint of b_ci
 *	db_f         out real    [units]         adjoint of b_f
 *	db_o         out real    [units]         adjoint of b_o
 *	dwci         out real    [units]         adjoint of wci
 *	dwcf         out real    [units]         adjoint of wcf
 *	dwco         out real    [units]         adjoint of wco
 *	accumulate   in  int64_t                 1: add to the sums in memory; 0: overwrite them
 */
void cg_lstm_block_peephole_f32_grad_sum(
	int64_t rows, int64_t units,
	const acc *partial,
	real *db_i,
	real *db_ci,
	real *db_f,
	real *db_o,
	real *dwci,
	real *dwcf,
	real *dwco,
	int64_t accumulate)
{
	enum { BLOCK = 64, VALUES = 7 };
	const int64_t blocks = (rows + BLOCK - 1) / BLOCK;

	cg_lstm_block_peephole_f32_grad_sum_total(blocks, VALUES * units, units,
		partial, 0 * units, db_i, accumulate);
	cg_lstm_block_peephole_f32_grad_sum_total(blocks, VALUES * units, units,
		partial, 1 * units, db_ci, accumulate);
	cg_lstm_block_peephole_f32_grad_sum_total(blocks, VALUES * units, units,
		partial, 2 * units, db_f, accumulate);
	cg_lstm_block_peephole_f32_grad_sum_total(blocks, VALUES * units, units,
		partial, 3 * units, db_o, accumulate);
	cg_lstm_block_peephole_f32_grad_sum_total(blocks, VALUES * units, units,
		partial, 4 * units, dwci, accumulate);
	cg_lstm_block_peephole_f32_grad_sum_total(blocks, VALUES * units, units,
		partial, 5 * units, dwcf, accumulate);
	cg_lstm_block_peephole_f32_grad_sum_total(blocks, VALUES * units, units,
		partial, 6 * units, dwco, accumulate);
}

#ifdef __cplusplus
}
#endif
