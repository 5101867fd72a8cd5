/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in for libcudnn: memory, the order of the three calls, and the reserve after each. */
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

/* ---- memory ---- */

static void refuse_forward(void)
{
	EXPECT(net_forward(&net, 1) == BAD_PARAM);
	exit(0);
}

static void few_weights(void)
{
	ready();
	net.weight_bytes--;
	refuse_forward();
}

static void uneven_weights(void)
{
	ready();
	net.weights += 4;
	refuse_forward();
}

static void little_work(void)
{
	ready();
	net.work_bytes--;
	refuse_forward();
}

static void uneven_work(void)
{
	ready();
	net.work += 128;
	refuse_forward();
}

static void little_reserve(void)
{
	ready();
	net.reserve_bytes--;
	refuse_forward();
}

static void more_than_there_is(void)
{
	ready();
	net.reserve_bytes++;
	refuse_forward();
}

static void no_reserve(void)
{
	ready();
	net.reserve = 0;
	refuse_forward();
}

static void host_memory(void)
{
	static double x[8];

	ready();
	net.x.at = (uintptr_t)x;
	refuse_forward();
}

static void short_states(void)
{
	ready();
	net.hx.at += 8;
	refuse_forward();
}

static void freed_too_early(void)
{
	ready();
	for (int k = 0; k < 40; k++)
		CHECK(net_forward(&net, 1));
	CHECK(cu.MemFree_v2(net.x.at));
	wait_for(700);
}

static void unwritten(struct array *a, int64_t elements)
{
	ready();
	CHECK(cu.StreamSynchronize(stream));
	*a = make_array(&net, elements);
	CHECK(net_forward(&net, 1));
	wait_for(700);
}

static void unwritten_x(void)
{
	unwritten(&net.x, 8);
}

static void unwritten_state(void)
{
	unwritten(&net.cx, 4);
}

static void unwritten_weights(void)
{
	struct array weights;

	ready();
	weights = make_array(&net, (int64_t)net.weight_bytes / 8);
	net.weights = weights.at;
	CHECK(net_forward(&net, 1));
	wait_for(700);
}

static void uncleared(void)
{
	ready();
	CHECK(net_forward(&net, 1));
	CHECK(net_data(&net));
	CHECK(net_weights(&net));
	wait_for(700);
}

/* Inference is accepted without a reserve; all calls are accepted without states and their gradients. */
static void little_is_given(void)
{
	struct net all;

	ready();
	all = net;
	net.reserve = net.hx.at = net.cx.at = net.hy.at = net.cy.at = 0;
	CHECK(net_forward(&net, 0));
	net = all;
	net.hx.at = net.cx.at = net.hy.at = net.cy.at = net.dhy.at = net.dcy.at = net.dhx.at = net.dcx.at = 0;
	net_train(&net);
	net = all;
	leave();
}

/* Runs a forward as `version` of cuDNN, with the device's copy of the lengths or (given 0) without; the call must return
   `expected`. */
static void lengths_by(const char *version, int given, unsigned expected)
{
	setenv("CELLGRAD_FAKE_CUDNN", version, 1);
	net.given_lengths = given ? (void *)(uintptr_t)net.device_lengths : NULL;
	EXPECT(net_forward(&net, 1) == expected);
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
	CHECK(cu.MemcpyHtoDAsync_v2(net.device_lengths, lengths, sizeof lengths, stream));
	lengths_by("8.1.0", 1, 0);
	wait_for(719);
}

/* The address of hy is a multiple of 4, not of 16: the standard algorithm runs, the persistent one for few units does not. */
static void between_sixteens(void)
{
	static const int algorithms[] = { STANDARD, SMALL_H };

	net = a_net();
	net.type = FLOAT;
	net.lengths[1] = 2;
	dnn_begin();
	net_open(&net);
	net.hy = make_array(&net, net.hy.n + 1);
	net.hy.at += 4;
	for (int k = 0; k < 2; k++) {
		net.algorithm = algorithms[k];
		CHECK(net_set(&net));
		CHECK(net_forward(&net, 0));
		EXPECT(cu.StreamSynchronize(stream) == (k ? 716 : 0));
	}
	exit(0);
}

static void test_wrong_memory(void **state)
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
		{ "between multiples of 16", between_sixteens, "cudnnRNNForward: a persistent kernel was given memory that is no multiple of 16", 0 },
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
	CHECK(cu.MemsetD8Async(net.reserve, 0, net.reserve_bytes, stream));
	CHECK(cu.MemsetD8Async(net.y.at, 0, (size_t)net.y.n * 8, stream));
	CHECK(net_data(&net));
	wait_for(719);
}

static void only_inference(void)
{
	ready();
	CHECK(net_forward(&net, 0));
	CHECK(net_data(&net));
	wait_for(700);
}

static void weights_first(void)
{
	ready();
	CHECK(cu.MemsetD8Async(net.dweights, 0, net.weight_bytes, stream));
	CHECK(net_forward(&net, 1));
	CHECK(net_weights(&net));
	wait_for(719);
}

static void of_another_forward(void)
{
	net = a_net();
	net.lengths[1] = 2;
	dnn_begin();
	net_open(&net);
	CHECK(net_forward(&net, 1));
	net.lengths[1] = 1;
	CHECK(net_set(&net));
	CHECK(net_data(&net));
	wait_for(719);
}

static void other_weights(void)
{
	static const double zeros[64];

	ready();
	CHECK(net_forward(&net, 1));
	put_params(&net, zeros);
	CHECK(net_data(&net));
	wait_for(0);
}

static void other_state(void)
{
	ready();
	CHECK(net_forward(&net, 1));
	net.hx = net.cx;
	CHECK(net_data(&net));
	wait_for(0);
}

static void other_x(void)
{
	ready();
	CHECK(cu.MemsetD8Async(net.dweights, 0, net.weight_bytes, stream));
	CHECK(net_forward(&net, 1));
	CHECK(net_data(&net));
	net.x = net.dy;
	CHECK(net_weights(&net));
	wait_for(0);
}

static void set_gradients(void)
{
	ready();
	net_train(&net);
	EXPECT(dnn.RNNBackwardWeights_v8(net.handle, net.rnn, 1, NULL, net.x_data, (void *)(uintptr_t)net.x.at, net.h, NULL, net.y_data,
	                                 (void *)(uintptr_t)net.y.at, net.weight_bytes, (void *)(uintptr_t)net.dweights, net.work_bytes,
	                                 (void *)(uintptr_t)net.work, net.reserve_bytes, (void *)(uintptr_t)net.reserve) == NOT_SUPPORTED);
	leave();
}

/* If backward does not destroy the reserve, a second backward from one forward adds the same gradient of parameters again. */
static void twice(void)
{
	double *first, *second;

	setenv("CELLGRAD_FAKE_CUDNN_DESTROY", "0", 1);
	ready();
	net_train(&net);
	first = get_dparams(&net);
	CHECK(net_data(&net));
	CHECK(net_weights(&net));
	second = get_dparams(&net);
	for (int64_t k = 0; k < count_params(&net); k++)
		EXPECT(fabs(second[k] - 2 * first[k]) <= 1e-15);
	free(first);
	free(second);
	leave();
}

static void data_twice(void)
{
	setenv("CELLGRAD_FAKE_CUDNN_DESTROY", "1", 1);
	ready();
	CHECK(net_forward(&net, 1));
	CHECK(net_data(&net));
	CHECK(net_data(&net));
	wait_for(719);
}

static void used_up(void)
{
	setenv("CELLGRAD_FAKE_CUDNN_DESTROY", "1", 1);
	ready();
	net_train(&net);
	CHECK(net_data(&net));
	wait_for(719);
}

/* Both backward calls read the argument y: with zeros in y an element of dhx changes, and one of the gradient of parameters. */
static void other_y(void)
{
	double *right[2], *wrong[2];

	setenv("CELLGRAD_FAKE_CUDNN_DESTROY", "0", 1);
	net = a_net();
	net.cell = GRU;
	dnn_begin();
	net_open(&net);
	net_train(&net);
	right[0] = get_array(&net, net.dhx);
	right[1] = get_dparams(&net);
	CHECK(cu.MemsetD8Async(net.y.at, 0, (size_t)net.y.n * sizeof **right, stream));
	CHECK(net_data(&net));
	wrong[0] = get_array(&net, net.dhx);
	CHECK(net_forward(&net, 1));
	CHECK(net_data(&net));
	CHECK(cu.MemsetD8Async(net.y.at, 0, (size_t)net.y.n * sizeof **right, stream));
	CHECK(cu.MemsetD8Async(net.dweights, 0, net.weight_bytes, stream));
	CHECK(net_weights(&net));
	wrong[1] = get_dparams(&net);
	EXPECT(wrong[0][0] != right[0][0] && wrong[1][12] != right[1][12]);
	for (int k = 0; k < 2; k++) {
		free(right[k]);
		free(wrong[k]);
	}
	leave();
}

/* After a forward the first element of the workspace is NaN; the last element of the reserve, which forward does not write, is NaN only
   where CELLGRAD_FAKE_CUDNN_NAN is 1. */
static void full_of_nans(void)
{
	double *last;

	for (int nan = 0; nan < 2; nan++) {
		setenv("CELLGRAD_FAKE_CUDNN_NAN", nan ? "1" : "0", 1);
		if (!nan)
			dnn_begin();
		net = a_net();
		net_open(&net);
		CHECK(cu.MemsetD8Async(net.reserve, 0, net.reserve_bytes, stream));
		CHECK(cu.MemsetD8Async(net.work, 0, net.work_bytes, stream));
		CHECK(net_forward(&net, 1));
		last = get_array(&net, (struct array){ net.reserve + net.reserve_bytes - sizeof *last, 1 });
		EXPECT(nan ? isnan(*last) : *last == 0);
		free(last);
		last = get_array(&net, (struct array){ net.work, 1 });
		EXPECT(isnan(*last));
		free(last);
		net_close(&net);
	}
	dnn_end();
}

/* Work runs after the call that enqueues it: in each of 40 turns the copy's destination holds NaN until the host waits. */
static void late(void)
{
	double y[8], was[8];
	int n_late = 0;

	ready();
	for (int k = 0; k < 40; k++) {
		memset(was, 0, sizeof was);
		put_array(&net, net.y, was);
		CHECK(net_forward(&net, 0));
		CHECK(cu.MemcpyDtoHAsync_v2(y, net.y.at, sizeof y, stream));
		n_late += isnan(y[0]);
		CHECK(cu.StreamSynchronize(stream));
		EXPECT(y[0] < -0.19);
	}
	EXPECT(n_late == 40);
	leave();
}

static void test_wrong_order(void **state)
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
		{ "twice", twice, NULL, 0 }, { "late", late, NULL, 0 }, { "another y", other_y, NULL, 0 }, { "NaNs", full_of_nans, NULL, 0 },
		{ "data twice", data_twice, "cudnnRNNBackwardData_v8: a second time from one reserve", 0 },
		{ "used up", used_up, "cudnnRNNBackwardData_v8: the reserve is of no forward, or of another one", 0 },
	};

	(void)state;
	RUN(trials);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_wrong_memory), cmocka_unit_test(test_wrong_order) };

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("memory and order of cuDNN's calls", tests, NULL, NULL);
}
