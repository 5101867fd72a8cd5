/* SPDX-License-Identifier: Apache-2.0 */
/* Declares what the files of the cpu backend share. */
#ifndef CG_CPU_H
#define CG_CPU_H

#include <pthread.h>

#include "backends/cpu/isa.h"
#include "backends/cpu/openblas.h"
#include "backends/cpu/processors.h"
#include "backends/cpu/team.h"
#include "runtime/device/backend.h"

struct cg_dev {
	const struct cg_isa *isa;
	const struct cg_openblas *blas;
	int threads;                     /* the most threads of a call */
	pthread_mutex_t lock;            /* guards fields `started` and `team` */
	int started;                     /* 1: field `team` has been set; without a caller's pool a team of one thread is NULL */
	struct cg_team *team;            /* the device's team of threads, made when the first queue opens or the caller gives a pool */
	char about[1024];
};

struct cg_queue {
	struct cg_dev *device;
	struct cg_team *team;            /* the team of the device */
	void *scratch;                   /* memory of a call for packed or converted operands, sums and the interpreter's registers; it grows */
	size_t scratch_bytes;
};

struct cg_module {
	const struct cg_pass_plan *plan;
	size_t strip_bytes;
	/* the compiled kernel of each function; NULL: the interpreter computes the function */
	void (*call[CG_FUNCTIONS_MAX])(int64_t rows, int64_t units, const struct cg_bound *);
};

int cg_cpu_launch(struct cg_queue *, const struct cg_module *, int function, int64_t rows, int64_t units, const struct cg_operand *);

/* Returns the k-th argument of a function for a part of a launch: the address of what the part reads or writes first.  bound: the argument
 * for the whole launch; units: the number of units of the whole launch; row, unit: the first ones of the part. */
struct cg_bound cg_cpu_bind_part(const struct cg_pass_plan *, const struct cg_function *, int k, struct cg_bound bound, int64_t units,
                                 int64_t row, int64_t unit);

/* Returns at least `bytes` bytes of scratch memory, aligned to a cache line.  The queue's next call may overwrite them.  If there is no
 * memory, returns NULL and sets the message. */
void *cg_cpu_scratch(struct cg_queue *, size_t bytes);
int   cg_cpu_gemm(struct cg_queue *, const struct cg_gemm *, int *left);
/* Computes a product by panels: a big one, or one of bf16 that needs no widening.  m, n and k are at least 1, and b is not packed. */
int   cg_cpu_blocked_gemm(struct cg_queue *, const struct cg_gemm *);
size_t cg_cpu_packed(const struct cg_dev *, const struct cg_gemm *);
int   cg_cpu_pack(struct cg_queue *, const struct cg_gemm *);
size_t cg_cpu_scan_work(const struct cg_dev *, const struct cg_scan *, char why[CG_WHY_NOT]);
int   cg_cpu_scans_at_once(const struct cg_dev *, const struct cg_scan *, int lag);
int   cg_cpu_scan(struct cg_queue *, const struct cg_scan *, int n);
int   cg_cpu_copy_rows(struct cg_queue *, const struct cg_rows *);

/* The calling thread's floating-point state before cg_float_enter().  On x86 with SSE2 and on aarch64 cg_float_enter() sets the library's
 * state: rounding to nearest, no traps and, for every dtype but f64, subnormals flushed to zero.  On processors that are neither x86 with
 * SSE2 nor aarch64, cg_float_enter() sets nothing. */
struct cg_float_state { unsigned long saved; };
struct cg_float_state cg_float_enter(int dtype);
void cg_float_leave(struct cg_float_state);

/* Has a BLAS been loaded, and does it have products of the type in which the dtype is summed? */
static inline int cg_cpu_has_product(const struct cg_openblas *blas, int dtype)
{
	return dtype == CG_F64 ? blas->dgemm != NULL : blas->sgemm != NULL;
}

#endif
