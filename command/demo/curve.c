/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draws a loss over steps, in a terminal and as SVG. Both drawings leave out losses that are not finite, and show the mean loss where a
 * column stands for several steps.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "command/demo/curve.h"
#include "command/svg.h"
#include "runtime/device/inspect.h"

/* ---- what both drawings share ---- */

enum { MARKS = 6 };                              /* the most intervals between marks of an axis */

static void include(struct svg_axis *y, double loss)
{
	if (!isfinite(loss))
		return;
	y->low = fmin(y->low, loss);
	y->high = fmax(y->high, loss);
}

/* The mean of the finite losses over the steps of column k of n columns; NaN where that column has no finite loss yet. */
static double column(const struct curve *c, int k, int n)
{
	int from = (int)((long long)c->steps * k / n), to = (int)((long long)c->steps * (k + 1) / n);
	double sum = 0;
	int count = 0;

	if (to == from)
		to++;
	for (int step = from; step < to && step < c->n; step++)
		if (isfinite(c->loss[step])) {
			sum += c->loss[step];
			count++;
		}
	return count ? sum / count : NAN;
}

/* The vertical axis of a drawing in n columns, for the means of the columns, the points and the level. */
static struct svg_axis axis_of(const struct curve *c, int n)
{
	struct svg_axis y = { INFINITY, -INFINITY, 0, 0 };
	double margin;

	for (int k = 0; k < n; k++)
		include(&y, column(c, k, n));
	for (int k = 0; k < c->n_points; k++)
		include(&y, c->points[k].loss);
	include(&y, c->level);
	if (y.low > y.high)
		y.low = y.high = 0;
	margin = fmax(0.04 * (y.high - y.low), 1e-3);
	y.low -= margin;
	y.high += margin;
	y.mark = svg_round((y.high - y.low) / MARKS);
	return y;
}

/* ---- in a terminal ---- */

enum { ROWS = 15, LABEL = 6, WIDEST = 100, NARROWEST = 24 };
enum { LEVEL = 256, POINT = 512 };               /* bits of a screen cell; the eight bits below these are the dots of a braille cell */

struct screen {
	int columns, across, down;               /* columns: the cells in a row; across, down: the dots of a cell in each direction */
	unsigned short cell[ROWS][WIDEST];
};

static int locale_is_utf8(void)
{
	static const int variables[] = { CG_ENV_LC_ALL, CG_ENV_LC_CTYPE, CG_ENV_LANG };

	for (int k = 0; k < 3; k++) {
		const char *value = cg_variable_get(variables[k]), *dot;

		if (!value)
			continue;
		dot = strchr(value, '.');
		return dot && (!strncasecmp(dot + 1, "utf-8", 5) || !strncasecmp(dot + 1, "utf8", 4));
	}
	return 0;
}

static int terminal_width(void)
{
	struct winsize size;

	if (isatty(STDOUT_FILENO) && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) && size.ws_col)
		return size.ws_col;
	return 80;
}

static int within(int value, int low, int high)
{
	return value < low ? low : value > high ? high : value;
}

/* The row in which a loss is drawn, of n rows from the top. */
static int row_of(const struct svg_axis *y, double loss, int n)
{
	return within((int)((1 - svg_share(y, loss)) * n), 0, n - 1);
}

static void dot(struct screen *s, int x, int y)
{
	/* The bits of the dots of a braille cell, by row and column. */
	static const unsigned char bits[4][2] = { { 1, 8 }, { 2, 16 }, { 4, 32 }, { 64, 128 } };

	s->cell[y / s->down][x / s->across] |= bits[y % s->down][x % s->across];
}

static void draw_loss(const struct curve *c, const struct svg_axis *axis, struct screen *s)
{
	int last = -1;

	for (int x = 0; x < s->columns * s->across; x++) {
		double loss = column(c, x, s->columns * s->across);
		int y, from;

		if (isnan(loss)) {
			last = -1;
			continue;
		}
		y = row_of(axis, loss, ROWS * s->down);
		from = last < 0 || last == y ? y : last < y ? last + 1 : last - 1;
		for (int between = from; between != y; between += between < y ? 1 : -1)
			dot(s, x, between);
		dot(s, x, y);
		last = y;
	}
}

static void draw(const struct curve *c, const struct svg_axis *axis, struct screen *s)
{
	draw_loss(c, axis, s);
	for (int x = 0; x < s->columns && isfinite(c->level); x++)
		s->cell[row_of(axis, c->level, ROWS)][x] |= LEVEL;
	for (int k = 0; k < c->n_points; k++) {
		int x = (int)((long long)c->points[k].step * s->columns / (c->steps + 1));

		if (isfinite(c->points[k].loss))
			s->cell[row_of(axis, c->points[k].loss, ROWS)][within(x, 0, s->columns - 1)] |= POINT;
	}
}

static void put_cell(unsigned cell, int utf8, const struct print_colour *colour)
{
	unsigned dots = cell & 0xff;

	if (cell & POINT)
		printf("%s%s%s", colour->good, utf8 ? "\xe2\x97\x8f" : "o", colour->off);
	else if (dots && utf8)
		printf("%c%c%c", 0xe2, 0xa0 | dots >> 6, 0x80 | (dots & 0x3f));
	else if (dots)
		putchar('.');
	else if (cell & LEVEL)
		printf("%s%s%s", colour->bad, utf8 ? "\xe2\x95\x8c" : "-", colour->off);
	else
		putchar(' ');
}

/* Finds the mark of the vertical axis that stands beside a row; returns 0 where no mark does. */
static int mark_beside(const struct svg_axis *y, int row, double *mark)
{
	for (*mark = svg_first_mark(y); svg_has_mark(y, *mark); *mark = svg_next_mark(y, *mark))
		if (row_of(y, *mark, ROWS) == row)
			return 1;
	return 0;
}

static void put_legend(const struct curve *c, int utf8, const struct print_colour *colour)
{
	printf("%*s%s %s   ", LABEL + 2, "", utf8 ? "\xe2\xa0\x89\xe2\xa0\x89" : "..", c->loss_name);
	put_cell(POINT, utf8, colour);
	printf(" %s   ", c->points_name);
	put_cell(LEVEL, utf8, colour);
	put_cell(LEVEL, utf8, colour);
	printf(" %s %.2f\n", c->level_name, c->level);
}

void curve_print(const struct curve *c, struct print_colour colour)
{
	int utf8 = locale_is_utf8(), blank;
	struct screen s = { .columns = within(terminal_width() - LABEL - 2, NARROWEST, WIDEST),
	                    .across = utf8 ? 2 : 1, .down = utf8 ? 4 : 1 };
	struct svg_axis y = axis_of(c, s.columns * s.across);
	double mark;

	draw(c, &y, &s);
	printf("%s%s%s, %s\n\n", colour.strong, c->title, colour.off, c->unit);
	for (int row = 0; row < ROWS; row++) {
		if (mark_beside(&y, row, &mark))
			printf("%*g %s", LABEL, mark, utf8 ? "\xe2\x94\xa4" : "+");
		else
			printf("%*s %s", LABEL, "", utf8 ? "\xe2\x94\x82" : "|");
		for (int x = 0; x < s.columns; x++)
			put_cell(s.cell[row][x], utf8, &colour);
		putchar('\n');
	}
	blank = s.columns - snprintf(NULL, 0, "%d", c->steps) - 1;
	printf("%*s0%*s%d  step\n", LABEL + 2, "", blank, "", c->steps);
	put_legend(c, utf8, &colour);
}

/* ---- as SVG ---- */

static const struct svg_area area = { 760, 460, 60, 20, 56, 52 };
enum { BINS = 300 };                             /* the most means of losses in the picture */

static int bins(const struct curve *c)
{
	return c->steps < BINS ? c->steps : BINS;
}

/* Adds a point to a path; drawn: 1: a line leads to the point from the point before; 0: the path begins anew. */
static void put_point(struct svg *s, double step, double loss, int drawn)
{
	if (isfinite(loss))
		svg_put(s, "%c%.1f %.1f", drawn ? 'L' : 'M', svg_across(s, step), svg_down(s, loss));
}

static void put_loss(const struct curve *c, struct svg *s)
{
	int n = bins(c), drawn = 0;

	svg_put(s, "<path fill=\"none\" stroke=\"#9ab8d8\" stroke-width=\"1.5\" d=\"");
	for (int k = 0; k < n; k++) {
		double loss = column(c, k, n);

		put_point(s, (k + 0.5) * c->steps / n, loss, drawn);
		drawn = isfinite(loss);
	}
	svg_put(s, "\"/>\n");
}

static void put_points(const struct curve *c, struct svg *s)
{
	int drawn = 0;

	svg_put(s, "<path fill=\"none\" stroke=\"#1a7f37\" stroke-width=\"2\" d=\"");
	for (int k = 0; k < c->n_points; k++) {
		put_point(s, c->points[k].step, c->points[k].loss, drawn);
		drawn = isfinite(c->points[k].loss);
	}
	svg_put(s, "\"/>\n<g fill=\"#1a7f37\">\n");
	for (int k = 0; k < c->n_points; k++)
		if (isfinite(c->points[k].loss))
			svg_put(s, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"/>\n", svg_across(s, c->points[k].step),
			        svg_down(s, c->points[k].loss));
	svg_put(s, "</g>\n");
}

static void put_level(const struct curve *c, struct svg *s)
{
	int right = area.width - area.right;

	svg_put(s, "<path d=\"M%d %.1fH%d\" stroke=\"#c62828\" stroke-width=\"1.5\" stroke-dasharray=\"7 5\"/>\n", area.left,
	        svg_down(s, c->level), right);
	svg_put(s, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.2f</text>\n", right - 4, svg_down(s, c->level) - 5, c->level);
}

static void put_names(const struct curve *c, struct svg *s)
{
	const struct { const char *name, *colour, *dashes; } rows[] = {
		{ c->loss_name, "#9ab8d8", "none" }, { c->points_name, "#1a7f37", "none" }, { c->level_name, "#c62828", "7 5" }
	};

	for (int k = 0; k < 3; k++) {
		int x = area.width - area.right - 190, y = area.top + 20 + 20 * k;

		svg_put(s, "<path d=\"M%d %dh32\" stroke=\"%s\" stroke-width=\"2\" stroke-dasharray=\"%s\"/>", x, y - 4,
		        rows[k].colour, rows[k].dashes);
		svg_put(s, "<text x=\"%d\" y=\"%d\">%s</text>\n", x + 40, y, rows[k].name);
	}
}

int curve_svg(const struct curve *c, struct file *file)
{
	struct svg s = { file, area, { 0, c->steps, fmax(1, svg_round((double)c->steps / MARKS)), 0 }, axis_of(c, bins(c)), CG_OK };

	svg_begin(&s, c->title);
	svg_marks_left(&s);
	svg_marks_below(&s);
	svg_frame(&s, "step", c->unit);
	put_level(c, &s);
	put_loss(c, &s);
	put_points(c, &s);
	put_names(c, &s);
	return svg_end(&s);
}
