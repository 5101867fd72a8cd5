/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the manifest of a kernel's text as JSON: all that a program needs to call the functions from a runtime of its own.  Every
 * parameter of a function has an entry, in order.
 */
#include "cell.h"

#include <stdio.h>
#include <string.h>

static const char *const roles[] = {
	[CG_ROLE_GATE] = "gate", [CG_ROLE_PREV] = "prev", [CG_ROLE_STATE] = "state", [CG_ROLE_OUTPUT] = "output",
	[CG_ROLE_SAVED] = "saved", [CG_ROLE_FEED] = "feed", [CG_ROLE_WEIGHT] = "weight", [CG_ROLE_BIAS] = "bias",
	[CG_ROLE_SCALAR] = "scalar", [CG_ROLE_PARAM] = "param",
	[CG_ROLE_ROWS] = "rows", [CG_ROLE_UNITS] = "units", [CG_ROLE_SCRATCH] = "scratch",
	[CG_ROLE_ACCUMULATE] = "accumulate", [CG_ROLE_MEANS] = "means",
};
static const char *const kinds[] = {
	[CG_KIND_TENSOR] = "tensor", [CG_KIND_PER_UNIT] = "per_unit", [CG_KIND_ELEMENT] = "element", [CG_KIND_SCALAR] = "scalar",
	[CG_KIND_COUNT] = "count",
	[CG_KIND_SCRATCH] = "scratch", [CG_KIND_MEANS] = "means",
};
static const char *const orders[] = { [CG_VALUE] = "value", [CG_D] = "d", [CG_G] = "g", [CG_GD] = "gd" };

static const char *type(const struct cg_pass_plan *plan, const struct cg_argument *a)
{
	return a->type == CG_TYPE_I64 ? "i64" : cg_real_names[a->type == CG_TYPE_ACC ? cg_dtypes[plan->dtype].acc : plan->dtype];
}

static void begin(struct cg_text *text, int *first)
{
	cg_text_put(text, *first ? "\n        " : ",\n        ");
	*first = 0;
}

/* Prints a number whose decimal sign is a point in every locale, as JSON requires. */
static void number(struct cg_text *text, double value)
{
	char digits[40];

	snprintf(digits, sizeof digits, "%.17g", value);
	for (char *c = digits; *c; c++)
		if (!strchr("0123456789+-e", *c))
			*c = '.';
	cg_text_put(text, digits);
}

/* What the manifest says of an argument's memory beside what it says of the argument: its name, its flow and, in a step loop, the member
 * "steps"; NULL: none. */
struct entry { const char *name, *flow, *steps; };

/* Prints the entries of one argument: its own, and those of the offset, the stride and the second place that follow it. */
static void put_argument(const struct cg_pass_plan *plan, const struct cg_function *function, int lang, const struct cg_argument *a,
                         struct entry m, struct cg_text *text, int *first)
{
	const int is_optional = cg_is_array(a), memory = is_optional || a->kind == CG_KIND_SCRATCH || a->kind == CG_KIND_MEANS;

	begin(text, first);
	cg_text_printf(text, "{\"name\": \"%s\", \"role\": \"%s\", \"index\": %d, \"order\": \"%s\", \"kind\": \"%s\", "
	               "\"type\": \"%s\", \"flow\": \"%s\", \"optional\": %s", m.name, roles[a->role], a->index,
	               orders[a->derivative], kinds[a->kind], type(plan, a), m.flow, is_optional ? "true" : "false");
	if (m.steps)
		cg_text_printf(text, ", \"steps\": \"%s\"", m.steps);
	if (a->kind == CG_KIND_SCALAR && plan->cell->params[a->index].given) {
		cg_text_put(text, ", \"default\": ");
		number(text, plan->cell->params[a->index].value);
	}
	cg_text_put(text, "}");
	if (memory && cg_dialects[lang].offsets) {
		begin(text, first);
		cg_text_printf(text, "{\"name\": \"%s_offset\", \"of\": \"%s\", \"kind\": \"offset\", \"type\": \"u64\", "
		               "\"flow\": \"in\"}", m.name, m.name);
	}
	if (a->kind == CG_KIND_TENSOR) {
		begin(text, first);
		cg_text_printf(text, "{\"name\": \"%s_stride\", \"of\": \"%s\", \"kind\": \"stride\", \"type\": \"i64\", "
		               "\"flow\": \"in\"}", m.name, m.name);
	}
	if (cg_dialects[lang].sum_out && cg_has_second(function, a)) {
		begin(text, first);
		cg_text_printf(text, "{\"name\": \"%s_second\", \"of\": \"%s\", \"kind\": \"second\", \"type\": \"i64\", "
		               "\"flow\": \"in\"}", m.name, m.name);
	}
}

static void arguments(const struct cg_pass_plan *plan, const struct cg_function *function, int lang, struct cg_text *text)
{
	int first = 1;

	for (int k = 0; k < function->n_arguments; k++) {
		const struct cg_argument *a = &function->arguments[k];
		const int out = cg_is_written(function, a), both = a->kind == CG_KIND_MEANS && out && cg_reads_means(function);

		if (cg_is_parameter(function, a))
			put_argument(plan, function, lang, a, (struct entry){ a->name, both ? "inout" : out ? "out" : "in", NULL }, text, &first);
	}
}

/* Prints the entries of the parameters of a step loop that are of no argument of the function. */
static void step_counts(int lang, struct cg_text *text, int *first)
{
	static const char *const counts[] = { "acc_steps", "acc_start", "acc_apart" };

	for (size_t k = 0; k < sizeof counts / sizeof *counts; k++) {
		begin(text, first);
		cg_text_printf(text, "{\"name\": \"%s\", \"kind\": \"count\", \"type\": \"i64\", \"flow\": \"in\"}", counts[k]);
		if (k)
			continue;
		begin(text, first);
		cg_text_put(text, "{\"name\": \"acc_offsets\", \"kind\": \"table\", \"type\": \"i64\", \"flow\": \"in\", \"optional\": true}");
		if (cg_dialects[lang].offsets) {
			begin(text, first);
			cg_text_put(text, "{\"name\": \"acc_offsets_offset\", \"of\": \"acc_offsets\", \"kind\": \"offset\", \"type\": \"u64\", "
			                  "\"flow\": \"in\"}");
		}
	}
}

/* Prints, for a GPU's dialect, the step loop of a function.  Member "steps" of a tensor: "all", rows of all steps; "first" or "last", the
 * rows of the batch, of the first step or of each row's last step. */
static void step_loop(const struct cg_pass_plan *plan, const struct cg_function *function, int lang, struct cg_text *text)
{
	const int is_backward = plan->pass == CG_PASS_SEQ_GRAD;
	char key[CG_KEY_MAX], own[CG_STEP_NAME_MAX], second[CG_STEP_NAME_MAX];
	int first = 1;

	cg_step_loop_key(function, key);
	cg_text_printf(text, ",\n      \"step_loop\": {\"function\": \"%s\", \"threads\": [\"units\", \"rows\"], \"arguments\": [", key);
	for (int k = 0; k < function->n_arguments; k++) {
		const struct cg_argument *a = &function->arguments[k];
		const int in_steps = cg_in_steps(plan, a);
		const char *of = in_steps == CG_STEPS_ROWS ? "all" : in_steps == CG_STEPS_PASSED && is_backward ? "last" : "first";

		cg_step_loop_names(plan, a, own, second);
		put_argument(plan, function, lang, a, (struct entry){ own, a->out ? "out" : "in", in_steps == CG_STEPS_SAME ? NULL : of }, text,
		             &first);
		if (a->role == CG_ROLE_UNITS)
			step_counts(lang, text, &first);
		if (*second)
			put_argument(plan, function, lang, a, (struct entry){ second, in_steps == CG_STEPS_PASSED ? "out" : "in", "all" }, text, &first);
	}
	cg_text_put(text, "\n      ]}");
}

/* Prints, for CUDA C, how many units a thread takes in a run, and the kernel's second form with the condition for its launch. */
static void launch_runs(const struct cg_pass_plan *plan, const struct cg_function *function, struct cg_text *text)
{
	static const char group[] = "any; runs and rows are walked in steps of the threads there are";
	int run = cg_run_units(plan, function);
	char key[CG_KEY_MAX];

	cg_text_printf(text, "\"launch\": {\"threads\": [\"runs\", \"rows\"], \"runs\": \"ceil(units / %d)\", \"run_units\": %d, "
	               "\"group\": \"%s\"", run, run, group);
	if (run > 1) {
		cg_one_key(function, key);
		cg_text_printf(text, ",\n        \"one\": {\"function\": \"%s\", \"threads\": [\"units\", \"rows\"], "
		               "\"when\": \"rows * runs < %d * multiprocessors\"}", key, CG_RUN_THREADS);
	}
	cg_text_put(text, "}");
}

/* Prints the number of threads of a GPU's launch in each direction, the fastest index first; for C, that a function is called once.
 * Then prints the shapes of the function's means and scratch. */
static void launch(const struct cg_pass_plan *plan, const struct cg_function *function, int lang, struct cg_text *text)
{
	static const char *const threads[][2] = {                /* entry [1]: for CUDA C, in which a sum has a row of threads for each value */
		[CG_FUNCTION_POINT]    = { "[\"units\", \"rows\"]", "" },
		[CG_FUNCTION_SUM_PART] = { "[\"units\", \"blocks\"]", "[\"units\", \"blocks\"]" },
		[CG_FUNCTION_SUM]      = { "[\"units\"]", "[\"units\", \"values\"]" },
	};
	const struct cg_dialect *d = &cg_dialects[lang];
	int each = d->sum_out != NULL;

	if (d->strips)
		cg_text_put(text, "\"launch\": {\"call\": \"once\"}");
	else if (function->shape == CG_FUNCTION_SUM_UNITS)
		cg_text_printf(text, "\"launch\": {\"threads\": [%d, %d], \"group\": [%d, 1]}", CG_LANES,
		               cg_count_outputs(function), CG_LANES);
	else if (function->shape == CG_FUNCTION_MEAN)
		cg_text_printf(text, "\"launch\": {\"threads\": [%d, \"rows\"], \"group\": [%d, 1], \"rows\": \"walked in steps of the groups there "
		               "are\"}", CG_LANES, CG_LANES);
	else if (function->shape == CG_FUNCTION_POINT && d->run_in)
		launch_runs(plan, function, text);
	else if (function->shape == CG_FUNCTION_POINT)
		cg_text_printf(text, "\"launch\": {\"threads\": %s, \"group\": \"any; threads beyond the units or the rows return\"}",
		               threads[function->shape][0]);
	else
		cg_text_printf(text, "\"launch\": {\"threads\": %s, \"group\": \"any; threads beyond the units return, "
		               "%s are walked in steps of the threads there are\"}", threads[function->shape][each],
		               each && function->shape == CG_FUNCTION_SUM ? "values" : "blocks");
	if (function->means)
		cg_text_printf(text, ",\n      \"means\": {\"argument\": \"acc_means\", \"shape\": [\"rows\", %d]}", function->means);
	if (cg_has_partial(function))
		cg_text_printf(text, ",\n      \"scratch\": {\"argument\": \"partial\", \"shape\": [\"blocks\", %d, \"units\"], "
		               "\"blocks\": \"ceil(rows / %d)\", \"block_rows\": %d, \"values\": %d}", cg_sum_values(function), CG_SUM_ROWS,
		               CG_SUM_ROWS, cg_sum_values(function));
}

/* The function for which a function computes means: the next function that computes no means. */
static const struct cg_function *served_by(const struct cg_function *function)
{
	while (function->shape == CG_FUNCTION_MEAN)
		function++;
	return function;
}

int cg_print_manifest(const struct cg_pass_plan *plan, int lang, struct cg_text *text)
{
	static const char *const shapes[] = {
		[CG_FUNCTION_POINT] = "point", [CG_FUNCTION_SUM_PART] = "sum_part", [CG_FUNCTION_SUM] = "sum",
		[CG_FUNCTION_SUM_UNITS] = "sum_units", [CG_FUNCTION_MEAN] = "mean"
	};
	const struct cg_cell *cell = plan->cell;
	int first = 1;

	cg_text_printf(text, "{\n  \"key\": \"%s\",\n  \"command\": \"", plan->key);
	cg_print_command(plan, lang, text);
	cg_text_printf(text, "\",\n  \"lang\": \"%s\",\n  \"cell\": \"%s\",\n  \"options\": [", cg_lang_names[lang], cell->name);
	for (int k = 0; k < cell->n_options; k++)
		if (plan->options >> k & 1) {
			cg_text_printf(text, "%s\"%s\"", first ? "" : ", ", cell->options[k].name);
			first = 0;
		}
	cg_text_printf(text, "],\n  \"pass\": \"%s\",\n  \"dtype\": \"%s\",\n  \"real\": \"%s\",\n  \"acc\": \"%s\",\n"
	               "  \"flags\": %s,\n  \"functions\": [", cg_pass_names[plan->pass], cg_real_names[plan->dtype],
	               cg_real_names[plan->dtype], cg_real_names[cg_dtypes[plan->dtype].acc], cg_dialects[lang].flags);
	for (int k = 0; k < plan->n_functions; k++) {
		const struct cg_function *function = &plan->functions[k];

		cg_text_printf(text, "%s\n    {\"function\": \"%s\", \"stage\": %d, \"shape\": \"%s\",\n      ", k ? "," : "",
		               function->key, function->stage, shapes[function->shape]);
		if (function->shape == CG_FUNCTION_MEAN)
			cg_text_printf(text, "\"serves\": \"%s\",\n      ", served_by(function)->key);
		launch(plan, function, lang, text);
		if (!cg_dialects[lang].strips && cg_has_step_loop(plan, function))
			step_loop(plan, function, lang, text);
		cg_text_put(text, ",\n      \"arguments\": [");
		arguments(plan, function, lang, text);
		cg_text_put(text, "\n      ]}");
	}
	cg_text_put(text, "\n  ]\n}\n");
	return text->failed ? -1 : 0;
}
