/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Carves the workspace of a call into aligned parts.
 */
#include "runtime/device/mem.h"

struct cg_mem cg_work_alloc(struct cg_work *work, int64_t rows, int64_t columns, size_t bytes)
{
	size_t end;
	struct cg_mem part;

	if (__builtin_mul_overflow(bytes, rows, &bytes) || __builtin_mul_overflow(bytes, columns, &bytes) ||
	    __builtin_add_overflow(bytes, CG_WORK_ALIGN - 1, &end) ||
	    __builtin_add_overflow(work->used, end / CG_WORK_ALIGN * CG_WORK_ALIGN, &end)) {
		work->used = SIZE_MAX;
		return (struct cg_mem){ .bytes = 0 };
	}
	part = cg_present(work->mem) ? cg_part(work->mem, work->used, bytes) :
	       (struct cg_mem){ .offset = work->used, .bytes = bytes, .place = CG_UNPLACED };
	work->used = end;
	return part;
}

void cg_work_place(struct cg_mem *parts, size_t n, struct cg_mem work)
{
	for (struct cg_mem *part = parts; part < parts + n; part++)
		if (part->place == CG_UNPLACED)
			*part = cg_part(work, part->offset, part->bytes);
}
