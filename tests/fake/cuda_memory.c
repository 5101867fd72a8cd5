/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory: addresses from one range, each used once, with bytes of no block between the blocks. The contents are stored
 * elsewhere, so that the host cannot reach them by these addresses; a shadow has the state of every byte.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cuda.h"

enum { ALIGNMENT = 256, APART = 256, NAN_BYTE = 0xff };
static const uint64_t reserved = UINT64_C(1) << 36;

struct fake_memory fake_memory;
static uint64_t first_address;
static struct block *blocks;
static size_t n_blocks, capacity, live_bytes[8];

/* ---- the range ---- */

static void *map(int how)
{
	return mmap(NULL, reserved, how, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
}

static int reserve(void)
{
	void *addresses, *data, *shadow;

	if (first_address)
		return 1;
	addresses = map(PROT_NONE);
	data = map(PROT_READ | PROT_WRITE);
	shadow = map(PROT_READ | PROT_WRITE);
	if (addresses == MAP_FAILED || data == MAP_FAILED || shadow == MAP_FAILED) {
		fake_report("the stand-in got no address space for the device's memory");
		return 0;
	}
	first_address = (uint64_t)(uintptr_t)addresses;
	fake_memory.base = (uint64_t)(uintptr_t)data;
	fake_memory.shadow = shadow;
	return 1;
}

int fake_is_device(uint64_t at)
{
	return at - first_address < fake_memory.used;
}

void *fake_data(uint64_t at)
{
	return (void *)(uintptr_t)(fake_memory.base + (at - first_address));
}

uint64_t fake_address(uint64_t data)
{
	return first_address + (data - fake_memory.base);
}

static unsigned char *shadow_of(uint64_t at)
{
	return fake_memory.shadow + (at - first_address);
}

/* ---- which block ---- */

/* Returns the last block that begins at or before the address; NULL if this is no address of device memory. */
struct block *fake_block(uint64_t at)
{
	size_t low = 0, high = n_blocks;

	if (!fake_is_device(at))
		return NULL;
	while (low < high) {
		size_t middle = (low + high) / 2;

		if (blocks[middle].at <= at)
			low = middle + 1;
		else
			high = middle;
	}
	return low ? &blocks[low - 1] : NULL;
}

static struct block *block_with(uint64_t at)
{
	struct block *b = fake_block(at);

	return b && at - b->at < b->bytes && !b->freed ? b : NULL;
}

const char *fake_where(uint64_t at)
{
	static char text[200];
	struct block *b = fake_block(at);

	if (!b)
		snprintf(text, sizeof text, "%#llx, which is not device memory", (unsigned long long)at);
	else if (at - b->at >= b->bytes)
		snprintf(text, sizeof text, "byte %llu behind %s%zu bytes", (unsigned long long)(at - b->at - b->bytes),
		         b->freed ? "freed " : "", b->bytes);
	else
		snprintf(text, sizeof text, "byte %llu of %s%zu bytes", (unsigned long long)(at - b->at), b->freed ? "freed " : "", b->bytes);
	return text;
}

int fake_owned(const char *call, const char *what, struct context *context, uint64_t at, size_t bytes)
{
	struct block *b = block_with(at);

	if (!b || bytes > b->bytes - (at - b->at)) {
		fake_report("%s: %s: %zu bytes at %s", call, what, bytes, fake_where(b ? b->at + b->bytes : at));
		return INVALID_VALUE;
	}
	if (b->context == context)
		return 0;
	fake_report("%s: %s: memory of another context", call, what);
	return INVALID_VALUE;
}

/* Returns how many bytes precede the first one whose state forbids the access `how`. */
static size_t count_good(const unsigned char *states, size_t bytes, int how)
{
	enum { STEP = 4096 };
	size_t k = 0;

	/* The bytes are first checked STEP at a time, in a loop without a branch, and then one by one. */
	for (unsigned bad = 0; bytes - k >= STEP; k += STEP) {
		for (size_t l = k; l < k + STEP; l++)
			bad |= how == READ_WRITTEN ? states[l] ^ FAKE_WRITTEN : (states[l] - FAKE_FRESH) & ~1u;
		if (bad)
			break;
	}
	while (k < bytes && (states[k] == FAKE_WRITTEN || (states[k] == FAKE_FRESH && how != READ_WRITTEN)))
		k++;
	return k;
}

int fake_reach(const char *call, uint64_t at, size_t bytes, int how)
{
	static const char *const states[] = { "nobody's memory", "what nobody wrote", "", "freed memory", "memory that is not there yet" };
	size_t inside = !fake_is_device(at) ? 0 : fake_memory.used - (at - first_address), good;

	good = count_good(shadow_of(at), bytes < inside ? bytes : inside, how);
	if (good == bytes) {
		if (how == WRITE)
			memset(shadow_of(at), FAKE_WRITTEN, bytes);
		return 0;
	}
	fake_report("%s: %s %s: %s", call, how == WRITE ? "writes" : "reads", states[good < inside ? *shadow_of(at + good) : FAKE_SPARE],
	            fake_where(at + good));
	return ILLEGAL_ADDRESS;
}

/* ---- allocating and freeing ---- */

/* ordered: the allocation is queued on a stream, and the memory is valid once the stream has reached it. */
static int alloc_block(uint64_t *at, size_t bytes, struct context *context, int ordered)
{
	size_t total = (size_t)fake_setting("MEMORY", 4L << 30);
	struct block *b;

	if (!bytes)
		return INVALID_VALUE;
	if (bytes > total - live_bytes[context->device] || bytes > reserved - fake_memory.used - ALIGNMENT - 2 * APART)
		return OUT_OF_MEMORY;
	if (!reserve())
		return OUT_OF_MEMORY;
	if (n_blocks == capacity) {
		capacity = capacity ? 2 * capacity : 1024;
		blocks = realloc(blocks, capacity * sizeof *blocks);
		if (!blocks)
			abort();
	}
	b = &blocks[n_blocks++];
	*b = (struct block){ first_address + fake_memory.used + APART, bytes, context, 0, 0, ordered };
	fake_memory.used += (2 * APART + bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
	live_bytes[context->device] += bytes;
	memset(shadow_of(b->at), ordered ? FAKE_PENDING : FAKE_FRESH, bytes);
	memset(fake_data(b->at), NAN_BYTE, bytes);
	*at = b->at;
	return 0;
}

static void release(struct block *b)
{
	b->freed = 1;
	live_bytes[b->context->device] -= b->bytes;
}

/* Marks a freed block, and gives the pages in it and in up to 64 freed neighbours on each side back to the system.  Addresses are never
   used again. */
static void forget(struct block *b)
{
	enum { FAR = 64 };
	struct block *first = b, *last = b;
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), from, to;

	memset(shadow_of(b->at), FAKE_FREED, b->bytes);
	b->gone = 1;
	while (first > blocks && b - first < FAR && first[-1].gone)
		first--;
	while (last + 1 < blocks + n_blocks && last - b < FAR && last[1].gone)
		last++;
	from = (first->at + page - 1) / page * page;
	to = (last->at + last->bytes) / page * page;
	if (from < to) {
		madvise(fake_data(from), to - from, MADV_DONTNEED);
		madvise(shadow_of(from), to - from, MADV_DONTNEED);
	}
}

/* Finds the block that begins at the address and is not freed yet; reports an error if there is none. */
static struct block *to_free(const char *call, uint64_t at)
{
	struct block *b = fake_block(at);

	if (b && b->at == at && !b->freed)
		return b;
	fake_report(b && b->at == at ? "%s: %s: freed a second time" : "%s: not the beginning of device memory: %s", call, fake_where(at));
	return NULL;
}

FAKE_API int cuMemAlloc_v2(uint64_t *at, size_t bytes)
{
	CALL(cuMemAlloc_v2, NEEDS_CONTEXT);
	if (fake_capturing("cuMemAlloc"))
		return STREAM_CAPTURE_UNSUPPORTED;
	return alloc_block(at, bytes, fake_current(), 0);
}

/* cuMemFree of this stand-in does not wait for queued work.  Work that uses the memory and runs after the free is reported. */
FAKE_API int cuMemFree_v2(uint64_t at)
{
	struct block *b;

	CALL(cuMemFree_v2, NEEDS_CONTEXT);
	if (fake_capturing("cuMemFree"))
		return STREAM_CAPTURE_UNSUPPORTED;
	if (!at)
		return 0;
	b = to_free("cuMemFree", at);
	if (!b)
		return INVALID_VALUE;
	if (b->context->device != fake_current()->device) {
		fake_report("cuMemFree: memory of another device");
		return INVALID_VALUE;
	}
	release(b);
	forget(b);
	return 0;
}

struct ordered { uint64_t at; int freed; };

static int run_ordered(void *data)
{
	struct ordered *o = data;
	struct block *b = fake_block(o->at);

	if (o->freed)
		forget(b);
	else
		memset(shadow_of(b->at), FAKE_FRESH, b->bytes);
	return 0;
}

static int enqueue_order(const char *call, struct stream *stream, uint64_t at, int freed)
{
	struct ordered *o = malloc(sizeof *o);

	if (!o)
		abort();
	*o = (struct ordered){ at, freed };
	return fake_enqueue(call, stream, run_ordered, o);
}

FAKE_API int cuMemAllocAsync(uint64_t *at, size_t bytes, struct stream *handle)
{
	struct stream *stream;
	int code;

	CALL(cuMemAllocAsync, NEEDS_CONTEXT);
	stream = fake_stream("cuMemAllocAsync", handle);
	if (!stream)
		return INVALID_HANDLE;
	code = alloc_block(at, bytes, stream->context, 1);
	return code ? code : enqueue_order("cuMemAllocAsync", stream, *at, 0);
}

FAKE_API int cuMemFreeAsync(uint64_t at, struct stream *handle)
{
	struct stream *stream;
	struct block *b;

	CALL(cuMemFreeAsync, NEEDS_CONTEXT);
	stream = fake_stream("cuMemFreeAsync", handle);
	if (!stream)
		return INVALID_HANDLE;
	b = to_free("cuMemFreeAsync", at);
	if (!b)
		return INVALID_VALUE;
	release(b);
	return enqueue_order("cuMemFreeAsync", stream, at, 1);
}

/* ---- attributes of memory ---- */

enum {
	CONTEXT_OF = 1, KIND = 2, DEVICE_POINTER = 3, IS_MANAGED = 8, ORDINAL = 9, RANGE_START = 11, RANGE_SIZE = 12,
	KIND_DEVICE = 2
};

FAKE_API int cuPointerGetAttribute(void *value, unsigned attribute, uint64_t at)
{
	struct block *b;

	CALL(cuPointerGetAttribute, NEEDS_INIT);
	b = block_with(at);
	if (!b)
		return INVALID_VALUE;
	switch (attribute) {
	case CONTEXT_OF:
		/* Memory of a pool belongs to no context. */
		*(struct context **)value = b->ordered ? NULL : b->context;
		return 0;
	case KIND:
		*(unsigned *)value = KIND_DEVICE;
		return 0;
	case IS_MANAGED:
		*(int *)value = 0;
		return 0;
	case ORDINAL:
		*(int *)value = b->context->device;
		return 0;
	case DEVICE_POINTER:
		*(uint64_t *)value = at;
		return 0;
	case RANGE_START:
		*(uint64_t *)value = b->at;
		return 0;
	case RANGE_SIZE:
		*(size_t *)value = b->bytes;
		return 0;
	}
	return INVALID_VALUE;
}

FAKE_API int cuMemGetAddressRange_v2(uint64_t *base, size_t *bytes, uint64_t at)
{
	struct block *b;

	CALL(cuMemGetAddressRange_v2, NEEDS_CONTEXT);
	b = block_with(at);
	if (!b)
		return NOT_FOUND;
	if (base)
		*base = b->at;
	if (bytes)
		*bytes = b->bytes;
	return 0;
}

/* ---- the end of a context ---- */

void fake_memory_leaks(struct context *context, size_t *n, size_t *bytes)
{
	*n = *bytes = 0;
	for (struct block *b = blocks; b < blocks + n_blocks; b++)
		if (b->context == context && !b->freed) {
			++*n;
			*bytes += b->bytes;
		}
}

void fake_memory_release(struct context *context)
{
	for (struct block *b = blocks; b < blocks + n_blocks; b++)
		if (b->context == context && !b->freed) {
			release(b);
			forget(b);
		}
}
