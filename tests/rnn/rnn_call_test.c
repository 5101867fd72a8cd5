/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Wrong calls of networks: memory of each argument that is too short, absent, misaligned, of no known place or beyond the address space,
 * numbers out of range, reserves of other networks or calls; each is rejected with a message, and most tests also check that nothing is
 * written. Also tests eight orders in which a plan, its cell, context and stream are closed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "runtime/rnn/rnn.h"
#include "tests/help/counted.h"
#include "tests/help/shared_stream.h"
#include "tests/help/small_net.h"

enum { PASSES = 2 };
static int (*const passes[PASSES])(struct net *) = { net_forward, net_backward };
static const char *const ops[PASSES] = { "rnn", "rnn_backprop" };

static enum net_flow flow_of(const struct net_port *p, int pass)
{
	return pass ? p->backward : p->forward;
}

/* Opens a network and runs its forward, which makes the reserve valid. */
static void begin(struct net *n)
{
	if (net_open(n) || net_forward(n))
		fail_msg("%s", cg_message());
}

static void small(struct net *n)
{
	net_begin(n, context, stream);
	begin(n);
}

/* Computes checksums of all memory of the right call `whole`, whose addresses and sizes a spoilt copy of the call may lack. */
static void sums(const struct net *whole, uint64_t to[NET_PORTS + 1])
{
	struct net n = *whole;

	for (int k = 0; k <= NET_PORTS; k++) {
		const struct cg_mem *mem = k < NET_PORTS ? net_mem(&n, &net_ports[k]) : &n.call.work;

		to[k] = 0xcbf29ce484222325u;
		for (size_t b = 0; b < mem->bytes; b++)
			to[k] = (to[k] ^ ((const unsigned char *)mem->data)[b]) * 0x100000001b3u;
	}
}

/* Expects that the call is rejected with this message, and that neither the call nor its memory is changed. whole: a right
   call with the same memory. */
__attribute__((format(printf, 6, 7)))
static void refused(int line, struct net *n, const struct net *whole, int pass, int code, const char *format, ...)
{
	uint64_t before[NET_PORTS + 1], after[NET_PORTS + 1];
	struct cg_rnn_call kept = n->call;
	char want[512];
	va_list list;

	va_start(list, format);
	vsnprintf(want, sizeof want, format, list);
	va_end(list);
	sums(whole, before);
	_assert_int_equal((LargestIntegralType)passes[pass](n), (LargestIntegralType)code, __FILE__, line);
	_assert_string_equal(cg_message(), want, __FILE__, line);
	_assert_memory_equal(&kept, &n->call, sizeof kept, __FILE__, line);
	sums(whole, after);
	_assert_memory_equal(before, after, sizeof before, __FILE__, line);
}
#define REFUSED(n, whole, pass, ...) refused(__LINE__, n, whole, pass, CG_BAD_ARGUMENT, __VA_ARGS__)

static void accepted(int line, struct net *n, int pass)
{
	int code = passes[pass](n);

	if (code)
		print_message("# line %d: %s\n", line, cg_message());
	_assert_int_equal((LargestIntegralType)code, CG_OK, __FILE__, line);
}
#define ACCEPTED(n, pass) accepted(__LINE__, n, pass)

/* ---- numbers ---- */

/* Expects the same message of both passes when one field has this value. */
#define SPOILT(field, value, text) do { \
	struct net spoilt = whole; \
	spoilt.field = value; \
	for (int pass = 0; pass < PASSES; pass++) \
		REFUSED(&spoilt, &whole, pass, text); \
} while (0)

/* Memory that is larger than its argument is rejected as a wrong size; the reserve and the workspace may be larger. */
static void test_longer_memory(void **state)
{
	struct net whole;

	(void)state;
	small(&whole);
	ACCEPTED(&whole, 0);
	for (int pass = 0; pass < PASSES; pass++)
		for (int k = 0; k < NET_PORTS; k++) {
			struct net n = whole;
			struct cg_mem *mem = net_mem(&n, &net_ports[k]);
			int is_more = !strcmp(net_ports[k].name, "reserve_space");

			if (!mem->data || !(pass ? net_ports[k].backward : net_ports[k].forward))
				continue;
			mem->bytes += sizeof(float);
			assert_int_equal(passes[pass](&n), is_more ? CG_OK : CG_BAD_ARGUMENT);
			if (!is_more && (!strstr(cg_message(), net_ports[k].name) || !strstr(cg_message(), "shorten bytes")))
				fail_msg("%s: '%s'", net_ports[k].name, cg_message());
		}
	whole.call.work.bytes += sizeof(float);
	ACCEPTED(&whole, 0);
	net_close(&whole);
}

static void test_numbers(void **state)
{
	static const int32_t bad[][2] = { { 3, 4 }, { -1, 3 }, { 3, INT32_MIN } };
	struct cg_context *other;
	struct cg_stream *others;
	struct net whole, n;

	(void)state;
	small(&whole);
	SPOILT(call.T, -1, "rnn: T: expected at least 0, got -1");
	SPOILT(call.B, -2, "rnn: B: expected at least 0, got -2");
	SPOILT(call.T, INT64_MAX, "rnn: T=9223372036854775807, B=2: a call of these sizes has too many steps, rows or bytes");
	SPOILT(call.B, INT64_MAX, "rnn: T=3, B=9223372036854775807: a call of these sizes has too many steps, rows or bytes");
	SPOILT(call.lengths, bad[0], "rnn: sequence_lengths[1]: expected 0 to T=3, got 4");
	SPOILT(call.lengths, bad[1], "rnn: sequence_lengths[0]: expected 0 to T=3, got -1");
	SPOILT(call.lengths, bad[2], "rnn: sequence_lengths[1]: expected 0 to T=3, got -2147483648");
	SPOILT(call.first_step, -1, "rnn: first_step: expected 0 to 2^32-1-T, got -1");
	SPOILT(call.first_step, INT64_MAX, "rnn: first_step: expected 0 to 2^32-1-T, got 9223372036854775807");
	SPOILT(call.first_step, UINT32_MAX - 2, "rnn: first_step: expected 0 to 2^32-1-T, got 4294967293");
	SPOILT(call.spend_reserve, 2, "rnn: spend_reserve: expected 0 or 1, got 2");
	SPOILT(call.no_dropout, -1, "rnn: no_dropout: expected 0 or 1, got -1");
	SPOILT(rnn, NULL, "rnn: plan: expected a struct cg_rnn, got NULL");
	SPOILT(stream, NULL, "rnn: context or stream: expected a pointer, got NULL");
	n = whole;
	n.call.size = 8;
	for (int pass = 0; pass < PASSES; pass++)
		REFUSED(&n, &whole, pass, "rnn: size: expected %zu, got 8: call cg_rnn_call_init first", sizeof n.call);
	n = whole;
	n.call.accumulate = 7;
	REFUSED(&n, &whole, 0, "rnn: accumulate: expected 0 or 1, got 7");
	REFUSED(&n, &whole, 1, "rnn_backprop: accumulate: expected 0 or 1, got 7");
	assert_int_equal(cg_rnn_forward(stream, whole.rnn, NULL), CG_BAD_ARGUMENT);
	assert_string_equal(cg_message(), "rnn: expected a struct cg_rnn_call, got NULL");

	assert_int_equal(cg_open("cpu", &other), CG_OK);
	assert_int_equal(cg_stream_open(other, NULL, &others), CG_OK);
	SPOILT(stream, others, "rnn: plan: expected a plan of the stream's context, got one of another context");
	cg_stream_close(others);
	cg_close(other);

	n.call.accumulate = 0;
	n.call.first_step = UINT32_MAX - 3;
	ACCEPTED(&n, 0);
	net_close(&whole);

	net_begin(&whole, context, stream);
	whole.config.bidirectional = 1;
	begin(&whole);
	SPOILT(call.first_step, 1, "rnn: first_step: a bidirectional network runs whole sequences: expected 0, got 1");
	net_close(&whole);
}

/* ---- memory ---- */

static void test_every_port_in_every_way(void **state)
{
	struct net whole;

	(void)state;
	small(&whole);
	for (int k = 0; k < NET_PORTS * PASSES; k++) {
		const struct net_port *p = &net_ports[k / PASSES];
		int pass = k % PASSES, is_reserve = !strcmp(p->name, "reserve_space");
		const char *op = ops[pass], *name = p->name, *text;
		struct net n = whole;
		struct cg_mem *m = net_mem(&n, p), good = *m;
		char start[64];

		if (flow_of(p, pass) == NET_NOT) {
			/* A field that a pass does not use may have any value. */
			*m = (struct cg_mem){ (void *)1, 3, 5, 7 };
			ACCEPTED(&n, pass);
			continue;
		}
		m->bytes--;
		passes[pass](&n);
		text = strstr(cg_message(), "] f32, ");
		snprintf(start, sizeof start, "%s: %s: expected [", op, name);
		assert_memory_equal(cg_message(), start, strlen(start));
		assert_non_null(text);
		snprintf(start, sizeof start, "] f32, %zu bytes, got %zu bytes", good.bytes, good.bytes - 1);
		assert_string_equal(text, start);
		REFUSED(&n, &whole, pass, "%s", strcpy((char [256]){ 0 }, cg_message()));
		*m = good;
		m->data = NULL;
		if (is_reserve && !pass)
			REFUSED(&n, &whole, pass,
			        "rnn: reserve: missing: expected %zu elements of f32, which this forward call writes, since its plan has training=1",
			        good.bytes / 4);
		else if (is_reserve)
			REFUSED(&n, &whole, pass, "%s: %s: missing: expected [reserve=%zu] f32", op, name, good.bytes / 4);
		else
			REFUSED(&n, &whole, pass, "%s: %s: cg_mem.data: expected memory of %zu bytes, got NULL", op, name, good.bytes);
		*m = good;
		m->place = 2;
		REFUSED(&n, &whole, pass, "%s: %s: cg_mem.place: expected CG_HOST=0 or CG_DEVICE=1, got 2", op, name);
		*m = good;
		m->offset = 2;
		REFUSED(&n, &whole, pass, "%s: %s: cg_mem.offset: expected a multiple of 4 bytes, got 2", is_reserve ? "rnn" : op,
		        is_reserve ? "reserve" : name);
		*m = good;
		m->data = (char *)m->data + 2;
		REFUSED(&n, &whole, pass, "%s: %s: cg_mem.data: expected an address that is a multiple of 4, got %p", is_reserve ? "rnn" : op,
		        is_reserve ? "reserve" : name, m->data);
		*m = good;
		m->offset = SIZE_MAX - 3;
		REFUSED(&n, &whole, pass, "%s: %s: cg_mem: expected memory that ends within the address space, got offset %zu and %zu bytes", op,
		        name, m->offset, m->bytes);
		*m = (struct cg_mem){ .bytes = 0 };
		if (is_reserve || flow_of(p, pass) == NET_MUST)
			assert_int_equal(passes[pass](&n), CG_BAD_ARGUMENT);
		else
			ACCEPTED(&n, pass);
	}
	net_close(&whole);
}

static void test_messages(void **state)
{
	struct net whole;

	(void)state;
	small(&whole);
#define WRONG(pass, field, text) do { \
	struct net n = whole; \
	n.call.field.bytes--; \
	REFUSED(&n, &whole, pass, text); \
	n.call.field = (struct cg_mem){ .bytes = 0 }; \
} while (0)
	WRONG(0, input, "rnn: input: expected [T=3, B=2, I=3] f32, 72 bytes, got 71 bytes");
	WRONG(0, input_h, "rnn: input_h: expected [L*D=2, B=2, H=4] f32, 64 bytes, got 63 bytes");
	WRONG(1, output_backprop, "rnn_backprop: output_backprop: expected [T=3, B=2, D*H=4] f32, 96 bytes, got 95 bytes");
	WRONG(1, input_c_backprop, "rnn_backprop: input_c_backprop: expected [L*D=2, B=2, C=4] f32, 64 bytes, got 63 bytes");
	WRONG(0, params, "rnn: params: expected [params=304] f32, 1216 bytes, got 1215 bytes");
	WRONG(1, params_backprop, "rnn_backprop: params_backprop: expected [params=304] f32, 1216 bytes, got 1215 bytes");
#undef WRONG
	net_close(&whole);
}

static void test_work(void **state)
{
	struct net whole;

	(void)state;
	small(&whole);
	for (int pass = 0; pass < PASSES; pass++) {
		struct net n = whole;
		struct cg_mem *m = &n.call.work, good = *m;
		const char *op = ops[pass];

		m->bytes = 64;
		assert_int_equal(passes[pass](&n), CG_BAD_ARGUMENT);
		assert_non_null(strstr(cg_message(), ": work: expected at least "));
		assert_non_null(strstr(cg_message(), " bytes, got 64 bytes"));
		REFUSED(&n, &whole, pass, "%s", strcpy((char [256]){ 0 }, cg_message()));
		*m = good;
		m->offset = 4;
		REFUSED(&n, &whole, pass, "%s: work: cg_mem.offset: expected a multiple of 8 bytes, got 4", op);
		*m = good;
		m->data = NULL;
		REFUSED(&n, &whole, pass, "%s: work: cg_mem.data: expected memory of %zu bytes, got NULL", op, good.bytes);
		m->place = 3;
		REFUSED(&n, &whole, pass, "%s: work: cg_mem.place: expected CG_HOST=0 or CG_DEVICE=1, got 3", op);
		*m = (struct cg_mem){ .bytes = 0 };
		ACCEPTED(&n, pass);              /* without a workspace the call uses the stream's own */
	}
	net_close(&whole);
}

/* A call is rejected where the last 8 bytes of an argument are the first 8 of another, and one of the two is an output or the workspace. */
static void test_every_pair(void **state)
{
	static _Alignas(64) unsigned char arena[16384];
	struct net whole;
	int pairs = 0;

	(void)state;
	small(&whole);
	for (int k = 0; k < PASSES * (NET_PORTS + 1) * (NET_PORTS + 1); k++) {
		int pass = k % PASSES, a = k / PASSES % (NET_PORTS + 1), b = k / PASSES / (NET_PORTS + 1);
		enum net_flow flow_a = a < NET_PORTS ? flow_of(&net_ports[a], pass) : NET_OUT;
		enum net_flow flow_b = b < NET_PORTS ? flow_of(&net_ports[b], pass) : NET_OUT;
		struct net n = whole;
		struct cg_mem *p = a < NET_PORTS ? net_mem(&n, &net_ports[a]) : &n.call.work;
		struct cg_mem *q = b < NET_PORTS ? net_mem(&n, &net_ports[b]) : &n.call.work;
		char text[112], other[112];

		if (a == b || flow_a == NET_NOT || flow_b == NET_NOT || (flow_a != NET_OUT && flow_b != NET_OUT) || b == NET_PORTS)
			continue;
		assert_true(p->bytes + q->bytes < sizeof arena && q->bytes % 8 == 0);
		q->data = arena;
		p->data = arena + q->bytes - 8;
		snprintf(text, sizeof text, "%s: the range of its memory overlaps that of %s by 8 bytes",
		         a < NET_PORTS ? net_ports[a].name : "work", net_ports[b].name);
		snprintf(other, sizeof other, "%s: the range of its memory overlaps that of %s by 8 bytes", net_ports[b].name,
		         a < NET_PORTS ? net_ports[a].name : "work");
		REFUSED(&n, &whole, pass, "%s: %s", ops[pass], a > b ? text : other);
		pairs++;
	}
	assert_int_equal(pairs, 52 + 88);      /* the numbers of overlaps tried, in a forward and in a backward */
	net_close(&whole);
}

/* For a cell without a cell state, gru, the four arguments of cell states must be absent.  Two inputs may share memory. */
static void test_states(void **state)
{
	static const char *const names[] = { "input_c", "output_c", "output_c_backprop", "input_c_backprop" };
	struct net whole, one;

	(void)state;
	net_begin(&whole, context, stream);
	whole.config.cell = cg_cell_find("gru");
	begin(&whole);
	for (int k = 0; k < 4; k++)
		for (int p = 0; p < NET_PORTS; p++)
			for (int pass = 0; pass < PASSES && !strcmp(net_ports[p].name, names[k]); pass++) {
				struct net n = whole;

				*net_mem(&n, &net_ports[p]) = n.call.input_h;
				if (flow_of(&net_ports[p], pass) != NET_NOT)
					REFUSED(&n, &whole, pass, "rnn: %s: expected absent memory, since cell gru has no cell state", names[k]);
			}
	net_close(&whole);
	small(&whole);
	one = whole;
	one.call.input_c = one.call.input_h;
	ACCEPTED(&one, 0);
	ACCEPTED(&one, 1);
	net_close(&whole);
}

static void test_training(void **state)
{
	struct net n;

	(void)state;
	net_begin(&n, context, stream);
	n.config.training = 0;
	begin(&n);
	assert_null(n.call.reserve.data);
	refused(__LINE__, &n, &n, 1, CG_UNSUPPORTED, "rnn_backprop: expected a plan that was opened with training=1, got one with training=0");
	net_close(&n);
}

/* The reserve must be aligned to 8 bytes in f64, else to 4, also in f16 and bf16, in which it holds numbers of four bytes too. */
static void test_alignment(void **state)
{
	struct net whole, n;

	(void)state;
	for (int dtype = CG_F32; dtype <= CG_BF16; dtype++) {
		int align = dtype == CG_F64 ? 8 : 4;

		net_begin(&whole, context, stream);
		whole.config.dtype = dtype;
		begin(&whole);
		n = whole;
		n.call.reserve.offset = (size_t)align / 2;
		for (int pass = 0; pass < PASSES; pass++)
			REFUSED(&n, &whole, pass, "rnn: reserve: cg_mem.offset: expected a multiple of %d bytes, got %d", align, align / 2);
		n = whole;
		n.call.reserve.data = (char *)n.call.reserve.data + align / 2;
		for (int pass = 0; pass < PASSES; pass++)
			REFUSED(&n, &whole, pass, "rnn: reserve: cg_mem.data: expected an address that is a multiple of %d, got %p", align,
			        n.call.reserve.data);
		net_close(&whole);
	}
}

/* Device memory of each argument and of the workspace is rejected at an offset that is no multiple of an element's size, which is 4 or 8
   bytes in the reserve and 8 in the workspace. */
static void test_device_offsets(void **state)
{
	static const size_t real[] = { [CG_F32] = 4, [CG_F64] = 8, [CG_F16] = 2, [CG_BF16] = 2 };
	struct net whole;
	int tried = 0;

	(void)state;
	for (int k = 0; k < 4 * PASSES * (NET_PORTS + 1); k++) {
		int dtype = k % 4, pass = k / 4 % PASSES, port = k / 4 / PASSES;
		const char *name = port < NET_PORTS ? net_ports[port].name : "work";
		size_t element = port == NET_PORTS ? 8 : strcmp(name, "reserve_space") || dtype == CG_F64 ? real[dtype] : 4;
		char numbers[64];

		if (port < NET_PORTS && flow_of(&net_ports[port], pass) == NET_NOT)
			continue;
		net_begin(&whole, context, stream);
		whole.config.dtype = dtype;
		whole.place = CG_DEVICE;
		begin(&whole);
		for (size_t offset = 1; offset < 2 * element; offset += element / 2 > offset ? offset : element / 2) {
			struct net n = whole;
			struct cg_mem *m = port < NET_PORTS ? net_mem(&n, &net_ports[port]) : &n.call.work;

			if (offset == element)
				continue;
			m->offset = offset;
			assert_int_equal(passes[pass](&n), CG_BAD_ARGUMENT);
			snprintf(numbers, sizeof numbers, "multiple of %zu bytes, got %zu", element, offset);
			/* The message names the reserve by its field in the struct. */
			if (!strstr(cg_message(), numbers) || !strstr(cg_message(), strncmp(name, "reserve", 7) ? name : "reserve"))
				fail_msg("%s: expected \"%s\" in \"%s\"", name, numbers, cg_message());
			tried++;
		}
		ACCEPTED(&whole, pass);
		net_close(&whole);
	}
	assert_true(tried > 200);
}

/* ---- reserves of others ---- */

/* Expects that a backward of n rejects the reserve that `from` wrote, with this message. */
static void foreign(struct net *n, const struct net *from, const char *text)
{
	struct net with = *n;

	with.call.reserve = from->call.reserve;
	assert_true(from->call.reserve.bytes >= n->call.reserve.bytes);
	REFUSED(&with, n, 1, "rnn: reserve: %s", text);
}

static void make(struct net *n, void (*change)(struct net *))
{
	net_begin(n, context, stream);
	n->config.bidirectional = 1;
	n->config.dropout = 0.5;
	change(n);
	begin(n);
}

static const int32_t some_lengths[] = { 2, 3 }, other_lengths[] = { 3, 2 }, whole_lengths[] = { 3, 3 };

static void nothing(struct net *n) { (void)n; }
static void another_seed(struct net *n) { n->config.seed = 1; }
static void another_rate(struct net *n) { n->config.dropout = 0.25; }
static void another_input(struct net *n) { n->config.input = 5; }
static void without_skip(struct net *n) { n->config.input = 4; }
static void with_skip(struct net *n) { n->config.input = 4; n->config.input_mode = CG_SKIP; }
static void batch_major(struct net *n) { n->config.time_major = 0; }
static void with_peepholes(struct net *n) { n->config.options = "peephole"; }
static void another_cell(struct net *n) { n->config.cell = cg_cell_find("lstm_block"); }
static void other_sizes(struct net *n) { n->call.T = 2; n->call.B = 3; }
static void more_sizes(struct net *n) { n->call.T = 4; }
static void another_counter(struct net *n) { n->call.counter = 1; }
static void ragged(struct net *n) { n->call.lengths = some_lengths; }
static void ragged_otherwise(struct net *n) { n->call.lengths = other_lengths; }
static void set_whole_lengths(struct net *n) { n->call.lengths = whole_lengths; }
static void without_dropout(struct net *n) { n->call.no_dropout = 1; }
static void one_direction(struct net *n) { n->config.bidirectional = 0; }
static void another_first(struct net *n) { n->config.bidirectional = 0; n->call.first_step = 3; }

static void test_foreign(void **state)
{
	static const char another[] = "expected a reserve space of this plan, got one of a plan that differs, for example in network, dropout, "
	                              "seed or route";
	static const struct { void (*ours)(struct net *), (*theirs)(struct net *); const char *text; } pairs[] = {
		{ nothing, another_seed, another }, { nothing, another_rate, another }, { nothing, another_input, another },
		{ with_skip, without_skip, another }, { nothing, batch_major, another }, { batch_major, nothing, another },
		{ nothing, with_peepholes, another }, { nothing, another_cell, another },
		{ nothing, other_sizes, "expected a reserve space of a call with T=3, B=2, got one of a call with T=2, B=3" },
		{ nothing, more_sizes, "expected a reserve space of a call with T=3, B=2, got one of a call with T=4, B=2" },
		{ nothing, another_counter,
		  "expected a reserve space of a forward call with the arguments of this call, got one of a call with another counter" },
		{ ragged, nothing,
		  "expected a reserve space of a forward call with the arguments of this call, got one of a call with other lengths" },
		{ ragged, ragged_otherwise,
		  "expected a reserve space of a forward call with the arguments of this call, got one of a call with other lengths" },
		{ nothing, without_dropout,
		  "expected a reserve space of a forward call with the arguments of this call, got one of a call with another no_dropout" },
		{ one_direction, another_first,
		  "expected a reserve space of a forward call with the arguments of this call, got one of a call with another first_step" },
	};
	struct net a, b, with;

	(void)state;
	for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++) {
		make(&a, pairs[k].ours);
		make(&b, pairs[k].theirs);
		foreign(&a, &b, pairs[k].text);
		ACCEPTED(&a, 1);
		net_close(&a);
		net_close(&b);
	}
	/* Lengths that are all T count as no lengths. */
	make(&a, nothing);
	make(&b, set_whole_lengths);
	b.call.reserve.bytes = a.call.reserve.bytes;
	with = a;
	with.call.reserve = b.call.reserve;
	ACCEPTED(&with, 1);
	memset(b.call.reserve.data, 0x5a, b.call.reserve.bytes);
	foreign(&a, &b, "expected a reserve space that a forward call of this plan wrote, got other bytes");
	net_close(&a);
	net_close(&b);
}

static struct cg_cell *cell_of(const char *text)
{
	struct cg_cell *cell;

	if (cg_cell_parse(text, "mine", &cell))
		fail_msg("%s", cg_message());
	return cell;
}

#define MINE(blanks, sum) "cell mine\ngates a_x a_y" blanks "\noutput h\nh = tanh(a_x" blanks sum " a_y)" blanks "\nsave h\n"

/* Comments and blanks of a cell's text do not count; other equations, another name, or gates in another order or on other lines make
   another cell. */
static void test_digests(void **state)
{
	static const struct { const char *text; int same; } cells[] = {
		{ MINE("", "+"), 1 }, { MINE("   ", " +  "), 1 }, { MINE(" # a remark", "\n+ # another\n"), 1 }, { "\n\n" MINE("\t\n# x\n\n", "+"), 1 },
		{ MINE("", "-"), 0 }, { MINE("", "+ 0 *"), 0 },
		{ "cell mine\ngates a_x\ngates a_y\noutput h\nh = tanh(a_x + a_y)\nsave h\n", 0 },
		{ "cell mine\ngates a_y a_x\noutput h\nh = tanh(a_x + a_y)\nsave h\n", 0 },
		{ "cell mine2\ngates a_x a_y\noutput h\nh = tanh(a_x + a_y)\nsave h\n", 0 },
	};
	struct cg_cell *one = cell_of(MINE("", "+")), *other;
	struct net a, b, with;

	(void)state;
	net_begin(&a, context, stream);
	a.config.cell = one;
	begin(&a);
	for (size_t k = 0; k < sizeof cells / sizeof *cells; k++) {
		other = cell_of(cells[k].text);
		if ((cg_cell_digest(one) == cg_cell_digest(other)) != cells[k].same)
			fail_msg("%s", cells[k].text);
		net_begin(&b, context, stream);
		b.config.cell = other;
		begin(&b);
		with = b;
		with.call.reserve = a.call.reserve;
		if (cells[k].same)
			ACCEPTED(&with, 1);
		else
			foreign(&b, &a, "expected a reserve space of this plan, got one of a plan that differs, for example in network, dropout, seed "
			        "or route");
		net_close(&b);
		cg_cell_close(other);
	}
	net_close(&a);
	cg_cell_close(one);
	assert_true(cg_cell_digest(cg_cell_find("lstm")) != cg_cell_digest(cg_cell_find("lstm_block")));
}

/* In device memory a reserve of another network is rejected if its size is wrong, and else only with CELLGRAD_CHECK=1. */
static void test_foreign_on_a_device(void **state)
{
	struct net a, b, with;

	(void)state;
	net_begin(&a, context, stream);
	net_begin(&b, context, stream);
	a.place = b.place = CG_DEVICE;
	b.config.seed = 1;
	begin(&a);
	begin(&b);
	with = a;
	with.call.reserve = b.call.reserve;
	with.call.reserve.bytes -= 64;
	REFUSED(&with, &a, 1, "rnn_backprop: reserve_space: expected [reserve=%zu] f32, %zu bytes, got %zu bytes",
	        a.call.reserve.bytes / 4, a.call.reserve.bytes, a.call.reserve.bytes - 64);
	with.call.reserve.bytes += 64;
	ACCEPTED(&with, 1);
	assert_int_equal(setenv("CELLGRAD_CHECK", "1", 1), 0);
	REFUSED(&with, &a, 1, "rnn: reserve: expected a reserve space that a forward call of this plan wrote, got other bytes");
	ACCEPTED(&a, 0);
	ACCEPTED(&b, 0);
	REFUSED(&with, &a, 1, "rnn: reserve: expected a reserve space of this plan, got one of a plan that differs, for example in "
	        "network, dropout, seed or route");
	ACCEPTED(&a, 1);
	assert_int_equal(setenv("CELLGRAD_CHECK", "maybe", 1), 0);
	REFUSED(&a, &a, 0, "CELLGRAD_CHECK: expected 0 or 1, got 'maybe'");
	assert_int_equal(unsetenv("CELLGRAD_CHECK"), 0);
	net_close(&a);
	net_close(&b);
}

/* A call of no steps and 2^50 rows (2^20 where addresses have 32 bits), with absent states, is rejected without a loop over its rows. */
static void test_many_rows(void **state)
{
	struct net whole, n;

	(void)state;
	small(&whole);
	n = whole;
	n.call.T = 0;
	n.call.B = (int64_t)1 << (sizeof(size_t) < 8 ? 20 : 50);
	n.call.input_h = n.call.input_c = n.call.output_h = n.call.output_c = (struct cg_mem){ .bytes = 0 };
	n.call.output_h_backprop = n.call.output_c_backprop = n.call.input_h_backprop = n.call.input_c_backprop = n.call.input_h;
	for (int pass = 0; pass < PASSES; pass++) {
		assert_int_equal(passes[pass](&n), CG_BAD_ARGUMENT);
		assert_non_null(strstr(cg_message(), ": work: expected at least "));
	}
	net_close(&whole);
}

/* ---- how long things live ---- */

static void test_lengths_are_copied(void **state)
{
	int32_t lengths[] = { 2, 3 };
	struct net n;
	uint64_t before, after;

	(void)state;
	net_begin(&n, context, stream);
	n.config.time_major = 0;
	n.call.lengths = lengths;
	begin(&n);
	ACCEPTED(&n, 1);
	assert_int_equal(net_print(&n, &before), CG_OK);
	lengths[0] = 1;
	REFUSED(&n, &n, 1, "rnn: reserve: expected a reserve space of a forward call with the arguments of this call, got one of a call "
	        "with other lengths");
	lengths[0] = 2;
	ACCEPTED(&n, 1);
	assert_int_equal(net_print(&n, &after), CG_OK);
	assert_int_equal(before, after);
	net_close(&n);
}

static void test_closing_order(void **state)
{
	/* The orders in which the cell (C), the context (X), the stream (S) and the plan (P) are closed. */
	static const char *const orders[] = { "CXSP", "CXPS", "XCSP", "XPCS", "PXCS", "SPXC", "CSPX", "PSCX" };

	(void)state;
	for (size_t k = 0; k < sizeof orders / sizeof *orders; k++) {
		struct cg_context *own;
		struct cg_stream *owns;
		struct cg_cell *cell;
		struct net n;
		int runs = 1;

		assert_int_equal(cg_open("cpu", &own), CG_OK);
		assert_int_equal(cg_stream_open(own, NULL, &owns), CG_OK);
		assert_int_equal(cg_cell_parse("cell x\ngates a_i a_o\nstate c\noutput h\nc = sigmoid(a_i) * (1 + c_prev)\n"
		                               "h = tanh(c + a_o)\nsave c h\n", "x", &cell), CG_OK);
		net_begin(&n, own, owns);
		n.config.cell = cell;
		begin(&n);
		for (const char *order = orders[k]; *order; order++) {
			if (*order == 'C')
				cg_cell_close(cell);
			else if (*order == 'X')
				cg_close(own);
			else if (*order == 'S')
				cg_stream_close(owns);
			else
				net_close(&n);
			runs &= *order == 'C' || *order == 'X';
			for (int pass = 0; pass < PASSES && runs; pass++)
				ACCEPTED(&n, pass);
		}
	}
}

static void test_fork(void **state)
{
	struct net n;
	pid_t child;
	int status;

	(void)state;
	small(&n);
	fflush(NULL);
	child = fork();
	if (!child) {
		struct cg_rnn *rnn = (void *)&rnn;
		struct cg_rnn_sizes sizes;
		int right = net_forward(&n) == CG_UNSUPPORTED && strstr(cg_message(), "fork") && net_backward(&n) == CG_UNSUPPORTED &&
		            cg_rnn_open(context, &n.config, &rnn) == CG_UNSUPPORTED && !rnn &&
		            cg_rnn_sizes(n.rnn, 3, 2, NULL, &sizes) == CG_OK;

		net_close(&n);
		_exit(right ? 0 : 1);
	}
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	ACCEPTED(&n, 1);
	net_close(&n);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers), cmocka_unit_test(test_longer_memory), cmocka_unit_test(test_every_port_in_every_way), cmocka_unit_test(test_messages),
		cmocka_unit_test(test_work), cmocka_unit_test(test_every_pair), cmocka_unit_test(test_states),
		cmocka_unit_test(test_training), cmocka_unit_test(test_alignment), cmocka_unit_test(test_device_offsets),
		cmocka_unit_test(test_foreign), cmocka_unit_test(test_digests),
		cmocka_unit_test(test_foreign_on_a_device), cmocka_unit_test(test_many_rows), cmocka_unit_test(test_lengths_are_copied),
		cmocka_unit_test(test_closing_order), cmocka_unit_test(test_fork),
		cmocka_unit_test_setup(test_nothing_left, close_all),
	};

	counted_begin();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("rnn_call", tests, open_cpu, NULL);
}
