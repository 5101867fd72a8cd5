/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the opencl backend on other devices, for which the test changes what this machine's device reports or computes: one of a single
 * compute unit, where products of 1 and of 512 rows have different tiles, and devices that compute otherwise than promised, whose
 * descriptions must say so. The test also lets two threads launch at the same time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <cmocka.h>

#include "backends/opencl/library.h"
#include "runtime/device/device.h"
#include "tests/help/counted.h"
#include "tests/help/shorten.h"

static struct cg_cl driver;                      /* the driver's own functions; every test begins with these */

static int set_up(void **state)
{
	(void)state;
	if (!cg_cl_load())
		driver = cg_cl;
	return 0;
}

static int put_back(void **state)
{
	(void)state;
	if (driver.GetPlatformIDs)
		cg_cl = driver;
	return 0;
}

/* Returns 1 if an OpenCL device opens; else the test is skipped with the reason, or fails if opencl is required. */
static int opens(void)
{
	const char *required = getenv("CELLGRAD_TEST_REQUIRE");
	struct cg_context *context;

	if (!cg_open("opencl", &context)) {
		cg_close(context);
		return 1;
	}
	if (required && strstr(required, "opencl"))
		fail_msg("opencl is required: %s", cg_message());
	print_message("# no OpenCL device: %s\n", cg_message());
	skip();
	return 0;
}

/* ---- one compute unit ---- */

static long built;                               /* the number of programs built */
static struct _cl_kernel *first;                 /* the first kernel that was enqueued */

static int32_t one_unit(struct _cl_device_id *id, uint32_t what, size_t most, void *to, size_t *bytes)
{
	int32_t code = driver.GetDeviceInfo(id, what, most, to, bytes);

	if (what == CL_DEVICE_MAX_COMPUTE_UNITS && !code)
		memcpy(to, &(uint32_t){ 1 }, sizeof(uint32_t));
	return code;
}

static int32_t count_program(struct _cl_program *program, uint32_t n, struct _cl_device_id *const *ids, const char *options,
                             void (*notify)(struct _cl_program *, void *), void *user)
{
	built++;
	return driver.BuildProgram(program, n, ids, options, notify, user);
}

static int32_t note_first(struct _cl_command_queue *queue, struct _cl_kernel *kernel, uint32_t dimensions, const size_t *offset,
                          const size_t *global, const size_t *local, uint32_t n, struct _cl_event *const *waits,
                          struct _cl_event **event)
{
	if (!first)
		first = kernel;
	return driver.EnqueueNDRangeKernel(queue, kernel, dimensions, offset, global, local, n, waits, event);
}

/* Sizes for which a device of one compute unit uses different tiles for 1 row and for MOST. */
enum { MOST = 512, WIDE = 24 };

static int step(struct cg_stream *stream, int64_t rows, float out[MOST * WIDE])
{
	static float in[MOST * WIDE], w[(1 + WIDE) * 4 * WIDE];
	struct cg_lstm_block op;

	cg_lstm_block_init(&op, sizeof op);
	op.B = rows, op.I = 1, op.U = WIDE;
	op.x = op.cs_prev = op.h_prev = op.b = (struct cg_mem){ in, 0, sizeof in, CG_HOST };
	op.w = (struct cg_mem){ w, 0, sizeof w, CG_HOST };
	op.h = (struct cg_mem){ out, 0, MOST * WIDE * sizeof *out, CG_HOST };
	shorten(cg_op_find("lstm_block_cell", NULL), &op);
	return cg_lstm_block_forward(stream, &op);
}

/* Returns the kernel of the first product of a step with `rows` rows. */
static struct _cl_kernel *product_of(struct cg_stream *stream, int64_t rows)
{
	static float out[MOST * WIDE];

	first = NULL;
	assert_int_equal(step(stream, rows, out), CG_OK);
	assert_non_null(first);
	return first;
}

/* A product that another tile suits builds nothing: all tiles were built with the first product. */
static void test_tiles(void **state)
{
	struct cg_context *context;
	struct cg_stream *stream;
	struct _cl_kernel *few;

	(void)state;
	if (!opens())
		return;
	cg_cl.GetDeviceInfo = one_unit;
	cg_cl.BuildProgram = count_program;
	cg_cl.EnqueueNDRangeKernel = note_first;
	assert_int_equal(cg_open("opencl", &context), CG_OK);
	assert_int_equal(cg_stream_open(context, NULL, &stream), CG_OK);
	built = 0;
	few = product_of(stream, 1);
	assert_true(built > 0);
	built = 0;
	assert_ptr_not_equal(product_of(stream, 512), few);
	assert_ptr_equal(product_of(stream, 1), few);
	assert_int_equal(built, 0);
	cg_stream_close(stream);
	cg_close(context);
}

/* ---- two queues ---- */

static struct { pthread_mutex_t lock; pthread_cond_t change; int there, alone; } meeting = {
	.lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER
};

/* Stands in place of clEnqueueNDRangeKernel: waits, at most ten seconds, until a second thread launches, too, and then calls the
   driver's. */
static int32_t meet(struct _cl_command_queue *queue, struct _cl_kernel *kernel, uint32_t dimensions, const size_t *offset,
                    const size_t *global, const size_t *local, uint32_t n, struct _cl_event *const *waits, struct _cl_event **event)
{
	struct timespec end;
	int late = 0;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += 10;
	pthread_mutex_lock(&meeting.lock);
	meeting.there++;
	pthread_cond_broadcast(&meeting.change);
	while (meeting.there < 2 && !late)
		late = pthread_cond_timedwait(&meeting.change, &meeting.lock, &end);
	meeting.alone |= late;
	pthread_mutex_unlock(&meeting.lock);
	return driver.EnqueueNDRangeKernel(queue, kernel, dimensions, offset, global, local, n, waits, event);
}

struct caller { struct cg_stream *stream; int code; float out[MOST * WIDE]; };

static void *call(void *given)
{
	struct caller *c = given;

	c->code = step(c->stream, 2, c->out);
	return NULL;
}

/* Streams of two threads launch at the same time. */
static void test_queues(void **state)
{
	static struct caller callers[2];
	struct cg_context *context;
	pthread_t threads[2];

	(void)state;
	if (!opens())
		return;
	assert_int_equal(cg_open("opencl", &context), CG_OK);
	for (int k = 0; k < 2; k++) {
		assert_int_equal(cg_stream_open(context, NULL, &callers[k].stream), CG_OK);
		call(&callers[k]);
		assert_int_equal(callers[k].code, CG_OK);
	}
	cg_cl.EnqueueNDRangeKernel = meet;
	for (int k = 0; k < 2; k++)
		assert_int_equal(pthread_create(&threads[k], NULL, call, &callers[k]), 0);
	for (int k = 0; k < 2; k++) {
		assert_int_equal(pthread_join(threads[k], NULL), 0);
		assert_int_equal(callers[k].code, CG_OK);
		cg_stream_close(callers[k].stream);
	}
	assert_false(meeting.alone);
	cg_close(context);
}

/* ---- other arithmetic ---- */

/* Expressions of the probe's text, the expressions that replace them, and what the device's description then says. */
static const struct lie { const char *of, *is, *text; } lies[] = {
	{ "fma(x[k], x[k + 1], x[k + 2])", "x[k] * x[k + 1] + x[k + 2]", "fma rounds twice" },
	{ "fma(x[k], x[k + 1], x[k + 2])", "(x[k + 2] == 0 ? x[k] * x[k + 1] : fma(x[k], x[k + 1], x[k + 2]))", "zeros lose their signs" },
	{ "x[k] * x[k + 1] + x[k + 2]", "fma(x[k], x[k + 1], x[k + 2])", "the compiler fuses products and sums unasked" },
	{ "x[k] + 0", "x[k]", "zeros lose their signs" },
};
static const struct lie *active_lie;
static long tellings;

static struct _cl_program *create_program(struct _cl_context *context, uint32_t n, const char **texts, const size_t *lengths, int32_t *error)
{
	const char *at = strstr(texts[0], active_lie->of), *text;
	char changed[4096];

	if (!at)
		return driver.CreateProgramWithSource(context, n, texts, lengths, error);
	tellings++;
	snprintf(changed, sizeof changed, "%.*s%s%s", (int)(at - texts[0]), texts[0], active_lie->is, at + strlen(active_lie->of));
	text = changed;
	return driver.CreateProgramWithSource(context, 1, &text, NULL, error);
}

static int32_t keep_subnormals(struct _cl_program *program, uint32_t n, struct _cl_device_id *const *ids, const char *options,
                               void (*notify)(struct _cl_program *, void *), void *user)
{
	(void)options;
	return driver.BuildProgram(program, n, ids, "-cl-std=CL1.2", notify, user);
}

static void expect_described(const char *text)
{
	struct cg_context *context;
	const char *about;

	assert_int_equal(cg_open("opencl", &context), CG_OK);
	about = cg_describe(context);
	if (!strstr(about, text) || !strstr(about, "within the error bound, but not the same bits"))
		fail_msg("expected '%s' in '%s'", text, about);
	cg_close(context);
}

static void test_otherwise(void **state)
{
	(void)state;
	if (!opens())
		return;
	cg_cl.CreateProgramWithSource = create_program;
	for (active_lie = lies; active_lie < lies + sizeof lies / sizeof *lies; active_lie++) {
		tellings = 0;
		expect_described(active_lie->text);
		assert_true(tellings > 0);
	}
	cg_cl.CreateProgramWithSource = driver.CreateProgramWithSource;
	cg_cl.BuildProgram = keep_subnormals;
	expect_described("the device does not flush subnormal numbers");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(test_tiles, put_back), cmocka_unit_test_teardown(test_queues, put_back),
		cmocka_unit_test_teardown(test_otherwise, put_back),
		cmocka_unit_test(test_nothing_left),
	};

	counted_begin();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("opencl devices", tests, set_up, NULL);
}
