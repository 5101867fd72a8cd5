/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels of LSTMBlockCell, BlockLSTM, BlockLSTMV2, GRUBlockCell and their gradients.  CELLGRAD_TF_BLOCK=1 registers these kernels, and
 * TensorFlow then runs them in place of its own kernels.
 */
#include <string.h>

#include "bindings/tensorflow/tf_op.h"

/* Allocates the outputs of a block op, whose struct has the sizes and inputs, and runs a pass of the op on a stream. */
static int run_on_stream(struct cg_tf_call *call, void *op, int (*pass)(struct cg_stream *, const void *))
{
	struct cg_context *context;
	struct cg_stream *stream;
	int status = cg_tf_get_context(call, &context);

	if (status || (status = cg_tf_make_outputs(call, op)) || (status = cg_tf_pass(call, cg_stream_take(context, &stream))))
		return status;
	status = cg_tf_pass(call, pass(stream, op));
	if (cg_tf_pass(call, cg_stream_give(stream)))
		status = CG_DRIVER;
	return status;
}

#define PASS(name, type, call) static int name(struct cg_stream *stream, const void *op) { return call(stream, (const type *)op); }
PASS(lstm_forward, struct cg_lstm_block, cg_lstm_block_forward)
PASS(lstm_grad, struct cg_lstm_block, cg_lstm_block_grad)
PASS(gru_forward, struct cg_gru_block, cg_gru_block_forward)
PASS(gru_grad, struct cg_gru_block, cg_gru_block_grad)

/* seq_len_max is the first input of the ops that compute sequences.  In cellgrad.h seq_len_max = -1 stands for all steps; to TensorFlow -1
 * is an error, and to this plugin, too. */
static int read_steps(struct cg_tf_call *call, struct cg_lstm_block *op)
{
	if (call->kernel->op->inputs[0].type != CG_TF_INT64)
		return CG_OK;
	op->T = call->dims[CG_TF_T];
	memcpy(&op->seq_len_max, cg_tf.TensorData(call->inputs[0]), sizeof op->seq_len_max);
	if (op->seq_len_max < 0 || op->seq_len_max > op->T)
		return cg_tf_refuse(call, "seq_len_max: expected 0 to %lld, got %lld", (long long)op->T, (long long)op->seq_len_max);
	return CG_OK;
}

int cg_tf_run_lstm_block(struct cg_tf_call *call)
{
	const struct cg_tf_kernel *k = call->kernel;
	struct cg_lstm_block op;
	int status = cg_tf_read_inputs(call);

	if (status)
		return status;
	cg_lstm_block_init(&op, sizeof op);
	op.B = call->dims[CG_TF_B];
	op.I = call->dims[CG_TF_I];
	op.U = call->dims[CG_TF_U];
	op.dtype = k->dtype;
	op.gates = k->op->gates;
	op.use_peephole = k->use_peephole;
	op.forget_bias = k->forget_bias;
	op.cell_clip = k->cell_clip;
	if ((status = read_steps(call, &op)))
		return status;
	cg_tf_place_inputs(call, &op);
	return run_on_stream(call, &op, k->op->is_gradient ? lstm_grad : lstm_forward);
}

int cg_tf_run_gru_block(struct cg_tf_call *call)
{
	struct cg_gru_block op;
	int status = cg_tf_read_inputs(call);

	if (status)
		return status;
	cg_gru_block_init(&op, sizeof op);
	op.B = call->dims[CG_TF_B];
	op.I = call->dims[CG_TF_I];
	op.U = call->dims[CG_TF_U];
	op.dtype = call->kernel->dtype;
	cg_tf_place_inputs(call, &op);
	return run_on_stream(call, &op, call->kernel->op->is_gradient ? gru_grad : gru_forward);
}

/* ---- rows ---- */

/* The shapes of a step, [B width], of a sequence, [T B width], and of weights. */
#define STEP(width) { CG_TF_B, width }
#define STEPS(width) { CG_TF_T, CG_TF_B, width }
#define WHOLE(...) { __VA_ARGS__ }

#define LSTM(name, field, shape, flags) { name, shape, CG_TF_REAL, flags, offsetof(struct cg_lstm_block, field) }
#define LSTM_PEEPHOLE(name, field) LSTM(name, field, WHOLE(CG_TF_U), CG_TF_PEEPHOLE)
#define END { NULL, { 0 }, 0, 0, 0 }

#define LSTM_INPUTS(rows) \
	LSTM("x", x, rows(CG_TF_I), 0), LSTM("cs_prev", cs_prev, STEP(CG_TF_U), 0), LSTM("h_prev", h_prev, STEP(CG_TF_U), 0), \
	LSTM("w", w, WHOLE(CG_TF_IU, CG_TF_4U), 0), LSTM_PEEPHOLE("wci", wci), LSTM_PEEPHOLE("wcf", wcf), LSTM_PEEPHOLE("wco", wco), \
	LSTM("b", b, WHOLE(CG_TF_4U), 0)
#define LSTM_VALUES(rows) \
	LSTM("i", i, rows(CG_TF_U), 0), LSTM("cs", cs, rows(CG_TF_U), 0), LSTM("f", f, rows(CG_TF_U), 0), LSTM("o", o, rows(CG_TF_U), 0), \
	LSTM("ci", ci, rows(CG_TF_U), 0), LSTM("co", co, rows(CG_TF_U), 0)
#define LSTM_H(rows) LSTM("h", h, rows(CG_TF_U), 0)
#define LSTM_UPSTREAM(rows) LSTM("cs_grad", cs_grad, rows(CG_TF_U), 0), LSTM("h_grad", h_grad, rows(CG_TF_U), 0)
#define LSTM_PEEPHOLE_GRADS LSTM_PEEPHOLE("wci_grad", wci_grad), LSTM_PEEPHOLE("wcf_grad", wcf_grad), LSTM_PEEPHOLE("wco_grad", wco_grad)
#define SEQ_LEN_MAX { "seq_len_max", { 0 }, CG_TF_INT64, 0, CG_TF_NOWHERE }

static const struct cg_tf_port cell_inputs[] = { LSTM_INPUTS(STEP), END };
static const struct cg_tf_port cell_outputs[] = { LSTM_VALUES(STEP), LSTM_H(STEP), END };
static const struct cg_tf_port cell_grad_inputs[] = { LSTM_INPUTS(STEP), LSTM_VALUES(STEP), LSTM_UPSTREAM(STEP), END };
static const struct cg_tf_port cell_grad_outputs[] = {
	LSTM("cs_prev_grad", cs_prev_grad, STEP(CG_TF_U), 0), LSTM("dicfo", dgates, STEP(CG_TF_4U), 0), LSTM_PEEPHOLE_GRADS, END
};
static const struct cg_tf_port sequence_inputs[] = { SEQ_LEN_MAX, LSTM_INPUTS(STEPS), END };
static const struct cg_tf_port sequence_outputs[] = { LSTM_VALUES(STEPS), LSTM_H(STEPS), END };
static const struct cg_tf_port sequence_grad_inputs[] = {
	SEQ_LEN_MAX, LSTM_INPUTS(STEPS), LSTM_VALUES(STEPS), LSTM_H(STEPS), LSTM_UPSTREAM(STEPS), END
};
static const struct cg_tf_port sequence_grad_outputs[] = {
	LSTM("x_grad", x_grad, STEPS(CG_TF_I), 0), LSTM("cs_prev_grad", cs_prev_grad, STEP(CG_TF_U), 0),
	LSTM("h_prev_grad", h_prev_grad, STEP(CG_TF_U), 0), LSTM("w_grad", w_grad, WHOLE(CG_TF_IU, CG_TF_4U), 0), LSTM_PEEPHOLE_GRADS,
	LSTM("b_grad", b_grad, WHOLE(CG_TF_4U), 0), END
};

#define GRU(field, ...) { #field, { __VA_ARGS__ }, CG_TF_REAL, 0, offsetof(struct cg_gru_block, field) }
#define GRU_INPUTS \
	GRU(x, CG_TF_B, CG_TF_I), GRU(h_prev, CG_TF_B, CG_TF_U), GRU(w_ru, CG_TF_IU, CG_TF_2U), GRU(w_c, CG_TF_IU, CG_TF_U), \
	GRU(b_ru, CG_TF_2U), GRU(b_c, CG_TF_U)
#define GRU_GATES GRU(r, CG_TF_B, CG_TF_U), GRU(u, CG_TF_B, CG_TF_U), GRU(c, CG_TF_B, CG_TF_U)

static const struct cg_tf_port gru_inputs[] = { GRU_INPUTS, END };
static const struct cg_tf_port gru_outputs[] = { GRU_GATES, GRU(h, CG_TF_B, CG_TF_U), END };
static const struct cg_tf_port gru_grad_inputs[] = { GRU_INPUTS, GRU_GATES, GRU(d_h, CG_TF_B, CG_TF_U), END };
static const struct cg_tf_port gru_grad_outputs[] = {
	GRU(d_x, CG_TF_B, CG_TF_I), GRU(d_h_prev, CG_TF_B, CG_TF_U), GRU(d_c_bar, CG_TF_B, CG_TF_U), GRU(d_r_bar_u_bar, CG_TF_B, CG_TF_2U), END
};

const struct cg_tf_op cg_tf_block_ops[] = {
	{ "LSTMBlockCell", cg_tf_run_lstm_block, cell_inputs, cell_outputs, 0, CG_ICFO, 1 },
	{ "LSTMBlockCellGrad", cg_tf_run_lstm_block, cell_grad_inputs, cell_grad_outputs, 1, CG_ICFO, 1 },
	{ "BlockLSTM", cg_tf_run_lstm_block, sequence_inputs, sequence_outputs, 0, CG_ICFO, 1 },
	{ "BlockLSTMGrad", cg_tf_run_lstm_block, sequence_grad_inputs, sequence_grad_outputs, 1, CG_ICFO, 1 },
	{ "BlockLSTMV2", cg_tf_run_lstm_block, sequence_inputs, sequence_outputs, 0, CG_IFCO, 1 },
	{ "BlockLSTMGradV2", cg_tf_run_lstm_block, sequence_grad_inputs, sequence_grad_outputs, 1, CG_IFCO, 1 },
	{ "GRUBlockCell", cg_tf_run_gru_block, gru_inputs, gru_outputs, 0, 0, 1 },
	{ "GRUBlockCellGrad", cg_tf_run_gru_block, gru_grad_inputs, gru_grad_outputs, 1, 0, 1 },
	{ NULL, NULL, NULL, NULL, 0, 0, 0 }
};
