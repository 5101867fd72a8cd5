/* SPDX-License-Identifier: Apache-2.0 */
/* The language: what accepted texts mean, and the limits of texts, of names of options and of constants. */
#include <ctype.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/gen/cell_text.h"

/* ---- functions that are not there, in words of those that are ---- */

static double silu(double a, double b)      { (void)b; return a / (1 + exp(-a)); }
static double first_erfc(double a, double b) { (void)b; return erfc(a); }
static double elu(double a, double b)       { (void)b; return a > 0 ? a : exp(a) - 1; }
static double sign(double a, double b)      { (void)b; return (a > 0) - (a < 0); }
static double square(double a, double b)    { (void)b; return a * a; }
static double clamp(double a, double b)     { return fmax(-b, fmin(a, b)); }
static double log_sigmoid(double a, double b) { (void)b; return -log1p(exp(-a)); }

static const struct { const char *name; double (*is)(double a, double b); double most; } others[] = {
	{ "maximum", fmax, 0 }, { "minimum", fmin, 0 }, { "swish", silu, 1e-15 },
	{ "erfc", first_erfc, 1e-15 }, { "elu", elu, 1e-15 }, { "sign", sign, 0 }, { "clamp", clamp, 0 }, { "square", square, 1e-15 },
	{ "pow", square, 1e-15 }, { "log_sigmoid", log_sigmoid, 1e-15 },
};

/* Copies the expression that the error of an unknown function advises: the part between " is " or " is nearly " and the list of functions,
   with arguments a and b. */
static void advice(const char *name, char expression[200])
{
	static const struct { const char *name, *is; } names[] = { { "x", "a" }, { "low", "-b" }, { "high", "b" } };
	struct cg_mistake mistake;
	char text[100];
	const char *at, *end;
	size_t n = 0;

	snprintf(text, sizeof text, HEAD "h = %s(a, b)\n", name);
	assert_null(cg_parse(text, "x", resize, &mistake));
	at = strstr(mistake.text, "': ");
	at = at ? strstr(at, " is ") : NULL;
	end = strstr(mistake.text, "; the functions");
	assert_true(at && end && at < end);
	at += strlen(strncmp(at, " is nearly ", 11) ? " is " : " is nearly ");
	for (; at < end; at++) {
		/* The advice has the names x, low and high; its copy in `expression` has a, -b and b in their place. */
		int first = !isalpha((unsigned char)at[-1]), name = 0;

		while (first && name < 3 && strncmp(at, names[name].name, strlen(names[name].name)))
			name++;
		if (!first || name == 3) {
			n += (size_t)sprintf(expression + n, "%c", *at);
			continue;
		}
		n += (size_t)sprintf(expression + n, "%s", names[name].is);
		at += strlen(names[name].name) - 1;
	}
}

/* The value of an expression for these values of a and b. */
static double value_of(const char *expression, double a, double b)
{
	struct cg_arena memory = { resize, NULL, 0 };
	long double value[100] = { 0 };
	struct cg_graph graph;
	struct cg_cell *cell;
	char text[300];
	double h;

	snprintf(text, sizeof text, HEAD "h = %s\nk = b + a\nsave k\n", expression);
	cell = must_parse(text, "advice");
	cg_graph_open(&graph, &memory);
	cg_graph_build(&graph, cell, 0);
	assert_true(graph.n <= 100);
	for (int k = 0; k < graph.n; k++)
		if (graph.nodes[k].code == CG_OP_LEAF)
			value[k] = graph.leaves[graph.nodes[k].a].index ? b : a;
	cg_eval(&graph, value, graph.n);
	h = (double)value[graph.value[0]];
	cg_arena_free(&memory);
	cg_parse_free(cell);
	return h;
}

static void test_advice(void **state)
{
	(void)state;
	for (size_t k = 0; k < sizeof others / sizeof *others; k++) {
		char expression[200];

		advice(others[k].name, expression);
		for (double a = -3; a <= 3; a += 0.375)
			for (double b = 0.5; b <= 2; b += 0.75) {
				double got = value_of(expression, a, b), want = others[k].is(a, b);

				if (!(fabs(got - want) <= others[k].most))
					fail_msg("%s at %g, %g: %s is %.17g, not %.17g", others[k].name, a, b, expression, got, want);
			}
	}
}

/* ---- forms ---- */

static double softsign(double a, double b)     { (void)b; return a / (1 + fabs(a)); }
static double softplus(double a, double b)     { (void)b; return a > 20 ? a : log1p(exp(a)); }
static double gelu(double a, double b)         { (void)b; return a / 2 * (1 + erf(a / sqrt(2))); }
static double hard_sigmoid(double a, double b) { (void)b; return fmin(fmax(a / 6 + 0.5, 0), 1); }

/* The named forms, such as silu, have the values of their functions, of any argument, also of another form and where a value of the cell
   has the form's name. */
static void test_forms(void **state)
{
	static const struct { const char *expression; double (*is)(double a, double b); } forms[] = {
		{ "silu(a)", silu }, { "softsign(a)", softsign }, { "hard_sigmoid(a)", hard_sigmoid },
		{ "silu (  (a) # one\n )", silu }, { "-hard_sigmoid(-a) + 1", hard_sigmoid },
		{ "softplus(a)", softplus }, { "softplus(-a) + a", softplus }, { "gelu(a)", gelu }, { "gelu(-a) + a", gelu },
	};

	(void)state;
	for (size_t k = 0; k < sizeof forms / sizeof *forms; k++)
		for (double a = -12; a <= 12; a += 0.125) {
			double got = value_of(forms[k].expression, a, 1), want = forms[k].is(a, 1);

			if (!(fabs(got - want) <= 1e-15 * (1 + fabs(want))))
				fail_msg("%s at %g: %.17g, not %.17g", forms[k].expression, a, got, want);
		}
	assert_true(value_of("softplus(a)", 40, 0) == 40 && value_of("softplus(a)", 3000, 0) == 3000 && value_of("softplus(a)", -3000, 0) == 0);
	assert_true(value_of("softplus(a)", -50, 0) == exp(-50) && value_of("softplus(a)", 0, 0) == log(2));
	assert_true(fabs(value_of("silu(a * softsign(b - a))", 2, 5) - silu(1.5, 0)) < 1e-15);
	assert_true(fabs(value_of("silu(b)\nsilu = 3 * a\nj = silu(silu) + silu\nsave j", 1, 2) - silu(2, 0)) < 1e-15);
	assert_true(value_of("b\nx = 2 * a\nsoftplus = silu(x)\nsave softplus", 1, 2) == 2);
}

/* Forms nested as deep as parentheses may be have less than twice the terms of forms nested half as deep, and less than five times their
   nodes in pass gradgrad. */
static void test_nested_forms(void **state)
{
	static const char *const forms[] = { "silu(", "softsign(", "hard_sigmoid(", "softplus(", "gelu(" };

	(void)state;
	for (int f = 0; f < 5; f++) {
		int terms[2] = { 0 }, nodes[2] = { 0 };

		for (int twice = 0; twice < 2; twice++) {
			char text[2000] = HEAD "h = b + ";
			struct cg_pass_plan *plan;
			struct cg_cell *cell;

			for (int k = 0; k < CG_DEPTH_MAX / 2 << twice; k++)
				strcat(text, forms[f]);
			strcat(text, "a");
			for (int k = 0; k < CG_DEPTH_MAX / 2 << twice; k++)
				strcat(text, ")");
			cell = must_parse(strcat(text, "\n"), "nested");
			plan = must_plan(cell, 0, CG_PASS_GRADGRAD, 0, 0);
			terms[twice] = cell->n_terms;
			nodes[twice] = plan->graph.n;
			cg_plan_free(plan);
			cg_parse_free(cell);
		}
		assert_true(terms[1] < 2 * terms[0] && nodes[1] < 5 * nodes[0]);
	}
	assert_int_equal(memory.live, 0);
}

/* ---- accepted texts ---- */

static void test_accepted(void **state)
{
	(void)state;
	accepted(HEAD "h = a + b");
	accepted("cell x\r\ngates a b\r\noutput h\r\n\r\nh = a + b\r\n");
	accepted("#\n\n  cell\tx # a comment\n\tgates  a\n gates b#b\noutput h\n\n\nh=a+b#\n#");
	accepted(HEAD "h = (a +\n\n # between\n b) * (a\n - b)\nsave h\n");
	accepted(HEAD "h = - - -a + -b\nsave h\n");
	accepted(HEAD "h = b * -a\nsave h\n");
	accepted(HEAD "h = clip(a, -b)\n");
	accepted(HEAD "h = a * 1e-30 + b * .5 + 7. + 0.1E+2 + 9999999999999999999999999999999999999\n");
	accepted(HEAD "param p = -1.5e-3, q, r = 0\nh = a * p + b * q + r\n");
	accepted(HEAD "u = tanh(a)\nuU = b\nh = u * uU\n");
	accepted(HEAD "input = tanh(a)\nh = input * b\n");
	accepted("cell x\ngates input no\noutput h\nh = input * no\n");
	accepted("cell x\ninput a no\nsplit b bias\noutput h\nh = a * no + b * bias\n");
	accepted("cell x\ninput input no bias\noutput h\nh = input + h_prev\n");
	accepted(HEAD "weight = tanh(a)\nscalar = b\nh = weight * scalar\n");
	accepted("cell x\ngates weight scalar\noutput h\nh = weight + scalar\n");
	accepted(HEAD "weight weight\nscalar scalar = 1\nh = a * weight + b * scalar\n");
	accepted(HEAD "scalar tau = -1.5e-3, q = 2\nweight u v\nweight w\nh = a * tau + b * q + u * v * w\n");
	accepted(HEAD "mean = mean(a)\nh = mean(b * mean) + mean\n");
	accepted(HEAD "weight g f = 1\noption o e = -2.5\nh = a * g + b * f + e\n");
	accepted("cell GATES\ngates a\noutput h\nh = a\n");
	accepted("cell x\ngates abcdefghijklmnopqrstuvwx\noutput h\nh = abcdefghijklmnopqrstuvwx\n");
	accepted("cell x\ngates a\nstate c1 c2 c3 c4\noutput h\nc1 = a\nc2 = a\nc3 = a\nc4 = a\nh = a\n");
	accepted("cell x\ngates a\noutput h\nstate c1 c2 c3 c4\nc1 = a\nc2 = a\nc3 = a\nc4 = a\nh = a\n");
}

/* A parsed cell has what its text declares. */
static void test_read(void **state)
{
	struct cg_cell *cell = must_parse("cell x\ngates a_i k\nsplit q_n\nstate c\noutput h\noption o w v = 2\noption z x\n"
	                                  "weight y = -4\nscalar tau = -3, g = 1\n"
	                                  "param p = -2.5, q\nu = ( a_i # one\n\t+  k ) * w\nstage u\ngates m\n"
	                                  "c = u + v * x * p * q * y * tau * g\nh = m * c_prev * q_n\nsave c u\n", "x");

	(void)state;
	assert_string_equal(cell->name, "x");
	assert_int_equal(cell->n_gates, 4);
	assert_string_equal(cell->gates[2].name, "q_n");
	assert_int_equal(cell->gates[1].split, 0);
	assert_int_equal(cell->gates[2].split, 1);
	assert_int_equal(cell->gates[2].whole, -1);
	assert_int_equal(cell->gates[2].stage, 1);
	assert_int_equal(cell->gates[3].stage, 2);
	assert_int_equal(cell->n_stages, 2);
	assert_string_equal(cell->values[cell->feeds[0]].name, "u");
	assert_int_equal(cell->n_prevs, 2);
	assert_string_equal(cell->prevs[1].name, "h_prev");
	assert_int_equal(cell->prevs[0].output, 0);
	assert_int_equal(cell->prevs[1].output, 1);
	assert_string_equal(cell->values[cell->prevs[1].value].name, "h");
	assert_int_equal(cell->n_options, 2);
	assert_int_equal(cell->weights[1].option, 0);
	assert_int_equal(cell->weights[2].option, 1);
	assert_int_equal(cell->weights[3].option, -1);
	assert_true(cell->weights[0].given && cell->weights[0].start == 2 && cell->weights[1].given && cell->weights[1].start == 2);
	assert_true(!cell->weights[2].given && cell->weights[3].given && cell->weights[3].start == -4);
	assert_int_equal(cell->n_scalars, 2);
	assert_string_equal(cell->scalars[1].name, "g");
	assert_true(cell->scalars[0].start == -3 && cell->scalars[1].start == 1);
	assert_true(cell->params[0].given && cell->params[0].value == -2.5 && !cell->params[1].given);
	assert_string_equal(cell->values[0].line, "u = ( a_i + k ) * w");
	assert_int_equal(cell->n_saves, 2);
	assert_string_equal(cell->values[cell->saves[1]].name, "u");
	cg_parse_free(cell);
}

/* The parts of gates: x W, h R and their biases, as the gate's line and its split gate leave them. */
static void test_parts(void **state)
{
	enum { W = 1 << CG_PART_W, R = 1 << CG_PART_R, BW = 1 << CG_PART_BIAS_W, BR = 1 << CG_PART_BIAS_R };
	static const struct { const char *lines; unsigned parts[4], weights[4]; } cells[] = {
		{ "gates a_r a_n\nsplit q_n\ninput a_i",
		  { W | R | BW | BR, W | BW, R | BR, W | BW }, { W | R | BW | BR, W | R | BW | BR, R | BR, W | BW } },
		{ "gates a_r a_n\nsplit q_n no bias\ninput a_i\tno  bias # none",
		  { W | R | BW | BR, W | BW, R, W }, { W | R | BW | BR, W | R | BW, R, W } },
		{ "input a_r a_n no bias\nsplit q_n\nsplit a_i no bias", { W, W, R | BR, R }, { W, W, R | BR, R } },
		{ "input a_r a_n\nsplit q_n a_i", { W | BW, W | BW, R | BR, R | BR }, { W | BW, W | BW, R | BR, R | BR } },
	};

	(void)state;
	for (size_t k = 0; k < sizeof cells / sizeof *cells; k++) {
		struct cg_cell *cell;
		char text[200];

		snprintf(text, sizeof text, "cell x\n%s\noutput h\nh = a_r + a_n + q_n + a_i\n", cells[k].lines);
		cell = must_parse(text, "x.cell");
		assert_int_equal(cell->n_gates, 4);
		for (int g = 0; g < 4; g++) {
			assert_int_equal(cell->gates[g].parts, cells[k].parts[g]);
			assert_int_equal(cg_gate_weights(cell, g), cells[k].weights[g]);
		}
		cg_parse_free(cell);
	}
}

/* wholes: for each gate the digit of the gate whose recurrent part it is, or - for none; message: the error of cg_check_split(), NULL
   for none. */
static void test_split(void **state)
{
	static const struct { const char *text, *wholes, *message; } cells[] = {
		{ "cell x\ngates a_r a_n\nsplit q_n\noutput h\nh = a_r + a_n + q_n\n", "--1", NULL },
		{ "cell x\nsplit q_n q_m\ngates a_n b_m\noutput h\nh = q_n + q_m + a_n + b_m\n", "23--", NULL },
		{ "cell x\ngates a_n k_n\nsplit q_n\noutput h\nh = a_n + k_n + q_n\n", "--0", NULL },
		{ "cell x\ngates a_x_n\nsplit q_x_n\noutput h\nh = a_x_n + q_x_n\n", "-0", NULL },
		{ "cell x\ngates a_n\noutput h\nu = a_n\nstage u\ngates k_n\nsplit q_n\nh = k_n + q_n\n", "--1", NULL },
		{ "cell x\ngates a_i\nsplit q_n\noutput h\nh = a_i + q_n\n", "--", NULL },
		{ "cell x\ngates a_x_n\nsplit q_n\noutput h\nh = a_x_n + q_n\n", "--", NULL },
		{ "cell x\ngates an\nsplit qn\noutput h\nh = an + qn\n", "--", NULL },
		{ "cell x\ngates a_n\noutput h\nu = a_n\nstage u\ngates b_m\nsplit q_n\nh = b_m + q_n\n", "---", NULL },
		{ "cell x\ninput a_n\nsplit q_n\noutput h\nh = a_n + q_n\n", "--", NULL },
		{ "cell x\ngates a_n\nsplit q_n p_n\noutput h\nh = a_n + q_n + p_n\n", "-00",
		  "3:11: split gate 'p_n' would be the recurrent part of gate 'a_n', which has the split gate 'q_n' already" },
	};

	(void)state;
	for (size_t k = 0; k < sizeof cells / sizeof *cells; k++) {
		struct cg_cell *cell = must_parse(cells[k].text, "x.cell");
		struct cg_mistake mistake = { "" };
		char want[400] = "";

		for (int g = 0; g < cell->n_gates; g++)
			assert_int_equal(cell->gates[g].whole, cells[k].wholes[g] == '-' ? -1 : cells[k].wholes[g] - '0');
		if (cells[k].message)
			print_mistake(want, sizeof want, cells[k].text, cells[k].message);
		assert_int_equal(cg_check_split(cell, &mistake), cells[k].message ? -1 : 0);
		assert_string_equal(mistake.text, want);
		cg_parse_free(cell);
	}
}

/* ---- options' names ---- */

enum { TRIES = 1000, NAMES = 5 };

/* Do two different sets of names, joined by "_" in their order, give one name? */
static int alike(char names[NAMES][16], int n)
{
	static char text[1 << NAMES][NAMES * 16];

	for (int set = 0; set < 1 << n; set++) {
		text[set][0] = 0;
		for (int k = 0; k < n; k++)
			if (set >> k & 1)
				strcat(strcat(text[set], "_"), names[k]);
		for (int other = 0; other < set; other++)
			if (!strcmp(text[set], text[other]))
				return 1;
	}
	return 0;
}

static void different_keys(const struct cg_cell *cell)
{
	static char keys[1 << NAMES][CG_KEY_MAX];

	for (int options = 0; options < 1 << cell->n_options; options++) {
		struct cg_pass_plan *plan = must_plan(cell, options, CG_PASS_FORWARD, 0, 0);

		strcpy(keys[options], plan->key);
		for (int other = 0; other < options; other++)
			assert_string_not_equal(keys[options], keys[other]);
		cg_plan_free(plan);
	}
}

/* Options whose random names consist of a, b and _ are rejected where two sets of these options would give one kernel name, and only there.
   A name may be drawn twice, which is rejected, too. */
static void test_option_names(void **state)
{
	static const char *const parts[] = { "a", "b", "_a", "_b", "_a", "_b", "_ab" };
	int taken = 0, refusals = 0;

	(void)state;
	for (int try = 0; try < TRIES; try++) {
		int n = NAMES - random_below(3);
		char names[NAMES][16], text[400] = HEAD, sum[100] = "h = a + b";
		struct cg_mistake mistake;
		struct cg_cell *cell;
		int one_name;

		for (int k = 0; k < n; k++) {
			strcpy(names[k], parts[random_below(2)]);
			for (int more = random_below(3); more; more--)
				strcat(names[k], parts[random_below(7)]);
			sprintf(text + strlen(text), "option %s w%d\n", names[k], k);
			sprintf(sum + strlen(sum), " + w%d", k);
		}
		cell = cg_parse(strcat(strcat(text, sum), "\n"), "x", resize, &mistake);
		one_name = strstr(mistake.text, "would have the same name; choose another") != NULL;
		if ((cell == NULL) != alike(names, n) || (!cell && !one_name && !strstr(mistake.text, "is declared already")))
			fail_msg("%s: %s", text, cell ? "taken" : mistake.text);
		if (cell)
			different_keys(cell);
		taken += cell != NULL;
		refusals += one_name;
		cg_parse_free(cell);
	}
	printf("# of %d cells' options %d were taken, %d refused\n", TRIES, taken, refusals);
	assert_true(taken > TRIES / 50 && refusals > TRIES / 50);
}

/* ---- limits ---- */

/* Grows a text by numbered lines, or by numbered words on one line, until the error is `want`, that a cell has at most so many; returns
   the number of lines or words before that. */
static int most(const char *head, const char *each, const char *foot, const char *want)
{
	static char text[1 << 20];
	struct cg_mistake mistake;

	for (int n = 1; n < 1200; n++) {
		size_t used = (size_t)sprintf(text, "%s", head);
		struct cg_cell *cell;
		const char *message;

		for (int k = 0; k < n; k++)
			used += (size_t)sprintf(text + used, each, k, k);
		sprintf(text + used, "%s", foot);
		cell = cg_parse(text, "x.cell", resize, &mistake);
		message = strstr(mistake.text, ": a cell has at most");
		cg_parse_free(cell);
		if (!message)
			continue;
		if (strncmp(message + 2, want, strlen(want)))
			fail_msg("%s, not %s", message, want);
		return n - 1;
	}
	fail_msg("%s: never refused", want);
	return 0;
}

static void test_limits(void **state)
{
	static char text[CG_TEXT_MAX + 2];
	struct cg_mistake mistake;

	(void)state;
	assert_int_equal(most("cell x\ngates", " v%d", "\n", "a cell has at most 32 gates"), CG_GATES_MAX);
	assert_int_equal(most("cell x\nsplit", " v%d", "\n", "a cell has at most 32 gates"), CG_GATES_MAX);
	assert_int_equal(most("cell x\nstate", " v%d", "\n", "a cell has at most 4 states"), CG_STATES_MAX);
	assert_int_equal(most("cell x\noption o", " v%d", "\n", "a cell has at most 32 per-unit weights"), CG_WEIGHTS_MAX);
	assert_int_equal(most("cell x\n", "option o%d w%d\n", "\n", "a cell has at most 8 options"), CG_OPTIONS_MAX);
	assert_int_equal(most("cell x\nparam v", ", v%d", "\n", "a cell has at most 16 params"), CG_PARAMS_MAX - 1);
	assert_int_equal(most(HEAD "v0 = a\n", "v1%d = a\nsave v1%d\n", "\n", "a cell has at most 64 saved values"), CG_SAVES_MAX);
	assert_int_equal(most("cell x\ngates a\n", "v%d = a\nstage v%d\ngates g%1$d\n", "\n", "a cell has at most 4 stages"),
	                 CG_STAGES_MAX - 1);
	assert_int_equal(most(HEAD, "v%d = a\n", "\n", "a cell has at most 256 equations"), CG_VALUES_MAX);

	strcpy(text, HEAD "h = a");
	for (int k = 0; k < CG_TERMS_MAX / 2 - 1; k++)
		strcat(text + 4 * k, " + b");
	accepted(text);
	strcat(text, " + b");
	assert_null(cg_parse(text, "x", resize, &mistake));
	assert_non_null(strstr(mistake.text, "the equations have more than 16384 operations and operands"));

	strcpy(text, HEAD "h = ");
	for (int k = 0; k < CG_DEPTH_MAX; k++)
		strcat(text, "(-");
	strcat(text, "a + b");
	for (int k = 0; k < CG_DEPTH_MAX; k++)
		strcat(text, ")");
	accepted(text);
	refused(HEAD "h = ((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((( a",
	        "x.cell:4:70: parentheses are nested more than 64 deep\n"
	        "h = ((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((( a\n"
	        "                                                                     ^");
	refused(HEAD "h = a ------------------------------------------------------------------b",
	        "x.cell:4:72: minus signs are nested more than 64 deep\n"
	        "h = a ------------------------------------------------------------------b\n"
	        "                                                                       ^");

	memset(text, '#', CG_TEXT_MAX + 1);
	memcpy(text, HEAD "h = a + b\n", strlen(HEAD "h = a + b\n"));
	text[CG_TEXT_MAX] = 0;
	accepted(text);
	text[CG_TEXT_MAX] = '#';
	refused(text, "x.cell: a cell has at most 1048576 bytes, this one 1048577");
}

/* ---- options and near words ---- */

static void test_options(void **state)
{
	struct cg_mistake mistake = { "" };
	struct cg_cell *cell = must_parse("cell x\ngates a\noutput h\noption peep w\noption p v\nh = a * w * v\n", "x");

	(void)state;
	assert_int_equal(cg_parse_options(cell, NULL, &mistake), 0);
	assert_int_equal(cg_parse_options(cell, "", &mistake), 0);
	assert_int_equal(cg_parse_options(cell, "peep", &mistake), 1);
	assert_int_equal(cg_parse_options(cell, "p", &mistake), 2);
	assert_int_equal(cg_parse_options(cell, "p,peep", &mistake), 3);
	assert_int_equal(cg_parse_options(cell, "p,p", &mistake), 2);
	assert_true(cg_parse_options(cell, "p,pee", &mistake) < 0);
	assert_string_equal(mistake.text, "cell x has no option 'pee'; it has peep, p");
	assert_true(cg_parse_options(cell, "p,,peep", &mistake) < 0);
	assert_string_equal(mistake.text, "cell x has no option ''; it has peep, p");
	cg_parse_free(cell);
	cell = must_parse(HEAD "h = a + b\n", "x");
	assert_true(cg_parse_options(cell, "peephole", &mistake) < 0);
	assert_string_equal(mistake.text, "cell x has no option 'peephole'");
	cg_parse_free(cell);
}

static void test_near(void **state)
{
	static const char *const names[] = { "h_prev", "a_i", "sigmoid", "peephole" };
	static const struct { const char *name, *near; } pairs[] = {
		{ "hprev", "h_prev" }, { "h_perv", "h_prev" }, { "a_o", "a_i" }, { "sigmod", "sigmoid" }, { "SIGMOID", "sigmoid" },
		{ "peepole", "peephole" }, { "x", NULL }, { "", NULL }, { "h", NULL }, { "h_prev", "h_prev" },
		{ "a_name_so_long_that_no_word_is_near_it_and_no_table_has_room_for_it", NULL },
	};

	(void)state;
	for (size_t k = 0; k < sizeof pairs / sizeof *pairs; k++) {
		const char *near = cg_nearest(pairs[k].name, names, 4);

		assert_string_equal(near ? near : "none", pairs[k].near ? pairs[k].near : "none");
	}
}

/* A plan is rejected when a constant exceeds the range of the dtype's arithmetic. */
static void test_constants(void **state)
{
	struct cg_mistake mistake;
	struct cg_cell *cell = must_parse("cell x\ngates a\noutput h\noption o w\nh = a * (1e37 * 1e37) / (w - 1)\n", "x");
	struct cg_pass_plan *plan;

	(void)state;
	assert_null(cg_plan(cell, 0, CG_PASS_GRAD, 0, 0, resize, &mistake));
	assert_string_equal(mistake.text, "cell x: a constant of 'h = a * (1e37 * 1e37) / (w - 1)' or of its derivative is outside the range of f32");
	plan = cg_plan(cell, 0, CG_PASS_GRAD, 0, 1, resize, &mistake);
	assert_non_null(plan);
	cg_plan_free(plan);
	cg_parse_free(cell);
	cell = must_parse("cell x\ngates a\noutput h\noption o w\nh = a / w\n", "x");
	assert_null(cg_plan(cell, 0, CG_PASS_FORWARD, 0, 1, resize, &mistake));
	assert_string_equal(mistake.text, "cell x: a constant of 'h = a / w' or of its derivative is outside the range of f64");
	plan = cg_plan(cell, 1, CG_PASS_FORWARD, 0, 1, resize, &mistake);
	assert_non_null(plan);
	cg_plan_free(plan);
	cg_parse_free(cell);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_advice),
		cmocka_unit_test(test_forms),
		cmocka_unit_test(test_nested_forms),
		cmocka_unit_test(test_accepted),
		cmocka_unit_test(test_read), cmocka_unit_test(test_parts), cmocka_unit_test(test_split),
		cmocka_unit_test(test_option_names),
		cmocka_unit_test(test_limits),
		cmocka_unit_test(test_options),
		cmocka_unit_test(test_near),
		cmocka_unit_test(test_constants),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	random_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
