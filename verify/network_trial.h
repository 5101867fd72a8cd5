/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One case of a network: a drawn model, its forward and, of a gradient, its backward on a device, or on two, and the reference's
 * verdict.  As trial.h has it for the ops of single cells.
 */
#ifndef NETWORK_TRIAL_H
#define NETWORK_TRIAL_H

#include "verify/field.h"
#include "runtime/op/op.h"
#include "verify/finding.h"
#include "verify/area.h"

struct network_trial {
	int     grad;                    /* which of the two is judged; a gradient runs its forward first */
	int64_t T, B, I, U, layers, proj, first_step;
	int     dtype, mode, direction, input, time_major, training, peephole, accumulate, strict_rounding, no_dropout, states_major, reverse;
	int     lengths;                 /* an enum network_lengths */
	int     layout;                   /* an enum network_layout */
	double  dropout, scale;
	int     memory;                  /* an enum area_memory */
	unsigned long long absent;       /* a bit for each argument that may be */
	unsigned long long seed;
};

/* Is it an op of networks that the reference computes? */
int  network_has_reference(const struct cg_op *);
int  network_optionals(int grad);
int  network_too_large(const struct network_trial *);
void network_small(const struct cg_op *, int dtype, struct network_trial *);
/* The n-th case of the table; 0: there is none. */
int  network_case(const struct cg_op *, int dtype, int n, struct network_trial *);
void network_random(const struct cg_op *, int dtype, unsigned long long seed, struct network_trial *);
void network_fields(struct network_trial *, struct fields *);
int  network_trial_run(const struct network_trial *, const struct side *, int sides, struct finding *);

#endif
