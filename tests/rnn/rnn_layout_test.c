/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the rows of a call's sequences lie in memory: strides and packed sequences. The conformance suite tests the values; this file tests
 * what may lie between rows, which layouts give equal bits, and what is rejected.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "runtime/cellgrad.h"
#include "tests/help/counted.h"
#include "tests/help/small_net.h"

enum { T = 3, B = 2, I = 3, U = 4, SEQUENCE = T * B * I, OUT = T * B * U };

static struct cg_context *context;
static struct cg_stream *stream, *other;

static struct cg_mem host(void *data, size_t bytes)
{
	return (struct cg_mem){ .data = data, .bytes = bytes };
}

/* Runs both passes and returns a checksum of params_backprop and the final states. */
static uint64_t run(struct net *n)
{
	uint64_t sum = 14695981039346656037u;
	const struct cg_mem *all[] = { &n->call.output_h, &n->call.output_c, &n->call.params_backprop };

	n->call.accumulate = 0;
	if (net_forward(n) || net_backward(n))
		fail_msg("%s", cg_message());
	for (size_t k = 0; k < sizeof all / sizeof *all; k++)
		for (size_t i = 0; i < all[k]->bytes; i++)
			sum = (sum ^ ((unsigned char *)all[k]->data + all[k]->offset)[i]) * 1099511628211u;
	return sum;
}

static void open_net(struct net *n)
{
	net_begin(n, context, stream);
	assert_int_equal(net_open(n), CG_OK);
	net_free(n, &n->call.work);
}

static void fill(float *to, const struct cg_mem *from, int64_t width, int64_t t_stride, int64_t b_stride)
{
	const float *rows = (const float *)(const void *)((char *)from->data + from->offset);

	for (int64_t t = 0; t < T; t++)
		for (int64_t b = 0; b < B; b++)
			memcpy(to + t * t_stride + b * b_stride, rows + (t * B + b) * width, (size_t)width * sizeof *to);
}

/* ---- strides ---- */

/* x and its gradient share one buffer: side by side at each step, or, for each row of the batch, all steps of x before all steps of its
   gradient; and so do y and its gradient. */
struct between { int64_t t_stride, b_stride, apart; };

static void try_between(const struct net *dense, struct between rows_of_x, struct between rows_of_y, uint64_t sum)
{
	float x[2 * SEQUENCE], y[2 * OUT];
	const float *dense_y = (const float *)dense->call.output.data, *dense_dx = (const float *)dense->call.input_backprop.data;
	struct net n = *dense;

	n.call.input_t_stride = rows_of_x.t_stride;
	n.call.input_b_stride = rows_of_x.b_stride;
	n.call.output_t_stride = rows_of_y.t_stride;
	n.call.output_b_stride = rows_of_y.b_stride;
	fill(x, &dense->call.input, I, rows_of_x.t_stride, rows_of_x.b_stride);
	fill(y + rows_of_y.apart, &dense->call.output_backprop, U, rows_of_y.t_stride, rows_of_y.b_stride);
	n.call.input = host(x, (size_t)(2 * SEQUENCE - rows_of_x.apart) * sizeof *x);
	n.call.input_backprop = host(x + rows_of_x.apart, n.call.input.bytes);
	n.call.output = host(y, (size_t)(2 * OUT - rows_of_y.apart) * sizeof *y);
	n.call.output_backprop = host(y + rows_of_y.apart, n.call.output.bytes);
	assert_true(run(&n) == sum);
	for (int t = 0; t < T; t++)
		for (int b = 0; b < B; b++) {
			assert_memory_equal(y + t * rows_of_y.t_stride + b * rows_of_y.b_stride, dense_y + (t * B + b) * U, U * sizeof *y);
			assert_memory_equal(x + rows_of_x.apart + t * rows_of_x.t_stride + b * rows_of_x.b_stride, dense_dx + (t * B + b) * I,
			                    I * sizeof *x);
		}
	/* Moved by one element, the gradient of x overlaps x. */
	n.call.input_backprop = host(x + rows_of_x.apart - 1, n.call.input.bytes);
	assert_int_equal(net_forward(&n), CG_OK);
	assert_int_equal(net_backward(&n), CG_BAD_ARGUMENT);
	assert_non_null(strstr(cg_message(), "rnn_backprop: input_backprop: the range of its memory overlaps that of input by "));
}

static void test_between_rows(void **state)
{
	static const struct between x[] = { { B * 2 * I, 2 * I, I }, { I, 2 * T * I, T * I } };
	static const struct between y[] = { { U, 2 * T * U, T * U }, { B * 2 * U, 2 * U, U } };
	struct net dense;
	uint64_t sum;

	(void)state;
	open_net(&dense);
	sum = run(&dense);
	for (int k = 0; k < 2; k++)
		try_between(&dense, x[k], y[k], sum);
	net_close(&dense);
}

/* If the batch has one row, the strides from row to row change no size of the call, and both passes succeed with them. */
static void test_strides_of_nothing(void **state)
{
	struct cg_rnn_sizes sizes, with;
	struct net n;

	(void)state;
	net_begin(&n, context, stream);
	n.call.B = 1;
	n.config.time_major = 0;
	assert_int_equal(net_open(&n), CG_OK);
	assert_int_equal(cg_rnn_sizes(n.rnn, T, 1, NULL, &sizes), CG_OK);
	n.call.input_b_stride = 1;
	n.call.output_b_stride = 12345;
	assert_int_equal(cg_rnn_call_sizes(n.rnn, &n.call, &with), CG_OK);
	assert_memory_equal(&sizes, &with, sizeof sizes);
	assert_int_equal(net_forward(&n), CG_OK);
	assert_int_equal(net_backward(&n), CG_OK);
	net_close(&n);
}

/* ---- packed sequences ---- */

/* A packed sequence has the bits of the padded sequence with its lengths. */
static void test_packed_is_padded(void **state)
{
	static const int32_t lengths[B] = { 3, 1 }, batch_sizes[T] = { 2, 1, 1 };
	float x[4 * I], y[4 * U], dx[4 * I], dy[4 * U];
	struct net n, padded;
	uint64_t sum;

	(void)state;
	open_net(&padded);
	padded.call.lengths = lengths;
	sum = run(&padded);
	n = padded;
	n.call.lengths = NULL;
	n.call.batch_sizes = batch_sizes;
	for (int k = 0, t = 0; t < T; t++)
		for (int b = 0; b < batch_sizes[t]; b++, k++) {
			memcpy(x + k * I, (float *)padded.call.input.data + (t * B + b) * I, I * sizeof *x);
			memcpy(dy + k * U, (float *)padded.call.output_backprop.data + (t * B + b) * U, U * sizeof *y);
		}
	n.call.input = host(x, sizeof x);
	n.call.output = host(y, sizeof y);
	n.call.input_backprop = host(dx, sizeof dx);
	n.call.output_backprop = host(dy, sizeof dy);
	assert_true(run(&n) == sum);
	for (int k = 0, t = 0; t < T; t++)
		for (int b = 0; b < batch_sizes[t]; b++, k++) {
			assert_memory_equal(y + k * U, (float *)padded.call.output.data + (t * B + b) * U, U * sizeof *y);
			assert_memory_equal(dx + k * I, (float *)padded.call.input_backprop.data + (t * B + b) * I, I * sizeof *x);
		}
	n.call.input.bytes -= sizeof *x;
	assert_int_equal(net_forward(&n), CG_BAD_ARGUMENT);
	assert_string_equal(cg_message(), "rnn: input: expected [N=4, I=3] f32, 48 bytes, got 44 bytes");
	net_close(&padded);
}

/* Runs packed sequences one after the other on one stream: each has the bits of the padded sequence, so no call uses the index of a call
   with other batch sizes. */
static void test_packed_after_packed(void **state)
{
	enum { ROWS = 3 };
	static const int32_t sizes[][T] = { { 3, 1, 1 }, { 2, 2, 1 }, { 2, 2, 1 }, { 3, 2, 0 }, { 1, 1, 1 }, { 3, 3, 3 }, { 0, 0, 0 } };
	float x[T * ROWS * I], y[T * ROWS * U], dx[T * ROWS * I], dy[T * ROWS * U];
	struct net n;

	(void)state;
	net_begin(&n, context, stream);
	n.call.B = ROWS;
	assert_int_equal(net_open(&n), CG_OK);
	net_free(&n, &n.call.work);
	for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
		int32_t lengths[ROWS] = { 0 };
		struct net padded = n, packed = n;
		size_t steps = 0;
		for (int t = 0; t < T; t++)
			for (int b = 0; b < sizes[k][t]; b++, steps++) {
				lengths[b]++;
				memcpy(x + steps * I, (float *)n.call.input.data + (t * ROWS + b) * I, I * sizeof *x);
				memcpy(dy + steps * U, (float *)n.call.output_backprop.data + (t * ROWS + b) * U, U * sizeof *y);
			}
		packed.call.batch_sizes = sizes[k];
		packed.call.input = host(x, steps * I * sizeof *x);
		packed.call.output = host(y, steps * U * sizeof *x);
		packed.call.input_backprop = host(dx, steps * I * sizeof *x);
		packed.call.output_backprop = host(dy, steps * U * sizeof *x);
		padded.call.lengths = lengths;
		/* The padded sequence runs on another stream, so that this one keeps the index of the packed sequence. */
		padded.stream = other;
		assert_true(run(&packed) == run(&padded));
	}
	net_close(&n);
}

/* ---- refusals ---- */

static struct net whole;

static void refused(int line, const struct cg_rnn_call *call, const char *message)
{
	struct cg_rnn_sizes sizes;
	struct net n = whole;

	n.call = *call;
	_assert_int_equal((LargestIntegralType)net_forward(&n), (LargestIntegralType)CG_BAD_ARGUMENT, __FILE__, line);
	_assert_string_equal(cg_message(), message, __FILE__, line);
	/* cg_rnn_call_sizes also rejects the call, unless only the memory of an argument is wrong. */
	if (!strstr(message, "rnn: input: ") && !strstr(message, "rnn: output: "))
		_assert_int_equal((LargestIntegralType)cg_rnn_call_sizes(n.rnn, call, &sizes), (LargestIntegralType)CG_BAD_ARGUMENT, __FILE__, line);
}
#define REFUSED(field, value, message) do { \
	struct cg_rnn_call spoilt = whole.call; \
	spoilt.field = value; \
	refused(__LINE__, &spoilt, message); \
} while (0)

static void test_refusals(void **state)
{
	static const int32_t more[T] = { 2, 1, 2 }, many[T] = { 3, 1, 1 }, few[T] = { 1, 1, -1 }, good[T] = { 2, 1, 1 };
	struct cg_rnn_sizes sizes;
	struct cg_rnn_call call;

	(void)state;
	open_net(&whole);
	REFUSED(input_t_stride, -1, "rnn: input_t_stride: expected at least 0, got -1");
	REFUSED(output_b_stride, INT64_MIN, "rnn: output_b_stride: expected at least 0, got -9223372036854775808");
	REFUSED(input_b_stride, INT64_MAX, "rnn: input_t_stride=0, input_b_stride=9223372036854775807: a sequence of these strides has too "
	        "many bytes");
	REFUSED(output_t_stride, INT64_MAX / 8, "rnn: output_t_stride=1152921504606846975, output_b_stride=0: a sequence of these strides has "
	        "too many bytes");
	REFUSED(input_t_stride, 7, "rnn: input: expected [T=3, B=2, I=3] of strides 7 and 3 f32, 80 bytes, got 72 bytes");
	REFUSED(batch_sizes, more, "rnn: batch_sizes[2]: expected 0 to the batch size of the step before, 1, got 2");
	REFUSED(batch_sizes, many, "rnn: batch_sizes[0]: expected 0 to B=2, got 3");
	REFUSED(batch_sizes, few, "rnn: batch_sizes[2]: expected 0 to the batch size of the step before, 1, got -1");
	call = whole.call;
	call.batch_sizes = good;
	call.lengths = good;
	refused(__LINE__, &call, "rnn: batch_sizes: expected NULL where lengths are given, got both");
	call.lengths = NULL;
	call.output_b_stride = 4;
	refused(__LINE__, &call, "rnn: batch_sizes: expected all strides of input and output to be 0, since a packed sequence is dense");
	call = whole.call;
	call.output_t_stride = 4;
	call.output.bytes = 16 * sizeof(float);
	refused(__LINE__, &call, "rnn: output: its rows overlap: expected one stride of at least 4, the width of a row, and another of at "
	        "least 8, the span of the rows "
	        "with the first stride, got strides of 4 and 4");
	/* Rows that are only read may overlap, as a sliding window does. */
	call = whole.call;
	call.input_t_stride = 1;
	call.input_b_stride = 6;
	call.input.bytes = (6 + 2 + 3) * sizeof(float);
	assert_int_equal(cg_rnn_forward(stream, whole.rnn, &call), CG_OK);
	assert_int_equal(cg_rnn_call_sizes(NULL, &call, &sizes), CG_BAD_ARGUMENT);
	assert_string_equal(cg_message(), "cg_rnn_call_sizes: rnn: expected a pointer, got NULL");
	assert_int_equal(cg_rnn_call_sizes(whole.rnn, &call, NULL), CG_BAD_ARGUMENT);
	assert_int_equal(cg_rnn_call_sizes(whole.rnn, NULL, &sizes), CG_BAD_ARGUMENT);
	assert_string_equal(cg_message(), "cg_rnn_call_sizes: expected a struct cg_rnn_call, got NULL");
	/* The struct cg_rnn_call of an earlier header ends before the strides: the library does not read them in such a struct. */
	call.input_t_stride = -1;
	call.size = offsetof(struct cg_rnn_call, no_dropout);
	assert_int_equal(cg_rnn_call_sizes(whole.rnn, &call, &sizes), CG_OK);
	net_close(&whole);
}

static int open_stream(void **state)
{
	(void)state;
	return cg_open("cpu", &context) || cg_stream_open(context, NULL, &stream) || cg_stream_open(context, NULL, &other);
}

static int close_stream(void **state)
{
	(void)state;
	cg_stream_close(stream);
	cg_stream_close(other);
	cg_close(context);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_between_rows), cmocka_unit_test(test_strides_of_nothing), cmocka_unit_test(test_packed_is_padded),
		cmocka_unit_test(test_packed_after_packed), cmocka_unit_test(test_refusals),
		cmocka_unit_test_setup(test_nothing_left, close_stream),
	};

	counted_begin();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("rnn_layout", tests, open_stream, NULL);
}
