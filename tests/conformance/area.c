/*
 * Arguments between guards.  What is in them is the cases' business.
 */
#include <string.h>

#include "runtime/runtime.h"
#include "tests/conformance/area.h"

enum { GUARD = 64, POISON = 0xa5 };

const char *const area_memories[3] = { "host", "device", "mixed" };

static size_t whole(const struct area *a)
{
	return a->before + a->bytes + GUARD;
}

int area_open(struct area *a, size_t bytes, size_t shift)
{
	*a = (struct area){ .bytes = bytes, .before = GUARD + shift };
	if (bytes > SIZE_MAX / 4)
		return cg_fail(CG_NO_MEMORY, "no memory for %zu bytes", bytes);
	a->start = cg_memory(NULL, whole(a));
	a->host = cg_memory(NULL, whole(a));
	if (!a->start || !a->host) {
		area_close(a);
		return CG_NO_MEMORY;
	}
	memset(a->start, POISON, whole(a));
	memcpy(a->host, a->start, whole(a));
	return CG_OK;
}

void area_close(struct area *a)
{
	cg_memory(a->start, 0);
	cg_memory(a->host, 0);
	a->start = a->host = NULL;
}

unsigned char *area_in(const struct area *a)
{
	return a->start + a->before;
}

const unsigned char *area_out(const struct area *a)
{
	return a->host + a->before;
}

int area_lend(struct area *a, const struct side *side, int memory, unsigned number, struct cg_mem *mem)
{
	memcpy(a->host, a->start, whole(a));
	*mem = (struct cg_mem){ a->host, a->before, a->bytes, CG_HOST };
	if (!a->bytes || memory == AREA_HOST || (memory == AREA_MIXED && number % 2))
		return CG_OK;
	CG_TRY(cg_alloc(side->context, whole(a), &a->device));
	*mem = a->device;
	mem->offset += a->before;
	mem->bytes = a->bytes;
	return cg_put(side->stream, a->device, a->host, whole(a));
}

int area_back(struct area *a, const struct side *side)
{
	int code = CG_OK;

	if (a->device.data)
		code = cg_get(side->stream, a->host, a->device, whole(a));
	cg_free(side->context, &a->device);
	return code;
}

int area_touched(const struct area *a, int inside)
{
	size_t spared = inside ? 0 : a->bytes;

	return memcmp(a->host, a->start, a->before) ||
	       memcmp(a->host + a->before + spared, a->start + a->before + spared, a->bytes - spared + GUARD);
}
