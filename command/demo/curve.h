/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A loss over the steps of a training, drawn in a terminal and as SVG: the loss of every step, points of another one that
 * is measured now and then, and a level to get below.
 */
#ifndef CURVE_H
#define CURVE_H

#include "command/file.h"
#include "command/output.h"

struct curve_point { int step; double loss; };
struct curve {
	const char *title, *unit;                /* "bits per character" */
	const char *loss_name, *points_name, *level_name;
	const double *loss;                      /* [n]: of steps 1 to n */
	int n, steps;                            /* done, and the width of the axis */
	const struct curve_point *points;
	int n_points;
	double level;
};

/* Prints it on standard output, as wide as the terminal lets it be; braille where the locale is UTF-8, else ASCII. */
void curve_print(const struct curve *, struct print_colour);
/* Writes it by file_put; file_begin and file_end are the caller's. */
int  curve_svg(const struct curve *, struct file *);

#endif
