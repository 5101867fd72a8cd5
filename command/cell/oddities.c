/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds what is legal in a cell's text, but odd: a saved value that no gradient loads, a weight that the cell has only with an option that
 * is off.  Also odd are a split gate whose name is nearly that of a gate's recurrent part, and an exp that may be too large for f16.
 */
#include "command/cell/oddities.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "command/cell/pass_facts.h"

/* The largest f16. */
static const double f16_most = 65504;

struct oddities {
	const struct cg_cell *cell;
	int options;
	void (*tell)(void *user, const char *sentence);
	void *user;
};

static void tell(const struct oddities *o, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void tell(const struct oddities *o, const char *format, ...)
{
	char text[256];
	va_list list;

	va_start(list, format);
	vsnprintf(text, sizeof text, format, list);
	va_end(list);
	o->tell(o->user, text);
}

static int has_two(const struct cg_term *t)
{
	return t->code >= CG_OP_COUNT || cg_operators[t->code].arity > 1;
}

static int is_operand(const struct cg_term *t)
{
	return t->code == CG_TERM_SYMBOL || t->code == CG_OP_CONST;
}

/* ---- saved values that no gradient loads ---- */

/* Is the value a state or the output, or the operand of a product?  Forward stores a state, the output and an operand of a product even if
 * no gradient loads the value. */
static int is_kept(const struct cg_cell *cell, int value)
{
	for (int k = 0; k < cell->n_stages - 1; k++)
		if (cell->feeds[k] == value)
			return 1;
	return cg_find_prev(cell, value) >= 0;
}

/* Finds what a pass of the cell loads; if the cell does not have the pass, finds nothing. */
static int find_loads(const struct oddities *o, int pass, struct pass_facts *f)
{
	int code = pass_facts_open(f, o->cell, o->options, pass, CG_DTYPE_F64);

	return code == CG_BAD_ARGUMENT ? CG_OK : code;
}

static int is_stored(const struct cg_cell *cell, int value)
{
	for (int k = 0; k < cell->n_saves; k++)
		if (cell->saves[k] == value)
			return 1;
	return is_kept(cell, value);
}

static int find_idle(const struct oddities *o)
{
	const struct cg_cell *cell = o->cell;
	struct pass_facts grad = { .plan = NULL }, gradgrad = { .plan = NULL };
	int code = find_loads(o, CG_PASS_GRAD, &grad);

	if (!code)
		code = find_loads(o, CG_PASS_GRADGRAD, &gradgrad);
	for (int k = 0; !code && k < cell->n_saves; k++) {
		const char *name = cell->values[cell->saves[k]].name;

		if (!is_kept(cell, cell->saves[k]) && !fact_names_have(&grad.loads, name) && !fact_names_have(&gradgrad.loads, name))
			tell(o, "no gradient loads '%s', which forward saves", name);
	}
	pass_facts_close(&gradgrad);
	pass_facts_close(&grad);
	return code;
}

/* ---- bounds ---- */

/* Bounds of a term for all numbers that gates, states, weights, scalars and params without a default may have. */
struct range { double low, high; };

/* The most terms that one comparison of two terms visits, since values that are nested in a cell's text may have very many terms. */
enum { LOOKS = 1000 };

static int same_term(const struct cg_cell *cell, int a, int b, int *looks)
{
	const struct cg_term *x = &cell->terms[a], *y = &cell->terms[b];

	if (a == b)
		return 1;
	if (x->code != y->code || --*looks < 0)
		return 0;
	if (x->code == CG_TERM_SYMBOL)
		return x->a == y->a && x->b == y->b;
	if (x->code == CG_OP_CONST)
		return x->value == y->value;
	return same_term(cell, x->a, y->a, looks) && (!has_two(x) || same_term(cell, x->b, y->b, looks));
}

/* Is b the largest of several terms, of which a is one?  If a is one of several terms and b the largest of them, a - b is at most 0. */
static int is_largest(const struct cg_cell *cell, int a, int b, int *looks)
{
	const struct cg_term *t = &cell->terms[b];

	if (same_term(cell, a, b, looks))
		return 1;
	if (--*looks < 0)
		return 0;
	if (t->code == CG_TERM_SYMBOL)
		return t->a == CG_SYMBOL_VALUE && is_largest(cell, a, cell->values[t->b].term, looks);
	return t->code == CG_OP_MAX && (is_largest(cell, a, t->a, looks) || is_largest(cell, a, t->b, looks));
}

/* A product of bounds; 0 times infinity is 0. */
static double times(double a, double b)
{
	return a == 0 || b == 0 ? 0 : a * b;
}

static struct range range_of_product(struct range a, struct range b)
{
	double p = times(a.low, b.low), q = times(a.low, b.high), r = times(a.high, b.low), s = times(a.high, b.high);

	return (struct range){ fmin(fmin(p, q), fmin(r, s)), fmax(fmax(p, q), fmax(r, s)) };
}

static struct range square_of(struct range a)
{
	double p = a.low * a.low, q = a.high * a.high;

	return (struct range){ a.low <= 0 && a.high >= 0 ? 0 : fmin(p, q), fmax(p, q) };
}

/* The range of 1 / a; without bounds if a may be 0. */
static struct range range_of_reciprocal(struct range a)
{
	return a.low > 0 || a.high < 0 ? (struct range){ 1 / a.high, 1 / a.low } : (struct range){ -INFINITY, INFINITY };
}

static struct range range_of_symbol(const struct cg_cell *cell, const struct cg_term *t, const struct range *range)
{
	if (t->a == CG_SYMBOL_VALUE)
		return range[cell->values[t->b].term];
	if (t->a == CG_SYMBOL_PARAM && cell->params[t->b].given)
		return (struct range){ cell->params[t->b].value, cell->params[t->b].value };
	return (struct range){ -INFINITY, INFINITY };
}

/* Is the term x / (k + |x|) with a k of 1 or more? */
static int is_softsign(const struct cg_cell *cell, const struct cg_term *t, int *looks)
{
	const struct cg_term *sum = &cell->terms[t->b];

	if (sum->code != CG_OP_ADD || cell->terms[sum->a].code != CG_OP_CONST || cell->terms[sum->a].value < 1)
		return 0;
	return cell->terms[sum->b].code == CG_OP_ABS && same_term(cell, t->a, cell->terms[sum->b].a, looks);
}

/* The range of a term, from those of the terms before it. */
static struct range range_of(const struct cg_cell *cell, int term, const struct range *range)
{
	const struct cg_term *t = &cell->terms[term];
	struct range a, b = { 0, 0 };
	int looks = LOOKS;

	if (t->code == CG_TERM_SYMBOL)
		return range_of_symbol(cell, t, range);
	if (t->code == CG_OP_CONST)
		return (struct range){ (double)t->value, (double)t->value };
	a = range[t->a];
	if (has_two(t))
		b = range[t->b];
	switch (t->code) {
	case CG_OP_NEG:     return (struct range){ -a.high, -a.low };
	case CG_OP_ADD:     return (struct range){ a.low + b.low, a.high + b.high };
	case CG_TERM_SUB:   return (struct range){ a.low - b.high, is_largest(cell, t->a, t->b, &looks) ? 0 : a.high - b.low };
	case CG_OP_MUL:     return same_term(cell, t->a, t->b, &looks) ? square_of(a) : range_of_product(a, b);
	case CG_TERM_DIV:   return is_softsign(cell, t, &looks) ? (struct range){ -1, 1 } : range_of_product(a, range_of_reciprocal(b));
	case CG_OP_RECIP:   return range_of_reciprocal(a);
	case CG_OP_CLIP:    return b.low > 0 && b.low == b.high ? (struct range){ fmax(a.low, -b.low), fmin(a.high, b.low) } : a;
	case CG_OP_LOG:     return (struct range){ log(fmax(a.low, 0)), log(fmax(a.high, 0)) };
	case CG_OP_LOG1P:   return (struct range){ log1p(fmax(a.low, -1)), log1p(fmax(a.high, -1)) };
	case CG_OP_SOFTPLUS: return (struct range){ fmax(a.low, 0) + log1p(exp(-fabs(a.low))), fmax(a.high, 0) + log1p(exp(-fabs(a.high))) };
	case CG_OP_TANH:
	case CG_OP_ERF:     return (struct range){ -1, 1 };
	case CG_OP_SIGMOID:
	case CG_OP_STEP:    return (struct range){ 0, 1 };
	case CG_OP_RELU:    return (struct range){ fmax(a.low, 0), fmax(a.high, 0) };
	case CG_OP_ABS:     return (struct range){ a.low > 0 ? a.low : a.high < 0 ? -a.high : 0, fmax(fabs(a.low), fabs(a.high)) };
	case CG_OP_MAX:     return (struct range){ fmax(a.low, b.low), fmax(a.high, b.high) };
	case CG_OP_MIN:     return (struct range){ fmin(a.low, b.low), fmin(a.high, b.high) };
	case CG_OP_EXP:     return (struct range){ exp(a.low), exp(a.high) };
	case CG_OP_EXPM1:   return (struct range){ expm1(a.low), expm1(a.high) };
	case CG_OP_SQRT:    return (struct range){ sqrt(fmax(a.low, 0)), sqrt(fmax(a.high, 0)) };
	default:            return (struct range){ -INFINITY, INFINITY };
	}
}

/* Finds stored values in which an exp or expm1 may be larger than f16_most and no operation on the exp or expm1 bounds the result. In
 * cell->terms a term stands behind its operands, and an equation behind the equations whose values it reads. */
static int find_large(const struct oddities *o)
{
	const struct cg_cell *cell = o->cell;
	struct range *range = cg_memory(NULL, (size_t)cell->n_terms * sizeof *range);
	unsigned char *is_large = cg_memory(NULL, (size_t)cell->n_terms);

	for (int k = 0; k < cell->n_terms && range && is_large; k++) {
		const struct cg_term *t = &cell->terms[k];
		int is_bounded;

		range[k] = range_of(cell, k, range);
		is_bounded = range[k].low >= -f16_most && range[k].high <= f16_most;
		if (t->code == CG_TERM_SYMBOL)
			is_large[k] = t->a == CG_SYMBOL_VALUE && is_large[cell->values[t->b].term];
		else
			is_large[k] = !is_operand(t) && !is_bounded && (t->code == CG_OP_EXP || t->code == CG_OP_EXPM1 || is_large[t->a] ||
			              (has_two(t) && is_large[t->b]));
	}
	for (int k = 0; k < cell->n_values && range && is_large; k++)
		if (is_large[cell->values[k].term] && is_stored(cell, k))
			tell(o, "'%s' has an exp, and its equation shows no bound below %g, the largest f16", cell->values[k].name, f16_most);
	cg_memory(range, 0);
	cg_memory(is_large, 0);
	return range && is_large ? CG_OK : CG_NO_MEMORY;
}

/* ---- split gates ---- */

static const char *end_of(const char *name)
{
	const char *end = strchr(name, '_');

	return end ? end + 1 : name;
}

/* A split gate is the recurrent part of a gate of the same stage that has x W and h R if both names are equal from the first `_` on.
 * Returns the name of the gate whose name ends nearly as the split gate's name does; NULL: there is none, or the split gate is a recurrent
 * part. */
static const char *near_partner(const struct cg_cell *cell, const struct cg_gate *gate)
{
	const char *ends[CG_GATES_MAX] = { NULL }, *found;
	int n = 0, of[CG_GATES_MAX];

	if (!gate->split || gate->whole >= 0)
		return NULL;
	for (int k = 0; k < cell->n_gates; k++)
		if (!cell->gates[k].split && cell->gates[k].stage == gate->stage && cell->gates[k].parts & 1 << CG_PART_R) {
			of[n] = k;
			ends[n++] = end_of(cell->gates[k].name);
		}
	found = cg_nearest(end_of(gate->name), ends, n);
	for (int k = 0; k < n; k++)
		if (ends[k] == found)
			return cell->gates[of[k]].name;
	return NULL;
}

static void find_apart(const struct oddities *o)
{
	for (int k = 0; k < o->cell->n_gates; k++) {
		const char *near = near_partner(o->cell, &o->cell->gates[k]);

		if (near)
			tell(o, "split gate '%s' is a gate of its own; the recurrent part of '%s' would have a name that ends in '_%s'",
			     o->cell->gates[k].name, near, end_of(near));
	}
}

/* ---- weights ---- */

static void find_optional(const struct oddities *o)
{
	for (int k = 0; k < o->cell->n_weights; k++) {
		int option = o->cell->weights[k].option;

		if (option >= 0 && !(o->options >> option & 1))
			tell(o, "the cell has weight '%s' only with option '%s', which is off", o->cell->weights[k].name,
			     o->cell->options[option].name);
	}
}

int oddities_find(const struct cg_cell *cell, int options, void (*say)(void *user, const char *sentence), void *user)
{
	const struct oddities o = { cell, options, say, user };

	find_apart(&o);
	find_optional(&o);
	CG_TRY(find_idle(&o));
	return find_large(&o);
}
