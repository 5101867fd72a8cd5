/* SPDX-License-Identifier: Apache-2.0 */
/* Declares what the files of the cuda backend share. */
#ifndef CG_CUDA_H
#define CG_CUDA_H

#include "backends/cuda/library.h"
#include "runtime/device/backend.h"

struct cg_dev {
	int id, adopted;                         /* id: the driver's number of the device; adopted 1: the CUDA context is the caller's */
	struct CUctx_st *context;
	void *lock;                              /* guards the fields from `queues` to `nets` */
	struct cg_queue *queues;                 /* the open queues */
	/* For each dtype, the kernel that makes several moves (copies of rows) in one launch, built at the first call that needs it. */
	struct { struct cg_pass_plan *plan; struct cg_module *built; } moves[CG_DTYPE_COUNT];
	struct cudnnContext *dnn;                /* the cuDNN handle for queries, made when the first network is opened */
	struct CUstream_st *dnn_stream;          /* the stream of handle `dnn`, so that no stream of the caller waits for queries */
	struct cg_net *nets;                     /* the open networks */
	/* has the CUDA context been lost?  Field `lost` is atomic and has a value of an enum in context.c */
	int lost;
	char lost_words[512];
	int major, minor;                        /* the two numbers of the compute capability: 9 and 0 for sm_90 */
	/* units: the number of multiprocessors; group_most, shared_bytes: the most threads and bytes of shared memory of a block */
	int units, group_most, shared_bytes;
	int grid_x, grid_y;                      /* the most blocks of a grid in each direction */
	int pools;                               /* 1: the device has stream-ordered memory */
	char about[1024];
};

struct cg_queue {
	struct cg_dev *device;
	struct cg_queue *next;
	struct CUstream_st *stream;
	int adopted;                             /* 1: the stream is the caller's, who may capture it */
	struct cg_cu_blas *blas;                 /* the queue's cuBLAS handle and its workspace, made at the first product */
	struct cudnnContext *dnn;                /* the queue's cuDNN handle, made at the first call of a network */
	struct cg_dnn_state *left;               /* the structs that closed networks left, to be freed; changes under the device's lock */
};

/*
 * The backend's functions call the driver between cg_cu_enter() and cg_cu_leave(): cg_cu_enter() makes the device's CUDA context current,
 * and cg_cu_leave() restores the caller's.  If the device's context is lost, cg_cu_enter() fails, with the reason of the loss.
 */
int cg_cu_enter(struct cg_dev *);
int cg_cu_leave(struct cg_dev *, int code);
/* Makes the device's CUDA context current as cg_cu_enter() does, but sets no message and does not fail for a lost context, so that what
 * can be freed is freed. */
int cg_cu_enter_anyway(struct cg_dev *);
#define CU_INSIDE(device, call) do { CG_TRY(cg_cu_enter(device)); return cg_cu_leave(device, call); } while (0)

/* Converts an error of the driver as cg_cu_error() does, and records that the device's CUDA context is lost if the error means that. */
int cg_cu_check(struct cg_dev *, unsigned code, const char *call);
#define CU_TRY(device, call, ...) CG_TRY(cg_cu_check(device, cg_cu.call(__VA_ARGS__), "cu" #call))

/* Returns CG_OK, or CG_UNSUPPORTED while the caller captures the stream.  what: the operation, as "a copy". */
int cg_cu_check_uncaptured(struct cg_queue *, const char *what);
/* Return CG_OK, or CG_UNSUPPORTED while the caller captures any stream of the device: for operations that spoil a capture from any stream
 * or thread, allocating memory and loading code.  cg_cu_check_none_captured() is called under the device's lock,
 * cg_cu_check_all_uncaptured() without it. */
int cg_cu_check_none_captured(struct cg_dev *, const char *what);
int cg_cu_check_all_uncaptured(struct cg_dev *, const char *what);
/* Waits for a queue's work, so that the memory that the work uses can be freed.  While the queue's stream is being captured, cg_cu_finish()
 * does not wait, since a wait would spoil the capture. */

void cg_cu_finish(struct cg_queue *);
/* Allocates device memory for the work of one queue, or, if the queue is NULL, of any queue.  The device's context must be current. */
int cg_cu_alloc(struct cg_dev *, struct cg_queue *, size_t bytes, CUdeviceptr *at);
void cg_cu_free(struct cg_dev *, struct cg_queue *, CUdeviceptr at);

/* Makes a module of the device for a kernel text: loads it from the cache, or compiles the text.  If the compiler refuses the text, the
 * message has the compiler's log. */
int cg_cu_module(struct cg_dev *, const char *text, const char *key, int dtype, struct CUmod_st **);
int cg_cu_build(struct cg_dev *, const struct cg_pass_plan *, struct cg_module **);
/* Builds the module of a plan, as cg_cu_build() does.  The device's CUDA context must be current, and no stream may be in a capture. */
int cg_cu_build_inside(struct cg_dev *, const struct cg_pass_plan *, struct cg_module **);
void cg_cu_release(struct cg_dev *, struct cg_module *);
int cg_cu_launch(struct cg_queue *, const struct cg_module *, int function, int64_t rows, int64_t units, const struct cg_operand *);
int cg_cu_loop_steps(struct cg_queue *, const struct cg_module *, const struct cg_step_loop *);
/* The CUDA function of the first function of a module's plan. */
struct CUfunc_st *cg_cu_function(const struct cg_module *);
/* The device address of an operand; 0: the operand is absent. */
CUdeviceptr cg_cu_address(struct cg_mem);

int cg_cu_gemm(struct cg_queue *, const struct cg_gemm *, int *left);

/* The moves (copies of rows) that one launch makes.  No move reads or writes memory that another move writes.  The device's context
 * must be current. */
struct cg_cu_moves {
	int dtype;
	struct cg_drop drop;                     /* the dropout of moves: all fields but key, since each move has a drop_key of its own */
	int n;
	struct cg_rows_move list[CG_ROWS_MOVES];
};
/* Adds a move to the list; if the list is full, cg_cu_move() first enqueues the list's moves and empties the list. */
int cg_cu_move(struct cg_queue *, struct cg_cu_moves *, struct cg_rows_move);
/* Enqueues the moves of the list and empties the list. */
int cg_cu_flush(struct cg_queue *, struct cg_cu_moves *);
void cg_cu_release_moves(struct cg_dev *);

/* Opens cuBLAS for a queue.  *blas is NULL if there is no cuBLAS or the environment excludes it. */
int cg_cu_open_blas(struct cg_queue *, struct cg_cu_blas **blas);
void cg_cu_release_blas(struct cg_queue *);
/* Computes c [m n] = op(a) op(b) by cuBLAS, added to c if `add` is 1; k must be above 0, and the sizes must be within cuBLAS's limits.
 * *done 0: cuBLAS has no such product, and nothing was enqueued. */
int cg_cu_blas_product(struct cg_queue *, const struct cg_gemm *, int add, int *done);
/* Computes a product whose sums start from other values than those in c, if cublasLt can.  *done 0: cublasLt cannot, and nothing was
 * enqueued. */
int cg_cu_blas_start(struct cg_queue *, const struct cg_gemm *, int *done);

/* Networks by cuDNN. */
extern const struct cg_net_route cg_cu_net;
void cg_cu_release_dnn(struct cg_queue *);
void cg_cu_release_queries(struct cg_dev *);

#endif
