/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draws the results of `cellgrad bench` as an SVG picture and writes the numbers beside it, as FILE.tsv.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "command/bench/bench.h"
#include "command/output.h"
#include "command/svg.h"

/* ---- problems ---- */

static const char *const sizes[] = { "T", "B", "I", "U" };
static const char *const axes[] = { "T", "B", "I", "H" };
static const char *const axis_names[] = { "T, steps", "B, rows of the batch", "I, width of the input", "H, units" };
static const char columns[] = "op\twhat";     /* the beginning of the first line of FILE.tsv */
enum { SIZES = 4 };

/* Do two results have the same op, mode, dtype, passes (fwd, bwd or both) and number of layers, and the same T, B, I and H, apart from size
 * number `but` of these, which may differ? */
static int is_same(const struct result *a, const struct result *b, int but)
{
	const struct problem *p = a->problem, *q = b->problem;
	int same = p->row == q->row && p->what == q->what && problem_dtype(p) == problem_dtype(q) &&
	           !strcmp(problem_mode(p), problem_mode(q)) && problem_get_size(p, "L") == problem_get_size(q, "L");

	for (int k = 0; k < SIZES; k++)
		same &= k == but || problem_get_size(p, sizes[k]) == problem_get_size(q, sizes[k]);
	return same;
}

/* The number of the size for the horizontal axis: the number `but` with which is_same() holds for the first result and the most results.
 * -1: there is no such number, since is_same() holds for no other result than the first, whatever `but` is. */
static int find_axis(const struct result *results, size_t n)
{
	size_t most = 1;
	int best = -1;

	for (int k = 0; k < SIZES; k++) {
		size_t alike = 0;

		for (size_t j = 0; j < n; j++)
			alike += (size_t)is_same(&results[0], &results[j], k);
		if (alike > most) {
			most = alike;
			best = k;
		}
	}
	return best;
}

/* Writes "rnn lstm fwd f32 L=2 B=3 I=3 H=4": the mode of a network, L where it is above 1; of T, B, I and H all but number `but`, and T
 * only where it is not 1. */
static void put_label(struct svg *s, const struct result *r, int but)
{
	const struct problem *p = r->problem;

	svg_put(s, "%s", problem_name(p));
	if (p->row->plan)
		svg_put(s, " %s", problem_mode(p));
	svg_put(s, " %s %s", bench_whats[p->what - 1], cg_dtype_name(problem_dtype(p)));
	if (problem_get_size(p, "L") > 1)
		svg_put(s, " L=%lld", (long long)problem_get_size(p, "L"));
	for (int k = 0; k < SIZES; k++)
		if (k != but && (k || problem_get_size(p, sizes[k]) != 1))
			svg_put(s, " %s=%lld", axes[k], (long long)problem_get_size(p, sizes[k]));
}

/* ---- lines: times over a size ---- */

/* One problem of a line; roof: the least time that the machine allows, 0 where it is not known. */
struct point { double size, time, roof; };

static int by_size(const void *a, const void *b)
{
	double x = ((const struct point *)a)->size, y = ((const struct point *)b)->size;

	return (x > y) - (x < y);
}

/* Collects the points of the line to which result k belongs, sorted by size. A size of 0 has no place on a logarithmic axis and is left
 * out. */
static size_t collect(const struct result *results, size_t n, size_t k, int along, struct point *points)
{
	size_t found = 0;

	for (size_t j = k; j < n; j++) {
		double size = (double)problem_get_size(results[j].problem, sizes[along]);

		if (size > 0 && results[j].median > 0 && is_same(&results[k], &results[j], along))
			points[found++] = (struct point){ size, results[j].median, results[j].share * results[j].median };
	}
	qsort(points, found, sizeof *points, by_size);
	return found;
}

/* Is result k the first result of its line in the picture? */
static int is_first(const struct result *results, size_t k, int along)
{
	for (size_t j = 0; j < k; j++)
		if (is_same(&results[k], &results[j], along))
			return 0;
	return 1;
}

static void put_line(struct svg *s, const struct point *points, size_t n, const char *colour)
{
	svg_put(s, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"2\" d=\"", colour);
	for (size_t k = 0; k < n; k++)
		svg_put(s, "%c%.1f %.1f", k ? 'L' : 'M', svg_across(s, points[k].size), svg_down(s, points[k].time));
	svg_put(s, "\"/>\n<g fill=\"%s\">\n", colour);
	for (size_t k = 0; k < n; k++)
		svg_put(s, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3.5\"/>\n", svg_across(s, points[k].size), svg_down(s, points[k].time));
	svg_put(s, "</g>\n");
}

/* Draws a dashed line in the colour of the problem's line: the least time that the machine allows. */
static void put_roof(struct svg *s, const struct point *points, size_t n, const char *colour)
{
	int drawn = 0;

	svg_put(s, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"1.5\" stroke-dasharray=\"7 5\" d=\"", colour);
	for (size_t k = 0; k < n; k++)
		if (points[k].roof > 0) {
			svg_put(s, "%c%.1f %.1f", drawn ? 'L' : 'M', svg_across(s, points[k].size), svg_down(s, points[k].roof));
			drawn = 1;
		}
	svg_put(s, "\"/>\n");
}

/* Begins a row of the legend with a piece of line; the caller writes the text of the row and ends its element. */
static void put_sample(struct svg *s, int row, const char *colour, const char *dashes)
{
	int y = s->area.height - s->area.bottom + 66 + 20 * row;

	svg_put(s, "<path d=\"M%d %dh32\" stroke=\"%s\" stroke-width=\"2\" stroke-dasharray=\"%s\"/>", s->area.left, y - 4, colour, dashes);
	svg_put(s, "<text x=\"%d\" y=\"%d\">", s->area.left + 40, y);
}

static void set_axes(struct svg *s, const struct result *results, size_t n, int along)
{
	double x[2] = { INFINITY, -INFINITY }, y[2] = { INFINITY, -INFINITY };

	for (size_t k = 0; k < n; k++) {
		double size = (double)problem_get_size(results[k].problem, sizes[along]), roof = results[k].share * results[k].median;

		if (size <= 0 || results[k].median <= 0)
			continue;
		x[0] = fmin(x[0], size);
		x[1] = fmax(x[1], size);
		y[0] = fmin(y[0], roof > 0 ? fmin(roof, results[k].median) : results[k].median);
		y[1] = fmax(y[1], fmax(roof, results[k].median));
	}
	s->x = svg_log_axis(x[0], x[1]);
	s->y = svg_log_axis(y[0], y[1]);
}

static int draw_lines(struct svg *s, const struct result *results, size_t n, int along)
{
	static const char *const colours[] = { "#1f6fb4", "#c05a00", "#1a7f37", "#8a3fb0", "#a8324a", "#008080", "#6b5b00", "#444444" };
	struct point *points = cg_memory(NULL, n * sizeof *points);
	int rows = 0, has_roof = 0;

	if (!points)
		return CG_NO_MEMORY;
	for (size_t k = 0; k < n; k++)
		rows += is_first(results, k, along);
	s->area = (struct svg_area){ 960, 560 + 20 * (rows + 1), 80, 30, 56, 80 + 20 * (rows + 1) };
	set_axes(s, results, n, along);
	svg_begin(s, "cellgrad bench: time of a call");
	svg_marks_left(s);
	svg_marks_below(s);
	svg_frame(s, axis_names[along], "median time of a call, ms");
	rows = 0;
	for (size_t k = 0; k < n; k++) {
		const char *colour = colours[rows % (int)(sizeof colours / sizeof *colours)];
		size_t found;

		if (!is_first(results, k, along))
			continue;
		found = collect(results, n, k, along, points);
		put_line(s, points, found, colour);
		put_sample(s, rows++, colour, "none");
		put_label(s, &results[k], along);
		svg_put(s, "</text>\n");
		if (results[k].share > 0) {
			put_roof(s, points, found, colour);
			has_roof = 1;
		}
	}
	if (has_roof) {
		put_sample(s, rows, "#333", "7 5");
		svg_put(s, "roof: the least time that the machine allows</text>\n");
	}
	cg_memory(points, 0);
	return svg_end(s);
}

/* ---- bars: shares of the roof ---- */

static int draw_bars(struct svg *s, const struct result *results, size_t n)
{
	double high = 100;

	for (size_t k = 0; k < n; k++)
		high = fmax(high, 100 * results[k].share);
	s->area = (struct svg_area){ 960, 120 + 24 * (int)n, 380, 30, 56, 64 };
	s->x = (struct svg_axis){ 0, 1.05 * high, svg_round(high / 10), 0 };
	svg_begin(s, "cellgrad bench: share of the roof");
	for (size_t k = 0; k < n; k++) {
		int y = s->area.top + 24 * (int)k;

		svg_put(s, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">", s->area.left - 8, y + 17);
		put_label(s, &results[k], -1);
		svg_put(s, "</text><rect x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"16\" fill=\"#1f6fb4\"/>\n", s->area.left, y + 4,
		        svg_across(s, 100 * results[k].share) - s->area.left);
	}
	svg_marks_below(s);
	svg_frame(s, "the least time that the machine allows, the roof, in percent of the measured time", NULL);
	svg_put(s, "<path d=\"M%.1f %dV%d\" stroke=\"#c62828\" stroke-width=\"1.5\" stroke-dasharray=\"7 5\"/>\n", svg_across(s, 100),
	        s->area.top, s->area.height - s->area.bottom);
	svg_put(s, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"end\">roof</text>\n", svg_across(s, 100) - 4, s->area.top - 6);
	return svg_end(s);
}

/* ---- files ---- */

static void write_data(struct cg_text *t, const struct result *results, size_t n)
{
	cg_text_printf(t, "%s\tdtype\tT\tB\tI\tH\treps\tmin_ms\tmedian_ms\tspread_ms\tgflops\tgbytes\tshare\n", columns);
	for (const struct result *r = results; r < results + n; r++) {
		const struct problem *p = r->problem;

		cg_text_printf(t, "%s\t%s\t%s", problem_name(p), bench_whats[p->what - 1], cg_dtype_name(problem_dtype(p)));
		for (int k = 0; k < SIZES; k++)
			cg_text_printf(t, "\t%lld", (long long)problem_get_size(p, sizes[k]));
		cg_text_printf(t, "\t%ld\t%.9g\t%.9g\t%.9g\t%.9g\t%.9g\t%.9g\n", r->reps, r->least, r->median, r->spread, r->gflops,
		               r->gbytes, r->share);
	}
}

int plot_check(struct plot *plot, const char *path)
{
	char data[PATH_MAX], shown[PRINT_NAME];
	size_t length = strlen(path);

	if (length <= 4 || strcmp(path + length - 4, ".svg"))
		return cg_fail(CG_BAD_ARGUMENT, "--plot: expected a file NAME.svg, got \"%s\"", print_name(shown, path));
	if (snprintf(data, sizeof data, "%s.tsv", path) >= (int)sizeof data)
		return cg_fail(CG_FILE, "%.40s...: the path with .tsv added is too long", path);
	CG_TRY(file_check_picture(&plot->picture, path));
	return file_check_text(&plot->data, data, columns);
}

static int write_table(struct file *file, const struct result *results, size_t n)
{
	struct cg_text text = { cg_memory, NULL, 0, 0, 0 };
	int code;

	write_data(&text, results, n);
	code = text.failed ? CG_NO_MEMORY : file_begin(file);
	if (!code)
		code = file_put(file, text.at, text.length);
	cg_memory(text.at, 0);
	return code ? code : file_end(file);
}

int plot_write(struct plot *plot, const struct result *results, size_t n)
{
	struct svg s = { .file = &plot->picture };
	int along = find_axis(results, n);

	CG_TRY(write_table(&plot->data, results, n));
	CG_TRY(file_begin(&plot->picture));
	CG_TRY(along < 0 ? draw_bars(&s, results, n) : draw_lines(&s, results, n, along));
	return file_end(&plot->picture);
}

void plot_close(struct plot *plot)
{
	file_discard(&plot->data);
	file_discard(&plot->picture);
}
