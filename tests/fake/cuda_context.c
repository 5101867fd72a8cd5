/* SPDX-License-Identifier: Apache-2.0 */
/* Calls, handles, contexts of devices, and what has leaked when the process ends. */
#include <fnmatch.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cuda.h"

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pid_t initialised;                        /* the process that called cuInit; the driver does not work in a forked child */

/* ---- the stack of contexts ---- */

enum { DEEPEST = 64, MOST_DEVICES = 8 };
static _Thread_local struct context *stack[DEEPEST];
static _Thread_local int depth;
static struct context *primary[MOST_DEVICES];

struct context *fake_current(void)
{
	return depth ? stack[depth - 1] : NULL;
}

void fake_lose(struct context *context, int code)
{
	if (!context->lost)
		context->lost = code;
}

/* Codes after which a context cannot be used. */
static int is_fatal(int code)
{
	return (code >= 700 && code <= 719 && code != 701 && code != 708 && code != 709 && code != 712 && code != 713) || code == 214;
}

/* The code with which a call fails where CELLGRAD_FAKE_FAIL gives none. */
static int usual_failure(const char *call)
{
	enum { BLAS_INTERNAL_ERROR = 14, DNN_INTERNAL_ERROR = 4000 };

	return !strncmp(call, "cublas", 6) ? BLAS_INTERNAL_ERROR : !strncmp(call, "cudnn", 5) ? DNN_INTERNAL_ERROR : UNKNOWN;
}

/* How often each call was made. The names of the calls are not copied: they are literals of libraries that stay loaded. */
enum { MOST_CALLS = 256 };
static struct { const char *name; long n; } counts[MOST_CALLS];

static void count(const char *call)
{
	int k = 0;

	while (k < MOST_CALLS - 1 && counts[k].name && counts[k].name != call && strcmp(counts[k].name, call))
		k++;
	counts[k].name = call;
	counts[k].n++;
}

FAKE_API long fake_count(const char *pattern)
{
	long n = 0;

	pthread_mutex_lock(&lock);
	for (int k = 0; k < MOST_CALLS && counts[k].name; k++)
		n += fnmatch(pattern, counts[k].name, 0) ? 0 : counts[k].n;
	pthread_mutex_unlock(&lock);
	return n;
}

int fake_enter(const char *call, int needs)
{
	struct context *context = fake_current();
	int code;

	pthread_mutex_lock(&lock);
	count(call);
	if (needs && initialised != getpid())
		return NOT_INITIALIZED;
	code = fake_refused(call, usual_failure(call));
	if (code && context && is_fatal(code))
		fake_lose(context, code);
	if (code)
		return code;
	if (needs < NEEDS_CONTEXT)
		return 0;
	if (!context || context->handle.dead)
		return INVALID_CONTEXT;
	fake_some();
	return context->lost;
}

void fake_leave(int *inside)
{
	(void)inside;
	pthread_mutex_unlock(&lock);
}

/* ---- handles ---- */

/* The names of the kinds of handles, by kind; those of kinds 5 to 14 belong to cuBLAS and cuDNN. */
static const char *const names[] = {
	"", "a context", "a stream", "a module", "a function", "a handle of cuBLAS", "a handle of cuBLASLt", "a description", "a layout",
	"a preference", "a handle of cuDNN", "a tensor descriptor", "a dropout descriptor", "an RNN descriptor", "an RNN data descriptor",
	"a graph", "an executable graph"
};
enum { BUCKETS = 1024, KINDS = sizeof names / sizeof *names };
static struct handle *handles[BUCKETS];

static size_t bucket(const void *handle)
{
	return (uintptr_t)handle / 32 % BUCKETS;
}

void *fake_new(int kind, size_t bytes)
{
	struct handle *handle = calloc(1, bytes);

	if (!handle)
		abort();
	handle->kind = kind;
	handle->next = handles[bucket(handle)];
	return handles[bucket(handle)] = handle;
}

void *fake_known(const char *call, int kind, void *wanted)
{
	for (struct handle *h = wanted ? handles[bucket(wanted)] : NULL; h; h = h->next)
		if (h == wanted && h->kind == kind && !h->dead)
			return h;
		else if (h == wanted && h->kind == kind) {
			fake_report("%s: got %s that was destroyed", call, names[kind]);
			return NULL;
		}
	fake_report("%s: %p is not %s", call, wanted, names[kind]);
	return NULL;
}

struct handle *fake_each(struct handle *after)
{
	size_t k = after ? bucket(after) : 0;

	if (after && after->next)
		return after->next;
	for (k += after != NULL; k < BUCKETS; k++)
		if (handles[k])
			return handles[k];
	return NULL;
}

/* ---- the end of a context ---- */

/* Returns how many streams or modules of a context were not destroyed. */
static int count_handles(const struct context *context, int kind)
{
	int n = 0;

	for (struct handle *h = fake_each(NULL); h; h = fake_each(h))
		n += h->kind == kind && !h->dead && (kind == MODULE ? ((struct module *)h)->context : ((struct stream *)h)->context) == context;
	return n;
}

/* Reports what was not freed, unless the context is lost: then nothing can be freed. */
static void report_leaks(struct context *context, const char *when)
{
	int streams = count_handles(context, STREAM), modules = count_handles(context, MODULE);
	size_t blocks, bytes;

	if (context->lost)
		return;
	fake_memory_leaks(context, &blocks, &bytes);
	if (blocks)
		fake_report("%s: %zu bytes of device memory in %zu pieces were not freed", when, bytes, blocks);
	if (streams)
		fake_report("%s: %d streams were not destroyed", when, streams);
	if (modules)
		fake_report("%s: %d modules were not unloaded", when, modules);
}

static void end_context(const char *call, struct context *context)
{
	if (fake_pending(context, NULL) && !context->lost)
		fake_report("%s: work of the context was never waited for", call);
	fake_drain_all(context);
	report_leaks(context, call);
	for (struct handle *h = fake_each(NULL); h; h = fake_each(h))
		if ((h->kind == STREAM && ((struct stream *)h)->context == context) ||
		    (h->kind == MODULE && ((struct module *)h)->context == context))
			h->dead = 1;
	fake_memory_release(context);
	context->handle.dead = 1;
}

static __attribute__((destructor)) void at_exit(void)
{
	int n[KINDS] = { 0 };

	if (initialised != getpid())
		return;
	for (struct handle *h = fake_each(NULL); h; h = fake_each(h))
		n[h->kind] += !h->dead;
	for (int k = FUNCTION + 1; k < KINDS; k++)
		if (n[k])
			fake_report("at exit: %s was not destroyed, %d of them", names[k], n[k]);
	for (struct handle *h = fake_each(NULL); h; h = fake_each(h)) {
		struct context *context = (struct context *)h;

		if (h->kind != CONTEXT || h->dead)
			continue;
		fake_report("at exit: the context of device %d was not released (%d times retained)", context->device, context->retained);
		report_leaks(context, "at exit");
	}
}

/* ---- calls ---- */

FAKE_API int cuInit(unsigned flags)
{
	CALL(cuInit, ANY_TIME);
	if (flags)
		return INVALID_VALUE;
	if (initialised && initialised != getpid())
		return NOT_INITIALIZED;
	if (!fake_devices())
		return NO_DEVICE;
	initialised = getpid();
	return 0;
}

FAKE_API int cuDevicePrimaryCtxRetain(struct context **context, int device)
{
	CALL(cuDevicePrimaryCtxRetain, NEEDS_INIT);
	if (device < 0 || device >= fake_devices())
		return INVALID_DEVICE;
	/* CELLGRAD_FAKE_MODE: in compute mode 2 no process may use the device; in mode 3, with CELLGRAD_FAKE_BUSY, another process uses it
	   alone. */
	if (fake_setting("MODE", 0) == 2 || (fake_setting("MODE", 0) == 3 && fake_setting("BUSY", 0)))
		return DEVICE_UNAVAILABLE;
	if (!primary[device]) {
		primary[device] = fake_new(CONTEXT, sizeof **context);
		primary[device]->device = device;
	}
	primary[device]->retained++;
	*context = primary[device];
	return 0;
}

FAKE_API int cuDevicePrimaryCtxRelease_v2(int device)
{
	CALL(cuDevicePrimaryCtxRelease_v2, NEEDS_INIT);
	if (device < 0 || device >= fake_devices())
		return INVALID_DEVICE;
	if (!primary[device]) {
		fake_report("cuDevicePrimaryCtxRelease: the context of device %d is not retained", device);
		return INVALID_CONTEXT;
	}
	if (!--primary[device]->retained) {
		end_context("cuDevicePrimaryCtxRelease", primary[device]);
		primary[device] = NULL;
	}
	return 0;
}

/* Makes a context for the caller, beside the device's primary one, and makes it current. */
FAKE_API int cuCtxCreate_v2(struct context **result, unsigned flags, int device)
{
	struct context *context;

	CALL(cuCtxCreate_v2, NEEDS_INIT);
	if (device < 0 || device >= fake_devices())
		return INVALID_DEVICE;
	if (flags || depth == DEEPEST)
		return INVALID_VALUE;
	context = fake_new(CONTEXT, sizeof *context);
	context->device = device;
	context->own = 1;
	*result = stack[depth++] = context;
	return 0;
}

FAKE_API int cuCtxDestroy_v2(struct context *context)
{
	CALL(cuCtxDestroy_v2, NEEDS_INIT);
	if (!fake_known("cuCtxDestroy", CONTEXT, context) || !context->own)
		return INVALID_CONTEXT;
	end_context("cuCtxDestroy", context);
	if (fake_current() == context)
		depth--;
	return 0;
}

FAKE_API int cuCtxPushCurrent_v2(struct context *context)
{
	CALL(cuCtxPushCurrent_v2, NEEDS_INIT);
	if (!fake_known("cuCtxPushCurrent", CONTEXT, context))
		return INVALID_CONTEXT;
	if (depth == DEEPEST) {
		fake_report("cuCtxPushCurrent: %d contexts were pushed and not popped", depth);
		return INVALID_VALUE;
	}
	stack[depth++] = context;
	return 0;
}

FAKE_API int cuCtxPopCurrent_v2(struct context **context)
{
	CALL(cuCtxPopCurrent_v2, NEEDS_INIT);
	if (!depth) {
		fake_report("cuCtxPopCurrent: there is none");
		return INVALID_CONTEXT;
	}
	depth--;
	if (context)
		*context = stack[depth];
	return 0;
}

FAKE_API int cuCtxGetCurrent(struct context **context)
{
	CALL(cuCtxGetCurrent, NEEDS_INIT);
	*context = fake_current();
	return 0;
}

FAKE_API int cuCtxSetCurrent(struct context *context)
{
	CALL(cuCtxSetCurrent, NEEDS_INIT);
	if (context && !fake_known("cuCtxSetCurrent", CONTEXT, context))
		return INVALID_CONTEXT;
	if (depth)
		depth--;
	if (context)
		stack[depth++] = context;
	return 0;
}

FAKE_API int cuCtxGetDevice(int *device)
{
	CALL(cuCtxGetDevice, NEEDS_INIT);
	if (!fake_current() || fake_current()->handle.dead)
		return INVALID_CONTEXT;
	*device = fake_current()->device;
	return 0;
}

FAKE_API int cuCtxSynchronize(void)
{
	CALL(cuCtxSynchronize, NEEDS_CONTEXT);
	if (fake_capturing("cuCtxSynchronize"))
		return STREAM_CAPTURE_UNSUPPORTED;
	fake_drain_all(fake_current());
	return fake_current()->lost;
}
