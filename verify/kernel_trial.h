/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trial of one kernel. A kernel must give the same bits on every device and in every form, so it runs twice on one side and once
 * on another, over the same memory, and the bits are compared.
 */
#ifndef KERNEL_TRIAL_H
#define KERNEL_TRIAL_H

#include "gen/cell.h"
#include "verify/trial.h"

enum { KERNEL_KINDS = 128, KERNEL_ARGUMENTS = FIELD_NAMES - CG_OPTIONS_MAX };

/* A kernel that can be run: which one it is, and its arguments without duplicates. */
struct kernel_kind {
	const struct cg_cell *cell;
	unsigned long long options;
	int64_t stage;
	int pass, dtype, shape;
	struct cg_pass_plan *plan;
	const struct cg_argument *arguments[KERNEL_ARGUMENTS];   /* arguments in memory first, then numbers */
	int n_memory, n;
};

/* Lists all kernels of a cell in a dtype. The caller closes the list, also after a failure. */
int  kernel_kinds(const struct cg_cell *, int dtype, struct kernel_kind kinds[KERNEL_KINDS], int *n);
void kernel_kinds_close(struct kernel_kind *, int n);
/* Parses the same equations under another name, so that no compiled kernel is used. */
int  kernel_again(const struct cg_cell *, struct cg_cell **again);

struct kernel_trial {
	const struct kernel_kind *kind;
	struct kernel_kind is;           /* a copy of the kind that text fields may change; the trial runs `kind` */
	int64_t rows, units, gap;        /* gap: elements between the end of one row and the start of the next */
	int memory, accumulate, nan;     /* nan: a quarter of the input elements are NaN */
	unsigned long long absent;       /* one bit for each argument in memory: the call does not get it */
	unsigned long long seed;
};

void kernel_small(const struct kernel_kind *, struct kernel_trial *);
/* The number of areas in the table; case n takes area n, or a random one where n is larger. */
int  kernel_areas(void);
void kernel_case(const struct kernel_kind *, int n, unsigned long long seed, struct kernel_trial *);
void kernel_fields(struct kernel_trial *, struct fields *);
/* Do the fields still name the kernel that the trial runs? */
int  kernel_matches(const struct kernel_trial *);
int  kernel_too_large(const struct kernel_trial *);

/* sides: two, which may be equal. cells: the cell that each side runs; NULL: that of the kind. */
int  kernel_trial_run(const struct kernel_trial *, const struct side *sides, const struct cg_cell *const *cells, struct finding *);

#endif
