/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a config says of a network without a device: the size of params and where in params their regions lie, by name. Also tests a plan's
 * initial params, a bound of its reserve before the sizes of a call are known, and the dropout counter that a reserve holds.
 */
#include <math.h>
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

/* Sets the k-th config, and returns 0 past the last; the configs are of networks of every built-in cell. */
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

/* Expects that the regions found by name are those found by number. */
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
	REFUSED(cg_rnn_params(&c, NULL), "cg_rnn_params: bytes: expected a pointer, got NULL");
	REFUSED(cg_rnn_config_region(NULL, 0, CG_RNN_INPUT, "a_i", &region), "cg_rnn_config");
	REFUSED(cg_rnn_config_region(&c, 0, CG_RNN_INPUT, "a_i", NULL), "region: expected a pointer, got NULL");
	REFUSED(cg_rnn_config_region(&c, 0, CG_RNN_INPUT, NULL, &region), "name: expected a pointer, got NULL");
	REFUSED(cg_rnn_config_region(&c, 0, (enum cg_rnn_part)7, "a_i", &region), "expected an enum cg_rnn_part, got 7");
	REFUSED(cg_rnn_config_region(&c, 1, CG_RNN_INPUT, "a_i", &region), "pseudo_layer: expected 0 to L*D-1=0, got 1");
	REFUSED(cg_rnn_config_region(&c, -1, CG_RNN_INPUT, "a_i", &region), "got -1");
	REFUSED(cg_rnn_config_region(&c, 0, CG_RNN_INPUT, "a_j", &region), "cell lstm has no gate 'a_j'; did you mean 'a_");
	REFUSED(cg_rnn_config_region(&c, 0, CG_RNN_VECTOR, "p_i", &region), "cell lstm has no per-unit weight, with these options, 'p_i'");
	REFUSED(cg_rnn_config_region(&c, 0, CG_RNN_SCALAR, "tau", &region), "cell lstm has no scalar 'tau'");
	c.cell = cg_cell_find("gru");
	REFUSED(cg_rnn_config_region(&c, 0, CG_RNN_RECURRENT, "q_n", &region), "cell gru has no gate 'q_n'");
	c.units = 0;
	REFUSED(cg_rnn_params(&c, &bytes), "units: expected at least 1");
	assert_true(region.offset == 1 && region.rows == 2 && region.columns == 3);
}

/* ---- initial params ---- */

enum { NUMBERS = 4096 };
static double numbers[NUMBERS], others[NUMBERS];

/* Opens a network of f64, and initialises its params by the rules in `words`. */
static struct cg_rnn *init(struct cg_rnn_config *c, const char *words, uint64_t seed, double *to)
{
	struct cg_rnn *rnn;
	size_t bytes;

	c->dtype = CG_F64;
	assert_int_equal(cg_rnn_params(c, &bytes), CG_OK);
	assert_true(bytes <= sizeof numbers);
	assert_int_equal(cg_rnn_open(context, c, &rnn), CG_OK);
	memset(to, 0x5a, sizeof numbers);
	if (cg_rnn_init_params(rnn, words, seed, cg_host(to, bytes)))
		fail_msg("%s", cg_message());
	assert_memory_equal((char *)to + bytes, "ZZZZZZZZ", 8);
	return rnn;
}

static struct cg_rnn_config lstm_of(int64_t input, int64_t units, int64_t proj)
{
	struct cg_rnn_config c;

	cg_rnn_config_init(&c, sizeof c);
	c.options = "peephole";
	c.input = input;
	c.units = units;
	c.proj = proj;
	return c;
}

/* Returns the numbers of a region of an lstm's params. The regions of all four gates follow each other, from a_i on: [4 U, columns]. */
static const double *part_of(const struct cg_rnn_config *c, enum cg_rnn_part part, const char *name, struct cg_rnn_region *region)
{
	assert_int_equal(cg_rnn_config_region(c, 0, part, name, region), CG_OK);
	return numbers + region->offset;
}

static void expect_between(const double *x, int64_t n, double most)
{
	double largest = 0, sum = 0;

	for (int64_t k = 0; k < n; k++) {
		assert_true(fabs(x[k]) <= most);
		largest = fmax(largest, fabs(x[k]));
		sum += x[k];
	}
	assert_true(largest > 0.8 * most && fabs(sum / (double)n) < 0.4 * most);
}

/* Expects that n vectors are orthogonal and of length 1. Element k of vector i is x[i * step + k * apart]. */
static void expect_orthogonal(const double *x, int64_t n, int64_t length, int64_t step, int64_t apart)
{
	for (int64_t i = 0; i < n; i++)
		for (int64_t j = 0; j <= i; j++) {
			double sum = i == j ? -1 : 0;

			for (int64_t k = 0; k < length; k++)
				sum += x[i * step + k * apart] * x[j * step + k * apart];
			assert_true(fabs(sum) < 1e-14);
		}
}

static void test_rules(void **state)
{
	struct cg_rnn_config c = lstm_of(9, 7, 5);
	struct cg_rnn_region r;
	const double *x;

	(void)state;
	cg_rnn_close(init(&c, "xavier_uniform orthogonal zeros unit_forget", 1, numbers));
	x = part_of(&c, CG_RNN_INPUT, "a_i", &r);
	expect_between(x, 4 * 7 * 9, sqrt(6 / 37.0));
	x = part_of(&c, CG_RNN_RECURRENT, "a_i", &r);
	expect_orthogonal(x, 5, 28, 1, 5);
	x = part_of(&c, CG_RNN_PROJECTION, NULL, &r);
	expect_orthogonal(x, 5, 7, 7, 1);
	for (int k = 0; k < 8; k++) {
		static const char *const gates[] = { "a_i", "a_f", "a_g", "a_o" };

		x = part_of(&c, k < 4 ? CG_RNN_BIAS_W : CG_RNN_BIAS_R, gates[k % 4], &r);
		for (int64_t u = 0; u < 7; u++)
			assert_true(x[u] == (k == 1));
	}
	x = part_of(&c, CG_RNN_VECTOR, "p_o", &r);
	assert_true(x[0] == 0 && x[6] == 0);
	cg_rnn_close(init(&c, "orthogonal uniform ones", 1, numbers));
	x = part_of(&c, CG_RNN_INPUT, "a_i", &r);
	expect_orthogonal(x, 9, 28, 1, 9);
	x = part_of(&c, CG_RNN_RECURRENT, "a_i", &r);
	expect_between(x, 4 * 7 * 5, 1 / sqrt(7.0));
	x = part_of(&c, CG_RNN_VECTOR, "p_o", &r);
	assert_true(x[0] == 1 && x[6] == 1);
	/* The input matrix of this network has more columns than rows. */
	c = lstm_of(40, 3, 0);
	cg_rnn_close(init(&c, " kaiming_uniform  kaiming_uniform uniform ", 1, numbers));
	x = part_of(&c, CG_RNN_INPUT, "a_i", &r);
	expect_between(x, 12 * 40, sqrt(6 / 40.0));
	cg_rnn_close(init(&c, "orthogonal zeros uniform", 1, numbers));
	x = part_of(&c, CG_RNN_INPUT, "a_i", &r);
	expect_orthogonal(x, 12, 40, 40, 1);
	x = part_of(&c, CG_RNN_RECURRENT, "a_i", &r);
	assert_true(x[0] == 0 && x[35] == 0);
	x = part_of(&c, CG_RNN_BIAS_W, "a_i", &r);
	expect_between(x, 24, 1 / sqrt(3.0));
}

/* A user's cell: its per-unit weights follow the biases, whether they have an option or not, and its scalars are last. */
static void test_learnt(void **state)
{
	static const char text[] = "cell learnt\ngates a_z a_n\noutput h\nweight u\noption off w = 5\noption on v = -2\nscalar tau = 3, rate = -0.25\n"
	                           "h = tau * tanh(a_z * u + w) + rate * a_n * v\nsave h\n";
	enum { LAYERS = 2, UNITS = 3, BIASES = LAYERS * 2 * 2 * UNITS, MATRICES = 2 * 2 * (5 + 3 + 3 + 3) * UNITS / 2 };
	struct cg_rnn_config c;
	struct cg_cell *cell;
	struct cg_rnn *rnn;
	size_t bytes;

	(void)state;
	assert_int_equal(cg_cell_parse(text, "learnt", &cell), CG_OK);
	cg_rnn_config_init(&c, sizeof c);
	c.cell = cell;
	c.dtype = CG_F64;
	c.options = "on";
	c.layers = LAYERS;
	c.input = 5;
	c.units = UNITS;
	assert_int_equal(cg_rnn_params(&c, &bytes), CG_OK);
	assert_int_equal(bytes / sizeof(double), MATRICES + BIASES + LAYERS * (2 * UNITS + 2));
	rnn = init(&c, "uniform uniform zeros", 1, numbers);
	for (int layer = 0; layer < LAYERS; layer++)
		for (int k = 0; k < 4; k++) {
			static const char *const names[] = { "u", "v", "tau", "rate" };
			static const double starts[] = { 0, -2, 3, -0.25 };
			int vector = k < 2, first = MATRICES + BIASES + (vector ? 0 : LAYERS * 2 * UNITS), each = vector ? UNITS : 1;
			struct cg_rnn_region named, numbered;

			assert_int_equal(cg_rnn_config_region(&c, layer, vector ? CG_RNN_VECTOR : CG_RNN_SCALAR, names[k], &named), CG_OK);
			assert_int_equal(cg_rnn_region(rnn, layer, 5 + k, 0, &numbered), CG_OK);
			assert_memory_equal(&named, &numbered, sizeof named);
			assert_int_equal(named.offset, first + (layer * 2 + k % 2) * each);
			assert_true(named.rows == 1 && named.columns == each);
			for (int u = 0; u < each; u++)
				assert_true(numbers[named.offset + u] == starts[k]);
		}
	REFUSED(cg_rnn_region(rnn, 0, 9, 0, &(struct cg_rnn_region){ 0, 0, 0 }), "expected 0 to 8, a region of cell learnt, got 9");
	REFUSED(cg_rnn_config_region(&c, 0, CG_RNN_VECTOR, "w", &(struct cg_rnn_region){ 0, 0, 0 }), "no per-unit weight, with these options, 'w'");
	REFUSED(cg_rnn_config_region(&c, 0, CG_RNN_SCALAR, "rat", &(struct cg_rnn_region){ 0, 0, 0 }), "no scalar 'rat'; did you mean 'rate'?");
	cg_rnn_close(rnn);
	cg_cell_close(cell);
}

/* Initial params are the same on every machine, and differ between layers, regions and seeds. */
static void test_seeds(void **state)
{
	struct cg_rnn_config c = lstm_of(6, 6, 0);
	struct cg_rnn *rnn;
	size_t bytes;

	(void)state;
	c.layers = 2;
	c.bidirectional = 1;
	rnn = init(&c, "orthogonal xavier_uniform uniform", 42, numbers);
	assert_int_equal(cg_rnn_params(&c, &bytes), CG_OK);
	for (size_t k = 0; k < bytes / sizeof *numbers; k++)
		for (size_t j = 0; j < k; j++)
			assert_true(numbers[j] != numbers[k]);
	assert_true(cg_fingerprint(CG_FINGERPRINT, numbers, bytes) == 0xb3c9641a8dc94017);
	cg_rnn_close(init(&c, "orthogonal xavier_uniform uniform", 42, others));
	assert_memory_equal(numbers, others, bytes);
	cg_rnn_close(init(&c, "orthogonal xavier_uniform uniform", 43, others));
	for (size_t k = 0; k < bytes / sizeof *numbers; k++)
		assert_true(numbers[k] != others[k]);
	cg_rnn_close(rnn);
}

/* A gate of the input alone lacks bR, and with `no bias` both biases: unit_forget sets those that the gate has, and no other number. */
static void test_forget_of_input(void **state)
{
	const struct { const char *text; double sum; } cells[] = {
		{ "cell x\ninput a_f a_i\noutput h\nf = sigmoid(a_f)\nh = f * h_prev + a_i\nsave f h", 7 },
		{ "cell x\ninput a_f a_i no bias\noutput h\nf = sigmoid(a_f)\nh = f * h_prev + a_i\nsave f h", 0 },
	};

	(void)state;
	for (int k = 0; k < 2; k++) {
		struct cg_rnn_config c = lstm_of(3, 7, 0);
		struct cg_cell *cell;
		struct cg_rnn_region r;
		double sum = 0;
		size_t bytes;

		assert_int_equal(cg_cell_parse(cells[k].text, "x", &cell), CG_OK);
		c.cell = cell;
		c.options = NULL;
		cg_rnn_close(init(&c, "zeros zeros zeros unit_forget", 1, numbers));
		assert_int_equal(cg_rnn_params(&c, &bytes), CG_OK);
		for (size_t i = 0; i < bytes / sizeof *numbers; i++)
			sum += fabs(numbers[i]);
		assert_true(sum == cells[k].sum);
		if (sum > 0)
			assert_true(part_of(&c, CG_RNN_BIAS_W, "a_f", &r)[6] == 1);
		cg_cell_close(cell);
	}
}

static void test_refused_rules(void **state)
{
	struct cg_rnn_config c = lstm_of(2, 2, 0);
	struct cg_rnn *rnn = init(&c, "zeros zeros zeros", 1, numbers), *gru;
	struct cg_mem params, device;
	size_t bytes;

	(void)state;
	assert_int_equal(cg_rnn_params(&c, &bytes), CG_OK);
	params = cg_host(numbers, bytes);
	REFUSED(cg_rnn_init_params(NULL, "zeros zeros zeros", 1, params), "rnn: expected a pointer, got NULL");
	REFUSED(cg_rnn_init_params(rnn, NULL, 1, params), "words: expected a pointer, got NULL");
	REFUSED(cg_rnn_init_params(rnn, "zeros zeros zeros", 1, cg_host(NULL, bytes)), "params: expected a pointer, got NULL");
	REFUSED(cg_rnn_init_params(rnn, "zeros zeros zeros", 1, cg_host(numbers, bytes - 8)), "params: expected ");
	REFUSED(cg_rnn_init_params(rnn, "zeros zeros zeros", 1, cg_host(numbers, bytes + 8)), "params: expected ");
	REFUSED(cg_rnn_init_params(rnn, "", 1, params), "recurrent matrices and biases, got 0");
	REFUSED(cg_rnn_init_params(rnn, "zeros zeros", 1, params), "recurrent matrices and biases, got 2");
	REFUSED(cg_rnn_init_params(rnn, "xavier zeros zeros", 1, params), "no rule 'xavier' for input matrices");
	REFUSED(cg_rnn_init_params(rnn, "zeros orthogonl zeros", 1, params), "did you mean 'orthogonal'?");
	REFUSED(cg_rnn_init_params(rnn, "zeros zeros orthogonal", 1, params), "no rule 'orthogonal' for biases");
	REFUSED(cg_rnn_init_params(rnn, "zeros zeros zeros forget", 1, params), "expected unit_forget or nothing after three rules, got 'forget'");
	REFUSED(cg_rnn_init_params(rnn, "zeros zeros zeros_zeros_zeros_zeros_zeros_zeros_zeros_zeros_zeros", 1, params), "there is no rule 'zeros_");
	params.place = 7;
	REFUSED(cg_rnn_init_params(rnn, "zeros zeros zeros", 1, params), "params: cg_mem.place: expected CG_HOST=0, got 7");
	for (size_t k = 0; k < bytes / sizeof *numbers; k++)
		assert_true(numbers[k] == 0);
	assert_int_equal(cg_alloc(context, bytes, &device), CG_OK);
	assert_int_equal(cg_rnn_init_params(rnn, "zeros zeros zeros", 1, device), CG_UNSUPPORTED);
	cg_free(context, &device);
	c.options = NULL;
	c.cell = cg_cell_find("gru");
	gru = init(&c, "zeros zeros zeros", 1, numbers);
	assert_int_equal(cg_rnn_params(&c, &bytes), CG_OK);
	REFUSED(cg_rnn_init_params(gru, "zeros zeros zeros unit_forget", 1, cg_host(numbers, bytes)),
	        "unit_forget needs a gate a_f of a line 'gates' or 'input', which cell gru does not have");
	cg_rnn_close(gru);
	cg_rnn_close(rnn);
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
	REFUSED(cg_rnn_reserve_bound(NULL, &fixed, &step), "rnn: expected a pointer, got NULL");
	REFUSED(cg_rnn_reserve_bound(rnn, NULL, &step), "fixed: expected a pointer, got NULL");
	REFUSED(cg_rnn_reserve_bound(rnn, &fixed, NULL), "step: expected a pointer, got NULL");
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
	REFUSED(cg_rnn_reserve_counter(NULL, sizeof reserve, &counter), "reserve: expected a pointer, got NULL");
	REFUSED(cg_rnn_reserve_counter(reserve, sizeof reserve, NULL), "counter: expected a pointer, got NULL");
	REFUSED(cg_rnn_reserve_counter(reserve, 63, &counter), "expected at least 64 bytes, got 63");
	REFUSED(cg_rnn_reserve_counter(params, sizeof params, &counter), "got other bytes");
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
		cmocka_unit_test(test_regions), cmocka_unit_test(test_refused_regions), cmocka_unit_test(test_rules), cmocka_unit_test(test_learnt),
		cmocka_unit_test(test_seeds), cmocka_unit_test(test_forget_of_input),
		cmocka_unit_test(test_refused_rules), cmocka_unit_test(test_bound), cmocka_unit_test(test_counter),
		cmocka_unit_test(test_host),
	};

	return cmocka_run_group_tests_name("params", tests, open_context, close_context);
}
