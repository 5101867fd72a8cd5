/* SPDX-License-Identifier: Apache-2.0 */
/* What the stand-ins for libcublas and libcublasLt share. */
#ifndef FAKE_BLAS_H
#define FAKE_BLAS_H

#include <stddef.h>
#include <stdint.h>

#include "cuda.h"
#include "number.h"

/* Statuses of cuBLAS and its types of computation, with the numbers of NVIDIA's cublas_api.h. */
enum {
	BLAS_NOT_INITIALIZED = 1, BLAS_ALLOC_FAILED = 3, BLAS_INVALID_VALUE = 7, BLAS_EXECUTION_FAILED = 13,
	BLAS_INTERNAL_ERROR = 14, BLAS_NOT_SUPPORTED = 15
};
enum { COMPUTE_32F = 68, COMPUTE_32F_PEDANTIC = 69, COMPUTE_32F_FAST_TF32 = 77, COMPUTE_64F = 70, COMPUTE_64F_PEDANTIC = 71 };
enum { BLAS_HANDLE = 5, LT_HANDLE, LT_DESC, LT_LAYOUT, LT_PREFERENCE };

/* d = alpha op(a) op(b) + beta c + bias, column-major; the bias is added to every column. */
struct product {
	const char *call;
	int64_t m, n, k, lda, ldb, ldc, ldd;
	int transpose_a, transpose_b, type, type_c, narrow;      /* type: that of a and b; narrow: a and b are rounded to TF32 */
	double alpha, beta;
	int order;
	uint64_t a, b, c, d, bias, workspace;
	size_t workspace_bytes;
};

/* Returns 0 if cuBLAS has a product of these types, else a status of cuBLAS. */
int fake_types(unsigned type_a, unsigned type_b, unsigned type_c, unsigned compute);
/* Returns a factor in host memory; type: R_64F: the factor is an f64, else an f32. */
double fake_factor(const void *factor, unsigned type);
/* Checks the memory of a product, and queues the product; returns a status of cuBLAS. */
int fake_multiply(struct product product, struct stream *stream);

/* Begins a function of the stand-ins for cuBLAS.  If the call is refused, as CELLGRAD_FAKE_FAIL can request, the function returns a status
   of cuBLAS. */
#define BLAS_CALL(name) \
	int inside __attribute__((cleanup(fake_leave), unused)) = 1, refusal = fake_enter(#name, NEEDS_CONTEXT); \
	if (refusal) \
		return fake_status(refusal)
int fake_status(int code);

#endif
