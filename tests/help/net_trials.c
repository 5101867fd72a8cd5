/* SPDX-License-Identifier: Apache-2.0 */
/* Most networks in these trials have sequences of several lengths, two directions and dropout. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "tests/help/small_net.h"
#include "tests/help/net_trials.h"

enum { THREADS = 2, TIMES = 6, ROUNDS = 5 };

static const unsigned char poison[4096] = { 0xa5 };
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

/* The network that a thread runs, and what it gives. `first` differs between threads, so that they begin with different lengths. */
struct work { struct net net; int first, code; uint64_t prints[TIMES]; char message[256]; };

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
		snprintf(w->message, sizeof w->message, "%.255s", cg_message());
	return NULL;
}

/* Opens the network of a thread. If the network's arguments are in host memory, its calls have no workspace and use the stream's. */
static void open_work(struct work *w, struct cg_context *context, const char *route, int place)
{
	/* gru_block has two stages, and cuDNN does not compute it; a route other than composed gets gru. */
	const char *cell = route && strcmp(route, "composed") ? "gru" : "gru_block";
	struct cg_rnn_sizes of_ragged;

	memset(w, 0, sizeof *w);
	begin(&w->net, context, open_stream(context), cell, route, place);
	w->net.config.time_major = 0;
	if (net_open(&w->net) || cg_rnn_sizes(w->net.rnn, w->net.call.T, w->net.call.B, ragged[0], &of_ragged))
		fail_msg("%s", cg_message());
	/* Calls with and without lengths need workspaces of different sizes; this workspace has as many bytes as both together, and serves
	 * both. */
	of_ragged.work += w->net.call.work.bytes;
	net_free(&w->net, &w->net.call.work);
	if (place == CG_DEVICE && cg_alloc(context, of_ragged.work, &w->net.call.work))
		fail_msg("%s", cg_message());
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
			fail_msg("%s", alone.message);
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
				fail_msg("%s", each[k].message);
			assert_memory_equal(alone.prints, each[k].prints, sizeof alone.prints);
			each[k].net.rnn = NULL;
			close_work(&each[k]);
		}
		close_work(&alone);
	}
}

/* ---- networks of all kinds ---- */

enum { PROBLEMS = 8, AGAIN = 3 };

struct problem { const char *cell; int dtype, bidirectional, time_major, place; int64_t T, input, units; };
static const struct problem problems[PROBLEMS] = {
	{ "lstm",     CG_F32, 1, 1, CG_DEVICE, 3, 3, 4  }, { "gru",      CG_F32, 0, 0, CG_HOST,   3, 5, 4  },
	{ "lstm",     CG_F16, 0, 0, CG_DEVICE, 3, 3, 4  }, { "rnn_tanh", CG_F32, 1, 0, CG_DEVICE, 7, 2, 9  },
	{ "lstm",     CG_F32, 1, 1, CG_HOST,   3, 3, 4  }, { "gru",      CG_F32, 1, 1, CG_DEVICE, 5, 5, 17 },
	{ "rnn_relu", CG_F32, 0, 1, CG_HOST,   4, 3, 3  }, { "gru",      CG_F16, 0, 0, CG_DEVICE, 3, 5, 4  },
};

struct solver {
	struct cg_context *context;
	const char *route;
	pthread_barrier_t *start;                /* the barrier at which all threads begin; NULL: one thread alone */
	int number, code;
	uint64_t print;
	char message[256];
};

static int solve(struct solver *s, struct net *n)
{
	int code = net_open(n);

	if (!code && n->place == CG_HOST)
		net_free(n, &n->call.work);
	for (int k = 0; k < AGAIN && !code; k++) {
		uint64_t print = 0;

		n->call.lengths = ragged[k % 2 ? 5 : 0];
		code = net_forward(n);
		if (!code)
			code = net_backward(n);
		if (!code)
			code = net_print(n, &print);
		s->print = s->print * 31 + print;
	}
	return code;
}

static void *solve_one(void *given)
{
	struct solver *s = given;
	const struct problem *p = &problems[s->number];
	struct net n;

	if (s->start)
		pthread_barrier_wait(s->start);
	begin(&n, s->context, NULL, p->cell, s->route, p->place);
	n.config.dtype = p->dtype;
	n.config.bidirectional = p->bidirectional;
	n.config.time_major = p->time_major;
	n.config.input = p->input;
	n.config.units = p->units;
	n.call.T = p->T;
	n.salt = s->number;
	s->print = 0;
	s->code = cg_stream_open(s->context, NULL, &n.stream);
	if (!s->code) {
		n.call.lengths = ragged[0];      /* the lengths whose call needs the largest workspace */
		s->code = solve(s, &n);
	}
	if (s->code)
		snprintf(s->message, sizeof s->message, "%.255s", cg_message());
	net_close(&n);
	cg_stream_close(n.stream);
	return NULL;
}

static struct cg_context *open_context(const char *where)
{
	struct cg_context *context;

	if (cg_open(where, &context))
		fail_msg("%s", cg_message());
	return context;
}

void try_problems(const char *where, const char *route)
{
	struct solver alone[PROBLEMS], each[PROBLEMS];
	pthread_t threads[PROBLEMS];
	pthread_barrier_t start;
	struct cg_context *context;

	for (int k = 0; k < PROBLEMS; k++) {
		alone[k] = (struct solver){ .context = open_context(where), .route = route, .number = k };
		solve_one(&alone[k]);
		cg_close(alone[k].context);
		if (alone[k].code)
			fail_msg("problem %d: %s", k, alone[k].message);
	}
	context = open_context(where);
	pthread_barrier_init(&start, NULL, PROBLEMS);
	for (int k = 0; k < PROBLEMS; k++) {
		each[k] = (struct solver){ .context = context, .route = route, .start = &start, .number = k };
		assert_int_equal(pthread_create(&threads[k], NULL, solve_one, &each[k]), 0);
	}
	for (int k = 0; k < PROBLEMS; k++)
		assert_int_equal(pthread_join(threads[k], NULL), 0);
	pthread_barrier_destroy(&start);
	cg_close(context);
	for (int k = 0; k < PROBLEMS; k++)
		if (each[k].code || each[k].print != alone[k].print)
			fail_msg("problem %d among others: %s", k, each[k].code ? each[k].message : "other bits than alone");
}

/* ---- plans in turn ---- */

enum { PLANS = 4 };

static void run_both(struct net *n, struct cg_stream *stream, uint64_t *print)
{
	n->stream = stream;
	if (net_forward(n) || net_backward(n) || net_print(n, print))
		fail_msg("%s", cg_message());
}

void try_turns(struct cg_context *context, const char *route)
{
	/* The order of plans: every plan runs directly after every other, and after itself. */
	static const int turns[] = { 0, 0, 1, 0, 2, 0, 3, 1, 1, 2, 1, 3, 2, 2, 3, 3, 0 };
	struct cg_stream *one = open_stream(context);
	struct net nets[PLANS];
	uint64_t right[PLANS], got;

	for (int k = 0; k < PLANS; k++) {
		struct cg_stream *own = open_stream(context);

		begin(&nets[k], context, own, "lstm", route, CG_DEVICE);
		nets[k].config.bidirectional = k % 2;
		nets[k].config.time_major = k / 2;
		nets[k].call.lengths = ragged[0];
		if (net_open(&nets[k]))
			fail_msg("%s", cg_message());
		run_both(&nets[k], own, &right[k]);
		cg_stream_close(own);
	}
	for (size_t k = 0; k < sizeof turns / sizeof *turns; k++) {
		run_both(&nets[turns[k]], one, &got);
		if (got != right[turns[k]])
			fail_msg("turn %zu: a network of %d directions, time_major %d: other bits than on a stream of its own", k,
			         1 + turns[k] % 2, turns[k] / 2);
	}
	for (int k = 0; k < PLANS; k++) {
		nets[k].stream = one;
		net_close(&nets[k]);
	}
	cg_stream_close(one);
}

/* ---- a stream closed while it is busy ---- */

void try_closing(struct cg_context *context, const char *route)
{
	struct cg_stream *reader = open_stream(context), *closed;
	uint64_t right, got;
	struct net busy, n;

	/* Callers give a `route` only on backend cuda. CUDA's stand-ins delay work themselves, so that a smaller network suffices to keep
	 * the stream busy. */
	begin(&busy, context, reader, "lstm", route, CG_DEVICE);
	busy.config.units = busy.config.input = route ? 32 : 256;
	busy.config.bidirectional = 0;
	busy.call.T = busy.call.B = route ? 8 : 32;
	begin(&n, context, reader, "lstm", route, CG_DEVICE);
	n.call.lengths = ragged[0];
	if (net_open(&busy) || net_forward(&busy) || net_open(&n))
		fail_msg("%s", cg_message());
	run_both(&n, reader, &right);
	for (int k = 0; k < 3; k++) {
		closed = open_stream(context);
		for (int p = 0; p < NET_PORTS; p++)
			if (net_ports[p].forward == NET_OUT && net_mem(&n, &net_ports[p]) != &n.call.reserve)
				assert_int_equal(cg_put(reader, *net_mem(&n, &net_ports[p]), poison, net_mem(&n, &net_ports[p])->bytes), CG_OK);
		busy.stream = n.stream = closed;
		if (net_forward(&busy) || net_forward(&n) || net_backward(&n))
			fail_msg("%s", cg_message());
		cg_stream_close(closed);
		busy.stream = n.stream = reader;
		if (net_print(&n, &got))
			fail_msg("%s", cg_message());
		if (got != right)
			fail_msg("a stream was closed with work enqueued: other bits");
	}
	net_close(&n);
	net_close(&busy);
	cg_stream_close(reader);
}

/* ---- places ---- */

/* Puts the arguments whose bit is set, and the workspace if its bit is set, into device memory, as copies; leaves the others in host
 * memory. */
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

void try_memory_spaces(struct cg_context *context, const char *route)
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

/* Runs both passes on a new stream, with the n-th of the driver's calls failing (n 0: none), and once more without a failure if there was
   one; *print is a checksum of the last answers. Returns whether a call of the driver failed. */
static int attempt(struct cg_context *context, const char *route, int place, const struct faults *f, long n, uint64_t *print)
{
	struct cg_stream *stream = open_stream(context);
	struct net net;
	int code, failed;

	begin(&net, context, stream, "lstm", route, place);
	net.config.layers = 1;
	net.call.lengths = ragged[0];
	/* When a stream's workspace grows, the old one is freed, and a failure to free it is not reported. With arguments in host memory
	   the passes use the stream's workspace, so that two passes make it grow before a call is made to fail. */
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

		assert_false(attempt(context, route, place, f, 0, &right));     /* this first run builds the kernels */
		for (; attempt(context, route, place, f, n, &got); n++)
			if (got != right)
				fail_msg("after call %ld: other bits", n);
		print_message("# %ld calls failed in turn\n", n - 1);
		assert_true(n > 30);
	}
}
