/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of operators, and the value of each in long double by the C library.  The operators' derivatives are in derive.c, their kernel
 * texts in templates/math.in.
 */
#include "cell.h"

#include <math.h>

const struct cg_operator cg_operators[CG_OP_COUNT] = {
#define CG_OPERATOR(code, word, arity, section) [CG_OP_##code] = { word, arity, section },
#include "ops.h"
#undef CG_OPERATOR
};

long double cg_op_value(int code, long double a, long double b)
{
	switch (code) {
	case CG_OP_NEG:     return -a;
	case CG_OP_ADD:     return a + b;
	case CG_OP_MUL:     return a * b;
	case CG_OP_RECIP:   return 1 / a;
	case CG_OP_EXP:     return expl(a);
	case CG_OP_TANH:    return tanhl(a);
	case CG_OP_SIGMOID: return 1 / (1 + expl(-a));
	/* The value of RELU, STEP, CLIP, MAX, MIN and ABOVE for a NaN is NaN, except that a limit of CLIP that is NaN clips nothing. */
	case CG_OP_RELU:    return a < 0 ? 0 : a;
	case CG_OP_STEP:    return a > 0 ? 1 : a <= 0 ? 0 : a;
	case CG_OP_CLIP:    return b > 0 ? (a < -b ? -b : a > b ? b : a) : a;
	case CG_OP_MAX:     return a > b || isnan(a) ? a : b;
	case CG_OP_MIN:     return a < b || isnan(a) ? a : b;
	case CG_OP_ABS:     return fabsl(a);
	case CG_OP_ABOVE:   return a > b ? 1 : a < b ? 0 : a == b ? 0.5L : a + b;
	case CG_OP_LOG:     return logl(a);
	case CG_OP_LOG1P:   return log1pl(a);
	case CG_OP_EXPM1:   return expm1l(a);
	case CG_OP_SQRT:    return sqrtl(a);
	case CG_OP_ERF:     return erfl(a);
	case CG_OP_SOFTPLUS: return a > 0 ? a + log1pl(expl(-a)) : log1pl(expl(a));
	case CG_OP_MEAN:    return a;                   /* of equal values */
	}
	return 0;
}
