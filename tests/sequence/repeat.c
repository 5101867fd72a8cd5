/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Repeated calls: backward twice, another context, other numbers of threads; on routes that promise bits, the answers have the same bits
 * each time.
 * Also tests calls in a row without waiting between them, whose answers are within the reference's bounds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "verify/numbers.h"
#include "tests/sequence/suite.h"

/* Draws a network so large that threads divide its rows, its products and its sums. */
static void draw_large(struct network *net, unsigned long long *state)
{
	random_network(net, state);
	net->T = 12;
	net->B = 20;
	net->config.units = net->config.input = network_is_slow() ? 40 : 96;
	net->config.proj = net->config.proj ? 17 : 0;
	net->config.layers = 2;
	for (int64_t b = 0; b < net->B; b++)
		net->lengths[b] = (int32_t)numbers_below(state, 13);
}

/* Draws a network so wide that threads divide the units of its steps. */
static void draw_wide(struct network *net, unsigned long long *state)
{
	do
		random_network(net, state);
	while (net->config.proj || net->config.dtype == CG_F64);
	net->config.cell = cg_cell_find("rnn_tanh");
	net->config.options = NULL;
	net->T = 3;
	net->B = ROWS_MAX;
	net->config.units = 1100;
	net->config.input = net->config.input_mode == CG_SKIP ? 1100 : 3;
	net->config.layers = 1;
	for (int64_t b = 0; b < net->B; b++)
		net->lengths[b] = 1 + (int32_t)numbers_below(state, 3);
	net->lengths[0] = 3;
}

/* The scale of a network's random numbers: small for a large network, whose sums are then of ordinary size. */
static double scale_of(const struct network *net)
{
	return net->config.units > 64 ? 0.05 : 0.3;
}

/* A cell without a line `save`: its backward pass needs the gates, so the reserve space holds them. */
static const char thrifty[] =
	"cell thrifty\n" "gates a_i a_g\n" "state c\n" "output h\n"
	"i = sigmoid(a_i)\n" "c = i * c_prev + (1 - i) * tanh(a_g)\n" "h = tanh(c) * i\n";

/* Two forwards over reserves that began with different bytes leave the same bytes, so that forward writes every byte. */
void test_reserve(void **nothing)
{
	unsigned long long state;
	struct network net, other;
	struct cg_cell *cell;

	(void)nothing;
	assert_int_equal(cg_cell_parse(thrifty, "thrifty", &cell), CG_OK);
	for (int k = 0; k < network_cases(400); k++) {
		network_case("reserve", k, &state);
		random_network(&net, &state);
		net.config.training = 1;
		if (!numbers_below(&state, 4)) {
			net.config.cell = cell;
			net.config.options = NULL;
		}
		if (!numbers_below(&state, 4))
			net.config.units = net.config.input = 60 + numbers_below(&state, 60);
		network_open(&net);
		network_draw(&net, &state, scale_of(&net));
		network_copy(&other, &net);
		memset(area_in(&other.reserve), 0x55, other.sizes.reserve);
		network_forward(&net);
		network_forward(&other);
		for (size_t at = 0; at < net.sizes.reserve; at++)
			if (area_in(&net.reserve)[at] != area_in(&other.reserve)[at])
				network_fail(&net, "reserve: byte %zu of %zu is not the same again", at, net.sizes.reserve);
		network_close(&other);
		network_close(&net);
	}
	cg_cell_close(cell);
}

/* Runs a network, then a copy of it with backward twice; the answers are the same each time. In every test, network_collect() checks
   that backward leaves the reserve space unchanged, to the byte. */
static void run_twice(struct network *net, struct network *other)
{
	network_run(net);
	network_copy(other, net);
	network_forward(other);
	for (int n = 0; n < 2 && net->config.training; n++) {
		network_backward(other);
		network_same(net, other, network_outputs(net) & ~FORWARD_OUTPUTS, n ? "backward twice" : "a call again");
	}
	network_same(net, other, network_outputs(net) & FORWARD_OUTPUTS, "a call again");
}

static void try_repeated_calls(const char *name, int cases, void draw(struct network *, unsigned long long *))
{
	unsigned long long state;
	struct network net, other;

	for (int k = 0; k < network_cases(cases); k++) {
		network_case(name, k, &state);
		draw(&net, &state);
		network_open(&net);
		network_draw(&net, &state, scale_of(&net));
		run_twice(&net, &other);
		network_close(&other);
		network_close(&net);
	}
}

void test_repeated_calls(void **nothing)
{
	(void)nothing;
	try_repeated_calls("again", 150, random_network);
	try_repeated_calls("again, large", 20, draw_large);
}

/*
 * Tests calls in a row without waiting between them: each has its own lengths, from which index arrays are made that the device reads,
 * and all share the stream's workspace, unless they have workspaces of their own.
 */
void test_in_a_row(void **nothing)
{
	enum { CALLS = 3 };
	struct answers answers[CALLS];
	struct network nets[CALLS];
	unsigned long long state;

	(void)nothing;
	for (int k = 0; k < network_cases(160); k++) {
		network_case("in a row", k, &state);
		do
			random_network(&nets[0], &state);
		while (!nets[0].ragged || !nets[0].config.training);
		nets[0].memory = AREA_DEVICE;
		for (int n = 0; n < CALLS; n++) {
			nets[n] = nets[0];
			for (int64_t b = 0; b < nets[n].B; b++)
				nets[n].lengths[b] = (int32_t)numbers_below(&state, (unsigned)nets[n].T + 1);
			network_open(&nets[n]);
			network_draw(&nets[n], &state, 0.7);
			answers_get(&nets[n], &answers[n]);
		}
		for (int pass = CG_FORWARD; pass <= CG_GRAD; pass++) {
			for (int n = 0; n < CALLS; n++)
				network_lend(&nets[n], pass);
			for (int n = 0; n < CALLS; n++)
				network_enqueue(&nets[n], pass);
			for (int n = 0; n < CALLS; n++)
				network_collect(&nets[n], pass);
		}
		for (int n = 0; n < CALLS; n++) {
			answers_judge(&nets[n], &answers[n], ALL_OUTPUTS);
			answers_free(&answers[n]);
			network_close(&nets[n]);
		}
	}
	answers_print_worst("in a row");
}

/* A new context with this number of threads must give the same results; "": as many threads as processors. */
static void run_in_new_context(const struct network *net, const char *threads)
{
	const char *before = getenv("CELLGRAD_CPU_THREADS");
	struct side here = side;
	struct network other;
	char *kept = before ? strdup(before) : NULL;

	setenv("CELLGRAD_CPU_THREADS", threads, 1);
	assert_int_equal(cg_open(NULL, &side.context), CG_OK);
	assert_int_equal(cg_stream_open(side.context, NULL, &side.stream), CG_OK);
	if (kept)
		setenv("CELLGRAD_CPU_THREADS", kept, 1);
	else
		unsetenv("CELLGRAD_CPU_THREADS");
	free(kept);
	network_copy(&other, net);
	network_run(&other);
	network_same(net, &other, network_outputs(net), threads);
	network_close(&other);
	cg_stream_close(side.stream);
	cg_close(side.context);
	side = here;
}

static void try_threads(const char *name, int cases, void draw(struct network *, unsigned long long *))
{
	unsigned long long state;
	struct network net;

	for (int k = 0; k < cases; k++) {
		network_case(name, k, &state);
		draw(&net, &state);
		network_open(&net);
		network_draw(&net, &state, scale_of(&net));
		network_run(&net);
		run_in_new_context(&net, "1");
		run_in_new_context(&net, "");
		network_close(&net);
	}
}

void test_threads(void **nothing)
{
	(void)nothing;
	try_threads("threads", network_cases(24), draw_large);
	try_threads("threads, wide", network_is_slow() ? 0 : 4, draw_wide);
}
