/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shapes and needs of a row's ports.  A shape is a list of dimensions separated by blanks, each a sum of SYMBOL or NUMBER*SYMBOL; a need is
 * a list of names of outputs and attributes.  The result of parsing a text is stored at the first use, if the text's row has storage for
 * it.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/core/core.h"
#include "runtime/op/shape.h"

/* ---- fields of the op's struct ---- */

static int integer(const void *op, size_t at)
{
	return *(const int *)((const char *)op + at);
}

static int present(const void *op, size_t at)
{
	return cg_is_given((const struct cg_mem *)((const char *)op + at));
}

void cg_sizes_read(const struct cg_op *row, const void *op, int64_t size[CG_DIMS_MAX])
{
	for (int i = 0; row->dims[i].symbol; i++)
		size[i] = *(const int64_t *)((const char *)op + row->dims[i].at);
}

/* ---- elements ---- */

static const struct { const char *name; size_t bytes; } integers[] = {
	[CG_INT8] = { "int8", 1 }, [CG_INT32] = { "int32", 4 }, [CG_INT64] = { "int64", 8 }
};

int cg_op_type(const struct cg_op *row, const struct cg_port *port, const void *op)
{
	if (port->type != CG_INT_S)
		return port->type;
	for (const struct cg_attribute *a = row->attributes; a->name; a++)
		if (!strcmp(a->name, "S") && integer(op, a->at))
			return CG_INT64;
	return CG_INT32;
}

const char *cg_op_type_name(const struct cg_op *row, const struct cg_port *port, const void *op)
{
	int type = cg_op_type(row, port, op);

	return type == CG_REAL_TYPE ? cg_dtype_name(integer(op, row->dtype_at)) : integers[type].name;
}

size_t cg_op_type_bytes(const struct cg_op *row, const struct cg_port *port, const void *op)
{
	int type = cg_op_type(row, port, op);

	return type == CG_REAL_TYPE ? cg_dtype_bytes(integer(op, row->dtype_at)) : integers[type].bytes;
}

/* ---- parsing a text ---- */

size_t cg_word_length(const char *s, char end)
{
	size_t n = 0;

	while (s[n] && s[n] != ' ' && s[n] != end)
		n++;
	return n;
}

int cg_word_is(const char *name, const char *word, size_t length)
{
	return !strncmp(name, word, length) && !name[length];
}

int cg_size_find(const struct cg_op *row, const char *symbol, size_t length)
{
	for (int i = 0; row->dims[i].symbol; i++)
		if (cg_word_is(row->dims[i].symbol, symbol, length))
			return i;
	return -1;
}

/* Parses the dimension at s and returns its end. */
static const char *read_dimension(const struct cg_op *row, const char *s, struct cg_dimension *d)
{
	for (d->n = 0;; s++) {
		struct cg_multiple *of = &d->of[d->n++];
		size_t length;

		of->factor = 1;
		if (*s >= '0' && *s <= '9')
			for (of->factor = 0; *s != '*'; s++)
				of->factor = (short)(10 * of->factor + (*s - '0'));
		s += *s == '*';
		length = cg_word_length(s, '+');
		of->dim = (short)cg_size_find(row, s, length);
		s += length;
		/* the dimension ends here; a test of all rows checks that no dimension has more than CG_MULTIPLES_MAX terms */
		if (*s != '+' || d->n == CG_MULTIPLES_MAX)
			return s;
	}
}

static void read_shape(const struct cg_op *row, const char *text, struct cg_reading *reading)
{
	const char *s = text;

	reading->is_states = cg_word_is("L*D", text, cg_word_length(text, ' '));
	for (reading->rank = 0; *s && reading->rank < CG_RANK; reading->rank++) {
		struct cg_dimension *d = &reading->dimensions[reading->rank];
		const char *end = read_dimension(row, s, d);

		d->at = (unsigned char)(s - text);
		d->length = (unsigned char)(end - s);
		for (s = end; *s == ' ';)
			s++;
	}
}

static void read_name(const struct cg_op *row, const char *word, size_t length, struct cg_reading *reading)
{
	for (int k = 0; row->ports[k].name; k++)
		if (cg_word_is(row->ports[k].name, word, length)) {
			reading->outputs |= (uint64_t)1 << k;
			return;
		}
	for (int k = 0; row->attributes[k].name; k++)
		if (cg_word_is(row->attributes[k].name, word, length))
			reading->switches |= (uint64_t)1 << k;
}

static void read_need(const struct cg_op *row, const struct cg_port *port, struct cg_reading *reading)
{
	const char *s = port->need;
	size_t length;

	reading->outputs = reading->switches = 0;
	reading->always = port->flow == CG_IN && !s;
	for (; port->flow == CG_IN && s && *s; s += length + (s[length] == ' ')) {
		length = cg_word_length(s, ' ');
		read_name(row, s, length, reading);
	}
}

const struct cg_reading *cg_read_port(const struct cg_op *row, const struct cg_port *port, struct cg_reading *storage)
{
	struct cg_reading *cached = row->readings ? &row->readings[port - row->ports] : NULL, *to = storage;

	if (cached && cg_read_first(&cached->state))
		to = cached;
	read_shape(row, port->shape, to);
	read_need(row, port, to);
	if (to == cached)
		cg_read_done(&cached->state);
	return to;
}

/* Does a shape keep its first two dimensions in the written order although the op is not time-major? */
static int keeps_order(const struct cg_op *row, const struct cg_reading *reading, const void *op)
{
	return row->states_major_at && integer(op, row->states_major_at) && reading->is_states;
}

/* Finds the k-th dimension of a shape, as the sum of symbols that the shape states, not as a number.  If the op is not
 * time-major, the first two of three are exchanged, unless the shape keeps its order. */
static const struct cg_dimension *dimension_of(const struct cg_op *row, const struct cg_reading *reading, const void *op, int k)
{
	int turned = reading->rank == 3 && k < 2 && row->time_major_at && !integer(op, row->time_major_at) && !keeps_order(row, reading, op);

	return &reading->dimensions[turned ? 1 - k : k];
}

const char *cg_op_shape_text(const struct cg_op *row, const struct cg_port *port, const void *op, char text[CG_SHAPE_TEXT])
{
	struct cg_reading storage;
	const struct cg_reading *reading = cg_find_reading(row, port, &storage);

	text[0] = '\0';
	for (int k = 0; k < reading->rank; k++) {
		const struct cg_dimension *d = dimension_of(row, reading, op, k);

		cg_line_add(text, CG_SHAPE_TEXT, "%s%.*s", k ? " " : "", d->length, port->shape + d->at);
	}
	return text;
}

/* ---- computing with a shape ---- */

/* The value of one dimension: known + factor * the size of the symbol that has no value yet. */
struct sum {
	int64_t known, factor;
	int     open, symbol;            /* open: the number of symbols that have no value yet; symbol: the last of them */
	int     overflow;
};

static struct sum add_up(const struct cg_dimension *d, const int64_t *size, unsigned bound)
{
	struct sum sum = { .known = 0 };

	for (int k = 0; k < d->n; k++) {
		const struct cg_multiple *of = &d->of[k];
		int64_t term;

		if (of->dim >= 0 && bound >> of->dim & 1) {
			sum.overflow |= __builtin_mul_overflow(of->factor, size[of->dim], &term) ||
			                __builtin_add_overflow(sum.known, term, &sum.known);
		} else {
			sum.open++;
			sum.symbol = of->dim;
			sum.factor = of->factor;
		}
	}
	return sum;
}

/* Writes the shape with its values, "[I+U=7, 4*U=16]"; a value that is unknown or too large is left out. */
static const char *append_shape(const struct cg_op *row, const struct cg_port *port, const void *op, const int64_t *size, unsigned bound,
                                char text[CG_SHAPE_LINE])
{
	struct cg_reading storage;
	const struct cg_reading *reading = cg_find_reading(row, port, &storage);

	strcpy(text, "[");
	for (int k = 0; k < reading->rank; k++) {
		const struct cg_dimension *d = dimension_of(row, reading, op, k);
		struct sum sum = add_up(d, size, bound);

		cg_line_add(text, CG_SHAPE_LINE, "%s%.*s", k ? ", " : "", d->length, port->shape + d->at);
		if (!sum.open && !sum.overflow)
			cg_line_add(text, CG_SHAPE_LINE, "=%lld", (long long)sum.known);
	}
	cg_line_add(text, CG_SHAPE_LINE, "]");
	return text;
}

const char *cg_shape_format(const struct cg_op *row, const struct cg_port *port, const void *op, const int64_t *size,
                            char text[CG_SHAPE_LINE])
{
	struct cg_spacing s;

	if (!row->spacing || !row->spacing(port, op, &s))
		return append_shape(row, port, op, size, ~0u, text);
	text[0] = '\0';
	if (s.is_packed) {
		const char *width = strrchr(port->shape, ' ') + 1;

		cg_line_add(text, CG_SHAPE_LINE, "[N=%lld, %s=%lld]", (long long)s.of[0].n, width, (long long)s.width);
		return text;
	}
	append_shape(row, port, op, size, ~0u, text);
	cg_line_add(text, CG_SHAPE_LINE, " of strides %lld and %lld", (long long)s.of[0].stride, (long long)s.of[1].stride);
	return text;
}

static int too_large(const struct cg_op *row, const struct cg_port *port, const void *op, const int64_t *size)
{
	const uint64_t most = SIZE_MAX;
	char want[CG_SHAPE_LINE];

	return cg_fail(CG_BAD_ARGUMENT, "%s: %s: %s %s is more than %llu bytes", row->name, port->name,
	               cg_shape_format(row, port, op, size, want), cg_op_type_name(row, port, op),
	               (unsigned long long)(most < INT64_MAX ? most : INT64_MAX));
}

int cg_op_shape(const struct cg_op *row, const struct cg_port *port, const void *op, int64_t dimensions[CG_RANK])
{
	struct cg_reading storage;
	const struct cg_reading *reading = cg_find_reading(row, port, &storage);
	int64_t size[CG_DIMS_MAX];

	cg_sizes_read(row, op, size);
	for (int k = 0; k < reading->rank; k++) {
		struct sum sum = add_up(dimension_of(row, reading, op, k), size, ~0u);

		if (sum.overflow)
			return too_large(row, port, op, size);
		dimensions[k] = sum.known;
	}
	return reading->rank;
}

/* Computes the bytes from the start of the first row to the end of the last; returns 1 on overflow. */
static int span_bytes(const struct cg_spacing *s, size_t each, size_t *bytes)
{
	int64_t outer, inner, span;

	*bytes = 0;
	if (!s->of[0].n || !s->of[1].n)
		return 0;
	return __builtin_mul_overflow(s->of[0].n - 1, s->of[0].stride, &outer) ||
	       __builtin_mul_overflow(s->of[1].n - 1, s->of[1].stride, &inner) ||
	       __builtin_add_overflow(outer, inner, &span) || __builtin_add_overflow(span, s->width, &span) ||
	       __builtin_mul_overflow(span, (int64_t)each, &span) || __builtin_add_overflow(span, 0, bytes);
}

int cg_reading_bytes(const struct cg_op *row, const struct cg_port *port, const struct cg_reading *reading, size_t each, const void *op,
                     const int64_t *size, size_t *bytes)
{
	int64_t n = (int64_t)each;
	int overflow = 0;
	struct cg_spacing s;

	if (row->spacing && row->spacing(port, op, &s))
		return span_bytes(&s, each, bytes) ? too_large(row, port, op, size) : CG_OK;
	/* This loop does not call add_up(), since every call of an op computes the bytes of each of its arguments and has to be fast.  The
	 * number of bytes does not depend on the order of the dimensions. */
	for (const struct cg_dimension *d = reading->dimensions; d < reading->dimensions + reading->rank; d++) {
		int64_t sum = 0, term;

		for (const struct cg_multiple *of = d->of; of < d->of + d->n; of++)
			overflow |= __builtin_mul_overflow(of->factor, size[of->dim], &term) || __builtin_add_overflow(sum, term, &sum);
		overflow |= __builtin_mul_overflow(n, sum, &n);
	}
	return overflow || __builtin_add_overflow(n, 0, bytes) ? too_large(row, port, op, size) : CG_OK;
}

int cg_op_bytes(const struct cg_op *row, const struct cg_port *port, const void *op, size_t *bytes)
{
	struct cg_reading storage;
	int64_t size[CG_DIMS_MAX];

	cg_sizes_read(row, op, size);
	return cg_reading_bytes(row, port, cg_find_reading(row, port, &storage), cg_op_type_bytes(row, port, op), op, size, bytes);
}

/* ---- sizes from a shape ---- */

static int misfit(const struct cg_op *row, const struct cg_port *port, const void *op, unsigned bound, const int64_t *got, int rank)
{
	char want[CG_SHAPE_LINE], text[CG_SHAPE_LINE] = "[";
	int64_t size[CG_DIMS_MAX];
	int d;

	cg_sizes_read(row, op, size);
	for (d = 0; d < rank && d < 8; d++)
		cg_line_add(text, sizeof text, "%s%lld", d ? ", " : "", (long long)got[d]);
	cg_line_add(text, sizeof text, d < rank ? ", ...]" : "]");
	return cg_fail(CG_BAD_ARGUMENT, "%s: %s: expected %s, got %s", row->name, port->name,
	               append_shape(row, port, op, size, bound, want), text);
}

/* Sets the unknown symbol of a dimension whose value is `got`; returns 0 if the value does not fit. */
static int bind_dimension(const struct cg_op *row, const struct cg_dimension *d, int64_t got, int64_t *size, unsigned *bound)
{
	struct sum sum = add_up(d, size, *bound);
	int64_t rest;

	if (sum.open > 1 || (sum.open && row->dims[sum.symbol].flags & CG_INFERRED))
		return 1;
	if (sum.overflow || got < sum.known)
		return 0;
	rest = got - sum.known;
	if (!sum.open)
		return !rest;
	if (rest % sum.factor)
		return 0;
	size[sum.symbol] = rest / sum.factor;
	*bound |= 1u << sum.symbol;
	return 1;
}

int cg_op_bind(const struct cg_op *row, const struct cg_port *port, void *op, unsigned *bound, const int64_t *got, int rank)
{
	struct cg_reading storage;
	const struct cg_reading *reading = cg_find_reading(row, port, &storage);
	int64_t size[CG_DIMS_MAX];
	unsigned now = *bound;
	int d = 0;

	cg_sizes_read(row, op, size);
	while (d < reading->rank && d < rank && bind_dimension(row, dimension_of(row, reading, op, d), got[d], size, &now))
		d++;
	if (d < reading->rank || d < rank)
		return misfit(row, port, op, *bound, got, rank);
	for (int i = 0; row->dims[i].symbol; i++)
		*(int64_t *)((char *)op + row->dims[i].at) = size[i];
	*bound = now;
	return CG_OK;
}

int64_t cg_op_steps(const struct cg_op *row, const void *op, int64_t T)
{
	int64_t steps = row->steps_at ? *(const int64_t *)(const void *)((const char *)op + row->steps_at) : -1;

	return steps < 0 ? T : steps;
}

/* ---- required arguments ---- */

int cg_op_has_output(const struct cg_op *row, const void *op)
{
	for (const struct cg_port *p = row->ports; p->name; p++)
		if (p->flow != CG_IN && present(op, p->at))
			return 1;
	return 0;
}

int cg_reading_needs(const struct cg_op *row, const struct cg_reading *reading, const void *op)
{
	if (reading->always)
		return 1;
	for (uint64_t left = reading->outputs; left; left &= left - 1)
		if (present(op, row->ports[__builtin_ctzll(left)].at))
			return 1;
	for (uint64_t left = reading->switches; left; left &= left - 1)
		if (integer(op, row->attributes[__builtin_ctzll(left)].at))
			return 1;
	return 0;
}

int cg_op_needs(const struct cg_op *row, const struct cg_port *port, const void *op)
{
	struct cg_reading storage;

	return cg_op_has_output(row, op) && cg_reading_needs(row, cg_find_reading(row, port, &storage), op);
}
