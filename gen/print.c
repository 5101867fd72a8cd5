/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints functions: it fills the holes of a shape in templates/ with statements from the graph and lists from the arguments.  infix.c
 * prints expressions.  The words of a dialect are its row in dialect.c.
 */
#include "print.h"

#include <stdio.h>
#include <string.h>

struct template { const char *file, *section; };

static const struct template *template_of(const struct printer *p)
{
	static const struct template templates[] = {
		[CG_FUNCTION_POINT] = { "point.in", "point" }, [CG_FUNCTION_SUM_PART] = { "sum.in", "part" },
		[CG_FUNCTION_SUM] = { "sum.in", "sum" }, [CG_FUNCTION_SUM_UNITS] = { "sum.in", "sum_units" },
		[CG_FUNCTION_MEAN] = { "mean.in", "mean" }
	};

	return &templates[p->function->shape];
}

/* ---- lists ---- */

/* Does the C text's function over a strip take the argument by value? */
static int is_by_value(const struct cg_argument *a)
{
	return a->kind == CG_KIND_SCALAR || ((a->kind == CG_KIND_ELEMENT || a->kind == CG_KIND_MEAN) && !a->out);
}

/* Is the argument one that the C text's function over a strip takes? */
static int is_of_strip(const struct cg_argument *a)
{
	return a->kind == CG_KIND_SCALAR || a->kind == CG_KIND_MEAN || cg_is_array(a);
}

/* Prints the place of a row's mean in memory: "acc_means[row * 3 + 1]". */
static void put_mean(const struct printer *p, struct cg_text *text, const struct cg_argument *a)
{
	const struct cg_dialect *d = p->dialect;

	cg_text_printf(text, "acc_means%s[%srow * %d + %d]", d->strips ? "" : "_at", d->offsets ? "acc_means_offset + " : "",
	               p->function->means, a->index);
}

/* Prints the parameters of the function. alone: the dialect's qualifier of pointers to memory that no other pointer reaches, or "". */
static void put_parameters(struct printer *p, struct cg_text *text, const char *alone)
{
	for (int k = 0; k < p->function->n_arguments; k++)
		if (cg_is_parameter(p->function, &p->function->arguments[k]))
			cg_print_parameter(p, text, &p->function->arguments[k], p->function->arguments[k].name, alone);
}

static void parameters(struct printer *p, struct cg_text *text) { put_parameters(p, text, p->dialect->restricted); }

/* Prints the parameters of a function that the kernel calls, without `restrict`: once the compiler has inlined the function, the kernel's
 * `restrict` holds. */
static void element_parameters(struct printer *p, struct cg_text *text) { put_parameters(p, text, ""); }

/* Prints the names of the parameters, for a call of a function with the same parameters. */
static void put_names(struct printer *p, struct cg_text *text)
{
	const char *memory = p->dialect->offsets ? "@name@_at, @name@_offset" : "@name@_at";
	char tensor[64];

	snprintf(tensor, sizeof tensor, "%s, @name@_stride", memory);
	for (int k = 0; k < p->function->n_arguments; k++) {
		const struct cg_argument *a = &p->function->arguments[k];

		if (!cg_is_parameter(p->function, a))
			continue;
		cg_print_separator(text, a->role == CG_ROLE_UNITS ? ", " : ",\n");
		cg_print_form(p, text, a->kind == CG_KIND_TENSOR ? tensor :
		               cg_is_array(a) || a->kind == CG_KIND_SCRATCH || a->kind == CG_KIND_MEANS ? memory : "@name@", a, NULL);
	}
}

/* Prints the parameters of the C text's function over a strip of a row: pointers to the strip's elements, and numbers by value. */
static void run_parameters(struct printer *p, struct cg_text *text)
{
	for (int k = 0; k < p->function->n_arguments; k++) {
		const struct cg_argument *a = &p->function->arguments[k];
		const char *form = a->out ? "@type@ *restrict @name@_at" : "const @type@ *restrict @name@_at";

		if (!is_of_strip(a))
			continue;
		cg_print_separator(text, ",\n");
		cg_print_form(p, text, is_by_value(a) ? "acc @name@" :
		               cg_is_parameter(p->function, a) ? form : "acc *restrict sum_@name@", a, NULL);
	}
}

static void run_arguments(struct printer *p, struct cg_text *text)
{
	int value = 0;

	for (int k = 0; k < p->function->n_arguments; k++) {
		const struct cg_argument *a = &p->function->arguments[k];
		const char *at = a->kind == CG_KIND_TENSOR ? "row * @name@_stride + first" : "first";
		char form[160];

		if (a->kind == CG_KIND_SCALAR) {
			cg_print_separator(text, ",\n");
			cg_text_put(text, a->name);
		} else if (a->kind == CG_KIND_MEAN && !a->out) {
			cg_print_separator(text, ",\n");
			put_mean(p, text, a);
		} else if (a->kind == CG_KIND_MEAN) {
			cg_print_separator(text, ",\n");
			cg_text_printf(text, "acc_terms[%d]", value++);
		} else if (is_by_value(a)) {
			cg_print_separator(text, ",\n");
			cg_print_form(p, text, p->plain ? "@name@ ? *@name@ : 0" : "@name@ ? to_acc(*@name@) : 0", a, NULL);
		} else if (cg_is_array(a) && !cg_is_parameter(p->function, a)) {
			cg_print_separator(text, ",\n");
			cg_text_printf(text, "sums + %d * units + first", value++);
		} else if (cg_is_array(a)) {
			cg_print_separator(text, ",\n");
			snprintf(form, sizeof form, a->out ? "@name@ ? @name@ + %s : no_@name@" : "@name@ ? @name@ + %s : absent%s", at,
			         a->type == CG_TYPE_ACC && !p->plain ? "_acc" : "");
			cg_print_form(p, text, form, a, NULL);
		}
	}
}

/* Prints, for the C text, the memory from which an absent input is read and to which an absent output is written. */
static void absent(struct printer *p, struct cg_text *text)
{
	int reads[2] = { 0, 0 };

	for (int k = 0; k < p->function->n_arguments; k++) {
		const struct cg_argument *a = &p->function->arguments[k];

		if (cg_is_array(a) && !a->out && !is_by_value(a))
			reads[a->type == CG_TYPE_ACC && !p->plain] = 1;
	}
	if (reads[0])
		cg_text_put(text, "static const real absent[STRIP] = {0};\n");
	if (reads[1])
		cg_text_put(text, "static const acc absent_acc[STRIP] = {0};\n");
	for (int k = 0; k < p->function->n_arguments; k++) {
		const struct cg_argument *a = &p->function->arguments[k];

		if (cg_is_array(a) && a->out && cg_is_parameter(p->function, a))
			cg_print_form(p, text, "@type@ no_@name@[STRIP];\n", a, NULL);
	}
}

static void loads(struct printer *p, struct cg_text *text)
{
	for (int k = 0; k < p->function->n_arguments; k++) {
		const struct cg_argument *a = &p->function->arguments[k];

		if (!a->out && a->kind == CG_KIND_MEAN && !p->dialect->strips) {
			cg_print_separator(text, "\n");
			cg_text_printf(text, "const acc %s = ", a->name);
			put_mean(p, text, a);
			cg_text_put(text, ";");
		}
		if (!a->out && cg_is_array(a))
			cg_print_load(p, text, a, a->name);
	}
}

/* Prints the loads of the inputs; each load is of a run of adjacent units. */
static void run_ins(struct printer *p, struct cg_text *text)
{
	for (int k = 0; k < p->function->n_arguments && p->runs; k++) {
		const struct cg_argument *a = &p->function->arguments[k];

		if (!a->out && cg_is_array(a) && a->kind != CG_KIND_ELEMENT) {
			cg_print_separator(text, "\n");
			cg_print_form(p, text, a->kind == CG_KIND_PER_UNIT ? p->dialect->run_in_unit : p->dialect->run_in, a, NULL);
		}
	}
}

static void each_out(struct printer *p, struct cg_text *text, const char *form)
{
	for (int k = 0; k < p->function->n_arguments && p->runs; k++)
		if (p->function->arguments[k].out) {
			cg_print_separator(text, "\n");
			cg_print_form(p, text, form, &p->function->arguments[k], NULL);
		}
}

static void run_outs(struct printer *p, struct cg_text *text) { each_out(p, text, p->dialect->run_out); }
static void run_puts(struct printer *p, struct cg_text *text) { each_out(p, text, p->dialect->run_put); }

static void stores(struct printer *p, struct cg_text *text)
{
	for (int k = 0; k < p->function->n_arguments; k++) {
		const struct cg_argument *a = &p->function->arguments[k];
		struct cg_text value = { text->resize, NULL, 0, 0, 0 };

		if (!a->out)
			continue;
		cg_print_expression(p, &value, a->node, 0);
		text->failed |= value.failed;
		cg_print_store(p, text, a, a->name, value.at);
		value.resize(value.at, 0);
	}
}

/* The index of the equation of the function's last statement that comes from an equation; -1: no statement comes from one. */
static int last_origin(const struct printer *p)
{
	int origin = -1;

	for (int k = 0; k < p->function->n_schedule; k++) {
		int id = p->function->schedule[k];

		if (p->name[id] && p->plan->graph.nodes[id].origin >= 0)
			origin = p->plan->graph.nodes[id].origin;
	}
	return origin;
}

/* Prints a section of a template once for each value that the function sums over rows or units, or whose mean it computes. */
static void each_value(struct printer *p, struct cg_text *text, const char *section)
{
	struct cg_section form;
	/* In a block of partial sums, those for the gradients of scalars stand behind those for biases and weights. */
	int value = p->function->shape == CG_FUNCTION_SUM_UNITS ? cg_sum_values(p->function) - cg_count_outputs(p->function) : 0;
	int origin = p->function->shape == CG_FUNCTION_MEAN ? last_origin(p) : -1;

	if (cg_section_find(template_of(p)->file, section, p->dialect->shape, &form) &&
	    cg_section_find(template_of(p)->file, section, cg_lang_names[p->lang], &form))
		return;
	for (int k = 0; k < p->function->n_arguments; k++) {
		const struct cg_argument *a = &p->function->arguments[k];
		struct cg_text term = { text->resize, NULL, 0, 0, 0 }, mean = term;
		char which[16];

		if (!a->out || a->kind == CG_KIND_SCRATCH)
			continue;
		snprintf(which, sizeof which, "%d", value++);
		cg_print_separator(text, "\n");
		if (p->function->shape == CG_FUNCTION_SUM_PART)
			cg_print_expression(p, &term, a->node, 0);
		if (p->function->shape == CG_FUNCTION_MEAN) {
			cg_print_expression(p, &term, p->plan->graph.nodes[a->node].a, 0);
			put_mean(p, &mean, a);
			if (!strcmp(section, "add"))
				cg_print_equation(p, text, &p->plan->graph.nodes[a->node], &origin);
		}
		const char *const holes[] = { "name", a->name, "which", which, "value", term.at ? term.at : "", "mean", mean.at ? mean.at : "",
			"key", p->function->key, "real(", p->plain ? "" : "to_real(", "acc(", p->plain ? "" : "to_acc(",
			")", p->plain ? "" : ")", NULL };

		cg_fill(text, form.at, form.length - 1, holes);
		text->failed |= term.failed | mean.failed;
		term.resize(term.at, 0);
		mean.resize(mean.at, 0);
	}
}

/* ---- loops and second forms ---- */

/* Prints the number of vectors that a processor's loop interleaves: 8 if a vector takes one or two slow operations (reciprocal, exp, tanh
 * or sigmoid), each of which waits for the one before; else 4.  With more slow operations 8 vectors would need too many registers. */
static void interleave(struct printer *p, struct cg_text *text)
{
	int chains = 0;

	for (int k = 0; k < p->function->n_schedule; k++) {
		int code = p->plan->graph.nodes[p->function->schedule[k]].code;

		chains += code == CG_OP_RECIP || code == CG_OP_EXP || code == CG_OP_TANH || code == CG_OP_SIGMOID;
	}
	cg_text_put(text, chains == 1 || chains == 2 ? "8" : "4");
}

/* Prints the second form of a kernel whose threads compute several units: in it a thread computes one unit at a time. */
static void one(struct printer *p, struct cg_text *text)
{
	struct cg_text list = { text->resize, NULL, 0, 0, 0 }, given = list;
	int run = p->runs ? cg_run_units(p->plan, p->function) : 1;
	char key[CG_KEY_MAX], units[16], threads[16];
	struct cg_section section;

	if (run == 1)
		return;
	cg_one_key(p->function, key);
	snprintf(units, sizeof units, "%d", run);
	snprintf(threads, sizeof threads, "%d", CG_RUN_THREADS);
	parameters(p, &list);
	put_names(p, &given);
	const char *const holes[] = { "key", p->function->key, "one_key", key, "kernel", p->dialect->kernel, "run", units,
		"run_threads", threads, "parameters", list.at ? list.at : "", "names", given.at ? given.at : "", NULL };

	if (cg_section_find("point.in", "one", cg_lang_names[p->lang], &section))
		text->failed = 1;
	else
		cg_fill(text, section.at, section.length, holes);
	text->failed |= list.failed | given.failed;
	text->resize(list.at, 0);
	text->resize(given.at, 0);
}

/* ---- whole texts ---- */

enum { HOLES = 24, WORDS = 25 };

/* The holes of a template: pairs of a name and a text, with NULL behind them.  put_function() frees the texts in `made`. */
struct holes {
	const char *pairs[2 * (HOLES + WORDS) + 1];
	struct cg_text made[HOLES];
	int n, n_made;
};

static void add_hole(struct holes *h, const char *name, const char *text)
{
	h->pairs[h->n++] = name;
	h->pairs[h->n++] = text ? text : "";
	h->pairs[h->n] = NULL;
}

static struct cg_text *new_text(struct holes *h, const struct cg_text *like)
{
	struct cg_text *text = &h->made[h->n_made++];

	*text = (struct cg_text){ like->resize, NULL, 0, 0, 0 };
	return text;
}

/* The lists that fill holes, by the shapes of functions that have them. */
enum { POINT = 1 << CG_FUNCTION_POINT, PART = 1 << CG_FUNCTION_SUM_PART,
       MEAN = 1 << CG_FUNCTION_MEAN, ANY = POINT | PART | MEAN | 1 << CG_FUNCTION_SUM | 1 << CG_FUNCTION_SUM_UNITS };
static void add_lists(struct printer *p, const struct cg_text *text, struct holes *h)
{
	static const struct { const char *name; void (*put)(struct printer *, struct cg_text *); int shapes; } lists[] = {
		{ "parameters", parameters, ANY }, { "element_parameters", element_parameters, ANY }, { "names", put_names, ANY },
		{ "run_parameters", run_parameters, ANY }, { "run_arguments", run_arguments, ANY }, { "absent", absent, ANY },
		{ "loads", loads, POINT | PART | MEAN }, { "statements", cg_print_statements, POINT | PART | MEAN }, { "stores", stores, POINT },
		{ "about", cg_print_about, ANY }, { "run_ins", run_ins, ANY }, { "run_outs", run_outs, ANY }, { "run_puts", run_puts, ANY },
		{ "one", one, ANY }, { "interleave", interleave, ANY }, { "steps", cg_print_step_loop, POINT }
	};

	for (size_t k = 0; k < sizeof lists / sizeof *lists; k++)
		if (lists[k].shapes & 1 << p->function->shape) {
			struct cg_text *made = new_text(h, text);

			lists[k].put(p, made);
			add_hole(h, lists[k].name, made->at);
		}
}

/* Adds the holes for the values that a function sums, or whose means it computes. */
static void add_values(struct printer *p, const struct cg_text *text, struct holes *h)
{
	static const struct { const char *name, *section; } values[] = {
		{ "zeros", "zero" }, { "adds", "add" }, { "partials", "partial" }, { "totals", "total" }, { "unit_totals", "unit_total" }
	};

	for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
		struct cg_text *made = new_text(h, text);

		each_value(p, made, values[k].section);
		add_hole(h, values[k].name, made->at);
	}
}

static void add_words(const struct printer *p, const char *linkage, struct holes *h)
{
	const struct cg_dialect *d = p->dialect;
	const char *const words[] = { "key", p->function->key, "linkage", linkage, "kernel", d->kernel, "inline", d->inlined, "i64", d->i64,
		"unit", d->unit, "row", d->row, "row_step", d->row_step, "unit_step", d->unit_step, "global", d->global,
		"local", d->local, "item", d->item,
		"group_y", d->group_y, "groups_y", d->groups_y, "barrier", d->barrier,
		"real(", p->plain ? NULL : "to_real(", "acc(", p->plain ? NULL : "to_acc(", ")", p->plain ? NULL : ")" };

	for (size_t k = 0; k < sizeof words / sizeof *words; k += 2)
		add_hole(h, words[k], words[k + 1]);
}

static void add_number(struct holes *h, const char *name, int number, char text[16])
{
	snprintf(text, 16, "%d", number);
	add_hole(h, name, text);
}

static int put_function(struct printer *p, struct cg_text *text, const char *linkage)
{
	int is_point = p->function->shape == CG_FUNCTION_POINT;
	const char *file = template_of(p)->file, *section = template_of(p)->section;
	struct holes h = { .n = 0 };
	struct cg_section shape, element;
	char block[16], count[16], lanes[16], first[16], run[16], bounds[80];

	add_lists(p, text, &h);
	if (!is_point)
		add_values(p, text, &h);
	add_words(p, linkage, &h);
	add_number(&h, "block", CG_SUM_ROWS, block);
	add_number(&h, "values", p->function->shape == CG_FUNCTION_MEAN ? cg_count_outputs(p->function) : cg_sum_values(p->function), count);
	add_number(&h, "lanes", CG_LANES, lanes);
	add_number(&h, "first_value", cg_sum_values(p->function) - cg_count_outputs(p->function), first);
	add_hole(&h, "partial_offset", p->dialect->offsets ? "partial_offset + " : "");
	snprintf(bounds, sizeof bounds, p->dialect->bounds ? p->dialect->bounds : "", CG_LANES);
	add_hole(&h, "bounds", bounds);
	add_number(&h, "run", cg_run_units(p->plan, p->function), run);
	if ((cg_section_find(file, section, cg_lang_names[p->lang], &shape) && cg_section_find(file, section, p->dialect->shape, &shape)) ||
	    cg_section_find("point.in", "element", NULL, &element))
		return -1;
	if (is_point) {
		struct cg_text *made = new_text(&h, text);

		cg_fill(made, element.at, element.length, h.pairs);
		/* If the function loads nothing, the text begins with the blank line behind the loads, which is left out. */
		add_hole(&h, "element", made->at ? made->at + strspn(made->at, "\n") : NULL);
	}
	cg_fill(text, shape.at, shape.length, h.pairs);
	for (int k = 0; k < h.n_made; k++) {
		text->failed |= h.made[k].failed;
		text->resize(h.made[k].at, 0);
	}
	return 0;
}

int cg_print_functions(const struct cg_pass_plan *plan, int lang, const char *linkage, struct cg_text *text)
{
	struct printer p = { .plan = plan, .lang = lang, .dialect = &cg_dialects[lang], .plain = cg_is_plain(plan->dtype) };

	for (int k = 0; k < plan->n_functions; k++) {
		struct cg_arena memory = { text->resize, NULL, 0 };

		p.function = &plan->functions[k];
		p.runs = p.dialect->run_in && p.function->shape == CG_FUNCTION_POINT;
		/* Some sections of the prelude end with a blank line already. */
		if (text->length < 2 || memcmp(text->at + text->length - 2, "\n\n", 2))
			cg_text_put(text, "\n");
		if (cg_name_nodes(plan, p.function, &memory, &p.name) || put_function(&p, text, linkage))
			text->failed = 1;
		cg_arena_free(&memory);
	}
	return text->failed ? -1 : 0;
}

/* Does the list contain a cell with this name and this text? */
static int is_among(const struct cg_embedded *e, const struct cg_cell *cell)
{
	char file[CG_NAME_MAX + 8];

	snprintf(file, sizeof file, "%s.cell", cell->name);
	for (; e->name; e++)
		if (!strcmp(e->name, file))
			return !strcmp(e->text, cell->text);
	return 0;
}

int cg_is_template(const struct cg_cell *cell)
{
	return is_among(cg_embedded, cell);
}

int cg_is_listed(const struct cg_cell *cell)
{
	return is_among(cg_embedded, cell) || is_among(cg_shelf, cell);
}

/* Prints the command that makes a text. */
void cg_print_command(const struct cg_pass_plan *plan, int lang, struct cg_text *text)
{
	const struct cg_cell *cell = plan->cell;
	int first = 1;

	cg_text_printf(text, cg_is_listed(cell) ? "cellgrad emit %s" : "cellgrad emit ./%s.cell", cell->name);
	for (int k = 0; k < cell->n_options; k++)
		if (plan->options >> k & 1) {
			cg_text_printf(text, "%s%s", first ? " --options " : ",", cell->options[k].name);
			first = 0;
		}
	if (plan->steps)
		cg_text_put(text, " --shape scan");
	if (plan->stage && cell->n_stages > 1)
		cg_text_printf(text, " --stage %d", plan->stage);
	cg_text_printf(text, " --pass %s --dtype %s --lang %s", cg_pass_names[plan->pass], cg_real_names[plan->dtype],
	               cg_lang_names[lang]);
}

/* Prints the text around the functions that gives them C's names in C++, too, where the dialect may be compiled as C and as C++. */
static void put_linkage(struct cg_text *text, int lang, const char *name)
{
	struct cg_section section;

	if (!cg_section_find(cg_dialects[lang].file, name, NULL, &section))
		cg_text_put_n(text, section.at, section.length);
}

int cg_print(const struct cg_pass_plan *plan, int lang, struct cg_text *text)
{
	if (plan->print)
		return plan->print(plan, lang, text);
	cg_text_printf(text, "/* %s: ", plan->key);
	cg_print_command(plan, lang, text);
	cg_text_put(text, " */\n\n");
	if (cg_print_prelude(&plan, 1, lang, text))
		return -1;
	put_linkage(text, lang, "open");
	if (cg_print_functions(plan, lang, "", text))
		return -1;
	put_linkage(text, lang, "close");
	return text->failed ? -1 : 0;
}

/* ---- prototypes ---- */

/* Prints "CG_LSTM_F32_GRAD_H". */
static void put_guard(struct cg_text *text, const char *key)
{
	for (; *key; key++)
		cg_text_put_n(text, (char[]){ (char)(*key >= 'a' && *key <= 'z' ? *key - 'a' + 'A' : *key) }, 1);
	cg_text_put(text, "_H");
}

static void put_prototype(struct printer *p, struct cg_text *text)
{
	static const char form[] = "@about@\nvoid @key@(\n\t@parameters@);\n";
	struct cg_text comment = { text->resize, NULL, 0, 0, 0 }, list = comment;

	cg_print_about(p, &comment);
	parameters(p, &list);
	const char *const holes[] = { "about", comment.at ? comment.at : "", "key", p->function->key, "parameters", list.at ? list.at : "",
	                              NULL };

	cg_fill(text, form, strlen(form), holes);
	text->failed |= comment.failed | list.failed;
	text->resize(comment.at, 0);
	text->resize(list.at, 0);
}

int cg_print_header(const struct cg_pass_plan *plan, struct cg_text *text)
{
	const struct cg_dtype_row *real = &cg_dtypes[plan->dtype];
	struct printer p = { .plan = plan, .dialect = &cg_dialects[CG_LANG_C], .header = 1 };

	cg_text_printf(text, "/* %s: ", plan->key);
	cg_print_command(plan, CG_LANG_C, text);
	cg_text_put(text, " --header */\n#ifndef ");
	put_guard(text, plan->key);
	cg_text_put(text, "\n#define ");
	put_guard(text, plan->key);
	cg_text_put(text, "\n\n#include <stdint.h>\n\n");
	if (!real->type)
		cg_text_printf(text, "/* An element of type %s holds the %s. */\n\n", cg_type_word(p.dialect, plan->dtype), real->bits);
	put_linkage(text, CG_LANG_C, "open");
	for (int k = 0; k < plan->n_functions; k++) {
		p.function = &plan->functions[k];
		if (k)
			cg_text_put(text, "\n");
		put_prototype(&p, text);
	}
	put_linkage(text, CG_LANG_C, "close");
	cg_text_put(text, "\n#endif\n");
	return text->failed ? -1 : 0;
}
