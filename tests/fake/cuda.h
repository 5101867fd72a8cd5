/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declares what the parts of the stand-in for libcuda share. One lock covers everything; work is queued, and runs when the host waits
 * for it, or earlier at random.
 */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <stddef.h>
#include <stdint.h>

#include "kernel_calls.h"
#include "misuse_report.h"

/* As in the vendor's cuda.h; codes that are missing here are never returned. */
enum {
	INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, DEVICE_UNAVAILABLE = 46, NO_DEVICE = 100, INVALID_DEVICE = 101, INVALID_IMAGE = 200,
	INVALID_CONTEXT = 201, NO_BINARY_FOR_GPU = 209, UNSUPPORTED_PTX_VERSION = 222, INVALID_HANDLE = 400, NOT_FOUND = 500,
	ILLEGAL_ADDRESS = 700, LAUNCH_OUT_OF_RESOURCES = 701, ASSERT = 710, MISALIGNED_ADDRESS = 716, LAUNCH_FAILED = 719,
	STREAM_CAPTURE_UNSUPPORTED = 900, STREAM_CAPTURE_INVALIDATED = 901, STREAM_CAPTURE_IMPLICIT = 906, STREAM_CAPTURE_WRONG_THREAD = 908,
	UNKNOWN = 999
};

struct handle {
	int kind, dead;
	struct handle *next;                     /* of all that were ever made: an address has one meaning */
};
enum { CONTEXT = 1, STREAM, MODULE, FUNCTION, GRAPH = 15, GRAPH_EXEC };

struct context {
	struct handle handle;
	int device, retained, own;               /* own: made by cuCtxCreate */
	int lost;                                /* the error that every call gives from now on */
};

struct stream {
	struct handle handle;
	struct context *context;
	int blocking;                            /* its work and the default stream's wait for each other */
	struct capture *capture;                 /* what is put into it is recorded; NULL: not captured */
	struct work *first, **last;
};

struct work {
	struct work *next;
	struct stream *stream;
	struct module *module;                   /* whose kernel it launches */
	uint64_t number;
	const char *call;
	int (*run)(void *data);                  /* CUDA's code of what went wrong, after fake_report() */
	void *data;
};

struct module {
	struct handle handle;
	struct context *context;
	const struct fake_object *object;
	void *library;
	int file, flush;                         /* subnormals are zero */
};

struct function {
	struct handle handle;
	struct module *module;
	const struct fake_kernel *kernel;
};

/* One allocation.  Addresses are used once, so that an old one is recognised. */
struct block {
	uint64_t at;
	size_t bytes;
	struct context *context;
	int freed, gone;                         /* by the call; in the order of a stream, which may be later */
	int ordered;                             /* by cuMemAllocAsync */
};

/* ---- calls: cuda_context.c ---- */

/* Begins a call: takes the lock, which is released at the end of the function; may run queued work; may fail on request. */
FAKE_API int fake_enter(const char *call, int needs_context);
FAKE_API void fake_leave(int *inside);
/* The number of calls so far whose names match the pattern. */
FAKE_API long fake_count(const char *pattern);
#define CALL(name, needs_context) \
	int inside __attribute__((cleanup(fake_leave), unused)) = 1, refusal = fake_enter(#name, needs_context); \
	if (refusal) \
		return refusal

enum { ANY_TIME, NEEDS_INIT, NEEDS_CONTEXT };

FAKE_API void *fake_new(int kind, size_t bytes);
/* NULL after a report if it is no handle of that kind, or was destroyed. */
FAKE_API void *fake_known(const char *call, int kind, void *handle);
struct handle *fake_each(struct handle *after);
FAKE_API struct context *fake_current(void);
int fake_devices(void);
void fake_lose(struct context *context, int code);

/* ---- work: cuda_stream.c ---- */

/* NULL after a report; the default stream for 0. */
FAKE_API struct stream *fake_stream(const char *call, struct stream *handle);
/* Takes the data, which is malloc's. */
FAKE_API int fake_enqueue(const char *call, struct stream *stream, int (*run)(void *), void *data);
int fake_enqueue_launch(struct stream *stream, struct module *module, int (*run)(void *), void *data);
int fake_drain(struct stream *stream);
void fake_drain_all(struct context *context);
void fake_some(void);
int fake_pending(const struct context *context, const struct module *module);
/* The same work, repeatedly, as a graph launches it.  The graph owns the data. */
int fake_enqueue_again(const char *call, struct stream *stream, struct module *module, int (*run)(void *), void *data);

/* ---- capture: cuda_graph.c ---- */

/* For calls that are unsafe while a stream is captured: if one is, this call is refused and the capture is invalidated. */
FAKE_API int fake_capturing(const char *call);
/* Work for a captured stream, which owns the data from here on; a code. */
int fake_record(const char *call, struct stream *stream, struct module *module, int (*run)(void *), void *data);
/* A code where work for the default stream would have to wait for a captured stream. */
int fake_implicit(struct context *context);
int fake_waits(const char *call, struct stream *stream);

/* ---- device memory: cuda_memory.c ---- */

extern struct fake_memory fake_memory;
int fake_is_device(uint64_t at);
/* The host's place of a device address, and the device address of such a place. */
FAKE_API void *fake_data(uint64_t at);
uint64_t fake_address(uint64_t data);
struct block *fake_block(uint64_t at);
/* Describes an address. */
const char *fake_where(uint64_t at);
/* Checks that all of it can be read (and was written, if so asked) or written: 0, or a code after a report. */
enum { READ = 0, WRITE = 1, READ_WRITTEN = 2 };
FAKE_API int fake_reach(const char *call, uint64_t at, size_t bytes, int how);
/* The same at the call: checks that it is memory of this context that is not freed. */
FAKE_API int fake_owned(const char *call, const char *what, struct context *context, uint64_t at, size_t bytes);
void fake_memory_leaks(struct context *context, size_t *blocks, size_t *bytes);
void fake_memory_release(struct context *context);

/* ---- kernels: cuda_run.c ---- */

struct launch {
	struct function *function;
	struct fake_dim grid, block;
	void *arguments[];                       /* addresses of the values, which follow */
};
int fake_run(void *launch);
extern const struct fake_calls fake_calls;

#endif
