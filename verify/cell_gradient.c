/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compares the derived gradient of a cell's equations with differences, in long double.  The cell's matrix products take no part: the
 * gates, which products give, are variables here, and the values that products of later stages multiply are results.
 */
#include "verify/cell_gradient.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/core/core.h"
#include "verify/numbers.h"

/* WORK_MOST: the most values to evaluate before the last point, a few seconds of work; a cell with very many operations is compared at
 * fewer points. */
enum { TRIES = 400, STEPS = 4, SMALLER = 5, WORK_MOST = 200000000, RESULTS = CG_STATES_MAX + 1 + CG_STAGES_MAX, UNITS = 3 };
static const long double first_step = 4e-3L;

/* The cell's equations and their adjoints.  The loss is the sum of all results, each times a variable `seed`. */
struct check {
	const struct cg_cell *cell;
	struct cg_arena memory;
	struct cg_graph graph;
	int n;                                   /* the number of the equations' nodes, which stand before those of the adjoints */
	int result[RESULTS], seed[RESULTS], n_results;
	int *adjoint;
	int units;                               /* the units of the row at which the gradient is compared: one, or several for a cell with means */
	long double *value;                      /* [nodes, units] */
	long long work;                          /* values evaluated so far */
};

static void add_result(struct check *c, int value)
{
	int node = c->graph.value[value], seed;
	char name[16];

	snprintf(name, sizeof name, "seed%d", c->n_results);
	seed = cg_add_leaf(&c->graph, name, CG_ROLE_OPERAND, c->n_results, CG_VALUE);
	c->adjoint[node] = c->adjoint[node] ? cg_add(&c->graph, c->adjoint[node], seed) : seed;
	c->result[c->n_results] = node;
	c->seed[c->n_results++] = seed;
}

/* Builds the graph.  Results are the states, the output and what the products of later stages multiply. */
static int build(struct check *c, int options)
{
	cg_graph_open(&c->graph, &c->memory);
	cg_graph_build(&c->graph, c->cell, options);
	c->n = c->graph.n;
	c->adjoint = cg_arena_alloc(&c->memory, (size_t)c->n * sizeof *c->adjoint);
	if (c->graph.failed || !c->adjoint)
		return CG_NO_MEMORY;
	memset(c->adjoint, 0, (size_t)c->n * sizeof *c->adjoint);
	for (int k = 0; k < c->cell->n_prevs; k++)
		add_result(c, c->cell->prevs[k].value);
	for (int k = 0; k < c->cell->n_stages - 1; k++)
		add_result(c, c->cell->feeds[k]);
	cg_derive(&c->graph, c->adjoint, c->n, "d");
	c->units = 1;
	for (int k = 0; k < c->n; k++)
		if (c->graph.nodes[k].code == CG_OP_MEAN)
			c->units = UNITS;
	c->value = cg_arena_alloc(&c->memory, (size_t)(c->graph.n * c->units) * sizeof *c->value);
	return c->graph.failed || !c->value ? CG_NO_MEMORY : CG_OK;
}

static const struct cg_leaf *leaf_of(const struct check *c, int node)
{
	return c->graph.nodes[node].code == CG_OP_LEAF ? &c->graph.leaves[c->graph.nodes[node].a] : NULL;
}

static int is_variable(const struct check *c, int node)
{
	const struct cg_leaf *leaf = leaf_of(c, node);

	return leaf && leaf->role != CG_ROLE_PARAM;
}

/* The values of a node, one for each unit. */
static long double *values(const struct check *c, int node)
{
	return c->value + (size_t)node * (size_t)c->units;
}

/* Is the leaf one number for all units? */
static int is_shared(const struct cg_leaf *leaf)
{
	return leaf->role == CG_ROLE_SCALAR || leaf->role == CG_ROLE_PARAM;
}

/* Draws all variables, numbers of either sign, some of them above 1, except the params: a param is its default, or else 1. */
static void draw(struct check *c, unsigned long long *state)
{
	for (int k = 0; k < c->graph.n; k++) {
		const struct cg_leaf *leaf = leaf_of(c, k);

		for (int u = 0; leaf && u < c->units; u++)
			if (u && is_shared(leaf))
				values(c, k)[u] = *values(c, k);
			else if (leaf->role == CG_ROLE_PARAM)
				values(c, k)[u] = c->cell->params[leaf->index].given ? (long double)c->cell->params[leaf->index].value : 1;
			else
				values(c, k)[u] = (long double)numbers_draw(state, 0.7);
	}
}

/* Is every value finite, and does every clip leave its argument as it is? */
static int is_plain(const struct check *c)
{
	for (int k = 0; k < c->n; k++)
		for (int u = 0; u < c->units; u++) {
			long double x = values(c, k)[u];

			if (!isfinite(x) || (c->graph.nodes[k].code == CG_OP_CLIP && x != values(c, c->graph.nodes[k].a)[u]))
				return 0;
		}
	return 1;
}

/* A variable: a leaf in one unit, or in all units if it is shared. */
struct variable { int node, unit, is_shared; };

/* The derivatives of all results by one variable, found by differences; change: by how much the last step of the extrapolation changed
 * each; slack: how far the rounding of the results may have moved each.  In each array the units of a result are adjacent. */
struct slopes { long double d[RESULTS * UNITS], change[RESULTS * UNITS], slack[RESULTS * UNITS]; };

static long double result_of(const struct check *c, int r)
{
	return values(c, c->result[r / c->units])[r % c->units];
}

static void set(struct check *c, struct variable v, long double x)
{
	for (int u = 0; u < c->units; u++)
		if (u == v.unit || v.is_shared)
			values(c, v.node)[u] = x;
}

static void evaluate(struct check *c, struct variable v, long double x)
{
	set(c, v, x);
	cg_eval_row(&c->graph, c->value, c->n, c->units);
	c->work += (long long)c->n * c->units;
}

/* Central differences over steps that are halved, extrapolated to a step of 0. */
static void extrapolate(struct check *c, struct variable v, long double step, struct slopes *s)
{
	long double there = values(c, v.node)[v.unit], d[RESULTS * UNITS][STEPS];
	int n_results = c->n_results * c->units;

	for (int k = 0; k < STEPS; k++) {
		long double h = ldexpl(step, -k);

		evaluate(c, v, there + h);
		for (int r = 0; r < n_results; r++)
			d[r][k] = result_of(c, r);
		evaluate(c, v, there - h);
		for (int r = 0; r < n_results; r++) {
			s->slack[r] = 4 * LDBL_EPSILON * (fabsl(d[r][k]) + fabsl(result_of(c, r))) / h;
			d[r][k] = (d[r][k] - result_of(c, r)) / (2 * h);
		}
	}
	set(c, v, there);
	for (int r = 0; r < n_results; r++) {
		s->change[r] = INFINITY;
		for (int n = 1; n < STEPS; n++)
			for (int k = 0; k < STEPS - n; k++) {
				long double before = d[r][k];

				d[r][k] = d[r][k + 1] + (d[r][k + 1] - d[r][k]) / (ldexpl(1, 2 * n) - 1);
				s->change[r] = fabsl(d[r][k] - before);
			}
		s->d[r] = d[r][0];
	}
}

/* The derivative of the loss by differences.  Near a kink or a pole the steps are made smaller, until no result's slope changes
 * or SMALLER sizes have been tried. */
static long double difference(struct check *c, struct variable v, long double *slack)
{
	struct slopes best = { { 0 }, { 0 }, { 0 } }, s;
	int n_results = c->n_results * c->units, go_on = 1;
	long double sum = 0;

	*slack = 0;
	for (int k = 0; k < SMALLER && go_on; k++) {
		extrapolate(c, v, ldexpl(first_step, -3 * k), &s);
		go_on = 0;
		for (int r = 0; r < n_results; r++) {
			if (!k || s.change[r] < best.change[r]) {
				best.d[r] = s.d[r];
				best.change[r] = s.change[r];
				best.slack[r] = s.slack[r];
			}
			go_on |= !(best.change[r] <= 1e-12L * (1 + fabsl(best.d[r])) + best.slack[r]);
		}
	}
	for (int r = 0; r < n_results; r++) {
		long double seed = values(c, c->seed[r / c->units])[r % c->units];

		sum += seed * best.d[r];
		*slack += fabsl(seed) * best.slack[r];
	}
	return sum;
}

/* The derivative of the loss by the adjoint: of a shared variable, the sum of the adjoints of all units. */
static long double adjoint_of(const struct check *c, struct variable v)
{
	long double sum = 0;

	for (int u = 0; c->adjoint[v.node] && u < c->units; u++)
		sum += u == v.unit || v.is_shared ? values(c, c->adjoint[v.node])[u] : 0;
	return sum;
}

static void compare_one(struct check *c, struct variable v, struct cell_gradient *found)
{
	long double got, want, slack;
	double error;

	cg_eval_row(&c->graph, c->value, c->graph.n, c->units);
	got = adjoint_of(c, v);
	want = difference(c, v, &slack);
	error = (double)(fabsl(got - want) / (1 + fabsl(want) + slack / CELL_GRADIENT_TOLERANCE));
	/* An error of NaN stays the worst. */
	if (!*found->of || (!isnan(found->worst) && !(error <= found->worst))) {
		found->worst = error;
		found->got = (double)got;
		found->want = (double)want;
		snprintf(found->of, sizeof found->of, "%s", leaf_of(c, v.node)->name);
	}
}

static void compare(struct check *c, struct cell_gradient *found)
{
	for (int k = 1; k < c->n; k++)
		for (int u = 0; is_variable(c, k) && u < (is_shared(leaf_of(c, k)) ? 1 : c->units); u++)
			compare_one(c, (struct variable){ k, u, is_shared(leaf_of(c, k)) }, found);
	found->points++;
}

int cell_gradient_check(const struct cg_cell *cell, int options, unsigned long long seed, struct cell_gradient *found)
{
	struct check c = { .cell = cell, .memory = { cg_memory, NULL, 0 } };
	int code;

	*found = (struct cell_gradient){ .points = 0 };
	code = build(&c, options);
	for (int k = 0; !code && k < TRIES && found->points < CELL_GRADIENT_POINTS && c.work < WORK_MOST; k++) {
		draw(&c, &seed);
		cg_eval_row(&c.graph, c.value, c.n, c.units);
		if (is_plain(&c))
			compare(&c, found);
	}
	cg_arena_free(&c.memory);
	return code;
}
