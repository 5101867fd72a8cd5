/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of the CudnnRNN ops: attributes, inputs and outputs of all versions of TensorFlow's ops, each written once, and the library's
 * additions.  cudnn_rnn.c and canonical.c compute the ops.
 */
#include "runtime/rnn/op_rows.h"
#include "runtime/tensorflow/cudnn_rnn.h"

/* ---- sizes ---- */

/* The sizes of the ops that measure or convert params, such as CudnnRNNParamsSize; TensorFlow's ops have L, I and U as inputs. */
static const struct cg_dim params_dims[] = {
	{ "L",  RNN(num_layers), .least = 1, .about = "num_layers" },
	{ "I",  RNN(input_size), .least = 1, .about = "input_size" },
	{ "U",  RNN(num_units),  .least = 1, .about = "num_units" },
	{ "H",  RNN(H),          .least = 1, .flags = CG_INFERRED | CG_UNSAID, .about = ABOUT_H },
	{ "in", RNN(in),         .least = 0, .flags = CG_INFERRED | CG_UNSAID,
	  .about = "width of layer 0's input matrices: input_size, or 0 if the input is skipped" },
	{ "one", RNN(one),        .least = 1, .flags = CG_INFERRED | CG_UNSAID, .about = "1" },
	INFERRED_DIMS,
	{ .symbol = NULL }
};

/* ---- attributes ---- */

static const char *const integers[] = { "int32", "int64", NULL };

static const struct cg_attribute v1_attributes[] = { NETWORK, TRAINING, END };
static const struct cg_attribute backprop_v1_attributes[] = { NETWORK, END };

/* In TensorFlow's ops that measure or convert params, each of num_layers, num_units and input_size is a scalar input. */
#define SIZES \
	{ .name = "num_layers", .kind = CG_INTEGER, .range = "1 2147483647", .scalar = 1, .required = 1, .at = RNN(num_layers) }, \
	{ .name = "num_units",  .kind = CG_INTEGER, .range = "1", .scalar = 1, .required = 1, .at = RNN(num_units)  }, \
	{ .name = "input_size", .kind = CG_INTEGER, .range = "1", .scalar = 1, .required = 1, .at = RNN(input_size) }
#define COUNT(field) { .name = #field, .kind = CG_INTEGER, .range = "1", .required = 1, .at = RNN(field) }

static const struct cg_attribute params_size_attributes[] = {
	SIZES, { .name = "S", .kind = CG_WORD, .words = integers, .at = RNN(S) }, NETWORK, PROJECTION, ANY_CELL, END
};
static const struct cg_attribute canonical_attributes[] = {
	SIZES, COUNT(num_params_weights), COUNT(num_params_biases), NETWORK, PROJECTION, ANY_CELL, END
};
static const struct cg_attribute canonical_v1_attributes[] = { SIZES, COUNT(num_params), NETWORK, END };

/* ---- inputs and outputs ---- */

static const struct cg_port v2_ports[] = { INPUTS(0), OUTPUTS, PLACEHOLDER(CG_OUT, NULL, 0), END };
static const struct cg_port v1_ports[] = { INPUTS(0), OUTPUTS, END };

static const struct cg_port backprop_v2_ports[] = { INPUTS(0), FROM_FORWARD, PLACEHOLDER(CG_IN, "", CG_MAY_LACK), GRADIENTS, END };
static const struct cg_port backprop_v1_ports[] = { INPUTS(0), FROM_FORWARD, GRADIENTS, END };

/* The ports of the ops between params and canonical tensors; these ops copy by way of params in host memory. */
#define CANONICAL(flow) \
	{ "weights", "", flow, NULL, 0, .at = sizeof(struct cg_rnn_op), .flags = CG_ON_HOST | CG_LIST, \
	  .about = "for each layer and direction: an input matrix for each gate, [U, in], above layer 0 [U, D*H]; a recurrent matrix for " \
	           "each gate, [U, H]; the projection, [H, U]; peepholes, [U]" }, \
	{ "biases",  "", flow, NULL, 0, .at = sizeof(struct cg_rnn_op), .flags = CG_ON_HOST | CG_LIST, \
	  .about = "for each layer and direction: an input bias for each gate, [U]; a recurrent bias for each gate, [U]" }
#define PARAMS(flow) { "params", "params", flow, NULL, 0, .at = CALL(params), .flags = CG_ON_HOST, .about = ABOUT_PARAMS }
/* The output of CudnnRNNParamsSize has the shape [1], as in TensorFlow. */
static const struct cg_port params_size_ports[] = {
	{ "params_size", "one", CG_OUT, NULL, 0, .at = RNN(params_size), .type = CG_INT_S, .flags = CG_ON_HOST }, END
};
static const struct cg_port to_canonical_ports[] = { PARAMS(CG_IN), CANONICAL(CG_OUT), END };
static const struct cg_port from_canonical_ports[] = { CANONICAL(CG_IN), PARAMS(CG_OUT), END };

/* ---- the rows ---- */

/* An op whose name in the library has no version, such as rnn, is the newest version of TensorFlow's op, with the library's additions. */
#define RNN_MEANS "weights_format=cellgrad num_proj=0 time_major=true counter=0 first_step=0"
#define NETWORKS RNN_STRUCT, .means = RNN_MEANS, .dims = cg_rnn_dims, .infer = cg_rnn_op_infer, .reads = cg_rnn_op_reads, .route = cg_rnn_op_route, \
	.weights = cg_rnn_op_weights, .open = cg_rnn_op_open, .close = cg_rnn_op_close, .time_major_at = offsetof(struct cg_rnn_op, time_major), \
	.states_major_at = offsetof(struct cg_rnn_op, states_major)
#define FORWARD  NETWORKS, .work = cg_rnn_forward_work, .call = cg_rnn_op_forward
#define BACKWARD NETWORKS, .work = cg_rnn_backward_work, .call = cg_rnn_op_backward
#define RNN_PARAMS RNN_STRUCT, .dims = params_dims, .infer = cg_rnn_params_infer, .work = cg_rnn_no_work
#define RNN_LISTS  RNN_PARAMS, .items = cg_rnn_items, .item = cg_rnn_item
#define TO_LISTS   RNN_LISTS, .means = "weights_format=cellgrad num_proj=0"
#define FROM_LISTS RNN_LISTS, .means = "weights_format=canonical num_proj=0"

const struct cg_op cg_cudnn_rnn_ops[] = {
	{ .name = "rnn",                 .tensorflow = "CudnnRNNV3",         FORWARD,
	  .attributes = cg_rnn_attributes,             .ports = cg_rnn_all_ports },
	{ .name = "rnn_v2",              .tensorflow = "CudnnRNNV2",         FORWARD,
	  .attributes = v1_attributes,          .ports = v2_ports },
	{ .name = "rnn_v1",              .tensorflow = "CudnnRNN",           FORWARD,
	  .attributes = v1_attributes,          .ports = v1_ports },
	{ .name = "rnn_backprop",        .tensorflow = "CudnnRNNBackpropV3", BACKWARD,
	  .attributes = cg_rnn_backprop_attributes,    .ports = cg_rnn_backprop_all_ports },
	{ .name = "rnn_backprop_v2",     .tensorflow = "CudnnRNNBackpropV2", BACKWARD,
	  .attributes = backprop_v1_attributes, .ports = backprop_v2_ports },
	{ .name = "rnn_backprop_v1",     .tensorflow = "CudnnRNNBackprop",   BACKWARD,
	  .attributes = backprop_v1_attributes, .ports = backprop_v1_ports },
	{ .name = "rnn_params_size",     .tensorflow = "CudnnRNNParamsSize", RNN_PARAMS, .call = cg_rnn_params_size, .means = "num_proj=0",
	  .attributes = params_size_attributes, .ports = params_size_ports },
	{ .name = "rnn_params_to_canonical",    .tensorflow = "CudnnRNNParamsToCanonicalV2", TO_LISTS, .call = cg_rnn_to_canonical,
	  .attributes = canonical_attributes,    .ports = to_canonical_ports },
	{ .name = "rnn_params_to_canonical_v1", .tensorflow = "CudnnRNNParamsToCanonical",   TO_LISTS, .call = cg_rnn_to_canonical,
	  .attributes = canonical_v1_attributes, .ports = to_canonical_ports },
	{ .name = "rnn_canonical_to_params",    .tensorflow = "CudnnRNNCanonicalToParamsV2", FROM_LISTS, .call = cg_rnn_from_canonical,
	  .attributes = canonical_attributes,    .ports = from_canonical_ports },
	{ .name = "rnn_canonical_to_params_v1", .tensorflow = "CudnnRNNCanonicalToParams",   FROM_LISTS, .call = cg_rnn_from_canonical,
	  .attributes = canonical_v1_attributes, .ports = from_canonical_ports },
	{ .name = NULL }
};
