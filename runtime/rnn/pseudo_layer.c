/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Describes a pseudo-layer, one direction of one layer, as a recurrence: its cell and the layout of its weights in params.
 */
#include <stdio.h>

#include "runtime/rnn/rnn.h"

/* A part of params, or of their gradient, from its first gate on, or from its k-th vector on. */
static struct cg_matrix part_of(const struct cg_rnn *rnn, int pseudo_layer, struct cg_mem params, enum cg_rnn_part part, int k)
{
	struct cg_rnn_region r = cg_network_part(&rnn->net, pseudo_layer, part, k);
	size_t at = (size_t)r.offset * cg_dtype_bytes(rnn->net.dtype);

	return (struct cg_matrix){ cg_part(params, at, params.bytes - at), r.columns, 0 };
}

/* Sets the memory that receives the gradients of matrices, biases, per-unit weights and scalars. */
static void lay_out_grads(const struct cg_rnn *rnn, int pseudo_layer, struct cg_mem grads, struct cg_recurrence *w)
{
	w->input.grad = part_of(rnn, pseudo_layer, grads, CG_RNN_INPUT, 0);
	w->recurrent.grad = part_of(rnn, pseudo_layer, grads, CG_RNN_RECURRENT, 0);
	if (rnn->net.P)
		w->projection.grad = part_of(rnn, pseudo_layer, grads, CG_RNN_PROJECTION, 0);
	w->d_bias[0] = part_of(rnn, pseudo_layer, grads, CG_RNN_BIAS_W, 0).mem;
	w->d_bias[1] = part_of(rnn, pseudo_layer, grads, CG_RNN_BIAS_R, 0).mem;
	for (int k = 0; k < rnn->net.n_vectors; k++)
		w->d_vector[rnn->vectors[k]] = part_of(rnn, pseudo_layer, grads, CG_RNN_VECTOR, k).mem;
	w->d_scalars = part_of(rnn, pseudo_layer, grads, CG_RNN_SCALAR, 0).mem;
	w->needs_sums = 1;
}

void cg_rnn_fill_recurrence(const struct cg_rnn *rnn, int pass, int pseudo_layer, struct cg_mem params, struct cg_mem params_backprop,
                            struct cg_recurrence *w)
{
	w->kernel = pass == CG_FORWARD ? rnn->forward : rnn->grad;
	w->bytes[0] = cg_dtype_bytes(rnn->net.dtype);
	w->bytes[1] = cg_acc_bytes(rnn->net.dtype);
	w->values = rnn->values;
	w->gate = rnn->gates;
	w->ranges = rnn->ranges;
	w->first = rnn->first;
	w->stage_input_saved = rnn->stage_input_saved[pass != CG_FORWARD];
	w->n_ranges = rnn->n_ranges;
	w->n_blocks = rnn->n_blocks;
	w->output = rnn->output;
	w->saved_h = rnn->saved_h;
	w->saved_c = rnn->saved_c;
	w->slot = rnn->slot;
	w->n_states = rnn->n_states;
	w->uses_h_prev = rnn->uses_h_prev;
	w->U = rnn->net.U;
	w->H = rnn->net.H;
	w->P = rnn->net.P;
	w->skip = rnn->net.skip && pseudo_layer < rnn->net.directions;
	w->in_order = rnn->scans;
	w->input.value = part_of(rnn, pseudo_layer, params, CG_RNN_INPUT, 0);
	w->recurrent.value = part_of(rnn, pseudo_layer, params, CG_RNN_RECURRENT, 0);
	if (rnn->net.P)
		w->projection.value = part_of(rnn, pseudo_layer, params, CG_RNN_PROJECTION, 0);
	for (int k = 0; k < rnn->net.n_vectors; k++)
		w->vector[rnn->vectors[k]] = part_of(rnn, pseudo_layer, params, CG_RNN_VECTOR, k).mem;
	w->scalars = part_of(rnn, pseudo_layer, params, CG_RNN_SCALAR, 0).mem;
	if (cg_present(params_backprop))
		lay_out_grads(rnn, pseudo_layer, params_backprop, w);
}

int cg_rnn_add_biases(const struct cg_rnn *rnn, int pseudo_layer, struct cg_mem params, const struct cg_recurrence *w)
{
	const size_t acc = cg_acc_bytes(rnn->net.dtype), real = cg_dtype_bytes(rnn->net.dtype);
	const struct cg_backend *backend = w->stream->context->backend;
	struct cg_rows r = { .dtype = rnn->net.dtype, .rows = 1, .dst = w->bias };

	for (int k = 0; k < rnn->n_biases; k++) {
		const struct cg_gate_range *range = &rnn->biases[k];
		size_t at = (size_t)(range->block * rnn->net.U) * acc, from = (size_t)(range->weight * rnn->net.U) * real;

		r.columns = range->n * rnn->net.U;
		r.dst.mem = cg_part(w->bias.mem, at, w->bias.mem.bytes - at);
		if (range->part < 0) {
			CG_TRY(backend->zero(w->stream->queue, r.dst.mem, (size_t)r.columns * acc));
			continue;
		}
		r.src = part_of(rnn, pseudo_layer, params, range->part == CG_PART_BIAS_W ? CG_RNN_BIAS_W : CG_RNN_BIAS_R, 0);
		r.src.mem = cg_part(r.src.mem, from, r.src.mem.bytes - from);
		r.add = range->add;
		CG_TRY(cg_copy_rows(w->stream, &r));
	}
	return CG_OK;
}

size_t cg_rnn_packed_bytes(const struct cg_rnn *rnn, int pass, int stage, int64_t B, int64_t N)
{
	int64_t gates = (rnn->first[stage + 1] - rnn->first[stage]) * rnn->net.U;
	struct cg_gemm g = cg_recurrence_describe_product(rnn->net.dtype, pass != CG_FORWARD, 0, gates, stage ? rnn->net.U : rnn->net.H, B);

	if (stage == CG_RNN_PACKED_PROJECTION)
		g = cg_recurrence_describe_projection(rnn->net.dtype, pass != CG_FORWARD, rnn->net.P, rnn->net.U, B);
	return cg_recurrence_measure_packed(rnn->context, &g, N);
}

/* Describes a call of the backend's scan for B batch rows, without the memory of its operands. */
static struct cg_scan describe_scan(const struct cg_rnn *rnn, int pass, int64_t B, int64_t steps)
{
	struct cg_scan scan = { .units = rnn->net.U, .phases = steps * rnn->net.cell->n_stages, .n_products = rnn->net.cell->n_stages };

	for (int stage = 0; stage < scan.n_products; stage++)
		scan.products[stage] = cg_recurrence_describe_product(rnn->net.dtype, pass != CG_FORWARD, 0,
		                                                      (rnn->first[stage + 1] - rnn->first[stage]) * rnn->net.U, rnn->net.U, B);
	return scan;
}

static size_t ask_scan(const struct cg_rnn *rnn, int pass, int64_t B, char why[CG_WHY_NOT])
{
	struct cg_scan scan = describe_scan(rnn, pass, B, 1);

	return rnn->context->backend->scan_work(rnn->context->device, &scan, why);
}

int cg_rnn_count_at_once(const struct cg_rnn *rnn, int pass, int64_t B, int64_t steps)
{
	struct cg_scan scan = describe_scan(rnn, pass, B, steps);

	return rnn->context->backend->scans_at_once(rnn->context->device, &scan, rnn->net.directions == 1);
}

int cg_rnn_can_scan(const struct cg_rnn *rnn, char why[CG_WHY_NOT])
{
	if (rnn->net.P)
		snprintf(why, CG_WHY_NOT, "projection");
	return !rnn->net.P && rnn->context->backend->scan_work && ask_scan(rnn, CG_FORWARD, 1, why) && ask_scan(rnn, CG_GRAD, 1, why);
}

/* For a call of few steps the workspace of the scan is 0 bytes, and the call runs without the scan, since packing the matrices takes
 * longer than it saves. */
size_t cg_rnn_measure_scan(const struct cg_rnn *rnn, int pass, int64_t B, int64_t N)
{
	char why[CG_WHY_NOT];

	return rnn->scans && N / CG_STEPS_TO_PACK >= B ? ask_scan(rnn, pass, B, why) : 0;
}
