/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of the rows of networks: sizes, attributes, inputs and outputs.  Each part is written once, for the library's own calls and for
 * all versions of TensorFlow's CudnnRNN.
 */
#ifndef CG_OP_ROWS_H
#define CG_OP_ROWS_H

#include "runtime/op/op.h"
#include "runtime/rnn/rnn.h"

/* The lists of sizes and attributes of the library's own calls: all those of the newest version of TensorFlow's ops, and some more. */
extern const struct cg_dim cg_rnn_dims[];
extern const struct cg_attribute cg_rnn_attributes[], cg_rnn_backprop_attributes[];
/* Lists of inputs and outputs.  cg_rnn_ports, cg_rnn_backprop_ports: those of TensorFlow's ops, for networks whose cell has at most one
 * cell state; the other two: those of any network. */
extern const struct cg_port cg_rnn_ports[], cg_rnn_backprop_ports[], cg_rnn_all_ports[], cg_rnn_backprop_all_ports[];

#define RNN_STRUCT CG_READ_ONCE, \
	.type = "cg_rnn_call", .size = sizeof(struct cg_rnn_op), .init = cg_rnn_op_init, .plan = 1, \
	.dtype_at = offsetof(struct cg_rnn_op, dtype), .accumulate_at = offsetof(struct cg_rnn_op, call.accumulate), \
	.work_at = offsetof(struct cg_rnn_op, call.work)

#define CALL(field) offsetof(struct cg_rnn_op, call.field)
#define RNN(field)  offsetof(struct cg_rnn_op, field)

/* ---- sizes ---- */

#define INFERRED_DIMS \
	{ "D*H",     RNN(wide),   .least = 1, .flags = CG_INFERRED | CG_UNSAID, \
	  .about = "width of the output: H for each direction, side by side" }, \
	{ "params",  RNN(params), .least = 1, .flags = CG_INFERRED | CG_UNSAID, \
	  .about = "the number of elements that rnn_params_size gives" }
#define ABOUT_I "width of the input"
#define ABOUT_U "units"
#define ABOUT_H "width of a hidden state: num_proj, or else U"

/* ---- attributes ---- */

#define NETWORK \
	{ .name = "rnn_mode",    .kind = CG_WORD, .words = cg_rnn_modes, .fallback = 2, .at = RNN(rnn_mode) }, \
	{ .name = "input_mode",  .kind = CG_WORD, .words = cg_rnn_inputs, .at = RNN(input_mode) }, \
	{ .name = "direction",   .kind = CG_WORD, .words = cg_rnn_directions, .at = RNN(direction)  }, \
	{ .name = "dropout",     .kind = CG_REAL,    .at = RNN(dropout), .about = "0 to 1: the share of a layer's outputs that are dropped" }, \
	{ .name = "seed",        .kind = CG_INTEGER, .at = RNN(seed)    }, \
	{ .name = "seed2",       .kind = CG_INTEGER, .range = "-2147483648 2147483647", .at = RNN(seed2) }
#define PROJECTION { .name = "num_proj",    .kind = CG_INTEGER, .range = "0", .at = RNN(num_proj) }
#define TIME_MAJOR { .name = "time_major",  .kind = CG_BOOL, .fallback = 1, .at = RNN(time_major) }
#define TRAINING   { .name = "is_training", .kind = CG_BOOL, .fallback = 1, .at = RNN(is_training) }
/* Attributes that select any cell in place of rnn_mode. */
#define ANY_CELL \
	{ .name = "cell",    .kind = CG_TEXT, .extra = 1, .at = RNN(cell_name), .about = "a cell by name or a .cell file" }, \
	{ .name = "options", .kind = CG_TEXT, .extra = 1, .at = RNN(options), .about = "the cell's options that are on, separated by commas" }, \
	{ .name = "values",  .kind = CG_TEXT, .extra = 1, .at = RNN(values_text), .about = "the cell's params, NAME=NUMBER separated by commas" }
/* Attributes that the library's own calls have and TensorFlow's ops lack. */
#define ABOUT_NO_STATES "for a call without input_h and input_c, whose shapes otherwise give the value; 0: not set"
#define OURS \
	ANY_CELL, \
	{ .name = "num_layers", .kind = CG_INTEGER, .range = "0", .extra = 1, .at = RNN(num_layers), .about = ABOUT_NO_STATES }, \
	{ .name = "num_units",  .kind = CG_INTEGER, .range = "0", .extra = 1, .at = RNN(num_units), .about = ABOUT_NO_STATES }, \
	{ .name = "counter",    .kind = CG_NATURAL, .extra = 1, .at = CALL(counter), .about = "the number of the call, on which dropout's masks depend" }, \
	{ .name = "first_step", .kind = CG_INTEGER, .range = "0", .extra = 1, .at = CALL(first_step), \
	  .about = "the number of the first step in a longer sequence" }, \
	{ .name = "no_dropout", .kind = CG_BOOL, .extra = 1, .at = CALL(no_dropout), .about = "true: this call has no dropout" }, \
	{ .name = "reverse",    .kind = CG_BOOL, .extra = 1, .at = RNN(reverse), \
	  .about = "true: each batch row runs from its last valid step to its first" }, \
	{ .name = "states_major", .kind = CG_BOOL, .extra = 1, .at = RNN(states_major), \
	  .about = "true: states are [L*D B .] with time_major=false, too" }, \
	{ .name = "route",      .kind = CG_TEXT, .extra = 1, .at = RNN(route), .about = "a route that info lists; if it is not possible, an error" }, \
	{ .name = "strict_rounding", .kind = CG_BOOL, .extra = 1, .at = RNN(strict_rounding), \
	  .about = "true: f16 and bf16 never use cuDNN, which rounds sums and c to 16 bits" }
#define END { .name = NULL }

/* ---- inputs and outputs ---- */

#define ABOUT_PARAMS  "all weights and biases in one buffer; cellgrad convert makes it from other formats"
#define ABOUT_RESERVE "the reserve space, which the gradient reads; its format is private"

/* For a cell without a cell state, input_c is not read and output_c is empty.  Argument `lack` of INPUTS: the flag of port input_h, which
 * may be absent if attributes give the sizes that its shape would give. */
#define INPUTS(lack) \
	{ "input",   "T B I",   CG_IN, NULL, 0, .at = CALL(input) }, \
	{ "input_h", "L*D B H", CG_IN, "",   0, .at = CALL(input_h), .flags = lack }, \
	{ "input_c", "L*D B U", CG_IN, "",   0, .at = CALL(input_c), .flags = CG_OURS_LACKS | CG_OF_STATE }, \
	{ "params",  "params",  CG_IN, NULL, 0, .at = CALL(params), .about = ABOUT_PARAMS }
#define LENGTHS { "sequence_lengths", "B", CG_IN, "", 0, .at = RNN(sequence_lengths), .type = CG_INT32, \
	          .flags = CG_ON_HOST | CG_OURS_LACKS, .about = "valid steps of each row of the batch: numbers from 0 to T, in any order" }
#define OUTPUTS \
	{ "output",   "T B D*H", CG_OUT, NULL, 0, .at = CALL(output)   }, \
	{ "output_h", "L*D B H", CG_OUT, NULL, 0, .at = CALL(output_h) }, \
	{ "output_c", "L*D B C", CG_OUT, NULL, 0, .at = CALL(output_c), .flags = CG_OF_STATE }, \
	{ "reserve_space", "reserve", CG_OUT, NULL, 0, .at = CALL(reserve), .flags = CG_ON_HOST | CG_OPAQUE, .about = ABOUT_RESERVE }
/* Ports for the second to fourth state of a cell, which TensorFlow's ops lack.  field: the array of their memory in struct cg_rnn_call;
 * k: 2 to 4, the number of the state. */
#define ABOUT_STATE(k) "of a cell with " #k " states or more"
#define STATE_IN(name, field, k)  { name, "L*D B U", CG_IN,  "",   1, .at = CALL(field[(k) - 2]), .flags = CG_OURS_LACKS, .state = k, \
	                            .about = ABOUT_STATE(k) }
#define STATE_OUT(name, field, k) { name, "L*D B U", CG_OUT, NULL, 1, .at = CALL(field[(k) - 2]), .state = k, .about = ABOUT_STATE(k) }
#define STATES(put, name, field)  put(name "_s2", field, 2), put(name "_s3", field, 3), put(name "_s4", field, 4)
#define STATES_BACK(put, name, field) \
	put(name "_s2_backprop", field, 2), put(name "_s3_backprop", field, 3), put(name "_s4_backprop", field, 4)

#define PLACEHOLDER(flow, need, lack) \
	{ "host_reserved", "", flow, need, 0, .at = RNN(host_reserved), .type = CG_INT8, .flags = CG_ON_HOST | CG_OPAQUE | lack, \
	  .about = "not used; TensorFlow's op has it" }
/* Inputs of the gradient op that are outputs of the forward op, of which the gradient reads only the reserve space; and the upstream
 * gradients.  If the reserve space is absent, the function `call` of the op's row runs the forward pass first; cg_rnn_backward() fails. */
#define FROM_FORWARD \
	{ "output",            "T B D*H", CG_IN, "", 0, .at = CALL(output),            .flags = CG_MAY_LACK | CG_SHAPE_ALONE }, \
	{ "output_h",          "L*D B H", CG_IN, "", 0, .at = CALL(output_h),          .flags = CG_MAY_LACK | CG_SHAPE_ALONE }, \
	{ "output_c",          "L*D B U", CG_IN, "", 0, .at = CALL(output_c),          .flags = CG_MAY_LACK | CG_SHAPE_ALONE | CG_OF_STATE }, \
	{ "output_backprop",   "T B D*H", CG_IN, "", 0, .at = CALL(output_backprop),   .flags = CG_OURS_LACKS }, \
	{ "output_h_backprop", "L*D B H", CG_IN, "", 0, .at = CALL(output_h_backprop), .flags = CG_OURS_LACKS }, \
	{ "output_c_backprop", "L*D B U", CG_IN, "", 0, .at = CALL(output_c_backprop), .flags = CG_OURS_LACKS | CG_OF_STATE }, \
	{ "reserve_space",     "reserve", CG_IN, "", 0, .at = CALL(reserve), .flags = CG_ON_HOST | CG_OPAQUE | CG_MAY_LACK, \
	  .about = ABOUT_RESERVE "; without it, forward runs first" }
#define GRADIENTS \
	{ "input_backprop",   "T B I",   CG_OUT,     NULL, 0, .at = CALL(input_backprop)   }, \
	{ "input_h_backprop", "L*D B H", CG_OUT,     NULL, 0, .at = CALL(input_h_backprop) }, \
	{ "input_c_backprop", "L*D B C", CG_OUT,     NULL, 0, .at = CALL(input_c_backprop), .flags = CG_OF_STATE }, \
	{ "params_backprop",  "params",  CG_OUT_SUM, NULL, 0, .at = CALL(params_backprop)  }

#endif
