/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints nodes of the graph as expressions: signs where the dialects have them, else calls.  Parentheses stand around an operand that binds
 * less tightly than the operator, and around a negative constant within a product.
 */
#include "print.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { SUM, PRODUCT, SIGN, PRIMARY };

static void number(const struct printer *p, struct cg_text *text, long double value)
{
	int narrow = cg_dtypes[p->plan->dtype].acc != CG_DTYPE_F64;
	double v = narrow ? (double)(float)value : (double)value;
	char digits[40];

	if (v == floor(v) && fabs(v) < 1e6 && !(v == 0 && signbit(v))) {
		snprintf(digits, sizeof digits, "%.0f", v);
	} else {
		for (int n = 1; n <= 17; n++) {
			snprintf(digits, sizeof digits, "%.*g", n, v);
			/* A constant gets the fewest digits that read back as the same number; printing and reading use the same locale here. */
			double back = 0;
			if (sscanf(digits, "%lf", &back) == 1 && (narrow ? (float)back == (float)v : back == v))
				break;
		}
		for (char *c = digits; *c; c++)
			if (!strchr("0123456789+-e", *c))
				*c = '.';
		if (!strpbrk(digits, ".e"))
			strcat(digits, ".0");
		if (narrow)
			strcat(digits, "f");
	}
	cg_text_put(text, digits);
}

static void put(const struct printer *p, struct cg_text *text, int id, int above, int own);

static void constant(const struct printer *p, struct cg_text *text, long double value, int above)
{
	int parted = value < 0 && above > SUM;

	cg_text_put(text, parted ? "(" : "");
	number(p, text, value);
	cg_text_put(text, parted ? ")" : "");
}

static void call(const struct printer *p, struct cg_text *text, const struct cg_node *node)
{
	const struct cg_operator *op = &cg_operators[node->code];

	cg_text_printf(text, "acc_%s(", op->section);
	put(p, text, node->a, SUM, 0);
	if (op->arity == 2) {
		cg_text_put(text, ", ");
		put(p, text, node->b, SUM, 0);
	}
	cg_text_put(text, ")");
}

/* Prints a sum. Sums group to the left, as in C, so the right operand must bind tighter. */
static void sum(const struct printer *p, struct cg_text *text, int a, int b)
{
	const struct cg_node *nodes = p->plan->graph.nodes;

	if (!p->name[a] && nodes[a].code == CG_OP_NEG) {
		int swap = a;

		a = b;
		b = swap;
	}
	put(p, text, a, SUM, 0);
	if (!p->name[b] && nodes[b].code == CG_OP_NEG) {
		cg_text_put(text, " - ");
		put(p, text, nodes[b].a, PRODUCT, 0);
	} else if (nodes[b].code == CG_OP_CONST && nodes[b].value < 0) {
		cg_text_put(text, " - ");
		number(p, text, -nodes[b].value);
	} else {
		cg_text_put(text, " + ");
		put(p, text, b, PRODUCT, 0);
	}
}

static void signs(const struct printer *p, struct cg_text *text, const struct cg_node *node)
{
	switch (node->code) {
	case CG_OP_ADD:
		sum(p, text, node->a, node->b);
		return;
	case CG_OP_MUL:
		put(p, text, node->a, PRODUCT, 0);
		cg_text_put(text, " * ");
		put(p, text, node->b, SIGN, 0);
		return;
	default:
		cg_text_put(text, "-");
		put(p, text, node->a, PRIMARY, 0);
	}
}

/* Prints a node's expression. above: how tightly the expression around it binds. */
static void put(const struct printer *p, struct cg_text *text, int id, int above, int own)
{
	static const int levels[CG_OP_COUNT] = { [CG_OP_ADD] = SUM, [CG_OP_MUL] = PRODUCT, [CG_OP_NEG] = SIGN };
	const struct cg_node *node = &p->plan->graph.nodes[id];

	if (!own && p->name[id]) {
		cg_text_put(text, p->name[id]);
	} else if (node->code == CG_OP_CONST) {
		constant(p, text, node->value, above);
	} else if (cg_operators[node->code].section) {
		call(p, text, node);
	} else {
		cg_text_put(text, levels[node->code] < above ? "(" : "");
		signs(p, text, node);
		cg_text_put(text, levels[node->code] < above ? ")" : "");
	}
}

void cg_print_expression(const struct printer *p, struct cg_text *text, int node, int own)
{
	put(p, text, node, SUM, own);
}
