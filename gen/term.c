/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses the expressions of a .cell into terms, as they are written; nothing is simplified here.
 */
#include "parse.h"

#include <stdio.h>
#include <string.h>

/* sum = product {+- product}, product = factor {*  / factor}, factor = number, name, call, (sum), -factor */

static int term(struct parser *p, int code, int a, int b, long double value)
{
	struct cg_cell *cell = p->cell;

	if (cell->n_terms == CG_TERMS_MAX)
		return cg_parse_wrong(p, p->at, "the equations have more than %d operations", CG_TERMS_MAX);
	if (!(cell->n_terms & (cell->n_terms - 1))) {
		int capacity = cell->n_terms ? cell->n_terms * 2 : 1;
		struct cg_term *terms = cg_arena_alloc(&cell->memory, (size_t)capacity * sizeof *terms);

		if (!terms)
			return -1;
		if (cell->n_terms)
			memcpy(terms, cell->terms, (size_t)cell->n_terms * sizeof *terms);
		cell->terms = terms;
	}
	cell->terms[cell->n_terms] = (struct cg_term){ code, a, b, value };
	return cell->n_terms++;
}

/* Enters a parenthesis of an expression.  The caller lowers the parser's `depth` at its closing. */
static int deeper(struct parser *p)
{
	if (++p->depth > CG_DEPTH_MAX)
		return cg_parse_wrong(p, p->at, "parentheses are nested more than %d deep", CG_DEPTH_MAX);
	return 0;
}

/* Functions of other languages that users may try: how to write each in a .cell, or that a .cell cannot have it. */
static const struct { const char *name, *is; } elsewhere[] = {
	{ "max",      "max(a, b) is b + relu(a - b)" },
	{ "min",      "min(a, b) is a - relu(a - b)" },
	{ "abs",      "abs(x) is relu(x) + relu(-x)" },
	{ "silu",     "silu(x) is x * sigmoid(x)" },
	{ "swish",    "swish(x) is x * sigmoid(x)" },
	{ "gelu",     "gelu(x) is nearly x / 2 * (1 + tanh(0.7978846 * (x + 0.044715 * x * x * x)))" },
	{ "elu",      "elu(x) is relu(x) + exp(-relu(-x)) - 1" },
	{ "sign",     "sign(x) is step(x) - step(-x)" },
	{ "clamp",    "clamp(x, -limit, limit) is clip(x, limit)" },
	{ "square",   "square(x) is x * x" },
	{ "pow",      "there are no powers; pow(x, 2) is x * x" },
	{ "sqrt",     "there are no roots" },
	{ "log",      "there is no logarithm" },
	{ "log1p",    "there is no logarithm" },
	{ "softplus", "softplus(x) is log(1 + exp(x)), and there is no logarithm" },
	{ "sin",      "there are no trigonometric functions" },
	{ "cos",      "there are no trigonometric functions" },
};

static const char *name_elsewhere(const char *name)
{
	for (size_t k = 0; k < sizeof elsewhere / sizeof *elsewhere; k++)
		if (!strcmp(elsewhere[k].name, name))
			return elsewhere[k].is;
	return NULL;
}

static int no_function(struct parser *p, const char *position, const char *name)
{
	const char *words[CG_OP_COUNT], *near, *is = name_elsewhere(name);
	char all[120];
	int n = 0;

	for (int code = CG_OP_LEAF + 1; code < CG_OP_COUNT; code++)
		if (cg_operators[code].word)
			words[n++] = cg_operators[code].word;
	cg_list_names(all, sizeof all, words, n, "and");
	near = cg_nearest(name, words, n);
	if (is)
		return cg_parse_wrong(p, position, "there is no function '%s': %s; the functions are %s", name, is, all);
	if (near)
		return cg_parse_wrong(p, position, "there is no function '%s'; did you mean '%s'? The functions are %s", name, near, all);
	return cg_parse_wrong(p, position, "there is no function '%s'; the functions are %s", name, all);
}

static int call(struct parser *p, const char *position, const char *name)
{
	int code = CG_OP_LEAF + 1, a, b = -1;

	while (code < CG_OP_COUNT && (!cg_operators[code].word || strcmp(cg_operators[code].word, name)))
		code++;
	if (code == CG_OP_COUNT)
		return no_function(p, position, name);
	if (deeper(p) || (a = cg_parse_sum(p)) < 0)
		return -1;
	if (cg_operators[code].arity == 2 && (cg_parse_expect(p, ',', "the first argument") || (b = cg_parse_sum(p)) < 0))
		return -1;
	p->depth--;
	if (*p->at == ',')
		return cg_parse_wrong(p, p->at, "'%s' takes %d argument%s", name, cg_operators[code].arity,
		                      cg_operators[code].arity == 1 ? "" : "s");
	p->depth++;
	if (cg_parse_expect(p, ')', "the arguments"))
		return -1;
	p->depth--;
	return term(p, code, a, b, 0);
}

static int factor(struct parser *p)
{
	const char *position;
	char name[CG_NAME_MAX + 1];
	const struct symbol *symbol;
	long double value;
	int a;

	cg_parse_skip(p);
	position = p->at;
	if (*p->at == '-') {
		p->at++;
		if (++p->signs > CG_DEPTH_MAX)
			return cg_parse_wrong(p, position, "signs are nested more than %d deep", CG_DEPTH_MAX);
		a = factor(p);
		p->signs--;
		return a < 0 ? -1 : term(p, CG_OP_NEG, a, -1, 0);
	}
	if (*p->at == '(') {
		p->at++;
		if (deeper(p) || (a = cg_parse_sum(p)) < 0 || cg_parse_expect(p, ')', "the expression"))
			return -1;
		p->depth--;
		return a;
	}
	if (cg_is_digit(*p->at) || *p->at == '.')
		return cg_parse_number(p, &value) ? -1 : term(p, CG_OP_CONST, -1, -1, value);
	if (cg_parse_word(p, name, "a name, a number or '('"))
		return -1;
	cg_parse_skip(p);
	if (*p->at == '(') {
		p->at++;
		return call(p, position, name);
	}
	symbol = cg_parse_find(p, name);
	if (!symbol || symbol->kind == DERIVED)
		return cg_parse_unknown(p, position, name);
	p->used[symbol->kind][symbol->index] = 1;
	return term(p, CG_TERM_SYMBOL, symbol->kind, symbol->index, 0);
}

static int product(struct parser *p)
{
	int a = factor(p);

	for (cg_parse_skip(p); a >= 0 && (*p->at == '*' || *p->at == '/'); cg_parse_skip(p)) {
		int code = *p->at++ == '*' ? CG_OP_MUL : CG_TERM_DIV, b = factor(p);

		a = b < 0 ? -1 : term(p, code, a, b, 0);
	}
	return a;
}

int cg_parse_sum(struct parser *p)
{
	int a = product(p);

	for (cg_parse_skip(p); a >= 0 && (*p->at == '+' || *p->at == '-'); cg_parse_skip(p)) {
		int code = *p->at++ == '+' ? CG_OP_ADD : CG_TERM_SUB, b = product(p);

		a = b < 0 ? -1 : term(p, code, a, b, 0);
	}
	return a;
}
