/*
 * Networks of so many steps that the route scan takes them span by span: they have the answers of route composed, which takes all at
 * once; dense and ragged, both ways, in more than one layer, adding to what params_backprop holds, with gates in the reserve.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "runtime/rnn/rnn.h"
#include "tests/help/small_net.h"

enum { T = 1300, B = 4, I = 5, U = 64 };

static struct cg_context *context;
static struct cg_stream *stream;
static int32_t lengths[B] = { T, 3, 0, T - 150 };

static int open_all(void **state)
{
	(void)state;
	if (cg_open("cpu", &context) || cg_stream_open(context, NULL, &stream))
		return print_message("%s\n", cg_message()), 1;
	return 0;
}

static int close_all(void **state)
{
	(void)state;
	cg_stream_close(stream);
	cg_close(context);
	return 0;
}

/* Are the numbers of an output those of another network, but for the order of sums? */
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

/* Runs a network by both routes, in f64, where an error stands out of the rounding of long sums. */
static void try(struct net *like)
{
	struct net by_span, whole;

	like->config.dtype = CG_F64;
	like->config.input = like->config.input_mode == CG_SKIP ? U : I;
	like->config.units = U;
	like->call.T = T;
	like->call.B = B;
	run(&by_span, like, "scan");
	run(&whole, like, "composed");
	assert_in_range(cg_layers_span_steps(by_span.rnn, CG_FORWARD, B), 1, T - 151);
	assert_in_range(cg_layers_span_steps(by_span.rnn, CG_GRAD, B), 1, T - 151);
	for (int k = 0; k < NET_PORTS; k++) {
		const struct net_port *p = &net_ports[k];
		const struct cg_mem *got = net_mem(&by_span, p), *wanted = net_mem(&whole, p);

		if ((p->forward == NET_OUT || p->backward == NET_OUT) && strcmp(p->name, "reserve_space"))
			compare(p->name, got->data, wanted->data, got->bytes / sizeof(double));
	}
	net_close(&whole);
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

/* ---- the backend's calls ---- */

static int packed, continued;
static struct cg_backend watched;
static int (*scan)(struct cg_queue *, const struct cg_scan *, struct cg_mem);

static int watch_scan(struct cg_queue *queue, const struct cg_scan *s, struct cg_mem work)
{
	static int64_t next;

	*(s->is_packed ? &continued : &packed) += 1;
	assert_int_equal(s->first, s->is_packed ? next : 0);
	next = s->first + s->phases;
	return scan(queue, s, work);
}

/* Matrices are packed once for each direction of each layer in each pass, however many spans there are. */
static void test_packed_once(void **state)
{
	const struct cg_backend *own = context->backend;
	struct net like, n;

	(void)state;
	watched = *own;
	scan = own->scan;
	watched.scan = watch_scan;
	context->backend = &watched;
	net_begin(&like, context, stream);
	like.config.dtype = CG_F64;
	like.config.bidirectional = 1;
	like.config.units = U;
	like.call.T = T;
	like.call.B = B;
	run(&n, &like, "scan");
	assert_int_equal(packed, 2 * n.config.layers * 2);
	assert_true(continued >= packed);
	net_close(&n);
	context->backend = own;
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
	};

	return cmocka_run_group_tests_name("rnn_span", tests, open_all, close_all);
}
