/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads OpenBLAS by its soname, or the library that the environment names, in a link namespace of its own.  Without that namespace dlopen
 * would return the host program's instance of the library, and setting that instance to one thread would change the host's results and
 * speed.  A loaded library is used if it is OpenBLAS, is new enough, lets several threads call it at once, can be set to one thread, has
 * integers of 32 bits and the functions of table `symbols`, and multiplies small matrices correctly.  If a library is not used, field `why`
 * says why, and if the environment names no library, the next soname is tried.  The library is never closed: a process has few namespaces,
 * and the library's own threads run its code.
 */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "backends/cpu/openblas.h"
#include "backends/cpu/processors.h"
#include "runtime/core/environment.h"

static struct cg_openblas blas;
static pthread_once_t once = PTHREAD_ONCE_INIT;

#if defined(CG_OPENBLAS) && defined(LM_ID_NEWLM)

/* The prefix of every function's name in the OpenBLAS of PyPI's package scipy-openblas32. */
static const char scipy[] = "scipy_";
static const char *const sonames[] = { "libopenblas.so.0", "libopenblasp.so.0" };

/* The oldest OpenBLAS that is used; OpenBLAS gives its version from 0.3.4 on.  Version 0.3.10 of OpenBLAS fixed the
 * last race for the buffers of threads that call OpenBLAS at the same time, so older versions are refused. */

enum { MAJOR = 0, MINOR = 3, PATCH = 10 };

/* The values of openblas_get_parallel. */
enum { SERIAL, PTHREADS, OPENMP };

/* The functions of the loaded library.  A library must have all of them, except that only a library built on OpenMP must have
 * omp_set_num_threads. */
static struct {
	char *(*config)(void);
	int (*parallel)(void);
	void (*set_threads)(int);
	int (*threads)(void);
	cg_sgemm *sgemm;
	cg_dgemm *dgemm;
	void (*omp_set_threads)(int);             /* omp_set_num_threads, set only if OpenBLAS is built on OpenMP */
} lib;

static const struct { const char *name; void *to; } symbols[] = {
	{ "openblas_get_config",      &lib.config },
	{ "openblas_get_parallel",    &lib.parallel },
	{ "openblas_set_num_threads", &lib.set_threads },
	{ "openblas_get_num_threads", &lib.threads },
	{ "cblas_sgemm",              &lib.sgemm },
	{ "cblas_dgemm",              &lib.dgemm },
};

/* ---- OpenMP: each calling thread sets the number of threads for itself ---- */

static void one_thread(void)
{
	static _Thread_local int set;

	if (!set)
		lib.omp_set_threads(1);
	set = 1;
}

static void sgemm_alone(int order, int ta, int tb, int m, int n, int k, float alpha, const float *a, int lda, const float *b, int ldb,
                        float beta, float *c, int ldc)
{
	one_thread();
	lib.sgemm(order, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

static void dgemm_alone(int order, int ta, int tb, int m, int n, int k, double alpha, const double *a, int lda, const double *b,
                        int ldb, double beta, double *c, int ldc)
{
	one_thread();
	lib.dgemm(order, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

/* ---- does the loaded library compute correctly? ---- */

enum { ROW_MAJOR = 101, PLAIN = 111, TRANSPOSED = 112 };     /* cblas's values */
enum { M = 9, N = 11, K = 7, PITCH = 13, BEYOND = 77 };

/* Multiplies whole numbers so small that every sum is exact.  The product must leave the elements beyond each row's end unchanged.  The
 * whole check takes a few microseconds. */
#define PROBE(name, real, gemm) \
static int name(void) \
{ \
	real a[N][PITCH], b[N][PITCH], c[N][PITCH]; \
 \
	for (int transposes = 0; transposes < 4; transposes++) { \
		int ta = transposes & 1, tb = transposes >> 1; \
 \
		for (int i = 0; i < N; i++) \
			for (int j = 0; j < PITCH; j++) { \
				a[i][j] = (real)((i * 3 + j * 5 + 1) % 7 - 3); \
				b[i][j] = (real)((i * 7 + j * 2 + 2) % 9 - 4); \
				c[i][j] = (real)(j < N ? i - j : BEYOND); \
			} \
		gemm(ROW_MAJOR, ta ? TRANSPOSED : PLAIN, tb ? TRANSPOSED : PLAIN, M, N, K, 1, a[0], PITCH, b[0], PITCH, 1, c[0], \
		     PITCH); \
		for (int i = 0; i < N; i++) \
			for (int j = 0; j < PITCH; j++) { \
				real want = (real)(j < N ? i - j : BEYOND); \
 \
				for (int k = 0; k < K && i < M && j < N; k++) \
					want += (ta ? a[k][i] : a[i][k]) * (tb ? b[j][k] : b[k][j]); \
				if (c[i][j] != want) \
					return 0; \
			} \
	} \
	return 1; \
}
PROBE(sgemm_is_right, float, blas.sgemm)
PROBE(dgemm_is_right, double, blas.dgemm)

/* ---- loading ---- */

/*
 * Each thread that multiplies takes a buffer, and so does each thread that OpenBLAS starts at loading, one for each processor.  A buffer
 * has 128 MiB on x86-64, and at most as much elsewhere.  A thread that gets no buffer tries again for ever.  So OpenBLAS is not even loaded
 * where a limit (ulimit -v, a system without overcommit) leaves no room for the buffers.
 */
enum { BUFFER = 160 << 20 };

static int has_memory(void)
{
	const size_t buffers = 2 * (size_t)cg_count_processors(), bytes = buffers < SIZE_MAX / 4 / BUFFER ? buffers * BUFFER : BUFFER;
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (at == MAP_FAILED)
		return 0;
	munmap(at, bytes);
	return 1;
}

static int refuse(char *why, size_t bytes, const char *path, const char *format, ...) __attribute__((format(printf, 4, 5)));

static int refuse(char *why, size_t bytes, const char *path, const char *format, ...)
{
	va_list list;
	int n = snprintf(why, bytes, "%.200s: ", path);

	va_start(list, format);
	vsnprintf(why + n, bytes - (size_t)n, format, list);
	va_end(list);
	blas.sgemm = NULL;
	blas.dgemm = NULL;
	return -1;
}

/* Finds a symbol by its name, or by its name with SciPy's prefix. */
static void *find_symbol(void *handle, const char *name)
{
	char with_scipy[64];
	void *at = dlsym(handle, name);

	snprintf(with_scipy, sizeof with_scipy, "%s%s", scipy, name);
	return at ? at : dlsym(handle, with_scipy);
}

/* Opens a library and checks whether it can be used as OpenBLAS.  Writes to `why` the library's configuration and path, or
 * why the library is refused. */
static int open_library(const char *soname, char *why, size_t bytes)
{
	void *handle = dlmopen(LM_ID_NEWLM, soname, RTLD_NOW | RTLD_LOCAL);
	int major = -1, minor = -1, patch = -1, parallel;
	struct link_map *map = NULL;
	const char *error, *path, *config;

	if (!handle) {
		error = dlerror();
		snprintf(why, bytes, "%s%s%.200s", error && strstr(error, soname) ? "" : soname,
		         error && strstr(error, soname) ? "" : ": ", error ? error : "not found");
		return -1;
	}
	dlinfo(handle, RTLD_DI_LINKMAP, &map);
	path = map && map->l_name[0] ? map->l_name : soname;
	for (size_t k = 0; k < sizeof symbols / sizeof *symbols; k++) {
		void *at = find_symbol(handle, symbols[k].name);

		if (!at)
			return refuse(why, bytes, path, "has no %s", symbols[k].name);
		memcpy(symbols[k].to, &at, sizeof at);
	}
	config = lib.config();
	if (!config || sscanf(config, "OpenBLAS %d.%d.%d", &major, &minor, &patch) != 3)
		return refuse(why, bytes, path, "expected a library that says it is OpenBLAS %d.%d.%d or later, got '%.60s'", MAJOR, MINOR, PATCH,
		              config ? config : "");
	if (major != MAJOR ? major < MAJOR : minor != MINOR ? minor < MINOR : patch < PATCH)
		return refuse(why, bytes, path, "is OpenBLAS %d.%d.%d, older than the oldest that can be used, %d.%d.%d", major, minor,
		              patch, MAJOR, MINOR, PATCH);
	if (strstr(config, "USE64BITINT"))
		return refuse(why, bytes, path, "takes integers of 64 bits: expected a library that takes integers of 32 bits");
	parallel = lib.parallel();
	blas.sgemm = lib.sgemm;
	blas.dgemm = lib.dgemm;
	if (parallel == SERIAL && !strstr(config, "USE_LOCKING"))
		return refuse(why, bytes, path, "is built without threads and without locks, so that threads may not call the library at the "
		              "same time");
	if (parallel == OPENMP) {
		void *at = dlsym(handle, "omp_set_num_threads");

		if (!at)
			return refuse(why, bytes, path, "is built on OpenMP, but omp_set_num_threads is missing");
		memcpy(&lib.omp_set_threads, &at, sizeof at);
		blas.sgemm = sgemm_alone;
		blas.dgemm = dgemm_alone;
	}
	lib.set_threads(1);
	if (lib.threads() != 1)
		return refuse(why, bytes, path, "was set to one thread but has %d threads", lib.threads());
	if (!sgemm_is_right() || !dgemm_is_right())
		return refuse(why, bytes, path, "the library's product of two small matrices is wrong");
	snprintf(why, bytes, "%.160s at %.300s", config, path);
	return 0;
}

/* Loads OpenBLAS.  Argument `named`: the path of a library; NULL: the library is searched by soname. */
static void load(const char *named)
{
	size_t used = 0;

	if (!has_memory()) {
		snprintf(blas.why, sizeof blas.why, "OpenBLAS is not loaded: its buffers exceed the memory that the process may have "
		         "(ulimit -v, or no overcommit)");
		return;
	}
	if (named) {
		open_library(named, blas.why, sizeof blas.why);
		return;
	}
	for (size_t k = 0; k < sizeof sonames / sizeof *sonames && used < sizeof blas.why - 3; k++) {
		if (used)
			used += (size_t)snprintf(blas.why + used, sizeof blas.why - used, "; ");
		if (!open_library(sonames[k], blas.why + used, sizeof blas.why - used)) {
			memmove(blas.why, blas.why + used, strlen(blas.why + used) + 1);
			return;
		}
		used = strlen(blas.why);
	}
}

#else

static void load(const char *named)
{
	(void)named;
#ifdef CG_OPENBLAS
	snprintf(blas.why, sizeof blas.why, "this C library has no dlmopen");
#else
	snprintf(blas.why, sizeof blas.why, "this cellgrad was built without OpenBLAS");
#endif
}

#endif

static void load_wanted(void)
{
	const char *named = cg_variable_get(CG_ENV_OPENBLAS_LIB);

	if (named && !strcmp(named, "none")) {
		snprintf(blas.why, sizeof blas.why, "CELLGRAD_OPENBLAS_LIB=none");
		return;
	}
	load(named);
	blas.is_refused = named && !blas.sgemm;
}

const struct cg_openblas *cg_load_openblas(void)
{
	pthread_once(&once, load_wanted);
	return &blas;
}
