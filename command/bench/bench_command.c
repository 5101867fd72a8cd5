/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cellgrad bench`: measures how long ops take, beside what the machine can do. This file turns arguments into a request;
 * problem.c, roof.c, timing.c, report.c and plot.c do the rest.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/device/inspect.h"
#include "command/bench/bench.h"
#include "command/run/op_call.h"
#include "command/command.h"
#include "verify/field.h"
#include "command/output.h"

enum { OP = OPTION_FIRST, BATCH, INPUT, UNITS, STEPS, LAYERS, VALID, DTYPE, WHAT, MODE, THREADS, TIME, REPS, PLOT };

static const struct poptOption table[] = {
	OPTION_VALUE("op", 'o', OP, "TensorFlow's name or cellgrad's; by default all", "OP"),
	OPTION_VALUE("B", '\0', BATCH, "batch sizes", "N[,N]..."),
	OPTION_VALUE("I", '\0', INPUT, "input sizes", "N[,N]..."),
	OPTION_VALUE("H", '\0', UNITS, "numbers of units (the hidden size)", "N[,N]..."),
	OPTION_VALUE("T", '\0', STEPS, "steps of a sequence; 1 for other ops", "N[,N]..."),
	OPTION_VALUE("layers", '\0', LAYERS, "layers of a network; by default 1", "N[,N]..."),
	OPTION_VALUE("valid", '\0', VALID, "share of valid steps, in rows of random lengths; by default 1", "SHARE"),
	OPTION_VALUE("dtype", 'd', DTYPE, CG_DTYPES_HELP, "DTYPE"),
	OPTION_VALUE("what", 'w', WHAT, "fwd, bwd or fwd+bwd; by default bwd for a gradient, else fwd", "WHAT"),
	OPTION_VALUE("mode", 'm', MODE, "lstm, gru, rnn_tanh or rnn_relu: only ops of this kind", "MODE"),
	OPTION_VALUE("threads", 't', THREADS, "threads of the CPU; by default as many as the process may use", "N"),
	OPTION_VALUE("time", '\0', TIME, "seconds for each problem; by default 0.25", "S"),
	OPTION_VALUE("reps", 'r', REPS, "number of samples of each problem, in place of --time", "N"),
	OPTION_VALUE("plot", 'p', PLOT, "draw FILE, which ends in .svg; the data is in FILE.tsv", "FILE"),
	OPTION_JSON_ROW,
	OPTION_HELP_ROW,
	POPT_TABLEEND
};

static const char usage[] = "[--op OP] [NAME=VALUE]... [OPTION]...";
static const char text[] =
	"First bench measures the roofs, which are what the machine can do: multiply and\n"
	"add in registers, and copy memory of 64 KiB to 128 MiB, or to twice the level 3\n"
	"cache if that is more; bytes read and bytes written count.\n"
	"Then bench measures each problem, whose memory and workspace bench allocates\n"
	"before the first call.\n"
	"On an OpenCL or CUDA device only the roof of copies by the driver is measured,\n"
	"and such copies are measured again after each sample of a problem.\n"
	"\n"
	"OP is TensorFlow's name (LSTMBlockCellGrad: TensorFlow's outputs) or cellgrad's\n"
	"(lstm_block_cell_grad: also the gradients of x, h_prev, w and b).\n"
	"By default --what is bwd for an op that is a gradient, and fwd for other ops.\n"
	"The default sizes are T 16, B 32, I 256, H 512; with comma-separated lists each\n"
	"combination is a problem.\n"
	"NAME=VALUE are the attributes of the op, as for cellgrad run.\n"
	"Without --op all ops that have a gradient, and the gradients, are measured; of\n"
	"the versions of a network op only the newest is measured.\n"
	"With --T above 1 only the ops of sequences among these are measured.\n"
	"Without --op and sizes each op is measured at three typical sets of sizes.\n"
	"\n"
	"Columns of the table:\n"
	"  mode         the cell that is measured: lstm, gru ..., or the name that a\n"
	"               .cell file gives its cell\n"
	"  min, median  milliseconds of one call, over the samples; a sample is the mean\n"
	"               of as many calls as the resolution of the clock requires\n"
	"  spread       the median absolute deviation: half of the samples are closer to\n"
	"               the median than this\n"
	"  GFLOP/s      of the products: two operations for each weight and row, for all\n"
	"               steps that are computed\n"
	"  GB/s         of the minimum to move: each argument read or written once\n"
	"  copy         GB/s of the device's own copy of as many bytes, the median\n"
	"  of roof      the least time that the roofs allow, divided by the median, and\n"
	"               which roof is lower; moved bytes are compared with a copy of at\n"
	"               least as many.\n"
	"               Products of f16 are compared with the roof of f32 products.\n"
	"\n"
	"CELLGRAD_VERBOSE=1 makes programs print calls of ops as cellgrad bench commands.\n"
	"--plot draws times over the size that varies, and as dashed lines the least\n"
	"times that the roofs allow; if no size varies, --plot draws the share of the\n"
	"roof.\n"
	"\n"
	"Examples:\n"
	"  cellgrad bench\n"
	"  cellgrad bench --op LSTMBlockCellGrad --B 64 --I 256 --H 512 use_peephole=true\n"
	"  cellgrad bench --op gru_block_cell --what fwd+bwd --dtype bf16 --B 1,32\n"
	"  cellgrad bench --op LSTMBlockCell --H 64,128,256,512 --time 0.1 --plot h.svg\n"
	"  cellgrad bench --mode gru --B 256 --threads 1 --json > gru.json\n"
	"  cellgrad bench --op BlockLSTM --T 1,10,100 --B 32 --what fwd+bwd\n"
	"  cellgrad bench --op CudnnRNNV3 --mode lstm --T 100 --layers 2 --what fwd+bwd\n"
	"  cellgrad bench --op rnn --T 100 --valid 0.5 direction=bidirectional\n"
	"\n"
	"Exit status: 0 success; 1 the command failed while working; 2 the call was\n"
	"rejected before any work.\n";

/* The options of sizes, which may be lists, in the order in which they are combined. */
static const int size_options[PROBLEM_SIZES] = { STEPS, LAYERS, BATCH, INPUT, UNITS };

struct bench {
	const struct options *options;
	struct request request;
	double time;
	long reps;
	struct problems problems;
	struct result *results;
	size_t done;
	struct plot plot;
};

/* ---- arguments ---- */

/* Reads the number at *word and moves *word past its digits; -1: there are no digits, or too many. */
static int64_t digits(const char **word)
{
	char *end;
	long long n;

	if (**word < '0' || **word > '9')
		return -1;
	errno = 0;
	n = strtoll(*word, &end, 10);
	*word = end;
	return errno ? -1 : n;
}

/* Reads a word that is one whole number. */
static int number(const char *name, const char *word, int64_t least, int64_t most, int64_t *value)
{
	char shown[PRINT_NAME];
	const char *at = word;

	*value = digits(&at);
	if (*value >= least && *value <= most && !*at)
		return CG_OK;
	return cg_fail(CG_BAD_ARGUMENT, "%s: expected a whole number from %lld to %lld, got \"%s\"", name, (long long)least,
	               (long long)most, print_name(shown, word));
}

/* Reads a list of sizes, "1,32,256". */
static int read_list(struct bench *b, int k)
{
	const char *word = b->options->value[size_options[k]], *at = word;
	int64_t least = 0;
	char shown[PRINT_NAME];

	for (const struct cg_op *row = NULL; (row = cg_op_next(row));)
		for (const struct cg_dim *d = row->dims; d->symbol; d++)
			if (!strcmp(d->symbol, problem_sizes[k].symbol) && !d->only && d->least > least)
				least = d->least;
	for (;; at++) {
		int64_t n = digits(&at);

		if (n < least || (*at && *at != ','))
			return cg_fail(CG_BAD_ARGUMENT, "%s: expected whole numbers from %lld to %lld, with commas between, got \"%s\"",
			               problem_sizes[k].name, (long long)least, (long long)INT64_MAX, print_name(shown, word));
		if (b->request.lengths[k] == PROBLEM_LIST)
			return cg_fail(CG_BAD_ARGUMENT, "%s: expected up to %d numbers, got more", problem_sizes[k].name, PROBLEM_LIST);
		b->request.list[k][b->request.lengths[k]++] = n;
		if (!*at)
			return CG_OK;
	}
}

static int processors(void)
{
	cpu_set_t set;

	if (!sched_getaffinity(0, sizeof set, &set))
		return CPU_COUNT(&set);
	return (int)sysconf(_SC_NPROCESSORS_ONLN);
}

/* Sets the number of threads before a context is opened, since the cpu backend reads the number while it opens a context. */
static int set_threads(const struct bench *b)
{
	const char *word = b->options->value[THREADS];
	char shown[32];
	int64_t n;

	if (!word)
		return CG_OK;
	CG_TRY(number("--threads", word, 1, processors(), &n));
	snprintf(shown, sizeof shown, "%lld", (long long)n);
	return setenv("CELLGRAD_CPU_THREADS", shown, 1) ? cg_fail(CG_NO_MEMORY, "no memory for CELLGRAD_CPU_THREADS") : CG_OK;
}

static int read_time(struct bench *b)
{
	const char *time = b->options->value[TIME], *reps = b->options->value[REPS];
	char shown[PRINT_NAME], *end;
	int64_t n = 0;

	b->time = 0.25;
	if (time && reps)
		return cg_fail(CG_BAD_ARGUMENT, "--time and --reps: expected at most one of them, got both");
	if (time) {
		b->time = strtod(time, &end);
		if (end == time || *end || !(b->time > 0 && b->time <= 3600))
			return cg_fail(CG_BAD_ARGUMENT, "--time: expected a number of seconds above 0 and up to 3600, got \"%s\"",
			               print_name(shown, time));
	}
	if (reps)
		CG_TRY(number("--reps", reps, 1, 1000000, &n));
	b->reps = (long)n;
	return CG_OK;
}

static int read_valid(struct bench *b)
{
	const char *word = b->options->value[VALID];
	char shown[PRINT_NAME];

	b->request.valid = 1;
	if (!word || (!field_real(word, &b->request.valid) && b->request.valid >= 0 && b->request.valid <= 1))
		return CG_OK;
	return cg_fail(CG_BAD_ARGUMENT, "--valid: expected a number from 0 to 1, got \"%s\"", print_name(shown, word));
}

static int read_options(struct bench *b)
{
	const struct options *o = b->options;
	int what;

	b->request.op = o->value[OP];
	b->request.mode = o->value[MODE];
	b->request.attributes = o->operands;
	for (int k = 0; k < PROBLEM_SIZES; k++)
		if (o->value[size_options[k]])
			CG_TRY(read_list(b, k));
	CG_TRY(read_valid(b));
	b->request.dtype = -1;
	if (o->value[DTYPE])
		CG_TRY(options_choose("--dtype", o->value[DTYPE], cg_real_names, CG_DTYPE_COUNT, &b->request.dtype));
	if (o->value[WHAT]) {
		CG_TRY(options_choose("--what", o->value[WHAT], bench_whats, 3, &what));
		b->request.what = what + 1;
	}
	CG_TRY(read_time(b));
	return set_threads(b);
}

/* ---- the work ---- */

static void show_progress(const struct bench *b, double start)
{
	double passed = (cg_milliseconds() - start) / 1e3;

	if (!isatty(2))
		return;
	fprintf(stderr, "\r\033[K");
	if (b->done < b->problems.n && b->done)
		fprintf(stderr, "%zu of %zu problems, %.1f a second, %.0f s left", b->done, b->problems.n, (double)b->done / passed,
		        passed / (double)b->done * (double)(b->problems.n - b->done));
	else if (b->done < b->problems.n)
		fprintf(stderr, "%zu problem%s", b->problems.n, b->problems.n == 1 ? "" : "s");
}

/* The number of threads in the device's description, "; 2 threads"; 1 if the description has no such number. */
static int threads_of(const struct cg_context *context)
{
	const char *about = cg_describe(context);
	char unit;
	int n;

	for (; (about = strchr(about, ';')); about++)
		if (sscanf(about, "; %d threa%c", &n, &unit) == 2 && n > 0)
			return n;
	return 1;
}

static int measure(struct bench *b, struct cg_context *context, int *working)
{
	int json = !!b->options->value[OPTION_JSON], code;
	struct roofs roofs;
	double start;

	cg_inspect_silence(context);     /* no line of CELLGRAD_VERBOSE: the time to print a line for each call would be measured, too */
	for (size_t k = 0; k < b->problems.n; k++)
		CG_TRY(cg_supports(context, b->problems.list[k].row->name, problem_dtype(&b->problems.list[k])));
	b->results = cg_memory(NULL, b->problems.n * sizeof *b->results);
	if (!b->results)
		return CG_NO_MEMORY;
	*working = 1;
	show_progress(b, 0);
	CG_TRY(roof_measure(context, threads_of(context), b->time < 0.08 ? b->time : 0.08, &roofs));
	CG_TRY(report_head(context, &roofs, b->options->operands, json));
	start = cg_milliseconds();
	for (code = CG_OK; !code && b->done < b->problems.n; b->done++) {
		struct result *r = &b->results[b->done];

		show_progress(b, start);
		fflush(stdout);
		code = timing_measure(context, &b->problems.list[b->done], b->time, b->reps, r);
		if (code)
			break;
		roof_share(&roofs, r);
		if (json)
			code = report_json(context, &roofs, r);
	}
	if (isatty(2))
		fprintf(stderr, "\r\033[K");
	/* The results measured so far are shown even after a failure; the message of the failure is kept. */
	if (!json && b->done && report_table(b->results, b->done) && !code)
		code = CG_NO_MEMORY;
	return code;
}

static int run_bench(struct bench *b, int *working)
{
	const char *plot = b->options->value[PLOT];
	struct cg_context *context;
	int code;

	CG_TRY(read_options(b));
	CG_TRY(problems_add(&b->problems, &b->request));
	CG_TRY(plan_warn_recurrence(&b->problems.named, "bench"));
	if (plot)
		CG_TRY(plot_check(&b->plot, plot));
	CG_TRY(cg_open(NULL, &context));
	code = measure(b, context, working);
	cg_close(context);
	if (!code && plot)
		code = plot_write(&b->plot, b->results, b->problems.n);
	return code;
}

int command_bench(int argc, const char **argv)
{
	struct options o;
	struct bench b = { .options = &o };
	int code = options_open(&o, "bench", argc, argv, table), working = 0;

	if (!code && o.value[OPTION_HELP])
		options_help(&o, usage, text);
	else if (!code)
		code = run_bench(&b, &working);
	plot_close(&b.plot);
	problems_free(&b.problems);
	cg_memory(b.results, 0);
	options_close(&o);
	return code ? command_fail("bench", code, working) : EXIT_OK;
}
