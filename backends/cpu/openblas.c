/*
 * OpenBLAS by soname, in a link namespace of its own: a plain dlopen would hand out the host program's instance, and setting that
 * to one thread would change the host's results and speed.  Never closed: a process has few namespaces, and threads of its own run
 * in it.
 */
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "backends/cpu/openblas.h"

static struct cg_openblas blas;
static pthread_once_t once = PTHREAD_ONCE_INIT;

#if defined(CG_OPENBLAS) && defined(LM_ID_NEWLM)

static const char *const sonames[] = { "libopenblas.so.0", "libopenblasp.so.0" };

static void load(void)
{
	void (*set_num_threads)(int);
	char *(*get_config)(void);
	struct link_map *map = NULL;
	void *handle = NULL;
	char tried[256] = "";

	for (size_t k = 0; k < sizeof sonames / sizeof *sonames && !handle; k++) {
		handle = dlmopen(LM_ID_NEWLM, sonames[k], RTLD_NOW | RTLD_LOCAL);
		if (!handle)
			snprintf(tried + strlen(tried), sizeof tried - strlen(tried), "%s%s", k ? ", " : "", sonames[k]);
	}
	if (!handle) {
		const char *error = dlerror();

		snprintf(blas.why, sizeof blas.why, "tried %s: %.200s", tried, error ? error : "not found");
		return;
	}
	dlinfo(handle, RTLD_DI_LINKMAP, &map);
	/* POSIX's way of turning what dlsym finds into a function. */
	*(void **)&set_num_threads = dlsym(handle, "openblas_set_num_threads");
	*(void **)&get_config = dlsym(handle, "openblas_get_config");
	*(void **)&blas.sgemm = dlsym(handle, "cblas_sgemm");
	*(void **)&blas.dgemm = dlsym(handle, "cblas_dgemm");
	if (!set_num_threads || !get_config || !blas.sgemm || !blas.dgemm) {
		blas.sgemm = NULL;
		blas.dgemm = NULL;
		snprintf(blas.why, sizeof blas.why, "%s is not an OpenBLAS with cblas", map ? map->l_name : sonames[0]);
		return;
	}
	set_num_threads(1);
	snprintf(blas.why, sizeof blas.why, "%.160s at %.300s", get_config(), map ? map->l_name : sonames[0]);
}

#else

static void load(void)
{
#ifdef CG_OPENBLAS
	snprintf(blas.why, sizeof blas.why, "this C library has no dlmopen");
#else
	snprintf(blas.why, sizeof blas.why, "built without it");
#endif
}

#endif

const struct cg_openblas *cg_openblas(void)
{
	pthread_once(&once, load);
	return &blas;
}
