/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linked into every kernel: the functions that the outlined checks of the address and undefined-behaviour sanitizers call, under the
 * names that compilers give them, hidden so that they are called even where the process has a sanitizer's own library.
 */
#include <string.h>

#include "kernel_calls.h"

#pragma GCC visibility push(hidden)
struct fake_dim threadIdx, blockIdx, blockDim, gridDim;
extern const struct fake_kernel fake_kernels[];
extern char __start_fake_shared[] __attribute__((weak)), __stop_fake_shared[] __attribute__((weak));
extern const char __ehdr_start[], _end[];
#pragma GCC visibility pop

static const struct fake_calls *calls;

__attribute__((visibility("default"))) extern const struct fake_object fake_object;
const struct fake_object fake_object = {
	&calls, &threadIdx, &blockIdx, &blockDim, &gridDim, __start_fake_shared, __stop_fake_shared, __ehdr_start, _end,
	fake_kernels
};

void fake_barrier(int line)
{
	calls->barrier(line);
}

/* ---- the address sanitizer ---- */

/* A load or a store of device memory that was written before is the most frequent case, so it is allowed here, without a call. */
#define ACCESS(bytes, word) \
	void __asan_load##bytes##_noabort(uint64_t at) \
	{ \
		const struct fake_memory *memory = calls->memory; \
		word state; \
		if (at - memory->base < memory->used) { \
			memcpy(&state, memory->shadow + (at - memory->base), sizeof state); \
			if (state == (word)(FAKE_WRITTEN * (~(word)0 / 255))) \
				return; \
		} \
		calls->access(at, bytes, 0); \
	} \
	void __asan_store##bytes##_noabort(uint64_t at) \
	{ \
		const word written = (word)(FAKE_WRITTEN * (~(word)0 / 255)); \
		const struct fake_memory *memory = calls->memory; \
		word state; \
		if (at - memory->base < memory->used) { \
			memcpy(&state, memory->shadow + (at - memory->base), sizeof state); \
			if (state == written) \
				return; \
		} \
		calls->access(at, bytes, 1); \
	}

ACCESS(1, uint8_t)
ACCESS(2, uint16_t)
ACCESS(4, uint32_t)
ACCESS(8, uint64_t)

void __asan_load16_noabort(uint64_t at)
{
	calls->access(at, 16, 0);
}

void __asan_store16_noabort(uint64_t at)
{
	calls->access(at, 16, 1);
}

void __asan_loadN_noabort(uint64_t at, size_t bytes)
{
	calls->access(at, bytes, 0);
}

void __asan_storeN_noabort(uint64_t at, size_t bytes)
{
	calls->access(at, bytes, 1);
}

void *__asan_memcpy(void *to, const void *from, size_t bytes)
{
	calls->access((uint64_t)(uintptr_t)from, bytes, 0);
	calls->access((uint64_t)(uintptr_t)to, bytes, 1);
	return memcpy(to, from, bytes);
}

void *__asan_memset(void *to, int byte, size_t bytes)
{
	calls->access((uint64_t)(uintptr_t)to, bytes, 1);
	return memset(to, byte, bytes);
}

void __asan_handle_no_return(void)
{
}

/* ---- undefined behaviour; the structs have the first fields of the data that compilers pass ---- */

struct source_location { const char *file; uint32_t line, column; };

void __ubsan_handle_out_of_bounds(const struct source_location *source_location, uint64_t index)
{
	calls->mistake("an index beyond its array", source_location->file, source_location->line, index);
}

void __ubsan_handle_type_mismatch_v1(const struct source_location *source_location, uint64_t at)
{
	calls->mistake("a misaligned address", source_location->file, source_location->line, at);
}

void __ubsan_handle_divrem_overflow(const struct source_location *source_location, uint64_t left, uint64_t right)
{
	(void)left;
	calls->mistake("an integer division that has no result", source_location->file, source_location->line, right);
}
