/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads XLA's call frame: its attributes, arguments and results as numbers, texts and struct cg_mem.  The first error is kept; functions
 * that fail return some value nevertheless, so that callers may check for an error once, at the end.
 */
#ifndef JAX_CALL_FRAME_H
#define JAX_CALL_FRAME_H

#include "bindings/jax/xla_ffi.h"
#include "runtime/cellgrad.h"

struct call_frame {
	const struct xla_frame *xla;
	const char *name;                        /* the handler's name, for messages */
	int code;                                /* the enum cg_status of the first error; CG_OK: no error */
	char message[1024];
};

/* Handles frames that do not execute the call: answers a query of the handler's version, and ignores stages before the execution.
 * Returns 1 if the frame does not execute the call. */
int jax_is_answered(const struct xla_frame *xla);

/* Keeps an error, unless there is one already.  The message is the handler's name and the formatted text. */
__attribute__((format(printf, 3, 4))) void jax_refuse(struct call_frame *f, int code, const char *format, ...);
/* Keeps the library's message if `code`, which a call of the library returned, is a failure and no error was kept before.  Returns 1 if an
 * error is kept, this one or an earlier one. */
int jax_has_failed(struct call_frame *f, int code);
/* Makes an error of XLA from the error that was kept; NULL: none was kept. */
struct xla_error *jax_error(const struct call_frame *f);

/* Read an attribute of the call.  An attribute that is missing, of another type or out of the range, or a text with a zero byte, is an
 * error. */
int64_t jax_integer(struct call_frame *f, const char *name, int64_t low, int64_t high);
double jax_real(struct call_frame *f, const char *name);
struct xla_bytes jax_text(struct call_frame *f, const char *name);
/* Copies a text attribute to a buffer of `size` bytes; a text that does not fit is an error. */
void jax_copy_text(struct call_frame *f, const char *name, char *to, size_t size);

/* Checks the numbers of arguments and results, and that all are buffers.  Returns 1 if there is no error. */
int jax_has_buffers(struct call_frame *f, int64_t arguments, int64_t results);
/* The memory of the k-th argument or result, whose elements must have XLA's type `dtype`; for an empty array the memory is absent. */
struct cg_mem jax_memory(struct call_frame *f, const struct xla_values *values, int k, const char *name, int dtype);
/* The enum cg_dtype of a buffer's element type; if the type is not f32, f64, f16 or bf16, keeps an error and returns CG_F32. */
int jax_dtype(struct call_frame *f, const struct xla_buffer *b, const char *name);

#endif
