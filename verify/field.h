/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fields of a case as NAME=VALUE: parsed from text, printed so that the text reads back as the same case, and simplified by
 * command/check/shrink.c. A field points to a member of the case.
 */
#ifndef FIELD_H
#define FIELD_H

#include <stddef.h>
#include <stdint.h>

enum field_kind {
	FIELD_SIZE,                      /* int64_t */
	FIELD_REAL,                      /* double */
	FIELD_BOOL,                      /* int */
	FIELD_WORD,                      /* int: the number of one of `words` */
	FIELD_DTYPE,                     /* int: an enum cg_dtype */
	FIELD_SET,                       /* unsigned long long: one bit for each of `words` */
	FIELD_SEED                       /* unsigned long long */
};

struct field {
	const char *name;
	int    kind;
	void  *at;
	const char *const *words;
	int    n_words;
	int    is_fixed;                 /* the field says what is tested, so shrinking keeps its value */
	double least, most;              /* range of a size or a number */
	double plain;                    /* the simplest value of a number */
	unsigned long long simple;       /* the simplest value of a set */
};

enum { FIELDS_MAX = 32, FIELD_NAMES = 64, FIELD_LINE = 2048 };
struct fields {
	const char *of;                  /* name of the op or the cell */
	struct field list[FIELDS_MAX];
	int n;
	const char *names[FIELD_NAMES];  /* storage for lists of words */
};

/* Adds a field to the list, with its other members zero; the list is long enough for all fields of any case. */
struct field *field_add(struct fields *, const char *name, int kind, void *at);

/* Parses "B=3". CG_BAD_ARGUMENT: the message says which value was expected, or which field's name is nearest, or lists the fields. */
int  field_set(const struct fields *, const char *word);
/* The field that a word such as "B" or "B=3" names, or NULL. */
const struct field *field_find(const struct fields *, const char *word);
/* Prints the case as one line: "lstm_block_cell B=3 ...". */
void field_line(const struct fields *, char line[FIELD_LINE]);

/* Reads a number from text. Returns 0, or -1: the text is no number, goes on behind the number, or is beyond the range of double. */
int field_real(const char *text, double *value);
/* Reads a whole number from text. Returns 0, or -1: the text is no whole number, goes on behind the number, or does not fit in 64 bits. */
int field_integer(const char *text, int64_t *value);
/* Reads a whole number that is not negative; otherwise the same as field_integer. */
int field_natural(const char *text, uint64_t *value);
/* Reads a boolean from text. Returns 0, or -1: the text is none of true, false, True, False, 1 and 0. */
int field_boolean(const char *text, int *value);
/* The decimal text with the fewest digits that reads back as the same number. */
const char *field_digits(char text[32], double value);

#endif
