/*
 * Names the nodes that a function computes: the cell's own names for its values, t1, t2 ... for nodes that are used twice, none for
 * those used once and short enough to be written where they are used.  The order itself is that of the nodes: operands come first.
 */
#include "cell.h"

#include <stdio.h>
#include <string.h>

enum { INLINE_MAX = 7 };                 /* operators written out in one expression */

/* The names that are taken, by their hash: a hostile cell has as many as nodes. */
struct names { const char **slots; size_t capacity; };

/* Where a name is, or would go. */
static const char **slot(const struct names *names, const char *name)
{
	uint64_t h = 0xcbf29ce484222325u;                /* FNV-1a */
	size_t at;

	for (const char *s = name; *s; s++)
		h = (h ^ (unsigned char)*s) * 0x100000001b3u;
	for (at = (h ^ h >> 32) & (names->capacity - 1); names->slots[at] && strcmp(names->slots[at], name);)
		at = (at + 1) & (names->capacity - 1);
	return &names->slots[at];
}

int cg_name_nodes(const struct cg_pass_plan *plan, const struct cg_function *function, struct cg_arena *memory, const char ***result)
{
	const struct cg_graph *graph = &plan->graph;
	size_t n = (size_t)graph->n;
	const char **name = cg_arena_take(memory, n * sizeof *name);
	struct names names = { NULL, 64 };
	unsigned short *uses = cg_arena_take(memory, n * sizeof *uses);
	unsigned short *size = cg_arena_take(memory, n * sizeof *size);
	int temporaries = 0;

	while (names.capacity < 2 * (n + (size_t)function->n_arguments))
		names.capacity *= 2;
	names.slots = cg_arena_take(memory, names.capacity * sizeof *names.slots);
	if (!name || !names.slots || !uses || !size)
		return -1;
	for (int k = 0; k < function->n_schedule; k++) {
		const struct cg_node *node = &graph->nodes[function->schedule[k]];

		for (int which = 0; which < cg_operators[node->code].arity; which++) {
			int operand = which ? node->b : node->a;

			uses[operand] += uses[operand] < 1000;
		}
	}
	for (int k = 0; k < function->n_arguments; k++) {
		const struct cg_argument *a = &function->arguments[k];

		if (!a->out && a->node) {
			name[a->node] = a->name;
			*slot(&names, a->name) = a->name;
		}
	}
	for (int k = 0; k < function->n_schedule; k++) {
		int id = function->schedule[k];
		const struct cg_node *node = &graph->nodes[id];
		const char *own = node->name;
		char *text;

		for (int j = 0; j < function->n_arguments; j++)
			if (function->arguments[j].out && function->arguments[j].node == id)
				own = own ? own : function->arguments[j].name;
		size[id] = 1;
		for (int which = 0; which < cg_operators[node->code].arity; which++) {
			int operand = which ? node->b : node->a;

			size[id] += name[operand] ? 0 : size[operand];
		}
		/* A sign or a difference from 1 costs nothing to write twice, and reads better than a temporary. */
		if (!own && (node->code == CG_OP_NEG || (uses[id] < 2 && size[id] < INLINE_MAX)))
			continue;
		text = cg_arena_take(memory, CG_NAME_MAX + 24);
		if (!text)
			return -1;
		if (own)
			snprintf(text, CG_NAME_MAX + 24, "%s%s", own, cg_is_reserved(own) ? "_" : "");
		else
			snprintf(text, CG_NAME_MAX + 24, "t%d", ++temporaries);
		for (int again = 1; *slot(&names, text); again++) {
			if (!own)
				snprintf(text, CG_NAME_MAX + 24, "t%d", ++temporaries);
			else if (again == 1)
				snprintf(text, CG_NAME_MAX + 24, "%s_all", own);
			else
				snprintf(text, CG_NAME_MAX + 24, "%s_all%d", own, again);
		}
		name[id] = *slot(&names, text) = text;
	}
	*result = name;
	return memory->failed ? -1 : 0;
}
