/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocates device memory, checks it, and copies it to and from the host.
 */
#include <string.h>

#include "runtime/device/device.h"

struct cg_mem cg_host(const void *pointer, size_t bytes)
{
	return (struct cg_mem){ .data = (void *)pointer, .bytes = pointer ? bytes : 0, .place = CG_HOST };
}

int cg_alloc(struct cg_context *context, size_t bytes, struct cg_mem *mem)
{
	if (!mem)
		return cg_fail(CG_BAD_ARGUMENT, "cg_alloc: mem: expected a pointer for the result, got NULL");
	memset(mem, 0, sizeof *mem);
	CG_TRY(cg_context_check(context, "cg_alloc"));
	return bytes ? context->backend->alloc(context->device, NULL, bytes, mem) : CG_OK;
}

void cg_free(struct cg_context *context, struct cg_mem *mem)
{
	if (!context || !mem || context->fork != cg_fork_count())
		return;
	if (mem->data)
		context->backend->free(context->device, NULL, mem);
	memset(mem, 0, sizeof *mem);
}

int cg_memory_check(struct cg_context *context, const char *call, const char *argument, struct cg_mem mem)
{
	int code = mem.data && mem.place == CG_DEVICE ? context->backend->check(context->device, mem) : CG_OK;

	return code ? cg_fail_in(code, "%s: %s", call, argument) : CG_OK;
}

/* Checks the arguments of cg_put or cg_get, whose names are host_name and mem_name.  Only device memory is checked by the backend. */
static int check_copy(const struct cg_stream *stream, const char *call, const char *host_name, const void *host, const char *mem_name,
                      struct cg_mem mem, size_t bytes)
{
	CG_TRY(cg_context_check(stream ? stream->context : NULL, call));
	if (bytes && (!host || !mem.data))
		return cg_fail(CG_BAD_ARGUMENT, "%s: %s: expected memory of %zu bytes, got NULL", call, host ? mem_name : host_name, bytes);
	if (bytes > mem.bytes)
		return cg_fail(CG_BAD_ARGUMENT, "%s: %s: expected at least %zu bytes, got %zu", call, mem_name, bytes, mem.bytes);
	if (mem.place != CG_HOST && mem.place != CG_DEVICE)
		return cg_fail(CG_BAD_ARGUMENT, "%s: %s: cg_mem.place: expected CG_HOST=%d or CG_DEVICE=%d, got %d", call, mem_name, CG_HOST,
		               CG_DEVICE,
		               mem.place);
	return bytes ? cg_memory_check(stream->context, call, mem_name, mem) : CG_OK;
}

int cg_put(struct cg_stream *stream, struct cg_mem to, const void *from, size_t bytes)
{
	CG_TRY(check_copy(stream, "cg_put", "from", from, "to", to, bytes));
	if (!bytes)
		return CG_OK;
	if (to.place == CG_HOST) {
		memmove((char *)to.data + to.offset, from, bytes);
		return CG_OK;
	}
	CG_TRY(stream->context->backend->copy_in(stream->queue, to, from, bytes));
	return stream->context->backend->sync(stream->queue);
}

int cg_get(struct cg_stream *stream, void *to, struct cg_mem from, size_t bytes)
{
	CG_TRY(check_copy(stream, "cg_get", "to", to, "from", from, bytes));
	if (!bytes)
		return CG_OK;
	if (from.place == CG_HOST) {
		memmove(to, (const char *)from.data + from.offset, bytes);
		return CG_OK;
	}
	CG_TRY(stream->context->backend->copy_out(stream->queue, to, from, bytes));
	return stream->context->backend->sync(stream->queue);
}
