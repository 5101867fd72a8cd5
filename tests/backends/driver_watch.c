/* SPDX-License-Identifier: Apache-2.0 */
/* Functions that cuda_watch.c, opencl_watch.c and their tests share. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "runtime/op/op.h"
#include "tests/backends/driver_watch.h"
#include "tests/help/shorten.h"

long made, fatal;
const char *failed_call;

int fails_now(const char *call)
{
	if (__atomic_add_fetch(&made, 1, __ATOMIC_RELAXED) != fatal)
		return 0;
	failed_call = call;
	return 1;
}

void forget_failures(void)
{
	made = fatal = 0;
	failed_call = NULL;
}

int open_or_skip(const char *backend, struct cg_context **context)
{
	const char *required = getenv("CELLGRAD_TEST_REQUIRE");

	if (!cg_open(backend, context))
		return 1;
	if (required && strstr(required, backend))
		fail_msg("%s is required: %s", backend, cg_message());
	print_message("# no %s device: %s\n", backend, cg_message());
	skip();
	return 0;
}

int begin_tensors(struct tensors *t, struct cg_context *context)
{
	*t = (struct tensors){ .context = context };
	assert_int_equal(cg_stream_open(context, NULL, &t->stream), CG_OK);
	return 1;
}

int run_program(const char *backend, int dtype, void (*closing)(void))
{
	float in[B * 4 * U] = { 0.5f, -0.25f }, out[B * 4 * U];
	struct cg_context *context = NULL;
	struct cg_stream *stream = NULL;
	struct cg_lstm_block op;
	struct cg_mem mem = { .bytes = 0 };
	int code;

	cg_lstm_block_init(&op, sizeof op);
	op.B = B, op.I = 1, op.U = 1, op.dtype = dtype;
	op.x = op.cs_prev = op.h_prev = op.w = op.b = (struct cg_mem){ in, 0, sizeof in, CG_HOST };
	op.h = op.i = op.x_grad = (struct cg_mem){ out, 0, B * sizeof *out, CG_HOST };
	op.i.offset = B * sizeof *out;
	op.x_grad.offset = 2 * B * sizeof *out;
	shorten(cg_op_find("lstm_block_cell_grad", NULL), &op);
	shorten(cg_op_find("lstm_block_cell", NULL), &op);
	code = cg_open(backend, &context);
	if (!code)
		code = cg_stream_open(context, NULL, &stream);
	if (!code)
		code = cg_alloc(context, 64, &mem);
	if (!code)
		code = cg_put(stream, mem, in, 64);
	if (!code)
		code = cg_lstm_block_forward(stream, &op);
	if (!code)
		code = cg_get(stream, out, mem, 64);
	if (!code)
		code = cg_stream_sync(stream);
	closing();
	cg_free(context, &mem);
	cg_stream_close(stream);
	cg_close(context);
	return code;
}

int call_lstm_forward(struct cg_stream *stream, const void *op)   { return cg_lstm_block_forward(stream, op); }
static int lstm_grad(struct cg_stream *stream, const void *op)    { return cg_lstm_block_grad(stream, op); }
static int gru_forward(struct cg_stream *stream, const void *op)  { return cg_gru_block_forward(stream, op); }
static int gru_grad(struct cg_stream *stream, const void *op)     { return cg_gru_block_grad(stream, op); }

#define COUNT(what, call, op, ...) w->count(t.stream, call, op, &(struct commands){ what, __VA_ARGS__ })

void test_commands(void **state)
{
	const struct watched *w = *state;
	struct tensors t;
	struct cg_lstm_block l;
	struct cg_gru_block g;

	if (!w->open(&t))
		return;
	l = lstm(&t, 0);
	COUNT("lstm forward: two products, one point", call_lstm_forward, &l, 1, 2, 1);
	l.cs_prev_grad = some(&t, B * U);
	l.dgates = some(&t, B * 4 * U);
	COUNT("lstm grad with TensorFlow's outputs: one point", lstm_grad, &l, 1, 0, 0);
	free_tensors(&t);

	assert_true(w->open(&t));
	l = lstm(&t, 1);
	COUNT("lstm forward with peepholes: two products, one point", call_lstm_forward, &l, 1, 2, 1);
	l.cs_prev_grad = some(&t, B * U);
	l.dgates = some(&t, B * 4 * U);
	l.wci_grad = some(&t, U);
	l.wcf_grad = some(&t, U);
	l.wco_grad = some(&t, U);
	COUNT("lstm grad with TensorFlow's outputs and peepholes: a point, the two of the sums", lstm_grad, &l, 3, 0, 0);
	l.x_grad = some(&t, B * I);
	l.w_grad = some(&t, (I + U) * 4 * U);
	COUNT("lstm grad with products", lstm_grad, &l, 3, 3, 0);
	free_tensors(&t);

	assert_true(w->open(&t));
	g = gru(&t);
	COUNT("gru forward: four products, two points", gru_forward, &g, 2, 4, 2);
	g.d_x = some(&t, B * I);
	g.d_h_prev = some(&t, B * U);
	g.d_c_bar = some(&t, B * U);
	g.d_r_bar_u_bar = some(&t, B * 2 * U);
	COUNT("gru grad with TensorFlow's outputs: four products, two points", gru_grad, &g, 2, 4, 2);
	free_tensors(&t);
}

/* BlockLSTM of T steps: forward has one product for the inputs of all steps, then a product and a point kernel for each step;
   backward, for the gradients of states alone, has a point kernel for each step, and a product between each two steps. */
void test_commands_of_sequences(void **state)
{
	enum { T = 4 };
	const struct watched *w = *state;
	struct tensors t;
	struct cg_lstm_block l;

	if (!w->open(&t))
		return;
	l = sequence(&t, 1, T);
	COUNT("forward", call_lstm_forward, &l, T, 1 + T, 1);
	l.cs_prev_grad = some(&t, B * U);
	COUNT("grad: what passes from step to step alone", lstm_grad, &l, T, T - 1, T - 1);
	l.cs_grad = some(&t, T * B * U);
	COUNT("cs_grad: rows that are added, between two steps", lstm_grad, &l, 2 * T - 1, T - 1, T - 1);
	l.x_grad = some(&t, T * B * I);
	l.h_prev_grad = some(&t, B * U);
	COUNT("x_grad, h_prev_grad: a product each", lstm_grad, &l, 2 * T - 1, T + 1, T - 1);
	l.b_grad = some(&t, 4 * U);
	COUNT("b_grad: the two of the sums", lstm_grad, &l, 2 * T + 1, T + 1, T - 1);
	l.wco_grad = some(&t, U);
	COUNT("wco_grad: no more", lstm_grad, &l, 2 * T + 1, T + 1, T - 1);
	l.wci_grad = some(&t, U);
	COUNT("wci_grad: what each step began with, in one piece", lstm_grad, &l, 2 * T + 3, T + 1, T - 1);
	l.w_grad = some(&t, (I + U) * 4 * U);
	COUNT("w_grad: a product each for x, h_prev and h", lstm_grad, &l, 2 * T + 3, T + 4, T - 1);
	free_tensors(&t);
}

void test_built_once(void **state)
{
	const struct watched *w = *state;
	struct tensors t;
	struct cg_lstm_block l;

	if (!w->open(&t))
		return;
	l = lstm(&t, 0);
	assert_int_equal(cg_lstm_block_forward(t.stream, &l), CG_OK);
	w->forget();
	for (l.B = 0; l.B <= B; l.B++) {
		shorten(cg_op_find("lstm_block_cell", NULL), &l);
		assert_int_equal(cg_lstm_block_forward(t.stream, &l), CG_OK);
	}
	assert_int_equal(*w->builds, 0);
	l.B = 1, l.U = 2, l.dtype = CG_BF16;
	shorten(cg_op_find("lstm_block_cell", NULL), &l);
	assert_int_equal(cg_lstm_block_forward(t.stream, &l), CG_OK);
	assert_true(*w->builds > 0);
	free_tensors(&t);
}
