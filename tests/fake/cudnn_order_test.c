/* The stand-in for libcudnn: memory, the order of the three calls, what they do to the reserve, algorithms, dropout. */
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

static struct net n;

static void ready(void)
{
	n = a_net();
	dnn_begin();
	net_open(&n);
}

static void leave(void)
{
	net_close(&n);
	dnn_end();
}

/* Whatever it did, the trial is over; what is left is said, too. */
static void wait_for(int code)
{
	EXPECT(cu.StreamSynchronize(stream) == code);
	exit(0);
}

/* ---- memory ---- */

static void refuse_forward(void)
{
	EXPECT(net_forward(&n, 1) == BAD_PARAM);
	exit(0);
}

static void few_weights(void)
{
	ready();
	n.weight_bytes--;
	refuse_forward();
}

static void uneven_weights(void)
{
	ready();
	n.weights += 4;
	refuse_forward();
}

static void little_work(void)
{
	ready();
	n.work_bytes--;
	refuse_forward();
}

static void uneven_work(void)
{
	ready();
	n.work += 128;
	refuse_forward();
}

static void little_reserve(void)
{
	ready();
	n.reserve_bytes--;
	refuse_forward();
}

static void more_than_there_is(void)
{
	ready();
	n.reserve_bytes++;
	refuse_forward();
}

static void no_reserve(void)
{
	ready();
	n.reserve = 0;
	refuse_forward();
}

static void host_memory(void)
{
	static double x[8];

	ready();
	n.x.at = (uintptr_t)x;
	refuse_forward();
}

static void short_states(void)
{
	ready();
	n.hx.at += 8;
	refuse_forward();
}

static void freed_too_early(void)
{
	ready();
	for (int k = 0; k < 40; k++)
		CHECK(net_forward(&n, 1));
	CHECK(cu.MemFree_v2(n.x.at));
	wait_for(700);
}

static void unwritten(struct array *a, int64_t elements)
{
	ready();
	CHECK(cu.StreamSynchronize(stream));
	*a = make_array(&n, elements);
	CHECK(net_forward(&n, 1));
	wait_for(700);
}

static void unwritten_x(void)
{
	unwritten(&n.x, 8);
}

static void unwritten_state(void)
{
	unwritten(&n.cx, 4);
}

static void unwritten_weights(void)
{
	struct array weights;

	ready();
	weights = make_array(&n, (int64_t)n.weight_bytes / 8);
	n.weights = weights.at;
	CHECK(net_forward(&n, 1));
	wait_for(700);
}

static void uncleared(void)
{
	ready();
	CHECK(net_forward(&n, 1));
	CHECK(net_data(&n));
	CHECK(net_weights(&n));
	wait_for(700);
}

/* Inference wants no reserve, and what is absent is zero or not wanted. */
static void little_is_given(void)
{
	struct net all;

	ready();
	all = n;
	n.reserve = n.hx.at = n.cx.at = n.hy.at = n.cy.at = 0;
	CHECK(net_forward(&n, 0));
	n = all;
	n.hx.at = n.cx.at = n.hy.at = n.cy.at = n.dhy.at = n.dcy.at = n.dhx.at = n.dcx.at = 0;
	net_train(&n);
	n = all;
	leave();
}

/* What is given of the device's lengths, by the version. */
static void lengths_by(const char *version, int given, unsigned expected)
{
	setenv("CELLGRAD_FAKE_CUDNN", version, 1);
	n.given_lengths = given ? (void *)(uintptr_t)n.device_lengths : NULL;
	EXPECT(net_forward(&n, 1) == expected);
}

static void lengths_of_versions(void)
{
	ready();
	lengths_by("8.9.1", 0, 0);
	lengths_by("8.9.1", 1, 0);
	lengths_by("8.9.0", 1, 0);
	lengths_by("9.0.0", 0, 0);
	unsetenv("CELLGRAD_FAKE_CUDNN");
	leave();
}

static void lengths_forgotten(void)
{
	ready();
	lengths_by("8.9.0", 0, 3);
	exit(0);
}

static void lengths_of_others(void)
{
	static const int32_t lengths[] = { 1, 2 };

	ready();
	CHECK(cu.MemcpyHtoDAsync_v2(n.device_lengths, lengths, sizeof lengths, stream));
	lengths_by("8.1.0", 1, 0);
	wait_for(719);
}

static void test_memory(void **state)
{
	static const struct trial trials[] = {
		{ "too few weights", few_weights, "cudnnRNNForward: weights: ", 0 },
		{ "misaligned weights", uneven_weights, "is no multiple of 8", 0 },
		{ "too little work", little_work, "cudnnRNNForward: work: ", 0 },
		{ "misaligned work", uneven_work, "cudnnRNNForward: work: ", 0 },
		{ "too little reserve", little_reserve, "cudnnRNNForward: reserve: ", 0 },
		{ "more reserve than there is", more_than_there_is, "cudnnRNNForward: reserve: ", 0 },
		{ "no reserve", no_reserve, "cudnnRNNForward: reserve: ", 0 },
		{ "x in the host's memory", host_memory, "which is not device memory", 0 },
		{ "a state too short", short_states, "cudnnRNNForward: hx: 32 bytes at byte 0 behind 32 bytes", 0 },
		{ "x freed too early", freed_too_early, "cudnnRNNForward: reads freed memory", 0 },
		{ "x that nobody wrote", unwritten_x, "cudnnRNNForward: reads what nobody wrote: byte 0 of 64 bytes", 0 },
		{ "a state that nobody wrote", unwritten_state, "cudnnRNNForward: reads what nobody wrote: byte 0 of 32 bytes", 0 },
		{ "weights that nobody wrote", unwritten_weights, "cudnnRNNForward: reads what nobody wrote", 0 },
		{ "gradients that are not cleared", uncleared, "cudnnRNNBackwardWeights_v8: reads what nobody wrote", 0 },
		{ "what need not be given", little_is_given, NULL, 0 }, { "lengths by version", lengths_of_versions, NULL, 0 },
		{ "no lengths for an old version", lengths_forgotten, "cudnnRNNForward: the device's lengths: 8 bytes at (nil), expected 8", 0 },
		{ "other lengths", lengths_of_others, "cudnnRNNForward: the device's lengths are not those of the descriptors", 0 },
	};

	(void)state;
	RUN(trials);
}

/* ---- order ---- */

static void no_forward(void)
{
	ready();
	CHECK(cu.MemsetD8Async(n.reserve, 0, n.reserve_bytes, stream));
	CHECK(cu.MemsetD8Async(n.y.at, 0, (size_t)n.y.n * 8, stream));
	CHECK(net_data(&n));
	wait_for(719);
}

static void only_inference(void)
{
	ready();
	CHECK(net_forward(&n, 0));
	CHECK(net_data(&n));
	wait_for(700);
}

static void weights_first(void)
{
	ready();
	CHECK(cu.MemsetD8Async(n.dweights, 0, n.weight_bytes, stream));
	CHECK(net_forward(&n, 1));
	CHECK(net_weights(&n));
	wait_for(719);
}

static void of_another_forward(void)
{
	n = a_net();
	n.lengths[1] = 2;
	dnn_begin();
	net_open(&n);
	CHECK(net_forward(&n, 1));
	n.lengths[1] = 1;
	CHECK(net_set(&n));
	CHECK(net_data(&n));
	wait_for(719);
}

static void other_weights(void)
{
	double *zeros = calloc(64, sizeof *zeros);

	ready();
	CHECK(net_forward(&n, 1));
	put_params(&n, zeros);
	CHECK(net_data(&n));
	wait_for(0);
}

static void other_state(void)
{
	ready();
	CHECK(net_forward(&n, 1));
	n.hx = n.cx;
	CHECK(net_data(&n));
	wait_for(0);
}

static void other_x(void)
{
	ready();
	CHECK(cu.MemsetD8Async(n.dweights, 0, n.weight_bytes, stream));
	CHECK(net_forward(&n, 1));
	CHECK(net_data(&n));
	n.x = n.dy;
	CHECK(net_weights(&n));
	wait_for(0);
}

static void set_gradients(void)
{
	ready();
	net_train(&n);
	EXPECT(dnn.RNNBackwardWeights_v8(n.handle, n.rnn, 1, NULL, n.x_data, (void *)(uintptr_t)n.x.at, n.h, NULL, n.y_data,
	                                 (void *)(uintptr_t)n.y.at, n.weight_bytes, (void *)(uintptr_t)n.dweights, n.work_bytes,
	                                 (void *)(uintptr_t)n.work, n.reserve_bytes, (void *)(uintptr_t)n.reserve) == NOT_SUPPORTED);
	leave();
}

/* A second backward from one forward: with the same answers where the reserve is not used up. */
static void twice(void)
{
	double *first, *second;

	setenv("CELLGRAD_FAKE_CUDNN_DESTROY", "0", 1);
	ready();
	net_train(&n);
	first = get_dparams(&n);
	CHECK(net_data(&n));
	CHECK(net_weights(&n));
	second = get_dparams(&n);
	for (int64_t k = 0; k < count_params(&n); k++)
		EXPECT(fabs(second[k] - 2 * first[k]) <= 1e-15);
	free(first);
	free(second);
	leave();
}

static void data_twice(void)
{
	setenv("CELLGRAD_FAKE_CUDNN_DESTROY", "1", 1);
	ready();
	CHECK(net_forward(&n, 1));
	CHECK(net_data(&n));
	CHECK(net_data(&n));
	wait_for(719);
}

static void used_up(void)
{
	setenv("CELLGRAD_FAKE_CUDNN_DESTROY", "1", 1);
	ready();
	net_train(&n);
	CHECK(net_data(&n));
	wait_for(719);
}

/* Work runs when it is waited for, or earlier by chance: a few of many calls are still to run. */
static void late(void)
{
	double y[8], was[8];
	int n_late = 0;

	ready();
	for (int k = 0; k < 40; k++) {
		memset(was, 0, sizeof was);
		put_array(&n, n.y, was);
		CHECK(net_forward(&n, 0));
		CHECK(cu.MemcpyDtoHAsync_v2(y, n.y.at, sizeof y, stream));
		n_late += isnan(y[0]);
		CHECK(cu.StreamSynchronize(stream));
		EXPECT(y[0] < -0.19);
	}
	EXPECT(n_late == 40);
	leave();
}

static void test_order(void **state)
{
	static const struct trial trials[] = {
		{ "no forward", no_forward, "cudnnRNNBackwardData_v8: the reserve is of no forward, or of another one", 0 },
		{ "inference", only_inference, "cudnnRNNBackwardData_v8: reads what nobody wrote", 0 },
		{ "weights first", weights_first, "cudnnRNNBackwardWeights_v8: before cudnnRNNBackwardData_v8", 0 },
		{ "another forward", of_another_forward, "cudnnRNNBackwardData_v8: the reserve is of no forward, or of another one", 0 },
		{ "other weights", other_weights, "cudnnRNNBackwardData_v8: weights is not what cudnnRNNForward was given", 0 },
		{ "another state", other_state, "cudnnRNNBackwardData_v8: hx is not what cudnnRNNForward was given", 0 },
		{ "another x", other_x, "cudnnRNNBackwardWeights_v8: x is not what cudnnRNNForward was given", 0 },
		{ "gradients to be set", set_gradients, "cudnnRNNBackwardWeights_v8: mode 1, expected CUDNN_WGRAD_MODE_ADD", 0 },
		{ "twice", twice, NULL, 0 }, { "late", late, NULL, 0 },
		{ "data twice", data_twice, "cudnnRNNBackwardData_v8: a second time from one reserve", 0 },
		{ "used up", used_up, "cudnnRNNBackwardData_v8: the reserve is of no forward, or of another one", 0 },
	};

	(void)state;
	RUN(trials);
}

/* ---- algorithms and math ---- */

static unsigned size_with(int algorithm, int cell, int U)
{
	struct net other = n;
	size_t work, reserve;

	other.algorithm = algorithm;
	other.cell = cell;
	other.U = U;
	CHECK(net_set(&other));
	return dnn.GetRNNTempSpaceSizes(n.handle, n.rnn, 1, n.x_data, &work, &reserve);
}

static void limits(void)
{
	n = a_net();
	n.type = FLOAT;
	n.lengths[1] = 2;
	dnn_begin();
	net_open(&n);
	EXPECT(!size_with(SMALL_H, LSTM, 192) && size_with(SMALL_H, LSTM, 193) == NOT_SUPPORTED);
	EXPECT(!size_with(SMALL_H, TANH, 384) && size_with(SMALL_H, TANH, 385) == NOT_SUPPORTED);
	EXPECT(!size_with(STATIC, GRU, 64) && size_with(STATIC, GRU, 65) == NOT_SUPPORTED && size_with(STATIC, GRU, 928) == NOT_SUPPORTED);
	EXPECT(!size_with(STANDARD, LSTM, 4001));
	n.lengths[1] = 1;
	EXPECT(size_with(SMALL_H, LSTM, 64) == NOT_SUPPORTED);
	leave();
}

/* Backward has less room than forward. */
static void small_backward(void)
{
	n = a_net();
	n.type = FLOAT;
	n.algorithm = SMALL_H;
	n.lengths[1] = 2;
	n.U = 160;
	dnn_begin();
	net_open(&n);
	CHECK(net_forward(&n, 1));
	EXPECT(net_data(&n) == NOT_SUPPORTED);
	n.algorithm = STANDARD;
	CHECK(net_set(&n));
	CHECK(net_data(&n));
	leave();
}

static void built(void)
{
	n = a_net();
	n.lengths[1] = 2;
	dnn_begin();
	net_open(&n);
	n.algorithm = DYNAMIC;
	CHECK(net_set(&n));
	CHECK(dnn.BuildRNNDynamic(n.handle, n.rnn, n.B));
	net_train(&n);
	leave();
}

static void not_built(void)
{
	n = a_net();
	n.lengths[1] = 2;
	dnn_begin();
	net_open(&n);
	n.algorithm = DYNAMIC;
	CHECK(net_set(&n));
	CHECK(dnn.BuildRNNDynamic(n.handle, n.rnn, 3));
	EXPECT(net_forward(&n, 1) == BAD_PARAM);
	exit(0);
}

static double output_with(int math)
{
	double *y, first;

	n.math = math;
	CHECK(net_set(&n));
	CHECK(net_forward(&n, 0));
	y = get_array(&n, n.y);
	first = y[0];
	free(y);
	return first;
}

static void narrow_math(void)
{
	double wide, narrow;

	n = a_net();
	n.type = FLOAT;
	dnn_begin();
	net_open(&n);
	wide = output_with(FMA_MATH);
	narrow = output_with(DEFAULT_MATH);
	EXPECT(fabs(wide + 0.196443835) < 1e-7 && wide != narrow && fabs(wide - narrow) < 1e-3);
	setenv("CELLGRAD_FAKE_ARCH", "75", 1);
	EXPECT(output_with(DEFAULT_MATH) == wide);
	leave();
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

/* ---- padding, layouts, dropout ---- */

static void padding(void)
{
	double *y;

	ready();
	for (int fills = 0; fills < 2; fills++) {
		n.fills = fills;
		n.fill = 0.5;
		CHECK(net_set(&n));
		CHECK(net_forward(&n, 1));
		y = get_array(&n, n.y);
		EXPECT(fills ? y[6] == 0.5 && y[7] == 0.5 : isnan(y[6]) && isnan(y[7]));
		EXPECT(!isnan(y[5]));
		free(y);
	}
	leave();
}

/* The same network in each layout of data: the valid rows are the same. */
static void layouts(void)
{
	static const int places[][3] = { { 0, 1, 2 }, { 0, 1, 2 }, { 0, 2, 1 } };
	double *expected = NULL;

	for (int layout = 0; layout < 3; layout++) {
		double *x, *y;

		n = a_net();
		n.layout = layout;
		if (!layout)
			dnn_begin();
		net_open(&n);
		x = calloc(8, sizeof *x);
		for (int k = 0; k < 6; k++)
			x[places[layout][k / 2] * 2 + k % 2] = fill_rule(k, 1);
		put_array(&n, n.x, x);
		net_train(&n);
		y = get_array(&n, n.y);
		for (int k = 0; expected && k < 6; k++)
			EXPECT(y[places[layout][k / 2] * 2 + k % 2] == expected[k]);
		if (expected)
			free(y);
		else
			expected = y;
		free(x);
		net_close(&n);
	}
	free(expected);
	dnn_end();
}

static void weights_lie(const char *permuted, int first)
{
	void *matrix, *bias;
	size_t plain = 48 * sizeof(double);

	setenv("CELLGRAD_FAKE_CUDNN_LAYOUT", permuted, 1);
	n = a_net();
	net_open(&n);
	EXPECT(first ? n.weight_bytes == plain : n.weight_bytes > plain);
	CHECK(dnn.GetRNNWeightParams(n.handle, n.rnn, 0, n.weight_bytes, (void *)(uintptr_t)n.weights, 0, n.h, &matrix, n.c, &bias));
	EXPECT(((uintptr_t)matrix == n.weights) == first && ((uintptr_t)bias == n.weights + 32 * sizeof(double)) == first);
	net_close(&n);
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
		n = a_net();
		n.skip = 1;
		net_open(&n);
		CHECK(dnn.GetRNNWeightParams(n.handle, n.rnn, 0, n.weight_bytes, (void *)(uintptr_t)n.weights, 3, n.h, &matrix, n.c, &bias));
		EXPECT(!matrix == !shown && bias);
		CHECK(dnn.GetRNNWeightParams(n.handle, n.rnn, 0, n.weight_bytes, (void *)(uintptr_t)n.weights, 4, n.h, &matrix, n.c, &bias));
		EXPECT(matrix && bias);
		net_close(&n);
	}
	dnn_end();
}

/* Two layers of relu, where the second hands on what it gets: what is dropped is 0, what is kept is divided by what is kept. */
static void open_dropping(float rate, int rows)
{
	int64_t params;
	double *from;

	n = (struct net){ .cell = RELU, .type = DOUBLE, .math = FMA_MATH, .bias = 2, .D = 1, .L = 2, .T = 4, .B = rows, .I = 8, .U = 8, .flags = 1,
		.rate = rate, .seed = 7 };
	net_open(&n);
	params = count_params(&n);
	EXPECT(params == 4 * 64 + 4 * 8);
	from = calloc((size_t)params, sizeof *from);
	for (int k = 0; k < 8; k++)
		from[128 + k * 8 + k] = 1;
	for (int k = 0; k < 8; k++)
		from[256 + k] = 1;
	put_params(&n, from);
	free(from);
	from = calloc((size_t)n.hx.n, sizeof *from);
	put_array(&n, n.hx, from);
	free(from);
}

static int count_dropped(const double *y)
{
	int dropped = 0;

	for (int64_t k = 0; k < n.y.n; k++) {
		EXPECT(y[k] == 0 || fabs(y[k] - 1 / (1 - (double)n.rate)) < 1e-12);
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
			CHECK(dnn.SetDropoutDescriptor(n.dropout, n.handle, n.rate, (void *)(uintptr_t)n.states, 49152, n.seed));
		CHECK(net_forward(&n, 1));
		y[k] = get_array(&n, n.y);
		EXPECT(count_dropped(y[k]) > 512 / 8 && count_dropped(y[k]) < 512 * 3 / 8);
	}
	for (int64_t k = 0; k < n.y.n; k++) {
		same += y[0][k] == y[1][k];
		EXPECT(y[0][k] == y[2][k]);
	}
	EXPECT(same < n.y.n);
	CHECK(net_forward(&n, 0));
	whole = get_array(&n, n.y);
	for (int64_t k = 0; k < n.y.n; k++)
		EXPECT(whole[k] == 1);
	free(whole);
	for (int k = 0; k < 3; k++)
		free(y[k]);
	leave();
}

/* What was dropped lets no gradient through: biases of layer 0 sum what was kept. */
static void masks_backward(void)
{
	double *y, *dparams, *ones, kept[8] = { 0 };

	dnn_begin();
	open_dropping(0.5f, 3);
	ones = calloc((size_t)n.dy.n, sizeof *ones);
	for (int64_t k = 0; k < n.dy.n; k++)
		ones[k] = 1;
	put_array(&n, n.dy, ones);
	put_array(&n, n.dhy, memset(ones, 0, (size_t)n.dhy.n * sizeof *ones));
	net_train(&n);
	y = get_array(&n, n.y);
	dparams = get_dparams(&n);
	for (int64_t k = 0; k < n.y.n; k++)
		kept[k % 8] += y[k];
	for (int k = 0; k < 8; k++)
		EXPECT(fabs(dparams[256 + k] - kept[k]) < 1e-12);
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
	CHECK(net_forward(&n, 1));
	y = get_array(&n, n.y);
	for (int64_t k = 0; k < n.y.n; k++)
		EXPECT(y[k] == 0);
	free(y);
	leave();
}

static void no_states(void)
{
	ready();
	EXPECT(dnn.SetDropoutDescriptor(n.dropout, n.handle, 0.5f, NULL, 0, 1) == BAD_PARAM);
	leave();
}

static void wrong_rate(void)
{
	ready();
	EXPECT(dnn.SetDropoutDescriptor(n.dropout, n.handle, 1.5f, NULL, 0, 1) == BAD_PARAM);
	leave();
}

static void states_freed(void)
{
	dnn_begin();
	open_dropping(0.5f, 2);
	CHECK(cu.StreamSynchronize(stream));
	CHECK(cu.MemFree_v2(n.states));
	CHECK(net_forward(&n, 1));
	wait_for(700);
}

static void test_data(void **state)
{
	static const struct trial trials[] = {
		{ "padding", padding, NULL, 0 }, { "layouts of data", layouts, NULL, 0 }, { "layouts of weights", weight_layouts, NULL, 0 },
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
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_memory), cmocka_unit_test(test_order), cmocka_unit_test(test_algorithms), cmocka_unit_test(test_data),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("networks on the stand-in for cuDNN", tests, NULL, NULL);
}
