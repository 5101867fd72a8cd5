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
	void *lock;                              /* a mutex that is held while a program is made */
	uint64_t programs;                       /* the number of programs made so far */
	uint64_t type;
	size_t group_most, item_most;            /* the most work-items of a work-group, and of its first dimension */
	size_t local_bytes;
	uint32_t units, vector_f32;
	/* the floating-point properties that the driver reports for f32 and f64; config_f64 0: the device has no double precision */
	uint64_t config_f32, config_f64;
	int local;                               /* 1: the driver reports local memory of the device's own (CL_LOCAL), which counts as faster */
	char about[1024];
};

struct cg_queue {
	struct cg_dev *device;
	struct _cl_command_queue *queue;
	/* a list of the kernels that were launched on the queue so far.  Each queue has kernels of its own, since a kernel object holds its
	 * arguments. */
	struct cg_cl_kernels *kernels;
};

/* Does this machine seem to have a GPU with a driver?  Loads no driver: looks for the device file of a GPU below the folder `root`, and
 * reads in .icd files which drivers there are, those below `root` or those that OpenCL's environment variables name.  Returns CG_OK if
 * there seems to be such a GPU; else CG_NO_DEVICE, and the message says why the backend is passed over; or CG_BAD_ARGUMENT if the library
 * that CELLGRAD_OPENCL_LIB names cannot be read.  On systems other than Linux only CELLGRAD_OPENCL_LIB is checked, and the result is
 * otherwise CG_OK. */
int cg_cl_is_likely(const char *root);
/* Reads the properties that a device's driver reports.  name: the device's number, "0.1", or "the caller's", for the device's
 * description. */
int cg_cl_probe_device(struct cg_dev *, const char *name);
/* Finds out whether the device's arithmetic rounds as this library requires, so that all backends give equal bits, and adds to the
 * device's description that it does, or what is wrong. */
int cg_cl_probe(struct cg_dev *);

/* Compiles a kernel's text for a dtype.  If the driver refuses the text, the message has the driver's log. */
int cg_cl_compile(struct cg_dev *, const char *text, const char *key, int dtype, struct _cl_program **);
int cg_cl_build(struct cg_dev *, const struct cg_pass_plan *, struct cg_module **);
void cg_cl_release(struct cg_dev *, struct cg_module *);
void cg_cl_release_kernels(struct cg_queue *);
int cg_cl_launch(struct cg_queue *, const struct cg_module *, int function, int64_t rows, int64_t units, const struct cg_operand *);
int cg_cl_loop_steps(struct cg_queue *, const struct cg_module *, const struct cg_step_loop *);

#endif
