/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plans a pass of a cell: which functions it needs, and for each its arguments and the nodes it computes.  Products separate the stages,
 * so a pass runs stage by stage: forward from 1 to S, grad from S to 1, gradgrad up (for each stage's gd<feed>, which a product
 * carries into the next stage's gda) and down again.  A pass as a step of a sequence runs stage by stage too, but differs in the
 * arguments that come from the neighbouring steps.  print.c prints the functions of all passes.
 */
#include "pass.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int leaf(struct maker *m, int role, int index, int derivative)
{
	return cg_add_leaf(m->graph, cg_function_argument_name(m->graph, m->plan->cell, role, index, derivative), role, index, derivative);
}

/* The node of the leaf with this role and index, if an equation uses it, else 0. */
static int used_leaf(const struct cg_graph *graph, int role, int index)
{
	for (int k = 1; k < graph->n; k++)
		if (graph->nodes[k].code == CG_OP_LEAF) {
			const struct cg_leaf *l = &graph->leaves[graph->nodes[k].a];

			if (l->role == role && l->index == index && l->derivative == CG_VALUE)
				return k;
		}
	return 0;
}

static void out(struct maker *m, int role, int index, int derivative, int node)
{
	struct cg_argument *a = &m->outs[m->n_outs];

	if (m->n_outs == ARGUMENTS_MAX) {
		m->failed = 1;
		return;
	}
	*a = cg_function_argument(m, role, index, derivative, node);
	a->out = 1;
	m->n_outs++;
}

static void cut_at(struct maker *m, int node, int role, int index, int derivative)
{
	if (node && !m->cuts[node].name && m->graph->nodes[node].code != CG_OP_CONST) {
		m->cuts[node] = (struct cut){ cg_function_argument_name(m->graph, m->plan->cell, role, index, derivative), role, index, derivative };
		m->n_cuts++;
	}
}

static void cut_nothing(struct maker *m)
{
	memset(m->cuts, 0, (size_t)m->graph->n * sizeof *m->cuts);
	m->n_cuts = 0;
}

static void cut_saved(struct maker *m)
{
	cut_nothing(m);
	for (int k = 0; k < m->plan->cell->n_saves; k++)
		cut_at(m, m->graph->value[m->plan->cell->saves[k]], CG_ROLE_SAVED, k, CG_VALUE);
}

/* Is the node a saved value of type real, the type that products read?  A state that a sequence carries from step to step is
 * saved with type acc. */
static int is_saved_real(const struct maker *m, int node)
{
	const struct cut *c = &m->cuts[node];

	return c->name && cg_function_type(m->plan, c->role, c->index, c->derivative) == CG_TYPE_REAL;
}

static int has_stage(const struct maker *m, int stage)
{
	return !m->plan->stage || m->plan->stage == stage;
}

static void forward(struct maker *m, int stage)
{
	const struct cg_cell *cell = m->plan->cell;
	const int *value = m->graph->value;

	cut_nothing(m);
	for (int k = 0; k < cell->n_saves; k++) {
		int v = cell->saves[k];

		if (cell->values[v].stage == stage)
			out(m, CG_ROLE_SAVED, k, CG_VALUE, value[v]);
		else if (cell->values[v].stage < stage)
			cut_at(m, value[v], CG_ROLE_SAVED, k, CG_VALUE);
	}
	for (int role = CG_ROLE_STATE; role <= CG_ROLE_FEED; role += CG_ROLE_FEED - CG_ROLE_STATE)
		for (int k = 0; k < (role == CG_ROLE_STATE ? cell->n_prevs : cell->n_stages - 1); k++) {
			int v = role == CG_ROLE_STATE ? cell->prevs[k].value : cell->feeds[k], kept = 0;

			for (int j = 0; j < cell->n_saves; j++)
				kept |= cell->saves[j] == v;
			if (!kept && cell->values[v].stage == stage)
				out(m, role, k, CG_VALUE, value[v]);
			else if (!kept && cell->values[v].stage < stage && role == CG_ROLE_FEED)
				cut_at(m, value[v], role, k, CG_VALUE);
		}
	cg_function_make(m, stage, CG_FUNCTION_POINT, "");
}

/* Makes the sums over rows in a stage of a gradient: the gradients of its gates' biases and, in stage 1, the last stage to run, of the
 * per-unit weights and the scalars.  For scalars the sums are over rows and units. */
static void sums(struct maker *m, int stage, int derivative, const int *adjoint, int n)
{
	const struct cg_cell *cell = m->plan->cell;
	int any = 0;

	cut_saved(m);
	for (int k = 0; k < cell->n_gates; k++) {
		int gate = used_leaf(m->graph, CG_ROLE_GATE, k), node = gate && gate < n ? adjoint[gate] : 0;

		if (cell->gates[k].stage >= stage)
			cut_at(m, node, CG_ROLE_GATE, k, derivative);
		if (cell->gates[k].stage == stage && (cell->gates[k].parts & CG_GATE_BIASES))
			out(m, CG_ROLE_BIAS, k, derivative, node);
	}
	for (int k = 0; stage == 1 && k < cell->n_weights; k++) {
		int weight = used_leaf(m->graph, CG_ROLE_WEIGHT, k);

		if (weight)
			out(m, CG_ROLE_WEIGHT, k, derivative, weight < n ? adjoint[weight] : 0);
	}
	for (int k = 0; stage == 1 && k < cell->n_scalars; k++) {
		int scalar = used_leaf(m->graph, CG_ROLE_SCALAR, k);

		if (scalar)
			out(m, CG_ROLE_SCALAR, k, derivative, scalar < n ? adjoint[scalar] : 0);
		any |= scalar;
	}
	if (m->n_outs)
		cg_function_make(m, stage, CG_FUNCTION_SUM_PART, "_sum_part");
	if (m->n_outs && m->outs->role != CG_ROLE_SCALAR)
		cg_function_make(m, stage, CG_FUNCTION_SUM, "_sum");
	if (any)
		cg_function_make(m, stage, CG_FUNCTION_SUM_UNITS, "_sum_units");
	m->n_outs = 0;
}

/* Adds the outputs of a stage of grad or gradgrad: adjoints of its gates and, in the first stage, of the previous values. */
static void adjoints_out(struct maker *m, int stage, int derivative, const int *adjoint, int n)
{
	const struct cg_cell *cell = m->plan->cell;

	for (int k = 0; k < cell->n_gates; k++)
		if (cell->gates[k].stage == stage) {
			int gate = used_leaf(m->graph, CG_ROLE_GATE, k);

			out(m, CG_ROLE_GATE, k, derivative, gate && gate < n ? adjoint[gate] : 0);
		}
	for (int k = 0; stage == 1 && k < cell->n_prevs; k++) {
		int prev = used_leaf(m->graph, CG_ROLE_PREV, k);

		/* In a sequence the step before reads the adjoint of its state even where this step does not read that state, and the adjoint of
		 * its output where no product computes it; the adjoint is zero then. */
		if (prev || (m->plan->pass == CG_PASS_SEQ_GRAD && (!cell->prevs[k].output || !cg_has_product(cell, 1))))
			out(m, CG_ROLE_PREV, k, derivative, prev < n ? adjoint[prev] : 0);
	}
}

static int *new_adjoints(struct maker *m, int n)
{
	int *adjoint = cg_arena_alloc(&m->plan->memory, (size_t)n * sizeof *adjoint);

	m->failed |= !adjoint;
	return adjoint;
}

static void seed(struct maker *m, int *adjoint, int node, int role, int index, int derivative)
{
	if (m->graph->nodes[node].code != CG_OP_CONST)
		adjoint[node] = cg_add(m->graph, adjoint[node], leaf(m, role, index, derivative));
}

static int *derive_once(struct maker *m)
{
	const struct cg_cell *cell = m->plan->cell;
	struct cg_graph *graph = m->graph;
	int n = graph->n, *d = new_adjoints(m, n);

	if (!d)
		return NULL;
	for (int k = 0; k < cell->n_prevs; k++) {
		int value = graph->value[cell->prevs[k].value];

		seed(m, d, value, CG_ROLE_STATE, k, CG_D);
		if (m->plan->pass == CG_PASS_SEQ_GRAD && cell->prevs[k].output) {
			graph->origin = cell->prevs[k].value;
			seed(m, d, value, CG_ROLE_OUTPUT, k, CG_D);
			graph->origin = -1;
		}
	}
	for (int s = 0; s < cell->n_stages - 1; s++)
		seed(m, d, graph->value[cell->feeds[s]], CG_ROLE_FEED, s, CG_D);
	cg_derive(graph, d, n, "d");
	return d;
}

static int *derive_twice(struct maker *m, const int *d, int n)
{
	static const int roles[] = { CG_ROLE_GATE, CG_ROLE_PREV, CG_ROLE_WEIGHT, CG_ROLE_SCALAR };
	const struct cg_cell *cell = m->plan->cell;
	const int counts[] = { cell->n_gates, cell->n_prevs, cell->n_weights, cell->n_scalars };
	struct cg_graph *graph = m->graph;
	int n2 = graph->n, *g = new_adjoints(m, n2);

	if (!g)
		return NULL;
	for (size_t r = 0; r < sizeof roles / sizeof *roles; r++)
		for (int k = 0; k < counts[r]; k++) {
			int of = used_leaf(graph, roles[r], k);

			if (of && of < n)
				seed(m, g, d[of], roles[r], k, CG_GD);
		}
	for (int s = 0; s < cell->n_stages - 1; s++)
		seed(m, g, graph->value[cell->feeds[s]], CG_ROLE_FEED, s, CG_G);
	cg_derive(graph, g, n2, "g");
	return g;
}

/* Adds the adjoint of an upstream gradient as an output of the function: gdh, the adjoint of dh. */
static void upstream_out(struct maker *m, int role, int index, const int *g, int n)
{
	int node = leaf(m, role, index, CG_D);

	out(m, role, index, CG_GD, node < n ? g[node] : 0);
}

/* d, g: the nodes of the adjoints that the first and the second derivation add; n, n2: the number of the graph's nodes before each
 * derivation. */
struct derived { int *d, *g, n, n2; };

static void forward_functions(struct maker *m)
{
	for (int s = 1; s <= m->plan->cell->n_stages; s++)
		if (has_stage(m, s))
			forward(m, s);
}

static void gradient_functions(struct maker *m, const struct derived *a)
{
	const struct cg_cell *cell = m->plan->cell;

	for (int s = cell->n_stages; s >= 1; s--) {
		int feed = s < cell->n_stages ? m->graph->value[cell->feeds[s - 1]] : 0;

		if (!has_stage(m, s))
			continue;
		cut_saved(m);
		/* The gradient of the next stage's weights is a product with the feed, so grad computes a feed again, as an output, unless it is
		 * saved with type real. */
		if (s < cell->n_stages && !is_saved_real(m, feed))
			out(m, CG_ROLE_FEED, s - 1, CG_VALUE, feed);
		adjoints_out(m, s, CG_D, a->d, a->n);
		cg_function_make(m, s, CG_FUNCTION_POINT, "");
		sums(m, s, CG_D, a->d, a->n);
	}
}

static void second_gradient_functions(struct maker *m, const struct derived *a)
{
	const struct cg_cell *cell = m->plan->cell;

	for (int s = 1; s < cell->n_stages; s++)
		if (has_stage(m, s)) {
			cut_saved(m);
			upstream_out(m, CG_ROLE_FEED, s - 1, a->g, a->n2);
			cg_function_make(m, s, CG_FUNCTION_POINT, "_feed");
		}
	for (int s = cell->n_stages; s >= 1; s--) {
		if (!has_stage(m, s))
			continue;
		cut_saved(m);
		for (int k = 0; s == cell->n_stages && k < cell->n_prevs; k++)
			upstream_out(m, CG_ROLE_STATE, k, a->g, a->n2);
		adjoints_out(m, s, CG_G, a->g, a->n2);
		cg_function_make(m, s, CG_FUNCTION_POINT, "");
		sums(m, s, CG_G, a->g, a->n2);
	}
}

static void functions(struct maker *m)
{
	struct cg_graph *graph = m->graph;
	struct derived a = { .n = graph->n };
	int pass = m->plan->pass;

	if (pass != CG_PASS_FORWARD && pass != CG_PASS_SEQ_FORWARD)
		a.d = derive_once(m);
	if (pass == CG_PASS_GRADGRAD && a.d) {
		a.n2 = graph->n;
		a.g = derive_twice(m, a.d, a.n);
	}
	if (m->failed || graph->failed)
		return;
	m->cuts = cg_arena_alloc(&m->plan->memory, ((size_t)graph->capacity + 64) * sizeof *m->cuts);
	m->outs = cg_arena_alloc(&m->plan->memory, ARGUMENTS_MAX * sizeof *m->outs);
	m->plan->functions = cg_arena_alloc(&m->plan->memory, CG_FUNCTIONS_MAX * sizeof *m->plan->functions);
	if (!m->cuts || !m->outs || !m->plan->functions) {
		m->failed = 1;
		return;
	}
	switch (pass) {
	case CG_PASS_FORWARD:
	case CG_PASS_SEQ_FORWARD: forward_functions(m); break;
	case CG_PASS_GRAD:
	case CG_PASS_SEQ_GRAD:    gradient_functions(m, &a); break;
	case CG_PASS_GRADGRAD:    second_gradient_functions(m, &a); break;
	}
}

/* The index of an equation that, itself or in its derivative, has a constant that acc cannot hold, such as 1 / 0; -1: none. */
static int endless(const struct cg_pass_plan *plan)
{
	const struct cg_graph *graph = &plan->graph;
	int narrow = cg_dtypes[plan->dtype].acc != CG_DTYPE_F64;

	for (int k = 1; k < graph->n; k++) {
		const struct cg_node *n = &graph->nodes[k];

		if (n->code == CG_OP_CONST && n->origin >= 0 && !isfinite(narrow ? (double)(float)n->value : (double)n->value))
			return n->origin;
	}
	return -1;
}

/* Makes the plan's functions.  *wrong: the index of an equation with a constant that acc cannot hold, or -1. */
static int make(struct maker *m, int *wrong)
{
	struct cg_pass_plan *plan = m->plan;

	*wrong = -1;
	m->failed = cg_function_key(plan, plan->key, plan->stage, "");
	m->graph = &plan->graph;
	cg_graph_open(m->graph, &plan->memory);
	cg_graph_build(m->graph, plan->cell, plan->options);
	if (m->graph->failed || (*wrong = endless(plan)) >= 0)
		return -1;
	functions(m);
	/* Derivatives add and multiply constants, so a new constant may be too large. */
	if (m->graph->failed || (*wrong = endless(plan)) >= 0)
		return -1;
	return m->failed || plan->memory.failed ? -1 : 0;
}

static void report_failure(const struct cg_pass_plan *plan, int wrong, struct cg_mistake *mistake)
{
	const struct cg_cell *cell = plan->cell;

	if (wrong >= 0)
		snprintf(mistake->text, sizeof mistake->text, "cell %s: a constant of '%s' or of its derivative is outside the range of %s", cell->name,
		         cell->values[wrong].line, cg_real_names[cg_dtypes[plan->dtype].acc]);
	else if (plan->n_functions == CG_FUNCTIONS_MAX)
		snprintf(mistake->text, sizeof mistake->text, "cell %s: pass %s needs more than %d functions for its means over units", cell->name,
		         cg_pass_names[plan->pass], CG_FUNCTIONS_MAX);
	else if (!plan->memory.failed)
		snprintf(mistake->text, sizeof mistake->text, "cell %s: pass %s has more than %d operations and operands", cell->name,
		         cg_pass_names[plan->pass], CG_NODES_MAX);
}

struct cg_pass_plan *cg_plan(const struct cg_cell *cell, int options, int pass, int stage, int dtype, cg_resize *resize,
                             struct cg_mistake *mistake)
{
	struct cg_pass_plan *plan = resize(NULL, sizeof *plan);
	struct maker *m = resize(NULL, sizeof *m);
	int failed = -1, wrong;

	mistake->text[0] = 0;
	if (plan && m) {
		*plan = (struct cg_pass_plan){ .cell = cell, .options = options, .pass = pass, .stage = stage, .dtype = dtype,
		                               .memory.resize = resize };
		memset(m, 0, sizeof *m);
		m->plan = plan;
		failed = make(m, &wrong);
		if (failed) {
			report_failure(plan, wrong, mistake);
			cg_arena_free(&plan->memory);
		}
	}
	if (m)
		resize(m, 0);
	if (plan && failed)
		resize(plan, 0);
	return failed ? NULL : plan;
}

static int has_feed(const struct cg_pass_plan *plan, int feed)
{
	for (int p = 0; p < plan->n_functions; p++)
		for (int k = 0; k < plan->functions[p].n_arguments; k++) {
			const struct cg_argument *a = &plan->functions[p].arguments[k];

			if (a->role == CG_ROLE_FEED && a->index == feed && a->derivative == CG_VALUE)
				return 1;
		}
	return 0;
}

int cg_feed_saved(const struct cg_pass_plan *plan, int feed)
{
	const struct cg_cell *cell = plan->cell;
	const int *value = plan->graph.value;

	if (has_feed(plan, feed))
		return -1;
	for (int k = 0; k < cell->n_saves; k++)
		if (cell->saves[k] == cell->feeds[feed])
			return k;
	for (int k = 0; k < cell->n_saves; k++)
		if (value[cell->saves[k]] == value[cell->feeds[feed]] && cg_function_type(plan, CG_ROLE_SAVED, k, CG_VALUE) == CG_TYPE_REAL)
			return k;
	return -1;
}

void cg_plan_free(struct cg_pass_plan *plan)
{
	if (plan) {
		cg_resize *resize = plan->memory.resize;

		cg_arena_free(&plan->memory);
		resize(plan, 0);
	}
}
