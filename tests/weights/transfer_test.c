/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What weights lose when they are converted from one format to another: a single peephole weight in formats without peepholes, or a
 * single pair of biases in formats with one bias for a gate, at every layer, direction and gate; and a number that f16 cannot hold. Also
 * tests that biases whose bits a sum could change have the same bits after a conversion there and back.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "runtime/weights/format.h"
#include "tests/help/counted.h"

enum { I = 3, U = 4, LAYERS = 2, TENSORS_MAX = 128 };

/* A network in a format, with memory for its tensors; open_side() fills the tensors with zeros. */
struct side { struct cg_layout layout; unsigned char *at[TENSORS_MAX]; };

static void open_side(struct side *s, const char *format, const char *cell, const char *options, int directions, int dtype,
                      int gradients)
{
	static const struct cg_value none[] = { { "forget_bias", 0 }, { "cell_clip", 0 } };
	struct cg_rnn_config config;

	cg_rnn_config_init(&config, sizeof config);
	config.cell = cg_cell_find(cell);
	config.options = options;
	config.values = none;
	config.n_values = !strcmp(cell, "lstm_block") ? 2 : 0;
	config.dtype = dtype;
	config.layers = LAYERS;
	config.bidirectional = directions - 1;
	config.input = I;
	config.units = U;
	if (cg_layout_open(&s->layout, cg_format_find(format), &config, gradients))
		fail_msg("%s", cg_message());
	assert_true(s->layout.n <= TENSORS_MAX);
	for (int k = 0; k < s->layout.n; k++) {
		s->at[k] = calloc((size_t)cg_layout_elements(&s->layout, k), cg_dtype_bytes(dtype));
		assert_non_null(s->at[k]);
	}
}

static void close_side(struct side *s)
{
	for (int k = 0; k < s->layout.n; k++)
		free(s->at[k]);
}

static struct cg_conversion conversion_of(const struct side *from, const struct side *to)
{
	return (struct cg_conversion){
		.from = { &from->layout, from->layout.network.dtype, 0, from->at }, .to = { &to->layout, to->layout.network.dtype, 0, to->at },
	};
}

/* The place of element u of a gate's bias or per-unit weights in its tensor. */
static unsigned char *element(const struct side *s, int pseudo_layer, enum cg_rnn_part which, char gate, int64_t u)
{
	struct cg_location location = cg_layout_locate(&s->layout, pseudo_layer, which, gate);

	assert_true(location.tensor >= 0);
	return s->at[location.tensor] + (size_t)(location.offset + u) * cg_dtype_bytes(s->layout.network.dtype);
}

static void put(const struct side *s, unsigned char *at, double value)
{
	cg_element_put(s->layout.network.dtype, at, value);
}

static void expect(const struct side *from, const struct side *to, const char *what, int pseudo_layer, char gate, int64_t biases,
                   int64_t vectors, int64_t rounded)
{
	struct cg_conversion conversion = conversion_of(from, to);
	struct cg_losses l;

	cg_count_losses(&conversion, to->layout.format->bias, &l);
	if (l.biases != biases || l.vectors != vectors || l.rounded != rounded)
		fail_msg("%s to %s, %s of gate %c of pseudo-layer %d: lost %lld biases, %lld of vectors, %lld rounded", from->layout.format->name,
		         to->layout.format->name, what, gate, pseudo_layer, (long long)l.biases, (long long)l.vectors, (long long)l.rounded);
}

struct format_case { const char *format, *cell; };

/* ---- peepholes ---- */

static void lose_vectors(const struct format_case *a, const struct format_case *b, int directions)
{
	struct side from, to;

	open_side(&from, a->format, a->cell, "peephole", directions, CG_F32, 0);
	open_side(&to, b->format, b->cell, NULL, directions, CG_F32, 0);
	expect(&from, &to, "nothing", 0, ' ', 0, 0, 0);
	for (int p = 0; p < LAYERS * directions; p++)
		for (const char *gate = from.layout.vectors; *gate; gate++)
			for (int64_t u = 0; u < U; u++) {
				unsigned char *at = element(&from, p, CG_RNN_VECTOR, *gate, u);

				put(&from, at, 0.5);
				expect(&from, &to, "a peephole", p, *gate, 0, 1, 0);
				put(&from, at, 0);
			}
	close_side(&from);
	close_side(&to);
}

static void test_vectors(void **state)
{
	static const struct format_case with[] = {
		{ "cellgrad", "lstm" }, { "canonical", "lstm" }, { "block", "lstm_block" }, { "block_v2", "lstm" }, { "onnx", "lstm" },
	};
	static const struct format_case without[] = {
		{ "cellgrad", "lstm" }, { "pytorch", "lstm" }, { "keras", "lstm" }, { "checkpoint", "lstm" },
	};

	(void)state;
	for (size_t a = 0; a < sizeof with / sizeof *with; a++)
		for (size_t b = 0; b < sizeof without / sizeof *without; b++)
			for (int directions = 1; directions <= 2; directions++)
				lose_vectors(&with[a], &without[b], directions);
}

/* ---- biases ---- */

/* twos: formats that store two biases of a gate; ones: formats that store one; each with a cell. keras stores two for cell gru, and
   checkpoint two for one gate of gru. */
static const struct format_case twos[] = {
	{ "cellgrad", "lstm" }, { "canonical", "lstm" }, { "pytorch", "lstm" }, { "onnx", "lstm" },
	{ "cellgrad", "gru" },  { "canonical", "gru" },  { "pytorch", "gru" },  { "onnx", "gru" }, { "keras", "gru" },
	{ "cellgrad", "rnn_tanh" }, { "pytorch", "rnn_tanh" }, { "onnx", "rnn_tanh" },
	{ "cellgrad", "gru_block" }, { "onnx", "gru_block" },
};
static const struct format_case ones[] = {
	{ "keras", "lstm" }, { "block", "lstm_block" }, { "block_v2", "lstm" }, { "checkpoint", "lstm" }, { "checkpoint", "gru" },
	{ "keras", "rnn_tanh" }, { "checkpoint", "rnn_tanh" }, { "keras", "gru_block" }, { "block", "gru_block" },
};
enum { TWOS = sizeof twos / sizeof *twos, ONES = sizeof ones / sizeof *ones };

static int are_alike(const struct format_case *a, const struct format_case *b)
{
	return !strcmp(a->cell, b->cell) || (!strcmp(a->cell, "lstm") && !strcmp(b->cell, "lstm_block"));
}

/* Expects that the lost pairs of biases are counted for the tensor that takes the sum of each pair, and for no other. */
static void expect_tensor(const struct side *from, const struct side *to, int pseudo_layer, char gate, int64_t lost)
{
	struct cg_conversion conversion = conversion_of(from, to);
	int end = cg_layout_locate(&to->layout, pseudo_layer, CG_RNN_BIAS_W, gate).tensor;

	for (int k = 0; k < to->layout.n; k++)
		if (cg_count_lost_biases(&conversion, to->layout.format->bias, k) != (k == end ? lost : 0))
			fail_msg("%s to %s, gate %c of pseudo-layer %d: tensor %d loses %lld biases", from->layout.format->name,
			         to->layout.format->name, gate, pseudo_layer, k,
			         (long long)cg_count_lost_biases(&conversion, to->layout.format->bias, k));
}

/* Expects that biases of 1 and 2 count as one loss where format b has one bias for the gate: no rule splits their sum of 3 into 1
   and 2. Gradients of 1 and 2 also count as one loss, since format b can hold gradients of two biases only if both are equal. */
static void lose_biases(const struct format_case *a, const struct format_case *b, int directions, int gradients)
{
	struct side from, to;

	open_side(&from, a->format, a->cell, NULL, directions, CG_F32, gradients);
	open_side(&to, b->format, b->cell, NULL, directions, CG_F32, gradients);
	expect(&from, &to, "nothing", 0, ' ', 0, 0, 0);
	for (int p = 0; p < LAYERS * directions; p++)
		for (const char *gate = from.layout.gates; *gate; gate++)
			for (int64_t u = 0; u < U; u++) {
				unsigned char *w = element(&from, p, CG_RNN_BIAS_W, *gate, u), *r = element(&from, p, CG_RNN_BIAS_R, *gate, u);
				int lost = cg_layout_locate(&to.layout, p, CG_RNN_BIAS_W, *gate).shared;

				put(&from, w, 1);
				put(&from, r, 2);
				expect(&from, &to, "a bias", p, *gate, lost, 0, 0);
				expect_tensor(&from, &to, p, *gate, lost);
				put(&from, w, 0);
				put(&from, r, 0);
			}
	close_side(&from);
	close_side(&to);
}

static void test_biases(void **state)
{
	int pairs = 0;

	(void)state;
	for (int k = 0; k < TWOS * ONES * 4; k++) {
		const struct format_case *a = &twos[k / 4 % TWOS], *b = &ones[k / 4 / TWOS];

		if (!are_alike(a, b))
			continue;
		lose_biases(a, b, 1 + k % 2, k / 2 % 2);
		pairs++;
	}
	assert_true(pairs > 100);
}

/* ---- bits ---- */

/* Bits of a bias that a sum with 0 could change: a zero with a sign and three NaNs; and the least number, which cannot be halved. */
static const struct { int dtype; uint64_t bits[5]; } odd[] = {
	{ CG_F32,  { 0x80000000, 0x7fc00000, 0xffc12345, 0x7fa00001, 1 } },
	{ CG_F64,  { 0x8000000000000000, 0x7ff8000000000000, 0xfff8123456789abc, 0x7ff4000000000001, 1 } },
	{ CG_F16,  { 0x8000, 0x7e00, 0xfe12, 0x7d01, 1 } },
	{ CG_BF16, { 0x8000, 0x7fc0, 0xffc1, 0x7fa1, 1 } },
};

/* Gives one element of one bias of each gate, layer and direction the given `bits`; the gate's other bias is 0. Expects that the sum of
   both biases in format b has these bits, that no bias counts as lost, and that the conversion back to format a gives the same bits. */
static void keep_bits(const struct format_case *a, const struct format_case *b, int dtype, uint64_t bits, int which)
{
	static const enum cg_rnn_part parts[] = { CG_RNN_BIAS_W, CG_RNN_BIAS_R };
	size_t bytes = cg_dtype_bytes(dtype);
	struct side from, to, back;
	struct cg_losses losses;
	struct cg_conversion conversion;

	open_side(&from, a->format, a->cell, NULL, 2, dtype, 0);
	open_side(&to, b->format, b->cell, NULL, 2, dtype, 0);
	open_side(&back, a->format, a->cell, NULL, 2, dtype, 0);
	for (int p = 0; p < LAYERS * 2; p++)
		for (const char *gate = from.layout.gates; *gate; gate++)
			memcpy(element(&from, p, parts[which], *gate, p), &bits, bytes);
	conversion = conversion_of(&from, &to);
	cg_count_losses(&conversion, to.layout.format->bias, &losses);
	for (int k = 0; k < to.layout.n; k++)
		cg_convert_into(&conversion, k);
	for (int p = 0; p < LAYERS * 2; p++)
		for (const char *gate = from.layout.gates; *gate; gate++)
			if (memcmp(element(&to, p, parts[which], *gate, p), &bits, bytes))
				fail_msg("%s to %s, dtype %d, bits %llx beside 0: other bits in their sum", a->format, b->format, dtype,
				         (unsigned long long)bits);
	if (losses.biases)
		fail_msg("%s to %s, dtype %d, bits %llx beside 0: %lld are said to be lost", a->format, b->format, dtype, (unsigned long long)bits,
		         (long long)losses.biases);
	conversion = conversion_of(&to, &back);
	conversion.bias = losses.bias;
	for (int k = 0; k < back.layout.n; k++)
		cg_convert_into(&conversion, k);
	for (int k = 0; k < back.layout.n; k++)
		assert_memory_equal(from.at[k], back.at[k], (size_t)cg_layout_elements(&from.layout, k) * bytes);
	close_side(&from);
	close_side(&to);
	close_side(&back);
}

static void test_bits(void **state)
{
	(void)state;
	for (int k = 0; k < TWOS * ONES * 2; k++) {
		const struct format_case *a = &twos[k / 2 % TWOS], *b = &ones[k / 2 / TWOS];

		for (size_t d = 0; d < sizeof odd / sizeof *odd && are_alike(a, b); d++)
			for (int n = 0; n < 5; n++)
				keep_bits(a, b, odd[d].dtype, odd[d].bits[n], k % 2);
	}
}

/* ---- per-unit weights and scalars; rounding ---- */

/* Per-unit weights and scalars of a user's cell keep their values in another dtype; format canonical, which has no place for scalars,
 * refuses the cell. */
static void test_learnt(void **state)
{
	static const char text[] = "cell learnt\ngates a\noutput h\nweight u\nscalar tau = 3, rate = 2\nh = tau * tanh(a * u) * rate\nsave h\n";
	struct cg_rnn_config config;
	struct cg_layout from, to;
	float numbers[256];
	double doubles[256] = { 0 };
	unsigned char *x = (void *)numbers, *y = (void *)doubles;
	struct cg_cell *cell;

	(void)state;
	assert_int_equal(cg_cell_parse(text, "learnt", &cell), CG_OK);
	cg_rnn_config_init(&config, sizeof config);
	config.cell = cell;
	config.layers = LAYERS;
	config.input = I;
	config.units = U;
	assert_int_equal(cg_layout_open(&from, cg_format_find("cellgrad"), &config, 0), CG_OK);
	config.dtype = CG_F64;
	assert_int_equal(cg_layout_open(&to, cg_format_find("cellgrad"), &config, 0), CG_OK);
	assert_true(from.network.params <= 256);
	for (int k = 0; k < from.network.params; k++)
		numbers[k] = (float)(k + 1) / 7;
	cg_convert_into(&(struct cg_conversion){ .from = { &from, CG_F32, 0, &x }, .to = { &to, CG_F64, 0, &y } }, 0);
	for (int k = 0; k < from.network.params; k++)
		assert_true(doubles[k] == (double)numbers[k]);
	assert_int_equal(cg_layout_open(&to, cg_format_find("canonical"), &config, 0), CG_UNSUPPORTED);
	assert_non_null(strstr(cg_message(), "format canonical: cell: expected no learnt scalars, since the format holds none, got 2 of cell learnt"));
	cg_cell_close(cell);
}

/* Expects that a number that f16 cannot hold is counted as rounded, at every element of every tensor of seven formats. */
static void test_rounded(void **state)
{
	static const struct format_case formats[] = {
		{ "cellgrad", "lstm" }, { "canonical", "lstm" }, { "pytorch", "lstm" }, { "keras", "gru" }, { "block", "lstm_block" },
		{ "checkpoint", "gru" }, { "onnx", "lstm" },
	};

	(void)state;
	for (size_t f = 0; f < sizeof formats / sizeof *formats; f++) {
		struct side from, to;

		open_side(&from, formats[f].format, formats[f].cell, NULL, 2, CG_F32, 0);
		open_side(&to, formats[f].format, formats[f].cell, NULL, 2, CG_F16, 0);
		expect(&from, &to, "nothing", 0, ' ', 0, 0, 0);
		for (int k = 0; k < from.layout.n; k++)
			for (int64_t e = 0; e < cg_layout_elements(&from.layout, k); e++) {
				unsigned char *at = from.at[k] + (size_t)e * sizeof(float);

				put(&from, at, 0.1f);
				expect(&from, &to, "a number", k, ' ', 0, 0, 1);
				put(&from, at, 0.5);
			}
		close_side(&from);
		close_side(&to);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_vectors), cmocka_unit_test(test_biases), cmocka_unit_test(test_bits), cmocka_unit_test(test_learnt), cmocka_unit_test(test_rounded),
		cmocka_unit_test(test_nothing_left),
	};

	counted_begin();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("move", tests, NULL, NULL);
}
