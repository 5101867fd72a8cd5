/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draws a loss over steps, in a terminal and as SVG.  Both pictures show the same: what is not finite is left out, a column that
 * stands for several steps shows their mean.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "command/demo/curve.h"
#include "runtime/device/inspect.h"

/* ---- what both share ---- */

enum { MARKS = 6 };                              /* at most as many between */

/* Marks stand at whole multiples of a round number. */
struct axis { double low, high, mark; };

/* The least 1, 2 or 5 times a power of ten that is no less. */
static double round_number(double least)
{
	double ten = pow(10, floor(log10(least)));

	return ten * (least <= ten ? 1 : least <= 2 * ten ? 2 : least <= 5 * ten ? 5 : 10);
}

static void include(struct axis *y, double loss)
{
	if (!isfinite(loss))
		return;
	y->low = fmin(y->low, loss);
	y->high = fmax(y->high, loss);
}

/* The mean loss over column k of n columns; NaN where no step has been. */
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

/* For all that is drawn in n columns. */
static struct axis axis_of(const struct curve *c, int n)
{
	struct axis y = { INFINITY, -INFINITY, 0 };
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
	y.mark = round_number((y.high - y.low) / MARKS);
	return y;
}

static double first_mark(const struct axis *y)
{
	return ceil(y->low / y->mark) * y->mark;
}

/* How far from the top, 0 to 1. */
static double depth(const struct axis *y, double loss)
{
	return (y->high - loss) / (y->high - y->low);
}

/* ---- in a terminal ---- */

enum { ROWS = 15, LABEL = 6, WIDEST = 100, NARROWEST = 24 };
enum { LEVEL = 256, POINT = 512 };               /* above the eight dots of a cell of braille */

struct screen {
	int columns, across, down;               /* cells in a row; dots in a cell */
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

/* Which of n rows a loss is in. */
static int row_of(const struct axis *y, double loss, int n)
{
	return within((int)(depth(y, loss) * n), 0, n - 1);
}

static void dot(struct screen *s, int x, int y)
{
	/* The bits of braille's dots, by row and column. */
	static const unsigned char bits[4][2] = { { 1, 8 }, { 2, 16 }, { 4, 32 }, { 64, 128 } };

	s->cell[y / s->down][x / s->across] |= bits[y % s->down][x % s->across];
}

static void draw_loss(const struct curve *c, const struct axis *axis, struct screen *s)
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

static void draw(const struct curve *c, const struct axis *axis, struct screen *s)
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

/* The mark that stands beside a row, if one does. */
static int mark_beside(const struct axis *y, int row, double *mark)
{
	for (*mark = first_mark(y); *mark <= y->high; *mark += y->mark)
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
	struct axis y = axis_of(c, s.columns * s.across);
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

enum { WIDTH = 760, HEIGHT = 460, LEFT = 60, RIGHT = 20, TOP = 56, BOTTOM = 52, BINS = 300 };

/* A failure is kept until the end. */
struct svg { struct file *file; int code; };

static void put(struct svg *svg, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(struct svg *svg, const char *format, ...)
{
	char text[512];
	va_list list;
	int n;

	va_start(list, format);
	n = vsnprintf(text, sizeof text, format, list);
	va_end(list);
	if (!svg->code)
		svg->code = file_put(svg->file, text, (size_t)within(n, 0, sizeof text - 1));
}

static int bins(const struct curve *c)
{
	return c->steps < BINS ? c->steps : BINS;
}

static double across(const struct curve *c, double step)
{
	return LEFT + step / c->steps * (WIDTH - LEFT - RIGHT);
}

static double down(const struct axis *y, double loss)
{
	return TOP + depth(y, loss) * (HEIGHT - TOP - BOTTOM);
}

static void put_frame(const struct curve *c, const struct axis *y, struct svg *svg)
{
	int each = (int)fmax(1, round_number((double)c->steps / MARKS));

	put(svg, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\"\n"
	    "     font-family=\"sans-serif\" font-size=\"13\" fill=\"#333\">\n", WIDTH, HEIGHT, WIDTH, HEIGHT);
	put(svg, "<title>%s</title>\n<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n", c->title, WIDTH, HEIGHT);
	put(svg, "<text x=\"%d\" y=\"26\" font-size=\"17\">%s</text>\n", LEFT, c->title);
	for (double mark = first_mark(y); mark <= y->high; mark += y->mark) {
		put(svg, "<path d=\"M%d %.1fH%d\" stroke=\"#ddd\"/>", LEFT, down(y, mark), WIDTH - RIGHT);
		put(svg, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n", LEFT - 8, down(y, mark) + 4, mark);
	}
	for (int step = 0; step <= c->steps; step += each) {
		put(svg, "<path d=\"M%.1f %dv5\" stroke=\"#333\"/>", across(c, step), HEIGHT - BOTTOM);
		put(svg, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%d</text>\n", across(c, step), HEIGHT - BOTTOM + 20,
		    step);
	}
	put(svg, "<path d=\"M%d %dV%dH%d\" fill=\"none\" stroke=\"#333\"/>\n", LEFT, TOP, HEIGHT - BOTTOM, WIDTH - RIGHT);
	put(svg, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">step</text>\n", (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 12);
	put(svg, "<text transform=\"translate(20 %d) rotate(-90)\" text-anchor=\"middle\">%s</text>\n",
	    (TOP + HEIGHT - BOTTOM) / 2, c->unit);
}

static void put_loss(const struct curve *c, const struct axis *y, struct svg *svg)
{
	int n = bins(c), drawn = 0;

	put(svg, "<path fill=\"none\" stroke=\"#9ab8d8\" stroke-width=\"1.5\" d=\"");
	for (int k = 0; k < n; k++) {
		double loss = column(c, k, n);

		if (isfinite(loss))
			put(svg, "%c%.1f %.1f", drawn ? 'L' : 'M', across(c, (k + 0.5) * c->steps / n), down(y, loss));
		drawn = isfinite(loss);
	}
	put(svg, "\"/>\n");
}

static void put_points(const struct curve *c, const struct axis *y, struct svg *svg)
{
	int drawn = 0;

	put(svg, "<path fill=\"none\" stroke=\"#1a7f37\" stroke-width=\"2\" d=\"");
	for (int k = 0; k < c->n_points; k++) {
		double loss = c->points[k].loss;

		if (isfinite(loss))
			put(svg, "%c%.1f %.1f", drawn ? 'L' : 'M', across(c, c->points[k].step), down(y, loss));
		drawn = isfinite(loss);
	}
	put(svg, "\"/>\n<g fill=\"#1a7f37\">\n");
	for (int k = 0; k < c->n_points; k++)
		if (isfinite(c->points[k].loss))
			put(svg, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"/>\n", across(c, c->points[k].step),
			    down(y, c->points[k].loss));
	put(svg, "</g>\n");
}

static void put_level(const struct curve *c, const struct axis *y, struct svg *svg)
{
	put(svg, "<path d=\"M%d %.1fH%d\" stroke=\"#c62828\" stroke-width=\"1.5\" stroke-dasharray=\"7 5\"/>\n", LEFT,
	    down(y, c->level), WIDTH - RIGHT);
	put(svg, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.2f</text>\n", WIDTH - RIGHT - 4,
	    down(y, c->level) - 5, c->level);
}

static void put_names(const struct curve *c, struct svg *svg)
{
	const struct { const char *name, *colour, *dashes; } rows[] = {
		{ c->loss_name, "#9ab8d8", "none" }, { c->points_name, "#1a7f37", "none" }, { c->level_name, "#c62828", "7 5" }
	};

	for (int k = 0; k < 3; k++) {
		int x = WIDTH - RIGHT - 190, y = TOP + 20 + 20 * k;

		put(svg, "<path d=\"M%d %dh32\" stroke=\"%s\" stroke-width=\"2\" stroke-dasharray=\"%s\"/>", x, y - 4,
		    rows[k].colour, rows[k].dashes);
		put(svg, "<text x=\"%d\" y=\"%d\">%s</text>\n", x + 40, y, rows[k].name);
	}
}

int curve_svg(const struct curve *c, struct file *file)
{
	struct svg svg = { file, CG_OK };
	struct axis y = axis_of(c, bins(c));

	put_frame(c, &y, &svg);
	put_level(c, &y, &svg);
	put_loss(c, &y, &svg);
	put_points(c, &y, &svg);
	put_names(c, &svg);
	put(&svg, "</svg>\n");
	return svg.code;
}
