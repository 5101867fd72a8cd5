/*
 * A failing case made simpler: smaller sizes, plainer scalars, options off, arguments left out, as long as it fails.  What a
 * case is, its fields say; whether it fails, the caller does.
 */
#ifndef SHRINK_H
#define SHRINK_H

#include "verify/field.h"

/* fails: 1 while the case that the fields point into fails in the same way, 0 when it does not, or a code, which ends it.
 * The same case always ends as the same simpler one. */
int shrink(const struct fields *, int (*fails)(void *), void *user);

#endif
