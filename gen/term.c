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
		return cg_parse_wrong(p, p->at, "the equations have more than %d operations and operands", CG_TERMS_MAX);
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

/* Enters a parenthesis of an expression.  The caller lowers the parser's `depth` at the closing parenthesis. */
static int deeper(struct parser *p)
{
	if (++p->depth > CG_DEPTH_MAX)
		return cg_parse_wrong(p, p->at, "parentheses are nested more than %d deep", CG_DEPTH_MAX);
	return 0;
}

/* Functions of other languages that users may try: how to write each in a .cell, or that a .cell cannot have it. */
static const struct { const char *name, *is; } elsewhere[] = {
	{ "maximum",  "maximum(a, b) is max(a, b)" },
	{ "minimum",  "minimum(a, b) is min(a, b)" },
	{ "swish",    "swish(x) is silu(x)" },
	{ "log_sigmoid", "log_sigmoid(x) is -softplus(-x)" },
	{ "logsigmoid", "logsigmoid(x) is -softplus(-x)" },
	{ "leaky_relu", "leaky_relu(x, s) is max(x, s * x), for s below 1" },
	{ "elu",      "elu(x) is relu(x) + exp(-relu(-x)) - 1" },
	{ "sign",     "sign(x) is step(x) - step(-x)" },
	{ "clamp",    "clamp(x, low, high) is min(max(x, low), high)" },
	{ "square",   "square(x) is x * x" },
	{ "pow",      "there are no powers; pow(x, 2) is x * x" },
	{ "ln",       "ln(x) is log(x)" },
	{ "rsqrt",    "rsqrt(x) is 1 / sqrt(x)" },
	{ "average",  "average(x) is mean(x)" },
	{ "var",      "var(x) is mean((x - m) * (x - m)), for m = mean(x)" },
	{ "variance", "variance(x) is mean((x - m) * (x - m)), for m = mean(x)" },
	{ "sum",      "mean(x) is the mean over the units of a row, and there is no sum" },
	{ "erfc",     "erfc(x) is 1 - erf(x)" },
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
	const char *words[CG_FUNCTION_NAMES_MAX], *near, *is = name_elsewhere(name);
	char all[200];
	int n = cg_function_names(words);

	cg_list_names(all, sizeof all, words, n, "and");
	near = cg_nearest(name, words, n);
	if (is)
		return cg_parse_wrong(p, position, "there is no function '%s': %s; the functions are %s", name, is, all);
	if (near)
		return cg_parse_wrong(p, position, "there is no function '%s'; did you mean '%s'? The functions are %s", name, near, all);
	return cg_parse_wrong(p, position, "there is no function '%s'; the functions are %s", name, all);
}

/* Parses the expression of a form.  The terms of the form's arguments exist already and are shared, so that the terms of nested
 * forms do not multiply. */
static int expand(struct parser *p, const char *position, const struct cg_form *form, int a, int b)
{
	const struct expansion outer = p->form;
	const char *after = p->at;
	int depth = p->depth, signs = p->signs, whole;

	p->form = (struct expansion){ outer.position ? outer.position : position, { a, b } };
	p->at = form->is;
	p->depth = p->signs = 0;
	whole = cg_parse_sum(p);
	p->form = outer;
	p->at = after;
	p->depth = depth;
	p->signs = signs;
	return whole;
}

static int call(struct parser *p, const char *position, const char *name)
{
	const struct cg_form *form = cg_form_find(name);
	int code = cg_operator_find(name), arity, a, b = -1;

	if (!form && code == CG_OP_COUNT)
		return no_function(p, position, name);
	arity = form ? form->arity : cg_operators[code].arity;
	if (deeper(p) || (a = cg_parse_sum(p)) < 0)
		return -1;
	if (arity == 2 && (cg_parse_expect(p, ',', "the first argument") || (b = cg_parse_sum(p)) < 0))
		return -1;
	p->depth--;
	if (*p->at == ',')
		return cg_parse_wrong(p, p->at, "'%s' takes %d argument%s", name, arity, arity == 1 ? "" : "s");
	p->depth++;
	if (cg_parse_expect(p, ')', "the arguments"))
		return -1;
	p->depth--;
	if (form && form->is)
		return expand(p, position, form, a, b);
	return term(p, form ? form->code : code, a, b, 0);
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
			return cg_parse_wrong(p, position, "minus signs are nested more than %d deep", CG_DEPTH_MAX);
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
	if (p->form.position)
		return p->form.arguments[*name - 'x'];
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
		int code = CG_TERM_DIV, b;

		if (!strncmp(p->at, "**", 2))
			return cg_parse_wrong(p, p->at, "there are no powers; x ** 2 is x * x");
		if (*p->at++ == '*')
			code = CG_OP_MUL;
		b = factor(p);
		a = b < 0 ? -1 : term(p, code, a, b, 0);
	}
	if (a >= 0 && *p->at == '^')
		return cg_parse_wrong(p, p->at, "there are no powers; x^2 is x * x");
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
