/*
 * Calls of networks: their sizes, and the checks of the op table's rows before route.c sends them on their way.
 */
#include <string.h>

#include "runtime/core/environment.h"
#include "runtime/rnn/rows.h"

#define REFUSE(...) cg_fail(CG_BAD_ARGUMENT, "rnn: " __VA_ARGS__)

static void init(void *call, size_t size)
{
	static const struct cg_rnn_call defaults = { .size = 0 };

	cg_sized_init(call, size, &defaults, sizeof defaults);
}

void cg_rnn_call_init(struct cg_rnn_call *call, size_t size)
{
	init(call, size);
}

static const struct cg_sized sized = CG_SIZED(struct cg_rnn_call, params_backprop, init);

/* ---- sizes ---- */

static int check_lengths(int64_t T, int64_t B, const int32_t *lengths)
{
	for (int64_t b = 0; lengths && b < B; b++)
		if (lengths[b] < 0 || lengths[b] > T)
			return REFUSE("sequence_lengths: [%lld]: expected 0 to T=%lld, got %d", (long long)b, (long long)T, lengths[b]);
	return CG_OK;
}

static int too_many(int64_t T, int64_t B)
{
	return REFUSE("T=%lld, B=%lld: more than memory has room for", (long long)T, (long long)B);
}

/* Room for an order of rows: packed.c's n and off, two numbers of each batch row, seven of each valid one. */
static int has_index(int64_t T, int64_t B, int64_t N)
{
	int64_t numbers;

	return !__builtin_mul_overflow(N, 7, &numbers) && !__builtin_add_overflow(numbers, 2 * T + 1 + 2 * B, &numbers) &&
	       numbers <= (int64_t)(PTRDIFF_MAX / sizeof numbers);
}

/* The sizes of a call, or that they do not fit: rows first, so that nothing overflows while the rest is counted. */
static int measure(const struct cg_rnn *rnn, int64_t T, int64_t B, const int32_t *lengths, struct cg_rnn_sizes *sizes)
{
	int64_t longest, N, rows;
	struct cg_net_sizes needs;
	int straight;

	if (T < 0 || B < 0)
		return REFUSE("%s: expected at least 0, got %lld", T < 0 ? "T" : "B", (long long)(T < 0 ? T : B));
	if (T > INT32_MAX || __builtin_mul_overflow(T + 2, B, &rows) || rows > INT64_MAX / 4)
		return too_many(T, B);
	CG_TRY(check_lengths(T, B, lengths));
	N = cg_steps_count(T, B, lengths, &longest);
	straight = rnn->time_major && N == T * B;
	CG_TRY(cg_rnn_needs(rnn, T, B, lengths, &needs));
	*sizes = (struct cg_rnn_sizes){ (size_t)rnn->params * cg_dtype_bytes(rnn->dtype), needs.reserve,
	                                needs.forward > needs.backward ? needs.forward : needs.backward };
	if (sizes->work > PTRDIFF_MAX || sizes->reserve > PTRDIFF_MAX || !(straight || has_index(T, B, N)))
		return too_many(T, B);
	return CG_OK;
}

int cg_rnn_check_sizes(const struct cg_rnn *rnn, int64_t T, int64_t B, const int32_t *lengths)
{
	struct cg_rnn_sizes sizes;

	return measure(rnn, T, B, lengths, &sizes);
}

int cg_rnn_sizes(const struct cg_rnn *rnn, int64_t T, int64_t B, const int32_t *lengths, struct cg_rnn_sizes *result)
{
	struct cg_rnn_sizes sizes;

	if (!rnn || !result)
		return cg_fail(CG_BAD_ARGUMENT, "cg_rnn_sizes: %s: missing", rnn ? "sizes" : "rnn");
	CG_TRY(measure(rnn, T, B, lengths, &sizes));
	*result = sizes;
	return CG_OK;
}

/* ---- calls ---- */

static int work_of(const void *given, int pass, size_t *bytes)
{
	const struct cg_rnn_op *op = given;
	struct cg_net_sizes needs;

	CG_TRY(cg_rnn_needs(op->rnn, op->call.T, op->call.B, op->call.lengths, &needs));
	*bytes = pass == CG_FORWARD ? needs.forward : needs.backward;
	return CG_OK;
}

static int forward_work(const void *op, size_t *bytes)
{
	return work_of(op, CG_FORWARD, bytes);
}

static int backward_work(const void *op, size_t *bytes)
{
	return work_of(op, CG_GRAD, bytes);
}

/* Only a cell with a state has a c. */
static int has(const struct cg_op *row, const struct cg_port *port, const void *given)
{
	const struct cg_rnn_op *op = given;

	(void)row;
	return port->type != CG_INT8 && (op->rnn->state >= 0 || !strstr(port->name, "put_c"));
}

/* By pass: for the checks, the work and the line of a call with a plan. */
#define NETWORK_CALL RNN_STRUCT, .dims = cg_rnn_dims, .reads = has, .route = cg_rnn_op_route, .time_major_at = offsetof(struct cg_rnn_op, time_major)
static const struct cg_op rows[] = {
	[CG_FORWARD] = { .name = "rnn", .tensorflow = "CudnnRNNV3", NETWORK_CALL, .work = forward_work,
	                 .attributes = cg_rnn_attributes, .ports = cg_rnn_ports },
	[CG_GRAD] = { .name = "rnn_backprop", .tensorflow = "CudnnRNNBackpropV3", NETWORK_CALL, .work = backward_work,
	              .attributes = cg_rnn_backprop_attributes, .ports = cg_rnn_backprop_ports },
};

static int forward(struct cg_stream *stream, const void *given, struct cg_work *work)
{
	const struct cg_rnn_op *op = given;

	return cg_rnn_walk(stream, op->rnn, CG_FORWARD, &op->call, work);
}

static int backward(struct cg_stream *stream, const void *given, struct cg_work *work)
{
	const struct cg_rnn_op *op = given;

	return cg_rnn_walk(stream, op->rnn, CG_GRAD, &op->call, work);
}

/* What the plan was opened with, as the row's attributes and symbols have it. */
static int set_op(struct cg_rnn_op *op)
{
	const struct cg_rnn *rnn = op->rnn;
	size_t bytes = cg_dtype_bytes(rnn->dtype);
	struct cg_net_sizes needs;

	for (int k = 0; cg_rnn_modes[k]; k++)
		if (cg_cell_find(cg_rnn_modes[k]) == rnn->cell)
			op->rnn_mode = k;
	op->cell = rnn->cell;
	op->cell_name = cg_cell_find(cg_rnn_modes[op->rnn_mode]) == rnn->cell ? NULL : rnn->text.cell;
	op->options = *rnn->text.options ? rnn->text.options : NULL;
	op->values_text = *rnn->text.values ? rnn->text.values : NULL;
	op->input_mode = rnn->skip ? CG_SKIP : CG_LINEAR;
	op->direction = rnn->directions - 1;
	op->is_training = rnn->training;
	op->strict_rounding = rnn->strict_rounding;
	op->seed = (int64_t)(rnn->seed >> 32);
	op->seed2 = (int32_t)(uint32_t)rnn->seed;
	op->num_proj = rnn->P;
	op->dropout = rnn->dropout;
	op->L = rnn->layers;
	op->I = rnn->I;
	op->U = rnn->U;
	op->H = rnn->H;
	op->C = rnn->state < 0 ? 0 : rnn->U;
	op->states = (int64_t)rnn->layers * rnn->directions;
	op->wide = rnn->directions * rnn->H;
	op->params = rnn->params;
	op->dtype = rnn->dtype;
	op->time_major = rnn->time_major;
	CG_TRY(cg_rnn_needs(rnn, op->call.T, op->call.B, op->call.lengths, &needs));
	op->reserve = (int64_t)((needs.reserve + bytes - 1) / bytes);
	return CG_OK;
}

int cg_rnn_check_call(struct cg_stream *stream, const struct cg_rnn *rnn, const struct cg_rnn_call *c)
{
	CG_TRY(cg_usable(stream ? stream->context : NULL, "rnn"));
	if (!rnn)
		return REFUSE("plan: missing");
	CG_TRY(cg_sized_check("rnn", "cg_rnn_call", c, sizeof *c));
	if (stream->context != rnn->context)
		return REFUSE("plan: expected one of the stream's context");
	CG_TRY(cg_rnn_check_sizes(rnn, c->T, c->B, c->lengths));
	if (c->first_step < 0 || c->first_step > UINT32_MAX - c->T)
		return REFUSE("first_step: expected 0 to 2^32-1-T, got %lld", (long long)c->first_step);
	if (c->first_step && rnn->directions == 2)
		return REFUSE("first_step: a bidirectional network runs whole sequences: expected 0, got %lld", (long long)c->first_step);
	if (c->spend_reserve != 0 && c->spend_reserve != 1)
		return REFUSE("spend_reserve: expected 0 or 1, got %d", c->spend_reserve);
	return CG_OK;
}

/* Only a cell with a state has a c. */
static int check_states(const struct cg_rnn *rnn, const struct cg_rnn_op *op, const struct cg_op *row)
{
	for (const struct cg_port *p = row->ports; p->name && rnn->state < 0; p++)
		if (strstr(p->name, "put_c") && cg_present(*(const struct cg_mem *)((const char *)op + p->at)))
			return REFUSE("%s: cell %s has no state: expected none", p->name, rnn->cell->name);
	return CG_OK;
}

/* What the reserve keeps in acc must be aligned as acc is: the op table asks for its dtype's alignment alone. */
static int check_alignment(const struct cg_rnn_op *op)
{
	const struct cg_mem *m = &op->call.reserve;
	size_t align = cg_acc_bytes(op->dtype);

	if (m->offset % align)
		return REFUSE("reserve: offset: expected a multiple of %zu, got %zu", align, m->offset);
	if (m->place == CG_HOST && (uintptr_t)m->data % align)
		return REFUSE("reserve: data: expected a multiple of %zu, got %p", align, m->data);
	return CG_OK;
}

/* The op of a call, or why there is none.  Its size is set when it can be read. */
static int make_op(struct cg_stream *stream, const struct cg_rnn *rnn, const struct cg_rnn_call *call, struct cg_rnn_op *op)
{
	CG_TRY(cg_rnn_check_call(stream, rnn, call));
	cg_rnn_op_init(op, sizeof *op);
	memcpy(&op->call, call, sizeof op->call);
	op->call.size = sizeof *op;
	op->rnn = rnn;
	return set_op(op);
}

static int check_forward(const struct cg_rnn *rnn, struct cg_rnn_op *op)
{
	static const struct cg_mem absent = { .bytes = 0 };

	if (!rnn->training)
		op->call.reserve = absent;
	else if (!cg_present(op->call.reserve))
		return REFUSE("reserve: missing: expected %lld %s for training", (long long)op->reserve, cg_dtype_name(rnn->dtype));
	return check_alignment(op);
}

static int check_backward(struct cg_stream *stream, const struct cg_op *row, const struct cg_rnn *rnn, struct cg_rnn_op *op)
{
	static const struct cg_mem absent = { .bytes = 0 };

	if (!rnn->training)
		return cg_fail(CG_UNSUPPORTED, "rnn_backprop: the plan was opened without training");
	op->call.output = op->call.output_h = op->call.output_c = absent;
	if (!cg_present(op->call.reserve))
		return cg_fail(CG_BAD_ARGUMENT, "rnn_backprop: reserve_space: missing: expected [reserve=%lld] %s", (long long)op->reserve,
		               cg_dtype_name(rnn->dtype));
	/* The header is read only where all else is right. */
	CG_TRY(check_alignment(op));
	CG_TRY(cg_op_check(row, op));
	return cg_reserve_check(stream, rnn, &op->call);
}

static int check(struct cg_stream *stream, const struct cg_op *row, const struct cg_rnn *rnn, const struct cg_rnn_call *call, int pass,
                 struct cg_rnn_op *op)
{
	/* The reserve is written last: what asks for its check is judged before the work. */
	CG_TRY(cg_variable_ask(CG_ENV_CHECK, NULL));
	CG_TRY(make_op(stream, rnn, call, op));
	CG_TRY(check_states(rnn, op, row));
	return pass == CG_FORWARD ? check_forward(rnn, op) : check_backward(stream, row, rnn, op);
}

static int run(struct cg_stream *stream, const struct cg_rnn *rnn, const struct cg_rnn_call *call, int pass)
{
	const struct cg_op *row = &rows[pass];
	struct cg_rnn_op op = { .rnn = NULL };
	int code = check(stream, row, rnn, call, pass, &op);

	if (!code)
		return cg_op_run(stream, row, &op, pass == CG_FORWARD ? forward : backward);
	if (cg_is_verbose(stream))
		cg_verbose_op(stream, row, &op, code, 0);
	return code;
}

int cg_rnn_forward(struct cg_stream *stream, const struct cg_rnn *rnn, const struct cg_rnn_call *call)
{
	struct cg_rnn_call whole;

	call = cg_sized_complete(&sized, call, &whole);
	CG_TRY(run(stream, rnn, call, CG_FORWARD));
	return rnn->training ? cg_reserve_write(stream, rnn, call) : CG_OK;
}

int cg_rnn_backward(struct cg_stream *stream, const struct cg_rnn *rnn, const struct cg_rnn_call *call)
{
	struct cg_rnn_call whole;

	return run(stream, rnn, cg_sized_complete(&sized, call, &whole), CG_GRAD);
}
