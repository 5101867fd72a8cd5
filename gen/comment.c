/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the comment above a function: what the function computes, and what each of its arguments is. */
#include "print.h"

/* A program may include several headers, so a header spells types out instead of defining real and acc. */
const char *cg_print_type(const struct printer *p, const struct cg_argument *a)
{
	int dtype = p->plan->dtype;

	if (p->header && a->type != CG_TYPE_I64)
		return cg_type_word(p->dialect, a->type == CG_TYPE_REAL ? dtype : cg_dtypes[dtype].acc);
	return a->type == CG_TYPE_REAL ? "real" : a->type == CG_TYPE_ACC ? "acc" : "int64_t";
}

static const char *const roles[] = {
	[CG_ROLE_PREV] = " before the step", [CG_ROLE_STATE] = " after the step",   /* after "state" or "output" */
	[CG_ROLE_FEED] = "operand of the next stage's product",
	[CG_ROLE_WEIGHT] = "a weight per unit", [CG_ROLE_BIAS] = "a bias", [CG_ROLE_SCALAR] = "a learnt scalar",
	[CG_ROLE_PARAM] = "param, which the caller rounds to real",
	[CG_ROLE_SCRATCH] = "partial sums of blocks of rows",
	[CG_ROLE_ACCUMULATE] = "1: add to the sums in memory; 0: overwrite them",
	[CG_ROLE_MEANS] = "means over the units of a row",
};

/* Prints which products and biases a gate is the sum of. */
static void about_gate(struct cg_text *text, const struct cg_cell *cell, int index)
{
	const struct cg_gate *gate = &cell->gates[index];
	int x = gate->parts >> CG_PART_W & 1, h = gate->parts >> CG_PART_R & 1;

	cg_text_printf(text, "pre-activation: %s", x ? "x W" : "");
	if (h)
		cg_text_printf(text, "%s%s R", x ? " + " : "", gate->stage > 1 ? cell->values[cell->feeds[gate->stage - 2]].name : "h");
	if (gate->parts & CG_GATE_BIASES)
		cg_text_put(text, " + b");
}

static const char *state_or_output(const struct cg_prev *prev)
{
	return prev->output ? "output" : "state";
}

static void about_saved(struct cg_text *text, const struct cg_cell *cell, int index)
{
	int prev = cg_find_prev(cell, cell->saves[index]);

	if (prev >= 0)
		cg_text_printf(text, "%s after the step, which forward saves", state_or_output(&cell->prevs[prev]));
	else
		cg_text_put(text, "value that forward saves");
}

static void about_argument(const struct printer *p, struct cg_text *text, const struct cg_argument *a)
{
	static const char *const shapes[] = {
		[CG_KIND_TENSOR] = "[rows, units]", [CG_KIND_PER_UNIT] = "[units]", [CG_KIND_ELEMENT] = "[1]",
		[CG_KIND_SCALAR] = "", [CG_KIND_COUNT] = "",
		[CG_KIND_SCRATCH] = "[blocks, values, units]", [CG_KIND_MEANS] = "[rows, means]",
	};
	const struct cg_cell *cell = p->plan->cell;
	int out = cg_is_written(p->function, a), both = a->kind == CG_KIND_MEANS && out && cg_reads_means(p->function);

	cg_text_printf(text, "\n *\t%-12s %-3s %-*s %-15s ", a->name, both ? "i/o" : out ? "out" : "in", p->header ? 8 : 7, cg_print_type(p, a),
	               shapes[a->kind]);
	if (p->header && a->role == CG_ROLE_PARAM)
		cg_text_printf(text, "param, which the caller rounds to %s", cg_real_names[p->plan->dtype]);
	else if (a->derivative == CG_VALUE && a->role == CG_ROLE_GATE)
		about_gate(text, cell, a->index);
	else if (a->derivative == CG_VALUE && a->role == CG_ROLE_SAVED)
		about_saved(text, cell, a->index);
	else if (a->derivative == CG_VALUE && (a->role == CG_ROLE_PREV || a->role == CG_ROLE_STATE))
		cg_text_printf(text, "%s%s", state_or_output(&cell->prevs[a->index]), roles[a->role]);
	else if (a->derivative == CG_VALUE)
		cg_text_put(text, roles[a->role]);
	else if (a->role == CG_ROLE_OUTPUT)
		cg_text_printf(text, "second adjoint of %s, from the layer above: both are added", cell->values[cell->prevs[a->index].value].name);
	else
		cg_text_printf(text, "adjoint of %s", a->name + 1);
	if (a->out && a->role == CG_ROLE_PREV && cell->prevs[a->index].output)
		cg_text_put(text, ", without the part of the recurrent products");
}

void cg_print_about(struct printer *p, struct cg_text *text)
{
#define TEXT(with, code, name, text) text,
	static const char *const holes[] = { CG_PASSES(TEXT,) };
	const struct cg_pass_plan *plan = p->plan;
	const struct cg_function *function = p->function;

	cg_text_printf(text, "/*\n * %s: ", function->key);
	if (function->shape == CG_FUNCTION_POINT)
		cg_text_printf(text, "the %s of cell %s%s", holes[plan->pass], plan->cell->name,
		               plan->pass >= CG_PASS_SEQ_FORWARD ? " in a sequence" : "");
	else if (function->shape == CG_FUNCTION_SUM_PART)
		cg_text_printf(text, "partial sums over blocks of %d rows, for later functions", CG_SUM_ROWS);
	else if (function->shape == CG_FUNCTION_SUM)
		cg_text_put(text, "the sums of partial sums over all blocks of rows");
	else if (function->shape == CG_FUNCTION_SUM_UNITS)
		cg_text_printf(text, "sums of partial sums over blocks and units, in %d lanes", CG_LANES);
	else
		cg_text_printf(text, "means over units, for the functions after it");
	if (plan->cell->n_stages > 1)
		cg_text_printf(text, ", stage %d", function->stage);
	cg_text_put(text, ".\n * A null input reads as zeros; a null output is not written.  Strides are in elements.\n *");
	for (int k = 2; k < function->n_arguments; k++)
		if (cg_is_parameter(p->function, &function->arguments[k]))
			about_argument(p, text, &function->arguments[k]);
	if (p->dialect->sum_out && function->shape == CG_FUNCTION_SUM)
		cg_text_put(text, "\n *\n * NAME_second: elements from NAME to a second place, which gets the same sum; 0: none.");
	/* In a source, unlike a header, the functions themselves show how many means and sums they compute. */
	if (p->header && function->means)
		cg_text_printf(text, "\n *\n * acc_means has room for rows * %d elements.", function->means);
	if (p->header && cg_has_partial(function))
		cg_text_printf(text, "\n *\n * partial has room for ceil(rows / %d) * %d * units elements.", CG_SUM_ROWS,
		               cg_sum_values(function));
	cg_text_put(text, "\n */");
}
