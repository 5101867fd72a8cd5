/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A network's call checks its arguments once, reads its lengths once, and lays out its workspace once or, on a vendor's route, asks the
 * vendor's library for sizes once. The chain of calls down to each matrix product has at most ten functions and enters no file twice.
 */
#include <fcntl.h>
#include <link.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <unwind.h>
#include <cmocka.h>

#include "runtime/rnn/rnn.h"
#include "tests/help/counted.h"
#include "tests/help/small_net.h"

static struct counts { int checks, scans, layouts, asked; } seen;

/* The linker makes the library call this file's __wrap_ functions in place of its own, which are __real_ here: see tests/local.mk. */
int __real_cg_op_check(const struct cg_op *, const void *op);
int __wrap_cg_op_check(const struct cg_op *, const void *op);
int __real_cg_packed_count(struct cg_rnn_shape *);
int __wrap_cg_packed_count(struct cg_rnn_shape *);
size_t __real_cg_layers_lay_out_workspace(const struct cg_rnn *, int pass, int at_once, struct cg_rnn_shape *);
size_t __wrap_cg_layers_lay_out_workspace(const struct cg_rnn *, int pass, int at_once, struct cg_rnn_shape *);

int __wrap_cg_op_check(const struct cg_op *row, const void *op)
{
	seen.checks++;
	return __real_cg_op_check(row, op);
}

int __wrap_cg_packed_count(struct cg_rnn_shape *shape)
{
	seen.scans++;
	return __real_cg_packed_count(shape);
}

size_t __wrap_cg_layers_lay_out_workspace(const struct cg_rnn *rnn, int pass, int at_once, struct cg_rnn_shape *shape)
{
	seen.layouts++;
	return __real_cg_layers_lay_out_workspace(rnn, pass, at_once, shape);
}

/* ---- a backend that calls the cpu's, and counts some calls ---- */

static struct cg_backend watched;

static void open_both(struct cg_context **context, struct cg_stream **stream, const char *verbose)
{
	setenv("CELLGRAD_VERBOSE", verbose, 1);
	assert_int_equal(cg_open("cpu", context), CG_OK);
	assert_int_equal(cg_stream_open(*context, NULL, stream), CG_OK);
	watched = *(*context)->backend;
}

static void close_both(struct cg_context *context, struct cg_stream *stream)
{
	cg_stream_close(stream);
	cg_close(context);
}

/* ---- once ---- */

static const int32_t lengths[] = { 1, 3, 0, 2 };

static void open_net(struct net *n, struct cg_context *context, struct cg_stream *stream, int is_ragged, int is_given)
{
	net_begin(n, context, stream);
	n->config.bidirectional = 1;
	n->config.dropout = 0.5;
	n->call.B = 4;
	n->call.lengths = is_ragged ? lengths : NULL;
	assert_int_equal(net_open(n), CG_OK);
	if (!is_given)
		net_free(n, &n->call.work);
}

static void expect_once(int (*pass)(struct net *), struct net *n, int layouts, int asked)
{
	memset(&seen, 0, sizeof seen);
	if (pass(n))
		fail_msg("%s", cg_message());
	assert_int_equal(seen.checks, 1);
	assert_int_equal(seen.scans, 1);
	assert_int_equal(seen.layouts, layouts);
	assert_int_equal(seen.asked, asked);
}

/* Expects that the TensorFlow op of a network does not read the lengths when it infers sizes, reads them once when it is opened, and in
   its call checks arguments, reads lengths and lays out the workspace once. */
static void expect_once_of_op(const char *name, const struct net *n, struct cg_stream *stream)
{
	const struct cg_op *row = cg_op_find(name, NULL);
	unsigned bound = ~0u;
	struct cg_rnn_op op;

	row->init(&op, sizeof op);
	op.call = n->call;
	op.call.size = sizeof op;
	op.direction = n->config.bidirectional;
	op.dropout = n->config.dropout;
	op.L = n->config.layers;
	op.states = 2 * op.L;
	op.I = n->config.input;
	op.U = op.H = n->config.units;
	memset(&seen, 0, sizeof seen);
	assert_int_equal(row->infer(row, &op, &bound), CG_OK);
	assert_int_equal(seen.scans + seen.layouts, 0);
	assert_int_equal(row->open(stream, row, &op), CG_OK);
	assert_int_equal(seen.scans, 1);
	memset(&seen, 0, sizeof seen);
	if (row->call(stream, &op))
		fail_msg("%s: %s", name, cg_message());
	assert_int_equal(seen.checks, 1);
	assert_int_equal(seen.scans, 1);
	assert_int_equal(seen.layouts, 1);
	row->close(&op);
}

static void test_tensorflow(void **state)
{
	struct cg_context *context;
	struct cg_stream *stream;
	struct net n;

	(void)state;
	for (int is_ragged = 0; is_ragged < 2; is_ragged++) {
		open_both(&context, &stream, "0");
		open_net(&n, context, stream, is_ragged, 0);
		expect_once_of_op("rnn", &n, stream);
		expect_once_of_op("rnn_backprop", &n, stream);
		net_close(&n);
		close_both(context, stream);
	}
}

static void test_composed(void **state)
{
	struct cg_context *context;
	struct cg_stream *stream;
	struct net n;
	int kept = dup(2), null = open("/dev/null", O_WRONLY);

	(void)state;
	for (int k = 0; k < 8; k++) {
		open_both(&context, &stream, k & 1 ? "1" : "0");
		open_net(&n, context, stream, k >> 1 & 1, k >> 2);
		assert_true(dup2(null, 2) == 2);                 /* discards the lines of calls, which verbose_test tests */
		expect_once(net_forward, &n, 1, 0);
		expect_once(net_backward, &n, 1, 0);
		assert_true(dup2(kept, 2) == 2);
		net_close(&n);
		close_both(context, stream);
	}
	close(kept);
	close(null);
}

/* ---- a vendor's library ---- */

static char a_net;

static int open_vendor(struct cg_dev *device, const struct cg_network *network, struct cg_net **net, char why[CG_WHY_NOT])
{
	(void)device, (void)network, (void)why;
	*net = (struct cg_net *)(void *)&a_net;
	return CG_OK;
}

static void close_vendor(struct cg_dev *device, struct cg_net *net)
{
	(void)device, (void)net;
}

static uint64_t stamp(const struct cg_net *net)
{
	(void)net;
	return 1;
}

static int declines(const struct cg_net *net, int64_t T, char why[CG_WHY_NOT])
{
	(void)net, (void)T, (void)why;
	return 0;
}

static int vendor_sizes(struct cg_net *net, int64_t T, int64_t B, const int32_t *each, struct cg_net_sizes *sizes)
{
	(void)net, (void)T, (void)B, (void)each;
	seen.asked++;
	*sizes = (struct cg_net_sizes){ CG_RESERVE_HEADER, 256, 512 };
	return CG_OK;
}

static int run_vendor(struct cg_queue *queue, struct cg_net *net, const struct cg_rnn_call *call, struct cg_mem work)
{
	(void)queue, (void)net, (void)call;
	assert_true(work.bytes >= 256);
	return CG_OK;
}

static void test_vendor(void **state)
{
	static const struct cg_net_route route = {
		.name = "vendor", .open = open_vendor, .close = close_vendor, .stamp = stamp, .declines = declines, .sizes = vendor_sizes,
		.forward = run_vendor, .backward = run_vendor
	};
	struct cg_context *context;
	struct cg_stream *stream;
	struct net n;

	(void)state;
	for (int is_given = 0; is_given < 2; is_given++) {
		open_both(&context, &stream, "0");
		watched.net = &route;
		context->backend = &watched;
		open_net(&n, context, stream, 1, is_given);
		assert_string_equal(cg_rnn_route(n.rnn), "vendor");
		expect_once(net_forward, &n, 0, 1);
		expect_once(net_backward, &n, 0, 1);
		net_close(&n);
		close_both(context, stream);
	}
}

/* ---- the chain of calls down to a product ---- */

enum { FRAMES = 64, MOST = 10, LINE = 512 };
static struct way { uintptr_t at[FRAMES]; int n; } ways[FRAMES];
static int n_ways;
static int (*multiply)(struct cg_queue *, const struct cg_gemm *, int *left);

static int find_base(struct dl_phdr_info *info, size_t size, void *base)
{
	(void)size;
	*(uintptr_t *)base = info->dlpi_addr;
	return 1;                                /* the first entry of dl_iterate_phdr() is the program: no further entry is needed */
}

static _Unwind_Reason_Code add_frame(struct _Unwind_Context *frame, void *to)
{
	struct way *way = to;
	int is_before;
	uintptr_t at = _Unwind_GetIPInfo(frame, &is_before);

	if (way->n == FRAMES)
		return _URC_END_OF_STACK;
	way->at[way->n++] = at - !is_before;     /* an address in the call instruction, not behind it */
	return _URC_NO_REASON;
}

static int watch_product(struct cg_queue *queue, const struct cg_gemm *product, int *left)
{
	if (n_ways < FRAMES)
		_Unwind_Backtrace(add_frame, &ways[n_ways++]);
	return multiply(queue, product, left);
}

/* Judges a chain of calls by the lines "NAME\nFILE:LINE\n" that addr2line prints for each frame and the functions inlined into
   it, from the product up to the call; returns 0 if there are no names. */
static int judge(const struct way *way, uintptr_t base)
{
	char command[4096], name[LINE], file[LINE], before[FRAMES][LINE] = { "" }, shown[4096] = "";
	int n = 0, files = 0, is_down = 0, is_twice = 0, is_named = 0;
	FILE *names;

	snprintf(command, sizeof command, "addr2line -if -e /proc/%ld/exe", (long)getpid());
	for (int k = 0; k < way->n; k++)
		cg_line_add(command, sizeof command, " %#lx", (unsigned long)(way->at[k] - base));
	cg_line_add(command, sizeof command, " 2>/dev/null");
	names = popen(command, "r");
	assert_non_null(names);
	while (!is_down && fgets(name, sizeof name, names) && fgets(file, sizeof file, names)) {
		name[strcspn(name, "\n")] = file[strcspn(file, ":\n")] = '\0';
		if (!n && strcmp(name, "watch_product"))
			continue;
		n++;
		cg_line_add(shown, sizeof shown, "%s%s", n > 1 ? " < " : "", name);
		is_down = !strcmp(name, "cg_rnn_forward") || !strcmp(name, "cg_rnn_backward");
		is_named |= is_down;
		if (files && !strcmp(before[files - 1], file))
			continue;
		for (int k = 0; k < files; k++)
			is_twice |= !strcmp(before[k], file);
		if (files < FRAMES)
			snprintf(before[files++], LINE, "%s", file);
	}
	while (fgets(name, sizeof name, names))
		;
	pclose(names);
	if (is_named && (n > MOST || is_twice))
		fail_msg("%d frames%s: %s", n, is_twice ? ", a file twice" : "", shown);
	return is_named;
}

static void test_way_to_a_product(void **state)
{
	struct cg_context *context;
	struct cg_stream *stream;
	uintptr_t base = 0;
	struct net n;

	(void)state;
	open_both(&context, &stream, "0");
	multiply = watched.gemm;
	watched.gemm = watch_product;
	context->backend = &watched;
	open_net(&n, context, stream, 1, 1);
	assert_int_equal(net_forward(&n), CG_OK);
	assert_int_equal(net_backward(&n), CG_OK);
	net_close(&n);
	close_both(context, stream);
	assert_true(n_ways > 8);
	dl_iterate_phdr(find_base, &base);
	for (int k = 0; k < n_ways; k++)
		if (!judge(&ways[k], base))
			skip();                          /* there is no addr2line, or the program has no debugging information */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_composed),
		cmocka_unit_test(test_tensorflow),
		cmocka_unit_test(test_vendor),
		cmocka_unit_test(test_way_to_a_product),
		cmocka_unit_test(test_nothing_left),
	};

	counted_begin();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("rnn_once", tests, NULL, NULL);
}
