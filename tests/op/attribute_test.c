/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Attributes of every kind but CG_TEXT, of an op that is made up for this test: their values, their text, and what the command accepts for
 * them as a word, as metadata, as a scalar tensor.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "command/run/op_call.h"
#include "runtime/core/core.h"

struct made_up {
	size_t  size;
	int64_t T, L, seed, steps;
	uint64_t call;
	double  rate;
	int     dtype, accumulate, mode, on;
	struct cg_mem work, x, y;
};
#define AT(field) offsetof(struct made_up, field)

static const char *const modes[] = { "relu", "tanh", "linear_input", NULL };
static const struct cg_attribute attributes[] = {
	{ .name = "rate",   .kind = CG_REAL,    .fallback = 0.1, .at = AT(rate) },
	{ .name = "on",     .kind = CG_BOOL,    .fallback = 1, .at = AT(on) },
	{ .name = "seed",   .kind = CG_INTEGER, .at = AT(seed) },
	{ .name = "steps",  .kind = CG_INTEGER, .range = "0 T", .scalar = 1, .required = 1, .fallback = -1, .at = AT(steps) },
	{ .name = "layers", .kind = CG_INTEGER, .range = "1", .scalar = 1, .required = 1, .fallback = 1, .at = AT(L) },
	{ .name = "mode",   .kind = CG_WORD,    .words = modes, .fallback = 1, .at = AT(mode) },
	{ .name = "call",   .kind = CG_NATURAL, .at = AT(call) },
	{ .name = NULL }
};
static const struct cg_dim dims[] = { { "T", AT(T), .least = 0 }, { "L", AT(L), .least = 1 }, { .symbol = NULL } };
static const struct cg_port ports[] = {
	{ "x", "T",   CG_IN,  NULL, 0, .at = AT(x) },
	{ "y", "L T", CG_OUT, NULL, 0, .at = AT(y) },
	{ .name = NULL }
};
static const struct cg_op row = {
	.name = "made_up", .tensorflow = "MadeUp", .type = "made_up", .dims = dims, .attributes = attributes, .ports = ports,
	.size = sizeof(struct made_up), .dtype_at = AT(dtype), .accumulate_at = AT(accumulate), .work_at = AT(work)
};
enum { RATE, ON, SEED, STEPS, LAYERS, MODE, NUMBER };

static struct made_up plain(void)
{
	return (struct made_up){ .size = sizeof(struct made_up), .T = 5, .L = 1, .steps = -1, .rate = 0.1, .on = 1, .mode = 1 };
}

/* ---- in the struct ---- */

static void refused(const struct made_up *op, int attribute, int given, const char *message)
{
	assert_int_equal(cg_attribute_check(&row, &attributes[attribute], op, given), CG_BAD_ARGUMENT);
	assert_string_equal(cg_message(), message);
}

static void test_ranges(void **state)
{
	struct made_up op = plain();

	(void)state;
	assert_int_equal(cg_op_check(&row, &op), CG_OK);
	refused(&op, STEPS, 1, "made_up: steps: expected 0 to T=5, got -1");
	for (op.steps = 0; op.steps <= 5; op.steps++)
		assert_int_equal(cg_attribute_check(&row, &attributes[STEPS], &op, 1), CG_OK);
	refused(&op, STEPS, 1, "made_up: steps: expected 0 to T=5, got 6");
	refused(&op, STEPS, 0, "made_up: steps: expected -1 or 0 to T=5, got 6");
	op.steps = -2;
	assert_int_equal(cg_op_check(&row, &op), CG_BAD_ARGUMENT);
	assert_string_equal(cg_message(), "made_up: steps: expected -1 or 0 to T=5, got -2");
	op.steps = op.L = 0;
	refused(&op, LAYERS, 0, "made_up: layers: expected at least 1, got 0");
	op.L = INT64_MAX;
	assert_int_equal(cg_attribute_check(&row, &attributes[LAYERS], &op, 1), CG_OK);
	op.seed = INT64_MIN;
	assert_int_equal(cg_attribute_check(&row, &attributes[SEED], &op, 1), CG_OK);
	op.call = UINT64_MAX;
	assert_int_equal(cg_attribute_check(&row, &attributes[NUMBER], &op, 1), CG_OK);
	op.rate = NAN;
	refused(&op, RATE, 0, "made_up: rate: expected a number, got NaN");
	op.on = 2;
	refused(&op, ON, 0, "made_up: on: expected 0 or 1, got 2");
	op.mode = 3;
	refused(&op, MODE, 0, "made_up: mode: expected one of relu=0 tanh=1 linear_input=2, got 3");
	op.mode = -1;
	refused(&op, MODE, 1, "made_up: mode: expected one of relu=0 tanh=1 linear_input=2, got -1");
}

static void expect_text(const struct made_up *op, int attribute, const char *want, double number)
{
	char text[CG_ATTRIBUTE_TEXT];
	struct made_up other = *op;

	assert_string_equal(cg_attribute_text(&attributes[attribute], op, text), want);
	assert_true(cg_attribute_number(&attributes[attribute], op) == number);
	cg_attribute_set(&attributes[attribute], &other, 0);
	assert_true(cg_attribute_number(&attributes[attribute], &other) == 0);
	cg_attribute_set(&attributes[attribute], &other, number);
	assert_memory_equal(&other, op, sizeof other);
}

static void test_texts(void **state)
{
	struct made_up op = plain();
	char text[512];

	(void)state;
	expect_text(&op, RATE, "0.1", 0.1);
	expect_text(&op, ON, "true", 1);
	expect_text(&op, STEPS, "-1", -1);
	expect_text(&op, MODE, "tanh", 1);
	op = (struct made_up){ .rate = -INFINITY, .on = 7, .seed = (int64_t)1 << 62, .mode = 2, .steps = 3, .L = 2 };
	expect_text(&op, RATE, "-inf", -INFINITY);
	expect_text(&op, ON, "7", 7);
	expect_text(&op, SEED, "4611686018427387904", 0x1p62);
	expect_text(&op, MODE, "linear_input", 2);
	op.call = (uint64_t)1 << 63;
	expect_text(&op, NUMBER, "9223372036854775808", 0x1p63);
	op.mode = 3;
	expect_text(&op, MODE, "3", 3);

	/* cg_op_describe() prints the size `layers`, and of the other attributes those that differ from their defaults: a scalar input that
	 * was not set is not printed. */
	op = plain();
	assert_string_equal(cg_op_describe(&row, "MadeUp", &op, text, sizeof text), "--op MadeUp --T 5 --layers 1 --dtype f32");
	op.mode = 0;
	op.steps = 2;
	assert_string_equal(cg_op_describe(&row, "MadeUp", &op, text, sizeof text),
	                    "--op MadeUp --T 5 --layers 1 --dtype f32 steps=2 mode=relu");
}

/* ---- in the command ---- */

/* Makes a safetensors file in memory, with x[5] and the tensors of `other`, which take 8 bytes; all their bytes are zero, except that the
   first of these 8 is `first`; metadata may be "". */
static struct safetensors file(int which, const char *metadata, const char *other, int first)
{
	static unsigned char bytes[2][512];
	struct safetensors s;
	char header[400];
	uint64_t n;

	snprintf(header, sizeof header, "{%s\"x\":{\"dtype\":\"F32\",\"shape\":[5],\"data_offsets\":[0,20]},%s}", metadata, other);
	n = strlen(header);
	memset(bytes[which], 0, sizeof *bytes);
	for (int k = 0; k < 8; k++)
		bytes[which][k] = (unsigned char)(n >> 8 * k);
	memcpy(bytes[which] + 8, header, n);
	bytes[which][8 + n + 20] = (unsigned char)first;
	if (safetensors_parse(&s, which ? "second" : "first", bytes[which], 8 + n + 28))
		fail_msg("%s", cg_message());
	return s;
}

#define STEPS_I64 "\"steps\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[20,28]}"
#define STEPS_I32 "\"steps\":{\"dtype\":\"I32\",\"shape\":[],\"data_offsets\":[20,24]}," \
                  "\"y\":{\"dtype\":\"I32\",\"shape\":[],\"data_offsets\":[24,28]}"
#define NO_STEPS  "\"z\":{\"dtype\":\"I64\",\"shape\":[],\"data_offsets\":[20,28]}"

/* Binds the op, as `cellgrad run` does, to one file, or to two if `second` is not NULL; attributes ends with NULL; metadata is that of
   the first file. */
static int bound(struct made_up *op, const char *const *attributes, const char *metadata, const char *first, const char *second,
                 int value, int strict)
{
	struct safetensors files[2] = { file(0, metadata, first, value), file(1, "", second ? second : NO_STEPS, value + 1) };
	struct call_argument arguments[2] = { { .tensor = NULL } };
	struct call c = { .row = &row, .name = "MadeUp", .theirs = 1, .op = op, .dtype = -1, .files = files,
	                  .n_files = second ? 2 : 1, .arguments = arguments, .n = 2 };
	int code = CG_OK;

	*op = plain();
	op->T = 0;
	while (!code && *attributes)
		code = call_attribute(&c, *attributes++);
	if (!code)
		code = call_bind(&c, strict);
	safetensors_close(&files[0]);
	safetensors_close(&files[1]);
	return code;
}

#define WORDS(...) (const char *const[]){ __VA_ARGS__, NULL }
#define META(text) "\"__metadata__\":{" text "},"

static void test_given_attributes(void **state)
{
	struct made_up op;

	(void)state;
	assert_int_equal(bound(&op, WORDS("steps=3", "layers=2", "mode=linear_input", "seed=-9223372036854775808"), "", NO_STEPS,
	                       NULL, 0, 0), CG_OK);
	assert_int_equal(op.steps, 3);
	assert_int_equal(op.L, 2);
	assert_int_equal(op.T, 5);
	assert_int_equal(op.mode, 2);
	assert_true(op.seed == INT64_MIN);
	assert_int_equal(bound(&op, WORDS("steps=3", "layers=2", "call=18446744073709551615"), "", NO_STEPS, NULL, 0, 0), CG_OK);
	assert_true(op.call == UINT64_MAX);
	assert_int_equal(bound(&op, WORDS("steps=4"), META("\"steps\":\"2\",\"layers\":\"7\",\"mode\":\"relu\""), STEPS_I64, NULL, 1,
	                       0), CG_OK);
	assert_int_equal(op.steps, 4);
	assert_int_equal(op.L, 7);
	assert_int_equal(op.mode, 0);
}

static void test_scalars(void **state)
{
	static const struct { const char *metadata, *first, *second; int want; } cases[] = {
		{ "", STEPS_I64, NULL, 2 }, { "", STEPS_I32, NULL, 2 }, { "", NO_STEPS, STEPS_I64, 3 },
		{ META("\"steps\":\"2\""), STEPS_I64, NULL, 2 }, { META("\"steps\":\"3\""), NO_STEPS, STEPS_I32, 3 },
		{ META("\"steps\":\"03\""), NO_STEPS, STEPS_I64, 3 },
	};
	static const struct { const char *metadata, *first, *second, *message; } differ[] = {
		{ "", STEPS_I64, STEPS_I32, "first says 2, second says 3" }, { META("\"steps\":\"1\""), STEPS_I64, NULL, "first says 2, first says 1" },
		{ META("\"steps\":\"1\""), NO_STEPS, STEPS_I64, "first says 1, second says 3" },
	};
	struct made_up op;

	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
		if (bound(&op, WORDS("layers=1"), cases[k].metadata, cases[k].first, cases[k].second, 2, 0))
			fail_msg("%d: %s", (int)k, cg_message());
		assert_int_equal(op.steps, cases[k].want);
	}
	for (size_t k = 0; k < sizeof differ / sizeof *differ; k++) {
		assert_int_equal(bound(&op, WORDS("layers=1"), differ[k].metadata, differ[k].first, differ[k].second, 2, 0), CG_BAD_ARGUMENT);
		assert_non_null(strstr(cg_message(), differ[k].message));
		assert_non_null(strstr(cg_message(), "steps=VALUE"));
		assert_int_equal(bound(&op, WORDS("layers=1", "steps=4"), differ[k].metadata, differ[k].first, differ[k].second, 2, 0), CG_OK);
		assert_int_equal(op.steps, 4);
	}
	/* With --strict a scalar tensor that has the name of an attribute is accepted; a tensor of an unknown name is an error. */
	assert_int_equal(bound(&op, WORDS("layers=1"), "", STEPS_I64, NULL, 2, 1), CG_OK);
	assert_int_equal(bound(&op, WORDS("layers=1", "steps=1"), "", NO_STEPS, NULL, 2, 1), CG_BAD_ARGUMENT);
	assert_string_equal(cg_message(), "first: z: this tensor is no input of MadeUp, and --strict allows no other tensors");
}

static void test_what_the_command_refuses(void **state)
{
	static const struct { const char *word, *metadata, *file, *message; } cases[] = {
		{ "steps=6", "", NO_STEPS, "made_up: steps: expected 0 to T=5, got 6" },
		{ "steps=-1", "", NO_STEPS, "made_up: steps: expected 0 to T=5, got -1" },
		{ "steps=2.5", "", NO_STEPS, "steps: expected an integer, got \"2.5\"" },
		{ "steps=", "", NO_STEPS, "steps: expected an integer, got \"\"" },
		{ "steps=9223372036854775808", "", NO_STEPS, "steps: expected an integer, got \"9223372036854775808\"" },
		{ "call=18446744073709551616", "", STEPS_I64, "call: expected an integer from 0 to 2^64-1, got \"18446744073709551616\"" },
		{ "call=-1", "", STEPS_I64, "call: expected an integer from 0 to 2^64-1, got \"-1\"" },
		{ "layers=0", "", STEPS_I64, "made_up: layers: expected at least 1, got 0" },
		{ "mode=tan", "", STEPS_I64, "mode: there is no value \"tan\"; did you mean tanh?" },
		{ "mode=skip", "", STEPS_I64, "mode: expected one of relu, tanh, linear_input, got \"skip\"" },
		{ "mode=1", "", STEPS_I64, "mode: expected one of relu, tanh, linear_input, got \"1\"" },
		{ "on=1", "", NO_STEPS, "MadeUp: attribute steps has no default: add steps=VALUE, an integer, or a file with a tensor of that name" },
		{ "on=1", META("\"steps\":\"two\""), NO_STEPS, "first: __metadata__: steps: expected an integer, got \"two\"" },
		{ "on=1", "", "\"steps\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":[20,28]}",
		  "first: tensor steps: expected a scalar, of shape [], got [1]" },
		{ "on=1", "", "\"steps\":{\"dtype\":\"F64\",\"shape\":[],\"data_offsets\":[20,28]}",
		  "first: tensor steps: expected I64 or I32, got F64" },
	};
	struct made_up op;

	(void)state;
	for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
		const char *also = strncmp(cases[k].word, "layers", 6) ? "layers=1" : "rate=1";

		assert_int_equal(bound(&op, WORDS(cases[k].word, also), cases[k].metadata, cases[k].file, NULL, 4, 0),
		                 CG_BAD_ARGUMENT);
		assert_string_equal(cg_message(), cases[k].message);
	}
}

static void test_metadata(void **state)
{
	struct made_up op = plain();
	struct call c = { .row = &row, .name = "MadeUp", .op = &op };
	static const char *const want[][2] = { { "op", "MadeUp" }, { "rate", "0.1" }, { "on", "true" }, { "seed", "-5" },
	                                       { "steps", "4" }, { "layers", "1" }, { "mode", "linear_input" },
	                                       { "call", "18446744073709551615" } };
	json_t *all;

	(void)state;
	op.seed = -5;
	op.steps = 4;
	op.mode = 2;
	op.call = UINT64_MAX;
	all = call_metadata(&c);
	assert_int_equal(json_object_size(all), sizeof want / sizeof *want);
	for (size_t k = 0; k < sizeof want / sizeof *want; k++)
		assert_string_equal(json_string_value(json_object_get(all, want[k][0])), want[k][1]);
	json_decref(all);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_ranges),
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_given_attributes),
		cmocka_unit_test(test_scalars),
		cmocka_unit_test(test_what_the_command_refuses),
		cmocka_unit_test(test_metadata),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
