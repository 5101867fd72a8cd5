/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Products over the packed rows of a span of steps: forward the input parts of its gates; backward, from the gradients of its gates, the
 * gradients of the weight matrices and of x.
 */
#include "runtime/rnn/recurrence.h"

/* SPAN_BYTES: bytes of a span's gates that fit in a processor's larger caches.  SPAN_ROWS: a span has about this many rows or more for each
 * row of the weight matrices, since with fewer, reading the matrices again for each span costs more than the cache saves. */
enum { SPAN_BYTES = 4 << 20, SPAN_ROWS = 8 };

int64_t cg_recurrence_count_span_steps(int dtype, int pass, int64_t gates, int64_t matrix_rows, int64_t B)
{
	int64_t of_gates = SPAN_BYTES / (gates * (int64_t)cg_acc_bytes(dtype)), rows;

	/* In f16 and bf16 the gradients of matrices are computed in one product over all steps, so that they are rounded once. */
	if (!B || (pass != CG_FORWARD && !cg_is_plain(dtype)))
		return 0;
	/* Avoids an overflow: with matrices of more than INT32_MAX rows no call has enough packed rows for two spans. */
	rows = matrix_rows > INT32_MAX ? INT64_MAX : SPAN_ROWS * matrix_rows;
	rows = rows > of_gates ? rows : of_gates;
	return rows > B ? rows / B : 1;
}

/* ---- forward ---- */

/* Does a block of gates belong to a stage whose recurrent product starts from the biases? */
static int is_of_product(const struct cg_recurrence *w, int64_t block)
{
	int stage = 0;

	while (stage < n_stages(w) && block >= w->first[stage + 1])
		stage++;
	return stage < n_stages(w) && starts_from_bias(w, stage);
}

/* Computes x W + b for each gate, or x + b if the layer has no input matrices; b alone for a gate without an input part, unless the
 * recurrent product starts from b. */
int cg_span_multiply_inputs(const struct cg_recurrence *w, const struct cg_span *span)
{
	const struct cg_matrix x = at(w, w->x, span->row, 0);

	for (int k = 0; k < w->kernel->cell->n_gates; k++) {
		int64_t block = w->gate[k].block;

		if ((w->skip || w->gate[k].weight[CG_PART_W] < 0) && !is_of_product(w, block))
			CG_TRY(copy_rows(w, span->rows, w->U, at(w, w->bias, 0, block * w->U), gates_at(w, span->row, block), 0));
	}
	for (int k = 0; k < w->n_ranges; k++) {
		const struct cg_gate_range *range = &w->ranges[k];
		struct cg_gemm g = { .m = span->rows, .n = range->n * w->U, .k = w->width, .transpose_b = !w->by_input, .a = x };

		for (int j = 0; w->skip && j < range->n; j++)
			CG_TRY(copy_rows(w, span->rows, w->U, x, gates_at(w, span->row, range->block + j), 1));
		if (w->skip)
			continue;
		g.b = of_gates(w, w->input.value, range->weight);
		g.start = at(w, w->bias, 0, range->block * w->U);
		g.c = gates_at(w, span->row, range->block);
		CG_TRY(multiply(w, &g));
	}
	return CG_OK;
}

/* ---- backward ---- */

/* Copies to dst the state of the step before, for every packed row; for the first step the initial state. */
static int gather_prev(const struct cg_recurrence *w, struct cg_matrix src, struct cg_matrix first, struct cg_matrix dst)
{
	int64_t n = w->sequence->S ? cg_packed_rows(w->sequence, 0) : 0, more = w->sequence->N - n, width = dst.stride;
	struct cg_rows r = { .dtype = w->kernel->dtype, .rows = more, .columns = width, .src = src, .dst = dst };

	if (!n)
		return CG_OK;
	if (w->sequence->is_dense) {
		r.src = at(w, src, w->direction ? n : 0, 0);
		r.dst = at(w, dst, w->direction ? 0 : n, 0);
	} else {
		r.dst = at(w, dst, n, 0);
		r.from = cg_part(w->sequence->prev, (size_t)n * sizeof(int64_t), (size_t)more * sizeof(int64_t));
	}
	CG_TRY(cg_copy_rows(w->stream, &r));
	dst = at(w, dst, off(w, 0), 0);
	if (cg_present(first.mem))
		return copy_rows(w, n, width, first, dst, 0);
	return w->stream->context->backend->zero(w->stream->queue, dst.mem, (size_t)(n * width) * w->bytes[dst.acc]);
}

int cg_span_gather_prev(const struct cg_recurrence *w)
{
	if (cg_present(w->prev_h) && cg_present(w->recurrent.grad.mem))
		CG_TRY(gather_prev(w, w->h, w->h_first, (struct cg_matrix){ w->prev_h, w->H, 0 }));
	for (int c = 0; c < w->n_states; c++)
		if (cg_present(w->prev_c[c]) && w->needs_sums && w->sequence->S > 1)
			CG_TRY(gather_prev(w, saved_matrix(w, w->saved_c[c]), w->c_first[c],
			                   (struct cg_matrix){ w->prev_c[c], w->U, is_of_sequence(w) }));
	return CG_OK;
}

/* Computes the gradient c of a weight matrix: the sum over `rows` rows of the outer products of `in`, which the matrix multiplies, and of
 * d, the gradient of that product, plus start, which may be absent. */
static int multiply_weights(const struct cg_recurrence *w, int by_input, int64_t rows, struct cg_matrix d, int64_t m, struct cg_matrix in,
                            int64_t n, struct cg_matrix start, struct cg_matrix c)
{
	struct cg_gemm g = { .dtype = w->kernel->dtype, .m = by_input ? n : m, .n = by_input ? m : n, .k = rows, .transpose_a = 1,
	                     .start = start, .c = c };

	/* If there are no rows, the memory of the operands may be absent. */
	if (rows) {
		g.a = by_input ? in : d;
		g.b = by_input ? d : in;
	}
	return cg_multiply(w->stream, &g);
}

/* The matrix that a gradient is added to: c itself if the caller accumulates, or if a span that ran before has written it; else none. */
static struct cg_matrix start_of(const struct cg_recurrence *w, const struct cg_span *span, struct cg_matrix c)
{
	return w->accumulate || span->end < w->sequence->S ? c : none;
}

/* Computes dR of the first stage without prev_h: the hidden state of the step before is read from h, B rows away, and for the first step
 * from h_first by a product of its own. */
static int multiply_shifted_weights(const struct cg_recurrence *w, const struct cg_span *span, struct cg_matrix start, struct cg_matrix c)
{
	const int64_t m = stage_columns(w, 0), B = w->sequence->B;
	int64_t of_first = span->first || !span->rows ? 0 : B, more = span->rows - of_first;
	int64_t row = span->row + (w->direction ? 0 : of_first);
	struct cg_matrix sum = { w->sum, c.stride, 1 };

	if (of_first && cg_present(w->h_first.mem)) {
		/* If acc is the dtype, or no second product follows, the sum is written to c directly. */
		if (!more || w->bytes[0] == w->bytes[1])
			sum = c;
		CG_TRY(multiply_weights(w, w->by_input, of_first, d_gates_at(w, off(w, 0), 0), m, w->h_first, w->H, start, sum));
		start = sum;
	}
	if (!more && start.mem.data)
		return CG_OK;
	return multiply_weights(w, w->by_input, more, d_gates_at(w, row, 0), m, at(w, w->h, row + (w->direction ? B : -B), 0), w->H, start, c);
}

static int multiply_recurrent_weights(const struct cg_recurrence *w, const struct cg_span *span)
{
	for (int stage = stage_columns(w, 0) ? 0 : 1; stage < n_stages(w); stage++) {
		struct cg_matrix c = of_gates(w, w->recurrent.grad, w->first[stage]), start = start_of(w, span, c);
		struct cg_matrix in = { stage ? w->stage_input[stage - 1] : w->prev_h, stage_width(w, stage), 0 };

		if (stage && w->stage_input_saved[stage - 1] >= 0)
			in = saved_matrix(w, w->stage_input_saved[stage - 1]);
		if (stage || cg_present(w->prev_h))
			CG_TRY(multiply_weights(w, w->by_input, span->rows, d_gates_at(w, span->row, w->first[stage]), stage_columns(w, stage),
			                        at(w, in, span->row, 0), stage_width(w, stage), start, c));
		else
			CG_TRY(multiply_shifted_weights(w, span, start, c));
	}
	return CG_OK;
}

static int multiply_input_weights(const struct cg_recurrence *w, const struct cg_span *span)
{
	for (int k = 0; k < w->n_ranges && !w->skip; k++) {
		const struct cg_gate_range *range = &w->ranges[k];
		struct cg_matrix c = of_gates(w, w->input.grad, range->weight);

		CG_TRY(multiply_weights(w, w->by_input, span->rows, d_gates_at(w, span->row, range->block), range->n * w->U, at(w, w->x, span->row, 0),
		                        w->width, start_of(w, span, c), c));
	}
	return CG_OK;
}

static int multiply_projection_weights(const struct cg_recurrence *w, const struct cg_span *span)
{
	struct cg_matrix c = w->projection.grad;

	return multiply_weights(w, 0, span->rows, at(w, w->dh, span->row, 0), w->P, at(w, saved_matrix(w, w->saved_h), span->row, 0), w->U,
	                        start_of(w, span, c), c);
}

int cg_span_multiply_weights(const struct cg_recurrence *w, const struct cg_span *span)
{
	if (cg_present(w->input.grad.mem))
		CG_TRY(multiply_input_weights(w, span));
	if (cg_present(w->recurrent.grad.mem))
		CG_TRY(multiply_recurrent_weights(w, span));
	if (cg_present(w->projection.grad.mem))
		CG_TRY(multiply_projection_weights(w, span));
	return CG_OK;
}

/* Computes the gradient of x: the sums so far, if `add` is set, plus the product of each range of gates, or with `skip` plus the gradient
 * of each gate that takes x. */
int cg_span_multiply_gradients(const struct cg_recurrence *w, const struct cg_span *span)
{
	const struct cg_matrix sums = at(w, w->dx.sums, span->row, 0), dx = at(w, w->dx.result, span->row, 0);
	int add = w->dx.add;

	if (!cg_present(w->dx.result.mem))
		return CG_OK;
	for (int k = 0; k < w->n_ranges; k++) {
		const struct cg_gate_range *range = &w->ranges[k];
		struct cg_gemm g = { .m = span->rows, .n = w->width, .k = range->n * w->U, .transpose_b = w->by_input };

		g.a = d_gates_at(w, span->row, range->block);
		for (int j = 0; w->skip && j < range->n; j++, add = 1)
			CG_TRY(copy_rows(w, g.m, w->U, at(w, g.a, 0, j * w->U), sums, add));
		if (w->skip)
			continue;
		g.b = of_gates(w, w->input.value, range->weight);
		g.start = add ? sums : none;
		g.c = k < w->n_ranges - 1 ? sums : dx;
		CG_TRY(multiply(w, &g));
		add = 1;
	}
	if (w->skip && (sums.mem.data != dx.mem.data || sums.mem.offset != dx.mem.offset))
		return copy_rows(w, span->rows, w->width, sums, dx, 0);
	return CG_OK;
}
