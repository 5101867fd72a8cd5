/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Declares what the parts of the stand-in for libcuda share. One lock is held during a call; work is queued, and runs when the host
 * waits for it, or earlier at random.
 */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <stddef.h>
#include <stdint.h>

#include "kernel_calls.h"
#include "misuse_report.h"

/* Codes of NVIDIA's cuda.h; other codes of it are returned only where CELLGRAD_FAKE_FAIL names them. */
enum {
	INVALID_VALUE = 1, OUT_OF_MEMORY = 2, NOT_INITIALIZED = 3, DEVICE_UNAVAILABLE = 46, NO_DEVICE = 100, INVALID_DEVICE = 101, INVALID_IMAGE = 200,
	INVALID_CONTEXT = 201, NO_BINARY_FOR_GPU = 209, UNSUPPORTED_PTX_VERSION = 222, INVALID_HANDLE = 400, NOT_FOUND = 500,
	ILLEGAL_ADDRESS = 700, LAUNCH_OUT_OF_RESOURCES = 701, ASSERT = 710, MISALIGNED_ADDRESS = 716, LAUNCH_FAILED = 719,
	STREAM_CAPTURE_UNSUPPORTED = 900, STREAM_CAPTURE_INVALIDATED = 901, STREAM_CAPTURE_IMPLICIT = 906, STREAM_CAPTURE_WRONG_THREAD = 908,
	UNKNOWN = 999
};

struct handle {
	int kind, dead;
	struct handle *next;                     /* the next handle in its bucket; destroyed handles stay, so that an address has one meaning */
};
enum { CONTEXT = 1, STREAM, MODULE, FUNCTION, GRAPH = 15, GRAPH_EXEC };

struct context {
	struct handle handle;
	int device, retained, own;               /* own: made by cuCtxCreate */
	int lost;                                /* the error of each later call that needs the lost context; 0: it is not lost */
};

struct stream {
	struct handle handle;
	struct context *context;
	int blocking;                            /* this stream and the default stream wait for each other's earlier work */
	struct capture *capture;                 /* the capture that records the stream's work; NULL: the stream is not captured */
	struct work *first, **last;
};

struct work {
	struct work *next;
	struct stream *stream;
	struct module *module;                   /* the module of the kernel that this work launches */
	uint64_t number;
	const char *call;
	int (*run)(void *data);                  /* does the work; returns 0, or CUDA's code of a mistake, which fake_report() has reported */
	void *data;
};

struct module {
	struct handle handle;
	struct context *context;
	const struct fake_object *object;
	void *library;
	int file, flush;                         /* flush: the kernels take subnormals for zero */
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
	int freed, gone;                         /* freed: cuMemFree or cuMemFreeAsync was called; gone: the memory has been freed */
	int ordered;                             /* allocated by cuMemAllocAsync */
};

/* ---- calls: cuda_context.c ---- */

/* Begins a call: takes the lock, which fake_leave releases at the end of the calling function; may run queued work; may fail on
   request. */
FAKE_API int fake_enter(const char *call, int needs_context);
FAKE_API void fake_leave(int *inside);
/* The number of calls of fake_enter() so far whose names match the pattern. */
FAKE_API long fake_count(const char *pattern);
#define CALL(name, needs_context) \
	int inside __attribute__((cleanup(fake_leave), unused)) = 1, refusal = fake_enter(#name, needs_context); \
	if (refusal) \
		return refusal

enum { ANY_TIME, NEEDS_INIT, NEEDS_CONTEXT };

FAKE_API void *fake_new(int kind, size_t bytes);
/* Returns the handle; or reports it and returns NULL, if it is no handle of that kind, or was destroyed. */
FAKE_API void *fake_known(const char *call, int kind, void *handle);
struct handle *fake_each(struct handle *after);
FAKE_API struct context *fake_current(void);
int fake_devices(void);
void fake_lose(struct context *context, int code);

/* ---- work: cuda_stream.c ---- */

/* Returns the stream, for a null handle or CU_STREAM_LEGACY the default one; or reports an invalid handle and returns NULL. */
FAKE_API struct stream *fake_stream(const char *call, struct stream *handle);
/* Enqueues work on a stream, or records it if the stream is captured.  The data of the work comes from malloc; it is freed after the work,
   or, if the stream is captured, kept until the process ends. */
FAKE_API int fake_enqueue(const char *call, struct stream *stream, int (*run)(void *), void *data);
int fake_enqueue_launch(struct stream *stream, struct module *module, int (*run)(void *), void *data);
int fake_drain(struct stream *stream);
void fake_drain_all(struct context *context);
void fake_some(void);
int fake_pending(const struct context *context, const struct module *module);
/* Enqueues work of a graph for one launch of the graph; each launch enqueues the same work again. The data of the work stays with the
   graph's commands, which are kept until the process ends; it is not freed after the work. */
int fake_enqueue_again(const char *call, struct stream *stream, struct module *module, int (*run)(void *), void *data);

/* ---- capture: cuda_graph.c ---- */

/* For calls that are unsafe during a capture: if a stream is captured in a mode that forbids the call in this thread, reports the call,
   invalidates the capture and returns 1; with CELLGRAD_FAKE_CAPTURE always reports the call and returns 1; else returns 0. */
FAKE_API int fake_capturing(const char *call);
/* Adds work to the capture of its stream; the work's data is kept until the process ends. Returns 0 or an error code of CUDA. */
int fake_record(const char *call, struct stream *stream, struct module *module, int (*run)(void *), void *data);
/* If work for the default stream would have to wait for a captured stream, invalidates the capture and returns an error code, else
   returns 0. */
int fake_implicit(struct context *context);
int fake_waits(const char *call, struct stream *stream);

/* ---- device memory: cuda_memory.c ---- */

extern struct fake_memory fake_memory;
int fake_is_device(uint64_t at);
/* fake_data: where the host stores the contents of a device address; fake_address: the device address whose contents are stored there. */
FAKE_API void *fake_data(uint64_t at);
uint64_t fake_address(uint64_t data);
struct block *fake_block(uint64_t at);
/* Describes a device address in words, for reports. */
const char *fake_where(uint64_t at);
/* Checks that a range of device memory can be read (READ_WRITTEN: and was written) or written; returns 0, or reports it and
   returns a code. */
enum { READ = 0, WRITE = 1, READ_WRITTEN = 2 };
FAKE_API int fake_reach(const char *call, uint64_t at, size_t bytes, int how);
/* Checks, when a call enqueues work, that the memory of the work belongs to `context` and is not freed. */
FAKE_API int fake_owned(const char *call, const char *what, struct context *context, uint64_t at, size_t bytes);
void fake_memory_leaks(struct context *context, size_t *blocks, size_t *bytes);
void fake_memory_release(struct context *context);

/* ---- kernels: cuda_run.c ---- */

struct launch {
	struct function *function;
	struct fake_dim grid, block;
	void *arguments[];                       /* the addresses of the arguments' values; the values follow */
};
int fake_run(void *launch);
extern const struct fake_calls fake_calls;

#endif
