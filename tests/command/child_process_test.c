/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests queries in a child process: an answer arrives whole, without the text that the child prints. If the child crashes, exits, gives no
 * answer within the given seconds or gives an answer that is not JSON, a message says so.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "command/output.h"
#include "command/child_process.h"
#include "runtime/core/core.h"

static json_t *echo(const void *about)
{
	return json_pack("{s:s, s:i}", "said", about, "pid", (int)getpid());
}

/* Gives an answer larger than a pipe holds. */
static json_t *much(const void *about)
{
	json_t *list = json_array();

	for (int k = 0; k < 50000; k++)
		json_array_append_new(list, json_string(about));
	return list;
}

static json_t *end_by_signal(const void *about)
{
	signal(*(const int *)about, SIG_DFL);
	raise(*(const int *)about);
	return NULL;
}

static _Noreturn json_t *leave(const void *about)
{
	_exit(*(const int *)about);
}

/* Plays a driver that hangs for a minute and ignores requests to end. */
static _Noreturn json_t *hang(const void *about)
{
	(void)about;
	signal(SIGTERM, SIG_IGN);
	signal(SIGALRM, SIG_IGN);
	for (int k = 0; k < 60; k++)
		sleep(1);
	_exit(0);
}

static json_t *nothing(const void *about)
{
	(void)about;
	return NULL;
}

/* Plays a driver that writes into the child's answer. *about: the number of the pipe's end for writing. */
static json_t *damage(const void *about)
{
	return write(*(const int *)about, "{", 1) == 1 ? json_null() : NULL;
}

/* Plays a driver whose printed text is no part of the answer, and that starts a process, for which the parent does not wait. */
static json_t *noise(const void *about)
{
	printf("driver: hello\n");
	fflush(stdout);
	if (!fork()) {
		sleep(20);
		_exit(0);
	}
	return echo(about);
}

static json_t *core_limit(const void *about)
{
	struct rlimit limit;

	(void)about;
	return getrlimit(RLIMIT_CORE, &limit) ? NULL : json_integer((json_int_t)limit.rlim_cur);
}

static void expect_why(json_t *(*ask)(const void *), int what, int seconds, const char *text, const char *number)
{
	char why[CHILD_WHY];

	assert_null(ask_in_child(ask, &what, seconds, why));
	if (!strstr(why, text) || !strstr(why, number))
		fail_msg("expected \"%s\" and \"%s\" in \"%s\"", text, number, why);
}

static void test_answers(void **state)
{
	char why[CHILD_WHY];
	json_t *json;

	(void)state;
	json = ask_in_child(echo, "hello \"\\\n\x01", 30, why);
	assert_non_null(json);
	assert_string_equal(why, "");
	assert_string_equal(json_string_value(json_object_get(json, "said")), "hello \"\\\n\x01");
	assert_int_not_equal(json_integer_value(json_object_get(json, "pid")), getpid());
	json_decref(json);
	json = ask_in_child(much, "0123456789", 30, why);
	assert_int_equal(json_array_size(json), 50000);
	assert_string_equal(json_string_value(json_array_get(json, 49999)), "0123456789");
	json_decref(json);
	json = ask_in_child(core_limit, NULL, 30, why);
	assert_int_equal(json_integer_value(json), 0);
	json_decref(json);
}

static void test_ended_children(void **state)
{
	(void)state;
	expect_why(end_by_signal, SIGABRT, 30, "signal 6 (", "the driver ended the process that asked it");
	expect_why(end_by_signal, SIGSEGV, 30, "signal 11 (", "the driver ended the process that asked it");
	expect_why(end_by_signal, SIGKILL, 30, "signal 9 (", "the driver ended the process that asked it");
	expect_why(leave, 0, 30, "exit status 0", "the driver ended the process that asked it");
	expect_why(leave, 134, 30, "exit status 134", "the driver ended the process that asked it");
}

static void test_damaged_answer(void **state)
{
	char why[CHILD_WHY];
	int ends[2];

	(void)state;
	/* The file descriptors of this pipe are free again after close(), so the pipe to the child process gets the same descriptors. */
	assert_int_equal(pipe(ends), 0);
	close(ends[0]);
	close(ends[1]);
	assert_null(ask_in_child(damage, &ends[1], 30, why));
	assert_string_equal(why, "the answer of the process that asked the driver is not JSON");
}

static void test_time(void **state)
{
	double before = cg_milliseconds(), took;

	(void)state;
	expect_why(hang, 0, 1, "no answer in 1 s", "");
	took = cg_milliseconds() - before;
	assert_true(took >= 1000 && took < 20000);
	/* No child process is left. */
	assert_int_equal(waitpid(-1, NULL, WNOHANG), -1);
}

static void test_noise(void **state)
{
	double before = cg_milliseconds();
	char why[CHILD_WHY];
	json_t *json = ask_in_child(noise, "x", 30, why);

	(void)state;
	assert_string_equal(json_string_value(json_object_get(json, "said")), "x");
	json_decref(json);
	assert_true(cg_milliseconds() - before < 15000);
}

/* Tests a child whose answer is NULL, which means that the child had no memory; a parent that may open no more files; and a parent that
   ignores SIGCHLD. */
static void test_no_resources(void **state)
{
	struct rlimit before, none;
	char why[CHILD_WHY];

	(void)state;
	assert_null(ask_in_child(nothing, NULL, 30, why));
	assert_string_equal(why, "");
	assert_non_null(strstr(cg_message(), "memory"));
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	none = before;
	none.rlim_cur = 3;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
	assert_null(ask_in_child(echo, "x", 30, why));
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	assert_non_null(strstr(why, "could not be asked"));
	/* The parent may have been started with SIGCHLD ignored. */
	signal(SIGCHLD, SIG_IGN);
	expect_why(end_by_signal, SIGABRT, 30, "signal 6 (", "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers), cmocka_unit_test(test_ended_children), cmocka_unit_test(test_damaged_answer),
		cmocka_unit_test(test_time), cmocka_unit_test(test_noise), cmocka_unit_test(test_no_resources),
	};

	print_json_memory();
	return cmocka_run_group_tests_name("child_process", tests, NULL, NULL);
}
