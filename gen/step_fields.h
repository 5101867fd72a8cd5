/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes the struct that the text of all steps of a sequence takes, for the files that print the text: its fields and their layout.
 */
#ifndef CG_STEP_FIELDS_H
#define CG_STEP_FIELDS_H

#include "cell.h"

/* Kinds of a field of the struct: a matrix for each step, a matrix of one step, a vector over the units, one
 * element, a number, an integer, a recurrent matrix, the workspace.  No field of the last three
 * kinds, COUNT, MATRIX and MEMORY, is made from an argument of a cell's function. */
enum field_kind { SEQUENCE, ONE_STEP, PER_UNIT, ELEMENT, SCALAR, COUNT, MATRIX, MEMORY };

struct field {
	char name[CG_NAME_MAX + 16];
	char shape[48], is[240];
	int kind, type, out, required;
	int role, index, derivative;
};

enum { BOTH = 2 };                               /* a field that is read and written */
enum { FIELDS_MAX = 4 * CG_STATES_MAX + CG_SAVES_MAX + CG_WEIGHTS_MAX + CG_SCALARS_MAX + CG_PARAMS_MAX + 4 * CG_STAGES_MAX + 16 };

/* The layout of a cell's step within a sequence, and the fields. */
struct steps {
	const struct cg_pass_plan *plan;
	int backward, plain, output;             /* output: the index of the output among the cell's prevs */
	int first[CG_STAGES_MAX + 1];            /* first[s]: the index of stage s + 1's first gate among those that products add to */
	int block[CG_GATES_MAX], n_blocks;       /* block[k]: the column block of gate k in a step's gates */
	struct field fields[FIELDS_MAX]; int n_fields;
};

void cg_lay_out_steps(struct steps *, const struct cg_pass_plan *);
/* The k-th name that a field adds to the struct: its own name, or that of its stride or step.  Returns 0 where the field adds fewer
 * names. */
int  cg_name_member(const struct field *, int k, char name[CG_NAME_MAX + 24]);
/* The name of the gate in a column block of a step. */
const char *cg_get_step_gate(const struct steps *, int block);
/* The name of a state, or of the output, by its index among the cell's previous values. */
const char *cg_get_prev_value(const struct steps *, int prev);
/* The name of the adjoint of the output before the step. */
void cg_name_d_h(const struct steps *, char name[CG_NAME_MAX + 16]);
/* Does a function read the gate pre-activations? */
int  cg_reads_gates(const struct cg_pass_plan *);
/* Does a function write a part of the adjoint of the output before the step? */
int  cg_gives_h_prev(const struct steps *);

#endif
