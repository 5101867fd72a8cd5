/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the files of a recurrence share: recurrence.c, its steps; one_launch.c, all steps in one launch; arguments.c, the memory of a
 * kernel's arguments; span.c, the products over many steps.
 */
#ifndef CG_RECURRENCE_H
#define CG_RECURRENCE_H

#include "runtime/rnn/rnn.h"

/* An absent operand. */
static const struct cg_matrix none = { .stride = 0 };

/* Is the recurrence's kernel one for a step of a sequence?  Kernels for a step of a sequence pass the cell state and the gradients of
 * states from step to step with type acc, and have a separate argument for the upstream gradient of the output.  Kernels of a single step
 * have rounded states, and one argument for the whole gradient of a state. */
static inline int is_of_sequence(const struct cg_recurrence *w)
{
	return w->kernel->pass == CG_SEQ_FORWARD || w->kernel->pass == CG_SEQ_GRAD;
}

static inline int is_grad(const struct cg_recurrence *w)
{
	return w->kernel->pass == CG_GRAD || w->kernel->pass == CG_SEQ_GRAD;
}

static inline int n_stages(const struct cg_recurrence *w)
{
	return w->kernel->cell->n_stages;
}

/* ---- matrices ---- */

/* The part of a matrix from a row and a column on. */
static inline struct cg_matrix at(const struct cg_recurrence *w, struct cg_matrix m, int64_t row, int64_t column)
{
	size_t bytes = (size_t)(row * m.stride + column) * w->bytes[m.acc];

	if (m.mem.data) {
		m.mem.offset += bytes;
		m.mem.bytes -= bytes;
	}
	return m;
}

/* The gate pre-activations, or their gradients, from a packed row and a column block on. */
static inline struct cg_matrix gates_at(const struct cg_recurrence *w, int64_t row, int64_t block)
{
	return at(w, w->gates, row - w->gates_row, block * w->U);
}

static inline struct cg_matrix d_gates_at(const struct cg_recurrence *w, int64_t row, int64_t block)
{
	return at(w, w->d_gates, row, block * w->U);
}

static inline int is_state(const struct cg_recurrence *w, int k)
{
	int any = 0;

	for (int c = 0; c < w->n_states; c++)
		any |= w->saved_c[c] == k;
	return any;
}

static inline struct cg_matrix saved_matrix(const struct cg_recurrence *w, int k)
{
	return (struct cg_matrix){ w->saved[k], w->U, is_of_sequence(w) && is_state(w, k) };
}

/* The part of a weight matrix from its k-th gate on. */
static inline struct cg_matrix of_gates(const struct cg_recurrence *w, struct cg_matrix m, int64_t k)
{
	return w->by_input ? at(w, m, 0, k * w->U) : at(w, m, k * w->U, 0);
}

/* The first packed row of a step. */
static inline int64_t off(const struct cg_recurrence *w, int64_t s)
{
	return cg_packed_offset(w->sequence, w->direction, s);
}

/* stage_columns(): the number of columns of the gates to which the recurrent product of a stage is added.  stage_width(): the number of
 * columns of that product's operand, which is the hidden state or a stage input. */
static inline int64_t stage_columns(const struct cg_recurrence *w, int stage)
{
	return (w->first[stage + 1] - w->first[stage]) * w->U;
}

static inline int64_t stage_width(const struct cg_recurrence *w, int stage)
{
	return stage ? w->U : w->H;
}

/* Does the recurrent product of a stage start from the biases?  In a scan it does, if none of the gates to which it is added has an input
 * part; elsewhere the biases are copied to the gates first, since a product that starts from other memory may take a second launch. */
static inline int starts_from_bias(const struct cg_recurrence *w, int stage)
{
	if (!cg_present(w->scan))
		return 0;
	for (int k = 0; k < w->kernel->cell->n_gates; k++)
		if (w->gate[k].block >= w->first[stage] && w->gate[k].block < w->first[stage + 1] && w->gate[k].weight[CG_PART_W] >= 0)
			return 0;
	return 1;
}

/* ---- products and rows ---- */

static inline int multiply(const struct cg_recurrence *w, struct cg_gemm *g)
{
	g->dtype = w->kernel->dtype;
	return cg_multiply(w->stream, g);
}

static inline int copy_rows(const struct cg_recurrence *w, int64_t rows, int64_t columns, struct cg_matrix src, struct cg_matrix dst, int add)
{
	const struct cg_rows r = { .dtype = w->kernel->dtype, .rows = rows, .columns = columns, .src = src, .dst = dst,
	                           .add = add };

	return cg_copy_rows(w->stream, &r);
}

/* ---- arguments.c ---- */

/* A step number that stands for all steps, in launches of the sums over all packed rows. */
enum { CG_ALL_STEPS = -1 };
/* What the arguments of a launch are bound to: the recurrence; the step or CG_ALL_STEPS; of a bias with two destinations, side 0 or 1. */
struct cg_at_step { const struct cg_recurrence *recurrence; int64_t s; int side; };
/* Binds an argument.  at_step: a struct cg_at_step. */
int cg_recurrence_bind(const void *at_step, const struct cg_argument *, struct cg_operand *);
/* The hidden state, and the cell's k-th saved value, after a step. */
struct cg_matrix cg_recurrence_get_h(const struct cg_recurrence *, int64_t s);
struct cg_matrix cg_recurrence_get_saved(const struct cg_recurrence *, int k, int64_t s);

/* ---- one_launch.c ---- */

/* Do the backend and the recurrence's kernel have a step loop of a function, which cg_recurrence_loop() launches in place of all steps? */
int cg_recurrence_loops(const struct cg_recurrence *, int function);
int cg_recurrence_loop(const struct cg_recurrence *, int function);

/* ---- span.c ---- */

/* A span: the steps first to end - 1, and their packed rows, which are contiguous. */
struct cg_span { int64_t first, end, row, rows; };

/* Computes the input part of the gate pre-activations of a span. */
int cg_span_multiply_inputs(const struct cg_recurrence *, const struct cg_span *);
/* Fills prev_h and prev_c for all steps, each only if it is present and a requested gradient reads it; prev_c not if there is one step. */
int cg_span_gather_prev(const struct cg_recurrence *);
/* Adds a span's part to the gradients of the matrices, from the gradients of its gates; the part of the last span overwrites them, unless
 * `accumulate` is set.  The caller goes through the spans from the last one to the first. */
int cg_span_multiply_weights(const struct cg_recurrence *, const struct cg_span *);
/* Computes the gradient of x for a span, from the gradients of its gates, if dx.result is present. */
int cg_span_multiply_gradients(const struct cg_recurrence *, const struct cg_span *);

#endif
