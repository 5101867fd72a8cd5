/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mathematics that `cellgen math DTYPE` prints, as functions over arrays: compiled for each dtype, and for f32 in two more ways, for
 * several tests.  CG_DTYPE: the dtype, or f32_plain or f32_fused.  CG_MATH: the header that cellgen prints.
 */
#include CG_MATH

#include "tests/gen/math_text.h"

#define PASTE_(a, b) a##_##b
#define PASTE(a, b) PASTE_(a, b)

#define OVER(name, from, to, expression) \
	static void name(const void *in, void *out, long n) \
	{ \
		const from *x = in; \
		to *y = out; \
		for (long k = 0; k < n; k++) \
			y[k] = expression; \
	}

OVER(over_recip,   acc,  acc,  acc_recip(x[k]))
OVER(over_exp,     acc,  acc,  acc_exp(x[k]))
OVER(over_tanh,    acc,  acc,  acc_tanh(x[k]))
OVER(over_sigmoid, acc,  acc,  acc_sigmoid(x[k]))
OVER(over_relu,    acc,  acc,  acc_relu(x[k]))
OVER(over_step,    acc,  acc,  acc_step(x[k]))
OVER(over_clip,    acc,  acc,  acc_clip(x[2 * k], x[2 * k + 1]))
OVER(over_max,     acc,  acc,  acc_max(x[2 * k], x[2 * k + 1]))
OVER(over_min,     acc,  acc,  acc_min(x[2 * k], x[2 * k + 1]))
OVER(over_abs,     acc,  acc,  acc_abs(x[k]))
OVER(over_above,   acc,  acc,  acc_above(x[2 * k], x[2 * k + 1]))
OVER(over_log,     acc,  acc,  acc_log(x[k]))
OVER(over_log1p,   acc,  acc,  acc_log1p(x[k]))
OVER(over_expm1,   acc,  acc,  acc_expm1(x[k]))
OVER(over_sqrt,    acc,  acc,  acc_sqrt(x[k]))
OVER(over_erf,     acc,  acc,  acc_erf(x[k]))
OVER(over_softplus, acc, acc,  acc_softplus(x[k]))
OVER(over_muladd,  acc,  acc,  muladd(x[3 * k], x[3 * k + 1], x[3 * k + 2]))
OVER(over_to_acc,  real, acc,  to_acc(x[k]))
OVER(over_to_real, acc,  real, to_real(x[k]))

const struct math_text PASTE(math, CG_DTYPE) = {
	over_recip, over_exp, over_tanh, over_sigmoid, over_relu, over_step, over_clip, over_max, over_min, over_abs, over_above,
	over_log, over_log1p, over_expm1, over_sqrt, over_erf, over_softplus, over_muladd, over_to_acc, over_to_real
};
