/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests CudnnRNN's ops on parameters, in a host that plays TensorFlow: the number of parameters, their conversion to the canonical lists of
 * weights and biases and back, and wrong arguments.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "tests/bindings/tensorflow/tf_trial.h"

static void give_sizes(struct host_call *call, int64_t layers, int64_t units, int64_t input)
{
	memset(call, 0, sizeof *call);
	call->inputs[0] = scalar(TF_INT32, layers);
	call->inputs[1] = scalar(TF_INT32, units);
	call->inputs[2] = scalar(TF_INT32, input);
	call->n_inputs = 3;
	call->n_outputs = 1;
}

static void test_params_size(void **unused)
{
	static const struct { const char *attributes; int64_t layers, units, input, size; const char *words; } rows[] = {
		{ "rnn_mode=gru", 1, 76, 300, 86184, NULL },
		{ "rnn_mode=lstm S=int64", 2, 4, 3, 304, NULL },
		{ "rnn_mode=lstm num_proj=2", 1, 4, 3, 120, NULL },
#if SIZE_MAX > UINT32_MAX
		{ "rnn_mode=lstm S=int64", 1, 30000, 30000, 7200240000, NULL },
		{ "rnn_mode=lstm S=int32", 1, 30000, 30000, 0,
		  "S: expected int64, since an int32 cannot hold 7200240000, the number of parameters" },
#endif
		{ "rnn_mode=lstm", 0, 4, 3, 0, "num_layers: expected one number of at least 1, got 0" },
		{ "rnn_mode=lstm", 1, -4, 3, 0, "num_units: expected one number of at least 1, got -4" },
		{ "rnn_mode=lstm", 1, 4, 0, 0, "input_size: expected one number of at least 1, got 0" },
		{ "rnn_mode=lstm S=int64", INT32_MAX, INT32_MAX, INT32_MAX, 0, "" },
		{ "rnn_mode=lstm input_mode=skip_input", 1, 4, 3, 0, "skip" },
		{ "rnn_mode=lstm num_proj=5", 1, 4, 3, 0, "proj" },
	};

	(void)unused;
	for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
		int is_wide = strstr(rows[k].attributes, "int64") != NULL;
		void *kernel = kernel_of("CudnnRNNParamsSize", "float", rows[k].attributes);
		struct host_call c;

		give_sizes(&c, rows[k].layers, rows[k].units, rows[k].input);
		host_run("CudnnRNNParamsSize", kernel, &c);
		if (rows[k].words)
			assert_refused(&c, TF_INVALID_ARGUMENT, rows[k].words);
		else {
			assert_done(&c);
			assert_int_equal(TF_NumDims(c.outputs[0]), 1);
			assert_int_equal(TF_TensorByteSize(c.outputs[0]), is_wide ? 8 : 4);
			assert_memory_equal(TF_TensorData(c.outputs[0]), is_wide ? (const void *)&rows[k].size : (const void *)&(int32_t){ (int32_t)rows[k].size },
			                    is_wide ? 8 : 4);
		}
		host_free(&c);
		host_destroy("CudnnRNNParamsSize", kernel);
	}
	assert_int_equal(host_living(), 0);
}

/* A num_units that is a vector, of two elements or of none, is rejected. */
static void test_wrong_sizes(void **unused)
{
	void *kernel = kernel_of("CudnnRNNParamsSize", "float", "rnn_mode=lstm");
	struct host_call c;

	(void)unused;
	for (int64_t n = 0; n <= 2; n += 2) {
		give_sizes(&c, 1, 4, 3);
		TF_DeleteTensor(c.inputs[1]);
		c.inputs[1] = host_tensor(TF_INT32, 1, &n);
		host_run("CudnnRNNParamsSize", kernel, &c);
		assert_refused(&c, TF_INVALID_ARGUMENT, n ? "num_units: expected a tensor of one number, got one of 2 numbers"
		                                           : "num_units: expected a tensor of one number, got one of 0 numbers");
		host_free(&c);
	}
	host_destroy("CudnnRNNParamsSize", kernel);
	assert_int_equal(host_living(), 0);
}

/* Parameters in f16, converted to the canonical lists of weights and biases and back, have the same bytes. */
static void test_canonical(void **unused)
{
	static const struct { const char *attributes, *to, *from; int weights, biases; int64_t size; } rows[] = {
		{ "rnn_mode=lstm num_params=8", "CudnnRNNParamsToCanonical", "CudnnRNNCanonicalToParams", 8, 8, 144 },
		{ "rnn_mode=gru num_params=6", "CudnnRNNParamsToCanonical", "CudnnRNNCanonicalToParams", 6, 6, 108 },
		{ "rnn_mode=lstm num_params_weights=9 num_params_biases=8 num_proj=2", "CudnnRNNParamsToCanonicalV2", "CudnnRNNCanonicalToParamsV2",
		  9, 8, 120 },
	};

	(void)unused;
	for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
		void *to = kernel_of(rows[k].to, "half", rows[k].attributes), *from = kernel_of(rows[k].from, "half", rows[k].attributes);
		struct host_call lists, back;

		give_sizes(&lists, 1, 4, 3);
		lists.inputs[3] = numbers(TF_HALF, 1, &rows[k].size);
		lists.n_inputs = 4;
		lists.n_outputs = rows[k].weights + rows[k].biases;
		host_run(rows[k].to, to, &lists);
		assert_done(&lists);
		assert_int_equal(TF_Dim(lists.outputs[0], 1), 3);
		assert_int_equal(TF_NumDims(lists.outputs[rows[k].weights]), 1);
		give_sizes(&back, 1, 4, 3);
		memcpy(back.inputs + 3, lists.outputs, (size_t)lists.n_outputs * sizeof *lists.outputs);
		back.n_inputs += lists.n_outputs;
		host_run(rows[k].from, from, &back);
		assert_done(&back);
		assert_output(&back, 0, mem_of(lists.inputs[3]));
		/* A list whose last tensor is too short is rejected. */
		TF_DeleteTensor(back.outputs[0]);
		back.inputs[2 + lists.n_outputs] = host_tensor(TF_HALF, 1, (int64_t[]){ 3 });
		host_run(rows[k].from, from, &back);
		assert_int_equal(back.code, TF_INVALID_ARGUMENT);
		assert_non_null(strstr(back.words, "expected a tensor of 8 bytes, got one of 6"));
		TF_DeleteTensor(back.inputs[2 + lists.n_outputs]);
		memset(back.inputs + 3, 0, sizeof back.inputs - 3 * sizeof *back.inputs);
		host_free(&back);
		host_free(&lists);
		host_destroy(rows[k].to, to);
		host_destroy(rows[k].from, from);
	}
	assert_int_equal(host_living(), 0);
}

static void test_wrong_canonical(void **unused)
{
	static const struct { const char *op, *attributes; int64_t size; const char *words; } rows[] = {
		{ "CudnnRNNParamsToCanonical", "num_params=7", 144, "expected lists of 8 weights and 8 biases, got 7 weights and 7 biases" },
		{ "CudnnRNNParamsToCanonicalV2", "num_params_weights=8 num_params_biases=9", 144, "got 8 weights and 9 biases" },
		{ "CudnnRNNParamsToCanonical", "num_params=8", 143, "params: expected a tensor of 576 bytes, got one of 572" },
		{ "CudnnRNNParamsToCanonical", "num_params=8 input_mode=skip_input", 144, "skip" },
	};

	(void)unused;
	for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
		void *kernel = kernel_of(rows[k].op, "float", rows[k].attributes);
		struct host_call c;

		give_sizes(&c, 1, 4, 3);
		c.inputs[3] = numbers(TF_FLOAT, 1, &rows[k].size);
		c.n_inputs = 4;
		c.n_outputs = 16;
		host_run(rows[k].op, kernel, &c);
		assert_refused(&c, TF_INVALID_ARGUMENT, rows[k].words);
		host_free(&c);
		host_destroy(rows[k].op, kernel);
	}
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_params_size), cmocka_unit_test(test_wrong_sizes), cmocka_unit_test(test_canonical),
		cmocka_unit_test(test_wrong_canonical),
	};

	return cmocka_run_group_tests_name("tf_params", tests, open_context, close_context);
}
