/*
 * What can be said of any op from its row: its shapes, what it needs, whether its arguments can be worked on.
 * The rows and the work are in the ops' own files; no op is named here.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/op/op.h"
#include "runtime/core/core.h"

enum {
	DIMS  = 12,                      /* of a row at most, as are */
	PORTS = 32,                      /* without lists */
};

/* ---- words ---- */

/* "op: argument: words", the form of nearly all that is said here. */
#define REFUSE(row, argument, words, ...) \
	cg_fail(CG_BAD_ARGUMENT, "%s: %s: " words, (row)->name, argument, __VA_ARGS__)

/* A shape is put together piece by piece. */

struct text { size_t n; char s[256]; };

__attribute__((format(printf, 2, 3)))
static const char *add(struct text *t, const char *format, ...)
{
	va_list list;
	int n;

	va_start(list, format);
	n = vsnprintf(t->s + t->n, sizeof t->s - t->n, format, list);
	va_end(list);
	if (n > 0)
		t->n = t->n + (size_t)n < sizeof t->s ? t->n + (size_t)n : sizeof t->s - 1;
	return t->s;
}

/* ---- fields of the op's struct ---- */

static const struct cg_mem *mem(const void *op, size_t at)
{
	return (const struct cg_mem *)((const char *)op + at);
}

static int integer(const void *op, size_t at)
{
	return *(const int *)((const char *)op + at);
}

static int present(const struct cg_mem *m)
{
	return m->data || m->offset || m->bytes || m->place;
}

static void sizes(const struct cg_op *row, const void *op, int64_t size[DIMS])
{
	int i;

	for (i = 0; row->dims[i].symbol; i++)
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

/* ---- shapes: dimensions separated by blanks, each a sum of SYMBOL or NUMBER*SYMBOL ---- */

/* One dimension: known + factor * the symbol that is not bound yet. */
struct sum {
	int64_t known, factor;
	int     open, symbol;            /* symbols not bound, and the last of them */
	int     overflow;
	int     length;                  /* of its text */
};

/* Words are of a few letters, and read in every call: a loop here costs less than strcspn and its like. */
static size_t word_length(const char *s, char end)
{
	size_t n = 0;

	while (s[n] && s[n] != ' ' && s[n] != end)
		n++;
	return n;
}

static int is(const char *name, const char *word, size_t length)
{
	size_t k = 0;

	while (k < length && name[k] == word[k])
		k++;
	return k == length && !name[k];
}

static int find(const struct cg_op *row, const char *symbol, size_t length)
{
	int i;

	for (i = 0; row->dims[i].symbol; i++)
		if (is(row->dims[i].symbol, symbol, length))
			return i;
	return -1;                       /* a test reads every row, so that this does not happen */
}

/* Reads the dimension at s and returns where the next begins. */
static const char *dimension(const struct cg_op *row, const int64_t *size, unsigned bound, const char *s,
                             struct sum *sum)
{
	const char *start = s;

	memset(sum, 0, sizeof *sum);
	for (;; s++) {
		int64_t factor = 1, term;
		size_t length;
		int symbol;

		if (*s >= '0' && *s <= '9')
			for (factor = 0; *s != '*'; s++)
				factor = 10 * factor + (*s - '0');
		s += *s == '*';
		length = word_length(s, '+');
		symbol = find(row, s, length);
		if (symbol >= 0 && bound >> symbol & 1) {
			sum->overflow |= __builtin_mul_overflow(factor, size[symbol], &term)
			              || __builtin_add_overflow(sum->known, term, &sum->known);
		} else {
			sum->open++;
			sum->symbol = symbol;
			sum->factor = factor;
		}
		s += length;
		if (*s != '+')
			break;
	}
	sum->length = (int)(s - start);
	while (*s == ' ')
		s++;
	return s;
}

const char *cg_op_shape_text(const struct cg_op *row, const struct cg_port *port, const void *op, char room[CG_SHAPE_TEXT])
{
	const char *s = port->shape;
	size_t first = word_length(s, ' '), second, rest;

	if (!row->time_major_at || integer(op, row->time_major_at) || !s[first])
		return s;
	second = word_length(s + first + 1, ' ');
	rest = first + 1 + second;
	if (!s[rest] || strlen(s) >= CG_SHAPE_TEXT)
		return s;
	snprintf(room, CG_SHAPE_TEXT, "%.*s %.*s%s", (int)second, s + first + 1, (int)first, s, s + rest);
	return room;
}

/* "[I+U=7, 4*U=16]": a dimension that is not known, or too large to be said, goes without its value. */
static const char *expected(const struct cg_op *row, const struct cg_port *port, const void *op, const int64_t *size, unsigned bound,
                            struct text *t)
{
	char shape[CG_SHAPE_TEXT];
	const char *start = cg_op_shape_text(row, port, op, shape), *s, *next;
	struct sum sum;

	t->n = 0;
	add(t, "[");
	for (s = start; *s; s = next) {
		next = dimension(row, size, bound, s, &sum);
		add(t, "%s%.*s", s == start ? "" : ", ", sum.length, s);
		if (!sum.open && !sum.overflow)
			add(t, "=%lld", (long long)sum.known);
	}
	return add(t, "]");
}

static int misfit(const struct cg_op *row, const struct cg_port *port, const void *op, const int64_t *size, unsigned bound,
                  const int64_t *shape, int rank)
{
	struct text want, got = { 0 };
	int d;

	add(&got, "[");
	for (d = 0; d < rank && d < 8; d++)
		add(&got, "%s%lld", d ? ", " : "", (long long)shape[d]);
	add(&got, d < rank ? ", ...]" : "]");
	return REFUSE(row, port->name, "expected %s, got %s", expected(row, port, op, size, bound, &want), got.s);
}

static int too_large(const struct cg_op *row, const struct cg_port *port, const void *op)
{
	const uint64_t most = SIZE_MAX;
	int64_t size[DIMS];
	struct text t;

	sizes(row, op, size);
	return REFUSE(row, port->name, "%s %s is more than %llu bytes", expected(row, port, op, size, ~0u, &t),
	              cg_op_type_name(row, port, op),
	              (unsigned long long)(most < INT64_MAX ? most : INT64_MAX));
}

int cg_op_shape(const struct cg_op *row, const struct cg_port *port, const void *op, int64_t shape[CG_RANK])
{
	char text[CG_SHAPE_TEXT];
	const char *s = cg_op_shape_text(row, port, op, text);
	int64_t size[DIMS];
	struct sum sum;
	int rank;

	sizes(row, op, size);
	for (rank = 0; *s && rank < CG_RANK; rank++) {
		s = dimension(row, size, ~0u, s, &sum);
		if (sum.overflow)
			return too_large(row, port, op);
		shape[rank] = sum.known;
	}
	return rank;
}

int cg_op_bytes(const struct cg_op *row, const struct cg_port *port, const void *op, size_t *bytes)
{
	int64_t shape[CG_RANK], n = (int64_t)cg_op_type_bytes(row, port, op);
	int rank = cg_op_shape(row, port, op, shape), d;

	if (rank < 0)
		return rank;
	for (d = 0; d < rank; d++)
		if (__builtin_mul_overflow(n, shape[d], &n))
			return too_large(row, port, op);
	return __builtin_add_overflow(n, 0, bytes) ? too_large(row, port, op) : CG_OK;
}

int cg_op_bind(const struct cg_op *row, const struct cg_port *port, void *op, unsigned *bound, const int64_t *shape,
               int rank)
{
	unsigned now = *bound;
	char text[CG_SHAPE_TEXT];
	const char *s = cg_op_shape_text(row, port, op, text);
	int64_t size[DIMS];
	struct sum sum;
	int d, i;

	sizes(row, op, size);
	for (d = 0; *s && d < rank; d++) {
		int64_t rest;

		s = dimension(row, size, now, s, &sum);
		if (sum.open > 1 || (sum.open && row->dims[sum.symbol].flags & CG_SETTLED))
			continue;
		if (sum.overflow || shape[d] < sum.known)
			break;
		rest = shape[d] - sum.known;
		if (sum.open ? rest % sum.factor : rest)
			break;
		if (sum.open) {
			size[sum.symbol] = rest / sum.factor;
			now |= 1u << sum.symbol;
		}
	}
	if (*s || d < rank) {
		sizes(row, op, size);
		return misfit(row, port, op, size, *bound, shape, rank);
	}
	for (i = 0; row->dims[i].symbol; i++)
		*(int64_t *)((char *)op + row->dims[i].at) = size[i];
	*bound = now;
	return CG_OK;
}

int64_t cg_op_steps(const struct cg_op *row, const void *op, int64_t T)
{
	int64_t steps = row->steps_at ? *(const int64_t *)(const void *)((const char *)op + row->steps_at) : -1;

	return steps < 0 ? T : steps;
}

/* ---- what is needed ---- */

int cg_op_wants(const struct cg_op *row, const void *op)
{
	const struct cg_port *p;

	for (p = row->ports; p->name; p++)
		if (p->flow != CG_IN && present(mem(op, p->at)))
			return 1;
	return 0;
}

/* Is the output wanted, or the attribute on? */
static int on(const struct cg_op *row, const void *op, const char *word, size_t length)
{
	const struct cg_attribute *a;
	const struct cg_port *p;

	for (p = row->ports; p->name; p++)
		if (is(p->name, word, length))
			return present(mem(op, p->at));
	for (a = row->attributes; a->name; a++)
		if (is(a->name, word, length))
			return integer(op, a->at) != 0;
	return 0;
}

int cg_op_needs(const struct cg_op *row, const struct cg_port *port, const void *op)
{
	const char *s = port->need;
	size_t length;

	if (port->flow != CG_IN || !cg_op_wants(row, op))
		return 0;
	if (!s)
		return 1;
	for (; *s; s += length + (s[length] == ' ')) {
		length = word_length(s, ' ');
		if (on(row, op, s, length))
			return 1;
	}
	return 0;
}

/* ---- checks, in the order in which a caller fills the struct ---- */

static int check_dtype(const struct cg_op *row, const void *op)
{
	int dtype = integer(op, row->dtype_at), i;
	struct text t = { 0 };

	if (cg_dtype_bytes(dtype))
		return CG_OK;
	for (i = 0; cg_dtype_bytes(i); i++)
		add(&t, " %s=%d", cg_dtype_name(i), i);
	return REFUSE(row, "dtype", "expected one of%s, got %d", t.s, dtype);
}

static int check_dims(const struct cg_op *row, const void *op)
{
	int64_t size[DIMS];
	int i;

	sizes(row, op, size);
	for (i = 0; row->dims[i].symbol; i++) {
		const struct cg_dim *d = &row->dims[i];

		if (d->only && size[i] != d->least)
			return cg_fail(CG_UNSUPPORTED, "%s: %s: expected %lld, got %lld: %s", row->name, d->symbol,
			               (long long)d->least, (long long)size[i], d->only);
		if (size[i] < d->least)
			return REFUSE(row, d->symbol, "expected at least %lld, got %lld", (long long)d->least,
			              (long long)size[i]);
	}
	return CG_OK;
}

static int check_attributes(const struct cg_op *row, const void *op)
{
	const struct cg_attribute accumulate = { .name = "accumulate", .kind = CG_BOOL, .at = row->accumulate_at }, *a;

	for (a = row->attributes; a->name; a++)
		CG_TRY(cg_attribute_check(row, a, op, 0));
	CG_TRY(cg_attribute_check(row, &accumulate, op, 0));
	if (row->gates_at) {
		int gates = integer(op, row->gates_at);

		if (gates != CG_ICFO && gates != CG_IFCO)
			return REFUSE(row, "gates", "expected CG_ICFO=%d or CG_IFCO=%d, got %d", CG_ICFO, CG_IFCO,
			              gates);
	}
	return CG_OK;
}

/* What holds for any memory that is present, whatever it is for. */
static int check_memory(const struct cg_op *row, const char *name, const struct cg_mem *m, size_t align)
{
	uintptr_t start = m->place == CG_HOST ? (uintptr_t)m->data : 0, end;

	if (m->place != CG_HOST && m->place != CG_DEVICE)
		return REFUSE(row, name, "place: expected CG_HOST=%d or CG_DEVICE=%d, got %d", CG_HOST, CG_DEVICE,
		              m->place);
	if (!m->data && m->bytes)
		return REFUSE(row, name, "data: expected %zu bytes, got NULL", m->bytes);
	if (m->offset % align)
		return REFUSE(row, name, "offset: expected a multiple of %zu, got %zu", align, m->offset);
	if (start % align)
		return REFUSE(row, name, "data: expected a multiple of %zu, got %p", align, m->data);
	if (__builtin_add_overflow(start, m->offset, &end) || __builtin_add_overflow(end, m->bytes, &end))
		return REFUSE(row, name, "offset %zu and %zu bytes go beyond the end of memory", m->offset,
		              m->bytes);
	return CG_OK;
}

/*
 * Memory of another size than the argument's is a mistake in a size more often than not, and would be computed with.  An empty argument
 * may have memory of any size, and so may a reserve, whose size is this library's to say, from its own on.
 */
static int check_bytes(const struct cg_op *row, const struct cg_port *port, const void *op, size_t got, size_t want)
{
	const char *type = cg_op_type_name(row, port, op);
	int64_t size[DIMS];
	struct text t;

	if (got == want || (got > want && (!want || port->flags & CG_OPAQUE)))
		return CG_OK;
	sizes(row, op, size);
	expected(row, port, op, size, ~0u, &t);
	if (got < want)
		return REFUSE(row, port->name, "expected %s %s, %zu bytes, got %zu bytes", t.s, type, want, got);
	return REFUSE(row, port->name, "expected %s %s, %zu bytes, got %zu bytes; of a larger piece of memory, shorten bytes to %zu", t.s, type,
	              want, got, want);
}

/* The bytes that are touched: of memory that is larger than its argument, the rest may be another's. */
struct range { const char *name; const struct cg_mem *mem; size_t bytes; int written; };

static int check_port(const struct cg_op *row, const struct cg_port *port, const void *op, struct range *range)
{
	const struct cg_mem *m = mem(op, port->at);
	const char *type = cg_op_type_name(row, port, op);
	int64_t size[DIMS];
	struct text t;
	size_t bytes = 0;

	CG_TRY(cg_op_bytes(row, port, op, &bytes));
	*range = (struct range){ port->name, m, present(m) ? bytes : 0, port->flow != CG_IN };
	sizes(row, op, size);
	if (!present(m)) {
		if (!bytes || !cg_op_needs(row, port, op))
			return CG_OK;
		return REFUSE(row, port->name, "missing: expected %s %s", expected(row, port, op, size, ~0u, &t),
		              type);
	}
	CG_TRY(check_memory(row, port->name, m, cg_op_type_bytes(row, port, op)));
	return check_bytes(row, port, op, m->bytes, bytes);
}

static int check_work(const struct cg_op *row, const void *op, struct range *range)
{
	const struct cg_mem *m = mem(op, row->work_at);
	size_t bytes = 0;

	if (present(m)) {
		CG_TRY(row->work(op, &bytes));
		CG_TRY(check_memory(row, "work", m, sizeof(double)));    /* the largest that may be kept there */
		if (m->bytes < bytes)
			return REFUSE(row, "work", "expected at least %zu bytes, got %zu bytes", bytes, m->bytes);
	}
	*range = (struct range){ "work", m, bytes, 1 };
	return CG_OK;
}

/* Bytes that two ranges share.  A device's handle need not be an address: only ranges of one can be compared. */
static size_t shared(const struct range *a, const struct range *b)
{
	int host = a->mem->place == CG_HOST && b->mem->place == CG_HOST;
	uintptr_t p = a->mem->offset, q = b->mem->offset, first, end;

	if (host) {
		p += (uintptr_t)a->mem->data;
		q += (uintptr_t)b->mem->data;
	} else if (a->mem->data != b->mem->data) {
		return 0;
	}
	first = p > q ? p : q;
	end = p + a->bytes < q + b->bytes ? p + a->bytes : q + b->bytes;
	return end > first ? (size_t)(end - first) : 0;
}

/* Inputs may share memory with each other; what is written shares with nothing. */
static int check_overlap(const struct cg_op *row, const struct range *ranges, int n)
{
	size_t bytes;
	int i, j;

	for (i = 0; i < n; i++)
		for (j = 0; ranges[i].written && j < i; j++)
			if ((bytes = shared(&ranges[i], &ranges[j])))
				return REFUSE(row, ranges[i].name, "overlaps %s by %zu bytes", ranges[j].name,
				              bytes);
	return CG_OK;
}

static int check_arguments(const struct cg_op *row, const void *op, struct range *ranges)
{
	int n;

	for (n = 0; row->ports[n].name; n++)
		CG_TRY(check_port(row, &row->ports[n], op, &ranges[n]));
	CG_TRY(check_work(row, op, &ranges[n++]));
	return check_overlap(row, ranges, n);
}

int cg_op_check(const struct cg_op *row, const void *op)
{
	struct range few[PORTS + 1], *many = NULL;
	int n = 0, code;

	CG_TRY(cg_sized_check(row->name, row->type, op, row->size));
	CG_TRY(check_dtype(row, op));
	CG_TRY(check_dims(row, op));
	CG_TRY(check_attributes(row, op));
	while (row->ports[n].name)
		n++;
	if (n > PORTS && !(many = cg_memory(NULL, ((size_t)n + 1) * sizeof *many)))
		return CG_NO_MEMORY;
	code = check_arguments(row, op, many ? many : few);
	cg_memory(many, 0);
	return code;
}
