/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What cg_op_check rejects and with which message; the check writes nothing. Every argument of every op without a plan is made wrong in
 * each way that is listed here; most messages are compared verbatim.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "tests/help/args.h"
#include "tests/help/shorten.h"

enum { POISON = 0xa5 };

/* Expects that cg_op_check rejects the struct with this message, and changes neither the struct nor the memory of its arguments. */
__attribute__((format(printf, 5, 6)))
static void refused(int line, const struct cg_op *row, const union args *a, int code, const char *format, ...)
{
	static unsigned char before[sizeof arena];
	static const union args none;
	union args kept = a ? *a : none;
	char want[512];
	va_list list;

	va_start(list, format);
	vsnprintf(want, sizeof want, format, list);
	va_end(list);
	memset(arena, POISON, sizeof arena);
	memset(before, POISON, sizeof before);
	_assert_int_equal((LargestIntegralType)cg_op_check(row, a), (LargestIntegralType)code, __FILE__, line);
	_assert_string_equal(cg_message(), want, __FILE__, line);
	_assert_memory_equal(&kept, a ? a : &none, sizeof kept, __FILE__, line);
	_assert_memory_equal(before, arena, sizeof arena, __FILE__, line);
}

static void accepted(int line, const struct cg_op *row, const union args *a)
{
	int code = cg_op_check(row, a);

	if (code)
		print_message("# line %d: %s\n", line, cg_message());
	_assert_int_equal((LargestIntegralType)code, CG_OK, __FILE__, line);
}

#define REFUSED(row, a, ...) refused(__LINE__, row, a, CG_BAD_ARGUMENT, __VA_ARGS__)
#define ACCEPTED(row, a)     accepted(__LINE__, row, a)

/* Expects this message when one field of a right struct gets this value. */
#define SPOILT(op, field, value, ...) do { \
	union args spoilt; \
	fill(row_of(op), &spoilt); \
	spoilt.field = value; \
	REFUSED(row_of(op), &spoilt, __VA_ARGS__); \
} while (0)

/* ---- the words ---- */

static void test_numbers(void **state)
{
	const struct cg_op *row = row_of("lstm_block_cell");
	union args a;

	(void)state;
	SPOILT("lstm_block_cell", lstm.U, 0, "lstm_block_cell: U: expected at least 1, got 0");
	SPOILT("lstm_block_cell_grad", lstm.I, -3, "lstm_block_cell_grad: I: expected at least 1, got -3");
	SPOILT("gru_block_cell", gru.I, 0, "gru_block_cell: I: expected at least 1, got 0");
	SPOILT("gru_block_cell_grad", gru.B, -1, "gru_block_cell_grad: B: expected at least 0, got -1");
	SPOILT("lstm_block_cell", lstm.B, INT64_MIN, "lstm_block_cell: B: expected at least 0, got -9223372036854775808");
	SPOILT("lstm_block_cell", lstm.dtype, 9,
	       "lstm_block_cell: dtype: expected one of f32=0 f64=1 f16=2 bf16=3, got 9");
	SPOILT("gru_block_cell", gru.dtype, -1,
	       "gru_block_cell: dtype: expected one of f32=0 f64=1 f16=2 bf16=3, got -1");
	SPOILT("lstm_block_cell", lstm.gates, 2, "lstm_block_cell: gates: expected CG_ICFO=0 or CG_IFCO=1, got 2");
	SPOILT("lstm_block_cell_grad", lstm.gates, -1,
	       "lstm_block_cell_grad: gates: expected CG_ICFO=0 or CG_IFCO=1, got -1");
	SPOILT("lstm_block_cell", lstm.use_peephole, 2, "lstm_block_cell: use_peephole: expected 0 or 1, got 2");
	SPOILT("lstm_block_cell_grad", lstm.use_peephole, -1,
	       "lstm_block_cell_grad: use_peephole: expected 0 or 1, got -1");
	SPOILT("lstm_block_cell", lstm.forget_bias, NAN, "lstm_block_cell: forget_bias: expected a number, got NaN");
	SPOILT("lstm_block_cell", lstm.cell_clip, -NAN, "lstm_block_cell: cell_clip: expected a number, got NaN");
	SPOILT("lstm_block_cell_grad", lstm.accumulate, 7, "lstm_block_cell_grad: accumulate: expected 0 or 1, got 7");
	SPOILT("gru_block_cell_grad", gru.accumulate, 2, "gru_block_cell_grad: accumulate: expected 0 or 1, got 2");

	fill(row, &a);
	a.lstm.cell_clip = -1;
	a.lstm.forget_bias = INFINITY;
	a.lstm.gates = CG_IFCO;
	a.lstm.accumulate = 1;
	ACCEPTED(row, &a);
	row = row_of("lstm_block_cell_grad");                    /* this op has neither cell_clip nor forget_bias: the fields are not read */
	fill(row, &a);
	a.lstm.cell_clip = a.lstm.forget_bias = NAN;
	ACCEPTED(row, &a);
}

static void test_a_cell_is_one_step(void **state)
{
	static const int64_t steps[] = { 0, 2, -1, INT64_MAX };
	const struct cg_op *row = row_of("lstm_block_cell_grad");
	union args a;
	size_t i;

	(void)state;
	for (i = 0; i < sizeof steps / sizeof *steps; i++) {
		fill(row, &a);
		a.lstm.T = steps[i];
		refused(__LINE__, row, &a, CG_UNSUPPORTED,
		        "lstm_block_cell_grad: T: expected a size of 1, got %lld: this op is one step; block_lstm computes sequences",
		        (long long)steps[i]);
	}
}

static void test_lengths(void **state)
{
	union args a;

	(void)state;
	SPOILT("block_lstm", lstm.T, -1, "block_lstm: T: expected at least 0, got -1");
	SPOILT("block_lstm", lstm.seq_len_max, 4, "block_lstm: seq_len_max: expected -1 or 0 to T=3, got 4");
	SPOILT("block_lstm_grad", lstm.seq_len_max, -2, "block_lstm_grad: seq_len_max: expected -1 or 0 to T=3, got -2");
	SPOILT("block_lstm_v2", lstm.seq_len_max, INT64_MAX,
	       "block_lstm_v2: seq_len_max: expected -1 or 0 to T=3, got 9223372036854775807");
	SPOILT("block_lstm_grad_v2", lstm.seq_len_max, INT64_MIN,
	       "block_lstm_grad_v2: seq_len_max: expected -1 or 0 to T=3, got -9223372036854775808");
	SPOILT("block_lstm", lstm.gates, 2, "block_lstm: gates: expected CG_ICFO=0 or CG_IFCO=1, got 2");
	SPOILT("block_lstm", lstm.T, (int64_t)1 << 60, sizeof(size_t) == 8 ?
	       "block_lstm: x: [T=1152921504606846976, B=2, I=3] f32 is more than 9223372036854775807 bytes" :
	       "block_lstm: x: [T=1152921504606846976, B=2, I=3] f32 is more than 4294967295 bytes");
	fill(row_of("block_lstm"), &a);
	for (a.lstm.seq_len_max = -1; a.lstm.seq_len_max <= 3; a.lstm.seq_len_max++)
		ACCEPTED(row_of("block_lstm"), &a);
	a.lstm.T = a.lstm.seq_len_max = 0;
	ACCEPTED(row_of("block_lstm"), &a);
}

static void test_the_structs_size(void **state)
{
	const struct cg_op *row;
	union args a;

	(void)state;
	for (row = NULL; (row = plain_row(row));) {
		static const size_t wrong[] = { 0, 8, SIZE_MAX };
		size_t i, bad;

		for (i = 0; i < 5; i++) {
			bad = i < 3 ? wrong[i] : i == 3 ? row->size - 1 : 4 * row->size + 1;
			fill(row, &a);
			memcpy(&a, &bad, sizeof bad);
			REFUSED(row, &a, "%s: size: expected %zu, got %zu: call %s_init first", row->name, row->size, bad,
			        row->type);
		}
		fill(row, &a);
		bad = row->size + 16;
		memcpy(&a, &bad, sizeof bad);                    /* a struct of a later header, whose new fields are zero */
		ACCEPTED(row, &a);
		a.bytes[bad - 1] = 1;
		REFUSED(row, &a, "%s: size: expected %zu, got %zu with nonzero fields that this library lacks: call "
		        "%s_init first, or use a later library", row->name, row->size, bad, row->type);
		a.bytes[bad - 1] = 0;
		a.bytes[bad] = 1;
		ACCEPTED(row, &a);
		REFUSED(row, NULL, "%s: expected a struct %s, got NULL", row->name, row->type);
	}
}

static void test_wrong_memory(void **state)
{
	(void)state;
	SPOILT("lstm_block_cell_grad", lstm.w.bytes, 336,
	       "lstm_block_cell_grad: w: expected [I+U=7, 4*U=16] f32, 448 bytes, got 336 bytes");
	SPOILT("lstm_block_cell", lstm.h_prev, (struct cg_mem){ 0 },
	       "lstm_block_cell: h_prev: missing: expected [B=2, U=4] f32");
	SPOILT("gru_block_cell_grad", gru.d_b_ru.bytes, 0,
	       "gru_block_cell_grad: d_b_ru: expected [2*U=8] f32, 32 bytes, got 0 bytes");
	SPOILT("lstm_block_cell", lstm.x.place, 7,
	       "lstm_block_cell: x: cg_mem.place: expected CG_HOST=0 or CG_DEVICE=1, got 7");
	SPOILT("lstm_block_cell", lstm.x.place, -1,
	       "lstm_block_cell: x: cg_mem.place: expected CG_HOST=0 or CG_DEVICE=1, got -1");
	SPOILT("lstm_block_cell", lstm.x.data, NULL, "lstm_block_cell: x: cg_mem.data: expected memory of 24 bytes, got NULL");
	SPOILT("lstm_block_cell", lstm.b.offset, 2, "lstm_block_cell: b: cg_mem.offset: expected a multiple of 4 bytes, got 2");
	SPOILT("lstm_block_cell", lstm.b.data, arena + 2, "lstm_block_cell: b: cg_mem.data: expected an address that is a multiple of 4, got "
	       "%p",
	       (void *)(arena + 2));
	SPOILT("lstm_block_cell", lstm.b.offset, SIZE_MAX - 3,
	       "lstm_block_cell: b: cg_mem: expected memory that ends within the address space, got offset %zu and 64 bytes", SIZE_MAX - 3);
	SPOILT("lstm_block_cell", lstm.b.bytes, SIZE_MAX,
	       "lstm_block_cell: b: cg_mem: expected memory that ends within the address space, got offset 0 and %zu bytes", SIZE_MAX);
	SPOILT("gru_block_cell", gru.h_prev, ((struct cg_mem){ arena, SIZE_MAX - 7, 32, CG_DEVICE }),
	       "gru_block_cell: h_prev: cg_mem: expected memory that ends within the address space, got offset %zu and 32 bytes", SIZE_MAX - 7);
}

static void test_the_first_wrong_argument_is_named(void **state)
{
	const struct cg_op *row = row_of("gru_block_cell");
	union args a;

	(void)state;
	fill(row, &a);
	a.gru.w_ru.bytes--;
	a.gru.b_c.place = 9;
	a.gru.h.data = a.gru.x.data;
	REFUSED(row, &a, "gru_block_cell: w_ru: expected [I+U=7, 2*U=8] f32, 224 bytes, got 223 bytes");
	a.gru.h_prev.data = NULL;
	REFUSED(row, &a, "gru_block_cell: h_prev: cg_mem.data: expected memory of 32 bytes, got NULL");
	a.gru.U = -4;
	REFUSED(row, &a, "gru_block_cell: U: expected at least 1, got -4");
}

/* ---- every argument, in every way ---- */

/* Every subset of outputs: the arguments that they do not need may be absent, and the message names a needed one that is missing. */
static void test_every_subset_of_outputs(void **state)
{
	const struct cg_op *row;
	const struct cg_port *p;
	union args a;

	(void)state;
	for (row = NULL; (row = plain_row(row));) {
		unsigned outputs = 0, subset, bit;
		int peephole, checked = 0;

		for (p = row->ports; p->name; p++)
			outputs += p->flow != CG_IN;
		for (subset = 0; subset < 1u << outputs; subset++)
			for (peephole = 0; peephole < 2; peephole++) {
				fill(row, &a);
				set_bools(row, &a, peephole);
				for (bit = 1, p = row->ports; p->name; p++)
					if (p->flow != CG_IN) {
						if (!(subset & bit))
							remove_argument(&a, p->at);
						bit <<= 1;
					}
				for (p = row->ports; p->name; p++) {
					assert_false(cg_op_needs(row, p, &a) && !subset);
					if (p->flow == CG_IN && !cg_op_needs(row, p, &a))
						remove_argument(&a, p->at);
				}
				remove_argument(&a, row->work_at);
				ACCEPTED(row, &a);
				for (p = row->ports; p->name; p++)
					if (cg_op_needs(row, p, &a)) {
						union args without = a;
						char start[128];

						remove_argument(&without, p->at);
						assert_int_equal(cg_op_check(row, &without), CG_BAD_ARGUMENT);
						snprintf(start, sizeof start, "%s: %s: missing: expected [", row->name,
						         p->name);
						assert_memory_equal(cg_message(), start, strlen(start));
						checked++;
					}
			}
		assert_true(checked > 0);
	}
}

/* Prints a shape, as "[I+U=7, 4*U=16]", by code of this test and not of the library; only the numbers come from cg_op_shape(). */
static const char *shape_words(const struct cg_op *row, const struct cg_port *p, const union args *a)
{
	static char text[128];
	int64_t shape[CG_RANK];
	int rank = cg_op_shape(row, p, a, shape);
	const char *at = p->shape;
	size_t n = 0;

	for (int d = 0; d < rank; d++) {
		int length = (int)strcspn(at, " ");

		n += (size_t)snprintf(text + n, sizeof text - n, "%s%.*s=%lld", d ? ", " : "[", length, at, (long long)shape[d]);
		at += length + (at[length] == ' ');
	}
	snprintf(text + n, sizeof text - n, "]");
	return text;
}

static void test_every_argument_in_every_way(void **state)
{
	const struct cg_op *row;
	const struct cg_port *p;
	int dtype;

	(void)state;
	for (row = NULL; (row = plain_row(row));)
		for (p = row->ports; p->name; p++)
			for (dtype = CG_F32; dtype <= CG_BF16; dtype++) {
				union args good, a;
				struct cg_mem *m = mem_at(&a, p->at);
				size_t size = cg_dtype_bytes(dtype), bytes;
				const char *type = cg_dtype_name(dtype), *name = p->name;

				fill(row, &good);
				memcpy(good.bytes + row->dtype_at, &dtype, sizeof dtype);
				for (const struct cg_port *q = row->ports; q->name; q++)
					assert_int_equal(cg_op_bytes(row, q, &good, &mem_at(&good, q->at)->bytes), CG_OK);
				assert_int_equal(row->work(&good, &mem_at(&good, row->work_at)->bytes), CG_OK);
				ACCEPTED(row, &good);
				bytes = mem_at(&good, p->at)->bytes;

				a = good;
				remove_argument(&a, p->at);
				if (cg_op_needs(row, p, &good))
					REFUSED(row, &a, "%s: %s: missing: expected %s %s", row->name, name,
					        shape_words(row, p, &a), type);
				else
					ACCEPTED(row, &a);
				a = good;
				m->bytes--;
				REFUSED(row, &a, "%s: %s: expected %s %s, %zu bytes, got %zu bytes", row->name, name,
				        shape_words(row, p, &a), type, bytes, bytes - 1);
				a = good;
				m->bytes++;
				REFUSED(row, &a, "%s: %s: expected %s %s, %zu bytes, got %zu bytes; if the buffer is larger, shorten "
				        "bytes to %zu", row->name, name, shape_words(row, p, &a), type, bytes, bytes + 1, bytes);
				a = good;
				m->data = NULL;
				REFUSED(row, &a, "%s: %s: cg_mem.data: expected memory of %zu bytes, got NULL", row->name, name, bytes);
				a = good;
				m->place = 2;
				REFUSED(row, &a, "%s: %s: cg_mem.place: expected CG_HOST=0 or CG_DEVICE=1, got 2", row->name,
				        name);
				a = good;
				m->offset = size / 2;
				REFUSED(row, &a, "%s: %s: cg_mem.offset: expected a multiple of %zu bytes, got %zu", row->name, name,
				        size, size / 2);
				m->place = CG_DEVICE;
				REFUSED(row, &a, "%s: %s: cg_mem.offset: expected a multiple of %zu bytes, got %zu", row->name, name,
				        size, size / 2);
				a = good;
				m->data = (char *)m->data + size / 2;
				REFUSED(row, &a, "%s: %s: cg_mem.data: expected an address that is a multiple of %zu, got %p", row->name, name,
				        size, m->data);
				a = good;
				m->place = CG_DEVICE;                    /* a handle is no address and has no alignment */
				m->data = (char *)m->data + 1;
				ACCEPTED(row, &a);
			}
}

/* The offset of the workspace must be a multiple of 8 bytes, the size of the largest elements that the workspace may hold. */
static void test_offset_of_work(void **state)
{
	const struct cg_op *row;
	union args a;

	(void)state;
	for (row = NULL; (row = plain_row(row));)
		for (size_t offset = 1; offset < 16; offset++)
			for (int place = CG_HOST; place <= CG_DEVICE; place++) {
				fill(row, &a);
				mem_at(&a, row->work_at)->offset = offset;
				mem_at(&a, row->work_at)->place = place;
				if (offset == 8)
					ACCEPTED(row, &a);
				else
					REFUSED(row, &a, "%s: work: cg_mem.offset: expected a multiple of 8 bytes, got %zu", row->name, offset);
			}
}

/* Puts p so that it begins 8 bytes before the end of q, or ends 8 bytes behind the start of q, and expects an error with `text`, or none
   if text is NULL; then so that they only touch, which is no error. */
static void overlap(const struct cg_op *row, const union args *good, size_t p_at, size_t q_at, const char *text)
{
	union args a = *good;
	struct cg_mem *p = mem_at(&a, p_at), *q = mem_at(&a, q_at);
	unsigned char *start = q->data, *end = start + q->bytes;
	int place;

	for (place = CG_HOST; place <= CG_DEVICE; place++) {
		a = *good;
		if (place == CG_DEVICE) {                        /* both arguments have one handle and differ in their offsets */
			p->place = q->place = place;
			p->data = q->data = arena;
			q->offset = (size_t)(start - arena);
		}
		p->offset = (size_t)(end - arena) - 8;
		p->data = arena;
		if (text)
			REFUSED(row, &a, "%s: %s by 8 bytes", row->name, text);
		else
			ACCEPTED(row, &a);
		p->offset += 8;
		ACCEPTED(row, &a);
		p->offset = (size_t)(start - arena) - p->bytes;
		ACCEPTED(row, &a);
		p->offset += 8;
		if (text)
			REFUSED(row, &a, "%s: %s by 8 bytes", row->name, text);
		else
			ACCEPTED(row, &a);
		if (place == CG_DEVICE) {                        /* ranges of two different handles do not overlap */
			p->data = arena + 1;
			ACCEPTED(row, &a);
		}
	}
}

static void test_every_pair_of_arguments(void **state)
{
	const struct cg_op *row;
	const struct cg_port *p, *q;

	(void)state;
	for (row = NULL; (row = plain_row(row));) {
		union args a;
		char text[96];

		fill(row, &a);
		for (p = row->ports; p->name; p++) {
			for (q = row->ports; q < p; q++) {
				snprintf(text, sizeof text, "%s: the range of its memory overlaps that of %s", p->name, q->name);
				overlap(row, &a, p->at, q->at, p->flow == CG_IN ? NULL : text);
			}
			snprintf(text, sizeof text, "work: the range of its memory overlaps that of %s", p->name);
			overlap(row, &a, row->work_at, p->at, text);
			overlap(row, &a, p->at, row->work_at, text);
		}
	}
}

static void test_empty_arguments_overlap_nothing(void **state)
{
	const struct cg_op *row = row_of("lstm_block_cell_grad");
	union args a;

	(void)state;
	fill(row, &a);
	a.lstm.x_grad = a.lstm.x;
	REFUSED(row, &a, "lstm_block_cell_grad: x_grad: the range of its memory overlaps that of x by 24 bytes");
	a.lstm.x_grad.place = CG_DEVICE;                         /* the check takes a device handle that equals a host address for the same bytes */
	REFUSED(row, &a, "lstm_block_cell_grad: x_grad: the range of its memory overlaps that of x by 24 bytes");

	fill(row, &a);
	a.lstm.B = 0;                            /* an argument without elements may have memory of any size */
	a.lstm.cs_prev_grad.data = a.lstm.x.data = a.lstm.w.data;        /* arguments without rows overlap no other argument */
	ACCEPTED(row, &a);
	a.lstm.w_grad.data = a.lstm.w.data;
	REFUSED(row, &a, "lstm_block_cell_grad: w_grad: the range of its memory overlaps that of w by 448 bytes");
}

static void test_work(void **state)
{
	const struct cg_op *row;
	union args a;

	(void)state;
	for (row = NULL; (row = plain_row(row));) {
		struct cg_mem *m = mem_at(&a, row->work_at);
		size_t bytes;

		fill(row, &a);
		bytes = m->bytes;
		m->bytes--;
		REFUSED(row, &a, "%s: work: expected at least %zu bytes, got %zu bytes", row->name, bytes, bytes - 1);
		m->bytes = bytes;
		m->offset = 4;
		REFUSED(row, &a, "%s: work: cg_mem.offset: expected a multiple of 8 bytes, got 4", row->name);
		m->offset = 0;
		m->data = NULL;
		REFUSED(row, &a, "%s: work: cg_mem.data: expected memory of %zu bytes, got NULL", row->name, bytes);
		m->place = 5;
		REFUSED(row, &a, "%s: work: cg_mem.place: expected CG_HOST=0 or CG_DEVICE=1, got 5", row->name);
		remove_argument(&a, row->work_at);
		ACCEPTED(row, &a);
	}
}

/* Peephole vectors and cs may be absent when use_peephole is 0, but a wrong one is still an error. */
static void test_peepholes_that_are_off(void **state)
{
	const struct cg_op *row = row_of("lstm_block_cell_grad");
	union args a;

	(void)state;
	fill(row, &a);
	a.lstm.use_peephole = 0;
	remove_argument(&a, offsetof(struct cg_lstm_block, wci));
	remove_argument(&a, offsetof(struct cg_lstm_block, wcf));
	ACCEPTED(row, &a);
	a.lstm.wco.bytes = 12;
	REFUSED(row, &a, "lstm_block_cell_grad: wco: expected [U=4] f32, 16 bytes, got 12 bytes");
	remove_argument(&a, offsetof(struct cg_lstm_block, wco));
	remove_argument(&a, offsetof(struct cg_lstm_block, cs));
	ACCEPTED(row, &a);
	a.lstm.use_peephole = 1;
	REFUSED(row, &a, "lstm_block_cell_grad: wci: missing: expected [U=4] f32");
}

/* ---- sizes ---- */

static void test_empty_batches(void **state)
{
	const struct cg_op *row;
	const struct cg_port *p;
	union args a;

	(void)state;
	for (row = NULL; (row = plain_row(row));) {
		fill(row, &a);
		set_size(row, &a, "B", 0);
		ACCEPTED(row, &a);
		for (p = row->ports; p->name; p++)
			if (*p->shape == 'B')
				remove_argument(&a, p->at);      /* an argument without elements may be absent, as malloc(0) may be NULL */
		ACCEPTED(row, &a);
	}
}

/* Expects that every row without a plan rejects sizes with which an argument has more bytes than an int64_t or a size_t can hold. */
static void test_overflow(void **state)
{
	static const int64_t large[][3] = {
		{ INT64_C(1) << 62, 1, 1 }, { INT64_C(1) << 62, 3, 4 }, { 1, INT64_C(1) << 62, 1 },
		{ 1, 1, INT64_C(1) << 62 }, { 0, 1, INT64_C(1) << 62 }, { 0, INT64_MAX, 1 },
		{ INT64_MAX, INT64_MAX, INT64_MAX },
		{ INT64_C(1) << 31, 1, INT64_C(1) << 31 }, { 1, INT64_C(3037000500), INT64_C(3037000500) },
		{ INT64_C(1) << 32, INT64_C(1) << 32, 1 }
	};
	const struct cg_op *row;
	union args a;
	size_t i;

	(void)state;
	for (row = NULL; (row = plain_row(row));)
		for (i = 0; i < sizeof large / sizeof *large; i++) {
			memset(&a, 0, sizeof a);
			row->init(&a, row->size);
			set_size(row, &a, "B", large[i][0]);
			set_size(row, &a, "I", large[i][1]);
			set_size(row, &a, "U", large[i][2]);
			assert_int_equal(cg_op_check(row, &a), CG_BAD_ARGUMENT);
			assert_non_null(strstr(cg_message(), " f32 is more than "));
		}
#if SIZE_MAX > UINT32_MAX
	SPOILT("lstm_block_cell", lstm.B, INT64_C(1) << 62,
	       "lstm_block_cell: x: [B=4611686018427387904, I=3] f32 is more than 9223372036854775807 bytes");
	row = row_of("lstm_block_cell");
	fill(row, &a);
	a.lstm.B = 0;
	a.lstm.U = INT64_MAX;
	REFUSED(row, &a, "lstm_block_cell: w: [I+U, 4*U] f32 is more than 9223372036854775807 bytes");

	row = row_of("gru_block_cell");                          /* the largest batch whose bytes an int64_t holds, then one more */
	fill(row, &a);
	a.gru.I = a.gru.U = 1;
	a.gru.B = (INT64_C(1) << 61) - 1;
	for (const struct cg_port *p = row->ports; p->name; p++)
		*mem_at(&a, p->at) = (struct cg_mem){ arena + (p - row->ports), 0, 1, CG_DEVICE };
	shorten(row, &a);
	assert_int_equal(a.gru.h.bytes, ((size_t)1 << 63) - 4);
	REFUSED(row, &a, "cg_gru_block_work: expected B of at least 0, I and U of at least 1, B*I and B*U of at most PTRDIFF_MAX/256 "
	        "and an enum cg_dtype, got B=2305843009213693951, I=1, U=1, dtype=0");
	a.gru.h.bytes--;
	REFUSED(row, &a, "gru_block_cell: h: expected [B=2305843009213693951, U=1] f32, 9223372036854775804 bytes, got "
	        "9223372036854775803 bytes");
	a.gru.B++;
	REFUSED(row, &a, "gru_block_cell: x: [B=2305843009213693952, I=1] f32 is more than 9223372036854775807 bytes");
#endif
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_a_cell_is_one_step),
		cmocka_unit_test(test_lengths),
		cmocka_unit_test(test_the_structs_size),
		cmocka_unit_test(test_wrong_memory),
		cmocka_unit_test(test_the_first_wrong_argument_is_named),
		cmocka_unit_test(test_every_subset_of_outputs),
		cmocka_unit_test(test_every_argument_in_every_way),
		cmocka_unit_test(test_offset_of_work),
		cmocka_unit_test(test_every_pair_of_arguments),
		cmocka_unit_test(test_empty_arguments_overlap_nothing),
		cmocka_unit_test(test_work),
		cmocka_unit_test(test_peepholes_that_are_off),
		cmocka_unit_test(test_empty_batches),
		cmocka_unit_test(test_overflow)
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("check", tests, NULL, NULL);
}
