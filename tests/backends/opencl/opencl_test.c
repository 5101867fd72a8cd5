/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the opencl backend and its calls of the driver: the commands that are enqueued, call by call; a driver that fails at the n-th call,
 * for every n, except at calls that free and at clFinish; a caller's own context, queue and memory; and wrong arguments.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/help/counted.h"
#include "tests/backends/opencl/opencl_watch.h"
#include "tests/help/shorten.h"

static long enqueued(void)
{
	return seen.EnqueueNDRangeKernel + seen.EnqueueReadBuffer + seen.EnqueueWriteBuffer + seen.EnqueueCopyBuffer +
	       seen.EnqueueFillBuffer;
}

/* Expects that a call enqueued `kernels` kernels, and made no copy, fill, wait, allocation or build. */
static void expect_kernels(const char *what, long kernels)
{
	if (seen.EnqueueNDRangeKernel != kernels || enqueued() != kernels)
		fail_msg("%s: expected %ld kernels and nothing else, got %ld of %ld commands", what, kernels, seen.EnqueueNDRangeKernel,
		         enqueued());
	if (seen.Finish || seen.CreateBuffer || seen.BuildProgram || seen.CreateKernel || seen.ReleaseMemObject ||
	    seen.CreateCommandQueue || seen.RetainContext)
		fail_msg("%s: waited, took memory or built", what);
	assert_int_equal(cg_memory_fail(0), 0);
}

/* Counts the kernels of a second call, since the first call builds kernels.  A product is a kernel, too. */
static void count(struct cg_stream *stream, block_call *call, const void *op, const struct commands *c)
{
	assert_int_equal(call(stream, op), CG_OK);
	forget();
	cg_memory_fail(0);
	assert_int_equal(call(stream, op), CG_OK);
	expect_kernels(c->what, c->launches + c->products);
}

/* ---- a driver that fails ---- */

static void close_nothing(void)
{
}

static int everything(void)
{
	return run_program("opencl", CG_F32, close_nothing);
}

static void test_failures(void **state)
{
	struct cg_context *context;
	long calls;

	(void)state;
	if (!opens(&context))
		return;
	cg_close(context);
	forget();
	assert_int_equal(everything(), CG_OK);
	calls = made;
	assert_true(calls > 100);
	for (long n = 1; n <= calls; n++) {
		int code;

		forget();
		fatal = n;
		failed_call = NULL;
		code = everything();
		assert_non_null(failed_call);
		/* Queries that only describe a device may fail, and a platform that fails does not affect the others. */
		if (!code && (strstr(failed_call, "clGetDeviceInfo") || strstr(failed_call, "clGetDeviceIDs")))
			continue;
		if (!code || !strstr(cg_message(), failed_call))
			fail_msg("call %ld of %ld, %s: got %d, '%s'", n, calls, failed_call, code, code ? cg_message() : "");
	}
	forget();
	assert_int_equal(everything(), CG_OK);
}

/* ---- what a caller brings ---- */

struct native { struct cg_context *first; struct _cl_context *context; struct _cl_device_id *id; struct _cl_command_queue *queue; };

/* Makes a context and a queue, as a caller has them, on the first device of the first platform. */
static int open_native(struct native *n, uint64_t properties)
{
	struct _cl_platform_id *platforms[8];
	int32_t error;

	if (!opens(&n->first))
		return 0;
	assert_int_equal(driver.GetPlatformIDs(8, platforms, NULL), 0);
	assert_int_equal(driver.GetDeviceIDs(platforms[0], CL_DEVICE_TYPE_ALL, 1, &n->id, NULL), 0);
	n->context = driver.CreateContext(NULL, 1, &n->id, NULL, NULL, &error);
	assert_non_null(n->context);
	n->queue = driver.CreateCommandQueue(n->context, n->id, properties, &error);
	return 1;
}

static void close_native(struct native *n)
{
	if (n->queue)
		driver.ReleaseCommandQueue(n->queue);
	driver.ReleaseContext(n->context);
	cg_close(n->first);
}

/* Runs forward and gradient in the caller's context, through the caller's queue, without a wait; h and dgates are the cpu's to 1e-6. */
static void test_adopted(void **state)
{
	struct native n;
	struct tensors t = { .n = 0 }, u = { .n = 0 };
	struct cg_lstm_block l, m;
	float h[2][B * U], d[2][B * 4 * U];

	(void)state;
	if (!open_native(&n, 0))
		return;
	assert_int_equal(cg_adopt("opencl", n.context, NULL, &t.context), CG_OK);
	assert_int_equal(cg_stream_open(t.context, n.queue, &t.stream), CG_OK);
	l = lstm(&t, 1);
	l.dgates = some(&t, B * 4 * U);
	assert_int_equal(cg_lstm_block_forward(t.stream, &l), CG_OK);
	assert_int_equal(cg_lstm_block_grad(t.stream, &l), CG_OK);
	forget();
	assert_int_equal(cg_lstm_block_forward(t.stream, &l), CG_OK);
	assert_int_equal(cg_lstm_block_grad(t.stream, &l), CG_OK);
	assert_int_equal(seen.Finish, 0);
	assert_int_equal(enqueued(), 4);
	assert_int_equal(driver.EnqueueReadBuffer(n.queue, l.h.data, 1, 0, sizeof h[0], h[0], 0, NULL, NULL), 0);
	assert_int_equal(driver.EnqueueReadBuffer(n.queue, l.dgates.data, 1, 0, sizeof d[0], d[0], 0, NULL, NULL), 0);

	assert_int_equal(cg_open("cpu", &u.context), CG_OK);
	assert_int_equal(cg_stream_open(u.context, NULL, &u.stream), CG_OK);
	m = lstm(&u, 1);
	m.dgates = some(&u, B * 4 * U);
	assert_int_equal(cg_lstm_block_forward(u.stream, &m), CG_OK);
	assert_int_equal(cg_lstm_block_grad(u.stream, &m), CG_OK);
	assert_int_equal(cg_get(u.stream, h[1], m.h, sizeof h[1]), CG_OK);
	assert_int_equal(cg_get(u.stream, d[1], m.dgates, sizeof d[1]), CG_OK);
	for (int k = 0; k < B * U; k++)
		assert_true(h[0][k] - h[1][k] < 1e-6f && h[1][k] - h[0][k] < 1e-6f);
	for (int k = 0; k < B * 4 * U; k++)
		assert_true(d[0][k] - d[1][k] < 1e-6f && d[1][k] - d[0][k] < 1e-6f);
	free_tensors(&u);
	free_tensors(&t);
	close_native(&n);
}

static void test_adopted_context(void **state)
{
	struct native n;
	struct tensors t = { .n = 0 }, u = { .n = 0 };
	struct cg_lstm_block l;
	struct cg_context *context;
	struct cg_stream *stream;
	struct cg_mem other;
	char byte = 0;

	(void)state;
	if (!open_native(&n, 0))
		return;
	expect_refused(cg_adopt("opencl", n.context, n.context, &context), CG_BAD_ARGUMENT, "cg_adopt: device: expected one of");
	expect_refused(cg_adopt("opnecl", n.context, NULL, &context), CG_BAD_ARGUMENT, "opencl");
	expect_refused(cg_adopt("cpu", n.context, NULL, &context), CG_UNSUPPORTED, "cpu has no contexts");
	expect_refused(cg_adopt("opencl", NULL, NULL, &context), CG_BAD_ARGUMENT, "native: expected a pointer, got NULL");
	expect_refused(cg_stream_open(n.first, n.queue, &stream), CG_BAD_ARGUMENT, "another cl_context");

	t.context = n.first;
	assert_int_equal(cg_stream_open(t.context, NULL, &t.stream), CG_OK);
	l = lstm(&t, 0);
	l.h.bytes *= 2;
	expect_refused(cg_lstm_block_forward(t.stream, &l), CG_BAD_ARGUMENT, "lstm_block_cell: h: expected [B=3, U=5] f32, 60 bytes, got 120");
	l.h.bytes /= 2;
	l.h.offset = 4;
	expect_refused(cg_lstm_block_forward(t.stream, &l), CG_BAD_ARGUMENT, "lstm_block_cell: h: expected a cl_mem of at least");
	l.h.offset = 0;
	assert_int_equal(cg_adopt("opencl", n.context, n.id, &u.context), CG_OK);
	assert_int_equal(cg_stream_open(u.context, NULL, &u.stream), CG_OK);
	other = some(&u, B * I);
	l.x = other;
	expect_refused(cg_lstm_block_forward(t.stream, &l), CG_BAD_ARGUMENT, "lstm_block_cell: x: the cl_mem belongs to another cl_context");
	expect_refused(cg_put(t.stream, other, &byte, 1), CG_BAD_ARGUMENT, "cg_put: to: the cl_mem belongs to another cl_context");
	free_tensors(&u);
	while (t.n)
		cg_free(t.context, &t.mem[--t.n]);
	cg_stream_close(t.stream);
	close_native(&n);

	assert_true(open_native(&n, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE));
	if (n.queue) {
		assert_int_equal(cg_adopt("opencl", n.context, NULL, &context), CG_OK);
		expect_refused(cg_stream_open(context, n.queue, &stream), CG_BAD_ARGUMENT, "expected a queue that runs in order");
		cg_close(context);
	}
	close_native(&n);
}

/* ---- devices that lack something ---- */

static int32_t no_doubles(struct _cl_device_id *id, uint32_t what, size_t most, void *to, size_t *bytes)
{
	int32_t code = driver.GetDeviceInfo(id, what, most, to, bytes);

	if (what == CL_DEVICE_DOUBLE_FP_CONFIG)
		memset(to, 0, most);
	return code;
}

static int32_t no_compiler(struct _cl_device_id *id, uint32_t what, size_t most, void *to, size_t *bytes)
{
	int32_t code = driver.GetDeviceInfo(id, what, most, to, bytes);

	if (what == CL_DEVICE_COMPILER_AVAILABLE)
		memset(to, 0, most);
	return code;
}

static int32_t refuse_text(struct _cl_program *program, uint32_t n, struct _cl_device_id *const *ids, const char *options,
                           void (*notify)(struct _cl_program *, void *), void *user)
{
	(void)options;
	return driver.BuildProgram(program, n, ids, "-D__kernel=nonsense -cl-std=CL1.2", notify, user);
}

static struct _cl_mem *no_memory(struct _cl_context *context, uint64_t flags, size_t bytes, void *host, int32_t *error)
{
	(void)context;
	(void)flags;
	(void)bytes;
	(void)host;
	*error = CL_MEM_OBJECT_ALLOCATION_FAILURE;
	return NULL;
}

static void test_lacking(void **state)
{
	struct cg_lstm_block l;
	struct cg_context *context;
	struct cg_mem mem;
	struct tensors t;

	(void)state;
	if (!opens(&context))
		return;
	cg_close(context);
	expect_refused(cg_open("opencl:9.0", &context), CG_NO_DEVICE, "no device 9.0: the number of devices found is ");
	expect_refused(cg_open("opencl:0.99", &context), CG_NO_DEVICE, "no device 0.99");
	expect_refused(cg_open("opencl:0", &context), CG_BAD_ARGUMENT, "expected PLATFORM.DEVICE");
	expect_refused(cg_open("opencl:0.0x", &context), CG_BAD_ARGUMENT, "expected PLATFORM.DEVICE");
	expect_refused(cg_open("opencl:-1.0", &context), CG_BAD_ARGUMENT, "expected PLATFORM.DEVICE");
	expect_refused(cg_open("opncl", &context), CG_BAD_ARGUMENT, "did you mean 'opencl'");

	cg_cl.GetDeviceInfo = no_compiler;
	expect_refused(cg_open("opencl", &context), CG_NO_DEVICE, "no compiler");
	cg_cl.GetDeviceInfo = no_doubles;
	assert_true(open_tensors(&t));
	assert_int_equal(cg_supports(t.context, "lstm_block_cell", CG_F32), CG_OK);
	expect_refused(cg_supports(t.context, "lstm_block_cell", CG_F64), CG_UNSUPPORTED, "cl_khr_fp64");
	l = lstm(&t, 0);
	l.B = 1, l.U = 2, l.I = 1, l.dtype = CG_F64;
	shorten(cg_op_find("lstm_block_cell", NULL), &l);
	expect_refused(cg_lstm_block_forward(t.stream, &l), CG_UNSUPPORTED, "lstm_block_cell: this device has no double");
	forget();

	l = lstm(&t, 0);
	cg_cl.BuildProgram = refuse_text;
	expect_refused(cg_lstm_block_forward(t.stream, &l), CG_BUILD, "clBuildProgram: CL_BUILD_PROGRAM_FAILURE (-11)");
	assert_non_null(strstr(cg_message(), "cg_lstm_block_f32_forward"));
	assert_non_null(strstr(cg_message(), "error"));
	forget();
	assert_int_equal(cg_lstm_block_forward(t.stream, &l), CG_OK);

	cg_cl.CreateBuffer = no_memory;
	expect_refused(cg_alloc(t.context, 1000, &mem), CG_NO_MEMORY, "1000 bytes: opencl: clCreateBuffer: "
	               "CL_MEM_OBJECT_ALLOCATION_FAILURE (-4)");
	forget();
	free_tensors(&t);
}

int main(void)
{
	static struct watched watched = { open_tensors, forget, count, &seen.BuildProgram };
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_prestate(test_commands, &watched), cmocka_unit_test_prestate(test_commands_of_sequences, &watched),
		cmocka_unit_test_prestate(test_built_once, &watched), cmocka_unit_test(test_failures),
		cmocka_unit_test(test_adopted), cmocka_unit_test(test_adopted_context), cmocka_unit_test(test_lacking),
		cmocka_unit_test(test_nothing_left),
	};

	counted_begin();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("opencl", tests, set_up, NULL);
}
