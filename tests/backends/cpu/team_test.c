/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests that the threads of the cpu backend run each part of a call once. LSTMBlockCell, GRUBlockCell and their gradients, and an
 * interpreted kernel, give the same bits on 1, 2, 3 and 8 threads, and allocate no memory in a second call.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "backends/cpu/cpu.h"
#include "runtime/device/device.h"
#include "runtime/op/op.h"

enum { PARTS = 300, ROUNDS = 400 };
static const int counts[] = { 1, 2, 3, 8 };

struct round {
	int times[PARTS], parts, threads, wrong;
	pthread_barrier_t *barrier;
};

static void count_part(void *context, int64_t k, int thread)
{
	struct round *r = context;

	__atomic_add_fetch(&r->times[k], 1, __ATOMIC_RELAXED);
	if (thread < 0 || thread >= r->threads || (thread && thread >= r->parts))
		__atomic_store_n(&r->wrong, 1, __ATOMIC_RELAXED);
}

static void test_parts(void **state)
{
	(void)state;
	for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
		struct cg_team *team;

		assert_int_equal(cg_team_open(counts[c], &team), CG_OK);
		assert_int_equal(cg_team_threads(team), counts[c]);
		for (int n = 0; n < ROUNDS; n++) {
			struct round r = { .threads = counts[c] };
			int parts = n % 3 ? n % 7 : n % PARTS;

			r.parts = parts;
			cg_team_run(team, parts, count_part, &r);
			assert_false(r.wrong);
			for (int k = 0; k < PARTS; k++)
				assert_int_equal(r.times[k], k < parts);
			if (n % 100 == 0) {      /* lets the team's threads fall asleep */
				struct timespec t = { 0, 1000000 };

				nanosleep(&t, NULL);
			}
		}
		cg_team_close(team);
	}
}

static void meet(void *context, int64_t k, int thread)
{
	struct round *r = context;

	(void)k;
	__atomic_add_fetch(&r->times[thread], 1, __ATOMIC_RELAXED);
	pthread_barrier_wait(r->barrier);
}

/* Each part of a call waits for all others, so the call ends only if each part runs on a thread of its own; each thread has a number of
   its own. */
static void test_together(void **state)
{
	pthread_barrier_t barrier;
	struct cg_team *team;
	struct round r = { .barrier = &barrier };

	(void)state;
	pthread_barrier_init(&barrier, NULL, 5);
	assert_int_equal(cg_team_open(5, &team), CG_OK);
	for (int n = 1; n <= 20; n++) {
		cg_team_run(team, 5, meet, &r);
		for (int k = 0; k < 5; k++)
			assert_int_equal(r.times[k], n);
	}
	cg_team_close(team);
	pthread_barrier_destroy(&barrier);
}

/* ---- several callers ---- */

enum { CALLERS = 4 };
struct caller { struct cg_team *team; int wrong; };

static void *call_often(void *given)
{
	struct caller *caller = given;

	for (int n = 0; n < ROUNDS; n++) {
		struct round r = { .threads = cg_team_threads(caller->team), .parts = n % 7 };

		cg_team_run(caller->team, r.parts, count_part, &r);
		caller->wrong |= r.wrong;
		for (int k = 0; k < PARTS; k++)
			caller->wrong |= r.times[k] != (k < r.parts);
	}
	return NULL;
}

/* Four threads call one team at the same time: each part of each call runs once. */
static void test_callers(void **state)
{
	(void)state;
	for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
		struct caller callers[CALLERS];
		pthread_t threads[CALLERS];
		struct cg_team *team;

		assert_int_equal(cg_team_open(counts[c], &team), CG_OK);
		for (int k = 0; k < CALLERS; k++) {
			callers[k] = (struct caller){ team, 0 };
			assert_int_equal(pthread_create(&threads[k], NULL, call_often, &callers[k]), 0);
		}
		for (int k = 0; k < CALLERS; k++) {
			pthread_join(threads[k], NULL);
			assert_false(callers[k].wrong);
		}
		cg_team_close(team);
	}
}

struct held { struct cg_team *team; pthread_barrier_t all, release; };

static void hold(void *context, int64_t k, int thread)
{
	struct held *held = context;

	(void)k;
	(void)thread;
	pthread_barrier_wait(&held->all);
	pthread_barrier_wait(&held->release);
}

static void *hold_all(void *given)
{
	struct held *held = given;

	cg_team_run(held->team, 3, hold, held);
	return NULL;
}

/* A call ends while another call holds all threads of the team but the calling thread. */
static void test_held(void **state)
{
	struct round r = { .threads = 3, .parts = 9 };
	struct held held;
	pthread_t holder;

	(void)state;
	pthread_barrier_init(&held.all, NULL, 4);
	pthread_barrier_init(&held.release, NULL, 4);
	assert_int_equal(cg_team_open(3, &held.team), CG_OK);
	for (int n = 0; n < 5; n++) {
		assert_int_equal(pthread_create(&holder, NULL, hold_all, &held), 0);
		pthread_barrier_wait(&held.all);
		memset(r.times, 0, sizeof r.times);
		cg_team_run(held.team, r.parts, count_part, &r);
		assert_false(r.wrong);
		for (int k = 0; k < PARTS; k++)
			assert_int_equal(r.times[k], k < r.parts);
		pthread_barrier_wait(&held.release);
		pthread_join(holder, NULL);
	}
	cg_team_close(held.team);
	pthread_barrier_destroy(&held.all);
	pthread_barrier_destroy(&held.release);
}

/* ---- phases ---- */

enum { SHARES = 5, PHASES = 200 };
struct phases {
	int times[PHASES][SHARES], shares, slow, wrong;  /* slow: the share that sleeps in some phases; the number of no share: none sleeps */
	int done[PHASES];
};

/* Counts the runs of each share of a phase, and checks that every share of the phase before has ended. */
static void count_share(void *context, int64_t phase, int share, int thread)
{
	struct phases *p = context;
	struct timespec t = { 0, 200000 };

	if ((phase && __atomic_load_n(&p->done[phase - 1], __ATOMIC_ACQUIRE) != p->shares) || thread < 0 || thread >= p->shares)
		__atomic_store_n(&p->wrong, 1, __ATOMIC_RELAXED);
	p->times[phase][share]++;
	if (share == p->slow && phase % 50 == 0)
		nanosleep(&t, NULL);
	__atomic_add_fetch(&p->done[phase], 1, __ATOMIC_RELEASE);
}

static void test_phases(void **state)
{
	struct cg_team_count counts_of[SHARES + 1];

	(void)state;
	for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
		struct cg_team *team;

		assert_int_equal(cg_team_open(counts[c], &team), CG_OK);
		for (int n = 0; n < 40; n++) {
			struct phases p = { .shares = 1 + n % SHARES, .slow = n % 8 - 3 };
			int phases = n % 4 ? PHASES : n % 5;

			cg_team_run_phases(team, p.shares, phases, counts_of, count_share, &p);
			assert_false(p.wrong);
			for (int k = 0; k < PHASES; k++)
				for (int j = 0; j < SHARES; j++)
					assert_int_equal(p.times[k][j], k < phases && j < p.shares);
		}
		cg_team_close(team);
	}
}

/* ---- the same bits ---- */

static size_t seed;

/* Returns finite numbers of a dtype, some of them subnormal, in new memory. */
static struct cg_mem numbers(int dtype, int64_t n)
{
	size_t bytes = cg_dtype_bytes(dtype);
	struct cg_mem mem = { calloc((size_t)n, bytes), 0, (size_t)n * bytes, CG_HOST };

	assert_non_null(mem.data);
	for (int64_t k = 0; k < n; k++) {
		union { float x; uint32_t bits; } narrow;
		double x;

		seed = seed * 1103515245u + 12345u;
		x = ((double)(seed >> 16 & 0x3ff) / 512 - 1) / 8;
		narrow.x = (float)(k % 97 ? x : 1e-40);
		switch (dtype) {
		case CG_F64:  ((double *)mem.data)[k] = k % 97 ? x : 1e-310; break;
		case CG_F32:  ((float *)mem.data)[k] = narrow.x; break;
		case CG_BF16: ((uint16_t *)mem.data)[k] = (uint16_t)(narrow.bits >> 16); break;
		default:      ((uint16_t *)mem.data)[k] = (uint16_t)((seed >> 16 & 0x3ff) | (k % 97 ? 0x2c00 : 0) | (seed & 0x8000));
		}
	}
	return mem;
}

static struct cg_mem space(int dtype, int64_t n)
{
	struct cg_mem mem = { calloc((size_t)n, cg_dtype_bytes(dtype)), 0, (size_t)n * cg_dtype_bytes(dtype), CG_HOST };

	assert_non_null(mem.data);
	return mem;
}

enum { MEMS = 40 };
struct tensors { struct cg_mem mem[MEMS]; int n; };

static struct cg_mem keep(struct tensors *t, struct cg_mem mem)
{
	assert_true(t->n < MEMS);
	return t->mem[t->n++] = mem;
}

static void lstm(struct cg_stream *stream, int dtype, int64_t B, int64_t I, int64_t U, struct tensors *t)
{
	struct cg_lstm_block op;

	cg_lstm_block_init(&op, sizeof op);
	op.B = B, op.I = I, op.U = U, op.dtype = dtype, op.use_peephole = 1;
	op.x = keep(t, numbers(dtype, B * I));
	op.cs_prev = keep(t, numbers(dtype, B * U));
	op.h_prev = keep(t, numbers(dtype, B * U));
	op.w = keep(t, numbers(dtype, (I + U) * 4 * U));
	op.wci = keep(t, numbers(dtype, U));
	op.wcf = keep(t, numbers(dtype, U));
	op.wco = keep(t, numbers(dtype, U));
	op.b = keep(t, numbers(dtype, 4 * U));
	op.h_grad = keep(t, numbers(dtype, B * U));
	op.i = keep(t, space(dtype, B * U));
	op.cs = keep(t, space(dtype, B * U));
	op.f = keep(t, space(dtype, B * U));
	op.o = keep(t, space(dtype, B * U));
	op.ci = keep(t, space(dtype, B * U));
	op.co = keep(t, space(dtype, B * U));
	op.h = keep(t, space(dtype, B * U));
	op.x_grad = keep(t, space(dtype, B * I));
	op.cs_prev_grad = keep(t, space(dtype, B * U));
	op.dgates = keep(t, space(dtype, B * 4 * U));
	op.w_grad = keep(t, space(dtype, (I + U) * 4 * U));
	op.wci_grad = keep(t, space(dtype, U));
	op.b_grad = keep(t, space(dtype, 4 * U));
	assert_int_equal(cg_lstm_block_forward(stream, &op), CG_OK);
	assert_int_equal(cg_lstm_block_grad(stream, &op), CG_OK);
	cg_memory_fail(0);
	assert_int_equal(cg_lstm_block_forward(stream, &op), CG_OK);
	assert_int_equal(cg_lstm_block_grad(stream, &op), CG_OK);
	assert_int_equal(cg_memory_fail(0), 0);
}

static void gru(struct cg_stream *stream, int dtype, int64_t B, int64_t I, int64_t U, struct tensors *t)
{
	struct cg_gru_block op;

	cg_gru_block_init(&op, sizeof op);
	op.B = B, op.I = I, op.U = U, op.dtype = dtype;
	op.x = keep(t, numbers(dtype, B * I));
	op.h_prev = keep(t, numbers(dtype, B * U));
	op.w_ru = keep(t, numbers(dtype, (I + U) * 2 * U));
	op.w_c = keep(t, numbers(dtype, (I + U) * U));
	op.b_ru = keep(t, numbers(dtype, 2 * U));
	op.b_c = keep(t, numbers(dtype, U));
	op.d_h = keep(t, numbers(dtype, B * U));
	op.r = keep(t, space(dtype, B * U));
	op.u = keep(t, space(dtype, B * U));
	op.c = keep(t, space(dtype, B * U));
	op.h = keep(t, space(dtype, B * U));
	op.d_x = keep(t, space(dtype, B * I));
	op.d_h_prev = keep(t, space(dtype, B * U));
	op.d_w_ru = keep(t, space(dtype, (I + U) * 2 * U));
	op.d_w_c = keep(t, space(dtype, (I + U) * U));
	op.d_b_ru = keep(t, space(dtype, 2 * U));
	op.d_b_c = keep(t, space(dtype, U));
	assert_int_equal(cg_gru_block_forward(stream, &op), CG_OK);
	assert_int_equal(cg_gru_block_grad(stream, &op), CG_OK);
	cg_memory_fail(0);
	assert_int_equal(cg_gru_block_forward(stream, &op), CG_OK);
	assert_int_equal(cg_gru_block_grad(stream, &op), CG_OK);
	assert_int_equal(cg_memory_fail(0), 0);
}

static const char mine[] = "cell mine\ngates a\nstate c\noutput h\noption extra p\n\nc = sigmoid(a) * c_prev + tanh(a + p * c_prev)\n"
                           "h = tanh(c)\nsave c\n";

/* Interprets twice the gradient of a cell that is not compiled, and the sums after it; the second time allocates no memory. */
static void interpreted(struct cg_stream *stream, int dtype, int64_t B, int64_t I, int64_t U, struct tensors *t)
{
	struct cg_cell *cell;
	struct cg_kernel kernel = { .options = "extra", .pass = CG_GRAD, .dtype = dtype };
	struct cg_arg args[] = {
		{ "a", keep(t, numbers(dtype == CG_F64 ? CG_F64 : CG_F32, B * U)), U, 0 }, { "c_prev", keep(t, numbers(dtype, B * U)), U, 0 },
		{ "p", keep(t, numbers(dtype, U)), U, 0 }, { "c", keep(t, numbers(dtype, B * U)), U, 0 },
		{ "dh", keep(t, numbers(dtype, B * U)), U, 0 }, { "dc", { .bytes = 0 }, U, 0 },
		{ "da", keep(t, space(dtype, B * U)), U, 0 }, { "dc_prev", keep(t, space(dtype, B * U)), U, 0 },
		{ "dp", keep(t, space(dtype, U)), U, 0 }, { "db_a", keep(t, space(dtype, U)), U, 0 },
	};

	(void)I;
	assert_int_equal(cg_cell_parse(mine, "mine", &cell), CG_OK);
	kernel.cell = cell;
	for (int n = 0; n < 2; n++) {
		cg_memory_fail(0);
		for (int shape = CG_POINT; shape <= CG_SUM; shape++) {
			int code;

			kernel.shape = shape;
			code = cg_kernel_run(stream, &kernel, B, U, args, sizeof args / sizeof *args);
			if (code)
				fail_msg("%s", cg_message());
		}
	}
	assert_int_equal(cg_memory_fail(0), 0);
	cg_cell_close(cell);
}

typedef void op_test(struct cg_stream *, int dtype, int64_t B, int64_t I, int64_t U, struct tensors *);

/* Runs `op`, which is lstm, gru or interpreted, on `threads` threads, and keeps all its tensors. */
static void run_on(int threads, op_test *op, int dtype, const int64_t *shape, struct tensors *t)
{
	struct cg_context *context;
	struct cg_stream *stream;

	seed = 1;
	assert_int_equal(cg_open("cpu", &context), CG_OK);
	context->device->threads = threads;
	assert_int_equal(cg_stream_open(context, NULL, &stream), CG_OK);
	op(stream, dtype, shape[0], shape[1], shape[2], t);
	cg_stream_close(stream);
	cg_close(context);
}

static void free_tensors(struct tensors *t)
{
	while (t->n)
		free(t->mem[--t->n].data);
}

static void test_bits(void **state)
{
	static op_test *const ops[] = { lstm, gru, interpreted };
	static const int64_t shapes[][3] = { { 1, 3, 5 }, { 1, 2, 40000 }, { 300, 70, 270 } };

	(void)state;
	for (int o = 0; o < 3; o++)
		for (int dtype = 0; dtype < CG_DTYPE_COUNT; dtype++)
			for (int s = 0; s < 3; s++) {
				struct tensors one = { .n = 0 };

				if (s == 1 && ops[o] != interpreted)
					continue;        /* the weights in lstm() and gru() would be too large: 40002 x 160000 elements for lstm() */
				run_on(1, ops[o], dtype, shapes[s], &one);
				for (size_t c = 1; c < sizeof counts / sizeof *counts; c++) {
					struct tensors many = { .n = 0 };

					run_on(counts[c], ops[o], dtype, shapes[s], &many);
					for (int k = 0; k < one.n; k++)
						if (memcmp(one.mem[k].data, many.mem[k].data, one.mem[k].bytes))
							fail_msg("op %d, %s, shape %d: tensor %d differs on %d threads", o, cg_dtype_name(dtype),
							         s, k, counts[c]);
					free_tensors(&many);
				}
				free_tensors(&one);
			}
}

static void test_variable(void **state)
{
	static const char *const wrong[] = { "0", "-1", "x", "1x", " 1", "1 ", "+1", "1.0", "1000000", "99999999999999999999" };
	struct cg_context *context;

	(void)state;
	for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
		setenv("CELLGRAD_CPU_THREADS", wrong[k], 1);
		assert_int_equal(cg_open("cpu", &context), CG_BAD_ARGUMENT);
		assert_non_null(strstr(cg_message(), "CELLGRAD_CPU_THREADS: expected "));
		assert_non_null(strstr(cg_message(), wrong[k]));
	}
	setenv("CELLGRAD_CPU_THREADS", "0", 1);
	assert_int_equal(cg_open(NULL, &context), CG_BAD_ARGUMENT);
	setenv("CELLGRAD_CPU_THREADS", "1", 1);
	assert_int_equal(cg_open("cpu", &context), CG_OK);
	assert_non_null(strstr(cg_describe(context), "; 1 thread"));
	assert_null(strstr(cg_describe(context), "threads"));
	cg_close(context);
	setenv("CELLGRAD_CPU_THREADS", "", 1);
	assert_int_equal(cg_open("cpu", &context), CG_OK);
	assert_int_equal(context->device->threads, cg_limit_by_quota("", cg_count_processors()));
	cg_close(context);
	unsetenv("CELLGRAD_CPU_THREADS");
}

/* "cpu:threads=N", in the call or in CELLGRAD_BACKEND, overrides CELLGRAD_CPU_THREADS; an invalid N is refused. */
static void test_name(void **state)
{
	static const char *const wrong[] = { "", "0", "-1", "x", "1x", " 1", "+1", "01x", "1.0", "1000000", "99999999999999999999" };
	struct cg_context *context;
	char name[64], most[24];

	(void)state;
	for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
		snprintf(name, sizeof name, "cpu:threads=%s", wrong[k]);
		assert_int_equal(cg_open(name, &context), CG_BAD_ARGUMENT);
		snprintf(name, sizeof name, "threads: expected 1 to %d, ", cg_count_processors());
		snprintf(most, sizeof most, "got '%s'", wrong[k]);
		assert_non_null(strstr(cg_message(), name));
		assert_non_null(strstr(cg_message(), most));
	}
	assert_int_equal(cg_open("cpu:1", &context), CG_NO_DEVICE);
	assert_int_equal(cg_open("cpu:", &context), CG_BAD_ARGUMENT);
	assert_int_equal(cg_open("cpu:1x", &context), CG_BAD_ARGUMENT);
	assert_int_equal(cg_open("cpu:thread=1", &context), CG_BAD_ARGUMENT);
	assert_non_null(strstr(cg_message(), "cpu:threads=N, got cpu:thread=1"));
	snprintf(most, sizeof most, "%d", cg_count_processors());
	snprintf(name, sizeof name, "cpu:threads=%s", most);
	assert_int_equal(cg_open(name, &context), CG_OK);
	assert_int_equal(context->device->threads, cg_count_processors());
	cg_close(context);
	setenv("CELLGRAD_CPU_THREADS", most, 1);
	assert_int_equal(cg_open("cpu:threads=1", &context), CG_OK);
	assert_non_null(strstr(cg_describe(context), "; 1 thread"));
	cg_close(context);
	setenv("CELLGRAD_BACKEND", "cpu:threads=1", 1);
	assert_int_equal(cg_open(NULL, &context), CG_OK);
	assert_int_equal(context->device->threads, 1);
	cg_close(context);
	unsetenv("CELLGRAD_BACKEND");
	unsetenv("CELLGRAD_CPU_THREADS");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_parts), cmocka_unit_test(test_together), cmocka_unit_test(test_callers),
		cmocka_unit_test(test_held), cmocka_unit_test(test_phases),
		cmocka_unit_test(test_bits),
		cmocka_unit_test(test_variable), cmocka_unit_test(test_name),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("team", tests, NULL, NULL);
}
