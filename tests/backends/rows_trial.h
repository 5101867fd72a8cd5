/* SPDX-License-Identifier: Apache-2.0 */
/* Compares cg_copy_rows() on a backend, to the bit, with a plain implementation of its rule that uses the reference's dropout masks. */
#ifndef ROWS_TRIAL_H
#define ROWS_TRIAL_H

#include "runtime/device/device.h"

/* Moves `trials` random sets of rows, in each dtype in turn, and 32 large sets; a wrong element fails the test that calls it. */
void rows_try(struct cg_stream *, int trials);
/* Calls cg_copy_rows() once, with rows of one fixed shape; returns its code. */
int rows_once(struct cg_stream *, int dtype);

#endif
