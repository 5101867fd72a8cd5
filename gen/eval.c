/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Interprets the graph in long double with the C library's functions.  This file defines the meaning of the language of .cell files:
 * tests compare kernels with its values.  strip.c interprets the same graph in the arithmetic of kernels.
 */
#include "cell.h"

void cg_eval(const struct cg_graph *graph, long double *value, int n)
{
	for (int k = 0; k < n; k++) {
		const struct cg_node *node = &graph->nodes[k];

		if (node->code == CG_OP_CONST)
			value[k] = node->value;
		else if (node->code != CG_OP_LEAF)
			value[k] = cg_op_value(node->code, value[node->a], value[node->b]);
	}
}

size_t cg_strip_bytes(const struct cg_pass_plan *plan, const struct cg_function *function)
{
	(void)function;
	return (size_t)plan->graph.n * 256 * cg_acc_bytes(plan->dtype);
}
