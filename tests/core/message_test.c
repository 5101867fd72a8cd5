/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Error messages, the nearest name, and memory that fails on request.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/core/core.h"

static void test_no_message_yet(void **state)
{
	(void)state;
	assert_string_equal(cg_message(), "");
}

static void test_fail_writes_and_returns(void **state)
{
	(void)state;
	assert_int_equal(cg_fail(CG_FILE, "%s: %d", "a", 1), CG_FILE);
	assert_string_equal(cg_message(), "a: 1");
	assert_int_equal(cg_fail_in(CG_BUILD, "cell %s", "lstm"), CG_BUILD);
	assert_string_equal(cg_message(), "cell lstm: a: 1");
	assert_int_equal(cg_fail(CG_DRIVER, "again, %s", cg_message()), CG_DRIVER);
	assert_string_equal(cg_message(), "again, cell lstm: a: 1");
	cg_fail_in(CG_DRIVER, "%s", cg_message());
	assert_string_equal(cg_message(), "again, cell lstm: a: 1: again, cell lstm: a: 1");
}

static void test_long_messages_are_cut(void **state)
{
	static char text[20000];
	size_t n, i;

	(void)state;
	memset(text, 'x', sizeof text - 1);
	cg_fail(CG_BUILD, "%s", text);
	n = strlen(cg_message());
	assert_int_equal(n, 4095);
	assert_string_equal(cg_message() + n - 5, "xx...");

	/* A message that just fits is whole; one that is longer by a character ends in three dots. */
	cg_fail(CG_BUILD, "%.*s", 4095, text);
	assert_string_equal(cg_message() + 4090, "xxxxx");
	cg_fail(CG_BUILD, "%.*s", 4096, text);
	assert_string_equal(cg_message() + 4090, "xx...");

	/* A prefix displaces the end of the message, and only a prefix that is too long is cut itself. */
	cg_fail_in(CG_BUILD, "log");
	assert_int_equal(strlen(cg_message()), 4095);
	assert_memory_equal(cg_message(), "log: xxx", 8);
	assert_string_equal(cg_message() + 4090, "xx...");
	cg_fail_in(CG_BUILD, "%s", text);
	assert_int_equal(strlen(cg_message()), 4095);
	assert_string_equal(cg_message() + 4090, "xx...");
	for (i = 0; i < 10; i++)
		cg_fail_in(CG_BUILD, "%s", cg_message());
	assert_int_equal(strlen(cg_message()), 4095);

	/* Characters of two, three and four bytes are not cut in the middle, wherever they are. */
	for (i = 0; i < 4; i++) {
		static const char *const letters[] = { "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9d\x84\x9e" };
		size_t k, size;

		for (k = 0; k < 3; k++) {
			size = strlen(letters[k]);
			memset(text, 'x', i);
			for (n = i; n + size < sizeof text; n += size)
				memcpy(text + n, letters[k], size);
			text[n] = 0;
			cg_fail(CG_BUILD, "%s", text);
			n = strlen(cg_message());
			assert_true(n <= 4095 && n > 4095 - 4);
			assert_string_equal(cg_message() + n - 3, "...");
			assert_int_equal((n - 3 - i) % size, 0);
		}
	}
}

static void *other_thread(void *kept)
{
	int i;

	if (*cg_message())                               /* the main thread's failures leave this thread's message empty */
		return NULL;
	for (i = 0; i < 1000; i++) {
		char want[32];

		cg_fail(CG_FILE, "%p %d", kept, i);
		snprintf(want, sizeof want, "%p %d", kept, i);
		if (strcmp(cg_message(), want))
			return NULL;
	}
	return kept;
}

static void test_messages_are_per_thread(void **state)
{
	pthread_t threads[8];
	char ids[8];
	void *result;
	int i;

	(void)state;
	cg_fail(CG_FILE, "mine");
	for (i = 0; i < 8; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, other_thread, &ids[i]), 0);
	for (i = 0; i < 8; i++) {
		assert_int_equal(pthread_join(threads[i], &result), 0);
		assert_ptr_equal(result, &ids[i]);
	}
	assert_string_equal(cg_message(), "mine");
}

static void test_version(void **state)
{
	char want[32];

	(void)state;
	snprintf(want, sizeof want, "%d.%d.%d", CG_VERSION_MAJOR, CG_VERSION_MINOR, CG_VERSION_PATCH);
	assert_string_equal(cg_version(), want);
}

static void test_nearest(void **state)
{
	static const char *const names[] = { "cpu", "cuda", "opencl", "lstm_block_cell", "GRUBlockCell", "x", "w" };
	static const struct { const char *name, *nearest; } cases[] = {
		{ "cpu", "cpu" }, { "CPU", "cpu" }, { "cp", "cpu" }, { "cpuu", "cpu" }, { "upc", NULL }, { "pcu", "cpu" },
		{ "cudda", "cuda" }, { "cdua", "cuda" }, { "cuba", "cuda" }, { "openc", "opencl" },
		{ "opnecl", "opencl" }, { "lstm_block", "lstm_block_cell" }, { "lstmblockcell", "lstm_block_cell" },
		{ "gru_block_cell", "GRUBlockCell" },
		{ "y", NULL }, { "", NULL }, { "metal", NULL }, { "vulkan", NULL }
	};
	char longest[400];
	size_t i;

	(void)state;
	for (i = 0; i < sizeof cases / sizeof *cases; i++) {
		const char *nearest = cg_nearest(cases[i].name, names, 7);

		if (nearest != cases[i].nearest && (!nearest || !cases[i].nearest || strcmp(nearest, cases[i].nearest)))
			fail_msg("%s: %s, not %s", cases[i].name, nearest ? nearest : "none",
			         cases[i].nearest ? cases[i].nearest : "none");
	}
	assert_null(cg_nearest("cpu", names, 0));
	for (i = 60; i < 67; i++) {                      /* words of up to 63 letters are compared */
		const char *const same[] = { longest };

		memset(longest, 'a', i);
		longest[i] = 0;
		assert_ptr_equal(cg_nearest(longest, same, 1), i < 64 ? longest : NULL);
	}
	memset(longest, 'c', sizeof longest - 1);
	longest[sizeof longest - 1] = 0;
	assert_null(cg_nearest(longest, names, 7));
}

static void test_resized_memory(void **state)
{
	char *p, *q;

	(void)state;
	cg_memory_fail(0);
	assert_null(cg_memory(NULL, 0));
	p = cg_memory(NULL, 10);
	assert_non_null(p);
	memcpy(p, "123456789", 10);
	q = cg_memory(p, 100000);
	assert_non_null(q);
	assert_string_equal(q, "123456789");
	assert_null(cg_memory(q, 0));
	assert_int_equal(cg_memory_fail(0), 2);          /* a call that frees is not counted as a request */
	assert_int_equal(cg_memory_fail(0), 0);
}

static void test_memory_fails_on_request(void **state)
{
	size_t n, i;

	(void)state;
	for (n = 1; n <= 3; n++) {
		char *p = NULL, *q;

		cg_memory_fail(n);
		for (i = 1; i <= 3; i++) {
			q = cg_memory(p, 10 * i);
			assert_int_equal(!q, i == n);
			if (q)
				p = q;
			else
				assert_string_equal(cg_message(), n == 1 ? "no memory for 10 bytes"
				                    : n == 2 ? "no memory for 20 bytes" : "no memory for 30 bytes");
			if (p)
				p[0] = 1;                /* a memory block stays writable if cg_memory() cannot enlarge it */
		}
		assert_int_equal(cg_memory_fail(0), 3);
		cg_memory(p, 0);
	}
}

static void test_memory_that_nobody_has(void **state)
{
	char *p = cg_memory(NULL, 8), want[64];

	(void)state;
	assert_null(cg_memory(p, SIZE_MAX));
	snprintf(want, sizeof want, "no memory for %zu bytes", SIZE_MAX);
	assert_string_equal(cg_message(), want);
	assert_null(cg_memory(p, (size_t)PTRDIFF_MAX + 1));
	p[7] = 1;
	cg_memory(p, 0);
}

static void *requests(void *unused)
{
	int i;

	(void)unused;
	for (i = 0; i < 1000; i++)
		cg_memory(cg_memory(NULL, 8), 0);
	return NULL;
}

static void test_requests_of_threads_are_counted(void **state)
{
	pthread_t threads[4];
	int i;

	(void)state;
	cg_memory_fail(0);
	for (i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, requests, NULL), 0);
	for (i = 0; i < 4; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	assert_int_equal(cg_memory_fail(0), 4000);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_no_message_yet),
		cmocka_unit_test(test_fail_writes_and_returns),
		cmocka_unit_test(test_long_messages_are_cut),
		cmocka_unit_test(test_messages_are_per_thread),
		cmocka_unit_test(test_version),
		cmocka_unit_test(test_nearest),
		cmocka_unit_test(test_resized_memory),
		cmocka_unit_test(test_memory_fails_on_request),
		cmocka_unit_test(test_memory_that_nobody_has),
		cmocka_unit_test(test_requests_of_threads_are_counted)
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("message", tests, NULL, NULL);
}
