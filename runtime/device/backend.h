/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table that a backend fills: how one API opens a device, holds memory, and builds and launches kernels.  The runtime decides
 * what is computed, in which order and with which checks.  One row of backends/list.h and one `const struct cg_backend`, at the end of
 * the backend's main file, are all that connects the two.
 */
#ifndef CG_BACKEND_H
#define CG_BACKEND_H

#include "gen/rows.h"
#include "runtime/device/mem.h"
#include "runtime/device/net.h"

/* Each backend defines these four. */
struct cg_dev;                           /* an open device */
struct cg_queue;                         /* work on it, in order */
struct cg_module;                        /* the functions of one plan, ready to launch */
struct cg_net;                           /* a network, with a vendor's library */

enum { CG_SLOTS_MAX = 64 };              /* arguments of a launch at most */
enum { CG_PACKED_COLUMNS = 64, CG_PACKED_ALIGN = 64 };
enum { CG_THREADS_MAX = 4096 };          /* of a pool */

/* An argument of a launch, in the place of the function's argument.  Absent memory is all zeros. */
struct cg_operand {
	struct cg_mem mem;
	int64_t stride;                  /* elements from row to row */
	int64_t second;                  /* of what a sum gives: elements from it to a second place for the same; 0: none */
	double  value;                   /* of a scalar or a count */
};

struct cg_matrix {                       /* row-major; all zeros: absent */
	struct cg_mem mem;
	int64_t stride;                  /* elements from row to row; 0 repeats one row */
	int     acc;                     /* elements are acc, else real */
};

/* c [m n] = start [m n] + op(a) [m k] op(b) [k n], summed in acc, rounded once.  start may be absent, one repeated row (a
 * bias), a matrix of its own, or c itself; a and b are real.  k = 0 gives start, or zeros. */
struct cg_gemm {
	int     dtype;
	int64_t m, n, k;
	int     transpose_a, transpose_b;        /* the memory holds a [k m], b [n k] */
	struct cg_matrix a, b, start, c;
	struct cg_mem packed;                    /* b as pack() made it, for products of no more rows; absent: b is read */
	int     in_order;                        /* the bits of the backend's scan: each sum one chain in the order of k */
};
/* What a backend's gemm leaves to generated text: nothing; the whole product; or its start, which the text writes to c before
 * gemm is called again with c itself as the start. */
enum cg_left { CG_LEFT_NOTHING, CG_LEFT_PRODUCT, CG_LEFT_START };

/* Dropout of rows.  An element's mask depends on its step, its batch row and its unit alone: Philox4x32-10 with the key of
 * cg_drop_key(), of { unit / 4, b, t, 0 } the word unit % 4; an element is dropped when that is less than floor(rate 2^32). */
struct cg_drop {
	double   rate;                           /* 0: none; 1: all */
	uint64_t key;
	struct cg_mem t, b;                      /* int64 [rows]: of row p; absent: p / batch and p % batch */
	int64_t  first_t, batch, first_unit;     /* added to t; rows of a step, where t or b is absent; the unit of column 0 */
};

/* dst[to[p], j] = drop(src[from[p], j]) for p < rows and j < columns, or, with add, that is added to what dst holds.  Each element
 * is computed in acc, and rounded once: what is dropped is 0 whatever it was, what is kept is times 1 / (1 - rate). */
struct cg_rows {
	int     dtype;
	int64_t rows, columns;
	struct cg_matrix src, dst;               /* dst shares no memory with the others; a stride of 0 repeats one row of src */
	struct cg_mem from, to;                  /* int64 [rows], of the device's; absent: p.  to has no row twice. */
	int     add;
	struct cg_drop drop;
};

/*
 * Whole networks by a vendor's library, in place of the runtime's products and kernels.  The library may refuse a network when it
 * is opened, with the reason; a failure later is a failure of the call.  Calls have been checked, and all their memory is the
 * device's.
 */
struct cg_rnn_call;
struct cg_net_sizes { size_t reserve, forward, backward; };      /* bytes: of the reserve with its header, of work */
enum { CG_WHY_NOT = 128 };
struct cg_net_route {
	const char *name;                /* the route's: what cg_rnn_config and cg_rnn_route say */
	const char *const *roundings;    /* how it rounds networks of each dtype, in prose; NULL: it takes none */
	/* CG_UNSUPPORTED when the library does not take the network: a few words in `why`, the full reason in the message.  Other
	 * failures leave `why` empty.  The network outlives the net. */
	int  (*open)(struct cg_dev *, const struct cg_network *, struct cg_net **, char why[CG_WHY_NOT]);
	void (*close)(struct cg_dev *, struct cg_net *);
	uint64_t (*stamp)(const struct cg_net *);                /* of everything that its reserves depend on beside the network */
	/* Do calls of T steps run composed although the library takes the network?  Then a few words in `why`. */
	int  (*declines)(const struct cg_net *, int64_t T, char why[CG_WHY_NOT]);
	int  (*sizes)(struct cg_net *, int64_t T, int64_t B, const int32_t *lengths, struct cg_net_sizes *);
	/* work: of the size from sizes().  The header of the reserve is the runtime's. */
	int  (*forward)(struct cg_queue *, struct cg_net *, const struct cg_rnn_call *, struct cg_mem work);
	int  (*backward)(struct cg_queue *, struct cg_net *, const struct cg_rnn_call *, struct cg_mem work);
};

/*
 * The steps of a recurrence in one call.  They are phases, each a product, then a sum of two matrices, then a launch, any of which may be
 * absent.  Column j of a product belongs to unit j % units.  The sum and the launch of a phase read of its product the columns of the
 * unit that they compute; a product reads what earlier phases wrote, of all units, and nothing that its own phase writes.
 */
struct cg_phase {
	struct cg_gemm product;                  /* m 0: absent; b as in `products`; start and c in acc, of n = units columns also real */
	struct cg_matrix sum, addend;            /* [rows units] real: the addend is added to the sum; absent: nothing is */
	int function;                            /* of the module; -1: absent */
	int64_t rows;                            /* of the sum and the launch */
	struct cg_operand operands[CG_SLOTS_MAX];
};
struct cg_scan {
	int64_t units, first, phases;            /* the phases of this call: first, first + 1, ... */
	struct cg_mem work;                      /* of the bytes from scan_work */
	int     is_packed;                       /* `work` is that of a call for the phases before, with the same b */
	struct cg_gemm products[CG_STAGES_MAX];  /* of the most rows, each with its b: stage k's in phases with the product's stage k */
	int n_products;
	const struct cg_module *module;
	/* Fills in a phase, *stage with the stage of its product; the backend's threads call it, too. */
	void (*describe)(const void *recurrence, int64_t phase, struct cg_phase *, int *stage);
	const void *recurrence;
};
enum { CG_SCANS_MAX = 4 };                       /* in one call */

struct cg_backend {
	const char *name;                /* in CELLGRAD_BACKEND; the backend's folder */
	const char *unasked;             /* open()'s argument when CELLGRAD_BACKEND is unset; NULL: the default device */
	/* Asked when CELLGRAD_BACKEND is unset: CG_OK where a device is likely, found without loading a driver; CG_NO_DEVICE and why the
	 * backend is passed over; CG_BAD_ARGUMENT for a mistake in the environment.  NULL: open() is tried. */
	int (*likely)(void);
	int seconds;                     /* launch() fills an operand's second place; else the runtime launches the sum again */
	int all_tiles;                   /* a product's texts are built for all tiles at once, so that no later size waits for a build */
	int host;                        /* 1: works on the host's memory; 0: the runtime copies it to the device and back */

	/* Required, but for those that may be NULL.  Each returns CG_OK or a code after cg_fail(). */
	const char *(*list)(int i, char *about, size_t bytes);   /* the i-th device's name after "NAME:", or why not; NULL past */
	int  (*open)(const char *where, struct cg_dev **);    /* where: what stood after "NAME:", NULL for the default */
	int  (*adopt)(void *native, void *device, struct cg_dev **);  /* a context of the caller's; NULL: there is no such thing */
	void (*close)(struct cg_dev *);
	const char *(*describe)(const struct cg_dev *);
	int  (*supports)(const struct cg_dev *, int dtype);   /* CG_OK or CG_UNSUPPORTED */
	/* Takes the threads of the caller's pool, which is right, before any queue is open.  NULL: it has no threads of its own. */
	int  (*use_pool)(struct cg_dev *, const struct cg_pool *);
	int  (*start)(struct cg_dev *, void *native, struct cg_queue **);
	int  (*sync)(struct cg_queue *);
	/* Waits for all that was enqueued before it frees the queue: then nothing of the host's memory is in use any more. */
	void (*stop)(struct cg_queue *);
	/* queue: the only one whose work will use the memory, NULL: any; free is given the same.  What is enqueued may still use it. */
	int  (*alloc)(struct cg_dev *, struct cg_queue *, size_t bytes, struct cg_mem *);
	void (*free)(struct cg_dev *, struct cg_queue *, struct cg_mem *);
	int  (*check)(struct cg_dev *, struct cg_mem);        /* of device memory: it is the device's and as large as its fields say */
	/* The host's side is in use until the next sync. */
	int  (*copy_in)(struct cg_queue *, struct cg_mem to, const void *from, size_t bytes);
	int  (*copy_out)(struct cg_queue *, void *to, struct cg_mem from, size_t bytes);
	int  (*zero)(struct cg_queue *, struct cg_mem, size_t bytes);
	/* Within the device, by its driver: what the rates of kernels are compared with.  NULL: there is no such thing. */
	int  (*copy)(struct cg_queue *, struct cg_mem to, struct cg_mem from, size_t bytes);
	/* Builds the functions of a plan from the text that cg_print() makes in the backend's dialect; a plan without a cell is a
	 * product's or rows'.  The plan outlives the module.  On one device the runtime builds one plan at a time. */
	int  (*build)(struct cg_dev *, const struct cg_pass_plan *, struct cg_module **);
	void (*release)(struct cg_dev *, struct cg_module *);
	/* Binds the function's arguments in order, each by its kind.  The number of threads follows from the shape of the function: a
	 * product's from cg_gemm_launch(), that of rows from cg_rows_launch(), whose first unit is operand CG_ROWS_FIRST_UNIT. */
	int  (*launch)(struct cg_queue *, const struct cg_module *, int function, int64_t rows, int64_t units,
	               const struct cg_operand *);
	/* Products by a library of the device's, or by code of the backend's own; m and n are not 0.  *left: an enum cg_left.
	 * NULL: generated text makes them all. */
	int  (*gemm)(struct cg_queue *, const struct cg_gemm *, int *left);
	/* The limits of the device, by which the tiles of a generated product are chosen.  NULL: gemm leaves nothing. */
	struct cg_gemm_limits (*limits)(const struct cg_dev *, int dtype);
	/* For products that come many times with the same b: bytes of b as they read it best, 0: as it lies; and b so, to packed.
	 * The bytes are at most those of op(b) in acc, its columns rounded up to a multiple of CG_PACKED_COLUMNS.  NULL, both: there
	 * is no such thing. */
	size_t (*packed)(const struct cg_dev *, const struct cg_gemm *);
	int  (*pack)(struct cg_queue *, const struct cg_gemm *);
	/* All steps of a recurrence in one call, in place of the runtime's calls of gemm and launch for each.  scan_work: bytes of work, which
	 * depend on units and products, not on their memory, and of one product are at most what pack may take and CG_PACKED_ALIGN; 0: the
	 * backend does not take it, and a few words in `why`.  scans_at_once: how many such recurrences, of so many phases, keep all threads
	 * busy together, 1 to CG_SCANS_MAX; lag: each follows the one before it span by span, which takes products over the rows of a span
	 * that have the bits of one over all.  scan: n recurrences of equal sizes, none of which reads what another one writes; describe() must
	 * be answered as long as it runs.  NULL, all: there is no such thing. */
	size_t (*scan_work)(const struct cg_dev *, const struct cg_scan *, char why[CG_WHY_NOT]);
	int  (*scans_at_once)(const struct cg_dev *, const struct cg_scan *, int lag);
	int  (*scan)(struct cg_queue *, const struct cg_scan *, int n);
	/* Rows by code of the backend's own, the same bits on every backend; rows and columns are not 0.  Enqueued, like a launch, without
	 * waiting.  NULL: generated text. */
	int  (*rows)(struct cg_queue *, const struct cg_rows *);
	const struct cg_net_route *net;          /* NULL: there is none */
};

#endif
