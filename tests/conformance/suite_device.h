/* SPDX-License-Identifier: Apache-2.0 */
/* The device of a suite, which CELLGRAD_BACKEND names, and the seed of its cases. */
#ifndef SUITE_DEVICE_H
#define SUITE_DEVICE_H

#include "verify/area.h"

extern struct side side;
extern unsigned long long seed_of_run;

/* Reads a suite's arguments and environment: a pattern of test names, and CELLGRAD_TEST_SEED. Returns 1 if the suite must run. Returns 0
 * for the argument --opens: then it has printed a description of the backend and set *status to 0, or the reason why the backend does not
 * open and set *status to 1. */
int device_arguments(int argc, char **argv, int *status);

/* cmocka calls device_open before the tests of a suite, and device_close before the last test, which looks for leaks, and at the end. */
int device_open(void **unused);
int device_close(void **unused);

#endif
