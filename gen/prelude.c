/*
 * What stands above the functions of a text: the sections of the dialect's prelude and of the mathematics that they use, each
 * after those that it needs itself.
 */
#include "cell.h"

#include <string.h>

enum { SECTIONS_MAX = 64 };

struct sections { const char *name[SECTIONS_MAX]; size_t length[SECTIONS_MAX]; int n; };

static int put_section(struct cg_text *text, const struct cg_dialect *d, int dtype, const char *name, size_t length,
                       struct sections *done);

/* Appends the sections that another needs. */
static int put_needs(struct cg_text *text, const struct cg_dialect *d, int dtype, const struct cg_section *section,
                     struct sections *done)
{
	for (size_t k = 0; k < section->needs_length; k++) {
		size_t n = 0;

		while (k + n < section->needs_length && section->needs[k + n] != ' ')
			n++;
		if (n && put_section(text, d, dtype, section->needs + k, n, done))
			return -1;
		k += n;
	}
	return 0;
}

/* The section of one of the two files, for the dtype's real or for its acc. */
static int find(const char *file, const char *name, int dtype, struct cg_section *section)
{
	return cg_section_find(file, name, cg_real_names[dtype], section) && cg_section_find(file, name, cg_acc_names[dtype], section);
}

/* Appends a section of the dialect's prelude or of the math text, after those it needs, unless it was appended before.  Where a
 * prelude's section says @shared@ there comes the math text's of the same name. */
static int put_section(struct cg_text *text, const struct cg_dialect *d, int dtype, const char *name, size_t length,
                       struct sections *done)
{
	const char *const words[] = { "inline", d->inlined, NULL };
	static const char hole[] = "@shared@\n";
	struct cg_section section, shared;
	const char *at, *end;
	char word[40];

	for (int k = 0; k < done->n; k++)
		if (done->length[k] == length && !memcmp(done->name[k], name, length))
			return 0;
	if (done->n == SECTIONS_MAX || length >= sizeof word)
		return -1;
	memcpy(word, name, length);
	word[length] = 0;
	if (find(d->file, word, dtype, &section) && find("math.in", word, dtype, &section))
		return -1;
	at = strstr(section.at, hole);
	end = section.at + section.length;
	at = at && at < end ? at : NULL;
	if ((at && (find("math.in", word, dtype, &shared) || put_needs(text, d, dtype, &shared, done))) ||
	    put_needs(text, d, dtype, &section, done))
		return -1;
	done->name[done->n] = name;
	done->length[done->n++] = length;
	cg_fill(text, section.at, (size_t)((at ? at : end) - section.at), words);
	if (at) {
		cg_fill(text, shared.at, shared.length - (shared.length > 1 && shared.at[shared.length - 2] == '\n'), words);
		at += sizeof hole - 1;
		cg_fill(text, at, (size_t)(end - at), words);
	}
	return 0;
}

static int converted(const struct cg_argument *a)
{
	return (a->kind == CG_KIND_TENSOR || a->kind == CG_KIND_PER_UNIT) && a->type == CG_TYPE_REAL;
}

/* Does any function read, or write, what has to be converted? */
static int converts(const struct cg_pass_plan *const *plans, int n, int out)
{
	for (int k = 0; k < n; k++)
		for (int j = 0; j < plans[k]->n_pieces; j++) {
			const struct cg_piece *piece = &plans[k]->pieces[j];

			/* A sum adds to what its outputs hold. */
			for (int i = 0; i < piece->n_arguments && piece->shape != CG_PIECE_SUM_PART; i++)
				if (converted(&piece->arguments[i]) && (piece->arguments[i].out == out || piece->shape == CG_PIECE_SUM))
					return 1;
			for (int i = 0; i < piece->n_arguments && piece->shape == CG_PIECE_SUM_PART && !out; i++)
				if (converted(&piece->arguments[i]) && !piece->arguments[i].out)
					return 1;
		}
	return 0;
}

int cg_print_prelude(const struct cg_pass_plan *const *plans, int n, int lang, struct cg_text *text)
{
	const struct cg_dialect *d = &cg_dialects[lang];
	int dtype = plans[0]->dtype, used[CG_OP_COUNT] = { 0 }, points = 0;
	struct sections done = { .n = 0 };

	for (int k = 0; k < n; k++)
		for (int j = 0; j < plans[k]->n_pieces; j++) {
			points |= plans[k]->pieces[j].shape == CG_PIECE_POINT;
			for (int s = 0; s < plans[k]->pieces[j].n_schedule; s++)
				used[plans[k]->graph.nodes[plans[k]->pieces[j].schedule[s]].code] = 1;
		}
	if (put_section(text, d, dtype, "types", 5, &done) || (d->builds && put_section(text, d, dtype, "builds", 6, &done)))
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
	if (points && d->run_in && put_section(text, d, dtype, "run", 3, &done))
		return -1;
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
