/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints all steps of a sequence: the struct of arguments, the functions over elements, the tiles, and the functions for the caller.
 * The text's sections are in templates/scan.in.
 */
#include "steps.h"

#include <stdio.h>
#include <string.h>

#include "step_fields.h"
#include "tiles.h"

/* ---- text ---- */

enum { TEXTS = 24 };

/* The holes of a template, with their texts, which are freed together. */
struct holes {
	const char *pairs[2 * TEXTS + 1];
	struct cg_text text[TEXTS];
	int n;
};

/* Adds a hole of the template and returns the hole's text, which the caller fills before it adds the next hole. */
static struct cg_text *add_hole(struct holes *h, const char *name, cg_resize *resize)
{
	h->pairs[2 * h->n] = name;
	h->text[h->n] = (struct cg_text){ .resize = resize };
	return &h->text[h->n++];
}

static int put(struct cg_text *text, const char *name, const char *qualifier, struct holes *h)
{
	struct cg_section section;

	if (cg_section_find("scan.in", name, qualifier, &section))
		return -1;
	for (int k = 0; k < h->n; k++) {
		h->pairs[2 * k + 1] = h->text[k].at ? h->text[k].at : "";
		text->failed |= h->text[k].failed;
	}
	h->pairs[2 * h->n] = NULL;
	cg_fill(text, section.at, section.length, h->pairs);
	return text->failed ? -1 : 0;
}

static void free_holes(struct holes *h)
{
	for (int k = 0; k < h->n; k++)
		h->text[k].resize(h->text[k].at, 0);
}

static const char *word_of(const struct steps *s)
{
	return s->backward ? "backward" : "forward";
}

static const char *type_of(const struct steps *s, int type)
{
	int dtype = s->plan->dtype;

	return type == CG_TYPE_I64 ? "int64_t" : cg_type_word(&cg_dialects[CG_LANG_C], type == CG_TYPE_REAL ? dtype : cg_dtypes[dtype].acc);
}

/* ---- the header ---- */

/* Writes the declaration of a field: "const float *c_first; int64_t c_first_stride;". */
static void declare(const struct steps *s, const struct field *f, char text[200])
{
	const char *type = type_of(s, f->type), *given = f->out ? "" : "const ", *name = f->name;

	switch (f->kind) {
	case SEQUENCE: snprintf(text, 200, "%s%s *%s; int64_t %s_stride, %s_step;", given, type, name, name, name); break;
	case ONE_STEP:
	case MATRIX:   snprintf(text, 200, "%s%s *%s; int64_t %s_stride;", given, type, name, name); break;
	case PER_UNIT:
	case ELEMENT:  snprintf(text, 200, "%s%s *%s;", given, type, name); break;
	case MEMORY:   snprintf(text, 200, "void *%s;", name); break;
	default:       snprintf(text, 200, "%s %s;", type, name);
	}
}

static void put_struct(const struct steps *s, struct cg_text *text)
{
	enum { WIDEST = 52 };
	static const char *const flows[] = { "in     ", "out    ", "in out " };
	char line[200];
	int width = 0;

	for (int k = 0; k < s->n_fields; k++) {
		declare(s, &s->fields[k], line);
		if ((int)strlen(line) > width && strlen(line) <= WIDEST)
			width = (int)strlen(line);
	}
	cg_text_printf(text, "struct %s {\n", s->plan->key);
	for (int k = 0; k < s->n_fields; k++) {
		const struct field *f = &s->fields[k];
		int in_memory = f->kind != SCALAR && f->kind != COUNT && f->kind != MEMORY;

		declare(s, f, line);
		cg_text_printf(text, "\t%-*s /* %s%s%s%s */\n", width, line, in_memory ? flows[f->out] : "", f->shape,
		               f->shape[0] ? "  " : "", f->is);
	}
	cg_text_put(text, "};\n");
}

static void put_guard(struct cg_text *text, const char *key)
{
	for (; *key; key++)
		cg_text_put_n(text, (char[]){ (char)(*key >= 'a' && *key <= 'z' ? *key - 'a' + 'A' : *key) }, 1);
	cg_text_put(text, "_H\n");
}

static void put_linkage(struct cg_text *text, const char *name)
{
	struct cg_section section;

	if (!cg_section_find(cg_dialects[CG_LANG_C].file, name, NULL, &section))
		cg_text_put_n(text, section.at, section.length);
}

/* Prints the declarations with which both the header and the source begin. Guards surround the declarations, so that one file may contain
 * the header and the source. */
static int put_declarations(const struct steps *s, struct cg_text *text)
{
#define TEXT(with, code, name, text) text,
	static const char *const passes[] = { CG_PASSES(TEXT,) };
	const struct cg_dtype_row *real = &cg_dtypes[s->plan->dtype];
	struct holes h = { .n = 0 };
	int failed;

	cg_text_put(text, "#ifndef ");
	put_guard(text, s->plan->key);
	cg_text_put(text, "#define ");
	put_guard(text, s->plan->key);
	cg_text_put(text, "\n#include <stddef.h>\n#include <stdint.h>\n\n");
	if (!real->type)
		cg_text_printf(text, "/* An element of type %s holds the %s. */\n\n", type_of(s, CG_TYPE_REAL), real->bits);
	put_linkage(text, "open");
	cg_text_put(add_hole(&h, "key", text->resize), s->plan->key);
	cg_text_put(add_hole(&h, "pass", text->resize), passes[s->plan->pass]);
	cg_text_put(add_hole(&h, "cell", text->resize), s->plan->cell->name);
	failed = put(text, "about", NULL, &h);
	put_struct(s, text);
	cg_text_put(text, "\n");
	failed = failed || put(text, "prototypes", NULL, &h);
	free_holes(&h);
	put_linkage(text, "close");
	cg_text_put(text, "\n#endif\n");
	return failed;
}

int cg_print_steps_header(const struct cg_pass_plan *plan, struct cg_text *text)
{
	struct steps s;

	cg_lay_out_steps(&s, plan);
	cg_text_printf(text, "/* %s: ", plan->key);
	cg_print_command(plan, CG_LANG_C, text);
	cg_text_put(text, " --header */\n");
	return put_declarations(&s, text) || text->failed ? -1 : 0;
}

/* ---- an argument at a step ---- */

/* Behind packed matrices and copies of rows the workspace has places of [rows, units].  Backward has two places for the adjoint of each
 * previous value, then one for the adjoint of each feed, the operand of the next stage's product; forward has one place for each feed. */
static int feed_place(const struct steps *s, int feed)
{
	return s->backward ? 2 * s->plan->cell->n_prevs + feed : feed;
}

static int count_places(const struct steps *s)
{
	return feed_place(s, s->plan->cell->n_stages - 1);
}

static void put_sequence(struct cg_text *text, const char *name)
{
	cg_text_printf(text, "AT(a->%s, s * a->%s_step + u.first), a->%s_stride", name, name, name);
}

static void put_prev(const struct steps *s, const struct cg_argument *a, struct cg_text *text)
{
	const char *name = cg_get_prev_value(s, a->index);

	if (a->derivative == CG_VALUE)
		cg_text_printf(text, "s ? AT(a->%s, (s - 1) * a->%s_step + u.first) : AT(a->%s_first, u.first),\n"
		               "\ts ? a->%s_stride : a->%s_first_stride", name, name, name, name, name);
	else
		cg_text_printf(text, "s ? find_carry(a, %d, s - 1) + u.first : AT(a->%s, u.first), s ? units : a->%s_stride", a->index,
		               a->name, a->name);
}

static void put_argument(const struct steps *s, const struct cg_argument *a, struct cg_text *text)
{
	const char *d = a->derivative == CG_VALUE ? "" : "d";

	switch (a->role) {
	case CG_ROLE_GATE:
		cg_text_printf(text, "%sgates + %d * units + u.first, a->%sgates_stride", d, s->block[a->index], d);
		break;
	case CG_ROLE_PREV:
		put_prev(s, a, text);
		break;
	case CG_ROLE_STATE:
		if (a->derivative == CG_VALUE)
			put_sequence(text, a->name);
		else
			cg_text_printf(text, "s < last ? find_carry(a, %d, s) + u.first : AT(a->%s, u.first), s < last ? units : a->%s_stride",
			               a->index, a->name, a->name);
		break;
	case CG_ROLE_FEED:
		if (a->derivative == CG_VALUE && s->backward)
			put_sequence(text, a->name);
		else
			cg_text_printf(text, "%sfind_place(a, %d) + u.first, units", a->type == CG_TYPE_REAL && !s->plain ? "(real *)" : "",
			               feed_place(s, a->index));
		break;
	case CG_ROLE_WEIGHT:
		cg_text_printf(text, "AT(a->%s, u.first)", a->name);
		break;
	case CG_ROLE_SCALAR:
	case CG_ROLE_PARAM:
		cg_text_printf(text, "a->%s", a->name);
		break;
	default:
		put_sequence(text, a->name);
	}
}

/* ---- the functions ---- */

static void put_operand(const struct steps *s, int stage, struct cg_text *text)
{
	int saved = cg_feed_saved(s->plan, stage - 1);
	const char *name = saved < 0 ? "" : s->plan->cell->values[s->plan->cell->saves[saved]].name;

	if (saved < 0)
		cg_text_printf(text, "%sfind_place(a, %d), units", s->plain ? "" : "(real *)", feed_place(s, stage - 1));
	else
		cg_text_printf(text, "a->%s + s * a->%s_step, a->%s_stride", name, name, name);
}

/* Prints the call of a function over elements, with the product of its stage. */
static int put_phase(const struct steps *s, const struct cg_function *function, struct cg_text *text)
{
	int stage = function->stage - 1, failed;
	char name[CG_NAME_MAX + 16];
	struct holes h = { .n = 0 };
	struct cg_text *list;

	cg_name_d_h(s, name);
	cg_text_put(add_hole(&h, "point", text->resize), function->key);
	cg_text_put(add_hole(&h, "h", text->resize), cg_get_prev_value(s, s->output));
	cg_text_put(add_hole(&h, "d_h", text->resize), name);
	cg_text_printf(add_hole(&h, "h_index", text->resize), "%d", s->output);
	cg_text_printf(add_hole(&h, "stage", text->resize), "%d", stage);
	cg_text_printf(add_hole(&h, "first", text->resize), "%d", s->first[stage]);
	cg_text_put(add_hole(&h, "more", text->resize), stage + 1 < s->plan->cell->n_stages ? "meet" : "meet && s + 1 < a->steps");
	cg_text_put(add_hole(&h, "clear", text->resize), cg_gives_h_prev(s) ? "" : "clear(a, &u, before, stride);");
	if (stage) {
		put_operand(s, stage, add_hole(&h, "operand", text->resize));
		cg_text_printf(add_hole(&h, "place", text->resize), "%d", feed_place(s, stage - 1));
	}
	list = add_hole(&h, "arguments", text->resize);
	for (int k = 2; k < function->n_arguments; k++) {
		if (k > 2)
			cg_text_put(list, ",\n");
		put_argument(s, &function->arguments[k], list);
	}
	failed = put(text, stage ? "phase" : "phase_first", word_of(s), &h);
	free_holes(&h);
	return failed;
}

static int put_phases(const struct steps *s, struct cg_text *text)
{
	for (int p = 0; p < s->plan->n_functions; p++)
		if (put_phase(s, &s->plan->functions[p], text))
			return -1;
	return 0;
}

static void put_list(struct cg_text *text, int k, const char *form, int a, int b)
{
	cg_text_put(text, k ? ", " : "");
	cg_text_printf(text, form, a, b);
}

static int add_all_holes(const struct steps *s, struct holes *h, cg_resize *resize)
{
	const struct cg_cell *cell = s->plan->cell;
	struct cg_text *gates, *R, *stride;
	int most = CG_TILE_VECTORS, n = cell->n_stages;

	cg_text_put(add_hole(h, "key", resize), s->plan->key);
	cg_text_put(add_hole(h, "inline", resize), cg_dialects[CG_LANG_C].inlined);
	cg_text_printf(add_hole(h, "stages", resize), "%d", n);
	cg_text_printf(add_hole(h, "places", resize), "%d", count_places(s));
	cg_text_put(add_hole(h, "place_bytes", resize), count_places(s) ? " + PLACES * count_place_bytes(a)" : "");
	cg_text_put(add_hole(h, "product_is", resize), s->backward ? "adjoints of gates times the transposed matrix" :
	            "the output of the step before, or the value of the stage before, times the matrix");
	cg_text_put(add_hole(h, "enter", resize), cg_sets_registers(s->plan->dtype) ? "set_registers(rows);" : "");
	cg_text_put(add_hole(h, "leave", resize), cg_sets_registers(s->plan->dtype) ? "release_registers();" : "");
	cg_text_put(add_hole(h, "gates", resize), s->backward ? "1" : "stage_gates[stage].count");
	cg_text_put(add_hole(h, "k", resize), s->backward ? "stage_gates[stage].count * a->units" : "a->units");
	cg_text_put(add_hole(h, "transposed", resize), s->backward ? "a->by_input != 0" : "!a->by_input");
	gates = add_hole(h, "stage_gates", resize);
	for (int k = 0; k < n; k++)
		put_list(gates, k, "{ %d, %d }", s->first[k], s->first[k + 1] - s->first[k]);
	R = add_hole(h, "R", resize);
	for (int k = 0; k < n; k++)
		put_list(R, k, n > 1 ? "a->R_s%d" : "a->R", k + 1, 0);
	stride = add_hole(h, "R_stride", resize);
	for (int k = 0; k < n; k++) {
		put_list(stride, k, n > 1 ? "a->R_s%d_stride" : "a->R_stride", k + 1, 0);
		most = !s->backward && s->first[k + 1] - s->first[k] > most ? s->first[k + 1] - s->first[k] : most;
	}
	cg_text_printf(add_hole(h, "most", resize), "%d", most);
	cg_text_put(add_hole(h, "pointers", resize),
	            s->backward && cg_reads_gates(s->plan) ? "const acc *const gates = a->gates + s * a->gates_step;" : "");
	return put_phases(s, add_hole(h, "phases", resize));
}

/* Must a product's memory be cleared before the product adds to it, since no function over elements writes it? */
static int clears(const struct steps *s)
{
	return s->backward && (s->plan->cell->n_stages > 1 || !cg_gives_h_prev(s));
}

/* Does the text of the phases, the parts of a step, call the function of this name?  The text of the phases is the last hole. */
static int is_called(const struct holes *h, const char *name)
{
	const char *phases = h->text[h->n - 1].at;

	return phases && strstr(phases, name);
}

static int put_loop(const struct steps *s, struct cg_text *text)
{
	const char *dtype = cg_real_names[s->plan->dtype];
	struct holes h = { .n = 0 };
	int failed = add_all_holes(s, &h, text->resize), places = s->backward || is_called(&h, "find_place(");

	failed = failed || put(text, "shares", NULL, &h) || put(text, "copies", dtype, &h) ||
	         (count_places(s) && put(text, "places", NULL, &h)) || (count_places(s) && places && put(text, "place", NULL, &h)) ||
	         (s->backward && put(text, "carry", NULL, &h)) || (clears(s) && put(text, "clear", NULL, &h)) ||
	         put(text, "tile_at", NULL, &h) || put(text, "multiply_some", NULL, &h) ||
	         (!s->plain && put(text, "element", dtype, &h)) || put(text, "multiply", dtype, &h);
	put_linkage(text, "open");
	failed = failed || put(text, "functions", NULL, &h) || put(text, "scan", word_of(s), &h);
	put_linkage(text, "close");
	for (int k = 0; k < h.n; k++)
		text->failed |= h.text[k].failed;
	free_holes(&h);
	return failed;
}

static int put_file(struct cg_text *text, const char *name)
{
	const struct cg_embedded *e = cg_embedded;

	while (e->name && strcmp(e->name, name))
		e++;
	cg_text_put(text, e->name ? e->text : "");
	return e->name ? 0 : -1;
}

int cg_print_steps(const struct cg_pass_plan *plan, int lang, struct cg_text *text)
{
	static const char *const words[] = { "shuffles", NULL };
	struct holes none = { .n = 0 };
	struct steps s;

	cg_lay_out_steps(&s, plan);
	cg_text_printf(text, "/* %s: ", plan->key);
	cg_print_command(plan, lang, text);
	cg_text_put(text, " */\n");
	if (put_declarations(&s, text))
		return -1;
	cg_text_put(text, "\n/* ---- one step: each element from the same element of its inputs ---- */\n\n");
	if (cg_print_prelude(&plan, 1, lang, text) || cg_print_functions(plan, lang, "static ", text))
		return -1;
	cg_text_put(text, "\n/* ---- products, by tiles of units ---- */\n\n");
	if (cg_print_sections(plan->dtype, lang, words, text) || put_file(text, "tile.h"))
		return -1;
	cg_text_put(text, "\n");
	if (put(text, "fused", NULL, &none) || cg_print_tiles(plan->dtype, text) || put(text, "unfused", NULL, &none))
		return -1;
	return put_loop(&s, text) || text->failed ? -1 : 0;
}

/* ---- the manifest ---- */

static void put_entry(const struct steps *s, const struct field *f, struct cg_text *text)
{
	static const char *const kinds[] = {
		[SEQUENCE] = "sequence", [ONE_STEP] = "tensor", [PER_UNIT] = "per_unit", [ELEMENT] = "element", [SCALAR] = "scalar",
		[COUNT] = "count",
		[MATRIX] = "matrix", [MEMORY] = "scratch"
	};
	static const char *const roles[] = {
		[CG_ROLE_GATE] = "gate", [CG_ROLE_PREV] = "prev", [CG_ROLE_STATE] = "state", [CG_ROLE_OUTPUT] = "output",
		[CG_ROLE_SAVED] = "saved", [CG_ROLE_FEED] = "feed", [CG_ROLE_WEIGHT] = "weight", [CG_ROLE_SCALAR] = "scalar",
		[CG_ROLE_PARAM] = "param"
	};
	static const char *const flows[] = { "in", "out", "inout" };
	int dtype = s->plan->dtype;
	char name[CG_NAME_MAX + 24], value[40];

	cg_text_printf(text, "{\"name\": \"%s\", \"role\": \"%s\", \"index\": %d, \"order\": \"%s\", \"kind\": \"%s\", \"type\": \"%s\", "
	               "\"shape\": \"%s\", \"flow\": \"%s\", \"optional\": %s", f->name, f->role < 0 ? f->kind == MATRIX ? "recurrent" : f->name : roles[f->role],
	               f->index, f->derivative == CG_VALUE ? "value" : "d", kinds[f->kind],
	               f->type == CG_TYPE_I64 ? "i64" : cg_real_names[f->type == CG_TYPE_REAL ? dtype : cg_dtypes[dtype].acc], f->shape,
	               flows[f->out],
	               !f->required && f->kind <= ELEMENT ? "true" : "false");
	if (f->role == CG_ROLE_GATE) {
		cg_text_printf(text, ", \"blocks\": %d, \"gates\": [", s->n_blocks);
		for (int k = 0; k < s->n_blocks; k++)
			cg_text_printf(text, "%s\"%s\"", k ? ", " : "", cg_get_step_gate(s, k));
		cg_text_put(text, "]");
	}
	if (f->kind == SCALAR && s->plan->cell->params[f->index].given) {
		snprintf(value, sizeof value, "%.17g", s->plan->cell->params[f->index].value);
		/* JSON requires a point as the decimal sign, in every locale. */
		for (char *c = value; *c; c++)
			*c = strchr("0123456789+-e", *c) ? *c : '.';
		cg_text_printf(text, ", \"default\": %s", value);
	}
	cg_text_put(text, "}");
	for (int k = 1; cg_name_member(f, k, name); k++)
		cg_text_printf(text, ",\n    {\"name\": \"%s\", \"of\": \"%s\", \"kind\": \"%s\", \"type\": \"i64\", \"flow\": \"in\"}", name, f->name,
		               k == 1 ? "stride" : "step");
}

int cg_print_steps_manifest(const struct cg_pass_plan *plan, int lang, struct cg_text *text)
{
	const struct cg_cell *cell = plan->cell;
	const char *first = "";
	struct steps s;

	cg_lay_out_steps(&s, plan);
	cg_text_printf(text, "{\n  \"key\": \"%s\",\n  \"command\": \"", plan->key);
	cg_print_command(plan, lang, text);
	cg_text_printf(text, "\",\n  \"lang\": \"%s\",\n  \"shape\": \"scan\",\n  \"cell\": \"%s\",\n  \"options\": [", cg_lang_names[lang],
	               cell->name);
	for (int k = 0; k < cell->n_options; k++)
		if (plan->options >> k & 1) {
			cg_text_printf(text, "%s\"%s\"", first, cell->options[k].name);
			first = ", ";
		}
	cg_text_printf(text, "],\n  \"pass\": \"%s\",\n  \"dtype\": \"%s\",\n  \"real\": \"%s\",\n  \"acc\": \"%s\",\n  \"flags\": %s,\n"
	               "  \"functions\": {\"bytes\": \"%s_bytes\", \"pack\": \"%s_pack\", \"scan\": \"%s\"},\n  \"struct\": \"%s\",\n"
	               "  \"fields\": [",
	               cg_pass_names[plan->pass], cg_real_names[plan->dtype], cg_real_names[plan->dtype],
	               cg_real_names[cg_dtypes[plan->dtype].acc],
	               cg_dialects[lang].flags, plan->key, plan->key, plan->key, plan->key);
	for (int k = 0; k < s.n_fields; k++) {
		cg_text_put(text, k ? ",\n    " : "\n    ");
		put_entry(&s, &s.fields[k], text);
	}
	cg_text_put(text, "\n  ]\n}\n");
	return text->failed ? -1 : 0;
}
