/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The result of a trial: the first error found, as text, and the counts up to there.
 */
#ifndef FINDING_H
#define FINDING_H

#include <stddef.h>

enum finding_kind {
	FINDING_NONE,
	FINDING_CALL,                    /* the call was refused or failed */
	FINDING_TOUCHED,                 /* the call wrote outside its outputs: into guards, gaps or an input */
	FINDING_BOUND,                   /* an answer's error exceeds its tolerance */
	FINDING_REPEAT,                  /* a second call gave other bits */
	FINDING_BITS,                    /* another device or another form of the kernel gave other bits */
	FINDING_DECLINED                 /* not an error: the case cannot run here, and the text says why */
};

struct finding {
	int    kind;
	char   text[640];
	size_t elements;                 /* elements that were compared */
	size_t unbounded;                /* compared elements whose bound is infinite, so that any value is right */
	size_t flushed;                  /* compared f64 pairs that differ, both below 2^-1000: one device may flush them */
	long double worst;               /* the largest error of an answer, divided by its tolerance */
	long double apart;               /* the largest difference of two devices' answers, divided by the tolerance */
};

/* Sets the finding's kind and text. Returns CG_OK, so that a caller can end with `return finding_format(...)`. */
int finding_format(struct finding *, int kind, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
