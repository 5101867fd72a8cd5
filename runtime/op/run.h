/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs an op: checks, workspace, staging (run.c).
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
/* Begins a call; given is not read yet. */
void cg_op_begin(struct cg_op_call *, struct cg_stream *, const struct cg_op *, const void *given);
/* Opens a call that was checked: gives it its workspace, the caller's or the stream's, and arguments that the device reaches.
 * With no output present there is nothing to compute. */
int  cg_op_open(struct cg_op_call *);
/* Copies outputs back unless code is a failure, and writes the line of the call.  Returns the first failure. */
int  cg_op_close(struct cg_op_call *, int code);

/* A whole call: checks an op by its row, opens it, computes it by `body` and closes it. */
int cg_op_run(struct cg_stream *, const struct cg_op *, const void *op,
              int (*body)(struct cg_stream *, const void *op, struct cg_work *));

#endif
