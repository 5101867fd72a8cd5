/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests compiled kernels kept on disk: the next start in the same dtype makes no call of NVRTC; a kernel that the driver rejects is
 * compiled again.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "runtime/cache/cache.h"
#include "runtime/op/op.h"
#include "tests/backends/cuda/cuda_watch.h"
#include "tests/help/shorten.h"

static char folder[] = "/tmp/cellgrad-cuda-XXXXXX";

static int set_up_cache(void **state)
{
	(void)state;
	watch();
	if (!mkdtemp(folder))
		return 1;
	setenv("CELLGRAD_CACHE_DIR", folder, 1);
	unsetenv("CELLGRAD_CACHE");
	return 0;
}

static int tear_down(void **state)
{
	size_t files;
	uint64_t bytes;

	(void)state;
	cg_cache_clear(&files, &bytes);
	return rmdir(folder);
}

static long compiler_calls(void)
{
	return seen.nvrtcVersion + seen.nvrtcGetNumSupportedArchs + seen.nvrtcGetSupportedArchs + seen.nvrtcCreateProgram +
	       seen.nvrtcCompileProgram + seen.nvrtcGetCUBIN;
}

/* Does what a process does at its start: opens a context, computes lstm_block_cell in a dtype, and closes the context. Returns how many
   programs were compiled; *calls: the number of calls of NVRTC, by compiler_calls(). */
static long start(int dtype, float h[B * U], long *calls)
{
	struct tensors t;
	struct cg_lstm_block l;

	forget_calls();
	t = (struct tensors){ .n = 0 };
	assert_int_equal(cg_open("cuda", &t.context), CG_OK);
	assert_int_equal(cg_stream_open(t.context, NULL, &t.stream), CG_OK);
	l = lstm(&t, 0);
	l.dtype = dtype;
	if (cg_dtype_bytes(dtype) > sizeof(float))
		l.B = 1, l.I = 1, l.U = 2;
	shorten(cg_op_find("lstm_block_cell", NULL), &l);
	if (cg_lstm_block_forward(t.stream, &l))
		fail_msg("%s", cg_message());
	memset(h, 0, B * U * sizeof *h);
	assert_int_equal(cg_get(t.stream, h, l.h, l.h.bytes), CG_OK);
	free_tensors(&t);
	*calls = compiler_calls();
	return seen.nvrtcCompileProgram;
}

static void test_warm(void **state)
{
	float cold[B * U], warm[B * U];
	struct cg_context *context;
	long calls;

	(void)state;
	if (!opens(&context))
		return;
	cg_close(context);
	assert_true(start(CG_F32, cold, &calls) > 0);
	assert_int_equal(start(CG_F32, warm, &calls), 0);
	assert_int_equal(calls, 0);
	assert_memory_equal(cold, warm, sizeof cold);
	assert_true(start(CG_BF16, warm, &calls) > 0);
	assert_int_equal(start(CG_BF16, warm, &calls), 0);

	setenv("CELLGRAD_CACHE", "off", 1);
	assert_true(start(CG_F32, warm, &calls) > 0);
	unsetenv("CELLGRAD_CACHE");
	assert_int_equal(start(CG_F32, warm, &calls), 0);
}

/* If the date of NVRTC's file has changed, kernels are compiled again.  The test changes the date of the stand-in's file and of no real
   library. */
static void test_other_compiler(void **state)
{
	struct timespec was[2], then[2];
	long calls, first, again;
	struct stat file;
	float h[B * U];

	(void)state;
	if (!getenv("CELLGRAD_FAKE_CUDA"))
		skip();
	start(CG_F32, h, &calls);
	assert_int_equal(start(CG_F32, h, &calls), 0);
	assert_int_equal(stat(cg_cuda_path(CG_CUDA_NVRTC), &file), 0);
	was[0] = then[0] = file.st_atim;
	was[1] = then[1] = file.st_mtim;
	then[1].tv_sec++;
	assert_int_equal(utimensat(AT_FDCWD, cg_cuda_path(CG_CUDA_NVRTC), then, 0), 0);
	first = start(CG_F32, h, &calls);
	again = start(CG_F32, h, &calls);
	utimensat(AT_FDCWD, cg_cuda_path(CG_CUDA_NVRTC), was, 0);
	assert_true(first > 0);
	assert_int_equal(again, 0);
	assert_true(start(CG_F32, h, &calls) > 0);
}

static long refusals;

static unsigned refuse_first(struct CUmod_st **module, const void *image)
{
	if (!refusals++)
		return CUDA_ERROR_NO_BINARY_FOR_GPU;
	return driver.ModuleLoadData(module, image);
}

static void test_refused(void **state)
{
	struct cg_context *context;
	float h[B * U];
	long calls;

	(void)state;
	if (!opens(&context))
		return;
	cg_close(context);
	start(CG_F32, h, &calls);
	assert_int_equal(start(CG_F32, h, &calls), 0);
	refusals = 0;
	cg_cu.ModuleLoadData = refuse_first;
	assert_int_equal(start(CG_F32, h, &calls), 1);
	assert_int_equal(start(CG_F32, h, &calls), 0);
	forget();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_warm), cmocka_unit_test(test_other_compiler), cmocka_unit_test(test_refused),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("cuda_cache", tests, set_up_cache, tear_down);
}
