/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Trains the demo's model. The learning rate depends on the number of steps, and no measured time affects a loss: the same seed
 * and number of steps print the same losses where the network gives the same bits, and a run that the time limit ends prints the beginning
 * of the same curve.
 */
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "command/command.h"
#include "command/demo/curve.h"
#include "command/demo/model.h"
#include "command/demo/text.h"
#include "command/demo/train.h"

/* command/demo/alice.txt, embedded. */
extern const struct cg_embedded command_texts[];
static const char title[] = "Alice's Adventures in Wonderland";

enum { UNITS = 96, ROWS = 16, LENGTH = 80 };            /* the model's U, B, and T, which is the largest length of a row */
enum { STEPS_MOST = 1000000, SECONDS_MOST = 86400 };
/* REPORTS: the most JSON reports after that of step 0. The report of step 0, every MEASURE-th report after it and the last one have the
 * loss on the part held out. */
enum { REPORTS = 60, MEASURE = 5, POINTS = REPORTS / MEASURE + 2 };
enum { WARM = 50 };                                      /* steps of rising learning rate; with fewer, rounding would show in losses */
enum { SAMPLE = 300, GLANCE = 40, GLANCE_SEED = 1 };     /* letters */
static const double rate_most = 0.02, rate_of_others = 0.005, temperature = 0.7;

struct training {
	struct train_plan *plan;
	struct text text;
	struct model model;
	struct cg_context *other;                /* the context for the second half of the steps, or NULL */
	struct text_row row[ROWS];               /* the place of each row in the text */
	int32_t lengths[ROWS];
	int *symbols, *next;                     /* [T B] */
	double *loss;                            /* [steps], bits for each character */
	int done, each;                          /* done: steps done; each: steps between reports */
	int reported, measured;                  /* reported: step of the last report; measured: of the last measurement */
	struct curve_point points[POINTS];       /* losses on the part held out */
	int n_points;
	double entropy;                          /* the target: the lesser of text_pair_entropy() and text_pair_loss() */
	double began, seconds, shown;            /* times: the training's start, its duration, and the last display of progress */
};

/* ---- the command line ---- */

static int seconds_of(const char *word, double *value)
{
	char shown[PRINT_NAME], *end;

	*value = strtod(word, &end);
	if (*end || !strchr("0123456789.", word[0]) || !(*value > 0) || *value > SECONDS_MOST)
		return cg_fail(CG_BAD_ARGUMENT, "--time: expected a number of seconds above 0 and up to %d, got \"%s\"",
		               SECONDS_MOST, print_name(shown, word));
	return CG_OK;
}

int train_read(struct train_plan *p, const char *steps, const char *seconds, const char *seed, const char *svg)
{
	int64_t number = TRAIN_STEPS;

	p->seconds = TRAIN_SECONDS;
	p->seed = TRAIN_SEED;
	if (steps)
		CG_TRY(options_whole("steps", steps, 1, STEPS_MOST, &number));
	if (seconds)
		CG_TRY(seconds_of(seconds, &p->seconds));
	if (seed)
		CG_TRY(options_whole("seed", seed, 0, INT64_MAX, &p->seed));
	p->steps = (int)number;
	p->svg_named = svg != NULL;
	return svg ? file_check_picture(&p->file, svg) : CG_OK;
}

/* ---- progress ---- */

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void hide_progress(struct training *t)
{
	if (t->shown > 0)
		fprintf(stderr, "\r%60s\r", "");
	t->shown = 0;
}

static void show_progress(struct training *t)
{
	double at = now(), left;

	if (!isatty(STDERR_FILENO) || at - t->shown < 0.1)
		return;
	left = fmin((at - t->began) / t->done * (t->plan->steps - t->done), t->began + t->plan->seconds - at);
	fprintf(stderr, "\r  step %d of %d   loss %.2f   %.0f steps/s   %.0f s left  ", t->done, t->plan->steps,
	        t->loss[t->done - 1], t->done / (at - t->began), ceil(fmax(left, 0)));
	t->shown = at;
}

/* ---- learning ---- */

/* The learning rate is lower for a cell that the user chose than for the LSTM.  The rate falls along half a cosine; over the first WARM
 * steps a factor that rises to 1 scales the rate. */
static double rate(const struct train_plan *p, int step)
{
	double warm = fmin(1, (step + 1) / (double)WARM);

	return (p->cell ? rate_of_others : rate_most) * warm * (0.5 + 0.5 * cos(acos(-1) * step / p->steps));
}

/* Reads the next line of each row of the text; returns 0 where all rows are at their ends. */
static int next_batch(struct training *t, struct text_row *row, struct model_batch *batch)
{
	int steps = text_next_batch(&t->text, row, ROWS, LENGTH, t->lengths, t->symbols, t->next);

	*batch = (struct model_batch){ ROWS, steps, t->lengths, t->symbols, t->next };
	return steps;
}

static int learn(struct training *t)
{
	struct model_batch batch;
	double nats;

	next_batch(t, t->row, &batch);
	CG_TRY(model_compute_grad(&t->model, &batch, &nats));
	model_learn(&t->model, rate(t->plan, t->done));
	t->loss[t->done++] = nats / log(2);
	return CG_OK;
}

/* Measures the mean loss over the part held out; each row of that part begins with zero states. */
static int measure(struct training *t)
{
	struct text_row row[ROWS];
	struct model_batch batch;
	double nats, sum = 0;
	int characters = 0;

	text_rows(text_held_out(&t->text), ROWS, 0, row);
	model_reset(&t->model, MODEL_OTHER);
	while (next_batch(t, row, &batch)) {
		int n = 0;

		for (int k = 0; k < ROWS; k++)
			n += t->lengths[k];
		CG_TRY(model_compute_loss(&t->model, MODEL_OTHER, &batch, &nats));
		sum += n * nats;
		characters += n;
	}
	t->points[t->n_points++] = (struct curve_point){ t->done, sum / characters / log(2) };
	return CG_OK;
}

/* The mean loss of all steps done after the first `from` steps. */
static double mean_loss(const struct training *t, int from)
{
	double sum = 0;

	for (int k = from; k < t->done; k++)
		sum += t->loss[k];
	return sum / (t->done - from);
}

/* Draws n letters, with a zero byte after them. */
static int sample_text(struct training *t, int64_t seed, char *characters, int n)
{
	int symbols[SAMPLE];

	CG_TRY(model_sample(&t->model, (uint64_t)seed, temperature, text_symbol(&t->text, '\n'), symbols, n));
	for (int k = 0; k < n; k++)
		characters[k] = t->text.letter[symbols[k]];
	characters[n] = '\0';
	return CG_OK;
}

/* ---- reports ---- */

/* Prints a row of the table of progress, with a few letters that the model writes at this step. */
static int show_row(struct training *t)
{
	char characters[GLANCE + 1], loss[32] = "";

	CG_TRY(sample_text(t, GLANCE_SEED, characters, GLANCE));
	for (char *at = characters; *at; at++)
		*at = *at == '\n' ? ' ' : *at;
	if (t->done)
		snprintf(loss, sizeof loss, "%.3f", mean_loss(t, t->measured));
	hide_progress(t);
	printf("%7d  %8s  %8.3f  %s%s%s\n", t->done, loss, t->points[t->n_points - 1].loss, t->plan->colour.faint, characters,
	       t->plan->colour.off);
	fflush(stdout);
	return CG_OK;
}

static int show_report(struct training *t, int with_point)
{
	json_t *row = json_pack("{s:s, s:i}", "kind", "step", "step", t->done);

	if (t->done && row)
		json_object_set_new(row, "loss", print_number(mean_loss(t, t->reported)));
	if (with_point && row)
		json_object_set_new(row, "held_out", print_number(t->points[t->n_points - 1].loss));
	return print_json(row);
}

static int report(struct training *t, int last)
{
	int with_point = last || t->done % (t->each * MEASURE) == 0;

	if (!last && t->done % t->each)
		return CG_OK;
	if (with_point)
		CG_TRY(measure(t));
	if (t->plan->json)
		CG_TRY(show_report(t, with_point));
	else if (with_point)
		CG_TRY(show_row(t));
	t->reported = t->done;
	if (with_point)
		t->measured = t->done;
	return CG_OK;
}

static int go_on_elsewhere(struct training *t)
{
	CG_TRY(model_move(&t->model, t->other));
	if (t->plan->json)
		return print_json(json_pack("{s:s, s:i, s:s}", "kind", "switch", "step", t->done, "backend", cg_describe(t->other)));
	hide_progress(t);
	printf("%7d  goes on on ", t->done);
	print_plain(stdout, cg_describe(t->other));
	printf("\n");
	return CG_OK;
}

static int run(struct training *t)
{
	int steps = t->plan->steps, stop = 0;

	t->began = now();
	CG_TRY(report(t, 0));
	while (t->done < steps && !stop) {
		if (t->other && t->done == steps / 2)
			CG_TRY(go_on_elsewhere(t));
		CG_TRY(learn(t));
		stop = now() - t->began >= t->plan->seconds;
		CG_TRY(report(t, stop || t->done == steps));
		if (t->done < steps && !stop)
			show_progress(t);
	}
	hide_progress(t);
	t->seconds = now() - t->began;
	return CG_OK;
}

/* ---- the beginning and the end ---- */

static int open_training(struct training *t, struct cg_context *context)
{
	struct model_shape shape = { 0, UNITS, ROWS, LENGTH, t->plan->cell };

	CG_TRY(text_open(&t->text, command_texts[0].text));
	text_rows(text_to_learn(&t->text), ROWS, 1, t->row);
	shape.symbols = t->text.symbols;
	CG_TRY(model_open(&t->model, context, shape, (uint64_t)t->plan->seed));
	t->symbols = cg_memory(NULL, ROWS * LENGTH * sizeof *t->symbols);
	t->next = cg_memory(NULL, ROWS * LENGTH * sizeof *t->next);
	t->loss = cg_memory(NULL, (size_t)t->plan->steps * sizeof *t->loss);
	if (!t->symbols || !t->next || !t->loss)
		return CG_NO_MEMORY;
	t->each = (t->plan->steps + REPORTS - 1) / REPORTS;
	t->entropy = fmin(text_pair_entropy(&t->text), text_pair_loss(&t->text));
	return CG_OK;
}

static void close_training(struct training *t)
{
	cg_memory(t->loss, 0);
	cg_memory(t->next, 0);
	cg_memory(t->symbols, 0);
	model_close(&t->model);
	text_close(&t->text);
}

static void show_beginning(const struct training *t, struct cg_context *context)
{
	printf("%sA model that learns to write, by the library's own forward and gradient%s\n\n", t->plan->colour.strong,
	       t->plan->colour.off);
	printf("%d layers of %d ", MODEL_LAYERS, UNITS);
	if (t->plan->cell)
		printf("units of cell %s", t->plan->cell->name);
	else
		printf("LSTM units with peepholes");
	printf(" read \"%s\" character by character\n"
	       "and guess the next: %zu weights, %d lines, each of its own length, in a step, seed %lld.\nOn ", title, t->model.n, ROWS,
	       (long long)t->plan->seed);
	print_plain(stdout, cg_describe(context));
	printf(".\nLosses are in bits a character; the last tenth of the text is held out.\n\n"
	       "%7s  %8s  %8s  %s\n", "step", "loss", "held out", "what it writes");
	fflush(stdout);
}

/* Writes the SVG. Where the user named no file, a failure returns CG_OK, and *why says what failed. */
static int write_svg(struct training *t, const struct curve *c, const char **why)
{
	struct train_plan *p = t->plan;
	int code = p->svg_named ? CG_OK : file_check_picture(&p->file, TRAIN_SVG);

	*why = NULL;
	if (!code)
		code = file_begin(&p->file);
	if (!code)
		code = curve_svg(c, &p->file);
	if (!code)
		code = file_end(&p->file);
	file_discard(&p->file);
	if (!code || p->svg_named)
		return code;
	*why = cg_message();
	return CG_OK;
}

static void show_sample(const struct training *t, const char *characters)
{
	printf("\n%sWhat it has learnt to write%s, at temperature %g\n\n  ", t->plan->colour.strong, t->plan->colour.off,
	       temperature);
	for (; *characters; characters++) {
		putchar(*characters);
		if (*characters == '\n')
			fputs("  ", stdout);
	}
	printf("\n\n");
}

static void show_verdict(const struct training *t, double held_out, int below)
{
	const struct print_colour *colour = &t->plan->colour;

	if (t->done < t->plan->steps)
		printf("Stopped by the time limit of %g s, at step %d of %d.\n", t->plan->seconds, t->done, t->plan->steps);
	printf("%d steps in %.1f s, %.1f steps/s, seed %lld.\n", t->done, t->seconds, t->done / t->seconds,
	       (long long)t->plan->seed);
	printf("%sHeld out: %.3f bits a character, %s the target of %.3f%s; cellgrad demo --help says what the target is.\n",
	       below ? colour->good : colour->bad, held_out, below ? "below" : "not below", t->entropy, colour->off);
}

static int show_end_json(const struct training *t, double held_out, int below, const char *characters, int drawn)
{
	CG_TRY(print_json(json_pack("{s:s, s:s}", "kind", "sample", "text", characters)));
	return print_json(json_pack("{s:s, s:i, s:i, s:I, s:I, s:s, s:o, s:o, s:b, s:o, s:o, s:b}", "kind", "training",
	                            "steps", t->done, "of", t->plan->steps, "seed", (json_int_t)t->plan->seed,
	                            "weights", (json_int_t)t->model.n, "unit", "bits per character",
	                            "held_out", print_number(held_out), "bigram", print_number(t->entropy), "below", below,
	                            "seconds", print_number(t->seconds),
	                            "steps_per_second", print_number(t->done / t->seconds),
	                            "svg", drawn));
}

static int show_end(struct training *t, int *failed)
{
	const struct curve c = {
		.title = "A character model learns Alice's Adventures in Wonderland", .unit = "bits a character",
		.loss_name = "training", .points_name = "held out", .level_name = "target",
		.loss = t->loss, .n = t->done, .steps = t->plan->steps, .points = t->points, .n_points = t->n_points,
		.level = t->entropy
	};
	double held_out = t->points[t->n_points - 1].loss;
	int below = held_out < t->entropy;
	char characters[SAMPLE + 1];
	const char *why = NULL;

	*failed = !below && t->done == t->plan->steps;
	CG_TRY(sample_text(t, t->plan->seed, characters, SAMPLE));
	if (!t->plan->json) {
		putchar('\n');
		curve_print(&c, t->plan->colour);
		show_sample(t, characters);
	}
	if (t->plan->svg)
		CG_TRY(write_svg(t, &c, &why));
	if (t->plan->json)
		return show_end_json(t, held_out, below, characters, t->plan->svg && !why);
	show_verdict(t, held_out, below);
	if (why)
		printf("The curve was not written: %s\n", why);
	else if (t->plan->svg) {
		printf("The curve is in ");
		print_plain(stdout, t->plan->file.path);
		printf(".\n");
	}
	return CG_OK;
}

int train(struct train_plan *plan, struct cg_context *context, struct cg_context *other, int *failed)
{
	struct training t = { .plan = plan, .other = other };
	int code = open_training(&t, context);

	if (!code && !plan->json)
		show_beginning(&t, context);
	if (!code)
		code = run(&t);
	if (!code)
		code = show_end(&t, failed);
	close_training(&t);
	return code;
}
