/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of functions that a backend provides: opening a device, allocating memory, building and launching kernels.  The runtime
 * decides what is computed, in which order and with which checks.  A backend is connected to the runtime by two things alone: its row in
 * backends/list.h, and its `const struct cg_backend` at the end of the backend's main file.
 */
#ifndef CG_BACKEND_H
#define CG_BACKEND_H

#include "gen/rows.h"
#include "runtime/device/mem.h"
#include "runtime/device/net.h"

/* Each backend defines the structs cg_dev, cg_queue and cg_module, and struct cg_net if its table has a route `net`. */
struct cg_dev;                           /* an open device */
struct cg_queue;                         /* an in-order queue of work on the device */
struct cg_module;                        /* the functions of one plan, ready to launch */
struct cg_net;                           /* a network that a vendor's library computes */

enum { CG_SLOTS_MAX = 128 };             /* the most arguments of a launch */
enum { CG_PACKED_COLUMNS = 64, CG_PACKED_ALIGN = 64 };
enum { CG_THREADS_MAX = 4096 };          /* the most threads of a caller's thread pool */

/* What a launch passes to one argument of the function; operands are in the order of the function's arguments.  A `mem` of zeros is
 * absent memory. */
struct cg_operand {
	struct cg_mem mem;
	int64_t stride;                  /* elements from row to row */
	int64_t second;                  /* if a result of a sum is written twice, the elements from the first copy to the second; 0: once */
	double  value;                   /* the value of a scalar or a count */
};

struct cg_matrix {                       /* a row-major matrix; one that is all zeros is absent */
	struct cg_mem mem;
	int64_t stride;                  /* elements from row to row; 0 repeats one row */
	int     acc;                     /* 1: elements have the accumulation type, acc; 0: the dtype, real */
};

/* A matrix product: c [m n] = start [m n] + op(a) [m k] op(b) [k n], summed in acc and rounded once.  start may be absent, one repeated
 * row (a bias), a separate matrix, or c itself; a and b are real.  k = 0 gives start, or zeros. */
struct cg_gemm {
	int     dtype;
	int64_t m, n, k;
	/* transpose_a 1: the memory of a has shape [k m]; transpose_b 1: the memory of b has shape [n k] */
	int     transpose_a, transpose_b;
	struct cg_matrix a, b, start, c;
	struct cg_mem packed;                    /* b as function pack wrote it for a product of m rows or more; absent: b is read */
	int     in_order;                        /* 1: sums must have the bits of the backend's scan, which adds terms in the order of k */
};
/* The part of a product that a backend's gemm leaves to the generated kernel: nothing; the whole product; or its start, which the
 * generated kernel writes to c before gemm is called again with c itself as the start. */
enum cg_left { CG_LEFT_NOTHING, CG_LEFT_PRODUCT, CG_LEFT_START };

/* Dropout of rows.  With one key and rate, an element's mask depends on its step t, its batch row b and its unit alone: Philox4x32-10 with
 * the key of cg_drop_key() and the counter { unit / 4, b, t, 0 } gives four words; the element is dropped if word unit % 4 is less than
 * floor(rate 2^32). */
struct cg_drop {
	double   rate;                           /* 0: nothing is dropped; 1: everything */
	uint64_t key;
	struct cg_mem t, b;                      /* int64 [rows]: step and batch row of row p; absent: p / batch and p % batch */
	/* first_t: a number added to t.  batch: the number of rows of a step, used if t or b is absent.  first_unit: the unit of column 0 */
	int64_t  first_t, batch, first_unit;
};

/* Copies rows: dst[to[p], j] = drop(src[from[p], j]) for p < rows and j < columns; with add, the value is added to dst instead.  Each
 * element is computed in acc and rounded once.  A dropped element becomes 0, even if it is not finite; any other is multiplied by
 * 1 / (1 - rate). */
struct cg_rows {
	int     dtype;
	int64_t rows, columns;
	struct cg_matrix src, dst;               /* dst shares no memory with src and the index arrays; a stride of 0 of src repeats one row */
	/* index arrays, int64 [rows], in device memory; one that is absent gives p for row p.  No index occurs twice in `to`. */
	struct cg_mem from, to;
	int     add;
	struct cg_drop drop;
};

/*
 * Whole networks computed by a vendor's library, in place of the runtime's products and kernels.  The library may decline a network when
 * the plan is opened, and gives the reason; a later failure makes the call fail.  Before it calls forward or backward, the runtime checks
 * the arguments, and copies those in host memory to the device: every struct cg_mem of the call is device memory or absent.
 */
struct cg_rnn_call;
struct cg_net_sizes { size_t reserve, forward, backward; };      /* bytes: the reserve space with its header; the workspaces */
enum { CG_WHY_NOT = 128 };
struct cg_net_route {
	const char *name;                /* the route's name in cg_rnn_config and cg_rnn_route */
	const char *const *roundings;    /* by dtype: how the route rounds, in prose; NULL: the route does not support the dtype */
	/* Opens a network.  CG_UNSUPPORTED: the library does not support the network; `why` receives the reason in a few words, the message has
	 * it in full.  Other failures leave `why` empty.  The struct cg_network stays valid until the struct cg_net is closed. */
	int  (*open)(struct cg_dev *, const struct cg_network *, struct cg_net **, char why[CG_WHY_NOT]);
	void (*close)(struct cg_dev *, struct cg_net *);
	uint64_t (*stamp)(const struct cg_net *);                /* a hash of all that the reserve space depends on beside the network */
	/* Do calls of T steps run on route composed although the vendor's library supports the network?  If calls of T steps run on composed,
	 * `why` receives the reason in a few words. */
	int  (*declines)(const struct cg_net *, int64_t T, char why[CG_WHY_NOT]);
	int  (*sizes)(struct cg_net *, int64_t T, int64_t B, const int32_t *lengths, struct cg_net_sizes *);
	/* work: the workspace, of the size from sizes().  The runtime reads and writes the header of the reserve space. */
	int  (*forward)(struct cg_queue *, struct cg_net *, const struct cg_rnn_call *, struct cg_mem work);
	int  (*backward)(struct cg_queue *, struct cg_net *, const struct cg_rnn_call *, struct cg_mem work);
};

/*
 * All steps of a recurrence in one call.  A step consists of phases: each is a product, then a sum of two matrices, then a launch, any of
 * which may be absent.  Column j of a product belongs to unit j % units.  For a unit, the sum and the launch of a phase read only that
 * unit's columns of the product; the product reads all units that earlier phases wrote, and nothing that its own phase writes.  The launch
 * of a function that computes means over units is a phase of its own, and reads all units of a row.
 */
struct cg_phase {
	/* m 0: there is no product.  b is the b of the same stage in cg_scan.products; start and c have type acc or, if n = units, maybe
	 * type real */
	struct cg_gemm product;
	struct cg_matrix sum, addend;            /* [rows units] real: matrix addend is added to matrix sum; absent: no addition */
	int function;                            /* the number of the function that is launched, in its module; -1: there is no launch */
	int64_t step;                            /* the number of the step that the phase belongs to */
	int64_t rows;                            /* rows of the sum and the launch */
	struct cg_operand operands[CG_SLOTS_MAX];
};
struct cg_scan {
	int64_t units, first, phases;            /* this call runs phases first to first + phases - 1, counted over all steps */
	struct cg_mem work;                      /* the workspace, of the size from scan_work */
	int     is_packed;                       /* 1: an earlier call for earlier phases has packed the same b into `work` */
	struct cg_gemm products[CG_STAGES_MAX];  /* by stage: the product with the most rows, and its b */
	int n_products;
	const struct cg_module *module;
	/* Fills in a phase, and *stage with the stage of its product.  Several threads of the backend may call describe() at once. */
	void (*describe)(const void *recurrence, int64_t phase, struct cg_phase *, int *stage);
	const void *recurrence;
};
enum { CG_SCANS_MAX = 4 };                       /* the most recurrences of one call */

/* All steps of a sequence by the step loop of a function: see cg_has_step_loop().  The arrays have an operand for each argument of the
 * function; `second` has those of second memory.  An operand with the rows of all steps begins at the first row of the sequence. */
struct cg_step_loop {
	int function;                            /* the number of the function in its module */
	int64_t rows, units, steps;              /* rows: of the batch */
	struct cg_mem offsets;                   /* int64 [steps + 1]: the first row of each step, then the number of all rows */
	int64_t start, apart;                    /* without offsets: the first row of step 0, and rows from each step's to the next step's */
	const struct cg_operand *operands, *second;
};

struct cg_backend {
	const char *name;                /* the backend's name in CELLGRAD_BACKEND, and the name of its folder */
	const char *unasked;             /* open()'s argument if nothing names a backend, see `likely`; NULL: the default device */
	/* Called before open() if neither the caller nor CELLGRAD_BACKEND names a backend, and by cg_inspect_passed_over().  Returns, without
	 * loading a driver, CG_OK if a device is likely; CG_NO_DEVICE, with the reason in the message, if the backend is to be skipped;
	 * CG_BAD_ARGUMENT for a mistake in the environment.  NULL: open() is tried. */
	int (*likely)(void);
	int seconds;                     /* 1: launch() writes an operand's second copy; 0: the runtime launches the sum again */
	int all_tiles;                   /* 1: a generated product is built for all tile sizes at its first use, 0: for one */
	int host;                        /* 1: the backend works on host memory; 0: the runtime copies host memory to the device and back */

	/* All functions of a backend are required unless their comment allows NULL.  Each function that can fail returns CG_OK or a code
	 * after cg_fail(). */
	/* The i-th device's name, as it stands after "NAME:"; NULL past the last.  about: a description of the device, or why it cannot be
	 * opened. */
	const char *(*list)(int i, char *about, size_t bytes);
	int  (*open)(const char *where, struct cg_dev **);    /* where: the text after "NAME:"; NULL: the default device */
	int  (*adopt)(void *native, void *device, struct cg_dev **);  /* uses the caller's native context; NULL: not supported */
	void (*close)(struct cg_dev *);
	const char *(*describe)(const struct cg_dev *);
	int  (*supports)(const struct cg_dev *, int dtype);   /* CG_OK or CG_UNSUPPORTED */
	/* Uses the caller's thread pool, which has been checked; called while no queue is open.  NULL: the backend uses no threads of the
	 * host. */
	int  (*use_pool)(struct cg_dev *, const struct cg_pool *);
	int  (*start)(struct cg_dev *, void *native, struct cg_queue **);
	int  (*sync)(struct cg_queue *);
	/* Waits for all enqueued work, then frees the queue: after that no host memory is in use any more. */
	void (*stop)(struct cg_queue *);
	/* queue: the only queue whose work will use the memory; NULL: any queue.  Function `free` gets the same queue as `alloc`.  Enqueued
	 * work may still use the memory when free is called. */
	int  (*alloc)(struct cg_dev *, struct cg_queue *, size_t bytes, struct cg_mem *);
	void (*free)(struct cg_dev *, struct cg_queue *, struct cg_mem *);
	/* Checks that memory is this device's and as large as its fields say; a backend on host memory cannot tell, and returns CG_OK. */
	int  (*check)(struct cg_dev *, struct cg_mem);
	/* The copies may be enqueued: the host memory may be in use until the next sync. */
	int  (*copy_in)(struct cg_queue *, struct cg_mem to, const void *from, size_t bytes);
	int  (*copy_out)(struct cg_queue *, void *to, struct cg_mem from, size_t bytes);
	int  (*zero)(struct cg_queue *, struct cg_mem, size_t bytes);
	/* A copy within the device by its driver, with whose speed the command compares kernels.  NULL: the driver has no copy within a
	 * device. */
	int  (*copy)(struct cg_queue *, struct cg_mem to, struct cg_mem from, size_t bytes);
	/* Makes the functions of a plan ready to launch: compiles the text that cg_print() makes in the backend's dialect, or finds compiled
	 * functions.  A plan without a cell is one of a matrix product or of row copies.  The struct cg_pass_plan stays valid until the struct
	 * cg_module is released.  For one struct cg_dev the runtime calls build() from one thread at a time. */
	int  (*build)(struct cg_dev *, const struct cg_pass_plan *, struct cg_module **);
	void (*release)(struct cg_dev *, struct cg_module *);
	/* Enqueues a function, with the operands in the order of its arguments.  The number of threads follows from the shape of the
	 * function: cg_gemm_launch() for a product, cg_rows_launch() for row copies, whose first unit is operand CG_ROWS_FIRST_UNIT. */
	int  (*launch)(struct cg_queue *, const struct cg_module *, int function, int64_t rows, int64_t units,
	               const struct cg_operand *);
	/* Enqueues a step loop; rows, units and steps are not 0.  NULL: the runtime launches each step. */
	int  (*loop_steps)(struct cg_queue *, const struct cg_module *, const struct cg_step_loop *);
	/* Matrix products by a library of the device or by the backend's own code; m and n are not 0.  *left receives an enum cg_left: the part
	 * of the product that gemm leaves to the generated kernel.  NULL: generated kernels compute all products. */
	int  (*gemm)(struct cg_queue *, const struct cg_gemm *, int *left);
	/* The limits of the device, by which the tiles of a generated product are chosen.  NULL is allowed if gemm() never leaves a product to
	 * a generated kernel. */
	struct cg_gemm_limits (*limits)(const struct cg_dev *, int dtype);
	/* For products that are repeated with the same b.  packed: bytes of b in the layout that the product reads fastest; 0: b is not
	 * packed. pack: writes b in that layout to `packed`.  A packed b has at most as many bytes as op(b) in acc with the number of its
	 * columns rounded up to a multiple of CG_PACKED_COLUMNS.  Functions packed and pack NULL: the backend does not pack. */
	size_t (*packed)(const struct cg_dev *, const struct cg_gemm *);
	int  (*pack)(struct cg_queue *, const struct cg_gemm *);
	/*
	 * All steps of a recurrence in one call, in place of a gemm and a launch by the runtime for each step.  In a backend without a
	 * call for all steps, scan_work, scans_at_once and scan are NULL.
	 * Function scan_work returns the bytes of workspace, which depend on the units and the shapes of the products, not on their memory; for
	 * one product at most the bytes of a packed b plus CG_PACKED_ALIGN.  0 means that the backend does not support the recurrence; `why`
	 * then receives the reason in a few words.
	 * Function scans_at_once returns how many recurrences of equal sizes to run together so that all threads are busy, 1 to CG_SCANS_MAX.
	 * With lag 1 each recurrence runs one span of steps behind the recurrence before it.  Called with lag 1, scans_at_once returns 1 if a
	 * product over the rows of a span lacks the bits of a product over all rows.
	 * Function scan runs n recurrences of equal sizes, none of which reads what another one writes; threads call describe() until scan
	 * returns.
	 */
	size_t (*scan_work)(const struct cg_dev *, const struct cg_scan *, char why[CG_WHY_NOT]);
	int  (*scans_at_once)(const struct cg_dev *, const struct cg_scan *, int lag);
	int  (*scan)(struct cg_queue *, const struct cg_scan *, int n);
	/* Row copies by the backend's own code, with the same bits on every backend; rows and columns are not 0.  The copies are enqueued,
	 * like a launch, without waiting.  NULL: a generated kernel is used. */
	int  (*rows)(struct cg_queue *, const struct cg_rows *);
	const struct cg_net_route *net;          /* the route on which a vendor's library computes whole networks; NULL: the backend has none */
};

#endif
