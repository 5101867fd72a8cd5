/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What all stand-ins share: reports of mistakes, failing on request, random choices by a seed, and settings from the environment.
 * Each stand-in has its own copy of misuse_report.c; all reports go to one file.
 */
#ifndef MISUSE_REPORT_H
#define MISUSE_REPORT_H

#include <stdint.h>

#define FAKE_API __attribute__((visibility("default")))

/* Writes a line to the file that CELLGRAD_FAKE_REPORT names, else to standard error. */
void fake_report(const char *format, ...) __attribute__((format(printf, 1, 2)));
/* The code with which this call must fail, 0 if it must not: CELLGRAD_FAKE_FAIL=[NAME:]N[:CODE],... makes the N-th call fail
   whose name matches the pattern NAME, with CODE, or else with `usual`. */
int fake_refused(const char *call, int usual);
/* A random number from 0 to below `below`, by CELLGRAD_TEST_SEED. */
uint32_t fake_random(uint32_t below);
/* CELLGRAD_FAKE_`name` as a number; `otherwise` if it is unset or empty. */
long fake_setting(const char *name, long otherwise);
/* The version of CUDA that CELLGRAD_FAKE_CUDA chooses, as a number: 13000 for 13.0, which is the default. */
int fake_version(void);

#endif
