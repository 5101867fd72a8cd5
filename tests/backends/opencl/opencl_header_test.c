/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compiler compares the opencl backend's declarations of OpenCL with <CL/cl.h>: types of all calls, values of all constants.
 * The program itself compares nothing: it prints a pass, or a skip if there is no <CL/cl.h>.
 */
#include <stdio.h>

#if __has_include(<CL/cl.h>)

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <CL/cl_ext.h>

#define CL_CALL(name, parameters, names) \
	_Static_assert(__builtin_types_compatible_p(__typeof__(&cl##name), int32_t (*) parameters), "cl" #name);
#define CL_MAKE(type, name, parameters, names) \
	_Static_assert(__builtin_types_compatible_p(__typeof__(&cl##name), struct _cl_##type *(*) parameters), "cl" #name);
#include "backends/opencl/opencl.fn"

/* Declares the constants of library.h under other names, OURS_ and the name, since the names in <CL/cl.h> are macros. */
enum {
#define CL_VALUE(name, value) OURS_##name = value,
#include "backends/opencl/values.h"
#undef CL_VALUE
};
#define CL_VALUE(name, value) _Static_assert((long long)OURS_##name == (long long)CL_##name, "CL_" #name);
#include "backends/opencl/values.h"

int main(void)
{
	printf("1..1\nok 1 - declarations and values are those of <CL/cl.h>\n");
	return 0;
}

#else

int main(void)
{
	printf("1..0 # SKIP there is no <CL/cl.h> (Debian: opencl-c-headers)\n");
	return 0;
}

#endif
