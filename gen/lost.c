/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the previous values on which no state, output, product or saved value depends because options are off, though one does with all
 * options on.
 */
#include "cell.h"

#include <string.h>

static void need(const struct cg_graph *graph, unsigned char *needed, int value)
{
	needed[graph->value[value]] = 1;
}

/* Returns a bit for each previous value on which a state, the output, a product or a saved value depends if the cell has `options` on; -1:
 * memory is exhausted. */
static int reads(const struct cg_cell *cell, int options, cg_resize *resize)
{
	struct cg_arena memory = { resize, NULL, 0 };
	struct cg_graph graph;
	unsigned char *needed;
	int prevs = 0, failed;

	cg_graph_open(&graph, &memory);
	cg_graph_build(&graph, cell, options);
	needed = cg_arena_alloc(&memory, (size_t)graph.n + 1);
	failed = graph.failed || !needed;
	for (int k = 0; k < cell->n_prevs && !failed; k++)
		need(&graph, needed, cell->prevs[k].value);
	for (int k = 0; k < cell->n_stages - 1 && !failed; k++)
		need(&graph, needed, cell->feeds[k]);
	for (int k = 0; k < cell->n_saves && !failed; k++)
		need(&graph, needed, cell->saves[k]);
	for (int k = graph.n - 1; k > 0 && !failed; k--) {
		const struct cg_node *node = &graph.nodes[k];

		if (!needed[k])
			continue;
		if (node->code == CG_OP_LEAF && graph.leaves[node->a].role == CG_ROLE_PREV)
			prevs |= 1 << graph.leaves[node->a].index;
		else if (node->code != CG_OP_LEAF && node->code != CG_OP_CONST)
			needed[node->a] = needed[node->b] = 1;
	}
	cg_arena_free(&memory);
	return failed ? -1 : prevs;
}

static int count(int bits)
{
	int n = 0;

	for (; bits; bits &= bits - 1)
		n++;
	return n;
}

int cg_lost_prevs(const struct cg_cell *cell, int options, cg_resize *resize, int *add)
{
	int all = (1 << cell->n_options) - 1, most = reads(cell, all, resize), now = reads(cell, options, resize);

	*add = 0;
	if (most < 0 || now < 0)
		return -1;
	if (!(most & ~now))
		return 0;
	*add = all & ~options;
	for (int more = 1; more <= all; more++) {
		int then;

		if (more & options || count(more) >= count(*add))
			continue;
		then = reads(cell, options | more, resize);
		if (then < 0)
			return -1;
		if (!(most & ~then))
			*add = more;
	}
	return most & ~now;
}
