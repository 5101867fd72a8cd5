/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the step loop of a function over elements: all steps of a sequence in one launch, for cells without a recurrent product, in the
 * dialects of GPUs.
 */
#include "print.h"

#include <stdio.h>
#include <string.h>

static int is_backward(const struct cg_pass_plan *plan)
{
	return plan->pass == CG_PASS_SEQ_GRAD;
}

int cg_in_steps(const struct cg_pass_plan *plan, const struct cg_argument *a)
{
	if (a->kind != CG_KIND_TENSOR)
		return CG_STEPS_SAME;
	if (a->role == CG_ROLE_PREV && a->derivative == CG_VALUE)
		return is_backward(plan) ? CG_STEPS_BEFORE : CG_STEPS_PASSED;
	if (a->role == CG_ROLE_PREV)
		return CG_STEPS_FIRST;
	return a->role == CG_ROLE_STATE && a->derivative != CG_VALUE ? CG_STEPS_PASSED : CG_STEPS_ROWS;
}

int cg_has_second_memory(const struct cg_pass_plan *plan, const struct cg_argument *a)
{
	const int in_steps = cg_in_steps(plan, a);

	return in_steps == CG_STEPS_BEFORE || (in_steps == CG_STEPS_PASSED && is_backward(plan));
}

/* Names of the step loop's own have prefixes that no name of a cell has. */
void cg_step_loop_names(const struct cg_pass_plan *plan, const struct cg_argument *a, char own[CG_STEP_NAME_MAX], char second[CG_STEP_NAME_MAX])
{
	const int is_before = cg_in_steps(plan, a) == CG_STEPS_BEFORE;

	snprintf(own, CG_STEP_NAME_MAX, "%s%s", is_before ? "acc_first_" : "", a->name);
	*second = 0;
	if (cg_has_second_memory(plan, a))
		snprintf(second, CG_STEP_NAME_MAX, "%s%s", is_before ? "acc_before_" : "acc_each_", a->name);
}

static const struct cg_argument *find(const struct cg_function *function, int role, int index, int derivative)
{
	for (int k = 0; k < function->n_arguments; k++) {
		const struct cg_argument *a = &function->arguments[k];

		if (a->role == role && a->index == index && a->derivative == derivative)
			return a;
	}
	return NULL;
}

/* The argument that stores the value which a step passes on in place of the argument a: forward, the state or output after the step;
 * backward, the gradient of that before the step.  NULL: there is none. */
static const struct cg_argument *find_passed(const struct cg_pass_plan *plan, const struct cg_function *function, const struct cg_argument *a)
{
	const int node = plan->graph.value[plan->cell->prevs[a->index].value];

	if (is_backward(plan))
		return find(function, CG_ROLE_PREV, a->index, CG_D);
	for (int k = 0; k < function->n_arguments; k++)
		if (function->arguments[k].out && function->arguments[k].node == node)
			return &function->arguments[k];
	return NULL;
}

int cg_has_step_loop(const struct cg_pass_plan *plan, const struct cg_function *function)
{
	if (!plan->cell || plan->pass < CG_PASS_SEQ_FORWARD || function->shape != CG_FUNCTION_POINT || function->means ||
	    plan->cell->n_stages > 1 || cg_has_product(plan->cell, 1))
		return 0;
	for (int k = 0; k < function->n_arguments; k++) {
		const struct cg_argument *a = &function->arguments[k];
		const int in_steps = cg_in_steps(plan, a);

		if (in_steps == CG_STEPS_PASSED && !find_passed(plan, function, a))
			return 0;
		if (in_steps == CG_STEPS_FIRST && !find(function, CG_ROLE_STATE, a->index, CG_D))
			return 0;
	}
	return 1;
}

void cg_step_loop_key(const struct cg_function *function, char key[CG_KEY_MAX])
{
	snprintf(key, CG_KEY_MAX, "%.*s_steps", CG_KEY_MAX - (int)sizeof "_steps", function->key);
}

/* ---- lists ---- */

/* The names of an argument's memory and of its second memory. */
struct names { char own[CG_STEP_NAME_MAX], second[CG_STEP_NAME_MAX]; };

static struct names names_of(const struct printer *p, const struct cg_argument *a)
{
	struct names names;

	cg_step_loop_names(p->plan, a, names.own, names.second);
	return names;
}

/* Prints the parameters: those of the steps, then those of the arguments.  The memory from which a thread reads the first value that is
 * passed on may be the memory to which it writes the last one, so these pointers are not `restrict`. */
static void put_parameters(const struct printer *p, struct cg_text *text)
{
	const struct cg_function *function = p->function;
	const struct cg_dialect *d = p->dialect;
	const char *const holes[] = { "name", "acc_offsets", "type", d->i64, "restrict", d->restricted, NULL };

	for (int k = 0; k < function->n_arguments; k++) {
		const struct cg_argument *a = &function->arguments[k];
		const int in_steps = cg_in_steps(p->plan, a), is_alone = in_steps == CG_STEPS_SAME || in_steps == CG_STEPS_ROWS;
		struct cg_argument second = *a;

		cg_print_parameter(p, text, a, names_of(p, a).own, is_alone ? d->restricted : "");
		if (a->role == CG_ROLE_UNITS) {
			cg_text_printf(text, ",\n%s acc_steps,\n", d->i64);
			cg_fill(text, d->unit_in, strlen(d->unit_in), holes);
			cg_text_printf(text, ",\n%s acc_start, %s acc_apart", d->i64, d->i64);
		}
		if (!cg_has_second_memory(p->plan, a))
			continue;
		second.out = in_steps == CG_STEPS_PASSED;
		cg_print_parameter(p, text, &second, names_of(p, a).second, "");
	}
}

/* Prints a load into a variable that later statements change. */
static void put_variable(const struct printer *p, struct cg_text *text, const struct cg_argument *a)
{
	struct cg_text load = { text->resize, NULL, 0, 0, 0 };

	cg_print_load(p, &load, a, a->name);
	text->failed |= load.failed;
	if (load.at)
		cg_text_printf(text, "%s%s", text->length ? "\n" : "", load.at + strlen("const "));
	load.resize(load.at, 0);
}

/* Prints the loads before the first step that is computed. */
static void put_begin(const struct printer *p, struct cg_text *text)
{
	for (int k = 0; k < p->function->n_arguments; k++) {
		const struct cg_argument *a = &p->function->arguments[k];
		const int in_steps = cg_in_steps(p->plan, a);

		if (a->out || !cg_is_array(a))
			continue;
		if (in_steps == CG_STEPS_PASSED)
			put_variable(p, text, a);
		else if (in_steps != CG_STEPS_ROWS)
			cg_print_load(p, text, a, names_of(p, a).own);
	}
}

/* The beginning of an access to the table of the steps' first rows. */
static const char *offset(const struct cg_dialect *d)
{
	return d->offsets ? "acc_offsets_at[acc_offsets_offset + " : "acc_offsets_at[";
}

/* Prints the loads of values before the step, from the rows of the step before; afterwards `row` is again the row of the step. */
static void put_before(const struct printer *p, struct cg_text *text)
{
	for (int k = 0; k < p->function->n_arguments; k++) {
		const struct cg_argument *a = &p->function->arguments[k];

		if (cg_in_steps(p->plan, a) != CG_STEPS_BEFORE)
			continue;
		if (!text->length)
			cg_text_printf(text, "if (acc_s)\n\trow = acc_row + (acc_offsets_at ? %sacc_s - 1] :\n\t\tacc_from - acc_apart);",
			               offset(p->dialect));
		cg_print_load(p, text, a, names_of(p, a).second);
		cg_text_printf(text, "\nconst acc %s = acc_s ? %s : %s;", a->name, names_of(p, a).second, names_of(p, a).own);
	}
	if (text->length)
		cg_text_put(text, "\nrow = acc_from + acc_row;");
}

static void put_loads(const struct printer *p, struct cg_text *text)
{
	for (int k = 0; k < p->function->n_arguments; k++) {
		const struct cg_argument *a = &p->function->arguments[k];

		if (!a->out && cg_in_steps(p->plan, a) == CG_STEPS_ROWS)
			cg_print_load(p, text, a, a->name);
	}
}

static void put_stores(const struct printer *p, struct cg_text *text)
{
	for (int k = 0; k < p->function->n_arguments; k++) {
		const struct cg_argument *a = &p->function->arguments[k];
		struct cg_text value = { text->resize, NULL, 0, 0, 0 };

		if (cg_in_steps(p->plan, a) == CG_STEPS_PASSED && cg_has_second_memory(p->plan, a))
			cg_print_store(p, text, a, names_of(p, a).second, a->name);
		if (!a->out || cg_in_steps(p->plan, a) != CG_STEPS_ROWS)
			continue;
		cg_print_expression(p, &value, a->node, 0);
		text->failed |= value.failed;
		cg_print_store(p, text, a, a->name, value.at);
		value.resize(value.at, 0);
	}
}

/* Prints the value that the step passes on in place of an argument, rounded as in memory. */
static void put_passed(const struct printer *p, struct cg_text *text, const struct cg_argument *a)
{
	const int rounds = !p->plain && a->type == CG_TYPE_REAL;
	struct cg_text value = { text->resize, NULL, 0, 0, 0 };

	cg_print_expression(p, &value, find_passed(p->plan, p->function, a)->node, 0);
	text->failed |= value.failed;
	cg_text_printf(text, "%s%s%s;", rounds ? "to_acc(to_real(" : "", value.at ? value.at : "", rounds ? "))" : "");
	value.resize(value.at, 0);
}

/* Prints the passing of values to the next step that is computed.  Several values are all computed first, since one may depend on
 * another. */
static void put_pass(const struct printer *p, struct cg_text *text)
{
	const struct cg_function *function = p->function;
	int n = 0;

	for (int k = 0; k < function->n_arguments; k++)
		n += cg_in_steps(p->plan, &function->arguments[k]) == CG_STEPS_PASSED;
	for (int assigns = n < 2; assigns < 2; assigns++)
		for (int k = 0; k < function->n_arguments; k++) {
			const struct cg_argument *a = &function->arguments[k];

			if (cg_in_steps(p->plan, a) != CG_STEPS_PASSED)
				continue;
			cg_text_printf(text, "%s%s%s = ", text->length ? "\n" : "", assigns ? "" : "const acc acc_next_", a->name);
			if (assigns && n > 1)
				cg_text_printf(text, "acc_next_%s;", a->name);
			else
				put_passed(p, text, a);
		}
}

/* Prints the stores behind the last step that is computed. */
static void put_end(const struct printer *p, struct cg_text *text)
{
	for (int k = 0; k < p->function->n_arguments; k++) {
		const struct cg_argument *a = &p->function->arguments[k];

		if (cg_in_steps(p->plan, a) != CG_STEPS_FIRST)
			continue;
		if (!text->length)
			cg_text_put(text, "row = acc_row;");
		cg_print_store(p, text, a, a->name, find(p->function, CG_ROLE_STATE, a->index, CG_D)->name);
	}
}

static void about_memory(struct cg_text *text, const char *name, const char *what)
{
	cg_text_printf(text, "%s%-20s %s", text->length ? "\n *\t" : "", name, what);
}

/* Prints which memory has the batch's rows of one step, and what second memory has. */
static void put_about(const struct printer *p, struct cg_text *text)
{
	for (int k = 0; k < p->function->n_arguments; k++) {
		const struct cg_argument *a = &p->function->arguments[k];
		const struct names names = names_of(p, a);

		switch (cg_in_steps(p->plan, a)) {
		case CG_STEPS_PASSED:
			about_memory(text, names.own, is_backward(p->plan) ? "[rows, units] of each batch row's last step" : "[rows, units] before the first step");
			if (is_backward(p->plan))
				about_memory(text, names.second, "of each step, an output");
			break;
		case CG_STEPS_BEFORE:
			about_memory(text, names.own, "[rows, units] before the first step");
			about_memory(text, names.second, "after each step");
			break;
		case CG_STEPS_FIRST:
			about_memory(text, names.own, "[rows, units] of the first step");
		}
	}
}

/* ---- the loop ---- */

void cg_print_step_loop(struct printer *p, struct cg_text *text)
{
	static const struct { const char *name; void (*put)(const struct printer *, struct cg_text *); } lists[] = {
		{ "steps_parameters", put_parameters }, { "steps_begin", put_begin }, { "steps_before", put_before }, { "steps_loads", put_loads },
		{ "steps_stores", put_stores }, { "steps_pass", put_pass }, { "steps_end", put_end }, { "steps_about", put_about },
	};
	enum { LISTS = sizeof lists / sizeof *lists, WORDS = 13 };
	const struct cg_dialect *d = p->dialect;
	const int back = is_backward(p->plan);
	struct printer single = *p;
	struct cg_text made[LISTS + 1];
	struct cg_section section;
	char key[CG_KEY_MAX];

	if (!cg_has_step_loop(p->plan, p->function) || cg_section_find("point.in", "steps", d->shape, &section))
		return;
	single.runs = 0;
	cg_step_loop_key(p->function, key);
	const char *holes[2 * (LISTS + 1 + WORDS) + 1] = {
		"steps_key", key, "key", p->function->key, "kernel", d->kernel, "i64", d->i64, "row", d->row, "row_step", d->row_step,
		"unit", d->unit, "unit_step", d->unit_step, "offset", offset(d),
		"steps_from", back ? "acc_steps - 1" : "0", "steps_while", back ? "acc_s >= 0" : "acc_s < acc_steps",
		"steps_count", back ? "acc_s--" : "acc_s++", "steps_past", back ? "continue;" : "break;",
	};

	for (int k = 0; k <= LISTS; k++) {
		made[k] = (struct cg_text){ text->resize, NULL, 0, 0, 0 };
		if (k < LISTS)
			lists[k].put(&single, &made[k]);
		else
			cg_print_statements(&single, &made[k]);
		holes[2 * (WORDS + k)] = k < LISTS ? lists[k].name : "statements";
		holes[2 * (WORDS + k) + 1] = made[k].at ? made[k].at : "";
	}
	cg_fill(text, section.at, section.length, holes);
	for (int k = 0; k <= LISTS; k++) {
		text->failed |= made[k].failed;
		text->resize(made[k].at, 0);
	}
}
