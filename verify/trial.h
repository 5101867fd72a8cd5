/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One case of one op: drawn numbers, the library's answers on a device, or on two, and the reference's verdict.  The conformance
 * suite and `cellgrad check` run the same trials; they decide which ones, and what to print.
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
	union trial_op is;               /* sizes, dtype, options and scalars; its memory comes with the run */
	double scale;                    /* of the numbers that go in */
	int    memory;                   /* an enum area_memory */
	unsigned long long absent;       /* a bit for each optional port, in the table's order */
	unsigned long long seed;         /* of the numbers */
};

/* Does the reference compute the op? */
int  trial_has_reference(const struct cg_op *);
/* Optional ports: outputs and upstream gradients.  What else is not needed is left out in half of the cases. */
int  trial_optional(const struct cg_op *, const struct cg_port *);
int  trial_optionals(const struct cg_op *);
/* The op whose answers a gradient reads; of a forward op, itself. */
const struct cg_op *trial_forward(const struct cg_op *);
int64_t trial_size(const struct trial *, const char *symbol);
/* More than the reference computes while one waits. */
int  trial_too_large(const struct trial *);

/* CG_OK, or which attribute is beyond what the sizes allow: no case, and its finding is FINDING_DECLINED. */
int  trial_legal(const struct trial *);

/* A small case, with the defaults of the op. */
void trial_small(const struct cg_op *, int dtype, struct trial *);
/* The cases of the table, one after the other; 0: that was the last.  What they leave absent is the caller's to say. */
struct trial_cursor { int size, variant; };
int  trial_next(struct trial_cursor *, const struct cg_op *, int dtype, struct trial *);
/* Any case at all, drawn from the seed, which becomes its own. */
void trial_random(const struct cg_op *, int dtype, unsigned long long seed, struct trial *);
/* What a trial is made of, by name. */
void trial_fields(struct trial *, struct fields *);

/* Computes it on one or two sides, twice on each.  What is wrong is in the finding; a code says that there was no trial. */
int  trial_run(const struct trial *, const struct side *, int sides, struct finding *);

#endif
