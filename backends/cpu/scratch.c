/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grows the scratch memory of a queue, which the queue's calls use one after the other.
 */
#include "backends/cpu/cpu.h"

enum { LINE = 64 };                      /* bytes of a cache line */

void *cg_cpu_scratch(struct cg_queue *queue, size_t bytes)
{
	if (queue->scratch_bytes < bytes) {
		void *scratch = cg_memory(NULL, bytes + LINE);

		if (!scratch)
			return NULL;
		cg_memory(queue->scratch, 0);
		queue->scratch = scratch;
		queue->scratch_bytes = bytes;
	}
	return (char *)queue->scratch + (LINE - (uintptr_t)queue->scratch % LINE) % LINE;
}
