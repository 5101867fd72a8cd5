/*
 * Running an op: run.c.
 */
#ifndef CG_RUN_H
#define CG_RUN_H

#include "runtime/device/device.h"
#include "runtime/op/op.h"

/* A call from its checks to its end, and its op with the arguments that a device reaches. */
enum { CG_OP_BYTES = 4096 };             /* of an op's struct at most: a test reads the rows */
struct cg_op_call {
	struct cg_stream *stream;
	const struct cg_op *row;
	const void *given, *op;          /* the caller's; what there is to compute, NULL: nothing */
	struct cg_mem work;
	double start;                    /* of a call that ends with a line */
	int is_staged;
	struct cg_staging stage;
	union { size_t size; char bytes[CG_OP_BYTES]; } staged;
};
/* given: not yet read. */
void cg_op_begin(struct cg_op_call *, struct cg_stream *, const struct cg_op *, const void *given);
/* Of an op that was checked: its work memory, the caller's or its own, and its arguments where the device reaches them.  With no
 * output wanted there is nothing to compute. */
int  cg_op_open(struct cg_op_call *);
/* Copies back what comes out, unless code says that a step failed; writes the line of the call.  Returns the first failure. */
int  cg_op_close(struct cg_op_call *, int code);

/* All of it: checks an op by its row, opens it, computes it and closes it. */
int cg_op_run(struct cg_stream *, const struct cg_op *, const void *op,
              int (*body)(struct cg_stream *, const void *op, struct cg_work *));

#endif
