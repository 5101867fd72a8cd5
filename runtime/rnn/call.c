/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls of networks: checks a call by its row, which is like a row of the op table, and runs the call on its route.  reserve.c writes and
 * checks the header of the reserve space.
 */
#include <string.h>

#include "runtime/core/environment.h"
#include "runtime/op/run.h"
#include "runtime/rnn/op_rows.h"

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

int cg_rnn_call_sizes(const struct cg_rnn *rnn, const struct cg_rnn_call *given, struct cg_rnn_sizes *sizes)
{
	struct cg_rnn_call whole, call;

	if (!rnn || !sizes)
		return cg_fail(CG_BAD_ARGUMENT, "cg_rnn_call_sizes: %s: expected a pointer, got NULL", rnn ? "sizes" : "rnn");
	given = cg_sized_complete(&sized, given, &whole);
	CG_TRY(cg_sized_check("cg_rnn_call_sizes", "cg_rnn_call", given, sizeof *given));
	call = *given;
	call.work = (struct cg_mem){ .bytes = 0 };
	return cg_rnn_measure_sizes(rnn, &call, sizes);
}

/* ---- rows of the op table ---- */

static int forward_work(const void *op, size_t *bytes)
{
	*bytes = ((const struct cg_rnn_op *)op)->shape->bytes.forward;
	return CG_OK;
}

static int backward_work(const void *op, size_t *bytes)
{
	*bytes = ((const struct cg_rnn_op *)op)->shape->bytes.backward;
	return CG_OK;
}

const char *cg_rnn_op_route(const void *given)
{
	const struct cg_rnn_op *op = given;

	return cg_rnn_route_at(op->rnn, op->call.T);
}

/* Rows like those of the op table, but for cg_rnn_forward() and cg_rnn_backward(): by pass, one row for cells with at most one cell state
 * and one for all cells.  By its row a call is checked, its workspace is measured, and its verbose line is written. */
#define NETWORK_CALL \
	RNN_STRUCT, .dims = cg_rnn_dims, .reads = cg_rnn_op_reads, .route = cg_rnn_op_route, .time_major_at = RNN(time_major), \
	.states_major_at = RNN(states_major), .spacing = cg_rnn_op_spacing
#define FORWARD  .name = "rnn", .tensorflow = "CudnnRNNV3", NETWORK_CALL, .work = forward_work, .attributes = cg_rnn_attributes
#define BACKWARD .name = "rnn_backprop", .tensorflow = "CudnnRNNBackpropV3", NETWORK_CALL, .work = backward_work, \
	.attributes = cg_rnn_backprop_attributes
enum { FEW, ALL };
static const struct cg_op rows[][2] = {
	[CG_FORWARD] = { [FEW] = { FORWARD, .ports = cg_rnn_ports }, [ALL] = { FORWARD, .ports = cg_rnn_all_ports } },
	[CG_GRAD] = { [FEW] = { BACKWARD, .ports = cg_rnn_backprop_ports }, [ALL] = { BACKWARD, .ports = cg_rnn_backprop_all_ports } },
};

static const struct cg_op *row_of(const struct cg_rnn *rnn, int pass)
{
	return &rows[pass][rnn && rnn->n_states > 1 ? ALL : FEW];
}

/* ---- checks ---- */

int cg_rnn_check_call(struct cg_stream *stream, const struct cg_rnn *rnn, int pass, const struct cg_rnn_call *c,
                      struct cg_rnn_shape *shape)
{
	CG_TRY(cg_context_check(stream ? stream->context : NULL, "rnn"));
	if (!rnn)
		return REFUSE("plan: expected a struct cg_rnn, got NULL");
	CG_TRY(cg_sized_check("rnn", "cg_rnn_call", c, sizeof *c));
	if (stream->context != rnn->context)
		return REFUSE("plan: expected a plan of the stream's context, got one of another context");
	CG_TRY(cg_rnn_measure(rnn, pass, c, shape));
	if (c->first_step < 0 || c->first_step > UINT32_MAX - c->T)
		return REFUSE("first_step: expected 0 to 2^32-1-T, got %lld", (long long)c->first_step);
	if (c->first_step && rnn->net.directions == 2)
		return REFUSE("first_step: a bidirectional network runs whole sequences: expected 0, got %lld", (long long)c->first_step);
	if (c->spend_reserve != 0 && c->spend_reserve != 1)
		return REFUSE("spend_reserve: expected 0 or 1, got %d", c->spend_reserve);
	if (c->no_dropout != 0 && c->no_dropout != 1)
		return REFUSE("no_dropout: expected 0 or 1, got %d", c->no_dropout);
	/* At dropout rate 1 the vendor's library makes no masks, so no_dropout is allowed. */
	if (c->no_dropout && shape->is_vendors && rnn->net.allow_vendor_dropout && cg_rnn_drops(rnn) && rnn->net.dropout < 1)
		return cg_fail(CG_UNSUPPORTED, "rnn: no_dropout: expected 0 on route %s with allow_vendor_dropout: the vendor's "
		               "library makes the masks, and no call can go without them",
		               rnn->route);
	return CG_OK;
}

/* Does the call have an argument of a cell's second to fourth state? */
static int has_more_states(const struct cg_rnn_call *c)
{
	int any = 0;

	for (int k = 0; k < CG_STATES_MAX - 1; k++)
		any |= cg_present(c->input_s[k]) | cg_present(c->output_s[k]) | cg_present(c->output_s_backprop[k]) | cg_present(c->input_s_backprop[k]);
	return any;
}

static int check_states(const struct cg_rnn *rnn, const struct cg_rnn_op *op, const struct cg_op *row)
{
	if (rnn->n_states && !has_more_states(&op->call))
		return CG_OK;
	for (const struct cg_port *p = row->ports; p->name; p++) {
		int state = p->flags & CG_OF_STATE ? 1 : p->state;

		if (state <= rnn->n_states || !cg_present(*(const struct cg_mem *)((const char *)op + p->at)))
			continue;
		if (!rnn->n_states)
			return REFUSE("%s: expected absent memory, since cell %s has no cell state", p->name, rnn->net.cell->name);
		return REFUSE("%s: expected absent memory, since cell %s has %d cell state%s", p->name, rnn->net.cell->name, rnn->n_states,
		              rnn->n_states > 1 ? "s" : "");
	}
	return CG_OK;
}

/* Checks that the reserve space is aligned for acc, since it holds values in acc; cg_op_check() checks by the call's row only the alignment
 * for the dtype. */
static int check_alignment(const struct cg_rnn_op *op)
{
	const struct cg_mem *m = &op->call.reserve;
	size_t align = cg_acc_bytes(op->dtype);

	if (m->offset % align)
		return REFUSE("reserve: cg_mem.offset: expected a multiple of %zu bytes, got %zu", align, m->offset);
	if (m->place == CG_HOST && (uintptr_t)m->data % align)
		return REFUSE("reserve: cg_mem.data: expected an address that is a multiple of %zu, got %p", align, m->data);
	return CG_OK;
}

static int check_reserve(const struct cg_rnn *rnn, const struct cg_rnn_op *op, int pass)
{
	const char *dtype = cg_dtype_name(rnn->net.dtype);

	if (!rnn->net.training && pass == CG_GRAD)
		return cg_fail(CG_UNSUPPORTED, "rnn_backprop: expected a plan that was opened with training=1, got one with training=0");
	if (!rnn->net.training || cg_present(op->call.reserve))
		return check_alignment(op);
	if (pass == CG_FORWARD)
		return REFUSE("reserve: missing: expected %lld elements of %s, which this forward call writes, since its plan has training=1",
		              (long long)op->reserve, dtype);
	return cg_fail(CG_BAD_ARGUMENT, "rnn_backprop: reserve_space: missing: expected [reserve=%lld] %s", (long long)op->reserve,
	               dtype);
}

/* ---- calls ---- */

/* The state of a call from its checks to its end. */
struct call {
	struct cg_op_call run;
	struct cg_rnn_shape shape;
	/* the op struct of the call, which the call's row describes; op.call.size is 0 until the fields are set */
	struct cg_rnn_op op;
	/* storage for the call of a program that was compiled against an earlier header, completed by the missing fields */
	struct cg_rnn_call whole;
	const struct cg_rnn_call *given;
};

static void make_op(struct call *c, const struct cg_rnn *rnn)
{
	c->op = rnn->op;
	memcpy(&c->op.call, c->given, sizeof c->op.call);
	c->op.call.size = sizeof c->op;
	c->op.shape = &c->shape;
	c->op.reserve = cg_rnn_reserve_elements(rnn, &c->shape);
}

/* Makes those arguments of the call's row absent that the pass neither reads nor writes. */
static void leave_out(struct cg_rnn_call *call, const struct cg_rnn *rnn, int pass)
{
	static const struct cg_mem absent = { .bytes = 0 };

	if (pass == CG_GRAD)
		call->output = call->output_h = call->output_c = call->output_s[0] = call->output_s[1] = call->output_s[2] = absent;
	else if (!rnn->net.training)
		call->reserve = absent;
}

static int check(struct call *c, const struct cg_rnn *rnn, int pass)
{
	struct cg_stream *stream = c->run.stream;

	/* A wrong value of CELLGRAD_CHECK is refused before the computation, not first when the header of the reserve space is written. */
	CG_TRY(cg_variable_read(CG_ENV_CHECK, NULL));
	CG_TRY(cg_rnn_check_call(stream, rnn, pass, c->given, &c->shape));
	make_op(c, rnn);
	CG_TRY(check_states(rnn, &c->op, &rows[pass][ALL]));
	leave_out(&c->op.call, rnn, pass);
	CG_TRY(check_reserve(rnn, &c->op, pass));
	CG_TRY(cg_op_check(row_of(rnn, pass), &c->op));
	/* The header of the reserve space is read only after all checks above have passed. */
	return pass == CG_GRAD ? cg_reserve_check(stream, rnn, &c->op.call, &c->shape) : CG_OK;
}

static int begin(struct call *c, struct cg_stream *stream, const struct cg_rnn *rnn, int pass, const struct cg_rnn_call *given)
{
	c->given = cg_sized_complete(&sized, given, &c->whole);
	c->op.call.size = 0;
	cg_op_begin(&c->run, stream, row_of(rnn, pass), &c->op);
	CG_TRY(check(c, rnn, pass));
	return cg_op_open(&c->run);
}

int cg_rnn_forward(struct cg_stream *stream, const struct cg_rnn *rnn, const struct cg_rnn_call *given)
{
	struct call c;
	int code = begin(&c, stream, rnn, CG_FORWARD, given);

	if (!code && c.run.op)
		code = cg_rnn_run(stream, rnn, CG_FORWARD, c.run.op, &c.shape, c.run.work);
	CG_TRY(cg_op_close(&c.run, code));
	return rnn->net.training ? cg_reserve_write(stream, rnn, c.given, &c.shape) : CG_OK;
}

int cg_rnn_backward(struct cg_stream *stream, const struct cg_rnn *rnn, const struct cg_rnn_call *given)
{
	struct call c;
	int code = begin(&c, stream, rnn, CG_GRAD, given);

	if (!code && c.run.op)
		code = cg_rnn_run(stream, rnn, CG_GRAD, c.run.op, &c.shape, c.run.work);
	return cg_op_close(&c.run, code);
}
