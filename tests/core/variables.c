/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Prints the table of environment variables, for the test of the manual pages: reader, name, allowed words (- for none) and default,
 * with tabs between.
 */
#include <stdio.h>

#include "runtime/core/environment.h"

int main(void)
{
	for (const struct cg_variable *v = cg_variables; v < cg_variables + CG_ENV_VARIABLES; v++)
		printf("%s\t%s\t%s\t%s\n", v->reader, v->name, v->choices ? v->choices : "-", v->fallback ? v->fallback : "");
	return 0;
}
