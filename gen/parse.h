/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declares what the files of the parser share: scan.c reads words, names.c keeps names, term.c reads expressions, parse.c lines and
 * the whole.
 */
#ifndef CG_PARSE_H
#define CG_PARSE_H

#include "cell.h"

enum { SYMBOLS_MAX = 2048 };

/* Derived names are symbols too, of a kind that no expression may use, so that nothing else takes them. */
enum { DERIVED = CG_SYMBOL_VALUE + 1 };

struct symbol { const char *name, *position; int kind, index; }; /* position: where it was declared */

struct parser {
	struct cg_cell *cell;
	const char *at;                          /* where we are in the cell's text */
	const char *cell_position, *stages[CG_STAGES_MAX];       /* the cell's name; what each stage but the first takes */
	int depth, signs, stage;                 /* depth: of parentheses; signs: of signs upon signs */
	struct symbol symbols[SYMBOLS_MAX];
	int n_symbols;
	int used[DERIVED][CG_VALUES_MAX];
	struct cg_mistake *mistake;
};

/* Sets the mistake: the position in a cell's text, its line with a caret, and the message. */
void cg_mistake_at(struct cg_mistake *, const struct cg_cell *, const char *position, const char *message);
/* The same with a format; the first mistake stays.  Returns -1. */
int cg_parse_wrong(struct parser *, const char *position, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* What was expected at p->at, and which letter is there instead. */
int cg_parse_expected(struct parser *, const char *what);
/* Passes blanks and comments and, inside parentheses, line ends. */
void cg_parse_skip(struct parser *);
int cg_parse_line_end(struct parser *);
int cg_parse_expect(struct parser *, char, const char *after);
/* Reads a name; what: what it would be, for the mistake. */
int cg_parse_word(struct parser *, char name[CG_NAME_MAX + 1], const char *what);
/* A decimal number, whatever the locale says of commas. */
int cg_parse_number(struct parser *, long double *value);
static inline int cg_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Reads an expression; returns its term, or -1. */
int cg_parse_sum(struct parser *);

const struct symbol *cg_parse_find(const struct parser *, const char *name);
int cg_parse_unknown(struct parser *, const char *position, const char *name);
/* Refuses a name whose adjoint, an argument of kernels, would be a word of a dialect: "do" of "o". */
int cg_parse_argument(struct parser *, const char *position, const char *name);
/* Refuses a word that may not be a name, not even the cell's or an option's: a word of a dialect, underscores that C++ keeps. */
int cg_parse_free_word(struct parser *, const char *position, const char *name);
int cg_parse_declare(struct parser *, const char *position, const char *name, int kind, int index);
int cg_parse_enter(struct parser *, const char *position, const char *name, int kind, int index);

#endif
