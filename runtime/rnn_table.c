/*
 * The lists of the CudnnRNN family's rows: attributes, inputs and outputs of TensorFlow's ops in their versions, each said once,
 * and what our names add.  What is computed is in rnn_op.c and rnn_canonical.c.
 */
#include <string.h>

#include "runtime/op.h"
#include "runtime/rnn.h"

#define CALL(field) offsetof(struct cg_rnn_op, call.field)
#define RNN(field)  offsetof(struct cg_rnn_op, field)

/* ---- sizes ---- */

#define SETTLED_DIMS \
	{ "D*H",     RNN(wide),   .least = 1, .flags = CG_SETTLED | CG_UNSAID, .about = "H of each direction, beside each other" }, \
	{ "params",  RNN(params), .least = 1, .flags = CG_SETTLED | CG_UNSAID, \
	  .about = "as many numbers as rnn_params_size says" }
#define ABOUT_I "width of the input"
#define ABOUT_U "units"
#define ABOUT_H "width of the output: num_proj, or else U"

static const struct cg_dim rnn_dims[] = {
	{ "T",       CALL(T),      .least = 0, .about = "steps" },
	{ "B",       CALL(B),      .least = 0, .about = "rows of the batch" },
	{ "I",       RNN(I),       .least = 1, .about = ABOUT_I },
	{ "U",       RNN(U),       .least = 1, .about = ABOUT_U },
	{ "L",       RNN(L),       .least = 1, .flags = CG_SETTLED, .about = "layers" },
	{ "H",       RNN(H),       .least = 1, .flags = CG_UNSAID, .about = ABOUT_H },
	{ "L*D",     RNN(states),  .least = 1, .flags = CG_UNSAID,
	  .about = "layers, and in each its directions: 1, of bidirectional 2" },
	{ "C",       RNN(C),       .least = 0, .flags = CG_SETTLED | CG_UNSAID, .about = "U; of a cell without a state 0" },
	{ "reserve", RNN(reserve), .least = 0, .flags = CG_SETTLED | CG_UNSAID, .about = "as many as the network and its call need" },
	SETTLED_DIMS,
	{ .symbol = NULL }
};

/* Of the ops on parameters alone TensorFlow gives the sizes as inputs. */
static const struct cg_dim params_dims[] = {
	{ "L",  RNN(num_layers), .least = 1, .about = "num_layers" },
	{ "I",  RNN(input_size), .least = 1, .about = "input_size" },
	{ "U",  RNN(num_units),  .least = 1, .about = "num_units" },
	{ "H",  RNN(H),          .least = 1, .flags = CG_SETTLED | CG_UNSAID, .about = ABOUT_H },
	{ "in", RNN(in),         .least = 0, .flags = CG_SETTLED | CG_UNSAID, .about = "input_size; under skip_input 0" },
	{ "one", RNN(one),        .least = 1, .flags = CG_SETTLED | CG_UNSAID, .about = "1" },
	SETTLED_DIMS,
	{ .symbol = NULL }
};

/* ---- attributes ---- */

static const char *const integers[] = { "int32", "int64", NULL };

#define NETWORK \
	{ .name = "rnn_mode",    .kind = CG_WORD, .words = cg_rnn_modes, .fallback = 2, .at = RNN(rnn_mode) }, \
	{ .name = "input_mode",  .kind = CG_WORD, .words = cg_rnn_inputs, .at = RNN(input_mode) }, \
	{ .name = "direction",   .kind = CG_WORD, .words = cg_rnn_directions, .at = RNN(direction)  }, \
	{ .name = "dropout",     .kind = CG_REAL,    .at = RNN(dropout), .about = "0 to 1: the share of a layer's outputs that the next one does not get" }, \
	{ .name = "seed",        .kind = CG_INTEGER, .at = RNN(seed)    }, \
	{ .name = "seed2",       .kind = CG_INTEGER, .range = "-2147483648 2147483647", .at = RNN(seed2) }
#define PROJECTION { .name = "num_proj",    .kind = CG_INTEGER, .range = "0", .at = RNN(num_proj) }
#define TIME_MAJOR { .name = "time_major",  .kind = CG_BOOL, .fallback = 1, .at = RNN(time_major) }
#define TRAINING   { .name = "is_training", .kind = CG_BOOL, .fallback = 1, .at = RNN(is_training) }
/* Any cell in place of rnn_mode's. */
#define ANY_CELL \
	{ .name = "cell",    .kind = CG_TEXT, .extra = 1, .at = RNN(cell_name), .about = "a built-in cell or a .cell file" }, \
	{ .name = "options", .kind = CG_TEXT, .extra = 1, .at = RNN(options), .about = "the cell's options that are on, with commas" }, \
	{ .name = "values",  .kind = CG_TEXT, .extra = 1, .at = RNN(values_text), .about = "the cell's params, NAME=NUMBER with commas" }
/* The sizes of a call without input_h, and which call it is. */
#define ABOUT_NO_STATES "0: as input_h has it"
#define OURS \
	ANY_CELL, \
	{ .name = "num_layers", .kind = CG_INTEGER, .range = "0", .extra = 1, .at = RNN(num_layers), .about = ABOUT_NO_STATES }, \
	{ .name = "num_units",  .kind = CG_INTEGER, .range = "0", .extra = 1, .at = RNN(num_units), .about = ABOUT_NO_STATES }, \
	{ .name = "counter",    .kind = CG_NATURAL, .extra = 1, .at = CALL(counter), .about = "which call it is, for dropout" }, \
	{ .name = "first_step", .kind = CG_INTEGER, .range = "0", .extra = 1, .at = CALL(first_step), \
	  .about = "where this piece of a longer sequence begins" }, \
	{ .name = "route",      .kind = CG_TEXT, .extra = 1, .at = RNN(route), .about = "composed or cudnn: that or a refusal" }, \
	{ .name = "strict_rounding", .kind = CG_BOOL, .extra = 1, .at = RNN(strict_rounding), \
	  .about = "true: f16 and bf16 never by cuDNN, which rounds sums and c to them" }
#define END { .name = NULL }

static const struct cg_attribute rnn_attributes[] = { NETWORK, PROJECTION, TRAINING, TIME_MAJOR, OURS, END };
static const struct cg_attribute v1_attributes[] = { NETWORK, TRAINING, END };
static const struct cg_attribute backprop_attributes[] = { NETWORK, PROJECTION, TIME_MAJOR, OURS, END };
static const struct cg_attribute backprop_v1_attributes[] = { NETWORK, END };

/* In TensorFlow's ops a scalar each. */
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

#define ABOUT_PARAMS  "all weights and biases in one buffer, which cellgrad convert makes of other formats"
#define ABOUT_RESERVE "what forward keeps for its gradient, in this library's own form"

/* Of a cell without a state input_c is not read, and output_c is empty.  lack: whether input_h may be absent, where an attribute
 * says the sizes that it would. */
#define INPUTS(lack) \
	{ "input",   "T B I",   CG_IN, NULL, 0, .at = CALL(input) }, \
	{ "input_h", "L*D B H", CG_IN, "",   0, .at = CALL(input_h), .flags = lack }, \
	{ "input_c", "L*D B U", CG_IN, "",   0, .at = CALL(input_c), .flags = CG_OURS_LACKS }, \
	{ "params",  "params",  CG_IN, NULL, 0, .at = CALL(params), .about = ABOUT_PARAMS }
#define LENGTHS { "sequence_lengths", "B", CG_IN, "", 0, .at = RNN(sequence_lengths), .type = CG_INT32, \
	          .flags = CG_ON_HOST | CG_OURS_LACKS, .about = "valid steps of each row, from 0 to T, in any order" }
#define OUTPUTS \
	{ "output",   "T B D*H", CG_OUT, NULL, 0, .at = CALL(output)   }, \
	{ "output_h", "L*D B H", CG_OUT, NULL, 0, .at = CALL(output_h) }, \
	{ "output_c", "L*D B C", CG_OUT, NULL, 0, .at = CALL(output_c) }, \
	{ "reserve_space", "reserve", CG_OUT, NULL, 0, .at = CALL(reserve), .flags = CG_ON_HOST | CG_OPAQUE, .about = ABOUT_RESERVE }
#define PLACEHOLDER(flow, need, lack) \
	{ "host_reserved", "", flow, need, 0, .at = RNN(host_reserved), .type = CG_INT8, .flags = CG_ON_HOST | CG_OPAQUE | lack, \
	  .about = "says nothing; TensorFlow's op has it" }

static const struct cg_port rnn_ports[] = { INPUTS(CG_OURS_LACKS), LENGTHS, OUTPUTS, PLACEHOLDER(CG_OUT, NULL, 0), END };
static const struct cg_port v2_ports[] = { INPUTS(0), OUTPUTS, PLACEHOLDER(CG_OUT, NULL, 0), END };
static const struct cg_port v1_ports[] = { INPUTS(0), OUTPUTS, END };

/* Of what forward wrote only the reserve is read, and a call without one makes it. */
#define FROM_FORWARD \
	{ "output",            "T B D*H", CG_IN, "", 0, .at = CALL(output),            .flags = CG_MAY_LACK | CG_SHAPE_ALONE }, \
	{ "output_h",          "L*D B H", CG_IN, "", 0, .at = CALL(output_h),          .flags = CG_MAY_LACK | CG_SHAPE_ALONE }, \
	{ "output_c",          "L*D B U", CG_IN, "", 0, .at = CALL(output_c),          .flags = CG_MAY_LACK | CG_SHAPE_ALONE }, \
	{ "output_backprop",   "T B D*H", CG_IN, "", 0, .at = CALL(output_backprop),   .flags = CG_OURS_LACKS }, \
	{ "output_h_backprop", "L*D B H", CG_IN, "", 0, .at = CALL(output_h_backprop), .flags = CG_OURS_LACKS }, \
	{ "output_c_backprop", "L*D B U", CG_IN, "", 0, .at = CALL(output_c_backprop), .flags = CG_OURS_LACKS }, \
	{ "reserve_space",     "reserve", CG_IN, "", 0, .at = CALL(reserve), .flags = CG_ON_HOST | CG_OPAQUE | CG_MAY_LACK, \
	  .about = ABOUT_RESERVE "; without it forward is run first" }
#define GRADIENTS \
	{ "input_backprop",   "T B I",   CG_OUT,     NULL, 0, .at = CALL(input_backprop)   }, \
	{ "input_h_backprop", "L*D B H", CG_OUT,     NULL, 0, .at = CALL(input_h_backprop) }, \
	{ "input_c_backprop", "L*D B C", CG_OUT,     NULL, 0, .at = CALL(input_c_backprop) }, \
	{ "params_backprop",  "params",  CG_OUT_SUM, NULL, 0, .at = CALL(params_backprop)  }

static const struct cg_port backprop_ports[] = { INPUTS(CG_OURS_LACKS), LENGTHS, FROM_FORWARD, PLACEHOLDER(CG_IN, "", CG_MAY_LACK), GRADIENTS, END };
static const struct cg_port backprop_v2_ports[] = { INPUTS(0), FROM_FORWARD, PLACEHOLDER(CG_IN, "", CG_MAY_LACK), GRADIENTS, END };
static const struct cg_port backprop_v1_ports[] = { INPUTS(0), FROM_FORWARD, GRADIENTS, END };

/* Parameters are copied where they are, and that is the host's memory. */
#define CANONICAL(flow) \
	{ "weights", "", flow, NULL, 0, .at = RNN(items), .flags = CG_ON_HOST | CG_LIST, \
	  .about = "for each layer and direction: of each gate [U, in], above layer 0 [U, D*H]; of each gate [U, H]; " \
	           "a projection [H, U]; peepholes [U]" }, \
	{ "biases",  "", flow, NULL, 0, .at = RNN(items), .flags = CG_ON_HOST | CG_LIST, \
	  .about = "for each layer and direction: of each gate [U], of the input's side; of each gate [U], of the recurrence's" }
#define PARAMS(flow) { "params", "params", flow, NULL, 0, .at = CALL(params), .flags = CG_ON_HOST, .about = ABOUT_PARAMS }
/* TensorFlow's shape is [1]. */
static const struct cg_port params_size_ports[] = {
	{ "params_size", "one", CG_OUT, NULL, 0, .at = RNN(params_size), .type = CG_INT_S, .flags = CG_ON_HOST }, END
};
static const struct cg_port to_canonical_ports[] = { PARAMS(CG_IN), CANONICAL(CG_OUT), END };
static const struct cg_port from_canonical_ports[] = { CANONICAL(CG_IN), PARAMS(CG_OUT), END };

/* ---- the rows ---- */

/* Our name is TensorFlow's newest version, and what it does beyond. */
#define RNN_STRUCT \
	.type = "cg_rnn_call", .size = sizeof(struct cg_rnn_op), .init = cg_rnn_op_init, .plan = 1, \
	.dtype_at = offsetof(struct cg_rnn_op, dtype), .accumulate_at = offsetof(struct cg_rnn_op, call.accumulate), \
	.work_at = offsetof(struct cg_rnn_op, call.work)
#define RNN_MEANS "weights_format=cellgrad num_proj=0 time_major=true counter=0 first_step=0"
#define NETWORKS RNN_STRUCT, .means = RNN_MEANS, .dims = rnn_dims, .settle = cg_rnn_op_settle, .reads = cg_rnn_op_reads, .route = cg_rnn_op_route, \
	.weights = cg_rnn_op_weights, .open = cg_rnn_op_open, .close = cg_rnn_op_close, .time_major_at = offsetof(struct cg_rnn_op, time_major)
#define FORWARD  NETWORKS, .work = cg_rnn_forward_work, .call = cg_rnn_op_forward
#define BACKWARD NETWORKS, .work = cg_rnn_backward_work, .call = cg_rnn_op_backward
#define RNN_PARAMS RNN_STRUCT, .dims = params_dims, .settle = cg_rnn_params_settle, .work = cg_rnn_no_work
#define RNN_LISTS  RNN_PARAMS, .items = cg_rnn_items, .item = cg_rnn_item
#define TO_LISTS   RNN_LISTS, .means = "weights_format=cellgrad num_proj=0"
#define FROM_LISTS RNN_LISTS, .means = "weights_format=canonical num_proj=0"

const struct cg_op cg_cudnn_rnn_ops[] = {
	{ .name = "rnn",                 .tensorflow = "CudnnRNNV3",         FORWARD,
	  .attributes = rnn_attributes,             .ports = rnn_ports },
	{ .name = "rnn_v2",              .tensorflow = "CudnnRNNV2",         FORWARD,
	  .attributes = v1_attributes,          .ports = v2_ports },
	{ .name = "rnn_v1",              .tensorflow = "CudnnRNN",           FORWARD,
	  .attributes = v1_attributes,          .ports = v1_ports },
	{ .name = "rnn_backprop",        .tensorflow = "CudnnRNNBackpropV3", BACKWARD,
	  .attributes = backprop_attributes,    .ports = backprop_ports },
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
