/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the cuda backend's copies of rows, which gather and scatter rows, add them to old values and apply dropout to elements: the values,
 * one launch for each call, and each call of the driver or the compiler failing in turn.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/help/counted.h"
#include "tests/backends/cuda/cuda_watch.h"
#include "tests/backends/rows_trial.h"

enum { TRIALS = 320 };

static void test_moves(void **state)
{
	struct tensors t;

	(void)state;
	if (!open_tensors(&t))
		return;
	rows_try(t.stream, TRIALS);
	free_tensors(&t);
}

/* The first call builds the kernel; each call makes one launch. */
static void test_calls(void **state)
{
	struct tensors t;

	(void)state;
	if (!open_tensors(&t))
		return;
	for (int k = 1; k < 4; k++) {
		assert_int_equal(rows_once(t.stream, CG_F32), CG_OK);
		assert_int_equal(seen.cuModuleLoadData, 1);
		assert_int_equal(seen.nvrtcCompileProgram, 1);
		assert_int_equal(seen.cuLaunchKernel, k);
	}
	free_tensors(&t);
}

/* Makes each call fail in turn: the message names the call. */
static void fail_each(struct tensors *t, struct cg_rows *r)
{
	for (long at = 1;; at++) {
		int code;

		made = 0;
		fatal = at;
		code = cg_copy_rows(t->stream, r);
		fatal = 0;
		if (!code) {
			assert_true(at > 5);
			return;
		}
		if (!strstr(cg_message(), failed_call))
			fail_msg("expected %s in '%s'", failed_call, cg_message());
	}
}

static void test_failures(void **state)
{
	struct cg_rows r = { .dtype = CG_F32, .rows = 2, .columns = 3, .src = { .stride = 3 }, .dst = { .stride = 3 } };
	struct tensors t;

	(void)state;
	if (!open_tensors(&t))
		return;
	r.src.mem = some(&t, 6);
	r.dst.mem = some(&t, 6);
	fail_each(&t, &r);
	assert_int_equal(cg_stream_sync(t.stream), CG_OK);
	closing = 1;
	free_tensors(&t);
	assert_int_equal(balance, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_moves), cmocka_unit_test(test_calls), cmocka_unit_test(test_failures),
		cmocka_unit_test(test_nothing_left),
	};

	counted_begin();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("cuda_rows", tests, set_up, NULL);
}
