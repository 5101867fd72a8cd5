/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Divides the workspace and the reserve space of a call between cuDNN and this library, and computes the size of both.
 */
#include <string.h>

#include "backends/cuda/cudnn/cudnn.h"

static const struct cg_mem none = { .bytes = 0 };

static size_t most(size_t a, size_t b)
{
	return a > b ? a : b;
}

/* The bytes for converted parameters, and for a mere copy of the caller's parameters if they are not aligned for a persistent algorithm. */
static size_t weight_bytes(const struct cg_net *net, const struct cg_dnn_shape *s)
{
	size_t bytes = 0;

	for (int n = 0; n < 2; n++)
		for (int k = 0; k < net->segments[n].n_algorithms; k++)
			if (s->algorithm || !net->segments[n].algorithms[k].layout.is_identity)
				bytes = most(bytes, net->segments[n].algorithms[k].layout.bytes);
	return bytes;
}

static struct cg_mem carve(struct cg_work *work, int64_t rows, int64_t columns, size_t bytes)
{
	struct cg_mem mem = cg_work_alloc(work, rows, columns, bytes);

	/* Rounds the number of bytes that are in use up to a multiple of CG_DNN_ALIGN. */
	if (work->used != SIZE_MAX && __builtin_add_overflow(work->used, (size_t)-work->used % CG_DNN_ALIGN, &work->used))
		work->used = SIZE_MAX;
	return mem;
}

static struct cg_mem carve_bytes(struct cg_work *work, size_t bytes)
{
	return bytes ? carve(work, 1, 1, bytes) : none;
}

static void carve_states(const struct cg_net *net, const struct cg_dnn_shape *s, struct cg_work *work, struct cg_mem *h,
                         struct cg_mem *c)
{
	size_t bytes = cg_dtype_bytes(net->rnn->dtype);

	if (!s->moves && !s->algorithm)
		return;
	*h = carve(work, cg_dnn_states(net->rnn) * s->live, net->rnn->H, bytes);
	if (net->cell == CUDNN_LSTM)
		*c = carve(work, cg_dnn_states(net->rnn) * s->live, net->rnn->U, bytes);
}

void cg_dnn_carve_workspace(const struct cg_net *net, const struct cg_dnn_shape *s, int pass, struct cg_work *work, struct cg_dnn_workspace *r)
{
	const struct cg_network *rnn = net->rnn;
	int64_t rows = cg_dnn_rows(s), across = cg_dnn_wide(rnn), widest = net->n_segments > 1 && across > rnn->I ? across : rnn->I;
	size_t bytes = cg_dtype_bytes(rnn->dtype);

	memset(r, 0, sizeof *r);
	r->vendor = carve_bytes(work, s->work);
	r->weights = carve_bytes(work, weight_bytes(net, s));
	if (s->compact || s->algorithm)
		r->x = carve(work, rows, rnn->I, bytes);
	if (net->n_segments > 1)
		r->masked = carve(work, rows, across, bytes);
	carve_states(net, s, work, &r->hx, &r->cx);
	r->reserve = carve_bytes(work, most(s->reserve[0], s->reserve[1]));
	if (s->algorithm || (pass == CG_FORWARD && !rnn->training))
		r->y = carve(work, rows, across, bytes);
	if (pass == CG_FORWARD) {
		carve_states(net, s, work, &r->hy, &r->cy);
		return;
	}
	for (int n = 0; n < 1 + (net->n_segments > 1); n++)
		r->dweights[n] = carve_bytes(work, weight_bytes(net, s));
	r->dy = carve(work, rows, across, bytes);
	r->dx = carve(work, rows, widest, bytes);
	carve_states(net, s, work, &r->dhy, &r->dcy);
	carve_states(net, s, work, &r->dhx, &r->dcx);
}

/* The bytes of a workspace, with space to align a workspace that begins at any multiple of 8 to CG_DNN_ALIGN. */
static size_t work_bytes(const struct cg_net *net, const struct cg_dnn_shape *s, int pass)
{
	struct cg_work work = { .used = 0 };
	struct cg_dnn_workspace space;

	cg_dnn_carve_workspace(net, s, pass, &work, &space);
	return work.used > SIZE_MAX - CG_DNN_ALIGN ? SIZE_MAX : work.used + CG_DNN_ALIGN;
}

void cg_dnn_carve_reserve(const struct cg_net *net, const struct cg_dnn_shape *s, struct cg_work *work, int segment, struct cg_mem *y,
                          struct cg_mem *reserve)
{
	carve_bytes(work, CG_RESERVE_HEADER);
	for (int n = 0; n <= segment; n++) {
		*y = carve(work, cg_dnn_rows(s), cg_dnn_wide(net->rnn), cg_dtype_bytes(net->rnn->dtype));
		*reserve = carve_bytes(work, s->reserve[n > 0]);
	}
}

int cg_dnn_range_needs(struct cg_net *net, const struct cg_dnn_range *range, struct cg_net_sizes *sizes)
{
	const struct cg_dnn_shape *s = NULL;
	struct cg_work work = { .used = 0 };
	struct cg_mem y, reserve;

	CG_TRY(cg_dnn_find_sizes(net, range, &s));
	*sizes = (struct cg_net_sizes){ .forward = work_bytes(net, s, CG_FORWARD) };
	if (!net->rnn->training)
		return CG_OK;
	sizes->backward = work_bytes(net, s, CG_GRAD);
	cg_dnn_carve_reserve(net, s, &work, net->n_segments - 1, &y, &reserve);
	sizes->reserve = work.used;
	return CG_OK;
}
