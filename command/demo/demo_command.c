/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cellgrad demo`: prints a part of a gradient kernel, which is derived from the cell's equations, compares the gradients of TensorFlow's
 * block cells with answers that TensorFlow gave, shows the tensors that come nearest to the allowed error, and trains a model.  The answers
 * are files made by tests/data/make_tensorflow.py; the comparison is that of `run --expect`; the model's training is in train.c.
 */
#include <dirent.h>
#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "command/run/op_call.h"
#include "command/command.h"
#include "command/run/compare.h"
#include "command/output.h"
#include "command/demo/train.h"

enum { DATA = OPTION_FIRST, ONLY, CELL, STEPS, TIME, SEED, SWITCH, SVG, NO_SVG };

static const struct poptOption table[] = {
	OPTION_VALUE("only", '\0', ONLY, "run only this part of the demo: compare or train", "PART"),
	OPTION_VALUE("data", 'd', DATA, "read the cases from DIR", "DIR"),
	OPTION_VALUE("cell", '\0', CELL, "train with the cell CELL, a name or a .cell file", "CELL"),
	OPTION_VALUE("steps", '\0', STEPS, "train for N steps (800)", "N"),
	OPTION_VALUE("time", '\0', TIME, "stop training after SECONDS (60)", "SECONDS"),
	OPTION_VALUE("seed", '\0', SEED, "seed that initial weights and dropout come from (1)", "N"),
	OPTION_VALUE("switch", '\0', SWITCH, "continue on BACKEND after half of the steps", "BACKEND"),
	OPTION_VALUE("svg", '\0', SVG, "draw the losses in FILE (cellgrad-demo.svg)", "FILE"),
	OPTION_FLAG("no-svg", '\0', NO_SVG, "draw the losses on the screen only"),
	OPTION_JSON_ROW,
	OPTION_HELP_ROW,
	POPT_TABLEEND
};

static const char usage[] = "[OPTION]...";
static const char text[] =
	"Prints part of the gradient kernel of the LSTM with peepholes, as C; computes\n"
	"LSTMBlockCellGrad and GRUBlockCellGrad on cases, and compares the outputs with\n"
	"TensorFlow's answers.\n"
	"The answers to the case OP-CASE.safetensors are OP-CASE.expect.safetensors or, if\n"
	"it exists, OP-CASE.expect32.safetensors: TensorFlow's answer in f32 to a case in\n"
	"f16.  cellgrad run --help states the rule of the tolerance.\n"
	"\n"
	"Then trains a character model on a text that is in the command, Alice's\n"
	"Adventures in Wonderland, and draws the model's losses, on the screen and as SVG.\n"
	"The model's two layers of LSTM with peepholes, or of the cell of --cell, with\n"
	"dropout between the layers, read lines of different lengths.\n"
	"The last tenth of the text is held out.  The target of the loss on the held-out\n"
	"tenth is the lesser of two numbers: the bigram entropy of the whole text, which\n"
	"is the entropy of a character given the character before it; and the loss on the\n"
	"held-out tenth of a table of pairs of characters, which is counted in the rest of\n"
	"the text and smoothed by Witten and Bell's rule.  The same seed\n"
	"and steps print the same losses; a time limit shortens the curve and does not\n"
	"change it.\n"
	"Weights, the optimiser's averages and the states from line to line are in\n"
	"host memory, so that --switch can continue the training on another backend.\n"
	"With --switch the losses are the same as without it, except for rounding.\n"
	"\n"
	"Examples:\n"
	"  cellgrad demo\n"
	"  CELLGRAD_BACKEND=opencl cellgrad demo\n"
	"  cellgrad demo --only compare --data tests/data --json\n"
	"  cellgrad demo --only train --seed 2 --svg seed-2.svg\n"
	"  cellgrad demo --only train --cell mgu\n"
	"  CELLGRAD_BACKEND=cpu cellgrad demo --only train --steps 100 --switch opencl\n"
	"\n"
	"Exit status: 0 all answers agree, and the model's loss is below the target, or\n"
	"the time limit stopped the training; 1 an answer differs, the loss is not below\n"
	"the target after all steps, or the command failed while working; 2 the call was\n"
	"rejected before any work.\n";

static const char *const ops[] = { "LSTMBlockCellGrad", "GRUBlockCellGrad" };
enum { OPS = sizeof ops / sizeof *ops, PATH = 4096, WORST = 3, EXCERPT = 40 };

/* The directories in which the demo looks for its cases.  A path that begins with a slash is relative to the directory of the command's
 * file: the first entry is for an installed command, the second for a command in a build, where demo-data is a link to the source's
 * tests/data.  An entry that begins with = is a path after that sign, used as it stands. */
static const char *const directories[] = {
	"/../share/cellgrad/data",
	"/demo-data",
#ifdef CELLGRAD_DATA
	"=" CELLGRAD_DATA,
#endif
	"=tests/data",
};

struct sample {
	const char *op;
	char name[64];                   /* "vector-a" */
	struct call call;
	struct safetensors expected;
};

/* An output of a case, compared with TensorFlow's output. */
struct outcome {
	const struct sample *sample;
	const char *name;
	const struct call_argument *argument;
	struct comparison comparison;
};

struct demo {
	struct sample *samples;
	size_t n, capacity;
	struct print_colour colour;
	int json;
	size_t tensors, wrong;
	struct outcome worst[WORST];     /* the min(tensors, WORST) worst tensors: mismatches first, then by error / allowed error */
	struct train_plan plan;
	struct cg_cell *parsed;          /* the cell of --cell, if it is from a file */
	int untrained;                   /* 1: after all steps the loss on the part held out is not below its target */
};

/* ---- the cases ---- */

/* The length of the part CASE in a file name OP-CASE.safetensors; 0: the file's name has another form. */
static size_t case_of(const char *file, const char *op)
{
	static const char end[] = ".safetensors";
	size_t length = strlen(file), before = strlen(op) + 1, after = sizeof end - 1;

	if (length <= before + after || strncmp(file, op, before - 1) || file[before - 1] != '-'
	    || strcmp(file + length - after, end))
		return 0;
	length -= before + after;
	return length < sizeof ((struct sample *)0)->name && !memchr(file + before, '.', length) ? length : 0;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct sample *)a)->name, ((const struct sample *)b)->name);
}

static int add(struct demo *d, const char *op, const char *name, size_t length)
{
	struct sample *s;

	if (d->n == d->capacity) {
		size_t capacity = d->capacity ? 2 * d->capacity : 16;
		struct sample *samples = cg_memory(d->samples, capacity * sizeof *samples);

		if (!samples)
			return CG_NO_MEMORY;
		d->samples = samples;
		d->capacity = capacity;
	}
	s = &d->samples[d->n++];
	memset(s, 0, sizeof *s);
	s->op = op;
	memcpy(s->name, name, length);
	return CG_OK;
}

static int find_cases(struct demo *d, const char *directory, const char *op)
{
	size_t first = d->n, length;
	struct dirent *entry;
	DIR *dir = opendir(directory);
	int code = CG_OK;

	if (!dir)
		return cg_fail(CG_FILE, "%s: %s", directory, strerror(errno));
	while (!code && (entry = readdir(dir)))
		if ((length = case_of(entry->d_name, op)))
			code = add(d, op, entry->d_name + strlen(op) + 1, length);
	closedir(dir);
	if (!code && d->n == first)
		code = cg_fail(CG_FILE, "directory %s: expected a file %s-CASE.safetensors, got none", directory, op);
	if (d->n > first)
		qsort(d->samples + first, d->n - first, sizeof *d->samples, by_name);
	return code;
}

static int open_case(struct sample *s, const char *directory)
{
	char path[PATH];

	CG_TRY(call_open(&s->call, s->op));
	snprintf(path, sizeof path, "%s/%s-%s.safetensors", directory, s->op, s->name);
	CG_TRY(call_file(&s->call, path));
	CG_TRY(call_bind(&s->call, 0));
	snprintf(path, sizeof path, "%s/%s-%s.expect32.safetensors", directory, s->op, s->name);
	if (access(path, F_OK))
		snprintf(path, sizeof path, "%s/%s-%s.expect.safetensors", directory, s->op, s->name);
	CG_TRY(safetensors_open(&s->expected, path));
	return call_expect(&s->call, &s->expected);
}

static int open_cases(struct demo *d, const char *directory)
{
	for (int k = 0; k < OPS; k++)
		CG_TRY(find_cases(d, directory, ops[k]));
	for (size_t k = 0; k < d->n; k++)
		CG_TRY(open_case(&d->samples[k], directory));
	return CG_OK;
}

/* Finds the directory of the running command, without a slash at the end; "" if the system does not tell. */
static void own_directory(char *path, size_t capacity)
{
	ssize_t n = readlink("/proc/self/exe", path, capacity - 1);

	path[n > 0 ? n : 0] = '\0';
	path[n > 0 ? strrchr(path, '/') - path : 0] = '\0';
}

static const char *default_directory(void)
{
	static char path[2048];
	char own[1024];
	int n = sizeof directories / sizeof *directories;

	own_directory(own, sizeof own);
	for (int k = 0; k < n; k++) {
		const char *row = directories[k];

		snprintf(path, sizeof path, "%s%s", *row == '=' ? "" : own, row + (*row == '='));
		if ((*row == '=' || *own) && !access(path, R_OK | X_OK))
			break;
	}
	return path;
}

/* ---- output ---- */

static size_t count_lines(const char *text)
{
	size_t n = 0;

	for (; (text = strchr(text, '\n')); text++)
		n++;
	return n;
}

/* Prints a part of the kernel's source, from the first equation of the function over elements to the end of that function, at most
 * EXCERPT lines, and the command that prints all of the source. */
static void show_excerpt(const struct demo *d, const char *source)
{
	const char *first = strstr(source, "\n\t\t/* "), *at = first ? first + 1 : source;
	size_t n = 0;

	printf("%sThe gradient of the LSTM with peepholes, derived from its equations, as C%s\n\n", d->colour.strong, d->colour.off);
	while (*at && n++ < EXCERPT) {
		const char *line = at;

		at += strcspn(at, "\n");
		at += *at == '\n';
		fwrite(line, 1, (size_t)(at - line), stdout);
		if (*line == '}')
			break;
	}
	printf("\nThese are %zu of %zu lines; cellgrad emit lstm_block --options peephole --pass grad prints all.\n\n", n,
	       count_lines(source));
}

static int show_kernel(const struct demo *d)
{
	struct cg_kernel kernel = { .cell = cg_cell_find("lstm_block"), .options = "peephole", .pass = CG_GRAD,
	                            .dtype = CG_F32, .shape = CG_POINT };
	char *source;
	int code = cg_kernel_emit(&kernel, "c", &source);

	if (code)
		return command_reword(code, NULL);
	if (d->json)
		code = print_json(json_pack("{s:s, s:s}", "kernel", "lstm_block peephole grad f32 c",
		                            "source", source));
	else
		show_excerpt(d, source);
	cg_text_free(source);
	return code;
}

/* The error divided by the allowed error; 0: there is no error; INFINITY: there is an error, and none is allowed. */
static double share_of(const struct comparison *c)
{
	return c->error > 0 ? c->error / c->allowance : 0;
}

static int is_worse(const struct comparison *a, const struct comparison *b)
{
	if (!a->wrong != !b->wrong)
		return a->wrong > 0;
	return share_of(a) > share_of(b);
}

static void keep_worst(struct demo *d, const struct outcome *o)
{
	size_t n = d->tensors < WORST ? d->tensors : WORST, k = n;

	while (k > 0 && is_worse(&o->comparison, &d->worst[k - 1].comparison))
		k--;
	if (k == WORST)
		return;
	memmove(&d->worst[k + 1], &d->worst[k], (n - k - (n == WORST)) * sizeof *o);
	d->worst[k] = *o;
}

/* The largest error in a tensor, divided by the largest magnitude in the expected tensor, unless that magnitude is 0. */
static double relative_of(const struct comparison *c)
{
	return c->largest > 0 ? c->most / c->largest : c->most;
}

static int show_json(const struct outcome *o)
{
	const struct comparison *c = &o->comparison;

	return print_json(json_pack("{s:s, s:s, s:s, s:o, s:o, s:o, s:o, s:b}",
	                            "op", o->sample->op, "case", o->sample->name, "name", o->name,
	                            "shape", print_numbers(o->argument->shape, o->argument->rank),
	                            "error", print_number(c->most), "relative", print_number(relative_of(c)),
	                            "allowance", print_number(c->allowance), "ok", !c->wrong));
}

static void show_row(const struct demo *d, const struct outcome *o, struct print_table *t)
{
	const struct comparison *c = &o->comparison;
	char shape[PRINT_SHAPE];

	print_cell(t, "%s", o->sample->op);
	print_cell(t, "%s", o->sample->name);
	print_cell(t, "%s", o->name);
	print_cell(t, "%s", cg_dtype_name(o->sample->call.dtype));
	print_cell(t, "%s", print_shape(shape, o->argument->shape, o->argument->rank));
	print_cell(t, "%.2g", c->most);
	print_cell(t, "%.2g", relative_of(c));
	print_cell(t, "%.2g", c->allowance);
	print_cell(t, "%s%s%s", c->wrong ? d->colour.bad : d->colour.good, c->wrong ? "MISMATCH" : "ok", d->colour.off);
}

static int compare_case(struct demo *d, struct sample *s, struct cg_context *context)
{
	int working;

	CG_TRY(call_compute(&s->call, context, &working));
	for (int k = 0; k < s->call.n; k++) {
		const struct cg_port *port = &s->call.row->ports[k];
		struct outcome o = { s, port->name, &s->call.arguments[k], { 0 } };

		if (!call_has_output(&s->call, port))
			continue;
		call_compare(&s->call, k, safetensors_find(&s->expected, port->name), NULL, &o.comparison);
		if (d->json)
			CG_TRY(show_json(&o));
		keep_worst(d, &o);
		d->tensors++;
		d->wrong += o.comparison.wrong > 0;
	}
	return CG_OK;
}

static int show_worst(const struct demo *d)
{
	struct print_table t = { .columns = "llllrrrrl" };
	size_t n = d->tensors < WORST ? d->tensors : WORST;

	print_row(&t, "op", "case", "output", "dtype", "shape", "difference", "of largest", "allowed", "", NULL);
	for (size_t k = 0; k < n; k++)
		show_row(d, &d->worst[k], &t);
	return print_all_rows(&t, "  ");
}

static int show_end(const struct demo *d)
{
	double share = d->tensors ? share_of(&d->worst[0].comparison) : 0;

	if (d->json)
		return print_json(json_pack("{s:I, s:I, s:o}", "tensors", (json_int_t)d->tensors, "mismatches",
		                            (json_int_t)d->wrong, "worst_share", print_number(share)));
	if (d->wrong)
		printf("\n%s%zu of %zu tensors differ from TensorFlow's by more than is allowed.%s\n",
		       d->colour.bad, d->wrong, d->tensors, d->colour.off);
	else
		printf("\n%sAll %zu tensors of %zu cases agree with TensorFlow's%s; the largest difference is "
		       "%.2g%% of what is allowed.\n",
		       d->colour.good, d->tensors, d->n, d->colour.off, 100 * share);
	return CG_OK;
}

static int show(struct demo *d, struct cg_context *context)
{
	const char *by = safetensors_metadata(&d->samples[0].expected, "made_by");

	CG_TRY(show_kernel(d));
	for (size_t k = 0; k < d->n; k++)
		CG_TRY(compare_case(d, &d->samples[k], context));
	if (!d->json) {
		printf("%sGradients compared with TensorFlow's%s\n\nTensorFlow's are by ", d->colour.strong,
		       d->colour.off);
		print_plain(stdout, by ? by : "an unnamed version");
		printf("; ours are by cellgrad %s on ", cg_version());
		print_plain(stdout, cg_describe(context));
		printf(".\nThe outputs that come nearest to what is allowed, or are beyond it; --json shows all.\n"
		       "  difference: the largest difference in a tensor\n"
		       "  of largest: the difference over the largest magnitude in the expected tensor\n"
		       "  allowed: where a difference comes nearest to it; cellgrad run --help has the rule\n\n");
		CG_TRY(show_worst(d));
	}
	return show_end(d);
}

/* ---- the command line ---- */

enum { COMPARE = 1, TRAIN = 2 };

static int read_part(const char *word, int *parts)
{
	char shown[PRINT_NAME];

	if (!word)
		*parts = COMPARE | TRAIN;
	else if (!strcmp(word, "compare"))
		*parts = COMPARE;
	else if (!strcmp(word, "train"))
		*parts = TRAIN;
	else
		return cg_fail(CG_BAD_ARGUMENT, "--only: expected compare or train, got \"%s\"",
		               print_name(shown, word));
	return CG_OK;
}

/* Finds the cell of --cell, all of whose params must have defaults. */
static int read_cell(struct demo *d, const char *word)
{
	struct cg_cell_parts parts;

	CG_TRY(file_cell(word, 1, &d->plan.cell, &d->parsed));
	cg_cell_parts_init(&parts, sizeof parts);
	CG_TRY(cg_cell_info(d->plan.cell, &parts));
	for (int k = 0; k < parts.n_params; k++)
		if (isnan(parts.defaults[k]))
			return cg_fail(CG_BAD_ARGUMENT, "--cell: param '%s' of cell %s has no default", parts.params[k], parts.name);
	return CG_OK;
}

static int read_options(struct demo *d, const struct options *o, int *parts)
{
	char shown[PRINT_NAME];

	if (o->operands[0])
		return cg_fail(CG_BAD_ARGUMENT, "%s: demo takes no operands; --data DIR says where the cases are",
		               print_name(shown, o->operands[0]));
	if (o->value[SVG] && o->value[NO_SVG])
		return cg_fail(CG_BAD_ARGUMENT, "--svg and --no-svg: expected at most one of them, got both");
	CG_TRY(read_part(o->value[ONLY], parts));
	if (o->value[CELL])
		CG_TRY(read_cell(d, o->value[CELL]));
	d->plan.svg = !o->value[NO_SVG];
	d->plan.json = d->json;
	d->plan.colour = d->colour;
	return train_read(&d->plan, o->value[STEPS], o->value[TIME], o->value[SEED], o->value[SVG]);
}

static int run_demo(struct demo *d, const struct options *o, int *working)
{
	struct cg_context *context, *other = NULL;
	int code = CG_OK, parts = 0;

	CG_TRY(read_options(d, o, &parts));
	if (parts & COMPARE)
		code = open_cases(d, o->value[DATA] ? o->value[DATA] : default_directory());
	if (code == CG_FILE && !o->value[DATA])
		return cg_fail(code, "%s; --data DIR says where the cases are", cg_message());
	CG_TRY(code);
	CG_TRY(cg_open(NULL, &context));
	code = parts & TRAIN && o->value[SWITCH] ? cg_open(o->value[SWITCH], &other) : CG_OK;
	if (code) {
		cg_close(context);
		return command_reword(code, "--switch");
	}
	*working = 1;
	if (parts & COMPARE)
		code = show(d, context);
	if (!code && parts == (COMPARE | TRAIN) && !d->json)
		putchar('\n');
	if (!code && parts & TRAIN)
		code = train(&d->plan, context, other, &d->untrained);
	cg_close(other);
	cg_close(context);
	return code;
}

int command_demo(int argc, const char **argv)
{
	struct demo d = { .colour = print_colours(stdout) };
	struct options o;
	int code = options_open(&o, "demo", argc, argv, table), working = 0;

	d.json = !code && o.value[OPTION_JSON];
	if (!code && o.value[OPTION_HELP])
		options_help(&o, usage, text);
	else if (!code)
		code = run_demo(&d, &o, &working);
	for (size_t k = 0; k < d.n; k++) {
		safetensors_close(&d.samples[k].expected);
		call_close(&d.samples[k].call);
	}
	cg_memory(d.samples, 0);
	cg_cell_close(d.parsed);
	options_close(&o);
	return code ? command_fail("demo", code, working) : d.wrong || d.untrained ? EXIT_WORK : EXIT_OK;
}
