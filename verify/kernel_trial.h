/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One case of one kernel, whose bits are promised to be the same on every device and by every form of it: run twice on one side and
 * once on another over the same memory, and compared.
 */
#ifndef KERNEL_TRIAL_H
#define KERNEL_TRIAL_H

#include "gen/cell.h"
#include "verify/trial.h"

enum { KERNEL_KINDS = 128, KERNEL_ARGUMENTS = FIELD_NAMES - CG_OPTIONS_MAX };

/* A kernel that can be run, and its arguments, each once. */
struct kernel_kind {
	const struct cg_cell *cell;
	unsigned long long options;
	int64_t stage;
	int pass, dtype, shape;
	struct cg_pass_plan *plan;
	const struct cg_argument *arguments[KERNEL_ARGUMENTS];   /* memory first */
	int n_memory, n;
};

/* All kernels of a cell in a dtype; what was made is to be closed, after a failure, too. */
int  kernel_kinds(const struct cg_cell *, int dtype, struct kernel_kind kinds[KERNEL_KINDS], int *n);
void kernel_kinds_close(struct kernel_kind *, int n);
/* The same equations under another name: a cell that no library has compiled in. */
int  kernel_again(const struct cg_cell *, struct cg_cell **again);

struct kernel_trial {
	const struct kernel_kind *kind;
	struct kernel_kind is;           /* what the kind says, for who reads other words into it; it runs as the kind */
	int64_t rows, units, gap;        /* gap: elements between the end of a row and the next one */
	int memory, accumulate, nan;     /* nan: a quarter of the inputs are */
	unsigned long long absent;       /* a bit for each argument of memory */
	unsigned long long seed;
};

void kernel_small(const struct kernel_kind *, struct kernel_trial *);
/* The n-th area of the table, or any one past it. */
int  kernel_areas(void);
void kernel_case(const struct kernel_kind *, int n, unsigned long long seed, struct kernel_trial *);
void kernel_fields(struct kernel_trial *, struct fields *);
/* Does it read as the kernel that it runs? */
int  kernel_matches(const struct kernel_trial *);
int  kernel_too_large(const struct kernel_trial *);

/* sides: two, which may be the same; cells: which cell each runs, NULL for the kind's own. */
int  kernel_trial_run(const struct kernel_trial *, const struct side *sides, const struct cg_cell *const *cells, struct finding *);

#endif
