/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random cells: stages, splits, states, options, params, any saved values, equations with all functions but step. A cell is drawn as
 * numbers, from which its text in the language of cells is written.
 */
#ifndef DRAW_CELL_H
#define DRAW_CELL_H

#include "tests/sequence/guarded_network.h"
#include "tests/sequence/tape.h"

enum { STAGES = 4, GATES = 28, WEIGHTS = 6, OPTIONS = 2, SCALARS = 2, PARAMS_MAX = 3, EQUATIONS = 24 };
enum { TERMS = 1024, POOL = 112, TEXT = 8192 };

enum { NO_X = 1, NO_H = 2, NO_BIAS = 4 };
/* MEAN, the mean over the units of a row, is no operation of the tape, which records a sum and a product instead. */
enum { MEAN = TAPE_OPS, TERM_OPS };
/* The kinds of values that a term of an equation reads. */
enum item { GATE, PREV_H, PREV_C, WEIGHT, SCALAR, PARAM, VALUE, NUMBER, ITEMS };

struct term { int op, a, b, item, index; double number; };     /* op: an enum tape_op, or MEAN; TAPE_LEAF: the term reads an item */
struct equation { int term, stage; };

struct drawn {
	int n_stages, feed[STAGES];              /* feed[k]: the equation whose value stage k + 1's product reads */
	/* split_of: the gate whose recurrent part this is; -1: none.  lacks: the sum of NO_X, NO_H and NO_BIAS, as they apply */
	struct { int stage, split_of, lacks; } gates[GATES];
	int n_gates, n_states, states[1 + MORE], output;         /* states, output: indices of equations */
	int n_options, on[OPTIONS], n_weights, option[WEIGHTS], n_scalars, n_params;    /* option -1: the cell always has the weight */
	/* given: the param has a default; set: the network gives the param a value */
	struct { double value; int given, set; } params[PARAMS_MAX];
	struct equation equations[EQUATIONS];
	int n_equations;
	struct term terms[TERMS];
	int n_terms, reads_h;
	struct { int item, index, used; } pool[POOL];           /* what equations may read; used: 1 if one reads the value, or none must */
	int n_pool;
	char text[TEXT];
	struct cg_cell *cell;
};

/* Draws all of a cell but its text and the values that it saves. */
void draw_cell(struct drawn *, unsigned long long *state);
/* Writes the text of a drawn cell, for which it draws the values that the cell saves. */
void write_cell(struct drawn *, unsigned long long *state);

#endif
