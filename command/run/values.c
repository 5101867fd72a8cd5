/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the values of a cell's params from text: "leak=0.5,bias=1".
 */
#include <string.h>

#include "command/output.h"
#include "command/run/op_call.h"
#include "verify/field.h"

int values_read(const char *text, char **memory, struct cg_value values[], int *n)
{
	char *word, *rest, *equals, shown[PRINT_NAME];

	*memory = cg_memory(NULL, strlen(text) + 1);
	if (!*memory)
		return CG_NO_MEMORY;
	for (rest = strcpy(*memory, text); (word = strtok_r(rest, ",", &rest)); ++*n) {
		equals = strchr(word, '=');
		if (*n == CG_PARAMS_MAX)
			return cg_fail(CG_BAD_ARGUMENT, "values: expected at most %d params, got more", CG_PARAMS_MAX);
		if (!equals || field_real(equals + 1, &values[*n].value))
			return cg_fail(CG_BAD_ARGUMENT, "values: expected NAME=NUMBER with commas between, got \"%s\"", print_name(shown, word));
		*equals = '\0';
		values[*n].name = word;
	}
	return CG_OK;
}
