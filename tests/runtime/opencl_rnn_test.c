/*
 * Networks on the opencl backend against its driver: each step of a walk enqueues its products and its point kernels and nothing
 * else; a call waits for nothing and takes no memory; a driver that fails at the n-th call; memory of the host, staged.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <cmocka.h>

#include "tests/runtime/opencl_watch.h"
#include "tests/runtime/walks.h"

static int set_up(void **state)
{
	(void)state;
	watch();
	return 0;
}

typedef int pass_of(struct net *);
static pass_of *const passes[] = { net_forward, net_backward };

/* What a call of each pass makes the driver do, when the same call was made before. */
static void count(const struct walk *walk, int64_t T, struct tensors *t, struct calls of[2])
{
	int32_t lengths[WALK_ROWS];
	struct net n;

	if (walk_open(&n, walk, T, lengths, t->context, t->stream) || net_forward(&n) || net_backward(&n))
		fail_msg("%s: %s", walk->name, cg_message());
	for (int pass = 0; pass < 2; pass++) {
		forget();
		cg_memory_fail(0);
		assert_int_equal(passes[pass](&n), CG_OK);
		of[pass] = seen;
		assert_int_equal(cg_memory_fail(0), 0);
		if (seen.Finish || seen.CreateBuffer || seen.ReleaseMemObject || seen.BuildProgram || seen.CreateKernel ||
		    seen.EnqueueReadBuffer || seen.EnqueueWriteBuffer || seen.EnqueueCopyBuffer)
			fail_msg("%s, pass %d: waited, copied, took memory or built", walk->name, pass);
	}
	net_close(&n);
}

static void test_steps(void **state)
{
	struct tensors t;

	(void)state;
	if (!open_tensors(&t))
		return;
	for (int k = 0; k < WALKS; k++) {
		const struct walk *walk = &walks[k];
		struct calls few[2], many[2];
		int pseudo_layers = 2 * (1 + walk->bidirectional);

		count(walk, 10, &t, few);
		count(walk, 20, &t, many);
		for (int pass = 0; pass < 2; pass++) {
			long kernels = many[pass].EnqueueNDRangeKernel - few[pass].EnqueueNDRangeKernel;
			long others = many[pass].EnqueueFillBuffer - few[pass].EnqueueFillBuffer;

			if (kernels != 10L * pseudo_layers * (walk->products[pass] + walk->points[pass]) || others)
				fail_msg("%s, pass %d: 10 steps more of %d pseudo-layers are %ld kernels and %ld fills", walk->name, pass,
				         pseudo_layers, kernels, others);
		}
	}
	drop_tensors(&t);
}

int main(void)
{
	const struct CMUnitTest tests[] = { cmocka_unit_test(test_steps) };

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("opencl_rnn", tests, set_up, NULL);
}
