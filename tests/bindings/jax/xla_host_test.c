/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls the handlers of bindings/jax as XLA does, with call frames that this test writes. Outputs, gradients and initial params
 * equal those of the library's own calls, to the bit; wrong frames are refused, each with its message; calls run in threads; cells are
 * given as text.
 */
#include <limits.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "bindings/jax/handlers.h"

enum { T = 5, B = 3, I = 4, U = 6, LAYERS = 2, MOST = 40000, RESERVE_BYTES = 20000, BUFFERS = 10, RESULTS = 4, ATTRIBUTES = 16 };
enum argument { INPUT, INPUT_H, INPUT_C, PARAMS, LENGTHS, COUNTER, RESERVE, D_OUTPUT, D_H, D_C };

/* A handler returns an error object of XLA; in this test the object is a struct xla_error of the test. */
struct xla_error { int code; char message[1200]; };

/* A call frame with everything that it points to. */
struct host {
	struct xla_error error;
	struct xla_frame frame;
	struct xla_buffer arguments[BUFFERS], results[RESULTS];
	void *argument_items[BUFFERS], *result_items[RESULTS];
	int types[BUFFERS];
	int64_t dims[BUFFERS + RESULTS][3];
	int attribute_types[ATTRIBUTES];
	struct xla_bytes names[ATTRIBUTES], *name_items[ATTRIBUTES];
	void *attribute_items[ATTRIBUTES];
	struct xla_scalar scalars[ATTRIBUTES];
	int64_t integers[ATTRIBUTES];
	struct xla_bytes texts[ATTRIBUTES];
	double leak;
	double dropout;
	_Alignas(64) char memory[BUFFERS + RESULTS][MOST];    /* XLA aligns buffers to 64 bytes */
};

static const struct { int xla, ours; size_t bytes; } DTYPES[] = {
	{ XLA_F32, CG_F32, 4 }, { XLA_F64, CG_F64, 8 }, { XLA_F16, CG_F16, 2 }, { XLA_BF16, CG_BF16, 2 },
};
static const char LEAKY[] = "cell leaky\ngates  a\noutput h\nparam  leak = 0.1\n\nh = tanh(a) + leak * h_prev\nsave h\n";
static const char TWO[] = "cell two\ngates  a\nstate  c n\noutput h\n\nc = a + c_prev\nn = tanh(n_prev + a)\nh = n * c\nsave c n h\n";
/* The network of frames: the cell's name or text, the cell, how many cell states it has, and the network's layers and directions. */
static struct { const char *text; const struct cg_cell *cell; int states, layers, directions; } net = { "lstm", NULL, 1, LAYERS, 2 };
static _Thread_local struct xla_error *made;     /* the object that the next error is written to */

static struct xla_error *create_error(struct xla_error_create *create)
{
	assert_true(create->size >= sizeof *create);
	assert_null(create->extensions);
	made->code = create->code;
	snprintf(made->message, sizeof made->message, "%s", create->message);
	return made;
}

static const struct xla_api api = { .size = sizeof api, .create_error = create_error };

/* ---- frames ---- */

static int add_attribute(struct host *h, const char *name, int type, void *item)
{
	struct xla_attributes *a = &h->frame.attributes;
	int k = (int)a->count++;

	assert_true(k < ATTRIBUTES);
	h->names[k] = (struct xla_bytes){ name, strlen(name) };
	h->name_items[k] = &h->names[k];
	h->attribute_types[k] = type;
	h->attribute_items[k] = item;
	return k;
}

static void add_integer(struct host *h, const char *name, int64_t value)
{
	int k = (int)h->frame.attributes.count;

	h->integers[k] = value;
	h->scalars[k] = (struct xla_scalar){ XLA_S64, &h->integers[k] };
	add_attribute(h, name, XLA_SCALAR, &h->scalars[k]);
}

static void add_text(struct host *h, const char *name, const char *text)
{
	int k = (int)h->frame.attributes.count;

	h->texts[k] = (struct xla_bytes){ text, strlen(text) };
	add_attribute(h, name, XLA_STRING, &h->texts[k]);
}

/* Returns the index of an attribute of the frame, which must have that attribute. */
static int find(const struct host *h, const char *name)
{
	for (int k = 0; k < h->frame.attributes.count; k++)
		if (h->names[k].length == strlen(name) && !memcmp(h->names[k].data, name, strlen(name)))
			return k;
	fail_msg("there is no attribute %s", name);
	return -1;
}

static void set_integer(struct host *h, const char *name, int64_t value)
{
	h->integers[find(h, name)] = value;
}

static void set_text(struct host *h, const char *name, const char *text)
{
	h->texts[find(h, name)] = (struct xla_bytes){ text, strlen(text) };
}

/* Sets a buffer of up to three dimensions; d1 or d2 of 0 means that this dimension is absent.  An argument of a floating dtype gets numbers
   of either sign, of magnitude 0.25 or less; all other memory gets bytes of 0xa5. */
static void set_buffer(struct host *h, struct xla_buffer *b, int place, int dtype, int64_t d0, int64_t d1, int64_t d2)
{
	int64_t *dims = h->dims[place], n = d0 * (d1 ? d1 : 1) * (d2 ? d2 : 1);
	char *data = h->memory[place];

	dims[0] = d0, dims[1] = d1, dims[2] = d2;
	*b = (struct xla_buffer){ sizeof *b, NULL, dtype, data, 1 + !!d1 + !!d2, dims };
	memset(data, 0xa5, MOST);
	for (int64_t k = 0; place < BUFFERS && k < n; k++) {
		int64_t salt = k * 37 + place * 11;
		double value = (double)(salt % 101 - 50) / 200;
		float narrow = (float)value;
		uint16_t half = (uint16_t)((salt & 1) << 15 | 0x3000 | (salt & 0x3ff)), brain = (uint16_t)((salt & 1) << 15 | 0x3d80 | (salt & 0x7f));

		switch (dtype) {
		case XLA_F64:  memcpy(data + 8 * k, &value, 8); break;
		case XLA_F32:  memcpy(data + 4 * k, &narrow, 4); break;
		case XLA_F16:  memcpy(data + 2 * k, &half, 2); break;
		case XLA_BF16: memcpy(data + 2 * k, &brain, 2); break;
		}
	}
	assert_true(n * (dtype == XLA_U8 ? 1 : 8) <= MOST);
}

/* Sets the config of the same network as set_attributes() sets, for the library's own calls. */
static void set_config(struct cg_rnn_config *config, int dtype)
{
	cg_rnn_config_init(config, sizeof *config);
	config->cell = net.cell ? net.cell : cg_cell_find(net.text);
	config->dtype = dtype;
	config->layers = net.layers;
	config->bidirectional = net.directions - 1;
	config->input = I;
	config->units = U;
	config->dropout = 0.5;
	config->states_major = 1;
}

static void set_attributes(struct host *h)
{
	const struct { const char *name; int64_t value; } integers[] = {
		{ "layers", net.layers }, { "bidirectional", net.directions - 1 }, { "input_mode", 0 }, { "time_major", 1 }, { "reverse", 0 }, { "training", 1 },
		{ "units", U }, { "proj", 0 }, { "drop", 1 }, { "states", net.states },
	};
	const char *const texts[][2] = { { "cell", net.text }, { "options", "" }, { "value_names", "" } };

	for (size_t k = 0; k < sizeof integers / sizeof *integers; k++)
		add_integer(h, integers[k].name, integers[k].value);
	for (size_t k = 0; k < sizeof texts / sizeof *texts; k++)
		add_text(h, texts[k][0], texts[k][1]);
	h->dropout = 0.5;
	h->scalars[ATTRIBUTES - 1] = (struct xla_scalar){ XLA_F64, &h->dropout };
	add_attribute(h, "dropout", XLA_SCALAR, &h->scalars[ATTRIBUTES - 1]);
}

static size_t params_bytes(int dtype)
{
	struct cg_rnn_config config;
	size_t bytes;

	set_config(&config, dtype);
	assert_int_equal(cg_rnn_params(&config, &bytes), CG_OK);
	return bytes;
}

/* Sets a call frame of the forward or the backward handler, in the d-th dtype. */
static void set_frame(struct host *h, int is_backward, int d)
{
	static const int32_t lengths[B] = { 2, T, 0 };
	static const uint32_t counter[2] = { 7, 0x80000001 };
	int dtype = DTYPES[d].xla, states = net.directions * net.layers, D = net.directions;
	int64_t params = (int64_t)(params_bytes(DTYPES[d].ours) / DTYPES[d].bytes);
	struct xla_buffer *a = h->arguments, *r = h->results;

	memset(h, 0, offsetof(struct host, memory));
	h->frame = (struct xla_frame){
		.size = sizeof h->frame, .api = &api, .stage = XLA_EXECUTE,
		.arguments = { sizeof h->frame.arguments, NULL, is_backward ? BUFFERS : RESERVE, h->types, h->argument_items },
		.results = { sizeof h->frame.results, NULL, RESULTS, h->types, h->result_items },
		.attributes = { sizeof h->frame.attributes, NULL, 0, h->attribute_types, h->name_items, h->attribute_items },
	};
	for (int k = 0; k < BUFFERS; k++)
		h->types[k] = XLA_BUFFER, h->argument_items[k] = &a[k];
	for (int k = 0; k < RESULTS; k++)
		h->result_items[k] = &r[k];
	set_attributes(h);
	set_buffer(h, &a[INPUT], INPUT, dtype, T, B, I);
	set_buffer(h, &a[INPUT_H], INPUT_H, dtype, states, B, U);
	set_buffer(h, &a[INPUT_C], INPUT_C, dtype, net.states * states, B, U);
	set_buffer(h, &a[PARAMS], PARAMS, dtype, params, 0, 0);
	set_buffer(h, &a[LENGTHS], LENGTHS, XLA_S32, B, 0, 0);
	memcpy(a[LENGTHS].data, lengths, sizeof lengths);
	set_buffer(h, &a[COUNTER], COUNTER, XLA_U32, 2, 0, 0);
	memcpy(a[COUNTER].data, counter, sizeof counter);
	if (is_backward) {
		set_buffer(h, &a[RESERVE], RESERVE, XLA_U8, 0, 0, 0);
		set_buffer(h, &a[D_OUTPUT], D_OUTPUT, dtype, T, B, D * U);
		set_buffer(h, &a[D_H], D_H, dtype, states, B, U);
		set_buffer(h, &a[D_C], D_C, dtype, net.states * states, B, U);
		set_buffer(h, &r[0], BUFFERS, dtype, T, B, I);
		set_buffer(h, &r[3], BUFFERS + 3, dtype, params, 0, 0);
	} else {
		set_buffer(h, &r[0], BUFFERS, dtype, T, B, D * U);
		set_buffer(h, &r[3], BUFFERS + 3, XLA_U8, RESERVE_BYTES, 0, 0);
	}
	set_buffer(h, &r[1], BUFFERS + 1, dtype, states, B, U);
	set_buffer(h, &r[2], BUFFERS + 2, dtype, net.states * states, B, U);
}

static struct xla_error *call(struct host *h, struct xla_error *(*handler)(struct xla_frame *))
{
	made = &h->error;
	return handler(&h->frame);
}

static void call_well(struct host *h, struct xla_error *(*handler)(struct xla_frame *))
{
	struct xla_error *error = call(h, handler);

	if (error)
		fail_msg("%s", error->message);
}

/* Runs a forward, and the backward that reads that forward's reserve space. */
static void run_both(struct host *forward, struct host *backward, int d)
{
	set_frame(forward, 0, d);
	call_well(forward, cellgrad_jax_forward);
	set_frame(backward, 1, d);
	backward->arguments[RESERVE] = forward->results[3];
	call_well(backward, cellgrad_jax_backward);
}

/* ---- answers ---- */

static size_t size_of(const struct xla_buffer *b, size_t bytes)
{
	for (int64_t d = 0; d < b->rank; d++)
		bytes *= (size_t)b->dims[d];
	return bytes;
}

/* Runs the library's own forward and backward with the frames' arguments; the results go to `mine`. */
static void run_library(struct host *f, struct host *g, int d, char mine[][MOST])
{
	struct cg_context *context;
	struct cg_stream *stream;
	struct cg_rnn_config config;
	struct cg_rnn_call call;
	struct cg_rnn *rnn;
	size_t bytes = DTYPES[d].bytes;
	const char *where = getenv("CELLGRAD_BACKEND");

#define AT(b) cg_host((b).data, size_of(&(b), bytes))
#define OWN(k, b) cg_host(mine[k], size_of(&(b), bytes))
#define STATE(data, b, k) cg_host((char *)(data) + (k) * size_of(&(b), bytes) / net.states, size_of(&(b), bytes) / net.states)
	set_config(&config, DTYPES[d].ours);
	assert_int_equal(cg_open(where ? where : "cpu", &context), CG_OK);
	assert_int_equal(cg_stream_open(context, NULL, &stream), CG_OK);
	assert_int_equal(cg_rnn_open(context, &config, &rnn), CG_OK);
	cg_rnn_call_init(&call, sizeof call);
	call.T = T;
	call.B = B;
	call.lengths = f->arguments[LENGTHS].data;
	call.counter = 0x8000000100000007;
	call.params = AT(f->arguments[PARAMS]);
	call.input = AT(f->arguments[INPUT]);
	call.input_h = AT(f->arguments[INPUT_H]);
	call.input_c = STATE(f->arguments[INPUT_C].data, f->arguments[INPUT_C], 0);
	call.output = OWN(0, f->results[0]);
	call.output_h = OWN(1, f->results[1]);
	call.output_c = STATE(mine[2], f->results[2], 0);
	if (net.states == 2) {
		call.input_s[0] = STATE(f->arguments[INPUT_C].data, f->arguments[INPUT_C], 1);
		call.output_s[0] = STATE(mine[2], f->results[2], 1);
		call.output_s_backprop[0] = STATE(g->arguments[D_C].data, g->arguments[D_C], 1);
		call.input_s_backprop[0] = STATE(mine[6], g->results[2], 1);
	}
	call.reserve = cg_host(mine[3], RESERVE_BYTES);
	assert_int_equal(cg_rnn_forward(stream, rnn, &call), CG_OK);
	call.output_backprop = AT(g->arguments[D_OUTPUT]);
	call.output_h_backprop = AT(g->arguments[D_H]);
	call.output_c_backprop = STATE(g->arguments[D_C].data, g->arguments[D_C], 0);
	call.input_backprop = OWN(4, g->results[0]);
	call.input_h_backprop = OWN(5, g->results[1]);
	call.input_c_backprop = STATE(mine[6], g->results[2], 0);
	call.params_backprop = OWN(7, g->results[3]);
	assert_int_equal(cg_rnn_backward(stream, rnn, &call), CG_OK);
	cg_rnn_close(rnn);
	cg_stream_close(stream);
	cg_close(context);
}

static struct host one, two;
static _Alignas(64) char own[2 * RESULTS][MOST];

static void check_answers(void)
{
	for (int d = 0; d < 4; d++) {
		run_both(&one, &two, d);
		run_library(&one, &two, d, own);
		for (int k = 0; k < RESULTS; k++) {
			assert_memory_equal(own[RESULTS + k], two.results[k].data, size_of(&two.results[k], DTYPES[d].bytes));
			/* The reserve is not compared: its buffer is longer than what a forward pass writes, and the bytes behind that
			 * differ between the two buffers. */
			if (k < 3)
				assert_memory_equal(own[k], one.results[k].data, size_of(&one.results[k], DTYPES[d].bytes));
		}
	}
}

static void test_answers(void **state)
{
	(void)state;
	check_answers();
}

/* An array of cell states has, for a cell with two of them, first all of the first state and then all of the second. */
static void test_states(void **state)
{
	struct cg_cell *cell;

	(void)state;
	assert_int_equal(cg_cell_parse(TWO, "two", &cell), CG_OK);
	net.text = TWO, net.cell = cell, net.states = 2, net.directions = 1;
	check_answers();
	set_frame(&one, 0, 0);
	one.results[2].dims[2] = 1;
	set_integer(&one, "states", 4);
	assert_non_null(call(&one, cellgrad_jax_forward));
	net.text = "lstm", net.cell = NULL, net.states = 1, net.directions = 2;
	cg_cell_close(cell);
}

static void test_absent(void **state)
{
	static _Alignas(64) char outputs[MOST], gradients[MOST];

	(void)state;
	run_both(&one, &two, 0);
	memcpy(outputs, one.results[1].data, MOST);
	memcpy(gradients, two.results[3].data, MOST);
	/* Without an output, forward gives the same output_h, and a reserve from which backward, with no result but the gradient of params,
	 * gives the same gradient; backward does not write the first byte of the memory of the absent input gradient. */
	set_frame(&one, 0, 0);
	set_buffer(&one, &one.results[0], BUFFERS, XLA_F32, 0, 0, 0);
	call_well(&one, cellgrad_jax_forward);
	assert_memory_equal(outputs, one.results[1].data, MOST);
	set_buffer(&two, &two.results[3], BUFFERS + 3, XLA_F32, (int64_t)params_bytes(CG_F32) / 4, 0, 0);
	for (int k = 0; k < 3; k++)
		set_buffer(&two, &two.results[k], BUFFERS + k, XLA_F32, 0, 0, 0);
	two.arguments[RESERVE] = one.results[3];
	call_well(&two, cellgrad_jax_backward);
	assert_memory_equal(gradients, two.results[3].data, MOST);
	assert_int_equal(((unsigned char *)two.results[0].data)[0], 0xa5);
	/* Absent states and lengths mean zeros and whole rows: forward gives the same outputs as with states of zeros and lengths of T. */
	set_frame(&one, 0, 0);
	set_frame(&two, 0, 0);
	for (int k = 0; k < B; k++)
		((int32_t *)two.arguments[LENGTHS].data)[k] = T;
	memset(two.arguments[INPUT_H].data, 0, MOST);
	memset(two.arguments[INPUT_C].data, 0, MOST);
	set_buffer(&one, &one.arguments[INPUT_H], INPUT_H, XLA_F32, 0, 0, 0);
	set_buffer(&one, &one.arguments[INPUT_C], INPUT_C, XLA_F32, 0, 0, 0);
	set_buffer(&one, &one.arguments[LENGTHS], LENGTHS, XLA_S32, 0, 0, 0);
	one.arguments[LENGTHS].data = NULL;
	call_well(&one, cellgrad_jax_forward);
	call_well(&two, cellgrad_jax_forward);
	for (int k = 0; k < 3; k++)
		assert_memory_equal(one.results[k].data, two.results[k].data, MOST);
}

static void test_masks(void **state)
{
	(void)state;
	/* Another bit in either half of the 64-bit counter, or the attribute drop=0, gives another output. */
	for (int k = 0; k < 3; k++) {
		set_frame(&one, 0, 0);
		set_frame(&two, 0, 0);
		if (k < 2)
			((uint32_t *)two.arguments[COUNTER].data)[k] ^= 1;
		else
			set_integer(&two, "drop", 0);
		call_well(&one, cellgrad_jax_forward);
		call_well(&two, cellgrad_jax_forward);
		assert_memory_not_equal(one.results[0].data, two.results[0].data, size_of(&one.results[0], 4));
	}
}

static void test_stages(void **state)
{
	struct xla_metadata about = { .size = sizeof about, .version = { .major_version = 9, .minor_version = 9 }, .traits = 5 };
	struct xla_metadata_extension asked = { { sizeof asked, XLA_METADATA, NULL }, &about };
	struct xla_extension other = { sizeof other, 77, &asked.base };

	(void)state;
	/* XLA queries a handler's metadata by a frame without arguments. */
	memset(&one.frame, 0, sizeof one.frame);
	one.frame.extensions = &other;
	call_well(&one, cellgrad_jax_forward);
	assert_int_equal(about.version.major_version, XLA_MAJOR_VERSION);
	assert_int_equal(about.version.minor_version, XLA_MINOR_VERSION);
	assert_int_equal(about.traits, 0);
	for (int stage = 0; stage < XLA_EXECUTE; stage++) {
		set_frame(&one, 1, 0);
		one.frame.stage = stage;
		call_well(&one, cellgrad_jax_forward);
		call_well(&one, cellgrad_jax_backward);
		call_well(&one, cellgrad_jax_init_params);
		assert_int_equal(((unsigned char *)one.results[0].data)[0], 0xa5);
	}
	assert_string_equal(cellgrad_jax_version(), cg_version());
}

static void test_empty(void **state)
{
	(void)state;
	set_frame(&one, 0, 0);
	for (int k = 0; k < 3; k++) {
		one.arguments[k].dims[1] = 0;
		one.arguments[k].data = NULL;
		one.results[k].dims[1] = 0;
		one.results[k].data = NULL;
	}
	one.arguments[LENGTHS].dims[0] = 0;
	call_well(&one, cellgrad_jax_forward);
}

static void test_init(void **state)
{
	struct cg_context *context;
	struct cg_rnn_config config;
	struct cg_rnn *rnn;
	size_t bytes = params_bytes(CG_F32);

	(void)state;
	set_frame(&one, 0, 0);
	one.frame.arguments.count = one.frame.results.count = 1;
	one.arguments[0] = one.arguments[COUNTER];
	set_buffer(&one, &one.results[0], BUFFERS, XLA_F32, (int64_t)bytes / 4, 0, 0);
	add_integer(&one, "input", I);
	add_text(&one, "rules", "xavier_uniform orthogonal zeros unit_forget");
	call_well(&one, cellgrad_jax_init_params);
	set_config(&config, CG_F32);
	assert_int_equal(cg_open("cpu", &context), CG_OK);
	assert_int_equal(cg_rnn_open(context, &config, &rnn), CG_OK);
	assert_int_equal(cg_rnn_init_params(rnn, "xavier_uniform orthogonal zeros unit_forget", 0x8000000100000007, cg_host(own[0], bytes)), CG_OK);
	assert_memory_equal(own[0], one.results[0].data, bytes);
	cg_rnn_close(rnn);
	cg_close(context);
	set_text(&one, "rules", "orthogonal orthogonal orthogonal");
	assert_non_null(call(&one, cellgrad_jax_init_params));
	assert_non_null(strstr(one.error.message, "rnn_init_params: "));
}

/* Sets a forward frame of a network of one layer, in f32, whose cell is given as text. */
static void set_cell(struct host *h, const char *text)
{
	int64_t n = I * U + U * U + 2 * U;

	set_frame(h, 0, 0);
	set_text(h, "cell", text);
	set_integer(h, "layers", 1);
	set_integer(h, "bidirectional", 0);
	set_buffer(h, &h->arguments[PARAMS], PARAMS, XLA_F32, n, 0, 0);
	set_buffer(h, &h->arguments[INPUT_H], INPUT_H, XLA_F32, 1, B, U);
	set_buffer(h, &h->arguments[INPUT_C], INPUT_C, XLA_F32, 0, 0, 0);
	set_buffer(h, &h->results[0], BUFFERS, XLA_F32, T, B, U);
	set_buffer(h, &h->results[1], BUFFERS + 1, XLA_F32, 1, B, U);
	set_buffer(h, &h->results[2], BUFFERS + 2, XLA_F32, 0, 0, 0);
}

static void test_cells(void **state)
{
	char text[sizeof LEAKY + 16];

	(void)state;
	set_cell(&one, LEAKY);
	call_well(&one, cellgrad_jax_forward);
	/* Another value of the cell's param gives another output. */
	set_cell(&two, LEAKY);
	set_text(&two, "value_names", "leak");
	two.leak = 0.7;
	two.scalars[ATTRIBUTES - 2] = (struct xla_scalar){ XLA_F64, &two.leak };
	add_attribute(&two, "value_leak", XLA_SCALAR, &two.scalars[ATTRIBUTES - 2]);
	call_well(&two, cellgrad_jax_forward);
	assert_memory_not_equal(one.results[0].data, two.results[0].data, size_of(&one.results[0], 4));
	/* The handlers get more cells than the handlers keep, and then the first cell again. */
	for (int k = 0; k < 80; k++) {
		snprintf(text, sizeof text, "%s#%d\n", LEAKY, k);
		set_cell(&two, text);
		call_well(&two, cellgrad_jax_forward);
		assert_memory_equal(one.results[0].data, two.results[0].data, MOST);
	}
	set_cell(&two, LEAKY);
	call_well(&two, cellgrad_jax_forward);
	assert_memory_equal(one.results[0].data, two.results[0].data, MOST);
}

/* ---- what is wrong ---- */


static void no_cell(struct host *h)        { h->names[find(h, "cell")].length = 1; }
static void no_units(struct host *h)       { h->names[find(h, "units")].length = 1; }
static void no_dropout(struct host *h)     { h->scalars[ATTRIBUTES - 1].dtype = XLA_F32; }
static void integer_text(struct host *h)   { h->attribute_types[find(h, "options")] = XLA_SCALAR; }
static void unknown_cell(struct host *h)   { set_text(h, "cell", "lstn"); }
static void wrong_cell(struct host *h)     { set_text(h, "cell", "cell x\noutput h\nh = b\n"); }
static void zero_byte(struct host *h)      { h->texts[find(h, "cell")] = (struct xla_bytes){ "ls\0m", 4 }; }
static void unknown_option(struct host *h) { set_text(h, "options", "peephol"); }
static void values_missing(struct host *h) { set_text(h, "value_names", "a,b"); }
static void many_layers(struct host *h)    { set_integer(h, "layers", (int64_t)INT_MAX + 1); }
static void no_layers(struct host *h)      { set_integer(h, "layers", 0); }
static void wrong_mode(struct host *h)     { set_integer(h, "input_mode", 7); }
static void wrong_drop(struct host *h)     { set_integer(h, "drop", 2); }
static void more_states(struct host *h)    { set_integer(h, "states", 2); }
static void five_states(struct host *h)    { set_integer(h, "states", 5); }
static void odd_states(struct host *h)     { set_integer(h, "states", 3); set_buffer(h, &h->arguments[INPUT_C], INPUT_C, XLA_F32, 1, 0, 0); }
static void wrong_dropout(struct host *h)  { h->dropout = 1.5; }
static void few_arguments(struct host *h)  { h->frame.arguments.count = 4; }
static void few_results(struct host *h)    { h->frame.results.count = 3; }
static void no_buffer(struct host *h)      { h->types[2] = 9; }
static void integer_input(struct host *h)  { h->arguments[INPUT].dtype = XLA_S32; }
static void unknown_dtype(struct host *h)  { h->arguments[INPUT].dtype = 15; }
static void flat_input(struct host *h)     { h->arguments[INPUT].rank = 2; }
static void wide_h(struct host *h)         { h->arguments[INPUT_H].dtype = XLA_F64; }
static void few_params(struct host *h)     { h->arguments[PARAMS].dims[0]--; }
static void many_params(struct host *h)    { h->arguments[PARAMS].dims[0]++; }
static void few_lengths(struct host *h)    { h->arguments[LENGTHS].dims[0] = 2; }
static void long_lengths(struct host *h)   { h->arguments[LENGTHS].dtype = XLA_U32; }
static void long_row(struct host *h)       { ((int32_t *)h->arguments[LENGTHS].data)[1] = T + 1; }
static void negative_row(struct host *h)   { ((int32_t *)h->arguments[LENGTHS].data)[1] = -1; }
static void one_counter(struct host *h)    { h->arguments[COUNTER].dims[0] = 1; }
static void small_result(struct host *h)   { h->results[0].dims[0]--; }
static void small_reserve(struct host *h)  { h->results[3].dims[0] = 64; }
static void long_options(struct host *h)
{
	static char text[2000];

	memset(text, 'x', sizeof text - 1);
	set_text(h, "options", text);
}
static void many_values(struct host *h)
{
	static char text[2 * (CG_CELL_NAMES + 1) + 1];

	for (int k = 0; k <= CG_CELL_NAMES; k++)
		memcpy(text + 2 * k, "a,", 2);
	set_text(h, "value_names", text);
	h->scalars[ATTRIBUTES - 2] = (struct xla_scalar){ XLA_F64, &h->dropout };
	add_attribute(h, "value_a", XLA_SCALAR, &h->scalars[ATTRIBUTES - 2]);
}

static const struct { void (*spoil)(struct host *); int code; const char *words; } WRONG[] = {
	{ no_cell,        XLA_INVALID_ARGUMENT, "cell: expected a text attribute" },
	{ no_units,       XLA_INVALID_ARGUMENT, "units: expected a scalar attribute of type s64, got no attribute of this name and type" },
	{ no_dropout,     XLA_INVALID_ARGUMENT, "dropout: expected a scalar attribute of type f64, got no attribute of this name and type" },
	{ integer_text,   XLA_INVALID_ARGUMENT, "options: expected a text attribute" },
	{ unknown_cell,   XLA_INVALID_ARGUMENT, "cell: there is no cell 'lstn'" },
	{ wrong_cell,     XLA_INVALID_ARGUMENT, "cell:3:" },
	{ zero_byte,      XLA_INVALID_ARGUMENT, "cell: expected a text attribute, got a text with a zero byte" },
	{ unknown_option, XLA_INVALID_ARGUMENT, "peephol" },
	{ values_missing, XLA_INVALID_ARGUMENT, "value_a: expected a scalar attribute of type f64, got no attribute of this name and type" },
	{ many_layers,    XLA_INVALID_ARGUMENT, "layers: expected 0 to 2147483647, got 2147483648" },
	{ no_layers,      XLA_INVALID_ARGUMENT, "layers" },
	{ wrong_mode,     XLA_INVALID_ARGUMENT, "input_mode" },
	{ wrong_drop,     XLA_INVALID_ARGUMENT, "drop: expected 0 to 1, got 2" },
	{ more_states,    XLA_INVALID_ARGUMENT, "input_s2: expected absent memory, since cell lstm has 1 cell state" },
	{ five_states,    XLA_INVALID_ARGUMENT, "states: expected 1 to 4, got 5" },
	{ odd_states,     XLA_INVALID_ARGUMENT, "input_c: expected 3 cell states of equal size, got 4 bytes in all" },
	{ wrong_dropout,  XLA_INVALID_ARGUMENT, "dropout" },
	{ few_arguments,  XLA_INVALID_ARGUMENT, "expected 6 arguments and 4 results, got 4 and 4" },
	{ few_results,    XLA_INVALID_ARGUMENT, "expected 6 arguments and 4 results, got 6 and 3" },
	{ no_buffer,      XLA_INVALID_ARGUMENT, "expected buffers" },
	{ integer_input,  XLA_INVALID_ARGUMENT, "input: expected elements of type f32, f64, f16 or bf16, got s32" },
	{ unknown_dtype,  XLA_INVALID_ARGUMENT, "input: expected elements of type f32, f64, f16 or bf16, got another type" },
	{ flat_input,     XLA_INVALID_ARGUMENT, "input: expected 3 dimensions, got 2" },
	{ wide_h,         XLA_INVALID_ARGUMENT, "input_h: expected elements of type f32, got f64" },
	{ few_params,     XLA_INVALID_ARGUMENT, "params" },
	{ many_params,    XLA_INVALID_ARGUMENT, "params" },
	{ few_lengths,    XLA_INVALID_ARGUMENT, "lengths: expected none or 3 numbers, one for each row of the batch, got 2" },
	{ long_lengths,   XLA_INVALID_ARGUMENT, "lengths: expected elements of type s32, got u32" },
	{ long_row,       XLA_INVALID_ARGUMENT, "sequence_lengths[1]: expected 0 to T=5, got 6" },
	{ negative_row,   XLA_INVALID_ARGUMENT, "sequence_lengths[1]: expected 0 to T=5, got -1" },
	{ one_counter,    XLA_INVALID_ARGUMENT, "counter: expected 2 numbers, the halves of a 64-bit number, got 1" },
	{ small_result,   XLA_INVALID_ARGUMENT, "output" },
	{ small_reserve,  XLA_INVALID_ARGUMENT, "reserve" },
	{ long_options,   XLA_INVALID_ARGUMENT, "options: expected a text of fewer than 1024 bytes, got one of 1999" },
	{ many_values,    XLA_INVALID_ARGUMENT, "value_names: expected at most 32 names, got more" },
};

static void test_wrong(void **state)
{
	(void)state;
	for (size_t k = 0; k < sizeof WRONG / sizeof *WRONG; k++) {
		set_frame(&one, 0, 0);
		WRONG[k].spoil(&one);
		if (!call(&one, cellgrad_jax_forward))
			fail_msg("%s: not refused", WRONG[k].words);
		if (one.error.code != WRONG[k].code || !strstr(one.error.message, WRONG[k].words))
			fail_msg("expected %d %s, got %d %s", WRONG[k].code, WRONG[k].words, one.error.code, one.error.message);
		if (strncmp(one.error.message, "rnn_forward: ", 13))
			fail_msg("the message does not begin with the handler: %s", one.error.message);
		/* A rejected call has not written the first byte of a result. */
		for (int r = 0; r < RESULTS; r++)
			assert_int_equal(((unsigned char *)one.results[r].data)[0], 0xa5);
	}
	/* After the rejected calls, a forward and a backward succeed. */
	run_both(&one, &two, 0);
}

static void test_reserve(void **state)
{
	(void)state;
	run_both(&one, &two, 0);
	/* Backward rejects the reserve space of a call with another counter and of a network with another dropout, a reserve space that is
	 * too short, and a reserve space whose first 64 bytes are zeros. */
	((uint32_t *)two.arguments[COUNTER].data)[0] ^= 1;
	assert_non_null(call(&two, cellgrad_jax_backward));
	assert_non_null(strstr(two.error.message, "rnn_backward: "));
	assert_non_null(strstr(two.error.message, "reserve"));
	((uint32_t *)two.arguments[COUNTER].data)[0] ^= 1;
	call_well(&two, cellgrad_jax_backward);
	two.dropout = 0.25;
	assert_non_null(call(&two, cellgrad_jax_backward));
	two.dropout = 0.5;
	two.arguments[RESERVE].dims[0] = 100;
	assert_non_null(call(&two, cellgrad_jax_backward));
	two.arguments[RESERVE].dims[0] = RESERVE_BYTES;
	memset(two.arguments[RESERVE].data, 0, 64);
	assert_non_null(call(&two, cellgrad_jax_backward));
	/* With training=0 forward needs no reserve; backward rejects an absent reserve. */
	set_frame(&one, 0, 0);
	set_integer(&one, "training", 0);
	set_buffer(&one, &one.results[3], BUFFERS + 3, XLA_U8, 0, 0, 0);
	call_well(&one, cellgrad_jax_forward);
	set_frame(&two, 1, 0);
	set_buffer(&two, &two.arguments[RESERVE], RESERVE, XLA_U8, 0, 0, 0);
	assert_non_null(call(&two, cellgrad_jax_backward));
}

/* ---- threads ---- */

enum { THREADS = 4, CALLS = 20 };
struct worker { pthread_t thread; struct host forward, backward; int wrong; };

static void *work(void *arg)
{
	struct worker *w = arg;

	for (int k = 0; k < CALLS; k++) {
		set_frame(&w->forward, 0, 0);
		set_frame(&w->backward, 1, 0);
		if (call(&w->forward, cellgrad_jax_forward))
			w->wrong++;
		w->backward.arguments[RESERVE] = w->forward.results[3];
		if (call(&w->backward, cellgrad_jax_backward) || memcmp(w->backward.results[3].data, two.results[3].data, MOST))
			w->wrong++;
	}
	return NULL;
}

static void test_threads(void **state)
{
	struct worker *workers = calloc(THREADS, sizeof *workers);

	(void)state;
	assert_non_null(workers);
	run_both(&one, &two, 0);
	for (int k = 0; k < THREADS; k++)
		assert_int_equal(pthread_create(&workers[k].thread, NULL, work, &workers[k]), 0);
	for (int k = 0; k < THREADS; k++) {
		assert_int_equal(pthread_join(workers[k].thread, NULL), 0);
		assert_int_equal(workers[k].wrong, 0);
	}
	free(workers);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_answers), cmocka_unit_test(test_states), cmocka_unit_test(test_absent), cmocka_unit_test(test_masks), cmocka_unit_test(test_stages),
		cmocka_unit_test(test_empty), cmocka_unit_test(test_init), cmocka_unit_test(test_cells), cmocka_unit_test(test_wrong),
		cmocka_unit_test(test_reserve), cmocka_unit_test(test_threads),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("xla_host", tests, NULL, NULL);
}
