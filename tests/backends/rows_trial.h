/* SPDX-License-Identifier: Apache-2.0 */
/* Compares a backend's slot `rows`, to the bit, with a plain implementation of its rule that uses the reference's dropout masks. */
#ifndef ROWS_TRIAL_H
#define ROWS_TRIAL_H

#include "runtime/device/device.h"

/* Moves so many sets of rows, of every dtype and shape in turn; fails the test that calls it. */
void rows_try(struct cg_stream *, int trials);
/* Calls slot `rows` once, with rows of one fixed shape; returns its code. */
int rows_once(struct cg_stream *, int dtype);

#endif
