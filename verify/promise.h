/* SPDX-License-Identifier: Apache-2.0 */
/* What docs/numerics.md promises for a route: whether a call repeats to the bit, and which error bounds hold. */
#ifndef PROMISE_H
#define PROMISE_H

#include <stdlib.h>
#include <string.h>

#include "runtime/cellgrad.h"
#include "verify/area.h"

/* Is this value of cg_rnn_route() a vendor's route? The error bounds of a vendor's route are those observed in cuDNN. */
static inline int is_by_vendor(const char *route)
{
	return !strcmp(route, "cudnn");
}

/* Does a repeated call give the same bits? Repeated calls give the same bits on every route except cudnn. On route cudnn repeated calls
 * give the same bits only if CUBLAS_WORKSPACE_CONFIG is :16:8 or :4096:2, by which each stream has its own workspace. */
static inline int promises_bits(const char *route)
{
	const char *config = getenv("CUBLAS_WORKSPACE_CONFIG");

	return !is_by_vendor(route) || (config && (!strcmp(config, ":16:8") || !strcmp(config, ":4096:2")));
}

/* Does a call with the caller's workspace in this kind of memory give the bits of a call with the stream's own workspace? In an arena
 * the workspace may begin at any multiple of 8, and on CUDA a product whose operands are aligned to less than 16 bytes may add in another
 * order. */
static inline int lies_alike(const struct cg_context *context, int memory)
{
	return memory != AREA_ARENA || strncmp(cg_describe(context), "cuda", 4);
}

#endif
