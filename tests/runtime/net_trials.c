/* Small networks with rows of several lengths, in two directions, with dropout: what uses all that a call of one has. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "tests/runtime/net.h"
#include "tests/runtime/net_trials.h"

enum { THREADS = 2, TIMES = 6, ROUNDS = 5 };

static const int32_t ragged[TIMES][2] = { { 2, 3 }, { 3, 0 }, { 3, 3 }, { 0, 0 }, { 2, 3 }, { 1, 2 } };

static void begin(struct net *n, struct cg_context *context, struct cg_stream *stream, const char *cell, const char *route, int place)
{
	net_begin(n, context, stream);
	n->config.route = route;
	n->place = place;
	n->config.cell = cg_cell_find(cell);
	n->config.bidirectional = 1;
	n->config.dropout = 0.5;
}

static struct cg_stream *open_stream(struct cg_context *context)
{
	struct cg_stream *stream;

	if (cg_stream_open(context, NULL, &stream))
		fail_msg("%s", cg_message());
	return stream;
}

/* ---- streams ---- */

/* Threads begin with other lengths, so that no two have the same at a time. */
struct work { struct net net; int first, code; uint64_t prints[TIMES]; char said[256]; };

static void *run(void *given)
{
	struct work *w = given;
	struct net *n = &w->net;

	for (int round = 0; round < ROUNDS * TIMES && !w->code; round++) {
		int k = (round + w->first) % TIMES;

		n->call.lengths = ragged[k];
		w->code = net_forward(n);
		if (!w->code)
			w->code = net_backward(n);
		if (!w->code)
			w->code = net_print(n, &w->prints[k]);
	}
	if (w->code)
		snprintf(w->said, sizeof w->said, "%.255s", cg_message());
	return NULL;
}

/* In the host's memory and with the stream's work, so that all that a stream holds is in use. */
static void open_work(struct work *w, struct cg_context *context, const char *route, int place)
{
	/* That has two stages, but is no vendor's. */
	const char *cell = route && strcmp(route, "composed") ? "gru" : "gru_block";

	memset(w, 0, sizeof *w);
	begin(&w->net, context, open_stream(context), cell, route, place);
	w->net.config.time_major = 0;            /* whole rows need no less memory than others */
	if (net_open(&w->net))
		fail_msg("%s", cg_message());
	if (place == CG_HOST)
		net_free(&w->net, &w->net.call.work);
}

static void close_work(struct work *w)
{
	net_close(&w->net);
	cg_stream_close(w->net.stream);
}

void try_streams(struct cg_context *context, const char *route)
{
	pthread_t threads[THREADS];
	struct work alone, each[THREADS];

	for (int place = CG_HOST; place <= CG_DEVICE; place++) {
		open_work(&alone, context, route, place);
		run(&alone);
		if (alone.code)
			fail_msg("%s", alone.said);
		for (int k = 0; k < THREADS; k++) {
			open_work(&each[k], context, route, place);
			cg_rnn_close(each[k].net.rnn);
			each[k].net.rnn = alone.net.rnn;
			each[k].first = k;
		}
		for (int k = 0; k < THREADS; k++)
			assert_int_equal(pthread_create(&threads[k], NULL, run, &each[k]), 0);
		for (int k = 0; k < THREADS; k++)
			assert_int_equal(pthread_join(threads[k], NULL), 0);
		for (int k = 0; k < THREADS; k++) {
			if (each[k].code)
				fail_msg("%s", each[k].said);
			assert_memory_equal(alone.prints, each[k].prints, sizeof alone.prints);
			each[k].net.rnn = NULL;
			close_work(&each[k]);
		}
		close_work(&alone);
	}
}

/* ---- places ---- */

/* Puts the arguments of a bit into the device's memory, the others into the host's; all there is then is a copy. */
static void place_ports(struct net *n, const struct net *host, unsigned on_device)
{
	for (int k = 0; k <= NET_PORTS; k++) {
		struct cg_mem *mem = k < NET_PORTS ? net_mem(n, &net_ports[k]) : &n->call.work;
		const void *values = mem->data;
		size_t bytes = mem->bytes;

		if (!(on_device >> k & 1) || !bytes)
			continue;
		assert_int_equal(cg_alloc(host->context, bytes, mem), CG_OK);
		assert_int_equal(cg_put(host->stream, *mem, values, bytes), CG_OK);
	}
}

void try_places(struct cg_context *context, const char *route)
{
	static const unsigned some[] = { 0, ~0u, 0x5555, 0xaaaa, 1u << 10, ~(1u << 10), 1u << NET_PORTS, ~(1u << NET_PORTS), 0x0f0f, 8 };
	struct cg_stream *stream = open_stream(context);
	uint64_t right = 0, got;

	for (size_t k = 0; k < sizeof some / sizeof *some; k++) {
		struct net host, n;

		begin(&host, context, stream, "lstm", route, CG_HOST);
		host.call.lengths = ragged[0];
		assert_int_equal(net_open(&host), CG_OK);
		n = host;
		place_ports(&n, &host, some[k]);
		if (net_forward(&n) || net_backward(&n))
			fail_msg("places %x: %s", some[k], cg_message());
		assert_int_equal(net_print(&n, &got), CG_OK);
		right = k ? right : got;
		if (got != right)
			fail_msg("places %x: other bits than places 0", some[k]);
		for (int p = 0; p <= NET_PORTS; p++)
			if (some[k] >> p & 1)
				cg_free(context, p < NET_PORTS ? net_mem(&n, &net_ports[p]) : &n.call.work);
		net_close(&host);
	}
	cg_stream_close(stream);
}

/* ---- a driver that fails ---- */

static int both(struct net *n)
{
	int code = net_forward(n);

	return code ? code : net_backward(n);
}

/* On a new stream, with the n-th of the driver's calls failing, 0 none; *print is what was answered, by a second call where one
 * failed.  Returns whether there was such a call. */
static int attempt(struct cg_context *context, const char *route, int place, const struct faults *f, long n, uint64_t *print)
{
	struct cg_stream *stream = open_stream(context);
	struct net net;
	int code, failed;

	begin(&net, context, stream, "lstm", route, place);
	net.config.layers = 1;
	net.call.lengths = ragged[0];
	/* A stream's work that grows gives smaller work back, of which none can say that it failed: where there is any it has grown. */
	if (net_open(&net) || (place == CG_HOST && both(&net)))
		fail_msg("%s", cg_message());
	f->forget_calls();
	*f->fatal = n;
	code = both(&net);
	failed = *f->failed_call != NULL;
	if (failed ? !code || !strstr(cg_message(), *f->failed_call) : code)
		fail_msg("call %ld, %s: got %d, '%s'", n, failed ? *f->failed_call : "none", code, code ? cg_message() : "");
	*f->fatal = 0;
	if ((failed && both(&net)) || net_print(&net, print))
		fail_msg("after call %ld, %s: %s", n, failed ? *f->failed_call : "none", cg_message());
	net_close(&net);
	cg_stream_close(stream);
	return failed;
}

void try_faults(struct cg_context *context, const char *route, const struct faults *f)
{
	for (int place = CG_HOST; place <= CG_DEVICE; place++) {
		uint64_t right, got;
		long n = 1;

		assert_false(attempt(context, route, place, f, 0, &right));     /* builds kernels */
		for (; attempt(context, route, place, f, n, &got); n++)
			if (got != right)
				fail_msg("after call %ld: other bits", n);
		print_message("# %ld calls failed in turn\n", n - 1);
		assert_true(n > 30);
	}
}
