/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the layers and directions of a network, forward and backward; each pseudo-layer is a recurrence.  Prepares the input and the
 * initial states of each pseudo-layer, copies its last states, and passes the gradient of its input to the layer below.  On route scan, if
 * one recurrence cannot keep all threads busy, both directions of a layer run at once, or several layers of one direction, each one span
 * of steps behind the layer that begins before it.
 */
#include <string.h>

#include "runtime/rnn/rnn.h"

static const struct cg_matrix none = { .stride = 0 };

struct pseudo_layer {
	int layer, direction;
	const struct cg_rnn_own *own;
	struct cg_recurrence recurrence;
};

struct layers {
	struct cg_stream *stream;
	const struct cg_rnn *rnn;
	const struct cg_rnn_call *call;
	const struct cg_rnn_shape *shape;
	const struct cg_rnn_workspace *workspace;
	struct cg_packed sequence;
	struct cg_rnn_saved_values saved;
	struct pseudo_layer at_hand[CG_SCANS_MAX];     /* the pseudo-layers that run at once, in the order in which they begin */
	int pass;
};

/* ---- the reserve space ---- */

static struct cg_mem mem_from(struct cg_mem mem, size_t bytes)
{
	return cg_part(mem, bytes, mem.bytes);
}

static size_t saved_at(const struct layers *q, int layer, int d)
{
	return (size_t)(layer * q->rnn->net.directions + d) * q->saved.bytes;
}

static struct cg_matrix h_of(const struct layers *q, int layer, int d)
{
	const struct cg_rnn *rnn = q->rnn;
	int of_h = rnn->net.directions == 1 ? q->shape->at_once + 1 : 2;

	if (rnn->net.P || !rnn->net.training)
		return (struct cg_matrix){ q->workspace->h[layer % of_h][d], rnn->net.H, 0 };
	return (struct cg_matrix){ mem_from(q->saved.values[rnn->saved_h], saved_at(q, layer, d)), rnn->net.U, 0 };
}

/* Sets the memory of a pseudo-layer's saved values. */
static void set_saved(const struct layers *q, const struct pseudo_layer *p, struct cg_recurrence *w)
{
	const struct cg_rnn *rnn = q->rnn;
	size_t at = saved_at(q, p->layer, p->direction);

	w->h = h_of(q, p->layer, p->direction);
	if (rnn->net.training && rnn->keeps_gates)
		w->gates = (struct cg_matrix){ mem_from(q->saved.gates, at), rnn->n_blocks * rnn->net.U, 1 };
	else
		w->gates = (struct cg_matrix){ p->own->gates, cg_layers_get_gates_stride(rnn, cg_acc_bytes(rnn->net.dtype)), 1 };
	for (int k = 0; k < rnn->n_saved; k++)
		w->saved[k] = rnn->net.training ? mem_from(q->saved.values[k], at) : p->own->saved[k];
	if (!rnn->net.training && !rnn->net.P)
		w->saved[rnn->saved_h] = w->h.mem;
}

/* ---- rows ---- */

static int copy_rows(const struct layers *q, struct cg_rows r)
{
	r.dtype = q->rnn->net.dtype;
	return cg_copy_rows(q->stream, &r);
}

static int zero(const struct layers *q, struct cg_mem mem, size_t bytes)
{
	return bytes ? q->stream->context->backend->zero(q->stream->queue, cg_part(mem, 0, bytes), bytes) : CG_OK;
}

/* A reserve space of at most this many bytes is cleared as a whole, which is faster than clearing its gaps one by one. */
enum { SMALL_ON_HOST = 2048, SMALL_ON_DEVICE = 1 << 18 };

/* Clears the bytes between the blocks of the reserve space, or all of a small reserve space, so that equal calls leave equal bytes.  On a
 * device, one row copy clears the gaps after one block of all pseudo-layers; its source is the reserve space's header, which is zero until
 * the call ends. */
static int clear_gaps(const struct layers *q)
{
	const struct cg_rnn *rnn = q->rnn;
	const int host = q->stream->context->backend->host;
	const size_t real = cg_dtype_bytes(rnn->net.dtype), acc = cg_acc_bytes(rnn->net.dtype), all = q->shape->bytes.reserve;
	const struct cg_mem reserve = q->call->reserve, header = cg_part(reserve, 0, CG_RESERVE_HEADER);
	const int64_t states = (int64_t)rnn->net.layers * rnn->net.directions;

	if (all <= (host ? SMALL_ON_HOST : SMALL_ON_DEVICE))
		return zero(q, reserve, all);
	CG_TRY(zero(q, header, CG_RESERVE_HEADER));
	for (int k = 0; k < rnn->n_saved + rnn->keeps_gates; k++) {
		const struct cg_mem block = k < rnn->n_saved ? q->saved.values[k] : q->saved.gates;
		const int is_acc = k == rnn->n_saved || rnn->saved[k].acc;
		const size_t gap = (size_t)-block.bytes % CG_WORK_ALIGN, each = is_acc ? acc : real;
		const struct cg_mem first = cg_part(block, block.bytes, gap);

		for (int64_t at = 0; at < states && host; at++)
			CG_TRY(zero(q, cg_part(first, (size_t)at * q->saved.bytes, gap), gap));
		if (gap && !host)
			CG_TRY(copy_rows(q, (struct cg_rows){ .rows = states, .columns = (int64_t)(gap / each),
			                                      .src = { header, 0, is_acc },
			                                      .dst = { first, (int64_t)(q->saved.bytes / each), is_acc } }));
	}
	return CG_OK;
}

static struct cg_matrix column(const struct layers *q, struct cg_matrix m, int64_t column)
{
	size_t bytes = (size_t)column * (m.acc ? cg_acc_bytes(q->rnn->net.dtype) : cg_dtype_bytes(q->rnn->net.dtype));

	m.mem = cg_part(m.mem, bytes, m.mem.bytes - bytes);
	return m;
}

/* The rows of a caller's states that belong to a pseudo-layer. */
static struct cg_matrix state(const struct layers *q, struct cg_mem mem, const struct pseudo_layer *p, int64_t width)
{
	const struct cg_rnn *rnn = q->rnn;
	int64_t states = (int64_t)rnn->net.layers * rnn->net.directions, at = p->layer * rnn->net.directions + p->direction;
	struct cg_matrix m = { mem, rnn->net.states_major ? width : states * width, 0 };

	return column(q, m, rnn->net.states_major ? at * q->sequence.B * width : at * width);
}

/* The caller's memory of cell state c, counted from 0: `first`, or for the states after the first an entry of `others`. */
static struct cg_mem of_state(struct cg_mem first, const struct cg_mem *others, int c)
{
	return c ? others[c - 1] : first;
}

static int64_t rows_of_first(const struct layers *q)
{
	return q->sequence.S ? cg_packed_rows(&q->sequence, 0) : 0;
}

static struct cg_mem index_from(struct cg_mem index, int64_t row)
{
	return cg_part(index, (size_t)row * sizeof row, index.bytes - (size_t)row * sizeof row);
}

/* The dropout of a layer's output, for rows in the order of direction d. */
static struct cg_drop drop_of(const struct layers *q, int layer, int d, int64_t first_unit)
{
	struct cg_drop drop = { .rate = 0 };

	if (!cg_rnn_drops(q->rnn) || q->call->no_dropout)
		return drop;
	drop.rate = q->rnn->net.dropout;
	drop.key = cg_network_drop_key(&q->rnn->net, q->call->counter, layer);
	drop.t = q->sequence.t[d];
	drop.b = q->sequence.b;
	drop.first_t = q->call->first_step;
	drop.batch = q->sequence.B;
	drop.first_unit = first_unit;
	return drop;
}

/* ---- the input and the states of a pseudo-layer ---- */

/* Prepares the input of a pseudo-layer in the order of its direction.  If all batch rows have T steps, both directions of a layer share
 * one prepared input. */
static int prepare_input(struct layers *q, struct pseudo_layer *p)
{
	const struct cg_rnn *rnn = q->rnn;
	const struct cg_rnn_own *own = cg_present(p->own->x) ? p->own : q->workspace->own;
	const int layer = p->layer, d = p->direction;
	struct cg_matrix x = { own->x, cg_network_width(&rnn->net, layer), 0 };

	p->recurrence.width = x.stride;
	if (!layer) {
		struct cg_matrix given = { q->call->input, q->sequence.input_unit, 0 };

		p->recurrence.x = cg_present(q->sequence.input[d]) ? x : given;
		if (!cg_present(q->sequence.input[d]) || (d && q->sequence.is_dense))
			return CG_OK;
		return copy_rows(q, (struct cg_rows){ .rows = q->sequence.N, .columns = rnn->net.I, .src = given, .dst = x,
		                                      .from = q->sequence.input[d] });
	}
	if (rnn->net.directions == 1 && !cg_rnn_drops(rnn)) {
		p->recurrence.x = h_of(q, layer - 1, 0);
		return CG_OK;
	}
	p->recurrence.x = x;
	for (int e = 0; e < rnn->net.directions && !(d && q->sequence.is_dense); e++) {
		struct cg_rows r = { .rows = q->sequence.N, .columns = rnn->net.H, .src = h_of(q, layer - 1, e) };

		r.dst = column(q, x, e * rnn->net.H);
		r.from = e == d ? none.mem : q->sequence.reversed_index;
		r.drop = drop_of(q, layer - 1, d, e * rnn->net.H);
		CG_TRY(copy_rows(q, r));
	}
	return CG_OK;
}

/* Prepares an initial state with its batch rows sorted by falling length, with type acc if the cell carries that state so.  Uses the
 * caller's memory itself if all batch rows have T steps and the state has that type already. */
static int prepare_first(struct layers *q, struct cg_matrix given, int64_t width, struct cg_matrix storage, struct cg_matrix *result)
{
	int same = storage.acc == given.acc || cg_acc_bytes(q->rnn->net.dtype) == cg_dtype_bytes(q->rnn->net.dtype);

	*result = none;
	if (!cg_present(given.mem))
		return CG_OK;
	*result = given;
	result->acc = storage.acc;
	if (q->sequence.is_dense && same)
		return CG_OK;
	*result = storage;
	return copy_rows(q, (struct cg_rows){ .rows = q->sequence.B, .columns = width, .src = given, .dst = storage, .from = q->sequence.order });
}

/* Sets the fields of a pseudo-layer's recurrence that both passes use. */
static int begin(struct layers *q, struct pseudo_layer *p)
{
	const struct cg_rnn *rnn = q->rnn;
	struct cg_recurrence *w = &p->recurrence;

	/* memset clears by the widest stores; an initialiser of so large a struct may be compiled to stores of single words. */
	memset(w, 0, sizeof *w);
	w->stream = q->stream;
	w->sequence = &q->sequence;
	w->bias = (struct cg_matrix){ p->own->bias, 0, 1 };
	w->direction = p->direction != rnn->net.reverse;
	cg_rnn_fill_recurrence(rnn, q->pass, p->layer * rnn->net.directions + p->direction, q->call->params, q->call->params_backprop, w);
	for (int k = 0; k < rnn->n_saved; k++)
		w->in_turn[k] = !rnn->net.training && !cg_rnn_is_read_later(rnn, k);
	memcpy(w->stage_input, p->own->stage_input, sizeof w->stage_input);
	w->means = p->own->means;
	memcpy(w->packed, p->own->packed, sizeof w->packed);
	w->scan = p->own->scan;
	if (cg_present(w->scan))
		w->span = cg_layers_span_steps(rnn, q->pass, q->shape);
	w->gates_of_span = !(rnn->net.training && rnn->keeps_gates);
	set_saved(q, p, w);
	CG_TRY(prepare_input(q, p));
	CG_TRY(prepare_first(q, state(q, q->call->input_h, p, rnn->net.H), rnn->net.H, (struct cg_matrix){ p->own->h_first, rnn->net.H, 0 },
	                     &w->h_first));
	for (int c = 0; c < rnn->n_states; c++)
		CG_TRY(prepare_first(q, state(q, of_state(q->call->input_c, q->call->input_s, c), p, rnn->net.U), rnn->net.U,
		                     (struct cg_matrix){ p->own->c_first[c], rnn->net.U, 1 }, &w->c_first[c]));
	return CG_OK;
}

/* ---- forward ---- */

/* Copies the state after the last step of each batch row; for a batch row without steps, the row's initial state. */
static int copy_last(const struct layers *q, int d, struct cg_matrix src, struct cg_matrix given, struct cg_matrix to, int64_t width)
{
	const struct cg_packed *sequence = &q->sequence;
	int64_t n = rows_of_first(q);
	struct cg_rows r = { .rows = n, .columns = width, .src = src, .dst = to, .from = sequence->last, .to = sequence->order };

	if (!cg_present(to.mem))
		return CG_OK;
	if (sequence->is_dense && n)
		r.src = column(q, src, cg_packed_offset(sequence, d, sequence->S - 1) * src.stride);
	CG_TRY(copy_rows(q, r));
	if (n == sequence->B || !cg_present(given.mem))
		return CG_OK;            /* if the caller gave no initial states, the last states of batch rows without steps are zero already */
	return copy_rows(q, (struct cg_rows){ .rows = sequence->B - n, .columns = width, .src = given, .dst = to,
	                                      .from = index_from(sequence->order, n), .to = index_from(sequence->order, n) });
}

/* Copies the last states of a pseudo-layer to the caller. */
static int end_forward(struct layers *q, const struct pseudo_layer *p)
{
	const struct cg_rnn *rnn = q->rnn;
	const struct cg_rnn_call *c = q->call;
	const struct cg_recurrence *w = &p->recurrence;

	CG_TRY(copy_last(q, w->direction, w->h, state(q, c->input_h, p, rnn->net.H), state(q, c->output_h, p, rnn->net.H), rnn->net.H));
	for (int k = 0; k < rnn->n_states; k++)
		CG_TRY(copy_last(q, w->direction, (struct cg_matrix){ w->saved[rnn->saved_c[k]], rnn->net.U, 1 },
		                 state(q, of_state(c->input_c, c->input_s, k), p, rnn->net.U),
		                 state(q, of_state(c->output_c, c->output_s, k), p, rnn->net.U), rnn->net.U));
	return CG_OK;
}

/* Zeros the last states if some of them belong to batch rows without steps: no step writes those states. */
static int clear_states(const struct layers *q, struct cg_mem mem, int64_t width)
{
	const int64_t states = (int64_t)q->rnn->net.layers * q->rnn->net.directions * q->sequence.B;

	if (rows_of_first(q) == q->sequence.B || !cg_present(mem))
		return CG_OK;
	return zero(q, mem, (size_t)(states * width) * cg_dtype_bytes(q->rnn->net.dtype));
}

/* Zeros a caller's sequence if it has padding, since no step writes the padding. */
static int clear_padding(const struct layers *q, struct cg_rnn_spacing rows, int64_t width, struct cg_mem mem)
{
	return cg_packed_clear(q->stream, q->rnn->net.dtype, q->shape, rows, width, mem, q->call->params);
}

static int copy_output(const struct layers *q, int layer)
{
	const struct cg_rnn *rnn = q->rnn;
	struct cg_matrix to = { q->call->output, q->sequence.output_unit, 0 };

	if (!cg_present(to.mem))
		return CG_OK;
	CG_TRY(clear_padding(q, q->shape->output, rnn->net.directions * rnn->net.H, to.mem));
	for (int d = 0; d < rnn->net.directions; d++)
		CG_TRY(copy_rows(q, (struct cg_rows){ .rows = q->sequence.N, .columns = rnn->net.H, .src = h_of(q, layer, d),
		                                      .dst = column(q, to, d * rnn->net.H), .to = q->sequence.output[d] }));
	return CG_OK;
}

static int open(struct layers *q, struct cg_stream *stream, const struct cg_rnn *rnn, const struct cg_rnn_call *call,
                struct cg_rnn_shape *shape, struct cg_mem work, int pass)
{
	q->stream = stream;
	q->pass = pass;
	q->rnn = rnn;
	q->call = call;
	q->shape = shape;
	q->workspace = &shape->workspace;
	cg_work_place((struct cg_mem *)(void *)&shape->workspace, cg_layers_count_parts(shape), work);
	if (rnn->net.training)
		cg_layers_lay_out_saved(rnn, shape->N, call->reserve, &q->saved);
	return cg_packed_get(stream, rnn, shape, &q->sequence);
}

/* Sets at_hand to the pseudo-layers that run at once, from number `first` on in the order of the pass.  Returns their number. */
static int set_at_hand(struct layers *q, int first, struct cg_recurrence **recurrences)
{
	const int D = q->rnn->net.directions, more = q->rnn->net.layers * D - first, n = q->shape->at_once < more ? q->shape->at_once : more;

	for (int k = 0; k < n; k++) {
		struct pseudo_layer *p = &q->at_hand[k];

		p->layer = q->pass == CG_FORWARD ? (first + k) / D : q->rnn->net.layers - 1 - (first + k) / D;
		p->direction = (first + k) % D;
		p->own = &q->workspace->own[k];
		recurrences[k] = &p->recurrence;
	}
	return n;
}

/* The number of spans that each pseudo-layer is behind the one before it: 1 for layers; 0 for directions, which are independent. */
static int get_lag(const struct layers *q)
{
	return q->rnn->net.directions == 1 && q->shape->at_once > 1;
}

int cg_layers_forward(struct cg_stream *stream, const struct cg_rnn *rnn, const struct cg_rnn_call *call, struct cg_rnn_shape *shape,
                      struct cg_mem work)
{
	struct cg_recurrence *recurrences[CG_SCANS_MAX];
	struct layers q;

	CG_TRY(open(&q, stream, rnn, call, shape, work, CG_FORWARD));
	if (rnn->net.training)
		CG_TRY(clear_gaps(&q));
	CG_TRY(clear_states(&q, call->output_h, rnn->net.H));
	for (int c = 0; c < rnn->n_states; c++)
		CG_TRY(clear_states(&q, of_state(call->output_c, call->output_s, c), rnn->net.U));
	for (int first = 0, n; first < rnn->net.layers * rnn->net.directions; first += n) {
		n = set_at_hand(&q, first, recurrences);
		for (int k = 0; k < n; k++) {
			CG_TRY(begin(&q, &q.at_hand[k]));
			CG_TRY(cg_rnn_add_biases(rnn, first + k, call->params, recurrences[k]));
		}
		CG_TRY(cg_recurrence_forward(recurrences, n, get_lag(&q)));
		for (int k = 0; k < n; k++)
			CG_TRY(end_forward(&q, &q.at_hand[k]));
	}
	return copy_output(&q, rnn->net.layers - 1);
}

/* ---- backward ---- */

/* Recomputes the hidden states of a layer with a projection, since products of the backward pass read them and the reserve space lacks
 * them. */
static int project(const struct layers *q, int layer)
{
	for (int d = 0; d < q->rnn->net.directions && q->rnn->net.P; d++) {
		const struct pseudo_layer p = { .layer = layer, .direction = d, .own = q->workspace->own };
		struct cg_recurrence w = { .stream = q->stream, .sequence = &q->sequence };

		cg_rnn_fill_recurrence(q->rnn, q->pass, layer * q->rnn->net.directions + d, q->call->params, none.mem, &w);
		set_saved(q, &p, &w);
		CG_TRY(cg_recurrence_project(&w, 0, q->sequence.N));
	}
	return CG_OK;
}

/* Prepares the upstream gradient dy of the last layer: the caller's, in the order of the direction. */
static int prepare_last_dy(struct layers *q, int d, struct cg_matrix *dy)
{
	const struct cg_rnn *rnn = q->rnn;
	struct cg_matrix given = { q->call->output_backprop, q->sequence.output_unit, 0 };

	*dy = none;
	if (!cg_present(given.mem))
		return CG_OK;
	*dy = column(q, given, d * rnn->net.H);
	if (!cg_present(q->sequence.output[d]))
		return CG_OK;
	given = *dy;
	*dy = (struct cg_matrix){ q->workspace->dy[d], rnn->net.H, 0 };
	return copy_rows(q, (struct cg_rows){ .rows = q->sequence.N, .columns = rnn->net.H, .src = given, .dst = *dy, .from = q->sequence.output[d] });
}

/* Prepares the upstream gradient dy of a lower layer from the gradient of the input of the layer above, whose rows are in the order of the
 * last direction. */
static int prepare_inner_dy(struct layers *q, int layer, int d, struct cg_matrix *dy)
{
	const struct cg_rnn *rnn = q->rnn;
	int ordered = q->sequence.is_dense || d == rnn->net.directions - 1;
	struct cg_matrix dx = { q->workspace->dx_real, rnn->net.directions * rnn->net.H, 0 };
	struct cg_rows r = { .rows = q->sequence.N, .columns = rnn->net.H };

	*dy = column(q, dx, d * rnn->net.H);
	if (ordered && !cg_rnn_drops(rnn))
		return CG_OK;
	r.src = *dy;
	r.dst = *dy = (struct cg_matrix){ q->workspace->dy[d], rnn->net.H, 0 };
	r.from = ordered ? none.mem : q->sequence.reversed_index;
	r.drop = drop_of(q, layer, d, d * rnn->net.H);
	return copy_rows(q, r);
}

/* Copies the caller's gradient of a last state, or zeros if it is absent, to the carry that the last step of each batch row reads. */
static int prefill(struct layers *q, struct cg_mem given, const struct pseudo_layer *p, int64_t width, struct cg_mem carry)
{
	const struct cg_packed *sequence = &q->sequence;
	const struct cg_recurrence *w = &p->recurrence;
	int64_t n = rows_of_first(q);
	size_t all = (size_t)((w->every_carry ? sequence->N + sequence->B : 2 * sequence->B) * width) * cg_acc_bytes(q->rnn->net.dtype);
	struct cg_matrix src = state(q, given, p, width), last = cg_recurrence_get_carry(w, carry, width, -1);

	if (!cg_present(given))
		return zero(q, carry, all);
	if (sequence->is_dense)
		return copy_rows(q, (struct cg_rows){ .rows = sequence->B, .columns = width, .src = src,
		                                      .dst = cg_recurrence_get_carry(w, carry, width, sequence->S - 1) });
	if (!w->every_carry)
		CG_TRY(copy_rows(q, (struct cg_rows){ .rows = sequence->B, .columns = width, .src = src, .dst = { carry, width, 1 },
		                                      .from = sequence->order }));
	else
		CG_TRY(copy_rows(q, (struct cg_rows){ .rows = n, .columns = width, .src = src, .dst = { carry, width, 1 },
		                                      .from = sequence->order, .to = sequence->last }));
	return copy_rows(q, (struct cg_rows){ .rows = sequence->B, .columns = width, .src = src, .dst = last, .from = sequence->order });
}

/* In a network with a projection: sets dh, the gradient of the hidden state, to dy in all packed rows, and adds the gradient of output_h
 * to dh of the last step of each batch row. */
static int prefill_projected(struct layers *q, const struct pseudo_layer *p)
{
	const struct cg_packed *sequence = &q->sequence;
	const struct cg_rnn *rnn = q->rnn;
	const struct cg_recurrence *w = &p->recurrence;
	struct cg_matrix given = state(q, q->call->output_h_backprop, p, rnn->net.H);
	struct cg_rows r = { .rows = rows_of_first(q), .columns = rnn->net.P, .src = given, .dst = w->dh, .add = 1 };

	if (cg_present(w->dy.mem))
		CG_TRY(copy_rows(q, (struct cg_rows){ .rows = sequence->N, .columns = rnn->net.P, .src = w->dy, .dst = w->dh }));
	else
		CG_TRY(zero(q, w->dh.mem, (size_t)(sequence->N * rnn->net.P) * cg_dtype_bytes(rnn->net.dtype)));
	if (!cg_present(given.mem))
		return zero(q, w->carry_h, (size_t)(sequence->B * rnn->net.P) * cg_acc_bytes(rnn->net.dtype));
	CG_TRY(copy_rows(q, (struct cg_rows){ .rows = sequence->B, .columns = rnn->net.P, .src = given, .dst = { w->carry_h, rnn->net.P, 1 },
	                                      .from = sequence->order }));
	if (!sequence->S)
		return CG_OK;
	r.from = sequence->order;
	r.to = sequence->last;
	if (sequence->is_dense)
		r.dst = column(q, r.dst, cg_packed_offset(sequence, w->direction, sequence->S - 1) * rnn->net.P);
	return copy_rows(q, r);
}

static int begin_backward(struct layers *q, struct pseudo_layer *p)
{
	const struct cg_rnn *rnn = q->rnn;
	const struct cg_rnn_call *c = q->call;
	const struct cg_rnn_own *r = p->own;
	struct cg_recurrence *w = &p->recurrence;

	CG_TRY(begin(q, p));
	w->d_gates = (struct cg_matrix){ r->d_gates, cg_layers_get_gates_stride(rnn, cg_dtype_bytes(rnn->net.dtype)), 0 };
	memcpy(w->d_stage_input, r->d_stage_input, sizeof w->d_stage_input);
	w->every_carry = rnn->sums_carry;
	w->carry_h = r->carry_h;
	memcpy(w->carry_c, r->carry_c, sizeof w->carry_c);
	w->dh = (struct cg_matrix){ r->dh, rnn->net.P, 0 };
	w->dm = r->dm;
	w->prev_h = r->prev_h;
	memcpy(w->prev_c, r->prev_c, sizeof w->prev_c);
	w->partial = q->workspace->partial;
	w->sum = q->workspace->sum;
	w->accumulate = c->accumulate;
	if (cg_present(c->input_h_backprop))
		w->d_h_first = rnn->net.P ? (struct cg_matrix){ r->carry_h, rnn->net.P, 1 } : cg_recurrence_get_carry(w, r->carry_h, rnn->net.H, -1);
	for (int k = 0; k < rnn->n_states; k++)
		if (cg_present(of_state(c->input_c_backprop, c->input_s_backprop, k)))
			w->d_c_first[k] = cg_recurrence_get_carry(w, r->carry_c[k], rnn->net.U, -1);
	CG_TRY(p->layer == rnn->net.layers - 1 ? prepare_last_dy(q, p->direction, &w->dy) : prepare_inner_dy(q, p->layer, p->direction, &w->dy));
	CG_TRY(rnn->net.P ? prefill_projected(q, p) : prefill(q, c->output_h_backprop, p, rnn->net.H, w->carry_h));
	for (int k = 0; k < rnn->n_states; k++)
		CG_TRY(prefill(q, of_state(c->output_c_backprop, c->output_s_backprop, k), p, rnn->net.U, w->carry_c[k]));
	return CG_OK;
}

/* Copies the gradient of one initial state of a pseudo-layer to the caller. */
static int copy_first_backprop(const struct layers *q, struct cg_mem to, struct cg_matrix carry, const struct pseudo_layer *p)
{
	if (!cg_present(to))
		return CG_OK;
	return copy_rows(q, (struct cg_rows){ .rows = q->sequence.B, .columns = carry.stride, .src = carry,
	                                      .dst = state(q, to, p, carry.stride), .to = q->sequence.order });
}

/* Copies the gradients of a pseudo-layer's initial states to the caller. */
static int end_backward(const struct layers *q, const struct pseudo_layer *p)
{
	const struct cg_recurrence *w = &p->recurrence;

	CG_TRY(copy_first_backprop(q, q->call->input_h_backprop, w->d_h_first, p));
	for (int c = 0; c < q->rnn->n_states; c++)
		CG_TRY(copy_first_backprop(q, of_state(q->call->input_c_backprop, q->call->input_s_backprop, c), w->d_c_first[c], p));
	return CG_OK;
}

/* Sets the destination of the gradient of the layer's input.  Each direction adds its gradient to the sum of the directions before it;
 * the last direction gives the result. */
static int begin_dx(void *user, int k)
{
	struct layers *q = user;
	const struct cg_rnn *rnn = q->rnn;
	const int layer = q->at_hand[k].layer, d = q->at_hand[k].direction;
	int done = d == rnn->net.directions - 1, reorder = d && !q->sequence.is_dense;
	struct cg_recurrence *w = &q->at_hand[k].recurrence;
	struct cg_matrix other = { q->workspace->dx[0], w->width, 1 };

	if (!layer && !cg_present(q->call->input_backprop))
		return CG_OK;
	w->dx.add = d > 0;
	w->dx.sums = w->dx.result = (struct cg_matrix){ q->workspace->dx[reorder], w->width, 1 };
	if (done && layer)
		w->dx.result = (struct cg_matrix){ q->workspace->dx_real, w->width, 0 };
	else if (done && !cg_present(q->sequence.input[d]))
		w->dx.result = (struct cg_matrix){ q->call->input_backprop, q->sequence.input_unit, 0 };
	return !reorder ? CG_OK : copy_rows(q, (struct cg_rows){ .rows = q->sequence.N, .columns = w->width, .src = other, .dst = w->dx.sums,
	                                                         .from = q->sequence.reversed_index });
}

/* Copies the gradient of the network's input to the caller's rows, if they are not in packed order, and zeros the padding. */
static int end_dx(const struct layers *q, const struct pseudo_layer *p)
{
	const struct cg_rnn *rnn = q->rnn;
	const int layer = p->layer, d = p->direction;
	struct cg_matrix to = { q->call->input_backprop, q->sequence.input_unit, 0 };

	if (layer || d < rnn->net.directions - 1 || !cg_present(to.mem))
		return CG_OK;
	CG_TRY(clear_padding(q, q->shape->input, rnn->net.I, to.mem));
	if (!cg_present(q->sequence.input[d]))
		return CG_OK;
	return copy_rows(q, (struct cg_rows){ .rows = q->sequence.N, .columns = rnn->net.I, .src = p->recurrence.dx.sums, .dst = to,
	                                      .to = q->sequence.input[d] });
}

int cg_layers_backward(struct cg_stream *stream, const struct cg_rnn *rnn, const struct cg_rnn_call *call, struct cg_rnn_shape *shape,
                       struct cg_mem work)
{
	struct cg_recurrence *recurrences[CG_SCANS_MAX];
	struct layers q;

	CG_TRY(open(&q, stream, rnn, call, shape, work, CG_GRAD));
	CG_TRY(project(&q, rnn->net.layers - 1));
	for (int first = 0, n; first < rnn->net.layers * rnn->net.directions; first += n) {
		n = set_at_hand(&q, first, recurrences);
		if (!q.at_hand[0].direction && q.at_hand[0].layer)
			CG_TRY(project(&q, q.at_hand[0].layer - 1));
		for (int k = 0; k < n; k++)
			CG_TRY(begin_backward(&q, &q.at_hand[k]));
		CG_TRY(cg_recurrence_backward(recurrences, n, get_lag(&q), begin_dx, &q));
		for (int k = 0; k < n; k++) {
			CG_TRY(end_backward(&q, &q.at_hand[k]));
			CG_TRY(end_dx(&q, &q.at_hand[k]));
		}
	}
	return CG_OK;
}
