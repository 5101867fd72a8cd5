/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the cuda backend's calls of the driver, NVRTC, cuBLAS and cuDNN, and makes one fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/backends/cuda/cuda_watch.h"

struct cg_cu driver;
struct cg_nvrtc compiler;
struct cg_cublas blas;
struct cg_cublaslt lt;
struct cg_cudnn dnn;
struct calls seen;
long balance;
int closing;

enum { CU_REFUSAL = 999, NVRTC_REFUSAL = 11, CUBLAS_REFUSAL = 14, CUDNN_REFUSAL = 5000 };

static int has_word(const char *call, const char *const *text)
{
	while (*text && !strstr(call, *text))
		text++;
	return *text != NULL;
}

/* Returns whether the call frees something. A call that frees is not made to fail, since the library could not correct the failure. */
static int gives_back(const char *call)
{
	static const char *const text[] = { "Destroy", "MemFree", "Unload", "Release", NULL };

	return has_word(call, text);
}

static int makes(const char *call)
{
	static const char *const text[] = { "Create", "MemAlloc", "LoadData", "Retain", "PushCurrent", NULL };

	return has_word(call, text);
}

static int refuses(const char *call)
{
	return !closing && !gives_back(call) && fails_now(call);
}

static void count(const char *call, unsigned code)
{
	if (!code)
		__atomic_add_fetch(&balance, makes(call) - (gives_back(call) || strstr(call, "PopCurrent")), __ATOMIC_RELAXED);
}

/* A watched call. A call that is made to fail does not reach the library, except cuCtxPopCurrent, which is done and reported as failed all
   the same. */
#define WATCH(call, library, name, parameters, names, refusal) \
	static unsigned watch_##call parameters \
	{ \
		int refused = refuses(#call); \
		unsigned code = refused && !strstr(#call, "PopCurrent") ? refusal : library.name names; \
		__atomic_add_fetch(&seen.call, 1, __ATOMIC_RELAXED); \
		count(#call, code); \
		return refused ? refusal : code; \
	}
#define CU_CALL(name, parameters, names) WATCH(cu##name, driver, name, parameters, names, CU_REFUSAL)
#define NVRTC_CALL(name, parameters, names) WATCH(nvrtc##name, compiler, name, parameters, names, NVRTC_REFUSAL)
#define CUBLAS_CALL(name, parameters, names) WATCH(cublas##name, blas, name, parameters, names, CUBLAS_REFUSAL)
#define CUBLASLT_CALL(name, parameters, names) WATCH(cublasLt##name, lt, name, parameters, names, CUBLAS_REFUSAL)
#define CUDNN_CALL(name, parameters, names) WATCH(cudnn##name, dnn, name, parameters, names, CUDNN_REFUSAL)
#include "backends/cuda/cuda.fn"

static void put_before(void)
{
	/* A function that a library lacks stays NULL. */
#define CU_CALL(name, parameters, names) cg_cu.name = driver.name ? watch_cu##name : NULL;
#define NVRTC_CALL(name, parameters, names) cg_nvrtc.name = compiler.name ? watch_nvrtc##name : NULL;
#define CUBLAS_CALL(name, parameters, names) cg_cublas.name = blas.name ? watch_cublas##name : NULL;
#define CUBLASLT_CALL(name, parameters, names) cg_cublaslt.name = lt.name ? watch_cublasLt##name : NULL;
#define CUDNN_CALL(name, parameters, names) cg_cudnn.name = dnn.name ? watch_cudnn##name : NULL;
#include "backends/cuda/cuda.fn"
	/* The two calls for the text of an error are not watched: the library makes them after a failure, and needs no text. */
	cg_cu.GetErrorName = driver.GetErrorName;
	cg_cu.GetErrorString = driver.GetErrorString;
}

/* The stand-in for cublasLt finds an algorithm only sometimes, so persist() asks up to 100 times: every run finds one. */
static unsigned (*asked)(struct cublasLtContext *, cublasLtMatmulDesc_t, cublasLtMatrixLayout_t, cublasLtMatrixLayout_t,
                         cublasLtMatrixLayout_t, cublasLtMatrixLayout_t, cublasLtMatmulPreference_t, int,
                         cublasLtMatmulHeuristicResult_t *, int *);

static unsigned persist(struct cublasLtContext *handle, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
                        cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                        cublasLtMatmulPreference_t preference, int most, cublasLtMatmulHeuristicResult_t *results, int *count)
{
	unsigned code = CUBLAS_STATUS_NOT_SUPPORTED;

	*count = 0;
	for (int k = 0; k < 100 && (code || !*count); k++)
		code = asked(handle, desc, a, b, c, d, preference, most, results, count);
	return code;
}

int watch(void)
{
	struct cg_context *context;

	/* Turns the cache of compiled kernels off, so that a test neither reads kernels from disk nor leaves any there; cuda_cache_test.c turns
	   the cache on again. */
	setenv("CELLGRAD_CACHE", "off", 1);
	if (cg_open("cuda", &context))
		return 0;
	cg_close(context);
	cg_cuda_load(CG_CUDA_NVRTC);
	cg_cuda_load(CG_CUDA_CUBLAS);
	cg_cuda_load(CG_CUDA_CUDNN);
	driver = cg_cu;
	compiler = cg_nvrtc;
	blas = cg_cublas;
	lt = cg_cublaslt;
	dnn = cg_cudnn;
	asked = lt.MatmulAlgoGetHeuristic;
	if (asked)
		lt.MatmulAlgoGetHeuristic = persist;
	put_before();
	return 1;
}

void forget(void)
{
	if (driver.Init)
		put_before();
	forget_calls();
}

void forget_calls(void)
{
	memset(&seen, 0, sizeof seen);
	forget_failures();
	balance = 0;
	closing = 0;
}

int opens(struct cg_context **context)
{
	forget();
	return open_or_skip("cuda", context);
}

int open_tensors(struct tensors *t)
{
	struct cg_context *context;

	return opens(&context) && begin_tensors(t, context);
}

int open_with_cudnn(struct tensors *t)
{
	if (!open_tensors(t))
		return 0;
	if (dnn.Create)
		return 1;
	free_tensors(t);
	skip();
	return 0;
}

int set_up(void **state)
{
	(void)state;
	watch();
	return 0;
}
