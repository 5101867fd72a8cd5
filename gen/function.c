/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes a plan of one function that belongs to no cell: a matrix product or row copies.  A backend builds and launches a plan without a
 * cell like the plan of a cell.
 */
#include "cell.h"

#include <stdio.h>
#include <string.h>

struct cg_pass_plan *cg_function_plan(const char *key, int shape, int dtype, const struct cg_argument *arguments, int n,
                                      cg_resize *resize)
{
	struct cg_pass_plan *plan = resize(NULL, sizeof *plan);
	struct cg_argument *list;

	if (!plan)
		return NULL;
	memset(plan, 0, sizeof *plan);
	plan->dtype = dtype;
	plan->memory.resize = resize;
	plan->functions = cg_arena_alloc(&plan->memory, sizeof *plan->functions);
	list = cg_arena_alloc(&plan->memory, (size_t)(n + 1) * sizeof *list);
	if (plan->memory.failed) {
		cg_plan_free(plan);
		return NULL;
	}
	for (int k = 0; k < n; k++) {
		list[k] = arguments[k];
		list[k].role = k == 0 ? CG_ROLE_ROWS : k == 1 ? CG_ROLE_UNITS : CG_ROLE_OPERAND;
		list[k].index = k;
	}
	snprintf(plan->key, CG_KEY_MAX, "%s", key);
	snprintf(plan->functions->key, CG_KEY_MAX, "%s", key);
	plan->functions->shape = shape;
	plan->functions->arguments = list;
	plan->functions->n_arguments = n;
	plan->n_functions = 1;
	return plan;
}
