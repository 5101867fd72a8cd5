/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes several moves, which are copies of rows, in one launch of a generated kernel.  Each dtype has such a kernel, built at the first
 * call that needs it.
 */
#include <pthread.h>

#include "backends/cuda/cuda.h"

void cg_cu_release_moves(struct cg_dev *device)
{
	for (int dtype = 0; dtype < CG_DTYPE_COUNT; dtype++) {
		cg_cu_release(device, device->moves[dtype].built);
		cg_plan_free(device->moves[dtype].plan);
	}
}

/* Builds the kernel for several moves of a dtype; called under the device's lock. */
static int make(struct cg_queue *queue, int dtype)
{
	struct cg_pass_plan *plan;
	int code;

	CG_TRY(cg_cu_check_uncaptured(queue, "the first call that moves rows"));
	CG_TRY(cg_cu_check_none_captured(queue->device, "the first call that moves rows"));
	plan = cg_rows_moves_plan(dtype, cg_memory);
	if (!plan)
		return CG_NO_MEMORY;
	code = cg_cu_build_inside(queue->device, plan, &queue->device->moves[dtype].built);
	if (code)
		cg_plan_free(plan);
	else
		queue->device->moves[dtype].plan = plan;
	return code;
}

static int get(struct cg_queue *queue, int dtype, struct cg_module **built)
{
	struct cg_dev *device = queue->device;
	int code;

	pthread_mutex_lock(device->lock);
	code = device->moves[dtype].built ? CG_OK : make(queue, dtype);
	*built = device->moves[dtype].built;
	pthread_mutex_unlock(device->lock);
	return code;
}

static int is_plain(const struct cg_rows_move *m)
{
	return !m->from && !m->to && !m->drop;
}

/* Enqueues a single move of contiguous rows or zeros, which needs no kernel for several moves. */
static int copy(struct cg_queue *queue, const struct cg_rows_move *m, int dtype)
{
	size_t bytes = (size_t)(m->rows * m->columns) * cg_dtype_bytes(dtype);

	if (m->src)
		CU_TRY(queue->device, MemcpyDtoDAsync_v2, m->dst, m->src, bytes, queue->stream);
	else
		CU_TRY(queue->device, MemsetD8Async, m->dst, 0, bytes, queue->stream);
	return CG_OK;
}

static int launch(struct cg_queue *queue, struct cg_cu_moves *m)
{
	int64_t first_t = m->drop.first_t, batch = m->drop.batch, below = cg_drop_below(m->drop.rate);
	CUdeviceptr t = cg_cu_address(m->drop.t), b = cg_cu_address(m->drop.b);
	double scale = cg_drop_scale(m->drop.rate);
	unsigned threads = 256, blocks;
	float narrow = (float)scale;
	void *parameters[CG_MOVES_ARGUMENTS] = {
		[CG_MOVES_LIST] = m->list, [CG_MOVES_T] = &t, [CG_MOVES_B] = &b, [CG_MOVES_FIRST_T] = &first_t, [CG_MOVES_BATCH] = &batch,
		[CG_MOVES_BELOW] = &below, [CG_MOVES_SCALE] = m->dtype == CG_F64 ? (void *)&scale : (void *)&narrow,
	};
	struct cg_module *built;

	CG_TRY(get(queue, m->dtype, &built));
	while (threads > (unsigned)queue->device->group_most)
		threads /= 2;
	blocks = cg_rows_moves_launch(m->list, m->n, (int)threads, queue->device->units);
	CU_TRY(queue->device, LaunchKernel, cg_cu_function(built), blocks, 1, 1, threads, 1, 1, 0, queue->stream, parameters, NULL);
	return CG_OK;
}

int cg_cu_flush(struct cg_queue *queue, struct cg_cu_moves *m)
{
	int code = !m->n ? CG_OK : m->n == 1 && is_plain(m->list) ? copy(queue, m->list, m->dtype) : launch(queue, m);

	m->n = 0;
	return code;
}

int cg_cu_move(struct cg_queue *queue, struct cg_cu_moves *m, struct cg_rows_move move)
{
	if (!move.rows || !move.columns)
		return CG_OK;
	if (m->n == CG_ROWS_MOVES)
		CG_TRY(cg_cu_flush(queue, m));
	m->list[m->n++] = move;
	return CG_OK;
}
