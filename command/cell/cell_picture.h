/* SPDX-License-Identifier: Apache-2.0 */
/* A picture of a cell's equations, as SVG. */
#ifndef CELL_PICTURE_H
#define CELL_PICTURE_H

#include "command/file.h"
#include "runtime/device/inspect.h"

/* Draws which value each equation reads, from the gates and the states before the step on the left to the output and the states after the
 * step on the right. Argument `file`: the picture's file, which file_check_picture() has checked. */
int cell_picture_draw(const struct cg_cell *, struct file *);

#endif
