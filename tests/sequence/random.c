/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random networks against the independent reference: random options, sizes and lengths, and every subset of the optional inputs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "verify/numbers.h"
#include "tests/sequence/suite.h"

#define PICK(list) (list)[numbers_below(state, (unsigned)(sizeof (list) / sizeof *(list)))]

static int below(unsigned long long *state, int64_t n)
{
	return (int)numbers_below(state, (unsigned)n);
}

enum { NONE, ALL_NONE, ONE_NONE, ALL_WHOLE, ANY };

static void draw_lengths(struct network *net, unsigned long long *state)
{
	static const int kinds[] = { NONE, NONE, NONE, ALL_NONE, ONE_NONE, ALL_WHOLE, ANY, ANY, ANY, ANY };
	int kind = PICK(kinds);

	net->ragged = kind != NONE;
	for (int64_t b = 0; b < net->B; b++)
		net->lengths[b] = kind == ALL_NONE ? 0 : kind == ALL_WHOLE ? (int32_t)net->T : below(state, net->T + 1);
	if (kind == ONE_NONE && net->B)
		net->lengths[below(state, net->B)] = 0;
}

static void draw_shape(struct network *net, unsigned long long *state)
{
	struct cg_rnn_config *c = &net->config;

	net->T = below(state, 7);
	net->B = below(state, 6);
	c->input = 1 + below(state, 6);
	c->units = 1 + below(state, 6);
	c->layers = 1 + below(state, 3);
}

/* Draws a number of 64 bits, at times with high bits alone, with low bits alone, with one bit or with none. */
static uint64_t bits(unsigned long long *state)
{
	uint64_t all = (uint64_t)below(state, 1 << 16) << 48 | (uint64_t)below(state, 1 << 24) << 24 | (uint64_t)below(state, 1 << 24);

	switch (below(state, 8)) {
	case 0:  return all >> 40;
	case 1:  return all & (uint64_t)0xffffff << 40;
	case 2:  return 0;
	case 3:  return (uint64_t)1 << below(state, 64);
	default: return all;
	}
}

/* Draws the first step's number; network_open() reduces UINT32_MAX to the largest legal number. */
static int64_t draw_first(unsigned long long *state)
{
	static const int64_t firsts[] = { 0, 0, 7, 14, INT32_MAX - 2, (int64_t)1 << 31, UINT32_MAX - 12, UINT32_MAX };

	return PICK(firsts);
}

static void draw_options(struct network *net, unsigned long long *state)
{
	static const char *const cells[] = { "lstm", "lstm", "gru", "rnn_tanh", "rnn_relu" };
	static const double rates[] = { 0, 0.3, 1 };
	struct cg_rnn_config *c = &net->config;
	int is_lstm;

	c->cell = cg_cell_find(PICK(cells));
	do
		c->dtype = below(state, 4);
	while (!network_has(c->dtype));
	is_lstm = c->cell == cg_cell_find("lstm");
	c->options = is_lstm && below(state, 2) ? "peephole" : NULL;
	c->proj = is_lstm && below(state, 2) ? 1 + below(state, c->units) : 0;
	c->bidirectional = below(state, 2);
	c->input_mode = below(state, 3);
	if (c->input_mode == CG_SKIP)
		c->input = c->units;
	c->time_major = below(state, 3) > 0;
	c->states_major = (int)below(state, 2);
	c->training = below(state, 4) > 0;
	c->dropout = PICK(rates);
	c->seed = bits(state);
	net->counter = bits(state);
	net->first_step = c->bidirectional ? 0 : draw_first(state);
	net->accumulate = below(state, 2);
	net->memory = below(state, AREA_MEMORIES);
	net->own_work = below(state, 2);
}

void random_network(struct network *net, unsigned long long *state)
{
	network_init(net);
	draw_shape(net, state);
	draw_options(net, state);
	draw_lengths(net, state);
}

/* The k-th subset of the optional inputs, which are to be absent, one bit each. */
static unsigned subset(int k)
{
	static const int optional[] = { INPUT_H, INPUT_C, OUTPUT_BACKPROP, OUTPUT_H_BACKPROP, OUTPUT_C_BACKPROP };
	unsigned absent = 0;

	for (int n = 0; n < 5; n++)
		absent |= (unsigned)(k >> n & 1) << optional[n];
	return absent;
}

static void try(struct network *net, int k, double scale, unsigned long long *state)
{
	struct answers answers;

	net->absent = k % 2 ? subset(k / 2) : 0;
	network_open(net);
	network_draw(net, state, scale);
	net->absent |= below(state, 2) ? 0 : (unsigned)below(state, 1 << ARRAYS) & ALL_OUTPUTS;
	answers_get(net, &answers);
	network_forward(net);
	answers_judge(net, &answers, FORWARD_OUTPUTS);
	if (net->config.training) {
		network_backward(net);
		answers_judge(net, &answers, ALL_OUTPUTS & ~FORWARD_OUTPUTS);
	}
	answers_free(&answers);
	network_close(net);
}

void test_random(void **nothing)
{
	unsigned long long state;
	struct network net;

	(void)nothing;
	for (int k = 0; k < network_cases(6000); k++) {
		network_case("random", k, &state);
		random_network(&net, &state);
		try(&net, k, 0.7, &state);
	}
	answers_print_worst("random");
}

/* Tests larger sizes, most of which are no multiples of a vector, of a block of sums, or of a thread's share. */
void test_large(void **nothing)
{
	static const int64_t units[] = { 7, 8, 15, 16, 17, 31, 33, 40 };
	unsigned long long any, *state = &any;
	struct network net;

	(void)nothing;
	for (int k = 0; k < network_cases(160); k++) {
		network_case("large", k, state);
		random_network(&net, state);
		net.T = 5 + below(state, 8);
		net.B = 5 + below(state, 16);
		net.config.units = PICK(units);
		net.config.input = net.config.input_mode == CG_SKIP ? net.config.units : PICK(units);
		net.config.layers = 1 + below(state, 2);
		net.config.proj = net.config.proj ? 1 + below(state, net.config.units) : 0;
		draw_lengths(&net, state);
		try(&net, k, 0.1, state);          /* smaller numbers, so that little overflows */
	}
	answers_print_worst("large");
}
