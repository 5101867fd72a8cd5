/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Sequences of more steps than cuDNN takes at once, run in ranges of steps, have the answers of route composed on the cpu to 1e-10, in
 * f64: the longest sequence that fits in one range, one step more, and three ranges. A bidirectional call of more steps than cuDNN takes at
 * once, which cannot be cut into ranges, takes route composed, and has the answers of route scan on the cpu.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "verify/numbers.h"
#include "tests/help/counted.h"
#include "tests/backends/cuda/cuda_watch.h"
#include "tests/help/small_net.h"

enum { MOST = 65535, HANDED = 128 };

/* ---- against the composed route ---- */

static const int32_t one_more[] = { MOST + 1, MOST, 0, 1 }, of_three[] = { 140000, 70000 }, all_short[] = { 5, MOST };

static const struct trial {
	const char *name, *cell;
	int64_t T, B;
	const int32_t *lengths;
	int layers, time_major, proj, inference, accumulate, no_states;  /* no_states: without initial states */
	double dropout;
	long runs;                               /* the number of cuDNN's forward calls, and of its backward calls for the data */
	int again;                               /* 1: the trial is run again, and must have the same bits */
} trials[] = {
	{ "the longest in one part",  "lstm",     MOST,     1, NULL,      1, 1, 0, 0, 0, 0, 0,    1, 0 },
	{ "one step more",            "lstm",     MOST + 1, 1, NULL,      1, 1, 0, 0, 0, 0, 0,    2, 0 },
	{ "one more, batch-major",    "lstm",     MOST + 1, 2, NULL,      2, 0, 0, 0, 1, 0, 0,    2, 1 },
	{ "one more, lengths",        "gru",      MOST + 1, 4, one_more,  1, 1, 0, 0, 0, 1, 0,    2, 0 },
	{ "one more, a projection",   "lstm",     MOST + 1, 1, NULL,      1, 1, 1, 0, 0, 1, 0,    2, 1 },
	{ "three parts",              "lstm",     140000,   1, NULL,      1, 1, 0, 0, 1, 0, 0,    3, 0 },
	{ "three parts, batch-major", "rnn_tanh", 140000,   2, of_three,  2, 0, 0, 0, 0, 0, 0.25, 6, 0 },
	{ "nothing in later parts",   "rnn_tanh", 140000,   2, all_short, 1, 0, 0, 0, 0, 0, 0,    1, 0 },
	{ "inference",                "lstm",     140000,   1, NULL,      1, 0, 0, 1, 0, 0, 0,    3, 0 },
};

static void open_on(struct net *n, const struct trial *trial, struct cg_context *context, struct cg_stream *stream, int place,
                    const char *route)
{
	net_begin(n, context, stream);
	n->place = place;
	n->config.route = route;
	n->config.dtype = CG_F64;
	n->config.cell = cg_cell_find(trial->cell);
	n->config.layers = trial->layers;
	n->config.time_major = trial->time_major;
	n->config.input = 1;
	n->config.units = 2;
	n->config.proj = trial->proj;
	n->config.training = !trial->inference;
	n->config.dropout = trial->dropout;
	n->call.T = trial->T;
	n->call.B = trial->B;
	n->call.lengths = trial->lengths;
	n->call.first_step = 7;
	n->call.counter = 3;
	n->call.accumulate = trial->accumulate;
	if (net_open(n))
		fail_msg("%s: %s", trial->name, cg_message());
	if (trial->no_states) {
		net_free(n, &n->call.input_h);
		net_free(n, &n->call.input_c);
	}
}

static void run(struct net *n, const struct trial *trial)
{
	if (net_forward(n) || (!trial->inference && net_backward(n)))
		fail_msg("%s: %s", trial->name, cg_message());
}

static double *fetch(struct net *n, const struct cg_mem *mem)
{
	double *values = malloc(mem->bytes + 1);

	assert_non_null(values);
	assert_int_equal(cg_get(n->stream, values, *mem, mem->bytes), CG_OK);
	return values;
}

/* Expects results within 1e-10 (1 + |right|) of the right ones; the reserve is not compared. */
static void expect_same(const struct trial *trial, struct net *got, struct net *right)
{
	for (int k = 0; k < NET_PORTS; k++) {
		const struct net_port *port = &net_ports[k];
		double *a, *b;

		if ((port->forward != NET_OUT && (trial->inference || port->backward != NET_OUT)) || !strcmp(port->name, "reserve_space"))
			continue;
		a = fetch(got, net_mem(got, port));
		b = fetch(right, net_mem(right, port));
		for (size_t e = 0; e < net_mem(right, port)->bytes / sizeof *b; e++)
			if (!(fabs(a[e] - b[e]) <= 1e-10 * (1 + fabs(b[e]))))
				fail_msg("%s: %s[%zu]: expected %.17g, got %.17g", trial->name, port->name, e, b[e], a[e]);
		free(a);
		free(b);
	}
}

static uint64_t print(struct net *n)
{
	uint64_t sum;

	assert_int_equal(net_print(n, &sum), CG_OK);
	return sum;
}

/* Runs the network again: the reserve, and unless gradients are added the results too, have the bits of the first run. */
static void expect_again(const struct trial *trial, struct net *n)
{
	size_t bytes = n->call.reserve.bytes;
	unsigned char *first = malloc(bytes + 1), *second = malloc(bytes + 1);
	uint64_t sum = print(n);

	assert_non_null(first);
	assert_non_null(second);
	assert_int_equal(bytes ? cg_get(n->stream, first, n->call.reserve, bytes) : 0, CG_OK);
	/* The end of the reserve space holds the states between ranges; the bytes at this end before a run do not matter. */
	memcpy(second, first, bytes);
	memset(second + bytes - (bytes < HANDED ? bytes : HANDED), 0x55, bytes < HANDED ? bytes : HANDED);
	assert_int_equal(bytes ? cg_put(n->stream, n->call.reserve, second, bytes) : 0, CG_OK);
	run(n, trial);
	assert_int_equal(bytes ? cg_get(n->stream, second, n->call.reserve, bytes) : 0, CG_OK);
	if (!trial->accumulate && print(n) != sum)
		fail_msg("%s: other bits the second time", trial->name);
	for (size_t k = 0; k < bytes; k++)
		if (first[k] != second[k])
			fail_msg("%s: reserve: byte %zu of %zu is not the same again", trial->name, k, bytes);
	free(first);
	free(second);
}

static void test_parts(void **state)
{
	struct tensors t, u = { .n = 0 };
	struct net got, right;

	(void)state;
	if (!open_with_cudnn(&t))
		return;
	assert_int_equal(cg_open("cpu", &u.context), CG_OK);
	assert_int_equal(cg_stream_open(u.context, NULL, &u.stream), CG_OK);
	for (size_t k = 0; k < sizeof trials / sizeof *trials; k++) {
		open_on(&got, &trials[k], t.context, t.stream, CG_DEVICE, "cudnn");
		open_on(&right, &trials[k], u.context, u.stream, CG_HOST, "composed");
		assert_string_equal(cg_rnn_route_at(got.rnn, trials[k].T), "cudnn");
		forget_calls();
		run(&got, &trials[k]);
		if (seen.cudnnRNNForward != trials[k].runs)
			fail_msg("%s: %ld calls of cuDNN forward, expected %ld", trials[k].name, seen.cudnnRNNForward, trials[k].runs);
		assert_int_equal(seen.cudnnRNNBackwardData_v8, trials[k].inference ? 0 : trials[k].runs);
		run(&right, &trials[k]);
		expect_same(&trials[k], &got, &right);
		if (trials[k].again)
			expect_again(&trials[k], &got);
		net_close(&got);
		net_close(&right);
	}
	free_tensors(&u);
	free_tensors(&t);
}

/* ---- both directions ---- */

static void test_both_directions(void **state)
{
	static const char why[] = "more than 65535 steps in both directions";
	static const struct trial trial = { "both directions", "rnn_relu", MOST + 1, 1, NULL, 1, 1, 0, 1, 0, 0, 0, 0, 0 };
	struct tensors t, u = { .n = 0 };
	struct cg_rnn_sizes sizes;
	struct net got, right;

	(void)state;
	if (!open_with_cudnn(&t))
		return;
	net_begin(&got, t.context, t.stream);
	got.config.bidirectional = 1;
	got.config.route = "cudnn";
	assert_int_equal(cg_rnn_open(t.context, &got.config, &got.rnn), CG_OK);
	assert_int_equal(cg_rnn_sizes(got.rnn, MOST, 1, NULL, &sizes), CG_OK);
	expect_refused(cg_rnn_sizes(got.rnn, MOST + 1, 1, NULL, &sizes), CG_UNSUPPORTED, why);
	assert_non_null(strstr(cg_message(), "T=65536"));
	cg_rnn_close(got.rnn);

	/* If the config names no route, a bidirectional call of more steps than cuDNN takes at once runs on route composed. */
	assert_int_equal(cg_open("cpu", &u.context), CG_OK);
	assert_int_equal(cg_stream_open(u.context, NULL, &u.stream), CG_OK);
	for (int k = 0; k < 2; k++) {
		struct net *n = k ? &right : &got;

		net_begin(n, k ? u.context : t.context, k ? u.stream : t.stream);
		n->place = k ? CG_HOST : CG_DEVICE;
		n->config.bidirectional = 1;
		n->config.dtype = CG_F64;
		n->config.cell = cg_cell_find(trial.cell);
		n->config.layers = n->config.units = n->config.input = 1;
		n->config.training = 0;
		n->call.T = trial.T;
		n->call.B = trial.B;
		if (net_open(n))
			fail_msg("%s", cg_message());
	}
	assert_string_equal(cg_rnn_route(got.rnn), "cudnn");
	assert_string_equal(cg_rnn_route_at(got.rnn, MOST), "cudnn");
	assert_string_equal(cg_rnn_route_at(got.rnn, MOST + 1), "composed (more than 65535 steps in both directions: not cudnn)");
	assert_string_equal(cg_rnn_route_at(right.rnn, MOST + 1), "scan");
	assert_string_equal(cg_rnn_route_at(NULL, 1), "");
	forget_calls();
	run(&got, &trial);
	assert_int_equal(seen.cudnnRNNForward, 0);
	run(&right, &trial);
	expect_same(&trial, &got, &right);
	net_close(&got);
	net_close(&right);
	free_tensors(&u);
	free_tensors(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parts), cmocka_unit_test(test_both_directions), cmocka_unit_test(test_nothing_left),
	};

	counted_begin();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("cuda_span", tests, set_up, NULL);
}
