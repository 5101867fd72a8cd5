/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a failing case simpler: smaller sizes, plainer scalars, options off, arguments left out, as long as it fails.  The case is
 * its fields; the caller runs it.
 */
#ifndef SHRINK_H
#define SHRINK_H

#include "verify/field.h"

/* fails: 1 while the case that the fields point into fails in the same way, 0 when it does not, or a code, which ends it.
 * The same case always ends as the same simpler one. */
int shrink(const struct fields *, int (*fails)(void *), void *user);

#endif
