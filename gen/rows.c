/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Row copies, one or several in a launch: rows are gathered, scattered or added, with or without dropout of their elements.  This file
 * lists the shapes of row copies, prints their texts and sizes their launches.  The text's sections are in templates/rows.in.
 */
#include "rows.h"

#include <stdio.h>
#include <string.h>

/* ---- shapes ---- */

int cg_rows_shapes(int dtype, struct cg_rows_shape shapes[CG_ROWS_SHAPES])
{
	int n = cg_is_plain(dtype) ? 2 : CG_ROWS_SHAPES;

	for (int k = 0; k < n; k++)
		shapes[k] = (struct cg_rows_shape){ .dtype = dtype, .src_acc = k >> 2, .dst_acc = k >> 1 & 1, .drop = k & 1 };
	return n;
}

int cg_rows_index(const struct cg_rows_shape *s)
{
	return cg_is_plain(s->dtype) ? !!s->drop : !!s->src_acc << 2 | !!s->dst_acc << 1 | !!s->drop;
}

void cg_rows_key(const struct cg_rows_shape *s, char key[CG_KEY_MAX])
{
	int k = cg_rows_index(s);

	snprintf(key, CG_KEY_MAX, "cg_rows_%s%s%s%s", cg_real_names[s->dtype], k & 4 ? "_src_acc" : "", k & 2 ? "_dst_acc" : "",
	         k & 1 ? "_drop" : "");
}

/* ---- text ---- */

static void about(const struct cg_rows_shape *s, const char *key, int lang, struct cg_text *text)
{
	const char *src = s->src_acc ? "acc " : "real", *dst = s->dst_acc ? "acc " : "real";

	cg_text_printf(text, "/*\n * %s:\n * dst[to[p], j] = %s, or += with add, for %s <= p < rows and j < columns.\n"
	               " * Strides are in elements, from row to row.  Index arrays may be null.\n *", key,
	               s->drop ? "drop(src[from[p], j])" : "src[from[p], j]", cg_dialects[lang].strips ? "row" : "0");
	cg_text_printf(text, "\n *\tsrc          in  %s    [., columns]    with a stride of 0 every row is the first", src);
	cg_text_put(text, "\n *\tfrom         in  int64   [rows]          null: p");
	cg_text_printf(text, "\n *\tdst          out %s    [., columns]    shares no memory with the others", dst);
	cg_text_put(text, "\n *\tto           in  int64   [rows]          null: p; names no row twice");
	if (s->drop)
		cg_text_put(text, "\n *\tt, b         in  int64   [rows]          null: p / batch, p % batch"
		            "\n *\n * Element j of row p is dropped if word (first_unit + j) % 4 of Philox(key, (first_unit + j) / 4, b[p],"
		            "\n * first_t + t[p]) is less than `below`: a dropped"
		            "\n * element becomes 0, any other is multiplied by scale.");
	cg_text_put(text, "\n */");
}

/* The holes of all sections, in one list. */
enum { HOLES_MAX = 48 };

struct holes { const char *pairs[2 * HOLES_MAX + 1]; int n; };

static void set_hole(struct holes *h, const char *hole, const char *text)
{
	h->pairs[h->n++] = hole;
	h->pairs[h->n++] = text;
	h->pairs[h->n] = NULL;
}

static void set_conversion_holes(struct holes *h, const struct cg_rows_shape *s)
{
	int from = !s->src_acc && !cg_is_plain(s->dtype), to = !s->dst_acc && !cg_is_plain(s->dtype);

	set_hole(h, "src(", from ? "to_acc(" : "");
	set_hole(h, "src)", from ? ")" : "");
	set_hole(h, "old(", to ? "to_acc(" : "");
	set_hole(h, "old)", to ? ")" : "");
	set_hole(h, "dst(", to ? "to_real(" : "");
	set_hole(h, "dst)", to ? ")" : "");
}

/* The holes for elements and their random words, and for the parts of dropout around them. */
static void set_dropout_holes(struct holes *h, const struct cg_rows_shape *s, int lang)
{
	int c = cg_dialects[lang].strips;

	set_hole(h, "src", c ? "src[unit]" : "src.of[unit]");
	set_hole(h, "dst", c ? "dst[unit]" : "dst.of[unit]");
	set_hole(h, "word", c ? "[unit]" : ".of[unit]");
	set_hole(h, "run_drop", s->drop ? ",\n\tconst unsigned *restrict words, int64_t below, acc scale" : "");
	set_hole(h, "run_words", s->drop ? ", words + lead, below, scale" : "");
	set_hole(h, "lead", s->drop ? " - first_unit % 4" : "");
	set_hole(h, "words", !s->drop ? "" : c ? "unsigned words[STRIP + 4];" :
	    "const struct words words = philox(key0, key1, (unsigned)((first_unit + first) / 4), b, t);");
}

static void set_dialect_holes(struct holes *h, const struct cg_rows_shape *s, int lang)
{
	const struct cg_dialect *d = &cg_dialects[lang];

	set_hole(h, "kernel", d->kernel);
	set_hole(h, "inline", d->inlined);
	set_hole(h, "i64", d->i64);
	set_hole(h, "u64", d->bits[8]);
	set_hole(h, "global", d->global);
	set_hole(h, "row", d->row ? d->row : "");
	set_hole(h, "row_step", d->row_step ? d->row_step : "");
	set_hole(h, "unit", d->unit ? d->unit : "");
	set_hole(h, "unit_step", d->unit_step ? d->unit_step : "");
	set_hole(h, "src_offset", d->offsets ? "src_offset + " : "");
	set_hole(h, "dst_offset", d->offsets ? "dst_offset + " : "");
	set_hole(h, "from_offset", d->offsets ? "from_offset + " : "");
	set_hole(h, "to_offset", d->offsets ? "to_offset + " : "");
	set_hole(h, "t_offset", d->offsets ? "t_offset + " : "");
	set_hole(h, "b_offset", d->offsets ? "b_offset + " : "");
	set_hole(h, "src_type", s->src_acc ? "acc" : "real");
	set_hole(h, "dst_type", s->dst_acc ? "acc" : "real");
	set_conversion_holes(h, s);
	set_dropout_holes(h, s, lang);
}

static int put(struct cg_text *text, const char *name, const char *qualifier, const struct holes *h)
{
	struct cg_section section;

	if (cg_section_find("rows.in", name, qualifier, &section))
		return -1;
	cg_fill(text, section.at, section.length, h->pairs);
	return text->failed ? -1 : 0;
}

/* Prints a section that fills a hole of another section: the section's last line end is dropped. */
static int put_section(struct cg_text *text, const char *name, const char *qualifier, const struct holes *h)
{
	if (put(text, name, qualifier, h))
		return -1;
	text->at[--text->length] = 0;
	return 0;
}

/* Prints the load of four elements of one type, acc or real, and, where dst has that type, the store of four elements. */
static int put_four(struct cg_text *text, const struct cg_rows_shape *s, int acc, int lang)
{
	size_t bytes = 4 * (acc ? cg_acc_bytes(s->dtype) : cg_dtype_bytes(s->dtype));
	struct holes h = { .n = 0 };

	if (acc != s->src_acc && acc != s->dst_acc)
		return 0;
	set_hole(&h, "inline", cg_dialects[lang].inlined);
	set_hole(&h, "type", acc ? "acc" : "real");
	/* No load or store of a vector has more than 16 bytes: four elements of 8 bytes are two vectors. */
	set_hole(&h, "align", bytes < 16 ? "8" : "16");
	set_hole(&h, "load_four", bytes > 16 ? "vstore2(vload2(0, row + first), 0, x.of), vstore2(vload2(1, row + first), 1, x.of)"
	                             : "vstore4(vload4(0, row + first), 0, x.of)");
	set_hole(&h, "store_four", bytes > 16 ? "vstore2(vload2(0, x.of), 0, row + first), vstore2(vload2(1, x.of), 1, row + first)"
	                              : "vstore4(vload4(0, x.of), 0, row + first)");
	return put(text, "load", cg_lang_names[lang], &h) || (acc == s->dst_acc && put(text, "store", cg_lang_names[lang], &h));
}

/* Prints the prelude for functions of some shapes. */
static int put_prelude(struct cg_text *text, const struct cg_rows_shape *shapes, int n, int lang)
{
	const char *sections[4] = { "types" };
	struct holes h = { .n = 0 };
	int from = 0, to = 0, drop = 0, k = 1;

	for (int i = 0; i < n; i++) {
		from |= !(shapes[i].src_acc && shapes[i].dst_acc) && !cg_is_plain(shapes[i].dtype);
		to |= !shapes[i].dst_acc && !cg_is_plain(shapes[i].dtype);
		drop |= shapes[i].drop;
	}
	if (from)
		sections[k++] = "to_acc";
	if (to)
		sections[k++] = "to_real";
	set_dialect_holes(&h, shapes, lang);
	return cg_print_sections(shapes->dtype, lang, sections, text) || (drop && put(text, "philox", NULL, &h)) ||
	       (drop && cg_dialects[lang].strips && put(text, "draw", "c", &h));
}

/* The holes whose texts are in `parts`: the comment ABOUT and sections of rows.in.  DROP fills a hole of ELEMENT, and DROP_PARAMETERS one
 * of PARAMETERS, so ELEMENT and PARAMETERS come last. */
enum { DROP, DRAW_AT, STRIP, DROP_PARAMETERS, ABOUT, ELEMENT, PARAMETERS, PARTS };

static int set_part_holes(struct holes *h, const struct cg_rows_shape *s, int lang, const char *key, struct cg_text parts[PARTS])
{
	static const char *const names[] = {
		"drop", "draw_at", "strip", "drop_parameters", "about", "element", "parameters"
	};
	const char *dialect = cg_lang_names[lang];

	about(s, key, lang, &parts[ABOUT]);
	if (s->drop) {
		cg_text_put(&parts[DROP_PARAMETERS], ",\n");
		if (put_section(&parts[DROP], "drop", NULL, h) || put_section(&parts[DRAW_AT], "draw_at", NULL, h) ||
		    put_section(&parts[STRIP], "strip", NULL, h) || put_section(&parts[DROP_PARAMETERS], "drop_parameters", dialect, h))
			return -1;
	}
	for (int k = DROP; k <= ABOUT; k++)
		set_hole(h, names[k], parts[k].at ? parts[k].at : "");
	if (put_section(&parts[ELEMENT], "element", NULL, h) || put_section(&parts[PARAMETERS], "parameters", dialect, h))
		return -1;
	set_hole(h, names[ELEMENT], parts[ELEMENT].at);
	set_hole(h, names[PARAMETERS], parts[PARAMETERS].at);
	return 0;
}

static int put_function(struct cg_text *text, const struct cg_rows_shape *s, int lang, const char *linkage)
{
	struct cg_text parts[PARTS];
	struct holes h = { .n = 0 };
	char key[CG_KEY_MAX];
	int failed;

	for (int k = 0; k < PARTS; k++)
		parts[k] = (struct cg_text){ .resize = text->resize };
	cg_rows_key(s, key);
	set_dialect_holes(&h, s, lang);
	set_hole(&h, "key", key);
	set_hole(&h, "linkage", linkage);
	failed = set_part_holes(&h, s, lang, key, parts) || put(text, "rows", cg_dialects[lang].shape, &h);
	for (int k = 0; k < PARTS; k++) {
		failed |= parts[k].failed;
		text->resize(parts[k].at, 0);
	}
	return failed ? -1 : 0;
}

int cg_print_rows_functions(const struct cg_rows_shape *shapes, int n, int lang, const char *linkage, struct cg_text *text)
{
	int failed = put_prelude(text, shapes, n, lang);

	for (int k = 0; k < n && !failed; k++) {
		if (!cg_dialects[lang].strips)
			failed = put_four(text, &shapes[k], 0, lang) || put_four(text, &shapes[k], 1, lang);
		else if (k)
			cg_text_put(text, "\n");
		failed = failed || put_function(text, &shapes[k], lang, linkage);
	}
	return failed || text->failed ? -1 : 0;
}

int cg_print_rows(const struct cg_rows_shape *shape, int lang, struct cg_text *text)
{
	struct cg_rows_shape s, all[CG_ROWS_SHAPES];
	char key[CG_KEY_MAX];

	cg_rows_shapes(shape->dtype, all);
	s = all[cg_rows_index(shape)];
	cg_rows_key(&s, key);
	cg_text_printf(text, "/* %s: row copies in language %s, made by cg_print_rows */\n\n", key, cg_lang_names[lang]);
	return cg_print_rows_functions(&s, 1, lang, "", text);
}

/* ---- as a plan ---- */

static int print_plan(const struct cg_pass_plan *plan, int lang, struct cg_text *text)
{
	return cg_print_rows(&plan->rows, lang, text);
}

struct cg_pass_plan *cg_rows_plan(const struct cg_rows_shape *s, cg_resize *resize)
{
	int src = s->src_acc ? CG_TYPE_ACC : CG_TYPE_REAL, dst = s->dst_acc ? CG_TYPE_ACC : CG_TYPE_REAL;
	const struct cg_argument arguments[CG_ROWS_ARGUMENTS] = {
		[CG_ROWS_ROWS]       = { .name = "rows", .kind = CG_KIND_COUNT, .type = CG_TYPE_I64 },
		[CG_ROWS_COLUMNS]    = { .name = "columns", .kind = CG_KIND_COUNT, .type = CG_TYPE_I64 },
		[CG_ROWS_ADD]        = { .name = "add", .kind = CG_KIND_COUNT, .type = CG_TYPE_I32 },
		[CG_ROWS_SRC]        = { .name = "src", .kind = CG_KIND_TENSOR, .type = src },
		[CG_ROWS_FROM]       = { .name = "from", .kind = CG_KIND_PER_ROW, .type = CG_TYPE_I64 },
		[CG_ROWS_DST]        = { .name = "dst", .kind = CG_KIND_TENSOR, .type = dst, .out = 1 },
		[CG_ROWS_TO]         = { .name = "to", .kind = CG_KIND_PER_ROW, .type = CG_TYPE_I64 },
		[CG_ROWS_T]          = { .name = "t", .kind = CG_KIND_PER_ROW, .type = CG_TYPE_I64 },
		[CG_ROWS_B]          = { .name = "b", .kind = CG_KIND_PER_ROW, .type = CG_TYPE_I64 },
		[CG_ROWS_FIRST_T]    = { .name = "first_t", .kind = CG_KIND_COUNT, .type = CG_TYPE_I64 },
		[CG_ROWS_BATCH]      = { .name = "batch", .kind = CG_KIND_COUNT, .type = CG_TYPE_I64 },
		[CG_ROWS_FIRST_UNIT] = { .name = "first_unit", .kind = CG_KIND_COUNT, .type = CG_TYPE_I64 },
		[CG_ROWS_KEY0]       = { .name = "key0", .kind = CG_KIND_COUNT, .type = CG_TYPE_I32 },
		[CG_ROWS_KEY1]       = { .name = "key1", .kind = CG_KIND_COUNT, .type = CG_TYPE_I32 },
		[CG_ROWS_BELOW]      = { .name = "below", .kind = CG_KIND_COUNT, .type = CG_TYPE_I64 },
		[CG_ROWS_SCALE]      = { .name = "scale", .kind = CG_KIND_SCALAR, .type = CG_TYPE_ACC },
	};
	struct cg_pass_plan *plan;
	char key[CG_KEY_MAX];

	cg_rows_key(s, key);
	plan = cg_function_plan(key, CG_FUNCTION_ROWS, s->dtype, arguments, s->drop ? CG_ROWS_ARGUMENTS : CG_ROWS_T, resize);
	if (plan) {
		plan->rows = *s;
		plan->print = print_plan;
	}
	return plan;
}

/* ---- several row copies in one launch ---- */

void cg_rows_moves_key(int dtype, char key[CG_KEY_MAX])
{
	snprintf(key, CG_KEY_MAX, "cg_rows_moves_%s", cg_real_names[dtype]);
}

int cg_print_rows_moves(int dtype, struct cg_text *text)
{
	struct cg_rows_shape s = { .dtype = dtype, .drop = 1 };
	char key[CG_KEY_MAX], most[12];
	struct holes h = { .n = 0 };

	cg_rows_moves_key(dtype, key);
	snprintf(most, sizeof most, "%d", CG_ROWS_MOVES);
	cg_text_printf(text, "/* %s: several row copies in one launch, in language %s, made by cg_print_rows_moves */\n\n", key,
	               cg_lang_names[CG_LANG_CUDA]);
	set_hole(&h, "kernel", cg_dialects[CG_LANG_CUDA].kernel);
	set_hole(&h, "key", key);
	set_hole(&h, "most", most);
	set_conversion_holes(&h, &s);
	return put_prelude(text, &s, 1, CG_LANG_CUDA) || put_four(text, &s, 0, CG_LANG_CUDA) || put(text, "moves", "cuda", &h) ||
	       text->failed ? -1 : 0;
}

static int print_moves(const struct cg_pass_plan *plan, int lang, struct cg_text *text)
{
	return lang == CG_LANG_CUDA ? cg_print_rows_moves(plan->dtype, text) : -1;
}

struct cg_pass_plan *cg_rows_moves_plan(int dtype, cg_resize *resize)
{
	struct cg_pass_plan *plan;
	char key[CG_KEY_MAX];

	cg_rows_moves_key(dtype, key);
	plan = cg_function_plan(key, CG_FUNCTION_ROWS, dtype, NULL, 0, resize);
	if (plan)
		plan->print = print_moves;
	return plan;
}

/* ---- launch ---- */

static int64_t quotient_up(int64_t x, int64_t by)
{
	return x / by + (x % by != 0);
}

int cg_rows_launch(int64_t rows, int64_t columns, int64_t first_unit, int group, int tall, size_t global[2], size_t local[2])
{
	enum { GROUP = 256, MOST = 65535 };      /* MOST: the most groups in a direction; CUDA has no more in the second */
	int64_t draws = quotient_up(columns, 4) + (first_unit % 4 != 0), across, down;

	if (!rows || !columns)
		return 0;
	group = group < GROUP ? group : GROUP;
	local[0] = local[1] = 1;
	while (2 * local[0] <= (size_t)group && (int64_t)local[0] < draws)
		local[0] *= 2;
	while (2 * local[1] * local[0] <= (size_t)group && 2 * local[1] <= (size_t)tall && (int64_t)local[1] < rows)
		local[1] *= 2;
	across = quotient_up(draws, (int64_t)local[0]);
	down = quotient_up(rows, (int64_t)local[1]);
	global[0] = (size_t)(across < MOST ? across : MOST) * local[0];
	global[1] = (size_t)(down < MOST ? down : MOST) * local[1];
	return 1;
}

/* A move gets at most as many blocks as keep the device busy.  The blocks loop over the move's elements, so that a large move does not
 * delay small moves in the same launch. */
uint32_t cg_rows_moves_launch(struct cg_rows_move *moves, int n, int threads, int units)
{
	const int64_t most = 32 * (int64_t)units;
	uint32_t past = 0;

	for (int k = 0; k < n; k++) {
		struct cg_rows_move *m = &moves[k];
		int64_t runs = quotient_up(m->columns, 4), across, down;

		m->wide = 0;
		while (2 << m->wide <= threads && 1 << m->wide < runs)
			m->wide++;
		across = quotient_up(runs, 1 << m->wide);
		across = across < most ? across : most;
		down = quotient_up(m->rows, threads >> m->wide);
		down = down < most / across ? down : most / across;
		m->across = (uint32_t)across;
		m->past = past += (uint32_t)(across * down);
	}
	return past;
}
