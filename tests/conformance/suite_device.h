/* SPDX-License-Identifier: Apache-2.0 */
/* The device that a suite runs on, which CELLGRAD_BACKEND names, and the seed of its cases. */
#ifndef SUITE_DEVICE_H
#define SUITE_DEVICE_H

#include "verify/area.h"

extern struct side side;
extern unsigned long long seed_of_run;

/* A suite's arguments and environment: a pattern of the tests to run, and CELLGRAD_TEST_SEED.  0: it is not to run, since it was asked,
 * by --opens, whether the backend opens; what it is, or why not, is said, and the exit status is 0 or 1. */
int device_arguments(int argc, char **argv, int *status);

/* Before and after a group of cmocka's, and before the test that looks at what is left. */
int device_open(void **unused);
int device_close(void **unused);

#endif
