/* SPDX-License-Identifier: Apache-2.0 */
/* Declares what the files of the cuda backend share. */
#ifndef CG_CUDA_H
#define CG_CUDA_H

#include "backends/cuda/library.h"
#include "runtime/device/backend.h"

struct cg_dev {
	int id, adopted;                         /* adopted: the context is the caller's */
	struct CUctx_st *context;
	void *lock;                              /* guards the members down to `nets` */
	struct cg_queue *queues;                 /* the open queues */
	/* For each dtype, the kernel that makes several moves in one launch, built at the first call that needs it. */
	struct { struct cg_pass_plan *plan; struct cg_module *built; } moves[CG_DTYPE_COUNT];
	struct cudnnContext *dnn;                /* for queries, when a network is opened or its sizes are computed */
	struct CUstream_st *dnn_stream;          /* the stream of dnn, so that no stream of the caller waits */
	struct cg_net *nets;                     /* the open networks */
	int lost;                                /* atomic; an enum of context.c */
	char lost_words[512];
	int major, minor;                        /* of the compute capability: 9 and 0 for sm_90 */
	int units, group_most, shared_bytes;     /* multiprocessors; threads and shared memory of a block */
	int grid_x, grid_y;                      /* the most blocks */
	int pools;                               /* has stream-ordered memory */
	char about[1024];
};

struct cg_queue {
	struct cg_dev *device;
	struct cg_queue *next;
	struct CUstream_st *stream;
	int adopted;                             /* the stream is the caller's, who may capture it */
	struct cg_cu_blas *blas;                 /* made at the first product */
	struct cudnnContext *dnn;                /* made at the first network */
	struct cg_dnn_state *left;               /* the states of closed networks; under the device's lock */
};

/*
 * The backend's functions call the driver between these two: the first makes the device's context current, the second restores the
 * caller's.  If the device's context is lost, the first fails, with the reason of the loss.
 */
int cg_cu_enter(struct cg_dev *);
int cg_cu_leave(struct cg_dev *, int code);
/* As cg_cu_enter, but without a message, and also for a lost context, so that what can be freed is freed. */
int cg_cu_enter_anyway(struct cg_dev *);
#define CU_INSIDE(device, call) do { CG_TRY(cg_cu_enter(device)); return cg_cu_leave(device, call); } while (0)

/* As cg_cu_error, and records that the context is lost if the error means that. */
int cg_cu_check(struct cg_dev *, unsigned code, const char *call);
#define CU_TRY(device, call, ...) CG_TRY(cg_cu_check(device, cg_cu.call(__VA_ARGS__), "cu" #call))

/* Returns CG_OK, or CG_UNSUPPORTED while the caller captures the stream.  what: the operation, as "a copy". */
int cg_cu_check_uncaptured(struct cg_queue *, const char *what);
/* The same for all queues of a device, for operations that spoil a capture from any stream or thread: allocating memory, loading
 * code. The first is called under the device's lock, the second without it. */
int cg_cu_check_none_captured(struct cg_dev *, const char *what);
int cg_cu_check_all_uncaptured(struct cg_dev *, const char *what);
/* Waits for a queue's work before the memory that it uses is freed.  It does not wait during a capture, when none of that work runs. */
void cg_cu_finish(struct cg_queue *);
/* Allocates memory for the work of one queue, or with NULL of any.  The device's context must be current. */
int cg_cu_alloc(struct cg_dev *, struct cg_queue *, size_t bytes, CUdeviceptr *at);
void cg_cu_free(struct cg_dev *, struct cg_queue *, CUdeviceptr at);

/* Makes a module of the device from a text: from the cache, or by compiling it.  Where the compiler refuses, the message has its log. */
int cg_cu_module(struct cg_dev *, const char *text, const char *key, int dtype, struct CUmod_st **);
int cg_cu_build(struct cg_dev *, const struct cg_pass_plan *, struct cg_module **);
/* The same where the device's context is current and no stream is being captured. */
int cg_cu_build_inside(struct cg_dev *, const struct cg_pass_plan *, struct cg_module **);
void cg_cu_release(struct cg_dev *, struct cg_module *);
int cg_cu_launch(struct cg_queue *, const struct cg_module *, int function, int64_t rows, int64_t units, const struct cg_operand *);
/* The first function of a plan. */
struct CUfunc_st *cg_cu_function(const struct cg_module *);
/* The address of an operand; 0: absent. */
CUdeviceptr cg_cu_address(struct cg_mem);

int cg_cu_gemm(struct cg_queue *, const struct cg_gemm *, int *left);

/* The moves (copies of rows) that one launch makes.  No move reads or writes memory that another move writes.  The device's context
 * must be current. */
struct cg_cu_moves {
	int dtype;
	struct cg_drop drop;                     /* for the moves with dropout, all but the key */
	int n;
	struct cg_rows_move list[CG_ROWS_MOVES];
};
/* Adds a move.  Enqueues a full list first. */
int cg_cu_move(struct cg_queue *, struct cg_cu_moves *, struct cg_rows_move);
/* Enqueues the moves of the list and empties it. */
int cg_cu_flush(struct cg_queue *, struct cg_cu_moves *);
void cg_cu_release_moves(struct cg_dev *);

/* Opens cuBLAS for a queue.  *blas is NULL where there is none or the environment excludes it. */
int cg_cu_open_blas(struct cg_queue *, struct cg_cu_blas **blas);
void cg_cu_release_blas(struct cg_queue *);
/* c [m n] = op(a) op(b), added to c where add is set; k > 0, sizes within cuBLAS's limits.  *done 0: cuBLAS has no such product, and
 * nothing was enqueued. */
int cg_cu_blas_product(struct cg_queue *, const struct cg_gemm *, int add, int *done);
/* The same with another start than c, where cublasLt has an algorithm for it. */
int cg_cu_blas_start(struct cg_queue *, const struct cg_gemm *, int *done);

/* Networks by cuDNN. */
extern const struct cg_net_route cg_cu_net;
void cg_cu_release_dnn(struct cg_queue *);
void cg_cu_release_queries(struct cg_dev *);

#endif
