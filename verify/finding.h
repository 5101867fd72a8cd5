/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a trial found: the first thing that is wrong, in words, and what was measured up to there.
 */
#ifndef FINDING_H
#define FINDING_H

#include <stddef.h>

enum finding_kind {
	FINDING_NONE,
	FINDING_CALL,                    /* the call refused or failed */
	FINDING_TOUCHED,                 /* memory beside an output, or an input, was written */
	FINDING_BOUND,                   /* an answer is further off than it may be */
	FINDING_REPEAT,                  /* other bits the second time */
	FINDING_BITS,                    /* other bits than another way of computing them */
	FINDING_DECLINED                 /* no finding: the device has no such kernel, and the words say why */
};

struct finding {
	int    kind;
	char   text[640];
	size_t elements;                 /* that were judged; among them: */
	size_t unbounded;                /* those for which nothing can be promised */
	size_t flushed;                  /* those of f64 that differ and are next to nothing */
	long double worst;               /* the largest error over its tolerance */
	long double apart;               /* the largest difference of two devices over the tolerance */
};

/* Sets the kind and the words; CG_OK, so that finding is one expression. */
int finding_format(struct finding *, int kind, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
