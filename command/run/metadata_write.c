/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the metadata of an output file: the op, its attributes, and properties that identify a reserve space.
 */
#include <string.h>

#include "command/run/op_call.h"

/* Does another entry of the metadata, or the absence of an entry, already imply the value of this attribute? */
static int is_implied(const struct call *c, const struct cg_attribute *a)
{
	const struct cg_attribute *cell = attribute_find(c, "cell");

	if (a->kind == CG_TEXT && !cg_attribute_number(a, c->op))
		return 1;
	return cell && cg_attribute_number(cell, c->op) && !strcmp(a->name, "rnn_mode");
}

json_t *call_metadata(const struct call *c)
{
	json_t *all = json_pack("{s:s}", "op", c->name);
	char text[CG_ATTRIBUTE_TEXT];
	int failed = 0;

	for (const struct cg_attribute *a = c->row->attributes; a->name && all; a++)
		if (attribute_is_of(c, a) && !is_implied(c, a))
			failed |= json_object_set_new(all, a->name, json_string(cg_attribute_text(a, c->op, text)));
	if (all && (failed || plan_add_metadata(c, all))) {
		json_decref(all);
		all = NULL;
	}
	if (!all)
		cg_fail(CG_NO_MEMORY, "no memory for metadata");
	return all;
}
