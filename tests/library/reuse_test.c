/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams that are borrowed from a context's pool and returned, and plans that are found by their config: which are reused, what
 * keeps them open, that no memory leaks when a context is closed, and threads that take and give back streams and plans at once.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "runtime/core/core.h"
#include "tests/help/counted.h"

static struct cg_context *open_cpu(void)
{
	struct cg_context *context;

	assert_int_equal(cg_open("cpu:threads=2", &context), CG_OK);
	return context;
}

static struct cg_rnn_config config_of(int64_t units)
{
	struct cg_rnn_config c;

	cg_rnn_config_init(&c, sizeof c);
	c.input = 2;
	c.units = units;
	return c;
}

static struct cg_rnn *get(struct cg_context *context, const struct cg_rnn_config *c)
{
	struct cg_rnn *rnn;

	if (cg_rnn_get(context, c, &rnn))
		fail_msg("%s", cg_message());
	return rnn;
}

/* ---- streams ---- */

static void test_streams(void **state)
{
	struct cg_context *context = open_cpu();
	struct cg_stream *a, *b, *again, *many[70];

	(void)state;
	assert_int_equal(cg_stream_take(context, &a), CG_OK);
	assert_int_equal(cg_stream_take(context, &b), CG_OK);
	assert_ptr_not_equal(a, b);
	assert_int_equal(cg_stream_give(a), CG_OK);
	assert_int_equal(cg_stream_take(context, &again), CG_OK);
	assert_ptr_equal(again, a);
	assert_int_equal(cg_stream_give(again), CG_OK);
	assert_int_equal(cg_stream_give(b), CG_OK);
	/* Borrows and returns more streams than a context's pool keeps. */
	for (int k = 0; k < 70; k++)
		assert_int_equal(cg_stream_take(context, &many[k]), CG_OK);
	for (int k = 0; k < 70; k++)
		assert_int_equal(cg_stream_give(many[k]), CG_OK);
	/* A borrowed stream keeps its context open; the stream may be closed instead of returned. */
	assert_int_equal(cg_stream_take(context, &a), CG_OK);
	assert_int_equal(cg_stream_take(context, &b), CG_OK);
	cg_close(context);
	cg_stream_close(a);
	assert_int_equal(cg_stream_give(b), CG_OK);
}

static void run_nothing(void *user, int parts, void (*part)(void *arg, int k), void *arg)
{
	(void)user, (void)parts, (void)part, (void)arg;
}

static void test_refused(void **state)
{
	struct cg_context *context = open_cpu();
	struct cg_stream *stream = (void *)&stream;
	struct cg_rnn_config c = config_of(0);
	struct cg_rnn *rnn = (void *)&rnn;
	struct cg_pool pool;

	(void)state;
	assert_int_equal(cg_stream_take(NULL, &stream), CG_BAD_ARGUMENT);
	assert_null(stream);
	assert_int_equal(cg_stream_take(context, NULL), CG_BAD_ARGUMENT);
	assert_int_equal(cg_stream_give(NULL), CG_BAD_ARGUMENT);
	assert_int_equal(cg_stream_open(context, NULL, &stream), CG_OK);
	assert_int_equal(cg_stream_give(stream), CG_BAD_ARGUMENT);
	assert_non_null(strstr(cg_message(), "expected a stream of cg_stream_take"));
	cg_stream_close(stream);
	assert_int_equal(cg_rnn_get(context, &c, &rnn), CG_BAD_ARGUMENT);
	assert_null(rnn);
	assert_int_equal(cg_rnn_get(context, NULL, &rnn), CG_BAD_ARGUMENT);
	assert_int_equal(cg_rnn_get(NULL, &c, &rnn), CG_BAD_ARGUMENT);
	assert_int_equal(cg_rnn_get(context, &c, NULL), CG_BAD_ARGUMENT);
	cg_rnn_hold(NULL);
	/* A context that has a stream, also one that was returned, does not take a caller's thread pool. */
	assert_int_equal(cg_stream_take(context, &stream), CG_OK);
	assert_int_equal(cg_stream_give(stream), CG_OK);
	cg_pool_init(&pool, sizeof pool);
	pool.threads = 1;
	pool.run = run_nothing;
	assert_int_equal(cg_pool_set(context, &pool), CG_BAD_ARGUMENT);
	cg_close(context);
}

/* ---- plans ---- */

static void test_content(void **state)
{
	static const char text[] = "cell leaky\ngates a\noutput h\nparam rate = 0.5\nh = rate * h_prev + a\nsave h\n";
	struct cg_context *context = open_cpu();
	const struct cg_value value = { "rate", 0.5 };
	struct cg_rnn_config first = config_of(3), c = first;
	struct cg_rnn *rnn = get(context, &first), *other;
	struct cg_cell *cell, *same;

	(void)state;
	/* In this config the input mode CG_AUTO means CG_LINEAR, and options "" mean no option, as NULL does. */
	c.input_mode = CG_AUTO;
	c.options = "";
	other = get(context, &c);
	assert_ptr_equal(other, rnn);
	cg_rnn_close(other);
	for (int k = 0; k < 16; k++) {
		c = first;
		switch (k) {
		case 0:  c.cell = cg_cell_find("gru"); break;
		case 1:  c.options = "peephole"; break;
		case 2:  c.dtype = CG_F64; break;
		case 3:  c.layers = 2; break;
		case 4:  c.bidirectional = 1; break;
		case 5:  c.input = 3, c.input_mode = CG_SKIP; break;
		case 6:  c.time_major = 0; break;
		case 7:  c.input = 3; break;
		case 8:  c.units = 4; break;
		case 9:  c.proj = 2; break;
		case 10: c.dropout = 0.5; break;
		case 11: c.seed = (uint64_t)1 << 63; break;
		case 12: c.training = 0; break;
		case 13: c.allow_tf32 = 1; break;
		case 14: c.strict_rounding = 1; break;
		case 15: c.route = "composed"; break;
		}
		other = get(context, &c);
		if (other == rnn)
			fail_msg("another config gave the same plan: %d", k);
		cg_rnn_close(other);
	}
	/* Equal texts of a cell give the same plan, wherever they are in memory; a param given with its default value counts as not
	   given. */
	assert_int_equal(cg_cell_parse(text, "a", &cell), CG_OK);
	assert_int_equal(cg_cell_parse(text, "b", &same), CG_OK);
	c = first;
	c.cell = cell;
	other = get(context, &c);
	c.cell = same;
	c.values = &value;
	c.n_values = 1;
	cg_cell_close(cell);
	cell = NULL;
	cg_rnn_close(get(context, &c));
	cg_rnn_hold(other);
	cg_rnn_close(other);
	assert_ptr_equal(get(context, &c), other);
	cg_rnn_close(other);
	cg_rnn_close(other);
	cg_cell_close(same);
	cg_rnn_close(rnn);
	cg_close(context);
}

static void test_holders(void **state)
{
	struct cg_context *context = open_cpu();
	struct cg_rnn_config c = config_of(3);
	struct cg_rnn *rnn, *kept = get(context, &c), *opened;
	struct cg_rnn_sizes sizes;

	(void)state;
	/* cg_rnn_open opens a plan of its own, also if cg_rnn_get has opened one of the same config. */
	assert_int_equal(cg_rnn_open(context, &c, &opened), CG_OK);
	assert_ptr_not_equal(opened, kept);
	cg_rnn_hold(opened);
	cg_rnn_close(opened);
	assert_int_equal(cg_rnn_sizes(opened, 1, 1, NULL, &sizes), CG_OK);
	cg_rnn_close(opened);
	/* cg_rnn_get finds the plan that was closed last, and, though 80 other plans were closed, a plan that is open. */
	cg_rnn_close(kept);
	assert_ptr_equal(get(context, &c), kept);
	for (int k = 0; k < 80; k++) {
		c = config_of(4 + k);
		cg_rnn_close(get(context, &c));
	}
	c = config_of(3);
	rnn = get(context, &c);
	assert_ptr_equal(rnn, kept);
	cg_rnn_close(rnn);
	/* A plan keeps its context open. */
	cg_close(context);
	assert_int_equal(cg_rnn_sizes(kept, 1, 1, NULL, &sizes), CG_OK);
	cg_rnn_close(kept);
}

/* ---- threads, memory, a fork ---- */

static struct cg_context *shared;
static int wrong;

static void *work(void *seed)
{
	unsigned drawn = (unsigned)(uintptr_t)seed;

	for (int k = 0; k < 300; k++) {
		const struct cg_rnn_config c = config_of(1 + (drawn = drawn * 1664525u + 1013904223u) / 65536 % 40);
		struct cg_rnn_sizes sizes;
		struct cg_stream *stream;
		struct cg_rnn *rnn;
		size_t params;
		int bad = cg_stream_take(shared, &stream) || cg_rnn_get(shared, &c, &rnn) || cg_rnn_sizes(rnn, 3, 2, NULL, &sizes) ||
		          cg_rnn_params(&c, &params) || params != sizes.params;

		if (k % 3 == 0)
			cg_rnn_hold(rnn);
		cg_rnn_close(rnn);
		if (k % 3 == 0)
			cg_rnn_close(rnn);
		__atomic_add_fetch(&wrong, bad + cg_stream_give(stream), __ATOMIC_RELAXED);
	}
	return NULL;
}

static void test_threads(void **state)
{
	enum { THREADS = 6 };
	pthread_t threads[THREADS];

	(void)state;
	shared = open_cpu();
	for (uintptr_t k = 0; k < THREADS; k++)
		assert_int_equal(pthread_create(&threads[k], NULL, work, (void *)(k + 1)), 0);
	for (int k = 0; k < THREADS; k++)
		pthread_join(threads[k], NULL);
	cg_close(shared);
	assert_int_equal(wrong, 0);
}

static int reuse(struct cg_context *context)
{
	struct cg_rnn_config c = config_of(5);
	struct cg_stream *stream;
	struct cg_rnn *rnn;
	int code = cg_stream_take(context, &stream);

	if (code)
		return code;
	code = cg_rnn_get(context, &c, &rnn);
	if (!code)
		cg_rnn_close(rnn);
	cg_stream_give(stream);
	return code;
}

/* Each request for memory by which a stream and a plan are taken fails once, on a context of its own; then both can be taken there. */
static void test_no_memory(void **state)
{
	int code = CG_NO_MEMORY;

	(void)state;
	for (size_t n = 1; code; n++) {
		struct cg_context *context = open_cpu();

		cg_memory_fail(n);
		code = reuse(context);
		cg_memory_fail(0);
		assert_true(code == CG_OK || code == CG_NO_MEMORY);
		assert_int_equal(reuse(context), CG_OK);
		cg_close(context);
		assert_true(n < 1000);
	}
}

/* On the backends opencl and cuda, if they open: a stream and a plan can be taken, given back and taken again. */
static void test_devices(void **state)
{
	const char *const names[] = { "opencl", "cuda" };

	(void)state;
	for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
		struct cg_context *context;

		if (cg_open(names[k], &context))
			continue;
		assert_int_equal(reuse(context), CG_OK);
		assert_int_equal(reuse(context), CG_OK);
		cg_close(context);
	}
}

static int freed;

static void count_freed(const void *block, size_t bytes)
{
	(void)block;
	(void)bytes;
	freed++;
}

static void test_fork(void **state)
{
	struct cg_context *context = open_cpu();
	struct cg_rnn_config c = config_of(3);
	struct cg_rnn *rnn = get(context, &c), *opened;
	struct cg_stream *stream;
	int status;
	pid_t child;

	(void)state;
	assert_int_equal(cg_stream_take(context, &stream), CG_OK);
	assert_int_equal(cg_rnn_open(context, &c, &opened), CG_OK);
	child = fork();
	if (!child) {
		struct cg_stream *s;
		struct cg_rnn *r;
		int bad = cg_stream_take(context, &s) != CG_UNSUPPORTED || cg_stream_give(stream) != CG_UNSUPPORTED ||
		          cg_rnn_get(context, &c, &r) != CG_UNSUPPORTED;

		counted_watch(count_freed);
		cg_rnn_hold(rnn);
		cg_rnn_close(rnn);
		cg_rnn_close(opened);
		cg_close(context);
		counted_watch(NULL);
		bad |= freed;
		_exit(bad || cg_open("cpu:threads=1", &context) || reuse(context));
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && !WEXITSTATUS(status));
	cg_rnn_close(opened);
	cg_rnn_close(rnn);
	assert_int_equal(cg_stream_give(stream), CG_OK);
	cg_close(context);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_streams), cmocka_unit_test(test_refused), cmocka_unit_test(test_content), cmocka_unit_test(test_holders),
		cmocka_unit_test(test_threads), cmocka_unit_test(test_no_memory), cmocka_unit_test(test_devices), cmocka_unit_test(test_fork),
		cmocka_unit_test(test_nothing_left),
	};

	counted_begin();
	return cmocka_run_group_tests_name("reuse", tests, NULL, NULL);
}
