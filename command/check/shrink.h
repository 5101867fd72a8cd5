/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shrinks a failing case: smaller sizes, simpler scalars, options off, arguments absent, as long as it still fails. The case is
 * given by its fields; the caller runs it.
 */
#ifndef SHRINK_H
#define SHRINK_H

#include "verify/field.h"

/* fails: returns 1 while the case in the fields fails in the same way, 0 if it does not, or an error code, which ends the
 * shrinking. The same case always shrinks to the same result. */
int shrink(const struct fields *, int (*fails)(void *), void *user);

#endif
