/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests simplification: the graph that is made of equations has the value of the equations. The equations are evaluated here as written, by
 * the C library, and the graph by cg_eval; since nothing is reassociated both must be equal wherever all intermediate results are finite.
 * Each rule of expr.c is tested by itself, as are pairs of expressions that must not become one.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/gen/every.h"

enum { EXPRESSIONS = 4000, POINTS = 4, TEXT = 1 << 14 };

/* ---- terms as they stand ---- */

struct point {
	long double gates[CG_GATES_MAX], prevs[CG_STATES_MAX + 1], weights[CG_WEIGHTS_MAX], scalars[CG_SCALARS_MAX], params[CG_PARAMS_MAX];
};

static int wild;                                 /* an intermediate result was not finite, or a divisor was 0 */

static long double plain(const struct cg_cell *cell, int options, const struct point *at, int term)
{
	const struct cg_term *t = &cell->terms[term];
	long double a = 0, b = 0, v = 0;

	if (t->code == CG_TERM_SYMBOL) {
		switch (t->a) {
		case CG_SYMBOL_GATE:   return at->gates[t->b];
		case CG_SYMBOL_PREV:   return at->prevs[t->b];
		case CG_SYMBOL_PARAM:  return at->params[t->b];
		case CG_SYMBOL_WEIGHT: return cg_has_weight(&cell->weights[t->b], options) ? at->weights[t->b] : 0;
		case CG_SYMBOL_SCALAR: return at->scalars[t->b];
		case CG_SYMBOL_VALUE:  return plain(cell, options, at, cell->values[t->b].term);
		}
		fail();
	}
	if (t->code == CG_OP_CONST)
		return t->value;
	a = plain(cell, options, at, t->a);
	if (t->b >= 0)
		b = plain(cell, options, at, t->b);
	switch (t->code) {
	case CG_OP_NEG:     v = -a;                                       break;
	case CG_OP_ADD:     v = a + b;                                    break;
	case CG_TERM_SUB:   v = a - b;                                    break;
	case CG_OP_MUL:     v = a * b;                                    break;
	case CG_TERM_DIV:   v = a * (1 / b);                              break;
	case CG_OP_EXP:     v = expl(a);                                  break;
	case CG_OP_TANH:    v = tanhl(a);                                 break;
	case CG_OP_SIGMOID: v = 1 / (1 + expl(-a));                       break;
	case CG_OP_RELU:    v = a > 0 ? a : 0;                            break;
	case CG_OP_STEP:    v = a > 0 ? 1 : 0;                            break;
	case CG_OP_CLIP:    v = b > 0 ? fminl(fmaxl(a, -b), b) : a;       break;
	case CG_OP_MAX:     v = fmaxl(a, b);                              break;
	case CG_OP_MIN:     v = fminl(a, b);                              break;
	case CG_OP_ABS:     v = fabsl(a);                                 break;
	case CG_OP_LOG:     v = logl(a);                                  break;
	case CG_OP_LOG1P:   v = log1pl(a);                                break;
	case CG_OP_SOFTPLUS: v = fmaxl(a, 0) + log1pl(expl(-fabsl(a)));   break;
	case CG_OP_EXPM1:   v = expm1l(a);                                break;
	case CG_OP_SQRT:    v = sqrtl(a);                                 break;
	case CG_OP_ERF:     v = erfl(a);                                  break;
	case CG_OP_MEAN:    v = a;                                        break;  /* of one unit */
	default:            fail_msg("operator %d is not tried here", t->code);
	}
	wild |= !isfinite(v) || (t->code == CG_TERM_DIV && b == 0);
	return v;
}

static long double leaf_at(const struct cg_leaf *leaf, const struct point *at)
{
	switch (leaf->role) {
	case CG_ROLE_GATE:   return at->gates[leaf->index];
	case CG_ROLE_PREV:   return at->prevs[leaf->index];
	case CG_ROLE_WEIGHT: return at->weights[leaf->index];
	case CG_ROLE_SCALAR: return at->scalars[leaf->index];
	}
	return at->params[leaf->index];
}

static long double somewhere(void)
{
	static const long double special[] = { 0, 1, -1, 2, -0.5L };

	return random_below(4) ? 4 * (long double)random_unit() - 2 : special[random_below(5)];
}

/* Compares the values of the equations and of the graph at random points; returns how many were compared: those whose
   intermediate results are all finite. */
static int agree(const struct cg_cell *cell, int options)
{
	struct cg_arena arena = { resize, NULL, 0 };
	struct cg_graph graph;
	long double *value;
	int tried = 0;

	cg_graph_open(&graph, &arena);
	cg_graph_build(&graph, cell, options);
	assert_false(graph.failed);
	value = calloc((size_t)graph.n, sizeof *value);
	for (int n = 0; n < POINTS; n++) {
		struct point at;

		for (int k = 0; k < CG_GATES_MAX; k++)   at.gates[k] = somewhere();
		for (int k = 0; k <= CG_STATES_MAX; k++) at.prevs[k] = somewhere();
		for (int k = 0; k < CG_WEIGHTS_MAX; k++) at.weights[k] = somewhere();
		for (int k = 0; k < CG_SCALARS_MAX; k++) at.scalars[k] = somewhere();
		for (int k = 0; k < CG_PARAMS_MAX; k++)  at.params[k] = somewhere();
		for (int k = 0; k < graph.n; k++)
			if (graph.nodes[k].code == CG_OP_LEAF)
				value[k] = leaf_at(&graph.leaves[graph.nodes[k].a], &at);
		cg_eval(&graph, value, graph.n);
		for (int k = 0; k < cell->n_values; k++) {
			long double want;

			wild = 0;
			want = plain(cell, options, &at, cell->values[k].term);
			if (wild)
				continue;
			tried++;
			if (value[graph.value[k]] != want)
				fail_msg("%s, options %d: %.20Lg, as written %.20Lg", cell->values[k].line, options,
				         value[graph.value[k]], want);
		}
	}
	free(value);
	cg_arena_free(&arena);
	return tried;
}

/* ---- random expressions ---- */

static void put(char *text, const char *s)
{
	size_t n = strlen(text);

	assert_true(n + strlen(s) < TEXT);
	strcpy(text + n, s);
}

static void expression(char *text, int depth)
{
	static const char *const leaves[] = { "a", "b", "u", "h_prev", "c_prev", "p", "q", "x", "0", "1", "2", "0.5", "-1" };
	static const char *const binary[] = { " + ", " - ", " * ", " / " };
	static const struct { const char *call; int arity; } calls[] = {
		{ "exp(", 1 }, { "tanh(", 1 }, { "sigmoid(", 1 }, { "relu(", 1 }, { "step(", 1 }, { "clip(", 2 }, { "max(", 2 },
		{ "min(", 2 }, { "abs(", 1 }, { "log(", 1 }, { "log1p(", 1 }, { "expm1(", 1 }, { "sqrt(", 1 }, { "erf(", 1 }, { "silu(", 1 },
		{ "softsign(", 1 }, { "hard_sigmoid(", 1 }, { "softplus(", 1 }, { "gelu(", 1 },
	};
	int which = depth ? random_below(12) : 0;

	if (which < 2) {
		put(text, leaves[random_below(13)]);
	} else if (which < 8) {
		/* One time in three the operation gets no parentheses, so that the comparison also tests precedence. */
		int open = random_below(3);

		put(text, open ? "(" : "");
		expression(text, depth - 1);
		put(text, binary[random_below(4)]);
		expression(text, depth - 1);
		put(text, open ? ")" : "");
	} else if (which < 10) {
		put(text, "-");
		expression(text, depth - 1);
	} else {
		int call = random_below(sizeof calls / sizeof *calls);

		put(text, calls[call].call);
		expression(text, depth - 1);
		if (calls[call].arity == 2) {
			put(text, ", ");
			expression(text, depth - 1);
		}
		put(text, ")");
	}
}

static void test_random(void **state)
{
	static char text[TEXT];
	int tried = 0;

	(void)state;
	for (int n = 0; n < EXPRESSIONS; n++) {
		struct cg_cell *cell;

		strcpy(text, "cell any\ngates a b u\nstate c\noutput h\noption one p\noption two q\nparam x\nv = ");
		expression(text, 4);
		put(text, "\nc = v * 1 + p * q * x * a * b * u * h_prev * c_prev\nh = ");
		expression(text, 5);
		put(text, "\n");
		cell = must_parse(text, text);
		for (int options = 0; options < 4; options++)
			tried += agree(cell, options);
		cg_parse_free(cell);
	}
	printf("# %d values compared\n", tried);
	assert_true(tried > EXPRESSIONS * POINTS * 4);
}

static void test_cells(void **state)
{
	struct cg_cell *cell;

	(void)state;
	for (int k = 0; (cell = every_cell(k)); k++) {
		for (int options = 0; options < 1 << cell->n_options; options++)
			assert_true(agree(cell, options) > 0);
		cg_parse_free(cell);
	}
}

/* ---- rules, one by one ---- */

static const char *const same[][2] = {
	{ "a + 0",                 "a" },                   { "0 + a",                    "a" },
	{ "a - 0",                 "a" },                   { "0 - a",                    "-a" },
	{ "a * 0",                 "0" },                   { "0 * a",                    "0" },
	{ "a * 1",                 "a" },                   { "1 * a",                    "a" },
	{ "a * -1",                "-a" },                  { "-1 * a",                   "-a" },
	{ "a / 1",                 "a" },                   { "a / -1",                   "-a" },
	{ "-(-a)",                 "a" },                   { "-(0)",                     "0" },
	{ "-a * b",                "-(a * b)" },            { "a * -b",                   "-(a * b)" },
	{ "-a * -b",               "a * b" },               { "-a * (-b * -c)",           "-(a * (b * c))" },
	{ "-a + -b",               "-(a + b)" },            { "-a - b",                   "-(a + b)" },
	{ "a - -b",                "a + b" },               { "a + b",                    "b + a" },
	{ "a * b",                 "b * a" },               { "a - b",                    "-b + a" },
	{ "2 + 3",                 "5" },                   { "2 * 3",                    "6" },
	{ "2 - 3",                 "-1" },                  { "-(2)",                     "-2" },
	{ "a * (3 - 2)",           "a" },                   { "a + (2 - 2) * b",          "a" },
	{ "exp(0)",                "1" },                   { "exp(0) * a",               "a" },
	{ "tanh(0) + a",           "a" },                   { "sigmoid(0)",               "0.5" },
	{ "relu(-2)",              "0" },                   { "relu(2)",                  "2" },
	{ "step(2)",               "1" },                   { "step(0)",                  "0" },
	{ "clip(3, 2)",            "2" },                   { "clip(-3, 2)",              "-2" },
	{ "clip(3, 0)",            "3" },                   { "clip(3, -1)",              "3" },
	{ "relu(relu(a))",         "relu(a)" },             { "step(step(a))",            "step(a)" },
	{ "a / 2",                 "a * 0.5" },             { "a / b",                    "a * (1 / b)" },
	{ "tanh(a + b)",           "tanh(b + a)" },         { "w * a + b",                "b" },
	{ "tanh(w) * a",           "0" },                   { "sigmoid(a + w * c)",       "sigmoid(a)" },
	{ "a - (b - c)",           "a - (b + -c)" },        { "- - a",                    "a" },
	{ "max(2, 3)",             "3" },                   { "min(2, -3)",               "-3" },
	{ "abs(-2)",               "2" },                   { "abs(-a)",                  "abs(a)" },
	{ "abs(abs(a))",           "abs(a)" },              { "abs(-abs(a))",             "abs(a)" },
	{ "max(a, a)",             "a" },                   { "min(a + b, b + a)",        "a + b" },
	{ "max(a, b)",             "max(b, a)" },           { "min(a, b)",                "min(b, a)" },
	{ "log(1)",                "0" },                   { "log1p(0) + a",             "a" },
	{ "expm1(w)",              "0" },                   { "sqrt(4)",                  "2" },
	{ "erf(0) * a",            "0" },                   { "sqrt(w * a)",              "0" },
};
/* Pairs of expressions that must not become one expression, since for most pairs that would change rounding or meaning. */
static const char *const different[][2] = {
	{ "(a + b) + c",           "a + (b + c)" },         { "(a * b) * c",              "a * (b * c)" },
	{ "a * (b + c)",           "a * b + a * c" },       { "a - b",                    "b - a" },
	{ "clip(a, b)",            "clip(b, a)" },          { "relu(-a)",                 "-relu(a)" },
	{ "tanh(-a)",              "-tanh(a)" },            { "a + b - b",                "a" },
	{ "a / b * b",             "a" },                   { "step(relu(a))",            "relu(step(a))" },
	{ "relu(step(a))",         "relu(a)" },             { "exp(a) * exp(b)",          "exp(a + b)" },
	{ "a",                     "b" },                   { "2 * a",                    "a + a" },
	{ "0.1 * a",               "0.10000000000000001 * a" },
	{ "max(a, b)",             "min(a, b)" },           { "max(a, 0)",                "relu(a)" },
	{ "abs(a)",                "relu(a) + relu(-a)" },  { "max(a, -a)",               "abs(a)" },
	{ "log(1 + a)",            "log1p(a)" },            { "exp(a) - 1",               "expm1(a)" },
	{ "log(exp(a))",           "a" },                   { "sqrt(a * a)",              "abs(a)" },
	{ "erf(-a)",               "-erf(a)" },             { "sqrt(a) * sqrt(a)",        "a" },
};

static int are_one(const char *one, const char *other)
{
	struct cg_arena arena = { resize, NULL, 0 };
	struct cg_graph graph;
	struct cg_cell *cell;
	char text[512];
	int equal;

	snprintf(text, sizeof text, "cell x\ngates a b c\noutput h\noption off w\nx1 = %s\nx2 = %s\nh = a + b + c + w\nsave x1 x2\n", one, other);
	cell = must_parse(text, text);
	cg_graph_open(&graph, &arena);
	cg_graph_build(&graph, cell, 0);
	assert_false(graph.failed);
	equal = graph.value[0] == graph.value[1];
	cg_arena_free(&arena);
	cg_parse_free(cell);
	return equal;
}

static void test_rules(void **state)
{
	(void)state;
	for (size_t k = 0; k < sizeof same / sizeof *same; k++)
		if (!are_one(same[k][0], same[k][1]) || !are_one(same[k][1], same[k][0]))
			fail_msg("%s is not %s", same[k][0], same[k][1]);
	for (size_t k = 0; k < sizeof different / sizeof *different; k++)
		if (are_one(different[k][0], different[k][1]))
			fail_msg("%s became %s", different[k][0], different[k][1]);
}

/* A constructor returns an existing equal node, and the table stays right when it grows. */
static void test_interning(void **state)
{
	struct cg_arena arena = { resize, NULL, 0 };
	struct cg_graph graph;
	int leaves[100], sums[100], n;

	(void)state;
	cg_graph_open(&graph, &arena);
	assert_int_equal(cg_const(&graph, 0), 0);
	assert_int_equal(cg_const(&graph, -0.0L), 0);
	for (int k = 0; k < 100; k++)
		leaves[k] = cg_add_leaf(&graph, "x", CG_ROLE_GATE, k, CG_VALUE);
	for (int k = 0; k < 100; k++)
		sums[k] = cg_apply(&graph, CG_OP_TANH, cg_add(&graph, leaves[k], leaves[99 - k]), 0);
	for (int k = 0; k < 2000; k++)
		cg_const(&graph, 3 + k);
	n = graph.n;
	for (int k = 0; k < 100; k++) {
		assert_int_equal(cg_add_leaf(&graph, "x", CG_ROLE_GATE, k, CG_VALUE), leaves[k]);
		assert_int_equal(cg_apply(&graph, CG_OP_TANH, cg_add(&graph, leaves[99 - k], leaves[k]), 0), sums[k]);
	}
	for (int k = 0; k < 2000; k++)
		cg_const(&graph, 3 + k);
	assert_int_equal(graph.n, n);
	assert_int_not_equal(cg_add_leaf(&graph, "dx", CG_ROLE_GATE, 0, CG_D), leaves[0]);
	for (int k = 1; k < graph.n; k++)
		for (int which = 0; which < cg_operators[graph.nodes[k].code].arity; which++)
			assert_true((which ? graph.nodes[k].b : graph.nodes[k].a) < k);
	cg_arena_free(&arena);
}

/* ---- options ---- */

/* Does the name of a weight, or of its adjoint, occur among the arguments of a pass, or the weight among its leaves? */
static int reads(const struct cg_cell *cell, int options, int pass, const char *name)
{
	struct cg_pass_plan *plan = must_plan(cell, options, pass, 0, 0);
	int there = 0;

	for (int k = 0; k < plan->n_functions; k++)
		for (int j = 0; j < plan->functions[k].n_arguments; j++) {
			const char *at = strstr(plan->functions[k].arguments[j].name, name);

			there |= at && !at[strlen(name)];
		}
	for (int k = 0; k < plan->graph.n_leaves; k++)
		there |= plan->graph.leaves[k].role == CG_ROLE_WEIGHT && !strcmp(plan->graph.leaves[k].name, name);
	cg_plan_free(plan);
	return there;
}

static void test_options(void **state)
{
	struct cg_cell *cell;

	(void)state;
	for (int c = 0; (cell = every_cell(c)); c++) {
		for (int options = 0; options < 1 << cell->n_options; options++)
			for (int pass = 0; pass < CG_PASS_COUNT; pass++)
				for (int k = 0; k < cell->n_weights; k++)
					assert_int_equal(reads(cell, options, pass, cell->weights[k].name),
					                 cg_has_weight(&cell->weights[k], options));
		cg_parse_free(cell);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_rules),
		cmocka_unit_test(test_interning),
		cmocka_unit_test(test_random),
		cmocka_unit_test(test_cells),
		cmocka_unit_test(test_options),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	random_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
