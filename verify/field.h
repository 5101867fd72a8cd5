/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The fields of a case as NAME=VALUE: read from words, printed back so that they read as the same case, and made simpler in
 * command/check/shrink.c.  A field points into the case.
 */
#ifndef FIELD_H
#define FIELD_H

#include <stddef.h>
#include <stdint.h>

enum field_kind {
	FIELD_SIZE,                      /* int64_t */
	FIELD_REAL,                      /* double */
	FIELD_BOOL,                      /* int */
	FIELD_WORD,                      /* int: which of the words */
	FIELD_DTYPE,                     /* int: an enum cg_dtype */
	FIELD_SET,                       /* unsigned long long: a bit for each of the words */
	FIELD_SEED                       /* unsigned long long */
};

struct field {
	const char *name;
	int    kind;
	void  *at;
	const char *const *words;
	int    n_words;
	int    is_fixed;                 /* it says which case this is: it is not made simpler */
	double least, most;              /* of a size, a number */
	double plain;                    /* the simplest value of a number */
	unsigned long long simple;       /* and of a set */
};

enum { FIELDS_MAX = 32, FIELD_NAMES = 64, FIELD_LINE = 2048 };
struct fields {
	const char *of;                  /* the op, or the cell */
	struct field list[FIELDS_MAX];
	int n;
	const char *names[FIELD_NAMES];  /* a buffer for texts made of others' names */
};

/* A new row, to be filled in; there are enough for what a case has. */
struct field *field_add(struct fields *, const char *name, int kind, void *at);

/* "B=3": CG_BAD_ARGUMENT says what was expected, or what the nearest name is. */
int  field_set(const struct fields *, const char *word);
/* The row of "B" or "B=3", or NULL. */
const struct field *field_find(const struct fields *, const char *word);
/* "lstm_block_cell B=3 ...", all of them. */
void field_line(const struct fields *, char line[FIELD_LINE]);

/* 0, or -1: it is not all of the text, or not a number that a double has. */
int field_real(const char *text, double *value);
/* 0, or -1: it is not all of the text, or does not fit in 64 bits. */
int field_integer(const char *text, int64_t *value);
/* The same from 0 on. */
int field_natural(const char *text, uint64_t *value);
/* 0, or -1: it is neither true nor false, in the spellings of TensorFlow and Python. */
int field_boolean(const char *text, int *value);
/* The fewest digits that read back as the same number. */
const char *field_digits(char text[32], double value);

#endif
