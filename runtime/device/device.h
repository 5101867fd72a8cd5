/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declares contexts, streams, compiled kernels, matrix products, row copies, and staging: copies of host arguments to a device that cannot
 * read host memory.
 */
#ifndef CG_DEVICE_H
#define CG_DEVICE_H

#include "runtime/device/backend.h"

/* The backends in the order of backends/list.h, ended by NULL. */
extern const struct cg_backend *const cg_backends[];
/* Checks that `where` names backends, as "cpu" or "NAME:DEVICE,cpu" do, whatever DEVICE is.  If `where` has another form, or
 * names a backend that this build lacks, cg_backend_check() returns CG_BAD_ARGUMENT, with a message that begins with the text `from`. */
int cg_backend_check(const char *from, const char *where);

struct cg_context {
	const struct cg_backend *backend;
	struct cg_dev *device;
	struct cg_kernel_entry *_Atomic kernels; /* kernels built so far, newest first; added under the lock */
	struct cg_generated *generated;          /* generated products and row copies built so far; added under the lock */
	void *lock;
	int holders;                             /* reference count: the caller, open streams and plans; atomic */
	int fork;                                /* the value of cg_fork_count() when the context was opened */
	int verbose;                             /* 1: CELLGRAD_VERBOSE was 1 or calls when the context was opened */
	struct cg_context_attachment *_Atomic attachments;       /* data that source files attach to a context; added under the lock */
};

struct cg_attachment;
struct cg_stream {
	struct cg_context *context;
	struct cg_queue *queue;
	struct cg_mem scratch;                   /* the workspace of calls whose caller gives none, and copies of host arguments; it grows */
	struct cg_attachment *attachments;       /* data that source files attach to a stream */
	int is_taken;                            /* 1: cg_stream_take returned the stream, which was not given back yet */
	uint64_t header[8];                      /* host memory for the header of a reserve space while it is copied from or to the
	                                          * device; a field of the stream, since the copy may still run after
	                                          * a failed sync */
};
/* Appends a short description of the context's code: "kernels avx512; products OpenBLAS". */
void cg_context_add_route(char *line, size_t capacity, const struct cg_context *);
/* Takes a reference to a context, as streams and plans do. */
void cg_context_retain(struct cg_context *);
/* Frees a stream, without dropping a reference to its context. */
void cg_stream_free(struct cg_stream *);

/* Data that a source file attaches to a context until the context closes.  The source file declares a struct whose first field is a struct
 * cg_context_attachment; the struct is one block of cg_memory, zeroed before `open` is called.  `close` is called before the device closes,
 * and then the struct is freed.  The address of the struct's cg_context_attachment_kind identifies a kind of attachment. */
struct cg_context_attachment;
struct cg_context_attachment_kind {
	void (*open)(struct cg_context_attachment *);
	void (*close)(struct cg_context_attachment *);
};
struct cg_context_attachment { struct cg_context_attachment *next; const struct cg_context_attachment_kind *kind; };
/* The context's attachment of that kind; if there is none yet, makes one of `bytes` bytes.  NULL: out of memory.  Safe from any thread. */
struct cg_context_attachment *cg_context_get_attachment(struct cg_context *, const struct cg_context_attachment_kind *, size_t bytes);

/* Data that a source file attaches to a stream from call to call.  The source file declares a struct whose first field is a struct
 * cg_attachment; the struct is one block of cg_memory.  When the stream closes, free_device frees device memory before the queue stops.
 * free_host frees host memory after the queue stopped, since a copy may read it until then.  After free_host the struct itself is freed.
 * The address of the struct's cg_attachment_kind identifies a kind of attachment. */
struct cg_attachment_kind {
	void (*free_device)(struct cg_stream *, struct cg_attachment *);
	void (*free_host)(struct cg_attachment *);
};
struct cg_attachment { struct cg_attachment *next; const struct cg_attachment_kind *kind; };
/* The stream's attachment of that kind; if there is none yet, makes one of `bytes` bytes, zeroed after its first field.  NULL: out of
 * memory. */
struct cg_attachment *cg_stream_get_attachment(struct cg_stream *, const struct cg_attachment_kind *, size_t bytes);
/* Do calls of this stream print lines on standard error?  A few calls of cg_is_verbose() are the whole cost of CELLGRAD_VERBOSE for a call
 * that prints no line. */
static inline int cg_is_verbose(const struct cg_stream *stream)
{
	return stream && stream->context->verbose;
}
/* Gets at least `bytes` bytes of device memory, which the calls of this stream share one after the other; bytes 0 gives absent memory. */
int cg_stream_get_scratch(struct cg_stream *, size_t bytes, struct cg_mem *);

/* Checks with the backend that device memory is valid and as large as its fields say; the message is "call: argument: reason". */
int cg_memory_check(struct cg_context *, const char *call, const char *argument, struct cg_mem);

/* Checks that the context can be used: that it is not NULL and was opened in this process. */
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
/* Gets a kernel of a built-in cell, built at its first use.  options: the text of the options that are on, "peephole". */
int cg_open_kernel(struct cg_context *, const char *cell, const char *options, int pass, int stage, int dtype, const struct cg_kernel_entry **);
/* Gets a kernel of any cell; the context keeps a reference to the cell. */
int cg_open_cell_kernel(struct cg_context *, const struct cg_cell *, int options, int pass, int stage, int dtype,
                        const struct cg_kernel_entry **);

/* A callback that sets the operand of one argument by the argument's fields, such as its role or its name.  of: the data that cg_bind was
 * given. */
typedef int cg_binding(const void *of, const struct cg_argument *, struct cg_operand *);
/* Sets the operands of a function, in the order of its arguments. */
int cg_bind(const struct cg_function *, cg_binding *, const void *of, struct cg_operand operands[]);
/* Binds the arguments of a function of a kernel, and launches the function. */
int cg_launch(struct cg_stream *, const struct cg_kernel_entry *, int function, int64_t rows, int64_t units, cg_binding *, const void *of);

/* ---- products and rows: generated.c ---- */

/* Matrix products and row copies by the backend's own code or, if the backend has none or leaves a product over, by generated kernels. */
int  cg_multiply(struct cg_stream *, const struct cg_gemm *);
int  cg_copy_rows(struct cg_stream *, const struct cg_rows *);
void cg_generated_free(struct cg_context *);

/* ---- staging of host arguments: staging.c ---- */

/* The layout of an argument: a number of blocks, each of a number of rows, with the bytes from one to the next in host memory (pitch) and
 * in the device's copy (copy_pitch).  Bytes between rows are not copied. */
struct cg_staged_rows {
	struct { int64_t n; size_t pitch, copy_pitch; } blocks, rows;
	size_t bytes;                            /* bytes of a row */
};
struct cg_staged {
	struct cg_mem *mem, host;                /* mem: the argument, which is replaced by the copy; host: its original value */
	struct cg_staged_rows lie;
	size_t at, bytes;                        /* offset and size of the copy in the stream's scratch */
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
/* Adds the argument *mem to those that are staged; the pointer `mem` must stay valid until cg_staging_close. */
void cg_staging_add(struct cg_staging *, struct cg_mem *mem, struct cg_staged_rows, int in, int out);
/* Allocates `more` bytes of workspace and the copies of all staged arguments in the stream's scratch, and enqueues the copies of inputs. */
int cg_staging_open(struct cg_staging *, size_t more, struct cg_mem *work);
/* Copies outputs back unless `code` is a failure, and waits for all enqueued work if any argument was staged.  Returns the first failure.
 * */
int cg_staging_close(struct cg_staging *, int code);

#endif
