/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lends streams to callers.  Up to IDLE_MAX streams that were given back, and whose work succeeded, are kept for later callers until the
 * context closes.
 */
#include <pthread.h>

#include "runtime/device/device.h"

/* The most idle streams that a context keeps; further ones are closed when they are given back. */
enum { IDLE_MAX = 64 };

struct idle {
	struct cg_context_attachment attachment;
	pthread_mutex_t lock;
	struct cg_stream *streams[IDLE_MAX];
	int n;
};

static void open_idle(struct cg_context_attachment *a)
{
	pthread_mutex_init(&((struct idle *)a)->lock, NULL);
}

static void close_idle(struct cg_context_attachment *a)
{
	struct idle *idle = (struct idle *)a;

	while (idle->n)
		cg_stream_free(idle->streams[--idle->n]);
	pthread_mutex_destroy(&idle->lock);
}

static struct idle *get_idle(struct cg_context *context)
{
	static const struct cg_context_attachment_kind kind = { open_idle, close_idle };

	return (struct idle *)cg_context_get_attachment(context, &kind, sizeof(struct idle));
}

int cg_stream_take(struct cg_context *context, struct cg_stream **stream)
{
	struct idle *idle;

	if (!stream)
		return cg_fail(CG_BAD_ARGUMENT, "cg_stream_take: stream: expected a pointer for the result, got NULL");
	*stream = NULL;
	CG_TRY(cg_context_check(context, "cg_stream_take"));
	idle = get_idle(context);
	if (!idle)
		return CG_NO_MEMORY;
	pthread_mutex_lock(&idle->lock);
	if (idle->n)
		*stream = idle->streams[--idle->n];
	pthread_mutex_unlock(&idle->lock);
	if (*stream)
		cg_context_retain(context);
	else
		CG_TRY(cg_stream_open(context, NULL, stream));
	(*stream)->is_taken = 1;
	return CG_OK;
}

int cg_stream_give(struct cg_stream *stream)
{
	struct cg_context *context = stream ? stream->context : NULL;
	struct idle *idle;
	int code, is_kept;

	CG_TRY(cg_context_check(context, "cg_stream_give"));
	if (!stream->is_taken)
		return cg_fail(CG_BAD_ARGUMENT, "cg_stream_give: stream: expected a stream of cg_stream_take, got one of cg_stream_open "
		               "or one that was given back already");
	code = cg_stream_sync(stream);
	idle = get_idle(context);
	stream->is_taken = 0;
	pthread_mutex_lock(&idle->lock);
	is_kept = !code && idle->n < IDLE_MAX;
	if (is_kept)
		idle->streams[idle->n++] = stream;
	pthread_mutex_unlock(&idle->lock);
	if (is_kept)
		cg_close(context);
	else
		cg_stream_close(stream);
	return code;
}
