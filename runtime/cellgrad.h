/*
 * cellgrad: recurrent cells and their gradients, the same answers on every processor.
 *
 * Every call that can fail returns CG_OK or a negative enum cg_status; cg_message() then says why.  On a refused
 * argument no output is touched.  Shapes are row-major, slowest first: T steps, B batch, I input, U units.  B = 0 and T = 0 are
 * legal; I and U are at least 1.  Nothing here exits, or keeps a host pointer after it returns; and nothing prints, unless
 * CELLGRAD_VERBOSE=1 asked cg_open for a line on standard error for each call that computes, and for one about each choice of a backend.
 *
 * Structs that begin with their size may grow at their end in a later version, and a program that was compiled against this header
 * goes on running there: fields that it does not have count as _init leaves them.  Structs without a size never change.
 *
 * Threads: contexts and cells may be shared by threads; a stream serves one thread at a time.
 * Lifetime: children hold their parents, so closing in any order is right; closing NULL does nothing.
 * fork: no object but a cell may be used in a forked child; calls there return CG_UNSUPPORTED.
 */
#ifndef CELLGRAD_H
#define CELLGRAD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define CG_API __attribute__((visibility("default")))
#else
#define CG_API
#endif

#define CG_VERSION_MAJOR 0
#define CG_VERSION_MINOR 2
#define CG_VERSION_PATCH 0

enum cg_status {
	CG_OK           =  0,
	CG_BAD_ARGUMENT = -1,        /* an argument is missing, misshapen, out of range or aliased */
	CG_NO_MEMORY    = -2,        /* on the host or on the device */
	CG_NO_DEVICE    = -3,        /* no such backend or device here; the words say what was tried */
	CG_UNSUPPORTED  = -4,        /* the words name the backend or option that would do it */
	CG_BUILD        = -5,        /* a kernel or a .cell did not compile: the words hold the log */
	/* A vendor call failed: its name, code and words.  The stream may be lost; where a wait failed, memory of the host that the
	 * call was given may be in use until the stream is closed. */
	CG_DRIVER       = -6,
	CG_FILE         = -7         /* a file could not be read or written */
};
enum cg_dtype { CG_F32, CG_F64, CG_F16, CG_BF16 };
enum cg_place { CG_HOST, CG_DEVICE };
/* CG_SEQ_*: the same as a step of a sequence, which hands on what it carries unrounded; passes of kernels alone. */
enum cg_pass  { CG_FORWARD, CG_GRAD, CG_GRADGRAD, CG_SEQ_FORWARD, CG_SEQ_GRAD };
enum cg_gates { CG_ICFO, CG_IFCO };      /* order of the gate blocks in a block cell's w, b and dgates */

/* This thread's last failure, in words: op, argument, what was expected, what came.  Never NULL; valid until this
 * thread's next failing call. */
CG_API const char *cg_message(void);
/* The version of the library that is running, "0.2.0"; CG_VERSION_* are those of the header compiled against. */
CG_API const char *cg_version(void);

/* Where the library's own memory of the host comes from. */
struct cg_allocator {
	/* As realloc: a new piece when p is NULL, p given back when bytes is 0; NULL when there is none.  Aligned as malloc's;
	 * called from any thread. */
	void *(*resize)(void *user, void *p, size_t bytes);
	void *user;
};
/* To be called first, before other threads call: CG_UNSUPPORTED once the library holds memory.  NULL: the C library's again. */
CG_API int  cg_set_allocator(const struct cg_allocator *allocator);

/* ---- where: a device, an order of work, memory ---- */

struct cg_context;                       /* one device of one backend and the kernels built for it */
struct cg_stream;                        /* an order of work on a context */

/*
 * Opens a device.  where: "cpu", "NAME:DEVICE", a comma list in order of preference, or NULL for the environment's
 * CELLGRAD_BACKEND (unset: the first backend that opens).  "cpu:threads=4" is a cpu whose calls run on 4 threads at most, the caller's
 * among them; without it that is CELLGRAD_CPU_THREADS, or one for each processor that the process may run on and, on Linux, that the
 * quota of its control group pays for.  A named backend opens or the call fails with the reasons;
 * it is never replaced by another.  Where nothing is named no driver is loaded without signs of a GPU for it: OpenCL's, on Linux, only
 * where there is the device file of a GPU and a driver that is not for processors alone.
 * CG_BAD_ARGUMENT: no such name, with the nearest, or a variable of the environment, cellgrad(1) lists them, with a value that is not
 * allowed; CG_NO_DEVICE: none opened.  The caller closes the context.  Safe from any thread.
 */
CG_API int  cg_open(const char *where, struct cg_context **context);
/* The same on the caller's own cl_context with one of its cl_device_ids (NULL: it has but one), which is retained until the context
 * closes, or on his CUcontext (device NULL), which must live until then.  CG_BAD_ARGUMENT: no such backend, or the device is not of the
 * context; CG_UNSUPPORTED: the backend has no contexts. */
CG_API int  cg_adopt(const char *backend, void *native, void *device, struct cg_context **context);
CG_API void cg_close(struct cg_context *context);
/* Device, instruction set, libraries and where they were found, in one line; lives as long as the context. */
CG_API const char *cg_describe(const struct cg_context *context);
/* The i-th device as a name for cg_open, with a line about it, or why it cannot be opened, in *about (may be NULL);
 * NULL past the last.  Every driver of the system is loaded.  The words live until this thread's next call of cg_device. */
CG_API const char *cg_device(int i, const char **about);
/*
 * Threads of the caller's, in place of the library's own, for the calls on a cpu.  run calls part(arg, k) once for each k from 0 to
 * parts - 1, on any threads and in any order, at the same time or one after the other, and returns when all have returned; parts is at
 * most `threads`.  It may be called by several threads at once, if these have streams of one context, and must not throw or unwind.
 */
struct cg_pool {
	size_t  size;                            /* set by _init */
	int     threads;                         /* parts of a call at most: 1 to 4096 */
	void  (*run)(void *user, int parts, void (*part)(void *arg, int k), void *arg);
	void   *user;                            /* run's; it must live as long as the context */
};
/* All zeros.  size: sizeof the struct. */
CG_API void cg_pool_init(struct cg_pool *pool, size_t size);
/* Gives a context the caller's threads; the library then starts none for it, and the bits of its answers stay the same.  To be called
 * before the context has a stream or a network, which have it as their parent; *pool is copied.  CG_BAD_ARGUMENT: it has one already, or
 * a field of *pool is not set; CG_UNSUPPORTED: the context's backend does not compute on threads of the host. */
CG_API int  cg_pool_set(struct cg_context *context, const struct cg_pool *pool);
/* CG_OK, or CG_UNSUPPORTED with words.  op: a name of the op table, ours or TensorFlow's; dtype: an enum cg_dtype. */
CG_API int  cg_supports(const struct cg_context *context, const char *op, int dtype);

/* native: an in-order queue of the backend's own API, or NULL to make one: a cl_command_queue, which is retained, a CUstream,
 * which must live as long; the cpu has none.  A CUstream of NULL, which is CUDA's default stream, and PyTorch's, is CU_STREAM_LEGACY,
 * ((void *)1), here: NULL is a stream of the library's own, which does not wait for the default one.
 * While a CUstream is captured, only calls without memory of the host can be; until the capture ends, what takes memory or loads code is
 * refused on every stream of the context, since it would spoil the capture in any mode but the relaxed one: the first use of a kernel,
 * cg_rnn_open on route cudnn, cg_alloc.  CG_UNSUPPORTED says so.  Nothing of the context is to be freed or closed meanwhile, either.
 * Calls on a cpu stream return when they are done; others enqueue and return, and with any memory of the host among the
 * arguments they return when it has been read and written.  The stream holds its context; the caller closes it. */
CG_API int  cg_stream_open(struct cg_context *context, void *native, struct cg_stream **stream);
/* Waits for all that was enqueued and reports what failed since the last wait. */
CG_API int  cg_stream_sync(struct cg_stream *stream);
/* Waits for all that was enqueued, too. */
CG_API void cg_stream_close(struct cg_stream *stream);
/* A stream of the library's own for some calls, for programs whose threads come and go: one that was given back, else a new one.  Safe from
 * any thread.  The context keeps up to 64 idle ones, with their memory, until it closes. */
CG_API int  cg_stream_take(struct cg_context *context, struct cg_stream **stream);
/* Waits as cg_stream_sync does and gives the stream back, or closes it; it is not to be used any more, whatever the answer, but for
 * CG_BAD_ARGUMENT: it is not one of cg_stream_take. */
CG_API int  cg_stream_give(struct cg_stream *stream);

/* Dense memory.  All zeros means "absent" for an input and "not wanted" for an output.  The memory is the caller's.  An argument's
 * bytes are those of its shape, no less and no more: of a larger piece of memory the caller shortens bytes, so that a wrong size is
 * refused and not computed with.  Empty arguments (T or B is 0) may have any; work, a reserve and what cg_kernel_run takes, more. */
struct cg_mem {
	void   *data;                    /* a host pointer, or the device's own: a cl_mem, a CUdeviceptr */
	size_t  offset;                  /* bytes from data to the first element; a multiple of the element's size */
	size_t  bytes;                   /* of the argument, from offset on */
	int     place;                   /* enum cg_place */
};
/* The host's memory from a pointer on, for an argument of so many bytes; NULL: absent.  What an input points to is only read. */
CG_API struct cg_mem cg_host(const void *pointer, size_t bytes);
/* Device memory of a context, uninitialised, aligned for any dtype and vector; on a cpu with Linux, huge pages where these are given to
 * who asks, which large networks run faster in.  bytes 0 gives an empty, absent mem.
 * cg_free releases it and zeroes the struct; absent memory is left alone. */
CG_API int  cg_alloc(struct cg_context *context, size_t bytes, struct cg_mem *mem);
CG_API void cg_free(struct cg_context *context, struct cg_mem *mem);
/* Copies bytes from host memory into mem, or out of it.  Return when the host memory may be reused. */
CG_API int  cg_put(struct cg_stream *stream, struct cg_mem to, const void *from, size_t bytes);
CG_API int  cg_get(struct cg_stream *stream, void *to, struct cg_mem from, size_t bytes);

/* ---- TensorFlow's block ops.  One struct serves forward and gradient: the gradient reads what forward wrote.
 * An absent output is not computed; an absent upstream gradient is zero; an input that no wanted output reads may be
 * absent.  Outputs never overlap anything.  CG_BAD_ARGUMENT: a shape, size, overlap or range; CG_NO_MEMORY: no room
 * for the workspace when `work` is absent.  ---- */

/*
 * LSTMBlockCell and LSTMBlockCellGrad, and, with T other than 1, BlockLSTM and BlockLSTMGrad: with [i c f o] = x W_x + h_prev W_h + b in
 * the order of `gates`,
 *     i = sigmoid(i + wci cs_prev)   f = sigmoid(f + forget_bias + wcf cs_prev)   ci = tanh(c)
 *     cs = clip(i ci + f cs_prev)    o = sigmoid(o + wco cs)    co = tanh(cs)     h = o co
 * (Hochreiter and Schmidhuber 1997; forget gate: Gers, Schmidhuber and Cummins 2000; peepholes: Gers and Schmidhuber
 * 2000).  The gradient is the derivative, the clip passing it straight through; TensorFlow's CUDA kernel adds the
 * peephole terms of cs_prev_grad twice, this does not.  Scalars are rounded to dtype before use.
 *
 * A sequence is that for t = 0 .. seq_len_max - 1, each step from the cs and h of the one before, the first from cs_prev and h_prev;
 * cs, h and the gradients that pass from step to step are rounded to dtype at each.  BlockLSTMV2 is gates CG_IFCO, forget_bias 0
 * and cell_clip 0.  From seq_len_max on nothing is read, and every output is zero: TensorFlow leaves i, f, o, ci and co there as
 * the memory was, and ends the process where seq_len_max is less than 0 or more than T.  With seq_len_max 0 all gradients are zero.
 */
struct cg_lstm_block {
	size_t  size;                            /* set by _init */
	int64_t T, B, I, U, seq_len_max;         /* seq_len_max: 0..T, or -1 for T */
	int     dtype, gates, use_peephole;      /* enum cg_dtype, enum cg_gates, 0 or 1 */
	int     accumulate;                      /* add to the weight gradients instead of overwriting them */
	double  forget_bias, cell_clip;          /* clip <= 0: off */
	struct cg_mem work;                      /* cg_lstm_block_work() bytes; absent: the stream's, which keeps what was needed */
	struct cg_mem x, cs_prev, h_prev;        /* [T B I] [B U] [B U] */
	struct cg_mem w, wci, wcf, wco, b;       /* [I+U 4U] [U] [U] [U] [4U]; wc* only with use_peephole */
	struct cg_mem i, cs, f, o, ci, co, h;    /* [T B U]; cs clipped, before tanh; gates after activation; grad reads h if T > 1 */
	struct cg_mem cs_grad, h_grad;           /* [T B U], upstream */
	struct cg_mem x_grad, cs_prev_grad, h_prev_grad, dgates;        /* [T B I] [B U] [B U] [T B 4U] */
	struct cg_mem w_grad, wci_grad, wcf_grad, wco_grad, b_grad;     /* as w, wci, wcf, wco, b */
};
/* All absent; f32, CG_ICFO, T 1, seq_len_max -1, forget_bias 1, cell_clip 3.  size: sizeof the struct. */
CG_API void cg_lstm_block_init(struct cg_lstm_block *op, size_t size);
/* Bytes of workspace that a pass over these sizes needs, whichever outputs are wanted. */
CG_API int  cg_lstm_block_work(const struct cg_lstm_block *op, enum cg_pass pass, size_t *bytes);
CG_API int  cg_lstm_block_forward(struct cg_stream *stream, const struct cg_lstm_block *op);
CG_API int  cg_lstm_block_grad(struct cg_stream *stream, const struct cg_lstm_block *op);

/*
 * GRUBlockCell and GRUBlockCellGrad: with [r u] = sigmoid(x W_x + h_prev W_h + b_ru),
 *     c = tanh(x W_cx + (h_prev r) W_ch + b_c)    h = u (h_prev - c) + c
 * (Cho et al. 2014, reset before the product; not cuDNN's gru).  TensorFlow has f32 only; this has every dtype.
 */
struct cg_gru_block {
	size_t  size;
	int64_t B, I, U;
	int     dtype, accumulate;
	struct cg_mem work;                      /* cg_gru_block_work() bytes, or absent, as above */
	struct cg_mem x, h_prev;                 /* [B I] [B U] */
	struct cg_mem w_ru, w_c, b_ru, b_c;      /* [I+U 2U] [I+U U] [2U] [U]; r before u */
	struct cg_mem r, u, c, h;                /* [B U] */
	struct cg_mem d_h;                       /* [B U], upstream */
	struct cg_mem d_x, d_h_prev, d_c_bar, d_r_bar_u_bar;            /* [B I] [B U] [B U] [B 2U] */
	struct cg_mem d_w_ru, d_w_c, d_b_ru, d_b_c;                     /* as w_ru, w_c, b_ru, b_c */
};
CG_API void cg_gru_block_init(struct cg_gru_block *op, size_t size);
CG_API int  cg_gru_block_work(const struct cg_gru_block *op, enum cg_pass pass, size_t *bytes);
CG_API int  cg_gru_block_forward(struct cg_stream *stream, const struct cg_gru_block *op);
CG_API int  cg_gru_block_grad(struct cg_stream *stream, const struct cg_gru_block *op);

/* ---- cells: equations as text, immutable, of no device ---- */

struct cg_cell;
/* A built-in cell: lstm gru rnn_tanh rnn_relu lstm_block gru_block, or NULL.  It is the library's: not to be closed. */
CG_API const struct cg_cell *cg_cell_find(const char *name);
/* The i-th built-in cell's name; NULL past the last. */
CG_API const char *cg_cell_name(int i);
/* Reads the text of a .cell.  CG_BUILD: it is wrong; the message is NAME:line:column: what was expected, the line and a
 * caret.  The caller closes the cell; kernels and plans made from it keep what they need. */
CG_API int  cg_cell_parse(const char *text, const char *name_in_errors, struct cg_cell **cell);
/* The same of a file, whose path is the name in errors.  CG_FILE: it cannot be read, or has more than 2^20 bytes. */
CG_API int  cg_cell_load(const char *path, struct cg_cell **cell);
CG_API void cg_cell_close(struct cg_cell *cell);

/* What a cell is, for programs that make networks of any.  Names are the cell's and live as long. */
enum { CG_CELL_NAMES = 32 };                     /* names of one kind at most */
struct cg_cell_parts {
	size_t      size;                        /* set by _init */
	const char *name;
	int         n_stages, has_state;         /* has_state: networks of it have input_c and output_c */
	int         n_gates, n_vectors, n_options, n_params;
	const char *gates[CG_CELL_NAMES];        /* those with matrices and biases, in the order of params: "a_i" */
	const char *vectors[CG_CELL_NAMES];      /* per-unit weights, "p_i" */
	int         vector_option[CG_CELL_NAMES];        /* the option that each belongs to */
	const char *options[CG_CELL_NAMES];      /* "peephole" */
	const char *params[CG_CELL_NAMES];       /* "forget_bias" */
	double      defaults[CG_CELL_NAMES];     /* of params; NaN: it must be given */
};
/* All zeros.  size: sizeof the struct. */
CG_API void cg_cell_parts_init(struct cg_cell_parts *parts, size_t size);
/* Fills *parts in.  CG_BAD_ARGUMENT: cell or parts is NULL, or parts was not initialised.  Safe from any thread. */
CG_API int  cg_cell_info(const struct cg_cell *cell, struct cg_cell_parts *parts);

/* CG_POINT: one element of [rows units]; CG_SUM: sums over the rows, for the gradients of biases and per-unit weights; CG_SCAN: all steps
 * of a sequence of one direction of one layer, the products with the recurrent matrix among them, as the cpu backend computes them. */
enum cg_shape { CG_POINT, CG_SUM, CG_SCAN };
/* A kernel of a cell.  options: names with commas ("peephole"), NULL or "" for none.  stage: 1 up to the cell's stages,
 * 0 for all of them in the order a caller runs them.  CG_POINT stands for the sums after it, too, where text is asked for.
 * CG_SCAN is text alone: of CG_SEQ_FORWARD and CG_SEQ_GRAD, all stages, in "c". */
struct cg_kernel { const struct cg_cell *cell; const char *options; int stage, pass, dtype, shape; };

/* The source of every function the pass needs, in call order, with its arguments above each; lang: "c" "opencl" "cuda".
 * The text compiles alone; that in C is C++ too, where its functions have C's names.  The manifest is JSON: what a program needs
 * to call the functions; its "command" names the cell, of a file ./NAME.cell, not where it lies.  Free with cg_text_free.
 * CG_UNSUPPORTED: the text of CG_SUM alone, CG_SCAN of another pass; CG_BAD_ARGUMENT: CG_SCAN of one stage or in another language;
 * CG_BUILD: names of the cell that mean something else in such a text.  Threads may call these at the same time. */
CG_API int  cg_kernel_emit(const struct cg_kernel *kernel, const char *lang, char **text);
CG_API int  cg_kernel_manifest(const struct cg_kernel *kernel, const char *lang, char **json);
CG_API void cg_text_free(char *text);

/* An argument of a kernel, by the name its text has for it: "a_i" "c_prev" "dh" "p_o" "cell_clip". */
struct cg_arg {
	const char   *name;
	struct cg_mem mem;                   /* rows of U elements, one row for a per-unit argument; absent reads as zeros */
	int64_t       stride;                /* elements from row to row */
	double        value;                 /* of a param, rounded to dtype before use, and of "accumulate" */
};
/*
 * Runs the kernel over [rows units]: CG_POINT the functions over elements, CG_SUM the sums over rows after them; the manifest
 * names the arguments and says which are real and which acc.  Every input is named once, a param with a default may be left out;
 * outputs may be left out, and one alone is computed.  Built-in kernels of CG_FORWARD and CG_GRAD are compiled, and of CG_SEQ_*
 * where the cell saves its output; others are interpreted on the cpu, with the same bits.  The bits are the same on every backend,
 * processor and instruction set and for any number of threads, but those of a NaN: where one has a NaN all have, of any sign and
 * payload.  rows = 0 is legal.
 * CG_BAD_ARGUMENT: a name, a size, an overlap; CG_NO_MEMORY.
 */
CG_API int  cg_kernel_run(struct cg_stream *stream, const struct cg_kernel *kernel, int64_t rows, int64_t units,
                          const struct cg_arg *args, int n);

/* ---- whole sequences: networks of layers, TensorFlow's CudnnRNN, V2 and V3 and their Backprops, of any cell.  A plan fixes
 * everything but T, B and lengths, and chooses its route once, so forward and backward agree about the reserve.
 * L layers, D = 1 or, bidirectional, 2 directions, P the projection's width, H = P if P else U: the width of h. ---- */

struct cg_rnn;
enum cg_input { CG_LINEAR, CG_SKIP, CG_AUTO };   /* CG_AUTO: CG_SKIP when I = U */
struct cg_value { const char *name; double value; };

/*
 * A network.  Layer l > 0 takes the outputs of both directions of layer l - 1, with dropout; direction 1 begins at each row's
 * last valid step, and so does the one direction with reverse.  With CG_SKIP (needs I = U) layer 0 has no input matrices: its input is
 * added to every gate.  A projection (Sak, Senior and Beaufays 2014) makes h = P m of what the cell gives; it needs a cell with a state
 * whose equations do not read h_prev, of one stage.
 */
struct cg_rnn_config {
	size_t  size;                            /* set by _init */
	const struct cg_cell *cell;              /* one state at most beside the output; a split gate q_n has its gate a_n */
	const char *options;                     /* of the cell, "peephole"; NULL or "": none */
	const struct cg_value *values;           /* of its params; one without a default must be given */
	int     n_values;
	int     dtype, layers, bidirectional, input_mode, time_major;
	int64_t input, units, proj;              /* I, U, P; P 0: none */
	double  dropout;                         /* between layers, 0 to 1, in training only */
	uint64_t seed;                           /* (seed << 32) | (uint32_t)seed2 of TensorFlow's; see counter */
	int     training;                        /* 0: no reserve, no dropout, no backward */
	int     allow_tf32, allow_vendor_dropout;        /* 0: what is said below of f32 and of masks holds on every route */
	const char *route;                       /* NULL: the best; "composed", "scan", "cudnn": that or CG_UNSUPPORTED */
	int     strict_rounding;                 /* 1: f16 and bf16 never by cuDNN, which rounds sums and c to them */
	int     reverse;                         /* 1: one direction, each layer from each row's last valid step to its first */
	int     states_major;                    /* 1: states are [L*D B .] whatever time_major says, as PyTorch has them */
};
/*
 * Routes.  "composed": products and kernels of the backend, step by step; every network, everywhere.  "scan": on the cpu, every network
 * without a projection: a thread keeps its units for all steps of a direction, with the roundings of composed.  Its bits depend on the
 * network and the instruction set: given its input products, a row has the same ones alone, in a ragged batch and, in f32 and f64, cut in
 * pieces.  "cudnn": NVIDIA's cuDNN, 8.1 to 9, where the cuda backend finds it, for lstm, gru, rnn_tanh and rnn_relu without options or reverse, a
 * projection narrower than the units, and bf16 from 9.13 on; with strict_rounding not for f16 and bf16.  With dropout between layers each
 * layer is a call of cuDNN and the masks are ours; with allow_vendor_dropout all layers are one call and the masks cuDNN's: they go on from
 * call to call, in a forward, whatever counter and first_step say.  cuDNN takes 65,535 steps: longer calls of one direction are run in
 * parts, with a reserve for each, and those of both go composed, or are refused where cudnn was asked for by name.  A library that fails
 * fails the call: no other route is taken instead.
 *
 * Routes give answers of other bits, and round as follows.  Gates are what activations give, dgates the gradients by what goes into
 * them, dh and dc those that a step hands to the one before; what is good to a number is off by at most so much of its size.
 *   composed  f32   everything in f32
 *   composed  f64   everything in f64
 *   composed  f16   sums, c, dh and dc in f32; h, gates and dgates in 16 bits
 *   composed  bf16  sums, c, dh and dc in f32; h, gates and dgates in 16 bits
 *   scan      f32   everything in f32
 *   scan      f64   everything in f64
 *   scan      f16   sums, c, dh and dc in f32; h, gates and dgates in 16 bits
 *   scan      bf16  sums, c, dh and dc in f32; h, gates and dgates in 16 bits
 *   cudnn     f32   everything in f32, sigmoid(x) good to (4 + 2 abs(x)) 2^-24; under allow_tf32 products in TF32, tanh good to 2^-11
 *   cudnn     f64   everything in f64
 *   cudnn     f16   x W, R h, c, h, gates, dgates, dh and dc in 16 bits, tanh good to 2^-11; under strict_rounding composed
 *   cudnn     bf16  x W, R h, c, h, gates, dgates, dh and dc in 16 bits; under strict_rounding composed
 */
/* lstm, f32, 1 layer, CG_LINEAR, time_major, training; the rest 0.  size: sizeof the struct. */
CG_API void cg_rnn_config_init(struct cg_rnn_config *config, size_t size);

/* Checks a network and readies its kernels on a device.  CG_BAD_ARGUMENT, CG_UNSUPPORTED: the words name the field;
 * CG_BUILD, CG_NO_MEMORY.  The plan holds the context and what it needs of the cell; the caller closes it.  Threads may share it. */
CG_API int  cg_rnn_open(struct cg_context *context, const struct cg_rnn_config *config, struct cg_rnn **rnn);
CG_API void cg_rnn_close(struct cg_rnn *rnn);
/* The same plan again for a config of the same content, of those that were got and are open or were among the last 32 to be closed; else
 * opens one.  It is closed as any.  Safe from any thread. */
CG_API int  cg_rnn_get(struct cg_context *context, const struct cg_rnn_config *config, struct cg_rnn **rnn);
/* Holds a plan once more: it closes when cg_rnn_close was called as often as it was opened, got and held.  Safe from any thread. */
CG_API void cg_rnn_hold(struct cg_rnn *rnn);
/* The route taken and why, "scan", "cudnn" or "composed (peephole: not cudnn)"; lives as long as the plan. */
CG_API const char *cg_rnn_route(const struct cg_rnn *rnn);
/* The same of calls of T steps: "composed (more than 65535 steps in both directions: not cudnn)" where the plan's route is cudnn and was
 * not asked for by name.  Ask it with the sizes. */
CG_API const char *cg_rnn_route_at(const struct cg_rnn *rnn, int64_t T);

struct cg_rnn_sizes { size_t params, reserve, work; };           /* bytes */
/* What a call needs of these sizes and lengths ([B], NULL: all T).  params is the same on every backend: per pseudo-layer
 * l D + d the input matrices [U, in] of the gates in the cell's order, the recurrent ones [U, H], the projection [P, U]; after all
 * of these, per pseudo-layer the biases bW of the gates, then bR; after these, per pseudo-layer the per-unit vectors of the
 * options that are on.  reserve: for each valid step and pseudo-layer, [U] of what the cell saves, of its output and of its state,
 * the state in acc, in blocks of a multiple of 64 bytes, after a header of 64; on route cudnn outputs and what cuDNN keeps, after
 * the same header.  work serves calls of fewer steps or rows, too, where both have lengths or neither.  CG_BAD_ARGUMENT: sizes
 * that do not fit in memory. */
CG_API int  cg_rnn_sizes(const struct cg_rnn *rnn, int64_t T, int64_t B, const int32_t *lengths, struct cg_rnn_sizes *sizes);
struct cg_rnn_call;
/* The same of a call that may have strides or be a packed sequence, which can need more work: of its sizes, lengths, strides and
 * batch_sizes; its memory may be absent still. */
CG_API int  cg_rnn_call_sizes(const struct cg_rnn *rnn, const struct cg_rnn_call *call, struct cg_rnn_sizes *sizes);

/*
 * So many bytes hold the reserve of any call of the plan: *fixed + *step T B, for memory whose size is decided before T, B and lengths are
 * known.  Where all rows have T steps, T B is 64 or more and an element of the state at least 4 bytes long, that is at most 1.25 times what
 * cg_rnn_sizes says.  CG_UNSUPPORTED: on route cudnn only cuDNN knows.
 */
CG_API int  cg_rnn_reserve_bound(const struct cg_rnn *rnn, size_t *fixed, size_t *step);

/* A part of params, in elements; rows 0: not present, an input matrix under CG_SKIP or the projection where there is none. */
struct cg_rnn_region { int64_t offset, rows, columns; };
/* Where one lies.  id, of G gates: 0 to G - 1 the input matrix of a gate, or its bias bW where bias is 1; G to 2 G - 1 the
 * recurrent one, or bR; 2 G the projection; 2 G + 1 and on the per-unit vectors.  CG_BAD_ARGUMENT: no such pseudo-layer or id. */
CG_API int  cg_rnn_region(const struct cg_rnn *rnn, int pseudo_layer, int id, int bias, struct cg_rnn_region *region);
/* The same without a device: the bytes of params of a network, and where a part of it lies, by the name that the cell has for the gate,
 * "a_i", or the per-unit weight, "p_i"; of a projection name is not read.  CG_BAD_ARGUMENT: the config, or no such part, with the nearest
 * name; a weight of an option that is off.  Both are safe from any thread. */
enum cg_rnn_part { CG_RNN_INPUT, CG_RNN_RECURRENT, CG_RNN_PROJECTION, CG_RNN_BIAS_W, CG_RNN_BIAS_R, CG_RNN_VECTOR };
CG_API int  cg_rnn_params(const struct cg_rnn_config *config, size_t *bytes);
CG_API int  cg_rnn_config_region(const struct cg_rnn_config *config, int pseudo_layer, enum cg_rnn_part part, const char *name,
                                 struct cg_rnn_region *region);

/*
 * Fills params, which are the host's, in with numbers to begin training with, the same on every machine for the same network, words and
 * seed.  words: a rule for the input matrices, one for the recurrent matrices and the projection, and one for biases and per-unit weights,
 * with blanks; "unit_forget" behind them gives the gate a_f a bias of 1.  All gates of a layer are one matrix [G U, columns] to a rule:
 *     zeros  ones
 *     uniform           between -1 / sqrt(U) and 1 / sqrt(U): PyTorch's networks have "uniform uniform uniform"
 *     xavier_uniform    between -a and a, a = sqrt(6 / (G U + columns)) (Glorot and Bengio 2010); of matrices alone
 *     kaiming_uniform   a = sqrt(6 / columns) (He, Zhang, Ren and Sun 2015); of matrices alone
 *     orthogonal        orthogonal columns, or rows where these are fewer, of length 1 (Saxe, McClelland and Ganguli 2014); of matrices
 *                       alone; takes time that grows with the cube of their number
 * Keras's networks have "xavier_uniform orthogonal zeros unit_forget".  CG_BAD_ARGUMENT: the words, with the nearest rule, or another
 * length of params; CG_UNSUPPORTED: they are on a device; CG_NO_MEMORY.
 */
CG_API int  cg_rnn_init_params(const struct cg_rnn *rnn, const char *words, uint64_t seed, struct cg_mem params);

/*
 * A call's sizes and memory.  Shapes are those of time_major.  Without it sequences are [B T .], and states [B L*D .] unless states_major
 * is set.  Row b has lengths[b] valid steps; beyond them outputs are zero and nothing is read.  Of a row of length 0 the last state is the
 * initial one, and so are their gradients.
 * T = 0 and B = 0 are legal.  States that are absent are zero, gradients that are absent too; outputs that are absent are not
 * computed.  input_c, output_c and their gradients are those of the cell's state: a cell without one has none.
 *
 * Dropout drops an element of layer l's output [T B D*H] by a counter-based generator: the mask depends on seed, counter, l and the
 * element's t (from first_step on), b and unit alone.  With key = seed and Philox4x32-10 (Salmon et al. 2011), k2 is the low 64
 * bits of Philox(key, { low and high 32 bits of counter, l, 0 }), word is Philox(k2, { unit / 4, b, t, 0 })[unit % 4]; an
 * element is dropped when word < floor(p 2^32), or p is 1, else times 1 / (1 - p).
 */
struct cg_rnn_call {
	size_t  size;                            /* set by _init */
	int64_t T, B;
	const int32_t *lengths;                  /* of the host, [B], each 0 to T, in any order; NULL: all T */
	uint64_t counter;                        /* the call's number, for dropout, all 64 bits: the same in forward and backward */
	int64_t first_step;                      /* of this piece in a longer sequence; unidirectional only */
	int     accumulate;                      /* add to params_backprop instead of overwriting it */
	int     spend_reserve;                   /* backward may destroy the reserve, and on route cudnn does: that spares a copy */
	struct cg_mem work, reserve, params;     /* cg_rnn_sizes() bytes, of the first two at least; work absent: the stream's */
	struct cg_mem input, input_h, input_c;   /* [T B I] [L*D B H] [L*D B U] */
	struct cg_mem output, output_h, output_c;                                /* [T B D*H] [L*D B H] [L*D B U] */
	struct cg_mem output_backprop, output_h_backprop, output_c_backprop;     /* as output, output_h, output_c */
	struct cg_mem input_backprop, input_h_backprop, input_c_backprop;        /* as input, input_h, input_c */
	struct cg_mem params_backprop;           /* as params */
	int     no_dropout;                      /* 1: drops nothing, as in evaluation, and keeps a reserve; the same in forward and backward */
	/* Elements from a row to that of the next step (t) and to that of the next batch row (b), in input and input_backprop, and in output
	 * and output_backprop; 0: as in dense memory.  A row itself, I or D*H elements, is dense.  An argument's bytes reach from the begin of
	 * its first row to the end of its last one; what lies between rows is neither read nor written.  In memory that is written all rows of
	 * the smaller stride lie within the larger one. */
	int64_t input_t_stride, input_b_stride, output_t_stride, output_b_stride;
	/* A packed sequence, as PyTorch has it, in place of lengths: of the host, [T], the first at most B, each of the others at most the one
	 * before.  The first batch_sizes[t] of the batch rows have a step t.  input, output and their gradients are [N I] and [N D*H], N the
	 * sum of batch_sizes: the rows of step 0, then those of step 1, and so on.  States have B rows.  NULL: none. */
	const int32_t *batch_sizes;
};
/* All absent, all 0.  size: sizeof the struct. */
CG_API void cg_rnn_call_init(struct cg_rnn_call *call, size_t size);
/* forward reads input, input_h, input_c and params and writes output, output_h, output_c and, in training, reserve.  backward
 * reads these inputs, the reserve of that forward and the output_*_backprops; it leaves the reserve as it was, unless it may spend
 * it.  A reserve in the host's memory that another forward or route made is refused; one on a device by its size, and altogether
 * under CELLGRAD_CHECK=1, which waits for it.  The reserve is aligned for acc: to 4 bytes, in f64 to 8; on route cudnn any other
 * multiple than one of 256 costs a copy.  The lengths are read before the call returns.
 * Where rows differ in length or the call is not time_major a device has an index of them, the stream's: sizes or lengths that
 * are not those of its last such call make it send another, and wait first for all that may use the host's side of the last; on
 * route cudnn a stream has one for each plan's last four sizes and lengths, of which each part of a long sequence counts as one.
 * A call that sends none can be captured while a CUstream is, with device memory alone and its own work memory; a captured call
 * with an index holds until the stream is called with other sizes or lengths, or closed.  Each launch of a captured call has the counter
 * that it was captured with, and so the same masks of dropout. */
CG_API int  cg_rnn_forward(struct cg_stream *stream, const struct cg_rnn *rnn, const struct cg_rnn_call *call);
CG_API int  cg_rnn_backward(struct cg_stream *stream, const struct cg_rnn *rnn, const struct cg_rnn_call *call);
/* The counter of the forward that wrote a reserve, for a backward that was not told: of a reserve of so many bytes in the host's memory,
 * or of a copy of its first 64.  A reserve on a device has it under CELLGRAD_CHECK=1 alone.  CG_BAD_ARGUMENT: it is none, or shorter. */
CG_API int  cg_rnn_reserve_counter(const void *reserve, size_t bytes, uint64_t *counter);

/* ---- weights of other programs.  A format is a list of tensors, each made of regions of params in an order and an orientation of
 * its own: `cellgrad convert --help` and cellgrad.1 say them all.  Nothing here needs a device. ---- */

/* The i-th format's name: cellgrad canonical pytorch keras block block_v2 checkpoint onnx; NULL past the last. */
CG_API const char *cg_format_name(int i);

enum { CG_TENSOR_NAME = 128, CG_TENSOR_RANK = 4 };
struct cg_tensor {
	char    name[CG_TENSOR_NAME];            /* "weight_ih_l0", "lstm/lstm_cell/kernel"; a model's own name may stand before it */
	int     rank;
	int64_t shape[CG_TENSOR_RANK];
	size_t  bytes;                           /* in the network's dtype */
};

struct cg_weights {
	size_t  size;                            /* set by _init */
	const char *format;
	const struct cg_rnn_config *network;     /* cell, options, values, dtype, layers, directions, input mode and sizes count */
	int     gradients;                       /* they are gradients by weights, not weights */
	int     lossy;                           /* save even what load will not give back */
	void   *params;                          /* of the host, aligned or not */
	size_t  bytes;                           /* of params: format "cellgrad" has them as its one tensor */
};
/* All absent, all 0.  size: sizeof the struct. */
CG_API void cg_weights_init(struct cg_weights *weights, size_t size);
/* The k-th tensor of the network in the format; name "" past the last.  params are not looked at.  CG_BAD_ARGUMENT: no such format,
 * with the nearest, or a wrong network; CG_UNSUPPORTED: what the format cannot hold: a projection, per-unit weights, skip_input, a
 * cell, a forget_bias or cell_clip that does something. */
CG_API int  cg_weights_tensor(const struct cg_weights *weights, int k, struct cg_tensor *tensor);
/*
 * Copies the k-th tensor into params, or out of them; its bytes are those that cg_weights_tensor says.  What one load does not write
 * another does: params are whole when all tensors are loaded, and a tensor that a file may lack (biases) is skipped by clearing
 * params first.  Where a format has one bias for two, load puts it into bR and zeros into bW, for checkpoint a half into each,
 * and save adds them; CG_UNSUPPORTED if load would make other bits of the sum, unless lossy.  The gradient by such a bias is
 * loaded into both; those saved are equal to the bit and one is taken, else CG_UNSUPPORTED unless lossy.
 */
CG_API int  cg_weights_load(const struct cg_weights *weights, int k, const void *tensor, size_t bytes);
CG_API int  cg_weights_save(const struct cg_weights *weights, int k, void *tensor, size_t bytes);

#ifdef __cplusplus
}
#endif
#endif
