/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in for libcudnn: algorithms, the math type of products, roundings, padding, layouts, dropout. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/fake/dnn_stand_in.h"

/* ---- algorithms and math ---- */

static unsigned size_with(int algorithm, int cell, int U)
{
	struct net other = net;
	size_t work, reserve;

	other.algorithm = algorithm;
	other.cell = cell;
	other.U = U;
	CHECK(net_set(&other));
	return dnn.GetRNNTempSpaceSizes(net.handle, net.rnn, 1, net.x_data, &work, &reserve);
}

static void limits(void)
{
	net = a_net();
	net.type = FLOAT;
	net.lengths[1] = 2;
	dnn_begin();
	net_open(&net);
	EXPECT(!size_with(SMALL_H, LSTM, 192) && size_with(SMALL_H, LSTM, 193) == NOT_SUPPORTED);
	EXPECT(!size_with(SMALL_H, TANH, 384) && size_with(SMALL_H, TANH, 385) == NOT_SUPPORTED);
	EXPECT(!size_with(STATIC, GRU, 64) && size_with(STATIC, GRU, 65) == NOT_SUPPORTED && size_with(STATIC, GRU, 2048) == NOT_SUPPORTED);
	EXPECT(!size_with(STANDARD, LSTM, 4001));
	net.lengths[1] = 1;
	EXPECT(size_with(SMALL_H, LSTM, 64) == NOT_SUPPORTED);
	leave();
}

/* The persistent algorithm for few units accepts 160 units in forward, but not in backward, which the standard algorithm computes. */
static void small_backward(void)
{
	net = a_net();
	net.type = FLOAT;
	net.algorithm = SMALL_H;
	net.lengths[1] = 2;
	net.U = 160;
	dnn_begin();
	net_open(&net);
	CHECK(net_forward(&net, 1));
	EXPECT(net_data(&net) == NOT_SUPPORTED);
	net.algorithm = STANDARD;
	CHECK(net_set(&net));
	CHECK(net_data(&net));
	leave();
}

static void built(void)
{
	net = a_net();
	net.lengths[1] = 2;
	dnn_begin();
	net_open(&net);
	net.algorithm = DYNAMIC;
	CHECK(net_set(&net));
	CHECK(dnn.BuildRNNDynamic(net.handle, net.rnn, net.B));
	net_train(&net);
	leave();
}

static void not_built(void)
{
	net = a_net();
	net.lengths[1] = 2;
	dnn_begin();
	net_open(&net);
	net.algorithm = DYNAMIC;
	CHECK(net_set(&net));
	CHECK(dnn.BuildRNNDynamic(net.handle, net.rnn, 3));
	EXPECT(net_forward(&net, 1) == BAD_PARAM);
	exit(0);
}

/* One unit of relu on one number: y = weight * x; the gradients are products, too. */
static void check_product(int math, double weight, double x, double dy, const double expected[3])
{
	const double params[] = { weight, 0, 0, 0 };
	double *y, *dx, *dparams;

	net = (struct net){ .cell = RELU, .type = FLOAT, .math = math, .bias = 2, .D = 1, .L = 1, .T = 1, .B = 1, .I = 1, .U = 1, .flags = 1 };
	net_open(&net);
	put_params(&net, params);
	put_array(&net, net.x, &x);
	put_array(&net, net.dy, &dy);
	put_array(&net, net.dhy, &params[1]);
	net_train(&net);
	y = get_array(&net, net.y);
	dx = get_array(&net, net.dx);
	dparams = get_dparams(&net);
	EXPECT(y[0] == expected[0] && dx[0] == expected[1] && dparams[0] == expected[2]);
	free(y);
	free(dx);
	free(dparams);
	net_close(&net);
}

/* TF32 has ten bits of fraction. */
static void narrow_math(void)
{
	static const double more = 1 + 0x1p-12;

	dnn_begin();
	check_product(DEFAULT_MATH, more, 1, 1, (double[]){ 1, 1, 1 });
	check_product(DEFAULT_MATH, 1, more, 1, (double[]){ 1, 1, 1 });
	check_product(DEFAULT_MATH, 1, 1, more, (double[]){ 1, 1, 1 });
	check_product(FMA_MATH, more, 1, 1, (double[]){ more, more, 1 });
	check_product(FMA_MATH, 1, more, 1, (double[]){ more, 1, more });
	check_product(FMA_MATH, 1, 1, more, (double[]){ 1, more, more });
	setenv("CELLGRAD_FAKE_ARCH", "75", 1);
	check_product(DEFAULT_MATH, more, 1, 1, (double[]){ more, more, 1 });
	dnn_end();
}

static void test_algorithms(void **state)
{
	static const struct trial trials[] = {
		{ "limits", limits, NULL, 0 }, { "backward", small_backward, NULL, 0 }, { "built", built, NULL, 0 },
		{ "not built", not_built, "cudnnRNNForward: cudnnBuildRNNDynamic was for a batch of 3, not of 2", 0 },
		{ "TF32 unless it is refused", narrow_math, NULL, 0 },
	};

	(void)state;
	RUN(trials);
}

/* ---- roundings between kernels, and functions ---- */

/* Two numbers of 16 bits, whose product lies half way between two numbers of 16 bits; rounding makes the product smaller by `less`. */
static const struct middle { int type; double a, b, less; } middles[] = {
	{ HALF, 1 + 0x1p-5, 1 + 0x1p-6, 0x1p-11 }, { BFLOAT16, 1 + 0x1p-4, 1 + 0x1p-4, 0x1p-8 },
};

/* Opens a network of one unit, on one row of T steps, whose parameters, inputs and upstream gradients are 0. */
static void open_unit(int cell, int type, int algorithm, int T)
{
	static const int gates[] = { [RELU] = 1, [TANH] = 1, [LSTM] = 4, [GRU] = 3 };
	static const double zeros[32];

	net = (struct net){ .cell = cell, .type = type, .algorithm = algorithm, .math = FMA_MATH, .bias = 2, .D = 1, .L = 1, .T = T, .B = 1,
		.I = 1, .U = 1, .flags = 1 };
	net_open(&net);
	EXPECT(count_params(&net) == 4 * gates[cell] && T <= 32);
	put_params(&net, zeros);
	put_array(&net, net.x, zeros);
	put_array(&net, net.dy, zeros);
	put_array(&net, net.hx, zeros);
	put_array(&net, net.cx, zeros);
	put_array(&net, net.dhy, zeros);
	put_array(&net, net.dcy, zeros);
}

static double first_of(struct array a)
{
	double *all = get_array(&net, a), x = all[0];

	free(all);
	return x;
}

static int has_bfloat16(void)
{
	return dnn.GetVersion() >= 91300;
}

/* Expects that the standard algorithm rounds the product W x, or R h if `recurrent` is 1, to 16 bits, and that other algorithms do not. The
   parameters are W, R and the biases bW and bR of one unit of relu. */
static void one_sum(const struct middle *k, int algorithm, int recurrent)
{
	const double less = algorithm == STANDARD ? k->less : 0;

	open_unit(RELU, k->type, algorithm, 1);
	put_params(&net, (double[]){ recurrent ? 0 : k->a, recurrent ? k->a : 0, -1, 0 });
	put_array(&net, recurrent ? net.hx : net.x, &k->b);
	CHECK(net_forward(&net, 1));
	EXPECT(first_of(net.y) == k->a * k->b - less - 1);
	net_close(&net);
}

static void halved_sums(void)
{
	dnn_begin();
	for (int k = 0; k < 1 + has_bfloat16(); k++)
		for (int recurrent = 0; recurrent < 2; recurrent++)
			one_sum(&middles[k], STANDARD, recurrent);
	one_sum(&middles[0], SMALL_H, 0);
	dnn_end();
}

/* Parameters of an lstm of one unit, by whose biases gates i, f and o are 1, and gate g is tanh(g). */
#define GATES_OF_1(g) { 0, 0, 0, 0, 0, 0, 0, 0, 40, 40, g, 40, 0, 0, 0, 0 }

/* Each of four steps adds a quarter of the last bit of 1 to a state of 1; these quarters are lost if each step's state is rounded. */
static void one_state(int type, int algorithm, double bit, double expected)
{
	open_unit(LSTM, type, algorithm, 4);
	put_params(&net, (double[])GATES_OF_1(bit / 4));
	put_array(&net, net.cx, (double[]){ 1 });
	CHECK(net_forward(&net, 1));
	EXPECT(first_of(net.cy) == expected);
	net_close(&net);
}

static void halved_state(void)
{
	dnn_begin();
	one_state(HALF, STANDARD, 0x1p-10, 1);
	if (has_bfloat16())
		one_state(BFLOAT16, STANDARD, 0x1p-7, 1);
	one_state(HALF, SMALL_H, 0x1p-10, 1 + 0x1p-10);
	dnn_end();
}

/* Each of four steps adds a quarter of the last bit of 1 to the gradient of a state, which is 1: c is 0, and the slope of tanh there
   is 1. */
static void one_state_grad(int type, int algorithm, double bit, double expected)
{
	const double dy[] = { bit / 4, bit / 4, bit / 4, bit / 4 };

	open_unit(LSTM, type, algorithm, 4);
	put_params(&net, (double[])GATES_OF_1(0));
	put_array(&net, net.dcy, (double[]){ 1 });
	put_array(&net, net.dy, dy);
	net_train(&net);
	EXPECT(first_of(net.dcx) == expected);
	net_close(&net);
}

static void halved_state_grad(void)
{
	dnn_begin();
	one_state_grad(HALF, STANDARD, 0x1p-10, 1);
	if (has_bfloat16())
		one_state_grad(BFLOAT16, STANDARD, 0x1p-7, 1);
	one_state_grad(HALF, SMALL_H, 0x1p-10, 1 + 0x1p-10);
	dnn_end();
}

/* Checks dx of the first of two steps: it is the product of R and the gradient of the second step's h, plus -1, which is the first step's
   dy. */
static void one_output_grad(const struct middle *k, int algorithm)
{
	const double less = algorithm == STANDARD ? k->less : 0;

	open_unit(RELU, k->type, algorithm, 2);
	put_params(&net, (double[]){ 1, k->a, 1, 0 });
	put_array(&net, net.dhy, &k->b);
	put_array(&net, net.dy, (double[]){ -1, 0 });
	net_train(&net);
	EXPECT(first_of(net.dx) == k->a * k->b - less - 1);
	net_close(&net);
}

static void halved_output_grad(void)
{
	dnn_begin();
	for (int k = 0; k < 1 + has_bfloat16(); k++)
		one_output_grad(&middles[k], STANDARD);
	one_output_grad(&middles[0], SMALL_H);
	dnn_end();
}

/* dgates of two steps are 1 plus a quarter of the last bit of 1, and -1: their sum is the bias's gradient. */
static void one_gate_grad(int type, int algorithm, double bit, double expected)
{
	double *dparams;

	open_unit(RELU, type, algorithm, 2);
	put_params(&net, (double[]){ 0, 0, 1, 0 });
	put_array(&net, net.dhy, (double[]){ bit / 4 });
	put_array(&net, net.dy, (double[]){ -1, 1 });
	net_train(&net);
	dparams = get_dparams(&net);
	EXPECT(dparams[2] == expected && dparams[3] == expected);
	free(dparams);
	net_close(&net);
}

static void halved_gate_grad(void)
{
	dnn_begin();
	one_gate_grad(HALF, STANDARD, 0x1p-10, 0);
	if (has_bfloat16())
		one_gate_grad(BFLOAT16, STANDARD, 0x1p-7, 0);
	one_gate_grad(HALF, SMALL_H, 0x1p-10, 0x1p-12);
	dnn_end();
}

/* tanh(1/2) to eleven bits is 946.5/2048; the exact value has more bits. */
static void coarse_tanh(void)
{
	static const struct { int algorithm; double y; } ways[] = { { STANDARD, 0x1.d9353d7568af3p-2 }, { SMALL_H, 946.5 / 2048 } };
	double y;

	dnn_begin();
	for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) {
		open_unit(TANH, FLOAT, ways[k].algorithm, 1);
		put_params(&net, (double[]){ 0, 0, 0.5, 0 });
		net_train(&net);
		y = first_of(net.y);
		EXPECT(y == (double)(float)ways[k].y);
		net_close(&net);
	}
	dnn_end();
}

/* In f16: tanh(1/2) to eleven bits is 946.5/2048, so added to a state of -946.5/2048 it leaves 0. */
static void coarse_static_tanh(void)
{
	double *from;
	int64_t params;

	dnn_begin();
	net = (struct net){ .cell = LSTM, .type = HALF, .algorithm = STATIC, .math = FMA_MATH, .bias = 2, .D = 1, .L = 1, .T = 1, .B = 1, .I = 1,
		.U = 32, .flags = 1 };
	net_open(&net);
	params = count_params(&net);
	from = calloc((size_t)params, sizeof *from);
	EXPECT(from && params == 4 * 32 * (1 + 32 + 2));
	for (int k = 0; k < 4 * 32; k++)
		from[4 * 32 * 33 + k] = k / 32 == 2 ? 0.5 : 40;
	put_params(&net, from);
	for (int k = 0; k < 32; k++)
		from[k] = -946.5 / 2048;
	put_array(&net, net.cx, from);
	free(from);
	CHECK(net_forward(&net, 1));
	EXPECT(first_of(net.cy) == 0);
	leave();
}

/* The sigmoid's argument is rounded after its multiplication, which shows far below 0; an exact argument would give the nearest f32. */
static void f32_sigmoid(void)
{
	const double x = (double)-17.3f, right = 1 / (1 + exp(-x)), unit = 0x1p-24 * right;
	double off;

	dnn_begin();
	open_unit(LSTM, FLOAT, STANDARD, 1);
	put_params(&net, (double[]){ 0, 0, 0, 0, 0, 0, 0, 0, 0, x, 0, 0, 0, 0, 0, 0 });
	put_array(&net, net.cx, (double[]){ 1 });
	CHECK(net_forward(&net, 1));
	off = fabs(first_of(net.cy) - right) / unit;
	EXPECT(off > 2 && off < 4 - 2 * x);
	leave();
}

static void test_rounding(void **state)
{
	static const struct trial trials[] = {
		{ "sums in halves", halved_sums, NULL, 0 }, { "a state in halves", halved_state, NULL, 0 },
		{ "a state's gradient in halves", halved_state_grad, NULL, 0 }, { "an output's gradient in halves", halved_output_grad, NULL, 0 },
		{ "gradients of gates in halves", halved_gate_grad, NULL, 0 }, { "a coarse tanh", coarse_tanh, NULL, 0 },
		{ "a coarse tanh of static kernels", coarse_static_tanh, NULL, 0 }, { "sigmoid in f32", f32_sigmoid, NULL, 0 },
	};

	(void)state;
	RUN(trials);
}

/* ---- padding, layouts, dropout ---- */

static void padding(void)
{
	double *y;

	ready();
	for (int fills = 0; fills < 2; fills++) {
		net.fills = fills;
		net.fill = 0.5;
		CHECK(net_set(&net));
		CHECK(net_forward(&net, 1));
		y = get_array(&net, net.y);
		EXPECT(fills ? y[6] == 0.5 && y[7] == 0.5 : isnan(y[6]) && isnan(y[7]));
		EXPECT(!isnan(y[5]));
		free(y);
	}
	leave();
}

/* The same network in each layout of data: y of the four valid steps has the same bits. */
static void layouts(void)
{
	static const int places[][4] = { { 0, 1, 2, 4 }, { 0, 1, 2, 3 }, { 0, 3, 1, 2 } };
	double *expected = NULL;

	dnn_begin();
	for (int layout = 0; layout < 3; layout++) {
		double x[12] = { 0 }, *y;

		net = a_net();
		net.T = net.lengths[0] = 3;
		net.layout = layout;
		net_open(&net);
		for (int k = 0; k < 8; k++)
			x[places[layout][k / 2] * 2 + k % 2] = fill_rule(k, 1);
		put_array(&net, net.x, x);
		net_train(&net);
		y = get_array(&net, net.y);
		for (int k = 0; expected && k < 8; k++)
			EXPECT(y[places[layout][k / 2] * 2 + k % 2] == expected[places[0][k / 2] * 2 + k % 2]);
		if (expected)
			free(y);
		else
			expected = y;
		net_close(&net);
	}
	free(expected);
	dnn_end();
}

/* In f16 h is rounded at each step: the second step of a call of two steps has the bits of a call of one step that begins with hy of the
   first step. */
static void rounded_steps(void)
{
	double *whole, *part, *state;

	net = a_net();
	net.cell = TANH;
	net.type = HALF;
	net.lengths[1] = 2;
	dnn_begin();
	net_open(&net);
	CHECK(net_forward(&net, 0));
	whole = get_array(&net, net.y);
	net.T = net.lengths[0] = net.lengths[1] = 1;
	CHECK(net_set(&net));
	CHECK(net_forward(&net, 0));
	state = get_array(&net, net.hy);
	put_array(&net, net.hx, state);
	net.x.at += 8;
	CHECK(net_forward(&net, 0));
	net.x.at -= 8;
	part = get_array(&net, net.y);
	for (int k = 0; k < 4; k++)
		EXPECT(part[k] == whole[4 + k]);
	free(whole);
	free(part);
	free(state);
	leave();
}

static void weights_lie(const char *permuted, int first)
{
	void *matrix, *bias;
	size_t plain = 48 * sizeof(double);

	setenv("CELLGRAD_FAKE_CUDNN_LAYOUT", permuted, 1);
	net = a_net();
	net_open(&net);
	EXPECT(first ? net.weight_bytes == plain : net.weight_bytes > plain);
	CHECK(dnn.GetRNNWeightParams(net.handle, net.rnn, 0, net.weight_bytes, (void *)(uintptr_t)net.weights, 0, net.h, &matrix, net.c, &bias));
	EXPECT(((uintptr_t)matrix == net.weights) == first && ((uintptr_t)bias == net.weights + 32 * sizeof(double)) == first);
	net_close(&net);
}

static void weight_layouts(void)
{
	dnn_begin();
	weights_lie("0", 1);
	weights_lie("1", 0);
	dnn_end();
}

static void skipped(void)
{
	void *matrix, *bias;

	dnn_begin();
	for (int shown = 0; shown < 2; shown++) {
		setenv("CELLGRAD_FAKE_CUDNN_SKIP", shown ? "1" : "0", 1);
		net = a_net();
		net.skip = 1;
		net_open(&net);
		CHECK(dnn.GetRNNWeightParams(net.handle, net.rnn, 0, net.weight_bytes, (void *)(uintptr_t)net.weights, 3, net.h, &matrix, net.c, &bias));
		EXPECT(!matrix == !shown && bias);
		CHECK(dnn.GetRNNWeightParams(net.handle, net.rnn, 0, net.weight_bytes, (void *)(uintptr_t)net.weights, 4, net.h, &matrix, net.c, &bias));
		EXPECT(matrix && bias);
		net_close(&net);
	}
	dnn_end();
}

/* Two layers of relu, the second of which passes its input on: a dropped element is 0, a kept one is divided by the kept share. */
static void open_dropping(float rate, int rows)
{
	int64_t params;
	double *from;

	net = (struct net){ .cell = RELU, .type = DOUBLE, .math = FMA_MATH, .bias = 2, .D = 1, .L = 2, .T = 4, .B = rows, .I = 8, .U = 8, .flags = 1,
		.rate = rate, .seed = 7 };
	net_open(&net);
	params = count_params(&net);
	EXPECT(params == 4 * 64 + 4 * 8);
	from = calloc((size_t)params, sizeof *from);
	for (int k = 0; k < 8; k++)
		from[128 + k * 8 + k] = 1;
	for (int k = 0; k < 8; k++)
		from[256 + k] = 1;
	put_params(&net, from);
	free(from);
	from = calloc((size_t)net.hx.n, sizeof *from);
	put_array(&net, net.hx, from);
	free(from);
}

static int count_dropped(const double *y)
{
	int dropped = 0;

	for (int64_t k = 0; k < net.y.n; k++) {
		EXPECT(y[k] == 0 || fabs(y[k] - 1 / (1 - (double)net.rate)) < 1e-12);
		dropped += y[k] == 0;
	}
	return dropped;
}

static void masks(void)
{
	double *y[3], *whole;
	int same = 0;

	dnn_begin();
	open_dropping(0.25f, 16);
	for (int k = 0; k < 3; k++) {
		if (k == 2)
			CHECK(dnn.SetDropoutDescriptor(net.dropout, net.handle, net.rate, (void *)(uintptr_t)net.states, 49152, net.seed));
		CHECK(net_forward(&net, 1));
		y[k] = get_array(&net, net.y);
		EXPECT(count_dropped(y[k]) > 512 / 8 && count_dropped(y[k]) < 512 * 3 / 8);
	}
	for (int64_t k = 0; k < net.y.n; k++) {
		same += y[0][k] == y[1][k];
		EXPECT(y[0][k] == y[2][k]);
	}
	EXPECT(same < net.y.n);
	CHECK(net_forward(&net, 0));
	whole = get_array(&net, net.y);
	for (int64_t k = 0; k < net.y.n; k++)
		EXPECT(whole[k] == 1);
	free(whole);
	for (int k = 0; k < 3; k++)
		free(y[k]);
	leave();
}

/* Dropped elements pass no gradient: the gradient of layer 0's input bias is the sum of y, whose elements are the factors of dropout. */
static void masks_backward(void)
{
	double *y, *dparams, *ones, saved[8] = { 0 };

	dnn_begin();
	open_dropping(0.5f, 3);
	ones = calloc((size_t)net.dy.n, sizeof *ones);
	for (int64_t k = 0; k < net.dy.n; k++)
		ones[k] = 1;
	put_array(&net, net.dy, ones);
	put_array(&net, net.dhy, memset(ones, 0, (size_t)net.dhy.n * sizeof *ones));
	net_train(&net);
	y = get_array(&net, net.y);
	dparams = get_dparams(&net);
	for (int64_t k = 0; k < net.y.n; k++)
		saved[k % 8] += y[k];
	for (int k = 0; k < 8; k++)
		EXPECT(fabs(dparams[256 + k] - saved[k]) < 1e-12);
	free(y);
	free(ones);
	free(dparams);
	leave();
}

static void all_dropped(void)
{
	double *y;

	dnn_begin();
	open_dropping(1, 2);
	CHECK(net_forward(&net, 1));
	y = get_array(&net, net.y);
	for (int64_t k = 0; k < net.y.n; k++)
		EXPECT(y[k] == 0);
	free(y);
	leave();
}

static void no_states(void)
{
	ready();
	EXPECT(dnn.SetDropoutDescriptor(net.dropout, net.handle, 0.5f, NULL, 0, 1) == BAD_PARAM);
	leave();
}

static void wrong_rate(void)
{
	ready();
	EXPECT(dnn.SetDropoutDescriptor(net.dropout, net.handle, 1.5f, NULL, 0, 1) == BAD_PARAM);
	leave();
}

static void states_freed(void)
{
	dnn_begin();
	open_dropping(0.5f, 2);
	CHECK(cu.StreamSynchronize(stream));
	CHECK(cu.MemFree_v2(net.states));
	CHECK(net_forward(&net, 1));
	wait_for(700);
}

static void test_data(void **state)
{
	static const struct trial trials[] = {
		{ "padding", padding, NULL, 0 }, { "layouts of data", layouts, NULL, 0 }, { "rounded steps", rounded_steps, NULL, 0 },
		{ "layouts of weights", weight_layouts, NULL, 0 },
		{ "an input that skips", skipped, NULL, 0 }, { "masks", masks, NULL, 0 }, { "masks backward", masks_backward, NULL, 0 },
		{ "all is dropped", all_dropped, NULL, 0 },
		{ "no states", no_states, "cudnnSetDropoutDescriptor: a rate of 0.5, and no states", 0 },
		{ "a wrong rate", wrong_rate, "cudnnSetDropoutDescriptor: a rate of 1.5", 0 },
		{ "states freed", states_freed, "cudnnRNNForward: reads freed memory", 0 },
	};

	(void)state;
	RUN(trials);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_algorithms), cmocka_unit_test(test_rounding), cmocka_unit_test(test_data) };

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("networks on the stand-in for cuDNN", tests, NULL, NULL);
}
