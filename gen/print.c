/*
 * Pieces to text: expressions and statements from the graph, lists from the arguments, both put into the holes of the shapes
 * in templates/.  The words of a dialect are its row in dialect.c.
 */
#include "cell.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

struct printer {
	const struct cg_pass_plan *plan;
	const struct cg_piece *piece;
	const struct cg_dialect *dialect;
	const char **name;
	int plain;                                /* memory holds what arithmetic uses */
};

/* ---- expressions ---- */

enum { SUM, PRODUCT, SIGN, PRIMARY };

static void number(struct printer *p, struct cg_text *text, long double value)
{
	int narrow = strcmp(cg_acc_names[p->plan->dtype], "f64") != 0;
	double v = narrow ? (double)(float)value : (double)value;
	char digits[40];

	if (v == floor(v) && fabs(v) < 1e6 && !(v == 0 && signbit(v))) {
		snprintf(digits, sizeof digits, "%.0f", v);
	} else {
		for (int n = 1; n <= 17; n++) {
			snprintf(digits, sizeof digits, "%.*g", n, v);
			/* The fewest digits that say it; scanned back in the same locale as printed. */
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

static void expression(struct printer *p, struct cg_text *text, int id, int above, int own)
{
	const struct cg_node *node = &p->plan->graph.nodes[id];
	const struct cg_operator *op = &cg_operators[node->code];
	int level;

	if (!own && p->name[id]) {
		cg_text_put(text, p->name[id]);
		return;
	}
	switch (node->code) {
	case CG_OP_CONST:
		if (node->value < 0 && above > SUM)
			cg_text_put(text, "(");
		number(p, text, node->value);
		if (node->value < 0 && above > SUM)
			cg_text_put(text, ")");
		return;
	case CG_OP_ADD: level = SUM;     break;
	case CG_OP_MUL: level = PRODUCT; break;
	case CG_OP_NEG: level = SIGN;    break;
	default:
		cg_text_printf(text, "acc_%s(", op->section);
		expression(p, text, node->a, SUM, 0);
		if (op->arity == 2) {
			cg_text_put(text, ", ");
			expression(p, text, node->b, SUM, 0);
		}
		cg_text_put(text, ")");
		return;
	}
	if (level < above)
		cg_text_put(text, "(");
	if (node->code == CG_OP_NEG) {
		cg_text_put(text, "-");
		expression(p, text, node->a, PRIMARY, 0);
	} else {
		int a = node->a, b = node->b;
		const struct cg_node *nodes = p->plan->graph.nodes;

		/* Sums and products group to the left as C's do; what stands right of a sign binds tighter. */
		if (level == SUM && !p->name[a] && nodes[a].code == CG_OP_NEG) {
			int swap = a;

			a = b;
			b = swap;
		}
		if (level == SUM && !p->name[b] && nodes[b].code == CG_OP_NEG) {
			expression(p, text, a, SUM, 0);
			cg_text_put(text, " - ");
			expression(p, text, nodes[b].a, PRODUCT, 0);
		} else if (level == SUM && nodes[b].code == CG_OP_CONST && nodes[b].value < 0) {
			expression(p, text, a, SUM, 0);
			cg_text_put(text, " - ");
			number(p, text, -nodes[b].value);
		} else {
			expression(p, text, a, level, 0);
			cg_text_put(text, level == SUM ? " + " : " * ");
			expression(p, text, b, level + 1, 0);
		}
	}
	if (level < above)
		cg_text_put(text, ")");
}

/* ---- lists ---- */

static const char *type_name(const struct cg_argument *a)
{
	return a->type == CG_TYPE_REAL ? "real" : a->type == CG_TYPE_ACC ? "acc" : "int64_t";
}

static int in_memory(const struct cg_argument *a)
{
	return a->kind == CG_KIND_TENSOR || a->kind == CG_KIND_PER_UNIT;
}

static const char *parameter_form(const struct cg_dialect *d, const struct cg_argument *a)
{
	switch (a->kind) {
	case CG_KIND_TENSOR:   return a->out ? d->tensor_out : d->tensor_in;
	case CG_KIND_PER_UNIT: return a->out ? d->unit_out : d->unit_in;
	case CG_KIND_SCRATCH:  return a->out ? d->scratch_out : d->scratch_in;
	case CG_KIND_SCALAR:   return d->scalar;
	}
	return d->count;
}

static void put_form(struct cg_text *text, const char *form, const struct cg_argument *a, const char *value)
{
	const char *const words[] = { "name", a->name, "type", type_name(a), "value", value ? value : "", NULL };

	cg_fill(text, form, strlen(form), words);
}

static void separate(struct cg_text *text, const char *with)
{
	if (text->length)
		cg_text_put(text, with);
}

static void parameters(struct printer *p, struct cg_text *text)
{
	for (int k = 0; k < p->piece->n_arguments; k++) {
		const struct cg_argument *a = &p->piece->arguments[k];

		if (cg_is_parameter(p->piece, a)) {
			separate(text, a->role == CG_ROLE_UNITS ? ", " : ",\n");
			put_form(text, parameter_form(p->dialect, a), a, NULL);
		}
	}
}

/* What the function over a strip takes: pointers to the strip itself. */
static void run_parameters(struct printer *p, struct cg_text *text)
{
	for (int k = 0; k < p->piece->n_arguments; k++) {
		const struct cg_argument *a = &p->piece->arguments[k];

		if (a->kind == CG_KIND_SCALAR) {
			separate(text, ",\n");
			put_form(text, p->dialect->scalar, a, NULL);
		} else if (in_memory(a) && !cg_is_parameter(p->piece, a)) {
			separate(text, ",\n");
			put_form(text, "acc *restrict sum_@name@", a, NULL);
		} else if (in_memory(a)) {
			separate(text, ",\n");
			put_form(text, a->out ? "@type@ *restrict @name@_at" : "const @type@ *restrict @name@_at", a, NULL);
		}
	}
}

static void run_arguments(struct printer *p, struct cg_text *text)
{
	int value = 0;

	for (int k = 0; k < p->piece->n_arguments; k++) {
		const struct cg_argument *a = &p->piece->arguments[k];
		const char *at = a->kind == CG_KIND_TENSOR ? "row * @name@_stride + first" : "first";
		char form[160];

		if (a->kind == CG_KIND_SCALAR) {
			separate(text, ",\n");
			cg_text_put(text, a->name);
		} else if (in_memory(a) && !cg_is_parameter(p->piece, a)) {
			separate(text, ",\n");
			cg_text_printf(text, "sums + %d * units + first", value++);
		} else if (in_memory(a)) {
			separate(text, ",\n");
			snprintf(form, sizeof form, a->out ? "@name@ ? @name@ + %s : no_@name@" : "@name@ ? @name@ + %s : absent%s", at,
			         a->type == CG_TYPE_ACC && !p->plain ? "_acc" : "");
			put_form(text, form, a, NULL);
		}
	}
}

/* In the C text: what absent inputs read, and what absent outputs write. */
static void absent(struct printer *p, struct cg_text *text)
{
	int reads[2] = { 0, 0 };

	for (int k = 0; k < p->piece->n_arguments; k++) {
		const struct cg_argument *a = &p->piece->arguments[k];

		if (in_memory(a) && !a->out)
			reads[a->type == CG_TYPE_ACC && !p->plain] = 1;
	}
	if (reads[0])
		cg_text_put(text, "static const real absent[STRIP];\n");
	if (reads[1])
		cg_text_put(text, "static const acc absent_acc[STRIP];\n");
	for (int k = 0; k < p->piece->n_arguments; k++) {
		const struct cg_argument *a = &p->piece->arguments[k];

		if (in_memory(a) && a->out && cg_is_parameter(p->piece, a))
			put_form(text, "@type@ no_@name@[STRIP];\n", a, NULL);
	}
}

static void loads(struct printer *p, struct cg_text *text)
{
	const struct cg_dialect *d = p->dialect;

	for (int k = 0; k < p->piece->n_arguments; k++) {
		const struct cg_argument *a = &p->piece->arguments[k];
		int plain = p->plain || a->type == CG_TYPE_ACC, unit = a->kind == CG_KIND_PER_UNIT;

		if (!a->out && in_memory(a)) {
			separate(text, "\n");
			put_form(text, plain ? unit ? d->load_unit_plain : d->load_plain : unit ? d->load_unit : d->load, a, NULL);
		}
	}
}

static void statements(struct printer *p, struct cg_text *text)
{
	int origin = -1;

	for (int k = 0; k < p->piece->n_schedule; k++) {
		int id = p->piece->schedule[k];
		const struct cg_node *node = &p->plan->graph.nodes[id];

		if (!p->name[id])
			continue;
		separate(text, "\n");
		if (node->origin >= 0 && node->origin != origin) {
			origin = node->origin;
			cg_text_printf(text, "%s/* %s */\n", text->length ? "\n" : "", p->plan->cell->values[origin].line);
		}
		cg_text_printf(text, "const acc %s = ", p->name[id]);
		expression(p, text, id, SUM, 1);
		cg_text_put(text, ";");
	}
}

/* The variable, or the expression, that an output stores. */
static void value_of(struct printer *p, struct cg_text *text, const struct cg_argument *a)
{
	expression(p, text, a->node, SUM, 0);
}

static void stores(struct printer *p, struct cg_text *text)
{
	for (int k = 0; k < p->piece->n_arguments; k++) {
		const struct cg_argument *a = &p->piece->arguments[k];
		struct cg_text value = { text->resize, NULL, 0, 0, 0 };

		if (!a->out)
			continue;
		separate(text, "\n");
		value_of(p, &value, a);
		text->failed |= value.failed;
		put_form(text, p->plain || a->type == CG_TYPE_ACC ? p->dialect->store_plain : p->dialect->store, a, value.at);
		value.resize(value.at, 0);
	}
}

/* The forms of sum.in that are said once per value. */
static int each_value(struct printer *p, struct cg_text *text, const char *section)
{
	struct cg_section form;
	int value = 0;

	if (cg_section_find("sum.in", section, p->dialect->shape, &form) &&
	    cg_section_find("sum.in", section, p->dialect->name, &form))
		return 0;
	for (int k = 0; k < p->piece->n_arguments; k++) {
		const struct cg_argument *a = &p->piece->arguments[k];
		struct cg_text term = { text->resize, NULL, 0, 0, 0 };
		char which[16];

		if (!a->out || a->kind == CG_KIND_SCRATCH)
			continue;
		snprintf(which, sizeof which, "%d", value++);
		if (p->piece->shape == CG_PIECE_SUM_PART)
			value_of(p, &term, a);
		const char *const words[] = { "name", a->name, "which", which, "value", term.at ? term.at : "",
			"key", p->piece->key, "real(", p->plain ? "" : "to_real(", "acc(", p->plain ? "" : "to_acc(",
			")", p->plain ? "" : ")", NULL };

		separate(text, "\n");
		cg_fill(text, form.at, form.length - 1, words);
		text->failed |= term.failed;
		term.resize(term.at, 0);
	}
	return value;
}

/* ---- comments ---- */

static const char *const roles[] = {
	[CG_ROLE_GATE] = "pre-activation: x W + h R + b", [CG_ROLE_PREV] = "before the step", [CG_ROLE_STATE] = "after the step",
	[CG_ROLE_SAVED] = "kept by forward", [CG_ROLE_FEED] = "what the next stage's product takes",
	[CG_ROLE_WEIGHT] = "a weight per unit", [CG_ROLE_BIAS] = "a bias", [CG_ROLE_PARAM] = "rounded to real first",
	[CG_ROLE_SCRATCH] = "sums of blocks of rows", [CG_ROLE_ACCUMULATE] = "1: add to the sums that are there",
};

static void about_argument(struct cg_text *text, const struct cg_argument *a)
{
	static const char *const shapes[] = {
		[CG_KIND_TENSOR] = "[rows, units]", [CG_KIND_PER_UNIT] = "[units]", [CG_KIND_SCALAR] = "", [CG_KIND_COUNT] = "",
		[CG_KIND_SCRATCH] = "[blocks, values, units]",
	};
	cg_text_printf(text, "\n *\t%-12s %-3s %-7s %-15s ", a->name, a->out ? "out" : "in", type_name(a), shapes[a->kind]);
	if (a->order == CG_VALUE)
		cg_text_put(text, roles[a->role]);
	else
		cg_text_printf(text, "adjoint of %s", a->name + 1);
	if (a->out && a->role == CG_ROLE_PREV && a->type == CG_TYPE_ACC)
		cg_text_put(text, ", without what the products carry back");
}

static void about(struct printer *p, struct cg_text *text)
{
	static const char *const words[] = { "forward step", "gradient", "gradient's gradient" };
	const struct cg_pass_plan *plan = p->plan;
	const struct cg_piece *piece = p->piece;

	cg_text_printf(text, "/*\n * %s: ", piece->key);
	if (piece->shape == CG_PIECE_POINT)
		cg_text_printf(text, "the %s of cell %s", words[plan->pass], plan->cell->name);
	else if (piece->shape == CG_PIECE_SUM_PART)
		cg_text_printf(text, "sums over blocks of %d rows, for the function after it", CG_SUM_ROWS);
	else
		cg_text_put(text, "the sums of the blocks that the function before it made");
	if (plan->cell->n_stages > 1)
		cg_text_printf(text, ", stage %d", piece->stage);
	cg_text_put(text, ".\n * A null input reads as zeros; a null output is not written.  Strides are in elements.\n *");
	for (int k = 2; k < piece->n_arguments; k++)
		if (cg_is_parameter(p->piece, &piece->arguments[k]))
			about_argument(text, &piece->arguments[k]);
	cg_text_put(text, "\n */");
}

/* ---- whole texts ---- */

enum { HOLES = 12 };

static int put_piece(struct printer *p, struct cg_text *text, const char *linkage)
{
	static const char *const files[]    = { "point.in", "sum.in", "sum.in" };
	static const char *const sections[] = { "point", "part", "sum" };
	static void (*const lists[])(struct printer *, struct cg_text *) = {
		parameters, run_parameters, run_arguments, absent, loads, statements, stores, about
	};
	static const char *const list_names[] = {
		"parameters", "run_parameters", "run_arguments", "absent", "loads", "statements", "stores", "about"
	};
	static const char *const values[]      = { "zero", "add", "partial", "total" };
	static const char *const value_names[] = { "zeros", "adds", "partials", "totals" };
	struct cg_text hole[HOLES + 1];
	const char *words[2 * (HOLES + 12)];
	const struct cg_dialect *d = p->dialect;
	struct cg_section shape, element;
	char block[16], count[16];
	int n = 0, used = 0, n_values = 0;

	for (int k = 0; k <= HOLES; k++)
		hole[k] = (struct cg_text){ text->resize, NULL, 0, 0, 0 };
	for (size_t k = 0; k < sizeof lists / sizeof *lists; k++, used++) {
		if (p->piece->shape == CG_PIECE_SUM && (lists[k] == loads || lists[k] == statements || lists[k] == stores))
			continue;
		if (p->piece->shape == CG_PIECE_SUM_PART && lists[k] == stores)
			continue;
		lists[k](p, &hole[used]);
		words[n++] = list_names[k];
		words[n++] = hole[used].at ? hole[used].at : "";
	}
	for (int k = 0; k < 4 && p->piece->shape != CG_PIECE_POINT; k++, used++) {
		int any = each_value(p, &hole[used], values[k]);

		n_values = any ? any : n_values;
		words[n++] = value_names[k];
		words[n++] = hole[used].at ? hole[used].at : "";
	}
	snprintf(block, sizeof block, "%d", CG_SUM_ROWS);
	snprintf(count, sizeof count, "%d", n_values);
	const char *const rest[] = { "key", p->piece->key, "linkage", linkage, "kernel", d->kernel, "i64", d->i64, "block", block,
		"values", count, "unit", d->unit ? d->unit : "", "row", d->row ? d->row : "",
		"row_step", d->row_step ? d->row_step : "", "real(", p->plain ? "" : "to_real(", "acc(", p->plain ? "" : "to_acc(",
		")", p->plain ? "" : ")", NULL };
	for (int k = 0; rest[k]; k++)
		words[n++] = rest[k];
	words[n] = NULL;
	if ((cg_section_find(files[p->piece->shape], sections[p->piece->shape], d->name, &shape) &&
	     cg_section_find(files[p->piece->shape], sections[p->piece->shape], d->shape, &shape)) ||
	    cg_section_find("point.in", "element", NULL, &element))
		return -1;
	if (p->piece->shape == CG_PIECE_POINT) {
		cg_fill(&hole[used], element.at, element.length, words);
		words[n++] = "element";
		words[n++] = hole[used].at ? hole[used].at : "";
		words[n] = NULL;
	}
	cg_fill(text, shape.at, shape.length, words);
	for (int k = 0; k <= HOLES; k++) {
		text->failed |= hole[k].failed;
		text->resize(hole[k].at, 0);
	}
	return 0;
}

int cg_print_functions(const struct cg_pass_plan *plan, int lang, const char *linkage, struct cg_text *text)
{
	struct printer p = { plan, NULL, &cg_dialects[lang], NULL, plan->dtype < 2 };

	for (int k = 0; k < plan->n_pieces; k++) {
		struct cg_arena memory = { text->resize, NULL, 0 };

		p.piece = &plan->pieces[k];
		/* Some sections of the prelude end with a blank line. */
		if (text->length < 2 || memcmp(text->at + text->length - 2, "\n\n", 2))
			cg_text_put(text, "\n");
		if (cg_order(plan, p.piece, &memory, &p.name) || put_piece(&p, text, linkage))
			text->failed = 1;
		cg_arena_free(&memory);
	}
	return text->failed ? -1 : 0;
}

enum { SECTIONS_MAX = 64 };

struct sections { const char *name[SECTIONS_MAX]; size_t length[SECTIONS_MAX]; int n; };

/* Appends a section of the dialect's prelude or of the math text, after those it needs, unless it was appended before. */
static int put_section(struct cg_text *text, const struct cg_dialect *d, int dtype, const char *name, size_t length,
                       struct sections *done)
{
	const char *const qualifiers[] = { cg_real_names[dtype], cg_acc_names[dtype] };
	char word[40];
	struct cg_section section;
	int found = -1;

	for (int k = 0; k < done->n; k++)
		if (done->length[k] == length && !memcmp(done->name[k], name, length))
			return 0;
	if (done->n == SECTIONS_MAX || length >= sizeof word)
		return -1;
	memcpy(word, name, length);
	word[length] = 0;
	for (int k = 0; k < 4 && found; k++)
		found = cg_section_find(k < 2 ? d->file : "math.in", word, qualifiers[k % 2], &section);
	if (found)
		return -1;
	for (size_t k = 0; k < section.needs_length; k++) {
		size_t n = 0;

		while (k + n < section.needs_length && section.needs[k + n] != ' ')
			n++;
		if (n && put_section(text, d, dtype, section.needs + k, n, done))
			return -1;
		k += n;
	}
	done->name[done->n] = name;
	done->length[done->n++] = length;
	const char *const words[] = { "inline", d->inlined, NULL };
	cg_fill(text, section.at, section.length, words);
	return 0;
}

/* Does any function read, or write, what has to be converted? */
static int converts(const struct cg_pass_plan *const *plans, int n, int out)
{
	for (int k = 0; k < n; k++)
		for (int j = 0; j < plans[k]->n_pieces; j++) {
			const struct cg_piece *piece = &plans[k]->pieces[j];

			/* A sum adds to what its outputs hold. */
			for (int i = 0; i < piece->n_arguments && piece->shape != CG_PIECE_SUM_PART; i++)
				if (in_memory(&piece->arguments[i]) && piece->arguments[i].type == CG_TYPE_REAL &&
				    (piece->arguments[i].out == out || piece->shape == CG_PIECE_SUM))
					return 1;
			for (int i = 0; i < piece->n_arguments && piece->shape == CG_PIECE_SUM_PART && !out; i++)
				if (in_memory(&piece->arguments[i]) && piece->arguments[i].type == CG_TYPE_REAL && !piece->arguments[i].out)
					return 1;
		}
	return 0;
}

int cg_print_prelude(const struct cg_pass_plan *const *plans, int n, int lang, struct cg_text *text)
{
	const struct cg_dialect *d = &cg_dialects[lang];
	int dtype = plans[0]->dtype, used[CG_OP_COUNT] = { 0 };
	struct sections done = { .n = 0 };

	for (int k = 0; k < n; k++)
		for (int j = 0; j < plans[k]->n_pieces; j++)
			for (int s = 0; s < plans[k]->pieces[j].n_schedule; s++)
				used[plans[k]->graph.nodes[plans[k]->pieces[j].schedule[s]].code] = 1;
	if (put_section(text, d, dtype, "types", 5, &done))
		return -1;
	/* A function that nothing calls would be warned of. */
	for (int out = 0; out < 2 && dtype >= 2; out++)
		if (converts(plans, n, out) && put_section(text, d, dtype, out ? "to_real" : "to_acc", out ? 7 : 6, &done))
			return -1;
	for (int code = 0; code < CG_OP_COUNT; code++) {
		const char *section = cg_operators[code].section;

		if (used[code] && section && put_section(text, d, dtype, section, strlen(section), &done))
			return -1;
	}
	return text->failed ? -1 : 0;
}

int cg_print_sections(int dtype, int lang, const char *const *names, struct cg_text *text)
{
	struct sections done = { .n = 0 };

	for (; *names; names++)
		if (put_section(text, &cg_dialects[lang], dtype, *names, strlen(*names), &done))
			return -1;
	return text->failed ? -1 : 0;
}

int cg_print_math(int dtype, struct cg_text *text)
{
	struct sections done = { .n = 0 };

	if (put_section(text, &cg_dialects[CG_LANG_C], dtype, "types", 5, &done) ||
	    put_section(text, &cg_dialects[CG_LANG_C], dtype, "to_acc", 6, &done) ||
	    put_section(text, &cg_dialects[CG_LANG_C], dtype, "to_real", 7, &done))
		return -1;
	for (int code = 0; code < CG_OP_COUNT; code++) {
		const char *section = cg_operators[code].section;

		if (section && put_section(text, &cg_dialects[CG_LANG_C], dtype, section, strlen(section), &done))
			return -1;
	}
	return text->failed ? -1 : 0;
}

/* The command that makes a text. */
int cg_is_template(const struct cg_cell *cell)
{
	char file[CG_NAME_MAX + 8];

	snprintf(file, sizeof file, "%s.cell", cell->name);
	for (const struct cg_embedded *e = cg_embedded; e->name; e++)
		if (!strcmp(e->name, file))
			return !strcmp(e->text, cell->text);
	return 0;
}

void cg_print_command(const struct cg_pass_plan *plan, int lang, struct cg_text *text)
{
	const struct cg_cell *cell = plan->cell;
	int first = 1;

	cg_text_printf(text, cg_is_template(cell) ? "cellgrad emit %s" : "cellgrad emit ./%s.cell", cell->name);
	for (int k = 0; k < cell->n_options; k++)
		if (plan->options >> k & 1) {
			cg_text_printf(text, "%s%s", first ? " --options " : ",", cell->options[k].name);
			first = 0;
		}
	if (plan->stage && cell->n_stages > 1)
		cg_text_printf(text, " --stage %d", plan->stage);
	cg_text_printf(text, " --pass %s --dtype %s --lang %s", cg_pass_names[plan->pass], cg_real_names[plan->dtype],
	               cg_lang_names[lang]);
}

int cg_print(const struct cg_pass_plan *plan, int lang, struct cg_text *text)
{
	cg_text_printf(text, "/* %s: ", plan->key);
	cg_print_command(plan, lang, text);
	cg_text_put(text, " */\n\n");
	if (cg_print_prelude(&plan, 1, lang, text) || cg_print_functions(plan, lang, "", text))
		return -1;
	return text->failed ? -1 : 0;
}
