/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shrinks a failing case: smaller sizes, simpler scalars, options off, arguments absent, as long as the case still fails. The case is
 * given by its fields; the caller's function runs it.
 */
#ifndef SHRINK_H
#define SHRINK_H

#include "verify/field.h"

/* Shrinks the case in the fields. fails: runs the case, and returns 1 if it fails in the same way as at first, 0 if not, or an error
 * code, which ends the shrinking. If `fails` returns the same for the same fields each time, a case always shrinks to the same result. */
int shrink(const struct fields *, int (*fails)(void *), void *user);

#endif
