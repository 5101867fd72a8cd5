/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions that a pass is cut into: a stage has the same functions alone and among all; a function of partial sums is followed by
 * one that adds them up; gradients of built-in cells read no pre-activation; a step of a sequence carries states in the type of its
 * arithmetic; which previous states are not needed while options are off; and which form of a kernel serves which sizes. derive_test.c
 * tests what the functions compute.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/gen/every.h"

static void same_function(const struct cg_function *a, const struct cg_function *b)
{
	assert_string_equal(a->key, b->key);
	assert_int_equal(a->shape, b->shape);
	assert_int_equal(a->n_arguments, b->n_arguments);
	assert_int_equal(a->n_schedule, b->n_schedule);
	for (int k = 0; k < a->n_arguments; k++)
		assert_string_equal(a->arguments[k].name, b->arguments[k].name);
}

/* How many functions after function k add its partial sums: the sum and, where the cell has scalars, the sum over units. */
static int n_sums(const struct cg_pass_plan *plan, int k)
{
	return 1 + (k + 2 < plan->n_functions && plan->functions[k + 2].shape == CG_FUNCTION_SUM_UNITS);
}

/* The functions after a function of partial sums store the values of that function, each value once, in order, and all have room for the
   same partial sums. */
static void check_sums(const struct cg_function *part, int n)
{
	int j = 0;

	while (!part->arguments[j].out || part->arguments[j].kind == CG_KIND_SCRATCH)
		j++;
	assert_int_equal(part[1].shape, CG_FUNCTION_SUM);
	for (const struct cg_function *sum = part + 1; sum <= part + n; sum++) {
		assert_int_equal(cg_sum_values(sum), cg_sum_values(part));
		for (int i = 3; i < sum->n_arguments - 1; i++) {
			assert_string_equal(part->arguments[j].name, sum->arguments[i].name);
			assert_int_equal(sum->arguments[i].kind == CG_KIND_ELEMENT, sum->shape == CG_FUNCTION_SUM_UNITS);
			j++;
		}
	}
	assert_int_equal(cg_sum_values(part), cg_count_outputs(part));
}

/* Expects, with all options off, that the plan of one stage alone equals that stage of the whole plan, and that behind each function of
   partial sums stands a function that adds them up, with results of the same names. */
static void test_stages(void **state)
{
	struct cg_cell *cell;

	(void)state;
	for (int c = 0; (cell = every_cell(c)); c++) {
		for (int pass = 0; pass < CG_PASS_COUNT; pass++) {
			struct cg_pass_plan *all = must_plan(cell, 0, pass, 0, 0);
			int seen = 0;

			for (int s = 1; s <= cell->n_stages; s++) {
				struct cg_pass_plan *one = must_plan(cell, 0, pass, s, 0);

				for (int k = 0, j = 0; k < all->n_functions; k++)
					if (all->functions[k].stage == s) {
						assert_true(j < one->n_functions);
						same_function(&all->functions[k], &one->functions[j++]);
						seen++;
					}
				cg_plan_free(one);
			}
			assert_int_equal(seen, all->n_functions);
			for (int k = 0; k + 1 < all->n_functions; k++) {
				const struct cg_function *part = &all->functions[k];

				if (part->shape == CG_FUNCTION_SUM_PART)
					check_sums(part, n_sums(all, k));
			}
			cg_plan_free(all);
		}
		cg_parse_free(cell);
	}
}

/* With all options on, no gradient of a built-in cell reads a pre-activation, since the cell saves all values for which a gradient would
   need one; and partial sums for a bias load what they add up. */
static void test_saved_values(void **state)
{
	struct cg_cell *cell;

	(void)state;
	for (int c = 0; c < built_ins(); c++) {
		cell = every_cell(c);
		for (int pass = 0; pass < CG_PASS_COUNT; pass++) {
			struct cg_pass_plan *plan = must_plan(cell, (1 << cell->n_options) - 1, pass, 0, 0);
			int derived = pass != CG_PASS_FORWARD && pass != CG_PASS_SEQ_FORWARD;

			for (int k = 0; k < plan->n_functions; k++) {
				const struct cg_function *function = &plan->functions[k];

				for (int j = 0; j < function->n_arguments; j++) {
					const struct cg_argument *a = &function->arguments[j];
					int loaded = 0;

					if (a->role == CG_ROLE_GATE && a->derivative == CG_VALUE &&
					    (derived || cell->gates[a->index].stage != function->stage))
						fail_msg("%s takes %s", function->key, a->name);
					for (int i = 0; i < function->n_arguments; i++)
						loaded |= !function->arguments[i].out && function->arguments[i].node == a->node;
					if (function->shape == CG_FUNCTION_SUM_PART && a->role == CG_ROLE_BIAS && !loaded)
						fail_msg("%s computes %s again", function->key, a->name);
				}
			}
			cg_plan_free(plan);
		}
		cg_parse_free(cell);
	}
}

/* ---- steps of sequences ---- */

/* acc: the arguments of a function that have type acc; all others have type real, scalars aside. */
static const struct { const char *cell; int options, pass, stage, shape; const char *acc; } steps[] = {
	{ "lstm", 1, CG_PASS_SEQ_FORWARD, 1, CG_FUNCTION_POINT, "a_i a_f a_g a_o c_prev c" },
	{ "lstm", 1, CG_PASS_SEQ_GRAD, 1, CG_FUNCTION_POINT, "c_prev dc dh c dc_prev" },
	{ "lstm", 1, CG_PASS_SEQ_GRAD, 1, CG_FUNCTION_SUM_PART, "c_prev c partial" },
	{ "lstm", 1, CG_PASS_SEQ_GRAD, 1, CG_FUNCTION_SUM, "partial" },
	{ "gru", 0, CG_PASS_SEQ_FORWARD, 1, CG_FUNCTION_POINT, "a_r a_z a_n q_n" },
	{ "gru", 0, CG_PASS_SEQ_GRAD, 1, CG_FUNCTION_POINT, "dh dh_prev" },
	{ "rnn_tanh", 0, CG_PASS_SEQ_FORWARD, 1, CG_FUNCTION_POINT, "a" },
	{ "rnn_relu", 0, CG_PASS_SEQ_GRAD, 1, CG_FUNCTION_POINT, "dh" },
	{ "lstm_block", 0, CG_PASS_SEQ_FORWARD, 1, CG_FUNCTION_POINT, "a_i a_ci a_f a_o cs_prev cs forget_bias cell_clip" },
	{ "gru_block", 0, CG_PASS_SEQ_FORWARD, 2, CG_FUNCTION_POINT, "a_c" },
	{ "gru_block", 0, CG_PASS_SEQ_GRAD, 2, CG_FUNCTION_POINT, "dh" },
	{ "gru_block", 0, CG_PASS_SEQ_GRAD, 1, CG_FUNCTION_POINT, "dh dhr dh_prev" },
	/* The cell "stages" saves its state c for the gradient; its gradient computes its state e again. */
	{ "stages", 3, CG_PASS_SEQ_FORWARD, 3, CG_FUNCTION_POINT, "a_k a_n a_l c_prev e_prev c e" },
	/* Outside of sequences c, c_prev and their gradients have type real. */
	{ "lstm", 1, CG_PASS_FORWARD, 1, CG_FUNCTION_POINT, "a_i a_f a_g a_o" },
	{ "lstm", 1, CG_PASS_GRAD, 1, CG_FUNCTION_POINT, "" },
	{ "gru", 0, CG_PASS_GRAD, 1, CG_FUNCTION_POINT, "dh_prev" },
};

static int among(const char *names, const char *name)
{
	size_t n = strlen(name);

	for (const char *at = names; (at = strstr(at, name)); at += n)
		if ((at == names || at[-1] == ' ') && (at[n] == ' ' || !at[n]))
			return 1;
	return 0;
}

static void test_types(void **state)
{
	(void)state;
	for (size_t s = 0; s < sizeof steps / sizeof *steps; s++) {
		struct cg_cell *cell = !strcmp(steps[s].cell, "stages") ? must_read("stages") : must_find(steps[s].cell);
		struct cg_pass_plan *plan = must_plan(cell, steps[s].options, steps[s].pass, steps[s].stage, 2);
		const struct cg_function *function = plan->functions;
		int named = 0;

		while (function->shape != steps[s].shape)
			function++;
		assert_true(function < plan->functions + plan->n_functions);
		for (int k = 0; k < function->n_arguments; k++) {
			const struct cg_argument *a = &function->arguments[k];
			int want = among(steps[s].acc, a->name);

			named += want;
			if (a->kind == CG_KIND_COUNT)
				continue;
			if ((a->type == CG_TYPE_ACC) != want && a->kind != CG_KIND_SCALAR)
				fail_msg("%s: %s is %s", function->key, a->name, want ? "real" : "acc");
			for (int j = 0; j < k; j++)
				if (!strcmp(function->arguments[j].name, a->name))
					fail_msg("%s: %s is there twice", function->key, a->name);
		}
		for (const char *at = steps[s].acc; *at; at += strspn(at, " ")) {
			at += strcspn(at, " ");
			named--;
		}
		if (named)
			fail_msg("%s: not all of '%s' are there", function->key, steps[s].acc);
		cg_plan_free(plan);
		cg_parse_free(cell);
	}
}

/* A step of a sequence has the arguments of the same pass outside of sequences, and dh_out behind an input dh; if a cell has no recurrent
   product and its equations do not read h_prev, the gradient's step stores dh_prev, too. */
static void test_steps(void **state)
{
	struct cg_cell *cell;

	(void)state;
	for (int c = 0; (cell = every_cell(c)); c++) {
		for (int n = 0; n < 2 << cell->n_options; n++) {
			struct cg_pass_plan *alone = must_plan(cell, n / 2, CG_PASS_FORWARD + n % 2, 0, 2);
			struct cg_pass_plan *step = must_plan(cell, n / 2, CG_PASS_SEQ_FORWARD + n % 2, 0, 2);

			assert_int_equal(alone->n_functions, step->n_functions);
			for (int p = 0; p < alone->n_functions; p++) {
				const struct cg_function *a = &alone->functions[p], *b = &step->functions[p];
				int j = 0;

				assert_int_equal(a->shape, b->shape);
				assert_int_equal(a->stage, b->stage);
				for (int k = 0; k < a->n_arguments; k++, j++) {
					assert_string_equal(a->arguments[k].name, b->arguments[j].name);
					assert_int_equal(a->arguments[k].out, b->arguments[j].out);
					if (a->arguments[k].role == CG_ROLE_STATE && cell->prevs[a->arguments[k].index].output && !a->arguments[k].out)
						assert_string_equal(b->arguments[++j].name, "dh_out");
				}
				if (j < b->n_arguments && b->shape == CG_FUNCTION_POINT)
					assert_string_equal(b->arguments[j++].name, "dh_prev");
				assert_int_equal(j, b->n_arguments);
			}
			cg_plan_free(alone);
			cg_plan_free(step);
		}
		cg_parse_free(cell);
	}
}

/* The names of the arguments of all functions of a pass, with blanks around each. */
static const char *arguments(const struct cg_cell *cell, int pass)
{
	static char text[4096];
	struct cg_pass_plan *plan = must_plan(cell, 0, pass, 0, 2);
	size_t used = (size_t)sprintf(text, " ");

	for (int p = 0; p < plan->n_functions; p++)
		for (int k = 0; k < plan->functions[p].n_arguments; k++)
			used += (size_t)snprintf(text + used, sizeof text - used, "%s ", plan->functions[p].arguments[k].name);
	assert_true(used < sizeof text);
	cg_plan_free(plan);
	return text;
}

/* The second part of the output's gradient has the name d<output>_out, as dh_out; only the gradient of a sequence's step has this part. */
static void test_output_name(void **state)
{
	static const struct { const char *text, *first, *second; } cells[] = {
		{ "cell x\ngates a\noutput y\ny = tanh(a)\nsave y\n", " dy ", " dy_out " },
		{ "cell x\ngates y\noutput h\nh = tanh(y)\nsave h\n", " dh ", " dh_out " },
		{ "cell x\ngates a\nstate y\noutput h\ny = a * y_prev\nh = tanh(y)\nsave h y\n", " dh ", " dh_out " },
		{ "cell x\ngates a\noutput nineteen_letters_is\nnineteen_letters_is = tanh(a)\nsave nineteen_letters_is\n",
		  " dnineteen_letters_is ", " dnineteen_letters_is_out " },
	};

	(void)state;
	for (size_t k = 0; k < sizeof cells / sizeof *cells; k++) {
		struct cg_cell *cell = must_parse(cells[k].text, "x");

		for (int pass = 0; pass < CG_PASS_COUNT; pass++) {
			const char *names = arguments(cell, pass);
			int derived = pass != CG_PASS_FORWARD && pass != CG_PASS_SEQ_FORWARD;

			assert_int_equal(strstr(names, cells[k].first) != NULL, derived);
			assert_int_equal(strstr(names, cells[k].second) != NULL, pass == CG_PASS_SEQ_GRAD);
			assert_null(strstr(names, "_out_out"));
		}
		cg_parse_free(cell);
	}
}

/* Cells of which some previous states may be needed only if options are on. options: those that are on, one bit for each; lost: the
   previous states that are not needed then, one bit for each state; add: the fewest more options that make all previous states needed, one
   bit for each. */
static const struct { const char *text; int options, lost, add; } losses[] = {
	{ "cell ind\ngates a\noutput h\noption ind u\nh = relu(a + u * h_prev)\n",              0, 1, 1 },
	{ "cell ind\ngates a\noutput h\noption ind u\nh = relu(a + u * h_prev)\n",              1, 0, 0 },
	/* In the next three rows turning the option off makes no previous state unneeded: the equations read the state without the option, too;
	   or nothing reads the state with the option either; or only the recurrent product reads it. */
	{ "cell x\ngates a\noutput h\noption o w\nh = a * h_prev + w * h_prev\n",               0, 0, 0 },
	{ "cell x\ngates a\nstate c\noutput h\noption o w\nc = a\nh = c * w\n",                 0, 0, 0 },
	{ "cell x\ngates a\noutput h\noption o w\nh = a * w + a\n",                             0, 0, 0 },
	/* In the next six rows one or two previous states are not needed with `options`, and all are read with one more option, or only if
	   two more options are on together. */
	{ "cell x\ngates a\nstate c\noutput h\noption o w v\nc = a + w * c_prev\nh = c * v * h_prev\n",         0, 3, 1 },
	{ "cell x\ngates a\nstate c\noutput h\noption o w\nc = a + w * c_prev\nh = c * h_prev\n",             0, 1, 1 },
	{ "cell x\ngates a\noutput h\noption o w\noption p v\nh = a + (w + v) * h_prev\n",                    0, 1, 1 },
	{ "cell x\ngates a\noutput h\noption o w\noption p v\nh = a + w * v * h_prev\n",                      0, 1, 3 },
	{ "cell x\ngates a\noutput h\noption o w\noption p v\nh = a + w * v * h_prev\n",                      1, 1, 2 },
	{ "cell x\ngates a\nstate c\noutput h\noption o w\noption p v\noption q u\n"
	  "c = a + u * w * c_prev\nh = c + v * h_prev\n",                                                      4, 3, 3 },
	/* In the next three rows, without the option, h_prev is read by the input of stage 2's product, or by a saved value that only the
	   gradient reads, or by nothing. */
	{ "cell x\ngates a\noutput h\noption o w\nf = a * h_prev\nstage f\ngates b\nh = w * h_prev + b\n",     0, 0, 0 },
	{ "cell x\ngates a\noutput h\noption o w\nf = a * h_prev\nh = w * h_prev + a\nsave f\n",              0, 0, 0 },
	{ "cell x\ngates a\noutput h\noption o w\nf = a + w * h_prev\nstage f\ngates b\nh = b\n",             0, 1, 1 },
};

static void test_options_without_recurrence(void **state)
{
	struct cg_cell *cell;
	int add;

	(void)state;
	for (size_t k = 0; k < sizeof losses / sizeof *losses; k++) {
		cell = must_parse(losses[k].text, "x");
		assert_int_equal(cg_lost_prevs(cell, losses[k].options, resize, &add), losses[k].lost);
		assert_int_equal(add, losses[k].add);
		/* A request for memory that fails anywhere is reported, and nothing leaks. */
		for (long fail = 1, lost = -1; lost < 0; fail++) {
			long live = memory.live;

			memory.requests = 0;
			memory.fail_at = fail;
			lost = cg_lost_prevs(cell, losses[k].options, resize, &add);
			memory.fail_at = 0;
			assert_true(lost == -1 || lost == losses[k].lost);
			assert_int_equal(memory.live, live);
		}
		cg_parse_free(cell);
	}
	/* No option of a built-in cell, switched off, makes a previous state unneeded. */
	for (int k = 0; (cell = every_cell(k)); k++) {
		for (int options = 0; options < 1 << cell->n_options && k < built_ins(); options++)
			assert_int_equal(cg_lost_prevs(cell, options, resize, &add), 0);
		cg_parse_free(cell);
	}
}

/* The first form of a kernel in CUDA C serves sizes with at least 256 runs for each multiprocessor, the second form smaller ones. */
static void test_forms(void **state)
{
	static const struct { int64_t rows, units; int multiprocessors, runs; } sizes[] = {
		{ 16, 768, 132, 0 }, { 351, 768, 132, 0 }, { 352, 768, 132, 1 },      /* a row of 768 units has 96 runs of 8 */
		{ 33791, 1, 132, 0 }, { 33792, 1, 132, 1 }, { 1, 8 * 33791, 132, 0 }, { 1, 8 * 33791 + 1, 132, 1 },
		{ 0, 768, 132, 0 }, { 255, 8, 1, 0 }, { 256, 8, 1, 1 }, { INT64_MAX, 9, 1, 1 }, { 1, INT64_MAX, INT32_MAX, 1 },
	};
	struct cg_cell *cell = must_find("lstm");
	struct cg_pass_plan *plan = must_plan(cell, 0, CG_PASS_SEQ_FORWARD, 0, 2);
	const struct cg_function *function = &plan->functions[0];
	char key[CG_KEY_MAX];

	(void)state;
	assert_int_equal(cg_run_units(plan, function), 8);
	for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++)
		assert_int_equal(cg_takes_runs(plan, function, sizes[k].rows, sizes[k].units, sizes[k].multiprocessors), sizes[k].runs);
	cg_one_key(function, key);
	assert_string_equal(key, "cg_lstm_f16_seq_forward_one");
	cg_plan_free(plan);
	cg_parse_free(cell);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_stages),
		cmocka_unit_test(test_saved_values),
		cmocka_unit_test(test_types),
		cmocka_unit_test(test_steps),
		cmocka_unit_test(test_forms),
		cmocka_unit_test(test_output_name),
		cmocka_unit_test(test_options_without_recurrence),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	return cmocka_run_group_tests(tests, NULL, NULL);
}
