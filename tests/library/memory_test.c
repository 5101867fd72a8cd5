/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every request for host memory by block ops, kernels of a user's cell, emitted texts and cg_open is refused in turn: each call returns
 * the right code, leaves nothing behind, and works when it is called again.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "runtime/core/core.h"
#include "tests/help/counted.h"

enum { B = 3, I = 2, U = 4, CAPACITY = 4096 };

static uint16_t memory[CAPACITY];
static size_t used;

static struct cg_mem alloc(int64_t n)
{
	struct cg_mem mem = { memory + used, 0, (size_t)n * sizeof *memory, CG_HOST };

	used += (size_t)n;
	assert_true(used < CAPACITY);
	return mem;
}

/* Calls GRUBlockCell in f16 and LSTMBlockCell in bf16, each with its gradient; in these dtypes products need scratch memory. Returns the
 * first code that is not CG_OK. */
static int ops(const char *unused)
{
	struct cg_context *context = NULL;
	struct cg_stream *stream = NULL;
	struct cg_mem mem = { NULL, 0, 0, 0 };
	struct cg_lstm_block lstm;
	struct cg_gru_block gru;
	int code = cg_open("cpu", &context);

	(void)unused;
	used = 0;
	if (!code)
		code = cg_stream_open(context, NULL, &stream);
	if (!code)
		code = cg_alloc(context, 100, &mem);
	cg_gru_block_init(&gru, sizeof gru);
	gru.B = B;
	gru.I = I;
	gru.U = U;
	gru.dtype = CG_F16;
	gru.x = alloc(B * I);
	gru.h_prev = alloc(B * U);
	gru.w_ru = alloc((I + U) * 2 * U);
	gru.w_c = alloc((I + U) * U);
	gru.b_ru = alloc(2 * U);
	gru.b_c = alloc(U);
	gru.r = alloc(B * U);
	gru.u = alloc(B * U);
	gru.c = alloc(B * U);
	gru.h = alloc(B * U);
	gru.d_h = alloc(B * U);
	gru.d_x = alloc(B * I);
	gru.d_h_prev = alloc(B * U);
	gru.d_w_ru = alloc((I + U) * 2 * U);
	gru.d_w_c = alloc((I + U) * U);
	gru.d_b_ru = alloc(2 * U);
	gru.d_b_c = alloc(U);
	if (!code)
		code = cg_gru_block_forward(stream, &gru);
	if (!code)
		code = cg_gru_block_grad(stream, &gru);
	cg_lstm_block_init(&lstm, sizeof lstm);
	lstm.B = B;
	lstm.I = I;
	lstm.U = U;
	lstm.dtype = CG_BF16;
	lstm.use_peephole = 1;
	lstm.x = alloc(B * I);
	lstm.cs_prev = alloc(B * U);
	lstm.h_prev = alloc(B * U);
	lstm.w = alloc((I + U) * 4 * U);
	lstm.b = alloc(4 * U);
	lstm.wci = alloc(U);
	lstm.wcf = alloc(U);
	lstm.wco = alloc(U);
	lstm.i = alloc(B * U);
	lstm.cs = alloc(B * U);
	lstm.f = alloc(B * U);
	lstm.o = alloc(B * U);
	lstm.ci = alloc(B * U);
	lstm.co = alloc(B * U);
	lstm.h = alloc(B * U);
	lstm.h_grad = alloc(B * U);
	lstm.cs_prev_grad = alloc(B * U);
	lstm.wci_grad = alloc(U);
	lstm.b_grad = alloc(4 * U);
	if (!code)
		code = cg_lstm_block_forward(stream, &lstm);
	if (!code)
		code = cg_lstm_block_grad(stream, &lstm);
	cg_free(context, &mem);
	cg_stream_close(stream);
	cg_close(context);
	return code;
}

/* Calls BlockLSTM with i as its only output, then its gradient, which copies rows of cs_prev and cs to compute wci_grad. */
static int sequences(const char *unused)
{
	enum { T = 3 };
	struct cg_context *context = NULL;
	struct cg_stream *stream = NULL;
	struct cg_lstm_block op;
	int code = cg_open("cpu", &context);

	(void)unused;
	used = 0;
	if (!code)
		code = cg_stream_open(context, NULL, &stream);
	cg_lstm_block_init(&op, sizeof op);
	op.T = T;
	op.B = B;
	op.I = I;
	op.U = U;
	op.dtype = CG_F16;
	op.use_peephole = 1;
	op.x = alloc(T * B * I);
	op.cs_prev = alloc(B * U);
	op.h_prev = alloc(B * U);
	op.w = alloc((I + U) * 4 * U);
	op.b = alloc(4 * U);
	op.wci = alloc(U);
	op.wcf = alloc(U);
	op.wco = alloc(U);
	op.i = alloc(T * B * U);
	if (!code)
		code = cg_lstm_block_forward(stream, &op);
	op.cs = alloc(T * B * U);
	op.f = alloc(T * B * U);
	op.o = alloc(T * B * U);
	op.ci = alloc(T * B * U);
	op.co = alloc(T * B * U);
	op.h = alloc(T * B * U);
	op.cs_grad = alloc(T * B * U);
	op.h_grad = alloc(T * B * U);
	op.x_grad = alloc(T * B * I);
	op.wci_grad = alloc(U);
	op.w_grad = alloc((I + U) * 4 * U);
	if (!code)
		code = cg_lstm_block_grad(stream, &op);
	cg_stream_close(stream);
	cg_close(context);
	return code;
}

static struct cg_arg tensor(const char *name)
{
	/* The tensor has B*U elements of f32, each of which takes two of the 16-bit elements that alloc() counts. */
	return (struct cg_arg){ .name = name, .mem = alloc(2 * B * U), .stride = U };
}

/* Runs interpreted kernels of a user's cell: a point kernel and a sum; the scratch of the sum is allocated in the call. */
static int kernels(const char *text)
{
	struct cg_context *context = NULL;
	struct cg_stream *stream = NULL;
	struct cg_cell *cell = NULL;
	int code = cg_open("cpu:7,cpu", &context);
	struct cg_arg args[8];
	int n = 0;

	used = 0;
	args[n++] = tensor("c");
	args[n++] = tensor("dh");
	args[n++] = tensor("dc");
	args[n++] = tensor("da");
	args[n++] = tensor("db_a");
	if (!code)
		code = cg_stream_open(context, NULL, &stream);
	if (!code)
		code = cg_cell_parse(text, "x", &cell);
	if (!code)
		code = cg_kernel_run(stream, &(struct cg_kernel){ .cell = cell, .pass = CG_GRAD }, B, U, args, n - 1);
	if (!code)
		code = cg_kernel_run(stream, &(struct cg_kernel){ .cell = cell, .pass = CG_GRAD, .shape = CG_SUM }, B, U, args + n - 2, 2);
	cg_cell_close(cell);
	cg_stream_close(stream);
	cg_close(context);
	return code;
}

/* Parses a cell's text, and emits kernels of forward, grad and gradgrad, each in another dialect, and then of a scan; each with a manifest
   and a header. */
static int texts(const char *text)
{
	static const char *const langs[] = { "c", "opencl", "cuda", "c" };
	struct cg_cell *cell = NULL;
	int code = cg_cell_parse(text, "x", &cell);

	for (int pass = 0; pass <= CG_SEQ_FORWARD && !code; pass++) {
		struct cg_kernel kernel = { .cell = cell, .pass = pass, .dtype = pass == CG_GRAD ? CG_BF16 : CG_F32,
		                            .shape = pass == CG_SEQ_FORWARD ? CG_SCAN : CG_POINT };
		char *source = NULL, *json = NULL, *header = NULL;

		code = cg_kernel_emit(&kernel, langs[pass], &source);
		if (!code)
			code = cg_kernel_manifest(&kernel, langs[pass == CG_SEQ_FORWARD ? pass : (pass + 1) % 3], &json);
		if (!code)
			code = cg_kernel_header(&kernel, &header);
		cg_text_free(source);
		cg_text_free(json);
		cg_text_free(header);
	}
	cg_cell_close(cell);
	return code;
}

static int opens(const char *where)
{
	struct cg_context *context = NULL;
	int code = cg_open(where, &context);

	cg_close(context);
	return code;
}

/* Runs `whole` once for each of its requests for memory, and refuses this request; returns the number of requests. */
static size_t refused_in_turn(int (*whole)(const char *), const char *given)
{
	size_t n;

	for (n = 1;; n++) {
		int code;

		cg_memory_fail(n);
		code = whole(given);
		if (cg_memory_fail(0) < n) {
			if (code)
				fail_msg("%.40s: code %d, \"%s\"", given, code, cg_message());
			break;
		}
		if (code != CG_NO_MEMORY || !strstr(cg_message(), "no memory"))
			fail_msg("%.40s: request %zu refused: code %d, \"%s\"", given, n, code, cg_message());
	}
	assert_int_equal(whole(given), CG_OK);
	print_message("# %.*s: %zu requests refused in turn\n", (int)strcspn(given, "\n,"), given, n - 1);
	return n - 1;
}

static void test_ops(void **state)
{
	(void)state;
	/* The requests for memory of the built-in cells are made once per process. */
	assert_true(refused_in_turn(ops, "ops") > 30);
	assert_true(refused_in_turn(sequences, "sequences") > 20);
}

static void test_kernels(void **state)
{
	(void)state;
	assert_true(refused_in_turn(kernels, "cell x\ngates a\nstate c\noutput h\nc = a + c_prev\nh = tanh(c)\nsave c\n") > 12);
}

static void test_texts(void **state)
{
	int cells = 0;

	(void)state;
	for (const struct cg_embedded *e = cg_embedded; e->name; e++)
		if (strstr(e->name, ".cell")) {
			assert_true(refused_in_turn(texts, e->text) > 60);
			cells++;
		}
	assert_true(cells > 5);
}

static void test_opens(void **state)
{
	(void)state;
	assert_true(refused_in_turn(opens, "cpu") > 1);
	assert_true(refused_in_turn(opens, "cpu:7,cpu:8,cpu:0") > 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ops),
		cmocka_unit_test(test_kernels),
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_opens),
		cmocka_unit_test(test_nothing_left),
	};

	counted_begin();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
