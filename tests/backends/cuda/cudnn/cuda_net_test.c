/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests which networks cuDNN computes on the cuda backend, and the reasons why it does not compute others: in the plan's route, and in the
 * message where route cudnn was requested by name; a plan that does not open, since one call of cuDNN or the driver fails, leaves nothing
 * behind.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/help/counted.h"
#include "tests/backends/cuda/cuda_watch.h"

/* Opens a device with cuDNN and returns 1; without a device returns 0, without cuDNN skips the test. */
static int opens_with_cudnn(struct cg_context **context)
{
	if (!opens(context))
		return 0;
	if (dnn.Create)
		return 1;
	cg_close(*context);
	skip();
	return 0;
}

static struct cg_rnn_config network(const char *cell, int dtype)
{
	struct cg_rnn_config c;

	cg_rnn_config_init(&c, sizeof c);
	c.cell = cg_cell_find(cell);
	c.dtype = dtype;
	c.layers = 2;
	c.input = 3;
	c.units = 4;
	return c;
}

static void expect_route(struct cg_context *context, const struct cg_rnn_config *config, const char *route)
{
	struct cg_rnn *rnn;

	if (cg_rnn_open(context, config, &rnn))
		fail_msg("%s", cg_message());
	assert_string_equal(cg_rnn_route(rnn), route);
	cg_rnn_close(rnn);
}

static void refused(struct cg_context *context, const struct cg_rnn_config *config, int code, const char *text)
{
	struct cg_rnn *rnn = (void *)&rnn;

	assert_int_equal(cg_rnn_open(context, config, &rnn), code);
	assert_string_equal(cg_message(), text);
	assert_null(rnn);
}

/* ---- taken ---- */

static void test_networks_of_cudnn(void **state)
{
	static const char *const cells[] = { "lstm", "gru", "rnn_tanh", "rnn_relu" };
	static const int dtypes[] = { CG_F16, CG_F32, CG_F64 };
	struct cg_context *context;
	struct cg_rnn_config c;

	(void)state;
	if (!opens_with_cudnn(&context))
		return;
	for (int k = 0; k < 4; k++)
		for (int d = 0; d < 3; d++)
			for (int bits = 0; bits < 32; bits++) {
				c = network(cells[k], dtypes[d]);
				c.bidirectional = bits & 1;
				c.time_major = bits >> 1 & 1;
				c.training = bits >> 2 & 1;
				c.dropout = bits >> 3 & 1 ? 0.25 : 0;
				c.allow_vendor_dropout = c.dropout > 0 && bits & 1;
				c.input = bits >> 4 & 1 ? 4 : 3;
				c.input_mode = bits >> 4 & 1 ? CG_SKIP : CG_LINEAR;
				c.allow_tf32 = bits & 1;
				c.proj = !k && bits & 1 ? 2 : 0;
				expect_route(context, &c, "cudnn");
				c.route = "cudnn";
				expect_route(context, &c, "cudnn");
				c.route = "composed";
				expect_route(context, &c, "composed");
			}
	cg_close(context);
}

/* ---- declined ---- */

/* Expects the reason in the route of a plan for which no route is named, and in the message if route cudnn is named. */
static void declines(struct cg_context *context, struct cg_rnn_config c, const char *why)
{
	char text[256];

	snprintf(text, sizeof text, "composed (%s: not cudnn)", why);
	expect_route(context, &c, text);
	snprintf(text, sizeof text, "rnn: route: cudnn: %s", why);
	c.route = "cudnn";
	refused(context, &c, CG_UNSUPPORTED, text);
	c.route = "composed";
	expect_route(context, &c, "composed");
}

/* Returns the words `what`, "cuDNN" and the version of the loaded cuDNN, as "bf16 in cuDNN 9.12.0". */
static const char *versioned(const char *what)
{
	static char text[128];

	snprintf(text, sizeof text, "%s cuDNN %d.%d.%d", what, CUDNN_PARTS(cg_cudnn_version()));
	return text;
}

static void test_cells_declined(void **state)
{
	struct cg_context *context;
	struct cg_rnn_config c;
	struct cg_cell *cell;

	(void)state;
	if (!opens_with_cudnn(&context))
		return;
	c = network("lstm", CG_F32);
	c.options = "peephole";
	declines(context, c, "peephole");
	declines(context, network("gru_block", CG_F32), "cell gru_block");
	declines(context, network("lstm_block", CG_F32), "cell lstm_block");
	c = network("lstm", CG_F32);
	c.proj = 4;
	declines(context, c, "projection as wide as the units");
	c = network("rnn_tanh", CG_F32);
	c.input = ((int64_t)1 << 31) + 1;
	c.units = 1;
	declines(context, c, "sizes beyond 2^31");
	/* A user's cell with a built-in cell's name and other equations is declined. */
	assert_int_equal(cg_cell_parse("cell rnn_tanh\ngates a\noutput h\nh = tanh(0.5 * a)\nsave h\n", "x", &cell), CG_OK);
	c = network("lstm", CG_F32);
	c.cell = cell;
	declines(context, c, "cell ./rnn_tanh.cell");
	cg_cell_close(cell);
	cg_close(context);
}

static size_t old(void)
{
	return 91200;
}

/* ---- how they round ---- */

/* With strict_rounding=1 networks in f16 and bf16 take another route than cudnn; networks in f32 and f64 take route cudnn. */
static void test_strict_rounding(void **state)
{
	static const char *const names[] = { [CG_F32] = "f32", [CG_F64] = "f64", [CG_F16] = "f16", [CG_BF16] = "bf16" };
	struct cg_context *context;
	struct cg_rnn_config c;
	char why[64];

	(void)state;
	if (!opens_with_cudnn(&context))
		return;
	for (int dtype = CG_F32; dtype <= CG_BF16; dtype++)
		for (int training = 0; training < 2; training++) {
			c = network("lstm", dtype);
			c.training = training;
			if (dtype != CG_BF16 || cg_cudnn_version() >= 91300)
				expect_route(context, &c, "cudnn");
			c.strict_rounding = 1;
			snprintf(why, sizeof why, "strict_rounding in %s", names[dtype]);
			if (dtype == CG_F16 || dtype == CG_BF16)
				declines(context, c, why);
			else
				expect_route(context, &c, "cudnn");
		}
	cg_close(context);
}

/* The algorithms that were requested of cuDNN, a bit for each. */
static unsigned asked;
static unsigned asking(struct cudnnRNNStruct *rnn, unsigned algorithm, unsigned cell, unsigned bias, unsigned direction, unsigned input,
                       unsigned type, unsigned precision, unsigned math, int32_t input_size, int32_t hidden_size,
                       int32_t projection_size, int32_t layers, struct cudnnDropoutStruct *dropout, uint32_t flags)
{
	asked |= 1u << algorithm;
	return dnn.SetRNNDescriptor_v8(rnn, algorithm, cell, bias, direction, input, type, precision, math, input_size, hidden_size,
	                               projection_size, layers, dropout, flags);
}

/* Persistent algorithms, whose tanh is coarse, are requested for f16, and the small one for f32 where TF32 is allowed. */
static void test_algorithms(void **state)
{
	enum {
		ALONE = 1 << CUDNN_RNN_ALGO_STANDARD, SMALL = ALONE | 1 << CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H,
		ALL = SMALL | 1 << CUDNN_RNN_ALGO_PERSIST_STATIC
	};
	struct cg_context *context;

	(void)state;
	if (!opens_with_cudnn(&context))
		return;
	cg_cudnn.SetRNNDescriptor_v8 = asking;
	for (int dtype = CG_F32; dtype <= CG_F16; dtype++)
		for (int tf32 = 0; tf32 < 2; tf32++) {
			struct cg_rnn_config c = network("lstm", dtype);

			c.allow_tf32 = tf32;
			asked = 0;
			expect_route(context, &c, "cudnn");
			assert_int_equal(asked, dtype == CG_F16 ? ALL : dtype == CG_F32 && tf32 ? SMALL : ALONE);
		}
	forget();
	cg_close(context);
}

/* measured: the algorithm whose memory was queried last, which is the one that a call of the queried sizes uses. */
static struct { struct cudnnRNNStruct *rnn; unsigned algorithm; } described[64];
static int n_described;
static unsigned measured;

static unsigned note_algorithm(struct cudnnRNNStruct *rnn, unsigned algorithm, unsigned cell, unsigned bias, unsigned direction,
                               unsigned input, unsigned type, unsigned precision, unsigned math, int32_t input_size, int32_t hidden_size,
                               int32_t projection_size, int32_t layers, struct cudnnDropoutStruct *dropout, uint32_t flags)
{
	assert_true(n_described < 64);
	described[n_described].rnn = rnn;
	described[n_described++].algorithm = algorithm;
	return dnn.SetRNNDescriptor_v8(rnn, algorithm, cell, bias, direction, input, type, precision, math, input_size, hidden_size,
	                               projection_size, layers, dropout, flags);
}

static unsigned note_measured(struct cudnnContext *handle, struct cudnnRNNStruct *rnn, unsigned mode, struct cudnnRNNDataStruct *x,
                              size_t *work, size_t *reserve)
{
	for (int k = 0; k < n_described; k++)
		if (described[k].rnn == rnn)
			measured = described[k].algorithm;
	return dnn.GetRNNTempSpaceSizes(handle, rnn, mode, x, work, reserve);
}

/* Which algorithm suits which sizes in f16, on a device of many multiprocessors; U: the width of the input, and the number of units. */
static const struct suited {
	const char *arch, *cell;
	int64_t U, B;
	int layers, bidirectional, time_major, ragged;
	unsigned algorithm;
} suited[] = {
	{ "80", "lstm",     512,  8,   1, 0, 1, 0, CUDNN_RNN_ALGO_PERSIST_STATIC },
	{ "80", "lstm",     512,  8,   2, 0, 1, 0, CUDNN_RNN_ALGO_STANDARD },
	{ "80", "gru",      512,  8,   1, 0, 1, 0, CUDNN_RNN_ALGO_STANDARD },
	{ "80", "lstm",     512,  4,   1, 0, 1, 0, CUDNN_RNN_ALGO_STANDARD },
	{ "80", "lstm",     320,  8,   1, 0, 1, 0, CUDNN_RNN_ALGO_STANDARD },
	{ "80", "rnn_relu", 896,  96,  1, 0, 1, 0, CUDNN_RNN_ALGO_STANDARD },
	{ "86", "lstm",     512,  8,   1, 0, 1, 0, CUDNN_RNN_ALGO_STANDARD },
	{ "75", "lstm",     512,  8,   1, 0, 1, 0, CUDNN_RNN_ALGO_STANDARD },
	{ "90", "lstm",     512,  128, 1, 0, 1, 0, CUDNN_RNN_ALGO_PERSIST_STATIC },
	{ "90", "lstm",     512,  136, 1, 0, 1, 0, CUDNN_RNN_ALGO_STANDARD },
	{ "90", "lstm",     512,  12,  1, 0, 1, 0, CUDNN_RNN_ALGO_STANDARD },
	{ "90", "lstm",     512,  5,   1, 0, 1, 0, CUDNN_RNN_ALGO_PERSIST_STATIC },
	{ "90", "lstm",     512,  64,  2, 0, 1, 0, CUDNN_RNN_ALGO_PERSIST_STATIC },
	{ "90", "lstm",     512,  64,  2, 0, 0, 0, CUDNN_RNN_ALGO_PERSIST_STATIC },
	{ "90", "lstm",     512,  64,  2, 0, 1, 1, CUDNN_RNN_ALGO_STANDARD },
	{ "90", "lstm",     544,  40,  1, 1, 1, 0, CUDNN_RNN_ALGO_STANDARD },
	{ "90", "lstm",     320,  16,  1, 1, 1, 0, CUDNN_RNN_ALGO_PERSIST_STATIC },
	{ "90", "lstm",     1280, 16,  1, 0, 1, 0, CUDNN_RNN_ALGO_PERSIST_STATIC },
	{ "90", "lstm",     1280, 24,  1, 0, 1, 0, CUDNN_RNN_ALGO_STANDARD },
	{ "90", "lstm",     128,  16,  1, 0, 1, 0, CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H },
	{ "90", "lstm",     128,  1,   1, 0, 1, 0, CUDNN_RNN_ALGO_PERSIST_STATIC },
	{ "80", "lstm",     128,  1,   1, 0, 1, 0, CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H },
	{ "90", "gru",      128,  1,   1, 0, 1, 0, CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H },
	{ "90", "gru",      512,  16,  2, 1, 1, 0, CUDNN_RNN_ALGO_PERSIST_STATIC },
	{ "90", "gru",      512,  24,  1, 0, 1, 0, CUDNN_RNN_ALGO_STANDARD },
	{ "90", "gru",      256,  16,  1, 0, 1, 0, CUDNN_RNN_ALGO_STANDARD },
	{ "90", "gru",      320,  8,   1, 0, 1, 0, CUDNN_RNN_ALGO_STANDARD },
	{ "90", "rnn_tanh", 512,  64,  2, 0, 1, 0, CUDNN_RNN_ALGO_PERSIST_STATIC },
	{ "90", "rnn_tanh", 256,  64,  2, 0, 0, 0, CUDNN_RNN_ALGO_PERSIST_STATIC_SMALL_H },
	{ "90", "rnn_relu", 896,  96,  1, 0, 1, 0, CUDNN_RNN_ALGO_STANDARD },
	{ "90", "rnn_relu", 896,  88,  1, 0, 1, 0, CUDNN_RNN_ALGO_PERSIST_STATIC },
};

static void test_algorithms_by_sizes(void **state)
{
	(void)state;
	if (!getenv("CELLGRAD_FAKE_CUDA"))
		skip();                          /* the compute capability of a real device cannot be chosen */
	setenv("CELLGRAD_FAKE_MULTIPROCESSORS", "108", 1);
	for (size_t k = 0; k < sizeof suited / sizeof *suited; k++) {
		const struct suited *p = &suited[k];
		struct cg_rnn_config c = network(p->cell, CG_F16);
		struct cg_context *context;
		struct cg_rnn_sizes sizes;
		int32_t lengths[136] = { 1 };
		struct cg_rnn *rnn;

		setenv("CELLGRAD_FAKE_ARCH", p->arch, 1);
		if (!opens_with_cudnn(&context))
			break;
		cg_cudnn.SetRNNDescriptor_v8 = note_algorithm;
		cg_cudnn.GetRNNTempSpaceSizes = note_measured;
		n_described = 0;
		c.layers = p->layers;
		c.bidirectional = p->bidirectional;
		c.time_major = p->time_major;
		c.input = c.units = p->U;
		for (int b = 1; b < 136; b++)
			lengths[b] = 2;
		if (cg_rnn_open(context, &c, &rnn) || cg_rnn_sizes(rnn, 2, p->B, p->ragged ? lengths : NULL, &sizes))
			fail_msg("%s", cg_message());
		if (measured != p->algorithm)
			fail_msg("%s, %s, %d units, %d rows, %d layers: algorithm %u, expected %u", p->arch, p->cell, (int)p->U, (int)p->B, p->layers,
			         measured, p->algorithm);
		cg_rnn_close(rnn);
		forget();
		cg_close(context);
	}
	unsetenv("CELLGRAD_FAKE_ARCH");
	unsetenv("CELLGRAD_FAKE_MULTIPROCESSORS");
}

/* ---- versions ---- */

/* Plays a cuDNN that does not support the algorithms from number `from` on; its arguments are those of SetRNNDescriptor_v8. */
static unsigned from;
static unsigned narrow_minded(struct cudnnRNNStruct *rnn, unsigned algorithm, unsigned cell, unsigned bias, unsigned direction,
                              unsigned input, unsigned type, unsigned precision, unsigned math, int32_t input_size,
                              int32_t hidden_size, int32_t projection_size, int32_t layers, struct cudnnDropoutStruct *dropout,
                              uint32_t flags)
{
	if (algorithm >= from)
		return cg_cudnn_version() < CUDNN_9 ? 9 : 3000;
	return dnn.SetRNNDescriptor_v8(rnn, algorithm, cell, bias, direction, input, type, precision, math, input_size, hidden_size,
	                               projection_size, layers, dropout, flags);
}

static void test_versions_declined(void **state)
{
	struct cg_context *context;
	struct cg_rnn_config c;
	char text[256];

	(void)state;
	if (!opens_with_cudnn(&context))
		return;
	cg_cudnn.GetVersion = old;
	declines(context, network("lstm", CG_BF16), "bf16 in cuDNN 9.12.0");
	cg_cudnn.GetVersion = dnn.GetVersion;
	if (cg_cudnn_version() >= 91300)
		expect_route(context, (c = network("lstm", CG_BF16), &c), "cudnn");

	c = network("gru", CG_F64);
	c.input = 4;
	c.input_mode = CG_SKIP;
	setenv("CELLGRAD_FAKE_CUDNN_SKIP", "1", 1);
	if (getenv("CELLGRAD_FAKE_CUDA"))
		declines(context, c, versioned("input matrices despite skip_input in"));
	unsetenv("CELLGRAD_FAKE_CUDNN_SKIP");
	expect_route(context, &c, "cudnn");

	from = CUDNN_RNN_ALGO_STANDARD;
	cg_cudnn.SetRNNDescriptor_v8 = narrow_minded;
	snprintf(text, sizeof text, "composed (%s: not cudnn)", versioned("refused by"));
	expect_route(context, (c = network("lstm", CG_F32), &c), text);
	c.route = "cudnn";
	assert_int_equal(cg_rnn_open(context, &c, &(struct cg_rnn *){ NULL }), CG_UNSUPPORTED);
	assert_non_null(strstr(cg_message(), "rnn: route: cudnn: cuda: cudnnSetRNNDescriptor_v8: CUDNN_STATUS_NOT_SUPPORTED"));
	/* If cuDNN refuses the persistent algorithms, the plan opens with the standard algorithm. */
	from = CUDNN_RNN_ALGO_PERSIST_STATIC;
	c.allow_tf32 = 1;
	expect_route(context, &c, "cudnn");
	forget();
	cg_close(context);
}

/* ---- opened, with failures ---- */

/* Opens a plan, queries its sizes and closes it, with the n-th call failing (n 0: no call); returns whether there was such a
   call. The first plan of a context leaves a handle of cuDNN for the next plan. */
static int attempt(struct cg_context *context, struct cg_rnn_config c, int is_first, long n)
{
	static const int32_t lengths[] = { 3, 0, 1 };
	struct cg_rnn_sizes sizes;
	struct cg_rnn *rnn = NULL;
	int code, failed;

	forget();
	fatal = n;
	code = cg_rnn_open(context, &c, &rnn);
	if (!code)
		code = cg_rnn_sizes(rnn, 3, 3, lengths, &sizes);
	failed = failed_call != NULL;
	if (failed ? !code || !strstr(cg_message(), failed_call) : code)
		fail_msg("call %ld, %s: got %d, '%s'", n, failed ? failed_call : "none", code, code ? cg_message() : "");
	closing = 1;
	cg_rnn_close(rnn);
	if (balance && !is_first)
		fail_msg("call %ld, %s: %ld more made than given back", n, failed ? failed_call : "none", balance);
	return failed;
}

static void test_open_faults(void **state)
{
	struct cg_context *context;

	(void)state;
	if (!opens_with_cudnn(&context))
		return;
	for (int vendor = 0; vendor < 2; vendor++) {
		struct cg_rnn_config c = network("lstm", CG_F32);
		long n = 1;

		/* In the second round cuDNN is requested by name; in the first round no route is named. */
		c.route = vendor ? "cudnn" : NULL;
		c.dropout = 0.5;
		c.allow_vendor_dropout = vendor;
		expect_route(context, &c, "cudnn");
		while (attempt(context, c, 0, n))
			n++;
		print_message("# %ld calls failed in turn\n", n - 1);
		assert_true(n > 20);
	}
	forget();
	cg_close(context);
}

/* Every call that the first plan of a context makes fails in turn; the context frees the handle of cuDNN, or the stand-ins
   report a leak. */
static void test_first_faults(void **state)
{
	struct cg_rnn_config c = network("gru", CG_F32);
	struct cg_context *context;
	int failed = 1;

	(void)state;
	for (long n = 1; failed; n++) {
		if (!opens_with_cudnn(&context))
			return;
		failed = attempt(context, c, 1, n);
		cg_close(context);
	}
	forget();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_networks_of_cudnn), cmocka_unit_test(test_cells_declined), cmocka_unit_test(test_strict_rounding),
		cmocka_unit_test(test_algorithms), cmocka_unit_test(test_algorithms_by_sizes),
		cmocka_unit_test(test_versions_declined),
		cmocka_unit_test(test_open_faults), cmocka_unit_test(test_first_faults),
		cmocka_unit_test(test_nothing_left),
	};

	counted_begin();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("cuda_net", tests, set_up, NULL);
}
