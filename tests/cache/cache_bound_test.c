/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the limit on the cache's size, which entries are removed, files that writers left behind, and the library's calls by which
 * `cellgrad cache` lists and clears the cache.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "runtime/core/core.h"
#include "tests/help/cache_disk.h"

enum { ONE = 1000 };

/* Stores an entry under key k, and sets the time of its last use. */
static void put_old(int k, long used)
{
	const struct timespec times[2] = { { used, 0 }, { used, 0 } };
	static char bytes[ONE];
	char key[16];

	snprintf(key, sizeof key, "key %03d", k);
	cg_cache_put(key, strlen(key), bytes, sizeof bytes);
	utimensat(AT_FDCWD, path_of(key), times, 0);
}

static int is_stored(int k)
{
	char key[16];

	snprintf(key, sizeof key, "key %03d", k);
	return there(path_of(key));
}

static long size_of(int k)
{
	char key[16];
	struct stat s;

	snprintf(key, sizeof key, "key %03d", k);
	assert_int_equal(stat(path_of(key), &s), 0);
	return (long)s.st_size;
}

static void limit_to(long bytes)
{
	char text[24];

	snprintf(text, sizeof text, "%ld", bytes);
	setenv("CELLGRAD_CACHE_MAXSIZE", text, 1);
}

static void test_bound(void **state)
{
	static char bytes[ONE];
	char mine[PATH];
	long one;

	(void)state;
	put_old(0, 1000);
	one = size_of(0);
	snprintf(mine, sizeof mine, "%s/tmp-1.kernel", disk_folder);
	write_file(mine, bytes, ONE);
	limit_to(4 * one);
	put_old(1, 3000);
	put_old(2, 2000);
	put_old(3, 4000);
	assert_int_equal(files(), 5);
	put_old(4, 5000);
	assert_false(is_stored(0));
	/* A cg_cache_get of an entry counts as its use, so that entry 2 stays and entry 1 is removed. */
	assert_int_equal(has_bytes("key 002", bytes, ONE), 1);
	put_old(5, 6000);
	assert_true(is_stored(2) && is_stored(3) && is_stored(4) && is_stored(5) && !is_stored(1));
	/* An entry larger than the cache's limit is not stored, and removes nothing. */
	limit_to(one - 1);
	put_old(6, 7000);
	assert_true(is_stored(2) && is_stored(3) && is_stored(4) && is_stored(5));
	limit_to(0);
	put_old(6, 7000);
	assert_int_equal(files(), 5);
	limit_to(one);
	put_old(6, 7000);
	assert_true(is_stored(6));
	assert_int_equal(files(), 2);
	assert_true(there(mine));
}

/* Of 150 entries under a lower limit, one more put removes all but the five that were used last. */
static void test_bound_of_many(void **state)
{
	enum { MANY = 150, STAY = 5 };
	long one;

	(void)state;
	for (int k = 0; k < MANY; k++)
		put_old(k, 1000 + k * 37 % MANY);
	one = size_of(0);
	limit_to((STAY + 1) * one);
	put_old(MANY, 9000);
	assert_int_equal(files(), STAY + 1);
	for (int k = 0; k < MANY; k++)
		assert_int_equal(is_stored(k), k * 37 % MANY >= MANY - STAY);
}

static void test_leftovers(void **state)
{
	static const struct { const char *name; long age; int stays; } rows[] = {
		{ "123-0123456789abcdef.kernel-unfinished", 4000, 0 },
		{ "123-0123456789abcdee.kernel-unfinished", -4000, 0 },
		{ "123-0123456789abcded.kernel-unfinished", 3000, 1 },
		{ "x123-0123456789abcdef.kernel-unfinished", 4000, 1 },
		{ "123-0123456789abcdeg.kernel-unfinished", 4000, 1 },
		{ "-0123456789abcdef.kernel-unfinished", 4000, 1 },
		{ "notes.kernel", 4000, 1 },
	};
	struct timespec times[2] = { { 0, 0 }, { 0, 0 } };
	char path[PATH];

	(void)state;
	put("a", "the bytes");
	for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
		snprintf(path, sizeof path, "%s/%s", disk_folder, rows[k].name);
		write_file(path, "x", 1);
		times[0].tv_sec = times[1].tv_sec = time(NULL) - rows[k].age;
		assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
	}
	put("b", "more");
	for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
		snprintf(path, sizeof path, "%s/%s", disk_folder, rows[k].name);
		if (there(path) != rows[k].stays)
			fail_msg("%s: %s", rows[k].name, there(path) ? "stays" : "is gone");
	}
}

/* With a limit on file sizes, beyond which a write ends a process by a signal, a too large entry is not stored, but a small entry is. */
static int use_limited(void)
{
	struct rlimit limit;
	static char bytes[ONE];

	put("a", "the bytes");
	getrlimit(RLIMIT_FSIZE, &limit);
	limit.rlim_cur = ONE;
	if (setrlimit(RLIMIT_FSIZE, &limit))
		return 1;
	cg_cache_put("b", 1, bytes, sizeof bytes);
	put("c", "small");
	return has("a", "the bytes") != 1 || has("b", "") || has("c", "small") != 1 ? 2 : 0;
}

static void test_limited(void **state)
{
	(void)state;
	assert_int_equal(in_child(use_limited, 0), 0);
}

/* ---- what the command asks for ---- */

struct seen { int n, whole, failing; char about[8][CG_CACHE_ABOUT]; };

static int see(const struct cg_cache_entry *e, void *user)
{
	struct seen *seen = user;

	assert_true(seen->n < 8);
	snprintf(seen->about[seen->n++], CG_CACHE_ABOUT, "%s", e->about ? e->about : "?");
	seen->whole += e->about != NULL;
	assert_in_range(e->age + 60, 0, 120);
	return seen->failing ? cg_fail(seen->failing, "enough") : CG_OK;
}

static void test_list(void **state)
{
	struct seen seen = { 0 };
	char long_key[500], mine[PATH];
	uint64_t bytes;
	size_t n;

	(void)state;
	assert_int_equal(cg_cache_list(see, &seen), CG_OK);
	assert_int_equal(cg_cache_clear(&n, &bytes), CG_OK);
	assert_int_equal(seen.n + (int)n, 0);
	put("cuda sm_90 lstm\nand more\n", "one");
	memset(long_key, 'k', sizeof long_key);
	cg_cache_put(long_key, sizeof long_key, "two", 3);
	put("\033[31m\xff", "three");
	put("damaged", "four");
	assert_int_equal(truncate(path_of("damaged"), 90), 0);
	snprintf(mine, sizeof mine, "%s/mine", disk_folder);
	write_file(mine, "x", 1);
	setenv("CELLGRAD_CACHE", "off", 1);
	assert_int_equal(cg_cache_list(see, &seen), CG_OK);
	assert_int_equal(seen.n, 4);
	assert_int_equal(seen.whole, 3);
	for (int k = 0; k < 4; k++) {
		const char *a = seen.about[k];

		assert_true(!strcmp(a, "cuda sm_90 lstm") || !strcmp(a, "?[31m?") || !strcmp(a, "?") || strspn(a, "k") == CG_CACHE_ABOUT - 1);
	}
	seen = (struct seen){ .failing = CG_NO_MEMORY };
	assert_int_equal(cg_cache_list(see, &seen), CG_NO_MEMORY);
	assert_int_equal(seen.n, 1);
	assert_true(there(path_of("damaged")));          /* listing the entries does not remove the damaged entry */
	assert_int_equal(cg_cache_clear(&n, &bytes), CG_OK);
	assert_int_equal(n, 4);
	assert_in_range(bytes, 4 * 90, 2000);
	assert_int_equal(files(), 1);
	/* The message has the path of an entry that cannot be removed; in this test the entry is a folder. */
	assert_int_equal(mkdir(path_of("a"), 0700), 0);
	assert_int_equal(cg_cache_clear(&n, &bytes), CG_FILE);
	assert_non_null(strstr(cg_message(), path_of("a")));
	assert_int_equal(chmod(disk_folder, 0777), 0);
	assert_int_equal(cg_cache_list(see, &seen), CG_UNSUPPORTED);
	assert_int_equal(cg_cache_clear(&n, &bytes), CG_UNSUPPORTED);
	assert_non_null(strstr(cg_message(), "other users may write to it"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CACHE_TEST(test_bound), CACHE_TEST(test_bound_of_many), CACHE_TEST(test_leftovers), CACHE_TEST(test_limited),
		CACHE_TEST(test_list),
	};
	int status;

	if (disk_skip(&status))
		return status;
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("cache_bound", tests, NULL, NULL);
}
