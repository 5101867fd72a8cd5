/* SPDX-License-Identifier: Apache-2.0 */
/* The device of a suite, which CELLGRAD_BACKEND names, and the seed of its cases. */
#ifndef SUITE_DEVICE_H
#define SUITE_DEVICE_H

#include "verify/area.h"

extern struct side side;
extern unsigned long long seed_of_run;

/* Reads a suite's arguments and environment: a pattern of test names, and CELLGRAD_TEST_SEED. Returns 0 where the suite must not
 * run: --opens asked only whether the backend opens. The answer, or the reason against it, is then printed, and *status is 0 or 1. */
int device_arguments(int argc, char **argv, int *status);

/* cmocka calls device_open before a group of tests, and device_close after it or before the test that looks for leaks. */
int device_open(void **unused);
int device_close(void **unused);

#endif
