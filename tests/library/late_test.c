/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Networks on a device whose work runs late: when the host waits for it, or by a thread of its own. The results have the bits of backend
 * cpu, although the cell, context, stream, plan or memory is closed or freed while work is enqueued; no memory of the host or the device is
 * freed while it is in use; a context's kernels are built once, one at a time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "runtime/cellgrad.h"
#include "tests/fake/late.h"
#include "tests/help/counted.h"
#include "tests/help/small_net.h"
#include "tests/help/net_trials.h"

static const char mine[] =
	"cell mine\ngates a_i a_n\nsplit q_n\nstate c\noutput h\noption scaled s\nparam k = 0.5\n"
	"i = sigmoid(a_i + s * c_prev)\nc = i * c_prev + (1 - i) * tanh(a_n + k * q_n)\nh = tanh(c)\nsave i c h\n";

static const struct network_case {
	const char *name, *cell, *options;       /* cell: a built-in cell's name; NULL: the cell in the text `mine` */
	int dtype, bidirectional, time_major, ragged, own_work;
	int64_t T, P;
	double dropout;
} network_cases[] = {
	{ "lstm",                             "lstm",      NULL,       CG_F32,  0, 1, 0, 0, 3,  0, 0   },
	{ "lstm, packed",                     "lstm",      "peephole", CG_F32,  1, 1, 0, 0, 40, 0, 0.5 },
	{ "lstm, ragged, projected",          "lstm",      NULL,       CG_BF16, 1, 1, 1, 1, 5,  2, 0.5 },
	{ "gru, batch-major",                 "gru",       NULL,       CG_F64,  0, 0, 0, 0, 4,  0, 0   },
	{ "gru_block, ragged",                "gru_block", NULL,       CG_F16,  1, 1, 1, 0, 5,  0, 0.5 },
	{ "a cell of one's own, batch-major", NULL,        "scaled",   CG_F32,  1, 0, 1, 1, 4,  0, 0.5 },
};
enum { NETWORK_CASES = sizeof network_cases / sizeof *network_cases, CALLS = 3, B = 4 };
static const enum late_when whens[] = { LATE_WAITED_FOR, LATE_BY_THREAD };

static void check_mistakes(const char *where)
{
	const char *mistake = late_mistake();

	if (mistake)
		fail_msg("%s: %s", where, mistake);
}

static struct cg_context *open_context(const char *backend)
{
	struct cg_context *context;

	if (cg_open(backend, &context))
		fail_msg("%s", cg_message());
	return context;
}

static struct cg_stream *open_stream(struct cg_context *context)
{
	struct cg_stream *stream;

	if (cg_stream_open(context, NULL, &stream))
		fail_msg("%s", cg_message());
	return stream;
}

/* Opens the network of a case. Returns NULL, or the cell parsed from `mine` in the case without a built-in cell; the caller closes it. */
static struct cg_cell *open_net(struct net *n, const struct network_case *network_case, struct cg_context *context, struct cg_stream *stream, int place,
                                const int32_t *lengths)
{
	struct cg_cell *own = NULL;

	net_begin(n, context, stream);
	if (!network_case->cell && cg_cell_parse(mine, "mine", &own))
		fail_msg("%s", cg_message());
	n->config.cell = network_case->cell ? cg_cell_find(network_case->cell) : own;
	n->config.options = network_case->options;
	n->config.dtype = network_case->dtype;
	n->config.bidirectional = network_case->bidirectional;
	n->config.time_major = network_case->time_major;
	n->config.proj = network_case->P;
	n->config.dropout = network_case->dropout;
	n->config.route = "composed";            /* backend late has every function that the route composed needs */
	n->call.T = network_case->T;
	n->call.B = B;
	n->call.lengths = network_case->ragged ? lengths : NULL;
	n->place = place;
	if (net_open(n))
		fail_msg("%s: %s", network_case->name, cg_message());
	if (own && (!n->call.input_c.bytes || !n->call.output_c_backprop.bytes))
		fail_msg("%s: the cell has a state, but the call got no memory of it", network_case->name);
	if (network_case->own_work)
		net_free(n, &n->call.work);
	return own;
}

/* Sets the lengths of the k-th call; pass() overwrites the lengths when the call has returned. */
static void set_lengths(int32_t *lengths, const struct network_case *network_case, int k)
{
	for (int b = 0; b < B; b++)
		lengths[b] = (int32_t)((b * 3 + k * 2 + 1) % (network_case->T + 1));
}

static void pass(struct net *n, const struct network_case *network_case, int k, int (*call)(struct net *), int32_t *lengths)
{
	set_lengths(lengths, network_case, k);
	if (call(n))
		fail_msg("%s: %s", network_case->name, cg_message());
	memset(lengths, 0x77, B * sizeof *lengths);
	/* A call on device memory may return with work enqueued; a call on host memory has waited for its copies. */
	if (n->place == CG_HOST && late_enqueued())
		fail_msg("%s: a call with the host's memory returned before it was done", network_case->name);
}

/* ---- results with the bits of backend cpu ---- */

/* Runs three networks of a case forward, then backward, in a ragged case with different lengths; the test itself does not wait between
 * these calls. */
static void in_a_row(const char *backend, const struct network_case *network_case, int place, uint64_t prints[CALLS])
{
	struct cg_context *context = open_context(backend);
	struct cg_stream *stream = open_stream(context);
	struct cg_cell *cells[CALLS];
	struct net nets[CALLS];
	int32_t lengths[B];

	for (int k = 0; k < CALLS; k++) {
		set_lengths(lengths, network_case, k);
		cells[k] = open_net(&nets[k], network_case, context, stream, place, lengths);
	}
	for (int k = 0; k < CALLS; k++)
		pass(&nets[k], network_case, k, net_forward, lengths);
	for (int k = CALLS - 1; k >= 0; k--)
		pass(&nets[k], network_case, k, net_backward, lengths);
	for (int k = 0; k < CALLS; k++)
		if (net_print(&nets[k], &prints[k]))
			fail_msg("%s", cg_message());
	for (int k = 0; k < CALLS; k++) {
		net_close(&nets[k]);
		cg_cell_close(cells[k]);
	}
	cg_stream_close(stream);
	cg_close(context);
}

static void test_bits(void **state)
{
	uint64_t right[CALLS], got[CALLS];

	(void)state;
	for (int w = 0; w < NETWORK_CASES; w++) {
		in_a_row("cpu", &network_cases[w], CG_DEVICE, right);
		for (int when = 0; when < 2; when++)
			for (int place = CG_HOST; place <= CG_DEVICE; place++) {
				late_runs(whens[when]);
				in_a_row("late", &network_cases[w], place, got);
				check_mistakes(network_cases[w].name);
				if (memcmp(right, got, sizeof right))
					fail_msg("%s, place %d: other bits than the cpu's", network_cases[w].name, place);
			}
	}
}

/* ---- closed with work enqueued ---- */

/* Closes or frees one thing. C: the cell; X: the context, which another stream keeps open; S: the stream; P: the plan; F: all
   memory. */
static void close_one(char which, struct net *n, struct cg_cell *cell, struct cg_stream *stream)
{
	switch (which) {
	case 'C':
		cg_cell_close(cell);
		break;
	case 'X':
		cg_close(n->context);
		break;
	case 'S':
		cg_stream_close(stream);
		break;
	case 'P':
		cg_rnn_close(n->rnn);
		n->rnn = NULL;
		break;
	case 'F':
		for (int k = 0; k < NET_PORTS; k++)
			net_free(n, net_mem(n, &net_ports[k]));
		net_free(n, &n->call.work);
		break;
	}
}

/* Enqueues a forward and a backward with all memory on the device, and closes objects in the given order before the host waits for the
   work; another stream then reads the answers, unless their memory is freed. */
static void close_behind(const char *backend, const struct network_case *network_case, const char *order, uint64_t *print)
{
	struct cg_context *context = open_context(backend);
	struct cg_stream *stream = open_stream(context), *reader = open_stream(context);
	int32_t lengths[B];
	struct cg_cell *cell;
	struct net n;

	set_lengths(lengths, network_case, 0);
	cell = open_net(&n, network_case, context, stream, CG_DEVICE, lengths);
	pass(&n, network_case, 0, net_forward, lengths);
	pass(&n, network_case, 0, net_backward, lengths);
	for (const char *which = order; *which; which++)
		close_one(*which, &n, cell, stream);
	n.stream = reader;
	*print = 0;
	if (!strchr(order, 'F') && net_print(&n, print))
		fail_msg("%s", cg_message());
	net_close(&n);
	cg_stream_close(reader);
}

static void test_closed_with_work(void **state)
{
	static const char *const orders[] = {
		"SPXC", "SCPX", "SXCP", "PSCX", "PXSC", "CPXS", "XSPC", "XPCS", "CXSP", "FSPXC", "PFSXC", "SFPCX", "CPFXS",
	};
	uint64_t right, got;

	(void)state;
	for (int w = 0; w < NETWORK_CASES; w++)
		for (size_t k = 0; k < sizeof orders / sizeof *orders; k++) {
			close_behind("cpu", &network_cases[w], orders[k], &right);
			for (int when = 0; when < 2; when++) {
				late_runs(whens[when]);
				close_behind("late", &network_cases[w], orders[k], &got);
				check_mistakes(orders[k]);
				if (got != right)
					fail_msg("%s, closed in order %s: other bits than the cpu's", network_cases[w].name, orders[k]);
			}
		}
}

/* ---- what is the same on any backend ---- */

static void test_trials(void **state)
{
	(void)state;
	for (int when = 0; when < 2; when++) {
		struct cg_context *context;

		late_runs(whens[when]);
		context = open_context("late");
		try_streams(context, NULL);
		try_memory_spaces(context, NULL);
		try_turns(context, NULL);
		try_closing(context, NULL);
		cg_close(context);
		check_mistakes("trials");
	}
}

/* ---- kernels ---- */

enum { THREADS = 8, CELLS = 4 };

struct builder { struct cg_context *context; pthread_barrier_t *start; int number, code; char message[256]; };

/* Opens and closes a plan of each of four cells; each pair of threads begins with another cell. */
static void *build_all(void *given)
{
	static const char *const cells[CELLS] = { "lstm", "gru", "rnn_tanh", "gru_block" };
	struct builder *b = given;

	if (b->start)
		pthread_barrier_wait(b->start);
	for (int k = 0; k < CELLS && !b->code; k++) {
		struct cg_rnn_config config;
		struct cg_rnn *rnn;

		cg_rnn_config_init(&config, sizeof config);
		config.cell = cg_cell_find(cells[(k + b->number / 2) % CELLS]);
		config.input = config.units = 3;
		b->code = cg_rnn_open(b->context, &config, &rnn);
		cg_rnn_close(rnn);
	}
	snprintf(b->message, sizeof b->message, "%.255s", b->code ? cg_message() : "");
	return NULL;
}

/* Several threads need the same kernels at once: each kernel is built once, and no two kernels are built at the same time. */
static void test_builds(void **state)
{
	struct builder alone = { .context = open_context("late") }, each[THREADS];
	pthread_barrier_t start;
	pthread_t threads[THREADS];
	long once;

	(void)state;
	late_builds();
	build_all(&alone);
	cg_close(alone.context);
	once = late_builds();
	assert_int_equal(alone.code, CG_OK);
	assert_int_equal(once, 2 * CELLS);
	late_builds_take(2000);
	alone.context = open_context("late");
	pthread_barrier_init(&start, NULL, THREADS);
	for (int k = 0; k < THREADS; k++) {
		each[k] = (struct builder){ .context = alone.context, .start = &start, .number = k };
		assert_int_equal(pthread_create(&threads[k], NULL, build_all, &each[k]), 0);
	}
	for (int k = 0; k < THREADS; k++)
		assert_int_equal(pthread_join(threads[k], NULL), 0);
	late_builds_take(0);
	pthread_barrier_destroy(&start);
	cg_close(alone.context);
	for (int k = 0; k < THREADS; k++)
		if (each[k].code)
			fail_msg("%s", each[k].message);
	check_mistakes("builds");
	assert_int_equal(late_builds(), once);
}

static int nothing_is_held(void **state)
{
	(void)state;
	check_mistakes("at the end");
	assert_int_equal(late_enqueued(), 0);
	assert_int_equal(late_held(), 0);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bits), cmocka_unit_test(test_closed_with_work), cmocka_unit_test(test_trials),
		cmocka_unit_test(test_builds), cmocka_unit_test_setup(test_nothing_left, nothing_is_held),
	};

	counted_begin();
	counted_watch(late_look);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("late", tests, NULL, NULL);
}
