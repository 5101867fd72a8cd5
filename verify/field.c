/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses and prints the fields of a case as NAME=VALUE.
 */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "verify/field.h"
#include "runtime/op/op.h"
#include "runtime/core/core.h"

enum { SHOWN = 60 };

struct field *field_add(struct fields *f, const char *name, int kind, void *at)
{
	/* In a case with too many fields, a new field overwrites the last one; tests that set a field would then fail. */
	struct field *row = &f->list[f->n < FIELDS_MAX ? f->n++ : FIELDS_MAX - 1];

	*row = (struct field){ .name = name, .kind = kind, .at = at };
	return row;
}

const struct field *field_find(const struct fields *f, const char *word)
{
	size_t length = strcspn(word, "=");

	for (int k = 0; k < f->n; k++)
		if (strlen(f->list[k].name) == length && !strncmp(f->list[k].name, word, length))
			return &f->list[k];
	return NULL;
}

int field_real(const char *text, double *value)
{
	char *end;

	if (!*text || isspace((unsigned char)*text))
		return -1;
	errno = 0;
	*value = strtod(text, &end);             /* no locale is set, so the decimal sign is a point */
	return *end || isnan(*value) || (errno == ERANGE && fabs(*value) > 1) ? -1 : 0;
}

int field_integer(const char *text, int64_t *value)
{
	const char *digits = text + (*text == '-');
	char *end;

	errno = 0;
	*value = strtoll(text, &end, 10);
	return !isdigit((unsigned char)*digits) || *end || errno ? -1 : 0;
}

int field_natural(const char *text, uint64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 10);
	return !isdigit((unsigned char)*text) || *end || errno ? -1 : 0;
}

int field_boolean(const char *text, int *value)
{
	static const char *const words[] = { "false", "true", "False", "True", "0", "1" };

	for (int k = 0; k < 6; k++)
		if (!strcmp(text, words[k])) {
			*value = k & 1;
			return 0;
		}
	return -1;
}

const char *field_digits(char text[32], double value)
{
	for (int n = 1; n <= 17; n++) {
		snprintf(text, 32, "%.*g", n, value);
		if (strtod(text, NULL) == value)
			break;
	}
	return text;
}

/* Parses a whole number that consists of digits alone. */
static int whole(const char *text, unsigned long long *value)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 10);
	return !isdigit((unsigned char)*text) || *end || errno || *value > INT64_MAX ? -1 : 0;
}

static int word_of(const struct field *row, const char *text, size_t length)
{
	for (int k = 0; k < row->n_words; k++)
		if (strlen(row->words[k]) == length && !strncmp(row->words[k], text, length))
			return k;
	return -1;
}

static int no_word(const struct field *row, const char *text, size_t length)
{
	char shown[SHOWN], all[512] = "";
	const char *nearest;

	snprintf(shown, sizeof shown, "%.*s", (int)(length < SHOWN ? length : SHOWN), text);
	nearest = cg_nearest(shown, row->words, row->n_words);
	if (nearest)
		return cg_fail(CG_BAD_ARGUMENT, "%s: there is no value \"%s\"; did you mean %s?", row->name, shown, nearest);
	for (int k = 0; k < row->n_words; k++)
		snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", k ? ", " : "", row->words[k]);
	return cg_fail(CG_BAD_ARGUMENT, "%s: expected %s%s, got \"%s\"", row->name,
	               row->kind == FIELD_SET ? "none, or some of these values, with commas between them: " : "one of ", all, shown);
}

static int set_size(const struct field *row, const char *text)
{
	int64_t value;

	if (field_integer(text, &value) || (double)value < row->least || (double)value > row->most)
		return cg_fail(CG_BAD_ARGUMENT, "%s: expected an integer from %.0f to %.0f, got \"%.60s\"", row->name, row->least,
		               row->most, text);
	*(int64_t *)row->at = value;
	return CG_OK;
}

static int set_seed(const struct field *row, const char *text)
{
	unsigned long long value;

	if (whole(text, &value))
		return cg_fail(CG_BAD_ARGUMENT, "%s: expected an integer from 0 to %lld, got \"%.60s\"", row->name,
		               (long long)INT64_MAX, text);
	*(unsigned long long *)row->at = value;
	return CG_OK;
}

static int set_real(const struct field *row, const char *text)
{
	double value;

	if (field_real(text, &value) || value < row->least || value > row->most)
		return cg_fail(CG_BAD_ARGUMENT, "%s: expected a number from %g to %g, got \"%.60s\"", row->name, row->least,
		               row->most, text);
	*(double *)row->at = value;
	return CG_OK;
}

static int set_bits(const struct field *row, const char *text)
{
	unsigned long long bits = 0;

	if (!strcmp(text, "none"))
		text = "";
	while (*text) {
		size_t length = strcspn(text, ",");
		int k = word_of(row, text, length);

		if (k < 0)
			return no_word(row, text, length);
		bits |= 1ull << k;
		text += length;
		text += *text == ',' && text[1];
		if (*text == ',')
			return no_word(row, "", 0);
	}
	*(unsigned long long *)row->at = bits;
	return CG_OK;
}

static int set(const struct field *row, const char *text)
{
	int k;

	switch (row->kind) {
	case FIELD_SIZE: return set_size(row, text);
	case FIELD_REAL: return set_real(row, text);
	case FIELD_SET:  return set_bits(row, text);
	case FIELD_SEED:
		return set_seed(row, text);
	case FIELD_BOOL:
		if (field_boolean(text, row->at))
			return cg_fail(CG_BAD_ARGUMENT, "%s: expected true or false, got \"%.60s\"", row->name, text);
		return CG_OK;
	case FIELD_DTYPE:
		k = cg_dtype_find(text);
		break;
	default:
		k = word_of(row, text, strlen(text));
		if (k < 0)
			no_word(row, text, strlen(text));
	}
	if (k < 0)
		return CG_BAD_ARGUMENT;
	*(int *)row->at = k;
	return CG_OK;
}

static int unknown(const struct fields *f, const char *word)
{
	const char *names[FIELDS_MAX], *nearest;
	char name[SHOWN], all[512] = "";

	snprintf(name, sizeof name, "%.*s", (int)strcspn(word, "="), word);
	for (int k = 0; k < f->n; k++)
		names[k] = f->list[k].name;
	nearest = cg_nearest(name, names, f->n);
	if (nearest)
		return cg_fail(CG_BAD_ARGUMENT, "%s has no %s; did you mean %s?", f->of, name, nearest);
	for (int k = 0; k < f->n; k++)
		snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", k ? ", " : "", names[k]);
	return cg_fail(CG_BAD_ARGUMENT, "%s has no %s; it has %s", f->of, name, all);
}

int field_set(const struct fields *f, const char *word)
{
	const struct field *row = field_find(f, word);

	return row ? set(row, word + strlen(row->name) + 1) : unknown(f, word);
}

static void show(const struct field *row, char *to, size_t capacity)
{
	unsigned long long bits = row->kind == FIELD_SET ? *(unsigned long long *)row->at : 0;
	char digits[32];
	int any = 0;

	switch (row->kind) {
	case FIELD_SIZE:  snprintf(to, capacity, "%lld", (long long)*(int64_t *)row->at); return;
	case FIELD_REAL:  snprintf(to, capacity, "%s", field_digits(digits, *(double *)row->at)); return;
	case FIELD_WORD:  snprintf(to, capacity, "%s", row->words[*(int *)row->at]); return;
	case FIELD_BOOL:  snprintf(to, capacity, "%s", *(int *)row->at ? "true" : "false"); return;
	case FIELD_DTYPE: snprintf(to, capacity, "%s", cg_dtype_name(*(int *)row->at)); return;
	case FIELD_SEED:  snprintf(to, capacity, "%llu", *(unsigned long long *)row->at); return;
	}
	snprintf(to, capacity, "%s", bits ? "" : "none");
	for (int k = 0; k < row->n_words; k++)
		if (bits >> k & 1)
			snprintf(to + strlen(to), capacity - strlen(to), "%s%s", any++ ? "," : "", row->words[k]);
}

void field_line(const struct fields *f, char line[FIELD_LINE])
{
	size_t n = (size_t)snprintf(line, FIELD_LINE, "%s", f->of);

	for (int k = 0; k < f->n; k++) {
		n += (size_t)snprintf(line + n, FIELD_LINE - n, " %s=", f->list[k].name);
		show(&f->list[k], line + n, FIELD_LINE - n);
		n += strlen(line + n);
	}
}
