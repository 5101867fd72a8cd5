/*
 * How an op runs: its checks, its workspace, and copies of host arguments where the device does not reach them.
 */
#include <string.h>

#include "runtime/device/device.h"
#include "runtime/op/op.h"

enum { OP_BYTES = 4096 };                /* of an op's struct at most: a test reads the rows */

static struct cg_mem *mem_at(void *op, size_t at)
{
	return (struct cg_mem *)(void *)((char *)op + at);
}

/* What only the device can say of its memory. */
static int check_memory(struct cg_context *context, const struct cg_op *row, const void *op)
{
	for (const struct cg_port *port = row->ports; port->name; port++)
		CG_TRY(cg_memory_check(context, row->name, port->name, *(const struct cg_mem *)((const char *)op + port->at)));
	return cg_memory_check(context, row->name, "work", *(const struct cg_mem *)((const char *)op + row->work_at));
}

/* On a device that does not reach the host's memory: what is there is copied, there and back. */
static int run_staged(struct cg_stream *stream, const struct cg_op *row, const void *given, size_t bytes,
                      int (*body)(struct cg_stream *, const void *op, struct cg_work *))
{
	int accumulate = *(const int *)((const char *)given + row->accumulate_at), given_work;
	union { size_t size; char room[OP_BYTES]; } op;
	struct cg_work work = { .used = 0 };
	struct cg_stage stage;
	struct cg_mem own;

	memcpy(op.room, given, row->size);
	cg_stage_begin(&stage, stream);
	for (const struct cg_port *port = row->ports; port->name; port++) {
		struct cg_mem *mem = mem_at(op.room, port->at);
		size_t n;

		if (!cg_present(*mem) || mem->place == CG_DEVICE)
			continue;
		CG_TRY(cg_op_bytes(row, port, op.room, &n));
		cg_stage_add(&stage, mem, 1, n, n, port->flow == CG_IN || (port->flow == CG_OUT_SUM && accumulate),
		             port->flow != CG_IN);
	}
	work.mem = *mem_at(op.room, row->work_at);
	given_work = cg_present(work.mem) && work.mem.place == CG_DEVICE;
	CG_TRY(cg_stage_open(&stage, given_work ? 0 : bytes, &own));
	if (!given_work)
		work.mem = own;
	return cg_stage_close(&stage, body(stream, op.room, &work));
}

static int run(struct cg_stream *stream, const struct cg_op *row, const void *op,
               int (*body)(struct cg_stream *, const void *op, struct cg_work *))
{
	struct cg_work work = { .used = 0 };
	const struct cg_backend *backend;
	size_t bytes;

	CG_TRY(cg_usable(stream ? stream->context : NULL, row->name));
	CG_TRY(cg_op_check(row, op));
	if (!cg_op_wants(row, op))
		return CG_OK;
	backend = stream->context->backend;
	if (backend->supports(stream->context->device, *(const int *)((const char *)op + row->dtype_at)))
		return cg_fail_in(CG_UNSUPPORTED, "%s", row->name);
	CG_TRY(check_memory(stream->context, row, op));
	CG_TRY(row->work(op, &bytes));
	if (!backend->host)
		return run_staged(stream, row, op, bytes, body);
	memcpy(&work.mem, (const char *)op + row->work_at, sizeof work.mem);
	if (!cg_present(work.mem))
		CG_TRY(cg_stream_scratch(stream, bytes, &work.mem));
	return body(stream, op, &work);
}

int cg_op_run(struct cg_stream *stream, const struct cg_op *row, const void *op,
              int (*body)(struct cg_stream *, const void *op, struct cg_work *))
{
	double start;
	int code;

	if (!cg_is_verbose(stream))
		return run(stream, row, op, body);
	start = cg_milliseconds();
	code = run(stream, row, op, body);
	cg_verbose_op(stream, row, op, code, cg_milliseconds() - start);
	return code;
}
