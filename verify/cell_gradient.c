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

/* WORK_MOST: the most nodes to evaluate before the last point, a few seconds of work; a cell with very many operations is compared at fewer
 * points. */
enum { TRIES = 400, STEPS = 4, SMALLER = 5, WORK_MOST = 200000000, RESULTS = CG_STATES_MAX + 1 + CG_STAGES_MAX };
static const long double first_step = 4e-3L;

/* The cell's equations and their adjoints.  The loss is the sum of all results, each times a variable `seed`. */
struct check {
	const struct cg_cell *cell;
	struct cg_arena memory;
	struct cg_graph graph;
	int n;                                   /* the number of the equations' nodes, which stand before those of the adjoints */
	int result[RESULTS], seed[RESULTS], n_results;
	int *adjoint;
	long double *value;
	long long work;                          /* nodes evaluated so far */
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
	c->value = cg_arena_alloc(&c->memory, (size_t)c->graph.n * sizeof *c->value);
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

/* Draws all variables: numbers of either sign, some of them above 1. */
static void draw(struct check *c, unsigned long long *state)
{
	for (int k = 0; k < c->graph.n; k++) {
		const struct cg_leaf *leaf = leaf_of(c, k);

		if (leaf && leaf->role == CG_ROLE_PARAM)
			c->value[k] = c->cell->params[leaf->index].given ? (long double)c->cell->params[leaf->index].value : 1;
		else if (leaf)
			c->value[k] = (long double)numbers_draw(state, 0.7);
	}
}

/* Is every value finite, and does no clip cut its argument? */
static int is_plain(const struct check *c)
{
	for (int k = 0; k < c->n; k++)
		if (!isfinite(c->value[k]) || (c->graph.nodes[k].code == CG_OP_CLIP && c->value[k] != c->value[c->graph.nodes[k].a]))
			return 0;
	return 1;
}

/* The derivatives of all results by one variable, found by differences; change: by how much the last step of the extrapolation changed
 * each; slack: how far the rounding of the results may have moved each. */
struct slopes { long double d[RESULTS], change[RESULTS], slack[RESULTS]; };

static void evaluate(struct check *c, int node, long double x)
{
	c->value[node] = x;
	cg_eval(&c->graph, c->value, c->n);
	c->work += c->n;
}

/* Computes central differences over steps that are halved, and extrapolates them to a step of 0. */
static void extrapolate(struct check *c, int node, long double step, struct slopes *s)
{
	long double there = c->value[node], d[RESULTS][STEPS];

	for (int k = 0; k < STEPS; k++) {
		long double h = ldexpl(step, -k);

		evaluate(c, node, there + h);
		for (int r = 0; r < c->n_results; r++)
			d[r][k] = c->value[c->result[r]];
		evaluate(c, node, there - h);
		for (int r = 0; r < c->n_results; r++) {
			s->slack[r] = 4 * LDBL_EPSILON * (fabsl(d[r][k]) + fabsl(c->value[c->result[r]])) / h;
			d[r][k] = (d[r][k] - c->value[c->result[r]]) / (2 * h);
		}
	}
	c->value[node] = there;
	for (int r = 0; r < c->n_results; r++) {
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

/* The derivative of the loss by differences.  Near a kink or a pole the steps are made smaller, until no result's slope changes. */
static long double difference(struct check *c, int node, long double *slack)
{
	struct slopes best = { { 0 }, { 0 }, { 0 } }, s;
	long double sum = 0;
	int go_on = 1;

	*slack = 0;
	for (int k = 0; k < SMALLER && go_on; k++) {
		extrapolate(c, node, ldexpl(first_step, -3 * k), &s);
		go_on = 0;
		for (int r = 0; r < c->n_results; r++) {
			if (!k || s.change[r] < best.change[r]) {
				best.d[r] = s.d[r];
				best.change[r] = s.change[r];
				best.slack[r] = s.slack[r];
			}
			go_on |= !(best.change[r] <= 1e-12L * (1 + fabsl(best.d[r])) + best.slack[r]);
		}
	}
	for (int r = 0; r < c->n_results; r++) {
		sum += c->value[c->seed[r]] * best.d[r];
		*slack += fabsl(c->value[c->seed[r]]) * best.slack[r];
	}
	return sum;
}

static void compare(struct check *c, struct cell_gradient *found)
{
	for (int k = 1; k < c->n; k++) {
		long double got, want, slack;
		double error;

		if (!is_variable(c, k))
			continue;
		cg_eval(&c->graph, c->value, c->graph.n);
		got = c->adjoint[k] ? c->value[c->adjoint[k]] : 0;
		want = difference(c, k, &slack);
		error = (double)(fabsl(got - want) / (1 + fabsl(want) + slack / CELL_GRADIENT_TOLERANCE));
		/* A NaN stays the worst. */
		if (!*found->of || (!isnan(found->worst) && !(error <= found->worst))) {
			found->worst = error;
			found->got = (double)got;
			found->want = (double)want;
			snprintf(found->of, sizeof found->of, "%s", leaf_of(c, k)->name);
		}
	}
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
		cg_eval(&c.graph, c.value, c.n);
		if (is_plain(&c))
			compare(&c, found);
	}
	cg_arena_free(&c.memory);
	return code;
}
