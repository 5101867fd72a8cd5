/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Networks, with the numbers of products and of point kernels that a step of each enqueues, forward and backward; these numbers are the
 * same on every device.
 */
#ifndef STEP_CASES_H
#define STEP_CASES_H

#include "tests/help/small_net.h"

struct step_case {
	const char *name, *cell, *options;
	int dtype, bidirectional, ragged;
	int64_t proj;
	/* The numbers of products and of point kernels of each step of each pseudo-layer: [0] forward, [1] backward. */
	int products[2], points[2];
};
enum { STEP_CASES = 16 };
extern const struct step_case step_cases[STEP_CASES];

/* Opens the network of a case in device memory, for T steps, with every argument. step_case_open() sets `lengths`, of which the longest is
   T; only in a ragged case the call has lengths. */
int step_case_open(struct net *, const struct step_case *, int64_t T, int32_t *lengths, struct cg_context *, struct cg_stream *);
enum { STEP_CASE_ROWS = 5 };

#endif
