/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The functions that a .cell may call: operators, whose table is ops.h, and forms.
 */
#include "parse.h"

#include <string.h>

/*
 * Forms: functions that stand for an expression of other functions, in which x is the argument, or x and y are the arguments.  The parser
 * reads that expression at each call.  The names of forms are not reserved, so that a .cell may give them to values.
 *
 * hard_sigmoid is (x + 3) / 6 between -3 and 3.  The derivative of hard_sigmoid is 0 at -3 and 3; an expression of min and max would have
 * half of 1/6 there.
 * softplus is log(1 + e^x).  It has an operator, since log1p(exp(x)) is infinite for a large x, and takes longer.
 */
static const struct cg_form forms[] = {
	{ "silu",         1, "x * sigmoid(x)", 0 },
	{ "softsign",     1, "x / (1 + abs(x))", 0 },
	{ "hard_sigmoid", 1, "step(3 - abs(x)) * (clip(x, 3) + 3) / 6 + (1 - step(3 - abs(x))) * step(x)", 0 },
	{ "softplus",     1, NULL, CG_OP_SOFTPLUS },
	{ "gelu",         1, "x / 2 * (1 + erf(x / sqrt(2)))", 0 },
};
enum { FORMS = sizeof forms / sizeof *forms };

const struct cg_form *cg_form_find(const char *name)
{
	for (int k = 0; k < FORMS; k++)
		if (!strcmp(forms[k].name, name))
			return &forms[k];
	return NULL;
}

int cg_operator_find(const char *name)
{
	int code = CG_OP_LEAF + 1;

	while (code < CG_OP_COUNT && (!cg_operators[code].word || strcmp(cg_operators[code].word, name)))
		code++;
	return code;
}

int cg_function_names(const char *names[CG_FUNCTION_NAMES_MAX])
{
	int n = 0;

	_Static_assert(CG_OP_COUNT + FORMS <= CG_FUNCTION_NAMES_MAX, "there are more operators and forms than CG_FUNCTION_NAMES_MAX");
	for (int code = CG_OP_LEAF + 1; code < CG_OP_COUNT; code++)
		if (cg_operators[code].word)
			names[n++] = cg_operators[code].word;
	for (int k = 0; k < FORMS; k++)
		names[n++] = forms[k].name;
	return n;
}
