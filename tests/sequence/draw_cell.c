/* SPDX-License-Identifier: Apache-2.0 */
/* Draws a random cell, and writes its text. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "verify/numbers.h"
#include "tests/sequence/draw_cell.h"
#include "tests/sequence/tape.h"

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

/* Adds a term that reads a random value of the pool, mostly a value whose `used` is 0. */
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
	switch (below(state, 31)) {
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
	case 26: return apply(d, TAPE_SUB, x, apply(d, MEAN, y, 0));
	case 27: return apply(d, TAPE_DIV, x, apply(d, TAPE_SQRT, apply(d, TAPE_ADD, apply(d, MEAN, apply(d, TAPE_MUL, y, y), 0), add_number(d, 0.5)), 0));
	case 28: return apply(d, TAPE_MUL, apply(d, MEAN, apply(d, TAPE_MUL, x, y), 0), apply(d, TAPE_SIGMOID, y, 0));
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

/* Combines x with each value of the pool that is not used. item: the kind of values; ITEMS: all kinds. */
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
	/* A stage after the first needs a gate to which its product is added. A cell needs a gate that takes x, and gets it in the first
	 * stage. */
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

/* Adds the equation of a state or of the output. The equation reads every gate in the pool whose `used` is 0 or, with `all`, every value
 * in the pool whose `used` is 0. */
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

void draw_cell(struct drawn *d, unsigned long long *state)
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

/* The number of the state that an equation computes; -1: the equation computes no state. */
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
	static const char *const signs[TERM_OPS] = { [TAPE_ADD] = " + ", [TAPE_SUB] = " - ", [TAPE_MUL] = " * ", [TAPE_DIV] = " / ",
	                                             [TAPE_CLIP] = ", ", [TAPE_MAX] = ", ", [TAPE_MIN] = ", " };
	static const char *const words[TERM_OPS] = { [TAPE_NEG] = "-", [TAPE_EXP] = "exp", [TAPE_TANH] = "tanh", [TAPE_SIGMOID] = "sigmoid",
	                                             [TAPE_RELU] = "relu", [TAPE_CLIP] = "clip", [TAPE_MAX] = "max", [TAPE_MIN] = "min",
	                                             [TAPE_ABS] = "abs", [TAPE_SILU] = "silu", [TAPE_SOFTSIGN] = "softsign",
	                                             [TAPE_HARD_SIGMOID] = "hard_sigmoid",
	                                             [TAPE_LOG] = "log", [TAPE_LOG1P] = "log1p", [TAPE_EXPM1] = "expm1", [TAPE_SQRT] = "sqrt",
	                                             [TAPE_ERF] = "erf", [TAPE_SOFTPLUS] = "softplus", [TAPE_GELU] = "gelu",
	                                             [MEAN] = "mean" };
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

void write_cell(struct drawn *d, unsigned long long *state)
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
