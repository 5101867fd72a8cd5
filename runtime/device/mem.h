/*
 * Parts of memory, and the workspace of a call.
 */
#ifndef CG_MEM_H
#define CG_MEM_H

#include "runtime/core/core.h"

int cg_present(struct cg_mem);
/* Part of a cg_mem from `offset` bytes on; absent stays absent. */
struct cg_mem cg_part(struct cg_mem, size_t offset, size_t bytes);
/* The work memory of a call, handed out piece by piece, each aligned.  With no memory it only measures, SIZE_MAX when it is more
 * than a size can say, and the pieces are offsets; cg_work_place() gives such pieces their memory. */
enum { CG_WORK_ALIGN = 64 };             /* bytes that a piece begins at a multiple of */
struct cg_work { struct cg_mem mem; size_t used; };
struct cg_mem cg_work_alloc(struct cg_work *, int64_t rows, int64_t columns, size_t bytes);
enum { CG_UNPLACED = -1 };               /* the place of a piece without memory */
void cg_work_place(struct cg_mem *parts, size_t n, struct cg_mem work);

#endif
