/*
 * Both forms of every kernel over elements: runs of units, and one unit a thread.  Whichever a launch's rule takes, the bits are the
 * same: of every built-in cell, set of options, pass, dtype and stage, on arguments that are drawn, absent, strided and begin
 * anywhere.
 */
#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "backends/cuda/cuda.h"
#include "tests/conformance/kernel_trial.h"

enum { RUNS, ONE, FORMS };
static struct side sides[FORMS] = { { .name = "runs" }, { .name = "one unit a thread" } };
static unsigned long long seed = 20261122;

/* No problem is too small for runs on a device without a multiprocessor, every one is where there are so many. */
static int set_up(void **state)
{
	static const int multiprocessors[FORMS] = { [RUNS] = 0, [ONE] = INT_MAX };
	const char *required = getenv("CELLGRAD_TEST_REQUIRE");

	(void)state;
	for (int form = 0; form < FORMS; form++) {
		if (cg_open("cuda", &sides[form].context)) {
			print_message("# no CUDA device: %s\n", cg_message());
			return form || (required && strstr(required, "cuda"));
		}
		sides[form].context->device->units = multiprocessors[form];
		if (cg_stream_open(sides[form].context, NULL, &sides[form].stream))
			return 1;
	}
	return 0;
}

static int tear_down(void **state)
{
	(void)state;
	for (int form = 0; form < FORMS && sides[form].context; form++) {
		cg_stream_close(sides[form].stream);
		cg_close(sides[form].context);
	}
	return 0;
}

static void try_kind(const struct kernel_kind *kind)
{
	const struct cg_cell *const cells[2] = { NULL, NULL };

	for (int n = 0; n <= kernel_areas(); n++) {
		struct kernel_trial trial;
		struct finding finding;

		kernel_case(kind, n, seed++, &trial);
		if (kernel_trial_run(&trial, sides, cells, &finding))
			fail_msg("%s: %s", kind->plan->key, cg_message());
		if (finding.kind)
			fail_msg("%s [%lld, %lld], seed %llu: %s", kind->plan->key, (long long)trial.rows, (long long)trial.units, trial.seed,
			         finding.words);
	}
}

static void test_bits(void **dtype)
{
	static struct kernel_kind kinds[KERNEL_KINDS];
	long points = 0, both = 0;

	if (!sides[ONE].stream)
		skip();
	for (int c = 0; cg_cell_name(c); c++) {
		int n;

		if (kernel_kinds(cg_cell_find(cg_cell_name(c)), *(const int *)*dtype, kinds, &n))
			fail_msg("%s", cg_message());
		for (int k = 0; k < n; k++) {
			const struct cg_pass_plan *plan = kinds[k].plan;

			try_kind(&kinds[k]);
			for (int p = 0; p < plan->n_pieces && kinds[k].shape == CG_POINT; p++)
				if (plan->pieces[p].shape == CG_PIECE_POINT) {
					points++;
					both += cg_run_units(plan, &plan->pieces[p]) > 1;
				}
		}
		kernel_kinds_close(kinds, n);
	}
	print_message("# %s: %ld kernels over elements, %ld of them in two forms\n", cg_dtype_name(*(const int *)*dtype), points, both);
	assert_true(2 * both > points);
}

int main(void)
{
	static int dtypes[] = { CG_F32, CG_F64, CG_F16, CG_BF16 };
	const struct CMUnitTest tests[] = {
		{ "f32", test_bits, NULL, NULL, &dtypes[0] }, { "f64", test_bits, NULL, NULL, &dtypes[1] },
		{ "f16", test_bits, NULL, NULL, &dtypes[2] }, { "bf16", test_bits, NULL, NULL, &dtypes[3] },
	};

	if (getenv("CELLGRAD_TEST_SEED"))
		seed = strtoull(getenv("CELLGRAD_TEST_SEED"), NULL, 10);
	print_message("# seed %llu\n", seed);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("cuda_forms", tests, set_up, tear_down);
}
