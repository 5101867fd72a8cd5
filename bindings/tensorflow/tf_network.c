/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of CudnnRNN, CudnnRNNV2, CudnnRNNV3 and their Backprops: each call of a kernel is one call of a plan, which the library keeps
 * from call to call.
 */
#include <limits.h>

#include "bindings/tensorflow/tf_op.h"

/* ---- a plan ---- */

/* Describes the network that the kernel's attributes and the sizes of the call give. */
static int describe(struct cg_tf_call *call, struct cg_rnn_config *config)
{
	const struct cg_tf_kernel *k = call->kernel;
	int64_t pseudo_layers = call->dims[CG_TF_LD], H = call->dims[CG_TF_H];

	if (!k->has_state)
		call->dims[CG_TF_U] = H;
	if (pseudo_layers < 1 || pseudo_layers % call->directions || pseudo_layers > INT_MAX)
		return cg_tf_refuse(call, "input_h: expected a dimension L*D, layers times directions, of 1 to %d and a multiple of %d, got %lld",
		                    INT_MAX, call->directions, (long long)pseudo_layers);
	if (k->config.proj < 0)
		return cg_tf_refuse(call, "num_proj: expected 0, for no projection, or more, got %lld", (long long)k->config.proj);
	if (k->config.proj ? k->config.proj != H : call->dims[CG_TF_U] != H)
		return cg_tf_refuse(call, "input_h: expected a last dimension of %lld, equal to %s, got %lld",
		                    (long long)(k->config.proj ? k->config.proj : call->dims[CG_TF_U]),
		                    k->config.proj ? "num_proj" : "that of input_c", (long long)H);
	*config = k->config;
	config->input = call->dims[CG_TF_I];
	config->units = call->dims[CG_TF_U];
	config->layers = (int)(pseudo_layers / call->directions);
	return CG_OK;
}

/* ---- a call of a plan ---- */

/* The call's input sequence_lengths; NULL: the op has no such input. */
static const TF_Tensor *find_lengths(const struct cg_tf_call *call)
{
	const struct cg_tf_port *port = call->kernel->op->inputs;

	for (int k = 0; port[k].name; k++)
		if (port[k].type == CG_TF_INT32)
			return call->inputs[k];
	return NULL;
}

/* Sets the counter of a call: forward counts the kernel's calls, and backward reads the counter of its forward call from the reserve
 * space. */
static int set_counter(struct cg_tf_call *call, struct cg_rnn_call *args)
{
	if (call->kernel->op->is_gradient)
		return cg_tf_pass(call, cg_rnn_reserve_counter(args->reserve.data, args->reserve.bytes, &args->counter));
	args->counter = atomic_fetch_add_explicit(&call->kernel->counter, 1, memory_order_relaxed);
	return CG_OK;
}

static int compute(struct cg_tf_call *call, struct cg_stream *stream, const struct cg_rnn *rnn)
{
	const TF_Tensor *lengths = find_lengths(call);
	int is_gradient = call->kernel->op->is_gradient, status;
	struct cg_rnn_call args;
	struct cg_rnn_sizes sizes;
	int64_t element = (int64_t)call->kernel->element;

	cg_rnn_call_init(&args, sizeof args);
	args.T = call->dims[CG_TF_T];
	args.B = call->dims[CG_TF_B];
	args.lengths = lengths ? cg_tf_mem(lengths).data : NULL;
	cg_tf_place_inputs(call, &args);
	if ((status = cg_tf_pass(call, cg_rnn_sizes(rnn, args.T, args.B, args.lengths, &sizes))))
		return status;
	if (args.params.bytes != sizes.params)
		return cg_tf_refuse(call, "params: expected %lld elements, as CudnnRNNParamsSize says, got %lld",
		                    (long long)sizes.params / element, (long long)call->dims[CG_TF_P]);
	if ((status = set_counter(call, &args)))
		return status;
	if (!is_gradient)
		call->dims[CG_TF_R] = ((int64_t)sizes.reserve + element - 1) / element;
	if ((status = cg_tf_make_outputs(call, &args)))
		return status;
	return cg_tf_pass(call, is_gradient ? cg_rnn_backward(stream, rnn, &args) : cg_rnn_forward(stream, rnn, &args));
}

int cg_tf_run_network(struct cg_tf_call *call)
{
	struct cg_context *context;
	struct cg_stream *stream;
	struct cg_rnn_config config;
	struct cg_rnn *rnn = NULL;
	int status = cg_tf_read_inputs(call);

	if (!status)
		status = describe(call, &config);
	if (!status)
		status = cg_tf_get_context(call, &context);
	if (!status)
		status = cg_tf_pass(call, cg_rnn_get(context, &config, &rnn));
	if (!status && !(status = cg_tf_pass(call, cg_stream_take(context, &stream)))) {
		status = compute(call, stream, rnn);
		if (cg_tf_pass(call, cg_stream_give(stream)))
			status = CG_DRIVER;
	}
	cg_rnn_close(rnn);
	return status;
}

/* ---- rows ---- */

#define CALL(field) offsetof(struct cg_rnn_call, field)
#define SEQUENCE(name, width) { #name, { CG_TF_T, CG_TF_B, width }, CG_TF_REAL, 0, CALL(name) }
#define STATE_H(name) { #name, { CG_TF_LD, CG_TF_B, CG_TF_H }, CG_TF_REAL, 0, CALL(name) }
#define STATE_C(name) { #name, { CG_TF_LD, CG_TF_B, CG_TF_U }, CG_TF_REAL, CG_TF_STATE, CALL(name) }
#define PARAMS(name) { #name, { CG_TF_P }, CG_TF_REAL, 0, CALL(name) }
#define RESERVE { "reserve_space", { CG_TF_R }, CG_TF_REAL, CG_TF_TRAINING, CALL(reserve) }
#define LENGTHS { "sequence_lengths", { CG_TF_B }, CG_TF_INT32, 0, CG_TF_NOWHERE },
#define HOST_RESERVED { "host_reserved", { 0 }, CG_TF_INT8, CG_TF_UNUSED, CG_TF_NOWHERE },
#define NOTHING
#define END { NULL, { 0 }, 0, 0, 0 }

#define INPUTS SEQUENCE(input, CG_TF_I), STATE_H(input_h), STATE_C(input_c), PARAMS(params)
#define OUTPUTS SEQUENCE(output, CG_TF_DH), STATE_H(output_h), STATE_C(output_c)
#define BACKPROPS SEQUENCE(output_backprop, CG_TF_DH), STATE_H(output_h_backprop), STATE_C(output_c_backprop)

static const struct cg_tf_port inputs[] = { INPUTS, END };
static const struct cg_tf_port inputs_v3[] = { INPUTS, LENGTHS END };
static const struct cg_tf_port outputs[] = { OUTPUTS, RESERVE, END };
static const struct cg_tf_port outputs_v2[] = { OUTPUTS, RESERVE, HOST_RESERVED END };

#define BACKPROP_INPUTS(lengths, host_reserved) { INPUTS, lengths OUTPUTS, BACKPROPS, RESERVE, host_reserved END }
static const struct cg_tf_port backprop_inputs[] = BACKPROP_INPUTS(NOTHING, NOTHING);
static const struct cg_tf_port backprop_inputs_v2[] = BACKPROP_INPUTS(NOTHING, HOST_RESERVED);
static const struct cg_tf_port backprop_inputs_v3[] = BACKPROP_INPUTS(LENGTHS, HOST_RESERVED);
static const struct cg_tf_port gradients[] = {
	SEQUENCE(input_backprop, CG_TF_I), STATE_H(input_h_backprop), STATE_C(input_c_backprop), PARAMS(params_backprop), END
};

const struct cg_tf_op cg_tf_network_ops[] = {
	{ "CudnnRNN", cg_tf_run_network, inputs, outputs, 0, 0, 0 },
	{ "CudnnRNNV2", cg_tf_run_network, inputs, outputs_v2, 0, 0, 0 },
	{ "CudnnRNNV3", cg_tf_run_network, inputs_v3, outputs_v2, 0, 0, 0 },
	{ "CudnnRNNBackprop", cg_tf_run_network, backprop_inputs, gradients, 1, 0, 0 },
	{ "CudnnRNNBackpropV2", cg_tf_run_network, backprop_inputs_v2, gradients, 1, 0, 0 },
	{ "CudnnRNNBackpropV3", cg_tf_run_network, backprop_inputs_v3, gradients, 1, 0, 0 },
	{ NULL, NULL, NULL, NULL, 0, 0, 0 }
};
