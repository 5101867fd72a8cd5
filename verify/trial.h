/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trial of one op: random numbers, the library's answers on one device or two, and the reference's verdict. The conformance suite
 * and `cellgrad check` run the same trials; the suite and the command choose the cases and print the results.
 */
#ifndef TRIAL_H
#define TRIAL_H

#include "verify/field.h"
#include "runtime/op/op.h"
#include "verify/area.h"
#include "verify/finding.h"

union trial_op { size_t size; struct cg_lstm_block lstm; struct cg_gru_block gru; };

struct trial {
	const struct cg_op *op;
	union trial_op is;               /* sizes, dtype, options and scalars; memory is set for each call */
	double scale;                    /* magnitude of the random inputs */
	int    memory;                   /* an enum area_memory */
	unsigned long long absent;       /* one bit for each optional port, in the table's order; 1: the call lacks it */
	unsigned long long seed;         /* of the random numbers */
};

/* Does the reference compute this op? */
int  trial_has_reference(const struct cg_op *);
/* Is the port of the op optional? Outputs and upstream gradients are optional. In half of the cases a call also lacks the inputs that it
 * does not read. */
int  trial_optional(const struct cg_op *, const struct cg_port *);
int  trial_optionals(const struct cg_op *);
/* The forward op whose outputs a gradient op reads; for a forward op, the op itself. */
const struct cg_op *trial_forward(const struct cg_op *);
int64_t trial_size(const struct trial *, const char *symbol);
/* Would the reference compute this case for longer than a user wants to wait? */
int  trial_too_large(const struct trial *);

/* Checks the attributes of a case. Returns CG_OK, or an error whose message names an attribute that is not allowed, such as a seq_len_max
 * above T. A trial of a case that is not legal gives FINDING_DECLINED. */
int  trial_legal(const struct trial *);

/* Sets a trial to a small case with the op's default attributes. */
void trial_small(const struct cg_op *, int dtype, struct trial *);
/* Sets a trial to the next case of the table of cases; returns 0 where the table has no further case. The caller chooses which arguments
 * are absent. */
struct trial_cursor { int size, variant; };
int  trial_next(struct trial_cursor *, const struct cg_op *, int dtype, struct trial *);
/* Sets a trial to a random case, drawn from the seed. The trial keeps the seed for its random numbers. */
void trial_random(const struct cg_op *, int dtype, unsigned long long seed, struct trial *);
/* Lists the fields of a trial by name. */
void trial_fields(struct trial *, struct fields *);

/* Runs the case on one or two sides, twice on each. The finding describes an error of the library; a returned code other than CG_OK means
 * that the trial itself could not run. */
int  trial_run(const struct trial *, const struct side *, int sides, struct finding *);

#endif
