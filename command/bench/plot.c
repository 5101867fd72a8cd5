/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draws results as a picture by gnuplot through a pipe, and writes the data beside it.  gnuplot gets numbers and our own words
 * only: the picture's file is opened here and is its standard output.
 */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "command/bench/bench.h"
#include "command/output.h"

extern char **environ;

/* ---- gnuplot ---- */

/* Starts it without the user's settings; in and out become its standard streams. */
static int start(const char *last, int in, int out, pid_t *child)
{
	char *const arguments[] = { "gnuplot", "--default-settings", (char *)last, NULL };
	posix_spawn_file_actions_t files;
	posix_spawnattr_t attributes;
	sigset_t pipe_signal;
	int failed;

	sigemptyset(&pipe_signal);
	sigaddset(&pipe_signal, SIGPIPE);
	posix_spawnattr_init(&attributes);
	posix_spawnattr_setsigdefault(&attributes, &pipe_signal);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
	posix_spawn_file_actions_init(&files);
	posix_spawn_file_actions_adddup2(&files, in, 0);
	posix_spawn_file_actions_adddup2(&files, out, 1);
	failed = posix_spawnp(child, arguments[0], &files, &attributes, arguments, environ);
	posix_spawn_file_actions_destroy(&files);
	posix_spawnattr_destroy(&attributes);
	return failed;
}

static int wait_for(pid_t child)
{
	int status;

	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return -1;
	return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static int find_gnuplot(void)
{
	int nothing = open("/dev/null", O_RDWR | O_CLOEXEC), failed;
	pid_t child;

	if (nothing < 0)
		return cg_fail(CG_FILE, "/dev/null: %s", strerror(errno));
	failed = start("--version", nothing, nothing, &child);
	close(nothing);
	if (failed == ENOENT || failed == EACCES || (!failed && wait_for(child) == 127))
		return cg_fail(CG_UNSUPPORTED, "--plot: gnuplot is not there: install it (Debian: gnuplot-nox)");
	return failed ? cg_fail(CG_DRIVER, "--plot: gnuplot: %s", strerror(failed)) : CG_OK;
}

static int draw(struct file *picture, const struct cg_text *script)
{
	const char *at = script->at, *end = at + script->length;
	int ends[2], failed, status;
	struct stat made;
	pid_t child;

	if (pipe2(ends, O_CLOEXEC))
		return cg_fail(CG_DRIVER, "--plot: pipe: %s", strerror(errno));
	failed = start("-", ends[0], picture->fd, &child);
	close(ends[0]);
	while (!failed && at < end) {
		ssize_t n = write(ends[1], at, (size_t)(end - at));

		if (n < 0 && errno != EINTR)
			break;                   /* it has gone: its exit status tells */
		at += n > 0 ? n : 0;
	}
	close(ends[1]);
	if (failed)
		return cg_fail(CG_DRIVER, "--plot: gnuplot: %s", strerror(failed));
	status = wait_for(child);
	if (status || fstat(picture->fd, &made) || !made.st_size)
		return cg_fail(CG_DRIVER, "--plot: gnuplot drew nothing: exit status %d", status);
	return CG_OK;
}

/* ---- the script ---- */

static const char *const sizes[] = { "T", "B", "I", "U" };
static const char *const axes[] = { "T", "B", "I", "H" };
static const char columns[] = "op\twhat";     /* how the data begins */
enum { SIZES = 4, HIGHEST = 8000 };           /* HIGHEST: of a picture, in pixels */

static int is_same(const struct result *a, const struct result *b, int but)
{
	int same = a->problem->row == b->problem->row && a->problem->what == b->problem->what;

	for (int k = 0; k < SIZES; k++)
		same &= k == but || problem_get_size(a->problem, sizes[k]) == problem_get_size(b->problem, sizes[k]);
	return same;
}

/* The size along which most problems are alike otherwise; -1: none, and each problem stands by itself. */
static int axis(const struct result *results, size_t n)
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

/* "LSTMBlockCell fwd f32", and the sizes but one, and but one step */
static void label(struct cg_text *t, const struct result *r, int but)
{
	const struct problem *p = r->problem;

	cg_text_printf(t, "%s %s %s", problem_name(p), bench_whats[p->what - 1], cg_dtype_name(problem_dtype(p)));
	for (int k = 0; k < SIZES; k++)
		if (k != but && (k || problem_get_size(p, sizes[k]) != 1))
			cg_text_printf(t, " %s=%lld", axes[k], (long long)problem_get_size(p, sizes[k]));
}

/* Points of size, time and the least time that the machine allows, 0 where that is not known. */
static void write_points(struct cg_text *t, const struct result *results, size_t n, size_t k, int along)
{
	cg_text_printf(t, "$line%zu << END\n", k);
	for (size_t j = k; j < n; j++)
		if (is_same(&results[k], &results[j], along))
			cg_text_printf(t, "%lld %.9g %.9g\n", (long long)problem_get_size(results[j].problem, sizes[along]), results[j].median,
			               results[j].share * results[j].median);
	cg_text_put(t, "END\n");
}

/* A dashed line of the colour of a line of times: what the machine allows. */
static void draw_roof(struct cg_text *t, size_t k, int colour, int *is_named)
{
	cg_text_printf(t, ", $line%zu using 1:($3 > 0 ? $3 : NaN) smooth unique with lines linetype %d dashtype 2 %s", k, colour,
	               *is_named ? "notitle" : "title 'dashed: the least that the machine allows'");
	*is_named = 1;
}

static void draw_lines(struct cg_text *t, const struct result *results, size_t n, int along)
{
	const char *comma = "";
	int colour = 0, is_named = 0;

	for (size_t k = 0; k < n; k++)
		write_points(t, results, n, k, along);
	cg_text_printf(t, "set logscale xy\nset xlabel '%s'\nset ylabel 'median time of a call, ms'\nset key below\nplot ",
	               axes[along]);
	for (size_t k = 0; k < n; k++) {
		int first = 1;

		for (size_t j = 0; j < k; j++)
			first &= !is_same(&results[k], &results[j], along);
		if (!first)
			continue;
		cg_text_printf(t, "%s$line%zu using 1:2 smooth unique with linespoints linetype %d title '", comma, k, ++colour);
		label(t, &results[k], along);
		cg_text_put(t, "'");
		if (results[k].share > 0)
			draw_roof(t, k, colour, &is_named);
		comma = ", ";
	}
	cg_text_put(t, "\n");
}

static void draw_bars(struct cg_text *t, const struct result *results, size_t n)
{
	cg_text_put(t, "$bars << END\n");
	for (size_t k = 0; k < n; k++) {
		cg_text_put(t, "\"");
		label(t, &results[k], -1);
		cg_text_printf(t, "\" %.9g\n", 100 * results[k].share);
	}
	cg_text_printf(t, "END\nset style fill solid 0.6\nset xlabel 'percent of the roof'\nset xrange [0:*]\nset yrange [%zu.5:-0.5]\n"
	               "plot $bars using 2:0:(0):2:($0-0.35):($0+0.35):ytic(1) with boxxyerror notitle\n", n - 1);
}

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

/* ---- files ---- */

int plot_check(struct plot *plot, const char *path)
{
	static const struct { const char *suffix, *terminal; } kinds[] = {
		{ ".svg", "svg background rgb 'white'" }, { ".png", "pngcairo" }
	};
	char data[PATH_MAX], shown[PRINT_NAME];
	size_t length = strlen(path);

	for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++)
		if (length > 4 && !strcmp(path + length - 4, kinds[k].suffix))
			plot->terminal = kinds[k].terminal;
	if (!plot->terminal)
		return cg_fail(CG_BAD_ARGUMENT, "--plot: expected a file that ends in .svg or .png, got \"%s\"",
		               print_name(shown, path));
	if (snprintf(data, sizeof data, "%s.tsv", path) >= (int)sizeof data)
		return cg_fail(CG_FILE, "%.40s...: the path is too long", path);
	CG_TRY(file_check_picture(&plot->picture, path));
	CG_TRY(file_check_text(&plot->data, data, columns));
	return find_gnuplot();
}

int plot_write(struct plot *plot, const struct result *results, size_t n)
{
	struct cg_text data = { cg_memory, NULL, 0, 0, 0 }, script = data;
	int along = axis(results, n), code;
	size_t height;

	write_data(&data, results, n);
	height = along < 0 ? 120 + 24 * n : 600;
	cg_text_printf(&script, "set terminal %s size 960,%zu\nset termoption noenhanced\nset grid\n", plot->terminal,
	               height < HIGHEST ? height : HIGHEST);
	if (along < 0)
		draw_bars(&script, results, n);
	else
		draw_lines(&script, results, n, along);
	code = data.failed || script.failed ? CG_NO_MEMORY : file_begin(&plot->data);
	if (!code)
		code = file_put(&plot->data, data.at, data.length);
	if (!code)
		code = file_end(&plot->data);
	if (!code)
		code = file_begin(&plot->picture);
	if (!code)
		code = draw(&plot->picture, &script);
	if (!code)
		code = file_end(&plot->picture);
	cg_memory(data.at, 0);
	cg_memory(script.at, 0);
	return code;
}

void plot_close(struct plot *plot)
{
	file_discard(&plot->data);
	file_discard(&plot->picture);
}
