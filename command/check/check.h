/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declares what the parts of `cellgrad check` share: the subjects, the counts of their cases, and the verdict. The trials and the
 * comparison with the reference are those of the conformance suite, in verify/.
 */
#ifndef CHECK_H
#define CHECK_H

#include "runtime/device/inspect.h"
#include "verify/kernel_trial.h"
#include "verify/network_trial.h"

/* A subject, one thing that is checked in one dtype: an op (block op or network), compared with the reference; or the kernels of a cell,
 * compared with the same kernels on another device or interpreted. */
struct subject {
	const char *name;                /* of the op; of the cell, as the user wrote it: the path of a file, if the cell is from a file */
	const struct cg_op *op;          /* the op, or NULL: the subject is `cell` */
	const struct cg_cell *cell;
	int dtype;
	const struct subject_kind *kind; /* the kind of the subject's trials, in subject.c */
	struct kernel_kind *kinds;       /* the kinds of the cell's kernels that the user's NAME=VALUE allow */
	int n_kinds, left_out;
	struct cg_cell *again;           /* `cell` parsed from its text, to be interpreted for the comparison; NULL: another device computes */
	struct trial_cursor at;          /* the next case of an op's table */
	/* absent: the number of an op's next case with absent arguments, after the op's table; number: that of the next case of a network or of
	 * kernels */
	int absent, number;
	long cases, failed;
	struct finding total;            /* counts and worst errors over all cases that did not fail */
	unsigned shown;                  /* one bit for each kind of finding that was shown */
};

/* One case of a subject. */
struct example {
	struct subject *subject;
	struct trial trial;
	struct kernel_trial kernel;
	struct network_trial network;
};

struct skip { char what[64], why[400]; long cases; };

enum { SUBJECTS_MAX = 256, SKIPS_MAX = 64, SHOWN_MAX = 10 };

struct check {
	struct side sides[2];            /* the device that is checked, and that of --ref, if --ref names one */
	int n_sides;
	struct side other;               /* the device that kernels are compared with; no context: sides[0], on the cell given as text */
	struct subject subjects[SUBJECTS_MAX];
	int n_subjects;
	const char **attributes;         /* NAME=VALUE, fixed in every case; ends with NULL */
	const char *backend, *ref;       /* backend: of --backend or CELLGRAD_BACKEND, or NULL; ref: the device of --ref, or NULL */
	unsigned long long seed;
	struct skip skips[SKIPS_MAX];
	int n_skips, lost_skips;
	long cases, failed, skipped, planned;
	int shown, json, single;
	int stopped;                     /* 1: the time limit ended the run */
	double seconds, most_seconds;    /* seconds: passed so far; most_seconds: the limit, 0: none */
};

/* ---- subject.c ---- */

/* Does the reference compute this op? */
int  subject_has_reference(const struct cg_op *);
/* Adds an op or a cell in a dtype as a subject, if the op or cell has all attributes that the user gave, with these values, and the sizes
 * are not too large. If the op or cell lacks an attribute, or a value or size is not possible, the code is CG_BAD_ARGUMENT; the larger *why
 * (0 to 3) is, the more the message helps the user. */
int  subject_add(struct check *, const char *name, const struct cg_op *, const struct cg_cell *, int dtype, int *why);
void subjects_close(struct check *);
/* Sets an example to the next case of the subject that is not random, is possible with the user's attributes and is not too large: the
 * cases of a table and, for a block op, the cases with absent arguments after it. Returns 0 if no such case is left. */
int  subject_next(const struct check *, struct subject *, unsigned long long seed, struct example *);
/* Sets an example to a random case of the subject. Returns 0 if each of many random cases is too large or impossible with the user's
 * attributes. */
int  subject_any(const struct check *, struct subject *, unsigned long long seed, struct example *);
/* Sets an example to the case that has the user's attributes and is otherwise small and plain. */
void subject_only(const struct check *, struct subject *, struct example *);
/* The number of all cases of the subject to which subject_next() sets an example. */
long subject_table(const struct check *, const struct subject *);
void example_fields(struct example *, struct fields *);
int  example_run(const struct check *, struct example *, struct finding *);
/* Records that cases are left out, and why. what: the subject; cases: how many. */
void check_skip(struct check *, const char *what, const char *why, long cases);

/* ---- verdict.c ---- */

int  verdict_begin(const struct check *);
/* Called before each case: if a signal ends the program during the case, since a driver crashes or the user interrupts a driver that hangs,
 * the signal handler prints the command that repeats the case. */
void verdict_watch(const struct check *, struct example *);
int  verdict_failure(const struct check *, struct example *, const struct finding *);
void verdict_progress(const struct check *);
int  verdict_end(const struct check *);

#endif
