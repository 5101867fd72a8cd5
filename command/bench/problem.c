/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The problems of `cellgrad bench`: one op or all, in each mode, at the given sizes or at a few typical ones.
 */
#include <stdio.h>
#include <string.h>

#include "command/bench/bench.h"
#include "command/run/metadata.h"
#include "command/command.h"
#include "command/describe.h"
#include "command/output.h"
#include "runtime/device/inspect.h"

enum { PROBLEMS_MAX = 4096, NAME_CAPACITY = 64 };

const struct problem_size problem_sizes[PROBLEM_SIZES] = {
	{ "--T", "T", 16, "step" }, { "--layers", "L", 1, "layer" }, { "--B", "B", 32, "row" }, { "--I", "I", 256, "input" },
	{ "--H", "U", 512, "unit" }
};

/* The sizes at which each op is measured if neither an op nor a size is given. */
static const int64_t typical[][PROBLEM_SIZES] = { { 32, 1, 1, 16, 16 }, { 16, 1, 32, 256, 512 }, { 4, 1, 256, 512, 512 } };
enum { TYPICAL = sizeof typical / sizeof *typical };

/* Does the op have this size, other than always 1? */
static int has_size(const struct cg_op *row, const char *symbol)
{
	for (const struct cg_dim *d = row->dims; d->symbol; d++)
		if (!strcmp(d->symbol, symbol))
			return !d->only;
	return 0;
}

/* The port of the lengths of rows; NULL: the op has none. */
static const struct cg_port *lengths_of(const struct cg_op *row)
{
	for (const struct cg_port *port = row->ports; port->name; port++)
		if (!strcmp(port->name, "sequence_lengths"))
			return port;
	return NULL;
}

/* Refuses a request with sizes other than 1 for a size that the op does not have, or with --valid below 1 for an op
 * without lengths. */
static int accepts(const struct request *r, const struct cg_op *row)
{
	const char *op = r->op ? r->op : row->name;

	for (int k = 0; k < PROBLEM_SIZES; k++)
		for (int n = 0; n < r->lengths[k] && !has_size(row, problem_sizes[k].symbol); n++)
			if (r->list[k][n] != 1)
				return cg_fail(CG_BAD_ARGUMENT, "%s: op %s has one %s: expected 1, got %lld", problem_sizes[k].name,
				               op, problem_sizes[k].of, (long long)r->list[k][n]);
	if (r->valid < 1 && !lengths_of(row))
		return cg_fail(CG_BAD_ARGUMENT, "--valid: op %s has no sequence_lengths: expected 1, got %g", op, r->valid);
	return CG_OK;
}

/* Finds the forward op and its gradient. */
static int find_pair(const struct cg_op *row, struct problem *p)
{
	int is_grad;
	const struct cg_op *other = cg_op_pair(row, &is_grad);

	p->row = row;
	p->what = is_grad ? BENCH_GRAD : BENCH_FORWARD;
	p->forward = is_grad ? other : row;
	p->grad = is_grad ? row : other;
	return other ? CG_OK : cg_fail(CG_UNSUPPORTED, "%s: expected an op that has a gradient, or a gradient: bench measures only these", row->name);
}

static const char *const modes[] = { "lstm", "gru", "rnn_tanh", "rnn_relu" };
enum { MODES = sizeof modes / sizeof *modes };

/* The attribute rnn_mode, by which a network's mode is chosen; NULL: the op has none. */
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
	return p->row->plan ? cg_rnn_op_cell(p->op)->name : named_mode(p->row);
}

static int check_mode(const struct request *r, const struct cg_op *row)
{
	const char *mode = r->mode;
	int k;

	if (!mode)
		return CG_OK;
	CG_TRY(options_choose("--mode", mode, modes, MODES, &k));
	if (row && !mode_of(row) && strcmp(named_mode(row), mode))
		return cg_fail(CG_BAD_ARGUMENT, "--mode: %s is not the mode of op %s: expected %s", mode, r->op,
		               named_mode(row));
	return CG_OK;
}

/* Sets the attribute rnn_mode of a network to `mode`, unless the user gave rnn_mode. */
static int set_mode(struct call *c, const char *mode)
{
	const struct cg_attribute *a = mode_of(c->row);
	char word[NAME_CAPACITY];

	if (!mode || !a || c->attributes >> (a - c->row->attributes) & 1)
		return CG_OK;
	snprintf(word, sizeof word, "rnn_mode=%s", mode);
	return call_attribute(c, word);
}

/* Finds the dtype that --dtype or attribute T names; the two must agree. */
static int dtype_of(const struct request *r, const struct call *c, int *dtype)
{
	*dtype = r->dtype < 0 ? CG_F32 : r->dtype;
	if (!c->type || !metadata_type(c, *dtype))
		return CG_OK;
	if (r->dtype >= 0)
		return cg_fail(CG_BAD_ARGUMENT, "T=%s contradicts --dtype %s", c->type, cg_dtype_name(r->dtype));
	for (*dtype = 0; metadata_type(c, *dtype); ++*dtype)
		;
	return CG_OK;
}

/* Draws lengths of rows, then changes them by 1, row by row, until their sum is the wanted share of all steps. */
static int draw_lengths(struct problem *p)
{
	int64_t T = problem_get_size(p, "T"), B = problem_get_size(p, "B"), sum = 0, wanted = (int64_t)(p->valid * (double)(T * B) + 0.5);
	const struct cg_port *port = lengths_of(p->row);
	uint64_t state = 1;

	p->lengths = cg_memory(NULL, (size_t)(B + 1) * sizeof *p->lengths);
	if (!p->lengths)
		return CG_NO_MEMORY;
	for (int64_t b = 0; b < B; sum += p->lengths[b++]) {
		state = state * 6364136223846793005u + 1442695040888963407u;
		p->lengths[b] = (int32_t)((int64_t)(state >> 33) % (T + 1));
	}
	for (int64_t b = 0; sum != wanted; b = (b + 1) % B) {
		int step = sum < wanted ? p->lengths[b] < T : -(p->lengths[b] > 0);

		p->lengths[b] += step;
		sum += step;
	}
	*(struct cg_mem *)((char *)p->op + port->at) = (struct cg_mem){ .data = p->lengths, .bytes = (size_t)B * sizeof *p->lengths };
	return CG_OK;
}

static int infer_sizes(struct problem *p)
{
	const struct cg_op *row = problem_ready(p);
	unsigned bound = 0;

	if (!row->infer)
		return CG_OK;
	for (int k = 0; row->dims[k].symbol; k++)
		for (int n = 0; n < PROBLEM_SIZES; n++)
			bound |= (unsigned)!strcmp(row->dims[k].symbol, problem_sizes[n].symbol) << k;
	return row->infer(row, p->op, &bound);
}

static int add(struct problems *b, const struct request *r, const struct call *c, const struct problem *like, int dtype, const int64_t values[PROBLEM_SIZES])
{
	struct problem *more, *p;

	if (b->n == PROBLEMS_MAX)
		return cg_fail(CG_BAD_ARGUMENT, "expected up to %d problems, got more: shorten the lists", PROBLEMS_MAX);
	more = cg_memory(b->list, (b->n + 1) * sizeof *more);
	if (!more)
		return CG_NO_MEMORY;
	b->list = more;
	p = &more[b->n];
	*p = *like;
	p->valid = r->valid;
	p->op = cg_memory(NULL, c->row->size);
	if (!p->op)
		return CG_NO_MEMORY;
	b->n++;
	memcpy(p->op, c->op, c->row->size);
	memcpy((char *)p->op + c->row->dtype_at, &dtype, sizeof dtype);
	for (int k = 0; k < PROBLEM_SIZES; k++)
		for (const struct cg_dim *d = c->row->dims; d->symbol; d++)
			if (!strcmp(d->symbol, problem_sizes[k].symbol) && !d->only)
				memcpy((char *)p->op + d->at, &values[k], sizeof values[k]);
	for (const struct cg_attribute *a = c->row->attributes; a->name; a++)
		CG_TRY(cg_attribute_check(c->row, a, p->op, 0));
	CG_TRY(infer_sizes(p));
	CG_TRY(timing_check(p));
	if (p->valid == 1)
		return CG_OK;
	/* The lengths are drawn only after timing_check has found that the sizes fit in memory. */
	CG_TRY(draw_lengths(p));
	return infer_sizes(p);
}

/* Adds a problem for every combination of the given sizes, the last one changing fastest. */
static int combine(struct problems *b, const struct request *r, const struct call *c, const struct problem *like, int dtype)
{
	int64_t values[PROBLEM_SIZES];
	long all = 1;

	for (int k = 0; k < PROBLEM_SIZES; k++)
		all *= r->lengths[k] && has_size(c->row, problem_sizes[k].symbol) ? r->lengths[k] : 1;
	for (long n = 0; n < all; n++) {
		long rest = n;

		for (int k = PROBLEM_SIZES - 1; k >= 0; k--) {
			int there = has_size(c->row, problem_sizes[k].symbol), length = there ? r->lengths[k] : 0;

			values[k] = length ? r->list[k][rest % length] : there ? problem_sizes[k].usual : 1;
			rest /= length ? length : 1;
		}
		CG_TRY(add(b, r, c, like, dtype, values));
	}
	return CG_OK;
}

/* Adds the problems of an op in one mode, at the given sizes or at all typical ones. */
static int add_op(struct problems *b, const struct request *r, struct call *c, const char *name, const char *mode, int typically)
{
	struct problem like = { .row = NULL };
	unsigned bound = 0;
	int dtype = CG_F32;

	CG_TRY(call_open(c, name));
	c->no_files = 1;
	for (const char **word = r->attributes; *word; word++)
		CG_TRY(call_attribute(c, *word));
	CG_TRY(set_mode(c, mode));
	CG_TRY(find_pair(c->row, &like));
	CG_TRY(plan_bind(c, &bound));
	CG_TRY(dtype_of(r, c, &dtype));
	like.theirs = c->theirs;
	if (r->what)
		like.what = r->what;
	if (!typically)
		return combine(b, r, c, &like, dtype);
	for (int k = 0; k < TYPICAL; k++)
		CG_TRY(add(b, r, c, &like, dtype, typical[k]));
	return CG_OK;
}

static int add_named(struct problems *b, const struct request *r)
{
	const char *name = r->op;
	const struct cg_op *row = describe_find(name, NULL);
	char shown[PRINT_NAME];

	if (!row)
		return cg_fail_in(CG_BAD_ARGUMENT, "--op");
	CG_TRY(check_mode(r, row));
	CG_TRY(accepts(r, row));
	for (const char **word = r->attributes; *word; word++)
		if (!strchr(*word, '='))
			return cg_fail(CG_BAD_ARGUMENT, "%s: expected NAME=VALUE, an attribute of op %s", print_name(shown, *word),
			               name);
	return add_op(b, r, &b->named, name, r->mode, 0);
}

/* Is the op another version of an op of an earlier row, with other inputs and outputs? */
static int is_again(const struct cg_op *row)
{
	for (const struct cg_op *before = NULL; (before = cg_op_next(before)) != row;)
		if (row->plan && before->call == row->call)
			return 1;
	return 0;
}

/* Adds the problems of an op in each of its modes, or in the mode that the user named. */
static int add_modes(struct problems *b, const struct request *r, const struct cg_op *row, int typically)
{
	const char *only = r->mode;
	struct call c;
	int code;

	for (int k = 0; k < (mode_of(row) ? MODES : 1); k++) {
		if (only && strcmp(mode_of(row) ? modes[k] : named_mode(row), only))
			continue;
		code = add_op(b, r, &c, row->tensorflow, modes[k], typically);
		call_close(&c);
		CG_TRY(code);
	}
	return CG_OK;
}

/* Adds, under TensorFlow's names, the problems of all ops that have or are a gradient, that take the given sizes, and for which is_again()
 * returns 0. --what bwd selects the gradients, fwd and fwd+bwd the forward ops. */
static int add_all(struct problems *b, const struct request *r)
{
	char shown[PRINT_NAME];
	int typically = 1;

	if (r->attributes[0])
		return cg_fail(CG_BAD_ARGUMENT, "%s: an attribute belongs to one op: expected --op",
		               print_name(shown, r->attributes[0]));
	CG_TRY(check_mode(r, NULL));
	for (int k = 0; k < PROBLEM_SIZES; k++)
		typically &= !r->lengths[k];
	for (const struct cg_op *row = NULL; (row = cg_op_next(row));) {
		struct problem pair;

		if (is_again(row) || find_pair(row, &pair) || accepts(r, row))
			continue;
		if (r->what && (pair.what == BENCH_GRAD) != (r->what == BENCH_GRAD))
			continue;
		CG_TRY(add_modes(b, r, row, typically));
	}
	if (b->n)
		return CG_OK;
	return cg_fail(CG_BAD_ARGUMENT, "--mode, --what, --valid and the sizes: expected values that fit some op, got values that fit none");
}

int problems_add(struct problems *b, const struct request *r)
{
	return r->op ? add_named(b, r) : add_all(b, r);
}

void problems_free(struct problems *b)
{
	for (size_t k = 0; k < b->n; k++) {
		cg_memory(b->list[k].op, 0);
		cg_memory(b->list[k].lengths, 0);
	}
	cg_memory(b->list, 0);
	if (b->named.row)
		call_close(&b->named);
}
