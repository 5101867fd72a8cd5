/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests of whole sequences on the backend that CELLGRAD_BACKEND names. CELLGRAD_TEST_SEED sets the seed, which a failure prints
 * with its case; an argument is a pattern of the tests to run.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "tests/help/counted.h"
#include "tests/sequence/suite.h"

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random), cmocka_unit_test(test_large),
		cmocka_unit_test(test_step_by_step), cmocka_unit_test(test_chunks), cmocka_unit_test(test_batch_split),
		cmocka_unit_test(test_batch_permuted), cmocka_unit_test(test_scan_bits),
		cmocka_unit_test(test_mirror), cmocka_unit_test(test_transposed), cmocka_unit_test(test_full_lengths),
		cmocka_unit_test(test_skip), cmocka_unit_test(test_linear), cmocka_unit_test(test_padding), cmocka_unit_test(test_absent),
		cmocka_unit_test(test_repeated_calls),
		cmocka_unit_test(test_reserve), cmocka_unit_test(test_in_a_row), cmocka_unit_test(test_threads),
		cmocka_unit_test(test_vectors), cmocka_unit_test(test_sizes), cmocka_unit_test(test_golden_sums),
		cmocka_unit_test(test_golden_cells), cmocka_unit_test(test_block_lstm),
		cmocka_unit_test(test_modes), cmocka_unit_test(test_cells), cmocka_unit_test(test_values),
		cmocka_unit_test(test_dtypes), cmocka_unit_test(test_drawn), cmocka_unit_test(test_step_loop),
		cmocka_unit_test(test_training), cmocka_unit_test_setup(test_nothing_left, device_close),
	};

	int status;

	if (!device_arguments(argc, argv, &status))
		return status;
	counted_begin();
	return cmocka_run_group_tests_name("sequence", tests, device_open, device_close);
}
