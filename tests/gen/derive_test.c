/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tests derivatives, for every built-in cell, the cells of the shelf and of tests/gen, and every set of options, in long double: grad
 * compared with central differences of forward, gradgrad with central differences of grad. The test runs the functions of a pass one
 * element at a time, each from its named inputs to its named outputs; so inputs, the cut into functions and the order of statements are
 * tested along with the mathematics. The products between stages are small random matrices and their transposes. As steps of a sequence,
 * forward and grad give the same results as alone, although the gradient of the output comes in two parts.
 */
#include <limits.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "tests/gen/every.h"

enum { ROWS = 2, UNITS = 3, POINTS = 3, THINGS_MAX = 256, STEPS = 4, SMALLER = 4 };

static const long double step = 4e-3L;

/* ---- values by name: [ROWS, UNITS], a per-unit weight in the first row, a param in the first element ---- */

struct thing { char name[CG_NAME_MAX + 10]; long double at[ROWS][UNITS]; };
struct world { struct thing things[THINGS_MAX]; int n; };

static struct thing *find(struct world *w, const char *name)
{
	for (int k = 0; k < w->n; k++)
		if (!strcmp(w->things[k].name, name))
			return &w->things[k];
	return NULL;
}

static struct thing *need(struct world *w, const char *name, const char *why)
{
	struct thing *t = find(w, name);

	if (!t)
		fail_msg("%s: '%s' is not there", why, name);
	return t;
}

static struct thing *put(struct world *w, const char *name)
{
	struct thing *t = find(w, name);

	if (!t) {
		assert_true(w->n < THINGS_MAX);
		t = &w->things[w->n++];
		snprintf(t->name, sizeof t->name, "%s", name);
	}
	memset(t->at, 0, sizeof t->at);
	return t;
}

static void hand_over(struct world *to, struct world *from, const char *name)
{
	struct thing *t = need(from, name, "hand over");

	memcpy(put(to, name)->at, t->at, sizeof t->at);
}

static const char *named(const char *prefix, const char *name)
{
	static char text[8][2 * CG_NAME_MAX + 16];
	static int k;

	k = (k + 1) % 8;
	snprintf(text[k], sizeof text[k], "%s%s", prefix, name);
	return text[k];
}

/* The name of a gate's bias with a prefix: "db_i" from "d" and "a_i". */
static const char *bias(const char *prefix, const char *gate)
{
	char both[8];

	snprintf(both, sizeof both, "%sb_", prefix);
	return named(both, gate + (strncmp(gate, "a_", 2) ? 0 : 2));
}

/* ---- a function for every element ---- */

static long double load(const struct thing *t, const struct cg_argument *a, int row, int unit)
{
	if (a->kind == CG_KIND_SCALAR || a->kind == CG_KIND_ELEMENT)
		return t->at[0][0];
	return a->kind == CG_KIND_PER_UNIT ? t->at[0][unit] : t->at[row][unit];
}

/* A mean is held as a tensor whose units are equal. */
static int is_data(const struct cg_argument *a)
{
	return cg_is_array(a) || a->kind == CG_KIND_SCALAR || a->kind == CG_KIND_MEAN;
}

static void run(const struct cg_pass_plan *plan, const struct cg_function *function, struct world *w)
{
	const struct cg_graph *graph = &plan->graph;
	long double *value = calloc((size_t)graph->n, sizeof *value);
	char *known = malloc((size_t)graph->n);
	struct world outs = { .n = 0 };

	for (int k = 0; k < function->n_arguments; k++)
		if (function->arguments[k].out && is_data(&function->arguments[k]))
			put(&outs, function->arguments[k].name);
	for (int row = 0; row < ROWS; row++)
		for (int unit = 0; unit < UNITS; unit++) {
			for (int k = 0; k < graph->n; k++) {
				known[k] = graph->nodes[k].code == CG_OP_CONST;
				value[k] = known[k] ? graph->nodes[k].value : NAN;
			}
			for (int k = 0; k < function->n_arguments; k++) {
				const struct cg_argument *a = &function->arguments[k];

				if (a->out || !is_data(a))
					continue;
				value[a->node] = load(need(w, a->name, function->key), a, row, unit);
				known[a->node] = 1;
			}
			for (int k = 0; k < function->n_schedule; k++) {
				const struct cg_node *node = &graph->nodes[function->schedule[k]];

				if (!known[node->a] || (cg_operators[node->code].arity == 2 && !known[node->b]))
					fail_msg("%s: node %d is computed before what it needs", function->key, function->schedule[k]);
				value[function->schedule[k]] = cg_op_value(node->code, value[node->a], value[node->b]);
				known[function->schedule[k]] = 1;
			}
			for (int k = 0; k < function->n_arguments; k++) {
				const struct cg_argument *a = &function->arguments[k];

				int node = function->shape == CG_FUNCTION_MEAN ? graph->nodes[a->node].a : a->node;

				if (!a->out || !is_data(a))
					continue;
				if (!known[node])
					fail_msg("%s: gives '%s', which it does not compute", function->key, a->name);
				for (int u = 0; function->shape == CG_FUNCTION_MEAN && u < UNITS; u++)
					find(&outs, a->name)->at[row][u] += value[node] / UNITS;
				if (function->shape == CG_FUNCTION_MEAN)
					continue;
				if (function->shape == CG_FUNCTION_SUM_PART)
					find(&outs, a->name)->at[0][a->kind == CG_KIND_ELEMENT ? 0 : unit] += value[a->node];
				else
					find(&outs, a->name)->at[row][unit] = value[a->node];
			}
		}
	for (int k = 0; k < outs.n; k++)
		hand_over(w, &outs, outs.things[k].name);
	free(value);
	free(known);
}

/* Runs the function of a stage whose key ends with the pass and a suffix, after those of its means; the test fails if the plan has none. */
static void run_stage(const struct cg_pass_plan *plan, int stage, const char *suffix, struct world *w)
{
	for (int k = 0; k < plan->n_functions; k++) {
		const struct cg_function *function = &plan->functions[k];
		const char *end = strstr(function->key, cg_pass_names[plan->pass]);

		if (function->stage == stage && end && !strcmp(end + strlen(cg_pass_names[plan->pass]), suffix)) {
			for (int j = k - function->mean_functions; j <= k; j++)
				run(plan, &plan->functions[j], w);
			return;
		}
	}
	fail_msg("%s has no piece '%s' of stage %d", plan->key, suffix, stage);
}

/* Runs the sums of a stage, if it has any: the biases of its gates, and in stage 1 the weights and scalars.  If a plan lacks sums, the
   comparison of their results fails. */
static void run_sums(const struct cg_pass_plan *plan, int stage, struct world *w)
{
	int any = 0;

	for (int k = 0; k < plan->n_functions; k++)
		any |= plan->functions[k].stage == stage && plan->functions[k].shape == CG_FUNCTION_SUM_PART;
	if (any)
		run_stage(plan, stage, "_sum_part", w);
}

/* ---- passes: functions with products between ---- */

struct trial {
	const struct cg_cell *cell;
	int options;
	int step;                                            /* 1: forward and grad run the passes of a step of a sequence */
	struct cg_pass_plan *plans[CG_PASS_COUNT];
	long double product[CG_GATES_MAX][UNITS][UNITS];     /* the matrix of the product that feeds a gate; of gates of stage 1 unused */
	const char *inputs[64]; int n_inputs;                /* the inputs of forward: gates, previous states, weights, scalars */
	struct world start;                                  /* the values of the inputs, of the params, and of d<state>, which grad reads */
	struct world seeds;                                  /* gd<input>, which gradgrad reads */
};

/* Adds to `to` the product of `from` with R, or with R transposed. */
static void multiply(struct thing *to, const struct thing *from, long double r[UNITS][UNITS], int transposed)
{
	for (int row = 0; row < ROWS; row++)
		for (int j = 0; j < UNITS; j++)
			for (int k = 0; k < UNITS; k++)
				to->at[row][j] += from->at[row][k] * (transposed ? r[j][k] : r[k][j]);
}

static const char *feed(const struct trial *t, int stage)
{
	return t->cell->values[t->cell->feeds[stage - 1]].name;
}

static const char *state(const struct trial *t, int k)
{
	return t->cell->values[t->cell->prevs[k].value].name;
}

/* Multiplies the value `from` of a stage by a matrix for each gate of the next stage, and adds each product to its gate. */
static void carry(struct trial *t, struct world *w, const char *prefix, int stage, const char *from)
{
	for (int k = 0; k < t->cell->n_gates; k++)
		if (t->cell->gates[k].stage == stage + 1)
			multiply(need(w, named(prefix, t->cell->gates[k].name), from), need(w, from, from), t->product[k], 0);
}

/* Sets the gradient of a stage's feed: what the gates of the next stage pass back through their products. */
static void bring(struct trial *t, struct world *w, const char *prefix, int stage)
{
	struct thing *to = put(w, named(prefix, feed(t, stage)));

	for (int k = 0; k < t->cell->n_gates; k++)
		if (t->cell->gates[k].stage == stage + 1)
			multiply(to, need(w, named(prefix, t->cell->gates[k].name), "bring"), t->product[k], 1);
}

static void forward(struct trial *t, struct world *w)
{
	for (int s = 1; s <= t->cell->n_stages; s++) {
		if (s > 1)
			carry(t, w, "", s - 1, feed(t, s - 1));
		run_stage(t->plans[t->step ? CG_PASS_SEQ_FORWARD : CG_PASS_FORWARD], s, "", w);
	}
}

/* Hands over what the next pass may read: inputs, params, gradients of states, and those values of forward that are saved. */
static void keep(struct trial *t, struct world *to, struct world *from)
{
	for (int k = 0; k < t->n_inputs; k++)
		hand_over(to, from, t->inputs[k]);
	for (int k = 0; k < t->cell->n_params; k++)
		hand_over(to, from, t->cell->params[k].name);
	for (int k = 0; k < t->cell->n_saves; k++)
		hand_over(to, from, t->cell->values[t->cell->saves[k]].name);
	for (int k = 0; k < t->cell->n_prevs; k++)
		hand_over(to, from, named("d", state(t, k)));
}

static void grad(struct trial *t, struct world *w)
{
	for (int s = t->cell->n_stages; s >= 1; s--) {
		if (s < t->cell->n_stages)
			bring(t, w, "d", s);
		run_stage(t->plans[t->step ? CG_PASS_SEQ_GRAD : CG_PASS_GRAD], s, "", w);
		run_sums(t->plans[t->step ? CG_PASS_SEQ_GRAD : CG_PASS_GRAD], s, w);
	}
}

static void gradgrad(struct trial *t, struct world *w)
{
	for (int s = 1; s < t->cell->n_stages; s++) {
		run_stage(t->plans[CG_PASS_GRADGRAD], s, "_feed", w);
		carry(t, w, "gd", s, named("gd", feed(t, s)));
	}
	for (int s = t->cell->n_stages; s >= 1; s--) {
		if (s < t->cell->n_stages)
			bring(t, w, "g", s);
		run_stage(t->plans[CG_PASS_GRADGRAD], s, "", w);
		run_sums(t->plans[CG_PASS_GRADGRAD], s, w);
	}
}

/* ---- differences ---- */

/* The sum over all elements of <prefix><name> of a times <with><name> of b. */
static long double paired(struct world *a, const char *prefix, struct world *b, const char *with, const char *name)
{
	const struct thing *x = need(a, named(prefix, name), "pair"), *y = need(b, named(with, name), "pair");
	long double sum = 0;

	for (int k = 0; k < ROWS * UNITS; k++)
		sum += x->at[k / UNITS][k % UNITS] * y->at[k / UNITS][k % UNITS];
	return sum;
}

/* The weighted sum of the results of a pass: of forward's states, each times its d<state>; of grad's d<input>, each times gd<input>. */
static long double outcome(struct trial *t, int pass, struct world *start)
{
	static struct world w, kept;
	long double sum = 0;

	w = *start;
	forward(t, &w);
	if (pass == CG_PASS_FORWARD) {
		for (int k = 0; k < t->cell->n_prevs; k++)
			sum += paired(&w, "", start, "d", named("", state(t, k)));
		return sum;
	}
	kept.n = 0;
	keep(t, &kept, &w);
	grad(t, &kept);
	for (int k = 0; k < t->n_inputs; k++)
		if (find(&kept, named("d", t->inputs[k])))
			sum += paired(&kept, "d", &t->seeds, "gd", t->inputs[k]);
	return sum;
}

/* Central differences over steps that are halved from `step` on, extrapolated to a step of 0.  *change: by how much the last step changed
   the result. */
static long double extrapolate(struct trial *t, int pass, const char *name, int row, int unit, long double step, long double *change)
{
	static struct world w;
	long double *x, there, d[STEPS];

	w = t->start;
	x = &find(&w, name)->at[row][unit];
	there = *x;
	for (int k = 0; k < STEPS; k++) {
		long double h = ldexpl(step, -k), up, down;

		*x = there + h;
		up = outcome(t, pass, &w);
		*x = there - h;
		down = outcome(t, pass, &w);
		d[k] = (up - down) / (2 * h);
	}
	for (int n = 1; n < STEPS; n++)
		for (int k = 0; k < STEPS - n; k++) {
			long double before = d[k];

			d[k] = d[k + 1] + (d[k + 1] - d[k]) / (ldexpl(1, 2 * n) - 1);
			*change = fabsl(d[k] - before);
		}
	return d[0];
}

/* The derivative by differences.  Near a kink or a pole the steps are made smaller, at most three times, until the result no longer
   changes. */
static long double difference(struct trial *t, int pass, const char *name, int row, int unit)
{
	long double best = 0, least = INFINITY;

	for (int k = 0; k < SMALLER; k++) {
		long double change, d = extrapolate(t, pass, name, row, unit, ldexpl(step, -3 * k), &change);

		if (change < least) {
			least = change;
			best = d;
		}
		if (change <= 1e-13L * (1 + fabsl(d)))
			break;
	}
	return best;
}

static void compare(struct trial *t, int pass, const char *of, struct world *got, const char *prefix)
{
	const struct thing *g = find(got, named(prefix, of)), *x = need(&t->start, of, "compare");
	const char *name = x->name;
	int rows = 1, units = UNITS;

	for (int k = 0; k < t->cell->n_weights; k++)
		rows &= strcmp(name, t->cell->weights[k].name) != 0;
	for (int k = 0; k < t->cell->n_scalars; k++)
		if (!strcmp(name, t->cell->scalars[k].name)) {
			rows = 0;
			units = 1;
		}
	for (int row = 0; row <= rows; row++)
		for (int unit = 0; unit < units; unit++) {
			/* A gradient that the pass does not give counts as 0. */
			long double want = difference(t, pass, name, row, unit), is = g ? g->at[row][unit] : 0;

			if (!(fabsl(is - want) <= 1e-11L * (1 + fabsl(want))))
				fail_msg("%s: %s%s[%d, %d] of %Lg: %.15Lg, by differences %.15Lg", t->plans[pass + 1]->key, prefix, name,
				         row, unit, x->at[row][unit], is, want);
		}
}

/* Fills an input with random numbers of either sign that are not near 0, where relu has its kink.  In slstm, n_prev is a divisor, and is
   positive here; m_prev is so large that the two operands of max are not near each other. */
static void fill(struct thing *t)
{
	int is_divisor = !strcmp(t->name, "n_prev");
	long double least = !strcmp(t->name, "m_prev") ? 2.2L : is_divisor ? 1 : 0.1L;

	for (int k = 0; k < ROWS * UNITS; k++)
		t->at[k / UNITS][k % UNITS] = (is_divisor || random_bits() & 1 ? 1 : -1) * (least + 0.9L * (long double)random_unit());
}

static void sums_of_gates(struct trial *t, struct world *w, const char *prefix)
{
	for (int k = 0; k < t->cell->n_gates; k++) {
		const struct thing *a = need(w, named(prefix, t->cell->gates[k].name), "sum"), *b;

		if (!(t->cell->gates[k].parts & CG_GATE_BIASES)) {
			assert_null(find(w, bias(prefix, t->cell->gates[k].name)));
			continue;
		}
		b = need(w, bias(prefix, t->cell->gates[k].name), "sum");
		for (int unit = 0; unit < UNITS; unit++)
			assert_true(fabsl(a->at[0][unit] + a->at[1][unit] - b->at[0][unit]) < 1e-15L);
	}
}

/* Expects that a step of a sequence gives what the pass alone gives for the sum of both parts of the output's gradient; either may be 0. */
static void try_step(struct trial *t, const struct world *w, const struct world *alone)
{
	static struct world forth, back;
	const struct thing *whole = NULL;

	t->step = 1;
	forth = t->start;
	forward(t, &forth);
	assert_int_equal(forth.n, w->n);
	for (int k = 0; k < w->n; k++)
		for (int j = 0; j < ROWS * UNITS; j++)
			assert_true(need(&forth, w->things[k].name, "step")->at[j / UNITS][j % UNITS] ==
			            w->things[k].at[j / UNITS][j % UNITS]);
	for (int k = 0; k < t->cell->n_prevs; k++)
		if (t->cell->prevs[k].output)
			whole = need(&forth, named("d", state(t, k)), "step");
	for (int order = 0; order < 3; order++) {
		struct thing *out, *dh;

		back.n = 0;
		keep(t, &back, &forth);
		dh = need(&back, whole->name, "step");
		out = put(&back, named(whole->name, "_out"));
		if (order == 1)
			fill(out);
		for (int k = 0; k < ROWS * UNITS; k++) {
			long double *part = &out->at[k / UNITS][k % UNITS], *rest = &dh->at[k / UNITS][k % UNITS];

			*part = order == 2 ? *rest : *part;
			*rest -= *part;
		}
		grad(t, &back);
		for (int k = 0; k < alone->n; k++) {
			const struct thing *x = &alone->things[k], *y;

			/* A step of a sequence numbers its means otherwise than the pass alone, so that the names acc_mean... do not correspond. */
			if (!strncmp(x->name, "acc_mean", 8))
				continue;
			y = need(&back, x->name, "step");
			for (int j = 0; j < ROWS * UNITS && strcmp(x->name, whole->name); j++)
				if (!(fabsl(x->at[j / UNITS][j % UNITS] - y->at[j / UNITS][j % UNITS]) < 1e-15L))
					fail_msg("%s: %s is %.15Lg, not %.15Lg", t->plans[CG_PASS_SEQ_GRAD]->key, x->name,
					         y->at[j / UNITS][j % UNITS], x->at[j / UNITS][j % UNITS]);
		}
	}
	t->step = 0;
}

/* Tests grad, a step of a sequence and gradgrad at a random point. */
static void try_point(struct trial *t)
{
	static struct world w, kept, second;

	t->start.n = t->seeds.n = 0;
	for (int k = 0; k < t->n_inputs; k++) {
		fill(put(&t->start, t->inputs[k]));
		fill(put(&t->seeds, named("gd", t->inputs[k])));
	}
	for (int k = 0; k < t->cell->n_params; k++)
		put(&t->start, t->cell->params[k].name)->at[0][0] =
			t->cell->params[k].given ? (long double)t->cell->params[k].value : 0.7L;
	for (int k = 0; k < t->cell->n_prevs; k++)
		fill(put(&t->start, named("d", state(t, k))));
	for (int k = 0; k < t->cell->n_gates; k++)
		for (int j = 0; j < UNITS * UNITS; j++)
			t->product[k][j / UNITS][j % UNITS] = (long double)random_unit() - 0.5L;

	w = t->start;
	forward(t, &w);
	kept.n = 0;
	keep(t, &kept, &w);
	grad(t, &kept);
	for (int k = 0; k < t->n_inputs; k++)
		compare(t, CG_PASS_FORWARD, t->inputs[k], &kept, "d");
	sums_of_gates(t, &kept, "d");
	for (int s = 1; s < t->cell->n_stages; s++)
		assert_memory_equal(need(&kept, feed(t, s), "the feed again")->at, need(&w, feed(t, s), "feed")->at,
		                    sizeof w.things->at);

	try_step(t, &w, &kept);

	second.n = 0;
	keep(t, &second, &w);
	for (int s = 1; s < t->cell->n_stages; s++)
		hand_over(&second, &kept, named("d", feed(t, s)));
	for (int k = 0; k < t->n_inputs; k++)
		hand_over(&second, &t->seeds, named("gd", t->inputs[k]));
	gradgrad(t, &second);
	for (int k = 0; k < t->n_inputs; k++)
		compare(t, CG_PASS_GRAD, t->inputs[k], &second, "g");
	for (int k = 0; k < t->cell->n_prevs; k++)
		compare(t, CG_PASS_GRAD, named("d", state(t, k)), &second, "g");
	sums_of_gates(t, &second, "g");
}

static void open_trial(struct trial *t, const struct cg_cell *cell, int options)
{
	memset(t, 0, sizeof *t);
	t->cell = cell;
	t->options = options;
	for (int pass = 0; pass < CG_PASS_COUNT; pass++)
		t->plans[pass] = must_plan(cell, options, pass, 0, 1);
	for (int k = 0; k < cell->n_gates; k++)
		t->inputs[t->n_inputs++] = cell->gates[k].name;
	for (int k = 0; k < cell->n_prevs; k++)
		t->inputs[t->n_inputs++] = cell->prevs[k].name;
	for (int k = 0; k < cell->n_weights; k++)
		if (cg_has_weight(&cell->weights[k], options))
			t->inputs[t->n_inputs++] = cell->weights[k].name;
	for (int k = 0; k < cell->n_scalars; k++)
		t->inputs[t->n_inputs++] = cell->scalars[k].name;
}

static void close_trial(struct trial *t)
{
	for (int pass = 0; pass < CG_PASS_COUNT; pass++)
		cg_plan_free(t->plans[pass]);
}

static void try_all(int first, int last)
{
	static struct trial t;
	struct cg_cell *cell;

	for (int k = first; k < last && (cell = every_cell(k)); k++) {
		for (int options = 0; options < 1 << cell->n_options; options++) {
			open_trial(&t, cell, options);
			for (int point = 0; point < POINTS; point++)
				try_point(&t);
			close_trial(&t);
		}
		cg_parse_free(cell);
	}
}

static void test_built_in(void **state)
{
	(void)state;
	try_all(0, built_ins());
}

static void test_new(void **state)
{
	(void)state;
	try_all(built_ins(), INT_MAX);
}

/* ---- what differences cannot say ---- */

static struct thing *set(struct world *w, const char *name, long double x)
{
	struct thing *t = put(w, name);

	for (int k = 0; k < ROWS * UNITS; k++)
		t->at[k / UNITS][k % UNITS] = x;
	return t;
}

static void test_clip_passes(void **state)
{
	static struct trial t;
	static struct world w;
	struct cg_cell *cell = must_find("lstm_block");

	(void)state;
	open_trial(&t, cell, 0);
	w.n = 0;
	set(&w, "a_i", 2), set(&w, "a_ci", 2), set(&w, "a_f", 2), set(&w, "a_o", 2), set(&w, "cs_prev", 4);
	set(&w, "forget_bias", 1), set(&w, "cell_clip", 0.25L), set(&w, "dcs", 1), set(&w, "dh", 0);
	forward(&t, &w);
	assert_true(need(&w, "cs", "clip")->at[0][0] == 0.25L);
	grad(&t, &w);
	/* The gradient of lstm_block is that of the step without the clip, cs = f cs_prev + i ci. */
	assert_true(need(&w, "dcs_prev", "clip")->at[0][0] == find(&w, "f")->at[0][0]);
	assert_true(fabsl(find(&w, "da_ci")->at[0][0] - find(&w, "i")->at[0][0] * (1 - powl(find(&w, "ci")->at[0][0], 2))) < 1e-18L);
	/* A clip that is not positive means no clip. */
	for (int k = 0; k < 2; k++) {
		set(&w, "cell_clip", -k);
		forward(&t, &w);
		assert_true(find(&w, "cs")->at[0][0] > 4);
	}
	close_trial(&t);
	cg_parse_free(cell);
}

static void test_relu_at_zero(void **state)
{
	static const long double at[] = { -1, -0.0L, 0, 2 }, slope[] = { 0, 0, 0, 1 };
	static struct trial t;
	static struct world w;
	struct cg_cell *cell = must_find("rnn_relu");

	(void)state;
	open_trial(&t, cell, 0);
	for (int k = 0; k < 4; k++) {
		w.n = 0;
		set(&w, "a", at[k]), set(&w, "dh", 3), set(&w, "gda", 5);
		forward(&t, &w);
		grad(&t, &w);
		gradgrad(&t, &w);
		assert_true(find(&w, "h")->at[0][0] == at[k] * slope[k]);
		assert_true(find(&w, "da")->at[0][0] == 3 * slope[k]);
		assert_true(find(&w, "gdh")->at[0][0] == 5 * slope[k]);
		assert_true(find(&w, "ga")->at[0][0] == 0);
	}
	close_trial(&t);
	cg_parse_free(cell);
}

/* The derivatives of functions at their kinks and beside them, by a and by b where dh is 1, and for gradgrad those of da and db by dh. */
static void test_kinks(void **state)
{
	static const struct { const char *expression; long double a, b, da, db; } kinks[] = {
		{ "max(a, b)", 2, 2, 0.5L, 0.5L }, { "max(a, b)", 2, 1, 1, 0 }, { "max(a, b)", 1, 2, 0, 1 },
		{ "max(a, b)", -0.0L, 0, 0.5L, 0.5L },
		{ "max(a, b)", INFINITY, INFINITY, 0.5L, 0.5L }, { "max(a, b)", -INFINITY, INFINITY, 0, 1 }, { "max(b, a)", 2, 1, 1, 0 },
		{ "min(a, b)", 2, 2, 0.5L, 0.5L }, { "min(a, b)", 2, 1, 0, 1 }, { "min(a, b)", 1, 2, 1, 0 }, { "min(b, a)", 1, 2, 1, 0 },
		{ "max(a, 0) + b", 0, 0, 0.5L, 1 }, { "max(0, a) + b", 1, 0, 1, 1 }, { "min(a, 3) + b", 3, 0, 0.5L, 1 },
		{ "max(a, a) + b", 3, 0, 1, 1 }, { "max(a, -a) + b", 0, 0, 0, 1 },
		{ "abs(a) + b", 0, 0, 0, 1 }, { "abs(a) + b", -0.0L, 0, 0, 1 }, { "abs(a) + b", 1e-30L, 0, 1, 1 },
		{ "abs(a) + b", -2, 0, -1, 1 },
		{ "abs(-a) + b", 2, 0, 1, 1 }, { "abs(a) + b", -INFINITY, 0, -1, 1 },
		{ "softsign(a) + b", 0, 0, 1, 1 }, { "silu(a) + b", 0, 0, 0.5L, 1 },
		{ "hard_sigmoid(a) + b", -3, 0, 0, 1 }, { "hard_sigmoid(a) + b", 3, 0, 0, 1 }, { "hard_sigmoid(a) + b", 4, 0, 0, 1 },
		{ "hard_sigmoid(a) + b", -1e9L, 0, 0, 1 }, { "hard_sigmoid(a) + b", INFINITY, 0, 0, 1 },
		{ "hard_sigmoid(a) + b", 3 - 1e-12L, 0, 1 / 6.0L, 1 }, { "hard_sigmoid(a) + b", 1e-12L - 3, 0, 1 / 6.0L, 1 },
		{ "log(a) + b", 4, 0, 0.25L, 1 }, { "log1p(a) + b", 0, 0, 1, 1 }, { "log1p(a) + b", 3, 0, 0.25L, 1 }, { "expm1(a) + b", 0, 0, 1, 1 },
		{ "expm1(a) + b", -INFINITY, 0, 0, 1 }, { "sqrt(a) + b", 4, 0, 0.25L, 1 }, { "sqrt(a) + b", INFINITY, 0, 0, 1 },
		{ "erf(a) + b", 0, 0, 1.12837916709551257389615890312154517L, 1 }, { "erf(a) + b", -INFINITY, 0, 0, 1 },
		{ "softplus(a) + b", 0, 0, 0.5L, 1 }, { "softplus(a) + b", 60, 0, 1, 1 }, { "softplus(a) + b", INFINITY, 0, 1, 1 },
		{ "softplus(a) + b", -INFINITY, 0, 0, 1 }, { "gelu(a) + b", 0, 0, 0.5L, 1 }, { "gelu(a) + b", 60, 0, 1, 1 },
	};

	(void)state;
	for (size_t k = 0; k < sizeof kinks / sizeof *kinks; k++) {
		static struct trial t;
		static struct world w;
		struct cg_cell *cell;
		char text[200];

		snprintf(text, sizeof text, "cell kink\ngates a b\noutput h\nh = %s\n", kinks[k].expression);
		cell = must_parse(text, "kink");
		open_trial(&t, cell, 0);
		w.n = 0;
		set(&w, "a", kinks[k].a), set(&w, "b", kinks[k].b), set(&w, "dh", 1), set(&w, "gda", 4), set(&w, "gdb", 8);
		grad(&t, &w);
		gradgrad(&t, &w);
		for (int b = 0; b < 2; b++) {
			long double got = find(&w, b ? "db" : "da")->at[0][0], want = b ? kinks[k].db : kinks[k].da;

			if (!(fabsl(got - want) < 1e-18L))
				fail_msg("%s at %Lg, %Lg: d%c is %.20Lg, not %.20Lg", text, kinks[k].a, kinks[k].b, "ab"[b], got, want);
		}
		assert_true(fabsl(find(&w, "gdh")->at[0][0] - 4 * kinks[k].da - 8 * kinks[k].db) < 1e-17L);
		close_trial(&t);
		cg_parse_free(cell);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_built_in),
		cmocka_unit_test(test_new),
		cmocka_unit_test(test_clip_passes),
		cmocka_unit_test(test_relu_at_zero),
		cmocka_unit_test(test_kinks),
	};

	cmocka_set_message_output(CM_OUTPUT_TAP);
	random_start();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
