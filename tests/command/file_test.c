/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests temporary files and their locks while another process acts between two system calls. This program has its own flock, which
 * fails, or removes the file as another process might, or only calls the system's; its own rename first looks whether the file is locked.
 */
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "command/claim.h"
#include "command/command.h"
#include "command/file.h"

/* This command_fail stands in place of that of main.c, since this program has a main of its own. */
int command_fail(const char *command, int code, int working)
{
	(void)command;
	(void)working;
	return code;
}

/* ---- the calls ---- */

enum { NOTHING, HELD_ONCE, REMOVED_ONCE, NO_LOCKS };

static struct file file;
static int happens, locked_at_rename, renames;

static int lock_by_system(int fd, int how)
{
	return (int)syscall(SYS_flock, fd, how);
}

int flock(int fd, int how)
{
	int now = happens;

	if (now == NO_LOCKS) {
		errno = ENOLCK;
		return -1;
	}
	happens = NOTHING;
	if (now == HELD_ONCE) {
		errno = EWOULDBLOCK;
		return -1;
	}
	if (now == REMOVED_ONCE)
		assert_int_equal(unlink(file.temporary), 0);
	return lock_by_system(fd, how);
}

int rename(const char *from, const char *to)
{
	int fd = open(from, O_WRONLY);

	assert_true(fd >= 0);
	locked_at_rename = lock_by_system(fd, LOCK_EX | LOCK_NB) != 0;
	close(fd);
	renames++;
	return renameat(AT_FDCWD, from, AT_FDCWD, to);
}

/* ---- the tests ---- */

static char folder[] = "/tmp/cellgrad-file-XXXXXX";

static int setup(void **state)
{
	(void)state;
	return !mkdtemp(folder) || chdir(folder);
}

static int teardown(void **state)
{
	(void)state;
	claim_end_all();
	return chdir("/") || rmdir(folder);
}

static void write_out(int event)
{
	struct stat s;

	happens = event;
	locked_at_rename = renames = 0;
	assert_int_equal(file_check(&file, "out"), CG_OK);
	assert_int_equal(file_begin(&file), CG_OK);
	assert_int_equal(file_put(&file, "text", 4), CG_OK);
	assert_int_equal(file_end(&file), CG_OK);
	assert_int_equal(renames, 1);
	assert_int_equal(stat("out", &s), 0);
	assert_int_equal(s.st_size, 4);
	assert_int_equal(unlink("out"), 0);
	happens = NOTHING;
}

static void make(const char *name)
{
	int fd = open(name, O_WRONLY | O_CREAT | O_EXCL, 0666);

	assert_true(fd >= 0);
	close(fd);
}

static void it_is_locked_until_it_has_its_name(void **state)
{
	(void)state;
	write_out(NOTHING);
	assert_true(locked_at_rename);
	assert_int_equal(file.fd, -1);
}

/* Between the creation of the temporary file and its lock, another process takes the file for a leftover: it locks the file, or removes
   it. */
static void one_that_another_took_for_a_leftover_is_made_again(void **state)
{
	(void)state;
	write_out(HELD_ONCE);
	assert_true(locked_at_rename);
	/* A real process that held the lock would have removed the temporary file; in this test the next run removes the file. */
	write_out(NOTHING);
	write_out(REMOVED_ONCE);
	assert_true(locked_at_rename);
}

static void without_locks_files_are_written_and_none_is_removed(void **state)
{
	(void)state;
	make(".cellgrad-1-0");
	write_out(NO_LOCKS);
	assert_false(locked_at_rename);
	assert_int_equal(unlink(".cellgrad-1-0"), 0);
}

static void a_dropped_file_leaves_nothing_and_its_name_is_free(void **state)
{
	struct file other;

	(void)state;
	assert_int_equal(file_check(&file, "out"), CG_OK);
	assert_int_equal(file_check(&other, "./out"), CG_BAD_ARGUMENT);
	assert_int_equal(file_begin(&file), CG_OK);
	file_discard(&file);
	file_discard(&file);
	assert_int_equal(file_check(&other, "./out"), CG_OK);
	file_discard(&other);
	memset(&other, 0, sizeof other);
	file_discard(&other);
	assert_true(fcntl(0, F_GETFD) >= 0);
}

static void an_input_is_claimed_as_often_as_it_is_open(void **state)
{
	struct claim *one, *two;
	int fd;

	(void)state;
	make("in");
	fd = open("in", O_RDONLY);
	assert_int_equal(claim_input(fd, "in", &one), CG_OK);
	assert_int_equal(claim_input(fd, "in", &two), CG_OK);
	claim_end(one);
	assert_int_equal(file_check(&file, "in"), CG_BAD_ARGUMENT);
	claim_end(two);
	assert_int_equal(file_check(&file, "in"), CG_OK);
	/* A file that is claimed for writing cannot be claimed for reading. */
	assert_int_equal(claim_input(fd, "in", &one), CG_BAD_ARGUMENT);
	file_discard(&file);
	assert_int_equal(claim_input(fd, "in", &one), CG_OK);
	claim_end_all();
	assert_int_equal(file_check(&file, "in"), CG_OK);
	file_discard(&file);
	close(fd);
	assert_int_equal(unlink("in"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(it_is_locked_until_it_has_its_name),
		cmocka_unit_test(one_that_another_took_for_a_leftover_is_made_again),
		cmocka_unit_test(without_locks_files_are_written_and_none_is_removed),
		cmocka_unit_test(a_dropped_file_leaves_nothing_and_its_name_is_free),
		cmocka_unit_test(an_input_is_claimed_as_often_as_it_is_open),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
