/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The conversions of f16 and bf16 in kernels, to the bit, on cpu and opencl where these open: all halves are widened; the values half way
 * between two halves, their neighbours, and floats of all magnitudes are rounded. A subnormal float may become 0. A backend may use
 * instructions instead of the mathematics' text; the text is what `cellgen math` prints (math_text.c).
 *
 * The cell is h = h_prev * a. Forward rounds a where h_prev is 1. The gradient gives dh_prev = dh * a, unrounded: dh widened, where a
 * is 1. The gradient also gives da = dh * h_prev, of two halves, rounded once, though a compiler may see that halves are multiplied.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "gen/cell.h"
#include "tests/gen/math_text.h"
#include "runtime/device/device.h"

enum { ROWS = 257, UNITS = 4099, COUNT = ROWS * UNITS, OPERANDS = 16 };    /* ROWS, UNITS: no multiples of the elements of a vector */

static const char source[] = "cell halves\ngates a\noutput h\nh = h_prev * a\n";
static const struct { const char *name; int dtype; const struct math_text *math; uint16_t one; } types[] = {
	{ "f16", CG_F16, &math_f16, 0x3c00 }, { "bf16", CG_BF16, &math_bf16, 0x3f80 }
};

static float ones[COUNT], numbers[COUNT], widened[COUNT], products[COUNT], got_wide[COUNT];
static uint16_t half_ones[COUNT], halves[COUNT], factors[COUNT], got_half[COUNT], want_half[COUNT];

static float float_of(uint32_t bits)
{
	float x;

	memcpy(&x, &bits, sizeof x);
	return x;
}

static uint32_t bits_of(float x)
{
	uint32_t bits;

	memcpy(&bits, &x, sizeof bits);
	return bits;
}

/* Prepares the inputs, and the right results of widening and of the products of two halves. */
static void prepare(const struct math_text *math, uint16_t one)
{
	static uint16_t all[1 << 16];
	static float wide[1 << 16];
	int n = 0;

	for (int k = 0; k < 1 << 16; k++)
		all[k] = (uint16_t)k;
	math->to_acc(all, wide, 1 << 16);
	/* The float half way between a half and the next has the mean of their bits, where these are of one sign. */
	for (int k = 0; k < (1 << 16) - 1; k++)
		for (int j = -1; j < 2 && k != 0x7fff; j++)
			numbers[n++] = float_of((uint32_t)(((uint64_t)bits_of(wide[k]) + bits_of(wide[k + 1])) / 2) + (uint32_t)j);
	/* For positive subnormal halves of f16 the float half way to the next one is the mean of their values. */
	for (int k = 0; k < 1 << 11; k++)
		for (int j = -1; j < 2; j++)
			numbers[n++] = float_of(bits_of((wide[k] + wide[k + 1]) / 2) + (uint32_t)j);
	for (uint64_t at = 0; n < COUNT; n++, at += 5051)
		numbers[n] = float_of((uint32_t)at);
	for (int k = 0; k < COUNT; k++) {
		halves[k] = (uint16_t)k;
		factors[k] = (uint16_t)(k * 40503u >> 3);
		ones[k] = 1;
		half_ones[k] = one;
	}
	math->to_acc(halves, widened, COUNT);
	math->to_acc(factors, products, COUNT);
	for (int k = 0; k < COUNT; k++)
		products[k] *= widened[k];
}

struct role { const char *name; const void *in; void *out; size_t bytes; };

/* Launches a pass of the cell once, with memory for the n arguments that `roles` names. */
static void launch(struct cg_context *context, struct cg_stream *stream, int pass, int dtype, const struct role *roles, int n)
{
	struct cg_mistake mistake;
	struct cg_cell *cell = cg_parse(source, "halves.cell", cg_memory, &mistake);
	struct cg_pass_plan *plan = cell ? cg_plan(cell, 0, pass, 0, dtype, cg_memory, &mistake) : NULL;
	struct cg_operand operands[OPERANDS] = { { .value = 0 } };
	struct cg_operand *of[OPERANDS] = { NULL };
	struct cg_module *built = NULL;

	if (!plan)
		fail_msg("%s", mistake.text);
	assert_int_equal(context->backend->build(context->device, plan, &built), CG_OK);
	for (int r = 0; r < n; r++) {
		for (int k = 0; k < plan->functions[0].n_arguments; k++)
			if (!strcmp(plan->functions[0].arguments[k].name, roles[r].name))
				of[r] = &operands[k];
		assert_non_null(of[r]);
		of[r]->stride = UNITS;
		assert_int_equal(cg_alloc(context, roles[r].bytes, &of[r]->mem), CG_OK);
		if (roles[r].in)
			assert_int_equal(cg_put(stream, of[r]->mem, roles[r].in, roles[r].bytes), CG_OK);
	}
	assert_int_equal(context->backend->launch(stream->queue, built, 0, ROWS, UNITS, operands), CG_OK);
	for (int r = 0; r < n; r++) {
		if (roles[r].out)
			assert_int_equal(cg_get(stream, roles[r].out, of[r]->mem, roles[r].bytes), CG_OK);
		cg_free(context, &of[r]->mem);
	}
	context->backend->release(context->device, built);
	cg_plan_free(plan);
	cg_parse_free(cell);
}

static int is_nan(uint16_t h, int dtype)
{
	return (h & 0x7fff) > (dtype == CG_F16 ? 0x7c00 : 0x7f80);
}

/* A subnormal float may become 0 on its way through a multiplication. */
static void compare_widened(const char *backend, const char *name)
{
	for (int k = 0; k < COUNT; k++) {
		uint32_t want = bits_of(widened[k]), got = bits_of(got_wide[k]);
		int small = (want & 0x7fffffff) < 0x800000;

		if (got != want && !(isnan(widened[k]) && isnan(got_wide[k])) && !(small && got == (want & 0x80000000)))
			fail_msg("%s: %s %04x: widened to %08x, not %08x", backend, name, halves[k], (unsigned)got, (unsigned)want);
	}
}

static void compare_rounded(const char *backend, int type, const float *from)
{
	int dtype = types[type].dtype;

	types[type].math->to_real(from, want_half, COUNT);
	for (int k = 0; k < COUNT; k++) {
		uint16_t got = got_half[k], want = want_half[k];
		int small = (bits_of(from[k]) & 0x7fffffff) < 0x800000;

		if (got != want && !(is_nan(got, dtype) && is_nan(want, dtype)) && !(small && got == (want & 0x8000)))
			fail_msg("%s: %s of %08x: %04x, not %04x", backend, types[type].name, (unsigned)bits_of(from[k]), got, want);
	}
}

static void on(const char *backend)
{
	const char *required = getenv("CELLGRAD_TEST_REQUIRE");
	struct cg_context *context;
	struct cg_stream *stream;

	if (cg_open(backend, &context)) {
		if (required && strstr(required, backend))
			fail_msg("%s is required: %s", backend, cg_message());
		print_message("# no %s: %s\n", backend, cg_message());
		skip();
	}
	assert_int_equal(cg_stream_open(context, NULL, &stream), CG_OK);
	for (int k = 0; k < 2; k++) {
		const struct role forward[] = {
			{ "a", numbers, NULL, sizeof numbers }, { "h_prev", half_ones, NULL, sizeof halves }, { "h", NULL, got_half, sizeof halves }
		};
		const struct role grad[] = {
			{ "a", ones, NULL, sizeof numbers }, { "h_prev", factors, NULL, sizeof halves }, { "dh", halves, NULL, sizeof halves },
			{ "da", NULL, got_half, sizeof halves }, { "dh_prev", NULL, got_wide, sizeof numbers }
		};

		prepare(types[k].math, types[k].one);
		launch(context, stream, CG_PASS_FORWARD, types[k].dtype, forward, 3);
		compare_rounded(backend, k, numbers);
		launch(context, stream, CG_PASS_GRAD, types[k].dtype, grad, 5);
		compare_widened(backend, types[k].name);
		/* A subnormal bf16 is a subnormal float, and may count as 0. */
		if (types[k].dtype == CG_F16)
			compare_rounded(backend, k, products);
	}
	cg_stream_close(stream);
	cg_close(context);
}

static void test_cpu(void **state)
{
	(void)state;
	on("cpu");
}

static void test_opencl(void **state)
{
	(void)state;
	on("opencl");
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_cpu), cmocka_unit_test(test_opencl) };

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
