/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Matrix products before any device runs them: tiles fit the properties of the device, launches cover c, texts have their key and no
 * holes, plans list the parameters of the texts, and invalid requests are rejected. gemm_run.c tests what the products compute.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/gen/check_text.h"
#include "gen/rows.h"

static const struct cg_gemm_limits devices[] = {
	/* the columns: cpu, units, group, local_bytes, vector_bytes, fma */
	{ 1,   2, 4096, 1 << 20, 64, 1 },
	{ 1,  64, 8192, 1 << 15, 64, 1 },
	{ 1,   4, 4096, 1 << 18, 32, 1 },
	{ 1,   1,    1, 1 << 19, 16, 0 },
	{ 1,   8, 4096, 1 << 20,  4, 0 },
	{ 1,   8, 4096, 1 << 20, 256, 1 },
	{ 0, 132, 1024, 48 << 10, 4, 1 },
	{ 0,  40,  256, 64 << 10, 4, 1 },
	{ 0,   1,  128, 32 << 10, 4, 0 },
	{ 0,   8,   64, 16 << 10, 16, 1 },
	{ 0,   8,   16, 16 << 10, 16, 1 },
};
static const int64_t lengths[] = { 1, 2, 7, 16, 32, 100, 512, 3200, 100000, (int64_t)1 << 40 };

#define EACH(k, list) size_t k = 0; k < sizeof (list) / sizeof *(list); k++

/* Runs `check` for the shape that each of `devices` gets, for every dtype and all sizes of c from `lengths`. */
static void every_tile(void (*check)(const struct cg_gemm_shape *, const struct cg_gemm_limits *, int64_t m, int64_t n))
{
	for (EACH(d, devices))
		for (int dtype = 0; dtype < CG_DTYPE_COUNT; dtype++)
			for (EACH(i, lengths))
				for (EACH(j, lengths)) {
					struct cg_gemm_shape s = { .dtype = dtype, .transpose_a = (int)(i & 1), .transpose_b = (int)(j & 1) };

					/* Lengths above SIZE_MAX / 4 are left out: 2^40 where a size_t has 32 bits. */
					if ((uint64_t)lengths[i] > SIZE_MAX / 4 || (uint64_t)lengths[j] > SIZE_MAX / 4)
						continue;
					assert_int_equal(cg_gemm_tile(&s, &devices[d], lengths[i], lengths[j]), 0);
					check(&s, &devices[d], lengths[i], lengths[j]);
				}
}

static void check_fits(const struct cg_gemm_shape *s, const struct cg_gemm_limits *limits, int64_t m, int64_t n)
{
	size_t global[2], local[2];

	assert_true(cg_gemm_launch(s, m, n, global, local));
	assert_true(cg_gemm_local_bytes(s) <= limits->local_bytes);
	assert_true(local[0] * local[1] <= (size_t)limits->group);
	assert_int_equal(s->local, !limits->cpu);
	assert_int_equal(s->fma, limits->fma);
	/* The groups cover c, except with local memory where 65535 groups in the second direction, the most that there are, do not suffice. */
	assert_int_equal(global[0] % local[0], 0);
	assert_int_equal(global[1] % local[1], 0);
	assert_true((int64_t)(global[0] / local[0]) * s->columns >= n);
	assert_true((int64_t)(global[0] / local[0] - 1) * s->columns < n);
	assert_true((int64_t)global[1] * s->rows >= m || (s->local && global[1] == 65535));
	assert_true((int64_t)(global[1] - 1) * s->rows < m);
}

static void test_fits(void **state)
{
	(void)state;
	every_tile(check_fits);
}

static void check_texts(const struct cg_gemm_shape *s, const struct cg_gemm_limits *limits, int64_t m, int64_t n)
{
	/* A vector has two elements at least. */
	int narrowest = s->dtype == 1 ? 16 : 8, widest = limits->vector_bytes > narrowest ? limits->vector_bytes : narrowest;

	for (int lang = CG_LANG_OPENCL; lang < CG_LANG_COUNT && m == 512 && n < 513; lang++) {
		struct cg_text text = { resize, NULL, 0, 0, 0 };
		char key[CG_KEY_MAX];

		if (lang == CG_LANG_CUDA && !s->local)
			continue;
		assert_int_equal(cg_print_gemm(s, lang, &text), 0);
		cg_gemm_key(s, key);
		if (!s->local)
			assert_in_range(vector_bytes_of(text.at), narrowest, widest);
		check_text(text, key);
	}
}

static void test_texts(void **state)
{
	(void)state;
	every_tile(check_texts);
	assert_int_equal(memory.live, 0);
}

static struct cg_gemm_shape shape_for(const struct cg_gemm_limits *limits, int dtype, int64_t m, int64_t n)
{
	struct cg_gemm_shape s = { .dtype = dtype };

	assert_int_equal(cg_gemm_tile(&s, limits, m, n), 0);
	return s;
}

/* Expects seven choices of cg_gemm_tile(): large tiles for a large c, small ones for a small c, and tiles that use a CPU's registers. */
static void test_choice(void **state)
{
	const struct cg_gemm_limits *cpu = &devices[0], *gpu = &devices[6];
	struct cg_gemm_shape s = shape_for(cpu, 0, 3200, 2048);

	(void)state;
	assert_int_equal(s.rows * s.columns, 128 * 192);
	assert_int_equal(s.item_rows, 8);
	assert_int_equal(s.item_columns, 48);
	s = shape_for(cpu, 1, 3200, 2048);
	assert_int_equal(s.vector, 8);
	s = shape_for(&devices[2], 0, 3200, 2048);
	assert_int_equal(s.vector, 8);
	assert_int_equal(s.item_rows, 4);
	s = shape_for(cpu, 0, 1, 200);
	assert_int_equal(s.columns, 48);
	s = shape_for(gpu, 0, 3200, 2048);
	assert_int_equal(s.rows, 128);
	s = shape_for(gpu, 0, 1024, 1024);
	assert_int_equal(s.rows, 64);
	s = shape_for(gpu, 0, 32, 2048);
	assert_int_equal(s.rows, 16);
}

/* In f32 the types acc and real are one, so start_acc and c_acc make no other shape, nor a second kernel; in f16 start_acc does. */
static void test_equal(void **state)
{
	struct cg_gemm_shape s = { .dtype = 0, .start_acc = 1, .c_acc = 1, .transpose_a = 4 }, same = { .dtype = 0, .transpose_a = 1 };

	(void)state;
	assert_int_equal(cg_gemm_tile(&s, &devices[0], 100, 100), 0);
	assert_int_equal(cg_gemm_tile(&same, &devices[0], 100, 100), 0);
	assert_memory_equal(&s, &same, sizeof s);
	s.dtype = same.dtype = 2;
	s.start_acc = 1;
	assert_int_equal(cg_gemm_tile(&s, &devices[0], 100, 100), 0);
	assert_int_equal(s.start_acc, 1);
}

static void test_nothing(void **state)
{
	struct cg_gemm_shape s = shape_for(&devices[0], 0, 0, 0);
	size_t global[2], local[2];

	(void)state;
	assert_int_equal(cg_gemm_launch(&s, 0, 5, global, local), 0);
	assert_int_equal(cg_gemm_launch(&s, 5, 0, global, local), 0);
	s = shape_for(&devices[6], 3, 0, 9);
	assert_int_equal(cg_gemm_launch(&s, 0, 9, global, local), 0);
}

static void refuse(struct cg_gemm_shape s, int lang)
{
	struct cg_text text = { resize, NULL, 0, 0, 0 };

	assert_int_equal(cg_print_gemm(&s, lang, &text), -1);
	assert_null(text.at);
}

static void test_refused(void **state)
{
	struct cg_gemm_limits none = { 1, 1, 1, 1000, 64, 1 };
	struct cg_gemm_shape s = { .dtype = 2, .rows = 77 }, as_it_was = s;
	static const size_t fields[] = {
		offsetof(struct cg_gemm_shape, rows), offsetof(struct cg_gemm_shape, columns), offsetof(struct cg_gemm_shape, depth),
		offsetof(struct cg_gemm_shape, item_rows), offsetof(struct cg_gemm_shape, item_columns),
		offsetof(struct cg_gemm_shape, vector),
	};

	(void)state;
	assert_int_equal(cg_gemm_tile(&s, &none, 10, 10), -1);
	assert_memory_equal(&s, &as_it_was, sizeof s);
	for (int local = 0; local < 2; local++) {
		s = shape_for(&devices[local ? 6 : 0], 0, 100, 100);
		refuse(s, CG_LANG_C);
		if (!local)
			refuse(s, CG_LANG_CUDA);
		for (EACH(f, fields)) {
			struct cg_gemm_shape bad = s;
			int *field = (int *)(void *)((char *)&bad + fields[f]);

			*field = 0;
			refuse(bad, CG_LANG_OPENCL);
			*field = -8;
			refuse(bad, CG_LANG_OPENCL);
			if (fields[f] != offsetof(struct cg_gemm_shape, depth)) {
				*field = 7;
				refuse(bad, CG_LANG_OPENCL);
			}
		}
	}
}

/* Each request for memory in turn is refused, with all requests after it. */
static void test_no_memory(void **state)
{
	struct cg_gemm_shape shapes[] = { shape_for(&devices[0], 2, 100, 100), shape_for(&devices[6], 2, 100, 100) };

	(void)state;
	for (EACH(k, shapes)) {
		int failed = 1;

		for (long at = 1; failed; at++) {
			struct cg_text text = { resize, NULL, 0, 0, 0 };

			memory.requests = 0;
			memory.fail_at = at;
			failed = cg_print_gemm(&shapes[k], CG_LANG_OPENCL, &text);
			memory.fail_at = 0;
			assert_true(failed || at > 3);
			resize(text.at, 0);
			assert_int_equal(memory.live, 0);
		}
	}
}

/* ---- plans ---- */

/* Expects a whole word in the text from *at on, and moves *at behind it. */
static void expect_word(const char **at, const char *key, const char *form, const char *name)
{
	char word[64];
	size_t n = (size_t)snprintf(word, sizeof word, form, name);
	const char *found = *at;

	while ((found = strstr(found, word)) && (strchr("abcdefghijklmnopqrstuvwxyz_", found[-1]) || !strchr(",)", found[n])))
		found++;
	if (!found)
		fail_msg("%s: expected the parameter %s in %.60s", key, word, *at);
	*at = found + n;
}

/* The text has the parameters that the arguments list, in their order, and no others. */
static void expect_parameters(const struct cg_pass_plan *plan, int lang)
{
	const struct cg_function *function = &plan->functions[0];
	struct cg_text text = { resize, NULL, 0, 0, 0 };
	char call[CG_KEY_MAX + 2];
	const char *at, *end;
	int parameters = 0;

	assert_int_equal(cg_print(plan, lang, &text), 0);
	snprintf(call, sizeof call, "%s(", plan->key);
	at = strstr(text.at, call);
	assert_non_null(at);
	end = strstr(at, "\n{");
	assert_non_null(end);
	for (const char *c = at; c < end; c++)
		parameters += *c == ',' || *c == ')';
	for (int k = 0; k < function->n_arguments; k++) {
		const struct cg_argument *a = &function->arguments[k];
		int memory = a->kind == CG_KIND_TENSOR || a->kind == CG_KIND_PER_ROW;

		parameters -= 1 + (memory && cg_dialects[lang].offsets) + (a->kind == CG_KIND_TENSOR);

		expect_word(&at, plan->key, memory ? "%s_at" : "%s", a->name);
		if (memory && cg_dialects[lang].offsets)
			expect_word(&at, plan->key, "%s_offset", a->name);
		if (a->kind == CG_KIND_TENSOR)
			expect_word(&at, plan->key, "%s_stride", a->name);
	}
	assert_ptr_equal(at, end - 1);
	assert_int_equal(parameters, 0);
	resize(text.at, 0);
}

static void test_plans(void **state)
{
	const struct cg_gemm_limits gpu = { .units = 8, .group = 256, .local_bytes = 1 << 15, .fma = 1 };

	(void)state;
	for (int dtype = 0; dtype < 4; dtype++)
		for (int lang = CG_LANG_OPENCL; lang < CG_LANG_COUNT; lang++) {
			struct cg_gemm_shape s = { .dtype = dtype, .c_acc = 1 };
			struct cg_rows_shape rows[CG_ROWS_SHAPES];
			struct cg_pass_plan *plan;

			assert_int_equal(cg_gemm_tile(&s, &gpu, 64, 64), 0);
			plan = cg_gemm_plan(&s, resize);
			expect_parameters(plan, lang);
			cg_plan_free(plan);
			for (int k = cg_rows_shapes(dtype, rows) - 1; k >= 0; k--) {
				plan = cg_rows_plan(&rows[k], resize);
				expect_parameters(plan, lang);
				cg_plan_free(plan);
			}
		}
	assert_int_equal(memory.live, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_fits),
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_choice),
		cmocka_unit_test(test_equal),
		cmocka_unit_test(test_nothing),
		cmocka_unit_test(test_refused),
		cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_plans),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
