/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes the shape of a call from its T, B, lengths and strides: the number of valid steps, the strides of all sequences, whether the
 * call runs on a vendor's route, and the bytes that the call needs.
 */
#include "runtime/rnn/rnn.h"

#define REFUSE(...) cg_fail(CG_BAD_ARGUMENT, "rnn: " __VA_ARGS__)

static int too_many(const struct cg_rnn_shape *shape)
{
	return REFUSE("T=%lld, B=%lld: a call of these sizes has too many steps, rows or bytes", (long long)shape->T, (long long)shape->B);
}

/* Are the index arrays of packed.c within PTRDIFF_MAX bytes?  Arrays n and off have at most 2 T + 1 numbers together; the other
 * index arrays together have at most two numbers for each batch row, and ten for each valid step. */
static int has_index(const struct cg_rnn_shape *shape)
{
	int64_t numbers;

	return !__builtin_mul_overflow(shape->N, 10, &numbers) &&
	       !__builtin_add_overflow(numbers, 2 * shape->T + 1 + 2 * shape->B, &numbers) &&
	       numbers <= (int64_t)(PTRDIFF_MAX / sizeof numbers);
}

/* ---- strides of sequences ---- */

/* A caller's sequence: its name for messages, the width of its rows, and its strides. */
struct sequence { const char *name; int64_t width, t_stride, b_stride; };

/* Is the size of the sequence within PTRDIFF_MAX bytes? */
static int fits(const struct cg_rnn *rnn, const struct cg_rnn_shape *shape, int64_t width, struct cg_rnn_spacing rows)
{
	int64_t steps, batch, end;

	return !__builtin_mul_overflow(rows.t, shape->T - 1, &steps) && !__builtin_mul_overflow(rows.b, shape->B - 1, &batch) &&
	       !__builtin_add_overflow(steps, batch, &end) && !__builtin_add_overflow(end, width, &end) &&
	       end <= (int64_t)(PTRDIFF_MAX / cg_dtype_bytes(rnn->net.dtype));
}

/* Checks the strides of a sequence and sets *rows to the strides that the call uses.  A stride of 0, or one that does not matter since T
 * or B is at most 1, is replaced by the stride of a dense sequence. */
static int place_rows(const struct cg_rnn *rnn, const struct cg_rnn_shape *shape, const struct sequence *s, struct cg_rnn_spacing *rows,
                      int *is_plain)
{
	const int64_t T = shape->T, B = shape->B;
	struct cg_rnn_spacing dense = { .t = s->width, .b = s->width };
	int is_given, overflows;

	if (s->t_stride < 0 || s->b_stride < 0)
		return REFUSE("%s_%s_stride: expected at least 0, got %lld", s->name, s->t_stride < 0 ? "t" : "b",
		              (long long)(s->t_stride < 0 ? s->t_stride : s->b_stride));
	overflows = rnn->net.time_major ? __builtin_mul_overflow(s->width, B, &dense.t) : __builtin_mul_overflow(s->width, T, &dense.b);
	rows->t = s->t_stride && T > 1 ? s->t_stride : dense.t;
	rows->b = s->b_stride && B > 1 ? s->b_stride : dense.b;
	is_given = rows->t != dense.t || rows->b != dense.b;
	*is_plain &= !is_given;
	if (!T || !B || (!is_given && overflows))
		/* there are no rows; or the dense size is too large, and the check of the argument's bytes will refuse it */
		return CG_OK;
	if (is_given && (overflows || !fits(rnn, shape, s->width, *rows)))
		return REFUSE("%s_t_stride=%lld, %s_b_stride=%lld: a sequence of these strides has too many bytes", s->name,
		              (long long)s->t_stride, s->name, (long long)s->b_stride);
	return CG_OK;
}

/* Are the rows, taken in the order of steps, evenly spaced, without overlap?  Without rows: yes. */
static int is_even(const struct cg_rnn_shape *shape, struct cg_rnn_spacing rows, int64_t width)
{
	int64_t all;

	if (!shape->T || !shape->B)
		return 1;
	if (shape->B == 1 || shape->T == 1)
		return (shape->B > 1 ? rows.b : rows.t) >= width;
	return rows.b >= width && !__builtin_mul_overflow(rows.b, shape->B, &all) && all == rows.t;
}

static int place_sequences(const struct cg_rnn *rnn, const struct cg_rnn_call *c, struct cg_rnn_shape *shape)
{
	const struct sequence input = { "input", rnn->net.I, c->input_t_stride, c->input_b_stride };
	const struct sequence output = { "output", rnn->net.directions * rnn->net.H, c->output_t_stride, c->output_b_stride };

	shape->is_plain = !shape->batch_sizes;
	if (!shape->batch_sizes) {
		CG_TRY(place_rows(rnn, shape, &input, &shape->input, &shape->is_plain));
		CG_TRY(place_rows(rnn, shape, &output, &shape->output, &shape->is_plain));
		shape->input_in_place = shape->is_whole && is_even(shape, shape->input, input.width);
		shape->output_in_place = shape->is_whole && is_even(shape, shape->output, output.width);
		return CG_OK;
	}
	if (c->input_t_stride || c->input_b_stride || c->output_t_stride || c->output_b_stride)
		return REFUSE("batch_sizes: expected all strides of input and output to be 0, since a packed sequence is dense");
	shape->input.t = shape->input.b = input.width;
	shape->output.t = shape->output.b = output.width;
	shape->input_in_place = shape->output_in_place = shape->is_whole;
	return CG_OK;
}

/* Counts the valid steps of all batch rows.  This count is made before any other
 * size is computed, since its checks keep later products of T and B from overflowing. */
static int count_rows(struct cg_rnn_shape *shape)
{
	int64_t T = shape->T, B = shape->B, rows;

	if (T < 0 || B < 0)
		return REFUSE("%s: expected at least 0, got %lld", T < 0 ? "T" : "B", (long long)(T < 0 ? T : B));
	if (T > INT32_MAX || __builtin_mul_overflow(T + 2, B, &rows) || rows > INT64_MAX / 4)
		return too_many(shape);
	return cg_packed_count(shape);
}

static size_t most(size_t a, size_t b)
{
	return a > b ? a : b;
}

/* The bytes of the workspace.  If pseudo-layers run at once, the workspace has at least the bytes for running one pseudo-layer at a time,
 * so that the workspace also suffices for calls with fewer steps or rows. */
static size_t count_work(const struct cg_rnn *rnn, int pass, int at_once, struct cg_rnn_shape *shape)
{
	size_t bytes = cg_layers_lay_out_workspace(rnn, pass, at_once, shape);
	struct cg_rnn_shape alone;

	if (shape->at_once == 1)
		return bytes;
	alone = *shape;
	return most(bytes, cg_layers_lay_out_workspace(rnn, pass, 1, &alone));
}

static int count_vendors_bytes(const struct cg_rnn *rnn, struct cg_rnn_shape *shape)
{
	struct cg_net_sizes *bytes = &shape->bytes;
	int32_t *lengths;
	int code;

	CG_TRY(cg_packed_get_lengths(shape, &lengths));
	code = rnn->context->backend->net->sizes(rnn->vendor, shape->T, shape->B, lengths ? lengths : shape->lengths, bytes);
	cg_memory(lengths, 0);
	if (code || shape->is_plain)
		return code;
	bytes->forward = cg_vendor_measure(rnn, CG_FORWARD, shape, bytes->forward);
	bytes->backward = cg_vendor_measure(rnn, CG_GRAD, shape, bytes->backward);
	return CG_OK;
}

static int count_bytes(const struct cg_rnn *rnn, int pass, int at_once, struct cg_rnn_shape *shape)
{
	struct cg_net_sizes *bytes = &shape->bytes;

	if (shape->is_vendors)
		return count_vendors_bytes(rnn, shape);
	*bytes = (struct cg_net_sizes){ .reserve = rnn->net.training ? cg_layers_measure_reserve(rnn, shape->N) : 0 };
	if (pass == CG_FORWARD)
		bytes->forward = count_work(rnn, pass, at_once, shape);
	else if (rnn->net.training)
		bytes->backward = count_work(rnn, pass, at_once, shape);
	return CG_OK;
}

int cg_rnn_measure(const struct cg_rnn *rnn, int pass, const struct cg_rnn_call *c, struct cg_rnn_shape *shape)
{
	const struct cg_net_sizes *bytes = &shape->bytes;

	if (c->lengths && c->batch_sizes)
		return REFUSE("batch_sizes: expected NULL where lengths are given, got both");
	shape->T = c->T;
	shape->B = c->B;
	shape->lengths = c->B ? c->lengths : NULL;
	shape->batch_sizes = c->batch_sizes;
	shape->at_once = 1;
	CG_TRY(count_rows(shape));
	CG_TRY(place_sequences(rnn, c, shape));
	CG_TRY(cg_rnn_choose_route(rnn, c->T, &shape->is_vendors));
	CG_TRY(count_bytes(rnn, pass, CG_SCANS_MAX, shape));
	if (shape->at_once > 1 && cg_present(c->work) && c->work.bytes < most(bytes->forward, bytes->backward))
		CG_TRY(count_bytes(rnn, pass, 1, shape));
	if (most(bytes->reserve, most(bytes->forward, bytes->backward)) > PTRDIFF_MAX || !((shape->input_in_place && shape->output_in_place) || has_index(shape)))
		return too_many(shape);
	return CG_OK;
}

int64_t cg_rnn_reserve_elements(const struct cg_rnn *rnn, const struct cg_rnn_shape *shape)
{
	size_t each = cg_dtype_bytes(rnn->net.dtype);

	return (int64_t)((shape->bytes.reserve + each - 1) / each);
}

int cg_rnn_measure_sizes(const struct cg_rnn *rnn, const struct cg_rnn_call *call, struct cg_rnn_sizes *result)
{
	struct cg_rnn_shape shape;
	size_t forward;

	CG_TRY(cg_rnn_measure(rnn, CG_FORWARD, call, &shape));
	forward = shape.bytes.forward;
	if (!shape.is_vendors && rnn->net.training)
		CG_TRY(count_bytes(rnn, CG_GRAD, CG_SCANS_MAX, &shape));
	if (shape.bytes.backward > PTRDIFF_MAX)
		return too_many(&shape);
	*result = (struct cg_rnn_sizes){ (size_t)rnn->net.params * cg_dtype_bytes(rnn->net.dtype), shape.bytes.reserve,
	                                 most(forward, shape.bytes.backward) };
	return CG_OK;
}

int cg_rnn_sizes(const struct cg_rnn *rnn, int64_t T, int64_t B, const int32_t *lengths, struct cg_rnn_sizes *result)
{
	const struct cg_rnn_call call = { .T = T, .B = B, .lengths = lengths };

	if (!rnn || !result)
		return cg_fail(CG_BAD_ARGUMENT, "cg_rnn_sizes: %s: expected a pointer, got NULL", rnn ? "sizes" : "rnn");
	return cg_rnn_measure_sizes(rnn, &call, result);
}

int cg_rnn_reserve_bound(const struct cg_rnn *rnn, size_t *fixed, size_t *step)
{
	if (!rnn || !fixed || !step)
		return cg_fail(CG_BAD_ARGUMENT, "cg_rnn_reserve_bound: %s: expected a pointer, got NULL", !rnn ? "rnn" : !fixed ? "fixed" : "step");
	if (rnn->vendor)
		return cg_fail(CG_UNSUPPORTED, "cg_rnn_reserve_bound: route %s has no bound of its reserve space; routes composed and scan have "
		               "one",
		               rnn->route);
	*fixed = *step = 0;
	if (rnn->net.training)
		cg_layers_bound_reserve(rnn, fixed, step);
	return CG_OK;
}
