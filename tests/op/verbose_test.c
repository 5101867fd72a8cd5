/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CELLGRAD_VERBOSE: its allowed values, silence without it, and for each call a line, with a command of cellgrad that repeats the call if
 * its arguments can be read.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "runtime/op/op.h"
#include "runtime/core/core.h"
#include "tests/help/counted.h"
#include "tests/help/small_net.h"
#include "tests/help/shorten.h"

enum { T = 3, B = 2, I = 3, U = 4, BYTES = 1024, PORTS = 40, THREADS = 8, TIMES = 25, TEXT = 1 << 17 };

static char output[TEXT];
static int kept = -1;
static FILE *file;

/* Records standard error from here on. */
static void listen(void)
{
	fflush(stderr);
	file = tmpfile();
	assert_non_null(file);
	kept = dup(2);
	assert_true(kept >= 0 && dup2(fileno(file), 2) == 2);
}

/* Restores standard error; `output` gets what was recorded. */
static void stop(void)
{
	size_t n;

	fflush(stderr);
	assert_true(dup2(kept, 2) == 2);
	close(kept);
	rewind(file);
	n = fread(output, 1, sizeof output - 1, file);
	output[n] = '\0';
	fclose(file);
}

static void open_as(const char *value, struct cg_context **context, struct cg_stream **stream)
{
	assert_int_equal(value ? setenv("CELLGRAD_VERBOSE", value, 1) : unsetenv("CELLGRAD_VERBOSE"), 0);
	assert_int_equal(cg_open("cpu", context), CG_OK);
	assert_int_equal(cg_stream_open(*context, NULL, stream), CG_OK);
}

static void close_both(struct cg_context *context, struct cg_stream *stream)
{
	cg_stream_close(stream);
	cg_close(context);
}

union args { struct cg_lstm_block lstm; struct cg_gru_block gru; char bytes[4096]; };
static _Alignas(64) char arena[THREADS][PORTS][BYTES];

/* Sets every argument of the op, with TensorFlow's outputs alone (theirs: 1) or with the library's own as well. */
static void fill(const struct cg_op *row, union args *a, int theirs, int which)
{
	int n = 0;

	memset(a, 0, sizeof *a);
	row->init(a, row->size);
	for (const struct cg_dim *d = row->dims; d->symbol; d++)
		if (!d->only)
			*(int64_t *)(a->bytes + d->at) = *d->symbol == 'T' ? T : *d->symbol == 'B' ? B : *d->symbol == 'I' ? I : U;
	for (const struct cg_port *p = row->ports; p->name; p++)
		if (!(p->extra && theirs))
			*(struct cg_mem *)(a->bytes + p->at) = (struct cg_mem){ arena[which][n++], 0, BYTES, CG_HOST };
	assert_true(n <= PORTS);
	shorten(row, a);
}

#define EXPECT_OUTPUT(text) do { \
	if (!strstr(output, text)) \
		fail_msg("expected \"%s\" in \"%s\"", text, output); \
} while (0)

static int lines(void)
{
	int n = 0;

	for (const char *at = output; *at; at++)
		n += *at == '\n';
	return n;
}

static void test_values(void **state)
{
	static const char *const silent[] = { NULL, "", "0", "none" }, *const loud[] = { "1", "calls" };
	static const char *const wrong[] = { "2", "yes", "call", "1 ", "all" };
	const struct cg_op *row = cg_op_find("gru_block_cell", NULL);
	struct cg_context *context;
	struct cg_stream *stream;
	union args a;

	(void)state;
	fill(row, &a, 1, 0);
	for (int k = 0; k < 6; k++) {
		open_as(k < 4 ? silent[k] : loud[k - 4], &context, &stream);
		listen();
		assert_int_equal(row->call(stream, &a), CG_OK);
		stop();
		assert_int_equal(lines(), k < 4 ? 0 : 1);
		assert_int_equal(!output[0], k < 4);
		close_both(context, stream);
	}
	for (int k = 0; k < 5; k++) {
		assert_int_equal(setenv("CELLGRAD_VERBOSE", wrong[k], 1), 0);
		/* named 1: cg_open gets the name cpu; named 0: cg_open looks for the first backend that opens. */
		for (int named = 0; named < 2; named++) {
			context = (void *)&context;
			assert_int_equal(cg_open(named ? "cpu" : NULL, &context), CG_BAD_ARGUMENT);
			assert_null(context);
			snprintf(output, sizeof output, "CELLGRAD_VERBOSE: expected 0, none, 1 or calls, got '%s'", wrong[k]);
			assert_ptr_equal(strstr(cg_message(), output), cg_message());
		}
	}
}

/* cg_open() reads CELLGRAD_VERBOSE; a later change of this variable has no effect on the context. */
static void test_read_at_open(void **state)
{
	const struct cg_op *row = cg_op_find("gru_block_cell", NULL);
	struct cg_context *context;
	struct cg_stream *stream;
	union args a;

	(void)state;
	fill(row, &a, 1, 0);
	open_as("none", &context, &stream);
	assert_int_equal(setenv("CELLGRAD_VERBOSE", "1", 1), 0);
	listen();
	assert_int_equal(row->call(stream, &a), CG_OK);
	stop();
	assert_string_equal(output, "");
	close_both(context, stream);
}

static void test_ops(void **state)
{
	struct cg_context *context;
	struct cg_stream *stream;

	(void)state;
	open_as("calls", &context, &stream);
	for (const struct cg_op *row = NULL; (row = cg_op_next(row));)
		for (int theirs = 0; theirs < 2; theirs++) {
			char text[256];
			int extras = 0;
			double ms;
			union args a;

			if (row->plan) {
				print_message("left out, for its plan: %s\n", row->name);
				break;
			}
			for (const struct cg_port *p = row->ports; p->name; p++)
				extras |= p->extra;
			fill(row, &a, theirs, 0);
			listen();
			assert_int_equal(row->call(stream, &a), CG_OK);
			stop();
			snprintf(text, sizeof text, "cellgrad bench --op %s%s --B 2 --I 3 --H 4 --dtype f32",
			         theirs || !extras ? row->tensorflow : row->name, strstr(row->name, "block_lstm") ? " --T 3" : "");
			assert_memory_equal(output, text, strlen(text));
			assert_int_equal(lines(), 1);
			assert_int_equal(sscanf(strstr(output, "# cpu; "), "# cpu; %lf ms;", &ms), 1);
			assert_true(ms > 0 && ms < 60e3);
			EXPECT_OUTPUT(" ms; kernels ");
			assert_null(strchr(output, '('));
		}
	close_both(context, stream);
}

/* Attributes with their default values are not printed, except those that TensorFlow requires. */
static void test_attributes(void **state)
{
	const struct cg_op *row = cg_op_find("lstm_block_cell", NULL), *grad = cg_op_find("lstm_block_cell_grad", NULL);
	struct cg_context *context;
	struct cg_stream *stream;
	union args a;

	(void)state;
	open_as("1", &context, &stream);
	fill(row, &a, 1, 0);
	listen();
	assert_int_equal(row->call(stream, &a), CG_OK);
	a.lstm.forget_bias = 0.1;
	a.lstm.cell_clip = 0.30000000000000004;
	a.lstm.use_peephole = 1;
	a.lstm.dtype = CG_BF16;
	shorten(row, &a);
	assert_int_equal(row->call(stream, &a), CG_OK);
	fill(grad, &a, 1, 0);
	assert_int_equal(grad->call(stream, &a), CG_OK);
	stop();
	assert_int_equal(lines(), 3);
	EXPECT_OUTPUT("--dtype f32 # cpu");
	EXPECT_OUTPUT("--dtype bf16 forget_bias=0.1 cell_clip=0.30000000000000004 use_peephole=true # cpu");
	EXPECT_OUTPUT("--op LSTMBlockCellGrad --B 2 --I 3 --H 4 --dtype f32 use_peephole=false # cpu");
	close_both(context, stream);
}

/* Settings and absent outputs that differ from those of `cellgrad bench` are printed in words, as a note. */
static void test_notes(void **state)
{
	const struct cg_op *grad = cg_op_find("lstm_block_cell_grad", NULL);
	struct cg_context *context;
	struct cg_stream *stream;
	union args a;

	(void)state;
	open_as("1", &context, &stream);
	fill(grad, &a, 0, 0);
	listen();
	assert_int_equal(grad->call(stream, &a), CG_OK);
	stop();
	assert_null(strstr(output, "without"));
	memset(&a.lstm.dgates, 0, sizeof a.lstm.dgates);
	memset(&a.lstm.w_grad, 0, sizeof a.lstm.w_grad);
	a.lstm.accumulate = 1;
	a.lstm.gates = CG_IFCO;
	listen();
	assert_int_equal(grad->call(stream, &a), CG_OK);
	stop();
	EXPECT_OUTPUT("; accumulate; gates CG_IFCO; without dicfo w_grad\n");
	close_both(context, stream);
}

/* The line of a sequence names LSTMBlockCell if the sequence has one step, which seq_len_max includes; if not, BlockLSTMV2 where that op
   can express the call, else BlockLSTM. */
static void test_sequences(void **state)
{
	const struct cg_op *row = cg_op_find("block_lstm", NULL);
	struct cg_context *context;
	struct cg_stream *stream;
	union args a;

	(void)state;
	open_as("1", &context, &stream);
	fill(row, &a, 1, 0);
	listen();
	a.lstm.seq_len_max = 2;
	assert_int_equal(row->call(stream, &a), CG_OK);
	a.lstm.gates = CG_IFCO;
	assert_int_equal(row->call(stream, &a), CG_OK);
	a.lstm.forget_bias = a.lstm.cell_clip = 0;
	assert_int_equal(row->call(stream, &a), CG_OK);
	a.lstm.T = 1;
	a.lstm.seq_len_max = -1;
	shorten(row, &a);
	assert_int_equal(row->call(stream, &a), CG_OK);
	a.lstm.seq_len_max = 0;
	assert_int_equal(row->call(stream, &a), CG_OK);
	stop();
	assert_int_equal(lines(), 5);
	EXPECT_OUTPUT("--op BlockLSTM --T 3 --B 2 --I 3 --H 4 --dtype f32 seq_len_max=2 # cpu");
	EXPECT_OUTPUT("; gates CG_IFCO\n");
	EXPECT_OUTPUT("--op BlockLSTMV2 --T 3 --B 2 --I 3 --H 4 --dtype f32 seq_len_max=2 # cpu");
	EXPECT_OUTPUT("--op LSTMBlockCell --B 2 --I 3 --H 4 --dtype f32 forget_bias=0 cell_clip=0 # cpu");
	EXPECT_OUTPUT("--op BlockLSTMV2 --T 1 --B 2 --I 3 --H 4 --dtype f32 seq_len_max=0 # cpu");
	close_both(context, stream);
}

static void test_failures(void **state)
{
	const struct cg_op *row = cg_op_find("lstm_block_cell", NULL);
	struct cg_context *context;
	struct cg_stream *stream;
	union args a;
	char text[256];

	(void)state;
	open_as("1", &context, &stream);
	fill(row, &a, 1, 0);
	a.lstm.B = -1;
	listen();
	assert_int_equal(row->call(stream, &a), CG_BAD_ARGUMENT);
	stop();
	assert_memory_equal(output, "cellgrad bench --op LSTMBlockCell --B -1 --I 3", 46);
	EXPECT_OUTPUT("; CG_BAD_ARGUMENT: lstm_block_cell: B: expected at least 0, got -1\n");
	assert_string_equal(cg_message(), "lstm_block_cell: B: expected at least 0, got -1");

	fill(row, &a, 1, 0);
	a.lstm.T = 7;
	a.lstm.dtype = 9;
	listen();
	assert_int_equal(row->call(stream, &a), CG_BAD_ARGUMENT);
	stop();
	EXPECT_OUTPUT("--T 7 --B 2 --I 3 --H 4 --dtype 9 # cpu");

	/* The line of a call whose struct is NULL or was not initialised has no arguments: the struct's fields are not read. */
	listen();
	assert_int_equal(row->call(stream, NULL), CG_BAD_ARGUMENT);
	a.lstm.size = 8;
	assert_int_equal(row->call(stream, &a), CG_BAD_ARGUMENT);
	stop();
	assert_int_equal(lines(), 2);
	assert_memory_equal(output, "# lstm_block_cell # cpu; ", 25);
	assert_memory_equal(strchr(output, '\n') + 1, "# lstm_block_cell # cpu; ", 25);
	snprintf(text, sizeof text, "size: expected %zu, got 8", sizeof a.lstm);
	EXPECT_OUTPUT(text);
	close_both(context, stream);
	assert_int_equal(row->call(NULL, &a), CG_BAD_ARGUMENT);
}

static void run_kernel(struct cg_stream *stream, const struct cg_cell *cell, const char *options, int n, int code)
{
	struct cg_kernel kernel = { cell, options, 1, CG_FORWARD, CG_F32, CG_POINT };
	struct cg_arg args[32];
	static const char *const names[] = { "a", "h_prev", "p", "h" };

	for (int k = 0; k < n; k++)
		args[k] = (struct cg_arg){ names[k], { arena[0][k], 0, BYTES, CG_HOST }, U, 0 };
	listen();
	assert_int_equal(cg_kernel_run(stream, &kernel, B, U, args, n), code);
	stop();
	assert_int_equal(lines(), 1);
}

static void test_kernels(void **state)
{
	static const char text[] = "cell mine\ngates a\noutput h\noption peephole p\nh = tanh(a + p * h_prev)\n";
	struct cg_context *context;
	struct cg_stream *stream;
	struct cg_cell *cell;

	(void)state;
	open_as("1", &context, &stream);
	assert_int_equal(cg_cell_parse(text, "mine.cell", &cell), CG_OK);
	run_kernel(stream, cell, "peephole", 4, CG_OK);
	EXPECT_OUTPUT("cellgrad emit ./mine.cell --options peephole --stage 1 --pass forward --dtype f32 # cpu; ");
	EXPECT_OUTPUT("; point [2, 4]\n");
	run_kernel(stream, cg_cell_find("rnn_tanh"), NULL, 2, CG_BAD_ARGUMENT);
	assert_memory_equal(output, "cellgrad emit rnn_tanh --stage 1 --pass forward --dtype f32 # cpu; ", 66);
	EXPECT_OUTPUT("; CG_BAD_ARGUMENT: cg_kernel_run: ");
	/* Options that the cell lacks are printed only in the line's comment, behind its #, and cannot end the line. */
	run_kernel(stream, cell, "\"; $(reboot)\nreboot\033[2J", 0, CG_BAD_ARGUMENT);
	assert_memory_equal(output, "# cg_kernel_run # cpu; ", 23);
	assert_null(strchr(output, '\033'));
	run_kernel(stream, NULL, NULL, 0, CG_BAD_ARGUMENT);
	cg_cell_close(cell);
	close_both(context, stream);
}

static struct cg_context *shared;

static void *work(void *given)
{
	const struct cg_op *row = cg_op_find("gru_block_cell_grad", NULL);
	struct cg_stream *stream;
	union args a;

	fill(row, &a, 0, (int)(size_t)given);
	if (cg_stream_open(shared, NULL, &stream))
		return NULL;
	for (int k = 0; k < TIMES; k++)
		row->call(stream, &a);
	cg_stream_close(stream);
	return NULL;
}

/* Lines of several threads follow one another; none is inside another. */
static void test_threads(void **state)
{
	static const char text[] = "cellgrad bench --op gru_block_cell_grad --B 2 --I 3 --H 4 --dtype f32 # cpu; ";
	pthread_t threads[THREADS];
	struct cg_stream *stream;
	int n = 0;

	(void)state;
	open_as("1", &shared, &stream);
	listen();
	for (size_t k = 0; k < THREADS; k++)
		assert_int_equal(pthread_create(&threads[k], NULL, work, (void *)k), 0);
	for (int k = 0; k < THREADS; k++)
		pthread_join(threads[k], NULL);
	stop();
	for (const char *at = output; *at; at = strchr(at, '\n') + 1, n++) {
		assert_memory_equal(at, text, sizeof text - 1);
		assert_null(memmem(at + 1, strcspn(at + 1, "\n"), "cellgrad", 8));
	}
	assert_int_equal(n, THREADS * TIMES);
	close_both(shared, stream);
}

/* ---- networks ---- */

#define SIZES " --T 3 --B 2 --I 3 --H 4 --layers 2 --dtype f32"

/* Runs a forward and a backward, whose lines must begin with these texts and end with the route scan. */
static void network(struct net *n, const char *forward, const char *backward)
{
	const char *second;

	assert_int_equal(net_open(n), CG_OK);
	listen();
	assert_int_equal(net_forward(n), CG_OK);
	assert_int_equal(net_backward(n), CG_OK);
	stop();
	assert_int_equal(lines(), 2);
	second = strchr(output, '\n') + 1;
	assert_memory_equal(output, forward, strlen(forward));
	assert_memory_equal(second, backward, strlen(backward));
	assert_memory_equal(second - 7, "; scan\n", 7);
	assert_non_null(strstr(second, "; scan\n"));
	assert_null(strstr(output, "without"));
	net_close(n);
}

static void test_networks(void **state)
{
	static const struct cg_value values[] = { { "cell_clip", 3 }, { "forget_bias", 0.5 } };
	struct cg_context *context;
	struct cg_stream *stream;
	struct cg_cell *cell;
	struct net n;

	(void)state;
	open_as("1", &context, &stream);
	net_begin(&n, context, stream);
	network(&n, "cellgrad bench --op CudnnRNNV3" SIZES " # cpu; ", "cellgrad bench --op CudnnRNNBackpropV3" SIZES " # cpu; ");

	net_begin(&n, context, stream);
	n.config.cell = cg_cell_find("gru");     /* an argument that a GRU does not use may be absent */
	n.config.bidirectional = 1;
	n.config.dropout = 0.5;
	n.config.seed = (uint64_t)7 << 32 | 3;
	n.config.time_major = 0;
	n.call.counter = UINT64_MAX;
	n.config.strict_rounding = 1;
	network(&n, "cellgrad bench --op rnn" SIZES " rnn_mode=gru direction=bidirectional dropout=0.5 seed=7 seed2=3 time_major=false "
	        "counter=18446744073709551615 strict_rounding=true # cpu; ", "cellgrad bench --op rnn_backprop" SIZES " rnn_mode=gru");

	net_begin(&n, context, stream);
	n.config.cell = cg_cell_find("lstm_block");
	n.config.options = "peephole";
	n.config.values = values;
	n.config.n_values = 2;
	network(&n, "cellgrad bench --op rnn" SIZES " cell=lstm_block options=peephole values=forget_bias=0.5 # cpu; ",
	        "cellgrad bench --op rnn_backprop" SIZES " cell=lstm_block options=peephole values=forget_bias=0.5 # cpu; ");

	assert_int_equal(cg_cell_parse("cell mine\ngates a\noutput h\nh = tanh(a)\n", "mine", &cell), CG_OK);
	net_begin(&n, context, stream);
	n.config.cell = cell;
	network(&n, "cellgrad bench --op rnn" SIZES " cell=./mine.cell # cpu; ", "cellgrad bench --op rnn_backprop" SIZES);
	cg_cell_close(cell);

	/* Calls that are rejected have a line, too, both before and after their sizes are known. */
	net_begin(&n, context, stream);
	n.config.training = 0;
	assert_int_equal(net_open(&n), CG_OK);
	listen();
	assert_int_equal(net_backward(&n), CG_UNSUPPORTED);
	n.call.T = -1;
	assert_int_equal(net_forward(&n), CG_BAD_ARGUMENT);
	stop();
	assert_int_equal(lines(), 2);
	EXPECT_OUTPUT("cellgrad bench --op CudnnRNNBackpropV3" SIZES " # cpu; ");
	EXPECT_OUTPUT("; CG_UNSUPPORTED: rnn_backprop: expected a plan that was opened with training=1, got one with training=0\n");
	EXPECT_OUTPUT("# rnn # cpu; ");
	EXPECT_OUTPUT("; CG_BAD_ARGUMENT: rnn: T: expected at least 0, got -1\n");
	net_close(&n);
	close_both(context, stream);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_values), cmocka_unit_test(test_read_at_open), cmocka_unit_test(test_ops),
		cmocka_unit_test(test_attributes), cmocka_unit_test(test_notes), cmocka_unit_test(test_failures),
		cmocka_unit_test(test_sequences), cmocka_unit_test(test_kernels), cmocka_unit_test(test_threads),
		cmocka_unit_test(test_networks),
		cmocka_unit_test(test_nothing_left),
	};

	counted_begin();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("verbose", tests, NULL, NULL);
}
