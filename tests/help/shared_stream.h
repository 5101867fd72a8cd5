/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A context and a stream that the tests of a program share: a setup function opens them before the first test, and close_all() closes them.
 */
#ifndef SHARED_STREAM_H
#define SHARED_STREAM_H

#include "runtime/cellgrad.h"

extern struct cg_context *context;
extern struct cg_stream *stream;

/* Setup and teardown functions for cmocka. open_cpu opens the context and the stream on the cpu, open_named on the device that
   CELLGRAD_BACKEND names, or else on the first that opens; close_all closes both. */
int open_cpu(void **state);
int open_named(void **state);
int close_all(void **state);

#endif
