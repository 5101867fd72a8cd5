/*
 * Products on OpenCL devices: the generator's text for what is multiplied, a program for each of the tiles that the device has
 * room for.  All of them are built when one is first wanted: no other size of c has anything built.
 */
#include <limits.h>
#include <pthread.h>
#include <string.h>

#include "backends/opencl/opencl.h"

struct cg_cl_product {
	struct cg_cl_product *next;
	int n;
	struct cg_gemm_shape tiles[CG_GEMM_TILES];
	struct _cl_program *programs[CG_GEMM_TILES];
	struct _cl_kernel *kernels[CG_GEMM_TILES];
};

static void drop(struct cg_cl_product *product)
{
	for (int k = 0; k < product->n; k++) {
		if (product->kernels[k])
			cg_cl.ReleaseKernel(product->kernels[k]);
		if (product->programs[k])
			cg_cl.ReleaseProgram(product->programs[k]);
	}
	cg_memory(product, 0);
}

void cg_cl_drop_products(struct cg_device *device)
{
	while (device->products) {
		struct cg_cl_product *p = device->products;

		device->products = p->next;
		drop(p);
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

/* Do both multiply the same? */
static int same(const struct cg_gemm_shape *a, const struct cg_gemm_shape *b)
{
	return a->dtype == b->dtype && a->transpose_a == b->transpose_a && a->transpose_b == b->transpose_b &&
	       a->start_acc == b->start_acc && a->c_acc == b->c_acc;
}

static int make_tile(struct cg_device *device, struct cg_cl_product *product, int k)
{
	struct cg_text text = { .resize = cg_memory };
	char key[CG_KEY_MAX];
	int32_t error = 0;
	int code;

	cg_gemm_key(&product->tiles[k], key);
	code = cg_print_gemm(&product->tiles[k], CG_LANG_OPENCL, &text) ? CG_NO_MEMORY : CG_OK;
	if (!code)
		code = cg_cl_compile(device, text.at, key, product->tiles[k].dtype, &product->programs[k]);
	cg_memory(text.at, 0);
	CG_TRY(code);
	product->kernels[k] = cg_cl.CreateKernel(product->programs[k], key, &error);
	if (!product->kernels[k])
		return cg_fail_in(cg_cl_check(error ? error : CL_OUT_OF_RESOURCES, "clCreateKernel"), "%s", key);
	return CG_OK;
}

static int make(struct cg_device *device, const struct cg_gemm_shape *tiles, int n, struct cg_cl_product **result)
{
	struct cg_cl_product *product = cg_memory(NULL, sizeof *product);
	int code = CG_OK;

	if (!product)
		return CG_NO_MEMORY;
	*product = (struct cg_cl_product){ .next = device->products, .n = n };
	memcpy(product->tiles, tiles, (size_t)n * sizeof *tiles);
	for (int k = 0; k < n && !code; k++)
		code = make_tile(device, product, k);
	if (code)
		drop(product);
	else
		*result = device->products = product;
	return code;
}

/* The product of the tiles, from those that are built, or built now; under the lock. */
static int find(struct cg_device *device, const struct cg_gemm_shape *tiles, int n, struct cg_cl_product **result)
{
	for (struct cg_cl_product *p = device->products; p; p = p->next)
		if (same(p->tiles, tiles)) {
			*result = p;
			return CG_OK;
		}
	return make(device, tiles, n, result);
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

static int enqueue(struct cg_queue *queue, const struct cg_gemm *g, const struct cg_gemm_shape *tiles, int n, int chosen)
{
	struct cg_cl_product *product;
	size_t global[2], local[2];

	if (!cg_gemm_launch(&tiles[chosen], g->m, g->n, global, local))
		return CG_OK;
	CG_TRY(find(queue->device, tiles, n, &product));
	CG_TRY(bind(product->kernels[chosen], g));
	return cg_cl_enqueue(queue, product->kernels[chosen], global, local);
}

int cg_cl_gemm(struct cg_queue *queue, const struct cg_gemm *g)
{
	struct cg_gemm_limits limits = limits_of(queue->device, g->dtype);
	struct cg_gemm_shape tiles[CG_GEMM_TILES], shape = {
		.dtype = g->dtype, .transpose_a = g->transpose_a, .transpose_b = g->transpose_b,
		.start_acc = g->start.acc, .c_acc = g->c.acc,
	};
	int n = cg_gemm_tiles(&shape, &limits, tiles), code;

	if (!n)
		return cg_fail(CG_UNSUPPORTED, "opencl: products: no tile fits the device's %zu bytes of local memory and groups of %d",
		               limits.local_bytes, limits.group);
	pthread_mutex_lock(queue->device->lock);
	code = enqueue(queue, g, tiles, n, cg_gemm_choose(tiles, n, &limits, g->m, g->n));
	pthread_mutex_unlock(queue->device->lock);
	return code;
}
