/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests cases of `cellgrad check` as fields NAME=VALUE: parsing and printing, words that are refused, and to which simplest case the
 * failures that these tests invent shrink.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "command/check/shrink.h"
#include "runtime/op/op.h"
#include "runtime/core/core.h"

static struct sample {
	int64_t B, U;
	double bias;
	int dtype, peephole, memory;
	unsigned long long absent, seed;
} sample;

static const struct sample ordinary = { 33, 140, 0.3, CG_F16, 1, 2, 1, 77 };
static int calls;

static void fields_of(struct fields *f)
{
	static const char *const memories[] = { "host", "device", "mixed" }, *const ports[] = { "h", "cs", "co", "w_grad" };
	struct field *row;

	f->of = "sample";
	f->n = 0;
	row = field_add(f, "B", FIELD_SIZE, &sample.B);
	row->most = 1000;
	row = field_add(f, "U", FIELD_SIZE, &sample.U);
	row->least = 1;
	row->most = 1000;
	field_add(f, "dtype", FIELD_DTYPE, &sample.dtype);
	row = field_add(f, "bias", FIELD_REAL, &sample.bias);
	row->plain = 1;
	row->least = -10;
	row->most = 10;
	field_add(f, "peephole", FIELD_BOOL, &sample.peephole);
	row = field_add(f, "memory", FIELD_WORD, &sample.memory);
	row->words = memories;
	row->n_words = 3;
	row = field_add(f, "absent", FIELD_SET, &sample.absent);
	row->words = ports;
	row->n_words = 4;
	row->simple = 15;
	field_add(f, "seed", FIELD_SEED, &sample.seed);
}

static void ends_as(int (*fails)(void *), const char *expected)
{
	struct fields f;
	char line[FIELD_LINE], again[FIELD_LINE];

	fields_of(&f);
	for (int round = 0; round < 2; round++) {
		sample = ordinary;
		calls = 0;
		assert_int_equal(shrink(&f, fails, &sample), CG_OK);
		field_line(&f, round ? again : line);
		assert_true(calls < 500);
		assert_true(fails(&sample) == 1);
	}
	assert_string_equal(line, expected);
	assert_string_equal(again, line);
}

static int always(void *user)
{
	assert_ptr_equal(user, &sample);
	calls++;
	return 1;
}

static int wide(void *user)
{
	(void)user;
	calls++;
	return sample.U >= 129 && sample.B >= 3;
}

static int peepholes(void *user)
{
	(void)user;
	calls++;
	return sample.peephole && sample.memory && sample.bias != 1 && !(sample.absent >> 3 & 1);
}

/* A failure that needs 4 B < U < 6 B + 2, so that neither size can shrink far alone. */
static int square(void *user)
{
	(void)user;
	calls++;
	return sample.U > 4 * sample.B && sample.U < 6 * sample.B + 2;
}

static int as_it_is(void *user)
{
	(void)user;
	calls++;
	return !memcmp(&sample, &ordinary, sizeof sample);
}

static void test_shrink(void **state)
{
	(void)state;
	ends_as(always, "sample B=0 U=1 dtype=f16 bias=1 peephole=false memory=host absent=h,cs,co,w_grad seed=77");
	ends_as(wide, "sample B=3 U=129 dtype=f16 bias=1 peephole=false memory=host absent=h,cs,co,w_grad seed=77");
	ends_as(peepholes, "sample B=0 U=1 dtype=f16 bias=0 peephole=true memory=device absent=h,cs,co seed=77");
	ends_as(square, "sample B=1 U=5 dtype=f16 bias=1 peephole=false memory=host absent=h,cs,co,w_grad seed=77");
	ends_as(as_it_is, "sample B=33 U=140 dtype=f16 bias=0.3 peephole=true memory=mixed absent=h seed=77");
}

static int breaks(void *user)
{
	(void)user;
	return ++calls < 5 ? sample.U > 1 : CG_NO_MEMORY;
}

/* If the function that tries a case returns an error code, shrink() returns this code, and leaves the simplest case that has failed so
   far. */
static void test_code(void **state)
{
	struct fields f;

	(void)state;
	fields_of(&f);
	sample = ordinary;
	calls = 0;
	assert_int_equal(shrink(&f, breaks, NULL), CG_NO_MEMORY);
	assert_int_equal(calls, 5);
	assert_true(sample.U > 1 && sample.U < ordinary.U);
	assert_true(sample.peephole == ordinary.peephole && sample.seed == ordinary.seed);
}

static void test_fixed_fields(void **state)
{
	struct fields f;

	(void)state;
	fields_of(&f);
	for (int k = 0; k < f.n; k++)
		f.list[k].is_fixed = 1;
	sample = ordinary;
	assert_int_equal(shrink(&f, always, &sample), CG_OK);
	assert_memory_equal(&sample, &ordinary, sizeof sample);
}

/* A case that is parsed from a line prints as the same line. */
static void test_printed_case(void **state)
{
	static const char line[] = "sample B=3 U=1000 dtype=bf16 bias=-0.125 peephole=true memory=mixed absent=h,w_grad seed=12345678901";
	char copy[sizeof line], printed[FIELD_LINE];
	struct fields f;

	(void)state;
	fields_of(&f);
	memset(&sample, 0, sizeof sample);
	strcpy(copy, line);
	for (char *word = strtok(copy, " "); word; word = strtok(NULL, " "))
		if (strchr(word, '='))
			assert_int_equal(field_set(&f, word), CG_OK);
	assert_true(sample.B == 3 && sample.dtype == CG_BF16 && sample.bias == -0.125 && sample.absent == 9);
	field_line(&f, printed);
	assert_string_equal(printed, line);
	assert_int_equal(field_set(&f, "dtype=half"), CG_OK);
	assert_int_equal(field_set(&f, "peephole=False"), CG_OK);
	assert_int_equal(field_set(&f, "absent=none"), CG_OK);
	assert_true(sample.dtype == CG_F16 && !sample.peephole && !sample.absent);
	assert_int_equal(field_set(&f, "bias=0.1"), CG_OK);
	field_line(&f, printed);
	assert_non_null(strstr(printed, " bias=0.1 "));
	assert_non_null(strstr(printed, " absent=none "));
}

static void test_refused(void **state)
{
	static const struct { const char *word, *message; } all[] = {
		{ "B=-1",          "B: expected an integer from 0 to 1000, got \"-1\"" },
		{ "B=1001",        "got \"1001\"" },
		{ "B= 1",          "got \" 1\"" },
		{ "B=1e2",         "got \"1e2\"" },
		{ "B=",            "got \"\"" },
		{ "U=0",           "from 1 to 1000" },
		{ "U=99999999999999999999", "from 1 to 1000" },
		{ "dtype=f8",      "expected f16, bf16, f32 or f64, got f8" },
		{ "bias=nan",      "bias: expected a number from -10 to 10, got \"nan\"" },
		{ "bias=11",       "got \"11\"" },
		{ "bias=1x",       "got \"1x\"" },
		{ "peephole=maybe", "peephole: expected true or false, got \"maybe\"" },
		{ "memory=hots",   "memory: there is no value \"hots\"; did you mean host?" },
		{ "memory=zzzzzz", "memory: expected one of host, device, mixed, got \"zzzzzz\"" },
		{ "absent=h,w_gard", "absent: there is no value \"w_gard\"; did you mean w_grad?" },
		{ "absent=,",      "absent: expected none, or some of these values, with commas between them: h, cs, co, w_grad" },
		{ "absent=h,,cs",  "absent: expected none" },
		{ "absent=xxxxxxxx", "got \"xxxxxxxx\"" },
		{ "seed=-3",       "seed: expected an integer from 0 to" },
		{ "sede=3",        "sample has no sede; did you mean seed?" },
		{ "qqqqqqqq=3",    "sample has no qqqqqqqq; it has B, U, dtype" },
		{ "=3",            "sample has no " },
	};
	struct fields f;

	(void)state;
	fields_of(&f);
	for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
		sample = ordinary;
		if (field_set(&f, all[k].word) != CG_BAD_ARGUMENT || !strstr(cg_message(), all[k].message))
			fail_msg("%s: expected \"%s\" in \"%s\"", all[k].word, all[k].message, cg_message());
		assert_memory_equal(&sample, &ordinary, sizeof sample);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_shrink), cmocka_unit_test(test_code), cmocka_unit_test(test_fixed_fields),
		cmocka_unit_test(test_printed_case),
		cmocka_unit_test(test_refused),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("shrink", tests, NULL, NULL);
}
