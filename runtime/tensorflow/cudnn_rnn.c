/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CudnnRNN and CudnnRNNBackprop as ops: computes the sizes that follow from the given shapes, checks TensorFlow's rules for them, and makes
 * a plan and a call from the attributes.
 */
#include <limits.h>
#include <string.h>

#include "runtime/tensorflow/cudnn_rnn.h"

#define REFUSE(row, ...) (cg_fail(CG_BAD_ARGUMENT, __VA_ARGS__), cg_fail_in(CG_BAD_ARGUMENT, "%s", (row)->name))

/* ---- the plan of an op's attributes ---- */

static int has_state(const struct cg_rnn_op *op)
{
	return cg_rnn_op_cell(op)->n_prevs > 1;
}

static int n_directions(const struct cg_rnn_op *op)
{
	return 1 + op->direction;
}

void cg_rnn_op_config(const struct cg_rnn_op *op, int pass, struct cg_rnn_config *config)
{
	cg_rnn_config_init(config, sizeof *config);
	config->cell = cg_rnn_op_cell(op);
	config->options = op->options;
	config->values = op->values;
	config->n_values = op->n_values;
	config->dtype = op->dtype;
	config->layers = (int)op->L;
	config->bidirectional = op->direction;
	config->input_mode = op->input_mode;
	config->time_major = op->time_major;
	config->states_major = op->states_major;
	config->reverse = op->reverse;
	config->input = op->I;
	config->units = op->U;
	config->proj = op->num_proj;
	config->dropout = op->dropout;
	config->seed = (uint64_t)op->seed << 32 | (uint32_t)op->seed2;
	config->training = pass == CG_GRAD || op->is_training;
	config->route = op->route;
	config->strict_rounding = op->strict_rounding;
}

/* ---- sizes that follow ---- */

static int is_bound(const struct cg_op *row, const char *symbol, unsigned bound)
{
	for (int k = 0; row->dims[k].symbol; k++)
		if (!strcmp(row->dims[k].symbol, symbol))
			return bound >> k & 1;
	return 0;
}

void cg_rnn_op_inferred(const struct cg_op *row, unsigned *bound)
{
	for (int k = 0; row->dims[k].symbol; k++)
		*bound |= 1u << k;
}

/* Sets the number of layers by the shape of input_h, or, without input_h, by L if it is known, else by num_layers, else to 1. */
static int infer_layers(const struct cg_op *row, struct cg_rnn_op *op, int bound, int has_L)
{
	int64_t D = n_directions(op), L = has_L ? op->L : op->num_layers ? op->num_layers : 1;
	const char *name = bound ? "input_h" : has_L ? "L" : "num_layers";

	if (!bound && L < 1)
		return REFUSE(row, "%s: expected at least 1 layer, got %lld", name, (long long)L);
	if (!bound && __builtin_mul_overflow(D, L, &op->states))
		return REFUSE(row, "%s: expected at most %d layers, got %lld", name, INT_MAX / 2, (long long)L);
	if (op->states < 1)
		return REFUSE(row, "input_h: expected at least 1 in its dimension L*D, layers times directions, got %lld", (long long)op->states);
	if (op->states % D)
		return REFUSE(row, "input_h: expected a multiple of 2 in its dimension L*D of a bidirectional network, got %lld",
		              (long long)op->states);
	op->L = op->states / D;
	if (op->L > INT_MAX / 2)
		return REFUSE(row, "%s: expected at most %d layers, got %lld", name, INT_MAX / 2, (long long)op->L);
	if (op->num_layers && op->num_layers != op->L)
		return REFUSE(row, "num_layers: expected L=%lld%s, got %lld", (long long)op->L, bound ? ", as in the shape of input_h" : "",
		              (long long)op->num_layers);
	return CG_OK;
}

/* Sets U by the last dimension of input_c, else by num_units or H, and H by that of input_h, else by num_proj or U.  In a network without a
 * projection, U and H must be equal. */
static int infer_units(const struct cg_op *row, struct cg_rnn_op *op, int has_H, int has_U)
{
	const struct cg_cell *cell = cg_rnn_op_cell(op);
	int64_t P = op->num_proj;

	if (P && !has_state(op))
		return REFUSE(row, "num_proj: cell %s has no cell state: expected 0, got %lld", cell->name, (long long)P);
	if (!has_H && !has_U && !op->num_units)
		return REFUSE(row, "num_units: expected at least 1, since neither input_h nor input_c gives the number of units, got 0");
	if (!has_U)
		op->U = op->num_units ? op->num_units : op->H;
	if (!has_U && P && !op->num_units)
		return REFUSE(row, "num_units: expected at least num_proj=%lld, since there is no input_c with the number of units, got 0",
		              (long long)P);
	if (!has_H)
		op->H = P ? P : op->U;
	if (P && op->H != P)
		return REFUSE(row, "num_proj: expected %lld, the last dimension of input_h, got %lld", (long long)op->H, (long long)P);
	if (P > op->U)
		return REFUSE(row, "num_proj: expected at most U=%lld, the last dimension of input_c or else num_units, got %lld", (long long)op->U,
		              (long long)P);
	if (!P && has_U && has_H && op->U != op->H)
		return REFUSE(row, "input_c: expected U=H=%lld, the last dimension of input_h, since there is no projection, got U=%lld",
		              (long long)op->H, (long long)op->U);
	if (op->num_units && op->num_units != op->U)
		return REFUSE(row, "num_units: expected U=%lld, the last dimension of the cell states, got %lld", (long long)op->U,
		              (long long)op->num_units);
	return CG_OK;
}

/* Checks the sizes that describing the network relies on; cg_rnn_describe checks the rest. */
static int check_sizes(const struct cg_op *row, const struct cg_rnn_op *op)
{
	const struct { const char *symbol; int64_t size; } sizes[] = { { "I", op->I }, { "U", op->U }, { "H", op->H } };

	for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
		if (sizes[k].size < 1)
			return REFUSE(row, "%s: expected at least 1, got %lld", sizes[k].symbol, (long long)sizes[k].size);
	if (op->input_mode == CG_SKIP && op->I != op->U)
		return REFUSE(row, "input_mode: skip_input needs I and U to be equal, got I=%lld and U=%lld", (long long)op->I,
		              (long long)op->U);
	return CG_OK;
}

const int32_t *cg_rnn_op_lengths(const struct cg_rnn_op *op)
{
	const struct cg_mem *m = &op->sequence_lengths;

	return m->data ? (const int32_t *)(const void *)((const char *)m->data + m->offset) : op->call.lengths;
}

static int pass_of(const struct cg_op *row)
{
	return row->call == cg_rnn_op_backward ? CG_GRAD : CG_FORWARD;
}

int cg_rnn_op_infer(const struct cg_op *row, void *given, unsigned *bound)
{
	struct cg_rnn_op *op = given;
	struct cg_rnn_config config;
	struct cg_rnn rnn;

	CG_TRY(infer_layers(row, op, is_bound(row, "L*D", *bound), is_bound(row, "L", *bound)));
	CG_TRY(infer_units(row, op, is_bound(row, "H", *bound), is_bound(row, "U", *bound)));
	CG_TRY(check_sizes(row, op));
	cg_rnn_op_config(op, pass_of(row), &config);
	CG_TRY(cg_rnn_describe(&config, &rnn));
	op->C = has_state(op) ? op->U : 0;
	op->wide = n_directions(op) * op->H;
	op->params = rnn.net.params;
	cg_rnn_op_inferred(row, bound);
	/* The size of the reserve space depends on the route, so `open` sets that size. */
	for (int k = 0; row->dims[k].symbol; k++)
		if (row->dims[k].at == offsetof(struct cg_rnn_op, reserve))
			*bound &= ~(1u << k);
	return CG_OK;
}

/* The number of elements of all matrices, which is the offset of the biases that follow them. */
int64_t cg_rnn_op_weights(const void *given)
{
	const struct cg_rnn_op *op = given;

	return cg_network_part(&op->rnn->net, 0, CG_RNN_BIAS_W, 0).offset;
}

/* ---- plan and call ---- */

static int make_plan(struct cg_stream *stream, const struct cg_rnn_op *op, int pass, struct cg_rnn **rnn)
{
	struct cg_rnn_config config;

	cg_rnn_op_config(op, pass, &config);
	return cg_rnn_open(stream->context, &config, rnn);
}

/* Makes the op's call.  The cell state's arguments are absent for a cell without a cell state. */
static struct cg_rnn_call call_of(const struct cg_rnn_op *op)
{
	static const struct cg_mem absent = { .bytes = 0 };
	struct cg_rnn_call call = op->call;

	call.size = sizeof call;
	call.lengths = cg_rnn_op_lengths(op);
	if (!has_state(op))
		call.input_c = call.output_c = call.output_c_backprop = call.input_c_backprop = absent;
	return call;
}

int cg_rnn_op_open(struct cg_stream *stream, const struct cg_op *row, void *given)
{
	struct cg_rnn_op *op = given;
	struct cg_rnn_call call = call_of(op);
	struct cg_rnn_shape shape;
	struct cg_rnn *rnn;

	CG_TRY(make_plan(stream, op, pass_of(row), &rnn));
	op->rnn = rnn;
	CG_TRY(cg_rnn_check_call(stream, rnn, pass_of(row), &call, &shape));
	op->reserve = cg_rnn_reserve_elements(rnn, &shape);
	/* A reserve space of another size than expected is checked later, by the backward call: a smaller one is refused, and of a larger one
	 * the header is checked. */
	if (pass_of(row) != CG_GRAD || call.reserve.bytes != (size_t)op->reserve * cg_dtype_bytes(op->dtype))
		return CG_OK;
	return cg_reserve_check(stream, rnn, &call, &shape);
}

void cg_rnn_op_close(void *given)
{
	struct cg_rnn_op *op = given;

	cg_rnn_close((struct cg_rnn *)(uintptr_t)op->rnn);
	op->rnn = NULL;
}

/* Runs a call with the op's plan, or else with a plan that is opened for this call alone. */
static int with_plan(struct cg_stream *stream, const struct cg_rnn_op *op, int pass,
                     int (*run)(struct cg_stream *, const struct cg_rnn *, struct cg_rnn_call *))
{
	struct cg_rnn_call call = call_of(op);
	struct cg_rnn *rnn;
	int code;

	if (op->rnn)
		return run(stream, op->rnn, &call);
	CG_TRY(make_plan(stream, op, pass, &rnn));
	code = run(stream, rnn, &call);
	cg_rnn_close(rnn);
	return code;
}

static int run_forward(struct cg_stream *stream, const struct cg_rnn *rnn, struct cg_rnn_call *call)
{
	return cg_rnn_forward(stream, rnn, call);
}

int cg_rnn_op_forward(struct cg_stream *stream, const void *given)
{
	const struct cg_rnn_op *op = given;

	CG_TRY(cg_context_check(stream ? stream->context : NULL, "rnn"));
	CG_TRY(with_plan(stream, op, CG_FORWARD, run_forward));
	return cg_present(op->host_reserved) ? cg_put(stream, op->host_reserved, "", 1) : CG_OK;
}

/* Runs the backward call; if the call has no reserve space, first runs the forward call, which fills a reserve space. */
static int run_both(struct cg_stream *stream, const struct cg_rnn *rnn, struct cg_rnn_call *call)
{
	struct cg_rnn_call forward = *call;
	struct cg_rnn_sizes sizes;
	int code;

	if (cg_present(call->reserve))
		return cg_rnn_backward(stream, rnn, call);
	CG_TRY(cg_rnn_sizes(rnn, call->T, call->B, call->lengths, &sizes));
	CG_TRY(cg_alloc(stream->context, sizes.reserve, &call->reserve));
	forward.output = forward.output_h = forward.output_c = (struct cg_mem){ .bytes = 0 };
	forward.reserve = call->reserve;
	code = cg_rnn_forward(stream, rnn, &forward);
	if (!code)
		code = cg_rnn_backward(stream, rnn, call);
	if (!code)
		code = cg_stream_sync(stream);
	cg_free(stream->context, &call->reserve);
	return code;
}

int cg_rnn_op_backward(struct cg_stream *stream, const void *given)
{
	CG_TRY(cg_context_check(stream ? stream->context : NULL, "rnn_backprop"));
	return with_plan(stream, given, CG_GRAD, run_both);
}

/* ---- the workspace ---- */

static int work_of(const void *given, int pass, size_t *bytes)
{
	const struct cg_rnn_op *op = given;
	const struct cg_rnn *rnn = op->rnn;
	struct cg_rnn_call call = call_of(op);
	struct cg_rnn_shape shape;
	struct cg_rnn_config config;
	struct cg_rnn described;

	if (!rnn) {
		cg_rnn_op_config(op, pass, &config);
		CG_TRY(cg_rnn_describe(&config, &described));
		CG_TRY(cg_rnn_analyse_gradient(&described));
		rnn = &described;
	}
	CG_TRY(cg_rnn_measure(rnn, pass, &call, &shape));
	*bytes = pass == CG_FORWARD ? shape.bytes.forward : shape.bytes.backward;
	return CG_OK;
}

int cg_rnn_forward_work(const void *op, size_t *bytes)
{
	return work_of(op, CG_FORWARD, bytes);
}

int cg_rnn_backward_work(const void *op, size_t *bytes)
{
	return work_of(op, CG_GRAD, bytes);
}

int cg_rnn_no_work(const void *op, size_t *bytes)
{
	(void)op;
	*bytes = 0;
	return CG_OK;
}
