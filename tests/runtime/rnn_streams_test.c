/*
 * Networks on the backend that CELLGRAD_BACKEND names, else the cpu: one plan in two threads with a stream each, and memory of the
 * host beside the device's.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <cmocka.h>

#include "tests/runtime/net_trials.h"

static struct cg_context *context;

static void test_streams(void **state)
{
	(void)state;
	try_streams(context, NULL);
}

static void test_places(void **state)
{
	(void)state;
	try_places(context, NULL);
}

static int open_context(void **state)
{
	(void)state;
	return cg_open(getenv("CELLGRAD_BACKEND") ? NULL : "cpu", &context);
}

static int close_context(void **state)
{
	(void)state;
	cg_close(context);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_streams), cmocka_unit_test(test_places) };

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("rnn_streams", tests, open_context, close_context);
}
