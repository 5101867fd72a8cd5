/*
 * Contexts and cells shared by threads, a stream for each: the same bits in all of them, first calls racing to build the kernels,
 * and each thread's message its own.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "runtime/runtime.h"

enum { THREADS = 8, TIMES = 20, B = 5, I = 7, U = 19, K = I + U };

struct work {
	struct cg_context *context;
	int number, wrong;
	float x[B * I], state[2][B * U], w[K * 4 * U], wc[3][U], b[4 * U];
	float out[7][B * U], up[B * U];
	float w_grad[K * 4 * U], x_grad[B * I];
};

static struct cg_mem host(void *data, size_t bytes)
{
	return (struct cg_mem){ data, 0, bytes, CG_HOST };
}

static void fill(float *to, size_t n)
{
	unsigned state = (unsigned)n;

	for (size_t k = 0; k < n; k++) {
		state = state * 1664525u + 1013904223u;
		to[k] = (float)(state >> 8) / 16777216.0f - 0.5f;
	}
}

#define MEM(field) host(work->field, sizeof work->field)

static void *run(void *given)
{
	struct work *work = given;
	struct cg_lstm_block op;
	struct cg_stream *stream;
	char words[40];

	cg_lstm_block_init(&op, sizeof op);
	op.B = B;
	op.I = I;
	op.U = U;
	op.use_peephole = 1;
	op.x = MEM(x);
	op.cs_prev = MEM(state[0]);
	op.h_prev = MEM(state[1]);
	op.w = MEM(w);
	op.wci = MEM(wc[0]);
	op.wcf = MEM(wc[1]);
	op.wco = MEM(wc[2]);
	op.b = MEM(b);
	op.i = MEM(out[0]);
	op.cs = MEM(out[1]);
	op.f = MEM(out[2]);
	op.o = MEM(out[3]);
	op.ci = MEM(out[4]);
	op.co = MEM(out[5]);
	op.h = MEM(out[6]);
	op.h_grad = MEM(up);
	op.w_grad = MEM(w_grad);
	op.x_grad = MEM(x_grad);
	work->wrong = cg_stream_open(work->context, NULL, &stream);
	for (int k = 0; k < TIMES && !work->wrong; k++) {
		snprintf(words, sizeof words, "no%d", work->number);
		work->wrong = cg_lstm_block_forward(stream, &op) || cg_lstm_block_grad(stream, &op) || cg_cell_find(words) ||
		              !strstr(cg_message(), words) || !cg_cell_find(k % 2 ? "gru" : "lstm");
	}
	cg_stream_close(stream);
	return NULL;
}

static void test_shared(void **state)
{
	static struct work work[THREADS];
	pthread_t threads[THREADS];
	struct cg_context *context;

	(void)state;
	assert_int_equal(cg_open(NULL, &context), CG_OK);
	for (int k = 0; k < THREADS; k++) {
		struct work *w = &work[k];

		w->context = context;
		w->number = k;
		fill(w->x, B * I);
		fill(w->state[0], B * U);
		fill(w->state[1], B * U);
		fill(w->w, K * 4 * U);
		for (int p = 0; p < 3; p++)
			fill(w->wc[p], U);
		fill(w->b, 4 * U);
		fill(w->up, B * U);
		assert_int_equal(pthread_create(&threads[k], NULL, run, w), 0);
	}
	for (int k = 0; k < THREADS; k++)
		assert_int_equal(pthread_join(threads[k], NULL), 0);
	cg_close(context);
	for (int k = 0; k < THREADS; k++) {
		assert_false(work[k].wrong);
		assert_memory_equal(work[k].out, work[0].out, sizeof work[0].out);
		assert_memory_equal(work[k].w_grad, work[0].w_grad, sizeof work[0].w_grad);
		assert_memory_equal(work[k].x_grad, work[0].x_grad, sizeof work[0].x_grad);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_shared) };

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
