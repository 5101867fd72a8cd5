/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that networks need: the bytes by which the reserve and the workspace of each pass grow with more steps, compared, cell by
 * cell, with the table of runtime/README.md; and a reserve has at most 1.1 times the bytes of the values that the cell saves.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "runtime/rnn/rnn.h"
#include "tests/help/counted.h"

static struct cg_context *context;

/* A row of the table: how many vectors of U elements a valid step takes, in the reserve and in the workspace of each pass, in the dtype
   (real) and in the dtype of sums (acc); sums: how many vectors CG_SUM_ROWS valid steps take in backward. */
struct row { char cell[32], options[32]; int reserve_real, reserve_acc, forward_acc, backward_real, backward_acc, sums; };

enum { ROWS = 32 };
static struct row rows[ROWS];
static int n_rows;

/* Reads the table's rows, which look like "| `lstm` | `peephole` | 5 | 1 | 4 | 4 | 1 | 7 |". */
static int read_table(void **state)
{
	const char *srcdir = getenv("srcdir");
	char path[4096], line[512];
	FILE *file;

	(void)state;
	snprintf(path, sizeof path, "%s/runtime/README.md", srcdir ? srcdir : ".");
	file = fopen(path, "r");
	while (file && n_rows < ROWS && fgets(line, sizeof line, file)) {
		struct row *r = &rows[n_rows];

		memset(r, 0, sizeof *r);
		if (sscanf(line, "| `%31[a-z_]` | `%31[a-z_]` | %d | %d | %d | %d | %d | %d |", r->cell, r->options, &r->reserve_real,
		           &r->reserve_acc, &r->forward_acc, &r->backward_real, &r->backward_acc, &r->sums) == 8 ||
		    sscanf(line, "| `%31[a-z_]` | | %d | %d | %d | %d | %d | %d |", r->cell, &r->reserve_real, &r->reserve_acc,
		           &r->forward_acc, &r->backward_real, &r->backward_acc, &r->sums) == 7)
			n_rows++;
	}
	if (file)
		fclose(file);
	return cg_open("cpu:threads=1", &context);
}

static int close_context(void **state)
{
	(void)state;
	cg_close(context);
	return 0;
}

/* With these sizes only rows of gates need padding, by gap_of(): the sizes of arrays are multiples of 64 bytes already, and the numbers
   of their rows are multiples of CG_SUM_ROWS. */
enum { I = 96, U = 64, B = 32, STEPS = 10 * CG_SUM_ROWS / B };

static struct cg_rnn *open_plan(const struct row *r, int dtype, int layers, int bidirectional, double dropout)
{
	struct cg_rnn_config c;
	struct cg_rnn *rnn;

	cg_rnn_config_init(&c, sizeof c);
	c.cell = cg_cell_find(r->cell);
	c.options = r->options;
	c.dtype = dtype;
	c.layers = layers;
	c.bidirectional = bidirectional;
	c.dropout = dropout;
	c.input = I;
	c.units = U;
	if (cg_rnn_open(context, &c, &rnn))
		fail_msg("%s %s: %s", r->cell, r->options, cg_message());
	return rnn;
}

static size_t work_of(const struct cg_rnn *rnn, int pass, int64_t steps, int is_whole)
{
	struct cg_rnn_shape shape = { .B = B, .N = B * steps, .is_whole = is_whole, .input_in_place = is_whole, .output_in_place = is_whole };

	return cg_layers_lay_out_workspace(rnn, pass, 1, &shape);
}

/* The bytes by which the workspace of a pass grows with STEPS more steps of B rows. */
static size_t more(const struct cg_rnn *rnn, int pass, int is_whole)
{
	return work_of(rnn, pass, 2 * STEPS, is_whole) - work_of(rnn, pass, STEPS, is_whole);
}

static void expect(const struct row *r, const char *what, int dtype, size_t got, size_t expected)
{
	if (got != expected)
		fail_msg("%s %s, %s, dtype %d: the table gives %zu bytes, it is %zu", r->cell, r->options, what, dtype, expected, got);
}

/* The bytes between the end of one row of gates and the next row; `bytes`: those of an element. */
static size_t gap_of(const struct cg_rnn *rnn, size_t bytes)
{
	return (size_t)rnn->n_blocks * U * bytes % 1024 ? 0 : 64;
}

static void check_row(const struct row *r, int dtype, int layers, int D, int straight, double dropout)
{
	struct cg_rnn *rnn = open_plan(r, dtype, layers, D - 1, dropout);
	size_t real = cg_dtype_bytes(dtype), acc = cg_acc_bytes(dtype), steps = (size_t)B * STEPS;
	size_t wide = (size_t)D * U, x = layers > 1 && wide > I ? wide : I, drops = layers > 1 && dropout > 0, ragged = !straight;
	size_t reals = (size_t)r->backward_real * U + x + (layers > 1 ? wide : 0) + ragged * U + (ragged || drops ? wide : 0);
	size_t accs = (size_t)r->backward_acc * U + x + (ragged && D == 2 ? x : 0), gap = rnn->keeps_gates ? 0 : gap_of(rnn, acc);
	struct cg_rnn_sizes few, many;

	assert_int_equal(cg_rnn_sizes(rnn, STEPS, B, NULL, &few), CG_OK);
	assert_int_equal(cg_rnn_sizes(rnn, 2 * STEPS, B, NULL, &many), CG_OK);
	expect(r, "reserve", dtype, many.reserve - few.reserve,
	       steps * (size_t)(layers * D) * U * ((size_t)r->reserve_real * real + (size_t)r->reserve_acc * acc));
	expect(r, "forward", dtype, more(rnn, CG_FORWARD, straight), steps * ((size_t)r->forward_acc * U * acc + gap + x * real));
	expect(r, "backward", dtype, more(rnn, CG_GRAD, straight),
	       steps * (reals * real + gap_of(rnn, real) + accs * acc) + steps / CG_SUM_ROWS * (size_t)r->sums * U * acc);
	cg_rnn_close(rnn);
}

static void test_table(void **state)
{
	(void)state;
	for (int k = 0; k < n_rows * 4 * 2 * 2 * 2 * 2; k++)
		check_row(&rows[k / 64], k % 4, 1 + k / 4 % 2, 1 + k / 8 % 2, k / 16 % 2, k / 32 % 2 * 0.5);
}

/* Expects that the table has a row for every built-in cell, and for every option of one. */
static void test_every_cell(void **state)
{
	int wanted = 0;

	(void)state;
	for (int k = 0; cg_cell_name(k); k++) {
		const struct cg_cell *cell = cg_cell_find(cg_cell_name(k));

		for (int option = -1; option < cell->n_options; option++, wanted++) {
			int found = 0;

			for (int n = 0; n < n_rows; n++)
				found += !strcmp(rows[n].cell, cell->name) &&
				         !strcmp(rows[n].options, option < 0 ? "" : cell->options[option].name);
			if (found != 1)
				fail_msg("%s %s: %d rows", cell->name, option < 0 ? "" : cell->options[option].name, found);
		}
	}
	assert_int_equal(n_rows, wanted);
}

/* The reserve of a network of 2 layers and 512 units has 1 to 1.1 times the bytes of the values that the cell's `save` names, with the cell
   state in the dtype of sums, for every valid step of every pseudo-layer. */
static void test_reserve(void **state)
{
	enum { T = 100, BATCH = 32, UNITS = 512 };
	int32_t lengths[BATCH];
	int64_t valid = 0;

	(void)state;
	for (int b = 0; b < BATCH; b++) {
		lengths[b] = b * 37 % (T + 1);
		valid += lengths[b];
	}
	for (int k = 0; k < n_rows * 4 * 2 * 2; k++) {
		const struct row *r = &rows[k / 16];
		int dtype = k % 4, D = 1 + k / 4 % 2, ragged = k / 8 % 2;
		const struct cg_cell *cell = cg_cell_find(r->cell);
		size_t each = 0, expected;
		struct cg_rnn_config c;
		struct cg_rnn_sizes sizes;
		struct cg_rnn *rnn;

		for (int s = 0; s < cell->n_saves; s++) {
			int is_state = 0;

			for (int p = 0; p < cell->n_prevs; p++)
				is_state |= !cell->prevs[p].output && cell->prevs[p].value == cell->saves[s];
			each += UNITS * (is_state ? cg_acc_bytes(dtype) : cg_dtype_bytes(dtype));
		}
		cg_rnn_config_init(&c, sizeof c);
		c.cell = cell;
		c.options = r->options;
		c.dtype = dtype;
		c.layers = 2;
		c.bidirectional = D - 1;
		c.input = c.units = UNITS;
		assert_int_equal(cg_rnn_open(context, &c, &rnn), CG_OK);
		assert_int_equal(cg_rnn_sizes(rnn, T, BATCH, ragged ? lengths : NULL, &sizes), CG_OK);
		expected = each * (size_t)(ragged ? valid : (int64_t)T * BATCH) * (size_t)(2 * D);
		if (sizes.reserve < expected || sizes.reserve > expected + expected / 10)
			fail_msg("%s %s, dtype %d: %zu bytes of reserve for %zu that are saved", r->cell, r->options, dtype, sizes.reserve, expected);
		cg_rnn_close(rnn);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_every_cell), cmocka_unit_test(test_table), cmocka_unit_test(test_reserve),
		cmocka_unit_test_setup(test_nothing_left, close_context),
	};

	counted_begin();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("rnn_size", tests, read_table, NULL);
}
