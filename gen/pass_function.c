/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a function of a pass: its name, its arguments with their types, and the nodes that it computes.
 */
#include "pass.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* The kind of each role's argument, and its type by derivative: a tensor or per-unit vector is acc where a product writes it, else real.
 * cg_function_type() has the exceptions. */
static const struct { signed char kind, type[4]; } memory[] = {
	[CG_ROLE_GATE]   = { CG_KIND_TENSOR,   { CG_TYPE_ACC,  CG_TYPE_REAL, CG_TYPE_REAL, CG_TYPE_ACC } },
	[CG_ROLE_PREV]   = { CG_KIND_TENSOR,   { CG_TYPE_REAL, CG_TYPE_REAL, CG_TYPE_REAL, CG_TYPE_REAL } },
	[CG_ROLE_STATE]  = { CG_KIND_TENSOR,   { CG_TYPE_REAL, CG_TYPE_REAL, CG_TYPE_REAL, CG_TYPE_REAL } },
	[CG_ROLE_OUTPUT] = { CG_KIND_TENSOR,   { CG_TYPE_REAL, CG_TYPE_REAL, CG_TYPE_REAL, CG_TYPE_REAL } },
	[CG_ROLE_SAVED]  = { CG_KIND_TENSOR,   { CG_TYPE_REAL, CG_TYPE_REAL, CG_TYPE_REAL, CG_TYPE_REAL } },
	[CG_ROLE_FEED]   = { CG_KIND_TENSOR,   { CG_TYPE_REAL, CG_TYPE_ACC,  CG_TYPE_ACC,  CG_TYPE_REAL } },
	[CG_ROLE_WEIGHT] = { CG_KIND_PER_UNIT, { CG_TYPE_REAL, CG_TYPE_REAL, CG_TYPE_REAL, CG_TYPE_REAL } },
	[CG_ROLE_BIAS]   = { CG_KIND_PER_UNIT, { CG_TYPE_REAL, CG_TYPE_REAL, CG_TYPE_REAL, CG_TYPE_REAL } },
	[CG_ROLE_SCALAR] = { CG_KIND_ELEMENT,  { CG_TYPE_REAL, CG_TYPE_REAL, CG_TYPE_REAL, CG_TYPE_REAL } },
	[CG_ROLE_MEAN]   = { CG_KIND_MEAN,     { CG_TYPE_ACC,  CG_TYPE_ACC,  CG_TYPE_ACC,  CG_TYPE_ACC } },
	[CG_ROLE_PARAM]  = { CG_KIND_SCALAR,   { CG_TYPE_ACC,  CG_TYPE_ACC,  CG_TYPE_ACC,  CG_TYPE_ACC } },
	[CG_ROLE_ROWS]   = { CG_KIND_COUNT,    { CG_TYPE_I64,  CG_TYPE_I64,  CG_TYPE_I64,  CG_TYPE_I64 } },
	[CG_ROLE_UNITS]  = { CG_KIND_COUNT,    { CG_TYPE_I64,  CG_TYPE_I64,  CG_TYPE_I64,  CG_TYPE_I64 } },
	[CG_ROLE_SCRATCH]    = { CG_KIND_SCRATCH, { CG_TYPE_ACC, CG_TYPE_ACC, CG_TYPE_ACC, CG_TYPE_ACC } },
	[CG_ROLE_ACCUMULATE] = { CG_KIND_COUNT,   { CG_TYPE_I64, CG_TYPE_I64, CG_TYPE_I64, CG_TYPE_I64 } },
	[CG_ROLE_MEANS]      = { CG_KIND_MEANS,   { CG_TYPE_ACC, CG_TYPE_ACC, CG_TYPE_ACC, CG_TYPE_ACC } },
};

static const char *const prefixes[] = { [CG_VALUE] = "", [CG_D] = "d", [CG_G] = "g", [CG_GD] = "gd" };

static const char *own_name(const struct cg_cell *cell, int role, int index)
{
	switch (role) {
	case CG_ROLE_GATE:   return cell->gates[index].name;
	case CG_ROLE_PREV:   return cell->prevs[index].name;
	case CG_ROLE_STATE:  return cell->values[cell->prevs[index].value].name;
	case CG_ROLE_OUTPUT: return cell->values[cell->prevs[index].value].name;
	case CG_ROLE_SAVED:  return cell->values[cell->saves[index]].name;
	case CG_ROLE_FEED:   return cell->values[cell->feeds[index]].name;
	case CG_ROLE_WEIGHT: return cell->weights[index].name;
	case CG_ROLE_SCALAR: return cell->scalars[index].name;
	case CG_ROLE_PARAM:  return cell->params[index].name;
	}
	return cell->gates[index].name;
}

const char *cg_function_argument_name(struct cg_graph *graph, const struct cg_cell *cell, int role, int index, int derivative)
{
	const char *own = own_name(cell, role, index), *bias = "", *end = role == CG_ROLE_OUTPUT ? "_out" : "";
	size_t bytes = strlen(own) + 8;
	char *text = cg_arena_alloc(graph->memory, bytes);

	if (role == CG_ROLE_BIAS) {
		bias = "b_";
		own += strncmp(own, "a_", 2) ? 0 : 2;
	}
	if (!text) {
		graph->failed = 1;
		return "";
	}
	snprintf(text, bytes, "%s%s%s%s", prefixes[derivative], bias, own, end);
	return text;
}

/* Is the value carried unrounded from step to step of a sequence? Of the output h only the adjoint is carried
 * unrounded: h itself is rounded at each step. */
static int is_carried(const struct cg_cell *cell, int role, int index, int derivative)
{
	if (role == CG_ROLE_SAVED)
		for (int k = 0; k < cell->n_prevs; k++)
			if (cell->prevs[k].value == cell->saves[index] && !cell->prevs[k].output)
				return 1;
	return (role == CG_ROLE_PREV || role == CG_ROLE_STATE) && (derivative != CG_VALUE || !cell->prevs[index].output);
}

int cg_function_type(const struct cg_pass_plan *plan, int role, int index, int derivative)
{
	/* The caller of the function adds a matrix product to the adjoint of h_prev and rounds only the sum, so the adjoint stays in acc. */
	if (role == CG_ROLE_PREV && plan->cell->prevs[index].output && (derivative == CG_D || derivative == CG_G))
		return CG_TYPE_ACC;
	if (plan->pass >= CG_PASS_SEQ_FORWARD && is_carried(plan->cell, role, index, derivative))
		return CG_TYPE_ACC;
	return memory[role].type[derivative];
}

struct cg_argument cg_function_argument(struct maker *m, int role, int index, int derivative, int node)
{
	struct cg_argument a = { "", role, index, derivative, memory[role].kind, 0, 0, node, -1 };

	a.type = cg_function_type(m->plan, role, index, derivative);
	a.name = role < CG_ROLE_ROWS && role != CG_ROLE_MEAN ? cg_function_argument_name(m->graph, m->plan->cell, role, index, derivative) : "";
	return a;
}

/* The order of a function's inputs: by role, then derivative, then index. */
static int before(const struct cg_argument *a, const struct cg_argument *b)
{
	if (a->role != b->role)
		return a->role < b->role;
	if (a->derivative != b->derivative)
		return a->derivative < b->derivative;
	return a->index < b->index;
}

int cg_function_key(const struct cg_pass_plan *plan, char key[CG_KEY_MAX], int stage, const char *suffix)
{
	const struct cg_cell *cell = plan->cell;
	int n = snprintf(key, CG_KEY_MAX, "cg_%s", cell->name);

	for (int k = 0; k < cell->n_options; k++)
		if (plan->options >> k & 1 && n < CG_KEY_MAX)
			n += snprintf(key + n, CG_KEY_MAX - (size_t)n, "_%s", cell->options[k].name);
	if (cell->n_stages > 1 && stage && n < CG_KEY_MAX)
		n += snprintf(key + n, CG_KEY_MAX - (size_t)n, "_s%d", stage);
	if (n < CG_KEY_MAX)
		n += snprintf(key + n, CG_KEY_MAX - (size_t)n, "_%s_%s%s", cg_real_names[plan->dtype], cg_pass_names[plan->pass],
		              suffix);
	return n < CG_KEY_MAX ? 0 : -1;
}

/* Is the value of the node in memory when a function runs, as a cut or a leaf? */
static int is_in_memory(const struct maker *m, int node)
{
	return m->cuts[node].name || m->graph->nodes[node].code == CG_OP_LEAF;
}

/* Is the value of the node in memory when a function runs?  If the value is in memory, *a becomes the argument
 * that loads the value. */
static int is_loaded(struct maker *m, int node, struct cg_argument *a)
{
	const struct cg_node *n = &m->graph->nodes[node];
	const struct cut *c = &m->cuts[node];

	if (!is_in_memory(m, node))
		return 0;
	if (c->name) {
		*a = cg_function_argument(m, c->role, c->index, c->derivative, node);
		a->name = c->name;
	} else {
		const struct cg_leaf *l = &m->graph->leaves[n->a];

		*a = cg_function_argument(m, l->role, l->index, l->derivative, node);
	}
	return 1;
}

static void append(struct cg_function *p, const struct cg_argument *list, int n)
{
	memcpy(p->arguments + p->n_arguments, list, (size_t)n * sizeof *list);
	p->n_arguments += n;
}

static void append_named(struct maker *m, struct cg_function *p, int role, const char *name, int is_out)
{
	struct cg_argument a = cg_function_argument(m, role, 0, 0, 0);

	a.name = name;
	a.out = is_out;
	append(p, &a, 1);
}

/* Inserts an argument in order among those from `first` on. */
static void insert(struct cg_function *p, int first, struct cg_argument a)
{
	int at = p->n_arguments++;

	for (; at > first && before(&a, &p->arguments[at - 1]); at--)
		p->arguments[at] = p->arguments[at - 1];
	p->arguments[at] = a;
}

enum { COMPUTED = 1, LOADED };

/* Finds the inputs from which the outputs are computed, and the nodes between them.  For a function that computes means the nodes end at
 * the operands of the means. */
static void trace(struct maker *m, struct cg_function *p, unsigned char *nodes)
{
	const struct cg_graph *graph = m->graph;
	int first = p->n_arguments;
	struct cg_argument a;

	for (int k = 0; k < m->n_outs; k++)
		nodes[p->shape == CG_FUNCTION_MEAN ? graph->nodes[m->outs[k].node].a : m->outs[k].node] = COMPUTED;
	for (int k = graph->n - 1; k > 0; k--) {
		if (!nodes[k] || graph->nodes[k].code == CG_OP_CONST)
			continue;
		if (is_loaded(m, k, &a)) {
			nodes[k] = LOADED;
			insert(p, first, a);
		} else {
			nodes[graph->nodes[k].a] = nodes[graph->nodes[k].b] = COMPUTED;
		}
	}
	for (int k = 1; k < graph->n; k++)
		if (nodes[k] == COMPUTED && graph->nodes[k].code != CG_OP_CONST)
			p->schedule[p->n_schedule++] = k;
}

/* Does the function store the output `a` of the collected outputs?  Of the two sums, one stores the gradients of biases and weights, the
 * other those of scalars. */
static int stores(const struct cg_function *p, const struct cg_argument *a)
{
	int is_element = a->kind == CG_KIND_ELEMENT;

	return p->shape == CG_FUNCTION_SUM ? !is_element : p->shape == CG_FUNCTION_SUM_UNITS ? is_element : 1;
}

/* Appends the outputs to a function's arguments, but before the params, which are the last inputs because of their role. */
static void append_outs(struct maker *m, struct cg_function *p)
{
	struct cg_argument scalars[CG_PARAMS_MAX];
	int n = 0;

	while (p->arguments[p->n_arguments - 1 - n].kind == CG_KIND_SCALAR)
		n++;
	p->n_arguments -= n;
	memcpy(scalars, p->arguments + p->n_arguments, (size_t)n * sizeof *scalars);
	for (int k = 0; k < m->n_outs; k++)
		if (stores(p, &m->outs[k]))
			append(p, &m->outs[k], 1);
	append(p, scalars, n);
}

/* Collects a function's arguments and its schedule. */
static void collect(struct maker *m, struct cg_function *p, unsigned char *nodes)
{
	append_named(m, p, CG_ROLE_ROWS, "rows", 0);
	append_named(m, p, CG_ROLE_UNITS, "units", 0);
	if (p->means)
		append_named(m, p, CG_ROLE_MEANS, "acc_means", 0);
	if (!cg_is_sum(p))
		trace(m, p, nodes);
	if (cg_has_partial(p)) {
		append_named(m, p, CG_ROLE_SCRATCH, "partial", !cg_is_sum(p));
		p->sum_values = m->n_outs;
	}
	append_outs(m, p);
	if (cg_is_sum(p))
		append_named(m, p, CG_ROLE_ACCUMULATE, "accumulate", 0);
}

/* Copies a collected list into the plan's memory. */
static void *keep(struct maker *m, const void *list, int n, size_t bytes)
{
	void *own = cg_arena_alloc(&m->plan->memory, (size_t)n * bytes + 1);

	m->failed |= !own;
	return own ? memcpy(own, list, (size_t)n * bytes) : NULL;
}

/* Makes one function.  serves: for a function that computes means, the shape of the function that reads these means, else the function's
 * own shape; means: the number of means of a row in memory. */
static void make(struct maker *m, int stage, int shape, int serves, int means, const char *suffix)
{
	struct cg_pass_plan *plan = m->plan;
	struct cg_graph *graph = m->graph;
	struct cg_function *p = &plan->functions[plan->n_functions];
	struct cg_arena memory = { plan->memory.resize, NULL, 0 };
	size_t most = (size_t)(graph->n_leaves + m->n_cuts + m->n_outs + 5);
	unsigned char *nodes = cg_arena_alloc(&memory, (size_t)graph->n);

	if (plan->n_functions < CG_FUNCTIONS_MAX) {
		*p = (struct cg_function){ .stage = stage, .shape = shape, .serves = serves, .means = means };
		p->arguments = cg_arena_alloc(&memory, most * sizeof *p->arguments);
		p->schedule = cg_arena_alloc(&memory, (size_t)graph->n * sizeof *p->schedule);
		m->failed |= graph->failed || !nodes || !p->arguments || !p->schedule || cg_function_key(plan, p->key, stage, suffix);
		if (!m->failed) {
			collect(m, p, nodes);
			p->arguments = keep(m, p->arguments, p->n_arguments, sizeof *p->arguments);
			p->schedule = keep(m, p->schedule, p->n_schedule, sizeof *p->schedule);
			plan->n_functions++;
		}
		m->failed |= graph->failed || (!m->failed && !cg_is_sum(p) && cg_assign_registers(plan, p));
	} else {
		m->failed = 1;
	}
	plan->memory.failed |= memory.failed;
	cg_arena_free(&memory);
}

/* ---- means ---- */

/* The level of each node whose value the function needs: the most means on a path from an input to the node, the node included; 0 for a
 * constant or a loaded node.  The level of any other node is -1.  Returns the highest level, or -1 where memory is exhausted. */
static int find_levels(struct maker *m, signed char **levels)
{
	const struct cg_graph *graph = m->graph;
	signed char *level = cg_arena_alloc(&m->plan->memory, (size_t)graph->n);
	int most = 0;

	if (!level)
		return -1;
	memset(level, -1, (size_t)graph->n);
	for (int k = 0; k < m->n_outs; k++)
		level[m->outs[k].node] = 0;
	for (int k = graph->n - 1; k > 0; k--)
		if (!level[k] && graph->nodes[k].code != CG_OP_CONST && !is_in_memory(m, k))
			level[graph->nodes[k].a] = level[graph->nodes[k].b] = 0;
	for (int k = 1; k < graph->n; k++) {
		const struct cg_node *n = &graph->nodes[k];

		if (level[k] || n->code == CG_OP_CONST || is_in_memory(m, k))
			continue;
		level[k] = level[n->a] > level[n->b] ? level[n->a] : level[n->b];
		level[k] = (signed char)(level[k] + (n->code == CG_OP_MEAN && level[k] < SCHAR_MAX));
		most = level[k] > most ? level[k] : most;
	}
	*levels = level;
	return most;
}

/* The name of the variable that has a mean: that of the equation whose value the mean is; if there is none, acc_mean and a number. */
static const char *name_mean(struct maker *m, int node, int place)
{
	const struct cg_node *n = &m->graph->nodes[node];
	char *name;

	if (n->name && n->origin >= 0 && !strcmp(n->name, m->plan->cell->values[n->origin].name))
		return n->name;
	name = cg_arena_alloc(&m->plan->memory, sizeof "acc_mean" + 12);
	m->failed |= !name;
	if (name)
		sprintf(name, "acc_mean%d", place + 1);
	return name ? name : "";
}

/* Makes a function of the means collected in the list of outputs, and cuts the graph at these means.  number: the number of this
 * function among those that compute means, from 1 on. */
static void make_mean_function(struct maker *m, int stage, int serves, int means, const char *suffix, int number)
{
	char end[32];

	snprintf(end, sizeof end, "%s_mean%d", suffix, number);
	make(m, stage, CG_FUNCTION_MEAN, serves, means, end);
	for (int k = 0; k < m->n_outs; k++)
		m->cuts[m->outs[k].node] = (struct cut){ m->outs[k].name, CG_ROLE_MEAN, m->outs[k].index, CG_VALUE };
	m->n_cuts += m->n_outs;
	m->n_outs = 0;
}

static int is_mean(const struct maker *m, const signed char *level, int node)
{
	return level[node] > 0 && m->graph->nodes[node].code == CG_OP_MEAN && !m->cuts[node].name;
}

/* Makes, for the outputs collected so far, the functions of their means, level by level; each computes at most CG_MEANS_AT_ONCE means,
 * whose lanes a GPU's group and a thread's stack have room for.  Returns the number of means; *functions: the number of functions made. */
static int make_means(struct maker *m, int stage, int serves, const char *suffix, int *functions)
{
	struct cg_argument *outs = m->outs, list[CG_MEANS_AT_ONCE];
	int n_outs = m->n_outs, n = 0, place = 0, most;
	signed char *level;

	*functions = 0;
	most = find_levels(m, &level);
	m->failed |= most < 0;
	for (int k = 1; most > 0 && k < m->graph->n; k++)
		n += is_mean(m, level, k);
	m->outs = list;
	m->n_outs = 0;
	for (int at = 1; at <= most && !m->failed; at++) {
		for (int k = 1; k < m->graph->n && !m->failed; k++) {
			if (level[k] != at || !is_mean(m, level, k))
				continue;
			list[m->n_outs] = cg_function_argument(m, CG_ROLE_MEAN, place, CG_VALUE, k);
			list[m->n_outs].name = name_mean(m, k, place++);
			list[m->n_outs++].out = 1;
			if (m->n_outs == CG_MEANS_AT_ONCE)
				make_mean_function(m, stage, serves, n, suffix, ++*functions);
		}
		if (m->n_outs && !m->failed)
			make_mean_function(m, stage, serves, n, suffix, ++*functions);
	}
	m->outs = outs;
	m->n_outs = n_outs;
	return n;
}

/* Removes the cuts at means, so that later functions do not load these means: each function has functions of its own for its means. */
static void join_means(struct maker *m)
{
	for (int k = 1; k < m->graph->n; k++)
		if (m->cuts[k].role == CG_ROLE_MEAN && m->cuts[k].name) {
			m->cuts[k] = (struct cut){ NULL, 0, 0, 0 };
			m->n_cuts--;
		}
}

void cg_function_make(struct maker *m, int stage, int shape, const char *suffix)
{
	int computes = shape == CG_FUNCTION_POINT || shape == CG_FUNCTION_SUM_PART, functions = 0;
	int means = computes ? make_means(m, stage, shape, suffix, &functions) : 0;

	if (m->failed)
		return;
	make(m, stage, shape, shape, means, suffix);
	if (!m->failed)
		m->plan->functions[m->plan->n_functions - 1].mean_functions = functions;
	if (means)
		join_means(m);
	if (shape == CG_FUNCTION_POINT)
		m->n_outs = 0;
}
