/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Binds the arguments of a kernel to the memory of a recurrence, each argument by its role, so that any cell can be run.
 */
#include "runtime/rnn/recurrence.h"

/* The first row of step s in saved value k, which holds all steps or in_turn[k] steps in turn. */
static int64_t saved_row(const struct cg_recurrence *w, int k, int64_t s)
{
	if (s == CG_ALL_STEPS)
		return 0;
	return w->in_turn[k] ? s % w->in_turn[k] * w->sequence->B : off(w, s);
}

struct cg_matrix cg_recurrence_get_h(const struct cg_recurrence *w, int64_t s)
{
	return at(w, w->h, saved_row(w, w->saved_h, s), 0);
}

struct cg_matrix cg_recurrence_get_carry(const struct cg_recurrence *w, struct cg_mem carry, int64_t width, int64_t s)
{
	int64_t B = w->sequence->B, row = w->every_carry ? s < 0 ? w->sequence->N : off(w, s) : (s + 2) % 2 * B;

	return at(w, (struct cg_matrix){ carry, width, is_of_sequence(w) }, row, 0);
}

static struct cg_matrix prev_of(const struct cg_recurrence *w, const struct cg_argument *a, int64_t s)
{
	int is_h = a->index == w->output, c = is_h ? 0 : w->slot[a->index];

	if (a->derivative != CG_VALUE && s)
		return cg_recurrence_get_carry(w, is_h ? w->carry_h : w->carry_c[c], w->U, s - 1);
	if (a->derivative != CG_VALUE)
		return is_h ? w->d_h_first : w->d_c_first[c];
	/* In a sequence of one step, the cell state before that step is c_first; prev_c is not filled. */
	if (s == CG_ALL_STEPS && (is_h || w->sequence->S != 1))
		return (struct cg_matrix){ is_h ? w->prev_h : w->prev_c[c], w->U, !is_h && is_of_sequence(w) };
	if (s == CG_ALL_STEPS || !s)
		return is_h ? w->h_first : w->c_first[c];
	return is_h ? cg_recurrence_get_h(w, s - 1) : at(w, saved_matrix(w, w->saved_c[c]), saved_row(w, w->saved_c[c], s - 1), 0);
}

static struct cg_matrix state_of(const struct cg_recurrence *w, const struct cg_argument *a, int64_t s)
{
	int is_h = a->index == w->output, c = is_h ? 0 : w->slot[a->index], k = is_h ? w->saved_h : w->saved_c[c];
	struct cg_mem carry = is_h ? w->carry_h : w->carry_c[c];

	if (a->derivative == CG_VALUE)
		return at(w, saved_matrix(w, k), saved_row(w, k, s), 0);
	if (is_h && w->P)
		return at(w, (struct cg_matrix){ w->dm, w->U, 1 }, w->every_carry && s != CG_ALL_STEPS ? off(w, s) : 0, 0);
	if (s == CG_ALL_STEPS)
		return (struct cg_matrix){ carry, w->U, is_of_sequence(w) };
	if (!is_of_sequence(w) && s == w->sequence->S - 1)
		return at(w, is_h ? w->dy : w->dc, off(w, s), 0);
	return cg_recurrence_get_carry(w, carry, w->U, s);
}

struct cg_matrix cg_recurrence_get_saved(const struct cg_recurrence *w, int k, int64_t s)
{
	return at(w, saved_matrix(w, k), saved_row(w, k, s), 0);
}

static struct cg_matrix stage_input_of(const struct cg_recurrence *w, const struct cg_argument *a, int64_t s)
{
	int d = a->derivative != CG_VALUE, packed = d ? w->every_carry : is_grad(w);

	return at(w, (struct cg_matrix){ d ? w->d_stage_input[a->index] : w->stage_input[a->index], w->U, d },
	          packed && s != CG_ALL_STEPS ? off(w, s) : 0, 0);
}

/* The destination of a gate's bias gradient.  A gate with both bW and bR has two destinations, for side 0 and side 1; a gate with one
 * bias has none for side 1. */
static struct cg_matrix bias_of(const struct cg_recurrence *w, int gate, int side)
{
	const int *weight = w->gate[gate].weight;
	int of_h = side || weight[CG_PART_BIAS_W] < 0, part = of_h ? CG_PART_BIAS_R : CG_PART_BIAS_W;

	if (weight[part] < 0 || (side && weight[CG_PART_BIAS_W] < 0))
		return none;
	return at(w, (struct cg_matrix){ w->d_bias[of_h], 0, 0 }, 0, weight[part] * w->U);
}

/* The number of elements from the first destination of a bias gradient to the second, if one launch fills both; 0: there is no second. */
static int64_t second_of(const struct cg_recurrence *w, const struct cg_argument *a)
{
	struct cg_matrix first, second;

	first = bias_of(w, a->index, 0);
	second = bias_of(w, a->index, 1);
	return cg_present(second.mem) ? (int64_t)((second.mem.offset - first.mem.offset) / w->bytes[0]) : 0;
}

static struct cg_matrix vector_of(const struct cg_recurrence *w, const struct cg_argument *a, int side)
{
	if (a->derivative == CG_VALUE)
		return (struct cg_matrix){ w->vector[a->index], 0, 0 };
	return side ? none : (struct cg_matrix){ w->d_vector[a->index], 0, 0 };
}

static struct cg_matrix scalar_of(const struct cg_recurrence *w, const struct cg_argument *a)
{
	return at(w, (struct cg_matrix){ a->derivative == CG_VALUE ? w->scalars : w->d_scalars, 0, 0 }, 0, a->index);
}

static struct cg_matrix tensor_of(const struct cg_recurrence *w, const struct cg_argument *a, int64_t s, int side)
{
	int64_t row = s == CG_ALL_STEPS ? 0 : off(w, s);
	int is_value = a->derivative == CG_VALUE;

	switch (a->role) {
	case CG_ROLE_GATE:    return (is_value ? gates_at : d_gates_at)(w, row, w->gate[a->index].block);
	case CG_ROLE_PREV:    return prev_of(w, a, s);
	case CG_ROLE_STATE:   return state_of(w, a, s);
	case CG_ROLE_OUTPUT:  return w->P ? none : at(w, w->dy, row, 0);
	case CG_ROLE_SAVED:   return cg_recurrence_get_saved(w, a->index, s);
	case CG_ROLE_FEED:    return stage_input_of(w, a, s);
	case CG_ROLE_BIAS:    return bias_of(w, a->index, side);
	case CG_ROLE_WEIGHT:  return vector_of(w, a, side);
	case CG_ROLE_SCALAR:  return scalar_of(w, a);
	case CG_ROLE_SCRATCH: return (struct cg_matrix){ w->partial, 0, 1 };
	case CG_ROLE_MEANS:   return (struct cg_matrix){ w->means, 0, 1 };
	}
	return none;
}

int cg_recurrence_bind(const void *of, const struct cg_argument *a, struct cg_operand *operand)
{
	const struct cg_at_step *at = of;
	const struct cg_recurrence *w = at->recurrence;
	struct cg_matrix m = tensor_of(w, a, at->s, at->side);

	/* Copies the fields one by one: a copy of the whole struct would wait for the fields that have just been stored. */
	*operand = (struct cg_operand){ .mem = { m.mem.data, m.mem.offset, m.mem.bytes, m.mem.place }, .stride = m.stride };
	if (a->role == CG_ROLE_PARAM)
		operand->value = w->values[a->index];
	else if (a->role == CG_ROLE_ACCUMULATE)
		operand->value = w->accumulate;
	else if (a->role == CG_ROLE_BIAS && w->stream->context->backend->seconds)
		operand->second = second_of(w, a);
	return CG_OK;
}
