/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lists for the rows of a network's call and of its gradient: sizes, attributes, inputs and outputs.
 */
#include <string.h>

#include "runtime/rnn/op_rows.h"

/* The words of TensorFlow's attributes rnn_mode, input_mode and direction, in TensorFlow's order. */
const char *const cg_rnn_modes[] = { "rnn_relu", "rnn_tanh", "lstm", "gru", NULL };
const char *const cg_rnn_inputs[] = { "linear_input", "skip_input", "auto_select", NULL };
const char *const cg_rnn_directions[] = { "unidirectional", "bidirectional", NULL };

void cg_rnn_op_init(void *op, size_t size)
{
	struct cg_rnn_op *to = op;

	memset(op, 0, size);
	to->call.size = size;
	to->rnn_mode = 2;
	to->is_training = to->time_major = 1;
	to->one = 1;
}

const struct cg_cell *cg_rnn_op_cell(const struct cg_rnn_op *op)
{
	return op->cell ? op->cell : cg_cell_find(cg_rnn_modes[op->rnn_mode]);
}

int cg_rnn_op_reads(const struct cg_op *row, const struct cg_port *port, const void *op)
{
	(void)row;
	return port->type != CG_INT8 && (port->flags & CG_OF_STATE ? 1 : port->state) < cg_rnn_op_cell(op)->n_prevs;
}

int cg_rnn_op_spacing(const struct cg_port *port, const void *given, struct cg_spacing *spacing)
{
	const struct cg_rnn_op *op = given;
	const struct cg_rnn_shape *shape = op->shape;
	const int is_input = port->at == CALL(input) || port->at == CALL(input_backprop);
	const struct cg_rnn_spacing *rows = is_input ? &shape->input : &shape->output;
	const int by_steps = rows->t >= rows->b;

	if (shape->is_plain || (!is_input && port->at != CALL(output) && port->at != CALL(output_backprop)))
		return 0;
	*spacing = (struct cg_spacing){ .width = is_input ? op->I : op->wide, .is_packed = shape->batch_sizes != NULL };
	spacing->of[0].n = spacing->is_packed ? shape->N : by_steps ? shape->T : shape->B;
	spacing->of[1].n = spacing->is_packed ? 1 : by_steps ? shape->B : shape->T;
	spacing->of[0].stride = by_steps ? rows->t : rows->b;
	spacing->of[1].stride = by_steps ? rows->b : rows->t;
	return 1;
}

const struct cg_dim cg_rnn_dims[] = {
	{ "T",       CALL(T),      .least = 0, .about = "steps" },
	{ "B",       CALL(B),      .least = 0, .about = "rows of the batch" },
	{ "I",       RNN(I),       .least = 1, .about = ABOUT_I },
	{ "U",       RNN(U),       .least = 1, .about = ABOUT_U },
	{ "L",       RNN(L),       .least = 1, .flags = CG_INFERRED, .about = "layers" },
	{ "H",       RNN(H),       .least = 1, .flags = CG_UNSAID, .about = ABOUT_H },
	{ "L*D",     RNN(states),  .least = 1, .flags = CG_UNSAID,
	  .about = "L layers times D directions; D is 2 in a bidirectional network, else 1" },
	{ "C",       RNN(C),       .least = 0, .flags = CG_INFERRED | CG_UNSAID, .about = "U, or 0 for a cell without a cell state" },
	{ "reserve", RNN(reserve), .least = 0, .flags = CG_INFERRED | CG_UNSAID,
	  .about = "the number of elements of the reserve space that the call needs" },
	INFERRED_DIMS,
	{ .symbol = NULL }
};

const struct cg_attribute cg_rnn_attributes[] = { NETWORK, PROJECTION, TRAINING, TIME_MAJOR, OURS, END };
const struct cg_attribute cg_rnn_backprop_attributes[] = { NETWORK, PROJECTION, TIME_MAJOR, OURS, END };

const struct cg_port cg_rnn_ports[] = { INPUTS(CG_OURS_LACKS), LENGTHS, OUTPUTS, PLACEHOLDER(CG_OUT, NULL, 0), END };
const struct cg_port cg_rnn_backprop_ports[] = { INPUTS(CG_OURS_LACKS), LENGTHS, FROM_FORWARD, PLACEHOLDER(CG_IN, "", CG_MAY_LACK), GRADIENTS, END };
const struct cg_port cg_rnn_all_ports[] = {
	INPUTS(CG_OURS_LACKS), LENGTHS, STATES(STATE_IN, "input", input_s),
	OUTPUTS, PLACEHOLDER(CG_OUT, NULL, 0), STATES(STATE_OUT, "output", output_s), END
};
const struct cg_port cg_rnn_backprop_all_ports[] = {
	INPUTS(CG_OURS_LACKS), LENGTHS, FROM_FORWARD, PLACEHOLDER(CG_IN, "", CG_MAY_LACK), STATES(STATE_IN, "input", input_s),
	STATES_BACK(STATE_IN, "output", output_s_backprop), GRADIENTS, STATES_BACK(STATE_OUT, "input", input_s_backprop), END
};
