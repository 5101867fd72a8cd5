/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random cells in networks: stages, splits, a state, options, params, any saved values, equations with all functions but step. They are
 * computed and differentiated a second time, number by number on a tape, from the drawn equations and not from the parsed cell.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "runtime/device/device.h"
#include "verify/numbers.h"
#include "tests/sequence/suite.h"
#include "tests/sequence/tape.h"

enum { STAGES = 4, GATES = 28, WEIGHTS = 6, OPTIONS = 2, SCALARS = 2, PARAMS_MAX = 3, EQUATIONS = 24 };
enum { TERMS = 1024, POOL = 112, TEXT = 8192 };
enum { UNITS = 5, WIDE = 2 * UNITS };

/* The kinds of values that a term of an equation reads. */
enum { NO_X = 1, NO_H = 2, NO_BIAS = 4 };
enum item { GATE, PREV_H, PREV_C, WEIGHT, SCALAR, PARAM, VALUE, NUMBER, ITEMS };

struct term { int op, a, b, item, index; double number; };     /* op: a tape_op; TAPE_LEAF: the term reads an item */
struct equation { int term, stage; };

struct drawn {
	int n_stages, feed[STAGES];              /* feed: the equation that each stage's product reads */
	/* split_of: the gate whose recurrent part this is; -1: none.  lacks: NO_X, NO_H, NO_BIAS, added */
	struct { int stage, split_of, lacks; } gates[GATES];
	int n_gates, n_states, states[1 + MORE], output;         /* states, output: indices of equations */
	int n_options, on[OPTIONS], n_weights, option[WEIGHTS], n_scalars, n_params;    /* option -1: the cell always has the weight */
	struct { double value; int given, set; } params[PARAMS_MAX];    /* given: has a default; set: the network gives a value */
	struct equation equations[EQUATIONS];
	int n_equations;
	struct term terms[TERMS];
	int n_terms, reads_h;
	struct { int item, index, used; } pool[POOL];                   /* what an equation may read at this point */
	int n_pool;
	char text[TEXT];
	struct cg_cell *cell;
};

static int below(unsigned long long *state, int n)
{
	return (int)numbers_below(state, (unsigned)n);
}

/* ---- terms ---- */

static int add_term(struct drawn *d, struct term t)
{
	assert_true(d->n_terms < TERMS);
	d->terms[d->n_terms] = t;
	return d->n_terms++;
}

static int apply(struct drawn *d, int op, int a, int b)
{
	return add_term(d, (struct term){ .op = op, .a = a, .b = b });
}

static int add_number(struct drawn *d, double x)
{
	return add_term(d, (struct term){ .op = TAPE_LEAF, .item = NUMBER, .number = x });
}

static int take(struct drawn *d, int k)
{
	d->pool[k].used = 1;
	d->reads_h |= d->pool[k].item == PREV_H;
	return add_term(d, (struct term){ .op = TAPE_LEAF, .item = d->pool[k].item, .index = d->pool[k].index });
}

static void offer(struct drawn *d, int item, int index, int used)
{
	assert_true(d->n_pool < POOL);
	d->pool[d->n_pool].item = item;
	d->pool[d->n_pool].index = index;
	d->pool[d->n_pool++].used = used;
}

/* Reads a random value of the pool, mostly one that no equation has read yet. */
static int read_any(struct drawn *d, unsigned long long *state)
{
	for (int tries = below(state, 3) ? 8 : 0; tries > 0; tries--) {
		int k = below(state, d->n_pool);

		if (!d->pool[k].used)
			return take(d, k);
	}
	return take(d, below(state, d->n_pool));
}

/* Combines two terms by random functions that keep numbers small. */
static int form(struct drawn *d, unsigned long long *state, int x, int y)
{
	switch (below(state, 28)) {
	case 0: case 1: return apply(d, TAPE_TANH, apply(d, TAPE_ADD, x, y), 0);
	case 2:  return apply(d, TAPE_SIGMOID, apply(d, TAPE_SUB, x, y), 0);
	case 3: case 4: return apply(d, TAPE_MUL, apply(d, TAPE_SIGMOID, x, 0), y);
	case 5:  return apply(d, TAPE_MUL, x, apply(d, TAPE_TANH, y, 0));
	case 6:  return apply(d, TAPE_ADD, apply(d, TAPE_RELU, x, 0), apply(d, TAPE_MUL, add_number(d, 0.25), y));
	case 7:  return apply(d, TAPE_CLIP, apply(d, TAPE_ADD, x, y), add_number(d, below(state, 4) ? 0.75 : -1));
	case 8:  return apply(d, TAPE_DIV, x, apply(d, TAPE_ADD, add_number(d, 1.5), apply(d, TAPE_MUL, y, y)));
	case 9:  return apply(d, TAPE_MUL, apply(d, TAPE_EXP, apply(d, TAPE_TANH, x, 0), 0), apply(d, TAPE_MUL, add_number(d, 0.375), y));
	case 10: return apply(d, TAPE_SUB, apply(d, TAPE_MUL, add_number(d, 0.5), x), apply(d, TAPE_NEG, y, 0));
	case 11: return apply(d, TAPE_SUB, y, apply(d, TAPE_RELU, apply(d, TAPE_RELU, x, 0), 0));
	case 12: return apply(d, TAPE_ADD, apply(d, TAPE_MUL, x, add_number(d, 1)), apply(d, TAPE_MUL, y, add_number(d, below(state, 2))));
	case 13: return apply(d, TAPE_MAX, x, y);
	case 14: return apply(d, TAPE_MIN, x, apply(d, TAPE_MUL, add_number(d, 0.5), y));
	case 15: return apply(d, TAPE_SUB, apply(d, TAPE_ABS, x, 0), apply(d, TAPE_ABS, apply(d, TAPE_MUL, add_number(d, 0.5), y), 0));
	case 16: return apply(d, TAPE_ADD, apply(d, TAPE_SILU, x, 0), apply(d, TAPE_MUL, add_number(d, 0.25), y));
	case 17: return apply(d, TAPE_SOFTSIGN, apply(d, TAPE_ADD, apply(d, TAPE_SILU, x, 0), y), 0);
	case 18: return apply(d, TAPE_MUL, apply(d, TAPE_HARD_SIGMOID, apply(d, TAPE_MUL, add_number(d, 4), x), 0), y);
	case 19: return apply(d, TAPE_SUB, y, apply(d, TAPE_LOG, apply(d, TAPE_ADD, add_number(d, 1.5), apply(d, TAPE_MUL, x, x)), 0));
	case 20: return apply(d, TAPE_MUL, apply(d, TAPE_LOG1P, apply(d, TAPE_MUL, add_number(d, 0.5), apply(d, TAPE_TANH, x, 0)), 0), y);
	case 21: return apply(d, TAPE_SUB, y, apply(d, TAPE_EXPM1, apply(d, TAPE_TANH, x, 0), 0));
	case 22: return apply(d, TAPE_SQRT, apply(d, TAPE_ADD, apply(d, TAPE_MUL, x, x), apply(d, TAPE_SIGMOID, y, 0)), 0);
	case 23: return apply(d, TAPE_ADD, apply(d, TAPE_ERF, x, 0), apply(d, TAPE_ERF, apply(d, TAPE_MUL, add_number(d, 0.5), y), 0));
	case 24: return apply(d, TAPE_SUB, apply(d, TAPE_SOFTPLUS, x, 0), apply(d, TAPE_MUL, add_number(d, 0.25), y));
	case 25: return apply(d, TAPE_GELU, apply(d, TAPE_ADD, apply(d, TAPE_GELU, x, 0), y), 0);
	}
	return apply(d, TAPE_ADD, x, y);
}

static int expression(struct drawn *d, unsigned long long *state)
{
	int x = read_any(d, state);

	for (int n = 1 + below(state, 3); n > 0; n--)
		x = below(state, 2) ? form(d, state, x, read_any(d, state)) : form(d, state, read_any(d, state), x);
	return x;
}

/* Combines x with each value of the pool that no equation has read yet.  item: the kind of values; ITEMS: all kinds. */
static int rest(struct drawn *d, unsigned long long *state, int x, int item)
{
	for (int k = 0; k < d->n_pool; k++)
		if (!d->pool[k].used && (item == ITEMS || d->pool[k].item == item))
			x = form(d, state, x, take(d, k));
	return x;
}

static int add_equation(struct drawn *d, int x, int stage, int used)
{
	assert_true(d->n_equations < EQUATIONS);
	d->equations[d->n_equations] = (struct equation){ x, stage };
	offer(d, VALUE, d->n_equations, used);
	return d->n_equations++;
}

/* ---- a cell ---- */

static void draw_gates(struct drawn *d, unsigned long long *state, int stage)
{
	int first = d->n_gates, whole = 1 + below(state, stage ? 2 : 3), alone = 0;

	if (!below(state, 3))
		alone = below(state, 2) ? NO_X : NO_H;
	/* A stage after the first needs a gate that its product adds to, and a cell a gate that takes x, which the first stage has here. */
	if (alone && !below(state, 4))
		whole = stage ? alone == NO_H : alone == NO_X;
	for (int k = 0; k < whole; k++, d->n_gates++) {
		d->gates[d->n_gates].stage = stage;
		d->gates[d->n_gates].split_of = -1;
	}
	for (int k = 0; k < whole && !below(state, 3); k++, d->n_gates++) {
		d->gates[d->n_gates].stage = stage;
		d->gates[d->n_gates].split_of = first + k;
	}
	for (int n = alone ? 1 + below(state, 2) : 0; n > 0; n--, d->n_gates++) {
		d->gates[d->n_gates].stage = stage;
		d->gates[d->n_gates].split_of = -1;
		d->gates[d->n_gates].lacks = alone + below(state, 2) * NO_BIAS;
	}
	for (int k = first; k < d->n_gates; k++)
		offer(d, GATE, k, 0);
}

/* Draws per-unit weights that the cell has with an option, or always (option -1). */
static void draw_weights(struct drawn *d, unsigned long long *state, int option)
{
	for (int n = option < 0 ? below(state, 2) : 1 + below(state, 2); n > 0; n--) {
		d->option[d->n_weights] = option;
		offer(d, WEIGHT, d->n_weights++, 0);
	}
}

static void draw_scalars(struct drawn *d, unsigned long long *state)
{
	d->n_params = below(state, PARAMS_MAX + 1);
	for (int k = 0; k < d->n_params; k++) {
		d->params[k].value = 2 * numbers_uniform(state) - 1;
		d->params[k].given = below(state, 2);
		d->params[k].set = !d->params[k].given || below(state, 2);
		offer(d, PARAM, k, 0);
	}
	d->n_options = below(state, OPTIONS + 1);
	draw_weights(d, state, -1);
	for (int k = 0; k < d->n_options; k++) {
		d->on[k] = below(state, 2);
		draw_weights(d, state, k);
	}
	draw_weights(d, state, -1);
	d->n_scalars = below(state, SCALARS + 1);
	for (int k = 0; k < d->n_scalars; k++)
		offer(d, SCALAR, k, 0);
}

/* Adds the equation of the state or of the output, which may be an alias of another value.  It reads all gates that no equation has read
 * yet; all: every such value. */
static int result(struct drawn *d, unsigned long long *state, int stage, int all)
{
	int x = expression(d, state);

	x = rest(d, state, x, all ? ITEMS : GATE);
	if (below(state, 4))
		x = apply(d, TAPE_TANH, x, 0);
	return add_equation(d, x, stage, 1);
}

/* Adds the equations of the states. */
static void draw_states(struct drawn *d, unsigned long long *state, int stage, int last)
{
	for (int k = 0; k < d->n_states; k++)
		d->states[k] = result(d, state, stage, last && !k);
}

static void draw_stage(struct drawn *d, unsigned long long *state, int stage, int state_at, int output_at)
{
	int last = stage == d->n_stages - 1, x;

	draw_gates(d, state, stage);
	for (int n = below(state, 4); n > 0; n--)
		add_equation(d, below(state, 8) ? expression(d, state) : read_any(d, state), stage, 0);
	if (stage == state_at && stage != output_at)
		draw_states(d, state, stage, last);
	if (stage == output_at && !(stage == state_at && last))
		d->output = result(d, state, stage, last && stage != state_at);
	if (stage == state_at && stage == output_at)
		draw_states(d, state, stage, last);
	if (stage == output_at && stage == state_at && last)
		d->output = result(d, state, stage, 1);
	if (last)
		return;
	/* The input of the next product is at times an alias of another value, even of the state. */
	x = below(state, 5) ? expression(d, state) : read_any(d, state);
	d->feed[stage] = add_equation(d, x, stage, 1);
}

static void draw(struct drawn *d, unsigned long long *state)
{
	static const int stages[] = { 1, 1, 1, 2, 2, 2, 3, 3, 4 };
	int state_at, output_at;

	memset(d, 0, sizeof *d);
	d->n_stages = stages[below(state, sizeof stages / sizeof *stages)];
	d->n_states = below(state, 2) ? 1 + (below(state, 2) ? below(state, 1 + MORE) : 0) : 0;
	state_at = d->n_states ? below(state, d->n_stages) : -1;
	output_at = state_at == d->n_stages - 1 && !below(state, 3) ? below(state, d->n_stages) : d->n_stages - 1;
	offer(d, PREV_H, 0, 1);
	for (int k = 0; k < d->n_states; k++)
		offer(d, PREV_C, k, 1);
	draw_scalars(d, state);
	for (int stage = 0; stage < d->n_stages; stage++)
		draw_stage(d, state, stage, state_at, output_at);
}

/* ---- the text of a cell ---- */

static void write(struct drawn *d, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void write(struct drawn *d, const char *format, ...)
{
	size_t n = strlen(d->text);
	va_list list;

	va_start(list, format);
	assert_true(vsnprintf(d->text + n, TEXT - n, format, list) < (int)(TEXT - n));
	va_end(list);
}

static const char *const state_names[] = { "c", "m2", "m3", "m4" };

/* The number of the state that an equation computes, or -1. */
static int state_of(const struct drawn *d, int equation)
{
	int k = d->n_states - 1;

	while (k >= 0 && d->states[k] != equation)
		k--;
	return k;
}

static void write_equation_name(struct drawn *d, int k)
{
	if (k == d->output)
		write(d, "h");
	else if (state_of(d, k) >= 0)
		write(d, "%s", state_names[state_of(d, k)]);
	else
		write(d, "v%d", k);
}

static void write_gate_name(struct drawn *d, int k)
{
	int whole = d->gates[k].split_of;

	write(d, "%c_%d", whole >= 0 ? 'q' : d->gates[k].lacks & NO_H ? 'x' : d->gates[k].lacks & NO_X ? 'r' : 'a', whole >= 0 ? whole : k);
}

static void write_term(struct drawn *d, int k)
{
	static const char *const signs[TAPE_OPS] = { [TAPE_ADD] = " + ", [TAPE_SUB] = " - ", [TAPE_MUL] = " * ", [TAPE_DIV] = " / ",
	                                             [TAPE_CLIP] = ", ", [TAPE_MAX] = ", ", [TAPE_MIN] = ", " };
	static const char *const words[TAPE_OPS] = { [TAPE_NEG] = "-", [TAPE_EXP] = "exp", [TAPE_TANH] = "tanh", [TAPE_SIGMOID] = "sigmoid",
	                                             [TAPE_RELU] = "relu", [TAPE_CLIP] = "clip", [TAPE_MAX] = "max", [TAPE_MIN] = "min",
	                                             [TAPE_ABS] = "abs", [TAPE_SILU] = "silu", [TAPE_SOFTSIGN] = "softsign",
	                                             [TAPE_HARD_SIGMOID] = "hard_sigmoid",
	                                             [TAPE_LOG] = "log", [TAPE_LOG1P] = "log1p", [TAPE_EXPM1] = "expm1", [TAPE_SQRT] = "sqrt",
	                                             [TAPE_ERF] = "erf", [TAPE_SOFTPLUS] = "softplus", [TAPE_GELU] = "gelu" };
	const struct term *t = &d->terms[k];

	if (t->op != TAPE_LEAF) {
		write(d, "%s(", words[t->op] ? words[t->op] : "");
		write_term(d, t->a);
		if (signs[t->op]) {
			write(d, "%s", signs[t->op]);
			write_term(d, t->b);
		}
		write(d, ")");
		return;
	}
	switch (t->item) {
	case GATE:   write_gate_name(d, t->index); break;
	case PREV_H: write(d, "h_prev"); break;
	case PREV_C: write(d, "%s_prev", state_names[t->index]); break;
	case WEIGHT: write(d, "w_%d", t->index); break;
	case SCALAR: write(d, "s%d", t->index); break;
	case PARAM:  write(d, "p%d", t->index); break;
	case VALUE:  write_equation_name(d, t->index); break;
	default:     write(d, t->number < 0 ? "(-%.17g)" : "%.17g", fabs(t->number));
	}
}

static void write_gates(struct drawn *d, int stage)
{
	for (int split = 0; split < 2; split++)
		for (int k = 0, any = 0; k < d->n_gates; k++) {
			int whole = d->gates[k].split_of;

			if (d->gates[k].stage != stage || (whole >= 0) != split || d->gates[k].lacks)
				continue;
			write(d, "%s ", any++ ? "" : split ? "\nsplit" : "\ngates");
			write_gate_name(d, k);
		}
	for (int k = 0; k < d->n_gates; k++) {
		if (d->gates[k].stage != stage || !d->gates[k].lacks)
			continue;
		write(d, d->gates[k].lacks & NO_H ? "\ninput " : "\nsplit ");
		write_gate_name(d, k);
		write(d, d->gates[k].lacks & NO_BIAS ? " no bias" : "");
	}
	write(d, "\n");
}

static void write_scalars(struct drawn *d)
{
	for (int k = 0; k < d->n_params; k++)
		if (d->params[k].given)
			write(d, "param p%d = %s%.17g\n", k, d->params[k].value < 0 ? "-" : "", fabs(d->params[k].value));
		else
			write(d, "param p%d\n", k);
	for (int k = 0; k < d->n_scalars; k++)
		write(d, "scalar s%d = 0.5\n", k);
	for (int w = 0; w < d->n_weights; w++) {
		if (!w || d->option[w] != d->option[w - 1])
			write(d, d->option[w] < 0 ? "weight" : "option o%d", d->option[w]);
		write(d, " w_%d%s", w, w + 1 < d->n_weights && d->option[w + 1] == d->option[w] ? "" : "\n");
	}
}

static void write_saves(struct drawn *d, unsigned long long *state)
{
	int dense = below(state, 4), any = 0, first = below(state, d->n_equations);

	for (int n = 0; n < d->n_equations; n++)
		if (below(state, 3) < dense) {
			write(d, any++ ? " " : "save ");
			write_equation_name(d, (first + n) % d->n_equations);
		}
	write(d, "\n");
}

static void write_text(struct drawn *d, unsigned long long *state)
{
	write(d, "cell drawn%s", "");
	write_gates(d, 0);
	for (int k = 0; k < d->n_states; k++)
		write(d, "%s%s%s", k ? " " : "state ", state_names[k], k + 1 < d->n_states ? "" : "\n");
	write(d, "output h\n");
	write_scalars(d);
	for (int stage = 0; stage < d->n_stages; stage++) {
		for (int k = 0; k < d->n_equations; k++)
			if (d->equations[k].stage == stage) {
				write_equation_name(d, k);
				write(d, " = ");
				write_term(d, d->equations[k].term);
				write(d, "\n");
			}
		if (stage < d->n_stages - 1) {
			write(d, "stage v%d", d->feed[stage]);
			write_gates(d, stage + 1);
		}
	}
	write_saves(d, state);
}

/* ---- a network of the cell, on a tape ---- */

struct evaluation {
	const struct drawn *d;
	struct network *net;
	struct tape *tape;
	int *params, *input, *first_h, *first_c[1 + MORE];       /* numbers on the tape, in the order of the elements of each array */
	int values[PARAMS_MAX];
	int none;                                /* the index on the tape of the number 0 */
};

/* The number on the tape of one element of a region of params. */
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

/* The numbers on the tape of one step of a batch row: the layer's input, the states before it, and all that it computes. */
struct step { int layer, pseudo_layer, x[WIDE], width, h[UNITS], c[1 + MORE][UNITS], gate[GATES][UNITS], value[EQUATIONS][UNITS]; };

/* Adds a bias to a sum; -1: there is no sum yet. */
static int add_bias(const struct evaluation *w, const struct step *s, int id, int unit, int sum)
{
	int bias = param(w, s->pseudo_layer, id, 1, 0, unit);

	return sum < 0 ? bias : tape_apply(w->tape, TAPE_ADD, sum, bias);
}

/* Computes a gate's pre-activation: x W + bW, h R + bR, or the sum of both, whose derivative is rounded once. */
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

/* A per-unit weight.  Its derivative in a step may be that of a gate, which memory has rounded. */
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

static int evaluate(const struct evaluation *w, const struct step *s, int unit, int k)
{
	const struct term *t = &w->d->terms[k];
	int a;

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

/* Puts an array of the network on the tape as leaves, zeros where it is absent; returns their numbers. */
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

/* The array of a state: the first one's, or that of the states after it. */
static int of_state(int first, int others, int64_t k)
{
	return k ? others + (int)k - 1 : first;
}

static int64_t state_at(const struct network *net, int array, int64_t state, int64_t b)
{
	return network_state(net, array, state, b) - net->at[array];
}

/* Sets an answer and adds its upstream gradient to the loss. */
static void answer(const struct evaluation *w, struct answers *answers, int array, int upstream, int64_t k, int number)
{
	answers->v[array][k] = tape_value(w->tape, number);
	answers->e[array][k] = tape_bound(w->tape, number);
	if (!(w->net->absent >> upstream & 1))
		tape_seed(w->tape, number, w->net->at[upstream][k]);
}

/* Computes one direction of one layer over a batch row; out: the numbers on the tape of each step's h, [T]. */
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

/* A gradient that is added to params_backprop is a sum that may begin with what is there. */
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
		c->dtype = dtypes[below(state, 8)];
	while (!network_has(c->dtype));
	net->T %= 6;
	net->B %= 4;
	for (int64_t b = 0; b < net->B; b++)
		net->lengths[b] = net->lengths[b] > net->T ? (int32_t)net->T : net->lengths[b];
	c->units = 1 + below(state, UNITS);
	c->input = c->input_mode == CG_SKIP ? c->units : 1 + below(state, UNITS);
	c->layers = 1 + below(state, 2);
	c->dropout = 0;
	c->cell = d->cell;
	c->proj = d->n_states && d->n_stages == 1 && !d->reads_h && has_product(d) && below(state, 2) ? 1 + below(state, (int)c->units) : 0;
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

/* Without training the network has the same outputs, to the bit, or on backend cuda nearly. */
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
	net.absent = below(state, 4) ? 0 : (unsigned)below(state, 1 << INPUTS) & ~(1u << INPUT | 1u << PARAMS);
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

/* CELLGRAD_TEST_CELLS is the number of cells, 1000 if it is unset.  Where kernels take long to compile, the first hundredth of them is
   tested. */
void test_drawn(void **nothing)
{
	const char *many = getenv("CELLGRAD_TEST_CELLS");
	int cells = (many ? atoi(many) : 1000) / (network_is_slow() ? 100 : 1);
	static struct drawn d;
	unsigned long long state;

	(void)nothing;
	for (int k = 0; k < cells; k++) {
		network_case("drawn", k, &state);
		draw(&d, &state);
		write_text(&d, &state);
		try(&d, k, &state);
	}
	answers_print_worst("drawn");
}
