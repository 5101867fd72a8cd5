/*
 * Rows on OpenCL devices: the generator's text for what is moved, a program for each shape, built when it is first wanted.
 */
#include <limits.h>
#include <pthread.h>

#include "backends/opencl/opencl.h"

static void drop(struct cg_cl_rows *rows)
{
	if (rows->kernel)
		cg_cl.ReleaseKernel(rows->kernel);
	if (rows->program)
		cg_cl.ReleaseProgram(rows->program);
	*rows = (struct cg_cl_rows){ .program = NULL };
}

void cg_cl_drop_rows(struct cg_device *device)
{
	for (int dtype = 0; dtype < CG_DTYPE_COUNT; dtype++)
		for (int k = 0; k < CG_ROWS_SHAPES; k++)
			drop(&device->rows[dtype][k]);
}

static int make_kernel(struct cg_device *device, const char *key, struct cg_cl_rows *rows)
{
	int32_t error = 0;

	rows->kernel = cg_cl.CreateKernel(rows->program, key, &error);
	if (!rows->kernel)
		return cg_fail_in(cg_cl_check(error ? error : CL_OUT_OF_RESOURCES, "clCreateKernel"), "%s", key);
	CL_TRY(GetKernelWorkGroupInfo, rows->kernel, device->id, CL_KERNEL_WORK_GROUP_SIZE, sizeof rows->group, &rows->group, NULL);
	return CG_OK;
}

static int make(struct cg_device *device, const struct cg_rows_shape *shape, struct cg_cl_rows *rows)
{
	struct cg_text text = { .resize = cg_memory };
	char key[CG_KEY_MAX];
	int code;

	cg_rows_key(shape, key);
	code = cg_print_rows(shape, CG_LANG_OPENCL, &text) ? CG_NO_MEMORY : CG_OK;
	if (!code)
		code = cg_cl_compile(device, text.at, key, shape->dtype, &rows->program);
	cg_memory(text.at, 0);
	if (!code)
		code = make_kernel(device, key, rows);
	if (code)
		drop(rows);
	return code;
}

static int bind_drop(struct _cl_kernel *kernel, uint32_t *at, int dtype, const struct cg_drop *drop)
{
	const int64_t places[] = { drop->first_t, drop->batch, drop->first_unit }, below = cg_drop_below(drop->rate);
	const uint32_t keys[] = { (uint32_t)drop->key, (uint32_t)(drop->key >> 32) };
	const double scale = cg_drop_scale(drop->rate);
	const float narrow = (float)scale;

	CG_TRY(cg_cl_set_memory(kernel, at, drop->t, sizeof(int64_t)));
	CG_TRY(cg_cl_set_memory(kernel, at, drop->b, sizeof(int64_t)));
	for (int k = 0; k < 3; k++)
		CG_TRY(cg_cl_set(kernel, at, sizeof *places, &places[k]));
	for (int k = 0; k < 2; k++)
		CG_TRY(cg_cl_set(kernel, at, sizeof *keys, &keys[k]));
	CG_TRY(cg_cl_set(kernel, at, sizeof below, &below));
	return dtype == CG_F64 ? cg_cl_set(kernel, at, sizeof scale, &scale) : cg_cl_set(kernel, at, sizeof narrow, &narrow);
}

static int bind(struct _cl_kernel *kernel, const struct cg_rows *r, int dropped)
{
	const struct { const struct cg_matrix *matrix; struct cg_mem which; } sides[] = { { &r->src, r->from }, { &r->dst, r->to } };
	const int64_t sizes[] = { r->rows, r->columns };
	const int32_t add = r->add;
	uint32_t at = 0;

	for (int k = 0; k < 2; k++)
		CG_TRY(cg_cl_set(kernel, &at, sizeof *sizes, &sizes[k]));
	CG_TRY(cg_cl_set(kernel, &at, sizeof add, &add));
	for (int k = 0; k < 2; k++) {
		const struct cg_matrix *m = sides[k].matrix;

		CG_TRY(cg_cl_set_memory(kernel, &at, m->mem, m->acc ? cg_acc_bytes(r->dtype) : cg_dtype_bytes(r->dtype)));
		CG_TRY(cg_cl_set(kernel, &at, sizeof m->stride, &m->stride));
		CG_TRY(cg_cl_set_memory(kernel, &at, sides[k].which, sizeof(int64_t)));
	}
	return dropped ? bind_drop(kernel, &at, r->dtype, &r->drop) : CG_OK;
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Under the lock. */
static int enqueue(struct cg_queue *queue, const struct cg_rows *r, const struct cg_rows_shape *shape)
{
	struct cg_device *device = queue->device;
	struct cg_cl_rows *rows = &device->rows[shape->dtype][cg_rows_index(shape)];
	size_t global[2], local[2];

	if (!rows->kernel)
		CG_TRY(make(device, shape, rows));
	cg_rows_launch(r->rows, r->columns, r->drop.first_unit,
	               (int)least(INT_MAX, least(rows->group, least(device->group_most, device->item_most))), 1, global, local);
	CG_TRY(bind(rows->kernel, r, shape->drop));
	return cg_cl_enqueue(queue, rows->kernel, global, local);
}

int cg_cl_rows(struct cg_queue *queue, const struct cg_rows *r)
{
	struct cg_rows_shape shape = { r->dtype, r->src.acc, r->dst.acc, r->drop.rate > 0 };
	int code;

	if (!r->rows || !r->columns)
		return CG_OK;
	pthread_mutex_lock(queue->device->lock);
	code = enqueue(queue, r, &shape);
	pthread_mutex_unlock(queue->device->lock);
	return code;
}
