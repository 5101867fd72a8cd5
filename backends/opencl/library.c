/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds OpenCL's loader by CELLGRAD_OPENCL_LIB, in this process or by its usual names, and keeps the loader open for the life of the
 * process, since drivers have threads of their own.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backends/opencl/library.h"
#include "runtime/core/environment.h"
#include "runtime/core/core.h"

/* The names of OpenCL's loader: the soname on most systems, and the path of Apple's framework.  The name libOpenCL.so, without a version,
 * is for linking and is never tried. */
static const char *const names[] = {
	"libOpenCL.so.1",
	"/System/Library/Frameworks/OpenCL.framework/OpenCL",
};

struct cg_cl cg_cl;

static const struct { const char *name; size_t at; } calls[] = {
#define CL_CALL(name, parameters, names) { "cl" #name, offsetof(struct cg_cl, name) },
#define CL_MAKE(type, name, parameters, names) CL_CALL(name, parameters, names)
#include "backends/opencl/opencl.fn"
#undef CL_CALL
#undef CL_MAKE
};

static pthread_once_t once = PTHREAD_ONCE_INIT;
static int loaded, named;                /* loaded 1: the loader is loaded; named 1: the environment names a library */
static char why[1024], path[512];

static int find_calls(void *handle, const char *name)
{
	for (size_t k = 0; k < sizeof calls / sizeof *calls; k++) {
		void *call = dlsym(handle, calls[k].name);

		if (!call) {
			snprintf(why, sizeof why, "%s has no %s: the library is not an OpenCL 1.2 loader", name, calls[k].name);
			return 0;
		}
		memcpy((char *)&cg_cl + calls[k].at, &call, sizeof call);
	}
	return 1;
}

static void record_path(const char *name)
{
	Dl_info info;
	void *call;

	memcpy(&call, &cg_cl.GetPlatformIDs, sizeof call);
	snprintf(path, sizeof path, "%s", dladdr(call, &info) && info.dli_fname ? info.dli_fname : name);
	loaded = 1;
}

static void load_name(const char *name)
{
	void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	const char *error = handle ? NULL : dlerror();

	if (!handle) {
		size_t used = strlen(why);

		snprintf(why + used, sizeof why - used, "%s%.300s", used ? "; " : "tried ", error ? error : name);
		return;
	}
	if (!find_calls(handle, name)) {
		dlclose(handle);
		return;
	}
	record_path(name);
}

/* Uses an OpenCL loader that this process has already, because the program is linked with it or it was preloaded, as Oclgrind's is. */
static void load_own(void)
{
	void *handle = dlopen(NULL, RTLD_NOW | RTLD_LOCAL);

	if (handle && dlsym(handle, calls[0].name) && find_calls(handle, "this process"))
		record_path("this process");
}

/* Loads OpenCL's loader.  If CELLGRAD_OPENCL_LIB names a library, no other library is tried. */
static void load(void)
{
	const char *wanted = cg_variable_get(CG_ENV_OPENCL_LIB);

	named = wanted != NULL;
	if (named) {
		load_name(wanted);
		return;
	}
	load_own();
	for (size_t k = 0; k < sizeof names / sizeof *names && !loaded; k++)
		load_name(names[k]);
}

int cg_cl_load(void)
{
	CG_TRY(cg_variable_read(CG_ENV_OPENCL_LIB, NULL));
	pthread_once(&once, load);
	if (loaded)
		return CG_OK;
	if (named)
		return cg_fail(CG_BAD_ARGUMENT, "no OpenCL loader: CELLGRAD_OPENCL_LIB: %s", why);
	return cg_fail(CG_NO_DEVICE, "no OpenCL loader: %s; packages of the loader have names such as ocl-icd and opencl-icd-loader", why);
}

const char *cg_cl_path(void)
{
	return path;
}

/* The errors of OpenCL that have names in messages, and the status codes of this library for them.  Messages call any other error "an
 * unknown OpenCL error", with its number. */
static const struct { int32_t code; const char *name; int ours; } errors[] = {
	{ -1, "CL_DEVICE_NOT_FOUND", CG_NO_DEVICE },
	{ -2, "CL_DEVICE_NOT_AVAILABLE", CG_NO_DEVICE },
	{ -3, "CL_COMPILER_NOT_AVAILABLE", CG_BUILD },
	{ -4, "CL_MEM_OBJECT_ALLOCATION_FAILURE", CG_NO_MEMORY },
	{ -5, "CL_OUT_OF_RESOURCES", CG_DRIVER },
	{ -6, "CL_OUT_OF_HOST_MEMORY", CG_NO_MEMORY },
	{ -11, "CL_BUILD_PROGRAM_FAILURE", CG_BUILD },
	{ -13, "CL_MISALIGNED_SUB_BUFFER_OFFSET", CG_DRIVER },
	{ -14, "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST", CG_DRIVER },
	{ -30, "CL_INVALID_VALUE", CG_DRIVER },
	{ -32, "CL_INVALID_PLATFORM", CG_DRIVER },
	{ -33, "CL_INVALID_DEVICE", CG_DRIVER },
	{ -34, "CL_INVALID_CONTEXT", CG_DRIVER },
	{ -36, "CL_INVALID_COMMAND_QUEUE", CG_DRIVER },
	{ -38, "CL_INVALID_MEM_OBJECT", CG_DRIVER },
	{ -44, "CL_INVALID_PROGRAM", CG_DRIVER },
	{ -45, "CL_INVALID_PROGRAM_EXECUTABLE", CG_DRIVER },
	{ -46, "CL_INVALID_KERNEL_NAME", CG_DRIVER },
	{ -48, "CL_INVALID_KERNEL", CG_DRIVER },
	{ -49, "CL_INVALID_ARG_INDEX", CG_DRIVER },
	{ -50, "CL_INVALID_ARG_VALUE", CG_DRIVER },
	{ -51, "CL_INVALID_ARG_SIZE", CG_DRIVER },
	{ -52, "CL_INVALID_KERNEL_ARGS", CG_DRIVER },
	{ -54, "CL_INVALID_WORK_GROUP_SIZE", CG_DRIVER },
	{ -55, "CL_INVALID_WORK_ITEM_SIZE", CG_DRIVER },
	{ -59, "CL_INVALID_OPERATION", CG_DRIVER },
	{ -61, "CL_INVALID_BUFFER_SIZE", CG_NO_MEMORY },
	{ -63, "CL_INVALID_GLOBAL_WORK_SIZE", CG_DRIVER },
	{ -1001, "CL_PLATFORM_NOT_FOUND_KHR", CG_NO_DEVICE },
};

static size_t row_of(int32_t code)
{
	size_t k = 0;

	while (k < sizeof errors / sizeof *errors && errors[k].code != code)
		k++;
	return k;
}

const char *cg_cl_error(int32_t code)
{
	size_t k = row_of(code);

	return k < sizeof errors / sizeof *errors ? errors[k].name : "an unknown OpenCL error";
}

int cg_cl_check(int32_t code, const char *call)
{
	size_t k = row_of(code);

	if (!code)
		return CG_OK;
	return cg_fail(k < sizeof errors / sizeof *errors ? errors[k].ours : CG_DRIVER, "opencl: %s: %s (%d)", call,
	               cg_cl_error(code), (int)code);
}
