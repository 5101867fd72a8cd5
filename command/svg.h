/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the pictures of `cellgrad demo`, `cellgrad bench` and `cellgrad cell` share: SVG elements written to a file, the frame of a plot,
 * and axes.  Lengths are in pixels; positions are measured from the picture's left upper corner.
 */
#ifndef SVG_H
#define SVG_H

#include "command/file.h"

/* The size of a picture, and the margins between its edges and the plot. */
struct svg_area { int width, height, left, right, top, bottom; };

/* A range of numbers. An axis has marks at whole multiples of `mark`; a logarithmic axis has them at 1, 2 and 5 times powers of ten. */
struct svg_axis {
	double low, high, mark;
	int    is_log;                           /* logarithmic; low and high are then positive */
};

/* A picture while it is written. After the first failure, which member `code` keeps, no more of the picture is written. */
struct svg {
	struct file *file;
	struct svg_area area;
	struct svg_axis x, y;
	int code;
};

/* Rounds x, a positive number, up to a number that is 1, 2 or 5 times a power of ten. */
double svg_round(double x);
/* The place of a value on an axis: 0 at low, 1 at high. */
double svg_share(const struct svg_axis *, double value);
/* for (mark = svg_first_mark(a); svg_has_mark(a, mark); mark = svg_next_mark(a, mark)) visits all marks of an axis. */
double svg_first_mark(const struct svg_axis *);
double svg_next_mark(const struct svg_axis *, double mark);
int    svg_has_mark(const struct svg_axis *, double mark);
/* Makes a logarithmic axis for values from low to high, both rounded outwards to marks; the axis is from 1 to 10 where low is above
 * high. */
struct svg_axis svg_log_axis(double low, double high);

/* The place of a value on the horizontal axis (svg_across) or the vertical one, in pixels of the picture. */
double svg_across(const struct svg *, double x);
double svg_down(const struct svg *, double y);
/* Appends a text to the picture; a text of more than 511 bytes is a failure. svg_put() escapes
 * nothing: the caller passes no content, such as a title, with a character that XML reserves. */
void svg_put(struct svg *, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Writes the picture's head, title and white background. */
void svg_begin(struct svg *, const char *title);
/* Writes the marks of an axis with their numbers: svg_marks_below writes them below the plot; svg_marks_left writes them left of the plot,
 * with a line across the plot at each mark. */
void svg_marks_below(struct svg *);
void svg_marks_left(struct svg *);
/* Writes the lines of both axes and their labels; left = NULL: the vertical axis has no label. */
void svg_frame(struct svg *, const char *below, const char *left);
int  svg_end(struct svg *);

#endif
