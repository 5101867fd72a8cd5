/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trial of one kernel. A kernel must give the same bits on every device and in every form, so it runs twice on one side and once
 * on another, each time from the same initial memory, and the bits are compared.
 */
#ifndef KERNEL_TRIAL_H
#define KERNEL_TRIAL_H

#include "gen/cell.h"
#include "verify/trial.h"

enum { KERNEL_KINDS = 128, KERNEL_ARGUMENTS = FIELD_NAMES - CG_OPTIONS_MAX };

/* A kernel that can be run: the cell, options, pass, stage, dtype and shape that identify it, and its arguments without duplicates. */
struct kernel_kind {
	const struct cg_cell *cell;
	unsigned long long options;
	int64_t stage;
	int pass, dtype, shape;
	struct cg_pass_plan *plan;
	const struct cg_argument *arguments[KERNEL_ARGUMENTS];   /* arguments in memory first, then numbers */
	int n_memory, n;
};

/* Lists all kernels of a cell in a dtype. The caller closes the list of kernels, also after a failure. */
int  kernel_kinds(const struct cg_cell *, int dtype, struct kernel_kind kinds[KERNEL_KINDS], int *n);
void kernel_kinds_close(struct kernel_kind *, int n);
/* Parses the cell's equations again under another name, so that the library has no compiled kernel for the new cell. */
int  kernel_again(const struct cg_cell *, struct cg_cell **again);

struct kernel_trial {
	const struct kernel_kind *kind;
	struct kernel_kind is;           /* a copy of *kind, which field_set() may change; the trial runs *kind, never this copy */
	int64_t rows, units, gap;        /* gap: elements between the end of one row and the start of the next */
	int memory, accumulate, nan;     /* nan: about a quarter of the input elements are NaN */
	unsigned long long absent;       /* one bit for each argument in memory; 1: the call does not get the argument */
	unsigned long long seed;
};

void kernel_small(const struct kernel_kind *, struct kernel_trial *);
/* The number of rows of the table `areas`, which has sizes of kernels' cases. Case n has the sizes of row n, or random ones
 * where the table has no row n. */
int  kernel_areas(void);
void kernel_case(const struct kernel_kind *, int n, unsigned long long seed, struct kernel_trial *);
void kernel_fields(struct kernel_trial *, struct fields *);
/* Do the fields still name the kernel that the trial runs? */
int  kernel_matches(const struct kernel_trial *);
int  kernel_too_large(const struct kernel_trial *);

/* Runs a trial. sides: two, which may be equal. cells: the cell whose kernel each side runs; NULL: the kind's own cell. */
int  kernel_trial_run(const struct kernel_trial *, const struct side *sides, const struct cg_cell *const *cells, struct finding *);

#endif
