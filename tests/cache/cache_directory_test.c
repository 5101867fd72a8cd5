/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests where the cache is, by the environment, and which folders the cache rejects: those of other users, those that others can write,
 * links, and paths that are not absolute.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/help/cache_disk.h"

static void expect_none(const char *why)
{
	struct cg_cache_directory directory;

	cg_cache_find_directory(&directory);
	if (!strstr(directory.why, why) || directory.reads || directory.writes)
		fail_msg("expected \"%s\", got \"%s\"", why, directory.why);
	assert_int_equal(has("a", "the bytes"), 0);
	put("a", "the bytes");
	assert_int_equal(has("a", "the bytes"), 0);
}

static void expect_at(const char *path)
{
	struct cg_cache_directory directory;

	cg_cache_find_directory(&directory);
	assert_string_equal(directory.why, "");
	assert_string_equal(directory.path, path);
	assert_true(directory.reads && directory.writes && directory.most == CG_CACHE_MOST);
	put("a", "the bytes");
	assert_int_equal(has("a", "the bytes"), 1);
	assert_true(there(path));
	disk_remove(path);
}

static uid_t someone_else(void)
{
	return geteuid() + 1;
}

static void test_folders(void **state)
{
	char link[PATH], path[PATH + 8];

	(void)state;
	assert_int_equal(mkdir(disk_folder, 0700), 0);
	assert_int_equal(chmod(disk_folder, 0720), 0);
	expect_none("kernels: other users may write to it, by its mode 720");
	assert_int_equal(chmod(disk_folder, 01777), 0);
	expect_none("kernels: other users may write to it, by its mode 777");
	assert_int_equal(files(), 0);
	assert_int_equal(chmod(disk_folder, 0755), 0);
	cg_disk.geteuid = someone_else;
	expect_none("kernels: expected a folder of user ");
	cg_disk.geteuid = disk_real.geteuid;
	assert_int_equal(files(), 0);
	put("a", "the bytes");
	assert_int_equal(has("a", "the bytes"), 1);
	snprintf(link, sizeof link, "%s/link", disk_top);
	assert_int_equal(symlink(disk_folder, link), 0);
	setenv("CELLGRAD_CACHE_DIR", link, 1);
	expect_none("link: a symbolic link, or not a folder");
	snprintf(path, sizeof path, "%s//", link);
	setenv("CELLGRAD_CACHE_DIR", path, 1);
	expect_none("link: a symbolic link, or not a folder");
	setenv("CELLGRAD_CACHE_DIR", path_of("a"), 1);
	expect_none("a symbolic link, or not a folder");
	setenv("CELLGRAD_CACHE_DIR", "/proc/1/nowhere/kernels", 1);
	put("a", "the bytes");
	assert_int_equal(has("a", "the bytes"), 0);
}

static void test_environment(void **state)
{
	static char far[6000];
	char path[PATH], home[PATH];

	(void)state;
	expect_at(disk_folder);
	setenv("CELLGRAD_CACHE_DIR", "kernels", 1);
	expect_none("CELLGRAD_CACHE_DIR: expected an absolute path, got 'kernels'");
	assert_false(there("kernels"));
	far[0] = '/';
	memset(far + 1, 'x', sizeof far - 2);
	setenv("CELLGRAD_CACHE_DIR", far, 1);
	expect_none("expected a path of fewer than 4096 bytes");

	setenv("CELLGRAD_CACHE_DIR", "", 1);
	snprintf(path, sizeof path, "%s/xdg/cellgrad", disk_top);
	snprintf(home, sizeof home, "%s/xdg/", disk_top);
	setenv("XDG_CACHE_HOME", home, 1);
	expect_at(path);
	setenv("XDG_CACHE_HOME", "xdg", 1);              /* a relative XDG_CACHE_HOME is ignored, as the XDG specification says */
	snprintf(path, sizeof path, "%s/.cache/cellgrad", disk_top);
	expect_at(path);
	unsetenv("CELLGRAD_CACHE_DIR");
	unsetenv("XDG_CACHE_HOME");
	expect_at(path);
	/* A home folder that does not exist, as a daemon may have, is not created. */
	snprintf(home, sizeof home, "%s/nonexistent", disk_top);
	setenv("HOME", home, 1);
	put("a", "the bytes");
	assert_int_equal(has("a", "the bytes"), 0);
	assert_false(there(home));
	setenv("HOME", "here", 1);
	expect_none("none of CELLGRAD_CACHE_DIR, XDG_CACHE_HOME and HOME is an absolute path");
	unsetenv("HOME");
	expect_none("none of CELLGRAD_CACHE_DIR, XDG_CACHE_HOME and HOME is an absolute path");
}

static void test_switch(void **state)
{
	struct stat before, after;
	unsigned char bytes[512];
	size_t n;

	(void)state;
	put("a", "the bytes");
	setenv("CELLGRAD_CACHE", "off", 1);
	expect_none("CELLGRAD_CACHE=off");
	setenv("CELLGRAD_CACHE", "on", 1);
	expect_none("CELLGRAD_CACHE: expected off, ro or rw, got 'on'");
	/* With CELLGRAD_CACHE=ro nothing is changed: dates stay, nothing is stored, and a damaged file is not removed. */
	setenv("CELLGRAD_CACHE", "ro", 1);
	assert_int_equal(stat(path_of("a"), &before), 0);
	assert_int_equal(has("a", "the bytes"), 1);
	put("b", "more");
	assert_int_equal(has("b", "more"), 0);
	assert_int_equal(stat(path_of("a"), &after), 0);
	assert_int_equal(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
	n = read_file(path_of("a"), bytes, sizeof bytes);
	bytes[40] ^= 1;
	write_file(path_of("a"), bytes, n);
	assert_int_equal(has("a", "the bytes"), 0);
	assert_true(there(path_of("a")));
	setenv("CELLGRAD_CACHE", "rw", 1);
	assert_int_equal(has("a", "the bytes"), 0);
	assert_false(there(path_of("a")));
	put("a", "the bytes");
	setenv("CELLGRAD_CACHE", "", 1);
	assert_int_equal(has("a", "the bytes"), 1);
	setenv("CELLGRAD_CACHE_MAXSIZE", "1e9", 1);
	expect_none("CELLGRAD_CACHE_MAXSIZE: expected a number of bytes, got '1e9'");
	setenv("CELLGRAD_CACHE_MAXSIZE", "-1", 1);
	expect_none("got '-1'");
	setenv("CELLGRAD_CACHE_MAXSIZE", "99999999999999999999", 1);
	expect_none("got '99999999999999999999'");
}

/* In a process with more privileges than its caller the cache makes no call of the disk. */
static void test_elevated(void **state)
{
	(void)state;
	put("a", "the bytes");
	disk_at(0, DISK_FAILS);
	disk_elevated = 1;
	expect_none("this program runs with more rights than the user who started it");
	assert_int_equal(disk_at(0, DISK_FAILS), 0);
	disk_elevated = 0;
	assert_int_equal(has("a", "the bytes"), 1);
}

static int use_unwritable(void)
{
	struct cg_cache_directory directory;

	if (mkdir(disk_folder, 0700))
		return 1;
	put("a", "the bytes");
	if (has("a", "the bytes") != 1 || chmod(disk_folder, 0500))
		return 2;
	put("b", "more");
	if (has("a", "the bytes") != 1 || has("b", "more"))
		return 3;
	if (chmod(disk_folder, 0))
		return 4;
	put("b", "more");
	if (has("a", "the bytes") || has("b", "more"))
		return 5;
	cg_cache_find_directory(&directory);
	if (!strstr(directory.why, "kernels: Permission denied"))
		return 6;
	chmod(disk_folder, 0700);
	disk_remove(disk_folder);
	chmod(disk_top, 0500);
	put("b", "more");
	return has("b", "more") || there(disk_folder) ? 7 : 0;
}

static void test_unwritable(void **state)
{
	int code = in_child(use_unwritable, 1);

	(void)state;
	if (code == 77) {
		print_message("# no user without rights gets at %s\n", disk_top);
		skip();
	}
	assert_int_equal(code, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CACHE_TEST(test_folders), CACHE_TEST(test_environment), CACHE_TEST(test_switch), CACHE_TEST(test_elevated),
		CACHE_TEST(test_unwritable),
	};
	int status;

	if (disk_skip(&status))
		return status;
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("cache_place", tests, NULL, NULL);
}
