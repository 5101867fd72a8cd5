/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `cellgrad check`: runs the conformance suite on the user's machine. Ops are compared with the independent reference, kernels with
 * another way of computing them. At most ten failing cases are shrunk and printed, each as the command that repeats it. The trials are in
 * verify/, the subjects in subject.c, the output in verdict.c.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/device/inspect.h"
#include "command/check/check.h"
#include "command/command.h"
#include "command/file.h"
#include "command/output.h"
#include "command/check/shrink.h"

enum { BACKEND = OPTION_FIRST, REF, SUITE, SEED, MAX_TIME, DTYPE };

static const struct poptOption table[] = {
	OPTION_VALUE("backend", 'b', BACKEND, "check this device; by default that of CELLGRAD_BACKEND", "DEVICE"),
	OPTION_VALUE("ref", 'r', REF, "compare with this device, too; by default, and for the word reference, with none", "DEVICE"),
	OPTION_VALUE("suite", 's', SUITE, "quick: the table and some random cases (the default); full: many", "SUITE"),
	OPTION_VALUE("seed", '\0', SEED, "use the random numbers and cases of this seed", "N"),
	OPTION_VALUE("max-time", 't', MAX_TIME, "stop after this time", "SECONDS"),
	OPTION_VALUE("dtype", 'd', DTYPE, CG_DTYPES_TEXT "; by default all", "DTYPE"),
	OPTION_JSON_ROW,
	OPTION_HELP_ROW,
	POPT_TABLEEND
};

static const char usage[] = "[OP]... [NAME=VALUE]... [OPTION]...";
static const char text[] =
	"Checks that a device computes the right answers.  OP is an op\n"
	"(lstm_block_cell_grad, LSTMBlockCellGrad), a cell (gru_block, slstm) or the file\n"
	"of a cell (./mine.cell); without one, all built-in cells, and all ops for which\n"
	"there is a reference, are checked.\n"
	"\n"
	"Ops run on random numbers.  The outputs of ops are compared with those of the\n"
	"reference, which computes the formulas in extended precision and has an error\n"
	"bound for each value.  The cases differ in sizes, options, scalars, gate orders,\n"
	"host or device memory, accumulation and absent arguments.\n"
	"An op must leave the memory around its outputs unchanged.\n"
	"A second run of an op must give the same bits, where cellgrad promises this.\n"
	"With --ref DEVICE the answers of both devices must be right, and the largest\n"
	"difference between the two devices' answers is printed.\n"
	"\n"
	"The kernels of a cell promise the same bits on every device that does not say\n"
	"otherwise, except that a NaN may have any sign and payload.\n"
	"Kernels run on random numbers and, at times, on arbitrary bits.\n"
	"The outputs of the kernels are compared with those of another device: the device\n"
	"of --ref, else the cpu.\n"
	"If that device is the checked device itself, its kernels are compared with the\n"
	"kernels of the same cell given as text; for a cell that is not built in, that\n"
	"leaves nothing to compare.\n"
	"\n"
	"NAME=VALUE fixes a size, an attribute or another property in every case, and\n"
	"leaves out the ops and cells that lack the property: B=1, use_peephole=true,\n"
	"memory=device, pass=grad, rows=64, nan=true, absent=w_grad,b_grad.\n"
	"With seed=N one case runs: the sizes that no NAME=VALUE fixes are small, and the\n"
	"attributes that no NAME=VALUE fixes have their defaults.\n"
	"Up to ten failing cases are printed, each as a command that repeats the failure;\n"
	"without seed=N a failing case is first reduced to a simpler case.\n"
	"\n"
	"--suite full runs at least 50000 cases or, with --max-time, as many as fit in the\n"
	"time.\n"
	"\n"
	"Examples:\n"
	"  cellgrad check\n"
	"  cellgrad check GRUBlockCellGrad --dtype f16 --max-time 10\n"
	"  cellgrad check gru_block pass=grad units=64\n"
	"  cellgrad check ./mine.cell --backend opencl --max-time 10\n"
	"  cellgrad check lstm_block_cell B=2 I=3 U=4 use_peephole=true seed=7\n"
	"  cellgrad check --suite full --seed 2 --max-time 600 --json\n"
	"\n"
	"Exit status: 0 all answers are right; 1 an answer is wrong, or the command failed\n"
	"while working; 2 the call was rejected before any work; 77 nothing could be\n"
	"checked.\n";

enum { EXIT_SKIPPED = 77, OPS_MAX = 128, ATTRIBUTES_MAX = 64, FULL = 50000, RANDOM = 40 };
static const unsigned long long default_seed = 20260101;

struct request {
	const struct cg_op *ops[OPS_MAX];
	/* name: the word that named the cell; parsed: the cell, if it is from a file, which read_operands() opened */
	struct { const char *name; const struct cg_cell *cell; struct cg_cell *parsed; } cells[OPS_MAX];
	int n_ops, n_cells, full;
	const char *attributes[ATTRIBUTES_MAX + 2];
	int n_attributes;
	char dtype[PRINT_NAME];          /* --dtype as an attribute, dtype=DTYPE */
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* ---- arguments ---- */

static int no_op(const char *word)
{
	const char *names[OPS_MAX], *nearest;
	char shown[PRINT_NAME];
	int n = 0;

	for (const struct cg_op *op = NULL; (op = cg_op_next(op)) && n < OPS_MAX - 1;) {
		names[n++] = op->name;
		names[n++] = op->tensorflow;
	}
	for (int k = 0; cg_cell_name(k) && n < OPS_MAX; k++)
		names[n++] = cg_cell_name(k);
	for (int k = 0; cg_shelf_name(k) && n < OPS_MAX; k++)
		names[n++] = cg_shelf_name(k);
	nearest = cg_nearest(word, names, n);
	print_name(shown, word);
	if (nearest)
		return cg_fail(CG_BAD_ARGUMENT, "no op or cell %s; did you mean %s?", shown, nearest);
	return cg_fail(CG_BAD_ARGUMENT, "no op or cell %s; cellgrad info lists the ops, cellgrad emit --list the cells", shown);
}

static int add_op(struct request *r, const char *word)
{
	const struct cg_op *op = cg_op_find(word, NULL);
	const struct cg_cell *cell = NULL;
	struct cg_cell *parsed = NULL;
	char shown[PRINT_NAME];

	for (int k = 0; k < r->n_ops; k++)
		if (r->ops[k] == op)
			return cg_fail(CG_BAD_ARGUMENT, "%s is given twice", op->name);
	for (int k = 0; k < r->n_cells; k++)
		if (!strcmp(r->cells[k].name, word))
			return cg_fail(CG_BAD_ARGUMENT, "%s is given twice", print_name(shown, word));
	if (r->n_ops + r->n_cells == OPS_MAX)
		return cg_fail(CG_BAD_ARGUMENT, "%s: expected at most %d ops and cells, got more", print_name(shown, word), OPS_MAX);
	if (op) {
		r->ops[r->n_ops++] = op;
		return CG_OK;
	}
	if (file_is_cell(word))
		CG_TRY(file_cell(word, 1, &cell, &parsed));
	else
		cell = cg_cell_find(word);
	if (!cell)
		return no_op(word);
	r->cells[r->n_cells].name = word;
	r->cells[r->n_cells].cell = cell;
	r->cells[r->n_cells++].parsed = parsed;
	return CG_OK;
}

static int add_attribute(struct request *r, const char *word)
{
	size_t length = strcspn(word, "=");
	char shown[PRINT_NAME];

	if (r->n_attributes == ATTRIBUTES_MAX)
		return cg_fail(CG_BAD_ARGUMENT, "%s: expected at most %d words NAME=VALUE, got more", print_name(shown, word), ATTRIBUTES_MAX);
	for (int k = 0; k < r->n_attributes; k++)
		if (!strncmp(r->attributes[k], word, length + 1))
			return cg_fail(CG_BAD_ARGUMENT, "%.*s is given twice", (int)(length < 60 ? length : 60), word);
	r->attributes[r->n_attributes++] = word;
	return CG_OK;
}

static int read_operands(struct request *r, const struct options *o)
{
	for (const char **word = o->operands; *word; word++)
		CG_TRY((strchr(*word, '=') ? add_attribute : add_op)(r, *word));
	if (o->value[DTYPE]) {
		if (cg_dtype_find(o->value[DTYPE]) < 0)
			return command_reword(CG_BAD_ARGUMENT, "--dtype");
		snprintf(r->dtype, sizeof r->dtype, "dtype=%s", o->value[DTYPE]);
		CG_TRY(add_attribute(r, r->dtype));
	}
	return CG_OK;
}

static int read_options(struct check *c, struct request *r, const struct options *o)
{
	const char *suite = o->value[SUITE], *seed = o->value[SEED], *most = o->value[MAX_TIME];
	char shown[PRINT_NAME];

	c->seed = default_seed;
	if (suite && strcmp(suite, "quick") && strcmp(suite, "full"))
		return cg_fail(CG_BAD_ARGUMENT, "--suite: expected quick or full, got \"%s\"", print_name(shown, suite));
	r->full = suite && !strcmp(suite, "full");
	if (most && (field_real(most, &c->most_seconds) || c->most_seconds <= 0 || c->most_seconds > 1e9))
		return cg_fail(CG_BAD_ARGUMENT, "--max-time: expected a number of seconds above 0 and up to 1e9, got \"%s\"", print_name(shown, most));
	if (seed) {
		struct fields f = { .of = "check", .n = 0 };
		char word[PRINT_NAME + 8];

		field_add(&f, "--seed", FIELD_SEED, &c->seed);
		snprintf(word, sizeof word, "--seed=%s", seed);
		CG_TRY(field_set(&f, word));
	}
	c->json = !!o->value[OPTION_JSON];
	return read_operands(r, o);
}

/* Adds all subjects that the user requested. If no subject can be added, reports the most helpful of the messages that say why. */
static int add_subjects(struct check *c, const struct request *r)
{
	char message[1024] = "";
	int most = -1, why;

	for (int k = 0; k < r->n_ops + r->n_cells; k++)
		for (int dtype = 0; dtype < CG_DTYPE_COUNT; dtype++) {
			const struct cg_op *op = k < r->n_ops ? r->ops[k] : NULL;
			const int cell = k - r->n_ops;
			int code = op ? subject_add(c, op->name, op, NULL, dtype, &why)
			              : subject_add(c, r->cells[cell].name, NULL, r->cells[cell].cell, dtype, &why);

			if (code && code != CG_BAD_ARGUMENT)
				return code;
			if (code && why > most) {
				most = why;
				snprintf(message, sizeof message, "%s", cg_message());
			}
		}
	if (c->n_subjects)
		return CG_OK;
	return cg_fail(CG_BAD_ARGUMENT, "%s", most > 0 ? message : "there is no kernel with this stage, pass, shape and options");
}

/* Chooses the ops and cells to check: those that the user named or, if the user named none, all ops and all built-in cells. Leaves out ops
 * that the reference does not compute. */
static int choose(struct check *c, struct request *r)
{
	int named = r->n_ops + r->n_cells;

	for (const struct cg_op *op = NULL; (op = cg_op_next(op)) && !named && r->n_ops < OPS_MAX;)
		r->ops[r->n_ops++] = op;
	for (int k = 0; cg_cell_name(k) && !named && r->n_cells < OPS_MAX; k++) {
		r->cells[r->n_cells].name = cg_cell_name(k);
		r->cells[r->n_cells].cell = cg_cell_find(cg_cell_name(k));
		if (!r->cells[r->n_cells++].cell)
			return CG_NO_MEMORY;
	}
	for (int k = 0, n = r->n_ops; k < n; k++)
		if (!subject_has_reference(r->ops[k])) {
			check_skip(c, r->ops[k]->name, "the reference does not compute the op", 0);
			r->ops[k--] = r->ops[--n];
			r->n_ops = n;
		}
	c->attributes = r->attributes;
	for (int k = 0; k < r->n_attributes; k++)
		c->single |= !strncmp(r->attributes[k], "seed=", 5);
	if (c->single && named != 1)
		return cg_fail(CG_BAD_ARGUMENT, "seed= selects one case: expected one op or cell, got %d", named);
	return add_subjects(c, r);
}

/* ---- the devices ---- */

/* Opens the device of a struct side, and a stream of the device. name: the device's name in messages; NULL: the first word of the device's
 * description is its name. */

static int open_side(struct side *s, const char *where, const char *name)
{
	static char names[3][32];
	static int n;

	CG_TRY(cg_open(where, &s->context));
	if (!name) {
		const char *about = cg_describe(s->context);

		snprintf(names[n % 3], sizeof names[0], "%.*s", (int)strcspn(about, ": ,"), about);
		name = names[n++ % 3];
	}
	s->name = name;
	return cg_stream_open(s->context, NULL, &s->stream);
}

static int same(const struct side *a, const struct side *b)
{
	return !strcmp(cg_describe(a->context), cg_describe(b->context));
}

static void close_side(struct side *s)
{
	cg_stream_close(s->stream);
	cg_close(s->context);
	s->stream = NULL;
	s->context = NULL;
}

/* Chooses the device with which kernels are compared: that of --ref, else that of the last backend, cpu, which opens everywhere; no device
 * if the chosen device does not open or is the checked device itself. */
static int open_other(struct check *c, const char *ref)
{
	int last = 0;

	while (cg_inspect_backend(last + 1))
		last++;
	if (open_side(&c->other, ref ? ref : cg_inspect_backend(last), ref) || same(&c->other, &c->sides[0])) {
		close_side(&c->other);
		c->other.name = "the cell given as text";
	}
	return CG_OK;
}

static int open_sides(struct check *c, const struct options *o)
{
	const char *ref = o->value[REF];
	int code;

	c->backend = o->value[BACKEND] ? o->value[BACKEND] : cg_variable_get(CG_ENV_BACKEND);
	c->ref = ref && strcmp(ref, "reference") ? ref : NULL;
	code = open_side(&c->sides[0], o->value[BACKEND], c->backend);
	if (code)
		return o->value[BACKEND] ? command_reword(code, "--backend") : code;
	code = c->ref ? open_side(&c->sides[1], c->ref, c->ref) : CG_OK;
	if (code)
		return command_reword(code, "--ref");
	c->n_sides = c->ref ? 2 : 1;
	return open_other(c, c->ref);
}

/* ---- what cannot be checked ---- */

static int supported(const struct check *c, const struct subject *s)
{
	const char *op = s->op ? s->op->name : cg_op_next(NULL)->name;
	const struct side *second = s->op ? &c->sides[1] : &c->other;

	CG_TRY(cg_supports(c->sides[0].context, op, s->dtype));
	return second->context ? cg_supports(second->context, op, s->dtype) : CG_OK;
}

static int other_bits(const struct side *s)
{
	return s->context && strstr(cg_describe(s->context), "not the same bits");
}

static int built_in(const struct cg_cell *cell)
{
	int k = 0;

	while (cg_cell_name(k) && cg_cell_find(cg_cell_name(k)) != cell)
		k++;
	return cg_cell_name(k) != NULL;
}

/* Is the kernel always interpreted on the cpu? The library contains no compiled form of a kernel for which interpreted() returns 1, so the
 * cpu computes the kernel in one way only. */
static int interpreted(const struct kernel_kind *k)
{
	return !built_in(k->cell) || k->pass == CG_GRADGRAD || (k->pass > CG_GRADGRAD && !cg_saves_output(k->cell));
}

/* Leaves out the kernels that can be computed in one way only, where no other device computes them. */
static void leave_one_way(struct check *c, struct subject *s)
{
	long cases = subject_table(c, s);
	int n = 0, all = s->n_kinds;

	for (int k = 0; k < all; k++)
		if (!interpreted(&s->kinds[k])) {
			struct kernel_kind kind = s->kinds[k];

			s->kinds[k] = s->kinds[n];
			s->kinds[n++] = kind;
		}
	kernel_kinds_close(s->kinds + n, all - n);
	s->n_kinds = n;
	if (n < all)
		check_skip(c, "interpreted kernels",
		           "there is one way to compute them here; --ref DEVICE compares them with another's, and cellgrad cell their gradient "
		           "with differences", cases - (n ? subject_table(c, s) : 0));
}

/* The reason why the subject cannot be checked; NULL: it can be checked, or *code is an error. */
static const char *hindrance(const struct check *c, const struct subject *s, int *code)
{
	*code = supported(c, s);
	if (*code == CG_UNSUPPORTED) {
		*code = CG_OK;
		return cg_message();
	}
	if (!*code && s->cell && (other_bits(&c->sides[0]) || other_bits(&c->other)))
		return "the device says that its bits are not the same; its ops are compared with the bound";
	return NULL;
}

static int leave_out(struct check *c)
{
	for (int k = 0; k < c->n_subjects; k++) {
		struct subject *s = &c->subjects[k];
		char what[64];
		int code;
		const char *why = hindrance(c, s, &code);

		CG_TRY(code);
		if (why) {
			snprintf(what, sizeof what, "%s %s", s->name, cg_dtype_name(s->dtype));
			check_skip(c, what, why, c->single ? 1 : subject_table(c, s));
			s->left_out = 1;
			continue;
		}
		if (s->cell && !c->other.context) {
			leave_one_way(c, s);
			CG_TRY(kernel_again(s->cell, &s->again));
		}
	}
	return CG_OK;
}

/* Can the subject be checked: has leave_out() not left it out, and has it an op or kernels? */
static int alive(const struct subject *s)
{
	return !s->left_out && (s->op || s->n_kinds);
}

/* ---- the cases ---- */

struct failing { const struct check *check; struct example *example; int kind; };

static int fails(void *user)
{
	const struct failing *f = user;
	struct finding finding;
	int code;

	verdict_watch(f->check, f->example);
	code = example_run(f->check, f->example, &finding);
	return code ? code : finding.kind == f->kind;
}

/* Shows a failure, unless a failure of the same kind and subject, or SHOWN_MAX failures, were shown before. */
static int show(struct check *c, struct example *e, struct finding *f)
{
	struct failing failing = { c, e, f->kind };
	struct finding again = *f;
	struct fields fields;
	size_t length;

	if (e->subject->shown >> f->kind & 1 || c->shown >= SHOWN_MAX)
		return CG_OK;
	e->subject->shown |= 1u << f->kind;
	c->shown++;
	if (!c->single) {
		example_fields(e, &fields);
		CG_TRY(shrink(&fields, fails, &failing));
		CG_TRY(example_run(c, e, &again));
	}
	if (again.kind == f->kind)
		return verdict_failure(c, e, &again);
	length = strlen(f->text);
	snprintf(f->text + length, sizeof f->text - length, "; and not when it was run again");
	return verdict_failure(c, e, f);
}

static void count(struct subject *s, const struct finding *f)
{
	struct finding *t = &s->total;

	t->elements += f->elements;
	t->unbounded += f->unbounded;
	t->flushed += f->flushed;
	t->worst = f->worst > t->worst ? f->worst : t->worst;
	t->apart = f->apart > t->apart ? f->apart : t->apart;
}

static int check_one(struct check *c, struct example *e)
{
	struct subject *s = e->subject;
	struct finding f;

	verdict_watch(c, e);
	CG_TRY(example_run(c, e, &f));
	if (f.kind == FINDING_DECLINED) {
		check_skip(c, s->name, f.text, 1);
		return CG_OK;
	}
	c->cases++;
	s->cases++;
	if (!f.kind) {
		count(s, &f);
		return CG_OK;
	}
	c->failed++;
	s->failed++;
	return show(c, e, &f);
}

static unsigned long long next_seed(struct check *c, long n)
{
	return c->seed + 7919ull * (unsigned long long)(n + 1);
}

static int over(struct check *c, double began)
{
	c->seconds = now() - began;
	verdict_progress(c);
	return c->most_seconds > 0 && c->seconds >= c->most_seconds;
}

/* Runs cases, one of each subject in turn: first those of the subjects' tables, then random ones. */
static int check_all(struct check *c, double began)
{
	struct example e;
	long n = 0;

	for (int random = 0, any = 1; any || !random;) {
		if (!any)
			random = 1;
		any = 0;
		for (int k = 0; k < c->n_subjects; k++) {
			struct subject *s = &c->subjects[k];

			if (!alive(s) || !(random ? subject_any : subject_next)(c, s, next_seed(c, n), &e))
				continue;
			any = 1;
			n++;
			CG_TRY(check_one(c, &e));
			c->stopped = over(c, began);
			if (c->stopped || (random && c->planned && n >= c->planned))
				return CG_OK;
		}
	}
	return CG_OK;
}

static void plan(struct check *c, const struct request *r)
{
	int subjects = 0;

	for (int k = 0; k < c->n_subjects; k++)
		if (alive(&c->subjects[k])) {
			c->planned += subject_table(c, &c->subjects[k]);
			subjects++;
		}
	c->planned += RANDOM * subjects;
	if (r->full)
		c->planned = c->most_seconds > 0 ? 0 : c->planned > FULL ? c->planned : FULL;
}

static int work(struct check *c, const struct request *r)
{
	double began = now();
	struct example e;
	int code = CG_OK;

	CG_TRY(verdict_begin(c));
	plan(c, r);
	if (!c->single)
		code = check_all(c, began);
	else if (alive(&c->subjects[0])) {
		subject_only(c, &c->subjects[0], &e);
		code = check_one(c, &e);
	}
	c->seconds = now() - began;
	CG_TRY(code);
	return verdict_end(c);
}

int command_check(int argc, const char **argv)
{
	static struct check c;
	static struct request r;
	struct options o;
	int code = options_open(&o, "check", argc, argv, table), working = 0, help = !code && o.value[OPTION_HELP];

	if (help)
		options_help(&o, usage, text);
	else if (!code)
		code = read_options(&c, &r, &o);
	if (!code && !help)
		code = choose(&c, &r);
	if (!code && !help)
		code = open_sides(&c, &o);
	if (!code && !help)
		code = leave_out(&c);
	if (!code && !help) {
		working = 1;
		code = work(&c, &r);
	}
	subjects_close(&c);
	for (int k = 0; k < r.n_cells; k++)
		cg_cell_close(r.cells[k].parsed);
	close_side(&c.other);
	close_side(&c.sides[1]);
	close_side(&c.sides[0]);
	options_close(&o);
	if (code)
		return command_fail("check", code, working);
	return help ? EXIT_OK : c.failed ? EXIT_WORK : c.cases ? EXIT_OK : EXIT_SKIPPED;
}
