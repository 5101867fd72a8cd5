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
	void *lock;                              /* of programs */
	uint64_t programs;                       /* that were made so far */
	uint64_t type;
	size_t group_most, item_most;            /* work-items of a group, and of its first dimension */
	size_t local_bytes;
	uint32_t units, vector_f32;
	uint64_t config_f32, config_f64;         /* what the driver reports of the arithmetic; f64 0: there is none */
	int local;                               /* local memory is faster than global */
	char about[1024];
};

struct cg_queue {
	struct cg_dev *device;
	struct _cl_command_queue *queue;
	struct cg_cl_kernels *kernels;           /* launched so far: its own, since a kernel holds its arguments */
};

/* Is a GPU with a driver likely here?  Files are looked at, below root, and nothing is loaded: CG_OK; CG_NO_DEVICE and why the backend
 * is passed over; CG_BAD_ARGUMENT where CELLGRAD_OPENCL_LIB cannot be read. */
int cg_cl_is_likely(const char *root);
/* Fills in what a device's driver reports; name: "0.1". */
int cg_cl_probe_device(struct cg_dev *, const char *name);
/* Does the device round as equal bits need it?  Its description says so, or what is wrong. */
int cg_cl_probe(struct cg_dev *);

/* A program of one text for a dtype; the driver's log is in the message when it refuses. */
int cg_cl_compile(struct cg_dev *, const char *text, const char *key, int dtype, struct _cl_program **);
int cg_cl_build(struct cg_dev *, const struct cg_pass_plan *, struct cg_module **);
void cg_cl_release(struct cg_dev *, struct cg_module *);
void cg_cl_release_kernels(struct cg_queue *);
int cg_cl_launch(struct cg_queue *, const struct cg_module *, int function, int64_t rows, int64_t units, const struct cg_operand *);

#endif
