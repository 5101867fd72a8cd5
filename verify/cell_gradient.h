/* SPDX-License-Identifier: Apache-2.0 */
/* Compares the derived gradient of a cell's equations with differences. */
#ifndef CELL_GRADIENT_H
#define CELL_GRADIENT_H

#include "gen/cell.h"

enum { CELL_GRADIENT_POINTS = 12 };

struct cell_gradient {
	int points;                              /* at how many points the gradient was compared */
	/* The largest difference at these points, divided by 1 + |derivative| + rounding / CELL_GRADIENT_TOLERANCE, where rounding is
	 * that of the differences; NaN: a gradient is NaN. */
	double worst;
	char of[CG_NAME_MAX + 10];               /* the variable with the largest difference; "": none was compared */
	double got, want;                        /* got: the derived gradient by that variable; want: that by differences */
};

/* Compares at up to CELL_GRADIENT_POINTS random points, at fewer if the cell has very many operations or if few of the drawn points serve.
 * A point at which a value is not finite or a clip cuts is drawn again: the derived gradient passes a clip unchanged.  options: a bit for
 * each option that is on.  Params without a default are 1.  Returns CG_OK, or CG_NO_MEMORY where memory is exhausted or the graph has too
 * many nodes. */
int cell_gradient_check(const struct cg_cell *, int options, unsigned long long seed, struct cell_gradient *);
/* The largest `worst` of a right gradient. */
#define CELL_GRADIENT_TOLERANCE 1e-9

#endif
