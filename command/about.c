/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes an op from its row in the op table: shapes, needs, the origin of arguments, values of attributes. describe.c and
 * describe_json.c print the result. This file names no op.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "command/about.h"

const char *about_name(const struct about *a, const struct cg_op *row)
{
	return a->theirs ? row->tensorflow : row->name;
}

int about_shows(const struct about *a, int extra)
{
	return !(extra && a->theirs);
}

/* ---- words in a list ---- */

void about_add(char list[ABOUT_LIST], const char *between, const char *format, ...)
{
	size_t n = strlen(list);
	va_list arguments;

	snprintf(list + n, ABOUT_LIST - n, "%s", n ? between : "");
	n = strlen(list);
	va_start(arguments, format);
	vsnprintf(list + n, ABOUT_LIST - n, format, arguments);
	va_end(arguments);
}

/* Does a list of words that blanks separate contain this word? */
static int has_word(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *at = list; (at = strstr(at, word)); at += n)
		if ((at == list || at[-1] == ' ') && strchr(" ", at[n]))
			return 1;
	return 0;
}

/* ---- shapes ---- */

const char *about_shape(const struct about *a, const struct cg_port *p, char list[ABOUT_LIST])
{
	char text[CG_SHAPE_TEXT];
	size_t n = 0;

	if (p->flags & CG_LIST)
		return "below";
	list[n++] = '[';
	for (const char *at = cg_op_shape_text(a->row, p, a->op, text); *at && n < ABOUT_LIST - 3; at++) {
		if (*at == ' ')
			list[n++] = ',';
		list[n++] = *at;
	}
	strcpy(list + n, "]");
	return list;
}

const struct cg_attribute *about_order(const struct about *a)
{
	for (const struct cg_attribute *t = a->row->attributes; t->name && a->row->time_major_at; t++)
		if (t->at == a->row->time_major_at)
			return t;
	return NULL;
}

const char *about_turned(const struct about *a, const struct cg_port *p, char list[ABOUT_LIST])
{
	const struct cg_attribute *order = about_order(a);
	double was = cg_attribute_number(order, a->op);

	cg_attribute_set(order, a->op, 0);
	about_shape(a, p, list);
	cg_attribute_set(order, a->op, was);
	return list;
}

/* Is the symbol of a size a term of the shape, as "U" is of "I+U 4*U" but not of "L*U"? Sets *times to 1 if the term has a number as
 * factor, such as 4. */
static int names(const char *shape, const char *symbol, int *times)
{
	size_t n = strlen(symbol);

	while (*shape) {
		size_t factor = strspn(shape, "0123456789"), length;

		shape += factor ? factor + 1 : 0;
		length = strcspn(shape, " +");
		if (length == n && !strncmp(shape, symbol, n)) {
			*times |= factor > 0;
			return 1;
		}
		shape += length + (shape[length] != '\0');
	}
	return 0;
}

int about_uses(const struct about *a, const char *symbol)
{
	int used = 0, times = 0;

	for (const struct cg_port *p = a->row->ports; p->name; p++)
		if (about_shows(a, p->extra))         /* field `about` of a list's port describes the shapes of its tensors */

			used |= names(p->shape, symbol, &times) || (p->flags & CG_LIST && strstr(p->about, symbol));
	return used;
}

int about_multiples(const struct about *a)
{
	int times = 0;

	for (const struct cg_port *p = a->row->ports; p->name; p++)
		for (const struct cg_dim *d = a->row->dims; d->symbol; d++)
			names(p->shape, d->symbol, &times);
	return times;
}

const char *about_type(const struct cg_port *p)
{
	static const char *const types[] = {
		[CG_REAL_TYPE] = "float", [CG_INT8] = "I8", [CG_INT32] = "I32", [CG_INT64] = "I64", [CG_INT_S] = "I32 or I64"
	};

	return types[p->type];
}

/* ---- what is needed ---- */

/* The values of an attribute with which the op reads the input: "" if the op reads it with every value, "-" if with none. */
static const char *read_if(const struct about *a, const struct cg_port *p, char list[ABOUT_LIST])
{
	list[0] = '\0';
	if (!a->row->reads)
		return list;
	for (const struct cg_attribute *t = a->row->attributes; t->name; t++) {
		double was = cg_attribute_number(t, a->op);
		int all = 1;

		for (int k = 0; t->kind == CG_WORD && t->words[k]; k++) {
			cg_attribute_set(t, a->op, k);
			if (a->row->reads(a->row, p, a->op))
				about_add(list, ", ", "%s=%s", t->name, t->words[k]);
			else
				all = 0;
		}
		if (t->kind == CG_WORD)
			cg_attribute_set(t, a->op, was);
		if (!all)
			return *list ? list : "-";
		list[0] = '\0';
	}
	return list;
}

/* The rules of when an input is needed are those of run/op_call.c. */
const char *about_needed(const struct about *a, const struct cg_port *p, char list[ABOUT_LIST])
{
	char arguments[ABOUT_LIST], condition[ABOUT_LIST] = "";
	const char *only = read_if(a, p, arguments);

	if (p->flags & CG_MAY_LACK || (p->flags & CG_OURS_LACKS && !a->theirs) || !strcmp(only, "-"))
		return "no";
	for (const struct cg_attribute *t = a->row->attributes; t->name && p->need; t++)
		if (t->kind == CG_BOOL && has_word(p->need, t->name))
			about_add(condition, " or ", "%s=true", t->name);
	if (*only)
		about_add(condition, ", ", "%s", only);
	if (!*condition)
		return "always";
	snprintf(list, ABOUT_LIST, "if %.*s", ABOUT_LIST - 4, condition);
	return list;
}

/* An input that an attribute switches on is needed for all outputs. */
int about_needs(const struct about *a, const struct cg_port *input, const struct cg_port *output)
{
	int all = !input->need;

	for (const struct cg_attribute *t = a->row->attributes; t->name && !all; t++)
		all = has_word(input->need, t->name);
	return output->flow != CG_IN && about_shows(a, output->extra) && (all || has_word(input->need, output->name));
}

const char *about_needed_for(const struct about *a, const struct cg_port *p, char list[ABOUT_LIST])
{
	int all = 1;

	list[0] = '\0';
	for (const struct cg_port *o = a->row->ports; o->name; o++)
		if (about_needs(a, p, o))
			about_add(list, " ", "%s", o->name);
		else
			all &= o->flow == CG_IN || !about_shows(a, o->extra);
	return all ? "all outputs" : *list ? list : "none";
}

/* ---- the origin of an argument ---- */

static const struct cg_port *find(const struct cg_op *row, const char *name, size_t length)
{
	const struct cg_port *p = row->ports;

	while (p->name && (strlen(p->name) != length || strncmp(p->name, name, length)))
		p++;
	return p->name ? p : NULL;
}

const struct cg_port *about_gradient_by(const struct about *a, const struct cg_port *p)
{
	static const char *const endings[] = { "_grad", "_backprop" };
	size_t length = strlen(p->name), n;

	if (!a->is_grad || !a->pair)
		return NULL;
	if (!strncmp(p->name, "d_", 2))
		return find(a->pair, p->name + 2, length - 2);
	for (size_t k = 0; k < sizeof endings / sizeof *endings; k++)
		if (length > (n = strlen(endings[k])) && !strcmp(p->name + length - n, endings[k]))
			return find(a->pair, p->name, length - n);
	return NULL;
}

int about_find_origin(const struct about *a, const struct cg_port *p)
{
	const struct cg_port *other = a->is_grad && a->pair ? find(a->pair, p->name, strlen(p->name)) : NULL;

	if (!a->is_grad || !a->pair)
		return AN_INPUT;
	return !other ? FROM_ABOVE : other->flow == CG_IN ? ITS_INPUT : ITS_OUTPUT;
}

int about_taken(const struct about *a, const struct cg_port *p)
{
	const struct cg_port *other = !a->is_grad && a->pair ? find(a->pair, p->name, strlen(p->name)) : NULL;

	return other && other->flow == CG_IN;
}

/* ---- attributes ---- */

const char *const about_kinds[] = {
	[CG_REAL] = "number", [CG_BOOL] = "boolean", [CG_INTEGER] = "integer", [CG_NATURAL] = "integer", [CG_WORD] = "word",
	[CG_TEXT] = "text"
};

void about_range(const struct cg_attribute *t, char least[ABOUT_LIST], char most[ABOUT_LIST])
{
	const char *range = t->kind == CG_NATURAL ? "0 2^64-1" : t->range ? t->range : "", *blank = strchr(range, ' ');

	snprintf(least, ABOUT_LIST, "%.*s", (int)strcspn(range, " "), range);
	snprintf(most, ABOUT_LIST, "%s", blank ? blank + 1 : "");
}

const char *about_default(const struct about *a, const struct cg_attribute *t, char text[CG_ATTRIBUTE_TEXT])
{
	const char *arguments = cg_attribute_text(t, a->op, text);

	return t->required ? "required" : *arguments ? arguments : "none";
}

const char *about_values(const struct cg_attribute *t, char list[ABOUT_LIST])
{
	char least[ABOUT_LIST], most[ABOUT_LIST];

	list[0] = '\0';
	about_range(t, least, most);
	switch (t->kind) {
	case CG_BOOL:
		about_add(list, "", "true, false");
		break;
	case CG_WORD:
		for (int k = 0; t->words[k]; k++)
			about_add(list, ", ", "%s", t->words[k]);
		break;
	case CG_INTEGER:
	case CG_NATURAL:
		about_add(list, "", *most ? "%s to %s" : *least ? "%s and more" : "any", least, most);
		break;
	case CG_REAL:
		about_add(list, "", t->about ? "" : "any");
	}
	if (t->scalar)
		about_add(list, "", ", or a scalar tensor with the attribute's name, of dtype I64 or I32");
	if (t->about)
		about_add(list, "; ", "%s", t->about);
	return list;
}
