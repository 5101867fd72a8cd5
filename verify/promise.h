/* The calls whose bits are promised to repeat, by README.md. */
#ifndef PROMISE_H
#define PROMISE_H

#include <stdlib.h>
#include <string.h>

#include "runtime/cellgrad.h"
#include "verify/area.h"

/* By what cg_rnn_route() says.  On route cudnn they do where cuBLAS has workspaces of its own for each stream. */
static inline int promises_bits(const char *route)
{
	const char *config = getenv("CUBLAS_WORKSPACE_CONFIG");

	return strcmp(route, "cudnn") || (config && (!strcmp(config, ":16:8") || !strcmp(config, ":4096:2")));
}

/* Does work memory of a caller's in memory of such a kind lie as the stream's own does?  In an arena it begins at any multiple of 8, and on
 * CUDA products of operands that are less aligned than to 16 may add in another order. */
static inline int lies_alike(const struct cg_context *context, int memory)
{
	return memory != AREA_ARENA || strncmp(cg_describe(context), "cuda", 4);
}

#endif
