/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declares what the files that plan a pass share: pass.c chooses the functions and cuts the graph for each, pass_function.c makes
 * them.
 */
#ifndef CG_PASS_H
#define CG_PASS_H

#include "cell.h"

enum { ARGUMENTS_MAX = 4 * CG_VALUES_MAX };

/* A value that is in memory when a function runs: where its node stands the function loads it. */
struct cut { const char *name; int role, index, derivative; };

struct maker {
	struct cg_pass_plan *plan;
	struct cg_graph *graph;
	struct cut *cuts;                         /* by node; name NULL: none */
	int n_cuts;
	struct cg_argument outs[ARGUMENTS_MAX];
	int n_outs;
	int failed;
};

/* "gda_i" of gate a_i; the bias of gate a_i is b_i, the output h, as what takes it from a step sees it, h_out. */
const char *cg_function_argument_name(struct cg_graph *, const struct cg_cell *, int role, int index, int derivative);
int cg_function_type(const struct cg_pass_plan *, int role, int index, int derivative);
struct cg_argument cg_function_argument(struct maker *, int role, int index, int derivative, int node);
/* "cg_lstm_block_peephole_f32_grad"; the stage is named where a cell has several and this is one of them. */
int cg_function_key(const struct cg_pass_plan *, char key[CG_KEY_MAX], int stage, const char *suffix);
/* Makes a function that computes the outputs gathered so far from what is in memory, and clears them; a part computes their terms,
 * and its sum, made next, stores them. */
void cg_function_make(struct maker *, int stage, int shape, const char *suffix);

#endif
