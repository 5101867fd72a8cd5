/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The curve of a training, drawn in a terminal and as SVG: the loss over the steps, points of a second loss that is measured now and then,
 * and a level that the second loss should get below.
 */
#ifndef CURVE_H
#define CURVE_H

#include "command/file.h"
#include "command/output.h"

struct curve_point { int step; double loss; };
struct curve {
	const char *title, *unit;                /* "bits per character" */
	const char *loss_name, *points_name, *level_name;
	const double *loss;                      /* [n]: the losses of steps 1 to n */
	int n, steps;                            /* n: the number of steps done; steps: the number of steps on the axis */
	const struct curve_point *points;
	int n_points;
	double level;
};

/* Prints the curve on standard output, as wide as the terminal allows, up to a limit: in braille where the locale is UTF-8, else in
 * ASCII. */
void curve_print(const struct curve *, struct print_colour);
/* Writes the curve by file_put; the caller calls file_begin and file_end. */
int  curve_svg(const struct curve *, struct file *);

#endif
