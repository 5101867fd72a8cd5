/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two copies of OpenBLAS in one process, the library's and the host program's: before, during and after the library's computations the
 * host's copy keeps its number of threads and its bits, and the library's results keep their bits when the host sets 1, 2 or 4 threads.
 * Each order of loading is tested in a process of its own, since neither copy can be unloaded. tests/command/openblas.bats tests which
 * libraries are accepted at all.
 */
#include <dlfcn.h>
#include <link.h>
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "backends/cpu/openblas.h"
#include "runtime/cellgrad.h"

enum { SIZE = 200, B = 40, I = 130, U = 150, REPEATS = 10 };

/* ---- the host program's own OpenBLAS ---- */

static struct {
	void (*set_threads)(int);
	int (*threads)(void);
	cg_dgemm *dgemm;
} host;

static int host_opens(void)
{
	void *handle = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_GLOBAL);

	if (!handle)
		return 0;
	*(void **)&host.set_threads = dlsym(handle, "openblas_set_num_threads");
	*(void **)&host.threads = dlsym(handle, "openblas_get_num_threads");
	*(void **)&host.dgemm = dlsym(handle, "cblas_dgemm");
	return host.set_threads && host.threads && host.dgemm;
}

/* Returns element k of a matrix that is not symmetric, has no zeros, and no two equal neighbours. */
static double number(int k)
{
	return (double)((unsigned)k * 2654435761u % 1999 + 1) / 1000 - 1.0005;
}

static void host_product(double *c)
{
	static double a[SIZE * SIZE], b[SIZE * SIZE];

	for (int k = 0; k < SIZE * SIZE; k++) {
		a[k] = number(k);
		b[k] = number(k + 7);
	}
	memset(c, 0, SIZE * SIZE * sizeof *c);
	host.dgemm(101, 111, 112, SIZE, SIZE, SIZE, 1, a, SIZE, b, SIZE, 0, c, SIZE);
}

/* ---- the library's own OpenBLAS ---- */

enum { RESULTS = B * I + 5 * B * U + (I + U) * 3 * U };

static float memory[2 * RESULTS + 4 * (I + U) * 3 * U];
static size_t used;

static struct cg_mem alloc(int64_t n)
{
	struct cg_mem mem = { memory + used, 0, (size_t)n * sizeof *memory, CG_HOST };

	used += (size_t)n;
	return mem;
}

static struct cg_mem filled(int64_t n, double scale)
{
	struct cg_mem mem = alloc(n);

	for (int k = 0; k < n; k++)
		((float *)mem.data)[k] = (float)(number(k + (int)n) * scale);
	return mem;
}

/* Computes op GRUBlockCell and its gradient. `results` receives the outputs of op GRUBlockCell and of its gradient op, except the gradients
   of the biases and of the pre-activations, which are not requested. */
static int ours(struct cg_stream *stream, float *results)
{
	struct cg_gru_block op;
	size_t first;
	int code;

	used = 0;
	cg_gru_block_init(&op, sizeof op);
	op.B = B;
	op.I = I;
	op.U = U;
	op.x = filled(B * I, 1);
	op.h_prev = filled(B * U, 1);
	op.w_ru = filled((I + U) * 2 * U, 0.1);
	op.w_c = filled((I + U) * U, 0.1);
	op.b_ru = filled(2 * U, 1);
	op.b_c = filled(U, 1);
	op.d_h = filled(B * U, 1);
	first = used;
	op.r = alloc(B * U);
	op.u = alloc(B * U);
	op.c = alloc(B * U);
	op.h = alloc(B * U);
	op.d_x = alloc(B * I);
	op.d_h_prev = alloc(B * U);
	op.d_w_ru = alloc((I + U) * 2 * U);
	op.d_w_c = alloc((I + U) * U);
	memset(memory + first, 0x77, (used - first) * sizeof *memory);
	code = cg_gru_block_forward(stream, &op);
	if (!code)
		code = cg_gru_block_grad(stream, &op);
	memcpy(results, memory + first, RESULTS * sizeof *results);
	return code;
}

/* ---- cases: each function way_...() runs in a process of its own, and returns 0, or the line of the condition that does not hold ---- */

#define MUST(truth) do { if (!(truth)) return __LINE__; } while (0)

static float *shared;                  /* memory that processes share: the RESULTS numbers of one process, for comparison in another */

static double before[SIZE * SIZE], now[SIZE * SIZE];
static float first[RESULTS], again[RESULTS];
static struct cg_context *context;
static struct cg_stream *stream;

static int open_ours(void)
{
	return cg_open("cpu", &context) || cg_stream_open(context, NULL, &stream);
}

static int keeps(const char *what)
{
	host_product(now);
	if (host.threads() == 2 && !memcmp(before, now, sizeof now))
		return 1;
	fprintf(stderr, "# %s: the host's threads: %d, its bits %s\n", what, host.threads(),
	        memcmp(before, now, sizeof now) ? "changed" : "kept");
	return 0;
}

static int way_host_first(void)
{
	MUST(host_opens());
	host.set_threads(2);
	host_product(before);
	MUST(keeps("before"));
	MUST(!open_ours());
	MUST(cg_load_openblas()->sgemm);
	MUST(keeps("ours is open"));
	MUST(!ours(stream, first));
	MUST(keeps("ours has computed"));
	cg_stream_close(stream);
	cg_close(context);
	MUST(keeps("ours is closed"));
	memcpy(shared, first, sizeof first);
	return 0;
}

static int way_ours_first(void)
{
	MUST(!open_ours());
	MUST(cg_load_openblas()->sgemm);
	MUST(!ours(stream, first));
	MUST(host_opens());
	for (int n = 1; n <= 4; n *= 2) {
		host.set_threads(n);
		MUST(!ours(stream, again));
		MUST(host.threads() == n);
		MUST(!memcmp(first, again, sizeof first));
	}
	host.set_threads(2);
	host_product(before);
	MUST(!ours(stream, again));
	MUST(keeps("ours came first"));
	MUST(!memcmp(first, again, sizeof first));
	/* The library's results equal those of the process in which the host's copy of OpenBLAS was loaded before the library's
	   copy. */
	MUST(!memcmp(first, shared, sizeof first));
	return 0;
}

static int stop, wrong;

static void *host_computes(void *unused)
{
	static double mine[SIZE * SIZE];

	(void)unused;
	while (!__atomic_load_n(&stop, __ATOMIC_ACQUIRE)) {
		host_product(mine);
		wrong += memcmp(before, mine, sizeof mine) || host.threads() != 2;
	}
	return NULL;
}

static int way_at_once(void)
{
	pthread_t thread;

	MUST(host_opens());
	host.set_threads(2);
	host_product(before);
	MUST(!open_ours());
	MUST(!ours(stream, first));
	MUST(!pthread_create(&thread, NULL, host_computes, NULL));
	for (int k = 0; k < REPEATS; k++) {
		MUST(!ours(stream, again));
		MUST(!memcmp(first, again, sizeof first));
	}
	__atomic_store_n(&stop, 1, __ATOMIC_RELEASE);
	MUST(!pthread_join(thread, NULL));
	MUST(!wrong);
	return 0;
}

static double seconds(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Returns the processor time, in seconds, that all threads of the process but the calling one have used so far. */
static double others_seconds(void)
{
	return seconds(CLOCK_PROCESS_CPUTIME_ID) - seconds(CLOCK_THREAD_CPUTIME_ID);
}

/* Waits, at most about ten seconds, until the other threads of the process take next to no processor time: the workers that OpenBLAS
   starts when OpenBLAS is loaded spin for a while before they sleep, on a busy machine for longer. */
static void wait_for_others(void)
{
	const struct timespec pause = { 0, 20000000 };
	int quiet = 0;

	for (int k = 0; k < 500 && quiet < 5; k++) {
		double before = others_seconds();

		nanosleep(&pause, NULL);
		quiet = others_seconds() - before < 0.001 ? quiet + 1 : 0;
	}
}

enum { LARGE = 600, ROUNDS = 5 };
static double large[3][LARGE * LARGE];

/* Divides the processor time that other threads of the process use during three products by that of the calling thread.  Returns the least
   quotient of ROUNDS rounds, since work that disturbs one round need not disturb all. */
static double others_share(cg_dgemm *dgemm)
{
	double least = INFINITY;

	for (int k = 0; k < LARGE * LARGE; k++)
		large[0][k] = large[1][k] = large[2][k] = number(k);
	for (int round = 0; round < ROUNDS; round++) {
		double others, own;

		wait_for_others();
		others = others_seconds();
		own = seconds(CLOCK_THREAD_CPUTIME_ID);
		for (int k = 0; k < 3; k++)
			dgemm(101, 111, 111, LARGE, LARGE, LARGE, 1, large[0], LARGE, large[1], LARGE, 1, large[2], LARGE);
		own = seconds(CLOCK_THREAD_CPUTIME_ID) - own;
		others = others_seconds() - others;
		least = fmin(least, others / own);
	}
	return least;
}

static void *ours_in_a_thread(void *share)
{
	*(double *)share = others_share(cg_load_openblas()->dgemm);
	return NULL;
}

/* Other threads do less than a quarter as much of a product by the library's OpenBLAS, called from this thread or from a new one, as of
   a product by the host's OpenBLAS with two threads.  On an idle machine others_share() of the host's product is about 1. */
static int way_one_thread(void)
{
	double here, there, hosts;
	pthread_t thread;

	MUST(cg_load_openblas()->dgemm);
	here = others_share(cg_load_openblas()->dgemm);
	MUST(!pthread_create(&thread, NULL, ours_in_a_thread, &there));
	MUST(!pthread_join(thread, NULL));
	MUST(host_opens());
	host.set_threads(2);
	hosts = others_share(host.dgemm);
	printf("# other threads' part of a product: ours %.4f, in a new thread %.4f; of the host's two threads %.4f\n", here, there, hosts);
	MUST(hosts > 0);
	MUST(here < hosts / 4);
	MUST(there < hosts / 4);
	return 0;
}

/* A host that has used up the C library's link namespaces, or its memory for thread-local data, makes the library use its own
   product instead of OpenBLAS, and the description of the device says why. */
static int way_no_namespace(void)
{
	int n = 0;

	while (n < 64 && dlmopen(LM_ID_NEWLM, "libm.so.6", RTLD_NOW))
		n++;
	MUST(n > 3 && n < 64);
	MUST(!open_ours());
	MUST(!cg_load_openblas()->sgemm && !cg_load_openblas()->dgemm);
	MUST(strstr(cg_describe(context), "our own (libopenblas.so.0: "));
	MUST(strstr(cg_describe(context), "namespace") || strstr(cg_describe(context), "static TLS"));
	MUST(!ours(stream, first));
	for (int k = 0; k < RESULTS; k++)
		MUST(fabsf(first[k]) < 1e3f);
	return 0;
}

/* ---- tests ---- */

static int in_a_process(int (*body)(void))
{
	pid_t pid;
	int status;

	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		int line = body();

		if (line > 1)
			fprintf(stderr, "# blas_test.c:%d: not so\n", line);
		fflush(NULL);
		_exit(line ? 2 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	return status;
}

/* Returns 0 if the host finds libopenblas.so.0 and the library loads an OpenBLAS that it accepts, else 1. */
static int way_there(void)
{
	return !host_opens() || !cg_load_openblas()->sgemm;
}

static void there_or_skip(void)
{
	const char *required = getenv("CELLGRAD_TEST_REQUIRE");
	int status = in_a_process(way_there);

	if (status) {
		assert_int_equal(WEXITSTATUS(status), 2);
		assert_true(!required || !strstr(required, "openblas"));
		print_message("# there is no OpenBLAS that the cpu backend takes\n");
		skip();
	}
}

static void test_host_first(void **state)
{
	(void)state;
	there_or_skip();
	assert_int_equal(in_a_process(way_host_first), 0);
	assert_int_equal(in_a_process(way_ours_first), 0);
}

static void test_at_once(void **state)
{
	(void)state;
	there_or_skip();
	assert_int_equal(in_a_process(way_at_once), 0);
}

static void test_one_thread(void **state)
{
	(void)state;
	there_or_skip();
	assert_int_equal(in_a_process(way_one_thread), 0);
}

static void test_no_namespace(void **state)
{
	(void)state;
	there_or_skip();
	assert_int_equal(in_a_process(way_no_namespace), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_host_first),
		cmocka_unit_test(test_at_once),
		cmocka_unit_test(test_one_thread),
		cmocka_unit_test(test_no_namespace),
	};

	shared = mmap(NULL, sizeof first, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (shared == MAP_FAILED)
		return 1;
	/* Sets the instruction set "baseline": with any other instruction set the library would use its own, faster product instead of
	   OpenBLAS. */
	setenv("CELLGRAD_CPU_ISA", "baseline", 1);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("blas", tests, NULL, NULL);
}
