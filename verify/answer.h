/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One argument of a case: its numbers, its memory between guards, the reference's answer with its bound, and the verdict on what a
 * call wrote.
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
	double *d;                       /* the argument's numbers before the call: an input, or old sums */
	size_t *at, span;                /* at: place of each element in memory, NULL: in order; span: elements of memory */
	struct area area;
	long double *v, *e;              /* v: the reference's answer; e: its error bound */
	unsigned char *first;            /* the bytes that the first call on the current side wrote */
	double *other;                   /* the answer of the trial's first side, number 0 */
	long double *allowed;            /* the tolerance of the first side's answer */
};

/* Makes an argument of n elements: its numbers are all 0, its memory is poisoned. The argument's memory begins `shift` elements after the
 * guard. */
int  answer_open(struct answer *, const char *name, int dtype, size_t n, size_t shift);
void answer_close(struct answer *);
/* Gives the argument memory of `span` elements, in which its element k is at index at[k]; at[k] = ANSWER_NOWHERE: memory does not contain
 * the element. The answer owns `at`, allocated by cg_memory, also after a failure. */
int  answer_spread(struct answer *, size_t span, size_t shift, size_t *at);
/* Draws the argument's numbers at random, rounded to the dtype. */
void answer_draw(struct answer *, unsigned long long *state, double scale);
/* Writes the argument's numbers into its memory, over the poison. */
void answer_encode(struct answer *);
/* Judges what a call wrote. which: the number of the side, from 0. again: compare the bits with those of the side's first call instead of
 * judging the values. The verdict is in the finding; the returned code is CG_OK or CG_NO_MEMORY. */
int  answer_judge(struct answer *, const struct side *, int which, int again, struct finding *);

#endif
