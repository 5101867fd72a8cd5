/*
 * Products: by cuBLAS, or by the generator's text for the device's tiles, built when it is first wanted.  cuBLAS adds to what c
 * holds; where a product starts with something else, and no algorithm of cuBLAS's adds that, the text with k = 0 puts it there.  What
 * cuBLAS says that it has not, as bf16 on some devices, the text computes.
 */
#include <limits.h>
#include <pthread.h>
#include <string.h>

#include "backends/cuda/cuda.h"

struct cg_cu_product {
	struct cg_cu_product *next;
	struct cg_gemm_shape shape;
	struct CUmod_st *module;
	struct CUfunc_st *function;
};

void cg_cu_drop_products(struct cg_device *device)
{
	while (device->products) {
		struct cg_cu_product *p = device->products;

		device->products = p->next;
		cg_cu.ModuleUnload(p->module);
		cg_memory(p, 0);
	}
}

/* ---- the generated text ---- */

static int same(const struct cg_gemm_shape *a, const struct cg_gemm_shape *b)
{
	return a->dtype == b->dtype && a->transpose_a == b->transpose_a && a->transpose_b == b->transpose_b &&
	       a->start_acc == b->start_acc && a->c_acc == b->c_acc && a->rows == b->rows && a->columns == b->columns;
}

static int make(struct cg_device *device, struct cg_cu_product *product)
{
	struct cg_text text = { .resize = cg_memory };
	char key[CG_KEY_MAX];
	int code;

	cg_gemm_key(&product->shape, key);
	code = cg_print_gemm(&product->shape, CG_LANG_CUDA, &text) ? CG_NO_MEMORY : CG_OK;
	if (!code)
		code = cg_cu_module(device, text.at, key, product->shape.dtype, &product->module);
	cg_memory(text.at, 0);
	CG_TRY(code);
	code = cg_cu_check(device, cg_cu.ModuleGetFunction(&product->function, product->module, key), "cuModuleGetFunction");
	if (!code)
		return CG_OK;
	cg_cu.ModuleUnload(product->module);
	return cg_fail_in(code, "%s", key);
}

/* The product of a shape, from those that are built, or built now; under the lock. */
static int find(struct cg_queue *queue, const struct cg_gemm_shape *shape, struct cg_cu_product **result)
{
	struct cg_device *device = queue->device;
	struct cg_cu_product *p = device->products;
	int code;

	while (p && !same(&p->shape, shape))
		p = p->next;
	if (!p) {
		CG_TRY(cg_cu_uncaptured(queue, "a product's first call"));
		CG_TRY(cg_cu_none_captured(device, "a product's first call"));
		p = cg_memory(NULL, sizeof *p);
		if (!p)
			return CG_NO_MEMORY;
		*p = (struct cg_cu_product){ .next = device->products, .shape = *shape };
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

static int enqueue(struct cg_queue *queue, const struct cg_gemm *g, struct CUfunc_st *function, const size_t global[2],
                   const size_t local[2])
{
	int64_t m = g->m, n = g->n, k = g->k, strides[] = { g->a.stride, g->b.stride, g->start.stride, g->c.stride };
	CUdeviceptr at[] = { cg_cu_address(g->a.mem), cg_cu_address(g->b.mem), cg_cu_address(g->start.mem), cg_cu_address(g->c.mem) };
	void *parameters[] = { &m, &n, &k, &at[0], &strides[0], &at[1], &strides[1], &at[2], &strides[2], &at[3], &strides[3] };

	if (global[0] / local[0] > (size_t)queue->device->grid_x)
		return cg_fail(CG_UNSUPPORTED, "cuda: products: %lld columns are more than a grid of %d blocks has room for",
		               (long long)g->n, queue->device->grid_x);
	CU_TRY(queue->device, LaunchKernel, function, (unsigned)(global[0] / local[0]), (unsigned)global[1], 1, (unsigned)local[0], 1, 1,
	       0, queue->stream, parameters, NULL);
	return CG_OK;
}

static int generated(struct cg_queue *queue, const struct cg_gemm *g)
{
	struct cg_device *device = queue->device;
	struct cg_gemm_limits limits = {
		.units = device->units, .group = device->group_most, .local_bytes = (size_t)device->shared_bytes, .fma = 1
	};
	struct cg_gemm_shape shape = {
		.dtype = g->dtype, .transpose_a = g->transpose_a, .transpose_b = g->transpose_b,
		.start_acc = g->start.acc, .c_acc = g->c.acc,
	};
	struct cg_cu_product *product;
	size_t global[2], local[2];
	int code;

	if (cg_gemm_tile(&shape, &limits, g->m, g->n))
		return cg_fail(CG_UNSUPPORTED, "cuda: products: no tile fits the device's %zu bytes of shared memory and blocks of %d",
		               limits.local_bytes, limits.group);
	if (!cg_gemm_launch(&shape, g->m, g->n, global, local))
		return CG_OK;
	pthread_mutex_lock(device->lock);
	code = find(queue, &shape, &product);
	pthread_mutex_unlock(device->lock);
	return code ? code : enqueue(queue, g, product->function, global, local);
}

/* ---- which ---- */

static int is_c(const struct cg_gemm *g)
{
	return g->start.mem.data && g->start.stride == g->c.stride &&
	       cg_cu_address(g->start.mem) == cg_cu_address(g->c.mem);
}

/* Elements that are acc and not real by another name. */
static int is_wide(const struct cg_gemm *g, const struct cg_matrix *x)
{
	return x->acc && cg_acc_bytes(g->dtype) != cg_dtype_bytes(g->dtype);
}

/* cuBLAS counts in int.  A start in acc would be rounded once more on its way through a c in real. */
static int suits_blas(const struct cg_gemm *g)
{
	const int64_t sizes[] = { g->m, g->n, g->k, g->a.stride, g->b.stride, g->c.stride };

	for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
		if (sizes[k] > INT_MAX)
			return 0;
	return g->k > 0 && !(g->start.mem.data && is_wide(g, &g->start) && !is_wide(g, &g->c));
}

static int by_blas(struct cg_queue *queue, const struct cg_gemm *g, int *done)
{
	struct cg_gemm spread = *g;

	if (!g->start.mem.data || is_c(g))
		return cg_cu_blas_product(queue, g, g->start.mem.data != NULL, done);
	CG_TRY(cg_cu_blas_start(queue, g, done));
	if (*done)
		return CG_OK;
	/* Its a and b are not read: one text does for all products of a dtype. */
	spread.k = spread.transpose_a = spread.transpose_b = 0;
	CG_TRY(generated(queue, &spread));
	return cg_cu_blas_product(queue, g, 1, done);
}

static int multiply(struct cg_queue *queue, const struct cg_gemm *g)
{
	struct cg_cu_blas *blas = NULL;
	int done = 0;

	if (!g->k && is_c(g))
		return CG_OK;
	if (suits_blas(g))
		CG_TRY(cg_cu_blas(queue, &blas));
	if (blas)
		CG_TRY(by_blas(queue, g, &done));
	return done ? CG_OK : generated(queue, g);
}

int cg_cu_gemm(struct cg_queue *queue, const struct cg_gemm *g)
{
	if (!g->m || !g->n)
		return CG_OK;
	CU_INSIDE(queue->device, multiply(queue, g));
}
