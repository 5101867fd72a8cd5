/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compiler compares the cuda backend's declarations of CUDA with NVIDIA's headers: types of all calls, values of all constants,
 * sizes of the two structs without a tag and offsets in one of them. At run time the test only prints lines of TAP.
 */
#include <stdio.h>

#include "backends/cuda/layout.h"

#if __has_include(<cuda.h>) && __has_include(<nvrtc.h>) && __has_include(<cublas_v2.h>) && __has_include(<cublasLt.h>)

#include <cuda.h>
#include <nvrtc.h>
#include <cublas_v2.h>
#include <cublasLt.h>

#define SAME(function, result, parameters) \
	_Static_assert(__builtin_types_compatible_p(__typeof__(&function), result (*) parameters), #function);
#define CU_CALL(name, parameters, names) SAME(cu##name, unsigned, parameters)
#define CU_LATER(name, parameters, names) SAME(cu##name, unsigned, parameters)
#define NVRTC_CALL(name, parameters, names) SAME(nvrtc##name, unsigned, parameters)
#define NVRTC_WORDS(name, parameters, names) SAME(nvrtc##name, const char *, parameters)
#define CUBLAS_CALL(name, parameters, names) SAME(cublas##name, unsigned, parameters)
#define CUBLAS_WORDS(name, parameters, names) SAME(cublas##name, const char *, parameters)
#define CUBLASLT_CALL(name, parameters, names) SAME(cublasLt##name, unsigned, parameters)
#include "backends/cuda/cuda.fn"

/* Declares the constants of library.h under other names, OURS_ and the name, to compare them with those of NVIDIA's headers. */
#define NVRTC_VALUE CU_VALUE
#define CUBLAS_VALUE CU_VALUE
#define CUBLASLT_VALUE CU_VALUE
enum {
#define CU_VALUE(name, value) OURS_##name = value,
#include "backends/cuda/values.h"
#undef CU_VALUE
};
#define CU_VALUE(name, value) _Static_assert((long long)OURS_##name == (long long)name, #name);
#include "backends/cuda/values.h"

_Static_assert(sizeof(struct cg_lt_algorithm) == sizeof(cublasLtMatmulAlgo_t), "cublasLtMatmulAlgo_t");
_Static_assert(sizeof(struct cg_lt_result) == sizeof(cublasLtMatmulHeuristicResult_t), "cublasLtMatmulHeuristicResult_t");
#if __has_include(<cudnn.h>)
#include <cudnn.h>
#if CUDNN_MAJOR >= 9
#define CUDNN_TELLS(name, parameters, names) SAME(cudnn##name, void, parameters)
#else
#define CUDNN_TELLS(name, parameters, names)
#endif
#define CUDNN_CALL(name, parameters, names) SAME(cudnn##name, unsigned, parameters)
#define CUDNN_COUNT(name, parameters, names) SAME(cudnn##name, size_t, parameters)
#define CUDNN_WORDS(name, parameters, names) SAME(cudnn##name, const char *, parameters)
#include "backends/cuda/cuda.fn"

#undef CU_VALUE
#undef NVRTC_VALUE
#undef CUBLAS_VALUE
#undef CUBLASLT_VALUE
enum {
#define CUDNN_VALUE(name, value) OURS_##name = value,
#define CUDNN_CODE(name, of_8, of_9) OURS_##name = CUDNN_MAJOR >= 9 ? of_9 : of_8,
#include "backends/cuda/values.h"
#undef CUDNN_VALUE
#undef CUDNN_CODE
};
#define CUDNN_VALUE(name, value) _Static_assert((long long)OURS_##name == (long long)name, #name);
#define CUDNN_CODE(name, of_8, of_9) CUDNN_VALUE(name, 0)
#include "backends/cuda/values.h"
#else
#define CUDNN_MAJOR 0
#endif

#define MEMBER_OFFSET(member) \
	_Static_assert(offsetof(struct cg_lt_result, member) == offsetof(cublasLtMatmulHeuristicResult_t, member), #member);
MEMBER_OFFSET(algo) MEMBER_OFFSET(workspaceSize) MEMBER_OFFSET(state) MEMBER_OFFSET(wavesCount)

int main(void)
{
	printf("1..2\nok 1 - declarations, values and layouts are those of CUDA %d.%d\n", CUDA_VERSION / 1000, CUDA_VERSION % 1000 / 10);
	if (CUDNN_MAJOR)
		printf("ok 2 - declarations and values are those of cuDNN %d\n", CUDNN_MAJOR);
	else
		printf("ok 2 # SKIP there is no <cudnn.h> beside them\n");
	return 0;
}

#else

int main(void)
{
	printf("1..0 # SKIP there are no <cuda.h>, <nvrtc.h>, <cublas_v2.h> and <cublasLt.h> (configure --with-cuda=DIR)\n");
	return 0;
}

#endif
