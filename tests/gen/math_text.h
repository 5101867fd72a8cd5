/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The mathematics of one dtype, as functions that give n results from an array; clip, max, min and above take pairs of arguments, muladd
 * triples.
 */
typedef void math_over(const void *in, void *out, long n);

struct math_text {
	math_over *recip, *exp, *tanh, *sigmoid, *relu, *step, *clip, *max, *min, *abs, *above;
	math_over *log, *log1p, *expm1, *sqrt, *erf, *softplus, *muladd, *to_acc, *to_real;
};

extern const struct math_text math_f32, math_f64, math_f16, math_bf16;
