/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the cache when each of its calls of the disk fails in turn, and when the power is cut at each call: a later get gives the
 * bytes that were stored or nothing, an entry that was being replaced is there with its old or its new bytes, and the cache is usable
 * again.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <cmocka.h>

#include "runtime/core/core.h"
#include "tests/help/cache_disk.h"

enum { BYTES = 3000, OTHERS = 3, MOST = 10000 };         /* BYTES: an entry's bytes without its file's headers; MOST: the cache's limit, for three entries */

static char old_bytes[BYTES + 1], new_bytes[BYTES + 1];
static const char *const others[OTHERS] = { "other 0", "other 1", "other 2" };

static void put_aged(const char *key, const char *bytes, int seconds)
{
	const struct timespec times[2] = { { time(NULL) - seconds, 0 }, { time(NULL) - seconds, 0 } };

	put(key, bytes);
	utimensat(AT_FDCWD, path_of(key), times, 0);
}

/* ---- scenes: what the cache holds before, and what the test then does ---- */

static void nothing(void)
{
}

static void old_one(void)
{
	put("a", old_bytes);
}

static void new_one(void)
{
	put("a", new_bytes);
}

static void damaged_one(void)
{
	put("a", new_bytes);
	assert_int_equal(truncate(path_of("a"), BYTES), 0);
}

static void full(void)
{
	char path[PATH];

	for (int k = 0; k < OTHERS; k++)
		put_aged(others[k], old_bytes, 1000 + k);
	snprintf(path, sizeof path, "%s/1-0123456789abcdef.kernel-unfinished", disk_folder);
	write_file(path, old_bytes, BYTES);
	utimensat(AT_FDCWD, path, (const struct timespec[2]){ { 1000, 0 }, { 1000, 0 } }, 0);
	setenv("CELLGRAD_CACHE_MAXSIZE", "10000", 1);
}

static int see(const struct cg_cache_entry *e, void *user)
{
	(void)e, (void)user;
	return CG_OK;
}

/* Uses the cache as a backend does: a get, and a put if nothing is found.  A get must return CG_OK though a call of the disk fails. */
static void use(void)
{
	size_t bytes;
	void *at;

	if (cg_cache_get("a", 1, &at, &bytes))
		abort();
	cg_memory(at, 0);
	if (!at)
		put("a", new_bytes);
}

static void clear(void)
{
	uint64_t bytes;
	size_t n;

	cg_cache_list(see, NULL);
	cg_cache_clear(&n, &bytes);
}

static const struct scene {
	const char *name;
	void (*before)(void), (*act)(void);
	int has_old, is_full;
	long least;                              /* the least number of calls of the disk that `act` makes */
} scenes[] = {
	{ "cold",        nothing,     use,     0, 0, 20 },
	{ "replaced",    old_one,     new_one, 1, 0, 15 },
	{ "damaged",     damaged_one, use,     0, 0, 25 },
	{ "full",        full,        use,     0, 1, 25 },
	{ "warm",        new_one,     use,     0, 0, 10 },
	{ "cleared",     new_one,     clear,   0, 0, 20 },
};
enum { SCENES = sizeof scenes / sizeof *scenes };

static void begin(const struct scene *scene)
{
	disk_at(0, DISK_FAILS);
	disk_remove(disk_folder);
	unsetenv("CELLGRAD_CACHE_MAXSIZE");
	scene->before();
	disk_sync();
}

/* Expects, after a failure, that the cache gives no wrong bytes, has not lost an entry that was being replaced, and stores an entry. */
static void expect_well(const struct scene *scene, const char *what, long n)
{
	int found = has("a", new_bytes);

	if (found < 0 && scene->has_old)
		found = has("a", old_bytes);
	if (found < 0)
		fail_msg("%s, %s at call %ld: wrong bytes", scene->name, what, n);
	if (!found && scene->has_old)
		fail_msg("%s, %s at call %ld: the old is lost, and the new is not there", scene->name, what, n);
	for (int k = 0; k < OTHERS; k++)
		if (has(others[k], old_bytes) < 0)
			fail_msg("%s, %s at call %ld: wrong bytes of another", scene->name, what, n);
	put("a", new_bytes);
	if (has("a", new_bytes) != 1)
		fail_msg("%s, %s at call %ld: of no use after it", scene->name, what, n);
}

/* Makes the files that writers left behind old, and expects that the next put removes them; in the scene `full` the cache is then within
 * its limit. */
static void expect_tidy(const struct scene *scene, const char *what, long n)
{
	const struct timespec long_ago[2] = { { 1000, 0 }, { 1000, 0 } };
	DIR *list = opendir(disk_folder);
	struct dirent *row;
	struct stat s;
	long total = 0;

	while ((row = readdir(list)))
		if (cg_cache_is_temporary(row->d_name))
			utimensat(dirfd(list), row->d_name, long_ago, 0);
	put("a", new_bytes);
	rewinddir(list);
	while ((row = readdir(list))) {
		if (cg_cache_is_temporary(row->d_name))
			fail_msg("%s, %s at call %ld: %s is left", scene->name, what, n, row->d_name);
		if (!fstatat(dirfd(list), row->d_name, &s, AT_SYMLINK_NOFOLLOW) && S_ISREG(s.st_mode))
			total += (long)s.st_size;
	}
	closedir(list);
	if (scene->is_full && total > MOST)
		fail_msg("%s, %s at call %ld: %ld bytes", scene->name, what, n, total);
}

/* ---- calls that fail ---- */

static int open_files(void)
{
	int n = 0;

	for (int fd = 0; fd < 200; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static void fail_in_turn(const struct scene *scene, enum disk_end end, int error)
{
	int before = open_files(), files_before;
	long n = 0;

	disk_error = error;
	do {
		begin(scene);
		files_before = files();
		disk_at(++n, end);
		scene->act();
		if (!disk_failed() && disk_at(0, DISK_FAILS) < scene->least)
			fail_msg("%s: %ld calls", scene->name, n);
		if (!disk_failed())
			return;
		disk_at(0, DISK_FAILS);
		if (open_files() != before)
			fail_msg("%s, call %ld: %d files open, %d before", scene->name, n, open_files(), before);
		/* If all later calls fail, too, at most one file more is left: the entry, or a temporary file. */
		if (end == DISK_FAILS_ON && files() > files_before + 1)
			fail_msg("%s, call %ld: %d files, %d before", scene->name, n, files(), files_before);
		expect_well(scene, strerror(error), n);
		expect_tidy(scene, strerror(error), n);
	} while (1);
}

static void test_failures(void **state)
{
	static const int errors[] = { EIO, ENOSPC, EROFS, EDQUOT, EACCES, EMFILE, ENOENT, EINTR, ELOOP };

	(void)state;
	for (int k = 0; k < SCENES; k++)
		for (size_t e = 0; e < sizeof errors / sizeof *errors; e++) {
			fail_in_turn(&scenes[k], DISK_FAILS, errors[e]);
			if (errors[e] != EINTR)          /* with EINTR at each call the cache would repeat the call for ever */
				fail_in_turn(&scenes[k], DISK_FAILS_ON, errors[e]);
		}
}

/* On a full disk a put whose write fails leaves no temporary file, and other entries stay. */
static void test_full_disk(void **state)
{
	(void)state;
	put("a", new_bytes);
	disk_error = ENOSPC;
	disk_most_write = 1000;
	for (long n = 1;; n++) {
		disk_at(n, DISK_FAILS_ON);
		put("b", new_bytes);
		if (!disk_failed())
			break;
		if (!strcmp(disk_failed(), "write"))
			assert_int_equal(files(), 1);
		disk_at(0, DISK_FAILS);
		assert_int_equal(has("a", new_bytes), 1);
	}
	disk_at(0, DISK_FAILS);
	assert_int_equal(has("b", new_bytes), 1);
}

/* ---- power cuts ---- */

/* What a power cut leaves of a file that was written and not synced. */
enum loss { KEPT, EMPTY, HALF, ZEROS, SECTOR, LOSSES };
static const char *const losses[] = { "cut", "cut, empty files", "cut, halves", "cut, zeros", "cut, a lost sector" };

static void lose(int folder, const char *name, enum loss loss, off_t size)
{
	static const char zeros[BYTES + 512];
	int fd = openat(folder, name, O_WRONLY | O_NOFOLLOW);

	assert_true(fd >= 0 && size <= (off_t)sizeof zeros);
	if (loss == EMPTY || loss == HALF)
		assert_int_equal(ftruncate(fd, loss == HALF ? size / 2 : 0), 0);
	if (loss == ZEROS)
		assert_int_equal(pwrite(fd, zeros, (size_t)size, 0), size);
	if (loss == SECTOR && size > 600)
		assert_int_equal(pwrite(fd, zeros, 512, 64), 512);
	close(fd);
}

static void power_cut(const struct scene *scene, enum loss loss, int loses_names)
{
	char names[8][CG_CACHE_NAME];
	DIR *list = opendir(disk_folder);
	struct dirent *row;
	struct stat s;
	int n = 0;

	if (!list)
		return;
	while ((row = readdir(list)))
		if (strlen(row->d_name) < CG_CACHE_NAME && row->d_name[0] != '.' && n < 8)
			strcpy(names[n++], row->d_name);
	for (int k = 0; k < n; k++) {
		assert_int_equal(fstatat(dirfd(list), names[k], &s, AT_SYMLINK_NOFOLLOW), 0);
		if (loss != KEPT && disk_safety(&s) == DISK_LOST)
			lose(dirfd(list), names[k], loss, s.st_size);
		/* A power cut may undo the rename of a file, though the file was synced: the file that the rename replaced is back. */
		if (loses_names && disk_safety(&s) != DISK_SAFE && cg_cache_is_entry(names[k])) {
			renameat(dirfd(list), names[k], dirfd(list), "9-0123456789abcdef.kernel-unfinished");
			if (scene->has_old)
				put("a", old_bytes);
		}
	}
	closedir(list);
}

/* Runs a scene in a child that ends at its n-th call of the disk; returns whether the scene made n calls. */
static int cut_at(const struct scene *scene, long n, enum disk_end end)
{
	int status;
	pid_t child;

	begin(scene);
	fflush(NULL);
	child = fork();
	if (!child) {
		disk_at(n, end);
		scene->act();
		_exit(0);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && (!WEXITSTATUS(status) || WEXITSTATUS(status) == DISK_CUT));
	return WEXITSTATUS(status) == DISK_CUT;
}

static long cut_in_turn(const struct scene *scene, enum disk_end end, enum loss loss, int loses_names)
{
	long n = 1;

	for (; cut_at(scene, n, end); n++) {
		power_cut(scene, loss, loses_names);
		expect_well(scene, losses[loss], n);
		expect_tidy(scene, losses[loss], n);
	}
	if (n <= scene->least)
		fail_msg("%s: only %ld calls", scene->name, n - 1);
	return n - 1;
}

static void test_cuts(void **state)
{
	long cuts = 0;

	(void)state;
	for (int k = 0; k < SCENES; k++) {
		for (enum loss loss = KEPT; loss < LOSSES; loss++)
			cuts += cut_in_turn(&scenes[k], DISK_CUTS, loss, 0);
		cuts += cut_in_turn(&scenes[k], DISK_CUTS_HALF, KEPT, 0);
		cuts += cut_in_turn(&scenes[k], DISK_CUTS, KEPT, 1);
	}
	print_message("# %ld cuts\n", cuts);
}

/* After a put has ended, a power cut loses none of the entry's bytes: they were synced. */
static void test_synced(void **state)
{
	(void)state;
	for (enum loss loss = KEPT; loss < LOSSES; loss++) {
		assert_false(cut_at(&scenes[0], 0, DISK_CUTS));
		power_cut(&scenes[0], loss, 0);
		assert_int_equal(has("a", new_bytes), 1);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		CACHE_TEST(test_failures), CACHE_TEST(test_full_disk), CACHE_TEST(test_cuts), CACHE_TEST(test_synced),
	};
	int status;

	if (disk_skip(&status))
		return status;
	memset(old_bytes, 'o', BYTES);
	memset(new_bytes, 'n', BYTES);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("cache_fault", tests, NULL, NULL);
}
