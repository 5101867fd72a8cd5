/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests moves of rows that the cuda backend makes in one launch: rows whose bits are copied, zeros, gathered and scattered rows, and
 * dropout of elements, in random mixtures of sizes; the number of launches; and each call of the driver or the compiler failing in turn.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "backends/cuda/cuda.h"
#include "runtime/op/op.h"
#include "verify/numbers.h"
#include "verify/sequence.h"
#include "tests/help/counted.h"
#include "tests/backends/cuda/cuda_watch.h"

enum { TRIALS = 160, MOST = 70, ROWS_MOST = 100, BYTES = 1 << 20 };

static unsigned long long state;
static unsigned char src[BYTES], dst[BYTES], right[BYTES], got[BYTES];
static int64_t from[MOST][ROWS_MOST], to[MOST][ROWS_MOST], t[ROWS_MOST], b[ROWS_MOST];

/* A move; src, dst: the offsets in elements at which the move reads and writes. */
struct part {
	int64_t rows, columns, src, dst;
	int is_zero, has_from, has_to, drop;
	uint64_t key;
};

struct trial {
	struct cg_queue *queue;
	int dtype, n, has_t, has_b;
	struct part parts[MOST];
	struct cg_cu_moves moves;
	struct cg_mem src, dst, from, to, t, b;
	size_t bytes;                            /* the bytes of dst that are compared: up to the last row that any move writes, and more */
};

static int below(int n)
{
	return (int)numbers_below(&state, (unsigned)n);
}

#define PICK(list) (list)[below((int)(sizeof (list) / sizeof *(list)))]

/* ---- what is moved ---- */

/* Draws the row numbers of a move in random order: all numbers from 0 to `rows` but one, so that there are `rows` row numbers. */
static void draw_rows(int64_t *list, int64_t rows)
{
	int64_t all[ROWS_MOST + 1];

	for (int64_t p = 0; p <= rows; p++) {
		int64_t other = below((int)p + 1);

		all[p] = all[other];
		all[other] = p;
	}
	memcpy(list, all, (size_t)rows * sizeof *list);
}

static void draw_part(struct trial *c, int k, int64_t *src_at, int64_t *dst_at)
{
	static const int64_t rows[] = { 0, 1, 1, 2, 3, 17, ROWS_MOST - 1 }, columns[] = { 0, 1, 2, 3, 4, 5, 8, 63, 64, 257, 1030 };
	struct part *p = &c->parts[k];

	*p = (struct part){ .rows = PICK(rows), .columns = PICK(columns), .is_zero = !below(5), .has_from = below(2), .has_to = below(2) };
	p->drop = !p->is_zero && below(2);
	p->key = (uint64_t)below(1 << 30) << 34 ^ (uint64_t)below(1 << 30);
	if (*dst_at + (p->rows + 1) * p->columns > BYTES / 8 - 16)
		p->rows = p->columns = 0;
	/* A move may read the rows that an earlier move reads. */
	*src_at = below(4) ? *src_at : below(1 + (int)*src_at);
	if (*src_at + (p->rows + 1) * p->columns > BYTES / 8 - 16)
		*src_at = below(4);
	p->src = *src_at + below(4);
	p->dst = *dst_at + below(4);
	*src_at = p->src + (p->rows + 1) * p->columns;
	*dst_at = p->dst + (p->rows + 1) * p->columns;
	draw_rows(from[k], p->rows);
	draw_rows(to[k], p->rows);
}

static void draw(struct trial *c, int k)
{
	static const double rates[] = { 0.5, 1, 1e-12, 0.3, 0x1p-32, 0.9 };
	static const int counts[] = { 1, 1, 2, 3, 7, CG_ROWS_MOVES - 1, CG_ROWS_MOVES, CG_ROWS_MOVES + 1, MOST };
	int64_t src_at = 0, dst_at = 0;

	c->dtype = k % 4;
	c->n = PICK(counts);
	c->has_t = below(2);
	c->has_b = below(2);
	for (int64_t p = 0; p < ROWS_MOST; p++) {
		t[p] = below(5) ? (int64_t)below(1000) : 0xfffff000;
		b[p] = below(5) ? (int64_t)below(1000) : 0xffffffff;
	}
	for (int n = 0; n < c->n; n++)
		draw_part(c, n, &src_at, &dst_at);
	c->moves.dtype = c->dtype;
	c->moves.drop = (struct cg_drop){ .rate = PICK(rates), .first_t = below(2) ? below(100) : 0, .batch = 1 + below(40) };
	c->bytes = (size_t)(dst_at + 8) * cg_dtype_bytes(c->dtype);
}

/* Fills `at` with random bits, but in f32 and bf16 with no numbers so small that a device may flush them to zero. */
static void fill(unsigned char *at, int dtype)
{
	size_t each = cg_dtype_bytes(dtype);

	for (size_t k = 0; k < BYTES / each; k++) {
		double d;

		do {
			numbers_bits(&state, dtype, at + k * each);
			d = numbers_decode(dtype, at + k * each);
		} while ((dtype == CG_F32 || dtype == CG_BF16) && d != 0 && fabs(d) < 0x1p-100);
	}
}

static void drop(const struct trial *c, const struct part *part, int64_t p, int64_t j, void *at)
{
	const struct cg_drop *d = &c->moves.drop;
	int64_t step = d->first_t + (c->has_t ? t[p] : p / d->batch), row = c->has_b ? b[p] : p % d->batch;
	double x = numbers_decode(c->dtype, at), scale = d->rate < 1 ? 1 / (1 - d->rate) : 0;

	if (ref_dropout_drops(ref_dropout_word(part->key, step, row, j), d->rate))
		x = 0;
	else
		x = c->dtype == CG_F64 ? x * scale : (double)((float)x * (float)scale);
	numbers_encode(c->dtype, isfinite(x) ? cg_round(c->dtype, x) : x, at);
}

static void expect(const struct trial *c)
{
	size_t each = cg_dtype_bytes(c->dtype);

	memcpy(right, dst, c->bytes);
	for (int k = 0; k < c->n; k++)
		for (int64_t p = 0; p < c->parts[k].rows; p++)
			for (int64_t j = 0; j < c->parts[k].columns; j++) {
				const struct part *part = &c->parts[k];
				int64_t i = part->src + (part->has_from ? from[k][p] : p) * part->columns + j;
				int64_t o = part->dst + (part->has_to ? to[k][p] : p) * part->columns + j;

				if (part->is_zero)
					memset(right + (size_t)o * each, 0, each);
				else
					memcpy(right + (size_t)o * each, src + (size_t)i * each, each);
				if (part->drop)
					drop(c, part, p, j, right + (size_t)o * each);
			}
}

/* ---- moving ---- */

static struct cg_mem lend(struct cg_stream *stream, const void *host, size_t bytes)
{
	struct cg_mem mem;

	assert_int_equal(cg_alloc(stream->context, bytes, &mem), CG_OK);
	assert_int_equal(cg_put(stream, mem, host, bytes), CG_OK);
	return mem;
}

static int add(struct trial *c, int k)
{
	const struct part *part = &c->parts[k];
	size_t each = cg_dtype_bytes(c->dtype), list = (size_t)k * sizeof *from;
	struct cg_rows_move move = {
		.src = part->is_zero ? 0 : cg_cu_address(c->src) + (size_t)part->src * each,
		.dst = cg_cu_address(c->dst) + (size_t)part->dst * each,
		.from = part->has_from ? cg_cu_address(c->from) + list : 0, .to = part->has_to ? cg_cu_address(c->to) + list : 0,
		.rows = part->rows, .columns = part->columns, .drop_key = part->key, .drop = part->drop,
	};

	return cg_cu_move(c->queue, &c->moves, move);
}

static int move_inside(struct trial *c)
{
	for (int k = 0; k < c->n; k++)
		CG_TRY(add(c, k));
	return cg_cu_flush(c->queue, &c->moves);
}

static int move(struct trial *c)
{
	CU_INSIDE(c->queue->device, move_inside(c));
}

static void lend_all(struct trial *c, struct cg_stream *stream)
{
	c->queue = stream->queue;
	c->src = lend(stream, src, sizeof src);
	c->dst = lend(stream, dst, c->bytes);
	c->from = lend(stream, from, sizeof from);
	c->to = lend(stream, to, sizeof to);
	c->moves.drop.t = c->t = c->has_t ? lend(stream, t, sizeof t) : (struct cg_mem){ .data = NULL };
	c->moves.drop.b = c->b = c->has_b ? lend(stream, b, sizeof b) : (struct cg_mem){ .data = NULL };
}

static void read_back(struct trial *c, struct cg_stream *stream)
{
	struct cg_mem *lent[] = { &c->src, &c->dst, &c->from, &c->to, &c->t, &c->b };

	for (size_t k = 0; k < sizeof lent / sizeof *lent; k++)
		cg_free(stream->context, lent[k]);
}

static void compare(const struct trial *c, int k)
{
	size_t each = cg_dtype_bytes(c->dtype);

	for (size_t i = 0; i < c->bytes / each; i++)
		if (!numbers_same(c->dtype, got + i * each, right + i * each))
			fail_msg("trial %d: %s, %d moves, rate %g: element %zu: expected %.9g, got %.9g", k, cg_dtype_name(c->dtype), c->n,
			         c->moves.drop.rate, i, numbers_decode(c->dtype, right + i * each), numbers_decode(c->dtype, got + i * each));
}

static void try(struct cg_stream *stream, struct trial *c, int k)
{
	fill(src, c->dtype);
	fill(dst, c->dtype);
	expect(c);
	lend_all(c, stream);
	if (move(c))
		fail_msg("trial %d: %s", k, cg_message());
	assert_int_equal(c->moves.n, 0);
	assert_int_equal(cg_get(stream, got, c->dst, c->bytes), CG_OK);
	read_back(c, stream);
	compare(c, k);
}

static void test_moves(void **unused)
{
	static struct trial c;
	struct tensors tensors;

	(void)unused;
	if (!open_tensors(&tensors))
		return;
	state = 1;
	for (int k = 0; k < TRIALS; k++) {
		memset(&c, 0, sizeof c);
		draw(&c, k);
		try(tensors.stream, &c, k);
	}
	free_tensors(&tensors);
}

/* On a device of one multiprocessor, tests moves so large that a block takes several turns, along a row or down the rows. */
static void test_turns(void **unused)
{
	static const int64_t sizes[][2] = { { 1, 130000 }, { ROWS_MOST - 1, 900 }, { 40000, 3 }, { 2, 60000 } };
	static struct trial c;
	struct tensors tensors;

	(void)unused;
	if (!open_tensors(&tensors))
		return;
	tensors.stream->queue->device->units = 1;
	for (int k = 0; k < 16; k++) {
		const int64_t *size = sizes[k % 4];

		memset(&c, 0, sizeof c);
		c.dtype = k / 4;
		c.n = 2;
		c.moves.dtype = c.dtype;
		c.moves.drop = (struct cg_drop){ .rate = 0.5, .batch = 7 };
		c.parts[0] = (struct part){ .rows = 3, .columns = 5, .src = 1, .dst = 2, .is_zero = 1 };
		c.parts[1] = (struct part){ .rows = size[0], .columns = size[1], .src = 3, .dst = 20, .drop = 1, .key = 9 };
		c.bytes = (size_t)(size[0] * size[1] + 40) * cg_dtype_bytes(c.dtype);
		if (c.bytes <= BYTES)
			try(tensors.stream, &c, k);
	}
	free_tensors(&tensors);
}

/* ---- calls ---- */

/* The commands of n equal moves: a single copy or fill with zeros, of rows one after the other, needs no kernel; up to CG_ROWS_MOVES moves
   are one launch; no moves are none. */
static const struct { const char *name; int n, rows, is_zero, has_to; long launches, copies, fills; } counts[] = {
	{ "none",             0,                 3, 0, 0, 0, 0, 0 },
	{ "no rows",          3,                 0, 0, 0, 0, 0, 0 },
	{ "a copy",           1,                 3, 0, 0, 0, 1, 0 },
	{ "zeros",            1,                 3, 1, 0, 0, 0, 1 },
	{ "scattered",        1,                 3, 0, 1, 1, 0, 0 },
	{ "scattered zeros",  1,                 3, 1, 1, 1, 0, 0 },
	{ "two copies",       2,                 3, 0, 0, 1, 0, 0 },
	{ "as many as go",    CG_ROWS_MOVES,     3, 0, 0, 1, 0, 0 },
	{ "one more",         CG_ROWS_MOVES + 1, 3, 0, 0, 1, 1, 0 },
};

static void draw_equal(struct trial *c, int n, int rows)
{
	memset(c, 0, sizeof *c);
	c->n = n;
	for (int k = 0; k < n; k++) {
		c->parts[k] = (struct part){ .rows = rows, .columns = 6, .src = 1 + 20 * k, .dst = 24 * k };
		draw_rows(to[k], rows);
	}
	c->bytes = (size_t)(24 * n + 24) * cg_dtype_bytes(CG_F32);
}

static void test_calls(void **unused)
{
	static struct trial c;
	struct tensors tensors;

	(void)unused;
	if (!open_tensors(&tensors))
		return;
	for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
		draw_equal(&c, counts[k].n, counts[k].rows);
		for (int n = 0; n < c.n; n++) {
			c.parts[n].is_zero = counts[k].is_zero;
			c.parts[n].has_to = counts[k].has_to;
		}
		fill(src, CG_F32);
		fill(dst, CG_F32);
		expect(&c);
		lend_all(&c, tensors.stream);
		forget_calls();
		assert_int_equal(move(&c), CG_OK);
		if (seen.cuLaunchKernel != counts[k].launches || seen.cuMemcpyDtoDAsync_v2 != counts[k].copies ||
		    seen.cuMemsetD8Async != counts[k].fills)
			fail_msg("%s: %ld launches, %ld copies, %ld fills", counts[k].name, seen.cuLaunchKernel, seen.cuMemcpyDtoDAsync_v2,
			         seen.cuMemsetD8Async);
		assert_int_equal(cg_get(tensors.stream, got, c.dst, c.bytes), CG_OK);
		read_back(&c, tensors.stream);
		compare(&c, (int)k);
	}
	free_tensors(&tensors);
}

/* Makes each call fail in turn: the message names the call, and when no call fails the same moves succeed. */
static void fail_each(struct trial *c)
{
	for (long at = 1;; at++) {
		int code;

		made = 0;
		fatal = at;
		code = move(c);
		fatal = 0;
		c->moves.n = 0;
		if (!code) {
			assert_true(at > 2);
			return;
		}
		if (!strstr(cg_message(), failed_call))
			fail_msg("expected %s in '%s'", failed_call, cg_message());
	}
}

static void test_failures(void **unused)
{
	static struct trial c;
	struct tensors tensors;

	(void)unused;
	if (!open_tensors(&tensors))
		return;
	for (int is_zero = 0; is_zero < 2; is_zero++)
		for (int n = 1; n < 3; n++) {
			draw_equal(&c, n, 2);
			c.parts[0].is_zero = is_zero;
			lend_all(&c, tensors.stream);
			fail_each(&c);
			assert_int_equal(cg_stream_sync(tensors.stream), CG_OK);
			read_back(&c, tensors.stream);
		}
	closing = 1;
	free_tensors(&tensors);
	assert_int_equal(balance, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_moves), cmocka_unit_test(test_turns), cmocka_unit_test(test_calls), cmocka_unit_test(test_failures),
		cmocka_unit_test(test_nothing_left),
	};

	counted_begin();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("cuda_moves", tests, set_up, NULL);
}
