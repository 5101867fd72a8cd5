/*
 * What an op takes and gives, for `cellgrad info OP` and `cellgrad run OP --help`.  All of it is its row's; no op is named here.
 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "gen/cell.h"
#include "runtime/backend.h"
#include "runtime/command/command.h"
#include "runtime/command/describe.h"
#include "runtime/command/print.h"

enum { WIDTH = 80, LIST = 512 };

struct about {
	const struct cg_op *row, *pair;          /* pair: the op's gradient, or what it is the gradient of; or NULL */
	const char *name;                        /* as it was asked for, TensorFlow's or ours */
	int   is_grad, theirs;
	void *op;                                /* the struct, with the defaults */
};

static const char *name_of(const struct about *a, const struct cg_op *row)
{
	return a->theirs ? row->tensorflow : row->name;
}

static int is_shown(const struct about *a, int extra)
{
	return !(extra && a->theirs);
}

/* ---- words in a list ---- */

__attribute__((format(printf, 3, 4)))
static void add(char list[LIST], const char *between, const char *format, ...)
{
	size_t n = strlen(list);
	va_list words;

	n += (size_t)snprintf(list + n, LIST - n, "%s", n ? between : "");
	va_start(words, format);
	vsnprintf(list + n, n < LIST ? LIST - n : 0, format, words);
	va_end(words);
}

/* Does a list of words with blanks between have this one? */
static int has_word(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (const char *at = list; (at = strstr(at, word)); at += n)
		if ((at == list || at[-1] == ' ') && strchr(" ", at[n]))
			return 1;
	return 0;
}

/* ---- shapes ---- */

/* "[T, B, 4*U]"; of a list, whose tensors have shapes of their own, "below". */
static const char *shape_of(const struct about *a, const struct cg_port *p, char list[LIST])
{
	char text[CG_SHAPE_TEXT];
	size_t n = 0;

	if (p->flags & CG_LIST)
		return "below";
	list[n++] = '[';
	for (const char *at = cg_op_shape_text(a->row, p, a->op, text); *at && n < LIST - 3; at++) {
		if (*at == ' ')
			list[n++] = ',';
		list[n++] = *at;
	}
	strcpy(list + n, "]");
	return list;
}

/* The attribute that says whether steps or rows come first, or NULL. */
static const struct cg_attribute *order_of(const struct about *a)
{
	for (const struct cg_attribute *t = a->row->attributes; t->name && a->row->time_major_at; t++)
		if (t->at == a->row->time_major_at)
			return t;
	return NULL;
}

/* The shape with rows first. */
static const char *turned(const struct about *a, const struct cg_port *p, char list[LIST])
{
	const struct cg_attribute *order = order_of(a);
	double was = cg_attribute_number(order, a->op);

	cg_attribute_set(order, a->op, 0);
	shape_of(a, p, list);
	cg_attribute_set(order, a->op, was);
	return list;
}

/* Is the symbol one of a shape's, as "U" is of "I+U 4*U" and not of "L*U"?  Where it is written with a factor is said by *times. */
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

/* Does a tensor that is shown have the size?  What those of lists have is in words. */
static int is_used(const struct about *a, const char *symbol)
{
	int used = 0, times;

	for (const struct cg_port *p = a->row->ports; p->name; p++)
		if (is_shown(a, p->extra))
			used |= names(p->shape, symbol, &times) || (p->flags & CG_LIST && strstr(p->about, symbol));
	return used;
}

/* Does any have a multiple of one? */
static int has_multiples(const struct about *a)
{
	int times = 0;

	for (const struct cg_port *p = a->row->ports; p->name; p++)
		for (const struct cg_dim *d = a->row->dims; d->symbol; d++)
			names(p->shape, d->symbol, &times);
	return times;
}

/* As safetensors call the elements' type; "float": the op's dtype. */
static const char *type_of(const struct cg_port *p)
{
	static const char *const types[] = { [CG_REAL_TYPE] = "float", [CG_INT8] = "I8", [CG_INT32] = "I32", [CG_INT64] = "I64",
	                                     [CG_INT_S] = "I32 or I64" };

	return types[p->type];
}

/* ---- what is needed ---- */

/* The words of an attribute with which the input means something: "" where it always does; "-" where it never does. */
static const char *read_if(const struct about *a, const struct cg_port *p, char list[LIST])
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
				add(list, ", ", "%s=%s", t->name, t->words[k]);
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

/* What `run` must have: "always", "if use_peephole=true", "no"; the same rules are call.c's. */
static const char *needed(const struct about *a, const struct cg_port *p, char list[LIST])
{
	char words[LIST], condition[LIST] = "";
	const char *only = read_if(a, p, words);

	if (p->flags & CG_MAY_LACK || (p->flags & CG_OURS_LACKS && !a->theirs) || !strcmp(only, "-"))
		return "no";
	for (const struct cg_attribute *t = a->row->attributes; t->name && p->need; t++)
		if (t->kind == CG_BOOL && has_word(p->need, t->name))
			add(condition, " or ", "%s=true", t->name);
	if (*only)
		add(condition, ", ", "%s", only);
	if (!*condition)
		return "always";
	snprintf(list, LIST, "if %.*s", LIST - 4, condition);
	return list;
}

/* In C, where either may be absent, does an output need the input?  What an attribute switches on all of them need. */
static int needs(const struct about *a, const struct cg_port *input, const struct cg_port *output)
{
	int all = !input->need;

	for (const struct cg_attribute *t = a->row->attributes; t->name && !all; t++)
		all = has_word(input->need, t->name);
	return output->flow != CG_IN && is_shown(a, output->extra) && (all || has_word(input->need, output->name));
}

/* "all outputs", "w_grad", "none" */
static const char *needed_for(const struct about *a, const struct cg_port *p, char list[LIST])
{
	int all = 1;

	list[0] = '\0';
	for (const struct cg_port *o = a->row->ports; o->name; o++)
		if (needs(a, p, o))
			add(list, " ", "%s", o->name);
		else
			all &= o->flow == CG_IN || !is_shown(a, o->extra);
	return all ? "all outputs" : *list ? list : "none";
}

/* ---- whose an argument is ---- */

static const struct cg_port *find(const struct cg_op *row, const char *name, size_t length)
{
	const struct cg_port *p = row->ports;

	while (p->name && (strlen(p->name) != length || strncmp(p->name, name, length)))
		p++;
	return p->name ? p : NULL;
}

/* What of the forward op an argument of its gradient is the gradient by: "d_h" "h_grad" "h_backprop" -> "h"; or NULL. */
static const struct cg_port *gradient_by(const struct about *a, const struct cg_port *p)
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

enum origin { AN_INPUT, ITS_INPUT, ITS_OUTPUT, FROM_ABOVE, ORIGINS };
static const char *const origins[ORIGINS] = { "input", "forward input", "forward output", "gradient" };

static int origin_of(const struct about *a, const struct cg_port *p)
{
	const struct cg_port *other = a->is_grad && a->pair ? find(a->pair, p->name, strlen(p->name)) : NULL;

	if (!a->is_grad || !a->pair)
		return AN_INPUT;
	return !other ? FROM_ABOVE : other->flow == CG_IN ? ITS_INPUT : ITS_OUTPUT;
}

/* Does the gradient take this output of the op? */
static int is_taken(const struct about *a, const struct cg_port *p)
{
	const struct cg_port *other = !a->is_grad && a->pair ? find(a->pair, p->name, strlen(p->name)) : NULL;

	return other && other->flow == CG_IN;
}

/* ---- attributes ---- */

static const char *const kinds[] = { [CG_REAL] = "number", [CG_BOOL] = "boolean", [CG_INTEGER] = "integer", [CG_NATURAL] = "integer",
                                     [CG_WORD] = "word", [CG_TEXT] = "text" };

/* "0 T" -> the least and the largest, as they stand; "" where there is none. */
static void range_of(const struct cg_attribute *t, char least[LIST], char most[LIST])
{
	const char *range = t->kind == CG_NATURAL ? "0 2^64-1" : t->range ? t->range : "", *blank = strchr(range, ' ');

	snprintf(least, LIST, "%.*s", (int)strcspn(range, " "), range);
	snprintf(most, LIST, "%s", blank ? blank + 1 : "");
}

static int is_whole(const struct cg_attribute *t)
{
	return t->kind == CG_INTEGER || t->kind == CG_NATURAL;
}

static const char *default_of(const struct about *a, const struct cg_attribute *t, char text[CG_ATTRIBUTE_TEXT])
{
	const char *words = cg_attribute_text(t, a->op, text);

	return t->required ? "required" : *words ? words : "none";
}

static const char *values_of(const struct cg_attribute *t, char list[LIST])
{
	char least[LIST], most[LIST];

	list[0] = '\0';
	range_of(t, least, most);
	switch (t->kind) {
	case CG_BOOL:
		add(list, "", "true, false");
		break;
	case CG_WORD:
		for (int k = 0; t->words[k]; k++)
			add(list, ", ", "%s", t->words[k]);
		break;
	case CG_INTEGER:
	case CG_NATURAL:
		add(list, "", *most ? "%s to %s" : *least ? "%s and more" : "any", least, most);
		break;
	case CG_REAL:
		add(list, "", "any");
	}
	if (t->scalar)
		add(list, "", ", or a tensor of that name: [], I64 or I32");
	if (t->about)
		add(list, "; ", "%s", t->about);
	return list;
}

/* ---- as text ---- */

/* Adds a last cell of many words; those that the line has no room for go into rows of their own, under it.  before: the letters
 * that stand before it. */
static void put_words(struct print_table *t, const char *words, int before)
{
	size_t room = before < WIDTH - 16 ? (size_t)(WIDTH - before) : 16, columns = strlen(t->columns);

	for (int first = 1; first || *words; first = 0) {
		size_t n = strlen(words);

		if (n > room)
			for (n = room; n && words[n] != ' '; n--)
				;
		n = n ? n : strcspn(words, " ");
		for (size_t k = 1; !first && k < columns; k++)
			print_cell(t, " ");
		print_cell(t, "%.*s", (int)n, words);
		words += n;
		words += *words == ' ';
	}
}

/* Letters of the longest of what a table's column will hold. */
static int widest(int now, const char *words)
{
	return (int)strlen(words) > now ? (int)strlen(words) : now;
}

static int show_symbols(const struct about *a)
{
	struct print_table t = { .columns = "ll" };

	for (const struct cg_dim *d = a->row->dims; d->symbol; d++)
		if (is_used(a, d->symbol)) {
			print_cell(&t, "%s", d->symbol);
			put_words(&t, d->about, 12);
		}
	if (t.n)
		printf("\nSizes:\n");
	CG_TRY(print_table(&t, "  "));
	if (a->row->gates && has_multiples(a))
		printf("A multiple of a size is the gates %s, one after the other.\n", a->row->gates);
	for (const struct cg_port *p = a->row->ports; p->name && order_of(a); p++) {
		char list[LIST], rows[LIST];

		if (!strcmp(shape_of(a, p, list), turned(a, p, rows)))
			continue;
		printf("With %s=false %s is %s, and so with all that have T and B.\n", order_of(a)->name, list, rows);
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

static const char *port_name(const struct cg_port *p, char list[LIST])
{
	snprintf(list, LIST, p->flags & CG_LIST ? "%s_0 ..." : "%s", p->name);
	return list;
}

/* The columns of ports that are as wide in every table: name, shape, type. */
static int port_columns(const struct about *a, struct print_table *t, const struct cg_port *p)
{
	char list[LIST];

	print_cell(t, "%s", port_name(p, list));
	print_cell(t, "%s", shape_of(a, p, list));
	if (has_types(a))
		print_cell(t, "%s", type_of(p));
	return 0;
}

/* Letters before the last column of a table of ports with these origins. */
static int before_last(const struct about *a, const char *head, int origin)
{
	int name = (int)strlen(head), shape = 5, need = 12;
	char list[LIST];

	for (const struct cg_port *p = a->row->ports; p->name; p++)
		if (p->flow == CG_IN && origin_of(a, p) == origin) {
			name = widest(name, port_name(p, list));
			shape = widest(shape, shape_of(a, p, list));
			need = widest(need, needed(a, p, list));
		}
	return 2 + name + 2 + shape + 2 + need + 2 + (has_types(a) ? 7 : 0);
}

static int show_inputs(const struct about *a)
{
	static const char *const heads[ORIGINS] = { "input", "input of ", "output of ", "gradient from above" };
	char head[LIST], list[LIST];

	for (int origin = 0; origin < ORIGINS; origin++) {
		struct print_table t = { .columns = has_types(a) ? "lllll" : "llll" };

		snprintf(head, sizeof head, "%s%s", heads[origin],
		         a->pair && (origin == ITS_INPUT || origin == ITS_OUTPUT) ? name_of(a, a->pair) : "");
		for (const struct cg_port *p = a->row->ports; p->name; p++) {
			if (p->flow != CG_IN || origin_of(a, p) != origin)
				continue;
			if (!t.n) {
				print_row(&t, head, "shape", NULL);
				if (has_types(a))
					print_cell(&t, "type");
				print_row(&t, "run needs it", "C needs it for", NULL);
			}
			port_columns(a, &t, p);
			print_cell(&t, "%s", needed(a, p, list));
			put_words(&t, needed_for(a, p, list), before_last(a, head, origin));
		}
		if (t.n)
			putchar('\n');
		CG_TRY(print_table(&t, "  "));
	}
	return CG_OK;
}

/* What else is to be said of an output. */
static const char *remark(const struct about *a, const struct cg_port *p, char list[LIST])
{
	const struct cg_port *by = gradient_by(a, p);

	list[0] = '\0';
	if (by)
		add(list, "", "gradient by %s", by->name);
	if (is_taken(a, p))
		add(list, ", ", "%s takes it", name_of(a, a->pair));
	if (p->extra)
		add(list, ", ", "ours alone");
	return *list ? list : "-";
}

static int show_outputs(const struct about *a)
{
	struct print_table t = { .columns = has_types(a) ? "llll" : "lll" };
	char list[LIST];

	putchar('\n');
	print_row(&t, "output", "shape", NULL);
	if (has_types(a))
		print_cell(&t, "type");
	print_cell(&t, "remark");
	for (const struct cg_port *p = a->row->ports; p->name; p++)
		if (p->flow != CG_IN && is_shown(a, p->extra)) {
			port_columns(a, &t, p);
			print_cell(&t, "%s", remark(a, p, list));
		}
	return print_table(&t, "  ");
}

/* What a port's name and shape do not say; "": nothing. */
static const char *note(const struct about *a, const struct cg_port *p, char list[LIST])
{
	list[0] = '\0';
	if (p->about && is_shown(a, p->extra))
		add(list, "", "%s", p->about);
	if (p->flags & CG_ON_HOST)
		add(list, "; ", "in C in the host's memory");
	return list;
}

static int show_notes(const struct about *a)
{
	struct print_table t = { .columns = "ll" };
	char list[LIST], words[LIST];
	int name = 0;

	for (const struct cg_port *p = a->row->ports; p->name; p++)
		if (*note(a, p, words))
			name = widest(name, port_name(p, list));
	for (const struct cg_port *p = a->row->ports; p->name; p++)
		if (*note(a, p, words)) {
			print_cell(&t, "%s", port_name(p, list));
			put_words(&t, words, 2 + name + 2);
		}
	if (t.n)
		putchar('\n');
	return print_table(&t, "  ");
}

/* extra: those that only our name has. */
static int show_attributes(const struct about *a, int extra)
{
	struct print_table t = { .columns = "llll" };
	char list[LIST], text[CG_ATTRIBUTE_TEXT];
	int name = 9, standard = 8;

	for (const struct cg_attribute *d = a->row->attributes; d->name; d++)
		if (d->extra == extra) {
			name = widest(name, d->name);
			standard = widest(standard, default_of(a, d, text));
		}
	for (const struct cg_attribute *d = a->row->attributes; d->name; d++) {
		if (d->extra != extra)
			continue;
		if (!t.n)
			print_row(&t, "attribute", "type", "default", "values", NULL);
		print_row(&t, d->name, kinds[d->kind], default_of(a, d, text), NULL);
		put_words(&t, values_of(d, list), 2 + name + 2 + 7 + 2 + standard + 2);
	}
	if (!extra) {
		if (!t.n)
			print_row(&t, "attribute", "type", "default", "values", NULL);
		print_row(&t, "T", "word", "tensors'", "half, bfloat16, float, double", NULL);
	}
	if (t.n)
		printf(extra ? "\nOurs alone, not of %s:\n" : "\n%.0s", a->row->tensorflow);
	return print_table(&t, "  ");
}

static int show(const struct about *a)
{
	printf(a->theirs ? "%s, our %s\n" : "%s, TensorFlow's %s\n", a->name, a->theirs ? a->row->name : a->row->tensorflow);
	if (a->pair)
		printf(a->is_grad ? "The gradient of %s.\n" : "Its gradient is %s.\n", name_of(a, a->pair));
	CG_TRY(show_symbols(a));
	printf("\nTensors%s F16, BF16, F32 or F64, one of them for all:\n", has_types(a) ? "; float is" : ",");
	CG_TRY(show_inputs(a));
	CG_TRY(show_outputs(a));
	CG_TRY(show_notes(a));
	CG_TRY(show_attributes(a, 0));
	if (!a->theirs)
		CG_TRY(show_attributes(a, 1));
	printf("\n"
	       "cellgrad run wants a tensor in its FILEs as TensorFlow does; in C what no output\n"
	       "needs may be absent, and an absent gradient or state is zeros.  Attributes are\n"
	       "NAME=VALUE, or metadata of a FILE.\n");
	return CG_OK;
}

/* ---- as JSON ---- */

/* "B 4*U" -> ["B", "4*U"] */
static json_t *words_json(const char *words)
{
	json_t *list = json_array();

	while (*words) {
		size_t n = strcspn(words, " ");

		json_array_append_new(list, json_stringn(words, n));
		words += n;
		words += *words == ' ';
	}
	return list;
}

static json_t *shape_json(const struct about *a, const struct cg_port *p)
{
	char text[CG_SHAPE_TEXT];

	return p->flags & CG_LIST ? json_null() : words_json(cg_op_shape_text(a->row, p, a->op, text));
}

/* What inputs and outputs share. */
static json_t *port_json(const struct about *a, const struct cg_port *p)
{
	const struct cg_attribute *order = order_of(a);
	json_t *port = json_pack("{s:s, s:o, s:s, s:b, s:b, s:b}", "name", p->name, "shape", shape_json(a, p), "type", type_of(p),
	                         "list", !!(p->flags & CG_LIST), "opaque", !!(p->flags & CG_OPAQUE), "host_in_c",
	                         !!(p->flags & CG_ON_HOST));
	const struct cg_port *by = gradient_by(a, p);

	if (order) {
		double was = cg_attribute_number(order, a->op);

		cg_attribute_set(order, a->op, 0);
		json_object_set_new(port, "shape_batch_major", shape_json(a, p));
		cg_attribute_set(order, a->op, was);
	}
	if (p->about)
		json_object_set_new(port, "about", json_string(p->about));
	if (by)
		json_object_set_new(port, "gradient_by", json_string(by->name));
	return port;
}

static json_t *needed_json(const struct about *a, const struct cg_port *p)
{
	json_t *outputs = json_array();

	for (const struct cg_port *o = a->row->ports; o->name; o++)
		if (needs(a, p, o))
			json_array_append_new(outputs, json_string(o->name));
	return outputs;
}

static json_t *inputs_json(const struct about *a)
{
	json_t *all = json_array();
	char list[LIST];

	for (const struct cg_port *p = a->row->ports; p->name; p++) {
		json_t *port;

		if (p->flow != CG_IN)
			continue;
		port = port_json(a, p);
		json_object_set_new(port, "of", json_string(origins[origin_of(a, p)]));
		json_object_set_new(port, "needed", json_string(needed(a, p, list)));
		json_object_set_new(port, "needed_in_c_for", needed_json(a, p));
		json_array_append_new(all, port);
	}
	return all;
}

static json_t *outputs_json(const struct about *a)
{
	json_t *all = json_array();

	for (const struct cg_port *p = a->row->ports; p->name; p++) {
		json_t *port;

		if (p->flow == CG_IN || !is_shown(a, p->extra))
			continue;
		port = port_json(a, p);
		json_object_set_new(port, "tensorflow", json_boolean(!p->extra));
		json_object_set_new(port, "gradient_takes_it", json_boolean(is_taken(a, p)));
		json_object_set_new(port, "accumulates_in_c", json_boolean(p->flow == CG_OUT_SUM));
		json_array_append_new(all, port);
	}
	return all;
}

/* A number, or the symbol of a size. */
static json_t *end_json(const char *end)
{
	char *rest;
	long long value = strtoll(end, &rest, 10);

	return !*end ? json_null() : *rest ? json_string(end) : json_integer(value);
}

static json_t *default_json(const struct about *a, const struct cg_attribute *t)
{
	char text[CG_ATTRIBUTE_TEXT];
	const char *words = cg_attribute_text(t, a->op, text);

	if (t->required || (t->kind == CG_TEXT && !*words))
		return json_null();
	switch (t->kind) {
	case CG_REAL:    return print_number(cg_attribute_number(t, a->op));
	case CG_NATURAL:
	case CG_INTEGER: return json_integer((json_int_t)cg_attribute_number(t, a->op));
	case CG_BOOL:    return json_boolean(cg_attribute_number(t, a->op) != 0);
	}
	return json_string(words);
}

static json_t *attributes_json(const struct about *a)
{
	json_t *all = json_array();
	char least[LIST], most[LIST];

	for (const struct cg_attribute *t = a->row->attributes; t->name; t++) {
		json_t *one;

		if (!is_shown(a, t->extra))
			continue;
		range_of(t, least, most);
		one = json_pack("{s:s, s:s, s:b, s:o, s:b, s:b}", "name", t->name, "type", kinds[t->kind], "required", t->required,
		                "default", default_json(a, t), "scalar_tensor", t->scalar, "tensorflow", !t->extra);
		if (is_whole(t)) {
			json_object_set_new(one, "least", end_json(least));
			json_object_set_new(one, "most", end_json(most));
		}
		if (t->about)
			json_object_set_new(one, "about", json_string(t->about));
		if (t->kind == CG_WORD) {
			json_t *words = json_array();

			for (int k = 0; t->words[k]; k++)
				json_array_append_new(words, json_string(t->words[k]));
			json_object_set_new(one, "words", words);
		}
		json_array_append_new(all, one);
	}
	return all;
}

static int show_json(const struct about *a)
{
	json_t *sizes = json_object();

	for (const struct cg_dim *d = a->row->dims; d->symbol; d++)
		if (is_used(a, d->symbol))
			json_object_set_new(sizes, d->symbol, json_string(d->about));
	return print_json(json_pack("{s:s, s:s, s:s, s:s?, s:s?, s:s?, s:o, s:o, s:o, s:o}", "name", a->name, "op", a->row->name,
	                            "tensorflow", a->row->tensorflow, "gradient", a->pair && !a->is_grad ? name_of(a, a->pair) : NULL,
	                            "gradient_of", a->pair && a->is_grad ? name_of(a, a->pair) : NULL, "gates", a->row->gates,
	                            "sizes", sizes, "inputs", inputs_json(a), "outputs", outputs_json(a),
	                            "attributes", attributes_json(a)));
}

/* ---- which op ---- */

/* The built-in cell whose name is in the word, whatever its case; the longest. */
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

/* The word of an attribute that names the cell, or NULL. */
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
	const struct cg_op *row = cg_ops;
	const struct cg_attribute *mode;

	/* The first op that any cell can be given to. */
	while (row->name && !(row->route && attribute_of(row, "cell")))
		row++;
	mode = row->name ? mode_for(row, cell) : NULL;
	if (mode)
		return cg_fail(CG_BAD_ARGUMENT, "%s: no such op; %s is a cell, and %s with cell=%s, or %s with %s=%s, computes networks of it",
		               name, cell, row->name, cell, row->tensorflow, mode->name, cell);
	return cg_fail(CG_BAD_ARGUMENT, "%s: no such op; %s is a cell, and %s with cell=%s computes networks of it", name, cell,
	               row->name ? row->name : "none", cell);
}

static int is_a_backend(const char *name)
{
	for (const struct cg_backend *const *b = cg_backends; *b; b++)
		if (!strcmp((*b)->name, name))
			return cg_fail(CG_BAD_ARGUMENT, "%s: no such op, but a backend: cellgrad info --why %s asks about it", name, name);
	return 0;
}

/* Is there an op that the word may be misspelt of?  Then cg_op_find has said so. */
static int is_misspelt(const char *name)
{
	for (const struct cg_op *row = cg_ops; row->name; row++)
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
	code = json ? show_json(&a) : show(&a);
	cg_memory(a.op, 0);
	return code;
}
