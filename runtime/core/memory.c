/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocates host memory by one function, which tests can make fail.  Backends with a driver allocate device memory by the driver.
 */
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "runtime/core/core.h"

void cg_prefer_huge_pages(const void *pointer, size_t bytes)
{
#ifdef MADV_HUGEPAGE
	enum { HUGE = 2 << 20 };
	const uintptr_t at = (uintptr_t)pointer, first = (at + HUGE - 1) / HUGE * HUGE, end = (at + bytes) / HUGE * HUGE;

	/* If Linux refuses, the memory has small pages, with which programs are only slower. */
	if (pointer && bytes <= PTRDIFF_MAX && end > first)
		(void)madvise((void *)first, end - first, MADV_HUGEPAGE);
#else
	(void)pointer;
	(void)bytes;
#endif
}

static void *standard(void *user, void *p, size_t bytes)
{
	(void)user;
	if (bytes) {
		p = realloc(p, bytes);
		cg_prefer_huge_pages(p, bytes);
		return p;
	}
	free(p);
	return NULL;
}

static struct cg_allocator from = { standard, NULL };
/* live: the number of blocks in use; made: the number of requests since cg_memory_fail() was called; fatal: the number of the request that
 * fails in a test. */
static atomic_size_t live, made, fatal;

int cg_set_allocator(const struct cg_allocator *allocator)
{
	size_t blocks = atomic_load(&live);

	if (allocator && !allocator->resize)
		return cg_fail(CG_BAD_ARGUMENT, "cg_set_allocator: resize: expected a function, got NULL");
	if (blocks)
		return cg_fail(CG_UNSUPPORTED, "cg_set_allocator: expected a call while the library holds no memory, got one while it "
		               "holds %zu blocks", blocks);
	from = allocator ? *allocator : (struct cg_allocator){ standard, NULL };
	return CG_OK;
}

void *cg_memory(void *p, size_t bytes)
{
	void *q = NULL;

	if (!bytes) {
		if (p) {
			from.resize(from.user, p, 0);
			atomic_fetch_sub(&live, 1);
		}
		return NULL;
	}
	/* A block beyond PTRDIFF_MAX would make pointer differences undefined; such a size is always a mistake. */
	if (atomic_fetch_add(&made, 1) + 1 != atomic_load(&fatal) && bytes <= PTRDIFF_MAX)
		q = from.resize(from.user, p, bytes);
	if (!q)
		cg_fail(CG_NO_MEMORY, "no memory for %zu bytes", bytes);
	else if (!p)
		atomic_fetch_add(&live, 1);
	return q;
}

size_t cg_memory_fail(size_t n)
{
	size_t requests;

	atomic_store(&fatal, 0);
	requests = atomic_exchange(&made, 0);
	atomic_store(&fatal, n);
	return requests;
}
