/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes random sets of rows: any bits but those of floats that a device may flush, odd sizes, gaps between rows, up to 3 elements
 * before the first row, with and without indices. The bytes between and behind the rows must stay as they are.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "runtime/op/op.h"
#include "verify/numbers.h"
#include "verify/sequence.h"
#include "tests/backends/rows_trial.h"

enum { ROWS_MOST = 1200, BYTES = 1 << 20 };

static unsigned long long state;
static unsigned char src[BYTES], dst[BYTES], right[BYTES], got[BYTES];
static int64_t from[ROWS_MOST], to[ROWS_MOST], t[ROWS_MOST], b[ROWS_MOST];

struct trial {
	struct cg_rows rows;
	int src_dtype, dst_dtype;
	int64_t src_rows, dst_rows;
	int has_from, has_to, has_t, has_b;
	int64_t skew[2];                         /* the elements before the first row of src, and of dst */
};

static int below(int n)
{
	return (int)numbers_below(&state, (unsigned)n);
}

#define PICK(list) (list)[below((int)(sizeof (list) / sizeof *(list)))]

/* Returns whether the element is a very small float, which a device may flush. */
static int tiny(int dtype, const void *x)
{
	double d = numbers_decode(dtype, x);

	return (dtype == CG_F32 || dtype == CG_BF16) && d != 0 && fabs(d) < 0x1p-100;
}

static void fill(unsigned char *at, int dtype, int64_t n)
{
	size_t each = cg_dtype_bytes(dtype);

	assert_true((size_t)n * each <= BYTES);
	for (int64_t k = 0; k < n; k++)
		do
			numbers_bits(&state, dtype, at + (size_t)k * each);
		while (tiny(dtype, at + (size_t)k * each));
}

static void draw_indexes(struct trial *c)
{
	for (int64_t p = 0; p < c->rows.rows; p++) {
		from[p] = below((int)c->src_rows);
		t[p] = below(5) ? (int64_t)below(1000) : 0xfffff000;
		b[p] = below(5) ? (int64_t)below(1000) : 0xffffffff;
	}
	/* The rows of dst that are written are distinct: `to` has a permutation of all rows of dst. */
	for (int64_t p = 0; p < c->dst_rows; p++) {
		int64_t other = below((int)p + 1);

		to[p] = to[other];
		to[other] = p;
	}
}

/* Draws the k-th trial. Of 32 trials in turn each has another combination of the dtype, src in the dtype or in that of sums, dst likewise,
   and dropout or none. */
static void draw(struct trial *c, int k, int64_t rows, int64_t columns)
{
	static const double rates[] = { 0.5, 1, 1e-12, 0.3, 0x1p-32, 0.9 };
	static const int64_t units[] = { 0, 1, 2, 3, 4, 513, 0xfffffffeu - 1000 };
	struct cg_rows *r = &c->rows;

	*c = (struct trial){ .rows = { .dtype = k % 4, .rows = rows, .columns = columns } };
	r->src.acc = k >> 2 & 1;
	r->dst.acc = k >> 3 & 1;
	r->add = below(2);
	c->src_dtype = r->src.acc ? numbers_acc(r->dtype) : r->dtype;
	c->dst_dtype = r->dst.acc ? numbers_acc(r->dtype) : r->dtype;
	c->has_from = below(2);
	c->has_to = below(2);
	c->src_rows = c->has_from && rows > 1 ? 1 + below((int)rows + 3) : rows + 1;
	c->dst_rows = rows + below(3);
	r->src.stride = below(8) ? columns + below(4) : 0;
	r->dst.stride = columns + below(4);
	c->skew[0] = below(4);
	c->skew[1] = below(4);
	r->drop.rate = k >> 4 & 1 ? PICK(rates) : 0;
	r->drop.key = (uint64_t)below(1 << 30) << 34 ^ (uint64_t)below(1 << 30);
	r->drop.first_unit = PICK(units);
	r->drop.first_t = below(2) ? below(100) : 0;
	r->drop.batch = 1 + below(40);
	c->has_t = below(2);
	c->has_b = below(2);
	draw_indexes(c);
}

/* Returns the right value of an element, in the dtype of sums, from the values x of src and old of dst. */
static double moved(const struct cg_rows *r, double x, double old, int64_t p, int64_t j, int has_t, int has_b)
{
	const struct cg_drop *d = &r->drop;
	int64_t step = d->first_t + (has_t ? t[p] : p / d->batch), row = has_b ? b[p] : p % d->batch;
	int is_double = numbers_acc(r->dtype) == CG_F64;

	if (d->rate > 0 && ref_dropout_drops(ref_dropout_word(d->key, step, row, d->first_unit + j), d->rate))
		x = 0;
	else if (d->rate > 0)
		x = is_double ? x * (1 / (1 - d->rate)) : (double)((float)x * (float)(1 / (1 - d->rate)));
	if (r->add)
		x = is_double ? old + x : (double)((float)old + (float)x);
	return x;
}

static void expect(const struct trial *c, size_t dst_bytes)
{
	const struct cg_rows *r = &c->rows;
	size_t src_each = cg_dtype_bytes(c->src_dtype), dst_each = cg_dtype_bytes(c->dst_dtype);

	memcpy(right, dst, dst_bytes);
	for (int64_t p = 0; p < r->rows; p++)
		for (int64_t j = 0; j < r->columns; j++) {
			int64_t i = (c->has_from ? from[p] : p) * r->src.stride + j, o = (c->has_to ? to[p] : p) * r->dst.stride + j;
			void *at = right + (size_t)(o + c->skew[1]) * dst_each;
			double x = numbers_decode(c->src_dtype, src + (size_t)(i + c->skew[0]) * src_each);

			x = moved(r, x, numbers_decode(c->dst_dtype, at), p, j, c->has_t, c->has_b);
			numbers_encode(c->dst_dtype, isfinite(x) ? cg_round(c->dst_dtype, x) : x, at);
		}
}

static struct cg_mem lend(struct cg_stream *stream, const void *from_host, size_t bytes, size_t skew)
{
	struct cg_mem mem;

	assert_int_equal(cg_alloc(stream->context, bytes + 8, &mem), CG_OK);
	assert_int_equal(cg_put(stream, mem, from_host, bytes), CG_OK);
	mem.offset = skew;
	mem.bytes -= skew;
	return mem;
}

static struct cg_mem lend_indexes(struct cg_stream *stream, int present, const int64_t *list, int64_t n)
{
	return present && n ? lend(stream, list, (size_t)n * sizeof *list, 0) : (struct cg_mem){ .data = NULL };
}

static void compare(const struct trial *c, int64_t n, int k)
{
	size_t each = cg_dtype_bytes(c->dst_dtype);
	const struct cg_rows *r = &c->rows;

	for (int64_t i = 0; i < n; i++)
		if (!numbers_same(c->dst_dtype, got + (size_t)i * each, right + (size_t)i * each))
			fail_msg("trial %d: %s%s%s [%lld %lld] rate %g add %d, from %d to %d t %d b %d, unit %lld: element %lld: expected %.9g, "
			         "got %.9g", k, cg_dtype_name(r->dtype), r->src.acc ? " src acc" : "", r->dst.acc ? " dst acc" : "",
			         (long long)r->rows, (long long)r->columns, r->drop.rate, r->add, c->has_from, c->has_to, c->has_t, c->has_b,
			         (long long)r->drop.first_unit, (long long)i, numbers_decode(c->dst_dtype, right + (size_t)i * each),
			         numbers_decode(c->dst_dtype, got + (size_t)i * each));
}

static int run(struct cg_stream *stream, struct trial *c, int k)
{
	struct cg_rows *r = &c->rows;
	int64_t src_n = c->src_rows * (r->columns + 3) + c->skew[0], dst_n = c->dst_rows * r->dst.stride + c->skew[1] + 4;
	size_t src_each = cg_dtype_bytes(c->src_dtype), dst_each = cg_dtype_bytes(c->dst_dtype);
	struct cg_mem *lent[] = { &r->src.mem, &r->dst.mem, &r->from, &r->to, &r->drop.t, &r->drop.b };
	struct cg_mem whole;
	int code;

	fill(src, c->src_dtype, src_n);
	fill(dst, c->dst_dtype, dst_n);
	expect(c, (size_t)dst_n * dst_each);
	r->src.mem = lend(stream, src, (size_t)src_n * src_each, (size_t)c->skew[0] * src_each);
	r->dst.mem = lend(stream, dst, (size_t)dst_n * dst_each, (size_t)c->skew[1] * dst_each);
	r->from = lend_indexes(stream, c->has_from, from, r->rows);
	r->to = lend_indexes(stream, c->has_to, to, r->rows);
	r->drop.t = lend_indexes(stream, c->has_t, t, r->rows);
	r->drop.b = lend_indexes(stream, c->has_b, b, r->rows);
	code = cg_copy_rows(stream, r);
	whole = r->dst.mem;
	whole.offset = 0;
	whole.bytes = (size_t)dst_n * dst_each;
	if (!code) {
		assert_int_equal(cg_get(stream, got, whole, whole.bytes), CG_OK);
		compare(c, dst_n, k);
	}
	for (size_t m = 0; m < sizeof lent / sizeof *lent; m++)
		cg_free(stream->context, lent[m]);
	return code;
}

void rows_try(struct cg_stream *stream, int trials)
{
	static const int64_t rows[] = { 0, 1, 2, 3, 17, 70 }, columns[] = { 0, 1, 2, 3, 4, 5, 7, 8, 16, 63, 255, 256, 257, 600 };
	struct trial c;

	state = 1;
	for (int k = 0; k < trials; k++) {
		draw(&c, k, PICK(rows), PICK(columns));
		if (run(stream, &c, k))
			fail_msg("trial %d: %s", k, cg_message());
	}
	/* Runs trials with so many rows that threads of the cpu share them, and that a GPU runs many work-groups. */
	for (int k = 0; k < 32; k++) {
		draw(&c, k, 1100, 70);
		if (run(stream, &c, k))
			fail_msg("1100 rows: trial %d: %s", k, cg_message());
	}
}

int rows_once(struct cg_stream *stream, int dtype)
{
	struct trial c;

	state = 2;
	draw(&c, dtype, 5, 7);
	return run(stream, &c, 0);
}
