/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declares what the parts of `cellgrad check` share: the subjects, what is counted of each, and the verdict.  The trials, and the
 * comparison with the reference, are those of the conformance suite, in verify/.
 */
#ifndef CHECK_H
#define CHECK_H

#include "runtime/device/inspect.h"
#include "verify/kernel_trial.h"
#include "verify/network_trial.h"

/* What is checked in one dtype: an op, a network's too, next to the reference, or the kernels of a cell, next to another way of
 * computing them. */
struct subject {
	const char *name;
	const struct cg_op *op;          /* or */
	const struct cg_cell *cell;
	int dtype;
	const struct subject_kind *kind; /* which trials it has: subject.c's */
	struct kernel_kind *kinds;       /* of the cell */
	int n_kinds, left_out;
	struct cg_cell *again;           /* the cell given as text; NULL: another device computes them */
	struct trial_cursor at;          /* the next case of the table */
	int absent, number;              /* and after it; the next kernel and area, or case of a network */
	long cases, failed;
	struct finding total;            /* what was measured over all cases */
	unsigned shown;                  /* bits of the kinds of findings that were shown */
};

/* A case of a subject. */
struct example {
	struct subject *subject;
	struct trial trial;
	struct kernel_trial kernel;
	struct network_trial network;
};

struct skip { char what[64], why[400]; long cases; };

enum { SUBJECTS_MAX = 256, SKIPS_MAX = 64, SHOWN_MAX = 10 };

struct check {
	struct side sides[2];            /* the device, and --ref's where that is a device */
	int n_sides;
	struct side other;               /* what kernels run on as well; no context: the same device, from the cell's text */
	struct subject subjects[SUBJECTS_MAX];
	int n_subjects;
	const char **attributes;         /* NAME=VALUE, fixed in every case; ends with NULL */
	const char *backend, *ref;       /* as they were given; NULL: not */
	unsigned long long seed;
	struct skip skips[SKIPS_MAX];
	int n_skips, lost_skips;
	long cases, failed, skipped, planned;
	int shown, json, single;
	int stopped;                     /* by the time that may be spent */
	double seconds, most_seconds;    /* so far; that may be spent, 0: any */
};

/* ---- subject.c ---- */

/* Does the reference compute the op? */
int  subject_has_reference(const struct cg_op *);
/* Adds the op or the cell in a dtype when it has all of the given attributes.  Else *why (0 to 3) is how much the message tells the
 * user, and the code is CG_BAD_ARGUMENT. */
int  subject_add(struct check *, const struct cg_op *, const struct cg_cell *, int dtype, int *why);
void subjects_close(struct check *);
/* The next case of the table; 0: there is none left. */
int  subject_next(const struct check *, struct subject *, unsigned long long seed, struct example *);
/* Any case; 0: with these words there is none. */
int  subject_any(const struct check *, struct subject *, unsigned long long seed, struct example *);
/* The one case that the words say. */
void subject_only(const struct check *, struct subject *, struct example *);
/* Cases of its table. */
long subject_table(const struct check *, const struct subject *);
void example_fields(struct example *, struct fields *);
int  example_run(const struct check *, struct example *, struct finding *);
/* Counts cases that are left out, and why. */
void check_skip(struct check *, const char *what, const char *why, long cases);

/* ---- verdict.c ---- */

int  verdict_begin(const struct check *);
/* To be called before a case runs: should it end or hold up the program, its line is printed. */
void verdict_watch(const struct check *, struct example *);
int  verdict_failure(const struct check *, struct example *, const struct finding *);
void verdict_progress(const struct check *);
int  verdict_end(const struct check *);

#endif
