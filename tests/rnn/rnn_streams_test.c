/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Networks on the backend that CELLGRAD_BACKEND names, else the cpu: streams of one plan, of plans in turn, and of plans that threads
 * open and run at once; streams that are closed while they are busy; host memory beside device memory.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "tests/help/counted.h"
#include "tests/help/net_trials.h"

static struct cg_context *context;

static const char *where(void)
{
	return getenv("CELLGRAD_BACKEND") ? NULL : "cpu";
}

static void test_streams(void **state)
{
	(void)state;
	try_streams(context, NULL);
}

static void test_problems(void **state)
{
	(void)state;
	try_problems(where(), NULL);
}

static void test_turns(void **state)
{
	(void)state;
	try_turns(context, NULL);
}

static void test_closing(void **state)
{
	(void)state;
	try_closing(context, NULL);
}

static void test_memory_spaces(void **state)
{
	(void)state;
	try_memory_spaces(context, NULL);
}

static int open_context(void **state)
{
	(void)state;
	return cg_open(where(), &context);
}

static int close_context(void **state)
{
	(void)state;
	cg_close(context);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_streams), cmocka_unit_test(test_problems), cmocka_unit_test(test_turns),
		cmocka_unit_test(test_closing), cmocka_unit_test(test_memory_spaces),
		cmocka_unit_test_setup(test_nothing_left, close_context),
	};

	counted_begin();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("rnn_streams", tests, open_context, NULL);
}
