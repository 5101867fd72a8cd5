/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declares what this backend uses of OpenCL: a table of the functions of OpenCL's loader, which is found at run time, and OpenCL's
 * constants.  The build needs no file of a vendor; where <CL/cl.h> is found, a test compares the declarations of this file
 * with it.
 */
#ifndef CG_OPENCL_LIBRARY_H
#define CG_OPENCL_LIBRARY_H

#include <stddef.h>
#include <stdint.h>

struct _cl_platform_id; struct _cl_device_id; struct _cl_context; struct _cl_command_queue; struct _cl_mem;
struct _cl_program; struct _cl_kernel; struct _cl_event;

/* All calls of OpenCL go through this table, so a test can count a call or make it fail by putting a function of its own in the table. */
struct cg_cl {
#define CL_CALL(name, parameters, names) int32_t (*name) parameters;
#define CL_MAKE(type, name, parameters, names) struct _cl_##type *(*name) parameters;
#include "backends/opencl/opencl.fn"
#undef CL_CALL
#undef CL_MAKE
};
extern struct cg_cl cg_cl;

enum {
#define CL_VALUE(name, value) CL_##name = value,
#include "backends/opencl/values.h"
#undef CL_VALUE
};
#define CL_DEVICE_TYPE_ALL UINT64_C(0xffffffff)

/* Loads OpenCL's loader at the first call, for the life of the process.  Returns CG_NO_DEVICE if no loader can be loaded, or
 * CG_BAD_ARGUMENT if CELLGRAD_OPENCL_LIB names a library that cannot be loaded; the message says why. */
int cg_cl_load(void);
/* The path of OpenCL's loader; "": it is not loaded. */
const char *cg_cl_path(void);
/* Returns CG_OK for CL_SUCCESS, else the status code of this library that fits, with a message like "opencl: clFinish:
 * CL_OUT_OF_RESOURCES (-5)". */
int cg_cl_check(int32_t code, const char *call);
const char *cg_cl_error(int32_t code);

#define CL_TRY(call, ...) CG_TRY(cg_cl_check(cg_cl.call(__VA_ARGS__), "cl" #call))

#endif
