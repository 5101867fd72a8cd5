/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the prelude of a text, above its functions: the sections of the dialect's prelude and of the mathematics that the functions
 * use, each section after those that it needs.
 */
#include "cell.h"

#include <string.h>

enum { SECTIONS_MAX = 64, TAB = 8 };

static const char shared_hole[] = "@shared@\n";

struct sections { const char *name[SECTIONS_MAX]; size_t length[SECTIONS_MAX]; int n; };

static int put_section(struct cg_text *text, const struct cg_dialect *d, int dtype, const char *name, size_t length,
                       struct sections *done);

/* Appends the sections that another section needs. */
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

/* Finds a section of a template file for the dtype, else for acc, its type of arithmetic. */
static int find(const char *file, const char *name, int dtype, struct cg_section *section)
{
	return cg_section_find(file, name, cg_real_names[dtype], section) &&
	       cg_section_find(file, name, cg_real_names[cg_dtypes[dtype].acc], section);
}

/* Prints a typedef, such as "typedef uint16_t real;", and a comment that begins in the dialect's column for such comments. */
static void put_typedef(struct cg_text *text, const struct cg_dialect *d, const char *type, const char *name, const char *is,
                        const char *holds)
{
	size_t column = strlen("typedef  ;") + strlen(type) + strlen(name);

	cg_text_printf(text, "typedef %s %s;", type, name);
	for (; column < (size_t)d->comments; column = column / TAB * TAB + TAB)
		cg_text_put(text, "\t");
	cg_text_printf(text, "/* %s%s%s */\n", is, holds ? ": " : "", holds ? holds : "");
}

static void put_types(struct cg_text *text, const struct cg_dialect *d, int dtype)
{
	put_typedef(text, d, cg_type_word(d, dtype), "real", "the type in memory", cg_dtypes[dtype].holds);
	put_typedef(text, d, cg_type_word(d, cg_dtypes[dtype].acc), "acc", "the type of arithmetic", NULL);
	put_typedef(text, d, d->bits[cg_acc_bytes(dtype)], "word", "an unsigned integer with the bits of an acc", NULL);
}

/* Fills the holes of a section, and puts the math text's section in place of @shared@. */
static void put_filled(struct cg_text *text, const struct cg_dialect *d, int dtype, const struct cg_section *section,
                       const struct cg_section *shared, const char *at)
{
	struct cg_text types = { .resize = text->resize };
	const char *end = section->at + section->length;

	put_types(&types, d, dtype);
	const char *const holes[] = { "inline", d->inlined, "types", types.at ? types.at : "", NULL };

	cg_fill(text, section->at, (size_t)((at ? at : end) - section->at), holes);
	if (at) {
		cg_fill(text, shared->at, shared->length - (shared->length > 1 && shared->at[shared->length - 2] == '\n'), holes);
		at += strlen(shared_hole);
		cg_fill(text, at, (size_t)(end - at), holes);
	}
	text->failed |= types.failed;
	text->resize(types.at, 0);
}

/* Appends a section of the dialect's prelude or of the math text, after the sections that it needs, unless the text has it already.
 * @shared@ in a prelude's section stands for the math text's section of the same name. */
static int put_section(struct cg_text *text, const struct cg_dialect *d, int dtype, const char *name, size_t length,
                       struct sections *done)
{
	struct cg_section section, shared;
	const char *at;
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
	at = strstr(section.at, shared_hole);
	at = at && at < section.at + section.length ? at : NULL;
	if ((at && (find("math.in", word, dtype, &shared) || put_needs(text, d, dtype, &shared, done))) ||
	    put_needs(text, d, dtype, &section, done))
		return -1;
	done->name[done->n] = name;
	done->length[done->n++] = length;
	put_filled(text, d, dtype, &section, &shared, at);
	return 0;
}

static int converted(const struct cg_argument *a)
{
	return cg_is_array(a) && a->type == CG_TYPE_REAL;
}

/* Does any function read (out 0) or write (out 1) memory whose elements must be converted to or from acc? */
static int converts(const struct cg_pass_plan *const *plans, int n, int out)
{
	for (int k = 0; k < n; k++)
		for (int j = 0; j < plans[k]->n_functions; j++) {
			const struct cg_function *function = &plans[k]->functions[j];

			/* In a text of all steps of a sequence, the products read real. */
			if (plans[k]->steps && !out)
				return 1;
			/* A sum reads an output, too, where it accumulates. */
			for (int i = 0; i < function->n_arguments && function->shape != CG_FUNCTION_SUM_PART; i++)
				if (converted(&function->arguments[i]) &&
				    (function->arguments[i].out == out || cg_is_sum(function)))
					return 1;
			for (int i = 0; i < function->n_arguments && function->shape == CG_FUNCTION_SUM_PART && !out; i++)
				if (converted(&function->arguments[i]) && !function->arguments[i].out)
					return 1;
		}
	return 0;
}

int cg_print_prelude(const struct cg_pass_plan *const *plans, int n, int lang, struct cg_text *text)
{
	const struct cg_dialect *d = &cg_dialects[lang];
	int dtype = plans[0]->dtype, used[CG_OP_COUNT] = { 0 }, points = 0, means = 0;
	struct sections done = { .n = 0 };

	for (int k = 0; k < n; k++)
		for (int j = 0; j < plans[k]->n_functions; j++) {
			points |= plans[k]->functions[j].shape == CG_FUNCTION_POINT;
			means |= plans[k]->functions[j].shape == CG_FUNCTION_MEAN;
			for (int s = 0; s < plans[k]->functions[j].n_schedule; s++)
				used[plans[k]->graph.nodes[plans[k]->functions[j].schedule[s]].code] = 1;
		}
	if (put_section(text, d, dtype, "types", 5, &done) || (d->builds && put_section(text, d, dtype, "builds", 6, &done)))
		return -1;
	/* A mean is a sum times the reciprocal of the number of units. */
	used[CG_OP_RECIP] |= means;
	/* A function that nothing calls is left out, since compilers warn of it. */
	for (int out = 0; out < 2 && !cg_is_plain(dtype); out++)
		if (converts(plans, n, out) && put_section(text, d, dtype, out ? "to_real" : "to_acc", out ? 7 : 6, &done))
			return -1;
	for (int code = 0; code < CG_OP_COUNT; code++) {
		const char *section = cg_operators[code].section;

		if (used[code] && section && put_section(text, d, dtype, section, strlen(section), &done))
			return -1;
	}
	if (means && d->strips && put_section(text, d, dtype, "lanes", 5, &done))
		return -1;
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
