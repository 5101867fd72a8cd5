/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Long networks whose steps route scan computes span by span, and networks of which route scan runs several pseudo-layers at once,
 * because one pseudo-layer would leave threads idle. In f64 the answers of route scan equal to 1e-11 those of route composed, which runs
 * one pseudo-layer at a time and all steps together. The networks are dense and ragged, of both directions, of more than one layer, with
 * accumulate, with gates in the reserve.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "backends/cpu/cpu.h"
#include "runtime/rnn/rnn.h"
#include "tests/help/asked_pool.h"
#include "tests/help/shared_stream.h"
#include "tests/help/small_net.h"

enum { T = 1300, B = 4, I = 5, U = 64, FEW_T = 150, FEW_U = 20 };

static int32_t lengths[B] = { T, 3, 0, T - 150 }, few_lengths[B] = { 140, 0, FEW_T, 17 };

/* ---- the backend's calls ---- */

static struct { int packed, continued, most; } seen;
static struct cg_backend watched;
static int (*scan)(struct cg_queue *, const struct cg_scan *, int n);

static int watch_scan(struct cg_queue *queue, const struct cg_scan *s, int n)
{
	static int64_t next;

	for (int k = 0; k < n; k++)
		*(s[k].is_packed ? &seen.continued : &seen.packed) += 1;
	if (n == 1 && seen.most < 2) {
		assert_int_equal(s->first, s->is_packed ? next : 0);
		next = s->first + s->phases;
	}
	seen.most = n > seen.most ? n : seen.most;
	return scan(queue, s, n);
}

static int open_threads(int threads)
{
	static struct asked asked;
	struct cg_pool pool;

	asked = (struct asked){ .threads = threads };
	pool = make_pool(run_in_order, &asked);
	if (cg_open("cpu", &context) || cg_pool_set(context, &pool) || cg_stream_open(context, NULL, &stream))
		return print_message("%s\n", cg_message()), 1;
	watched = *context->backend;
	scan = watched.scan;
	watched.scan = watch_scan;
	context->backend = &watched;
	return 0;
}

static int open_all(void **state)
{
	(void)state;
	return open_threads(4);
}

/* Expects that the numbers of an output differ from those of another network by at most 1e-11 times the largest magnitude of the other
 * network's. */
static void compare(const char *name, const double *got, const double *wanted, size_t n)
{
	double most = 0;

	for (size_t k = 0; k < n; k++)
		most = fmax(most, fabs(wanted[k]));
	for (size_t k = 0; k < n; k++)
		if (!(fabs(got[k] - wanted[k]) <= 1e-11 * most))
			fail_msg("%s[%zu]: expected %.17g, got %.17g", name, k, wanted[k], got[k]);
}

static void run(struct net *n, const struct net *like, const char *route)
{
	net_begin(n, context, stream);
	n->config = like->config;
	n->config.route = route;
	n->call = like->call;
	assert_int_equal(net_open(n), CG_OK);
	memset(n->call.params_backprop.data, 0, n->call.params_backprop.bytes);
	if (net_forward(n) || net_backward(n))
		fail_msg("%s", cg_message());
}

/* Runs a network by routes scan and composed, and compares all that both write but the reserve. */
static void compare_routes(const struct net *like, struct net *by_scan)
{
	struct net composed;

	run(by_scan, like, "scan");
	run(&composed, like, "composed");
	for (int k = 0; k < NET_PORTS; k++) {
		const struct net_port *p = &net_ports[k];
		const struct cg_mem *got = net_mem(by_scan, p), *wanted = net_mem(&composed, p);

		if ((p->forward == NET_OUT || p->backward == NET_OUT) && strcmp(p->name, "reserve_space"))
			compare(p->name, got->data, wanted->data, got->bytes / sizeof(double));
	}
	net_close(&composed);
}

static void set_sizes(struct net *like, int64_t steps, int64_t rows, int64_t units)
{
	like->config.dtype = CG_F64;
	like->config.input = like->config.input_mode == CG_SKIP ? units : I;
	like->config.units = units;
	like->call.T = steps;
	like->call.B = rows;
}

/* The number of steps in a span of a network's pass. */
static int64_t count_span_steps(const struct net *n, int pass)
{
	struct cg_rnn_shape shape;

	assert_int_equal(cg_rnn_measure(n->rnn, pass, &n->call, &shape), CG_OK);
	return cg_layers_span_steps(n->rnn, pass, &shape);
}

/* Runs a network of many steps by routes scan and composed, and expects that scan computes the network in several spans. */
static void try(struct net *like)
{
	struct net by_span;

	set_sizes(like, T, B, U);
	compare_routes(like, &by_span);
	assert_in_range(count_span_steps(&by_span, CG_FORWARD), 1, T - 151);
	assert_in_range(count_span_steps(&by_span, CG_GRAD), 1, T - 151);
	net_close(&by_span);
}

static void test_dense(void **state)
{
	struct net like;

	(void)state;
	net_begin(&like, context, stream);
	like.config.bidirectional = 1;
	try(&like);
}

static void test_ragged(void **state)
{
	struct net like;

	(void)state;
	net_begin(&like, context, stream);
	like.config.bidirectional = 1;
	like.config.dropout = 0.25;
	like.call.lengths = lengths;
	try(&like);
}

static void test_batch_major(void **state)
{
	struct net like;

	(void)state;
	net_begin(&like, context, stream);
	like.config.cell = cg_cell_find("gru");
	like.config.time_major = 0;
	try(&like);
}

static void test_stages_and_accumulate(void **state)
{
	struct net like;

	(void)state;
	net_begin(&like, context, stream);
	like.config.cell = cg_cell_find("gru_block");
	like.config.layers = 1;
	like.call.accumulate = 1;
	try(&like);
}

static void test_skip_input(void **state)
{
	struct net like;

	(void)state;
	net_begin(&like, context, stream);
	like.config.input_mode = CG_SKIP;
	like.config.layers = 1;
	try(&like);
}

static void test_kept_gates(void **state)
{
	static const char text[] = "cell kept\ngates a_r a_h\noutput h\nr = sigmoid(a_r)\nh = r * h_prev + (1 - r) * tanh(a_h)\nsave h\n";
	struct cg_cell *cell;
	struct net like;

	(void)state;
	assert_int_equal(cg_cell_parse(text, "kept", &cell), CG_OK);
	net_begin(&like, context, stream);
	like.config.cell = cell;
	like.config.layers = 1;
	try(&like);
	cg_cell_close(cell);
}

/* Matrices are packed once for each direction of each layer in each pass, whatever the number of spans. */
static void test_packed_once(void **state)
{
	struct net like, n;

	(void)state;
	net_begin(&like, context, stream);
	like.config.bidirectional = 1;
	set_sizes(&like, T, B, U);
	memset(&seen, 0, sizeof seen);
	run(&n, &like, "scan");
	assert_int_equal(seen.packed, 2 * n.config.layers * 2);
	assert_true(seen.continued >= seen.packed);
	assert_int_equal(seen.most, 1);
	net_close(&n);
}

/* ---- pseudo-layers at once ---- */

/* How many layers run at once: n, or with a BLAS, whose sums depend on the number of rows, only one. */
static int layers_at_once(int n)
{
	return context->device->blas->dgemm ? 1 : n;
}

/* Runs a network by routes scan and composed; each pseudo-layer of the network is so small that, run alone, it leaves threads idle.
   Expects that on route scan `at_once` pseudo-layers run at once, and never more. */
static void try_at_once(struct net *like, int64_t rows, int64_t units, int at_once)
{
	struct net n;

	set_sizes(like, FEW_T, rows, units);
	memset(&seen, 0, sizeof seen);
	compare_routes(like, &n);
	assert_int_equal(seen.most, at_once);
	assert_int_equal(seen.packed, 2 * n.config.layers * (1 + n.config.bidirectional));
	net_close(&n);
}

static void test_directions_at_once(void **state)
{
	struct net like;

	(void)state;
	net_begin(&like, context, stream);
	like.config.bidirectional = 1;
	try_at_once(&like, 1, FEW_U, 2);
	like.call.accumulate = 1;
	like.config.cell = cg_cell_find("gru_block");
	try_at_once(&like, 1, FEW_U, 2);
	like.config.time_major = 0;
	try_at_once(&like, 1, FEW_U, 2);
	like.config.time_major = 1;
	like.call.lengths = few_lengths;
	try_at_once(&like, 2, FEW_U, 2);
	like.config.dropout = 0.25;
	try_at_once(&like, 2, FEW_U, 2);
}

static void test_layers_at_once(void **state)
{
	struct net like;

	(void)state;
	net_begin(&like, context, stream);
	like.config.layers = 3;
	try_at_once(&like, 1, FEW_U, layers_at_once(3));
	like.config.layers = 7;
	like.config.cell = cg_cell_find("gru");
	try_at_once(&like, 1, FEW_U, layers_at_once(4));
	like.call.accumulate = 1;
	like.config.time_major = 0;
	try_at_once(&like, 2, FEW_U, layers_at_once(2));
	like.config.layers = 3;
	like.config.cell = cg_cell_find("lstm_block");
	like.config.options = "peephole";
	like.config.time_major = 1;
	like.call.lengths = few_lengths;
	try_at_once(&like, 2, FEW_U, layers_at_once(2));
	/* Dropout acts between one layer's output and the next layer's input, so that layers do not run at once. */
	like.config.dropout = 0.25;
	try_at_once(&like, 2, FEW_U, 1);
}

/* With 130 units a matrix in f64 is so large that threads share the units of each step.  On 16 threads three layers run at once (with a
   BLAS only one), and so do the two directions of one layer. */
static void test_units_at_once(void **state)
{
	struct net like;

	close_all(state);
	assert_int_equal(open_threads(16), 0);
	net_begin(&like, context, stream);
	like.config.layers = 3;
	try_at_once(&like, 1, 130, layers_at_once(3));
	like.config.layers = 1;
	like.config.bidirectional = 1;
	try_at_once(&like, 1, 130, 2);
}

/* A network has the same bits on 1, 2, 4 and 9 threads, on which different numbers of its pseudo-layers run at once. */
static void expect_bits(const struct net *like)
{
	static const int threads[] = { 1, 2, 4, 9 };
	uint64_t print, first = 0;

	for (size_t k = 0; k < sizeof threads / sizeof *threads; k++) {
		struct net n;

		assert_int_equal(open_threads(threads[k]), 0);
		run(&n, like, "scan");
		assert_int_equal(net_print(&n, &print), CG_OK);
		if (!k)
			first = print;
		if (print != first)
			fail_msg("%d threads, dtype %d: other bits than of 1", threads[k], like->config.dtype);
		net_close(&n);
		close_all(NULL);
	}
}

static void test_bits(void **state)
{
	struct net like;

	close_all(state);
	net_begin(&like, context, stream);
	for (int dtype = CG_F32; dtype <= CG_BF16; dtype++) {
		set_sizes(&like, FEW_T, 1, FEW_U);
		like.config.dtype = dtype;
		like.config.layers = 3;
		like.config.bidirectional = 0;
		expect_bits(&like);
		like.config.bidirectional = 1;
		expect_bits(&like);
	}
	assert_int_equal(open_threads(4), 0);
}

/* With a quarter less workspace, too little for two pseudo-layers at once, backward runs one at a time and gives the same bits. */
static void test_less_work(void **state)
{
	struct net like, n;
	uint64_t whole, less;

	(void)state;
	net_begin(&like, context, stream);
	like.config.bidirectional = 1;
	set_sizes(&like, FEW_T, 1, FEW_U);
	run(&n, &like, "scan");
	assert_int_equal(net_print(&n, &whole), CG_OK);
	n.call.work.bytes -= n.call.work.bytes / 4;
	assert_int_equal(net_forward(&n), CG_OK);
	memset(&seen, 0, sizeof seen);
	assert_int_equal(net_backward(&n), CG_OK);
	assert_int_equal(net_print(&n, &less), CG_OK);
	assert_int_equal(seen.most, 1);
	assert_true(less == whole);
	n.call.work.bytes = 64;
	assert_int_equal(net_forward(&n), CG_BAD_ARGUMENT);
	net_close(&n);
}

/* Expects that the workspace of a call of so many steps and rows is large enough for a call with fewer steps and rows. */
static void expect_served(const struct net *n, int64_t steps, int64_t rows, int64_t fewer_steps, int64_t fewer_rows)
{
	struct cg_rnn_sizes sizes;
	struct cg_rnn_call fewer = { .T = fewer_steps, .B = fewer_rows, .work.data = &sizes };

	assert_int_equal(cg_rnn_sizes(n->rnn, steps, rows, NULL, &sizes), CG_OK);
	fewer.work.bytes = sizes.work;
	for (int pass = CG_FORWARD; pass <= (n->config.training ? CG_GRAD : CG_FORWARD); pass++) {
		struct cg_rnn_shape shape;

		assert_int_equal(cg_rnn_measure(n->rnn, pass, &fewer, &shape), CG_OK);
		if (shape.bytes.forward > sizes.work || shape.bytes.backward > sizes.work)
			fail_msg("%lld layers, training %d: work of T=%lld, B=%lld is too small for T=%lld, B=%lld", (long long)n->config.layers,
			         n->config.training, (long long)steps, (long long)rows, (long long)fewer_steps, (long long)fewer_rows);
	}
}

static void test_work_of_fewer_steps(void **state)
{
	enum { NETS = 8, CALLS = 400 };
	unsigned random = 1;

	(void)state;
	for (int k = 0; k < NETS; k++) {
		struct net n;

		net_begin(&n, context, stream);
		n.config.cell = cg_cell_find("gru");
		n.config.layers = 1 + k / 2 % 2 * 2;
		n.config.training = k % 2;
		n.config.bidirectional = k / 4;
		set_sizes(&n, 1, 1, FEW_U);
		assert_int_equal(net_open(&n), CG_OK);
		/* From some number of steps on, layers run at once, span by span; a call with just this number of steps needs less memory
		   for gates than a call with one step fewer. */
		for (int rows = 1; rows <= 4; rows++)
			expect_served(&n, 128, rows, 127, rows);
		for (int call = 0; call < CALLS; call++) {
			int64_t size[4];

			for (int i = 0; i < 4; i++)
				size[i] = 1 + (random = random * 1103515245 + 12345) / 65536 % (i % 2 ? 12 : 900);
			expect_served(&n, size[0], size[1], size[2] < size[0] ? size[2] : size[0], size[3] < size[1] ? size[3] : size[1]);
		}
		net_close(&n);
	}
}

/* Without training, layers that run at once take turns in the memory for their hidden states; they have the answers of route composed. */
static void test_inference_at_once(void **state)
{
	struct net n;
	struct net composed;

	(void)state;
	memset(&seen, 0, sizeof seen);
	for (int k = 0; k < 2; k++) {
		struct net *at = k ? &composed : &n;

		net_begin(at, context, stream);
		at->config.layers = 7;
		at->config.training = 0;
		at->config.route = k ? "composed" : "scan";
		set_sizes(at, FEW_T, 1, FEW_U);
		assert_int_equal(net_open(at), CG_OK);
		assert_int_equal(net_forward(at), CG_OK);
	}
	assert_int_equal(seen.most, layers_at_once(4));
	for (int k = 0; k < NET_PORTS; k++)
		if (net_ports[k].forward == NET_OUT && cg_present(*net_mem(&n, &net_ports[k])) && strcmp(net_ports[k].name, "reserve_space"))
			compare(net_ports[k].name, net_mem(&n, &net_ports[k])->data, net_mem(&composed, &net_ports[k])->data,
			        net_mem(&n, &net_ports[k])->bytes / sizeof(double));
	net_close(&composed);
	net_close(&n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_dense),
		cmocka_unit_test(test_ragged),
		cmocka_unit_test(test_batch_major),
		cmocka_unit_test(test_stages_and_accumulate),
		cmocka_unit_test(test_skip_input),
		cmocka_unit_test(test_kept_gates),
		cmocka_unit_test(test_packed_once),
		cmocka_unit_test(test_directions_at_once),
		cmocka_unit_test(test_layers_at_once),
		cmocka_unit_test(test_inference_at_once),
		cmocka_unit_test(test_units_at_once),
		cmocka_unit_test(test_bits),
		cmocka_unit_test(test_less_work),
		cmocka_unit_test(test_work_of_fewer_steps),
	};

	return cmocka_run_group_tests_name("rnn_span", tests, open_all, close_all);
}
