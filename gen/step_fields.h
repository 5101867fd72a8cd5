/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all steps of a sequence take, as fields of a struct, for the files that print them.
 */
#ifndef CG_STEP_FIELDS_H
#define CG_STEP_FIELDS_H

#include "cell.h"

/* What a field of the struct is: a matrix of each step, of one step, a vector of the units, a scalar; and what no argument is. */
enum field_kind { SEQUENCE, ONE_STEP, PER_UNIT, SCALAR, COUNT, MATRIX, MEMORY };

struct field {
	char name[CG_NAME_MAX + 16];
	char shape[48], is[240];
	int kind, type, out, required;
	int role, index, derivative;
};

enum { BOTH = 2 };                               /* in and out */
enum { FIELDS_MAX = 4 * CG_STATES_MAX + CG_SAVES_MAX + CG_WEIGHTS_MAX + CG_PARAMS_MAX + 4 * CG_STAGES_MAX + 16 };

/* The layout of a cell in a sequence, and the fields. */
struct steps {
	const struct cg_pass_plan *plan;
	int backward, plain, output;             /* output: its index among the states before the step */
	int first[CG_STAGES_MAX + 1];            /* gates that products add to, before each stage */
	int block[CG_GATES_MAX], n_blocks;       /* where each gate stands among all of a step */
	struct field fields[FIELDS_MAX]; int n_fields;
};

void cg_lay_out_steps(struct steps *, const struct cg_pass_plan *);
/* The k-th name in the struct that a field brings; 0: there is none. */
int  cg_name_member(const struct field *, int k, char name[CG_NAME_MAX + 24]);
/* The name of the gate that stands in a column block of a step. */
const char *cg_get_step_gate(const struct steps *, int block);
/* The name of a state, or of the output, by its index among the values before the step. */
const char *cg_get_prev_value(const struct steps *, int prev);
/* The name of the adjoint of the output before the step. */
void cg_name_d_h(const struct steps *, char name[CG_NAME_MAX + 16]);
/* Does a function read the gates themselves? */
int  cg_reads_gates(const struct cg_pass_plan *);
/* Does a function give a part of the adjoint of the output before the step? */
int  cg_gives_h_prev(const struct steps *);

#endif
