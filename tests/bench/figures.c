/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Measures times for figures.py: those of networks, kernels and tiny calls, and of loops that only read, or copy, to compare them with.
 *	figures network CELL DTYPE T B H VALID SCALE INPUT PASS    milliseconds of the fastest call.  VALID: the share of steps that are
 *	                                                           valid, in rows of falling lengths; SCALE: weights are of up to SCALE / 10;
 *	                                                           INPUT: linear or skip; PASS: both or inference
 *	figures point CELL PASS ROWS UNITS                         milliseconds of the kernel over elements, and of a copy loop that reads and
 *	                                                           writes as many arrays as the kernel
 *	figures read BYTES THREADS                                 milliseconds in which threads read so many bytes, each its own share again
 *	                                                           and again
 *	figures tiny CALLS                                         nanoseconds of the fastest of so many calls: LSTMBlockCell in f32 of one
 *	                                                           row, 16 inputs and 16 units, its workspace given
 * The memory of the measured calls is not freed.  CELLGRAD_CPU_THREADS is the number of threads of networks, kernels and copy loops.
 */
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cellgrad.h>

#include "peer.h"

enum { THREADS_MAX = 64, ARRAYS_MAX = 32, LINE = 64 };

static struct cg_context *context;
static struct cg_stream *stream;

static void check(int code)
{
	if (code)
		fail("%s", cg_message());
}

static void open_device(void)
{
	check(cg_open("cpu", &context));
	check(cg_stream_open(context, NULL, &stream));
}

/* Makes n elements of the dtype, of both signs, whose magnitude is at most `scale`. */
static struct cg_mem make_mem(const char *dtype, size_t n, float scale)
{
	struct cg_mem mem = { NULL, 0, n * get_dtype_bytes(dtype), CG_HOST };
	float *numbers = allocate((n ? n : 1) * sizeof *numbers);

	for (size_t k = 0; k < n; k++)
		numbers[k] = scale * (float)((int)(k * 37 % 61) - 30) / 30;
	mem.data = convert_new(dtype, numbers, n);
	free(numbers);
	return mem;
}

static size_t read_number(const char *text)
{
	char *end;
	unsigned long long n = strtoull(text, &end, 10);

	if (end == text || *end || n > (size_t)1 << 40)
		fail("expected a number, got '%s'", text);
	return (size_t)n;
}

static double get_seconds(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Returns the milliseconds of the fastest call in runs of 20 ms, of which there are at least three, and more until half a second is
 * over. */
static double time_least(void (*run)(void *), void *state)
{
	double end = get_seconds() + 0.5, least = INFINITY;

	for (int k = 0; k < 3 || get_seconds() < end; k++)
		least = fmin(least, time_calls(run, state));
	return least;
}

/* ---- networks ---- */

struct network { struct cg_rnn *rnn; struct cg_rnn_call call; int is_training; };

static void run_network(void *given)
{
	struct network *n = given;

	check(cg_rnn_forward(stream, n->rnn, &n->call));
	if (n->is_training)
		check(cg_rnn_backward(stream, n->rnn, &n->call));
}

/* Makes the lengths of B rows, falling from about T, so that about the share `valid`, which is at least 0.5, of all steps is valid. */
static int32_t *make_lengths(size_t T, size_t B, double valid)
{
	int32_t *lengths = allocate(B * sizeof *lengths);

	for (size_t b = 0; b < B; b++)
		lengths[b] = (int32_t)lrint((double)T * fmin(1, fmax(0, valid + (1 - valid) * (1 - 2 * ((double)b + 0.5) / (double)B))));
	return lengths;
}

static void give_network(struct network *n, const char *dtype, size_t rows, size_t state, size_t H, float scale, int has_c)
{
	struct cg_rnn_call *c = &n->call;
	struct cg_rnn_sizes sizes;

	check(cg_rnn_sizes(n->rnn, c->T, c->B, c->lengths, &sizes));
	check(cg_alloc(context, sizes.work, &c->work));
	c->params = make_mem(dtype, sizes.params / get_dtype_bytes(dtype), scale);
	c->input = make_mem(dtype, rows * H, 1);
	c->output = make_mem(dtype, rows * H, 0);
	c->input_h = make_mem(dtype, state, 1);
	c->output_h = make_mem(dtype, state, 0);
	if (has_c) {
		c->input_c = make_mem(dtype, state, 1);
		c->output_c = make_mem(dtype, state, 0);
	}
	if (!n->is_training)
		return;
	check(cg_alloc(context, sizes.reserve, &c->reserve));
	c->params_backprop = make_mem(dtype, sizes.params / get_dtype_bytes(dtype), 0);
	c->input_backprop = make_mem(dtype, rows * H, 0);
	c->input_h_backprop = make_mem(dtype, state, 0);
	c->output_backprop = make_mem(dtype, rows * H, 1);
	c->output_h_backprop = make_mem(dtype, state, 1);
	if (has_c) {
		c->input_c_backprop = make_mem(dtype, state, 0);
		c->output_c_backprop = make_mem(dtype, state, 1);
	}
}

static int find_dtype(const char *name)
{
	static const char *const names[] = { [CG_F32] = "f32", [CG_F64] = "f64", [CG_F16] = "f16", [CG_BF16] = "bf16" };

	for (size_t k = 0; k < sizeof names / sizeof *names; k++)
		if (!strcmp(names[k], name))
			return (int)k;
	fail("expected a dtype, got '%s'", name);
}

static double time_network(char **words)
{
	const char *cell = words[0], *dtype = words[1];
	size_t T = read_number(words[2]), B = read_number(words[3]), H = read_number(words[4]);
	double valid = atof(words[5]);
	static struct network n;
	struct cg_rnn_config config;

	n.is_training = !strcmp(words[8], "both");
	cg_rnn_config_init(&config, sizeof config);
	config.cell = cg_cell_find(cell);
	config.dtype = find_dtype(dtype);
	config.input = config.units = (int64_t)H;
	config.input_mode = !strcmp(words[7], "skip") ? CG_SKIP : CG_LINEAR;
	config.training = n.is_training;
	check(cg_rnn_open(context, &config, &n.rnn));
	cg_rnn_call_init(&n.call, sizeof n.call);
	n.call.T = (int64_t)T;
	n.call.B = (int64_t)B;
	n.call.lengths = valid < 1 ? make_lengths(T, B, valid) : NULL;
	n.call.spend_reserve = 1;
	give_network(&n, dtype, T * B, B * H, H, 0.1f * (float)atof(words[6]), !strcmp(cell, "lstm"));
	return time_least(run_network, &n);
}

/* ---- a tiny call ---- */

static double time_tiny(size_t calls)
{
	enum { I = 16, U = 16 };
	static struct cg_lstm_block op;
	struct cg_mem *const states[] = { &op.cs_prev, &op.h_prev, &op.i, &op.cs, &op.f, &op.o, &op.ci, &op.co, &op.h };
	double least = INFINITY;
	size_t bytes;

	cg_lstm_block_init(&op, sizeof op);
	op.B = 1, op.I = I, op.U = U;
	check(cg_lstm_block_work(&op, CG_FORWARD, &bytes));
	op.work = make_mem("f32", bytes / sizeof(float) + 1, 0);
	op.x = make_mem("f32", I, 1);
	op.w = make_mem("f32", (I + U) * 4 * U, 0.1f);
	op.b = make_mem("f32", 4 * U, 1);
	for (size_t k = 0; k < sizeof states / sizeof *states; k++)
		*states[k] = make_mem("f32", U, k < 2);
	for (size_t k = 0; k < calls; k++) {
		double began = get_seconds();

		check(cg_lstm_block_forward(stream, &op));
		least = fmin(least, get_seconds() - began);
	}
	return least * 1e9;
}

/* ---- kernels over elements ---- */

struct point { struct cg_kernel kernel; int64_t rows, units; struct cg_arg args[ARRAYS_MAX]; int n; };

static void run_point(void *given)
{
	struct point *p = given;

	check(cg_kernel_run(stream, &p->kernel, p->rows, p->units, p->args, p->n));
}

/* The arrays of rows by units that a kernel reads and writes, by its cell and pass. */
static const struct arrays { const char *cell; int pass; const char *in[ARRAYS_MAX], *out[ARRAYS_MAX]; } arrays[] = {
	{ "lstm_block", CG_FORWARD, { "a_i", "a_ci", "a_f", "a_o", "cs_prev" }, { "i", "ci", "f", "o", "cs", "co", "h" } },
	{ "lstm_block", CG_GRAD, { "cs_prev", "dcs", "dh", "i", "ci", "f", "o", "co" }, { "da_i", "da_ci", "da_f", "da_o", "dcs_prev" } },
	{ "lstm", CG_FORWARD, { "a_i", "a_f", "a_g", "a_o", "c_prev" }, { "i", "f", "g", "o", "c", "h" } },
};

static int count_names(const char *const *names)
{
	int n = 0;

	while (n < ARRAYS_MAX && names[n])
		n++;
	return n;
}

/* ---- loops to compare with, each thread on its share ---- */

typedef float vector __attribute__((vector_size(LINE)));

struct loop { vector *in[ARRAYS_MAX], *out[ARRAYS_MAX]; int n_in, n_out; size_t from, end, times; vector sum; pthread_t thread; };

/* Reads every array of `in` and writes every one of `out`. */
static void *copy_arrays(void *given)
{
	struct loop *l = given;

	for (size_t k = l->from; k < l->end; k++) {
		vector rest = l->in[0][k];

		for (int i = l->n_out; i < l->n_in; i++)
			rest += l->in[i][k];
		for (int j = 0; j < l->n_out; j++)
			l->out[j][k] = j ? l->in[j % l->n_in][k] : rest;
	}
	return NULL;
}

static void *read_array(void *given)
{
	struct loop *l = given;
	vector sum[8] = { { 0 } };

	for (size_t time = 0; time < l->times; time++)
		for (size_t k = l->from; k + 8 <= l->end; k += 8)
			for (int j = 0; j < 8; j++)
				sum[j] += l->in[0][k + (size_t)j];
	for (int j = 0; j < 8; j++)
		l->sum += sum[j];
	return NULL;
}

struct loops { void *(*run)(void *); struct loop each[THREADS_MAX]; int threads; };

static void run_loops(void *given)
{
	struct loops *l = given;

	for (int t = 1; t < l->threads; t++)
		if (pthread_create(&l->each[t].thread, NULL, l->run, &l->each[t]))
			fail("no thread");
	l->run(&l->each[0]);
	for (int t = 1; t < l->threads; t++)
		pthread_join(l->each[t].thread, NULL);
}

/* Gives each thread its share of n vectors. */
static void share(struct loops *l, size_t n)
{
	for (int t = l->threads; t-- > 0;) {
		l->each[t] = l->each[0];
		l->each[t].from = n * (size_t)t / (size_t)l->threads;
		l->each[t].end = n * ((size_t)t + 1) / (size_t)l->threads;
	}
}

static int get_threads(const char *text)
{
	size_t threads = text ? read_number(text) : 1;

	return (int)(threads < 1 ? 1 : threads > THREADS_MAX ? THREADS_MAX : threads);
}

static double time_copies(const struct arrays *a, size_t bytes)
{
	static struct loops l = { .run = copy_arrays };

	l.threads = get_threads(getenv("CELLGRAD_CPU_THREADS"));
	l.each[0].n_in = count_names(a->in);
	l.each[0].n_out = count_names(a->out);
	for (int k = 0; k < l.each[0].n_in; k++)
		l.each[0].in[k] = allocate(bytes);
	for (int k = 0; k < l.each[0].n_out; k++)
		l.each[0].out[k] = allocate(bytes);
	share(&l, bytes / LINE);
	return time_least(run_loops, &l);
}

static void print_point(char **words)
{
	static struct point p = { .kernel = { .dtype = CG_F32, .shape = CG_POINT } };
	const struct arrays *a = arrays, *end = arrays + sizeof arrays / sizeof *arrays;
	int pass = !strcmp(words[1], "grad") ? CG_GRAD : CG_FORWARD;
	size_t n;
	double ms;

	while (a < end && (strcmp(a->cell, words[0]) || a->pass != pass))
		a++;
	if (a == end)
		fail("expected lstm_block, or lstm forward, got %s %s", words[0], words[1]);
	p.kernel.cell = cg_cell_find(a->cell);
	p.kernel.pass = pass;
	p.rows = (int64_t)read_number(words[2]);
	p.units = (int64_t)read_number(words[3]);
	n = (size_t)(p.rows * p.units);
	for (int k = 0; k < count_names(a->in) + count_names(a->out); k++) {
		const char *name = k < count_names(a->in) ? a->in[k] : a->out[k - count_names(a->in)];

		p.args[p.n++] = (struct cg_arg){ .name = name, .mem = make_mem("f32", n, 1), .stride = p.units };
	}
	ms = time_least(run_point, &p);
	printf("%.6f %.6f\n", ms, time_copies(a, n * sizeof(float)));
}

static void print_reading(char **words)
{
	enum { BYTES = 1 << 28 };                        /* a timed run reads the array repeatedly, at least BYTES bytes in all */
	static struct loops l = { .run = read_array };
	size_t bytes = read_number(words[0]);

	l.threads = get_threads(words[1]);
	l.each[0].n_in = 1;
	l.each[0].in[0] = allocate(bytes);
	l.each[0].times = BYTES / bytes + 1;
	share(&l, bytes / LINE);
	printf("%.9f\n", time_least(run_loops, &l) / (double)l.each[0].times);
}

int main(int argc, char **argv)
{
	if (argc == 11 && !strcmp(argv[1], "network")) {
		open_device();
		printf("%.6f\n", time_network(argv + 2));
	} else if (argc == 6 && !strcmp(argv[1], "point")) {
		open_device();
		print_point(argv + 2);
	} else if (argc == 3 && !strcmp(argv[1], "tiny")) {
		open_device();
		printf("%.0f\n", time_tiny(read_number(argv[2])));
	} else if (argc == 4 && !strcmp(argv[1], "read")) {
		print_reading(argv + 2);
	} else {
		fail("expected network, point, tiny or read with their words, got %d", argc - 1);
	}
	return 0;
}
