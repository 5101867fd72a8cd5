/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A repeated forward call of a step of the block LSTM or GRU on the cpu, whose workspace is the caller's, makes no system call, allocates
 * nothing and takes no lock. A child process with one thread, which Linux kills at any system call but read, write, exit and a signal's
 * return, makes a thousand calls of each op.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __linux__
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#endif
#include <cmocka.h>

#include "runtime/cellgrad.h"

enum { U = 16, CALLS = 1000, CAPACITY = 1 << 14 };

static _Alignas(64) float memory[CAPACITY];
static size_t used;
static _Thread_local int locks;          /* locks that this thread takes; threads of the library take locks, too, before they sleep */
static int blocks;
static struct cg_lstm_block lstm;
static struct cg_gru_block gru;
static struct cg_stream *stream;

/* Replaces the C library's function: counts the lock and takes it. */
int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	static _Thread_local int (*next)(pthread_mutex_t *);

	if (!next)
		*(void **)&next = dlsym(RTLD_NEXT, "pthread_mutex_lock");
	locks++;
	return next(mutex);
}

static void *count(void *user, void *old, size_t bytes)
{
	(void)user;
	blocks++;
	if (bytes)
		return realloc(old, bytes);
	free(old);
	return NULL;
}

static struct cg_mem alloc(size_t n)
{
	struct cg_mem mem = { memory + used, 0, n * sizeof *memory, CG_HOST };

	used += (n + 1) / 2 * 2;         /* every array, also a workspace, begins at a multiple of 8 bytes */
	assert_true(used <= CAPACITY);
	return mem;
}

static void fill(void)
{
	size_t bytes;

	cg_lstm_block_init(&lstm, sizeof lstm);
	lstm.B = 1;
	lstm.I = lstm.U = U;
	lstm.x = alloc(U);
	lstm.cs_prev = alloc(U);
	lstm.h_prev = alloc(U);
	lstm.w = alloc(2 * U * 4 * U);
	lstm.b = alloc(4 * U);
	lstm.i = alloc(U);
	lstm.cs = alloc(U);
	lstm.f = alloc(U);
	lstm.o = alloc(U);
	lstm.ci = alloc(U);
	lstm.co = alloc(U);
	lstm.h = alloc(U);
	assert_int_equal(cg_lstm_block_work(&lstm, CG_FORWARD, &bytes), CG_OK);
	lstm.work = alloc(bytes / sizeof *memory);
	cg_gru_block_init(&gru, sizeof gru);
	gru.B = 1;
	gru.I = gru.U = U;
	gru.x = alloc(U);
	gru.h_prev = alloc(U);
	gru.w_ru = alloc(2 * U * 2 * U);
	gru.w_c = alloc(2 * U * U);
	gru.b_ru = alloc(2 * U);
	gru.b_c = alloc(U);
	gru.r = alloc(U);
	gru.u = alloc(U);
	gru.c = alloc(U);
	gru.h = alloc(U);
	assert_int_equal(cg_gru_block_work(&gru, CG_FORWARD, &bytes), CG_OK);
	gru.work = alloc(bytes / sizeof *memory);
}

static int call(int n)
{
	int code = CG_OK;

	for (int k = 0; k < n && !code; k++) {
		code = cg_lstm_block_forward(stream, &lstm);
		if (!code)
			code = cg_gru_block_forward(stream, &gru);
	}
	if (code)
		fprintf(stderr, "# %s\n", cg_message());
	return code;
}

static void test_no_lock(void **state)
{
	int locks_before, blocks_before;

	(void)state;
	assert_int_equal(call(1), CG_OK);
	locks_before = locks;
	blocks_before = blocks;
	assert_int_equal(call(CALLS), CG_OK);
	assert_int_equal(locks, locks_before);
	assert_int_equal(blocks, blocks_before);
}

#ifdef SECCOMP_MODE_STRICT
/* The child ends with 0, or by a signal at a system call that strict seccomp forbids; or with 1 if a call of the library fails, or with 2
   if there is no seccomp. */
static void call_without_system(void)
{
	struct cg_context *context;

	setenv("CELLGRAD_CPU_THREADS", "1", 1);
	if (cg_open("cpu", &context) || cg_stream_open(context, NULL, &stream) || call(1))
		_exit(1);
	if (prctl(PR_SET_SECCOMP, SECCOMP_MODE_STRICT))
		_exit(2);
	syscall(SYS_exit, call(CALLS) ? 1 : 0);
}
#endif

static void test_no_system_call(void **state)
{
	int status = 2 << 8;

	(void)state;
#ifdef SECCOMP_MODE_STRICT
	fflush(NULL);
	if (!fork())
		call_without_system();
	wait(&status);
#endif
	if (WIFEXITED(status) && WEXITSTATUS(status) == 2) {
		print_message("# this system cannot forbid system calls\n");
		skip();
	}
	assert_false(WIFSIGNALED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

int main(void)
{
	static const struct cg_allocator counted = { count, NULL };
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_no_system_call), cmocka_unit_test(test_no_lock) };
	struct cg_context *context;
	int failed;

	if (cg_set_allocator(&counted))
		return 1;
	fill();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	if (cg_open("cpu", &context) || cg_stream_open(context, NULL, &stream))
		return 1;
	failed = cmocka_run_group_tests(tests, NULL, NULL);
	cg_stream_close(stream);
	cg_close(context);
	return failed;
}
