/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In a host that plays TensorFlow, the block ops and their gradient ops have the bits of the library's own calls: LSTM's ops in f32 and
 * f16, GRU's in f32.  BlockLSTM rejects tensors of wrong shapes and a seq_len_max out of range.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "tests/bindings/tensorflow/tf_trial.h"

enum { T = 4, B = 3, I = 2, U = 5 };

/* Makes a tensor of random numbers.  shape: "W" for [I+U, 4U]; else a character for each dimension: T, B, I, U, or 4 for 4U. */
static TF_Tensor *block_tensor(TF_DataType type, const char *shape)
{
	int64_t dims[3];
	int rank = 0;

	if (!strcmp(shape, "W"))
		return numbers(type, 2, (int64_t[]){ I + U, 4 * U });
	for (; shape[rank]; rank++)
		dims[rank] = shape[rank] == 'T' ? T : shape[rank] == 'B' ? B : shape[rank] == 'I' ? I : shape[rank] == 'U' ? U : 4 * U;
	return numbers(type, rank, dims);
}

static void give_lstm(struct host_call *call, TF_DataType type, int is_sequence, int64_t steps)
{
	static const char *const shapes[] = { "TBI", "BU", "BU", "W", "U", "U", "U", "4" };
	int first = is_sequence;

	memset(call, 0, sizeof *call);
	if (is_sequence)
		call->inputs[0] = scalar(TF_INT64, steps);
	for (int k = 0; k < 8; k++)
		call->inputs[first + k] = block_tensor(type, shapes[k] + (!k && !is_sequence));
	call->n_inputs = first + 8;
	call->n_outputs = 7;
}

/* Gives the gradient op the inputs of the forward op, its outputs (of a single step all but h), and two random upstream gradients. */
static void give_lstm_grad(const struct host_call *forward, struct host_call *call, TF_DataType type, int is_sequence)
{
	int n = forward->n_inputs, values = is_sequence ? 7 : 6;

	memset(call, 0, sizeof *call);
	memcpy(call->inputs, forward->inputs, sizeof call->inputs);
	memcpy(call->inputs + n, forward->outputs, (size_t)values * sizeof *call->inputs);
	call->inputs[n + values] = block_tensor(type, is_sequence ? "TBU" : "BU");
	call->inputs[n + values + 1] = block_tensor(type, is_sequence ? "TBU" : "BU");
	call->n_inputs = n + values + 2;
	call->n_outputs = is_sequence ? 8 : 5;
}

#define AT(field) offsetof(struct cg_lstm_block, field)
static const size_t lstm_inputs[] = { AT(x), AT(cs_prev), AT(h_prev), AT(w), AT(wci), AT(wcf), AT(wco), AT(b) };
static const size_t lstm_values[] = { AT(i), AT(cs), AT(f), AT(o), AT(ci), AT(co), AT(h) };
static const size_t cell_grads[] = { AT(cs_prev_grad), AT(dgates), AT(wci_grad), AT(wcf_grad), AT(wco_grad) };
static const size_t sequence_grads[] = {
	AT(x_grad), AT(cs_prev_grad), AT(h_prev_grad), AT(w_grad), AT(wci_grad), AT(wcf_grad), AT(wco_grad), AT(b_grad)
};

static struct cg_mem *mem_at(void *op, size_t at)
{
	return (struct cg_mem *)(void *)((char *)op + at);
}

static int is_peephole(size_t at)
{
	return (at >= AT(wci) && at <= AT(wco)) || (at >= AT(wci_grad) && at <= AT(wco_grad));
}

/* Allocates, for the library's own call, an argument for each output of the host's call, except for peepholes that are not used. */
static void make_block(struct cg_lstm_block *op, const struct host_call *host, const size_t *at, int n)
{
	for (int k = 0; k < n; k++)
		if (op->use_peephole || !is_peephole(at[k]))
			*mem_at(op, at[k]) = make_mem(TF_TensorByteSize(host->outputs[k]));
}

static void assert_block(struct cg_lstm_block *op, const struct host_call *host, const size_t *at, int n)
{
	static const char zeros[8 * U];

	for (int k = 0; k < n; k++)
		assert_output(host, k, op->use_peephole || !is_peephole(at[k]) ? *mem_at(op, at[k]) : cg_host(zeros, TF_TensorByteSize(host->outputs[k])));
}

static void free_block(struct cg_lstm_block *op, const size_t *at, int n)
{
	for (int k = 0; k < n; k++)
		if (op->use_peephole || !is_peephole(at[k]))
			free(mem_at(op, at[k])->data);
}

struct lstm_row { const char *forward, *backward; int is_sequence, gates; double forget_bias; const char *attributes; int use_peephole, steps; };

static void check_lstm(const struct lstm_row *row, TF_DataType type, int dtype, const char *type_name)
{
	void *forward = kernel_of(row->forward, type_name, row->attributes), *backward = kernel_of(row->backward, type_name, row->attributes);
	const size_t *grads = row->is_sequence ? sequence_grads : cell_grads;
	struct host_call f, b;
	struct cg_lstm_block op;
	int first = row->is_sequence;

	give_lstm(&f, type, row->is_sequence, row->steps);
	host_run(row->forward, forward, &f);
	assert_done(&f);
	cg_lstm_block_init(&op, sizeof op);
	op = (struct cg_lstm_block){ .size = op.size, .T = first ? T : 1, .B = B, .I = I, .U = U, .seq_len_max = first ? row->steps : -1,
		.dtype = dtype, .gates = row->gates, .use_peephole = row->use_peephole, .forget_bias = row->forget_bias, .cell_clip = 0.5 };
	for (int k = 0; k < 8; k++)
		if (row->use_peephole || !is_peephole(lstm_inputs[k]))
			*mem_at(&op, lstm_inputs[k]) = mem_of(f.inputs[first + k]);
	make_block(&op, &f, lstm_values, 7);
	assert_int_equal(cg_lstm_block_forward(the_stream, &op), CG_OK);
	assert_block(&op, &f, lstm_values, 7);

	give_lstm_grad(&f, &b, type, row->is_sequence);
	host_run(row->backward, backward, &b);
	assert_done(&b);
	op.cs_grad = mem_of(b.inputs[b.n_inputs - 2]);
	op.h_grad = mem_of(b.inputs[b.n_inputs - 1]);
	make_block(&op, &b, grads, b.n_outputs);
	assert_int_equal(cg_lstm_block_grad(the_stream, &op), CG_OK);
	assert_block(&op, &b, grads, b.n_outputs);
	free_block(&op, lstm_values, 7);
	free_block(&op, grads, b.n_outputs);
	free_backprop(&f, &b);
	host_free(&f);
	host_destroy(row->forward, forward);
	host_destroy(row->backward, backward);
}

static void test_lstm_blocks(void **unused)
{
	static const struct lstm_row rows[] = {
		{ "LSTMBlockCell", "LSTMBlockCellGrad", 0, CG_ICFO, 0.5, "forget_bias=0.5 cell_clip=0.5 use_peephole=true", 1, 0 },
		{ "LSTMBlockCell", "LSTMBlockCellGrad", 0, CG_ICFO, 1, "forget_bias=1 cell_clip=0.5 use_peephole=false", 0, 0 },
		{ "BlockLSTM", "BlockLSTMGrad", 1, CG_ICFO, 1, "forget_bias=1 cell_clip=0.5 use_peephole=true", 1, 4 },
		{ "BlockLSTM", "BlockLSTMGrad", 1, CG_ICFO, 1, "forget_bias=1 cell_clip=0.5 use_peephole=false", 0, 2 },
		{ "BlockLSTMV2", "BlockLSTMGradV2", 1, CG_IFCO, 0, "cell_clip=0.5 use_peephole=true", 1, 0 },
	};

	(void)unused;
	for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
		check_lstm(&rows[k], TF_FLOAT, CG_F32, "float");
		check_lstm(&rows[k], TF_HALF, CG_F16, "half");
	}
	assert_int_equal(host_living(), 0);
}

static void test_gru_block(void **unused)
{
	static const int64_t shapes[][2] = { { B, I }, { B, U }, { I + U, 2 * U }, { I + U, U }, { 2 * U, 0 }, { U, 0 } };
	void *forward = kernel_of("GRUBlockCell", "float", ""), *backward = kernel_of("GRUBlockCellGrad", "float", "");
	struct host_call f = { .n_inputs = 6, .n_outputs = 4 }, b = { .n_inputs = 10, .n_outputs = 4 };
	struct cg_gru_block op;

	(void)unused;
	for (int k = 0; k < 6; k++)
		f.inputs[k] = numbers(TF_FLOAT, shapes[k][1] ? 2 : 1, shapes[k]);
	host_run("GRUBlockCell", forward, &f);
	assert_done(&f);
	cg_gru_block_init(&op, sizeof op);
	op = (struct cg_gru_block){ .size = op.size, .B = B, .I = I, .U = U, .dtype = CG_F32, .x = mem_of(f.inputs[0]), .h_prev = mem_of(f.inputs[1]),
		.w_ru = mem_of(f.inputs[2]), .w_c = mem_of(f.inputs[3]), .b_ru = mem_of(f.inputs[4]), .b_c = mem_of(f.inputs[5]), .r = make_mem(4 * B * U),
		.u = make_mem(4 * B * U), .c = make_mem(4 * B * U), .h = make_mem(4 * B * U), .d_x = make_mem(4 * B * I), .d_h_prev = make_mem(4 * B * U),
		.d_c_bar = make_mem(4 * B * U), .d_r_bar_u_bar = make_mem(8 * B * U) };
	assert_int_equal(cg_gru_block_forward(the_stream, &op), CG_OK);
	assert_output(&f, 0, op.r);
	assert_output(&f, 1, op.u);
	assert_output(&f, 2, op.c);
	assert_output(&f, 3, op.h);

	memcpy(b.inputs, f.inputs, sizeof b.inputs);
	memcpy(b.inputs + 6, f.outputs, 3 * sizeof *b.inputs);
	b.inputs[9] = numbers(TF_FLOAT, 2, (int64_t[]){ B, U });
	host_run("GRUBlockCellGrad", backward, &b);
	assert_done(&b);
	op.d_h = mem_of(b.inputs[9]);
	assert_int_equal(cg_gru_block_grad(the_stream, &op), CG_OK);
	assert_output(&b, 0, op.d_x);
	assert_output(&b, 1, op.d_h_prev);
	assert_output(&b, 2, op.d_c_bar);
	assert_output(&b, 3, op.d_r_bar_u_bar);
	for (struct cg_mem *m = &op.r; m <= &op.h; m++)
		free(m->data);
	for (struct cg_mem *m = &op.d_x; m <= &op.d_r_bar_u_bar; m++)
		free(m->data);
	free_backprop(&f, &b);
	host_free(&f);
	host_destroy("GRUBlockCell", forward);
	host_destroy("GRUBlockCellGrad", backward);
	assert_int_equal(host_living(), 0);
}

static void test_wrong_blocks(void **unused)
{
	static const struct { int input, rank; int64_t dims[3]; const char *words; } rows[] = {
		{ 1, 2, { T, B }, "BlockLSTM: x: expected shape [T, B, I], got [4, 3]" },
		{ 2, 2, { 2, U }, "cs_prev: expected shape [3, U], got [2, 5]" },
		{ 4, 2, { U, 4 * U }, "w: expected shape [7, 20], got [5, 20]" },
		{ 5, 1, { 4 }, "wci: expected shape [5], got [4]" },
		{ 8, 1, { U }, "b: expected shape [20], got [5]" },
	};
	static const int64_t wrong_steps[] = { -1, T + 1, INT64_MIN, INT64_MAX };
	void *kernel = kernel_of("BlockLSTM", "float", "use_peephole=true");
	struct host_call f;

	(void)unused;
	for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
		give_lstm(&f, TF_FLOAT, 1, T);
		TF_DeleteTensor(f.inputs[rows[k].input]);
		f.inputs[rows[k].input] = host_tensor(TF_FLOAT, rows[k].rank, rows[k].dims);
		host_run("BlockLSTM", kernel, &f);
		assert_refused(&f, TF_INVALID_ARGUMENT, rows[k].words);
		host_free(&f);
	}
	for (size_t k = 0; k < sizeof wrong_steps / sizeof *wrong_steps; k++) {
		give_lstm(&f, TF_FLOAT, 1, wrong_steps[k]);
		host_run("BlockLSTM", kernel, &f);
		assert_refused(&f, TF_INVALID_ARGUMENT, "seq_len_max: expected 0 to 4, got");
		host_free(&f);
	}
	host_destroy("BlockLSTM", kernel);
	assert_int_equal(host_living(), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_lstm_blocks), cmocka_unit_test(test_gru_block), cmocka_unit_test(test_wrong_blocks),
	};

	return cmocka_run_group_tests_name("tf_block", tests, open_context, close_context);
}
