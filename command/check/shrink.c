/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shrinks a failing case in single steps, each kept only if the case still fails, in rounds until no step succeeds or TRIES cases were run.
 * A step moves one field, or all sizes together, towards the simplest value.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "runtime/cellgrad.h"
#include "command/check/shrink.h"

enum { TRIES = 2000 };

union value { int64_t size; double real; int word; unsigned long long bits; };

struct state {
	const struct fields *fields;
	int (*fails)(void *);
	void *user;
	int tries, smaller, code;        /* smaller: the current round changed a field; code: the error that ended the shrinking, or CG_OK */
};

static size_t bytes(const struct field *row)
{
	static const size_t sizes[] = {
		[FIELD_SIZE] = sizeof(int64_t), [FIELD_REAL] = sizeof(double), [FIELD_BOOL] = sizeof(int), [FIELD_WORD] = sizeof(int),
		[FIELD_DTYPE] = sizeof(int), [FIELD_SET] = sizeof(unsigned long long), [FIELD_SEED] = sizeof(unsigned long long)
	};

	return sizes[row->kind];
}

static union value get(const struct field *row)
{
	union value v = { 0 };

	memcpy(&v, row->at, bytes(row));
	return v;
}

static int still_fails(struct state *s)
{
	int code;

	if (s->code || s->tries++ >= TRIES)
		return 0;
	code = s->fails(s->user);
	if (code < 0)
		s->code = code;
	s->smaller |= code > 0;
	return code > 0;
}

/* Tries a value of a field. Returns 1: the value is kept; 0: the field has its former value. */
static int try(struct state *s, const struct field *row, union value v)
{
	union value old = get(row);

	memcpy(row->at, &v, bytes(row));
	if (still_fails(s))
		return 1;
	memcpy(row->at, &old, bytes(row));
	return 0;
}

/* Moves all sizes of the case at once halfway to their least values, except sizes that are fixed, again and again while the case still
 * fails. */

static void halve_all(struct state *s)
{
	int64_t old[FIELDS_MAX];
	int less;

	do {
		less = 0;
		for (int k = 0; k < s->fields->n; k++) {
			const struct field *row = &s->fields->list[k];
			int64_t *at = row->at;

			if (row->kind != FIELD_SIZE || row->is_fixed)
				continue;
			old[k] = *at;
			*at -= (*at - (int64_t)row->least) / 2;
			less |= *at != old[k];
		}
		if (less && still_fails(s))
			continue;
		for (int k = 0; k < s->fields->n; k++)
			if (s->fields->list[k].kind == FIELD_SIZE && !s->fields->list[k].is_fixed)
				*(int64_t *)s->fields->list[k].at = old[k];
		return;
	} while (less);
}

static void size(struct state *s, const struct field *row)
{
	for (int64_t step = get(row).size - (int64_t)row->least; step > 0; step /= 2)
		while (get(row).size - step >= (int64_t)row->least && try(s, row, (union value){ .size = get(row).size - step }))
			;
}

/* Ranks a number by simplicity, the simplest first: the field's plain value, 0, integers, all others. */
static int rank(const struct field *row, double value)
{
	return value == row->plain ? 0 : value == 0 ? 1 : value == trunc(value) ? 2 : 3;
}

static void real(struct state *s, const struct field *row)
{
	const double simpler[] = { row->plain, 0, trunc(get(row).real) };

	for (int k = 0; k < 3; k++)
		if (simpler[k] >= row->least && simpler[k] <= row->most && rank(row, simpler[k]) < rank(row, get(row).real))
			try(s, row, (union value){ .real = simpler[k] });
}

static void word(struct state *s, const struct field *row)
{
	for (int w = 0; w < get(row).word; w++)
		if (try(s, row, (union value){ .word = w }))
			return;
}

static void set(struct state *s, const struct field *row)
{
	for (int k = 0; k < row->n_words; k++)
		if ((get(row).bits ^ row->simple) >> k & 1)
			try(s, row, (union value){ .bits = get(row).bits ^ 1ull << k });
}

static void one(struct state *s, const struct field *row)
{
	static void (*const by_kind[])(struct state *, const struct field *) = {
		[FIELD_SIZE] = size, [FIELD_REAL] = real, [FIELD_BOOL] = word, [FIELD_WORD] = word, [FIELD_SET] = set,
		[FIELD_DTYPE] = NULL, [FIELD_SEED] = NULL
	};

	if (!row->is_fixed && by_kind[row->kind])
		by_kind[row->kind](s, row);
}

int shrink(const struct fields *fields, int (*fails)(void *), void *user)
{
	struct state s = { .fields = fields, .fails = fails, .user = user };

	do {
		s.smaller = 0;
		halve_all(&s);
		for (int k = 0; k < fields->n; k++)
			one(&s, &fields->list[k]);
	} while (s.smaller && !s.code && s.tries < TRIES);
	return s.code;
}
