/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the elements of SVG pictures: title, axes, marks.
 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>

#include "command/svg.h"
#include "runtime/device/inspect.h"

/* ---- axes ---- */

/* Two functions over the numbers 1, 2 and 5 times powers of ten: the least of them that is not below x, and the greatest that is not
 * above x.  FINE absorbs errors of rounding. */
static const double FINE = 1e-9;

double svg_round(double x)
{
	double ten = pow(10, floor(log10(x))), least = x * (1 - FINE);

	return ten * (least <= ten ? 1 : least <= 2 * ten ? 2 : least <= 5 * ten ? 5 : 10);
}

static double round_down(double x)
{
	double ten = pow(10, floor(log10(x))), most = x * (1 + FINE);

	return ten * (most >= 10 * ten ? 10 : most >= 5 * ten ? 5 : most >= 2 * ten ? 2 : 1);
}

double svg_share(const struct svg_axis *a, double value)
{
	return a->is_log ? log(value / a->low) / log(a->high / a->low) : (value - a->low) / (a->high - a->low);
}

struct svg_axis svg_log_axis(double low, double high)
{
	struct svg_axis a = { 1, 10, 0, 1 };

	if (low > high)
		return a;
	a.low = round_down(low);
	a.high = svg_round(high);
	if (a.high <= a.low)
		a.high = svg_round(1.5 * a.low);
	return a;
}

double svg_first_mark(const struct svg_axis *a)
{
	return a->is_log ? svg_round(a->low) : ceil(a->low / a->mark) * a->mark;
}

double svg_next_mark(const struct svg_axis *a, double mark)
{
	return a->is_log ? svg_round(1.5 * mark) : mark + a->mark;
}

int svg_has_mark(const struct svg_axis *a, double mark)
{
	return mark <= a->high * (1 + FINE);
}

/* ---- elements ---- */

double svg_across(const struct svg *s, double x)
{
	return s->area.left + svg_share(&s->x, x) * (s->area.width - s->area.left - s->area.right);
}

double svg_down(const struct svg *s, double y)
{
	return s->area.top + (1 - svg_share(&s->y, y)) * (s->area.height - s->area.top - s->area.bottom);
}

void svg_put(struct svg *s, const char *format, ...)
{
	char text[512];
	va_list list;
	int n;

	va_start(list, format);
	n = vsnprintf(text, sizeof text, format, list);
	va_end(list);
	if (!s->code && (n < 0 || n >= (int)sizeof text))
		s->code = cg_fail(CG_BAD_ARGUMENT, "a picture's element has %d bytes: expected at most %zu", n, sizeof text - 1);
	if (!s->code)
		s->code = file_put(s->file, text, (size_t)n);
}

void svg_begin(struct svg *s, const char *title)
{
	const struct svg_area *a = &s->area;

	svg_put(s, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\"\n"
	        "     font-family=\"sans-serif\" font-size=\"13\" fill=\"#333\">\n", a->width, a->height, a->width, a->height);
	svg_put(s, "<title>%s</title>\n<rect width=\"%d\" height=\"%d\" fill=\"#fff\"/>\n", title, a->width, a->height);
	svg_put(s, "<text x=\"%d\" y=\"26\" font-size=\"17\">%s</text>\n", a->left, title);
}

void svg_marks_left(struct svg *s)
{
	const struct svg_area *a = &s->area;

	for (double mark = svg_first_mark(&s->y); svg_has_mark(&s->y, mark); mark = svg_next_mark(&s->y, mark)) {
		svg_put(s, "<path d=\"M%d %.1fH%d\" stroke=\"#ddd\"/>", a->left, svg_down(s, mark), a->width - a->right);
		svg_put(s, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.10g</text>\n", a->left - 8, svg_down(s, mark) + 4, mark);
	}
}

void svg_marks_below(struct svg *s)
{
	const int bottom = s->area.height - s->area.bottom;

	for (double mark = svg_first_mark(&s->x); svg_has_mark(&s->x, mark); mark = svg_next_mark(&s->x, mark)) {
		svg_put(s, "<path d=\"M%.1f %dv5\" stroke=\"#333\"/>", svg_across(s, mark), bottom);
		svg_put(s, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%.10g</text>\n", svg_across(s, mark), bottom + 20, mark);
	}
}

void svg_frame(struct svg *s, const char *below, const char *left)
{
	const struct svg_area *a = &s->area;
	const int bottom = a->height - a->bottom;

	svg_put(s, "<path d=\"M%d %dV%dH%d\" fill=\"none\" stroke=\"#333\"/>\n", a->left, a->top, bottom, a->width - a->right);
	svg_put(s, "<text x=\"%d\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", (a->left + a->width - a->right) / 2, bottom + 40, below);
	if (left)
		svg_put(s, "<text transform=\"translate(20 %d) rotate(-90)\" text-anchor=\"middle\">%s</text>\n", (a->top + bottom) / 2, left);
}

int svg_end(struct svg *s)
{
	svg_put(s, "</svg>\n");
	return s->code;
}
