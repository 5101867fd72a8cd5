/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks the arguments of any op by its row, before any computation.  Rows and functions are in the ops' own files; this file names no op.
 */
#include "runtime/core/core.h"
#include "runtime/op/shape.h"

/* Fails with "op: argument: what is wrong", the form of nearly all messages of this file. */
#define REFUSE(row, argument, expected, ...) \
	cg_fail(CG_BAD_ARGUMENT, "%s: %s: " expected, (row)->name, argument, __VA_ARGS__)

/*
 * The range of an argument's bytes that a call reads or writes; memory beyond the argument's rows may belong to another argument.  A handle
 * of device memory need not be an address, so that ranges in device memory are compared only if they have the same handle.
 */
struct range { const struct cg_port *port; const char *name; const void *data; uintptr_t first, end; int is_host, written; };

/* The state of a check: at most one range of bytes for each argument, and one for the workspace. */
struct check {
	const struct cg_op *row;
	const void *op;
	int64_t size[CG_DIMS_MAX];
	int has_output, n;
	struct range *ranges;
};

static const struct cg_mem *mem(const void *op, size_t at)
{
	return (const struct cg_mem *)((const char *)op + at);
}

static int integer(const void *op, size_t at)
{
	return *(const int *)((const char *)op + at);
}

/* ---- the checks, in the order in which a caller fills the struct ---- */

static int check_dtype(const struct cg_op *row, const void *op)
{
	int dtype = integer(op, row->dtype_at);
	char all[CG_SHAPE_LINE] = "";

	if (cg_dtype_bytes(dtype))
		return CG_OK;
	for (int i = 0; cg_dtype_bytes(i); i++)
		cg_line_add(all, sizeof all, " %s=%d", cg_dtype_name(i), i);
	return REFUSE(row, "dtype", "expected one of%s, got %d", all, dtype);
}

static int check_dims(const struct check *c)
{
	for (int i = 0; c->row->dims[i].symbol; i++) {
		const struct cg_dim *d = &c->row->dims[i];
		long long size = c->size[i], least = d->least;

		if (d->only && size != least)
			return cg_fail(CG_UNSUPPORTED, "%s: %s: expected a size of %lld, got %lld: %s", c->row->name, d->symbol, least, size,
			               d->only);
		if (size < least)
			return REFUSE(c->row, d->symbol, "expected at least %lld, got %lld", least, size);
	}
	return CG_OK;
}

static int check_attributes(const struct cg_op *row, const void *op)
{
	const struct cg_attribute accumulate = { .name = "accumulate", .kind = CG_BOOL, .at = row->accumulate_at };
	int gates = row->gates_at ? integer(op, row->gates_at) : CG_ICFO;

	for (const struct cg_attribute *a = row->attributes; a->name; a++)
		CG_TRY(cg_attribute_check(row, a, op, 0));
	CG_TRY(cg_attribute_check(row, &accumulate, op, 0));
	if (gates != CG_ICFO && gates != CG_IFCO)
		return REFUSE(row, "gates", "expected CG_ICFO=%d or CG_IFCO=%d, got %d", CG_ICFO, CG_IFCO, gates);
	return CG_OK;
}

/* Checks the fields of a cg_mem that is given: place, data, alignment, end. */
static int check_memory(const struct cg_op *row, const char *name, const struct cg_mem *m, size_t align)
{
	uintptr_t start = m->place == CG_HOST ? (uintptr_t)m->data : 0, end;

	if (m->place != CG_HOST && m->place != CG_DEVICE)
		return REFUSE(row, name, "cg_mem.place: expected CG_HOST=%d or CG_DEVICE=%d, got %d", CG_HOST, CG_DEVICE,
		              m->place);
	if (!m->data && m->bytes)
		return REFUSE(row, name, "cg_mem.data: expected memory of %zu bytes, got NULL", m->bytes);
	if (m->offset & (align - 1))             /* align is a power of two */
		return REFUSE(row, name, "cg_mem.offset: expected a multiple of %zu bytes, got %zu", align, m->offset);
	if (start & (align - 1))
		return REFUSE(row, name, "cg_mem.data: expected an address that is a multiple of %zu, got %p", align, m->data);
	if (__builtin_add_overflow(start, m->offset, &end) || __builtin_add_overflow(end, m->bytes, &end))
		return REFUSE(row, name, "cg_mem: expected memory that ends within the address space, got offset %zu and %zu bytes", m->offset,
		              m->bytes);
	return CG_OK;
}

/*
 * Memory must have exactly the size of its argument, since any other size most likely means that T, B or another size is wrong.  Only the
 * memory of an empty argument may have any size, and that of an argument with flag CG_OPAQUE, such as a reserve space, may be larger.
 */
static int check_bytes(const struct check *c, const struct cg_port *port, size_t got, size_t want)
{
	char text[CG_SHAPE_LINE];
	const char *type, *shape;

	if (got == want || (got > want && (!want || port->flags & CG_OPAQUE)))
		return CG_OK;
	type = cg_op_type_name(c->row, port, c->op);
	shape = cg_shape_format(c->row, port, c->op, c->size, text);
	if (got < want)
		return REFUSE(c->row, port->name, "expected %s %s, %zu bytes, got %zu bytes", shape, type, want, got);
	return REFUSE(c->row, port->name, "expected %s %s, %zu bytes, got %zu bytes; if the buffer is larger, shorten bytes to %zu",
	              shape, type, want, got, want);
}

static void add_range(struct check *c, const struct cg_port *port, const char *name, const struct cg_mem *m, size_t bytes, int written)
{
	uintptr_t first = (uintptr_t)m->data + m->offset;

	if (bytes)
		c->ranges[c->n++] = (struct range){ port, name, m->data, first, first + bytes, m->place == CG_HOST, written };
}

static int check_port(struct check *c, const struct cg_port *port)
{
	const struct cg_mem *m = mem(c->op, port->at);
	struct cg_reading storage;
	const struct cg_reading *reading = cg_find_reading(c->row, port, &storage);
	char text[CG_SHAPE_LINE];
	size_t each = cg_op_type_bytes(c->row, port, c->op), bytes;

	CG_TRY(cg_reading_bytes(c->row, port, reading, each, c->op, c->size, &bytes));
	if (!cg_is_given(m)) {
		if (!bytes || !c->has_output || !cg_reading_needs(c->row, reading, c->op))
			return CG_OK;
		return REFUSE(c->row, port->name, "missing: expected %s %s", cg_shape_format(c->row, port, c->op, c->size, text),
		              cg_op_type_name(c->row, port, c->op));
	}
	CG_TRY(check_memory(c->row, port->name, m, each));
	add_range(c, port, port->name, m, bytes, port->flow != CG_IN);
	return check_bytes(c, port, m->bytes, bytes);
}

static int check_work(struct check *c)
{
	const struct cg_mem *m = mem(c->op, c->row->work_at);
	size_t bytes;

	if (!cg_is_given(m))
		return CG_OK;
	CG_TRY(c->row->work(c->op, &bytes));
	/* The workspace must be aligned for double, the largest type that may be stored in it. */
	CG_TRY(check_memory(c->row, "work", m, sizeof(double)));
	if (m->bytes < bytes)
		return REFUSE(c->row, "work", "expected at least %zu bytes, got %zu bytes", bytes, m->bytes);
	add_range(c, NULL, "work", m, bytes, 1);
	return CG_OK;
}

static size_t count_shared(const struct range *a, const struct range *b)
{
	uintptr_t first = a->first > b->first ? a->first : b->first, end = a->end < b->end ? a->end : b->end;

	return end > first && ((a->is_host && b->is_host) || a->data == b->data) ? (size_t)(end - first) : 0;
}

/* ---- rows that are not dense ---- */

/* A range as blocks of bytes; each block begins a multiple of `stride` bytes after the first.  With two strides, `stride` is their greatest
 * common divisor; if `stride` is 0, there is one block. */
struct blocks { uint64_t stride, bytes; };

/* inner 1: each row is a block; 0: all rows within one step of the larger stride, with the gaps between them, are a block. */
static struct blocks blocks_of(const struct check *c, const struct range *r, int inner)
{
	const size_t each = r->port ? cg_op_type_bytes(c->row, r->port, c->op) : 1;
	struct cg_spacing s;
	uint64_t outer_stride, inner_stride;

	if (!r->port || !c->row->spacing || !c->row->spacing(r->port, c->op, &s))
		return (struct blocks){ 0, r->end - r->first };
	outer_stride = s.of[0].n > 1 ? (uint64_t)s.of[0].stride * each : 0;
	inner_stride = s.of[1].n > 1 ? (uint64_t)s.of[1].stride * each : 0;
	if (inner)
		return (struct blocks){ cg_common_divisor(outer_stride, inner_stride), (uint64_t)s.width * each };
	return (struct blocks){ outer_stride, (uint64_t)(s.of[1].n - 1) * inner_stride + (uint64_t)s.width * each };
}

/* Are the ranges interleaved without an overlap?  Taken modulo a common divisor of all strides, the
 * addresses of each range are one block of bytes. */
static int lie_between(const struct check *c, const struct range *a, const struct range *b, int inner)
{
	const struct blocks x = blocks_of(c, a, inner), y = blocks_of(c, b, inner);
	const uint64_t stride = cg_common_divisor(x.stride, y.stride);
	uint64_t from_a;

	if (!stride || x.bytes + y.bytes > stride)
		return 0;
	from_a = (b->first + (stride - a->first % stride)) % stride;
	return from_a >= x.bytes && from_a + y.bytes <= stride;
}

/* Checks that the rows of a written argument do not overlap each other. */
static int check_own_rows(const struct check *c, const struct range *r)
{
	struct cg_spacing s;

	if (!r->written || !r->port || !c->row->spacing || !c->row->spacing(r->port, c->op, &s))
		return CG_OK;
	if ((s.of[1].n > 1 && s.of[1].stride < s.width) ||
	    (s.of[0].n > 1 && s.of[0].stride < (s.of[1].n - 1) * s.of[1].stride + s.width))
		return REFUSE(c->row, r->name, "its rows overlap: expected one stride of at least %lld, the width of a row, and another of at "
		              "least %lld, the span of the rows with the first stride, got strides of %lld and %lld", (long long)s.width,
		              (long long)((s.of[1].n - 1) * s.of[1].stride + s.width),
		              (long long)s.of[1].stride, (long long)s.of[0].stride);
	return CG_OK;
}

/* Checks that written arguments share memory with no other argument.  Inputs may share memory with each other. */
static int check_overlap(const struct check *c)
{
	for (const struct range *a = c->ranges; a < c->ranges + c->n; a++) {
		CG_TRY(check_own_rows(c, a));
		for (const struct range *b = c->ranges; a->written && b < a; b++)
			if (count_shared(a, b) && !lie_between(c, a, b, 1) && !lie_between(c, a, b, 0))
				return REFUSE(c->row, a->name, "the range of its memory overlaps that of %s by %zu bytes", b->name, count_shared(a, b));
	}
	return CG_OK;
}

static int check_arguments(struct check *c)
{
	for (const struct cg_port *port = c->row->ports; port->name; port++)
		CG_TRY(check_port(c, port));
	CG_TRY(check_work(c));
	return check_overlap(c);
}

int cg_op_check(const struct cg_op *row, const void *op)
{
	struct range few[CG_PORTS_MAX + 1], *many = NULL;
	struct check c = { .row = row, .op = op, .ranges = few };
	int n = 0, code;

	CG_TRY(cg_sized_check(row->name, row->type, op, row->size));
	CG_TRY(check_dtype(row, op));
	cg_sizes_read(row, op, c.size);
	CG_TRY(check_dims(&c));
	CG_TRY(check_attributes(row, op));
	while (row->ports[n].name)
		n++;
	if (n > CG_PORTS_MAX && !(c.ranges = many = cg_memory(NULL, ((size_t)n + 1) * sizeof *many)))
		return CG_NO_MEMORY;
	c.has_output = cg_op_has_output(row, op);
	code = check_arguments(&c);
	cg_memory(many, 0);
	return code;
}
