/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declares what the files that print functions share: print.c prints functions, access.c how they reach their arguments, step_loop.c their
 * step loops, comment.c the comments above them, infix.c the expressions in them.
 */
#ifndef CG_PRINT_H
#define CG_PRINT_H

#include "cell.h"

struct printer {
	const struct cg_pass_plan *plan;
	const struct cg_function *function;
	int lang;
	const struct cg_dialect *dialect;
	const char **name;
	int plain;                                /* 1: real, the type in memory, is also the type of arithmetic */
	int runs;                                 /* 1: a thread takes runs of units: in point functions, where the dialect has runs */
	int header;                               /* the text is a header with prototypes */
};

/* Appends a node as an expression. own: 1: the node is written out even where it has a variable. */
void cg_print_expression(const struct printer *, struct cg_text *, int node, int own);

/* ---- access.c ---- */

/* Appends a separator, unless the text is empty. */
void cg_print_separator(struct cg_text *, const char *with);
/* Prints a form of the dialect for an argument; value: what the form stores, or NULL. */
void cg_print_form(const struct printer *, struct cg_text *, const char *form, const struct cg_argument *, const char *value);
/* These print what the dialect has for an argument, under a name in place of the argument's own: its parameters in the function; a load of
 * its element into a variable, or nothing where the element is passed by value; a store of a value to its element.  alone: the dialect's
 * qualifier of pointers to memory that no other pointer reaches, or "". */
void cg_print_parameter(const struct printer *, struct cg_text *, const struct cg_argument *, const char *name, const char *alone);
void cg_print_load(const struct printer *, struct cg_text *, const struct cg_argument *, const char *name);
void cg_print_store(const struct printer *, struct cg_text *, const struct cg_argument *, const char *name, const char *value);
/* Prints the equation from which a node comes, unless it is that of the node before, *origin. */
void cg_print_equation(const struct printer *, struct cg_text *, const struct cg_node *, int *origin);
/* Prints the statements that compute the function's nodes. */
void cg_print_statements(struct printer *, struct cg_text *);

/* ---- step_loop.c ---- */

/* Prints the function's step loop, if it has one. */
void cg_print_step_loop(struct printer *, struct cg_text *);

/* The type of an argument, as a source or a header spells it. */
const char *cg_print_type(const struct printer *, const struct cg_argument *);
/* Prints the comment above the function. */
void cg_print_about(struct printer *, struct cg_text *);

#endif
