/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of TensorFlow's block ops in the op table, and the texts that these rows share.
 */
#ifndef CG_BLOCK_H
#define CG_BLOCK_H

#include "runtime/op/op.h"

/* The rows of the block ops in the op table; each list ends with a row whose name is NULL. */
extern const struct cg_op cg_lstm_block_cell_ops[], cg_block_lstm_ops[], cg_gru_block_cell_ops[];

#define ABOUT_T "steps"
#define ABOUT_B "rows of the batch"
#define ABOUT_I "width of the input"
#define ABOUT_U "units, the width of the states"
#define ABOUT_GATES "gradient of the gate pre-activations"
/* What `cellgrad info` says of a weight matrix, in which the rows that multiply x are above those that multiply h_prev or, in w_c,
 * h_prev r. */
#define ABOUT_W "I rows for x, then U rows for the hidden state of the step before"
#define ABOUT_W_C "I rows for x, then U rows for the product of r and the hidden state of the step before"
#define ONE_LAYER "num_layers=1 direction=unidirectional input_mode=linear_input num_proj=0"

#endif
