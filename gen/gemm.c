/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix products for devices without a BLAS: the tile sizes that suit a device, the kernel's text, and its launch.
 * The text's sections are in templates/gemm.in.  The tile sizes change no bit of a result.
 */
#include "cell.h"

#include <stdio.h>
#include <string.h>

/* ---- tiles ---- */

struct tile {
	int rows, columns, depth, item_rows, item_columns;
	int spare;                               /* the tile is taken only where no other tile fits the device */
};

/* The tiles of products by panels, as on a CPU, from the largest down.  In this table `columns` is a number of blocks of sums; set_tile()
 * multiplies that number by the columns of a block, which depend on the device's vectors. */
static const struct tile panel_tiles[] = {
	{ 128, 4, 128, 0, 0, 0 },
	{  64, 2, 128, 0, 0, 0 },
	{  32, 1, 128, 0, 0, 0 },
	{  32, 1,  32, 0, 0, 1 },
};
static const struct tile group_tiles[] = {
	{ 128, 128, 16, 8, 8, 0 },
	{  64,  64, 16, 4, 4, 0 },
	{  32,  64, 16, 4, 4, 0 },
	{  16,  32, 32, 2, 4, 0 },
	{   8,  16, 16, 2, 4, 1 },
};

enum {
	LOCAL_RUN = 4, LOCAL_PAD = 4,            /* as in templates/gemm.in */
	WIDEST = 64,                             /* bytes of the widest vector that a text uses */
	MOST_DOWN = 65535,                       /* the most groups in the second direction of a CUDA launch */
	GROUPS_PER_UNIT = 4                      /* groups for each compute unit of a CPU: enough that no unit waits long for the last group */
};

static int64_t tiles_of(int64_t length, int tile)
{
	return length / tile + (length % tile != 0);
}

size_t cg_gemm_local_bytes(const struct cg_gemm_shape *s)
{
	size_t rows = (size_t)s->rows, columns = (size_t)s->columns, depth = (size_t)s->depth;

	return cg_acc_bytes(s->dtype) *
	       (s->local ? (rows + columns + 2 * LOCAL_PAD) * depth : (rows + columns) * depth + rows * columns);
}

static void set_tile(struct cg_gemm_shape *s, const struct tile *t, const struct cg_gemm_limits *limits)
{
	int bytes = (int)cg_acc_bytes(s->dtype);

	s->rows = t->rows;
	s->columns = t->columns;
	s->depth = t->depth;
	s->item_rows = t->item_rows;
	s->item_columns = t->item_columns;
	s->vector = LOCAL_RUN;
	if (s->local)
		return;
	for (s->vector = 2; 2 * s->vector * bytes <= limits->vector_bytes && s->vector * bytes < WIDEST; )
		s->vector *= 2;
	/* A processor's 32 registers of 64 bytes hold 8 by 3 vectors of sums and their operands; 16 narrower registers hold 4 by 3. */
	s->item_rows = s->vector * bytes < WIDEST ? 4 : 8;
	s->item_columns = 3 * s->vector;
	s->columns *= s->item_columns;
}

static int fits(const struct cg_gemm_shape *s, const struct cg_gemm_limits *limits)
{
	int items = s->local ? s->rows / s->item_rows * (s->columns / s->item_columns) : 1;

	return cg_gemm_local_bytes(s) <= limits->local_bytes && items <= limits->group;
}

/* Does the tile give every compute unit a group, or on a CPU GROUPS_PER_UNIT groups, and on a GPU waste less than half of its rows and less
 * than half of its columns? */
static int suits(const struct cg_gemm_shape *s, const struct cg_gemm_limits *limits, int64_t m, int64_t n)
{
	int64_t across = tiles_of(n, s->columns), down = tiles_of(m, s->rows);
	int64_t wanted = (int64_t)limits->units * (s->local ? 1 : GROUPS_PER_UNIT);

	if (s->local && (s->rows >= 2 * m || s->columns >= 2 * n))
		return 0;
	return down && across >= (wanted + down - 1) / down;
}

int cg_gemm_tiles(const struct cg_gemm_shape *shape, const struct cg_gemm_limits *limits, struct cg_gemm_shape tiles[CG_GEMM_TILES])
{
	const struct tile *t = limits->cpu ? panel_tiles : group_tiles;
	int rows = limits->cpu ? (int)(sizeof panel_tiles / sizeof *panel_tiles) : (int)(sizeof group_tiles / sizeof *group_tiles);
	struct cg_gemm_shape s = *shape;
	int n = 0;

	s.transpose_a = !!s.transpose_a;
	s.transpose_b = !!s.transpose_b;
	s.start_acc = s.start_acc && !cg_is_plain(s.dtype);
	s.c_acc = s.c_acc && !cg_is_plain(s.dtype);
	s.local = !limits->cpu;
	s.fma = limits->fma;
	for (int k = 0; k < rows && !(n && t[k].spare); k++) {
		set_tile(&s, &t[k], limits);
		if (fits(&s, limits))
			tiles[n++] = s;
	}
	return n;
}

int cg_gemm_choose(const struct cg_gemm_shape *tiles, int n_tiles, const struct cg_gemm_limits *limits, int64_t m, int64_t n)
{
	int k = 0;

	while (k < n_tiles - 1 && !suits(&tiles[k], limits, m, n))
		k++;
	return k;
}

int cg_gemm_tile(struct cg_gemm_shape *shape, const struct cg_gemm_limits *limits, int64_t m, int64_t n)
{
	struct cg_gemm_shape tiles[CG_GEMM_TILES];
	int n_tiles = cg_gemm_tiles(shape, limits, tiles);

	if (n_tiles)
		*shape = tiles[cg_gemm_choose(tiles, n_tiles, limits, m, n)];
	return n_tiles ? 0 : -1;
}

int cg_gemm_launch(const struct cg_gemm_shape *s, int64_t m, int64_t n, size_t global[2], size_t local[2])
{
	int64_t across = tiles_of(n, s->columns), down = tiles_of(m, s->rows);

	local[0] = s->local ? (size_t)(s->rows / s->item_rows * (s->columns / s->item_columns)) : 1;
	local[1] = 1;
	if (s->local && down > MOST_DOWN)
		down = MOST_DOWN;
	global[0] = (size_t)across * local[0];
	global[1] = (size_t)down;
	return across && down;
}

/* ---- text ---- */

void cg_gemm_key(const struct cg_gemm_shape *s, char key[CG_KEY_MAX])
{
	snprintf(key, CG_KEY_MAX, "cg_gemm_%s_%c%c%s%s%s_%dx%d", cg_real_names[s->dtype], s->transpose_a ? 't' : 'n',
	         s->transpose_b ? 't' : 'n', s->start_acc ? "_start_acc" : "", s->c_acc ? "_c_acc" : "", s->local ? "_local" : "",
	         s->rows, s->columns);
}

/* How an operand of the product is read into a panel: copied, or transposed.  Panels of matrix a hold its rows and panels of matrix b its
 * columns, so of two matrices stored in the same order one is copied, the other transposed. */
static const struct access {
	const char *panel, *across, *along, *pack;
} beside = { "@x@", "1", "stride", "copy" }, apart = { "@x@ * stride", "stride", "1", "turn" };

static int power_of_two(int x)
{
	return x > 0 && !(x & (x - 1));
}

static int printable(const struct cg_gemm_shape *s, int lang)
{
	if (s->local ? !cg_dialects[lang].local : !cg_dialects[lang].panels)
		return 0;
	if (s->rows < 1 || s->columns < 1 || s->depth < 1 || s->item_rows < 1 || s->item_columns < 1 || s->vector < 1)
		return 0;
	if (s->rows % s->item_rows || s->columns % s->item_columns || s->item_columns % s->vector)
		return 0;
	if (s->local)
		return s->item_rows < s->vector || s->item_rows % s->vector == 0;
	return power_of_two(s->item_rows) && s->item_rows > 1 && s->item_rows <= 16 && power_of_two(s->vector) && s->vector > 1 &&
	       s->vector <= 16;
}

static void about(const struct cg_gemm_shape *s, const char *key, struct cg_text *text)
{
	cg_text_printf(text, "/*\n * %s: c [m, n] = start + a [m, k] b [k, n].\n"
	               " * The products are added to start in acc, one after the other in the order of k, and the sum is rounded once.\n"
	               " * Strides are in elements, from row to row.  With k = 0, a and b may be null.\n *", key);
	cg_text_printf(text, "\n *\ta            in  real    %s", s->transpose_a ? "[k, m]          transposed" : "[m, k]");
	cg_text_printf(text, "\n *\tb            in  real    %s", s->transpose_b ? "[n, k]          transposed" : "[k, n]");
	cg_text_printf(text, "\n *\tstart        in  %s    [m, n]          null: zeros; with a stride of 0 every row is the first; may be c itself",
	               s->start_acc ? "acc " : "real");
	cg_text_printf(text, "\n *\tc            out %s    [m, n]\n */", s->c_acc ? "acc " : "real");
}

/* The holes of all sections, in one list. */
enum { HOLES_MAX = 128, TEXT_MAX = 160 };

struct holes {
	const char *pairs[2 * HOLES_MAX + 1];
	char text[HOLES_MAX][TEXT_MAX];          /* texts of holes that this file formats */
	int n, used;
};

static void set_hole(struct holes *h, const char *hole, const char *text)
{
	h->pairs[h->n++] = hole;
	h->pairs[h->n++] = text;
	h->pairs[h->n] = NULL;
}

static void set_hole_number(struct holes *h, const char *hole, int x)
{
	snprintf(h->text[h->used], TEXT_MAX, "%d", x);
	set_hole(h, hole, h->text[h->used++]);
}

/* Fills a hole with a form in which x replaces @x@. */
static void set_hole_form(struct holes *h, const char *hole, const char *form, const char *x)
{
	char *to = h->text[h->used++], *end = to + TEXT_MAX - 1;

	set_hole(h, hole, to);
	while (*form && to < end)
		if (!strncmp(form, "@x@", 3)) {
			to += snprintf(to, (size_t)(end - to), "%s", x);
			form += 3;
		} else {
			*to++ = *form++;
		}
	*to = 0;
}

/* The number of rows of matrix a that are packed at once: a vector of them is no wider than the vectors of sums. */
static int pack_rows(const struct cg_gemm_shape *s)
{
	return s->item_rows < s->vector ? s->item_rows : s->vector;
}

/* Fills the holes for products by panels: matrix a is read by rows, matrix b by columns. */
static void set_panel_holes(struct holes *h, const struct cg_gemm_shape *s)
{
	const struct access *a = s->transpose_a ? &beside : &apart, *b = s->transpose_b ? &apart : &beside;
	char pack[24];

	set_hole_form(h, "a_panel", a->panel, "i");
	set_hole(h, "a_across", a->across);
	set_hole(h, "a_along", a->along);
	snprintf(pack, sizeof pack, "%s%d", a->pack, pack_rows(s));
	set_hole_form(h, "pack_a", "@x@", pack);
	set_hole(h, "a_first", s->transpose_a ? "first * a_stride + row" : "row * a_stride + first");
	set_hole_form(h, "b_panel", b->panel, "j");
	set_hole(h, "b_across", b->across);
	set_hole(h, "b_along", b->along);
	snprintf(pack, sizeof pack, "%s%d", b->pack, s->vector);
	set_hole_form(h, "pack_b", "@x@", pack);
	set_hole(h, "b_first", s->transpose_b ? "column * b_stride + first" : "first * b_stride + column");
	set_hole(h, "muladd", s->fma ? "fma(a, b, c)" : "a * b + c");
}

/* Fills the holes for products by groups, in which neighbouring work-items read neighbouring elements. */
static void set_group_holes(struct holes *h, const struct cg_gemm_shape *s, int lang)
{
	const struct cg_dialect *w = &cg_dialects[lang];
	int offsets = w->offsets;

	set_hole(h, "a_p", s->transpose_a ? "e / ROWS" : "e % DEPTH");
	set_hole(h, "a_i", s->transpose_a ? "e % ROWS" : "e / DEPTH");
	set_hole(h, "a_element", s->transpose_a ? "(first + p) * a_stride + row + i" : "(row + i) * a_stride + first + p");
	set_hole(h, "b_p", s->transpose_b ? "e % DEPTH" : "e / COLUMNS");
	set_hole(h, "b_j", s->transpose_b ? "e / DEPTH" : "e % COLUMNS");
	set_hole(h, "b_element", s->transpose_b ? "(column + j) * b_stride + first + p" : "(first + p) * b_stride + column + j");
	set_hole(h, "a_offset", offsets ? "a_offset + " : "");
	set_hole(h, "b_offset", offsets ? "b_offset + " : "");
	set_hole(h, "start_offset", offsets ? "start_offset + " : "");
	set_hole(h, "c_offset", offsets ? "c_offset + " : "");
	set_hole(h, "local", w->local);
	set_hole(h, "aligned", w->aligned);
	set_hole(h, "item", w->item);
	set_hole(h, "group_x", w->group_x);
	set_hole(h, "group_y", w->group_y);
	set_hole(h, "groups_y", w->groups_y);
	set_hole(h, "barrier", w->barrier);
	snprintf(h->text[h->used], TEXT_MAX, w->bounds, s->rows / s->item_rows * (s->columns / s->item_columns));
	set_hole(h, "bounds", h->text[h->used++]);
}

static void set_all_holes(struct holes *h, const struct cg_gemm_shape *s, int lang)
{
	int plain = cg_is_plain(s->dtype);

	set_hole(h, "kernel", cg_dialects[lang].kernel);
	set_hole(h, "inline", cg_dialects[lang].inlined);
	set_hole(h, "i64", cg_dialects[lang].i64);
	set_hole_number(h, "rows", s->rows);
	set_hole_number(h, "columns", s->columns);
	set_hole_number(h, "depth", s->depth);
	set_hole_number(h, "item_rows", s->item_rows);
	set_hole_number(h, "item_columns", s->item_columns);
	set_hole_number(h, "vector", s->vector);
	set_hole(h, "start_type", s->start_acc ? "acc" : "real");
	set_hole(h, "c_type", s->c_acc ? "acc" : "real");
	set_hole(h, "acc(", plain ? "" : "to_acc(");
	set_hole(h, ")", plain ? "" : ")");
	set_hole(h, "start(", plain || s->start_acc ? "" : "to_acc(");
	set_hole(h, "start)", plain || s->start_acc ? "" : ")");
	set_hole(h, "c(", plain || s->c_acc ? "" : "to_real(");
	set_hole(h, "c)", plain || s->c_acc ? "" : ")");
	if (s->local)
		set_group_holes(h, s, lang);
	else
		set_panel_holes(h, s);
}

static int put(struct cg_text *text, const char *name, const char *qualifier, const struct holes *h)
{
	struct cg_section section;

	if (cg_section_find("gemm.in", name, qualifier, &section))
		return -1;
	if (text->length > 1 && memcmp(text->at + text->length - 2, "\n\n", 2))
		cg_text_put(text, "\n");
	cg_fill(text, section.at, section.length, h->pairs);
	return 0;
}

/* Prints the functions that pack panels of one width: by copying, by transposing, or both. */
static int put_width(struct cg_text *text, const struct cg_gemm_shape *s, int width, int copy, int turn, struct holes *h)
{
	const char *real = cg_real_names[s->dtype];
	char accs[16];

	snprintf(accs, sizeof accs, "%s%d", cg_dtypes[cg_dtypes[s->dtype].acc].type, width);
	set_hole_form(h, "accs", "@x@", accs);
	set_hole_number(h, "w", width);
	set_hole(h, "deal", width == 2 ? "s01" : width == 4 ? "s0213" : width == 8 ? "s04152637" : "s08192a3b4c5d6e7f");
	return put(text, "vector", real, h) || put(text, "load", real, h) || (copy && put(text, "copy", NULL, h)) ||
	       (turn && put(text, "turn", NULL, h));
}

static int put_prelude(struct cg_text *text, const struct cg_gemm_shape *s, int lang, struct holes *h)
{
	int plain = cg_is_plain(s->dtype);
	const char *sections[5] = { "types" };
	int n = 1;

	if (!plain)
		sections[n++] = "to_acc";
	if (!plain && !s->c_acc)
		sections[n++] = "to_real";
	if (s->local && s->fma)
		sections[n++] = "muladd";
	if (cg_print_sections(s->dtype, lang, sections, text))
		return -1;
	return s->local && !s->fma ? put(text, "muladd", "plain", h) : 0;
}

static int put_text(struct cg_text *text, const struct cg_gemm_shape *s, int lang, struct holes *h)
{
	int a = pack_rows(s), b = s->vector, copy_a = s->transpose_a, copy_b = !s->transpose_b;
	struct holes widths = *h;

	if (put_prelude(text, s, lang, h) || put(text, "sizes", s->local ? "group" : "panels", h))
		return -1;
	if (!s->local && put_width(text, s, a, copy_a || (a == b && copy_b), !copy_a || (a == b && !copy_b), &widths))
		return -1;
	widths = *h;
	if (!s->local && a != b && put_width(text, s, b, copy_b, !copy_b, &widths))
		return -1;
	return put(text, s->local ? "group" : "panels", NULL, h);
}

int cg_print_gemm(const struct cg_gemm_shape *s, int lang, struct cg_text *text)
{
	struct cg_text comment = { text->resize, NULL, 0, 0, 0 }, parameters = comment;
	struct holes h = { .n = 0 };
	char key[CG_KEY_MAX];
	int failed;

	if (!printable(s, lang))
		return -1;
	cg_gemm_key(s, key);
	about(s, key, &comment);
	set_all_holes(&h, s, lang);
	failed = put(&parameters, "parameters", cg_lang_names[lang], &h);
	set_hole(&h, "key", key);
	set_hole(&h, "about", comment.at ? comment.at : "");
	set_hole(&h, "parameters", parameters.at ? parameters.at : "");
	cg_text_printf(text, "/* %s: a matrix product in language %s, made by cg_print_gemm */\n\n", key, cg_lang_names[lang]);
	failed = failed || put_text(text, s, lang, &h);
	text->failed |= comment.failed | parameters.failed;
	text->resize(comment.at, 0);
	text->resize(parameters.at, 0);
	return failed || text->failed ? -1 : 0;
}

/* ---- as a plan ---- */

static int print_plan(const struct cg_pass_plan *plan, int lang, struct cg_text *text)
{
	return cg_print_gemm(&plan->gemm, lang, text);
}

struct cg_pass_plan *cg_gemm_plan(const struct cg_gemm_shape *s, cg_resize *resize)
{
	int start = s->start_acc ? CG_TYPE_ACC : CG_TYPE_REAL, c = s->c_acc ? CG_TYPE_ACC : CG_TYPE_REAL;
	const struct cg_argument arguments[CG_GEMM_ARGUMENTS] = {
		[CG_GEMM_M]     = { .name = "m", .kind = CG_KIND_COUNT, .type = CG_TYPE_I64 },
		[CG_GEMM_N]     = { .name = "n", .kind = CG_KIND_COUNT, .type = CG_TYPE_I64 },
		[CG_GEMM_K]     = { .name = "k", .kind = CG_KIND_COUNT, .type = CG_TYPE_I64 },
		[CG_GEMM_A]     = { .name = "a", .kind = CG_KIND_TENSOR, .type = CG_TYPE_REAL },
		[CG_GEMM_B]     = { .name = "b", .kind = CG_KIND_TENSOR, .type = CG_TYPE_REAL },
		[CG_GEMM_START] = { .name = "start", .kind = CG_KIND_TENSOR, .type = start },
		[CG_GEMM_C]     = { .name = "c", .kind = CG_KIND_TENSOR, .type = c, .out = 1 },
	};
	struct cg_pass_plan *plan;
	char key[CG_KEY_MAX];

	cg_gemm_key(s, key);
	plan = cg_function_plan(key, CG_FUNCTION_PRODUCT, s->dtype, arguments, CG_GEMM_ARGUMENTS, resize);
	if (plan) {
		plan->gemm = *s;
		plan->print = print_plan;
	}
	return plan;
}
