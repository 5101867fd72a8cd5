/*
 * The host's memory, through one function that tests can make fail.  Alignment beyond malloc's, and the devices'
 * memory, are left to the backends.
 */
#include <stdatomic.h>
#include <stdlib.h>

#include "runtime/runtime.h"

/* Requests made, and which of them fails; the only state of the process that this library keeps for its tests. */
static atomic_size_t made, fatal;

void *cg_memory(void *p, size_t bytes)
{
	void *q = NULL;

	if (!bytes) {
		free(p);
		return NULL;
	}
	/* Beyond PTRDIFF_MAX differences of pointers are undefined; it is always a size that went wrong. */
	if (atomic_fetch_add(&made, 1) + 1 != atomic_load(&fatal) && bytes <= PTRDIFF_MAX)
		q = realloc(p, bytes);
	if (!q)
		cg_fail(CG_NO_MEMORY, "no memory for %zu bytes", bytes);
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
