/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts, streams, the kernels that a context has built, products and rows, and copies of host memory to a device that does not
 * reach it.
 */
#ifndef CG_DEVICE_H
#define CG_DEVICE_H

#include "runtime/device/backend.h"

/* The backends in the order of backends/list.h, ended by NULL. */
extern const struct cg_backend *const cg_backends[];
/* Are they names of backends, "cpu" or "NAME:DEVICE,cpu"?  CG_BAD_ARGUMENT, and `from` before the words, when one is not. */
int cg_backend_check(const char *from, const char *where);

struct cg_context {
	const struct cg_backend *backend;
	struct cg_dev *device;
	struct cg_kernel_entry *_Atomic kernels; /* kernels built so far, newest first; added under the lock */
	struct cg_generated *generated;          /* texts of products and rows built so far; added under the lock */
	void *lock;
	int holders;                             /* the caller, open streams and plans; atomic */
	int fork;                                /* cg_fork_count() at the opening */
	int verbose;                             /* CELLGRAD_VERBOSE at the opening */
	struct cg_context_attachment *_Atomic attachments;       /* what other files keep with the context; added under the lock */
};

struct cg_attachment;
struct cg_stream {
	struct cg_context *context;
	struct cg_queue *queue;
	struct cg_mem scratch;                   /* for calls without a workspace of the caller's; grows */
	struct cg_attachment *attachments;       /* what other files keep with the stream for its calls */
	int is_taken;                            /* by cg_stream_take, and not given back */
	uint64_t header[8];                      /* of a reserve, on its way: here, since a copy outlives a wait that failed */
};
/* Appends what computes there, in a few words: "kernels avx512; products OpenBLAS". */
void cg_context_add_route(char *line, size_t capacity, const struct cg_context *);
/* Takes a reference, as streams and plans do. */
void cg_context_retain(struct cg_context *);
/* Frees a stream that holds its context no longer. */
void cg_stream_free(struct cg_stream *);

/* What a file keeps with a context until that closes: the first field of a struct of its own, which is one block of cg_memory, all zeros
 * when `open` sees it.  `close` comes before the device closes; the struct is freed after it.  A kind is identified by its address. */
struct cg_context_attachment;
struct cg_context_attachment_kind {
	void (*open)(struct cg_context_attachment *);
	void (*close)(struct cg_context_attachment *);
};
struct cg_context_attachment { struct cg_context_attachment *next; const struct cg_context_attachment_kind *kind; };
/* The context's attachment of that kind; if there is none, makes one of so many bytes.  NULL: there is no memory.  Safe from any thread. */
struct cg_context_attachment *cg_context_get_attachment(struct cg_context *, const struct cg_context_attachment_kind *, size_t bytes);

/* What a file keeps with a stream from call to call: the first field of a struct of its own, which is one block of cg_memory.
 * When the stream closes, free_device frees device memory before the queue stops, and free_host frees host memory that a copy
 * may have been reading after it; then the struct itself is freed.  A kind is identified by its address. */
struct cg_attachment_kind {
	void (*free_device)(struct cg_stream *, struct cg_attachment *);
	void (*free_host)(struct cg_attachment *);
};
struct cg_attachment { struct cg_attachment *next; const struct cg_attachment_kind *kind; };
/* The stream's attachment of that kind; if there is none, makes one of so many bytes, all zeros but for its head.  NULL: there
 * is no memory. */
struct cg_attachment *cg_stream_get_attachment(struct cg_stream *, const struct cg_attachment_kind *, size_t bytes);
/* The whole cost of CELLGRAD_VERBOSE for a call that prints no line. */
static inline int cg_is_verbose(const struct cg_stream *stream)
{
	return stream && stream->context->verbose;
}
/* At least so many bytes of device memory that this stream's calls may use in turn; bytes 0 gives absent memory. */
int cg_stream_get_scratch(struct cg_stream *, size_t bytes, struct cg_mem *);

/* CG_OK if device memory is what its fields say, else a failure with the message "call: argument: reason". */
int cg_memory_check(struct cg_context *, const char *call, const char *argument, struct cg_mem);

/* CG_OK, or a failure with the reason why the context cannot be used. */
int cg_context_check(const struct cg_context *, const char *call);

/* ---- kernels: kernel.c ---- */

/* A kernel that a context has built. */
struct cg_kernel_entry {
	struct cg_kernel_entry *next;
	const struct cg_cell *cell;
	int options, pass, stage, dtype;
	struct cg_pass_plan *plan;
	struct cg_module *built;
};
/* A kernel of a built-in cell; options as cg_parse_options reads them. */
int cg_open_kernel(struct cg_context *, const char *cell, const char *options, int pass, int stage, int dtype, const struct cg_kernel_entry **);
/* A kernel of any cell, which the context retains. */
int cg_open_cell_kernel(struct cg_context *, const struct cg_cell *, int options, int pass, int stage, int dtype,
                        const struct cg_kernel_entry **);

/* Sets the operand of an argument by its role, index and order.  of: the data of the caller of cg_bind. */
typedef int cg_binding(const void *of, const struct cg_argument *, struct cg_operand *);
/* The operands of a function, in its order. */
int cg_bind(const struct cg_function *, cg_binding *, const void *of, struct cg_operand operands[]);
/* Binds a function and launches it. */
int cg_launch(struct cg_stream *, const struct cg_kernel_entry *, int function, int64_t rows, int64_t units, cg_binding *, const void *of);

/* ---- products and rows: generated.c ---- */

/* By the backend where it has its own, else by generated text. */
int  cg_multiply(struct cg_stream *, const struct cg_gemm *);
int  cg_copy_rows(struct cg_stream *, const struct cg_rows *);
void cg_generated_free(struct cg_context *);

/* ---- the host's memory on a device: staging.c ---- */

/* Arguments in the host's memory, for a backend that does not work there. */
/* Blocks of rows: how many blocks and rows of each, and the bytes from one to the next, in the host's memory and in the copy.  What lies
 * between rows is not copied. */
struct cg_staged_rows {
	struct { int64_t n; size_t pitch, copy_pitch; } blocks, rows;
	size_t bytes;                            /* of a row */
};
struct cg_staged {
	struct cg_mem *mem, host;                /* what is put in its place, and what it was */
	struct cg_staged_rows lie;
	size_t at, bytes;                        /* the copy's place in the scratch */
	int in, out;
};
enum { CG_STAGED_MAX = 256 };
struct cg_staging {
	struct cg_stream *stream;
	struct cg_staged staged[CG_STAGED_MAX];
	int n;
	size_t bytes;
};
void cg_staging_begin(struct cg_staging *, struct cg_stream *);
/* Adds *mem to the arguments; its address must stay valid until cg_staging_close. */
void cg_staging_add(struct cg_staging *, struct cg_mem *mem, struct cg_staged_rows, int in, int out);
/* Gives each argument its place in the scratch, and `more` bytes of workspace before them, and enqueues the copies of inputs. */
int cg_staging_open(struct cg_staging *, size_t more, struct cg_mem *work);
/* Copies the outputs back unless code is a failure; waits when host memory was used.  Returns the first failure. */
int cg_staging_close(struct cg_staging *, int code);

#endif
