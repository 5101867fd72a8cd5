/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cells at the limits: long or deep ones, ones with many declarations, and short ones with huge derivatives. Each cell, and each pass of
 * it, is rejected by the right message, or compiled in every dialect, in bounded time and memory; and two of the largest run on the cpu.
 * mistake_test.c tests the plain errors of the language.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <time.h>

#include <cmocka.h>

#include "tests/gen/every.h"
#include "runtime/core/core.h"

/* CAPACITY: bytes of a hostile text; PEAK: the most bytes of memory that the compiler may hold for the text. */
enum { CAPACITY = 12 << 20, PEAK = 32 << 20 };
enum { TANHS = 3200 };

/* The most seconds of processor time that one step of the compiler may take, on a processor that is not slow. */
static const double seconds = 1;

#define HEAD "cell x\ngates a b\noutput h\n"

/* ---- what it costs ---- */

static struct { size_t live, peak; } bytes;
static double slowest, slow_by;              /* slow_by: what slowness() returned */
static const char *slow;

/* Acts as realloc, or as free for 0 bytes, and stores the size in front of each block. */
static void *counted(void *p, size_t n)
{
	size_t *head = p ? (size_t *)p - 2 : NULL;

	bytes.live -= head ? head[0] : 0;
	if (!n) {
		free(head);
		return NULL;
	}
	head = realloc(head, n + 2 * sizeof *head);
	assert_non_null(head);
	head[0] = n;
	bytes.live += n;
	bytes.peak = bytes.live > bytes.peak ? bytes.live : bytes.peak;
	return head + 2;
}

static clock_t began;

static void start(void)
{
	began = clock();
}

static void stop(const char *what)
{
	double took = (double)(clock() - began) / CLOCKS_PER_SEC;

	if (took > slowest) {
		slowest = took;
		slow = what;
	}
	if (took > seconds * slow_by)
		fail_msg("%s: %.2f s", what, took);
	if (bytes.peak > PEAK)
		fail_msg("%s: %zu bytes at once", what, bytes.peak);
}

/* ---- texts ---- */

static char text[CAPACITY];
static size_t used;

static void begin(const char *head)
{
	used = (size_t)snprintf(text, sizeof text, "%s", head);
}

/* Appends a printf format n times, for the numbers from 0; the format prints the number twice, once or not at all. */
static void repeat(int n, const char *form)
{
	for (int k = 0; k < n; k++) {
		used += (size_t)snprintf(text + used, sizeof text - used, form, k, k);
		assert_true(used < sizeof text);
	}
}

static void put(const char *part)
{
	repeat(1, part);
}

static void million_operations(void) { begin(HEAD "h = b"); repeat(1000000, "+a"); put("\n"); }
static void many_operations(void)    { begin(HEAD "h = b"); repeat(500000, "+a"); put("\n"); }
static void million_equations(void)  { begin(HEAD); repeat(1000000, "v%d=a\n"); put("h = b\n"); }
static void many_equations(void)     { begin(HEAD); repeat(90000, "v%d=a\n"); put("h = b\n"); }
static void million_parentheses(void) { begin(HEAD "h = "); repeat(1000000, "("); }
static void million_signs(void)      { begin(HEAD "h = "); repeat(1000000, "-"); put("a\n"); }
static void million_functions(void)  { begin(HEAD "h = "); repeat(200000, "tanh("); }
static void nested_in_turn(void)     { begin(HEAD "h = "); repeat(200000, "-(tanh("); }
static void nested_clips(void)       { begin(HEAD "h = "); repeat(200000, "clip(a,"); }
static void million_gates(void)      { begin("cell x\ngates"); repeat(140000, " v%d"); }
static void million_weights(void)    { begin("cell x\noption o"); repeat(140000, " v%d"); }
static void million_options(void)    { begin("cell x\n"); repeat(50000, "option o%d w%d\n"); }
static void million_params(void)     { begin("cell x\nparam v"); repeat(120000, ", v%d"); }
static void million_stages(void)     { begin(HEAD "v = a\n"); repeat(130000, "stage v\n"); }
static void million_saves(void)      { begin(HEAD "v = a\nsave"); repeat(500000, " v"); }
static void long_name(void)          { begin(HEAD); repeat(1000000, "q"); put(" = a\n"); }
static void long_cell_name(void)     { begin("cell "); repeat(1000000, "q"); put("\n"); }
static void long_unknown(void)       { begin(HEAD "h = a + "); repeat(1000000, "q"); put("\n"); }
static void long_number(void)        { begin(HEAD "h = a * "); repeat(1000000, "9"); put("\n"); }
static void long_fraction(void)      { begin(HEAD "h = a * 0."); repeat(1000000, "0"); put("1\n"); }
static void long_exponent(void)      { begin(HEAD "h = a * 1e"); repeat(1000000, "9"); put("\n"); }
static void digits_400(void)         { begin(HEAD "h = a * "); repeat(400, "1"); put("\n"); }
static void million_comments(void)   { begin(HEAD); repeat(500000, "#\n"); put("h = a + b\n"); }
static void one_comment(void)        { begin(HEAD "h = a + b #"); repeat(1000000, "#"); }
static void blanks(void)             { begin(HEAD "h = a + b"); repeat(1000000, " "); put("+"); }
static void empty_lines(void)        { begin(HEAD); repeat(1000000, "\n"); put("h = a + b"); }
static void open_lines(void)         { begin(HEAD "h = (a"); repeat(1000000, "\n"); }

/* Writes a cell with squares of squares, whose values overflow in every dtype and whose graphs stay small. */
static void repeated_squares(void)
{
	begin(HEAD "v0 = a * b\n");
	for (int k = 1; k < 250; k++)
		used += (size_t)sprintf(text + used, "v%d = v%d * v%d\n", k, k - 1, k - 1);
	put("h = v249\n");
}

static void long_product(void)       { begin(HEAD "h = b"); repeat(8000, " * a"); put("\n"); }
static void long_product_of_many(void) { begin(HEAD "h = b"); repeat(4000, " * (a + 1.%05d)"); put("\n"); }
static void long_quotient(void)      { begin(HEAD "h = b"); repeat(4000, " / (a + 1.%05d)"); put("\n"); }
static void long_sum_of_tanh(void)   { begin(HEAD "h = b"); repeat(TANHS, " + tanh(a * 1.%05d)"); put("\n"); }
static void long_product_of_sigmoid(void) { begin(HEAD "h = b"); repeat(3000, " * sigmoid(a * 1.%05d)"); put("\n"); }
static void long_sum_of_clips(void)  { begin(HEAD "h = b"); repeat(3000, " + clip(exp(a), 1.%05d)"); put("\n"); }

static void nested_forms(void)
{
	begin(HEAD "h = b + ");
	repeat(CG_DEPTH_MAX / 8, "hard_sigmoid(softsign(silu(abs(gelu(softplus(sqrt(erf(");
	put("a");
	repeat(CG_DEPTH_MAX, ")");
	put("\n");
}

/* Writes a cell in which each equation names the one above five times. */
static void chain_of_forms(void)
{
	begin(HEAD "v0 = a * b\n");
	for (int k = 1; k < 250; k++)
		used += (size_t)sprintf(text + used, "v%d = silu(silu(v%d)) + max(v%d, 0) * min(softsign(v%d), hard_sigmoid(v%d - abs(v%d)))\n",
		                        k, k - 1, k - 1, k - 1, k - 1, k - 1);
	put("h = v249\n");
}

static void million_forms(void)      { begin(HEAD "h = "); repeat(200000, "silu("); }
static void long_sum_of_forms(void)  { begin(HEAD "h = b"); repeat(4000, " + hard_sigmoid(a)"); put("\n"); }

/* Writes a cell with the most levels of means of means. */
static void nested_means(void)
{
	begin(HEAD "v0 = a * b\n");
	for (int k = 1; k <= CG_MEANS_MAX; k++)
		used += (size_t)sprintf(text + used, "v%d = mean(v%d * v%d) - v%d\n", k, k - 1, k - 1, k - 1);
	used += (size_t)sprintf(text + used, "h = v%d\n", CG_MEANS_MAX);
}

static void million_means(void)      { begin(HEAD "h = "); repeat(200000, "mean("); }
static void many_means(void)         { begin(HEAD "h = b"); repeat(3000, " + mean(a * 1.%05d)"); put("\n"); }

static void towers(void)
{
	begin(HEAD "v0 = a * b\n");
	for (int k = 1; k < 250; k++) {
		used += (size_t)sprintf(text + used, "v%d = exp(v%d)", k, k - 1);
		for (int j = 0; j < 12; j++)
			used += (size_t)sprintf(text + used, " * tanh(v%d / 1.%03d)", k - 1, j);
		put("\n");
	}
	put("h = v249\n");
}

/* Writes a cell with the most gates, with two saved values for each. */
static void many_arguments(void)
{
	begin("cell many_arguments\ngates");
	repeat(CG_GATES_MAX, " a_%d");
	put("\noutput h\n");
	repeat(CG_GATES_MAX, "p_%d = tanh(a_%d)\n");
	repeat(CG_GATES_MAX, "s_%d = sigmoid(a_%d)\n");
	put("h = (0");
	repeat(CG_GATES_MAX, " +\n\tp_%d * s_%d");
	put(")\nsave");
	repeat(CG_GATES_MAX, " p_%d s_%d");
	put("\n");
}

/* Writes a cell with as many gates, states, options, weights, params, stages and saved values as are allowed, all used, with long names. */
static void most(void)
{
	begin("cell most_of_all_that_may_be\n");
	for (int s = 1; s <= CG_STAGES_MAX; s++) {
		used += (size_t)sprintf(text + used, s % 2 ? "gates" : "split");
		for (int k = 0; k < CG_GATES_MAX / CG_STAGES_MAX; k++)
			used += (size_t)sprintf(text + used, " gate_%d_%d_of_many_more_q", s, k);
		if (s == 1) {
			put("\nstate");
			repeat(CG_STATES_MAX, " state_%d_with_a_tail");
			put("\noutput output_with_a_tail\n");
			for (int o = 0; o < CG_OPTIONS_MAX; o++) {
				used += (size_t)sprintf(text + used, "option option_%d_of_a_long_nameq", o);
				for (int w = 0; w < CG_WEIGHTS_MAX / CG_OPTIONS_MAX; w++)
					used += (size_t)sprintf(text + used, " weight_%d_%d_in_an_option", o, w);
				put("\n");
			}
			put("param param_0_with_a_long_tail = 1");
			for (int k = 1; k < CG_PARAMS_MAX; k++)
				used += (size_t)sprintf(text + used, ", param_%d_of_a_long_tail = %d.5", k, k);
		}
		used += (size_t)sprintf(text + used, "\nvalue_%d_of_a_long_name_a = tanh(", s);
		for (int k = 0; k < CG_GATES_MAX / CG_STAGES_MAX; k++)
			used += (size_t)sprintf(text + used, "%sgate_%d_%d_of_many_more_q", k ? " +\n\t" : "", s, k);
		if (s == 1) {
			for (int k = 0; k < CG_WEIGHTS_MAX; k++)
				used += (size_t)sprintf(text + used, " +\n\tweight_%d_%d_in_an_option * state_%d_with_a_tail_prev", k / 4, k % 4,
				                        k % CG_STATES_MAX);
			put(" + param_0_with_a_long_tail");
			for (int k = 1; k < CG_PARAMS_MAX; k++)
				used += (size_t)sprintf(text + used, " *\n\tparam_%d_of_a_long_tail", k);
		}
		used += (size_t)sprintf(text + used, ")\n");
		if (s < CG_STAGES_MAX)
			used += (size_t)sprintf(text + used, "stage value_%d_of_a_long_name_a\n", s);
	}
	repeat(CG_STATES_MAX, "state_%d_with_a_tail = sigmoid(value_1_of_a_long_name_a * state_%d_with_a_tail_prev)\n");
	put("output_with_a_tail = value_2_of_a_long_name_a * value_3_of_a_long_name_a + value_4_of_a_long_name_a\n");
	repeat(CG_SAVES_MAX - 9, "more_%d = exp(state_0_with_a_tail * output_with_a_tail + %d)\n");
	put("save value_1_of_a_long_name_a value_2_of_a_long_name_a value_3_of_a_long_name_a value_4_of_a_long_name_a");
	repeat(CG_STATES_MAX, " state_%d_with_a_tail");
	put(" output_with_a_tail");
	repeat(CG_SAVES_MAX - 9, " more_%d");
	put("\n");
}

/* ---- what the compiler must make of each text. message: a part of the error, NULL if the text is accepted as a cell; pass: the pass of
   the cell that is refused, with message NODES ---- */

enum { NEVER = CG_PASS_COUNT };

#define NODES "more than 65536 operations and operands"

static const struct { const char *name; void (*make)(void); const char *message; int pass; } texts[] = {
	{ "million operations",   million_operations,   "a cell has at most 1048576 bytes, this one 2000032", 0 },
	{ "many operations",      many_operations,      "x:4:16390: the equations have more than 16384 operations and operands", 0 },
	{ "million equations",    million_equations,    "a cell has at most 1048576 bytes, this one 9888922", 0 },
	{ "many equations",       many_equations,       "x:260:6: a cell has at most 256 equations", 0 },
	{ "million parentheses",  million_parentheses,  "x:4:70: parentheses are nested more than 64 deep", 0 },
	{ "million signs",        million_signs,        "x:4:69: minus signs are nested more than 64 deep", 0 },
	{ "million functions",    million_functions,    "x:4:330: parentheses are nested more than 64 deep", 0 },
	{ "nested in turn",       nested_in_turn,       "a cell has at most 1048576 bytes, this one 1400030", 0 },
	{ "nested clips",         nested_clips,         "a cell has at most 1048576 bytes, this one 1400030", 0 },
	{ "million gates",        million_gates,        "x:2:125: a cell has at most 32 gates", 0 },
	{ "million weights",      million_weights,      "x:2:128: a cell has at most 32 per-unit weights", 0 },
	{ "million options",      million_options,      "x:10:7: a cell has at most 8 options", 0 },
	{ "million params",       million_params,       "x:2:74: a cell has at most 16 params", 0 },
	{ "million stages",       million_stages,       "x:6:7: the product of another stage takes 'v' already", 0 },
	{ "million saves",        million_saves,        "x:5:9: 'v' is saved already", 0 },
	{ "long name",            long_name,            "x:4:1: a name has at most 24 characters, this one 9999", 0 },
	{ "long cell name",       long_cell_name,       "x:1:6: a name has at most 24 characters, this one 9999", 0 },
	{ "long unknown",         long_unknown,         "x:4:9: a name has at most 24 characters, this one 9999", 0 },
	{ "long number",          long_number,          "x:4:9: a number has at most 40 digits and is below 1e38", 0 },
	{ "long fraction",        long_fraction,        "x:4:9: a number has at most 40 digits and is below 1e38", 0 },
	{ "long exponent",        long_exponent,        "x:4:9: a number has at most 40 digits and is below 1e38", 0 },
	{ "400 digits",           digits_400,           "x:4:9: a number has at most 40 digits and is below 1e38", 0 },
	{ "million comments",     million_comments,     NULL, NEVER },
	{ "one comment",          one_comment,          NULL, NEVER },
	{ "blanks",               blanks,               "x:4:1000011: expected a name, a number or '('", 0 },
	{ "empty lines",          empty_lines,          NULL, NEVER },
	{ "open lines",           open_lines,           "x:1000004:1: expected ')' after the expression", 0 },
	{ "repeated squares",     repeated_squares,     NULL, NEVER },
	{ "long product",         long_product,         NULL, CG_PASS_GRADGRAD },
	{ "long product of many", long_product_of_many, NULL, NEVER },
	{ "long quotient",        long_quotient,        NULL, CG_PASS_GRADGRAD },
	{ "long sum of tanh",     long_sum_of_tanh,     NULL, CG_PASS_GRADGRAD },
	{ "long product of sigmoid", long_product_of_sigmoid, NULL, CG_PASS_GRADGRAD },
	{ "long sum of clips",    long_sum_of_clips,    NULL, NEVER },
	{ "nested forms",         nested_forms,         NULL, NEVER },
	{ "chain of forms",       chain_of_forms,       NULL, NEVER },
	{ "million forms",        million_forms,        "x:4:330: parentheses are nested more than 64 deep", 0 },
	{ "long sum of forms",    long_sum_of_forms,    "x:4:13401: the equations have more than 16384 operations and operands", 0 },
	{ "nested means",         nested_means,         NULL, NEVER },
	{ "million means",        million_means,        "x:4:330: parentheses are nested more than 64 deep", 0 },
	{ "many means",           many_means,           NULL, NEVER },
	{ "towers",               towers,               NULL, CG_PASS_GRADGRAD },
	{ "most",                 most,                 NULL, NEVER },
};

static void print_all(const struct cg_pass_plan *plan, const char *name)
{
	struct cg_text header = { counted, NULL, 0, 0, 0 };

	for (int lang = 0; lang < CG_LANG_COUNT; lang++) {
		struct cg_text out = { counted, NULL, 0, 0, 0 };

		start();
		assert_int_equal(cg_print(plan, lang, &out), 0);
		assert_true(strlen(out.at) == out.length);
		/* An infinite or NaN constant would be printed with "..". */
		assert_null(strstr(out.at, ".."));
		stop(name);
		counted(out.at, 0);
		out = (struct cg_text){ counted, NULL, 0, 0, 0 };
		start();
		assert_int_equal(cg_print_manifest(plan, lang, &out), 0);
		stop(name);
		counted(out.at, 0);
	}
	assert_int_equal(cg_print_header(plan, &header), 0);
	counted(header.at, 0);
}

static void plan_all(const struct cg_cell *cell, const char *name, int refused)
{
	struct cg_mistake mistake;
	char message[128];

	for (int pass = 0; pass < CG_PASS_COUNT; pass++)
		for (int dtype = 0; dtype < CG_DTYPE_COUNT; dtype++) {
			struct cg_pass_plan *plan;

			start();
			plan = cg_plan(cell, (1 << cell->n_options) - 1, pass, 0, dtype, counted, &mistake);
			stop(name);
			if (!plan != (pass == refused))
				fail_msg("%s, %s: %s", name, cg_pass_names[pass], plan ? "planned" : mistake.text);
			if (plan) {
				print_all(plan, name);
			} else {
				snprintf(message, sizeof message, "cell x: pass %s has " NODES, cg_pass_names[pass]);
				assert_string_equal(mistake.text, message);
			}
			cg_plan_free(plan);
		}
}

static void test_texts(void **state)
{
	size_t most_bytes = 0;

	(void)state;
	for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) {
		struct cg_mistake mistake = { "left over" };
		struct cg_cell *cell;

		texts[k].make();
		bytes.peak = bytes.live;
		start();
		cell = cg_parse(text, "x", counted, &mistake);
		stop(texts[k].name);
		if (!cell != !!texts[k].message || (texts[k].message && !strstr(mistake.text, texts[k].message)))
			fail_msg("%s: expected %s, got %s", texts[k].name, texts[k].message ? texts[k].message : "a cell",
			         cell ? "a cell" : mistake.text);
		if (cell)
			plan_all(cell, texts[k].name, texts[k].pass);
		cg_parse_free(cell);
		assert_int_equal(bytes.live, 0);
		most_bytes = bytes.peak > most_bytes ? bytes.peak : most_bytes;
	}
	printf("# at most %.2f s (%s) and %.1f MiB at once\n", slowest, slow ? slow : "all", (double)most_bytes / (1 << 20));
}

/* Plans gradgrad for every set of the eight options of the cell with the most declarations. */
static void test_options(void **state)
{
	struct cg_mistake mistake;
	struct cg_cell *cell;

	(void)state;
	most();
	cell = cg_parse(text, "x", counted, &mistake);
	assert_string_equal(mistake.text, "");
	for (int options = 0; options < 1 << CG_OPTIONS_MAX; options++) {
		struct cg_pass_plan *plan = cg_plan(cell, options, CG_PASS_GRADGRAD, 0, 0, counted, &mistake);

		assert_non_null(plan);
		assert_true(strlen(plan->functions[plan->n_functions - 1].key) < CG_KEY_MAX);
		cg_plan_free(plan);
	}
	cg_parse_free(cell);
	assert_int_equal(bytes.live, 0);
}

/* ---- names ---- */

static const char *const reserved[] = {
	"int", "register", "auto", "inline", "restrict", "typeof_unqual", "main", "int64_t", "unix", "linux", "i386", "vector",
	"kernel", "global", "local", "constant", "private", "half", "uint", "vec_step", "image2d_array_depth_t", "get_global_id",
	"get_global_size", "read_only", "event_t", "fma", "threadIdx", "blockDim", "gridDim", "warpSize", "dim3", "nullptr",
	"operator", "template", "this", "new", "delete", "co_await", "real", "acc", "unit", "units", "row", "rows", "word", "strip",
	"muladd", "to_real", "bits_of", "gates", "cell", "tanh", "clip", "exp",
};
static const char *const forms[] = {
	"NULL", "INFINITY", "NAN", "M_PI", "EOF", "CLK_LOCAL_MEM_FENCE", "INT_MAX", "a_at", "a_stride", "a_offset", "a_all", "a_out", "no_a",
	"sum_a", "acc_a", "cg_a", "cl_khr_fp64", "t0", "t12", "a__b", "a_", "gd__x", "A", "I", "B2",
};
static const char *const joined[] = { "a_", "a__b", "A__", "gd__x" };

static void refused(const char *format, const char *name, const char *want)
{
	struct cg_mistake mistake;

	snprintf(text, sizeof text, format, name, name);
	assert_null(cg_parse(text, "x", counted, &mistake));
	if (strncmp(mistake.text, want, strlen(want)))
		fail_msg("expected %s, got %s", want, mistake.text);
	assert_int_equal(bytes.live, 0);
}

/* Expects that a name is rejected as a gate, as the recurrent part of one (split), as a weight and as a param. */
static void refused_everywhere(const char *name, const char *why)
{
	static const struct { const char *format, *place; } places[] = {
		{ "cell x\ngates %s\n", "x:2:7" }, { "cell x\nsplit %s\n", "x:2:7" },
		{ "cell x\noption o %s\n", "x:2:10" }, { "cell x\nparam %s\n", "x:2:7" },
	};
	char want[200];

	for (size_t k = 0; k < sizeof places / sizeof *places; k++) {
		snprintf(want, sizeof want, "%s: '%s' %s; choose another name\n", places[k].place, name, why);
		refused(places[k].format, name, want);
	}
}

/* Expects that a name is rejected for a cell and for an option, whose names are parts of a kernel's name. */
static void refused_within(const char *name, const char *why)
{
	char want[200];

	snprintf(want, sizeof want, "x:1:6: '%s' %s; choose another name\n", name, why);
	refused("cell %s\n", name, want);
	snprintf(want, sizeof want, "x:2:8: '%s' %s; choose another name\n", name, why);
	refused("cell x\noption %s w\n", name, want);
}

static void test_reserved_words(void **state)
{
	(void)state;
	for (size_t k = 0; k < sizeof reserved / sizeof *reserved; k++) {
		char why[100];

		assert_non_null(cg_find_reserved(reserved[k]));
		snprintf(why, sizeof why, "is a reserved word of %s", cg_find_reserved(reserved[k]));
		refused_everywhere(reserved[k], why);
		refused_within(reserved[k], why);
	}
	for (size_t k = 0; k < sizeof forms / sizeof *forms; k++)
		refused_everywhere(forms[k], "has a form that macros, C++ or kernels use for their own names");
	for (size_t k = 0; k < sizeof joined / sizeof *joined; k++)
		refused_within(joined[k], "has a form that macros, C++ or kernels use for their own names");
	refused("cell x\ngates __shared__\n", "", "x:2:7: expected a gate, got '_'\n");
	refused("cell x\ngates a\noutput h\nkernel = a\n", "", "x:4:1: 'kernel' is a reserved word of OpenCL C; choose another name\n");
	refused("cell x\ngates a\nstate c\noutput h\nh_prev = a\n", "", "x:5:1: 'h_prev' is declared already\n");
}

/* Where a name's adjoint is an argument, the adjoint must not be a keyword either. */
static void test_adjoints(void **state)
{
	struct cg_mistake mistake;
	struct cg_cell *cell;

	(void)state;
	refused("cell x\ngates %s\n", "o", "x:2:7: 'o' has the adjoint 'do', a reserved word of C; choose another name\n");
	refused("cell x\ngates %s\n", "lobal", "x:2:7: 'lobal' has the adjoint 'global', a reserved word of OpenCL C");
	refused("cell x\nstate %s\n", "ouble", "x:2:7: 'ouble' has the adjoint 'double', a reserved word of C");
	refused("cell x\noutput %s\n", "oto", "x:2:8: 'oto' has the adjoint 'goto', a reserved word of C");
	refused("cell x\noption p %s\n", "elete", "x:2:10: 'elete' has the adjoint 'delete', a reserved word of C++ and CUDA C");
	refused(HEAD "%s = a\nstage %s\n", "o", "x:5:7: 'o' has the adjoint 'do', a reserved word of C");
	/* Where a name's adjoint is no argument, the adjoint is the kernel's own variable, which gets another name. */
	cell = cg_parse(HEAD "o = tanh(a)\nh = o * b\nsave o\n", "x", counted, &mistake);
	assert_non_null(cell);
	plan_all(cell, "o", NEVER);
	cg_parse_free(cell);
}

/* The letter y is accepted, and every pass printed, as the name of a gate, a split gate, a state, the output, an option's weight, and a
   value before a stage. */
static void test_letter(void **state)
{
	static const char *const places[] = {
		"cell x\ngates y\noutput h\nh = y\n", "cell x\ngates a\nsplit y\noutput h\nh = a + y\n",
		"cell x\ngates a\nstate y\noutput h\ny = a + y_prev\nh = y\n", "cell x\ngates a\noutput y\ny = tanh(a) * y_prev\n",
		"cell x\ngates a\noutput h\noption o y\nh = a * y\n", HEAD "y = tanh(a) * h_prev\nstage y\ngates c\nh = c * b\n",
	};

	(void)state;
	for (size_t k = 0; k < sizeof places / sizeof *places; k++) {
		struct cg_mistake mistake;
		struct cg_cell *cell = cg_parse(places[k], "x", counted, &mistake);

		assert_string_equal(mistake.text, "");
		plan_all(cell, "y", NEVER);
		cg_parse_free(cell);
	}
}

/* ---- numbers ---- */

static void test_numbers(void **state)
{
	static const char *const good[] = { "00012", "1e-999", "1e-99999999999", "0.0000000001e40", ".5", "7.", "0e0", "9.9e37" };
	static const struct { const char *number, *message; } bad[] = {
		{ "1e999",  "x:4:9: a number has at most 40 digits and is below 1e38" },
		{ "1e38",   "x:4:9: a number has at most 40 digits and is below 1e38" },
		{ "0x10",   "x:4:10: expected an operator after the number" },
		{ "0x1p3",  "x:4:10: expected an operator after the number" },
		{ "1f",     "x:4:10: expected an operator after the number" },
		{ "1_000",  "x:4:10: expected an operator after the number" },
		{ "1,5",    "x:4:10: expected an operator or the end of the line, got ','" },
		{ "nan",    "x:4:9: 'nan' is not known here" },
		{ "inf",    "x:4:9: 'inf' is not known here" },
		{ "1e+",    "x:4:12: expected the digits of an exponent" },
		{ "+1",     "x:4:9: expected a name, a number or '(', got '+'" },
		{ "\xd9\xa3", "x:4:9: expected a name, a number or '(', got '\xd9\xa3'" },
	};
	struct cg_mistake mistake;

	(void)state;
	for (size_t k = 0; k < sizeof good / sizeof *good; k++) {
		struct cg_cell *cell;

		snprintf(text, sizeof text, HEAD "h = a * %s + b\n", good[k]);
		cell = cg_parse(text, "x", counted, &mistake);
		if (!cell)
			fail_msg("%s: %s", good[k], mistake.text);
		plan_all(cell, good[k], NEVER);
		cg_parse_free(cell);
	}
	for (size_t k = 0; k < sizeof bad / sizeof *bad; k++)
		refused(HEAD "h = a * %s", bad[k].number, bad[k].message);
}

/* A derivative adds up factors beyond the range of f32: forward is compiled in f32, grad is rejected there; gradgrad is compiled in f64. */
static void test_constants(void **state)
{
	struct cg_mistake mistake;
	struct cg_cell *cell = cg_parse(HEAD "h = a * (3 * 9.9e37) + a * (2.9 * 9.9e37) + b\n", "x", counted, &mistake);
	struct cg_pass_plan *plan;

	(void)state;
	assert_non_null(cell);
	plan = cg_plan(cell, 0, CG_PASS_FORWARD, 0, 0, counted, &mistake);
	assert_non_null(plan);
	print_all(plan, "constants");
	cg_plan_free(plan);
	assert_null(cg_plan(cell, 0, CG_PASS_GRAD, 0, 0, counted, &mistake));
	assert_string_equal(mistake.text, "cell x: a constant of 'h = a * (3 * 9.9e37) + a * (2.9 * 9.9e37) + b' or of its derivative is outside the range of f32");
	plan = cg_plan(cell, 0, CG_PASS_GRADGRAD, 0, 1, counted, &mistake);
	assert_non_null(plan);
	print_all(plan, "constants");
	cg_plan_free(plan);
	cg_parse_free(cell);
}

/* ---- what is compiled runs ---- */

enum { UNITS = 3 };

static struct cg_context *context;
static struct cg_stream *stream;

static struct cg_arg tensor(const char *name, void *data, size_t element)
{
	return (struct cg_arg){ .name = name, .mem = { data, 0, UNITS * element, CG_HOST }, .stride = UNITS };
}

static int run(const struct cg_cell *cell, int pass, int dtype, const struct cg_arg *args, int n)
{
	return cg_kernel_run(stream, &(struct cg_kernel){ .cell = cell, .pass = pass, .dtype = dtype }, 1, UNITS, args, n);
}

/* Runs kernels with very large graphs on the cpu backend, which interprets them. A call that is rejected writes nothing, and its
 * stream still works. */
static void test_run(void **state)
{
	static const int dtypes[] = { CG_F32, CG_F64 };
	struct cg_cell *cell;

	(void)state;
	assert_int_equal(cg_open("cpu", &context), CG_OK);
	assert_int_equal(cg_stream_open(context, NULL, &stream), CG_OK);
	for (int d = 0; d < 2; d++) {
		double a[UNITS] = { 0 }, b[UNITS] = { 0 }, dh[UNITS] = { 0 }, h[UNITS], da[UNITS], gdh[UNITS];
		size_t element = dtypes[d] == CG_F64 ? 8 : 4;
		struct cg_arg forward[] = { tensor("a", a, element), tensor("b", b, element), tensor("h", h, element) };
		struct cg_arg grad[] = { tensor("a", a, element), tensor("dh", dh, element), tensor("da", da, element) };
		struct cg_arg gradgrad[] = { tensor("a", a, element), tensor("dh", dh, element), tensor("gda", a, element),
			tensor("gdb", b, element), tensor("gdh", gdh, element) };
		char untouched[sizeof gdh];

		memset(h, 0x77, sizeof h);
		memset(da, 0x77, sizeof da);
		memset(gdh, 0x77, sizeof gdh);
		memset(untouched, 0x77, sizeof untouched);
		for (int u = 0; u < UNITS; u++) {
			if (dtypes[d] == CG_F64)
				b[u] = dh[u] = u + 1;
			else
				((float *)b)[u] = ((float *)dh)[u] = (float)(u + 1);
		}
		/* At a = 0: h = b + 0, da = dh (1.00000 + 1.00001 + ...). */
		long_sum_of_tanh();
		assert_int_equal(cg_cell_parse(text, "x", &cell), CG_OK);
		start();
		assert_int_equal(run(cell, CG_FORWARD, dtypes[d], forward, 3), CG_OK);
		assert_int_equal(run(cell, CG_GRAD, dtypes[d], grad, 3), CG_OK);
		stop("run");
		assert_int_equal(run(cell, CG_GRADGRAD, dtypes[d], gradgrad, 5), CG_BUILD);
		assert_string_equal(cg_message(), "cell x: pass gradgrad has " NODES);
		assert_memory_equal(gdh, untouched, sizeof gdh);
		for (int u = 0; u < UNITS; u++) {
			double got = dtypes[d] == CG_F64 ? h[u] : ((float *)h)[u], slope = dtypes[d] == CG_F64 ? da[u] : ((float *)da)[u];

			assert_true(got == u + 1);
			assert_true(fabs(slope / (u + 1) - (TANHS + (TANHS - 1) * TANHS / 2 * 1e-5)) < (dtypes[d] == CG_F64 ? 1e-8 : 0.5));
		}
		cg_cell_close(cell);
		/* gdh = gdb + gda (1 + 1 + ...) is gdb, since gda is 0. */
		long_sum_of_clips();
		assert_int_equal(cg_cell_parse(text, "x", &cell), CG_OK);
		start();
		assert_int_equal(run(cell, CG_GRADGRAD, dtypes[d], gradgrad, 5), CG_OK);
		stop("run");
		for (int u = 0; u < UNITS; u++)
			assert_true((dtypes[d] == CG_F64 ? gdh[u] : ((float *)gdh)[u]) == u + 1);
		cg_cell_close(cell);
	}
	/* The kernel of gradgrad of a cell with the most gates and saved values has more arguments than a call can have: it can be printed, but
	   a call is rejected. */
	many_arguments();
	assert_int_equal(cg_cell_parse(text, "x", &cell), CG_OK);
	assert_int_equal(cg_kernel_run(stream, &(struct cg_kernel){ .cell = cell, .pass = CG_GRADGRAD }, 1, UNITS, NULL, 0), CG_UNSUPPORTED);
	assert_non_null(strstr(cg_message(), "more than 128 arguments"));
	cg_cell_close(cell);
	cg_stream_close(stream);
	cg_close(context);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_texts),
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_reserved_words),
		cmocka_unit_test(test_adjoints),
		cmocka_unit_test(test_letter),
		cmocka_unit_test(test_numbers),
		cmocka_unit_test(test_constants),
		cmocka_unit_test(test_run),
	};

	slow_by = slowness();
	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests_name("limit", tests, NULL, NULL);
}
