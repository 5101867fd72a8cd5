/*
 * What the runtime's own files share: messages, memory, contexts.  Callers see cellgrad.h, backends see backend.h.
 */
#ifndef CG_RUNTIME_H
#define CG_RUNTIME_H

#include <stdarg.h>

#include "gen/cell.h"
#include "runtime/cellgrad.h"

enum { CG_MESSAGE_MAX = 4096 };          /* of a message, with its end */

/* Writes this thread's message and returns the code, so that failing is one expression. */
int cg_fail(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Puts "words: " before the message there is, and returns the code. */
int cg_fail_in(int code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* All memory of the host comes and goes through here: grows p (NULL: new) to bytes, 0 frees it and returns NULL.  NULL for
 * bytes > 0 means there is none, and p is left as it was; the message is set. */
void *cg_memory(void *p, size_t bytes);
/* Tests make the n-th request from now fail (1 the next); 0 never.  Returns the requests made since the last call. */
size_t cg_memory_fail(size_t n);

/* A public struct that begins with its size and grows at its end: its size in the first header that had it, and now. */
struct cg_sized { size_t first, size; void (*init)(void *to, size_t size); };
/* In the first header the struct ended with this field. */
#define CG_SIZED(type, last, init) { offsetof(type, last) + sizeof(((type *)0)->last), sizeof(type), init }
/* Fills a caller's struct of `size` bytes, and no byte more: with the defaults as far as it goes, zeros beyond them, and its size. */
void cg_sized_init(void *to, size_t size, const void *defaults, size_t ours);
/* CG_OK, or why a struct that is as long as ours, or longer, cannot be: "call: size: words". */
int cg_sized_check(const char *call, const char *type, const void *given, size_t ours);
/* The given struct; one of an earlier header copied over the defaults, in room, which has today's size.  What is no such struct, by
 * its size or as NULL, is given back as it is. */
const void *cg_sized_complete(const struct cg_sized *, const void *given, void *room);

#define CG_TRY(call) do { int cg_code_ = (call); if (cg_code_) return cg_code_; } while (0)

/* Children of this process so far, counted in them: an object made under another count is not to be used. */
int cg_fork_count(void);

/* A number for some bytes, after those that `fingerprint` stands for, or CG_FINGERPRINT before the first: FNV-1a.  To compare by. */
#define CG_FINGERPRINT 0xcbf29ce484222325u
uint64_t cg_fingerprint(uint64_t fingerprint, const void *, size_t bytes);

/* ---- lines on standard error: line.c ---- */

enum { CG_LINE = 6 * 1024 };             /* a message, and as much again */
/* Appends to a line; what does not fit is cut. */
void cg_line_add(char *line, size_t room, const char *format, ...) __attribute__((format(printf, 3, 4)));
/* The same of words that may be of several lines and quote what a caller gave: they neither end the line nor move the cursor. */
void cg_line_add_plain(char *line, size_t room, const char *words);
/* Ends the line, for which there must be room, and writes it. */
void cg_line_write(char *line);
/* Of a clock that only goes forward. */
double cg_milliseconds(void);

/* ---- element types: dtype.c ---- */

/* "f16" "bf16" "f32" "f64", "?" for no dtype; back from these and from the spellings of TensorFlow, numpy and safetensors,
 * -1 and a message for any other; bytes of one element, 0 for no dtype. */
const char *cg_dtype_name(int dtype);
int         cg_dtype_find(const char *name);
size_t      cg_dtype_bytes(int dtype);
/* Bytes of one element of acc, in which sums and states are. */
size_t      cg_acc_bytes(int dtype);
/* Rounds to a dtype, to nearest even. */
double      cg_round(int dtype, double);
/* A number in memory at any address; put rounds to nearest even. */
double      cg_element(int dtype, const void *at);
void        cg_element_put(int dtype, void *at, double value);

struct cg_backend;
struct cg_op;

/* The backends in the order of backends/list.h, ended by NULL. */
extern const struct cg_backend *const cg_backends[];
/* Are they names of backends, "cpu" or "NAME:DEVICE,cpu"?  CG_BAD_ARGUMENT, and `from` before the words, when one is not. */
int cg_backend_check(const char *from, const char *where);

struct cg_context {
	const struct cg_backend *backend;
	struct cg_device *device;
	struct cg_ready *ready;                  /* kernels built so far, newest first; under the lock */
	void *lock;
	int holders;                             /* the caller, open streams and plans; atomic */
	int fork;                                /* cg_fork_count() at the opening */
	int verbose;                             /* CELLGRAD_VERBOSE at the opening */
};

struct cg_attachment;
struct cg_stream {
	struct cg_context *context;
	struct cg_queue *queue;
	struct cg_mem scratch;                   /* for calls that were given no work memory; grows */
	struct cg_attachment *attachments;       /* what other files keep for the stream's calls */
	uint64_t header[8];                      /* of a reserve, on its way: here, since a copy outlives a wait that failed */
};
/* Appends what computes there, in a few words: "kernels avx512; products OpenBLAS". */
void cg_context_add_route(char *line, size_t room, const struct cg_context *);
/* One more who will close it. */
void cg_context_hold(struct cg_context *);

/* What a file keeps with a stream from call to call: the first field of a struct of its own, which is one piece of cg_memory.  When
 * the stream closes, free_device gives back what is the device's before the queue stops, and free_host what a copy may have been
 * reading after it; then the struct itself is freed.  `kind` is found by its address. */
struct cg_attachment_kind {
	void (*free_device)(struct cg_stream *, struct cg_attachment *);
	void (*free_host)(struct cg_attachment *);
};
struct cg_attachment { struct cg_attachment *next; const struct cg_attachment_kind *kind; };
/* The stream's attachment of that kind; one of so many bytes is made, all zeros but for its head, where there is none.  NULL: there is
 * no memory. */
struct cg_attachment *cg_stream_attachment(struct cg_stream *, const struct cg_attachment_kind *, size_t bytes);
/* At least so many bytes of device memory that this stream's calls may use in turn; bytes 0 gives absent memory. */
int cg_stream_scratch(struct cg_stream *, size_t bytes, struct cg_mem *);

/* CG_OK, or why device memory is not what it says: "call: argument: words". */
int cg_memory_check(struct cg_context *, const char *call, const char *argument, struct cg_mem);

/* CG_OK, or why a call on this stream or context cannot be. */
int cg_usable(const struct cg_context *, const char *call);

/* A cell lives until its owner has closed it and everyone who holds it has dropped it. */
void cg_cell_hold(const struct cg_cell *);
void cg_cell_drop(const struct cg_cell *);
/* Of a cell's text, which comments and blanks do not change: two cells of one digest are one cell. */
uint64_t cg_cell_digest(const struct cg_cell *);

/* ---- kernels, as the ops ask for them ---- */

enum { CG_SLOTS_MAX = 64 };

/* A kernel of a built-in cell that a context has ready.  slot[p][a]: which of the names that were asked for argument a of
 * piece p takes, so that a call counts no positions and compares no names. */
struct cg_ready {
	struct cg_ready *next;
	const struct cg_cell *cell;
	const char *const *names;
	int options, pass, stage, dtype;
	struct cg_pass_plan *plan;
	struct cg_built *built;
	short slot[CG_PIECES_MAX][CG_SLOTS_MAX];
};
/* names: what the op calls the kernel's arguments, ended by NULL; a table of static life, part of the key. */
int cg_ready(struct cg_context *, const char *cell, const char *options, int pass, int stage, int dtype,
             const char *const *names, const struct cg_ready **);

/* The same for any cell, whose arguments the caller matches himself; the context keeps the cell alive. */
int cg_ready_cell(struct cg_context *, const struct cg_cell *, int options, int pass, int stage, int dtype,
                  const struct cg_ready **);
/* Checks what a caller says of a kernel, his call in the message, and reads its options. */
int cg_kernel_check(const struct cg_kernel *, const char *call, int *options);
/* As cg_kernel_emit: prototypes of the functions of its text in C, for who includes them in C or C++. */
int cg_kernel_header(const struct cg_kernel *, char **text);

struct cg_operand;
/* Launches a piece; operands are in the order of the names. */
int cg_launch(struct cg_stream *, const struct cg_ready *, int piece, int64_t rows, int64_t units,
              const struct cg_operand *);

/* ---- a line for each call: verbose.c ---- */

/* All that a silent call pays. */
static inline int cg_is_verbose(const struct cg_stream *stream)
{
	return stream && stream->context->verbose;
}
/* The line of a call that took ms and returned code.  options: the kernel's, -1 when it was refused. */
void cg_verbose_op(const struct cg_stream *, const struct cg_op *, const void *op, int code, double ms);
void cg_verbose_kernel(const struct cg_stream *, const struct cg_kernel *, int options, int64_t rows, int64_t units, int code,
                       double ms);
/* An op's sizes, dtype and attributes as `cellgrad bench` reads them, "--op NAME --B 1 ... use_peephole=true"; returns text. */
const char *cg_problem(const struct cg_op *, const char *name, const void *op, char *text, size_t room);

/* ---- memory and workspaces: mem.c, workspace.c ---- */

int cg_present(struct cg_mem);
/* Part of a cg_mem from `offset` bytes on; absent stays absent. */
struct cg_mem cg_part(struct cg_mem, size_t offset, size_t bytes);
/* The work memory of a call, handed out piece by piece, each aligned; with no memory it only measures: SIZE_MAX when it is more
 * than a size can say. */
enum { CG_WORK_ALIGN = 64 };             /* bytes that a piece begins at a multiple of */
struct cg_work { struct cg_mem mem; size_t used; };
struct cg_mem cg_work_take(struct cg_work *, int64_t rows, int64_t columns, size_t bytes);
/* Arguments in the host's memory, for a backend that does not work there. */
struct cg_staged {
	struct cg_mem *mem, host;                /* what is put in its place, and what it was */
	int64_t rows;
	size_t row_bytes, pitch, at;             /* the host's bytes from row to row; its place in the scratch */
	int in, out;
};
enum { CG_STAGED_MAX = 256 };
struct cg_stage {
	struct cg_stream *stream;
	struct cg_staged pieces[CG_STAGED_MAX];
	int n;
	size_t bytes;
};
void cg_stage_begin(struct cg_stage *, struct cg_stream *);
/* Counts *mem in; it must stay where it is until the end. */
void cg_stage_add(struct cg_stage *, struct cg_mem *mem, int64_t rows, size_t row_bytes, size_t pitch, int in, int out);
/* Gives all their places, and `more` bytes of work beside them, and copies what goes in. */
int cg_stage_open(struct cg_stage *, size_t more, struct cg_mem *work);
/* Unless code says that the work failed, copies what comes out; waits when the host's memory was used.  Returns the first failure. */
int cg_stage_close(struct cg_stage *, int code);

/* Checks an op by its row of the table, gives it its work memory, the caller's or its own, and computes it.  With no output
 * wanted there is nothing to compute. */
int cg_op_run(struct cg_stream *, const struct cg_op *, const void *op,
              int (*body)(struct cg_stream *, const void *op, struct cg_work *));

#endif
