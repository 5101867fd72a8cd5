/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in for libcublas: handles, and products by cublasGemmEx. */
#include <stdlib.h>
#include <string.h>

#include "blas.h"

enum { TF32_MATH = 3, DISALLOW_REDUCED = 16, GEMM_DEFAULT = -1, GEMM_DEFAULT_TENSOR_OP = 99 };

struct cublas {
	struct handle handle;
	struct context *context;
	struct stream *stream;                   /* the stream that the caller set; NULL: the default stream */
	uint64_t workspace;
	size_t workspace_bytes;
	unsigned mode;
};

static struct cublas *known(const char *call, struct cublas *handle)
{
	handle = fake_known(call, BLAS_HANDLE, handle);
	if (handle && handle->context != fake_current()) {
		fake_report("%s: the handle is of another context than the current one", call);
		return NULL;
	}
	return handle;
}

FAKE_API int cublasCreate_v2(struct cublas **result)
{
	struct cublas *handle;

	BLAS_CALL(cublasCreate_v2);
	/* cublasCreate of cuBLAS allocates a workspace of cuBLAS in device memory, which a capture does not permit. */
	if (fake_capturing("cublasCreate"))
		return BLAS_ALLOC_FAILED;
	handle = fake_new(BLAS_HANDLE, sizeof *handle);
	handle->context = fake_current();
	*result = handle;
	return 0;
}

FAKE_API int cublasDestroy_v2(struct cublas *handle)
{
	BLAS_CALL(cublasDestroy_v2);
	if (!known("cublasDestroy", handle))
		return BLAS_NOT_INITIALIZED;
	handle->handle.dead = 1;
	return 0;
}

FAKE_API int cublasGetVersion_v2(struct cublas *handle, int *version)
{
	BLAS_CALL(cublasGetVersion_v2);
	if (handle && !known("cublasGetVersion", handle))
		return BLAS_NOT_INITIALIZED;
	*version = fake_version() / 1000 * 10000 + fake_version() % 1000 / 10 * 100;
	return 0;
}

/* Returns a part of cuBLAS's version: for type 0 the major number, for 1 the minor number, for 2 the patch level. cublasGetProperty needs
   no handle and no device. */
FAKE_API int cublasGetProperty(unsigned type, int *value)
{
	int inside __attribute__((cleanup(fake_leave), unused)) = 1, refusal = fake_enter("cublasGetProperty", ANY_TIME);

	if (refusal)
		return fake_status(refusal);
	if (type > 2 || !value)
		return BLAS_INVALID_VALUE;
	*value = type == 0 ? fake_version() / 1000 : type == 1 ? fake_version() % 1000 / 10 : 0;
	return 0;
}

/* A change of the stream also removes the caller's workspace: cuBLAS uses its own again. */
FAKE_API int cublasSetStream_v2(struct cublas *handle, struct stream *stream)
{
	BLAS_CALL(cublasSetStream_v2);
	if (!known("cublasSetStream", handle))
		return BLAS_NOT_INITIALIZED;
	if (!fake_stream("cublasSetStream", stream))
		return BLAS_INVALID_VALUE;
	handle->stream = stream;
	handle->workspace = 0;
	handle->workspace_bytes = 0;
	return 0;
}

FAKE_API int cublasSetWorkspace_v2(struct cublas *handle, void *at, size_t bytes)
{
	BLAS_CALL(cublasSetWorkspace_v2);
	if (!known("cublasSetWorkspace", handle))
		return BLAS_NOT_INITIALIZED;
	if ((uintptr_t)at % 256) {
		fake_report("cublasSetWorkspace: expected a multiple of 256, got %p", at);
		return BLAS_INVALID_VALUE;
	}
	if (bytes && fake_owned("cublasSetWorkspace", "workspace", handle->context, (uint64_t)(uintptr_t)at, bytes))
		return BLAS_INVALID_VALUE;
	handle->workspace = (uint64_t)(uintptr_t)at;
	handle->workspace_bytes = bytes;
	return 0;
}

FAKE_API int cublasSetMathMode(struct cublas *handle, unsigned mode)
{
	BLAS_CALL(cublasSetMathMode);
	if (!known("cublasSetMathMode", handle))
		return BLAS_NOT_INITIALIZED;
	if ((mode & ~(unsigned)DISALLOW_REDUCED) > TF32_MATH)
		return BLAS_INVALID_VALUE;
	handle->mode = mode;
	return 0;
}

/* Returns the alignment in bytes, at most 16, that all addresses have whose bits `addresses` combines. */
static uint64_t alignment(uint64_t addresses)
{
	addresses |= 16;
	return addresses & -addresses;
}

FAKE_API int cublasGemmEx(struct cublas *handle, unsigned op_a, unsigned op_b, int m, int n, int k, const void *alpha,
                          const void *a, unsigned type_a, int lda, const void *b, unsigned type_b, int ldb, const void *beta,
                          void *c, unsigned type_c, int ldc, unsigned compute, int algorithm)
{
	unsigned sums = compute == COMPUTE_64F || compute == COMPUTE_64F_PEDANTIC ? R_64F : R_32F;
	struct product p;
	int code;

	BLAS_CALL(cublasGemmEx);
	if (!known("cublasGemmEx", handle))
		return BLAS_NOT_INITIALIZED;
	if (op_a > 2 || op_b > 2 || m < 0 || n < 0 || k < 0 || !alpha || !beta ||
	    (algorithm != GEMM_DEFAULT && algorithm != GEMM_DEFAULT_TENSOR_OP)) {
		fake_report("cublasGemmEx: ops %u %u, sizes %d %d %d, factors %p %p, algorithm %d: one is not valid", op_a, op_b, m, n, k,
		            alpha, beta, algorithm);
		return BLAS_INVALID_VALUE;
	}
	code = fake_types(type_a, type_b, type_c, compute);
	if (code && !(type_a == R_16BF && fake_setting("BF16", 0)))
		fake_report("cublasGemmEx: types %u %u %u with sums of %u: there is no such product", type_a, type_b, type_c, compute);
	if (code)
		return code;
	/* Concurrent products share cuBLAS's own workspace, and their results then depend on their timing. */
	if (!handle->workspace_bytes)
		fake_report("cublasGemmEx: no workspace since cublasSetStream: results need not repeat");
	p = (struct product){
		.order = fake_order(alignment((uintptr_t)a | (uintptr_t)b | (uintptr_t)c)),
		.call = "cublasGemmEx", .m = m, .n = n, .k = k, .lda = lda, .ldb = ldb, .ldc = ldc, .ldd = ldc,
		.transpose_a = op_a != 0, .transpose_b = op_b != 0, .type = (int)type_a, .type_c = (int)type_c,
		.narrow = type_a == R_32F && (compute == COMPUTE_32F_FAST_TF32 ||
		                              (compute == COMPUTE_32F && (handle->mode & TF32_MATH) == TF32_MATH)),
		.alpha = fake_factor(alpha, sums), .beta = fake_factor(beta, sums),
		.a = (uint64_t)(uintptr_t)a, .b = (uint64_t)(uintptr_t)b, .c = (uint64_t)(uintptr_t)c, .d = (uint64_t)(uintptr_t)c,
		.workspace = handle->workspace, .workspace_bytes = handle->workspace_bytes,
	};
	return fake_multiply(p, fake_stream("cublasGemmEx", handle->stream));
}

FAKE_API const char *cublasGetStatusString(int status)
{
	static const struct { int status; const char *text; } all[] = {
		{ 0, "success" }, { 1, "the library was not initialized" }, { 3, "the resource allocation failed" },
		{ 7, "an unsupported value or parameter was passed to the function" },
		{ 8, "the requested functionality requires a feature absent from the architecture of the device" },
		{ 11, "an access to GPU memory space failed" }, { 13, "the function failed to launch on the GPU" },
		{ 14, "an internal operation failed" }, { 15, "the functionality requested is not supported" },
		{ 16, "the functionality requested requires some license" },
	};

	for (size_t k = 0; k < sizeof all / sizeof *all; k++)
		if (all[k].status == status)
			return all[k].text;
	return "unknown status";
}
