/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Public calls with wrong arguments: the code is right, the message has words of what was expected, and nothing leaks. check_test.c tests
 * the arguments of the ops.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "runtime/core/core.h"
#include "tests/help/counted.h"
#include "tests/help/shared_stream.h"

#define REFUSED(call, code, text) do { \
	assert_int_equal(call, code); \
	if (!strstr(cg_message(), text)) \
		fail_msg("expected \"%s\" in \"%s\"", text, cg_message()); \
} while (0)

static void test_open(void **state)
{
	struct cg_context *c = (void *)&c;

	(void)state;
	REFUSED(cg_open("cpu", NULL), CG_BAD_ARGUMENT, "context");
	REFUSED(cg_open("cpuu", &c), CG_BAD_ARGUMENT, "cg_open: there is no backend 'cpuu'; did you mean 'cpu'?");
	assert_null(c);
	c = (void *)&c;
	REFUSED(cg_adopt("cpu", NULL, NULL, &c), CG_BAD_ARGUMENT, "native");
	assert_null(c);
	REFUSED(cg_open("", &c), CG_BAD_ARGUMENT, "expected NAME or NAME:DEVICE, or several with commas between them");
	REFUSED(cg_open(",cpu", &c), CG_BAD_ARGUMENT, "expected NAME or NAME:DEVICE, or several with commas between them");
	REFUSED(cg_open("cpu:1", &c), CG_NO_DEVICE, "cpu:1");
	REFUSED(cg_open("cpu:1,cpu:7", &c), CG_NO_DEVICE, "cpu:7");
	/* A malformed device gives CG_BAD_ARGUMENT on every machine, also where its backend has no device; the next backend in the list is not
	 * tried. */
	REFUSED(cg_open("cpu:foo,cpu", &c), CG_BAD_ARGUMENT, "cpu:foo: expected cpu, cpu:0 or, with a number of threads, cpu:threads=N");
#ifdef CG_CUDA
	REFUSED(cg_open("cuda:foo,cpu", &c), CG_BAD_ARGUMENT, "cuda:foo: expected a device number such as 0, got 'foo'");
#endif
	REFUSED(cg_open("opencl:foo,cpu", &c), CG_BAD_ARGUMENT, "opencl:foo: expected PLATFORM.DEVICE such as 0.0, or gpu, got 'foo'");
	REFUSED(cg_open("help", &c), CG_BAD_ARGUMENT, "NAME:DEVICE");
	assert_int_equal(setenv("CELLGRAD_BACKEND", "gpu9", 1), 0);
	REFUSED(cg_open(NULL, &c), CG_BAD_ARGUMENT, "CELLGRAD_BACKEND: there is no backend 'gpu9'");
	assert_int_equal(setenv("CELLGRAD_BACKEND", "cpu:3,cpu", 1), 0);
	assert_int_equal(cg_open(NULL, &c), CG_OK);
	cg_close(c);
	assert_int_equal(unsetenv("CELLGRAD_BACKEND"), 0);
	assert_int_equal(setenv("CELLGRAD_CPU_ISA", "mmx", 1), 0);
	REFUSED(cg_open("cpu", &c), CG_BAD_ARGUMENT, "CELLGRAD_CPU_ISA");
	assert_int_equal(unsetenv("CELLGRAD_CPU_ISA"), 0);
	cg_close(NULL);
}

static void test_device(void **state)
{
	const char *about = NULL;
	int n = 0;

	(void)state;
	assert_null(cg_device(-1, &about));
	while (cg_device(n, &about)) {
		assert_non_null(about);
		n++;
	}
	assert_true(n >= 1);
	assert_null(cg_device(n, NULL));
	assert_null(cg_device(1 << 30, NULL));
	assert_string_equal(cg_describe(NULL), "");
	REFUSED(cg_supports(NULL, "gru_block_cell", CG_F32), CG_BAD_ARGUMENT, "cg_supports");
	REFUSED(cg_supports(context, "gru_block_cel", CG_F32), CG_BAD_ARGUMENT, "gru_block_cell");
	REFUSED(cg_supports(context, NULL, CG_F32), CG_BAD_ARGUMENT, "op");
	REFUSED(cg_supports(context, "GRUBlockCell", 9), CG_BAD_ARGUMENT, "dtype");
	assert_int_equal(cg_supports(context, "GRUBlockCell", CG_BF16), CG_OK);
}

static void test_stream(void **state)
{
	struct cg_stream *s = (void *)&s;

	(void)state;
	REFUSED(cg_stream_open(context, NULL, NULL), CG_BAD_ARGUMENT, "stream");
	REFUSED(cg_stream_open(NULL, NULL, &s), CG_BAD_ARGUMENT, "context or stream: expected a pointer, got NULL");
	assert_null(s);
	REFUSED(cg_stream_open(context, &s, &s), CG_BAD_ARGUMENT, "native");
	REFUSED(cg_stream_sync(NULL), CG_BAD_ARGUMENT, "context or stream: expected a pointer, got NULL");
	cg_stream_close(NULL);
}

static void test_memory_calls(void **state)
{
	struct cg_mem mem;
	char byte[4] = "abc";

	(void)state;
	REFUSED(cg_alloc(context, 4, NULL), CG_BAD_ARGUMENT, "mem");
	REFUSED(cg_alloc(NULL, 4, &mem), CG_BAD_ARGUMENT, "context or stream: expected a pointer, got NULL");
	REFUSED(cg_alloc(context, SIZE_MAX, &mem), CG_NO_MEMORY, "memory");
	assert_null(mem.data);
	assert_int_equal(cg_alloc(context, 0, &mem), CG_OK);
	assert_null(mem.data);
	assert_int_equal(cg_alloc(context, 4, &mem), CG_OK);
	REFUSED(cg_put(stream, mem, byte, 5), CG_BAD_ARGUMENT, "expected at least 5 bytes, got 4");
	REFUSED(cg_put(stream, mem, NULL, 4), CG_BAD_ARGUMENT, "NULL");
	REFUSED(cg_get(NULL, byte, mem, 4), CG_BAD_ARGUMENT, "context or stream: expected a pointer");
	REFUSED(cg_get(stream, byte, (struct cg_mem){ byte, 0, 4, 7 }, 4), CG_BAD_ARGUMENT, "place");
	assert_int_equal(cg_put(stream, mem, byte, 4), CG_OK);
	memset(byte, 0, sizeof byte);
	assert_int_equal(cg_get(stream, byte, mem, 4), CG_OK);
	assert_string_equal(byte, "abc");
	cg_free(context, &mem);
	cg_free(context, &mem);
	cg_free(context, NULL);
	cg_free(NULL, &mem);
}

/* Tests seq_len_max for a sequence of one step: 0 and 1 are accepted, values above 1 and below -1 are rejected. */
static void test_length(void)
{
	float number = 0.5f, many[8] = { 0 };
	struct cg_mem one = { &number, 0, sizeof number, CG_HOST }, four = { many, 0, 4 * sizeof *many, CG_HOST };
	struct cg_mem eight = { many, 0, sizeof many, CG_HOST };
	struct cg_lstm_block op;
	float h = 7;

	cg_lstm_block_init(&op, sizeof op);
	op.B = op.I = op.U = 1;
	op.x = op.cs_prev = op.h_prev = one;
	op.w = eight;
	op.b = four;
	op.h = (struct cg_mem){ &h, 0, sizeof h, CG_HOST };
	for (op.seq_len_max = -3; op.seq_len_max < 4; op.seq_len_max++) {
		if (op.seq_len_max >= -1 && op.seq_len_max <= 1)
			continue;
		REFUSED(cg_lstm_block_forward(stream, &op), CG_BAD_ARGUMENT, "block_lstm: seq_len_max: expected -1 or 0 to T=1, got");
		REFUSED(cg_lstm_block_grad(stream, &op), CG_BAD_ARGUMENT, "block_lstm_grad: seq_len_max: expected -1 or 0 to T=1, got");
	}
	assert_true(h == 7);
	op.seq_len_max = 0;
	assert_int_equal(cg_lstm_block_forward(stream, &op), CG_OK);
	assert_true(h == 0);
	op.seq_len_max = 1;
	assert_int_equal(cg_lstm_block_forward(stream, &op), CG_OK);
	assert_true(h != 0);
}

static void test_ops(void **state)
{
	struct cg_lstm_block lstm;
	struct cg_gru_block gru;
	size_t bytes;

	(void)state;
	cg_lstm_block_init(&lstm, sizeof lstm);
	cg_gru_block_init(&gru, sizeof gru);
	REFUSED(cg_lstm_block_forward(NULL, &lstm), CG_BAD_ARGUMENT, "stream");
	REFUSED(cg_lstm_block_grad(stream, NULL), CG_BAD_ARGUMENT, "cg_lstm_block");
	REFUSED(cg_gru_block_forward(stream, NULL), CG_BAD_ARGUMENT, "cg_gru_block");
	REFUSED(cg_gru_block_grad(NULL, NULL), CG_BAD_ARGUMENT, "stream");
	REFUSED(cg_lstm_block_forward(stream, &lstm), CG_BAD_ARGUMENT, "I: expected at least 1, got 0");
	lstm.U = lstm.I = lstm.B = 2;
	lstm.T = -3;
	REFUSED(cg_lstm_block_forward(stream, &lstm), CG_BAD_ARGUMENT, "T: expected at least 0, got -3");
	lstm.T = 3;
	assert_int_equal(cg_lstm_block_forward(stream, &lstm), CG_OK);   /* no output is requested */
	test_length();
	REFUSED(cg_lstm_block_work(NULL, CG_FORWARD, &bytes), CG_BAD_ARGUMENT, "op");
	REFUSED(cg_lstm_block_work(&lstm, CG_FORWARD, NULL), CG_BAD_ARGUMENT, "bytes");
	REFUSED(cg_lstm_block_work(&lstm, CG_GRADGRAD, &bytes), CG_UNSUPPORTED, "pass");
	lstm.B = INT64_MAX;
	REFUSED(cg_lstm_block_work(&lstm, CG_FORWARD, &bytes), CG_BAD_ARGUMENT, "U and T*B*U of at most PTRDIFF_MAX/256 and an enum cg_dtype");
	lstm.B = lstm.T = 2;
	for (int64_t *size = &lstm.T; size <= &lstm.U; size += size == &lstm.B ? 2 : 1) {        /* size points to T, B and U in turn */
		*size = PTRDIFF_MAX / 2;
		REFUSED(cg_lstm_block_work(&lstm, CG_GRAD, &bytes), CG_BAD_ARGUMENT, "U and T*B*U of at most PTRDIFF_MAX/256 and an enum cg_dtype");
		*size = -1;
		REFUSED(cg_lstm_block_work(&lstm, CG_GRAD, &bytes), CG_BAD_ARGUMENT, "U and T*B*U of at most PTRDIFF_MAX/256 and an enum cg_dtype");
		*size = 2;
	}
	lstm.T = lstm.B = 0;
	lstm.U = PTRDIFF_MAX / 16;
	REFUSED(cg_lstm_block_work(&lstm, CG_GRAD, &bytes), CG_BAD_ARGUMENT, "U and T*B*U of at most PTRDIFF_MAX/256 and an enum cg_dtype");
	lstm.U = 2;
	assert_int_equal(cg_lstm_block_work(&lstm, CG_GRAD, &bytes), CG_OK);
	REFUSED(cg_gru_block_work(&gru, CG_FORWARD, &bytes), CG_BAD_ARGUMENT, "B*I and B*U of at most PTRDIFF_MAX/256 and an enum cg_dtype");
	gru.U = gru.I = 2;
	assert_int_equal(cg_gru_block_work(&gru, CG_GRAD, &bytes), CG_OK);
	/* If no output is requested, there is nothing to do, and no other argument is needed. */
	assert_int_equal(cg_gru_block_forward(stream, &gru), CG_OK);
	assert_int_equal(cg_gru_block_grad(stream, &gru), CG_OK);
}

static void test_cells(void **state)
{
	struct cg_kernel kernel = { .cell = NULL };
	struct cg_cell *cell = (struct cg_cell *)&cell;
	char *text = (char *)&text;

	(void)state;
	assert_null(cg_cell_find(NULL));
	assert_null(cg_cell_find("lstm_blok"));
	assert_non_null(strstr(cg_message(), "did you mean 'lstm_block'?"));
	for (int i = 0; cg_cell_name(i); i++)
		assert_non_null(cg_cell_find(cg_cell_name(i)));
	assert_null(cg_cell_name(-1));
	REFUSED(cg_cell_parse(NULL, "x", &cell), CG_BAD_ARGUMENT, "text");
	assert_null(cell);
	cell = (struct cg_cell *)&cell;
	REFUSED(cg_cell_load(NULL, &cell), CG_BAD_ARGUMENT, "path");
	assert_null(cell);
	REFUSED(cg_cell_parse("cell x", "x", NULL), CG_BAD_ARGUMENT, "cell");
	REFUSED(cg_cell_parse("cell x\n", NULL, &cell), CG_BUILD, "cell:1:6: cell 'x' has no gates");
	cg_cell_close(NULL);
	cg_cell_close((struct cg_cell *)cg_cell_find("gru"));
	assert_non_null(cg_cell_find("gru"));

	REFUSED(cg_kernel_emit(NULL, "c", &text), CG_BAD_ARGUMENT, "kernel: expected a struct cg_kernel, got NULL");
	assert_null(text);
	REFUSED(cg_kernel_emit(&kernel, "c", &text), CG_BAD_ARGUMENT, "cell");
	kernel.cell = cg_cell_find("gru_block");
	REFUSED(cg_kernel_emit(&kernel, "c", NULL), CG_BAD_ARGUMENT, "text");
	REFUSED(cg_kernel_manifest(&kernel, "c", NULL), CG_BAD_ARGUMENT, "cg_kernel_manifest: json: expected a pointer");
	REFUSED(cg_kernel_emit(&kernel, NULL, &text), CG_BAD_ARGUMENT, "lang");
	REFUSED(cg_kernel_emit(&kernel, "cud", &text), CG_BAD_ARGUMENT, "did you mean 'cuda'?");
	kernel.options = "peephole";
	REFUSED(cg_kernel_manifest(&kernel, "c", &text), CG_BAD_ARGUMENT, "no option 'peephole'");
	kernel.options = NULL;
	kernel.stage = 3;
	REFUSED(cg_kernel_manifest(&kernel, "c", &text), CG_BAD_ARGUMENT, "stage");
	kernel.stage = -1;
	REFUSED(cg_kernel_manifest(&kernel, "c", &text), CG_BAD_ARGUMENT, "stage");
	kernel.stage = 0;
	kernel.pass = CG_SEQ_GRAD + 1;
	REFUSED(cg_kernel_emit(&kernel, "c", &text), CG_BAD_ARGUMENT, "pass");
	kernel.pass = CG_GRAD;
	kernel.dtype = -1;
	REFUSED(cg_kernel_emit(&kernel, "c", &text), CG_BAD_ARGUMENT, "dtype");
	kernel.dtype = CG_F16;
	kernel.shape = CG_SCAN;
	REFUSED(cg_kernel_emit(&kernel, "c", &text), CG_UNSUPPORTED, "shape");
	kernel.pass = CG_SEQ_GRAD;
	REFUSED(cg_kernel_emit(&kernel, "opencl", &text), CG_BAD_ARGUMENT, "lang");
	REFUSED(cg_kernel_manifest(&kernel, "cuda", &text), CG_BAD_ARGUMENT, "lang");
	kernel.stage = 1;
	REFUSED(cg_kernel_emit(&kernel, "c", &text), CG_BAD_ARGUMENT, "stage");
	kernel.stage = 0;
	assert_int_equal(cg_kernel_emit(&kernel, "c", &text), CG_OK);
	assert_non_null(strstr(text, "_f16_seq_grad_scan("));
	cg_text_free(text);
	assert_int_equal(cg_kernel_manifest(&kernel, "c", &text), CG_OK);
	cg_text_free(text);
	kernel.shape = CG_SUM;
	REFUSED(cg_kernel_emit(&kernel, "c", &text), CG_UNSUPPORTED, "shape");
	kernel.shape = CG_POINT;
	assert_int_equal(cg_kernel_emit(&kernel, "opencl", &text), CG_OK);
	cg_text_free(text);
	cg_text_free(NULL);
}

static void test_fork(void **state)
{
	int status;
	pid_t child;

	(void)state;
	fflush(NULL);
	child = fork();
	if (!child) {
		struct cg_lstm_block op;
		struct cg_mem mem;
		struct cg_context *own;
		int right;

		cg_lstm_block_init(&op, sizeof op);
		right = cg_stream_sync(stream) == CG_UNSUPPORTED && cg_alloc(context, 8, &mem) == CG_UNSUPPORTED &&
		        cg_lstm_block_forward(stream, &op) == CG_UNSUPPORTED && strstr(cg_message(), "fork") &&
		        cg_open("cpu", &own) == CG_OK && cg_cell_find("lstm");
		if (right)
			cg_close(own);
		cg_stream_close(stream);
		cg_close(context);
		_exit(right ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* Closes a stream, in another thread than the one that opened it. */
static void *close_stream(void *s)
{
	cg_stream_close(s);
	return NULL;
}

static void test_closing_order(void **state)
{
	struct cg_context *c;
	struct cg_stream *a, *b;
	struct cg_gru_block gru;
	pthread_t thread;

	(void)state;
	assert_int_equal(cg_open("cpu", &c), CG_OK);
	assert_int_equal(cg_stream_open(c, NULL, &a), CG_OK);
	assert_int_equal(cg_stream_open(c, NULL, &b), CG_OK);
	cg_close(c);
	cg_gru_block_init(&gru, sizeof gru);
	gru.I = gru.U = 1;
	assert_int_equal(cg_gru_block_forward(a, &gru), CG_OK);
	cg_stream_close(a);
	assert_int_equal(pthread_create(&thread, NULL, close_stream, b), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

static void test_version(void **state)
{
	char text[40];

	(void)state;
	snprintf(text, sizeof text, "%d.%d.%d", CG_VERSION_MAJOR, CG_VERSION_MINOR, CG_VERSION_PATCH);
	assert_string_equal(cg_version(), text);
	assert_non_null(cg_message());
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_open), cmocka_unit_test(test_device), cmocka_unit_test(test_stream),
		cmocka_unit_test(test_memory_calls), cmocka_unit_test(test_ops), cmocka_unit_test(test_cells),
		cmocka_unit_test(test_fork), cmocka_unit_test(test_closing_order), cmocka_unit_test(test_version),
		cmocka_unit_test_setup(test_nothing_left, close_all),
	};

	counted_begin();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("misuse", tests, open_cpu, NULL);
}
