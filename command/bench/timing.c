/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocates a problem's memory in a context, fills the memory, calls the op to warm up, and measures calls. The op's rows in the op table
 * say what is allocated, read and multiplied; roof.c measures the roofs with which the times are compared.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "runtime/device/inspect.h"
#include "command/bench/bench.h"
#include "command/output.h"

enum { GRADIENT = 1 };                   /* GRADIENT: the index of the gradient's row in `rows`, where row 0 is the forward op's */

/* The rows of the op table whose arguments must exist: for a gradient also those of the forward op, whose outputs it reads. */
static int rows_of(const struct problem *p, const struct cg_op *rows[2])
{
	rows[0] = p->forward;
	rows[GRADIENT] = p->grad;
	return p->what & BENCH_GRAD ? 2 : 1;
}

static struct cg_mem *mem(void *op, const struct cg_port *port)
{
	return (struct cg_mem *)((char *)op + port->at);
}

/* Does the op read or write this port, and does the port have the op's dtype? */
static int is_used(const struct problem *p, const struct cg_op *row, const struct cg_port *port)
{
	return port->type == CG_REAL_TYPE && (!row->reads || row->reads(row, port, p->op));
}

static int is_wanted(const struct problem *p, const struct cg_op *row, const struct cg_port *port)
{
	return port->flow != CG_IN && !(port->extra && p->theirs) && is_used(p, row, port);
}

/* Is the port an upstream gradient: an input of the gradient that the forward op does not have? An upstream gradient may be absent, but a
 * problem has all upstream gradients, since without them all gradients would be 0. */
static int is_upstream(const struct problem *p, const struct cg_op *row, const struct cg_port *port)
{
	if (row != p->grad || port->flow != CG_IN || !is_used(p, row, port))
		return 0;
	for (const struct cg_port *f = p->forward->ports; f->name; f++)
		if (f->at == port->at)
			return 0;
	return 1;
}

/* Is the port a matrix by which x or a state is multiplied? The shape of a matrix of weights does not contain B. A network has all its
 * matrices in params. */
static int is_weights(const struct cg_op *row, const struct cg_port *port)
{
	return row->weights ? !strcmp(port->shape, "params") : strchr(port->shape, ' ') && !strchr(port->shape, 'B');
}

/* ---- the check of sizes ---- */

int timing_check(const struct problem *p)
{
	const struct cg_op *rows[2];
	int n = rows_of(p, rows);
	double all = 0, most = machine_memory();
	char line[512];

	for (int r = 0; r < n; r++) {
		size_t bytes;

		for (const struct cg_port *port = rows[r]->ports; port->name; port++) {
			CG_TRY(cg_op_bytes(rows[r], port, p->op, &bytes));
			if (!r || is_wanted(p, rows[r], port) || is_upstream(p, rows[r], port))
				all += (double)bytes;
		}
		CG_TRY(rows[r]->work(p->op, &bytes));
		all += (double)bytes;
	}
	if (all > most)
		return cg_fail(CG_BAD_ARGUMENT, "%s: expected a problem of at most %.3g GB, the memory that is free and allowed, got one of "
		               "%.3g GB",
		               problem_line(p, line, sizeof line), most / 1e9, all / 1e9);
	return CG_OK;
}

/* ---- memory and its contents ---- */

struct timing {
	const struct problem *problem;
	struct cg_context *context;
	struct cg_stream *stream;
	void *op;                                /* a copy of the op's struct in `problem`, with memory */
	const struct cg_op *rows[2];
	int n_rows, first;                       /* the ops of the rows from `first` on are measured */
	struct cg_mem buffer;                    /* the device's driver copies the buffer's first half to the second; absent: no copies */
	long copies;                             /* copies in each sample */
};

static uint64_t random_bits(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/* Fills memory with numbers of either sign and with random low bits: of magnitude 2^exponent to twice that or, so that no number is
 * subnormal, the dtype's least normal number to twice that. */
static void draw(int dtype, int exponent, char *to, size_t bytes, uint64_t *state)
{
	const unsigned digits = (unsigned)cg_dtypes[dtype].digits - 1, bias = (unsigned)cg_dtypes[dtype].top - 1;
	const size_t size = cg_dtype_bytes(dtype);

	if (exponent < 1 - (int)bias)
		exponent = 1 - (int)bias;
	for (char *end = to + bytes; to < end; to += size) {
		uint64_t random = random_bits(state), bits = random & (((uint64_t)1 << digits) - 1);
		uint32_t half;
		uint16_t quarter;

		bits |= (uint64_t)((int)bias + exponent) << digits | random >> 63 << (8 * size - 1);
		half = (uint32_t)bits;
		quarter = (uint16_t)bits;
		memcpy(to, size == 8 ? (void *)&bits : size == 4 ? (void *)&half : (void *)&quarter, size);
	}
}

static int fill(struct timing *t, const struct cg_op *row, const struct cg_port *port, uint64_t *state)
{
	static char chunk[1 << 16];
	const double width = (double)problem_get_size(t->problem, "I") + (double)problem_get_size(t->problem, "U");
	/* The weights are drawn small, so that sums of products are about 1 and no gate saturates. */
	int exponent = is_weights(row, port) ? -1 - (int)ceil(log2(sqrt(width))) : -1;
	struct cg_mem to = *mem(t->op, port);
	size_t bytes, n;

	CG_TRY(cg_op_bytes(row, port, t->op, &bytes));
	for (size_t done = 0; done < bytes; done += n) {
		n = bytes - done < sizeof chunk ? bytes - done : sizeof chunk;
		draw(problem_dtype(t->problem), exponent, chunk, n, state);
		CG_TRY(cg_put(t->stream, to, chunk, n));
		to.offset += n;
		to.bytes -= n;
	}
	return CG_OK;
}

/* Allocates the memory of an argument. Empty arguments get memory, too: without memory the op would take them for absent. */
static int alloc_argument(struct timing *t, const struct cg_op *row, const struct cg_port *port)
{
	size_t bytes;

	if (mem(t->op, port)->data)
		return CG_OK;
	CG_TRY(cg_op_bytes(row, port, t->op, &bytes));
	return cg_alloc(t->context, bytes ? bytes : cg_dtype_bytes(problem_dtype(t->problem)), mem(t->op, port));
}

static int alloc_work(struct timing *t)
{
	size_t bytes, most = sizeof(double);

	for (int r = 0; r < t->n_rows; r++) {
		CG_TRY(t->rows[r]->work(t->op, &bytes));
		most = bytes > most ? bytes : most;
	}
	return cg_alloc(t->context, most, (struct cg_mem *)((char *)t->op + t->problem->row->work_at));
}

static int prepare(struct timing *t)
{
	const struct cg_op *ready = problem_ready(t->problem);
	uint64_t state = 1;

	if (ready->open)
		CG_TRY(ready->open(t->stream, ready, t->op));
	for (int r = 0; r < t->n_rows; r++) {
		const struct cg_op *row = t->rows[r];

		for (const struct cg_port *port = row->ports; port->name; port++)
			if (is_wanted(t->problem, row, port))
				CG_TRY(alloc_argument(t, row, port));
		for (const struct cg_port *port = row->ports; port->name; port++)
			if (!mem(t->op, port)->data && (cg_op_needs(row, port, t->op) || is_upstream(t->problem, row, port))) {
				CG_TRY(alloc_argument(t, row, port));
				CG_TRY(fill(t, row, port, &state));
			}
	}
	CG_TRY(alloc_work(t));
	/* The gradient reads what a forward pass saved; if only the gradient is measured, one forward pass runs first. */
	return t->first ? t->rows[0]->call(t->stream, t->op) : CG_OK;
}

static void free_memory(struct timing *t)
{
	const struct cg_op *ready = problem_ready(t->problem);

	if (ready->close)
		ready->close(t->op);
	for (int r = 0; r < t->n_rows; r++)
		for (const struct cg_port *port = t->rows[r]->ports; port->name; port++)
			if (port->type == CG_REAL_TYPE)
				cg_free(t->context, mem(t->op, port));
	cg_free(t->context, (struct cg_mem *)((char *)t->op + t->problem->row->work_at));
	cg_free(t->context, &t->buffer);
}

/* ---- counts of operations and bytes ---- */

static int count(const struct timing *t, struct result *result)
{
	double rows = problem_rows(t->problem), element = (double)cg_dtype_bytes(problem_dtype(t->problem));

	for (int r = t->first; r < t->n_rows; r++)
		for (const struct cg_port *port = t->rows[r]->ports; port->name; port++) {
			size_t bytes;

			if (!is_wanted(t->problem, t->rows[r], port) && !cg_op_needs(t->rows[r], port, t->op) &&
			    !is_upstream(t->problem, t->rows[r], port))
				continue;
			/* If no row of the batch has a valid step, the bytes of inputs do not count. */
			if (rows == 0 && port->flow == CG_IN)
				continue;
			CG_TRY(cg_op_bytes(t->rows[r], port, t->op, &bytes));
			result->bytes += (double)bytes;
			/* A call multiplies by each weight once for every valid row of every step; the gradient of a weight takes as many products. */
			if (is_weights(t->rows[r], port))
				result->flops += 2 * rows * (t->rows[r]->weights ? (double)t->rows[r]->weights(t->op) : (double)bytes / element);
		}
	return CG_OK;
}

/* ---- times ---- */

static int sample(const struct timing *t, long calls, double *ms)
{
	double start = cg_milliseconds();

	for (long k = 0; k < calls; k++)
		for (int r = t->first; r < t->n_rows; r++)
			CG_TRY(t->rows[r]->call(t->stream, t->op));
	CG_TRY(cg_stream_sync(t->stream));
	*ms = cg_milliseconds() - start;
	return CG_OK;
}

/* Where the device's driver copies memory: allocates a buffer for copies that move the problem's bytes and 1 to 128 more, in two halves on
 * separate cache lines, and finds a number of copies, 2^20 at most, that take `least` milliseconds or more. */
static int alloc_buffer(struct timing *t, double bytes, double least)
{
	enum { LINES = 2 * 64 };
	size_t n = (size_t)(bytes / LINES) + 1;
	double ms;

	if (!cg_inspect_copies(t->context))
		return CG_OK;
	CG_TRY(cg_alloc(t->context, n * LINES, &t->buffer));
	CG_TRY(roof_copy(t->stream, t->buffer, 1, &ms));
	for (t->copies = 1; t->copies < 1 << 20; t->copies *= 2) {
		CG_TRY(roof_copy(t->stream, t->buffer, t->copies, &ms));
		if (ms * (double)t->copies >= least)
			break;
	}
	return CG_OK;
}

/* Calls the op to warm up, until a sample is long enough for the clock and a tenth of `time` has passed. */
static int warm_up(struct timing *t, double time, double bytes, long *calls)
{
	double least = time * 1e-4 > 0.05 ? time * 1e-4 : 0.05, start = cg_milliseconds(), ms;

	CG_TRY(alloc_buffer(t, bytes, least));
	CG_TRY(sample(t, 1, &ms));
	for (*calls = 1; *calls < 1 << 20; *calls *= 2) {
		CG_TRY(sample(t, *calls, &ms));
		if (ms >= least)
			break;
	}
	while (cg_milliseconds() - start < 0.1 * time)
		CG_TRY(sample(t, *calls, &ms));
	return CG_OK;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double middle(double *values, long n)
{
	qsort(values, (size_t)n, sizeof *values, by_size);
	return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

static void summarise(const struct timing *t, double *samples, double *copies, struct result *r)
{
	r->median = middle(samples, r->reps);
	r->least = samples[0];
	for (long k = 0; k < r->reps; k++)
		samples[k] = fabs(samples[k] - r->median);
	r->spread = middle(samples, r->reps);
	r->gflops = r->flops / r->median / 1e6;
	r->gbytes = r->bytes / r->median / 1e6;
	r->copy = t->buffer.data ? (double)t->buffer.bytes / middle(copies, r->reps) / 1e6 : 0;
}

static int grow(double *samples[2], long buffer)
{
	for (int k = 0; k < 2; k++) {
		double *more = cg_memory(samples[k], (size_t)buffer * sizeof *more);

		if (!more)
			return CG_NO_MEMORY;
		samples[k] = more;
	}
	return CG_OK;
}

/* Takes samples until `time` is over, at least three, or `reps` samples if `reps` is not 0. */
static int collect(struct timing *t, double time, long reps, struct result *r)
{
	enum { LEAST = 3 };
	double *samples[2] = { NULL, NULL }, start, ms;  /* milliseconds in each sample: of a call, of a copy */
	long buffer = 0;
	int code = warm_up(t, time, r->bytes, &r->calls);

	start = cg_milliseconds();
	while (!code && (reps ? r->reps < reps : r->reps < LEAST || cg_milliseconds() - start < time)) {
		if (r->reps == buffer)
			code = grow(samples, buffer = 2 * buffer + 64);
		if (!code)
			code = sample(t, r->calls, &ms);
		if (!code)
			samples[0][r->reps] = ms / (double)r->calls;
		if (!code && t->buffer.data)
			code = roof_copy(t->stream, t->buffer, t->copies, &samples[1][r->reps]);
		r->reps += !code;
	}
	if (!code)
		summarise(t, samples[0], samples[1], r);
	cg_memory(samples[0], 0);
	cg_memory(samples[1], 0);
	return code;
}

int timing_measure(struct cg_context *context, const struct problem *p, double time, long reps, struct result *result)
{
	struct timing t = { .problem = p, .context = context, .first = p->what == BENCH_GRAD ? GRADIENT : 0 };
	int code;

	*result = (struct result){ .problem = p };
	t.n_rows = rows_of(p, t.rows);
	CG_TRY(cg_stream_open(context, NULL, &t.stream));
	t.op = cg_memory(NULL, p->row->size);
	code = t.op ? CG_OK : CG_NO_MEMORY;
	if (t.op)
		memcpy(t.op, p->op, p->row->size);
	if (!code)
		code = prepare(&t);
	if (!code)
		code = count(&t, result);
	if (!code)
		code = collect(&t, time * 1e3, reps, result);
	if (t.op)
		free_memory(&t);
	cg_memory(t.op, 0);
	cg_stream_close(t.stream);
	return code;
}
