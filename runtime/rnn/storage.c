/*
 * Where the values of a call lie: the pieces of its workspace, and in the reserve what each pseudo-layer saves.
 */
#include <string.h>

#include "runtime/rnn/rnn.h"

static int64_t most(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static int64_t widest(const struct cg_rnn *rnn)
{
	return rnn->layers > 1 ? most(rnn->I, rnn->directions * rnn->H) : rnn->I;
}

int cg_rnn_drops(const struct cg_rnn *rnn)
{
	return rnn->training && rnn->dropout > 0 && rnn->layers > 1;
}

/* Is a value read by other steps, so that each step's is needed even without a reserve? */
int cg_rnn_is_read_later(const struct cg_rnn *rnn, int k)
{
	return k == rnn->kept_c || k == rnn->kept_h;
}

static void take_forward(const struct cg_rnn *rnn, struct cg_work *work, int64_t B, int64_t N, struct cg_rnn_workspace *r)
{
	size_t real = cg_dtype_bytes(rnn->dtype), acc = cg_acc_bytes(rnn->dtype);

	if (!(rnn->training && rnn->keeps_gates))
		r->gates = cg_work_take(work, N, rnn->n_blocks * rnn->U, acc);
	r->bias = cg_work_take(work, 1, rnn->n_blocks * rnn->U, acc);
	for (int k = 0; k < rnn->cell->n_stages - 1; k++)
		if (rnn->feed_kept[0][k] < 0)
			r->feed[k] = cg_work_take(work, B, rnn->U, real);
	for (int k = 0; k < rnn->n_kept && !rnn->training; k++)
		if (k != rnn->kept_h || rnn->P)
			r->kept[k] = cg_work_take(work, cg_rnn_is_read_later(rnn, k) ? N : B, rnn->U, rnn->kept[k].acc ? acc : real);
}

static void take_backward(const struct cg_rnn *rnn, struct cg_work *work, int64_t B, int64_t N, int is_dense,
                          struct cg_rnn_workspace *r)
{
	size_t real = cg_dtype_bytes(rnn->dtype), acc = cg_acc_bytes(rnn->dtype);
	int64_t rows = rnn->sums_carry ? N : B, carries = rnn->sums_carry ? N + B : 2 * B;

	r->d_gates = cg_work_take(work, N, rnn->n_blocks * rnn->U, real);
	for (int k = 0; k < rnn->cell->n_stages - 1; k++) {
		if (rnn->feed_kept[1][k] < 0)
			r->feed[k] = cg_work_take(work, N, rnn->U, real);
		r->d_feed[k] = cg_work_take(work, rows, rnn->U, acc);
	}
	r->carry_h = cg_work_take(work, rnn->P ? B : carries, rnn->H, acc);
	if (rnn->state >= 0)
		r->carry_c = cg_work_take(work, carries, rnn->U, acc);
	if (rnn->P) {
		r->dh = cg_work_take(work, N, rnn->P, real);
		r->dm = cg_work_take(work, rows, rnn->U, acc);
	}
	if (!is_dense || rnn->sums_prev_h)
		r->prev_h = cg_work_take(work, N, rnn->H, real);
	if (rnn->sums_prev_c)
		r->prev_c = cg_work_take(work, N, rnn->U, acc);
	r->partial = cg_work_take(work, (N + CG_SUM_ROWS - 1) / CG_SUM_ROWS, rnn->sum_values * rnn->U, acc);
	if (is_dense && real != acc)
		r->sum = cg_work_take(work, rnn->n_weights * rnn->U, rnn->H, acc);
	for (int k = 0; k < (!is_dense && rnn->directions == 2 ? 2 : 1); k++)
		r->dx[k] = cg_work_take(work, N, widest(rnn), acc);
	if (rnn->layers > 1)
		r->dx_real = cg_work_take(work, N, rnn->directions * rnn->H, real);
	for (int d = 0; d < rnn->directions && (!is_dense || cg_rnn_drops(rnn)); d++)
		r->dy[d] = cg_work_take(work, N, rnn->H, real);
}

size_t cg_seq_work(const struct cg_rnn *rnn, int pass, const struct cg_rnn_shape *shape, struct cg_rnn_workspace *r)
{
	size_t real = cg_dtype_bytes(rnn->dtype), acc = cg_acc_bytes(rnn->dtype);
	int64_t B = shape->B, N = shape->N;
	struct cg_work work = { .used = 0 };

	memset(r, 0, sizeof *r);
	r->h_first = cg_work_take(&work, B, rnn->H, real);
	r->c_first = cg_work_take(&work, B, rnn->U, acc);
	r->x = cg_work_take(&work, N, widest(rnn), real);
	for (int k = 0; k < 4 && (rnn->P || !rnn->training); k++)
		if (k / 2 < rnn->layers && k % 2 < rnn->directions)
			r->h[k / 2][k % 2] = cg_work_take(&work, N, rnn->H, real);
	for (int k = 0; k < rnn->cell->n_stages; k++) {
		size_t bytes = cg_rnn_packed(rnn, pass, k, B, N);

		if (bytes)
			r->packed[k] = cg_work_take(&work, 1, 1, bytes);
	}
	if (pass == CG_FORWARD)
		take_forward(rnn, &work, B, N, r);
	else
		take_backward(rnn, &work, B, N, shape->is_dense, r);
	return work.used;
}

/* ---- the reserve ---- */

/* The header, then the pseudo-layers one after the other. */
void cg_seq_place_kept(const struct cg_rnn *rnn, int64_t N, struct cg_mem reserve, struct cg_rnn_kept_values *kept)
{
	size_t real = cg_dtype_bytes(rnn->dtype), acc = cg_acc_bytes(rnn->dtype);
	struct cg_work work = { .mem = reserve, .used = CG_RESERVE_HEADER };

	for (int k = 0; k < rnn->n_kept; k++)
		kept->values[k] = cg_work_take(&work, N, rnn->U, rnn->kept[k].acc ? acc : real);
	if (rnn->keeps_gates)
		kept->gates = cg_work_take(&work, N, rnn->n_blocks * rnn->U, acc);
	kept->bytes = work.used - CG_RESERVE_HEADER;
}

size_t cg_seq_reserve(const struct cg_rnn *rnn, int64_t N)
{
	static const struct cg_mem absent = { .bytes = 0 };
	struct cg_rnn_kept_values kept;
	size_t bytes;

	cg_seq_place_kept(rnn, N, absent, &kept);
	if (__builtin_mul_overflow(kept.bytes, (int64_t)rnn->layers * rnn->directions, &bytes) ||
	    __builtin_add_overflow(bytes, CG_RESERVE_HEADER, &bytes))
		return SIZE_MAX;
	return bytes;
}
