/* SPDX-License-Identifier: Apache-2.0 */
/*
 * States each network in two ways: the answers of one way are within the reference's bounds for the other way, or, where both ways make
 * the same computation, are compared with the answers of the other way. Gradients for upstream gradients that are doubled or added are
 * compared, too.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "gen/cell.h"
#include "verify/numbers.h"
#include "verify/reference.h"
#include "tests/sequence/suite.h"

static void copy_inputs(struct network *to, const struct network *from)
{
	for (int a = 0; a < INPUTS; a++)
		memcpy(to->at[a], from->at[a], (size_t)to->n[a] * sizeof(double));
}

/* ---- the other direction ---- */

enum { SEQUENCES = 4, STATES = 8 };
static const int sequences[SEQUENCES] = { INPUT, OUTPUT_BACKPROP, OUTPUT, INPUT_BACKPROP };
static const int states[STATES] = {
	INPUT_H, INPUT_C, OUTPUT_H_BACKPROP, OUTPUT_C_BACKPROP, OUTPUT_H, OUTPUT_C, INPUT_H_BACKPROP, INPUT_C_BACKPROP,
};

/* Reverses the valid steps of each row; in output and its gradient also swaps the halves of the two directions. */
static void mirror_sequence(struct network *to, const struct network *from, int a)
{
	int64_t width = network_width(to, a), half = a == INPUT || a == INPUT_BACKPROP ? 0 : width / 2;

	for (int64_t b = 0; b < to->B; b++)
		for (int64_t t = 0, n = network_length(to, b); t < to->T; t++)
			for (int64_t j = 0; j < width; j++)
				network_step(to, a, t, b)[j] = network_step(from, a, t < n ? n - 1 - t : t, b)[half ? (j + half) % width : j];
}

static void mirror_states(struct network *to, const struct network *from, int a)
{
	for (int64_t s = 0; s < network_states(to); s++)
		for (int64_t b = 0; b < to->B; b++)
			memcpy(network_state(to, a, s, b), network_state(from, a, s ^ 1, b), (size_t)network_width(to, a) * sizeof(double));
}

/* Gives each direction the other's parameters; of matrices that read the layer below, swaps the columns for that layer's two directions. */
static void mirror_params(struct network *to, const struct network *from, int a)
{
	struct cg_rnn_region r, q;

	for (int p = 0; p < network_states(to); p++)
		for (int bias = 0; bias < 2; bias++)
			for (int id = 0; !cg_rnn_region(to->rnn, p, id, bias, &r); id++) {
				int64_t swap = 0;

				assert_int_equal(cg_rnn_region(from->rnn, p ^ 1, id, bias, &q), CG_OK);
				if (!bias && p > 1 && r.columns == network_width(to, OUTPUT) && id < to->config.cell->n_gates)
					swap = r.columns / 2;
				for (int64_t n = 0; n < r.rows * r.columns; n++)
					to->at[a][r.offset + n] = from->at[a][q.offset + n / r.columns * r.columns + (n % r.columns + swap) % r.columns];
			}
}

void test_mirror(void **nothing)
{
	unsigned long long state;
	struct network net, other;
	struct answers answers;

	(void)nothing;
	for (int k = 0; k < network_cases(250); k++) {
		network_case("the other direction", k, &state);
		do
			random_network(&net, &state);
		while (!net.config.bidirectional);
		net.config.dropout = 0;
		network_open(&net);
		network_draw(&net, &state, 0.7);
		answers_get(&net, &answers);
		other = net;
		network_open(&other);
		for (int n = 0; n < SEQUENCES / 2; n++)
			mirror_sequence(&other, &net, sequences[n]);
		for (int n = 0; n < STATES / 2; n++)
			mirror_states(&other, &net, states[n]);
		mirror_params(&other, &net, PARAMS);
		mirror_params(&other, &net, OLD);
		network_run(&other);
		for (int n = SEQUENCES / 2; n < SEQUENCES; n++)
			mirror_sequence(&net, &other, sequences[n]);
		for (int n = STATES / 2; n < STATES; n++)
			mirror_states(&net, &other, states[n]);
		mirror_params(&net, &other, PARAMS_BACKPROP);
		answers_judge(&net, &answers, network_outputs(&net));
		answers_free(&answers);
		network_close(&other);
		network_close(&net);
	}
	answers_print_worst("the other direction");
}

/* ---- layouts and lengths ---- */

static void transpose(struct network *to, const struct network *from, int outputs)
{
	for (int64_t b = 0; b < to->B; b++) {
		for (int n = 0; n < SEQUENCES / 2; n++)
			for (int64_t t = 0; t < to->T; t++)
				network_copy_step(to, t, b, from, t, b, sequences[n + outputs * SEQUENCES / 2]);
		for (int n = 0; n < STATES / 2; n++)
			network_copy_states(to, b, from, b, states[n + outputs * STATES / 2]);
	}
}

void test_transposed(void **nothing)
{
	unsigned long long state;
	struct network net, other;
	struct answers answers;

	(void)nothing;
	for (int k = 0; k < network_cases(200); k++) {
		network_case("transposed", k, &state);
		random_network(&net, &state);
		network_open(&net);
		network_draw(&net, &state, 0.7);
		answers_get(&net, &answers);
		other = net;
		other.config.time_major = !net.config.time_major;
		network_open(&other);
		transpose(&other, &net, 0);
		memcpy(other.at[PARAMS], net.at[PARAMS], (size_t)net.n[PARAMS] * sizeof(double));
		memcpy(other.at[OLD], net.at[OLD], (size_t)net.n[OLD] * sizeof(double));
		network_run(&other);
		transpose(&net, &other, 1);
		memcpy(net.at[PARAMS_BACKPROP], other.at[PARAMS_BACKPROP], (size_t)net.n[OLD] * sizeof(double));
		answers_judge(&net, &answers, network_outputs(&net));
		answers_free(&answers);
		network_close(&other);
		network_close(&net);
	}
	answers_print_worst("transposed");
}

/* Expects that two networks with the same numbers, the second with changed settings, give the same answers. */
static void try_same(const char *name, int cases, void change(struct network *))
{
	unsigned long long state;
	struct network net, other;

	for (int k = 0; k < network_cases(cases); k++) {
		network_case(name, k, &state);
		random_network(&net, &state);
		net.ragged = 0;
		other = net;
		change(&other);
		network_open(&net);
		network_open(&other);
		network_draw(&net, &state, 0.7);
		copy_inputs(&other, &net);
		network_run(&net);
		network_run(&other);
		network_same(&net, &other, network_outputs(&net), name);
		network_close(&other);
		network_close(&net);
	}
}

static void give_lengths(struct network *net)
{
	net->ragged = 1;
	for (int64_t b = 0; b < net->B; b++)
		net->lengths[b] = (int32_t)net->T;
}

void test_full_lengths(void **nothing)
{
	(void)nothing;
	try_same("full lengths", 200, give_lengths);
}

static void name_input(struct network *net)
{
	if (net->config.input_mode == CG_AUTO)
		net->config.input_mode = net->config.input == net->config.units ? CG_SKIP : CG_LINEAR;
}

void test_skip(void **nothing)
{
	(void)nothing;
	try_same("auto input", 100, name_input);
}

/* ---- linearity in the upstream gradient ---- */

/* Makes and runs the same network with the upstream gradients and the old params_backprop multiplied by k. */
static void scaled(const struct network *net, double k, struct network *other)
{
	*other = *net;
	network_open(other);
	copy_inputs(other, net);
	for (int a = OUTPUT_BACKPROP; a <= OLD; a++)
		for (int64_t n = 0; n < other->n[a]; n++)
			other->at[a][n] *= k;
	network_run(other);
}

/* In all dtypes but f16, upstream gradients times two give the gradients times two: a power of two changes no rounding, except for small
   numbers of f16. */
static void test_twice(void)
{
	unsigned long long state;
	struct network net, twice;

	for (int k = 0; k < network_cases(200); k++) {
		network_case("twice the gradient", k, &state);
		do
			random_network(&net, &state);
		while (!net.config.training || net.config.dtype == CG_F16);
		network_open(&net);
		network_draw(&net, &state, 0.7);
		network_run(&net);
		scaled(&net, 2, &twice);
		for (int a = INPUT_BACKPROP; a < ARRAYS; a++)
			for (int64_t n = 0; n < net.n[a]; n++)
				net.at[a][n] *= 2;
		network_same(&net, &twice, ALL_OUTPUTS & ~FORWARD_OUTPUTS, "twice the gradient");
		network_close(&twice);
		network_close(&net);
	}
}

/* The gradients for two sets of upstream gradients and old sums add up to those for the sums of both sets, within the sum of the three
 * tolerances. */
static void check_sum(const struct network *nets)
{
	const struct network *sum = &nets[2];
	struct answers of[3];

	for (int k = 0; k < 3; k++)
		answers_get(&nets[k], &of[k]);
	for (int a = INPUT_BACKPROP; a < ARRAYS; a++)
		for (int64_t n = 0; n < sum->n[a]; n++) {
			long double both = (long double)nets[0].at[a][n] + nets[1].at[a][n], allowed = 0;

			for (int k = 0; k < 3; k++)
				allowed += ref_tolerance(sum->config.dtype, of[k].v[a][n], of[k].e[a][n]);
			if (!(fabsl(both - sum->at[a][n]) <= allowed))
				network_fail(sum, "a sum of gradients: array %d[%lld]: expected %.9Lg within %.3Lg, got %.9g", a, (long long)n, both,
				             allowed, sum->at[a][n]);
		}
	for (int k = 0; k < 3; k++)
		answers_free(&of[k]);
}

static void test_sum(void)
{
	unsigned long long state;
	struct network nets[3];

	for (int k = 0; k < network_cases(100); k++) {
		network_case("a sum of gradients", k, &state);
		do
			random_network(&nets[0], &state);
		while (!nets[0].config.training || (nets[0].config.dtype != CG_F32 && nets[0].config.dtype != CG_F64));
		for (int n = 0; n < 3; n++) {
			nets[n] = nets[0];
			network_open(&nets[n]);
		}
		network_draw(&nets[0], &state, 0.7);
		for (int n = 1; n < 3; n++)
			copy_inputs(&nets[n], &nets[0]);
		/* The upstream gradients are multiples of 2^-10, so that their sums are representable in the dtype. */
		for (int a = OUTPUT_BACKPROP; a <= OLD; a++)
			for (int64_t j = 0; j < nets[0].n[a]; j++) {
				nets[0].at[a][j] = rint(nets[0].at[a][j] * 1024) / 1024;
				nets[1].at[a][j] = rint(numbers_draw(&state, 700)) / 1024;
				nets[2].at[a][j] = nets[0].at[a][j] + nets[1].at[a][j];
			}
		for (int n = 0; n < 3; n++)
			network_run(&nets[n]);
		check_sum(nets);
		for (int n = 0; n < 3; n++)
			network_close(&nets[n]);
	}
}

void test_linear(void **nothing)
{
	(void)nothing;
	test_twice();
	test_sum();
}

/* ---- padding and absent arguments ---- */

static void check_padding(const struct network *net, int a)
{
	for (int64_t b = 0; b < net->B; b++)
		for (int64_t t = network_length(net, b); t < net->T; t++)
			for (int64_t j = 0; j < network_width(net, a); j++) {
				double got = network_step(net, a, t, b)[j];

				if (got != 0 || signbit(got))
					network_fail(net, "padding: array %d, step %lld of row %lld: expected 0, got %g", a, (long long)t, (long long)b, got);
			}
}

/* The padding of inputs has no effect, and the padding of outputs is 0. */
void test_padding(void **nothing)
{
	unsigned long long state;
	struct network net, other;
	int padded = 0;

	(void)nothing;
	for (int k = 0; k < network_cases(200); k++) {
		network_case("padding", k, &state);
		do
			random_network(&net, &state);
		while (!net.ragged);
		other = net;
		network_open(&net);
		network_open(&other);
		network_draw(&net, &state, 0.7);
		copy_inputs(&other, &net);
		network_pad(&other, 0.75);
		network_run(&net);
		network_run(&other);
		network_same(&net, &other, network_outputs(&net), "padding of NaN, and of 0.75");
		check_padding(&net, OUTPUT);
		if (net.config.training)
			check_padding(&net, INPUT_BACKPROP);
		for (int64_t b = 0; b < net.B; b++)
			padded += network_length(&net, b) < net.T;
		network_close(&other);
		network_close(&net);
	}
	assert_true(padded > 10);
}

/* With every subset of absent outputs the other outputs are the same, to the bit, or on backend cuda nearly. */
void test_absent(void **nothing)
{
	unsigned long long state;
	struct network net, other;

	(void)nothing;
	for (int k = 0; k < 128 * network_cases(4); k++) {
		network_case("absent outputs", k, &state);
		random_network(&net, &state);
		other = net;
		other.absent = (unsigned)k << OUTPUT & ALL_OUTPUTS;
		network_open(&net);
		network_open(&other);
		network_draw(&net, &state, 0.7);
		copy_inputs(&other, &net);
		network_run(&net);
		network_run(&other);
		network_alike(&net, &other, network_outputs(&net), "with outputs left out");
		network_close(&other);
		network_close(&net);
	}
}
