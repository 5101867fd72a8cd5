/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The plugin in a host that plays TensorFlow: what it registers, when it registers nothing; every op beside a call of the library, to the
 * bit; wrong tensors and attributes; memory that is not there; threads and a forked child.
 */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/bindings/tensorflow/tf_host.h"
#include "runtime/cellgrad.h"

static const char built[] = ".libs/cellgrad_tensorflow.so";

/* ---- loading ---- */

/* Every load takes a copy, which the loader has not seen. */
static int load(const char *version, const char *devices, const char **state)
{
	static int count;
	char copy[64], command[256];
	int registered = 0, is_loaded;

	if (access(built, R_OK))
		skip();
	snprintf(copy, sizeof copy, "./tf_plugin_%d_%d.so", (int)getpid(), count++);
	snprintf(command, sizeof command, "cp %s %s", built, copy);
	assert_int_equal(system(command), 0);
	host_version = version;
	host_devices = devices;
	is_loaded = host_load(copy, &registered, state);
	remove(copy);
	assert_true(is_loaded);
	return registered;
}

static int load_usual(void **unused)
{
	const char *state;

	(void)unused;
	setenv("CELLGRAD_BACKEND", "cpu:threads=2", 1);
	setenv("CELLGRAD_TF_BLOCK", "1", 1);
	if (access(built, R_OK))
		return 0;
	load("2.21.0", "", &state);
	unsetenv("CELLGRAD_TF_BLOCK");
	return 0;
}

static void test_registers(void **unused)
{
	static const char *const theirs[] = { "LSTMBlockCell", "LSTMBlockCellGrad", "BlockLSTM", "BlockLSTMGrad", "BlockLSTMV2", "BlockLSTMGradV2",
		"GRUBlockCell", "GRUBlockCellGrad" };
	const char *state;
	int priority;

	(void)unused;
	assert_int_equal(load("2.21.0", "", &state), 11);
	assert_string_equal(state, "kernels of 11 ops are registered with TensorFlow 2.21.0");
	for (int k = 0; k < 11; k++) {
		assert_memory_equal(host_op(k, &priority), "CudnnRNN", 8);
		assert_int_equal(priority, 0);
	}
	assert_null(host_op(11, &priority));
	setenv("CELLGRAD_TF_BLOCK", "1", 1);
	assert_int_equal(load("2.16.0-rc1", "", &state), 19);
	unsetenv("CELLGRAD_TF_BLOCK");
	for (int k = 0; k < 8; k++) {
		assert_string_equal(host_op(11 + k, &priority), theirs[k]);
		assert_int_equal(priority, 1);
	}
}

/* A host that the plugin declines, and what FORCE makes of it. */
static void test_registers_nothing(void **unused)
{
	static const struct { const char *version, *devices, *words; int forced; } rows[] = {
		{ "2.15.1", "", "tested with TensorFlow 2.16 to 2.21, and this is 2.15.1: CELLGRAD_TF_FORCE=1", 11 },
		{ "2.22.0", "", "this is 2.22.0", 11 },
		{ "1.15.0", "", "this is 1.15.0", 11 },
		{ "new", "", "this is new", 11 },
		{ "2.21.0", "GPU", "kernels of CudnnRNNV3 for GPUs", 11 },
		{ "2.21.0", "CPU", "the plugin was loaded before", -1 },
	};
	const char *state;
	int priority;

	(void)unused;
	for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
		assert_int_equal(load(rows[k].version, rows[k].devices, &state), rows[k].forced < 0 ? -1 : 0);
		assert_null(host_op(0, &priority));
		if (!strstr(state, rows[k].words))
			fail_msg("expected \"%s\", got \"%s\"", rows[k].words, state);
		setenv("CELLGRAD_TF_FORCE", "1", 1);
		assert_int_equal(load(rows[k].version, rows[k].devices, &state), rows[k].forced);
		unsetenv("CELLGRAD_TF_FORCE");
	}
	load_usual(NULL);
}

/* ---- numbers ---- */

static unsigned random_bits(void)
{
	static unsigned seed = 1;

	return (seed = seed * 1664525u + 1013904223u) >> 8;
}

/* Numbers of size 1/4 to 1, of either sign. */
static TF_Tensor *numbers(TF_DataType type, int rank, const int64_t *dims)
{
	TF_Tensor *t = host_tensor(type, rank, dims);
	size_t element = host_element(type), n = TF_TensorByteSize(t) / element;
	char *data = TF_TensorData(t);

	for (size_t k = 0; k < n; k++, data += element) {
		unsigned bits = random_bits();
		double value = (0.25 + bits % 768 / 1024.0) * (bits & 1024 ? 1 : -1);
		float narrow = (float)value;
		uint16_t half = (uint16_t)((type == TF_HALF ? 0x3400 + bits % 0x800 : 0x3e80 + bits % 0x100) | (bits & 1024 ? 0x8000 : 0));

		memcpy(data, type == TF_DOUBLE ? (void *)&value : type == TF_FLOAT ? (void *)&narrow : (void *)&half, element);
	}
	return t;
}

static TF_Tensor *scalar(TF_DataType type, int64_t value)
{
	TF_Tensor *t = host_tensor(type, 0, NULL);
	int32_t narrow = (int32_t)value;

	memcpy(TF_TensorData(t), type == TF_INT64 ? (void *)&value : (void *)&narrow, host_element(type));
	return t;
}

static struct cg_mem mem(const TF_Tensor *t)
{
	return cg_host(TF_TensorData(t), TF_TensorByteSize(t));
}

/* Is an output what the library computed into memory of its own? */
static void assert_output(const struct host_call *call, int k, struct cg_mem wanted)
{
	assert_non_null(call->outputs[k]);
	assert_int_equal(TF_TensorByteSize(call->outputs[k]), wanted.bytes);
	if (wanted.bytes)
		assert_memory_equal(TF_TensorData(call->outputs[k]), wanted.data, wanted.bytes);
}

static void assert_done(const struct host_call *call)
{
	if (call->code != TF_OK)
		fail_msg("%s", call->words);
}

/* ---- networks ---- */

struct net {
	const char *attributes;                  /* beside T */
	const char *cell;
	int64_t T, B, I, U, P;
	int layers, directions, is_batch_major, input_mode;
	double dropout;
	const int32_t *lengths;
};

static const int32_t some[] = { 3, 0, 5 };
static const struct net nets[] = {
	{ "rnn_mode=lstm", "lstm", 5, 3, 2, 4, 0, 1, 1, 0, CG_LINEAR, 0, NULL },
	{ "rnn_mode=gru direction=bidirectional dropout=0.5 seed=7 seed2=-9", "gru", 5, 3, 2, 4, 0, 2, 2, 0, CG_LINEAR, 0.5, some },
	{ "rnn_mode=rnn_tanh input_mode=skip_input", "rnn_tanh", 4, 3, 4, 4, 0, 2, 1, 0, CG_SKIP, 0, NULL },
	{ "rnn_mode=rnn_relu direction=bidirectional input_mode=auto_select", "rnn_relu", 4, 2, 4, 4, 0, 1, 2, 0, CG_AUTO, 0, NULL },
	{ "rnn_mode=lstm direction=bidirectional num_proj=3 time_major=false", "lstm", 5, 3, 2, 4, 3, 2, 2, 1, CG_LINEAR, 0, some },
	{ "rnn_mode=lstm", "lstm", 0, 3, 2, 4, 0, 1, 1, 0, CG_LINEAR, 0, NULL },
	{ "rnn_mode=lstm", "lstm", 5, 0, 2, 4, 0, 1, 1, 0, CG_LINEAR, 0, NULL },
};
enum { NETS = sizeof nets / sizeof *nets };
static const struct { TF_DataType type; int dtype; const char *name; } types[] = {
	{ TF_DOUBLE, CG_F64, "double" }, { TF_FLOAT, CG_F32, "float" }, { TF_HALF, CG_F16, "half" }, { TF_BFLOAT16, CG_BF16, "bfloat16" }
};

static void config_of(const struct net *n, int dtype, struct cg_rnn_config *c)
{
	cg_rnn_config_init(c, sizeof *c);
	c->cell = cg_cell_find(n->cell);
	c->dtype = dtype;
	c->layers = n->layers;
	c->bidirectional = n->directions == 2;
	c->input = n->I;
	c->units = n->U;
	c->proj = n->P;
	c->input_mode = n->input_mode;
	c->time_major = !n->is_batch_major;
	c->dropout = n->dropout;
	c->seed = n->dropout > 0 ? (uint64_t)7 << 32 | (uint32_t)-9 : 0;
}

static int is_lstm(const struct net *n)
{
	return !strcmp(n->cell, "lstm");
}

/* input, states and params, and the lengths for V3. */
static void give_inputs(const struct net *n, TF_DataType type, int dtype, int version, struct host_call *call)
{
	int64_t H = n->P ? n->P : n->U, states = n->layers * n->directions, T = n->T, B = n->B;
	int major = n->is_batch_major;
	struct cg_rnn_config c;
	size_t params;

	config_of(n, dtype, &c);
	assert_int_equal(cg_rnn_params(&c, &params), CG_OK);
	memset(call, 0, sizeof *call);
	call->inputs[0] = numbers(type, 3, (int64_t[]){ major ? B : T, major ? T : B, n->I });
	call->inputs[1] = numbers(type, 3, (int64_t[]){ major ? B : states, major ? states : B, H });
	call->inputs[2] = is_lstm(n) ? numbers(type, 3, (int64_t[]){ major ? B : states, major ? states : B, n->U }) : numbers(type, 0, NULL);
	call->inputs[3] = numbers(type, 1, (int64_t[]){ (int64_t)(params / host_element(type)) });
	if (version == 3) {
		call->inputs[4] = host_tensor(TF_INT32, 1, &B);
		for (int64_t b = 0; b < B; b++)
			((int32_t *)TF_TensorData(call->inputs[4]))[b] = n->lengths ? n->lengths[b] : (int32_t)T;
	}
	call->n_inputs = 4 + (version == 3);
	call->n_outputs = 4 + (version > 1);
}

/* Numbers in the shape of a tensor. */
static TF_Tensor *numbers_like(TF_DataType type, const TF_Tensor *t)
{
	int64_t dims[4] = { 0 };

	for (int d = 0; d < TF_NumDims(t); d++)
		dims[d] = TF_Dim(t, d);
	return numbers(type, TF_NumDims(t), dims);
}

/* For Backprop: forward's inputs and outputs, gradients from above, and the reserve.  What is forward's is forward's to free. */
static void give_backprop(const struct host_call *forward, TF_DataType type, struct host_call *call)
{
	int n = forward->n_inputs;

	memset(call, 0, sizeof *call);
	memcpy(call->inputs, forward->inputs, sizeof call->inputs);
	for (int k = 0; k < 3; k++) {
		call->inputs[n + k] = forward->outputs[k];
		call->inputs[n + 3 + k] = numbers_like(type, forward->outputs[k]);
	}
	for (int k = 3; k < forward->n_outputs; k++)
		call->inputs[n + 3 + k] = forward->outputs[k];
	call->n_inputs = n + 3 + forward->n_outputs;
	call->n_outputs = 4;
}

static void free_backprop(const struct host_call *forward, struct host_call *call)
{
	for (int k = 0; k < HOST_TENSORS; k++)
		for (int i = 0; i < HOST_TENSORS; i++)
			if (call->inputs[k] && (call->inputs[k] == forward->inputs[i] || call->inputs[k] == forward->outputs[i]))
				call->inputs[k] = NULL;
	host_free(call);
}

/* ---- the library's own answers ---- */

static struct cg_context *context;
static struct cg_stream *stream;

static int open_context(void **unused)
{
	if (cg_open("cpu:threads=2", &context) || cg_stream_open(context, NULL, &stream))
		return -1;
	return load_usual(unused);
}

static int close_context(void **unused)
{
	(void)unused;
	cg_stream_close(stream);
	cg_close(context);
	return 0;
}

static struct cg_mem make(size_t bytes)
{
	return cg_host(bytes ? calloc(1, bytes) : NULL, bytes);
}

/* The arguments of forward from the host's inputs, and outputs of the library's own. */
static void answer(const struct net *n, int dtype, const struct host_call *host, uint64_t counter, struct cg_rnn **rnn, struct cg_rnn_call *args)
{
	struct cg_rnn_config c;
	struct cg_rnn_sizes sizes;

	config_of(n, dtype, &c);
	assert_int_equal(cg_rnn_open(context, &c, rnn), CG_OK);
	cg_rnn_call_init(args, sizeof *args);
	args->T = n->T;
	args->B = n->B;
	args->counter = counter;
	args->lengths = n->lengths;
	assert_int_equal(cg_rnn_sizes(*rnn, n->T, n->B, n->lengths, &sizes), CG_OK);
	args->input = mem(host->inputs[0]);
	args->input_h = mem(host->inputs[1]);
	args->params = mem(host->inputs[3]);
	args->output = make(TF_TensorByteSize(host->outputs[0]));
	args->output_h = make(args->input_h.bytes);
	if (is_lstm(n)) {
		args->input_c = mem(host->inputs[2]);
		args->output_c = make(args->input_c.bytes);
	}
	args->reserve = make(sizes.reserve);
	assert_int_equal(cg_rnn_forward(stream, *rnn, args), CG_OK);
}

static void answer_backprop(const struct net *n, const struct host_call *host, int first, const struct cg_rnn *rnn, struct cg_rnn_call *args)
{
	args->output_backprop = mem(host->inputs[first]);
	args->output_h_backprop = mem(host->inputs[first + 1]);
	args->input_backprop = make(args->input.bytes);
	args->input_h_backprop = make(args->input_h.bytes);
	args->params_backprop = make(args->params.bytes);
	if (is_lstm(n)) {
		args->output_c_backprop = mem(host->inputs[first + 2]);
		args->input_c_backprop = make(args->input_c.bytes);
	}
	assert_int_equal(cg_rnn_backward(stream, rnn, args), CG_OK);
}

static void free_answer(struct cg_rnn *rnn, struct cg_rnn_call *args)
{
	struct cg_mem *const made[] = { &args->output, &args->output_h, &args->output_c, &args->reserve, &args->input_backprop,
		&args->input_h_backprop, &args->input_c_backprop, &args->params_backprop };

	for (size_t k = 0; k < sizeof made / sizeof *made; k++)
		free(made[k]->data);
	cg_rnn_close(rnn);
}

/* ---- networks beside the library ---- */

static const char *const forwards[] = { "", "CudnnRNN", "CudnnRNNV2", "CudnnRNNV3" };
static const char *const backwards[] = { "", "CudnnRNNBackprop", "CudnnRNNBackpropV2", "CudnnRNNBackpropV3" };

static void *kernel_of(const char *op, const char *type, const char *attributes)
{
	char text[256];
	const char *words;
	void *kernel;

	if (access(built, R_OK))
		skip();
	snprintf(text, sizeof text, "T=%s %s", type, attributes);
	kernel = host_kernel(op, text, &words);
	if (!kernel)
		fail_msg("%s", words);
	return kernel;
}

static void assert_state(const struct net *n, const struct host_call *call, struct cg_mem wanted)
{
	static const double zero;

	assert_output(call, 2, is_lstm(n) ? wanted : cg_host(&zero, TF_TensorByteSize(call->outputs[2])));
	assert_int_equal(TF_NumDims(call->outputs[2]), is_lstm(n) ? 3 : 0);
}

static void check_net(const struct net *n, int t, int version, void *forward, void *backward, uint64_t counter)
{
	struct host_call f, b;
	struct cg_rnn_call args;
	struct cg_rnn *rnn;

	give_inputs(n, types[t].type, types[t].dtype, version, &f);
	host_run(forwards[version], forward, &f);
	assert_done(&f);
	answer(n, types[t].dtype, &f, counter, &rnn, &args);
	assert_output(&f, 0, args.output);
	assert_output(&f, 1, args.output_h);
	assert_state(n, &f, args.output_c);
	assert_output(&f, 3, args.reserve);
	give_backprop(&f, types[t].type, &b);
	host_run(backwards[version], backward, &b);
	assert_done(&b);
	answer_backprop(n, &b, f.n_inputs + 3, rnn, &args);
	assert_output(&b, 0, args.input_backprop);
	assert_output(&b, 1, args.input_h_backprop);
	assert_state(n, &b, args.input_c_backprop);
	assert_output(&b, 3, args.params_backprop);
	/* Once more: the reserve is as it was. */
	for (int k = 0; k < 4; k++)
		TF_DeleteTensor(b.outputs[k]);
	host_run(backwards[version], backward, &b);
	assert_output(&b, 3, args.params_backprop);
	free_answer(rnn, &args);
	free_backprop(&f, &b);
	host_free(&f);
}

static void run_forward(const struct net *n, int t, int version, void *forward)
{
	struct host_call f;

	give_inputs(n, types[t].type, types[t].dtype, version, &f);
	host_run(forwards[version], forward, &f);
	assert_done(&f);
	host_free(&f);
}

/* A kernel's calls have the counters 0, 1, 2; Backprop was called once when it meets the third. */
static void test_networks(void **unused)
{
	(void)unused;
	for (int k = 0; k < NETS; k++)
		for (int version = nets[k].lengths || nets[k].P ? 3 : 1; version <= 3; version++)
			for (int t = 0; t < 4; t++) {
				void *forward = kernel_of(forwards[version], types[t].name, nets[k].attributes);
				void *backward = kernel_of(backwards[version], types[t].name, nets[k].attributes);

				check_net(&nets[k], t, version, forward, backward, 0);
				run_forward(&nets[k], t, version, forward);
				check_net(&nets[k], t, version, forward, backward, 2);
				host_destroy(forwards[version], forward);
				host_destroy(backwards[version], backward);
			}
	assert_int_equal(host_living(), 0);
}

/* One kernel takes sizes as they come. */
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

/* Outside of training there is no reserve, and nothing is dropped. */
static void test_not_training(void **unused)
{
	void *kernel = kernel_of("CudnnRNN", "float", "rnn_mode=lstm dropout=1 is_training=false");
	struct host_call f;
	struct cg_rnn_call args;
	struct cg_rnn *rnn;

	(void)unused;
	give_inputs(&nets[0], TF_FLOAT, CG_F32, 1, &f);
	host_run("CudnnRNN", kernel, &f);
	assert_done(&f);
	assert_int_equal(TF_NumDims(f.outputs[3]), 0);
	assert_int_equal(TF_TensorByteSize(f.outputs[3]), 4);
	answer(&nets[0], CG_F32, &f, 0, &rnn, &args);
	assert_output(&f, 0, args.output);
	free_answer(rnn, &args);
	host_free(&f);
	host_destroy("CudnnRNN", kernel);
}

/* ---- wrong tensors ---- */

static void assert_refused(const struct host_call *call, TF_Code code, const char *words)
{
	if (call->code != code || !strstr(call->words, words))
		fail_msg("expected %d \"%s\", got %d \"%s\"", code, words, call->code, call->words);
}

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
		{ 1, 3, { 1, 3, 5 }, "input_h: expected states of num_proj=0, or without a projection of those of input_c, 4, got 5" },
		{ 2, 3, { 1, 3, 5 }, "input_h: expected states of num_proj=0, or without a projection of those of input_c, 5, got 4" },
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

/* Backprop with the k-th input in another shape, or with another call's reserve. */
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
		{ "dropout=-0.5", "dropout" }, { "dropout=1.5", "dropout" }, { "dropout=nan", "dropout" }, { "num_proj=-1", "num_proj" },
		{ "num_proj=9", "num_proj" }, { "input_mode=skip_input", "skip" }, { "direction=bidirectional", "expected layers * 2 states, got 1" },
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

/* The k-th output cannot be allocated. */
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

/* ---- parameters ---- */

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
		{ "rnn_mode=lstm S=int32", 1, 30000, 30000, 0, "S: 7200240000 parameters are more than an int32 counts: expected int64" },
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

/* To the list and back: the same bytes. */
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
		assert_output(&back, 0, mem(lists.inputs[3]));
		/* The last one too short. */
		TF_DeleteTensor(back.outputs[0]);
		back.inputs[2 + lists.n_outputs] = host_tensor(TF_HALF, 1, (int64_t[]){ 3 });
		host_run(rows[k].from, from, &back);
		assert_int_equal(back.code, TF_INVALID_ARGUMENT);
		assert_non_null(strstr(back.words, "expected 8 bytes, got 6"));
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
		{ "CudnnRNNParamsToCanonical", "num_params=7", 144, "expected a list of 8 weights and one of 8 biases, got 7 and 7" },
		{ "CudnnRNNParamsToCanonicalV2", "num_params_weights=8 num_params_biases=9", 144, "got 8 and 9" },
		{ "CudnnRNNParamsToCanonical", "num_params=8", 143, "params: expected 576 bytes, got 572" },
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

/* ---- block ops beside the library ---- */

enum { T = 4, B = 3, I = 2, U = 5 };

/* Tensors of a shape for each step, "TBU", or for all, "BU", "W" [I+U 4U], "U", "4". */
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

/* Forward's inputs and outputs, of a cell without h, and gradients from above. */
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

/* Allocates the arguments of the library's own call: those that the host's call has outputs for. */
static void make_block(struct cg_lstm_block *op, const struct host_call *host, const size_t *at, int n)
{
	for (int k = 0; k < n; k++)
		if (op->use_peephole || !is_peephole(at[k]))
			*mem_at(op, at[k]) = make(TF_TensorByteSize(host->outputs[k]));
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
			*mem_at(&op, lstm_inputs[k]) = mem(f.inputs[first + k]);
	make_block(&op, &f, lstm_values, 7);
	assert_int_equal(cg_lstm_block_forward(stream, &op), CG_OK);
	assert_block(&op, &f, lstm_values, 7);

	give_lstm_grad(&f, &b, type, row->is_sequence);
	host_run(row->backward, backward, &b);
	assert_done(&b);
	op.cs_grad = mem(b.inputs[b.n_inputs - 2]);
	op.h_grad = mem(b.inputs[b.n_inputs - 1]);
	make_block(&op, &b, grads, b.n_outputs);
	assert_int_equal(cg_lstm_block_grad(stream, &op), CG_OK);
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
	op = (struct cg_gru_block){ .size = op.size, .B = B, .I = I, .U = U, .dtype = CG_F32, .x = mem(f.inputs[0]), .h_prev = mem(f.inputs[1]),
		.w_ru = mem(f.inputs[2]), .w_c = mem(f.inputs[3]), .b_ru = mem(f.inputs[4]), .b_c = mem(f.inputs[5]), .r = make(4 * B * U),
		.u = make(4 * B * U), .c = make(4 * B * U), .h = make(4 * B * U), .d_x = make(4 * B * I), .d_h_prev = make(4 * B * U),
		.d_c_bar = make(4 * B * U), .d_r_bar_u_bar = make(8 * B * U) };
	assert_int_equal(cg_gru_block_forward(stream, &op), CG_OK);
	assert_output(&f, 0, op.r);
	assert_output(&f, 1, op.u);
	assert_output(&f, 2, op.c);
	assert_output(&f, 3, op.h);

	memcpy(b.inputs, f.inputs, sizeof b.inputs);
	memcpy(b.inputs + 6, f.outputs, 3 * sizeof *b.inputs);
	b.inputs[9] = numbers(TF_FLOAT, 2, (int64_t[]){ B, U });
	host_run("GRUBlockCellGrad", backward, &b);
	assert_done(&b);
	op.d_h = mem(b.inputs[9]);
	assert_int_equal(cg_gru_block_grad(stream, &op), CG_OK);
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

/* ---- the device ---- */

/* A plugin that has not opened a device yet, with a backend that it declines. */
static void test_backends(void **unused)
{
	static const struct { const char *backend, *words; TF_Code code; } rows[] = {
		{ "opencl", "CELLGRAD_BACKEND: expected cpu or cuda inside TensorFlow, got opencl: an OpenCL driver", TF_UNIMPLEMENTED },
		{ "cuda, opencl:0", "got cuda, opencl:0", TF_UNIMPLEMENTED },
		{ "cpo", "cpo", TF_INVALID_ARGUMENT },
	};
	const char *state;

	(void)unused;
	load("2.21.0", "", &state);
	for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
		void *kernel = kernel_of("CudnnRNN", "float", "rnn_mode=lstm");
		struct host_call f;

		setenv("CELLGRAD_BACKEND", rows[k].backend, 1);
		give_inputs(&nets[0], TF_FLOAT, CG_F32, 1, &f);
		host_run("CudnnRNN", kernel, &f);
		assert_refused(&f, rows[k].code, rows[k].words);
		host_free(&f);
		host_destroy("CudnnRNN", kernel);
	}
	/* Unset it is the cpu, whatever the machine has. */
	unsetenv("CELLGRAD_BACKEND");
	void *forward = kernel_of("CudnnRNN", "double", "rnn_mode=lstm"), *backward = kernel_of("CudnnRNNBackprop", "double", "rnn_mode=lstm");
	check_net(&nets[0], 0, 1, forward, backward, 0);
	host_destroy("CudnnRNN", forward);
	host_destroy("CudnnRNNBackprop", backward);
	load_usual(NULL);
}

static int run_quietly(void *forward, struct host_call *f)
{
	give_inputs(&nets[0], TF_DOUBLE, CG_F64, 1, f);
	host_run("CudnnRNN", forward, f);
	return f->code == TF_OK;
}

/* A child opens the device anew. */
static void test_fork(void **unused)
{
	void *forward = kernel_of("CudnnRNN", "double", "rnn_mode=lstm");
	struct host_call f;
	int status;
	pid_t child;

	(void)unused;
#ifdef __SANITIZE_THREAD__
	skip();                                  /* its children have no threads */
#endif
	assert_true(run_quietly(forward, &f));
	host_free(&f);
	fflush(NULL);
	child = fork();
	if (!child)
		_exit(!run_quietly(forward, &f));
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
	assert_true(run_quietly(forward, &f));
	host_free(&f);
	host_destroy("CudnnRNN", forward);
}

struct worker { pthread_t thread; void *kernel; TF_Tensor *wanted; const struct host_call *inputs; int wrong; };

static void *work(void *given)
{
	struct worker *w = given;

	for (int k = 0; k < 20; k++) {
		struct host_call f = *w->inputs;

		host_run("CudnnRNN", w->kernel, &f);
		w->wrong += f.code != TF_OK || memcmp(TF_TensorData(f.outputs[0]), TF_TensorData(w->wanted), TF_TensorByteSize(w->wanted)) != 0;
		memset(f.inputs, 0, sizeof f.inputs);
		host_free(&f);
	}
	return NULL;
}

/* One kernel in several threads. */
static void test_threads(void **unused)
{
	enum { WORKERS = 6 };
	void *kernel = kernel_of("CudnnRNN", "double", "rnn_mode=lstm");
	struct worker workers[WORKERS];
	struct host_call f;

	(void)unused;
	give_inputs(&nets[0], TF_DOUBLE, CG_F64, 1, &f);
	host_run("CudnnRNN", kernel, &f);
	assert_done(&f);
	for (int k = 0; k < WORKERS; k++) {
		workers[k] = (struct worker){ .kernel = kernel, .wanted = f.outputs[0], .inputs = &f };
		assert_int_equal(pthread_create(&workers[k].thread, NULL, work, &workers[k]), 0);
	}
	for (int k = 0; k < WORKERS; k++) {
		pthread_join(workers[k].thread, NULL);
		assert_int_equal(workers[k].wrong, 0);
	}
	host_free(&f);
	host_destroy("CudnnRNN", kernel);
	assert_int_equal(host_living(), 0);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_registers), cmocka_unit_test(test_registers_nothing), cmocka_unit_test(test_networks),
		cmocka_unit_test(test_sizes_change), cmocka_unit_test(test_not_training), cmocka_unit_test(test_wrong_inputs),
		cmocka_unit_test(test_wrong_lengths), cmocka_unit_test(test_wrong_backprop), cmocka_unit_test(test_wrong_attributes),
		cmocka_unit_test(test_no_memory), cmocka_unit_test(test_params_size), cmocka_unit_test(test_canonical),
		cmocka_unit_test(test_wrong_canonical), cmocka_unit_test(test_lstm_blocks), cmocka_unit_test(test_gru_block),
		cmocka_unit_test(test_wrong_blocks), cmocka_unit_test(test_backends), cmocka_unit_test(test_fork), cmocka_unit_test(test_threads),
	};

	return cmocka_run_group_tests_name("tf_plugin", tests, open_context, close_context);
}
