/* SPDX-License-Identifier: Apache-2.0 */
/* Declares what the files of the opencl backend share. */
#ifndef CG_OPENCL_H
#define CG_OPENCL_H

#include "backends/opencl/library.h"
#include "runtime/device/backend.h"

struct cg_dev {
	struct _cl_platform_id *platform;
	struct _cl_device_id *id;
	struct _cl_context *context;
	void *lock;                              /* guards programs while they are made */
	uint64_t programs;                       /* the number of programs made so far */
	uint64_t type;
	size_t group_most, item_most;            /* the most work-items of a group, and of its first dimension */
	size_t local_bytes;
	uint32_t units, vector_f32;
	uint64_t config_f32, config_f64;         /* what the driver reports of the arithmetic; config_f64 0: no double precision */
	int local;                               /* local memory is faster than global */
	char about[1024];
};

struct cg_queue {
	struct cg_dev *device;
	struct _cl_command_queue *queue;
	struct cg_cl_kernels *kernels;           /* those launched so far.  Each queue has its own, since a kernel holds its arguments. */
};

/* Is a GPU with a driver likely here?  Looks at files below root and loads nothing.  Returns CG_OK; CG_NO_DEVICE, and the message
 * says why the backend is passed over; or CG_BAD_ARGUMENT where CELLGRAD_OPENCL_LIB cannot be read. */
int cg_cl_is_likely(const char *root);
/* Reads the properties that a device's driver reports.  name: "0.1". */
int cg_cl_probe_device(struct cg_dev *, const char *name);
/* Finds out whether the device rounds as equal bits require, and adds to its description that it does, or what is wrong. */
int cg_cl_probe(struct cg_dev *);

/* Compiles a text for a dtype.  Where the driver refuses it, the message has the driver's log. */
int cg_cl_compile(struct cg_dev *, const char *text, const char *key, int dtype, struct _cl_program **);
int cg_cl_build(struct cg_dev *, const struct cg_pass_plan *, struct cg_module **);
void cg_cl_release(struct cg_dev *, struct cg_module *);
void cg_cl_release_kernels(struct cg_queue *);
int cg_cl_launch(struct cg_queue *, const struct cg_module *, int function, int64_t rows, int64_t units, const struct cg_operand *);

#endif
