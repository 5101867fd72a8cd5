/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of a cg_mem, and the workspace of a call, from which parts are carved.
 */
#ifndef CG_MEM_H
#define CG_MEM_H

#include "runtime/core/core.h"

/* Inline, since a small call asks for these some hundred times. */
static inline int cg_present(struct cg_mem mem)
{
	return mem.data != NULL;
}

/* Part of a cg_mem from `offset` bytes on; absent stays absent. */
static inline struct cg_mem cg_part(struct cg_mem mem, size_t offset, size_t bytes)
{
	if (mem.data) {
		mem.offset += offset;
		mem.bytes = bytes;
	}
	return mem;
}

/* The workspace of a call, from which aligned parts are carved in turn.  With no memory it only measures, SIZE_MAX when the bytes
 * exceed a size_t, and the parts are offsets; cg_work_place() gives such parts their memory. */
enum { CG_WORK_ALIGN = 64 };             /* every part begins at a multiple of so many bytes */
struct cg_work { struct cg_mem mem; size_t used; };
struct cg_mem cg_work_alloc(struct cg_work *, int64_t rows, int64_t columns, size_t bytes);
enum { CG_UNPLACED = -1 };               /* the place of a part without memory */
void cg_work_place(struct cg_mem *parts, size_t n, struct cg_mem work);

#endif
