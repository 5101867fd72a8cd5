/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The attributes of any op, by its row: conversion to numbers and text, and checks of their values.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/core/core.h"
#include "runtime/op/shape.h"

static const void *field(const struct cg_attribute *a, const void *op)
{
	return (const char *)op + a->at;
}

static long long whole(const struct cg_attribute *a, const void *op)
{
	return *(const int64_t *)field(a, op);
}

static unsigned long long natural(const struct cg_attribute *a, const void *op)
{
	return *(const uint64_t *)field(a, op);
}

static int integer(const struct cg_attribute *a, const void *op)
{
	return *(const int *)field(a, op);
}

static double real(const struct cg_attribute *a, const void *op)
{
	return *(const double *)field(a, op);
}

static int n_words(const struct cg_attribute *a)
{
	int n = 0;

	while (a->words[n])
		n++;
	return n;
}

/* ---- how attributes are printed ---- */

static const char *words(const struct cg_attribute *a, const void *op)
{
	const char *const *text = field(a, op);

	return *text;
}

double cg_attribute_number(const struct cg_attribute *a, const void *op)
{
	if (a->kind == CG_TEXT)
		return words(a, op) != NULL;
	if (a->kind == CG_NATURAL)
		return (double)natural(a, op);
	return a->kind == CG_REAL ? real(a, op) : a->kind == CG_INTEGER ? (double)whole(a, op) : integer(a, op);
}

void cg_attribute_set(const struct cg_attribute *a, void *op, double value)
{
	void *at = (char *)op + a->at;

	if (a->kind == CG_REAL)
		*(double *)at = value;
	else if (a->kind == CG_INTEGER)
		*(int64_t *)at = (int64_t)value;
	else if (a->kind == CG_NATURAL)
		*(uint64_t *)at = (uint64_t)value;
	else if (a->kind == CG_TEXT)
		*(const char **)at = NULL;       /* an attribute of kind CG_TEXT becomes NULL, since a number cannot be a text */
	else
		*(int *)at = (int)value;
}

/* Writes the fewest digits that read back as the same number.  Replaces the decimal point of the program's locale, which may have several
 * bytes, by a dot. */
static const char *digits(char text[CG_ATTRIBUTE_TEXT], double value)
{
	char *to = text;

	for (int n = 1; n <= 17; n++) {
		snprintf(text, CG_ATTRIBUTE_TEXT, "%.*g", n, value);
		if (strtod(text, NULL) == value)
			break;
	}
	for (const char *from = text; *from; from++)
		if (strchr("0123456789+-aefinx", *from))
			*to++ = *from;
		else if (to == text || to[-1] != '.')
			*to++ = '.';
	*to = '\0';
	return text;
}

const char *cg_attribute_text(const struct cg_attribute *a, const void *op, char text[CG_ATTRIBUTE_TEXT])
{
	int value;

	if (a->kind == CG_REAL)
		return digits(text, real(a, op));
	if (a->kind == CG_TEXT)
		return words(a, op) ? words(a, op) : "";
	if (a->kind == CG_INTEGER) {
		snprintf(text, CG_ATTRIBUTE_TEXT, "%lld", whole(a, op));
		return text;
	}
	if (a->kind == CG_NATURAL) {
		snprintf(text, CG_ATTRIBUTE_TEXT, "%llu", natural(a, op));
		return text;
	}
	value = integer(a, op);
	if (a->kind == CG_BOOL && (value == 0 || value == 1))
		snprintf(text, CG_ATTRIBUTE_TEXT, "%s", value ? "true" : "false");
	else if (a->kind == CG_WORD && value >= 0 && value < n_words(a))
		snprintf(text, CG_ATTRIBUTE_TEXT, "%s", a->words[value]);
	else
		snprintf(text, CG_ATTRIBUTE_TEXT, "%d", value);
	return text;
}

/* ---- checks of the values of attributes ---- */

#define REFUSE(row, a, ...) (cg_fail(CG_BAD_ARGUMENT, __VA_ARGS__), cg_fail_in(CG_BAD_ARGUMENT, "%s: %s", (row)->name, (a)->name))

/* Parses an end of a range: a number, or the symbol of a size. */
static struct cg_range_end read_end(const struct cg_op *row, const char *word)
{
	return (struct cg_range_end){ strtoll(word, NULL, 10), cg_size_find(row, word, cg_word_length(word, ' ')) };
}

static const struct cg_range *range_of(const struct cg_op *row, const struct cg_attribute *a, struct cg_range *storage)
{
	struct cg_range *cached = row->ranges ? &row->ranges[a - row->attributes] : NULL, *to = storage;
	const char *most = strchr(a->range, ' ');

	if (cached && cg_read_before(&cached->state))
		return cached;
	if (cached && cg_read_first(&cached->state))
		to = cached;
	to->least = read_end(row, a->range);
	to->has_most = most != NULL;
	to->most = read_end(row, most ? most + 1 : "0");
	if (to == cached)
		cg_read_done(&cached->state);
	return to;
}

static long long value_of(const struct cg_op *row, const struct cg_range_end *end, const void *op)
{
	return end->dim < 0 ? end->number : *(const int64_t *)(const void *)((const char *)op + row->dims[end->dim].at);
}

/* Writes an end of a range as text: a number as "0", the symbol of a size as "T=5". */
static const char *format_end(const struct cg_op *row, const struct cg_range_end *end, const void *op, char text[CG_ATTRIBUTE_TEXT])
{
	const char *symbol = end->dim < 0 ? "" : row->dims[end->dim].symbol;

	snprintf(text, CG_ATTRIBUTE_TEXT, "%s%s%lld", symbol, *symbol ? "=" : "", value_of(row, end, op));
	return text;
}

static int refuse_whole(const struct cg_op *row, const struct cg_attribute *a, const struct cg_range *range, const void *op,
                        int given)
{
	char also[CG_ATTRIBUTE_TEXT] = "", least[CG_ATTRIBUTE_TEXT], most[CG_ATTRIBUTE_TEXT];
	int is_beyond = a->fallback < (double)value_of(row, &range->least, op) ||
	                (range->has_most && a->fallback > (double)value_of(row, &range->most, op));

	if (!given && is_beyond)
		snprintf(also, sizeof also, "%.0f or ", a->fallback);
	format_end(row, &range->least, op, least);
	if (range->has_most)
		return REFUSE(row, a, "expected %s%s to %s, got %lld", also, least, format_end(row, &range->most, op, most),
		              whole(a, op));
	return REFUSE(row, a, "expected %sat least %s, got %lld", also, least, whole(a, op));
}

static int check_whole(const struct cg_op *row, const struct cg_attribute *a, const void *op, int given)
{
	const struct cg_range *range;
	struct cg_range storage;
	long long value = whole(a, op);

	if (!a->range || (!given && (double)value == a->fallback))
		return CG_OK;
	range = range_of(row, a, &storage);
	if (value >= value_of(row, &range->least, op) && (!range->has_most || value <= value_of(row, &range->most, op)))
		return CG_OK;
	return refuse_whole(row, a, range, op, given);
}

static int check_word(const struct cg_op *row, const struct cg_attribute *a, const void *op)
{
	int value = integer(a, op), n = n_words(a);
	char all[256] = "";

	if (value >= 0 && value < n)
		return CG_OK;
	for (int k = 0; k < n; k++)
		snprintf(all + strlen(all), sizeof all - strlen(all), " %s=%d", a->words[k], k);
	return REFUSE(row, a, "expected one of%s, got %d", all, value);
}

int cg_attribute_check(const struct cg_op *row, const struct cg_attribute *a, const void *op, int given)
{
	switch (a->kind) {
	case CG_INTEGER:
		return check_whole(row, a, op, given);
	case CG_WORD:
		return check_word(row, a, op);
	case CG_TEXT:
	case CG_NATURAL:
		return CG_OK;
	case CG_BOOL:
		if (integer(a, op) == 0 || integer(a, op) == 1)
			return CG_OK;
		return REFUSE(row, a, "expected 0 or 1, got %d", integer(a, op));
	}
	if (isnan(real(a, op)))
		return REFUSE(row, a, "expected a number, got NaN");
	return CG_OK;
}
