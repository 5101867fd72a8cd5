/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the attributes, arguments and results of XLA's call frame for the handlers.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "bindings/jax/call_frame.h"

/* XLA's element types that the handlers accept; ours: the enum cg_dtype of the type; -1: a type of integers. */
static const struct type { int dtype; const char *name; size_t bytes; int ours; } TYPES[] = {
	{ XLA_F32,  "f32",  4, CG_F32 },
	{ XLA_F64,  "f64",  8, CG_F64 },
	{ XLA_F16,  "f16",  2, CG_F16 },
	{ XLA_BF16, "bf16", 2, CG_BF16 },
	{ XLA_S32,  "s32",  4, -1 },
	{ XLA_U32,  "u32",  4, -1 },
	{ XLA_U8,   "u8",   1, -1 },
};
static const struct { int code, error; } ERRORS[] = {
	{ CG_BAD_ARGUMENT, XLA_INVALID_ARGUMENT },
	{ CG_BUILD,        XLA_INVALID_ARGUMENT },
	{ CG_NO_MEMORY,    XLA_RESOURCE_EXHAUSTED },
	{ CG_UNSUPPORTED,  XLA_UNIMPLEMENTED },
};

int jax_is_answered(const struct xla_frame *xla)
{
	for (struct xla_extension *e = xla->extensions; e; e = e->next) {
		if (e->type != XLA_METADATA)
			continue;
		struct xla_metadata *m = ((struct xla_metadata_extension *)e)->metadata;

		m->version.major_version = XLA_MAJOR_VERSION;
		m->version.minor_version = XLA_MINOR_VERSION;
		m->traits = 0;
		return 1;
	}
	return xla->stage != XLA_EXECUTE;
}

void jax_refuse(struct call_frame *f, int code, const char *format, ...)
{
	va_list args;
	int n;

	if (f->code)
		return;
	f->code = code;
	n = snprintf(f->message, sizeof f->message, "%s: ", f->name);
	va_start(args, format);
	vsnprintf(f->message + n, sizeof f->message - (size_t)n, format, args);
	va_end(args);
}

int jax_has_failed(struct call_frame *f, int code)
{
	if (code)
		jax_refuse(f, code, "%s", cg_message());
	return f->code != CG_OK;
}

struct xla_error *jax_error(const struct call_frame *f)
{
	struct xla_error_create create = { .size = sizeof create, .message = f->message, .code = XLA_INTERNAL };

	if (!f->code)
		return NULL;
	for (size_t k = 0; k < sizeof ERRORS / sizeof *ERRORS; k++)
		if (ERRORS[k].code == f->code)
			create.code = ERRORS[k].error;
	return f->xla->api->create_error(&create);
}

/* Finds the call's attribute with this name and type; NULL: there is none. */
static const void *find(const struct call_frame *f, const char *name, int type)
{
	const struct xla_attributes *a = &f->xla->attributes;
	size_t length = strlen(name);

	for (int64_t k = 0; k < a->count; k++)
		if (a->types[k] == type && a->names[k]->length == length && !memcmp(a->names[k]->data, name, length))
			return a->items[k];
	return NULL;
}

/* Finds the call's scalar attribute with this name and dtype; if there is none, keeps an error and returns NULL. */
static const void *find_number(struct call_frame *f, const char *name, int dtype, const char *type)
{
	const struct xla_scalar *s = find(f, name, XLA_SCALAR);

	if (s && s->dtype == dtype)
		return s->value;
	jax_refuse(f, CG_BAD_ARGUMENT, "%s: expected a scalar attribute of type %s, got no attribute of this name and type", name, type);
	return NULL;
}

int64_t jax_integer(struct call_frame *f, const char *name, int64_t low, int64_t high)
{
	const int64_t *found = find_number(f, name, XLA_S64, "s64");

	if (!found)
		return low;
	if (*found < low || *found > high)
		jax_refuse(f, CG_BAD_ARGUMENT, "%s: expected %lld to %lld, got %lld", name, (long long)low, (long long)high, (long long)*found);
	return *found;
}

double jax_real(struct call_frame *f, const char *name)
{
	const double *found = find_number(f, name, XLA_F64, "f64");

	return found ? *found : 0;
}

struct xla_bytes jax_text(struct call_frame *f, const char *name)
{
	const struct xla_bytes *found = find(f, name, XLA_STRING);

	if (found && !memchr(found->data, 0, found->length))
		return *found;
	jax_refuse(f, CG_BAD_ARGUMENT, "%s: expected a text attribute, got %s", name,
	           found ? "a text with a zero byte" : "no attribute of this name and type");
	return (struct xla_bytes){ "", 0 };
}

void jax_copy_text(struct call_frame *f, const char *name, char *to, size_t size)
{
	struct xla_bytes text = jax_text(f, name);

	to[0] = '\0';
	if (text.length >= size) {
		jax_refuse(f, CG_BAD_ARGUMENT, "%s: expected a text of fewer than %zu bytes, got one of %zu", name, size, text.length);
		return;
	}
	memcpy(to, text.data, text.length);
	to[text.length] = '\0';
}

static int are_buffers(const struct xla_values *v)
{
	for (int64_t k = 0; k < v->count; k++)
		if (v->types[k] != XLA_BUFFER)
			return 0;
	return 1;
}

int jax_has_buffers(struct call_frame *f, int64_t arguments, int64_t results)
{
	const struct xla_values *a = &f->xla->arguments, *r = &f->xla->results;

	if (a->count != arguments || r->count != results)
		jax_refuse(f, CG_BAD_ARGUMENT, "expected %lld arguments and %lld results, got %lld and %lld", (long long)arguments,
		           (long long)results, (long long)a->count, (long long)r->count);
	else if (!are_buffers(a) || !are_buffers(r))
		jax_refuse(f, CG_BAD_ARGUMENT, "expected buffers as arguments and results");
	return !f->code;
}

static const struct type *find_type(int dtype)
{
	for (size_t k = 0; k < sizeof TYPES / sizeof *TYPES; k++)
		if (TYPES[k].dtype == dtype)
			return &TYPES[k];
	return NULL;
}

struct cg_mem jax_memory(struct call_frame *f, const struct xla_values *values, int k, const char *name, int dtype)
{
	const struct xla_buffer *b = values->items[k];
	const struct type *type = find_type(b->dtype), *expected = find_type(dtype);
	size_t bytes = expected->bytes;

	if (b->dtype != dtype) {
		jax_refuse(f, CG_BAD_ARGUMENT, "%s: expected elements of type %s, got %s", name, expected->name, type ? type->name : "another type");
		return cg_host(NULL, 0);
	}
	for (int64_t d = 0; d < b->rank; d++)
		bytes *= (size_t)b->dims[d];
	return cg_host(bytes ? b->data : NULL, bytes);
}

int jax_dtype(struct call_frame *f, const struct xla_buffer *b, const char *name)
{
	const struct type *type = find_type(b->dtype);

	if (type && type->ours >= 0)
		return type->ours;
	jax_refuse(f, CG_BAD_ARGUMENT, "%s: expected elements of type f32, f64, f16 or bf16, got %s", name, type ? type->name : "another type");
	return CG_F32;
}
