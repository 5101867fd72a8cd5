/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each call that a program makes of the driver and its libraries fails in turn, except those that free: the library returns CG_DRIVER or
 * CG_BUILD, but CG_OK if a query of the device's name, memory or memory pools failed; an error's message names the call, and nothing
 * leaks. The test also covers a lost context, device memory that runs out, and more rows or units than a grid may have blocks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "tests/help/counted.h"
#include "tests/backends/cuda/cuda_watch.h"
#include "tests/help/shorten.h"

/* ---- each call ---- */

/* Called before a program frees its objects: no later call is made to fail, since the library's functions that free or close return no
   code. */
static void begin_closing(void)
{
	closing = 1;
}

static int everything(int dtype)
{
	return run_program("cuda", dtype, begin_closing);
}

/* Returns the number of blocks of host memory that the library holds. */
static size_t live_objects(void)
{
	const char *message;
	size_t blocks = 0;

	if (cg_set_allocator(NULL)) {
		message = strstr(cg_message(), "it holds ");
		assert_non_null(message);
		assert_int_equal(sscanf(message, "it holds %zu", &blocks), 1);
	}
	return blocks;
}

/* Returns 1 if a call may fail while the library returns CG_OK: the queries of a device's name and memory, and the query whether the device
   has stream-ordered memory. */
static int may_fail(const char *call)
{
	return !strcmp(call, "cuDeviceGetName") || !strcmp(call, "cuDeviceTotalMem_v2") || !strcmp(call, "cuDeviceGetAttribute");
}

static void fail_each(int dtype)
{
	long calls, mended = 0;
	size_t before;

	forget();
	assert_int_equal(everything(dtype), CG_OK);
	assert_int_equal(balance, 0);
	calls = made;
	before = live_objects();
	assert_true(calls > 60);
	for (long k = 1; k <= calls; k++) {
		char message[256] = "";
		int code;

		forget();
		fatal = k;
		code = everything(dtype);
		assert_non_null(failed_call);
		if (code)
			snprintf(message, sizeof message, "%.255s", cg_message());
		if (balance || live_objects() != before)
			fail_msg("call %ld of %ld, %s: left %ld behind, and %zu pieces of the host's memory", k, calls, failed_call,
			         balance, live_objects() - before);
		if (!code && may_fail(failed_call)) {
			mended++;
			continue;
		}
		if (code != CG_DRIVER && code != CG_BUILD)
			fail_msg("call %ld of %ld, %s: got %d, '%s'", k, calls, failed_call, code, message);
		if (!strstr(message, failed_call) || !strstr(message, "cuda: "))
			fail_msg("call %ld of %ld, %s: is not in '%s'", k, calls, failed_call, message);
	}
	assert_int_equal(mended, 3);             /* 3 calls may fail: the queries of a device's name, of its memory and of its memory pools */
	forget();
	assert_int_equal(everything(dtype), CG_OK);
}

static void test_failures(void **state)
{
	struct cg_context *context;

	(void)state;
	if (!opens(&context))
		return;
	cg_close(context);
	fail_each(CG_F32);
	fail_each(CG_F16);
}

/* ---- a lost context ---- */

static unsigned illegal(struct CUfunc_st *function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz,
                        unsigned shared, struct CUstream_st *stream, void **parameters, void **extra)
{
	(void)function, (void)x, (void)y, (void)z, (void)bx, (void)by, (void)bz, (void)shared, (void)stream, (void)parameters;
	(void)extra;
	return CUDA_ERROR_ILLEGAL_ADDRESS;
}

static void test_lost_context(void **state)
{
	static const char text[] = "an earlier failure has made the context unusable: cuda: cuLaunchKernel: CUDA_ERROR_ILLEGAL_ADDRESS (700): ";
	struct cg_lstm_block l;
	struct cg_stream *stream;
	struct cg_mem mem;
	struct tensors t;
	char byte = 0;

	(void)state;
	if (!open_tensors(&t))
		return;
	l = lstm(&t, 0);
	cg_cu.LaunchKernel = illegal;
	expect_refused(cg_lstm_block_grad(t.stream, &l), CG_OK, "");
	l.dgates = some(&t, B * 4 * U);
	expect_refused(cg_lstm_block_grad(t.stream, &l), CG_DRIVER, "cuda: cuLaunchKernel: CUDA_ERROR_ILLEGAL_ADDRESS (700): ");
	assert_null(strstr(cg_message(), "was lost"));
	forget();
	expect_refused(cg_lstm_block_grad(t.stream, &l), CG_DRIVER, text);
	expect_refused(cg_lstm_block_forward(t.stream, &l), CG_DRIVER, text);
	expect_refused(cg_put(t.stream, l.h, &byte, 1), CG_DRIVER, text);
	expect_refused(cg_get(t.stream, &byte, l.h, 1), CG_DRIVER, text);
	expect_refused(cg_stream_sync(t.stream), CG_DRIVER, text);
	expect_refused(cg_alloc(t.context, 64, &mem), CG_DRIVER, text);
	expect_refused(cg_stream_open(t.context, NULL, &stream), CG_DRIVER, text);
	assert_int_equal(made, 0);
	free_tensors(&t);

	assert_true(open_tensors(&t));           /* only the test's cuLaunchKernel returned the error: the driver has lost no context */
	l = lstm(&t, 0);
	assert_int_equal(cg_lstm_block_forward(t.stream, &l), CG_OK);
	free_tensors(&t);
}

/* ---- memory ---- */

static unsigned no_memory(CUdeviceptr *at, size_t bytes)
{
	(void)at;
	(void)bytes;
	return CUDA_ERROR_OUT_OF_MEMORY;
}

static unsigned no_ordered_memory(CUdeviceptr *at, size_t bytes, struct CUstream_st *stream)
{
	(void)stream;
	return no_memory(at, bytes);
}

static void test_no_memory(void **state)
{
	float host[B * I] = { 0 };
	struct cg_lstm_block l;
	struct cg_mem mem;
	struct tensors t;

	(void)state;
	if (!open_tensors(&t))
		return;
	cg_cu.MemAlloc_v2 = no_memory;
	expect_refused(cg_alloc(t.context, 1000, &mem), CG_NO_MEMORY, "1000 bytes: cuda: cuMemAlloc_v2: CUDA_ERROR_OUT_OF_MEMORY (2): ");
	forget();
	l = lstm(&t, 0);
	cg_cu.MemAlloc_v2 = no_memory;
	if (cg_cu.MemAllocAsync)
		cg_cu.MemAllocAsync = no_ordered_memory;
	l.x = (struct cg_mem){ host, 0, sizeof host, CG_HOST };
	expect_refused(cg_lstm_block_forward(t.stream, &l), CG_NO_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY (2): ");
	forget();
	assert_int_equal(cg_lstm_block_forward(t.stream, &l), CG_OK);
	free_tensors(&t);
}

/* ---- more rows than a grid has ---- */

static unsigned grid[2], block[2];
static long long rows, units;

static unsigned note_grid(struct CUfunc_st *function, unsigned x, unsigned y, unsigned z, unsigned bx, unsigned by, unsigned bz,
                          unsigned shared, struct CUstream_st *stream, void **parameters, void **extra)
{
	(void)function;
	(void)stream;
	assert_true(z == 1 && bz == 1 && !shared && !extra);
	grid[0] = x;
	grid[1] = y;
	block[0] = bx;
	block[1] = by;
	memcpy(&rows, parameters[0], sizeof rows);
	memcpy(&units, parameters[1], sizeof units);
	return 0;
}

static unsigned endless(CUdeviceptr *base, size_t *bytes, CUdeviceptr at)
{
	*base = at;
	*bytes = SIZE_MAX / 4;
	return 0;
}

/* Requests a kernel over m rows and k units, which is not run, and expects at most 65535 rows of blocks of at most 1024 threads. */
static void launch(struct tensors *t, int64_t m, int64_t k)
{
	struct cg_mem mem = t->mem[0];
	const struct cg_kernel kernel = { cg_cell_find("rnn_relu"), "", 1, CG_FORWARD, CG_F32, CG_POINT };
	struct cg_arg args[] = { { .name = "a", .mem = mem, .stride = k }, { .name = "h", .mem = t->mem[1], .stride = k } };

	args[0].mem.bytes = args[1].mem.bytes = SIZE_MAX / 4;
	if (cg_kernel_run(t->stream, &kernel, m, k, args, 2))
		fail_msg("[%lld, %lld]: %s", (long long)m, (long long)k, cg_message());
	if (rows != m || units != k || grid[1] > 65535 || !grid[0] || !grid[1] || block[0] * block[1] > 1024 || !block[0] || !block[1])
		fail_msg("[%lld, %lld]: got a grid of %u, %u with blocks of %u, %u for [%lld, %lld]", (long long)m, (long long)k, grid[0],
		         grid[1], block[0], block[1], rows, units);
}

static void test_grids(void **state)
{
	static const int64_t sizes[] = { 1, 2, 7, 32, 65535, 65536, 1000003, (int64_t)1 << 31, ((int64_t)1 << 32) + 5 };
	struct tensors t;

	(void)state;
	if (!open_tensors(&t))
		return;
	some(&t, 4);
	some(&t, 4);
	cg_cu.LaunchKernel = note_grid;
	cg_cu.MemGetAddressRange_v2 = endless;
	for (size_t a = 0; a < sizeof sizes / sizeof *sizes; a++)
		for (size_t b = 0; b < sizeof sizes / sizeof *sizes; b++)
			if (sizes[a] <= ((int64_t)1 << 47) / sizes[b])
				launch(&t, sizes[a], sizes[b]);
	forget();
	free_tensors(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_failures), cmocka_unit_test(test_lost_context), cmocka_unit_test(test_no_memory),
		cmocka_unit_test(test_grids),
		cmocka_unit_test(test_nothing_left),
	};

	counted_begin();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("cuda_fault", tests, set_up, NULL);
}
