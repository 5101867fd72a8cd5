/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Derives a graph in reverse mode: from the adjoints of some nodes it computes those of all nodes on which these nodes depend.  The
 * adjoints are nodes of the same graph with the same operators, so that the result can be derived again.  slope() writes the
 * derivatives of recip, exp, tanh, sigmoid, relu, expm1 and sqrt by the node's own value, which a cell may save: for s = sigmoid(x) it is
 * s (1 - s).
 */
#include "cell.h"

#include <stdio.h>
#include <string.h>

/* The derivative of abs: the sign of x, 0 at 0. */
static int sign(struct cg_graph *graph, int x)
{
	return cg_add(graph, cg_apply(graph, CG_OP_STEP, x, 0), cg_neg(graph, cg_apply(graph, CG_OP_STEP, cg_neg(graph, x), 0)));
}

/* The share of an operand in max, or in min: 1 or 0, and 1/2 where both operands are equal.
 * The shares of the two operands of a max, or of a min, add up to exactly 1. */
static int share(struct cg_graph *graph, struct cg_node n, int which)
{
	int above = cg_apply(graph, CG_OP_ABOVE, n.a, n.b);

	return which == (n.code == CG_OP_MIN) ? above : cg_add(graph, cg_const(graph, 1), cg_neg(graph, above));
}

/* 2 / sqrt(pi) e^(-x x). */
static int erf_slope(struct cg_graph *graph, int x)
{
	int power = cg_apply(graph, CG_OP_EXP, cg_neg(graph, cg_mul(graph, x, x)), 0);

	return cg_mul(graph, cg_const(graph, 1.12837916709551257389615890312154517L), power);
}

/* The derivative of a node by its operand a (which = 0) or b (which = 1). */
static int slope(struct cg_graph *graph, int node, int which)
{
	struct cg_node n = graph->nodes[node];
	int one = cg_const(graph, 1);

	switch (n.code) {
	case CG_OP_NEG:     return cg_neg(graph, one);
	case CG_OP_ADD:     return one;
	case CG_OP_MUL:     return which ? n.a : n.b;
	case CG_OP_RECIP:   return cg_neg(graph, cg_mul(graph, node, node));
	case CG_OP_EXP:     return node;
	case CG_OP_TANH:    return cg_add(graph, one, cg_neg(graph, cg_mul(graph, node, node)));
	case CG_OP_SIGMOID: return cg_mul(graph, node, cg_add(graph, one, cg_neg(graph, node)));
	case CG_OP_RELU:    return cg_apply(graph, CG_OP_STEP, node, 0);        /* 0 at 0 */
	case CG_OP_STEP:    return 0;
	case CG_OP_CLIP:    return which ? 0 : one;                             /* 1 even where x is clipped, as in TensorFlow */
	case CG_OP_MAX:
	case CG_OP_MIN:     return share(graph, n, which);
	case CG_OP_ABS:     return sign(graph, n.a);
	case CG_OP_ABOVE:   return 0;
	case CG_OP_LOG:     return cg_apply(graph, CG_OP_RECIP, n.a, 0);
	case CG_OP_LOG1P:   return cg_apply(graph, CG_OP_RECIP, cg_add(graph, one, n.a), 0);
	case CG_OP_EXPM1:   return cg_add(graph, node, one);
	case CG_OP_SQRT:    return cg_mul(graph, cg_const(graph, 0.5L), cg_apply(graph, CG_OP_RECIP, node, 0));
	case CG_OP_ERF:     return erf_slope(graph, n.a);
	case CG_OP_SOFTPLUS: return cg_apply(graph, CG_OP_SIGMOID, n.a, 0);
	}
	return 0;
}

/* The part of an operand's adjoint that comes from a node.  A mean over U units has 1 / U of each unit's operand, so the operand's adjoint
 * is the mean of the adjoints of all units. */
static int part_of(struct cg_graph *graph, int node, int which, int adjoint)
{
	if (graph->nodes[node].code == CG_OP_MEAN)
		return cg_apply(graph, CG_OP_MEAN, adjoint, 0);
	return cg_mul(graph, adjoint, slope(graph, node, which));
}

static void name(struct cg_graph *graph, int node, const char *prefix, const char *of)
{
	struct cg_node *n = &graph->nodes[node];
	size_t bytes = strlen(prefix) + strlen(of) + 1;
	char *text;

	if (n->name || n->code == CG_OP_CONST || n->code == CG_OP_LEAF)
		return;
	text = cg_arena_alloc(graph->memory, bytes);
	if (!text) {
		graph->failed = 1;
		return;
	}
	snprintf(text, bytes, "%s%s", prefix, of);
	n->name = text;
}

/* The node of a term without its sign. *minus: was the term's sign minus? */
static int magnitude(const struct cg_graph *graph, int node, int *minus)
{
	*minus = graph->nodes[node].code == CG_OP_NEG;
	return *minus ? graph->nodes[node].a : node;
}

/* The node of a product divided by its factor x: the other factor, or 1 where the product is x itself; -1 where x is no factor of it. */
static int quotient(struct cg_graph *graph, int product, int x)
{
	const struct cg_node *n = &graph->nodes[product];

	if (product == x)
		return cg_const(graph, 1);
	if (n->code != CG_OP_MUL || (n->a != x && n->b != x))
		return -1;
	return n->a == x ? n->b : n->a;
}

/*
 * Adds two parts of an adjoint.  A common factor is factored out, dh - dh u = dh (1 - u): this is one operation less, and it loses no
 * digits where the difference is small.
 */
static int gather(struct cg_graph *graph, int a, int b)
{
	int minus_a, minus_b, x = magnitude(graph, a, &minus_a), y = magnitude(graph, b, &minus_b);
	const int factors[] = { x, graph->nodes[x].code == CG_OP_MUL ? graph->nodes[x].a : x,
	                        graph->nodes[x].code == CG_OP_MUL ? graph->nodes[x].b : x };

	for (int k = 0; a && b && k < 3; k++) {
		int p = quotient(graph, x, factors[k]), q = quotient(graph, y, factors[k]);

		if (p < 0 || q < 0 || graph->nodes[factors[k]].code == CG_OP_CONST)
			continue;
		return cg_mul(graph, factors[k], cg_add(graph, minus_a ? cg_neg(graph, p) : p, minus_b ? cg_neg(graph, q) : q));
	}
	return cg_add(graph, a, b);
}

void cg_derive(struct cg_graph *graph, int *adjoint, int n, const char *prefix)
{
	for (int node = n - 1; node > 0 && !graph->failed; node--) {
		const struct cg_operator *op = &cg_operators[graph->nodes[node].code];
		const char *own = graph->nodes[node].name;

		if (!adjoint[node])
			continue;
		if (graph->nodes[node].code == CG_OP_LEAF && graph->leaves[graph->nodes[node].a].role != CG_ROLE_PARAM)
			own = graph->leaves[graph->nodes[node].a].name;
		if (own && graph->nodes[adjoint[node]].code != CG_OP_NEG)
			name(graph, adjoint[node], prefix, own);
		if (graph->nodes[node].origin >= 0)
			graph->origin = graph->nodes[node].origin;
		for (int which = 0; which < op->arity; which++) {
			int operand = which ? graph->nodes[node].b : graph->nodes[node].a;
			int part;

			if (graph->nodes[operand].code == CG_OP_CONST)
				continue;
			part = part_of(graph, node, which, adjoint[node]);
			adjoint[operand] = gather(graph, adjoint[operand], part);
		}
	}
	graph->origin = -1;
}
