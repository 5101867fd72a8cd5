/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the kernel texts that move rows: their form, their names, their launches, and the numbers that dropout takes. compile.sh compiles
 * them, and tests/backends tests what they move.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>

#include "tests/gen/check_text.h"
#include "gen/rows.h"
#include "verify/sequence.h"

static void test_texts(void **state)
{
	struct cg_rows_shape shapes[CG_ROWS_SHAPES];
	char key[CG_KEY_MAX];

	(void)state;
	for (int dtype = 0; dtype < CG_DTYPE_COUNT; dtype++) {
		struct cg_text moves = { resize, NULL, 0, 0, 0 };

		for (int k = cg_rows_shapes(dtype, shapes) - 1; k >= 0; k--)
			for (int lang = 0; lang < CG_LANG_COUNT; lang++) {
				struct cg_text text = { resize, NULL, 0, 0, 0 };

				assert_int_equal(cg_rows_index(&shapes[k]), k);
				assert_int_equal(cg_print_rows(&shapes[k], lang, &text), 0);
				cg_rows_key(&shapes[k], key);
				/* No text has vectors of four doubles, since these have 32 bytes and no load is wider than 16 bytes. */
				assert_true(!strstr(text.at, "vload4") || cg_dtypes[dtype].acc != CG_DTYPE_F64);
				check_text(text, key);
			}
		assert_int_equal(cg_print_rows_moves(dtype, &moves), 0);
		cg_rows_moves_key(dtype, key);
		check_text(moves, key);
	}
	assert_int_equal(memory.live, 0);
}

static void expect_key(struct cg_rows_shape s, const char *expected)
{
	struct cg_text text = { resize, NULL, 0, 0, 0 };
	char key[CG_KEY_MAX];

	cg_rows_key(&s, key);
	assert_string_equal(key, expected);
	assert_int_equal(cg_print_rows(&s, CG_LANG_C, &text), 0);
	assert_non_null(strstr(text.at, expected));
	resize(text.at, 0);
}

/* In f32 and f64 the type acc is the dtype itself, so the key of a kernel does not say whether src or dst is in acc. */
static void test_keys(void **state)
{
	(void)state;
	expect_key((struct cg_rows_shape){ 0, 1, 1, 0 }, "cg_rows_f32");
	expect_key((struct cg_rows_shape){ 1, 0, 1, 4 }, "cg_rows_f64_drop");
	expect_key((struct cg_rows_shape){ 2, 1, 0, 0 }, "cg_rows_f16_src_acc");
	expect_key((struct cg_rows_shape){ 3, 0, 2, 1 }, "cg_rows_bf16_dst_acc_drop");
}

static int64_t up(int64_t x, int64_t by)
{
	return (x + by - 1) / by;
}

/* The work-groups of a launch cover all rows and columns at once, unless that takes more work-groups than a grid has; a work-group has no
 * more threads than the device allows. */
static void test_launch(void **state)
{
	static const int64_t sizes[] = { 1, 2, 4, 5, 100, 1023, 1024, 1025, 70000, 20000000 };
	static const int groups[] = { 1, 3, 64, 256, 1024 };
	size_t global[2], local[2];

	(void)state;
	assert_int_equal(cg_rows_launch(0, 5, 0, 256, 1, global, local), 0);
	assert_int_equal(cg_rows_launch(5, 0, 0, 256, 1, global, local), 0);
	for (int i = 0; i < 10; i++)
		for (int j = 0; j < 10; j++)
			for (int k = 0; k < 5; k++)
				for (int unit = 0; unit < 4; unit++)
					for (int tall = 0; tall < 2; tall++) {
						int64_t runs = up(sizes[j] + unit, 4), across, down;

						assert_int_equal(cg_rows_launch(sizes[i], sizes[j], unit, groups[k], tall ? groups[k] : 1, global,
						                                local), 1);
						across = (int64_t)(global[0] / local[0]);
						down = (int64_t)(global[1] / local[1]);
						assert_true(local[0] * local[1] <= (size_t)groups[k] && local[0] * local[1] <= 256);
						assert_true(tall || local[1] == 1);
						assert_true(global[0] % local[0] == 0 && global[1] % local[1] == 0);
						assert_true((int64_t)global[0] >= runs || across == 65535);
						assert_true((int64_t)global[1] >= sizes[i] || down == 65535);
						assert_true(across <= 65535 && down <= 65535);
					}
}

/* The kernel of several moves has its parameters in the order of the enum, in which a launch binds them. */
static void test_arguments_of_moves(void **state)
{
	static const char *const names[CG_MOVES_ARGUMENTS] = {
		[CG_MOVES_LIST] = "moves moves", [CG_MOVES_T] = "t_at", [CG_MOVES_B] = "b_at", [CG_MOVES_FIRST_T] = "first_t",
		[CG_MOVES_BATCH] = "batch", [CG_MOVES_BELOW] = "below", [CG_MOVES_SCALE] = "scale",
	};
	struct cg_text text = { resize, NULL, 0, 0, 0 };
	char key[CG_KEY_MAX];
	const char *at = NULL;
	const int dtype = 0;

	(void)state;
	assert_int_equal(cg_print_rows_moves(dtype, &text), 0);
	cg_rows_moves_key(dtype, key);
	/* In the text the kernel's parameters follow the last occurrence of the kernel's key. */
	for (const char *next = text.at; (next = strstr(next, key)); next++)
		at = next;
	for (int k = 0; k < CG_MOVES_ARGUMENTS; k++) {
		at = strstr(at, names[k]);
		assert_non_null(at);
	}
	assert_true(strchr(at, ')') < strchr(at, ','));
	resize(text.at, 0);
}

/* Each of the moves that share a launch has blocks of its own, in the order of the moves: enough for the whole move, but at most 32 for
   each multiprocessor. */
static void test_launch_moves(void **state)
{
	static const int64_t sizes[] = { 1, 2, 4, 5, 100, 1023, 1024, 1025, 70000, INT64_C(20000000000) };
	struct cg_rows_move moves[CG_ROWS_MOVES] = { { .rows = 1 } };

	(void)state;
	random_start();
	for (int trial = 0; trial < 5000; trial++) {
		int n = 1 + (int)random_below(CG_ROWS_MOVES), threads = 1 << random_below(9), units = 1 + (int)random_below(200);
		uint32_t past = 0, blocks;

		for (int k = 0; k < n; k++)
			moves[k] = (struct cg_rows_move){ .rows = sizes[random_below(10)], .columns = sizes[random_below(10)] };
		blocks = cg_rows_moves_launch(moves, n, threads, units);
		for (int k = 0; k < n; k++) {
			const struct cg_rows_move *m = &moves[k];
			int64_t across = m->across, down = (m->past - past) / m->across, runs = up(m->columns, 4);
			int64_t wide = 1 << m->wide, tall = threads >> m->wide;

			assert_true(tall >= 1 && across >= 1 && down >= 1 && across * down == m->past - past);
			assert_true(across * down <= 32 * units);
			/* Blocks go along the row first; rows without a block of their own are processed in turns. */
			assert_true(across * wide >= runs || across == 32 * units);
			assert_true(down * tall >= m->rows || (down + 1) * across > 32 * units);
			assert_true(wide == 1 || wide / 2 < runs);
			assert_true(across == 1 || (across - 1) * wide < runs);
			assert_true(down == 1 || (down - 1) * tall < m->rows);
			past = m->past;
		}
		assert_true(blocks == past);
	}
}

static void test_dropout(void **state)
{
	(void)state;
	random_start();
	for (int k = 0; k < 1000; k++) {
		int64_t seed = (int64_t)random_bits(), seed2 = (int64_t)random_bits(), layer = random_below(9);
		uint64_t call = random_bits();

		assert_true(cg_drop_key(seed, seed2, call, layer) == ref_dropout_layer_key(ref_dropout_key(seed, seed2), call, layer));
	}
	assert_true(cg_drop_below(0) == 0 && cg_drop_below(1) == INT64_C(1) << 32 && cg_drop_below(0.3) == 0x4ccccccc);
	assert_true(cg_drop_below(0x1p-33) == 0 && cg_drop_below(0x1p-32) == 1);
	assert_true(cg_drop_scale(0.5) == 2 && cg_drop_scale(0) == 1 && cg_drop_scale(1) == 0);
}

/* Each request for memory in turn is refused, with all requests after it. */
static void test_no_memory(void **state)
{
	(void)state;
	/* In its last round, with CG_LANG_COUNT, the loop prints the kernel that makes several moves in one launch. */
	for (int lang = 0; lang <= CG_LANG_COUNT; lang++)
		for (int drop = 0; drop < 2; drop++) {
			struct cg_rows_shape s = { 2, 1, 0, drop };
			int failed = 1;

			for (long at = 1; failed; at++) {
				struct cg_text text = { resize, NULL, 0, 0, 0 };

				memory.requests = 0;
				memory.fail_at = at;
				failed = lang < CG_LANG_COUNT ? cg_print_rows(&s, lang, &text) : cg_print_rows_moves(2 + drop, &text);
				memory.fail_at = 0;
				assert_true(failed || at > 3);
				resize(text.at, 0);
				assert_int_equal(memory.live, 0);
			}
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_texts), cmocka_unit_test(test_keys), cmocka_unit_test(test_arguments_of_moves), cmocka_unit_test(test_launch),
		cmocka_unit_test(test_launch_moves), cmocka_unit_test(test_dropout), cmocka_unit_test(test_no_memory),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
