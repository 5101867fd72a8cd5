/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Networks opened with a wrong config: wrong fields, options, values and cells, and sizes too large for any memory; and wrong arguments of
 * the calls that return sizes and regions. Each wrong argument is rejected with a message, and no result is written.
 */
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "runtime/cellgrad.h"
#include "tests/help/counted.h"

#ifdef CG_CUDA
#define ROUTES "composed, scan or cudnn"
#else
#define ROUTES "composed or scan"
#endif

static struct cg_context *context;

/* ---- what is opened ---- */

static struct cg_rnn_config good(void)
{
	struct cg_rnn_config c;

	cg_rnn_config_init(&c, sizeof c);
	c.layers = 2;
	c.input = 3;
	c.units = 4;
	return c;
}

static void opens(const struct cg_rnn_config *c)
{
	struct cg_rnn *rnn;

	if (cg_rnn_open(context, c, &rnn))
		fail_msg("%s", cg_message());
	cg_rnn_close(rnn);
}

static void refused(const struct cg_rnn_config *c, int code, const char *message)
{
	struct cg_rnn *rnn = (void *)&rnn;

	assert_int_equal(cg_rnn_open(context, c, &rnn), code);
	assert_string_equal(cg_message(), message);
	assert_null(rnn);
}

/* Expects this message when one field of the config is wrong. */
#define SPOILT(field, value, message) do { \
	struct cg_rnn_config spoilt = good(); \
	spoilt.field = value; \
	refused(&spoilt, CG_BAD_ARGUMENT, message); \
} while (0)

static void test_config(void **state)
{
	struct cg_rnn_config c = good();
	struct cg_rnn *rnn = (void *)&rnn;

	(void)state;
	opens(&c);
	refused(NULL, CG_BAD_ARGUMENT, "rnn: expected a struct cg_rnn_config, got NULL");
	assert_int_equal(cg_rnn_open(context, &c, NULL), CG_BAD_ARGUMENT);
	assert_string_equal(cg_message(), "cg_rnn_open: rnn: expected a pointer for the result, got NULL");
	assert_int_equal(cg_rnn_open(NULL, &c, &rnn), CG_BAD_ARGUMENT);
	assert_string_equal(cg_message(), "cg_rnn_open: context or stream: expected a pointer, got NULL");
	assert_null(rnn);
	cg_rnn_close(NULL);
	assert_string_equal(cg_rnn_route(NULL), "");

	SPOILT(cell, NULL, "rnn: cell: expected a cell, got NULL");
	SPOILT(dtype, 4, "rnn: dtype: expected an enum cg_dtype, got 4");
	SPOILT(dtype, -1, "rnn: dtype: expected an enum cg_dtype, got -1");
	SPOILT(bidirectional, 2, "rnn: bidirectional: expected 0 to 1, got 2");
	SPOILT(bidirectional, -1, "rnn: bidirectional: expected 0 to 1, got -1");
	SPOILT(input_mode, 3, "rnn: input_mode: expected 0 to 2, got 3");
	SPOILT(input_mode, -1, "rnn: input_mode: expected 0 to 2, got -1");
	SPOILT(input_mode, CG_SKIP, "rnn: input_mode: skip needs input and units to be equal, got input=3 and units=4");
	SPOILT(time_major, 2, "rnn: time_major: expected 0 to 1, got 2");
	SPOILT(reverse, 2, "rnn: reverse: expected 0 to 1, got 2");
	SPOILT(states_major, 2, "rnn: states_major: expected 0 to 1, got 2");
	SPOILT(training, INT_MIN, "rnn: training: expected 0 to 1, got -2147483648");
	SPOILT(allow_tf32, 2, "rnn: allow_tf32: expected 0 to 1, got 2");
	SPOILT(allow_vendor_dropout, -3, "rnn: allow_vendor_dropout: expected 0 to 1, got -3");
	SPOILT(strict_rounding, 2, "rnn: strict_rounding: expected 0 to 1, got 2");
	SPOILT(strict_rounding, -1, "rnn: strict_rounding: expected 0 to 1, got -1");
	SPOILT(layers, 0, "rnn: layers: expected at least 1, got 0");
	SPOILT(layers, INT_MIN, "rnn: layers: expected at least 1, got -2147483648");
	SPOILT(input, 0, "rnn: input: expected at least 1, got 0");
	SPOILT(input, INT64_MIN, "rnn: input: expected at least 1, got -9223372036854775808");
	SPOILT(units, 0, "rnn: units: expected at least 1, got 0");
	SPOILT(units, -4, "rnn: units: expected at least 1, got -4");
	SPOILT(proj, -1, "rnn: proj: expected at least 0, got -1");
	SPOILT(proj, 5, "rnn: proj: expected at most units=4, got 5");
	SPOILT(dropout, NAN, "rnn: dropout: expected 0 to 1, got nan");
	SPOILT(dropout, -0.1, "rnn: dropout: expected 0 to 1, got -0.1");
	SPOILT(dropout, 1.1, "rnn: dropout: expected 0 to 1, got 1.1");
	SPOILT(dropout, INFINITY, "rnn: dropout: expected 0 to 1, got inf");
	SPOILT(route, "cuddn", "rnn: route: expected " ROUTES ", or NULL for the best route, got 'cuddn'");
	SPOILT(route, "", "rnn: route: expected " ROUTES ", or NULL for the best route, got ''");
	SPOILT(options, "peephol", "rnn: options: cell lstm has no option 'peephol'; it has peephole");
	c.route = "cudnn";
	refused(&c, CG_UNSUPPORTED, "rnn: route: cudnn: the cpu backend has no such route; composed supports every network");
	c.route = "composed";
	opens(&c);
	c.route = "scan";
	opens(&c);
	c.dropout = 1;
	c.proj = 4;
	refused(&c, CG_UNSUPPORTED, "rnn: route: scan does not support this network (projection); composed does");
	c.route = "composed";
	opens(&c);
	c.input_mode = CG_AUTO;
	opens(&c);
}

static void test_the_structs_size(void **state)
{
	struct { struct cg_rnn_config c; char later[16]; } longer = { .c = good() };
	static const size_t first = offsetof(struct cg_rnn_config, strict_rounding);     /* the size of the config in the first header */
	static const size_t wrong[] = { 0, 8, offsetof(struct cg_rnn_config, strict_rounding) - 1, 4 * sizeof longer.c + 1, SIZE_MAX };
	char message[256];

	(void)state;
	for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
		longer.c.size = wrong[k];
		snprintf(message, sizeof message, "rnn: size: expected %zu, got %zu: call cg_rnn_config_init first", sizeof longer.c, wrong[k]);
		refused(&longer.c, CG_BAD_ARGUMENT, message);
	}
	longer.c.size = first;
	longer.c.strict_rounding = 7;            /* the short struct ends before this field, which is not read */
	opens(&longer.c);
	longer.c.strict_rounding = 0;
	longer.c.size = sizeof longer;
	opens(&longer.c);
	longer.later[15] = 1;
	snprintf(message, sizeof message, "rnn: size: expected %zu, got %zu with nonzero fields that this library lacks: call "
	         "cg_rnn_config_init first, or use a later library", sizeof longer.c, sizeof longer);
	refused(&longer.c, CG_BAD_ARGUMENT, message);
}

static void test_values(void **state)
{
	struct cg_value v[] = { { "forget_bias", 1 }, { "cell_clip", -1 }, { "forget_bias", 2 } };
	struct cg_rnn_config c = good();
	struct cg_cell *cell;

	(void)state;
	c.cell = cg_cell_find("lstm_block");
	c.values = v;
	c.n_values = 2;
	opens(&c);
	c.n_values = 3;
	refused(&c, CG_BAD_ARGUMENT, "rnn: values: param forget_bias is given twice");
	c.n_values = -1;
	refused(&c, CG_BAD_ARGUMENT, "rnn: n_values: expected at least 0, got -1");
	c.n_values = 2;
	c.values = NULL;
	refused(&c, CG_BAD_ARGUMENT, "rnn: values: expected n_values=2 values, got NULL");
	c.values = v;
	v[1].name = "cell_clop";
	refused(&c, CG_BAD_ARGUMENT, "rnn: values: cell lstm_block has no param 'cell_clop'");
	v[1].name = NULL;
	refused(&c, CG_BAD_ARGUMENT, "rnn: values: cell lstm_block has no param 'NULL'");
	v[1].name = "cell_clip";
	v[1].value = NAN;
	refused(&c, CG_BAD_ARGUMENT, "rnn: values: param cell_clip: expected a number, got NaN");
	v[1].value = INFINITY;
	opens(&c);

	assert_int_equal(cg_cell_parse("cell p\ngates a\noutput h\nparam s\nh = tanh(s * a)\nsave h\n", "p", &cell), CG_OK);
	c.cell = cell;
	c.n_values = 0;
	refused(&c, CG_BAD_ARGUMENT, "rnn: values: cell p: param s has no default: expected a value");
	c.n_values = 1;
	v[0].name = "s";
	opens(&c);
	cg_cell_close(cell);
}

/* ---- which cells ---- */

static void cell_refused(const char *text, int64_t proj, int code, const char *message)
{
	struct cg_rnn_config c = good();
	struct cg_cell *cell;

	if (cg_cell_parse(text, "x", &cell))
		fail_msg("%s", cg_message());
	c.cell = cell;
	c.proj = proj;
	refused(&c, code, message);
	cg_cell_close(cell);
}

static void test_cells(void **state)
{
	struct cg_rnn_config c = good();

	(void)state;
	cell_refused("cell x\nsplit q_n\noutput h\nh = tanh(q_n)\n", 0, CG_UNSUPPORTED,
	             "rnn: cell x: expected a gate that takes x, of a line 'gates' or 'input', since a network has an input");
	cell_refused("cell x\ngates a_n\nsplit q_n p_n\noutput h\nh = tanh(a_n + q_n * p_n)\n", 0, CG_UNSUPPORTED,
	             "rnn: x:3:11: split gate 'p_n' would be the recurrent part of gate 'a_n', which has the split gate 'q_n' already\nsplit q_n p_n\n          ^");
	cell_refused("cell x\ngates a\nstate c\noutput h\nc = a + c_prev\nh = tanh(c) * h_prev\n", 2, CG_BAD_ARGUMENT,
	             "rnn: proj: cell x: a projection needs a cell with a cell state, one stage, a recurrent product, and equations that do "
	             "not read h_prev");
	c.proj = 2;
	opens(&c);
	c.cell = cg_cell_find("rnn_tanh");
	refused(&c, CG_BAD_ARGUMENT, "rnn: proj: cell rnn_tanh: a projection needs a cell with a cell state, one stage, a recurrent product, and "
	        "equations that do "
	        "not read h_prev");
	c.cell = cg_cell_find("gru");
	refused(&c, CG_BAD_ARGUMENT, "rnn: proj: cell gru: a projection needs a cell with a cell state, one stage, a recurrent product, and "
	        "equations that do not "
	        "read h_prev");
	c.cell = cg_cell_find("gru_block");
	refused(&c, CG_BAD_ARGUMENT, "rnn: proj: cell gru_block: a projection needs a cell with a cell state, one stage, a recurrent product, and "
	        "equations that do "
	        "not read h_prev");
}

/* ---- sizes that do not fit ---- */

static struct cg_rnn *small(const char *cell)
{
	struct cg_rnn_config c = good();
	struct cg_rnn *rnn;

	c.cell = cg_cell_find(cell);
	c.input = c.units = c.layers = 1;
	assert_int_equal(cg_rnn_open(context, &c, &rnn), CG_OK);
	return rnn;
}

static void test_sizes(void **state)
{
	struct cg_rnn *rnn = small("lstm");
	struct cg_rnn_sizes sizes = { 1, 2, 3 }, kept = sizes;
	int32_t lengths[] = { 3, 4 };

	(void)state;
#define REFUSED(call, message) do { \
	assert_int_equal(call, CG_BAD_ARGUMENT); \
	assert_string_equal(cg_message(), message); \
	assert_memory_equal(&sizes, &kept, sizeof sizes); \
} while (0)
	REFUSED(cg_rnn_sizes(NULL, 1, 1, NULL, &sizes), "cg_rnn_sizes: rnn: expected a pointer, got NULL");
	REFUSED(cg_rnn_sizes(rnn, 1, 1, NULL, NULL), "cg_rnn_sizes: sizes: expected a pointer, got NULL");
	REFUSED(cg_rnn_sizes(rnn, -1, 1, NULL, &sizes), "rnn: T: expected at least 0, got -1");
	REFUSED(cg_rnn_sizes(rnn, 1, INT64_MIN, NULL, &sizes), "rnn: B: expected at least 0, got -9223372036854775808");
	REFUSED(cg_rnn_sizes(rnn, 3, 2, lengths, &sizes), "rnn: sequence_lengths[1]: expected 0 to T=3, got 4");
	lengths[1] = -1;
	REFUSED(cg_rnn_sizes(rnn, 3, 2, lengths, &sizes), "rnn: sequence_lengths[1]: expected 0 to T=3, got -1");
	REFUSED(cg_rnn_sizes(rnn, (int64_t)1 << 31, 1, NULL, &sizes), "rnn: T=2147483648, B=1: a call of these sizes has too many steps, "
	        "rows or bytes");
	REFUSED(cg_rnn_sizes(rnn, INT64_MAX, INT64_MAX, NULL, &sizes),
	        "rnn: T=9223372036854775807, B=9223372036854775807: a call of these sizes has too many steps, rows or bytes");
	REFUSED(cg_rnn_sizes(rnn, 0, INT64_MAX, NULL, &sizes), "rnn: T=0, B=9223372036854775807: a call of these sizes has too many steps, "
	        "rows or bytes");
	REFUSED(cg_rnn_sizes(rnn, INT32_MAX, INT64_MAX / INT32_MAX, NULL, &sizes),
	        "rnn: T=2147483647, B=4294967298: a call of these sizes has too many steps, rows or bytes");
#undef REFUSED
	assert_int_equal(cg_rnn_sizes(rnn, 0, 0, NULL, &sizes), CG_OK);
	assert_int_equal(cg_rnn_sizes(rnn, INT32_MAX, 0, NULL, &sizes), CG_OK);
	cg_rnn_close(rnn);
}

/* grow() doubles one size of this network, or of this call, again and again. */
static struct { struct cg_rnn_config c; int64_t T, B; } grown;

static int measure(struct cg_rnn_sizes *sizes)
{
	struct cg_rnn *rnn;
	int code = cg_rnn_open(context, &grown.c, &rnn);

	if (!code) {
		code = cg_rnn_sizes(rnn, grown.T, grown.B, NULL, sizes);
		cg_rnn_close(rnn);
	}
	return code;
}

static size_t largest(const struct cg_rnn_sizes *s)
{
	size_t most = s->work > s->reserve ? s->work : s->reserve;

	return most > s->params ? most : s->params;
}

/* Doubles a size again and again: the largest memory that the network needs never shrinks; once a size is rejected, all larger sizes are
   rejected, too.  With the last accepted size the network must need at least PTRDIFF_MAX / times - 4096 bytes. */
static void grow(const char *what, int64_t *size, int *count, size_t times)
{
	int refusals = 0, accepted = 0;
	size_t last = 0;

	for (int bits = 0; bits < (count ? 31 : 63); bits++) {
		struct cg_rnn_sizes s;
		int code;

		if (count)
			*count = 1 << bits;
		else
			*size = (int64_t)1 << bits;
		code = measure(&s);
		if (code) {
			assert_int_equal(code, CG_BAD_ARGUMENT);
			assert_true(strstr(cg_message(), "more than PTRDIFF_MAX bytes") || strstr(cg_message(), "too many steps, rows or bytes"));
			if (!refusals++ && last < PTRDIFF_MAX / times - 4096)
				fail_msg("%s = 2^%d: half as much needs %zu bytes: %s", what, bits, last, cg_message());
			continue;
		}
		if (refusals || largest(&s) < last)
			fail_msg("%s = 2^%d: %zu bytes after %zu, %d refused before", what, bits, largest(&s), last, refusals);
		last = largest(&s);
		accepted++;
	}
	assert_true(accepted > 10 && (refusals || count));
}

static void test_growth(void **state)
{
	static const char *const cells[] = { "lstm", "gru", "gru_block", "rnn_tanh" };

	(void)state;
	for (int k = 0; k < 4 * 4 * 2 * 2; k++) {
		/* A batch-major call has an index array: the place of each row in memory. The index array may be larger than all other memory of
		 * the call, and cg_rnn_sizes() does not count the array. */
		size_t times = k / 32 ? 2 : 8;

#define GROW(name, size, count, n) do { \
	grown.c = good(); \
	grown.c.cell = cg_cell_find(cells[k % 4]); \
	grown.c.dtype = k / 4 % 4; \
	grown.c.bidirectional = k / 16 % 2; \
	grown.c.time_major = k / 32; \
	grown.T = 5; \
	grown.B = 7; \
	grow(name, size, count, n); \
} while (0)
		GROW("B", &grown.B, NULL, times);
		GROW("input", &grown.c.input, NULL, 2);
		GROW("units", &grown.c.units, NULL, 4);
		if (!grown.c.bidirectional)
			GROW("layers", NULL, &grown.c.layers, 2);
	}
}

static void test_many_layers(void **state)
{
	struct cg_rnn_config c = good();
	struct cg_rnn_region region;
	struct cg_rnn_sizes sizes;
	struct cg_rnn *rnn;

	(void)state;
	SPOILT(units, INT64_MAX, "rnn: params: a network of layers=2, I=3, U=9223372036854775807, P=0 has params of more than PTRDIFF_MAX bytes");
	SPOILT(input, INT64_MAX, "rnn: params: a network of layers=2, I=9223372036854775807, U=4, P=0 has params of more than PTRDIFF_MAX bytes");
	c.bidirectional = 1;
	c.layers = INT_MAX;
	refused(&c, CG_BAD_ARGUMENT, "rnn: layers: expected at most 1073741823 in a bidirectional network, got 2147483647");
	c.layers = INT_MAX / 2;
	c.input = c.units = 1;
	c.cell = cg_cell_find("rnn_tanh");
	if (sizeof(size_t) < 8) {
		refused(&c, CG_BAD_ARGUMENT, "rnn: params: a network of layers=1073741823, I=1, U=1, P=0 has params of more than PTRDIFF_MAX bytes");
		return;
	}
	/* Params: layer 0 has W [1, 1] and R [1, 1], the other layers W [1, 2] and R [1, 1], for each direction; each layer and direction has
	 * two biases. */
	assert_int_equal(cg_rnn_open(context, &c, &rnn), CG_OK);
	assert_int_equal(cg_rnn_sizes(rnn, 1, 1, NULL, &sizes), CG_OK);
	assert_int_equal(sizes.params, 4 * (2 * (size_t)4 + (2 * (size_t)c.layers - 2) * 5));
	assert_int_equal(cg_rnn_region(rnn, 2 * c.layers - 1, 1, 1, &region), CG_OK);
	assert_int_equal(region.offset, (int64_t)(sizes.params / 4) - 1);
	assert_int_equal(cg_rnn_region(rnn, 2 * c.layers - 1, 1, 0, &region), CG_OK);
	assert_int_equal(region.offset, (int64_t)(sizes.params / 4) - 4 * (int64_t)c.layers - 1);
	cg_rnn_close(rnn);
}

static void test_region(void **state)
{
	struct cg_rnn *rnn = small("lstm");
	struct cg_rnn_region region = { 1, 2, 3 };

	(void)state;
#define REFUSED(call, message) do { \
	assert_int_equal(call, CG_BAD_ARGUMENT); \
	assert_string_equal(cg_message(), message); \
	assert_true(region.offset == 1 && region.rows == 2 && region.columns == 3); \
} while (0)
	REFUSED(cg_rnn_region(NULL, 0, 0, 0, &region), "cg_rnn_region: rnn: expected a pointer, got NULL");
	REFUSED(cg_rnn_region(rnn, 0, 0, 0, NULL), "cg_rnn_region: region: expected a pointer, got NULL");
	REFUSED(cg_rnn_region(rnn, -1, 0, 0, &region), "cg_rnn_region: pseudo_layer: expected 0 to L*D-1=0, got -1");
	REFUSED(cg_rnn_region(rnn, 1, 0, 0, &region), "cg_rnn_region: pseudo_layer: expected 0 to L*D-1=0, got 1");
	REFUSED(cg_rnn_region(rnn, 0, 0, 2, &region), "cg_rnn_region: bias: expected 0 or 1, got 2");
	REFUSED(cg_rnn_region(rnn, 0, 9, 0, &region), "cg_rnn_region: id: expected 0 to 8, a region of cell lstm, got 9");
	REFUSED(cg_rnn_region(rnn, 0, 8, 1, &region), "cg_rnn_region: id: expected 0 to 7, a region of cell lstm, got 8");
	REFUSED(cg_rnn_region(rnn, 0, -1, 0, &region), "cg_rnn_region: id: expected 0 to 8, a region of cell lstm, got -1");
#undef REFUSED
	cg_rnn_close(rnn);
}

static int open_context(void **state)
{
	(void)state;
	return cg_open("cpu", &context);
}

static int close_context(void **state)
{
	(void)state;
	cg_close(context);
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_config), cmocka_unit_test(test_the_structs_size), cmocka_unit_test(test_values),
		cmocka_unit_test(test_cells), cmocka_unit_test(test_sizes), cmocka_unit_test(test_growth),
		cmocka_unit_test(test_many_layers), cmocka_unit_test(test_region),
		cmocka_unit_test_setup(test_nothing_left, close_context),
	};

	counted_begin();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("rnn_misuse", tests, open_context, NULL);
}
