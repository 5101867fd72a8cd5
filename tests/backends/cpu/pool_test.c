/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests a caller's thread pool. Eight networks have the same bits in pools of 1, 3 and 5 threads as on three of the library's own threads;
 * a pool runs its parts in order, or in reverse order, or each part on a new thread, or by OpenMP. BlockLSTM and its gradient have the same
 * bits in pools that run the parts in order or in reverse order as on one thread. An invalid pool is rejected.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "backends/cpu/cpu.h"
#include "runtime/device/device.h"
#include "runtime/op/op.h"
#include "tests/help/asked_pool.h"
#include "tests/help/small_net.h"
#include "verify/numbers.h"

/* ---- pools ---- */

enum { PARTS = 16 };

static void run_backwards(void *user, int parts, pool_part *part, void *arg)
{
	note_parts(user, parts);
	while (parts--)
		part(arg, parts);
}

struct one { pool_part *part; void *arg; int k; };

static void *run_one(void *given)
{
	struct one *one = given;

	one->part(one->arg, one->k);
	return NULL;
}

static void run_on_threads(void *user, int parts, pool_part *part, void *arg)
{
	struct one ones[PARTS];
	pthread_t threads[PARTS];

	note_parts(user, parts);
	for (int k = 0; k < parts; k++) {
		ones[k] = (struct one){ part, arg, k };
		assert_int_equal(pthread_create(&threads[k], NULL, run_one, &ones[k]), 0);
	}
	for (int k = 0; k < parts; k++)
		pthread_join(threads[k], NULL);
}

#if defined(_OPENMP) && !defined(__SANITIZE_THREAD__)       /* the thread sanitizer does not know libgomp's barriers */
#define BY_OPENMP 1
static void run_by_openmp(void *user, int parts, pool_part *part, void *arg)
{
	note_parts(user, parts);
#pragma omp parallel for num_threads(parts)
	for (int k = 0; k < parts; k++)
		part(arg, k);
}
#endif

/* ---- calls ---- */

struct network { const char *cell; int dtype; int64_t units; int ragged; };

/* Returns a checksum of the results of forward and backward of a network. With 100 units each thread takes some batch rows through all
   steps; with 260 units, or 200 in f64, threads share the units of each step. */
static uint64_t print_network(struct cg_context *context, struct network network)
{
	static const int32_t lengths[] = { 3, 12, 0, 5, 12, 1, 7, 12, 2 };
	struct cg_stream *stream;
	struct net n;
	uint64_t print;

	assert_int_equal(cg_stream_open(context, NULL, &stream), CG_OK);
	net_begin(&n, context, stream);
	n.config.cell = cg_cell_find(network.cell);
	n.config.dtype = network.dtype;
	n.config.input = 70;
	n.config.units = network.units;
	n.config.bidirectional = 1;
	n.call.T = 12;
	n.call.B = 9;
	n.call.lengths = network.ragged ? lengths : NULL;
	assert_int_equal(net_open(&n), CG_OK);
	assert_int_equal(net_forward(&n), CG_OK);
	assert_int_equal(net_backward(&n), CG_OK);
	assert_int_equal(net_print(&n, &print), CG_OK);
	net_close(&n);
	cg_stream_close(stream);
	return print;
}

static struct cg_context *open_own(int threads)
{
	struct cg_context *context;

	assert_int_equal(cg_open("cpu", &context), CG_OK);
	context->device->threads = threads;
	return context;
}

static uint64_t print_on_pool(struct cg_pool pool, struct network network)
{
	struct cg_context *context;
	uint64_t print;

	assert_int_equal(cg_open("cpu", &context), CG_OK);
	assert_int_equal(cg_pool_set(context, &pool), CG_OK);
	assert_non_null(strstr(cg_describe(context), " of the caller's"));
	print = print_network(context, network);
	cg_close(context);
	return print;
}

static void try_pool(pool_run *run)
{
	static const struct network networks[] = {
		{ "lstm", CG_F32, 260, 0 }, { "lstm", CG_F32, 100, 1 }, { "gru", CG_F32, 100, 0 }, { "gru_block", CG_F64, 200, 1 },
		{ "lstm", CG_BF16, 100, 0 }, { "gru_block", CG_F16, 100, 1 }, { "ln_gru", CG_F32, 300, 0 }, { "ln_lstm", CG_BF16, 100, 0 },
	};

	for (size_t n = 0; n < sizeof networks / sizeof *networks; n++) {
		struct cg_context *context = open_own(3);
		uint64_t own = print_network(context, networks[n]);

		cg_close(context);
		for (int threads = 1; threads <= 5; threads += 2) {
			struct asked asked = { .threads = threads };

			assert_true(print_on_pool(make_pool(run, &asked), networks[n]) == own);
			/* In a pool of one thread some products have a single part, and do not call the pool. */
			assert_true(asked.calls > (threads > 1 ? 10 : 0));
			assert_false(asked.too_many);
		}
	}
}

static void test_in_order(void **state)
{
	(void)state;
	try_pool(run_in_order);
}

static void test_backwards(void **state)
{
	(void)state;
	try_pool(run_backwards);
}

static void test_threads(void **state)
{
	(void)state;
	try_pool(run_on_threads);
}

static void test_openmp(void **state)
{
	(void)state;
#ifdef BY_OPENMP
	try_pool(run_by_openmp);
#else
	print_message("compiled without OpenMP\n");
	skip();
#endif
}

/* ---- BlockLSTM ---- */

/* Allocates every argument that `row`, the op's row of the op table, names and `op` lacks, with random numbers in the inputs; h and cs stay
   absent if holds_states is 1. */
static void make_arguments(struct cg_lstm_block *op, const struct cg_op *row, int holds_states, unsigned long long *drawn)
{
	for (const struct cg_port *port = row->ports; port->name; port++) {
		struct cg_mem *mem = (struct cg_mem *)(void *)((char *)op + port->at);

		if (mem->data || (holds_states && (!strcmp(port->name, "h") || !strcmp(port->name, "cs"))))
			continue;
		assert_int_equal(cg_op_bytes(row, port, op, &mem->bytes), CG_OK);
		mem->data = calloc(1, mem->bytes);
		assert_non_null(mem->data);
		for (size_t k = 0; port->flow == CG_IN && k < mem->bytes / cg_dtype_bytes(op->dtype); k++)
			numbers_encode(op->dtype, ((double)numbers_below(drawn, 33) - 16) / 32, (char *)mem->data + k * cg_dtype_bytes(op->dtype));
	}
}

/* Returns a checksum of the op's outputs, and frees all arguments. */
static uint64_t print_arguments(struct cg_lstm_block *op, const struct cg_op *row)
{
	uint64_t print = 0;

	for (const struct cg_port *port = row->ports; port->name; port++) {
		struct cg_mem *mem = (struct cg_mem *)(void *)((char *)op + port->at);

		for (size_t k = 0; port->flow != CG_IN && mem->data && k < mem->bytes; k++)
			print = (print ^ ((unsigned char *)mem->data)[k]) * 0x100000001b3;
		free(mem->data);
		mem->data = NULL;
	}
	return print;
}

/* With 200 units the recurrent matrix is so large, in every dtype but perhaps bf16, that threads share the units of each step. */
static uint64_t print_block(struct cg_context *context, int dtype, int is_grad)
{
	const struct cg_op *row = cg_op_find(is_grad ? "block_lstm_grad" : "block_lstm", NULL);
	unsigned long long drawn = 5;
	struct cg_lstm_block op;
	struct cg_stream *stream;
	uint64_t print;

	cg_lstm_block_init(&op, sizeof op);
	op.T = 10, op.B = 3, op.I = 7, op.U = 200;
	op.dtype = dtype;
	op.use_peephole = 1;
	make_arguments(&op, row, !is_grad, &drawn);
	assert_int_equal(cg_stream_open(context, NULL, &stream), CG_OK);
	assert_int_equal(row->call(stream, &op), CG_OK);
	print = print_arguments(&op, row);
	cg_stream_close(stream);
	return print;
}

static void test_block_lstm(void **state)
{
	(void)state;
	for (int k = 0; k < 2 * CG_DTYPE_COUNT; k++) {
		struct cg_context *context = open_own(1);
		uint64_t own = print_block(context, k / 2, k % 2);

		cg_close(context);
		for (int backwards = 0; backwards < 2; backwards++) {
			struct asked asked = { .threads = 4 };
			struct cg_pool pool = make_pool(backwards ? run_backwards : run_in_order, &asked);

			assert_int_equal(cg_open("cpu", &context), CG_OK);
			assert_int_equal(cg_pool_set(context, &pool), CG_OK);
			assert_true(print_block(context, k / 2, k % 2) == own);
			cg_close(context);
		}
	}
}

/* A pool may be set, and set again, after a stream has started the library's own threads; a network then runs in the pool. */
static void test_in_place(void **state)
{
	struct asked asked = { .threads = 3 };
	struct cg_pool pool = make_pool(run_in_order, &asked);
	struct cg_context *context = open_own(3);
	struct cg_stream *stream;

	(void)state;
	assert_int_equal(cg_stream_open(context, NULL, &stream), CG_OK);
	cg_stream_close(stream);
	assert_int_equal(cg_team_threads(context->device->team), 3);
	assert_int_equal(cg_pool_set(context, &pool), CG_OK);
	assert_int_equal(cg_pool_set(context, &pool), CG_OK);
	print_network(context, (struct network){ "lstm", CG_F32, 200, 0 });
	assert_true(asked.calls > 20);
	cg_close(context);
}

/* ---- refusals ---- */

static void refuse(struct cg_context *context, const struct cg_pool *pool, int code, const char *words)
{
	assert_int_equal(cg_pool_set(context, pool), code);
	if (!strstr(cg_message(), words))
		fail_msg("%s", cg_message());
}

static void test_refusals(void **state)
{
	struct asked asked = { .threads = 2 };
	struct cg_pool pool = make_pool(run_in_order, &asked), wrong;
	struct cg_context *context = open_own(2);
	struct cg_stream *stream;
	struct cg_rnn *rnn;
	struct cg_rnn_config config;

	(void)state;
	refuse(NULL, &pool, CG_BAD_ARGUMENT, "cg_pool_set: context");
	refuse(context, NULL, CG_BAD_ARGUMENT, "cg_pool_set: expected a struct cg_pool, got NULL");
	cg_pool_init(NULL, sizeof wrong);
	memset(&wrong, 0, sizeof wrong);
	refuse(context, &wrong, CG_BAD_ARGUMENT, "cg_pool_set: size: expected ");
	cg_pool_init(&wrong, sizeof wrong);
	refuse(context, &wrong, CG_BAD_ARGUMENT, "cg_pool_set: threads: expected 1 to 4096, got 0");
	wrong.threads = 4097;
	refuse(context, &wrong, CG_BAD_ARGUMENT, "cg_pool_set: threads: expected 1 to 4096, got 4097");
	wrong.threads = 4096;
	refuse(context, &wrong, CG_BAD_ARGUMENT, "cg_pool_set: run: expected a function, got NULL");

	assert_int_equal(cg_stream_open(context, NULL, &stream), CG_OK);
	refuse(context, &pool, CG_BAD_ARGUMENT, "cg_pool_set: context: expected one without streams and plans");
	cg_stream_close(stream);
	cg_rnn_config_init(&config, sizeof config);
	config.input = config.units = 3;
	assert_int_equal(cg_rnn_open(context, &config, &rnn), CG_OK);
	refuse(context, &pool, CG_BAD_ARGUMENT, "cg_pool_set: context: expected one without streams and plans");
	cg_rnn_close(rnn);
	assert_int_equal(cg_pool_set(context, &pool), CG_OK);
	cg_close(context);
	if (!cg_open("opencl", &context)) {
		refuse(context, &pool, CG_UNSUPPORTED, "cg_pool_set: backend opencl does not compute on threads of the host: backend cpu does");
		cg_close(context);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_in_order), cmocka_unit_test(test_backwards), cmocka_unit_test(test_threads), cmocka_unit_test(test_openmp),
		cmocka_unit_test(test_block_lstm), cmocka_unit_test(test_in_place), cmocka_unit_test(test_refusals),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
