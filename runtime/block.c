/*
 * What the block ops share: parts of memory, the work memory of a call, and the rounding of scalars.
 */
#include <math.h>
#include <string.h>

#include "runtime/backend.h"
#include "runtime/op.h"

enum { ALIGN = 64 };

int cg_present(struct cg_mem mem)
{
	return mem.data != NULL;
}

struct cg_mem cg_part(struct cg_mem mem, size_t offset, size_t bytes)
{
	if (!mem.data)
		return mem;
	mem.offset += offset;
	mem.bytes = bytes;
	return mem;
}

struct cg_mem cg_work_take(struct cg_work *work, int64_t rows, int64_t columns, size_t bytes)
{
	struct cg_mem part;

	bytes *= (size_t)rows * (size_t)columns;
	part = cg_part(work->mem, work->used, bytes);
	work->used += (bytes + ALIGN - 1) / ALIGN * ALIGN;
	return part;
}

static int run(struct cg_stream *stream, const struct cg_op *row, const void *op,
               int (*body)(struct cg_stream *, const void *op, struct cg_work *))
{
	struct cg_work work = { .used = 0 };
	size_t bytes;

	CG_TRY(cg_usable(stream ? stream->context : NULL, row->name));
	CG_TRY(cg_op_check(row, op));
	if (!cg_op_wants(row, op))
		return CG_OK;
	memcpy(&work.mem, (const char *)op + row->work_at, sizeof work.mem);
	CG_TRY(row->work(op, &bytes));
	if (!cg_present(work.mem))
		CG_TRY(cg_stream_scratch(stream, bytes, &work.mem));
	return body(stream, op, &work);
}

int cg_block_run(struct cg_stream *stream, const char *name, const void *op,
                 int (*body)(struct cg_stream *, const void *op, struct cg_work *))
{
	const struct cg_op *row = cg_op_find(name, NULL);
	double start;
	int code;

	if (!cg_is_verbose(stream))
		return run(stream, row, op, body);
	start = cg_milliseconds();
	code = run(stream, row, op, body);
	cg_verbose_op(stream, row, op, code, cg_milliseconds() - start);
	return code;
}

size_t cg_acc_bytes(int dtype)
{
	return dtype == CG_F64 ? 8 : 4;
}

double cg_round(int dtype, double x)
{
	/* Bits of the fraction with the hidden one, and the exponents of the smallest and just beyond the largest number. */
	static const struct { int bits, lowest, beyond; } forms[] = {
		[CG_F32] = { 24, -149, 128 }, [CG_F64] = { 53, -1074, 1024 }, [CG_F16] = { 11, -24, 16 }, [CG_BF16] = { 8, -133, 128 }
	};
	int exponent, unit;
	double rounded;

	if (dtype == CG_F64 || !isfinite(x) || x == 0)
		return x;
	frexp(x, &exponent);
	unit = exponent - forms[dtype].bits;
	if (unit < forms[dtype].lowest)
		unit = forms[dtype].lowest;
	rounded = ldexp(nearbyint(ldexp(x, -unit)), unit);
	return fabs(rounded) >= ldexp(1, forms[dtype].beyond) ? copysign(INFINITY, x) : rounded;
}
