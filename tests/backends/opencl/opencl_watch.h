/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches the calls that the opencl backend makes of its driver: counts them, and makes one fail.
 */
#ifndef OPENCL_WATCH_H
#define OPENCL_WATCH_H

#include "backends/opencl/library.h"
#include "tests/backends/driver_watch.h"

extern struct cg_cl driver;              /* the driver itself */

/* The number of calls since forget(). */
struct calls {
#define CL_CALL(name, parameters, names) long name;
#define CL_MAKE(type, name, parameters, names) long name;
#include "backends/opencl/opencl.fn"
#undef CL_CALL
#undef CL_MAKE
};
extern struct calls seen;

/* Puts itself in front of all calls, where there is a driver. */
void watch(void);
/* No call was made. */
void forget_calls(void);
/* The same, and all calls are watched as at first. */
void forget(void);

/* Opens a device, or skips this test with the reason, unless the backend is required. */
int opens(struct cg_context **context);
int open_tensors(struct tensors *);
/* cmocka's: watches. */
int set_up(void **state);

#endif
