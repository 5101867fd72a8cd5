/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors in which adjacent values differ, and the ops that use them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "tests/help/tensors.h"

void free_tensors(struct tensors *t)
{
	while (t->n)
		cg_free(t->context, &t->mem[--t->n]);
	cg_stream_close(t->stream);
	cg_close(t->context);
}

struct cg_mem some(struct tensors *t, int count)
{
	float values[FLOATS];
	struct cg_mem mem = { .bytes = 0 };

	for (int k = 0; k < count; k++)
		values[k] = (float)((k * 37 + t->n * 11) % 64 - 31) / 64;
	assert_true(t->n < MEMS && count <= FLOATS);
	assert_int_equal(cg_alloc(t->context, (size_t)count * sizeof *values, &mem), CG_OK);
	assert_int_equal(cg_put(t->stream, mem, values, (size_t)count * sizeof *values), CG_OK);
	return t->mem[t->n++] = mem;
}

struct cg_lstm_block lstm(struct tensors *t, int peephole)
{
	return sequence(t, peephole, 1);
}

struct cg_lstm_block sequence(struct tensors *t, int peephole, int steps)
{
	struct cg_lstm_block op;
	size_t work, more;

	cg_lstm_block_init(&op, sizeof op);
	op.T = steps, op.B = B, op.I = I, op.U = U, op.use_peephole = peephole;
	op.x = some(t, steps * B * I);
	op.cs_prev = some(t, B * U);
	op.h_prev = some(t, B * U);
	op.w = some(t, (I + U) * 4 * U);
	op.b = some(t, 4 * U);
	if (peephole) {
		op.wci = some(t, U);
		op.wcf = some(t, U);
		op.wco = some(t, U);
	}
	op.i = some(t, steps * B * U);
	op.cs = some(t, steps * B * U);
	op.f = some(t, steps * B * U);
	op.o = some(t, steps * B * U);
	op.ci = some(t, steps * B * U);
	op.co = some(t, steps * B * U);
	op.h = some(t, steps * B * U);
	op.h_grad = some(t, steps * B * U);
	assert_int_equal(cg_lstm_block_work(&op, CG_FORWARD, &work), CG_OK);
	assert_int_equal(cg_lstm_block_work(&op, CG_GRAD, &more), CG_OK);
	op.work = some(t, (int)((work > more ? work : more) / sizeof(float)));
	return op;
}

struct cg_gru_block gru(struct tensors *t)
{
	struct cg_gru_block op;
	size_t work, more;

	cg_gru_block_init(&op, sizeof op);
	op.B = B, op.I = I, op.U = U;
	op.x = some(t, B * I);
	op.h_prev = some(t, B * U);
	op.w_ru = some(t, (I + U) * 2 * U);
	op.w_c = some(t, (I + U) * U);
	op.b_ru = some(t, 2 * U);
	op.b_c = some(t, U);
	op.r = some(t, B * U);
	op.u = some(t, B * U);
	op.c = some(t, B * U);
	op.h = some(t, B * U);
	op.d_h = some(t, B * U);
	assert_int_equal(cg_gru_block_work(&op, CG_FORWARD, &work), CG_OK);
	assert_int_equal(cg_gru_block_work(&op, CG_GRAD, &more), CG_OK);
	op.work = some(t, (int)((work > more ? work : more) / sizeof(float)));
	return op;
}

void expect_refused(int code, int expected, const char *text)
{
	if (code != expected)
		fail_msg("expected code %d, got %d, '%s'", expected, code, code ? cg_message() : "");
	if (!strstr(cg_message(), text))
		fail_msg("expected '%s' in '%s'", text, cg_message());
}
