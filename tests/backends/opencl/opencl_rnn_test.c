/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests networks on the opencl backend, and its calls of the driver: each step enqueues its products and its point kernels and nothing
 * else; a repeated call waits for nothing and allocates no memory. The test also runs the trials of tests/help/net_trials.h: among them a
 * driver that fails at the n-th call, and host memory, which is staged.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "tests/help/counted.h"
#include "tests/help/net_trials.h"
#include "tests/backends/opencl/opencl_watch.h"
#include "tests/help/step_cases.h"

typedef int pass_of(struct net *);
static pass_of *const passes[] = { net_forward, net_backward };

/* Counts the calls of the driver in a second run of each pass, and expects no wait, copy, allocation or build. */
static void count(const struct step_case *step_case, int64_t T, struct tensors *t, struct calls of[2])
{
	int32_t lengths[STEP_CASE_ROWS];
	struct net n;

	if (step_case_open(&n, step_case, T, lengths, t->context, t->stream) || net_forward(&n) || net_backward(&n))
		fail_msg("%s: %s", step_case->name, cg_message());
	for (int pass = 0; pass < 2; pass++) {
		forget();
		cg_memory_fail(0);
		assert_int_equal(passes[pass](&n), CG_OK);
		of[pass] = seen;
		assert_int_equal(cg_memory_fail(0), 0);
		if (seen.Finish || seen.CreateBuffer || seen.ReleaseMemObject || seen.BuildProgram || seen.CreateKernel ||
		    seen.EnqueueReadBuffer || seen.EnqueueWriteBuffer || seen.EnqueueCopyBuffer)
			fail_msg("%s, pass %d: waited, copied, took memory or built", step_case->name, pass);
	}
	net_close(&n);
}

static void test_launches_of_a_step(void **state)
{
	struct tensors t;

	(void)state;
	if (!open_tensors(&t))
		return;
	for (int k = 0; k < STEP_CASES; k++) {
		const struct step_case *step_case = &step_cases[k];
		struct calls few[2], many[2];
		int pseudo_layers = 2 * (1 + step_case->bidirectional);

		count(step_case, 10, &t, few);
		count(step_case, 20, &t, many);
		for (int pass = 0; pass < 2; pass++) {
			long kernels = many[pass].EnqueueNDRangeKernel - few[pass].EnqueueNDRangeKernel;
			long others = many[pass].EnqueueFillBuffer - few[pass].EnqueueFillBuffer;

			if (kernels != 10L * pseudo_layers * (step_case->products[pass] + step_case->points[pass]) || others)
				fail_msg("%s, pass %d: 10 steps more of %d pseudo-layers are %ld kernels and %ld fills", step_case->name, pass,
				         pseudo_layers, kernels, others);
		}
	}
	free_tensors(&t);
}

/* Expects in a forward `waits` waits, `sent` copies to the device and `made_buffers` allocations. A call with other lengths than the last
   call with lengths waits until that call's index of rows was copied, and sends an index of its own; a call with the same lengths does
   neither. */
static void expect_index(struct net *n, const int32_t *lengths, long waits, long sent, long made_buffers)
{
	n->call.lengths = lengths;
	forget();
	if (net_forward(n))
		fail_msg("%s", cg_message());
	if (seen.Finish != waits || seen.EnqueueWriteBuffer != sent || seen.CreateBuffer != made_buffers || seen.EnqueueReadBuffer)
		fail_msg("expected %ld waits, %ld copies and %ld allocations, got %ld, %ld and %ld", waits, sent, made_buffers, seen.Finish,
		         seen.EnqueueWriteBuffer, seen.CreateBuffer);
}

static void test_index(void **state)
{
	static const int32_t some[] = { 3, 2 }, others[] = { 2, 1 }, whole[] = { 3, 3 };
	struct tensors t;
	struct net n;

	(void)state;
	if (!open_tensors(&t))
		return;
	net_begin(&n, t.context, t.stream);
	n.place = CG_DEVICE;
	assert_int_equal(net_open(&n), CG_OK);
	expect_index(&n, whole, 0, 0, 0);        /* if all batch rows have T steps, a call needs no index */
	expect_index(&n, some, 0, 1, 1);
	expect_index(&n, some, 0, 0, 0);
	expect_index(&n, NULL, 0, 0, 0);
	expect_index(&n, some, 0, 0, 0);
	expect_index(&n, others, 1, 1, 0);
	expect_index(&n, others, 0, 0, 0);
	net_close(&n);
	free_tensors(&t);
}

static void test_trials(void **state)
{
	const struct faults faults = { &fatal, &failed_call, forget_calls };
	struct cg_context *context;

	(void)state;
	if (!opens(&context))
		return;
	try_streams(context, NULL);
	try_memory_spaces(context, NULL);
	try_faults(context, NULL, &faults);
	try_turns(context, NULL);
	try_closing(context, NULL);
	try_problems("opencl", NULL);
	cg_close(context);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_launches_of_a_step), cmocka_unit_test(test_index), cmocka_unit_test(test_trials),
		cmocka_unit_test(test_nothing_left),
	};

	counted_begin();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("opencl_rnn", tests, set_up, NULL);
}
