/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks and records the names of a .cell, with the derived names of their adjoints, and finds the name that is nearest to an unknown
 * one.
 */
#include "parse.h"

#include <stdio.h>
#include <string.h>

const char *const cg_symbol_kinds[DERIVED] = {
	[CG_SYMBOL_GATE] = "a gate", [CG_SYMBOL_PREV] = "a value of the step before", [CG_SYMBOL_WEIGHT] = "a per-unit weight",
	[CG_SYMBOL_SCALAR] = "a scalar", [CG_SYMBOL_PARAM] = "a param", [CG_SYMBOL_VALUE] = "the value of an equation",
};

const struct symbol *cg_parse_find(const struct parser *p, const char *name)
{
	for (int k = 0; k < p->n_symbols; k++)
		if (!strcmp(p->symbols[k].name, name))
			return &p->symbols[k];
	return NULL;
}

static char *copy(struct parser *p, const char *prefix, const char *name)
{
	size_t bytes = strlen(prefix) + strlen(name) + 1;
	char *text = cg_arena_alloc(&p->cell->memory, bytes);

	if (text)
		snprintf(text, bytes, "%s%s", prefix, name);
	return text;
}

/* Reports that a name, which may be derived from another one, is the name of something else. */
static int taken(struct parser *p, const char *position, const char *name, int kind, int index, const struct symbol *there)
{
	const char *derived = *name == 'b' ? "bias" : "adjoint";

	if (kind == DERIVED)
		return cg_parse_wrong(p, position, "'%s' would have the %s '%s', a name that is already used; choose another name",
		                      p->symbols[index].name, derived, name);
	if (there->kind == DERIVED)
		return cg_parse_wrong(p, position, "'%s' is the %s of '%s'; choose another name", name, derived, p->symbols[there->index].name);
	return cg_parse_wrong(p, position, "'%s' is declared already", name);
}

int cg_parse_enter(struct parser *p, const char *position, const char *name, int kind, int index)
{
	const struct symbol *there = cg_parse_find(p, name);

	if (there)
		return taken(p, position, name, kind, index, there);
	if (p->n_symbols == SYMBOLS_MAX)
		return cg_parse_wrong(p, position, "a cell has at most %d names", SYMBOLS_MAX / 4);
	p->symbols[p->n_symbols].name = copy(p, "", name);
	p->symbols[p->n_symbols].position = position;
	p->symbols[p->n_symbols].kind = kind;
	p->symbols[p->n_symbols].index = index;
	return p->symbols[p->n_symbols++].name ? 0 : -1;
}

/* Has a name no small letter? A name without small letters may be a macro of a dialect, as I is in complex.h. */
static int capitals(const char *name)
{
	return !strpbrk(name, "abcdefghijklmnopqrstuvwxyz");
}

static const char *const prefixes[] = { "d", "g", "gd" };

int cg_parse_argument(struct parser *p, const char *position, const char *name)
{
	for (size_t k = 0; k < sizeof prefixes / sizeof *prefixes; k++) {
		char derived[CG_NAME_MAX + 3];

		snprintf(derived, sizeof derived, "%s%s", prefixes[k], name);
		if (cg_find_reserved(derived))
			return cg_parse_wrong(p, position, "'%s' has the adjoint '%s', a reserved word of %s; choose another name", name,
			                      derived, cg_find_reserved(derived));
	}
	return 0;
}

static int used_form(struct parser *p, const char *position, const char *name)
{
	return cg_parse_wrong(p, position, "'%s' has a form that macros, C++ or kernels use for their own names; choose another name", name);
}

int cg_parse_free_word(struct parser *p, const char *position, const char *name)
{
	if (cg_find_reserved(name))
		return cg_parse_wrong(p, position, "'%s' is a reserved word of %s; choose another name", name, cg_find_reserved(name));
	if (name[strlen(name) - 1] == '_' || strstr(name, "__"))
		return used_form(p, position, name);
	return 0;
}

static int begins(const char *name, const char *with)
{
	return !strncmp(name, with, strlen(with));
}

/* Does the name end in `with`, with something before that? The name "at" does not end in "_at". */
static int ends(const char *name, const char *with)
{
	size_t n = strlen(name), m = strlen(with);

	return n > m && !strcmp(name + n - m, with);
}

/* Has the name a form of macros, or one that kernels use for names of their own? */
static int is_used_form(const char *name)
{
	static const char *const beginnings[] = { "cg_", "cl_", "acc_", "sum_", "no_" };
	static const char *const endings[] = { "_all", "_at", "_stride", "_offset", "_run", "_out" };
	int used = capitals(name) || (name[0] == 't' && cg_is_digit(name[1]));

	for (size_t k = 0; k < sizeof beginnings / sizeof *beginnings; k++)
		used |= begins(name, beginnings[k]);
	for (size_t k = 0; k < sizeof endings / sizeof *endings; k++)
		used |= ends(name, endings[k]);
	return used;
}

/* Declares a name of the cell, and with it the derived names of its adjoints. */
int cg_parse_declare(struct parser *p, const char *position, const char *name, int kind, int index)
{
	int own = p->n_symbols;

	if (cg_parse_free_word(p, position, name))
		return -1;
	if (is_used_form(name))
		return used_form(p, position, name);
	if ((kind == CG_SYMBOL_GATE || kind == CG_SYMBOL_WEIGHT || kind == CG_SYMBOL_SCALAR) && cg_parse_argument(p, position, name))
		return -1;
	if (cg_parse_enter(p, position, name, kind, index))
		return -1;
	for (size_t k = 0; k < sizeof prefixes / sizeof *prefixes; k++) {
		char *derived = copy(p, prefixes[k], name);

		if (!derived || cg_parse_enter(p, position, derived, DERIVED, own))
			return -1;
	}
	return 0;
}

/* The symbol NAME, if the unknown name is NAME_prev: no state and not the output, since their NAME_prev is known.  NULL: there is none. */
static const struct symbol *find_before(const struct parser *p, const char *name)
{
	char own[CG_NAME_MAX + 1];

	if (!ends(name, "_prev"))
		return NULL;
	snprintf(own, sizeof own, "%.*s", (int)(strlen(name) - strlen("_prev")), name);
	return cg_parse_find(p, own);
}

int cg_parse_unknown(struct parser *p, const char *position, const char *name)
{
	const char *names[SYMBOLS_MAX], *near;
	const struct symbol *before = find_before(p, name);
	int n = 0;

	if (cg_form_find(name) || cg_operator_find(name) < CG_OP_COUNT)
		return cg_parse_wrong(p, position, "'%s' is a function: expected '(' after it", name);
	if (before && before->kind != DERIVED)
		return cg_parse_wrong(p, position,
		                      "'%s' is not known here: '%s' is %s, and only states and the output have a value before the step",
		                      name, before->name, cg_symbol_kinds[before->kind]);
	for (int k = 0; k < p->cell->n_prevs; k++) {
		const char *prev = p->cell->prevs[k].name;

		if (strlen(prev) == strlen(name) + strlen("_prev") && !strncmp(prev, name, strlen(name)))
			return cg_parse_wrong(p, position, "'%s' is not computed yet; its value before the step is '%s'", name, prev);
	}
	for (int k = 0; k < p->n_symbols; k++)
		if (p->symbols[k].kind != DERIVED)
			names[n++] = p->symbols[k].name;
	near = cg_nearest(name, names, n);
	if (!near && !strcmp(name, "x"))
		return cg_parse_wrong(p, position, "'x' is not known here: equations read the input by gates, whose products with it are computed before");
	return cg_parse_wrong(p, position, near ? "'%s' is not known here; did you mean '%s'?"
	                            : "'%s' is not known here: expected a declared name, or one that an equation above computes", name, near);
}
