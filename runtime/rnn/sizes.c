/*
 * The shape of a call: what follows from T, B and the lengths, and the bytes that it needs.
 */
#include "runtime/rnn/rnn.h"

#define REFUSE(...) cg_fail(CG_BAD_ARGUMENT, "rnn: " __VA_ARGS__)

static int too_many(const struct cg_rnn_shape *shape)
{
	return REFUSE("T=%lld, B=%lld: more than memory has room for", (long long)shape->T, (long long)shape->B);
}

/* Memory for a packed sequence: packed.c's n and off, two numbers of each batch row, seven of each valid one. */
static int has_index(const struct cg_rnn_shape *shape)
{
	int64_t numbers;

	return !__builtin_mul_overflow(shape->N, 7, &numbers) &&
	       !__builtin_add_overflow(numbers, 2 * shape->T + 1 + 2 * shape->B, &numbers) &&
	       numbers <= (int64_t)(PTRDIFF_MAX / sizeof numbers);
}

/* Rows are counted first, so that no later product overflows. */
static int count_rows(const struct cg_rnn *rnn, struct cg_rnn_shape *shape)
{
	int64_t T = shape->T, B = shape->B, rows;

	if (T < 0 || B < 0)
		return REFUSE("%s: expected at least 0, got %lld", T < 0 ? "T" : "B", (long long)(T < 0 ? T : B));
	if (T > INT32_MAX || __builtin_mul_overflow(T + 2, B, &rows) || rows > INT64_MAX / 4)
		return too_many(shape);
	CG_TRY(cg_packed_count(shape));
	shape->is_dense = shape->is_whole && rnn->net.time_major;
	return CG_OK;
}

static size_t most(size_t a, size_t b)
{
	return a > b ? a : b;
}

/* Of pseudo-layers that run at once, at least as much as of one at a time, so that work serves calls of fewer steps or rows, too. */
static size_t count_work(const struct cg_rnn *rnn, int pass, int at_once, struct cg_rnn_shape *shape)
{
	size_t bytes = cg_layers_lay_out_workspace(rnn, pass, at_once, shape);
	struct cg_rnn_shape alone;

	if (shape->at_once == 1)
		return bytes;
	alone = *shape;
	return most(bytes, cg_layers_lay_out_workspace(rnn, pass, 1, &alone));
}

static int count_bytes(const struct cg_rnn *rnn, int pass, int at_once, struct cg_rnn_shape *shape)
{
	struct cg_net_sizes *bytes = &shape->bytes;

	if (shape->is_vendors)
		return rnn->context->backend->net->sizes(rnn->vendor, shape->T, shape->B, shape->lengths, bytes);
	*bytes = (struct cg_net_sizes){ .reserve = rnn->net.training ? cg_layers_measure_reserve(rnn, shape->N) : 0 };
	if (pass == CG_FORWARD)
		bytes->forward = count_work(rnn, pass, at_once, shape);
	else if (rnn->net.training)
		bytes->backward = count_work(rnn, pass, at_once, shape);
	return CG_OK;
}

int cg_rnn_measure(const struct cg_rnn *rnn, int pass, int64_t T, int64_t B, const int32_t *lengths, const struct cg_mem *work,
                   struct cg_rnn_shape *shape)
{
	const struct cg_net_sizes *bytes = &shape->bytes;

	shape->T = T;
	shape->B = B;
	shape->lengths = B ? lengths : NULL;
	shape->at_once = 1;
	CG_TRY(count_rows(rnn, shape));
	CG_TRY(cg_rnn_choose_route(rnn, T, &shape->is_vendors));
	CG_TRY(count_bytes(rnn, pass, CG_SCANS_MAX, shape));
	if (shape->at_once > 1 && work && cg_present(*work) && work->bytes < most(bytes->forward, bytes->backward))
		CG_TRY(count_bytes(rnn, pass, 1, shape));
	if (most(bytes->reserve, most(bytes->forward, bytes->backward)) > PTRDIFF_MAX || !(shape->is_dense || has_index(shape)))
		return too_many(shape);
	return CG_OK;
}

int64_t cg_rnn_reserve_elements(const struct cg_rnn *rnn, const struct cg_rnn_shape *shape)
{
	size_t each = cg_dtype_bytes(rnn->net.dtype);

	return (int64_t)((shape->bytes.reserve + each - 1) / each);
}

int cg_rnn_sizes(const struct cg_rnn *rnn, int64_t T, int64_t B, const int32_t *lengths, struct cg_rnn_sizes *result)
{
	struct cg_rnn_shape shape;
	size_t forward;

	if (!rnn || !result)
		return cg_fail(CG_BAD_ARGUMENT, "cg_rnn_sizes: %s: missing", rnn ? "sizes" : "rnn");
	CG_TRY(cg_rnn_measure(rnn, CG_FORWARD, T, B, lengths, NULL, &shape));
	forward = shape.bytes.forward;
	if (!shape.is_vendors && rnn->net.training)
		CG_TRY(count_bytes(rnn, CG_GRAD, CG_SCANS_MAX, &shape));
	if (shape.bytes.backward > PTRDIFF_MAX)
		return too_many(&shape);
	*result = (struct cg_rnn_sizes){ (size_t)rnn->net.params * cg_dtype_bytes(rnn->net.dtype), shape.bytes.reserve,
	                                 most(forward, shape.bytes.backward) };
	return CG_OK;
}

int cg_rnn_reserve_bound(const struct cg_rnn *rnn, size_t *fixed, size_t *step)
{
	if (!rnn || !fixed || !step)
		return cg_fail(CG_BAD_ARGUMENT, "cg_rnn_reserve_bound: %s: missing", !rnn ? "rnn" : !fixed ? "fixed" : "step");
	if (rnn->vendor)
		return cg_fail(CG_UNSUPPORTED, "cg_rnn_reserve_bound: on route %s only the library knows; routes composed and scan have a bound",
		               rnn->route);
	*fixed = *step = 0;
	if (rnn->net.training)
		cg_layers_bound_reserve(rnn, fixed, step);
	return CG_OK;
}
