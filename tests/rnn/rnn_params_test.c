/*
 * What is known of a network without a device: the bytes of params and where its parts lie, by name; and of its reserve before sizes are
 * known: a bound, and the counter that it holds.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "runtime/core/core.h"

#define REFUSED(call, words) \
	do { \
		assert_int_equal(call, CG_BAD_ARGUMENT); \
		if (!strstr(cg_message(), words)) \
			fail_msg("expected \"%s\", got \"%s\"", words, cg_message()); \
	} while (0)

static struct cg_context *context;

static int open_context(void **state)
{
	(void)state;
	return cg_open("cpu:threads=1", &context);
}

static int close_context(void **state)
{
	(void)state;
	cg_close(context);
	return 0;
}

/* Networks of every built-in cell, by number. */
static int config_of(int k, struct cg_rnn_config *c)
{
	const char *name = cg_cell_name(k / 24);

	if (!name)
		return 0;
	cg_rnn_config_init(c, sizeof *c);
	c->cell = cg_cell_find(name);
	c->dtype = k % 4;
	c->layers = 1 + k / 4 % 3;
	c->bidirectional = k / 12 % 2;
	c->input = 3;
	c->units = 2 + k % 5;
	c->proj = !strcmp(name, "lstm") && k % 3 == 2 ? 2 : 0;
	c->options = strncmp(name, "lstm", 4) || k % 2 ? NULL : "peephole";
	return 1;
}

/* The regions by name are those by number. */
static void check_regions(const struct cg_rnn_config *c, const struct cg_rnn *rnn)
{
	static const struct { enum cg_rnn_part part; int bias, further; } kinds[] = {
		{ CG_RNN_INPUT, 0, 0 }, { CG_RNN_RECURRENT, 0, 1 }, { CG_RNN_BIAS_W, 1, 0 }, { CG_RNN_BIAS_R, 1, 1 },
	};
	struct cg_rnn_region named, numbered;
	struct cg_cell_parts parts;
	int G;

	cg_cell_parts_init(&parts, sizeof parts);
	assert_int_equal(cg_cell_info(c->cell, &parts), CG_OK);
	G = parts.n_gates;
	for (int at = 0; at < c->layers * (1 + c->bidirectional); at++) {
		for (int k = 0; k < 4 * G; k++) {
			assert_int_equal(cg_rnn_config_region(c, at, kinds[k % 4].part, parts.gates[k / 4], &named), CG_OK);
			assert_int_equal(cg_rnn_region(rnn, at, k / 4 + kinds[k % 4].further * G, kinds[k % 4].bias, &numbered), CG_OK);
			assert_memory_equal(&named, &numbered, sizeof named);
		}
		for (int k = 0; k < parts.n_vectors && c->options; k++) {
			assert_int_equal(cg_rnn_config_region(c, at, CG_RNN_VECTOR, parts.vectors[k], &named), CG_OK);
			assert_int_equal(cg_rnn_region(rnn, at, 2 * G + 1 + k, 0, &numbered), CG_OK);
			assert_memory_equal(&named, &numbered, sizeof named);
		}
		assert_int_equal(cg_rnn_config_region(c, at, CG_RNN_PROJECTION, NULL, &named), CG_OK);
		assert_int_equal(cg_rnn_region(rnn, at, 2 * G, 0, &numbered), CG_OK);
		assert_memory_equal(&named, &numbered, sizeof named);
	}
}

static void test_regions(void **state)
{
	struct cg_rnn_config c;

	(void)state;
	for (int k = 0; config_of(k, &c); k++) {
		struct cg_rnn_sizes sizes;
		struct cg_rnn *rnn;
		size_t bytes;

		assert_int_equal(cg_rnn_open(context, &c, &rnn), CG_OK);
		assert_int_equal(cg_rnn_params(&c, &bytes), CG_OK);
		assert_int_equal(cg_rnn_sizes(rnn, 1, 1, NULL, &sizes), CG_OK);
		assert_int_equal(bytes, sizes.params);
		check_regions(&c, rnn);
		cg_rnn_close(rnn);
	}
}

static void test_refused_regions(void **state)
{
	struct cg_rnn_region region = { 1, 2, 3 };
	struct cg_rnn_config c;
	size_t bytes;

	(void)state;
	cg_rnn_config_init(&c, sizeof c);
	c.input = c.units = 2;
	REFUSED(cg_rnn_params(NULL, &bytes), "cg_rnn_config");
	REFUSED(cg_rnn_params(&c, NULL), "cg_rnn_params: bytes: missing");
	REFUSED(cg_rnn_config_region(NULL, 0, CG_RNN_INPUT, "a_i", &region), "cg_rnn_config");
	REFUSED(cg_rnn_config_region(&c, 0, CG_RNN_INPUT, "a_i", NULL), "region: missing");
	REFUSED(cg_rnn_config_region(&c, 0, CG_RNN_INPUT, NULL, &region), "name: missing");
	REFUSED(cg_rnn_config_region(&c, 0, (enum cg_rnn_part)6, "a_i", &region), "expected an enum cg_rnn_part, got 6");
	REFUSED(cg_rnn_config_region(&c, 1, CG_RNN_INPUT, "a_i", &region), "pseudo_layer: expected 0 to L*D-1=0, got 1");
	REFUSED(cg_rnn_config_region(&c, -1, CG_RNN_INPUT, "a_i", &region), "got -1");
	REFUSED(cg_rnn_config_region(&c, 0, CG_RNN_INPUT, "a_j", &region), "cell lstm has no gate 'a_j'; did you mean 'a_");
	REFUSED(cg_rnn_config_region(&c, 0, CG_RNN_VECTOR, "p_i", &region), "no per-unit weight of an option that is on 'p_i'");
	c.cell = cg_cell_find("gru");
	REFUSED(cg_rnn_config_region(&c, 0, CG_RNN_RECURRENT, "q_n", &region), "cell gru has no gate 'q_n'");
	c.units = 0;
	REFUSED(cg_rnn_params(&c, &bytes), "units: expected at least 1");
	assert_true(region.offset == 1 && region.rows == 2 && region.columns == 3);
}

/* ---- the reserve ---- */

static size_t reserve_of(const struct cg_rnn *rnn, int64_t T, int64_t B, const int32_t *lengths)
{
	struct cg_rnn_sizes sizes;

	assert_int_equal(cg_rnn_sizes(rnn, T, B, lengths, &sizes), CG_OK);
	return sizes.reserve;
}

static void check_bound(const struct cg_rnn_config *c, const struct cg_rnn *rnn)
{
	static const int64_t sizes[][2] = { { 0, 3 }, { 1, 1 }, { 7, 3 }, { 64, 1 }, { 13, 5 }, { 1, 65 }, { 100, 32 } };
	size_t fixed, step;

	assert_int_equal(cg_rnn_reserve_bound(rnn, &fixed, &step), CG_OK);
	for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
		int64_t T = sizes[k][0], B = sizes[k][1], all = T * B;
		const size_t whole = reserve_of(rnn, T, B, NULL), bound = fixed + step * (size_t)all;
		int32_t lengths[65];

		for (int b = 0; b < B; b++)
			lengths[b] = (int32_t)(T * (b % 3) / 2 > T ? T : T * (b % 3) / 2);
		assert_true(reserve_of(rnn, T, B, lengths) <= bound);
		assert_true(whole <= bound);
		if (all >= 64 && (size_t)c->units * cg_dtype_bytes(c->dtype) >= 4 && (double)bound > 1.25 * (double)whole)
			fail_msg("%s of %lld units, dtype %d, T=%lld, B=%lld: %zu bytes, the bound is %zu", cg_rnn_route(rnn),
			         (long long)c->units, c->dtype, (long long)T, (long long)B, whole, bound);
	}
}

static void test_bound(void **state)
{
	struct cg_rnn_config c;
	size_t fixed = 1, step = 1;
	struct cg_rnn *rnn;

	(void)state;
	for (int k = 0; config_of(k, &c); k++) {
		assert_int_equal(cg_rnn_open(context, &c, &rnn), CG_OK);
		check_bound(&c, rnn);
		cg_rnn_close(rnn);
	}
	config_of(0, &c);
	c.training = 0;
	assert_int_equal(cg_rnn_open(context, &c, &rnn), CG_OK);
	assert_int_equal(cg_rnn_reserve_bound(rnn, &fixed, &step), CG_OK);
	assert_true(!fixed && !step);
	REFUSED(cg_rnn_reserve_bound(NULL, &fixed, &step), "rnn: missing");
	REFUSED(cg_rnn_reserve_bound(rnn, NULL, &step), "fixed: missing");
	REFUSED(cg_rnn_reserve_bound(rnn, &fixed, NULL), "step: missing");
	cg_rnn_close(rnn);
}

static void test_counter(void **state)
{
	enum { T = 2, B = 1, H = 2 };
	static double params[64], input[T * B * H], output[T * B * H], reserve[256];
	struct cg_rnn_config c;
	struct cg_rnn_call call;
	struct cg_stream *stream;
	struct cg_rnn *rnn;
	uint64_t counter = 1;
	size_t bytes;

	(void)state;
	cg_rnn_config_init(&c, sizeof c);
	c.dtype = CG_F64;
	c.input = c.units = H;
	assert_int_equal(cg_rnn_open(context, &c, &rnn), CG_OK);
	assert_int_equal(cg_stream_open(context, NULL, &stream), CG_OK);
	cg_rnn_call_init(&call, sizeof call);
	call.T = T;
	call.B = B;
	call.counter = UINT64_MAX - 41;
	assert_int_equal(cg_rnn_params(&c, &bytes), CG_OK);
	assert_true(bytes <= sizeof params);
	call.params = cg_host(params, bytes);
	call.input = cg_host(input, sizeof input);
	call.output = cg_host(output, sizeof output);
	call.reserve = cg_host(reserve, sizeof reserve);
	assert_int_equal(cg_rnn_forward(stream, rnn, &call), CG_OK);
	assert_int_equal(cg_rnn_reserve_counter(reserve, sizeof reserve, &counter), CG_OK);
	assert_true(counter == UINT64_MAX - 41);
	counter = 1;
	REFUSED(cg_rnn_reserve_counter(NULL, sizeof reserve, &counter), "reserve: missing");
	REFUSED(cg_rnn_reserve_counter(reserve, sizeof reserve, NULL), "counter: missing");
	REFUSED(cg_rnn_reserve_counter(reserve, 63, &counter), "expected at least 64 bytes, got 63");
	REFUSED(cg_rnn_reserve_counter(params, sizeof params, &counter), "got something else");
	assert_true(counter == 1);
	cg_rnn_close(rnn);
	cg_stream_close(stream);
}

static void test_host(void **state)
{
	int word = 0;
	struct cg_mem mem = cg_host(&word, sizeof word), absent = cg_host(NULL, 8);

	(void)state;
	assert_true(mem.data == &word && !mem.offset && mem.bytes == sizeof word && mem.place == CG_HOST);
	assert_true(!absent.data && !absent.offset && !absent.bytes && !absent.place);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_regions), cmocka_unit_test(test_refused_regions), cmocka_unit_test(test_bound), cmocka_unit_test(test_counter),
		cmocka_unit_test(test_host),
	};

	return cmocka_run_group_tests_name("params", tests, open_context, close_context);
}
