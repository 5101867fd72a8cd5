/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assigns the registers in which strip.c interprets a function.  A register holds a strip of values, and is used again once no later
 * operation reads the value in it, so that the registers of most functions fit in a processor's first-level cache.  The interpreter loads
 * each input, but for params and scalars, just before the first operation that reads it.
 */
#include "pass.h"

#include <limits.h>
#include <string.h>

struct assigner {
	const struct cg_graph *graph;
	struct cg_function *function;
	int *place, *last, *argument;            /* by node: the register, or -1; the last operation that reads it; the argument that loads it */
	int *unused, n_unused;                   /* registers that are free again */
	unsigned char *is_even;                  /* by node: its value is the same for all units of a row */
};

static int take(struct assigner *s)
{
	return s->n_unused ? s->unused[--s->n_unused] : s->function->registers++;
}

static int add(struct assigner *s, int code, int node, int a, int b)
{
	s->function->operations[s->function->n_operations++] = (struct cg_operation){ code, s->place[node], a, b, s->is_even[node] };
	return s->place[node];
}

/* The register of a node that an operation reads, after the load of the node if it is an input that has no register yet. */
static int read(struct assigner *s, int node)
{
	if (s->place[node] >= 0)
		return s->place[node];
	s->place[node] = take(s);
	return add(s, CG_OP_LEAF, node, s->argument[node], 0);
}

static void drop(struct assigner *s, int node, int at)
{
	if (s->last[node] == at && s->place[node] >= 0) {
		s->unused[s->n_unused++] = s->place[node];
		s->last[node] = INT_MAX;
	}
}

/* The node whose values an output takes: those of which it is the mean, or its own. */
static int node_of(const struct assigner *s, const struct cg_argument *a)
{
	return a->kind == CG_KIND_MEAN && a->out ? s->graph->nodes[a->node].a : a->node;
}

static int is_one_number(const struct cg_argument *a)
{
	return a->kind == CG_KIND_SCALAR || a->kind == CG_KIND_ELEMENT;
}

static int is_read(const struct cg_argument *a)
{
	return !a->out && (cg_is_array(a) || a->kind == CG_KIND_SCALAR || a->kind == CG_KIND_MEAN);
}

static int is_result(const struct cg_argument *a)
{
	return a->out && a->kind != CG_KIND_SCRATCH;
}

/* Finds for each node the last operation that reads it: INT_MAX for outputs, constants, params and scalars, which keep their registers. */
static void find_last(struct assigner *s)
{
	const struct cg_function *p = s->function;

	for (int k = 0; k < p->n_schedule; k++) {
		const struct cg_node *n = &s->graph->nodes[p->schedule[k]];

		s->last[n->a] = k;
		if (cg_operators[n->code].arity == 2)
			s->last[n->b] = k;
	}
	for (int k = 0; k < s->graph->n; k++)
		if (s->graph->nodes[k].code == CG_OP_CONST) {
			s->last[k] = INT_MAX;
			s->is_even[k] = 1;
		}
	for (int k = 0; k < p->n_arguments; k++) {
		const struct cg_argument *a = &p->arguments[k];

		if (is_read(a)) {
			s->argument[a->node] = k;
			s->is_even[a->node] = is_one_number(a) || a->kind == CG_KIND_MEAN;
		}
		if (is_result(a))
			s->last[node_of(s, a)] = INT_MAX;
		else if (is_read(a) && is_one_number(a))
			s->last[a->node] = INT_MAX;
	}
}

static void keep_constant(struct assigner *s, int node)
{
	if (s->graph->nodes[node].code != CG_OP_CONST || s->place[node] >= 0)
		return;
	s->place[node] = take(s);
	add(s, CG_OP_CONST, node, node, 0);
}

/* Assigns registers to constants and to arguments that are one number, which are set once for all strips. */
static void assign_fixed(struct assigner *s)
{
	struct cg_function *p = s->function;

	for (int k = 0; k < p->n_schedule; k++) {
		const struct cg_node *n = &s->graph->nodes[p->schedule[k]];

		keep_constant(s, n->a);
		if (cg_operators[n->code].arity == 2)
			keep_constant(s, n->b);
	}
	for (int k = 0; k < p->n_arguments; k++)
		if (is_result(&p->arguments[k]))
			keep_constant(s, node_of(s, &p->arguments[k]));
		else if (is_read(&p->arguments[k]) && is_one_number(&p->arguments[k]))
			read(s, p->arguments[k].node);
	p->n_fixed = p->n_operations;
}

static void assign(struct assigner *s)
{
	struct cg_function *p = s->function;

	find_last(s);
	assign_fixed(s);
	for (int k = 0; k < p->n_schedule; k++) {
		int id = p->schedule[k];
		const struct cg_node *n = &s->graph->nodes[id];
		int two = cg_operators[n->code].arity == 2, a = read(s, n->a), b = two ? read(s, n->b) : a;

		/* The result's register is none of the operands'. */
		s->place[id] = take(s);
		s->is_even[id] = s->is_even[n->a] && (!two || s->is_even[n->b]);
		add(s, n->code, id, a, b);
		drop(s, n->a, k);
		if (two)
			drop(s, n->b, k);
	}
	for (int k = 0; k < p->n_arguments; k++)
		if (is_result(&p->arguments[k]))
			p->arguments[k].place = read(s, node_of(s, &p->arguments[k]));
}

int cg_assign_registers(struct cg_pass_plan *plan, struct cg_function *p)
{
	const size_t n = (size_t)plan->graph.n;
	struct assigner s = { .graph = &plan->graph, .function = p };
	struct cg_arena memory = { plan->memory.resize, NULL, 0 };
	size_t most = (size_t)(p->n_schedule + p->n_arguments);
	int failed;

	for (size_t k = 0; k < n; k++)
		most += plan->graph.nodes[k].code == CG_OP_CONST;
	p->operations = cg_arena_alloc(&plan->memory, most * sizeof *p->operations);
	s.place = cg_arena_alloc(&memory, 4 * n * sizeof *s.place);
	s.is_even = cg_arena_alloc(&memory, n);
	failed = !p->operations || !s.place || !s.is_even;
	if (!failed) {
		s.last = s.place + n;
		s.argument = s.last + n;
		s.unused = s.argument + n;
		memset(s.place, -1, n * sizeof *s.place);
		memset(s.last, -1, n * sizeof *s.last);
		assign(&s);
	}
	plan->memory.failed |= memory.failed;
	cg_arena_free(&memory);
	return failed ? -1 : 0;
}
