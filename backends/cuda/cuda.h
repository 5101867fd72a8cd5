/* SPDX-License-Identifier: Apache-2.0 */
/* Declares what the files of the cuda backend share. */
#ifndef CG_CUDA_H
#define CG_CUDA_H

#include "backends/cuda/library.h"
#include "runtime/device/backend.h"

struct cg_dev {
	int id, adopted;                         /* adopted: the context is the caller's */
	struct CUctx_st *context;
	void *lock;                              /* of these, down to the nets */
	struct cg_queue *queues;                 /* open */
	/* The text of several moves in one launch, of each dtype, built at the first call that needs it. */
	struct { struct cg_pass_plan *plan; struct cg_module *built; } moves[CG_DTYPE_COUNT];
	struct cudnnContext *dnn;                /* for queries when a network is opened or its sizes are computed */
	struct CUstream_st *dnn_stream;          /* its own, so that no stream of the caller's waits */
	struct cg_net *nets;                     /* open */
	int lost;                                /* atomic: an enum of context.c */
	char lost_words[512];
	int major, minor;                        /* of its compute capability, 9 and 0 of sm_90 */
	int units, group_most, shared_bytes;     /* multiprocessors; threads and shared memory of a block */
	int grid_x, grid_y;                      /* blocks at most */
	int pools;                               /* has memory in a stream's order */
	char about[1024];
};

struct cg_queue {
	struct cg_dev *device;
	struct cg_queue *next;
	struct CUstream_st *stream;
	int adopted;                             /* the caller's: it may be capturing */
	struct cg_cu_blas *blas;                 /* made at the first product */
	struct cudnnContext *dnn;                /* made at the first network */
	struct cg_dnn_state *left;               /* by networks that are closed; under the device's lock */
};

/*
 * Every slot that calls the driver does so between these two: they make the device's context current and restore the caller's.  A
 * context that was lost is refused, with the reason of its loss.
 */
int cg_cu_enter(struct cg_dev *);
int cg_cu_leave(struct cg_dev *, int code);
/* The same without a message, and of a lost context, too: to free what can be freed. */
int cg_cu_enter_anyway(struct cg_dev *);
#define CU_INSIDE(device, call) do { CG_TRY(cg_cu_enter(device)); return cg_cu_leave(device, call); } while (0)

/* As cg_cu_error, and records that the context was lost. */
int cg_cu_check(struct cg_dev *, unsigned code, const char *call);
#define CU_TRY(device, call, ...) CG_TRY(cg_cu_check(device, cg_cu.call(__VA_ARGS__), "cu" #call))

/* CG_OK, or CG_UNSUPPORTED while the caller captures the stream; what: "a copy". */
int cg_cu_check_uncaptured(struct cg_queue *, const char *what);
/* The same for all queues of a device, of what spoils a capture from any stream or thread: memory that is taken or code that is
 * loaded.  The first under the device's lock, the second without. */
int cg_cu_check_none_captured(struct cg_dev *, const char *what);
int cg_cu_check_all_uncaptured(struct cg_dev *, const char *what);
/* Waits for a queue's work, before what it uses is given back; not while it is captured, since nothing of that runs yet. */
void cg_cu_finish(struct cg_queue *);
/* Memory that a queue's work alone uses, inside; queue NULL: any. */
int cg_cu_alloc(struct cg_dev *, struct cg_queue *, size_t bytes, CUdeviceptr *at);
void cg_cu_free(struct cg_dev *, struct cg_queue *, CUdeviceptr at);

/* A text as a module of the device's: from the cache, or compiled; the compiler's log is in the message when it refuses. */
int cg_cu_module(struct cg_dev *, const char *text, const char *key, int dtype, struct CUmod_st **);
int cg_cu_build(struct cg_dev *, const struct cg_pass_plan *, struct cg_module **);
/* The same inside, where no stream is being captured. */
int cg_cu_build_inside(struct cg_dev *, const struct cg_pass_plan *, struct cg_module **);
void cg_cu_release(struct cg_dev *, struct cg_module *);
int cg_cu_launch(struct cg_queue *, const struct cg_module *, int function, int64_t rows, int64_t units, const struct cg_operand *);
/* The first function of a plan. */
struct CUfunc_st *cg_cu_function(const struct cg_module *);
/* The address of an operand; 0: absent. */
CUdeviceptr cg_cu_address(struct cg_mem);

int cg_cu_gemm(struct cg_queue *, const struct cg_gemm *, int *left);

/* Moves that may go together: none touches what another one writes.  Inside. */
struct cg_cu_moves {
	int dtype;
	struct cg_drop drop;                     /* of those with dropout, but for the key */
	int n;
	struct cg_rows_move list[CG_ROWS_MOVES];
};
/* Adds a move; enqueues the list first when it is full. */
int cg_cu_move(struct cg_queue *, struct cg_cu_moves *, struct cg_rows_move);
/* Enqueues the moves on the list and empties it. */
int cg_cu_flush(struct cg_queue *, struct cg_cu_moves *);
void cg_cu_release_moves(struct cg_dev *);

/* Finds cuBLAS for a queue.  *blas NULL: there is none, or the environment excludes it. */
int cg_cu_open_blas(struct cg_queue *, struct cg_cu_blas **blas);
void cg_cu_release_blas(struct cg_queue *);
/* c [m n] = op(a) op(b), added to c where add; k > 0, sizes within cuBLAS's.  *done 0: it has no such product, and nothing was
 * enqueued. */
int cg_cu_blas_product(struct cg_queue *, const struct cg_gemm *, int add, int *done);
/* The same with another start than c, if it has an algorithm for that. */
int cg_cu_blas_start(struct cg_queue *, const struct cg_gemm *, int *done);

/* Networks by cuDNN. */
extern const struct cg_net_route cg_cu_net;
void cg_cu_release_dnn(struct cg_queue *);
void cg_cu_release_queries(struct cg_dev *);

#endif
