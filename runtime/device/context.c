/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contexts and streams: reference counts, opening and closing, and the public calls that the backend answers directly.  open.c chooses
 * the backend.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "gen/cell.h"
#include "runtime/device/device.h"
#include "runtime/core/environment.h"

int cg_context_check(const struct cg_context *context, const char *call)
{
	if (!context)
		return cg_fail(CG_BAD_ARGUMENT, "%s: context or stream: expected a pointer, got NULL", call);
	if (context->fork != cg_fork_count())
		return cg_fail(CG_UNSUPPORTED, "%s: the context was opened before a fork; open one in the child", call);
	return CG_OK;
}

static struct cg_context_attachment *find_attachment(const struct cg_context *context, const struct cg_context_attachment_kind *kind)
{
	struct cg_context_attachment *a = context->attachments;

	while (a && a->kind != kind)
		a = a->next;
	return a;
}

struct cg_context_attachment *cg_context_get_attachment(struct cg_context *context, const struct cg_context_attachment_kind *kind,
                                                        size_t bytes)
{
	struct cg_context_attachment *a = find_attachment(context, kind);

	if (a)
		return a;
	pthread_mutex_lock(context->lock);
	a = find_attachment(context, kind);
	if (!a && (a = cg_memory(NULL, bytes))) {
		memset(a, 0, bytes);
		a->kind = kind;
		kind->open(a);
		a->next = context->attachments;
		context->attachments = a;
	}
	pthread_mutex_unlock(context->lock);
	return a;
}

static void close_attachments(struct cg_context *context)
{
	struct cg_context_attachment *a = context->attachments;

	while (a) {
		struct cg_context_attachment *next = a->next;

		a->kind->close(a);
		cg_memory(a, 0);
		a = next;
	}
}

static void release(struct cg_context *context)
{
	if (__atomic_sub_fetch(&context->holders, 1, __ATOMIC_ACQ_REL))
		return;
	close_attachments(context);
	while (context->kernels) {
		struct cg_kernel_entry *next = context->kernels->next;

		context->backend->release(context->device, context->kernels->built);
		cg_plan_free(context->kernels->plan);
		cg_cell_release(context->kernels->cell);
		cg_memory(context->kernels, 0);
		context->kernels = next;
	}
	cg_generated_free(context);
	context->backend->close(context->device);
	pthread_mutex_destroy(context->lock);
	cg_memory(context->lock, 0);
	cg_memory(context, 0);
}

/* Makes a context of an open device; on failure the caller closes the device. */
int cg_context_of(const struct cg_backend *backend, struct cg_dev *device, struct cg_context **result)
{
	struct cg_context *context = cg_memory(NULL, sizeof *context);
	pthread_mutex_t *lock = cg_memory(NULL, sizeof *lock);
	int verbose, code = context && lock ? cg_verbose_level(&verbose) : CG_NO_MEMORY;

	if (code) {
		cg_memory(context, 0);
		cg_memory(lock, 0);
		return code;
	}
	*context = (struct cg_context){
		.backend = backend, .device = device, .lock = lock, .holders = 1, .fork = cg_fork_count(), .verbose = verbose,
	};
	pthread_mutex_init(lock, NULL);
	*result = context;
	return CG_OK;
}

void cg_close(struct cg_context *context)
{
	if (context && context->fork == cg_fork_count())
		release(context);
}

void cg_context_retain(struct cg_context *context)
{
	__atomic_add_fetch(&context->holders, 1, __ATOMIC_RELAXED);
}

const char *cg_describe(const struct cg_context *context)
{
	return context ? context->backend->describe(context->device) : "";
}

/* Appends a context's description, without the backend's name and without text in parentheses: "cpu: kernels avx512; products OpenBLAS
 * (0.3.21 at /usr/lib)" gives " kernels avx512; products OpenBLAS". */
void cg_context_add_route(char *line, size_t capacity, const struct cg_context *context)
{
	const char *about = context->backend->describe(context->device), *name = context->backend->name;
	size_t n = strlen(line);
	int depth = 0;

	if (!strncmp(about, name, strlen(name)) && about[strlen(name)] == ':')
		about += strlen(name) + 1;
	for (; *about && n + 1 < capacity; about++) {
		depth += *about == '(';
		if (depth || (*about == ' ' && about[1] == '('))
			depth -= *about == ')' && depth;
		else
			line[n++] = *about;
	}
	line[n] = '\0';
}

static void init_pool(void *pool, size_t size)
{
	static const struct cg_pool defaults = { .size = 0 };

	cg_sized_init(pool, size, &defaults, sizeof defaults);
}

void cg_pool_init(struct cg_pool *pool, size_t size)
{
	init_pool(pool, size);
}

int cg_pool_set(struct cg_context *context, const struct cg_pool *pool)
{
	static const struct cg_sized sized = CG_SIZED(struct cg_pool, user, init_pool);
	struct cg_pool whole;

	CG_TRY(cg_context_check(context, "cg_pool_set"));
	pool = cg_sized_complete(&sized, pool, &whole);
	CG_TRY(cg_sized_check("cg_pool_set", "cg_pool", pool, sizeof *pool));
	if (pool->threads < 1 || pool->threads > CG_THREADS_MAX)
		return cg_fail(CG_BAD_ARGUMENT, "cg_pool_set: threads: expected 1 to %d, got %d", CG_THREADS_MAX, pool->threads);
	if (!pool->run)
		return cg_fail(CG_BAD_ARGUMENT, "cg_pool_set: run: expected a function, got NULL");
	if (!context->backend->use_pool)
		return cg_fail(CG_UNSUPPORTED, "cg_pool_set: backend %s does not compute on threads of the host: backend cpu does",
		               context->backend->name);
	if (__atomic_load_n(&context->holders, __ATOMIC_ACQUIRE) > 1 || context->attachments)
		return cg_fail(CG_BAD_ARGUMENT, "cg_pool_set: context: expected one without streams and plans, and without an earlier "
		               "call of cg_stream_take or cg_rnn_get, got another");
	return context->backend->use_pool(context->device, pool);
}

int cg_stream_open(struct cg_context *context, void *native, struct cg_stream **result)
{
	struct cg_stream *stream;
	int code;

	if (!result)
		return cg_fail(CG_BAD_ARGUMENT, "cg_stream_open: stream: expected a pointer for the result, got NULL");
	*result = NULL;
	CG_TRY(cg_context_check(context, "cg_stream_open"));
	stream = cg_memory(NULL, sizeof *stream);
	if (!stream)
		return CG_NO_MEMORY;
	*stream = (struct cg_stream){ .context = context };
	code = context->backend->start(context->device, native, &stream->queue);
	if (code) {
		cg_memory(stream, 0);
		return code;
	}
	cg_context_retain(context);
	*result = stream;
	return CG_OK;
}

int cg_stream_sync(struct cg_stream *stream)
{
	CG_TRY(cg_context_check(stream ? stream->context : NULL, "cg_stream_sync"));
	return stream->context->backend->sync(stream->queue);
}

static void free_scratch(struct cg_stream *stream)
{
	const struct cg_backend *backend = stream->context->backend;

	if (stream->scratch.data)
		backend->free(stream->context->device, stream->queue, &stream->scratch);
}

static void free_attachments(struct cg_stream *stream)
{
	while (stream->attachments) {
		struct cg_attachment *next = stream->attachments->next;

		stream->attachments->kind->free_host(stream->attachments);
		cg_memory(stream->attachments, 0);
		stream->attachments = next;
	}
}

void cg_stream_free(struct cg_stream *stream)
{
	free_scratch(stream);
	for (struct cg_attachment *a = stream->attachments; a; a = a->next)
		a->kind->free_device(stream, a);
	/* stop() waits for the work in the stream's queue, which may still read host memory of the stream's attachments. */
	stream->context->backend->stop(stream->queue);
	free_attachments(stream);
	cg_memory(stream, 0);
}

void cg_stream_close(struct cg_stream *stream)
{
	struct cg_context *context = stream ? stream->context : NULL;

	if (!stream || context->fork != cg_fork_count())
		return;
	cg_stream_free(stream);
	release(context);
}

struct cg_attachment *cg_stream_get_attachment(struct cg_stream *stream, const struct cg_attachment_kind *kind, size_t bytes)
{
	struct cg_attachment *a = stream->attachments;

	while (a && a->kind != kind)
		a = a->next;
	if (a)
		return a;
	a = cg_memory(NULL, bytes);
	if (!a)
		return NULL;
	memset(a, 0, bytes);
	a->kind = kind;
	a->next = stream->attachments;
	return stream->attachments = a;
}

int cg_stream_get_scratch(struct cg_stream *stream, size_t bytes, struct cg_mem *mem)
{
	if (stream->scratch.bytes < bytes) {
		struct cg_mem more;

		CG_TRY(stream->context->backend->alloc(stream->context->device, stream->queue, bytes, &more));
		free_scratch(stream);
		stream->scratch = more;
	}
	*mem = bytes ? stream->scratch : (struct cg_mem){ .bytes = 0 };
	return CG_OK;
}
