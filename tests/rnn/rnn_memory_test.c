/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens and runs each of five networks on the cpu, and refuses each of its requests for host memory in turn: the code is CG_NO_MEMORY, and
 * nothing leaks; a pass that failed so is repeated on the same objects and gives the right bits. Calls that repeat a successful forward
 * and backward make no request.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "runtime/core/core.h"
#include "tests/help/counted.h"
#include "tests/help/small_net.h"

static const char mine[] =
	"cell mine\ngates a_i a_n\nsplit q_n\nstate c\noutput h\noption scaled s\nparam k = 0.5\n"
	"i = sigmoid(a_i + s * c_prev)\nc = i * c_prev + (1 - i) * tanh(a_n + k * q_n)\nh = tanh(c)\nsave i c h\n";

static const int32_t lengths[] = { 1, 3, 0, 2 };

/* One of the kinds of network that allocate memory in different places. */
struct way { const char *name, *cell; int own, ragged, time_major, dtype, bidirectional, proj, given_work; double dropout; };
static const struct way ways[] = {
	{ "lstm",                          "lstm",      0, 0, 1, CG_F32,  0, 0, 1, 0   },
	{ "lstm, the stream's work",       "lstm",      0, 0, 1, CG_BF16, 1, 2, 0, 0.5 },
	{ "gru_block, ragged",             "gru_block", 0, 1, 1, CG_F16,  1, 0, 1, 0.5 },
	{ "gru, batch-major",              "gru",       0, 0, 0, CG_F64,  0, 0, 1, 0   },
	{ "a user's cell, ragged, batch-major", NULL,   1, 1, 0, CG_F32,  1, 0, 0, 0.5 },
};
enum { WAYS = sizeof ways / sizeof *ways };

static int make(struct net *n, const struct way *way, struct cg_context *context, struct cg_stream *stream, struct cg_cell **own)
{
	net_begin(n, context, stream);
	*own = NULL;
	if (way->own)
		CG_TRY(cg_cell_parse(mine, "mine", own));
	n->config.cell = way->own ? *own : cg_cell_find(way->cell);
	if (!n->config.cell)
		return CG_NO_MEMORY;
	n->config.options = way->own ? "scaled" : NULL;
	n->config.dtype = way->dtype;
	n->config.bidirectional = way->bidirectional;
	n->config.proj = way->proj;
	n->config.time_major = way->time_major;
	n->config.dropout = way->dropout;
	n->call.B = 4;
	n->call.lengths = way->ragged ? lengths : NULL;
	CG_TRY(net_open(n));
	if (!way->given_work)
		net_free(n, &n->call.work);
	return CG_OK;
}

/* Runs a whole program, from the opening of a context on; returns the code of the first failure. */
static int whole(const struct way *way)
{
	struct cg_context *context = NULL;
	struct cg_stream *stream = NULL;
	struct cg_cell *own = NULL;
	struct net n = { .place = CG_HOST };
	int code = cg_open("cpu", &context);

	if (!code)
		code = cg_stream_open(context, NULL, &stream);
	if (!code)
		code = make(&n, way, context, stream, &own);
	if (!code)
		code = net_forward(&n);
	if (!code)
		code = net_backward(&n);
	net_close(&n);
	cg_cell_close(own);
	cg_stream_close(stream);
	cg_close(context);
	return code;
}

static void test_every_request(void **state)
{
	(void)state;
	for (int k = 0; k < WAYS; k++) {
		const struct way *way = &ways[k];
		size_t n;

		for (n = 1;; n++) {
			int code;

			cg_memory_fail(n);
			code = whole(way);
			if (cg_memory_fail(0) < n) {
				if (code)
					fail_msg("%s: code %d, \"%s\"", way->name, code, cg_message());
				break;
			}
			if (code != CG_NO_MEMORY || !strstr(cg_message(), "no memory"))
				fail_msg("%s: request %zu refused: code %d, \"%s\"", way->name, n, code, cg_message());
		}
		assert_int_equal(whole(way), CG_OK);
		print_message("# %s: %zu requests refused in turn\n", way->name, n - 1);
		assert_true(n > 10);
	}
}

/* Runs a pass whose request for memory with this number is refused; if the pass makes such a request, it must fail, and succeed when it is
   repeated on the same objects. */
static void mend(struct net *n, int (*pass)(struct net *), size_t request, size_t *refused)
{
	int code;

	cg_memory_fail(request);
	code = pass(n);
	if (cg_memory_fail(0) < request) {
		assert_int_equal(code, CG_OK);
		return;
	}
	assert_int_equal(code, CG_NO_MEMORY);
	++*refused;
	assert_int_equal(pass(n), CG_OK);
}

static void test_the_next_call(void **state)
{
	struct cg_context *context;
	struct cg_cell *own;
	struct net n;

	(void)state;
	assert_int_equal(cg_open("cpu", &context), CG_OK);
	for (int k = 0; k < WAYS; k++) {
		uint64_t right = 0, got;
		size_t refused = 1, all = 0;

		for (size_t request = 0; refused; request++) {
			struct cg_stream *stream;

			refused = !request;
			assert_int_equal(cg_stream_open(context, NULL, &stream), CG_OK);
			assert_int_equal(make(&n, &ways[k], context, stream, &own), CG_OK);
			if (request) {
				mend(&n, net_forward, request, &refused);
				mend(&n, net_backward, request, &refused);
			} else {
				assert_int_equal(net_forward(&n), CG_OK);
				assert_int_equal(net_backward(&n), CG_OK);
			}
			assert_int_equal(net_print(&n, &got), CG_OK);
			right = request ? right : got;
			assert_int_equal(got, right);
			all += request ? refused : 0;
			net_close(&n);
			cg_cell_close(own);
			cg_stream_close(stream);
		}
		print_message("# %s: %zu requests of calls refused\n", ways[k].name, all);
		assert_true(all > 0 || (!ways[k].ragged && ways[k].time_major && ways[k].given_work));
	}
	cg_close(context);
}

static void test_steady(void **state)
{
	struct cg_context *context;
	struct cg_stream *stream;
	struct cg_cell *own;
	struct net n;

	(void)state;
	assert_int_equal(cg_open("cpu", &context), CG_OK);
	assert_int_equal(cg_stream_open(context, NULL, &stream), CG_OK);
	for (int k = 0; k < WAYS; k++) {
		assert_int_equal(make(&n, &ways[k], context, stream, &own), CG_OK);
		assert_int_equal(net_forward(&n), CG_OK);
		assert_int_equal(net_backward(&n), CG_OK);
		cg_memory_fail(0);
		for (int again = 0; again < 3; again++) {
			assert_int_equal(net_forward(&n), CG_OK);
			assert_int_equal(net_backward(&n), CG_OK);
		}
		if (cg_memory_fail(0))
			fail_msg("%s: asked for memory again", ways[k].name);
		net_close(&n);
		cg_cell_close(own);
	}
	cg_stream_close(stream);
	cg_close(context);
}

/* Makes all built-in cells before the tests: a cell is made once per process, and cg_rnn_config_init cannot report a lack of memory for
 * one. */
static int find_cells(void **state)
{
	(void)state;
	for (int k = 0; cg_cell_name(k); k++)
		if (!cg_cell_find(cg_cell_name(k)))
			return -1;
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_request), cmocka_unit_test(test_the_next_call), cmocka_unit_test(test_steady),
		cmocka_unit_test(test_nothing_left),
	};

	counted_begin();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("rnn_memory", tests, find_cells, NULL);
}
