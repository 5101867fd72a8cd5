/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Plays TensorFlow's C API for the plugin; the registered kernels are in one table.
 */
#include <assert.h>
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bindings/tensorflow/tf_host.h"

enum { GUARD = 16, KERNELS = 32 };

struct TF_Status { TF_Code code; char words[1024]; };
struct TF_Tensor { TF_DataType type; int rank; int64_t dims[4]; size_t bytes; atomic_int holders; unsigned char *data; };
struct TF_KernelBuilder {
	const char *op;
	void *(*create)(TF_OpKernelConstruction *);
	void (*compute)(void *, TF_OpKernelContext *);
	void (*destroy)(void *);
	int priority;
};
struct TF_OpKernelConstruction { const char *attributes; TF_Status failure; };
struct TF_OpKernelContext { struct host_call *call; };

const char *host_version = "2.21.0", *host_devices = "";
int host_failing_output;
static struct TF_KernelBuilder registered[KERNELS];
static int n_registered;
static atomic_int living;

/* ---- status ---- */

TF_Status *TF_NewStatus(void)
{
	atomic_fetch_add(&living, 1);
	return calloc(1, sizeof(TF_Status));
}

void TF_DeleteStatus(TF_Status *status)
{
	atomic_fetch_sub(&living, 1);
	free(status);
}

void TF_SetStatus(TF_Status *status, TF_Code code, const char *message)
{
	status->code = code;
	snprintf(status->words, sizeof status->words, "%s", message);
}

TF_Code TF_GetCode(const TF_Status *status)
{
	return status->code;
}

const char *TF_Message(const TF_Status *status)
{
	return status->words;
}

const char *TF_Version(void)
{
	return host_version;
}

/* ---- tensors ---- */

size_t host_element(TF_DataType type)
{
	return type == TF_DOUBLE || type == TF_INT64 ? 8 : type == TF_FLOAT || type == TF_INT32 ? 4 : type == TF_INT8 ? 1 : 2;
}

TF_Tensor *host_tensor(TF_DataType type, int rank, const int64_t *dims)
{
	TF_Tensor *t = calloc(1, sizeof *t);

	t->type = type;
	t->rank = rank;
	t->bytes = host_element(type);
	for (int k = 0; k < rank; k++)
		t->bytes *= (size_t)(t->dims[k] = dims[k]);
	atomic_init(&t->holders, 1);
	/* In TensorFlow a tensor without elements has no memory. */
	if (t->bytes) {
		t->data = malloc(t->bytes + GUARD);
		memset(t->data, 0xaa, t->bytes + GUARD);
	}
	atomic_fetch_add(&living, 1);
	return t;
}

void TF_DeleteTensor(TF_Tensor *t)
{
	if (!t || atomic_fetch_sub(&t->holders, 1) > 1)
		return;
	for (size_t k = 0; t->data && k < GUARD; k++)
		assert(t->data[t->bytes + k] == 0xaa);
	free(t->data);
	free(t);
	atomic_fetch_sub(&living, 1);
}

int TF_NumDims(const TF_Tensor *t)
{
	return t->rank;
}

int64_t TF_Dim(const TF_Tensor *t, int index)
{
	assert(index >= 0 && index < t->rank);
	return t->dims[index];
}

size_t TF_TensorByteSize(const TF_Tensor *t)
{
	return t->bytes;
}

void *TF_TensorData(const TF_Tensor *t)
{
	return t->data;
}

int host_living(void)
{
	return atomic_load(&living);
}

/* ---- registration ---- */

TF_KernelBuilder *TF_NewKernelBuilder(const char *op, const char *device, void *(*create)(TF_OpKernelConstruction *),
                                      void (*compute)(void *, TF_OpKernelContext *), void (*destroy)(void *))
{
	assert(!strcmp(device, "CPU") && n_registered < KERNELS);
	registered[n_registered] = (TF_KernelBuilder){ op, create, compute, destroy, 0 };
	return &registered[n_registered];
}

void TF_KernelBuilder_Priority(TF_KernelBuilder *builder, int32_t priority)
{
	builder->priority = priority;
}

void TF_RegisterKernelBuilder(const char *name, TF_KernelBuilder *builder, TF_Status *status)
{
	assert(!strncmp(name, "Cellgrad", 8) && builder == &registered[n_registered]);
	n_registered++;
	TF_SetStatus(status, TF_OK, "");
}

/* Returns a serialised KernelList of TensorFlow: a kernel of op for the device host_devices, or no kernel if that is empty. Field 1 of the
   list is a kernel, whose fields 1 and 2 are the op and the device. */
TF_Buffer *TF_GetRegisteredKernelsForOp(const char *op, TF_Status *status)
{
	TF_Buffer *buffer = calloc(1, sizeof *buffer);
	size_t length = strlen(op);
	char *data = malloc(length + 16);

	TF_SetStatus(status, TF_OK, "");
	buffer->data = data;
	if (*host_devices)
		buffer->length = (size_t)sprintf(data, "\x0a%c\x0a%c%s\x12\x03%s", (char)(length + 7), (char)length, op, host_devices);
	return buffer;
}

void TF_DeleteBuffer(TF_Buffer *buffer)
{
	free((void *)buffer->data);
	free(buffer);
}

void host_forget(void)
{
	n_registered = 0;
}

int host_load(const char *path, int *count, const char **state)
{
	void *plugin;
	int (*ask)(const char **) = NULL;

	host_forget();
	plugin = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!plugin)
		return 0;
	*(void **)&ask = dlsym(plugin, "cellgrad_tensorflow_state");
	assert(ask);
	*count = ask(state);
	return 1;
}

const char *host_op(int k, int *priority)
{
	if (k >= n_registered)
		return NULL;
	*priority = registered[k].priority;
	return registered[k].op;
}

static const TF_KernelBuilder *find_op(const char *op)
{
	for (int k = 0; k < n_registered; k++)
		if (!strcmp(registered[k].op, op))
			return &registered[k];
	fprintf(stderr, "%s is not registered\n", op);
	abort();
}

/* ---- attributes ---- */

/* Copies the value of a name in the attributes "NAME=VALUE NAME=VALUE"; returns 0 if there is no such name. */
static int find_attribute(const TF_OpKernelConstruction *c, const char *name, char *value, size_t capacity)
{
	size_t length = strlen(name);

	for (const char *at = c->attributes; *at; at += strcspn(at, " "), at += *at == ' ')
		if (!strncmp(at, name, length) && at[length] == '=') {
			snprintf(value, capacity, "%.*s", (int)strcspn(at + length + 1, " "), at + length + 1);
			return 1;
		}
	return 0;
}

bool TF_OpKernelConstruction_HasAttr(TF_OpKernelConstruction *c, const char *name, TF_Status *status)
{
	char value[64];

	TF_SetStatus(status, TF_OK, "");
	return find_attribute(c, name, value, sizeof value);
}

/* Returns the value of an attribute, which the op must have. */
static const char *value_of(const TF_OpKernelConstruction *c, const char *name, char value[64])
{
	int is_there = find_attribute(c, name, value, 64);

	assert(is_there);
	(void)is_there;
	return value;
}

void TF_OpKernelConstruction_GetAttrType(TF_OpKernelConstruction *c, const char *name, TF_DataType *type, TF_Status *status)
{
	static const struct { const char *name; TF_DataType type; } types[] = {
		{ "float", TF_FLOAT }, { "double", TF_DOUBLE }, { "half", TF_HALF }, { "bfloat16", TF_BFLOAT16 }, { "int32", TF_INT32 },
		{ "int64", TF_INT64 }
	};
	char value[64];

	value_of(c, name, value);
	for (size_t k = 0; k < sizeof types / sizeof *types; k++)
		if (!strcmp(types[k].name, value))
			*type = types[k].type;
	TF_SetStatus(status, TF_OK, "");
}

void TF_OpKernelConstruction_GetAttrInt64(TF_OpKernelConstruction *c, const char *name, int64_t *number, TF_Status *status)
{
	char value[64];

	*number = strtoll(value_of(c, name, value), NULL, 10);
	TF_SetStatus(status, TF_OK, "");
}

void TF_OpKernelConstruction_GetAttrFloat(TF_OpKernelConstruction *c, const char *name, float *number, TF_Status *status)
{
	char value[64];

	*number = strtof(value_of(c, name, value), NULL);
	TF_SetStatus(status, TF_OK, "");
}

void TF_OpKernelConstruction_GetAttrBool(TF_OpKernelConstruction *c, const char *name, TF_Bool *is, TF_Status *status)
{
	char value[64];

	*is = !strcmp(value_of(c, name, value), "true");
	TF_SetStatus(status, TF_OK, "");
}

/* Copies an attribute's string without a 0 behind it, as TensorFlow does if the string fills the memory. */
void TF_OpKernelConstruction_GetAttrString(TF_OpKernelConstruction *c, const char *name, char *text, size_t length, TF_Status *status)
{
	char value[64];
	size_t n;

	value_of(c, name, value);
	n = strlen(value) < length ? strlen(value) : length;
	memcpy(text, value, n);
	TF_SetStatus(status, TF_OK, "");
}

void TF_OpKernelConstruction_Failure(TF_OpKernelConstruction *c, TF_Status *status)
{
	c->failure = *status;
}

/* ---- kernels ---- */

void *host_kernel(const char *op, const char *attributes, const char **words)
{
	static char why[1024];
	TF_OpKernelConstruction c = { attributes, { TF_OK, "" } };
	void *kernel = find_op(op)->create(&c);

	snprintf(why, sizeof why, "%s", c.failure.words);
	*words = why;
	if (c.failure.code == TF_OK)
		return kernel;
	find_op(op)->destroy(kernel);
	return NULL;
}

void host_destroy(const char *op, void *kernel)
{
	find_op(op)->destroy(kernel);
}

void host_run(const char *op, void *kernel, struct host_call *call)
{
	TF_OpKernelContext context = { call };

	call->code = TF_OK;
	*call->words = '\0';
	memset(call->outputs, 0, sizeof call->outputs);
	find_op(op)->compute(kernel, &context);
}

void TF_GetInput(TF_OpKernelContext *c, int index, TF_Tensor **tensor, TF_Status *status)
{
	if (index < 0 || index >= c->call->n_inputs) {
		TF_SetStatus(status, TF_INTERNAL, "there is no such input");
		return;
	}
	*tensor = c->call->inputs[index];
	atomic_fetch_add(&(*tensor)->holders, 1);
	TF_SetStatus(status, TF_OK, "");
}

TF_Tensor *TF_AllocateOutput(TF_OpKernelContext *c, int index, TF_DataType type, const int64_t *dims, int rank, size_t bytes, TF_Status *status)
{
	TF_Tensor *t;

	assert(index >= 0 && index < c->call->n_outputs && !c->call->outputs[index]);
	if (host_failing_output && !--host_failing_output) {
		TF_SetStatus(status, TF_RESOURCE_EXHAUSTED, "the host has no memory");
		return NULL;
	}
	t = c->call->outputs[index] = host_tensor(type, rank, dims);
	assert(t->bytes == bytes);
	(void)bytes;
	atomic_fetch_add(&t->holders, 1);
	TF_SetStatus(status, TF_OK, "");
	return t;
}

void TF_OpKernelContext_Failure(TF_OpKernelContext *c, TF_Status *status)
{
	c->call->code = status->code;
	snprintf(c->call->words, sizeof c->call->words, "%s", status->words);
}

void host_free(struct host_call *call)
{
	for (int k = 0; k < HOST_TENSORS; k++) {
		TF_DeleteTensor(call->inputs[k]);
		TF_DeleteTensor(call->outputs[k]);
	}
	memset(call, 0, sizeof *call);
}
