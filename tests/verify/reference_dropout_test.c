/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests the reference's dropout: Philox4x32-10 against its authors' known answers and, if their header Random123/philox.h is found, against
 * their code; masks against numbers from another program and the check vectors of cellgrad(3); and where the masks act.
 */
#include "gen/rows.h"
#include "tests/verify/sequence_arrays.h"

#ifdef __has_include
#if __has_include(<Random123/philox.h>)
#include <Random123/philox.h>
#define RANDOM123
#endif
#endif

/* The lines "philox4x32 10" of Random123's kat_vectors: counter, key, answer. */
static void known_answers(void **state)
{
	static const struct { uint32_t ctr[4], key[2], out[4]; } known[] = {
		{ { 0, 0, 0, 0 }, { 0, 0 }, { 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8 } },
		{ { 0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff }, { 0xffffffff, 0xffffffff },
			{ 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd } },
		{ { 0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344 }, { 0xa4093822, 0x299f31d0 },
			{ 0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1 } },
	};
	uint32_t out[4];

	(void)state;
	for (int j = 0; j < 3; j++) {
		ref_philox(known[j].ctr, known[j].key, out);
		assert_memory_equal(out, known[j].out, sizeof(out));
	}
}

static void against_random123(void **state)
{
	(void)state;
#ifdef RANDOM123
	for (int j = 0; j < 100000; j++) {
		philox4x32_ctr_t ctr;
		philox4x32_key_t key;
		uint32_t out[4];

		for (int n = 0; n < 4; n++)
			ctr.v[n] = (uint32_t)((uniform() + 1) * 0x1p31);
		for (int n = 0; n < 2; n++)
			key.v[n] = (uint32_t)((uniform() + 1) * 0x1p31);
		ref_philox(ctr.v, key.v, out);
		ctr = philox4x32(ctr, key);
		assert_memory_equal(out, ctr.v, sizeof(out));
	}
#else
	const char *required = getenv("CELLGRAD_TEST_REQUIRE");

	assert_true(!required || !strstr(required, "random123"));
	print_message("# Random123/philox.h was not found (Debian: librandom123-dev)\n");
	skip();
#endif
}

/* Compares with numbers that a separate program computed with Random123: the keys of a call's masks, the first eight words, and which of
   the first 24 units are kept. */
static void masks(void **state)
{
	static const struct {
		int64_t seed, seed2;
		uint64_t call;
		int64_t layer, t, b;
		double dropout;
		uint64_t key, layer_key;
		uint32_t word[8];
		const char *kept;
	} known[] = {
		{ 0, 0, 0, 0, 0, 0, 0.5, 0, 0xe169c58d6627e8d5,
			{ 0xd4abea56, 0xdd653103, 0x04e23b27, 0x74656f08, 0xe21d99e7, 0xcdf501a4, 0xdf5d67ec, 0x131143be },
			"110011101000100111010011" },
		{ 1, -2, 7, 1, 3, 2, 0.6, 0x00000001fffffffe, 0x1f5bc5b7aa8a1d13,
			{ 0x8be1be2a, 0x87f1ac4c, 0x67e47964, 0xc764ca0f, 0xf0c9983f, 0xf9e2e4bc, 0x8d046e05, 0x72b5ef87 },
			"000111001011001110010100" },
		{ 0x12345678, 0x9abcdef0, 0x100000002, 2, 70000, 65537, 0.9, 0x123456789abcdef0, 0x6589b41b6776601f,
			{ 0x3445f6cd, 0xf91c4dc5, 0x728c7448, 0xc8a6b6b6, 0xb9d737ad, 0x2b733d65, 0x4375be14, 0x2c42fd81 },
			"010000000000000000000001" },
	};

	(void)state;
	for (int j = 0; j < 3; j++) {
		uint64_t key = ref_dropout_key(known[j].seed, known[j].seed2);
		uint64_t layer_key = ref_dropout_layer_key(key, known[j].call, known[j].layer);

		assert_true(key == known[j].key && layer_key == known[j].layer_key);
		for (int64_t u = 0; u < 24; u++) {
			uint32_t word = ref_dropout_word(layer_key, known[j].t, known[j].b, u);

			assert_true(u >= 8 || word == known[j].word[u]);
			assert_int_equal(!ref_dropout_drops(word, known[j].dropout), known[j].kept[u] == '1');
		}
	}
}

/* The reference has the keys and words of the check vectors of cellgrad(3), and the library's cg_drop_key() has the keys. */
static void documented(void **state)
{
	const char *top = getenv("srcdir");
	char path[4000], line[256];
	int inside = 0, vectors = 0;
	FILE *page;

	(void)state;
	snprintf(path, sizeof(path), "%s/man/cellgrad.3", top ? top : ".");
	page = fopen(path, "r");
	assert_non_null(page);
	while (fgets(line, sizeof(line), page)) {
		long long seed, seed2, call, layer, t, b;
		unsigned long long layer_key;
		unsigned word[4];

		inside = strncmp(line, ".Ed", 3) && (inside || strstr(line, "dropout: seed seed2"));
		if (!inside || sscanf(line, "%lld %lld %lld %lld %lld %lld", &seed, &seed2, &call, &layer, &t, &b) != 6)
			continue;
		assert_non_null(fgets(line, sizeof(line), page));
		assert_int_equal(sscanf(line, "%llx %x %x %x %x", &layer_key, &word[0], &word[1], &word[2], &word[3]), 5);
		assert_true(ref_dropout_layer_key(ref_dropout_key(seed, seed2), (uint64_t)call, layer) == layer_key);
		assert_true(cg_drop_key(seed, seed2, (uint64_t)call, layer) == layer_key);
		for (int unit = 0; unit < 4; unit++)
			assert_int_equal(ref_dropout_word(layer_key, t, b, unit), word[unit]);
		vectors++;
	}
	fclose(page);
	assert_int_equal(vectors, 3);
}

static void threshold(void **state)
{
	(void)state;
	assert_true(!ref_dropout_drops(0, 0) && ref_dropout_drops(UINT32_MAX, 1) && ref_dropout_drops(0, 1));
	assert_true(ref_dropout_drops(0x7fffffff, 0.5) && !ref_dropout_drops(0x80000000, 0.5));
	/* 0.3 * 2^32 is 0x4ccccccc.c */
	assert_true(ref_dropout_drops(0x4ccccccb, 0.3) && !ref_dropout_drops(0x4ccccccc, 0.3));
	assert_true(!ref_dropout_drops(0, 0x1p-33) && ref_dropout_drops(0, 0x1p-32) && !ref_dropout_drops(1, 0x1p-32));
}

/* output and output_h of a network of three layers equal those of its layers one by one, between which this test applies dropout. */
static int64_t dropped;

static void layers(int mode, double dropout, int training)
{
	static long double want[MAX], kept_input_h[MAX], kept_input_c[MAX], kept_params[MAX], want_h[MAX];
	struct ref_rnn all = { .mode = mode, .dtype = REF_F64, .T = 4, .B = 3, .I = 2, .U = 3, .L = 3, .bidirectional = 1,
		.is_training = training, .dropout = dropout, .key = ref_dropout_key(3, 4), .call = 9, .first_step = 11 };
	int64_t width = 6, from = 0, bias_from;

	R = all;
	draw_lengths();
	all.lengths = lengths;
	R = all;
	bind_rnn(1);
	draw(1);
	assert_int_equal(ref_rnn_forward(&R), 0);
	memcpy(want, at[RNN_output].v, sizeof(want));
	memcpy(want_h, at[RNN_output_h].v, sizeof(want_h));
	memcpy(kept_input_h, at[RNN_input_h].v, sizeof(kept_input_h));
	memcpy(kept_input_c, at[RNN_input_c].v, sizeof(kept_input_c));
	memcpy(kept_params, at[RNN_params].v, sizeof(kept_params));
	bias_from = ref_rnn_region(&all, 0, 0, REF_BIAS).offset;
	for (int64_t layer = 0; layer < all.L; layer++) {
		int64_t weights, biases;

		R.L = 1;
		R.I = layer ? width : all.I;
		R.dropout = 0.7;                        /* dropout of a single layer has no effect */
		bind_rnn(1);
		weights = ref_rnn_region(&R, 0, 0, REF_BIAS).offset;
		biases = ref_rnn_size(&R) - weights;
		memcpy(at[RNN_params].v, kept_params + from, weights * sizeof(*want));
		memcpy(at[RNN_params].v + weights, kept_params + bias_from, biases * sizeof(*want));
		from += weights;
		bias_from += biases;
		/* states are [B, L*D, U] */
		for (int64_t n = 0; n < at[RNN_input_h].n; n++) {
			int64_t b = n / width, k = (b * all.L + layer) * width + n % width;

			at[RNN_input_h].v[n] = kept_input_h[k];
			at[RNN_input_c].v[n] = kept_input_c[k];
		}
		assert_int_equal(ref_rnn_forward(&R), 0);
		for (int64_t n = 0; n < at[RNN_output_h].n; n++)
			assert_true(fabsl(at[RNN_output_h].v[n] - want_h[(n / width * all.L + layer) * width + n % width]) < 1e-16L);
		if (layer == all.L - 1)
			break;
		for (int64_t n = 0; n < at[RNN_output].n; n++) {
			int64_t u = n % width, t = n / width % all.T, b = n / width / all.T;
			int drop = ref_dropout_drops(ref_dropout_word(ref_dropout_layer_key(all.key, all.call, layer),
				all.first_step + t, b, u), dropout);

			at[RNN_input].v[n] = drop && training ? 0 : at[RNN_output].v[n] / (training ? 1 - (long double)dropout : 1);
			dropped += drop && training && t < lengths[b];
		}
	}
	for (int64_t n = 0; n < at[RNN_output].n; n++)
		if (!(fabsl(at[RNN_output].v[n] - want[n]) < 1e-16L))
			fail_msg("mode %d, dropout %g: output[%d] is %.15Lg, not %.15Lg", mode, dropout, (int)n,
				want[n], at[RNN_output].v[n]);
}

static void between_layers(void **state)
{
	(void)state;
	for (int mode = REF_LSTM; mode <= REF_RNN_RELU; mode++) {
		for (int c = 0; c < 20; c++) {
			layers(mode, c % 2 ? 0.5 : 0.25, c % 5 != 0);
			layers(mode, 0, 1);
		}
	}
	assert_true(dropped > 1000);
}

/* With a dropout rate of 1, layer 1 gets nothing from layer 0: input has no effect on output, and as the upstream gradients of layer 0's
   final states are 0, so are the gradients of input and of layer 0's initial h. */
static void all_dropped(void **state)
{
	static long double want[MAX], want_grad[MAX], input[MAX];

	(void)state;
	for (int mode = REF_LSTM; mode <= REF_RNN_RELU; mode++) {
		struct ref_rnn p = { .mode = mode, .dtype = REF_F32, .T = 3, .B = 2, .I = 2, .U = 3, .L = 2, .time_major = 1,
			.is_training = 1, .dropout = 1 };
		int differ = 0;

		R = p;
		bind_rnn(1);
		draw(1);
		memset(at[RNN_output_h_backprop].v, 0, R.B * R.U * sizeof(long double));
		memset(at[RNN_output_c_backprop].v, 0, R.B * R.U * sizeof(long double));
		assert_int_equal(ref_rnn_forward(&R), 0);
		assert_int_equal(ref_rnn_backward(&R), 0);
		for (int64_t n = 0; n < at[RNN_input_backprop].n; n++)
			assert_true(at[RNN_input_backprop].v[n] == 0 && at[RNN_input_backprop].e[n] == 0);
		memcpy(want, at[RNN_output].v, sizeof(want));
		memcpy(want_grad, at[RNN_input_h_backprop].v, sizeof(want_grad));
		memcpy(input, at[RNN_input].v, sizeof(input));
		for (int other = 0; other < 2; other++) {
			/* a NaN in the input is dropped, too */
			for (int64_t n = 0; n < at[RNN_input].n; n++)
				at[RNN_input].v[n] = other ? input[n] + 1 : NAN;
			assert_int_equal(ref_rnn_forward(&R), 0);
			for (int64_t n = 0; n < at[RNN_output].n; n++)
				assert_true(at[RNN_output].v[n] == want[n]);
		}
		R.is_training = 0;
		assert_int_equal(ref_rnn_forward(&R), 0);
		for (int64_t n = 0; n < at[RNN_output].n; n++) {
			assert_true(isfinite(at[RNN_output].e[n]));
			differ += at[RNN_output].v[n] != want[n];
		}
		assert_true(differ > 0);
		for (int64_t n = 0; n < R.B * R.U; n++)
			assert_true(want_grad[n] == 0 && (mode == REF_RNN_RELU || want_grad[R.B * R.U + n] != 0));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(known_answers),
		cmocka_unit_test(against_random123),
		cmocka_unit_test(masks),
		cmocka_unit_test(documented),
		cmocka_unit_test(threshold),
		cmocka_unit_test(between_layers),
		cmocka_unit_test(all_dropped),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
