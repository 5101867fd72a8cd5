/*
 * Words, names and expressions of a .cell, or the first mistake with its place, what was expected, and the nearest name.  The
 * language is described in README.md beside this file; lines are parse.c's.  Nothing is simplified here: terms are kept as
 * they were written.
 */
#include "parse.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Inside a letter that is more than one byte; and what a terminal might obey. */
static int inside(char c)
{
	return (c & 0xc0) == 0x80;
}

static int control(unsigned char c)
{
	return c < ' ' || c == 0x7f;
}

int cg_parse_wrong(struct parser *p, const char *place, const char *format, ...)
{
	char words[320], quoted[121], pad[121];
	const char *line = place;
	int number = p->number, length, n = 0;
	va_list list;

	va_start(list, format);
	vsnprintf(words, sizeof words, format, list);
	va_end(list);
	if (p->mistake->text[0])
		return -1;
	/* Inside parentheses lines go on: the place may be above the line that was reached. */
	while (line > p->text && line[-1] != '\n')
		line--;
	for (const char *s = line; s < p->line; s++)
		number -= *s == '\n';
	for (int k = 0; k < place - line && k < 110; k++)
		if (!inside(line[k]))
			pad[n++] = line[k] == '\t' ? '\t' : ' ';
	pad[n] = 0;
	length = (int)strcspn(line, "\r\n");
	for (n = 0; n < length && n < 120; n++)
		quoted[n] = control(line[n]) && line[n] != '\t' ? '?' : line[n];
	while (n < length && n && inside(line[n]))
		n--;
	quoted[n] = 0;
	snprintf(p->mistake->text, sizeof p->mistake->text, "%s:%d:%d: %s\n%s\n%s^", p->name, number, (int)(place - line) + 1,
	         words, quoted, pad);
	return -1;
}

int cg_parse_expected(struct parser *p, const char *what)
{
	int n = 1;

	if (!*p->at || *p->at == '\n')
		return cg_parse_wrong(p, p->at, "expected %s", what);
	if (!strncmp(p->at, "\xef\xbb\xbf", 3))
		return cg_parse_wrong(p, p->at, "expected %s, got a byte order mark: save the file as UTF-8 without one", what);
	if (control(*p->at))
		return cg_parse_wrong(p, p->at, "expected %s, got a byte 0x%02x", what, (unsigned)*p->at);
	while (n < 4 && inside(p->at[n]))
		n++;
	return cg_parse_wrong(p, p->at, "expected %s, got '%.*s'", what, n, p->at);
}

void cg_parse_skip(struct parser *p)
{
	for (;;) {
		while (*p->at == ' ' || *p->at == '\t' || *p->at == '\r')
			p->at++;
		if (*p->at == '#')
			p->at += strcspn(p->at, "\n");
		if (*p->at != '\n' || !p->depth)
			return;
		p->at++;                          /* inside parentheses a line may go on */
		p->line = p->at;
		p->number++;
	}
}

static int letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static int digit(char c)
{
	return c >= '0' && c <= '9';
}

int cg_parse_word(struct parser *p, char name[CG_NAME_MAX + 1], const char *what)
{
	size_t n = 0;

	cg_parse_skip(p);
	if (!letter(*p->at))
		return cg_parse_expected(p, what);
	while (letter(p->at[n]) || digit(p->at[n]) || p->at[n] == '_')
		n++;
	if (n > CG_NAME_MAX)
		return cg_parse_wrong(p, p->at, "a name has at most %d letters, this one %d", CG_NAME_MAX, n < 9999 ? (int)n : 9999);
	memcpy(name, p->at, n);
	name[n] = 0;
	p->at += n;
	return 0;
}

int cg_parse_line_end(struct parser *p)
{
	cg_parse_skip(p);
	return !*p->at || *p->at == '\n';
}

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
	char *text = cg_arena_take(&p->cell->memory, bytes);

	if (text)
		snprintf(text, bytes, "%s%s", prefix, name);
	return text;
}

int cg_parse_enter(struct parser *p, const char *place, const char *name, int kind, int index)
{
	const struct symbol *there = cg_parse_find(p, name);

	if (there)
		return cg_parse_wrong(p, place, there->kind == DERIVED ? "'%s' is a name that derivatives take; choose another"
		                                              : "'%s' is declared already", name);
	if (p->n_symbols == SYMBOLS_MAX)
		return cg_parse_wrong(p, place, "a cell has at most %d names", SYMBOLS_MAX / 4);
	p->symbols[p->n_symbols].name = copy(p, "", name);
	p->symbols[p->n_symbols].place = place;
	p->symbols[p->n_symbols].kind = kind;
	p->symbols[p->n_symbols].index = index;
	return p->symbols[p->n_symbols++].name ? 0 : -1;
}

/* Macros are written in capitals, and the dialects have many; complex.h has I. */
static int capitals(const char *name)
{
	return !strpbrk(name, "abcdefghijklmnopqrstuvwxyz");
}

static const char *const prefixes[] = { "d", "g", "gd" };

int cg_parse_argument(struct parser *p, const char *place, const char *name)
{
	for (size_t k = 0; k < sizeof prefixes / sizeof *prefixes; k++) {
		char derived[CG_NAME_MAX + 3];

		snprintf(derived, sizeof derived, "%s%s", prefixes[k], name);
		if (cg_is_reserved(derived))
			return cg_parse_wrong(p, place, "'%s' has the adjoint '%s', a word that kernels need; choose another name", name,
			                      derived);
	}
	return 0;
}

static int used_form(struct parser *p, const char *place, const char *name)
{
	return cg_parse_wrong(p, place, "'%s' is of a form that kernels use; choose another name", name);
}

int cg_parse_free_word(struct parser *p, const char *place, const char *name)
{
	if (cg_is_reserved(name))
		return cg_parse_wrong(p, place, "'%s' is a word that kernels need; choose another name", name);
	if (name[strlen(name) - 1] == '_' || strstr(name, "__"))
		return used_form(p, place, name);
	return 0;
}

static int begins(const char *name, const char *with)
{
	return !strncmp(name, with, strlen(with));
}

/* With something before it: "at" alone is a name like any other. */
static int ends(const char *name, const char *with)
{
	size_t n = strlen(name), m = strlen(with);

	return n > m && !strcmp(name + n - m, with);
}

/* A form of which kernels make names of their own. */
static int is_used_form(const char *name)
{
	static const char *const beginnings[] = { "cg_", "cl_", "acc_", "sum_", "no_" };
	static const char *const endings[] = { "_all", "_at", "_stride", "_offset", "_run", "_out" };
	int used = capitals(name) || (name[0] == 't' && digit(name[1]));

	for (size_t k = 0; k < sizeof beginnings / sizeof *beginnings; k++)
		used |= begins(name, beginnings[k]);
	for (size_t k = 0; k < sizeof endings / sizeof *endings; k++)
		used |= ends(name, endings[k]);
	return used;
}

/* Declares a name and the names of its adjoints. */
int cg_parse_declare(struct parser *p, const char *place, const char *name, int kind, int index)
{
	if (cg_parse_free_word(p, place, name))
		return -1;
	if (is_used_form(name))
		return used_form(p, place, name);
	if ((kind == CG_SYMBOL_GATE || kind == CG_SYMBOL_WEIGHT) && cg_parse_argument(p, place, name))
		return -1;
	if (cg_parse_enter(p, place, name, kind, index))
		return -1;
	for (size_t k = 0; k < sizeof prefixes / sizeof *prefixes; k++) {
		char *derived = copy(p, prefixes[k], name);

		if (!derived || cg_parse_enter(p, place, derived, DERIVED, 0))
			return -1;
	}
	return 0;
}

/* ---- expressions: sum = product {+- product}, product = factor {*  / factor}, factor = number, name, call, (sum), -factor */

static int term(struct parser *p, int code, int a, int b, long double value)
{
	struct cg_cell *cell = p->cell;

	if (cell->n_terms == CG_TERMS_MAX)
		return cg_parse_wrong(p, p->at, "the equations have more than %d operations", CG_TERMS_MAX);
	if (!(cell->n_terms & (cell->n_terms - 1))) {
		int room = cell->n_terms ? cell->n_terms * 2 : 1;
		struct cg_term *terms = cg_arena_take(&cell->memory, (size_t)room * sizeof *terms);

		if (!terms)
			return -1;
		if (cell->n_terms)
			memcpy(terms, cell->terms, (size_t)cell->n_terms * sizeof *terms);
		cell->terms = terms;
	}
	cell->terms[cell->n_terms] = (struct cg_term){ code, a, b, value };
	return cell->n_terms++;
}

int cg_parse_number(struct parser *p, long double *value)
{
	const char *start = p->at;
	long double v = 0;
	int scale = 0, digits = 0, exponent = 0, minus = 0;

	for (; digit(*p->at); p->at++, digits++)
		v = v * 10 + (*p->at - '0');
	if (*p->at == '.')
		for (p->at++; digit(*p->at); p->at++, digits++, scale--)
			v = v * 10 + (*p->at - '0');
	if (!digits)
		return cg_parse_wrong(p, start, "expected a number");
	if (*p->at == 'e' || *p->at == 'E') {
		p->at++;
		if (*p->at == '-' || *p->at == '+')
			minus = *p->at++ == '-';
		if (!digit(*p->at))
			return cg_parse_wrong(p, p->at, "expected the digits of an exponent");
		for (; digit(*p->at); p->at++)
			exponent = exponent < 10000 ? exponent * 10 + (*p->at - '0') : exponent;
	}
	if (letter(*p->at) || *p->at == '_' || *p->at == '.')
		return cg_parse_wrong(p, p->at, "expected an operator after the number");
	scale += minus ? -exponent : exponent;
	v = scale < 0 ? v / powl(10, -scale) : v * powl(10, scale);
	if (digits > 40 || !(v < 1e38L))
		return cg_parse_wrong(p, start, "a number has at most 40 digits and is below 1e38");
	*value = v;
	return 0;
}

int cg_parse_expect(struct parser *p, char c, const char *after)
{
	cg_parse_skip(p);
	if (*p->at != c)
		return cg_parse_wrong(p, p->at, "expected '%c' after %s", c, after);
	p->at++;
	return 0;
}

/* Sets up for what is in parentheses; the caller lowers depth again. */
static int deeper(struct parser *p)
{
	if (++p->depth > CG_DEPTH_MAX)
		return cg_parse_wrong(p, p->at, "parentheses are nested more than %d deep", CG_DEPTH_MAX);
	return 0;
}

/* What other languages have, said in this one's words, or why it cannot be. */
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
	{ "sin",      "there is none of the angle's functions" },
	{ "cos",      "there is none of the angle's functions" },
};

static const char *said_elsewhere(const char *name)
{
	for (size_t k = 0; k < sizeof elsewhere / sizeof *elsewhere; k++)
		if (!strcmp(elsewhere[k].name, name))
			return elsewhere[k].is;
	return NULL;
}

static int no_function(struct parser *p, const char *place, const char *name)
{
	const char *words[CG_OP_COUNT], *near, *is = said_elsewhere(name);
	char all[120] = "";
	int n = 0;

	for (int code = CG_OP_LEAF + 1; code < CG_OP_COUNT; code++)
		if (cg_operators[code].word)
			words[n++] = cg_operators[code].word;
	for (int k = 0; k < n; k++)
		snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", k == 0 ? "" : k < n - 1 ? ", " : " and ", words[k]);
	near = cg_nearest(name, words, n);
	if (is)
		return cg_parse_wrong(p, place, "there is no function '%s': %s; the functions are %s", name, is, all);
	if (near)
		return cg_parse_wrong(p, place, "there is no function '%s'; did you mean '%s'? The functions are %s", name, near, all);
	return cg_parse_wrong(p, place, "there is no function '%s'; the functions are %s", name, all);
}

static int call(struct parser *p, const char *place, const char *name)
{
	int code = CG_OP_LEAF + 1, a, b = -1;

	while (code < CG_OP_COUNT && (!cg_operators[code].word || strcmp(cg_operators[code].word, name)))
		code++;
	if (code == CG_OP_COUNT)
		return no_function(p, place, name);
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

int cg_parse_unknown(struct parser *p, const char *place, const char *name)
{
	const char *names[SYMBOLS_MAX], *near;
	int n = 0;

	for (int code = CG_OP_LEAF + 1; code < CG_OP_COUNT; code++)
		if (cg_operators[code].word && !strcmp(cg_operators[code].word, name))
			return cg_parse_wrong(p, place, "'%s' is a function: expected '(' after it", name);
	for (int k = 0; k < p->n_symbols; k++)
		if (p->symbols[k].kind != DERIVED)
			names[n++] = p->symbols[k].name;
	near = cg_nearest(name, names, n);
	return cg_parse_wrong(p, place, near ? "'%s' is not known here; did you mean '%s'?"
	                            : "'%s' is not known here: a name is declared, or given by an equation above", name, near);
}

static int factor(struct parser *p)
{
	const char *place;
	char name[CG_NAME_MAX + 1];
	const struct symbol *symbol;
	long double value;
	int a;

	cg_parse_skip(p);
	place = p->at;
	if (*p->at == '-') {
		p->at++;
		if (++p->signs > CG_DEPTH_MAX)
			return cg_parse_wrong(p, place, "signs are nested more than %d deep", CG_DEPTH_MAX);
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
	if (digit(*p->at) || *p->at == '.')
		return cg_parse_number(p, &value) ? -1 : term(p, CG_OP_CONST, -1, -1, value);
	if (cg_parse_word(p, name, "a name, a number or '('"))
		return -1;
	cg_parse_skip(p);
	if (*p->at == '(') {
		p->at++;
		return call(p, place, name);
	}
	symbol = cg_parse_find(p, name);
	if (!symbol || symbol->kind == DERIVED)
		return cg_parse_unknown(p, place, name);
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
