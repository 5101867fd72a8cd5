/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests what one more step of a recurrence costs on the cpu, beside its arithmetic. Where threads divide the units among them, each step
 * costs a barrier for each phase: one phase for lstm and gru, two for gru_block, more with means over units. Where threads divide the batch
 * rows, a step costs no barrier. The second forward and the second backward of a network allocate no memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "backends/cpu/cpu.h"
#include "runtime/device/device.h"
#include "tests/help/asked_pool.h"
#include "tests/help/small_net.h"

enum { T = 90, MORE = 7 };

/* ---- what a call costs ---- */

struct cost { int meetings, allocations; };
static int allocations;

static void *resize(void *user, void *p, size_t bytes)
{
	(void)user;
	allocations++;
	if (bytes)
		return realloc(p, bytes);
	free(p);
	return NULL;
}

/* Counts the barriers (calls of the pool) and allocations of forward and backward of a network of `steps` steps, at the second call of
   forward and the second of backward. */
static void measure(const char *cell, int64_t units, int64_t steps, struct cost costs[2])
{
	struct asked asked = { .threads = 3 };           /* the threads of a pool meet at the end of each call */
	struct cg_pool pool = make_pool(run_in_order, &asked);
	struct cg_context *context;
	struct cg_stream *stream;
	struct net n;

	assert_int_equal(cg_open("cpu", &context), CG_OK);
	assert_int_equal(cg_pool_set(context, &pool), CG_OK);
	assert_int_equal(cg_stream_open(context, NULL, &stream), CG_OK);
	net_begin(&n, context, stream);
	n.config.cell = cg_cell_find(cell);
	n.config.layers = 1;
	n.config.units = units;
	n.call.T = steps;
	n.call.B = 9;
	assert_int_equal(net_open(&n), CG_OK);
	for (int again = 0; again < 2; again++)
		for (int pass = 0; pass < 2; pass++) {
			allocations = asked.calls = 0;
			assert_int_equal(pass ? net_backward(&n) : net_forward(&n), CG_OK);
			costs[pass] = (struct cost){ asked.calls, allocations };
		}
	net_close(&n);
	cg_stream_close(stream);
	cg_close(context);
}

/* Expects that MORE further steps cost MORE * of_a_step barriers, in forward and in backward, and that the second call of
   each allocates no memory. */
static void expect_meetings(const char *cell, int64_t units, int of_a_step)
{
	struct cost few[2], many[2];

	measure(cell, units, T, few);
	measure(cell, units, T + MORE, many);
	for (int pass = 0; pass < 2; pass++) {
		assert_int_equal(many[pass].meetings - few[pass].meetings, MORE * of_a_step);
		assert_int_equal(many[pass].allocations, 0);
		assert_true(few[pass].meetings > 0);
	}
}

static void test_one_meeting_for_a_phase(void **state)
{
	(void)state;
	expect_meetings("lstm", 260, 1);
	expect_meetings("gru", 300, 1);
	expect_meetings("gru_block", 300, 2);            /* a step of gru_block has two recurrent products, each in a phase of its own */
}

static void test_none_where_rows_are_shared(void **state)
{
	(void)state;
	expect_meetings("lstm", 60, 0);
	expect_meetings("gru_block", 60, 0);
	expect_meetings("lstm", 180, 0);                 /* a thread reads 540 KB in each step: for three batch rows that is not too much */
	expect_meetings("ln_lstm", 60, 0);
}

int main(void)
{
	static const struct cg_allocator counting = { resize, NULL };
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_one_meeting_for_a_phase), cmocka_unit_test(test_none_where_rows_are_shared),
	};

	if (cg_set_allocator(&counting))
		return 99;
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("all_steps", tests, NULL, NULL);
}
