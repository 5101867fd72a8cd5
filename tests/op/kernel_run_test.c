/* SPDX-License-Identifier: Apache-2.0 */
/*
 * cg_kernel_run: a cell given as text and interpreted gives the bits of the built-in cell with the same equations, for every pass and
 * dtype, in point kernels and in sums; rows of two views may alternate in memory; a wrong call is rejected before anything is written.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "runtime/op/op.h"
#include "runtime/core/core.h"
#include "tests/help/counted.h"
#include "tests/help/shared_stream.h"

enum { ROWS = 67, UNITS = 9, STRIDE = 11, BYTES = ROWS * STRIDE * 8, ARGS = 48 };

static unsigned char memory[2][ARGS][BYTES];

/* Parses a built-in cell's text under another name, as a user's cell. */
static struct cg_cell *copy(const char *name)
{
	char file[64], text[8192], *at;
	const struct cg_embedded *e = cg_embedded;
	struct cg_cell *cell = NULL;

	snprintf(file, sizeof file, "%s.cell", name);
	while (strcmp(e->name, file))
		e++;
	assert_true(strlen(e->text) < sizeof text - 64);
	strcpy(text, e->text);
	at = strstr(text, "\ncell ");
	assert_non_null(at);
	memmove(at + 12, at + 6, strlen(at + 6) + 1);
	memcpy(at, "\ncell mine_", 11);
	at[11] = 'z';
	assert_int_equal(cg_cell_parse(text, name, &cell), CG_OK);
	return cell;
}

/* Lists the arguments of a kernel by its plan; `which`: in which of two memories the arguments are. Params keep their defaults. */
static int gather(const struct cg_kernel *kernel, int which, struct cg_arg *args)
{
	struct cg_mistake mistake;
	struct cg_pass_plan *plan = cg_plan(kernel->cell, cg_parse_options(kernel->cell, kernel->options, &mistake), kernel->pass,
	                                    kernel->stage, kernel->dtype, cg_memory, &mistake);
	static char names[ARGS][64];
	int n = 0;

	assert_non_null(plan);
	for (int p = 0; p < plan->n_functions; p++)
		for (int k = 0; k < plan->functions[p].n_arguments; k++) {
			const struct cg_argument *a = &plan->functions[p].arguments[k];
			int known = 0;

			if (!cg_is_array(a))
				continue;
			if ((plan->functions[p].shape == CG_FUNCTION_POINT) != (kernel->shape == CG_POINT))
				continue;
			for (int j = 0; j < n; j++)
				known |= !strcmp(names[j], a->name);
			if (known)
				continue;
			assert_true(n < ARGS);
			strcpy(names[n], a->name);
			args[n] = (struct cg_arg){ names[n], { memory[which][n], 0, BYTES, CG_HOST }, STRIDE, 0 };
			n++;
		}
	cg_plan_free(plan);
	return n;
}

/* Fills memory with numbers of order 1 and below, whichever type reads them: two halves also form a float, and none is a NaN. */
static void fill(int dtype)
{
	unsigned long long state = 7;
	size_t bytes = cg_dtype_bytes(dtype);
	unsigned char *first = (unsigned char *)memory;

	for (size_t at = 0; at < sizeof memory[0]; at += bytes) {
		double d = (double)(state >> 33) / 4294967296.0 + 0.1;
		float f = (float)d;
		uint16_t half = (uint16_t)((dtype == CG_F16 ? 0x3000 : 0x3e00) + (state >> 40) % (dtype == CG_F16 ? 0xc00 : 0x180));

		memcpy(first + at, dtype == CG_F64 ? (void *)&d : dtype == CG_F32 ? (void *)&f : (void *)&half, bytes);
		state = state * 6364136223846793005u + 1442695040888963407u;
	}
	memcpy(memory[1], memory[0], sizeof memory[0]);
}

static void test_bits(void **state)
{
	static const char *const options[] = { "", "peephole" };
	int compared = 0;

	(void)state;
	for (int c = 0; cg_cell_name(c); c++) {
		const struct cg_cell *own = cg_cell_find(cg_cell_name(c));
		struct cg_cell *mine = copy(cg_cell_name(c));

		for (int o = 0; o <= own->n_options; o++)
			for (int pass = CG_FORWARD; pass <= CG_SEQ_GRAD; pass++)
				for (int dtype = CG_F32; dtype <= CG_BF16; dtype++)
					for (int stage = 1; stage <= own->n_stages; stage++)
						for (int shape = CG_POINT; shape <= CG_SUM; shape++) {
							struct cg_kernel a = { own, options[o], stage, pass, dtype, shape }, b = a;
							struct cg_arg x[ARGS], y[ARGS];
							int n = gather(&a, 0, x);

							b.cell = mine;
							assert_int_equal(gather(&b, 1, y), n);
							fill(dtype);
							if (cg_kernel_run(stream, &a, ROWS, UNITS, x, n) ||
							    cg_kernel_run(stream, &b, ROWS, UNITS, y, n))
								fail_msg("%s: %s", cg_cell_name(c), cg_message());
							if (memcmp(memory[0], memory[1], sizeof memory[0]))
								fail_msg("%s %s: other bits", cg_cell_name(c), cg_pass_names[pass]);
							compared++;
						}
		/* The cell is closed while the context keeps kernels of it. */
		cg_cell_close(mine);
	}
	print_message("# %d kernels of cells given as text, compared with those of the built-in cells\n", compared);
	assert_true(compared > 100);
}

#define REFUSED(text) do { \
	assert_int_equal(cg_kernel_run(stream, &kernel, 2, 3, args, n), CG_BAD_ARGUMENT); \
	if (!strstr(cg_message(), text)) \
		fail_msg("expected \"%s\" in \"%s\"", text, cg_message()); \
	for (int k_ = 0; k_ < 6; k_++) \
		assert_true(h[k_] == 5); \
} while (0)

static void test_refusals(void **state)
{
	static const char text[] = "cell x\ngates a\nparam p, q = 2\nstate c\noutput h\nc = a * q + c_prev\nh = tanh(c) * p\n";
	struct cg_cell *cell;
	struct cg_kernel kernel = { .pass = CG_FORWARD };
	float h[6] = { 5, 5, 5, 5, 5, 5 }, in[6] = { 1, 2, 3, 4, 5, 6 };
	const struct cg_mem six = { in, 0, sizeof in, CG_HOST }, out = { h, 0, sizeof h, CG_HOST };
	struct cg_arg args[5] = { { "a", six, 3, 0 }, { "c_prev", six, 3, 0 }, { "h", out, 3, 0 }, { "p", { 0 }, 0, 1 } };
	int n = 4;

	(void)state;
	REFUSED("cell: expected a cell, got NULL");
	assert_int_equal(cg_cell_parse(text, "x", &cell), CG_OK);
	kernel.cell = cell;
	args[0].name = "b";
	REFUSED("has no argument 'b'");
	args[0].name = "c_prevv";
	REFUSED("did you mean 'c_prev'?");
	args[0].name = "c_prev";
	REFUSED("args: argument 'c_prev' is given twice");
	args[0].name = NULL;
	REFUSED("args[0]: name: expected the name of an argument, got NULL");
	args[0].name = "a";
	n = 3;
	REFUSED("p: missing: expected a value, since the param has no default");
	n = 4;
	args[1].name = "q";
	REFUSED("c_prev: missing: expected [rows, units]");
	args[1].name = "c_prev";
	args[0].mem.bytes -= 1;
	REFUSED("a: expected [2, 3] f32, at least 24 bytes, got 23 bytes");
	args[0].mem.bytes += 1;
	args[0].stride = 2;
	REFUSED("a: stride: expected at least units=3, got 2");
	args[0].stride = INT64_MAX / 2;
	REFUSED("a: expected rows that span at most PTRDIFF_MAX/8 elements, got 2 rows with a stride of");
	args[0].stride = 3;
	args[0].mem.place = 9;
	REFUSED("a: cg_mem.place: expected CG_HOST=0 or CG_DEVICE=1, got 9");
	args[0].mem.place = CG_HOST;
	args[0].mem.offset = 2;
	args[0].mem.bytes = 1000;
	REFUSED("a: cg_mem: expected an offset and, in host memory, data that are multiples of");
	args[0].mem = out;
	REFUSED("h: this output overlaps a");
	args[0].mem = six;
	kernel.stage = 2;
	REFUSED("stage");
	kernel.stage = 0;
	kernel.shape = CG_SCAN;
	assert_int_equal(cg_kernel_run(stream, &kernel, 2, 3, args, n), CG_UNSUPPORTED);
	kernel.shape = CG_POINT;
	assert_int_equal(cg_kernel_run(stream, &kernel, -1, 3, args, n), CG_BAD_ARGUMENT);
	assert_int_equal(cg_kernel_run(stream, &kernel, 2, 0, args, n), CG_BAD_ARGUMENT);
	assert_int_equal(cg_kernel_run(NULL, &kernel, 2, 3, args, n), CG_BAD_ARGUMENT);
	assert_int_equal(cg_kernel_run(stream, &kernel, 2, 3, NULL, n), CG_BAD_ARGUMENT);
	assert_string_equal(cg_message(), "cg_kernel_run: args: expected n=4 arguments, got NULL");
	kernel.cell = cg_cell_find("gru_block");
	REFUSED("stage: expected one stage of cell gru_block, 1 to 2");
	kernel.cell = cell;
	assert_int_equal(cg_kernel_run(stream, &kernel, 0, 3, args, n), CG_OK);
	assert_true(h[0] == 5);
	assert_int_equal(cg_kernel_run(stream, &kernel, 2, 3, args, n), CG_OK);
	assert_true(h[0] > 0.99f && h[5] <= 1);
	cg_cell_close(cell);
}

/* The bytes of an argument's element, by the plan. */
static size_t element_of(const struct cg_kernel *kernel, const char *name)
{
	struct cg_mistake mistake;
	struct cg_pass_plan *plan = cg_plan(kernel->cell, cg_parse_options(kernel->cell, kernel->options, &mistake), kernel->pass,
	                                    kernel->stage, kernel->dtype, cg_memory, &mistake);
	size_t bytes = 0;

	assert_non_null(plan);
	for (int k = 0; k < plan->functions[0].n_arguments; k++)
		if (!strcmp(plan->functions[0].arguments[k].name, name))
			bytes = plan->functions[0].arguments[k].type != CG_TYPE_ACC ? cg_dtype_bytes(kernel->dtype) : kernel->dtype == CG_F64 ? 8 : 4;
	cg_plan_free(plan);
	return bytes;
}

/* Expects of each argument, whose elements are of type acc or real, that device memory is rejected if its offset is no multiple of an
 * element's size, and else accepted. */
static void test_device_offsets(void **state)
{
	static const char text[] = "cell x\ngates a\nstate c\noutput h\noption o w\nc = a + w * c_prev\nh = tanh(c)\nsave c\n";
	enum { ROWS_HERE = 2, UNITS_HERE = 3, EACH = ROWS_HERE * UNITS_HERE * 8 };
	struct cg_kernel kernel = { .pass = CG_SEQ_FORWARD, .options = "o" };
	int tried = 0;

	(void)state;
	assert_int_equal(cg_cell_parse(text, "x", (struct cg_cell **)&kernel.cell), CG_OK);
	for (kernel.dtype = CG_F32; kernel.dtype <= CG_BF16; kernel.dtype++) {
		struct cg_mem memory;
		struct cg_arg args[ARGS];
		int n = gather(&kernel, 0, args);

		assert_true(n >= 5);
		assert_int_equal(cg_alloc(context, (size_t)n * EACH, &memory), CG_OK);
		for (int k = 0; k < n; k++) {
			args[k].mem = memory;
			args[k].mem.offset += (size_t)k * EACH;
			args[k].mem.bytes = EACH;
			args[k].stride = UNITS_HERE;
		}
		assert_int_equal(cg_kernel_run(stream, &kernel, ROWS_HERE, UNITS_HERE, args, n), CG_OK);
		for (int k = 0; k < n * 7; k++) {
			struct cg_mem *m = &args[k / 7].mem, good = *m;
			size_t offset = 1 + (size_t)k % 7, element = element_of(&kernel, args[k / 7].name);
			char start[80];
			int code;

			m->offset += offset;
			m->bytes -= offset;
			code = cg_kernel_run(stream, &kernel, ROWS_HERE, UNITS_HERE, args, n);
			snprintf(start, sizeof start, "cg_kernel_run: %s: ", args[k / 7].name);
			if (code != (offset % element ? CG_BAD_ARGUMENT : CG_OK) || (code && strncmp(cg_message(), start, strlen(start))))
				fail_msg("%s, dtype %d, offset %zu: code %d, %s", args[k / 7].name, kernel.dtype, offset, code, code ? cg_message() : "");
			tried += code != CG_OK;
			*m = good;
		}
		cg_free(context, &memory);
	}
	assert_true(tried > 100);
	cg_cell_close((struct cg_cell *)kernel.cell);
}

/* A sum, whose output is one row, is rejected if the memory of its input is too small for the rows and units, also if no memory can hold
   them. */
static void test_sizes(void **state)
{
	struct cg_kernel kernel = { .cell = cg_cell_find("rnn_tanh"), .pass = CG_GRAD, .shape = CG_SUM };
	float in[3] = { 1, 2, 3 }, sum[3] = { 5, 5, 5 };
	struct cg_arg args[2] = { { "da", { in, 0, sizeof in, CG_HOST }, 3, 0 }, { "db_a", { sum, 0, sizeof sum, CG_HOST }, 0, 0 } };

	(void)state;
	assert_int_equal(cg_kernel_run(stream, &kernel, INT64_MAX, 3, args, 2), CG_BAD_ARGUMENT);
	assert_int_equal(cg_kernel_run(stream, &kernel, INT64_MAX / 4, 3, args, 2), CG_BAD_ARGUMENT);
	assert_int_equal(cg_kernel_run(stream, &kernel, 1, INT64_MAX, args, 2), CG_BAD_ARGUMENT);
	assert_int_equal(cg_kernel_run(stream, &kernel, 2, 3, args, 2), CG_BAD_ARGUMENT);
	assert_true(sum[0] == 5 && sum[2] == 5);
	assert_int_equal(cg_kernel_run(stream, &kernel, 1, 3, args, 2), CG_OK);
	assert_true(sum[0] == 1 && sum[2] == 3);
}

/* Two outputs whose rows alternate in memory do not overlap; shifted by an element they do. */
static void test_between(void **state)
{
	struct cg_kernel kernel = { .cell = cg_cell_find("gru_block"), .stage = 1, .pass = CG_FORWARD };
	float both[12] = { 0 }, in[6] = { 1, 2, 3, 4, 5, 6 };
	const struct cg_mem six = { in, 0, sizeof in, CG_HOST };
	struct cg_arg args[5] = { { "a_r", six, 3, 0 }, { "a_u", six, 3, 0 }, { "h_prev", six, 3, 0 },
		{ "r", { both, 0, sizeof both, CG_HOST }, 6, 0 }, { "u", { both, 12, sizeof both - 12, CG_HOST }, 6, 0 } };

	(void)state;
	assert_int_equal(cg_kernel_run(stream, &kernel, 2, 3, args, 5), CG_OK);
	for (int k = 0; k < 12; k++)
		assert_true(both[k] > 0.5f && both[k] < 1);
	args[4].mem.offset -= 4;
	assert_int_equal(cg_kernel_run(stream, &kernel, 2, 3, args, 5), CG_BAD_ARGUMENT);
	assert_non_null(strstr(cg_message(), "overlaps"));
}

/* A user's cell that has a built-in cell's name and another equation is computed by its own equation. */
static void test_namesake(void **state)
{
	struct cg_cell *cell;
	struct cg_kernel kernel = { .pass = CG_FORWARD, .dtype = CG_F32, .shape = CG_POINT };
	float a[] = { 0.5f }, h[2][1];
	struct cg_arg args[] = { { "a", { a, 0, sizeof a, CG_HOST }, 1, 0 }, { "h", { h[0], 0, sizeof h[0], CG_HOST }, 1, 0 } };

	(void)state;
	kernel.cell = cg_cell_find("rnn_tanh");
	assert_int_equal(cg_kernel_run(stream, &kernel, 1, 1, args, 2), CG_OK);
	assert_int_equal(cg_cell_parse("cell rnn_tanh\ngates a\noutput h\nh = tanh(a) * 2\n", "mine", &cell), CG_OK);
	kernel.cell = cell;
	args[1].mem.data = h[1];
	assert_int_equal(cg_kernel_run(stream, &kernel, 1, 1, args, 2), CG_OK);
	assert_true(h[0][0] > 0.4f && h[1][0] == 2 * h[0][0]);
	cg_cell_close(cell);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_bits), cmocka_unit_test(test_refusals), cmocka_unit_test(test_device_offsets), cmocka_unit_test(test_sizes),
		cmocka_unit_test(test_between), cmocka_unit_test(test_namesake),
		cmocka_unit_test_setup(test_nothing_left, close_all),
	};

	counted_begin();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("kernel_run", tests, open_named, NULL);
}
