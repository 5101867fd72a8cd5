/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests that every kernel that the build compiles, of the built-in cells and in f32 of some of the shelf, gives the same bits in every
 * way that the cpu backend computes it: compiled for each instruction set that runs here, and interpreted on each.  Inputs are ordinary
 * numbers, special values and random bits; there are gaps between rows, absent arguments, and sizes around the widths of vectors, strips
 * and blocks.  If a result is NaN in one of these ways, the result is NaN in all ways; the bits of a NaN may differ, since processors
 * disagree about them.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "backends/cpu/cells.h"
#include "backends/cpu/cpu.h"
#include "runtime/op/op.h"
#include "verify/cases.h"
#include "verify/numbers.h"

enum { ARGUMENTS = CG_SLOTS_MAX, PAD = 3 };

static unsigned long long state = 20260102;
static long elements, kernels;
/* Counts over the results of calls whose inputs have NaNs: NaNs; numbers; NaNs whose bits differ from those of the kernel's first run. */
static long nans, numbers, others;
enum given { WHOLE, ABSENT, NANS, GIVEN };       /* which arguments are given: all; some; all, about a fourth of their elements NaN */

static int dtype_of(const struct cg_pass_plan *plan, const struct cg_argument *a)
{
	return a->type == CG_TYPE_ACC ? numbers_acc(plan->dtype) : plan->dtype;
}

struct buffers { unsigned char *at[ARGUMENTS]; size_t bytes[ARGUMENTS]; };

static void call(const struct cg_isa *isa, int interpreted, const struct cg_pass_plan *plan, const struct cg_function *function,
                 int64_t rows, int64_t units, const struct cg_bound *bound)
{
	struct cg_float_state saved;

	if (interpreted) {
		void *registers = malloc(cg_strip_bytes(plan, function));

		assert_non_null(registers);
		saved = cg_float_enter(plan->dtype);
		isa->strip[plan->dtype](plan, function, rows, units, bound, registers);
		cg_float_leave(saved);
		free(registers);
		return;
	}
	for (const struct cg_compiled *const *table = isa->kernels; *table; table++)
		for (const struct cg_compiled *row = *table; row->key; row++)
			if (!strcmp(row->key, function->key)) {
				saved = cg_float_enter(plan->dtype);
				row->call(rows, units, bound);
				cg_float_leave(saved);
				return;
			}
	fail_msg("%s is not compiled for %s", function->key, isa->name);
}

/* Adds to the counts the results of a call whose inputs have NaNs, `now`, compared with those of the kernel's first run, `first`; the gaps
   between rows are left out. */
static void count_nans(int dtype, int64_t rows, int64_t units, const unsigned char *now, const unsigned char *first)
{
	size_t size = cg_dtype_bytes(dtype);

	for (int64_t at = 0; at < rows * (units + PAD); at++) {
		int nan = isnan(numbers_decode(dtype, now + (size_t)at * size));

		if (at % (units + PAD) >= units)
			continue;
		nans += nan;
		numbers += !nan;
		others += nan && memcmp(now + (size_t)at * size, first + (size_t)at * size, size);
	}
}

/* Runs a kernel by each instruction set that runs here, compiled and interpreted, and compares the bits with those of the first run. */
static void compare(const struct cg_pass_plan *plan, const struct cg_function *function, int64_t rows, int64_t units,
                    enum given given)
{
	unsigned absent = given == ABSENT ? numbers_below(&state, 1u << 31) : 0;
	struct buffers first = { .bytes = { 0 } };
	struct cg_bound bound[ARGUMENTS];
	int n = function->n_arguments;

	memset(bound, 0, sizeof bound);
	for (int k = 0; k < n; k++) {
		const struct cg_argument *a = &function->arguments[k];
		size_t size = cg_dtype_bytes(dtype_of(plan, a));

		bound[k].stride = units + PAD;
		if (a->kind == CG_KIND_SCALAR) {
			float f = (float)(0.25 * (1 + k % 7));

			bound[k].value = f;
		} else if (a->kind == CG_KIND_COUNT) {
			bound[k].value = absent & 1;
		} else {
			size_t count = a->kind == CG_KIND_TENSOR ? (size_t)(rows * (units + PAD))
			             : a->kind == CG_KIND_PER_UNIT ? (size_t)units
			             : a->kind == CG_KIND_ELEMENT ? 1 : a->kind == CG_KIND_MEANS ? (size_t)(rows * function->means)
			             : (size_t)((rows / CG_SUM_ROWS + 1) * n * units);

			first.bytes[k] = count * size;
			first.at[k] = malloc(count * size + 1);
			assert_non_null(first.at[k]);
			for (size_t j = 0; j < count; j++)
				(given == NANS && !numbers_below(&state, 4) ? numbers_nan : numbers_bits)(&state, dtype_of(plan, a),
				                                                                         first.at[k] + j * size);
			if (!(absent >> (k % 29) & 1) || a->kind == CG_KIND_SCRATCH || a->kind == CG_KIND_MEANS)
				bound[k].data = first.at[k];
		}
	}
	struct cg_bound again[ARGUMENTS];
	unsigned char *copies[ARGUMENTS] = { NULL };

	memcpy(again, bound, sizeof again);
	for (int k = 0; k < n; k++)
		if (bound[k].data) {
			copies[k] = malloc(first.bytes[k] + 1);
			assert_non_null(copies[k]);
			again[k].data = copies[k];
		}
	unsigned char *before[ARGUMENTS] = { NULL };
	for (int k = 0; k < n; k++)
		if (bound[k].data) {
			before[k] = malloc(first.bytes[k] + 1);
			assert_non_null(before[k]);
			memcpy(before[k], first.at[k], first.bytes[k]);
		}

	int variants = 0;
	for (const struct cg_isa *isa = cg_isas; isa->name; isa++)
		for (int interpreted = 0; interpreted < 2; interpreted++) {
			const struct cg_bound *use = variants ? again : bound;

			if (!isa->runs_here())
				continue;
			for (int k = 0; variants && k < n; k++)
				if (copies[k])
					memcpy(copies[k], before[k], first.bytes[k]);
			call(isa, interpreted, plan, function, rows, units, use);
			for (int k = 0; variants && k < n; k++) {
				const struct cg_argument *a = &function->arguments[k];
				size_t size = cg_dtype_bytes(dtype_of(plan, a));

				if (given == NANS && copies[k] && a->out && a->kind == CG_KIND_TENSOR)
					count_nans(dtype_of(plan, a), rows, units, copies[k], first.at[k]);
				if (!copies[k] || !memcmp(copies[k], first.at[k], first.bytes[k]))
					continue;
				for (size_t j = 0; j + size <= first.bytes[k]; j += size)
					if (!numbers_same(dtype_of(plan, a), copies[k] + j, first.at[k] + j))
						fail_msg("%s: %s[%zu] differs on %s%s, rows %lld, units %lld, absent %#x", function->key, a->name,
						         j / size, isa->name, interpreted ? " interpreted" : "", (long long)rows,
						         (long long)units, absent);
			}
			variants++;
		}
	assert_true(variants >= 2);
	elements += (long)(rows * units) * variants;
	kernels++;
	for (int k = 0; k < n; k++) {
		free(first.at[k]);
		free(copies[k]);
		free(before[k]);
	}
}

/* Compares the kernels of a cell in a dtype. */
static void try_cell(const char *name, int dtype)
{
	const struct cg_cell *cell = cg_cell_find(name);
	struct cg_mistake mistake;

	assert_non_null(cell);
	for (int options = 0; options < 1 << cell->n_options; options++)
		for (int pass = CG_PASS_FORWARD; pass < CG_PASS_COUNT; pass++) {
			struct cg_pass_plan *plan;

			if (pass == CG_PASS_GRADGRAD || (pass > CG_PASS_GRADGRAD && !cg_saves_output(cell)))
				continue;
			plan = cg_plan(cell, options, pass, 0, dtype, cg_memory, &mistake);
			assert_non_null(plan);
			for (int p = 0; p < plan->n_functions; p++)
				for (size_t s = 0; s < sizeof areas / sizeof *areas; s++)
					for (enum given how = WHOLE; how < GIVEN; how++)
						compare(plan, &plan->functions[p], areas[s].rows, areas[s].units, how);
			cg_plan_free(plan);
		}
}

#define NAME(cell, with) #cell,

static void test_bits(void **given)
{
	static const char *const shelf[] = { CG_FAST_SHELF(NAME,) };
	int dtype = *(const int *)*given;

	elements = kernels = nans = numbers = others = 0;
	for (int c = 0; cg_cell_name(c); c++)
		try_cell(cg_cell_name(c), dtype);
	for (size_t c = 0; dtype == CG_F32 && c < sizeof shelf / sizeof *shelf; c++)
		try_cell(shelf[c], dtype);
	print_message("# %s: %ld launches of kernels, %ld elements over all ways to compute them\n", cg_dtype_name(dtype), kernels,
	              elements);
	print_message("# from inputs with NaNs %ld NaNs, %ld of them with other bits than the first way's, and %ld numbers\n", nans, others,
	              numbers);
	assert_true(nans > 1000 && numbers > 1000);
}

/* On processors with SSE2 and on AArch64: after cg_float_enter() of f32, f16 or bf16 half of a subnormal float is 0; after that of f64 a
   quarter of a subnormal double is not 0. On all processors, after cg_float_leave() half of a subnormal float is not 0. */
static void test_float_state(void **unused)
{
	volatile float tiny = 1e-38f, half = 0.5f;
	volatile double small = 1e-308, quarter = 0.25;

	(void)unused;
	for (int dtype = 0; dtype < CG_DTYPE_COUNT; dtype++) {
		struct cg_float_state state = cg_float_enter(dtype);
		volatile float inside = tiny * half;
		volatile double inside64 = small * quarter;

		cg_float_leave(state);
#if defined(__SSE2__) || defined(__aarch64__)
		assert_true(dtype == CG_F64 ? inside64 > 0 : inside == 0);
#endif
		(void)inside;
		(void)inside64;
		assert_true(tiny * half > 0);
	}
}

int main(void)
{
	static int dtypes[] = { CG_F32, CG_F64, CG_F16, CG_BF16 };
	const struct CMUnitTest tests[] = {
		{ "f32", test_bits, NULL, NULL, &dtypes[0] }, { "f64", test_bits, NULL, NULL, &dtypes[1] },
		{ "f16", test_bits, NULL, NULL, &dtypes[2] }, { "bf16", test_bits, NULL, NULL, &dtypes[3] },
		cmocka_unit_test(test_float_state),
	};

	if (getenv("CELLGRAD_TEST_SEED"))
		state = strtoull(getenv("CELLGRAD_TEST_SEED"), NULL, 10);
	print_message("# seed %llu\n", state);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("bits", tests, NULL, NULL);
}
