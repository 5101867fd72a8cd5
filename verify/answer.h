/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One argument of a case: its numbers, the same in the dtype between guards, what the reference says of it, and whether what a
 * call left is right.
 */
#ifndef ANSWER_H
#define ANSWER_H

#include "verify/area.h"
#include "verify/finding.h"

#define ANSWER_NOWHERE SIZE_MAX

struct answer {
	const char *name;                /* for messages */
	int    dtype, is_out, given;
	size_t n;
	double *d;                       /* the numbers that it begins with */
	size_t *at, span;                /* where in memory each is, of so many elements; NULL: one after the other */
	struct area area;
	long double *v, *e;              /* the reference's answer and its bound */
	unsigned char *first;            /* the first answer of this side */
	double *other;                   /* that of the first side */
	long double *allowed;            /* and its tolerance */
};

/* n elements, their numbers all 0, their memory poisoned; shift: elements of memory before them. */
int  answer_open(struct answer *, const char *name, int dtype, size_t n, size_t shift);
void answer_close(struct answer *);
/* Element k is the at[k]-th of memory of `span` elements, ANSWER_NOWHERE: memory does not have it.  at, of cg_memory, is the answer's from
 * here on, also where this fails. */
int  answer_spread(struct answer *, size_t span, size_t shift, size_t *at);
/* Draws the numbers. */
void answer_draw(struct answer *, unsigned long long *state, double scale);
/* Has the call begin with the numbers instead of poison. */
void answer_encode(struct answer *);
/* Judges what a call of a side left, which: 0 for the first side; again: it is the second call, whose bits are the first's. */
int  answer_judge(struct answer *, const struct side *, int which, int again, struct finding *);

#endif
