/* SPDX-License-Identifier: Apache-2.0 */
/** @file
 * cellgrad: recurrent cells, networks of recurrent cells, and the gradients of both, on CPUs and GPUs.
 *
 * Shapes are row-major, the slowest dimension first: T steps, B rows of the batch, I input size, U units
 * (the hidden size).  B = 0 and T = 0 are legal; I and U are at least 1.  Sizes of memory are in bytes;
 * strides and the offsets of parameters are in elements.
 *
 * @par Errors
 * A call that fails returns a negative enum cg_status, or NULL if it returns a pointer, and cg_message() then
 * gives the reason; a call that can fail and succeeds returns CG_OK or a pointer.  When an argument is
 * rejected, no output is changed, and a call that makes an object sets the caller's pointer to that object to
 * NULL.  The library never exits or aborts.  It prints only if CELLGRAD_VERBOSE was "1" or "calls" when
 * cg_open() or cg_adopt() ran: one line on standard error for each call that computes, each choice among the
 * backends if none is named, and, in the first such cg_open(), each unknown CELLGRAD_ variable.
 *
 * @par Threads
 * Threads may share contexts, cells and plans.  Only one thread at a time may use a stream.
 *
 * @par Ownership
 * After a call returns, the library uses none of the call's host memory, with two exceptions.  If a wait
 * failed (CG_DRIVER), the host memory of a call may be in use until the stream is closed.  The library keeps
 * the pointer in field `user` of a cg_allocator and of a cg_pool.  Each object keeps the objects alive that
 * it was made from, so the order of closing does not matter.  Closing NULL does nothing.
 *
 * @par fork
 * Of the objects that its parent made, a forked child may use only cells: calls that use a device through a
 * context, stream or plan of the parent return CG_UNSUPPORTED.
 *
 * @par Compatibility
 * A struct whose first field is `size` may gain fields at its end in a later version.  A program compiled
 * with this header still runs with a later library: fields that the program does not have keep the values
 * that _init gives them.  A struct without `size` never changes.  An _init call takes sizeof its struct. */
#ifndef CELLGRAD_H
#define CELLGRAD_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Marks a function that the shared library exports. */
#if defined(__GNUC__)
#define CG_API __attribute__((visibility("default")))
#else
#define CG_API
#endif

/** @defgroup status Versions, status codes and host memory
 *
 * Errors: cg_message() describes this thread's last failure.
 * Threads: all calls of this group are safe from any thread, except cg_set_allocator(), which must be the
 * first call of the library.
 * @{ */

#define CG_VERSION_MAJOR 0       /**< Major version of this header. */
#define CG_VERSION_MINOR 2       /**< Minor version of this header. */
#define CG_VERSION_PATCH 0       /**< Patch version of this header. */

/** Result of a call. */
enum cg_status {
	CG_OK           =  0,    /**< Success. */
	CG_BAD_ARGUMENT = -1,    /**< An argument is wrong or missing, or an environment variable is wrong. */
	CG_NO_MEMORY    = -2,    /**< Host or device memory is exhausted. */
	CG_NO_DEVICE    = -3,    /**< No device could be opened; the message says why not. */
	CG_UNSUPPORTED  = -4,    /**< The call is not supported; the message says why, or what supports it. */
	CG_BUILD        = -5,    /**< A kernel or a cell's text does not compile; the message says why. */
	/** A call of a driver or a vendor's library failed; the message has the call's name, code and text.
	 * The stream may be unusable; after a failed wait, host memory may be in use until it closes. */
	CG_DRIVER       = -6,
	CG_FILE         = -7     /**< A file could not be read or written. */
};
/** Type of elements. */
enum cg_dtype {
	CG_F32, /**< 32-bit IEEE 754. */  CG_F64, /**< 64-bit IEEE 754. */
	CG_F16, /**< 16-bit IEEE 754. */  CG_BF16 /**< bfloat16, the upper half of CG_F32. */
};
/** Where memory is. */
enum cg_place { CG_HOST, /**< Host memory. */ CG_DEVICE /**< Memory of a context's device. */ };
/** What a kernel computes.  CG_GRADGRAD and the CG_SEQ_ passes exist only for kernels (cg_kernel). */
enum cg_pass {
	CG_FORWARD, /**< The cell's equations. */  CG_GRAD, /**< Their gradient. */
	CG_GRADGRAD, /**< The gradient of the gradient: second derivatives. */
	/** CG_FORWARD as a step of a sequence: passes the cell state to the next step without rounding it. */
	CG_SEQ_FORWARD,
	/** CG_GRAD as a step of a sequence: passes gradients to the step before without rounding them. */
	CG_SEQ_GRAD
};
/** Order of the gate blocks in w, b and dgates: i input gate, c candidate, f forget gate, o output gate. */
enum cg_gates { CG_ICFO, /**< LSTMBlockCell, BlockLSTM. */ CG_IFCO /**< BlockLSTMV2. */ };

/** Describes this thread's last failure: for most rejected arguments, names the call or op and the argument,
 * and says what was expected.  The text is never NULL, and valid until this thread's next call that fails. */
CG_API const char *cg_message(void);
/** Version of the running library, such as "0.2.0"; CG_VERSION_* are those of the header compiled against. */
CG_API const char *cg_version(void);

/** Allocator for the library's own host memory. */
struct cg_allocator {
	/** Works as realloc: allocates if p is NULL, frees p if bytes is 0, returns NULL if memory is
	 * exhausted.  `resize` must align memory as malloc() does.  Called from any thread. */
	void *(*resize)(void *user, void *p, size_t bytes);
	void *user;              /**< First argument of `resize`. */
};
/** Sets the allocator; NULL restores realloc() and free().  Call cg_set_allocator() before any other call and
 * before other threads call the library.  CG_UNSUPPORTED: the library holds memory already. */
CG_API int  cg_set_allocator(const struct cg_allocator *allocator);

/** @} */
/** @defgroup device Devices, streams and memory
 *
 * Errors: if backends are named, cg_open() opens one of these or fails with the reasons, and opens no other.
 * Threads: all calls on a context are safe from any thread.  Only one thread at a time may use a stream.
 * @{ */

struct cg_context;               /**< One device of one backend, and the kernels built for it. */
struct cg_stream;                /**< An in-order queue of work on a context. */

/** Opens a device.  If no backend is named, the library on Linux loads OpenCL drivers only if there are signs
 * of a GPU: the device file of a GPU, and a driver that is not for processors alone; otherwise OpenCL is
 * passed over.  CG_BAD_ARGUMENT: for example, an unknown NAME (the message lists the backends), a malformed
 * DEVICE, a number of threads out of range, or an environment variable with a value that is not allowed
 * (cellgrad(1) lists the variables).  CG_NO_DEVICE: no device could be opened.
 *
 * @param where "cpu", "NAME:DEVICE", a comma-separated list in order of preference, or NULL for the
 *        environment variable CELLGRAD_BACKEND (unset: the first backend that opens and is not passed over).
 *        "cpu:threads=4" is a CPU context whose calls use at most 4 threads, the calling thread included.
 *        Without threads= the number of threads is CELLGRAD_CPU_THREADS, or one per processor that the
 *        process may run on and, on Linux, that the quota of its control group allows.
 * @param context Receives the context.  The caller closes it. */
CG_API int  cg_open(const char *where, struct cg_context **context);
/** Opens a context on the caller's own cl_context or CUcontext.  CG_BAD_ARGUMENT: for example, an unknown
 * backend, or a `device` that is not as described below.  CG_UNSUPPORTED: the backend adopts no context.
 *
 * @param backend Name of the backend.
 * @param native The cl_context, which the context retains, or the CUcontext, which must outlive the context.
 * @param device One of the cl_context's cl_device_ids, or NULL if it has only one.  NULL for a CUcontext.
 * @param context Receives the context.  The caller closes it. */
CG_API int  cg_adopt(const char *backend, void *native, void *device, struct cg_context **context);
/** Closes a context; NULL is allowed. */
CG_API void cg_close(struct cg_context *context);
/** Describes a context in one line, such as its device, instruction set, libraries and their paths.  The text
 * of cg_describe() lives as long as the context. */
CG_API const char *cg_describe(const struct cg_context *context);
/** Returns the i-th device, from 0 on, as a name for cg_open(), or NULL past the last.  Unless about is NULL,
 * *about receives its description, or why it cannot be opened.  Loads the drivers of the device's backend and
 * of those before it; past the last device, of all.  Both texts live until this thread's next cg_device(). */
CG_API const char *cg_device(int i, const char **about);
/** The caller's threads, which replace the library's own for calls on a CPU context. */
struct cg_pool {
	size_t  size;            /**< sizeof the struct; set by _init. */
	int     threads;         /**< Maximum number of parts of a call of `run`, 1 to 4096. */
	/** Calls part(arg, k) once for each k from 0 to parts - 1, on any threads, in any order, concurrently
	 * or one after the other, and returns when all have returned.  parts is at most `threads`.  Several
	 * threads that use streams of one context may call `run` at once.  `run` must not throw or unwind. */
	void  (*run)(void *user, int parts, void (*part)(void *arg, int k), void *arg);
	void   *user;            /**< First argument of `run`; must live as long as the context. */
};
/** Sets the field `size` and zeroes the rest. */
CG_API void cg_pool_init(struct cg_pool *pool, size_t size);
/** Makes a context use the caller's threads, which give the same bits; the library then starts none for it.
 * Call cg_pool_set() before the context has a stream or a plan.  *pool is copied, and replaces an earlier
 * pool.  CG_BAD_ARGUMENT: the context has a stream or a plan, cg_stream_take() or cg_rnn_get() was called for
 * it, `run` is NULL, or `threads` is out of range.  CG_UNSUPPORTED: the backend uses no host threads. */
CG_API int  cg_pool_set(struct cg_context *context, const struct cg_pool *pool);
/** Returns CG_OK if a context supports an op in an enum cg_dtype, else CG_UNSUPPORTED with a message.
 * CG_BAD_ARGUMENT: there is no such op or dtype.  op: a name from `cellgrad info`, or TensorFlow's. */
CG_API int  cg_supports(const struct cg_context *context, const char *op, int dtype);

/** Opens a stream.  Calls on a CPU stream return when they are complete.  Calls on other streams enqueue work
 * and return; if any argument is in host memory, they return when that memory has been read and written.
 * While a CUstream is being captured, only calls whose arguments are all in device memory may be captured.
 * Until the capture ends, cg_alloc() and calls that load code (the first use of a kernel, cg_rnn_open() with
 * route cudnn) return CG_UNSUPPORTED on every stream of the context: they would invalidate a capture in every
 * mode but the relaxed one.  Calls that allocate a workspace on the captured stream or, on a device without
 * memory pools, on any stream, return CG_UNSUPPORTED, too.  Free and close nothing during a capture.
 *
 * @param context The device.  The stream keeps the context open.
 * @param native An in-order queue of the backend's own API, or NULL to create one: a cl_command_queue, which
 *        is retained, or a CUstream, which must live as long as the stream; NULL for a CPU.  CUDA's default
 *        stream, a NULL CUstream (also PyTorch's default), is passed as CU_STREAM_LEGACY, ((void *)1): NULL
 *        here creates a stream that does not wait for the default one.
 * @param stream Receives the stream.  The caller closes it. */
CG_API int  cg_stream_open(struct cg_context *context, void *native, struct cg_stream **stream);
/** Waits for all enqueued work and reports what failed since the last wait. */
CG_API int  cg_stream_sync(struct cg_stream *stream);
/** Waits for all enqueued work, then closes the stream; NULL is allowed. */
CG_API void cg_stream_close(struct cg_stream *stream);
/** Lends an idle stream or a new one for some calls, for programs whose threads come and go.  The context
 * keeps up to 64 idle streams and their memory until it closes.  Safe from any thread. */
CG_API int  cg_stream_take(struct cg_context *context, struct cg_stream **stream);
/** Waits as cg_stream_sync() does, and returns the stream to the context or closes it.  Whatever the result,
 * do not use the stream afterwards, unless CG_BAD_ARGUMENT says that cg_stream_take() did not lend it. */
CG_API int  cg_stream_give(struct cg_stream *stream);

/** Memory of an argument, dense unless a call has strides; the caller owns the memory.  A cg_mem of zeros
 * means that an input is absent or an output is not requested.  `bytes` must be exactly the size of the
 * argument's shape: the caller shortens `bytes` of a larger allocation.  `work`, a reserve space and
 * arguments of cg_kernel_run() may be larger.  Arguments without elements (T or B is 0) may have any size. */
struct cg_mem {
	void   *data;            /**< A host pointer, or the device's handle: a cl_mem, a CUdeviceptr. */
	size_t  offset; /**< Bytes from `data` to the first element, a multiple of an element's size. */
	size_t  bytes;           /**< Size of the argument, from `offset` on. */
	int     place;           /**< An enum cg_place. */
};
/** Describes host memory; NULL gives absent memory.  Memory of an input is only read. */
CG_API struct cg_mem cg_host(const void *pointer, size_t bytes);
/** Asks Linux for huge pages for the caller's host memory, in which large networks run faster.  Call
 * cg_prefer_huge_pages() before the memory is first written.  It changes no byte, and does nothing for memory
 * without a whole huge page, for NULL, and on systems other than Linux. */
CG_API void cg_prefer_huge_pages(const void *pointer, size_t bytes);
/** Allocates device memory, uninitialised and aligned for any dtype.  On a CPU under Linux, without a
 * cg_allocator, it has huge pages if the system grants any.  0 bytes: absent memory.  The caller frees it. */
CG_API int  cg_alloc(struct cg_context *context, size_t bytes, struct cg_mem *mem);
/** Frees memory of cg_alloc() and zeroes the struct.  If the memory is absent, cg_free() frees nothing. */
CG_API void cg_free(struct cg_context *context, struct cg_mem *mem);
/** Copies bytes from host memory to `to`.  cg_put() returns when the host memory may be reused. */
CG_API int  cg_put(struct cg_stream *stream, struct cg_mem to, const void *from, size_t bytes);
/** Copies bytes from `from` to host memory.  cg_get() returns when the host memory has the bytes. */
CG_API int  cg_get(struct cg_stream *stream, void *to, struct cg_mem from, size_t bytes);

/** @} */
/** @defgroup block TensorFlow's block ops
 *
 * One struct serves the forward and the gradient call: the gradient reads what the forward wrote.  An output
 * that is absent is not computed; an upstream gradient that is absent is zero; a forward call needs all its
 * inputs (peepholes: with use_peephole); `cellgrad info` prints for which outputs a gradient call needs each
 * input.  Outputs must not overlap any other argument.
 *
 * Errors: CG_BAD_ARGUMENT for an argument that is missing, has a wrong size, is out of range or overlaps an
 * output; CG_UNSUPPORTED, such as for a dtype that the device lacks; CG_NO_MEMORY, CG_BUILD and CG_DRIVER.
 * Threads: _init and _work calls are safe from any thread; other calls use their stream.
 * @{ */

/** Arguments of LSTMBlockCell, of BlockLSTM, which is a sequence of T such steps, and of their gradients.
 * With [i c f o] = x W_x + h_prev W_h + b, in the order of `gates`:
 *
 *     i = sigmoid(i + wci cs_prev)   f = sigmoid(f + forget_bias + wcf cs_prev)   ci = tanh(c)
 *     cs = clip(i ci + f cs_prev)    o = sigmoid(o + wco cs)    co = tanh(cs)     h = o co
 *
 * (Hochreiter and Schmidhuber 1997; forget gate: Gers, Schmidhuber and Cummins 2000; peepholes: Gers and
 * Schmidhuber 2000).  The gradient is the derivative of these equations, except that it passes through the
 * clip unchanged.  TensorFlow's CUDA kernel adds the peephole terms of cs_prev_grad twice; this library adds
 * them once.  forget_bias and cell_clip are rounded to dtype before use.
 *
 * A sequence repeats the step for t = 0 .. seq_len_max - 1.  Each step reads cs and h of the step before,
 * the first one cs_prev and h_prev.  cs, h and the gradients that pass between steps are rounded to dtype at
 * each step.  BlockLSTMV2 is gates = CG_IFCO, forget_bias = 0, cell_clip = 0.  From step seq_len_max on,
 * inputs are not read and all outputs are zero; TensorFlow leaves i, f, o, ci and co uninitialised there, and
 * ends the process if seq_len_max is less than 0 or more than T.  With seq_len_max = 0 all gradients are
 * zero; with accumulate the weight gradients then keep their values. */
struct cg_lstm_block {
	size_t  size;            /**< sizeof the struct; set by _init. */
	int64_t T, /**< Steps. */ B, /**< Batch size. */ I, /**< Input size. */ U, /**< Units. */
	        seq_len_max;     /**< Valid steps, 0 to T; -1: T. */
	int     dtype, /**< An enum cg_dtype. */ gates, /**< An enum cg_gates. */
	        use_peephole;    /**< 1: with peepholes; 0: without. */
	int     accumulate;      /**< 1: add to the weight gradients; 0: overwrite them. */
	double  forget_bias,     /**< Added to the forget gate's pre-activation. */
	        cell_clip;       /**< Bound of the absolute value of cs; 0 or less: no clip. */
	struct cg_mem work; /**< Workspace, cg_lstm_block_work() bytes; absent: the stream keeps one. */
	struct cg_mem x,         /**< Input, [T B I]. */
	              cs_prev, /**< Initial cell state, [B U]. */ h_prev; /**< Initial hidden state, [B U]. */
	struct cg_mem w,         /**< Weights, [I+U 4U]: the rows of the input, then those of h_prev. */
	              wci, /**< Peephole of i, [U], with use_peephole only. */  wcf, /**< Peephole of f. */
	              wco, /**< Peephole of o. */  b; /**< Bias, [4U]. */
	struct cg_mem i, /**< Input gate, [T B U]; all gates are after activation. */
	              cs, /**< Cell state, clipped, before tanh, [T B U]. */
	              f, /**< Forget gate, [T B U]. */  o, /**< Output gate, [T B U]. */
	              ci, /**< Candidate, [T B U]. */  co, /**< tanh(cs), [T B U]. */
	              h; /**< Hidden state, [T B U]; w_grad is computed from it if T > 1. */
	struct cg_mem cs_grad, /**< Upstream gradient of cs. */  h_grad; /**< Upstream gradient of h. */
	struct cg_mem x_grad, /**< Gradient of x. */  cs_prev_grad, /**< Gradient of cs_prev. */
	              h_prev_grad, /**< Gradient of h_prev. */
	              dgates; /**< Gradient of the gate pre-activations, [T B 4U]. */
	struct cg_mem w_grad, /**< Gradient of w. */  wci_grad, /**< Gradient of wci. */
	              wcf_grad, /**< Gradient of wcf. */  wco_grad, /**< Gradient of wco. */
	              b_grad; /**< Gradient of b. */
};
/** Sets all memory absent, f32, CG_ICFO, T = 1, seq_len_max = -1, forget_bias = 1, cell_clip = 3, else 0. */
CG_API void cg_lstm_block_init(struct cg_lstm_block *op, size_t size);
/** Computes the bytes of workspace that a pass over *op's sizes needs, whichever outputs are requested. */
CG_API int  cg_lstm_block_work(const struct cg_lstm_block *op, enum cg_pass pass, size_t *bytes);
/** Computes i, cs, f, o, ci, co and h. */
CG_API int  cg_lstm_block_forward(struct cg_stream *stream, const struct cg_lstm_block *op);
/** Computes the gradients, from the forward's inputs and outputs, cs_grad and h_grad. */
CG_API int  cg_lstm_block_grad(struct cg_stream *stream, const struct cg_lstm_block *op);

/** Arguments of GRUBlockCell and GRUBlockCellGrad.  With [r u] = sigmoid(x W_x + h_prev W_h + b_ru):
 *
 *     c = tanh(x W_cx + (h_prev r) W_ch + b_c)    h = u (h_prev - c) + c
 *
 * (Cho et al. 2014; the reset gate precedes the product, unlike cuDNN's gru.)  TensorFlow has f32 only. */
struct cg_gru_block {
	size_t  size;            /**< sizeof the struct; set by _init. */
	int64_t B, /**< Batch size. */ I, /**< Input size. */ U; /**< Units. */
	int     dtype, /**< An enum cg_dtype. */
	        accumulate;      /**< 1: add to the weight gradients; 0: overwrite them. */
	struct cg_mem work; /**< Workspace, cg_gru_block_work() bytes; absent: the stream keeps one. */
	struct cg_mem x, /**< Input, [B I]. */  h_prev; /**< Hidden state before the step, [B U]. */
	struct cg_mem w_ru, /**< Weights of r, then u, [I+U 2U]. */  w_c, /**< Weights of c, [I+U U]. */
	              b_ru, /**< Bias of r, then u, [2U]. */  b_c; /**< Bias of c, [U]. */
	struct cg_mem r, /**< Reset gate after activation, [B U]. */  u, /**< Update gate, likewise. */
	              c, /**< Candidate after activation, [B U]. */  h; /**< Hidden state, [B U]. */
	struct cg_mem d_h;       /**< Upstream gradient of h, [B U]. */
	struct cg_mem d_x, /**< Gradient of x. */  d_h_prev, /**< Gradient of h_prev. */
	              d_c_bar, /**< Gradient of c's pre-activation, [B U]. */
	              d_r_bar_u_bar; /**< Gradient of the pre-activations of r, then u, [B 2U]. */
	struct cg_mem d_w_ru, /**< Gradient of w_ru. */  d_w_c, /**< Gradient of w_c. */
	              d_b_ru, /**< Gradient of b_ru. */  d_b_c; /**< Gradient of b_c. */
};
/** Sets all memory absent and the rest 0 (f32). */
CG_API void cg_gru_block_init(struct cg_gru_block *op, size_t size);
/** Computes the bytes of workspace that a pass over *op's sizes needs, whichever outputs are requested. */
CG_API int  cg_gru_block_work(const struct cg_gru_block *op, enum cg_pass pass, size_t *bytes);
/** Computes r, u, c and h. */
CG_API int  cg_gru_block_forward(struct cg_stream *stream, const struct cg_gru_block *op);
/** Computes the gradients, from the forward's inputs and outputs and d_h. */
CG_API int  cg_gru_block_grad(struct cg_stream *stream, const struct cg_gru_block *op);

/** @} */
/** @defgroup cell Cells
 *
 * A cell is a set of equations read from text.  A cell is immutable and belongs to no device.
 *
 * Errors: CG_BUILD for a mistake in a text, CG_FILE for an unreadable file, CG_BAD_ARGUMENT, CG_NO_MEMORY.
 * Threads: all calls for cells are safe from any thread, and in forked children.
 * @{ */

struct cg_cell;                  /**< A cell: equations that were read from a text. */
/** Returns a built-in cell (lstm gru rnn_tanh rnn_relu lstm_block gru_block) or a cell of the shelf, or NULL.
 * The library owns the cells that cg_cell_find() returns: the caller must not close them. */
CG_API const struct cg_cell *cg_cell_find(const char *name);
/** Returns the i-th built-in cell's name, or NULL past the last. */
CG_API const char *cg_cell_name(int i);
/** Returns the name of the i-th cell of the shelf, or NULL past the last.  The shelf has the texts of cells
 * from papers.  Their kernels are made at run time, but for those of ln_lstm in f32 on the CPU. */
CG_API const char *cg_shelf_name(int i);
/** Reads a cell from text in the language of cellgrad-cell(7).  CG_BUILD: the text has a mistake; the message
 * is NAME:line:column: what was expected, the line and a caret.  NAME is name_in_errors, or "cell" if that is
 * NULL.  The caller closes the cell, which must outlive each use of a cg_kernel or cg_rnn_config that points
 * to it.  A plan keeps what it needs of the cell. */
CG_API int  cg_cell_parse(const char *text, const char *name_in_errors, struct cg_cell **cell);
/** Reads a cell from a file; errors name its path.  CG_FILE: it is not readable text or over 2^20 bytes. */
CG_API int  cg_cell_load(const char *path, struct cg_cell **cell);
/** Closes a cell of cg_cell_parse() or cg_cell_load(); NULL is allowed. */
CG_API void cg_cell_close(struct cg_cell *cell);

/** The weights that a gate may have. */
enum { CG_HAS_INPUT = 1, /**< An input matrix. */  CG_HAS_RECURRENT = 2, /**< A recurrent matrix. */
       CG_HAS_BIAS_W = 4, /**< An input bias. */  CG_HAS_BIAS_R = 8 /**< A recurrent bias. */ };
enum { CG_CELL_NAMES = 32 /**< Maximum number of names of one kind in cg_cell_parts. */ };
/** Description of a cell, for programs that build networks of any cell.  The cell owns the struct's names. */
struct cg_cell_parts {
	size_t      size;        /**< sizeof the struct; set by _init. */
	const char *name;        /**< Name of the cell. */
	int         n_stages,    /**< Number of stages. */
	            has_state;   /**< 1: the cell has a cell state: networks have input_c, output_c. */
	int         n_gates, /**< Length of gates. */  n_vectors, /**< Length of vectors. */
	            n_options, /**< Length of options. */  n_params; /**< Length of params. */
	/** Gates with own weights, "a_i", in the cell's order; not gru's q_n, which has weights of a_n. */
	const char *gates[CG_CELL_NAMES];
	const char *vectors[CG_CELL_NAMES];    /**< Per-unit weights, "p_i". */
	/** Index in `options` of each vector's option; -1: the cell always has the vector. */
	int         vector_option[CG_CELL_NAMES];
	const char *options[CG_CELL_NAMES];    /**< Options, "peephole". */
	const char *params[CG_CELL_NAMES];     /**< Scalar parameters, "forget_bias". */
	double      defaults[CG_CELL_NAMES]; /**< Defaults of `params`; NaN: none, a value is required. */
	int         n_scalars;                 /**< Length of scalars. */
	const char *scalars[CG_CELL_NAMES];    /**< Learnt scalars, "tau". */
	double      starts[CG_CELL_NAMES];     /**< What cg_rnn_init_params() sets `scalars` to. */
	int         n_states;                  /**< Number of cell states. */
	int         gate_weights[CG_CELL_NAMES]; /**< Weights of each gate: CG_HAS_INPUT and so on, added. */
	/** What cg_rnn_init_params() sets `vectors` to; NaN: that call's rule for biases decides. */
	double      vector_starts[CG_CELL_NAMES];
};
/** Sets the field `size` and zeroes the rest. */
CG_API void cg_cell_parts_init(struct cg_cell_parts *parts, size_t size);
/** Describes a cell in *parts.  CG_BAD_ARGUMENT: cell or parts is NULL, or parts was not initialised. */
CG_API int  cg_cell_info(const struct cg_cell *cell, struct cg_cell_parts *parts);

/** @} */
/** @defgroup kernel Kernels: source text and calls
 *
 * Errors: CG_BAD_ARGUMENT, CG_UNSUPPORTED, CG_BUILD, CG_NO_MEMORY; each call lists its own causes.
 * Threads: calls that return text are safe from any thread; cg_kernel_run() uses its stream.
 * @{ */

/** Shape of a kernel. */
enum cg_shape {
	CG_POINT, /**< One element of [rows units] at a time. */
	CG_SUM,   /**< Functions that sum, for the gradients of biases, per-unit weights and scalars. */
	CG_SCAN   /**< All steps of one direction of one layer, with the recurrent products, as on the CPU. */
};
/** A kernel of a cell.  Where text is requested, shape CG_POINT includes the CG_SUM functions that follow it.
 * CG_SCAN exists only as text: passes CG_SEQ_FORWARD and CG_SEQ_GRAD, all stages, language "c". */
struct cg_kernel {
	const struct cg_cell *cell;  /**< The cell. */
	const char *options;     /**< Names of the options that are on, comma-separated; NULL or "": none. */
	int stage, /**< 1 to the number of stages; 0: all, in the order of the calls; see cg_kernel_run(). */
	    pass, /**< An enum cg_pass. */  dtype, /**< An enum cg_dtype. */  shape; /**< An enum cg_shape. */
};

/** Prints the source of every function that a pass needs, in call order, each with a description of its
 * arguments.  lang is "c", "opencl" or "cuda".  The text compiles alone.  C text is also C++ text; in
 * C++ its functions have C linkage.  The caller frees the text with cg_text_free().  CG_UNSUPPORTED: CG_SUM
 * alone, or CG_SCAN of a pass other than CG_SEQ_FORWARD and CG_SEQ_GRAD.  CG_BAD_ARGUMENT: CG_SCAN of one
 * stage or in a language other than "c".  CG_BUILD: a name in the cell has another meaning in lang. */
CG_API int  cg_kernel_emit(const struct cg_kernel *kernel, const char *lang, char **text);
/** Prints, as JSON, what a program needs in order to call the functions that cg_kernel_emit() prints; fails
 * as that call does.  Member "command" names a cell from a file as ./NAME.cell.  Free with cg_text_free(). */
CG_API int  cg_kernel_manifest(const struct cg_kernel *kernel, const char *lang, char **json);
/** Frees a text; NULL is allowed. */
CG_API void cg_text_free(char *text);

/** An argument of a kernel.  Absent inputs are zero. */
struct cg_arg {
	const char   *name;      /**< Name in the kernel's text: "a_i", "c_prev", "p_o", "cell_clip". */
	struct cg_mem mem;       /**< Rows of U elements; one row if per-unit; one element of a scalar. */
	int64_t       stride;    /**< Elements from one row to the next. */
	/** A param's value, rounded to dtype before use; of "accumulate": 1 adds to, 0 overwrites outputs. */
	double        value;
};
/** Runs a kernel over [rows units]: shape CG_POINT runs the functions over elements, shape CG_SUM the
 * functions after these, which sum over rows and, for scalars, over units, too.
 *
 * The manifest names the arguments and their types: real is dtype, acc is f32, or f64 for CG_F64.  `args`
 * needs an entry for each input.  It may lack params with a default, "accumulate", which is then 0, and
 * outputs: one output can be computed alone.  On the CPU kernels of built-in cells, and of ln_lstm in
 * f32, are compiled, those of CG_SEQ_* if the cell saves its output, but not CG_GRADGRAD; other kernels
 * are interpreted, with the same bits.  The bits of the outputs are the same on every backend, processor
 * and instruction set and for every number of threads, except those of a NaN: every backend gives a NaN
 * there, of any sign and payload; and except on a device whose cg_describe() says "not the same bits".
 * args has n arguments, in any order.  rows may be 0.  Stages of a cell run one at a time.
 * CG_BAD_ARGUMENT: for example, stage is 0 for a cell of several stages, or an argument is missing,
 * unknown or too small, or overlaps an output. */
CG_API int  cg_kernel_run(struct cg_stream *stream, const struct cg_kernel *kernel,
                          int64_t rows, int64_t units, const struct cg_arg *args, int n);

/** @} */
/** @defgroup network Networks over sequences
 *
 * This group computes TensorFlow's CudnnRNN, V2 and V3 and their Backprops, with any cell.  A plan (struct
 * cg_rnn) fixes the network, and for each T the route, so forward and backward agree on the reserve space;
 * each call has its own T, B, lengths, strides and counter.  L is the number of layers; D the number of
 * directions, 1 or 2; P the projection size; H the size of the hidden state, P if there is a projection, else
 * U; G the number of gates with own weights (cg_cell_parts).  Pseudo-layer l D + d is direction d of layer l.
 *
 * Errors: CG_BAD_ARGUMENT and CG_UNSUPPORTED name the field; CG_BUILD, CG_NO_MEMORY, CG_DRIVER.
 * Threads: threads may share a plan.  Forward and backward calls use their stream; others are thread-safe.
 * @{ */

struct cg_rnn;                   /**< A plan: a network, its route, and its kernels, built for a device. */
/** How layer 0 uses its input. */
enum cg_input {
	CG_LINEAR, /**< The input is multiplied by input matrices. */
	CG_SKIP,   /**< The input is added to each gate that takes x, without input matrices.  Needs I = U. */
	CG_AUTO    /**< CG_SKIP if I = U, else CG_LINEAR. */
};
/** Value of a param of a cell. */
struct cg_value { const char *name; /**< The param. */ double value; /**< Its value. */ };

/** A network.  Layer l > 0 reads the outputs of all D directions of layer l - 1, after dropout.  Direction 1
 * starts at each row's last valid step; so does the only direction if `reverse` is set.  A projection (Sak,
 * Senior and Beaufays 2014) multiplies the cell's output by a matrix [P, U], which gives h.  A projection
 * requires a cell of one stage with a cell state and a recurrent product, whose equations do not read h_prev.
 *
 * Routes.  If a vendor's library fails, the call fails; no other route replaces it.
 * - "composed": products and kernels of the backend, step by step; every network, on every backend.
 * - "scan": on the CPU, every network without a projection.  On scan a thread computes its units, or its
 *   rows of the batch, for all steps of a direction, with the roundings of composed.  On scan the bits depend
 *   on the network and the instruction set.  On scan a row of the batch has the same bits alone, beside rows
 *   of other lengths and, in f32 and f64, in a sequence that is computed in chunks of steps, if the row's
 *   products with the input matrices have the same bits.
 * - "cudnn": NVIDIA's cuDNN, 8.1 to 9, if the cuda backend finds it: lstm, gru, rnn_tanh and rnn_relu
 *   without options or reverse, a projection smaller than U, bf16 from 9.13 on; with strict_rounding not f16
 *   and bf16.  With dropout between layers each layer is one call of cuDNN and the library computes the
 *   masks; with allow_vendor_dropout all layers are one call and cuDNN draws the masks, which continue from
 *   one forward to the next, whatever counter and first_step say.  cuDNN takes up to 65,535 steps: longer
 *   calls of one direction are split, with a reserve space for each part; longer calls of two directions use
 *   composed, or fail if cudnn was requested by name.
 *
 * Routes differ in their bits and round as follows.  Gates are the results of activations, dgates the
 * gradients of their pre-activations, dh and dc the gradients that a step passes to the step before.
 * @verbatim
 *   composed, scan  f32        everything in f32
 *   composed, scan  f64        everything in f64
 *   composed, scan  f16, bf16  sums, c, dh and dc in f32; h, gates and dgates in 16 bits
 *   cudnn           f32        everything in f32, sigmoid(x) with a relative error up to
 *                              (4 + 2 abs(x)) 2^-24; under allow_tf32 products in TF32, tanh with a
 *                              relative error up to 2^-11
 *   cudnn           f64        everything in f64
 *   cudnn           f16        x W, R h, c, h, gates, dgates, dh and dc in 16 bits, tanh with a relative
 *                              error up to 2^-11; with strict_rounding the route is composed
 *   cudnn           bf16       x W, R h, c, h, gates, dgates, dh and dc in 16 bits; with strict_rounding
 *                              the route is composed
 * @endverbatim */
struct cg_rnn_config {
	size_t  size;            /**< sizeof the struct; set by _init. */
	/** The network's cell.  Two split gates of a network's cell must not be recurrent parts of the same
	 * gate; two split gates of a kernel's cell may be. */
	const struct cg_cell *cell;
	const char *options;     /**< The cell's options that are on, comma-separated; NULL or "": none. */
	const struct cg_value *values; /**< Values of params; a param without a default needs one. */
	int     n_values;        /**< Length of `values`. */
	int     dtype, /**< An enum cg_dtype. */  layers, /**< L, at least 1. */
	        bidirectional, /**< 1: two directions. */  input_mode, /**< An enum cg_input. */
	        time_major;      /**< 1: sequences are [T B .]; 0: [B T .]. */
	int64_t input, /**< I. */  units, /**< U. */  proj; /**< P; 0: no projection. */
	double  dropout;         /**< Dropout rate between layers, 0 to 1; applies in training only. */
	uint64_t seed;           /**< TensorFlow's (seed << 32) | (uint32_t)seed2; see cg_rnn_call. */
	int     training;        /**< 0: no reserve space, no dropout, no backward. */
	int     allow_tf32, /**< 1: cuDNN may use TF32 for f32; 0: f32 rounds as above on every route. */
	        allow_vendor_dropout; /**< 1: cuDNN may draw masks; 0: masks are those of cg_rnn_call. */
	const char *route; /**< NULL: cudnn, else scan, else composed; a name: that, or CG_UNSUPPORTED. */
	int     strict_rounding; /**< 1: f16 and bf16 never use cuDNN, which rounds sums and c to 16 bits. */
	int     reverse;         /**< 1: one direction, from each row's last valid step to its first. */
	int     states_major;    /**< 1: states are [L*D B .] whatever time_major is, as PyTorch's are. */
};
/** Sets lstm, f32, 1 layer, CG_LINEAR, time_major = 1, training = 1 and the rest 0. */
CG_API void cg_rnn_config_init(struct cg_rnn_config *config, size_t size);

/** Checks a network and, unless its route is cudnn, builds its kernels for a device.  The plan keeps the
 * context open and what it needs of the cell.  The caller closes the plan. */
CG_API int  cg_rnn_open(struct cg_context *context, const struct cg_rnn_config *config, struct cg_rnn **rnn);
/** Releases one reference to a plan; NULL is allowed. */
CG_API void cg_rnn_close(struct cg_rnn *rnn);
/** Returns an existing plan of an equal config, or opens one.  A plan that came from cg_rnn_get() is found if
 * it is open, or, once closed, as long as it is one of the 32 closed ones that cg_rnn_get() returned last.
 * The caller closes the plan. */
CG_API int  cg_rnn_get(struct cg_context *context, const struct cg_rnn_config *config, struct cg_rnn **rnn);
/** Adds a reference, as cg_rnn_open() and cg_rnn_get() do: a plan closes when all references are released. */
CG_API void cg_rnn_hold(struct cg_rnn *rnn);
/** Names the route and, if a faster one declined, why: "scan", "cudnn", "composed (peephole: not cudnn)".
 * The text of cg_rnn_route() lives as long as the plan. */
CG_API const char *cg_rnn_route(const struct cg_rnn *rnn);
/** Names the route of calls of T steps: the plan's route, or "composed (more than 65535 steps in both
 * directions: not cudnn)" if that route does not take T steps.  Call cg_rnn_route_at() together with
 * cg_rnn_sizes(), which fails if cudnn was requested by name and does not take T steps. */
CG_API const char *cg_rnn_route_at(const struct cg_rnn *rnn, int64_t T);

/** Sizes of a call's memory, in bytes. */
struct cg_rnn_sizes {
	size_t params, /**< Parameters. */  reserve, /**< Reserve space. */  work; /**< Workspace. */
};
/** Computes the sizes of a call.  lengths: the valid steps of each row, [B], or NULL: all T.
 *
 * params has one layout on every backend: for each pseudo-layer the input matrices [U, in] of the gates in
 * the cell's order, the recurrent matrices [U, H], the projection [P, U]; then for each pseudo-layer the
 * biases bW of the gates, then bR; then for each pseudo-layer the per-unit vectors that the cell has with its
 * options; then for each pseudo-layer the scalars.  `in` is I in layer 0, else D H.
 *
 * The reserve space has a header of 64 bytes.  On routes composed and scan the header is followed, for each
 * valid step and pseudo-layer, by [U] of each value that the cell saves, of its output and of its states (the
 * states in acc).  If the cell's gradient reads gate pre-activations, [U] of each of them (in acc) is also in
 * the reserve space.  All these values are in blocks of a multiple of 64 bytes.  On route cudnn the header is
 * followed by the outputs and what cuDNN saves.  work also suffices for calls of fewer steps or rows if both
 * calls have lengths or neither has.  CG_BAD_ARGUMENT: wrong lengths; too many steps, rows or bytes. */
CG_API int  cg_rnn_sizes(const struct cg_rnn *rnn, int64_t T, int64_t B, const int32_t *lengths,
                         struct cg_rnn_sizes *sizes);
struct cg_rnn_call;
/** Computes the sizes of a call with strides or a packed sequence, which can need more workspace.  Reads the
 * call's sizes, lengths, strides and batch_sizes; the call's memory may still be absent. */
CG_API int  cg_rnn_call_sizes(const struct cg_rnn *rnn, const struct cg_rnn_call *call,
                              struct cg_rnn_sizes *sizes);

/** Bounds the reserve space of any call of the plan by *fixed + *step T B bytes, for programs that allocate
 * before T, B and the lengths are known.  If all rows have T steps, T B is at least 64 and U elements of the
 * dtype have at least 4 bytes, the bound is at most 1.25 times the size from cg_rnn_sizes().  CG_UNSUPPORTED:
 * on route cudnn, where only cuDNN can compute the size. */
CG_API int  cg_rnn_reserve_bound(const struct cg_rnn *rnn, size_t *fixed, size_t *step);

/** A region of params.  Not present are the input matrices of layer 0 if the network skips them (CG_SKIP), a
 * projection of size 0, and a matrix or bias that a gate does not have. */
struct cg_rnn_region {
	int64_t offset,          /**< Index, in params, of the region's first element. */
	        rows, /**< Rows; 0: the region is not present. */  columns; /**< Columns. */
};
/** Locates a region by number.  id 0 to G - 1: a gate's input matrix, or its bias bW if bias is 1; G to
 * 2 G - 1: its recurrent matrix, or bR if bias is 1; 2 G: the projection; from 2 G + 1 on: the per-unit
 * vectors, then the scalars.  CG_BAD_ARGUMENT: no such pseudo-layer or id. */
CG_API int  cg_rnn_region(const struct cg_rnn *rnn, int pseudo_layer, int id, int bias,
                          struct cg_rnn_region *region);
/** Kinds of regions. */
enum cg_rnn_part {
	CG_RNN_INPUT, /**< Input matrix of a gate, [U, in]. */
	CG_RNN_RECURRENT, /**< Recurrent matrix of a gate, [U, H]. */  CG_RNN_PROJECTION, /**< [P, U]. */
	CG_RNN_BIAS_W, /**< Input bias of a gate, [U]. */  CG_RNN_BIAS_R, /**< Recurrent bias, [U]. */
	CG_RNN_VECTOR, /**< Per-unit weights, [U]. */  CG_RNN_SCALAR /**< A learnt scalar, [1]. */
};
/** Computes the bytes of params of a network, without a device. */
CG_API int  cg_rnn_params(const struct cg_rnn_config *config, size_t *bytes);
/** Locates a region by the cell's name of its gate, "a_i", per-unit weights, "p_i", or scalar, "tau",
 * without a device; a projection ignores name.  CG_BAD_ARGUMENT: the config is wrong, there is no such region
 * (the message has the nearest name, if one is near), or it belongs to an option that is off. */
CG_API int  cg_rnn_config_region(const struct cg_rnn_config *config, int pseudo_layer,
                                 enum cg_rnn_part part, const char *name, struct cg_rnn_region *region);

/** Fills params, in host memory, with initial values, the same on every machine for the same network, words
 * and seed.  CG_BAD_ARGUMENT: wrong words (the message has the nearest rule, if one is near), or a wrong size
 * of params.  CG_UNSUPPORTED: params is device memory.
 *
 * @param rnn The plan.
 * @param words Three rules, blank-separated: for the input matrices, for the recurrent matrices and the
 *        projection, and for biases and per-unit weights; scalars, and per-unit weights to which the cell
 *        gives a number, start from the cell's numbers.  A fourth word, "unit_forget", sets bW of gate a_f
 *        to 1 and its bR to 0.  A rule fills the input matrices of all gates of a pseudo-layer as one
 *        matrix, [G U, columns] if each gate has one, and so the recurrent matrices.  PyTorch's networks
 *        use "uniform uniform uniform", Keras's "xavier_uniform orthogonal zeros unit_forget".
 *        xavier_uniform, kaiming_uniform and orthogonal are for matrices only.
 *        - zeros, ones
 *        - uniform: between -1 / sqrt(U) and 1 / sqrt(U)
 *        - xavier_uniform: between -a and a, a = sqrt(6 / (rows + columns)) (Glorot and Bengio 2010)
 *        - kaiming_uniform: between -a and a, a = sqrt(6 / columns) (He, Zhang, Ren and Sun 2015)
 *        - orthogonal: orthonormal columns, or rows if there are fewer rows (Saxe, McClelland and Ganguli
 *          2014); the time grows with their length times the square of their number */
CG_API int  cg_rnn_init_params(const struct cg_rnn *rnn, const char *words, uint64_t seed,
                               struct cg_mem params);

/** Sizes and memory of a call; one struct serves forward and backward.  The shapes below are those with
 * time_major.  Without time_major sequences are [B T .], and states are [B L*D .] unless states_major is set.
 * Row b has lengths[b] valid steps; beyond them inputs are not read and outputs are zero.  For a row of
 * length 0 the final state is the initial state, and the same holds for their gradients.  Absent states and
 * upstream gradients are zero; absent outputs are not computed.  input_c, output_c and their gradients belong
 * to the cell state: a cell without one has none of them.
 *
 * Strides: a row, I or D*H elements, is dense.  An argument's bytes reach from the start of its first row to
 * the end of its last; memory between rows is neither read nor written.  In outputs the larger stride must
 * span all rows of the smaller one, so that rows do not overlap.
 *
 * Dropout sets elements of layer l's output [T B D*H] to zero by a counter-based generator.  For one rate,
 * the mask depends only on seed, counter, l and the element's t (first_step in the first step), b and unit.
 * With key = seed and Philox4x32-10 (Salmon et al. 2011), k2 is the low 64 bits of Philox(key, { low and high
 * 32 bits of counter, l, 0 }), and word is Philox(k2, { unit / 4, b, t, 0 })[unit % 4].  With dropout rate p
 * an element is dropped if word < floor(p 2^32) or p is 1, else it is multiplied by 1 / (1 - p). */
struct cg_rnn_call {
	size_t  size;            /**< sizeof the struct; set by _init. */
	int64_t T, /**< Steps. */  B; /**< Batch size. */
	const int32_t *lengths;  /**< Valid steps of each row, [B], 0 to T, unsorted; host memory; NULL: T. */
	uint64_t counter;        /**< Number of the call, for dropout; the same in forward and backward. */
	int64_t first_step;      /**< First step's index in a longer sequence; one direction only. */
	int     accumulate;      /**< 1: add to params_backprop; 0: overwrite it. */
	int     spend_reserve;   /**< 1: backward may overwrite the reserve: route cudnn need not copy it. */
	struct cg_mem work,      /**< Workspace, cg_rnn_sizes.work bytes or more; absent: the stream's. */
	              reserve,   /**< Reserve space, cg_rnn_sizes.reserve bytes or more. */
	              params;    /**< Parameters, cg_rnn_sizes.params bytes. */
	struct cg_mem input, /**< Input, [T B I]. */  input_h, /**< Initial hidden state, [L*D B H]. */
	              input_c;   /**< Initial cell state, [L*D B U]; of several states, the first. */
	struct cg_mem output, /**< Output, [T B D*H]. */  output_h, /**< Final hidden state, [L*D B H]. */
	              output_c;  /**< Final cell state, [L*D B U]. */
	struct cg_mem output_backprop,   /**< Upstream gradient of output. */
	              output_h_backprop, /**< Upstream gradient of output_h. */
	              output_c_backprop; /**< Upstream gradient of output_c. */
	struct cg_mem input_backprop,    /**< Gradient of input. */
	              input_h_backprop, /**< Gradient of input_h. */
	              input_c_backprop;  /**< Gradient of input_c. */
	struct cg_mem params_backprop;   /**< Gradient of params. */
	int     no_dropout;      /**< 1: drop nothing, but write a reserve; the same in both passes. */
	int64_t input_t_stride,  /**< Elements between steps, in input and input_backprop; 0: dense. */
	        input_b_stride,  /**< Elements between batch rows, in input and input_backprop; 0: dense. */
	        output_t_stride, /**< Elements between steps, in output and output_backprop; 0: dense. */
	        output_b_stride; /**< Elements between batch rows, in output and output_backprop; 0: dense. */
	/** Packed sequence, as PyTorch's, in place of lengths: [T], in host memory, the first at most B, each
	 * of the others at most the one before.  The first batch_sizes[t] rows of the batch have a step t.
	 * input, output and their gradients are [N I] and [N D*H], N the sum of batch_sizes: the rows of
	 * step 0, then those of step 1, and so on.  States have B rows.  NULL: no packed sequence. */
	const int32_t *batch_sizes;
	/* The second to fourth state of a cell, shaped as input_c, output_c and their gradients. */
	struct cg_mem input_s[3], /**< Initial states. */  output_s[3], /**< Final states. */
	              output_s_backprop[3],    /**< Upstream gradients of output_s. */
	              input_s_backprop[3];     /**< Gradients of input_s. */
};
/** Sets all memory absent and the rest 0. */
CG_API void cg_rnn_call_init(struct cg_rnn_call *call, size_t size);
/** Computes a network's outputs: reads input, input_h, input_c and params; writes output, output_h, output_c
 * and, in training, reserve.  The lengths are read before the call returns.
 *
 * The reserve space must be aligned for acc: to 4 bytes, in f64 to 8; on route cudnn an alignment below 256
 * costs a copy.  If rows differ in length, or do not lie evenly in the order of steps, as without time_major,
 * the stream keeps an index of the rows.  A call that needs an index of the rows for other sizes, lengths or
 * strides waits for all work that may read the host's copy of the old index, and then sends a new index to
 * the device.  On route cudnn a stream keeps an index of each plan's last four sizes and lengths; each part
 * of a long sequence counts as one of them.  A call that sends no index of the rows to the device can be
 * captured with a CUstream, if the call has device memory only and the caller's workspace.  A captured call
 * that reads an index of the rows is valid until the stream is used with other sizes, lengths or strides, or
 * closed.  Every launch of a captured call has the counter of its capture, and so the same dropout masks. */
CG_API int  cg_rnn_forward(struct cg_stream *stream, const struct cg_rnn *rnn,
                           const struct cg_rnn_call *call);
/** Computes a network's gradients: reads the forward's inputs and its reserve, and the output_*_backprops.  A
 * backward call leaves the reserve unchanged, unless spend_reserve is set.  A reserve in host memory is
 * rejected if it is of another network or of a forward with another T, B, lengths, counter, first_step or
 * no_dropout.  In host memory a reserve of route cudnn is also rejected on another route, and the other way
 * round.  A reserve in device memory is rejected if it is too small, and by its header under
 * CELLGRAD_CHECK=1, which waits for the device.  Alignment, indices and captures: see cg_rnn_forward(). */
CG_API int  cg_rnn_backward(struct cg_stream *stream, const struct cg_rnn *rnn,
                            const struct cg_rnn_call *call);
/** Reads the counter of the forward that wrote a reserve space, from host memory: the reserve, or a copy of
 * its first 64 bytes.  A reserve in device memory has a counter only under CELLGRAD_CHECK=1.
 * CG_BAD_ARGUMENT: the bytes are not a reserve, or are too few. */
CG_API int  cg_rnn_reserve_counter(const void *reserve, size_t bytes, uint64_t *counter);

/** @} */
/** @defgroup weights Weights of other programs
 *
 * A format is a list of tensors; each is made of regions of params in the format's own order and
 * orientation.  cellgrad-weights(7) describes every format.  No device is needed.
 *
 * Errors: CG_BAD_ARGUMENT, for example for an unknown format (the message has the nearest name, or all names)
 * or a wrong network; CG_UNSUPPORTED for what a format cannot hold.
 * Threads: all calls for formats are safe from any thread.
 * @{ */

/** Names format i (cellgrad canonical pytorch keras block block_v2 checkpoint onnx); NULL past the last. */
CG_API const char *cg_format_name(int i);

enum { CG_TENSOR_NAME = 128, /**< Bytes of a name in cg_tensor, with its terminating zero. */
       CG_TENSOR_RANK = 4 /**< Maximum rank in cg_tensor. */ };
/** Description of a tensor. */
struct cg_tensor {
	char    name[CG_TENSOR_NAME];    /**< "weight_ih_l0", "lstm/lstm_cell/kernel"; files may prefix it. */
	int     rank;            /**< Number of dimensions. */
	int64_t shape[CG_TENSOR_RANK];   /**< Elements of each dimension, slowest first. */
	size_t  bytes;           /**< Size in bytes, in the network's dtype. */
};

/** A network's weights in a format. */
struct cg_weights {
	size_t  size;            /**< sizeof the struct; set by _init. */
	const char *format;      /**< A name of cg_format_name(). */
	const struct cg_rnn_config *network; /**< The network: its cell, options, values, dtype, layers,
	                                      * directions, input mode and sizes are read. */
	int     gradients;       /**< 1: the tensors are gradients of weights; 0: weights. */
	int     lossy;           /**< 1: save also what load cannot restore. */
	void   *params;          /**< The parameters, in host memory, of any alignment. */
	size_t  bytes;           /**< Size of `params`, which in format "cellgrad" are the only tensor. */
};
/** Sets the field `size` and zeroes the rest. */
CG_API void cg_weights_init(struct cg_weights *weights, size_t size);
/** Describes the k-th tensor of the network in the format; past the last its name is "".  Does not read
 * params.  CG_UNSUPPORTED: the format cannot hold a projection, per-unit weights, scalars, skip_input, the
 * cell, or a forget_bias or cell_clip that has an effect. */
CG_API int  cg_weights_tensor(const struct cg_weights *weights, int k, struct cg_tensor *tensor);
/** Copies the k-th tensor, of the size from cg_weights_tensor(), into params.
 *
 * Each load writes its own regions: params are complete when all tensors are loaded.  If a file lacks a
 * tensor that may be absent (biases), clear params first.  Where a format has one bias for two, the bias goes
 * into bR and bW is zero; format checkpoint puts a half into each.  The gradient of one bias for two goes
 * into the gradients of both biases. */
CG_API int  cg_weights_load(const struct cg_weights *weights, int k, const void *tensor, size_t bytes);
/** Copies the k-th tensor, of the size from cg_weights_tensor(), out of params.  Where a format has one bias
 * for two, that bias is the sum; CG_UNSUPPORTED if load would restore the two with other bits, unless
 * `lossy` is set.  The gradient of one bias for two is one of the gradients of the two; CG_UNSUPPORTED if
 * these two gradients differ in any bit, unless `lossy` is set. */
CG_API int  cg_weights_save(const struct cg_weights *weights, int k, void *tensor, size_t bytes);

/** @} */

#ifdef __cplusplus
}
#endif
#endif
