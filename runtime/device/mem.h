/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parts of a cg_mem, and the workspace of a call, which is carved into parts.
 */
#ifndef CG_MEM_H
#define CG_MEM_H

#include "runtime/core/core.h"

/* Is the memory present, that is, not absent?  The function is inline, since one small call of an op calls it about a hundred times. */
static inline int cg_present(struct cg_mem mem)
{
	return mem.data != NULL;
}

/* The `bytes` bytes of a cg_mem from `offset` bytes on; a part of absent memory is absent. */
static inline struct cg_mem cg_part(struct cg_mem mem, size_t offset, size_t bytes)
{
	if (mem.data) {
		mem.offset += offset;
		mem.bytes = bytes;
	}
	return mem;
}

/* The workspace of a call, from which aligned parts are carved one after the other.  If the workspace has no memory, carving only measures:
 * `used` counts the bytes (SIZE_MAX if they exceed a size_t), and the parts are mere offsets, to which cg_work_place() later assigns
 * memory. */
enum { CG_WORK_ALIGN = 64 };             /* every part begins at a multiple of this many bytes from the workspace's start */
struct cg_work { struct cg_mem mem; size_t used; };
struct cg_mem cg_work_alloc(struct cg_work *, int64_t rows, int64_t columns, size_t bytes);
enum { CG_UNPLACED = -1 };               /* the value of field `place` of a part without memory */
void cg_work_place(struct cg_mem *parts, size_t n, struct cg_mem work);

#endif
