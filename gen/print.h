/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declares what the files that print functions share: print.c prints functions, comment.c the comments above them, infix.c the expressions
 * in them.
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

/* The type of an argument, as a source or a header spells it. */
const char *cg_print_type(const struct printer *, const struct cg_argument *);
/* Prints the comment above the function. */
void cg_print_about(struct printer *, struct cg_text *);

#endif
