/* SPDX-License-Identifier: Apache-2.0 */
/* What is promised of a call by its route, in docs/numerics.md: whose bits repeat, and which bounds hold. */
#ifndef PROMISE_H
#define PROMISE_H

#include <stdlib.h>
#include <string.h>

#include "runtime/cellgrad.h"
#include "verify/area.h"

/* By what cg_rnn_route() says.  The bounds of a vendor's route are those seen in cuDNN. */
static inline int is_by_vendor(const char *route)
{
	return !strcmp(route, "cudnn");
}

/* cuDNN's bits repeat where cuBLAS has workspaces of its own for each stream, those of other routes always. */
static inline int promises_bits(const char *route)
{
	const char *config = getenv("CUBLAS_WORKSPACE_CONFIG");

	return !is_by_vendor(route) || (config && (!strcmp(config, ":16:8") || !strcmp(config, ":4096:2")));
}

/* Does work memory of a caller's in memory of such a kind lie as the stream's own does?  In an arena it begins at any multiple of 8, and on
 * CUDA products of operands that are less aligned than to 16 may add in another order. */
static inline int lies_alike(const struct cg_context *context, int memory)
{
	return memory != AREA_ARENA || strncmp(cg_describe(context), "cuda", 4);
}

#endif
