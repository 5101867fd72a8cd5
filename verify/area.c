/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of arguments between guards: allocation, poisoning, and the check of the guards.
 */
#include <string.h>

#include "runtime/device/mem.h"
#include "verify/area.h"

enum { GUARD = 64, POISON = 0xa5 };

const char *const area_memories[AREA_MEMORIES] = { "host", "device", "mixed", "arena" };

/* At most one arena exists at a time. The arena is allocated for the first area that is lent in the arena, and freed when the last such
 * area is given back. An area that does not fit into the arena gets memory of its own. */
enum { ARENA = 1 << 20, ALIGN = 8 };     /* offsets are multiples of 8, so of each element's size, but need not be of a vector's */
static struct { struct cg_context *context; struct cg_mem mem; size_t used; int lent; } arena;

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

/* Allocates the device's memory of an area. */
static int alloc_block(struct area *a, const struct side *side, int memory)
{
	size_t bytes = (whole(a) + ALIGN - 1) / ALIGN * ALIGN;

	if (memory != AREA_ARENA || bytes > ARENA)
		return cg_alloc(side->context, whole(a), &a->device);
	if (!arena.lent) {
		CG_TRY(cg_alloc(side->context, ARENA, &arena.mem));
		arena.context = side->context;
		arena.used = 0;
	}
	if (arena.context != side->context || bytes > ARENA - arena.used)
		return cg_alloc(side->context, whole(a), &a->device);
	a->device = cg_part(arena.mem, arena.used, whole(a));
	a->in_arena = 1;
	arena.used += bytes;
	arena.lent++;
	return CG_OK;
}

static void give_back(struct area *a, const struct side *side)
{
	if (!a->in_arena) {
		cg_free(side->context, &a->device);
		return;
	}
	a->in_arena = 0;
	a->device = (struct cg_mem){ .bytes = 0 };
	if (!--arena.lent)
		cg_free(arena.context, &arena.mem);
}

int area_lend(struct area *a, const struct side *side, int memory, unsigned number, struct cg_mem *mem)
{
	memcpy(a->host, a->start, whole(a));
	*mem = (struct cg_mem){ a->host, a->before, a->bytes, CG_HOST };
	if (!a->bytes || memory == AREA_HOST || (memory == AREA_MIXED && number % 2))
		return CG_OK;
	CG_TRY(alloc_block(a, side, memory));
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
	give_back(a, side);
	return code;
}

int area_touched(const struct area *a, int inside)
{
	size_t spared = inside ? 0 : a->bytes;

	return memcmp(a->host, a->start, a->before) ||
	       memcmp(a->host + a->before + spared, a->start + a->before + spared, a->bytes - spared + GUARD);
}
