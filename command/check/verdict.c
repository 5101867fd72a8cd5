/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the results of `cellgrad check`, as text or as JSON objects, one on a line; on a terminal the command also shows the progress.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command/check/check.h"
#include "command/output.h"
#include "runtime/device/inspect.h"

enum { COMMAND_LINE = FIELD_LINE + 2048 };        /* the most bytes of a printed command: its environment, case and options */

static void put(char line[COMMAND_LINE], const char *text)
{
	size_t n = strlen(line);

	snprintf(line + n, COMMAND_LINE - n, "%s", text);
}

/* Appends a word, quoted for a shell. */
static void quote(char line[COMMAND_LINE], const char *word)
{
	static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.,:/=-+";

	if (*word && !word[strspn(word, plain)]) {
		put(line, word);
		return;
	}
	put(line, "'");
	for (; *word; word++)
		put(line, *word == '\'' ? "'\\''" : (const char[]){ *word, '\0' });
	put(line, "'");
}

/* Writes on one line the command that repeats a case, with the CELLGRAD_ variables of the environment except CELLGRAD_BACKEND, which
 * becomes --backend. */
static void reproduce(const struct check *c, struct example *e, char line[COMMAND_LINE])
{
	char fields_line[FIELD_LINE], name[64];
	const char *entry;
	struct fields f;

	line[0] = '\0';
	for (int k = 0; (entry = cg_environment_entry("CELLGRAD_", k)); k++) {
		size_t length = strcspn(entry, "=") + 1;

		if (!strncmp(entry, "CELLGRAD_BACKEND=", 17) || length >= sizeof name)
			continue;
		snprintf(name, length + 1, "%s", entry);
		put(line, name);
		quote(line, entry + length);
		put(line, " ");
	}
	example_fields(e, &f);
	f.of = "";
	field_line(&f, fields_line);
	put(line, "cellgrad check ");
	quote(line, e->subject->name);
	put(line, fields_line);
	if (c->backend) {
		put(line, " --backend ");
		quote(line, c->backend);
	}
	if (c->ref) {
		put(line, " --ref ");
		quote(line, c->ref);
	}
}

/* ---- cases that end the program: if a driver crashes, or the user interrupts one that hangs, the command is printed first ---- */

/* The command of the current case, with a newline. There are two buffers, so that a signal handler always finds a complete command. */
static char commands[2][COMMAND_LINE];
static volatile sig_atomic_t running;
static const struct { int number; const char *text; } signals[] = {
	{ SIGSEGV, "crashed" }, { SIGBUS, "crashed" }, { SIGFPE, "crashed" }, { SIGILL, "crashed" }, { SIGABRT, "aborted" },
	{ SIGINT, "interrupted" }, { SIGTERM, "ended" },
};
enum { SIGNALS = sizeof signals / sizeof *signals };
static struct sigaction before[SIGNALS];

static void write_text(const char *text)
{
	ssize_t written = write(STDERR_FILENO, text, strlen(text));

	(void)written;                           /* a failed write cannot be reported anywhere */
}

/* The signal handler prints the command only once, since a signal that is sent twice may arrive in two threads at the same time. */
static void ended(int number)
{
	static atomic_flag written = ATOMIC_FLAG_INIT;

	for (int k = 0; k < SIGNALS; k++)
		if (signals[k].number == number && !atomic_flag_test_and_set(&written)) {
			write_text("\ncellgrad check: ");
			write_text(signals[k].text);
			write_text("; it was running\n  ");
			write_text(commands[running]);
			/* Restores the former handler, to which the signal then goes: a fault happens again, abort() raises its signal again,
			 * and this function sends SIGINT or SIGTERM again. */
			sigaction(number, &before[k], NULL);
			if (number == SIGINT || number == SIGTERM)
				raise(number);
		}
}

void verdict_watch(const struct check *c, struct example *e)
{
	static int watching;
	struct sigaction action = { .sa_handler = ended };

	reproduce(c, e, commands[!running]);
	put(commands[!running], "\n");
	running = !running;
	for (int k = 0; k < SIGNALS && !watching; k++) {
		sigaction(signals[k].number, &action, &before[k]);
		if (before[k].sa_handler == SIG_IGN)     /* ignored signals stay ignored, as SIGINT in a script's background command */
			sigaction(signals[k].number, &before[k], NULL);
	}
	watching = 1;
}

/* ---- on a terminal ---- */

static int shows_progress(const struct check *c)
{
	return !c->single && isatty(STDERR_FILENO);
}

static void clear(const struct check *c)
{
	if (shows_progress(c))
		fputs("\r\033[K", stderr);
}

void verdict_progress(const struct check *c)
{
	static double shown = -1;
	double rate = c->seconds > 0 ? (double)c->cases / c->seconds : 0, left = 0;

	if (!shows_progress(c) || c->seconds - shown < 0.2)
		return;
	shown = c->seconds;
	if (rate > 0 && c->planned)
		left = (double)(c->planned - c->cases) / rate;
	if (c->most_seconds > 0 && (!c->planned || c->most_seconds - c->seconds < left))
		left = c->most_seconds - c->seconds;
	fprintf(stderr, "\r\033[K%ld", c->cases);
	if (c->planned)
		fprintf(stderr, " of %ld", c->planned);
	fprintf(stderr, " cases, %.0f a second, %ld failed, %.0f s left", rate, c->failed, left > 0 ? left : 0);
}

/* ---- what is printed ---- */

/* Are there kernels to check, which leave_out() has not left out? */
static int checks_kernels(const struct check *c)
{
	int k = 0;

	while (k < c->n_subjects && (!c->subjects[k].cell || c->subjects[k].left_out || !c->subjects[k].n_kinds))
		k++;
	return k < c->n_subjects;
}

int verdict_begin(const struct check *c)
{
	const char *kernels = c->other.context ? cg_describe(c->other.context) : "the kernels of the same cell, parsed from its text";
	const char *ref = c->n_sides > 1 ? cg_describe(c->sides[1].context) : NULL;

	if (c->json)
		return print_json(json_pack("{s:s, s:s, s:s?, s:s, s:o}", "version", cg_version(), "device",
		                            cg_describe(c->sides[0].context), "ref", ref, "kernels_next_to", kernels,
		                            "seed", json_integer((json_int_t)c->seed)));
	printf("cellgrad %s on ", cg_version());
	print_plain(stdout, cg_describe(c->sides[0].context));
	printf("\nops are compared with the independent reference");
	if (ref) {
		printf(", and with ");
		print_plain(stdout, ref);
	}
	if (checks_kernels(c)) {
		printf("\nkernels are compared with ");
		print_plain(stdout, kernels);
	}
	printf("\n");
	fflush(stdout);
	return CG_OK;
}

int verdict_failure(const struct check *c, struct example *e, const struct finding *f)
{
	struct print_colour colour = print_colours(stdout);
	char line[COMMAND_LINE];

	clear(c);
	reproduce(c, e, line);
	if (c->json)
		return print_json(json_pack("{s:s, s:s, s:s, s:s}", "failed", e->subject->name, "dtype",
		                            cg_dtype_name(e->subject->dtype), "words", f->text, "reproduce", line));
	printf("\n%sFAILED%s %s %s: ", colour.bad, colour.off, e->subject->name, cg_dtype_name(e->subject->dtype));
	print_plain(stdout, f->text);
	printf("\n  %s\n", line);
	fflush(stdout);
	return CG_OK;
}

static int end_json(const struct check *c)
{
	for (int k = 0; k < c->n_skips; k++)
		CG_TRY(print_json(json_pack("{s:s, s:s, s:I}", "skipped", c->skips[k].what, "why", c->skips[k].why,
		                            "cases", (json_int_t)c->skips[k].cases)));
	for (int k = 0; k < c->n_subjects; k++) {
		const struct subject *s = &c->subjects[k];

		if (!s->cases)
			continue;
		CG_TRY(print_json(json_pack("{s:s, s:s, s:I, s:I, s:I, s:o*, s:o*}", s->op ? "op" : "kernels", s->name,
		                            "dtype", cg_dtype_name(s->dtype), "cases", (json_int_t)s->cases,
		                            "failures", (json_int_t)s->failed, "elements", (json_int_t)s->total.elements,
		                            "worst_share", s->op ? print_number((double)s->total.worst) : NULL,
		                            "apart_share", s->op && c->n_sides > 1 ? print_number((double)s->total.apart) : NULL)));
	}
	return print_json(json_pack("{s:I, s:I, s:I, s:o, s:f, s:b}", "cases", (json_int_t)c->cases, "failures", (json_int_t)c->failed,
	                            "skipped", (json_int_t)c->skipped, "seed", json_integer((json_int_t)c->seed),
	                            "seconds", c->seconds, "stopped", c->stopped));
}

static void row(const struct check *c, const struct subject *s, struct print_table *t)
{
	print_cell(t, "%s", s->name);
	print_cell(t, "%s", cg_dtype_name(s->dtype));
	print_cell(t, "%ld", s->cases);
	print_cell(t, "%ld", s->failed);
	print_cell(t, "%zu", s->total.elements);
	if (!s->op)
		return;
	print_cell(t, "%.3Lf", s->total.worst);
	if (c->n_sides > 1)
		print_cell(t, "%.3Lf", s->total.apart);
}

/* Prints the table of the ops, or that of the cells, with a row for each dtype in which an op or a cell had a case. */
static int summary(const struct check *c, int ops)
{
	struct print_table t = { .columns = !ops ? "llrrr" : c->n_sides > 1 ? "llrrrrr" : "llrrrr" };
	int any = 0;

	print_row(&t, ops ? "op" : "kernels of", "dtype", "cases", "failed", "elements", NULL);
	if (ops)
		print_cell(&t, "largest error / allowed");
	if (ops && c->n_sides > 1)
		print_cell(&t, "largest difference / allowed");
	for (int k = 0; k < c->n_subjects; k++)
		if (c->subjects[k].cases && !!c->subjects[k].op == ops) {
			row(c, &c->subjects[k], &t);
			any = 1;
		}
	if (!any)
		t.failed = 1;
	if (any)
		printf("\n");
	return print_all_rows(&t, "  ") && any ? CG_NO_MEMORY : CG_OK;
}

int verdict_end(const struct check *c)
{
	struct print_colour colour = print_colours(stdout);
	size_t unbounded = 0, flushed = 0;

	clear(c);
	if (c->json)
		return end_json(c);
	CG_TRY(summary(c, 1));
	CG_TRY(summary(c, 0));
	printf("\n");
	for (int k = 0; k < c->n_skips; k++) {
		printf("skipped %ld cases of %s: ", c->skips[k].cases, c->skips[k].what);
		print_plain(stdout, c->skips[k].why);
		printf("\n");
	}
	if (c->lost_skips)
		printf("cases were skipped %d more times, for reasons that are not listed\n", c->lost_skips);
	for (int k = 0; k < c->n_subjects; k++) {
		unbounded += c->subjects[k].total.unbounded;
		flushed += c->subjects[k].total.flushed;
	}
	if (unbounded)
		printf("%zu output elements of ops have an infinite error bound, so that any answer is right\n", unbounded);
	if (flushed)
		printf("%zu f64 elements of kernels differ and are below 2^-1000 on both devices: one may have been flushed to 0\n", flushed);
	printf("%s%ld case%s, %ld failure%s%s, %ld skipped; %s%.1f s; seed %llu\n", c->failed ? colour.bad : colour.good, c->cases,
	       c->cases == 1 ? "" : "s", c->failed, c->failed == 1 ? "" : "s", colour.off, c->skipped,
	       c->stopped ? "stopped after " : "", c->seconds, c->seed);
	return CG_OK;
}
