/* SPDX-License-Identifier: Apache-2.0 */
/* A picture of a cell's equations, as SVG. */
#ifndef CELL_PICTURE_H
#define CELL_PICTURE_H

#include "command/file.h"
#include "runtime/device/inspect.h"

/* Draws which value each equation reads, from the gates and the states before the step on the left to the output and the states after it.
 * The file was checked by file_check_picture(). */
int cell_picture_draw(const struct cg_cell *, struct file *);

#endif
