/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trial of one network: random numbers, a forward pass and, for a gradient, a backward pass, on one device or two, judged by the
 * reference. trial.h declares the trials of the block ops.
 */
#ifndef NETWORK_TRIAL_H
#define NETWORK_TRIAL_H

#include "verify/field.h"
#include "runtime/op/op.h"
#include "verify/finding.h"
#include "verify/area.h"

struct network_trial {
	int     grad;                    /* 1: the trial judges the outputs and the gradients; 0: the outputs alone */
	int64_t T, B, I, U, layers, proj, first_step;
	int     dtype, mode, direction, input, time_major, training, peephole, accumulate, strict_rounding, no_dropout, states_major, reverse;
	int     lengths;                 /* an enum network_lengths */
	int     layout;                   /* an enum network_layout */
	double  dropout, scale;
	int     memory;                  /* an enum area_memory */
	unsigned long long absent;       /* one bit for each optional argument; 1: the call does not get the argument */
	unsigned long long seed;
};

/* Is this a network op that the reference computes? */
int  network_has_reference(const struct cg_op *);
int  network_optionals(int grad);
int  network_too_large(const struct network_trial *);
void network_small(const struct cg_op *, int dtype, struct network_trial *);
/* Sets the trial to case n of the table of cases; returns 0 where the table has no case n. */
int  network_case(const struct cg_op *, int dtype, int n, struct network_trial *);
void network_random(const struct cg_op *, int dtype, unsigned long long seed, struct network_trial *);
void network_fields(struct network_trial *, struct fields *);
int  network_trial_run(const struct network_trial *, const struct side *, int sides, struct finding *);

#endif
