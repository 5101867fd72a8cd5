/* SPDX-License-Identifier: Apache-2.0 */
/* The stand-in for libcudnn: versions, error texts, handles, and descriptors of tensors and of dropout. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cudnn.h"

/* ---- versions and chance ---- */

int fake_dnn_version(void)
{
	const char *value = getenv("CELLGRAD_FAKE_CUDNN");
	int major, minor = 0, patch = 0;

	if (!value || sscanf(value, "%d.%d.%d", &major, &minor, &patch) < 1)
		return FAKE_CUDNN_MAJOR == 8 ? 80907 : 91300;
	return major * 10000 + minor * 100 + patch;
}

/* Returns the version as a number, whose encoding changed with version 9. */
FAKE_API size_t cudnnGetVersion(void)
{
	int version = fake_dnn_version();

	return (size_t)(version >= 90000 ? version : version / 10000 * 1000 + version % 10000);
}

FAKE_API size_t cudnnGetCudartVersion(void)
{
	long major = fake_setting("CUDART", 0);

	return (size_t)(major ? major * 1000 : fake_version());
}

/* A setting that is drawn by chance depends on the program's name as well as on the seed. */
int fake_dnn_chance(const char *name, int which)
{
	static int drawn, chances[CHANCES];
	char whole[64];

	for (int k = 0; !drawn && k < CHANCES; k++) {
		uint32_t word = 0;

		for (const char *at = program_invocation_short_name; *at; at++)
			word = word * 31 + (unsigned char)*at;
		chances[k] = (int)((fake_random(2) + (word >> (4 * k))) & 1);
	}
	drawn = 1;
	snprintf(whole, sizeof whole, "CUDNN_%s", name);
	return (int)fake_setting(whole, chances[which]);
}

/* ---- errors ---- */

static _Thread_local char last[512];

static int numbered(int status)
{
	static const struct { int from, to, old; } all[] = {
		{ 1000, 1999, 1 }, { 2000, 2999, 3 }, { 3007, 3007, 6 }, { 3000, 3999, 9 }, { 4003, 4004, 2 }, { 4000, 4999, 4 }, { 5000, 5999, 8 },
	};

	for (size_t k = 0; fake_dnn_version() < 90000 && k < sizeof all / sizeof *all; k++)
		if (status >= all[k].from && status <= all[k].to)
			return all[k].old;
	return status;
}

int fake_dnn_wrong(const char *call, const char *format, ...)
{
	va_list text;

	va_start(text, format);
	vsnprintf(last, sizeof last, format, text);
	va_end(text);
	fake_report("%s: %s", call, last);
	return numbered(DNN_BAD_PARAM);
}

int fake_dnn_lacks(const char *call, const char *format, ...)
{
	va_list text;

	(void)call;
	va_start(text, format);
	vsnprintf(last, sizeof last, format, text);
	va_end(text);
	return numbered(DNN_NOT_SUPPORTED);
}

int fake_dnn_bad(const char *call)
{
	snprintf(last, sizeof last, "%s: a handle, a descriptor or memory that is none", call);
	return numbered(DNN_BAD_PARAM);
}

/* Returns the status of cuDNN for the code with which fake_enter() refused a call. */
int fake_dnn_refused(const char *call, int code)
{
	snprintf(last, sizeof last, "%s: refused, %d", call, code);
	if (code >= 1000)
		return numbered(code);
	return numbered(code == NOT_INITIALIZED || code == INVALID_CONTEXT ? DNN_NOT_INITIALIZED : DNN_EXECUTION_FAILED);
}

FAKE_API const char *cudnnGetErrorString(int status)
{
	static const struct { int status, old; const char *text, *old_text; } all[] = {
		{ 0, 0, "SUCCESS", "SUCCESS" }, { DNN_NOT_INITIALIZED, 1, "NOT_INITIALIZED", "NOT_INITIALIZED" },
		{ DNN_ALLOC_FAILED, 2, "INTERNAL_ERROR_HOST_ALLOCATION_FAILED", "ALLOC_FAILED" }, { DNN_BAD_PARAM, 3, "BAD_PARAM", "BAD_PARAM" },
		{ DNN_INTERNAL_ERROR, 4, "INTERNAL_ERROR", "INTERNAL_ERROR" },
		{ DNN_ARCH_MISMATCH, 6, "NOT_SUPPORTED_ARCH_MISMATCH", "ARCH_MISMATCH" },
		{ DNN_EXECUTION_FAILED, 8, "EXECUTION_FAILED", "EXECUTION_FAILED" },
		{ DNN_NOT_SUPPORTED, 9, "NOT_SUPPORTED", "NOT_SUPPORTED" },
	};
	static _Thread_local char text[80];
	int old = fake_dnn_version() < 90000;

	for (size_t k = 0; k < sizeof all / sizeof *all; k++)
		if (status == (old ? all[k].old : all[k].status)) {
			snprintf(text, sizeof text, "CUDNN_STATUS_%s", old ? all[k].old_text : all[k].text);
			return text;
		}
	return "CUDNN_UNKNOWN_STATUS";
}

/* cuDNN 9 has cudnnGetLastErrorString, cuDNN 8 does not. */
#if FAKE_CUDNN_MAJOR >= 9
FAKE_API void cudnnGetLastErrorString(char *text, size_t bytes)
{
	if (text && bytes)
		snprintf(text, bytes, "%s", last);
}
#endif

/* ---- handles ---- */

FAKE_API int cudnnCreate(struct dnn **result)
{
	DNN_CALL(cudnnCreate, NEEDS_CONTEXT);
	if (!result)
		return fake_dnn_wrong("cudnnCreate", "a null pointer");
	if (fake_capturing("cudnnCreate"))
		return fake_dnn_bad("cudnnCreate");
	*result = fake_new(DNN_HANDLE, sizeof **result);
	(*result)->context = fake_current();
	return 0;
}

struct dnn *fake_dnn_handle(const char *call, struct dnn *handle)
{
	handle = fake_known(call, DNN_HANDLE, handle);
	if (handle && handle->context != fake_current()) {
		fake_dnn_wrong(call, "the handle is of another context than the current one");
		return NULL;
	}
	return handle;
}

/* cudnnDestroy of cuDNN waits for the device; that of the stand-in does not, so that code that relies on the wait may fail. */
FAKE_API int cudnnDestroy(struct dnn *handle)
{
	DNN_CALL(cudnnDestroy, NEEDS_CONTEXT);
	if (!fake_dnn_handle("cudnnDestroy", handle) || fake_capturing("cudnnDestroy"))
		return fake_dnn_bad("cudnnDestroy");
	handle->handle.dead = 1;
	return 0;
}

FAKE_API int cudnnSetStream(struct dnn *handle, struct stream *stream)
{
	DNN_CALL(cudnnSetStream, NEEDS_CONTEXT);
	if (!fake_dnn_handle("cudnnSetStream", handle) || !fake_stream("cudnnSetStream", stream))
		return fake_dnn_bad("cudnnSetStream");
	handle->stream = stream;
	return 0;
}

/* ---- descriptors of tensors ---- */

/* Reports a descriptor that was made, but never set. */
void *fake_dnn_set(const char *call, int kind, void *descriptor)
{
	struct { struct handle handle; int set; } *any = fake_known(call, kind, descriptor);

	if (any && !any->set) {
		fake_dnn_wrong(call, "a descriptor that was made, but never set");
		return NULL;
	}
	return any;
}

/* Destroys a descriptor; a null pointer is ignored. */
int fake_dnn_destroy(const char *call, int kind, void *descriptor)
{
	struct handle *h = descriptor ? fake_known(call, kind, descriptor) : NULL;

	if (descriptor && !h)
		return fake_dnn_bad(call);
	if (h)
		h->dead = 1;
	return 0;
}

int fake_dnn_type(int type)
{
	switch (type) {
	case DNN_FLOAT:    return R_32F;
	case DNN_DOUBLE:   return R_64F;
	case DNN_HALF:     return R_16F;
	case DNN_BFLOAT16: return R_16BF;
	}
	return -1;
}

FAKE_API int cudnnCreateTensorDescriptor(struct tensor **result)
{
	DNN_CALL(cudnnCreateTensorDescriptor, ANY_TIME);
	*result = fake_new(DNN_TENSOR, sizeof **result);
	return 0;
}

FAKE_API int cudnnDestroyTensorDescriptor(struct tensor *tensor)
{
	DNN_CALL(cudnnDestroyTensorDescriptor, ANY_TIME);
	return fake_dnn_destroy("cudnnDestroyTensorDescriptor", DNN_TENSOR, tensor);
}

FAKE_API int cudnnSetTensorNdDescriptor(struct tensor *tensor, int type, int n, const int *dims, const int *strides)
{
	const char *call = "cudnnSetTensorNdDescriptor";

	DNN_CALL(cudnnSetTensorNdDescriptor, ANY_TIME);
	if (!fake_known(call, DNN_TENSOR, tensor))
		return fake_dnn_bad(call);
	if (fake_dnn_type(type) < 0 || n > MOST_DIMS)
		return fake_dnn_lacks(call, "type %d, %d dimensions", type, n);
	if (n < 1 || !dims || !strides)
		return fake_dnn_wrong(call, "%d dimensions at %p, strides at %p", n, (const void *)dims, (const void *)strides);
	for (int k = 0; k < n; k++)
		if (dims[k] < 1 || strides[k] < 0 || (!strides[k] && dims[k] > 1))
			return fake_dnn_wrong(call, "dimension %d is %d, its stride %d", k, dims[k], strides[k]);
	tensor->set = 1;
	tensor->type = type;
	tensor->n = n;
	memcpy(tensor->dims, dims, (size_t)n * sizeof *dims);
	memcpy(tensor->strides, strides, (size_t)n * sizeof *strides);
	return 0;
}

/* cudnnGetRNNWeightParams gives no dimensions to the descriptor of an absent matrix. */
FAKE_API int cudnnGetTensorNdDescriptor(struct tensor *tensor, int most, int *type, int *n, int *dims, int *strides)
{
	const char *call = "cudnnGetTensorNdDescriptor";

	DNN_CALL(cudnnGetTensorNdDescriptor, ANY_TIME);
	if (!fake_dnn_set(call, DNN_TENSOR, tensor))
		return fake_dnn_bad(call);
	if (!type || !n || (most > 0 && (!dims || !strides)))
		return fake_dnn_wrong(call, "a null pointer");
	*type = tensor->type;
	*n = tensor->n;
	for (int k = 0; k < most && k < tensor->n; k++) {
		dims[k] = tensor->dims[k];
		strides[k] = tensor->strides[k];
	}
	return 0;
}

/* ---- dropout ---- */

enum { STATES_BYTES = 49152 };
struct seeding { uint64_t at, seed; };

static int run_seeding(void *data)
{
	struct seeding *s = data;
	int code = fake_reach("cudnnSetDropoutDescriptor", s->at, STATES_BYTES, WRITE);

	if (code)
		return code;
	memset(fake_data(s->at), 0xa5, STATES_BYTES);
	memcpy(fake_data(s->at), &s->seed, sizeof s->seed);
	return 0;
}

FAKE_API int cudnnCreateDropoutDescriptor(struct dropout **result)
{
	DNN_CALL(cudnnCreateDropoutDescriptor, ANY_TIME);
	*result = fake_new(DNN_DROPOUT, sizeof **result);
	return 0;
}

FAKE_API int cudnnDestroyDropoutDescriptor(struct dropout *dropout)
{
	DNN_CALL(cudnnDestroyDropoutDescriptor, ANY_TIME);
	return fake_dnn_destroy("cudnnDestroyDropoutDescriptor", DNN_DROPOUT, dropout);
}

FAKE_API int cudnnDropoutGetStatesSize(struct dnn *handle, size_t *bytes)
{
	DNN_CALL(cudnnDropoutGetStatesSize, NEEDS_CONTEXT);
	if (!fake_dnn_handle("cudnnDropoutGetStatesSize", handle) || !bytes)
		return fake_dnn_bad("cudnnDropoutGetStatesSize");
	*bytes = STATES_BYTES;
	return 0;
}

/* cudnnSetDropoutDescriptor accepts a null pointer for `states`, from which masks are drawn, if the rate is 0. */
FAKE_API int cudnnSetDropoutDescriptor(struct dropout *dropout, struct dnn *handle, float rate, void *states, size_t bytes,
                                       unsigned long long seed)
{
	const char *call = "cudnnSetDropoutDescriptor";
	struct seeding *s;

	DNN_CALL(cudnnSetDropoutDescriptor, NEEDS_CONTEXT);
	if (!fake_known(call, DNN_DROPOUT, dropout) || !fake_dnn_handle(call, handle) || fake_capturing(call))
		return fake_dnn_bad(call);
	if (!(rate >= 0 && rate <= 1))
		return fake_dnn_wrong(call, "a rate of %g", (double)rate);
	if (rate > 0 && !states)
		return fake_dnn_wrong(call, "a rate of %g, and no states", (double)rate);
	if (states && (bytes < STATES_BYTES || fake_owned(call, "states", handle->context, (uintptr_t)states, STATES_BYTES)))
		return fake_dnn_wrong(call, "states of %zu bytes, where there are to be %d", bytes, STATES_BYTES);
	dropout->set = 1;
	dropout->rate = (double)rate;
	dropout->states = (uintptr_t)states;
	if (!states)
		return 0;
	s = malloc(sizeof *s);
	if (!s)
		abort();
	*s = (struct seeding){ (uintptr_t)states, seed * UINT64_C(0x9e3779b97f4a7c15) + 1 };
	fake_enqueue(call, fake_stream(call, handle->stream), run_seeding, s);
	return 0;
}
