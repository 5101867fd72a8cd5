/*
 * Rows on CUDA devices: the generator's text for what is moved, a module for each shape, built when it is first wanted.
 */
#include <pthread.h>

#include "backends/cuda/cuda.h"
#include "runtime/op.h"

void cg_cu_drop_rows(struct cg_device *device)
{
	for (int dtype = 0; dtype < 4; dtype++)
		for (int k = 0; k < CG_ROWS_SHAPES; k++) {
			struct cg_cu_rows *rows = &device->rows[dtype][k];

			if (rows->module)
				cg_cu.ModuleUnload(rows->module);
			*rows = (struct cg_cu_rows){ .module = NULL };
		}
}

static int make(struct cg_device *device, const struct cg_rows_shape *shape, struct cg_cu_rows *rows)
{
	struct cg_cu_rows made = { .module = NULL };
	struct cg_text text = { .resize = cg_memory };
	char key[CG_KEY_MAX];
	int code;

	cg_rows_key(shape, key);
	code = cg_print_rows(shape, CG_LANG_CUDA, &text) ? CG_NO_MEMORY : CG_OK;
	if (!code)
		code = cg_cu_module(device, text.at, key, shape->dtype, &made.module);
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

/* The function of a shape, from those that are built, or built now. */
static int find(struct cg_queue *queue, const struct cg_rows_shape *shape, struct CUfunc_st **function)
{
	struct cg_cu_rows *rows = &queue->device->rows[shape->dtype][cg_rows_index(shape)];
	int code = CG_OK;

	pthread_mutex_lock(queue->device->lock);
	if (!rows->function)
		code = cg_cu_uncaptured(queue, "the first call that moves rows");
	if (!rows->function && !code)
		code = make(queue->device, shape, rows);
	*function = rows->function;
	pthread_mutex_unlock(queue->device->lock);
	return code;
}

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

	CG_TRY(find(queue, &shape, &function));
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
