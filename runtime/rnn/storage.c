/*
 * The layout of the values of a call: the parts of its workspace and, in the reserve, the saved values of each pseudo-layer.
 */
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

int64_t cg_layers_span_steps(const struct cg_rnn *rnn, int pass, int64_t B)
{
	return cg_recurrence_count_span_steps(rnn->net.dtype, pass, rnn->n_blocks * rnn->net.U, widest(rnn) + rnn->net.H, B);
}

int cg_rnn_drops(const struct cg_rnn *rnn)
{
	return rnn->net.training && rnn->net.dropout > 0 && rnn->net.layers > 1;
}

/* Is a value read by other steps, so that each step's is needed even without a reserve? */
int cg_rnn_is_read_later(const struct cg_rnn *rnn, int k)
{
	return k == rnn->saved_c || k == rnn->saved_h;
}

static void carve_forward(const struct cg_rnn *rnn, struct cg_work *work, int64_t B, int64_t N, int64_t span, struct cg_rnn_workspace *r)
{
	size_t real = cg_dtype_bytes(rnn->net.dtype), acc = cg_acc_bytes(rnn->net.dtype);

	if (!(rnn->net.training && rnn->keeps_gates))
		r->gates = cg_work_alloc(work, span && span < N / B ? span * B : N, rnn->n_blocks * rnn->net.U, acc);
	r->bias = cg_work_alloc(work, 1, rnn->n_blocks * rnn->net.U, acc);
	for (int k = 0; k < rnn->net.cell->n_stages - 1; k++)
		if (rnn->stage_input_saved[0][k] < 0)
			r->stage_input[k] = cg_work_alloc(work, B, rnn->net.U, real);
	for (int k = 0; k < rnn->n_saved && !rnn->net.training; k++)
		if (k != rnn->saved_h || rnn->net.P)
			r->saved[k] = cg_work_alloc(work, cg_rnn_is_read_later(rnn, k) ? N : B, rnn->net.U, rnn->saved[k].acc ? acc : real);
}

static void carve_backward(const struct cg_rnn *rnn, struct cg_work *work, int64_t B, int64_t N, int is_dense,
                           struct cg_rnn_workspace *r)
{
	size_t real = cg_dtype_bytes(rnn->net.dtype), acc = cg_acc_bytes(rnn->net.dtype);
	int64_t rows = rnn->sums_carry ? N : B, carries = rnn->sums_carry ? N + B : 2 * B;

	r->d_gates = cg_work_alloc(work, N, rnn->n_blocks * rnn->net.U, real);
	for (int k = 0; k < rnn->net.cell->n_stages - 1; k++) {
		if (rnn->stage_input_saved[1][k] < 0)
			r->stage_input[k] = cg_work_alloc(work, N, rnn->net.U, real);
		r->d_stage_input[k] = cg_work_alloc(work, rows, rnn->net.U, acc);
	}
	r->carry_h = cg_work_alloc(work, rnn->net.P ? B : carries, rnn->net.H, acc);
	if (rnn->state >= 0)
		r->carry_c = cg_work_alloc(work, carries, rnn->net.U, acc);
	if (rnn->net.P) {
		r->dh = cg_work_alloc(work, N, rnn->net.P, real);
		r->dm = cg_work_alloc(work, rows, rnn->net.U, acc);
	}
	if (!is_dense || rnn->sums_prev_h)
		r->prev_h = cg_work_alloc(work, N, rnn->net.H, real);
	if (rnn->sums_prev_c)
		r->prev_c = cg_work_alloc(work, N, rnn->net.U, acc);
	r->partial = cg_work_alloc(work, (N + CG_SUM_ROWS - 1) / CG_SUM_ROWS, rnn->sum_values * rnn->net.U, acc);
	if (is_dense && real != acc)
		r->sum = cg_work_alloc(work, rnn->net.n_weights * rnn->net.U, rnn->net.H, acc);
	for (int k = 0; k < (!is_dense && rnn->net.directions == 2 ? 2 : 1); k++)
		r->dx[k] = cg_work_alloc(work, N, widest(rnn), acc);
	if (rnn->net.layers > 1)
		r->dx_real = cg_work_alloc(work, N, rnn->net.directions * rnn->net.H, real);
	for (int d = 0; d < rnn->net.directions && (!is_dense || cg_rnn_drops(rnn)); d++)
		r->dy[d] = cg_work_alloc(work, N, rnn->net.H, real);
}

size_t cg_layers_lay_out_workspace(const struct cg_rnn *rnn, int pass, const struct cg_rnn_shape *shape, struct cg_rnn_workspace *r)
{
	size_t real = cg_dtype_bytes(rnn->net.dtype), acc = cg_acc_bytes(rnn->net.dtype), bytes;
	int64_t B = shape->B, N = shape->N;
	struct cg_work work = { .used = 0 };

	memset(r, 0, sizeof *r);
	r->h_first = cg_work_alloc(&work, B, rnn->net.H, real);
	r->c_first = cg_work_alloc(&work, B, rnn->net.U, acc);
	r->x = cg_work_alloc(&work, N, widest(rnn), real);
	for (int k = 0; k < 4 && (rnn->net.P || !rnn->net.training); k++)
		if (k / 2 < rnn->net.layers && k % 2 < rnn->net.directions)
			r->h[k / 2][k % 2] = cg_work_alloc(&work, N, rnn->net.H, real);
	bytes = cg_rnn_measure_scan(rnn, pass, B, N);
	if (bytes)
		r->scan = cg_work_alloc(&work, 1, 1, bytes);
	for (int k = 0; k < rnn->net.cell->n_stages && !bytes; k++) {
		size_t packed = cg_rnn_packed_bytes(rnn, pass, k, B, N);

		if (packed)
			r->packed[k] = cg_work_alloc(&work, 1, 1, packed);
	}
	if (pass == CG_FORWARD)
		carve_forward(rnn, &work, B, N, bytes ? cg_layers_span_steps(rnn, pass, B) : 0, r);
	else
		carve_backward(rnn, &work, B, N, shape->is_dense, r);
	return work.used;
}

/* ---- the reserve ---- */

/* The header, then the pseudo-layers one after the other. */
void cg_layers_place_saved(const struct cg_rnn *rnn, int64_t N, struct cg_mem reserve, struct cg_rnn_saved_values *saved)
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

	cg_layers_place_saved(rnn, N, absent, &saved);
	if (__builtin_mul_overflow(saved.bytes, (int64_t)rnn->net.layers * rnn->net.directions, &bytes) ||
	    __builtin_add_overflow(bytes, CG_RESERVE_HEADER, &bytes))
		return SIZE_MAX;
	return bytes;
}
