/* SPDX-License-Identifier: Apache-2.0 */
/* Streams, whose work runs late, and the copies that are enqueued on them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"

enum { LEGACY_STREAM = 1, NON_BLOCKING = 1, NAN_BYTE = 0xff };
static uint64_t counted;

/* ---- which stream ---- */

/* Each context has a default stream, made when it is first used. */
static struct stream *default_stream(struct context *context)
{
	static struct stream *known[64];

	for (size_t k = 0; k < sizeof known / sizeof *known; k++) {
		if (known[k] && !known[k]->handle.dead && known[k]->context == context)
			return known[k];
		if (known[k] && !known[k]->context->handle.dead)
			continue;
		known[k] = calloc(1, sizeof **known);
		if (!known[k])
			abort();
		known[k]->context = context;
		known[k]->last = &known[k]->first;
		return known[k];
	}
	return NULL;
}

struct stream *fake_stream(const char *call, struct stream *handle)
{
	struct context *context = fake_current();

	if (!handle || (uintptr_t)handle == LEGACY_STREAM)
		return default_stream(context);
	handle = fake_known(call, STREAM, handle);
	if (handle && handle->context != context) {
		fake_report("%s: the stream is of another context", call);
		return NULL;
	}
	return handle;
}

static int is_default(const struct stream *stream)
{
	return !stream->handle.kind;
}

/* ---- queues ---- */

static struct stream *with_work[256];            /* the streams that have queued work, in no order */
static size_t n_with_work;

static int add(const char *call, struct stream *stream, struct module *module, int (*run)(void *), void *data)
{
	struct work *work = calloc(1, sizeof *work);

	if (!work)
		abort();
	*work = (struct work){ NULL, stream, module, ++counted, call, run, data };
	if (!stream->first) {
		if (n_with_work == sizeof with_work / sizeof *with_work)
			fake_drain(with_work[0]);
		with_work[n_with_work++] = stream;
	}
	*stream->last = work;
	stream->last = &work->next;
	return 0;
}

static int enqueue(const char *call, struct stream *stream, struct module *module, int (*run)(void *), void *data)
{
	int code = is_default(stream) ? fake_implicit(stream->context) : 0;

	if (code)
		free(data);
	return code ? code : stream->capture ? fake_record(call, stream, module, run, data) : add(call, stream, module, run, data);
}

int fake_enqueue(const char *call, struct stream *stream, int (*run)(void *), void *data)
{
	return enqueue(call, stream, NULL, run, data);
}

int fake_enqueue_launch(struct stream *stream, struct module *module, int (*run)(void *), void *data)
{
	return enqueue("cuLaunchKernel", stream, module, run, data);
}

struct again { int (*run)(void *); void *data; };

static int run_again(void *data)
{
	const struct again *a = data;

	return a->run(a->data);
}

int fake_enqueue_again(const char *call, struct stream *stream, struct module *module, int (*run)(void *), void *data)
{
	struct again *again = malloc(sizeof *again);

	if (!again)
		abort();
	*again = (struct again){ run, data };
	return enqueue(call, stream, module, run_again, again);
}

static void run_first(struct stream *stream)
{
	struct work *work = stream->first;
	int code = 0;

	stream->first = work->next;
	if (!stream->first) {
		size_t k = 0;

		stream->last = &stream->first;
		while (with_work[k] != stream)
			k++;
		with_work[k] = with_work[--n_with_work];
	}
	/* In a lost context no work runs any more, except that memory is freed. */
	if (!stream->context->lost || !strcmp(work->call, "cuMemFreeAsync"))
		code = work->run(work->data);
	if (code)
		fake_lose(stream->context, code);
	free(work->data);
	free(work);
}

/* Returns another stream, or NULL, whose earlier work `stream` must wait for: the default stream waits for blocking streams, and blocking
   streams wait for the default stream. */
static struct stream *before(const struct stream *stream)
{
	if (!is_default(stream) && !stream->blocking)
		return NULL;
	for (size_t k = 0; k < n_with_work; k++) {
		struct stream *other = with_work[k];

		if (other->context == stream->context && other->first->number < stream->first->number &&
		    (is_default(stream) ? other->blocking : is_default(other)))
			return other;
	}
	return NULL;
}

static void run_one(struct stream *stream)
{
	struct stream *other;

	while ((other = before(stream)))
		run_one(other);
	run_first(stream);
}

int fake_drain(struct stream *stream)
{
	while (stream->first)
		run_one(stream);
	return stream->context->lost;
}

void fake_drain_all(struct context *context)
{
	for (size_t k = 0; k < n_with_work; )
		if (with_work[k]->context == context) {
			fake_drain(with_work[k]);
			k = 0;
		} else
			k++;
}

/* Runs a little queued work, at random; each call that needs a context begins so. */
void fake_some(void)
{
	while (n_with_work && !fake_random(4))
		run_one(with_work[fake_random((uint32_t)n_with_work)]);
}

int fake_pending(const struct context *context, const struct module *module)
{
	int n = 0;

	for (size_t k = 0; k < n_with_work; k++)
		for (struct work *w = with_work[k]->first; w; w = w->next)
			n += with_work[k]->context == context && (!module || w->module == module);
	return n;
}

/* ---- calls ---- */

FAKE_API int cuStreamCreate(struct stream **result, unsigned flags)
{
	struct stream *stream;

	CALL(cuStreamCreate, NEEDS_CONTEXT);
	if (flags & ~(unsigned)NON_BLOCKING)
		return INVALID_VALUE;
	stream = fake_new(STREAM, sizeof *stream);
	stream->context = fake_current();
	stream->blocking = !(flags & NON_BLOCKING);
	stream->last = &stream->first;
	*result = stream;
	return 0;
}

/* Work that is queued on the destroyed stream still runs, at any later time. */
FAKE_API int cuStreamDestroy_v2(struct stream *stream)
{
	CALL(cuStreamDestroy_v2, NEEDS_CONTEXT);
	if (!fake_known("cuStreamDestroy", STREAM, stream))
		return INVALID_HANDLE;
	stream->handle.dead = 1;
	return 0;
}

FAKE_API int cuStreamSynchronize(struct stream *handle)
{
	struct stream *stream;

	CALL(cuStreamSynchronize, NEEDS_CONTEXT);
	stream = fake_stream("cuStreamSynchronize", handle);
	if (!stream)
		return INVALID_HANDLE;
	return fake_waits("cuStreamSynchronize", stream) ? STREAM_CAPTURE_UNSUPPORTED : fake_drain(stream);
}

FAKE_API int cuStreamGetCtx(struct stream *stream, struct context **context)
{
	CALL(cuStreamGetCtx, NEEDS_INIT);
	if (!stream || (uintptr_t)stream == LEGACY_STREAM) {
		*context = fake_current();
		return *context ? 0 : INVALID_CONTEXT;
	}
	if (!fake_known("cuStreamGetCtx", STREAM, stream))
		return INVALID_HANDLE;
	*context = stream->context;
	return 0;
}

/* ---- copies ---- */

struct copy { uint64_t device; void *host; size_t bytes; int byte; uint64_t from; };   /* from: the source of a copy within the device */

static int run_put(void *data)
{
	struct copy *c = data;
	int code = fake_reach("cuMemcpyHtoDAsync", c->device, c->bytes, WRITE);

	if (!code)
		memcpy(fake_data(c->device), c->host, c->bytes);
	return code;
}

/* Runs all work of each stream on which a copy from this host memory is queued. */
static void end_reading(const void *host, size_t bytes)
{
	for (size_t k = 0; k < n_with_work; k++)
		for (struct work *w = with_work[k]->first; w; w = w->next) {
			const struct copy *c = w->data;

			if (w->run != run_put || (const char *)c->host >= (const char *)host + bytes ||
			    (const char *)host >= (const char *)c->host + c->bytes)
				continue;
			fake_drain(with_work[k]);
			end_reading(host, bytes);
			return;
		}
}

static int run_get(void *data)
{
	struct copy *c = data;
	int code = fake_reach("cuMemcpyDtoHAsync", c->device, c->bytes, READ);

	if (!code)
		memcpy(c->host, fake_data(c->device), c->bytes);
	return code;
}

static int run_copy(void *data)
{
	struct copy *c = data;
	int code = fake_reach("cuMemcpyDtoDAsync", c->from, c->bytes, READ);

	if (!code)
		code = fake_reach("cuMemcpyDtoDAsync", c->device, c->bytes, WRITE);
	if (!code)
		memcpy(fake_data(c->device), fake_data(c->from), c->bytes);
	return code;
}

static int run_fill(void *data)
{
	struct copy *c = data;
	int code = fake_reach("cuMemsetD8Async", c->device, c->bytes, WRITE);

	if (!code)
		memset(fake_data(c->device), c->byte, c->bytes);
	return code;
}

static int enqueue_copy(const char *call, int (*run)(void *), struct copy what, struct stream *handle)
{
	struct stream *stream = fake_stream(call, handle);
	struct copy *c;
	int code;

	if (!stream)
		return INVALID_HANDLE;
	if (!what.bytes)
		return 0;
	code = fake_owned(call, "the device's side", stream->context, what.device, what.bytes);
	if (code)
		return code;
	if (what.host && fake_is_device((uint64_t)(uintptr_t)what.host)) {
		fake_report("%s: the host's side is device memory", call);
		return INVALID_VALUE;
	}
	if (what.from) {
		code = fake_owned(call, "the source", stream->context, what.from, what.bytes);
		if (code)
			return code;
	} else if (run != run_fill && !what.host) {
		return INVALID_VALUE;
	}
	c = malloc(sizeof *c);
	if (!c)
		abort();
	*c = what;
	return fake_enqueue(call, stream, run, c);
}

/* The source is read when the copy runs, as from page-locked memory. */
FAKE_API int cuMemcpyHtoDAsync_v2(uint64_t to, const void *from, size_t bytes, struct stream *stream)
{
	CALL(cuMemcpyHtoDAsync_v2, NEEDS_CONTEXT);
	return enqueue_copy("cuMemcpyHtoDAsync", run_put, (struct copy){ .device = to, .host = (void *)(uintptr_t)from, .bytes = bytes }, stream);
}

/* Until the copy has run, the destination holds NaNs, so that a test does not take its old contents for a result. */
FAKE_API int cuMemcpyDtoHAsync_v2(void *to, uint64_t from, size_t bytes, struct stream *stream)
{
	int code;

	CALL(cuMemcpyDtoHAsync_v2, NEEDS_CONTEXT);
	end_reading(to, bytes);
	code = enqueue_copy("cuMemcpyDtoHAsync", run_get, (struct copy){ .device = from, .host = to, .bytes = bytes }, stream);
	if (!code && bytes)
		memset(to, NAN_BYTE, bytes);
	return code;
}

FAKE_API int cuMemcpyDtoDAsync_v2(uint64_t to, uint64_t from, size_t bytes, struct stream *stream)
{
	CALL(cuMemcpyDtoDAsync_v2, NEEDS_CONTEXT);
	return enqueue_copy("cuMemcpyDtoDAsync", run_copy, (struct copy){ .device = to, .from = from, .bytes = bytes }, stream);
}

FAKE_API int cuMemsetD8Async(uint64_t to, unsigned char byte, size_t n, struct stream *stream)
{
	CALL(cuMemsetD8Async, NEEDS_CONTEXT);
	return enqueue_copy("cuMemsetD8Async", run_fill, (struct copy){ .device = to, .bytes = n, .byte = byte }, stream);
}

static int at_once(int code)
{
	return code ? code : fake_drain(default_stream(fake_current()));
}

FAKE_API int cuMemcpyHtoD_v2(uint64_t to, const void *from, size_t bytes)
{
	CALL(cuMemcpyHtoD_v2, NEEDS_CONTEXT);
	return at_once(enqueue_copy("cuMemcpyHtoD", run_put, (struct copy){ .device = to, .host = (void *)(uintptr_t)from, .bytes = bytes },
	                            NULL));
}

FAKE_API int cuMemcpyDtoH_v2(void *to, uint64_t from, size_t bytes)
{
	CALL(cuMemcpyDtoH_v2, NEEDS_CONTEXT);
	return at_once(enqueue_copy("cuMemcpyDtoH", run_get, (struct copy){ .device = from, .host = to, .bytes = bytes }, NULL));
}
