/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Block ops, kernels, networks and copies on a backend whose n-th call of a function that can fail does fail, for every n: the
 * message names the function that failed, and no memory of the device or the host leaks. After a failure an LSTM and a network work with
 * the same context and stream. Results have the bits of backend cpu, although the runtime copies all host memory to the backend.
 * Enqueued work runs at once, or, in late_fault_test, when the host waits for it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "runtime/core/core.h"
#include "tests/fake/faulty.h"
#include "tests/fake/late.h"
#include "tests/help/counted.h"
#include "tests/help/small_net.h"

enum { B = 3, I = 2, U = 4, GATES = 4, CAPACITY = 4096 };

/* The outputs of a run, one after the other; of a network only a checksum. */
struct run { float floats[CAPACITY]; size_t used; };

static float inputs[64][256];

/* Expects that a finished call no longer uses this host memory, except where waiting for the call failed. */
static int check_unused(const void *host, size_t bytes, int code)
{
	if (late_uses(host, bytes) && !(code && faulty_call() && !strcmp(faulty_call(), "sync")))
		fail_msg("a call that is over still copies the host's memory; it gave %d, '%s'; %s failed", code, code ? cg_message() : "",
		         faulty_call() ? faulty_call() : "nothing");
	return code;
}

static int over(const struct run *r, int code)
{
	return check_unused(inputs, sizeof inputs, check_unused(r->floats, sizeof r->floats, code));
}

static struct cg_mem in(int n, int salt)
{
	float *to = inputs[salt];

	for (int k = 0; k < n; k++)
		to[k] = (float)((k * 29 + salt * 13) % 61 - 30) / 41;
	return (struct cg_mem){ to, 0, (size_t)n * sizeof *to, CG_HOST };
}

static struct cg_mem out(struct run *r, int n)
{
	struct cg_mem mem = { r->floats, r->used * sizeof(float), (size_t)n * sizeof(float), CG_HOST };

	r->used += (size_t)n;
	assert_true(r->used <= CAPACITY);
	return mem;
}

static int lstm(struct cg_stream *stream, struct run *r)
{
	struct cg_lstm_block op;

	cg_lstm_block_init(&op, sizeof op);
	op.B = B, op.I = I, op.U = U, op.use_peephole = 1, op.accumulate = 1;
	op.x = in(B * I, 0);
	op.cs_prev = in(B * U, 1);
	op.h_prev = in(B * U, 2);
	op.w = in((I + U) * GATES * U, 3);
	op.wci = in(U, 4);
	op.wcf = in(U, 5);
	op.wco = in(U, 6);
	op.b = in(GATES * U, 7);
	op.h_grad = in(B * U, 8);
	op.i = out(r, B * U);
	op.cs = out(r, B * U);
	op.f = out(r, B * U);
	op.o = out(r, B * U);
	op.ci = out(r, B * U);
	op.co = out(r, B * U);
	op.h = out(r, B * U);
	CG_TRY(over(r, cg_lstm_block_forward(stream, &op)));
	op.x_grad = out(r, B * I);
	op.cs_prev_grad = out(r, B * U);
	op.dgates = out(r, B * GATES * U);
	op.w_grad = out(r, (I + U) * GATES * U);
	op.wcf_grad = out(r, U);
	op.b_grad = out(r, GATES * U);
	return over(r, cg_lstm_block_grad(stream, &op));
}

static int gru(struct cg_stream *stream, struct run *r)
{
	struct cg_gru_block op;

	cg_gru_block_init(&op, sizeof op);
	op.B = B, op.I = I, op.U = U;
	op.x = in(B * I, 10);
	op.h_prev = in(B * U, 11);
	op.w_ru = in((I + U) * 2 * U, 12);
	op.w_c = in((I + U) * U, 13);
	op.b_ru = in(2 * U, 14);
	op.b_c = in(U, 15);
	op.d_h = in(B * U, 16);
	op.r = out(r, B * U);
	op.u = out(r, B * U);
	op.c = out(r, B * U);
	op.h = out(r, B * U);
	CG_TRY(over(r, cg_gru_block_forward(stream, &op)));
	op.d_x = out(r, B * I);
	op.d_h_prev = out(r, B * U);
	op.d_w_ru = out(r, (I + U) * 2 * U);
	op.d_b_c = out(r, U);
	return over(r, cg_gru_block_grad(stream, &op));
}

/* Runs a point kernel and the kernel of its sum on arguments of which some have gaps between their rows, as the gates of a step have. */
static int kernel(struct cg_stream *stream, struct run *r)
{
	const struct cg_cell *cell = cg_cell_find("rnn_tanh");
	struct cg_kernel point = { .cell = cell, .pass = CG_GRAD, .dtype = CG_F32, .shape = CG_POINT };
	struct cg_kernel sum = { .cell = cell, .pass = CG_GRAD, .dtype = CG_F32, .shape = CG_SUM };
	struct cg_mem wide = out(r, B * 2 * U), bias = out(r, U);
	struct cg_arg args[] = {
		{ "dh", in(B * 2 * U, 21), 2 * U, 0 }, { "h", in(B * U, 22), U, 0 },
		{ "da", wide, 2 * U, 0 }, { "db_a", bias, U, 0 },
	};

	if (!cell)
		return CG_NO_MEMORY;
	CG_TRY(over(r, cg_kernel_run(stream, &point, B, U, args, 4)));
	return over(r, cg_kernel_run(stream, &sum, B, U, args, 4));
}

/* Expects that no enqueued work uses the stack of a finished call, whatever failed, nor its host memory, unless waiting failed. */
static int net_over(struct net *n, int code)
{
	enum { DEEP = 1 << 16 };
	const char *here = __builtin_frame_address(0);

	if (late_uses(here - DEEP, DEEP))
		fail_msg("a call that is over still copies what was on its stack; %s failed", faulty_call() ? faulty_call() : "nothing");
	for (int k = 0; k < NET_PORTS && n->place == CG_HOST; k++)
		check_unused(net_mem(n, &net_ports[k])->data, net_mem(n, &net_ports[k])->bytes, code);
	/* A failed wait may have left memory in use: waits once more. */
	if (code)
		cg_stream_sync(n->stream);
	return code;
}

/* Runs a network of two layers and two directions, with rows of several lengths: in host memory with the stream's own workspace, or in
   device memory with a workspace of the call's. Stores a checksum of the network's outputs in `r`. */
static int network(struct cg_context *context, struct cg_stream *stream, struct run *r, int place)
{
	static const int32_t lengths[] = { 2, 3 };
	struct cg_mem to = out(r, (int)(sizeof(uint64_t) / sizeof(float)));
	uint64_t print = 0;
	struct net n;
	int code;

	net_begin(&n, context, stream);
	n.place = place;
	n.config.bidirectional = 1;
	n.config.dropout = 0.5;
	n.call.lengths = lengths;
	code = net_open(&n);
	if (place == CG_HOST)
		net_free(&n, &n.call.work);
	if (!code)
		code = net_over(&n, net_forward(&n));
	if (!code)
		code = net_over(&n, net_backward(&n));
	if (!code)
		code = net_print(&n, &print);
	memcpy((char *)to.data + to.offset, &print, sizeof print);
	net_close(&n);
	return code;
}

static int copies(struct cg_context *context, struct cg_stream *stream, struct run *r)
{
	struct cg_mem host = in(U, 30), mem, to = out(r, U);
	int code;

	CG_TRY(cg_alloc(context, host.bytes, &mem));
	code = over(r, cg_put(stream, mem, host.data, host.bytes));
	if (!code)
		code = over(r, cg_get(stream, (char *)to.data + to.offset, mem, host.bytes));
	cg_free(context, &mem);
	return code;
}

/* Runs a whole program, from the opening of the context on; returns the code of the first failure. */
static int everything(const char *backend, struct run *r)
{
	struct cg_context *context = NULL;
	struct cg_stream *stream = NULL;
	int code = cg_open(backend, &context);

	memset(r, 0, sizeof *r);
	if (!code)
		code = cg_stream_open(context, NULL, &stream);
	if (!code)
		code = copies(context, stream, r);
	if (!code)
		code = lstm(stream, r);
	if (!code)
		code = gru(stream, r);
	if (!code)
		code = kernel(stream, r);
	if (!code)
		code = network(context, stream, r, CG_HOST);
	if (!code)
		code = network(context, stream, r, CG_DEVICE);
	/* Backward reads the header of a reserve space in device memory only with CELLGRAD_CHECK=1; in host memory it always does. */
	setenv("CELLGRAD_CHECK", "1", 1);
	if (!code)
		code = network(context, stream, r, CG_DEVICE);
	unsetenv("CELLGRAD_CHECK");
	if (!code)
		code = cg_stream_sync(stream);
	cg_stream_close(stream);
	cg_close(context);
	return code;
}

static void nothing_left(void)
{
	const char *mistake = late_mistake();

	if (mistake)
		fail_msg("%s", mistake);
	assert_int_equal(faulty_held(), 0);
	assert_int_equal(late_held(), 0);
	counted_nothing_left();
}

static void test_every_call(void **state)
{
	static struct run right, copied;
	long calls;

	(void)state;
	if (everything("cpu", &right))
		fail_msg("%s", cg_message());
	faulty_at(0);
	if (everything("faulty", &copied))
		fail_msg("%s", cg_message());
	assert_int_equal(right.used, copied.used);
	assert_memory_equal(right.floats, copied.floats, sizeof right.floats);
	calls = faulty_at(0);
	assert_true(calls > 100);
	for (long n = 1; n <= calls; n++) {
		char text[64];
		int code;

		faulty_at(n);
		code = everything("faulty", &copied);
		assert_non_null(faulty_call());
		snprintf(text, sizeof text, "faulty: %s: failed", faulty_call());
		if (code != CG_DRIVER || !strstr(cg_message(), text))
			fail_msg("call %ld of %ld, %s: got %d, '%s'", n, calls, faulty_call(), code, cg_message());
		nothing_left();
	}
}

/* Runs an LSTM and a network; after a failure the test runs both again with the same context and stream. */
static int ops(struct cg_context *context, struct cg_stream *stream, struct run *r)
{
	memset(r, 0, sizeof *r);
	CG_TRY(lstm(stream, r));
	return network(context, stream, r, CG_HOST);
}

static void test_calls_after_a_failure(void **state)
{
	static struct run right, r;
	struct cg_context *context;
	struct cg_stream *stream;
	long n = 0;

	(void)state;
	assert_int_equal(cg_open("cpu", &context), CG_OK);
	assert_int_equal(cg_stream_open(context, NULL, &stream), CG_OK);
	assert_int_equal(ops(context, stream, &right), CG_OK);
	cg_stream_close(stream);
	cg_close(context);

	faulty_at(0);
	assert_int_equal(cg_open("faulty", &context), CG_OK);
	assert_int_equal(cg_stream_open(context, NULL, &stream), CG_OK);
	for (;;) {
		faulty_at(++n);
		if (!ops(context, stream, &r))
			break;
		assert_int_equal(ops(context, stream, &r), CG_OK);
		assert_memory_equal(right.floats, r.floats, sizeof right.floats);
	}
	assert_null(faulty_call());
	assert_true(n > 150);
	cg_stream_close(stream);
	cg_close(context);
	nothing_left();
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_every_call), cmocka_unit_test(test_calls_after_a_failure) };

	counted_begin();
	counted_watch(late_look);
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("fault", tests, NULL, NULL);
}
