/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declares what the files that plan a pass share: pass.c chooses the functions and where the graph is cut,
 * pass_function.c makes the functions.
 */
#ifndef CG_PASS_H
#define CG_PASS_H

#include "cell.h"

enum { ARGUMENTS_MAX = 4 * CG_VALUES_MAX };

/* A cut of the graph: a value that is in memory when a function runs.  At a cut the function loads the
 * value from memory and does not compute the cut's node. */
struct cut { const char *name; int role, index, derivative; };

struct maker {
	struct cg_pass_plan *plan;
	struct cg_graph *graph;
	struct cut *cuts;                         /* the cut of each node; name NULL: no cut */
	int n_cuts;
	struct cg_argument *outs;                 /* [ARGUMENTS_MAX] */
	int n_outs;
	int failed;
};

/* The name of an argument: "gda_i" of gate a_i.  The bias of gate a_i is b_i; the output h, as the layer above takes it, is h_out. */
const char *cg_function_argument_name(struct cg_graph *, const struct cg_cell *, int role, int index, int derivative);
int cg_function_type(const struct cg_pass_plan *, int role, int index, int derivative);
struct cg_argument cg_function_argument(struct maker *, int role, int index, int derivative, int node);
/* The name of a function: "cg_lstm_block_peephole_f32_grad".  The name contains the stage where the cell has several stages and `stage`
 * is not 0. */
int cg_function_key(const struct cg_pass_plan *, char key[CG_KEY_MAX], int stage, const char *suffix);
/* Makes a function that computes the outputs collected so far from the values in memory.  After a point function cg_function_make() empties
 * the list of outputs; after a sum part, a sum or a sum over units the list stays.  Before a function that reads means over units,
 * cg_function_make() makes the functions that compute these means, level by level: a mean of means is one level above the means that it
 * reads.  A sum part computes partial sums of the outputs over blocks of rows.  The sum stores the gradients of biases and
 * weights, the sum over units those of scalars. */
void cg_function_make(struct maker *, int stage, int shape, const char *suffix);

/* Assigns the registers and lists the operations with which strip.c interprets a function.  Returns -1 where memory is exhausted. */
int cg_assign_registers(struct cg_pass_plan *, struct cg_function *);

#endif
