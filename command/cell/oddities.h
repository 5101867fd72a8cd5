/* SPDX-License-Identifier: Apache-2.0 */
/* What is legal in a cell's text, but odd. */
#ifndef ODDITIES_H
#define ODDITIES_H

#include "runtime/device/inspect.h"

/* Calls `say` with a sentence about each oddity of the cell.  options: a bit for each option that is on.  Returns CG_OK, or CG_NO_MEMORY
 * where memory is exhausted. */
int oddities_find(const struct cg_cell *, int options, void (*say)(void *user, const char *sentence), void *user);

#endif
