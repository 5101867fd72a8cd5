/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In a host that plays TensorFlow, CudnnRNN, CudnnRNNV2, CudnnRNNV3 and their Backprops have the bits of the library's own calls; wrong
 * tensors and attributes, and outputs that cannot be allocated, are errors.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "tests/bindings/tensorflow/tf_trial.h"

static void run_forward(const struct net *n, int t, int version, void *forward)
{
	struct host_call f;

	give_inputs(n, net_types[t].type, net_types[t].dtype, version, &f);
	host_run(forwards[version], forward, &f);
	assert_done(&f);
	host_free(&f);
}

/* A forward kernel gives its first three calls the dropout counters 0, 1 and 2.  Backprop gets the reserve space of the first call, then
   that of the third. */
static void test_networks(void **unused)
{
	(void)unused;
	for (int k = 0; k < NETS; k++)
		for (int version = nets[k].lengths || nets[k].P ? 3 : 1; version <= 3; version++)
			for (int t = 0; t < 4; t++) {
				void *forward = kernel_of(forwards[version], net_types[t].name, nets[k].attributes);
				void *backward = kernel_of(backwards[version], net_types[t].name, nets[k].attributes);

				check_net(&nets[k], t, version, forward, backward, 0);
				run_forward(&nets[k], t, version, forward);
				check_net(&nets[k], t, version, forward, backward, 2);
				host_destroy(forwards[version], forward);
				host_destroy(backwards[version], backward);
			}
	assert_int_equal(host_living(), 0);
}

/* One kernel computes calls of different sizes. */
static void test_sizes_change(void **unused)
{
	void *forward = kernel_of("CudnnRNNV2", "float", "rnn_mode=lstm"), *backward = kernel_of("CudnnRNNBackpropV2", "float", "rnn_mode=lstm");
	uint64_t counter = 0;

	(void)unused;
	for (int round = 0; round < 3; round++)
		for (int64_t U = 1; U < 20; U += 6) {
			struct net n = { "", "lstm", 2 + U % 3, 3, 2, U, 0, 1, 1, 0, CG_LINEAR, 0, NULL };

			check_net(&n, 1, 2, forward, backward, counter++);
		}
	host_destroy("CudnnRNNV2", forward);
	host_destroy("CudnnRNNBackpropV2", backward);
}

/* With is_training=false the reserve space is a scalar, and the output of two layers has the bits of the library's output without
   dropout. */
static void test_not_training(void **unused)
{
	void *kernel = kernel_of("CudnnRNN", "float", "rnn_mode=rnn_tanh input_mode=skip_input dropout=1 is_training=false");
	struct host_call f;
	struct cg_rnn_call args;
	struct cg_rnn *rnn;

	(void)unused;
	give_inputs(&nets[2], TF_FLOAT, CG_F32, 1, &f);
	host_run("CudnnRNN", kernel, &f);
	assert_done(&f);
	assert_int_equal(TF_NumDims(f.outputs[3]), 0);
	assert_int_equal(TF_TensorByteSize(f.outputs[3]), 4);
	answer_forward(&nets[2], CG_F32, &f, 0, &rnn, &args);
	assert_output(&f, 0, args.output);
	free_answer(rnn, &args);
	host_free(&f);
	host_destroy("CudnnRNN", kernel);
}

/* ---- wrong tensors ---- */

static void assert_no_outputs(const struct host_call *call)
{
	for (int k = 0; k < HOST_TENSORS; k++)
		assert_null(call->outputs[k]);
}

static void test_wrong_inputs(void **unused)
{
	static const struct { int input, rank; int64_t dims[4]; const char *words; } rows[] = {
		{ 0, 2, { 5, 3 }, "CudnnRNNV3: input: expected shape [T, B, I], got [5, 3]" },
		{ 0, 4, { 5, 3, 2, 1 }, "input: expected shape [T, B, I], got [5, 3, 2, 1]" },
		{ 0, 3, { 5, 2, 2 }, "input_h: expected shape [L*D, 2, H], got [1, 3, 4]" },
		{ 0, 3, { 5, 3, 0 }, "input" },
		{ 1, 3, { 1, 2, 4 }, "input_h: expected shape [L*D, 3, H], got [1, 2, 4]" },
		{ 1, 3, { 0, 3, 4 }, "input_c: expected shape [0, 3, U], got [1, 3, 4]" },
		{ 1, 3, { 2, 3, 4 }, "input_c: expected shape [2, 3, U], got [1, 3, 4]" },
		{ 1, 3, { 1, 3, 5 }, "input_h: expected a last dimension of 4, equal to that of input_c, got 5" },
		{ 2, 3, { 1, 3, 5 }, "input_h: expected a last dimension of 5, equal to that of input_c, got 4" },
		{ 2, 0, { 0 }, "input_c: expected shape [1, 3, U], got []" },
		{ 3, 1, { 127 }, "params: expected 128 elements, as CudnnRNNParamsSize says, got 127" },
		{ 3, 1, { 129 }, "got 129" },
		{ 3, 1, { 0 }, "got 0" },
		{ 3, 2, { 1, 128 }, "params: expected shape [P], got [1, 128]" },
		{ 4, 1, { 2 }, "sequence_lengths: expected shape [3], got [2]" },
	};
	void *kernel = kernel_of("CudnnRNNV3", "float", "rnn_mode=lstm");

	(void)unused;
	for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
		struct host_call f;

		give_inputs(&nets[0], TF_FLOAT, CG_F32, 3, &f);
		TF_DeleteTensor(f.inputs[rows[k].input]);
		f.inputs[rows[k].input] = host_tensor(rows[k].input == 4 ? TF_INT32 : TF_FLOAT, rows[k].rank, rows[k].dims);
		host_run("CudnnRNNV3", kernel, &f);
		assert_refused(&f, TF_INVALID_ARGUMENT, rows[k].words);
		assert_no_outputs(&f);
		host_free(&f);
	}
	host_destroy("CudnnRNNV3", kernel);
	assert_int_equal(host_living(), 0);
}

static void test_wrong_lengths(void **unused)
{
	static const int32_t wrong[] = { -1, 6, INT32_MIN, INT32_MAX };
	void *kernel = kernel_of("CudnnRNNV3", "float", "rnn_mode=lstm");
	struct host_call f;

	(void)unused;
	for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
		give_inputs(&nets[0], TF_FLOAT, CG_F32, 3, &f);
		((int32_t *)TF_TensorData(f.inputs[4]))[1] = wrong[k];
		host_run("CudnnRNNV3", kernel, &f);
		assert_refused(&f, TF_INVALID_ARGUMENT, "lengths");
		host_free(&f);
	}
	host_destroy("CudnnRNNV3", kernel);
}

/* Each call of Backprop has one wrong input: a scalar as an output of forward, as an upstream gradient or as the reserve space; then the
   reserve space of a call of one more step, and one of 3 elements. */
static void test_wrong_backprop(void **unused)
{
	static const char *const names[] = { "output", "output_h", "output_c", "output_backprop", "output_h_backprop", "output_c_backprop" };
	void *forward = kernel_of("CudnnRNN", "float", "rnn_mode=lstm"), *backward = kernel_of("CudnnRNNBackprop", "float", "rnn_mode=lstm");
	struct net longer = nets[0];
	struct host_call f, b, other;

	(void)unused;
	give_inputs(&nets[0], TF_FLOAT, CG_F32, 1, &f);
	host_run("CudnnRNN", forward, &f);
	longer.T++;
	give_inputs(&longer, TF_FLOAT, CG_F32, 1, &other);
	host_run("CudnnRNN", forward, &other);
	for (int k = 0; k < 9; k++) {
		char words[64];
		TF_Tensor *wrong;

		give_backprop(&f, TF_FLOAT, &b);
		snprintf(words, sizeof words, "CudnnRNNBackprop: %s: expected shape", k < 6 ? names[k] : "reserve_space");
		wrong = k == 8 ? host_tensor(TF_FLOAT, 1, (int64_t[]){ 3 }) : k == 7 ? other.outputs[3] : scalar(TF_FLOAT, 0);
		if (k >= 3 && k < 6)
			TF_DeleteTensor(b.inputs[4 + k]);
		b.inputs[4 + (k < 6 ? k : 6)] = wrong;
		host_run("CudnnRNNBackprop", backward, &b);
		assert_refused(&b, TF_INVALID_ARGUMENT, k < 7 ? words : "reserve");
		b.inputs[4 + (k < 6 ? k : 6)] = NULL;
		if (k != 7)
			TF_DeleteTensor(wrong);
		free_backprop(&f, &b);
	}
	host_free(&f);
	host_free(&other);
	host_destroy("CudnnRNN", forward);
	host_destroy("CudnnRNNBackprop", backward);
	assert_int_equal(host_living(), 0);
}

static void test_wrong_attributes(void **unused)
{
	static const struct { const char *attributes, *words; } rows[] = {
		{ "T=int32 rnn_mode=lstm", "cellgrad: CudnnRNNV3: T: expected half, bfloat16, float or double, got '3'" },
		{ "T=float rnn_mode=lstn", "rnn_mode: expected lstm, gru, rnn_tanh or rnn_relu, got 'lstn'" },
		{ "T=float input_mode=skip", "input_mode: expected linear_input, skip_input or auto_select, got 'skip'" },
		{ "T=float direction=both", "direction: expected unidirectional or bidirectional, got 'both'" },
		{ "T=float direction=a_word_that_is_longer_than_all_of_the_words_are", "direction: expected" },
	};
	static const struct { const char *attributes, *words; } refused[] = {
		{ "dropout=-0.5", "dropout" }, { "dropout=1.5", "dropout" }, { "dropout=nan", "dropout" }, { "num_proj=-1",
		                                                                                            "num_proj: expected 0, for no "
		                                                                                            "projection, or more, got -1" },
		{ "num_proj=9", "num_proj" }, { "input_mode=skip_input", "skip" }, { "direction=bidirectional",
		  "input_h: expected a dimension L*D, layers times directions, of 1 to 2147483647 and a multiple of 2, got 1" },
	};
	const char *words;

	(void)unused;
	for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
		assert_null(host_kernel("CudnnRNNV3", rows[k].attributes, &words));
		if (!strstr(words, rows[k].words))
			fail_msg("expected \"%s\", got \"%s\"", rows[k].words, words);
	}
	for (size_t k = 0; k < sizeof refused / sizeof *refused; k++) {
		void *kernel = kernel_of("CudnnRNNV3", "float", refused[k].attributes);
		struct host_call f;

		give_inputs(&nets[0], TF_FLOAT, CG_F32, 3, &f);
		host_run("CudnnRNNV3", kernel, &f);
		assert_refused(&f, TF_INVALID_ARGUMENT, refused[k].words);
		host_free(&f);
		host_destroy("CudnnRNNV3", kernel);
	}
	assert_int_equal(host_living(), 0);
}

/* A call whose k-th output cannot be allocated fails with the code for a lack of memory. */
static void test_no_memory(void **unused)
{
	void *kernel = kernel_of("CudnnRNNV3", "float", "rnn_mode=lstm");
	struct host_call f;

	(void)unused;
	for (int k = 1; k <= 5; k++) {
		give_inputs(&nets[0], TF_FLOAT, CG_F32, 3, &f);
		host_failing_output = k;
		host_run("CudnnRNNV3", kernel, &f);
		host_failing_output = 0;
		assert_int_equal(f.code, TF_RESOURCE_EXHAUSTED);
		host_free(&f);
	}
	host_destroy("CudnnRNNV3", kernel);
	assert_int_equal(host_living(), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_networks), cmocka_unit_test(test_sizes_change), cmocka_unit_test(test_not_training),
		cmocka_unit_test(test_wrong_inputs), cmocka_unit_test(test_wrong_lengths),
		cmocka_unit_test(test_wrong_backprop), cmocka_unit_test(test_wrong_attributes),
		cmocka_unit_test(test_no_memory),
	};

	return cmocka_run_group_tests_name("tf_network", tests, open_context, close_context);
}
