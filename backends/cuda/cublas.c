/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products by cuBLAS, for which a row-major matrix is a transposed column-major one.  Each queue has a cuBLAS handle whose workspace this
 * library allocates, so that the same call gives the same bits.  Products are summed in acc; products of f32 never use TF32.
 * Where cublasLt has an algorithm, it computes products whose sums start from other values than those in c; if these values are one
 * repeated row, cublasLt's epilogue for biases adds the row.
 */
#include <string.h>

#include "backends/cuda/cuda.h"

enum { MEGABYTE = 1 << 20, PROBLEMS = 32, ALIGNED = 16 };

/* The key by which the algorithm that cublasLt chose for a product is kept: all that the choice depends on, namely sizes, strides, types,
 * which operands are transposed, and the alignment of addresses. */

struct key {
	int64_t m, n, k, a_stride, b_stride, start_stride, c_stride;
	int dtype, transpose_a, transpose_b, c_acc;
	unsigned a, b, start, c;
};

/* A product whose sums start from other values than those in c, described for cublasLt.  A product for which cublasLt has no algorithm is
 * kept, too, with possible = 0. */
struct problem {
	struct key key;
	int used, possible;
	cublasLtMatmulDesc_t desc;
	cublasLtMatrixLayout_t left, right, start, out;
	cublasLtMatmulAlgo_t algorithm;
};

struct cg_cu_blas {
	struct cublasContext *handle;
	struct cublasLtContext *lt;              /* the handle of cublasLt; NULL: there is no cublasLt beside this cuBLAS */
	CUdeviceptr workspace;
	size_t workspace_bytes;
	struct problem problems[PROBLEMS];
	int oldest;
};

/* ---- a queue's handle ---- */

static void forget(struct problem *p)
{
	if (p->desc)
		cg_cublaslt.MatmulDescDestroy(p->desc);
	if (p->left)
		cg_cublaslt.MatrixLayoutDestroy(p->left);
	if (p->right)
		cg_cublaslt.MatrixLayoutDestroy(p->right);
	if (p->start)
		cg_cublaslt.MatrixLayoutDestroy(p->start);
	if (p->out)
		cg_cublaslt.MatrixLayoutDestroy(p->out);
	memset(p, 0, sizeof *p);
}

static void free_blas(struct cg_queue *queue, struct cg_cu_blas *blas)
{
	for (int k = 0; k < PROBLEMS; k++)
		forget(&blas->problems[k]);
	if (blas->lt)
		cg_cublaslt.Destroy(blas->lt);
	if (blas->handle)
		cg_cublas.Destroy_v2(blas->handle);
	if (blas->workspace)
		cg_cu_free(queue->device, queue, blas->workspace);
	cg_memory(blas, 0);
}

void cg_cu_release_blas(struct cg_queue *queue)
{
	if (queue->blas)
		free_blas(queue, queue->blas);
	queue->blas = NULL;
}

static int has_lt(void)
{
	int all = 1;

#define CUBLASLT_CALL(name, parameters, names) all &= cg_cublaslt.name != NULL;
#include "backends/cuda/cuda.fn"
	return all;
}

/* Sets up a queue's cuBLAS handle.  Setting the stream makes the handle replace its workspace by one of its own, so the stream is set
 * first and the workspace after it. */
static int set_up(struct cg_queue *queue, struct cg_cu_blas *blas)
{
	CUBLAS_TRY(Create_v2, &blas->handle);
	CUBLAS_TRY(SetStream_v2, blas->handle, queue->stream);
	CG_TRY(cg_cu_alloc(queue->device, queue, blas->workspace_bytes, &blas->workspace));
	CUBLAS_TRY(SetWorkspace_v2, blas->handle, (void *)(uintptr_t)blas->workspace, blas->workspace_bytes);
	CUBLAS_TRY(SetMathMode, blas->handle, CUBLAS_DEFAULT_MATH | CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
	if (has_lt())
		CUBLASLT_TRY(Create, &blas->lt);
	return CG_OK;
}

int cg_cu_open_blas(struct cg_queue *queue, struct cg_cu_blas **result)
{
	int code;

	*result = NULL;
	if (!queue->blas) {
		code = cg_cuda_load(CG_CUDA_CUBLAS);
		if (code == CG_UNSUPPORTED)
			return CG_OK;
		CG_TRY(code);
		CG_TRY(cg_cu_check_uncaptured(queue, "a stream's first product"));
		CG_TRY(cg_cu_check_all_uncaptured(queue->device, "a stream's first product"));
		queue->blas = cg_memory(NULL, sizeof *queue->blas);
		if (!queue->blas)
			return CG_NO_MEMORY;
		memset(queue->blas, 0, sizeof *queue->blas);
		/* The sizes of a cuBLAS workspace that NVIDIA recommends. */
		queue->blas->workspace_bytes = (size_t)(queue->device->major < 9 ? 4 : 32) * MEGABYTE;
		code = set_up(queue, queue->blas);
		if (code) {
			cg_cu_release_blas(queue);
			return code;
		}
	}
	*result = queue->blas;
	return CG_OK;
}

/* ---- products ---- */

static unsigned real_type(int dtype)
{
	static const unsigned types[] = {
		[CG_F32] = CUDA_R_32F, [CG_F64] = CUDA_R_64F, [CG_F16] = CUDA_R_16F, [CG_BF16] = CUDA_R_16BF
	};

	_Static_assert(sizeof types / sizeof *types == CG_DTYPE_COUNT, "the table has one CUDA data type for each dtype");
	return types[dtype];
}

static unsigned acc_type(int dtype)
{
	return real_type(cg_dtypes[dtype].acc);
}

static unsigned c_type(const struct cg_gemm *g)
{
	return g->c.acc ? acc_type(g->dtype) : real_type(g->dtype);
}

static unsigned compute_type(int dtype)
{
	return dtype == CG_F64 ? CUBLAS_COMPUTE_64F : CUBLAS_COMPUTE_32F;
}

/* The address of the number 1 or 0 in the accumulation type acc. */
static const void *factor(int dtype, int one)
{
	static const double f64[] = { 0, 1 };
	static const float f32[] = { 0, 1 };

	return dtype == CG_F64 ? (const void *)&f64[one] : &f32[one];
}

static const void *pointer(const struct cg_matrix *x)
{
	return (const void *)(uintptr_t)cg_cu_address(x->mem);
}

/* The leading dimension of a matrix: its stride, or its columns if the stride is smaller, as that of a matrix of one row may be. */
static int64_t leading(const struct cg_matrix *x, int64_t columns)
{
	return x->stride < columns ? columns : x->stride;
}

static int64_t a_stride(const struct cg_gemm *g)
{
	return leading(&g->a, g->transpose_a ? g->m : g->k);
}

static int64_t b_stride(const struct cg_gemm *g)
{
	return leading(&g->b, g->transpose_b ? g->k : g->n);
}

static int64_t c_stride(const struct cg_gemm *g)
{
	return leading(&g->c, g->n);
}

/* Does cuBLAS say that it lacks the product, as bf16 on devices before sm_80 or in an old version? */
static int lacks(unsigned status)
{
	return status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_ARCH_MISMATCH;
}

/* cuBLAS, whose matrices are column-major, computes the transposed product c' = b' a', with the same strides. */
int cg_cu_blas_product(struct cg_queue *queue, const struct cg_gemm *g, int add, int *done)
{
	unsigned status = cg_cublas.GemmEx(queue->blas->handle, g->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N,
	                                   g->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N, (int)g->n, (int)g->m, (int)g->k,
	                                   factor(g->dtype, 1), pointer(&g->b), real_type(g->dtype), (int)b_stride(g), pointer(&g->a),
	                                   real_type(g->dtype), (int)a_stride(g), factor(g->dtype, add), (void *)(uintptr_t)pointer(&g->c),
	                                   c_type(g), (int)c_stride(g), compute_type(g->dtype), CUBLAS_GEMM_DEFAULT);

	*done = !lacks(status);
	return *done ? cg_cublas_error(status, "cublasGemmEx") : CG_OK;
}

/* ---- products with a start ---- */

/* The alignment of a matrix's address in bytes, 16 at most.  No load is wider than 16 bytes, and a larger alignment would select another
 * algorithm, with other bits, if a block of the workspace happens to be aligned better. */
static unsigned alignment(const struct cg_matrix *x)
{
	CUdeviceptr at = cg_cu_address(x->mem) | ALIGNED;

	return (unsigned)(at & -at);
}

static struct key key_of(const struct cg_gemm *g)
{
	struct key key;

	memset(&key, 0, sizeof key);             /* keys are compared as bytes */
	key.m = g->m;
	key.n = g->n;
	key.k = g->k;
	key.a_stride = a_stride(g);
	key.b_stride = b_stride(g);
	key.start_stride = g->start.stride;
	key.c_stride = c_stride(g);
	key.dtype = g->dtype;
	key.transpose_a = g->transpose_a;
	key.transpose_b = g->transpose_b;
	key.c_acc = g->c.acc;
	key.a = alignment(&g->a);
	key.b = alignment(&g->b);
	key.start = alignment(&g->start);
	key.c = alignment(&g->c);
	return key;
}

static int is_bias(const struct cg_gemm *g)
{
	return !g->start.stride;
}

static int set_bias(const struct problem *p, const struct cg_gemm *g)
{
	const void *at = pointer(&g->start);

	CUBLASLT_TRY(MatmulDescSetAttribute, p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &at, sizeof at);
	return CG_OK;
}

static int describe(struct problem *p, const struct cg_gemm *g)
{
	unsigned left = g->transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N, right = g->transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N;
	unsigned epilogue = is_bias(g) ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;

	CUBLASLT_TRY(MatmulDescCreate, &p->desc, compute_type(g->dtype), acc_type(g->dtype));
	CUBLASLT_TRY(MatmulDescSetAttribute, p->desc, CUBLASLT_MATMUL_DESC_TRANSA, &left, sizeof left);
	CUBLASLT_TRY(MatmulDescSetAttribute, p->desc, CUBLASLT_MATMUL_DESC_TRANSB, &right, sizeof right);
	CUBLASLT_TRY(MatmulDescSetAttribute, p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
	if (is_bias(g))
		CG_TRY(set_bias(p, g));
	CUBLASLT_TRY(MatrixLayoutCreate, &p->left, real_type(g->dtype), (uint64_t)(g->transpose_b ? g->k : g->n),
	             (uint64_t)(g->transpose_b ? g->n : g->k), b_stride(g));
	CUBLASLT_TRY(MatrixLayoutCreate, &p->right, real_type(g->dtype), (uint64_t)(g->transpose_a ? g->m : g->k),
	             (uint64_t)(g->transpose_a ? g->k : g->m), a_stride(g));
	CUBLASLT_TRY(MatrixLayoutCreate, &p->start, c_type(g), (uint64_t)g->n, (uint64_t)g->m,
	             is_bias(g) ? c_stride(g) : leading(&g->start, g->n));
	CUBLASLT_TRY(MatrixLayoutCreate, &p->out, c_type(g), (uint64_t)g->n, (uint64_t)g->m, c_stride(g));
	return CG_OK;
}

/* By default cublasLt assumes addresses that are multiples of 256 bytes, and may add partial sums in c's type. */
static int prefer(cublasLtMatmulPreference_t preference, const struct cg_cu_blas *blas, const struct key *key)
{
	const struct { unsigned attribute, value; } wishes[] = {
		{ CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, key->b }, { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, key->a },
		{ CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, key->start_stride ? key->start : key->c }, { CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, key->c },
		{ CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE },
	};
	uint64_t workspace = blas->workspace_bytes;

	for (size_t k = 0; k < sizeof wishes / sizeof *wishes; k++)
		CUBLASLT_TRY(MatmulPreferenceSetAttribute, preference, wishes[k].attribute, &wishes[k].value, sizeof wishes[k].value);
	CUBLASLT_TRY(MatmulPreferenceSetAttribute, preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace, sizeof workspace);
	return CG_OK;
}

/* Asks cublasLt for the best algorithm for a product.  If cublasLt has no algorithm, ask() sets field `possible` to 0 and returns CG_OK. */
static int ask(const struct cg_cu_blas *blas, struct problem *p)
{
	cublasLtMatmulPreference_t preference;
	cublasLtMatmulHeuristicResult_t result;
	unsigned status = CUBLAS_STATUS_NOT_SUPPORTED;
	int n = 0, code;

	CUBLASLT_TRY(MatmulPreferenceCreate, &preference);
	code = prefer(preference, blas, &p->key);
	if (!code)
		status = cg_cublaslt.MatmulAlgoGetHeuristic(blas->lt, p->desc, p->left, p->right, p->start, p->out, preference, 1,
		                                            &result, &n);
	cg_cublaslt.MatmulPreferenceDestroy(preference);
	CG_TRY(code);
	if (status && !lacks(status) && status != CUBLAS_STATUS_INVALID_VALUE)
		return cg_cublas_error(status, "cublasLtMatmulAlgoGetHeuristic");
	p->possible = !status && n > 0 && !result.state && result.workspaceSize <= blas->workspace_bytes;
	if (p->possible)
		p->algorithm = result.algo;
	return CG_OK;
}

/* Finds a product among the problems that are kept, or describes the product and keeps it in place of the oldest problem. */
static int find(struct cg_cu_blas *blas, const struct cg_gemm *g, struct problem **result)
{
	struct key key = key_of(g);
	struct problem *p;
	int code;

	for (p = blas->problems; p < blas->problems + PROBLEMS; p++)
		if (p->used && !memcmp(&p->key, &key, sizeof key)) {
			*result = p;
			return CG_OK;
		}
	p = &blas->problems[blas->oldest];
	blas->oldest = (blas->oldest + 1) % PROBLEMS;
	forget(p);
	p->key = key;
	code = describe(p, g);
	if (!code)
		code = ask(blas, p);
	if (code) {
		forget(p);
		return code;
	}
	p->used = 1;
	*result = p;
	return CG_OK;
}

/* Can cublasLt read the values from which the product's sums start?  cublasLt's preferences cannot state the alignment of a bias, which an
 * algorithm may read 16 bytes at a time. */
static int suits_start(const struct cg_gemm *g)
{
	return !is_bias(g) || cg_cu_address(g->start.mem) % ALIGNED == 0;
}

int cg_cu_blas_start(struct cg_queue *queue, const struct cg_gemm *g, int *done)
{
	struct cg_cu_blas *blas = queue->blas;
	const void *start = is_bias(g) ? pointer(&g->c) : pointer(&g->start);
	struct problem *p = NULL;
	unsigned status;

	*done = 0;
	/* For cublasLt the values from which the sums start must have the type of c. */
	if (!blas->lt || !suits_start(g) || c_type(g) != (g->start.acc ? acc_type(g->dtype) : real_type(g->dtype)))
		return CG_OK;
	CG_TRY(find(blas, g, &p));
	if (!p->possible)
		return CG_OK;
	if (is_bias(g))
		CG_TRY(set_bias(p, g));
	status = cg_cublaslt.Matmul(blas->lt, p->desc, factor(g->dtype, 1), pointer(&g->b), p->left, pointer(&g->a), p->right,
	                            factor(g->dtype, !is_bias(g)), start, p->start, (void *)(uintptr_t)pointer(&g->c), p->out,
	                            &p->algorithm, (void *)(uintptr_t)blas->workspace, blas->workspace_bytes, queue->stream);
	*done = !lacks(status);
	return *done ? cg_cublas_error(status, "cublasLtMatmul") : CG_OK;
}
