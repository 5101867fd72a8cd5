/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs all steps of a recurrence in one launch, where the backend and the cell's function have a step loop: cells without a recurrent
 * product.
 */
#include "runtime/rnn/recurrence.h"

int cg_recurrence_loops(const struct cg_recurrence *w, int function)
{
	const struct cg_pass_plan *plan = w->kernel->plan;

	return w->stream->context->backend->loop_steps && !w->P && cg_has_step_loop(plan, &plan->functions[function]);
}

static void set(struct cg_operand *operand, struct cg_matrix m)
{
	operand->mem = m.mem;
	operand->stride = m.stride;
}

/* The carry from which the last step of each batch row reads the gradient of a state. */
static struct cg_matrix last_carry(const struct cg_recurrence *w, struct cg_mem carry)
{
	return cg_recurrence_get_carry(w, carry, w->U, w->sequence->is_dense ? w->sequence->S - 1 : -1);
}

/* Binds one argument, and its second memory.  In inference a saved value that no later step reads is not written. */
static void bind(const struct cg_recurrence *w, const struct cg_argument *a, struct cg_operand *operand, struct cg_operand *second)
{
	const int in_steps = cg_in_steps(w->kernel->plan, a), is_h = a->index == w->output;
	const int of_first = in_steps == CG_STEPS_BEFORE || in_steps == CG_STEPS_FIRST || (in_steps == CG_STEPS_PASSED && !is_grad(w));
	const struct cg_at_step at_step = { w, of_first ? 0 : CG_ALL_STEPS, 0 };

	(void)cg_recurrence_bind(&at_step, a, operand);
	*second = (struct cg_operand){ .stride = 0 };
	if (in_steps == CG_STEPS_ROWS && a->role == CG_ROLE_SAVED && w->in_turn[a->index])
		operand->mem = none.mem;
	if (in_steps == CG_STEPS_BEFORE)
		set(second, is_h ? w->h : saved_matrix(w, w->saved_c[w->slot[a->index]]));
	if (in_steps == CG_STEPS_PASSED && is_grad(w)) {
		const struct cg_mem carry = is_h ? w->carry_h : w->carry_c[w->slot[a->index]];

		if (w->every_carry)
			*second = *operand;
		set(operand, last_carry(w, carry));
	}
}

int cg_recurrence_loop(const struct cg_recurrence *w, int function)
{
	const struct cg_function *p = &w->kernel->plan->functions[function];
	const struct cg_packed *sequence = w->sequence;
	struct cg_operand operands[CG_SLOTS_MAX], second[CG_SLOTS_MAX];
	const struct cg_step_loop loop = {
		.function = function, .rows = sequence->S ? cg_packed_rows(sequence, 0) : 0, .units = w->U, .steps = sequence->S,
		.offsets = sequence->offsets, .start = sequence->is_dense ? off(w, 0) : 0,
		.apart = w->direction ? -sequence->B : sequence->B, .operands = operands, .second = second,
	};

	if (!loop.rows)
		return CG_OK;
	for (int k = 0; k < p->n_arguments; k++)
		bind(w, &p->arguments[k], &operands[k], &second[k]);
	return w->stream->context->backend->loop_steps(w->stream->queue, w->kernel->built, &loop);
}
