/* What the files of the opencl backend share. */
#ifndef CG_OPENCL_H
#define CG_OPENCL_H

#include "backends/opencl/library.h"
#include "runtime/device/backend.h"

/* The text of a shape of rows, built when it is first wanted. */
struct cg_cl_rows {
	struct _cl_program *program;
	struct _cl_kernel *kernel;
	size_t group;                            /* work-items that a group of it may have */
};

struct cg_device {
	struct _cl_platform_id *platform;
	struct _cl_device_id *id;
	struct _cl_context *context;
	void *lock;                              /* of the products, rows, and of kernels: arguments are set one by one */
	uint64_t type;
	size_t group_most, item_most;            /* work-items of a group, and of its first dimension */
	size_t local_bytes;
	uint32_t units, vector_f32;
	uint64_t config_f32, config_f64;         /* what the driver says of the arithmetic; f64 0: there is none */
	int local;                               /* local memory is faster than global */
	struct cg_cl_product *products;          /* built so far */
	struct cg_cl_rows rows[CG_DTYPE_COUNT][CG_ROWS_SHAPES];
	char about[1024];
};

struct cg_queue {
	struct cg_device *device;
	struct _cl_command_queue *queue;
};

/* Is a GPU with a driver likely here?  Files are looked at, below root, and nothing is loaded: CG_OK; CG_NO_DEVICE and why the backend
 * is passed over; CG_BAD_ARGUMENT where CELLGRAD_OPENCL_LIB cannot be read. */
int cg_cl_likely(const char *root);
/* Fills what is asked of a device's driver; name: "0.1". */
int cg_cl_probe_device(struct cg_device *, const char *name);
/* Does the device compute as the promise of equal bits needs it?  Its description says so, or what is amiss. */
int cg_cl_probe(struct cg_device *);

/* A program of one text for a dtype; the driver's log is in the message when it refuses. */
int cg_cl_compile(struct cg_device *, const char *text, const char *key, int dtype, struct _cl_program **);
int cg_cl_build(struct cg_device *, const struct cg_pass_plan *, struct cg_built **);
void cg_cl_drop(struct cg_device *, struct cg_built *);
int cg_cl_launch(struct cg_queue *, const struct cg_built *, int piece, int64_t rows, int64_t units, const struct cg_operand *);
int cg_cl_gemm(struct cg_queue *, const struct cg_gemm *);
void cg_cl_drop_products(struct cg_device *);
int cg_cl_rows(struct cg_queue *, const struct cg_rows *);
void cg_cl_drop_rows(struct cg_device *);

/* Enqueues a kernel whose arguments are set; under the lock. */
int cg_cl_enqueue(struct cg_queue *, struct _cl_kernel *, const size_t global[2], const size_t local[2]);
/* Sets argument *at and goes on to the next: a buffer with its offset in elements, a number. */
int cg_cl_set_memory(struct _cl_kernel *, uint32_t *at, struct cg_mem, size_t element);
int cg_cl_set(struct _cl_kernel *, uint32_t *at, size_t bytes, const void *value);

#endif
