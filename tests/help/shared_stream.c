/* SPDX-License-Identifier: Apache-2.0 */
#include <stddef.h>

#include "tests/help/shared_stream.h"

struct cg_context *context;
struct cg_stream *stream;

static int open_all(const char *backend)
{
	return cg_open(backend, &context) || cg_stream_open(context, NULL, &stream);
}

int open_cpu(void **state)
{
	(void)state;
	return open_all("cpu");
}

int open_named(void **state)
{
	(void)state;
	return open_all(NULL);
}

int close_all(void **state)
{
	(void)state;
	cg_stream_close(stream);
	cg_close(context);
	return 0;
}
