/*
 * Products on OpenCL devices: the generator's text for what is multiplied and for the device's tiles, built when it is first wanted.
 */
#include <limits.h>
#include <pthread.h>
#include <string.h>

#include "backends/opencl/opencl.h"
#include "runtime/op.h"

struct cg_cl_product {
	struct cg_cl_product *next;
	struct cg_gemm_shape shape;
	struct _cl_program *program;
	struct _cl_kernel *kernel;
};

void cg_cl_drop_products(struct cg_device *device)
{
	while (device->products) {
		struct cg_cl_product *p = device->products;

		device->products = p->next;
		cg_cl.ReleaseKernel(p->kernel);
		cg_cl.ReleaseProgram(p->program);
		cg_memory(p, 0);
	}
}

static struct cg_gemm_limits limits_of(const struct cg_device *device, int dtype)
{
	uint64_t config = dtype == CG_F64 ? device->config_f64 : device->config_f32;

	return (struct cg_gemm_limits){
		.cpu = !device->local && !(device->type & CL_DEVICE_TYPE_GPU), .units = (int)device->units,
		.group = device->group_most > INT_MAX ? INT_MAX : (int)device->group_most, .local_bytes = device->local_bytes,
		.vector_bytes = 4 * (int)device->vector_f32, .fma = (config & CL_FP_FMA) != 0,
	};
}

static int same(const struct cg_gemm_shape *a, const struct cg_gemm_shape *b)
{
	char x[CG_KEY_MAX], y[CG_KEY_MAX];

	cg_gemm_key(a, x);
	cg_gemm_key(b, y);
	return !strcmp(x, y);
}

static int make(struct cg_device *device, struct cg_cl_product *product)
{
	struct cg_text text = { .resize = cg_memory };
	char key[CG_KEY_MAX];
	int32_t error = 0;
	int code;

	cg_gemm_key(&product->shape, key);
	code = cg_print_gemm(&product->shape, CG_LANG_OPENCL, &text) ? CG_NO_MEMORY : CG_OK;
	if (!code)
		code = cg_cl_compile(device, text.at, key, product->shape.dtype, &product->program);
	cg_memory(text.at, 0);
	CG_TRY(code);
	product->kernel = cg_cl.CreateKernel(product->program, key, &error);
	if (product->kernel)
		return CG_OK;
	cg_cl.ReleaseProgram(product->program);
	return cg_fail_in(cg_cl_check(error ? error : CL_OUT_OF_RESOURCES, "clCreateKernel"), "%s", key);
}

/* The product of a shape, from those that are built, or built now; under the lock. */
static int find(struct cg_device *device, const struct cg_gemm_shape *shape, struct cg_cl_product **result)
{
	struct cg_cl_product *p = device->products;
	int code;

	while (p && !same(&p->shape, shape))
		p = p->next;
	if (!p) {
		p = cg_memory(NULL, sizeof *p);
		if (!p)
			return CG_NO_MEMORY;
		*p = (struct cg_cl_product){ .next = device->products, .shape = *shape };
		code = make(device, p);
		if (code) {
			cg_memory(p, 0);
			return code;
		}
		device->products = p;
	}
	*result = p;
	return CG_OK;
}

static int bind(struct _cl_kernel *kernel, const struct cg_gemm *g)
{
	size_t real = cg_dtype_bytes(g->dtype), acc = cg_acc_bytes(g->dtype);
	const struct cg_matrix *matrices[] = { &g->a, &g->b, &g->start, &g->c };
	const int64_t sizes[] = { g->m, g->n, g->k };
	uint32_t at = 0;

	for (int k = 0; k < 3; k++)
		CG_TRY(cg_cl_set(kernel, &at, sizeof *sizes, &sizes[k]));
	for (int k = 0; k < 4; k++) {
		CG_TRY(cg_cl_set_memory(kernel, &at, matrices[k]->mem, matrices[k]->acc ? acc : real));
		CG_TRY(cg_cl_set(kernel, &at, sizeof matrices[k]->stride, &matrices[k]->stride));
	}
	return CG_OK;
}

static int enqueue(struct cg_queue *queue, const struct cg_gemm *g, const struct cg_gemm_shape *shape)
{
	struct cg_cl_product *product;
	size_t global[2], local[2];

	if (!cg_gemm_launch(shape, g->m, g->n, global, local))
		return CG_OK;
	CG_TRY(find(queue->device, shape, &product));
	CG_TRY(bind(product->kernel, g));
	return cg_cl_enqueue(queue, product->kernel, global, local);
}

int cg_cl_gemm(struct cg_queue *queue, const struct cg_gemm *g)
{
	struct cg_gemm_limits limits = limits_of(queue->device, g->dtype);
	struct cg_gemm_shape shape = {
		.dtype = g->dtype, .transpose_a = g->transpose_a, .transpose_b = g->transpose_b,
		.start_acc = g->start.acc, .c_acc = g->c.acc,
	};
	int code;

	if (cg_gemm_tile(&shape, &limits, g->m, g->n))
		return cg_fail(CG_UNSUPPORTED, "opencl: products: no tile fits the device's %zu bytes of local memory and groups of %d",
		               limits.local_bytes, limits.group);
	pthread_mutex_lock(queue->device->lock);
	code = enqueue(queue, g, &shape);
	pthread_mutex_unlock(queue->device->lock);
	return code;
}
