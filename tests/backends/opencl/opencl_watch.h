/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Watches the calls that the opencl backend makes of its driver: counts them, and makes one fail.
 */
#ifndef OPENCL_WATCH_H
#define OPENCL_WATCH_H

#include "backends/opencl/library.h"
#include "tests/backends/driver_watch.h"

extern struct cg_cl driver;              /* the driver's own functions, which the watching functions call */

/* The number of calls of each function since forget() or forget_calls(). */
struct calls {
#define CL_CALL(name, parameters, names) long name;
#define CL_MAKE(type, name, parameters, names) long name;
#include "backends/opencl/opencl.fn"
#undef CL_CALL
#undef CL_MAKE
};
extern struct calls seen;

/* Puts the watching functions before all of the driver's functions, if there is a driver. */
void watch(void);
/* Sets the counts of all calls to 0 and lets no call fail. */
void forget_calls(void);
/* Calls forget_calls(), and installs the watching functions again. */
void forget(void);

/* Calls forget_calls() and opens a device; without one the test is skipped with the reason, or fails if the backend is required. */
int opens(struct cg_context **context);
int open_tensors(struct tensors *);
/* The setup function for cmocka: calls watch(). */
int set_up(void **state);

#endif
