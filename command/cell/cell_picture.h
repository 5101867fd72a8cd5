/* SPDX-License-Identifier: Apache-2.0 */
/* A picture of a cell's equations, as SVG. */
#ifndef CELL_PICTURE_H
#define CELL_PICTURE_H

#include "command/file.h"
#include "runtime/device/inspect.h"

/* Draws which values each equation reads: gates, states before the step, weights, scalars and params are on the left, and the value of an
 * equation is right of all values that the equation reads. Argument `file`: the picture's file, which file_check_picture() has checked. */
int cell_picture_draw(const struct cg_cell *, struct file *);

#endif
