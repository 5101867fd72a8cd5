/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call of XLA's being read: its attributes, arguments and results as numbers, texts and the library's memory.  The first thing that is
 * wrong is kept, and what is read after it is empty.
 */
#ifndef JAX_CALL_FRAME_H
#define JAX_CALL_FRAME_H

#include "bindings/jax/xla_ffi.h"
#include "runtime/cellgrad.h"

struct call_frame {
	const struct xla_frame *xla;
	const char *name;                        /* of the handler, in messages */
	int code;                                /* enum cg_status of the first thing wrong */
	char message[1024];
};

/* Answers a question about the handler, or a stage before the execution.  1: that was all. */
int jax_is_answered(const struct xla_frame *xla);

/* Keeps a message: NAME: what a format of printf says. */
__attribute__((format(printf, 3, 4))) void jax_refuse(struct call_frame *f, int code, const char *format, ...);
/* Keeps the library's message, of a call that returned `code`.  1: it failed. */
int jax_has_failed(struct call_frame *f, int code);
/* XLA's error of what was kept; NULL: nothing was wrong. */
struct xla_error *jax_error(const struct call_frame *f);

/* Attributes, which must be there. */
int64_t jax_integer(struct call_frame *f, const char *name, int64_t low, int64_t high);
double jax_real(struct call_frame *f, const char *name);
struct xla_bytes jax_text(struct call_frame *f, const char *name);
/* Copies a text of less than `size` bytes. */
void jax_copy_text(struct call_frame *f, const char *name, char *to, size_t size);

/* There must be so many arguments and results, all of them buffers.  1: they are. */
int jax_has_buffers(struct call_frame *f, int64_t arguments, int64_t results);
/* The k-th argument or result, which must be of a type, in elements; an empty one is absent. */
struct cg_mem jax_memory(struct call_frame *f, const struct xla_values *values, int k, const char *name, int dtype);
/* The enum cg_dtype of a buffer's type. */
int jax_dtype(struct call_frame *f, const struct xla_buffer *b, const char *name);

#endif
