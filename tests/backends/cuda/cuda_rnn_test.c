/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests networks on the cuda backend. On route composed each step enqueues its products and its point kernels and nothing else; a
 * repeated call waits for nothing and allocates no memory, so that it can be captured. On routes composed and cudnn the test runs
 * the trials of tests/help/net_trials.h: among them a driver that fails at the n-th call, and host memory, which is staged.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "tests/help/counted.h"
#include "tests/backends/cuda/cuda_watch.h"
#include "tests/help/net_trials.h"
#include "tests/help/step_cases.h"

typedef int pass_of(struct net *);
static pass_of *const passes[] = { net_forward, net_backward };

static long products(const struct calls *c)
{
	return c->cublasGemmEx + c->cublasLtMatmul;
}

/* Returns the number of waits, copies, allocations, frees, builds and queries, and of calls that create or set an object of a library. */
static long others(const struct calls *c)
{
	return c->cuMemcpyHtoDAsync_v2 + c->cuMemcpyDtoHAsync_v2 + c->cuMemcpyDtoDAsync_v2 + c->cuStreamSynchronize + c->cuMemAlloc_v2 +
	       c->cuMemFree_v2 + c->cuMemAllocAsync + c->cuMemFreeAsync + c->cuModuleLoadData + c->cuModuleGetFunction +
	       c->cuFuncGetAttribute + c->nvrtcCompileProgram + c->cublasCreate_v2 + c->cublasSetStream_v2 + c->cublasSetWorkspace_v2 +
	       c->cublasSetMathMode + c->cublasLtMatmulAlgoGetHeuristic + c->cublasLtMatmulDescCreate + c->cublasLtMatrixLayoutCreate +
	       c->cuDeviceGetAttribute + c->cuStreamCreate;
}

/* The launches of forward and of backward besides those of their steps, for the two layers of the networks: biases, moves, gradients of
   weights, and two for the sums of each stage: one for the partial sums, one for the gradients of both biases, bW and bR. */
static const int once[STEP_CASES][2] = {
	/* lstm; ragged; f16 */ { 10, 14 }, { 40, 61 }, { 24, 38 }, /* peepholes; ragged, bf16 */ { 10, 18 }, { 40, 70 },
	/* projection; ragged */ { 10, 18 }, { 40, 73 }, /* gru; ragged */ { 24, 20 }, { 17, 21 }, /* rnn_tanh */ { 8, 10 },
	/* gru_block; ragged */ { 8, 14 }, { 28, 53 }, /* mingru; ragged */ { 16, 24 }, { 13, 23 },
	/* sru, ragged; indrnn */ { 40, 73 }, { 8, 16 },
};

/* Counts the calls of the driver and its libraries in a second run of each pass, and expects none of the calls that others() counts, and no
   allocation of host memory. */
static void count(const struct step_case *step_case, int64_t T, struct tensors *t, struct calls of[2])
{
	int32_t lengths[STEP_CASE_ROWS];
	struct net n;

	if (step_case_open(&n, step_case, T, lengths, t->context, t->stream) || net_forward(&n) || net_backward(&n))
		fail_msg("%s: %s", step_case->name, cg_message());
	for (int pass = 0; pass < 2; pass++) {
		forget_calls();
		cg_memory_fail(0);
		assert_int_equal(passes[pass](&n), CG_OK);
		of[pass] = seen;
		assert_int_equal(cg_memory_fail(0), 0);
		if (others(&seen))
			fail_msg("%s, pass %d: waited, copied, took memory or built", step_case->name, pass);
	}
	net_close(&n);
}

static void test_launches_of_a_step(void **state)
{
	int has_blas = blas.GemmEx != NULL, stand_in;
	struct tensors t;

	(void)state;
	if (!open_tensors(&t))
		return;
	stand_in = strstr(cg_describe(t.context), "stand-in") != NULL;
	for (int k = 0; k < STEP_CASES; k++) {
		const struct step_case *step_case = &step_cases[k];
		struct calls few[2], many[2];
		int pseudo_layers = 2 * (1 + step_case->bidirectional);

		count(step_case, 10, &t, few);
		count(step_case, 20, &t, many);
		for (int pass = 0; pass < 2; pass++) {
			long launched = many[pass].cuLaunchKernel - few[pass].cuLaunchKernel;
			long multiplied = products(&many[pass]) - products(&few[pass]), steps = 10L * pseudo_layers;
			long filled = many[pass].cuMemsetD8Async - few[pass].cuMemsetD8Async;

			if (launched != steps * (step_case->points[pass] + (has_blas ? 0 : step_case->products[pass])) ||
			    multiplied != (has_blas ? steps * step_case->products[pass] : 0) || filled)
				fail_msg("%s, pass %d: %ld steps more are %ld launches, %ld products and %ld fills", step_case->name, pass, steps, launched,
				         multiplied, filled);
			/* Which products can begin with a bias depends on cublasLt: the stand-in for cublasLt supports all that are requested. */
			if (stand_in && has_blas && few[pass].cuLaunchKernel - launched != once[k][pass])
				fail_msg("%s, pass %d: %ld launches beside the steps', expected %d", step_case->name, pass,
				         few[pass].cuLaunchKernel - launched, once[k][pass]);
		}
	}
	free_tensors(&t);
}

/* ---- a stream that is captured ---- */

static unsigned capturing(struct CUstream_st *stream, unsigned *status)
{
	(void)stream;
	*status = CU_STREAM_CAPTURE_STATUS_ACTIVE;
	return 0;
}

struct native { struct cg_context *first; struct CUctx_st *context; struct CUstream_st *stream; };

static int open_native(struct native *native, struct tensors *t)
{
	struct CUctx_st *popped;

	*t = (struct tensors){ .n = 0 };
	if (!opens(&native->first))
		return 0;
	assert_int_equal(driver.DevicePrimaryCtxRetain(&native->context, 0), 0);
	assert_int_equal(driver.CtxPushCurrent_v2(native->context), 0);
	assert_int_equal(driver.StreamCreate(&native->stream, 0), 0);
	assert_int_equal(driver.CtxPopCurrent_v2(&popped), 0);
	assert_int_equal(cg_adopt("cuda", native->context, NULL, &t->context), CG_OK);
	assert_int_equal(cg_stream_open(t->context, native->stream, &t->stream), CG_OK);
	return 1;
}

static void close_native(struct native *native, struct tensors *t)
{
	struct CUctx_st *popped;

	free_tensors(t);
	driver.CtxPushCurrent_v2(native->context);
	driver.StreamSynchronize(native->stream);
	driver.StreamDestroy_v2(native->stream);
	driver.CtxPopCurrent_v2(&popped);
	driver.DevicePrimaryCtxRelease_v2(0);
	cg_close(native->first);
}

/* While the stream is captured, both passes enqueue kernels, products and fills alone. */
static void expect_captured(struct net *n)
{
	forget();
	cg_memory_fail(0);
	cg_cu.StreamIsCapturing = capturing;
	if (net_forward(n) || net_backward(n))
		fail_msg("%s", cg_message());
	assert_int_equal(others(&seen), 0);
	assert_int_equal(cg_memory_fail(0), 0);
	assert_true(seen.cuLaunchKernel > 0);
	forget();
}

static void expect_uncaptured(struct net *n, const char *text)
{
	forget();
	cg_cu.StreamIsCapturing = capturing;
	for (int pass = 0; pass < 2; pass++)
		expect_refused(passes[pass](n), CG_UNSUPPORTED, text);
	assert_int_equal(seen.cuLaunchKernel + products(&seen) + seen.cuMemsetD8Async + others(&seen), 0);
	forget();
}

static void test_captured(void **state)
{
	static const int32_t some[] = { 3, 2 }, fewer[] = { 2, 1 };
	struct native native;
	struct tensors t;
	struct net n;

	(void)state;
	if (!open_native(&native, &t))
		return;
	net_begin(&n, t.context, t.stream);
	n.place = CG_DEVICE;
	n.config.bidirectional = 1;
	n.config.dropout = 0.5;
	n.config.route = "composed";
	n.call.lengths = some;                   /* a call with the lengths `some` needs a larger workspace than a call without */
	assert_int_equal(net_open(&n), CG_OK);
	expect_uncaptured(&n, "the stream is being captured: an allocation is not allowed");
	n.call.lengths = NULL;
	assert_int_equal(net_forward(&n), CG_OK);
	assert_int_equal(net_backward(&n), CG_OK);
	expect_captured(&n);

	/* A call with lengths can be captured if its lengths are those of the last call with lengths that succeeded on the stream. */
	n.call.lengths = some;
	assert_int_equal(net_forward(&n), CG_OK);
	assert_int_equal(net_backward(&n), CG_OK);
	expect_captured(&n);
	n.call.lengths = fewer;
	expect_uncaptured(&n, "the stream is being captured: a wait is not allowed");
	n.call.lengths = some;
	expect_captured(&n);
	net_close(&n);
	close_native(&native, &t);
}

/* ---- what is the same on any backend ---- */

static void test_trials(void **state)
{
	static const char *const routes[] = { "composed", "cudnn" };
	const struct faults faults = { &fatal, &failed_call, forget_calls };
	struct cg_context *context;

	(void)state;
	if (!opens(&context))
		return;
	for (size_t k = 0; k < sizeof routes / sizeof *routes; k++) {
		if (!strcmp(routes[k], "cudnn") && !dnn.Create)
			continue;
		try_streams(context, routes[k]);
		try_memory_spaces(context, routes[k]);
		try_faults(context, routes[k], &faults);
		try_turns(context, routes[k]);
		try_closing(context, routes[k]);
		try_problems("cuda", routes[k]);
	}
	cg_close(context);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_launches_of_a_step), cmocka_unit_test(test_captured), cmocka_unit_test(test_trials),
		cmocka_unit_test(test_nothing_left),
	};

	counted_begin();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("cuda_rnn", tests, set_up, NULL);
}
