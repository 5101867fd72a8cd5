/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints an op's inputs, outputs and attributes, for `cellgrad info OP` and `cellgrad run OP --help`, in 80 columns; finds the op that a
 * word means. This file contains no op's name: the names are from the op table.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "runtime/device/inspect.h"
#include "command/command.h"
#include "command/describe.h"
#include "command/output.h"

enum { WIDTH = 80 };

/* ---- as text ---- */

/* Adds the last cell of a table's row, a long text. Words of the text that do not fit in the line go into further rows below. before: the
 * width of the columns left of the cell. */
static void print_wrapped(struct print_table *t, const char *text, int before)
{
	size_t width = before < WIDTH - 16 ? (size_t)(WIDTH - before) : 16, columns = strlen(t->columns);

	for (int first = 1; first || *text; first = 0) {
		size_t n = strlen(text);

		if (n > width)
			for (n = width; n && text[n] != ' '; n--)
				;
		n = n ? n : strcspn(text, " ");
		for (size_t k = 1; !first && k < columns; k++)
			print_cell(t, " ");
		print_cell(t, "%.*s", (int)n, text);
		text += n;
		text += *text == ' ';
	}
}

/* The width of a column with texts: the greater of `now`, its width so far, and the width of this text. */
static int widest(int now, const char *text)
{
	return (int)strlen(text) > now ? (int)strlen(text) : now;
}

static int show_symbols(const struct about *a)
{
	struct print_table t = { .columns = "ll" };

	for (const struct cg_dim *d = a->row->dims; d->symbol; d++)
		if (about_uses(a, d->symbol)) {
			print_cell(&t, "%s", d->symbol);
			print_wrapped(&t, d->about, 12);
		}
	if (t.n)
		printf("\nSizes:\n");
	CG_TRY(print_all_rows(&t, "  "));
	if (a->row->gates && about_multiples(a))
		printf("An axis of a multiple of a size has the gates %s, one after the other.\n", a->row->gates);
	for (const struct cg_port *p = a->row->ports; p->name && about_order(a); p++) {
		char list[ABOUT_LIST], rows[ABOUT_LIST];

		if (!strcmp(about_shape(a, p, list), about_turned(a, p, rows)))
			continue;
		printf("With %s=false the shape %s is %s:\nT and B change places in every shape that has both.\n", about_order(a)->name, list, rows);
		break;
	}
	return CG_OK;
}

static int has_types(const struct about *a)
{
	int any = 0;

	for (const struct cg_port *p = a->row->ports; p->name; p++)
		any |= p->type != CG_REAL_TYPE;
	return any;
}

static const char *port_name(const struct cg_port *p, char list[ABOUT_LIST])
{
	snprintf(list, ABOUT_LIST, p->flags & CG_LIST ? "%s_0 ..." : "%s", p->name);
	return list;
}

/* Adds the cells for a port in the columns that every table of ports has: name, shape and, if a tensor of the op has a type of its own,
 * type. */
static void port_columns(const struct about *a, struct print_table *t, const struct cg_port *p)
{
	char list[ABOUT_LIST];

	print_cell(t, "%s", port_name(p, list));
	print_cell(t, "%s", about_shape(a, p, list));
	if (has_types(a))
		print_cell(t, "%s", about_type(p));
}

/* The width of the columns left of the last one, in the table of the inputs with this origin. */
static int before_last(const struct about *a, const char *head, int origin)
{
	int name = (int)strlen(head), shape = 5, need = 12;
	char list[ABOUT_LIST];

	for (const struct cg_port *p = a->row->ports; p->name; p++)
		if (p->flow == CG_IN && about_shows(a, p->extra) && about_find_origin(a, p) == origin) {
			name = widest(name, port_name(p, list));
			shape = widest(shape, about_shape(a, p, list));
			need = widest(need, about_needed(a, p, list));
		}
	return 2 + name + 2 + shape + 2 + need + 2 + (has_types(a) ? 7 : 0);
}

static int show_inputs(const struct about *a)
{
	static const char *const heads[ORIGINS] = { "input", "input of ", "output of ", "gradient from above" };
	char head[ABOUT_LIST], list[ABOUT_LIST];

	for (int origin = 0; origin < ORIGINS; origin++) {
		struct print_table t = { .columns = has_types(a) ? "lllll" : "llll" };

		snprintf(head, sizeof head, "%s%s", heads[origin],
		         a->pair && (origin == ITS_INPUT || origin == ITS_OUTPUT) ? about_name(a, a->pair) : "");
		for (const struct cg_port *p = a->row->ports; p->name; p++) {
			if (p->flow != CG_IN || !about_shows(a, p->extra) || about_find_origin(a, p) != origin)
				continue;
			if (!t.n) {
				print_row(&t, head, "shape", NULL);
				if (has_types(a))
					print_cell(&t, "type");
				print_row(&t, "run needs it", "C needs it for", NULL);
			}
			port_columns(a, &t, p);
			print_cell(&t, "%s", about_needed(a, p, list));
			print_wrapped(&t, about_needed_for(a, p, list), before_last(a, head, origin));
		}
		if (t.n)
			putchar('\n');
		CG_TRY(print_all_rows(&t, "  "));
	}
	return CG_OK;
}

/* The remark about an output: the argument of the forward op whose gradient the output is, whether the op's gradient reads the output, and
 * whether only the library's own op has it; "-": none of these. */
static const char *remark(const struct about *a, const struct cg_port *p, char list[ABOUT_LIST])
{
	const struct cg_port *by = about_gradient_by(a, p);

	list[0] = '\0';
	if (by)
		about_add(list, "", "gradient by %s", by->name);
	if (about_taken(a, p))
		about_add(list, ", ", "%s takes it", about_name(a, a->pair));
	if (p->extra)
		about_add(list, ", ", "ours alone");
	return *list ? list : "-";
}

static int show_outputs(const struct about *a)
{
	struct print_table t = { .columns = has_types(a) ? "llll" : "lll" };
	char list[ABOUT_LIST];

	putchar('\n');
	print_row(&t, "output", "shape", NULL);
	if (has_types(a))
		print_cell(&t, "type");
	print_cell(&t, "remark");
	for (const struct cg_port *p = a->row->ports; p->name; p++)
		if (p->flow != CG_IN && about_shows(a, p->extra)) {
			port_columns(a, &t, p);
			print_cell(&t, "%s", remark(a, p, list));
		}
	return print_all_rows(&t, "  ");
}

/* A note about what the port's name and shape do not say; "": no note. */
static const char *note(const struct about *a, const struct cg_port *p, char list[ABOUT_LIST])
{
	list[0] = '\0';
	if (p->about && about_shows(a, p->extra))
		about_add(list, "", "%s", p->about);
	if (p->flags & CG_ON_HOST)
		about_add(list, "; ", "in a call from C the argument is in host memory");
	return list;
}

static int show_notes(const struct about *a)
{
	struct print_table t = { .columns = "ll" };
	char list[ABOUT_LIST], text[ABOUT_LIST];
	int name = 0;

	for (const struct cg_port *p = a->row->ports; p->name; p++)
		if (*note(a, p, text))
			name = widest(name, port_name(p, list));
	for (const struct cg_port *p = a->row->ports; p->name; p++)
		if (*note(a, p, text)) {
			print_cell(&t, "%s", port_name(p, list));
			print_wrapped(&t, text, 2 + name + 2);
		}
	if (t.n)
		putchar('\n');
	return print_all_rows(&t, "  ");
}

/* Prints the attributes of an op. extra: 1: those that only the library's own op has; 0: all others. */
static int show_attributes(const struct about *a, int extra)
{
	struct print_table t = { .columns = "llll" };
	char list[ABOUT_LIST], text[CG_ATTRIBUTE_TEXT];
	int name = 9, standard = 8;

	for (const struct cg_attribute *d = a->row->attributes; d->name; d++)
		if (d->extra == extra) {
			name = widest(name, d->name);
			standard = widest(standard, about_default(a, d, text));
		}
	for (const struct cg_attribute *d = a->row->attributes; d->name; d++) {
		if (d->extra != extra)
			continue;
		if (!t.n)
			print_row(&t, "attribute", "type", "default", "values", NULL);
		print_row(&t, d->name, about_kinds[d->kind], about_default(a, d, text), NULL);
		print_wrapped(&t, about_values(d, list), 2 + name + 2 + 7 + 2 + standard + 2);
	}
	if (!extra) {
		if (!t.n)
			print_row(&t, "attribute", "type", "default", "values", NULL);
		print_row(&t, "T", "word", "tensors'", "half, bfloat16, float, double", NULL);
	}
	if (t.n)
		printf(extra ? "\nAttributes of cellgrad's op alone, not of %s:\n" : "\n%.0s", a->row->tensorflow);
	return print_all_rows(&t, "  ");
}

static int show(const struct about *a)
{
	printf(a->theirs ? "%s, our %s\n" : "%s, TensorFlow's %s\n", a->name, a->theirs ? a->row->name : a->row->tensorflow);
	if (a->pair)
		printf(a->is_grad ? "The gradient of %s.\n" : "Its gradient is %s.\n", about_name(a, a->pair));
	CG_TRY(show_symbols(a));
	printf("\nTensors%s " CG_DTYPES_CODES ", one dtype for all tensors:\n", has_types(a) ? "; float is" : ",");
	CG_TRY(show_inputs(a));
	CG_TRY(show_outputs(a));
	CG_TRY(show_notes(a));
	CG_TRY(show_attributes(a, 0));
	if (!a->theirs)
		CG_TRY(show_attributes(a, 1));
	printf("\n"
	       "cellgrad run needs the tensors in its FILEs; in a call from C, tensors that no\n"
	       "output needs may be absent, and an absent gradient or state counts as zeros.\n"
	       "Attributes are NAME=VALUE, or metadata of a FILE.\n");
	return CG_OK;
}

/* ---- which op ---- */

/* The longest name of a built-in cell that the word contains, in letters of either case. */
static const char *cell_in(const char *word)
{
	const char *cell, *found = NULL;
	char lower[PRINT_NAME];
	size_t n = 0;

	for (; word[n] && n < sizeof lower - 1; n++)
		lower[n] = (char)tolower((unsigned char)word[n]);
	lower[n] = '\0';
	for (int k = 0; (cell = cg_cell_name(k)); k++)
		if (strstr(lower, cell) && (!found || strlen(cell) > strlen(found)))
			found = cell;
	return found;
}

static const struct cg_attribute *attribute_of(const struct cg_op *row, const char *name)
{
	const struct cg_attribute *t = row->attributes;

	while (t->name && strcmp(t->name, name))
		t++;
	return t->name ? t : NULL;
}

/* The attribute of an op among whose words is the name of the cell, or NULL. */
static const struct cg_attribute *mode_for(const struct cg_op *row, const char *cell)
{
	for (const struct cg_attribute *t = row->attributes; t->name; t++)
		for (int k = 0; t->kind == CG_WORD && t->words[k]; k++)
			if (!strcmp(t->words[k], cell))
				return t;
	return NULL;
}

static int is_a_cell(const char *name, const char *cell)
{
	const struct cg_op *row = cg_op_next(NULL);
	const struct cg_attribute *mode;

	/* The first op that takes any cell. */
	while (row && !(row->route && attribute_of(row, "cell")))
		row = cg_op_next(row);
	mode = row ? mode_for(row, cell) : NULL;
	if (mode)
		return cg_fail(CG_BAD_ARGUMENT, "%s: no such op; %s is a cell, and %s with cell=%s, or %s with %s=%s, computes networks of it",
		               name, cell, row->name, cell, row->tensorflow, mode->name, cell);
	return cg_fail(CG_BAD_ARGUMENT, "%s: no such op; %s is a cell, and %s with cell=%s computes networks of it", name, cell,
	               row ? row->name : "none", cell);
}

static int is_a_backend(const char *name)
{
	for (int k = 0; cg_inspect_backend(k); k++)
		if (!strcmp(cg_inspect_backend(k), name))
			return cg_fail(CG_BAD_ARGUMENT, "%s: there is no such op, but a backend of this name: cellgrad info --why %s says whether "
			               "it opens", name, name);
	return 0;
}

/* Is the word close to the name of an op? If the word is close to one, the message of cg_op_find suggests an op. */
static int is_misspelt(const char *name)
{
	for (const struct cg_op *row = NULL; (row = cg_op_next(row));)
		if (cg_nearest(name, (const char *const[]){ row->name, row->tensorflow }, 2))
			return 1;
	return 0;
}

const struct cg_op *describe_find(const char *name, int *theirs)
{
	const struct cg_op *row = cg_op_find(name, theirs);
	char shown[PRINT_NAME];
	const char *cell;

	if (row || is_misspelt(name) || is_a_backend(name))
		return row;
	cell = cell_in(name);
	if (cell)
		is_a_cell(print_name(shown, name), cell);
	return NULL;
}

int describe_op(const char *name, int json)
{
	struct about a = { .name = name };
	int code;

	a.row = describe_find(name, &a.theirs);
	if (!a.row)
		return CG_BAD_ARGUMENT;
	a.pair = cg_op_pair(a.row, &a.is_grad);
	a.op = cg_memory(NULL, a.row->size);
	if (!a.op)
		return CG_NO_MEMORY;
	a.row->init(a.op, a.row->size);
	code = json ? describe_json(&a) : show(&a);
	cg_memory(a.op, 0);
	return code;
}
