/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weights in formats of other programs, through cellgrad.h: the names of tensors, loading, saving, and what is rejected.
 * tests/command/formats.py tests that each format's numbers are where its owner has them.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "runtime/cellgrad.h"
#include "tests/help/counted.h"

enum { MOST = 4096 };

static struct cg_rnn_config network(const char *cell, int layers, int bidirectional, int proj)
{
	struct cg_rnn_config config;

	cg_rnn_config_init(&config, sizeof config);
	config.cell = cg_cell_find(cell);
	config.dtype = CG_F64;
	config.layers = layers;
	config.bidirectional = bidirectional;
	config.input = 3;
	config.units = 5;
	config.proj = proj;
	return config;
}

static size_t bytes_of(const struct cg_rnn_config *config)
{
	struct cg_weights w;
	struct cg_tensor t = { .bytes = 0 };

	cg_weights_init(&w, sizeof w);
	w.format = "cellgrad";
	w.network = config;
	(void)cg_weights_tensor(&w, 0, &t);
	return t.bytes;
}

static struct cg_weights weights(const char *format, const struct cg_rnn_config *config, double *params)
{
	struct cg_weights w;

	cg_weights_init(&w, sizeof w);
	w.format = format;
	w.network = config;
	w.params = params;
	w.bytes = bytes_of(config);
	return w;
}

/* The number of elements of params, the one tensor of format cellgrad. */
static size_t whole(const struct cg_rnn_config *config)
{
	struct cg_weights w = weights("cellgrad", config, NULL);
	struct cg_tensor t;

	assert_int_equal(cg_weights_tensor(&w, 0, &t), CG_OK);
	assert_string_equal(t.name, "params");
	assert_int_equal(t.rank, 1);
	assert_true(t.shape[0] <= MOST);
	return (size_t)t.shape[0];
}

static void fill(double *params, size_t n)
{
	for (size_t k = 0; k < n; k++)
		params[k] = (double)k + 1;
}

#define refuses(text, code, call) do { \
		assert_int_equal(call, code); \
		if (!strstr(cg_message(), text)) \
			fail_msg("expected \"%s\" in: %s", text, cg_message()); \
	} while (0)

static void test_names(void **state)
{
	static const char *const names[] = { "cellgrad", "canonical", "pytorch", "keras", "block", "block_v2", "checkpoint", "onnx" };

	(void)state;
	for (int k = 0; k < 8; k++)
		assert_string_equal(cg_format_name(k), names[k]);
	assert_null(cg_format_name(8));
	assert_null(cg_format_name(9));
	assert_null(cg_format_name(-1));
}

static void test_tensors(void **state)
{
	struct cg_rnn_config config = network("lstm", 2, 1, 4);
	struct cg_weights w = weights("pytorch", &config, NULL);
	static const char *const names[] = { "weight_ih_l0", "weight_hh_l0", "weight_hr_l0", "bias_ih_l0", "bias_hh_l0" };
	struct cg_tensor t;

	(void)state;
	for (int k = 0; k < 5; k++) {
		assert_int_equal(cg_weights_tensor(&w, k, &t), CG_OK);
		assert_string_equal(t.name, names[k]);
	}
	assert_int_equal(cg_weights_tensor(&w, 15, &t), CG_OK);
	assert_string_equal(t.name, "weight_ih_l1_reverse");
	assert_int_equal(t.rank, 2);
	assert_int_equal(t.shape[0], 20);
	assert_int_equal(t.shape[1], 8);
	assert_int_equal(t.bytes, 20 * 8 * sizeof(double));
	assert_int_equal(cg_weights_tensor(&w, 20, &t), CG_OK);
	assert_string_equal(t.name, "");
	w.format = "cellgrad";
	w.gradients = 1;
	assert_int_equal(cg_weights_tensor(&w, 0, &t), CG_OK);
	assert_string_equal(t.name, "params_backprop");
}

/* Parameters saved in a format that keeps both biases, and loaded into cleared memory, are unchanged. */
static void test_there_and_back(void **state)
{
	static const struct { const char *format, *cell; int proj; const char *options; } rows[] = {
		{ "pytorch", "lstm", 4, NULL }, { "pytorch", "gru", 0, NULL }, { "pytorch", "rnn_relu", 0, NULL }, { "keras", "gru", 0, NULL },
		{ "onnx", "lstm", 0, "peephole" }, { "onnx", "gru_block", 0, NULL }, { "canonical", "lstm", 4, "peephole" },
		{ "canonical", "lstm_block", 0, "peephole" }, { "cellgrad", "gru", 0, NULL },
	};
	double params[MOST], back[MOST], tensor[MOST];

	(void)state;
	for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
		struct cg_rnn_config config = network(rows[r].cell, 2, 1, rows[r].proj);
		struct cg_weights from, to;
		struct cg_tensor t;
		size_t n, total = 0;

		config.options = rows[r].options;
		n = whole(&config);
		fill(params, n);
		memset(back, 0, sizeof back);
		from = weights(rows[r].format, &config, params);
		to = weights(rows[r].format, &config, back);
		for (int k = 0; !cg_weights_tensor(&from, k, &t) && *t.name; k++) {
			assert_int_equal(cg_weights_save(&from, k, tensor, t.bytes), CG_OK);
			assert_int_equal(cg_weights_load(&to, k, tensor, t.bytes), CG_OK);
			total += t.bytes;
		}
		assert_int_equal(total, n * sizeof *params);
		assert_memory_equal(params, back, n * sizeof *params);
	}
}

/* In a format with one bias in place of two, biases are saved if nothing is lost or `lossy` is set, else rejected; the format has a rule by
 * which it loads two biases from one. */
static void test_one_bias(void **state)
{
	struct cg_rnn_config config = network("lstm", 1, 0, 0);
	size_t n = whole(&config), biases = n - 2 * 4 * 5;
	struct cg_weights w;
	double params[MOST], bias[20];

	(void)state;
	w = weights("keras", &config, params);
	fill(params, n);
	refuses("weights: lstm/lstm_cell/bias: format keras has one bias, bW + bR, from which load would restore 20 pairs of "
	        "elements", CG_UNSUPPORTED, cg_weights_save(&w, 2, bias, sizeof bias));
	w.lossy = 1;
	assert_int_equal(cg_weights_save(&w, 2, bias, sizeof bias), CG_OK);
	assert_true(bias[0] == params[biases] + params[biases + 20]);
	w.lossy = 0;
	for (int k = 0; k < 20; k++)
		params[biases + k] = 0;
	assert_int_equal(cg_weights_save(&w, 2, bias, sizeof bias), CG_OK);
	assert_memory_equal(bias, params + biases + 20, 5 * sizeof *bias);
	/* Tensor and params have their gates in the order i f c o; the tensor's bias b is loaded as biases 0 and b. */
	fill(params, n);
	assert_int_equal(cg_weights_load(&w, 2, bias, sizeof bias), CG_OK);
	assert_true(params[biases] == 0 && params[biases + 19] == 0);
	assert_true(params[biases + 20] == bias[0] && params[biases - 1] == (double)biases);
	w.format = "checkpoint";
	assert_int_equal(cg_weights_load(&w, 1, bias, sizeof bias), CG_OK);
	assert_true(params[biases] == bias[0] / 2 && params[biases + 20] == bias[0] / 2);
	assert_int_equal(cg_weights_save(&w, 1, bias, sizeof bias), CG_OK);
}

/* A bias of format checkpoint is loaded as two halves; a bias without an exact half, -0 and infinity are saved with the loaded bits. */
static void test_halves(void **state)
{
	static const double odd[] = { 5e-324, -1.5e-323, 0.1, -0.0, INFINITY };
	struct cg_rnn_config config = network("rnn_tanh", 1, 0, 0);
	size_t n = whole(&config);
	double params[MOST] = { 0 }, bias[5];
	struct cg_weights w = weights("checkpoint", &config, params);

	(void)state;
	assert_int_equal(cg_weights_load(&w, 1, odd, sizeof odd), CG_OK);
	assert_true(params[n - 10] + params[n - 5] == 5e-324);
	assert_int_equal(cg_weights_save(&w, 1, bias, sizeof bias), CG_OK);
	assert_memory_equal(bias, odd, sizeof odd);
}

static void test_gradients(void **state)
{
	struct cg_rnn_config config = network("lstm", 1, 0, 0);
	size_t n = whole(&config), biases = n - 2 * 4 * 5;
	double params[MOST], bias[20];
	struct cg_weights w = weights("checkpoint", &config, params);

	(void)state;
	w.gradients = 1;
	fill(bias, 20);
	fill(params, n);
	assert_int_equal(cg_weights_load(&w, 1, bias, sizeof bias), CG_OK);
	/* The tensor's gates are in the order i c f o, those of params in the order i f c o. */
	assert_true(params[biases] == 1 && params[biases + 20] == 1);
	assert_true(params[biases + 5] == 11 && params[biases + 25] == 11);
	assert_int_equal(cg_weights_save(&w, 1, bias, sizeof bias), CG_OK);
	assert_true(bias[0] == 1 && bias[19] == 20);
	params[biases + 7] += 1;
	refuses("expected equal gradients of the biases bW and bR, but 1 of the elements differ", CG_UNSUPPORTED, cg_weights_save(&w, 1, bias,
	                                                                                                                   sizeof bias));
	w.lossy = 1;
	assert_int_equal(cg_weights_save(&w, 1, bias, sizeof bias), CG_OK);
	assert_true(bias[12] == params[biases + 7]);
}

static void test_refusals(void **state)
{
	struct cg_value values[] = { { "cell_clip", 0 }, { "forget_bias", 0 } };
	struct cg_rnn_config config = network("lstm", 1, 0, 0);
	double params[MOST], tensor[MOST];
	struct cg_weights w = weights("pytroch", &config, params);
	struct cg_tensor t;

	(void)state;
	refuses("weights: format: no format \"pytroch\"; did you mean pytorch?", CG_BAD_ARGUMENT, cg_weights_tensor(&w, 0, &t));
	w.format = "qqqqqqqqqqqqq";
	refuses("the formats are cellgrad, canonical, pytorch, keras, block, block_v2, checkpoint, onnx", CG_BAD_ARGUMENT,
	        cg_weights_tensor(&w, 0, &t));
	w.format = NULL;
	refuses("no format \"NULL\"", CG_BAD_ARGUMENT, cg_weights_tensor(&w, 0, &t));
	w.format = "pytorch";
	refuses("tensor: expected a struct cg_tensor, got NULL", CG_BAD_ARGUMENT, cg_weights_tensor(&w, 0, NULL));
	refuses("k: expected the index of a tensor, at least 0, got -1", CG_BAD_ARGUMENT, cg_weights_tensor(&w, -1, &t));
	refuses("k: expected the index of a tensor, 0 to 3 in format pytorch, got 4", CG_BAD_ARGUMENT, cg_weights_load(&w, 4, tensor, 0));
	refuses("tensor: expected the 480 bytes of weight_ih_l0, got NULL", CG_BAD_ARGUMENT, cg_weights_load(&w, 0, NULL, 480));
	refuses("weight_ih_l0: expected 480 bytes, got 240", CG_BAD_ARGUMENT, cg_weights_load(&w, 0, tensor, 240));
	refuses("weight_ih_l0: expected 480 bytes, got 0", CG_BAD_ARGUMENT, cg_weights_save(&w, 0, tensor, 0));
	w.bytes = 8;
	refuses("bytes: expected 1600, the size of params, got 8", CG_BAD_ARGUMENT, cg_weights_load(&w, 0, tensor, 480));
	w.bytes = 1608;
	refuses("bytes: expected 1600, the size of params, got 1608; if the buffer is larger", CG_BAD_ARGUMENT, cg_weights_save(&w, 0, tensor,
	                                                                                                                        480));
	w.params = NULL;
	refuses("params: expected 1600 bytes, got NULL", CG_BAD_ARGUMENT, cg_weights_load(&w, 0, tensor, 480));
	w.gradients = 2;
	refuses("gradients: expected 0 or 1, got 2", CG_BAD_ARGUMENT, cg_weights_tensor(&w, 0, &t));
	w.gradients = 0;
	w.network = NULL;
	refuses("network: expected a struct cg_rnn_config, got NULL", CG_BAD_ARGUMENT, cg_weights_tensor(&w, 0, &t));
	w.network = &config;
	w.size = 1;
	refuses("call cg_weights_init first", CG_BAD_ARGUMENT, cg_weights_tensor(&w, 0, &t));
	refuses("expected a struct cg_weights, got NULL", CG_BAD_ARGUMENT, cg_weights_tensor(NULL, 0, &t));
	w = weights("keras", &config, params);
	config.units = 0;
	refuses("rnn: units: expected at least 1, got 0", CG_BAD_ARGUMENT, cg_weights_tensor(&w, 0, &t));
	config = network("lstm", 1, 0, 4);
	refuses("format keras: proj: expected 0, since the format holds no projection, got 4", CG_UNSUPPORTED, cg_weights_tensor(&w, 0, &t));
	config = network("lstm", 1, 0, 0);
	config.options = "peephole";
	refuses("format keras: options: expected none, since the format holds no per-unit weights of cell lstm, got peephole", CG_UNSUPPORTED,
	        cg_weights_tensor(&w, 0, &t));
	config.options = NULL;
	config.units = 3;
	config.input_mode = CG_SKIP;
	refuses("keras: input_mode: expected linear_input, got skip_input", CG_UNSUPPORTED, cg_weights_tensor(&w, 0, &t));
	config = network("gru_block", 1, 0, 0);
	w.format = "pytorch";
	refuses("pytorch: cell: expected lstm, gru, rnn_tanh, rnn_relu, got gru_block", CG_UNSUPPORTED, cg_weights_tensor(&w, 0, &t));
	config = network("lstm_block", 1, 0, 0);
	config.values = values;
	config.n_values = 1;
	refuses("format pytorch: forget_bias: expected 0, since the format does not store it, got 1", CG_UNSUPPORTED, cg_weights_tensor(&w, 0,
	                                                                                                                                &t));
	values[0].value = 2;
	config.n_values = 2;
	refuses("format pytorch: cell_clip: expected 0 or less, since the format does not store it, got 2", CG_UNSUPPORTED,
	        cg_weights_tensor(&w, 0, &t));
	values[0].value = -1;
	assert_int_equal(cg_weights_tensor(&w, 0, &t), CG_OK);
	w.format = "block_v2";
	values[0].value = 2;
	assert_int_equal(cg_weights_tensor(&w, 0, &t), CG_OK);
	values[1].value = 1;
	refuses("block_v2: forget_bias: expected 0", CG_UNSUPPORTED, cg_weights_tensor(&w, 0, &t));
	w.format = "block";
	assert_int_equal(cg_weights_tensor(&w, 0, &t), CG_OK);
	assert_string_equal(t.name, "w");
}

/* A user's cell has no letters for its gates: format `onnx` rejects the cell, and `canonical` saves and loads all params of its network. */
static void test_own_cell(void **state)
{
	static const char text[] = "cell mine\ngates  a_x a_y\noutput h\noption extra p q\nparam k\n\nh = tanh(a_x + p * h_prev) * k + sigmoid(a_y * q)\nsave h\n";
	struct cg_value value = { "k", 0.5 };
	struct cg_cell *cell;
	struct cg_rnn_config config = network("lstm", 1, 1, 0);
	double params[MOST], back[MOST] = { 0 }, tensor[MOST];
	struct cg_weights from, to;
	struct cg_tensor t;
	size_t n;

	(void)state;
	assert_int_equal(cg_cell_parse(text, "mine.cell", &cell), CG_OK);
	config.cell = cell;
	config.options = "extra";
	config.values = &value;
	config.n_values = 1;
	from = weights("canonical", &config, params);
	to = weights("canonical", &config, back);
	n = whole(&config);
	fill(params, n);
	for (int k = 0; !cg_weights_tensor(&from, k, &t) && *t.name; k++) {
		assert_int_equal(cg_weights_save(&from, k, tensor, t.bytes), CG_OK);
		assert_int_equal(cg_weights_load(&to, k, tensor, t.bytes), CG_OK);
	}
	assert_memory_equal(params, back, n * sizeof *params);
	from.format = "onnx";
	refuses("onnx: cell: expected lstm, gru, gru_block, rnn_tanh, rnn_relu, got a cell of your own, mine; ", CG_UNSUPPORTED,
	        cg_weights_tensor(&from, 0, &t));
	cg_cell_close(cell);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_names), cmocka_unit_test(test_tensors), cmocka_unit_test(test_there_and_back),
		cmocka_unit_test(test_one_bias), cmocka_unit_test(test_halves), cmocka_unit_test(test_gradients),
		cmocka_unit_test(test_refusals), cmocka_unit_test(test_own_cell),
		cmocka_unit_test(test_nothing_left),
	};

	counted_begin();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
