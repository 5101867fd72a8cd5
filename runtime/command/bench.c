/*
 * `cellgrad bench`: how long ops take, next to what the machine could do.  Words become a list of problems here; measuring and
 * showing are in files of their own.
 */
#include <errno.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gen/cell.h"
#include "runtime/command/bench.h"
#include "runtime/command/call.h"
#include "runtime/command/command.h"
#include "runtime/command/field.h"
#include "runtime/command/print.h"

enum { OP = OPTION_FIRST, BATCH, INPUT, UNITS, STEPS, LAYERS, VALID, DTYPE, WHAT, MODE, THREADS, TIME, REPS, PLOT };

static const struct poptOption table[] = {
	OPTION_VALUE("op", 'o', OP, "TensorFlow's name or ours; unset: all", "OP"),
	OPTION_VALUE("B", '\0', BATCH, "rows of the batch", "N[,N]..."),
	OPTION_VALUE("I", '\0', INPUT, "width of the input", "N[,N]..."),
	OPTION_VALUE("H", '\0', UNITS, "units, the width of the state", "N[,N]..."),
	OPTION_VALUE("T", '\0', STEPS, "steps of a sequence; of the other ops 1", "N[,N]..."),
	OPTION_VALUE("layers", '\0', LAYERS, "layers of a network: 1", "N[,N]..."),
	OPTION_VALUE("valid", '\0', VALID, "share of steps in rows of drawn lengths: 1", "SHARE"),
	OPTION_VALUE("dtype", 'd', DTYPE, "f16, bf16, f32 (the default) or f64", "DTYPE"),
	OPTION_VALUE("what", 'w', WHAT, "fwd, bwd or fwd+bwd; unset: what the op's name says", "WHAT"),
	OPTION_VALUE("mode", 'm', MODE, "lstm, gru, rnn_tanh or rnn_relu: only ops of this kind", "MODE"),
	OPTION_VALUE("threads", 't', THREADS, "of the cpu; unset: as many as it may run on", "N"),
	OPTION_VALUE("time", '\0', TIME, "seconds for each problem; 0.25", "S"),
	OPTION_VALUE("reps", 'r', REPS, "samples of each problem, instead of a time", "N"),
	OPTION_VALUE("plot", 'p', PLOT, "draw FILE, .svg or .png, by gnuplot; the data is in FILE.tsv", "FILE"),
	OPTION_JSON_ROW,
	OPTION_HELP_ROW,
	POPT_TABLEEND
};

static const char usage[] = "[--op OP] [NAME=VALUE]... [OPTION]...";
static const char text[] =
	"Measures first what the machine can do, its roofs: multiply and add in registers,\n"
	"and copying from memory to memory over sizes from a cache's to far beyond all of\n"
	"them (bytes read and written).  Then each problem, its memory and workspace there\n"
	"beforehand.  Of a device that copies by itself, as OpenCL's and CUDA's do, that\n"
	"is the one roof; it is measured again beside each problem, a copy after each\n"
	"sample.\n"
	"\n"
	"OP is TensorFlow's name (LSTMBlockCellGrad: TensorFlow's outputs) or ours\n"
	"(lstm_block_cell_grad: the gradients of x, h_prev, w and b as well); a name with\n"
	"Grad or _grad in it means --what bwd, others --what fwd.  Sizes that are not\n"
	"given are T 16, B 32, I 256, H 512; lists with commas make a problem of each\n"
	"combination.  NAME=VALUE are the op's attributes, as in cellgrad run.  Without\n"
	"--op: all ops, with --T those of sequences, and without sizes, too, at a few\n"
	"typical ones.\n"
	"\n"
	"  min, median  milliseconds of one call, over the samples; a sample is as many\n"
	"               calls as the clock needs\n"
	"  spread       the median absolute deviation: half of the samples are nearer to\n"
	"               the median than this\n"
	"  GFLOP/s      of the products: two operations for each weight and row, of all\n"
	"               steps that are computed\n"
	"  GB/s         of the least there is to move: each argument read or written once\n"
	"  copy         GB/s of the device's own copy of as many bytes, the median\n"
	"  of roof      the least time that the roofs allow over the median, and which\n"
	"               roof is the lower; what moves is compared with a copy of no less\n"
	"               bytes.  A GFLOP/s of f16 and bf16 is computed in f32.\n"
	"\n"
	"CELLGRAD_VERBOSE=1 makes any program print its calls as commands of this kind.\n"
	"--plot draws times over the size that varies, else the share of the roof.\n"
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
	"Exit status: 0 done; 1 failed while working; 2 refused before any work.\n";

enum { LIST_MAX = 64, PROBLEMS_MAX = 4096, DTYPES = 4, NAME_ROOM = 64 };

/* Those that may be lists, in the order in which they are combined. */
static const struct size { int option; const char *name, *symbol; int64_t usual; } sizes[] = {
	{ STEPS, "--T", "T", 16 }, { LAYERS, "--layers", "L", 1 }, { BATCH, "--B", "B", 32 }, { INPUT, "--I", "I", 256 },
	{ UNITS, "--H", "U", 512 }
};
enum { SIZES = sizeof sizes / sizeof *sizes };

/* What is measured when no size is named. */
static const int64_t typical[][SIZES] = { { 32, 1, 1, 16, 16 }, { 16, 1, 32, 256, 512 }, { 4, 1, 256, 512, 512 } };
enum { TYPICAL = sizeof typical / sizeof *typical };

struct bench {
	const struct options *options;
	int64_t list[SIZES][LIST_MAX];
	int lengths[SIZES];
	int what, dtype;                         /* what: 0 where the op's name says it; dtype: -1 not given */
	double time, valid;
	struct call named;                       /* the op of --op, whose attributes its problems point into; no row: none */
	long reps;
	struct problem *problems;
	struct result *results;
	size_t n, done;
	struct plot plot;
};

/* ---- words ---- */

/* Reads digits and moves on to what stands after them; -1: there are none, or too many. */
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

/* A word that is one whole number. */
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

/* "1,32,256", of numbers that every op takes that may take more than one. */
static int read_list(struct bench *b, int k)
{
	const char *word = b->options->value[sizes[k].option], *at = word;
	int64_t least = 0;
	char shown[PRINT_NAME];

	for (const struct cg_op *row = cg_ops; row->name; row++)
		for (const struct cg_dim *d = row->dims; d->symbol; d++)
			if (!strcmp(d->symbol, sizes[k].symbol) && !d->only && d->least > least)
				least = d->least;
	for (;; at++) {
		int64_t n = digits(&at);

		if (n < least || (*at && *at != ','))
			return cg_fail(CG_BAD_ARGUMENT, "%s: expected whole numbers of at least %lld, with commas, got \"%s\"",
			               sizes[k].name, (long long)least, print_name(shown, word));
		if (b->lengths[k] == LIST_MAX)
			return cg_fail(CG_BAD_ARGUMENT, "%s: expected up to %d numbers, got more", sizes[k].name, LIST_MAX);
		b->list[k][b->lengths[k]++] = n;
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

/* The cpu backend reads its number of threads when it is opened. */
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
		return cg_fail(CG_BAD_ARGUMENT, "--time and --reps: expected one of them, got both");
	if (time) {
		b->time = strtod(time, &end);
		if (end == time || *end || !(b->time > 0 && b->time <= 3600))
			return cg_fail(CG_BAD_ARGUMENT, "--time: expected seconds, more than 0 and up to 3600, got \"%s\"",
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

	b->valid = 1;
	if (!word || (!field_real(word, &b->valid) && b->valid >= 0 && b->valid <= 1))
		return CG_OK;
	return cg_fail(CG_BAD_ARGUMENT, "--valid: expected a number from 0 to 1, got \"%s\"", print_name(shown, word));
}

static int read_options(struct bench *b)
{
	const struct options *o = b->options;
	int what;

	for (int k = 0; k < SIZES; k++)
		if (o->value[sizes[k].option])
			CG_TRY(read_list(b, k));
	CG_TRY(read_valid(b));
	b->dtype = -1;
	if (o->value[DTYPE])
		CG_TRY(options_choose("--dtype", o->value[DTYPE], cg_real_names, DTYPES, &b->dtype));
	if (o->value[WHAT]) {
		CG_TRY(options_choose("--what", o->value[WHAT], bench_whats, 3, &what));
		b->what = what + 1;
	}
	CG_TRY(read_time(b));
	return set_threads(b);
}

/* ---- problems ---- */

/* Does the op have a size, that is not always 1? */
static int has_size(const struct cg_op *row, const char *symbol)
{
	for (const struct cg_dim *d = row->dims; d->symbol; d++)
		if (!strcmp(d->symbol, symbol))
			return !d->only;
	return 0;
}

/* Where the lengths of rows go; NULL: the op knows none. */
static const struct cg_port *lengths_of(const struct cg_op *row)
{
	for (const struct cg_port *port = row->ports; port->name; port++)
		if (!strcmp(port->name, "sequence_lengths"))
			return port;
	return NULL;
}

/* Are there sizes that only 1 goes for, and others were given, or lengths, and it knows none? */
static int takes(const struct bench *b, const struct cg_op *row)
{
	for (int k = 0; k < SIZES; k++)
		for (int n = 0; n < b->lengths[k] && !has_size(row, sizes[k].symbol); n++)
			if (b->list[k][n] != 1)
				return cg_fail(CG_BAD_ARGUMENT, "%s: %s has one: expected 1, got %lld", sizes[k].name,
				               b->options->value[OP], (long long)b->list[k][n]);
	if (b->valid < 1 && !lengths_of(row))
		return cg_fail(CG_BAD_ARGUMENT, "--valid: %s has no sequence_lengths: expected 1, got %g", b->options->value[OP], b->valid);
	return CG_OK;
}

/* The name of an op's pass: that of its gradient is the same with _grad, or _backprop, in it. */
static int pass_name(const struct cg_op *row, char name[NAME_ROOM])
{
	static const char *const endings[] = { "_grad", "_backprop" };
	const char *at = NULL, *ending = "";

	for (size_t k = 0; k < sizeof endings / sizeof *endings && !at; k++)
		at = strstr(row->name, ending = endings[k]);
	snprintf(name, NAME_ROOM, "%.*s%s", at ? (int)(at - row->name) : NAME_ROOM, row->name, at ? at + strlen(ending) : "");
	return at != NULL;
}

/* The op's pass and its gradient. */
static int find_pair(const struct cg_op *row, struct problem *p)
{
	char name[NAME_ROOM], other[NAME_ROOM];
	int is_grad = pass_name(row, name);

	p->row = row;
	p->what = is_grad ? BENCH_GRAD : BENCH_FORWARD;
	p->forward = p->grad = row;
	for (const struct cg_op *o = cg_ops; o->name; o++) {
		int o_is_grad = pass_name(o, other);

		if (!strcmp(name, other))
			*(o_is_grad ? &p->grad : &p->forward) = o;
	}
	return p->forward != p->grad ? CG_OK : cg_fail(CG_UNSUPPORTED, "%s: has no gradient beside it", row->name);
}

static const char *const modes[] = { "lstm", "gru", "rnn_tanh", "rnn_relu" };
enum { MODES = sizeof modes / sizeof *modes };

/* A network's mode is an attribute; NULL: it is in the op's name. */
static const struct cg_attribute *mode_of(const struct cg_op *row)
{
	for (const struct cg_attribute *a = row->attributes; a->name; a++)
		if (!strcmp(a->name, "rnn_mode"))
			return a;
	return NULL;
}

static const char *named_mode(const struct cg_op *row)
{
	for (int k = 0; k < MODES; k++)
		if (strstr(row->name, modes[k]))
			return modes[k];
	return "";
}

const char *problem_mode(const struct problem *p)
{
	const struct cg_attribute *mode = mode_of(p->row);

	return mode ? mode->words[(int)cg_attribute_number(mode, p->op)] : named_mode(p->row);
}

static int check_mode(const struct bench *b, const struct cg_op *row)
{
	const char *mode = b->options->value[MODE];
	int k;

	if (!mode)
		return CG_OK;
	CG_TRY(options_choose("--mode", mode, modes, MODES, &k));
	if (row && !mode_of(row) && strcmp(named_mode(row), mode))
		return cg_fail(CG_BAD_ARGUMENT, "--mode: %s is not the mode of %s: expected %s", mode, b->options->value[OP],
		               named_mode(row));
	return CG_OK;
}

/* Has the network run in a mode, unless its attributes say one. */
static int set_mode(struct call *c, const char *mode)
{
	const struct cg_attribute *a = mode_of(c->row);
	char word[NAME_ROOM];

	if (!mode || !a || c->attributes >> (a - c->row->attributes) & 1)
		return CG_OK;
	snprintf(word, sizeof word, "rnn_mode=%s", mode);
	return call_attribute(c, word);
}

/* The attribute T says a dtype, as --dtype does. */
static int dtype_of(const struct bench *b, const struct call *c, int *dtype)
{
	*dtype = b->dtype < 0 ? CG_F32 : b->dtype;
	if (!c->type || !attribute_type(c, *dtype))
		return CG_OK;
	if (b->dtype >= 0)
		return cg_fail(CG_BAD_ARGUMENT, "T=%s contradicts --dtype %s", c->type, cg_dtype_name(b->dtype));
	for (*dtype = 0; attribute_type(c, *dtype); ++*dtype)
		;
	return CG_OK;
}

/* Lengths of rows that together are the share of all steps: drawn, then, row by row, moved until they are. */
static int draw_lengths(struct problem *p)
{
	int64_t T = problem_size(p, "T"), B = problem_size(p, "B"), sum = 0, wanted = (int64_t)(p->valid * (double)(T * B) + 0.5);
	const struct cg_port *port = lengths_of(p->row);
	uint64_t state = 1;

	p->lengths = cg_memory(NULL, (size_t)(B + 1) * sizeof *p->lengths);
	if (!p->lengths)
		return CG_NO_MEMORY;
	for (int64_t b = 0; b < B; sum += p->lengths[b++]) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		p->lengths[b] = (int32_t)(state >> 33) % (int32_t)(T + 1);
	}
	for (int64_t b = 0; sum != wanted; b = (b + 1) % B) {
		int step = sum < wanted ? p->lengths[b] < T : -(p->lengths[b] > 0);

		p->lengths[b] += step;
		sum += step;
	}
	*(struct cg_mem *)((char *)p->op + port->at) = (struct cg_mem){ .data = p->lengths, .bytes = (size_t)B * sizeof *p->lengths };
	return CG_OK;
}

static int settle(struct problem *p)
{
	const struct cg_op *row = problem_ready(p);
	unsigned bound = 0;

	if (!row->settle)
		return CG_OK;
	for (int k = 0; row->dims[k].symbol; k++)
		for (int n = 0; n < SIZES; n++)
			bound |= (unsigned)!strcmp(row->dims[k].symbol, sizes[n].symbol) << k;
	return row->settle(row, p->op, &bound);
}

static int add(struct bench *b, const struct call *c, const struct problem *like, int dtype, const int64_t values[SIZES])
{
	struct problem *more, *p;

	if (b->n == PROBLEMS_MAX)
		return cg_fail(CG_BAD_ARGUMENT, "expected up to %d problems, got more: shorten the lists", PROBLEMS_MAX);
	more = cg_memory(b->problems, (b->n + 1) * sizeof *more);
	if (!more)
		return CG_NO_MEMORY;
	b->problems = more;
	p = &more[b->n];
	*p = *like;
	p->valid = b->valid;
	p->op = cg_memory(NULL, c->row->size);
	if (!p->op)
		return CG_NO_MEMORY;
	b->n++;
	memcpy(p->op, c->op, c->row->size);
	memcpy((char *)p->op + c->row->dtype_at, &dtype, sizeof dtype);
	for (int k = 0; k < SIZES; k++)
		for (const struct cg_dim *d = c->row->dims; d->symbol; d++)
			if (!strcmp(d->symbol, sizes[k].symbol) && !d->only)
				memcpy((char *)p->op + d->at, &values[k], sizeof values[k]);
	for (const struct cg_attribute *a = c->row->attributes; a->name; a++)
		CG_TRY(cg_attribute_check(c->row, a, p->op, 0));
	if (p->valid < 1)
		CG_TRY(draw_lengths(p));
	CG_TRY(settle(p));
	return timing_check(p);
}

/* Every combination of the sizes that were given, the last changing fastest. */
static int combine(struct bench *b, const struct call *c, const struct problem *like, int dtype)
{
	int64_t values[SIZES];
	long all = 1;

	for (int k = 0; k < SIZES; k++)
		all *= b->lengths[k] && has_size(c->row, sizes[k].symbol) ? b->lengths[k] : 1;
	for (long n = 0; n < all; n++) {
		long rest = n;

		for (int k = SIZES - 1; k >= 0; k--) {
			int there = has_size(c->row, sizes[k].symbol), length = there ? b->lengths[k] : 0;

			values[k] = length ? b->list[k][rest % length] : there ? sizes[k].usual : 1;
			rest /= length ? length : 1;
		}
		CG_TRY(add(b, c, like, dtype, values));
	}
	return CG_OK;
}

/* An op of the run, by its name, in a mode, at the sizes given or at all that are typical. */
static int add_op(struct bench *b, struct call *c, const char *name, const char *mode, int typically)
{
	struct problem like = { .row = NULL };
	unsigned bound = 0;
	int dtype = CG_F32;

	CG_TRY(call_open(c, name));
	c->no_files = 1;
	for (const char **word = b->options->words; *word; word++)
		CG_TRY(call_attribute(c, *word));
	CG_TRY(set_mode(c, mode));
	CG_TRY(find_pair(c->row, &like));
	CG_TRY(plan_bind(c, &bound));
	CG_TRY(dtype_of(b, c, &dtype));
	like.theirs = c->theirs;
	if (b->what)
		like.what = b->what;
	if (!typically)
		return combine(b, c, &like, dtype);
	for (int k = 0; k < TYPICAL; k++)
		CG_TRY(add(b, c, &like, dtype, typical[k]));
	return CG_OK;
}

static int add_named(struct bench *b)
{
	const char *name = b->options->value[OP];
	const struct cg_op *row = cg_op_find(name, NULL);
	char shown[PRINT_NAME];

	if (!row)
		return cg_fail_in(CG_BAD_ARGUMENT, "--op");
	CG_TRY(check_mode(b, row));
	CG_TRY(takes(b, row));
	for (const char **word = b->options->words; *word; word++)
		if (!strchr(*word, '='))
			return cg_fail(CG_BAD_ARGUMENT, "%s: expected NAME=VALUE, an attribute of %s", print_name(shown, *word),
			               name);
	return add_op(b, &b->named, name, b->options->value[MODE], 0);
}

/* Does it compute what a row before it does, for another version's inputs and outputs? */
static int is_again(const struct cg_op *row)
{
	for (const struct cg_op *before = cg_ops; before != row; before++)
		if (row->plan && before->call == row->call)
			return 1;
	return 0;
}

/* An op in each of its modes, or in the one that was named. */
static int add_modes(struct bench *b, const struct cg_op *row, int typically)
{
	const char *only = b->options->value[MODE];
	struct call c;
	int code;

	for (int k = 0; k < (mode_of(row) ? MODES : 1); k++) {
		if (only && strcmp(mode_of(row) ? modes[k] : named_mode(row), only))
			continue;
		code = add_op(b, &c, row->tensorflow, modes[k], typically);
		call_close(&c);
		CG_TRY(code);
	}
	return CG_OK;
}

/* Under TensorFlow's names.  --what takes the passes or the gradients. */
static int add_all(struct bench *b)
{
	char shown[PRINT_NAME];
	int typically = 1;

	if (b->options->words[0])
		return cg_fail(CG_BAD_ARGUMENT, "%s: an attribute belongs to an op: name it by --op",
		               print_name(shown, b->options->words[0]));
	CG_TRY(check_mode(b, NULL));
	for (int k = 0; k < SIZES; k++)
		typically &= !b->lengths[k];
	for (const struct cg_op *row = cg_ops; row->name; row++) {
		struct problem pair;

		if (is_again(row) || find_pair(row, &pair) || takes(b, row))
			continue;
		if (b->what && (pair.what == BENCH_GRAD) != (b->what == BENCH_GRAD))
			continue;
		CG_TRY(add_modes(b, row, typically));
	}
	if (b->n)
		return CG_OK;
	return cg_fail(CG_BAD_ARGUMENT, "--mode, --what and the sizes: expected those of an op, got none of any");
}

/* ---- the work ---- */

static void show_progress(const struct bench *b, double start)
{
	double passed = (cg_milliseconds() - start) / 1e3;

	if (!isatty(2))
		return;
	fprintf(stderr, "\r\033[K");
	if (b->done < b->n && b->done)
		fprintf(stderr, "%zu of %zu problems, %.1f a second, %.0f s left", b->done, b->n, (double)b->done / passed,
		        passed / (double)b->done * (double)(b->n - b->done));
	else if (b->done < b->n)
		fprintf(stderr, "%zu problems", b->n);
}

/* What the device says of its threads, "; 2 threads"; one that says nothing has one. */
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

	context->verbose = 0;            /* many thousand calls, and lines would be what is measured */
	for (size_t k = 0; k < b->n; k++)
		CG_TRY(cg_supports(context, b->problems[k].row->name, problem_dtype(&b->problems[k])));
	b->results = cg_memory(NULL, b->n * sizeof *b->results);
	if (!b->results)
		return CG_NO_MEMORY;
	*working = 1;
	show_progress(b, 0);
	CG_TRY(roof_measure(context, threads_of(context), b->time < 0.08 ? b->time : 0.08, &roofs));
	CG_TRY(report_head(context, &roofs, b->options->words, json));
	start = cg_milliseconds();
	for (code = CG_OK; !code && b->done < b->n; b->done++) {
		struct result *r = &b->results[b->done];

		show_progress(b, start);
		fflush(stdout);
		code = timing_measure(context, &b->problems[b->done], b->time, b->reps, r);
		if (code)
			break;
		roof_share(&roofs, r);
		if (json)
			code = report_json(context, &roofs, r);
	}
	if (isatty(2))
		fprintf(stderr, "\r\033[K");
	/* What was measured is shown, whatever came after it; the words are those of the failure. */
	if (!json && b->done && report_table(b->results, b->done) && !code)
		code = CG_NO_MEMORY;
	return code;
}

static int bench(struct bench *b, int *working)
{
	const char *plot = b->options->value[PLOT];
	struct cg_context *context;
	int code;

	CG_TRY(read_options(b));
	CG_TRY(b->options->value[OP] ? add_named(b) : add_all(b));
	if (plot)
		CG_TRY(plot_check(&b->plot, plot));
	CG_TRY(cg_open(NULL, &context));
	code = measure(b, context, working);
	cg_close(context);
	if (!code && plot)
		code = plot_write(&b->plot, b->results, b->n);
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
		code = bench(&b, &working);
	plot_drop(&b.plot);
	for (size_t k = 0; k < b.n; k++) {
		cg_memory(b.problems[k].op, 0);
		cg_memory(b.problems[k].lengths, 0);
	}
	if (b.named.row)
		call_close(&b.named);
	cg_memory(b.problems, 0);
	cg_memory(b.results, 0);
	options_close(&o);
	return code ? command_failed("bench", code, working) : EXIT_OK;
}
