/* Where the bits of networks are promised to repeat, which README.md says. */
#ifndef PROMISE_H
#define PROMISE_H

#include <stdlib.h>
#include <string.h>

/* By what cg_rnn_route() says.  On route cudnn they do where cuBLAS has workspaces of its own for each stream. */
static inline int promises_bits(const char *route)
{
	const char *config = getenv("CUBLAS_WORKSPACE_CONFIG");

	return strcmp(route, "cudnn") || (config && (!strcmp(config, ":16:8") || !strcmp(config, ":4096:2")));
}

#endif
