/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads the plugin into the host, makes tensors for calls of its kernels, and runs networks beside the library.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <cmocka.h>

#include "tests/bindings/tensorflow/tf_trial.h"

const char built_plugin[] = ".libs/cellgrad_tensorflow.so";

/* ---- loading ---- */

/* Loads a new copy of the plugin's file each time, since the system loads a known file only once. */
int load_plugin(const char *version, const char *devices, const char **state)
{
	static int count;
	char copy[64], command[256];
	int registered = 0, is_loaded;

	if (access(built_plugin, R_OK))
		skip();
	snprintf(copy, sizeof copy, "./tf_plugin_%d_%d.so", (int)getpid(), count++);
	snprintf(command, sizeof command, "cp %s %s", built_plugin, copy);
	assert_int_equal(system(command), 0);
	host_version = version;
	host_devices = devices;
	is_loaded = host_load(copy, &registered, state);
	remove(copy);
	assert_true(is_loaded);
	return registered;
}

int load_usual(void **unused)
{
	const char *state;

	(void)unused;
	setenv("CELLGRAD_BACKEND", "cpu:threads=2", 1);
	setenv("CELLGRAD_TF_BLOCK", "1", 1);
	if (access(built_plugin, R_OK))
		return 0;
	load_plugin("2.21.0", "", &state);
	unsetenv("CELLGRAD_TF_BLOCK");
	return 0;
}

void *kernel_of(const char *op, const char *type, const char *attributes)
{
	char text[256];
	const char *words;
	void *kernel;

	if (access(built_plugin, R_OK))
		skip();
	snprintf(text, sizeof text, "T=%s %s", type, attributes);
	kernel = host_kernel(op, text, &words);
	if (!kernel)
		fail_msg("%s", words);
	return kernel;
}

/* ---- numbers ---- */

static unsigned random_bits(void)
{
	static unsigned seed = 1;

	return (seed = seed * 1664525u + 1013904223u) >> 8;
}

/* Makes a tensor of random numbers of magnitude 1/4 to 1, of either sign. */
TF_Tensor *numbers(TF_DataType type, int rank, const int64_t *dims)
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

TF_Tensor *scalar(TF_DataType type, int64_t value)
{
	TF_Tensor *t = host_tensor(type, 0, NULL);
	int32_t narrow = (int32_t)value;

	memcpy(TF_TensorData(t), type == TF_INT64 ? (void *)&value : (void *)&narrow, host_element(type));
	return t;
}

struct cg_mem mem_of(const TF_Tensor *t)
{
	return cg_host(TF_TensorData(t), TF_TensorByteSize(t));
}

/* Fails unless the k-th output of the host's call has the bytes of `wanted`. */
void assert_output(const struct host_call *call, int k, struct cg_mem wanted)
{
	assert_non_null(call->outputs[k]);
	assert_int_equal(TF_TensorByteSize(call->outputs[k]), wanted.bytes);
	if (wanted.bytes)
		assert_memory_equal(TF_TensorData(call->outputs[k]), wanted.data, wanted.bytes);
}

void assert_done(const struct host_call *call)
{
	if (call->code != TF_OK)
		fail_msg("%s", call->words);
}

void assert_refused(const struct host_call *call, TF_Code code, const char *words)
{
	if (call->code != code || !strstr(call->words, words))
		fail_msg("expected %d \"%s\", got %d \"%s\"", code, words, call->code, call->words);
}

/* ---- networks ---- */

static const int32_t some_lengths[] = { 3, 0, 5 };
const struct net nets[NETS] = {
	{ "rnn_mode=lstm", "lstm", 5, 3, 2, 4, 0, 1, 1, 0, CG_LINEAR, 0, NULL },
	{ "rnn_mode=gru direction=bidirectional dropout=0.5 seed=7 seed2=-9", "gru", 5, 3, 2, 4, 0, 2, 2, 0, CG_LINEAR, 0.5, some_lengths },
	{ "rnn_mode=rnn_tanh input_mode=skip_input", "rnn_tanh", 4, 3, 4, 4, 0, 2, 1, 0, CG_SKIP, 0, NULL },
	{ "rnn_mode=rnn_relu direction=bidirectional input_mode=auto_select", "rnn_relu", 4, 2, 4, 4, 0, 1, 2, 0, CG_AUTO, 0, NULL },
	{ "rnn_mode=lstm direction=bidirectional num_proj=3 time_major=false", "lstm", 5, 3, 2, 4, 3, 2, 2, 1, CG_LINEAR, 0, some_lengths },
	{ "rnn_mode=lstm", "lstm", 0, 3, 2, 4, 0, 1, 1, 0, CG_LINEAR, 0, NULL },
	{ "rnn_mode=lstm", "lstm", 5, 0, 2, 4, 0, 1, 1, 0, CG_LINEAR, 0, NULL },
};
const struct net_type net_types[4] = {
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

/* Gives the call the network's input, states and params, and for V3 the lengths. */
void give_inputs(const struct net *n, TF_DataType type, int dtype, int version, struct host_call *call)
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

/* Makes a tensor of random numbers in the shape of another tensor. */
TF_Tensor *numbers_like(TF_DataType type, const TF_Tensor *t)
{
	int64_t dims[4] = { 0 };

	for (int d = 0; d < TF_NumDims(t); d++)
		dims[d] = TF_Dim(t, d);
	return numbers(type, TF_NumDims(t), dims);
}

/* Gives Backprop the inputs and outputs of forward, upstream gradients and the reserve space. The tensors of forward are freed
   with forward's call. */
void give_backprop(const struct host_call *forward, TF_DataType type, struct host_call *call)
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

void free_backprop(const struct host_call *forward, struct host_call *call)
{
	for (int k = 0; k < HOST_TENSORS; k++)
		for (int i = 0; i < HOST_TENSORS; i++)
			if (call->inputs[k] && (call->inputs[k] == forward->inputs[i] || call->inputs[k] == forward->outputs[i]))
				call->inputs[k] = NULL;
	host_free(call);
}

/* ---- the library's own answers ---- */

static struct cg_context *the_context;
struct cg_stream *the_stream;

int open_context(void **unused)
{
	if (cg_open("cpu:threads=2", &the_context) || cg_stream_open(the_context, NULL, &the_stream))
		return -1;
	return load_usual(unused);
}

int close_context(void **unused)
{
	(void)unused;
	cg_stream_close(the_stream);
	cg_close(the_context);
	return 0;
}

struct cg_mem make_mem(size_t bytes)
{
	return cg_host(bytes ? calloc(1, bytes) : NULL, bytes);
}

/* Runs the library's forward on the memory of the host's inputs; its outputs are in memory of their own. */
void answer_forward(const struct net *n, int dtype, const struct host_call *host, uint64_t counter, struct cg_rnn **rnn, struct cg_rnn_call *args)
{
	struct cg_rnn_config c;
	struct cg_rnn_sizes sizes;

	config_of(n, dtype, &c);
	assert_int_equal(cg_rnn_open(the_context, &c, rnn), CG_OK);
	cg_rnn_call_init(args, sizeof *args);
	args->T = n->T;
	args->B = n->B;
	args->counter = counter;
	args->lengths = n->lengths;
	assert_int_equal(cg_rnn_sizes(*rnn, n->T, n->B, n->lengths, &sizes), CG_OK);
	args->input = mem_of(host->inputs[0]);
	args->input_h = mem_of(host->inputs[1]);
	args->params = mem_of(host->inputs[3]);
	args->output = make_mem(TF_TensorByteSize(host->outputs[0]));
	args->output_h = make_mem(args->input_h.bytes);
	if (is_lstm(n)) {
		args->input_c = mem_of(host->inputs[2]);
		args->output_c = make_mem(args->input_c.bytes);
	}
	args->reserve = make_mem(sizes.reserve);
	assert_int_equal(cg_rnn_forward(the_stream, *rnn, args), CG_OK);
}

static void answer_backward(const struct net *n, const struct host_call *host, int first, const struct cg_rnn *rnn, struct cg_rnn_call *args)
{
	args->output_backprop = mem_of(host->inputs[first]);
	args->output_h_backprop = mem_of(host->inputs[first + 1]);
	args->input_backprop = make_mem(args->input.bytes);
	args->input_h_backprop = make_mem(args->input_h.bytes);
	args->params_backprop = make_mem(args->params.bytes);
	if (is_lstm(n)) {
		args->output_c_backprop = mem_of(host->inputs[first + 2]);
		args->input_c_backprop = make_mem(args->input_c.bytes);
	}
	assert_int_equal(cg_rnn_backward(the_stream, rnn, args), CG_OK);
}

void free_answer(struct cg_rnn *rnn, struct cg_rnn_call *args)
{
	struct cg_mem *const made[] = { &args->output, &args->output_h, &args->output_c, &args->reserve, &args->input_backprop,
		&args->input_h_backprop, &args->input_c_backprop, &args->params_backprop };

	for (size_t k = 0; k < sizeof made / sizeof *made; k++)
		free(made[k]->data);
	cg_rnn_close(rnn);
}

/* ---- networks beside the library ---- */

const char *const forwards[4] = { "", "CudnnRNN", "CudnnRNNV2", "CudnnRNNV3" };
const char *const backwards[4] = { "", "CudnnRNNBackprop", "CudnnRNNBackpropV2", "CudnnRNNBackpropV3" };

static void assert_state(const struct net *n, const struct host_call *call, struct cg_mem wanted)
{
	static const double zero;

	assert_output(call, 2, is_lstm(n) ? wanted : cg_host(&zero, TF_TensorByteSize(call->outputs[2])));
	assert_int_equal(TF_NumDims(call->outputs[2]), is_lstm(n) ? 3 : 0);
}

void check_net(const struct net *n, int t, int version, void *forward, void *backward, uint64_t counter)
{
	struct host_call f, b;
	struct cg_rnn_call args;
	struct cg_rnn *rnn;

	give_inputs(n, net_types[t].type, net_types[t].dtype, version, &f);
	host_run(forwards[version], forward, &f);
	assert_done(&f);
	answer_forward(n, net_types[t].dtype, &f, counter, &rnn, &args);
	assert_output(&f, 0, args.output);
	assert_output(&f, 1, args.output_h);
	assert_state(n, &f, args.output_c);
	assert_output(&f, 3, args.reserve);
	give_backprop(&f, net_types[t].type, &b);
	host_run(backwards[version], backward, &b);
	assert_done(&b);
	answer_backward(n, &b, f.n_inputs + 3, rnn, &args);
	assert_output(&b, 0, args.input_backprop);
	assert_output(&b, 1, args.input_h_backprop);
	assert_state(n, &b, args.input_c_backprop);
	assert_output(&b, 3, args.params_backprop);
	/* A second Backprop from the same reserve space gives the same gradient of params. */
	for (int k = 0; k < 4; k++)
		TF_DeleteTensor(b.outputs[k]);
	host_run(backwards[version], backward, &b);
	assert_output(&b, 3, args.params_backprop);
	free_answer(rnn, &args);
	free_backprop(&f, &b);
	host_free(&f);
}
