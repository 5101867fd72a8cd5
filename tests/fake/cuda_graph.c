/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stream capture, and graphs of what was captured. As the driver's documents say, an unsafe call from any thread invalidates a capture in
 * global mode; from the thread that began the capture, an unsafe call also invalidates a capture in thread-local mode; no unsafe call
 * invalidates one in relaxed mode. A wait for the captured stream invalidates the capture in every mode.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "cuda.h"

enum { GLOBAL, THREAD_LOCAL, RELAXED };
enum { IDLE, ACTIVE, SPOILT };

/* A command of a graph, in a list in order; it is kept until the process ends, since it may be queued. */
struct node {
	struct node *next, *any;                 /* any: the next in the list of all graphs' nodes */
	const char *call;
	struct module *module;
	int (*run)(void *);
	void *data;
};

struct capture {
	struct capture *next;                    /* the next in the list of active captures */
	struct stream *stream;
	pthread_t thread;
	unsigned mode;
	int spoilt;
	struct node *first, **last;
};

struct graph { struct handle handle; struct node *first; };

static struct capture *captures;
static struct node *nodes;

/* ---- what is not safe ---- */

static int is_safe(const struct capture *c)
{
	return c->mode == RELAXED || (c->mode == THREAD_LOCAL && !pthread_equal(c->thread, pthread_self()));
}

int fake_capturing(const char *call)
{
	int n = fake_setting("CAPTURE", 0) != 0;

	for (struct capture *c = captures; c; c = c->next)
		if (!is_safe(c))
			n += c->spoilt = 1;
	if (n)
		fake_report("%s: not permitted while a stream is captured", call);
	return n != 0;
}

int fake_waits(const char *call, struct stream *stream)
{
	if (!stream->capture)
		return fake_setting("CAPTURE", 0) ? fake_capturing(call) : 0;
	stream->capture->spoilt = 1;
	fake_report("%s: of a stream that is captured", call);
	return 1;
}

int fake_implicit(struct context *context)
{
	for (struct capture *c = captures; c; c = c->next)
		if (c->stream->context == context && c->stream->blocking) {
			c->spoilt = 1;
			return STREAM_CAPTURE_IMPLICIT;
		}
	return 0;
}

/* ---- capture ---- */

int fake_record(const char *call, struct stream *stream, struct module *module, int (*run)(void *), void *data)
{
	struct capture *c = stream->capture;
	struct node *node = calloc(1, sizeof *node);

	if (!node)
		abort();
	*node = (struct node){ NULL, nodes, call, module, run, data };
	nodes = node;
	*c->last = node;
	c->last = &node->next;
	/* The driver captures cuMemAllocAsync and cuMemFreeAsync; the library must not rely on that, so they are reported. */
	if (!strncmp(call, "cuMem", 5) && strstr(call, "Async") && (strstr(call, "Alloc") || strstr(call, "Free"))) {
		fake_report("%s: on a stream that is captured", call);
		c->spoilt = 1;
		return STREAM_CAPTURE_UNSUPPORTED;
	}
	return c->spoilt ? STREAM_CAPTURE_INVALIDATED : 0;
}

FAKE_API int cuStreamBeginCapture_v2(struct stream *handle, unsigned mode)
{
	struct stream *stream;
	struct capture *c;

	CALL(cuStreamBeginCapture_v2, NEEDS_CONTEXT);
	stream = fake_stream("cuStreamBeginCapture", handle);
	if (!stream)
		return INVALID_HANDLE;
	if (!stream->handle.kind)
		return STREAM_CAPTURE_UNSUPPORTED;
	if (mode > RELAXED || stream->capture)
		return INVALID_VALUE;
	c = calloc(1, sizeof *c);
	if (!c)
		abort();
	*c = (struct capture){ captures, stream, pthread_self(), mode, 0, NULL, &c->first };
	captures = stream->capture = c;
	return 0;
}

FAKE_API int cuStreamEndCapture(struct stream *handle, struct graph **result)
{
	struct capture *c, **at = &captures;
	struct stream *stream;
	int code = 0;

	CALL(cuStreamEndCapture, NEEDS_CONTEXT);
	stream = fake_stream("cuStreamEndCapture", handle);
	*result = NULL;
	if (!stream || !stream->capture)
		return stream ? INVALID_VALUE : INVALID_HANDLE;
	c = stream->capture;
	if (c->mode != RELAXED && !pthread_equal(c->thread, pthread_self()))
		return STREAM_CAPTURE_WRONG_THREAD;
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	stream->capture = NULL;
	if (c->spoilt) {
		code = STREAM_CAPTURE_INVALIDATED;
	} else {
		*result = fake_new(GRAPH, sizeof **result);
		(*result)->first = c->first;
	}
	free(c);
	return code;
}

FAKE_API int cuStreamIsCapturing(struct stream *handle, unsigned *status)
{
	struct stream *stream;

	CALL(cuStreamIsCapturing, NEEDS_CONTEXT);
	stream = fake_stream("cuStreamIsCapturing", handle);
	if (!stream)
		return INVALID_HANDLE;
	*status = (unsigned)fake_setting("CAPTURE", IDLE);
	if (stream->capture)
		*status = stream->capture->spoilt ? SPOILT : ACTIVE;
	/* The default stream is never captured; while a stream that waits for the default stream is captured, cuStreamIsCapturing() of the
	   default stream fails, and invalidates nothing. */
	for (struct capture *c = captures; c && !stream->handle.kind; c = c->next)
		if (c->stream->context == stream->context && c->stream->blocking)
			return STREAM_CAPTURE_IMPLICIT;
	return 0;
}

/* ---- graphs ---- */

FAKE_API int cuGraphInstantiateWithFlags(struct graph **exec, struct graph *graph, unsigned long long flags)
{
	CALL(cuGraphInstantiateWithFlags, NEEDS_CONTEXT);
	if (!fake_known("cuGraphInstantiate", GRAPH, graph) || flags)
		return INVALID_VALUE;
	*exec = fake_new(GRAPH_EXEC, sizeof **exec);
	(*exec)->first = graph->first;
	return 0;
}

FAKE_API int cuGraphLaunch(struct graph *exec, struct stream *handle)
{
	struct stream *stream;
	int code = 0;

	CALL(cuGraphLaunch, NEEDS_CONTEXT);
	stream = fake_stream("cuGraphLaunch", handle);
	if (!stream || !fake_known("cuGraphLaunch", GRAPH_EXEC, exec))
		return INVALID_HANDLE;
	for (struct node *n = exec->first; n && !code; n = n->next)
		code = fake_enqueue_again(n->call, stream, n->module, n->run, n->data);
	return code;
}

static int destroy(const char *call, int kind, struct graph *graph)
{
	struct handle *h = fake_known(call, kind, graph);

	if (h)
		h->dead = 1;
	return h ? 0 : INVALID_VALUE;
}

FAKE_API int cuGraphExecDestroy(struct graph *exec)
{
	CALL(cuGraphExecDestroy, NEEDS_CONTEXT);
	return destroy("cuGraphExecDestroy", GRAPH_EXEC, exec);
}

FAKE_API int cuGraphDestroy(struct graph *graph)
{
	CALL(cuGraphDestroy, NEEDS_CONTEXT);
	return destroy("cuGraphDestroy", GRAPH, graph);
}
