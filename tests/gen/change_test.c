/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The texts of built-in cells, changed at random, give a cell or an error with a line and a column. If a request for memory is refused,
 * each of the compiler's in turn, the compiler gives up without a message, and nothing leaks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/gen/every.h"

enum { MUTATIONS = 100000, PLAN_EVERY = 20 };

static void plan_and_print(const struct cg_cell *cell)
{
	struct cg_mistake mistake;
	struct cg_text text = { resize, NULL, 0, 0, 0 };
	struct cg_pass_plan *plan = cg_plan(cell, random_below(1 << cell->n_options),
	                                    random_below(CG_PASS_COUNT), 0, random_below(4),
	                                    resize, &mistake);

	assert_true(plan ? !mistake.text[0] : mistake.text[0] != 0);
	if (plan)
		assert_int_equal(cg_print(plan, random_below(3), &text), 0);
	if (plan)
		assert_int_equal(cg_print_manifest(plan, random_below(3), &text), 0);
	resize(text.at, 0);
	cg_plan_free(plan);
}

static void mutate(char *text, size_t capacity)
{
	static const char *const bits[] = { "a_i", "h", "h_prev", "(", ")", "-", "\n", "stage h\n", "gates x\n", "tanh(", "1e9", "," };
	size_t n = strlen(text), at = (size_t)random_below((int)n + 1), length;

	switch (random_below(5)) {
	case 0:                                   /* changes a byte */
		if (n)
			text[at % n] = (char)(random_bits() >> (random_below(2) ? 57 : 56));
		break;
	case 1:                                   /* removes a part */
		length = (size_t)random_below(1 + (random_below(3) ? 3 : 60));
		length = at + length > n ? n - at : length;
		memmove(text + at, text + at + length, n - at - length + 1);
		break;
	case 2: {                                 /* repeats a part */
		length = (size_t)random_below(40);
		length = at + length > n ? n - at : length;
		if (n + length < capacity)
			memmove(text + at + length, text + at, n - at + 1);
		break;
	}
	case 3: {                                 /* inserts a word, which may be wrong there */
		const char *bit = bits[random_below(12)];

		length = strlen(bit);
		if (n + length < capacity) {
			memmove(text + at + length, text + at, n - at + 1);
			memcpy(text + at, bit, length);
		}
		break;
	}
	case 4:                                   /* cuts off the end */
		if (!random_below(10))
			text[at] = 0;
		break;
	}
}

static void test_mutations(void **state)
{
	static char text[1 << 14];
	struct cg_cell *cell;
	int good = 0, cells = built_ins();
	char name[32];

	(void)state;
	for (int n = 0; n < MUTATIONS; n++) {
		struct cg_mistake mistake = { "left over" };

		strcpy(text, built_in(random_below(cells), name));
		for (int k = random_below(4); k >= 0; k--)
			mutate(text, sizeof text);
		cell = cg_parse(text, "x", resize, &mistake);
		assert_true(memchr(mistake.text, 0, sizeof mistake.text) != NULL);
		assert_true(cell ? !mistake.text[0] : !strncmp(mistake.text, "x:", 2));
		if (cell && !(good++ % PLAN_EVERY))
			plan_and_print(cell);
		cg_parse_free(cell);
		assert_int_equal(memory.live, 0);
	}
	printf("# %d of %d changed cells were still cells\n", good, MUTATIONS);
	assert_true(good > MUTATIONS / 50);
}

/* ---- no memory ---- */

/* Parses a cell, and plans and prints a pass with all its options; returns 0 when memory ran out, without a message. */
static int compiled(const char *text, int pass)
{
	struct cg_mistake mistake = { "left over" };
	struct cg_text out = { resize, NULL, 0, 0, 0 };
	struct cg_cell *cell = cg_parse(text, "x", resize, &mistake);
	struct cg_pass_plan *plan;
	int done = 0;

	assert_string_equal(mistake.text, "");
	if (!cell)
		return 0;
	strcpy(mistake.text, "left over");
	plan = cg_plan(cell, (1 << cell->n_options) - 1, pass, 0, 0, resize, &mistake);
	assert_string_equal(mistake.text, "");
	if (plan) {
		int printed = cg_print(plan, CG_LANG_CUDA, &out), listed = cg_print_manifest(plan, CG_LANG_C, &out);

		assert_int_equal(printed || listed, out.failed);
		done = !out.failed;
	}
	resize(out.at, 0);
	cg_plan_free(plan);
	cg_parse_free(cell);
	return done;
}

static void test_no_memory(void **state)
{
	char name[32];
	const char *text;

	(void)state;
	for (int k = 0; (text = built_in(k, name)); k++)
		for (int pass = 0; pass < CG_PASS_COUNT; pass++) {
			int done = 0;

			for (memory.fail_at = 1; !done; memory.fail_at++) {
				memory.requests = 0;
				done = compiled(text, pass);
				assert_int_equal(memory.live, 0);
				assert_true(done ? memory.requests < memory.fail_at : memory.requests >= memory.fail_at);
			}
			memory.fail_at = 0;
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_mutations), cmocka_unit_test(test_no_memory) };

	cmocka_set_message_output(CM_OUTPUT_TAP);
	random_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
