/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of the CudnnRNN ops in the op table, and the functions that these rows point to or that compute the ops.
 */
#ifndef CG_CUDNN_RNN_H
#define CG_CUDNN_RNN_H

#include "runtime/rnn/rnn.h"

extern const struct cg_op cg_cudnn_rnn_ops[];    /* ends with a row whose name is NULL */

/* Fills a plan's config from an op's attributes and sizes.  The config's field `training` is is_training, or 1 for a backward op. */
void cg_rnn_op_config(const struct cg_rnn_op *, int pass, struct cg_rnn_config *);
const int32_t *cg_rnn_op_lengths(const struct cg_rnn_op *);
int  cg_rnn_op_open(struct cg_stream *, const struct cg_op *, void *op);
void cg_rnn_op_close(void *op);
int  cg_rnn_op_infer(const struct cg_op *, void *op, unsigned *bound);
int64_t cg_rnn_op_weights(const void *op);
int  cg_rnn_op_forward(struct cg_stream *, const void *op);
int  cg_rnn_op_backward(struct cg_stream *, const void *op);
/* Marks every size of the row as known. */
void cg_rnn_op_inferred(const struct cg_op *, unsigned *bound);

int  cg_rnn_params_infer(const struct cg_op *, void *op, unsigned *bound);
int  cg_rnn_params_size(struct cg_stream *, const void *op);
int  cg_rnn_items(const struct cg_op *, const void *op, int *n);
int  cg_rnn_item(const struct cg_op *, const void *op, int k, struct cg_port *, char name[CG_ITEM_NAME]);
int  cg_rnn_to_canonical(struct cg_stream *, const void *op);
int  cg_rnn_from_canonical(struct cg_stream *, const void *op);
int  cg_rnn_forward_work(const void *op, size_t *bytes);
int  cg_rnn_backward_work(const void *op, size_t *bytes);
int  cg_rnn_no_work(const void *op, size_t *bytes);

#endif
