/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stand-in for OpenBLAS, which openblas.bats builds as libopenblas.so.0. The variable STAND_IN in the environment chooses a fault,
 * or another right configuration. The macro WITHOUT_x leaves a function out, and PREFIX precedes the names of the six functions.
 */
#include <stdlib.h>
#include <string.h>

#ifdef PREFIX
#define PASTE_(a, b) a##b
#define PASTE(a, b) PASTE_(a, b)
#define openblas_get_config      PASTE(PREFIX, openblas_get_config)
#define openblas_get_parallel    PASTE(PREFIX, openblas_get_parallel)
#define openblas_set_num_threads PASTE(PREFIX, openblas_set_num_threads)
#define openblas_get_num_threads PASTE(PREFIX, openblas_get_num_threads)
#define cblas_sgemm              PASTE(PREFIX, cblas_sgemm)
#define cblas_dgemm              PASTE(PREFIX, cblas_dgemm)
#endif

static int threads = 8;

static int is(const char *fault)
{
	const char *wanted = getenv("STAND_IN");

	return wanted && !strcmp(wanted, fault);
}

#ifndef WITHOUT_CONFIG
const char *openblas_get_config(void)
{
	static const struct { const char *fault, *config; } configs[] = {
		{ "no words", NULL }, { "empty", "" }, { "another", "MKL 2024.0" },
		{ "older than its name", "NO_LAPACKE DYNAMIC_ARCH NO_AFFINITY Haswell" },
		{ "older", "OpenBLAS 0.3.9 DYNAMIC_ARCH NO_AFFINITY Haswell MAX_THREADS=64" },
		{ "oldest", "OpenBLAS 0.3.10 DYNAMIC_ARCH NO_AFFINITY Haswell MAX_THREADS=64" },
		{ "newer", "OpenBLAS 1.0.0 DYNAMIC_ARCH" },
		{ "64 bits", "OpenBLAS 0.3.21 USE64BITINT DYNAMIC_ARCH NO_AFFINITY Haswell MAX_THREADS=64" },
		{ "serial with locks", "OpenBLAS 0.3.28 DYNAMIC_ARCH NO_AFFINITY USE_LOCKING Haswell SINGLE_THREADED" },
		{ "escapes", "OpenBLAS \033[2J\007" },
	};

	for (size_t k = 0; k < sizeof configs / sizeof *configs; k++)
		if (is(configs[k].fault))
			return configs[k].config;
	return "OpenBLAS 0.3.21 DYNAMIC_ARCH NO_AFFINITY Haswell MAX_THREADS=64";
}
#endif

#ifndef WITHOUT_PARALLEL
int openblas_get_parallel(void)
{
	return is("serial") || is("serial with locks") ? 0 : is("OpenMP") ? 2 : 1;
}
#endif

#ifndef WITHOUT_SET
void openblas_set_num_threads(int n)
{
	threads = is("stubborn") ? threads : n;
}
#endif

#ifndef WITHOUT_GET
int openblas_get_num_threads(void)
{
	return threads;
}
#endif

#ifdef WITH_OPENMP
static _Thread_local int own = 8;

void omp_set_num_threads(int n)
{
	own = n;
}
/* With WITH_OPENMP a product is also wrong on a thread that has not set the number of its OpenMP threads to 1. */
#define GARBLED(how, ta, tb) (is(#how) || (is(#how " transposed a") && ta == 112) || (is(#how " transposed b") && tb == 112) || own != 1)
#else
#define GARBLED(how, ta, tb) (is(#how) || (is(#how " transposed a") && ta == 112) || (is(#how " transposed b") && tb == 112))
#endif

#define GEMM(name, real) \
void cblas_##name(int order, int ta, int tb, int m, int n, int k, real alpha, const real *a, int lda, const real *b, int ldb, \
                  real beta, real *c, int ldc) \
{ \
	(void)order; \
	for (int i = 0; i < m; i++) \
		for (int j = 0; j < n; j++) { \
			real sum = 0; \
\
			for (int p = 0; p < k; p++) \
				sum += (ta == 112 ? a[p * lda + i] : a[i * lda + p]) * (tb == 112 ? b[j * ldb + p] : b[p * ldb + j]); \
			if (GARBLED(name, ta, tb)) \
				sum = -sum; \
			c[i * ldc + j] = alpha * sum + beta * c[i * ldc + j]; \
		} \
	if (is(#name " beyond")) \
		c[n] = 1; \
}

#ifndef WITHOUT_SGEMM
GEMM(sgemm, float)
#endif
#ifndef WITHOUT_DGEMM
GEMM(dgemm, double)
#endif

#ifdef WITH_UNDEFINED
void nowhere_to_be_found(void);
void cblas_other(void)
{
	nowhere_to_be_found();
}
#endif
