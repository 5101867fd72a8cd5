/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which products cuBLAS computes.  cuBLAS adds a product to the values that c holds.  If a product starts with other values, and no
 * algorithm of cuBLAS adds them, a generated kernel first writes them to c.  Generated kernels also compute products with k = 0, and
 * products that cuBLAS refuses, as of bf16 on some devices, that it might round twice, or whose sizes exceed an int.
 */
#include <limits.h>

#include "backends/cuda/cuda.h"

static int is_c(const struct cg_gemm *g)
{
	return g->start.mem.data && g->start.stride == g->c.stride &&
	       cg_cu_address(g->start.mem) == cg_cu_address(g->c.mem);
}

/* Might cuBLAS round the product before it adds the values from which the sums start?  cuBLAS may round the product first if the elements
 * of c have 16 bits: cuBLAS 13.1 on an H200 chooses kernels (nvjet_sm90_hsh_..._badd_NTT) which round the product to c's type before they
 * add. */
static int rounds_twice(const struct cg_gemm *g)
{
	return g->start.mem.data && !g->c.acc && cg_acc_bytes(g->dtype) != cg_dtype_bytes(g->dtype);
}

/* Does the product suit cuBLAS, which counts in int?  A product with k = 0, or one that cuBLAS might round twice, does not suit cuBLAS. */
static int suits_blas(const struct cg_gemm *g)
{
	const int64_t sizes[] = { g->m, g->n, g->k, g->a.stride, g->b.stride, g->c.stride };

	for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
		if (sizes[k] > INT_MAX)
			return 0;
	return g->k > 0 && !rounds_twice(g);
}

static int multiply_by_blas(struct cg_queue *queue, const struct cg_gemm *g, int *left)
{
	int starts_elsewhere = g->start.mem.data && !is_c(g), done = 0;

	CG_TRY(starts_elsewhere ? cg_cu_blas_start(queue, g, &done) : cg_cu_blas_product(queue, g, g->start.mem.data != NULL, &done));
	*left = done ? CG_LEFT_NOTHING : starts_elsewhere ? CG_LEFT_START : CG_LEFT_PRODUCT;
	return CG_OK;
}

static int multiply(struct cg_queue *queue, const struct cg_gemm *g, int *left)
{
	struct cg_cu_blas *blas;

	CG_TRY(cg_cu_open_blas(queue, &blas));
	return blas ? multiply_by_blas(queue, g, left) : CG_OK;
}

int cg_cu_gemm(struct cg_queue *queue, const struct cg_gemm *g, int *left)
{
	*left = !g->k && is_c(g) ? CG_LEFT_NOTHING : CG_LEFT_PRODUCT;
	if (!suits_blas(g))
		return CG_OK;
	CU_INSIDE(queue->device, multiply(queue, g, left));
}
