/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An OpenCL loader that crashes, aborts, exits or prints at one call. The variable DRIVER names the call and what happens at that call,
 * as in "clCreateContext:abort". After printing, the named call goes to the system's loader, as every other call does.
 */
#include <dlfcn.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct _cl_platform_id; struct _cl_device_id; struct _cl_context; struct _cl_command_queue; struct _cl_mem;
struct _cl_program; struct _cl_kernel; struct _cl_event;

static void *call(const char *name)
{
	const char *fault = getenv("DRIVER");
	size_t n = strlen(name);
	void *loader;

	if (fault && !strncmp(fault, name, n) && fault[n] == ':') {
		fault += n + 1;
		if (!strcmp(fault, "abort"))
			abort();
		if (!strcmp(fault, "crash"))
			raise(SIGSEGV);
		if (!strcmp(fault, "exit"))
			exit(7);
		if (!strcmp(fault, "print")) {
			puts("driver: hello");
			fflush(stdout);
		}
	}
	loader = dlopen("libOpenCL.so.1", RTLD_NOW);
	return loader ? dlsym(loader, name) : NULL;
}

#define CL_CALL(name, parameters, names) \
int32_t cl##name parameters \
{ \
	int32_t (*real) parameters = (int32_t (*) parameters)call("cl" #name); \
 \
	return real ? real names : -1; \
}
#define CL_MAKE(type, name, parameters, names) \
struct _cl_##type *cl##name parameters \
{ \
	struct _cl_##type *(*real) parameters = (struct _cl_##type *(*) parameters)call("cl" #name); \
 \
	return real ? real names : NULL; \
}
#include "backends/opencl/opencl.fn"
