/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs an op: checks, workspace, and copies of host arguments for a device that cannot read host memory.
 */
#include <string.h>

#include "runtime/op/run.h"

static const struct cg_mem *mem(const void *op, size_t at)
{
	return (const struct cg_mem *)((const char *)op + at);
}

/* Checks the op's arguments and workspace that are in device memory, which only the backend can check. */
static int check_memory(struct cg_context *context, const struct cg_op *row, const void *op)
{
	for (const struct cg_port *port = row->ports; port->name; port++)
		CG_TRY(cg_memory_check(context, row->name, port->name, *mem(op, port->at)));
	return cg_memory_check(context, row->name, "work", *mem(op, row->work_at));
}

/* Gets the layout of an argument's rows; the copy of the argument on the device has the same layout. */
static int get_rows(const struct cg_op *row, const struct cg_port *port, const void *op, struct cg_staged_rows *lie)
{
	const size_t each = cg_op_type_bytes(row, port, op);
	struct cg_spacing s;
	size_t bytes;

	if (row->spacing && row->spacing(port, op, &s)) {
		const size_t outer = (size_t)s.of[0].stride * each, inner = (size_t)s.of[1].stride * each;

		*lie = (struct cg_staged_rows){ .blocks = { s.of[0].n, outer, outer }, .rows = { s.of[1].n, inner, inner },
		                                .bytes = (size_t)s.width * each };
		return CG_OK;
	}
	CG_TRY(cg_op_bytes(row, port, op, &bytes));
	*lie = (struct cg_staged_rows){ .blocks = { 1, bytes, bytes }, .rows = { 1, bytes, bytes }, .bytes = bytes };
	return CG_OK;
}

/* Opens a call on a device that cannot read host memory: stages the host arguments. */
static int open_staged(struct cg_op_call *c)
{
	const struct cg_op *row = c->row;
	int accumulate = *(const int *)((const char *)c->given + row->accumulate_at), has_work;
	struct cg_mem own;
	size_t bytes;

	CG_TRY(row->work(c->given, &bytes));
	memcpy(c->staged.bytes, c->given, row->size);
	cg_staging_begin(&c->stage, c->stream);
	for (const struct cg_port *port = row->ports; port->name; port++) {
		struct cg_mem *m = (struct cg_mem *)(void *)(c->staged.bytes + port->at);
		struct cg_staged_rows lie;

		if (!cg_present(*m) || m->place == CG_DEVICE)
			continue;
		CG_TRY(get_rows(row, port, c->given, &lie));
		cg_staging_add(&c->stage, m, lie, port->flow == CG_IN || (port->flow == CG_OUT_SUM && accumulate), port->flow != CG_IN);
	}
	has_work = cg_present(c->work) && c->work.place == CG_DEVICE;
	CG_TRY(cg_staging_open(&c->stage, has_work ? 0 : bytes, &own));
	if (!has_work)
		c->work = own;
	c->is_staged = 1;
	c->op = c->staged.bytes;
	return CG_OK;
}

static int open_on_host(struct cg_op_call *c)
{
	size_t bytes;

	if (!cg_present(c->work)) {
		CG_TRY(c->row->work(c->given, &bytes));
		CG_TRY(cg_stream_get_scratch(c->stream, bytes, &c->work));
	}
	c->op = c->given;
	return CG_OK;
}

void cg_op_begin(struct cg_op_call *c, struct cg_stream *stream, const struct cg_op *row, const void *given)
{
	c->stream = stream;
	c->row = row;
	c->given = given;
	c->op = NULL;
	c->is_staged = 0;
	c->start = cg_is_verbose(stream) ? cg_milliseconds() : 0;
}

int cg_op_open(struct cg_op_call *c)
{
	const struct cg_backend *backend = c->stream->context->backend;
	const struct cg_op *row = c->row;

	if (!cg_op_has_output(row, c->given))
		return CG_OK;
	if (backend->supports(c->stream->context->device, *(const int *)((const char *)c->given + row->dtype_at)))
		return cg_fail_in(CG_UNSUPPORTED, "%s", row->name);
	CG_TRY(check_memory(c->stream->context, row, c->given));
	c->work = *mem(c->given, row->work_at);
	return backend->host ? open_on_host(c) : open_staged(c);
}

int cg_op_close(struct cg_op_call *c, int code)
{
	if (c->is_staged)
		code = cg_staging_close(&c->stage, code);
	if (cg_is_verbose(c->stream))
		cg_verbose_print_op(c->stream, c->row, c->given, code, cg_milliseconds() - c->start);
	return code;
}

static int open(struct cg_op_call *c)
{
	CG_TRY(cg_context_check(c->stream ? c->stream->context : NULL, c->row->name));
	CG_TRY(cg_op_check(c->row, c->given));
	return cg_op_open(c);
}

int cg_op_run(struct cg_stream *stream, const struct cg_op *row, const void *op,
              int (*body)(struct cg_stream *, const void *op, struct cg_work *))
{
	struct cg_op_call c;
	int code;

	cg_op_begin(&c, stream, row, op);
	code = open(&c);
	if (!code && c.op) {
		struct cg_work work = { .mem = c.work };

		code = body(stream, c.op, &work);
	}
	return cg_op_close(&c, code);
}
