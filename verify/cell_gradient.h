/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the derived gradient of a cell's equations with differences. */
#ifndef CELL_GRADIENT_H
#define CELL_GRADIENT_H

#include "gen/cell.h"

enum { CELL_GRADIENT_POINTS = 12 };

struct cell_gradient {
	int points;                              /* at how many points the gradient was compared */
	double worst;                            /* the largest difference at these points, over 1 + |derivative|; NaN: a gradient is NaN */
	char of[CG_NAME_MAX + 10];               /* the variable with the largest difference; "": none was compared */
	double got, want;                        /* its derived gradient, and that by differences */
};

/* Compares at up to CELL_GRADIENT_POINTS random points, at fewer if the cell has very many operations.  A point at which a value is not finite, or at which a clip cuts, whose gradient
 * passes a clip unchanged, is drawn again.  options: a bit for each option that is on.  Params without a default are 1.  Returns
 * CG_OK, or CG_NO_MEMORY where memory is exhausted or the graph has too many nodes. */
int cell_gradient_check(const struct cg_cell *, int options, unsigned long long seed, struct cell_gradient *);
/* The largest `worst` of a right gradient. */
#define CELL_GRADIENT_TOLERANCE 1e-9

#endif
