/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the cache: an entry that was stored is found, also while 32 processes or eight threads use the cache at once. A damaged file, a
 * link, a pipe, a socket or another entry's file in the place of an entry's file is not accepted. cache_directory_test tests the folder,
 * cache_bound_test the size, cache_fault_test the failures.
 */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "runtime/core/core.h"
#include "tests/help/cache_disk.h"

static void test_put_then_get(void **state)
{
	static char large[300000];
	struct stat s;

	(void)state;
	assert_int_equal(has("a", "one"), 0);
	assert_false(there(disk_folder));                /* a get does not make the cache's folder */
	put("a", "one");
	assert_int_equal(has("a", "one"), 1);
	assert_int_equal(has("b", "one"), 0);
	assert_int_equal(has("", "one"), 0);
	put("b", "two");
	put("", "three");
	assert_int_equal(has("a", "one"), 1);
	assert_int_equal(has("b", "two"), 1);
	assert_int_equal(has("", "three"), 1);
	put("a", "other");
	assert_int_equal(has("a", "other"), 1);
	put("nothing", "");
	assert_int_equal(has("nothing", ""), 0);
	assert_int_equal(files(), 3);
	for (size_t k = 0; k < sizeof large; k++)
		large[k] = (char)(k * k >> 3);
	for (size_t n = 1; n <= sizeof large; n = n * 7 + 1) {
		cg_cache_put("large", 5, large, n);
		assert_int_equal(has_bytes("large", large, n), 1);
		cg_cache_put(large, n, "x", 1);
		assert_int_equal(has_bytes("large", large, n), 1);
	}
	/* No other user can read the folder or an entry, though the umask is 0. */
	umask(0);
	put("c", "three");
	umask(022);
	assert_int_equal(stat(disk_folder, &s), 0);
	assert_int_equal(s.st_mode & 0777, 0700);
	assert_int_equal(stat(path_of("c"), &s), 0);
	assert_int_equal(s.st_mode & 0777, 0600);
	assert_int_equal(cg_set_allocator(NULL), CG_OK); /* cg_set_allocator fails if the library, and so the cache, holds memory */
}

/* The cache continues writes that write one byte at a time, and writes and reads that are interrupted. */
static void test_piecewise(void **state)
{
	(void)state;
	disk_most_write = 1;
	disk_error = EINTR;
	for (long n = 1; n < 400; n += 7) {
		disk_remove(disk_folder);
		disk_at(n, DISK_FAILS);
		put("a", "piece by piece");
		if (disk_failed() && strcmp(disk_failed(), "write"))
			continue;
		disk_at(0, DISK_FAILS);
		assert_int_equal(has("a", "piece by piece"), 1);
	}
	for (long n = 1; n < 30; n++) {
		disk_at(0, DISK_FAILS);
		put("a", "piece by piece");
		disk_at(n, DISK_FAILS);
		if (has("a", "piece by piece") != 1)
			assert_string_not_equal(disk_failed(), "read");
	}
}

/* ---- files that are not what they should be ---- */

/* Expects, of a damaged entry, that a get finds nothing and removes the file, and that the entry can be stored again. */
static void expect_rebuilt(const char *what, size_t at)
{
	if (has("a", "the bytes") || there(path_of("a")))
		fail_msg("%s %zu: %s", what, at, there(path_of("a")) ? "still there" : "believed");
	put("a", "the bytes");
	if (has("a", "the bytes") != 1)
		fail_msg("%s %zu: not rebuilt", what, at);
}

static void test_damaged(void **state)
{
	unsigned char bytes[512];
	size_t n;

	(void)state;
	put("a", "the bytes");
	n = read_file(path_of("a"), bytes, sizeof bytes - 1);
	assert_true(n > 100);
	for (size_t k = 0; k < n; k++)
		for (int bit = 0; bit < 8; bit++) {
			bytes[k] ^= (unsigned char)(1 << bit);
			write_file(path_of("a"), bytes, n);
			bytes[k] ^= (unsigned char)(1 << bit);
			expect_rebuilt("byte", k);
		}
	for (size_t k = 0; k < n; k++) {
		write_file(path_of("a"), bytes, k);
		expect_rebuilt("cut to", k);
	}
	bytes[n] = 0;
	write_file(path_of("a"), bytes, n + 1);
	expect_rebuilt("grown to", n + 1);
	assert_int_equal(files(), 1);
}

static void put_number(unsigned char *to, uint64_t n)
{
	for (int k = 0; k < 8; k++)
		to[k] = (unsigned char)(n >> 8 * k);
}

/* An entry's file with wrong lengths, some of which overflow when they are added up, is rejected. */
static void test_lengths(void **state)
{
	static const uint64_t lengths[] = { 0, 1, 8, 1u << 31, UINT32_MAX, INT64_MAX, UINT64_MAX, UINT64_MAX - 63, UINT64_MAX - 95 };
	unsigned char bytes[512];
	size_t n;

	(void)state;
	put("a", "the bytes");
	n = read_file(path_of("a"), bytes, sizeof bytes);
	for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++)
		for (size_t at = 16; at < 48; at += 8) {
			unsigned char damaged[512];

			memcpy(damaged, bytes, n);
			put_number(damaged + at, lengths[k]);
			write_file(path_of("a"), damaged, n);
			expect_rebuilt("length", at);
		}
	/* A file larger than any entry is not read, though all its lengths are right. */
	put_number(bytes + 24, CG_CACHE_ENTRY + 1 - 64 - (uint64_t)(bytes[16]));
	write_file(path_of("a"), bytes, n);
	assert_int_equal(truncate(path_of("a"), (off_t)CG_CACHE_ENTRY + 1), 0);
	cg_memory_fail(0);
	assert_int_equal(has("a", "the bytes"), 0);
	assert_int_equal(cg_memory_fail(0), 0);
	assert_false(there(path_of("a")));
}

static void test_strange_files(void **state)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	char aside[PATH], path[PATH];
	int fd;

	(void)state;
	put("a", "the bytes");
	strcpy(path, path_of("a"));
	snprintf(aside, sizeof aside, "%s/aside", disk_top);
	/* Behind a symbolic link the right file, of the right owner, is rejected. */
	assert_int_equal(rename(path, aside), 0);
	assert_int_equal(symlink(aside, path), 0);
	expect_rebuilt("link", 0);
	assert_true(there(aside));
	unlink(path);
	assert_int_equal(symlink("nowhere", path), 0);
	expect_rebuilt("link to nothing", 0);
	unlink(path);
	assert_int_equal(mkfifo(path, 0600), 0);
	expect_rebuilt("pipe", 0);
	unlink(path);
	if (strlen(path) < sizeof name.sun_path) {
		strcpy(name.sun_path, path);
		fd = socket(AF_UNIX, SOCK_STREAM, 0);
		assert_int_equal(bind(fd, (struct sockaddr *)&name, sizeof name), 0);
		close(fd);
		expect_rebuilt("socket", 0);
	}
	assert_int_equal(chmod(path, 0620), 0);
	expect_rebuilt("other users may write", 0);
	/* A folder in the file's place stays, and is no error. */
	unlink(path);
	assert_int_equal(mkdir(path, 0700), 0);
	assert_int_equal(has("a", "the bytes"), 0);
	put("a", "the bytes");
	assert_int_equal(has("a", "the bytes"), 0);
	assert_int_equal(files(), 1);
	rmdir(path);
	put("a", "the bytes");
	assert_int_equal(has("a", "the bytes"), 1);
}

static void test_strange_owner(void **state)
{
	struct cg_cache_directory directory;

	(void)state;
	put("a", "the bytes");
	if (geteuid() || chown(path_of("a"), STRANGER, (gid_t)-1)) {
		print_message("# only root can give a file away\n");
		skip();
	}
	expect_rebuilt("another user's", 0);
	assert_int_equal(chown(disk_folder, STRANGER, (gid_t)-1), 0);
	assert_int_equal(has("a", "the bytes"), 0);
	put("b", "more");
	assert_int_equal(files(), 1);
	cg_cache_find_directory(&directory);
	assert_non_null(strstr(directory.why, "kernels: expected a folder of user 0, got one of user 65534"));
	assert_int_equal(chown(disk_folder, 0, (gid_t)-1), 0);
	assert_int_equal(has("a", "the bytes"), 1);
}

/* A file that has the name of one key and the entry of another key is not accepted. */
static void test_collision(void **state)
{
	char a[PATH];

	(void)state;
	put("a", "for a");
	strcpy(a, path_of("a"));
	assert_int_equal(rename(a, path_of("b")), 0);
	assert_int_equal(has("b", "for a"), 0);
	put("b", "for b");
	assert_int_equal(has("b", "for b"), 1);
	/* A key with which another key begins does not get the other key's entry. */
	put("abc", "for abc");
	strcpy(a, path_of("abc"));
	assert_int_equal(rename(a, path_of("ab")), 0);
	assert_int_equal(has("ab", "for abc"), 0);
}

static void test_no_memory_for_a_get(void **state)
{
	size_t bytes;
	void *at = &bytes;

	(void)state;
	put("a", "the bytes");
	cg_memory_fail(1);
	assert_int_equal(cg_cache_get("a", 1, &at, &bytes), CG_NO_MEMORY);
	assert_null(at);
	assert_int_equal(cg_memory_fail(1), 1);
	put("b", "more");
	assert_int_equal(cg_cache_get("none", 4, &at, &bytes), CG_OK);
	assert_int_equal(cg_memory_fail(0), 0);          /* neither a put nor a get that finds nothing requests memory */
	assert_int_equal(has("a", "the bytes"), 1);
	assert_int_equal(has("b", "more"), 1);
}

/* ---- many at once ---- */

enum { PROCESSES = 32, THREADS = 8, ROUNDS = 60, KERNEL = 50000 };

static void compile(char *bytes, int key)
{
	for (int k = 0; k < KERNEL; k++)
		bytes[k] = (char)(k * (key + 3) >> 2);
}

/* Gets a kernel from the cache; if the kernel is not found, makes and stores it.  Returns the result of has_bytes(). */
static int need(int key)
{
	static _Thread_local char bytes[KERNEL];
	char name[16];
	int found;

	compile(bytes, key);
	snprintf(name, sizeof name, "kernel %d", key);
	found = has_bytes(name, bytes, KERNEL);
	if (!found)
		cg_cache_put(name, strlen(name), bytes, KERNEL);
	return found;
}

static void test_processes(void **state)
{
	pid_t child[PROCESSES];
	int gate[2], right = 0, status;
	char byte;

	(void)state;
	assert_int_equal(pipe(gate), 0);
	fflush(NULL);
	for (int k = 0; k < PROCESSES; k++) {
		child[k] = fork();
		if (child[k])
			continue;
		close(gate[1]);
		if (read(gate[0], &byte, 1))             /* all children begin at once, when the parent closes the other end of the pipe */
			_exit(1);
		for (int round = 0; round < 3; round++)
			if (need(1) < 0)
				_exit(2);
		_exit(need(1) == 1 ? 0 : 3);
	}
	close(gate[0]);
	close(gate[1]);
	for (int k = 0; k < PROCESSES; k++) {
		assert_int_equal(waitpid(child[k], &status, 0), child[k]);
		right += WIFEXITED(status) && !WEXITSTATUS(status);
	}
	assert_int_equal(right, PROCESSES);
	assert_int_equal(need(1), 1);
	assert_int_equal(files(), 1);
}

static void *use_much(void *wrong)
{
	for (int round = 0; round < ROUNDS; round++)
		if (need(round % 5) < 0)
			__atomic_add_fetch((int *)wrong, 1, __ATOMIC_RELAXED);
	return NULL;
}

/* The cache has space for three of five entries, so that threads remove entries that others read. */
static void test_threads(void **state)
{
	pthread_t threads[THREADS];
	int wrong = 0;

	(void)state;
	setenv("CELLGRAD_CACHE_MAXSIZE", "151000", 1);
	for (int k = 0; k < THREADS; k++)
		assert_int_equal(pthread_create(&threads[k], NULL, use_much, &wrong), 0);
	for (int k = 0; k < THREADS; k++)
		pthread_join(threads[k], NULL);
	assert_int_equal(wrong, 0);
	assert_in_range(files(), 1, 3 + THREADS);
	need(7);
	assert_in_range(files(), 1, 3);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CACHE_TEST(test_put_then_get), CACHE_TEST(test_piecewise), CACHE_TEST(test_damaged), CACHE_TEST(test_lengths),
		CACHE_TEST(test_strange_files), CACHE_TEST(test_strange_owner), CACHE_TEST(test_collision), CACHE_TEST(test_no_memory_for_a_get),
		CACHE_TEST(test_processes), CACHE_TEST(test_threads),
	};
	int status;

	if (disk_skip(&status))
		return status;
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("cache", tests, NULL, NULL);
}
