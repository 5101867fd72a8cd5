/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The constants of each dtype for the bounds of bound.h, rounding to a dtype, and the verdict on an answer.
 */
#include <float.h>
#include <math.h>

#include "verify/bound.h"

#define OWN (LDBL_EPSILON / 2)

/*          p   emin   u                lost        lost_fn     max      u_real    lost_real  max_real */
#define F32  24, -126,  0x1p-24L + OWN, 0x1p-126L,  0x1p-126L,  FLT_MAX, 0x1p-24L, 0x1p-126L,  FLT_MAX
#define F64  53, -1022, 0x1p-53L + OWN, 0x1p-1074L, 0x1p-1022L, DBL_MAX, 0x1p-53L, 0x1p-1074L, DBL_MAX
#define F16  11, -14,   0x1p-24L + OWN, 0x1p-126L,  0x1p-126L,  FLT_MAX, 0x1p-11L, 0x1p-25L,   65504
#define BF16 8,  -126,  0x1p-24L + OWN, 0x1p-126L,  0x1p-126L,  FLT_MAX, 0x1p-8L,  0x1p-126L,  0x1.fep127L

const struct kind ref_kinds[] = {
	/*             ..., u_argument, u_tanh, keeps */
	[REF_F32]  = { F32,  0, 0, 0 },
	[REF_F64]  = { F64,  0, 0, 0 },
	[REF_F16]  = { F16,  0, 0, 0 },
	[REF_BF16] = { BF16, 0, 0, 0 },
};

/*
 * What cuDNN 9.26 does, read from libcudnn_adv.so.9 for sm_90a. Sigmoid is RCP(1 + EX2(-1.44269502 x)) in elemWiseRNNcell<float,
 * float, float, ...>, and the kernels of f16 and bf16 compute the same. Those kernels, elemWiseRNNcell<__half, __half, float, ...>,
 * LSTM_elementWise_bp1<__half, __half, float> and their __nv_bfloat16 counterparts, read and write only values of their element
 * type. In the persistent kernels, which f16 may use (ampere_lstm_tile16), tanh is MUFU.TANH, with an error of 2^-11 (PTX ISA,
 * tanh.approx.f32).
 */
const struct kind ref_vendor_kinds[] = {
	[REF_F32]  = { F32,  0x2p-24L, 0,        0 },
	[REF_F64]  = { F64,  0,        0,        0 },
	[REF_F16]  = { F16,  0x2p-24L, 0x1p-11L, 1 },
	[REF_BF16] = { BF16, 0x2p-24L, 0,        1 },
};

void ref_read_back(int dtype, int64_t n, struct ref_out a)
{
	for (int64_t j = 0; j < n; j++)
		a.e[j] = read_back(&ref_kinds[dtype], (struct val){ a.v[j], a.e[j] }).e;
}

double ref_round(int dtype, double x)
{
	const struct kind *k = &ref_kinds[dtype];
	int shift;
	double r;

	if (dtype == REF_F64 || x == 0 || !isfinite(x))
		return x;
	shift = ilogb(x);
	if (shift < k->emin)
		shift = k->emin;
	shift -= k->p - 1;
	/* both calls of ldexp are exact; rint rounds ties to even in the default mode */
	r = ldexp(rint(ldexp(x, -shift)), shift);
	return fabs(r) > k->max_real ? copysign(INFINITY, x) : r;
}

long double ref_tolerance(int dtype, long double value, long double bound)
{
	const struct kind *k = &ref_kinds[dtype];
	long double t;

	if (!isfinite(bound))
		return INFINITY;
	if (!isfinite(value))
		return 0;
	t = 2 * bound + rounding(k, value);
	return fabsl(value) + t > k->max_real ? INFINITY : t;
}

int ref_within(int dtype, long double value, long double bound, double got)
{
	long double t = ref_tolerance(dtype, value, bound);

	if (isinf(t))
		return 1;
	if (isnan(value))
		return isnan(got);
	return got == value || fabsl(got - value) <= t;
}
