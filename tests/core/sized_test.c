/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Structs of earlier and of later headers: a field that a shorter struct lacks has its default; a longer struct is accepted if it is at
 * most four times as long and the fields that this library lacks are zero; _init writes nothing beyond the caller's size.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "runtime/core/core.h"

/* A struct as the first header has it, as the present one has it, and as a later one might. */
struct first { size_t size; int count; double rate; };
struct now   { size_t size; int count; double rate; int mode; const char *name; };
struct later { size_t size; int count; double rate; int mode; const char *name; double more[2]; };

static void init(void *to, size_t size)
{
	static const struct now defaults = { .count = 7, .rate = 0.5, .mode = 3, .name = "name" };

	cg_sized_init(to, size, &defaults, sizeof defaults);
}

static const struct cg_sized sized = CG_SIZED(struct now, rate, init);

static void test_init(void **state)
{
	unsigned char memory[sizeof(struct later) + 16];

	(void)state;
	for (size_t size = 0; size <= sizeof(struct later); size++) {
		struct now whole = { .size = 0 };

		memset(memory, 0xaa, sizeof memory);
		init(memory, size);
		for (size_t k = size; k < sizeof memory; k++)
			assert_int_equal(memory[k], 0xaa);
		for (size_t k = sizeof whole; k < size; k++)
			assert_int_equal(memory[k], 0);
		memcpy(&whole, memory, size < sizeof whole ? size : sizeof whole);
		if (size >= sizeof(struct first)) {
			assert_int_equal(whole.size, size);
			assert_int_equal(whole.count, 7);
			assert_true(whole.rate == 0.5);
		}
		if (size >= sizeof whole)
			assert_int_equal(whole.mode, 3);
	}
	init(NULL, sizeof(struct now));
}

static void test_earlier(void **state)
{
	struct { struct first is; unsigned char beyond[64]; } old;
	const struct now *op;
	struct now storage;

	(void)state;
	memset(&old, 0xaa, sizeof old);
	init(&old.is, sizeof old.is);
	for (size_t k = 0; k < sizeof old.beyond; k++)
		assert_int_equal(old.beyond[k], 0xaa);
	old.is.count = 9;
	op = cg_sized_complete(&sized, &old.is, &storage);
	assert_ptr_equal(op, &storage);
	assert_int_equal(op->size, sizeof storage);
	assert_int_equal(op->count, 9);
	assert_true(op->rate == 0.5);
	assert_int_equal(op->mode, 3);
	assert_string_equal(op->name, "name");
	assert_int_equal(cg_sized_check("call", "now", op, sizeof storage), CG_OK);
	/* A struct that is shorter than in any header is rejected. */
	old.is.size = sized.first - 1;
	assert_ptr_equal(cg_sized_complete(&sized, &old.is, &storage), &old.is);
	assert_int_equal(cg_sized_check("call", "now", &old.is, sizeof storage), CG_BAD_ARGUMENT);
	assert_non_null(strstr(cg_message(), "call: size: expected"));
	assert_null(cg_sized_complete(&sized, NULL, &storage));
	assert_int_equal(cg_sized_check("call", "now", NULL, sizeof storage), CG_BAD_ARGUMENT);
}

static void test_later(void **state)
{
	struct later later;
	struct now storage;

	(void)state;
	init(&later, sizeof later);
	assert_ptr_equal(cg_sized_complete(&sized, &later, &storage), &later);
	assert_int_equal(cg_sized_check("call", "now", &later, sizeof storage), CG_OK);
	later.more[1] = 1;
	assert_int_equal(cg_sized_check("call", "now", &later, sizeof storage), CG_BAD_ARGUMENT);
	assert_non_null(strstr(cg_message(), "nonzero fields that this library lacks"));
	later.size = 5 * sizeof storage;
	assert_int_equal(cg_sized_check("call", "now", &later, sizeof storage), CG_BAD_ARGUMENT);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_init), cmocka_unit_test(test_earlier), cmocka_unit_test(test_later) };

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("sized", tests, NULL, NULL);
}
