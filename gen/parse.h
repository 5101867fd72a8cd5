/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declares what the files of the parser share: scan.c reads words, names.c records names, forms.c lists functions, term.c reads
 * expressions, and parse.c reads lines and checks the whole cell.
 */
#ifndef CG_PARSE_H
#define CG_PARSE_H

#include "cell.h"

enum { SYMBOLS_MAX = 2048 };

/* Derived names, such as those of adjoints, are symbols too, so that nothing else can take them.  No expression of a cell may use a
 * derived name. */
enum { DERIVED = CG_SYMBOL_VALUE + 1 };

/* What a symbol is, for messages: "a gate". */
extern const char *const cg_symbol_kinds[DERIVED];

/* position: where the cell's text declares the name; index of a DERIVED name: the symbol of whose name it is the bias or the adjoint. */
struct symbol { const char *name, *position; int kind, index; };

/* A form whose expression the parser reads: where the cell calls it, and the terms of its arguments x and y. */
struct expansion { const char *position; int arguments[2]; };

struct parser {
	struct cg_cell *cell;
	const char *at;                          /* the parser's place in the cell's text or in a form's expression */
	const char *cell_position, *stages[CG_STAGES_MAX];       /* where the cell's name is, and the feed of each stage but the first */
	int depth, signs, stage;                 /* depth: levels of open parentheses; signs: levels of nested minus signs */
	struct expansion form;                   /* position NULL: the parser reads the cell's own text */
	struct symbol symbols[SYMBOLS_MAX];
	int n_symbols;
	int used[DERIVED][CG_VALUES_MAX];
	struct cg_mistake *mistake;
};

/* Sets the mistake: the position in a cell's text, its line with a caret, and the message. */
void cg_mistake_at(struct cg_mistake *, const struct cg_cell *, const char *position, const char *message);
/* Sets the parser's mistake, with a message made by a format.  Only the first mistake is recorded.  In the expression of a form the
 * position is that of the form's call.  Returns -1. */
int cg_parse_wrong(struct parser *, const char *position, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* Reports as the mistake what was expected at p->at, and the character that is there instead. */
int cg_parse_expected(struct parser *, const char *what);
/* Skips blanks and comments and, inside parentheses, line ends. */
void cg_parse_skip(struct parser *);
int cg_parse_line_end(struct parser *);
int cg_parse_expect(struct parser *, char, const char *after);
/* Reads a name. what: the text that the mistake gives as expected where there is no name. */
int cg_parse_word(struct parser *, char name[CG_NAME_MAX + 1], const char *what);
/* Reads a decimal number, whose decimal sign is a point in every locale. */
int cg_parse_number(struct parser *, long double *value);
static inline int cg_is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

static inline int cg_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* A form: a function that stands for an expression of other functions.  is: the expression; NULL: the operator `code` computes it. */
struct cg_form { const char *name; int arity; const char *is; int code; };
/* The form with this name, or NULL. */
const struct cg_form *cg_form_find(const char *name);
/* The code of the operator that a .cell calls by this name, or CG_OP_COUNT. */
int cg_operator_find(const char *name);
enum { CG_FUNCTION_NAMES_MAX = 64 };
/* Lists the names of all functions that a .cell may call, which are operators and forms.  Returns the number of names in the list. */
int cg_function_names(const char *names[CG_FUNCTION_NAMES_MAX]);

/* Reads an expression.  Returns the index of the term whose value is that of the whole expression, or -1. */
int cg_parse_sum(struct parser *);

const struct symbol *cg_parse_find(const struct parser *, const char *name);
int cg_parse_unknown(struct parser *, const char *position, const char *name);
/* Refuses a name whose adjoint, an argument of kernels, would be a reserved word: "do" of "o". */
int cg_parse_argument(struct parser *, const char *position, const char *name);
/* Refuses a name that not even a cell or an option may have: a reserved word, or one with two underscores in a row or one at its end. */
int cg_parse_free_word(struct parser *, const char *position, const char *name);
int cg_parse_declare(struct parser *, const char *position, const char *name, int kind, int index);
int cg_parse_enter(struct parser *, const char *position, const char *name, int kind, int index);

#endif
