/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of CudnnRNNParamsSize, which counts the parameters, and of CudnnRNNParamsToCanonical, CudnnRNNCanonicalToParams and the V2 of
 * both, which copy between the buffer of parameters and its matrices and biases.  These kernels need no device.
 */
#include <limits.h>
#include <string.h>

#include "bindings/tensorflow/tf_op.h"

/* ---- the network, whose sizes are inputs ---- */

static int read_size(struct cg_tf_call *call, int index, const char *name, int64_t *value)
{
	TF_Tensor *tensor;
	int32_t size = 0;
	size_t count;
	int status = cg_tf_take_input(call, index, &tensor);

	if (status)
		return status;
	count = cg_tf.TensorByteSize(tensor) / sizeof size;
	if (count == 1)
		memcpy(&size, cg_tf.TensorData(tensor), sizeof size);
	*value = size;
	cg_tf.DeleteTensor(tensor);
	if (count != 1)
		return cg_tf_refuse(call, "%s: expected a tensor of one number, got one of %zu numbers", name, count);
	return size < 1 ? cg_tf_refuse(call, "%s: expected one number of at least 1, got %ld", name, (long)size) : CG_OK;
}

static int describe(struct cg_tf_call *call, struct cg_rnn_config *config)
{
	int64_t layers;
	int status = read_size(call, 0, "num_layers", &layers);

	*config = call->kernel->config;
	if (!status)
		status = read_size(call, 1, "num_units", &config->units);
	if (!status)
		status = read_size(call, 2, "input_size", &config->input);
	if (!status)
		config->layers = (int)layers;
	return status;
}

/* ---- CudnnRNNParamsSize ---- */

int cg_tf_run_params_size(struct cg_tf_call *call)
{
	int is_wide = call->kernel->S == TF_INT64;
	struct cg_rnn_config config;
	size_t bytes;
	int64_t count;
	int32_t narrow;
	TF_Tensor *size;
	int status = describe(call, &config);

	if (status || (status = cg_tf_pass(call, cg_rnn_params(&config, &bytes))))
		return status;
	count = (int64_t)(bytes / call->kernel->element);
	narrow = (int32_t)count;
	if (!is_wide && count > INT32_MAX)
		return cg_tf_refuse(call, "S: expected int64, since an int32 cannot hold %lld, the number of parameters", (long long)count);
	status = cg_tf_make_output(call, 0, call->kernel->S, (int64_t[]){ 1 }, 1, is_wide ? sizeof count : sizeof narrow, &size);
	if (status)
		return status;
	memcpy(cg_tf.TensorData(size), is_wide ? (void *)&count : (void *)&narrow, is_wide ? sizeof count : sizeof narrow);
	cg_tf.DeleteTensor(size);
	return CG_OK;
}

/* ---- the list of parameter tensors: all weights, then all biases ---- */

struct list {
	struct cg_rnn_config config;
	struct cg_weights weights;
	int n;                                   /* the number of tensors */
};

/* Makes the list of tensors, and refuses it if its numbers of weights and biases differ from the op's attributes. */
static int make_list(struct cg_tf_call *call, struct list *list)
{
	struct cg_tensor tensor;
	int64_t n[2] = { 0, 0 };                 /* the numbers of weights and of biases */
	int status = describe(call, &list->config);

	if (status)
		return status;
	cg_weights_init(&list->weights, sizeof list->weights);
	list->weights.network = &list->config;
	list->weights.format = "canonical";
	if ((status = cg_tf_pass(call, cg_rnn_params(&list->config, &list->weights.bytes))))
		return status;
	for (list->n = 0;; list->n++) {
		if ((status = cg_tf_pass(call, cg_weights_tensor(&list->weights, list->n, &tensor))))
			return status;
		if (!*tensor.name)
			break;
		n[tensor.rank == 1]++;
	}
	if (n[0] != call->kernel->n_weights || n[1] != call->kernel->n_biases)
		return cg_tf_refuse(call, "expected lists of %lld weights and %lld biases, got %lld weights and %lld biases", (long long)n[0],
		                    (long long)n[1], (long long)call->kernel->n_weights, (long long)call->kernel->n_biases);
	return CG_OK;
}

static int save_one(struct cg_tf_call *call, const struct list *list, int k)
{
	struct cg_tensor tensor;
	TF_Tensor *output;
	int status = cg_tf_pass(call, cg_weights_tensor(&list->weights, k, &tensor));

	if (status || (status = cg_tf_make_output(call, k, call->kernel->type, tensor.shape, tensor.rank, call->kernel->element, &output)))
		return status;
	if (tensor.bytes)
		status = cg_tf_pass(call, cg_weights_save(&list->weights, k, cg_tf.TensorData(output), tensor.bytes));
	cg_tf.DeleteTensor(output);
	return status;
}

int cg_tf_run_to_canonical(struct cg_tf_call *call)
{
	struct list list;
	TF_Tensor *params;
	int status = make_list(call, &list);

	if (status || (status = cg_tf_take_input(call, 3, &params)))
		return status;
	if (cg_tf.TensorByteSize(params) != list.weights.bytes)
		status = cg_tf_refuse(call, "params: expected a tensor of %zu bytes, got one of %zu", list.weights.bytes,
		                      cg_tf.TensorByteSize(params));
	else
		list.weights.params = cg_tf.TensorData(params);
	for (int k = 0; !status && k < list.n; k++)
		status = save_one(call, &list, k);
	cg_tf.DeleteTensor(params);
	return status;
}

/* Copies one tensor into the params.  The tensor may have any shape with the right number of bytes, as in TensorFlow. */
static int load_one(struct cg_tf_call *call, const struct list *list, int k)
{
	struct cg_tensor tensor;
	TF_Tensor *input;
	int status = cg_tf_pass(call, cg_weights_tensor(&list->weights, k, &tensor));

	if (status || (status = cg_tf_take_input(call, 3 + k, &input)))
		return status;
	if (cg_tf.TensorByteSize(input) != tensor.bytes)
		status = cg_tf_refuse(call, "%s: expected a tensor of %zu bytes, got one of %zu", tensor.name, tensor.bytes,
		                      cg_tf.TensorByteSize(input));
	else if (tensor.bytes)
		status = cg_tf_pass(call, cg_weights_load(&list->weights, k, cg_tf.TensorData(input), tensor.bytes));
	cg_tf.DeleteTensor(input);
	return status;
}

int cg_tf_run_from_canonical(struct cg_tf_call *call)
{
	struct list list;
	TF_Tensor *params;
	int64_t count;
	int status = make_list(call, &list);

	if (status)
		return status;
	count = (int64_t)(list.weights.bytes / call->kernel->element);
	if ((status = cg_tf_make_output(call, 0, call->kernel->type, &count, 1, call->kernel->element, &params)))
		return status;
	list.weights.params = cg_tf.TensorData(params);
	/* Params that no tensor of the list sets are 0. */
	memset(list.weights.params, 0, list.weights.bytes);
	for (int k = 0; !status && k < list.n; k++)
		status = load_one(call, &list, k);
	cg_tf.DeleteTensor(params);
	return status;
}

const struct cg_tf_op cg_tf_params_ops[] = {
	{ "CudnnRNNParamsSize", cg_tf_run_params_size, NULL, NULL, 0, 0, 0 },
	{ "CudnnRNNParamsToCanonical", cg_tf_run_to_canonical, NULL, NULL, 0, 0, 0 },
	{ "CudnnRNNParamsToCanonicalV2", cg_tf_run_to_canonical, NULL, NULL, 0, 0, 0 },
	{ "CudnnRNNCanonicalToParams", cg_tf_run_from_canonical, NULL, NULL, 0, 0, 0 },
	{ "CudnnRNNCanonicalToParamsV2", cg_tf_run_from_canonical, NULL, NULL, 0, 0, 0 },
	{ NULL, NULL, NULL, NULL, 0, 0, 0 }
};
