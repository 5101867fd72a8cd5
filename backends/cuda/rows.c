/*
 * Rows on CUDA devices: the generator's text for what is moved, a module for each shape and one for several moves at once, built when
 * it is first wanted.
 */
#include <pthread.h>

#include "backends/cuda/cuda.h"

static void drop(struct cg_cu_rows *rows)
{
	if (rows->module)
		cg_cu.ModuleUnload(rows->module);
	*rows = (struct cg_cu_rows){ .module = NULL };
}

void cg_cu_drop_rows(struct cg_device *device)
{
	for (int dtype = 0; dtype < CG_DTYPE_COUNT; dtype++) {
		for (int k = 0; k < CG_ROWS_SHAPES; k++)
			drop(&device->rows[dtype][k]);
		drop(&device->moves[dtype]);
	}
}

/* The text of a shape, or of moves where that is NULL, and its name. */
static int print(const struct cg_rows_shape *shape, int dtype, char key[CG_KEY_MAX], struct cg_text *text)
{
	if (shape)
		cg_rows_key(shape, key);
	else
		cg_rows_moves_key(dtype, key);
	return shape ? cg_print_rows(shape, CG_LANG_CUDA, text) : cg_print_rows_moves(dtype, text);
}

static int make(struct cg_device *device, const struct cg_rows_shape *shape, int dtype, struct cg_cu_rows *rows)
{
	struct cg_cu_rows made = { .module = NULL };
	struct cg_text text = { .resize = cg_memory };
	char key[CG_KEY_MAX];
	int code;

	code = print(shape, dtype, key, &text) ? CG_NO_MEMORY : CG_OK;
	if (!code)
		code = cg_cu_module(device, text.at, key, dtype, &made.module);
	cg_memory(text.at, 0);
	CG_TRY(code);
	code = cg_cu_check(device, cg_cu.ModuleGetFunction(&made.function, made.module, key), "cuModuleGetFunction");
	if (code) {
		cg_cu.ModuleUnload(made.module);
		return cg_fail_in(code, "%s", key);
	}
	*rows = made;
	device->has_rows = 1;
	return CG_OK;
}

/* The function of a shape, or of moves where that is NULL, from those that are built, or built now. */
static int find(struct cg_queue *queue, const struct cg_rows_shape *shape, int dtype, struct CUfunc_st **function)
{
	struct cg_device *device = queue->device;
	struct cg_cu_rows *rows = shape ? &device->rows[dtype][cg_rows_index(shape)] : &device->moves[dtype];
	int code = CG_OK;

	pthread_mutex_lock(device->lock);
	if (!rows->function)
		code = cg_cu_uncaptured(queue, "the first call that moves rows");
	if (!rows->function && !code)
		code = cg_cu_none_captured(device, "the first call that moves rows");
	if (!rows->function && !code)
		code = make(device, shape, dtype, rows);
	*function = rows->function;
	pthread_mutex_unlock(device->lock);
	return code;
}

/* ---- one kind of rows ---- */

static int enqueue(struct cg_queue *queue, const struct cg_rows *r, struct CUfunc_st *function, const size_t global[2],
                   const size_t local[2])
{
	const struct cg_drop *drop = &r->drop;
	CUdeviceptr src = cg_cu_address(r->src.mem), dst = cg_cu_address(r->dst.mem);
	CUdeviceptr from = cg_cu_address(r->from), to = cg_cu_address(r->to), t = cg_cu_address(drop->t), b = cg_cu_address(drop->b);
	int64_t rows = r->rows, columns = r->columns, src_stride = r->src.stride, dst_stride = r->dst.stride;
	int64_t first_t = drop->first_t, batch = drop->batch, first_unit = drop->first_unit, below = cg_drop_below(drop->rate);
	uint32_t key0 = (uint32_t)drop->key, key1 = (uint32_t)(drop->key >> 32);
	double scale = cg_drop_scale(drop->rate);
	float narrow = (float)scale;
	int add = r->add;
	void *parameters[] = {
		&rows, &columns, &add, &src, &src_stride, &from, &dst, &dst_stride, &to,
		&t, &b, &first_t, &batch, &first_unit, &key0, &key1, &below, r->dtype == CG_F64 ? (void *)&scale : (void *)&narrow,
	};

	CU_TRY(queue->device, LaunchKernel, function, (unsigned)(global[0] / local[0]), (unsigned)(global[1] / local[1]), 1,
	       (unsigned)local[0], (unsigned)local[1], 1, 0, queue->stream, parameters, NULL);
	return CG_OK;
}

static int move(struct cg_queue *queue, const struct cg_rows *r, const size_t global[2], const size_t local[2])
{
	struct cg_rows_shape shape = { r->dtype, r->src.acc, r->dst.acc, r->drop.rate > 0 };
	struct CUfunc_st *function;

	CG_TRY(find(queue, &shape, r->dtype, &function));
	return enqueue(queue, r, function, global, local);
}

int cg_cu_rows(struct cg_queue *queue, const struct cg_rows *r)
{
	int group = queue->device->group_most;
	size_t global[2], local[2];

	if (!cg_rows_launch(r->rows, r->columns, r->drop.first_unit, group, group, global, local))
		return CG_OK;
	CU_INSIDE(queue->device, move(queue, r, global, local));
}

/* ---- several at once ---- */

static int is_plain(const struct cg_rows_move *m)
{
	return !m->from && !m->to && !m->drop;
}

/* What needs no kernel. */
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
	void *parameters[] = {
		m->list, &t, &b, &first_t, &batch, &below, m->dtype == CG_F64 ? (void *)&scale : (void *)&narrow,
	};
	struct CUfunc_st *function;

	CG_TRY(find(queue, NULL, m->dtype, &function));
	while (threads > (unsigned)queue->device->group_most)
		threads /= 2;
	blocks = cg_rows_moves_launch(m->list, m->n, (int)threads, queue->device->units);
	CU_TRY(queue->device, LaunchKernel, function, blocks, 1, 1, threads, 1, 1, 0, queue->stream, parameters, NULL);
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
