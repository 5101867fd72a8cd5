/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads share a context and cells, each with a stream and a problem of its own: first calls race to build the kernels, all answers have
 * the bits that each problem has alone on another context, and each thread has its own error message.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "runtime/core/core.h"
#include "tests/help/counted.h"

enum { THREADS = 8, TIMES = 20, CAPACITY = 1 << 13 };

struct work {
	struct cg_context *context;
	pthread_barrier_t *start;                /* the barrier at which all threads begin; NULL: one thread alone */
	int number, wrong;
	unsigned drawn;                          /* the state of the problem's random numbers */
	size_t ins, outs;                        /* the numbers of elements of `in` and of `out` that are in use */
	float in[CAPACITY], out[CAPACITY];
};

static struct cg_mem input(struct work *w, int64_t n)
{
	float *to = w->in + w->ins;

	w->ins += (size_t)n;
	assert_true(w->ins <= CAPACITY);
	for (int64_t k = 0; k < n; k++) {
		w->drawn = w->drawn * 1664525u + 1013904223u;
		to[k] = (float)(w->drawn >> 8) / 16777216.0f - 0.5f;
	}
	return (struct cg_mem){ to, 0, (size_t)n * sizeof *to, CG_HOST };
}

static struct cg_mem output(struct work *w, int64_t n)
{
	float *to = w->out + w->outs;

	w->outs += (size_t)n;
	assert_true(w->outs <= CAPACITY);
	return (struct cg_mem){ to, 0, (size_t)n * sizeof *to, CG_HOST };
}

/* No two threads have an LSTM of the same sizes. */
static void set_lstm(struct work *w, struct cg_lstm_block *op)
{
	int64_t B = 2 + w->number % 3, I = 3 + w->number, U = 19 - w->number, cells = B * U, weights = (I + U) * 4 * U;

	cg_lstm_block_init(op, sizeof *op);
	op->B = B, op->I = I, op->U = U;
	op->use_peephole = w->number / 2 % 2;
	op->x = input(w, B * I);
	op->cs_prev = input(w, cells);
	op->h_prev = input(w, cells);
	op->w = input(w, weights);
	op->wci = input(w, U);
	op->wcf = input(w, U);
	op->wco = input(w, U);
	op->b = input(w, 4 * U);
	op->h_grad = input(w, cells);
	op->i = output(w, cells);
	op->cs = output(w, cells);
	op->f = output(w, cells);
	op->o = output(w, cells);
	op->ci = output(w, cells);
	op->co = output(w, cells);
	op->h = output(w, cells);
	op->w_grad = output(w, weights);
	op->x_grad = output(w, B * I);
}

static void set_gru(struct work *w, struct cg_gru_block *op)
{
	int64_t B = 4 - w->number % 3, I = 5 + w->number, U = 7 + w->number, cells = B * U;

	cg_gru_block_init(op, sizeof *op);
	op->B = B, op->I = I, op->U = U;
	op->x = input(w, B * I);
	op->h_prev = input(w, cells);
	op->w_ru = input(w, (I + U) * 2 * U);
	op->w_c = input(w, (I + U) * U);
	op->b_ru = input(w, 2 * U);
	op->b_c = input(w, U);
	op->d_h = input(w, cells);
	op->r = output(w, cells);
	op->u = output(w, cells);
	op->c = output(w, cells);
	op->h = output(w, cells);
	op->d_x = output(w, B * I);
	op->d_w_ru = output(w, (I + U) * 2 * U);
}

static int compute(struct cg_stream *stream, const struct cg_lstm_block *lstm, const struct cg_gru_block *gru)
{
	if (lstm)
		return cg_lstm_block_forward(stream, lstm) || cg_lstm_block_grad(stream, lstm);
	return cg_gru_block_forward(stream, gru) || cg_gru_block_grad(stream, gru);
}

static void *run(void *given)
{
	struct work *w = given;
	struct cg_lstm_block lstm;
	struct cg_gru_block gru;
	struct cg_stream *stream;
	char text[40];

	w->drawn = (unsigned)w->number + 1;
	set_lstm(w, &lstm);
	set_gru(w, &gru);
	snprintf(text, sizeof text, "no%d", w->number);
	if (w->start)
		pthread_barrier_wait(w->start);
	w->wrong = cg_stream_open(w->context, NULL, &stream);
	for (int k = 0; k < TIMES && !w->wrong; k++)
		w->wrong = compute(stream, (w->number + k) % 2 ? &lstm : NULL, &gru) || cg_cell_find(text) ||
		           !strstr(cg_message(), text) || !cg_cell_find(k % 2 ? "gru" : "lstm");
	cg_stream_close(stream);
	return NULL;
}

static struct work alone[THREADS], shared[THREADS];

static void test_shared(void **state)
{
	struct cg_context *context;
	pthread_barrier_t start;
	pthread_t threads[THREADS];

	(void)state;
	for (int k = 0; k < THREADS; k++) {
		assert_int_equal(cg_open(NULL, &context), CG_OK);
		alone[k].context = context;
		alone[k].number = k;
		run(&alone[k]);
		cg_close(context);
		assert_false(alone[k].wrong);
	}
	assert_int_equal(cg_open(NULL, &context), CG_OK);
	pthread_barrier_init(&start, NULL, THREADS);
	for (int k = 0; k < THREADS; k++) {
		shared[k].context = context;
		shared[k].start = &start;
		shared[k].number = k;
		assert_int_equal(pthread_create(&threads[k], NULL, run, &shared[k]), 0);
	}
	for (int k = 0; k < THREADS; k++)
		assert_int_equal(pthread_join(threads[k], NULL), 0);
	pthread_barrier_destroy(&start);
	cg_close(context);
	for (int k = 0; k < THREADS; k++) {
		assert_false(shared[k].wrong);
		assert_memory_equal(alone[k].out, shared[k].out, sizeof alone[k].out);
		for (int j = 0; j < k; j++)
			assert_memory_not_equal(alone[k].out, alone[j].out, sizeof alone[k].out);
	}
	counted_nothing_left();
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_shared) };

	counted_begin();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("threads", tests, NULL, NULL);
}
