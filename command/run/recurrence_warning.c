/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Warns of a cell that reads a state, or the output, of the step before only with options that are off: without that recurrence the cell
 * may not compute what its author meant.
 */
#include <stdio.h>
#include <string.h>

#include "runtime/device/inspect.h"
#include "command/command.h"

const char *cell_options(const struct cg_cell *cell, int options, const char *between, char text[CELL_OPTIONS])
{
	size_t n = 0;

	text[0] = '\0';
	for (int k = 0; k < cell->n_options && n < CELL_OPTIONS; k++)
		if (options >> k & 1)
			n += (size_t)snprintf(text + n, CELL_OPTIONS - n, "%s%s", n ? between : "", cell->options[k].name);
	return text;
}

int command_warn_recurrence(const char *command, const struct cg_cell *cell, const char *options, const char *how)
{
	char lost[(CG_STATES_MAX + 1) * (CG_NAME_MAX + 8)] = "", more[CELL_OPTIONS], all[CELL_OPTIONS];
	struct cg_mistake mistake;
	int given = cg_parse_options(cell, options, &mistake), add, prevs;

	if (given < 0)
		return CG_OK;                    /* `options` has a mistake, which the code that computes the cell reports */
	prevs = cg_lost_prevs(cell, given, cg_memory, &add);
	if (prevs < 0)
		return CG_NO_MEMORY;
	for (int k = 0; k < cell->n_prevs; k++)
		if (prevs >> k & 1)
			snprintf(lost + strlen(lost), sizeof lost - strlen(lost), "%s%s", *lost ? " and " : "", cell->prevs[k].name);
	if (prevs)
		command_warn(command, "the equations of cell %s read %s only with the option%s %s, which %s off: add %s%s", cell->name, lost,
		             add & (add - 1) ? "s" : "", cell_options(cell, add, " and ", more), add & (add - 1) ? "are" : "is", how,
		             cell_options(cell, given | add, ",", all));
	return CG_OK;
}
