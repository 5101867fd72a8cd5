/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Builds the nodes of a cell's graph of expressions.  The functions that make nodes simplify, and equal expressions become one node.
 *
 * Each simplification obeys these rules:
 *   1. A simplification makes the expression smaller, or brings it to its one normal form, so that building ends.
 *   2. A simplification changes no value except NaN, infinity times 0 and the sign of a zero: the weights of an option that is off are
 *      0, and their terms must vanish.
 *   3. Sums and products are never reassociated: every backend adds and multiplies in the order that the cell's author wrote.
 *   4. A minus sign is pulled out of products as far as it goes: -a * b becomes -(a * b), and printing writes a + -b as a - b.
 */
#include "cell.h"

#include <string.h>

static int grow(struct cg_graph *graph)
{
	int capacity = graph->capacity ? graph->capacity * 2 : 256;
	struct cg_node *nodes;
	int *table;

	if (capacity > 2 * CG_NODES_MAX)
		return -1;
	nodes = cg_arena_alloc(graph->memory, (size_t)capacity * sizeof *nodes);
	table = cg_arena_alloc(graph->memory, (size_t)capacity * 2 * sizeof *table);
	if (!nodes || !table)
		return -1;
	if (graph->n)
		memcpy(nodes, graph->nodes, (size_t)graph->n * sizeof *nodes);
	graph->nodes = nodes;
	graph->capacity = capacity;
	graph->table = table;
	graph->table_capacity = capacity * 2;
	return 0;
}

static unsigned hash(int code, int a, int b, long double value)
{
	double narrow = (double)value;
	uint64_t bits, h;

	memcpy(&bits, &narrow, sizeof bits);
	h = bits ^ ((uint64_t)(unsigned)code << 58) ^ ((uint64_t)(unsigned)a << 29) ^ (unsigned)b;
	h = (h ^ h >> 31) * 0x9e3779b97f4a7c15u;
	return (unsigned)(h >> 32);
}

/* The slot of a node in the hash table: where the node is, or where a new node is to be put. */
static int *slot(const struct cg_graph *graph, int code, int a, int b, long double value)
{
	unsigned at = hash(code, a, b, value) & (unsigned)(graph->table_capacity - 1);

	for (;; at = (at + 1) & (unsigned)(graph->table_capacity - 1)) {
		const struct cg_node *node = &graph->nodes[graph->table[at]];

		if (!graph->table[at] || (node->code == code && node->a == a && node->b == b && node->value == value))
			return &graph->table[at];
	}
}

static int intern(struct cg_graph *graph, int code, int a, int b, long double value)
{
	int *at;

	if (graph->failed)
		return 0;
	if (graph->n == graph->capacity) {
		if (graph->n >= CG_NODES_MAX || grow(graph)) {
			graph->failed = 1;
			return 0;
		}
		for (int k = 1; k < graph->n; k++) {
			const struct cg_node *node = &graph->nodes[k];

			*slot(graph, node->code, node->a, node->b, node->value) = k;
		}
	}
	at = slot(graph, code, a, b, value);
	if (!*at) {
		graph->nodes[graph->n] = (struct cg_node){ code, a, b, value, graph->origin, NULL };
		*at = graph->n++;
	}
	return *at;
}

void cg_graph_open(struct cg_graph *graph, struct cg_arena *memory)
{
	memset(graph, 0, sizeof *graph);
	graph->memory = memory;
	graph->origin = -1;
	if (grow(graph))
		graph->failed = 1;
	else
		graph->nodes[graph->n++] = (struct cg_node){ CG_OP_CONST, 0, 0, 0, -1, NULL };
}

int cg_const(struct cg_graph *graph, long double value)
{
	return value == 0 ? 0 : intern(graph, CG_OP_CONST, 0, 0, value);
}

int cg_add_leaf(struct cg_graph *graph, const char *name, int role, int index, int derivative)
{
	struct cg_leaf *leaf;
	int node;

	for (int k = 0; k < graph->n_leaves; k++)
		if (graph->leaves[k].role == role && graph->leaves[k].index == index && graph->leaves[k].derivative == derivative)
			return intern(graph, CG_OP_LEAF, k, 0, 0);
	if (graph->n_leaves == graph->leaf_capacity) {
		int capacity = graph->leaf_capacity ? graph->leaf_capacity * 2 : 64;
		struct cg_leaf *leaves = cg_arena_alloc(graph->memory, (size_t)capacity * sizeof *leaves);

		if (!leaves) {
			graph->failed = 1;
			return 0;
		}
		if (graph->n_leaves)
			memcpy(leaves, graph->leaves, (size_t)graph->n_leaves * sizeof *leaves);
		graph->leaves = leaves;
		graph->leaf_capacity = capacity;
	}
	leaf = &graph->leaves[graph->n_leaves];
	*leaf = (struct cg_leaf){ "", role, index, derivative };
	strncpy(leaf->name, name, sizeof leaf->name - 1);
	node = intern(graph, CG_OP_LEAF, graph->n_leaves++, 0, 0);
	return node;
}

static int is(const struct cg_graph *graph, int node, int code)
{
	return graph->nodes[node].code == code;
}

static int is_one(const struct cg_graph *graph, int node)
{
	return is(graph, node, CG_OP_CONST) && graph->nodes[node].value == 1;
}

/* The node of an operation whose two operands may be exchanged: an existing node with the operands in either order, else a new node with
 * them in the given order. */
static int exchangeable(struct cg_graph *graph, int code, int a, int b)
{
	int there = graph->failed ? 0 : *slot(graph, code, b, a, 0);

	return there ? there : intern(graph, code, a, b, 0);
}

int cg_neg(struct cg_graph *graph, int a)
{
	if (is(graph, a, CG_OP_CONST))
		return cg_const(graph, -graph->nodes[a].value);
	if (is(graph, a, CG_OP_NEG))
		return graph->nodes[a].a;
	return intern(graph, CG_OP_NEG, a, 0, 0);
}

int cg_add(struct cg_graph *graph, int a, int b)
{
	if (!a || !b)
		return a ? a : b;
	if (is(graph, a, CG_OP_CONST) && is(graph, b, CG_OP_CONST))
		return cg_const(graph, graph->nodes[a].value + graph->nodes[b].value);
	if (is(graph, a, CG_OP_NEG) && is(graph, b, CG_OP_NEG))
		return cg_neg(graph, cg_add(graph, graph->nodes[a].a, graph->nodes[b].a));
	return exchangeable(graph, CG_OP_ADD, a, b);
}

int cg_mul(struct cg_graph *graph, int a, int b)
{
	if (!a || !b)
		return 0;
	if (is(graph, a, CG_OP_CONST) && is(graph, b, CG_OP_CONST))
		return cg_const(graph, graph->nodes[a].value * graph->nodes[b].value);
	if (is_one(graph, a))
		return b;
	if (is_one(graph, b))
		return a;
	for (int k = 0; k < 2; k++) {
		int x = k ? b : a, y = k ? a : b;

		if (is(graph, x, CG_OP_NEG))
			return cg_neg(graph, k ? cg_mul(graph, y, graph->nodes[x].a) : cg_mul(graph, graph->nodes[x].a, y));
		if (is(graph, x, CG_OP_CONST) && graph->nodes[x].value == -1)
			return cg_neg(graph, y);
	}
	return exchangeable(graph, CG_OP_MUL, a, b);
}

int cg_apply(struct cg_graph *graph, int code, int a, int b)
{
	const struct cg_operator *op = &cg_operators[code];

	switch (code) {
	case CG_OP_NEG: return cg_neg(graph, a);
	case CG_OP_ADD: return cg_add(graph, a, b);
	case CG_OP_MUL: return cg_mul(graph, a, b);
	}
	if (is(graph, a, CG_OP_CONST) && (op->arity == 1 || is(graph, b, CG_OP_CONST)))
		return cg_const(graph, cg_op_value(code, graph->nodes[a].value, graph->nodes[b].value));
	if (code == CG_OP_ABS && is(graph, a, CG_OP_NEG))
		a = graph->nodes[a].a;
	if ((code == CG_OP_RELU || code == CG_OP_STEP || code == CG_OP_ABS) && is(graph, a, code))
		return a;
	if (code == CG_OP_MEAN && is(graph, a, CG_OP_NEG))
		return cg_neg(graph, cg_apply(graph, code, graph->nodes[a].a, 0));
	if (code == CG_OP_MAX || code == CG_OP_MIN)
		return a == b ? a : exchangeable(graph, code, a, b);
	return intern(graph, code, a, op->arity == 2 ? b : 0, 0);
}

/* The graph's node of a term of an equation. node: the nodes of the terms before this one. */
static int build(struct cg_graph *graph, const struct cg_cell *cell, int options, const struct cg_term *t, const int *node)
{
	int a, b;

	switch (t->code) {
	case CG_OP_CONST:
		return cg_const(graph, t->value);
	case CG_TERM_SYMBOL:
		switch (t->a) {
		case CG_SYMBOL_GATE:   return cg_add_leaf(graph, cell->gates[t->b].name, CG_ROLE_GATE, t->b, CG_VALUE);
		case CG_SYMBOL_PREV:   return cg_add_leaf(graph, cell->prevs[t->b].name, CG_ROLE_PREV, t->b, CG_VALUE);
		case CG_SYMBOL_PARAM:  return cg_add_leaf(graph, cell->params[t->b].name, CG_ROLE_PARAM, t->b, CG_VALUE);
		case CG_SYMBOL_VALUE:  return graph->value[t->b];
		case CG_SYMBOL_WEIGHT:
			if (!cg_has_weight(&cell->weights[t->b], options))
				return 0;
			return cg_add_leaf(graph, cell->weights[t->b].name, CG_ROLE_WEIGHT, t->b, CG_VALUE);
		case CG_SYMBOL_SCALAR: return cg_add_leaf(graph, cell->scalars[t->b].name, CG_ROLE_SCALAR, t->b, CG_VALUE);
		}
		return 0;
	}
	a = node[t->a];
	b = t->b >= 0 ? node[t->b] : 0;
	switch (t->code) {
	case CG_TERM_SUB: return cg_add(graph, a, cg_neg(graph, b));
	case CG_TERM_DIV: return cg_mul(graph, a, cg_apply(graph, CG_OP_RECIP, b, 0));
	}
	return cg_apply(graph, t->code, a, b);
}

void cg_graph_build(struct cg_graph *graph, const struct cg_cell *cell, int options)
{
	int *nodes = cg_arena_alloc(graph->memory, (size_t)cell->n_terms * sizeof *nodes), n = 0;

	graph->failed |= !nodes;
	/* A term stands behind its operands in the list, and the terms of an equation behind those of the equation before. */
	for (int k = 0; k < cell->n_values && !graph->failed; k++) {
		struct cg_node *node;

		graph->origin = k;
		for (; n <= cell->values[k].term; n++)
			nodes[n] = build(graph, cell, options, &cell->terms[n], nodes);
		graph->value[k] = nodes[cell->values[k].term];
		node = &graph->nodes[graph->value[k]];
		if (!node->name && node->code != CG_OP_CONST && node->code != CG_OP_LEAF)
			node->name = cell->values[k].name;
	}
	graph->origin = -1;
}
