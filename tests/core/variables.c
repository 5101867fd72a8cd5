/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the table of the environment's variables, for the test of the manual pages: the reader, the name, the words that are allowed,
 * - for none, and what holds without it, with tabs.
 */
#include <stdio.h>

#include "runtime/core/environment.h"

int main(void)
{
	for (const struct cg_variable *v = cg_variables; v < cg_variables + CG_ENV_VARIABLES; v++)
		printf("%s\t%s\t%s\t%s\n", v->reader, v->name, v->choices ? v->choices : "-", v->fallback ? v->fallback : "");
	return 0;
}
