/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of a vendor's library on sequences that are strided or packed, which the library cannot read: copies the sequences to dense
 * memory, and copies the results back.
 */
#include "runtime/rnn/rnn.h"

/* The parts of the workspace: the vendor's own, then the dense copies.  input_backprop is absent in the forward pass. */
struct copies { struct cg_mem own, input, output, input_backprop; };

/* Lays out the parts of the workspace, and returns their bytes.  Part `output` is for the output, or in the backward pass for the
 * gradient of the output. */
static size_t lay_out(const struct cg_rnn *rnn, int pass, const struct cg_rnn_shape *shape, size_t own, struct cg_mem work, struct copies *copies)
{
	const size_t each = cg_dtype_bytes(rnn->net.dtype);
	const int64_t rows = shape->T * shape->B;
	struct cg_work to = { .mem = work };

	*copies = (struct copies){ .own = cg_work_alloc(&to, 1, 1, own) };
	copies->input = cg_work_alloc(&to, rows, rnn->net.I, each);
	copies->output = cg_work_alloc(&to, rows, rnn->net.directions * rnn->net.H, each);
	if (pass == CG_GRAD)
		copies->input_backprop = cg_work_alloc(&to, rows, rnn->net.I, each);
	return to.used;
}

size_t cg_vendor_measure(const struct cg_rnn *rnn, int pass, const struct cg_rnn_shape *shape, size_t own)
{
	static const struct cg_mem absent = { .bytes = 0 };
	struct copies copies;

	return lay_out(rnn, pass, shape, own, absent, &copies);
}

/* Copies the rows of valid steps from a caller's sequence to dense memory, or back. */
static int copy(struct cg_stream *stream, const struct cg_rnn *rnn, const struct cg_packed *sequence, struct cg_mem index, int64_t unit,
                struct cg_mem given, int64_t width, struct cg_mem dense, int back)
{
	const struct cg_matrix callers = { given, unit, 0 }, ours = { dense, width, 0 };
	const struct cg_rows r = { .dtype = rnn->net.dtype, .rows = sequence->N, .columns = width,
	                           .src = back ? ours : callers, .from = back ? sequence->dense : index,
	                           .dst = back ? callers : ours, .to = back ? index : sequence->dense };

	return cg_present(given) ? cg_copy_rows(stream, &r) : CG_OK;
}

static int run(struct cg_stream *stream, const struct cg_rnn *rnn, int pass, const struct cg_rnn_call *call, const struct cg_rnn_shape *shape,
               struct cg_mem work, const int32_t *lengths)
{
	static const struct cg_mem absent = { .bytes = 0 };
	const struct cg_net_route *route = rnn->context->backend->net;
	const int64_t I = rnn->net.I, wide = rnn->net.directions * rnn->net.H;
	struct cg_rnn_call dense = *call;
	struct cg_packed sequence;
	struct copies copies;
	size_t own = work.bytes - lay_out(rnn, pass, shape, 0, absent, &copies);

	/* If the caller's workspace is larger than necessary, the vendor's part gets the rest. */
	lay_out(rnn, pass, shape, own / CG_WORK_ALIGN * CG_WORK_ALIGN, work, &copies);
	CG_TRY(cg_packed_get(stream, rnn, shape, &sequence));
	dense.lengths = lengths;
	dense.batch_sizes = NULL;
	dense.input_t_stride = dense.input_b_stride = dense.output_t_stride = dense.output_b_stride = 0;
	dense.input = cg_present(call->input) ? copies.input : absent;
	CG_TRY(copy(stream, rnn, &sequence, sequence.input[0], sequence.input_unit, call->input, I, copies.input, 0));
	if (pass == CG_FORWARD) {
		dense.output = cg_present(call->output) ? copies.output : absent;
		CG_TRY(route->forward(stream->queue, rnn->vendor, &dense, copies.own));
		CG_TRY(cg_packed_clear(stream, rnn->net.dtype, shape, shape->output, wide, call->output, call->params));
		return copy(stream, rnn, &sequence, sequence.output[0], sequence.output_unit, call->output, wide, copies.output, 1);
	}
	dense.output_backprop = cg_present(call->output_backprop) ? copies.output : absent;
	dense.input_backprop = cg_present(call->input_backprop) ? copies.input_backprop : absent;
	CG_TRY(copy(stream, rnn, &sequence, sequence.output[0], sequence.output_unit, call->output_backprop, wide, copies.output, 0));
	CG_TRY(route->backward(stream->queue, rnn->vendor, &dense, copies.own));
	CG_TRY(cg_packed_clear(stream, rnn->net.dtype, shape, shape->input, I, call->input_backprop, call->params));
	return copy(stream, rnn, &sequence, sequence.input[0], sequence.input_unit, call->input_backprop, I, copies.input_backprop, 1);
}

int cg_vendor_run(struct cg_stream *stream, const struct cg_rnn *rnn, int pass, const struct cg_rnn_call *call, const struct cg_rnn_shape *shape,
                  struct cg_mem work)
{
	int32_t *lengths;
	int code;

	CG_TRY(cg_packed_get_lengths(shape, &lengths));
	code = run(stream, rnn, pass, call, shape, work, lengths ? lengths : call->lengths);
	cg_memory(lengths, 0);
	return code;
}
