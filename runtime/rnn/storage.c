/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The layout of a call's memory: the parts of the workspace, and the saved values of each pseudo-layer in the reserve space.
 */
#include <stddef.h>
#include <string.h>

#include "runtime/rnn/rnn.h"

static int64_t most(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t widest(const struct cg_rnn *rnn)
{
	return rnn->net.layers > 1 ? most(rnn->net.I, rnn->net.directions * rnn->net.H) : rnn->net.I;
}

int cg_rnn_drops(const struct cg_rnn *rnn)
{
	return rnn->net.training && rnn->net.dropout > 0 && rnn->net.layers > 1;
}

/* Do other steps read saved value k?  Without a reserve space, a saved value that other steps read has memory for all
 * steps, any other saved value for one step. */
int cg_rnn_is_read_later(const struct cg_rnn *rnn, int k)
{
	int later = k == rnn->saved_h;

	for (int c = 0; c < rnn->n_states; c++)
		later |= k == rnn->saved_c[c];
	return later;
}

/* ---- pseudo-layers at once ---- */

/* Layers that run at once have several spans, so that they seldom wait for each other; a span is at least so long that its steps take
 * longer than the call of the backend. */
enum { SPANS = 4, SHORTEST_SPAN = 32 };

/* May layers run at once, each one span behind the layer that begins before it?  Layers may run at once only if there is one direction,
 * which begins at the first step; if there is no dropout, so that a layer reads the output of the layer below unchanged; and if a row has
 * enough steps for SPANS spans. */
static int runs_layers_at_once(const struct cg_rnn *rnn, const struct cg_rnn_shape *shape)
{
	return rnn->net.directions == 1 && !rnn->net.reverse && rnn->net.layers > 1 && !cg_rnn_drops(rnn) && shape->longest >= SPANS * SHORTEST_SPAN;
}

/* The number of pseudo-layers that run at once.  Several pseudo-layers run at once only on the backend's scan, whose bits do not depend on
 * what else runs at the same time. */
static int count_at_once(const struct cg_rnn *rnn, int pass, int most, const struct cg_rnn_shape *shape)
{
	int at_once = rnn->net.directions == 2 ? 2 : runs_layers_at_once(rnn, shape) ? rnn->net.layers : 1;

	most = at_once < most ? at_once : most;
	if (most == 1 || !cg_rnn_measure_scan(rnn, pass, shape->B, shape->N))
		return 1;
	at_once = cg_rnn_count_at_once(rnn, pass, shape->B, shape->longest);
	return at_once < most ? at_once : most;
}

int64_t cg_layers_span_steps(const struct cg_rnn *rnn, int pass, const struct cg_rnn_shape *shape)
{
	int64_t steps = cg_recurrence_count_span_steps(rnn->net.dtype, pass, rnn->n_blocks * rnn->net.U, widest(rnn) + rnn->net.H, shape->B);
	int64_t divided;

	/* The backward pass of a network with `reverse` is one span. */
	if (rnn->net.reverse && pass != CG_FORWARD)
		return 0;
	if (shape->at_once == 1)
		return steps;
	/* If both directions run at once, the gradient of x is summed direction by direction, each over all steps. */
	if (rnn->net.directions == 2)
		return pass == CG_FORWARD ? steps : 0;
	divided = most(shape->longest / (SPANS * shape->at_once), SHORTEST_SPAN);
	return steps && steps < divided ? steps : divided;
}

/* ---- the workspace ---- */

/* Rows whose size is a multiple of this many bytes map to few sets of a cache, in which rows of one product displace each other. */
enum { ALIASED = 1024 };

int64_t cg_layers_get_gates_stride(const struct cg_rnn *rnn, size_t bytes)
{
	const int64_t columns = rnn->n_blocks * rnn->net.U, gap = CG_WORK_ALIGN / (int64_t)bytes;

	return columns % (ALIASED / (int64_t)bytes) ? columns : columns + gap;
}

static void carve_forward(const struct cg_rnn *rnn, struct cg_work *work, const struct cg_rnn_shape *shape, int64_t span, struct cg_rnn_own *r)
{
	size_t real = cg_dtype_bytes(rnn->net.dtype), acc = cg_acc_bytes(rnn->net.dtype);
	int64_t B = shape->B, N = shape->N;

	if (!(rnn->net.training && rnn->keeps_gates))
		r->gates = cg_work_alloc(work, span && span < N / B ? span * B : N, cg_layers_get_gates_stride(rnn, acc), acc);
	r->bias = cg_work_alloc(work, 1, rnn->n_blocks * rnn->net.U, acc);
	r->means = cg_work_alloc(work, B, rnn->means, acc);
	for (int k = 0; k < rnn->net.cell->n_stages - 1; k++)
		if (rnn->stage_input_saved[0][k] < 0)
			r->stage_input[k] = cg_work_alloc(work, B, rnn->net.U, real);
	for (int k = 0; k < rnn->n_saved && !rnn->net.training; k++)
		if (k != rnn->saved_h || rnn->net.P)
			r->saved[k] = cg_work_alloc(work, cg_rnn_is_read_later(rnn, k) ? N : B, rnn->net.U, rnn->saved[k].acc ? acc : real);
}

static void carve_backward(const struct cg_rnn *rnn, struct cg_work *work, const struct cg_rnn_shape *shape, struct cg_rnn_own *r)
{
	size_t real = cg_dtype_bytes(rnn->net.dtype), acc = cg_acc_bytes(rnn->net.dtype);
	int64_t B = shape->B, N = shape->N, rows = rnn->sums_carry ? N : B, carries = rnn->sums_carry ? N + B : 2 * B;

	r->d_gates = cg_work_alloc(work, N, cg_layers_get_gates_stride(rnn, real), real);
	for (int k = 0; k < rnn->net.cell->n_stages - 1; k++) {
		if (rnn->stage_input_saved[1][k] < 0)
			r->stage_input[k] = cg_work_alloc(work, N, rnn->net.U, real);
		r->d_stage_input[k] = cg_work_alloc(work, rows, rnn->net.U, acc);
	}
	r->means = (double)B * rnn->d_means > (double)N * rnn->sum_means ? cg_work_alloc(work, B, rnn->d_means, acc)
	                                                                : cg_work_alloc(work, N, rnn->sum_means, acc);
	r->carry_h = cg_work_alloc(work, rnn->net.P ? B : carries, rnn->net.H, acc);
	for (int c = 0; c < rnn->n_states; c++)
		r->carry_c[c] = cg_work_alloc(work, carries, rnn->net.U, acc);
	if (rnn->net.P) {
		r->dh = cg_work_alloc(work, N, rnn->net.P, real);
		r->dm = cg_work_alloc(work, rows, rnn->net.U, acc);
	}
	if (!shape->is_whole || rnn->sums_prev_h)
		r->prev_h = cg_work_alloc(work, N, rnn->net.H, real);
	for (int c = 0; c < rnn->n_states; c++)
		if (rnn->sums_prev_c[c])
			r->prev_c[c] = cg_work_alloc(work, N, rnn->net.U, acc);
}

/* Carves from the workspace the parts that all pseudo-layers of the backward pass share. */
static void carve_sums(const struct cg_rnn *rnn, struct cg_work *work, const struct cg_rnn_shape *shape, struct cg_rnn_workspace *r)
{
	size_t real = cg_dtype_bytes(rnn->net.dtype), acc = cg_acc_bytes(rnn->net.dtype);
	int64_t N = shape->N;

	r->partial = cg_work_alloc(work, (N + CG_SUM_ROWS - 1) / CG_SUM_ROWS, rnn->sum_values * rnn->net.U, acc);
	if (shape->is_whole && real != acc)
		r->sum = cg_work_alloc(work, rnn->net.n_parts[CG_PART_R] * rnn->net.U, rnn->net.H, acc);
	for (int k = 0; k < (!shape->is_whole && rnn->net.directions == 2 ? 2 : 1); k++)
		r->dx[k] = cg_work_alloc(work, N, widest(rnn), acc);
	if (rnn->net.layers > 1)
		r->dx_real = cg_work_alloc(work, N, rnn->net.directions * rnn->net.H, real);
	for (int d = 0; d < rnn->net.directions && (!shape->is_whole || !shape->output_in_place || cg_rnn_drops(rnn)); d++)
		r->dy[d] = cg_work_alloc(work, N, rnn->net.H, real);
}

/* Carves from the workspace the parts that the k-th of the pseudo-layers that run at once has for itself. */
static void carve_own(const struct cg_rnn *rnn, int pass, struct cg_work *work, const struct cg_rnn_shape *shape, int k, struct cg_rnn_own *r)
{
	size_t real = cg_dtype_bytes(rnn->net.dtype), acc = cg_acc_bytes(rnn->net.dtype);
	int64_t B = shape->B, N = shape->N;
	size_t scan = cg_rnn_measure_scan(rnn, pass, B, N);

	r->h_first = cg_work_alloc(work, B, rnn->net.H, real);
	r->c_first[0] = cg_work_alloc(work, B, rnn->net.U, acc);
	for (int c = 1; c < rnn->n_states; c++)
		r->c_first[c] = cg_work_alloc(work, B, rnn->net.U, acc);
	/* Only the first of the pseudo-layers has memory for a copy of its input, since layers that run at once read the output of the
	 * layer below, and both directions of a dense call share one input.  In a call with rows of different lengths each direction has
	 * memory for a copy of its input. */
	if (!k || (rnn->net.directions == 2 && !shape->is_whole))
		r->x = cg_work_alloc(work, N, widest(rnn), real);
	if (scan)
		r->scan = cg_work_alloc(work, 1, 1, scan);
	for (int matrix = 0; matrix < CG_RNN_PACKED_MAX && !scan; matrix++) {
		int is_read = matrix == CG_RNN_PACKED_PROJECTION ? rnn->net.P > 0 : matrix < rnn->net.cell->n_stages;
		size_t packed = is_read ? cg_rnn_packed_bytes(rnn, pass, matrix, B, N) : 0;

		if (packed)
			r->packed[matrix] = cg_work_alloc(work, 1, 1, packed);
	}
	if (pass == CG_FORWARD)
		carve_forward(rnn, work, shape, scan ? cg_layers_span_steps(rnn, pass, shape) : 0, r);
	else
		carve_backward(rnn, work, shape, r);
}

size_t cg_layers_count_parts(const struct cg_rnn_shape *shape)
{
	return (offsetof(struct cg_rnn_workspace, own) + (size_t)shape->at_once * sizeof(struct cg_rnn_own)) / sizeof(struct cg_mem);
}

size_t cg_layers_lay_out_workspace(const struct cg_rnn *rnn, int pass, int at_once, struct cg_rnn_shape *shape)
{
	struct cg_rnn_workspace *r = &shape->workspace;
	struct cg_work work = { .used = 0 };
	int64_t of_h;

	shape->at_once = count_at_once(rnn, pass, at_once, shape);
	of_h = most(rnn->net.directions == 1 ? shape->at_once + 1 : 2, 2);
	memset(r, 0, cg_layers_count_parts(shape) * sizeof(struct cg_mem));
	for (int64_t k = 0; k < of_h && k < rnn->net.layers && (rnn->net.P || !rnn->net.training); k++)
		for (int d = 0; d < rnn->net.directions; d++)
			r->h[k][d] = cg_work_alloc(&work, shape->N, rnn->net.H, cg_dtype_bytes(rnn->net.dtype));
	for (int k = 0; k < shape->at_once; k++)
		carve_own(rnn, pass, &work, shape, k, &r->own[k]);
	if (pass != CG_FORWARD)
		carve_sums(rnn, &work, shape, r);
	return work.used;
}

/* ---- the reserve space: the header, then the pseudo-layers one after the other ---- */

void cg_layers_lay_out_saved(const struct cg_rnn *rnn, int64_t N, struct cg_mem reserve, struct cg_rnn_saved_values *saved)
{
	size_t real = cg_dtype_bytes(rnn->net.dtype), acc = cg_acc_bytes(rnn->net.dtype);
	struct cg_work work = { .mem = reserve, .used = CG_RESERVE_HEADER };

	for (int k = 0; k < rnn->n_saved; k++)
		saved->values[k] = cg_work_alloc(&work, N, rnn->net.U, rnn->saved[k].acc ? acc : real);
	if (rnn->keeps_gates)
		saved->gates = cg_work_alloc(&work, N, rnn->n_blocks * rnn->net.U, acc);
	saved->bytes = work.used - CG_RESERVE_HEADER;
}

size_t cg_layers_measure_reserve(const struct cg_rnn *rnn, int64_t N)
{
	static const struct cg_mem absent = { .bytes = 0 };
	struct cg_rnn_saved_values saved;
	size_t bytes;

	cg_layers_lay_out_saved(rnn, N, absent, &saved);
	if (__builtin_mul_overflow(saved.bytes, (int64_t)rnn->net.layers * rnn->net.directions, &bytes) ||
	    __builtin_add_overflow(bytes, CG_RESERVE_HEADER, &bytes))
		return SIZE_MAX;
	return bytes;
}

/* Each block of the reserve space grows by a fixed number of bytes per valid step; `fixed` has the header and the most padding that
 * aligning all blocks can need. */
void cg_layers_bound_reserve(const struct cg_rnn *rnn, size_t *fixed, size_t *step)
{
	const size_t real = cg_dtype_bytes(rnn->net.dtype), acc = cg_acc_bytes(rnn->net.dtype), U = (size_t)rnn->net.U;
	const size_t states = (size_t)rnn->net.layers * (size_t)rnn->net.directions;

	*step = rnn->keeps_gates ? states * (size_t)rnn->n_blocks * U * acc : 0;
	*fixed = CG_RESERVE_HEADER + (rnn->keeps_gates ? states * (CG_WORK_ALIGN - acc) : 0);
	for (int k = 0; k < rnn->n_saved; k++) {
		const size_t each = rnn->saved[k].acc ? acc : real;

		*step += states * U * each;
		*fixed += states * (CG_WORK_ALIGN - each);
	}
}
