/* How the calls are watched. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/backends/opencl/opencl_watch.h"

struct cg_cl driver;
struct calls seen;
long made, fatal;
const char *failed_call;

enum { REFUSAL = -9999 };

static int refuses(const char *call)
{
	if (++made != fatal)
		return 0;
	failed_call = call;
	return 1;
}

/* Calls that give something back to the driver cannot fail in a way that anyone could mend. */
static int gives_back(const char *call)
{
	return !strncmp(call, "Release", 7) || !strcmp(call, "Finish");
}

#define CL_CALL(name, parameters, names) \
	static int32_t watch_##name parameters \
	{ \
		seen.name++; \
		return !gives_back(#name) && refuses("cl" #name) ? REFUSAL : driver.name names; \
	}
#define CL_MAKE(type, name, parameters, names) \
	static struct _cl_##type *watch_##name parameters \
	{ \
		seen.name++; \
		if (!refuses("cl" #name)) \
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
	made = fatal = 0;
	failed_call = NULL;
}

void forget(void)
{
	if (driver.GetPlatformIDs)
		put_before();
	forget_calls();
}

int opens(struct cg_context **context)
{
	const char *required = getenv("CELLGRAD_TEST_REQUIRE");

	forget_calls();
	if (!cg_open("opencl", context))
		return 1;
	if (required && strstr(required, "opencl"))
		fail_msg("opencl is required: %s", cg_message());
	print_message("# no OpenCL device: %s\n", cg_message());
	skip();
	return 0;
}

int open_tensors(struct tensors *t)
{
	*t = (struct tensors){ .n = 0 };
	if (!opens(&t->context))
		return 0;
	assert_int_equal(cg_stream_open(t->context, NULL, &t->stream), CG_OK);
	return 1;
}
