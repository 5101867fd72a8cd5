/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Networks of random cells. Each network is computed and differentiated a second time, number by number on a tape, from the drawn
 * equations and not from the parsed cell.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "runtime/device/device.h"
#include "verify/numbers.h"
#include "tests/sequence/draw_cell.h"
#include "tests/sequence/suite.h"
#include "tests/sequence/tape.h"

enum { UNITS = 5, WIDE = 2 * UNITS };

/* ---- a network of the cell, on a tape ---- */

struct evaluation {
	const struct drawn *d;
	struct network *net;
	struct tape *tape;
	int *params, *input, *first_h, *first_c[1 + MORE];       /* indices on the tape, in the order of the elements of each array */
	int values[PARAMS_MAX];
	int none;                                /* the index on the tape of a leaf whose value is 0 */
};

/* The index on the tape of one element of a region of params. */
static int param(const struct evaluation *w, int pseudo_layer, int id, int bias, int64_t row, int64_t column)
{
	struct cg_rnn_region r;

	assert_int_equal(cg_rnn_region(w->net->rnn, pseudo_layer, id, bias, &r), CG_OK);
	assert_true(row < r.rows && column < r.columns);
	return w->params[r.offset + row * r.columns + column];
}

static int n_weights(const struct drawn *d)
{
	int n = 0;

	for (int k = 0; k < d->n_gates; k++)
		n += d->gates[k].split_of < 0;
	return n;
}

/* The index of a gate among the gates that have weights; a split gate has the index of the gate whose recurrent part it is. */
static int weight_of(const struct drawn *d, int gate)
{
	int n = 0;

	for (int k = 0; k < gate; k++)
		n += d->gates[k].split_of < 0;
	return d->gates[gate].split_of < 0 ? n : weight_of(d, d->gates[gate].split_of);
}

static int is_split(const struct drawn *d, int gate)
{
	for (int k = 0; k < d->n_gates; k++)
		if (d->gates[k].split_of == gate)
			return 1;
	return 0;
}

/* Indices on the tape of the numbers of one step of a batch row: the layer's input, the states before the step, and all that the step
 * computes. */
struct step { int layer, pseudo_layer, x[WIDE], width, h[UNITS], c[1 + MORE][UNITS], gate[GATES][UNITS], value[EQUATIONS][UNITS]; };

/* Adds a bias to a sum; sum -1: there is no sum yet. */
static int add_bias(const struct evaluation *w, const struct step *s, int id, int unit, int sum)
{
	int bias = param(w, s->pseudo_layer, id, 1, 0, unit);

	return sum < 0 ? bias : tape_apply(w->tape, TAPE_ADD, sum, bias);
}

/* Computes a gate's pre-activation: x W + bW, h R + bR, or the sum of both, without biases if the gate has none. The error bound of the
 * pre-activation's derivative includes one rounding. */
static int gate(const struct evaluation *w, const struct step *s, int g, int unit, const int *h, int64_t width)
{
	const struct drawn *d = w->d;
	int weight = weight_of(d, g), G = n_weights(d), sum = -1, row[WIDE], lacks = d->gates[g].lacks;
	int skip = !s->layer && (w->net->config.input_mode == CG_SKIP ||
	                         (w->net->config.input_mode == CG_AUTO && w->net->config.input == w->net->config.units));

	if (d->gates[g].split_of < 0 && !(lacks & NO_X)) {
		sum = lacks & NO_BIAS ? -1 : add_bias(w, s, weight, unit, -1);
		for (int j = 0; j < s->width && !skip; j++)
			row[j] = param(w, s->pseudo_layer, weight, 0, unit, j);
		if (skip)
			sum = sum < 0 ? s->x[unit] : tape_apply(w->tape, TAPE_ADD, sum, s->x[unit]);
		else
			sum = tape_dot(w->tape, sum, s->width, s->x, row);
	}
	if (!is_split(d, g) && !(lacks & NO_H)) {
		if (!(lacks & NO_BIAS))
			sum = add_bias(w, s, G + weight, unit, sum);
		for (int j = 0; j < width; j++)
			row[j] = param(w, s->pseudo_layer, G + weight, 0, unit, j);
		sum = tape_dot(w->tape, sum, (int)width, h, row);
	}
	return tape_store(w->tape, sum, 0, 1);
}

static int is_on(const struct drawn *d, int weight)
{
	return d->option[weight] < 0 || d->on[d->option[weight]];
}

/* A per-unit weight. A step's part of the weight's derivative may equal a gate's derivative, which is rounded when it is stored. */
static int vector_of(const struct evaluation *w, const struct step *s, int weight, int unit)
{
	int id = 2 * n_weights(w->d) + 1;

	if (!is_on(w->d, weight))
		return w->none;
	for (int k = 0; k < weight; k++)
		id += is_on(w->d, k);
	return tape_store(w->tape, param(w, s->pseudo_layer, id, 0, 0, unit), 0, 1);
}

static int scalar_of(const struct evaluation *w, const struct step *s, int scalar)
{
	int id = 2 * n_weights(w->d) + 1 + scalar;

	for (int k = 0; k < w->d->n_weights; k++)
		id += is_on(w->d, k);
	return tape_store(w->tape, param(w, s->pseudo_layer, id, 0, 0, 0), 0, 1);
}

static int evaluate(const struct evaluation *w, const struct step *s, int unit, int k);

/* The mean of a term over all units. */
static int mean_of(const struct evaluation *w, const struct step *s, int k)
{
	int sum = evaluate(w, s, 0, k), units = (int)w->net->config.units;

	for (int unit = 1; unit < units; unit++)
		sum = tape_apply(w->tape, TAPE_ADD, sum, evaluate(w, s, unit, k));
	return tape_apply(w->tape, TAPE_MUL, sum, tape_leaf(w->tape, 1.0L / units));
}

static int evaluate(const struct evaluation *w, const struct step *s, int unit, int k)
{
	const struct term *t = &w->d->terms[k];
	int a;

	if (t->op == MEAN)
		return mean_of(w, s, t->a);
	if (t->op != TAPE_LEAF) {
		a = evaluate(w, s, unit, t->a);
		return tape_apply(w->tape, t->op, a, tape_is_binary(t->op) ? evaluate(w, s, unit, t->b) : a);
	}
	switch (t->item) {
	case GATE:   return s->gate[t->index][unit];
	case PREV_H: return s->h[unit];
	case PREV_C: return s->c[t->index][unit];
	case WEIGHT: return vector_of(w, s, t->index, unit);
	case SCALAR: return scalar_of(w, s, t->index);
	case PARAM:  return w->values[t->index];
	case VALUE:  return s->value[t->index][unit];
	}
	return tape_leaf(w->tape, t->number);
}

/* Computes a step of a batch row; s->h and s->c become the states after the step. */
static void take_step(const struct evaluation *w, struct step *s)
{
	const struct drawn *d = w->d;
	const struct cg_rnn_config *c = &w->net->config;
	int U = (int)c->units, P = (int)c->proj, row[UNITS], h[UNITS];

	for (int stage = 0; stage < d->n_stages; stage++) {
		const int *feed = stage ? s->value[d->feed[stage - 1]] : s->h;

		for (int g = 0; g < d->n_gates; g++)
			for (int unit = 0; unit < U && d->gates[g].stage == stage; unit++)
				s->gate[g][unit] = gate(w, s, g, unit, feed, stage || !P ? U : P);
		for (int e = 0; e < d->n_equations; e++)
			for (int unit = 0; unit < U && d->equations[e].stage == stage; unit++)
				s->value[e][unit] = tape_store(w->tape, evaluate(w, s, unit, d->equations[e].term), 1, 0);
	}
	for (int k = 0; k < d->n_states; k++)
		memcpy(s->c[k], s->value[d->states[k]], (size_t)U * sizeof *s->c[k]);
	memcpy(h, s->value[d->output], sizeof h);
	for (int p = 0; p < P; p++) {
		for (int unit = 0; unit < U; unit++)
			row[unit] = param(w, s->pseudo_layer, 2 * n_weights(d), 0, p, unit);
		/* The gradient of h is rounded wherever one of its parts is added. */
		h[p] = tape_store(w->tape, tape_dot(w->tape, -1, U, s->value[d->output], row), 1, 3);
	}
	memcpy(s->h, h, sizeof h);
}

/* Puts an array of the network, zeros if it is absent, on the tape as leaves; returns the indices of the leaves. */
static int *leaves(const struct evaluation *w, int array)
{
	int64_t n = w->net->n[array];
	int *list = calloc((size_t)n + 1, sizeof *list);

	assert_non_null(list);
	for (int64_t k = 0; k < n; k++)
		list[k] = tape_leaf(w->tape, w->net->at[array][k]);
	return list;
}

static int64_t at(const struct network *net, int array, int64_t t, int64_t b)
{
	return network_step(net, array, t, b) - net->at[array];
}

/* The array of the k-th state, counted from 0: `first`, or one of the arrays that begin with `others`. */
static int of_state(int first, int others, int64_t k)
{
	return k ? others + (int)k - 1 : first;
}

static int64_t state_at(const struct network *net, int array, int64_t state, int64_t b)
{
	return network_state(net, array, state, b) - net->at[array];
}

/* Sets element k of an answer; if the element's upstream gradient is present, adds the product of both to the loss. */
static void answer(const struct evaluation *w, struct answers *answers, int array, int upstream, int64_t k, int number)
{
	answers->v[array][k] = tape_value(w->tape, number);
	answers->e[array][k] = tape_bound(w->tape, number);
	if (!(w->net->absent >> upstream & 1))
		tape_seed(w->tape, number, w->net->at[upstream][k]);
}

/* Computes one direction of one layer over a batch row; out: the indices on the tape of each step's h, [T]. */
static void run_row(const struct evaluation *w, int layer, int direction, int64_t b, int (*x)[WIDE], int width, int (*out)[WIDE],
                     struct answers *answers)
{
	struct network *net = w->net;
	int64_t n = network_length(net, b), H = network_width(net, OUTPUT_H), U = net->config.units;
	int64_t state = layer * network_directions(net) + direction;
	struct step s = { .layer = layer, .pseudo_layer = (int)state, .width = width };

	for (int64_t j = 0; j < H; j++)
		s.h[j] = w->first_h[state_at(net, INPUT_H, state, b) + j];
	for (int64_t j = 0; j < U * w->d->n_states; j++)
		s.c[j / U][j % U] = w->first_c[j / U][state_at(net, INPUT_C, state, b) + j % U];
	for (int64_t k = 0; k < n; k++) {
		int64_t t = direction ? n - 1 - k : k;

		memcpy(s.x, x[t], sizeof s.x);
		take_step(w, &s);
		memcpy(out[t] + direction * H, s.h, (size_t)H * sizeof *s.h);
	}
	for (int64_t j = 0; j < H; j++)
		answer(w, answers, OUTPUT_H, OUTPUT_H_BACKPROP, state_at(net, OUTPUT_H, state, b) + j, s.h[j]);
	for (int64_t j = 0; j < U * w->d->n_states; j++)
		answer(w, answers, of_state(OUTPUT_C, OUTPUT_S, j / U), of_state(OUTPUT_C_BACKPROP, OUTPUT_S_BACKPROP, j / U),
		       state_at(net, OUTPUT_C, state, b) + j % U, s.c[j / U][j % U]);
}

static void run_layers(const struct evaluation *w, int64_t b, struct answers *answers)
{
	struct network *net = w->net;
	int64_t n = network_length(net, b), D = network_directions(net), H = network_width(net, OUTPUT_H);
	int x[8][WIDE], out[8][WIDE], width = (int)net->config.input;

	for (int64_t t = 0; t < n; t++)
		memcpy(x[t], w->input + at(net, INPUT, t, b), (size_t)width * sizeof(int));
	for (int layer = 0; layer < net->config.layers; layer++) {
		for (int d = 0; d < D; d++)
			run_row(w, layer, d, b, x, width, out, answers);
		width = (int)(D * H);
		for (int64_t t = 0; t < n; t++)
			for (int j = 0; j < width; j++)
				x[t][j] = tape_store(w->tape, out[t][j], 0, 1);
	}
	for (int64_t t = 0; t < n; t++)
		for (int j = 0; j < width; j++)
			answer(w, answers, OUTPUT, OUTPUT_BACKPROP, at(net, OUTPUT, t, b) + j, out[t][j]);
}

/* Sets a gradient's answers; with accumulate the sum for params_backprop begins with the old values. */
static void answer_slopes(const struct evaluation *w, struct answers *answers, int gradient, const int *list)
{
	int adds = gradient == PARAMS_BACKPROP && w->net->accumulate;

	for (int64_t k = 0; k < w->net->n[gradient]; k++) {
		if (adds)
			tape_seed(w->tape, list[k], w->net->at[OLD][k]);
		answers->v[gradient][k] = tape_slope(w->tape, list[k]);
		answers->e[gradient][k] = tape_slope_bound(w->tape, list[k]);
	}
}

static void get_answers(const struct drawn *d, struct network *net, struct answers *answers)
{
	struct evaluation w = { .d = d, .net = net, .tape = tape_open(net->config.dtype) };

	answers_alloc(net, answers);
	w.none = tape_leaf(w.tape, 0);
	w.params = leaves(&w, PARAMS);
	w.input = leaves(&w, INPUT);
	w.first_h = leaves(&w, INPUT_H);
	for (int k = 0; k <= MORE; k++)
		w.first_c[k] = leaves(&w, of_state(INPUT_C, INPUT_S, k));
	for (int k = 0; k < d->n_params; k++)
		w.values[k] = tape_leaf(w.tape, cg_round(net->config.dtype, d->params[k].value));
	for (int64_t b = 0; b < net->B; b++)
		run_layers(&w, b, answers);
	tape_back(w.tape);
	answer_slopes(&w, answers, INPUT_BACKPROP, w.input);
	answer_slopes(&w, answers, INPUT_H_BACKPROP, w.first_h);
	for (int k = 0; k <= MORE; k++)
		answer_slopes(&w, answers, of_state(INPUT_C_BACKPROP, INPUT_S_BACKPROP, k), w.first_c[k]);
	answer_slopes(&w, answers, PARAMS_BACKPROP, w.params);
	free(w.params);
	free(w.input);
	free(w.first_h);
	for (int k = 0; k <= MORE; k++)
		free(w.first_c[k]);
	tape_close(w.tape);
}

/* ---- the test ---- */

static int has_product(const struct drawn *d)
{
	int any = 0;

	for (int k = 0; k < d->n_gates; k++)
		any |= !(d->gates[k].lacks & NO_H);
	return any;
}

static void draw_network(struct network *net, struct drawn *d, unsigned long long *state)
{
	static const int dtypes[] = { CG_F64, CG_F64, CG_F64, CG_F64, CG_F64, CG_F32, CG_F16, CG_BF16 };
	static char options[OPTIONS * 4];
	struct cg_rnn_config *c = &net->config;

	random_network(net, state);
	do
		c->dtype = dtypes[numbers_below(state, 8)];
	while (!network_has(c->dtype));
	net->T %= 6;
	net->B %= 4;
	for (int64_t b = 0; b < net->B; b++)
		net->lengths[b] = net->lengths[b] > net->T ? (int32_t)net->T : net->lengths[b];
	c->units = 1 + numbers_below(state, UNITS);
	c->input = c->input_mode == CG_SKIP ? c->units : 1 + numbers_below(state, UNITS);
	c->layers = 1 + numbers_below(state, 2);
	c->dropout = 0;
	c->cell = d->cell;
	c->proj = 0;
	if (d->n_states && d->n_stages == 1 && !d->reads_h && has_product(d) && numbers_below(state, 2))
		c->proj = 1 + numbers_below(state, (unsigned)c->units);
	options[0] = 0;
	for (int k = 0; k < d->n_options; k++)
		if (d->on[k])
			snprintf(options + strlen(options), sizeof options - strlen(options), "%so%c", *options ? "," : "", (char)('0' + k));
	c->options = options;
	for (int k = 0; k < d->n_params; k++) {
		static const char *const names[] = { "p0", "p1", "p2" };

		if (d->params[k].set)
			net->values[c->n_values++] = (struct cg_value){ names[k], d->params[k].value };
	}
}

/* With training=0 the network has the outputs that it has with training=1, to the bit, or on backend cuda nearly. */
static void check_inference(const struct network *net)
{
	struct network other = *net;

	other.config.training = 0;
	network_open(&other);
	for (int a = 0; a < INPUTS; a++)
		memcpy(other.at[a], net->at[a], (size_t)net->n[a] * sizeof(double));
	network_forward(&other);
	network_alike(net, &other, FORWARD_OUTPUTS, "without training");
	network_close(&other);
}

static void try(struct drawn *d, int k, unsigned long long *state)
{
	struct answers answers;
	struct network net;

	if (cg_cell_parse(d->text, "drawn.cell", &d->cell))
		fail_msg("case %d: %s\n%s", k, cg_message(), d->text);
	draw_network(&net, d, state);
	net.absent = numbers_below(state, 4) ? 0 : numbers_below(state, 1 << INPUTS) & ~(1u << INPUT | 1u << PARAMS);
	network_open(&net);
	network_draw(&net, state, 0.5);
	get_answers(d, &net, &answers);
	network_forward(&net);
	answers_judge(&net, &answers, FORWARD_OUTPUTS);
	if (net.config.training) {
		network_backward(&net);
		answers_judge(&net, &answers, ALL_OUTPUTS & ~FORWARD_OUTPUTS);
		check_inference(&net);
	}
	answers_free(&answers);
	network_close(&net);
	cg_cell_close(d->cell);
}

/* Writes the text of the cell of case k into a file of a folder. */
static void write_text(const struct drawn *d, const char *folder, int k)
{
	char path[4096];
	FILE *to;

	snprintf(path, sizeof path, "%s/drawn%d.cell", folder, k);
	to = fopen(path, "w");
	assert_non_null(to);
	assert_true(fputs(d->text, to) >= 0 && !fclose(to));
}

/* CELLGRAD_TEST_CELLS is the number of cells, 1000 if it is unset.  Where kernels take long to compile, only the first hundredth of
   the cells is tested.  With CELLGRAD_TEST_TEXTS the texts of all the cells are written into that folder, and nothing is computed. */
void test_drawn(void **nothing)
{
	const char *many = getenv("CELLGRAD_TEST_CELLS"), *folder = getenv("CELLGRAD_TEST_TEXTS");
	int cells = (many ? atoi(many) : 1000) / (network_is_slow() && !folder ? 100 : 1);
	static struct drawn d;
	unsigned long long state;

	(void)nothing;
	for (int k = 0; k < cells; k++) {
		network_case("drawn", k, &state);
		draw_cell(&d, &state);
		write_cell(&d, &state);
		if (folder)
			write_text(&d, folder, k);
		else
			try(&d, k, &state);
	}
	if (!folder)
		answers_print_worst("drawn");
}
