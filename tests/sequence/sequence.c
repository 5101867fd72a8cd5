/*
 * Whole sequences on the backend that CELLGRAD_BACKEND names.  CELLGRAD_TEST_SEED sets the seed, which a failure names with its case;
 * an argument is a pattern of the tests to run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/sequence/suite.h"

static int open_all(void **unused)
{
	(void)unused;
	if (cg_open(NULL, &side.context) || cg_stream_open(side.context, NULL, &side.stream)) {
		print_message("# %s\n", cg_message());
		return -1;
	}
	print_message("# %s; CELLGRAD_TEST_SEED=%llu\n", cg_describe(side.context), seed_of_run);
	return 0;
}

static int close_all(void **unused)
{
	(void)unused;
	cg_stream_close(side.stream);
	cg_close(side.context);
	return 0;
}

/* Does the backend open?  Says why not. */
static int opens(void)
{
	struct cg_context *context;

	if (cg_open(NULL, &context))
		return puts(cg_message()), 1;
	cg_close(context);
	return 0;
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random), cmocka_unit_test(test_large),
		cmocka_unit_test(test_step_by_step), cmocka_unit_test(test_pieces), cmocka_unit_test(test_batch_split),
		cmocka_unit_test(test_batch_permuted),
		cmocka_unit_test(test_mirror), cmocka_unit_test(test_transposed), cmocka_unit_test(test_full_lengths),
		cmocka_unit_test(test_skip), cmocka_unit_test(test_linear), cmocka_unit_test(test_padding), cmocka_unit_test(test_absent),
		cmocka_unit_test(test_again), cmocka_unit_test(test_in_a_row), cmocka_unit_test(test_threads),
		cmocka_unit_test(test_vectors), cmocka_unit_test(test_sizes), cmocka_unit_test(test_golden_sums),
		cmocka_unit_test(test_golden_cells), cmocka_unit_test(test_block_lstm),
		cmocka_unit_test(test_modes), cmocka_unit_test(test_cells), cmocka_unit_test(test_refused), cmocka_unit_test(test_dtypes),
		cmocka_unit_test(test_training),
	};

	if (argc > 1 && !strcmp(argv[1], "--opens"))
		return opens();
	if (argc > 1)
		cmocka_set_test_filter(argv[1]);
	if (getenv("CELLGRAD_TEST_SEED"))
		seed_of_run = strtoull(getenv("CELLGRAD_TEST_SEED"), NULL, 10);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("sequence", tests, open_all, close_all);
}
