/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interprets the graph in long double with the C library's functions.  This file defines the meaning of the language of .cell files:
 * tests compare kernels with the values that cg_eval() computes.  strip.c interprets the same graph in the arithmetic of kernels.
 */
#include "cell.h"

static long double mean(const long double *of, int units)
{
	long double sum = 0;

	for (int u = 0; u < units; u++)
		sum += of[u];
	return sum / units;
}

void cg_eval_row(const struct cg_graph *graph, long double *value, int n, int units)
{
	for (int k = 0; k < n; k++) {
		const struct cg_node *node = &graph->nodes[k];
		const long double *a = value + (size_t)node->a * (size_t)units, *b = value + (size_t)node->b * (size_t)units;
		long double *to = value + (size_t)k * (size_t)units;

		if (node->code == CG_OP_LEAF)
			continue;
		for (int u = 0; u < units; u++)
			to[u] = node->code == CG_OP_CONST ? node->value : node->code == CG_OP_MEAN ? mean(a, units) : cg_op_value(node->code, a[u], b[u]);
	}
}

void cg_eval(const struct cg_graph *graph, long double *value, int n)
{
	cg_eval_row(graph, value, n, 1);
}

size_t cg_strip_values(const struct cg_function *function)
{
	int lanes = function->shape == CG_FUNCTION_MEAN ? cg_count_outputs(function) : 0;

	return (size_t)(function->registers + lanes) * CG_STRIP;
}

size_t cg_strip_bytes(const struct cg_pass_plan *plan, const struct cg_function *function)
{
	return cg_strip_values(function) * cg_acc_bytes(plan->dtype) + (size_t)function->registers * sizeof(void *);
}
