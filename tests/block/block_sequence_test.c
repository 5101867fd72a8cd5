/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests BlockLSTM over sequences, to the bit: a sequence too short for packed weights equals steps of the cell; input beyond seq_len_max
 * is not read, and output there is zeros; the order of the gates moves columns and changes nothing else in the forward pass; threads and
 * repeats change nothing.
 * To 1e-11, on the cpu alone: a call on a sequence so long that it is computed in spans equals two calls on parts of the sequence.
 * Threads and repeats are tested on the cpu, or on cuda under the stand-ins for CUDA's libraries; the other bits are compared on the cpu,
 * and on opencl if it opens, or on cuda under the stand-ins. The conformance suite tests whether the values of BlockLSTM are right.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "runtime/op/op.h"
#include "runtime/core/core.h"
#include "verify/numbers.h"
#include "tests/help/counted.h"
#include "tests/help/shorten.h"

enum { T = 4, B = 5, I = 6, DTYPES = CG_DTYPE_COUNT, BLOCKS = 40, POISON = 0xa5 };

/* Every argument of the op and its gradient, in the host's memory. */
struct sequence { struct cg_lstm_block op; void *blocks[BLOCKS]; int n; };

static const struct cg_op *row_of(int is_grad)
{
	return cg_op_find(is_grad ? "block_lstm_grad" : "block_lstm", NULL);
}

static struct cg_mem *mem_of(struct cg_lstm_block *op, const struct cg_port *port)
{
	return (struct cg_mem *)(void *)((char *)op + port->at);
}

/* Fills memory with numbers of so few digits that sums of products of two of them are exact in any order. */
static void draw(struct cg_mem mem, int dtype, unsigned long long *state)
{
	size_t each = cg_dtype_bytes(dtype);

	for (size_t at = 0; at + each <= mem.bytes; at += each)
		numbers_encode(dtype, ((double)numbers_below(state, 33) - 16) / 16, (char *)mem.data + at);
}

/* Makes the arguments of a sequence with the same numbers each time, and poisons the outputs. */
static void make(struct sequence *s, int dtype, int64_t steps, int64_t rows, int64_t units, int peephole)
{
	unsigned long long state = 77;

	s->n = 0;
	cg_lstm_block_init(&s->op, sizeof s->op);
	s->op.T = steps, s->op.B = rows, s->op.I = I, s->op.U = units;
	s->op.dtype = dtype;
	s->op.use_peephole = peephole;
	for (int is_grad = 0; is_grad < 2; is_grad++)
		for (const struct cg_port *port = row_of(is_grad)->ports; port->name; port++) {
			struct cg_mem *mem = mem_of(&s->op, port);

			if (mem->data)
				continue;
			assert_int_equal(cg_op_bytes(row_of(is_grad), port, &s->op, &mem->bytes), CG_OK);
			assert_true(s->n < BLOCKS);
			mem->data = s->blocks[s->n++] = malloc(mem->bytes + 1);
			assert_non_null(mem->data);
			if (port->flow == CG_IN)
				draw(*mem, dtype, &state);
			else
				memset(mem->data, POISON, mem->bytes);
		}
}

static void free_sequence(struct sequence *s)
{
	while (s->n)
		free(s->blocks[--s->n]);
}

/* ---- backends ---- */

static struct cg_context *context;
static struct cg_stream *stream;

/* Under the stand-ins cuda must open; without them the cpu must, and OpenCL where it is required. */
static int opens(const char *name)
{
	const char *required = getenv("CELLGRAD_TEST_REQUIRE");
	int stands_in = getenv("CELLGRAD_FAKE_CUDA") != NULL;

	if (stands_in != !strcmp(name, "cuda"))
		return 0;
	if (cg_open(name, &context)) {
		if (stands_in || !strcmp(name, "cpu") || (required && strstr(required, name)))
			fail_msg("%s is required: %s", name, cg_message());
		print_message("# %s: %s\n", name, cg_message());
		return 0;
	}
	assert_int_equal(cg_stream_open(context, NULL, &stream), CG_OK);
	return 1;
}

static void closes(void)
{
	cg_stream_close(stream);
	cg_close(context);
}

static void on_every_backend(void (*test)(int dtype))
{
	static const char *const names[] = { "cpu", "opencl", "cuda" };

	for (int k = 0; k < 3; k++) {
		if (!opens(names[k]))
			continue;
		for (int dtype = 0; dtype < DTYPES; dtype++)
			if (cg_supports(context, "block_lstm", dtype) == CG_OK)
				test(dtype);
		closes();
	}
}

static void run(struct sequence *s, int is_grad)
{
	if (row_of(is_grad)->call(stream, &s->op))
		fail_msg("%s", cg_message());
}

/* ---- what is compared ---- */

static void same(struct cg_mem got, struct cg_mem want, size_t bytes, const char *what, int dtype)
{
	size_t each = cg_dtype_bytes(dtype);

	for (size_t at = 0; at < bytes; at += each)
		if (memcmp((char *)got.data + at, (char *)want.data + at, each))
			fail_msg("%s %s[%zu]: expected %.17g, got %.17g", cg_dtype_name(dtype), what, at / each,
			         numbers_decode(dtype, (char *)want.data + at), numbers_decode(dtype, (char *)got.data + at));
}

static void zeros(struct cg_mem mem, size_t from, const char *what, int dtype)
{
	for (size_t at = from; at < mem.bytes; at++)
		if (((unsigned char *)mem.data)[at])
			fail_msg("%s %s: not zero at byte %zu", cg_dtype_name(dtype), what, at);
}

/* Makes all gradients absent except those in `names`, which blanks separate. */
static void want_only(struct sequence *s, const char *names)
{
	for (const struct cg_port *port = row_of(1)->ports; port->name; port++)
		if (port->flow != CG_IN && !strstr(names, port->name))
			*mem_of(&s->op, port) = (struct cg_mem){ .data = NULL };
}

/* ---- steps of the cell ---- */

/* Returns the number of units of a sequence. On cuda bits are the same only where memory has the same alignment: with 8 units each step of
   a state or gate begins at a multiple of 16 bytes in every dtype. */
static int64_t units(void)
{
	return strncmp(cg_describe(context), "cuda", 4) ? 7 : 8;
}

/* Returns the memory of step t of a sequence [T, B, columns]. */
static struct cg_mem step(struct cg_mem mem, int64_t t)
{
	mem.bytes /= T;
	mem.data = (char *)mem.data + (size_t)t * mem.bytes;
	return mem;
}

/* Returns step t of the sequence as a call of the cell, on the arguments of the sequence. */
static struct cg_lstm_block cell(const struct sequence *s, int64_t t)
{
	struct cg_lstm_block c = s->op;

	c.T = 1;
	c.x = step(c.x, t);
	c.i = step(c.i, t), c.cs = step(c.cs, t), c.f = step(c.f, t), c.o = step(c.o, t);
	c.ci = step(c.ci, t), c.co = step(c.co, t), c.h = step(c.h, t);
	c.dgates = step(c.dgates, t);
	if (t) {
		c.cs_prev = step(s->op.cs, t - 1);
		c.h_prev = step(s->op.h, t - 1);
	}
	c.cs_grad = step(c.cs_grad, t);
	c.h_grad = step(c.h_grad, t);
	return c;
}

static void forward_is_cells(int dtype, int peephole, int gates)
{
	struct sequence whole, cells;

	make(&whole, dtype, T, B, units(), peephole);
	make(&cells, dtype, T, B, units(), peephole);
	whole.op.gates = cells.op.gates = gates;
	run(&whole, 0);
	for (int64_t t = 0; t < T; t++) {
		struct cg_lstm_block c = cell(&cells, t);

		assert_int_equal(cg_lstm_block_forward(stream, &c), CG_OK);
	}
	for (const struct cg_port *port = row_of(0)->ports; port->name; port++)
		same(*mem_of(&whole.op, port), *mem_of(&cells.op, port), mem_of(&whole.op, port)->bytes, port->name, dtype);
	free_sequence(&whole);
	free_sequence(&cells);
}

/* Compares dgates and the gradients of cs_prev and h_prev with those of the cell, called step by step, for a loss on the last cs alone: the
   upstream gradients of the other steps are zero, and add no rounding. */
static void grad_is_cells(int dtype, int peephole)
{
	struct sequence whole, cells;
	struct cg_mem carried[2][2];

	make(&whole, dtype, T, B, units(), peephole);
	make(&cells, dtype, T, B, units(), peephole);
	run(&whole, 0);
	run(&cells, 0);
	want_only(&whole, "cs_prev_grad h_prev_grad dgates");
	want_only(&cells, "cs_prev_grad h_prev_grad dgates");
	whole.op.h_grad = (struct cg_mem){ .data = NULL };
	memset(whole.op.cs_grad.data, 0, whole.op.cs_grad.bytes / T * (T - 1));
	run(&whole, 1);
	for (int k = 0; k < 2; k++)
		for (int j = 0; j < 2; j++) {
			carried[k][j] = cells.op.cs_prev;
			carried[k][j].data = cells.blocks[cells.n++] = malloc(cells.op.cs_prev.bytes);
			assert_non_null(carried[k][j].data);
		}
	for (int64_t t = T - 1; t >= 0; t--) {
		struct cg_lstm_block c = cell(&cells, t);

		c.h_grad = (struct cg_mem){ .data = NULL };
		if (t < T - 1) {
			c.cs_grad = carried[(t + 1) % 2][0];
			c.h_grad = carried[(t + 1) % 2][1];
		}
		c.cs_prev_grad = t ? carried[t % 2][0] : cells.op.cs_prev_grad;
		c.h_prev_grad = t ? carried[t % 2][1] : cells.op.h_prev_grad;
		assert_int_equal(cg_lstm_block_grad(stream, &c), CG_OK);
	}
	same(whole.op.dgates, cells.op.dgates, whole.op.dgates.bytes, "dgates", dtype);
	same(whole.op.cs_prev_grad, cells.op.cs_prev_grad, whole.op.cs_prev_grad.bytes, "cs_prev_grad", dtype);
	same(whole.op.h_prev_grad, cells.op.h_prev_grad, whole.op.h_prev_grad.bytes, "h_prev_grad", dtype);
	free_sequence(&whole);
	free_sequence(&cells);
}

static void steps_are_cells(int dtype)
{
	for (int peephole = 0; peephole < 2; peephole++) {
		forward_is_cells(dtype, peephole, CG_ICFO);
		forward_is_cells(dtype, peephole, CG_IFCO);
		grad_is_cells(dtype, peephole);
	}
}

static void test_steps_are_cells(void **state)
{
	(void)state;
	on_every_backend(steps_are_cells);
}

/* ---- beyond seq_len_max ---- */

/* Sets the inputs of steps from `length` on, which are not to be read, to NaN. */
static void spoil(struct sequence *s, int64_t length)
{
	size_t each = cg_dtype_bytes(s->op.dtype);

	for (const struct cg_port *port = row_of(1)->ports; port->name; port++) {
		struct cg_mem mem = *mem_of(&s->op, port);
		size_t first = mem.bytes / T * (size_t)length;

		for (size_t at = first; port->flow == CG_IN && *port->shape == 'T' && mem.data && at < mem.bytes; at += each)
			numbers_encode(s->op.dtype, NAN, (char *)mem.data + at);
	}
}

/* Expects that all outputs of a pass of `whole` equal those of `shorter`, which has `length` steps, and are zeros in later steps. */
static void prefix(struct sequence *whole, struct sequence *shorter, int is_grad, int64_t length)
{
	shorten(row_of(is_grad), &shorter->op);
	run(whole, is_grad);
	run(shorter, is_grad);
	for (const struct cg_port *port = row_of(is_grad)->ports; port->name; port++) {
		struct cg_mem mem = *mem_of(&whole->op, port);
		size_t bytes = *port->shape == 'T' ? mem.bytes / T * (size_t)length : mem.bytes;

		if (port->flow == CG_IN)
			continue;
		same(mem, *mem_of(&shorter->op, port), bytes, port->name, whole->op.dtype);
		zeros(mem, bytes, port->name, whole->op.dtype);
	}
}

static void length_is_a_prefix(int dtype)
{
	for (int64_t length = 0; length <= T; length++) {
		struct sequence whole, shorter;

		make(&whole, dtype, T, B, 7, length % 2);
		make(&shorter, dtype, T, B, 7, length % 2);
		shorter.op.T = length;
		whole.op.seq_len_max = length;
		spoil(&whole, length);
		prefix(&whole, &shorter, 0, length);
		spoil(&whole, length);
		prefix(&whole, &shorter, 1, length);
		free_sequence(&whole);
		free_sequence(&shorter);
	}
}

static void test_length_is_a_prefix(void **state)
{
	(void)state;
	on_every_backend(length_is_a_prefix);
}

/* With seq_len_max 0 all gradients are zero, except that with `accumulate` those of w, b and the peepholes are unchanged. */
static void no_step(int dtype)
{
	for (int accumulate = 0; accumulate < 2; accumulate++) {
		struct sequence s, old;

		make(&s, dtype, T, B, 7, 1);
		make(&old, dtype, T, B, 7, 1);
		spoil(&s, 0);
		s.op.seq_len_max = 0;
		s.op.accumulate = accumulate;
		for (const struct cg_port *port = row_of(1)->ports; port->name; port++)
			if (port->flow == CG_OUT_SUM) {
				unsigned long long same_state = 5, both = 5;

				draw(*mem_of(&s.op, port), dtype, &same_state);
				draw(*mem_of(&old.op, port), dtype, &both);
			}
		run(&s, 1);
		for (const struct cg_port *port = row_of(1)->ports; port->name; port++) {
			struct cg_mem mem = *mem_of(&s.op, port);

			if (port->flow == CG_OUT_SUM && accumulate)
				same(mem, *mem_of(&old.op, port), mem.bytes, port->name, dtype);
			else if (port->flow != CG_IN)
				zeros(mem, 0, port->name, dtype);
		}
		free_sequence(&s);
		free_sequence(&old);
	}
}

static void test_no_step(void **state)
{
	(void)state;
	on_every_backend(no_step);
}

/* A batch without rows may have 2^59 steps; its weight gradients are zero. */
static void no_rows(int dtype)
{
	struct sequence s;

	make(&s, dtype, (int64_t)1 << 59, 0, 7, 1);
	run(&s, 0);
	run(&s, 1);
	zeros(s.op.w_grad, 0, "w_grad", dtype);
	zeros(s.op.wci_grad, 0, "wci_grad", dtype);
	zeros(s.op.b_grad, 0, "b_grad", dtype);
	free_sequence(&s);
}

static void test_no_rows(void **state)
{
	(void)state;
	on_every_backend(no_rows);
}

/* ---- V1 and V2 ---- */

/* Exchanges the two middle ones of the four blocks, of `block` bytes each, in each row of memory. */
static void exchange(struct cg_mem mem, size_t block)
{
	for (char *row = mem.data, *end = row + mem.bytes; row < end; row += 4 * block)
		for (size_t k = block; k < 2 * block; k++) {
			char kept = row[k];

			row[k] = row[k + block];
			row[k + block] = kept;
		}
}

/* The forward pass gives the same bits in both orders of the gates. Each gate's block has 16 columns, so that it fills whole vectors in
   either order. */
static void orders_agree(int dtype)
{
	size_t block = 16 * cg_dtype_bytes(dtype);
	struct sequence one, two;

	make(&one, dtype, T, B, 16, 1);
	make(&two, dtype, T, B, 16, 1);
	one.op.forget_bias = two.op.forget_bias = 0;
	two.op.gates = CG_IFCO;
	exchange(two.op.w, block);
	exchange(two.op.b, block);
	run(&one, 0);
	run(&two, 0);
	for (const struct cg_port *port = row_of(0)->ports; port->name; port++)
		if (port->flow != CG_IN)
			same(*mem_of(&two.op, port), *mem_of(&one.op, port), mem_of(&one.op, port)->bytes, port->name, dtype);
	free_sequence(&one);
	free_sequence(&two);
}

static void test_orders_agree(void **state)
{
	(void)state;
	on_every_backend(orders_agree);
}

/* ---- threads and repeats ---- */

/* The sequence is large enough for several tiles and blocks, and long enough for packed weights. One thread and all threads of the cpu
   backend give the same bits, and so does a second call with all threads. */
static void test_threads(void **state)
{
	static const char *const threads[] = { "1", "", "" };
	enum { RUNS = 3, STEPS = 8, ROWS = 90, UNITS = 140 };

	(void)state;
	for (int dtype = 0; dtype < DTYPES; dtype++) {
		struct sequence s[RUNS];

		for (int k = 0; k < RUNS; k++) {
			make(&s[k], dtype, STEPS, ROWS, UNITS, 1);
			setenv("CELLGRAD_CPU_THREADS", threads[k], 1);
			assert_true(opens(getenv("CELLGRAD_FAKE_CUDA") ? "cuda" : "cpu"));
			run(&s[k], 0);
			run(&s[k], 1);
			closes();
		}
		for (int k = 1; k < RUNS; k++)
			for (int is_grad = 0; is_grad < 2; is_grad++)
				for (const struct cg_port *port = row_of(is_grad)->ports; port->name; port++)
					same(*mem_of(&s[k].op, port), *mem_of(&s[0].op, port), mem_of(&s[k].op, port)->bytes, port->name, dtype);
		for (int k = 0; k < RUNS; k++)
			free_sequence(&s[k]);
	}
	unsetenv("CELLGRAD_CPU_THREADS");
}

/* ---- spans ---- */

/* Returns a call of the steps from `first` to before `end` of a sequence. The call has the cs_prev and h_prev of the whole sequence; the
   test replaces both before it runs a call of a later part. */
static struct cg_lstm_block part_of(const struct sequence *s, int64_t first, int64_t end)
{
	struct cg_lstm_block part = s->op;

	part.T = end - first;
	for (int is_grad = 0; is_grad < 2; is_grad++)
		for (const struct cg_port *port = row_of(is_grad)->ports; port->name; port++) {
			const struct cg_mem *whole = (const struct cg_mem *)(const void *)((const char *)&s->op + port->at);
			size_t step = whole->bytes / (size_t)s->op.T;

			if (*port->shape == 'T')
				*mem_of(&part, port) = (struct cg_mem){ .data = (char *)whole->data + (size_t)first * step, .bytes = (size_t)part.T * step };
		}
	return part;
}

/* Adds to the upstream gradient of a state the gradient that the later steps give. */
static void add(struct cg_mem sum, struct cg_mem addend)
{
	for (size_t k = 0; k < addend.bytes / sizeof(double); k++)
		((double *)sum.data)[k] += ((double *)addend.data)[k];
}

/* Makes weights so small that gradients do not grow from step to step: then the terms of all steps count in a sum over the steps. */
static void tame(struct sequence *s)
{
	for (size_t k = 0; k < s->op.w.bytes / sizeof(double); k++)
		((double *)s->op.w.data)[k] /= 128;
}

static void near(struct cg_mem got, struct cg_mem wanted, const char *what)
{
	const double *x = got.data, *y = wanted.data;
	double most = 0;

	for (size_t k = 0; k < wanted.bytes / sizeof *y; k++)
		most = fmax(most, fabs(y[k]));
	for (size_t k = 0; k < wanted.bytes / sizeof *y; k++)
		if (!(fabs(x[k] - y[k]) <= 1e-11 * most))
			fail_msg("%s[%zu]: expected %.17g, got %.17g", what, k, y[k], x[k]);
}

static void test_spans(void **state)
{
	enum { STEPS = 1300, ROWS = 4, UNITS = 64, CUT = 300 };
	struct sequence whole, parts;
	struct cg_lstm_block first, second, last;        /* last: a call of the last step of the first part */

	(void)state;
	if (!opens("cpu"))
		return;
	make(&whole, CG_F64, STEPS, ROWS, UNITS, 0);
	make(&parts, CG_F64, STEPS, ROWS, UNITS, 0);
	tame(&whole);
	tame(&parts);
	run(&whole, 0);
	run(&whole, 1);
	first = part_of(&parts, 0, CUT);
	last = part_of(&parts, CUT - 1, CUT);
	second = part_of(&parts, CUT, STEPS);
	second.cs_prev = last.cs;
	second.h_prev = last.h;
	assert_int_equal(cg_lstm_block_forward(stream, &first), CG_OK);
	assert_int_equal(cg_lstm_block_forward(stream, &second), CG_OK);
	assert_int_equal(cg_lstm_block_grad(stream, &second), CG_OK);
	add(last.cs_grad, second.cs_prev_grad);
	add(last.h_grad, second.h_prev_grad);
	first.accumulate = 1;
	assert_int_equal(cg_lstm_block_grad(stream, &first), CG_OK);
	for (int is_grad = 0; is_grad < 2; is_grad++)
		for (const struct cg_port *port = row_of(is_grad)->ports; port->name; port++)
			if (port->flow != CG_IN)
				near(*mem_of(&whole.op, port), *mem_of(&parts.op, port), port->name);
	free_sequence(&whole);
	free_sequence(&parts);
	closes();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_steps_are_cells),
		cmocka_unit_test(test_length_is_a_prefix),
		cmocka_unit_test(test_no_step),
		cmocka_unit_test(test_no_rows),
		cmocka_unit_test(test_orders_agree),
		cmocka_unit_test(test_threads),
		cmocka_unit_test(test_spans),
		cmocka_unit_test(test_nothing_left),
	};

	counted_begin();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("sequences", tests, NULL, NULL);
}
