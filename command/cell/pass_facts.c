/* SPDX-License-Identifier: Apache-2.0 */
/* Finds what a pass of a cell loads, stores and computes, from the pass's plan. */
#include "command/cell/pass_facts.h"

#include <string.h>

int fact_names_have(const struct fact_names *names, const char *name)
{
	for (int k = 0; k < names->n; k++)
		if (!strcmp(names->name[k], name))
			return 1;
	return 0;
}

static void add(struct fact_names *names, const char *name)
{
	if (!fact_names_have(names, name))
		names->name[names->n++] = name;
}

/* Adds the arguments of a function over elements, or of a function that computes means over units for a function over elements. The bytes
 * of a tensor that two functions load count twice. */
static void take_arguments(struct pass_facts *f, const struct cg_function *function)
{
	int dtype = f->plan->dtype;

	for (int k = 0; k < function->n_arguments; k++) {
		const struct cg_argument *a = &function->arguments[k];

		if (!cg_is_array(a))
			continue;
		if (a->kind == CG_KIND_TENSOR)
			f->bytes += (int)(a->type == CG_TYPE_ACC ? cg_acc_bytes(dtype) : cg_dtype_bytes(dtype));
		add(a->out ? &f->stores : &f->loads, a->name);
	}
}

/* Adds the arguments of a function that sums, or of a function that computes means over units for a function that sums. */
static void take_sum(struct pass_facts *f, const struct cg_function *function)
{
	for (int k = 0; k < function->n_arguments; k++) {
		const struct cg_argument *a = &function->arguments[k];

		if (a->out && cg_is_sum(function))
			add(&f->sums, a->name);
		else if (!a->out && cg_is_array(a))
			add(&f->sum_loads, a->name);
	}
}

static int is_function(int code)
{
	static const int codes[] = { CG_OP_RECIP, CG_OP_EXP, CG_OP_TANH, CG_OP_SIGMOID, CG_OP_LOG, CG_OP_LOG1P, CG_OP_EXPM1, CG_OP_SQRT,
	                             CG_OP_ERF, CG_OP_SOFTPLUS };

	for (size_t k = 0; k < sizeof codes / sizeof *codes; k++)
		if (codes[k] == code)
			return 1;
	return 0;
}

/* Counts the operations of a function over elements, or of a function that computes means over units for a function over elements. Adds the
 * names of the equations' values that these operations compute and the pass does not store. */
static void take_schedule(struct pass_facts *f, const struct cg_function *function)
{
	const struct cg_cell *cell = f->plan->cell;
	const struct cg_graph *graph = &f->plan->graph;

	for (int k = 0; k < function->n_schedule; k++) {
		int node = function->schedule[k];

		f->operations++;
		f->functions += is_function(graph->nodes[node].code);
		for (int v = 0; v < cell->n_values; v++)
			if (graph->value[v] == node && !fact_names_have(&f->stores, cell->values[v].name))
				add(&f->recomputes, cell->values[v].name);
	}
}

int pass_facts_open(struct pass_facts *f, const struct cg_cell *cell, int options, int pass, int dtype)
{
	struct cg_mistake mistake = { "" };
	int is_forward = pass == CG_PASS_FORWARD || pass == CG_PASS_SEQ_FORWARD;

	memset(f, 0, sizeof *f);
	f->plan = cg_plan(cell, options, pass, 0, dtype, cg_memory, &mistake);
	if (!f->plan)
		return *mistake.text ? cg_fail(CG_BAD_ARGUMENT, "%s", mistake.text) : CG_NO_MEMORY;
	for (int k = 0; k < f->plan->n_functions; k++) {
		const struct cg_function *function = &f->plan->functions[k];

		if (function->serves == CG_FUNCTION_POINT) {
			take_arguments(f, function);
			take_schedule(f, function);
		} else {
			take_sum(f, function);
		}
	}
	if (is_forward)
		f->recomputes.n = 0;
	return CG_OK;
}

void pass_facts_close(struct pass_facts *f)
{
	cg_plan_free(f->plan);
	f->plan = NULL;
}
