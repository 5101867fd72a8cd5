/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs an op: checks, workspace, staging (run.c).
 */
#ifndef CG_RUN_H
#define CG_RUN_H

#include "runtime/device/device.h"
#include "runtime/op/op.h"

/* The state of a call from its checks to its end. */
enum { CG_OP_BYTES = 4096 };             /* the most bytes of an op's struct; tests/op/op_test compares each row of the op table */
struct cg_op_call {
	struct cg_stream *stream;
	const struct cg_op *row;
	/* given: the caller's op struct.  op: the op struct to compute, with arguments that the device can read; NULL: there is nothing to
	 * compute */
	const void *given, *op;
	struct cg_mem work;
	double start;                    /* the time when the call started, set if the call prints a line */
	int is_staged;
	struct cg_staging stage;
	union { size_t size; char bytes[CG_OP_BYTES]; } staged;
};
/* Begins a call; does not read `given`. */
void cg_op_begin(struct cg_op_call *, struct cg_stream *, const struct cg_op *, const void *given);
/* Opens a call that was checked: sets its workspace, the caller's or else the stream's, and makes its arguments readable by the device.
 * If no output is present, c->op stays NULL: there is nothing to compute. */
int  cg_op_open(struct cg_op_call *);
/* Copies staged outputs back unless `code` is a failure, and prints the line of the call if the context is verbose.  Returns the first
 * failure. */
int  cg_op_close(struct cg_op_call *, int code);

/* Runs a whole call: checks an op by its row, opens it, computes it by `body` and closes it. */
int cg_op_run(struct cg_stream *, const struct cg_op *, const void *op,
              int (*body)(struct cg_stream *, const void *op, struct cg_work *));

#endif
