/* SPDX-License-Identifier: Apache-2.0 */
/* What a pass of a cell loads, stores and computes, for each element. */
#ifndef PASS_FACTS_H
#define PASS_FACTS_H

#include "runtime/device/inspect.h"

enum { FACTS_MAX = 1024 };
_Static_assert((int)FACTS_MAX >= CG_VALUES_MAX + CG_SAVES_MAX + 8 * (CG_GATES_MAX + CG_WEIGHTS_MAX),
               "struct fact_names has space for all names of a pass");

struct fact_names { const char *name[FACTS_MAX]; int n; };
int fact_names_have(const struct fact_names *, const char *name);

struct pass_facts {
	struct cg_pass_plan *plan;               /* the pass's plan; the names below are in the memory of the plan and of the cell */
	struct fact_names loads, stores;         /* tensors and vectors */
	struct fact_names recomputes;            /* names of values that a gradient computes again, since forward does not save them */
	struct fact_names sums;                  /* gradients that are sums over rows, or over rows and units */
	struct fact_names sum_loads;             /* tensors and vectors that functions load to compute sums */
	int bytes;                               /* bytes of tensors loaded and stored for one element; vectors and sums do not count */
	int operations, functions;               /* operations of an element; functions: those that are exp, tanh and the like */
};

/* Finds the facts about a pass of a cell; pass_facts_close() frees the facts. Returns CG_BAD_ARGUMENT if the cell does not have the pass;
 * the message says why. */
int  pass_facts_open(struct pass_facts *, const struct cg_cell *, int options, int pass, int dtype);
void pass_facts_close(struct pass_facts *);

#endif
