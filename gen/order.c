/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names the nodes that a function computes: by the node's own name or that of an output, if there is one.  Of the other nodes, each
 * negation, and each short node that is used once, has no name and is written where it is used; all the rest are t1, t2 ...  The
 * statements are in the order of the nodes: operands first.
 */
#include "cell.h"

#include <stdio.h>
#include <string.h>

/* A node whose expression writes out this many operators, or more, gets a variable, unless the node is a negation. */
enum { INLINE_MAX = 7 };

/* The names in use, in a hash table: a hostile cell may have as many names as nodes. */
struct names { const char **slots; size_t capacity; };

/* The slot of the hash table where a name is, or where a new name is to be put. */
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

enum { TEXT_MAX = CG_NAME_MAX + 24 };

/* times: how often the function uses a node; size: how many operators the node's expression writes out. */
struct use { unsigned short times, size; };

static int operand_of(const struct cg_node *node, int which)
{
	return which ? node->b : node->a;
}

static void count_uses(const struct cg_graph *graph, const struct cg_function *function, struct use *use)
{
	for (int k = 0; k < function->n_schedule; k++) {
		const struct cg_node *node = &graph->nodes[function->schedule[k]];

		for (int which = 0; which < cg_operators[node->code].arity; which++) {
			unsigned short *times = &use[operand_of(node, which)].times;

			*times += *times < 1000;
		}
	}
}

static void name_inputs(const struct cg_function *function, const struct names *names, const char **name)
{
	for (int k = 0; k < function->n_arguments; k++) {
		const struct cg_argument *a = &function->arguments[k];

		if (!a->out && a->node) {
			name[a->node] = a->name;
			*slot(names, a->name) = a->name;
		}
	}
}

/* The name that the cell gives a node, or the name of the output that stores it. */
static const char *own_name(const struct cg_graph *graph, const struct cg_function *function, int id)
{
	const char *own = graph->nodes[id].name;

	for (int k = 0; k < function->n_arguments && !own; k++)
		if (function->arguments[k].out && function->arguments[k].node == id)
			own = function->arguments[k].name;
	return own;
}

/* Is a node written out where it is used?  A negation costs nothing to write twice, and reads better than a variable. */
static int is_inline(const struct cg_node *node, const struct use *use)
{
	return node->code == CG_OP_NEG || (use->times < 2 && use->size < INLINE_MAX);
}

/* Chooses a variable's name that no other node has: from the node's own name or, with own NULL, the next temporary, such as t2. */
static void choose_name(const struct names *names, const char *own, int *temporaries, char text[TEXT_MAX])
{
	if (own)
		snprintf(text, TEXT_MAX, "%s%s", own, cg_find_reserved(own) ? "_" : "");
	else
		snprintf(text, TEXT_MAX, "t%d", ++*temporaries);
	for (int again = 1; *slot(names, text); again++) {
		if (!own)
			snprintf(text, TEXT_MAX, "t%d", ++*temporaries);
		else if (again == 1)
			snprintf(text, TEXT_MAX, "%s_all", own);
		else
			snprintf(text, TEXT_MAX, "%s_all%d", own, again);
	}
}

int cg_name_nodes(const struct cg_pass_plan *plan, const struct cg_function *function, struct cg_arena *memory, const char ***result)
{
	const struct cg_graph *graph = &plan->graph;
	size_t n = (size_t)graph->n;
	const char **name = cg_arena_alloc(memory, n * sizeof *name);
	struct use *use = cg_arena_alloc(memory, n * sizeof *use);
	struct names names = { NULL, 64 };
	int temporaries = 0;

	while (names.capacity < 2 * (n + (size_t)function->n_arguments))
		names.capacity *= 2;
	names.slots = cg_arena_alloc(memory, names.capacity * sizeof *names.slots);
	if (!name || !names.slots || !use)
		return -1;
	count_uses(graph, function, use);
	name_inputs(function, &names, name);
	for (int k = 0; k < function->n_schedule; k++) {
		int id = function->schedule[k];
		const struct cg_node *node = &graph->nodes[id];
		const char *own = own_name(graph, function, id);
		char *text;

		use[id].size = 1;
		for (int which = 0; which < cg_operators[node->code].arity; which++)
			use[id].size += name[operand_of(node, which)] ? 0 : use[operand_of(node, which)].size;
		if (!own && is_inline(node, &use[id]))
			continue;
		text = cg_arena_alloc(memory, TEXT_MAX);
		if (!text)
			return -1;
		choose_name(&names, own, &temporaries, text);
		name[id] = *slot(&names, text) = text;
	}
	*result = name;
	return memory->failed ? -1 : 0;
}
