/* SPDX-License-Identifier: Apache-2.0 */
/* Counts the calls of the OpenCL driver, and makes one fail. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/backends/opencl/opencl_watch.h"

struct cg_cl driver;
struct calls seen;

enum { REFUSAL = -9999 };

/* Returns whether the call frees something or is clFinish. Neither a call that frees nor clFinish is made to fail, since the library could
   not correct the failure. */
static int gives_back(const char *call)
{
	return !strncmp(call, "Release", 7) || !strcmp(call, "Finish");
}

#define CL_CALL(name, parameters, names) \
	static int32_t watch_##name parameters \
	{ \
		__atomic_add_fetch(&seen.name, 1, __ATOMIC_RELAXED); \
		return !gives_back(#name) && fails_now("cl" #name) ? REFUSAL : driver.name names; \
	}
#define CL_MAKE(type, name, parameters, names) \
	static struct _cl_##type *watch_##name parameters \
	{ \
		__atomic_add_fetch(&seen.name, 1, __ATOMIC_RELAXED); \
		if (!fails_now("cl" #name)) \
			return driver.name names; \
		*error = REFUSAL; \
		return NULL; \
	}
#include "backends/opencl/opencl.fn"
#undef CL_CALL
#undef CL_MAKE

static void put_before(void)
{
#define CL_CALL(name, parameters, names) cg_cl.name = watch_##name;
#define CL_MAKE(type, name, parameters, names) cg_cl.name = watch_##name;
#include "backends/opencl/opencl.fn"
#undef CL_CALL
#undef CL_MAKE
}

void watch(void)
{
	if (cg_cl_load())
		return;
	driver = cg_cl;
	put_before();
}

void forget_calls(void)
{
	memset(&seen, 0, sizeof seen);
	forget_failures();
}

void forget(void)
{
	if (driver.GetPlatformIDs)
		put_before();
	forget_calls();
}

int opens(struct cg_context **context)
{
	forget_calls();
	return open_or_skip("opencl", context);
}

int open_tensors(struct tensors *t)
{
	struct cg_context *context;

	return opens(&context) && begin_tensors(t, context);
}

int set_up(void **state)
{
	(void)state;
	watch();
	return 0;
}
