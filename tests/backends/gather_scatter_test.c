/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests copies of rows that gather, scatter, add to old values or apply dropout to elements, on the cpu with every instruction set that
 * runs here, on one thread and on all, and on an OpenCL device: the values, and on OpenCL the numbers of builds and launches. In f32
 * the cpu's dropout words are those of Random123's Philox.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#ifdef __has_include
#if __has_include(<Random123/philox.h>)
#include <Random123/philox.h>
#define RANDOM123
#endif
#endif

#include "backends/cpu/isa.h"
#include "backends/opencl/library.h"
#include "tests/help/counted.h"
#include "tests/backends/rows_trial.h"

enum { TRIALS = 400 };

static void try_cpu(const char *isa, const char *threads)
{
	struct cg_context *context;
	struct cg_stream *stream;

	setenv("CELLGRAD_CPU_ISA", isa, 1);
	setenv("CELLGRAD_CPU_THREADS", threads, 1);
	assert_int_equal(cg_open("cpu", &context), CG_OK);
	assert_int_equal(cg_stream_open(context, NULL, &stream), CG_OK);
	rows_try(stream, TRIALS);
	cg_stream_close(stream);
	cg_close(context);
}

static void test_cpu(void **nothing)
{
	(void)nothing;
	for (const struct cg_isa *isa = cg_isas; isa->name; isa++)
		if (isa->runs_here()) {
			try_cpu(isa->name, "1");
			try_cpu(isa->name, "");
		}
}

#ifdef RANDOM123
/* Returns 1 if `word` is the dropout word that the compiled kernel `call` computes from `key`, `t`, `b` and `unit`.  With the dropout word
   as the limit `below` the element is kept, with the next number as the limit the element is
   dropped. */
static int draws(cg_rows_compiled *call, uint64_t key, int64_t t, int64_t b, int64_t unit, uint32_t word)
{
	float one = 1, result[2];

	for (int next = 0; next < 2; next++) {
		const struct cg_rows_bound bound = {
			.src = &one, .dst = &result[next], .t = &t, .b = &b, .columns = 1, .first_unit = unit, .key = key,
			.below = (int64_t)word + next, .scale = 3,
		};

		call(0, 1, &bound);
	}
	return result[0] == 3 && result[1] == 0;
}
#endif

static void test_random123(void **nothing)
{
	(void)nothing;
#ifdef RANDOM123
	for (const struct cg_isa *isa = cg_isas; isa->name; isa++)
		for (uint64_t k = 0; k < 10000 && isa->runs_here(); k++) {
			uint64_t key = k * 0x9e3779b97f4a7c15;
			philox4x32_ctr_t at = { { (uint32_t)(k * 12345701) >> 2, (uint32_t)(k * 0xdeadbeef), (uint32_t)(k * 0xcafebabe), 0 } };
			philox4x32_key_t both = { { (uint32_t)key, (uint32_t)(key >> 32) } };

			assert_true(draws(isa->rows[CG_F32][1], key, at.v[2], at.v[1], 4 * (int64_t)at.v[0] + (int64_t)(k % 4),
			                  philox4x32(at, both).v[k % 4]));
		}
#else
	const char *required = getenv("CELLGRAD_TEST_REQUIRE");

	assert_true(!required || !strstr(required, "random123"));
	print_message("# Random123/philox.h was not found (Debian: librandom123-dev)\n");
	skip();
#endif
}

/* Opens an OpenCL device; without one the test is skipped with the reason, or fails if the device is required. */
static int opens(struct cg_context **context, struct cg_stream **stream)
{
	const char *required = getenv("CELLGRAD_TEST_REQUIRE");

	if (cg_open("opencl", context)) {
		if (required && strstr(required, "opencl"))
			fail_msg("opencl is required: %s", cg_message());
		print_message("# no OpenCL device: %s\n", cg_message());
		skip();
		return 0;
	}
	assert_int_equal(cg_stream_open(*context, NULL, stream), CG_OK);
	return 1;
}

static void test_opencl(void **nothing)
{
	struct cg_context *context;
	struct cg_stream *stream;

	(void)nothing;
	if (!opens(&context, &stream))
		return;
	rows_try(stream, TRIALS);
	cg_stream_close(stream);
	cg_close(context);
}

static struct cg_cl driver;
static int builds, launches;

static int32_t count_build(struct _cl_program *program, uint32_t n, struct _cl_device_id *const *devices, const char *options,
                           void (*notify)(struct _cl_program *, void *), void *user)
{
	return builds++ ? driver.BuildProgram(program, n, devices, options, notify, user) : CL_OUT_OF_RESOURCES;
}

static int32_t count_launch(struct _cl_command_queue *queue, struct _cl_kernel *kernel, uint32_t dimensions, const size_t *offset,
                            const size_t *global, const size_t *local, uint32_t n, struct _cl_event *const *events,
                            struct _cl_event **event)
{
	launches++;
	return driver.EnqueueNDRangeKernel(queue, kernel, dimensions, offset, global, local, n, events, event);
}

/* A call whose build fails launches nothing, and its message names the kernel; the next call builds the kernel, and later calls build
   nothing; each call that succeeds is one launch. */
static void test_opencl_calls(void **nothing)
{
	struct cg_context *context;
	struct cg_stream *stream;

	(void)nothing;
	if (!opens(&context, &stream))
		return;
	driver = cg_cl;
	cg_cl.BuildProgram = count_build;
	cg_cl.EnqueueNDRangeKernel = count_launch;
	assert_int_not_equal(rows_once(stream, CG_F32), CG_OK);
	assert_non_null(strstr(cg_message(), "cg_rows_f32"));
	assert_int_equal(launches, 0);
	for (int k = 1; k < 4; k++) {
		assert_int_equal(rows_once(stream, CG_F32), CG_OK);
		assert_int_equal(builds, 2);
		assert_int_equal(launches, k);
	}
	cg_cl = driver;
	cg_stream_close(stream);
	cg_close(context);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_random123), cmocka_unit_test(test_cpu), cmocka_unit_test(test_opencl), cmocka_unit_test(test_opencl_calls),
		cmocka_unit_test(test_nothing_left),
	};

	counted_begin();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("rows", tests, NULL, NULL);
}
