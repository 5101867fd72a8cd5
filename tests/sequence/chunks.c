/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sequence in chunks, in f32 and f64 and one direction, and a batch in parts or with its rows in another order: the answers together
 * are within the reference's bounds for the whole, but for params_backprop of parts in f16 and bf16. On route scan, in a layer without
 * products of the input, chunks and rows have the bits of the whole, apart from the gradients of params.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "verify/numbers.h"
#include "tests/sequence/suite.h"

/* Do chunks round states no more than the whole sequence does? In f16 and bf16 each chunk also rounds its final states to the dtype. */
static int rounds_nothing(const struct network *net)
{
	return net->config.dtype == CG_F32 || net->config.dtype == CG_F64;
}

static void copy(struct network *to, int a, const struct network *from, int b)
{
	assert_int_equal(to->n[a], from->n[b]);
	memcpy(to->at[a], from->at[b], (size_t)to->n[a] * sizeof(double));
}

/* ---- over time ---- */

static void open_chunk(struct network *chunk, const struct network *whole, int64_t from, int64_t to)
{
	chunk->ragged = whole->ragged;
	for (int64_t b = 0; b < whole->B; b++) {
		int64_t left = network_length(whole, b) - from, T = to - from;

		chunk->lengths[b] = (int32_t)(left < 0 ? 0 : left < T ? left : T);
	}
	network_like(chunk, whole, to - from, whole->B);
	chunk->first_step = whole->first_step + from;
	for (int64_t t = from; t < to; t++)
		for (int64_t b = 0; b < whole->B; b++) {
			network_copy_step(chunk, t - from, b, whole, t, b, INPUT);
			network_copy_step(chunk, t - from, b, whole, t, b, OUTPUT_BACKPROP);
		}
}

static void copy_steps(struct network *whole, const struct network *chunk, int64_t from, int a)
{
	for (int64_t t = 0; t < chunk->T; t++)
		for (int64_t b = 0; b < chunk->B; b++)
			network_copy_step(whole, from + t, b, chunk, t, b, a);
}

enum { STEPS_MAX = 8 };

/* Runs the sequence in n chunks, which end before steps cut[1] to cut[n], and stores their answers as those of the whole. */
static void run_chunks(struct network *whole, const int64_t *cut, int n)
{
	static struct network chunks[STEPS_MAX];

	for (int k = 0; k < n; k++) {
		const struct network *before = k ? &chunks[k - 1] : whole;

		open_chunk(&chunks[k], whole, cut[k], cut[k + 1]);
		copy(&chunks[k], INPUT_H, before, k ? OUTPUT_H : INPUT_H);
		copy(&chunks[k], INPUT_C, before, k ? OUTPUT_C : INPUT_C);
		network_forward(&chunks[k]);
		copy_steps(whole, &chunks[k], cut[k], OUTPUT);
	}
	copy(whole, OUTPUT_H, &chunks[n - 1], OUTPUT_H);
	copy(whole, OUTPUT_C, &chunks[n - 1], OUTPUT_C);
	for (int k = n - 1; k >= 0 && whole->config.training; k--) {
		const struct network *after = k < n - 1 ? &chunks[k + 1] : whole;

		chunks[k].accumulate = k < n - 1 || whole->accumulate;
		copy(&chunks[k], OLD, after, k < n - 1 ? PARAMS_BACKPROP : OLD);
		copy(&chunks[k], OUTPUT_H_BACKPROP, after, k < n - 1 ? INPUT_H_BACKPROP : OUTPUT_H_BACKPROP);
		copy(&chunks[k], OUTPUT_C_BACKPROP, after, k < n - 1 ? INPUT_C_BACKPROP : OUTPUT_C_BACKPROP);
		network_backward(&chunks[k]);
		copy_steps(whole, &chunks[k], cut[k], INPUT_BACKPROP);
	}
	copy(whole, INPUT_H_BACKPROP, &chunks[0], INPUT_H_BACKPROP);
	copy(whole, INPUT_C_BACKPROP, &chunks[0], INPUT_C_BACKPROP);
	copy(whole, PARAMS_BACKPROP, &chunks[0], PARAMS_BACKPROP);
	for (int k = 0; k < n; k++)
		network_close(&chunks[k]);
}

static void draw_whole(struct network *net, unsigned long long *state)
{
	do
		random_network(net, state);
	while (!net->T || !net->B || !rounds_nothing(net) || net->config.bidirectional);
	network_open(net);
	network_draw(net, state, 0.7);
}

static void try_chunks(const char *name, int by_steps)
{
	unsigned long long state;
	struct answers answers;
	struct network net;

	for (int k = 0; k < network_cases(150); k++) {
		int64_t cut[STEPS_MAX + 1] = { 0 };
		int n = 0;

		network_case(name, k, &state);
		draw_whole(&net, &state);
		while (cut[n] < net.T) {
			cut[n + 1] = by_steps ? cut[n] + 1 : cut[n] + 1 + numbers_below(&state, (unsigned)(net.T - cut[n]));
			n++;
		}
		answers_get(&net, &answers);
		run_chunks(&net, cut, n);
		answers_judge(&net, &answers, network_outputs(&net));
		answers_free(&answers);
		network_close(&net);
	}
	answers_print_worst(name);
}

void test_step_by_step(void **nothing)
{
	(void)nothing;
	try_chunks("step by step", 1);
}

void test_chunks(void **nothing)
{
	(void)nothing;
	try_chunks("pieces", 0);
}

/* ---- over rows ---- */

static const int steps[] = { INPUT, OUTPUT_BACKPROP, OUTPUT, INPUT_BACKPROP };
static const int states[] = {
	INPUT_H, INPUT_C, OUTPUT_H_BACKPROP, OUTPUT_C_BACKPROP, OUTPUT_H, OUTPUT_C, INPUT_H_BACKPROP, INPUT_C_BACKPROP,
};

/* Copies the sequences and states of one batch row: the inputs, or the outputs. */
static void copy_row(struct network *to, int64_t b, const struct network *from, int64_t c, int outputs)
{
	for (int k = 0; k < 2; k++)
		for (int64_t t = 0; t < to->T; t++)
			network_copy_step(to, t, b, from, t, c, steps[2 * outputs + k]);
	for (int k = 0; k < 4; k++)
		network_copy_states(to, b, from, c, states[4 * outputs + k]);
}

/* Runs n rows of the whole as a batch of their own, and stores their answers as those of the whole; rows: their numbers in the whole. */
static void run_rows(struct network *whole, const int *rows, int64_t n, int accumulate)
{
	struct network part = { .ragged = whole->ragged };

	for (int64_t b = 0; b < n; b++)
		part.lengths[b] = whole->lengths[rows[b]];
	network_like(&part, whole, whole->T, n);
	for (int64_t b = 0; b < n; b++)
		copy_row(&part, b, whole, rows[b], 0);
	part.accumulate = accumulate;
	copy(&part, OLD, whole, OLD);
	network_forward(&part);
	if (part.config.training)
		network_backward(&part);
	for (int64_t b = 0; b < n; b++)
		copy_row(whole, rows[b], &part, b, 1);
	copy(whole, PARAMS_BACKPROP, &part, PARAMS_BACKPROP);
	network_close(&part);
}

/* Draws a network without dropout, since the masks of dropout depend on a row's number. */
static void draw_rows(struct network *net, unsigned long long *state, int *rows)
{
	do
		random_network(net, state);
	while (net->B < 2);
	net->config.dropout = 0;
	network_open(net);
	network_draw(net, state, 0.7);
	for (int b = 0; b < net->B; b++)
		rows[b] = b;
}

void test_batch_split(void **nothing)
{
	unsigned long long state;
	struct answers answers;
	struct network net;
	int rows[ROWS_MAX];

	(void)nothing;
	for (int k = 0; k < network_cases(200); k++) {
		int64_t cut;

		network_case("batch split", k, &state);
		draw_rows(&net, &state, rows);
		answers_get(&net, &answers);
		cut = 1 + numbers_below(&state, (unsigned)net.B - 1);
		run_rows(&net, rows, cut, net.accumulate);
		memcpy(net.at[OLD], net.at[PARAMS_BACKPROP], (size_t)net.n[OLD] * sizeof(double));
		run_rows(&net, rows + cut, net.B - cut, 1);
		answers_judge(&net, &answers, network_outputs(&net) & ~(rounds_nothing(&net) ? 0u : 1u << PARAMS_BACKPROP));
		answers_free(&answers);
		network_close(&net);
	}
	answers_print_worst("batch split");
}

void test_batch_permuted(void **nothing)
{
	unsigned long long state;
	struct answers answers;
	struct network net;
	int rows[ROWS_MAX];

	(void)nothing;
	for (int k = 0; k < network_cases(200); k++) {
		network_case("batch permuted", k, &state);
		draw_rows(&net, &state, rows);
		answers_get(&net, &answers);
		for (unsigned b = (unsigned)net.B - 1; b > 0; b--) {
			unsigned other = numbers_below(&state, b + 1);
			int row = rows[b];

			rows[b] = rows[other];
			rows[other] = row;
		}
		run_rows(&net, rows, net.B, net.accumulate);
		answers_judge(&net, &answers, network_outputs(&net));
		answers_free(&answers);
		network_close(&net);
	}
	answers_print_worst("batch permuted");
}

/* ---- bits ---- */

/* Draws a network of one layer whose input is added to the gates without matrices, so that only products of the weight
 * gradients sum over the rows of a call. */
static void draw_without_products(struct network *net, unsigned long long *state)
{
	do
		random_network(net, state);
	while (net->config.proj);
	net->config.input_mode = CG_SKIP;
	net->config.layers = 1;
	/* With a small recurrent matrix threads share the batch's rows, with a large one the units. */
	net->config.units = net->config.input = numbers_below(state, 30) ? 1 + numbers_below(state, 70) : 190 + numbers_below(state, 70);
	net->config.bidirectional = numbers_below(state, 4) == 0;
	net->T = 1 + numbers_below(state, 40);
	net->B = 1 + numbers_below(state, 9);
	net->ragged = numbers_below(state, 2);
	for (int64_t b = 0; b < net->B; b++)
		net->lengths[b] = (int32_t)numbers_below(state, (unsigned)net->T + 1);
	net->first_step = 0;
	network_open(net);
	network_draw(net, state, 0.3);
}

static int takes_scan(const struct network *net)
{
	return !strcmp(cg_rnn_route(net->rnn), "scan");
}

static void run_each_row(struct network *net)
{
	for (int b = 0; b < net->B; b++)
		run_rows(net, &b, 1, 0);
}

static void run_in_chunks(struct network *net, unsigned long long *state)
{
	int64_t cut[STEPS_MAX + 1] = { 0 };
	int n = 0;

	for (; cut[n] < net->T; n++)
		cut[n + 1] = n == STEPS_MAX - 1 ? net->T : cut[n] + 1 + numbers_below(state, (unsigned)(net->T - cut[n]));
	run_chunks(net, cut, n);
}

/* On route scan a batch row alone, and in f32 and f64 and one direction a sequence in chunks, have the bits of the whole, apart from the
   gradients of params.  Some chunks are too short for packed weights. */
void test_scan_bits(void **nothing)
{
	unsigned long long state;
	struct network net, other;
	int taken = 1;

	(void)nothing;
	for (int k = 0; k < network_cases(400) && taken; k++) {
		network_case("bits of scan", k, &state);
		draw_without_products(&net, &state);
		taken = takes_scan(&net);
		network_forward(&net);
		if (net.config.training)
			network_backward(&net);
		network_copy(&other, &net);
		run_each_row(&other);
		network_same(&net, &other, network_outputs(&net) & ~(1u << PARAMS_BACKPROP) & (taken ? ALL_OUTPUTS : 0), "a row alone");
		if (rounds_nothing(&net) && !net.config.bidirectional) {
			run_in_chunks(&other, &state);
			network_same(&net, &other, network_outputs(&net) & ~(1u << PARAMS_BACKPROP) & (taken ? ALL_OUTPUTS : 0), "in pieces");
		}
		network_close(&other);
		network_close(&net);
	}
	assert_true(taken || side.route || strncmp(cg_describe(side.context), "cpu", 3));
}
