/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the tests of the cache share: see cache_disk.h.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "runtime/core/core.h"
#include "tests/help/cache_disk.h"

int cache_set_up(void **state)
{
	(void)state;
	disk_open();
	alarm(120);                              /* ends the program if a test hangs for two minutes, as on a pipe */
	return 0;
}

int cache_tear_down(void **state)
{
	(void)state;
	disk_close();
	return 0;
}

void put(const char *key, const char *bytes)
{
	cg_cache_put(key, strlen(key), bytes, strlen(bytes));
}

int has_bytes(const char *key, const void *want, size_t n)
{
	size_t bytes;
	void *at;
	int same;

	if (cg_cache_get(key, strlen(key), &at, &bytes))
		return -1;
	if (!at)
		return bytes ? -1 : 0;
	same = bytes == n && !memcmp(at, want, n);
	cg_memory(at, 0);
	return same ? 1 : -1;
}

int has(const char *key, const char *want)
{
	return has_bytes(key, want, strlen(want));
}

const char *path_of(const char *key)
{
	static char path[PATH];
	struct cg_cache_record record;
	char name[CG_CACHE_NAME];

	cg_cache_set_record(&record, key, strlen(key));
	cg_cache_name(&record, name);
	snprintf(path, sizeof path, "%s/%s", disk_folder, name);
	return path;
}

int there(const char *path)
{
	struct stat s;

	return !lstat(path, &s);
}

int files(void)
{
	DIR *list = opendir(disk_folder);
	struct dirent *row;
	int n = 0;

	while (list && (row = readdir(list)))
		n += row->d_name[0] != '.';
	if (list)
		closedir(list);
	return n;
}

size_t read_file(const char *path, unsigned char *to, size_t most)
{
	int fd = open(path, O_RDONLY);
	ssize_t n = read(fd, to, most);

	close(fd);
	assert_true(n >= 0);
	return (size_t)n;
}

void write_file(const char *path, const void *from, size_t n)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	assert_true(fd >= 0);
	assert_int_equal(write(fd, from, n), n);
	close(fd);
}

int in_child(int (*body)(void), int unprivileged)
{
	int status;
	pid_t child;

	fflush(NULL);
	child = fork();
	if (!child) {
		if (unprivileged && !geteuid() && (chown(disk_top, STRANGER, (gid_t)-1) || setuid(STRANGER) || access(disk_top, X_OK)))
			_exit(77);
		_exit(body());
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}
