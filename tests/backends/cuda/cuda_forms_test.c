/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kernel over elements may have two forms: a thread takes runs of units, or one unit. Both forms give the same bits, so that the launch
 * may take either: for every built-in cell, set of options, pass and stage, each in one dtype in turn, or in all dtypes with
 * CELLGRAD_TEST_FORMS; arguments are random, absent, strided, and begin at any address. Sums over so many blocks of rows that a thread
 * loads several at once are compared with the cpu's; so are sums over numbers from 1 to 4/3, in f32 and f64, whose bits show the order of
 * the additions.
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
#include "runtime/device/device.h"
#include "verify/kernel_trial.h"

enum { RUNS, ONE, FORMS, DTYPES = CG_DTYPE_COUNT };
static struct side sides[FORMS] = { { .name = "runs" }, { .name = "one unit a thread" } }, cpu = { .name = "cpu" };
static unsigned long long seed = 20261122;

/* On a device of 0 multiprocessors every problem is large enough for runs of units; on one of INT_MAX none is. */
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
	return cg_open("cpu", &cpu.context) || cg_stream_open(cpu.context, NULL, &cpu.stream);
}

static int tear_down(void **state)
{
	(void)state;
	for (int form = 0; form < FORMS && sides[form].context; form++) {
		cg_stream_close(sides[form].stream);
		cg_close(sides[form].context);
	}
	cg_stream_close(cpu.stream);
	cg_close(cpu.context);
	return 0;
}

static void try_case(const struct kernel_trial *trial, const struct side *pair)
{
	const struct cg_cell *const cells[2] = { NULL, NULL };
	const char *key = trial->kind->plan->key;
	struct finding finding;

	if (kernel_trial_run(trial, pair, cells, &finding))
		fail_msg("%s: %s", key, cg_message());
	if (finding.kind)
		fail_msg("%s [%lld, %lld], seed %llu: %s", key, (long long)trial->rows, (long long)trial->units, trial->seed, finding.text);
}

enum { BLOCKS = 19 };                    /* twice as many blocks of rows as a thread loads at once, and some more */

static void try_kind(const struct kernel_kind *kind)
{
	const struct side other[2] = { sides[ONE], cpu };
	struct kernel_trial trial;

	for (int n = 0; n <= kernel_areas(); n++) {
		kernel_case(kind, n, seed++, &trial);
		try_case(&trial, sides);
	}
	if (kind->shape == CG_SUM) {
		trial.rows = BLOCKS * CG_SUM_ROWS - 1;
		trial.units = 3;
		trial.nan = 0;
		try_case(&trial, other);
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

			if (getenv("CELLGRAD_TEST_FORMS") || k % DTYPES == *(const int *)*dtype)
				try_kind(&kinds[k]);
			for (int p = 0; p < plan->n_functions && kinds[k].shape == CG_POINT; p++)
				if (plan->functions[p].shape == CG_FUNCTION_POINT) {
					points++;
					both += cg_run_units(plan, &plan->functions[p]) > 1;
				}
		}
		kernel_kinds_close(kinds, n);
	}
	print_message("# %s: %ld kernels over elements, %ld of them in two forms\n", cg_dtype_name(*(const int *)*dtype), points, both);
	assert_true(2 * both > points);
}

/* Computes the gradients of an lstm's biases in f32 or f64: sums over rows of the gates' gradients, which are `in` for all four gates. */
static void sum_biases(const struct side *side, int dtype, int64_t rows, int64_t units, void *in, void *out)
{
	static const char *const names[] = { "da_i", "da_f", "da_g", "da_o", "db_i", "db_f", "db_g", "db_o" };
	const struct cg_kernel kernel = { cg_cell_find("lstm"), NULL, 1, CG_GRAD, dtype, CG_SUM };
	size_t row = (size_t)units * cg_dtype_bytes(dtype);
	struct cg_arg args[9];

	for (int k = 0; k < 8; k++) {
		struct cg_mem mem = { k < 4 ? in : out, k < 4 ? 0 : (size_t)(k - 4) * row, (k < 4 ? (size_t)rows : 4) * row, CG_HOST };

		mem.bytes -= mem.offset;
		args[k] = (struct cg_arg){ .name = names[k], .mem = mem, .stride = units };
	}
	args[8] = (struct cg_arg){ .name = "accumulate" };
	if (cg_kernel_run(side->stream, &kernel, rows, units, args, 9))
		fail_msg("%s: %s", side->name, cg_message());
}

static void test_order_of_sums(void **state)
{
	enum { ROWS = BLOCKS * CG_SUM_ROWS - 1, UNITS = 5 };
	static double in[ROWS * UNITS], out[2][4 * UNITS];
	static float in_f[ROWS * UNITS], out_f[2][4 * UNITS];

	(void)state;
	if (!sides[ONE].stream)
		skip();
	srand((unsigned)seed);
	for (int k = 0; k < ROWS * UNITS; k++)
		in_f[k] = (float)(in[k] = 1 + (double)rand() / RAND_MAX / 3);
	for (int k = 0; k < 2; k++) {
		sum_biases(k ? &cpu : &sides[ONE], CG_F64, ROWS, UNITS, in, out[k]);
		sum_biases(k ? &cpu : &sides[ONE], CG_F32, ROWS, UNITS, in_f, out_f[k]);
	}
	assert_memory_equal(out[0], out[1], sizeof out[0]);
	assert_memory_equal(out_f[0], out_f[1], sizeof out_f[0]);
}

int main(void)
{
	static int dtypes[] = { CG_F32, CG_F64, CG_F16, CG_BF16 };
	const struct CMUnitTest tests[] = {
		{ "f32", test_bits, NULL, NULL, &dtypes[0] }, { "f64", test_bits, NULL, NULL, &dtypes[1] },
		{ "f16", test_bits, NULL, NULL, &dtypes[2] }, { "bf16", test_bits, NULL, NULL, &dtypes[3] },
		cmocka_unit_test(test_order_of_sums),
	};

	if (getenv("CELLGRAD_TEST_SEED"))
		seed = strtoull(getenv("CELLGRAD_TEST_SEED"), NULL, 10);
	print_message("# seed %llu\n", seed);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("cuda_forms", tests, set_up, tear_down);
}
