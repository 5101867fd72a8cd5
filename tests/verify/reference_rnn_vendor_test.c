/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests rules f and g of reference_rnn.c, by which the bound of a network that cuDNN computes is larger than that of other routes. An
 * answer that has one of the roundings that the rules name is right by cuDNN's bound alone. In small networks that bound is larger by the
 * amount that the rules give; in f64, and in f32 without sigmoid, both bounds are equal.
 */
#include "tests/verify/sequence_arrays.h"

static const int narrow[] = { REF_F16, REF_BF16 };

/* Half a unit in the last place of numbers between 1 and 2, in f16 or bf16. */
static double half_unit(int dtype)
{
	return dtype == REF_F16 ? 0x1p-11 : 0x1p-8;
}

/* Sets *a and *b to two numbers whose product lies halfway between two numbers of the dtype, and is rounded to the smaller of these. */
static void middle(int dtype, double *a, double *b)
{
	*a = dtype == REF_F16 ? 1 + 0x1p-5 : 1 + 0x1p-4;
	*b = dtype == REF_F16 ? 1 + 0x1p-6 : 1 + 0x1p-4;
	assert_true(ref_round(dtype, *a * *b) == *a * *b - half_unit(dtype));
}

static void at_zero(int mode, int dtype, int T)
{
	R = (struct ref_rnn){ .T = T, .B = 1, .I = 1, .U = 1, .L = 1, .mode = mode, .dtype = dtype, .input_mode = REF_LINEAR, .time_major = 1,
		.is_training = 1 };
	bind_rnn(0);
	for (int a = 0; a < RNN_ARRAYS; a++)
		for (int64_t n = 0; n < at[a].n && !at[a].is_out; n++)
			at[a].d[n] = 0;
}

static double *param(int id, int part)
{
	return &at[RNN_params].d[ref_rnn_region(&R, 0, id, part).offset];
}

static void run(int by_vendor)
{
	R.by_vendor = by_vendor;
	assert_int_equal(ref_rnn_forward(&R), 0);
	assert_int_equal(ref_rnn_backward(&R), 0);
}

/* Expects that `got`, as element n of output a, is right by cuDNN's bound and wrong by that of other routes. */
static void only_by_vendor(int a, int64_t n, double got)
{
	for (int by_vendor = 0; by_vendor < 2; by_vendor++) {
		run(by_vendor);
		if (ref_within(R.dtype, at[a].v[n], at[a].e[n], got) != by_vendor)
			fail_msg("%s, by_vendor %d: %.9g where %.9Lg is right: bound %.3Lg", at[a].name, by_vendor, got, at[a].v[n], at[a].e[n]);
	}
}

/* ---- rule f: for each rounding of the rule, an answer that has this rounding ---- */

static void test_sums(void **state)
{
	(void)state;
	for (int k = 0; k < 2; k++)
		for (int recurrent = 0; recurrent < 2; recurrent++) {
			double a, b;

			at_zero(REF_RNN_RELU, narrow[k], 1);
			middle(R.dtype, &a, &b);
			*param(recurrent, REF_WEIGHT) = a;
			at[recurrent ? RNN_input_h : RNN_input].d[0] = b;
			*param(0, REF_BIAS) = -1;
			only_by_vendor(RNN_output, 0, ref_round(R.dtype, a * b) - 1);
		}
}

/* Sets the biases of an lstm so that gates i, f and o are nearly 1: every step keeps the cell state, and adds what gate g gives to it. */
static void open_gates(void)
{
	for (int gate = 0; gate < 4; gate++)
		*param(gate, REF_BIAS) = gate == 2 ? 0 : 40;
}

static void test_state(void **state)
{
	(void)state;
	for (int k = 0; k < 2; k++) {
		at_zero(REF_LSTM, narrow[k], 4);
		open_gates();
		*param(2, REF_BIAS) = half_unit(R.dtype) / 2;
		at[RNN_input_c].d[0] = 1;
		only_by_vendor(RNN_output_c, 0, 1);
	}
}

/* ---- the bounds themselves ---- */

/* Expects that two bounds are equal within 3 %; the 3 % allow for products of two roundings. */
static void is_near(long double got, long double expected)
{
	if (!(fabsl(got - expected) <= 0.03L * expected))
		fail_msg("bound %.9Lg, expected %.9Lg", got, expected);
}

/* Expects that cuDNN's bound of element n of output a is larger than that of other routes by this amount, within 3 %. */
static void is_more(int a, int64_t n, long double by)
{
	long double without;

	run(0);
	without = at[a].e[n];
	run(1);
	is_near(at[a].e[n] - without, by);
}

/* In one step of rnn_relu the bound allows each of two products a rounding by half a unit times its size; sums in f32 add almost
 * nothing. */
static void test_bound_of_sums(void **state)
{
	(void)state;
	for (int k = 0; k < 2; k++) {
		at_zero(REF_RNN_RELU, narrow[k], 1);
		*param(0, REF_WEIGHT) = 3;
		*param(1, REF_WEIGHT) = 0.5;
		*param(0, REF_BIAS) = 64;
		at[RNN_input].d[0] = 2;
		at[RNN_input_h].d[0] = 4;
		run(1);
		assert_true(at[RNN_output].v[0] == 72);
		is_near(at[RNN_output].e[0], half_unit(R.dtype) * (6 + 2) + 4 * 0x1p-24L * 72 + 0x1p-24L * 8);
		run(0);
		is_near(at[RNN_output].e[0], 4 * 0x1p-24L * 72);
	}
}

/* A gradient of the cell state, here 1, is stored three times on its way from the last of four steps to the first. */
static void test_state_grad(void **state)
{
	(void)state;
	for (int k = 0; k < 2; k++) {
		at_zero(REF_LSTM, narrow[k], 4);
		open_gates();
		at[RNN_output_c_backprop].d[0] = 1;
		is_more(RNN_input_c_backprop, 0, 3 * half_unit(R.dtype));
	}
}

/* The gradient of h in the first of two steps is the sum of a product and of an upstream gradient, which cancels most of the product; the
 * bound allows the rounding of the product. */
static void test_output_grad(void **state)
{
	(void)state;
	for (int k = 0; k < 2; k++) {
		double a, b;

		at_zero(REF_RNN_RELU, narrow[k], 2);
		middle(R.dtype, &a, &b);
		*param(0, REF_BIAS) = *param(0, REF_WEIGHT) = 1;
		*param(1, REF_WEIGHT) = a;
		at[RNN_output_h_backprop].d[0] = b;
		at[RNN_output_backprop].d[0] = -1;
		is_more(RNN_input_backprop, 0, half_unit(R.dtype) * a * b);
	}
}

/* In two steps the part of h_prev's gradient that passes no matrix is stored twice, and its sum with the product once. */
static void test_beside(void **state)
{
	(void)state;
	for (int k = 0; k < 2; k++) {
		double z;

		at_zero(REF_GRU, narrow[k], 2);
		*param(1, REF_BIAS) = 0.25;
		z = 1 / (1 + exp(-0.25));
		at[RNN_output_h_backprop].d[0] = 1;
		is_more(RNN_input_h_backprop, 0, 3 * half_unit(R.dtype) * z * z);
	}
}

/* The gradient of the output before a projection is a product, too, whose rounding the bound allows; here the gradient of gate g's bias
 * is nearly equal to that gradient. */
static void test_before_projection(void **state)
{
	(void)state;
	for (int k = 0; k < 2; k++) {
		at_zero(REF_LSTM, narrow[k], 1);
		R.U = 2;
		R.P = 1;
		bind_rnn(0);
		for (int64_t n = 0; n < at[RNN_params].n; n++)
			at[RNN_params].d[n] = 0;
		at[RNN_input_c].d[0] = at[RNN_input_c].d[1] = 0;
		*param(8, REF_WEIGHT) = 4;
		*param(0, REF_BIAS) = 40;
		*param(1, REF_BIAS) = -40;
		*param(3, REF_BIAS) = 40;
		at[RNN_output_h_backprop].d[0] = 0.5;
		at[RNN_input].d[0] = 1;
		is_more(RNN_params_backprop, ref_rnn_region(&R, 0, 2, REF_BIAS).offset, half_unit(R.dtype) * 4 * 0.5);
	}
}

/* cuDNN's bound of tanh is larger than that of other routes in f16 alone: by 2^-11 of the result. */
static void test_tanh(void **state)
{
	(void)state;
	for (int dtype = REF_F32; dtype <= REF_BF16; dtype++) {
		at_zero(REF_RNN_TANH, dtype, 1);
		*param(0, REF_BIAS) = 0.5;
		is_more(RNN_output, 0, dtype == REF_F16 ? 0x1p-11L * tanhl(0.5L) : 0);
	}
}

/* In f32 cuDNN's bound of sigmoid(x) is larger by 2^-23 |x| times the derivative, for x = 10 and x = -10; in f64 it is not larger. In this
   test c depends on gate f alone. */
static void test_sigmoid(void **state)
{
	(void)state;
	for (int dtype = REF_F32; dtype <= REF_F64; dtype++)
		for (int sign = -1; sign <= 1; sign += 2) {
			long double f = 1 / (1 + expl(-10.0L * sign));

			at_zero(REF_LSTM, dtype, 1);
			*param(1, REF_BIAS) = 10 * sign;
			at[RNN_input_c].d[0] = 1;
			is_more(RNN_output_c, 0, dtype == REF_F32 ? 2 * 0x1p-24L * 10 * f * (1 - f) : 0);
		}
}

/* ---- nothing else ---- */

static void draw_model(int mode, int dtype)
{
	R = (struct ref_rnn){ .T = 1 + below(5), .B = 1 + below(3), .I = 1 + below(4), .U = 1 + below(4), .L = 1 + below(3), .mode = mode,
		.dtype = dtype, .bidirectional = below(2), .input_mode = REF_LINEAR, .time_major = below(2), .is_training = 1, .accumulate = below(2) };
	R.P = mode == REF_LSTM && below(2) ? 1 + below((int)R.U) : 0;
	draw_lengths();
	bind_rnn(0);
	draw(0.7);
}

/*
 * The values for cuDNN equal those for other routes within 1e-14 (1 + |value|). Each bound for cuDNN is at least the bound for other
 * routes minus 2^-20. In f64, and in f32 for the modes without sigmoid, the bounds are equal; in every other dtype and mode some bounds
 * for cuDNN are larger.
 */
static void test_values(void **state)
{
	static long double v[RNN_ARRAYS][MAX], e[RNN_ARRAYS][MAX];
	int larger[4][4] = { { 0 } };

	(void)state;
	for (int k = 0; k < 400; k++) {
		int mode = k % 4, dtype = k / 4 % 4, same, *more = &larger[dtype][mode];

		draw_model(mode, dtype);
		same = dtype == REF_F64 || (dtype == REF_F32 && mode != REF_LSTM && mode != REF_GRU);
		run(0);
		for (int a = 0; a < RNN_ARRAYS; a++) {
			memcpy(v[a], at[a].v, (size_t)at[a].n * sizeof *v[a]);
			memcpy(e[a], at[a].e, (size_t)at[a].n * sizeof *e[a]);
		}
		run(1);
		for (int a = 0; a < RNN_ARRAYS; a++)
			for (int64_t n = 0; n < at[a].n && at[a].is_out; n++) {
				assert_true(fabsl(at[a].v[n] - v[a][n]) <= 1e-14L * (1 + fabsl(v[a][n])));
				assert_true(same ? at[a].e[n] == e[a][n] : at[a].e[n] >= e[a][n] - 0x1p-20L);
				*more += at[a].e[n] > e[a][n];
			}
	}
	for (int dtype = 0; dtype < 4; dtype++)
		for (int mode = 0; mode < 4; mode++)
			assert_true(!larger[dtype][mode] == (dtype == REF_F64 || (dtype == REF_F32 && mode != REF_LSTM && mode != REF_GRU)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_sums), cmocka_unit_test(test_state), cmocka_unit_test(test_bound_of_sums), cmocka_unit_test(test_state_grad),
		cmocka_unit_test(test_output_grad), cmocka_unit_test(test_beside), cmocka_unit_test(test_before_projection),
		cmocka_unit_test(test_tanh), cmocka_unit_test(test_sigmoid), cmocka_unit_test(test_values),
	};

	return cmocka_run_group_tests_name("reference_rnn_vendor", tests, NULL, NULL);
}
